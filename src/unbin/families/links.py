"""Links that several families share."""

from __future__ import annotations

from unbin._typing import FloatArray
from unbin.families.base import Family, log_link_mean, log_of, unweighted


class IdentityLink(Family):
    """eta is the mean."""

    def link(self, mean: FloatArray) -> FloatArray:
        return mean

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        return eta

    def mean_derivative(self, eta: FloatArray) -> FloatArray:
        return unweighted(eta)

    def interior(self, mean: FloatArray) -> FloatArray:
        return mean


class LogLink(Family):
    """eta is the log of the mean."""

    def link(self, mean: FloatArray) -> FloatArray:
        return log_of(mean)

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        return log_link_mean(eta)

    def mean_derivative(self, eta: FloatArray) -> FloatArray:
        return self.inverse_link(eta)
