"""Whether slopes of categories are estimated, and whether a fit may be trusted.

The rules are those of :mod:`unbin.likelihood.infer.verdicts`, where they have a meaning for
categories: a count in K categories has no shape beside its levels, so that there is no test of the
shape.
"""

from __future__ import annotations

import numpy as np

from unbin._typing import BoolArray, FloatArray
from unbin.categories.fit import CategoryFit
from unbin.categories.problem import contrasts
from unbin.likelihood.infer.verdicts import (
    Verdict,
    constant_features,
    reach_of_ratio,
    without_information,
)
from unbin.likelihood.thresholds import (
    BLOCKS_PER_SLOPE,
    CONTEXT_LEVEL,
    LARGEST_MISFIT,
)

_LATENT_SD = np.pi / np.sqrt(3)
"""Of a logistic variable: the scale of a logit."""
_LARGEST_STEP, _LARGEST_STEP_ERROR = 15.0, 5.0
"""Effect of a feature on a logit over its range, and its standard error, where it ran away."""


def judge(fit: CategoryFit) -> Verdict:
    """Judge a fit; a verdict per category and feature, those of the first category first."""
    problem, design = fit.problem, fit.problem.design
    basis, first = contrasts(problem.n_categories), int(design.fit_intercept)
    d, n_columns = len(design.scale), problem.n_columns
    whole = np.kron(basis, np.eye(n_columns))
    variance = np.einsum("ip,pq,iq->i", whole, fit.precision.covariance, whole)
    errors = np.sqrt(np.maximum(variance, 0.0)).reshape(-1, n_columns)[:, first : first + d]
    lost, why = _not_estimable(fit, errors)
    factor = reach_of_ratio(design, errors)
    return Verdict.of(errors / _LATENT_SD, factor, lost, why, tuple(_reasons(fit)))


def _not_estimable(fit: CategoryFit, errors: FloatArray) -> tuple[BoolArray, str]:
    """Mark slopes (K, d) that what was published does not change with, and say why."""
    problem, design = fit.problem, fit.problem.design
    k, d = errors.shape
    none, first = np.zeros((k, d), dtype=bool), int(design.fit_intercept)
    constant = constant_features(design)
    lost = np.asarray(none | ~design.varies)
    n_blocks = sum(int(table.known.sum()) for table in problem.tables)
    if problem.known is None and n_blocks <= 1:
        return ~none, (
            "not estimable: one block alone does not tell how categories depend on features; give "
            "tables of several blocks"
        )
    if problem.groups.n > 1:  # levels have a prior
        return lost, constant or ""
    information = fit.root.sums.information
    each = without_information(information, len(information))
    flat = np.asarray(each.reshape(fit.root.gamma.shape).any(axis=0))
    if flat[first : first + d][design.varies].any():
        return lost | flat[first : first + d], constant or (
            "not estimable: the blocks differ in fewer ways than there are slopes, so that other "
            "slopes give the same counts; use fewer features, or more tables"
        )
    theta = contrasts(problem.n_categories) @ fit.root.gamma
    step = np.abs(theta[:, first : first + d]) * design.ranges
    diverged = (step > _LARGEST_STEP) & (errors * design.ranges > _LARGEST_STEP_ERROR)
    if diverged.any():
        return lost | diverged, constant or (
            "not estimable: some slopes ran away, as if a feature told a category exactly; merge "
            "rare categories, or drop the feature"
        )
    return lost, constant or ""


def _reasons(fit: CategoryFit) -> list[str]:
    """Say why a fit is not to be trusted, a sentence each."""
    problem, root = fit.problem, fit.root
    found = [] if root.status.converged else [root.status.value]
    tables = (root.sums.first, *root.sums.others)
    several = len(problem.tables) > 1 or problem.known is not None
    n_blocks, d = int(problem.counts.known.sum()), int(problem.design.varies.sum())
    if not several and n_blocks < BLOCKS_PER_SLOPE * d:
        found.append(
            f"{n_blocks} blocks are too few for {d} slopes of each category, at least "
            f"{BLOCKS_PER_SLOPE * d} are needed; use fewer features, or more tables"
        )
    df = float(sum(table.df.sum() for table in tables)) - root.gamma.size
    misfit = float(sum(table.misfit.sum() for table in tables))
    if several and df > 0 and misfit / df > LARGEST_MISFIT:
        found.append(
            f"the tables differ from the model {misfit / df:.1f} times as much as it says; add "
            "features, or interactions"
        )
    if fit.context is not None and fit.context.p_value < CONTEXT_LEVEL:
        found.append(
            f"block means of the features have effects of their own (p = "
            f"{fit.context.p_value:.2g}): blocks differ for reasons related to the features; try "
            "contextual=0.25, or more tables"
        )
    return found
