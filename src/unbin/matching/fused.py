"""One pass of the objective over whole blocks in one compiled call, without the interpreter's lock.

Blocks are taken a tile at a time: one large block, or neighbouring small ones. Predictor, means,
ranks, targets, divergence and gradient of a tile follow each other while its rows are in the cache;
X is read once. Sums are formed in an order that depends on the blocks alone.
"""

from __future__ import annotations

import numpy as np

from unbin._compiling import njit
from unbin._typing import FloatArray, KeyArray
from unbin.families import BregmanFamily
from unbin.families.compiled import divergence_of, mean_at
from unbin.matching.bounds import RankBounds
from unbin.matching.select import assign_block, room_for
from unbin.rows.rows import Rows, flat_columns

_TILE = 1 << 10
"""Rows of a tile of small blocks, at most."""
_STRIP = 1 << 9
"""Rows whose products with all columns are formed at a time."""
_FAST = {"reassoc", "contract", "nsz"}
"""Sums may be split among lanes; bounds may be infinite. Functions that a function calls inherit
this, and the exponential function must not: only those that call none have it."""


_NOTHING = np.empty(0)


def whole_pass(
    rows: Rows,
    family: BregmanFamily,
    bounds: RankBounds,
    theta: FloatArray,
    z: FloatArray = _NOTHING,
) -> tuple[float, FloatArray, float]:
    """Return D(z || mean), its gradient and Σ (z - mean)² over whole blocks, z at its best.

    ``z`` (n,), where it is given, receives the targets.
    """
    if bounds.phi is None:
        bounds = bounds.measured(family)
    assert bounds.phi is not None
    columns, span = flat_columns(rows.matrix), rows.span
    runs = bounds.run_start[span.start : span.stop + 1]
    limits = bounds.cut, bounds.lower, bounds.upper, *bounds.phi
    shift, offset = int(rows.fit_intercept), rows.offset_or_none()

    def done(key: KeyArray) -> tuple[float, FloatArray, float, bool]:
        gradient = np.zeros(len(theta))
        value, square, divided = match_blocks(
            family.law, columns, shift, offset, key, theta, rows.start, runs, *limits, gradient, z
        )
        return value, gradient, square, divided

    value, gradient, square, divided = done(rows.known_key())
    if divided:
        value, gradient, square, _ = done(np.asarray(rows.key))
    return value, gradient, square


@njit(cache=True, nogil=True, error_model="numpy")
def match_blocks(  # type: ignore[no-untyped-def]
    law,
    columns,
    shift,
    offset,
    key,
    theta,
    start,
    runs,
    cut,
    lower,
    upper,
    phi_low,
    phi_high,
    gradient,
    z,
):
    """Return D(z || mean), Σ (z - mean)² and whether keys were needed and there were none.

    Parameters
    ----------
    law : CompiledLaw
    columns : ((m,), first, step), the memory in which column j begins at first + j step
    shift : int, whether theta begins with an intercept
    offset : (n,) or (0,)
    key : (n,) or (0,) uint64
    theta : (d,) or (1 + d,)
    start : (b + 1,) int64, rows of block j are start[j]:start[j + 1]
    runs : (b + 1,) int64, runs of block j are runs[j]:runs[j + 1]
    cut : (n_runs,) int64, the rank at which each run ends, counted within its block
    lower, upper, phi_low, phi_high : (n_runs,)
    gradient : as theta, to add the gradient to
    z : (n,) or (0,), to write the targets into
    """
    n_blocks, widest = len(start) - 1, _TILE
    for b in range(n_blocks):
        widest = max(widest, start[b + 1] - start[b])
    room, run = room_for(widest), np.empty(widest, np.int32)
    eta, mean, target = np.empty(widest), np.empty(widest), np.empty(widest)
    phi, residual = np.empty(widest), np.empty(widest)
    value, square, divided, b = 0.0, 0.0, False, 0
    while b < n_blocks:
        first, low = b, start[b]
        b += 1
        while b < n_blocks and start[b + 1] - low <= _TILE:
            b += 1
        high = start[b]
        n = high - low
        _predict(columns, low, offset[low:high], theta, shift, eta[:n])
        _means(law, eta[:n], mean[:n])
        for j in range(first, b):
            s, e = start[j] - low, start[j + 1] - low
            own = key[low + s : low + e]
            divided |= assign_block(eta[s:e], own, cut, runs[j], runs[j + 1], room, run[s:e])
        _clip(mean[:n], run[:n], lower, upper, phi_low, phi_high, target[:n], phi[:n])
        more = _compare(law, phi[:n], target[:n], eta[:n], mean[:n], residual[:n])
        value, square = value + more[0], square + more[1]
        if len(z):
            z[low:high] = target[:n]
        _add_products(columns, low, residual[:n], shift, gradient)
    return value, square, divided


@njit(cache=True, nogil=True, error_model="numpy")
def _means(law, eta, mean):  # type: ignore[no-untyped-def]
    """Write the means."""
    for i in range(len(eta)):
        mean[i] = mean_at(law, eta[i])


@njit(cache=True, nogil=True, error_model="numpy")
def _clip(mean, run, lower, upper, phi_low, phi_high, target, phi):  # type: ignore[no-untyped-def]
    """Write the targets, and phi of those that are not the mean; nothing branches."""
    for i in range(len(mean)):
        value, r = mean[i], run[i]
        low, high, at_low, at_high = lower[r], upper[r], phi_low[r], phi_high[r]
        phi[i] = at_low if value < low else at_high
        value = low if value < low else value
        target[i] = high if value > high else value


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _compare(law, phi, target, eta, mean, residual):  # type: ignore[no-untyped-def]
    """Write mean - z; return D(z || mean) and Σ (z - mean)²."""
    value, square = 0.0, 0.0
    for i in range(len(mean)):
        apart = divergence_of(law, phi[i], target[i], eta[i], mean[i])
        value += apart if target[i] != mean[i] else 0.0
        residual[i] = mean[i] - target[i]
        square += residual[i] * residual[i]
    return value, square


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _predict(columns, row, offset, theta, shift, eta):  # type: ignore[no-untyped-def]
    """Write the linear predictor of the rows from ``row`` on, four columns at a time."""
    memory, first, step = columns
    level, n_slopes = theta[0] if shift else 0.0, len(theta) - shift
    for low in range(0, len(eta), _STRIP):
        here = eta[low : low + _STRIP]
        n, place = len(here), first + row + low
        if len(offset):
            for i in range(n):
                here[i] = level + offset[low + i]
        else:
            here[:] = level
        for j in range(shift, shift + n_slopes - 3, 4):
            u, v = memory[place : place + n], memory[place + step : place + step + n]
            place += 2 * step
            w, x = memory[place : place + n], memory[place + step : place + step + n]
            place += 2 * step
            a, b, c, d = theta[j], theta[j + 1], theta[j + 2], theta[j + 3]
            for i in range(n):
                here[i] += (a * u[i] + b * v[i]) + (c * w[i] + d * x[i])
        for j in range(len(theta) - n_slopes % 4, len(theta)):
            u, a = memory[place : place + n], theta[j]
            place += step
            for i in range(n):
                here[i] += a * u[i]


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _add_products(columns, row, residual, shift, gradient):  # type: ignore[no-untyped-def]
    """Add the products of residuals and columns, the intercept's first."""
    memory, first, step = columns
    n_slopes = len(gradient) - shift
    for low in range(0, len(residual), _STRIP):
        here = residual[low : low + _STRIP]
        n, place = len(here), first + row + low
        if shift:
            gradient[0] += here.sum()
        for j in range(shift, shift + n_slopes - 3, 4):
            u, v = memory[place : place + n], memory[place + step : place + step + n]
            place += 2 * step
            w, x = memory[place : place + n], memory[place + step : place + step + n]
            place += 2 * step
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            for i in range(n):
                a += u[i] * here[i]
                b += v[i] * here[i]
                c += w[i] * here[i]
                d += x[i] * here[i]
            gradient[j] += a
            gradient[j + 1] += b
            gradient[j + 2] += c
            gradient[j + 3] += d
        for j in range(len(gradient) - n_slopes % 4, len(gradient)):
            u, a = memory[place : place + n], 0.0
            place += step
            for i in range(n):
                a += u[i] * here[i]
            gradient[j] += a
