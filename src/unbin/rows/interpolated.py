"""Sums over the rows of each block of functions of eta, between the points of a table.

What a family says of a row depends on its linear predictor alone. With f such a function, given at
points a step apart, and w_g(eta) the weights of Lagrange's interpolation between the eight points
around eta,

    Σ_i f(eta_i) x_i = Σ_g f(g) h(g),    h(g) = Σ_i w_g(eta_i) x_i.

So the rows of a large block are gathered at the points, whatever the functions, and functions are
summed over the points, of which there are a few hundred. The rows of a small block are looked up in
the table one by one. Either way one compiled pass, without the interpreter and without temporaries
of the size of the rows, serves every family.

The error is that of a polynomial of degree 7 through neighbouring values, and relative to them: in
the tails probabilities stay right in relative terms.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unbin._compiling import inner, njit
from unbin._linalg import PANEL
from unbin._typing import FloatArray
from unbin.rows.lanes import EIGHT, add_eight, combine_eight
from unbin.rows.products import LANES, products, up

BEFORE = 3
"""Points below the last one at or below eta that it is interpolated with; four lie above."""
_TILE = 256
"""Rows worked on at a time: what is kept of them stays in the cache."""
_GROUP = 16
"""Columns that are gathered together: what is held of them stays in the cache."""
_INVERSE = np.array(
    [(-1.0) ** (7 - p) / (math.factorial(p) * math.factorial(7 - p)) for p in range(EIGHT)]
)
"""1 / Π_(q ≠ p) (p - q)."""


class Points(NamedTuple):
    """Functions of eta at points a step apart.

    Attributes
    ----------
    values : (F, G)
        L statistics, their derivatives in eta and in each of m nuisance parameters, and covariances
        with a total where there is one. F is a multiple of eight, G more than is asked for by
        eight: what is left over is 0.
    turned : (G, F)
        The same.
    first, inverse : float
        The first point in steps, and 1 / step.
    moves : (b, Q), or (1, 1) and 0 where there are none
        Moves of eta, by block, that functions are averaged over; in steps.
    shares : (Q,)
        What each of them weighs.
    """

    values: FloatArray
    turned: FloatArray
    first: float
    inverse: float
    moves: FloatArray
    shares: FloatArray


class Sums(NamedTuple):
    """Sums over the rows of each of b blocks, L statistics each.

    Attributes
    ----------
    mean : (b, L)
    slopes : (b, L, 1 + d + m)
        Of derivatives in a shift of eta, in the slopes and in nuisance parameters.
    cross : (b, L, L)
        -Σ f fᵀ of the bins; the row of a total holds its covariances.
    squares, scales : (b, L, d), or empty where they are not wanted
        Of derivatives in eta times x², and in the first nuisance parameter times x.
    """

    mean: FloatArray
    slopes: FloatArray
    cross: FloatArray
    squares: FloatArray
    scales: FloatArray


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def table_sums(  # type: ignore[no-untyped-def]
    memory, first, step, offset, weights, start, theta, points, n_bins, covariance, sums
):
    """Add the rows of each block to its sums.

    Parameters
    ----------
    memory, first, step : (N,), int, int
        What holds the columns, where the first begins, and how far they are apart
        (:func:`unbin.rows.rows.flat_columns`).
    offset, weights : (n,)
        ``weights`` are the people that rows stand for. Empty where there is no offset, and where
        each row stands for one.
    start : (b + 1,)
        Rows of the blocks.
    theta : (1 + d,)
        Intercept and slopes.
    points : Points
    n_bins : int
        Statistics that are probabilities of bins.
    covariance : bool
        Whether ``cross`` is wanted.
    sums : Sums
    """
    d, size = len(theta) - 1, sums.mean.shape[1]
    width, n_points = points.values.shape
    checks, moved = len(sums.squares) > 0, points.moves.size > 1 or points.moves[0, 0] != 0
    held, x = np.zeros((up(1 + d, 4), n_points)), np.zeros((up(1 + d, 4), _TILE + LANES))
    squares = np.zeros((up(d * checks, 4), n_points))
    x_squares = np.zeros((len(squares), _TILE + LANES))
    own = np.zeros((width, n_points * moved))
    level = np.zeros((size, max(n_points, _TILE + LANES)))
    found = np.zeros((size, max(len(held), up(size, 4))))
    eta, people, place = np.zeros(_TILE), np.ones(_TILE), np.zeros(_TILE)
    point, weight = np.zeros(_TILE, np.int64), np.zeros((_TILE, EIGHT))
    f, looked_up = np.zeros((_TILE, width)), np.zeros((width, _TILE + LANES))
    b, row, tile, end = 0, start[0], start[0], start[0]
    while row < start[-1]:
        while start[b + 1] <= row:
            b += 1
        if start[b + 1] - row >= _TILE:
            low, high = n_points, 0
            while row < start[b + 1]:
                n = min(_TILE, start[b + 1] - row)
                _predict(
                    memory, first + row, step, theta, offset, weights, row, eta[:n], people[:n]
                )
                for i in range(n):
                    place[i] = eta[i] * points.inverse - points.first
                _interpolate(place[:n], 1.0, point, weight)
                for i in range(n):
                    low, high = min(low, point[i]), max(high, point[i])
                _gather(memory, first + row, step, d, people[:n], point, weight, held, squares)
                row += n
            n, functions = up(high + EIGHT - low, LANES), points.values
            if moved:
                _average(points, b, low, n, own)
                functions = own
            skip, by, by_square, end = low, held, squares, row
        else:
            if row >= end:  # as many small blocks as fit into a tile
                tile, last = row, b + 1
                while last + 1 < len(start) and start[last + 1] - row <= _TILE:
                    last += 1
                end = start[last]
                n = end - row
                _predict(
                    memory, first + row, step, theta, offset, weights, row, eta[:n], people[:n]
                )
                _look_up(points, start, b, row, end, eta, place, point, weight, f, looked_up)
            n = start[b + 1] - row
            _copy(memory, first + row, step, d, people[row - tile : row - tile + n], x, x_squares)
            skip, low, by, by_square, functions = row - tile, 0, x, x_squares, looked_up
            row, n = row + n, up(n, LANES)
        _finish(functions, skip, by, by_square, low, n, n_bins, covariance, level, found, b, sums)
        _clear(by, low, n)
        _clear(by_square, low, n)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def table_products(  # type: ignore[no-untyped-def]
    memory, first, step, offset, weights, theta, values, low, inverse, n, total
):
    """Add Σ f(eta) (1, x)(1, x)ᵀ over n rows to ``total`` (1 + d, 1 + d), f at least 0.

    ``values`` (G,) are f at points from ``low`` steps on, 1 / ``inverse`` apart, one of them where
    f is constant; the rest as in :func:`table_sums`.
    """
    eta, people, place = np.zeros(_TILE), np.ones(_TILE), np.zeros(_TILE)
    point, weight = np.zeros(_TILE, np.int64), np.zeros((_TILE, EIGHT))
    x = np.zeros(total.shape[0] * _TILE).reshape(total.shape[0], _TILE)
    for row in range(0, n, _TILE):
        m = min(_TILE, n - row)
        slopes = theta if len(values) > 1 else theta[:1]
        _predict(memory, first + row, step, slopes, offset, weights, row, eta[:m], people[:m])
        if len(values) == 1:
            for i in range(m):
                x[0, i] = np.sqrt(values[0] * people[i])
        else:
            _interpolate_at(eta[:m], people, values, low, inverse, place, point, weight, x)
        for j in range(1, len(x)):
            at = first + row + (j - 1) * step
            column = memory[at : at + m]
            for i in range(m):
                x[j, i] = column[i] * x[0, i]
        if m < _TILE:
            _clear(x, m, _TILE - m)
        total += np.dot(x, x.T)


@inner(nogil=True, fastmath={"contract"}, error_model="numpy")
def _interpolate_at(eta, people, values, low, inverse, place, point, weight, x):  # type: ignore[no-untyped-def]
    """Write the root of a function of eta, times the people of each row, into ``x[0]``."""
    n = len(eta)
    for i in range(n):
        place[i] = eta[i] * inverse - low
    _interpolate(place[:n], 1.0, point, weight)
    for i in range(n):
        f = 0.0
        for p in range(EIGHT):
            f += weight[i, p] * values[point[i] + p]
        x[0, i] = np.sqrt(max(f, 0.0) * people[i])


@inner(nogil=True, fastmath={"contract"}, error_model="numpy")
def _predict(memory, first, step, theta, offset, weights, row, eta, people):  # type: ignore[no-untyped-def]
    """Write eta, and the people that rows stand for, of the rows from ``row`` on."""
    n = len(eta)
    for i in range(n):
        eta[i] = theta[0] + (offset[row + i] if len(offset) else 0.0)
    for j in range(len(theta) - 1):
        slope, at = theta[1 + j], first + j * step
        values = memory[at : at + n]
        for i in range(n):
            eta[i] += slope * values[i]
    for i in range(n if len(weights) else 0):
        people[i] = weights[row + i]


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _interpolate(place, share, point, weight):  # type: ignore[no-untyped-def]
    """Write the first of the eight points around each place, and what they weigh, times a share."""
    for i in range(len(place)):
        below = np.int64(place[i])
        point[i] = below - BEFORE
        t = place[i] - below
        a, b, c, d, e, f, g, h = t + 3, t + 2, t + 1, t, t - 1, t - 2, t - 3, t - 4
        abc, fgh = a * b * c, f * g * h
        abcd, efgh = share * d * abc, share * e * fgh
        weight[i, 0] = _INVERSE[0] * (b * c * d * efgh)
        weight[i, 1] = _INVERSE[1] * (a * c * d * efgh)
        weight[i, 2] = _INVERSE[2] * (a * b * d * efgh)
        weight[i, 3] = _INVERSE[3] * (abc * efgh)
        weight[i, 4] = _INVERSE[4] * (abcd * fgh)
        weight[i, 5] = _INVERSE[5] * (abcd * e * g * h)
        weight[i, 6] = _INVERSE[6] * (abcd * e * f * h)
        weight[i, 7] = _INVERSE[7] * (abcd * e * f * g)


@inner(nogil=True, fastmath={"contract"}, error_model="numpy")
def _gather(memory, row, step, d, people, point, weight, held, squares):  # type: ignore[no-untyped-def]
    """Add rows, 1 and x times their people, to the points around them."""
    n_points = held.shape[1]
    for i in range(len(people)):
        add_eight(held, point[i], weight, EIGHT * i, people[i])
    for low in range(0, d, _GROUP):
        high = min(low + _GROUP, d)
        for i in range(len(people)):
            at, place = point[i] + (1 + low) * n_points, row + i + low * step
            for _ in range(low, high):
                add_eight(held, at, weight, EIGHT * i, people[i] * memory[place])
                at += n_points
                place += step
        for i in range(len(people) if len(squares) else 0):
            at, place = point[i] + low * n_points, row + i + low * step
            for _ in range(low, high):
                add_eight(squares, at, weight, EIGHT * i, people[i] * memory[place] ** 2)
                at += n_points
                place += step


@inner(nogil=True, fastmath={"contract"}, error_model="numpy")
def _average(points, b, low, n, out):  # type: ignore[no-untyped-def]
    """Write the functions at n points from ``low`` on, averaged over the moves of a block."""
    at, weight = np.zeros(1, np.int64), np.zeros((1, EIGHT))
    _clear(out, low, n)
    for q in range(len(points.shares)):
        whole = math.floor(points.moves[b, q])
        _interpolate(points.moves[b, q : q + 1] - whole, points.shares[q], at, weight)
        for p in range(EIGHT):
            skip = low + whole + at[0] + p
            for k in range(len(out)):
                values = points.values[k, skip : skip + n]
                for g in range(n):
                    out[k, low + g] += weight[0, p] * values[g]


@inner(nogil=True, fastmath={"contract"}, error_model="numpy")
def _look_up(  # type: ignore[no-untyped-def]
    points, start, b, row, end, eta, place, point, weight, f, out
):
    """Write the functions of some rows, of block b and after, each row a column of ``out``."""
    width, n = len(points.values), end - row
    for i in range(n):
        for k in range(width):
            f[i, k] = 0.0
    for q in range(len(points.shares)):
        here = b
        for i in range(n):
            while start[here + 1] <= row + i:
                here += 1
            move = points.moves[min(here, len(points.moves) - 1), q] - points.first
            place[i] = eta[i] * points.inverse + move
        _interpolate(place[:n], points.shares[q], point, weight)
        for i in range(n):
            for k in range(0, width, EIGHT):
                at = point[i] * width + k
                combine_eight(f, i * width + k, points.turned, at, width, weight, EIGHT * i)
    for k in range(width):
        for i in range(n):
            out[k, i] = f[i, k]


@inner(nogil=True, fastmath={"contract"}, error_model="numpy")
def _copy(memory, row, step, d, people, x, squares):  # type: ignore[no-untyped-def]
    """Copy rows, 1 and x times their people, and fill up with zeros."""
    n = len(people)
    for i in range(n):
        x[0, i] = people[i]
    for j in range(d):
        values = memory[row + j * step : row + j * step + n]
        for i in range(n):
            x[1 + j, i] = people[i] * values[i]
        for i in range(n if len(squares) else 0):
            squares[j, i] = people[i] * values[i] * values[i]
    _clear(x, n, up(n, LANES) - n)
    _clear(squares, n, up(n, LANES) - n)


@inner(nogil=True)
def _clear(values, first, n):  # type: ignore[no-untyped-def]
    """Set some columns to 0."""
    for j in range(len(values)):
        for i in range(first, first + n):
            values[j, i] = 0.0


@inner(nogil=True, fastmath=True, error_model="numpy")
def _finish(  # type: ignore[no-untyped-def]
    f, skip, x, squares, low, n, n_bins, covariance, level, found, b, sums
):
    """Add functions times what is held of a block's rows, over points or rows, to its sums."""
    size, d, first = sums.mean.shape[1], sums.squares.shape[2], n - n
    m = sums.slopes.shape[2] - 1 - d
    for group in range(2 + m + (size > n_bins)):
        # of statistics and covariances with a total nothing but sums is wanted
        wanted = group == 1 or (group == 2 and len(sums.scales) > 0)
        products(f, group * size, skip, x, low, n, up(1 + d * wanted, 4), found)
        for k in range(size):
            if group == 0:
                sums.mean[b, k] += found[k, 0]
            elif group == 1:
                for j in range(1 + d):
                    sums.slopes[b, k, j] += found[k, j]
            elif group < 2 + m:
                sums.slopes[b, k, d + group - 1] += found[k, 0]
                for j in range(d * wanted):
                    sums.scales[b, k, j] += found[k, 1 + j]
            elif covariance:
                sums.cross[b, n_bins, k] += found[k, 0]
    if len(sums.squares):
        products(f, size, skip, squares, low, n, len(squares), found)
        for k in range(size):
            for j in range(d):
                sums.squares[b, k, j] += found[k, j]
    if covariance and n_bins > PANEL:
        own, weighed = np.empty((n_bins, n)), np.empty((n_bins, n))
        for k in range(n_bins):
            for i in range(n):
                own[k, i] = f[k, skip + i]
                weighed[k, i] = own[k, i] * x[0, low + i]
        crossed = np.dot(weighed, own.T)
        for k in range(n_bins):
            for j in range(n_bins):
                sums.cross[b, k, j] -= crossed[k, j]
    elif covariance:
        for k in range(n_bins):
            for i in range(n):
                level[k, i] = f[k, skip + i] * x[0, low + i]
        products(level, first, first, f, skip, n, up(n_bins, 4), found)
        for k in range(n_bins):
            for j in range(n_bins):
                sums.cross[b, k, j] -= found[k, j]
