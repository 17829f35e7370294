"""Where the evidence ridge acts: for predictions, where a design is weak or the plain fit fails.

Predictions then come from the shrunk slopes. Coefficients and their errors are those of one scoring
step without the ridge from there, β̃ + J⁻¹ U(β̃): naive intervals of shrunk slopes do not cover. A
ridge keeps a fit finite, and does not make it one to be trusted: the verdict is the plain fit's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from unbin._linalg import solve_scaled
from unbin._typing import BoolArray, FloatArray
from unbin._watching import Equation, Status
from unbin.families import Family
from unbin.likelihood.data.counts import PublishedCounts, block_targets, representative_values
from unbin.likelihood.data.problem import Problem
from unbin.likelihood.infer.estimate import LikelihoodFit, ShrunkFit, infer
from unbin.likelihood.infer.evidence import (
    Dispersion,
    evidence_ridge,
    observed_information,
    shrink,
)
from unbin.likelihood.infer.heldout import over_effects
from unbin.likelihood.infer.verdicts import grounds, rejected
from unbin.likelihood.solve.dispersion import solve_means
from unbin.likelihood.solve.root import pooled_fit, refine
from unbin.likelihood.solve.scoring import ScoringResult, solve_score
from unbin.likelihood.solve.start import bin_value_sums, step_scale
from unbin.likelihood.thresholds import BLOCKS_PER_SLOPE
from unbin.rows.design import Design

_MISPLACED = "without it slopes predict the levels of blocks worse than slopes of 0"
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
    if not slopes.any() or found.robust or found.status is Status.INTERRUPTED:
        return found
    d = len(design.scale) if n_features is None else n_features
    lost, lost_why, reasons = grounds(design, family, found, d)
    # with fewer blocks slopes meet their levels anyway
    told = found.n_blocks >= BLOCKS_PER_SLOPE * int(design.varies.sum())
    noiseless = found.equation is Equation.COMPOSITE and found.status.converged
    if noiseless and told and _levels_left(design, found) < _NOTHING_LEFT:
        return found  # without noise slopes are told, and their information is not
    failure = _failure(design, found, lost) or (_ROOTLESS if rootless else "")
    found = replace(found, outside=bool(failure) or rejected(found))
    why = failure or ("alpha is 'auto'" if always else "")
    if not why and d == len(design.scale) and not found.levels:
        why = _weakness(result, slopes, Dispersion.of(problem, result, np.zeros(len(slopes))))
    if not why:
        return found
    acting = partial(ShrunkFit, why=why, lost=lost, lost_why=lost_why, reasons=reasons)
    if not (failure or problem.tells_spread):
        return replace(found, shrunk=acting(*_along_the_score(problem, result, slopes)))
    # the way there is without block effects, which come at the end
    plain, none = problem.without_effects(), np.zeros(len(slopes))
    null, floor = pooled_fit(plain, none, tol=tol, max_iter=max_iter), 0.0
    if failure:
        floor = observed_information(design, family, *coordinates.split(null.free))

    def solve(free: FloatArray, penalty: FloatArray) -> ScoringResult:
        if not plain.tells_spread:
            return solve_means(plain, free, penalty, tol=tol, max_iter=max_iter)
        cap = step_scale(plain, free)
        return solve_score(plain, free, penalty, cap=cap, tol=tol, max_iter=max_iter)

    shrunk, ridge = shrink(plain, null, slopes, solve, floor=floor)
    penalty = np.where(slopes, min(ridge, NO_SLOPES * problem.n_people), 0.0)
    at, refined = plain, shrunk
    if not failure and plain.tells_spread:
        at, refined = refine(plain, shrunk, penalty, tol, max_iter)
        if refined.status is not Status.CONVERGED:
            at, refined = plain, shrunk
    equation = found.equation if found.equation is Equation.COMPOSITE else refined.equation
    as_plain = replace(refined, status=found.status, equation=equation)
    bare = infer(at, as_plain, none, n_features=n_features)
    theta, nuisance = coordinates.split(refined.free)
    shrunk_fit = acting(theta, nuisance, ridge / problem.n_people)
    if found.levels or failure in (_MISPLACED, _ROOTLESS):
        return replace(found, shrunk=shrunk_fit)
    if not (lost_why and failure):
        step = solve_scaled(refined.sums.information, refined.sums.score + penalty * refined.free)
        theta, nuisance = coordinates.split(refined.free + step)
    outside = found.outside
    return replace(bare, theta=theta, nuisance=nuisance, shrunk=shrunk_fit, outside=outside)


# -- predictions held to the table -----------------------------------------------------------------


def table_range(counts: PublishedCounts) -> FloatArray:
    """Return the lowest and the highest value of a bin, (2,)."""
    values = representative_values(counts)[counts.valid()]
    return np.array([values.min(), values.max()])


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
    predicted = fitted_mean(design, family, counts, found.for_prediction(), found.block_sd)
    level = family.link(family.interior(np.array([mean, predicted])))
    return float(level[0] - level[1]) if np.isfinite(level).all() else 0.0


def fitted_mean(
    design: Design,
    family: Family,
    counts: PublishedCounts,
    fit: LikelihoodFit,
    block_sd: float,
) -> float:
    """Return the mean of everybody's predicted mean, averaged over block effects."""
    first = np.eye(len(fit.theta))[0]

    def at(level: FloatArray) -> FloatArray:
        theta = fit.theta + (level[0] + fit.block_average) * first
        args = family, counts.lower, counts.upper, theta, fit.nuisance
        people, total = design.total(bin_value_sums, *args, 1)
        return np.array([total.sum() / people.sum()])

    return float(over_effects(at, np.zeros(1), block_sd)[0])


# -- why -------------------------------------------------------------------------------------------


def _failure(design: Design, found: LikelihoodFit, lost: BoolArray) -> str:
    """Say in what way the plain fit failed; empty where it did not."""
    if not found.status.converged:
        return "the fit without it did not converge"
    if (lost & design.varies[: len(lost)]).any():
        return "slopes are not estimable without it"
    if _levels_left(design, found) > 1:
        return _MISPLACED
    return ""


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


def _along_the_score(
    problem: Problem, result: ScoringResult, slopes: BoolArray
) -> tuple[FloatArray, FloatArray, float]:
    """Return theta and nuisance one step with the evidence ridge from the plain root, and alpha.

    Where the dispersion is set by the misfit it would take up what smaller slopes leave.
    """
    sums, free = result.sums, result.free
    phi = Dispersion.of(problem, result, np.zeros(len(free))).phi
    found = evidence_ridge(sums.information, np.zeros(len(free)), free, slopes, phi)
    size = NO_SLOPES * problem.n_people if found is None else found.size
    penalty = np.where(slopes, size, 0.0)
    step = solve_scaled(sums.information + np.diag(penalty), -penalty * free)
    return *problem.coordinates.split(free + step), size / problem.n_people


def _weakness(result: ScoringResult, slopes: BoolArray, spread: Dispersion) -> str:
    """Say that the design is weak, at the root of the plain fit; empty where it is not."""
    none, free = np.zeros(len(result.free)), result.free
    found = evidence_ridge(result.sums.information, none, free, slopes, spread.phi)
    return "the table tells some combination of the slopes poorly" if found and found.weak else ""
