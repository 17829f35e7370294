"""Counts that are only known as intervals: suppressed and rounded cells.

The score of "the counts lie in these intervals and add up to n" is the score of exact counts with
each hidden count replaced by its expectation given the intervals, and the information is that of
exact counts less what the variance V of the hidden counts within their intervals takes away:

    U = Σ_b D_bᵀ S_b⁻¹ (E[c_b | intervals] - m_b),   J = Σ_b D_bᵀ S_b⁻¹ (S_b - V_b) S_b⁻¹ D_b.

The law within the intervals is taken as Poisson counts of means m_bk, cut to their intervals and
conditioned on their total: with weights exp(λ_b c) the expectations add up to what the exact cells
leave over, and V_b = diag(v) - v vᵀ / Σv with v the variances of the cut counts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import gammaln

from unbin import tables
from unbin.families import Interval
from unbin.likelihood.counts import PublishedCounts
from unbin.segments import block_of_rows
from unbin.tables import Histogram
from unbin.typing import BoolArray, FloatArray, IntArray

_POINTS = 65
"""Counts of an interval looked at; wider intervals are looked at on a grid."""
_SWEEPS = 60
_WIDEST = 80.0


def with_hidden(counts: PublishedCounts, table: Histogram, domain: Interval) -> PublishedCounts:
    """Carry the intervals of a table over to the counts that were made of it."""
    hidden = table.hidden()
    if not hidden.any():
        return counts
    assert table.count_low is not None
    assert table.count_high is not None
    upper = tables.integer_edges(table)[1] if domain.integer else table.upper
    block = block_of_rows(table.start)[hidden]
    place = _bins_of(counts, block, upper[hidden])
    low, high = counts.count.copy(), counts.count.copy()
    np.add.at(low, (block, place), (table.count_low - table.count)[hidden])
    np.add.at(high, (block, place), (table.count_high - table.count)[hidden])
    return replace(counts, low=np.maximum(low, 0), high=np.minimum(high, counts.n[:, None]))


def _bins_of(counts: PublishedCounts, block: IntArray, upper: FloatArray) -> IntArray:
    """Return the bin of each cell, by the cell's upper edge."""
    if counts.shared:
        return np.asarray(np.searchsorted(counts.upper[:-1], upper))
    real = counts.lower[block] <= counts.upper[block]
    below = (real & (counts.upper[block] < upper[:, None])).sum(axis=1)
    return np.asarray(np.minimum(below, real.sum(axis=1) - 1))


def expected_within(
    counts: PublishedCounts, mean: FloatArray, blocks: slice
) -> tuple[FloatArray, FloatArray]:
    """Return the expected counts of some blocks given their intervals, and variances v within.

    Parameters
    ----------
    counts : PublishedCounts
        With intervals.
    mean : (B', K)
        Expected counts of those blocks before the table is looked at.
    blocks : slice

    Returns
    -------
    count : (B', K)
        As published where that is exact; the counts of a block add up to its people.
    variance : (B', K)
        Of each hidden count within its interval, 0 where the count is exact.
    """
    assert counts.low is not None
    assert counts.high is not None
    low, high = counts.low[blocks], counts.high[blocks]
    hidden = low < high
    count, variance = counts.count[blocks].copy(), np.zeros(low.shape)
    if not hidden.any():
        return count, variance
    block = np.nonzero(hidden)[0]
    total = np.where(hidden, count, 0.0).sum(axis=1)
    cells = _Cells(low[hidden], high[hidden], np.maximum(mean[hidden], 1e-8), block, len(total))
    tilt = cells.tilt(total)
    count[hidden], variance[hidden] = cells.moments(tilt)
    return _adding_up(count, low, high, hidden, total), variance


class _Cells:
    """Hidden cells side by side: the counts of their intervals and Poisson weights."""

    def __init__(
        self, low: FloatArray, high: FloatArray, mean: FloatArray, block: IntArray, n_blocks: int
    ) -> None:
        size = int(min((high - low).max() + 1, _POINTS))
        step = np.maximum((high - low) / (size - 1), 1.0)
        self.value = low[:, None] + step[:, None] * np.arange(size)
        inside = self.value <= high[:, None] + 1e-9
        weight = self.value * np.log(mean)[:, None] - gammaln(self.value + 1)
        self.log_weight = np.where(inside, weight, -np.inf)
        self.block, self.n_blocks = block, n_blocks

    def moments(self, tilt: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of every cell with weights tilted by exp(λ_b c)."""
        log_weight = self.log_weight + tilt[self.block][:, None] * self.value
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        mean = (weight * self.value).sum(axis=1)
        return mean, (weight * (self.value - mean[:, None]) ** 2).sum(axis=1)

    def tilt(self, total: FloatArray) -> FloatArray:
        """Solve for the λ_b at which the cells of each block add up to ``total``: Newton, safe."""
        tilt = np.zeros(self.n_blocks)
        low, high = np.full(self.n_blocks, -_WIDEST), np.full(self.n_blocks, _WIDEST)
        for _ in range(_SWEEPS):
            mean, variance = self.moments(tilt)
            excess = np.bincount(self.block, weights=mean, minlength=self.n_blocks) - total
            if np.abs(excess).max() < 1e-6:
                break
            slope = np.bincount(self.block, weights=variance, minlength=self.n_blocks)
            low, high = np.where(excess < 0, tilt, low), np.where(excess > 0, tilt, high)
            newton = tilt - excess / np.maximum(slope, 1e-12)
            inside = (newton > low) & (newton < high)
            tilt = np.where(inside, newton, 0.5 * (low + high))
        return tilt


def _adding_up(
    count: FloatArray, low: FloatArray, high: FloatArray, hidden: BoolArray, total: FloatArray
) -> FloatArray:
    """Remove what the tilt leaves over, so that the people of a block are all there."""
    count = np.clip(count, low, high)
    short = total - np.where(hidden, count, 0.0).sum(axis=1)
    room = np.where(short[:, None] > 0, high - count, count - low) * hidden
    size = room.sum(axis=1)
    share = np.divide(short, size, out=np.zeros_like(short), where=size > 0)
    return np.asarray(count + room * share[:, None])


def variance_root(variance: FloatArray) -> FloatArray:
    """Return R with R Rᵀ = diag(v) - v vᵀ / Σv, shape (B, K, K)."""
    root = np.sqrt(variance)
    length = np.sqrt(variance.sum(axis=1, keepdims=True))
    unit = np.divide(root, length, out=np.zeros_like(root), where=length > 0)
    project = np.eye(root.shape[1]) - unit[:, :, None] * unit[:, None, :]
    return np.asarray(root[:, :, None] * project)


def whole_counts(count: FloatArray) -> FloatArray:
    """Round expected counts to whole ones that add up to the same people."""
    total = np.round(np.cumsum(count, axis=1), 9)
    return np.diff(np.floor(total + 0.5), axis=1, prepend=0.0)  # halves go one way
