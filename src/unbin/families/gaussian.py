"""Gaussian targets, identity link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unbin._typing import FloatArray
from unbin.families.base import (
    BinModel,
    BregmanFamily,
    DensityModel,
    Interval,
    Units,
    as_rows,
    exp_within,
    tilted_bin_means,
    unweighted,
)
from unbin.families.compiled import SquareLaw
from unbin.families.links import IdentityLink
from unbin.families.normal import NormalBins, normal_bins
from unbin.families.tensors import Machine, TensorLaw

_ROOT_TWO_PI = float(np.sqrt(2 * np.pi))
_FAR_LOG = 150.0
"""A line search may try any log sigma; beyond this sigma² or its inverse would be 0."""
_FAR = 1e3
"""Standard deviations at which nothing is left of the density."""


@dataclass(frozen=True, slots=True)
class Gaussian(IdentityLink, BregmanFamily):
    """Real-valued targets with constant variance.

    phi(x) = x²/2, link(mean) = mean, D(z || mean) = (z - mean)²/2, domain (-inf, inf).
    Nuisance: log_sigma, the log of the standard deviation.
    """

    name: ClassVar[str] = "gaussian"
    nuisance_names: ClassVar[tuple[str, ...]] = ("log_sigma",)
    single_precision: ClassVar[bool] = True

    @property
    def domain(self) -> Interval:
        return Interval(-np.inf, np.inf)

    def divergence(self, z: FloatArray, mean: FloatArray) -> FloatArray:
        residual = z - mean
        return 0.5 * residual * residual

    def divergence_at(self, z: FloatArray, eta: FloatArray, mean: FloatArray) -> FloatArray:
        return self.divergence(z, mean)

    @property
    def law(self) -> SquareLaw:
        return SquareLaw()

    def phi(self, z: FloatArray) -> FloatArray:
        return 0.5 * z * z

    def variance(self, eta: FloatArray, nuisance: FloatArray) -> FloatArray:
        return unweighted(eta) * sigma_of(nuisance) ** 2

    def bins(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> BinModel:
        sigma = sigma_of(nuisance)
        q, d_eta, d_log_sigma = normal_bins(eta, lower, upper, sigma)
        return BinModel(q, d_eta, d_log_sigma[None])

    def resolution(self, lower: FloatArray, upper: FloatArray, nuisance: FloatArray) -> float:
        return sigma_of(nuisance)

    def bin_means(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> FloatArray:
        model = self.bins(eta, lower, upper, nuisance)
        return tilted_bin_means(eta, self.variance(eta, nuisance), model, lower, upper)

    def density(self, y: FloatArray, eta: FloatArray, nuisance: FloatArray) -> DensityModel:
        sigma = sigma_of(nuisance)
        a = np.clip((as_rows(y) - eta[:, None]) / sigma, -_FAR, _FAR)
        density = np.exp(-0.5 * a * a) / (_ROOT_TWO_PI * sigma)
        return DensityModel(density, density * a / sigma, (density * (a * a - 1))[None])

    def start_nuisance(self, mean: float, variance: float) -> FloatArray:
        return np.array([0.5 * np.log(max(variance, 1e-12 * (1 + mean * mean)))])

    def dispersion(self, nuisance: FloatArray) -> float:
        return BregmanFamily.dispersion(self, 2 * nuisance)

    def tensor_law(
        self, lower: FloatArray, upper: FloatArray, nuisance: FloatArray, machine: Machine
    ) -> TensorLaw:
        return NormalBins(lower, upper, machine, sigma_of(nuisance))

    def units(self, center: float, spread: float) -> Units:
        return Units(center, spread, center, spread, float(np.log(spread)))


def sigma_of(nuisance: FloatArray) -> float:
    """Return sigma, kept where its square and the inverse of that are numbers."""
    return exp_within(nuisance[0], -_FAR_LOG, _FAR_LOG)
