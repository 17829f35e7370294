"""The target of an ordinal fit as an increasing function of its latent variable.

An ordinal family says which bin a target is in: the one between the thresholds that eta plus
logistic noise falls between. Where targets are continuous the same model is a transformation model,

    y = h(eta + noise),    h(threshold_k) = edge_k,

h a monotone cubic (PCHIP) between the thresholds. Beyond them it goes on with the slope it has at
the last: in a straight line where nobody knows the end of the domain, and towards that end,
1 - exp(-distance) of the way, where it is known. So predictions do not level off in open bins as
one value per bin does, and keep to what is known of the domain.

References
----------
Fritsch, F. N. and Butland, J. (1984). A method for constructing local monotone piecewise cubic
interpolants. *SIAM Journal on Scientific and Statistical Computing*, 5, 300-304.

Hothorn, T., Möst, L. and Bühlmann, P. (2018). Most likely transformations. *Scandinavian Journal of
Statistics*, 45, 110-134.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import expit, logit

from unbin._typing import FloatArray, IntArray

_QUANTILES = 49
"""Quantiles of the noise within a bin that means are taken over."""
_APART = 1.0
"""Thresholds at least this far apart, in units of the noise, tell the slope of h at its end."""
_STEEPER = 2.0
"""The slope at the end is within this factor of that of the end bin."""
_LEAST = 1e-9
"""Distance of thresholds, relative to their size, that counts as none."""
_FEW = 20
"""Whole numbers up to here are few: their bins have values, and nothing lies between them."""
_STEP = 1 / 16
"""Distance in eta of the points between which means are interpolated."""
_CELLS = 1 << 20
"""Numbers worked on at a time."""


@dataclass(frozen=True, slots=True)
class LatentScale:
    """How the latent variable of an ordinal fit becomes a target.

    Attributes
    ----------
    thresholds, edges : (K - 1,)
        Of the latent variable, and of the target; at least two.
    low, high : float
        Ends of the domain, infinite where they are not known.
    whole : bool
        Whether targets are whole numbers: edges and ends then lie half-way between them.
    """

    thresholds: FloatArray
    edges: FloatArray
    low: float
    high: float
    whole: bool = False

    def target(self, latent: FloatArray) -> FloatArray:
        """Return h(latent), whole numbers not rounded."""
        t, e = self.thresholds, self.edges
        inner = PchipInterpolator(t, e)(np.clip(latent, t[0], t[-1]))
        below = np.maximum(t[0] - latent, 0.0) * _end_slope(t - t[0], e - e[0])
        above = np.maximum(latent - t[-1], 0.0) * _end_slope((t[-1] - t)[::-1], (e[-1] - e)[::-1])
        return np.asarray(inner - _up_to(e[0] - self.low, below) + _up_to(self.high - e[-1], above))

    def mean(self, eta: FloatArray, share: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return E[y], shape (n,); ``share`` gives the probabilities of the bins, (n, K)."""
        lower, upper = self._ends()
        found = on_grid(lambda at: (share(at) * self._bin_means(at)).sum(axis=1), eta)
        return np.asarray(np.clip(found, lower[0], upper[-1]))

    def bin_means(self, eta: FloatArray) -> FloatArray:
        """Return E[y | bin k], shape (n, K)."""
        return np.asarray(np.clip(on_grid(self._bin_means, eta), *self._ends()))

    def draw(self, eta: FloatArray, bins: IntArray, u: FloatArray) -> FloatArray:
        """Return the target at the quantile ``u`` of those in a bin, one bin per row."""
        ends = np.concatenate([[-np.inf], self.thresholds, [np.inf]])
        values = self.target(_between(eta, ends[bins], ends[bins + 1], u))
        lower, upper = self._ends()
        return np.clip(np.rint(values) if self.whole else values, lower[bins], upper[bins])

    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """Return the least and the greatest value of each bin."""
        lower = np.concatenate([[self.low], self.edges])
        upper = np.concatenate([self.edges, [self.high]])
        return (lower + 0.5, upper - 0.5) if self.whole else (lower, upper)

    def _bin_means(self, eta: FloatArray) -> FloatArray:
        ends = np.concatenate([[-np.inf], self.thresholds, [np.inf]])
        size = max(_CELLS // (len(ends) * _QUANTILES), 1)
        found = [np.empty((0, len(ends) - 1))]
        for first in range(0, len(eta), size):
            at = eta[first : first + size, None, None]
            latent = _between(at, ends[:-1, None], ends[1:, None], _AT)
            found.append(self.target(latent) @ _WEIGHT)
        return np.concatenate(found)


def latent_scale(
    thresholds: FloatArray, lower: FloatArray, upper: FloatArray, *, whole: bool
) -> LatentScale | None:
    """Return what turns the latent variable into a target; None where bins have values instead.

    That is with fewer than three bins, which have no slope between them, and of few whole numbers.

    Parameters
    ----------
    thresholds : (K - 1,)
    lower, upper : (K,)
        Ends of the bins; the first and the last are those of the domain.
    whole : bool
        Whether targets are whole numbers, none below 0: (a, b] holds a + 1 to b.
    """
    edges, low, high = upper[:-1], float(lower[0]), float(upper[-1])
    if len(edges) < 2 or (whole and edges[-1] <= _FEW):
        return None
    if whole:
        edges = np.floor(edges) + 0.5
        low, high = max(np.floor(low), -1.0) + 0.5, np.floor(high) + 0.5
    # of a bin without anybody the thresholds may coincide
    apart = np.maximum(np.diff(thresholds), _LEAST * (1 + np.abs(thresholds[1:])))
    thresholds = np.concatenate([thresholds[:1], thresholds[0] + np.cumsum(apart)])
    return LatentScale(thresholds, edges, min(low, edges[0]), max(high, edges[-1]), whole)


def on_grid(function: Callable[[FloatArray], FloatArray], at: FloatArray) -> FloatArray:
    """Evaluate a function that is smooth on the scale of the noise, by cubics between grid points.

    The grid is the same whatever is asked for, so that a value does not depend on the others.

    Parameters
    ----------
    function : callable
        Of (m,) points, with values (m, ...).
    at : (n,)
    """
    place = np.floor(at / _STEP)
    cells, back = np.unique(place, return_inverse=True)
    points, where = np.unique(cells[:, None] + np.arange(-1.0, 3.0), return_inverse=True)
    values = function(points * _STEP)
    where = where.reshape(-1, 4)
    with np.errstate(invalid="ignore"):
        s = np.nan_to_num(at / _STEP - place)  # infinity is its own grid point
    weights = (
        -s * (s - 1) * (s - 2) / 6,
        (s + 1) * (s - 1) * (s - 2) / 2,
        -(s + 1) * s * (s - 2) / 2,
        (s + 1) * s * (s - 1) / 6,
    )
    result = np.zeros((len(at), *values.shape[1:]))
    for j, weight in enumerate(weights):
        result += values[where[back, j]] * weight.reshape(-1, *(1,) * (values.ndim - 1))
    return result


def quantile_points(n: int) -> tuple[FloatArray, FloatArray]:
    """Return points in (0, 1), closer towards its ends, and what they weigh."""
    v = (np.arange(n) + 0.5) / n
    weight = 1 - np.cos(2 * np.pi * v)
    return v - np.sin(2 * np.pi * v) / (2 * np.pi), weight / weight.sum()


_AT, _WEIGHT = quantile_points(_QUANTILES)


def _between(eta: FloatArray, low: FloatArray, high: FloatArray, u: FloatArray) -> FloatArray:
    """Return the quantile ``u`` of eta + logistic noise between ``low`` and ``high``.

    Worked out on the side of eta where most of the bin is, so that tails keep their digits.
    """
    right = low > eta
    near, far = np.where(right, eta - low, high - eta), np.where(right, eta - high, low - eta)
    share = np.where(right, 1 - u, u)
    latent = logit(np.maximum(expit(far) + share * (expit(near) - expit(far)), 1e-300))
    return np.clip(eta + np.where(right, -latent, latent), low, high)


def _end_slope(apart: FloatArray, away: FloatArray) -> float:
    """Return the slope of h at an end, that of a parabola through three points.

    Parameters
    ----------
    apart, away : (K - 1,)
        How far thresholds and edges are from those at the end, increasing from 0.
    """
    second = min(int(np.searchsorted(apart, _APART)), len(apart) - 1)
    h, rise = max(apart[second], _APART), away[second]
    third = int(np.searchsorted(apart, h + _APART))
    if third >= len(apart):
        return float(rise / h)
    next_h, next_slope = apart[third] - h, (away[third] - rise) / (apart[third] - h)
    slope = ((2 * h + next_h) * rise / h - h * next_slope) / (h + next_h)
    return float(np.clip(slope, rise / h / _STEEPER, rise / h * _STEEPER))


def _up_to(room: float, distance: FloatArray) -> FloatArray:
    """Return how far h gets on the way to the end of the domain, ``room`` away."""
    if np.isinf(room):
        return distance
    return -room * np.expm1(-distance / room) if room > 0 else np.zeros_like(distance)
