"""The rules that agencies hold a table against, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unbin._checks import check_choice, check_whole
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.disclosure.protections import Protection, rounded
from unbin.release import Release
from unbin.release.crossings import Crossings, small_differences
from unbin.release.derivation import possible_counts
from unbin.release.linkage import possible_counts_together

RULES = {"cms": 11, "wonder": 10, "nhs": 8}
"""The smallest count of people that each agency publishes."""
_UNLIKELY = 0.05
"""Share of noise that is left out of account where it is held against the rule."""


@dataclass(frozen=True, slots=True)
class CellCheck:
    """How a planned table stands to the rules; counts of cells, blocks and edges.

    Attributes
    ----------
    smallest : int
        The rule: no published count of fewer people, other than 0.
    n_cells : int
    smallest_block, smallest_cell : int
        People of the smallest block, and of the smallest cell that has any.
    blocks_under, cells_under : int
        Those with people, but fewer than the rule asks for.
    whole_blocks : int
        Blocks whose people are all in one bin, or category: whoever knows the block knows the bin.
    edges_at_values, edges_at_rare_values : int
        Edges that equal somebody's value, and a value of fewer people than the rule asks for; 0 of
        categories, which have no edges.
    publishes_minimum, publishes_maximum : bool
        Whether the lowest or the highest edge is somebody's value, and nobody's lies beyond.
    hidden : int
        Cells that the rule, or the protection, hides.
    derived, narrowed : int
        Hidden cells that totals of blocks and bins pin to one count, and to an interval that is
        shorter than the rule's.
    exact : bool
        Whether no further cell can be worked out from the totals; else there may be more.
    exposed : int
        Cells under the rule that the table, as it would be published, shows, or that it and its
        totals narrow to fewer than the ``smallest - 1`` counts that the rule leaves open.
    only_together : int
        Of several tables: hidden cells that are pinned or narrowed by all of them, and not by the
        table that has them.
    differences : int
        Of several tables: groups of fewer people than the rule asks for that are no block, but
        whose counts blocks of one table less blocks of another give away.
    """

    smallest: int
    n_cells: int
    smallest_block: int
    smallest_cell: int
    blocks_under: int
    cells_under: int
    whole_blocks: int
    edges_at_values: int
    edges_at_rare_values: int
    publishes_minimum: bool
    publishes_maximum: bool
    hidden: int
    derived: int
    narrowed: int
    exact: bool
    exposed: int
    only_together: int = 0
    differences: int = 0

    @property
    def within_rule(self) -> bool:
        """Whether no cell under the rule is exposed, for certain."""
        shown = self.exposed + self.differences
        return shown == 0 and (self.exact or self.cells_under == 0)


@dataclass(frozen=True, slots=True)
class Derivable:
    """What can be worked out from a table as published.

    Attributes
    ----------
    hidden : (B, K)
        Cells that are not published as they are.
    low, high : (B, K)
        The least and the most that each count can be.
    columns : pair of (K,) or None
        The least and the most people of each bin, as published.
    exact : bool
        Whether nothing narrower can be worked out.
    """

    hidden: BoolArray
    low: IntArray
    high: IntArray
    columns: tuple[IntArray, IntArray] | None
    exact: bool

    @property
    def width(self) -> IntArray:
        """How many counts each cell can have."""
        return self.high - self.low + 1


def smallest_allowed(rule: str | int) -> int:
    """Return the smallest count that a rule lets pass."""
    if isinstance(rule, str):
        return RULES[check_choice("rule", rule.lower(), tuple(RULES))]
    return check_whole("rule", rule, low=2)


def check_cells(
    y: FloatArray,
    release: Release,
    smallest: int,
    protection: Protection | None = None,
    told: Derivable | None = None,
) -> CellCheck:
    """Hold the table of everybody against the rules.

    Parameters
    ----------
    y : (n,), or (n, K) of categories
        Everybody's values.
    release : Release
        Their table, unprotected, with the same bins in every block.
    smallest : int
    protection : Protection, optional
        Without one, the cells under the rule are taken to be hidden.
    told : Derivable, optional
        What :func:`derivable` returned, where it is at hand.
    """
    count, edges = _counts(release), _edges(release)
    values, people = np.unique(y, return_counts=True)
    place = np.minimum(np.searchsorted(values, edges), len(values) - 1)
    at_value = values[place] == edges
    told = told or derivable(release, smallest, protection)
    seen = _seen(count, told, smallest, protection)
    return CellCheck(
        smallest=smallest,
        n_cells=count.size,
        smallest_block=int(release.n.min()),
        smallest_cell=int(count[count > 0].min()),
        blocks_under=int((release.n < smallest).sum()),
        cells_under=int(_small(count, smallest).sum()),
        whole_blocks=int((count.max(axis=1) == release.n).sum()),
        edges_at_values=int(at_value.sum()),
        edges_at_rare_values=int((at_value & (people[place] < smallest)).sum()),
        publishes_minimum=bool(edges[0] == values[0]),
        publishes_maximum=bool(edges[-1] == values[-1]),
        hidden=int(told.hidden.sum()),
        derived=int(seen.derived.sum()),
        narrowed=int(seen.narrowed.sum()),
        exact=told.exact,
        exposed=int(seen.exposed.sum()),
    )


def check_together(
    alone: Sequence[CellCheck],
    releases: Sequence[Release],
    told: Sequence[Derivable],
    codes: Sequence[IntArray],
    protection: Protection | None = None,
) -> CellCheck:
    """Hold several tables of everybody, with the same bins, against the rules.

    Parameters
    ----------
    alone : sequence of CellCheck
        Of each table.
    releases : sequence of Release
        Unprotected.
    told : sequence of Derivable
        What can be worked out from each table alone.
    codes : sequence of (n,)
        The block of everybody in each table.
    protection : Protection, optional
    """
    smallest = alone[0].smallest
    counts = [_counts(release) for release in releases]
    together, differences, exact = list(told), 0, all(each.exact for each in told)
    if not _noisy(protection):
        together, differences, exact = _link(counts, told, codes, smallest, protection)
    pairs = list(zip(counts, told, together, strict=True))
    before = [_seen(count, own, smallest, protection) for count, own, _ in pairs]
    after = [_seen(count, linked, smallest, protection) for count, _, linked in pairs]
    more = [new.known & ~old.known for old, new in zip(before, after, strict=True)]
    return replace(
        alone[0],
        n_cells=sum(each.n_cells for each in alone),
        smallest_block=min(each.smallest_block for each in alone),
        smallest_cell=min(each.smallest_cell for each in alone),
        blocks_under=sum(each.blocks_under for each in alone),
        cells_under=sum(each.cells_under for each in alone),
        whole_blocks=sum(each.whole_blocks for each in alone),
        hidden=sum(each.hidden for each in alone),
        derived=sum(int(each.derived.sum()) for each in after),
        narrowed=sum(int(each.narrowed.sum()) for each in after),
        exact=exact,
        exposed=sum(int(each.exposed.sum()) for each in after),
        only_together=sum(int(each.sum()) for each in more),
        differences=differences,
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """Hidden cells that are worked out, and cells under the rule that are exposed, (B, K) each."""

    derived: BoolArray
    narrowed: BoolArray
    exposed: BoolArray

    @property
    def known(self) -> BoolArray:
        return self.derived | self.narrowed


def _seen(count: IntArray, told: Derivable, smallest: int, protection: Protection | None) -> _Seen:
    used, width = protection or Protection(), told.width
    hidden = told.hidden & (used.epsilon is None)  # of noisy counts nothing can be worked out
    asked = (used.suppress or used.round or smallest) - 1
    shown = np.ones_like(width) if protection is None else width
    return _Seen(
        derived=hidden & (width == 1),
        narrowed=hidden & (width > 1) & (width < asked),
        exposed=_small(count, smallest) & (shown < smallest - 1),
    )


def _counts(release: Release) -> IntArray:
    return release.histogram.count.reshape(len(release), -1)


def _edges(release: Release) -> FloatArray:
    """Return the edges of the bins; of categories some that are nobody's value."""
    if release.categories:
        return np.full(2, np.nan)
    table, n_bins = release.histogram, _counts(release).shape[1]
    return np.concatenate([table.lower[:n_bins], table.upper[n_bins - 1 : n_bins]])


def _small(count: IntArray, smallest: int) -> BoolArray:
    return np.asarray((count > 0) & (count < smallest))


def _noisy(protection: Protection | None) -> bool:
    return protection is not None and protection.epsilon is not None


def derivable(release: Release, smallest: int, protection: Protection | None = None) -> Derivable:
    """Work out what can be from the table of everybody and its totals.

    Of noisy counts no totals are published; each can be what 95 % of the noise may have made of it.
    """
    count = _counts(release)
    used = protection or Protection(suppress=smallest)
    hidden = used.hidden(release)
    if used.epsilon is not None:
        reach = int(-np.log(_UNLIKELY) / used.epsilon)
        return Derivable(hidden, count - reach, count + reach, None, exact=True)
    published = used.apply(release, np.random.default_rng(0)).histogram
    low, high = (end.reshape(count.shape) for end in published.interval())
    columns = None  # those of a single block are its counts
    if len(count) > 1:
        totals = count.sum(axis=0)
        columns = (totals, totals)
        if used.round is not None:
            columns = rounded(totals, used.round)
    found = possible_counts(low, high, (release.n, release.n), columns)
    return Derivable(hidden, found.low, found.high, columns, found.exact)


def _link(
    counts: Sequence[IntArray],
    told: Sequence[Derivable],
    codes: Sequence[IntArray],
    smallest: int,
    protection: Protection | None,
) -> tuple[list[Derivable], int, bool]:
    """Return what can be worked out from all tables, and how many differences expose people."""
    crossings = Crossings.of(codes)
    differences = small_differences(crossings, smallest)
    asked = () if protection is None else differences
    found = possible_counts_together(
        [(each.low, each.high) for each in told],
        crossings,
        next((each.columns for each in told if each.columns is not None), None),
        asked,
    )
    together = [
        replace(own, low=bounds.low, high=bounds.high, exact=bounds.exact)
        for own, bounds in zip(told, found.tables, strict=True)
    ]
    if protection is None:  # all counts are there to be subtracted
        return together, len(differences), found.exact
    exposed = 0
    width = found.differences.high - found.differences.low + 1
    for each, own in zip(differences, width, strict=True):
        count = counts[each.table][list(each.blocks)].sum(axis=0)
        count = count - counts[each.less][list(each.less_blocks)].sum(axis=0)
        exposed += bool(((count > 0) & (own < min(smallest - 1, each.n + 1))).any())
    return together, exposed, found.exact
