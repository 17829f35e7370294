"""What several tables of the same people reveal, together, about the counts that each hides.

The people of every crossing of blocks are known, since X is; how many of them are in each bin is
not. Each published count is a sum of these unknown numbers over the crossings of a block, and lies
in its interval. What a hidden count can be is therefore the least and the most of such a sum over
all whole numbers that agree with everything published: two integer programs. Unlike those of one
table (:mod:`unbin.release.derivation`), linear programs may have other solutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from scipy.optimize import Bounds as Box
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import csr_array, eye_array, kron, vstack

from unbin._typing import FloatArray, IntArray
from unbin.release.crossings import Crossings, Difference, pairs_of
from unbin.release.derivation import MOST_PROGRAMS, Bounds, possible_counts, propagate

MOST_UNKNOWNS = 1000
"""Crossings times bins up to which programs are solved."""
_MOST_NODES = 200
"""Of branch and bound in one program; the bound that is sure by then is taken."""
_MOST_LOOKS = 30
_WORTH = 0.9
"""Looking for solutions that reach many ends goes on while a tenth of those left are reached."""
_ROUNDS = 20
_CLOSE = 1e-6

Ends = tuple[IntArray, IntArray]


@dataclass(frozen=True, slots=True)
class LinkedBounds:
    """What can be worked out from all tables.

    Attributes
    ----------
    tables : tuple of Bounds
        Of the counts of each table.
    differences : Bounds
        Of the counts of each difference, (D, K).
    exact : bool
        Whether nothing narrower can be worked out; else the bounds are sure, but perhaps too wide.
    """

    tables: tuple[Bounds, ...]
    differences: Bounds
    exact: bool


def possible_counts_together(
    ends: Sequence[Ends],
    crossings: Crossings,
    columns: Ends | None,
    differences: Sequence[Difference] = (),
    *,
    most_programs: int = MOST_PROGRAMS,
    most_unknowns: int = MOST_UNKNOWNS,
) -> LinkedBounds:
    """Work out the counts of several tables with the same bins from all of them.

    Parameters
    ----------
    ends : sequence of pairs of (B, K)
        The intervals in which the counts of each table were published.
    crossings : Crossings
    columns : pair of (K,) or None
        The least and the most people of each bin over everybody, where they are published.
    differences : sequence of Difference
        Groups of people that are to be worked out, too.
    most_programs, most_unknowns : int
        Hidden counts, and unknown numbers, up to which programs are solved.
    """
    narrowed = _propagate(list(ends), crossings, columns)
    low, high = _subtract(narrowed, differences)
    groups = [*narrowed, (low, high)]
    members = [
        *(_members(codes) for codes in crossings.blocks),
        _members_of(differences, crossings),
    ]
    hidden = sum(int((a < b).sum()) for a, b in groups)
    unknowns = len(crossings.people) * narrowed[0][0].shape[1]
    exact = hidden == 0
    if 0 < hidden <= most_programs and unknowns <= most_unknowns:
        groups, exact = _solve(groups, members, crossings, columns)
    bounds = [Bounds(a, b, exact) for a, b in groups]
    return LinkedBounds(tuple(bounds[:-1]), bounds[-1], exact)


def _members(codes: IntArray) -> csr_array:
    """Return the crossings of each block as rows of zeros and ones, (B, R)."""
    place = np.arange(len(codes))
    return csr_array(
        (np.ones(len(codes)), (codes, place)), shape=(int(codes.max()) + 1, len(codes))
    )


def _members_of(differences: Sequence[Difference], crossings: Crossings) -> csr_array:
    size = [len(each.members) for each in differences]
    row = np.repeat(np.arange(len(size)), size)
    column = np.concatenate([np.zeros(0, np.int64), *(each.members for each in differences)])
    shape = len(size), len(crossings.people)
    return csr_array((np.ones(len(row)), (row, column)), shape=shape)


# -- intervals -------------------------------------------------------------------------------------


def _propagate(tables: list[Ends], crossings: Crossings, columns: Ends | None) -> list[Ends]:
    """Narrow intervals within each table and between all pairs of them, until all stay."""
    people = [np.bincount(codes, crossings.people).astype(np.int64) for codes in crossings.blocks]
    shared = {
        (s, t): _Shared(*pairs_of(crossings, s, t)) for s, t in combinations(range(len(tables)), 2)
    }
    for _ in range(_ROUNDS):
        before = list(tables)
        for t, n in enumerate(people):
            tables[t] = propagate(*tables[t], (n, n), columns)
        for (s, t), pair in shared.items():
            tables[s], tables[t] = pair.narrow(tables[s], tables[t])
        pairs = zip(before, tables, strict=True)
        if all((a[0] == b[0]).all() and (a[1] == b[1]).all() for a, b in pairs):
            break
    return tables


class _Shared:
    """The people that pairs of blocks of two tables have in common, P pairs.

    ``low`` and ``high`` (P, K) are the least and the most of them that each bin can have.
    """

    def __init__(self, one: IntArray, other: IntArray, size: IntArray) -> None:
        self.blocks = one, other
        self.size = size[:, None]
        self.low: IntArray | None = None
        self.high: IntArray | None = None

    def narrow(self, one: Ends, other: Ends) -> tuple[Ends, Ends]:
        """Return the ends of the counts of both tables, narrowed by one another."""
        shape = len(self.size), one[0].shape[1]
        low = np.zeros(shape, np.int64) if self.low is None else self.low
        high = np.broadcast_to(self.size, shape) if self.high is None else self.high
        for ends, block in zip((one, other), self.blocks, strict=True):
            others = _add(high, block)[block] - high
            low = np.maximum(low, ends[0][block] - others)
            others = _add(low, block)[block] - low
            high = np.minimum(high, ends[1][block] - others)
        low = np.maximum(low, self.size - (high.sum(axis=1, keepdims=True) - high))
        high = np.minimum(high, self.size - (low.sum(axis=1, keepdims=True) - low))
        self.low, self.high = low, high
        found = [
            (np.maximum(ends[0], _add(low, block)), np.minimum(ends[1], _add(high, block)))
            for ends, block in zip((one, other), self.blocks, strict=True)
        ]
        return found[0], found[1]


def _add(values: IntArray, block: IntArray) -> IntArray:
    """Add rows up by block."""
    total = np.zeros((int(block.max()) + 1, values.shape[1]), dtype=np.int64)
    np.add.at(total, block, values)
    return total


def _subtract(tables: Sequence[Ends], differences: Sequence[Difference]) -> Ends:
    """Return the ends of the counts of each difference, (D, K)."""
    shape = len(differences), tables[0][0].shape[1]
    low, high = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for d, each in enumerate(differences):
        of, less = list(each.blocks), list(each.less_blocks)
        plus, minus = tables[each.table], tables[each.less]
        low[d] = np.maximum(plus[0][of].sum(axis=0) - minus[1][less].sum(axis=0), 0)
        high[d] = np.minimum(plus[1][of].sum(axis=0) - minus[0][less].sum(axis=0), each.n)
    n = np.array([each.n for each in differences], dtype=np.int64)
    found = possible_counts(low, high, (n, n))
    return found.low, found.high


# -- programs --------------------------------------------------------------------------------------


def _solve(
    groups: Sequence[Ends],
    members: Sequence[csr_array],
    crossings: Crossings,
    columns: Ends | None,
) -> tuple[list[Ends], bool]:
    """Minimise and maximise each hidden count over all whole numbers that agree."""
    total = vstack(members, format="csr")
    low, high = (np.concatenate(each).astype(np.float64) for each in zip(*groups, strict=True))
    program = _Program.of(crossings.people, total, (low, high), columns)
    seen = _Seen(low, high)
    seen.look(program)
    exact = True
    for sign, bound, reached in ((1.0, low, seen.least), (-1.0, high, seen.most)):
        for g, k in np.argwhere(low < high):
            if reached[g, k] == bound[g, k]:
                continue
            weight = np.zeros_like(low)
            weight[g, k] = sign
            value, counts = program.least(weight)
            if counts is None:
                exact = False
            else:
                seen.add(counts)
            bound[g, k] = sign * max(value, sign * bound[g, k])
    starts = np.cumsum([0, *(len(each[0]) for each in groups)])
    found = [(low[a:b].astype(np.int64), high[a:b].astype(np.int64)) for a, b in pairwise(starts)]
    return found, exact


class _Seen:
    """The least and the most of each count among solutions: what was seen is possible."""

    def __init__(self, low: FloatArray, high: FloatArray) -> None:
        self.low, self.high = low, high
        self.least, self.most = high.copy(), low.copy()

    def add(self, counts: FloatArray) -> None:
        """Take the counts of a solution into account."""
        np.minimum(self.least, counts, out=self.least)
        np.maximum(self.most, counts, out=self.most)

    def missing(self) -> int:
        """Return how many ends of intervals no solution has reached."""
        return int((self.least > self.low).sum() + (self.most < self.high).sum())

    def look(self, program: _Program) -> None:
        """Add solutions that reach many ends at once, which saves a program for each of them."""
        rng = np.random.default_rng(0)
        before = self.missing()
        for _ in range(_MOST_LOOKS):
            down, up = self.least > self.low, self.most < self.high
            sign = np.where(down & up, rng.choice([-1.0, 1.0], down.shape), down * 1.0 - up)
            _, counts = program.least(sign)
            if counts is not None:
                self.add(counts)
            now = self.missing()
            if now == 0 or now > _WORTH * before:
                break
            before = now


@dataclass(frozen=True, slots=True)
class _Program:
    """Whole numbers of people by crossing and bin, (R, K), that agree with what was published."""

    total: csr_array
    box: Box
    constraint: LinearConstraint

    @classmethod
    def of(
        cls,
        people: IntArray,
        total: csr_array,
        ends: tuple[FloatArray, FloatArray],
        columns: Ends | None,
    ) -> _Program:
        """Return the program of the counts of groups, each a sum (G, R) over crossings."""
        n_bins = ends[0].shape[1]
        bins = eye_array(n_bins)
        matrix = [kron(eye_array(len(people)), np.ones((1, n_bins))), kron(total, bins)]
        low, high = [people, ends[0].ravel()], [people, ends[1].ravel()]
        if columns is not None:
            matrix.append(kron(np.ones((1, len(people))), bins))
            low, high = [*low, columns[0]], [*high, columns[1]]
        constraint = LinearConstraint(
            csr_array(vstack(matrix)), np.concatenate(low), np.concatenate(high)
        )
        return cls(total, Box(0, np.repeat(people, n_bins)), constraint)

    def least(self, weight: FloatArray) -> tuple[float, FloatArray | None]:
        """Return the least that a weighted sum (G, K) of counts can be, and counts that reach it.

        Without counts the sum is sure to be at least that, but perhaps cannot be as small.
        """
        cost = self.total.T @ weight
        found = milp(
            cost.ravel(),
            integrality=np.ones(cost.size, dtype=np.int64),
            bounds=self.box,
            constraints=self.constraint,
            options={"node_limit": _MOST_NODES, "mip_rel_gap": 0.0},
        )
        if found.status == 0:
            return round(found.fun), self.total @ np.rint(found.x).reshape(cost.shape)
        sure = found.mip_dual_bound
        return (-np.inf if sure is None else np.ceil(sure - _CLOSE)), None
