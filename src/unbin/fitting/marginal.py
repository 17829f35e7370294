"""Average marginal effects, with standard errors by the delta method.

The effect of a column is the mean, over people, of the derivative of a person's mean outcome in it;
of a column of zeros and ones, of the mean at 1 less that at 0. Everything else stays as it is:
people as they are, other columns too.

References
----------
Williams, R. (2012). Using the margins command to estimate and interpret adjusted predictions and
marginal effects. *Stata Journal*, 12, 308-331.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbin._typing import BoolArray, FloatArray
from unbin.exceptions import ParameterError
from unbin.fitting.delta import Covariates, MeanCurve, parameter_covariance, tiles
from unbin.fitting.model import Fit
from unbin.fitting.tabulate import covariance_of
from unbin.rows.design import Design
from unbin.rows.rows import Rows

SLOPE, SWITCH = "dY/dX", "1 - 0"
"""Kinds of effects, as others call them."""
_ROUNDING = 1e-9
"""Distance of a standardised column, put back, from 0 or 1."""


@dataclass(frozen=True, slots=True)
class Persons:
    """People over whom effects are averaged.

    Attributes
    ----------
    columns : (n, k)
        Features, then block means that have contextual effects.
    eta : (n,)
    weights : (n,) or None
        What each row counts.
    """

    columns: FloatArray
    eta: FloatArray
    weights: FloatArray | None

    def switches(self) -> BoolArray:
        """Mark the columns of zeros and ones that have both, (k,)."""
        x = self.columns
        return np.asarray(((x == 0) | (x == 1)).all(axis=0) & (x.min(axis=0) < x.max(axis=0)))


@dataclass(frozen=True, slots=True)
class AverageEffects:
    """Average marginal effects of all columns: ``estimate``, ``standard_error`` and ``kind``."""

    estimate: FloatArray
    standard_error: FloatArray
    kind: tuple[str, ...]


def average_effects(curve: MeanCurve, people: Persons) -> AverageEffects:
    """Return the average effect of every column, (k,)."""
    fit = curve.fit
    slopes = slopes_of(fit)
    switches = people.switches()
    total, estimate, gradient = _sums(curve, people, slopes, switches)
    estimate, gradient = estimate / total, gradient / total
    covariance = parameter_covariance(fit)
    used = np.where(np.isnan(np.diag(covariance)), gradient != 0, False).any(axis=1)
    variance = np.einsum("jk,kl,jl->j", gradient, np.nan_to_num(covariance), gradient)
    own = np.diag(covariance_of(fit))[1:]
    lost = used | np.isnan(own)
    errors = np.where(lost, np.nan, np.sqrt(np.maximum(variance, 0.0)))
    return AverageEffects(estimate, errors, tuple(np.where(switches, SWITCH, SLOPE).tolist()))


def slopes_of(fit: Fit) -> FloatArray:
    """Return slopes and contextual effects, (k,)."""
    if fit.contextual_coef is None or fit.context is None:
        return fit.coef
    return np.concatenate([fit.coef, fit.contextual_coef[fit.context.used]])


def training_people(fit: Fit) -> Persons:
    """Return the people a model was fitted to; raise where it does not hold them."""
    design = fit.people
    if design is None or type(design.rows) is not Rows:
        raise ParameterError(
            "marginal_effects: this model holds no people (it was copied or loaded, or they are "
            "not in an array in memory); pass their features, marginal_effects(X)"
        )
    columns, rows = _columns(design), design.rows
    eta = fit.intercept + columns @ slopes_of(fit) + rows.offset
    return Persons(columns, np.asarray(eta), rows.weights)


def persons(
    fit: Fit, people: Covariates, offset: FloatArray | None, weights: FloatArray | None
) -> Persons:
    """Return other people, with their features."""
    columns = people.columns(slice(None))[:, 1:]
    eta = fit.intercept + columns @ slopes_of(fit)
    return Persons(columns, np.asarray(eta if offset is None else eta + offset), weights)


def _columns(design: Design) -> FloatArray:
    """Return the columns of a design as they were, zeros and ones exactly."""
    found = design.in_memory().matrix * design.scale + design.center
    whole = np.rint(found)
    near = (np.abs(found - whole) < _ROUNDING).all(axis=0)
    return np.where(near, whole, found)


def _sums(
    curve: MeanCurve, people: Persons, slopes: FloatArray, switches: BoolArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return the weights' sum, and weighted sums of effects and of their gradients.

    Parameters of the gradient are the intercept, slopes and, of an ordinal fit, thresholds.
    """
    moved, k = curve.moved(), len(slopes)
    total, estimate, gradient = 0.0, np.zeros(k), np.zeros((k, 1 + k + len(moved)))
    for rows in tiles(len(people.eta)):
        x, eta = people.columns[rows], people.eta[rows]
        w = np.ones(len(eta)) if people.weights is None else people.weights[rows]
        columns = np.column_stack([np.ones(len(x)), x])
        total += float(w.sum())
        slope = float(w @ curve.slope(eta))
        by_slope = (w * curve.curvature(eta)) @ columns
        by_threshold = [
            float(w @ (up.slope(eta) - down.slope(eta))) / (2 * step) for up, down, step in moved
        ]
        smooth = np.flatnonzero(~switches)
        estimate[smooth] += slope * slopes[smooth]
        gradient[smooth] += slopes[smooth, None] * np.concatenate([by_slope, by_threshold])
        gradient[smooth, 1 + smooth] += slope
        for j in np.flatnonzero(switches):
            on, off = eta + (1 - x[:, j]) * slopes[j], eta - x[:, j] * slopes[j]
            estimate[j] += float(w @ (curve.mean(on) - curve.mean(off)))
            up_slope = w * curve.slope(on)
            row = (up_slope - w * curve.slope(off)) @ columns
            row[1 + j] = up_slope.sum()  # the column itself is 1 there, and 0 on the other side
            gradient[j, : 1 + k] += row
            gradient[j, 1 + k :] += [
                float(w @ (up.mean(on) - up.mean(off) - down.mean(on) + down.mean(off)))
                / (2 * step)
                for up, down, step in moved
            ]
    return total, estimate, gradient
