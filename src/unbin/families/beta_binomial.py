"""Overdispersed successes in a fixed number of trials, logit link."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, logit

from unbin._compiling import njit
from unbin._typing import FloatArray
from unbin.families.base import (
    LARGEST_ETA,
    BinModel,
    DensityModel,
    Family,
    Interval,
    as_rows,
    exp_within,
    keep_in_bins,
)
from unbin.families.counts import integers_of_bins

_FAR_LOG = 100.0
"""Log of a dispersion beyond which all trials of a person go the same way, or are independent."""
_LARGE = 1e150
"""Terms are made smaller together when one exceeds this."""


@dataclass(frozen=True, slots=True)
class BetaBinomial(Family):
    """Successes out of m = ``n_trials`` whose probability has a beta distribution over people.

    link(mean) = log(mean/(m - mean)), domain [0, m]. With pi = mean/m and overdispersion w, the
    beta distribution has parameters pi/w and (1 - pi)/w, the trials of a person are correlated by
    w/(1 + w), and

    P(y = j) = C(m, j) prod_(i<j) (pi + w i) prod_(i<m-j) (1 - pi + w i) / prod_(i<m) (1 + w i).

    Nuisance: log_overdispersion = log w; w to 0 is the binomial family. One trial does not
    identify it.
    """

    name: ClassVar[str] = "beta-binomial"
    ratio: ClassVar[str] = "odds"
    nuisance_names: ClassVar[tuple[str, ...]] = ("log_overdispersion",)
    n_trials: int = 1

    @classmethod
    def make(cls, *, n_trials: int) -> BetaBinomial:
        return cls(n_trials)

    @property
    def domain(self) -> Interval:
        return Interval(0.0, float(self.n_trials), integer=True)

    def link(self, mean: FloatArray) -> FloatArray:
        return np.asarray(logit(mean / self.n_trials))

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        return np.asarray(self.n_trials * expit(eta))

    def mean_derivative(self, eta: FloatArray) -> FloatArray:
        return np.asarray(self.n_trials * expit(eta) * expit(-eta))

    def interior(self, mean: FloatArray) -> FloatArray:
        margin = 0.01 * self.n_trials
        return np.clip(mean, margin, self.n_trials - margin)

    def variance(self, eta: FloatArray, nuisance: FloatArray) -> FloatArray:
        correlation = float(expit(nuisance[0]))
        return self.mean_derivative(eta) * (1 + (self.n_trials - 1) * correlation)

    def bins(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> BinModel:
        q, d_eta, d_log_w, _ = self._sums(eta, lower, upper, nuisance)
        return BinModel(q, d_eta, d_log_w[None])

    def resolution(self, lower: FloatArray, upper: FloatArray, nuisance: FloatArray) -> float:
        return 2 / math.sqrt(max(self.n_trials, 4))

    def bin_means(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> FloatArray:
        q, _, _, total = self._sums(eta, lower, upper, nuisance)
        mean = self.inverse_link(eta)
        values = np.divide(total, q, out=np.repeat(mean[:, None], q.shape[1], axis=1), where=q > 0)
        return keep_in_bins(values, mean, np.maximum(lower, 0), np.minimum(upper, self.n_trials))

    def density(self, y: FloatArray, eta: FloatArray, nuisance: FloatArray) -> DensityModel:
        points = as_rows(y)
        model = self.bins(eta, points, points, nuisance)
        return DensityModel(model.probability, model.d_eta, model.d_nuisance)

    def start_nuisance(self, mean: float, variance: float) -> FloatArray:
        m = self.n_trials
        share = float(np.clip(mean / m, 0.01, 0.99))
        excess = variance / (m * share * (1 - share)) - 1
        correlation = np.clip([excess / max(m - 1, 1)], 0.005, 0.9)
        return np.asarray(logit(correlation))

    def _sums(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return q, dq/d eta, dq/d log w and the sum of j P(y = j) of each bin, each (n, K)."""
        m = self.n_trials
        low, high = integers_of_bins(lower, np.minimum(upper, m))
        eta = np.clip(eta, -LARGEST_ETA, LARGEST_ETA)
        w = exp_within(nuisance[0], -_FAR_LOG, _FAR_LOG)
        q, d_eta, d_log_w, total = _beta_binomial_bins(expit(eta), expit(-eta), low, high, w, m)
        return q, d_eta, d_log_w, total


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_terms(yes, no, w, shared, inverse, p, score, score_w):  # type: ignore[no-untyped-def]
    """Fill P(y = j), d log P/d eta and d log P/d log w for j = 0, ..., m.

    Each P is a multiple of the one before; they add up to 1. ``shared`` is the sum of i/(1 + w i),
    and ``inverse`` (m,) is worked in.
    """
    m = len(p) - 1
    slope, slope_w = 0.0, -shared
    for i in range(m):  # all trials fail
        inverse[i] = 1 / (no + w * i)
        slope -= inverse[i]
        slope_w += i * inverse[i]
    value, total = 1.0, 0.0
    for j in range(m + 1):
        p[j], score[j], score_w[j] = value, yes * no * slope, w * slope_w
        total += value
        if j < m:  # one more success, one failure less
            success, left = yes + w * j, m - j - 1
            by_success, by_failure = 1 / success, inverse[left]
            value *= success * by_failure * ((left + 1.0) / (j + 1.0))
            slope += by_success + by_failure
            slope_w += j * by_success - left * by_failure
            if value > _LARGE:
                value, total = value / _LARGE, total / _LARGE
                p[: j + 1] /= _LARGE
    p /= total


@njit(cache=True, nogil=True, error_model="numpy")
def _beta_binomial_bins(yes, no, lower, upper, w, m):  # type: ignore[no-untyped-def]
    """Sum the terms of each bin, and j times the probability as well."""
    n, k_bins, shared = len(yes), lower.shape[1], 0.0
    block = np.zeros((4, k_bins, n))  # rows are last in it, and first outside
    q, d_eta, d_log_w, total = block[0].T, block[1].T, block[2].T, block[3].T
    p, score, score_w, inverse = np.empty(m + 1), np.empty(m + 1), np.empty(m + 1), np.empty(m)
    for i in range(m):
        shared += i / (1 + w * i)
    for i in range(n):
        row = i if len(lower) > 1 else 0
        _fill_terms(yes[i], no[i], w, shared, inverse, p, score, score_w)
        for k in range(k_bins):
            for j in range(lower[row, k], min(upper[row, k], m) + 1):
                q[i, k] += p[j]
                d_eta[i, k] += p[j] * score[j]
                d_log_w[i, k] += p[j] * score_w[j]
                total[i, k] += p[j] * j
    return q, d_eta, d_log_w, total
