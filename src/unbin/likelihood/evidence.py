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
The ridge is then at least ``CAUTIOUS`` times the largest λ: no combination of slopes keeps more
than a quarter of what the table suggests, so that predictions beat the pooled mean unless that is
more than eight times too large.

References
----------
MacKay, D. J. C. (1992). Bayesian interpolation. *Neural Computation*, 4, 415-447.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unbin._linalg import solve_scaled
from unbin._typing import BoolArray, FloatArray
from unbin._watching import Status
from unbin.likelihood.effects import Pulls
from unbin.likelihood.quasi_score import ScoreSums
from unbin.likelihood.scoring import ScoringResult

_ROUNDS = 500
_SETTLED = 1e-6
_LARGEST = 1e6
"""Ridge over the largest eigenvalue at which no slope is left."""
_TOLD = 1e-10
"""Eigenvalues below this share of the largest tell nothing."""
WEAK = 0.1
"""Ridge over the smallest eigenvalue from which on a design is weak."""
CAUTIOUS = 3.0
"""Ridge over the largest eigenvalue, at least, where slopes may stand for the blocks."""
_APART = 2.0
"""Dispersion of the blocks' levels from which on they lie further apart than people explain."""
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


# -- the way from slopes of 0 ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dispersion:
    """How far statistics, and the levels of blocks, lie from expectation; 1 where the model fits.

    Attributes
    ----------
    statistics : float
        Q/df.
    levels : float
        The same of the blocks' pulls (:mod:`unbin.likelihood.effects`), see
        :func:`level_dispersion`.
    """

    statistics: float
    levels: float

    @property
    def phi(self) -> float:
        """The dispersion of what informs the slopes."""
        return max([1.0, *(each for each in (self.statistics, self.levels) if np.isfinite(each))])


def level_dispersion(
    sums: ScoreSums,
    information: FloatArray,
    unpenalised: FloatArray,
    n_fitted: int,
    variance: float,
) -> float:
    """Return how far the levels of blocks lie apart beyond people, and effects of a variance.

    What slopes could explain is taken out, by one scoring step without the ridge; infinite where no
    degree of freedom is left.
    """
    pulls = Pulls.of(sums, information, unpenalised)
    df = len(pulls.hold) - n_fitted
    return pulls.misfit(variance) / df if df > 0 else float("inf")


def shrink(
    null: ScoringResult,
    slopes: BoolArray,
    solve: Callable[[FloatArray, FloatArray], ScoringResult],
    dispersion: Callable[[ScoringResult, FloatArray], Dispersion],
    *,
    cautious: bool,
) -> tuple[ScoringResult, float]:
    """Return the root with the evidence ridge, and that ridge, n alpha.

    Parameters
    ----------
    null : ScoringResult
        The fit with slopes of 0.
    slopes : (p,) bool
        Which of the free parameters are slopes of columns that vary.
    solve : callable
        Solves from some free parameters with a penalty (p,).
    dispersion : callable
        Of a result, with the quasi-score without the ridge there.
    cautious : bool
        Whether slopes may stand for the blocks.

    Returns
    -------
    ScoringResult, float
        ``null`` and infinity where no slope can be told.
    """

    def wanted(at: ScoringResult, penalty: FloatArray) -> tuple[float, float]:
        """Return the ridge to go to, and the largest eigenvalue."""
        unpenalised = at.sums.score + penalty * at.free
        spread = dispersion(at, unpenalised)
        found = evidence_ridge(at.sums.information, unpenalised, at.free, slopes, spread.phi)
        if found is None:
            return float("inf"), 0.0
        floor = CAUTIOUS * largest if cautious and spread.levels > _APART else 0.0
        return max(found.size, floor), found.largest

    result, ridge, largest = null, float("inf"), 0.0
    goal, largest = wanted(null, np.zeros(len(slopes)))
    size, tries = _FIRST * largest, 0
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
