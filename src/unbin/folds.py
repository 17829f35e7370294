"""Dealing blocks out to folds."""

from __future__ import annotations

import numpy as np

from unbin.typing import IntArray


def deal_blocks(
    people: IntArray, n_splits: int, rng: np.random.Generator | None = None
) -> IntArray:
    """Return the fold of each block: largest first, forth and back, so that folds are balanced.

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
