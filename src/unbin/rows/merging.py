"""Identical rows of a block, merged into one that stands for all of them.

Features with few values, as sex and age group, leave few different rows: sums over people are then
sums over these, weighted. A sum is the same whichever way it is made, up to rounding.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from unbin._compiling import njit
from unbin._typing import IntArray
from unbin.rows.design import Design, over_rows
from unbin.rows.keys import mixed
from unbin.rows.rows import Rows, aligned_copy

_PAYS = 0.5
"""Rows that are left, as a share, at most: else sums are not much faster."""
_PER_ROW = 4
"""Numbers of a row beside its columns, about: offset, key, weight, blocks."""
_SAMPLE = 1 << 13
"""Rows looked at before all of them are compared."""
_LIKELY = 0.9
"""Different rows among these, as a share, from which on the rest is not looked at."""


def merge_rows(design: Design) -> Design:
    """Return a design of different rows, weighted, where that has far fewer; else the same design.

    Rows of a sample stay as they are: its variance is not that of the weights' sums.
    """
    rows = design.rows
    if design.sampled or design.scores_blocks:
        return design
    if rows is None:
        return _in_parts(design)
    merged = merged_rows(rows)
    if merged is rows:
        return design
    threads = getattr(design.parts, "n_threads", 1)
    same = design.center, design.scale, design.varies
    laid_out = over_rows(merged, *same, n_threads=threads, group=design.group)
    return replace(laid_out, has_offset=design.has_offset)


def _in_parts(design: Design) -> Design:
    """Return a design whose parts are merged, if the first of them has far fewer different rows."""
    (share,) = design.parts.take([0]).stream(_share_left)
    if share > _PAYS:
        return design
    numbers = len(design.scale) + _PER_ROW
    parts = design.parts.later(merged_rows).settled(int(8 * share * design.n_rows * numbers))
    return replace(design, parts=parts, whole=parts if design.whole is design.parts else None)


def _share_left(rows: Rows) -> float:
    plain = isinstance(rows, Rows) and rows.matrix.shape[1]  # and not on a device, nor tabmat's
    found = different_rows(rows) if plain else None
    return 1.0 if found is None else len(found[0]) / len(rows)


def merged_rows(rows: Rows) -> Rows:
    """Return the different rows of some people, weighted; all of them where these are not fewer."""
    found = different_rows(rows) if rows.matrix.shape[1] else None
    if found is None:
        return rows
    first, place, start = found
    return replace(
        rows,
        matrix=aligned_copy(rows.matrix[first]),
        offset=rows.offset[first],
        key=rows.key[first],
        start=start,
        others=tuple(codes[first] for codes in rows.others),
        weights=np.bincount(place, rows.weights, len(first)).astype(np.float64),
    )


def different_rows(rows: Rows) -> tuple[IntArray, IntArray, IntArray] | None:
    """Return the different rows of each block; None where they are not far fewer than all.

    Returns
    -------
    first : (m,)
        Where each is found first, block by block.
    place : (n,)
        Which of them each row is.
    start : (b + 1,)
        Those of block j are ``start[j]:start[j + 1]``.
    """
    n = len(rows)
    if n == 0 or not _likely(rows):
        return None
    return _different(rows, rows.start, int(_PAYS * n))


def _likely(rows: Rows) -> bool:
    """Tell whether rows are repeated among the first of some blocks."""
    n_blocks = len(rows.blocks)
    each = max(_SAMPLE // n_blocks, 64)
    step = max(n_blocks * min(each, len(rows) // n_blocks + 1) // _SAMPLE, 1)
    starts = rows.start[:-1][::step]
    ends = np.minimum(starts + each, rows.start[1:][::step])
    chosen = np.concatenate([[0], np.cumsum(ends - starts)])
    picked = np.arange(chosen[-1]) + np.repeat(starts - chosen[:-1], ends - starts)
    words = [rows.key[picked], (rows.offset[picked] + 0.0).view(np.uint64)]
    words += [codes[picked].astype(np.uint64) for codes in rows.others]
    block = np.repeat(np.arange(len(starts), dtype=np.uint64), ends - starts)
    # not compiled: most people's features are not repeated, and nothing else is needed then
    keys = reduce(mixed.py_func, words, block)
    return len(np.unique(keys)) <= _LIKELY * len(picked)


def _different(
    rows: Rows, start: IntArray, most: int
) -> tuple[IntArray, IntArray, IntArray] | None:
    """Return the different rows of each block, None if they are more than ``most``."""
    n, widest = len(rows.offset), int(np.diff(start).max(initial=1))
    others: Any = np.empty((0, n), np.int32)
    if rows.others:
        others = np.stack([codes.astype(np.int32) for codes in rows.others])
    first, place = np.empty(most + 1, np.int64), np.empty(n, np.int64)
    starts, offset = np.zeros(len(start), np.int64), np.ascontiguousarray(rows.offset)
    size = 1 << int(np.ceil(np.log2(2 * widest)))
    slots, owner = np.zeros(size, np.int64), np.full(size, -1, np.int64)
    found = _group(
        rows.matrix.T,
        offset,
        np.asarray(rows.key),
        others,
        start,
        slots,
        owner,
        first,
        place,
        starts,
    )
    return None if found < 0 else (first[:found], place, starts)


@njit(cache=True, nogil=True)
def _group(columns, offset, key, others, start, slots, owner, first, place, starts):  # type: ignore[no-untyped-def]
    """Write the different rows of each block and return how many there are, -1 if too many.

    A table of slots, a power of 2 of them, is shared by all blocks: a slot of an earlier block is
    as good as empty.
    """
    mask, most, n_found = np.uint64(len(slots) - 1), len(first) - 1, 0
    for b in range(len(start) - 1):
        starts[b] = n_found
        for i in range(start[b], start[b + 1]):
            slot = key[i]
            for t in range(len(others)):
                slot = mixed(slot, np.uint64(others[t, i]))
            slot = slot & mask
            while owner[slot] == b:
                if _same(columns, offset, key, others, first[slots[slot]], i):
                    break
                slot = (slot + np.uint64(1)) & mask
            if owner[slot] != b:
                if n_found >= most:
                    return -1
                owner[slot], slots[slot], first[n_found] = b, n_found, i
                n_found += 1
            place[i] = slots[slot]
    starts[len(start) - 1] = n_found
    return n_found


@njit(cache=True, nogil=True, inline="always")
def _same(columns, offset, key, others, i, j):  # type: ignore[no-untyped-def]
    """Tell whether two rows are the same, bit by bit of what sums are made of."""
    if key[i] != key[j] or offset[i] != offset[j]:
        return False
    for t in range(len(others)):
        if others[t, i] != others[t, j]:
            return False
    for k in range(len(columns)):  # noqa: SIM110  # a generator would not be compiled
        if columns[k, i] != columns[k, j]:
            return False
    return True
