"""Ordered classes: a cumulative link with free thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unbin.exceptions import ParameterError
from unbin.families.base import BinModel, DensityModel, Family, Interval, unweighted
from unbin.families.latent import Logistic, Noise, Normal
from unbin.typing import FloatArray

_NOISE: dict[str, Noise] = {"logit": Logistic(), "probit": Normal()}


@dataclass(frozen=True, slots=True)
class Ordinal(Family):
    """Bins cut from a latent variable, eta plus noise, at thresholds shared by all rows.

    P(y in the first k bins) = G(theta_k - eta), G logistic (``link_name="logit"``) or normal
    (``"probit"``), with thresholds theta_1 < ... < theta_(K-1). The thresholds are passed as
    ``nuisance``; they are not among ``nuisance_names`` and their derivatives are not returned,
    because those of F_k = P(y in the first k bins) are dF_k/dtheta_k = -dF_k/deta.

    The edges of bins are not read, only their number: the shape of the target between edges is
    left free. So this family has no mean in the units of the target. Link, mean, variance, means
    within bins and density are those of the latent variable; predictions in the units of the
    target take the means of the published bins, which the estimator holds.
    """

    name: ClassVar[str] = "ordinal"
    has_thresholds: ClassVar[bool] = True
    link_name: str = "logit"

    @property
    def domain(self) -> Interval:
        return Interval(-np.inf, np.inf)

    def link(self, mean: FloatArray) -> FloatArray:
        return mean

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        return eta

    def mean_derivative(self, eta: FloatArray) -> FloatArray:
        return unweighted(eta)

    def interior(self, mean: FloatArray) -> FloatArray:
        return mean

    def variance(self, eta: FloatArray, nuisance: FloatArray) -> FloatArray:
        return unweighted(eta) * self._noise.variance

    def bins(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> BinModel:
        return self._noise.bins(eta, *_cut(nuisance, lower))

    def bin_means(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> FloatArray:
        return self._noise.bin_means(eta, *_cut(nuisance, lower))

    def density(self, y: FloatArray, eta: FloatArray, nuisance: FloatArray) -> DensityModel:
        return self._noise.density(y, eta)

    @property
    def _noise(self) -> Noise:
        if self.link_name not in _NOISE:
            raise ParameterError(f"link_name: must be 'logit' or 'probit', got {self.link_name!r}")
        return _NOISE[self.link_name]


def _cut(thresholds: FloatArray, lower: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the bins between thresholds."""
    n_bins = np.shape(lower)[-1]
    if len(thresholds) != n_bins - 1:
        raise ParameterError(
            f"ordinal: {n_bins} bins need {n_bins - 1} thresholds, got {len(thresholds)}"
        )
    edges = np.concatenate([[-np.inf], thresholds, [np.inf]])
    return edges[:-1], edges[1:]
