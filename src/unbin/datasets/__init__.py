"""Simulated people whose target is published as a table."""

from unbin.datasets.simulate import Simulation, simulate

__all__ = ["Simulation", "simulate"]
