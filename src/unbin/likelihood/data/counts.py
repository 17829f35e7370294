"""Counts of people in a partition of the family's domain, and what can be read off them.

Far bins that a fitted model all but rules out are merged. Under tails heavier than the family's a
bin may hold people although its expected count over all blocks is 1e-6; each of them would add a
million to the misfit and dominate the sandwich. After merging the misfit still shows the heavy
tail, on a readable scale.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unbin._typing import BinArray, BoolArray, FloatArray, IntArray
from unbin.families import Interval


@dataclass(frozen=True)
class PublishedCounts:
    """Counts of people in a partition of the domain, block by block.

    Attributes
    ----------
    n : (B,)
        People in each block.
    lower, upper : (K,) when all blocks share their bins, else (B, K)
        Ends of the bins; for an integer domain the smallest and the largest integer a bin holds.
        A bin with ``lower > upper`` is padding.
    count : (B, K)
        Published counts; 0 in padding.
    known : (B,) bool
        Blocks that have published counts. The others have their people in the first bin and are
        left out of every sum.
    low, high : (B, K) or None
        The intervals of suppressed and rounded counts; None when all counts are exact.
    whole : bool
        Whether targets look like counts 0, 1, 2, … although the family has no domain (ordinal).
    noise : (B, K) or None
        Variance of the noise in each count.
    adds_up : bool
        Whether the counts of a block add up to its people; noisy ones need not.
    """

    n: IntArray
    lower: FloatArray
    upper: FloatArray
    count: FloatArray
    known: BoolArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    whole: bool = False
    noise: FloatArray | None = None
    adds_up: bool = True

    @property
    def shared(self) -> bool:
        """Whether all blocks have the same bins."""
        return self.lower.ndim == 1

    @property
    def n_bins(self) -> int:
        """Bins of a block, padding included."""
        return int(self.count.shape[1])

    @property
    def exact(self) -> bool:
        """Whether all counts are known, without noise."""
        return self.low is None and self.noise is None

    def without(self, held: BoolArray) -> PublishedCounts:
        """Return the counts of all blocks but some."""
        return replace(self, known=self.known & ~held)

    def used(self) -> BoolArray:
        """Mark the counts that say something, (B, K): but for one in a block that adds up."""
        used = self.valid().copy()
        if self.adds_up:
            used[np.arange(len(self.n)), self.count.argmax(axis=1)] = False
        return used

    @property
    def informative(self) -> bool:
        """Whether any block has counts in more than one bin."""
        return self.n_bins > 1 and bool(self.known.any())

    def edges(self, codes: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the bin ends for rows of the given blocks, ready for ``Family.bins``."""
        if self.shared:
            return self.lower, self.upper
        return self.lower[codes], self.upper[codes]

    def valid(self, blocks: slice = slice(None)) -> BoolArray:
        """Mark the bins of some blocks that are not padding, shape (b, K)."""
        real, known = self.lower <= self.upper, self.known[blocks]
        real = np.broadcast_to(real if self.shared else real[blocks], (len(known), self.n_bins))
        return real if known.all() else np.asarray(real & known[:, None])

    def cuts(self) -> FloatArray:
        """Return where the bins end but the last, (K - 1,) or (B, K - 1); infinity in padding."""
        real = self.lower[..., 1:] <= self.upper[..., 1:]
        return np.where(real, self.upper[..., :-1], np.inf)

    def halfway(self) -> tuple[FloatArray, FloatArray]:
        """Return ends of the bins of whole numbers that lie half-way between these.

        (a, b] holds the integers a + 1 to b, at least one, and none is below 0.
        """
        upper = np.floor(self.upper)
        lower = np.minimum(np.maximum(np.floor(self.lower), -1), upper - 1)
        return lower + 0.5, upper + 0.5

    def within(self, ends: Interval) -> PublishedCounts:
        """Return the same, the first and the last bin closed by the ends of a domain.

        All blocks must share their bins, and nobody may be beyond the ends, which belong to them:
        whole numbers from 0 on are in (-1, …].
        """
        lower, upper = self.lower.copy(), self.upper.copy()
        low = np.ceil(ends.low) - 1 if self.whole else ends.low
        lower[0] = min(max(lower[0], low), upper[0])
        upper[-1] = max(min(upper[-1], ends.high), lower[-1])
        return replace(self, lower=lower, upper=upper)

    def log_score(self, expected: FloatArray) -> float:
        """Return Σ c log(m / n) per person of the blocks with counts, m (B, K) expected counts."""
        told = np.maximum(expected, 1e-300)
        np.log(told, out=told)
        told -= np.log(self.n)[:, None]
        told *= self.count
        if not (self.shared and self.known.all()):
            told[~self.valid()] = 0.0
        return float(told.sum() / max(int(self.n[self.known].sum()), 1))


def bins_holding(cuts: FloatArray, upper: FloatArray) -> BinArray:
    """Return the bin between ``cuts`` that holds each finer one, by its upper end.

    Parameters
    ----------
    cuts : (J,) or (n, J)
    upper : (K,) or (n, K)

    Returns
    -------
    (1, K) or (n, K)
    """
    cuts, upper = np.atleast_2d(cuts, upper)
    found = np.zeros((max(len(cuts), len(upper)), upper.shape[1]), np.int32)
    for cut in cuts.T:
        found += cut[:, None] < upper
    return found


_SMALLEST = 5.0
"""Expected count over all blocks that a far bin needs not to be merged."""


def merge_unlikely(counts: PublishedCounts, expected: FloatArray) -> PublishedCounts | None:
    """Merge far bins with an expected count below 5 over all blocks into their neighbours.

    Bins that differ between blocks are left alone, and two bins always remain.

    Parameters
    ----------
    counts : PublishedCounts
    expected : (B, K)

    Returns
    -------
    PublishedCounts or None
        None when nothing needs merging.
    """
    if not counts.shared or counts.n_bins <= 2:
        return None
    pooled = expected[counts.known].sum(axis=0)
    first = int(np.searchsorted(np.cumsum(pooled), _SMALLEST))
    last = counts.n_bins - 1 - int(np.searchsorted(np.cumsum(pooled[::-1]), _SMALLEST))
    if last <= first or (first == 0 and last == counts.n_bins - 1):
        return None
    edges = np.arange(first, last + 1)
    starts = np.concatenate([[0], edges[1:]])
    upper = np.concatenate([counts.upper[edges[:-1]], counts.upper[-1:]])
    count, low, high, noise = (
        None if values is None else np.add.reduceat(values, starts, axis=1)
        for values in (counts.count, counts.low, counts.high, counts.noise)
    )
    assert count is not None
    ends = {"lower": counts.lower[starts], "upper": upper}
    return replace(counts, **ends, count=count, low=low, high=high, noise=noise)


@dataclass(frozen=True, slots=True)
class BlockTargets:
    """A mean and a variance per block, read off its table.

    Attributes
    ----------
    mean, variance : (B,)
        NaN where nothing was published.
    """

    mean: FloatArray
    variance: FloatArray

    @property
    def known(self) -> BoolArray:
        """Blocks about which something was published."""
        return np.isfinite(self.mean)


def block_targets(
    counts: PublishedCounts,
    means: FloatArray | None = None,
    middle: FloatArray | None = None,
    *,
    value: FloatArray | None = None,
) -> BlockTargets:
    """Read each block's mean and variance off its counts, or take the published mean.

    Blocks without counts or mean take ``middle``, a published value near their median. ``value``
    are the means of the bins, (B, K) or (K,); representative values when left out.
    """
    if value is None:
        value = representative_values(counts)
    c, n = counts.count, counts.n
    mean = np.where(counts.known, (c * value).sum(axis=1) / n, np.nan)
    variance = (c * (value - mean[:, None]) ** 2).sum(axis=1) / n
    variance = np.where(counts.known, variance, np.nan)
    if means is not None:
        mean = np.where(np.isfinite(means), means, mean)
    if middle is not None:
        mean = np.where(np.isfinite(mean), mean, middle)
    return BlockTargets(mean, variance)


def representative_values(counts: PublishedCounts) -> FloatArray:
    """Return one value per bin, shape (B, K): midpoints, and exponential tails at open ends.

    An open end has the mean excess that makes its density meet its neighbour's, between a quarter
    of and twice the neighbour's width. Padding gets 0.
    """
    ends = counts.halfway() if counts.whole else (counts.lower, counts.upper)
    lower, upper = np.atleast_2d(*ends)  # one row where all blocks share their bins
    width = upper - lower
    inner = np.isfinite(width) & (width >= 0)
    share = counts.count[counts.known].sum(axis=0)[None] if counts.shared else counts.count
    density = np.where(inner, (share + 0.5) / np.maximum(width, 0.5 * _typical(width, inner)), 0.0)
    fallback = _typical(width, inner)
    scale = _tail(share + 0.5, np.roll(density, -1, axis=1), np.roll(width, -1, axis=1), fallback)
    below = np.isneginf(lower) & np.isfinite(upper)
    result = np.where(inner, 0.5 * (np.where(inner, lower, 0.0) + np.where(inner, upper, 0.0)), 0.0)
    result = np.where(below, np.where(below, upper, 0.0) - scale, result)
    scale = _tail(share + 0.5, np.roll(density, 1, axis=1), np.roll(width, 1, axis=1), fallback)
    above = np.isposinf(upper) & np.isfinite(lower)
    result = np.where(above, np.where(above, lower, 0.0) + scale, result)
    return np.broadcast_to(result, counts.count.shape)


def _typical(width: FloatArray, inner: BoolArray) -> float:
    positive = width[inner & (width > 0)]
    return float(np.median(positive)) if positive.size else 1.0


def _tail(count: FloatArray, density: FloatArray, width: FloatArray, fallback: float) -> FloatArray:
    """Return the mean excess of an open bin over its edge."""
    usable = density > 0
    width = np.where(usable, width, fallback)
    excess = np.where(usable, count / np.where(usable, density, 1.0), 0.5 * fallback)
    return np.asarray(np.clip(excess, 0.25 * width, 2.0 * width))
