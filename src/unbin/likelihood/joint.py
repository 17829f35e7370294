"""Several tables of the same people: their quasi-scores added, with the covariance people make.

Tables t = 1 … T cut the same people in different ways, g_t(i) the block of person i in table t.
With m_g, D_g and S_g the moments of a block's statistics and W_g = S_g⁻¹ D_g,

    U = Σ_t Σ_g W_gᵀ (c_g - m_g),    H = Σ_t Σ_g W_gᵀ D_g.

The tables count the same people, so the variance of U is not H: with A_i = Σ_t W_{g_t(i)} on the
common refinement of all bins,

    M = Σ_i A_iᵀ Cov_i A_i + Σ_s τ_s² Σ_b h_b h_bᵀ,    h_b = Σ_{i in b} A_iᵀ ∂q_i/∂eta,

b the blocks of the partitions s whose random intercept has a variance τ_s². The covariance of the
estimate is H⁻¹ M H⁻¹. Every sum is over people or over the blocks of one table: nothing grows with
the square of the number of tables.

An effect of a block b of another partition moves all of its people together, so S_g of table t also
holds τ_s² Σ_b e_gb e_gbᵀ, e_gb = Σ_{i in g and b} ∂q_i/∂eta. Counts hidden in a table are replaced
by their expectation given what is known, which keeps the part P_g = 1 - V_g S_g⁻¹ of their
variation, V_g the variance of what is hidden: W_g is replaced by P_gᵀ W_g in A_i, and what the
expectation itself varies by beyond that, V_g - V_g S_g⁻¹ V_g, is added as noise of the table, as is
the noise that a publisher added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numba import njit

from unbin._linalg import JITTER
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.families import Family, Interval
from unbin.likelihood.counts import PublishedCounts
from unbin.likelihood.moments import BlockMoments, Law, RowModel, finish
from unbin.likelihood.problem import Problem, make_problem
from unbin.likelihood.quasi_score import (
    ScoreSums,
    evidence,
    log_score,
    part_sums,
    reference_bins,
    score_blocks,
    summed,
    used_statistics,
)
from unbin.likelihood.statistics import bins_between, orders_as_bins
from unbin.release import Release
from unbin.rows.design import BlockSums, Design
from unbin.rows.products import accumulate
from unbin.rows.rows import Rows, kernel

_TILE_CELLS = 1 << 15
_MOST_CELLS = 64
"""Cells up to which sums by block of several tables are made of those by crossed cell."""
_BATCH = 512
"""Statistics whose cross-products are formed at a time."""


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
    """

    tables: tuple[Problem, ...]
    lower: FloatArray
    upper: FloatArray

    @property
    def first(self) -> Problem:
        """The table by whose blocks the rows are laid out."""
        return self.tables[0]

    @property
    def n_blocks(self) -> int:
        """Blocks of all tables."""
        return sum(len(table.counts.n) for table in self.tables)

    @property
    def law(self) -> Law:
        """The distribution of a row over the refined bins."""
        units = [table.means.unit for table in self.tables if table.means is not None]
        first = self.first
        variance = sum(table.block_variance for table in self.tables)
        unit = units[0] if units else None
        return Law(first.family, first.coordinates, self.lower, self.upper, unit, variance)

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
        return joined([replace(table, counts=each) for table, each in pairs])

    def with_effects(
        self, variance: Sequence[float], shared: Sequence[FloatArray | None]
    ) -> JointProblem:
        """Return the problem with random block intercepts of these variances, table by table.

        ``shared``: the covariance that the intercepts of other tables add to each.
        """
        found = zip(self.tables, variance, shared, strict=True)
        tables = tuple(replace(t, block_variance=v, shared=s) for t, v, s in found)
        return replace(self, tables=tables)


def make_joint(design: Design, releases: Sequence[Release], family: Family) -> JointProblem:
    """Combine rows, the releases of all partitions and a family.

    Order statistics are read as counts of people between them: to first order their distribution
    is the same (Bahadur's representation), and people can be counted in several tables at once.
    """
    return joined([make_problem(design, orders_as_bins(each), family) for each in releases])


def joined(alone: Sequence[Problem]) -> JointProblem:
    """Combine the problems of several tables of the rows of one design."""
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
    return JointProblem(tables, lower, upper)


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
    """

    score: FloatArray
    information: FloatArray
    tables: tuple[ScoreSums, ...]
    moments: tuple[BlockMoments, ...]
    spared: FloatArray

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
    for table, part in zip(problem.tables, moments, strict=True):
        said = evidence(table, replace(part, covariance=part.covariance.copy()))
        arrays = said.covariance, said.derivative, said.shift, said.hidden, said.residual
        weighed = score_blocks(
            *arrays, reference_bins(table), used_statistics(table), table.block_variance
        )
        sums = part_sums(table, weighed, said.spread, said.mean)
        found.append(summed([sums], pulled))
        spared += found[-1].information - (sums.information - sums.lost)
    score = reduce(np.add, [sums.score for sums in found]) - penalty * free
    information = reduce(np.add, [sums.information for sums in found])
    return JointSums(score, information, tuple(found), moments, spared)


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
    own = np.repeat(np.arange(len(rows.blocks)), np.diff(rows.start))
    return [(rows.blocks, own), *(_places(codes) for codes in rows.others)]


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
    for tile in rows.tiles(max(_TILE_CELLS // size, 256)):
        models = _models(rows, views, partitions, tile, free, True)
        columns = rows.matrix[tile].T
        for crossing, sums in zip(crossings, totals, strict=True):
            first = crossing.tables[0]
            view, model = views[first], models[first]
            parts = (model.mean, model.d_eta, model.d_nuisance, model.extra)
            if first == 0:
                accumulate(*parts, rows.matrix.T, tile.start, rows.start, *sums, True, view.n_bins)
            else:
                cells = crossing.cells([partitions[t][1][tile] for t in crossing.tables])
                add_rows(cells, *parts, columns, *sums, view.n_bins)
    pairs = zip(crossings, totals, strict=True)
    each = [own for crossing, sums in pairs for own in crossing.by_table(sums)]
    return tuple(BlockSums(blocks, own) for (blocks, _), own in zip(partitions, each, strict=True))


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
def add_rows(codes, q, d_eta, d_nuisance, extra, columns, mean, slopes, cross, n_bins):  # type: ignore[no-untyped-def]
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
    accumulate(
        level.T, slope.T, moved.transpose(0, 2, 1), further, x, 0, start, mean, slopes, cross,
        True, n_bins,
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
            add_to(place[tile], model.d_eta, total)
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


# -- uncertainty -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Weights:
    """What the blocks of all tables contribute to a person's A_i.

    Attributes
    ----------
    stacked : (Σ_t B_t L_t, p)
        P_gᵀ W_g, 0 for statistics that were not published: a row per table, block and statistic.
    start, size : (T,)
        Where the rows of each table begin, and its statistics L_t.
    cuts : tuple of (K - 1,) or (B, K - 1)
        Where the bins of each table end.
    total : (T,) bool
        Tables whose last statistic is a total.
    pulls : (T,) bool
        Tables whose blocks have a random intercept.
    """

    stacked: FloatArray
    start: IntArray
    size: IntArray
    cuts: tuple[FloatArray, ...]
    total: BoolArray
    pulls: BoolArray


def score_variance(problem: JointProblem, sums: JointSums, free: FloatArray) -> FloatArray:
    """Return M, the variance of the added quasi-scores; ``sums`` are those at ``free``.

    Where counts are hidden in one direction nearly altogether, both H and M hold what is spared of
    the information there: H⁻¹ M H⁻¹ is then large, as it should be.
    """
    tables = problem.tables
    stacked, noise = [], np.zeros((len(free), len(free)))
    for table, part in zip(tables, sums.moments, strict=True):
        weight, own = _weights(table, part)
        noise += own
        stacked.append(weight.reshape(-1, len(free)))
    size = np.array([table.n_statistics for table in tables])
    weights = Weights(
        np.concatenate(stacked),
        np.cumsum([0, *(len(each) for each in stacked[:-1])]),
        size,
        tuple(_cuts(table.counts) for table in tables),
        np.array([table.means is not None for table in tables]),
        np.array([table.block_variance > 0 for table in tables]),
    )
    design, domain = problem.first.design, problem.first.family.domain
    meat, pulls = design.total(meat_sums, problem.law, free, weights, domain)
    for table, pull in zip(tables, pulls, strict=True):
        meat = meat + table.block_variance * pull.arrays[0].T @ pull.arrays[0]
    return np.asarray(meat + noise + sums.spared)


def _cuts(counts: PublishedCounts) -> FloatArray:
    """Return where the bins end but the last, infinity in padding."""
    cuts = counts.upper[..., :-1]
    if counts.shared:
        return cuts
    last = counts.lower[:, 1:] > counts.upper[:, 1:]  # the next bin is padding
    return np.where(last | (cuts < counts.lower[:, :-1]), np.inf, cuts)


def _weights(table: Problem, part: BlockMoments) -> tuple[FloatArray, FloatArray]:
    """Return P_gᵀ W_g of each block, (B, L, p), and the variance of the score by the table's noise.

    W_g = (S_g + τ² e eᵀ)⁻¹ D_g, 0 for what was not published and for the bin left out.
    """
    said = evidence(table, replace(part, covariance=part.covariance.copy()))
    size = table.n_statistics
    used = used_statistics(table) & (np.arange(size) != reference_bins(table)[:, None])
    s = said.covariance + table.block_variance * said.shift[:, :, None] * said.shift[:, None]
    s = s * (used[:, :, None] & used[:, None, :]) + JITTER * np.eye(size)
    weight = np.linalg.solve(s, said.derivative * used[:, :, None])
    bins = weight[:, : table.counts.n_bins].reshape(-1, weight.shape[2])
    noise = table.noise_sd**2 * bins.T @ bins
    if said.hidden.shape[2]:
        root = said.hidden * used[:, :, None]
        lost = root.swapaxes(1, 2) @ weight  # Vᵀ W is root rootᵀ W
        back = np.linalg.solve(s, root @ lost)
        noise = noise + np.einsum("bhp,bhq->pq", lost, lost)
        noise = noise - np.einsum("blp,blq->pq", root @ lost, back)
        weight = weight - back
    return np.asarray(weight), np.asarray(noise)


@kernel
def meat_sums(
    rows: Rows, law: Law, free: FloatArray, weights: Weights, domain: Interval
) -> tuple[FloatArray, tuple[BlockSums, ...]]:
    """Return Σ A_iᵀ Cov_i A_i, and Σ A_iᵀ ∂q_i/∂eta by block of each table that has intercepts."""
    theta, nuisance = law.coordinates.split(free)
    p, partitions = len(free), partitions_of(rows)
    meat = np.zeros((p, p))
    pulls = [
        np.zeros((len(blocks) if pulled else 0, p))
        for pulled, (blocks, _) in zip(weights.pulls, partitions, strict=True)
    ]
    n_cells = sum(cuts.shape[-1] for cuts in weights.cuts) + 1
    for tile in rows.tiles(max(_TILE_CELLS // n_cells, 64)):
        codes = np.stack([blocks[place[tile]] for blocks, place in partitions])
        upper, lower = refined_ends(law, weights, codes, domain)
        model = law.at(rows.eta(theta, tile), lower, upper, nuisance, True)
        bins = np.stack(
            [
                np.atleast_2d(_holds(cuts if cuts.ndim == 1 else cuts[code], upper))
                for cuts, code in zip(weights.cuts, codes, strict=True)
            ]
        )
        along = add_meat(
            model.mean, model.extra, model.d_eta, codes, bins, lower.shape[-1],
            weights.stacked, weights.start, weights.size, weights.total, meat,
        )  # fmt: skip
        for pulled, pull, (_, place) in zip(weights.pulls, pulls, partitions, strict=True):
            if pulled:
                add_to(place[tile], along, pull)
    found = zip(weights.pulls, partitions, pulls, strict=True)
    return meat, tuple(
        BlockSums(blocks if pulled else blocks[:0], (pull,)) for pulled, (blocks, _), pull in found
    )


def refined_ends(
    law: Law, weights: Weights, codes: IntArray, domain: Interval
) -> tuple[FloatArray, FloatArray]:
    """Return the upper and lower ends of the bins between the cuts of all tables.

    (K,), or (n, K) where the cuts of a table differ by block; ``codes`` (T, n): the rows' blocks.
    """
    shared = law.upper[:-1]
    own = [cuts[code] for cuts, code in zip(weights.cuts, codes, strict=True) if cuts.ndim == 2]
    if not own:
        return law.upper, law.lower
    first = np.broadcast_to(shared, (codes.shape[1], len(shared)))
    cuts = np.sort(np.concatenate([first, *own], axis=1), axis=1)
    low, high = (np.full((len(cuts), 1), end) for end in (domain.low, domain.high))
    after = cuts + 1 if domain.integer else cuts
    return np.concatenate([cuts, high], axis=1), np.concatenate([low, after], axis=1)


def _holds(cuts: FloatArray, upper: FloatArray) -> IntArray:
    """Return the bin between ``cuts`` that holds each refined one, by its upper end."""
    if cuts.ndim == 1 and upper.ndim == 1:
        return np.searchsorted(cuts, upper)
    return np.asarray((cuts[..., None, :] < upper[..., :, None]).sum(axis=-1))


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def add_meat(  # type: ignore[no-untyped-def]
    q, extra, d_eta, codes, bins, n_bins, stacked, start, sizes, total, meat
):
    """Add Σ A_iᵀ Cov_i A_i to ``meat``, and return A_iᵀ ∂q_i/∂eta, (n, p).

    Cov_i is Σ_k q_k (u_k - ū)(u_k - ū)ᵀ over bins; a total varies with the mean of the bin, and
    within it. ``bins`` are (T, n, K), or (T, 1, K) where they are the same for all rows.
    """
    n, size = q.shape
    p, n_tables, by_row = stacked.shape[1], len(start), bins.shape[1] > 1
    along = np.zeros((n, p))
    batched, filled = np.zeros((_BATCH + size + 1, p)), 0
    a, level = np.zeros((size, p)), np.zeros(p)
    for i in range(n):
        a[:] = 0.0
        level[:] = 0.0
        for t in range(n_tables):
            first = start[t] + codes[t, i] * sizes[t]
            for k in range(n_bins):
                row = first + bins[t, i if by_row else 0, k]
                for r in range(p):
                    a[k, r] += stacked[row, r]
            if total[t]:
                for r in range(p):
                    a[size - 1, r] += stacked[first + sizes[t] - 1, r]
        for k in range(size):
            for r in range(p):
                along[i, r] += d_eta[i, k] * a[k, r]
        for k in range(n_bins):
            for r in range(p):
                level[r] += q[i, k] * a[k, r]
        within = extra[i, n_bins] if size > n_bins else 0.0
        for k in range(n_bins):
            if q[i, k] <= 0.0:
                continue
            root = np.sqrt(q[i, k])
            away = extra[i, k] / q[i, k] if size > n_bins else 0.0
            within -= q[i, k] * away * away
            for r in range(p):
                batched[filled, r] = root * (a[k, r] - level[r])
            if size > n_bins:
                for r in range(p):
                    batched[filled, r] += root * away * a[size - 1, r]
            filled += 1
        if within > 0.0:
            for r in range(p):
                batched[filled, r] = np.sqrt(within) * a[size - 1, r]
            filled += 1
        if filled >= _BATCH or i == n - 1:
            meat += np.dot(batched[:filled].T, batched[:filled])
            filled = 0
    return along
