"""Regression of block means on block means: the ecological estimate, and where the solvers start.

Each block's mean is read off its table (a published mean, else bins at representative values,
else the middle order statistic) and regressed on the means of its features with the family's
link. It ignores the spread within blocks, so it is biased where the link is nonlinear, but it needs
no start and no pass over people.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from unbin._typing import FloatArray, IntArray
from unbin.families import Family
from unbin.likelihood.data.counts import BlockTargets, PublishedCounts
from unbin.likelihood.data.problem import Problem
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
    b, p = len(x), int((np.diag(gram) > 0).sum())
    meat = scores.T @ scores * (b / max(b - p, 1))
    spread = float((people * residual**2).sum() / max(b - p, 1))
    return EcologicalFit(theta, bread @ meat @ bread, spread)


def _weighted_ridge(
    x: FloatArray, y: FloatArray, weight: FloatArray, shift: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    gram = x.T @ (x * weight[:, None])
    diagonal = np.diag(gram)[shift:]
    told = diagonal[diagonal > 0]  # constant columns are 0
    size = (_SHRINK * float(told.mean()) if len(told) else 0.0) + 1e-8 * weight.sum()
    ridge = np.diag(np.concatenate([np.zeros(shift), np.full(len(diagonal), size)]))
    theta = np.linalg.lstsq(gram + ridge, x.T @ (weight * y), rcond=1e-12)[0]
    return np.asarray(theta, dtype=float), gram, ridge


def _reach(eta: FloatArray) -> float:
    """Return how far eta may reasonably move in a sweep: its own size, at least 1."""
    return max(1.0, float(np.abs(eta).max(initial=0.0)))


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of all tables, one after the other, and people whose outcome is known.

    Attributes
    ----------
    targets : BlockTargets
    n : (B,)
        People that the tables count.
    weight : (B,)
        Those that the rows of each block stand for.
    means : (B, d + 1)
        Of the features, and last of the offset.
    """

    targets: BlockTargets
    n: IntArray
    weight: FloatArray
    means: FloatArray

    @classmethod
    def of(cls, problem: Problem) -> Blocks:
        """Read them off what was published."""
        design = problem.design
        sums = design.block_means * np.where(design.people > 0, design.people, 1.0)[:, None]
        targets, means = [], []
        people: list[FloatArray] = []
        for table, codes in zip(problem.tables, problem.codes, strict=True):
            size = len(table.counts.n)
            here = np.bincount(codes, design.people, size).astype(np.float64)
            if size == len(codes):
                total = sums[np.argsort(codes)] if (np.diff(codes) != 1).any() else sums
            else:
                cells = np.arange(len(codes))
                total = csr_array((np.ones(len(codes)), (codes, cells)), (size, len(codes))) @ sums
            targets.append(table.targets())
            people.append(here)
            means.append(total / np.where(here > 0, here, 1.0)[:, None])
        n = [table.counts.n for table in problem.tables]
        if problem.known is not None:
            own = problem.known
            values = own.first.means
            nobody = np.full(len(own.first.counts.n), np.nan)
            targets.append(BlockTargets(nobody if values is None else values, nobody))
            n.append(own.first.counts.n)
            people.append(own.design.people)
            means.append(own.design.block_means)
        mean, variance = (
            np.concatenate([getattr(each, name) for each in targets])
            for name in ("mean", "variance")
        )
        return cls(
            BlockTargets(mean, variance),
            np.concatenate(n),
            np.concatenate(people),
            np.concatenate(means),
        )

    @property
    def pooled(self) -> float:
        """The mean of all targets."""
        known = self.targets.known
        people = self.n[known].astype(float)
        return float(people @ self.targets.mean[known] / people.sum())

    @property
    def variance(self) -> float:
        """The variance of all targets."""
        known = self.targets.known
        return pooled_variance(self.targets, self.n[known].astype(float), self.pooled)


def starting_point(problem: Problem) -> FloatArray:
    """Return free parameters to start from.

    Slopes come from the regression of block means, of all tables, on block means; the scale from
    the variance within blocks that those slopes leave unexplained, or from the residuals of the
    block means where there is no table. One-way tables of the features make it good: their blocks
    differ by just these features.
    """
    family = problem.family
    if family.free_shape:
        return null_point(problem)
    blocks = Blocks.of(problem)
    pooled, total = blocks.pooled, blocks.variance
    nuisance = family.start_nuisance(pooled, total)
    shift = int(problem.design.fit_intercept)
    weight = blocks.weight if len(problem.tables) == 1 else blocks.n
    found = regress_means(blocks.means, weight, blocks.targets.mean, family, nuisance, shift)
    if not np.isfinite(blocks.targets.variance).any():
        nuisance = family.start_nuisance(pooled, found.residual_variance)
    else:
        within = float(np.nanmean(blocks.targets.variance))
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
    family, theta = problem.family, np.zeros(problem.coordinates.n_theta)
    if family.free_shape:
        return problem.coordinates.join(theta, family.start_thresholds(_shares_below(problem)))
    blocks = Blocks.of(problem)
    if problem.design.fit_intercept:
        theta[0] = float(family.link(family.interior(np.array([blocks.pooled])))[0])
    nuisance = family.start_nuisance(blocks.pooled, blocks.variance)
    return problem.coordinates.join(theta, nuisance)


def _shares_below(problem: Problem) -> FloatArray:
    """Return the share of people at or below each cut, in all tables that have it."""
    below, people = (np.zeros(problem.grid.n_bins - 1) for _ in range(2))
    tables = list(zip(problem.tables, problem.grid.last, strict=True))
    if problem.known is not None:
        tables.append((problem.known.first, np.arange(1, len(below) + 2)))
    for table, last in tables:
        pooled = table.counts.count[table.counts.known].sum(axis=0)
        cuts = last[: len(pooled) - 1] - 1
        below[cuts] += np.cumsum(pooled)[:-1]
        people[cuts] += pooled.sum()
    return np.asarray(np.maximum.accumulate(below / np.maximum(people, 1)))


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
    """Return the mean variance of eta within groups."""
    design, group = problem.design, problem.plan.group
    slopes = theta.copy()
    slopes[: design.fit_intercept] = 0.0
    sums = design.block_sums(eta_sums, slopes)
    total, people = sums[:, 0], design.people.astype(np.float64)
    if not problem.layout.plain:
        total, people = (np.bincount(group, e).astype(np.float64) for e in (total, people))
    between = total**2 / np.where(people > 0, people, 1.0)
    return max(float(sums[:, 1].sum() - between.sum()) / design.n_people, 0.0)


@kernel
def eta_sums(rows: Rows, theta: FloatArray) -> tuple[FloatArray]:
    """Return the sums of eta and of its square, by block."""
    eta = rows.eta(theta)
    return (np.column_stack([rows.sums(eta), rows.sums(eta * eta)]),)
