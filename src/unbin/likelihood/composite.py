"""The composite likelihood of the counts: robust, and the start of scoring where needed.

Maximise Σ_bk c_bk log(m_bk / n_b) - n/2 Σ R free², as if the counts of a block were multinomial:
the score is unbiased, though H is not its variance. L-BFGS moves in coordinates whitened by
H = Σ D_bᵀ diag(1/m_b) D_b at the start, where a length of 1 is about one standard error. Published
means are ignored.

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
from unbin.likelihood.moments import block_moments
from unbin.likelihood.problem import Problem

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
    p, counts = len(free), problem.counts
    information = np.zeros((p, p))
    block_scores = np.zeros((len(counts.n), p))
    objective = 0.5 * float(penalty @ free**2)
    valid = counts.valid()
    for part in block_moments(problem, free, covariance=False):
        use = valid[part.blocks]
        mean = np.maximum(part.mean[:, : counts.n_bins], _SMALLEST)
        slopes = part.derivative[:, : counts.n_bins] * use[:, :, None]
        c = counts.count[part.blocks] * use
        share = mean / counts.n[part.blocks, None]
        objective -= float((c * np.log(np.where(use, share, 1.0))).sum())
        block_scores[part.blocks] = ((c / mean)[:, None, :] @ slopes)[:, 0]
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
