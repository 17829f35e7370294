"""The multinomial logit of a row, and its sums over the people of each block.

Category k of K has the predictor eta_ik = x_i theta_k + shift_bgk of person i in block b and group
g, and the probability q_ik = exp(eta_ik) / Σ_l exp(eta_il). With W_i = diag(q_i) - q_i q_iᵀ, both
the covariance of the person's category and ∂q_i/∂eta_i, all that scores need are sums of q_i, of
W_i times the features, and of W_i and W_i². A shift of minus infinity is a category that somebody
cannot be in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbin._compiling import njit
from unbin._typing import FloatArray, IntArray
from unbin.rows.products import LANES, products, up
from unbin.rows.rows import LARGE, Rows, kernel

_TILE = 256
"""Rows whose products are formed at a time."""
_TILE_CELLS = 1 << 18
"""Numbers that are formed at a time where NumPy sums them."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of each row, read off its columns: the cell of some categorical features.

    Attributes
    ----------
    columns : tuple of (m_f,)
        Per feature the columns that mark its levels but the first.
    cut : (d,)
        Half-way between 0 and 1, as the columns are standardised.
    """

    columns: tuple[IntArray, ...] = ()
    cut: FloatArray | None = None

    @property
    def n(self) -> int:
        """Groups: cells of all features' levels."""
        return int(np.prod([1 + len(columns) for columns in self.columns], dtype=np.int64))

    def codes(self, matrix: FloatArray) -> IntArray:
        """Return the group of each row of standardised columns, (n,)."""
        code = np.zeros(len(matrix), np.int64)
        for columns in self.columns:
            assert self.cut is not None
            level = np.zeros(len(matrix), np.int64)
            for place, j in enumerate(columns, 1):
                level[matrix[:, j] > self.cut[j]] = place
            code = code * (1 + len(columns)) + level
        return code

    def levels(self) -> IntArray:
        """Return the level of each feature in each group, (G, F)."""
        sizes = [1 + len(columns) for columns in self.columns]
        grid = np.indices(sizes).reshape(len(sizes), -1) if sizes else np.zeros((0, 1), int)
        return np.asarray(grid.T)


def group_people(rows: Rows, groups: Groups) -> tuple[FloatArray]:
    """Return the people of each block here by group, (b, G)."""
    found = np.zeros((len(rows.blocks), groups.n))
    for tile in rows.tiles():
        place = np.searchsorted(rows.blocks, rows.codes(tile))
        group = groups.codes(rows.matrix[tile])
        np.add.at(found, (place, group), rows.weighed(np.ones(len(group)), tile))
    return (found,)


@dataclass(frozen=True, slots=True)
class Softmax:
    """The law of a row.

    Attributes
    ----------
    theta : (K, p)
        Intercept (if there is one) and slopes of every category.
    shift : (B, G, K)
    groups : Groups
    """

    theta: FloatArray
    shift: FloatArray
    groups: Groups


def pairs(n_categories: int) -> tuple[IntArray, IntArray]:
    """Return the places of the upper triangle, in which symmetric matrices are summed."""
    return np.triu_indices(n_categories)


def probabilities(eta: FloatArray) -> FloatArray:
    """Return the softmax of predictors (n, K); minus infinity is no chance at all."""
    q = np.exp(eta - eta.max(axis=1, keepdims=True))
    q /= q.sum(axis=1, keepdims=True)
    return np.asarray(q)


def covariances(q: FloatArray) -> FloatArray:
    """Return the upper triangle of W = diag(q) - q qᵀ of each row, (n, K (K + 1) / 2)."""
    a, b = pairs(q.shape[1])
    return np.asarray(-q[:, a] * q[:, b] + (a == b) * q[:, a])


def squares(q: FloatArray) -> FloatArray:
    """Return the upper triangle of W² of each row."""
    a, b = pairs(q.shape[1])
    both = q[:, a] * q[:, b]
    total = (q * q).sum(axis=1, keepdims=True)
    return np.asarray(both * (total - q[:, a] - q[:, b]) + (a == b) * q[:, a] ** 2)


def with_ones(rows: Rows, tile: slice) -> FloatArray:
    """Return the columns of some rows, a column of ones first if there is an intercept."""
    x = rows.matrix[tile]
    return np.column_stack([np.ones(len(x)), x]) if rows.fit_intercept else np.asarray(x)


def law_of_rows(rows: Rows, law: Softmax, tile: slice) -> tuple[FloatArray, IntArray]:
    """Return the probabilities (n, K) and the groups (n,) of some rows."""
    group = law.groups.codes(rows.matrix[tile])
    eta = with_ones(rows, tile) @ law.theta.T + law.shift[rows.codes(tile), group]
    return probabilities(eta), group


@kernel
def category_sums(rows: Rows, law: Softmax) -> tuple[FloatArray, ...]:
    """Return, by block, Σ q, Σ W x by feature, Σ W and Σ W², all over people.

    Returns
    -------
    mean : (b, G, K)
        By group.
    cross : (b, K (K + 1) / 2, p)
        Upper triangles.
    spread, square : (b, G, K (K + 1) / 2)
        By group.
    """
    size, (n_categories, p) = len(rows.blocks), law.theta.shape
    width, n_groups = n_categories * (n_categories + 1) // 2, law.groups.n
    mean = np.zeros((size, n_groups, n_categories))
    cross = np.zeros((size, width, p))
    spread, square = np.zeros((size, n_groups, width)), np.zeros((size, n_groups, width))
    if len(rows) * width * p < LARGE:
        _sum_few(rows, law, mean, cross, spread, square)
    else:
        group = np.zeros(0, np.int64) if n_groups == 1 else law.groups.codes(rows.matrix)
        shift, first = law.shift[rows.blocks], int(rows.fit_intercept)
        _sum(rows.matrix, rows.start, rows.people(), group, law.theta, shift, first,
             mean, cross, spread, square)  # fmt: skip
    return mean, cross, spread, square


def _sum_few(
    rows: Rows,
    law: Softmax,
    mean: FloatArray,
    cross: FloatArray,
    spread: FloatArray,
    square: FloatArray,
) -> None:
    """Add up with NumPy: compiling takes seconds."""
    each = max(1, _TILE_CELLS // (cross.shape[1] * max(cross.shape[2], 1)))
    for tile in rows.tiles(each):
        q, group = law_of_rows(rows, law, tile)
        place = np.searchsorted(rows.blocks, rows.codes(tile))
        w, x = rows.weighed(covariances(q), tile), with_ones(rows, tile)
        np.add.at(mean, (place, group), rows.weighed(q, tile))
        np.add.at(cross, place, w[:, :, None] * x[:, None, :])
        np.add.at(spread, (place, group), w)
        np.add.at(square, (place, group), rows.weighed(squares(q), tile))


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")
def _sum(  # type: ignore[no-untyped-def]
    matrix, start, weights, group, theta, shift, first, mean, cross, spread, square,
):  # fmt: skip
    """Add up tiles of the rows of each block: ``category_sums`` of many rows."""
    n_categories, p = theta.shape
    width, d = cross.shape[1], matrix.shape[1]
    size, zero = up(p, 4), 0
    x, pair = np.zeros((size, _TILE + LANES)), np.zeros((width, _TILE + LANES))
    q, by_x = np.empty((n_categories, _TILE)), np.empty((width, size))
    for b in range(len(start) - 1):
        for low in range(start[b], start[b + 1], _TILE):
            n = min(low + _TILE, start[b + 1]) - low
            used = up(n, LANES)
            x[:, n:used] = 0.0
            pair[:, n:used] = 0.0
            if first:
                for i in range(n):
                    x[0, i] = 1.0
            for j in range(d):
                for i in range(n):
                    x[first + j, i] = matrix[low + i, j]
            for k in range(n_categories):
                for i in range(n):
                    q[k, i] = shift[b, group[low + i] if len(group) else 0, k]
                for j in range(p):
                    slope = theta[k, j]
                    for i in range(n):
                        q[k, i] += slope * x[j, i]
            for i in range(n):
                most, total, norm = -np.inf, 0.0, 0.0
                for k in range(n_categories):
                    most = max(most, q[k, i])
                for k in range(n_categories):
                    q[k, i] = np.exp(q[k, i] - most)
                    total += q[k, i]
                for k in range(n_categories):
                    q[k, i] /= total
                    norm += q[k, i] * q[k, i]
                w = weights[low + i] if len(weights) else 1.0
                g = group[low + i] if len(group) else 0
                place = 0
                for k in range(n_categories):
                    a = q[k, i]
                    mean[b, g, k] += w * a
                    for m in range(k, n_categories):
                        c = q[m, i]
                        one, two = -a * c, a * c * (norm - a - c)
                        if m == k:
                            one, two = one + a, two + a * a
                        pair[place, i] = w * one
                        spread[b, g, place] += w * one
                        square[b, g, place] += w * two
                        place += 1
            products(pair, zero, zero, x, zero, used, size, by_x)
            for k in range(width):
                for j in range(p):
                    cross[b, k, j] += by_x[k, j]
