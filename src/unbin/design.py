"""The rows of X laid out for the solvers: block by block, column-major, columns standardised."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numba import njit

from unbin.typing import FloatArray, IntArray, KeyArray

_CHUNK_ROWS = 1 << 15
"""Rows worked on at a time: a chunk of the design and its temporaries stay in the cache."""
_GATHER_ROWS = 1 << 12
"""Rows copied at a time, so that turning them column-major stays in the cache."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole blocks ``first`` to ``last - 1``, which are the rows ``rows``."""

    first: int
    last: int
    rows: slice


@dataclass(frozen=True, slots=True)
class Design:
    """A design matrix whose rows lie block by block.

    With ``theta = [intercept, slopes]`` (no first entry without an intercept),
    eta = intercept + matrix @ slopes + offset.

    Attributes
    ----------
    matrix : (n, d), column-major
        Columns divided by their spread, and centred when there is an intercept.
    center, scale : (d,)
        What was subtracted from and divided out of each column.
    offset : (n,)
        Zeros when there is none.
    start : (n_blocks + 1,)
        Rows of block ``b`` are ``start[b]:start[b + 1]``.
    order : (n,)
        The row of X at each place.
    key : (n,) uint64
        A hash of each row's features, to rank rows with equal means without looking at their
        place in X.
    chunks : tuple of Chunk
    fit_intercept : bool
    """

    matrix: FloatArray
    center: FloatArray
    scale: FloatArray
    offset: FloatArray
    start: IntArray
    order: IntArray
    key: KeyArray
    chunks: tuple[Chunk, ...]
    fit_intercept: bool

    @property
    def n_parameters(self) -> int:
        """Slopes, and the intercept if there is one."""
        return int(self.matrix.shape[1]) + self.fit_intercept

    def pieces(self) -> list[slice]:
        """Return all rows in pieces of bounded size, wherever the blocks end."""
        n = len(self.matrix)
        return [slice(low, min(low + _CHUNK_ROWS, n)) for low in range(0, n, _CHUNK_ROWS)]

    def eta(self, theta: FloatArray, rows: slice = slice(None)) -> FloatArray:
        """Return the linear predictor of some rows."""
        eta = self.matrix[rows] @ theta[self.fit_intercept :]
        eta += self.offset[rows]
        if self.fit_intercept:
            eta += theta[0]
        return np.asarray(eta)

    def gradient(self, residual: FloatArray, rows: slice = slice(None)) -> FloatArray:
        """Return the derivative of ``residual @ eta`` with respect to theta."""
        slopes = self.matrix[rows].T @ residual
        return np.concatenate([[residual.sum()], slopes]) if self.fit_intercept else slopes

    def gram(self, weight: FloatArray) -> FloatArray:
        """Return the weighted cross-products of the columns, the intercept's first."""
        p, shift = self.n_parameters, int(self.fit_intercept)
        total = np.zeros((p, p))
        for rows in self.pieces():
            part, w = self.matrix[rows], weight[rows]
            weighted = part * w[:, None]
            total[shift:, shift:] += part.T @ weighted
            if shift:
                total[0, 1:] += weighted.sum(axis=0)
                total[0, 0] += w.sum()
        if shift:
            total[1:, 0] = total[0, 1:]
        return total

    def block_means(self) -> FloatArray:
        """Return the mean of every column in each block, shape (n_blocks, d)."""
        sums = np.add.reduceat(self.matrix, self.start[:-1], axis=0)
        return np.asarray(sums / np.diff(self.start)[:, None])

    def ridge(self, alpha: float) -> FloatArray:
        """Return the penalty weight of each entry of theta for a ridge on the original slopes."""
        return np.concatenate([np.zeros(int(self.fit_intercept)), alpha / self.scale**2])

    def to_coefficients(self, theta: FloatArray) -> tuple[FloatArray, float]:
        """Return slopes and intercept in the units of X."""
        coef = theta[self.fit_intercept :] / self.scale
        intercept = theta[0] - self.center @ coef if self.fit_intercept else 0.0
        return coef, float(intercept)

    def to_coefficient_covariance(self, covariance: FloatArray) -> FloatArray:
        """Return the covariance of (intercept, slopes) in the units of X, from that of theta.

        Without an intercept its row and column are 0.
        """
        d, shift = len(self.scale), int(self.fit_intercept)
        jacobian = np.zeros((1 + d, shift + d))
        jacobian[1:, shift:] = np.diag(1 / self.scale)
        if shift:
            jacobian[0, 0] = 1.0
            jacobian[0, 1:] = -self.center / self.scale
        return np.asarray(jacobian @ covariance @ jacobian.T)

    def from_coefficients(self, coef: FloatArray, intercept: float) -> FloatArray:
        """Return theta for slopes and an intercept in the units of X."""
        slopes = coef * self.scale
        if not self.fit_intercept:
            return slopes
        return np.concatenate([[intercept + self.center @ coef], slopes])

    def to_rows_of_x(self, values: FloatArray) -> FloatArray:
        """Put values of the laid-out rows back into the order of X."""
        result = np.empty_like(values)
        result[self.order] = values
        return result


def lay_out(
    X: FloatArray,
    codes: IntArray,
    n_blocks: int,
    *,
    offset: FloatArray | None = None,
    fit_intercept: bool = True,
    seed: int = 0,
) -> Design:
    """Copy X once, block by block.

    Parameters
    ----------
    X : (n, d)
    codes : (n,)
        Block of each row, from 0 to ``n_blocks - 1``; every block has rows.
    n_blocks : int
    offset : (n,), optional
    fit_intercept : bool
    seed : int
        Changes how ties are broken.
    """
    n, d = X.shape
    start = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n_blocks))])
    # a stable sort of 16-bit codes is a radix sort
    small = codes.astype(np.uint16) if n_blocks <= 1 << 16 else codes
    order = np.argsort(small, kind="stable")
    matrix = np.empty((n, d), order="F")
    key = np.empty(n, dtype=np.uint64)
    for low in range(0, n, _GATHER_ROWS):
        rows = np.take(X, order[low : low + _GATHER_ROWS], axis=0)
        matrix[low : low + _GATHER_ROWS] = rows
        words = np.ascontiguousarray(rows + 0.0).view(np.uint64)  # -0.0 becomes 0.0
        _hash_rows(words, np.uint64(seed), key[low : low + _GATHER_ROWS])
    center, scale = _standardise(matrix, fit_intercept)
    return Design(
        matrix=matrix,
        center=center,
        scale=scale,
        offset=np.zeros(n) if offset is None else offset[order],
        start=start,
        order=order,
        key=key,
        chunks=_chunks(start),
        fit_intercept=fit_intercept,
    )


def _standardise(matrix: FloatArray, fit_intercept: bool) -> tuple[FloatArray, FloatArray]:
    """Centre (with an intercept) and scale the columns in place; return what was done."""
    n, d = matrix.shape
    center, scale = np.zeros(d), np.ones(d)
    for j in range(d):
        values = matrix[:, j]
        if fit_intercept:
            center[j] = values.mean()
            values -= center[j]
        spread = float(np.sqrt(values @ values / n))
        if spread > 1e-12 * abs(center[j]):
            scale[j] = spread
            values /= spread
        else:  # a constant column carries nothing beside the intercept
            values[:] = 0.0
    return center, scale


def _chunks(start: IntArray) -> tuple[Chunk, ...]:
    """Cut the blocks into pieces of about ``_CHUNK_ROWS`` rows, never through a block."""
    wanted = np.arange(_CHUNK_ROWS, start[-1] + _CHUNK_ROWS, _CHUNK_ROWS)
    edges = np.unique(np.concatenate([[0], np.searchsorted(start, wanted[:-1]), [len(start) - 1]]))
    return tuple(
        Chunk(int(a), int(b), slice(int(start[a]), int(start[b]))) for a, b in pairwise(edges)
    )


@njit(cache=True, nogil=True)
def _hash_rows(words, seed, out):  # type: ignore[no-untyped-def]
    """Hash the bits of each row (FNV-1a on 64-bit words, mixed once per word)."""
    for i in range(words.shape[0]):
        h = np.uint64(14695981039346656037) ^ seed
        for j in range(words.shape[1]):
            h = (h ^ words[i, j]) * np.uint64(1099511628211)
            h ^= h >> np.uint64(29)
        out[i] = h
