"""Expectation, derivative and covariance of the published statistics, block by block.

The statistics of block b are sums over its people: counts in bins and, where a mean was
published, the total of the targets (divided by a fixed unit, so that it is on the scale of a
count). People are independent given their features, so with q_i the bin probabilities of row i

    m_b = Σ q_i,    D_b = ∂m_b/∂(free parameters),    S_b = diag(Σ q_i) - Σ q_i q_iᵀ

exactly. A row that stands for w people counts w times. If the rows are a sample of the people, w
their design weights, m_b is itself an estimate: its variance Σ w (w - 1)(q_i - q̄)(q_i - q̄)ᵀ, with q̄
the mean of the block, is added to S_b, times k / (k - 1) where the rows are worth k of equal
weights. Of a single row there is no such variance; its block then weighs as much as one person
does. Sums over rows add over parts of the rows, wherever they
are, and tiles of a few thousand rows are worked on at a time, so that no array grows with n × K.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numba import njit

from unbin._linalg import like
from unbin._typing import FloatArray, IntArray
from unbin.families import Family
from unbin.families.coordinates import Coordinates
from unbin.rows.products import accumulate
from unbin.rows.rows import Rows, kernel

_TILE_CELLS = 1 << 15
"""Rows times bins worked on at a time: the arrays of a tile stay in the cache."""
ALONE = 1e-9
"""1 - Σ w² / (Σ w)² of a block below which it has one row only."""

EFFECT_NODES = 5
"""Quadrature points of a random intercept."""

if TYPE_CHECKING:
    from unbin.likelihood.problem import Problem

Done = TypeVar("Done")


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
        Derivative with respect to a shift of eta common to the block.
    covariance : (B, L, L)
        Zeros when it was not asked for.
    sampling : SamplingVariance or None
        What part of it comes of the rows being a sample.
    """

    blocks: slice
    mean: FloatArray
    derivative: FloatArray
    shift: FloatArray
    covariance: FloatArray
    sampling: SamplingVariance | None = None


@dataclass(frozen=True, slots=True)
class SamplingVariance:
    """Covariance of expected statistics that comes of the rows being a sample.

    Attributes
    ----------
    covariance : (B, L, L)
    level, once, twice : (B,), (B, L), (B, L, L)
        Σ v, Σ v (q_i - q̄) and Σ v (q_i - q̄)(q_i - q̄)ᵀ, v = w (w - 1).
    """

    covariance: Any
    level: Any
    once: Any
    twice: Any


@dataclass(frozen=True, slots=True)
class RowModel:
    """Contributions of some rows to the L statistics of their blocks.

    Attributes
    ----------
    mean : (n, L)
        Expected statistics of each row: probabilities of bins, and the mean over ``unit``.
    d_eta : (n, L)
    d_nuisance : (m, n, L)
    extra : (n, L) or (0, 0)
        Covariances of the total with every statistic, where means were published.
    """

    mean: FloatArray
    d_eta: FloatArray
    d_nuisance: FloatArray
    extra: FloatArray


@dataclass(frozen=True, slots=True)
class Effects:
    """What is known of the random intercept of each block.

    Attributes
    ----------
    move, sd : (B,)
        Its mean and standard deviation given what was published of the block.
    along : (B, p)
        D_bᵀ S_b⁻¹ e_b / e_bᵀ S_b⁻¹ e_b without looking at the block.
    """

    move: FloatArray
    sd: FloatArray
    along: FloatArray


@dataclass(frozen=True, slots=True)
class Law:
    """The distribution of the published statistics given a row's features.

    Attributes
    ----------
    family : Family
    coordinates : Coordinates
    lower, upper : (K,) or (B, K)
        Bins, as in ``PublishedCounts``.
    unit : float or None
        What totals are divided by; None when no means were published.
    block_variance : float
    nodes : int
        Quadrature points of the random block intercept.
    effects : Effects or None
        What is known of that of each block; None where it is only its variance.
    """

    family: Family
    coordinates: Coordinates
    lower: FloatArray
    upper: FloatArray
    unit: float | None
    block_variance: float
    nodes: int = EFFECT_NODES
    effects: Effects | None = None

    @classmethod
    def of(cls, problem: Problem) -> Law:
        """Return the law of the statistics of a problem."""
        return cls(
            problem.family,
            problem.coordinates,
            problem.counts.lower,
            problem.counts.upper,
            None if problem.means is None else problem.means.unit,
            problem.block_variance,
            effects=problem.effects,
        )

    def points(self, eta: Any, codes: Any = None) -> list[Any]:
        """Return eta at the quadrature points of the random block intercept.

        ``codes`` are the blocks of the rows of eta, of tensors those of its first axis.
        """
        sd: Any = float(np.sqrt(self.block_variance))
        if self.effects is not None:
            shape = (-1, *[1] * (eta.ndim - 1))
            eta = eta + like(eta, self.effects.move)[codes].reshape(shape)
            sd = like(eta, self.effects.sd)[codes].reshape(shape)
        moves, _ = effect_points(float(self.block_variance > 0), self.nodes)
        return [eta + sd * move if move else eta for move in moves]

    def quadrature(self) -> tuple[list[float], list[float]]:
        """Return the points of the random block intercept, in its spreads, and their weights."""
        return effect_points(float(self.block_variance > 0), self.nodes)

    def average(self, values: list[Any]) -> Any:
        """Return the mean over the quadrature points, of arrays or of tensors."""
        if len(values) == 1:
            return values[0]
        _, weights = effect_points(1.0, self.nodes)
        return sum(weight * each for weight, each in zip(weights, values, strict=True))

    @property
    def n_bins(self) -> int:
        """Bins of a block, padding included."""
        return int(self.lower.shape[-1])

    @property
    def n_statistics(self) -> int:
        """Statistics of a block: its bins, and the total if means were published."""
        return self.n_bins + (self.unit is not None)

    def rows(
        self, rows: Rows, tile: slice, theta: FloatArray, nuisance: FloatArray, covariance: bool
    ) -> RowModel:
        """Return the model of some rows."""
        lower, upper = edges_of(self.lower, self.upper, rows, tile)
        codes = None if self.effects is None else rows.codes(tile)
        return self.at(rows.eta(theta, tile), lower, upper, nuisance, covariance, codes)

    def at(
        self,
        eta: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        nuisance: FloatArray,
        covariance: bool,
        codes: IntArray | None = None,
    ) -> RowModel:
        """Return the model of rows with these linear predictors, in bins (K,) or (n, K)."""
        m, n_bins = self.coordinates.n_row_nuisance, lower.shape[-1]
        family, points = self.family, self.points(eta, codes)
        models = [family.bins(at, lower, upper, nuisance) for at in points]
        q = self.average([model.probability for model in models])
        d_eta = self.average([model.d_eta for model in models])
        d_nuisance = self.average([model.d_nuisance for model in models])
        if self.unit is None:
            return RowModel(q, d_eta, d_nuisance[:m], np.zeros((0, 0)))
        means = [family.inverse_link(at) for at in points]
        mean, extra = self.average(means), np.zeros((len(eta), n_bins + 1))
        if covariance:
            if n_bins > 1:
                within = [family.bin_means(at, lower, upper, nuisance) for at in points]
                shares = [model.probability for model in models]
                extra[:, :-1] = self.average(
                    [
                        share * np.where(share > 0, inside - mean[:, None], 0.0)
                        for share, inside in zip(shares, within, strict=True)
                    ]
                )
            variances = [family.variance(at, nuisance) for at in points]
            apart = [(each - mean) ** 2 for each in means]
            extra[:, -1] = (self.average(variances) + self.average(apart)) / self.unit
            extra /= self.unit
        q = np.column_stack([q, mean / self.unit])
        slope = self.average([family.mean_derivative(at) for at in points])
        d_eta = np.column_stack([d_eta, slope / self.unit])
        padding = np.zeros((*d_nuisance.shape[:2], 1))
        return RowModel(q, d_eta, np.concatenate([d_nuisance, padding], axis=2)[:m], extra)


def edges_of(
    lower: FloatArray, upper: FloatArray, rows: Rows, tile: slice
) -> tuple[FloatArray, FloatArray]:
    """Return the bin ends of some rows, ready for ``Family.bins``."""
    if lower.ndim == 1:
        return lower, upper
    codes = rows.codes(tile)
    return lower[codes], upper[codes]


def effect_points(sd: float, nodes: int) -> tuple[list[float], list[float]]:
    """Return points and weights of Gauss-Hermite quadrature over an intercept of this spread."""
    if sd == 0:
        return [0.0], [1.0]
    at, weight = np.polynomial.hermite_e.hermegauss(nodes)
    return (sd * at).tolist(), (weight / weight.sum()).tolist()


def block_moments(
    problem: Problem, free: FloatArray, *, covariance: bool = True
) -> Iterator[BlockMoments]:
    """Yield the moments of all blocks, some at a time."""
    return map_moments(problem, free, lambda moments: moments, covariance=covariance)


def expected_statistics(problem: Problem, free: FloatArray) -> FloatArray:
    """Return the expected statistics of all blocks, (B, L)."""
    return np.concatenate([part.mean for part in block_moments(problem, free, covariance=False)])


def map_moments(
    problem: Problem,
    free: FloatArray,
    function: Callable[[BlockMoments], Done],
    *,
    covariance: bool = True,
) -> Iterator[Done]:
    """Yield a function of the moments of all blocks, some at a time."""

    def then(blocks: slice, sums: tuple[FloatArray, ...]) -> Done:
        return function(finish(problem, free, blocks, sums, covariance))

    return problem.design.by_block(moment_sums, Law.of(problem), free, covariance, then=then)


# -- sums over rows ------------------------------------------------------------------------------


@kernel
def moment_sums(rows: Rows, law: Law, free: FloatArray, covariance: bool) -> tuple[FloatArray, ...]:
    """Return, by block, Σ q, Σ dq/d(intercept, slopes, nuisance), and -Σ q qᵀ, all over people.

    The row of a total in the last one holds the total's covariances instead. Of a sample what
    ``sampling_sums`` returns follows.
    """
    d, n_blocks, size = rows.matrix.shape[1], len(rows.blocks), law.n_statistics
    theta, nuisance = law.coordinates.split(free)
    mean = np.zeros((n_blocks, size))
    slopes = np.zeros((n_blocks, size, 1 + d + law.coordinates.n_row_nuisance))
    cross = np.zeros((n_blocks, size, size))
    sampling = sampling_zeros(rows, n_blocks, size)
    for tile in rows.tiles(max(_TILE_CELLS // size, 256)):
        model = law.rows(rows, tile, theta, nuisance, covariance)
        accumulate(
            model.mean, model.d_eta, model.d_nuisance, model.extra, rows.matrix.T,
            rows.people(tile), tile.start, rows.start, mean, slopes, cross, covariance,
            law.n_bins,
        )  # fmt: skip
        if sampling:
            place = np.searchsorted(rows.blocks, rows.codes(tile))
            add_sampling(place, model.mean, rows.people(tile), *sampling)
    return mean, slopes, cross, *sampling


def sampling_zeros(rows: Rows, n_blocks: int, size: int) -> tuple[FloatArray, ...]:
    """Return the arrays that ``add_sampling`` adds to; none where rows are no sample."""
    if not rows.sampled:
        return ()
    return np.zeros(n_blocks), np.zeros((n_blocks, size)), np.zeros((n_blocks, size, size))


@njit(cache=True, nogil=True)
def add_sampling(codes, q, weights, level, once, twice):  # type: ignore[no-untyped-def]
    """Add Σ v, Σ v q and Σ v q qᵀ to the sums of the blocks, v = w (w - 1).

    A weight below 1 says nothing: a person stands for himself at least.
    """
    n, size = q.shape
    for i in range(n):
        b, v = codes[i], max(weights[i] * (weights[i] - 1.0), 0.0)
        level[b] += v
        for k in range(size):
            once[b, k] += v * q[i, k]
            for j in range(size):
                twice[b, k, j] += v * q[i, k] * q[i, j]


# -- sums of blocks ------------------------------------------------------------------------------


def finish(
    problem: Problem,
    free: FloatArray,
    blocks: slice,
    sums: tuple[Any, ...],
    covariance: bool,
) -> BlockMoments:
    """Turn sums over rows into moments; of arrays or of tensors."""
    mean, slopes, cross, *sampling = sums
    if covariance:
        n_bins = problem.counts.n_bins
        cross[:, :n_bins, n_bins:] = cross[:, n_bins:, :n_bins].swapaxes(1, 2)
        bins = np.arange(n_bins)
        cross[:, bins, bins] += mean[:, :n_bins]
    if problem.factor is not None:
        factor = like(mean, problem.factor[blocks])
        cross *= factor[:, None, None]
        mean *= factor[:, None]
        slopes *= factor[:, None, None]
    sampled = None
    if sampling and covariance:
        sampled = _sampling_variance(problem, blocks, mean, cross, *sampling)
        cross += sampled.covariance
    derivative = problem.coordinates.to_free(free, slopes, problem.cuts)
    return BlockMoments(blocks, mean, derivative, slopes[:, :, 0], cross, sampled)


def _sampling_variance(
    problem: Problem, blocks: slice, mean: Any, cross: Any, level: Any, once: Any, twice: Any
) -> SamplingVariance:
    """Turn sums of ``add_sampling`` into covariances; ``cross`` is that of people given features.

    Of arrays or of tensors.
    """
    n = like(mean, problem.counts.n[blocks].astype(np.float64))
    factor = 1.0 if problem.factor is None else like(mean, problem.factor[blocks])
    average = mean / n[:, None]
    apart = once[:, :, None] * average[:, None, :]
    square = average[:, :, None] * average[:, None, :]
    twice = twice - apart - apart.swapaxes(1, 2) + level[:, None, None] * square
    once = once - level[:, None] * average
    people = n / factor
    rest = (1 - (level + people) / people**2).clip(ALONE)  # 1 - Σ w² / (Σ w)²
    found = twice * (factor**2 / rest)[:, None, None]
    alone = rest <= ALONE
    found[alone] = cross[alone] * (level * factor**2 / n)[alone, None, None]
    return SamplingVariance(found, level, once, twice)
