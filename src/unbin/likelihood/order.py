"""Published order statistics: medians, quartiles, minima.

They are values, not edges: how many people lie below a published median is fixed by design, and
what is random is where it lies. With F_i the distribution of person i, the value s at rank tau of
n people solves Σ_i F_i(s) ≈ tau n/(n + 1) up to the noise of the number of people below s, so for
real targets

    log density of block b = -½ rᵀS⁻¹r - ½ log|S| + Σ_j log Σ_i f_i(s_j),
    r_j = Σ_i F_i(s_j) - tau_j n/(n + 1),    S_jk = Σ_i F_i(s_j)(1 - F_i(s_k)),  s_j ≤ s_k,

and for integers, where ties decide, each of them contributes log P(y_(tau) = s), the number of
people at or below s being normal with mean Σ F_i(s) and variance Σ F_i(s)(1 - F_i(s)).

A block with a histogram of three or more bins is fitted to that alone: its order statistics add
next to nothing, and counting the same people twice costs more than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbin._typing import FloatArray
from unbin.families import Family
from unbin.families.base import BinModel, DensityModel
from unbin.likelihood.order_laws import integer_law, real_law
from unbin.likelihood.problem import Problem
from unbin.likelihood.statistics import PublishedOrder
from unbin.rows.rows import Rows, kernel


@dataclass(frozen=True, slots=True)
class OrderSums:
    """The log density of the order statistics at one value of the parameters.

    Attributes
    ----------
    objective : float
        Minus the log density.
    gradient : (p,)
        Of the objective.
    block_scores : (B, p)
        Derivatives of each block's log density.
    block_misfit, block_df : (B,)
        Squared standardised residuals and how many there are; 0 for integers, whose residuals
        have no common scale.
    """

    objective: float
    gradient: FloatArray
    block_scores: FloatArray
    block_misfit: FloatArray
    block_df: FloatArray


def order_sums(problem: Problem, order: PublishedOrder, free: FloatArray) -> OrderSums:
    """Return the log density of all order statistics and its derivatives."""
    problem.family.check_statistics(shared=problem.counts.shared, means=False, values=True)
    n_blocks, p = len(order.n), len(free)
    scores, misfit = np.zeros((n_blocks, p)), np.zeros(n_blocks)
    objective = 0.0
    parts = problem.design.whole_blocks("quantiles and other order statistics")
    theta, nuisance = problem.coordinates.split(free)
    for span, value, found, off in parts.stream(
        order_part, problem.family, order, theta, nuisance, p
    ):
        objective -= value
        scores[span], misfit[span] = found, off
    df = order.valid.sum(axis=1) * float(not problem.family.domain.integer)
    return OrderSums(objective, -scores.sum(axis=0), scores, misfit, df)


@kernel
def order_part(
    rows: Rows,
    family: Family,
    published: PublishedOrder,
    theta: FloatArray,
    nuisance: FloatArray,
    p: int,
) -> tuple[slice, float, FloatArray, FloatArray]:
    """Return blocks, the log density, the scores and the misfit of the blocks of some rows."""
    span = rows.span
    order = PublishedOrder(published.value[span], published.rank[span], published.n[span])
    if not order.known.any():
        return span, 0.0, np.zeros((len(order.n), p)), np.zeros(len(order.n))
    eta = rows.eta(theta)
    first, size = rows.start[:-1], np.diff(rows.start)
    code = np.repeat(np.arange(len(order.n)), size)
    people = rows.weighed(np.ones(len(eta)))
    people = people * (order.n / np.add.reduceat(people, first))[code]
    value = order.value[code]
    low = np.full(value.shape, family.domain.low)
    below = family.bins(eta, low, value, nuisance)
    other: BinModel | DensityModel
    if family.domain.integer:
        other = family.bins(eta, low, value - 1, nuisance)
        law = integer_law(
            below.probability, other.probability, order.rank, order.valid, first, people
        )
    else:
        other = family.density(np.where(np.isfinite(value), value, 0.0), eta, nuisance)
        law = real_law(
            below.probability, other.density, order.rank, order.valid, order.n, first, people
        )
    by_eta = (law.first * below.d_eta + law.second * other.d_eta).sum(axis=1)
    by_nuisance = (law.first * below.d_nuisance + law.second * other.d_nuisance).sum(axis=2)
    columns = [by_eta[:, None] * rows.matrix, by_nuisance.T]
    if rows.fit_intercept:
        columns.insert(0, by_eta[:, None])
    scores = np.column_stack([np.add.reduceat(column, first, axis=0) for column in columns])
    return span, law.value, scores, law.misfit
