"""Generalised linear models when the outcome was only published as a table.

Names are imported when they are first used, so that ``import unbin`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbin import datasets, exceptions
    from unbin.analysis import glm
    from unbin.classifier import AggregatedClassifier
    from unbin.disclosure import audit
    from unbin.estimator import AggregatedGLM
    from unbin.permutation import permutation_test
    from unbin.regressor import AggregatedRegressor
    from unbin.release import AggregatedTarget, Release
    from unbin.release.aggregation import aggregate
    from unbin.release.join import join
    from unbin.release.observed import observed
    from unbin.release.readers import read_release, read_releases
    from unbin.results import plots, report
    from unbin.results.comparison import compare
    from unbin.results.persistence import load, save
    from unbin.selection import BlockKFold, cross_validate

__all__ = [
    "AggregatedClassifier",
    "AggregatedGLM",
    "AggregatedRegressor",
    "AggregatedTarget",
    "BlockKFold",
    "Release",
    "aggregate",
    "audit",
    "compare",
    "cross_validate",
    "datasets",
    "exceptions",
    "glm",
    "join",
    "load",
    "observed",
    "permutation_test",
    "plots",
    "read_release",
    "read_releases",
    "report",
    "save",
]
__version__ = "0.1.0"

_HOME = {
    "AggregatedClassifier": "unbin.classifier",
    "AggregatedGLM": "unbin.estimator",
    "AggregatedRegressor": "unbin.regressor",
    "AggregatedTarget": "unbin.release",
    "BlockKFold": "unbin.selection",
    "Release": "unbin.release",
    "aggregate": "unbin.release.aggregation",
    "audit": "unbin.disclosure",
    "compare": "unbin.results.comparison",
    "cross_validate": "unbin.selection",
    "glm": "unbin.analysis",
    "join": "unbin.release.join",
    "load": "unbin.results.persistence",
    "observed": "unbin.release.observed",
    "permutation_test": "unbin.permutation",
    "read_release": "unbin.release.readers",
    "read_releases": "unbin.release.readers",
    "save": "unbin.results.persistence",
}
"""Where each public class and function lives."""

_MODULES = {
    "datasets": "unbin.datasets",
    "exceptions": "unbin.exceptions",
    "plots": "unbin.results.plots",
    "report": "unbin.results.report",
}
"""Where each public module lives."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOME:
        raise AttributeError(f"module 'unbin' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
