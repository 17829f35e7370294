"""Columns of a release, checked: every complaint names the block and says what to do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from unbin._blocks import segment_sum
from unbin._frames import as_floats, as_text, column, refuse_huge
from unbin._typing import FloatArray, IntArray, TextArray
from unbin.exceptions import BinError, CountError, OrderStatisticError, ReleaseError

EVERYBODY = "all"
"""The id of the only block of a release that is not split into blocks."""
_LARGEST = 1e15
"""The largest count or rank: beyond 2**53 floats skip whole numbers."""


def read_ids(frame: Any, block: str | Sequence[str] | None, *, value: str, role: str) -> TextArray:
    """Return the block id of each row as text; without blocks, column ``value`` has the rows.

    Several columns are those of a crossed table, whose blocks are their cells.
    """
    if block is None:
        ids = np.full(len(column(frame, value, role=role)), EVERYBODY)
    elif not isinstance(block, str):
        listed = isinstance(block, Collection) and len(block) > 0
        if not listed or not all(isinstance(name, str) for name in block):
            raise ReleaseError(
                f"block: must name a column of block ids, or several, got {block!r}; pass their "
                "names, or None for a table about everybody"
            )
        cells = {name: column(frame, name, role="block") for name in block}
        ids = as_text(cells, where="blocks")
    else:
        ids = as_text(column(frame, block, role="block"), where=f"column {block!r}")
    if ids.size == 0:
        raise ReleaseError(
            "release: nothing was published, got a table with 0 rows; pass one row per statistic"
        )
    return ids


def read_floats(frame: Any, name: str, ids: TextArray, *, role: str) -> FloatArray:
    """Return a column of numbers, one per block id; nulls become NaN."""
    values = as_floats(column(frame, name, role=role), where=f"column {name!r}")
    if len(values) != len(ids):
        raise ReleaseError(
            f"column {name!r}: must be as long as the block ids, got {len(values)} values for "
            f"{len(ids)} rows; pass columns of one length"
        )
    return values


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
    counts = read_floats(frame, name, ids, role="count")
    for bad, what in (
        (np.isnan(counts), "is missing"),
        (counts > _LARGEST, "is too large"),
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


def read_percentages(frame: Any, name: str, ids: TextArray, people: IntArray | None) -> FloatArray:
    """Return percentages, which need the number of people to be counts."""
    if people is None:
        raise CountError(
            f"column {name!r}: percentages need the number of people, got none; pass n=... with "
            "its column"
        )
    percent = read_floats(frame, name, ids, role="percent")
    bad = ~((percent >= 0) & (percent <= 100))
    if bad.any():
        k = int(np.argmax(bad))
        raise CountError(
            f"block {str(ids[k])!r}: percentages lie between 0 and 100, got {percent[k]:g}; "
            "correct it, or drop the block"
        )
    return percent


def percent_counts(
    percent: FloatArray, people: IntArray, start: IntArray, names: TextArray
) -> IntArray:
    """Return counts that add up to n and are nearest to the percentages (largest remainders)."""
    block = np.repeat(np.arange(len(names)), np.diff(start))
    total = np.bincount(block, weights=percent)
    off = (np.abs(total - 100) > 0.5 * np.diff(start) + 1e-9) | (total == 0)
    if off.any():
        b = int(np.argmax(off))
        raise CountError(
            f"block {str(names[b])!r}: percentages must add up to 100, got {total[b]:g}; multiply "
            "shares of 1 by 100, or add the missing bin"
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
    refuse_huge(values, where=f"column {name!r}", error=ReleaseError)


def read_ranks(frame: Any, name: str, ids: TextArray) -> IntArray:
    """Return ranks, which count from 1."""
    ranks = read_floats(frame, name, ids, role="rank")
    bad = ~((ranks >= 1) & (ranks <= _LARGEST)) | (ranks != np.rint(ranks))
    if bad.any():
        k = int(np.argmax(bad))
        raise OrderStatisticError(
            f"block {str(ids[k])!r}: ranks are whole numbers from 1 (the smallest value), got "
            f"{ranks[k]:g}; count from 1"
        )
    return ranks.astype(np.int64)


def read_quantiles(frame: Any, name: str, ids: TextArray) -> FloatArray:
    """Return quantiles between 0 and 1."""
    quantiles = read_floats(frame, name, ids, role="quantile")
    bad = ~((quantiles >= 0) & (quantiles <= 1))
    if bad.any():
        k = int(np.argmax(bad))
        raise OrderStatisticError(
            f"block {str(ids[k])!r}: quantiles lie between 0 and 1, got {quantiles[k]:g}; divide "
            "percentiles by 100"
        )
    return quantiles
