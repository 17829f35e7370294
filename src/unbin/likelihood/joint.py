"""Several tables of the same people: their quasi-scores added, with the covariance people make.

Tables t = 1 … T cut the same people in different ways, g_t(i) the block of person i in table t.
With m_g, D_g and S_g the moments of a block's statistics and W_g = S_g⁻¹ D_g,

    U = Σ_t Σ_g W_gᵀ (c_g - m_g),    H = Σ_t Σ_g W_gᵀ D_g.

The tables count the same people, so the variance of U is not H: with A_i = Σ_t W_{g_t(i)} on the
common refinement of all bins,

    M = Σ_i A_iᵀ Cov_i A_i + Σ_t τ_t² Σ_b h_b h_bᵀ,    h_b = Σ_{i in b} A_iᵀ ∂q_i/∂eta,

b the blocks of the partitions that have a random intercept of variance τ_t². The covariance of the
estimate is H⁻¹ M H⁻¹.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numba import njit

from unbin._linalg import JITTER, solve_scaled
from unbin._typing import FloatArray, IntArray
from unbin._watching import Status
from unbin.families import Family
from unbin.likelihood.counts import PublishedCounts
from unbin.likelihood.effects import block_variance
from unbin.likelihood.moments import BlockMoments, Law, finish
from unbin.likelihood.problem import Problem, make_problem, ridge_penalty
from unbin.likelihood.quasi_score import (
    ScoreSums,
    evidence,
    log_score,
    part_sums,
    reference_bins,
    score_blocks,
    used_statistics,
)
from unbin.likelihood.scoring import Equations, ScoringResult, solve_equations
from unbin.likelihood.start import starting_point, step_scale
from unbin.release import Release
from unbin.rows.design import BlockSums, Design
from unbin.rows.products import accumulate
from unbin.rows.rows import Rows, kernel

_TILE_CELLS = 1 << 15
_FEWEST_BLOCKS = 10
"""Blocks from which on a partition may have a random intercept."""
_ROUNDS = 4
_SETTLED = 0.05


@dataclass(frozen=True, slots=True)
class JointProblem:
    """Several tables of the rows of one design.

    Attributes
    ----------
    tables : tuple of Problem
        One per partition, in the order of ``Rows.others`` after the first, each with its own
        counts and noise, all with the design of everybody.
    lower, upper : (K,)
        The common refinement of the tables' bins.
    bins : tuple of (K,)
        Per table, the bin that holds each refined one.
    """

    tables: tuple[Problem, ...]
    lower: FloatArray
    upper: FloatArray
    bins: tuple[IntArray, ...]

    @property
    def first(self) -> Problem:
        """The table whose partition rows are laid out by."""
        return self.tables[0]

    @property
    def law(self) -> Law:
        """The distribution of a row over the refined bins."""
        return Law(self.first.family, self.first.coordinates, self.lower, self.upper, None, 0.0)

    def with_effects(self, variance: list[float]) -> JointProblem:
        """Return the problem with random block intercepts of these variances, table by table."""
        pairs = zip(self.tables, variance, strict=True)
        return replace(self, tables=tuple(replace(t, block_variance=v) for t, v in pairs))


@dataclass(frozen=True, slots=True)
class JointSums:
    """Sums over the blocks of all tables.

    Attributes
    ----------
    score : (p,)
        The penalised quasi-score U.
    information : (p, p)
        H, without the ridge.
    tables : tuple of ScoreSums
    """

    score: FloatArray
    information: FloatArray
    tables: tuple[ScoreSums, ...]


def make_joint(design: Design, releases: list[Release], family: Family) -> JointProblem:
    """Combine rows, the releases of all partitions and a family."""
    alone = [make_problem(design, release, family) for release in releases]
    lower, upper, bins = refine([problem.counts for problem in alone])
    coordinates = family.coordinates(
        design.n_parameters, len(lower), fit_intercept=design.fit_intercept
    )
    tables = tuple(replace(problem, coordinates=coordinates) for problem in alone)
    return JointProblem(tables, lower, upper, bins)


def refine(
    tables: list[PublishedCounts],
) -> tuple[FloatArray, FloatArray, tuple[IntArray, ...]]:
    """Return the common refinement of shared bins, and per table which bin holds which."""
    inner = np.unique(np.concatenate([counts.upper[:-1] for counts in tables]))
    lower = np.concatenate([tables[0].lower[:1], inner])
    upper = np.concatenate([inner, tables[0].upper[-1:]])
    return lower, upper, tuple(np.searchsorted(c.upper[:-1], upper) for c in tables)


# -- scores ----------------------------------------------------------------------------------------


def joint_sums(problem: JointProblem, free: FloatArray, penalty: FloatArray) -> JointSums:
    """Return the added quasi-scores of all tables in one pass over the rows."""
    found = [
        _table_sums(table, _moments_of(table, free, sums))
        for table, sums in zip(problem.tables, _block_sums(problem, free), strict=True)
    ]
    score = reduce(np.add, [sums.block_scores.sum(axis=0) for sums in found]) - penalty * free
    return JointSums(score, reduce(np.add, [s.information for s in found]), tuple(found))


def _block_sums(problem: JointProblem, free: FloatArray) -> tuple[BlockSums, ...]:
    design, bins = problem.first.design, problem.bins
    found: tuple[BlockSums, ...] = design.total(joint_moment_sums, problem.law, free, bins)
    return found


def _moments_of(table: Problem, free: FloatArray, sums: BlockSums) -> BlockMoments:
    return finish(table, free, slice(0, len(table.counts.n)), sums.arrays, True)


def _table_sums(table: Problem, part: BlockMoments) -> ScoreSums:
    said = evidence(table, part)
    arrays = said.covariance, said.derivative, said.shift, said.hidden, said.residual
    weighed = score_blocks(
        *arrays, reference_bins(table), used_statistics(table), table.block_variance
    )
    sums = part_sums(table, weighed, said.spread, said.mean)
    return ScoreSums(
        score=sums.scores.sum(axis=0),
        information=sums.information - sums.lost,
        block_scores=sums.scores,
        block_misfit=sums.misfit,
        block_df=sums.df,
        block_pull=sums.pull,
        block_hold=sums.hold,
        block_hidden=sums.hidden,
        block_along=sums.along,
        mean=sums.mean,
        spread=float(sums.spread[0] / max(sums.spread[1], 1e-300)),
    )


@kernel
def joint_moment_sums(
    rows: Rows, law: Law, free: FloatArray, bins: tuple[IntArray, ...]
) -> tuple[BlockSums, ...]:
    """Return, per table and block, what ``moment_sums`` does, from one model of every row."""
    theta, nuisance = law.coordinates.split(free)
    width = 1 + rows.matrix.shape[1] + law.coordinates.n_row_nuisance
    tables = []
    for which, (blocks, _) in zip(bins, _partitions(rows), strict=True):
        b, k = len(blocks), int(which[-1]) + 1
        tables.append((np.zeros((b, k)), np.zeros((b, k, width)), np.zeros((b, k, k))))
    for tile in rows.tiles(max(_TILE_CELLS // law.n_bins, 256)):
        model = law.rows(rows, tile, theta, nuisance, True)
        for which, (_, codes), sums in zip(bins, _partitions(rows), tables, strict=True):
            q, d_eta, d_nuisance = (
                _coarser(a, which) for a in (model.mean, model.d_eta, model.d_nuisance)
            )
            mean, slopes, cross = sums
            accumulate_by(
                codes[tile], q, d_eta, d_nuisance, rows.matrix[tile].T, mean, slopes, cross
            )
    places = [blocks for blocks, _ in _partitions(rows)]
    return tuple(BlockSums(b, sums) for b, sums in zip(places, tables, strict=True))


def _partitions(rows: Rows) -> list[tuple[IntArray, IntArray]]:
    """Return, per table, the blocks that have rows here and the place of each row's among them."""
    own = np.repeat(np.arange(len(rows.blocks)), np.diff(rows.start))
    found = [np.unique(codes, return_inverse=True) for codes in rows.others]
    return [(rows.blocks, own), *((blocks, place) for blocks, place in found)]


def _coarser(values: FloatArray, bins: IntArray) -> FloatArray:
    """Add up refined bins, the last axis, to those of a table."""
    if bins[-1] == len(bins) - 1:
        return values
    starts = np.flatnonzero(np.diff(bins, prepend=-1))
    return np.ascontiguousarray(np.add.reduceat(values, starts, axis=-1))


@njit(cache=True, nogil=True, error_model="numpy")
def accumulate_by(codes, q, d_eta, d_nuisance, columns, mean, slopes, cross):  # type: ignore[no-untyped-def]
    """Add rows to the sums of their blocks, in whatever order they come."""
    n, size = q.shape
    d, m, n_blocks = columns.shape[0], d_nuisance.shape[0], len(mean)
    start = np.zeros(n_blocks + 1, np.int64)
    for i in range(n):
        start[codes[i] + 1] += 1
    for b in range(n_blocks):
        start[b + 1] += start[b]
    place = start[:-1].copy()
    q_s, d_s = np.empty((n, size)), np.empty((n, size))
    x_s, n_s = np.empty((d, n)), np.empty((m, n, size))
    for i in range(n):
        to = place[codes[i]]
        place[codes[i]] += 1
        for k in range(size):
            q_s[to, k], d_s[to, k] = q[i, k], d_eta[i, k]
            for j in range(m):
                n_s[j, to, k] = d_nuisance[j, i, k]
        for j in range(d):
            x_s[j, to] = columns[j, i]
    accumulate(q_s, d_s, n_s, np.zeros((0, 0)), x_s, 0, start, mean, slopes, cross, True, size)


# -- solving ---------------------------------------------------------------------------------------


def solve_joint(
    problem: JointProblem, free: FloatArray, penalty: FloatArray, *, tol: float, max_iter: int
) -> tuple[JointProblem, ScoringResult]:
    """Solve the added quasi-scores, random block intercepts allowed for where they show."""
    variance = [0.0] * len(problem.tables)
    result = _solve(problem, free, penalty, tol, max_iter)
    for _ in range(_ROUNDS):
        if result.status is not Status.CONVERGED:
            break
        found = _variances(problem, result.sums, penalty * result.free)
        if np.allclose(found, variance, rtol=_SETTLED, atol=0.0):
            break
        variance, problem = found, problem.with_effects(found)
        result = _solve(problem, result.free, penalty, tol, max_iter)
    return problem, result


def _solve(
    problem: JointProblem, free: FloatArray, penalty: FloatArray, tol: float, max_iter: int
) -> ScoringResult:
    equations = Equations(
        evaluate=lambda at: joint_sums(problem, at, penalty),
        log_score=lambda sums: sum(
            log_score(table, own) for table, own in zip(problem.tables, sums.tables, strict=True)
        ),
        coordinates=problem.first.coordinates,
    )
    cap = step_scale(problem.first, free)
    return solve_equations(equations, free, penalty, cap=cap, tol=tol, max_iter=max_iter)


def _variances(problem: JointProblem, sums: JointSums, pulled: FloatArray) -> list[float]:
    """Return the variance of a random intercept of each partition that has enough blocks."""
    n_fitted = problem.first.n_fitted
    return [
        block_variance(replace(own, information=sums.information), sums.score + pulled, n_fitted)
        if len(own.block_pull) >= _FEWEST_BLOCKS + n_fitted
        else 0.0
        for own in sums.tables
    ]


# -- uncertainty -----------------------------------------------------------------------------------


def joint_covariance(
    problem: JointProblem, free: FloatArray, sums: JointSums, penalty: FloatArray
) -> FloatArray:
    """Return H⁻¹ M H⁻¹, the covariance of the free parameters."""
    design, law = problem.first.design, problem.law
    weights = tuple(
        _weights(table, _moments_of(table, free, moments))
        for table, moments in zip(problem.tables, _block_sums(problem, free), strict=True)
    )
    meat, pulls = design.total(meat_sums, law, free, weights, problem.bins)
    for table, pull in zip(problem.tables, pulls, strict=True):
        meat = meat + table.block_variance * pull.arrays[0].T @ pull.arrays[0]
    bread = solve_scaled(sums.information + np.diag(penalty), np.eye(len(free)))
    return np.asarray(bread @ meat @ bread)


@kernel
def meat_sums(
    rows: Rows,
    law: Law,
    free: FloatArray,
    weights: tuple[FloatArray, ...],
    bins: tuple[IntArray, ...],
) -> tuple[FloatArray, tuple[BlockSums, ...]]:
    """Return Σ A_iᵀ Cov_i A_i, and Σ A_iᵀ ∂q_i/∂eta by block of each table."""
    theta, nuisance = law.coordinates.split(free)
    p = len(free)
    meat = np.zeros((p, p))
    partitions = _partitions(rows)
    pulls = [np.zeros((len(blocks), p)) for blocks, _ in partitions]
    for tile in rows.tiles(max(_TILE_CELLS // (law.n_bins * p), 64)):
        model = law.rows(rows, tile, theta, nuisance, False)
        a: Any = 0.0
        for weight, which, (blocks, codes) in zip(weights, bins, partitions, strict=True):
            a = a + weight[blocks[codes[tile]]][:, which]
        root = (np.sqrt(np.maximum(model.mean, 0.0))[:, :, None] * a).reshape(-1, p)
        level = (model.mean[:, None, :] @ a)[:, 0]
        meat += root.T @ root - level.T @ level
        along = (model.d_eta[:, None, :] @ a)[:, 0]
        for pull, (_, codes) in zip(pulls, partitions, strict=True):
            np.add.at(pull, codes[tile], along)
    found = zip(partitions, pulls, strict=True)
    return meat, tuple(BlockSums(blocks, (pull,)) for (blocks, _), pull in found)


def _weights(table: Problem, part: BlockMoments) -> FloatArray:
    """Return W_g = (S_g + τ² e eᵀ)⁻¹ D_g of each block, 0 for the bin left out, (B, K, p)."""
    said = evidence(table, part)
    size = table.counts.n_bins
    used = used_statistics(table) & (np.arange(size) != reference_bins(table)[:, None])
    s = said.covariance + table.block_variance * said.shift[:, :, None] * said.shift[:, None]
    s = s * (used[:, :, None] & used[:, None, :]) + JITTER * np.eye(size)
    return np.asarray(np.linalg.solve(s, said.derivative * used[:, :, None]))


def start_joint(problem: JointProblem) -> FloatArray:
    """Return free parameters to start from: those of the first table alone."""
    return starting_point(problem.first)


def joint_penalty(problem: JointProblem, alpha: float) -> FloatArray:
    """Return the ridge weight of each free parameter."""
    return ridge_penalty(problem.first, alpha)
