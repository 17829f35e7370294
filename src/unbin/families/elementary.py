"""An exponential function that loops over rows can be vectorised through.

Numba calls the C library once per number for ``math.exp``. Without calls, branches and checks for
division by 0 (``error_model="numpy"``) the compiler works on as many rows at a time as the
processor has lanes, which is several times as fast.
"""

from __future__ import annotations

import math

import numpy as np

from unbin._compiling import njit

TILE = 256
"""Rows worked on at a time: what is kept of them for every edge stays in the cache."""
SMALLEST_EXPONENT = -800.0
"""What :func:`exp_below_one` takes at least; its value there is 0."""

_TAYLOR = np.array([1 / math.factorial(j) for j in range(12, -1, -1)])
"""exp to half a unit in the last place where the argument is at most log(2)/2."""
_INV_LOG_TWO = 1 / math.log(2)
_LOG_TWO_HIGH = 6.93147180369123816490e-01
_LOG_TWO_LOW = 1.90821492927058770002e-10
"""log(2) in two parts; multiples of the first have no rounding error."""
_ROUND = 1.5 * 2.0**52
"""Adding this rounds to an integer, which is then in the lowest bits."""
_LIFT = 200
"""Powers of 2 are formed this much too large: the smallest ones have no exponent of their own."""
_BIAS = 1023 + _LIFT
_LOWER = 2.0**-_LIFT


@njit(cache=True, nogil=True, inline="always", error_model="numpy")
def exp_below_one(x):  # type: ignore[no-untyped-def]
    """Return exp(x) for x from -800 to 0: 2^k exp(r) with k an integer and r small."""
    shifted = x * _INV_LOG_TWO + _ROUND
    k = shifted - _ROUND
    r = x - k * _LOG_TWO_HIGH - k * _LOG_TWO_LOW
    value = _TAYLOR[0]
    for j in range(1, 13):
        value = value * r + _TAYLOR[j]
    bits = (np.float64(shifted).view(np.int64) + _BIAS) << 52
    return value * np.int64(bits).view(np.float64) * _LOWER


_ATANH = np.array([2 / (2 * j + 1) for j in range(15, -1, -1)])
"""Twice the inverse hyperbolic tangent, over its argument, by powers of the argument's square."""


@njit(cache=True, nogil=True, inline="always", error_model="numpy")
def log_of_one_and(x):  # type: ignore[no-untyped-def]
    """Return log(1 + x) for x from 0 to 1: 2 artanh(s) with s = x / (2 + x), at most 1/3."""
    s = x / (2.0 + x)
    square = s * s
    value = _ATANH[0]
    for j in range(1, 16):
        value = value * square + _ATANH[j]
    return s * value
