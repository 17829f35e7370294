"""Columns of a release, checked: every complaint names the block and says what to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbin.exceptions import BinError, CountError, OrderStatisticError, ReleaseError
from unbin.frames import as_floats, as_text, column
from unbin.segments import segment_sum
from unbin.typing import FloatArray, IntArray, TextArray

EVERYBODY = "all"
"""The id of the only block of a release that is not split into blocks."""


def read_ids(frame: Any, block: str | None) -> TextArray:
    """Return the block id of each row as text."""
    if block is None:
        first = next(iter(frame)) if isinstance(frame, dict) else frame.columns[0]
        ids = np.full(len(frame[first]), EVERYBODY)
    else:
        ids = as_text(column(frame, block, role="block"), where=f"column {block!r}")
    if ids.size == 0:
        raise ReleaseError("release: empty, got a table with 0 rows")
    return ids


def whole_edges(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the lower edges; raise unless all finite edges are whole numbers."""
    edges = np.concatenate([low, high])
    edges = edges[np.isfinite(edges)]
    if (edges != np.rint(edges)).any():
        raise BinError(
            f"closed='both': edges must be whole numbers, got {edges[edges != np.rint(edges)][0]:g}"
            "; say closed='right' or 'left'"
        )
    return low


def read_counts(frame: Any, name: str, ids: TextArray) -> IntArray:
    """Return counts as integers."""
    counts = as_floats(column(frame, name, role="count"), where=f"column {name!r}")
    for bad, what in (
        (np.isnan(counts), "is missing"),
        (np.isinf(counts) | (counts > 1e15), "is too large"),
        (counts < 0, "is negative"),
        (counts != np.rint(counts), "is not a whole number"),
    ):
        if bad.any():
            k = int(np.argmax(bad))
            raise CountError(
                f"block {str(ids[k])!r}: the count {what}, got {counts[k]:g} in row {k} of column "
                f"{name!r}; correct it, or drop the block"
            )
    return counts.astype(np.int64)


def read_people(frame: Any, name: str, codes: IntArray, names: TextArray) -> IntArray:
    """Return the people of each block, which must be the same in all its rows."""
    people = read_counts(frame, name, names[codes])
    low = np.full(len(names), np.iinfo(np.int64).max)
    np.minimum.at(low, codes, people)
    high = np.zeros(len(names), np.int64)
    np.maximum.at(high, codes, people)
    bad = (low != high) | (low < 1)
    if bad.any():
        b = int(np.argmax(bad))
        got = f"{low[b]}" if low[b] == high[b] else f"{low[b]} and {high[b]}"
        raise CountError(
            f"block {str(names[b])!r}: column {name!r} must hold one number of people, at least 1, "
            f"got {got}; correct it"
        )
    return low


def read_percent_counts(
    frame: Any,
    name: str,
    people: IntArray | None,
    order: IntArray,
    start: IntArray,
    names: TextArray,
) -> IntArray:
    """Return counts that add up to n and are nearest to the percentages (largest remainders)."""
    if people is None:
        raise CountError(f"column {name!r}: percentages need the number of people; pass n=...")
    percent = as_floats(column(frame, name, role="percent"), where=f"column {name!r}")[order]
    block = np.repeat(np.arange(len(names)), np.diff(start))
    bad = ~((percent >= 0) & (percent <= 100))
    if bad.any():
        k = int(np.argmax(bad))
        raise CountError(
            f"block {str(names[block[k]])!r}: percentages lie between 0 and 100, got {percent[k]:g}"
        )
    total = np.bincount(block, weights=percent)
    off = np.abs(total - 100) > 0.5 * np.diff(start) + 1e-9
    if off.any():
        b = int(np.argmax(off))
        raise CountError(
            f"block {str(names[b])!r}: percentages add up to {total[b]:g}, expected 100; are they "
            "shares of 1, or is a bin missing?"
        )
    exact = percent / total[block] * people[block]
    count = np.floor(exact + 1e-9).astype(np.int64)
    rest = people - segment_sum(count, start)
    by_remainder = np.lexsort((count - exact, block))
    position = np.arange(len(count)) - np.repeat(start[:-1], np.diff(start))
    count[by_remainder] += position < rest[block]
    return count


def require_finite(values: FloatArray, ids: TextArray, name: str) -> None:
    """Raise unless every value is finite."""
    bad = ~np.isfinite(values)
    if bad.any():
        k = int(np.argmax(bad))
        raise OrderStatisticError(
            f"block {str(ids[k])!r}: column {name!r} must hold finite values, got {values[k]:g} in "
            f"row {k}; leave out what was not published"
        )


def read_ranks(frame: Any, name: str, ids: TextArray) -> IntArray:
    """Return ranks, which count from 1."""
    ranks = as_floats(column(frame, name, role="rank"), where=f"column {name!r}")
    bad = ~(ranks >= 1) | (ranks != np.rint(ranks)) | np.isinf(ranks)
    if bad.any():
        k = int(np.argmax(bad))
        raise OrderStatisticError(
            f"block {str(ids[k])!r}: ranks are whole numbers from 1 (the smallest value), got "
            f"{ranks[k]:g}; count from 1"
        )
    return ranks.astype(np.int64)


def read_quantiles(frame: Any, name: str, ids: TextArray) -> FloatArray:
    """Return quantiles between 0 and 1."""
    quantiles = as_floats(column(frame, name, role="quantile"), where=f"column {name!r}")
    bad = ~((quantiles >= 0) & (quantiles <= 1))
    if bad.any():
        k = int(np.argmax(bad))
        raise OrderStatisticError(
            f"block {str(ids[k])!r}: quantiles lie between 0 and 1, got {quantiles[k]:g}; divide "
            "percentiles by 100"
        )
    return quantiles
