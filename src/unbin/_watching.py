"""Watching a fit: solvers report every step, and a watcher may stop them.

A solver that is stopped keeps its last iterate and says so in its status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import Enum

from unbin._typing import FloatArray


@dataclass(frozen=True, slots=True)
class Stage:
    """Which of several fits a step belongs to, as when candidates are compared.

    Attributes
    ----------
    name : str
        Of the candidate.
    place : float
        Candidates done, those in parts included.
    total : int
        Candidates there are.
    """

    name: str
    place: float
    total: int

    def at(self, share: float) -> Stage:
        """Return the stage with a share of its candidate done."""
        return replace(self, place=self.place + share)


@dataclass(frozen=True, slots=True)
class Step:
    """Where a solver stands.

    Attributes
    ----------
    iteration : int
    objective : float
        What is minimised, per person, in the solver's own units.
    distance, goal : float
        How far from the solution the solver thinks it is, and where it will stop.
    parameters : (p,) or None
        The iterate, in the solver's own units; a fit can start from it. None where there is none.
    stage : Stage or None
        Where the fit is one of several.
    """

    iteration: int
    objective: float
    distance: float
    goal: float
    parameters: FloatArray | None = None
    stage: Stage | None = None


Watcher = Callable[[Step], bool]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)
_stage: ContextVar[Stage | None] = ContextVar("stage", default=None)


@contextmanager
def watching(watcher: Watcher | None) -> Iterator[None]:
    """Call ``watcher`` with every step of the fits made inside; they stop when it returns True."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


@contextmanager
def noting(note: Callable[[Step], None]) -> Iterator[None]:
    """Call ``note`` with every step of the fits made inside, in addition to any watcher."""
    before = _watcher.get()

    def both(step: Step) -> bool:
        note(step)
        return before is not None and before(step)

    with watching(both):
        yield


@contextmanager
def in_stage(stage: Stage) -> Iterator[None]:
    """Say with every step of the fits made inside which of several they are."""
    token = _stage.set(stage)
    try:
        yield
    finally:
        _stage.reset(token)


def unwatched() -> AbstractContextManager[None]:
    """Let nobody watch the fits made inside."""
    return watching(None)


def is_watched() -> bool:
    """Tell whether anybody is watching."""
    return _watcher.get() is not None


def stop_after(step: Step) -> bool:
    """Report a step, and tell whether the solver is to stop there."""
    watcher = _watcher.get()
    return watcher is not None and watcher(replace(step, stage=_stage.get()))


# -- how fits end ----------------------------------------------------------------------------------


class Status(Enum):
    """How a fit ended; the value is the sentence the user reads."""

    # likelihood
    CONVERGED = "The fit converged."
    NOT_CONVERGED = (
        "Scoring stopped before the quasi-score was solved; raise max_iter, or add a ridge with "
        "alpha."
    )
    POOLED = (
        "No slopes were found that explain the published table better than slopes of 0, so these "
        "are given: the same mean for everybody."
    )

    # matching, and observed targets
    MATCHED = "converged: after re-ranking the gradient is below the tolerance"
    SETTLED = "converged: fitting and imputing once more no longer lowers the objective"
    OBSERVED = "converged: the targets were observed, so the learner was fitted to them once"
    MAX_ITER = "not converged: max_iter was reached first; raise max_iter, or tol"
    STALLED = (
        "not converged: no step lowers the objective, but the gradient is above the tolerance; "
        "ranks change at every step, so try another init"
    )
    CONSTANT = (
        "not estimable: one constant satisfies every published statistic, so predictions that are "
        "the same for everybody fit perfectly; matching needs a finer table"
    )
    SEPARATED = (
        "not estimable: every published target lies at an end of the family's domain, so "
        "matching separates the people perfectly and only the ridge alpha bounds the slopes"
    )
    RESTARTS_DISAGREE = (
        "not estimable: restarts reach the same objective with different coefficients; matching "
        "needs more blocks, or blocks that differ more"
    )
    ONE_BLOCK = (
        "not estimable: with a single block any order of the people satisfies the release; "
        "matching needs blocks that differ"
    )

    # all of them
    INTERRUPTED = "not converged: the fit was stopped; the best iterate so far is kept"

    @property
    def converged(self) -> bool:
        """Whether the estimate solves its equations."""
        return self in _CONVERGED

    @property
    def identified(self) -> bool:
        """False where matching does not tell the coefficients."""
        return self not in _UNIDENTIFIED


_CONVERGED = {Status.CONVERGED, Status.MATCHED, Status.SETTLED, Status.OBSERVED}
_UNIDENTIFIED = {
    Status.CONSTANT,
    Status.SEPARATED,
    Status.RESTARTS_DISAGREE,
    Status.ONE_BLOCK,
}


class Equation(Enum):
    """What the likelihood solved; the value is what the user reads."""

    SCORE = "the quasi-score of the published statistics"
    COMPOSITE = "the composite likelihood, as the features determine almost everybody's bin"
    EXACT = "the likelihood of the published counts, exact in blocks of at most 30 people"
