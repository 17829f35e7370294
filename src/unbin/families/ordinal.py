"""Ordered classes: a cumulative logit with free thresholds (proportional odds)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import logit

from unbin._compiling import njit
from unbin._linalg import namespace
from unbin._typing import FloatArray
from unbin.exceptions import ParameterError, ReleaseError
from unbin.families.base import (
    BinModel,
    DensityModel,
    Interval,
    as_rows,
    keep_in_bins,
    logistic,
    share_edges,
    unweighted,
)
from unbin.families.coordinates import Coordinates
from unbin.families.elementary import SMALLEST_EXPONENT, TILE, exp_below_one
from unbin.families.links import IdentityLink
from unbin.families.tensors import FusedLaw, Machine, Tensor, TensorLaw, place_edges, torch

_NARROW_WIDTH = 1e-4
"""Below this the middle of a bin is its mean to 1e-9."""


@dataclass(frozen=True, slots=True)
class Ordinal(IdentityLink):
    """Bins cut from a latent variable, eta plus logistic noise, at thresholds shared by all rows.

    P(y in the first k bins) = G(theta_k - eta), G(x) = 1/(1 + exp(-x)), with thresholds
    theta_1 < ... < theta_(K-1): the proportional-odds model of McCullagh (1980).
    P(low < y <= high) = G(high - eta) G(eta - low) (1 - exp(low - high)), without cancellation. The
    thresholds are passed as ``nuisance``; they are not among ``nuisance_names`` and their
    derivatives are not returned, because those of F_k = P(y in the first k bins) are
    dF_k/dtheta_k = -dF_k/deta.

    The edges of bins are not read, only their number: the shape of the target between edges is
    left free. So this family has no mean in the units of the target. Link, mean, variance, means
    within bins and density are those of the latent variable; :mod:`unbin.families.latent` turns it
    into the target.

    References
    ----------
    McCullagh, P. (1980). Regression models for ordinal data. *Journal of the Royal Statistical
    Society B*, 42, 109-142.
    """

    name: ClassVar[str] = "ordinal"
    ratio: ClassVar[str] = "cumulative odds"
    free_shape: ClassVar[bool] = True
    smallest_count: ClassVar[int] = 1
    single_precision: ClassVar[bool] = True

    @property
    def domain(self) -> Interval:
        return Interval(-np.inf, np.inf)

    def variance(self, eta: FloatArray, nuisance: FloatArray) -> FloatArray:
        return unweighted(eta) * (math.pi**2 / 3)

    def bins(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> BinModel:
        q, d_eta = logistic_bins(eta, *_cut(nuisance, lower))
        return BinModel(q, d_eta, np.zeros((0, *q.shape)))

    def resolution(self, lower: FloatArray, upper: FloatArray, nuisance: FloatArray) -> float:
        return 1.4  # of a logistic law a little less: its tails are no polynomials

    def bin_means(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> FloatArray:
        q = self.bins(eta, lower, upper, nuisance).probability
        ends = _cut(nuisance, lower)
        low, high = (end - eta[:, None] for end in ends)
        shift = np.zeros_like(q)
        np.divide(_partial_mean(high) - _partial_mean(low), q, out=shift, where=q > 0)
        narrow = high - low < _NARROW_WIDTH
        shift[narrow] = 0.5 * (low[narrow] + high[narrow])
        return keep_in_bins(eta[:, None] + shift, eta, *ends)

    def density(self, y: FloatArray, eta: FloatArray, nuisance: FloatArray) -> DensityModel:
        a = as_rows(y) - eta[:, None]
        below, above = logistic(a), logistic(-a)
        density = below * above
        return DensityModel(density, density * (below - above), np.zeros((0, *density.shape)))

    def coordinates(self, n_theta: int, n_bins: int, *, fit_intercept: bool) -> Coordinates:
        return Coordinates(n_theta, n_bins - 1, thresholds=True, fixed_intercept=fit_intercept)

    def check_statistics(self, *, shared: bool, means: bool, values: bool) -> None:
        if means:
            raise ReleaseError(
                f"family {self.name!r}: has no mean in the units of the target, the release has "
                "means; leave them out, or choose another family"
            )
        if not shared:
            raise ReleaseError(
                f"family {self.name!r}: needs the same bins in every block, the release has "
                "different ones; merge them to common edges or choose another family"
            )
        if values:
            raise ReleaseError(
                f"family {self.name!r}: knows nothing of values between edges, the release has "
                "order statistics; choose another family"
            )

    def start_thresholds(self, share: FloatArray) -> FloatArray:
        return np.asarray(logit(np.clip(share, 1e-6, 1 - 1e-6)))

    def first_steps(self, nuisance: FloatArray, level: float) -> tuple[float, float]:
        return 2.0, 2.0

    def tensor_law(
        self, lower: FloatArray, upper: FloatArray, nuisance: FloatArray, machine: Machine
    ) -> TensorLaw:
        return LogisticBins(*_cut(nuisance, lower), machine)


def _cut(thresholds: FloatArray, lower: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper ends of the bins between thresholds, each (1, K)."""
    n_bins = np.shape(lower)[-1]
    if len(thresholds) != n_bins - 1:
        raise ParameterError(
            f"ordinal: {n_bins} bins need {n_bins - 1} thresholds, got {len(thresholds)}"
        )
    edges = np.concatenate([[-np.inf], thresholds, [np.inf]])[None]
    return as_rows(edges[:, :-1]), as_rows(edges[:, 1:])


def logistic_bins(
    eta: FloatArray, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return q and dq/d eta, each (n, K), for y logistic around eta; edges are (1, K) or (n, K)."""
    q, d_eta = _logistic_bins(eta, *share_edges(lower, upper), _share_between(lower, upper))
    return q, d_eta


def _share_between(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return 1 - exp(low - high), 0 for an empty bin."""
    with np.errstate(invalid="ignore"):
        return np.where(low < high, -np.expm1(low - np.maximum(low, high)), 0.0)


def _partial_mean(x: Any) -> Any:
    """Return the integral of t dG(t) up to x: x G(x) - log(1 + exp(x)), an even function."""
    xp = namespace(x)
    size = xp.abs(x)
    finite = xp.where(xp.isfinite(size), size, 0.0)
    value = -finite * logistic(-finite) - xp.log1p(xp.exp(-finite))
    return xp.where(xp.isfinite(size), value, 0.0)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _logistic_bins(eta, edges, first, last, width):  # type: ignore[no-untyped-def]
    """Return q and dq/d eta = q (G(low - eta) - G(eta - high)), each (n, K)."""
    n, k_bins, n_edges = len(eta), len(first), edges.shape[1]
    # one block: the allocator keeps it from call to call; rows are last in it, and first outside
    block = np.empty((2, k_bins, n))
    below, above = np.empty((n_edges, TILE)), np.empty((n_edges, TILE))
    one = np.empty(TILE)  # number per row
    shared = len(edges) == 1
    for low in range(0, n, TILE):
        size = min(TILE, n - low)
        for e in range(n_edges):
            for i in range(size):
                one[i] = eta[low + i] - edges[0 if shared else low + i, e]
            _both_sides(one[:size], below[e], above[e])
        for k in range(k_bins):
            for i in range(size):
                one[i] = width[0 if shared else low + i, k]
            rows, lo, hi = slice(low, low + size), first[k], last[k]
            _products(
                below[lo],
                above[lo],
                below[hi],
                above[hi],
                one,
                block[0, k, rows],
                block[1, k, rows],
            )
    return block[0].T, block[1].T


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _both_sides(log_odds, below, above):  # type: ignore[no-untyped-def]
    """Write G(-log odds) and G(log odds)."""
    for i in range(len(log_odds)):
        odds = exp_below_one(max(-abs(log_odds[i]), SMALLEST_EXPONENT))
        larger = 1 / (1 + odds)
        smaller = odds * larger
        below[i] = smaller if log_odds[i] > 0 else larger
        above[i] = larger if log_odds[i] > 0 else smaller


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _products(below_low, above_low, below_high, above_high, width, q, d_eta):  # type: ignore[no-untyped-def]
    """Write q and dq/d eta of one bin."""
    for i in range(len(q)):
        mass = below_high[i] * above_low[i] * width[i]
        q[i] = mass
        d_eta[i] = mass * (below_low[i] - above_high[i])


# -- on a device -----------------------------------------------------------------------------------


class LogisticBins(TensorLaw):
    """Bins of a logistic law around eta, on a device."""

    def __init__(self, low: FloatArray, high: FloatArray, machine: Machine) -> None:
        super().__init__(low, high, machine)
        self.width = place_edges(_share_between(low, high), machine)

    def bins(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return q = G(high - eta) G(eta - low) (1 - exp(low - high)) and dq/d eta."""
        above = eta - self.edges(blocks)
        below = torch.neg(above).sigmoid_()
        above = above.sigmoid_()
        (below_low, below_high), (above_low, above_high) = self.sides(below), self.sides(above)
        found = eta.new_empty((2, self.n_bins, *eta.shape))
        torch.mul(below_high, above_low, out=found[0]).mul_(self.width(blocks))
        torch.sub(below_low, above_high, out=found[1]).mul_(found[0])
        return found

    def fused(self) -> FusedLaw:
        """Return thresholds, and the share 1 - exp(low - high) of each bin."""
        low, high = self.given
        return self._fused(share_edges(low, high)[0], _share_between(low, high), None)

    def means(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return the means within bins as ``Ordinal.bin_means`` does."""
        q = self.bins(eta, blocks)[0]
        low, high = (end - eta for end in self.ends(blocks))
        shift = torch.where(q > 0, (_partial_mean(high) - _partial_mean(low)) / q, 0.0)
        narrow = high - low < _NARROW_WIDTH
        return eta + torch.where(narrow, 0.5 * (low + high), shift)
