"""Two categories as the numbers 0 and 1: a binomial outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from unbin.release import AggregatedTarget, Release
from unbin.release.join import JoinedTarget
from unbin.release.observed import ObservedTarget


def in_numbers(y: Any) -> Any:
    """Return tables of categories as tables of the places of these."""
    if isinstance(y, Mapping):
        return {key: in_numbers(table) for key, table in y.items()}
    if isinstance(y, Release):
        return replace(y, categories=())
    if isinstance(y, AggregatedTarget):
        return y.with_release(in_numbers(y.release))
    if isinstance(y, ObservedTarget):
        return ObservedTarget(y.values, disjoint=y.disjoint)
    if isinstance(y, JoinedTarget):
        known = None if y.observed is None else in_numbers(y.observed)
        tables, given = (tuple(map(in_numbers, each)) for each in (y.tables, y.given))
        return JoinedTarget(tables, known, given)
    return y
