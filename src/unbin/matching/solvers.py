"""Two ways to minimise the matching objective: the paper's alternation, and L-BFGS on F.

References
----------
Liu, D. C. and Nocedal, J. (1989). On the limited memory BFGS method for large scale optimization.
*Mathematical Programming*, 45, 503-528.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.optimize import minimize

from unbin._linalg import whitening
from unbin._typing import FloatArray
from unbin._watching import Status, Step, stop_after, unwatched
from unbin.families import Units
from unbin.matching.objective import Objective


class Smooth(Protocol):
    """What L-BFGS needs: a value with its gradient, curvature at the start, and a scale."""

    def evaluate(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and the gradient."""

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the curvature to precondition with."""

    def null_divergence(self) -> float:
        """Return the null divergence, the scale of the objective."""


_RESTARTS = 4
"""How often L-BFGS starts afresh when its line search gives up at a kink."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Where a solver stopped.

    Attributes
    ----------
    theta : (p,)
    value : float
        The objective there.
    relative_gradient : float
        sqrt(g^T H^-1 g / (2 D_null)) at the last re-ranking: the share of the null divergence that
        one more Newton step would still explain, as a square root.
    n_iter : int
    path : tuple of float
        The objective at the start and after each iteration.
    status : Status
    """

    theta: FloatArray
    value: float
    relative_gradient: float
    n_iter: int
    path: tuple[float, ...]
    status: Status

    def out_of_units(self, units: Units, *, fit_intercept: bool) -> Solution:
        """Return the solution in the units of the target; divergences go with their square."""
        square = units.slope**2
        return replace(
            self,
            theta=units.theta_out(self.theta, fit_intercept=fit_intercept),
            value=self.value * square,
            path=tuple(value * square for value in self.path),
        )


@dataclass(frozen=True, slots=True)
class Whitening:
    """Coordinates u in which the Hessian at the start is the identity: theta = anchor + basis u."""

    anchor: FloatArray
    basis: FloatArray
    scale: float

    def relative(self, gradient: FloatArray) -> float:
        """Return the relative norm of a gradient in theta."""
        return float(np.linalg.norm(self.basis.T @ gradient) / self.scale)


def whiten(objective: Smooth, theta: FloatArray) -> Whitening:
    """Precondition once, with the full Hessian at the start."""
    basis = whitening(objective.hessian(theta))
    null = objective.null_divergence()
    return Whitening(theta, basis, float(np.sqrt(2.0 * null)) if null > 0 else 1.0)


def lbfgs(objective: Smooth, theta: FloatArray, *, tol: float, max_iter: int) -> Solution:
    """Minimise F directly with L-BFGS, re-ranking at every trial point."""
    frame = whiten(objective, theta)
    value, gradient = objective.evaluate(theta)
    solution = Solution(theta, value, frame.relative(gradient), 0, (value,), Status.STALLED)
    for _ in range(_RESTARTS):
        if solution.relative_gradient <= tol or solution.n_iter >= max_iter:
            break
        before = solution.value
        solution, gradient = _lbfgs_run(
            objective.evaluate, frame, solution, gradient, tol, max_iter
        )
        if solution.status is Status.INTERRUPTED or before - solution.value <= 1e-12 * before:
            break
        frame = replace(frame, anchor=solution.theta)
    return _with_status(solution, tol, max_iter)


def _lbfgs_run(
    evaluate: Callable[[FloatArray], tuple[float, FloatArray]],
    frame: Whitening,
    start: Solution,
    gradient: FloatArray,
    tol: float,
    max_iter: int,
) -> tuple[Solution, FloatArray]:
    """Run L-BFGS from ``start``, where the gradient is given; return it at the best point too."""
    path = list(start.path)
    best, there = start, gradient

    def fun(u: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best, there
        if not u.any():  # the start, which has been evaluated
            return start.value, frame.basis.T @ gradient
        theta = frame.anchor + frame.basis @ u
        value, here = evaluate(theta)
        if value < best.value:
            relative = frame.relative(here)
            best, there = replace(best, theta=theta, value=value, relative_gradient=relative), here
        return value, frame.basis.T @ here

    stopped = False

    def record(intermediate_result: object) -> None:
        nonlocal stopped
        value = float(intermediate_result.fun)  # type: ignore[attr-defined]
        path.append(value)
        step = Step(len(path) - 1, value, best.relative_gradient, tol, best.theta)
        stopped = stop_after(step)
        if stopped:
            raise StopIteration

    n = frame.basis.shape[1]
    result = minimize(
        fun,
        np.zeros(n),
        jac=True,
        method="L-BFGS-B",
        callback=record,
        options={
            "maxcor": 10,
            "maxiter": max_iter - start.n_iter,
            "maxfun": 10 * max_iter,
            "ftol": 0.0,
            "gtol": tol * frame.scale / np.sqrt(max(n, 1)),
        },
    )
    status = Status.INTERRUPTED if stopped else Status.STALLED
    n_iter = start.n_iter + int(result.nit)
    return replace(best, n_iter=n_iter, path=tuple(path), status=status), there


def alternating(objective: Objective, theta: FloatArray, *, tol: float, max_iter: int) -> Solution:
    """Alternate as the paper does: fit a GLM to z until it converges, impute z, repeat."""
    frame = whiten(objective, theta)
    value, gradient = objective.evaluate(theta)
    path, n_iter, status = [value], 0, Status.STALLED
    while frame.relative(gradient) > tol and n_iter < max_iter:
        glm = objective.held(theta, value)
        with unwatched():  # a step of this solver is a whole fit of that one
            step = lbfgs(glm, theta, tol=max(0.1 * tol, 1e-7), max_iter=max_iter)
        value, gradient = objective.evaluate(step.theta)
        if value > path[-1]:  # rounding at the minimum: the step before was already there
            value, gradient = objective.evaluate(theta)
            break
        theta, n_iter = step.theta, n_iter + 1
        path.append(value)
        if stop_after(Step(n_iter, value, frame.relative(gradient), tol, theta)):
            status = Status.INTERRUPTED
            break
    solution = Solution(theta, value, frame.relative(gradient), n_iter, tuple(path), status)
    return _with_status(solution, tol, max_iter)


SOLVERS = {"lbfgs": lbfgs, "alternating": alternating}
"""Every solver by its name."""


def _with_status(solution: Solution, tol: float, max_iter: int) -> Solution:
    if solution.relative_gradient <= tol:
        return replace(solution, status=Status.MATCHED)
    if solution.n_iter >= max_iter and solution.status is not Status.INTERRUPTED:
        return replace(solution, status=Status.MAX_ITER)
    return solution
