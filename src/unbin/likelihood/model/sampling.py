"""What a sample of a block's people gets wrong, and the score corrected for it.

The rows are a sample, w their design weights, so that m_b, D_b and S_b are estimates whose errors
go together, and W_bᵀ (c_b - m_b), W_b = S_b⁻¹ D_b, is not 0 on average at the true parameters. Left
alone this is the attenuation of errors in variables: slopes that rest on differences between blocks
shrink towards 0, by a third where the sampling variance of a block's mean is half its variance
between blocks. That W_b is correlated with S_b too adds a bias away from 0, as large where the
contributions of rows are skewed.

A row does not meet its own errors in weights that are made of the other rows, W_b(-i). With q_i its
contribution and π_i = 1 / w_i the chance that it was drawn, Σ w_i q_i {(1 - π_i) W_b(-i) + π_i W_b}
has the expectation of W_b times that of Σ w_i q_i, exactly if rows are drawn independently. So

    Σ (w_i - 1) (W_b - W_b(-i))ᵀ (q_i - q̄_b)

is added to the quasi-score, q̄_b the mean over the block, and the same with the derivatives of q_i
subtracted from the information, which D_bᵀ S_b⁻¹ D_b overstates.

References
----------
Fuller, W. A. (1987). *Measurement Error Models*. Wiley.

Nakamura, T. (1990). Corrected score function for errors-in-variables models: methodology and
application to generalized linear models. *Biometrika*, 77, 127-137.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from unbin._compiling import njit
from unbin._linalg import JITTER
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.families.coordinates import Coordinates
from unbin.likelihood.data.problem import Problem
from unbin.likelihood.model.law import Law, RowModel
from unbin.likelihood.model.moments import ALONE
from unbin.rows.design import BlockSums
from unbin.rows.rows import Rows, kernel

_TILE_CELLS = 1 << 18


@dataclass(frozen=True, slots=True)
class Sampled:
    """The blocks of a table whose rows are a sample, at one value of the parameters.

    Attributes
    ----------
    n, people : (B,)
        People of the table, and those that the rows stand for.
    mean, derivative, shift : (B, L), (B, L, p), (B, L)
        Of the average person: q̄, its derivatives in the parameters, and in a shift of eta.
    within : (B, L, L)
        Covariance of a person's statistics given the features, on average.
    level, once, twice : (B,), (B, L), (B, L, L)
        See :class:`unbin.likelihood.model.moments.SamplingVariance`.
    noise : (B, L)
        Variance of the noise in each.
    effects : (B,)
        Variance of the random intercept.
    used : (B, L) bool
    """

    n: FloatArray
    people: FloatArray
    mean: FloatArray
    derivative: FloatArray
    shift: FloatArray
    within: FloatArray
    level: FloatArray
    once: FloatArray
    twice: FloatArray
    noise: FloatArray
    effects: FloatArray
    used: BoolArray

    @classmethod
    def joined(cls, parts: Sequence[Sampled]) -> Sampled:
        """Put the blocks of several parts side by side."""
        if len(parts) == 1:
            return parts[0]
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def correction(
    problem: Problem, free: FloatArray, blocks: Sampled, t: int
) -> tuple[FloatArray, FloatArray]:
    """Return the correction of the score by block of table t, (B, p), and of the information."""
    counts, codes = problem.tables[t].counts, problem.codes[t]
    ends = (
        (counts.lower, counts.upper)
        if counts.shared
        else (counts.lower[codes], counts.upper[codes])
    )
    unit = None if problem.tables[t].means is None else problem.unit
    law = replace(Law.of(problem, free), lower=ends[0], upper=ends[1], unit=unit)
    cuts = problem.grid.last[t][:-1] - 1 if problem.coordinates.thresholds else None
    score, taken = problem.design.total(sampled_rows, law, free, blocks, codes, cuts)
    total = np.zeros((len(counts.n), len(free)))
    np.add.at(total, codes[score.blocks], score.arrays[0])
    return total, taken


@kernel
def sampled_rows(
    rows: Rows, law: Law, free: FloatArray, blocks: Sampled, codes: IntArray, cuts: IntArray | None
) -> tuple[BlockSums, FloatArray]:
    """Return the correction of the score by cell, and that of the information."""
    theta, nuisance = law.coordinates.split(free)
    score, taken = np.zeros((len(rows.blocks), len(free))), np.zeros((len(free), len(free)))
    for tile in tiles_of(rows, law.n_statistics, len(free)):
        model = law.rows(rows, tile, theta, nuisance, True)
        cell, x, people = rows.codes(tile), rows.matrix[tile], rows.people(tile)
        own, less = correct(model, x, people, codes[cell], blocks, law.coordinates, free, cuts)
        np.add.at(score, np.searchsorted(rows.blocks, cell), own)
        taken += less
    return BlockSums(rows.blocks, (score,)), taken


def tiles_of(rows: Rows, size: int, p: int) -> list[slice]:
    """Return tiles of rows whose derivatives by all parameters are held at a time."""
    return rows.tiles(max(_TILE_CELLS // (size * p), 64))


def correct(
    model: RowModel,
    columns: FloatArray,
    people: FloatArray,
    place: IntArray,
    blocks: Sampled,
    coordinates: Coordinates,
    free: FloatArray,
    cuts: IntArray | None,
) -> tuple[FloatArray, FloatArray]:
    """Return what rows add to the score, (n, p), and what they take from the information, (p, p).

    Parameters
    ----------
    model : RowModel
        With covariances.
    columns : (n, d)
    people, place : (n,)
        Design weights, and the row's block.
    blocks : Sampled
    coordinates : Coordinates
    free : (p,)
    cuts : (K - 1,) or None
        Which threshold ends each bin but the last, of a family that has them.
    """
    by_x = model.d_eta[:, :, None] * columns[:, None, :]
    slopes = np.concatenate(
        [model.d_eta[:, :, None], by_x, np.moveaxis(model.d_nuisance, 0, 2)], axis=2
    )
    d = coordinates.to_free(free, slopes, cuts)
    moved = _leave_out(
        model.mean, d, model.d_eta, model.extra, people, place, blocks.n, blocks.people,
        blocks.mean, blocks.derivative, blocks.shift, blocks.within, blocks.level, blocks.once,
        blocks.twice, blocks.noise, blocks.effects, blocks.used,
    )  # fmt: skip
    score = ((model.mean - blocks.mean[place])[:, None, :] @ moved)[:, 0]
    d -= blocks.derivative[place]
    taken = moved.reshape(-1, d.shape[2]).T @ d.reshape(-1, d.shape[2])
    return score, (taken + taken.T) / 2


@njit(cache=True, nogil=True, error_model="numpy")
def _leave_out(  # type: ignore[no-untyped-def]
    q, d, e, extra, weights, place, n, people, mean, derivative, shift, within, level, once, twice,
    noise, effects, used,
):  # fmt: skip
    """Return f (w - 1) (W - W(-i)) of each row, (n, L, p).

    f brings the people of the rows to those of the table. A row alone has no others to compare it
    with.
    """
    rows, size, p = d.shape
    n_bins = size - (1 if len(extra) else 0)
    moved, last = np.zeros((rows, size, p)), -1
    given, drawn, pull = np.zeros((size, size)), np.zeros((size, size)), np.zeros(size)
    covariance, whole, weight = np.zeros((size, size)), np.zeros((size, p)), np.zeros((size, p))
    for i in range(rows):
        b, w = place[i], weights[i]
        rest, v = people[b] - w, w * (w - 1.0)
        if w <= 1.0 or rest <= 1e-9 * people[b]:
            continue
        if b != last:
            _fill(
                n[b], people[b], level[b], within[b], twice[b], shift[b], noise[b], effects[b],
                n_bins, covariance,
            )  # fmt: skip
            whole[:] = n[b] * derivative[b]
            _solve(covariance, used[b], whole)
            last = b
        share = w / rest  # an average without a row is a + share (a - its value)
        square = share * share * (level[b] - v) - (1.0 + 2.0 * share) * v
        for k in range(size):
            own_k = q[i, k] - mean[b, k]
            pull[k] = shift[b, k] + share * (shift[b, k] - e[i, k])
            for j in range(k + 1):
                own_j = q[i, j] - mean[b, j]
                if k < n_bins:
                    own = (q[i, k] if k == j else 0.0) - q[i, k] * q[i, j]
                else:
                    own = extra[i, j]
                given[k, j] = within[b, k, j] + share * (within[b, k, j] - own)
                # around the mean of the others
                apart = share * (once[b, k] * own_j + once[b, j] * own_k)
                drawn[k, j] = twice[b, k, j] + apart + square * own_k * own_j
            for r in range(p):
                by = derivative[b, k, r]
                weight[k, r] = n[b] * (by + share * (by - d[i, k, r]))
        _fill(
            n[b], rest, level[b] - v, given, drawn, pull, noise[b], effects[b], n_bins, covariance
        )
        _solve(covariance, used[b], weight)
        scale = (w - 1.0) * n[b] / people[b]
        for k in range(size):
            for r in range(p):
                moved[i, k, r] = scale * (whole[k, r] - weight[k, r])
    return moved


@njit(cache=True, nogil=True, error_model="numpy")
def _fill(  # type: ignore[no-untyped-def]
    n, people, level, within, twice, shift, noise, effects, n_bins, out
):
    """Write the covariance of a block's statistics, its lower half, as ``moments.finish`` does."""
    rest = 1.0 - (level + people) / people**2
    alone = rest <= ALONE
    drawn = (n / people) ** 2 * (level if alone else 1.0 / rest)
    for k in range(len(out)):
        for j in range(k + 1):
            out[k, j] = n * within[k, j] + n * n * effects * shift[k] * shift[j]
            out[k, j] += drawn * (within[k, j] if alone else twice[k, j])
        if k < n_bins:
            out[k, k] += noise[k]


@njit(cache=True, nogil=True, error_model="numpy")
def _solve(covariance, used, right):  # type: ignore[no-untyped-def]
    """Solve for the statistics that are used, by Cholesky, in place; 0 for the others.

    The lower half of ``covariance`` is overwritten by its factor.
    """
    size, p = right.shape
    for k in range(size):
        if not used[k]:
            right[k] = 0.0
            continue
        for j in range(k):
            if used[j]:
                entry = covariance[k, j]
                for i in range(j):
                    if used[i]:
                        entry -= covariance[k, i] * covariance[j, i]
                covariance[k, j] = entry / covariance[j, j]
        pivot = covariance[k, k] + JITTER
        for j in range(k):
            if used[j]:
                pivot -= covariance[k, j] ** 2
        covariance[k, k] = np.sqrt(max(pivot, JITTER))
        for r in range(p):
            for j in range(k):
                if used[j]:
                    right[k, r] -= covariance[k, j] * right[j, r]
            right[k, r] /= covariance[k, k]
    for k in range(size - 1, -1, -1):
        if not used[k]:
            continue
        for r in range(p):
            for j in range(k + 1, size):
                if used[j]:
                    right[k, r] -= covariance[j, k] * right[j, r]
            right[k, r] /= covariance[k, k]
