"""Counts, log link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit
from scipy.special import xlogy

from unbin.families.base import Family, Interval
from unbin.typing import FloatArray

_LARGEST_ETA = 500.0
"""Beyond this exp(eta) summed over rows would overflow; no count comes near it."""


@dataclass(frozen=True, slots=True)
class Poisson(Family):
    """Counts with variance equal to their mean.

    phi(x) = x log x - x, link(mean) = log mean,
    D(z || mean) = z log(z/mean) - z + mean (generalised I-divergence), domain [0, inf).
    """

    name: ClassVar[str] = "poisson"

    @property
    def domain(self) -> Interval:
        return Interval(0.0, np.inf, integer=True)

    def link(self, mean: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(mean))

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        return np.asarray(np.exp(np.minimum(eta, _LARGEST_ETA)))

    def mean_derivative(self, eta: FloatArray) -> FloatArray:
        return self.inverse_link(eta)

    def divergence(self, z: FloatArray, mean: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(xlogy(z, z) - xlogy(z, mean) - z + mean)

    def divergence_at(self, z: FloatArray, eta: FloatArray, mean: FloatArray) -> FloatArray:
        return np.asarray(xlogy(z, z) - z * eta - z + mean)

    def total_divergence(self, z: FloatArray, eta: FloatArray, mean: FloatArray) -> float:
        return float(_total_divergence(z, eta, mean))

    def interior(self, mean: FloatArray) -> FloatArray:
        return np.maximum(mean, 0.01)


@njit(cache=True, nogil=True)
def _total_divergence(z, eta, mean):  # type: ignore[no-untyped-def]
    """Sum the divergence in one pass, over the rows where z was clipped."""
    total = 0.0
    for i in range(len(z)):
        if z[i] != mean[i]:
            total += mean[i] - z[i]
            if z[i] > 0:
                total += z[i] * (np.log(z[i]) - eta[i])
    return total
