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
)
from unbin.likelihood.problem import Problem
from unbin.likelihood.quasi_score import (
    Evidence,
    ScoreSums,
    evidence,
    used_statistics,
    variance_of,
)
from unbin.likelihood.specification import (
    LEVELS_ALONE,
    UNTESTED,
    Extension,
    Specification,
    Test,
    told_apart,
)


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
    errors = np.sqrt(np.maximum(np.diag(full)[slopes], 1e-300))
    levels = [
        _levels(t, own, bread, slopes, errors)
        for t, (table, own) in enumerate(zip(problem.tables, sums.tables, strict=True))
        if table.block_variance == 0
    ]
    return Specification(
        shape=test,
        share=share_of_shape(full, location, slopes),
        location_shift=shift,
        location_covariance=location,
        extensions=tuple(each for each in levels if each is not None),
    )


def _levels(
    t: int, sums: ScoreSums, bread: FloatArray, slopes: slice, errors: FloatArray
) -> Extension | None:
    """Test that the blocks of a table have no levels of their own, and what these would move.

    Where a table is by groups of a feature, its effect is then not the straight line of the model.
    None where slopes explain any levels.
    """
    tells = sums.block_hold > 0
    pull, hold, along = sums.block_pull[tells], sums.block_hold[tells], sums.block_along[tells]
    left = np.diag(hold) - along @ bread @ along.T
    basis = told_apart(left, np.diag(hold))
    if not basis.shape[1]:
        return None
    step = np.linalg.solve(basis.T @ left @ basis, basis.T @ pull)
    statistic = float((basis.T @ pull) @ step)
    shift = -(bread @ along.T @ (basis @ step))[slopes] / errors
    return Extension(t, "levels", float(chdtrc(basis.shape[1], statistic)), shift)


def _said(problem: JointProblem, sums: JointSums) -> list[tuple[Problem, Evidence]]:
    pairs = zip(problem.tables, sums.moments, strict=True)
    return [(t, evidence(t, replace(part, covariance=part.covariance.copy()))) for t, part in pairs]


def _weights(table: Problem, said: Evidence) -> FloatArray:
    """Return s (sᵀ D_b)/v_b, and for nuisance parameters (Σ Σ_b)⁻¹ (Σ D_b) of the table."""
    n, used, sigma = table.coordinates.n_slopes, used_statistics(table), variance_of(table, said)
    weight, _ = level_weights(sigma, said, bin_values(table))
    weight[:, :, n:] = 0.0
    if table.counts.shared:
        known = used.any(axis=1)
        common = solve_scaled(sigma[known].sum(axis=0), said.derivative[known, :, n:].sum(axis=0))
        weight[:, :, n:] = common * used[:, :, None]
    return np.asarray(weight)
