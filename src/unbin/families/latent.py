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
from unbin.families.normal import normal_bins
from unbin.typing import FloatArray

NARROW_WIDTH = 1e-4
"""Below this the middle of a bin is its mean to 1e-9."""
_LARGEST_LOG_ODDS = 700.0


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


@njit(cache=True, nogil=True)
def _logistic_bins(eta, edges, first, last, width):  # type: ignore[no-untyped-def]
    """Return q and dq/d eta = q (G(low - eta) - G(eta - high)), each (n, K)."""
    n, k_bins, n_edges = len(eta), len(first), edges.shape[1]
    block = np.empty((2, n, k_bins))  # one block: the allocator keeps it from call to call
    q, d_eta = block[0], block[1]
    below, above = np.empty(n_edges), np.empty(n_edges)
    for i in range(n):
        row = i if len(edges) > 1 else 0
        for e in range(n_edges):
            odds = math.exp(min(eta[i] - edges[row, e], _LARGEST_LOG_ODDS))
            below[e] = 1 / (1 + odds)
            above[e] = odds * below[e]
        for k in range(k_bins):
            lo, hi = first[k], last[k]
            q[i, k] = below[hi] * above[lo] * width[row, k]
            d_eta[i, k] = q[i, k] * (below[lo] - above[hi])
    return q, d_eta
