"""What a family of distributions states about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unbin.typing import FloatArray


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval of the extended real line; ``integer`` keeps its integers only."""

    low: float
    high: float
    integer: bool = False

    def contains(self, values: FloatArray) -> bool:
        """Tell whether every value lies inside (NaN never does)."""
        return bool(np.all((values >= self.low) & (values <= self.high)))

    def __str__(self) -> str:
        left = "(" if np.isinf(self.low) else "["
        right = ")" if np.isinf(self.high) else "]"
        return f"{left}{self.low:g}, {self.high:g}{right}"


class Family:
    """An exponential family with its canonical link.

    A family is a small frozen dataclass without state. With ``phi`` the convex function of the
    paper's Table 1, ``link`` is its derivative, ``inverse_link`` maps ``eta`` to ``mean``, and
    ``divergence(z, mean)`` is the Bregman divergence D_phi(z || mean), element by element.

    Formulas take arrays and return arrays of the same shape; they are finite wherever the
    arguments are inside the domain, with 0 log 0 = 0.
    """

    name: ClassVar[str]

    @classmethod
    def make(cls, *, n_trials: int) -> Family:  # noqa: ARG003
        """Build the family from the settings of the estimator that concern it."""
        return cls()

    @property
    def domain(self) -> Interval:
        """Where targets live."""
        raise NotImplementedError

    def link(self, mean: FloatArray) -> FloatArray:
        """Return ``eta`` for a mean; the ends of the domain go to -inf and +inf."""
        raise NotImplementedError

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        """Return ``mean`` for a linear predictor."""
        raise NotImplementedError

    def mean_derivative(self, eta: FloatArray) -> FloatArray:
        """Return d mean / d eta, which is the variance function of a canonical link."""
        raise NotImplementedError

    def divergence(self, z: FloatArray, mean: FloatArray) -> FloatArray:
        """Return D_phi(z || mean), element by element."""
        raise NotImplementedError

    def divergence_at(self, z: FloatArray, eta: FloatArray, mean: FloatArray) -> FloatArray:
        """Return D_phi(z || mean) with ``mean = inverse_link(eta)``, safe where mean saturates."""
        raise NotImplementedError

    def total_divergence(self, z: FloatArray, eta: FloatArray, mean: FloatArray) -> float:
        """Return the sum of :meth:`divergence_at`; where z equals the mean it is 0."""
        return float(self.divergence_at(z, eta, mean).sum())

    def interior(self, mean: FloatArray) -> FloatArray:
        """Pull means off the ends of the domain, so that ``link`` is finite."""
        raise NotImplementedError
