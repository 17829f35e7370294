"""Counts known only as intervals: cells that were suppressed or rounded.

A suppressed cell is an interval of counts, never a missing value, and so is a rounded one. The
people of a block are known, which narrows the intervals of its cells.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbin._blocks import block_of_rows, first_rows, segment_cumsum, segment_sum
from unbin._typing import BoolArray, FloatArray, IntArray, TextArray
from unbin.exceptions import CountError, ParameterError
from unbin.release.fields import read_counts, read_floats
from unbin.release.tables import Histogram

_SCHEME = re.compile(r"(nearest|random|down|up)-(\d{1,9}(?:\.\d{1,9})?)(%?)")


@dataclass(frozen=True, slots=True)
class Rounding:
    """How a publisher rounds.

    Attributes
    ----------
    below, above : float
        How much smaller and larger the truth may be than what was published.
    percent : bool
        Whether percentages were rounded, or counts.
    """

    below: float
    above: float
    percent: bool

    @classmethod
    def parse(cls, scheme: Any) -> Rounding:
        """Read a named scheme: "nearest-5", "random-3", "down-10", "up-5", "nearest-0.1%"."""
        found = _SCHEME.fullmatch(scheme) if isinstance(scheme, str) else None
        if found is None or float(found[2]) == 0 or (not found[3] and "." in found[2]):
            raise ParameterError(
                f"rounding: unknown, got {scheme!r}; say for example 'nearest-5', 'random-3', "
                "'down-10', or 'nearest-0.1%' for percentages"
            )
        how, base, percent = found[1], float(found[2]), bool(found[3])
        whole = base if percent else base - 1  # a count moves by less than the base
        half = base / 2 if percent else base // 2
        below, above = {
            "nearest": (half, half),
            "random": (whole, whole),
            "down": (0.0, whole),
            "up": (whole, 0.0),
        }[how]
        return cls(below, above, percent)

    def of_counts(self, count: IntArray) -> tuple[IntArray, IntArray]:
        """Return the counts that may have been published as ``count``."""
        low, high = np.maximum(count - int(self.below), 0), count + int(self.above)
        return low.astype(np.int64), high.astype(np.int64)

    def of_percentages(self, percent: FloatArray, n: IntArray) -> tuple[IntArray, IntArray]:
        """Return the counts out of ``n`` that may have been published as ``percent``."""
        low = np.ceil((percent - self.below) / 100 * n - 1e-9)
        high = np.floor((percent + self.above) / 100 * n + 1e-9)
        low, high = np.maximum(low, 0), np.minimum(high, n)
        nearest = np.rint(percent / 100 * n)  # where no whole count rounds to it, the nearest one
        return (
            np.minimum(low, nearest).astype(np.int64),
            np.maximum(high, nearest).astype(np.int64),
        )


def read_intervals(
    frame: Any, ids: TextArray, *, count: str | None, low: str, high: str
) -> tuple[IntArray, IntArray]:
    """Return the interval of every count; where it is missing the count itself is exact."""
    ends = [read_floats(frame, name, ids, role="count") for name in (low, high)]
    missing = np.isnan(ends[0]) | np.isnan(ends[1])
    exact = np.zeros(len(ids), np.int64)
    values = None if count is None else read_floats(frame, count, ids, role="count")
    if count is not None and values is not None and missing.any():
        columns = {count: np.where(missing, values, 0.0)}
        exact = read_counts(columns, count, ids)
    elif missing.any():
        k = int(np.argmax(missing))
        raise CountError(
            f"block {str(ids[k])!r}: a suppressed count needs both ends of its interval, got "
            f"{ends[0][k]:g} and {ends[1][k]:g} in row {k}; fill in columns {low!r} and {high!r}"
        )
    filled = {
        name: np.where(missing, 0.0, end) for name, end in zip((low, high), ends, strict=True)
    }
    bottom, top = (read_counts(filled, name, ids) for name in (low, high))
    if (bottom > top).any():
        k = int(np.argmax(bottom > top))
        raise CountError(
            f"block {str(ids[k])!r}: an interval of counts runs from low to high, got {bottom[k]} "
            f"to {top[k]} in row {k}; swap columns {low!r} and {high!r}"
        )
    if values is not None:
        outside = ~missing & ((values < bottom) | (values > top))
        if outside.any():
            k = int(np.argmax(outside))
            raise CountError(
                f"block {str(ids[k])!r}: a count lies in its interval, got {values[k]:g} outside "
                f"{bottom[k]} to {top[k]} in row {k}; correct one of them, or leave the count out"
            )
    return np.where(missing, exact, bottom), np.where(missing, exact, top)


def with_intervals(table: Histogram, low: IntArray, high: IntArray) -> Histogram:
    """Return a table whose counts lie in the given intervals, at their middle for now."""
    if (low == high).all():
        return replace(table, count=low, count_low=None, count_high=None)
    return replace(table, count=(low + high) // 2, count_low=low, count_high=high)


def uncertain_blocks(table: Histogram) -> BoolArray:
    """Mark the blocks with a count that is only known as an interval."""
    if table.count_low is None and table.count_high is None:
        return np.zeros(len(table.start) - 1, dtype=bool)
    return segment_sum(table.hidden().astype(np.int64), table.start) > 0


def possible_people(table: Histogram) -> tuple[IntArray, IntArray]:
    """Return how many people each block has at least, and at most."""
    low, high = table.interval()
    least = segment_sum(low, table.start)
    return least, least if high is low else segment_sum(high, table.start)


def narrow(table: Histogram, n: IntArray) -> Histogram:
    """Use the people of each block: narrower intervals, and counts inside them that add up.

    The people must be possible (:func:`possible_people`). A block without a table stays without.
    """
    if table.count_low is None:
        return table
    low, high = table.interval()
    block = block_of_rows(table.start)
    least, most = possible_people(table)
    new_low = np.maximum(low, n[block] - (most[block] - high))
    new_high = np.minimum(high, n[block] - (least[block] - low))
    if (new_low == new_high).all():
        return replace(table, count=new_low, count_low=None, count_high=None)
    slack = new_high - new_low
    room = segment_sum(slack, table.start)
    missing = n - segment_sum(new_low, table.start)
    share = np.where(room > 0, missing / np.maximum(room, 1), 0.0)
    running = np.rint(segment_cumsum(slack, table.start) * share[block]).astype(np.int64)
    before = np.where(first_rows(table.start), 0, np.roll(running, 1))
    return replace(table, count=new_low + running - before, count_low=new_low, count_high=new_high)
