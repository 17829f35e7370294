"""A whole matching fit: bounds, starts, solver, and whether the release identifies anything."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unbin._typing import FloatArray
from unbin._watching import Status
from unbin.exceptions import ReleaseError
from unbin.families import BregmanFamily
from unbin.families.base import unweighted
from unbin.matching.bounds import RankBounds, constant_fit, rank_bounds
from unbin.matching.objective import Objective
from unbin.matching.repeated import check_repeatable
from unbin.matching.solvers import SOLVERS, Solution
from unbin.matching.start import block_means_start, random_start
from unbin.release import Release
from unbin.release.units import units_of
from unbin.rows.design import Design, with_rows

_SAME_OBJECTIVE = 0.01
"""Restarts whose objectives differ by less than this share of the null divergence agree."""
_SAME_COEFFICIENTS = 0.05
"""Restarts whose linear predictors differ by more than this share of their spread disagree."""


@dataclass(frozen=True, slots=True)
class MatchingFit:
    """What a matching fit found.

    Attributes
    ----------
    solution : Solution
        The best of all restarts; its status says whether the coefficients are identified.
    z : (n,) or None
        Imputed targets, in the order of X; None where not all rows are in memory.
    spread : float
        Mean of (z - mean)².
    restart_disagreement : float
        The largest relative difference between the linear predictors of restarts that reached the
        same objective; NaN with a single start.
    """

    solution: Solution
    z: FloatArray | None
    spread: float
    restart_disagreement: float


def fit_matching(
    design: Design,
    release: Release,
    family: BregmanFamily,
    *,
    alpha: float,
    solver: str,
    init: str | FloatArray,
    start: FloatArray | None = None,
    n_init: int,
    tol: float,
    max_iter: int,
    rng: np.random.Generator,
) -> MatchingFit:
    """Fit the paper's estimator to a release aligned with the design.

    ``init`` is "block-means", "random" or theta itself; starts after the first are random.
    ``start`` is where a solver was stopped earlier, and takes the place of ``init``.
    """
    check_repeatable(design)
    bounds, units = matching_bounds(release, family), units_of(release, family)
    if not isinstance(init, str):
        init = units.theta_into(init, fit_intercept=design.fit_intercept)
    ridge = design.ridge(alpha)
    inside = bounds.in_units(units).measured(family)
    objective = Objective(design.in_units(units), family, ridge, inside)
    solutions = []
    for k in range(n_init):
        first = init if start is None else start
        theta = _start(first if k == 0 else "random", objective, rng)
        theta[design.fit_intercept :] *= design.varies
        solutions.append(SOLVERS[solver](objective, theta, tol=tol, max_iter=max_iter))
        if solutions[-1].status is Status.INTERRUPTED:
            break
    best = min(solutions, key=lambda solution: solution.value)
    disagreement = _disagreement(objective, solutions, best)
    status = _identification(design, bounds, family, disagreement) or best.status
    best = best.out_of_units(units, fit_intercept=design.fit_intercept)
    z, square = Objective(design, family, ridge, bounds.measured(family)).targets(best.theta)
    spread = square / design.n_people
    return MatchingFit(replace(best, status=status), z, spread, disagreement)


def matching_bounds(release: Release, family: BregmanFamily) -> RankBounds:
    """Return the rank bounds; raise if the release holds what they cannot say, or nothing."""
    if release.means is not None:
        raise ReleaseError(
            "matching: cannot use published means, got a release with some; use AggregatedGLM with "
            "method='likelihood', or leave the means out"
        )
    if release.noise_sd > 0:
        raise ReleaseError(
            "matching: needs exact counts, got a release with noise added; use "
            "AggregatedGLM with method='likelihood'"
        )
    bounds = rank_bounds(release, family.domain)
    if bounds.silent(family.domain).all():
        raise ReleaseError(
            "matching: nothing was published, got bins that every value lies in; pass a finer table"
        )
    return bounds


def release_divergence(
    release: Release, family: BregmanFamily, design: Design, eta: FloatArray
) -> float:
    """Return D(z || mean) / n of new blocks for given predictions, with the best z."""
    check_repeatable(design)
    bounds = rank_bounds(release, family.domain)
    flat = with_rows(design, matrix=np.empty((len(eta), 0)), offset=eta, fit_intercept=False)
    objective = Objective(flat, family, np.zeros(0), bounds)
    return objective.evaluate(np.zeros(0))[0]


def _start(init: str | FloatArray, objective: Objective, rng: np.random.Generator) -> FloatArray:
    if not isinstance(init, str):
        return init
    assert objective.bounds is not None
    start = block_means_start if init == "block-means" else random_start
    return start(objective.design, objective.bounds, objective.family, rng)


def _identification(
    design: Design, bounds: RankBounds, family: BregmanFamily, disagreement: float
) -> Status | None:
    """Recognise the releases from which matching identifies nothing."""
    domain = family.domain
    at_ends = np.isin(bounds.lower, (domain.low, domain.high)) & (bounds.lower == bounds.upper)
    if at_ends.all():
        return Status.SEPARATED
    constant = constant_fit(bounds)
    if constant is not None and design.fit_intercept and not design.has_offset:
        return Status.CONSTANT
    if disagreement > _SAME_COEFFICIENTS:
        return Status.RESTARTS_DISAGREE
    return None


def _disagreement(objective: Objective, solutions: list[Solution], best: Solution) -> float:
    if len(solutions) == 1:
        return float("nan")
    near = best.value + _SAME_OBJECTIVE * objective.null_divergence()
    slopes = [s.theta[objective.design.fit_intercept :] for s in solutions if s.value <= near]
    center = best.theta[objective.design.fit_intercept :]
    matrix = objective.design.gram(best.theta, unweighted)
    shift = int(objective.design.fit_intercept)
    matrix = matrix[shift:, shift:]
    size = float(np.sqrt(center @ matrix @ center))
    apart = max(float(np.sqrt((s - center) @ matrix @ (s - center))) for s in slopes)
    return apart / size if size > 0 else float(apart > 0)
