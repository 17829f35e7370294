"""Linear algebra that several packages share, of arrays and of tensors."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from unbin._typing import FloatArray, IntArray

JITTER = 1e-6
"""Added to the variance of every statistic: a bin that can hold nobody then has no information."""
_MANY = 300
"""Rows from which Cholesky, many times faster, is tried before an eigendecomposition."""
NOTHING = 1e-290
"""A diagonal below this is no information: divided out of its row and column it would overflow."""
_LONG = 512
"""Rows of long matrices that a device multiplies at a time."""
PANEL = 64
"""Rows of a matrix from which on libraries factor and multiply it faster than plain loops do."""
_FLAT = 1e-10
"""Eigenvalues below this share of the largest (1 for a unit diagonal) count as 0."""


def namespace(array: Any) -> Any:
    """Return the module whose functions work on an array: numpy, or torch for its tensors."""
    return np if isinstance(array, np.ndarray | np.generic) else sys.modules["torch"]


def like(array: Any, values: Any) -> Any:
    """Return numbers as an array of the same kind, in the same place: a tensor beside tensors."""
    if isinstance(array, np.ndarray):
        return values
    # tensors share memory with arrays where they can, and are never read-only
    values = np.require(values, requirements="W")
    return namespace(array).as_tensor(values, dtype=array.dtype, device=array.device)


def largest(values: FloatArray, size: int) -> IntArray:
    """Return the places of the largest values, largest first, of equal ones the first."""
    places = np.arange(len(values))
    if 0 < size < len(values):
        first = np.partition(values, -size)[-size:]
        if not np.isnan(first).any():  # NaN would seem to be the largest, and is the last
            places = np.flatnonzero(values >= first[0])
    return np.asarray(places[np.argsort(-values[places], kind="stable")][:size])


def brought(values: Any) -> Any:
    """Return an array as it is, and a tensor as an array."""
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()


def long_product(a: Any, b: Any) -> Any:
    """Return aᵀ b of two matrices with many rows; of tensors some at a time, to keep a GPU busy."""
    if isinstance(a, np.ndarray):
        return a.T @ b
    tiles = len(a) // _LONG
    whole = tiles * _LONG
    left, right = (each[:whole].reshape(tiles, _LONG, each.shape[1]) for each in (a, b))
    return (left.swapaxes(1, 2) @ right).sum(0) + a[whole:].T @ b[whole:]


def solve_lower(factor: FloatArray, right: FloatArray) -> FloatArray:
    """Solve systems with lower triangular matrices (b, L, L), right-hand sides (b, L, w).

    Some rows at a time, by products of matrices.
    """
    result = np.array(right)
    for low in range(0, factor.shape[1], PANEL):
        here = slice(low, low + PANEL)
        result[:, here] -= factor[:, here, :low] @ result[:, :low]
        result[:, here] = np.linalg.inv(factor[:, here, here]) @ result[:, here]
    return result


# -- symmetric matrices that may be singular -------------------------------------------------------


def solve_scaled(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Solve a symmetric system, ignoring directions without information.

    The matrix is scaled to a unit diagonal first, entries below 1e-10 of the largest (columns of
    the design are standardised) and eigenvalues below 1e-10 counting as 0.
    """
    diagonal = np.diag(matrix)
    alive = diagonal > max(_FLAT * diagonal.max(initial=0.0), NOTHING)
    shrink = np.where(alive, 1.0 / np.sqrt(np.where(alive, diagonal, 1.0)), 0.0)
    scaled, right = matrix * np.outer(shrink, shrink), (right.T * shrink).T
    factor = _definite_factor(scaled + np.diag(~alive), 1e-6)
    if factor is not None:
        result = cho_solve((factor, True), right)
    else:
        values, vectors = np.linalg.eigh(scaled)
        inverse = np.where(values > _FLAT, 1.0 / np.maximum(values, _FLAT), 0.0)
        result = vectors @ ((vectors.T @ right).T * inverse).T
    return np.asarray((result.T * shrink).T)


def whitening(matrix: FloatArray) -> FloatArray:
    """Return a basis W with Wᵀ H W = 1, without directions of negligible curvature."""
    factor = _definite_factor(matrix, 1e-7)
    if factor is not None:
        return np.asarray(solve_triangular(factor, np.eye(len(factor)), lower=True).T)
    values, vectors = np.linalg.eigh(matrix)
    keep = values > _FLAT * values[-1]
    return np.asarray(vectors[:, keep] / np.sqrt(values[keep]))


def bounded_whitening(matrix: FloatArray) -> FloatArray:
    """Return W with Wᵀ H W = 1, directions without information kept at a bounded length."""
    size = np.sqrt(np.diag(matrix))
    size = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(size, size))
    floor = max(float(values.max(initial=0.0)), 1e-300) * 1e-8
    return np.asarray(vectors / np.sqrt(np.maximum(values, floor)) / size[:, None])


def inverse_form(vector: FloatArray, matrix: FloatArray) -> tuple[float, int]:
    """Return vᵀ C⁻¹ v and the rank of C, scaled to a unit diagonal."""
    size = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    size = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(size, size))
    keep = values > _FLAT
    rotated = vectors.T @ (vector / size)
    return float((rotated[keep] ** 2 / values[keep]).sum()), int(keep.sum())


def _definite_factor(matrix: FloatArray, smallest: float) -> FloatArray | None:
    """Return the Cholesky factor of a large matrix, unless its pivots are too far apart."""
    if len(matrix) < _MANY:
        return None
    try:
        factor = cholesky(matrix, lower=True)
    except LinAlgError:
        return None
    pivots = np.diag(factor) ** 2
    return None if pivots.min() <= smallest * pivots.max() else np.asarray(factor)
