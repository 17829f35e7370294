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
from typing import Any, TypeVar

import numpy as np

from unbin._typing import FloatArray
from unbin.likelihood.problem import Law, Problem
from unbin.rows.products import accumulate
from unbin.rows.rows import Rows, kernel

_PIECE_CELLS = 1 << 15
"""Rows times bins worked on at a time: the arrays of a piece stay in the cache."""

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
        return function(finish(problem, free, blocks, sums, covariance))

    return problem.design.by_block(moment_sums, problem.law, free, covariance, then=then)


# -- sums over rows ------------------------------------------------------------------------------


@kernel
def moment_sums(
    rows: Rows, law: Law, free: FloatArray, covariance: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return, by block, Σ q, Σ dq/d(intercept, slopes, nuisance), and -Σ q qᵀ.

    The row of a total in the last one holds the total's covariances instead.
    """
    d, n_blocks, size = rows.matrix.shape[1], len(rows.blocks), law.n_statistics
    theta, nuisance = law.coordinates.split(free)
    mean = np.zeros((n_blocks, size))
    slopes = np.zeros((n_blocks, size, 1 + d + law.coordinates.n_row_nuisance))
    cross = np.zeros((n_blocks, size, size))
    for piece in rows.pieces(max(_PIECE_CELLS // size, 256)):
        model = law.rows(rows, piece, theta, nuisance, covariance)
        accumulate(
            model.mean, model.d_eta, model.d_nuisance, model.extra, rows.matrix.T, piece.start,
            rows.start, mean, slopes, cross, covariance, law.n_bins,
        )  # fmt: skip
    return mean, slopes, cross


# -- sums of blocks ------------------------------------------------------------------------------


def finish(
    problem: Problem,
    free: FloatArray,
    blocks: slice,
    sums: tuple[Any, ...],
    covariance: bool,
) -> BlockMoments:
    """Turn sums over rows into moments, rows standing for people; of arrays or of tensors."""
    mean, slopes, cross = sums
    if covariance:
        n_bins = problem.counts.n_bins
        cross[:, :n_bins, n_bins:] = cross[:, n_bins:, :n_bins].swapaxes(1, 2)
        bins = np.arange(n_bins)
        cross[:, bins, bins] += mean[:, :n_bins]
    if problem.weight is not None:
        weight = problem.weight[blocks]
        cross *= weight[:, None, None]
        mean *= weight[:, None]
        slopes *= weight[:, None, None]
    derivative = problem.coordinates.to_free(free, slopes)
    return BlockMoments(blocks, mean, derivative, slopes[:, :, 0], cross)
