"""Roots of other signs: the same effects between blocks, other ones within them.

With contextual effects the slopes of features come from the shape of the blocks' histograms. Where
features are about symmetric, or much alike, that tells how strong all of them are together much
better than which of them is, and with which sign: the quasi-score has several roots. The start is
made of levels, and leads to the root whose signs are those between blocks, however unlikely it
makes the counts.

So scoring starts again from mirror images of a root, all slopes turned at once and one by one, and
with the whole strength given to a single feature, one after the other and with either sign, always
with contextual slopes that leave the level of every block where it is; a slope that the levels of
another table tell stays. A root under which the counts are clearly likelier becomes the estimate.
Another one that is about as likely, outside the interval of a slope, means that its sign is not
told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from unbin._typing import BoolArray, FloatArray, IntArray
from unbin._watching import Status
from unbin.likelihood.problem import Problem
from unbin.likelihood.scoring import ScoringResult

_LEAST = 6.6
"""Twice the log likelihood ratio from which on the likelier of two roots is told (1 %)."""
_FAR = 2.0
"""Standard errors of a slope beyond which another root contradicts its interval."""
_TOLD = 0.1
"""Share of a turned slope's levels, squared, that contextual slopes may leave unexplained."""
_SAME = 0.1
"""Share of the largest slope by which roots differ that are not the same."""
_COMPARED = 3
_ROUNDS = 3
"""A likelier root has mirror images of its own."""
_ROUGH = 1e-2
"""Tolerance of roots that are looked for."""
_SCREENED, _PASSES = 4, 20
"""Passes over the rows from every start, and then from those that promise most."""
_PROMISING = 6
MANY_ROWS = 5_000_000
"""Rows above which all slopes are turned at once, and that is all: a pass takes long."""


@dataclass(frozen=True, slots=True)
class Root:
    """Where scoring ended, and the log likelihood of the counts there, in nats."""

    result: ScoringResult
    log_likelihood: float

    @property
    def free(self) -> FloatArray:
        """The free parameters."""
        return self.result.free

    @property
    def converged(self) -> bool:
        """Whether it is a root."""
        return self.result.status is Status.CONVERGED


@dataclass(frozen=True)
class Sides:
    """How roots are looked for, and compared.

    Attributes
    ----------
    slopes : slice
        Of the free parameters; first those of features, then contextual ones.
    n_features : int
    means : (B, n_slopes)
        Block means of the columns, of the blocks of all tables.
    people : (B,)
    solve : callable
        Solves the quasi-score from some free parameters, to a tolerance in at most so many passes.
    log_likelihood : callable
        Of the counts, at the sums of a result, in nats.
    dispersion : callable
        Their misfit beside what is expected of it, at least 1.
    thorough : bool
        Whether to try all starts, and not just all slopes turned at once.
    """

    slopes: slice
    n_features: int
    means: FloatArray
    people: IntArray
    solve: Callable[[FloatArray, float, int], ScoringResult]
    log_likelihood: Callable[[Any], float]
    dispersion: Callable[[Any], float]
    thorough: bool = True

    @property
    def features(self) -> slice:
        """Where the slopes of features are among the free parameters."""
        return slice(self.slopes.start, self.slopes.start + self.n_features)

    def root(self, result: ScoringResult) -> Root:
        """Return a result with its log likelihood."""
        return Root(result, self.log_likelihood(result.sums))

    def moved(self, free: FloatArray, slopes: FloatArray) -> FloatArray:
        """Return free parameters with other slopes of features, levels left where they are."""
        changed, change = free.copy(), slopes - free[self.features]
        changed[self.slopes] += np.concatenate([change, -self._carried @ change])
        return changed

    @cached_property
    def untold(self) -> BoolArray:
        """Features whose slopes can be moved so that levels hardly move, (d,)."""
        levels, d = self._levels, self.n_features
        left = levels[:, :d] - levels[:, d:] @ self._carried
        share = (left**2).sum(axis=0) / np.maximum((levels[:, :d] ** 2).sum(axis=0), 1e-300)
        return np.asarray(share <= _TOLD)

    @cached_property
    def _levels(self) -> FloatArray:
        """The block means of columns about their means, the more people the heavier."""
        weight = self.people / self.people.sum()
        return np.asarray(np.sqrt(weight)[:, None] * (self.means - weight @ self.means))

    @cached_property
    def _carried(self) -> FloatArray:
        """The contextual slopes, (n_contextual, d), that do to levels what features do."""
        levels, d = self._levels, self.n_features
        return np.asarray(np.linalg.lstsq(levels[:, d:], levels[:, :d])[0])


def has_mirrors(tables: Sequence[Problem], status: Status, n_features: int) -> bool:
    """Tell whether a fit has contextual slopes, and tables by which its roots can be compared."""
    contextual = n_features < len(tables[0].design.scale)
    compared = (t.order is None and t.means is None and t.counts.low is None for t in tables)
    return contextual and status is not Status.INTERRUPTED and all(compared)


def spread_over(misfit: float, df: float, problem: Problem) -> float:
    """Return Q/df, at least 1: how much more counts vary than the model says."""
    left = df - problem.n_fitted
    return max(misfit / left, 1.0) if left > 0 else 1.0


def likeliest_root(
    result: ScoringResult, sides: Sides, tol: float, max_iter: int
) -> tuple[ScoringResult, BoolArray]:
    """Return the likeliest of the roots that scoring and other starts lead to.

    Also slopes of features, (d,), of which a root that is about as likely says the opposite. A
    root that is hardly likelier than the one that was found does not replace it.
    """
    own = sides.root(result)
    others = _distinct(_search(result.free, sides), sides)
    found = [sides.solve(each.free, tol, max_iter) for each in others]
    roots = [root for root in (own, *map(sides.root, found)) if root.converged]
    n_iter = result.n_iter + sum(each.n_iter for each in found)
    if not roots:
        return replace(result, n_iter=n_iter), np.zeros(sides.n_features, dtype=bool)
    best = max(roots, key=_likelihood)
    if own.converged and not _is_likelier(best, own, sides):
        best = own
    return replace(best.result, n_iter=n_iter), _unclear(best, roots, sides)


def _search(free: FloatArray, sides: Sides) -> list[Root]:
    """Return the roots that other starts lead to, the likeliest first."""
    roots: list[Root] = []
    starts, best = [*_images(free, sides), *_axes(free, sides)], None
    for _ in range(_ROUNDS):
        found = [sides.root(sides.solve(start, _ROUGH, _SCREENED)) for start in starts]
        found.sort(key=_likelihood, reverse=True)
        unfinished = [each for each in found if each.result.status is Status.NOT_CONVERGED]
        found += [
            sides.root(sides.solve(each.free, _ROUGH, _PASSES)) for each in unfinished[:_PROMISING]
        ]
        roots += [each for each in found if each.converged]
        roots.sort(key=_likelihood, reverse=True)
        if not roots or roots[0] is best:
            break
        best = roots[0]
        starts = [*_images(best.free, sides)]
    return roots


def _likelihood(root: Root) -> float:
    return root.log_likelihood


def _is_likelier(one: Root, other: Root, sides: Sides) -> bool:
    """Tell whether the counts are likelier under one root than chance would make them."""
    gain = one.log_likelihood - other.log_likelihood
    return 2 * gain > _LEAST * sides.dispersion(one.result.sums)


def _distinct(roots: list[Root], sides: Sides) -> list[Root]:
    """Keep the likeliest of roots that have about the same slopes, and of these the first few."""
    kept: list[Root] = []
    for root in roots:
        size = np.abs(root.free[sides.features]).max(initial=0.0)
        apart = [np.abs(root.free - each.free)[sides.features].max(initial=0.0) for each in kept]
        if min(apart, default=np.inf) > _SAME * size:
            kept.append(root)
    return kept[:_COMPARED]


def _images(free: FloatArray, sides: Sides) -> Iterator[FloatArray]:
    """Yield mirror images of free parameters: all slopes turned that can be, then each of them."""
    slopes, can = free[sides.features], sides.untold
    turned = [can] if can.any() else []
    if sides.thorough and can.sum() > 1:
        turned += list(np.eye(len(can), dtype=bool)[can])
    for which in turned:
        yield sides.moved(free, np.where(which, -slopes, slopes))


def _axes(free: FloatArray, sides: Sides) -> Iterator[FloatArray]:
    """Yield free parameters with the strength of all untold slopes on one of them."""
    slopes, can = free[sides.features], sides.untold
    if can.sum() < 2 or not sides.thorough:
        return
    strength = float(np.sqrt((slopes[can] ** 2).sum()))
    for j in np.flatnonzero(can):
        for sign in (1.0, -1.0):
            yield sides.moved(free, np.where(can, np.eye(len(can))[j] * sign * strength, slopes))


def _unclear(best: Root, roots: list[Root], sides: Sides) -> BoolArray:
    """Mark slopes that a root about as likely as the best one turns, beyond their intervals."""
    sums, features = best.result.sums, sides.features
    variance = np.diag(np.linalg.pinv(sums.information)) * sides.dispersion(sums)
    errors = np.sqrt(np.maximum(variance[features], 0.0))
    unclear = np.zeros(sides.n_features, dtype=bool)
    for root in roots:
        ours, theirs = best.free[features], root.free[features]
        if not _is_likelier(best, root, sides):
            unclear |= (np.abs(theirs - ours) > _FAR * errors) & (theirs * ours < 0)
    return unclear
