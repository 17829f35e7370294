"""Generalised linear models when the outcome was only published as a table.

Names are imported when they are first used, so that ``import unbin`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbin.aggregation import aggregate
    from unbin.disclosure import audit
    from unbin.estimator import AggregatedGLM
    from unbin.permutation import permutation_test
    from unbin.persistence import load, save
    from unbin.readers import read_release
    from unbin.regressor import AggregatedRegressor
    from unbin.release import Release
    from unbin.selection import BlockKFold
    from unbin.target import AggregatedTarget

__all__ = [
    "AggregatedGLM",
    "AggregatedRegressor",
    "AggregatedTarget",
    "BlockKFold",
    "Release",
    "aggregate",
    "audit",
    "load",
    "permutation_test",
    "read_release",
    "save",
]
__version__ = "0.1.0"

_HOME = {
    "AggregatedGLM": "unbin.estimator",
    "AggregatedRegressor": "unbin.regressor",
    "AggregatedTarget": "unbin.target",
    "BlockKFold": "unbin.selection",
    "Release": "unbin.release",
    "aggregate": "unbin.aggregation",
    "audit": "unbin.disclosure",
    "load": "unbin.persistence",
    "permutation_test": "unbin.permutation",
    "save": "unbin.persistence",
    "read_release": "unbin.readers",
}

_MODULES = ("plots", "report")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"unbin.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'unbin' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_MODULES])
