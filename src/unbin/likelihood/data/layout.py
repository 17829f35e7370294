"""How the statistics of several tables are stacked: groups of blocks, and a border.

Tables that nest are stacked group by group: a county with its cells by sex and by age. Groups have
nobody in common, so that the covariance of all their statistics is one of groups. A table that
crosses the groups (everybody by sex) is a *border*: one block beside all groups, whose covariance
with each of them is kept. Where the border would be too large, its tables stand *beside* the
others, as if other people were counted in them; the variance of the estimate is then worked out
over people (:mod:`unbin.likelihood.infer.people`).

One table is the case in which groups are its blocks.

A table whose blocks and bins are all sums of another one's has nothing to add, and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.likelihood.data.tables import Table
from unbin.likelihood.thresholds import (
    FEWEST_GROUPS,
    LARGEST_BORDER,
    LARGEST_GROUP,
    MOST_PARTS,
)
from unbin.release import Release


@dataclass(frozen=True)
class Stack:
    """Statistics of some tables, one after the other: those of a unit's blocks.

    A table has the same number of *slots* in every unit, as many as the unit with most of its
    blocks; slots without a block hold nothing.

    Attributes
    ----------
    tables : tuple of int
        Which tables.
    size : tuple of int
        Statistics of a block of each.
    unit : (C,)
        The unit of each cell.
    n_units : int
    blocks : tuple of (U, R)
        The block in each slot of each unit, -1 where there is none.
    slot : tuple of (B,)
        The slot of each block, -1 of one of which nothing was published.
    """

    tables: tuple[int, ...]
    size: tuple[int, ...]
    unit: IntArray
    n_units: int
    blocks: tuple[IntArray, ...]
    slot: tuple[IntArray, ...]

    @classmethod
    def of(
        cls, which: Sequence[int], tables: Sequence[Table], codes: IntArray, unit: IntArray
    ) -> Stack:
        """Stack tables; ``codes`` (T, C) are the blocks of cells, ``unit`` (C,) their units."""
        n_units = int(unit.max(initial=-1)) + 1
        found = [slots_of(codes[t], unit, n_units, tables[t].said) for t in which]
        blocks, slot = zip(*found, strict=True)
        size = tuple(tables[t].size for t in which)
        return cls(tuple(which), size, unit, n_units, blocks, slot)

    @cached_property
    def first(self) -> tuple[int, ...]:
        """Where the statistics of each table begin; last, how many there are."""
        each = [blocks.shape[1] * n for blocks, n in zip(self.blocks, self.size, strict=True)]
        return tuple(np.cumsum([0, *each]).tolist())

    @property
    def n_statistics(self) -> int:
        """Statistics of a unit."""
        return self.first[-1]

    @property
    def plain(self) -> bool:
        """Whether units are cells, and the blocks of a single table."""
        alone = len(self.tables) == 1 and self.blocks[0].shape[1] == 1
        return alone and len(self.unit) == self.n_units

    def place(self, j: int, codes: IntArray) -> IntArray:
        """Return where the statistics of cells' blocks in table j begin within their unit.

        -1 where nothing was published of a block.
        """
        slot = self.slot[j][codes]
        return np.where(slot >= 0, self.first[j] + slot * self.size[j], -1)

    def stacked(self, values: Sequence[FloatArray]) -> FloatArray:
        """Stack values (B, L) of the blocks of each table, (U, L); 0 where there is no block."""
        if self.plain and len(values[0]) == self.n_units:
            return values[0]
        kind = np.result_type(*values)
        found = np.zeros((self.n_units, self.n_statistics), kind)
        for j, (blocks, each) in enumerate(zip(self.blocks, values, strict=True)):
            there = np.where((blocks >= 0)[:, :, None], each[blocks], 0)
            found[:, self.first[j] : self.first[j + 1]] = there.reshape(self.n_units, -1)
        return found

    def of_table(self, j: int, values: FloatArray) -> FloatArray:
        """Return the values (B, L, …) of table j's blocks among those of units (U, L, …)."""
        here = values[:, self.first[j] : self.first[j + 1]]
        if self.plain and len(self.slot[j]) == self.n_units:
            return here
        slots = here.reshape(self.n_units, -1, self.size[j], *values.shape[2:])
        found = np.zeros((len(self.slot[j]), *slots.shape[2:]))
        at = np.nonzero(self.blocks[j] >= 0)
        found[self.blocks[j][at]] = slots[at]
        return found


def slots_of(
    codes: IntArray, unit: IntArray, n_units: int, said: BoolArray
) -> tuple[IntArray, IntArray]:
    """Return the blocks of each unit, (U, R), -1 where there is none, and the slot of each block.

    ``said`` (B,) marks the blocks of which something was published; others have no slot.
    """
    n_blocks, there = len(said), said[codes]
    pairs = np.unique(unit[there] * np.int64(n_blocks) + codes[there])
    unit, block = pairs // n_blocks, pairs % n_blocks
    start = np.searchsorted(unit, np.arange(n_units))
    place = np.arange(len(pairs)) - start[unit]
    blocks = np.full((n_units, max(int(place.max(initial=0)) + 1, 1)), -1, np.int64)
    blocks[unit, place] = block
    slot = np.full(n_blocks, -1, np.int64)
    slot[block] = place
    return blocks, slot


@dataclass(frozen=True, slots=True)
class Plan:
    """Which tables are stacked, and by what.

    Attributes
    ----------
    core, border, beside : tuple of int
        Tables that are stacked by group, that cross the groups, and that stand beside them.
    group : (C,)
        The group of each cell, in increasing order.
    """

    core: tuple[int, ...]
    border: tuple[int, ...]
    beside: tuple[int, ...]
    group: IntArray

    def stacks(self, tables: Sequence[Table], codes: IntArray) -> Layout:
        """Return the layout of tables, in which cells have the blocks ``codes`` (T, C)."""
        core = Stack.of(self.core, tables, codes, self.group)
        border = None
        if self.border:
            border = Stack.of(self.border, tables, codes, np.zeros_like(self.group))
        beside = tuple(Stack.of((t,), tables, codes, codes[t]) for t in self.beside)
        return Layout(core, border, beside)


@dataclass(frozen=True, slots=True)
class Layout:
    """The statistics of all tables.

    Attributes
    ----------
    core : Stack
        Units are groups.
    border : Stack or None
        Of one unit.
    beside : tuple of Stack
        Each of one table, whose blocks are its units.
    """

    core: Stack
    border: Stack | None = None
    beside: tuple[Stack, ...] = ()

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """All of them."""
        border = () if self.border is None else (self.border,)
        return (self.core, *border, *self.beside)

    @property
    def plain(self) -> bool:
        """Whether there is but one table, whose blocks are the groups."""
        return self.core.plain and self.border is None and not self.beside


def arrange(releases: Sequence[Release], codes: IntArray, *, sampled: bool = False) -> Plan:
    """Decide how tables are stacked, from the blocks of each crossed cell in them, (T, C).

    Cells are numbered so that those of a group, and of whatever holds whole groups, can lie side by
    side: groups are numbered in the order of the coarser tables.

    Parameters
    ----------
    releases : sequence of Release
    codes : (T, C)
    sampled : bool
        Whether rows are a sample: what that gets wrong is corrected table by table.
    """
    told = [t for t, release in enumerate(releases) if _distinguishes(release)] or [0]
    told = [t for t in told if not any(_implies(releases, codes, s, t) for s in told)]
    by_blocks = sorted(told, key=lambda t: -len(releases[t]))
    if sampled:
        return Plan(
            (by_blocks[0],), (), tuple(by_blocks[1:]), _numbered(codes[by_blocks[0]], codes)
        )
    # blocks of which nothing was published hold nobody together
    said = np.stack([r.has_statistics()[each] for r, each in zip(releases, codes, strict=True)])
    core, rest = by_blocks[:1], []
    group = _components(codes[core], said[core])
    for t in by_blocks[1:]:
        joined = _components(codes[[*core, t]], said[[*core, t]])
        if _worth_joining(releases, codes, said, [*core, t], group, joined):
            core, group = [*core, t], joined
        else:
            rest.append(t)
    # a table by the groups themselves joins them whenever it was looked at
    alike = [t for t in rest if holds(group, codes[t]) and holds(codes[t], group)]
    core, rest = [*core, *alike], [t for t in rest if t not in alike]
    rest.sort()
    small = sum(_n_statistics(releases[t]) for t in rest) <= LARGEST_BORDER
    border, beside = (tuple(rest), ()) if small else ((), tuple(rest))
    return Plan(tuple(sorted(core)), border, beside, _numbered(group, codes))


def _worth_joining(
    releases: Sequence[Release],
    codes: IntArray,
    said: BoolArray,
    core: Sequence[int],
    group: IntArray,
    joined: IntArray,
) -> bool:
    """Tell whether groups that a further table, the last of ``core``, joins are many and small."""
    t, n, before = core[-1], _n(joined), _n(group)
    if n < before and n < FEWEST_GROUPS:
        return False
    if n * MOST_PARTS < before and holds(group, codes[t]):  # it only puts groups together
        return False
    held = np.zeros(n)
    for s in core:
        each = _pairs(joined[said[s]], codes[s][said[s]]) // (int(codes[s].max()) + 1)
        held += np.bincount(each, minlength=n) * _width(releases[s])
    return bool(held.max() <= LARGEST_GROUP)


def _distinguishes(release: Release) -> bool:
    """Tell whether a table has more than one bin, or means, or values."""
    several = (np.diff(release.histogram.start) > 1).any()
    return bool(several or release.means is not None or len(release.order_statistics.value))


def _width(release: Release) -> int:
    """Return the statistics of a block, about."""
    order = release.order_statistics
    listed = int((np.diff(order.start) < np.maximum(release.n, 1)).any()) * np.diff(order.start)
    each = np.diff(release.histogram.start) + listed + (release.means is not None)
    return int(each.max(initial=0))


def _n_statistics(release: Release) -> int:
    return len(release) * _width(release)


def _n(codes: IntArray) -> int:
    return len(_distinct(codes))


def _pairs(group: IntArray, codes: IntArray) -> IntArray:
    return _distinct(group * (np.int64(codes.max(initial=0)) + 1) + codes)


def _distinct(codes: IntArray) -> IntArray:
    """Return the different ones of some whole numbers from 0 on, in increasing order."""
    if codes.max(initial=0) > 4 * len(codes):
        return np.unique(codes)
    return np.flatnonzero(np.bincount(codes))


def holds(fine: IntArray, coarse: IntArray) -> bool:
    """Tell whether each block of one partition lies in one block of another."""
    return len(_pairs(fine, coarse)) == _n(fine)


def _components(codes: IntArray, said: BoolArray) -> IntArray:
    """Return groups of cells that blocks of some tables (T, C) hold together.

    Cells of which none of them says anything are one group.
    """
    n = codes.shape[1]
    first = n + np.cumsum([0, *(each.max() + 1 for each in codes)])
    cell = np.concatenate([np.flatnonzero(each) for each in said])
    block = np.concatenate([a + c[s] for a, c, s in zip(first[:-1], codes, said, strict=True)])
    graph = coo_array((np.ones(len(cell)), (cell, block)), (first[-1], first[-1]))
    found = connected_components(graph, directed=False)[1][:n]
    found = np.where(said.any(axis=0), found, found.max() + 1)
    return np.asarray(np.unique(found, return_inverse=True)[1], np.int64)


def _numbered(group: IntArray, codes: IntArray) -> IntArray:
    """Give groups numbers in the order of the tables that hold whole ones, the coarsest first."""
    group = np.unique(group, return_inverse=True)[1]
    coarser = sorted((each for each in codes if holds(group, each)), key=_n)
    first = np.unique(group, return_index=True)[1]
    keys = [group[first], *(each[first] for each in coarser[::-1])]
    rank = np.empty(len(first), np.int64)
    rank[np.lexsort(keys)] = np.arange(len(first))
    return rank[group]


def _implies(releases: Sequence[Release], codes: IntArray, s: int, t: int) -> bool:
    """Tell whether all numbers of table t are sums of those of table s.

    Of two tables that imply each other the first stays.
    """
    if s == t or not holds(codes[s], codes[t]):
        return False
    fine, coarse = releases[s], releases[t]
    if not (_exact(fine) and _exact(coarse)):
        return False
    edges = [np.unique([each.histogram.lower, each.histogram.upper]) for each in (fine, coarse)]
    if not np.isin(edges[1], edges[0]).all() or (coarse.histogram.closed != fine.histogram.closed):
        return False
    back = holds(codes[t], codes[s]) and bool(np.isin(edges[0], edges[1]).all())
    return not (back and t < s)


def _exact(release: Release) -> bool:
    """Tell whether a table is of exact counts, in the same bins for every block, and no more."""
    table = release.histogram
    plain = release.means is None and not len(release.order_statistics.value)
    plain = plain and release.noise_sd == 0 and table.count_se is None
    return plain and bool(table.repeats()) and not table.hidden().any()
