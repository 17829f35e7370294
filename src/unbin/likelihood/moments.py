"""Expectation, derivative and covariance of the published statistics, block by block.

The statistics of block b are sums over its people: counts in bins and, where a mean was
published, the total of the targets (divided by a fixed unit, so that it is on the scale of a
count). People are independent given their features, so with q_i the bin probabilities of row i

    m_b = Σ q_i,    D_b = ∂m_b/∂(free parameters),    S_b = diag(Σ q_i) - Σ q_i q_iᵀ

exactly. A row that stands for w people counts w times. If the rows are a sample of the people, w
their design weights, m_b is itself an estimate: its variance Σ w (w - 1)(q_i - q̄)(q_i - q̄)ᵀ, with q̄
the mean of the block, is added to S_b, times k / (k - 1) where the rows are worth k of equal
weights. Of a single row there is no such variance; its block then weighs as much as one person
does. Sums over rows add over parts of the rows, wherever they are, and no array grows with n × K:
rows are looked up in a table of their law (:mod:`unbin.likelihood.lookup`), or where that does not
pay, worked on in tiles of a few thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from unbin._compiling import njit
from unbin._linalg import like
from unbin._typing import FloatArray
from unbin.likelihood.law import Law
from unbin.likelihood.lookup import tabulated
from unbin.rows.interpolated import Sums, table_sums
from unbin.rows.products import accumulate
from unbin.rows.rows import Rows, flat_columns, kernel

_TILE_CELLS = 1 << 15
"""Rows times bins worked on at a time: the arrays of a tile stay in the cache."""
_FEW = 3 << 17
"""Products of rows up to which NumPy sums them: compiling takes seconds."""
ALONE = 1e-9
"""1 - Σ w² / (Σ w)² of a block below which it has one row only."""

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

    law = tabulated(Law.of(problem), problem.design, free)
    return problem.design.by_block(moment_sums, law, free, covariance, then=then)


# -- sums over rows ------------------------------------------------------------------------------


@kernel
def moment_sums(rows: Rows, law: Law, free: FloatArray, covariance: bool) -> tuple[FloatArray, ...]:
    """Return, by block, Σ q, Σ dq/d(intercept, slopes, nuisance), and -Σ q qᵀ, all over people.

    The row of a total in the last one holds the total's covariances instead. Of a sample what
    ``sampling_sums`` returns follows.
    """
    if law.table is not None:
        return looked_up(rows, law, free, covariance=covariance)[:3]
    if few_rows(rows, law):
        return sums_of_few(rows, law, free, covariance=covariance)[:3]
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


def few_rows(rows: Rows, law: Law) -> bool:
    """Tell whether rows are so few that compiling their sums does not pay."""
    size = law.n_statistics
    return not rows.sampled and len(rows) * size * (1 + rows.matrix.shape[1] + size) <= _FEW


def sums_of_few(
    rows: Rows, law: Law, free: FloatArray, *, covariance: bool = True, checks: bool = False
) -> Sums:
    """Return the sums of each block, of few rows; ``checks``: all of them."""
    theta, nuisance = law.coordinates.split(free)
    model = law.rows(rows, slice(0, len(rows)), theta, nuisance, covariance)
    b, size, d = len(rows.blocks), law.n_statistics, rows.matrix.shape[1]
    x = np.column_stack([np.ones(len(rows)), rows.matrix])
    by_x = rows.sums(model.d_eta[:, :, None] * x[:, None, :])
    by_nuisance = [rows.sums(each)[:, :, None] for each in model.d_nuisance]
    cross = np.zeros((b, size, size))
    if covariance:
        q = model.mean[:, : law.n_bins]
        cross[:, : law.n_bins, : law.n_bins] = -rows.sums(q[:, :, None] * q[:, None, :])
        if law.unit is not None:
            cross[:, law.n_bins] = rows.sums(model.extra)
    squares, scales = np.zeros((0, size, d)), np.zeros((0, size, d))
    if checks:
        squares = rows.sums(model.d_eta[:, :, None] * (x[:, 1:] ** 2)[:, None, :])
    if checks and len(model.d_nuisance):
        scales = rows.sums(model.d_nuisance[0][:, :, None] * x[:, None, 1:])
    slopes = np.concatenate([by_x, *by_nuisance], axis=2)
    return Sums(rows.sums(model.mean), slopes, cross, squares, scales)


def looked_up(
    rows: Rows, law: Law, free: FloatArray, *, covariance: bool = True, checks: bool = False
) -> Sums:
    """Return the sums of each block, from the table of a law; ``checks``: all of them."""
    points, b, size, d = law.table, len(rows.blocks), law.n_statistics, rows.matrix.shape[1]
    assert points is not None
    theta, m = law.coordinates.split(free)[0], law.coordinates.n_row_nuisance
    if not rows.fit_intercept:
        theta = np.concatenate([[0.0], theta])
    if law.effects is not None:
        points = points._replace(moves=points.moves[rows.blocks])
    sums = Sums(
        mean=np.zeros((b, size)),
        slopes=np.zeros((b, size, 1 + d + m)),
        cross=np.zeros((b, size, size)),
        squares=np.zeros((b if checks else 0, size, d)),
        scales=np.zeros((b if checks and m else 0, size, d)),
    )
    table_sums(
        *flat_columns(rows.matrix),
        rows.offset_or_none(),
        rows.people(),
        rows.start,
        theta,
        points,
        law.n_bins,
        covariance,
        sums,
    )
    return sums


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
