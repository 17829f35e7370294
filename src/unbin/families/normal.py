"""Probabilities of bins under a normal law, fast and right in the far tails."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.polynomial import chebyshev
from scipy.special import erfcx

from unbin.typing import FloatArray

NARROW = 1e-3
"""A bin with less than this share of the tail beyond it is density times width: the difference
of two tails would lose digits there, and the two-point rule is right to 1e-14."""

_TWO_POINT = 0.5 / math.sqrt(3.0)
_ROOT_HALF = math.sqrt(0.5)
_INV_ROOT_TWO_PI = 1 / math.sqrt(2 * math.pi)
_CENTRE = 3.75


def _scaled_erfcx(t: FloatArray) -> FloatArray:
    """Return (1 + 2x) exp(x²) erfc(x) at x = c (1 + t)/(1 - t), smooth on [-1, 1]."""
    x = _CENTRE * (1 + t) / (1 - t)
    return np.asarray((1 + 2 * x) * erfcx(x))


# a polynomial of degree 20 in t is right to 1e-14; even and odd powers are summed apart, because
# two short chains of multiply-adds run at the same time
_POWERS = chebyshev.cheb2poly(chebyshev.chebinterpolate(_scaled_erfcx, 20))
_EVEN, _ODD = _POWERS[::2][::-1].copy(), _POWERS[1::2][::-1].copy()


@njit(cache=True, nogil=True, inline="always", fastmath={"contract"})
def _tail_and_density(a):  # type: ignore[no-untyped-def]
    """Return P(Z > |a|) and the standard normal density at a."""
    x = min(abs(a), 1e3) * _ROOT_HALF
    f = math.exp(-x * x)
    t = (x - _CENTRE) / (x + _CENTRE)
    s = t * t
    even, odd = _EVEN[0] * s + _EVEN[1], _ODD[0]
    for j in range(1, 10):
        even = even * s + _EVEN[j + 1]
        odd = odd * s + _ODD[j]
    return 0.5 * f * (even + t * odd) / (1 + 2 * x), _INV_ROOT_TWO_PI * f


@njit(cache=True, nogil=True)
def _narrow_bin(low, high):  # type: ignore[no-untyped-def]
    """Return q, -dq/dshift and -dq/dlog scale of a narrow bin of the standard normal."""
    q, first, second = 0.0, 0.0, 0.0
    half = _TWO_POINT * (high - low)
    for a in (0.5 * (low + high) - half, 0.5 * (low + high) + half):
        f = 0.5 * (high - low) * _INV_ROOT_TWO_PI * math.exp(-0.5 * a * a)
        q += f
        first += f * a
        second += f * (a * a - 1)
    return q, first, second


@njit(cache=True, nogil=True, fastmath={"contract"})
def normal_bins(eta, lower, upper, sigma):  # type: ignore[no-untyped-def]
    """Return q, dq/d eta and dq/d log sigma, each (n, K), for y normal around eta.

    With a = (edge - eta)/sigma and f the standard normal density, q is a difference of the tails
    on the side away from the mean, dq/d eta = (f(a_lo) - f(a_hi))/sigma and dq/d log sigma =
    a_lo f(a_lo) - a_hi f(a_hi). ``lower`` and ``upper`` are (1, K) or (n, K).
    """
    n, k_bins = len(eta), lower.shape[1]
    q, d_eta, d_scale = (
        np.zeros((n, k_bins)),
        np.zeros((n, k_bins)),
        np.zeros((n, k_bins)),
    )
    inverse = 1.0 / sigma
    for i in range(n):
        row = i if len(lower) > 1 else 0
        a_hi, tail_hi, f_hi, last = 0.0, 0.0, 0.0, np.nan
        for k in range(k_bins):
            low, high = lower[row, k], upper[row, k]
            if not low < high:
                continue
            if low == last:
                a_lo, tail_lo, f_lo = a_hi, tail_hi, f_hi
            else:
                a_lo = (low - eta[i]) * inverse
                tail_lo, f_lo = _tail_and_density(a_lo)
            a_hi, last = (high - eta[i]) * inverse, high
            tail_hi, f_hi = _tail_and_density(a_hi)
            if a_lo >= 0:
                mass = tail_lo - tail_hi
            elif a_hi <= 0:
                mass = tail_hi - tail_lo
            else:
                mass = 1 - tail_lo - tail_hi
            if mass < NARROW * max(tail_lo, tail_hi):
                mass, first, second = _narrow_bin(a_lo, a_hi)
                d_eta[i, k], d_scale[i, k] = first * inverse, second
            else:
                d_eta[i, k] = (f_lo - f_hi) * inverse
                d_scale[i, k] = _product(a_lo, f_lo) - _product(a_hi, f_hi)
            q[i, k] = mass
    return q, d_eta, d_scale


@njit(cache=True, nogil=True, inline="always")
def _product(a, f):  # type: ignore[no-untyped-def]
    """Return a f(a), which is 0 at infinity."""
    return a * f if f > 0 else 0.0
