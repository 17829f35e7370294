"""Whole fits, and the figures they gave: what a change of the likelihood moved, and by how much."""
