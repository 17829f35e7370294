"""The vector the solvers move: slopes, and nuisance parameters in coordinates without bounds.

Most families state their nuisance parameters on a free scale already (the log of a standard
deviation). Thresholds of a cumulative-link model must increase, so they are moved as their first
value and the logs of their increments; they also absorb the intercept, which stays 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unbin._linalg import like, namespace
from unbin._typing import FloatArray, IntArray

_WIDEST = 100.0
"""Log of an increment beyond which nobody is left between two thresholds."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """How a free vector maps to theta and the nuisance parameters.

    Attributes
    ----------
    n_theta : int
        Length of theta, the intercept included.
    n_nuisance : int
    thresholds : bool
        Whether the nuisance parameters are increasing thresholds.
    fixed_intercept : bool
        Whether theta[0] is an intercept that stays 0.
    """

    n_theta: int
    n_nuisance: int
    thresholds: bool = False
    fixed_intercept: bool = False

    @property
    def n_free(self) -> int:
        """Length of the free vector."""
        return self.n_theta - self.fixed_intercept + self.n_nuisance

    @property
    def n_slopes(self) -> int:
        """Entries of the free vector that belong to theta."""
        return self.n_theta - self.fixed_intercept

    @property
    def n_row_nuisance(self) -> int:
        """Nuisance parameters whose derivatives need work per row: thresholds shift with eta."""
        return 0 if self.thresholds else self.n_nuisance

    def split(self, free: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return theta and the nuisance parameters."""
        theta, moved = free[: self.n_slopes], free[self.n_slopes :]
        if self.fixed_intercept:
            theta = np.concatenate([[0.0], theta])
        if self.thresholds and self.n_nuisance > 1:
            moved = moved[0] + np.concatenate([[0.0], np.cumsum(_widths(moved[1:]))])
        return theta, moved

    def join(self, theta: FloatArray, nuisance: FloatArray) -> FloatArray:
        """Return the free vector of theta and nuisance parameters."""
        moved = np.asarray(nuisance, dtype=float)
        if self.thresholds and self.n_nuisance > 1:
            moved = np.concatenate([moved[:1], np.log(np.maximum(np.diff(moved), 1e-8))])
        return np.concatenate([theta[self.fixed_intercept :], moved])

    def nuisance_jacobian(self, free: FloatArray) -> FloatArray:
        """Return d nuisance / d free coordinates, shape (m, m)."""
        m = self.n_nuisance
        if not self.thresholds:
            return np.eye(m)
        factor = np.concatenate([[1.0], _widths(free[self.n_slopes + 1 :])])
        return np.asarray(np.tril(np.ones((m, m))) * factor)

    def jacobian(self, free: FloatArray) -> FloatArray:
        """Return d (theta, nuisance) / d free, shape (n_theta + m, n_free)."""
        full = np.zeros((self.n_theta + self.n_nuisance, self.n_free))
        shift = int(self.fixed_intercept)
        full[shift : self.n_theta, : self.n_slopes] = np.eye(self.n_slopes)
        full[self.n_theta :, self.n_slopes :] = self.nuisance_jacobian(free)
        return full

    def inverse_jacobian(self, free: FloatArray) -> FloatArray:
        """Return d free / d (theta, nuisance), shape (n_free, n_theta + m)."""
        back = np.zeros((self.n_free, self.n_theta + self.n_nuisance))
        shift = int(self.fixed_intercept)
        back[: self.n_slopes, shift : self.n_theta] = np.eye(self.n_slopes)
        back[self.n_slopes :, self.n_theta :] = np.linalg.pinv(self.nuisance_jacobian(free))
        return back

    def to_free(self, free: FloatArray, slopes: Any, cuts: IntArray | None = None) -> Any:
        """Turn derivatives of statistics in eta and the nuisance parameters into those in ``free``.

        Parameters
        ----------
        free : (n_free,)
        slopes : (B, L, 1 + d + n_row_nuisance) array or tensor
            Derivatives in a shift of eta, in the d slopes, and in what is worked out per row. The
            first statistics are the probabilities of the bins.
        cuts : (K - 1,), optional
            Which threshold ends each bin but the last; all in order when left out.

        Returns
        -------
        (B, L, n_free) array or tensor
        """
        n_columns = slopes.shape[2] - self.n_row_nuisance
        by_theta = slopes[:, :, n_columns - self.n_slopes :]
        if not self.thresholds:
            return by_theta
        # q_k = F_k - F_(k-1), and F_k is a function of threshold_k - eta
        jacobian = self.nuisance_jacobian(free)
        jacobian = jacobian if cuts is None else jacobian[cuts]
        m, size = len(jacobian), slopes.shape[1]
        sign = np.eye(size, m, -1) - np.eye(size, m)
        cumulative = slopes[:, : m + 1, 0].cumsum(1)[:, :-1]
        by_threshold = cumulative[:, None, :] * like(slopes, sign)
        moved = by_threshold @ like(slopes, jacobian)
        return namespace(slopes).concatenate([by_theta, moved], 2)


def _widths(logs: FloatArray) -> FloatArray:
    """Return increments of thresholds; a line search may try any logarithm of one."""
    return np.asarray(np.exp(np.minimum(logs, _WIDEST)))
