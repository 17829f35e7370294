"""Overdispersed counts, log link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unbin._linalg import namespace
from unbin._typing import FloatArray
from unbin.families.base import (
    LARGEST_ETA,
    BinModel,
    DensityModel,
    Interval,
    as_rows,
    exp_within,
    tilted_bin_means,
    unweighted,
)
from unbin.families.counts import CountBins, CountLaw, count_bins, count_resolution
from unbin.families.links import LogLink
from unbin.families.tensors import Machine, TensorLaw

_SMALLEST, _LARGEST = 1e-14, 1e6
"""Dispersions beyond which the law no longer changes: Poisson, and everybody at 0."""


@dataclass(frozen=True, slots=True)
class NegativeBinomial(LogLink):
    """Counts with variance mean + a mean² (NB2), a gamma mixture of Poisson distributions.

    link(mean) = log mean, domain [0, inf). With r = 1/a,
    P(y = j) = Gamma(j + r)/(j! Gamma(r)) · (r/(r + mean))^r · (mean/(r + mean))^j.
    Nuisance: log_dispersion = log a; a to 0 is the Poisson family.
    """

    name: ClassVar[str] = "negative-binomial"
    ratio: ClassVar[str] = "rates"
    nuisance_names: ClassVar[tuple[str, ...]] = ("log_dispersion",)

    @property
    def domain(self) -> Interval:
        return Interval(0.0, np.inf, integer=True)

    def interior(self, mean: FloatArray) -> FloatArray:
        return np.maximum(mean, 0.01)

    def variance(self, eta: FloatArray, nuisance: FloatArray) -> FloatArray:
        mean = self.inverse_link(eta)
        return mean + dispersion_of(nuisance) * mean * mean

    def bins(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> BinModel:
        model = count_bins(self.count_law(eta, nuisance), lower, upper, n_nuisance=1)
        if not np.log(_SMALLEST) <= nuisance[0] <= np.log(_LARGEST):
            model.d_nuisance[:] = 0.0
        return model

    def tensor_law(
        self, lower: FloatArray, upper: FloatArray, nuisance: FloatArray, machine: Machine
    ) -> TensorLaw:
        return CountBins(self, lower, upper, nuisance, machine, n_nuisance=1)

    def count_law(self, eta: FloatArray, nuisance: FloatArray) -> CountLaw:
        """Return the law of each row."""
        xp, a, mean = namespace(eta), dispersion_of(nuisance), self.inverse_link(eta)
        log_growth = xp.log1p(a * mean)
        return CountLaw(
            b=a,
            mean=mean,
            log_omega=xp.clip(eta, None, LARGEST_ETA) - log_growth,
            log_zero=-log_growth / a,
            g=unweighted(eta),
            slope=a * mean / (1 + a * mean),
            level=log_growth / a - mean / (1 + a * mean),
        )

    def resolution(self, lower: FloatArray, upper: FloatArray, nuisance: FloatArray) -> float:
        return count_resolution(lower, upper)

    def bin_means(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> FloatArray:
        model, mean = self.bins(eta, lower, upper, nuisance), self.inverse_link(eta)
        scale = 1 + dispersion_of(nuisance) * mean
        return tilted_bin_means(mean, scale, model, np.maximum(lower, 0), upper)

    def density(self, y: FloatArray, eta: FloatArray, nuisance: FloatArray) -> DensityModel:
        points = as_rows(y)
        model = self.bins(eta, points, points, nuisance)
        return DensityModel(model.probability, model.d_eta, model.d_nuisance)

    def start_nuisance(self, mean: float, variance: float) -> FloatArray:
        safe = max(mean, 0.01)
        dispersion = (variance - safe) / safe**2
        return np.array([np.log(np.clip(dispersion, 0.01, 100.0))])


def dispersion_of(nuisance: FloatArray) -> float:
    """Return the dispersion, kept where it counts."""
    return exp_within(nuisance[0], np.log(_SMALLEST), np.log(_LARGEST))
