"""The design matrix as the solvers see it: a scale of its columns, and sums over its rows.

Only engines touch the rows. Solvers ask for sums over all people (:meth:`Design.total`)
or over the people of each block (:meth:`Design.by_block`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from unbin._blocks import Span, spans_of
from unbin._compiling import njit
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.exceptions import EngineError
from unbin.families import Units
from unbin.rows.columns import ColumnSums
from unbin.rows.interpolated import BEFORE, table_products
from unbin.rows.lanes import EIGHT
from unbin.rows.layout import arrange, arrange_columns
from unbin.rows.parts import LocalParts, Parts
from unbin.rows.rows import LARGE, Predictor, Rows, flat_columns, kernel

_HUGE_BLOCK = 1 << 18
"""Rows above which a block is cut into parts, so that threads can share it."""
_TILE_ROWS = 1 << 15
"""Rows of such a part."""
_STEP = 1 / 16
"""Between points of eta at which weights are worked out: links are smooth on a scale of 1."""
_MOST_POINTS, _ROWS_PER_POINT = 1 << 15, 512
"""Points of such a table, and rows from which on it pays."""
_GRAM_ROWS = 1 << 13
"""Rows whose cross-products are formed at a time."""
_SLICE = 1 << 10
"""Blocks whose sums are finished at a time."""
_FEW_BLOCKS, _GROUP_BYTES = 1 << 8, 1 << 25
"""Blocks of a part that are few, and bytes of their sums."""

Done = TypeVar("Done")
Finish = Callable[[slice, tuple[FloatArray, ...]], Done]
"""Turns the sums of some blocks into the result."""


@dataclass(frozen=True)
class Design:
    """A design matrix whose rows lie in the parts of an engine.

    With ``theta = [intercept, slopes]`` (no first entry without an intercept),
    eta = intercept + columns @ slopes + offset, the columns divided by their spread, and centred
    when there is an intercept.

    Attributes
    ----------
    parts : Parts of Rows
    whole : Parts of Rows, or None
        Parts that hold all rows of each of their blocks, in the order of the blocks; None where
        blocks lie in several parts.
    start : (n_blocks + 1,)
        Rows of the blocks before each block.
    center, scale : (d,)
        What was subtracted from and divided out of each column.
    varies : (d,) bool
        Columns that are not constant; the others are zeros.
    fit_intercept : bool
    has_offset : bool
        Whether any row has an offset other than 0.
    rows : Rows or None
        All rows together, where they are in memory.
    order : (n,) or None
        The row of X at each place of ``rows``.
    finishing : int
        Threads that finish the sums of blocks, some blocks at a time, where parts are too few or
        too large to finish their own; 0 where each part does.
    scores_blocks : bool
        Whether parts can score their blocks themselves (``likelihood.quasi_score.score_rows``).
    weight : (B,), or None
        People that the rows of each block stand for; None where each stands for one.
    sampled : bool
        Whether the rows are a sample of the people, and their weights those of a survey.
    looks_up : bool
        Whether sums over rows may be made from a table (``likelihood.lookup``).
    group : (G + 1,), or None
        Where groups of blocks begin whose sums are finished together; None where each block is
        alone. ``whole`` then holds whole groups.
    """

    parts: Parts
    whole: Parts | None
    start: IntArray
    center: FloatArray
    scale: FloatArray
    varies: BoolArray
    fit_intercept: bool
    has_offset: bool
    rows: Rows | None = None
    order: IntArray | None = None
    finishing: int = 0
    scores_blocks: bool = False
    weight: FloatArray | None = None
    sampled: bool = False
    looks_up: bool = False
    group: IntArray | None = None

    @property
    def n_parameters(self) -> int:
        """Slopes, and the intercept if there is one."""
        return len(self.scale) + self.fit_intercept

    @property
    def n_people(self) -> int:
        """People in all blocks, to the next whole number."""
        return round(float(self.people.sum()))

    @property
    def n_rows(self) -> int:
        """Rows of all blocks."""
        return int(self.start[-1])

    @property
    def people(self) -> FloatArray:
        """People of each block: its rows, or what these stand for."""
        return self.size.astype(np.float64) if self.weight is None else self.weight

    @property
    def blocks_at_once(self) -> int:
        """Blocks whose sums are held at a time, about."""
        if self.whole is None:
            return len(self.size)
        threads = self.n_threads
        if self.rows is None:
            return min(len(self.size), threads * -(-len(self.size) // len(self.whole)))
        each = sorted((len(self.whole[k].blocks) for k in range(len(self.whole))), reverse=True)
        return int(sum(each[:threads]))

    @property
    def n_threads(self) -> int:
        """Threads that work on the parts in this process."""
        return int(getattr(self.parts, "n_threads", 1))

    @property
    def size(self) -> IntArray:
        """Rows of each block."""
        return np.diff(self.start)

    # -- sums over rows ----------------------------------------------------------------------------

    def total(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return the sum of ``function(rows, *args)`` over all parts."""
        return self.parts.total(function, *args)

    def by_block(
        self, function: Callable[..., tuple[FloatArray, ...]], *args: Any, then: Finish[Done]
    ) -> Iterator[Done]:
        """Sum arrays over the rows of each block, and yield ``then(blocks, sums)`` in order.

        Parameters
        ----------
        function : callable
            ``function(rows, *args)`` returns arrays whose first axis runs over ``rows.blocks``.
        then : callable
            Called with a slice of blocks, those of whole groups, and their arrays.
        """
        if self.whole is self.parts and self.rows is not None and self._few_blocks:
            yield from _at_once(self.parts.stream(_with_span, function, args), then)
        elif self.whole is self.parts and not self.finishing:
            yield from self.parts.stream(_finished, function, args, then)
        elif self.rows is not None:
            whole = np.arange(len(self.start)) if self.group is None else self.group
            parts = self.parts.stream(_partial, function, args, then, self.start[whole], whole)
            yield from _joined(parts, then)
        else:
            sums = self.parts.total(_block_sums, function, args)
            threads = LocalParts(self._slices(), max(self.finishing, 1))
            yield from threads.stream(_finished_slice, sums.arrays, then)

    def _slices(self) -> list[slice]:
        """Return the blocks, some whole groups at a time."""
        edges = np.arange(0, len(self.size), _SLICE)
        if self.group is not None:
            edges = np.unique(self.group[np.searchsorted(self.group, edges)])
        return [slice(int(a), int(b)) for a, b in pairwise([*edges, len(self.size)]) if a < b]

    def block_sums(self, function: Callable[..., tuple[FloatArray]], *args: Any) -> FloatArray:
        """Return one array of sums over the rows of each block."""
        if self.scores_blocks:  # sums of all blocks are small, and nothing is left to do
            found: FloatArray = self.parts.total(_block_sums, function, args).arrays[0]
            return found
        return np.concatenate(list(self.by_block(function, *args, then=lambda _, sums: sums[0])))

    @property
    def _few_blocks(self) -> bool:
        """Whether parts have so few blocks that finishing them is many small calls.

        Threads would queue up for the interpreter; one of them does it better alone.
        """
        return len(self.size) < _FEW_BLOCKS * len(self.parts)

    def whole_blocks(self, what: str) -> Parts:
        """Return parts that hold whole blocks; raise, naming what needs them, if there are none."""
        if self.whole is None:
            raise EngineError(
                f"{what}: need all people of a block in one part, got blocks in several; sort the "
                "people by block before they are cut into files or partitions"
            )
        return self.whole

    def gram(self, theta: FloatArray, weight: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return cross-products of the columns, intercept first, weighted by a function of eta."""
        table = self._table_of(theta, weight)
        if table is not None:
            found = self.total(products_at, theta, *table)
            return np.asarray(found if self.fit_intercept else found[1:, 1:])
        total = self.total(gram_sums, theta, weight)
        return np.asarray(total + np.tril(total, -1).T)

    def _table_of(
        self, theta: FloatArray, weight: Callable[[FloatArray], FloatArray]
    ) -> tuple[FloatArray, float, float] | None:
        """Return a function of eta at points, the first of them in steps, and 1 / step.

        Of a constant one point is enough. None where a table does not pay, or values are below 0.
        """
        low, high = self.reach(theta) if self.looks_up else (-np.inf, np.inf)
        most = min(_MOST_POINTS, self.n_rows // _ROWS_PER_POINT)
        if not (high - low) / _STEP <= most:
            return None
        first = np.floor(low / _STEP) - BEFORE - 1
        points = np.arange(first, np.ceil(high / _STEP) + EIGHT)
        values = weight(_STEP * points)
        if values.min() < 0:
            return None
        constant = bool((values == values[0]).all())
        return values[:1] if constant else values, float(first), 1 / _STEP

    @cached_property
    def block_means(self) -> FloatArray:
        """The mean of every column, and last of the offset, in each block; (n_blocks, d + 1)."""
        return self.block_sums(row_sums) / np.where(self.people > 0, self.people, 1.0)[:, None]

    @cached_property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """The smallest and the largest value of every column."""
        low, high = zip(*self.parts.stream(extremes), strict=True)
        return np.min(low, axis=0), np.max(high, axis=0)

    @property
    def ranges(self) -> FloatArray:
        """The distance from the smallest to the largest value of every column."""
        return self.ends[1] - self.ends[0]

    def reach(self, theta: FloatArray) -> tuple[float, float]:
        """Return what the linear predictor of a row is at least and at most.

        Infinite where nobody knows: where rows with offsets are not in memory.
        """
        if (self.has_offset and self.rows is None) or not np.isfinite(theta).all():
            return -np.inf, np.inf
        offset = np.zeros(1) if not self.has_offset else self.in_memory().offset
        level = theta[0] if self.fit_intercept else 0.0
        by_column = theta[self.fit_intercept :] * np.array(self.ends)
        low, high = by_column.min(axis=0).sum(), by_column.max(axis=0).sum()
        return float(level + low + offset.min()), float(level + high + offset.max())

    # -- units -------------------------------------------------------------------------------------

    def ridge(self, alpha: float) -> FloatArray:
        """Return the penalty weight of each entry of theta for a ridge on the original slopes."""
        return np.concatenate([np.zeros(int(self.fit_intercept)), alpha / self.scale**2])

    def to_coefficients(self, theta: FloatArray) -> tuple[FloatArray, float]:
        """Return slopes and intercept in the units of X."""
        coef = theta[self.fit_intercept :] / self.scale
        intercept = theta[0] - self.center @ coef if self.fit_intercept else 0.0
        return coef, float(intercept)

    def to_coefficient_covariance(self, covariance: FloatArray, told: BoolArray) -> FloatArray:
        """Return the covariance of (intercept, slopes) in the units of X, from that of theta.

        Without an intercept its row and column are 0. Those of slopes that are not estimable
        (``told``, (d,)) are NaN, and the intercept's with them unless their columns are constant.
        """
        d, shift = len(self.scale), int(self.fit_intercept)
        jacobian = np.zeros((1 + d, shift + d))
        jacobian[1:, shift:] = np.diag(1 / self.scale)
        if shift:
            jacobian[0, 0] = 1.0
            jacobian[0, 1:] = -self.center / self.scale
        found = jacobian @ covariance @ jacobian.T
        unknown = np.concatenate([[shift and (self.varies & ~told).any()], ~told]).astype(bool)
        found[unknown, :] = found[:, unknown] = np.nan
        return np.asarray(found)

    def from_coefficients(self, coef: FloatArray, intercept: float) -> FloatArray:
        """Return theta for slopes and an intercept in the units of X."""
        slopes = coef * self.scale
        if not self.fit_intercept:
            return slopes
        return np.concatenate([[intercept + self.center @ coef], slopes])

    def in_units(self, units: Units) -> Design:
        """Return the design of the same people for a target in other units.

        Without an intercept to take it up, the level of the linear predictor goes into the offset.
        """
        level = 0.0 if self.fit_intercept else units.level
        if level == 0 and (units.slope == 1 or not self.has_offset):
            return self
        change = (_rows_in_units, level, units.slope)
        parts, whole = self.parts.later(*change), self.whole
        if whole is not None:
            whole = parts if whole is self.parts else whole.later(*change)
        rows = None if self.rows is None else self.rows.in_units(level, units.slope)
        return replace(self, parts=parts, whole=whole, rows=rows, has_offset=True)

    # -- rows in memory ----------------------------------------------------------------------------

    def in_memory(self) -> Rows:
        """Return all rows, which must be in memory."""
        assert self.rows is not None
        return self.rows

    def eta(self, theta: FloatArray) -> FloatArray:
        """Return the linear predictor of all rows, block by block."""
        return self.predictor(theta)[:]

    def predictor(self, theta: FloatArray) -> Predictor:
        """Return the same, worked out for the rows that are asked for."""
        return Predictor(self.in_memory(), theta)

    def to_rows_of_x(self, values: FloatArray) -> FloatArray:
        """Put values of the laid-out rows back into the order of X."""
        assert self.order is not None
        result = np.empty_like(values)
        result[self.order] = values
        return result


def _rows_in_units(rows: Any, level: float, slope: float) -> Any:
    return rows.in_units(level, slope)


# -- sums every design needs; rows of another kind may have their own (see ``rows.rows.kernel``) -


@kernel
def gram_sums(
    rows: Rows, theta: FloatArray, weight: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Return the lower triangle of the weighted cross-products, the intercept's first.

    ``np.dot`` of arrays without gaps leaves the interpreter to other threads; ``@`` does not where
    its result is small.
    """
    shift = int(rows.fit_intercept)
    d = rows.matrix.shape[1]
    total = np.zeros((d + shift, d + shift))
    tiles = rows.tiles(_GRAM_ROWS)
    space = np.empty(d * (tiles[0].stop if tiles else 0))  # fresh memory would take longer
    for tile in tiles:
        part, w = rows.matrix[tile].T, rows.weighed(weight(rows.eta(theta, tile)), tile)
        left = right = space[: part.size].reshape(part.shape)
        root = np.sqrt(np.maximum(w, 0.0))
        if w.min() >= 0:  # the product of a matrix with itself takes half the time
            np.multiply(part, root, out=left)
        else:
            left[:], right, root = part, part * w, np.ones(len(w))
        total[shift:, shift:] += np.dot(left, right.T)
        if shift:
            total[1:, 0] += np.dot(right, root)
            total[0, 0] += w.sum()
    return np.tril(total)


def products_at(
    rows: Rows, theta: FloatArray, values: FloatArray, low: float, inverse: float
) -> FloatArray:
    """Return the cross-products of 1 and the columns, weighted by a function of eta in a table."""
    total = np.zeros((1 + rows.matrix.shape[1], 1 + rows.matrix.shape[1]))
    whole = theta if rows.fit_intercept else np.concatenate([[0.0], theta])
    beside = rows.offset_or_none(), rows.people()
    columns = flat_columns(rows.matrix)
    table_products(*columns, *beside, whole, values, low, inverse, len(rows), total)
    return total


@kernel
def row_sums(rows: Rows) -> tuple[FloatArray]:
    """Return the sums of the columns, and last of the offset, by block."""
    if rows.matrix.size < LARGE:
        return (np.column_stack([rows.sums(rows.matrix), rows.sums(rows.offset)]),)
    sums = np.zeros((len(rows.blocks), rows.matrix.shape[1] + 1))
    _add_columns(*flat_columns(rows.matrix), rows.offset_or_none(), rows.people(), rows.start, sums)
    return (sums,)


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _add_columns(memory, first, step, offset, weights, start, sums):  # type: ignore[no-untyped-def]
    """Add up columns, and last the offset, by block (``reduceat`` keeps other threads waiting)."""
    d = sums.shape[1] - 1
    for b in range(len(start) - 1):
        low, n = start[b], start[b + 1] - start[b]
        for j in range(d + (len(offset) > 0)):
            values = memory[first + j * step + low :] if j < d else offset[low:]
            total = 0.0
            if len(weights):
                for i in range(n):
                    total += weights[low + i] * values[i]
            else:
                for i in range(n):
                    total += values[i]
            sums[b, j] = total


@kernel
def extremes(rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and the largest value of every column."""
    return rows.matrix.min(axis=0), rows.matrix.max(axis=0)


# -- putting sums of blocks together -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BlockSums:
    """Arrays whose first axis runs over ``blocks``."""

    blocks: IntArray
    arrays: tuple[FloatArray, ...]

    def done(self, then: Finish[Done]) -> Done:
        """Finish them; the blocks follow each other."""
        return then(slice(int(self.blocks[0]), int(self.blocks[-1]) + 1), self.arrays)

    def __add__(self, other: BlockSums) -> BlockSums:
        if np.array_equal(self.blocks, other.blocks):
            pairs = zip(self.arrays, other.arrays, strict=True)
            return BlockSums(self.blocks, tuple(mine + theirs for mine, theirs in pairs))
        if len(self.blocks) and len(other.blocks) and self.blocks[-1] < other.blocks[0]:
            pairs = zip(self.arrays, other.arrays, strict=True)
            joined = tuple(np.concatenate([mine, theirs]) for mine, theirs in pairs)
            return BlockSums(np.concatenate([self.blocks, other.blocks]), joined)
        blocks = np.union1d(self.blocks, other.blocks)
        arrays = tuple(
            np.zeros((len(blocks), *array.shape[1:]), array.dtype) for array in self.arrays
        )
        for sums in (self, other):
            place = np.searchsorted(blocks, sums.blocks)
            for total, array in zip(arrays, sums.arrays, strict=True):
                total[place] += array
        return BlockSums(blocks, arrays)


def _block_sums(
    rows: Rows, function: Callable[..., tuple[FloatArray, ...]], args: tuple[Any, ...]
) -> BlockSums:
    return BlockSums(rows.blocks, function(rows, *args))


def _finished(
    rows: Rows,
    function: Callable[..., tuple[FloatArray, ...]],
    args: tuple[Any, ...],
    then: Finish[Done],
) -> Done:
    return then(rows.span, function(rows, *args))


def _with_span(
    rows: Rows, function: Callable[..., tuple[FloatArray, ...]], args: tuple[Any, ...]
) -> tuple[slice, tuple[FloatArray, ...]]:
    return rows.span, function(rows, *args)


def _at_once(
    results: Iterator[tuple[slice, tuple[FloatArray, ...]]], then: Finish[Done]
) -> Iterator[Done]:
    """Finish the blocks of several parts together, as long as they are few.

    Other threads work on the parts that follow meanwhile.
    """
    held: list[tuple[slice, tuple[FloatArray, ...]]] = []
    n_bytes = 0
    for result in results:
        held.append(result)
        n_bytes += sum(array.nbytes for array in result[1])
        if held[-1][0].stop - held[0][0].start >= _FEW_BLOCKS or n_bytes >= _GROUP_BYTES:
            yield _together(held, then)
            held, n_bytes = [], 0
    if held:
        yield _together(held, then)


def _together(held: list[tuple[slice, tuple[FloatArray, ...]]], then: Finish[Done]) -> Done:
    if len(held) == 1:
        return then(*held[0])
    arrays = zip(*(sums for _, sums in held), strict=True)
    blocks = slice(held[0][0].start, held[-1][0].stop)
    return then(blocks, tuple(np.concatenate(each) for each in arrays))


def _finished_slice(blocks: slice, sums: tuple[FloatArray, ...], then: Finish[Done]) -> Done:
    return then(blocks, tuple(array[blocks] for array in sums))


def _partial(
    rows: Rows,
    function: Callable[..., tuple[FloatArray, ...]],
    args: tuple[Any, ...],
    then: Finish[Done],
    start: IntArray,
    group: IntArray,
) -> tuple[int, Any]:
    """Finish the sums of whole groups; leave those of a part of a group for ``_joined``.

    Groups begin at the rows ``start`` and at the blocks ``group``. Returns which group it is a part
    of, -1 for whole groups.
    """
    sums = function(rows, *args)
    first, end = (np.searchsorted(group, rows.blocks[0], side="right") - 1, rows.blocks[-1] + 1)
    last = np.searchsorted(group, end)
    if len(rows) == start[last] - start[first]:
        return -1, then(rows.span, sums)
    return int(first), BlockSums(rows.blocks, sums)


def _joined(results: Iterator[tuple[int, Any]], then: Finish[Done]) -> Iterator[Done]:
    """Add up the sums of parts of the same group, which follow each other."""
    held: tuple[int, BlockSums] | None = None
    for group, result in results:
        if held is not None and group == held[0]:
            held = group, held[1] + result
            continue
        if held is not None:
            yield held[1].done(then)
        held = None if group < 0 else (group, result)
        if group < 0:
            yield result
    if held is not None:
        yield held[1].done(then)


# -- laying rows out in memory -------------------------------------------------------------------


def lay_out(
    X: FloatArray,
    codes: IntArray,
    n_blocks: int,
    *,
    offset: FloatArray | None = None,
    fit_intercept: bool = True,
    seed: int = 0,
    n_threads: int = 1,
    others: tuple[IntArray, ...] = (),
    weights: FloatArray | None = None,
    sampled: bool = False,
    everybody: FloatArray | None = None,
    hashed: FloatArray | None = None,
    sums: ColumnSums | None = None,
    group: IntArray | None = None,
) -> Design:
    """Copy X once, block by block.

    Parameters
    ----------
    X : (n, d)
    codes : (n,)
        Block of each row, from 0 to ``n_blocks - 1``; every block has rows.
    n_blocks : int
    offset : (n,), optional
    fit_intercept : bool
    seed : int
        Changes how ties are broken.
    n_threads : int
        Threads that work on the rows.
    others : tuple of (n,)
        The block of each row in further partitions.
    weights, sampled
        See :class:`unbin.rows.rows.Rows`.
    everybody : (n,), optional
        Weights by which columns are standardised, if not ``weights``: those of people whose outcome
        is known included.
    hashed : (n, e), optional
        What keys are made from, if not X: the features that differ within blocks.
    sums : ColumnSums, optional
        Of the columns of X, if somebody has them already.
    group : (G + 1,), optional
        See :class:`Design`.
    """
    rows, order, standard = arrange(
        X,
        codes,
        offset=offset,
        fit_intercept=fit_intercept,
        seed=seed,
        n_threads=n_threads,
        others=others,
        weights=weights,
        sampled=sampled,
        everybody=everybody,
        hashed=hashed,
        sums=sums,
    )
    assert len(X) == 0 or rows.blocks[-1] < n_blocks
    center, scale, varies = standard.center, standard.scale, standard.varies
    return over_rows(rows, center, scale, varies, n_threads=n_threads, order=order, group=group)


def over_rows(
    rows: Rows,
    center: FloatArray,
    scale: FloatArray,
    varies: BoolArray,
    *,
    n_threads: int = 1,
    order: IntArray | None = None,
    group: IntArray | None = None,
) -> Design:
    """Return the design of rows that are in memory and standardised."""
    start = rows.start if group is None else rows.start[group]
    spans = spans_of(start)
    if group is not None:
        spans = tuple(replace(c, first=int(group[c.first]), last=int(group[c.last])) for c in spans)
    whole = LocalParts([rows.take(c.first, c.last, c.rows) for c in spans], n_threads)
    parts = whole
    if np.diff(start).max(initial=0) > _HUGE_BLOCK:
        cut = [_taken(rows, c, part) for c in spans for part in _cut(c.rows)]
        parts = LocalParts(cut, n_threads)
    return Design(
        parts=parts,
        whole=whole,
        start=rows.start,
        center=center,
        scale=scale,
        varies=varies,
        fit_intercept=rows.fit_intercept,
        has_offset=bool(rows.offset_or_none().any()),
        rows=rows,
        order=order,
        weight=None if rows.weights is None else rows.sums(np.ones(len(rows))),
        sampled=rows.sampled,
        looks_up=True,
        group=group,
    )


def _taken(rows: Rows, span: Span, part: slice) -> Rows:
    """Return some rows of a span, with the blocks that have any of them."""
    first = int(np.searchsorted(rows.start, part.start, side="right")) - 1
    last = int(np.searchsorted(rows.start, part.stop, side="left"))
    return rows.take(max(first, span.first), min(last, span.last), part)


def alone(
    design: Design,
    columns: Sequence[FloatArray],
    offset: FloatArray | None,
    people: FloatArray,
) -> Design:
    """Return rows each of which is a block, scaled as the rows of another design.

    ``columns`` are d arrays of shape (m,); ``people`` (m,) are those that the rows stand for.
    """
    rows = arrange_columns(
        columns,
        np.arange(len(people)),
        design.center,
        np.where(design.varies, design.scale, np.inf),
        offset=offset,
        fit_intercept=design.fit_intercept,
        weights=None if (people == 1).all() else people,
    )
    return over_rows(rows, design.center, design.scale, design.varies)


def with_rows(design: Design, **changes: Any) -> Design:
    """Return a design with the same scale and changed rows (see ``Rows``)."""
    rows = replace(design.in_memory(), **changes)
    same = design.center, design.scale, design.varies
    return over_rows(
        rows, *same, n_threads=design.n_threads, order=design.order, group=design.group
    )


def _cut(rows: slice) -> list[slice]:
    """Return the rows of a span, in parts if it is a huge block."""
    if rows.stop - rows.start <= _HUGE_BLOCK:
        return [rows]
    lows = range(rows.start, rows.stop, _TILE_ROWS)
    return [slice(low, min(low + _TILE_ROWS, rows.stop)) for low in lows]
