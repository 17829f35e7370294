"""The root of the quasi-score, by whatever way leads to it.

Block-means regression starts the scoring; where that does not converge the composite likelihood is
maximised first, and slopes of 0 are tried. Of large blocks a fraction of their rows is solved
first. Where the features determine almost everybody's bin the covariance of the counts is singular,
and the composite estimate stands.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unbin._typing import BoolArray, FloatArray
from unbin._watching import Equation, Status
from unbin.likelihood.data.counts import merge_unlikely
from unbin.likelihood.data.problem import Problem, thin, worth_thinning
from unbin.likelihood.model.score import ScoreSums, log_score, score_sums
from unbin.likelihood.solve.composite import maximise_composite
from unbin.likelihood.solve.dispersion import level_error, solve_means
from unbin.likelihood.solve.effects import (
    Pulls,
    group_df,
    group_variance,
    is_settled,
    separate_variance,
    solve_with_effects,
)
from unbin.likelihood.solve.exact import solve_exact
from unbin.likelihood.solve.scoring import ScoringResult, solve_score
from unbin.likelihood.solve.start import null_point, starts_well, step_scale
from unbin.likelihood.thresholds import HINT_OF_EFFECTS, SINGULAR

_HELD = 1e8
"""Ridge that holds slopes at 0, in units of one person's information on them."""
_FULL_PASSES = 10
"""Passes over the rows of large blocks, at most, from a root of a fraction of them."""
_ROUGH = 1e-2
"""Tolerance of that root."""
_CAUTIOUS = 0.25
"""Length of the first steps where others failed."""


def solve(
    problem: Problem, free: FloatArray, penalty: FloatArray, tol: float, max_iter: int
) -> ScoringResult:
    """Solve the quasi-score, by way of the composite likelihood or from slopes of 0 if need be.

    Where there is no root to be found, the iterate that explains the tables best is given, but
    never one that explains them worse than slopes of 0 do.
    """
    if not problem.tells_spread:
        return _solve_levels(problem, free, penalty, tol, max_iter)
    thinned, second = worth_thinning(problem), None
    if thinned and not starts_well(problem):
        coarse = thin(problem)
        rough = solve(coarse, free, penalty, _ROUGH, max_iter)
        second = rough.free
        if _is_final(coarse, rough):
            free, second = second, free
    cap = step_scale(problem, free)
    passes = min(max_iter, _FULL_PASSES) if thinned else max_iter
    result = solve_score(problem, free, penalty, cap=cap, tol=tol, max_iter=passes)
    if _is_final(problem, result):
        return result
    if second is None and thinned:
        second = solve(thin(problem), free, penalty, _ROUGH, max_iter).free
    elif second is None:
        composite = any(problem.tables[t].counts.informative for t in problem.plan.core)
        second = maximise_composite(problem, free, penalty).free if composite else free
    cap = _CAUTIOUS * cap
    again = solve_score(problem, second, penalty, cap=cap, tol=tol, max_iter=passes)
    if _is_final(problem, again):
        return again
    zero = null_point(problem)
    null = solve_score(problem, zero, penalty, cap=cap, tol=tol, max_iter=passes)
    if _is_final(problem, null):
        return null
    found = [result, again, null]
    best = max(found, key=lambda each: _penalised(problem, each, penalty))
    if best.sums.spread < SINGULAR:
        found = [_composite_fit(problem, best.free, penalty)]
    pooled = pooled_fit(problem, penalty, tol=tol, max_iter=passes)
    better = [each for each in found if _explains_more(problem, each, pooled)]
    return max(better, key=lambda each: _penalised(problem, each, penalty), default=pooled)


def refine(
    problem: Problem, result: ScoringResult, penalty: FloatArray, tol: float, max_iter: int
) -> tuple[Problem, ScoringResult]:
    """Solve again with random intercepts where they show, or exactly in small blocks."""
    if result.status is not Status.CONVERGED:
        return problem, result
    if not problem.tells_spread and problem.coordinates.n_nuisance:
        return _separate_effects(problem, result, penalty, tol, max_iter)
    exact = solve_exact(problem, result, penalty, tol, max_iter)
    if exact.equation is Equation.EXACT:
        # they are looked for at the exact root: where slopes are strong that of the quasi-score
        # may be far enough from it for blocks to seem to have effects. A hint of them is enough:
        # the exact likelihood leans on there being none
        pulls = Pulls.of(exact.sums, np.zeros(len(penalty)))
        if pulls.p_value(group_df(problem, pulls, exact.sums)) > HINT_OF_EFFECTS:
            return problem, exact
    return solve_with_effects(problem, result, penalty, tol, max_iter)


def _solve_levels(
    problem: Problem, free: FloatArray, penalty: FloatArray, tol: float, max_iter: int
) -> ScoringResult:
    """Solve where all that was published says where blocks lie: means, or a median of each."""
    result = solve_means(problem, free, penalty, tol=tol, max_iter=max_iter)
    if _is_final(problem, result):
        return result
    pooled = pooled_fit(problem, penalty, tol=tol, max_iter=max_iter)
    return min(result, pooled, key=lambda each: level_error(problem, each.sums))


def _separate_effects(
    problem: Problem, result: ScoringResult, penalty: FloatArray, tol: float, max_iter: int
) -> tuple[Problem, ScoringResult]:
    """Solve again with effects of groups that their sizes tell from the dispersion, if any do."""
    variance = separate_variance(result.sums)
    if variance == 0:
        return problem, result
    changed = problem.with_effects(variance)
    again = solve_means(changed, result.free, penalty, tol=tol, max_iter=max_iter)
    if again.status is not Status.CONVERGED:
        return problem, result
    return changed, replace(again, n_iter=result.n_iter + again.n_iter)


def effects_first(
    problem: Problem, result: ScoringResult, penalty: FloatArray, tol: float, max_iter: int
) -> tuple[Problem, ScoringResult]:
    """Solve with the effects of groups that slopes of 0 leave, where there is no root without any.

    Effects that are large beside the noise leave slopes to explain levels that they cannot. Near a
    root that scoring did not reach they are those that its slopes leave. Several tables may take
    rounds to a root; a single one that does tells effects from slopes too poorly to be relied on.
    """
    start, nothing = result, np.zeros(len(penalty))
    if near_root(result):
        df = group_df(problem, Pulls.of(start.sums, nothing), start.sums)
    else:
        start = pooled_fit(problem, penalty, tol=tol, max_iter=max_iter)
        df = float((start.sums.block_hold > 0).sum() - 1)
    variance = group_variance(start.sums, nothing, df)
    if variance == 0:
        return problem, result
    changed = problem.with_effects(variance)
    cap = _CAUTIOUS * step_scale(problem, start.free)
    found = solve_score(changed, start.free, penalty, cap=cap, tol=tol, max_iter=max_iter)
    settled = True
    if not problem.layout.plain:
        changed, found = solve_with_effects(changed, found, penalty, tol, max_iter)
        settled = changed.block_variance > 0 and is_settled(changed, found, penalty)
    if not (settled and _is_final(changed, found)):
        return problem, result
    return changed, replace(found, n_iter=result.n_iter + found.n_iter)


def near_root(result: ScoringResult) -> bool:
    """Tell whether scoring ended within a tenth of a standard error of a root.

    Far from it only because blocks differ by more than the model says: what weights then change
    with the parameters makes scoring slow.
    """
    return result.status is Status.NOT_CONVERGED and min(result.path[-1:], default=1.0) < _ROUGH


def solve_quickly(
    problem: Problem, free: FloatArray, penalty: FloatArray, tol: float, max_iter: int
) -> ScoringResult:
    """Solve the quasi-score from one start, for fits of which only predictions are wanted.

    Where that fails, as for a family that cannot fit, the composite likelihood is maximised: no
    fit of the family predicts the counts at hand better.
    """
    cap = step_scale(problem, free)
    found = solve_score(problem, free, penalty, cap=cap, tol=tol, max_iter=max_iter)
    if _is_final(problem, found):
        return found
    coarse = thin(problem) if worth_thinning(problem) else problem
    composite = _composite_fit(coarse, found.free, penalty)
    return max(found, composite, key=lambda each: _penalised(problem, each, penalty))


def pooled_fit(
    problem: Problem, penalty: FloatArray, *, tol: float, max_iter: int
) -> ScoringResult:
    """Fit level and scale alone, all slopes 0."""
    free = null_point(problem)
    slopes, held = hold_slopes(problem, penalty)
    cap = _CAUTIOUS * step_scale(problem, free)
    found = solve_score(problem, free, held, cap=cap, tol=tol, max_iter=max_iter)
    free = np.where(slopes, 0.0, found.free)
    sums = score_sums(problem, free, penalty)
    return ScoringResult(free, sums, Status.POOLED, found.n_iter, found.path)


def hold_slopes(
    problem: Problem, penalty: FloatArray, first: int = 0
) -> tuple[BoolArray, FloatArray]:
    """Mark slopes after the first few, and return a ridge that holds them at 0."""
    slopes = np.zeros(len(penalty), dtype=bool)
    slopes[problem.slopes.start + first : problem.slopes.stop] = True
    return slopes, np.where(slopes, _HELD * problem.n_people, penalty)


def without_unlikely_bins(
    problem: Problem, result: ScoringResult, penalty: FloatArray, tol: float, max_iter: int
) -> tuple[Problem, ScoringResult]:
    """Solve again with the far bins merged that the fit all but rules out, if there are any."""
    if problem.family.free_shape or result.status is Status.INTERRUPTED:
        return problem, result
    pairs = zip(problem.tables, result.sums.mean, strict=True)
    merged = [merge_unlikely(t.counts, mean[:, : t.counts.n_bins]) for t, mean in pairs]
    if all(counts is None for counts in merged):
        return problem, result
    each = zip(problem.tables, merged, strict=True)
    tables = [table if c is None else replace(table, counts=c) for table, c in each]
    problem = problem.with_tables(tables)
    return problem, solve(problem, result.free, penalty, tol, max_iter)


def _composite_fit(problem: Problem, free: FloatArray, penalty: FloatArray) -> ScoringResult:
    """Maximise the composite likelihood, where S is too close to singular for scoring."""
    found = maximise_composite(problem, free, penalty)
    status = Status.CONVERGED if found.converged else Status.NOT_CONVERGED
    sums = score_sums(problem, found.free, penalty)
    return ScoringResult(found.free, sums, status, found.n_iter, (), Equation.COMPOSITE)


def _explains_more(problem: Problem, result: ScoringResult, pooled: ScoringResult) -> bool:
    """Tell whether slopes explain the tables better than slopes of 0, by score and by misfit.

    Where a scale collapses the score may rise, people beyond the outermost edges being free to be
    anywhere, but the misfit does too. Means of ordinal bins cannot diverge like that, and where
    features determine everybody's bin no misfit means anything.
    """
    gain = log_score(problem, result.sums) - log_score(problem, pooled.sums)
    less = result.sums.misfit < pooled.sums.misfit
    # neither hidden counts nor order statistics can be scored
    if any(t.counts.low is not None or t.order is not None for t in problem.tables):
        return bool(less)
    by_score = problem.family.free_shape or result.equation is Equation.COMPOSITE
    return bool(gain > 0 and (less or by_score))


def _penalised(problem: Problem, result: ScoringResult, penalty: FloatArray) -> float:
    """Return the log score per person less the ridge."""
    ridge = 0.5 * float(penalty @ result.free**2) / problem.n_people
    return log_score(problem, result.sums) - ridge


def _is_final(problem: Problem, result: ScoringResult) -> bool:
    """Tell whether there is nothing left to try: interrupted, or a root worth having.

    That is away from singular S, and no worse than slopes of 0.
    """
    if result.status is Status.INTERRUPTED:
        return True
    if result.status is not Status.CONVERGED or result.sums.spread < SINGULAR:
        return False
    return _no_worse(problem, result.sums)


def _no_worse(problem: Problem, sums: ScoreSums) -> bool:
    """Tell whether the counts are at least as likely as with slopes of 0.

    That cannot be compared where people have offsets, or counts are hidden: they are scored as if
    they lay in the middle of their intervals. Nor where outcomes are known, which are not scored.
    """
    hidden = any(table.counts.low is not None for table in problem.tables)
    if problem.design.has_offset or hidden or problem.known is not None:
        return True
    grid, family = problem.grid, problem.family
    theta, nuisance = problem.coordinates.split(null_point(problem))
    # everybody has the same probabilities where cells share their bins
    level = theta[0] if problem.design.fit_intercept else 0.0
    eta = np.full(len(np.atleast_2d(grid.lower)), level)
    q = family.bins(eta, grid.lower, grid.upper, nuisance).probability
    below = np.concatenate([np.zeros((len(q), 1)), np.cumsum(q, axis=1)], axis=1)
    mean = []
    for t, table in enumerate(problem.tables):
        n = table.counts.n_bins
        first, last = (np.atleast_2d(side[t])[:, :n] for side in (grid.first, grid.last))
        share = np.take_along_axis(below, np.broadcast_to(last, (len(q), n)), axis=1)
        share = share - np.take_along_axis(below, np.broadcast_to(first, (len(q), n)), axis=1)
        if len(q) > 1:  # a block has the bins of any of its cells
            cell = np.unique(problem.codes[t], return_index=True)[1]
            share = share[cell]
        mean.append(share * table.counts.n[:, None])
    return log_score(problem, sums) >= log_score(problem, replace(sums, mean=tuple(mean)))
