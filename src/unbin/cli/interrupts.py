"""Ctrl-C during a fit: the first one keeps the last iterate, the second one gives up."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbin._watching import Stage, Step
    from unbin.estimator import AggregatedGLM


@contextmanager
def watched(show: Callable[[str], None]) -> Iterator[None]:
    """Show every step of the fits made inside, and stop them at the first Ctrl-C."""
    from unbin._watching import watching

    progress = _Progress(show)
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        with watching(progress.step):
            yield
        return
    before = signal.signal(signal.SIGINT, progress.interrupt)
    try:
        with watching(progress.step):
            yield
    finally:
        signal.signal(signal.SIGINT, before)


def was_interrupted(model: AggregatedGLM) -> bool:
    """Tell whether a fit was stopped before it converged, or had compared all candidates."""
    return bool(model.status_.name == "INTERRUPTED") or chose_early(model)


def chose_early(model: AggregatedGLM) -> bool:
    """Tell whether the choice among candidates was stopped, and the best so far fitted."""
    return model.selection_ is not None and bool(model.selection_.stopped)


class _Progress:
    """Says where a fit stands, and remembers whether it is to stop."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self.show, self.stopping = show, False
        self.start: tuple[float, float] | None = None
        self.last = 0
        self.began: float | None = None

    def interrupt(self, *_: Any) -> None:
        """Stop at the next step; a second time, at once."""
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = True
        self.show("stopping after this step; Ctrl-C again gives up")

    def step(self, step: Step) -> bool:
        """Take a report; return whether the fit is to stop."""
        if not self.stopping:
            left = self._seconds_left(step) if step.stage is None else self._of_all(step.stage)
            text = f"iteration {step.iteration}, objective {step.objective:.6g}"
            if step.stage is not None:
                which = f"candidate {int(step.stage.place) + 1} of {step.stage.total}"
                text = f"comparing {step.stage.name}, {which}: {text}"
            self.show(text if left is None else f"{text}, about {left:.0f} s left")
        return self.stopping

    def _of_all(self, stage: Stage) -> float | None:
        """Take as long for each candidate that is left as for those that are done."""
        now = perf_counter()
        if self.began is None:
            self.began = now
        done = now - self.began
        return done * (stage.total / stage.place - 1) if stage.place > 0 and done > 0 else None

    def _seconds_left(self, step: Step) -> float | None:
        """Go on at the rate at which the distance has fallen so far, on a log scale."""
        now = perf_counter()
        if not (0 < step.distance < math.inf) or step.goal <= 0:
            return None
        height = math.log(step.distance / step.goal)
        if self.start is None or step.iteration <= self.last:  # another solve has begun
            self.start, self.last = (now, height), step.iteration
            return None
        self.last = step.iteration
        began, high = self.start
        fallen = high - height
        return None if fallen <= 0 else max((now - began) * height / fallen, 0.0)
