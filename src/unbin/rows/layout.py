"""Rows laid out block by block, column-major, columns standardised: X is copied once.

Threads share the rows. What they add up is added in the order of the rows, whatever their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from unbin._compiling import njit
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.rows.keys import HASH_START, Keys, mixed
from unbin.rows.parts import LocalParts
from unbin.rows.rows import LARGE, Rows, aligned_empty, flat_columns, no_offset

_TILE_ROWS = 1 << 15
"""Rows that a thread lays out at a time."""
_GATHER_ROWS = 1 << 12
"""Rows copied at a time, so that turning them column-major stays in the cache."""
_TURNED_ROWS = 64
"""The same, in a compiled loop."""
_CONSTANT = 1e-12
"""A column whose spread is at most this share of its mean carries nothing beside the intercept."""


@dataclass(frozen=True, slots=True)
class Standard:
    """How columns were standardised.

    Attributes
    ----------
    center, scale : (d,)
        What was subtracted and divided by.
    varies : (d,) bool
        Columns that are not constant; the others became zeros.
    """

    center: FloatArray
    scale: FloatArray
    varies: BoolArray


def arrange(
    X: FloatArray,
    codes: IntArray,
    *,
    offset: FloatArray | None = None,
    fit_intercept: bool = True,
    seed: int = 0,
    n_threads: int = 1,
    others: tuple[IntArray, ...] = (),
    weights: FloatArray | None = None,
    sampled: bool = False,
    everybody: FloatArray | None = None,
    hashed: FloatArray | None = None,
) -> tuple[Rows, IntArray, Standard]:
    """Copy X once, block by block, columns centred (with an intercept) and scaled.

    Parameters
    ----------
    X : (n, d)
    codes : (n,)
        Block of each row, from 0 on.
    offset : (n,), optional
    fit_intercept : bool
    seed : int
        Changes how ties are broken.
    n_threads : int
    others : tuple of (n,)
        The block of each row in further partitions.
    weights, sampled
        See :class:`Rows`.
    everybody : (n,), optional
        Weights by which columns are standardised, if not ``weights``.
    hashed : (n, e), optional
        What keys are made from, if not X: the features that differ within blocks.

    Returns
    -------
    rows : Rows
    order : (n,)
        The row of X at each place.
    standard : Standard
    """
    n, d = X.shape
    blocks, start, order = _by_block(codes)
    further = tuple(codes.astype(np.int32)[order] for codes in others)
    people = None if weights is None else weights[order]
    scale_by = people if everybody is None else everybody[order]
    about = X[order[:_GATHER_ROWS]].mean(axis=0) if fit_intercept and n else np.zeros(d)
    matrix = aligned_empty((n, d))
    tiles = [slice(low, min(low + _TILE_ROWS, n)) for low in range(0, n, _TILE_ROWS)]
    threads = LocalParts(tiles, n_threads)
    standard = Standard(np.zeros(d), np.ones(d), np.zeros(d, bool))
    if n:
        everyone, total, square = threads.total(_copy, X, order, about, scale_by, matrix)
        standard = _standard(everyone, total, square, about, fit_intercept)
        threads.total(_standardise, matrix, standard.center - about, standard)
    rows = Rows(
        matrix,
        no_offset(n) if offset is None else offset[order],
        Keys(X if hashed is None else hashed, order, seed),
        blocks,
        start,
        fit_intercept,
        others=further,
        weights=people,
        sampled=sampled,
    )
    return rows, order, standard


def _copy(
    tile: slice,
    X: FloatArray,
    order: IntArray,
    about: FloatArray,
    weights: FloatArray | None,
    matrix: FloatArray,
) -> tuple[float, FloatArray, FloatArray]:
    """Write some rows less ``about``; return their number, and the sums of values and squares.

    Sums about a rough mean lose no digits.
    """
    if weights is None and len(X) * X.shape[1] >= LARGE and X.flags.c_contiguous:
        total, square = np.zeros(X.shape[1]), np.zeros(X.shape[1])
        memory, first, step = flat_columns(matrix)
        _turn(X, order[tile], about, memory, first + tile.start, step, total, square)
        return float(tile.stop - tile.start), total, square
    space = np.empty((min(_GATHER_ROWS, tile.stop - tile.start), X.shape[1]), X.dtype)
    for low in range(tile.start, tile.stop, _GATHER_ROWS):
        here = slice(low, min(low + _GATHER_ROWS, tile.stop))
        rows = order[here]
        if rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
            part = X[rows[0] : rows[-1] + 1]
        elif X.flags.c_contiguous:  # into the same memory: fresh memory would take longer
            part = np.take(X, rows, axis=0, out=space[: len(rows)], mode="clip")
        else:  # take would copy all of a column-major X first, each time
            part = X[rows]
        matrix[here] = part
        matrix[here] -= about  # along columns, which is faster than while rows are turned
    part = matrix[tile]
    if weights is None:
        return float(len(part)), part.sum(axis=0), np.einsum("ij,ij->j", part, part)
    people = weights[tile]
    return float(people.sum()), people @ part, people @ (part * part)


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _turn(X, rows, about, memory, first, step, total, square):  # type: ignore[no-untyped-def]
    """Write some rows of X, less ``about``, column by column, and add to their sums."""
    for low in range(0, len(rows), _TURNED_ROWS):
        n = min(_TURNED_ROWS, len(rows) - low)
        for j in range(X.shape[1]):
            at = first + j * step + low
            column, center, once, twice = memory[at : at + n], about[j], 0.0, 0.0
            for i in range(n):
                value = X[rows[low + i], j] - center
                column[i] = value
                once += value
                twice += value * value
            total[j] += once
            square[j] += twice


def _standard(
    people: float, total: FloatArray, square: FloatArray, about: FloatArray, fit_intercept: bool
) -> Standard:
    shift = total / people if fit_intercept else np.zeros(len(total))
    center = about + shift
    spread = np.sqrt(np.maximum(square / people - shift**2, 0.0))
    varies = spread > _CONSTANT * np.abs(center)
    return Standard(center, np.where(varies, spread, 1.0), varies)


def _standardise(tile: slice, matrix: FloatArray, shift: FloatArray, standard: Standard) -> int:
    for low in range(tile.start, tile.stop, _GATHER_ROWS):
        part = matrix[low : min(low + _GATHER_ROWS, tile.stop)]
        part -= shift
        part /= np.where(standard.varies, standard.scale, np.inf)
    return 0


def arrange_columns(
    columns: Sequence[FloatArray],
    codes: IntArray,
    center: FloatArray,
    scale: FloatArray,
    *,
    offset: FloatArray | None = None,
    fit_intercept: bool = True,
    seed: int = 0,
    others: tuple[IntArray, ...] = (),
    weights: FloatArray | None = None,
    sampled: bool = False,
) -> Rows:
    """Lay columns out block by block, standardised; a scale of infinity makes a column 0.

    The same rows, with the same keys, as :func:`arrange` makes from a matrix.
    """
    n = len(codes)
    blocks, start, order = _by_block(codes)
    matrix = aligned_empty((n, len(columns)))
    key = np.full(n, HASH_START ^ np.uint64(seed), dtype=np.uint64)
    for j, values in enumerate(columns):
        _place_column(values, order, center[j], scale[j], matrix[:, j], key)
    return Rows(
        matrix,
        no_offset(n) if offset is None else offset[order],
        key,
        blocks,
        start,
        fit_intercept,
        others=tuple(codes.astype(np.int32)[order] for codes in others),
        weights=None if weights is None else weights[order],
        sampled=sampled,
    )


def _by_block(codes: IntArray) -> tuple[IntArray, IntArray, Any]:
    """Return the blocks that have rows, where each one's begin, and the rows block by block.

    Rows of a block keep their order. A sparse matrix of a one per row, in the column of its block,
    turned column by column: SciPy does that by counting, in 32 bits where they are enough.
    """
    n = len(codes)
    n_codes = int(codes.max(initial=-1)) + 1
    kind: Any = np.int32 if n < (1 << 31) - 1 else np.int64
    edges: Any
    if (codes[1:] >= codes[:-1]).all():
        edges, order = np.searchsorted(codes, np.arange(n_codes + 1)), np.arange(n, dtype=kind)
    else:
        one_per_row = np.ones(n, np.int8), codes.astype(kind), np.arange(n + 1, dtype=kind)
        by_block = sparse.csr_array(one_per_row, shape=(n, n_codes)).tocsc()
        edges, order = by_block.indptr, by_block.indices
    blocks = np.flatnonzero(np.diff(edges))
    return blocks, np.append(edges[blocks], n).astype(np.int64), order


@njit(cache=True, nogil=True)
def _place_column(values, order, center, scale, out, key):  # type: ignore[no-untyped-def]
    """Write a column in another order, standardised, and mix it into the hash of its rows."""
    word = np.empty(1)
    bits = word.view(np.uint64)
    for i in range(len(order)):
        word[0] = values[order[i]] + 0.0  # -0.0 becomes 0.0
        key[i] = mixed(key[i], bits[0])
        out[i] = (word[0] - center) / scale
