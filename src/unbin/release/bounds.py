"""What the totals of one table tell about the hidden counts of another.

A suppressed county cell lies in an interval; the state's count of that bin, or what the table by
sex counts over everybody, leaves it less. Intervals are narrowed by what the others of a sum leave
them until none changes. They are sure, and the narrowest there are where a hidden count is in one
sum; a linear program over all sums could narrow others further (:mod:`unbin.release.derivation`
does so for the audit).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unbin._blocks import block_of_rows
from unbin._typing import FloatArray, IntArray
from unbin.exceptions import ReleaseError
from unbin.release.cuts import Cuts, Slots, cuts_of, difference_text, range_text, slots_of
from unbin.release.intervals import narrow
from unbin.release.nesting import Nest, find_nests

if TYPE_CHECKING:
    from unbin.release.join import Tables
    from unbin.release.release import Release

_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class _Sum:
    """Sums that several tables must meet: the people of each group between two cuts.

    Attributes
    ----------
    nest : Nest
    cuts : Cuts
    members : tuple of (int, Slots)
        Tables, and the slot of each of their counts.
    """

    nest: Nest
    cuts: Cuts
    members: tuple[tuple[int, Slots], ...]


@dataclass(slots=True)
class _Ends:
    """The interval of every count of a table, as far as it was narrowed."""

    low: IntArray
    high: IntArray

    def meet(self, slots: Slots, least: FloatArray, most: FloatArray) -> bool:
        """Leave each count what the others of its sum leave it; tell whether any changed."""
        low, high = slots.sums(self.low, self.high)
        kept = slots.cell >= 0
        cell = slots.cell[kept]
        own_low, own_high = self.low[kept], self.high[kept]
        new_low = np.maximum(own_low, (least - high)[cell] + own_high).astype(np.int64)
        new_high = np.minimum(own_high, (most - low)[cell] + own_low).astype(np.int64)
        if (new_low == own_low).all() and (new_high == own_high).all():
            return False
        self.low, self.high = self.low.copy(), self.high.copy()
        self.low[kept], self.high[kept] = new_low, new_high
        return True


def tighten(tables: Tables, codes: Sequence[IntArray] | None = None) -> Tables:
    """Narrow the hidden counts of every table by what the others count.

    Parameters
    ----------
    tables : Tables
        Aligned with the same people.
    codes : sequence of (n,), optional
        The block of each row in each table. Without them only totals over everybody are used.

    Raises
    ------
    ReleaseError
        Where the tables cannot be true together.
    """
    if not any(release.histogram.hidden().any() for release in tables.releases):
        return tables
    sums = [each for nest in find_nests(tables, codes) for each in _sums(tables, nest)]
    ends = [_Ends(*release.histogram.interval()) for release in tables.releases]
    for _ in range(_ROUNDS):
        changed = [_meet(each, tables, ends) for each in sums]
        changed += [
            _add_up(*each) for each in zip(tables.releases, ends, tables.names, strict=True)
        ]
        if not any(changed):
            break
    changed_releases = map(_with_ends, tables.releases, ends)
    return replace(tables, releases=tuple(changed_releases))


def _sums(tables: Tables, nest: Nest) -> Iterator[_Sum]:
    """Yield the sums of a nest: one for every set of cuts that two tables or more have."""
    counted = [
        (member, cuts)
        for member in nest.members
        if (cuts := cuts_of(tables.releases[member.table])) is not None
        and tables.releases[member.table].noise_sd == 0
    ]
    own = {cuts.key(): cuts for _, cuts in counted}
    shared = (a.common(b) for a in own.values() for b in own.values())
    wanted = {cuts.key(): cuts for cuts in shared if cuts is not None and cuts.closed != "any"}
    for cuts in wanted.values():
        members = tuple(
            (member.table, slots_of(tables.releases[member.table], member, len(nest.people), cuts))
            for member, its in counted
            if cuts.within(its)
        )
        if len(members) > 1:
            yield _Sum(nest, cuts, members)


def _meet(total: _Sum, tables: Tables, ends: list[_Ends]) -> bool:
    """Narrow counts by what all tables together say about each sum."""
    found = [slots.sums(ends[t].low, ends[t].high) for t, slots in total.members]
    low, high = (np.stack(each) for each in zip(*found, strict=True))
    least, most = low.max(axis=0), high.min(axis=0)
    if (least > most).any():
        raise _contradiction(total, tables, low, high)
    changed = [ends[t].meet(slots, least, most) for t, slots in total.members]
    return any(changed)


def _add_up(release: Release, ends: _Ends, name: str) -> bool:
    """Narrow the counts of each block by its number of people."""
    if release.noise_sd > 0:
        return False
    block = block_of_rows(release.histogram.start)
    nothing = np.zeros(len(release))
    slots = Slots(block, nothing, nothing)
    least, most = slots.sums(ends.low, ends.high)
    n = np.where(np.diff(release.histogram.start) > 0, release.n, 0)
    off = (least > n) | (most < n)
    if off.any():
        b = int(np.argmax(off))
        raise ReleaseError(
            f"{name}, block {str(release.blocks[b])!r}: must count {n[b]:,} people, got "
            f"{least[b]:,.0f} to {most[b]:,.0f} once its hidden counts meet the other tables; "
            "check that the tables are about the same people"
        )
    return ends.meet(slots, n, n)


def _with_ends(release: Release, ends: _Ends) -> Release:
    table = release.histogram
    if not table.hidden().any() or release.noise_sd > 0:
        return release
    low, high = table.interval()
    told = (ends.low != low).any() or (ends.high != high).any()
    within = replace(table, count_low=ends.low, count_high=ends.high)
    # what was worked out from other tables is not what everybody has
    public = release.public and not told
    return replace(release, histogram=narrow(within, release.n), public=public)


def _contradiction(total: _Sum, tables: Tables, low: FloatArray, high: FloatArray) -> ReleaseError:
    j = int(np.argmax(low.max(axis=0) - high.min(axis=0)))
    more, fewer = int(np.argmax(low[:, j])), int(np.argmin(high[:, j]))
    g, k = divmod(j, len(total.cuts.values) - 1)
    one, other = (
        (tables.names[total.members[m][0]], low[m, j], high[m, j]) for m in sorted((more, fewer))
    )
    told = difference_text(total.nest.groups[g], range_text(total.cuts, k, k + 1), one, other)
    return ReleaseError(
        f"tables: must agree where they count the same people, got a contradiction: {told}; check "
        "that they are about the same people and the same outcome"
    )
