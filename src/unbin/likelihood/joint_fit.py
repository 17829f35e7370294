"""Fit a GLM to several tables of the same people: start, solve, random intercepts, uncertainty.

Every partition with enough blocks may have a random intercept (:mod:`unbin.likelihood.effects`).
Partitions cut the same people, so that the effects of one show in the pulls of the others: the one
with the strongest evidence is allowed for first, and a further one only if its pulls are still
large beside those effects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.special import chdtrc

from unbin._linalg import solve_scaled
from unbin._typing import FloatArray
from unbin._watching import Status
from unbin.exceptions import ReleaseError
from unbin.families import Family
from unbin.likelihood.counts import PublishedCounts, merge_unlikely
from unbin.likelihood.effects import Pulls, average_effect, effects_misfit, level_residuals
from unbin.likelihood.evidence import Dispersion, level_dispersion
from unbin.likelihood.fit import SINGULAR, hold_slopes
from unbin.likelihood.heldout import count_sums
from unbin.likelihood.inference import LikelihoodFit, expected_means, influence, location_fit
from unbin.likelihood.joint import (
    JointProblem,
    JointSums,
    joint_log_score,
    joint_sums,
    make_joint,
    shared_covariance,
)
from unbin.likelihood.joint_specification import can_test, location_weights, specify_joint
from unbin.likelihood.joint_start import Start
from unbin.likelihood.joint_variance import score_variance
from unbin.likelihood.known import KnownPeople
from unbin.likelihood.location import slopes_of
from unbin.likelihood.means import log_misfit, solve_dispersion
from unbin.likelihood.mirrors import (
    MANY_ROWS,
    Sides,
    has_mirrors,
    likeliest_root,
    spread_over,
)
from unbin.likelihood.problem import ridge_penalty
from unbin.likelihood.scoring import Equations, ScoringResult, solve_equations
from unbin.likelihood.shrinkage import Solver, shrink_predictions, slopes_that_vary
from unbin.likelihood.start import step_scale
from unbin.likelihood.statistics import looks_counted
from unbin.release import Release
from unbin.release.units import in_units, units_of
from unbin.rows.design import Design

_FEWEST_BLOCKS = 10
"""Blocks from which on a partition may have a random intercept."""
_LEVEL = 0.05
_ROUNDS = 8
_SETTLED = 0.05
"""Rounds end when no variance changes by more than this share."""


def fit_joint(
    design: Design,
    releases: Sequence[Release],
    family: Family,
    people: KnownPeople | None = None,
    *,
    alpha: float | str | None = 0.0,
    start: FloatArray | None = None,
    tol: float = 1e-6,
    max_iter: int = 50,
    n_features: int | None = None,
) -> LikelihoodFit:
    """Estimate the coefficients of people from several tables about them, and known outcomes.

    Parameters
    ----------
    design : Design
        Rows laid out in the blocks of the first release, with their blocks in the others.
    releases : sequence of Release
        Aligned with the partitions of the design.
    family : Family
    people : KnownPeople, optional
        Whose outcome is known; no table counts them.
    alpha, start, tol, max_iter, n_features
        As for :func:`unbin.likelihood.fit.fit_likelihood`.

    Returns
    -------
    LikelihoodFit
        With the fit of each table in ``tables``.
    """
    units = units_of(releases, family)
    scaled = [in_units(release, units) for release in releases]
    known = None if people is None else people.in_units(units)
    if known is not None and family.free_shape and releases[0].histogram.closed == "left":
        known = replace(known, values=np.nextafter(known.values, np.inf))
    problem = make_joint(design.in_units(units), scaled, family, known)
    _check_informative(problem)
    n_known = 0 if problem.known is None else int(problem.known.counts.n.sum())
    fixed = 0.0 if alpha is None or isinstance(alpha, str) else alpha
    penalty = ridge_penalty(problem.first, fixed * units.slope**2, n_known)
    first = Start.of(problem)
    if start is None:
        free = first.point()
    else:
        n_theta = problem.first.coordinates.n_theta
        free = problem.first.coordinates.join(start[:n_theta], start[n_theta:])
    result = solve_joint(problem, free, penalty, tol, max_iter, null=first.null())
    problem, result = _without_unlikely_bins(problem, result, penalty, tol, max_iter)
    unclear = None
    d = n_features if known is None else None  # known outcomes tell the signs of slopes
    if d is not None and has_mirrors(problem.tables, result.status, d):
        sides = _sides(problem, first, d, penalty)
        result, unclear = likeliest_root(result, sides, tol, max_iter)
    if result.status is Status.CONVERGED:
        problem, result = _with_effects(problem, result, penalty, tol, max_iter)
    found = replace(_infer(problem, result, penalty), unclear=unclear)
    if alpha is None or isinstance(alpha, str):
        found = shrink_predictions(
            found,
            result,
            problem.first.design,
            family,
            _solver(problem, n_known, tol, max_iter),
            spread=_dispersion(problem, result, np.zeros(len(penalty))),
            always=alpha is not None,
            n_features=n_features,
        )
    if family.free_shape:
        whole = any(looks_counted(release) for release in releases)
        found = replace(found, counts=replace(found.counts, whole=whole))
    out = partial(LikelihoodFit.out_of_units, units=units, fit_intercept=design.fit_intercept)
    each = zip(found.tables, releases, strict=True)
    tables = tuple(out(table, release=release) for table, release in each)
    return replace(out(found, release=releases), tables=tables)


def _sides(problem: JointProblem, start: Start, n_features: int, penalty: FloatArray) -> Sides:
    """Return how roots of other signs are looked for in several tables.

    Each of them counts the same people: their log likelihood is the mean over tables.
    """
    n_people = problem.first.n_people
    return Sides(
        slopes=slopes_of(problem.first),
        n_features=n_features,
        means=start.means[:, :-1],
        people=start.people,
        solve=lambda free, tol, max_iter: _solve(problem, free, penalty, tol, max_iter),
        log_likelihood=lambda sums: n_people * joint_log_score(problem, sums),
        dispersion=lambda sums: spread_over(sums.misfit, sums.df, problem.first),
        thorough=problem.first.design.n_rows <= MANY_ROWS,
    )


def _check_informative(problem: JointProblem) -> None:
    if problem.first.family.free_shape and len(problem.upper) < 2:
        raise ReleaseError(
            "tables: a family with thresholds needs the bins of a table, got none that still "
            "counts somebody whose outcome is not known; use another family"
        )
    tells = [table.counts.informative or table.means is not None for table in problem.tables]
    if not any(tells) and problem.known is None:
        raise ReleaseError(
            "tables: must distinguish people, got one bin, one value or no count for "
            "everybody in each; publish more bins"
        )


# -- solving ---------------------------------------------------------------------------------------


def solve_joint(
    problem: JointProblem,
    free: FloatArray,
    penalty: FloatArray,
    tol: float,
    max_iter: int,
    *,
    null: FloatArray,
) -> ScoringResult:
    """Solve the added quasi-scores from ``free``, or from slopes of 0 (``null``) if need be.

    Where there is no root to be found, the iterate that explains the tables best is given, but
    never one that explains them worse than slopes of 0 do.
    """
    counted = any(table.counts.informative for table in problem.tables)
    counted = counted or problem.known is not None
    if not counted and problem.first.coordinates.n_nuisance:
        return _solve_means(problem, free, penalty, tol, max_iter)
    result = _solve(problem, free, penalty, tol, max_iter)
    if _is_final(result):
        return result
    again = _solve(problem, null, penalty, tol, max_iter, cautious=True)
    if _is_final(again):
        return again
    pooled = _pooled(problem, null, penalty, tol, max_iter)
    return max(result, again, pooled, key=lambda each: _penalised(problem, each, penalty))


def _solve(
    problem: JointProblem,
    free: FloatArray,
    penalty: FloatArray,
    tol: float,
    max_iter: int,
    *,
    cautious: bool = False,
) -> ScoringResult:
    equations = Equations(
        evaluate=lambda at: joint_sums(problem, at, penalty),
        log_score=lambda sums: joint_log_score(problem, sums),
        coordinates=problem.first.coordinates,
    )
    cap = step_scale(problem.first, free) * (0.25 if cautious else 1.0)
    return solve_equations(equations, free, penalty, cap=cap, tol=tol, max_iter=max_iter)


def _is_final(result: ScoringResult) -> bool:
    """Tell whether there is nothing left to try: interrupted, or a root away from singular S."""
    converged = result.status is Status.CONVERGED and result.sums.spread >= SINGULAR
    return converged or result.status is Status.INTERRUPTED


def _penalised(problem: JointProblem, result: ScoringResult, penalty: FloatArray) -> float:
    """Return the log score per person and table, less the ridge."""
    ridge = 0.5 * float(penalty @ result.free**2) / problem.first.n_people
    return joint_log_score(problem, result.sums) - ridge


def _pooled(
    problem: JointProblem, null: FloatArray, penalty: FloatArray, tol: float, max_iter: int
) -> ScoringResult:
    """Fit level and scale alone, all slopes 0."""
    slopes, held = hold_slopes(problem.first, penalty)
    found = _solve(problem, null, held, tol, max_iter, cautious=True)
    free = np.where(slopes, 0.0, found.free)
    sums = joint_sums(problem, free, penalty)
    return ScoringResult(free, sums, Status.POOLED, found.n_iter, found.path)


def _solve_means(
    problem: JointProblem, free: FloatArray, penalty: FloatArray, tol: float, max_iter: int
) -> ScoringResult:
    """Solve tables of means alone, which do not identify the dispersion: it makes Q = df."""
    first = _solve(problem, free, penalty, tol, max_iter)
    meat, _ = score_variance(problem, first.sums, first.free)
    lost = taken_up(first.sums.information, meat)

    def log_ratio(at: FloatArray) -> float:
        sums = joint_sums(problem, at, penalty)
        return log_misfit(sums.misfit, sums.df - lost)

    return solve_dispersion(
        lambda at: _solve(problem, at, penalty, tol, max_iter),
        log_ratio,
        first.free,
        problem.first.coordinates.n_slopes,
    )


def _without_unlikely_bins(
    problem: JointProblem, result: ScoringResult, penalty: FloatArray, tol: float, max_iter: int
) -> tuple[JointProblem, ScoringResult]:
    """Solve again with the far bins merged that the fit all but rules out, if there are any."""
    if problem.first.family.free_shape or result.status is Status.INTERRUPTED:
        return problem, result
    each = list(zip(problem.tables, result.sums.tables, strict=True))
    merged = [merge_unlikely(t.counts, own.mean[:, : t.counts.n_bins]) for t, own in each]
    if all(counts is None for counts in merged):
        return problem, result
    kept = [counts or table.counts for counts, (table, _) in zip(merged, each, strict=True)]
    problem = problem.with_counts(kept)
    null = Start.of(problem).null()
    return problem, solve_joint(problem, result.free, penalty, tol, max_iter, null=null)


# -- the evidence ridge ----------------------------------------------------------------------------


def _solver(problem: JointProblem, n_known: int, tol: float, max_iter: int) -> Solver:
    """Return how the tables are solved with a ridge: without effects, which come at the end."""
    plain = problem.with_effects([0.0] * len(problem.tables), [None] * len(problem.tables))
    none = np.zeros(problem.first.coordinates.n_free)

    def infer_at(
        shrunk: ScoringResult, penalty: FloatArray, status: Status, failed: bool
    ) -> tuple[LikelihoodFit, ScoringResult]:
        at = plain
        if not failed and shrunk.status is Status.CONVERGED:
            at, shrunk = _with_effects(plain, shrunk, penalty, tol, max_iter)
        return _infer(at, replace(shrunk, status=status), none), shrunk

    return Solver(
        coordinates=problem.first.coordinates,
        slopes=slopes_that_vary(problem.first),
        n_people=problem.first.n_people + n_known,
        null=lambda: _pooled(plain, Start.of(plain).null(), none, tol, max_iter),
        solve=lambda free, penalty: _solve(plain, free, penalty, tol, max_iter),
        dispersion=partial(_dispersion, plain),
        infer=infer_at,
    )


def _dispersion(
    problem: JointProblem, result: ScoringResult, unpenalised: FloatArray
) -> Dispersion:
    """Return the dispersion of all tables, and that of the levels in the one where it is largest.

    Tables of few blocks are left out: by sex, or by age group, a feature is told and not confused
    with the blocks.
    """
    sums, pairs = result.sums, list(zip(problem.tables, result.sums.tables, strict=True))
    left = [own.block_misfit - effects_misfit(own, table.block_variance) for table, own in pairs]
    n_fitted = problem.first.n_fitted
    df = sums.df - n_fitted
    levels = [
        level_dispersion(own, sums.information, unpenalised, n_fitted, table.block_variance)
        for table, own in pairs
        if len(table.counts.n) >= _FEWEST_BLOCKS
    ]
    ratio = float(np.concatenate(left).sum()) / df if df > 0 else 1.0
    return Dispersion(ratio, max(levels, default=1.0))


# -- random intercepts -----------------------------------------------------------------------------


def _with_effects(
    problem: JointProblem, result: ScoringResult, penalty: FloatArray, tol: float, max_iter: int
) -> tuple[JointProblem, ScoringResult]:
    """Solve again with random intercepts of the partitions where they show."""
    variance = [0.0] * len(problem.tables)
    for _ in range(_ROUNDS):
        found = _variances(problem, result.sums, penalty * result.free, variance)
        if np.allclose(found, variance, rtol=_SETTLED, atol=0.0):
            break
        shared = shared_covariance(problem, result.free, found)
        changed = problem.with_effects(found, shared)
        again = _solve(changed, result.free, penalty, tol, max_iter)
        if again.status is Status.INTERRUPTED:
            return problem, replace(result, status=Status.INTERRUPTED)
        if not again.status.converged:
            break
        variance, problem = found, changed
        result = replace(again, n_iter=result.n_iter + again.n_iter)
    return problem, result


def _variances(
    problem: JointProblem, sums: JointSums, pulled: FloatArray, variance: Sequence[float]
) -> list[float]:
    """Return the variance of each partition's intercept, at most one more of them than before.

    The evidence for a further one has to hold against the number of partitions looked at.
    """
    found = list(variance)
    looked_at: list[tuple[float, int, float]] = []
    inverse = solve_scaled(sums.information, np.eye(len(pulled)))
    for t, own in enumerate(sums.tables):
        pulls = Pulls.of(own, sums.information, sums.score + pulled)
        if len(pulls.hold) < _FEWEST_BLOCKS:
            continue
        # what the slopes take up of the pulls: all p degrees of freedom from a single table
        taken = ((pulls.along @ inverse) * pulls.along).sum(axis=1) / pulls.noise
        df = len(pulls.hold) - min(float(taken.sum()), float(problem.first.n_fitted))
        if df < 1:
            continue
        if variance[t] > 0:
            found[t] = pulls.variance(df)
        else:
            looked_at.append((float(chdtrc(df, pulls.misfit(0.0))), t, pulls.variance(df)))
    if looked_at:
        p_value, t, more = min(looked_at, key=lambda each: (each[0], -each[2]))
        if p_value < _LEVEL / len(looked_at):
            found[t] = more
    return found


# -- uncertainty -----------------------------------------------------------------------------------


def taken_up(information: FloatArray, meat: FloatArray) -> float:
    """Return the degrees of freedom that fitting takes from the misfit of all tables, tr(H⁻¹ M).

    With one table M is H, and it is the number of parameters; what several tables say alike, as the
    mean of everybody, is fitted in each of them.
    """
    return float(np.trace(solve_scaled(information, meat)))


def _taken_by_tables(sums: JointSums, meat: FloatArray) -> float:
    """Return what fitting takes from the misfit of the tables, where people are known too.

    With U = U_t + U_o, E Q falls by 2 tr(H⁻¹ M_t) - tr(H_t H⁻¹ M H⁻¹): ``taken_up`` without U_o.
    """
    if sums.known is None:
        return taken_up(sums.information, meat)
    own = sums.known.information
    spread = solve_scaled(sums.information, meat)
    moved = solve_scaled(sums.information, sums.information - own)
    return 2 * taken_up(sums.information, meat - own) - float(np.trace(moved @ spread))


def _infer(problem: JointProblem, result: ScoringResult, penalty: FloatArray) -> LikelihoodFit:
    """Add the uncertainty, and turn free parameters into theta and nuisance parameters."""
    free, sums, first = result.free, result.sums, problem.first
    p, located = len(free), None
    if result.status is Status.CONVERGED and can_test(problem):
        located = location_weights(problem, sums)
    by_people, by_effects = score_variance(problem, sums, free, located)
    found = None
    if located is not None:
        both = by_people + by_effects
        found = specify_joint(problem, sums, free, penalty, located, both)
    by_people, by_effects = by_people[:p, :p], by_effects[:p, :p]
    meat = by_people + by_effects
    unit = np.eye(p)
    bread = solve_scaled(sums.information + np.diag(penalty), unit)
    bare = solve_scaled(sums.information, unit)
    theta, nuisance = first.coordinates.split(free)
    jacobian = first.coordinates.jacobian(free)
    back = first.coordinates.inverse_jacobian(free)
    pairs = list(zip(problem.tables, sums.tables, strict=True))
    misfit = [own.block_misfit - effects_misfit(own, table.block_variance) for table, own in pairs]
    residual = [level_residuals(own, table.block_variance) for table, own in pairs]
    average = [average_effect(own, table.block_variance, table.counts.n) for table, own in pairs]
    informed = [int((np.abs(own.block_scores).sum(axis=1) > 0).sum()) for own in sums.tables]
    counts = _refined_counts(problem, sums, theta, nuisance)
    whole = LikelihoodFit(
        theta=theta,
        nuisance=nuisance,
        covariance=jacobian @ (bread @ meat @ bread) @ jacobian.T,
        information=back.T @ sums.information @ back,
        model_covariance=jacobian @ (bare @ meat @ bare) @ jacobian.T,
        misfit=float(np.concatenate(misfit).sum()),
        df=sums.df - _taken_by_tables(sums, by_people),
        block_misfit=np.concatenate(misfit),
        block_df=np.concatenate([own.block_df for own in sums.tables]),
        block_residual=np.concatenate(residual),
        log_score=joint_log_score(problem, sums),
        status=result.status,
        n_iter=result.n_iter,
        path=result.path,
        counts=counts,
        expected=counts.count,
        block_sd=float(np.sqrt(sum(table.block_variance for table in problem.tables))),
        block_average=float(sum(average)),
        n_blocks=sum(informed),
        means=_means(problem),
        known=None if sums.known is None else back.T @ sums.known.information @ back,
        specification=found,
        location=None if found is None else location_fit(first, free, found),
    )
    slopes = slopes_of(first)
    total = np.maximum(np.diag(bare)[slopes], 1e-300)

    def share(information: FloatArray) -> FloatArray:
        return np.asarray(np.diag(bare @ information @ bare)[slopes] / total)

    tables = tuple(
        replace(
            whole,
            misfit=float(misfit[t].sum()),
            df=float(own.block_df.sum()),
            block_misfit=misfit[t],
            block_df=own.block_df,
            block_residual=residual[t],
            counts=table.counts,
            expected=own.mean[:, : table.counts.n_bins],
            block_sd=float(np.sqrt(table.block_variance)),
            block_average=average[t],
            n_blocks=informed[t],
            means=None if table.means is None else table.means.mean,
            expected_means=expected_means(table, own.mean),
            influence=influence(
                own.block_scores @ bread @ jacobian.T, whole.covariance, len(theta)
            ),
            share=share(own.information),
            specification=None,
            location=None,
        )
        for t, (table, own) in enumerate(pairs)
    )
    known = None if sums.known is None else share(sums.known.information)
    return replace(whole, tables=tables, share=known)


def _means(problem: JointProblem) -> FloatArray | None:
    found = [table.means.mean for table in problem.tables if table.means is not None]
    return np.concatenate(found) if found else None


def _refined_counts(
    problem: JointProblem, sums: JointSums, theta: FloatArray, nuisance: FloatArray
) -> PublishedCounts:
    """Return the counts that the fit expects of everybody in the refined bins."""
    design, family = problem.first.design, problem.first.family
    for table, own in zip(problem.tables, sums.tables, strict=True):
        if table.counts.shared and table.counts.n_bins == len(problem.upper):
            return _everybody(problem, own.mean[:, : len(problem.upper)].sum(axis=0))
    args = family, problem.lower, problem.upper, theta, nuisance
    parts = design.by_block(count_sums, *args, then=lambda _, sums: sums[0].sum(axis=0))
    return _everybody(problem, np.sum(list(parts), axis=0))


def _everybody(problem: JointProblem, count: FloatArray) -> PublishedCounts:
    people, known = np.array([problem.first.design.n_people]), np.ones(1, dtype=bool)
    return PublishedCounts(people, problem.lower, problem.upper, count[None], known)
