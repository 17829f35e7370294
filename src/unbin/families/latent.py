"""The noise laws of cumulative-link models: logistic and normal, centred at eta, unit scale."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numba import njit
from scipy.special import expit

from unbin.families.base import (
    BinModel,
    DensityModel,
    as_rows,
    keep_in_bins,
    share_edges,
    tilted_bin_means,
)
from unbin.families.elementary import SMALLEST_EXPONENT, TILE, exp_below_one
from unbin.families.normal import normal_bins
from unbin.typing import FloatArray

NARROW_WIDTH = 1e-4
"""Below this the middle of a bin is its mean to 1e-9."""


class Noise(Protocol):
    """What a cumulative-link model needs of its noise; bins and points are on the latent scale."""

    variance: float

    def bins(self, eta: FloatArray, lower: FloatArray, upper: FloatArray) -> BinModel:
        """Return the probabilities of bins, without nuisance derivatives."""

    def bin_means(self, eta: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """Return the means within bins."""

    def density(self, y: FloatArray, eta: FloatArray) -> DensityModel:
        """Return the density at points."""


class Logistic:
    """G(x) = 1/(1 + exp(-x)), the logit link.

    P(low < y <= high) = G(high - eta) G(eta - low) (1 - exp(low - high)), without cancellation.
    """

    variance = math.pi**2 / 3

    def bins(self, eta: FloatArray, lower: FloatArray, upper: FloatArray) -> BinModel:
        low, high = as_rows(lower), as_rows(upper)
        with np.errstate(invalid="ignore"):
            width = np.where(low < high, -np.expm1(low - np.maximum(low, high)), 0.0)
        q, d_eta = _logistic_bins(eta, *share_edges(low, high), width)
        return BinModel(q, d_eta, np.zeros((0, *q.shape)))

    def bin_means(self, eta: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
        q = self.bins(eta, lower, upper).probability
        low, high = as_rows(lower) - eta[:, None], as_rows(upper) - eta[:, None]
        shift = np.zeros_like(q)
        np.divide(_partial_mean(high) - _partial_mean(low), q, out=shift, where=q > 0)
        narrow = high - low < NARROW_WIDTH
        shift[narrow] = 0.5 * (low[narrow] + high[narrow])
        return keep_in_bins(eta[:, None] + shift, eta, lower, upper)

    def density(self, y: FloatArray, eta: FloatArray) -> DensityModel:
        a = as_rows(y) - eta[:, None]
        below, above = expit(a), expit(-a)
        density = below * above
        return DensityModel(density, density * (below - above), np.zeros((0, *density.shape)))


class Normal:
    """G the standard normal distribution function, the probit link."""

    variance = 1.0

    def bins(self, eta: FloatArray, lower: FloatArray, upper: FloatArray) -> BinModel:
        q, d_eta, _ = normal_bins(eta, lower, upper, 1.0)
        return BinModel(q, d_eta, np.zeros((0, *q.shape)))

    def bin_means(self, eta: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
        model = self.bins(eta, lower, upper)
        return tilted_bin_means(eta, np.ones_like(eta), model, lower, upper)

    def density(self, y: FloatArray, eta: FloatArray) -> DensityModel:
        a = as_rows(y) - eta[:, None]
        density = np.exp(-0.5 * a * a) / np.sqrt(2 * np.pi)
        return DensityModel(density, density * a, np.zeros((0, *density.shape)))


def _partial_mean(x: FloatArray) -> FloatArray:
    """Return the integral of t dG(t) up to x: x G(x) - log(1 + exp(x)), an even function."""
    size = np.abs(x)
    finite = np.where(np.isfinite(size), size, 0.0)
    return np.where(np.isfinite(size), -finite * expit(-finite) - np.log1p(np.exp(-finite)), 0.0)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _logistic_bins(eta, edges, first, last, width):  # type: ignore[no-untyped-def]
    """Return q and dq/d eta = q (G(low - eta) - G(eta - high)), each (n, K)."""
    n, k_bins, n_edges = len(eta), len(first), edges.shape[1]
    # one block: the allocator keeps it from call to call; rows are last in it, and first outside
    block = np.empty((2, k_bins, n))
    below, above = np.empty((n_edges, TILE)), np.empty((n_edges, TILE))
    one = np.empty(TILE)  # number per row
    shared = len(edges) == 1
    for low in range(0, n, TILE):
        size = min(TILE, n - low)
        for e in range(n_edges):
            for i in range(size):
                one[i] = eta[low + i] - edges[0 if shared else low + i, e]
            _both_sides(one[:size], below[e], above[e])
        for k in range(k_bins):
            for i in range(size):
                one[i] = width[0 if shared else low + i, k]
            rows, lo, hi = slice(low, low + size), first[k], last[k]
            _products(
                below[lo],
                above[lo],
                below[hi],
                above[hi],
                one,
                block[0, k, rows],
                block[1, k, rows],
            )
    return block[0].T, block[1].T


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _both_sides(log_odds, below, above):  # type: ignore[no-untyped-def]
    """Write G(-log odds) and G(log odds)."""
    for i in range(len(log_odds)):
        odds = exp_below_one(max(-abs(log_odds[i]), SMALLEST_EXPONENT))
        larger = 1 / (1 + odds)
        smaller = odds * larger
        below[i] = smaller if log_odds[i] > 0 else larger
        above[i] = larger if log_odds[i] > 0 else smaller


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _products(below_low, above_low, below_high, above_high, width, q, d_eta):  # type: ignore[no-untyped-def]
    """Write q and dq/d eta of one bin."""
    for i in range(len(q)):
        mass = below_high[i] * above_low[i] * width[i]
        q[i] = mass
        d_eta[i] = mass * (below_low[i] - above_high[i])
