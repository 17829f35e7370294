"""The quasi-score solved by Fisher scoring.

Solve Σ D_bᵀ S_b⁻¹ (c_b - m_b) = n R free for the free parameters, R the ridge (see
:mod:`unbin.likelihood.model.score`). A step is cut until the decrement UᵀJ⁻¹U, the squared distance
to the root in units of standard errors, falls; the first steps are capped. Where blocks are few,
steps are accelerated (Anderson).

References
----------
Anderson, D. G. (1965). Iterative procedures for nonlinear integral equations. *Journal of the ACM*,
12, 547-560.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unbin._linalg import NOTHING, solve_scaled
from unbin._typing import FloatArray
from unbin._watching import Equation, Status, Step, is_watched, stop_after
from unbin.likelihood.data.problem import Problem
from unbin.likelihood.model.score import ScoreSums, log_score, score_sums

_CAPPED_STEPS = 3
_SHORTEST = 1e-3
"""A step cut shorter than this share of its length ends the search."""
_RUN_AWAY = 1.0
"""Steps do not make the counts this much less likely than the start, in nats per person. A scale
that diverges does, and in the limit every derivative, and so the score, is 0."""
_CLOSE = 1e-2
"""A squared distance to the root, in standard errors, where scoring contracts steadily."""
_NEAR = 1e4
"""Times the tolerance, a squared distance at which the information is that of the root."""


@dataclass(frozen=True, slots=True)
class ScoringResult:
    """Where scoring ended: the free parameters, the sums there, and how it went."""

    free: FloatArray
    sums: ScoreSums
    status: Status
    n_iter: int
    path: tuple[float, ...]
    equation: Equation = Equation.SCORE


Evaluate = Callable[[Problem, FloatArray, FloatArray], ScoreSums]
"""Returns a score and its information at some parameters, with a ridge."""


def solve_score(
    problem: Problem,
    free: FloatArray,
    penalty: FloatArray,
    *,
    cap: FloatArray,
    tol: float,
    max_iter: int,
    evaluate: Evaluate = score_sums,
) -> ScoringResult:
    """Solve a penalised quasi-score from ``free``.

    Parameters
    ----------
    cap : (p,)
        Scale of each free parameter: the first steps are at most 1 of these long.
    tol : float
        Stop when UᵀJ⁻¹U, a squared distance in standard errors, is below.
    max_iter : int
        Passes over the rows at most.
    evaluate : callable
        Another score than the quasi-score.
    """
    ridge = np.diag(penalty)
    sums = evaluate(problem, free, penalty)
    step, decrement = _direction(sums, ridge)
    floor = log_score(problem, sums) - _RUN_AWAY
    path, memory = [decrement], _Memory()
    length, n_iter = 1.0, 1
    while decrement > tol and n_iter < max_iter:
        if is_watched() and stop_after(_step(problem, free, sums, decrement, n_iter, tol)):
            return ScoringResult(free, sums, Status.INTERRUPTED, n_iter, tuple(path))
        if n_iter <= _CAPPED_STEPS:
            length = min(length, 1.0 / max(_norm(step / cap), 1e-300))
        move = length * (step if length < 1 else memory.accelerate(free, step, sums.information))
        trial = evaluate(problem, free + move, penalty)
        n_iter += 1
        new_step, new_decrement = _direction(trial, ridge)
        if log_score(problem, trial) < floor:
            new_decrement = np.inf
        if new_decrement < decrement or (n_iter <= _CAPPED_STEPS and new_decrement < 4 * decrement):
            free, sums, step, decrement = free + move, trial, new_step, new_decrement
            length = min(1.0, 4 * length)
            path.append(decrement)
            if decrement < min(_CLOSE, _NEAR * tol) and decrement**2 < tol * path[-2]:
                # the next decrement would be below tol: take the step without another pass
                return ScoringResult(free + step, sums, Status.CONVERGED, n_iter, tuple(path))
        else:
            memory.forget()
            length /= 4
            if length < _SHORTEST:
                break
    status = Status.CONVERGED if decrement <= tol else Status.NOT_CONVERGED
    return ScoringResult(free, sums, status, n_iter, tuple(path))


def _norm(vector: FloatArray) -> float:
    """Return the length of a vector, of any size: a step where S is singular may be huge."""
    largest = float(np.abs(vector).max(initial=0.0))
    return largest * float(np.linalg.norm(vector / largest)) if largest > 0 else 0.0


def _step(
    problem: Problem,
    free: FloatArray,
    sums: ScoreSums,
    decrement: float,
    n_iter: int,
    tol: float,
) -> Step:
    at = np.concatenate(problem.coordinates.split(free))
    return Step(n_iter, -log_score(problem, sums), decrement, tol, at)


class _Memory:
    """Anderson acceleration, for blocks so few that scoring converges slowly."""

    def __init__(self) -> None:
        self.points: list[FloatArray] = []
        self.steps: list[FloatArray] = []

    def forget(self) -> None:
        """Start again from the next step."""
        self.points, self.steps = [], []

    def accelerate(self, point: FloatArray, step: FloatArray, metric: FloatArray) -> FloatArray:
        """Return the move whose combination of past steps is shortest in the metric J."""
        self.points, self.steps = [*self.points[-4:], point], [*self.steps[-4:], step]
        if len(self.steps) < 3:
            return step
        d_step = np.diff(np.array(self.steps), axis=0)
        d_point = np.diff(np.array(self.points), axis=0)
        gram = d_step @ metric @ d_step.T
        gram += 1e-10 * np.trace(gram) * np.eye(len(gram))
        # least squares: steps that do not differ leave nothing to combine
        weight = np.linalg.lstsq(gram, d_step @ metric @ step)[0]
        return np.asarray(step - weight @ (d_point + d_step))


def _direction(sums: ScoreSums, ridge: FloatArray) -> tuple[FloatArray, float]:
    """Return the scoring step and the decrement UᵀJ⁻¹U.

    It is infinite where sums are not finite, and where there is a score but no information.
    """
    information = sums.information + ridge
    finite = np.isfinite(sums.score).all() and np.isfinite(information).all()
    if not finite or (sums.score.any() and np.diag(information).max() <= NOTHING):
        return np.zeros_like(sums.score), np.inf
    step = solve_scaled(information, sums.score)
    return step, float(sums.score @ step)
