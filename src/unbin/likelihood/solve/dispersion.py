"""Means of blocks alone: ecological regression without the bias of a curved link.

E mean_b = mean_i mean(x_i) for any link, and Var mean_b = Σ_i Var y_i / n_b². The means identify
the coefficients, not the dispersion: that is set, by the method of moments, so that the misfit
equals its expectation. So do single order statistics, a median of each block. Effects of blocks
are told from noise by the sizes of blocks only (see :mod:`unbin.likelihood.solve.effects`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unbin._typing import FloatArray
from unbin.likelihood.data.problem import Problem
from unbin.likelihood.model.score import ScoreSums, score_sums
from unbin.likelihood.solve.effects import misfit_beside_effects
from unbin.likelihood.solve.scoring import ScoringResult, solve_score
from unbin.likelihood.solve.start import step_scale

_ROUNDS = 8
_LONGEST = 2.0


def solve_means(
    problem: Problem, free: FloatArray, penalty: FloatArray, *, tol: float, max_iter: int
) -> ScoringResult:
    """Solve for the coefficients, and for the first nuisance parameter by Q = df.

    Further nuisance parameters stay where they start; means do not identify them.
    """

    def solve(at: FloatArray) -> ScoringResult:
        cap = step_scale(problem, at)
        return solve_score(problem, at, penalty, cap=cap, tol=tol, max_iter=max_iter)

    def log_ratio(at: FloatArray) -> float:
        misfit, df = misfit_beside_effects(problem, score_sums(problem, at, penalty))
        return float(np.log(max(misfit, 1e-300) / df)) if df > 0 else np.nan

    result, place = solve(free), problem.coordinates.n_slopes
    for _ in range(_ROUNDS if problem.coordinates.n_nuisance else 0):
        gap = log_ratio(result.free)
        nudged = result.free.copy()
        nudged[place] += 0.01
        slope = (log_ratio(nudged) - gap) / 0.01
        if not np.isfinite(gap) or abs(gap) < 1e-6 or slope >= -1e-8:
            break
        moved = result.free.copy()
        moved[place] += np.clip(-gap / slope, -_LONGEST, _LONGEST)
        again = solve(moved)
        result = replace(again, n_iter=result.n_iter + again.n_iter)
    return result


def level_error(problem: Problem, sums: ScoreSums) -> float:
    """Return the squared error of where groups lie, on the scale of eta, by people."""
    hold = sums.block_hold
    gap = np.where(hold > 0, sums.block_pull / np.maximum(hold, 1e-300), 0.0)
    people = np.zeros(len(gap))
    people[: len(problem.group_people)] = problem.group_people
    return float((people * gap**2).sum())
