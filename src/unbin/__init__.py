"""Generalised linear models when the outcome was only published as a table."""
