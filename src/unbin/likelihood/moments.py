"""Expectation, derivative and covariance of the published statistics, block by block.

The statistics of block b are sums over its people: counts in bins and, where a mean was
published, the total of the targets (divided by a fixed unit, so that it is on the scale of a
count). People are independent given their features, so with q_i the bin probabilities of row i

    m_b = Σ q_i,    D_b = ∂m_b/∂(free parameters),    S_b = diag(Σ q_i) - Σ q_i q_iᵀ

exactly. Sums over rows add over parts of the rows, wherever they are, and pieces of a few thousand
rows are worked on at a time, so that no array grows with n × K.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, TypeVar

import numpy as np
from numba import njit

from unbin.design import Design
from unbin.families import Family
from unbin.likelihood.counts import PublishedCounts
from unbin.likelihood.parameters import Coordinates
from unbin.rows import Rows
from unbin.typing import FloatArray

_PIECE_CELLS = 1 << 15
"""Rows times bins worked on at a time: the arrays of a piece stay in the cache."""
_TILE = 256
"""Rows whose products are formed at a time."""
_LANES = 8
"""Numbers in the widest vectors of a processor."""

Done = TypeVar("Done")


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
    weight : (B,) or None
        People a row of the design stands for, where rows were thinned.
    block_variance : float
        Variance of an effect on eta shared by the people of a block.
    """

    design: Design
    counts: PublishedCounts
    family: Family
    coordinates: Coordinates
    means: PublishedMeans | None
    noise_sd: float
    weight: FloatArray | None = None
    block_variance: float = 0.0

    @property
    def n_statistics(self) -> int:
        """Statistics of a block: its bins, and the total if means were published."""
        return self.counts.n_bins + (self.means is not None)

    @property
    def n_people(self) -> int:
        """People in all blocks."""
        return int(self.counts.n.sum())

    @property
    def n_fitted(self) -> int:
        """Intercept and slopes that are fitted: columns that are constant have none."""
        return self.coordinates.n_slopes - int((~self.design.varies).sum())

    @property
    def law(self) -> Law:
        """What a row says about the published statistics."""
        return Law(
            self.family,
            self.coordinates,
            self.counts.lower,
            self.counts.upper,
            None if self.means is None else self.means.unit,
            self.block_variance,
        )


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


@dataclass(frozen=True, slots=True)
class Law:
    """What a row says about the published statistics, apart from its features.

    Attributes
    ----------
    family : Family
    coordinates : Coordinates
    lower, upper : (K,) or (B, K)
        Bins, as in ``PublishedCounts``.
    unit : float or None
        What totals are divided by; None when no means were published.
    block_variance : float
    """

    family: Family
    coordinates: Coordinates
    lower: FloatArray
    upper: FloatArray
    unit: float | None
    block_variance: float

    def points(self, eta: Any) -> list[Any]:
        """Return where a model is averaged over the effect of a block: ± one standard deviation.

        Two points are exact to the third order in the effect.
        """
        sd = float(np.sqrt(self.block_variance))
        return [eta] if sd == 0 else [eta + sd, eta - sd]

    @property
    def n_bins(self) -> int:
        """Bins of a block, padding included."""
        return int(self.lower.shape[-1])

    @property
    def n_statistics(self) -> int:
        """Statistics of a block: its bins, and the total if means were published."""
        return self.n_bins + (self.unit is not None)


def edges_of(
    lower: FloatArray, upper: FloatArray, rows: Rows, piece: slice
) -> tuple[FloatArray, FloatArray]:
    """Return the bin ends of some rows, ready for ``Family.bins``."""
    if lower.ndim == 1:
        return lower, upper
    codes = rows.codes(piece)
    return lower[codes], upper[codes]


def block_moments(
    problem: Problem, free: FloatArray, *, covariance: bool = True
) -> Iterator[BlockMoments]:
    """Yield the moments of all blocks, some at a time."""
    return map_moments(problem, free, lambda moments: moments, covariance=covariance)


def map_moments(
    problem: Problem,
    free: FloatArray,
    function: Callable[[BlockMoments], Done],
    *,
    covariance: bool = True,
) -> Iterator[Done]:
    """Yield a function of the moments of all blocks, some at a time."""

    def then(blocks: slice, sums: tuple[FloatArray, ...]) -> Done:
        return function(_finish(problem, free, blocks, sums, covariance))

    return problem.design.by_block(moment_sums, problem.law, free, covariance, then=then)


# -- sums over rows ------------------------------------------------------------------------------


@singledispatch
def moment_sums(
    rows: Rows, law: Law, free: FloatArray, covariance: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return, by block, Σ q, Σ dq/d(intercept, slopes, nuisance), and -Σ q qᵀ.

    The row of a total in the last one holds the total's covariances instead.
    """
    d, n_blocks, size = rows.matrix.shape[1], len(rows.blocks), law.n_statistics
    theta, nuisance = law.coordinates.split(free)
    # thresholds shift with eta, so they need no work per row
    m = 0 if law.family.has_thresholds else law.coordinates.n_nuisance
    mean = np.zeros((n_blocks, size))
    slopes = np.zeros((n_blocks, size, 1 + d + m))
    cross = np.zeros((n_blocks, size, size))
    for piece in rows.pieces(max(_PIECE_CELLS // size, 256)):
        eta = rows.eta(theta, piece)
        q, d_eta, d_nuisance, extra = row_model(rows, law, eta, nuisance, piece, covariance)
        accumulate(
            q, d_eta, d_nuisance[:m], extra, rows.matrix.T, piece.start, rows.start,
            mean, slopes, cross, covariance, law.n_bins,
        )  # fmt: skip
    return mean, slopes, cross


def row_model(
    rows: Rows, law: Law, eta: FloatArray, nuisance: FloatArray, piece: slice, covariance: bool
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return each row's expected statistics, their derivatives, and what the total adds to S."""
    family, points = law.family, law.points(eta)
    lower, upper = edges_of(law.lower, law.upper, rows, piece)
    models = [family.bins(at, lower, upper, nuisance) for at in points]
    q = _average([model.probability for model in models])
    d_eta = _average([model.d_eta for model in models])
    d_nuisance = _average([model.d_nuisance for model in models])
    if law.unit is None:
        return q, d_eta, d_nuisance, np.zeros((0, 0))
    means = [family.inverse_link(at) for at in points]
    mean, extra = _average(means), np.zeros((len(eta), law.n_bins + 1))
    if covariance:
        if law.n_bins > 1:
            within = [family.bin_means(at, lower, upper, nuisance) for at in points]
            shares = [model.probability for model in models]
            extra[:, :-1] = _average(
                [
                    share * np.where(share > 0, inside - mean[:, None], 0.0)
                    for share, inside in zip(shares, within, strict=True)
                ]
            )
        variances = [family.variance(at, nuisance) for at in points]
        apart = [(each - mean) ** 2 for each in means]
        extra[:, -1] = (_average(variances) + _average(apart)) / law.unit
        extra /= law.unit
    q = np.column_stack([q, mean / law.unit])
    slope = _average([family.mean_derivative(at) for at in points])
    d_eta = np.column_stack([d_eta, slope / law.unit])
    padding = np.zeros((*d_nuisance.shape[:2], 1))
    return q, d_eta, np.concatenate([d_nuisance, padding], axis=2), extra


def _average(values: list[FloatArray]) -> FloatArray:
    """Return the mean over the points of a block's effect."""
    return values[0] if len(values) == 1 else 0.5 * (values[0] + values[1])


# -- sums of blocks ------------------------------------------------------------------------------


def _finish(
    problem: Problem,
    free: FloatArray,
    blocks: slice,
    sums: tuple[FloatArray, ...],
    covariance: bool,
) -> BlockMoments:
    """Turn sums over rows into moments, rows standing for people."""
    mean, slopes, cross = sums
    if covariance:
        _finish_covariance(mean, cross, problem.counts.n_bins)
    if problem.weight is not None:
        weight = problem.weight[blocks]
        cross *= weight[:, None, None]
        mean *= weight[:, None]
        slopes *= weight[:, None, None]
    derivative = _to_free(problem, free, slopes)
    return BlockMoments(blocks, mean, derivative, slopes[:, :, 0], cross)


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
def accumulate(  # type: ignore[no-untyped-def]
    q, d_eta, d_nuisance, extra, columns, row, start, mean, slopes, cross, covariance, n_bins
):
    """Add a piece of rows, which begins at ``row``, to the sums of its blocks.

    Features are copied in tiles of rows, so that products find them in the cache; the rest block
    by block, followed by zeros that make up whole vectors (the features beside them do not count).
    ``cross`` receives -Σ q qᵀ for bins, and Σ extra in the row of the total.
    """
    n, size = q.shape
    d, m = columns.shape[0], d_nuisance.shape[0]
    width = _TILE + _LANES
    one, slope = np.zeros((2, width)), np.zeros((_up(size, 2), width))
    x, level = np.zeros((_up(1 + d, 6), width)), np.zeros((_up((1 + m) * size, 6), width))
    for i in range(width):
        one[0, i], x[0, i] = 1.0, 1.0
    by_one, by_x = np.empty((2, len(level))), np.empty((len(slope), len(x)))
    by_level = np.empty((len(slope), _up(size, 6)))
    b = np.searchsorted(start, row, side="right") - 1
    low = 0
    for tile in range(0, n, _TILE):
        end = min(tile + _TILE, n)
        for j in range(d):
            _copy_padded(columns[j, row + tile : row + end], x[1 + j, : end - tile])
        while low < end:
            while start[b + 1] - row <= low:
                b += 1
            high = min(end, start[b + 1] - row)
            used = _up(high - low, _LANES)
            for k in range(size):
                _copy_padded(d_eta[low:high, k], slope[k, :used])
                _copy_padded(q[low:high, k], level[k, :used])
                for j in range(m):
                    _copy_padded(d_nuisance[j, low:high, k], level[(1 + j) * size + k, :used])
            _products(slope, x, low - tile, used, by_x)
            _products(one, level, 0, used, by_one)
            for k in range(size):
                mean[b, k] += by_one[0, k]
                for j in range(d + 1):
                    slopes[b, k, j] += by_x[k, j]
                for j in range(m):
                    slopes[b, k, 1 + d + j] += by_one[0, (1 + j) * size + k]
            if covariance:
                _products(level, level, 0, used, by_level)
                for k in range(n_bins):
                    for j in range(n_bins):
                        cross[b, k, j] -= by_level[k, j]
                for i in range(low, high if size > n_bins else low):
                    for k in range(size):
                        cross[b, n_bins, k] += extra[i, k]
            low = high


@njit(cache=True, nogil=True)
def _up(size, step):  # type: ignore[no-untyped-def]
    """Round up to a multiple."""
    return (size + step - 1) // step * step


@njit(cache=True, nogil=True)
def _copy_padded(values, out):  # type: ignore[no-untyped-def]
    """Copy, and fill the rest with zeros (slices would be compiled with all their errors)."""
    for i in range(len(values)):
        out[i] = values[i]
    for i in range(len(values), len(out)):
        out[i] = 0.0


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _products(left, right, skip, n, out):  # type: ignore[no-untyped-def]
    """Write left rightᵀ over ``n`` columns, leaving out the first ``skip`` of ``right``.

    BLAS would spend more on being called than on a small block. Twelve sums at a time are about
    as many as there are registers for.
    """
    end = skip + n
    for j in range(0, out.shape[1], 6):
        u, v, w = right[j, skip:end], right[j + 1, skip:end], right[j + 2, skip:end]
        x, y, z = right[j + 3, skip:end], right[j + 4, skip:end], right[j + 5, skip:end]
        for k in range(0, len(out), 2):
            a, b = left[k, :n], left[k + 1, :n]
            au, av, aw, ax, ay, az = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            bu, bv, bw, bx, by, bz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for i in range(n):
                au += a[i] * u[i]
                av += a[i] * v[i]
                aw += a[i] * w[i]
                ax += a[i] * x[i]
                ay += a[i] * y[i]
                az += a[i] * z[i]
                bu += b[i] * u[i]
                bv += b[i] * v[i]
                bw += b[i] * w[i]
                bx += b[i] * x[i]
                by += b[i] * y[i]
                bz += b[i] * z[i]
            out[k, j], out[k, j + 1], out[k, j + 2] = au, av, aw
            out[k, j + 3], out[k, j + 4], out[k, j + 5] = ax, ay, az
            out[k + 1, j], out[k + 1, j + 1], out[k + 1, j + 2] = bu, bv, bw
            out[k + 1, j + 3], out[k + 1, j + 4], out[k + 1, j + 5] = bx, by, bz
