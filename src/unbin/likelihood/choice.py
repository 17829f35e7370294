"""Choosing a family, a ridge and contextual effects by blocks held out of the fit.

Every family predicts the same published counts, so their predictive log scores Σ c log(m/n) on
held-out blocks can be compared. Among candidates that are within one standard error of the best (of
the difference, over blocks) the simplest is taken, the one-standard-error rule: the family listed
first, the larger ridge; and the largest ridge unless the best beats it by two standard errors.
Contextual effects are taken when they raise the score. A choice that is interrupted is made among
the candidates scored by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from unbin._blocks import deal_tables
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin._watching import Status
from unbin.exceptions import FitInterruptedError, ParameterError
from unbin.families import Family, get_family
from unbin.likelihood.counts import PublishedCounts
from unbin.likelihood.fit import solve
from unbin.likelihood.heldout import count_sums
from unbin.likelihood.joint import JointProblem, joint_sums, make_joint
from unbin.likelihood.joint_fit import solve_joint
from unbin.likelihood.joint_start import Start
from unbin.likelihood.known import KnownPeople
from unbin.likelihood.problem import Problem, make_problem, ridge_penalty
from unbin.likelihood.scoring import ScoringResult
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


def candidate_families(tables: Sequence[Release], n_trials: int) -> list[Family]:
    """Return the families that can have produced all tables, simplest first."""
    names: list[str] = []
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
    n_splits : int
    """
    known = known or {}
    folds = _deal(tables, n_splits)
    variance = float(np.median(next(iter(designs.values())).scale ** 2))
    candidates: list[Candidate] = []
    scores: list[FloatArray] = []
    stopped = False
    for family, (contextual, design) in product(families, designs.items()):
        unit = variance / units_of(tables, family).slope ** 2
        ridges = [alpha] if alphas is None else [unit * ridge for ridge in alphas]
        try:
            people = known.get(contextual)
            found = _path_scores(design, tables, family, ridges, folds, people)
        except (KeyboardInterrupt, FitInterruptedError):
            if not candidates:
                raise
            stopped = True
            break
        candidates += [Candidate(family, ridge, contextual) for ridge in ridges]
        scores += list(found)
    held = [release for release, fold in zip(tables, folds, strict=True) if fold is not None]
    n_people = float(sum(release.n.sum() for release in held))
    several = len(tables) > 1 or bool(known)
    chosen, error = _choose(candidates, np.array(scores), several=several)
    selection = Selection(
        tuple(candidate.family.name for candidate in candidates),
        np.array([candidate.alpha for candidate in candidates]),
        tuple(candidate.contextual for candidate in candidates),
        np.array(scores).sum(axis=1) / n_people,
        error / n_people,
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


def _path_scores(
    design: Design,
    tables: Sequence[Release],
    family: Family,
    ridges: list[float],
    folds: Sequence[IntArray | None],
    people: KnownPeople | None,
) -> FloatArray:
    """Return the held-out score of every block for every ridge, shape (n_ridges, B).

    A path runs from the largest ridge down, each fit started where the one before ended.
    """
    units = units_of(tables, family)
    design, tables = design.in_units(units), [in_units(release, units) for release in tables]
    trial: _OneTable | _SeveralTables
    if len(tables) == 1 and people is None:
        trial = _OneTable.of(design, tables[0], family)
    else:
        people = None if people is None else people.in_units(units)
        trial = _SeveralTables(make_joint(design, tables, family, people))
    common = [published_counts(release, get_family("gaussian").domain) for release in tables]
    n_folds = max(int(fold.max()) for fold in folds if fold is not None) + 1
    result = [np.zeros((len(ridges), 0 if fold is None else len(fold))) for fold in folds]
    for k in range(n_folds):
        held = [None if fold is None else fold == k for fold in folds]
        training = trial.without(held)
        free = training.start()
        for r in np.argsort(ridges)[::-1]:
            found = training.solve(free, ridges[r] * units.slope**2)
            if found.status is Status.INTERRUPTED:
                raise FitInterruptedError(
                    "fit: stopped while families and ridges were compared on held-out blocks, got "
                    "no estimate yet; name the family and alpha to skip that"
                )
            free = found.free
            each = zip(trial.counts(), trial.expected(free), common, held, result, strict=True)
            for counts, expected, bins, out, scores in each:
                if out is not None:
                    scores[r, out] = _scores(counts, expected, bins)[out]
    return np.concatenate(result, axis=1)


@dataclass(frozen=True, slots=True)
class _OneTable:
    """A family tried on one table, some of whose blocks are held out."""

    problem: Problem

    @classmethod
    def of(cls, design: Design, release: Release, family: Family) -> _OneTable:
        return cls(make_problem(design, release, family))

    def counts(self) -> list[PublishedCounts]:
        return [self.problem.counts]

    def without(self, held: Sequence[BoolArray | None]) -> _OneTable:
        return _OneTable(replace(self.problem, counts=_hidden(self.problem.counts, held[0])))

    def start(self) -> FloatArray:
        return starting_point(self.problem)

    def solve(self, free: FloatArray, alpha: float) -> ScoringResult:
        return solve(self.problem, free, ridge_penalty(self.problem, alpha), _TOL, _MAX_ITER)

    def expected(self, free: FloatArray) -> list[FloatArray]:
        theta, nuisance = self.problem.coordinates.split(free)
        edges = (self.problem.counts.lower, self.problem.counts.upper)
        parts = self.problem.design.by_block(
            count_sums, self.problem.family, *edges, theta, nuisance, then=lambda _, sums: sums[0]
        )
        found = np.concatenate(list(parts))
        factor = self.problem.factor
        return [found if factor is None else found * factor[:, None]]


@dataclass(frozen=True, slots=True)
class _SeveralTables:
    """A family tried on several tables of the same people."""

    problem: JointProblem

    def counts(self) -> list[PublishedCounts]:
        return [table.counts for table in self.problem.tables]

    def without(self, held: Sequence[BoolArray | None]) -> _SeveralTables:
        pairs = zip(self.counts(), held, strict=True)
        return _SeveralTables(self.problem.with_counts([_hidden(*pair) for pair in pairs]))

    def start(self) -> FloatArray:
        return Start.of(self.problem).point()

    def solve(self, free: FloatArray, alpha: float) -> ScoringResult:
        penalty, null = ridge_penalty(self.problem.first, alpha), Start.of(self.problem).null()
        return solve_joint(self.problem, free, penalty, _TOL, _MAX_ITER, null=null)

    def expected(self, free: FloatArray) -> list[FloatArray]:
        sums = joint_sums(self.problem, free, np.zeros(len(free)))
        pairs = zip(sums.tables, self.counts(), strict=True)
        return [own.mean[:, : counts.n_bins] for own, counts in pairs]


def _hidden(counts: PublishedCounts, held: BoolArray | None) -> PublishedCounts:
    """Return counts without those of the blocks held out."""
    return counts if held is None else replace(counts, known=counts.known & ~held)


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
    best = int(np.argmax(scores.sum(axis=1)))
    contextual = np.array([candidate.contextual for candidate in candidates])
    chosen = [
        _simplest_near_best(candidates, scores, np.flatnonzero(contextual == value), several)
        for value in np.unique(contextual)
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
    alike = [k for k in which if candidates[k].family.name == candidates[best].family.name]
    null = max(alike, key=lambda k: candidates[k].alpha)
    gain = (scores[best] - scores[null])[None]
    if null != best and float(gain.sum()) <= _CLEAR * float(_error(gain)[0]):
        return int(null)
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


def _error(gap: FloatArray) -> FloatArray:
    """Return the standard error of sums over blocks."""
    return np.asarray(np.sqrt(gap.shape[1]) * gap.std(axis=1, ddof=1))
