"""Statistics of units weighted by the inverse of their covariances.

The blocks of a single table one after the other in a compiled loop, or by LAPACK where they have
many statistics; stacked tables by LAPACK, where statistics that others determine are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from unbin._compiling import njit
from unbin._linalg import JITTER, PANEL, solve_lower
from unbin._typing import BoolArray, FloatArray

REDUNDANT = 1e-9
"""Share of its variance that is left of a statistic, given those before it, that is rounding."""
_NEAR = 1e-6
"""Share of a direction that others tell, below which a block is near to determine it alone."""


def score_blocks(
    covariance: FloatArray,
    derivative: FloatArray,
    shift: FloatArray,
    root: FloatArray,
    residual: FloatArray,
    used: BoolArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Score some blocks, with S_b⁻¹ = Wᵀ W by its Cholesky factor.

    Parameters
    ----------
    covariance : (B, L, L)
    derivative, shift, root : (B, L, p), (B, L), (B, L, h)
        D_b, e_b, and the root of that part of S_b that stands for what is hidden.
    residual : (B, L)
    used : (B, L) bool
        Statistics that say something, without one of those that add up.

    Returns
    -------
    information : (p, p)
        Σ D_bᵀ S_b⁻¹ D_b without block effects.
    scores, along : (B, p)
        D_bᵀ S_b⁻¹ r_b without block effects, and D_bᵀ S_b⁻¹ e_b.
    each : (4, B)
        r_bᵀ S_b⁻¹ r_b and its expectation, less what is hidden (of both what is known counts, and
        not the noise that stands for the rest), e_bᵀ S_b⁻¹ r_b, and e_bᵀ S_b⁻¹ e_b.
    """
    if derivative.shape[1] > PANEL:
        try:
            return _score_large(covariance, derivative, shift, root, residual, used)
        except np.linalg.LinAlgError:
            pass  # the kernel has a least pivot
    n_blocks, size, p = derivative.shape
    h = root.shape[2]
    # the kernel is compiled for one layout
    derivative, shift = np.ascontiguousarray(derivative), np.ascontiguousarray(shift)
    white = np.empty((n_blocks, size, p))
    scores, along, each = np.zeros((n_blocks, p)), np.zeros((n_blocks, p)), np.zeros((4, n_blocks))
    block, factor = np.empty((size, p + 1 + h + 1)), np.empty((size, size))
    arrays = covariance, derivative, shift, root, residual, used
    _score_blocks(*arrays, white, scores, along, each, block, factor)
    rows = white.reshape(-1, p)
    return rows.T @ rows, scores, along, each


def _score_large(
    covariance: FloatArray,
    derivative: FloatArray,
    shift: FloatArray,
    root: FloatArray,
    residual: FloatArray,
    keep: BoolArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return what ``score_blocks`` does, by LAPACK; for many statistics, ``keep`` (B, L) of them.

    Raises where a covariance is not positive definite.
    """
    p = derivative.shape[2]
    masked = covariance * (keep[:, :, None] & keep[:, None, :])
    places = np.arange(masked.shape[1])
    masked[:, places, places] += JITTER
    factor = np.asarray(np.linalg.cholesky(masked), np.float64)
    block = np.concatenate([derivative, shift[:, :, None], root, residual[:, :, None]], axis=2)
    block = solve_lower(factor, block * keep[:, :, None])
    rank = np.where(keep, 1 - JITTER / factor[:, places, places] ** 2, 0.0).sum(axis=1)
    rows = block[:, :, :p].reshape(-1, p)
    return rows.T @ rows, *products_of(block, p, rank)


def products_of(
    block: FloatArray, p: int, rank: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return scores, along and each of ``score_blocks`` from whitened columns [D, e, root, r]."""
    d, e, root, r = block[:, :, :p], block[:, :, p], block[:, :, p + 1 : -1], block[:, :, -1]

    def by(left: FloatArray, right: FloatArray) -> FloatArray:
        return np.asarray((left[:, None, :] @ right)[:, 0])

    misfit = (r * r).sum(axis=1) - (by(r, root) ** 2).sum(axis=1)
    df = rank - (root * root).sum(axis=(1, 2))
    each = np.array([misfit, df, (e * r).sum(axis=1), (e * e).sum(axis=1)])
    return by(r, d), by(e, d), each


def whiten(
    covariance: FloatArray, columns: FloatArray, used: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Multiply columns (U, L, w) by the inverse Cholesky factors of covariances (U, L, L).

    Rows of statistics that are not used, or that those before them determine, become zeros. Also
    returns the number of statistics with information of each unit: of one that others determine no
    more is left than the jitter of all of them.
    """
    used = np.array(used)
    places = np.arange(used.shape[1])
    own = covariance[:, places, places]
    for _ in range(2):
        keep = used[:, :, None] & used[:, None, :]
        masked = covariance * keep
        masked[:, places, places] += JITTER
        factor = _factored(masked)
        pivots = factor[:, places, places] ** 2 - JITTER
        determined = used & (pivots <= REDUNDANT * own)
        if not determined.any():
            break
        used &= ~determined
    white = solve_lower(factor, columns * used[:, :, None])
    told = used & (pivots > JITTER * used.sum(axis=1)[:, None])
    rank = np.where(told, 1 - JITTER / factor[:, places, places] ** 2, 0.0).sum(axis=1)
    return white, np.asarray(rank)


def _factored(variance: FloatArray) -> FloatArray:
    """Return Cholesky factors; of a covariance that rounding made indefinite, of what is left."""
    try:
        return np.asarray(np.linalg.cholesky(variance), np.float64)
    except np.linalg.LinAlgError:
        factor = np.empty_like(variance)
        for k, each in enumerate(variance):
            try:
                factor[k] = np.linalg.cholesky(each)
            except np.linalg.LinAlgError:
                values, vectors = np.linalg.eigh(each)
                whole = (vectors * np.maximum(values, JITTER)) @ vectors.T
                factor[k] = np.linalg.cholesky(whole + JITTER * np.eye(len(each)))
        return factor


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _score_blocks(  # type: ignore[no-untyped-def]
    covariance, derivative, shift, root, residual, used, white, scores, along, each, block, factor
):
    """Write what ``score_blocks`` returns, and W D_b of each block.

    Plain loops, and arrays made by the caller, are compiled in a fraction of the time.
    """
    n_blocks, size, p = derivative.shape
    h, width = root.shape[2], block.shape[1]
    for b in range(n_blocks):
        for k in range(size):  # [D, e, root, r]
            keep = 1.0 if used[b, k] else 0.0
            for i in range(p):
                block[k, i] = keep * derivative[b, k, i]
            block[k, p], block[k, width - 1] = keep * shift[b, k], keep * residual[b, k]
            for i in range(h):
                block[k, p + 1 + i] = keep * root[b, k, i]
        each[1, b] = _whiten(covariance, b, used, factor, block)
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
            pulled = 0.0
            for k in range(size):
                each[1, b] -= block[k, p + 1 + i] ** 2
                pulled += block[k, p + 1 + i] * block[k, width - 1]
            each[0, b] -= pulled * pulled


@njit(nogil=True, fastmath={"contract"}, error_model="numpy", inline="always")
def _whiten(covariance, b, used, factor, block):  # type: ignore[no-untyped-def]
    """Multiply ``block`` by the inverse Cholesky factor of a covariance, in place.

    Rows of statistics that are not used stay zeros. The factor's diagonal holds its inverse.
    Returns Σ 1 - jitter/pivot²: the number of statistics with information.
    """
    size, width = block.shape
    df = 0.0
    for k in range(size):
        left_out = not used[b, k]
        for j in range(k):
            entry = 0.0
            if not (left_out or not used[b, j]):
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


@dataclass(frozen=True, slots=True)
class Checked:
    """What the statistics of some blocks say of a fit, weighted by their covariances.

    With W D_b, W Z_b, W e_b and W r_b derivatives, extensions, shift and residual of a block after
    :func:`_whiten`.

    Attributes
    ----------
    white, extended : (b, L, p), (b, L, k)
        W D_b and W Z_b.
    residual : (b, L)
        W r_b.
    scores, leveraged, added : (b, p), (b, p), (b, k)
        Their products with W r_b, the second with leverage.
    along : (b, p + k)
        Products of W D_b and W Z_b with W e_b.
    told : (b, p)
        Sums of squares of W D_b J⁻¹.
    pulled, held : (b,)
        Of W e_b with W r_b and with itself.
    alone : (b,) bool
        Blocks that determine a direction alone, or almost: leverage is left to others.
    """

    white: FloatArray
    extended: FloatArray
    residual: FloatArray
    scores: FloatArray
    leveraged: FloatArray
    added: FloatArray
    along: FloatArray
    told: FloatArray
    pulled: FloatArray
    held: FloatArray
    alone: BoolArray


def check_blocks(
    variance: FloatArray,
    derivative: FloatArray,
    added: FloatArray,
    shift: FloatArray,
    residual: FloatArray,
    used: BoolArray,
    bread: FloatArray,
    instruments: FloatArray,
) -> Checked:
    """Check some blocks, one after the other.

    Parameters
    ----------
    variance : (b, L, L)
    derivative, added, shift, residual : (b, L, p), (b, L, k), (b, L), (b, L)
    used : (b, L) bool
        Without the statistic that is left out.
    bread : (p, p)
    instruments : (b, p), or (0, p)
        What e_bᵀ Σ⁻¹ D_b / e_bᵀ Σ⁻¹ e_b is replaced by.
    """
    (b, size, p), k = derivative.shape, added.shape[2]
    found = Checked(
        white=np.empty((b, size, p)),
        extended=np.empty((b, size, k)),
        residual=np.empty((b, size)),
        scores=np.zeros((b, p)),
        leveraged=np.zeros((b, p)),
        added=np.zeros((b, k)),
        along=np.zeros((b, p + k)),
        told=np.zeros((b, p)),
        pulled=np.zeros(b),
        held=np.zeros(b),
        alone=np.zeros(b, bool),
    )
    space = np.empty((size, p + k + 2)), np.empty((size, size)), np.empty((size, p))
    arrays = map(np.ascontiguousarray, (variance, derivative, added, shift, residual, used))
    _check_blocks(*arrays, bread, instruments, *space, *(getattr(found, n) for n in _CHECKED))
    return found


_CHECKED = tuple(field.name for field in fields(Checked))


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _check_blocks(  # type: ignore[no-untyped-def]
    variance, derivative, added, shift, residual, used, bread, instruments, block, factor, towards,
    white, extended, white_r, scores, leveraged, out, along, told, pulled, held, alone,
):  # fmt: skip
    """Write what ``check_blocks`` returns."""
    n_blocks, size, p = derivative.shape
    width = block.shape[1]
    at_e, at_r = width - 2, width - 1
    for b in range(n_blocks):
        for k in range(size):  # [D, Z, e, r]
            keep = 1.0 if used[b, k] else 0.0
            for i in range(p):
                block[k, i] = keep * derivative[b, k, i]
            for i in range(p, at_e):
                block[k, i] = keep * added[b, k, i - p]
            block[k, at_e], block[k, at_r] = keep * shift[b, k], keep * residual[b, k]
        _whiten(variance, b, used, factor, block)
        for k in range(size):
            white_r[b, k] = block[k, at_r]
            pulled[b] += block[k, at_e] * block[k, at_r]
            held[b] += block[k, at_e] * block[k, at_e]
        for i in range(p if len(instruments) and held[b] > 0 else 0):
            own = 0.0
            for k in range(size):
                own += block[k, i] * block[k, at_e]
            for k in range(size):
                block[k, i] += block[k, at_e] * (instruments[b, i] - own / held[b])
        for k in range(size):
            for i in range(p):
                white[b, k, i] = block[k, i]
                scores[b, i] += block[k, i] * block[k, at_r]
                along[b, i] += block[k, i] * block[k, at_e]
                towards[k, i] = 0.0
            for i in range(p, at_e):
                extended[b, k, i - p] = block[k, i]
                out[b, i - p] += block[k, i] * block[k, at_r]
                along[b, i] += block[k, i] * block[k, at_e]
            for j in range(p):
                for i in range(p):
                    towards[k, i] += block[k, j] * bread[j, i]
            for i in range(p):
                told[b, i] += towards[k, i] * towards[k, i]
        alone[b] = _leave_out(towards, block, p, at_r, factor)
        for k in range(size):
            for i in range(p):
                leveraged[b, i] += block[k, i] * block[k, at_r]


@njit(nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy", inline="always")
def _leave_out(towards, block, p, at_r, factor):  # type: ignore[no-untyped-def]
    """Replace r by (I - H)⁻¹ r, H = ``towards`` times Dᵀ; tell whether that is near singular."""
    size, near = len(block), False
    for k in range(size):
        for j in range(k + 1):
            entry = 1.0 if j == k else 0.0
            for i in range(p):
                entry -= towards[k, i] * block[j, i]
            for i in range(j):
                entry -= factor[k, i] * factor[j, i]
            if j < k:
                factor[k, j] = entry / factor[j, j]
            else:
                near |= entry < _NEAR
                factor[k, k] = np.sqrt(max(entry, _NEAR))
    for k in range(size):
        for j in range(k):
            block[k, at_r] -= factor[k, j] * block[j, at_r]
        block[k, at_r] /= factor[k, k]
    for k in range(size - 1, -1, -1):
        block[k, at_r] /= factor[k, k]
        for j in range(k):
            block[j, at_r] -= factor[k, j] * block[k, at_r]
    return near
