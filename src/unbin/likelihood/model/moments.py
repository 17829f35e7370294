"""Expectation, derivative and covariance of the published statistics, stack by stack.

Statistics are sums over people: counts in bins and, where a mean was published, the total of the
targets (divided by a fixed unit, so that it is on the scale of a count). People are independent
given their features, so with q_i the bin probabilities of row i a crossed cell has

    m_c = Σ q_i,    D_c = ∂m_c/∂(free parameters),    S_c = diag(Σ q_i) - Σ q_i q_iᵀ

exactly, in the bins of everybody. A statistic of a table counts the people of some bins in all
cells of a block, so that moments of the blocks of any tables are sums over cells and bins
(``fold``), and so are the covariances of what tables have in common.

A row that stands for w people counts w times. If the rows are a sample of the people, w their
design weights, m_b is itself an estimate: its variance Σ w (w - 1)(q_i - q̄)(q_i - q̄)ᵀ, with q̄ the
mean of the block, is added to S_b, times k / (k - 1) where the rows are worth k of equal weights.
Of a single row there is no such variance; its block then weighs as much as one person does. Sums
over rows add over parts of the rows, wherever they are, and no array grows with n × K: rows are
looked up in a table of their law, or where that does not pay, worked on in tiles of a few thousand.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from unbin._compiling import njit
from unbin._linalg import like, namespace
from unbin._typing import BoolArray, FloatArray, Index, IntArray
from unbin.likelihood.data.layout import Stack
from unbin.likelihood.data.problem import Problem
from unbin.likelihood.model.law import Law, tabulated
from unbin.likelihood.model.order import Crossing
from unbin.rows.interpolated import Sums, table_sums
from unbin.rows.products import accumulate
from unbin.rows.rows import Rows, flat_columns, kernel

_TILE_CELLS = 1 << 15
"""Rows times bins worked on at a time: the arrays of a tile stay in the cache."""
_FEW = 3 << 17
"""Products of rows up to which NumPy sums them: compiling takes seconds."""
ALONE = 1e-9
"""1 - Σ w² / (Σ w)² of a block below which it has one row only."""

Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class Columns:
    """What derivatives are wanted beside those in the parameters.

    Attributes
    ----------
    tables : tuple of int
        In shifts of the blocks of these partitions.
    n_added : int
        In what a specification is tested for: the last columns of the sums.
    """

    tables: tuple[int, ...] = ()
    n_added: int = 0


BARE = Columns()


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of the statistics of some units of a stack, L statistics each.

    Attributes
    ----------
    units : slice
        Which units.
    mean : (U, L)
    derivative : (U, L, p)
        Last in the shifts of blocks, where these are wanted.
    shift : (U, L)
        Derivative with respect to a shift of eta common to the unit.
    covariance : (U, L, L)
    moved : (U, L) or None
        Of statistics that are expanded around the effects of groups: Σ ∂m/∂u_g û_g.
    across : (U, L, M) or None
        Covariance with the M statistics of the border.
    reached : (U, M) or None
        Derivative of these with respect to a shift of the unit.
    added : (U, L, k) or None
        Derivatives in what a specification is tested for.
    sampling : SamplingVariance or None
        What part of the covariance comes of the rows being a sample.
    """

    units: slice
    mean: Any
    derivative: Any
    shift: Any
    covariance: Any
    moved: Any = None
    across: Any = None
    reached: Any = None
    added: Any = None
    sampling: SamplingVariance | None = None


@dataclass(frozen=True, slots=True)
class SamplingVariance:
    """Covariance of expected statistics that comes of the rows being a sample.

    Attributes
    ----------
    covariance : (U, L, L)
    level, once, twice : (U,), (U, L), (U, L, L)
        Σ v, Σ v (q_i - q̄) and Σ v (q_i - q̄)(q_i - q̄)ᵀ, v = w (w - 1).
    """

    covariance: Any
    level: Any
    once: Any
    twice: Any


@dataclass(frozen=True, slots=True)
class CellSums:
    """Sums over the people of some crossed cells, in the bins of everybody.

    Attributes
    ----------
    cells : slice
    mean : (c, K)
    slopes : (c, K, w)
        Of derivatives in a shift of eta, the slopes, nuisance parameters, and what is tested for.
    covariance : (c, K, K)
    sampling : tuple of arrays
        What ``add_sampling`` adds up; empty where rows are no sample.
    values : Crossing or None
        Where published values are those expected.
    moved : (c, K) or None
        Of statistics that are expanded around the effects of groups: what these move.
    """

    cells: Index
    mean: Any
    slopes: Any
    covariance: Any
    sampling: tuple[Any, ...] = ()
    values: Crossing | None = None
    moved: Any = None

    @classmethod
    def of(cls, problem: Problem, law: Law, cells: slice, sums: tuple[Any, ...]) -> CellSums:
        """Turn sums over rows, of ``moment_sums`` or ``check_sums``, into those of cells."""
        mean, slopes, cross, *rest = sums
        sampled = problem.design.sampled
        sampling, extended = (rest[:3], rest[3:]) if sampled else ([], rest)
        n_bins = problem.grid.n_bins
        cross[:, :n_bins, n_bins:] = cross[:, n_bins:, :n_bins].swapaxes(1, 2)
        bins = np.arange(n_bins)
        cross[:, bins, bins] += mean[:, :n_bins]
        if extended:
            slopes = namespace(slopes).concatenate([slopes, *extended], 2)
        moved = None
        if problem.effects is not None and isinstance(slopes, np.ndarray):
            moved = slopes[:, :, 0] * problem.effects.shift[problem.plan.group[cells]][:, None]
            if problem.effects.bend is not None:
                moved = moved + problem.effects.bend[cells]
        return cls(cells, mean, slopes, cross, tuple(sampling), law.values, moved)

    def merged(self, problem: Problem, tables: tuple[int, ...]) -> CellSums:
        """Add up cells that are in the same blocks of some tables, where these are far fewer."""
        found = problem.merged_cells(tables)
        if found is None or self.sampling:
            return self
        code, first = found
        n, (_, size, width) = len(first), self.slopes.shape
        moved = np.zeros((n, size) if self.moved is not None else (0, 0))
        totals = np.zeros((n, size)), np.zeros((n, size, width)), np.zeros((n, size, size))
        _merge(
            code[self.cells], self.mean, self.slopes, self.covariance,
            moved[:0] if self.moved is None else self.moved, *totals, moved,
        )  # fmt: skip
        return replace(
            self,
            cells=first,
            mean=totals[0],
            slopes=totals[1],
            covariance=totals[2],
            moved=None if self.moved is None else moved,
        )


@njit(cache=True, nogil=True, error_model="numpy")
def _merge(code, mean, slopes, covariance, moved, to_mean, to_slopes, to_covariance, to_moved):  # type: ignore[no-untyped-def]
    """Add the sums of cells to those of their codes."""
    for c in range(len(code)):
        at = code[c]
        for k in range(mean.shape[1]):
            to_mean[at, k] += mean[c, k]
            for i in range(slopes.shape[2]):
                to_slopes[at, k, i] += slopes[c, k, i]
            for j in range(mean.shape[1]):
                to_covariance[at, k, j] += covariance[c, k, j]
            if len(to_moved):
                to_moved[at, k] += moved[c, k]


# -- passes over the rows --------------------------------------------------------------------------


def map_cells(
    problem: Problem,
    free: FloatArray,
    function: Callable[[CellSums], Done],
    *,
    covariance: bool = True,
) -> Iterator[Done]:
    """Yield a function of the sums of cells, those of some whole groups at a time."""
    law = tabulated(Law.of(problem, free), problem.design, free)

    def then(cells: slice, sums: tuple[Any, ...]) -> Done:
        return function(CellSums.of(problem, law, cells, sums))

    return problem.design.by_block(moment_sums, law, free, covariance, then=then)


def expected_statistics(problem: Problem, free: FloatArray) -> tuple[FloatArray, ...]:
    """Return the expected statistics of the blocks of each table, (B, L)."""
    found = [np.zeros((len(table.counts.n), table.size)) for table in problem.tables]
    for sums in map_cells(problem, free, lambda sums: sums, covariance=False):
        add_expected(problem, sums.cells, sums.mean, found)
    return tuple(found)


def add_expected(problem: Problem, cells: Index, mean: FloatArray, found: list[FloatArray]) -> None:
    """Add the expected statistics of cells to those of the blocks of each table, (B, L)."""
    for t, (table, total) in enumerate(zip(problem.tables, found, strict=True)):
        codes = problem.codes[t][cells]
        ends = (np.atleast_2d(side[t]) for side in (problem.grid.first, problem.grid.last))
        first, last = (e[cells] if len(e) > 1 else e for e in ends)
        scale = np.ones(len(codes)) if table.factor is None else table.factor[codes]
        _add(
            codes, np.zeros((len(codes), 1), np.int64), np.array([0, table.size]), first, last,
            scale[:, None], np.ascontiguousarray(mean)[:, :, None], total[:, :, None],
        )  # fmt: skip


# -- sums over rows ------------------------------------------------------------------------------


@kernel
def moment_sums(rows: Rows, law: Law, free: FloatArray, covariance: bool) -> tuple[FloatArray, ...]:
    """Return, by block, Σ q, Σ dq/d(intercept, slopes, nuisance), and -Σ q qᵀ, all over people.

    The row of a total in the last one holds the total's covariances instead. Of a sample what
    ``sampling_sums`` returns follows.
    """
    if law.table is not None:
        return looked_up(rows, law, free, covariance=covariance)[:3]
    if few_rows(rows, law):
        return sums_of_few(rows, law, free, covariance=covariance)[:3]
    d, n_blocks, size = rows.matrix.shape[1], len(rows.blocks), law.n_statistics
    theta, nuisance = law.coordinates.split(free)
    mean = np.zeros((n_blocks, size))
    slopes = np.zeros((n_blocks, size, 1 + d + law.coordinates.n_row_nuisance))
    cross = np.zeros((n_blocks, size, size))
    sampling = sampling_zeros(rows, n_blocks, size)
    for tile in rows.tiles(max(_TILE_CELLS // size, 256)):
        model = law.rows(rows, tile, theta, nuisance, covariance)
        accumulate(
            model.mean, model.d_eta, model.d_nuisance, model.extra, rows.matrix.T,
            rows.people(tile), tile.start, rows.start, mean, slopes, cross, covariance,
            law.n_bins,
        )  # fmt: skip
        if sampling:
            place = np.searchsorted(rows.blocks, rows.codes(tile))
            add_sampling(place, model.mean, rows.people(tile), *sampling)
    return mean, slopes, cross, *sampling


def few_rows(rows: Rows, law: Law) -> bool:
    """Tell whether rows are so few that compiling their sums does not pay."""
    size = law.n_statistics
    return not rows.sampled and len(rows) * size * (1 + rows.matrix.shape[1] + size) <= _FEW


def sums_of_few(
    rows: Rows, law: Law, free: FloatArray, *, covariance: bool = True, checks: bool = False
) -> Sums:
    """Return the sums of each block, of few rows; ``checks``: all of them."""
    theta, nuisance = law.coordinates.split(free)
    model = law.rows(rows, slice(0, len(rows)), theta, nuisance, covariance)
    b, size, d = len(rows.blocks), law.n_statistics, rows.matrix.shape[1]
    x = np.column_stack([np.ones(len(rows)), rows.matrix])
    by_x = rows.sums(model.d_eta[:, :, None] * x[:, None, :])
    by_nuisance = [rows.sums(each)[:, :, None] for each in model.d_nuisance]
    cross = np.zeros((b, size, size))
    if covariance:
        q = model.mean[:, : law.n_bins]
        cross[:, : law.n_bins, : law.n_bins] = -rows.sums(q[:, :, None] * q[:, None, :])
        if law.unit is not None:
            cross[:, law.n_bins] = rows.sums(model.extra)
    squares, scales = np.zeros((0, size, d)), np.zeros((0, size, d))
    if checks:
        squares = rows.sums(model.d_eta[:, :, None] * (x[:, 1:] ** 2)[:, None, :])
    if checks and len(model.d_nuisance):
        scales = rows.sums(model.d_nuisance[0][:, :, None] * x[:, None, 1:])
    slopes = np.concatenate([by_x, *by_nuisance], axis=2)
    return Sums(rows.sums(model.mean), slopes, cross, squares, scales)


def looked_up(
    rows: Rows, law: Law, free: FloatArray, *, covariance: bool = True, checks: bool = False
) -> Sums:
    """Return the sums of each block, from the table of a law; ``checks``: all of them."""
    points, b, size, d = law.table, len(rows.blocks), law.n_statistics, rows.matrix.shape[1]
    assert points is not None
    theta, m = law.coordinates.split(free)[0], law.coordinates.n_row_nuisance
    if not rows.fit_intercept:
        theta = np.concatenate([[0.0], theta])
    if law.effects is not None:
        points = points._replace(moves=points.moves[rows.blocks])
    sums = Sums(
        mean=np.zeros((b, size)),
        slopes=np.zeros((b, size, 1 + d + m)),
        cross=np.zeros((b, size, size)),
        squares=np.zeros((b if checks else 0, size, d)),
        scales=np.zeros((b if checks and m else 0, size, d)),
    )
    table_sums(
        *flat_columns(rows.matrix),
        rows.offset_or_none(),
        rows.people(),
        rows.start,
        theta,
        points,
        law.n_bins,
        covariance,
        sums,
    )
    return sums


def sampling_zeros(rows: Rows, n_blocks: int, size: int) -> tuple[FloatArray, ...]:
    """Return the arrays that ``add_sampling`` adds to; none where rows are no sample."""
    if not rows.sampled:
        return ()
    return np.zeros(n_blocks), np.zeros((n_blocks, size)), np.zeros((n_blocks, size, size))


@njit(cache=True, nogil=True)
def add_sampling(codes, q, weights, level, once, twice):  # type: ignore[no-untyped-def]
    """Add Σ v, Σ v q and Σ v q qᵀ to the sums of the blocks, v = w (w - 1).

    A weight below 1 says nothing: a person stands for himself at least.
    """
    n, size = q.shape
    for i in range(n):
        b, v = codes[i], max(weights[i] * (weights[i] - 1.0), 0.0)
        level[b] += v
        for k in range(size):
            once[b, k] += v * q[i, k]
            for j in range(size):
                twice[b, k, j] += v * q[i, k] * q[i, j]


# -- from cells to the units of a stack ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Folds:
    """How the sums of some cells become those of a stack's units.

    Attributes
    ----------
    stack : Stack
    unit : (c,)
        The unit of each cell, counted from the first one here.
    at : (c, T)
        Where the statistics of a cell's block in each table begin, -1 where it has none.
    start : (T + 1,)
        Where the statistics of each table begin among the S of a cell.
    first, last : (1, S) or (c, S)
        The bins that a statistic counts.
    single : (T,)
        Whether the statistics of a table count one bin after the other.
    scale : (c, T)
        What brings the people of a cell to those that each table counts.
    """

    stack: Stack
    unit: IntArray
    at: IntArray
    start: IntArray
    first: IntArray
    last: IntArray
    single: BoolArray
    scale: FloatArray

    @classmethod
    def of(cls, problem: Problem, stack: Stack, cells: Index, unit: IntArray) -> Folds:
        """Return how cells are added up; ``unit`` (c,) are their units, counted from 0 here."""
        grid, codes = problem.grid, problem.codes[:, cells]
        at = [stack.place(j, codes[t]) for j, t in enumerate(stack.tables)]
        scale = [np.ones(len(unit)) for _ in stack.tables]
        for j, t in enumerate(stack.tables):
            factor = problem.tables[t].factor
            if factor is not None:
                scale[j] = factor[codes[t]]
        ends = []
        for side in (grid.first, grid.last):
            each = [np.atleast_2d(side[t]) for t in stack.tables]
            each = [e[cells] if len(e) > 1 else e for e in each]
            n = max(map(len, each))
            ends.append(np.concatenate([np.broadcast_to(e, (n, e.shape[1])) for e in each], axis=1))
        first, last = ends
        start = np.cumsum([0, *stack.size])
        parts = itertools.pairwise(start)
        single = [
            bool((last - first)[:, a:b].max() == 1 and (np.diff(first[:, a:b]) == 1).all())
            for a, b in parts
        ]
        return cls(
            stack, unit, np.stack(at, axis=1), start, first, last, np.array(single),
            np.stack(scale, axis=1),
        )  # fmt: skip

    def add(self, values: FloatArray, total: FloatArray) -> None:
        """Add values (c, K, w) of cells to the statistics of units (U, L, w)."""
        values = np.ascontiguousarray(values)
        how = self.unit, self.at, self.start, self.first, self.last, self.scale
        _add(*how, values, total)

    def add_by(self, values: FloatArray, column: IntArray, total: FloatArray) -> None:
        """Add values (c, K) to statistics of units, in a column of each cell (U, L, w)."""
        _add_by(
            self.unit, self.at, self.start, self.first, self.last, self.scale, values, column,
            total,
        )  # fmt: skip

    def cross(self, other: Folds, values: FloatArray, total: FloatArray) -> None:
        """Add covariances (c, K, K) to those of units with other statistics, (U, L, M)."""
        _cross(
            self.unit, self.at, self.start, self.first, self.last, np.sqrt(self.scale), other.at,
            other.start, other.first, other.last, np.sqrt(other.scale), other.single,
            self is other, values, total,
        )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def _add(unit, at, start, first, last, scale, values, total):  # type: ignore[no-untyped-def]
    for c in range(len(unit)):
        row = c if len(first) > 1 else 0
        for t in range(len(start) - 1):
            place, factor = at[c, t] - start[t], scale[c, t]
            if at[c, t] < 0:
                continue
            for s in range(start[t], start[t + 1]):
                for j in range(first[row, s], last[row, s]):
                    for i in range(values.shape[2]):
                        total[unit[c], place + s, i] += factor * values[c, j, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_by(unit, at, start, first, last, scale, values, column, total):  # type: ignore[no-untyped-def]
    for c in range(len(unit)):
        row = c if len(first) > 1 else 0
        for t in range(len(start) - 1):
            place = at[c, t] - start[t]
            if at[c, t] < 0 or column[c] < 0:
                continue
            for s in range(start[t], start[t + 1]):
                entry = 0.0
                for j in range(first[row, s], last[row, s]):
                    entry += values[c, j]
                total[unit[c], place + s, column[c]] += scale[c, t] * entry


@njit(cache=True, nogil=True, error_model="numpy")
def _cross(  # type: ignore[no-untyped-def]
    unit, at, start, first, last, root, at_2, start_2, first_2, last_2, root_2, single, same,
    values, total,
):  # fmt: skip
    """Add covariances; of statistics with the ``same`` ones a half, which is then mirrored."""
    size = values.shape[1]
    half = np.zeros(size)
    for c in range(len(unit)):
        row = c if len(first) > 1 else 0
        row_2 = c if len(first_2) > 1 else 0
        for t in range(len(start) - 1):
            if at[c, t] < 0:
                continue
            for s in range(start[t], start[t + 1]):
                here = total[unit[c], at[c, t] + s - start[t]]
                half[:] = 0.0
                for j in range(first[row, s], last[row, s]):
                    for i in range(size):
                        half[i] += root[c, t] * values[c, j, i]
                for u in range(t if same else 0, len(start_2) - 1):
                    other, factor = at_2[c, u], root_2[c, u]
                    if other < 0:
                        continue
                    if single[u]:
                        begin = first_2[row_2, start_2[u]]
                        for k in range(start_2[u + 1] - start_2[u]):
                            here[other + k] += factor * half[begin + k]
                        continue
                    for k in range(start_2[u], start_2[u + 1]):
                        entry = 0.0
                        for i in range(first_2[row_2, k], last_2[row_2, k]):
                            entry += half[i]
                        here[other + k - start_2[u]] += factor * entry
    if same:
        for u in range(len(total)):
            for i in range(total.shape[1]):
                for j in range(i):
                    total[u, i, j] = total[u, j, i]


@dataclass(frozen=True, slots=True)
class UnitSums:
    """Sums over cells of the statistics of some units of a stack; those of other cells add.

    Attributes
    ----------
    units : (u,)
        Which units, in increasing order.
    mean : (u, L)
    slopes : (u, L, w)
        See ``CellSums``.
    covariance : (u, L, L)
    columns : (u, L, H)
        Derivatives in shifts of the blocks of other tables.
    moved : (u, L)
        Of statistics that are expanded around the effects of groups: Σ ∂m/∂u_g û_g.
    level, once, twice
        Of a sample, see ``add_sampling``; empty without one.
    """

    units: IntArray
    mean: FloatArray
    slopes: FloatArray
    covariance: FloatArray
    columns: FloatArray
    moved: FloatArray
    level: FloatArray
    once: FloatArray
    twice: FloatArray

    @classmethod
    def of(
        cls, problem: Problem, folds: Folds, units: IntArray, sums: CellSums, columns: Columns
    ) -> UnitSums:
        """Add up the sums of cells."""
        n, size, cells = len(units), folds.stack.n_statistics, sums.cells
        shift = np.ascontiguousarray(sums.slopes[:, :, 0])
        mean, slopes = np.zeros((n, size)), np.zeros((n, size, sums.slopes.shape[2]))
        covariance, moved = np.zeros((n, size, size)), np.zeros((n, size))
        folds.add(sums.mean[:, :, None], mean[:, :, None])
        folds.add(sums.slopes, slopes)
        folds.cross(folds, sums.covariance, covariance)
        if sums.moved is not None:
            folds.add(sums.moved[:, :, None], moved[:, :, None])
        each = [np.zeros((n, size, 0))]
        for t in columns.tables:
            each.append(np.zeros((n, size, problem.n_blocks[t])))
            folds.add_by(shift, problem.partitions[t][cells], each[-1])
        level, once, twice = np.zeros(0), np.zeros((0, size)), np.zeros((0, size, size))
        if sums.sampling:
            bare = replace(folds, scale=np.ones_like(folds.scale))
            level = np.bincount(folds.unit, sums.sampling[0], n).astype(np.float64)
            once, twice = np.zeros((n, size)), np.zeros((n, size, size))
            bare.add(sums.sampling[1][:, :, None], once[:, :, None])
            bare.cross(bare, sums.sampling[2], twice)
        shifts = np.concatenate(each, axis=2)
        return cls(units, mean, slopes, covariance, shifts, moved, level, once, twice)

    def __add__(self, other: UnitSums) -> UnitSums:
        units = np.union1d(self.units, other.units)
        found = []
        for name in self.__slots__[1:]:
            mine, theirs = getattr(self, name), getattr(other, name)
            if not len(mine) and not len(theirs):
                found.append(mine)
                continue
            if len(units) == len(self.units) == len(other.units):
                found.append(mine + theirs)
                continue
            total = np.zeros((len(units), *mine.shape[1:]))
            total[np.searchsorted(units, self.units)] += mine
            total[np.searchsorted(units, other.units)] += theirs
            found.append(total)
        return UnitSums(units, *found)

    def moments(self, problem: Problem, free: FloatArray, stack: Stack, n_added: int) -> Moments:
        """Return the moments of these units."""
        covariance, sampled = self.covariance, None
        if len(self.level):
            table = problem.tables[stack.tables[0]]
            people = table.counts.n[self.units].astype(np.float64)
            factor = None if table.factor is None else table.factor[self.units]
            drawn = self.level, self.once, self.twice
            sampled = sampling_variance(people, factor, self.mean, covariance, *drawn)
            covariance = covariance + sampled.covariance
        width = self.slopes.shape[2] - n_added
        derivative = _to_free(problem, free, stack, self.slopes[:, :, :width])
        return Moments(
            slice(int(self.units[0]), int(self.units[-1]) + 1),
            self.mean,
            np.concatenate([derivative, self.columns], axis=2),
            self.slopes[:, :, 0],
            covariance,
            moved=self.moved,
            added=self.slopes[:, :, width:],
            sampling=sampled,
        )


def groups_of(
    problem: Problem, free: FloatArray, sums: CellSums, columns: Columns = BARE
) -> Moments:
    """Return the moments of the groups that cells make up, with what the border asks for."""
    layout, cells, table = problem.layout, sums.cells, problem.lead
    if layout.plain and not columns.tables and table.order is None:
        return _plain(problem, free, sums, columns.n_added)
    stack, group = layout.core, problem.plan.group[cells]
    units = np.arange(group[0], group[-1] + 1)
    folds = Folds.of(problem, stack, cells, group - group[0])
    found = UnitSums.of(problem, folds, units, sums, columns)
    moments = found.moments(problem, free, stack, columns.n_added)
    if layout.border is None:
        return moments
    size = layout.border.n_statistics
    beside = Folds.of(problem, layout.border, cells, folds.unit)
    across, reached = np.zeros((len(units), stack.n_statistics, size)), np.zeros((len(units), size))
    folds.cross(beside, sums.covariance, across)
    beside.add(sums.slopes[:, :, :1], reached[:, :, None])
    return replace(moments, across=across, reached=reached)


def units_of(problem: Problem, sums: CellSums, j: int, columns: Columns = BARE) -> UnitSums:
    """Return what some cells contribute to the units of stack ``j``."""
    stack = problem.layout.stacks[j]
    sums = sums.merged(problem, (*stack.tables, *columns.tables))
    if stack.n_units == 1:
        units, unit = np.zeros(1, np.int64), np.zeros(len(sums.mean), np.int64)
    else:
        units, unit = np.unique(stack.unit[sums.cells], return_inverse=True)
    return UnitSums.of(problem, Folds.of(problem, stack, sums.cells, unit), units, sums, columns)


def _plain(problem: Problem, free: FloatArray, sums: CellSums, n_added: int) -> Moments:
    """Return the moments of the blocks of a single table; of arrays or of tensors."""
    mean, slopes, covariance, cells = sums.mean, sums.slopes, sums.covariance, sums.cells
    table, sampled = problem.lead, None
    assert isinstance(cells, slice)  # only other stacks merge cells
    if table.factor is not None:
        factor = like(mean, table.factor[cells])
        covariance = covariance * factor[:, None, None]
        mean, slopes = mean * factor[:, None], slopes * factor[:, None, None]
    if sums.sampling:
        people = table.counts.n[cells].astype(np.float64)
        own = None if table.factor is None else table.factor[cells]
        sampled = sampling_variance(people, own, mean, covariance, *sums.sampling)
        covariance = covariance + sampled.covariance
    width = slopes.shape[2] - n_added
    added, slopes = slopes[:, :, width:], slopes[:, :, :width]
    return Moments(
        cells,
        mean,
        problem.coordinates.to_free(free, slopes),
        slopes[:, :, 0],
        covariance,
        added=added,
        sampling=sampled,
    )


def _to_free(problem: Problem, free: FloatArray, stack: Stack, slopes: FloatArray) -> FloatArray:
    """Turn derivatives of the statistics of units into those in the free parameters."""
    coordinates = problem.coordinates
    if not coordinates.thresholds:
        found: FloatArray = coordinates.to_free(free, slopes)
        return found
    result = np.empty((*slopes.shape[:2], len(free)))
    for j, t in enumerate(stack.tables):
        cuts = problem.grid.last[t][:-1] - 1  # thresholds come with shared bins
        here = slopes[:, stack.first[j] : stack.first[j + 1]]
        each = here.reshape(-1, stack.size[j], here.shape[2])
        moved = coordinates.to_free(free, each, cuts)
        result[:, stack.first[j] : stack.first[j + 1]] = moved.reshape(*here.shape[:2], -1)
    return result


def sampling_variance(
    people: FloatArray,
    factor: FloatArray | None,
    mean: Any,
    cross: Any,
    level: Any,
    once: Any,
    twice: Any,
) -> SamplingVariance:
    """Turn sums of ``add_sampling`` into covariances; ``cross`` is that of people given features.

    Of arrays or of tensors.
    """
    n = like(mean, people)
    f = 1.0 if factor is None else like(mean, factor)
    average = mean / n[:, None]
    apart = once[:, :, None] * average[:, None, :]
    square = average[:, :, None] * average[:, None, :]
    twice = twice - apart - apart.swapaxes(1, 2) + level[:, None, None] * square
    once = once - level[:, None] * average
    weighed = n / f
    rest = (1 - (level + weighed) / weighed**2).clip(ALONE)  # 1 - Σ w² / (Σ w)²
    found = twice * (f**2 / rest)[:, None, None]
    alone = rest <= ALONE
    found[alone] = cross[alone] * (level * f**2 / n)[alone, None, None]
    return SamplingVariance(found, level, once, twice)
