"""The variance of the added quasi-scores of several tables, a sum over people.

The tables count the same people, so the variance of U (:mod:`unbin.likelihood.joint`) is not H:
with A_i = Σ_t W_{g_t(i)} on the common refinement of all bins,

    M = Σ_i A_iᵀ Cov_i A_i + Σ_s τ_s² Σ_b h_b h_bᵀ,    h_b = Σ_{i in b} A_iᵀ ∂q_i/∂eta,

b the blocks of the partitions s whose random intercept has a variance τ_s². The covariance of the
estimate is H⁻¹ M H⁻¹. Every sum is over people or over the blocks of one table: nothing grows with
the square of the number of tables. Cov_i of one person holds the effects already, so that the terms
of a person with himself are taken out of h_b h_bᵀ.

Counts hidden in a table are replaced by their expectation given what is known, which keeps the part
P_g = 1 - V_g S_g⁻¹ of their variation, V_g the variance of what is hidden: W_g is replaced by
P_gᵀ W_g in A_i, and what the expectation itself varies by beyond that, V_g - V_g S_g⁻¹ V_g, is
added as noise of the table, as is the noise that a publisher added.

A row that stands for w people counts w times. Where the rows are a sample of the people, all tables
share what the sample got wrong: Σ w (w - 1) a_i a_iᵀ with a_i = Σ_t W_{g_t(i)}ᵀ (q_i - q̄_{g_t(i)})
is added, q̄_g the mean over the block. W_g is made of the same rows, which makes a_i too small; what
sampling takes from the information (:mod:`unbin.likelihood.sampling`) is about what that leaves
out, and is added too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unbin._compiling import njit
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.likelihood.counts import bins_holding
from unbin.likelihood.joint import JointProblem, JointSums, add_to, partitions_of
from unbin.likelihood.known import add_known
from unbin.likelihood.law import Law
from unbin.likelihood.moments import BlockMoments
from unbin.likelihood.problem import Problem
from unbin.likelihood.quasi_score import evidence, left_statistics, masked, variance_of
from unbin.rows.design import BlockSums
from unbin.rows.rows import Rows, kernel

_TILE_CELLS = 1 << 15
"""Rows times bins worked on at a time: the arrays of a tile stay in the cache."""
_BATCH = 512
"""Statistics whose cross-products are formed at a time."""


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
    variance : (T,)
        Of the random intercept of each table's blocks.
    level : tuple of (B_t, p)
        W_gᵀ q̄_g.
    """

    stacked: FloatArray
    start: IntArray
    size: IntArray
    cuts: tuple[FloatArray, ...]
    total: BoolArray
    variance: FloatArray
    level: tuple[FloatArray, ...]

    @property
    def pulls(self) -> BoolArray:
        """Tables whose blocks have a random intercept."""
        return self.variance > 0


def score_variance(
    problem: JointProblem,
    sums: JointSums,
    free: FloatArray,
    beside: Sequence[FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return M, the variance of the added quasi-scores, in two parts; ``sums`` are at ``free``.

    That of people and of noise, and that of random intercepts. Where counts are hidden in one
    direction nearly altogether, both H and M hold what is spared of the information there: their
    H⁻¹ M H⁻¹ is then large, as it should be.

    With weights ``beside`` those of the quasi-scores, (B, L, q) of each table, M is that of both
    scores, (p + q, p + q); for tables alone, of everybody.
    """
    tables, p = problem.tables, len(free)
    size = p if beside is None else p + beside[0].shape[2]
    stacked, level, noise = [], [], np.zeros((size, size))
    for t, (table, part) in enumerate(zip(tables, sums.moments, strict=True)):
        weight, own = _weights(table, part, None if beside is None else beside[t])
        noise += own
        if table.factor is not None:
            weight *= table.factor[:, None, None]
        average = part.mean / table.counts.n[:, None]
        level.append(np.einsum("bl,blp->bp", average, weight))
        stacked.append(weight.reshape(-1, size))
    statistics = np.array([table.n_statistics for table in tables])
    weights = Weights(
        np.concatenate(stacked),
        np.cumsum([0, *(len(each) for each in stacked[:-1])]),
        statistics,
        tuple(table.counts.cuts() for table in tables),
        np.array([table.means is not None for table in tables]),
        np.array([table.block_variance for table in tables]),
        tuple(level),
    )
    meat, sides = problem.first.design.total(meat_sums, problem.law, free, weights)
    pulls = [side.arrays[0] for side in sides]
    meat = meat + sum(own.sampled for own in sums.tables if own.sampled is not None)
    effects = np.zeros_like(meat)
    if sums.known is not None and problem.people is not None and problem.known is not None:
        along, own = sums.known.along, sums.known.along / problem.known.counts.n[:, None]
        meat = meat + sums.known.information - weights.variance.sum() * along.T @ own
        add_known(pulls, problem.people.codes, along)
        for table, code in zip(tables, problem.people.codes, strict=True):
            # whom people outside a table share an effect with nobody said
            effects += table.block_variance * along[code < 0].T @ own[code < 0]
    for table, pull in zip(tables, pulls, strict=True):
        effects += table.block_variance * pull.T @ pull
    noise[:p, :p] += sums.spared
    return np.asarray(meat + noise), effects


def _weights(
    table: Problem, part: BlockMoments, beside: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return P_gᵀ W_g of each block, (B, L, p), and the variance of the score by the table's noise.

    W_g = (S_g + τ² e eᵀ)⁻¹ D_g, 0 for what was not published and for the bin left out; other
    weights follow.
    """
    said = evidence(table, replace(part, covariance=part.covariance.copy()))
    used = left_statistics(table)
    s = masked(variance_of(table, said), used)
    weight = np.linalg.solve(s, said.derivative * used[:, :, None])
    if beside is not None:
        weight = np.concatenate([weight, beside], axis=2)
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
    rows: Rows, law: Law, free: FloatArray, weights: Weights
) -> tuple[FloatArray, tuple[BlockSums, ...]]:
    """Return Σ A_iᵀ Cov_i A_i, and Σ A_iᵀ ∂q_i/∂eta by block of each table that has intercepts.

    Of the first what the intercepts contribute to a person alone is left out.
    """
    theta, nuisance = law.coordinates.split(free)
    p, partitions = weights.stacked.shape[1], partitions_of(rows)
    meat = np.zeros((p, p))
    pulls = [
        np.zeros((len(blocks) if pulled else 0, p))
        for pulled, (blocks, _) in zip(weights.pulls, partitions, strict=True)
    ]
    n_cells = sum(cuts.shape[-1] for cuts in weights.cuts) + 1
    for tile in rows.tiles(max(_TILE_CELLS // n_cells, 64)):
        codes = np.stack([blocks[place[tile]] for blocks, place in partitions])
        upper, lower = _refined_ends(law, weights, codes)
        model = law.at(rows.eta(theta, tile), lower, upper, nuisance, True)
        bins = np.stack(
            [
                bins_holding(cuts if cuts.ndim == 1 else cuts[code], upper)
                for cuts, code in zip(weights.cuts, codes, strict=True)
            ]
        )
        along, level = add_meat(
            model.mean, model.extra, model.d_eta, codes, bins, lower.shape[-1], rows.people(tile),
            weights.stacked, weights.start, weights.size, weights.total, meat,
        )  # fmt: skip
        weighed = rows.weighed(along, tile)
        meat -= weights.variance.sum() * along.T @ weighed
        if rows.sampled:
            for own, code in zip(weights.level, codes, strict=True):
                level -= own[code]
            people = rows.people(tile)
            meat += level.T @ (np.maximum(people * (people - 1), 0.0)[:, None] * level)
        for pulled, pull, (_, place) in zip(weights.pulls, pulls, partitions, strict=True):
            if pulled:
                add_to(place[tile], weighed, pull)
    found = zip(weights.pulls, partitions, pulls, strict=True)
    return meat, tuple(
        BlockSums(blocks if pulled else blocks[:0], (pull,)) for pulled, (blocks, _), pull in found
    )


def _refined_ends(law: Law, weights: Weights, codes: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the upper and lower ends of the bins between the cuts of all tables.

    (K,), or (n, K) where the cuts of a table differ by block; ``codes`` (T, n): the rows' blocks.
    """
    shared = law.upper[:-1]
    own = [cuts[code] for cuts, code in zip(weights.cuts, codes, strict=True) if cuts.ndim == 2]
    if not own:
        return law.upper, law.lower
    first = np.broadcast_to(shared, (codes.shape[1], len(shared)))
    cuts = np.sort(np.concatenate([first, *own], axis=1), axis=1)
    domain = law.family.domain
    low, high = (np.full((len(cuts), 1), end) for end in (domain.low, domain.high))
    after = cuts + 1 if domain.integer else cuts
    return np.concatenate([cuts, high], axis=1), np.concatenate([low, after], axis=1)


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def add_meat(  # type: ignore[no-untyped-def]
    q, extra, d_eta, codes, bins, n_bins, people, stacked, start, sizes, total, meat
):
    """Add Σ A_iᵀ Cov_i A_i to ``meat``, and return A_iᵀ ∂q_i/∂eta and A_iᵀ q_i, both (n, p).

    Cov_i is Σ_k q_k (u_k - ū)(u_k - ū)ᵀ over bins; a total varies with the mean of the bin, and
    within it. ``bins`` are (T, n, K), or (T, 1, K) where they are the same for all rows; ``people``
    those that each row stands for, empty where it is one.
    """
    n, size = q.shape
    p, n_tables, by_row = stacked.shape[1], len(start), bins.shape[1] > 1
    along, levels = np.zeros((n, p)), np.zeros((n, p))
    batched, filled = np.zeros((_BATCH + size + 1, p)), 0
    a = np.zeros((size, p))
    for i in range(n):
        a[:] = 0.0
        level, weight = levels[i], people[i] if len(people) else 1.0
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
            root = np.sqrt(weight * q[i, k])
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
                batched[filled, r] = np.sqrt(weight * within) * a[size - 1, r]
            filled += 1
        if filled >= _BATCH or i == n - 1:
            meat += np.dot(batched[:filled].T, batched[:filled])
            filled = 0
        if size > n_bins:
            for r in range(p):
                level[r] += q[i, n_bins] * a[size - 1, r]
    return along, levels
