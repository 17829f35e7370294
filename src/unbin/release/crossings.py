"""Groups of people that several tables have in common, and those that their differences single out.

Everybody in the same block of every table is in the same crossing. Whoever has X knows how many
people each crossing has; how many of them are in each bin is what the tables are about.

A block of one table that lies within blocks of another can be taken away from them: where few
people are left, their counts were published as a difference, though no table has them as a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from unbin._typing import IntArray


@dataclass(frozen=True, slots=True)
class Crossings:
    """People who are in the same blocks of all tables.

    Attributes
    ----------
    codes : (n,)
        The crossing of each person.
    people : (R,)
        People of each crossing.
    blocks : tuple of (R,)
        The block of each crossing in every table.
    """

    codes: IntArray
    people: IntArray
    blocks: tuple[IntArray, ...]

    @classmethod
    def of(cls, codes: Sequence[IntArray]) -> Crossings:
        """Cross the blocks (n,) that people have in each of several tables."""
        place = np.zeros(len(codes[0]), dtype=np.int64)
        for each in codes:
            place = np.unique(place * (int(each.max()) + 1) + each, return_inverse=True)[1]
        first = np.unique(place, return_index=True)[1]
        return cls(place, np.bincount(place), tuple(each[first] for each in codes))


@dataclass(frozen=True, slots=True)
class Difference:
    """People of some blocks of one table less some blocks of another, all of which lie within.

    Attributes
    ----------
    members : (r,)
        Their crossings.
    n : int
        People.
    table, less : int
        The tables.
    blocks, less_blocks : tuple of int
        The blocks of the first that are added up, and those of the second that are taken away.
    """

    members: IntArray
    n: int
    table: int
    blocks: tuple[int, ...]
    less: int
    less_blocks: tuple[int, ...]


def small_differences(crossings: Crossings, smallest: int) -> tuple[Difference, ...]:
    """Return the differences of fewer than ``smallest`` people that are blocks of no table.

    Two kinds are looked for, of every pair of tables: a block less all blocks of the other table
    that lie within it, and the blocks of the other table that a block touches less that block.
    """
    found: dict[bytes, Difference] = {}
    for one in range(len(crossings.blocks)):
        for other in range(len(crossings.blocks)):
            if one != other:
                for each in _of_pair(crossings, one, other, smallest):
                    found.setdefault(each.members.tobytes(), each)
    return tuple(each for each in found.values() if not _is_block(crossings, each))


def _of_pair(crossings: Crossings, one: int, other: int, smallest: int) -> Iterator[Difference]:
    """Yield the small differences between blocks of ``one`` and single blocks of ``other``."""
    a, b, size = pairs_of(crossings, one, other)
    n_a, n_b = np.bincount(a, size), np.bincount(b, size)
    inside = size == n_a[a]
    within = np.bincount(b, np.where(inside, size, 0), len(n_b))
    for block in np.flatnonzero((within > 0) & (n_b > within) & (n_b - within < smallest)):
        less = a[(b == block) & inside]
        yield _difference(crossings, other, (int(block),), one, tuple(less.tolist()))
    around = np.bincount(b, n_a[a], len(n_b))
    touched = np.bincount(b)
    for block in np.flatnonzero((touched > 1) & (around > n_b) & (around - n_b < smallest)):
        yield _difference(crossings, one, tuple(a[b == block].tolist()), other, (int(block),))


def pairs_of(crossings: Crossings, one: int, other: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the pairs of blocks of two tables that have people in common, and how many."""
    a, b = crossings.blocks[one], crossings.blocks[other]
    width = int(b.max()) + 1
    pair, place = np.unique(a * width + b, return_inverse=True)
    size = np.bincount(place, crossings.people).astype(np.int64)
    return pair // width, pair % width, size


def _difference(
    crossings: Crossings,
    table: int,
    blocks: tuple[int, ...],
    less: int,
    less_blocks: tuple[int, ...],
) -> Difference:
    kept = np.isin(crossings.blocks[table], blocks)
    kept &= ~np.isin(crossings.blocks[less], less_blocks)
    n = int(crossings.people[kept].sum())
    return Difference(np.flatnonzero(kept), n, table, blocks, less, less_blocks)


def _is_block(crossings: Crossings, difference: Difference) -> bool:
    for codes in crossings.blocks:
        own = np.unique(codes[difference.members])
        if len(own) == 1 and crossings.people[codes == own[0]].sum() == difference.n:
            return True
    return False
