"""Crossed cells: people who are in the same block of every table.

Tables of the same people cut them in different ways. All that tables count of a cell is counted
together, so that every sum over the blocks of any table is a sum over cells: rows are laid out by
cell, and nothing that runs over rows knows how many tables there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbin._typing import IntArray

_DENSE = 4
"""Cells that there could be, per row, up to which those with people are found by counting."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells that have people, and the order in which they are laid out.

    Attributes
    ----------
    codes : (T, C)
        The block of each cell in every table, in the order of the layout.
    rank : (C,)
        The place in the layout of each cell, as they were numbered when they were found.
    group : (G + 1,)
        Where groups of cells begin, which parts of the rows hold as a whole.
    """

    codes: IntArray
    rank: IntArray
    group: IntArray

    @classmethod
    def arranged(cls, codes: IntArray, group: IntArray) -> Cells:
        """Put the cells of each group (C,) side by side, groups and cells in increasing order."""
        order = np.lexsort((*codes[::-1], group))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        start = np.flatnonzero(np.diff(group[order], prepend=-1))
        return cls(codes[:, order], rank, np.append(start, len(order)).astype(np.int64))


def cross(codes: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Return the cell of each row, and the block of each cell in every partition, (T, C).

    Parameters
    ----------
    codes : sequence of (n,)
        The block of each row in every partition.
    """
    place, cells = codes[0].astype(np.int64), np.arange(int(codes[0].max(initial=-1)) + 1)[None]
    for each in codes[1:]:
        size = int(each.max(initial=-1)) + 1
        key = place * size + each
        if cells.shape[1] * size <= _DENSE * len(key):
            there = np.bincount(key, minlength=cells.shape[1] * size) > 0
            found = np.flatnonzero(there)
            place = (np.cumsum(there) - 1)[key]
        else:
            found, place = np.unique(key, return_inverse=True)
        cells = np.vstack([cells[:, found // size], found[None] % size])
    return place, cells
