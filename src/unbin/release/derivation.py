"""What the totals of a table reveal about the counts that it hides.

The hidden counts of a table of blocks by bins lie in intervals, and their rows and columns add up
to published totals. How far each can be worked out is a pair of linear programs; because every
count is in one row and one column (a transportation problem), their solutions are whole numbers, so
that the bounds are those of all whole tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from unbin._typing import IntArray

MOST_PROGRAMS = 200
"""Hidden counts up to which the programs are solved; of more, intervals are only propagated."""
_ROUNDS = 1000


@dataclass(frozen=True, slots=True)
class Bounds:
    """What can be worked out about each count.

    Attributes
    ----------
    low, high : (B, K)
        The least and the most that each count can be.
    exact : bool
        Whether no narrower interval can be worked out. Else they are sure, but perhaps too wide.
    """

    low: IntArray
    high: IntArray
    exact: bool


def possible_counts(
    low: IntArray,
    high: IntArray,
    rows: tuple[IntArray, IntArray],
    columns: tuple[IntArray, IntArray] | None = None,
    *,
    most_programs: int = MOST_PROGRAMS,
) -> Bounds:
    """Work out every count of a table from its totals.

    Parameters
    ----------
    low, high : (B, K)
        The interval in which each count was published; equal where it is known.
    rows : pair of (B,)
        The least and the most people of each block.
    columns : pair of (K,), optional
        The least and the most people of each bin over all blocks; None when they are not published.
    most_programs : int
        Hidden counts for which linear programs are solved at most.
    """
    low, high = propagate(low, high, rows, columns)
    open_cells = np.argwhere(low < high)
    if columns is None or len(open_cells) == 0:
        return Bounds(low, high, exact=True)  # a single row: propagation says all there is
    if len(open_cells) > most_programs:
        return Bounds(low, high, exact=False)
    return _solve(low, high, rows, columns, open_cells)


def propagate(
    low: IntArray,
    high: IntArray,
    rows: tuple[IntArray, IntArray],
    columns: tuple[IntArray, IntArray] | None,
) -> tuple[IntArray, IntArray]:
    """Narrow intervals by what the others of a row, then of a column, leave, until all stay."""
    for _ in range(_ROUNDS):
        new_low, new_high = _narrow(low, high, *rows)
        if columns is not None:
            ends = _narrow(new_low.T, new_high.T, *columns)
            new_low, new_high = ends[0].T, ends[1].T
        if (new_low == low).all() and (new_high == high).all():
            break
        low, high = new_low, new_high
    return low, high


def _narrow(
    low: IntArray, high: IntArray, least: IntArray, most: IntArray
) -> tuple[IntArray, IntArray]:
    others_low = low.sum(axis=1, keepdims=True) - low
    others_high = high.sum(axis=1, keepdims=True) - high
    return (
        np.maximum(low, least[:, None] - others_high),
        np.minimum(high, most[:, None] - others_low),
    )


def _solve(
    low: IntArray,
    high: IntArray,
    rows: tuple[IntArray, IntArray],
    columns: tuple[IntArray, IntArray],
    cells: IntArray,
) -> Bounds:
    """Minimise and maximise each hidden count, all others free within what was published."""
    n_cells, n_rows = len(cells), len(low)
    place = np.arange(n_cells)
    constraint = np.concatenate([cells[:, 0], n_rows + cells[:, 1]])
    used, row = np.unique(constraint, return_inverse=True)
    matrix = csr_array((np.ones(2 * n_cells), (row, np.tile(place, 2))), shape=(len(used), n_cells))
    known = np.where(low == high, low, 0)
    sums = np.concatenate([known.sum(axis=1), known.sum(axis=0)])
    least, most = (np.concatenate(ends) - sums for ends in zip(rows, columns, strict=True))
    matrix = vstack([matrix, -matrix])
    sides = np.concatenate([most[used], -least[used]])
    box = np.column_stack([low[tuple(cells.T)], high[tuple(cells.T)]])
    low, high = low.copy(), high.copy()
    for k, (i, j) in enumerate(cells):
        for sign, bound in ((1.0, low), (-1.0, high)):
            cost = np.zeros(n_cells)
            cost[k] = sign
            found = linprog(cost, A_ub=matrix, b_ub=sides, bounds=box)  # type: ignore[call-overload]
            if found.success:
                bound[i, j] = round(sign * found.fun)
    return Bounds(low, high, exact=True)
