"""Which blocks of several tables are made up of the same people.

Counts of two tables can be compared where both can be added up to the same people: everybody, the
people whom only some tables count, or a block of one table that is a union of blocks of another
(a state and its counties). Each is a :class:`Nest`; there are about as many as tables, not as many
as pairs of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unbin._typing import IntArray

if TYPE_CHECKING:
    from unbin.release.join import Tables

_SAMPLE = 1000
"""Rows that are looked at first: most partitions that do not refine another show it there."""


@dataclass(frozen=True, slots=True)
class Member:
    """A table whose blocks make up the groups of a nest.

    Attributes
    ----------
    table : int
        Which of the tables.
    group : (B,)
        The group of each of its blocks; -1 for one that is in none.
    """

    table: int
    group: IntArray


@dataclass(frozen=True, slots=True)
class Nest:
    """Groups of people that several tables can be added up to.

    Attributes
    ----------
    groups : tuple of str
        What each group is called: "state 'CA'"; "" for everybody.
    people : (G,)
        Rows of X in each group.
    members : tuple of Member
        At least two.
    """

    groups: tuple[str, ...]
    people: IntArray
    members: tuple[Member, ...]


def find_nests(tables: Tables, codes: Sequence[IntArray] | None = None) -> tuple[Nest, ...]:
    """Return the groups of people that tables can be compared on.

    Parameters
    ----------
    tables : Tables
        Aligned with the same people.
    codes : sequence of (n,), optional
        The block of each row in each table. Without them tables are compared on everybody.
    """
    found = [_everybody(tables)]
    if codes is not None:
        found += [*_same_people(tables, codes), *_refined(tables, codes)]
    return tuple(nest for nest in found if len(nest.members) > 1)


def _everybody(tables: Tables) -> Nest:
    members = tuple(
        Member(t, np.zeros(len(release), np.int64)) for t, release in enumerate(tables.releases)
    )
    return Nest(("",), np.array([tables.first.n.sum()]), members)


def _same_people(tables: Tables, codes: Sequence[IntArray]) -> list[Nest]:
    """Return a nest for each set of some people that several tables count."""
    alike: dict[bytes, list[int]] = {}
    told = [release.has_statistics() for release in tables.releases]
    for t, known in enumerate(told):
        if not known.all():
            alike.setdefault(np.packbits(known[codes[t]]).tobytes(), []).append(t)
    return [
        Nest(
            ("",),
            np.array([tables.releases[some[0]].n[told[some[0]]].sum()]),
            tuple(Member(t, np.where(told[t], 0, -1)) for t in some),
        )
        for some in alike.values()
    ]


def _refined(tables: Tables, codes: Sequence[IntArray]) -> list[Nest]:
    """Return a nest for each partition that others refine; equal ones make one nest."""
    finer = _refinements(tables, codes)
    nests, done = [], set()
    for coarse, fine in enumerate(finer):
        if coarse in done or len(tables.releases[coarse]) == 1:
            continue
        done |= {t for t in fine if coarse in finer[t]}
        release = tables.releases[coarse]
        members = [
            Member(t, _place(codes[t], codes[coarse], len(tables.releases[t])))
            for t in sorted({coarse, *fine})
        ]
        names = tuple(f"{tables.names[coarse]} {str(block)!r}" for block in release.blocks)
        nests.append(Nest(names, release.n, tuple(members)))
    return nests


def _refinements(tables: Tables, codes: Sequence[IntArray]) -> list[list[int]]:
    """Return for each table the others of which every block lies within a block of it."""
    n = len(codes[0])
    rows = np.arange(0, n, max(n // _SAMPLE, 1))
    sample = np.stack([code[rows] for code in codes])
    finer: list[list[int]] = [[] for _ in codes]
    for fine, code in enumerate(codes):
        order = np.argsort(sample[fine], kind="stable")
        same = np.diff(sample[fine, order]) == 0
        split = ((np.diff(sample[:, order], axis=1) != 0) & same).any(axis=1)
        size = len(tables.releases[fine])
        for coarse in np.flatnonzero(~split).tolist():
            if coarse != fine and len(tables.releases[coarse]) <= size:
                place = _place(code, codes[coarse], size)
                if (place[code] == codes[coarse]).all():
                    finer[coarse].append(fine)
    return finer


def _place(fine: IntArray, coarse: IntArray, size: int) -> IntArray:
    """Return a coarse block in which each fine block has people; -1 for one without people."""
    place = np.full(size, -1, np.int64)
    place[fine] = coarse
    return place
