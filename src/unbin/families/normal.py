"""Probabilities of bins under a normal law, fast and right in the far tails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.polynomial import chebyshev
from scipy.special import erfcx

from unbin.families.base import as_rows, share_edges
from unbin.typing import FloatArray

NARROW = 1e-3
"""A bin with less than this share of the tail beyond it is density times width: the difference
of two tails would lose digits there, and the two-point rule is right to 1e-14."""

_TWO_POINT = 0.5 / math.sqrt(3.0)
_ROOT_HALF = math.sqrt(0.5)
_INV_ROOT_TWO_PI = 1 / math.sqrt(2 * math.pi)
_CENTRE = 3.75
_FAR = 40.0
"""So many standard deviations away nothing is left; it stands for infinity."""


def _scaled_erfcx(t: Any) -> Any:
    """Return (1 + 2x) exp(x²) erfc(x) at x = c (1 + t)/(1 - t), smooth on [-1, 1]."""
    x = _CENTRE * (1 + t) / (1 - t)
    return (1 + 2 * x) * erfcx(x)


# a polynomial of degree 20 in t is right to 1e-14; even and odd powers are summed apart, because
# two short chains of multiply-adds run at the same time
_POWERS = chebyshev.cheb2poly(chebyshev.chebinterpolate(_scaled_erfcx, 20))
_EVEN, _ODD = _POWERS[::2][::-1].copy(), _POWERS[1::2][::-1].copy()


@njit(cache=True, nogil=True, inline="always", fastmath={"contract"})
def _tail_and_density(a):  # type: ignore[no-untyped-def]
    """Return P(Z > |a|) and the standard normal density at a."""
    x = abs(a) * _ROOT_HALF
    f = math.exp(-x * x)
    t = (x - _CENTRE) / (x + _CENTRE)
    s = t * t
    even, odd = _EVEN[0] * s + _EVEN[1], _ODD[0]
    for j in range(1, 10):
        even = even * s + _EVEN[j + 1]
        odd = odd * s + _ODD[j]
    return 0.5 * f * (even + t * odd) / (1 + 2 * x), _INV_ROOT_TWO_PI * f


@njit(cache=True, nogil=True)
def _narrow_bin(middle, width):  # type: ignore[no-untyped-def]
    """Return q, -dq/dshift and -dq/dlog scale of a narrow bin of the standard normal."""
    q, first, second = 0.0, 0.0, 0.0
    half = _TWO_POINT * width
    for a in (middle - half, middle + half):
        f = 0.5 * width * _INV_ROOT_TWO_PI * math.exp(-0.5 * a * a)
        q += f
        first += f * a
        second += f * (a * a - 1)
    return q, first, second


def normal_bins(
    eta: FloatArray, lower: FloatArray, upper: FloatArray, sigma: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return q, dq/d eta and dq/d log sigma, each (n, K), for y normal around eta.

    With a = (edge - eta)/sigma and f the standard normal density, q is a difference of the tails
    on the side away from the mean, dq/d eta = (f(a_lo) - f(a_hi))/sigma and dq/d log sigma =
    a_lo f(a_lo) - a_hi f(a_hi).
    """
    low, high = as_rows(lower), as_rows(upper)
    edges, first, last = share_edges(low, high)
    q, d_eta, d_log_sigma = _normal_bins(eta, edges, first, last, low < high, 1.0 / sigma)
    return q, d_eta, d_log_sigma


@njit(cache=True, nogil=True, fastmath={"contract"})
def _normal_bins(eta, edges, first, last, holds, inverse):  # type: ignore[no-untyped-def]
    n, k_bins, n_edges = len(eta), len(first), edges.shape[1]
    block = np.empty((3, n, k_bins))  # one block: the allocator keeps it from call to call
    q, d_eta, d_scale = block[0], block[1], block[2]
    a, tail, f = np.empty(n_edges), np.empty(n_edges), np.empty(n_edges)
    for i in range(n):
        row = i if len(edges) > 1 else 0
        for e in range(n_edges):
            a[e] = min(max((edges[row, e] - eta[i]) * inverse, -_FAR), _FAR)
            tail[e], f[e] = 0.0, 0.0
            if abs(a[e]) < _FAR:
                tail[e], f[e] = _tail_and_density(a[e])
        for k in range(k_bins):
            lo, hi = first[k], last[k]
            # the part below the mean and the part above it, each from the tail on its side
            mass = 1 - tail[lo] - tail[hi]
            if a[lo] >= 0 or a[hi] <= 0:
                mass = abs(tail[lo] - tail[hi])
            q[i, k] = mass
            d_eta[i, k] = (f[lo] - f[hi]) * inverse
            d_scale[i, k] = a[lo] * f[lo] - a[hi] * f[hi]
            if not holds[row, k]:
                q[i, k], d_eta[i, k], d_scale[i, k] = 0.0, 0.0, 0.0
            elif mass < NARROW * max(tail[lo], tail[hi]):
                # the width from the edges themselves: a[hi] - a[lo] has lost its digits
                width = (edges[row, hi] - edges[row, lo]) * inverse
                q[i, k], shift, d_scale[i, k] = _narrow_bin(a[lo] + 0.5 * width, width)
                d_eta[i, k] = shift * inverse
    return q, d_eta, d_scale
