"""The evidence ridge: slopes shrunk as far as the published statistics ask for.

Let the standardised slopes be a sample from N(0, 1/ω). With J their information, intercept and
nuisance parameters profiled out, λ its eigenvalues and φ = max(1, Q/df) the dispersion of the
statistics, the ω that makes the statistics most likely (their *evidence*, to second order) gives
the ridge a = φ ω with

    a = φ γ / ‖slopes‖²,    γ = Σ λ/(λ + a),

γ the number of slopes that the statistics tell. Where there is no signal, a grows without bound and
no slope is left. The slopes are those of the features over their standard deviations, so that the
ridge does not depend on the units of the features.

The equations are solved with ever smaller ridges, from slopes of 0 on, down to that one: where
there are several roots it is the one next to no slopes, and where scoring breaks down on the way
the last root is kept.

The evidence knows of no confounding. Where the plain fit fails and blocks lie further apart than
their people explain, slopes may stand for what else differs between blocks, many times too large.
The ridge is then at least the information that everybody's own outcome would have. To first order
slopes are then no larger than those of a regression of the level of everybody's block on their
features, C/V with C the covariance between blocks and V the variance of the feature. With C' the
covariance within blocks that changes the squared error by -C²/V - 2 C C'/V: predictions beat the
pooled mean unless people within blocks go the other way, by more than half as much.

References
----------
MacKay, D. J. C. (1992). Bayesian interpolation. *Neural Computation*, 4, 415-447.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from unbin._linalg import NOTHING, namespace, solve_scaled
from unbin._typing import BoolArray, FloatArray
from unbin._watching import Status
from unbin.families import Family
from unbin.likelihood.data.problem import Problem
from unbin.likelihood.solve.effects import Pulls, group_df, misfit_beside_effects
from unbin.likelihood.solve.scoring import ScoringResult
from unbin.likelihood.thresholds import APART, FEWEST_GROUPS, WEAK
from unbin.rows.design import Design

_ROUNDS = 500
_SETTLED = 1e-6
_LARGEST = 1e6
"""Ridge over the largest eigenvalue at which no slope is left."""
_LOUDEST = 1e50
"""Limit on the signal of a person where a fit has diverged, so that sums of squares stay finite."""
_TOLD = 1e-10
"""Eigenvalues below this share of the largest tell nothing."""
_FIRST, _STEP = 30.0, 10**-0.5
"""First ridge over the largest eigenvalue, and each over the one before."""
_LAST = 3
"""Times that the ridge is set to its evidence at the end."""


@dataclass(frozen=True, slots=True)
class EvidenceRidge:
    """A ridge on the standardised slopes, n alpha, and how it compares with their information.

    Attributes
    ----------
    size : float
        n alpha.
    largest : float
        The largest eigenvalue.
    n_told : float
        γ, the slopes that the statistics tell.
    weakness : float
        n alpha over the smallest eigenvalue; infinite where a direction has no information.
    """

    size: float
    largest: float
    n_told: float
    weakness: float

    @property
    def weak(self) -> bool:
        """Whether the ridge matters for some combination of the slopes."""
        return self.weakness > WEAK


def evidence_ridge(
    information: FloatArray, score: FloatArray, free: FloatArray, slopes: BoolArray, phi: float
) -> EvidenceRidge | None:
    """Return the ridge with the largest evidence, statistics linearised at ``free``.

    Parameters
    ----------
    information : (p, p)
        J, without a ridge.
    score : (p,)
        U, without a ridge.
    free : (p,)
    slopes : (p,) bool
        Which of the free parameters are slopes of columns that vary.
    phi : float
        max(1, Q/df).

    Returns
    -------
    EvidenceRidge or None
        None where no slope has any information.
    """
    told, rest = np.flatnonzero(slopes), np.flatnonzero(~slopes)
    across = information[np.ix_(rest, told)]
    taken = solve_scaled(information[np.ix_(rest, rest)], across)
    profiled = information[np.ix_(told, told)] - across.T @ taken
    values, vectors = np.linalg.eigh(0.5 * (profiled + profiled.T))
    largest = float(values.max(initial=0.0))
    if not largest > _TOLD * float(np.diag(information)[told].max(initial=0.0)):
        return None
    values = np.where(values > _TOLD * largest, values, 0.0)
    # J slopes + U, both with the rest profiled out: what slopes of 0 would have for a score
    pull = vectors.T @ (score[told] - taken.T @ score[rest]) + values * (vectors.T @ free[told])
    pull = np.where(values > 0, pull, 0.0)
    size = _fixed_point(values, pull, phi, _LARGEST * largest)
    smallest = float(values.min())
    return EvidenceRidge(
        size,
        largest,
        float((values / (values + size)).sum()),
        size / smallest if smallest > 0 else float("inf"),
    )


def _fixed_point(values: FloatArray, pull: FloatArray, phi: float, largest: float) -> float:
    """Iterate a ← φ γ/‖slopes‖² from a small ridge up; ``largest`` where it has no end."""
    size = 1e-6 * float(values.max())
    for _ in range(_ROUNDS):
        shrunk = pull / np.where(values > 0, values + size, np.inf)
        square = float(shrunk @ shrunk)
        before, told = size, float((values / (values + size)).sum())
        if square * largest <= phi * told:
            return largest
        size = phi * told / square
        if abs(size - before) <= _SETTLED * before:
            break
    return min(size, largest)


# -- what everybody's own outcome would say --------------------------------------------------------


def told_by_person(family: Family, nuisance: FloatArray, eta: FloatArray) -> FloatArray:
    """Return (d mean/d eta)² / Var y, the information of an observed target about its eta."""
    slope, variance = family.mean_derivative(eta), family.variance(eta, nuisance)
    # where the mean saturates both vanish and a person carries no information
    xp, says = namespace(eta), variance > 1e-300
    signal = xp.where(says, slope / xp.sqrt(xp.where(says, variance, 1.0)), 0.0)
    return xp.clip(signal, -_LOUDEST, _LOUDEST) ** 2  # type: ignore[no-any-return]


def observed_information(
    design: Design, family: Family, theta: FloatArray, nuisance: FloatArray
) -> float:
    """Return the largest eigenvalue of the information of everybody's own outcome on the slopes."""
    gram = design.gram(theta, partial(told_by_person, family, nuisance))
    if design.fit_intercept:
        first = gram[0, 1:]
        gram = gram[1:, 1:] - np.outer(first, first) / max(float(gram[0, 0]), NOTHING)
    return float(np.linalg.eigvalsh(gram[np.ix_(design.varies, design.varies)]).max())


# -- the way from slopes of 0 ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dispersion:
    """How far statistics, and the levels of groups, lie from expectation; 1 where the model fits.

    Attributes
    ----------
    statistics : float
        Q/df, what slopes could explain taken out, by one scoring step without the ridge.
    levels : float
        The same of the groups' pulls (:mod:`unbin.likelihood.solve.effects`); infinite where no
        degree of freedom is left. With few groups, as of a table by sex, a feature is not
        confounded with them.
    """

    statistics: float
    levels: float

    @classmethod
    def of(cls, problem: Problem, result: ScoringResult, unpenalised: FloatArray) -> Dispersion:
        """Return the dispersion at a result, with the quasi-score without the ridge there."""
        sums = result.sums
        left, df = misfit_beside_effects(problem, sums)
        left -= float(unpenalised @ solve_scaled(sums.information, unpenalised))
        pulls = Pulls.of(sums, unpenalised)
        levels, free = 1.0, group_df(problem, pulls, sums)
        if problem.layout.plain or len(pulls.hold) >= FEWEST_GROUPS:
            levels = pulls.misfit(problem.block_variance) / free if free > 0 else float("inf")
        return cls(left / df if df > 0 else 1.0, levels)

    @property
    def phi(self) -> float:
        """The dispersion of what informs the slopes."""
        return max([1.0, *(each for each in (self.statistics, self.levels) if np.isfinite(each))])


def shrink(
    problem: Problem,
    null: ScoringResult,
    slopes: BoolArray,
    solve: Callable[[FloatArray, FloatArray], ScoringResult],
    *,
    floor: float = 0.0,
) -> tuple[ScoringResult, float]:
    """Return the root with the evidence ridge, and that ridge, n alpha.

    Parameters
    ----------
    problem : Problem
    null : ScoringResult
        The fit with slopes of 0.
    slopes : (p,) bool
        Which of the free parameters are slopes of columns that vary.
    solve : callable
        Solves from some free parameters with a penalty (p,).
    floor : float
        The least ridge where blocks lie further apart than people explain.

    Returns
    -------
    ScoringResult, float
        ``null`` and infinity where no slope can be told.
    """

    def wanted(at: ScoringResult, penalty: FloatArray) -> tuple[float, float]:
        """Return the ridge to go to, and the largest eigenvalue of the information."""
        unpenalised = at.sums.score + penalty * at.free
        spread = Dispersion.of(problem, at, unpenalised)
        found = evidence_ridge(at.sums.information, unpenalised, at.free, slopes, spread.phi)
        if found is None:
            return float("inf"), 0.0
        return max(found.size, floor if spread.levels > APART else 0.0), found.largest

    result, ridge = null, float("inf")
    goal, largest = wanted(null, np.zeros(len(slopes)))
    size, tries = max(_FIRST * largest, goal), 0
    while largest > 0 and tries < _LAST:
        if size <= goal:
            size, tries = goal, tries + 1
        penalty = np.where(slopes, size, 0.0)
        found = solve(result.free, penalty)
        if found.status is not Status.CONVERGED:
            break
        result, ridge = found, size
        goal, _ = wanted(result, penalty)
        size = size * _STEP if tries == 0 else max(goal, size * _STEP)
    return result, ridge
