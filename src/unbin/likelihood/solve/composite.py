"""The composite likelihood of the counts: robust, and the start of scoring where needed.

Maximise Σ_bk c_bk log(m_bk / n_b) - n/2 Σ R free², as if the counts of a block were multinomial:
the score is unbiased, though H is not its variance. L-BFGS moves in coordinates whitened by
H = Σ D_bᵀ diag(1/m_b) D_b at the start, where a length of 1 is about one standard error. Published
means are ignored, and tables that cross the groups.

References
----------
Varin, C., Reid, N. and Firth, D. (2011). An overview of composite likelihood methods. *Statistica
Sinica*, 21, 5-42.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from unbin._linalg import bounded_whitening
from unbin._typing import FloatArray
from unbin.likelihood.data.problem import Problem
from unbin.likelihood.model.moments import CellSums, Moments, groups_of, map_cells

_SMALLEST = 1e-10
"""Expected counts are not taken below this, so that far tails keep a finite logarithm."""


@dataclass(frozen=True, slots=True)
class CompositeSums:
    """The composite likelihood at one value of the parameters.

    Attributes
    ----------
    objective : float
        -Σ c log(m / n) + penalty/2 · free², not divided by the number of people.
    gradient : (p,)
    information : (p, p)
        H, without the ridge.
    block_scores : (B, p)
    """

    objective: float
    gradient: FloatArray
    information: FloatArray
    block_scores: FloatArray


@dataclass(frozen=True, slots=True)
class CompositeResult:
    """Where L-BFGS ended."""

    free: FloatArray
    objective: float
    n_iter: int
    converged: bool


def composite_sums(problem: Problem, free: FloatArray, penalty: FloatArray) -> CompositeSums:
    """Return the composite objective and its derivatives in one pass over the rows."""
    p, stacked = len(free), problem.stacked[0]
    n_groups = stacked.stack.n_units
    information = np.zeros((p, p))
    block_scores = np.zeros((n_groups, p))
    objective = 0.5 * float(penalty @ free**2)

    def one(sums: CellSums) -> Moments:
        return groups_of(problem, free, sums)

    for part in map_cells(problem, free, one, covariance=False):
        people = stacked.people(part.units)
        # the bin that adds nothing to others takes part here
        use = (people > 0) & stacked.counted(part.units)
        mean = np.where(use, np.maximum(part.mean, _SMALLEST), 1.0)
        slopes = part.derivative * use[:, :, None]
        c = stacked.target[part.units] * use
        share = np.where(use, mean / np.maximum(people, 1.0), 1.0)
        objective -= float((c * np.log(share)).sum())
        block_scores[part.units] = ((c / mean)[:, None, :] @ slopes)[:, 0]
        scaled = slopes / np.sqrt(mean)[:, :, None]
        information += np.tensordot(scaled, scaled, axes=([0, 1], [0, 1]))
    gradient = penalty * free - block_scores.sum(axis=0)
    return CompositeSums(objective, gradient, information, block_scores)


def maximise_composite(
    problem: Problem,
    free: FloatArray,
    penalty: FloatArray,
    *,
    tol: float = 1e-3,
    max_iter: int = 200,
) -> CompositeResult:
    """Maximise the composite likelihood from ``free``."""
    first = composite_sums(problem, free, penalty)
    unwhiten = bounded_whitening(first.information + np.diag(penalty))

    def objective(move: FloatArray) -> tuple[float, FloatArray]:
        sums = composite_sums(problem, free + unwhiten @ move, penalty)
        return sums.objective - first.objective, unwhiten.T @ sums.gradient

    found = minimize(
        objective,
        np.zeros(len(free)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "gtol": tol, "ftol": 1e-13, "maxcor": 20},
    )
    return CompositeResult(
        free + unwhiten @ found.x,
        first.objective + float(found.fun),
        int(found.nit),
        bool(found.success or np.abs(found.jac).max() <= 0.05),
    )
