"""Statistics of blocks weighted by the inverse of their covariances, one block after the other."""

from __future__ import annotations

import numpy as np

from unbin._compiling import njit
from unbin._linalg import JITTER
from unbin._typing import BoolArray, FloatArray, IntArray


def score_blocks(
    covariance: FloatArray,
    derivative: FloatArray,
    shift: FloatArray,
    root: FloatArray,
    residual: FloatArray,
    reference: IntArray,
    used: BoolArray,
    variance: float,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Score some blocks, with S_b⁻¹ = Wᵀ W by its Cholesky factor.

    Parameters
    ----------
    covariance : (B, L, L)
    derivative, shift, root : (B, L, p), (B, L), (B, L, h)
        D_b, e_b, and the root of the variance of what is hidden.
    residual : (B, L)
    reference : (B,)
        The statistic left out of each block, -1 for none.
    used : (B, L) bool
    variance : float
        Of block effects.

    Returns
    -------
    information, lost : (p, p)
        Σ D_bᵀ S_b⁻¹ D_b without block effects, and what hidden counts take of it.
    scores, along : (B, p)
        D_bᵀ S_b⁻¹ r_b without block effects, and D_bᵀ S_b⁻¹ e_b.
    each : (5, B)
        r_bᵀ S_b⁻¹ r_b and its expectation (statistics with information, less what is hidden),
        e_bᵀ S_b⁻¹ r_b, e_bᵀ S_b⁻¹ e_b, and how much of that is lost.
    """
    n_blocks, size, p = derivative.shape
    h = root.shape[2]
    # the kernel is compiled for one layout
    derivative, shift = np.ascontiguousarray(derivative), np.ascontiguousarray(shift)
    white, hidden = np.empty((n_blocks, size, p)), np.zeros((n_blocks, h, p + 1))
    scores, along, each = np.zeros((n_blocks, p)), np.zeros((n_blocks, p)), np.zeros((5, n_blocks))
    block, factor = np.empty((size, p + 1 + h + 1)), np.empty((size, size))
    _score_blocks(
        covariance, derivative, shift, root, residual, reference, used, variance,
        white, hidden, scores, along, each, block, factor,
    )  # fmt: skip
    rows, taken = white.reshape(-1, p), hidden[:, :, :p].reshape(-1, p)
    return rows.T @ rows, taken.T @ taken, scores, along, each


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _score_blocks(  # type: ignore[no-untyped-def]
    covariance, derivative, shift, root, residual, reference, used, variance,
    white, hidden, scores, along, each, block, factor,
):  # fmt: skip
    """Write what ``score_blocks`` returns, and of each block W D_b and (W D_b)ᵀ W root_b.

    Plain loops, and arrays made by the caller, are compiled in a fraction of the time.
    """
    n_blocks, size, p = derivative.shape
    h, width = root.shape[2], block.shape[1]
    for b in range(n_blocks):
        for k in range(size):  # [D, e, root, r]
            keep = 1.0 if k != reference[b] and used[b, k] else 0.0
            for i in range(p):
                block[k, i] = keep * derivative[b, k, i]
            block[k, p], block[k, width - 1] = keep * shift[b, k], keep * residual[b, k]
            for i in range(h):
                block[k, p + 1 + i] = keep * root[b, k, i]
        each[1, b] = _whiten(covariance, b, reference[b], used, factor, block)
        for k in range(size):
            e, r = block[k, p], block[k, width - 1]
            for i in range(p):
                white[b, k, i] = block[k, i]
                scores[b, i] += block[k, i] * r
                along[b, i] += block[k, i] * e
            each[0, b] += r * r
            each[2, b] += e * r
            each[3, b] += e * e
            for i in range(h):
                each[1, b] -= block[k, p + 1 + i] ** 2
                for j in range(p + 1):
                    hidden[b, i, j] += block[k, p + 1 + i] * block[k, j]
        share = variance / (1 + variance * each[3, b])
        for i in range(h):
            each[4, b] += hidden[b, i, p] ** 2
            for j in range(p):
                hidden[b, i, j] -= share * along[b, j] * hidden[b, i, p]


@njit(nogil=True, fastmath={"contract"}, error_model="numpy", inline="always")
def _whiten(covariance, b, reference, used, factor, block):  # type: ignore[no-untyped-def]
    """Multiply ``block`` by the inverse Cholesky factor of a covariance, in place.

    Rows of statistics that are not used, and of the one left out as ``reference``, stay zeros.
    The factor's diagonal holds its inverse. Returns Σ 1 - jitter/pivot²: the number of statistics
    with information.
    """
    size, width = block.shape
    df = 0.0
    for k in range(size):
        left_out = k == reference or not used[b, k]
        for j in range(k):
            entry = 0.0
            if not (left_out or j == reference or not used[b, j]):
                entry = covariance[b, k, j]
                for i in range(j):
                    entry -= factor[k, i] * factor[j, i]
                entry *= factor[j, j]
                for i in range(width):
                    block[k, i] -= entry * block[j, i]
            factor[k, j] = entry
        if left_out:
            continue
        pivot = covariance[b, k, k] + JITTER
        for i in range(k):
            pivot -= factor[k, i] * factor[k, i]
        if pivot < JITTER:
            pivot = JITTER
        factor[k, k] = 1.0 / np.sqrt(pivot)
        for i in range(width):
            block[k, i] *= factor[k, k]
        df += 1.0 - JITTER / pivot
    return df
