"""Regression of block means on block means: the ecological estimate, and where the solvers start.

Each block's mean is read off its table (a published mean, else bins at representative values,
else the middle order statistic) and regressed on the means of its features with the family's
link. It ignores the spread within blocks, so it is biased where the link is nonlinear, but it needs
no start and no pass over people.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unbin._typing import FloatArray, IntArray
from unbin.families import Family
from unbin.likelihood.counts import BlockTargets, PublishedCounts, block_targets
from unbin.likelihood.problem import Problem
from unbin.rows.design import Design
from unbin.rows.rows import Rows, kernel

_SWEEPS = 12
_SHRINK = 1e-2
_SAMPLE = 20_000
"""People sampled for the mean of a bin, about."""
_FARTHEST = 1e100
"""Largest mean of a bin; sums of squares of larger ones overflow."""


@dataclass(frozen=True, slots=True)
class EcologicalFit:
    """Block-means regression: theta as in ``Design``, its covariance (robust over blocks)."""

    theta: FloatArray
    covariance: FloatArray
    residual_variance: float


def fitted_values(
    design: Design,
    family: Family,
    counts: PublishedCounts,
    theta: FloatArray,
    nuisance: FloatArray,
) -> FloatArray | None:
    """Return the fitted mean of each shared bin over all people; None where there is none.

    Representative values are inaccurate where bins are wide, most of all in the tails.
    """
    if not counts.shared or family.free_shape:
        return None
    step = max(1, design.n_rows // _SAMPLE)
    total, weighted = design.total(
        bin_value_sums, family, counts.lower, counts.upper, theta, nuisance, step
    )
    if not (total > 0).all():
        return None
    value = np.asarray(weighted / total)
    # a fit that diverged can put the mean of an open bin anywhere
    return value if (np.abs(value) < _FARTHEST).all() else None


@kernel
def bin_value_sums(
    rows: Rows,
    family: Family,
    lower: FloatArray,
    upper: FloatArray,
    theta: FloatArray,
    nuisance: FloatArray,
    step: int,
) -> tuple[FloatArray, FloatArray]:
    """Return Σ q and Σ q E[y | bin] over every ``step``-th person, of each shared bin."""
    sample = slice(-rows.place % step, None, step)
    eta = rows.eta(theta)[sample]
    q = family.bins(eta, lower, upper, nuisance).probability
    within = family.bin_means(eta, lower, upper, nuisance)
    weighed = rows.weighed(q, sample)
    return weighed.sum(axis=0), (weighed * within).sum(axis=0)


def block_means_regression(
    design: Design, family: Family, targets: BlockTargets, nuisance: FloatArray
) -> EcologicalFit:
    """Regress the blocks' means on the means of their features, weighted by people."""
    shift = int(design.fit_intercept)
    return regress_means(design.block_means, design.people, targets.mean, family, nuisance, shift)


def regress_means(
    means: FloatArray,
    people: FloatArray | IntArray,
    target: FloatArray,
    family: Family,
    nuisance: FloatArray,
    shift: int,
) -> EcologicalFit:
    """Regress means of the target on means of the features, weighted by people.

    A ridge of one hundredth of the mean diagonal keeps it defined with few blocks.

    Parameters
    ----------
    means : (B, d + 1)
        Of the features, and last of the offset.
    people, target : (B,)
        Blocks whose target is NaN are left out.
    family : Family
    nuisance : (m,)
    shift : int
        1 with an intercept.
    """
    known = np.isfinite(target)
    if not known.all():
        means, people, target = means[known], people[known], target[known]
    people, offset = people.astype(float), means[:, -1]
    x = np.ones((len(means), shift + means.shape[1] - 1))
    x[:, shift:] = means[:, :-1]
    y = family.interior(target)
    pooled = family.interior(np.array([people @ y / people.sum()]))
    eta = np.broadcast_to(family.link(pooled), y.shape)
    theta = np.zeros(x.shape[1])
    for _ in range(_SWEEPS):
        slope = family.mean_derivative(eta)
        weight = people * slope**2 / np.maximum(family.variance(eta, nuisance), 1e-300)
        working = eta - offset + (y - family.inverse_link(eta)) / slope
        theta, gram, ridge = _weighted_ridge(x, working, weight, shift)
        new = np.clip(x @ theta + offset, eta - 2 * _reach(eta), eta + 2 * _reach(eta))
        done = np.abs(new - eta).max() <= 1e-8 * _reach(eta)
        eta = new
        if done:
            break
    residual = y - family.inverse_link(eta)
    scores = x * (weight * residual / slope)[:, None]
    bread = np.linalg.pinv(gram + ridge)
    b, p = x.shape
    meat = scores.T @ scores * (b / max(b - p, 1))
    spread = float((people * residual**2).sum() / max(b - p, 1))
    return EcologicalFit(theta, bread @ meat @ bread, spread)


def _weighted_ridge(
    x: FloatArray, y: FloatArray, weight: FloatArray, shift: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    gram = x.T @ (x * weight[:, None])
    diagonal = np.diag(gram)[shift:]
    size = (_SHRINK * float(diagonal.mean()) if len(diagonal) else 0.0) + 1e-8 * weight.sum()
    ridge = np.diag(np.concatenate([np.zeros(shift), np.full(len(diagonal), size)]))
    theta = np.linalg.lstsq(gram + ridge, x.T @ (weight * y), rcond=1e-12)[0]
    return np.asarray(theta, dtype=float), gram, ridge


def _reach(eta: FloatArray) -> float:
    """Return how far eta may reasonably move in a sweep: its own size, at least 1."""
    return max(1.0, float(np.abs(eta).max(initial=0.0)))


def problem_targets(problem: Problem) -> BlockTargets:
    """Read each block's mean and variance off all that was published of it."""
    means = None if problem.means is None else problem.means.mean
    if problem.order is None:
        return block_targets(problem.counts, means)
    targets = block_targets(problem.counts, means, problem.order.middle())
    known = np.isfinite(targets.variance)
    return replace(targets, variance=np.where(known, targets.variance, problem.order.variance()))


def starting_point(problem: Problem) -> FloatArray:
    """Return free parameters to start from.

    Slopes come from block-means regression; the scale from the variance within blocks that those
    slopes leave unexplained, or from the residuals of the block means where there is no table.
    """
    if problem.family.free_shape:
        return null_point(problem)
    targets = problem_targets(problem)
    family, known = problem.family, targets.known
    people = problem.counts.n[known].astype(float)
    pooled = float(people @ targets.mean[known] / people.sum())
    total = pooled_variance(targets, people, pooled)
    nuisance = family.start_nuisance(pooled, total)
    found = block_means_regression(problem.design, family, targets, nuisance)
    if not np.isfinite(targets.variance).any():
        nuisance = family.start_nuisance(pooled, found.residual_variance)
    else:
        within = float(np.nanmean(targets.variance))
        eta = family.link(family.interior(np.array([pooled])))
        slope = float(family.mean_derivative(eta)[0])
        explained = slope**2 * _within_variance(problem, found.theta)
        nuisance = family.start_nuisance(pooled, max(within - explained, 0.2 * within))
    return problem.coordinates.join(found.theta, nuisance)


def starts_well(problem: Problem) -> bool:
    """Tell whether block-means regression is on the scale of eta, so that it is near the root."""
    family = problem.family
    return not family.free_shape and bool(np.isinf(family.domain.low))


def null_point(problem: Problem) -> FloatArray:
    """Return free parameters with slopes of 0: level and scale of the pooled targets."""
    theta = np.zeros(problem.coordinates.n_theta)
    if problem.family.free_shape:
        pooled_counts = problem.counts.count[problem.counts.known].sum(axis=0)
        share = np.cumsum(pooled_counts)[:-1] / pooled_counts.sum()
        return problem.coordinates.join(theta, problem.family.start_thresholds(share))
    targets = problem_targets(problem)
    people = problem.counts.n[targets.known].astype(float)
    pooled = float(people @ targets.mean[targets.known] / people.sum())
    if problem.design.fit_intercept:
        theta[0] = float(problem.family.link(problem.family.interior(np.array([pooled])))[0])
    nuisance = problem.family.start_nuisance(pooled, pooled_variance(targets, people, pooled))
    return problem.coordinates.join(theta, nuisance)


def step_scale(problem: Problem, free: FloatArray) -> FloatArray:
    """Return the length of a cautious first step in each free parameter."""
    theta, nuisance = problem.coordinates.split(free)
    level = float(problem.design.fit_intercept and theta[0])
    by_theta, by_nuisance = problem.family.first_steps(nuisance, level)
    scale = np.full(len(free), by_theta)
    scale[problem.coordinates.n_slopes :] = by_nuisance
    return scale


def pooled_variance(targets: BlockTargets, people: FloatArray, pooled: float) -> float:
    """Return the variance of all targets around ``pooled``; ``people`` are of the blocks known."""
    known = targets.known
    between = people * (targets.mean[known] - pooled) ** 2
    within = people * np.nan_to_num(targets.variance[known])
    return max(float((between + within).sum() / people.sum()), 1e-12)


def _within_variance(problem: Problem, theta: FloatArray) -> float:
    """Return the mean variance of eta within blocks."""
    design = problem.design
    slopes = theta.copy()
    slopes[: design.fit_intercept] = 0.0
    sums = design.block_sums(eta_sums, slopes)
    between = sums[:, 0] ** 2 / np.where(design.people > 0, design.people, 1.0)
    return max(float((sums[:, 1] - between).sum()) / design.n_people, 0.0)


@kernel
def eta_sums(rows: Rows, theta: FloatArray) -> tuple[FloatArray]:
    """Return the sums of eta and of its square, by block."""
    eta = rows.eta(theta)
    return (np.column_stack([rows.sums(eta), rows.sums(eta * eta)]),)
