"""Fit a GLM to published statistics: data, model, root, uncertainty, verdict.

What any tables published of the same people is stacked to one vector with one covariance, and its
quasi-score is solved (:mod:`unbin.likelihood.model.score`). One table is the case in which groups
are its blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unbin._typing import FloatArray, IntArray
from unbin._watching import Status
from unbin.exceptions import ParameterError, ReleaseError
from unbin.families import Family, Units
from unbin.likelihood.data.layout import Plan
from unbin.likelihood.data.problem import KnownPeople, Problem, make_problem, ridge_penalty
from unbin.likelihood.data.tables import looks_counted
from unbin.likelihood.infer.estimate import LikelihoodFit, at_location, infer
from unbin.likelihood.infer.shrinkage import held_to_level, shrink_predictions
from unbin.likelihood.infer.specification import UNTESTED, Test, context_test, testable
from unbin.likelihood.infer.verdicts import drowned, family_rejected, shape_rejects
from unbin.likelihood.solve.effects import solve_with_effects
from unbin.likelihood.solve.root import (
    effects_first,
    hold_slopes,
    near_root,
    refine,
    solve,
    without_unlikely_bins,
)
from unbin.likelihood.solve.scoring import ScoringResult
from unbin.likelihood.solve.signs import has_mirrors, likeliest_root
from unbin.likelihood.solve.start import starting_point
from unbin.likelihood.thresholds import FEW_WITH_EFFECTS
from unbin.release import Release
from unbin.release.units import in_units, units_of
from unbin.rows.design import Design


def fit_likelihood(
    design: Design,
    releases: Sequence[Release],
    family: Family,
    *,
    codes: IntArray | None = None,
    plan: Plan | None = None,
    clusters: IntArray | None = None,
    people: KnownPeople | None = None,
    alpha: float | str | None = 0.0,
    start: FloatArray | None = None,
    tol: float = 1e-6,
    max_iter: int = 50,
    n_features: int | None = None,
    robust: bool | None = None,
) -> LikelihoodFit:
    """Estimate the coefficients of people from what was published about them.

    Parameters
    ----------
    design : Design
        Rows laid out in crossed cells; of a single table in its blocks.
    releases : sequence of Release
        Aligned: all sizes known.
    family : Family
    codes, plan
        The blocks of cells in each table, and how tables are stacked (``arrange``); left out for a
        single table.
    clusters : (S, C), optional
        The larger blocks that cells are in, by which errors are.
    people : KnownPeople, optional
        Whose outcome is known; no table counts them.
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
    robust : bool, optional
        Give the root of the location score: from the blocks' levels, not the shape of their
        histograms. None: where tests call for it.

    Returns
    -------
    LikelihoodFit
    """
    units = units_of(releases, family)
    scaled = [in_units(release, units) for release in releases]
    known = None if people is None else _in_units(people, units, family, releases)
    problem = make_problem(
        design.in_units(units),
        scaled,
        family,
        codes=codes,
        plan=plan,
        clusters=clusters,
        people=known,
    )
    _check(problem, robust=bool(robust))
    fixed = 0.0 if alpha is None or isinstance(alpha, str) else alpha
    penalty = ridge_penalty(problem, fixed * units.slope**2)
    if start is None:
        free = starting_point(problem)
    else:
        n_theta = problem.coordinates.n_theta
        free = problem.coordinates.join(start[:n_theta], start[n_theta:])
    result = solve(problem, free, penalty, tol, max_iter)
    rootless, unclear = False, None
    if problem.tells_spread:
        problem, result = without_unlikely_bins(problem, result, penalty, tol, max_iter)
        if n_features is not None and has_mirrors(problem, result.status, n_features):
            signs = problem, result, penalty, n_features
            result, unclear = likeliest_root(*signs, tol, max_iter)
        if result.status in (Status.NOT_CONVERGED, Status.POOLED):
            rootless = not near_root(result)
            problem, result = effects_first(problem, result, penalty, tol, max_iter)
    problem, result = refine(problem, result, penalty, tol, max_iter)
    context = None
    if n_features is not None and n_features < len(design.scale) and testable(problem):
        context = _test_context(problem, result, penalty, n_features, tol, max_iter)
    found = infer(problem, result, penalty, n_features=n_features)
    found = replace(found, context=context, unclear=unclear)
    if penalty.any() and result.status is Status.CONVERGED:
        bare = _unpenalised(problem, result, tol, max_iter, n_features)
        bare = bare and replace(bare, context=context, unclear=unclear)
        found = replace(found, unpenalised=bare)
    if found.specification is not None and robust is not False:
        why = "robust=True asks for it" if robust else _why_levels(problem, found.tested)
        moved = at_location(problem, found, result, penalty, why) if why else found
        found = moved if moved.status.converged or robust else found
    if alpha is None or isinstance(alpha, str):
        found = shrink_predictions(
            problem,
            found,
            result,
            always=alpha is not None,
            tol=tol,
            max_iter=max_iter,
            n_features=n_features,
            rootless=rootless,
        )
    if family.free_shape and len(releases) > 1:
        whole = any(looks_counted(release) for release in releases)
        found = replace(found, counts=replace(found.counts, whole=whole))
    found = found.out_of_units(units, releases, fit_intercept=design.fit_intercept)
    return held_to_level(design, family, found, releases)


def _in_units(
    people: KnownPeople, units: Units, family: Family, releases: Sequence[Release]
) -> KnownPeople:
    """Return known people for a target in other units, on the side of a bin that belongs to it."""
    known = people.in_units(units)
    if family.free_shape and releases[0].histogram.closed == "left":
        known = replace(known, values=np.nextafter(known.values, np.inf))
    return known


def _check(problem: Problem, *, robust: bool) -> None:
    if not any(table.informative for table in problem.tables) and problem.known is None:
        who = "release" if len(problem.tables) == 1 else "tables"
        raise ReleaseError(
            f"{who}: must distinguish people, got one bin, one value or no count for everybody; "
            "publish more bins"
        )
    if robust and not testable(problem):
        raise ParameterError(
            "robust: takes rows that are all of the people, and tables that are not too many to be "
            "weighed together, got a sample, or large tables that cross; leave it out"
        )


def _why_levels(problem: Problem, fit: LikelihoodFit) -> str:
    """Say why slopes are to be those of the levels of blocks alone; empty if they are not.

    Where levels and shapes tell different slopes, and the family has been found wrong, levels are
    right if it is right in the mean. If it has not, blocks differ for reasons of their own: levels
    are then further off. Those of one table do not tell effects within blocks from contextual ones.
    Where tables cross the groups the test rests on the model's covariance, and is only a reason not
    to trust the fit. Where a single table has few blocks, with effects, the full score has roots of
    both signs, each with a small standard error; levels say how little is told.
    """
    tests, d = fit.specification, len(problem.design.scale)
    if tests is None or fit.context is not None:
        return ""
    if fit.n_blocks < FEW_WITH_EFFECTS and drowned(problem.design, problem.family, fit):
        return "so few blocks with effects do not tell the sign of slopes by shapes"
    rejects = np.isfinite(tests.shape.df_residual) and shape_rejects(problem.design, fit, d)
    if not (rejects and family_rejected(fit)):
        return ""
    return (
        "the family is wrong, and shapes tell other slopes (shape test, p = "
        f"{tests.shape.p_value:.2g})"
    )


def _unpenalised(
    problem: Problem, result: ScoringResult, tol: float, max_iter: int, n_features: int | None
) -> LikelihoodFit | None:
    """Return the fit without the ridge that ``result`` has, to be tested; None of none."""
    none = np.zeros(len(result.free))
    reached = solve(problem, result.free, none, tol, max_iter)
    problem, reached = refine(problem, reached, none, tol, max_iter)
    if reached.status is not Status.CONVERGED:
        return None
    return infer(problem, reached, none, n_features=n_features)


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
    context, held = hold_slopes(problem, penalty, n_features)
    null = problem.without_effects()
    reached = solve(null, np.where(context, 0.0, result.free), held, tol, max_iter)
    if reached.status is Status.CONVERGED:
        null, reached = solve_with_effects(null, reached, held, tol, max_iter)
    if reached.status is not Status.CONVERGED:
        return UNTESTED
    sums = reached.sums
    score = sums.score + held * reached.free
    return context_test(null, reached.free, sums.information, score, n_features)
