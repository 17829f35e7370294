"""Gaussian targets, identity link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unbin.families.base import Family, Interval
from unbin.typing import FloatArray


@dataclass(frozen=True, slots=True)
class Gaussian(Family):
    """Real-valued targets with constant variance.

    phi(x) = x²/2, link(mean) = mean, D(z || mean) = (z - mean)²/2, domain (-inf, inf).
    """

    name: ClassVar[str] = "gaussian"

    @property
    def domain(self) -> Interval:
        return Interval(-np.inf, np.inf)

    def link(self, mean: FloatArray) -> FloatArray:
        return mean

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        return eta

    def mean_derivative(self, eta: FloatArray) -> FloatArray:
        return np.ones_like(eta)

    def divergence(self, z: FloatArray, mean: FloatArray) -> FloatArray:
        residual = z - mean
        return 0.5 * residual * residual

    def divergence_at(self, z: FloatArray, eta: FloatArray, mean: FloatArray) -> FloatArray:
        return self.divergence(z, mean)

    def interior(self, mean: FloatArray) -> FloatArray:
        return mean
