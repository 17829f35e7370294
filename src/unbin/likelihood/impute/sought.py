"""What several tables say, as sums that shares of people are to meet, and how they are met.

Suppressed and rounded counts are not taken apart by one table alone, which the others would
contradict: the shares start from what the fit expects of the counts within their intervals, and the
hidden counts of a block may then move, their total kept, as far as their intervals go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unbin._typing import BoolArray, FloatArray
from unbin.likelihood.data.counts import PublishedCounts
from unbin.likelihood.impute.margins import MET, Cells, Margins, Raked, rake, sweep, tilt
from unbin.likelihood.impute.raking import fill_hidden

_SWEEPS = 10
"""Sweeps over tables that do not agree."""


@dataclass(frozen=True, slots=True)
class Sought:
    """Counts of a table that are to be met.

    Attributes
    ----------
    count : (B, K)
    free : (B, K) bool
        Counts that may move, their total in each block kept.
    """

    count: FloatArray
    free: BoolArray


def sought(counts: PublishedCounts) -> Sought:
    """Return the counts of a table that was published in part: hidden ones are free."""
    nothing = np.zeros_like(counts.count)
    nothing[:, 0] = counts.n
    known = counts.known[:, None]
    free = np.broadcast_to(~known, nothing.shape) | _hidden(counts)
    return Sought(np.where(known, counts.count, nothing), free)


def _hidden(counts: PublishedCounts) -> BoolArray:
    """Mark suppressed and rounded counts, shape (B, K)."""
    if counts.low is None or counts.high is None:
        return np.zeros(counts.count.shape, dtype=bool)
    return np.asarray((counts.low < counts.high) & counts.known[:, None])


def people(counts: PublishedCounts) -> tuple[FloatArray, BoolArray]:
    """Return the share of a block's people in each bin, and where anybody may be."""
    known, hidden = counts.known[:, None], _hidden(counts)
    share = np.where(hidden, np.maximum(counts.count, 0.5), counts.count) * known
    return share / np.maximum(counts.n, 1)[:, None], (share > 0) | ~known


def margins(tables: Sequence[Sought]) -> Margins:
    """Return the sums that are to be met; free counts of a block are one sum."""
    slots, first = [], 0
    for table in tables:
        cell = first + np.arange(table.free.size).reshape(table.free.shape)
        leader = np.take_along_axis(cell, table.free.argmax(axis=1)[:, None], axis=1)
        slots.append(np.where(table.free, leader, cell).ravel())
        first += table.free.size
    _, slot = np.unique(np.concatenate(slots), return_inverse=True)
    count = np.concatenate([table.count.ravel() for table in tables])
    return Margins(slot, np.bincount(slot, count).astype(np.float64))


def by_table(cell: FloatArray, tables: Sequence[Sought]) -> list[FloatArray]:
    """Return values of cells as one (B, K) array per table."""
    parts = np.split(cell, np.cumsum([table.count.size for table in tables])[:-1])
    return [part.reshape(t.count.shape) for part, t in zip(parts, tables, strict=True)]


def meet(
    q: FloatArray,
    cells: Cells,
    counts: Sequence[PublishedCounts],
    start: FloatArray | None = None,
) -> tuple[Raked, list[Sought]]:
    """Rake to all tables, hidden counts kept within their intervals.

    ``start`` (C,) are factors that are part of what is raked.
    """
    tables = [sought(c) for c in counts]
    if not any(_hidden(c).any() for c in counts):
        return rake(q, cells, margins(tables), start), tables
    share, cell = np.empty_like(q), np.empty(cells.size)
    tilt(q, cells, np.zeros(cells.size), share, cell)
    expected = zip(counts, by_table(cell, tables), strict=True)
    filled = [c if c.low is None else fill_hidden(c, mean) for c, mean in expected]
    alone = [sought(replace(c, low=None, high=None)) for c in filled]
    tables = [replace(t, count=a.count) for t, a in zip(tables, alone, strict=True)]
    start = sweep(q, cells, margins(alone), _SWEEPS).factor if start is None else start
    while True:
        found = rake(q, cells, margins(tables), start)
        sums = by_table(found.cell, tables)
        moved = [_hold(*each) for each in zip(tables, counts, sums, strict=True)]
        if all(m is None for m in moved) or not all_met(found, tables):
            return found, tables
        tables = [t if m is None else m for t, m in zip(tables, moved, strict=True)]
        start = found.factor


def _hold(table: Sought, counts: PublishedCounts, sums: FloatArray) -> Sought | None:
    """Put hidden counts that left their intervals at the end they left by; None if none did.

    Of a block's, those on the side that is further off: the others move when these are held.
    """
    if counts.low is None or counts.high is None:
        return None
    may = table.free & counts.known[:, None]
    over, under = (
        np.where(may & (by > MET), by, 0.0) for by in (sums - counts.high, counts.low - sums)
    )
    upwards = over.sum(axis=1, keepdims=True) >= under.sum(axis=1, keepdims=True)
    held = np.where(upwards, over, under) > 0
    if not held.any():
        return None
    total = np.where(may, table.count, 0.0).sum(axis=1)
    count = np.where(held, np.where(upwards, counts.high, counts.low), table.count)
    free = table.free & ~held
    # what is left goes to the free counts, of which only the total matters
    left = total - np.where(may & held, count, 0.0).sum(axis=1)
    share = np.where(may & free, left[:, None] / np.maximum(free.sum(axis=1), 1)[:, None], count)
    return Sought(share, free)


def compromise(q: FloatArray, cells: Cells, tables: list[Sought]) -> Raked:
    """Fit tables that contradict each other in turn, and last rake to the first alone."""
    start = sweep(q, cells, margins(tables), _SWEEPS).factor
    first, *others = tables
    ignored = [replace(table, free=np.ones_like(table.free)) for table in others]
    return rake(q, cells, margins([first, *ignored]), start)


def gaps(found: Raked, tables: Sequence[Sought]) -> list[FloatArray]:
    """Return, per table, by how many people the worst count of each block is missed, (B,)."""
    wanted = margins(tables)
    gap = np.abs(wanted.sums(found.cell) - wanted.total)[wanted.slot]
    return [by_cell.max(axis=1) for by_cell in by_table(gap, tables)]


def all_met(found: Raked, tables: Sequence[Sought]) -> bool:
    """Tell whether every count is met."""
    return all(gap.max(initial=0.0) <= MET for gap in gaps(found, tables))
