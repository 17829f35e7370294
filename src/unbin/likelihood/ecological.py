"""Regression of block means on block means: the ecological estimate, and the start of scoring.

Each block's mean is read off its table (a published mean, else bins at representative values,
else the middle order statistic) and regressed on the means of its features with the family's
link. It ignores the spread within blocks, so it is biased where the link is curved, but it needs no
start and no pass over people.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbin._typing import BoolArray, FloatArray
from unbin.families import Family
from unbin.likelihood.counts import PublishedCounts
from unbin.rows.design import Design
from unbin.rows.kernels import kernel
from unbin.rows.rows import Rows

_SWEEPS = 12
_SHRINK = 1e-2
_SAMPLE = 20_000
"""People who are enough for the mean of a bin."""
_FARTHEST = 1e100
"""The mean of a bin beyond which its square overflows in sums."""


@dataclass(frozen=True, slots=True)
class BlockTargets:
    """A mean and a variance per block, read off its table.

    Attributes
    ----------
    mean, variance : (B,)
        NaN where nothing was published.
    """

    mean: FloatArray
    variance: FloatArray

    @property
    def known(self) -> BoolArray:
        """Blocks about which something was published."""
        return np.isfinite(self.mean)


@dataclass(frozen=True, slots=True)
class EcologicalFit:
    """Block-means regression: theta as in ``Design``, its covariance (robust over blocks)."""

    theta: FloatArray
    covariance: FloatArray
    residual_variance: float


def block_targets(
    counts: PublishedCounts,
    means: FloatArray | None = None,
    middle: FloatArray | None = None,
    *,
    value: FloatArray | None = None,
) -> BlockTargets:
    """Read each block's mean and variance off its counts, or take the published mean.

    Blocks without counts or mean take ``middle``, a published value near their median. ``value``
    are the means of the bins, (B, K) or (K,); representative values when left out.
    """
    if value is None:
        value = representative_values(counts)
    c, n = counts.count, counts.n
    mean = np.where(counts.known, (c * value).sum(axis=1) / n, np.nan)
    variance = (c * (value - mean[:, None]) ** 2).sum(axis=1) / n
    variance = np.where(counts.known, variance, np.nan)
    if means is not None:
        mean = np.where(np.isfinite(means), means, mean)
    if middle is not None:
        mean = np.where(np.isfinite(mean), mean, middle)
    return BlockTargets(mean, variance)


def representative_values(counts: PublishedCounts) -> FloatArray:
    """Return one value per bin, shape (B, K): midpoints, and exponential tails at open ends.

    An open end has the mean excess that makes its density meet its neighbour's, between a quarter
    of and twice the neighbour's width. Padding gets 0.
    """
    shape = counts.count.shape
    lower, upper = (np.broadcast_to(edge, shape) for edge in (counts.lower, counts.upper))
    if counts.whole:  # (a, b] holds the integers a + 1 to b, and none is below 0
        lower, upper = np.maximum(np.floor(lower), -1) + 0.5, np.floor(upper) + 0.5
    width = upper - lower
    inner = np.isfinite(width) & (width >= 0)
    share = counts.count.sum(axis=0)[None, :] if counts.shared else counts.count
    density = np.where(inner, (share + 0.5) / np.maximum(width, 0.5 * _typical(width, inner)), 0.0)
    fallback = _typical(width, inner)
    scale = _tail(share + 0.5, np.roll(density, -1, axis=1), np.roll(width, -1, axis=1), fallback)
    below = np.isneginf(lower) & np.isfinite(upper)
    result = np.where(inner, 0.5 * (np.where(inner, lower, 0.0) + np.where(inner, upper, 0.0)), 0.0)
    result = np.where(below, np.where(below, upper, 0.0) - scale, result)
    scale = _tail(share + 0.5, np.roll(density, 1, axis=1), np.roll(width, 1, axis=1), fallback)
    above = np.isposinf(upper) & np.isfinite(lower)
    return np.where(above, np.where(above, lower, 0.0) + scale, result)


def fitted_values(
    design: Design,
    family: Family,
    counts: PublishedCounts,
    theta: FloatArray,
    nuisance: FloatArray,
) -> FloatArray | None:
    """Return the mean of each shared bin over all people, as a fit has it; else None.

    Representative values are off where bins are wide, and by more in the tails.
    """
    if not counts.shared or family.free_shape:
        return None
    step = max(1, design.n_people // _SAMPLE)
    total, weighted = design.total(
        bin_value_sums, family, counts.lower, counts.upper, theta, nuisance, step
    )
    if not (total > 0).all():
        return None
    value = np.asarray(weighted / total)
    # a fit that diverged can put an open bin anywhere
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
    return q.sum(axis=0), (q * within).sum(axis=0)


def _typical(width: FloatArray, inner: BoolArray) -> float:
    positive = width[inner & (width > 0)]
    return float(np.median(positive)) if positive.size else 1.0


def _tail(count: FloatArray, density: FloatArray, width: FloatArray, fallback: float) -> FloatArray:
    """Return the mean excess of an open bin over its edge."""
    usable = density > 0
    width = np.where(usable, width, fallback)
    excess = np.where(usable, count / np.where(usable, density, 1.0), 0.5 * fallback)
    return np.asarray(np.clip(excess, 0.25 * width, 2.0 * width))


def block_means_regression(
    design: Design, family: Family, targets: BlockTargets, nuisance: FloatArray
) -> EcologicalFit:
    """Regress the blocks' means on the means of their features, weighted by people.

    A ridge of one hundredth of the mean diagonal keeps it defined with few blocks.
    """
    known = targets.known
    shift = int(design.fit_intercept)
    people = design.size[known].astype(float)
    x, offset = design.block_means[known, :-1], design.block_means[known, -1]
    if shift:
        x = np.column_stack([np.ones(len(x)), x])
    y = family.interior(targets.mean[known])
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
    """Return how far eta may sensibly move in a sweep: its own size, at least 1."""
    return max(1.0, float(np.abs(eta).max(initial=0.0)))
