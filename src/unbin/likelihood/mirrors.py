"""Roots on the other side: the same effects between blocks, opposite ones within them.

With contextual effects the slopes of features come from the shape of the blocks' histograms. Where
features are about symmetric that tells the size of a slope much better than its sign, and the
quasi-score has a root for either. The start is made of levels, and leads to the root whose signs
are those between blocks, however unlikely it makes the counts.

So the mirror images of a root are tried, all slopes turned at once and one by one, with contextual
slopes that leave the level of every block where it is. The root under which the counts are
likeliest is the estimate. Another one that is about as likely, outside the interval of a slope,
means that the table does not tell that slope's sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from unbin._typing import BoolArray, FloatArray
from unbin._watching import Status
from unbin.likelihood.location import slopes_of
from unbin.likelihood.problem import Problem
from unbin.likelihood.quasi_score import log_score
from unbin.likelihood.scoring import ScoringResult

_LEAST = 6.6
"""Twice the log likelihood ratio from which on the likelier of two roots is told (1 %)."""
_FAR = 2.0
"""Standard errors of a slope beyond which another root contradicts its interval."""
_ROUNDS = 3
"""A likelier root has mirror images of its own."""

Solve = Callable[[FloatArray], ScoringResult]


def has_mirrors(problem: Problem, result: ScoringResult, n_features: int | None) -> bool:
    """Tell whether a fit has contextual slopes, and histograms by which roots can be compared."""
    contextual = n_features is not None and n_features < len(problem.design.scale)
    compared = problem.order is None and problem.means is None and problem.counts.low is None
    return contextual and compared and result.status is Status.CONVERGED


def likeliest_root(
    problem: Problem, result: ScoringResult, n_features: int, solve: Solve
) -> tuple[ScoringResult, BoolArray]:
    """Return the likeliest root that mirror images lead to, and mark slopes whose sign it is not.

    Parameters
    ----------
    result : ScoringResult
        A root, of slopes of ``n_features`` features and then contextual ones.
    solve : callable
        Solves the quasi-score from some free parameters.

    Returns
    -------
    result : ScoringResult
    unclear : (n_features,)
        Slopes of which a root that is about as likely says the opposite.
    """
    roots, best, n_iter = [result], result, result.n_iter
    for _ in range(_ROUNDS):
        found = [solve(image) for image in _images(problem, best.free, n_features)]
        n_iter += sum(each.n_iter for each in found)
        roots += [each for each in found if each.status is Status.CONVERGED]
        likeliest = max(roots, key=lambda each: log_score(problem, each.sums))
        if likeliest is best:
            break
        best = likeliest
    return replace(best, n_iter=n_iter), _unclear(problem, best, roots, n_features)


def _images(problem: Problem, free: FloatArray, n_features: int) -> Iterator[FloatArray]:
    """Yield mirror images of a root: all slopes turned, then one after the other."""
    slopes = slopes_of(problem)
    n_slopes = slopes.stop - slopes.start
    means = problem.design.block_means[:, :n_slopes]
    turned = [np.ones(n_features, dtype=bool)]
    turned += list(np.eye(n_features, dtype=bool)) if n_features > 1 else []
    for which in turned:
        change = np.zeros(n_slopes)
        change[:n_features] = np.where(which, -2 * free[slopes][:n_features], 0.0)
        moved = means[:, :n_features] @ change[:n_features]
        change[n_features:] = np.linalg.lstsq(means[:, n_features:], -moved)[0]
        image = free.copy()
        image[slopes] += change
        yield image


def _unclear(
    problem: Problem, best: ScoringResult, roots: list[ScoringResult], n_features: int
) -> BoolArray:
    """Mark slopes that a root about as likely as the best one turns, beyond their intervals."""
    sums, start = best.sums, slopes_of(problem).start
    features = slice(start, start + n_features)
    df = float(sums.block_df.sum()) - problem.n_fitted
    dispersion = max(float(sums.block_misfit.sum()) / df, 1.0) if df > 0 else 1.0
    errors = np.sqrt(dispersion * np.maximum(np.diag(np.linalg.pinv(sums.information)), 0.0))
    least = log_score(problem, sums) - 0.5 * _LEAST * dispersion / problem.n_people
    unclear = np.zeros(n_features, dtype=bool)
    for root in roots:
        if log_score(problem, root.sums) >= least:
            far = np.abs(root.free - best.free) > _FAR * errors
            unclear |= (far & (root.free * best.free < 0))[features]
    return unclear
