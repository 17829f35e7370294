"""What a fit does not know of the means it predicts: the delta method.

The mean of a person is a function of the linear predictor and, of an ordinal fit, of the
thresholds. With g its gradient in all parameters and V their covariance its variance is gᵀ V g.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbin._frames import is_wide
from unbin._typing import ArrayLike, FloatArray
from unbin.fitting.model import Fit
from unbin.fitting.predictions import predict_mean
from unbin.fitting.tabulate import covariance_of
from unbin.fitting.transforms import Identity

_STEP = 1e-4
"""Step of numeric derivatives on a log or logit scale."""
_LATENT_STEP = 1 / 16
"""The same on that of an ordinal fit, whose means are interpolated between points so far apart."""
_THRESHOLD_STEP = 1e-3
TILE = 1 << 13
"""Rows worked on at a time."""


@dataclass(frozen=True, slots=True)
class MeanCurve:
    """The mean of the target as a function of the linear predictor, block effects averaged over."""

    fit: Fit
    transform: Identity

    def mean(self, eta: FloatArray) -> FloatArray:
        """Return the mean of the target itself, (n,)."""
        return self.transform.mean(predict_mean(self.fit, eta), self._spread)

    def slope(self, eta: FloatArray) -> FloatArray:
        """Return d mean / d eta, (n,)."""
        if self.fit.bins is not None:
            return _derivative(self.mean, eta, _LATENT_STEP)
        modelled = self.fit.over_effects(self.fit.family.mean_derivative, eta)
        outer = self.transform.mean_derivative(predict_mean(self.fit, eta), self._spread)
        return np.asarray(outer * modelled)

    def curvature(self, eta: FloatArray) -> FloatArray:
        """Return d² mean / d eta², (n,)."""
        step = _STEP if self.fit.bins is None else _LATENT_STEP
        return _derivative(self.slope, eta, step)

    def moved(self) -> list[tuple[MeanCurve, MeanCurve, float]]:
        """Return the curve with each threshold of an ordinal fit moved up and down, and how far."""
        bins = self.fit.bins
        if bins is None:
            return []
        t = bins.thresholds
        step = min(_THRESHOLD_STEP, 0.25 * float(np.diff(t).min(initial=np.inf)))
        moves = step * np.eye(len(t))
        both = [
            [replace(self, fit=replace(self.fit, bins=replace(bins, thresholds=t + sign * move)))
             for sign in (1, -1)]
            for move in moves
        ]  # fmt: skip
        return [(up, down, step) for up, down in both]

    @property
    def _spread(self) -> float:
        return self.fit.dispersion + self.fit.block_sd**2


@dataclass(frozen=True, slots=True)
class Covariates:
    """What the linear predictor of some people is made of.

    Attributes
    ----------
    X : (n, d) array, or matrix of tabmat
    context : (n, u)
        Block means that have contextual effects.
    """

    X: Any
    context: FloatArray

    def columns(self, rows: slice) -> FloatArray:
        """Return 1, features and block means of some people, (m, 1 + d + u)."""
        X = self.X[rows].toarray() if is_wide(self.X) else self.X[rows]
        return np.column_stack([np.ones(len(X)), X, self.context[rows]])


def covariates(
    fit: Fit,
    X: Any,
    blocks: ArrayLike | None = None,
    block_means: Mapping[Any, ArrayLike] | None = None,
) -> Covariates:
    """Return what the linear predictor of new people is made of."""
    n = X.shape[0]
    if fit.context is None:
        return Covariates(X, np.empty((n, 0)))
    return Covariates(X, fit.context.rows(n, blocks, block_means)[:, fit.context.used])


def mean_std(curve: MeanCurve, people: Covariates, eta: FloatArray) -> FloatArray:
    """Return the standard deviation of predicted means, (n,)."""
    covariance, found = parameter_covariance(curve.fit), np.empty(len(eta))
    moved = curve.moved()
    for rows in tiles(len(eta)):
        gradient = curve.slope(eta[rows])[:, None] * people.columns(rows)
        by_threshold = [
            (up.mean(eta[rows]) - down.mean(eta[rows])) / (2 * step) for up, down, step in moved
        ]
        gradient = np.column_stack([gradient, *by_threshold])
        found[rows] = _quadratic(gradient, covariance)
    return np.sqrt(found)


def eta_std(fit: Fit, people: Covariates, eta: FloatArray) -> FloatArray:
    """Return the standard deviation of linear predictors, (n,).

    Of an ordinal fit, of their distance to the nearest threshold: together they may move freely.
    """
    covariance, found = parameter_covariance(fit), np.empty(len(eta))
    for rows in tiles(len(eta)):
        columns = people.columns(rows)
        if fit.bins is not None:
            t = fit.bins.thresholds
            nearest = np.abs(eta[rows, None] - t).argmin(axis=1)
            columns = np.column_stack([columns, -np.eye(len(t))[nearest]])
        found[rows] = _quadratic(columns, covariance)
    return np.sqrt(found)


def parameter_covariance(fit: Fit) -> FloatArray:
    """Return the covariance of intercept, slopes and thresholds; raise where there is none.

    The slope of a column that was the same for everybody is held at 0. Where other slopes are not
    estimable the intercept is not either, and stays NaN.
    """
    covariance_of(fit)
    covariance = fit.parameter_covariance
    assert covariance is not None
    held = np.isnan(np.diag(covariance))
    held[0] = False
    found = covariance.copy()
    found[held, :] = found[:, held] = 0.0
    return found


def tiles(n: int) -> list[slice]:
    """Return rows in tiles of bounded size."""
    return [slice(low, min(low + TILE, n)) for low in range(0, n, TILE)]


def _quadratic(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return xᵀ V x of every row, not below 0."""
    return np.asarray(np.maximum(((rows @ matrix) * rows).sum(axis=1), 0.0))


def _derivative(function: Any, at: FloatArray, step: float) -> FloatArray:
    """Return a derivative by differences of fourth order."""
    near = function(at + step) - function(at - step)
    far = function(at + 2 * step) - function(at - 2 * step)
    return np.asarray((8 * near - far) / (12 * step))
