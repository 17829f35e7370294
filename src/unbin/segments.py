"""Arithmetic on rows that lie block by block: ``start[b]:start[b + 1]`` are those of block b."""

from __future__ import annotations

import numpy as np

from unbin.typing import BoolArray, IntArray


def segment_start(codes: IntArray, n_blocks: int) -> IntArray:
    """Return where each block's rows start, for rows sorted by block."""
    return np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n_blocks))]).astype(np.int64)


def block_of_rows(start: IntArray) -> IntArray:
    """Return the block of each row."""
    return np.repeat(np.arange(len(start) - 1), np.diff(start))


def take_segments(start: IntArray, blocks: IntArray) -> tuple[IntArray, IntArray]:
    """Return the new ``start`` and the rows of some blocks, in the order asked for."""
    size = np.diff(start)[blocks]
    new = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    rows = np.arange(new[-1]) + np.repeat(start[blocks] - new[:-1], size)
    return new, rows


def segment_sum(values: IntArray, start: IntArray) -> IntArray:
    """Add up values within each block; a block without rows gets 0."""
    total = np.concatenate([[0], np.cumsum(values)])
    return np.asarray(total[start[1:]] - total[start[:-1]])


def segment_cumsum(values: IntArray, start: IntArray) -> IntArray:
    """Return running totals within each block."""
    total = np.cumsum(values)
    before = np.concatenate([[0], total])[start[:-1]]
    return np.asarray(total - np.repeat(before, np.diff(start)))


def first_rows(start: IntArray) -> BoolArray:
    """Mark the first row of each block."""
    mask = np.zeros(start[-1], dtype=bool)
    mask[start[:-1][np.diff(start) > 0]] = True
    return mask


def last_rows(start: IntArray) -> BoolArray:
    """Mark the last row of each block."""
    mask = np.zeros(start[-1], dtype=bool)
    mask[start[1:][np.diff(start) > 0] - 1] = True
    return mask
