"""Contrasts and variances of effects together: Fisher scoring, and scoring of REML.

A step of the contrasts minimises the quadratic form of the residuals with their covariances held,
Σ r_bᵀ V_b⁻¹ r_b + deviance of known people + prior, and is halved until that falls; at the same
time log variances take a step of restricted maximum likelihood, shrunk towards their mean over the
groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unbin._linalg import solve_scaled
from unbin._typing import BoolArray, FloatArray
from unbin._watching import Status, Step, is_watched, stop_after
from unbin.categories.problem import CategoryProblem, Prior
from unbin.categories.scores import Sums, score_sums

_FIRST_VARIANCE = 0.02
_RANGE = -12.0, 1.0
"""Of log variances."""
_SPREAD = 1.0
"""Standard deviation of log variances of groups around their mean."""
_HALVINGS = 6
_SETTLED = 1e-3
"""Change of log variances below which they have settled."""
_OVERSHOT, _SHORTEST = 0.1, 1 / 8
"""A step back that is as large, of the squared distance before, shortens the next ones, at most to
this share."""
_CLOSE = 1e-2
"""Squared distance to the root, in standard errors, within which every step is taken."""


@dataclass(frozen=True, slots=True)
class Root:
    """Where scoring ended.

    Attributes
    ----------
    gamma : (L, P)
    variance : (G,)
        s_g.
    prior : Prior
        As it was at the end.
    sums : Sums
    status : Status
    n_iter : int
        Passes over the rows.
    path : tuple of float
        The squared distance to the root, in standard errors, at each step.
    """

    gamma: FloatArray
    variance: FloatArray
    prior: Prior
    sums: Sums
    status: Status
    n_iter: int
    path: tuple[float, ...]

    def covariance(self) -> FloatArray:
        """Return (J + prior)⁻¹, (L P, L P)."""
        return bread(self.sums, self.prior)


def bread(sums: Sums, prior: Prior) -> FloatArray:
    """Return the inverse of the information with the prior."""
    whole = sums.information + prior.of_all()
    return solve_scaled(whole, np.eye(len(whole)))


def solve(
    problem: CategoryProblem,
    gamma: FloatArray,
    prior: Prior,
    *,
    effects: bool = True,
    variance: FloatArray | None = None,
    tuned: Callable[[Sums, FloatArray], Prior] | None = None,
    tol: float,
    max_iter: int,
) -> Root:
    """Solve the quasi-score from ``gamma``.

    Parameters
    ----------
    effects : bool
        Whether there are random effects, whose variances are estimated.
    variance : (G,), optional
        Where these start.
    tuned : callable, optional
        Returns the prior for the sums at some contrasts, where it is estimated too.
    tol : float
        Stop when the squared distance to the root, in standard errors, is below.
    max_iter : int
        Passes over the rows at most.
    """
    n_groups = problem.groups.n
    first = _FIRST_VARIANCE if effects else 0.0
    variance = np.full(n_groups, first) if variance is None else variance
    sums, n_iter, path = score_sums(problem, gamma, variance), 1, [np.inf]
    length, before_last = 1.0, np.zeros(gamma.size)
    free = effects & _has_pairs(sums)
    variance = np.where(free, variance, 0.0)
    while True:
        prior = prior if tuned is None else tuned(sums, gamma)
        covariance = bread(sums, prior)
        slope = sums.score + prior.pull(gamma).ravel()
        step = covariance @ slope
        decrement = float(slope @ step)
        path.append(decrement)
        back = float(slope @ before_last) < 0 and decrement > _OVERSHOT * path[-2]
        length, before_last = max(length / 2, _SHORTEST) if back else min(2 * length, 1.0), step
        logs = np.zeros(n_groups)
        if free.any():
            logs = length * _log_step(sums, covariance, variance, free)
        settled = np.abs(logs).max(initial=0.0) < _SETTLED
        if decrement < tol and settled:
            status = Status.CONVERGED
            break
        if n_iter >= max_iter or not np.isfinite(decrement):
            status = Status.NOT_CONVERGED
            break
        if is_watched() and stop_after(_step(problem, sums, gamma, decrement, n_iter, tol)):
            status = Status.INTERRUPTED
            break
        step = length * step.reshape(gamma.shape)
        step = step / max(1.0, float(np.abs(step).max(initial=0.0)))
        before = sums.form(sums.inverses) + prior.form(gamma)
        variance = variance * np.exp(logs)
        for _ in range(_HALVINGS):
            trial = score_sums(problem, gamma + step, variance)
            n_iter += 1
            after = trial.form(sums.inverses) + prior.form(gamma + step)
            if after <= before or decrement < _CLOSE:
                break
            step = step / 2
        gamma, sums = gamma + step, trial
    return Root(gamma, variance, prior, sums, status, n_iter, tuple(path[1:]))


def _has_pairs(sums: Sums) -> BoolArray:
    """Mark groups with two people in some block: others tell no variance."""
    return np.asarray(np.trace(sums.first.variance, axis1=2, axis2=3).sum(axis=0) > 0)


def _log_step(
    sums: Sums, covariance: FloatArray, variance: FloatArray, free: BoolArray
) -> FloatArray:
    """Return a step of REML scoring for the log variances, (G,)."""
    first = sums.first
    x = np.einsum("bac,bc->ba", first.inverse, first.residual)
    fitted = first.weighted @ covariance @ first.weighted.swapaxes(1, 2)
    left = first.inverse - fitted - x[:, :, None] * x[:, None, :]
    slope = -0.5 * variance * np.einsum("bac,bgca->g", left, first.variance)
    turned = first.inverse[:, None] @ first.variance
    fisher = 0.5 * np.einsum("bgac,bhca->gh", turned, turned)
    fisher *= np.outer(variance, variance)
    some = np.flatnonzero(free)
    logs = np.log(np.maximum(variance[some], 1e-300))
    centring = (np.eye(len(some)) - 1 / len(some)) / _SPREAD**2
    slope = slope[some] - centring @ logs
    curvature = fisher[np.ix_(some, some)] + centring + 1e-3 * np.eye(len(some))
    step = np.zeros(len(variance))
    moved = np.clip(np.linalg.solve(curvature, slope), -1.0, 1.0)
    step[some] = np.clip(logs + moved, *_RANGE) - logs
    return step


def _step(
    problem: CategoryProblem,
    sums: Sums,
    gamma: FloatArray,
    decrement: float,
    n_iter: int,
    tol: float,
) -> Step:
    objective = -problem.counts.log_score(sums.first.mean.sum(axis=1))
    return Step(n_iter, objective, decrement, tol, gamma.ravel())
