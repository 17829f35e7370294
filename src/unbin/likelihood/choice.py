"""Choosing a family, a ridge and contextual effects by blocks held out of the fit.

Every family predicts the same published counts, so their predictive log scores Σ c log(m/n) on
held-out blocks can be compared. Among candidates that are within one standard error of the best (of
the difference, over blocks) the simplest is taken, the one-standard-error rule: the family listed
first, the larger ridge; and the largest ridge unless the best beats it by two standard errors.
Contextual effects are taken when they raise the score. A choice that is interrupted is made among
the candidates scored by then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from unbin._blocks import deal_blocks
from unbin._typing import FloatArray, IntArray
from unbin._watching import Status
from unbin.exceptions import FitInterruptedError, ParameterError
from unbin.families import Family, get_family
from unbin.likelihood.counts import PublishedCounts
from unbin.likelihood.fit import solve
from unbin.likelihood.heldout import count_sums
from unbin.likelihood.problem import Problem, make_problem, ridge_penalty
from unbin.likelihood.start import starting_point
from unbin.likelihood.statistics import looks_counted, lowest_end, published_counts
from unbin.release import Release
from unbin.release.units import in_units, units_of
from unbin.rows.design import Design

RIDGES = (0.0, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0, 100.0)
"""Ridges tried, in units of the median variance of the features over that of a gaussian target;
the last leaves no slope."""
_TOL = 1e-3
_MAX_ITER = 40
_CLEAR = 2.0
"""Standard errors by which slopes have to beat the largest ridge."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Held-out scores of the candidates.

    Attributes
    ----------
    family, alpha, contextual : tuple
        The candidates.
    score : (n,)
        Mean predictive log score of the held-out counts per person; larger is better.
    error : (n,)
        Standard error of the difference to the best candidate.
    chosen : int
    stopped : bool
        Whether the choice was interrupted, and there are candidates that were not scored.
    """

    family: tuple[str, ...]
    alpha: FloatArray
    contextual: tuple[bool, ...]
    score: FloatArray
    error: FloatArray
    chosen: int
    stopped: bool = False

    def columns(self) -> dict[str, Any]:
        """Return the table as columns."""
        return {
            "family": list(self.family),
            "alpha": self.alpha,
            "contextual": list(self.contextual),
            "score": self.score,
            "standard_error": self.error,
            "chosen": np.arange(len(self.score)) == self.chosen,
        }


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model to be tried: a family with a ridge, with or without contextual columns."""

    family: Family
    alpha: float
    contextual: bool


def candidate_families(release: Release, n_trials: int) -> list[Family]:
    """Return the families that can have produced a release, simplest first."""
    names: list[str] = []
    if n_trials > 1:
        names += ["binomial", "beta-binomial"]
    elif looks_counted(release):
        names += ["poisson", "negative-binomial"]
    else:
        names += ["gaussian", "gamma"] if lowest_end(release) > 0 else ["gaussian"]
    counts = published_counts(release, get_family("gaussian").domain, smallest=1)
    if counts.shared and release.means is None:
        names += ["ordinal"]
    return [get_family(name, n_trials) for name in names]


def choose(
    designs: dict[bool, Design],
    release: Release,
    families: list[Family],
    alphas: tuple[float, ...] | None,
    alpha: float,
    *,
    n_splits: int = 5,
) -> tuple[Candidate, Selection]:
    """Compare candidates on held-out blocks.

    Parameters
    ----------
    designs : dict
        The design without (False) and, if it is a candidate, with (True) contextual columns.
    release : Release
    families : list of Family
        Simplest first.
    alphas : tuple of float or None
        Ridges to try, in units as those of ``RIDGES``; None keeps ``alpha``.
    alpha : float
    n_splits : int
    """
    counts = published_counts(release, get_family("gaussian").domain)
    n_blocks = int(counts.known.sum()) if counts.informative else 0
    if n_blocks < 2 * n_splits:
        raise ParameterError(
            f"alpha, family: choosing needs at least {2 * n_splits} blocks with published counts "
            f"to hold some out, got {n_blocks}; name the family and alpha"
        )
    fold = deal_blocks(release.n, n_splits)
    variance = float(np.median(next(iter(designs.values())).scale ** 2))
    candidates: list[Candidate] = []
    scores: list[FloatArray] = []
    stopped = False
    for family, (contextual, design) in product(families, designs.items()):
        unit = variance / units_of(release, family).slope ** 2
        ridges = [alpha] if alphas is None else [unit * ridge for ridge in alphas]
        try:
            found = _path_scores(design, release, family, ridges, fold)
        except (KeyboardInterrupt, FitInterruptedError):
            if not candidates:
                raise
            stopped = True
            break
        candidates += [Candidate(family, ridge, contextual) for ridge in ridges]
        scores += list(found)
    people = float(release.n.sum())
    chosen, error = _choose(candidates, np.array(scores))
    selection = Selection(
        tuple(candidate.family.name for candidate in candidates),
        np.array([candidate.alpha for candidate in candidates]),
        tuple(candidate.contextual for candidate in candidates),
        np.array(scores).sum(axis=1) / people,
        error / people,
        chosen,
        stopped,
    )
    return candidates[chosen], selection


def _path_scores(
    design: Design, release: Release, family: Family, ridges: list[float], fold: IntArray
) -> FloatArray:
    """Return the held-out score of every block for every ridge, shape (n_ridges, B).

    A path runs from the largest ridge down, each fit started where the one before ended.
    """
    units = units_of(release, family)
    design, release = design.in_units(units), in_units(release, units)
    problem = make_problem(design, release, family)
    common = published_counts(release, get_family("gaussian").domain)
    result = np.empty((len(ridges), len(release)))
    for k in range(int(fold.max()) + 1):
        held_out = fold == k
        counts = replace(problem.counts, known=problem.counts.known & ~held_out)
        training = replace(problem, counts=counts)
        free = starting_point(training)
        for r in np.argsort(ridges)[::-1]:
            penalty = ridge_penalty(training, ridges[r] * units.slope**2)
            found = solve(training, free, penalty, _TOL, _MAX_ITER)
            if found.status is Status.INTERRUPTED:
                raise FitInterruptedError(
                    "fit: stopped while families and ridges were compared on held-out blocks, got "
                    "no estimate yet; name the family and alpha to skip that"
                )
            free = found.free
            result[r, held_out] = _scores(problem, free, common)[held_out]
    return result


def _scores(problem: Problem, free: FloatArray, common: PublishedCounts) -> FloatArray:
    """Return the log score of every block, in the bins that all families share."""
    theta, nuisance = problem.coordinates.split(free)
    counts, edges = problem.counts, (problem.counts.lower, problem.counts.upper)
    parts = problem.design.by_block(
        count_sums, problem.family, *edges, theta, nuisance, then=lambda _, sums: sums[0]
    )
    expected, count = np.concatenate(list(parts)), counts.count
    if counts.shared and common.shared and counts.n_bins > common.n_bins:
        last = np.searchsorted(counts.upper, common.upper)  # the bins that end where common ones do
        expected = np.diff(np.cumsum(expected, axis=1)[:, last], axis=1, prepend=0)
        count = np.diff(np.cumsum(count, axis=1)[:, last], axis=1, prepend=0)
        valid = np.broadcast_to(counts.known[:, None], count.shape)
    else:
        valid = counts.valid()
    share = np.maximum(expected, 1e-300) / counts.n[:, None]
    return np.asarray(np.where(valid, count * np.log(share), 0.0).sum(axis=1))


def _choose(candidates: list[Candidate], scores: FloatArray) -> tuple[int, FloatArray]:
    """Return the candidate to take, and the standard errors of the differences to the best."""
    best = int(np.argmax(scores.sum(axis=1)))
    contextual = np.array([candidate.contextual for candidate in candidates])
    chosen = [
        _simplest_near_best(candidates, scores, np.flatnonzero(contextual == value))
        for value in np.unique(contextual)
    ]
    winner = max(chosen, key=lambda k: float(scores[k].sum()))
    return winner, _error(scores[best] - scores)


def _simplest_near_best(candidates: list[Candidate], scores: FloatArray, which: IntArray) -> int:
    """Return the simplest of some candidates within one standard error of the best of them.

    Where no ridge does clearly better than the largest, held-out blocks support no slope, and the
    largest is taken.
    """
    best = int(which[np.argmax(scores[which].sum(axis=1))])
    alike = [k for k in which if candidates[k].family.name == candidates[best].family.name]
    null = max(alike, key=lambda k: candidates[k].alpha)
    gain = (scores[best] - scores[null])[None]
    if float(gain.sum()) <= _CLEAR * float(_error(gain)[0]):
        return int(null)
    gap = scores[best] - scores[which]
    near = which[gap.sum(axis=1) <= _error(gap)]
    names = list(dict.fromkeys(candidate.family.name for candidate in candidates))
    return int(
        min(near, key=lambda k: (names.index(candidates[k].family.name), -candidates[k].alpha))
    )


def _error(gap: FloatArray) -> FloatArray:
    """Return the standard error of sums over blocks."""
    return np.asarray(np.sqrt(gap.shape[1]) * gap.std(axis=1, ddof=1))
