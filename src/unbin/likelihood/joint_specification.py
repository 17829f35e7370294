"""The shape test of a fit to several tables: whether levels alone tell the same slopes.

The location score of :mod:`unbin.likelihood.specification` is added over the tables. Their blocks
hold the same people, so that the variance of its root less the full one is not a sum over blocks:
it is that of both scores beside each other (:mod:`unbin.likelihood.joint_variance`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import chdtrc

from unbin._linalg import inverse_form, solve_scaled
from unbin._typing import FloatArray
from unbin.likelihood.joint import JointProblem, JointSums
from unbin.likelihood.location import (
    bin_values,
    kept_derivative,
    level_weights,
    share_of_shape,
    slopes_of,
    variance_of,
)
from unbin.likelihood.problem import Problem
from unbin.likelihood.quasi_score import Evidence, evidence, used_statistics
from unbin.likelihood.specification import LEVELS_ALONE, UNTESTED, Specification, Test


def can_test(problem: JointProblem) -> bool:
    """Tell whether levels can be set against shapes: not beside known people, nor in a sample."""
    return problem.known is None and not problem.first.design.sampled


def location_weights(problem: JointProblem, sums: JointSums) -> tuple[FloatArray, ...]:
    """Return the weights of the location score, (B, L, p) of each table."""
    return tuple(_weights(table, own) for table, own in _said(problem, sums))


def specify_joint(
    problem: JointProblem,
    sums: JointSums,
    free: FloatArray,
    penalty: FloatArray,
    weights: Sequence[FloatArray],
    meat: FloatArray,
) -> Specification:
    """Test the specification of a fit to several tables at its root ``free``.

    Parameters
    ----------
    problem : JointProblem
    sums : JointSums
    free, penalty : (p,)
    weights : sequence of (B, L, p)
        ``location_weights``.
    meat : (2 p, 2 p)
        Variance of the full score and of the location score.
    """
    p, slopes = len(free), slopes_of(problem.first)
    bread = solve_scaled(sums.information + np.diag(penalty), np.eye(p))
    score, slope = np.zeros(p), np.zeros((p, p))
    for (table, own), weight in zip(_said(problem, sums), weights, strict=True):
        used = used_statistics(table)
        score += np.einsum("blp,bl->p", weight, own.residual * used)
        slope += np.einsum("blp,blq->pq", weight, kept_derivative(table, own))
    back = np.linalg.pinv(slope + np.diag(penalty))
    shift = back @ (score - penalty * free)
    full, cross, location = meat[:p, :p], meat[p:, :p], meat[p:, p:]
    full, cross, location = bread @ full @ bread, back @ cross @ bread, back @ location @ back.T
    apart = (location - cross - cross.T + full)[slopes, slopes]
    moves = np.diag(apart) > LEVELS_ALONE * np.diag(location)[slopes]
    square, rank = inverse_form(shift[slopes][moves], apart[np.ix_(moves, moves)])
    test = Test(square, rank, np.inf, float(chdtrc(rank, square))) if rank else UNTESTED
    return Specification(
        shape=test,
        share=share_of_shape(full, location, slopes),
        location_shift=shift,
        location_covariance=location,
    )


def _said(problem: JointProblem, sums: JointSums) -> list[tuple[Problem, Evidence]]:
    pairs = zip(problem.tables, sums.moments, strict=True)
    return [(t, evidence(t, replace(part, covariance=part.covariance.copy()))) for t, part in pairs]


def _weights(table: Problem, said: Evidence) -> FloatArray:
    """Return s (sᵀ D_b)/v_b, and for nuisance parameters (Σ Σ_b)⁻¹ (Σ D_b) of the table."""
    n, used = table.coordinates.n_slopes, used_statistics(table)
    weight = level_weights(table, said, bin_values(table))
    weight[:, :, n:] = 0.0
    if table.counts.shared:
        known, sigma = used.any(axis=1), variance_of(table, said)
        common = solve_scaled(sigma[known].sum(axis=0), said.derivative[known, :, n:].sum(axis=0))
        weight[:, :, n:] = common * used[:, :, None]
    return weight
