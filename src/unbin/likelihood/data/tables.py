"""What one table published, block by block: counts, means and order statistics.

Counts are of people in a partition of the family's domain. Every histogram is read as its
cumulative counts at cut points: a gap between two bins and the space outside the outer edges become
bins that hold nobody, so that the probabilities of a block's bins always sum to 1. Three things are
done to the cut points:

- those outside the family's domain are dropped;
- **far cuts**: a cut with fewer than ``max(5, n / 1000)`` people of all blocks certainly on one
  side of it is dropped, which merges the near-empty far bins into their neighbour. Their counts
  hold no information on the coefficients, yet one person in a bin with expected count 1e-6 would
  contribute 1e6 to the goodness of fit. A block always keeps its most central cut;
- **a block's own extremes**: a finite outer edge with nobody outside it, at a value that is an
  edge of no other block, is read as that block's minimum or maximum and left open.

When the cuts of all blocks fit one grid (bins without people may be split or left out of the
table at will) the edges are shared, which makes every pass over the rows faster.

Full lists of values are counted in at most 50 bins with edges at the quantiles of all listed
values together (pooled, not per block), so that all blocks share their edges.

Margins of error of counts, and noise that was added to them, are variances beside the counts.
Errors of counts that add up to the people of a block do so too: given their sum they are those of
the counts, less what the sum takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from unbin._blocks import first_rows, last_rows
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.exceptions import DomainError, ReleaseError
from unbin.families import Family, Interval
from unbin.likelihood.data.counts import BlockTargets, PublishedCounts, block_targets
from unbin.likelihood.data.hidden import place_cells, with_hidden
from unbin.release import Release, tables
from unbin.release.orders import full_lists
from unbin.release.tables import Cumulative, Histogram

_MAX_LIST_BINS = 50
_MAX_GRID_CELLS = 1 << 24
_MOST_COUNTED = 200.0
"""Whole edges up to here may be those of counts; beyond, whole numbers are amounts."""


@dataclass(frozen=True, slots=True)
class Table:
    """What one table published of B blocks.

    Attributes
    ----------
    counts : PublishedCounts
    means : (B,) or None
        NaN where none was published.
    order : PublishedOrder or None
        Order statistics that the counts do not imply.
    factor : (B,) or None
        What brings the people that the rows of a block stand for to those that the table counts,
        where weights are not whole or rows are a sample.
    """

    counts: PublishedCounts
    means: FloatArray | None = None
    order: PublishedOrder | None = None
    factor: FloatArray | None = None

    @property
    def said(self) -> BoolArray:
        """Blocks of which something was published, (B,)."""
        said = self.counts.known
        said = said if self.means is None else said | np.isfinite(self.means)
        return said if self.order is None else said | self.order.known

    @property
    def informative(self) -> bool:
        """Whether the table distinguishes people."""
        return self.spreads or self.means is not None or self.order is not None

    @property
    def spreads(self) -> bool:
        """Whether something shows how far people of a block lie apart, and not only where."""
        return self.counts.informative or (self.order is not None and not self.order.single)

    @property
    def size(self) -> int:
        """Statistics of a block: bins, the total if means were published, and order statistics."""
        return self.n_counted + (0 if self.order is None else self.order.value.shape[1])

    @property
    def n_counted(self) -> int:
        """Bins, and the total if means were published."""
        return self.counts.n_bins + (self.means is not None)

    def used(self) -> BoolArray:
        """Mark the statistics that say something, (B, L)."""
        used = [self.counts.used()]
        if self.means is not None:
            used.append(np.isfinite(self.means)[:, None])
        if self.order is not None:
            used.append(self.order.valid)
        return np.column_stack(used) if len(used) > 1 else used[0]

    def target(self, unit: float | None) -> FloatArray:
        """Return what was published, (B, L): totals over ``unit``; 0 for order statistics."""
        parts = [self.counts.count]
        if self.means is not None:
            parts.append((np.nan_to_num(self.means) * self.counts.n / (unit or 1.0))[:, None])
        if self.order is not None:
            parts.append(np.zeros(self.order.value.shape))
        return np.column_stack(parts) if len(parts) > 1 else parts[0]

    def targets(self) -> BlockTargets:
        """Read each block's mean and variance off all that was published of it."""
        if self.order is None:
            return block_targets(self.counts, self.means)
        found = block_targets(self.counts, self.means, self.order.middle())
        known = np.isfinite(found.variance)
        return replace(found, variance=np.where(known, found.variance, self.order.variance()))


def read_table(release: Release, family: Family, people: FloatArray | None = None) -> Table:
    """Lay out what an aligned release published.

    ``people`` (B,) are those that the rows of each block stand for, where these may be others.
    """
    release.check_domain(family.domain, family=family.name)
    counts = published_counts(release, family.domain, smallest=family.smallest_count)
    means, order = release.means, published_order(release, counts, family.domain)
    if means is not None and not np.isfinite(means).any():
        means = None
    family.check_statistics(shared=counts.shared, means=means is not None, values=order is not None)
    if family.free_shape:
        counts = replace(counts, whole=looks_counted(release))
    if _imply_totals(counts, family.domain):
        means = None
    factor = None
    if people is not None and not (people == counts.n).all():
        # of a block whose people are all known no row is left
        factor = np.where(people > 0, counts.n / np.maximum(people, 1e-300), 1.0)
    return Table(counts, means, order, factor)


def _imply_totals(counts: PublishedCounts, domain: Interval) -> bool:
    """Tell whether every bin holds one whole number, so that counts determine totals.

    Means add nothing then, and both together would have a singular covariance.
    """
    exact = domain.integer and counts.exact and bool(counts.known.all())
    return exact and bool((counts.lower >= counts.upper).all())


def published_counts(release: Release, domain: Interval, *, smallest: int = 5) -> PublishedCounts:
    """Turn the histograms and full lists of an aligned release into counts.

    Parameters
    ----------
    release : Release
        Aligned: the number of people of every block is known.
    domain : Interval
        Of the family.
    smallest : int
        Cuts with fewer people of all blocks than this (and than one in a thousand, unless
        ``smallest`` is 1) on one side are dropped.

    Raises
    ------
    DomainError
        For an integer domain, if the edges cannot separate integers.
    """
    if release.noise_sd > 0:
        return _noisy_counts(release, domain)
    table = _with_lists(release)
    shared = _shared_counts(table, release, domain, smallest)
    if shared is not None:
        return shared
    cuts = _cuts(table, release, domain)
    cuts = _drop_far(cuts, release.n, smallest)
    known = np.diff(cuts.start) > 0
    grid = _common_grid(cuts, release.n, known)
    if grid is not None:
        lower, upper = bins_between(grid[0], domain)
        count = np.diff(grid[1], axis=1, prepend=0, append=release.n[:, None])
        count[~known, :] = 0
        count[~known, 0] = release.n[~known]
        counts = PublishedCounts(release.n, lower, upper, count.astype(float), known)
    else:
        counts = _padded(cuts, release.n, domain, known)
    return _with_errors(with_hidden(counts, table, domain), table, domain)


def _with_errors(counts: PublishedCounts, table: Histogram, domain: Interval) -> PublishedCounts:
    """Carry the margins of error of a table over to the counts that were made of it."""
    if table.count_se is None or not np.nansum(table.count_se) > 0:
        return counts
    noise = np.zeros(counts.count.shape)
    np.add.at(noise, place_cells(counts, table, domain), np.nan_to_num(table.count_se) ** 2)
    return replace(counts, noise=noise)


def _shared_counts(
    table: Histogram, release: Release, domain: Interval, smallest: int
) -> PublishedCounts | None:
    """Count a table whose blocks all have the same adjoining bins; None for any other table.

    The cuts of all blocks are those of everybody together, so that one block shows them.
    """
    n_blocks, width = len(release.n), int(table.start[1])
    if not table.repeats() or table.hidden().any() or table.count_se is not None:
        return None
    lower, upper, count = table.lower[:width], table.upper[:width], table.count
    count = count.reshape(n_blocks, width)
    if not ((lower[1:] == upper[:-1]).all() and (lower < upper).all()):
        return None
    _check_complete(table, release)
    start, people = np.array([0, width]), release.n.sum(keepdims=True)
    pooled = Histogram(start, lower, upper, count.sum(axis=0), table.closed)
    cuts = _drop_far(_cuts(pooled, None, domain), people, smallest)
    if len(cuts.value) == 0:
        return None
    ends = tables.integer_edges(pooled)[1] if domain.integer else pooled.upper
    below = np.concatenate([np.zeros((n_blocks, 1), count.dtype), np.cumsum(count, axis=1)], axis=1)
    below = below[:, np.searchsorted(ends, cuts.value, side="right")]
    inside = np.diff(below, axis=1, prepend=0, append=release.n[:, None])
    known = np.ones(n_blocks, dtype=bool)
    return PublishedCounts(
        release.n, *bins_between(cuts.value, domain), inside.astype(float), known
    )


def looks_counted(release: Release) -> bool:
    """Tell whether targets look like counts of something: whole numbers from 0 on, few above."""
    table = release.histogram
    edges = np.concatenate([table.lower, table.upper])
    edges = edges[np.isfinite(edges)]
    if not len(edges) or not tables.holds_integers(table):
        return False
    low, high = tables.integer_edges(table)
    whole = (low <= high) | (table.count == 0)
    return bool(
        whole.all() and lowest_end(release) >= 0 and np.abs(edges).max(initial=0.0) <= _MOST_COUNTED
    )


def holds_zero_one(release: Release) -> bool:
    """Tell whether every bin with people holds 0 or 1 and no other whole number.

    So do (-0.5, 0.5] and (0.5, 1.5], and points at 0 and 1. A bin without an end may hold any
    count.
    """
    table = release.histogram
    if not len(table.count) or not tables.holds_integers(table):
        return False
    low, high = tables.integer_edges(table)
    one = (low == high) & ((low == 0) | (low == 1))
    values = release.order_statistics.value
    return bool(one[table.count > 0].all() and np.isin(values, (0.0, 1.0)).all())


def lowest_end(release: Release) -> float:
    """Return the lowest value, or upper end of a bin with people, that was published."""
    table = release.histogram
    bins = table.upper[table.count > 0].min(initial=np.inf)
    return float(min(bins, release.order_statistics.value.min(initial=np.inf)))


def _noisy_counts(release: Release, domain: Interval) -> PublishedCounts:
    """Take counts with noise added as they are: they need not add up, so no bin can be derived."""
    if release.histogram.hidden().any():
        raise ReleaseError(
            "noise_sd: noisy counts cannot be suppressed or rounded too, got intervals; say one"
        )
    table, n_blocks = release.histogram, len(release.n)
    width = len(table.count) // n_blocks
    lower, upper = (np.reshape(e, (-1, width)) if width else e for e in (table.lower, table.upper))
    same = len(table.count) == n_blocks * width and (np.diff(table.start) == width).all()
    if not (width and same and (lower == lower[0]).all() and (upper == upper[0]).all()):
        raise ReleaseError(
            "noise_sd: every block must have the same bins, got different ones; publish zero "
            "counts too"
        )
    if domain.integer:
        low, high = tables.integer_edges(table)
        low, high = low[:width], high[:width]
        low[0], high[-1] = domain.low, domain.high
    else:
        low, high = lower[0].copy(), upper[0].copy()
        low[0], high[-1] = domain.low, domain.high
    count = table.count.reshape(n_blocks, width).astype(float)
    noise = np.full(count.shape, release.noise_sd**2)
    known = np.ones(n_blocks, dtype=bool)
    return PublishedCounts(release.n, low, high, count, known, noise=noise, adds_up=False)


# -- cut points ----------------------------------------------------------------------------------


def _with_lists(release: Release) -> Histogram:
    """Return the histograms, with full lists of values counted in pooled quantile bins."""
    listed = full_lists(release) & (np.diff(release.histogram.start) == 0)
    if not listed.any():
        return release.histogram
    blocks = np.flatnonzero(listed)
    order = release.order_statistics.take(blocks)
    pooled = np.sort(order.value)
    n_bins = int(np.clip(len(pooled) // 10, 2, _MAX_LIST_BINS))
    edges = np.unique(np.quantile(pooled, np.arange(1, n_bins) / n_bins, method="inverted_cdf"))
    edges = edges[edges < pooled[-1]]
    if not len(edges):  # most people have the largest value: cut below it
        edges = pooled[pooled < pooled[-1]][-1:]
    edges = np.concatenate([[-np.inf], edges, [np.inf]])
    width = len(edges) - 1
    place = np.searchsorted(edges, order.value, side="left") - 1
    codes = np.repeat(blocks, np.diff(order.start))
    count = np.bincount(codes * width + place, minlength=len(release.n) * width)
    start = np.concatenate([[0], np.cumsum(np.where(listed, width, 0))]).astype(np.int64)
    rows = np.repeat(listed, width)
    table = Histogram(
        start,
        np.tile(edges[:-1], len(blocks)),
        np.tile(edges[1:], len(blocks)),
        count[rows],
        release.histogram.closed if len(release.histogram.count) else "right",
    )
    return tables.join_histograms(release.histogram, table, release.blocks)


def _cuts(table: Histogram, release: Release | None, domain: Interval) -> Cumulative:
    """Return the cumulative counts at every finite edge inside the domain.

    With a release, its people must be those of the table.
    """
    if domain.integer and len(table.count):
        if not tables.holds_integers(table):
            raise DomainError(
                "histogram: the edges must be whole or half numbers to determine which integers a "
                "bin holds; correct the edges or choose a family for real values"
            )
        low, high = tables.integer_edges(table)
        table = Histogram(table.start, low - 1, np.maximum(high, low - 1), table.count)
    points = tables.histogram_to_cumulative(table)
    lowest = np.nextafter(domain.low, np.inf) if not domain.integer else domain.low
    inside = (points.value >= lowest) & (points.value < domain.high) & np.isfinite(points.value)
    # the last of equal values counts everybody at or below it, points included
    last = last_rows(points.start)
    inside[:-1] &= last[:-1] | (points.value[1:] != points.value[:-1])
    if release is not None:
        _check_complete(table, release)
    return _keep(points, inside)


def _check_complete(table: Histogram, release: Release) -> None:
    off = (np.diff(table.start) > 0) & (table.total() != release.n)
    if off.any():
        b = int(np.argmax(off))
        raise ReleaseError(
            f"block {str(release.blocks[b])!r}: the histogram counts {table.total()[b]} people, "
            f"the block has {release.n[b]}; align the release with the rows of X first"
        )


def _drop_far(cuts: Cumulative, n: IntArray, smallest: int) -> Cumulative:
    """Drop far cuts and the blocks' own extremes (see the module's docstring)."""
    if len(cuts.value) == 0:
        return cuts
    people = np.repeat(n, np.diff(cuts.start))
    beyond = np.minimum(_certainly_below(cuts), _certainly_above(cuts, n))
    known = np.diff(cuts.start) > 0
    wanted = smallest if smallest <= 1 else max(smallest, int(n[known].sum()) / 1000)
    _, inverse, repeats = np.unique(cuts.value, return_inverse=True, return_counts=True)
    alone = (repeats[inverse] == 1) & (known.sum() > 1)
    nobody = (first_rows(cuts.start) & (cuts.count == 0)) | (
        last_rows(cuts.start) & (cuts.count == people)
    )
    keep = (beyond >= wanted) & ~(alone & nobody)
    central = np.maximum.reduceat(beyond, cuts.start[:-1][known])
    lost = ~np.logical_or.reduceat(keep, cuts.start[:-1][known])
    size = np.diff(cuts.start)[known]
    keep |= np.repeat(lost, size) & (beyond == np.repeat(central, size))
    return _keep(cuts, keep)


def _certainly_below(cuts: Cumulative) -> FloatArray:
    """Return, per cut, the people of all blocks in bins that end at or below it."""
    inside = np.diff(np.concatenate([[0], cuts.count]))
    first = first_rows(cuts.start)
    inside[first] = cuts.count[first]
    order = np.argsort(cuts.value, kind="stable")
    total = np.concatenate([[0], np.cumsum(inside[order])])
    return np.asarray(total[np.searchsorted(cuts.value[order], cuts.value, side="right")])


def _certainly_above(cuts: Cumulative, n: IntArray) -> FloatArray:
    """Return, per cut, the people of all blocks in bins that start at or above it."""
    people = np.repeat(n, np.diff(cuts.start))
    flipped = Cumulative(
        (cuts.start[-1] - cuts.start)[::-1], -cuts.value[::-1], (people - cuts.count)[::-1]
    )
    return _certainly_below(flipped)[::-1]


def _keep(cuts: Cumulative, mask: BoolArray) -> Cumulative:
    start = np.concatenate([[0], np.cumsum(mask)])[cuts.start]
    return Cumulative(start, cuts.value[mask], cuts.count[mask])


# -- layouts -------------------------------------------------------------------------------------


def _common_grid(
    cuts: Cumulative, n: IntArray, known: BoolArray
) -> tuple[FloatArray, IntArray] | None:
    """Return (grid, cumulative counts at it) if every block's counts are determined there."""
    grid, place = np.unique(cuts.value, return_inverse=True)
    n_blocks, size = len(n), np.diff(cuts.start)
    if len(grid) * n_blocks > _MAX_GRID_CELLS or len(grid) > 4 * size.max(initial=0) + 4:
        return None
    block = np.repeat(np.arange(n_blocks), size)
    before = np.zeros((n_blocks, len(grid)), np.int64)
    after = np.broadcast_to(n[:, None], before.shape).copy()
    before[block, place] = after[block, place] = cuts.count
    before = np.maximum.accumulate(before, axis=1)
    after = np.minimum.accumulate(after[:, ::-1], axis=1)[:, ::-1]
    return (grid, before) if (before == after)[known].all() else None


def bins_between(cut: FloatArray, domain: Interval) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the bins between cuts."""
    lower = np.concatenate([[domain.low], cut + 1 if domain.integer else cut])
    return lower, np.concatenate([cut, [domain.high]])


def _padded(cuts: Cumulative, n: IntArray, domain: Interval, known: BoolArray) -> PublishedCounts:
    """Lay out blocks with different bins side by side, padded to the longest."""
    n_blocks, size = len(n), np.diff(cuts.start)
    width = int(size.max(initial=0)) + 1
    block = np.repeat(np.arange(n_blocks), size)
    place = np.arange(len(cuts.value)) - cuts.start[block]
    lower = np.full((n_blocks, width), np.inf)
    upper = np.full((n_blocks, width), -np.inf)
    total = np.broadcast_to(n[:, None], (n_blocks, width)).copy()
    lower[:, 0] = domain.low
    lower[block, place + 1] = cuts.value + 1 if domain.integer else cuts.value
    upper[block, place] = cuts.value
    upper[np.arange(n_blocks), size] = domain.high
    total[block, place] = cuts.count
    count = np.diff(total, axis=1, prepend=0).astype(float)
    return PublishedCounts(n, lower, upper, count, known)


# -- order statistics ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PublishedOrder:
    """Order statistics laid out side by side, at most J in a block.

    Attributes
    ----------
    value : (B, J)
        Increasing within a block; -inf in padding.
    rank : (B, J)
        1 is the smallest; 0 in padding. Of equal real values, which are rounded, the mean rank.
    n : (B,)
    lowest, highest : (B, J) bool
        Whether the value bounds where the block lies from below, and from above. Of equal integers
        the first does and the last does, an end of the domain does not; what neither does is left
        out.
    """

    value: FloatArray
    rank: FloatArray
    n: IntArray
    lowest: BoolArray
    highest: BoolArray

    @property
    def valid(self) -> BoolArray:
        """Mark what is not padding, shape (B, J)."""
        return np.asarray(self.rank > 0)

    @property
    def known(self) -> BoolArray:
        """Blocks with order statistics."""
        return np.asarray(self.valid.any(axis=1))

    @property
    def single(self) -> bool:
        """Whether no block has two of them, which would tell how far people lie apart."""
        return bool(((self.lowest | self.highest).sum(axis=1) <= 1).all())

    def take(self, blocks: slice) -> PublishedOrder:
        """Return those of some blocks."""
        return PublishedOrder(
            self.value[blocks],
            self.rank[blocks],
            self.n[blocks],
            self.lowest[blocks],
            self.highest[blocks],
        )

    def middle(self) -> FloatArray:
        """Return the value nearest to each block's median; NaN where there is none."""
        away = np.where(self.valid, np.abs(self.rank / (self.n[:, None] + 1) - 0.5), np.inf)
        chosen = self.value[np.arange(len(self.n)), away.argmin(axis=1)]
        return np.where(self.known, chosen, np.nan)

    def variance(self) -> FloatArray:
        """Return the variance of normal values as far apart as the outermost; NaN without two."""
        share = np.where(self.valid, self.rank - 0.5, 0.5) / self.n[:, None]
        at = ndtri(np.clip(share, 1e-6, 1 - 1e-6))
        block, last = np.arange(len(self.n)), np.maximum(self.valid.sum(axis=1) - 1, 0)
        apart = at[block, last] - at[:, 0]
        told = apart > 0
        width = np.where(told, self.value[block, last], 0.0) - np.where(told, self.value[:, 0], 0.0)
        return np.where(told, (width / np.where(told, apart, 1.0)) ** 2, np.nan)


def published_order(
    release: Release, counts: PublishedCounts, domain: Interval
) -> PublishedOrder | None:
    """Lay out the order statistics that the counts do not imply already; None without any."""
    order, n = release.order_statistics, release.n
    told = full_lists(release) | (counts.valid().sum(axis=1) >= 3)
    used = np.repeat(~told, np.diff(order.start))
    if not used.any():
        return None
    block = np.repeat(np.arange(len(n)), np.diff(order.start))[used]
    value, rank = order.value[used], order.rank[used].astype(float)
    new = np.concatenate([[True], (np.diff(block) > 0) | (np.diff(value) > 0)])
    last = np.append(new[1:], True)
    if domain.integer:
        new, last = new & (value > domain.low), last & (value < domain.high)
        keep = new | last
    else:
        group = np.cumsum(new) - 1
        rank = (np.bincount(group, rank) / np.bincount(group))[group]
        keep, last = new, new
    block, value, rank, new, last = (each[keep] for each in (block, value, rank, new, last))
    place = np.arange(len(block)) - np.searchsorted(block, block)
    shape = len(n), int(place.max()) + 1
    laid_out = PublishedOrder(
        np.full(shape, -np.inf),
        np.zeros(shape),
        n,
        np.zeros(shape, dtype=bool),
        np.zeros(shape, dtype=bool),
    )
    laid_out.value[block, place], laid_out.rank[block, place] = value, rank
    laid_out.lowest[block, place], laid_out.highest[block, place] = new, last
    return laid_out
