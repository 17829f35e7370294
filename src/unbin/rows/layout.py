"""Rows laid out block by block, column-major, columns standardised: X is copied once.

Threads share the rows; what they write does not depend on their number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from unbin._compiling import njit
from unbin._typing import FloatArray, IntArray
from unbin.rows.columns import ColumnSums, Standard, column_sums
from unbin.rows.keys import HASH_START, Keys, mixed
from unbin.rows.lanes import EIGHT, prefetch
from unbin.rows.parts import LocalParts
from unbin.rows.rows import LARGE, Rows, aligned_empty, flat_columns, no_offset

_TILE_ROWS = 1 << 15
"""Rows that a thread lays out at a time."""
_GATHER_ROWS = 1 << 12
"""Rows copied at a time, so that turning them column-major stays in the cache."""
_TURNED_ROWS = 64
"""The same, in a compiled loop."""
_EARLY = 8
"""Rows ahead that memory is asked for: they lie anywhere, and take as long as hundreds of steps."""
_ROWS_PER_COUNT = 4
"""Rows of a thread for each of its counts, at least."""


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
    sums: ColumnSums | None = None,
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
    sums : ColumnSums, optional
        Of the columns of X, not weighted, if somebody has them already.

    Returns
    -------
    rows : Rows
    order : (n,)
        The row of X at each place.
    standard : Standard
    """
    n, d = X.shape
    standard = Standard(np.zeros(d), np.ones(d), np.zeros(d, bool))
    scale_by = weights if everybody is None else everybody
    if n and (sums is None or scale_by is not None):
        sums = column_sums(X, weights=scale_by, n_threads=n_threads)
    if n and sums is not None:
        standard = sums.standard(fit_intercept=fit_intercept)
    blocks, start, order = _by_block(codes, n_threads)
    further = tuple(codes.astype(np.int32)[order] for codes in others)
    people = None if weights is None else weights[order]
    matrix = aligned_empty((n, d))
    tiles = [slice(low, min(low + _TILE_ROWS, n)) for low in range(0, n, _TILE_ROWS)]
    deque(LocalParts(tiles, n_threads).stream(_copy, X, order, standard, matrix), 0)
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
    tile: slice, X: FloatArray, order: IntArray, standard: Standard, matrix: FloatArray
) -> None:
    """Write some rows, standardised."""
    center, factor = standard.center, standard.factor
    if X.size >= LARGE and X.flags.c_contiguous:
        memory, first, step = flat_columns(matrix)
        _turn(X, order[tile], center, factor, memory, first + tile.start, step)
        return
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
        matrix[here] -= center  # along columns, which is faster than while rows are turned
        matrix[here] *= factor


@njit(cache=True, nogil=True, fastmath={"nsz"}, error_model="numpy")
def _turn(X, rows, center, factor, memory, first, step):  # type: ignore[no-untyped-def]
    """Write some rows of X column by column, standardised; rows to come are asked for early."""
    d = X.shape[1]
    turned = np.empty((d, _TURNED_ROWS))
    for low in range(0, len(rows), _TURNED_ROWS):
        n = min(_TURNED_ROWS, len(rows) - low)
        for i in range(low, low + n):
            row = rows[i]
            if i + _EARLY < len(rows):
                place = d * np.int64(rows[i + _EARLY])
                for j in range(0, d, EIGHT):
                    prefetch(X, place + j)
                prefetch(X, place + d - 1)
            for j in range(d):
                turned[j, i - low] = X[row, j]
        for j in range(d):
            at = first + j * step + low
            column, values = memory[at : at + n], turned[j]
            for i in range(n):
                column[i] = (values[i] - center[j]) * factor[j]


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
        _place_column(values, order, center[j], 1 / scale[j], matrix[:, j], key)
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


def _by_block(codes: IntArray, n_threads: int = 1) -> tuple[IntArray, IntArray, Any]:
    """Return the blocks that have rows, where each one's begin, and the rows block by block.

    Rows of a block keep their order. They are sorted by counting: each thread counts the rows of
    some, and writes them where those before it end.
    """
    n = len(codes)
    kind: Any = np.int32 if n < (1 << 31) - 1 else np.int64
    whole = LocalParts(_slices(n, n_threads), n_threads)
    highest, sorted_ = np.array([(-1, True), *whole.stream(_looked_at, codes)]).T
    n_codes = int(highest.max()) + 1
    if sorted_.all():
        edges, order = np.searchsorted(codes, np.arange(n_codes + 1)), np.arange(n, dtype=kind)
    elif n < LARGE:
        order = np.argsort(codes, kind="stable").astype(kind)
        edges = np.searchsorted(codes[order], np.arange(n_codes + 1))
    else:
        codes, order = codes.astype(np.int64, copy=False), np.empty(n, kind)
        slices = _slices(n, min(n_threads, n // (_ROWS_PER_COUNT * n_codes)))
        threads, place = LocalParts(slices, n_threads), np.zeros((len(slices), n_codes), np.int64)
        deque(threads.stream(_count, codes, each=list(place)), 0)
        edges = np.concatenate([[0], np.cumsum(place.sum(axis=0))])
        place[:] = edges[:-1] + np.cumsum(place, axis=0) - place
        deque(threads.stream(_sort, codes, order, each=list(place)), 0)
    blocks = np.flatnonzero(np.diff(edges))
    return blocks, np.append(edges[blocks], n).astype(np.int64), order


def _slices(n: int, n_slices: int) -> list[slice]:
    """Cut n rows into about as many slices, at least one."""
    size = max(-(-n // max(n_slices, 1)), 1)
    return [slice(low, min(low + size, n)) for low in range(0, n, size)]


def _looked_at(rows: slice, codes: IntArray) -> tuple[int, bool]:
    """Return the highest code of some rows, and whether they and the row before are in order."""
    here = codes[max(rows.start - 1, 0) : rows.stop]
    return int(here.max()), bool((here[1:] >= here[:-1]).all())


def _count(rows: slice, codes: IntArray, place: IntArray) -> None:
    _add_counts(codes[rows], place)


def _sort(rows: slice, codes: IntArray, order: IntArray, place: IntArray) -> None:
    _write_sorted(codes[rows], rows.start, place, order)


@njit(cache=True, nogil=True)
def _add_counts(codes, count):  # type: ignore[no-untyped-def]
    """Count the rows of each block."""
    for i in range(len(codes)):
        count[codes[i]] += 1


@njit(cache=True, nogil=True)
def _write_sorted(codes, first, place, order):  # type: ignore[no-untyped-def]
    """Write rows, numbered from ``first`` on, at the next place of their block."""
    for i in range(len(codes)):
        order[place[codes[i]]] = first + i
        place[codes[i]] += 1


@njit(cache=True, nogil=True)
def _place_column(values, order, center, factor, out, key):  # type: ignore[no-untyped-def]
    """Write a column in another order, standardised, and mix it into the hash of its rows."""
    word = np.empty(1)
    bits = word.view(np.uint64)
    for i in range(len(order)):
        word[0] = values[order[i]] + 0.0  # -0.0 becomes 0.0
        key[i] = mixed(key[i], bits[0])
        out[i] = (word[0] - center) * factor
