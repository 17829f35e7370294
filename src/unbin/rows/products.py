"""Sums of products over the rows of each block."""

from __future__ import annotations

import numpy as np

from unbin._compiling import njit

_TILE = 256
"""Rows whose products are formed at a time."""
LANES = 8
"""Numbers in the widest vectors of a processor."""


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def accumulate(  # type: ignore[no-untyped-def]
    q, d_eta, d_nuisance, extra, columns, weights, row, start, mean, slopes, cross, covariance,
    n_bins,
):  # fmt: skip
    """Add a tile of rows, which begins at ``row``, to the sums of its blocks.

    Features are copied in tiles of rows, so that products find them in the cache; the rest block
    by block, followed by zeros that make up whole vectors (the features beside them do not count).
    ``cross`` receives -Σ q qᵀ for bins, and Σ extra in the row of the total. ``weights`` are the
    people that the rows of the tile stand for; empty where each stands for one. Levels are then
    multiplied by their roots, so that products of two levels have the weight once.
    """
    n, size, first = q.shape[0], q.shape[1], row - row
    d, m = columns.shape[0], d_nuisance.shape[0]
    width = _TILE + LANES
    one, slope = np.zeros((1, width)), np.zeros((size, width))
    x, level = np.zeros((up(1 + d, 4), width)), np.zeros((up((1 + m) * size, 4), width))
    for i in range(width):
        one[0, i], x[0, i] = 1.0, 1.0
    by_one, by_x = np.empty((1, len(level))), np.empty((size, len(x)))
    by_level = np.empty((size, up(size, 4)))
    b, after = 0, len(start) - 1  # the block of the first row, by halves
    while after - b > 1:
        middle = (b + after) // 2
        if start[middle] <= row:
            b = middle
        else:
            after = middle
    low = 0
    for tile in range(0, n, _TILE):
        end = min(tile + _TILE, n)
        for j in range(d):
            _copy_padded(columns[j, row + tile : row + end], x[1 + j, : end - tile])
        while low < end:
            while start[b + 1] - row <= low:
                b += 1
            high = min(end, start[b + 1] - row)
            used = up(high - low, LANES)
            for k in range(size):
                _copy_padded(d_eta[low:high, k], slope[k, :used])
                _copy_padded(q[low:high, k], level[k, :used])
                for j in range(m):
                    _copy_padded(d_nuisance[j, low:high, k], level[(1 + j) * size + k, :used])
            if len(weights):
                for i in range(high - low):
                    one[0, i] = np.sqrt(weights[low + i])
                    for k in range(size):
                        slope[k, i] *= weights[low + i]
                    for k in range((1 + m) * size):
                        level[k, i] *= one[0, i]
            products(slope, first, first, x, low - tile, used, len(x), by_x)
            products(one, first, first, level, first, used, len(level), by_one)
            for k in range(size):
                mean[b, k] += by_one[0, k]
                for j in range(d + 1):
                    slopes[b, k, j] += by_x[k, j]
                for j in range(m):
                    slopes[b, k, 1 + d + j] += by_one[0, (1 + j) * size + k]
            if covariance:
                products(level, first, first, level, first, used, by_level.shape[1], by_level)
                for k in range(n_bins):
                    for j in range(n_bins):
                        cross[b, k, j] -= by_level[k, j]
                for i in range(low, high if size > n_bins else low):
                    for k in range(size):
                        cross[b, n_bins, k] += extra[i, k] * (weights[i] if len(weights) else 1.0)
            low = high


@njit(cache=True, nogil=True)
def up(size, step):  # type: ignore[no-untyped-def]
    """Round up to a multiple."""
    return (size + step - 1) // step * step


@njit(cache=True, nogil=True)
def _copy_padded(values, out):  # type: ignore[no-untyped-def]
    """Copy, and fill the rest with zeros (slices would be compiled with their error checks)."""
    for i in range(len(values)):
        out[i] = values[i]
    for i in range(len(values), len(out)):
        out[i] = 0.0


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def products(left, top, left_skip, right, skip, n, width, out):  # type: ignore[no-untyped-def]
    """Write left rightᵀ over n columns of each, from ``left_skip`` and ``skip`` on.

    Rows of ``left`` are those from ``top`` on, as many as ``out`` has; of ``right`` the first
    ``width``, a multiple of four. A call of BLAS costs more than the products of a small block.
    """
    for j in range(0, width, 4):
        u, v = right[j, skip : skip + n], right[j + 1, skip : skip + n]
        w, x = right[j + 2, skip : skip + n], right[j + 3, skip : skip + n]
        for k in range(len(out)):
            a = left[top + k, left_skip : left_skip + n]
            au, av, aw, ax = 0.0, 0.0, 0.0, 0.0
            for i in range(n):
                au += a[i] * u[i]
                av += a[i] * v[i]
                aw += a[i] * w[i]
                ax += a[i] * x[i]
            out[k, j], out[k, j + 1], out[k, j + 2], out[k, j + 3] = au, av, aw, ax
