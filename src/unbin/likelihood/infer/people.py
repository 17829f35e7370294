"""The variance of the score as a sum over people, where tables stand beside each other.

Tables beside the groups count the same people again, so that the variance of the added quasi-scores
is not their information. With A_i the weights of the statistics that person i is counted in,
Σ_t Σ_t⁻¹ D of his blocks,

    M = Σ_i A_iᵀ Cov_i A_i + Σ_r τ_r² Σ_h h_rh h_rhᵀ,    h_rh = Σ_{i in h} A_iᵀ ∂q_i/∂eta,

h the blocks of the partitions r that have a random intercept. The weights of a person depend on his
crossed cell alone: sums by cell are all that is needed, and nothing grows with the square of the
number of tables.

Counts hidden in a table are counts that were published with noise, which is added as that of a
publisher is.

Where the rows are a sample of the people, all tables share what the sample got wrong:
Σ w (w - 1) a_i a_iᵀ with a_i = Σ_t W_tᵀ (q_i - q̄_t) is added, q̄_t the mean over the block. W is
made of the same rows, which makes a_i too small; what sampling takes from the information
(:mod:`unbin.likelihood.model.sampling`) is about what that leaves out, and is added too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from unbin._compiling import njit
from unbin._typing import FloatArray, Index, IntArray
from unbin.likelihood.data.problem import Problem
from unbin.likelihood.model.law import Law
from unbin.likelihood.model.moments import (
    CellSums,
    Moments,
    UnitSums,
    groups_of,
    map_cells,
    units_of,
)
from unbin.likelihood.model.score import (
    Evidence,
    ScoreSums,
    evidence,
    instruments,
    masked,
    unit_variance,
)


def score_variance(
    problem: Problem, free: FloatArray, sums: ScoreSums
) -> tuple[FloatArray, FloatArray]:
    """Return M in two parts: that of people and of noise, and that of random intercepts."""
    p, stacks = len(free), problem.layout.stacks
    assert problem.layout.border is None
    law = Law.of(problem, free)

    def raw(cells: CellSums) -> tuple[Moments, tuple[UnitSums, ...]]:
        others = tuple(units_of(problem, cells, j) for j in range(1, len(stacks)))
        return groups_of(problem, free, cells), others

    found = list(map_cells(problem, free, raw))
    moments = [_joined([each for each, _ in found])]
    others = zip(*(each for _, each in found), strict=True)
    moments += [
        reduce(add, each).moments(problem, free, stack, 0)
        for each, stack in zip(others, stacks[1:], strict=True)
    ]
    own, held = instruments(problem, sums.block_hold, sums.block_along)
    pulled = held / (1 + problem.block_variance * sums.block_hold)[:, None] - own
    weights, people = [], np.zeros((p, p))
    levels = np.zeros((problem.codes.shape[1], p))
    for j, (stack, each) in enumerate(zip(stacks, moments, strict=True)):
        variance = unit_variance(problem, stack)
        said = evidence(problem, each, j, values=law.values, variance=variance)
        bare, shift = _weights(problem, j, said)
        by_effect = pulled[: len(bare)]
        if j > 0:
            along = np.einsum("ul,ulp->up", said.shift, bare)
            hold = np.einsum("ul,ul->u", said.shift, shift)
            by_effect = -(variance / (1 + variance * hold))[:, None] * along
        weight = bare + shift[:, :, None] * by_effect[:, None, :]
        people += _noise(problem, j, said, weight)
        weights.append(weight)
        if problem.design.sampled:
            n = problem.tables[stack.tables[0]].counts.n
            average = np.einsum("ul,ulp->up", each.mean / n[:, None], weight)
            levels += average[stack.unit]

    def meat(cells: CellSums) -> tuple[FloatArray, FloatArray]:
        by_cell = _by_cell(problem, cells.cells, weights, cells.mean.shape[1], p)
        along = np.einsum("ck,ckp->cp", cells.slopes[:, :, 0], by_cell)
        total = _quadratic(cells.covariance, by_cell)
        if cells.sampling:
            v, once, twice = cells.sampling
            level = levels[cells.cells]
            crossed = np.einsum("ck,ckp,cq->pq", once, by_cell, level)
            total = total + _quadratic(twice, by_cell) - crossed - crossed.T
            total = total + level.T @ (v[:, None] * level)
        return total, along

    parts, along = zip(*map_cells(problem, free, meat), strict=True)
    people += reduce(add, parts)
    if sums.sampled is not None:
        people += sums.sampled
    pulls = np.concatenate(along)
    by_group = _by_block(pulls, problem.plan.group, len(pulled))
    if sums.known is not None:
        # each weighs S⁻¹ D + S⁻¹ e c, c of the group it is in
        hold, towards = sums.known.hold, sums.known.along
        crossed = towards.T @ pulled
        people += sums.known.information + crossed + crossed.T + pulled.T @ (hold[:, None] * pulled)
        by_group += towards + hold[:, None] * pulled
    effects = problem.block_variance * by_group.T @ by_group
    for t, variance in enumerate(problem.further):
        if variance > 0:
            each_block = _by_block(pulls, problem.partitions[t], problem.n_blocks[t])
            effects = effects + variance * each_block.T @ each_block
    return people, effects


def _joined(parts: Sequence[Moments]) -> Moments:
    """Put groups side by side."""
    first, last = parts[0].units.start, parts[-1].units.stop

    def together(name: str) -> Any:
        each = [getattr(part, name) for part in parts]
        return None if each[0] is None else np.concatenate(each)

    names = ("mean", "derivative", "shift", "covariance", "moved")
    return Moments(slice(first, last), **{name: together(name) for name in names})


def _weights(problem: Problem, j: int, said: Evidence) -> tuple[FloatArray, FloatArray]:
    """Return S_g⁻¹ D_g and S_g⁻¹ e_g of each unit, (U, L, p) and (U, L).

    0 for what was not published and for the bin left out.
    """
    used = problem.stacked[j].used
    columns = np.concatenate([said.derivative, said.shift[:, :, None]], axis=2)
    found = np.linalg.solve(masked(said.covariance, used), columns * used[:, :, None])
    return np.asarray(found[:, :, :-1]), np.asarray(found[:, :, -1])


def _noise(problem: Problem, j: int, said: Evidence, weight: FloatArray) -> FloatArray:
    """Return the variance of the score by noise, and by what is hidden."""
    stacked = problem.stacked[j]
    found = np.zeros((weight.shape[2],) * 2)
    if stacked.noise is not None:
        found = np.einsum("ulp,ul,ulq->pq", weight, stacked.noise, weight)
    if said.hidden.shape[2]:
        lost = (said.hidden * stacked.used[:, :, None]).swapaxes(1, 2) @ weight
        found = found + np.einsum("uhp,uhq->pq", lost, lost)
    return np.asarray(found)


def _by_cell(
    problem: Problem, cells: Index, weights: Sequence[FloatArray], size: int, p: int
) -> FloatArray:
    """Return A of the people of some cells, (c, K, p)."""
    codes = problem.codes[:, cells]
    found = np.zeros((codes.shape[1], size, p))
    for stack, weight in zip(problem.layout.stacks, weights, strict=True):
        for i, t in enumerate(stack.tables):
            first, last = (np.atleast_2d(e[t]) for e in (problem.grid.first, problem.grid.last))
            first, last = (e[cells] if len(e) > 1 else e for e in (first, last))
            factor = problem.tables[t].factor
            scale = np.ones(codes.shape[1]) if factor is None else factor[codes[t]]
            place = stack.place(i, codes[t])
            _gather(stack.unit[cells], place, first, last, scale, weight, found)
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(unit, place, first, last, scale, weight, total):  # type: ignore[no-untyped-def]
    """Add the weights of the statistics that count each bin of a cell."""
    for c in range(len(unit)):
        if place[c] < 0:
            continue
        row = c if len(first) > 1 else 0
        for s in range(first.shape[1]):
            for k in range(first[row, s], last[row, s]):
                for i in range(total.shape[2]):
                    total[c, k, i] += scale[c] * weight[unit[c], place[c] + s, i]


def _quadratic(covariance: FloatArray, by_cell: FloatArray) -> FloatArray:
    """Return Σ A_cᵀ S_c A_c."""
    along = covariance @ by_cell
    p = by_cell.shape[2]
    return np.asarray(along.reshape(-1, p).T @ by_cell.reshape(-1, p))


def _by_block(pulls: FloatArray, codes: IntArray, n_blocks: int) -> FloatArray:
    """Return the sums h of the pulls of the cells of each block, (B, p)."""
    return np.stack([np.bincount(codes, each, n_blocks) for each in pulls.T], axis=1)
