"""Statistics of blocks weighted by the inverse of their covariances, one block after the other."""

from __future__ import annotations

import numpy as np
from numba import njit

from unbin._linalg import JITTER

_BATCH = 512
"""Statistics whose cross-products are formed at a time."""


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def score_blocks(  # type: ignore[no-untyped-def]
    covariance, derivative, shift, root, residual, reference, used, variance
):
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
    information, lost = np.zeros((p, p)), np.zeros((p, p))
    scores, along, each = np.zeros((n_blocks, p)), np.zeros((n_blocks, p)), np.zeros((5, n_blocks))
    factor, inverse = np.zeros((size, size)), np.zeros(size)
    batch = max(1, _BATCH // size)  # blocks whose cross-products are left to BLAS at a time
    batched, filled = np.zeros((batch * size, p)), 0
    white, by_hidden = np.zeros((size, p + 1 + h + 1)), np.zeros((p + 1, h))
    for b in range(n_blocks):
        for k in range(size):  # [D, e, root, r]
            keep = 1.0 if k != reference[b] and used[b, k] else 0.0
            for i in range(p):
                white[k, i] = keep * derivative[b, k, i]
            white[k, p], white[k, p + 1 + h] = keep * shift[b, k], keep * residual[b, k]
            for i in range(h):
                white[k, p + 1 + i] = keep * root[b, k, i]
        each[1, b] = _whiten(covariance[b], reference[b], used[b], factor, inverse, white)
        for k in range(size):
            e, r = white[k, p], white[k, p + 1 + h]
            for i in range(p):
                batched[filled + k, i] = white[k, i]
                scores[b, i] += white[k, i] * r
                along[b, i] += white[k, i] * e
            each[0, b] += r * r
            each[2, b] += e * r
            each[3, b] += e * e
            for i in range(h):
                each[1, b] -= white[k, p + 1 + i] ** 2
        filled += size
        if filled == batch * size or b == n_blocks - 1:
            information += np.dot(batched[:filled].T, batched[:filled])
            filled = 0
        if h > 0:
            share = variance / (1 + variance * each[3, b])
            np.dot(white[:, : p + 1].copy().T, white[:, p + 1 : p + 1 + h].copy(), by_hidden)
            for i in range(h):
                each[4, b] += by_hidden[p, i] ** 2
                for j in range(p):
                    by_hidden[j, i] -= share * along[b, j] * by_hidden[p, i]
            lost += np.dot(by_hidden[:p], by_hidden[:p].T)
    return information, lost, scores, along, each


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _whiten(covariance, reference, used, factor, inverse, white):  # type: ignore[no-untyped-def]
    """Multiply ``white`` by the inverse Cholesky factor of a covariance, in place.

    Rows of statistics that are not used, and of the one left out as ``reference``, stay zeros.
    Returns Σ 1 - jitter/pivot²: the number of statistics with information.
    """
    size, width = white.shape
    df = 0.0
    for k in range(size):
        left_out = k == reference or not used[k]
        for j in range(k):
            entry = 0.0
            if not (left_out or j == reference or not used[j]):
                entry = covariance[k, j]
                for i in range(j):
                    entry -= factor[k, i] * factor[j, i]
                entry *= inverse[j]
                for i in range(width):
                    white[k, i] -= entry * white[j, i]
            factor[k, j] = entry
        if left_out:
            continue
        pivot = covariance[k, k] + JITTER
        for i in range(k):
            pivot -= factor[k, i] * factor[k, i]
        pivot = max(pivot, JITTER)
        inverse[k] = 1.0 / np.sqrt(pivot)
        for i in range(width):
            white[k, i] *= inverse[k]
        df += 1.0 - JITTER / pivot
    return df
