"""Choosing a family, a ridge and contextual effects by blocks held out of the fit.

Every family predicts the same published counts, so their predictive log scores Σ c log(m/n) on
held-out blocks can be compared. Among candidates that are within one standard error of the best (of
the difference, over blocks) the simplest is taken, the one-standard-error rule: the family listed
first, the larger ridge; and the largest ridge unless the best beats it by two standard errors.
Contextual effects are taken when they raise the score. A choice that is interrupted is made among
the candidates scored by then.

The most flexible family is tried first, and one that falls far behind the best so far is not tried
on the blocks that are left (Maron and Moore's racing): a family that cannot fit takes longest. Nor
is a ridge that falls far behind others of its family.
Fits start from those of their neighbours: of other blocks, and of the next larger ridge.

References
----------
Maron, O. and Moore, A. W. (1994). Hoeffding races: accelerating model selection search for
classification and function approximation. *Advances in Neural Information Processing Systems*, 6.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from unbin._blocks import deal_tables
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin._watching import Stage, Status, in_stage
from unbin.exceptions import FitInterruptedError, ParameterError
from unbin.families import Family, get_family
from unbin.likelihood.data.counts import PublishedCounts
from unbin.likelihood.data.layout import Plan
from unbin.likelihood.data.problem import KnownPeople, Problem, make_problem, ridge_penalty
from unbin.likelihood.data.tables import (
    holds_zero_one,
    looks_counted,
    lowest_end,
    published_counts,
)
from unbin.likelihood.model.moments import expected_statistics
from unbin.likelihood.solve.root import solve_quickly
from unbin.likelihood.solve.start import starting_point
from unbin.release import Release
from unbin.release.units import in_units, units_of
from unbin.rows.design import Design

RIDGES = (0.0, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0, 100.0)
"""Ridges tried, in units of the median variance of the features over that of a gaussian target;
the last leaves no slope."""
_TOL = 1e-3
_MAX_ITER = 15
_CLEAR = 2.0
"""Standard errors by which slopes have to beat the largest ridge."""
_BEHIND = 5.0
"""Standard errors behind the best other at which a family is given up, or a ridge behind the best
ridge."""
_ENOUGH = 20
"""Blocks held out before a ridge is given up alone: the errors of fewer are a guess."""
_OUTRANKED = 3.5
"""Standard deviations of the signed-rank statistic at which a family is too."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Held-out scores of the candidates.

    Attributes
    ----------
    family, alpha, contextual : tuple
        The candidates.
    score : (n,)
        Mean predictive log score of the held-out counts per person; larger is better. Of a
        candidate that was given up, of the blocks that were held out by then.
    error : (n,)
        Standard error of the difference to the best candidate, on the same blocks.
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


def candidate_families(tables: Sequence[Release], n_trials: int) -> list[Family]:
    """Return the families that can have produced all tables, simplest first."""
    names: list[str] = []
    if n_trials == 1 and all(holds_zero_one(release) for release in tables):
        return [get_family("binomial")]  # with two bins ordinal is the same model
    if n_trials > 1:
        names += ["binomial", "beta-binomial"]
    elif all(looks_counted(release) for release in tables):
        names += ["poisson", "negative-binomial"]
    else:
        positive = min(lowest_end(release) for release in tables) > 0
        names += ["gaussian", "gamma"] if positive else ["gaussian"]
    domain = get_family("gaussian").domain
    shared = all(published_counts(each, domain, smallest=1).shared for each in tables)
    if shared and all(release.means is None for release in tables):
        names += ["ordinal"]
    return [get_family(name, n_trials) for name in names]


def choose(
    designs: dict[bool, Design],
    tables: Sequence[Release],
    families: list[Family],
    alphas: tuple[float, ...] | None,
    alpha: float,
    *,
    known: Mapping[bool, KnownPeople] | None = None,
    codes: IntArray | None = None,
    plan: Plan | None = None,
    n_splits: int = 5,
) -> tuple[Candidate, Selection]:
    """Compare candidates on held-out blocks.

    Parameters
    ----------
    designs : dict
        The design without (False) and, if it is a candidate, with (True) contextual columns.
    tables : sequence of Release
        Of several, blocks are held out of those that have enough; the other tables still count
        their people.
    families : list of Family
        Simplest first.
    alphas : tuple of float or None
        Ridges to try, in units as those of ``RIDGES``; None keeps ``alpha``.
    alpha : float
    known : dict, optional
        People whose outcome is known, by design; they are never held out.
    codes, plan
        See :func:`unbin.likelihood.data.problem.make_problem`.
    n_splits : int
    """
    known = known or {}
    folds = _deal(tables, n_splits)
    variance = float(np.median(next(iter(designs.values())).scale ** 2))
    held = [release for release, fold in zip(tables, folds, strict=True) if fold is not None]
    n_held = np.concatenate([release.n for release in held])
    candidates: list[Candidate] = []
    scores = np.zeros((0, len(n_held)))
    tries = list(product(families, designs.items()))
    stopped = False
    for place, (family, (contextual, design)) in enumerate(tries[::-1]):
        unit = variance / units_of(tables, family).slope ** 2
        ridges = [alpha] if alphas is None else [unit * ridge for ridge in alphas]
        people = known.get(contextual)
        path = _Path.of(design, tables, family, ridges, people, codes, plan)
        try:
            found = _path_scores(path, folds, scores, Stage(path.name, place, len(tries)))
        except (KeyboardInterrupt, FitInterruptedError):
            if not candidates:
                raise
            stopped = True
            break
        # simplest first, whatever was tried first
        candidates = [Candidate(family, ridge, contextual) for ridge in ridges] + candidates
        scores = np.concatenate([found, scores])
    several = len(tables) > 1 or bool(known)
    chosen, error = _choose(candidates, scores, several=several)
    tried = np.isfinite(scores) @ n_held
    selection = Selection(
        tuple(candidate.family.name for candidate in candidates),
        np.array([candidate.alpha for candidate in candidates]),
        tuple(candidate.contextual for candidate in candidates),
        np.nansum(scores, axis=1) / tried,
        error / tried,
        chosen,
        stopped,
    )
    return candidates[chosen], selection


def _deal(tables: Sequence[Release], n_splits: int) -> list[IntArray | None]:
    """Return the fold of each block, None for a table of which none is held out."""
    domain = get_family("gaussian").domain
    counts = [published_counts(release, domain) for release in tables]
    n_blocks = [int(each.known.sum()) if each.informative else 0 for each in counts]
    if sum(n_blocks) < 2 * n_splits:
        raise ParameterError(
            f"alpha, family: choosing needs at least {2 * n_splits} blocks with published counts "
            f"to hold some out, got {sum(n_blocks)}; name the family and alpha"
        )
    return deal_tables([release.n for release in tables], n_blocks, n_splits)


Ends = dict[int, FloatArray]
"""The free parameters where the fits of some ridges, by their places, ended."""


@dataclass(frozen=True, slots=True)
class _Path:
    """A family with ridges to be tried, from the largest down.

    Attributes
    ----------
    name : str
    problem : Problem
    ridges : list of float
    unit : float
        What brings ridges to the units of the fit.
    common : list of PublishedCounts
        The bins that all families share, table by table.
    """

    name: str
    problem: Problem
    ridges: list[float]
    unit: float
    common: list[PublishedCounts]

    @classmethod
    def of(
        cls,
        design: Design,
        tables: Sequence[Release],
        family: Family,
        ridges: list[float],
        people: KnownPeople | None,
        codes: IntArray | None,
        plan: Plan | None,
    ) -> _Path:
        units = units_of(tables, family)
        design, tables = design.in_units(units), [in_units(release, units) for release in tables]
        people = None if people is None else people.in_units(units)
        problem = make_problem(design, tables, family, codes=codes, plan=plan, people=people)
        common = [published_counts(release, get_family("gaussian").domain) for release in tables]
        return cls(family.name, problem, ridges, units.slope**2, common)

    def held_out(
        self, held: Sequence[BoolArray | None], begin: Ends, racing: Collection[int]
    ) -> tuple[FloatArray, Ends]:
        """Return the scores of blocks held out (n_ridges, b), and where the fits ended.

        Only of the ridges that are ``racing``; NaN of the others. Each fit is started where that of
        other blocks ended (``begin``), or else that with the larger ridge.
        """
        tables = [
            table if out is None else replace(table, counts=table.counts.without(out))
            for table, out in zip(self.problem.tables, held, strict=True)
        ]
        training = self.problem.with_tables(tables)
        n_held = sum(int(each.sum()) for each in held if each is not None)
        scores, ended = np.full((len(self.ridges), n_held), np.nan), {}
        free = np.empty(0) if begin else starting_point(training)
        for r in sorted(racing, key=lambda r: -self.ridges[r]):
            penalty = ridge_penalty(training, self.ridges[r] * self.unit)
            found = solve_quickly(training, begin.get(r, free), penalty, _TOL, _MAX_ITER)
            if found.status is Status.INTERRUPTED:
                raise FitInterruptedError(
                    "fit: stopped while families and ridges were compared on held-out blocks, got "
                    "no estimate yet; name the family and alpha to skip that"
                )
            free = ended[r] = found.free
            expected = expected_statistics(self.problem, free)
            each = zip(self.problem.tables, expected, self.common, held, strict=True)
            scores[r] = np.concatenate(
                [
                    _scores(table.counts, mean[:, : table.counts.n_bins], bins)[out]
                    for table, mean, bins, out in each
                    if out is not None
                ]
            )
        return scores, ended


def _path_scores(
    path: _Path, folds: Sequence[IntArray | None], others: FloatArray, stage: Stage
) -> FloatArray:
    """Return the held-out score of every block for every ridge, shape (n_ridges, B).

    NaN of the blocks that are left when a ridge cannot win any more, or none can; ``others`` (n, B)
    are the scores of the candidates before.
    """
    fold = np.concatenate([each for each in folds if each is not None])
    scores, n_folds = np.full((len(path.ridges), len(fold)), np.nan), int(fold.max()) + 1
    complete, racing = others[np.isfinite(others).all(axis=1)], np.arange(len(path.ridges))
    best = complete[complete.sum(axis=1).argmax()] if len(complete) else None
    ended: Ends = {}
    for k in range(n_folds):
        held = [None if each is None else each == k for each in folds]
        with in_stage(stage.at(k / n_folds)):
            scores[:, fold == k], ended = path.held_out(held, ended, racing.tolist())
        done = fold <= k
        own = scores[racing][:, done]
        if best is not None and np.any(_behind(own, best[done]), axis=0).all():
            break
        if done.sum() >= _ENOUGH:
            racing = racing[~_behind(own, own[own.sum(axis=1).argmax()])[0]]
    return scores


def _behind(scores: FloatArray, best: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Mark candidates far behind by standard errors, and by ranks: more blocks would not change it.

    A family that rules out what a few blocks show is behind by their scores alone, which have no
    standard error to speak of; ranks (Wilcoxon's) see that it is behind in the others too.
    """
    gap = best - scores
    total, error = gap.sum(axis=1), _error(gap)
    rank = 1.0 + np.argsort(np.argsort(np.abs(gap), axis=1), axis=1)
    outranked = (np.sign(gap) * rank).sum(axis=1) > _OUTRANKED * np.sqrt((rank**2).sum(axis=1))
    return total > _BEHIND * error, (total > error) & outranked


def _scores(counts: PublishedCounts, expected: FloatArray, common: PublishedCounts) -> FloatArray:
    """Return the log score of every block, in the bins that all families share."""
    count = counts.count
    if counts.shared and common.shared and counts.n_bins > common.n_bins:
        last = np.searchsorted(counts.upper, common.upper)  # the bins that end where common ones do
        expected = np.diff(np.cumsum(expected, axis=1)[:, last], axis=1, prepend=0)
        count = np.diff(np.cumsum(count, axis=1)[:, last], axis=1, prepend=0)
        valid = np.broadcast_to(counts.known[:, None], count.shape)
    else:
        valid = counts.valid()
    share = np.maximum(expected, 1e-300) / counts.n[:, None]
    return np.asarray(np.where(valid, count * np.log(share), 0.0).sum(axis=1))


def _choose(
    candidates: list[Candidate], scores: FloatArray, *, several: bool
) -> tuple[int, FloatArray]:
    """Return the candidate to take, and the standard errors of the differences to the best."""
    complete = np.flatnonzero(np.isfinite(scores).all(axis=1))
    best = int(complete[np.argmax(scores[complete].sum(axis=1))])
    contextual = np.array([candidate.contextual for candidate in candidates])
    chosen = [
        _simplest_near_best(candidates, scores, complete[contextual[complete] == value], several)
        for value in np.unique(contextual[complete])
    ]
    winner = max(chosen, key=lambda k: float(scores[k].sum()))
    return winner, _error(scores[best] - scores)


def _simplest_near_best(
    candidates: list[Candidate], scores: FloatArray, which: IntArray, several: bool
) -> int:
    """Return the simplest of some candidates within one standard error of the best of them.

    Where no ridge does clearly better than the largest, held-out blocks support no slope, and the
    largest is taken. Of several tables those with few blocks, as by sex, are never held out: what
    they tell would be shrunk for nothing, so the ridge is the best one and not the largest near it.
    """
    best = int(which[np.argmax(scores[which].sum(axis=1))])
    null = max(
        (k for k, each in enumerate(candidates) if _same_path(each, candidates[best])),
        key=lambda k: candidates[k].alpha,
    )
    gain = (scores[best] - scores[null])[None]
    # where the largest was given up, slopes are clearly better
    if null != best and float(gain.sum()) <= _CLEAR * float(_error(gain)[0]):
        return null
    gap = scores[best] - scores[which]
    near = which[gap.sum(axis=1) <= _error(gap)]
    names = list(dict.fromkeys(candidate.family.name for candidate in candidates))
    if several:
        first = min(near, key=lambda k: names.index(candidates[k].family.name))
        alike = [k for k in which if candidates[k].family.name == candidates[first].family.name]
        return int(max(alike, key=lambda k: float(scores[k].sum())))
    return int(
        min(near, key=lambda k: (names.index(candidates[k].family.name), -candidates[k].alpha))
    )


def _same_path(one: Candidate, other: Candidate) -> bool:
    """Tell whether candidates differ in their ridge alone."""
    return one.family.name == other.family.name and one.contextual == other.contextual


def _error(gap: FloatArray) -> FloatArray:
    """Return the standard error of sums over blocks, those that are not NaN."""
    n_blocks = np.isfinite(gap).sum(axis=1)
    return np.asarray(np.sqrt(n_blocks) * np.nanstd(gap, axis=1, ddof=1))
