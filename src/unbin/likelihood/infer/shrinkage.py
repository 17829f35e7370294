"""Where the evidence ridge acts: for predictions, where a design is weak or the plain fit fails.

Predictions then come from the shrunk slopes. Estimates and their errors are the plain fit's: naive
intervals of shrunk slopes do not cover. Where that did not converge, or leaves slopes that are not
told, they are those at the shrunk root, one scoring step without the ridge from there if slopes are
told, β̃ + J⁻¹ U(β̃). A ridge keeps a fit finite, and does not make it one to be trusted: the verdict
is the plain fit's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from unbin._linalg import solve_scaled
from unbin._typing import BoolArray, FloatArray
from unbin._watching import Equation, Status
from unbin.families import Family
from unbin.likelihood.data.counts import PublishedCounts, block_targets, representative_values
from unbin.likelihood.data.problem import Problem
from unbin.likelihood.data.tables import looks_counted
from unbin.likelihood.infer.estimate import LikelihoodFit, ShrunkFit, infer
from unbin.likelihood.infer.evidence import (
    Dispersion,
    evidence_ridge,
    observed_information,
    shrink,
)
from unbin.likelihood.infer.heldout import over_effects
from unbin.likelihood.infer.levels import locate
from unbin.likelihood.infer.verdicts import grounds, published_spread
from unbin.likelihood.solve.dispersion import solve_means
from unbin.likelihood.solve.root import pooled_fit, refine
from unbin.likelihood.solve.scoring import ScoringResult, solve_score
from unbin.likelihood.solve.start import bin_value_sums, step_scale
from unbin.likelihood.thresholds import BLOCKS_PER_SLOPE, FAR_BEYOND
from unbin.release import Release
from unbin.rows.design import Design

_MISPLACED = "without it slopes predict the levels of blocks worse than slopes of 0"
_BEYOND = "without it it predicts means far beyond the bins of the table"
_LOUD = 1e100
"""Limit on a square, so that sums stay finite."""
_ROOTLESS = "without it and without block effects there is no fit"
_FITS = 0.05
"""p value of the misfit from which on a family fits."""
_NOTHING_LEFT = 0.01
"""Error of the levels of blocks, over that with slopes of 0, of a fit without noise."""
NO_SLOPES = 1e8
"""Ridge that leaves no slope, in units of one person's information."""


def shrink_predictions(
    problem: Problem,
    found: LikelihoodFit,
    result: ScoringResult,
    *,
    always: bool,
    tol: float,
    max_iter: int,
    n_features: int | None = None,
    rootless: bool = False,
) -> LikelihoodFit:
    """Return the fit with shrunk slopes for predictions, where the evidence ridge is to act.

    Parameters
    ----------
    problem : Problem
    found, result
        The plain fit.
    always : bool
        Whether it acts whatever the design is like.
    tol, max_iter
        Of scoring.
    n_features : int, optional
        Slopes after these are contextual. With these a weak design is no reason: they come with
        slopes of the other sign, whose difference a ridge would take away.
    rootless : bool
        Whether there is a root with block effects only: slopes then stand for what blocks differ
        by, and are no guide to how people do.
    """
    design, family, coordinates = problem.design, problem.family, problem.coordinates
    slopes = np.zeros(coordinates.n_free, dtype=bool)
    slopes[problem.slopes] = design.varies
    if not slopes.any() or found.status is Status.INTERRUPTED:
        return found
    d = len(design.scale) if n_features is None else n_features
    lost, lost_why, reasons = grounds(design, family, found, d)
    # with fewer blocks slopes meet their levels anyway
    told = found.n_blocks >= BLOCKS_PER_SLOPE * int(design.varies.sum())
    noiseless = found.equation is Equation.COMPOSITE and found.status.converged
    if noiseless and told and _levels_left(design, found) < _NOTHING_LEFT:
        return found  # without noise slopes are told, and their information is not
    failure = _failure(design, family, found, lost, reasons)
    if rootless and reasons:
        failure = failure or _ROOTLESS
    why = failure or ("alpha is 'auto'" if always else "")
    along = None if failure else _along_the_score(problem, found, result, slopes)
    if along and not why and d == len(design.scale) and along.weak:
        why = "the table tells some combination of the slopes poorly"
    if not why:
        return found
    acting = partial(ShrunkFit, why=why, lost=lost, lost_why=lost_why, reasons=reasons)
    if along and not (found.levels or problem.tells_spread):
        return replace(found, shrunk=acting(*coordinates.split(along.free), along.alpha))
    # the way there is without block effects, which come at the end
    plain, none = problem.without_effects(), np.zeros(len(slopes))
    null, floor = pooled_fit(plain, none, tol=tol, max_iter=max_iter), 0.0
    if along and found.levels:
        penalty = np.where(slopes, along.alpha * problem.n_people, 0.0)
        start = along.free if along.alpha < NO_SLOPES else null.free
        free, _, there = locate(problem, start, penalty)
        free = free if there else start
        return replace(found, shrunk=acting(*coordinates.split(free), along.alpha))
    if failure:
        floor = observed_information(design, family, *coordinates.split(null.free))

    def solve(free: FloatArray, penalty: FloatArray) -> ScoringResult:
        if not plain.tells_spread:
            return solve_means(plain, free, penalty, tol=tol, max_iter=max_iter)
        cap = step_scale(plain, free)
        return solve_score(plain, free, penalty, cap=cap, tol=tol, max_iter=max_iter)

    shrunk, ridge = shrink(plain, null, slopes, solve, floor=floor)
    penalty = np.where(slopes, min(ridge, NO_SLOPES * problem.n_people), 0.0)
    predicts = shrunk.free
    if not failure and plain.tells_spread:
        _, refined = refine(plain, shrunk, penalty, tol, max_iter)
        predicts = refined.free if refined.status is Status.CONVERGED else predicts
    shrunk_fit = acting(*coordinates.split(predicts), ridge / problem.n_people)
    if found.status.converged and not lost_why:
        return replace(found, shrunk=shrunk_fit)
    equation = found.equation if found.equation is Equation.COMPOSITE else shrunk.equation
    as_plain = replace(shrunk, status=found.status, equation=equation)
    bare, free = infer(plain, as_plain, none, n_features=n_features), shrunk.free
    if not lost_why:
        free = free + solve_scaled(shrunk.sums.information, shrunk.sums.score + penalty * free)
    theta, nuisance = coordinates.split(free)
    return replace(bare, theta=theta, nuisance=nuisance, shrunk=shrunk_fit)


# -- the intercept ---------------------------------------------------------------------------------


def held_to_level(
    design: Design, family: Family, found: LikelihoodFit, releases: Sequence[Release]
) -> LikelihoodFit:
    """Return a fit with the mean of the table, where it is from levels or has to have a ridge."""
    shrunk, counts = found.shrunk, found.counts
    if not counts.informative:
        return found
    # bins of a family of counts end at whole numbers already
    whole = not family.domain.integer and all(map(looks_counted, releases))
    counts = replace(counts, whole=whole)

    def moved(theta: FloatArray, nuisance: FloatArray) -> FloatArray:
        at = replace(found, theta=theta, nuisance=nuisance)
        return np.asarray(theta + level_shift(design, family, at, counts) * np.eye(len(theta))[0])

    if shrunk is not None and (found.levels or shrunk.reasons or shrunk.lost_why):
        shrunk = replace(shrunk, theta=moved(shrunk.theta, shrunk.nuisance))
    theta = moved(found.theta, found.nuisance) if found.levels else found.theta
    return replace(found, theta=theta, shrunk=shrunk)


def level_shift(
    design: Design, family: Family, found: LikelihoodFit, counts: PublishedCounts
) -> float:
    """Return what brings the mean that a fit predicts to that of the table, on the link's scale.

    A family that does not have the shape of the outcome puts the mean far from where the bins have
    it. Exact for an identity or log link without effects. 0 where the family fits: its mean is then
    a better one than that of the bins' middles.
    """
    if not design.fit_intercept or not counts.shared or family.free_shape:
        return 0.0
    if found.goodness.p_value > _FITS:
        return 0.0
    targets = block_targets(counts, found.first.means if len(found.tables) == 1 else None)
    told, people = targets.known, counts.n
    mean = float(people[told] @ targets.mean[told] / people[told].sum())
    predicted = fitted_mean(design, family, counts, found)
    level = family.link(family.interior(np.array([mean, predicted])))
    return float(level[0] - level[1]) if np.isfinite(level).all() else 0.0


def fitted_mean(
    design: Design,
    family: Family,
    counts: PublishedCounts,
    fit: LikelihoodFit,
) -> float:
    """Return the mean of everybody's predicted mean, averaged over block effects."""
    first = np.eye(len(fit.theta))[0]

    def at(level: FloatArray) -> FloatArray:
        theta = fit.theta + (level[0] + fit.block_average) * first
        args = family, counts.lower, counts.upper, theta, fit.nuisance
        people, total = design.total(bin_value_sums, *args, 1)
        return np.array([total.sum() / people.sum()])

    return float(over_effects(at, np.zeros(1), fit.block_sd)[0])


# -- why -------------------------------------------------------------------------------------------


def _failure(
    design: Design,
    family: Family,
    found: LikelihoodFit,
    lost: BoolArray,
    reasons: Sequence[str],
) -> str:
    """Say in what way the plain fit failed; empty where it did not."""
    if not found.status.converged:
        return "the fit without it did not converge"
    if (lost & design.varies[: len(lost)]).any():
        return "slopes are not estimable without it"
    if _levels_left(design, found) > 1:
        return _MISPLACED
    if reasons and _beyond(design, family, found) > FAR_BEYOND:
        return _BEYOND
    return ""


def _beyond(design: Design, family: Family, found: LikelihoodFit) -> float:
    """Return how far predicted means lie beyond all bins, over the variance of the outcome.

    The mean square; 0 for a family that has no means of its own.
    """
    counts, spread = found.counts, published_spread(found)
    if family.free_shape or not (design.fit_intercept and counts.informative and spread):
        return 0.0
    values = representative_values(counts)[counts.valid()]

    def excess(eta: FloatArray) -> FloatArray:
        mean = over_effects(family.inverse_link, eta, found.block_sd)
        return np.minimum((mean - np.clip(mean, values.min(), values.max())) ** 2, _LOUD)

    total = float(design.gram(found.theta, excess)[0, 0])
    return total / design.n_people / spread[1] if spread[1] > 0 else 0.0


def _levels_left(design: Design, found: LikelihoodFit) -> float:
    """Return the squared error of the levels of blocks over that with slopes of 0.

    Above 1 slopes are read off the shape of histograms, by a family that does not have it; near 0
    features tell everything. NaN where levels are not told.
    """
    counts, expected = found.counts, found.first.expected
    exact = counts.informative and counts.shared and counts.low is None
    if not exact or not found.alone or design.has_offset:
        return float("nan")
    n, count = counts.n[:, None], counts.count * counts.known[:, None]
    values = representative_values(counts)
    values = values - (count * values).sum() / max(float(count.sum()), 1.0)
    pooled = n * counts.known[:, None] * count.sum(axis=0) / max(float(count.sum()), 1.0)
    gaps = [
        float(((values * (count - each)).sum(axis=1) ** 2 / counts.n).sum())
        for each in (expected * counts.known[:, None], pooled)
    ]
    return gaps[0] / gaps[1] if gaps[1] > 0 else float("nan")


@dataclass(frozen=True, slots=True)
class _Along:
    """One step with the evidence ridge from a root, and whether the design is weak there."""

    free: FloatArray
    alpha: float
    weak: bool


def _along_the_score(
    problem: Problem, found: LikelihoodFit, result: ScoringResult, slopes: BoolArray
) -> _Along:
    """Take a step with the evidence ridge from the root that is shown.

    Where the dispersion is set by the misfit it would take up what smaller slopes leave. Of slopes
    from levels it is where their score is solved from.
    """
    coordinates, none = problem.coordinates, np.zeros(len(slopes))
    information, free = result.sums.information, result.free
    phi = Dispersion.of(problem, result, none).phi
    if found.levels:
        free = coordinates.join(found.theta, found.nuisance)
        jacobian = coordinates.jacobian(free)
        information = jacobian.T @ found.information @ jacobian
        own, by_model = np.diag(found.covariance), np.diag(found.model_covariance)
        told = by_model > 0
        phi = max(1.0, float(np.mean(own[told] / by_model[told])))
    ridge = evidence_ridge(information, none, free, slopes, phi)
    size = NO_SLOPES * problem.n_people if ridge is None else ridge.size
    penalty = np.where(slopes, size, 0.0)
    step = solve_scaled(information + np.diag(penalty), -penalty * free)
    weak = ridge is not None and ridge.weak
    return _Along(free + step, size / problem.n_people, weak)
