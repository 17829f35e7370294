"""The bins of everybody: what the bins of all tables are unions of.

Where all tables have the same bins in every block these are the bins between all of their cuts.
Where the bins of a table differ between blocks, or values were published, each crossed cell has
bins of its own. A statistic of a table is then the number of people in consecutive bins, and a
published value the number of people at or below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbin._typing import FloatArray, IntArray
from unbin.families import Interval
from unbin.likelihood.data.tables import Table, bins_between


@dataclass(frozen=True, slots=True)
class Grid:
    """The bins of cells, and which of them the statistics of each table count.

    Attributes
    ----------
    lower, upper : (K,), or (C, K) where bins differ between cells
        Bins with ``lower > upper`` are padding.
    first, last : tuple of (L,) or (C, L)
        Of each table: its statistic k counts the people in the bins ``first[k]`` to
        ``last[k] - 1``. The total has the place after the bins.
    turn : (C, K - 1) or None
        Where cells have bins of their own: which of their cuts, as they come table by table, ends
        each bin.
    """

    lower: FloatArray
    upper: FloatArray
    first: tuple[IntArray, ...]
    last: tuple[IntArray, ...]
    turn: IntArray | None = None

    @property
    def n_bins(self) -> int:
        """Bins of a cell, padding included."""
        return int(self.lower.shape[-1])


def grid_of(tables: Sequence[Table], codes: IntArray, domain: Interval) -> Grid:
    """Return the bins of tables, in which cells have the blocks ``codes`` (T, C)."""
    alike = all(table.counts.shared and table.order is None for table in tables)
    if len(tables) == 1 and tables[0].order is None and (alike or codes.shape[1] == len(codes[0])):
        counts = tables[0].counts
        place = np.arange(counts.n_bins + (tables[0].means is not None))
        at = slice(None) if counts.shared else codes[0]
        return Grid(counts.lower[at], counts.upper[at], (place,), (place + 1,))
    if alike:
        cuts = [table.counts.upper[:-1] for table in tables]
        lower, upper = bins_between(np.unique(np.concatenate([np.zeros(0), *cuts])), domain)
        ends = [np.searchsorted(upper[:-1], each) + 1 for each in cuts]
        return _of_ends(lower, upper, ends, tables)
    return _of_cells(tables, codes, domain)


def shared_cuts(tables: Sequence[Table]) -> FloatArray:
    """Return the cuts that tables share among their blocks, of all tables."""
    cuts = [table.counts.upper[:-1] for table in tables if table.counts.shared]
    return np.unique(np.concatenate([np.zeros(0), *cuts]))


def own_cuts(table: Table, codes: IntArray) -> FloatArray:
    """Return the cuts that cells in these blocks have of a table alone, (C, J); inf in padding."""
    found = [np.zeros((len(codes), 0))]
    if not table.counts.shared:
        found.append(table.counts.cuts()[codes])
    if table.order is not None:
        found.append(np.where(table.order.valid, table.order.value, np.inf)[codes])
    return np.concatenate(found, axis=1)


def _published(table: Table, domain: Interval) -> FloatArray:
    """Mark which of a table's own cuts are published whole numbers, (J,), by 1 and 0."""
    n_cuts = 0 if table.counts.shared else table.counts.n_bins - 1
    n_values = 0 if table.order is None else table.order.value.shape[1]
    return np.repeat([0.0, float(domain.integer)], [n_cuts, n_values])


def _of_cells(tables: Sequence[Table], codes: IntArray, domain: Interval) -> Grid:
    """Return bins between the cuts of each cell, sorted; of equal ones both stay.

    A published whole number lies between the numbers of people below it and at or below it, and
    comes before the cut of the same value.
    """
    n = codes.shape[1]
    shared = shared_cuts(tables)
    own = [own_cuts(table, each) for table, each in zip(tables, codes, strict=True)]
    cuts = np.concatenate([np.broadcast_to(shared, (n, len(shared))), *own], axis=1)
    later = [np.zeros(len(shared)), *(_published(table, domain) for table in tables)]
    turn = np.argsort(cuts - 0.5 * np.concatenate(later), axis=1, kind="stable")
    ordered = np.take_along_axis(cuts, turn, axis=1)
    rank = np.argsort(turn, axis=1)  # the bin that each cut ends
    ends, at = [], len(shared)
    for table, each in zip(tables, own, strict=True):
        mine = rank[:, at : at + each.shape[1]] + 1
        k = table.counts.n_bins - 1
        if table.counts.shared:
            place = np.searchsorted(shared, table.counts.upper[:-1])
            mine = np.concatenate([rank[:, place] + 1, mine], axis=1)
        ends.append(mine)
        at += each.shape[1]
        assert mine.shape[1] >= k
    after = ordered + 1 if domain.integer else ordered
    low, high = (np.full((n, 1), end) for end in (domain.low, domain.high))
    padding = np.isinf(ordered)
    lower = np.concatenate([low, np.where(padding, np.inf, after)], axis=1)
    upper = np.concatenate([ordered, high], axis=1)
    # the last real bin ends with the domain, those after it are padding
    last = (~padding).sum(axis=1)
    upper = np.where(np.arange(upper.shape[1]) == last[:, None], domain.high, upper)
    upper = np.where(np.arange(upper.shape[1]) > last[:, None], -np.inf, upper)
    found = _of_ends(lower, upper, ends, tables)
    return Grid(lower, upper, found.first, found.last, turn)


def _of_ends(
    lower: FloatArray, upper: FloatArray, ends: Sequence[IntArray], tables: Sequence[Table]
) -> Grid:
    """Return the grid of tables whose cuts lie after these many bins, (J,) or (C, J) of each."""
    n_bins, first, last = lower.shape[-1], [], []
    for table, mine in zip(tables, ends, strict=True):
        k, shape = table.counts.n_bins - 1, (*mine.shape[:-1], 1)
        zero, all_of_them = np.zeros(shape, np.int64), np.full(shape, n_bins)
        low, high = [zero, mine[..., :k]], [mine[..., :k], all_of_them]
        if table.means is not None:
            low.append(all_of_them)
            high.append(all_of_them + 1)
        if table.order is not None:
            low.append(np.zeros_like(mine[..., k:]))
            high.append(mine[..., k:])
        first.append(np.concatenate(low, axis=-1))
        last.append(np.concatenate(high, axis=-1))
    return Grid(lower, upper, tuple(first), tuple(last))
