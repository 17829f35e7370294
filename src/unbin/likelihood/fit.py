"""Fit a GLM to published statistics: start, solve, and state the uncertainty."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from unbin._typing import BoolArray, FloatArray
from unbin._watching import Status
from unbin.exceptions import ParameterError, ReleaseError
from unbin.families import Family
from unbin.likelihood.composite import maximise_composite
from unbin.likelihood.counts import merge_unlikely
from unbin.likelihood.effects import (
    Pulls,
    block_variance,
    effects_df,
    effects_misfit,
    separate_variance,
    solve_with_effects,
)
from unbin.likelihood.evidence import Dispersion, level_dispersion
from unbin.likelihood.exact import solve_exact
from unbin.likelihood.inference import LikelihoodFit, at_location, infer
from unbin.likelihood.location import slopes_of
from unbin.likelihood.means import level_error, solve_means
from unbin.likelihood.mirrors import (
    MANY_ROWS,
    Sides,
    has_mirrors,
    likeliest_root,
    spread_over,
)
from unbin.likelihood.problem import Problem, make_problem, ridge_penalty, thin, worth_thinning
from unbin.likelihood.quasi_score import ScoreSums, log_score, score_sums
from unbin.likelihood.scoring import ScoringResult, solve_quasi_score
from unbin.likelihood.shrinkage import Solver, shrink_predictions, slopes_that_vary
from unbin.likelihood.specification import UNTESTED, Test, specify, testable
from unbin.likelihood.start import null_point, starting_point, starts_well, step_scale
from unbin.likelihood.statistics import published_order
from unbin.likelihood.verdicts import LARGEST_ERROR, outcome_sd
from unbin.release import Release
from unbin.release.units import in_units, units_of
from unbin.rows.design import Design

_HINT = 0.2
"""p value of block effects below which the exact likelihood is not relied on."""
_FEW_BLOCKS = 20
"""Blocks with effects below which slopes are estimated from levels alone."""
_MOSTLY = 0.5
"""Share of the information on a slope from which on it rests on the shape of histograms."""
SINGULAR = 0.02
"""Below this share of the multinomial variance S is too close to singular for scoring."""


_HELD = 1e8
"""Ridge that holds slopes at 0, in units of one person's information on them."""
_FULL_PASSES = 10
"""Passes over the rows of large blocks, at most, from a root of a fraction of them."""
_ROUGH = 1e-2
"""Tolerance of that root."""


def fit_likelihood(
    design: Design,
    release: Release,
    family: Family,
    *,
    alpha: float | str | None = 0.0,
    start: FloatArray | None = None,
    tol: float = 1e-6,
    max_iter: int = 50,
    n_features: int | None = None,
    robust: bool = False,
) -> LikelihoodFit:
    """Estimate the coefficients of people from what was published about their blocks.

    Block-means regression starts the quasi-score; if scoring does not converge from there, the
    composite likelihood is maximised first. Where the features determine almost everybody's
    bin the covariance of the counts is singular, and the composite estimate stands.

    Parameters
    ----------
    design : Design
        Rows laid out in the blocks of the release.
    release : Release
        Aligned with the design: blocks in the same order, all sizes known.
    family : Family
    alpha : float, None or "auto"
        Mean loss + alpha/2 · ‖coef‖², coefficients in units of X. None: the evidence ridge, for
        predictions, where the design is weak or the fit without it fails; "auto": always.
    start : (n_theta + m,), optional
        Theta and nuisance parameters to start from, in the units of the fit (those of the steps
        that are reported).
    tol : float
        Stop when the squared distance to the root, in standard errors, is below.
    max_iter : int
        Passes over the rows by scoring, at most.
    n_features : int, optional
        Slopes after these are contextual.
    robust : bool
        Give the root of the location score: from the blocks' levels, not the shape of their
        histograms.

    Returns
    -------
    LikelihoodFit
    """
    units = units_of(release, family)
    scaled = in_units(release, units)
    problem = make_problem(design.in_units(units), scaled, family)
    problem = replace(problem, order=published_order(scaled, problem.counts, family.domain))
    if problem.order is None and problem.means is None and not problem.counts.informative:
        raise ReleaseError(
            "release: must distinguish people, got one bin, one value or no count for everybody; "
            "publish more bins"
        )
    if robust and not testable(problem):
        raise ParameterError(
            "robust: takes histograms or means of everybody, got order statistics, or rows that "
            "are a sample; leave it out"
        )
    fixed = 0.0 if alpha is None or isinstance(alpha, str) else alpha
    penalty = ridge_penalty(problem, fixed * units.slope**2)
    if start is None:
        free = starting_point(problem)
    else:
        n_theta = problem.coordinates.n_theta
        free = problem.coordinates.join(start[:n_theta], start[n_theta:])
    rootless, unclear = False, None
    if problem.tells_spread:
        result = solve(problem, free, penalty, tol, max_iter)
        problem, result = _without_unlikely_bins(problem, result, penalty, tol, max_iter)
        if n_features is not None and has_mirrors([problem], result.status, n_features):
            sides = _sides(problem, n_features, penalty)
            result, unclear = likeliest_root(result, sides, tol, max_iter)
        if result.status in (Status.NOT_CONVERGED, Status.POOLED):
            problem, result = _effects_first(problem, result, penalty, tol, max_iter)
            rootless = True
        if result.status is Status.CONVERGED:
            problem, result = _solve_exactly(problem, result, penalty, tol, max_iter)
    else:
        problem, result = _solve_levels(problem, free, penalty, tol, max_iter)
    if problem.order is not None and result.status is Status.CONVERGED:
        result = replace(result, status=Status.ORDER)
    context = None
    if n_features is not None and n_features < len(design.scale) and testable(problem):
        context = _test_context(problem, result, penalty, n_features, tol, max_iter)
    found = infer(problem, result, penalty, n_features=n_features)
    found = replace(found, context=context, unclear=unclear)
    if found.specification is not None and (robust or _needs_levels(problem, found)):
        found = at_location(problem, found, result.free, penalty, robust=robust)
    if alpha is None or isinstance(alpha, str):
        found = shrink_predictions(
            found,
            result,
            problem.design,
            family,
            _solver(problem, tol, max_iter, n_features),
            spread=_dispersion(problem, result, np.zeros(len(penalty))),
            n_features=n_features,
            always=alpha is not None,
            rootless=rootless,
        )
    return found.out_of_units(units, release, fit_intercept=design.fit_intercept)


def _sides(problem: Problem, n_features: int, penalty: FloatArray) -> Sides:
    """Return how roots of other signs are looked for in one table."""

    def solve_from(free: FloatArray, tol: float, max_iter: int) -> ScoringResult:
        cap = step_scale(problem, free)
        return solve_quasi_score(problem, free, penalty, cap=cap, tol=tol, max_iter=max_iter)

    def dispersion(sums: ScoreSums) -> float:
        return spread_over(float(sums.block_misfit.sum()), float(sums.block_df.sum()), problem)

    return Sides(
        slopes=slopes_of(problem),
        n_features=n_features,
        means=problem.design.block_means[:, :-1],
        people=problem.counts.n,
        solve=solve_from,
        log_likelihood=lambda sums: problem.n_people * log_score(problem, sums),
        dispersion=dispersion,
        thorough=problem.design.n_rows <= MANY_ROWS,
    )


def _needs_levels(problem: Problem, fit: LikelihoodFit) -> bool:
    """Tell whether slopes have to be estimated from the levels of blocks alone.

    Where features and noise are about normal the shape of a histogram says how large slopes are,
    not which sign they have: that comes from levels. Where block effects drown these the full score
    has roots on both sides, each with a small standard error.
    """
    tests, slopes = fit.specification, slopes_of(problem)
    contextual = fit.context is not None
    if tests is None or problem.block_variance == 0 or contextual:
        return False
    if fit.n_blocks < _FEW_BLOCKS:
        return True
    shaped = tests.share > _MOSTLY
    if not shaped.any():
        return False
    errors = np.sqrt(np.maximum(np.diag(tests.location_covariance)[slopes][shaped], 0.0))
    return bool((errors > LARGEST_ERROR * outcome_sd(problem.design, problem.family, fit)).any())


def _test_context(
    problem: Problem,
    result: ScoringResult,
    penalty: FloatArray,
    n_features: int,
    tol: float,
    max_iter: int,
) -> Test:
    """Test contextual effects, slopes after the first ``n_features``, by the score without them.

    Wald's test of a fit that has them rejects several times too often.
    """
    slopes = slopes_of(problem)
    context = slice(slopes.start + n_features, slopes.stop)
    held, free = penalty.copy(), result.free.copy()
    held[context], free[context] = _HELD * problem.n_people, 0.0
    null = replace(problem, block_variance=0.0, effects=None)
    reached = solve(null, free, held, tol, max_iter)
    if reached.status is Status.CONVERGED:
        null, reached = solve_with_effects(null, reached, held, tol, max_iter)
    if reached.status is not Status.CONVERGED:
        return UNTESTED
    at = reached.free, reached.sums.information, held
    return specify(null, *at, n_features=n_features).context


def _solver(problem: Problem, tol: float, max_iter: int, n_features: int | None) -> Solver:
    """Return how the table is solved with a ridge: without block effects, which come at the end."""
    plain = replace(problem, block_variance=0.0, effects=None)
    none = np.zeros(problem.coordinates.n_free)

    def solve_with(free: FloatArray, penalty: FloatArray) -> ScoringResult:
        if not problem.tells_spread:
            return solve_means(plain, free, penalty, tol=tol, max_iter=max_iter)
        cap = step_scale(plain, free)
        return solve_quasi_score(plain, free, penalty, cap=cap, tol=tol, max_iter=max_iter)

    def infer_at(
        shrunk: ScoringResult, penalty: FloatArray, status: Status, failed: bool
    ) -> tuple[LikelihoodFit, ScoringResult]:
        at = plain
        if not failed and shrunk.status is Status.CONVERGED and problem.tells_spread:
            with_effects, refined = solve_with_effects(plain, shrunk, penalty, tol, max_iter)
            if refined.status is Status.CONVERGED:
                at, shrunk = (
                    with_effects,
                    solve_exact(with_effects, refined, penalty, tol, max_iter),
                )
        bare = replace(shrunk, status=status)
        return infer(at, bare, none, n_features=n_features), shrunk

    return Solver(
        coordinates=problem.coordinates,
        slopes=slopes_that_vary(problem),
        n_people=problem.n_people,
        null=lambda: pooled_fit(plain, none, tol=tol, max_iter=max_iter),
        solve=solve_with,
        dispersion=partial(_dispersion, plain),
        infer=infer_at,
    )


def _dispersion(problem: Problem, result: ScoringResult, unpenalised: FloatArray) -> Dispersion:
    sums, n_fitted, variance = result.sums, problem.n_fitted, problem.block_variance
    df = float(effects_df(sums, variance).sum()) - n_fitted
    left = float((sums.block_misfit - effects_misfit(sums, variance)).sum())
    levels = level_dispersion(sums, sums.information, unpenalised, n_fitted, variance)
    return Dispersion(left / df if df > 0 else 1.0, levels)


def _solve_levels(
    problem: Problem, free: FloatArray, penalty: FloatArray, tol: float, max_iter: int
) -> tuple[Problem, ScoringResult]:
    """Solve where all that was published says where blocks lie: means, or a median of each."""
    result = solve_means(problem, free, penalty, tol=tol, max_iter=max_iter)
    if not _is_final(problem, result):
        pooled = pooled_fit(problem, penalty, tol=tol, max_iter=max_iter)
        return problem, min(result, pooled, key=lambda each: level_error(problem, each.sums))
    if result.status is Status.CONVERGED and not problem.coordinates.n_nuisance:
        return solve_with_effects(problem, result, penalty, tol, max_iter)
    variance = separate_variance(result.sums)
    if result.status is Status.CONVERGED and variance > 0:
        changed = replace(problem, block_variance=variance)
        again = solve_means(changed, result.free, penalty, tol=tol, max_iter=max_iter)
        if again.status is Status.CONVERGED:
            return changed, replace(again, n_iter=result.n_iter + again.n_iter)
    return problem, result


def solve(
    problem: Problem, free: FloatArray, penalty: FloatArray, tol: float, max_iter: int
) -> ScoringResult:
    """Solve the quasi-score, by way of the composite likelihood or from slopes of 0 if need be.

    Of large blocks a fraction of their rows is solved first, and gives a better start.

    Where there is no root to be found, the iterate that explains the table best is given, but
    never one that explains it worse than slopes of 0 do.
    """
    thinned, second = worth_thinning(problem), None
    if thinned and not starts_well(problem):
        coarse = thin(problem)
        rough = solve(coarse, free, penalty, _ROUGH, max_iter)
        second = rough.free
        if _is_final(coarse, rough):
            free, second = second, free
    cap = step_scale(problem, free)
    passes = min(max_iter, _FULL_PASSES) if thinned else max_iter
    result = solve_quasi_score(problem, free, penalty, cap=cap, tol=tol, max_iter=passes)
    if _is_final(problem, result):
        return result
    if second is None and thinned:
        second = solve(thin(problem), free, penalty, _ROUGH, max_iter).free
    elif second is None:
        composite = problem.counts.informative
        second = maximise_composite(problem, free, penalty).free if composite else free
    again = solve_quasi_score(problem, second, penalty, cap=0.25 * cap, tol=tol, max_iter=passes)
    if _is_final(problem, again):
        return again
    null = solve_quasi_score(
        problem, null_point(problem), penalty, cap=0.25 * cap, tol=tol, max_iter=passes
    )
    if _is_final(problem, null):
        return null
    found = [result, again, null]
    best = max(found, key=lambda each: _penalised(problem, each, penalty))
    if best.sums.spread < SINGULAR:
        found = [_composite_fit(problem, best.free, penalty)]
    pooled = pooled_fit(problem, penalty, tol=tol, max_iter=passes)
    better = [each for each in found if _explains_more(problem, each, pooled)]
    return max(better, key=lambda each: _penalised(problem, each, penalty), default=pooled)


def _solve_exactly(
    problem: Problem, result: ScoringResult, penalty: FloatArray, tol: float, max_iter: int
) -> tuple[Problem, ScoringResult]:
    """Solve the exact likelihood of small blocks, or with block effects where they show there.

    They are looked for at the exact root: where slopes are strong that of the quasi-score may be
    far enough from it for blocks to seem to have effects. A hint of them is enough: the exact
    likelihood leans on there being none.
    """
    exact = solve_exact(problem, result, penalty, tol, max_iter)
    if exact.status is Status.EXACT:
        pulls = Pulls.of(exact.sums, exact.sums.information, np.zeros(len(penalty)))
        if pulls.p_value(problem.n_fitted) > _HINT:
            return problem, exact
    return solve_with_effects(problem, result, penalty, tol, max_iter)


def _effects_first(
    problem: Problem, result: ScoringResult, penalty: FloatArray, tol: float, max_iter: int
) -> tuple[Problem, ScoringResult]:
    """Solve with the block effects that slopes of 0 leave, where there is no root without any.

    Effects that are large beside the noise leave slopes to explain levels that they cannot.
    """
    pooled = pooled_fit(problem, penalty, tol=tol, max_iter=max_iter)
    variance = block_variance(pooled.sums, np.zeros(len(penalty)), 1)
    if variance == 0:
        return problem, result
    changed = replace(problem, block_variance=variance)
    cap = 0.25 * step_scale(problem, pooled.free)
    found = solve_quasi_score(changed, pooled.free, penalty, cap=cap, tol=tol, max_iter=max_iter)
    if not _is_final(changed, found):
        return problem, result
    return changed, replace(found, n_iter=result.n_iter + found.n_iter)


def solve_quickly(
    problem: Problem, free: FloatArray, penalty: FloatArray, tol: float, max_iter: int
) -> ScoringResult:
    """Solve the quasi-score from one start, for fits of which only predictions are wanted.

    Where that fails, as for a family that cannot fit, the composite likelihood is maximised: no
    fit of the family predicts the counts at hand better.
    """
    cap = step_scale(problem, free)
    found = solve_quasi_score(problem, free, penalty, cap=cap, tol=tol, max_iter=max_iter)
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
    cap = 0.25 * step_scale(problem, free)
    found = solve_quasi_score(problem, free, held, cap=cap, tol=tol, max_iter=max_iter)
    free = np.where(slopes, 0.0, found.free)
    sums = score_sums(problem, free, penalty)
    return ScoringResult(free, sums, Status.POOLED, found.n_iter, found.path)


def hold_slopes(problem: Problem, penalty: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Mark the slopes among the free parameters, and return a ridge that holds them at 0."""
    slopes = np.zeros(len(penalty), dtype=bool)
    slopes[slopes_of(problem)] = True
    return slopes, np.where(slopes, _HELD * problem.n_people, penalty)


def _composite_fit(problem: Problem, free: FloatArray, penalty: FloatArray) -> ScoringResult:
    """Maximise the composite likelihood, where S is too close to singular for scoring."""
    found = maximise_composite(problem, free, penalty)
    status = Status.COMPOSITE if found.converged else Status.NOT_CONVERGED
    sums = score_sums(problem, found.free, penalty)
    return ScoringResult(found.free, sums, status, found.n_iter, ())


def _explains_more(problem: Problem, result: ScoringResult, pooled: ScoringResult) -> bool:
    """Tell whether slopes explain the table better than slopes of 0, by score and by misfit.

    Where a scale collapses the score may rise, people beyond the outermost edges being free to be
    anywhere, but the misfit does too. Means of ordinal bins cannot diverge like that, and where
    features determine everybody's bin no misfit means anything.
    """
    gain = log_score(problem, result.sums) - log_score(problem, pooled.sums)
    less = result.sums.block_misfit.sum() < pooled.sums.block_misfit.sum()
    # neither hidden counts nor order statistics can be scored
    if problem.counts.low is not None or problem.order is not None:
        return bool(less)
    by_score = problem.family.free_shape or result.status is Status.COMPOSITE
    return bool(gain > 0 and (less or by_score))


def _penalised(problem: Problem, result: ScoringResult, penalty: FloatArray) -> float:
    """Return the log score per person less the ridge."""
    ridge = 0.5 * float(penalty @ result.free**2) / problem.n_people
    return log_score(problem, result.sums) - ridge


def _without_unlikely_bins(
    problem: Problem, result: ScoringResult, penalty: FloatArray, tol: float, max_iter: int
) -> tuple[Problem, ScoringResult]:
    """Solve again with the far bins merged that the fit all but rules out, if there are any."""
    if problem.family.free_shape or result.status is Status.INTERRUPTED:
        return problem, result
    merged = merge_unlikely(problem.counts, result.sums.mean[:, : problem.counts.n_bins])
    if merged is None:
        return problem, result
    problem = replace(problem, counts=merged)
    return problem, solve(problem, result.free, penalty, tol, max_iter)


def _is_final(problem: Problem, result: ScoringResult) -> bool:
    """Tell whether there is nothing left to try: interrupted, or a root worth having.

    That is away from singular S, and no worse than slopes of 0.
    """
    if result.status is Status.INTERRUPTED:
        return True
    if result.status is not Status.CONVERGED or result.sums.spread < SINGULAR:
        return False
    return log_score(problem, result.sums) >= _null_score(problem)


def _null_score(problem: Problem) -> float:
    """Return the log score per person with slopes of 0; -inf where it cannot be compared.

    That is where people have offsets, or counts are hidden: they are scored as if they lay in the
    middle of their intervals.
    """
    if problem.design.has_offset or problem.counts.low is not None:
        return -np.inf
    counts, family = problem.counts, problem.family
    theta, nuisance = problem.coordinates.split(null_point(problem))
    # everybody has the same probabilities where blocks share their bins
    eta = np.full(len(np.atleast_2d(counts.lower)), theta[0] if problem.design.fit_intercept else 0)
    share = family.bins(eta, counts.lower, counts.upper, nuisance).probability
    return counts.log_score(share * counts.n[:, None])
