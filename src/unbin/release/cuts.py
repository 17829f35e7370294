"""Counts of several tables between the values at which all of them divide people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unbin._blocks import block_of_rows
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.release.categories import listed
from unbin.release.nesting import Member
from unbin.release.tables import Histogram

if TYPE_CHECKING:
    from unbin.release.release import Release

_MOST_VALUES = 50
"""Values of a list at which it is compared with another list."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """Values at which all blocks of a table are divided.

    Attributes
    ----------
    closed : {"right", "left", "any"}
        Whether people at a cut are counted below or above it; "any" for lists of values, which can
        be divided anywhere.
    values : (K + 1,)
        From -inf to inf.
    categories : tuple of text
        Names of the values, of a table of categories.
    """

    closed: str
    values: FloatArray
    categories: tuple[str, ...] = ()

    def common(self, other: Cuts) -> Cuts | None:
        """Return the cuts of both; None where they have none."""
        if "any" in (self.closed, other.closed):
            chosen = other if self.closed == "any" else self
        elif self.closed == other.closed:
            both = np.intersect1d(self.values, other.values)
            chosen = Cuts(self.closed, both, self.categories)
        else:
            return None
        return chosen if len(chosen.values) > 2 else None

    def within(self, other: Cuts) -> bool:
        """Tell whether a table with the cuts of ``other`` has all of these."""
        if other.closed == "any":
            return True
        return self.closed == other.closed and bool(np.isin(self.values, other.values).all())

    def key(self) -> tuple[str, bytes]:
        """Return what tells these cuts from others."""
        return self.closed, self.values.tobytes()


def cuts_of(release: Release) -> Cuts | None:
    """Return where a table divides people; None if it does not count any."""
    table = release.histogram
    if len(table.count):
        return Cuts(table.closed, _undivided(table), release.categories)
    order = release.order_statistics
    if not _listed(release).any():
        return None
    values = np.unique(order.value)
    some = values[np.linspace(0, len(values) - 1, min(len(values), _MOST_VALUES)).astype(np.int64)]
    return Cuts("any", np.concatenate([[-np.inf], some, [np.inf]]))


def _undivided(table: Histogram) -> FloatArray:
    """Return the edges that lie inside no bin of any block, and the ends."""
    proper = table.lower < table.upper
    lower, upper = np.sort(table.lower[proper]), np.sort(table.upper[proper])
    edges = np.unique(np.concatenate([table.lower, table.upper, [-np.inf, np.inf]]))
    begun, ended = np.searchsorted(lower, edges), np.searchsorted(upper, edges, side="right")
    return np.asarray(edges[begun == ended])


def _listed(release: Release) -> BoolArray:
    """Mark the blocks of which all values are known, and no bins."""
    size = np.diff(release.order_statistics.start)
    return np.asarray((size > 0) & (size == release.n) & (np.diff(release.histogram.start) == 0))


@dataclass(frozen=True, slots=True)
class Slots:
    """Where a table's counts belong: the people of a group between two cuts are a slot.

    Attributes
    ----------
    cell : (M,)
        The slot of each bin of the table; -1 for one in no group.
    base_low, base_high : (G * K,)
        The least and the most people of blocks without bins: listed values, or any number.
    """

    cell: IntArray
    base_low: FloatArray
    base_high: FloatArray

    def sums(self, low: IntArray, high: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the least and the most people of every slot, from those of the bins."""
        return self.add(low) + self.base_low, self.add(high) + self.base_high

    def add(self, values: IntArray | FloatArray) -> FloatArray:
        """Add up a number of every bin."""
        kept = self.cell >= 0
        total = np.bincount(self.cell[kept], values[kept], len(self.base_low))
        return total.astype(np.float64)


def slots_of(release: Release, member: Member, n_groups: int, cuts: Cuts) -> Slots:
    """Lay the counts of a table out by group and cuts, all of which it has."""
    table, order = release.histogram, release.order_statistics
    n_ranges = len(cuts.values) - 1
    base_low, base_high = np.zeros((2, n_groups, n_ranges))
    closed = "right" if cuts.closed == "any" else cuts.closed

    def place(block: IntArray, lower: FloatArray, upper: FloatArray) -> IntArray:
        if closed == "right":
            k = np.searchsorted(cuts.values, upper) - 1
        else:
            k = np.searchsorted(cuts.values, lower, side="right") - 1
        group = member.group[block]
        # a value of -inf or inf has no range of its own
        return np.where(group >= 0, group * n_ranges + np.clip(k, 0, n_ranges - 1), -1)

    cell = place(block_of_rows(table.start), table.lower, table.upper)
    listed = _listed(release)
    silent = (np.diff(table.start) == 0) & ~listed & (member.group >= 0)
    np.add.at(base_high, member.group[silent], release.n[silent, None])
    block = block_of_rows(order.start)
    values = place(block, order.value, order.value)[listed[block]]
    counted = np.bincount(values[values >= 0], minlength=base_low.size)
    return Slots(cell, base_low.ravel() + counted, base_high.ravel() + counted)


def range_text(cuts: Cuts, first: int, last: int) -> str:
    """Return the people between two cuts in words: "up to 10", "in (10, 20]", "in 'dem'"."""
    right = cuts.closed != "left"
    low, high = cuts.values[first], cuts.values[last]
    if cuts.categories:
        names = [name for k, name in enumerate(cuts.categories) if low < k <= high]
        return f"in {listed(names)}"
    if np.isneginf(low):
        return f"up to {high:g}" if right else f"below {high:g}"
    if np.isposinf(high):
        return f"above {low:g}" if right else f"from {low:g}"
    return f"in ({low:g}, {high:g}]" if right else f"in [{low:g}, {high:g})"


def difference_text(
    where: str, what: str, one: tuple[str, float, float], other: tuple[str, float, float]
) -> str:
    """Return what two tables say about the same people; each is its name, least and most."""
    place = f"in {where}, " if where else ""
    return (
        f"{place}{one[0]} counts {_number(*one[1:])} people {what}, {other[0]} counts "
        f"{_number(*other[1:])}"
    )


def _number(low: float, high: float) -> str:
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
