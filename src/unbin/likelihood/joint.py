"""Several tables of the same people: their quasi-scores added, with the covariance people make.

Tables t = 1 … T cut the same people in different ways, g_t(i) the block of person i in table t. With
m_g, D_g and S_g the moments of a block's statistics and W_g = S_g⁻¹ D_g,

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

import numpy as np
from numba import njit

from unbin._linalg import solve_scaled
from unbin._typing import FloatArray, IntArray
from unbin.families import Family
from unbin.families.coordinates import Coordinates
from unbin.likelihood.counts import PublishedCounts
from unbin.likelihood.effects import block_variance
from unbin.likelihood.moments import Law, finish
from unbin.likelihood.problem import Problem
from unbin.likelihood.quasi_score import (
    ScoreSums,
    _part_sums,
    _reference,
    _used,
    evidence,
    score_blocks,
)
from unbin.rows.design import Design
from unbin.rows.products import accumulate

_TILE_CELLS = 1 << 15
_FEWEST_BLOCKS = 10
"""Blocks from which on a partition may have a random intercept."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table, as the joint problem sees it.

    Attributes
    ----------
    problem : Problem
        With the table's own counts, means and noise; the design is that of all tables.
    codes : (n,)
        The block of each row of the design, -1 for people outside the table.
    bins : (K,)
        Of every bin of the common refinement, the table's bin that holds it.
    """

    problem: Problem
    codes: IntArray
    bins: IntArray

    @property
    def starts(self) -> IntArray:
        """Where the refined bins of each of the table's bins begin."""
        return np.flatnonzero(np.diff(self.bins, prepend=-1))


@dataclass(frozen=True, slots=True)
class JointProblem:
    """Several tables of the rows of one design, on the common refinement of their bins."""

    design: Design
    family: Family
    coordinates: Coordinates
    lower: FloatArray
    upper: FloatArray
    tables: tuple[Table, ...]

    def with_effects(self, variance: list[float]) -> JointProblem:
        """Return the problem with random block intercepts of these variances, table by table."""
        tables = tuple(
            replace(table, problem=replace(table.problem, block_variance=v))
            for table, v in zip(self.tables, variance, strict=True)
        )
        return replace(self, tables=tables)


@dataclass(frozen=True, slots=True)
class JointSums:
    """Sums over blocks of all tables: score, information H, and those of each table."""

    score: FloatArray
    information: FloatArray
    tables: tuple[ScoreSums, ...]


def refine(tables: list[PublishedCounts]) -> tuple[FloatArray, FloatArray, list[IntArray]]:
    """Return the common refinement of the shared bins of tables, and which bin holds which."""
    inner = np.unique(np.concatenate([counts.upper[:-1] for counts in tables]))
    lower = np.concatenate([tables[0].lower[:1], inner])
    upper = np.concatenate([inner, tables[0].upper[-1:]])
    holds = [np.searchsorted(counts.upper[:-1], upper, side="left") for counts in tables]
    return lower, upper, holds


def joint_sums(problem: JointProblem, free: FloatArray, penalty: FloatArray) -> JointSums:
    """Return the added quasi-scores of all tables in one pass over the rows."""
    found = []
    for table, sums in zip(problem.tables, _moments(problem, free), strict=True):
        own, blocks = table.problem, slice(0, len(table.problem.counts.n))
        part = finish(own, free, blocks, sums, True)
        said = evidence(own, part)
        scored = score_blocks(
            said.covariance, said.derivative, said.shift, said.hidden, said.residual,
            _reference(own), _used(own), own.block_variance,
        )  # fmt: skip
        here = _part_sums(own, blocks, scored, said.spread, said.mean)
        found.append(
            ScoreSums(
                score=here.scores.sum(axis=0), information=here.information - here.lost,
                block_scores=here.scores, block_misfit=here.misfit, block_df=here.df,
                block_pull=here.pull, block_hold=here.hold, block_hidden=here.hidden,
                block_along=here.along, mean=here.mean,
                spread=float(here.spread[0] / max(here.spread[1], 1e-300)),
            )  # fmt: skip
        )
    score = reduce(np.add, [sums.score for sums in found]) - penalty * free
    return JointSums(score, reduce(np.add, [s.information for s in found]), tuple(found))


def _moments(problem: JointProblem, free: FloatArray) -> list[tuple[FloatArray, ...]]:
    rows, d = problem.design.in_memory(), len(problem.design.scale)
    law = Law(problem.family, problem.coordinates, problem.lower, problem.upper, None, 0.0)
    theta, nuisance = problem.coordinates.split(free)
    m = problem.coordinates.n_row_nuisance
    sums = []
    for table in problem.tables:
        b, k = len(table.problem.counts.n), table.problem.counts.n_bins
        sums.append((np.zeros((b, k)), np.zeros((b, k, 1 + d + m)), np.zeros((b, k, k))))
    for tile in rows.tiles(max(_TILE_CELLS // law.n_bins, 256)):
        model = law.rows(rows, tile, theta, nuisance, True)
        for table, (mean, slopes, cross) in zip(problem.tables, sums, strict=True):
            first = table.starts
            q, d_eta, d_nuisance = (
                np.ascontiguousarray(np.add.reduceat(a, first, axis=-1))
                for a in (model.mean, model.d_eta, model.d_nuisance)
            )
            _accumulate_by(
                table.codes[tile], q, d_eta, d_nuisance, rows.matrix[tile].T, mean, slopes, cross
            )
    return sums


@njit(cache=True, nogil=True, error_model="numpy")
def _accumulate_by(codes, q, d_eta, d_nuisance, columns, mean, slopes, cross):  # type: ignore[no-untyped-def]
    """Add rows to the sums of their blocks, in whatever order they come."""
    n, size = q.shape
    d, m, n_blocks = columns.shape[0], d_nuisance.shape[0], len(mean)
    start = np.zeros(n_blocks + 2, np.int64)
    for i in range(n):
        start[codes[i] + 2 if codes[i] >= 0 else 0] += 1
    outside = start[0]
    start[0] = 0
    for b in range(n_blocks + 1):
        start[b + 1] += start[b]
    place = start[1 : n_blocks + 2].copy()
    inside = n - outside
    q_s, d_s = np.empty((inside, size)), np.empty((inside, size))
    x_s, n_s = np.empty((d, inside)), np.empty((m, inside, size))
    for i in range(n):
        if codes[i] < 0:
            continue
        to = place[codes[i]]
        place[codes[i]] += 1
        q_s[to], d_s[to] = q[i], d_eta[i]
        for j in range(d):
            x_s[j, to] = columns[j, i]
        for j in range(m):
            n_s[j, to] = d_nuisance[j, i]
    accumulate(
        q_s, d_s, n_s, np.zeros((0, 0)), x_s, 0, start[1:], mean, slopes, cross, True, size
    )


def joint_covariance(problem: JointProblem, free: FloatArray, sums: JointSums) -> FloatArray:
    """Return H⁻¹ M H⁻¹."""
    weights = [
        _weights(table.problem, free, moments)
        for table, moments in zip(problem.tables, _moments(problem, free), strict=True)
    ]
    rows, p = problem.design.in_memory(), len(free)
    law = Law(problem.family, problem.coordinates, problem.lower, problem.upper, None, 0.0)
    theta, nuisance = problem.coordinates.split(free)
    meat = np.zeros((p, p))
    pulls = [np.zeros((len(t.problem.counts.n), p)) for t in problem.tables]
    for tile in rows.tiles(2048):
        model = law.rows(rows, tile, theta, nuisance, True)
        a = np.zeros((*model.mean.shape, p))
        for table, weight in zip(problem.tables, weights, strict=True):
            codes = table.codes[tile]
            a += np.where(codes[:, None, None] >= 0, weight[codes][:, table.bins], 0.0)
        root = (np.sqrt(np.maximum(model.mean, 0.0))[:, :, None] * a).reshape(-1, p)
        level = (model.mean[:, None, :] @ a)[:, 0]
        meat += root.T @ root - level.T @ level
        along = (model.d_eta[:, None, :] @ a)[:, 0]
        for table, pull in zip(problem.tables, pulls, strict=True):
            codes = table.codes[tile]
            np.add.at(pull, codes[codes >= 0], along[codes >= 0])
    for table, pull in zip(problem.tables, pulls, strict=True):
        meat += table.problem.block_variance * pull.T @ pull
    bread = solve_scaled(sums.information, np.eye(p))
    return np.asarray(bread @ meat @ bread)


def _weights(own: Problem, free: FloatArray, moments: tuple[FloatArray, ...]) -> FloatArray:
    """Return W_g = (S_g + τ² e eᵀ)⁻¹ D_g of each block, 0 for the bin left out, (B, K, p)."""
    part = finish(own, free, slice(0, len(own.counts.n)), moments, True)
    said = evidence(own, part)
    used = _used(own) & (np.arange(own.counts.n_bins) != _reference(own)[:, None])
    s = said.covariance + own.block_variance * said.shift[:, :, None] * said.shift[:, None]
    s = s * (used[:, :, None] & used[:, None, :]) + 1e-6 * np.eye(own.counts.n_bins)
    right = said.derivative * used[:, :, None]
    return np.asarray(np.linalg.solve(s, right) * used[:, :, None])


def solve_joint(
    problem: JointProblem, free: FloatArray, penalty: FloatArray, *, max_iter: int = 50
) -> tuple[JointProblem, FloatArray, JointSums]:
    """Solve the added quasi-scores, random block intercepts allowed for where they show."""
    variance = [0.0] * len(problem.tables)
    for _ in range(4):
        for _ in range(max_iter):
            sums = joint_sums(problem, free, penalty)
            step = solve_scaled(sums.information + np.diag(penalty), sums.score)
            free = free + step / max(1.0, float(np.abs(step).max()))
            if float(sums.score @ step) < 1e-8:
                break
        sums = joint_sums(problem, free, penalty)
        unpenalised = reduce(np.add, [s.block_scores.sum(axis=0) for s in sums.tables])
        n_slopes = problem.coordinates.n_slopes
        found = [
            block_variance(replace(s, information=sums.information), unpenalised, n_slopes)
            if len(s.block_pull) >= _FEWEST_BLOCKS + n_slopes
            else 0.0
            for s in sums.tables
        ]
        if np.allclose(found, variance, rtol=0.05):
            break
        variance = found
        problem = problem.with_effects(variance)
    return problem, free, sums
