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
class Part:
    """Some people, as they were read.

    Attributes
    ----------
    columns : d arrays of shape (n,)
    blocks : (b,) text, sorted
        The distinct blocks of these people.
    codes : (n,)
        The block of each row, as a position in ``blocks``.
    offset : (n,) or None
    """

    columns: tuple[FloatArray, ...]
    blocks: TextArray
    codes: IntArray
    offset: FloatArray | None


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
    """

    blocks: TextArray
    rows: IntArray
    sums: FloatArray
    shift: FloatArray
    mean: FloatArray
    square: FloatArray
    has_offset: bool

    def __add__(self, other: Survey) -> Survey:
        blocks = np.union1d(self.blocks, other.blocks)
        rows, sums = np.zeros(len(blocks), np.int64), np.zeros((len(blocks), len(self.mean)))
        for part in (self, other):
            place = np.searchsorted(blocks, part.blocks)
            rows[place] += part.rows
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
        )

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
    d = len(part.columns)
    size = np.bincount(part.codes, minlength=len(part.blocks))
    mean = np.array([values.mean() if len(values) else 0.0 for values in part.columns])
    sums, square = np.empty((len(part.blocks), d)), np.empty(d)
    for j, values in enumerate(part.columns):
        away = values - mean[j]
        square[j] = away @ away
        sums[:, j] = np.bincount(part.codes, weights=away, minlength=len(part.blocks))
    has_offset = part.offset is not None and bool(part.offset.any())
    return Survey(part.blocks, size, sums, mean, mean, square, has_offset)


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
    """

    blocks: TextArray
    context: FloatArray | None
    center: FloatArray
    scale: FloatArray
    varies: BoolArray
    fit_intercept: bool
    seed: int


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
    return Scale(found.blocks, columns, center, scale, varies, fit_intercept, seed)


def standardised(part: Part, scale: Scale, place: int) -> Rows:
    """Lay a part out block by block, columns standardised; ``place`` rows lie in earlier parts."""
    codes = np.searchsorted(scale.blocks, part.blocks)[part.codes]
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
        parts = parts.settled(8 * whole.n_people * (len(scale.center) + 2))
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
