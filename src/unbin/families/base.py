"""What a family of distributions states about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import special

from unbin._linalg import namespace
from unbin._typing import FloatArray, IntArray
from unbin.exceptions import EngineError
from unbin.families.compiled import CompiledLaw, total_of
from unbin.families.coordinates import Coordinates

_FAR_LOG = 500.0
"""Logs of a dispersion that diverged are shown as this."""
LARGEST_ETA = 300.0
"""Beyond this exp(2 eta) summed over rows would overflow; no target comes near it."""


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


@dataclass(frozen=True, slots=True)
class BinModel:
    """Probabilities of bins, row by row, and their derivatives.

    Attributes
    ----------
    probability : (n, K)
        q_ik = P(y_i in bin k).
    d_eta : (n, K)
        d q_ik / d eta_i.
    d_nuisance : (m, n, K)
        d q_ik / d nuisance_j.
    """

    probability: FloatArray
    d_eta: FloatArray
    d_nuisance: FloatArray


@dataclass(frozen=True, slots=True)
class DensityModel:
    """Densities (probabilities, for integers) at points, and their derivatives.

    Attributes
    ----------
    density : (n, J)
    d_eta : (n, J)
    d_nuisance : (m, n, J)
    """

    density: FloatArray
    d_eta: FloatArray
    d_nuisance: FloatArray


@dataclass(frozen=True, slots=True)
class Units:
    """Units of the target in which a fit is made.

    y = center + scale y', eta = level + slope eta', and the first nuisance parameter is
    nuisance' + shift. Solvers hold starts, steps and thresholds against 1: in these units they mean
    the same for dollars as for shares.
    """

    center: float = 0.0
    scale: float = 1.0
    level: float = 0.0
    slope: float = 1.0
    shift: float = 0.0

    def into(self, y: FloatArray) -> FloatArray:
        """Return targets, or edges between them, in these units."""
        return np.asarray((y - self.center) / self.scale)

    def out(self, y: FloatArray) -> FloatArray:
        """Return targets in the units they came in."""
        return np.asarray(self.center + self.scale * y)

    def theta_into(self, theta: FloatArray, *, fit_intercept: bool) -> FloatArray:
        """Return intercept and slopes in these units."""
        return (theta - self.level * first_only(theta, fit_intercept)) / self.slope

    def theta_out(self, theta: FloatArray, *, fit_intercept: bool) -> FloatArray:
        """Return intercept and slopes in the units of the target."""
        return self.slope * theta + self.level * first_only(theta, fit_intercept)

    def nuisance_out(self, nuisance: FloatArray) -> FloatArray:
        """Return the nuisance parameters in the units of the target."""
        return nuisance + self.shift * first_only(nuisance, True)


def first_only(values: FloatArray, wanted: bool) -> FloatArray:
    """Return 1 for the first of some values, if ``wanted``, and 0 for the others."""
    return (np.arange(len(values)) < int(wanted)).astype(np.float64)


class Family:
    """The distribution of a target given its linear predictor ``eta``.

    A family is a small frozen dataclass without state. ``inverse_link`` maps ``eta`` to ``mean``;
    the nuisance parameters, all unconstrained, are an array in the order of ``nuisance_names``.

    Bins are given by ``lower`` and ``upper``, of shape (K,) for all rows alike or (n, K) row by
    row. Families of real numbers read them as edges, families of integers as the smallest and the
    largest integer of the bin; infinite means open. ``lower > upper`` is an empty bin of
    probability 0, for tables padded to the same number of bins.

    Formulas take arrays and return arrays; they are finite wherever the arguments are inside the
    domain. Probabilities are right in relative terms down to the smallest numbers there are.
    ``inverse_link``, ``mean_derivative``, ``variance`` and ``divergence_at`` take tensors too.
    """

    name: ClassVar[str]
    nuisance_names: ClassVar[tuple[str, ...]] = ()
    free_shape: ClassVar[bool] = False
    """Whether the shape of the target between edges is left free, so that bins have probabilities
    and no values: mean, variance and density are then not those of the target."""
    ratio: ClassVar[str] = ""
    """What exp of a slope is a ratio of; empty where a slope is a difference."""
    smallest_count: ClassVar[int] = 5
    """People that a bin of all blocks together needs not to be merged with its neighbour."""
    single_precision: ClassVar[bool] = False
    """Whether bins on a device may be worked out in single precision, if that is asked for: where
    terms are summed it does not reach their exponents."""

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

    def interior(self, mean: FloatArray) -> FloatArray:
        """Pull means off the ends of the domain, so that ``link`` is finite."""
        raise NotImplementedError

    def variance(self, eta: FloatArray, nuisance: FloatArray) -> FloatArray:
        """Return the variance of each target, shape (n,)."""
        raise NotImplementedError

    def bins(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> BinModel:
        """Return the probability of every bin for every row, with its derivatives."""
        raise NotImplementedError

    def resolution(self, lower: FloatArray, upper: FloatArray, nuisance: FloatArray) -> float:
        """Return how far eta moves until probabilities of bins are others.

        That is the smallest standard deviation of the noise, as a move of eta, of targets that lie
        in closed bins; at most about 1 on a log or logit scale.
        """
        raise NotImplementedError

    def bin_means(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> FloatArray:
        """Return E[y | y in bin k], shape (n, K), always a finite value of the bin."""
        raise NotImplementedError

    def density(self, y: FloatArray, eta: FloatArray, nuisance: FloatArray) -> DensityModel:
        """Return the density at the points ``y``, of shape (J,) or (n, J)."""
        raise NotImplementedError

    def start_nuisance(self, mean: float, variance: float) -> FloatArray:
        """Return nuisance parameters that match a mean and a variance of y as well as they can."""
        return np.zeros(0)

    def start_thresholds(self, share: FloatArray) -> FloatArray:
        """Return thresholds that reproduce shares of people below edges, where the shape is free.

        Parameters
        ----------
        share : (K - 1,)
        """
        raise NotImplementedError

    def dispersion(self, nuisance: FloatArray) -> float:
        """Return the dispersion in its usual units: sigma² of a gaussian, 1 where there is none."""
        if not self.nuisance_names:
            return 1.0
        return exp_within(nuisance[0], -_FAR_LOG, _FAR_LOG)

    def coordinates(self, n_theta: int, n_bins: int, *, fit_intercept: bool) -> Coordinates:
        """Return what the solvers move: theta and the nuisance parameters without bounds."""
        return Coordinates(n_theta, len(self.nuisance_names))

    def first_steps(self, nuisance: FloatArray, level: float) -> tuple[float, float]:
        """Return the length of a cautious first step, in theta and in nuisance parameters.

        ``level`` is the intercept. On a log or logit scale 1 is cautious; on the target's own it is
        measured in standard deviations.
        """
        if np.isfinite(self.domain.low):
            return 1.0, 1.0
        return 2.0 * float(np.sqrt(self.variance(np.array([level]), nuisance)[0])), 1.0

    def check_statistics(self, *, shared: bool, means: bool, values: bool) -> None:
        """Raise where a release says what the family knows nothing of.

        Parameters
        ----------
        shared : bool
            Whether all blocks have the same bins.
        means, values : bool
            Whether means, and order statistics beside the bins, were published.
        """

    def tensor_law(
        self, lower: FloatArray, upper: FloatArray, nuisance: FloatArray, machine: Any
    ) -> Any:
        """Return the bins on a device, a ``TensorLaw``; edges are (1, K) or (B, K)."""
        raise EngineError(
            f"engine 'torch': has no bins of family {self.name!r}; use engine='local'"
        )

    def units(self, center: float, spread: float) -> Units:
        """Return the units to fit targets in that lie around ``center``, ``spread`` apart.

        Those of the target unless the family holds targets of any scale.
        """
        return Units()


class BregmanFamily(Family):
    """An exponential family with its canonical link: the families of the paper's Table 1.

    With ``phi`` the convex function of that table, ``link`` is its derivative and
    ``divergence(z, mean)`` is the Bregman divergence D_phi(z || mean), element by element, with
    0 log 0 = 0. ``law`` gives the same formulas to compiled loops.
    """

    @property
    def law(self) -> CompiledLaw:
        """What compiled loops know the family by."""
        raise NotImplementedError

    def phi(self, z: FloatArray) -> FloatArray:
        """Return phi(z), such that D_phi(z || mean) = phi(z) - z eta + a function of eta."""
        raise NotImplementedError

    def divergence(self, z: FloatArray, mean: FloatArray) -> FloatArray:
        """Return D_phi(z || mean), element by element."""
        raise NotImplementedError

    def divergence_at(self, z: FloatArray, eta: FloatArray, mean: FloatArray) -> FloatArray:
        """Return D_phi(z || mean) with ``mean = inverse_link(eta)``, safe where mean saturates."""
        raise NotImplementedError

    def total_divergence(self, z: FloatArray, eta: FloatArray, mean: FloatArray) -> float:
        """Return the sum of :meth:`divergence_at`; where z equals the mean it is 0."""
        return float(total_of(self.law, self.phi(z), z, eta, mean))


def exp_within(value: float, low: float, high: float) -> float:
    """Return exp(value), value kept between two ends: a line search may try anything."""
    return float(np.exp(np.clip(value, low, high)))


def log_link_mean(eta: FloatArray) -> FloatArray:
    """Return exp(eta), kept from overflowing."""
    xp = namespace(eta)
    return xp.exp(xp.clip(eta, None, LARGEST_ETA))  # type: ignore[no-any-return]


def log1p_exp(eta: FloatArray) -> FloatArray:
    """Return log(1 + exp(eta)), kept from overflowing."""
    xp = namespace(eta)
    return xp.clip(eta, 0.0, None) + xp.log1p(xp.exp(-xp.abs(eta)))  # type: ignore[no-any-return]


def logistic(eta: FloatArray) -> FloatArray:
    """Return 1/(1 + exp(-eta)), right in relative terms on both sides."""
    found: FloatArray = getattr(namespace(eta), "special", special).expit(eta)
    return found


def x_log_x(x: FloatArray) -> FloatArray:
    """Return x log x, 0 at 0."""
    found: FloatArray = getattr(namespace(x), "special", special).xlogy(x, x)
    return found


def unweighted(eta: FloatArray) -> FloatArray:
    """Return ones: everybody counts the same."""
    found: FloatArray = namespace(eta).ones_like(eta)
    return found


def log_of(mean: FloatArray) -> FloatArray:
    """Return log(mean), -inf at 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(mean))


def as_rows(edges: FloatArray) -> FloatArray:
    """Return edges as (1, K), shared by all rows, or (n, K)."""
    return np.ascontiguousarray(np.atleast_2d(edges), dtype=np.float64)


def share_edges(lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Return the edges of bins, and where among them each bin begins and ends.

    Adjacent bins share an edge: K + 1 edges when every bin begins where the one before ends (or is
    empty), else 2K. ``lower`` and ``upper`` are (1, K) or (n, K), and so are the edges.
    """
    k = np.arange(lower.shape[1])
    joined = (lower[:, 1:] == upper[:, :-1]) | (lower[:, 1:] > upper[:, 1:])
    if joined.all():
        return np.hstack([lower[:, :1], upper]), k, k + 1
    return np.hstack([lower, upper]), k, k + len(k)


def keep_in_bins(
    values: FloatArray, mean: FloatArray, lower: FloatArray, upper: FloatArray
) -> FloatArray:
    """Clip (n, K) means of bins to their bins; an empty bin gets the mean of the row (n,)."""
    low, high = as_rows(lower), as_rows(upper)
    return np.where(low > high, mean[:, None], np.clip(values, low, np.maximum(low, high)))


def tilted_bin_means(
    mean: FloatArray, scale: FloatArray, model: BinModel, lower: FloatArray, upper: FloatArray
) -> FloatArray:
    """Return E[y | bin] = mean + scale (dq / d eta) / q, where the score is (y - mean) / scale.

    That holds for every exponential family, with scale = Var y / (d mean / d eta). A bin too far
    away to have a probability gets its end nearer to the mean, which is the limit.
    """
    q = model.probability
    shift = np.divide(model.d_eta, q, out=np.zeros_like(q), where=q > 0)
    values = mean[:, None] + scale[:, None] * shift
    return keep_in_bins(values, mean, lower, upper)
