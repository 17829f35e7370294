"""Where a matching fit starts: a regression of block means, or a random direction."""

from __future__ import annotations

import numpy as np

from unbin._typing import FloatArray
from unbin.families import Family
from unbin.matching.bounds import RankBounds
from unbin.rows.design import Design


def block_means_start(
    design: Design, bounds: RankBounds, family: Family, rng: np.random.Generator
) -> FloatArray:
    """Regress the link of each block's rough mean on its average features, by ridge.

    A single block, or blocks with equal averages, give no slopes; all means would tie, so the
    start is then a random one.
    """
    mean = block_target_means(bounds)
    eta = family.link(family.interior(mean)) - design.block_means[:, -1]
    silent = bounds.silent(family.domain)[bounds.run_start[:-1]]
    people = np.where(silent, 0.0, design.people)
    columns = design.block_means[:, :-1]
    if design.fit_intercept:
        columns = np.column_stack([np.ones(len(people)), columns])
    # noise of a block mean times its people is about the noise of a person: a penalty of one
    # person per feature keeps slopes that the blocks hardly determine from diverging
    penalty = np.full(columns.shape[1], float(design.varies.sum() + design.fit_intercept))
    penalty[: design.fit_intercept] = 0.0
    gram = columns.T @ (people[:, None] * columns) + np.diag(penalty)
    theta = np.asarray(np.linalg.solve(gram, columns.T @ (people * eta)), dtype=np.float64)
    if len(people) == 1 or not np.any(np.abs(theta[design.fit_intercept :]) > 1e-9):
        return random_start(design, bounds, family, rng)
    return theta


def random_start(
    design: Design, bounds: RankBounds, family: Family, rng: np.random.Generator
) -> FloatArray:
    """Draw slopes at random, as large as the spread of the published targets."""
    people = np.where(bounds.silent(family.domain), 0, bounds.people())
    eta = family.link(family.interior(bounds.middle()))
    center = np.average(eta, weights=people)
    spread = np.sqrt(np.average((eta - center) ** 2, weights=people))
    d = len(design.scale)
    slopes = rng.standard_normal(d) * (spread if spread > 0 else 1.0) / np.sqrt(d)
    return np.concatenate([np.full(int(design.fit_intercept), center), slopes])


def block_target_means(bounds: RankBounds) -> FloatArray:
    """Return a rough mean of each block's targets: ranks at the middle of their bounds."""
    sums = np.add.reduceat(bounds.people() * bounds.middle(), bounds.run_start[:-1])
    return np.asarray(sums / np.diff(bounds.start))
