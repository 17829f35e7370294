"""People in parts: their number, their blocks, and how their columns are scaled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from unbin._typing import BoolArray, FloatArray, IntArray, TextArray
from unbin.exceptions import ReadError
from unbin.rows.contextual import CONSTANT, Context
from unbin.rows.design import Design
from unbin.rows.parts import Parts
from unbin.rows.rows import Rows, arrange_columns


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
    """

    columns: tuple[FloatArray, ...]
    coded: Coded
    offset: FloatArray | None
    others: tuple[Coded, ...] = ()


@dataclass(frozen=True, slots=True)
class Counted:
    """People of each block of a partition; those of different people add.

    Attributes
    ----------
    blocks : (b,) text, sorted
    rows : (b,)
        People in each block.
    """

    blocks: TextArray
    rows: IntArray

    @classmethod
    def of(cls, coded: Coded) -> Counted:
        """Count some people."""
        return cls(coded.blocks, np.bincount(coded.codes, minlength=len(coded.blocks)))

    def __add__(self, other: Counted) -> Counted:
        blocks = np.union1d(self.blocks, other.blocks)
        rows = np.zeros(len(blocks), np.int64)
        for part in (self, other):
            rows[np.searchsorted(blocks, part.blocks)] += part.rows
        return Counted(blocks, rows)


@dataclass(frozen=True, slots=True)
class Survey:
    """People and columns of some parts; surveys of different people add.

    Attributes
    ----------
    blocks : (b,) text, sorted
    rows : (b,)
        People in each block.
    sums : (b, d)
        Of the columns, by block, less ``shift`` for each person.
    shift, mean, square : (d,)
        Some value near the mean; the mean; Σ (x - mean)² over all people.
    has_offset : bool
    others : tuple of Counted
        People in the blocks of further partitions.
    """

    blocks: TextArray
    rows: IntArray
    sums: FloatArray
    shift: FloatArray
    mean: FloatArray
    square: FloatArray
    has_offset: bool
    others: tuple[Counted, ...] = ()

    def __add__(self, other: Survey) -> Survey:
        counted = self.partitions[0] + other.partitions[0]
        blocks, rows = counted.blocks, counted.rows
        sums = np.zeros((len(blocks), len(self.mean)))
        for part in (self, other):
            place = np.searchsorted(blocks, part.blocks)
            sums[place] += part.sums + part.rows[:, None] * (part.shift - self.shift)
        n, m = int(self.rows.sum()), int(other.rows.sum())
        gap = other.mean - self.mean
        return Survey(
            blocks,
            rows,
            sums,
            self.shift,
            self.mean + gap * (m / (n + m)),
            self.square + other.square + gap**2 * (n * m / (n + m)),
            self.has_offset or other.has_offset,
            tuple(a + b for a, b in zip(self.others, other.others, strict=True)),
        )

    @property
    def partitions(self) -> tuple[Counted, ...]:
        """People of each block, of the first partition and of further ones."""
        return (Counted(self.blocks, self.rows), *self.others)

    @property
    def n_people(self) -> int:
        """People in all blocks."""
        return int(self.rows.sum())

    def context(self) -> Context:
        """Return the block means of the columns, for contextual effects."""
        means = self.sums / self.rows[:, None] + self.shift
        between = (self.rows[:, None] * (means - self.mean) ** 2).sum(axis=0)
        used = self.square - between > CONSTANT * self.square
        return Context(self.blocks, means, self.mean, used)


def survey(part: Part) -> Survey:
    """Count the people of a part by block, and measure its columns."""
    d, codes = len(part.columns), part.coded.codes
    counted = Counted.of(part.coded)
    mean = np.array([values.mean() if len(values) else 0.0 for values in part.columns])
    sums, square = np.empty((len(counted.blocks), d)), np.empty(d)
    for j, values in enumerate(part.columns):
        away = values - mean[j]
        square[j] = away @ away
        sums[:, j] = np.bincount(codes, weights=away, minlength=len(counted.blocks))
    has_offset = part.offset is not None and bool(part.offset.any())
    others = tuple(map(Counted.of, part.others))
    return Survey(counted.blocks, counted.rows, sums, mean, mean, square, has_offset, others)


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
    """

    blocks: TextArray
    context: FloatArray | None
    center: FloatArray
    scale: FloatArray
    varies: BoolArray
    fit_intercept: bool
    seed: int
    others: tuple[TextArray, ...] = ()


def scale_of(
    found: Survey, *, fit_intercept: bool, seed: int, context: Context | None = None
) -> Scale:
    """Return the scale that standardises the columns over all people."""
    n = found.n_people
    center = found.mean if fit_intercept else np.zeros_like(found.mean)
    square = found.square if fit_intercept else found.square + n * found.mean**2
    columns = None
    if context is not None:
        columns = context.means[:, context.used]
        middle = found.rows @ columns / n
        shift = middle if fit_intercept else np.zeros_like(middle)
        center = np.concatenate([center, shift])
        square = np.concatenate([square, found.rows @ (columns - shift) ** 2])
    spread = np.sqrt(square / n)
    varies = spread > 1e-12 * np.abs(center)
    scale = np.where(varies, spread, 1.0)
    others = tuple(counted.blocks for counted in found.others)
    return Scale(found.blocks, columns, center, scale, varies, fit_intercept, seed, others)


def standardised(part: Part, scale: Scale, place: int) -> Rows:
    """Lay a part out block by block, columns standardised; ``place`` rows lie in earlier parts."""
    codes = part.coded.among(scale.blocks)
    columns = part.columns
    if scale.context is not None:
        columns += tuple(values[codes] for values in scale.context.T)
    rows = arrange_columns(
        columns,
        codes,
        scale.center,
        np.where(scale.varies, scale.scale, np.inf),
        offset=part.offset,
        fit_intercept=scale.fit_intercept,
        seed=scale.seed,
        others=tuple(o.among(names) for o, names in zip(part.others, scale.others, strict=True)),
    )
    return rows.at(place)


@dataclass(frozen=True)
class Surveyed:
    """Parts with their surveys.

    Attributes
    ----------
    parts : Parts of Part
    found : tuple of Survey
        One per part.
    """

    parts: Parts
    found: tuple[Survey, ...]

    @classmethod
    def of(cls, parts: Parts) -> Surveyed:
        """Survey parts, in one pass; those without people are left out."""
        found = list(parts.stream(survey))
        held = [k for k, part in enumerate(found) if part.n_people]
        if not held:
            raise ReadError("X: must hold people, got none; check the table")
        if len(held) < len(found):
            parts, found = parts.take(held), [found[k] for k in held]
        return cls(parts, tuple(found))

    @cached_property
    def whole(self) -> Survey:
        """The survey of all people."""
        return reduce(lambda a, b: a + b, self.found)

    def design(self, scale: Scale) -> Design:
        """Return the design of all people; nothing is read until sums are asked for."""
        whole = self.whole
        size = np.array([part.n_people for part in self.found])
        place = np.concatenate([[0], np.cumsum(size)[:-1]])
        parts = self.parts.later(standardised, scale, each=[int(p) for p in place])
        numbers = len(scale.center) + 2 + len(scale.others)  # of a row
        parts = parts.settled(8 * whole.n_people * numbers)
        return Design(
            parts=parts,
            whole=parts if self._blocks_follow(whole) else None,
            start=np.concatenate([[0], np.cumsum(whole.rows)]),
            center=scale.center,
            scale=scale.scale,
            varies=scale.varies,
            fit_intercept=scale.fit_intercept,
            has_offset=whole.has_offset,
        )

    def _blocks_follow(self, whole: Survey) -> bool:
        """Tell whether each block lies in one part, and parts hold blocks in order."""
        places = [np.searchsorted(whole.blocks, part.blocks) for part in self.found]
        return bool(np.array_equal(np.concatenate(places), np.arange(len(whole.blocks))))
