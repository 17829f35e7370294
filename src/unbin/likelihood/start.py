"""Where the solvers start: block-means regression, and nuisance parameters that go with it."""

from __future__ import annotations

import numpy as np

from unbin._typing import FloatArray
from unbin.likelihood.ecological import (
    BlockTargets,
    block_means_regression,
    block_targets,
)
from unbin.likelihood.moments import Problem
from unbin.rows.kernels import kernel
from unbin.rows.rows import Rows


def starting_point(problem: Problem, middle: FloatArray | None = None) -> FloatArray:
    """Return free parameters to start from.

    Slopes come from block-means regression; the scale from the variance within blocks that those
    slopes leave unexplained, or from the residuals of the block means where there is no table.

    Parameters
    ----------
    problem : Problem
    middle : (B,), optional
        A published value near the median of each block.
    """
    if problem.family.free_shape:
        return null_point(problem)
    means = None if problem.means is None else problem.means.mean
    targets = block_targets(problem.counts, means, middle)
    family, known = problem.family, targets.known
    people = problem.counts.n[known].astype(float)
    pooled = float(people @ targets.mean[known] / people.sum())
    total = _pooled_variance(targets, people, pooled)
    nuisance = _start_nuisance(problem, pooled, total)
    found = block_means_regression(problem.design, family, targets, nuisance)
    if not np.isfinite(targets.variance).any():
        nuisance = _start_nuisance(problem, pooled, found.residual_variance)
    else:
        within = float(np.nanmean(targets.variance))
        eta = family.link(family.interior(np.array([pooled])))
        slope = float(family.mean_derivative(eta)[0])
        explained = slope**2 * _within_variance(problem, found.theta)
        nuisance = _start_nuisance(problem, pooled, max(within - explained, 0.2 * within))
    return problem.coordinates.join(found.theta, nuisance)


def null_point(problem: Problem) -> FloatArray:
    """Return free parameters with slopes of 0: level and scale of all targets together."""
    theta = np.zeros(problem.coordinates.n_theta)
    if problem.family.free_shape:
        pooled_counts = problem.counts.count[problem.counts.known].sum(axis=0)
        share = np.cumsum(pooled_counts)[:-1] / pooled_counts.sum()
        return problem.coordinates.join(theta, problem.family.start_thresholds(share))
    means = None if problem.means is None else problem.means.mean
    targets = block_targets(problem.counts, means)
    people = problem.counts.n[targets.known].astype(float)
    pooled = float(people @ targets.mean[targets.known] / people.sum())
    if problem.design.fit_intercept:
        theta[0] = float(problem.family.link(problem.family.interior(np.array([pooled])))[0])
    nuisance = _start_nuisance(problem, pooled, _pooled_variance(targets, people, pooled))
    return problem.coordinates.join(theta, nuisance)


def step_scale(problem: Problem, free: FloatArray) -> FloatArray:
    """Return the length of a cautious first step in each free parameter."""
    theta, nuisance = problem.coordinates.split(free)
    level = float(problem.design.fit_intercept and theta[0])
    by_theta, by_nuisance = problem.family.first_steps(nuisance, level)
    scale = np.full(len(free), by_theta)
    scale[problem.coordinates.n_slopes :] = by_nuisance
    return scale


def _start_nuisance(problem: Problem, mean: float, variance: float) -> FloatArray:
    start = problem.family.start_nuisance(mean, variance)
    return np.asarray(start, dtype=float)


def _pooled_variance(targets: BlockTargets, people: FloatArray, pooled: float) -> float:
    known = targets.known
    between = people * (targets.mean[known] - pooled) ** 2
    within = people * np.nan_to_num(targets.variance[known])
    return max(float((between + within).sum() / people.sum()), 1e-12)


def _within_variance(problem: Problem, theta: FloatArray) -> float:
    """Return the mean variance of eta within blocks."""
    design = problem.design
    slopes = theta.copy()
    slopes[: design.fit_intercept] = 0.0
    parts = design.by_block(eta_sums, slopes, then=lambda _, sums: sums[0])
    sums = np.concatenate(list(parts))
    between = sums[:, 0] ** 2 / design.size
    return max(float((sums[:, 1] - between).sum()) / design.n_people, 0.0)


@kernel
def eta_sums(rows: Rows, theta: FloatArray) -> tuple[FloatArray]:
    """Return the sums of eta and of its square, by block."""
    eta = rows.eta(theta)
    return (rows.sums(np.column_stack([eta, eta * eta])),)
