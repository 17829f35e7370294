"""Order statistics, alone or beside counts and means: objectives add.

Counts and means enter by their quadratic form ½ (c - m)ᵀ S⁻¹ (c - m) with S held at its last
value, so that the minimum over the parameters, once S no longer changes, solves the sum of the
quasi-score and the score of the order statistics. A block may have both; they are treated as
independent, and the sandwich over blocks keeps the intervals valid.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from unbin._linalg import bounded_whitening
from unbin._typing import FloatArray
from unbin._watching import Status
from unbin.likelihood.moments import block_moments
from unbin.likelihood.order import order_sums
from unbin.likelihood.problem import Problem
from unbin.likelihood.quasi_score import ScoreSums, score_sums
from unbin.likelihood.scoring import ScoringResult
from unbin.likelihood.statistics import PublishedOrder

_ROUNDS = 4
_SETTLED = 0.02
"""Rounds end when no parameter moves by more than this many standard errors."""
_NEAR = 1e-3
"""A gradient in standard errors that is as good as 0."""
_DIFFERENCE = 1e-3
"""Step of numeric second derivatives, in standard errors."""


def solve_mixed(
    problem: Problem,
    order: PublishedOrder,
    free: FloatArray,
    penalty: FloatArray,
    *,
    tol: float,
    max_iter: int,
) -> ScoringResult:
    """Maximise the likelihood of order statistics together with what else was published.

    Stop when the squared distance to the maximum, in standard errors, is below ``tol``.
    """
    counted = problem.counts.informative or problem.means is not None
    n_iter, status, unwhiten = 0, Status.NOT_CONVERGED, np.eye(len(free))
    for _ in range(_ROUNDS if counted else 1):
        frozen = _covariances(problem, free) if counted else None
        unwhiten = bounded_whitening(_first_information(problem, order, free, penalty, frozen))
        found = _minimise(problem, order, free, penalty, frozen, unwhiten, tol, max_iter)
        moved = float(np.abs(found.x).max(initial=0.0))
        free, n_iter = free + unwhiten @ found.x, n_iter + int(found.nfev)
        # a tolerance below what rounding allows ends the line search, but not far from the maximum
        done = found.success or float(np.abs(found.jac).max(initial=0.0)) <= _NEAR
        status = Status.ORDER if done else Status.NOT_CONVERGED
        if done and (not counted or moved <= _SETTLED):
            break
    return ScoringResult(free, _sums(problem, order, free, penalty, unwhiten), status, n_iter, ())


def _minimise(
    problem: Problem,
    order: PublishedOrder,
    free: FloatArray,
    penalty: FloatArray,
    frozen: FloatArray | None,
    unwhiten: FloatArray,
    tol: float,
    max_iter: int,
) -> OptimizeResult:
    """Minimise the sum of both objectives in whitened coordinates around ``free``."""
    base: float | None = None

    def objective(move: FloatArray) -> tuple[float, FloatArray]:
        nonlocal base
        at = free + unwhiten @ move
        sums = order_sums(problem, order, at)
        value = sums.objective + 0.5 * float(penalty @ at**2)
        gradient = sums.gradient + penalty * at
        if frozen is not None:
            counted = score_sums(problem, at, np.zeros(len(at)), frozen=frozen)
            value += 0.5 * float(counted.block_misfit.sum())
            gradient = gradient - counted.score
        base = value if base is None else base
        return value - base, unwhiten.T @ gradient

    found: OptimizeResult = minimize(
        objective,
        np.zeros(len(free)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 4 * max_iter, "gtol": np.sqrt(tol), "ftol": 1e-15, "maxcor": 20},
    )
    return found


def _covariances(problem: Problem, free: FloatArray) -> FloatArray:
    return np.concatenate([part.covariance for part in block_moments(problem, free)])


def _first_information(
    problem: Problem,
    order: PublishedOrder,
    free: FloatArray,
    penalty: FloatArray,
    frozen: FloatArray | None,
) -> FloatArray:
    """Return a rough information to whiten with: products of the block scores."""
    scores = order_sums(problem, order, free).block_scores
    information = scores.T @ scores + np.diag(penalty)
    if frozen is not None:
        information += score_sums(problem, free, penalty, frozen=frozen).information
    return np.asarray(information)


def _sums(
    problem: Problem,
    order: PublishedOrder,
    free: FloatArray,
    penalty: FloatArray,
    unwhiten: FloatArray,
) -> ScoreSums:
    """Add the order statistics to the sums of the other statistics."""
    sums, here = score_sums(problem, free, penalty), order_sums(problem, order, free)
    return ScoreSums(
        score=sums.score - here.gradient,
        information=sums.information + _observed(problem, order, free, unwhiten),
        block_scores=sums.block_scores + here.block_scores,
        block_misfit=sums.block_misfit + here.block_misfit,
        block_df=sums.block_df + here.block_df,
        block_pull=sums.block_pull,
        block_hold=sums.block_hold,
        block_hidden=sums.block_hidden,
        block_along=sums.block_along,
        mean=sums.mean,
        spread=sums.spread,
    )


def _observed(
    problem: Problem,
    order: PublishedOrder,
    free: FloatArray,
    unwhiten: FloatArray,
) -> FloatArray:
    """Return the second derivatives of the order statistics' objective, by differences."""
    columns = []
    for direction in unwhiten.T:
        up = order_sums(problem, order, free + _DIFFERENCE * direction).gradient
        down = order_sums(problem, order, free - _DIFFERENCE * direction).gradient
        columns.append((up - down) / (2 * _DIFFERENCE))
    information = np.linalg.solve(unwhiten.T, np.array(columns))
    information = 0.5 * (information + information.T)
    values, vectors = np.linalg.eigh(information)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
