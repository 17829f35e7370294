"""Targets that were observed: the ordinary GLM, the oracle that other fits are held against."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from unbin.design import Design
from unbin.exceptions import ParameterError
from unbin.families import BregmanFamily, Family
from unbin.likelihood.identification import told_by_person
from unbin.matching.objective import Objective
from unbin.matching.solvers import Solution, lbfgs
from unbin.rows import Rows
from unbin.typing import FloatArray

_TOL = 1e-7
"""The objective is a sum of rounded numbers: it cannot tell smaller gradients apart."""


@dataclass(frozen=True, slots=True)
class ObservedFit:
    """An ordinary GLM.

    Attributes
    ----------
    solution : Solution
        Its theta holds the design's parameters, then the nuisance parameters if these were
        estimated jointly.
    nuisance : (m,)
    covariance : (p, p)
        Of the design's parameters.
    """

    solution: Solution
    nuisance: FloatArray
    covariance: FloatArray


def fit_observed(
    design: Design, y: FloatArray, family: Family, *, alpha: float, max_iter: int
) -> ObservedFit:
    """Fit the ordinary GLM to targets in the order of the design."""
    if family.has_thresholds:
        raise ParameterError(
            f"family: {family.name!r} needs published bins, got observed targets; pass "
            "unbin.aggregate(y, blocks, bins).align(blocks), or choose another family"
        )
    p = design.n_parameters
    theta = np.zeros(p)
    level = family.link(family.interior(np.full(1, y.mean()))) - design.block_means[0, -1]
    theta[: design.fit_intercept] = level
    if isinstance(family, BregmanFamily):
        objective = Objective(design, family, design.ridge(alpha), z=y)
        solution = lbfgs(objective, theta, tol=_TOL, max_iter=max_iter)
        nuisance = _moment_nuisance(family, y, design.eta(solution.theta), p)
    else:
        start = np.concatenate([theta, family.start_nuisance(float(y.mean()), float(y.var()))])
        density = DensityObjective(design, family, y, design.ridge(alpha))
        solution = lbfgs(density, start, tol=_TOL, max_iter=max_iter)
        nuisance = solution.theta[p:]
    covariance = _covariance(design, family, solution.theta[:p], nuisance, alpha)
    return ObservedFit(solution, nuisance, covariance)


@dataclass(frozen=True, slots=True)
class DensityObjective:
    """Minus the mean log density plus the ridge, in theta and the nuisance parameters."""

    design: Design
    family: Family
    y: FloatArray
    ridge: FloatArray

    def evaluate(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its gradient."""
        p, n = self.design.n_parameters, len(self.y)
        slopes, nuisance = theta[:p], theta[p:]
        value, gradient = self.design.total(density_sums, self.family, self.y, slopes, nuisance)
        gradient /= n
        gradient[:p] += self.ridge * slopes
        return value / n + 0.5 * float(self.ridge @ slopes**2), gradient

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the expected Hessian in theta, and 1 for each nuisance parameter."""
        p = self.design.n_parameters
        result = np.eye(len(theta))
        result[:p, :p] = _information(self.design, self.family, theta[:p], theta[p:]) / len(self.y)
        result[:p, :p] += np.diag(self.ridge)
        return result

    def null_divergence(self) -> float:
        """Return the scale of the objective: one nat per person."""
        return 1.0


def density_sums(
    rows: Rows, family: Family, y: FloatArray, theta: FloatArray, nuisance: FloatArray
) -> tuple[float, FloatArray]:
    """Return minus the log density of observed targets, and its gradient."""
    y = y[rows.place : rows.place + len(rows)]
    model = family.density(y[:, None], rows.eta(theta), nuisance)
    density = np.maximum(model.density[:, 0], 1e-300)
    by_theta = rows.gradient(model.d_eta[:, 0] / density)
    by_nuisance = (model.d_nuisance[:, :, 0] / density).sum(axis=1)
    return -float(np.log(density).sum()), -np.concatenate([by_theta, by_nuisance])


def _information(
    design: Design, family: Family, theta: FloatArray, nuisance: FloatArray
) -> FloatArray:
    """Return X^T W X with W = (d mean / d eta)² / Var y."""
    return design.gram(theta, partial(told_by_person, family, nuisance))


def _covariance(
    design: Design, family: Family, theta: FloatArray, nuisance: FloatArray, alpha: float
) -> FloatArray:
    """Return (I + R)^-1 I (I + R)^-1, which is I^-1 without a ridge."""
    information = _information(design, family, theta, nuisance)
    scale = float(np.exp(2 * nuisance[0])) if family.name == "gaussian" else 1.0
    ridge = np.diag(design.ridge(alpha)) * design.n_people / scale
    bread = np.linalg.pinv(information + ridge, hermitian=True)
    return np.asarray(bread @ information @ bread)


def _moment_nuisance(family: Family, y: FloatArray, eta: FloatArray, p: int) -> FloatArray:
    """Return the log of the residual standard deviation where the family has one."""
    if not family.nuisance_names:
        return np.zeros(0)
    residual = y - family.inverse_link(eta)
    spread = float(residual @ residual) / max(len(y) - p, 1)
    return np.array([0.5 * np.log(max(spread, 1e-300))])
