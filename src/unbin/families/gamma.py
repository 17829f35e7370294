"""Positive targets with constant coefficient of variation, log link."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit
from scipy.special import gammaln, psi

from unbin.families.base import (
    LARGEST_ETA,
    BinModel,
    DensityModel,
    Family,
    Interval,
    Units,
    as_rows,
    exp_within,
    keep_in_bins,
    log_link_mean,
    log_of,
)
from unbin.families.normal import NARROW
from unbin.typing import FloatArray

MAX_TERMS = 20_000
_PRECISION = 1e-17
_TWO_POINT = 0.5 / math.sqrt(3.0)
_LARGEST_SHAPE, _SMALLEST_SHAPE = 1e5, 1e-8
"""Beyond these the dispersion no longer counts; a spread of 0.3 % of the mean is the least."""


@dataclass(frozen=True, slots=True)
class Gamma(Family):
    """Positive targets with variance dispersion · mean².

    link(mean) = log mean, domain [0, inf). With shape = 1/dispersion the density is
    (shape/mean)^shape y^(shape - 1) exp(-shape y/mean)/Gamma(shape).
    Nuisance: log_dispersion.
    """

    name: ClassVar[str] = "gamma"
    nuisance_names: ClassVar[tuple[str, ...]] = ("log_dispersion",)

    @property
    def domain(self) -> Interval:
        return Interval(0.0, np.inf)

    def link(self, mean: FloatArray) -> FloatArray:
        return log_of(mean)

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        return log_link_mean(eta)

    def mean_derivative(self, eta: FloatArray) -> FloatArray:
        return self.inverse_link(eta)

    def interior(self, mean: FloatArray) -> FloatArray:
        return np.maximum(mean, 1e-8)

    def variance(self, eta: FloatArray, nuisance: FloatArray) -> FloatArray:
        mean = self.inverse_link(eta)
        return mean * mean / shape_of(nuisance)

    def bins(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> BinModel:
        q, d_eta, d_log_shape = _bins_of_shape(eta, lower, upper, shape_of(nuisance))
        return BinModel(q, d_eta, -d_log_shape[None])

    def bin_means(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> FloatArray:
        # y times the density is mean times the density of shape + 1 and the same scale
        shape, mean = shape_of(nuisance), self.inverse_link(eta)
        q = _bins_of_shape(eta, lower, upper, shape)[0]
        above = _bins_of_shape(eta + math.log1p(1 / shape), lower, upper, shape + 1)[0]
        ratio = np.divide(above, q, out=np.ones_like(q), where=q > 0)
        return keep_in_bins(mean[:, None] * ratio, mean, np.maximum(lower, 0), upper)

    def density(self, y: FloatArray, eta: FloatArray, nuisance: FloatArray) -> DensityModel:
        shape, points = shape_of(nuisance), as_rows(y)
        positive = points > 0
        safe = np.where(positive, points, 1.0)
        log_ratio = np.log(safe) - eta[:, None]
        ratio = np.exp(np.minimum(log_ratio, LARGEST_ETA))
        log_shape_excess, log_scale = constants(shape)
        density = np.exp(shape * (log_ratio - (ratio - 1)) + log_scale) / safe * positive
        d_log_shape = density * shape * (log_ratio + 1 - ratio + log_shape_excess)
        return DensityModel(density, density * shape * (ratio - 1), -d_log_shape[None])

    def start_nuisance(self, mean: float, variance: float) -> FloatArray:
        dispersion = variance / max(mean, 1e-8) ** 2
        return np.array([np.log(np.clip(dispersion, 1e-4, 100.0))])

    def units(self, center: float, spread: float) -> Units:
        return Units(scale=center, level=math.log(center)) if center > 0 else Units()


def shape_of(nuisance: FloatArray) -> float:
    """Return the shape, kept where the dispersion counts."""
    return exp_within(-nuisance[0], math.log(_SMALLEST_SHAPE), math.log(_LARGEST_SHAPE))


def constants(shape: float) -> tuple[float, float]:
    """Return log(shape) - psi(shape) and shape log(shape) - shape - log Gamma(shape)."""
    if shape < 100:
        log_scale = shape * math.log(shape) - shape - float(gammaln(shape))
    else:  # Stirling's series, where the difference would lose digits
        log_scale = 0.5 * math.log(shape / (2 * math.pi)) - (1 - 1 / (30 * shape**2)) / (12 * shape)
    return math.log(shape) - float(psi(shape)), log_scale


def _bins_of_shape(
    eta: FloatArray, lower: FloatArray, upper: FloatArray, shape: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return q, dq/d eta and dq/d log shape, each (n, K)."""
    low, high = np.maximum(as_rows(lower), 0.0), as_rows(upper)
    eta = np.clip(eta, -LARGEST_ETA, LARGEST_ETA)
    q, d_eta, d_log_shape = _gamma_bins(eta, low, high, shape, *constants(shape))
    return q, d_eta, d_log_shape


@njit(cache=True, nogil=True)
def _lower_sum(shape, x):  # type: ignore[no-untyped-def]
    """Return S and d log S/d shape, where P(shape, x) = x^shape exp(-x)/Gamma(shape) S."""
    term = 1.0 / shape
    harmonic = term
    total, slope = term, -term * harmonic
    for j in range(1, MAX_TERMS):
        harmonic += 1.0 / (shape + j)
        term *= x / (shape + j)
        total += term
        slope -= term * harmonic
        if term * harmonic < -_PRECISION * slope:
            break
    return total, slope / total


@njit(cache=True, nogil=True)
def _upper_fraction(shape, x):  # type: ignore[no-untyped-def]
    """Return h and d log h/d shape, where Q(shape, x) = x^shape exp(-x)/Gamma(shape) h.

    The continued fraction of the upper incomplete gamma function by Lentz's method, with the
    derivative of every step carried along.
    """
    b = x + 1.0 - shape
    c, dc = 1e300, 0.0
    d, dd = 1.0 / b, 1.0 / (b * b)
    h, slope = d, dd / d
    for j in range(1, MAX_TERMS):
        a = -j * (j - shape)
        b += 2.0
        bottom = b + a * d
        dd = -(-1.0 + j * d + a * dd) / (bottom * bottom)
        d = 1.0 / bottom
        dc = -1.0 + j / c - a * dc / (c * c)
        c = b + a / c
        h *= c * d
        step = dc / c + dd / d
        slope += step
        if abs(c * d - 1.0) < 1e-16 and abs(step) < 1e-15 * abs(slope) + 1e-17:
            break
    return h, slope


@njit(cache=True, nogil=True)
def _edge(y, eta, shape, log_shape_excess, log_scale):  # type: ignore[no-untyped-def]
    """Return the tail beyond y, whether it is the upper one, -dF/d eta and dF/d log shape."""
    if y <= 0:
        return 0.0, False, 0.0, 0.0
    log_ratio = math.log(y) - eta
    if y == np.inf or log_ratio > 600:
        return 0.0, True, 0.0, 0.0
    ratio = math.exp(log_ratio)
    x = shape * ratio
    front = math.exp(shape * (log_ratio - (ratio - 1)) + log_scale)
    if front == 0:
        return 0.0, ratio > 1, 0.0, 0.0
    if x < shape + 1:
        factor, slope = _lower_sum(shape, x)
        d_log_shape = front + shape * front * factor * (log_ratio + log_shape_excess + slope)
        return front * factor, False, front, d_log_shape
    factor, slope = _upper_fraction(shape, x)
    d_log_shape = front - shape * front * factor * (log_ratio + log_shape_excess + slope)
    return front * factor, True, front, d_log_shape


@njit(cache=True, nogil=True)
def _narrow_bin(low, high, eta, shape, log_shape_excess, log_scale):  # type: ignore[no-untyped-def]
    """Return q, dq/d eta and dq/d log shape of a narrow bin, by two points of its density."""
    q, first, second = 0.0, 0.0, 0.0
    half = _TWO_POINT * (high - low)
    for y in (0.5 * (low + high) - half, 0.5 * (low + high) + half):
        log_ratio = math.log(y) - eta
        ratio = math.exp(log_ratio)
        f = math.exp(shape * (log_ratio - (ratio - 1)) + log_scale) / y * 0.5 * (high - low)
        q += f
        first += f * shape * (ratio - 1)
        second += f * shape * (log_ratio + 1 - ratio + log_shape_excess)
    return q, first, second


@njit(cache=True, nogil=True)
def _gamma_bins(eta, lower, upper, shape, log_shape_excess, log_scale):  # type: ignore[no-untyped-def]
    """Return q, dq/d eta and dq/d log shape, each (n, K)."""
    n, k_bins = len(eta), lower.shape[1]
    # one block: the allocator keeps it from call to call; rows are last in it, and first outside
    block = np.zeros((3, k_bins, n))
    q, d_eta, d_log_shape = block[0].T, block[1].T, block[2].T
    for i in range(n):
        row = i if len(lower) > 1 else 0
        before, last = (0.0, False, 0.0, 0.0), 0.0
        for k in range(k_bins):
            low, high = lower[row, k], upper[row, k]
            if not low < high:
                continue
            if low != last:
                before = _edge(low, eta[i], shape, log_shape_excess, log_scale)
            after, last = _edge(high, eta[i], shape, log_shape_excess, log_scale), high
            if before[1]:
                mass = before[0] - after[0]
            elif not after[1]:
                mass = after[0] - before[0]
            else:
                mass = 1 - before[0] - after[0]
            q[i, k], d_eta[i, k] = mass, before[2] - after[2]
            d_log_shape[i, k] = after[3] - before[3]
            if low > 0 and mass < NARROW * max(before[0], after[0]):
                q[i, k], d_eta[i, k], d_log_shape[i, k] = _narrow_bin(
                    low, high, eta[i], shape, log_shape_excess, log_scale
                )
            before = after
    return q, d_eta, d_log_shape
