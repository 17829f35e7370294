"""People whose target is published as a table: simulated, and from public files."""

from unbin.datasets.dataset import Dataset
from unbin.datasets.simulate import Simulation, simulate
from unbin.datasets.synpuf import load_synpuf
from unbin.datasets.texas import load_texas

__all__ = ["Dataset", "Simulation", "load_synpuf", "load_texas", "simulate"]
