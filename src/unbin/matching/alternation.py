"""The paper's alternation with any learner in place of its GLM.

    fit the learner to z, predict, impute the targets z nearest to the predictions (Lemma 3), repeat

The z-step asks nothing of the means but their order and their size, so they may come from anywhere.
Both steps lower D(z || mean) where the learner minimises it exactly and predicts the people it was
fitted to; elsewhere the objective may rise, and the best iterate is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbin._typing import FloatArray, IntArray, KeyArray
from unbin._watching import Status, Step, stop_after, unwatched
from unbin.families import BregmanFamily
from unbin.matching.bounds import RankBounds, constant_fit
from unbin.matching.nearest import nearest_targets
from unbin.matching.repeated import shared_targets

_PATIENCE = 3
"""Steps in a row that may fail to lower the objective: learners that are not exact wobble."""
_SMALLEST_MEAN = 1e-8
"""A learner may predict that a count is 0 or less; its divergence from a count must stay finite."""

Learn = Callable[[FloatArray], tuple[FloatArray, Any]]
"""Fit a learner to targets and return its predictions, and the learner or what stands for it."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The z-step and the objective, for means of any origin.

    Attributes
    ----------
    bounds : RankBounds
    family : BregmanFamily
        Whose divergence is meant.
    key : (n,) uint64
        Ranks rows of equal mean.
    start : (B + 1,) or None
        Rows of the blocks before each block, where rows stand for several people.
    people : (n,) or None
        Those that each row stands for; None where it is one.
    """

    bounds: RankBounds
    family: BregmanFamily
    key: KeyArray
    start: IntArray | None = None
    people: FloatArray | None = None

    def inside(self, mean: FloatArray) -> FloatArray:
        """Return predictions that the divergence is finite for."""
        return np.asarray(mean if np.isinf(self.family.domain.low) else floored(mean))

    def impute(self, mean: FloatArray) -> tuple[FloatArray, float]:
        """Return the targets z nearest to the means that satisfy the release, and D(z || mean) / n.

        Of a row that stands for several people z is the mean of theirs.
        """
        eta, told = self.family.link(mean), (self.bounds, self.family, self.key)
        if self.people is None or self.start is None:
            z = nearest_targets(mean, eta, *told)
            return z, self.family.total_divergence(z, eta, mean) / len(z)
        found = shared_targets(mean, eta, *told, self.start, self.people)
        total = found.divergence(self.family, eta, mean)
        return found.means(len(mean)), total / float(self.people.sum())

    def unidentified(self) -> Status | None:
        """Recognise the releases from which matching identifies nothing."""
        if len(self.bounds.start) == 2:
            return Status.ONE_BLOCK
        return None if constant_fit(self.bounds) is None else Status.CONSTANT


@dataclass(frozen=True, slots=True)
class Alternation:
    """Where an alternation stopped.

    Attributes
    ----------
    learned : object
        What the learner returned at the best iterate.
    z : (n,)
        Targets nearest to its predictions.
    value : float
        The objective there.
    path : tuple of float
        The objective at the start and after each step.
    status : Status
    """

    learned: Any
    z: FloatArray
    value: float
    path: tuple[float, ...]
    status: Status


def alternate(
    learn: Learn, nearest: Nearest, mean: FloatArray, *, scale: float, tol: float, max_iter: int
) -> Alternation:
    """Alternate from given means until the objective stops falling.

    Parameters
    ----------
    learn : callable
    nearest : Nearest
    mean : (n,)
        Where to start, rows block by block.
    scale : float
        The null divergence D(z || average z) / n: a fall of ``tol`` times it counts.
    tol : float
    max_iter : int
        Steps at most.
    """
    mean = nearest.inside(mean)
    z, value = nearest.impute(mean)
    path, waited = [value], 0
    best = Alternation(None, z, float("inf"), (), Status.MAX_ITER)
    for k in range(max_iter):
        with unwatched():  # a step here is a whole fit there
            mean, learned = learn(z)
        mean = nearest.inside(mean)
        z, value = nearest.impute(mean)
        path.append(value)
        fall = (path[0] if k == 0 else best.value) - path[-1]
        waited = 0 if fall > tol * scale else waited + 1
        if path[-1] < best.value:
            best = replace(best, learned=learned, z=z, value=path[-1])
        if stop_after(Step(k + 1, path[-1], max(fall, 0.0) / scale, tol)):
            return replace(best, path=tuple(path), status=Status.INTERRUPTED)
        if waited >= _PATIENCE:
            best = replace(best, status=Status.SETTLED)
            break
    return replace(best, path=tuple(path), status=nearest.unidentified() or best.status)


def floored(mean: FloatArray) -> FloatArray:
    """Return means of counts, which are above 0."""
    return np.maximum(mean, _SMALLEST_MEAN)
