"""Counts, log link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import xlogy

from unbin._compiling import njit
from unbin._linalg import namespace
from unbin._typing import FloatArray
from unbin.families.base import (
    LARGEST_ETA,
    BinModel,
    BregmanFamily,
    DensityModel,
    Interval,
    as_rows,
    tilted_bin_means,
    unweighted,
    x_log_x,
)
from unbin.families.counts import CountBins, CountLaw, count_bins, count_resolution
from unbin.families.links import LogLink
from unbin.families.tensors import Machine, TensorLaw


@dataclass(frozen=True, slots=True)
class Poisson(LogLink, BregmanFamily):
    """Counts with variance equal to their mean.

    phi(x) = x log x - x, link(mean) = log mean,
    D(z || mean) = z log(z/mean) - z + mean (generalised I-divergence), domain [0, inf).
    """

    name: ClassVar[str] = "poisson"
    ratio: ClassVar[str] = "rates"

    @property
    def domain(self) -> Interval:
        return Interval(0.0, np.inf, integer=True)

    def divergence(self, z: FloatArray, mean: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(xlogy(z, z) - xlogy(z, mean) - z + mean)

    def divergence_at(self, z: FloatArray, eta: FloatArray, mean: FloatArray) -> FloatArray:
        return x_log_x(z) - z * eta - z + mean

    def total_divergence(self, z: FloatArray, eta: FloatArray, mean: FloatArray) -> float:
        return float(_total_divergence(z, eta, mean))

    def interior(self, mean: FloatArray) -> FloatArray:
        return np.maximum(mean, 0.01)

    def variance(self, eta: FloatArray, nuisance: FloatArray) -> FloatArray:
        return self.inverse_link(eta)

    def bins(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> BinModel:
        return count_bins(self.count_law(eta, nuisance), lower, upper)

    def tensor_law(
        self, lower: FloatArray, upper: FloatArray, nuisance: FloatArray, machine: Machine
    ) -> TensorLaw:
        return CountBins(self, lower, upper, nuisance, machine)

    def count_law(self, eta: FloatArray, nuisance: FloatArray) -> CountLaw:
        """Return the law of each row."""
        mean, one = self.inverse_link(eta), unweighted(eta)
        return CountLaw(
            b=0.0,
            mean=mean,
            log_omega=namespace(eta).clip(eta, None, LARGEST_ETA),
            log_zero=-mean,
            g=one,
            slope=0 * one,
            level=0 * one,
        )

    def resolution(self, lower: FloatArray, upper: FloatArray, nuisance: FloatArray) -> float:
        return count_resolution(lower, upper)

    def bin_means(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> FloatArray:
        model, mean = self.bins(eta, lower, upper, nuisance), self.inverse_link(eta)
        return tilted_bin_means(mean, np.ones_like(mean), model, np.maximum(lower, 0), upper)

    def density(self, y: FloatArray, eta: FloatArray, nuisance: FloatArray) -> DensityModel:
        points = as_rows(y)
        model = self.bins(eta, points, points, nuisance)
        return DensityModel(model.probability, model.d_eta, model.d_nuisance)


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
