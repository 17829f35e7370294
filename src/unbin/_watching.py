"""Watching a fit: solvers report every step, and whoever watches may stop them.

A solver that is stopped keeps its last iterate and says so in its status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from unbin._typing import FloatArray


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
    """

    iteration: int
    objective: float
    distance: float
    goal: float
    parameters: FloatArray | None = None


Watcher = Callable[[Step], bool]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


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
    """Call ``note`` with every step of the fits made inside, beside whoever watches already."""
    before = _watcher.get()

    def both(step: Step) -> bool:
        note(step)
        return before is not None and before(step)

    with watching(both):
        yield


def unwatched() -> AbstractContextManager[None]:
    """Let nobody watch the fits made inside."""
    return watching(None)


def is_watched() -> bool:
    """Tell whether anybody is watching."""
    return _watcher.get() is not None


def stop_after(step: Step) -> bool:
    """Report a step, and tell whether the solver is to stop there."""
    watcher = _watcher.get()
    return watcher is not None and watcher(step)
