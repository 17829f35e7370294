"""Means of blocks alone: ecological regression without the bias of a curved link.

E mean_b = mean_i mean(x_i) for any link, and Var mean_b = Σ_i Var y_i / n_b². The means identify
the coefficients, not the dispersion: that is set, by the method of moments, so that the misfit
equals its expectation. So do single order statistics, a median of each block. Effects of blocks
are told from noise by the sizes of blocks only (see :mod:`unbin.likelihood.effects`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from unbin._typing import FloatArray
from unbin.likelihood.effects import effects_df, effects_misfit
from unbin.likelihood.problem import Problem
from unbin.likelihood.quasi_score import ScoreSums, score_sums
from unbin.likelihood.scoring import ScoringResult, solve_quasi_score
from unbin.likelihood.start import step_scale

_ROUNDS = 8
_LONGEST = 2.0


def solve_means(
    problem: Problem, free: FloatArray, penalty: FloatArray, *, tol: float, max_iter: int
) -> ScoringResult:
    """Solve for the coefficients, and for the first nuisance parameter by Q = df.

    Further nuisance parameters stay where they start; means do not identify them.
    """

    def solve(at: FloatArray) -> ScoringResult:
        return solve_quasi_score(
            problem, at, penalty, cap=step_scale(problem, at), tol=tol, max_iter=max_iter
        )

    if problem.coordinates.n_nuisance == 0:
        return solve(free)

    def log_ratio(at: FloatArray) -> float:
        sums, variance = score_sums(problem, at, penalty), problem.block_variance
        left = sums.block_misfit - effects_misfit(sums, variance)
        return log_misfit(left.sum(), effects_df(sums, variance).sum() - problem.n_fitted)

    return solve_dispersion(solve, log_ratio, free, problem.coordinates.n_slopes)


def solve_dispersion(
    solve: Callable[[FloatArray], ScoringResult],
    log_ratio: Callable[[FloatArray], float],
    free: FloatArray,
    place: int,
) -> ScoringResult:
    """Solve for the parameters, the one at ``place`` by Q = df.

    Parameters
    ----------
    solve : callable
        Solves for all other parameters, from where it is told.
    log_ratio : callable
        Returns log(Q/df) at some parameters.
    free : (p,)
    place : int
    """
    result = solve(free)
    for _ in range(_ROUNDS):
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
    """Return the squared error of where blocks lie, by people: of their means, or of eta."""
    n = problem.counts.n
    if problem.means is None:
        gap = np.where(
            sums.block_hold > 0, sums.block_pull / np.maximum(sums.block_hold, 1e-300), 0
        )
    else:
        gap = problem.means.mean - sums.mean[:, -1] * problem.means.unit / n
    return float(np.nansum(n * gap**2))


def log_misfit(misfit: float, df: float) -> float:
    """Return log(Q/df), NaN without degrees of freedom."""
    return float(np.log(max(misfit, 1e-300) / df)) if df > 0 else np.nan
