"""Generalised linear models when the outcome was only published as a table."""

from unbin.estimator import AggregatedGLM
from unbin.release import Release, aggregate
from unbin.selection import BlockKFold
from unbin.target import AggregatedTarget

__all__ = ["AggregatedGLM", "AggregatedTarget", "BlockKFold", "Release", "aggregate"]
__version__ = "0.1.0"
