"""Several tables of the same people: their quasi-scores added.

Tables t = 1 … T cut the same people in different ways, g_t(i) the block of person i in table t.
With m_g, D_g and S_g the moments of a block's statistics and W_g = S_g⁻¹ D_g,

    U = Σ_t Σ_g W_gᵀ (c_g - m_g),    H = Σ_t Σ_g W_gᵀ D_g.

Its variance is that of people counted several times: see :mod:`unbin.likelihood.joint_variance`.

q_i is averaged over the random intercepts, unless the average is of the family itself
(``Family.absorbs_effects``): coefficients of outcomes of two values and of ordinal ones are those
of the population, as a GLM that saw everybody would have them.

An effect of a block b of another partition s moves all of its people together, which adds
τ_s² Σ_b e_gb e_gbᵀ, e_gb = Σ_{i in g and b} ∂q_i/∂eta, to the covariance of table t's counts.
Misfit and pulls allow for it. The weights W_g do not: they would weigh down what all blocks of a
small table share, and with it their contrasts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from unbin._blocks import block_of_rows
from unbin._compiling import njit
from unbin._typing import FloatArray, IntArray
from unbin.families import Family
from unbin.likelihood.counts import PublishedCounts
from unbin.likelihood.known import KnownPeople, KnownSums, known_problem, known_sums
from unbin.likelihood.law import Law, RowModel
from unbin.likelihood.moments import BlockMoments, add_sampling, finish, sampling_zeros
from unbin.likelihood.problem import Problem, make_problem
from unbin.likelihood.quasi_score import (
    ScoreSums,
    corrected,
    evidence,
    log_score,
    sampled_blocks,
    summed,
    weigh_blocks,
)
from unbin.likelihood.sampling import Sampled, correct, tiles_of
from unbin.likelihood.statistics import bins_between
from unbin.release import Release
from unbin.release.orders import orders_as_bins
from unbin.rows.design import BlockSums, Design
from unbin.rows.products import accumulate
from unbin.rows.rows import Rows, kernel

_TILE_CELLS = 1 << 15
_MOST_CELLS = 64
"""Cells up to which sums by block of several tables are made of those by crossed cell."""


@dataclass(frozen=True, slots=True)
class View:
    """How a table sees the bins of a law.

    Attributes
    ----------
    law : Law
        Of the common refinement, or of the table's own bins where these differ between blocks.
    bins : (K,) or None
        The table's bin that holds each refined one; None where the law has the table's own bins.
    total : bool
        Whether the table has means.
    """

    law: Law
    bins: IntArray | None
    total: bool

    @property
    def n_bins(self) -> int:
        """Bins of the table."""
        return self.law.n_bins if self.bins is None else int(self.bins[-1]) + 1

    @property
    def n_statistics(self) -> int:
        """Bins of the table, and the total if it has means."""
        return self.n_bins + self.total

    def sees_as(self, other: View) -> bool:
        """Tell whether another table has the same statistics."""
        if self.bins is None or other.bins is None or self.total != other.total:
            return False
        return np.array_equal(self.bins, other.bins)

    def of(self, values: FloatArray) -> FloatArray:
        """Add up values of the law's statistics, the last axis, to those of the table."""
        if self.bins is None or values.size == 0:
            return values
        k = self.law.n_bins
        found = values[..., :k]
        if self.n_bins < k:
            starts = np.flatnonzero(np.diff(self.bins, prepend=-1))
            found = np.add.reduceat(found, starts, axis=-1)
        if self.total:
            found = np.concatenate([found, values[..., k:]], axis=-1)
        return found


@dataclass(frozen=True, slots=True)
class JointProblem:
    """Several tables of the rows of one design.

    Attributes
    ----------
    tables : tuple of Problem
        One per partition, first that by which the rows are laid out, then in the order of
        ``Rows.others``; all with the design of everybody.
    lower, upper : (K,)
        The common refinement of the bins that tables share among their blocks.
    people : KnownPeople or None
        Those whose outcome is known.
    known : Problem or None
        Their outcomes as a table.
    """

    tables: tuple[Problem, ...]
    lower: FloatArray
    upper: FloatArray
    people: KnownPeople | None = None
    known: Problem | None = None

    @property
    def first(self) -> Problem:
        """The table by whose blocks the rows are laid out."""
        return self.tables[0]

    @property
    def law(self) -> Law:
        """The distribution of a row over the refined bins."""
        units = [table.means.unit for table in self.tables if table.means is not None]
        first = self.first
        variance = sum(table.block_variance for table in self.tables)
        variance = 0.0 if first.family.absorbs_effects else variance
        unit = units[0] if units else None
        ends = self.lower, self.upper
        return Law(first.family, first.coordinates, *ends, unit, variance)

    def views(self) -> tuple[View, ...]:
        """Return how each table sees the bins."""
        law, found = self.law, []
        for table in self.tables:
            counts, total = table.counts, table.means is not None
            if counts.shared:
                bins = np.searchsorted(counts.upper[:-1], self.upper)
                found.append(View(law, bins, total))
            else:
                unit = law.unit if total else None
                own = replace(law, lower=counts.lower, upper=counts.upper, unit=unit)
                found.append(View(own, None, total))
        return tuple(found)

    def with_counts(self, counts: Sequence[PublishedCounts]) -> JointProblem:
        """Return the problem with other counts of each table."""
        pairs = zip(self.tables, counts, strict=True)
        return joined([replace(table, counts=each) for table, each in pairs], self.people)

    def with_effects(
        self, variance: Sequence[float], shared: Sequence[FloatArray | None]
    ) -> JointProblem:
        """Return the problem with random block intercepts of these variances, table by table.

        ``shared``: the covariance that the intercepts of other tables add to each.
        """
        found = zip(self.tables, variance, shared, strict=True)
        tables = tuple(replace(t, block_variance=v, shared=s) for t, v, s in found)
        return replace(self, tables=tables)


def make_joint(
    design: Design,
    releases: Sequence[Release],
    family: Family,
    people: KnownPeople | None = None,
) -> JointProblem:
    """Combine rows, the releases of all partitions, people who are known, and a family.

    Order statistics are read as counts of people between them: to first order their distribution
    is the same (Bahadur's representation), and people can be counted in several tables at once.
    """
    counted = enumerate(map(orders_as_bins, releases))
    return joined([make_problem(design, release, family, t) for t, release in counted], people)


def joined(alone: Sequence[Problem], people: KnownPeople | None = None) -> JointProblem:
    """Combine the problems of several tables of the rows of one design, and known people."""
    first = alone[0]
    shared = [table.counts for table in alone if table.counts.shared]
    cuts = np.unique(np.concatenate([np.zeros(0), *(counts.upper[:-1] for counts in shared)]))
    lower, upper = bins_between(cuts, first.family.domain)
    coordinates = first.family.coordinates(
        first.design.n_parameters, len(lower), fit_intercept=first.design.fit_intercept
    )
    unit = next((table.means.unit for table in alone if table.means is not None), 1.0)
    tables = tuple(
        replace(
            table,
            coordinates=coordinates,
            means=None if table.means is None else replace(table.means, unit=unit),
            cuts=np.searchsorted(cuts, table.counts.upper[:-1])
            if coordinates.thresholds and table.counts.shared
            else None,
        )
        for table in alone
    )
    known = None
    if people is not None:
        known = known_problem(people, first.family, coordinates, (lower, upper))
    return JointProblem(tables, lower, upper, people, known)


# -- scores ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JointSums:
    """Sums over the blocks of all tables.

    Attributes
    ----------
    score : (p,)
        The penalised quasi-score U.
    information : (p, p)
        H, without the ridge.
    tables : tuple of ScoreSums
    moments : tuple of BlockMoments
        Of each table's blocks.
    spared : (p, p)
        What ``information`` holds only because hidden counts never take all of it.
    known : KnownSums or None
        What people whose outcome is known add to the first two.
    """

    score: FloatArray
    information: FloatArray
    tables: tuple[ScoreSums, ...]
    moments: tuple[BlockMoments, ...]
    spared: FloatArray
    known: KnownSums | None = None

    @property
    def misfit(self) -> float:
        """The misfit Q of all tables."""
        return float(sum(sums.block_misfit.sum() for sums in self.tables))

    @property
    def df(self) -> float:
        """Expectation of the misfit at the true parameters."""
        return float(sum(sums.block_df.sum() for sums in self.tables))

    @property
    def spread(self) -> float:
        """The smallest share of the multinomial variance that any table has."""
        return min(sums.spread for sums in self.tables)


def joint_sums(problem: JointProblem, free: FloatArray, penalty: FloatArray) -> JointSums:
    """Return the added quasi-scores of all tables in one pass over the rows."""
    pulled, spared = np.zeros(len(free)), np.zeros((len(free), len(free)))
    moments, found = _moments(problem, free), []
    said_of = [
        evidence(table, replace(part, covariance=part.covariance.copy()))
        for table, part in zip(problem.tables, moments, strict=True)
    ]
    sampled = _corrections(problem, moments, free) if problem.first.design.sampled else None
    for t, (table, said) in enumerate(zip(problem.tables, said_of, strict=True)):
        weighed = weigh_blocks(table, said)
        sums = summed([weighed], pulled)
        spared += sums.information - (weighed.information - weighed.lost)
        if table.shared is not None:
            judged = weigh_blocks(table, replace(said, covariance=said.covariance + table.shared))
            sums = replace(
                sums,
                block_misfit=judged.misfit,
                block_df=judged.df,
                block_pull=judged.pull,
                block_hold=judged.hold,
                block_hidden=judged.hidden,
                block_along=judged.along,
            )
        found.append(sums if sampled is None else corrected(sums, *sampled[t]))
    score = reduce(np.add, [sums.score for sums in found]) - penalty * free
    information = reduce(np.add, [sums.information for sums in found])
    known = None
    if problem.known is not None:
        known = known_sums(problem.known, problem.law, free)
        score, information = score + known.score, information + known.information
    return JointSums(score, information, tuple(found), moments, spared, known)


def _corrections(
    problem: JointProblem, moments: Sequence[BlockMoments], free: FloatArray
) -> list[tuple[FloatArray, FloatArray]]:
    """Return, per table, the corrections of score and information where rows are a sample."""
    pairs = zip(problem.tables, moments, strict=True)
    blocks = tuple(sampled_blocks(table, own) for table, own in pairs)
    cuts = tuple(table.cuts for table in problem.tables)
    scores, taken = problem.first.design.total(joint_sampled, problem.views(), free, blocks, cuts)
    return [(own.arrays[0], taken[t]) for t, own in enumerate(scores)]


@kernel
def joint_sampled(
    rows: Rows,
    views: tuple[View, ...],
    free: FloatArray,
    blocks: tuple[Sampled, ...],
    cuts: tuple[IntArray | None, ...],
) -> tuple[tuple[BlockSums, ...], FloatArray]:
    """Return, per table, what ``sampled_rows`` does."""
    partitions, p = partitions_of(rows), len(free)
    scores = [np.zeros((len(names), p)) for names, _ in partitions]
    taken, coordinates = np.zeros((len(views), p, p)), views[0].law.coordinates
    for tile in tiles_of(rows, max(view.law.n_statistics for view in views), p):
        models = _models(rows, views, partitions, tile, free, True)
        x, people = rows.matrix[tile], rows.people(tile)
        for t, (names, place) in enumerate(partitions):
            code = names[place[tile]]
            own, less = correct(models[t], x, people, code, blocks[t], coordinates, free, cuts[t])
            add_to(place[tile], own, scores[t])
            taken[t] += less
    found = zip(partitions, scores, strict=True)
    return tuple(BlockSums(names, (score,)) for (names, _), score in found), taken


def joint_log_score(problem: JointProblem, sums: JointSums) -> float:
    """Return Σ c log(m / n) over the cells of all tables, per person and table."""
    people = [int(table.counts.n[table.counts.known].sum()) for table in problem.tables]
    pairs = zip(problem.tables, sums.tables, people, strict=True)
    total = sum(n * log_score(table, own) for table, own, n in pairs if n)
    return total / max(sum(people), 1)


def _moments(problem: JointProblem, free: FloatArray) -> tuple[BlockMoments, ...]:
    sums = problem.first.design.total(joint_moment_sums, problem.views(), free)
    return tuple(
        finish(table, free, slice(0, len(table.counts.n)), own.arrays, True)
        for table, own in zip(problem.tables, sums, strict=True)
    )


def _models(
    rows: Rows,
    views: Sequence[View],
    partitions: Sequence[tuple[IntArray, IntArray]],
    tile: slice,
    free: FloatArray,
    covariance: bool,
) -> list[RowModel]:
    """Return the model of a tile as each table sees it; tables of one law share it."""
    theta, nuisance = views[0].law.coordinates.split(free)
    eta = rows.eta(theta, tile)
    made: dict[int, RowModel] = {}
    found = []
    for view, (blocks, place) in zip(views, partitions, strict=True):
        law = view.law
        if id(law) not in made:
            lower, upper = law.lower, law.upper
            if lower.ndim == 2:
                codes = blocks[place[tile]]
                lower, upper = lower[codes], upper[codes]
            made[id(law)] = law.at(eta, lower, upper, nuisance, covariance)
        model = made[id(law)]
        parts = (model.mean, model.d_eta, model.d_nuisance, model.extra)
        found.append(RowModel(*(view.of(values) for values in parts)))
    return found


def partitions_of(rows: Rows) -> list[tuple[IntArray, IntArray]]:
    """Return, per table, blocks that may have rows here and the place of each row's among them."""
    return [(rows.blocks, block_of_rows(rows.start)), *(_places(codes) for codes in rows.others)]


def _places(codes: IntArray) -> tuple[IntArray, IntArray]:
    """Return the blocks, all up to the last where they are few, and the place of each row's."""
    n_blocks = int(codes.max(initial=-1)) + 1
    if n_blocks <= len(codes):
        return np.arange(n_blocks), codes
    blocks, place = np.unique(codes, return_inverse=True)
    return blocks, place


@kernel
def joint_moment_sums(
    rows: Rows, views: tuple[View, ...], free: FloatArray
) -> tuple[BlockSums, ...]:
    """Return, per table and block, what ``moment_sums`` does, from one model of every row."""
    partitions = partitions_of(rows)
    width = 1 + rows.matrix.shape[1] + views[0].law.coordinates.n_row_nuisance
    crossings = _crossings(views, partitions)
    totals = []
    for crossing in crossings:
        b, k = crossing.n_cells, views[crossing.tables[0]].n_statistics
        totals.append((np.zeros((b, k)), np.zeros((b, k, width)), np.zeros((b, k, k))))
    size = max(view.law.n_statistics for view in views)
    sampling = [
        sampling_zeros(rows, len(blocks), view.n_statistics)
        for (blocks, _), view in zip(partitions, views, strict=True)
    ]
    for tile in rows.tiles(max(_TILE_CELLS // size, 256)):
        models = _models(rows, views, partitions, tile, free, True)
        columns, people = rows.matrix[tile].T, rows.people(tile)
        if rows.sampled:
            for model, (_, place), sums in zip(models, partitions, sampling, strict=True):
                add_sampling(place[tile], model.mean, people, *sums)
        for crossing, sums in zip(crossings, totals, strict=True):
            first = crossing.tables[0]
            view, model = views[first], models[first]
            parts = (model.mean, model.d_eta, model.d_nuisance, model.extra)
            if first == 0:
                columns_of = rows.matrix.T, people, tile.start, rows.start
                accumulate(*parts, *columns_of, *sums, True, view.n_bins)
            else:
                cells = crossing.cells([partitions[t][1][tile] for t in crossing.tables])
                add_rows(cells, *parts, columns, people, *sums, view.n_bins)
    pairs = zip(crossings, totals, strict=True)
    each = [own for crossing, sums in pairs for own in crossing.by_table(sums)]
    found = zip(partitions, each, sampling, strict=True)
    return tuple(BlockSums(blocks, own + sums) for (blocks, _), own, sums in found)


@dataclass(frozen=True, slots=True)
class _Crossing:
    """Neighbouring tables whose sums are made of those of their crossed cells.

    Attributes
    ----------
    tables : tuple of int
    size : tuple of int
        Blocks of each.
    """

    tables: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def n_cells(self) -> int:
        return math.prod(self.size)

    def cells(self, places: Sequence[IntArray]) -> IntArray:
        """Return the cell of each row, from its places among the blocks of each table."""
        found = places[0]
        for size, place in zip(self.size[1:], places[1:], strict=True):
            found = found * size + place
        return found

    def by_table(self, sums: tuple[FloatArray, ...]) -> list[tuple[FloatArray, ...]]:
        """Return the sums by block of each table, from those by cell."""
        found = []
        for t in range(len(self.size)):
            others = tuple(s for s in range(len(self.size)) if s != t)
            cells = (each.reshape(*self.size, *each.shape[1:]) for each in sums)
            found.append(tuple(each.sum(axis=others) for each in cells))
        return found


def _crossings(
    views: Sequence[View], partitions: Sequence[tuple[IntArray, IntArray]]
) -> list[_Crossing]:
    """Put neighbouring tables of the same bins together as long as their cells are few.

    The first is alone: its blocks are those by which rows are laid out.
    """
    found = [_Crossing((0,), (len(partitions[0][0]),))]
    for t in range(1, len(views)):
        last, size = found[-1], len(partitions[t][0])
        alike = last.tables[0] > 0 and views[t].sees_as(views[last.tables[0]])
        if alike and last.n_cells * size <= _MOST_CELLS:
            found[-1] = _Crossing((*last.tables, t), (*last.size, size))
        else:
            found.append(_Crossing((t,), (size,)))
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def add_rows(  # type: ignore[no-untyped-def]
    codes, q, d_eta, d_nuisance, extra, columns, weights, mean, slopes, cross, n_bins
):
    """Add rows to the sums of their blocks, in whatever order they come; see ``accumulate``."""
    n, size = q.shape
    m = d_nuisance.shape[0]
    start = np.zeros(len(mean) + 1, np.int64)
    for i in range(n):
        start[codes[i] + 1] += 1
    for b in range(len(mean)):
        start[b + 1] += start[b]
    place, order = start[:-1].copy(), np.empty(n, np.int64)
    for i in range(n):
        order[place[codes[i]]] = i
        place[codes[i]] += 1
    level, slope = np.empty((size, n)), np.empty((size, n))
    moved, x = np.empty((m, size, n)), np.empty((len(columns), n))
    further = np.empty((len(extra), extra.shape[1]))
    for k in range(size):
        _gather(q[:, k], order, level[k])
        _gather(d_eta[:, k], order, slope[k])
        for j in range(m):
            _gather(d_nuisance[j, :, k], order, moved[j, k])
        if size > n_bins:
            _gather(extra[:, k], order, further[:, k])
    for j in range(len(columns)):
        _gather(columns[j], order, x[j])
    people = np.empty(len(weights))
    if len(weights):
        _gather(weights, order, people)
    accumulate(
        level.T, slope.T, moved.transpose(0, 2, 1), further, x, people, 0, start, mean, slopes,
        cross, True, n_bins,
    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(values, order, out):  # type: ignore[no-untyped-def]
    """Write values in another order."""
    for i in range(len(order)):
        out[i] = values[order[i]]


# -- random intercepts of other partitions ---------------------------------------------------------


def shared_covariance(
    problem: JointProblem, free: FloatArray, variance: Sequence[float]
) -> list[FloatArray | None]:
    """Return Σ_s τ_s² Σ_b e_gb e_gbᵀ of each table's blocks, s the partitions of other tables."""
    tables = problem.tables
    found: list[FloatArray | None] = [None] * len(tables)
    for s, one in enumerate(variance):
        if one <= 0:
            continue
        views, width = problem.views(), len(tables[s].counts.n)
        cells = problem.first.design.total(shift_cells, views, free, s, width)
        for t, table in enumerate(tables):
            if t == s:
                continue
            e, block = cells[t].arrays[0], cells[t].blocks // width
            e = e if table.factor is None else e * table.factor[block, None]
            size = (len(table.counts.n), e.shape[1], e.shape[1])
            total = np.zeros(size)
            add_squares(block, e, one, total)
            found[t] = total if found[t] is None else found[t] + total
    return found


@kernel
def shift_cells(
    rows: Rows, views: tuple[View, ...], free: FloatArray, s: int, width: int
) -> tuple[BlockSums, ...]:
    """Return Σ ∂q/∂eta by block of each table and of table ``s``, as one code of the two."""
    partitions = partitions_of(rows)
    by_s = partitions[s][0][partitions[s][1]]
    pairs = [
        np.unique(blocks[place] * width + by_s, return_inverse=True) for blocks, place in partitions
    ]
    sums = [
        np.zeros((len(cells), view.n_statistics))
        for (cells, _), view in zip(pairs, views, strict=True)
    ]
    size = max(view.law.n_statistics for view in views)
    for tile in rows.tiles(max(_TILE_CELLS // size, 256)):
        models = _models(rows, views, partitions, tile, free, False)
        for model, (_, place), total in zip(models, pairs, sums, strict=True):
            add_to(place[tile], rows.weighed(model.d_eta, tile), total)
    return tuple(BlockSums(cells, (total,)) for (cells, _), total in zip(pairs, sums, strict=True))


@njit(cache=True, nogil=True)
def add_to(codes, values, total):  # type: ignore[no-untyped-def]
    """Add values of rows to the totals of their codes."""
    for i in range(len(codes)):
        for k in range(values.shape[1]):
            total[codes[i], k] += values[i, k]


@njit(cache=True, nogil=True)
def add_squares(codes, values, weight, total):  # type: ignore[no-untyped-def]
    """Add weight · v vᵀ to the totals of their codes."""
    for i in range(len(codes)):
        for k in range(values.shape[1]):
            for j in range(values.shape[1]):
                total[codes[i], k, j] += weight * values[i, k] * values[i, j]
