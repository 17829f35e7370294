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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numba import njit

from unbin._linalg import JITTER, solve_scaled
from unbin._typing import FloatArray, IntArray
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
        return np.ascontiguousarray(found)


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
    """

    score: FloatArray
    information: FloatArray
    tables: tuple[ScoreSums, ...]

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
    pulled = np.zeros(len(free))
    found = []
    for table, part in zip(problem.tables, _moments(problem, free), strict=True):
        said = evidence(table, part)
        arrays = said.covariance, said.derivative, said.shift, said.hidden, said.residual
        weighed = score_blocks(
            *arrays, reference_bins(table), used_statistics(table), table.block_variance
        )
        sums = part_sums(table, weighed, said.spread, said.mean)
        found.append(summed([sums], pulled))
    score = reduce(np.add, [sums.score for sums in found]) - penalty * free
    return JointSums(score, reduce(np.add, [sums.information for sums in found]), tuple(found))


def joint_log_score(problem: JointProblem, sums: JointSums) -> float:
    """Return Σ c log(m / n) over the cells of all tables, per person and table."""
    people = [int(table.counts.n[table.counts.known].sum()) for table in problem.tables]
    pairs = zip(problem.tables, sums.tables, people, strict=True)
    total = sum(n * log_score(table, own) for table, own, n in pairs if n)
    return total / max(sum(people), 1)


def _moments(problem: JointProblem, free: FloatArray) -> list[BlockMoments]:
    sums = problem.first.design.total(joint_moment_sums, problem.views(), free)
    return [
        finish(table, free, slice(0, len(table.counts.n)), own.arrays, True)
        for table, own in zip(problem.tables, sums, strict=True)
    ]


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
    """Return, per table, the blocks that have rows here and the place of each row's among them."""
    own = np.repeat(np.arange(len(rows.blocks)), np.diff(rows.start))
    found = [np.unique(codes, return_inverse=True) for codes in rows.others]
    return [(rows.blocks, own), *((blocks, place) for blocks, place in found)]


@kernel
def joint_moment_sums(
    rows: Rows, views: tuple[View, ...], free: FloatArray
) -> tuple[BlockSums, ...]:
    """Return, per table and block, what ``moment_sums`` does, from one model of every row."""
    partitions = partitions_of(rows)
    width = 1 + rows.matrix.shape[1] + views[0].law.coordinates.n_row_nuisance
    tables = []
    for view, (blocks, _) in zip(views, partitions, strict=True):
        b, k = len(blocks), view.n_statistics
        tables.append((np.zeros((b, k)), np.zeros((b, k, width)), np.zeros((b, k, k))))
    size = max(view.law.n_statistics for view in views)
    for tile in rows.tiles(max(_TILE_CELLS // size, 256)):
        models = _models(rows, views, partitions, tile, free, True)
        x = np.ascontiguousarray(rows.matrix[tile])
        for k, (view, model, sums) in enumerate(zip(views, models, tables, strict=True)):
            parts = (model.mean, model.d_eta, model.d_nuisance, model.extra)
            if k == 0:
                accumulate(*parts, rows.matrix.T, tile.start, rows.start, *sums, True, view.n_bins)
            else:
                add_rows(partitions[k][1][tile], *parts, x, *sums, view.n_bins)
    return tuple(
        BlockSums(blocks, sums) for (blocks, _), sums in zip(partitions, tables, strict=True)
    )


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def add_rows(codes, q, d_eta, d_nuisance, extra, x, mean, slopes, cross, n_bins):  # type: ignore[no-untyped-def]
    """Add rows to the sums of their blocks, in whatever order they come; see ``accumulate``."""
    n, size = q.shape
    d, m = x.shape[1], d_nuisance.shape[0]
    for i in range(n):
        b = codes[i]
        for k in range(size):
            slope = d_eta[i, k]
            mean[b, k] += q[i, k]
            slopes[b, k, 0] += slope
            for j in range(d):
                slopes[b, k, 1 + j] += slope * x[i, j]
            for j in range(m):
                slopes[b, k, 1 + d + j] += d_nuisance[j, i, k]
        for k in range(n_bins):
            for j in range(n_bins):
                cross[b, k, j] -= q[i, k] * q[i, j]
        if size > n_bins:
            for k in range(size):
                cross[b, n_bins, k] += extra[i, k]


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
    """What the blocks of a table contribute to a person's A_i.

    Attributes
    ----------
    weight : (B, L, p)
        P_gᵀ W_g, 0 for statistics that were not published.
    cuts : (K - 1,) or (B, K - 1)
        Where its bins end.
    total : bool
        Whether the last statistic is a total.
    pulls : bool
        Whether its blocks have a random intercept.
    """

    weight: FloatArray
    cuts: FloatArray
    total: bool
    pulls: bool


def joint_covariance(
    problem: JointProblem, free: FloatArray, information: FloatArray, penalty: FloatArray
) -> FloatArray:
    """Return H⁻¹ M H⁻¹, the covariance of the free parameters."""
    bread = solve_scaled(information + np.diag(penalty), np.eye(len(free)))
    return np.asarray(bread @ score_variance(problem, free) @ bread)


def score_variance(problem: JointProblem, free: FloatArray) -> FloatArray:
    """Return M, the variance of the added quasi-scores."""
    weights, noise = [], np.zeros((len(free), len(free)))
    for table, part in zip(problem.tables, _moments(problem, free), strict=True):
        weight, own = _weights(table, part)
        noise += own
        cuts = _cuts(table.counts)
        weights.append(Weights(weight, cuts, table.means is not None, table.block_variance > 0))
    domain = problem.first.family.domain
    found = problem.first.design.total(meat_sums, problem.law, free, tuple(weights), domain)
    meat, pulls = found
    for table, pull in zip(problem.tables, pulls, strict=True):
        meat = meat + table.block_variance * pull.arrays[0].T @ pull.arrays[0]
    return np.asarray(meat + noise)


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
    said = evidence(table, part)
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
    rows: Rows, law: Law, free: FloatArray, weights: tuple[Weights, ...], domain: Interval
) -> tuple[FloatArray, tuple[BlockSums, ...]]:
    """Return Σ A_iᵀ Cov_i A_i, and Σ A_iᵀ ∂q_i/∂eta by block of each table that has intercepts."""
    theta, nuisance = law.coordinates.split(free)
    p, partitions = len(free), partitions_of(rows)
    meat = np.zeros((p, p))
    pulls = [
        np.zeros((len(blocks) if table.pulls else 0, p))
        for table, (blocks, _) in zip(weights, partitions, strict=True)
    ]
    n_cells = sum(table.cuts.shape[-1] for table in weights) + 1
    for tile in rows.tiles(max(_TILE_CELLS // (n_cells * (1 + p // 8)), 64)):
        codes = [blocks[place[tile]] for blocks, place in partitions]
        cuts = _union(law, weights, codes)
        lower, upper = _ends(cuts, domain)
        model = law.at(rows.eta(theta, tile), lower, upper, nuisance, True)
        n, k = len(model.mean), lower.shape[-1]
        a = np.zeros((n, model.mean.shape[1], p))
        for table, code in zip(weights, codes, strict=True):
            own = table.cuts if table.cuts.ndim == 1 else table.cuts[code]
            bins = _holds(own, upper)
            add_weights(code, np.broadcast_to(bins, (n, k)), table.weight, table.total, a)
        along = add_meat(model.mean, model.extra, model.d_eta, a, k, meat)
        for table, pull, (_, place) in zip(weights, pulls, partitions, strict=True):
            if table.pulls:
                add_to(place[tile], along, pull)
    found = zip(weights, partitions, pulls, strict=True)
    return meat, tuple(
        BlockSums(blocks if table.pulls else blocks[:0], (pull,))
        for table, (blocks, _), pull in found
    )


def _union(law: Law, weights: Sequence[Weights], codes: Sequence[IntArray]) -> FloatArray:
    """Return the cuts of all tables: (K - 1,), or (n, K - 1) where a table's differ by block."""
    shared = law.upper[:-1]
    own = [t.cuts[code] for t, code in zip(weights, codes, strict=True) if t.cuts.ndim == 2]
    if not own:
        return shared
    first = np.broadcast_to(shared, (len(codes[0]), len(shared)))
    return np.sort(np.concatenate([first, *own], axis=1), axis=1)


def _ends(cuts: FloatArray, domain: Interval) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the bins between cuts, (K,) or (n, K)."""
    if cuts.ndim == 1:
        return bins_between(cuts, domain)
    low, high = (np.full((len(cuts), 1), end) for end in (domain.low, domain.high))
    after = cuts + 1 if domain.integer else cuts
    return np.concatenate([low, after], axis=1), np.concatenate([cuts, high], axis=1)


def _holds(cuts: FloatArray, upper: FloatArray) -> IntArray:
    """Return the bin between ``cuts`` that holds each refined one, by its upper end."""
    if cuts.ndim == 1 and upper.ndim == 1:
        return np.searchsorted(cuts, upper)
    return np.asarray((cuts[..., None, :] < upper[..., :, None]).sum(axis=-1))


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def add_weights(codes, bins, weight, total, a):  # type: ignore[no-untyped-def]
    """Add the weights of a table to those of the rows, bin by refined bin."""
    n, size, p = a.shape
    k = bins.shape[1]
    for i in range(n):
        b = codes[i]
        for j in range(k):
            for r in range(p):
                a[i, j, r] += weight[b, bins[i, j], r]
        if total:
            for r in range(p):
                a[i, size - 1, r] += weight[b, weight.shape[1] - 1, r]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def add_meat(q, extra, d_eta, a, n_bins, meat):  # type: ignore[no-untyped-def]
    """Add Σ A_iᵀ Cov_i A_i to ``meat``, and return A_iᵀ ∂q_i/∂eta, (n, p).

    Cov_i is Σ_k q_k (u_k - ū)(u_k - ū)ᵀ over bins; a total varies with the mean of the bin, and
    within it.
    """
    n, size, p = a.shape
    along = np.zeros((n, p))
    batched, filled = np.zeros((_BATCH + size + 1, p)), 0
    level = np.zeros(p)
    for i in range(n):
        level[:] = 0.0
        for k in range(size):
            for r in range(p):
                along[i, r] += d_eta[i, k] * a[i, k, r]
        for k in range(n_bins):
            for r in range(p):
                level[r] += q[i, k] * a[i, k, r]
        within = extra[i, n_bins] if size > n_bins else 0.0
        for k in range(n_bins):
            if q[i, k] <= 0.0:
                continue
            root = np.sqrt(q[i, k])
            away = extra[i, k] / q[i, k] if size > n_bins else 0.0
            within -= q[i, k] * away * away
            for r in range(p):
                batched[filled, r] = root * (a[i, k, r] - level[r])
                if size > n_bins:
                    batched[filled, r] += root * away * a[i, size - 1, r]
            filled += 1
        if within > 0.0:
            for r in range(p):
                batched[filled, r] = np.sqrt(within) * a[i, size - 1, r]
            filled += 1
        if filled >= _BATCH or i == n - 1:
            meat += np.dot(batched[:filled].T, batched[:filled])
            filled = 0
    return along
