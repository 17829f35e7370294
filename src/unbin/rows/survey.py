"""People in parts: their number, their blocks, and how their columns are scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from unbin._typing import BoolArray, FloatArray, IntArray, TextArray
from unbin.exceptions import ReadError
from unbin.rows.cells import Cells, cross
from unbin.rows.contextual import CONSTANT, Context
from unbin.rows.design import Design
from unbin.rows.layout import arrange_columns
from unbin.rows.parts import Parts
from unbin.rows.rows import Rows

_BETWEEN = "\x1f"
"""Between the blocks of a crossed cell in its name: sorted before all else that ids are made of."""


@dataclass(frozen=True, slots=True)
class Coded:
    """The block of each of some people in a partition.

    Attributes
    ----------
    blocks : (b,) text, sorted
        The distinct blocks of these people.
    codes : (n,)
        The block of each row, as a position in ``blocks``.
    """

    blocks: TextArray
    codes: IntArray

    @property
    def ids(self) -> TextArray:
        """The block id of each row."""
        return np.asarray(self.blocks[self.codes])

    def among(self, names: TextArray) -> IntArray:
        """Return the block of each row as a position in sorted names that include its own."""
        return np.asarray(np.searchsorted(names, self.blocks)[self.codes])


@dataclass(frozen=True, slots=True)
class Part:
    """Some people, as they were read.

    Attributes
    ----------
    columns : d arrays of shape (n,)
    coded : Coded
        Their blocks.
    offset : (n,) or None
    others : tuple of Coded
        Their blocks in further partitions.
    weights : (n,) or None
        People that each row stands for; None where it is one.
    counted : (n,) or None
        Those of them that the tables count: the same, but where outcomes are known.
    sampled : bool
        Whether the rows are a sample of the people.
    outcome : (n,) or None
        NaN where nobody knows it.
    members : tuple of (b,) text
        Of crossed cells, which are then the blocks of ``coded``: the block in every table.
    """

    columns: tuple[FloatArray, ...]
    coded: Coded
    offset: FloatArray | None
    others: tuple[Coded, ...] = ()
    weights: FloatArray | None = None
    counted: FloatArray | None = None
    sampled: bool = False
    outcome: FloatArray | None = None
    members: tuple[TextArray, ...] = ()

    def __len__(self) -> int:
        return len(self.coded.codes)

    def ids(self) -> list[TextArray]:
        """Return the block ids of people in every partition."""
        if self.members:
            return [members[self.coded.codes] for members in self.members]
        return [coded.ids for coded in (self.coded, *self.others)]

    def crossed(self) -> Part:
        """Return the same people by crossed cell."""
        tables = (self.coded, *self.others)
        place, cells = cross([coded.codes for coded in tables])
        members = tuple(t.blocks[codes] for t, codes in zip(tables, cells, strict=True))
        names = cell_names(members)
        order = np.argsort(names)
        rank = np.argsort(order)
        return replace(
            self,
            coded=Coded(names[order], rank[place]),
            others=(),
            members=tuple(each[order] for each in members),
        )


def cell_names(members: Sequence[TextArray]) -> TextArray:
    """Return one name for each crossed cell, of the blocks that it is in."""
    name = members[0]
    for each in members[1:]:
        name = np.char.add(np.char.add(name, _BETWEEN), each)
    return name


@dataclass(frozen=True, slots=True)
class Counted:
    """People of each block of a partition; those of different people add.

    Attributes
    ----------
    blocks : (b,) text, sorted
    people : (b,)
        Whole numbers where each row is a person.
    """

    blocks: TextArray
    people: IntArray | FloatArray

    @classmethod
    def of(cls, coded: Coded, weights: FloatArray | None = None) -> Counted:
        """Count some people."""
        return cls(coded.blocks, np.bincount(coded.codes, weights, len(coded.blocks)))

    def __add__(self, other: Counted) -> Counted:
        blocks = np.union1d(self.blocks, other.blocks)
        people = np.zeros(len(blocks), np.result_type(self.people, other.people))
        for part in (self, other):
            people[np.searchsorted(blocks, part.blocks)] += part.people
        return Counted(blocks, people)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Rows whose outcome is known; they are few, and held in memory wherever the others are.

    Attributes
    ----------
    columns : d arrays of shape (m,)
    offset : (m,) or None
    outcome, people : (m,)
        The outcome of each, and how many people it stands for: one, in a sample.
    blocks : tuple of (m,) text
        Their blocks in every partition.
    """

    columns: tuple[FloatArray, ...]
    offset: FloatArray | None
    outcome: FloatArray
    people: FloatArray
    blocks: tuple[TextArray, ...]

    def __len__(self) -> int:
        return len(self.outcome)

    @classmethod
    def of(cls, part: Part) -> Gathered:
        """Gather those of a part."""
        assert part.outcome is not None
        rows = np.flatnonzero(~np.isnan(part.outcome))
        people = np.ones(len(rows))
        if part.weights is not None and not part.sampled:
            people = part.weights[rows]
        return cls(
            tuple(values[rows] for values in part.columns),
            None if part.offset is None else part.offset[rows],
            part.outcome[rows],
            people,
            tuple(ids[rows] for ids in part.ids()),
        )

    @classmethod
    def joined(cls, parts: Sequence[Gathered]) -> Gathered:
        """Put those of several parts side by side."""
        offsets = [part.offset for part in parts if part.offset is not None]
        return cls(
            tuple(map(np.concatenate, zip(*(part.columns for part in parts), strict=True))),
            np.concatenate(offsets) if offsets else None,
            np.concatenate([part.outcome for part in parts]),
            np.concatenate([part.people for part in parts]),
            tuple(map(np.concatenate, zip(*(part.blocks for part in parts), strict=True))),
        )


@dataclass(frozen=True, slots=True)
class Survey:
    """People and columns of some parts; surveys of different people add.

    Attributes
    ----------
    blocks : (b,) text, sorted
    rows, people : (b,)
        Rows of each block, and the people that they stand for.
    sums : (b, d)
        Of the columns, by block, less ``shift`` for each person.
    shift, mean, square : (d,)
        Some value near the mean; the mean; Σ (x - mean)² over all people.
    has_offset : bool
    others : tuple of Counted
        People in the blocks of further partitions.
    members : tuple of (b,) text
        Of crossed cells: the block in every table.
    """

    blocks: TextArray
    rows: IntArray
    people: IntArray | FloatArray
    sums: FloatArray
    shift: FloatArray
    mean: FloatArray
    square: FloatArray
    has_offset: bool
    others: tuple[Counted, ...] = ()
    members: tuple[TextArray, ...] = ()

    def __add__(self, other: Survey) -> Survey:
        counted = Counted(self.blocks, self.people) + Counted(other.blocks, other.people)
        blocks = counted.blocks
        rows, sums = np.zeros(len(blocks), np.int64), np.zeros((len(blocks), len(self.mean)))
        kinds = [np.result_type(*pair) for pair in zip(self.members, other.members, strict=True)]
        members = tuple(np.empty(len(blocks), kind) for kind in kinds)
        for part in (self, other):
            place = np.searchsorted(blocks, part.blocks)
            for names, own in zip(members, part.members, strict=True):
                names[place] = own
            rows[place] += part.rows
            sums[place] += part.sums + part.people[:, None] * (part.shift - self.shift)
        n, m = float(self.people.sum()), float(other.people.sum())
        gap, both = other.mean - self.mean, n + m or 1.0  # nobody may be counted in either
        return Survey(
            blocks,
            rows,
            counted.people,
            sums,
            self.shift,
            self.mean + gap * (m / both),
            self.square + other.square + gap**2 * (n * m / both),
            self.has_offset or other.has_offset,
            tuple(a + b for a, b in zip(self.others, other.others, strict=True)),
            members,
        )

    @property
    def partitions(self) -> tuple[Counted, ...]:
        """People of each block, in every partition."""
        if not self.members:
            return (Counted(self.blocks, self.people), *self.others)
        found = [np.unique(each, return_inverse=True) for each in self.members]
        people = self.people.astype(np.float64)
        return tuple(Counted.of(Coded(names, codes), people) for names, codes in found)

    @property
    def codes(self) -> IntArray:
        """The block of each crossed cell in every table, (T, b)."""
        return np.stack([np.unique(each, return_inverse=True)[1] for each in self.members])

    def places(self, ids: Sequence[TextArray]) -> IntArray:
        """Return the place of rows among the blocks, from their ids in every partition."""
        return np.searchsorted(self.blocks, cell_names(ids) if self.members else ids[0])

    @property
    def n_rows(self) -> int:
        """Rows of all blocks."""
        return int(self.rows.sum())

    def context(self) -> Context:
        """Return the means of the columns by block, of the first partition."""
        names, people, sums = self.blocks, self.people, self.sums
        sums = sums + people[:, None] * (self.shift - self.mean)
        if self.members:
            names, code = np.unique(self.members[0], return_inverse=True)
            people = np.bincount(code, people)
            sums = np.stack([np.bincount(code, each) for each in sums.T], axis=1)
        return context_of(names, people, sums, self)


def context_of(
    names: TextArray, people: FloatArray | IntArray, sums: FloatArray, whole: Survey
) -> Context:
    """Return the context of blocks from sums of their columns, (B, d), about the mean."""
    apart = sums / people[:, None]
    between = (people[:, None] * apart**2).sum(axis=0)
    used = whole.square - between > CONSTANT * whole.square
    return Context(names, apart + whole.mean, whole.mean, used)


def survey(part: Part, weights: FloatArray | None = None) -> Survey:
    """Count the people of a part by block, and measure its columns.

    ``weights`` (n,) are the people that each row stands for.
    """
    d, n_blocks, codes = len(part.columns), len(part.coded.blocks), part.coded.codes
    counted, total = Counted.of(part.coded, weights), float(len(part))
    if weights is not None:
        total = float(weights.sum())
    mean, square, sums = np.zeros(d), np.zeros(d), np.zeros((n_blocks, d))
    for j, values in enumerate(part.columns if total > 0 else ()):
        mean[j] = np.average(values, weights=weights)
        away = values - mean[j]
        weighed = away if weights is None else weights * away
        square[j] = away @ weighed
        sums[:, j] = np.bincount(codes, weighed, n_blocks)
    has_offset = part.offset is not None and bool(part.offset.any())
    return Survey(
        counted.blocks,
        np.bincount(codes, minlength=n_blocks),
        counted.people,
        sums,
        mean,
        mean,
        square,
        has_offset,
        tuple(Counted.of(coded, weights) for coded in part.others),
        part.members,
    )


@dataclass(frozen=True, slots=True)
class Found:
    """What one pass over a part finds.

    Attributes
    ----------
    everybody : Survey
    counted : Survey
        Of those that the tables count where outcomes are known: the same, if they count everybody.
    known : Gathered or None
        Rows whose outcome is known; None where none was asked for.
    weighed, sampled : bool
        Whether rows may stand for several people, or for nobody, and whether they are a sample.
    """

    everybody: Survey
    counted: Survey
    known: Gathered | None
    weighed: bool
    sampled: bool


def look_at(part: Part) -> Found:
    """Survey a part, and gather the rows whose outcome is known."""
    found = survey(part, part.weights)
    counted = found if part.counted is part.weights else survey(part, part.counted)
    known = None if part.outcome is None else Gathered.of(part)
    return Found(found, counted, known, part.counted is not None, part.sampled)


@dataclass(frozen=True, slots=True)
class Scale:
    """How the columns of all people are standardised, and what else a part needs to know.

    Attributes
    ----------
    blocks : (B,) text, sorted
        Of all people.
    context : (B, k) or None
        Further columns, the same for all people of a block.
    center, scale : (d + k,)
    varies : (d + k,) bool
    fit_intercept : bool
    seed : int
    others : tuple of (B_t,) text, sorted
        The blocks of all people in further partitions.
    cells : Cells or None
        The order of the blocks where these are crossed cells.
    """

    blocks: TextArray
    context: FloatArray | None
    center: FloatArray
    scale: FloatArray
    varies: BoolArray
    fit_intercept: bool
    seed: int
    others: tuple[TextArray, ...] = ()
    cells: Cells | None = None


def scale_of(
    found: Survey,
    *,
    fit_intercept: bool,
    seed: int,
    context: Context | None = None,
    cells: Cells | None = None,
) -> Scale:
    """Return the scale that standardises the columns over all people."""
    n = float(found.people.sum())
    center = found.mean if fit_intercept else np.zeros_like(found.mean)
    square = found.square if fit_intercept else found.square + n * found.mean**2
    columns = None
    if context is not None:
        columns = context.means[:, context.used]
        middle = found.people @ columns / n
        shift = middle if fit_intercept else np.zeros_like(middle)
        center = np.concatenate([center, shift])
        square = np.concatenate([square, found.people @ (columns - shift) ** 2])
    spread = np.sqrt(square / n)
    varies = spread > 1e-12 * np.abs(center)
    scale = np.where(varies, spread, 1.0)
    others = tuple(counted.blocks for counted in found.others)
    return Scale(found.blocks, columns, center, scale, varies, fit_intercept, seed, others, cells)


def standardised(part: Part, scale: Scale, place: int) -> Rows:
    """Lay a part out block by block, columns standardised; ``place`` rows lie in earlier parts."""
    codes = part.coded.among(scale.blocks)
    columns = part.columns
    if scale.context is not None:
        columns += tuple(values[codes] for values in scale.context.T)
    rows = arrange_columns(
        columns,
        codes if scale.cells is None else scale.cells.rank[codes],
        scale.center,
        np.where(scale.varies, scale.scale, np.inf),
        offset=part.offset,
        fit_intercept=scale.fit_intercept,
        seed=scale.seed,
        others=tuple(o.among(names) for o, names in zip(part.others, scale.others, strict=True)),
        weights=part.counted,
        sampled=part.sampled,
    )
    return rows.at(place)


@dataclass(frozen=True)
class Surveyed:
    """Parts with what was found in them.

    Attributes
    ----------
    parts : Parts of Part
    found : tuple of Found
        One per part.
    """

    parts: Parts
    found: tuple[Found, ...]

    @classmethod
    def of(cls, parts: Parts, *, crossed: bool = False) -> Surveyed:
        """Survey parts in one pass, by crossed cell if asked; those without people are left out."""
        if crossed:
            parts = parts.later(Part.crossed)
        found = list(parts.stream(look_at))
        held = [k for k, part in enumerate(found) if part.everybody.n_rows]
        if not held:
            raise ReadError("X: must hold people, got none; check the table")
        if len(held) < len(found):
            parts, found = parts.take(held), [found[k] for k in held]
        return cls(parts, tuple(found))

    @property
    def weighed(self) -> bool:
        """Whether rows may stand for several people, or for nobody."""
        return self.found[0].weighed

    @property
    def sampled(self) -> bool:
        """Whether the rows are a sample of the people."""
        return self.found[0].sampled

    @cached_property
    def whole(self) -> Survey:
        """The survey of all people."""
        return reduce(lambda a, b: a + b, [part.everybody for part in self.found])

    @cached_property
    def counted(self) -> Survey:
        """The survey of those that the tables count where outcomes are known."""
        if all(part.counted is part.everybody for part in self.found):
            return self.whole
        return reduce(lambda a, b: a + b, [part.counted for part in self.found])

    @cached_property
    def known(self) -> Gathered | None:
        """Rows whose outcome is known; None where there are none."""
        found = [part.known for part in self.found if part.known is not None]
        return Gathered.joined(found) if any(map(len, found)) else None

    def design(self, scale: Scale) -> Design:
        """Return the design of all people; nothing is read until sums are asked for."""
        whole, cells = self.whole, scale.cells
        rows = whole.rows if cells is None else whole.rows[np.argsort(cells.rank)]
        size = np.array([part.everybody.n_rows for part in self.found])
        place = np.concatenate([[0], np.cumsum(size)[:-1]])
        parts = self.parts.later(standardised, scale, each=[int(p) for p in place])
        numbers = len(scale.center) + 2 + len(scale.others) + self.weighed  # of a row
        parts = parts.settled(8 * whole.n_rows * numbers)
        return Design(
            parts=parts,
            whole=parts if cells is None and self._blocks_follow(whole) else None,
            start=np.concatenate([[0], np.cumsum(rows)]),
            center=scale.center,
            scale=scale.scale,
            varies=scale.varies,
            fit_intercept=scale.fit_intercept,
            has_offset=whole.has_offset,
            weight=self.weight(cells),
            sampled=self.sampled,
            looks_up=True,
            group=None if cells is None else cells.group,
        )

    def weight(self, cells: Cells | None) -> FloatArray | None:
        """Return people of each block, or cell, that tables count; None where rows are people."""
        if not self.weighed:
            return None
        people = self.counted.people.astype(np.float64)
        return people if cells is None else people[np.argsort(cells.rank)]

    def _blocks_follow(self, whole: Survey) -> bool:
        """Tell whether each block lies in one part, and parts hold blocks in order."""
        places = [np.searchsorted(whole.blocks, part.everybody.blocks) for part in self.found]
        return bool(np.array_equal(np.concatenate(places), np.arange(len(whole.blocks))))
