"""Arithmetic on rows that lie block by block: ``start[b]:start[b + 1]`` are those of block b."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from unbin._typing import BoolArray, IntArray

_FEWEST, _MOST = 1 << 15, 1 << 17
"""Rows of a span, about: few enough for the cache, many enough for a thread."""
_SPANS = 64
"""Spans that many rows are cut into, about."""


@dataclass(frozen=True, slots=True)
class Span:
    """Whole blocks ``first`` to ``last - 1``, which are the rows ``rows``."""

    first: int
    last: int
    rows: slice


def spans_of(start: IntArray) -> tuple[Span, ...]:
    """Cut the blocks into spans of 32,768 rows or more, about, never through a block."""
    rows = min(max(int(start[-1]) // _SPANS, _FEWEST), _MOST)
    wanted = np.arange(rows, start[-1], rows)
    large = np.flatnonzero(np.diff(start) > rows)  # these stay alone
    inner = [np.searchsorted(start, wanted), large, large + 1]
    edges = np.unique(np.concatenate([[0], *inner, [len(start) - 1]]))
    return tuple(
        Span(int(a), int(b), slice(int(start[a]), int(start[b]))) for a, b in pairwise(edges)
    )


def segment_start(codes: IntArray, n_blocks: int) -> IntArray:
    """Return where each block's rows start, for rows sorted by block."""
    return np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n_blocks))]).astype(np.int64)


def block_of_rows(start: IntArray, dtype: Any = np.int64) -> IntArray:
    """Return the block of each row."""
    return np.repeat(np.arange(len(start) - 1, dtype=dtype), np.diff(start))


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


def deal_blocks(
    people: IntArray, n_splits: int, rng: np.random.Generator | None = None
) -> IntArray:
    """Return the fold of each block: largest first in serpentine order, so that folds are balanced.

    With ``rng`` the blocks of each round are dealt in random order.
    """
    n_blocks = len(people)
    n_laps = -(-n_blocks // n_splits)
    seats = np.tile(np.arange(n_splits), (n_laps, 1))
    order = np.argsort(-people, kind="stable")
    if rng is None:
        seats[1::2] = seats[1::2, ::-1]
    else:
        order = np.lexsort((rng.permutation(n_blocks), -people))
        seats = rng.permuted(seats, axis=1)
    fold = np.empty(n_blocks, dtype=np.int64)
    fold[order] = seats.ravel()[:n_blocks]
    return fold


def deal_tables(
    people: Sequence[IntArray],
    usable: Sequence[int],
    n_splits: int,
    rng: np.random.Generator | None = None,
) -> list[IntArray | None]:
    """Return the fold of each block of several tables, None for a table that stays whole.

    Those are the tables with fewer than two usable blocks per fold, unless all have so few.
    """
    if max(usable) < 2 * n_splits:
        start = np.concatenate([[0], np.cumsum([len(n) for n in people])])
        together = deal_blocks(np.concatenate(people), n_splits, rng)
        return [together[low:high] for low, high in pairwise(start)]
    return [
        deal_blocks(n, n_splits, rng) if enough >= 2 * n_splits else None
        for n, enough in zip(people, usable, strict=True)
    ]
