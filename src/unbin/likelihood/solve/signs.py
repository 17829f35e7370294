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

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from unbin._typing import BoolArray, FloatArray
from unbin._watching import Status
from unbin.likelihood.data.problem import Problem
from unbin.likelihood.model.score import ScoreSums, log_score
from unbin.likelihood.solve.scoring import ScoringResult, solve_score
from unbin.likelihood.solve.start import Blocks, step_scale

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
_MANY_ROWS = 5_000_000
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


@dataclass(frozen=True, slots=True)
class Search:
    """How roots are looked for, and compared.

    Attributes
    ----------
    problem : Problem
    penalty : (p,)
    n_features : int
        The first slopes; further ones are contextual.
    untold : (d,) bool
        Features whose slopes can be moved so that levels hardly move.
    carried : (n_contextual, d)
        The contextual slopes that do to levels what features do.
    """

    problem: Problem
    penalty: FloatArray
    n_features: int
    untold: BoolArray
    carried: FloatArray

    @classmethod
    def of(cls, problem: Problem, penalty: FloatArray, n_features: int) -> Search:
        """Look at the levels of the blocks of all tables."""
        blocks, d = Blocks.of(problem), n_features
        weight = blocks.n / blocks.n.sum()
        means = blocks.means[:, :-1]
        levels = np.sqrt(weight)[:, None] * (means - weight @ means)
        carried = np.asarray(np.linalg.lstsq(levels[:, d:], levels[:, :d], rcond=None)[0])
        left = ((levels[:, :d] - levels[:, d:] @ carried) ** 2).sum(axis=0)
        share = left / np.maximum((levels[:, :d] ** 2).sum(axis=0), 1e-300)
        return cls(problem, penalty, d, np.asarray(share <= _TOLD), carried)

    @property
    def features(self) -> slice:
        """Where the slopes of features are among the free parameters."""
        first = self.problem.slopes.start
        return slice(first, first + self.n_features)

    @property
    def thorough(self) -> bool:
        """Whether to try all starts, and not just all slopes turned at once."""
        return self.problem.design.n_rows <= _MANY_ROWS

    def root(self, result: ScoringResult) -> Root:
        """Return a result with its log likelihood: the mean over tables, which count the same."""
        return Root(result, self.problem.n_people * log_score(self.problem, result.sums))

    def solve(self, free: FloatArray, tol: float, max_iter: int) -> Root:
        """Solve from some free parameters."""
        cap = step_scale(self.problem, free)
        found = solve_score(self.problem, free, self.penalty, cap=cap, tol=tol, max_iter=max_iter)
        return self.root(found)

    def dispersion(self, sums: ScoreSums) -> float:
        """Return Q/df, at least 1: how much more counts vary than the model says."""
        left = sums.df - self.problem.n_fitted
        return max(sums.misfit / left, 1.0) if left > 0 else 1.0

    def moved(self, free: FloatArray, slopes: FloatArray) -> FloatArray:
        """Return free parameters with other slopes of features, levels left where they are."""
        changed, change = free.copy(), slopes - free[self.features]
        changed[self.problem.slopes] += np.concatenate([change, -self.carried @ change])
        return changed


def has_mirrors(problem: Problem, status: Status, n_features: int) -> bool:
    """Tell whether a fit has contextual slopes, and tables by which its roots can be compared."""
    contextual = n_features < len(problem.design.scale)
    compared = (
        t.order is None and t.means is None and t.counts.low is None for t in problem.tables
    )
    known = problem.known is not None  # whose outcomes show the signs of slopes
    return contextual and not known and status is not Status.INTERRUPTED and all(compared)


def likeliest_root(
    problem: Problem,
    result: ScoringResult,
    penalty: FloatArray,
    n_features: int,
    tol: float,
    max_iter: int,
) -> tuple[ScoringResult, BoolArray]:
    """Return the likeliest of the roots that scoring and other starts lead to.

    Also slopes of features, (d,), of which a root that is about as likely says the opposite. A
    root that is hardly likelier than the one that was found does not replace it.
    """
    search = Search.of(problem, penalty, n_features)
    own = search.root(result)
    found = [
        search.solve(each.free, tol, max_iter)
        for each in _distinct(_search(result.free, search), search)
    ]
    roots = [root for root in (own, *found) if root.converged]
    n_iter = result.n_iter + sum(each.result.n_iter for each in found)
    if not roots:
        return replace(result, n_iter=n_iter), np.zeros(n_features, dtype=bool)
    best = max(roots, key=_likelihood)
    if own.converged and not _is_likelier(best, own, search):
        best = own
    return replace(best.result, n_iter=n_iter), _unclear(best, roots, search)


def _search(free: FloatArray, search: Search) -> list[Root]:
    """Return the roots that other starts lead to, the likeliest first."""
    roots: list[Root] = []
    starts, best = [*_images(free, search), *_axes(free, search)], None
    for _ in range(_ROUNDS):
        found = [search.solve(start, _ROUGH, _SCREENED) for start in starts]
        found.sort(key=_likelihood, reverse=True)
        unfinished = [each for each in found if each.result.status is Status.NOT_CONVERGED]
        found += [search.solve(each.free, _ROUGH, _PASSES) for each in unfinished[:_PROMISING]]
        roots += [each for each in found if each.converged]
        roots.sort(key=_likelihood, reverse=True)
        if not roots or roots[0] is best:
            break
        best = roots[0]
        starts = [*_images(best.free, search)]
    return roots


def _likelihood(root: Root) -> float:
    return root.log_likelihood


def _is_likelier(one: Root, other: Root, search: Search) -> bool:
    """Tell whether the counts are likelier under one root than chance would make them."""
    gain = one.log_likelihood - other.log_likelihood
    return 2 * gain > _LEAST * search.dispersion(one.result.sums)


def _distinct(roots: list[Root], search: Search) -> list[Root]:
    """Keep the likeliest of roots that have about the same slopes, and of these the first few."""
    kept: list[Root] = []
    for root in roots:
        size = np.abs(root.free[search.features]).max(initial=0.0)
        apart = [np.abs(root.free - each.free)[search.features].max(initial=0.0) for each in kept]
        if min(apart, default=np.inf) > _SAME * size:
            kept.append(root)
    return kept[:_COMPARED]


def _images(free: FloatArray, search: Search) -> Iterator[FloatArray]:
    """Yield mirror images of free parameters: all slopes turned that can be, then each of them."""
    slopes, can = free[search.features], search.untold
    turned = [can] if can.any() else []
    if search.thorough and can.sum() > 1:
        turned += list(np.eye(len(can), dtype=bool)[can])
    for which in turned:
        yield search.moved(free, np.where(which, -slopes, slopes))


def _axes(free: FloatArray, search: Search) -> Iterator[FloatArray]:
    """Yield free parameters with the strength of all untold slopes on one of them."""
    slopes, can = free[search.features], search.untold
    if can.sum() < 2 or not search.thorough:
        return
    strength = float(np.sqrt((slopes[can] ** 2).sum()))
    for j in np.flatnonzero(can):
        for sign in (1.0, -1.0):
            yield search.moved(free, np.where(can, np.eye(len(can))[j] * sign * strength, slopes))


def _unclear(best: Root, roots: list[Root], search: Search) -> BoolArray:
    """Mark slopes that a root about as likely as the best one turns, beyond their intervals."""
    sums, features = best.result.sums, search.features
    variance = np.diag(np.linalg.pinv(sums.information)) * search.dispersion(sums)
    errors = np.sqrt(np.maximum(variance[features], 0.0))
    unclear = np.zeros(search.n_features, dtype=bool)
    for root in roots:
        ours, theirs = best.free[features], root.free[features]
        if not _is_likelier(best, root, search):
            unclear |= (np.abs(theirs - ours) > _FAR * errors) & (theirs * ours < 0)
    return unclear
