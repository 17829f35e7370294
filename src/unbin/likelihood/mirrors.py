"""Roots on the other side: the same effects between blocks, opposite ones within them.

With contextual effects the slopes of features come from the shape of the blocks' histograms. Where
features are about symmetric that tells the size of a slope much better than its sign, and the
quasi-score has a root for either. The start is made of levels, and leads to the root whose signs
are those between blocks, however unlikely it makes the counts.

So the mirror images of a root are tried, all slopes turned at once and one by one, with contextual
slopes that leave the level of every block where it is; a slope that the levels of another table
tell has no such image. The root under which the counts are likeliest is the estimate. Another one
that is about as likely, outside the interval of a slope, means that its sign is not told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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
_ROUNDS = 3
"""A likelier root has mirror images of its own."""


@dataclass(frozen=True, slots=True)
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
        Solves the quasi-score from some free parameters.
    log_likelihood : callable
        Of the counts, at the sums of a result, in nats.
    dispersion : callable
        Their misfit beside what is expected of it, at least 1.
    """

    slopes: slice
    n_features: int
    means: FloatArray
    people: IntArray
    solve: Callable[[FloatArray], ScoringResult]
    log_likelihood: Callable[[Any], float]
    dispersion: Callable[[Any], float]


def has_mirrors(tables: Sequence[Problem], status: Status, n_features: int | None) -> bool:
    """Tell whether a root has contextual slopes, and tables by which it can be compared."""
    contextual = n_features is not None and n_features < len(tables[0].design.scale)
    compared = (t.order is None and t.means is None and t.counts.low is None for t in tables)
    return contextual and status is Status.CONVERGED and all(compared)


def spread_over(misfit: float, df: float, problem: Problem) -> float:
    """Return Q/df, at least 1: how much more counts vary than the model says."""
    left = df - problem.n_fitted
    return max(misfit / left, 1.0) if left > 0 else 1.0


def likeliest_root(result: ScoringResult, sides: Sides) -> tuple[ScoringResult, BoolArray]:
    """Return the likeliest root that mirror images of one lead to.

    Also slopes of features, (d,), of which another one that is about as likely says the opposite.
    """
    roots, best, n_iter = [result], result, result.n_iter
    for _ in range(_ROUNDS):
        found = [sides.solve(image) for image in _images(best.free, sides)]
        n_iter += sum(each.n_iter for each in found)
        roots += [each for each in found if each.status is Status.CONVERGED]
        likeliest = max(roots, key=lambda each: sides.log_likelihood(each.sums))
        if likeliest is best:
            break
        best = likeliest
    return replace(best, n_iter=n_iter), _unclear(best, roots, sides)


def _images(free: FloatArray, sides: Sides) -> Iterator[FloatArray]:
    """Yield mirror images of a root: all slopes turned that can be, then each of them."""
    d, weight = sides.n_features, sides.people / sides.people.sum()
    centred = np.sqrt(weight)[:, None] * (sides.means - weight @ sides.means)
    moved = centred[:, :d] * (-2 * free[sides.slopes][:d])
    held = np.linalg.lstsq(centred[:, d:], -moved)[0]  # contextual slopes, one column per feature
    left = ((moved + centred[:, d:] @ held) ** 2).sum(axis=0)
    can = left <= _TOLD * (moved**2).sum(axis=0)
    singles = list(np.eye(d, dtype=bool)[can])
    for turned in singles if len(singles) < 2 else [can, *singles]:
        image = free.copy()
        change = np.concatenate([-2 * free[sides.slopes][:d] * turned, held @ turned])
        image[sides.slopes] += change
        yield image


def _unclear(best: ScoringResult, roots: list[ScoringResult], sides: Sides) -> BoolArray:
    """Mark slopes that a root about as likely as the best one turns, beyond their intervals."""
    dispersion = sides.dispersion(best.sums)
    variance = dispersion * np.diag(np.linalg.pinv(best.sums.information))
    features = slice(sides.slopes.start, sides.slopes.start + sides.n_features)
    errors = np.sqrt(np.maximum(variance[features], 0.0))
    least = sides.log_likelihood(best.sums) - 0.5 * _LEAST * dispersion
    unclear = np.zeros(sides.n_features, dtype=bool)
    for root in roots:
        ours, theirs = best.free[features], root.free[features]
        if sides.log_likelihood(root.sums) >= least:
            unclear |= (np.abs(theirs - ours) > _FAR * errors) & (theirs * ours < 0)
    return unclear
