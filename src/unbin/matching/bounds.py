"""Rank bounds: every release says that a block's j-th smallest target lies in [lower, upper].

- order statistic s at rank tau: lower = upper = s there; between two of them the bounds are the
  two values; before the first and after the last they are the ends of the domain;
- histogram: the ranks counted in a bin lie between its edges;
- full list: lower = upper = the sorted values;
- several statistics of one block: the tighter bound on either side.

Bounds are kept as runs of equal bounds (cut ranks and two values), never as one pair per person
unless the list is full.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unbin._blocks import block_of_rows, segment_cumsum
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.exceptions import ReleaseError
from unbin.families import BregmanFamily, Interval, Units
from unbin.release import Release, tables

_SPARSE = 64
"""With more people than this per cut, sorting cuts is faster than marking them."""


@dataclass(frozen=True, slots=True)
class RankBounds:
    """Runs of ranks with the same bounds, block by block.

    Attributes
    ----------
    start : (n_blocks + 1,)
        Rows of block ``b`` are ``start[b]:start[b + 1]``.
    run_start : (n_blocks + 1,)
        Runs of block ``b`` are ``run_start[b]:run_start[b + 1]``.
    cut : (n_runs,)
        The rank at which each run ends, counted within its block.
    lower, upper : (n_runs,)
        Bounds of the targets whose rank is in the run, both non-decreasing within a block.
    count_low, count_high : (n_runs,) or None
        How many people a run has at least and at most, where counts were suppressed or rounded;
        ``cut`` is then one of the possible splits.
    phi : ((n_runs,), (n_runs,)) or None
        A family's phi of ``lower`` and ``upper``; see ``measured``.
    """

    start: IntArray
    run_start: IntArray
    cut: IntArray
    lower: FloatArray
    upper: FloatArray
    count_low: IntArray | None = None
    count_high: IntArray | None = None
    phi: tuple[FloatArray, FloatArray] | None = None

    def measured(self, family: BregmanFamily) -> RankBounds:
        """Return the bounds with the family's phi of each, which every pass asks for."""
        with np.errstate(invalid="ignore"):  # an infinite bound is nobody's target
            return replace(self, phi=(family.phi(self.lower), family.phi(self.upper)))

    def part(self, blocks: slice) -> RankBounds:
        """Return the bounds of some blocks, rows counted from 0."""
        first, last = blocks.start, blocks.stop
        runs = slice(self.run_start[first], self.run_start[last])
        return RankBounds(
            self.start[first : last + 1] - self.start[first],
            self.run_start[first : last + 1] - self.run_start[first],
            self.cut[runs],
            self.lower[runs],
            self.upper[runs],
            None if self.count_low is None else self.count_low[runs],
            None if self.count_high is None else self.count_high[runs],
        )

    def people(self) -> IntArray:
        """Return the number of people in each run."""
        first = np.zeros(len(self.cut), dtype=bool)
        first[self.run_start[:-1]] = True
        before = np.where(first, 0, np.roll(self.cut, 1))
        return np.asarray(self.cut - before)

    def middle(self) -> FloatArray:
        """Return the middle of each run's bounds; an open end lies a usual width out."""
        width = self.upper - self.lower
        usual = width[np.isfinite(width) & (width > 0)]
        ends = np.concatenate([self.lower, self.upper])
        apart = np.ptp(ends[np.isfinite(ends)]) if np.isfinite(ends).any() else 0.0
        reach = float(np.median(usual)) if usual.size else float(apart) or 1.0
        low = np.where(np.isfinite(self.lower), self.lower, self.upper - reach)
        high = np.where(np.isfinite(self.upper), self.upper, self.lower + reach)
        open_ended = np.isinf(self.lower) & np.isinf(self.upper)
        low, high = np.where(open_ended, 0.0, low), np.where(open_ended, 0.0, high)
        return np.asarray(0.5 * (low + high))

    def in_units(self, units: Units) -> RankBounds:
        """Return the bounds of the target in other units."""
        return replace(self, lower=units.into(self.lower), upper=units.into(self.upper), phi=None)

    def silent(self, domain: Interval) -> BoolArray:
        """Mark the runs of blocks about which nothing was published."""
        alone = np.repeat(np.diff(self.run_start) == 1, np.diff(self.run_start))
        return np.asarray(alone & (self.lower == domain.low) & (self.upper == domain.high))


def rank_bounds(release: Release, domain: Interval) -> RankBounds:
    """Turn a release of known block sizes into rank bounds within the domain.

    For an integer domain a bin whose edges are whole or half numbers holds integers, so that
    (0, 1] becomes [1, 1].
    """
    if release.histogram.hidden().any():
        return _uncertain_bounds(release, domain)
    if not len(release.order_statistics.value) and (np.diff(release.histogram.start) > 0).all():
        return _binned_bounds(release, domain, release.histogram.count > 0)
    start = np.concatenate([[0], np.cumsum(release.n)]).astype(np.int64)
    histogram, order = release.histogram, release.order_statistics
    counted = histogram.count > 0
    bin_end = _place(histogram.start, start, segment_cumsum(histogram.count, histogram.start))
    bin_end = bin_end[counted]
    place = _place(order.start, start, order.rank) - 1
    cuts = _distinct(int(start[-1]), start, bin_end, place, place + 1)
    first, end = cuts[:-1], cuts[1:]
    block = np.searchsorted(start, first, side="right") - 1
    lower, upper = _bin_edges(release, domain, counted)
    low, high = np.full(len(first), domain.low), np.full(len(first), domain.high)
    if len(bin_end):
        k = np.minimum(np.searchsorted(bin_end, first, side="right"), len(bin_end) - 1)
        inside = (np.diff(histogram.start) > 0)[block]
        low[inside] = np.maximum(low[inside], lower[k[inside]])
        high[inside] = np.minimum(high[inside], upper[k[inside]])
    if len(place):
        k = np.searchsorted(place, first, side="right") - 1
        inside = (k >= 0) & (place[k] >= start[block])
        low[inside] = np.maximum(low[inside], order.value[k[inside]])
        k = np.searchsorted(place, end - 1, side="left")
        inside = k < len(place)
        inside[inside] = place[k[inside]] < start[block[inside] + 1]
        high[inside] = np.minimum(high[inside], order.value[k[inside]])
    _check_consistent(release, block, low, high)
    run_start = np.searchsorted(first, start).astype(np.int64)
    return RankBounds(start, run_start, end - start[block], low, high)


def _distinct(largest: int, *cuts: IntArray) -> IntArray:
    """Return the distinct values of all cuts, in order."""
    if _SPARSE * sum(map(len, cuts)) < largest:
        return np.unique(np.concatenate(cuts))
    is_cut = np.zeros(largest + 1, dtype=bool)
    for cut in cuts:
        is_cut[cut] = True
    return np.flatnonzero(is_cut)


def _uncertain_bounds(release: Release, domain: Interval) -> RankBounds:
    """Make a run of every bin that may hold people, with the interval of its count."""
    if len(release.order_statistics.value):
        raise ReleaseError(
            "matching: suppressed or rounded counts cannot be combined with order statistics, got "
            "both; leave one out, or use method='likelihood'"
        )
    low, high = release.histogram.interval()
    possible = high > 0
    bounds = _binned_bounds(release, domain, possible)
    empty = np.diff(bounds.run_start) == 0
    if empty.any():
        raise ReleaseError(
            f"block {str(release.blocks[np.argmax(empty)])!r}: matching needs a histogram in every "
            "block when counts are suppressed, got none; leave the block out"
        )
    return replace(bounds, count_low=low[possible], count_high=high[possible])


def _binned_bounds(release: Release, domain: Interval, possible: BoolArray) -> RankBounds:
    """Make a run of every bin marked, for releases of histograms alone."""
    table = release.histogram
    run_start = np.concatenate([[0], np.cumsum(possible)])[table.start].astype(np.int64)
    lower, upper = _bin_edges(release, domain, possible)
    low, high = np.maximum(lower, domain.low), np.minimum(upper, domain.high)
    _check_consistent(release, block_of_rows(run_start), low, high)
    start = np.concatenate([[0], np.cumsum(release.n)]).astype(np.int64)
    return RankBounds(start, run_start, segment_cumsum(table.count[possible], run_start), low, high)


def constant_fit(bounds: RankBounds) -> float | None:
    """Return a constant that satisfies every bound, or None: then slopes of 0 fit perfectly."""
    low, high = bounds.lower.max(), bounds.upper.min()
    if low > high:
        return None
    return float(low if np.isfinite(low) else high)


def _place(table_start: IntArray, start: IntArray, rank: IntArray) -> IntArray:
    """Turn ranks within blocks into places among all rows."""
    return np.asarray(rank + np.repeat(start[:-1], np.diff(table_start)))


def _bin_edges(
    release: Release, domain: Interval, counted: BoolArray
) -> tuple[FloatArray, FloatArray]:
    table = release.histogram
    if domain.integer and tables.holds_integers(table):
        lower, upper = tables.integer_edges(table)
    else:
        lower, upper = table.lower, table.upper
    return lower[counted], upper[counted]


def _check_consistent(release: Release, block: IntArray, low: FloatArray, high: FloatArray) -> None:
    bad = low > high
    if bad.any():
        k = int(np.argmax(bad))
        raise ReleaseError(
            f"block {str(release.blocks[block[k]])!r}: its statistics contradict each other, a "
            f"target would have to be at least {low[k]:g} and at most {high[k]:g}; check that the "
            "histogram and the order statistics are about the same people"
        )
