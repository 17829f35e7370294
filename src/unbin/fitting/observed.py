"""Observed targets: the ordinary GLM, the oracle that other fits are compared with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from unbin._typing import BoolArray, FloatArray
from unbin.exceptions import ParameterError
from unbin.families import BregmanFamily, Family, Units
from unbin.likelihood.infer.evidence import told_by_person
from unbin.matching.objective import Objective
from unbin.matching.solvers import Solution, lbfgs
from unbin.release.units import units_of_values
from unbin.rows.design import Design
from unbin.rows.rows import Rows

_FARTHEST = 10.0
"""A slope whose standard error is larger, on a log or logit scale over the range of its feature,
diverges: it is unknown within any odds that occur in practice."""
_COLLINEAR = 1e-10
"""Eigenvalue of the information, scaled to a unit diagonal, below which columns are dependent."""
_TOL = 1e-7
"""The objective is a sum of rounded numbers, and cannot resolve smaller gradients."""


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
    told : (d,) bool
        Slopes that are estimable: not that of a constant column, nor one that diverges.
    complaint : str
        Why the coefficients are not identified; empty where they are.
    in_nats : bool
        Whether the objective is minus a log density, and not a divergence.
    """

    solution: Solution
    nuisance: FloatArray
    covariance: FloatArray
    told: BoolArray
    complaint: str
    in_nats: bool

    def out_of_units(self, units: Units, *, fit_intercept: bool) -> ObservedFit:
        """Return the fit in the units of the target."""
        solution = self.solution.out_of_units(units, fit_intercept=fit_intercept)
        if self.in_nats:
            level = float(np.log(units.scale))  # of the density
            path = tuple(value + level for value in solution.path)
            solution = replace(solution, value=solution.value + level, path=path)
        return replace(
            self,
            solution=solution,
            nuisance=units.nuisance_out(self.nuisance),
            covariance=self.covariance * units.slope**2,
        )


def fit_observed(
    design: Design, y: FloatArray, family: Family, *, alpha: float, max_iter: int
) -> ObservedFit:
    """Fit the ordinary GLM to the targets of the rows of X."""
    if family.free_shape:
        raise ParameterError(
            f"family: {family.name!r} needs published bins, got observed targets; pass "
            "unbin.aggregate(y, blocks, bins).align(blocks), or choose another family"
        )
    y, weights = y[design.order], design.in_memory().weights
    units = units_of_values(y, family, weights)
    y, design, p = units.into(y), design.in_units(units), design.n_parameters
    theta = np.zeros(p)
    mean = float(np.average(y, weights=weights))
    level = family.link(family.interior(np.full(1, mean))) - design.block_means[0, -1]
    theta[: design.fit_intercept] = level
    if isinstance(family, BregmanFamily):
        objective = Objective(design, family, design.ridge(alpha), z=y)
        solution = lbfgs(objective, theta, tol=_TOL, max_iter=max_iter)
        fitted = p - int((~design.varies).sum())
        nuisance = _moment_nuisance(family, y, design.eta(solution.theta), weights, fitted)
    else:
        variance = float(np.average((y - mean) ** 2, weights=weights))
        start = np.concatenate([theta, family.start_nuisance(mean, variance)])
        density = DensityObjective(design, family, y, design.ridge(alpha))
        solution = lbfgs(density, start, tol=_TOL, max_iter=max_iter)
        nuisance = solution.theta[p:]
    information = _information(design, family, solution.theta[:p], nuisance)
    covariance = _covariance(design, family, information, nuisance, alpha)
    told, complaint = _identification(design, family, information, covariance)
    in_nats = not isinstance(family, BregmanFamily)
    found = ObservedFit(solution, nuisance, covariance, told, complaint, in_nats)
    return found.out_of_units(units, fit_intercept=design.fit_intercept)


@dataclass(frozen=True, slots=True)
class DensityObjective:
    """Minus the mean log density plus the ridge, in theta and the nuisance parameters."""

    design: Design
    family: Family
    y: FloatArray
    ridge: FloatArray

    def evaluate(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its gradient."""
        p, n = self.design.n_parameters, float(self.design.people.sum())
        slopes, nuisance = theta[:p], theta[p:]
        value, gradient = self.design.total(density_sums, self.family, self.y, slopes, nuisance)
        gradient /= n
        gradient[:p] += self.ridge * slopes
        return value / n + 0.5 * float(self.ridge @ slopes**2), gradient

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the expected Hessian in theta, and 1 for each nuisance parameter."""
        p, n = self.design.n_parameters, float(self.design.people.sum())
        result = np.eye(len(theta))
        result[:p, :p] = _information(self.design, self.family, theta[:p], theta[p:]) / n
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
    by_theta = rows.gradient(rows.weighed(model.d_eta[:, 0] / density))
    by_nuisance = rows.weighed((model.d_nuisance[:, :, 0] / density).T).sum(axis=0)
    value = -float(rows.weighed(np.log(density)).sum())
    return value, -np.concatenate([by_theta, by_nuisance])


def _information(
    design: Design, family: Family, theta: FloatArray, nuisance: FloatArray
) -> FloatArray:
    """Return X^T W X with W = (d mean / d eta)² / Var y."""
    return design.gram(theta, partial(told_by_person, family, nuisance))


def _covariance(
    design: Design, family: Family, information: FloatArray, nuisance: FloatArray, alpha: float
) -> FloatArray:
    """Return (I + R)^-1 I (I + R)^-1, which is I^-1 without a ridge."""
    # a divergence is minus the log density times the dispersion
    scale = family.dispersion(nuisance) if isinstance(family, BregmanFamily) else 1.0
    ridge = np.diag(design.ridge(alpha)) * design.people.sum() / scale
    bread = np.linalg.pinv(information + ridge, hermitian=True)
    return np.asarray(bread @ information @ bread)


def _identification(
    design: Design, family: Family, information: FloatArray, covariance: FloatArray
) -> tuple[BoolArray, str]:
    """Return the slopes that are estimable, and why not all of them are."""
    slopes = slice(int(design.fit_intercept), None)
    variance = np.diag(covariance)[slopes]
    told = design.varies & (variance > 0)
    reach = np.sqrt(np.maximum(variance, 0.0)) * design.ranges
    # without a log or logit link eta has no scale of its own, and targets are unbounded
    if np.isfinite(family.domain.low) and (design.varies & (~told | (reach > _FARTHEST))).any():
        return told, (
            "not estimable: some combination of the features predicts the targets of some "
            "people perfectly (separation), so that a coefficient diverges; add a ridge with alpha"
        )
    size = np.sqrt(np.diag(information)[slopes][told])
    scaled = information[slopes, slopes][np.ix_(told, told)] / np.outer(size, size)
    if told.any() and np.linalg.eigvalsh(scaled)[0] < _COLLINEAR:
        return told, (
            "not estimable: some features are combinations of others, so that only sums of their "
            "effects are estimable; drop one of them"
        )
    return told, ""


def _moment_nuisance(
    family: Family, y: FloatArray, eta: FloatArray, weights: FloatArray | None, p: int
) -> FloatArray:
    """Return the log of the residual standard deviation where the family has one."""
    if not family.nuisance_names:
        return np.zeros(0)
    residual = y - family.inverse_link(eta)
    people = np.ones(len(y)) if weights is None else weights
    spread = float(residual @ (people * residual)) / max(float(people.sum()) - p, 1)
    return np.array([0.5 * np.log(max(spread, 1e-300))])
