"""Means of blocks alone: ecological regression without the bias of a curved link.

E mean_b = mean_i mean(x_i) for any link, and Var mean_b = Σ_i Var y_i / n_b². The means identify
the coefficients, not the dispersion: that is set, by the method of moments, so that the misfit
equals its expectation.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unbin._typing import FloatArray
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
    result = solve_quasi_score(
        problem, free, penalty, cap=step_scale(problem, free), tol=tol, max_iter=max_iter
    )
    if problem.coordinates.n_nuisance == 0 or problem.means is None:
        return result
    place = problem.coordinates.n_slopes
    for _ in range(_ROUNDS):
        gap = _log_ratio(problem, result.free, penalty)
        nudged = result.free.copy()
        nudged[place] += 0.01
        slope = (_log_ratio(problem, nudged, penalty) - gap) / 0.01
        if not np.isfinite(gap) or abs(gap) < 1e-6 or slope >= -1e-8:
            break
        moved = result.free.copy()
        moved[place] += np.clip(-gap / slope, -_LONGEST, _LONGEST)
        again = solve_quasi_score(
            problem, moved, penalty, cap=step_scale(problem, moved), tol=tol, max_iter=max_iter
        )
        result = replace(again, n_iter=result.n_iter + again.n_iter)
    return result


def mean_error(problem: Problem, sums: ScoreSums) -> float:
    """Return the squared error of the blocks' published means, by people."""
    assert problem.means is not None
    n = problem.counts.n
    gap = problem.means.mean - sums.mean[:, -1] * problem.means.unit / n
    return float(np.nansum(n * gap**2))


def _log_ratio(problem: Problem, free: FloatArray, penalty: FloatArray) -> float:
    """Return log(Q/df) at some parameters."""
    sums = score_sums(problem, free, penalty)
    df = float(sums.block_df.sum()) - problem.n_fitted
    return float(np.log(max(sums.block_misfit.sum(), 1e-300) / df)) if df > 0 else np.nan
