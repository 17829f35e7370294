"""People whose outcome is known, beside tables: one more table, whose blocks hold one person.

What is known of person i is y_i. Its quasi-score D_iᵀ S_i⁻¹ (c_i - m_i) has y_i itself for a
statistic, and for a family with a dispersion also the bin between quantiles of all known outcomes
that y_i lies in, from which the dispersion is estimated. A family with thresholds has the bins of
the tables alone. Tables do not count these people (:mod:`unbin.release.removal`), so that scores
and informations add; a random intercept moves both the people of a block that are known and those
that its tables count, which :mod:`unbin.likelihood.joint_variance` allows for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unbin._typing import FloatArray, IntArray
from unbin.families import Family, Units
from unbin.families.coordinates import Coordinates
from unbin.likelihood.counts import PublishedCounts
from unbin.likelihood.law import Law
from unbin.likelihood.moments import finish, moment_sums
from unbin.likelihood.problem import Problem, PublishedMeans
from unbin.likelihood.quasi_score import PartSums, evidence, summed, weigh_blocks
from unbin.likelihood.statistics import bins_between
from unbin.rows.design import Design

_PEOPLE_PER_BIN = 5
_MOST_BINS = 20
"""Bins from which a dispersion is estimated: twenty lose a few hundredths of the information."""


@dataclass(frozen=True, slots=True)
class KnownPeople:
    """People whose outcome is known.

    Attributes
    ----------
    design : Design
        Each row a block.
    values : (m,)
        Their outcomes.
    codes : tuple of (m,)
        Their block in each table, -1 for people outside it.
    """

    design: Design
    values: FloatArray
    codes: tuple[IntArray, ...]

    def in_units(self, units: Units) -> KnownPeople:
        """Return the same people for a target in other units."""
        design, values = self.design.in_units(units), units.into(self.values)
        return KnownPeople(design, values, self.codes)


@dataclass(frozen=True, slots=True)
class KnownSums:
    """The quasi-score of people whose outcome is known.

    Attributes
    ----------
    score : (p,)
    information : (p, p)
    along : (m, p)
        D_iᵀ S_i⁻¹ e_i: how a random intercept of each person's block moves the score.
    """

    score: FloatArray
    information: FloatArray
    along: FloatArray


def known_problem(
    people: KnownPeople,
    family: Family,
    coordinates: Coordinates,
    edges: tuple[FloatArray, FloatArray],
) -> Problem:
    """Return known outcomes as a table; ``edges`` are the bins of a family with thresholds."""
    values = people.values
    n = np.rint(people.design.people).astype(np.int64)
    if not family.free_shape:
        edges = bins_between(_cuts(values, n, family), family.domain)
    lower, upper = edges
    count = np.zeros((len(n), len(lower)))
    count[np.arange(len(n)), np.searchsorted(upper[:-1], values)] = n
    counts = PublishedCounts(n, lower, upper, count, np.ones(len(n), dtype=bool))
    means = None
    if not family.free_shape:
        means = PublishedMeans(values, float(np.sqrt(np.average(values**2, weights=n))) or 1.0)
    return Problem(people.design, counts, family, coordinates, means, 0.0)


def _cuts(values: FloatArray, n: IntArray, family: Family) -> FloatArray:
    """Return the quantiles between which the dispersion is looked for; ``n`` people have each."""
    n_bins = min(int(n.sum()) // _PEOPLE_PER_BIN, _MOST_BINS) if family.nuisance_names else 1
    if n_bins < 2:
        return np.zeros(0)
    order = np.argsort(values)
    below = np.cumsum(n[order])
    rank = -(-below[-1] * np.arange(1, n_bins) // n_bins)
    cuts = np.unique(values[order][np.searchsorted(below, rank)])
    return np.asarray(cuts[(cuts < values.max()) & (cuts > family.domain.low)])


def known_sums(problem: Problem, law: Law, free: FloatArray) -> KnownSums:
    """Return the quasi-score of known outcomes, and its information.

    ``law`` is that of the tables: its random intercepts are averaged over.
    """
    counts, means = problem.counts, problem.means
    unit = None if means is None else means.unit
    law = replace(law, lower=counts.lower, upper=counts.upper, unit=unit)

    def weigh(blocks: slice, sums: tuple[FloatArray, ...]) -> PartSums:
        said = evidence(problem, finish(problem, free, blocks, sums, True))
        return weigh_blocks(problem, said, blocks)

    parts = list(problem.design.by_block(moment_sums, law, free, True, then=weigh))
    sums = summed(parts, np.zeros(len(free)))
    return KnownSums(sums.score, sums.information, sums.block_along)


def add_known(pulls: Sequence[FloatArray], codes: Sequence[IntArray], along: FloatArray) -> None:
    """Add what known people contribute to the pull of each table's blocks, (B, p)."""
    for pull, code in zip(pulls, codes, strict=True):
        if len(pull):
            np.add.at(pull, code[code >= 0], along[code >= 0])
