"""Tables that contradict each other, raked to the first of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.exceptions import AlignmentError, AlignmentWarning
from unbin.release.cuts import (
    Cuts,
    cuts_of,
    difference_text,
    range_text,
    slots_of,
)
from unbin.release.nesting import Member, Nest, find_nests
from unbin.release.tables import multiply_counts

if TYPE_CHECKING:
    from unbin.release.join import Tables
    from unbin.release.release import Release

_ROUNDS = 1000
_CLOSE, _OFF = 1e-4, 1e-2
"""People by which a sum may miss its goal before it is rounded, and after which it has failed."""
_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class _Sums:
    """The people of a table by group and between cuts, each (G, K).

    Attributes
    ----------
    low, high, count
        At least, at most, and as they stand.
    known : (G,) bool
        Groups of whose people all are counted.
    """

    low: FloatArray
    high: FloatArray
    count: FloatArray
    known: BoolArray

    @classmethod
    def of(cls, release: Release, member: Member, nest: Nest, cuts: Cuts) -> _Sums:
        slots = slots_of(release, member, len(nest.people), cuts)
        shape = (len(nest.people), -1)
        low, high = (ends.reshape(shape) for ends in slots.sums(*release.histogram.interval()))
        count = (slots.add(release.histogram.count) + slots.base_low).reshape(shape)
        known = (slots.base_low == slots.base_high).reshape(shape).all(axis=1)
        return cls(low, high, count, known)


def rake_to_first(tables: Tables, codes: Sequence[IntArray]) -> Tables:
    """Return tables whose counts between common cuts add up to those of the first, and warn.

    Tables with nested blocks are made to agree block by block. Blocks keep their people. A table
    that agrees stays as it is, and so does one about other people, without counts or with noise in
    them, whose totals are not known.
    """
    releases, moved = list(tables.releases), {}
    for s, t in _references(tables, codes):
        pair = replace(
            tables,
            names=(tables.names[s], tables.names[t]),
            releases=(releases[s], releases[t]),
        )
        found = _rake(pair, (codes[s], codes[t]))
        if found is not None:
            raked, told = found
            change = np.abs(raked.histogram.count - tables.releases[t].histogram.count).sum() / 2
            moved[tables.names[t]] = (change / raked.n.sum(), told)
            releases[t] = raked
    if moved:
        share, told = max(moved.values())
        warnings.warn(
            f"join: the counts of {', '.join(moved)} were raked to the bins of {tables.names[0]}, "
            f"which moved up to {100 * share:.2g} % of the people; worst: {told}",
            AlignmentWarning,
            stacklevel=3,
        )
    return replace(tables, releases=tuple(releases))


def _references(tables: Tables, codes: Sequence[IntArray]) -> Iterator[tuple[int, int]]:
    """Yield pairs of tables, of which the later is to be raked to the earlier.

    Every table is raked to the first, and then to the one whose blocks hold or make up its own.
    """
    nested = set()
    for nest in find_nests(tables, codes)[1:]:  # all but everybody
        members = [member.table for member in nest.members]
        coarse = min(members, key=lambda t: len(tables.releases[t]))
        nested |= {(min(t, coarse), max(t, coarse)) for t in members if t != coarse}
    for t in range(1, len(tables.releases)):
        yield 0, t
        yield from sorted((s, each) for s, each in nested if each == t and s > 0)


def _rake(pair: Tables, codes: tuple[IntArray, IntArray]) -> tuple[Release, str] | None:
    """Rake the second of two tables to the first; None where they agree, or cannot be compared."""
    one, other = pair.releases
    own, its = cuts_of(one), cuts_of(other)
    noisy = one.noise_sd > 0 or other.noise_sd > 0
    cuts = None if own is None or its is None or noisy else own.common(its)
    if cuts is None or not len(other.histogram.count):
        return None
    for nest in reversed(find_nests(pair, codes)):  # the smallest groups last
        goal, now = (
            _Sums.of(release, member, nest, cuts)
            for release, member in zip(pair.releases, nest.members, strict=True)
        )
        known = goal.known & now.known
        gap = np.maximum(goal.low - now.high, now.low - goal.high)
        gap[~known] = 0.0
        if known.any():
            if gap.max() <= 0:
                return None
            g, k = np.unravel_index(int(np.argmax(gap)), gap.shape)
            ends = ((each.low[g, k], each.high[g, k]) for each in (goal, now))
            told = difference_text(
                nest.groups[g],
                range_text(cuts, int(k), int(k) + 1),
                *((name, *end) for name, end in zip(pair.names, ends, strict=True)),
            )
            group = nest.members[1].group
            group = np.where((group >= 0) & known[group], group, -1)
            return _raked(other, cuts, goal.count, group, told), told
    return None


def _raked(release: Release, cuts: Cuts, goal: FloatArray, group: IntArray, told: str) -> Release:
    """Meet the people of each block, and those of each group between cuts."""
    table, n_ranges = release.histogram, len(cuts.values) - 1
    slots = slots_of(release, Member(0, np.arange(len(release))), len(release), cuts)
    old = slots.add(table.count).reshape(-1, n_ranges)
    inside = (group >= 0) & (np.diff(table.start) > 0)
    margins = Margins(release.n[inside].astype(float), goal, group[inside])
    found = proportional_fit(old[inside], margins)
    if margins.miss(found) > _OFF:
        raise AlignmentError(
            f"join: scale=True cannot make the tables agree, got {told}, and blocks without "
            "anybody there; check that the tables are about the same people"
        )
    new = old.copy()
    new[inside] = round_to_margins(found, margins)
    factor = np.where(old > 0, new / np.maximum(old, 1), 1.0).ravel()[slots.cell]
    start = np.concatenate([[0], np.flatnonzero(np.diff(slots.cell)) + 1, [len(slots.cell)]])
    return replace(release, histogram=multiply_counts(table, factor, start))


@dataclass(frozen=True, slots=True)
class Margins:
    """Sums that a table of counts is to have.

    Attributes
    ----------
    rows : (B,)
    columns : (G, K)
        The columns of the rows of each group.
    group : (B,)
        The group of each row.
    """

    rows: FloatArray
    columns: FloatArray
    group: IntArray

    def sums(self, counts: FloatArray) -> FloatArray:
        """Return the columns of the rows of each group."""
        total = np.zeros_like(self.columns)
        np.add.at(total, self.group, counts)
        return total

    def miss(self, counts: FloatArray) -> float:
        """Return by how much the columns of any group with rows miss theirs."""
        used = np.unique(self.group)
        return float(np.abs(self.sums(counts) - self.columns)[used].max())


def proportional_fit(counts: FloatArray, margins: Margins) -> FloatArray:
    """Scale the rows and columns of a table in turn until they have the given sums.

    Where zeros make that impossible, the rows have theirs and the columns come near.
    """
    found = counts.astype(float)
    for _ in range(_ROUNDS):
        found = found * (margins.columns / np.maximum(margins.sums(found), _TINY))[margins.group]
        found = found * (margins.rows / np.maximum(found.sum(axis=1), _TINY))[:, None]
        if margins.miss(found) <= _CLOSE:
            break
    return found


def round_to_margins(counts: FloatArray, margins: Margins) -> FloatArray:
    """Round every count up or down so that rows and columns keep their whole sums.

    Which counts go up is a transportation problem, whose corners are whole numbers; of all ways
    the one that rounds the largest fractions up.
    """
    floor = np.floor(counts + 1e-6)
    fraction = np.maximum(counts - floor, 0.0)
    row, column = np.nonzero(fraction > 1e-6)
    if not len(row):
        return floor
    n_open, n_rows, n_columns = len(row), len(margins.rows), margins.columns.size
    sums = np.concatenate([row, n_rows + margins.group[row] * counts.shape[1] + column])
    where = (sums, np.tile(np.arange(n_open), 2))
    matrix = csr_array((np.ones(2 * n_open), where), shape=(n_rows + n_columns, n_open))
    used = np.unique(sums)
    missing = np.concatenate(
        [margins.rows - floor.sum(axis=1), (margins.columns - margins.sums(floor)).ravel()]
    )
    found = linprog(  # type: ignore[call-overload]
        -fraction[row, column],
        A_eq=matrix[used],
        b_eq=missing[used],
        bounds=(0, 1),
        method="highs-ds",
    )
    floor[row, column] += np.rint(found.x)
    return floor
