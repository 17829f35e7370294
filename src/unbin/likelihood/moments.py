"""Expectation, derivative and covariance of the published statistics, block by block.

The statistics of block b are sums over its people: counts in bins and, where a mean was
published, the total of the targets (divided by a fixed unit, so that it is on the scale of a
count). People are independent given their features, so with q_i the bin probabilities of row i

    m_b = Σ q_i,    D_b = ∂m_b/∂(free parameters),    S_b = diag(Σ q_i) - Σ q_i q_iᵀ

exactly. Rows are worked on in pieces of a few thousand, so that no array grows with n × K × d and
a single block may hold everybody; blocks travel in the chunks of the design.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit

from unbin.design import Chunk, Design
from unbin.families import Family
from unbin.families.base import BinModel
from unbin.likelihood.counts import PublishedCounts
from unbin.likelihood.parameters import Coordinates
from unbin.typing import FloatArray, IntArray

_PIECE_CELLS = 1 << 15
"""Rows times bins worked on at a time: the arrays of a piece stay in the cache."""
_TILE = 512
"""Rows of one block whose products are formed at a time."""


@dataclass(frozen=True, slots=True)
class PublishedMeans:
    """Means of the targets, block by block.

    Attributes
    ----------
    mean : (B,)
        NaN where none was published.
    unit : float
        What totals are divided by.
    noise_sd : float
        Standard deviation of noise known to have been added to each mean.
    """

    mean: FloatArray
    unit: float
    noise_sd: float = 0.0


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows, published statistics and family: all that the solvers look at.

    Attributes
    ----------
    design : Design
    counts : PublishedCounts
    family : Family
    coordinates : Coordinates
    means : PublishedMeans or None
    noise_sd : float
        Standard deviation of noise known to have been added to each count.
    weight : (B,)
        People a row of the design stands for; 1 unless the rows were thinned.
    block_variance : float
        Variance of an effect on eta shared by the people of a block.
    """

    design: Design
    counts: PublishedCounts
    family: Family
    coordinates: Coordinates
    means: PublishedMeans | None
    noise_sd: float
    weight: FloatArray
    block_variance: float = 0.0

    @property
    def n_statistics(self) -> int:
        """Statistics of a block: its bins, and the total if means were published."""
        return self.counts.n_bins + (self.means is not None)

    @property
    def n_people(self) -> int:
        """People in all blocks."""
        return int(self.counts.n.sum())


@dataclass(frozen=True, slots=True)
class BlockMoments:
    """Moments of the statistics of some blocks, L statistics each.

    Attributes
    ----------
    blocks : slice
        Which blocks.
    mean : (B, L)
    derivative : (B, L, n_free)
    shift : (B, L)
        Derivative in a shift of eta common to the block.
    covariance : (B, L, L)
        Zeros when it was not asked for.
    """

    blocks: slice
    mean: FloatArray
    derivative: FloatArray
    shift: FloatArray
    covariance: FloatArray


def block_moments(
    problem: Problem, free: FloatArray, *, covariance: bool = True
) -> Iterator[BlockMoments]:
    """Yield the moments chunk by chunk of whole blocks."""
    for chunk in problem.design.chunks:
        yield chunk_moments(problem, free, chunk, covariance=covariance)


def chunk_moments(
    problem: Problem, free: FloatArray, chunk: Chunk, *, covariance: bool = True
) -> BlockMoments:
    """Return the moments of the blocks of one chunk."""
    design, n_statistics = problem.design, problem.n_statistics
    d, n_blocks = design.matrix.shape[1], chunk.last - chunk.first
    theta, nuisance = problem.coordinates.split(free)
    # thresholds shift with eta, so they need no work per row
    m = 0 if problem.family.has_thresholds else problem.coordinates.n_nuisance
    start = design.start[chunk.first : chunk.last + 1]
    mean = np.zeros((n_blocks, n_statistics))
    slopes = np.zeros((n_blocks, n_statistics, 1 + d + m))
    cross = np.zeros((n_blocks, n_statistics, n_statistics))
    step = max(_PIECE_CELLS // n_statistics, 256)
    for low in range(chunk.rows.start, chunk.rows.stop, step):
        rows = slice(low, min(low + step, chunk.rows.stop))
        eta = design.eta(theta, rows)
        q, d_eta, d_nuisance, extra = _row_model(problem, eta, nuisance, rows, covariance)
        _accumulate(
            q, d_eta, d_nuisance[:m], extra, design.matrix.T, rows.start, start,
            mean, slopes, cross, covariance, problem.counts.n_bins,
        )  # fmt: skip
    blocks = slice(chunk.first, chunk.last)
    weight = problem.weight[blocks]
    if covariance:
        _finish_covariance(mean, cross, problem.counts.n_bins)
        cross *= weight[:, None, None]
    mean *= weight[:, None]
    slopes *= weight[:, None, None]
    derivative = _to_free(problem, free, slopes)
    return BlockMoments(blocks, mean, derivative, slopes[:, :, 0], cross)


def _row_model(
    problem: Problem, eta: FloatArray, nuisance: FloatArray, rows: slice, covariance: bool
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return each row's expected statistics, their derivatives, and what the total adds to S."""
    family, counts = problem.family, problem.counts
    lower, upper = counts.edges(block_codes(problem.design.start, rows))
    model = _over_effects(problem, eta, lambda at: family.bins(at, lower, upper, nuisance))
    q, d_eta, d_nuisance = model.probability, model.d_eta, model.d_nuisance
    if problem.means is None:
        return q, d_eta, d_nuisance, np.zeros((0, 0))
    unit, mean = problem.means.unit, family.inverse_link(eta)
    extra = np.zeros((len(eta), counts.n_bins + 1))
    if covariance:
        if counts.n_bins > 1:
            within = family.bin_means(eta, lower, upper, nuisance)
            extra[:, :-1] = q * np.where(q > 0, within - mean[:, None], 0.0) / unit
        extra[:, -1] = family.variance(eta, nuisance) / unit**2
    q = np.column_stack([q, mean / unit])
    d_eta = np.column_stack([d_eta, family.mean_derivative(eta) / unit])
    padding = np.zeros((*d_nuisance.shape[:2], 1))
    return q, d_eta, np.concatenate([d_nuisance, padding], axis=2), extra


def _over_effects(
    problem: Problem, eta: FloatArray, model: Callable[[FloatArray], BinModel]
) -> BinModel:
    """Average a model over the effect of a block: at ± one standard deviation.

    Two points are exact to the third order in the effect.
    """
    if problem.block_variance == 0:
        return model(eta)
    sd = float(np.sqrt(problem.block_variance))
    up, down = model(eta + sd), model(eta - sd)
    return BinModel(
        0.5 * (up.probability + down.probability),
        0.5 * (up.d_eta + down.d_eta),
        0.5 * (up.d_nuisance + down.d_nuisance),
    )


def block_codes(start: IntArray, rows: slice) -> IntArray:
    """Return the block of each row of a slice."""
    first = int(np.searchsorted(start, rows.start, side="right")) - 1
    last = int(np.searchsorted(start, rows.stop, side="left"))
    edges = np.clip(start[first : last + 1], rows.start, rows.stop)
    return np.repeat(np.arange(first, last), np.diff(edges))


def _to_free(problem: Problem, free: FloatArray, slopes: FloatArray) -> FloatArray:
    """Turn derivatives in (intercept, slopes, nuisance) into those in the free coordinates."""
    design, coordinates = problem.design, problem.coordinates
    if not problem.family.has_thresholds:
        return slopes if design.fit_intercept else slopes[:, :, 1:]
    # q_k = F_k - F_(k-1) with F_k a function of threshold_k - eta
    cumulative = np.cumsum(slopes[:, : problem.counts.n_bins, 0], axis=1)[:, :-1]
    n_blocks, m = cumulative.shape
    by_threshold = np.zeros((n_blocks, slopes.shape[1], m))
    k = np.arange(m)
    by_threshold[:, k, k] = -cumulative
    by_threshold[:, k + 1, k] = cumulative
    by_threshold = by_threshold @ coordinates.nuisance_jacobian(free)
    first = 1 if coordinates.fixed_intercept or not design.fit_intercept else 0
    return np.concatenate([slopes[:, :, first:], by_threshold], axis=2)


def _finish_covariance(mean: FloatArray, cross: FloatArray, n_bins: int) -> None:
    """Turn the sums of cross-products into covariances, in place."""
    cross[:, :n_bins, n_bins:] = cross[:, n_bins:, :n_bins].swapaxes(1, 2)
    bins = np.arange(n_bins)
    cross[:, bins, bins] += mean[:, :n_bins]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _accumulate(  # type: ignore[no-untyped-def]
    q, d_eta, d_nuisance, extra, columns, row, start, mean, slopes, cross, covariance, n_bins
):
    """Add a piece of rows, which begins at ``row``, to the sums of its blocks.

    Rows are taken in tiles that lie in one block; their products are left to BLAS. ``cross``
    receives -Σ q qᵀ for bins, and Σ extra in the row of the total.
    """
    n, size = q.shape
    d, m = columns.shape[0], d_nuisance.shape[0]
    space = np.ones((d + 1) * _TILE)
    by_x, by_q = np.empty((size, d + 1)), np.empty((size, size))
    b = np.searchsorted(start, row, side="right") - 1
    low = 0
    while low < n:
        while start[b + 1] - row <= low:
            b += 1
        high = min(low + _TILE, n, start[b + 1] - row)
        x = space[: (d + 1) * (high - low)].reshape(d + 1, high - low)
        x[0] = 1.0
        for j in range(d):
            for i in range(high - low):
                x[j + 1, i] = columns[j, row + low + i]
        np.dot(d_eta[low:high].T, x.T, by_x)
        for k in range(size):
            for j in range(d + 1):
                slopes[b, k, j] += by_x[k, j]
        for i in range(low, high):
            for k in range(size):
                mean[b, k] += q[i, k]
        for j in range(m):
            for i in range(low, high):
                for k in range(size):
                    slopes[b, k, 1 + d + j] += d_nuisance[j, i, k]
        if covariance:
            np.dot(q[low:high].T, q[low:high], by_q)
            for k in range(n_bins):
                for j in range(n_bins):
                    cross[b, k, j] -= by_q[k, j]
            if size > n_bins:
                for i in range(low, high):
                    for k in range(size):
                        cross[b, n_bins, k] += extra[i, k]
        low = high
