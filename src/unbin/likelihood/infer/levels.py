"""The location score: slopes from the levels of blocks, not the shape of histograms.

With s the values of the bins, the level of a block is sᵀc, the sum of its people's values. The
location score is the quasi-score of the levels of all blocks alone, as if nothing else had been
published: with V the matrix that turns the statistics of a group into the levels of its blocks, it
has W_g = V (Vᵀ Σ_g V)⁻¹ Vᵀ D_g, for a single table s (sᵀ D_b)/(sᵀ Σ_b s). It uses what blocks
differ by in level and nothing of the shape of their histograms; nuisance parameters have the
weights (Σ Σ_g)⁻¹ (Σ D_g) of the pooled bins of one table. Statistics are averaged over the block
effects and not expanded around them, so that weights know nothing of the outcomes.

Of published values those of a block give its level: the moves at which they are the expected ones,
by the share of people between them.

Its root is right where the family is right in the mean alone. Under skewed features and noise the
full score reads slopes off the shape of histograms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from unbin._linalg import brought, like, long_product, namespace, solve_scaled
from unbin._typing import FloatArray, IntArray
from unbin.likelihood.data.counts import representative_values
from unbin.likelihood.data.layout import Stack
from unbin.likelihood.data.problem import Problem
from unbin.likelihood.data.tables import PublishedOrder, Table
from unbin.likelihood.model.moments import (
    CellSums,
    Moments,
    UnitSums,
    groups_of,
    map_cells,
    units_of,
)
from unbin.likelihood.model.order import Crossing
from unbin.likelihood.model.score import (
    Evidence,
    clusters,
    evidence,
    first_cells,
    left_root,
    masked,
    summed,
    taken_by_cluster,
    variance_of,
    varied,
)
from unbin.likelihood.model.weighing import whiten
from unbin.likelihood.solve.start import step_scale

_STEPS = 40
_LEAST_OWN = 0.05
"""Share of a block's residual that is its own, at least."""
_REACHED = 1e-4
"""Standard errors from the root at which it is reached."""


@dataclass(frozen=True, slots=True)
class Location:
    """The location score at one value of the parameters.

    Attributes
    ----------
    scores : (G, p) array, or tensor where blocks are on a device
    leveraged : (G, p)
        As if their group had not been fitted.
    border : (p,)
        What the border adds.
    bread : (p, p)
        A⁻¹ with A = Σ W_gᵀ D_g.
    model : (p, p)
        Covariance of the root if the model is right.
    beyond : (p, p)
        The part of it that is the border's.
    """

    scores: Any
    leveraged: Any
    border: FloatArray
    bread: FloatArray
    model: FloatArray
    beyond: FloatArray

    @property
    def total(self) -> FloatArray:
        """The score."""
        return np.asarray(brought(self.scores.sum(0)) + self.border)

    def covariance(self) -> FloatArray:
        """Return the covariance of the root by groups, each as if it had not been fitted (CR3)."""
        scores = self.leveraged[abs(self.scores).sum(1) > 0]
        n = max(len(scores), 1)
        centred = scores - scores.sum(0) / n
        meat = brought(long_product(centred, centred)) * ((n - 1) / n)
        return np.asarray(self.bread @ meat @ self.bread.T) + self.beyond


def location_score(
    problem: Problem, free: FloatArray, penalty: FloatArray, *, held: bool = False
) -> Location:
    """Return the location score at ``free``, in one pass over the rows.

    ``held``: with nuisance parameters that are given.
    """
    plain, values = problem.around(None), level_values(problem)

    def weigh(sums: CellSums) -> tuple[LocationPart, UnitSums | None, Crossing | None]:
        moments = groups_of(plain, free, sums)
        said = evidence(plain, moments, values=sums.values)
        other = None if plain.layout.border is None else units_of(plain, sums, 1)
        return location_part(plain, moments, said, values), other, sums.values

    parts, others, (crossing, *_) = zip(*map_cells(plain, free, weigh), strict=True)
    border = None
    if others[0] is not None:
        moments = reduce(add, others).moments(plain, free, plain.layout.stacks[1], 0)
        effects = reduce(add, [part.reach[3] for part in parts])
        border = evidence(plain, moments, 1, values=crossing, effects=effects[None])
    return located(plain, parts, border, penalty, held=held)


def locate(
    problem: Problem, free: FloatArray, penalty: FloatArray
) -> tuple[FloatArray, Location, bool]:
    """Solve the location score from ``free``; return its root, the score there and if it is one.

    Where levels ask for slopes that explain more than the whole spread of the outcome there is no
    root: nuisance parameters then stay as they are in ``free``.
    """
    for held in (False, True):
        found = _solve(problem, free, penalty, held=held)
        if found[2]:
            break
    return found


def _solve(
    problem: Problem, free: FloatArray, penalty: FloatArray, *, held: bool
) -> tuple[FloatArray, Location, bool]:
    cap, at, last = step_scale(problem, free), free, np.zeros(len(free))
    for _ in range(_STEPS):
        found = location_score(problem, at, penalty, held=held)
        step = found.bread @ (found.total - penalty * at)
        errors = np.sqrt(np.maximum(np.diag(found.model), 1e-300))
        moves = found.model.diagonal() > 0
        if not np.isfinite(step).all():
            break
        if (np.abs(step / errors)[moves] < _REACHED).all():
            return at, found, True
        if step @ (last / cap**2) < 0:  # there and back
            cap = 0.5 * cap
        last = step / max(1.0, float((np.abs(step) / cap).max(initial=0.0)))
        at = at + last
    return at, found, False


# -- levels ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Levels:
    """How statistics become levels.

    Attributes
    ----------
    values : (U, L)
        The value of each statistic in the level of its block; of a single unit for the border.
    border : (M,) or None
    lead : int
        The table of the core whose pooled bins nuisance parameters are read off, as a place in the
        stack; -1 for none.
    told : (U, L) or None
        0 for the bins of blocks whose counts are not known, else 1; None where all are.
    """

    values: FloatArray
    border: FloatArray | None
    lead: int
    told: FloatArray | None


def level_values(problem: Problem) -> Levels:
    """Return the values of all statistics."""
    layout, tables = problem.layout, problem.tables
    each = [table_values(problem, t) for t in range(len(tables))]
    core = layout.core
    shared = [j for j, t in enumerate(core.tables) if tables[t].counts.shared]
    informed = [j for j in shared if tables[core.tables[j]].counts.informative] or shared
    lead = max(informed, key=lambda j: tables[core.tables[j]].counts.n_bins, default=-1)
    border = None
    if layout.border is not None:
        border = layout.border.stacked([each[t] for t in layout.border.tables])[0]
    told = None
    if not all(tables[t].counts.known.all() for t in core.tables):
        told = core.stacked([_told(tables[t]) for t in core.tables])
    return Levels(core.stacked([each[t] for t in core.tables]), border, lead, told)


def _told(table: Table) -> FloatArray:
    """Return 0 for the bins of blocks whose counts are not known, else 1, (B, L)."""
    told = np.ones((len(table.counts.n), table.size))
    told[:, : table.counts.n_bins] = table.counts.known[:, None]
    return told


def table_values(problem: Problem, t: int) -> FloatArray:
    """Return the value of each statistic in the sum of a block's values, (B, L).

    Representative values of the bins less their mean, so that results do not depend on where the
    outcome has its zero; where the mean was published, the total alone. Of published values the
    share of people that each stands for: what it adds to the move of the block.
    """
    table = problem.tables[t]
    counts, valid = table.counts, table.counts.valid()
    values, people = representative_values(counts), np.maximum(counts.count, 0.0) * valid
    mean = float((people * values).sum() / max(people.sum(), 1.0))
    values = np.asarray((values - mean) * valid)
    if table.means is not None:
        told = np.isfinite(table.means)
        values = np.column_stack([np.where(told[:, None], 0.0, values), told.astype(float)])
    if table.order is not None:
        values = np.column_stack([values, order_shares(table.order)])
    return values


def order_shares(order: PublishedOrder) -> FloatArray:
    """Return the share of people that each published value stands for, (B, J)."""
    valid = order.valid
    at = np.where(valid, (order.rank - 1 / 3) / (order.n[:, None] + 1 / 3), np.nan)
    last = np.maximum(valid.sum(axis=1) - 1, 0)
    after = np.concatenate([at[:, 1:], np.full((len(at), 1), np.nan)], axis=1)
    upper = np.where(np.isnan(after), 1.0, 0.5 * (at + after))
    upper[np.arange(len(at)), last] = 1.0
    lower = np.concatenate([np.zeros((len(at), 1)), upper[:, :-1]], axis=1)
    return np.where(valid, upper - lower, 0.0)


def level_matrix(problem: Problem, stack: Stack, values: Any, shift: Any) -> Any:
    """Return V of some units, (U, L, R): a column for the block in each slot of each table.

    ``values`` (U, L) and ``shift`` (U, L), which turns the moves of published values into numbers
    of people.
    """
    widths = [blocks.shape[1] for blocks in stack.blocks]
    if any(problem.tables[t].order is not None for t in stack.tables):
        values = np.array(values)
        for j, t in enumerate(stack.tables):
            table = problem.tables[t]
            if table.order is None:
                continue
            for r in range(widths[j]):
                first = stack.first[j] + r * stack.size[j]
                here = slice(first + table.n_counted, first + stack.size[j])
                steep = shift[:, here]
                values[:, here] /= np.where(steep < 0, steep, -1.0)
                values[:, here] *= -1.0
    if sum(widths) == 1:
        return values[:, :, None]
    slot = np.concatenate(
        [
            first + np.repeat(np.arange(width), size_of)
            for first, width, size_of in zip(
                np.cumsum([0, *widths]), widths, stack.size, strict=False
            )
        ]
    )
    return values[:, :, None] * (slot[:, None] == np.arange(sum(widths)))[None]


# -- sums over groups ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LocationPart:
    """What some groups contribute to the location score.

    Attributes
    ----------
    scores, pooled : (u, p), (u, K)
        W_gᵀ r_g for slopes, and residuals of pooled bins.
    along, pull, hold : (u, p), (u,), (u,)
        D_g, r_g and e_g by what each level weighs, times e_g.
    white : (u, R, p)
        (Vᵀ Σ V)^(-1/2) Vᵀ D, and with it what each level weighs.
    square, side : (p, p), (p, K)
        Σ W_gᵀ Σ_g W_g, which is Σ W_gᵀ D_g, and Σ W_gᵀ Σ_g of pooled bins.
    covariance, derivative : (K, K), (K, p)
        Of pooled bins: Σ Σ_g and Σ D_g.
    reach : tuple of arrays
        What the border needs: Σ C_ℓᵀ C_ℓ, Σ C_ℓᵀ [D, r, pooled], Σ V_bᵀ C_g of pooled bins and what
        random intercepts add to the border.
    """

    scores: Any
    pooled: Any
    along: Any
    pull: Any
    hold: Any
    white: Any
    square: Any
    side: Any
    covariance: Any
    derivative: Any
    reach: tuple[FloatArray, ...] = ()


def location_part(
    problem: Problem, moments: Moments, said: Evidence, levels: Levels
) -> LocationPart:
    """Return what some groups contribute; of arrays or of tensors."""
    layout, units = problem.layout, moments.units
    stack, xp, p = layout.core, namespace(said.residual), said.derivative.shape[2]
    columns = [said.derivative, said.residual[:, :, None], said.shift[:, :, None]]
    if moments.across is not None:
        reached = problem.block_variance * moments.reached[:, None]
        columns.append(moments.across + said.shift[:, :, None] * reached)
    sigma, kept = _kept(problem, said, units, xp.concatenate(columns, 2))
    if levels.told is not None:
        told = like(sigma, levels.told[units])[:, :, None]
        sigma, kept = sigma * told * told.swapaxes(1, 2), kept * told
    v = level_matrix(problem, stack, like(sigma, levels.values[units]), said.shift)
    turned = v.swapaxes(1, 2)
    pool = like(sigma, _pool(problem, levels))
    own, across, beside = turned @ sigma, kept[:, :, p + 2 :], None
    levelled = [turned @ kept[:, :, : p + 2], own @ pool]
    if moments.across is not None:
        assert levels.border is not None
        assert layout.border is not None
        border = np.full((1, len(levels.border)), -1.0)
        beside = level_matrix(problem, layout.border, levels.border[None], border)[0]
        levelled.append(turned @ (across @ beside))
    white = _white_levels(own @ v, xp.concatenate(levelled, 2))
    d, r, e = white[:, :, :p], white[:, :, p], white[:, :, p + 1]
    n_pool = pool.shape[1]
    side = white[:, :, p + 2 : p + 2 + n_pool]

    def over(left: Any, right: Any) -> Any:
        """Return the sum of products over groups and levels."""
        flat = (e.reshape(e.shape[0] * e.shape[1], e.shape[2]) for e in (left, right))
        return long_product(*flat)

    def pooled(values: Any) -> Any:
        """Return the sum over the groups of pooled bins."""
        return pool.T @ values.sum(0)

    reach: tuple[FloatArray, ...] = ()
    if beside is not None:
        c = white[:, :, p + 2 + n_pool :]
        added = problem.block_variance * moments.reached.T @ moments.reached
        taken = over(c, np.concatenate([d, r[:, :, None], side], axis=2))
        reach = (over(c, c), taken, beside.T @ np.einsum("ulm,lk->mk", across, pool), added)
    return LocationPart(
        scores=(d * r[:, :, None]).sum(1),
        pooled=kept[:, :, p] @ pool,
        along=(d * e[:, :, None]).sum(1),
        pull=(e * r).sum(1),
        hold=(e**2).sum(1),
        white=d,
        square=over(d, d),
        side=over(d, side),
        covariance=pooled(sigma) @ pool,
        derivative=pooled(kept[:, :, :p]),
        reach=reach,
    )


def _white_levels(variance: Any, columns: Any) -> Any:
    """Multiply columns (u, R, w) by the inverse root of the covariance of levels (u, R, R)."""
    if variance.shape[1] == 1:
        xp = namespace(variance)
        v = variance[:, 0, 0]
        return columns / xp.sqrt(xp.where(v > 0, v, np.inf))[:, None, None]
    own = np.einsum("urr->ur", variance)
    size = np.sqrt(np.where(own > 0, own, 1.0))
    scaled = variance / (size[:, :, None] * size[:, None, :])
    found, _ = whiten(scaled, columns / size[:, :, None], own > 0)
    return found


def _pool(problem: Problem, levels: Levels) -> FloatArray:
    """Return what adds up the bins of the leading table over its blocks, (L, K)."""
    stack = problem.layout.core
    if levels.lead < 0:
        return np.zeros((stack.n_statistics, 0))
    j, found = levels.lead, np.zeros((stack.n_statistics, stack.size[levels.lead]))
    for r in range(stack.blocks[j].shape[1]):
        first = stack.first[j] + r * stack.size[j]
        found[first : first + stack.size[j]] += np.eye(stack.size[j])
    return found


def located(
    problem: Problem,
    parts: Sequence[LocationPart],
    border: Evidence | None,
    penalty: FloatArray,
    *,
    held: bool = False,
) -> Location:
    """Put the contributions of all groups together; of arrays or of tensors."""
    n, p = problem.coordinates.n_slopes, len(penalty)
    concatenate = namespace(parts[0].scores).concatenate

    def total(name: str) -> FloatArray:
        return np.asarray(brought(reduce(add, [getattr(part, name) for part in parts])))

    def joined(name: str) -> Any:
        return concatenate([getattr(part, name) for part in parts])

    covariance, derivative = total("covariance"), total("derivative")
    weights = np.zeros((len(covariance), p - n))
    if len(covariance) and not held:
        weights = np.asarray(solve_scaled(covariance, derivative[:, n:]))
    own, residual = joined("scores"), joined("pooled")
    scores = concatenate([own[:, :n], residual @ like(residual, weights)], 1)
    square, side, beyond = total("square")[:n], total("side")[:n], np.zeros(p)
    added, more, taken = np.zeros((p, p)), np.zeros((1, 1)), None
    if varied(problem) and border is None:
        less, taken = _profiled(problem, *map(joined, ("along", "pull", "hold")))
        scores[:, :n] -= less[:, :n]
        square = square - taken.sum(0)[:n]
    elif varied(problem):
        more = _further_variance(problem, joined("along")[:, :n])
    if border is not None:
        white, r, across = _border_levels(problem, parts, border)
        beyond[:n] = (white.T @ r)[:n]
        added[:n, :n] = (white.T @ white)[:n, :n]
        square = square + (white.T @ white)[:n]
        side = side + (white.T @ across)[:n]
    slope = np.concatenate([square, weights.T @ derivative])
    side, model = side @ weights, np.zeros((p, p))
    model[:n, :n], model[:n, n:], model[n:, :n] = square[:, :n] + more, side, side.T
    model[n:, n:] = weights.T @ covariance @ weights
    if not weights.any():  # nuisance parameters stay where the full score has them
        slope[n:] = 0.0
        slope[n:, n:] = np.eye(p - n)
    bread = np.linalg.pinv(slope + np.diag(penalty))
    cluster = clusters(problem, len(scores))
    leveraged = _leveraged(joined("white")[:, :, :n], bread[:n, :n], scores, cluster, taken)
    spread = bread @ model @ bread.T
    scores = summed(scores, cluster)
    return Location(scores, leveraged, beyond, bread, spread, bread @ added @ bread.T)


def _profiled(
    problem: Problem, along: FloatArray, pull: FloatArray, hold: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return what random intercepts above the groups take from scores, and from information.

    (G, p) and, by cluster, (S, p, p): those of :func:`unbin.likelihood.model.score.score_sums`.
    """
    first, tables = first_cells(problem), varied(problem)
    sizes = [problem.n_blocks[t] for t in tables]
    before = np.cumsum([0, *sizes[:-1]])
    codes = [a + problem.partitions[t][first] for a, t in zip(before, tables, strict=True)]
    reached, inner = np.zeros((sum(sizes), along.shape[1])), np.zeros((sum(sizes),) * 2)
    for one in codes:
        np.add.at(reached, one, along)
        for other in codes:
            np.add.at(inner, (one, other), hold)
    inner += np.diag(1 / np.repeat([problem.further[t] for t in tables], sizes))
    weight = np.asarray(np.linalg.solve(inner, reached))
    taken = taken_by_cluster(problem, reached, weight)
    return pull[:, None] * np.sum([weight[one] for one in codes], axis=0), taken


def _further_variance(problem: Problem, along: Any) -> FloatArray:
    """Return what random intercepts above the groups add to the variance of the score."""
    first, total = first_cells(problem), np.zeros((1, 1))
    for t in varied(problem):
        reached = summed(along, problem.partitions[t][first])
        total = total + problem.further[t] * reached.T @ reached
    return total


def _leveraged(
    white: Any,
    bread: FloatArray,
    scores: Any,
    cluster: IntArray | None,
    taken: FloatArray | None,
) -> Any:
    """Return the scores as if their group, or cluster, had not been fitted, (G, p).

    ``taken`` (S, p, p) is what their effects take from the information of clusters.
    """
    if white.shape[1] == 1 and cluster is None:
        level = white[:, 0]
        leverage = ((level @ like(level, bread)) * level).sum(1)
        return scores / (1 - leverage).clip(_LEAST_OWN)[:, None]
    n, found = bread.shape[0], np.array(summed(scores, cluster))
    inside = summed(white.swapaxes(1, 2) @ white, cluster)
    if taken is not None:
        inside = inside - taken[:, :n, :n]
    left = np.eye(n) - inside @ bread
    found[:, :n] = np.einsum("gij,gj->gi", np.linalg.pinv(left, _LEAST_OWN**2), found[:, :n])
    return found


def _border_levels(
    problem: Problem, parts: Sequence[LocationPart], said: Evidence
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what the levels of the border say beyond those of the groups.

    Their derivative, their residual and their covariance with pooled bins, whitened.
    """
    stack = problem.layout.border
    assert stack is not None
    square, taken, pooled, added = (
        reduce(add, each) for each in zip(*(part.reach for part in parts), strict=True)
    )
    values = level_values(problem).border
    assert values is not None
    v = level_matrix(problem, stack, values[None], said.shift)[0]
    there = np.abs(v).sum(axis=0) > 0
    own = said.covariance[0] + added
    variance = v.T @ own @ v - square
    p = problem.coordinates.n_free
    d = v.T @ said.derivative[0][:, :p] - taken[:, :p]
    r = v.T @ said.residual[0] - taken[:, p]
    side = pooled - taken[:, p + 1 :]
    keep = np.flatnonzero(there)
    root = left_root(variance[np.ix_(keep, keep)], np.diag(v.T @ own @ v)[keep])
    return root @ d[keep], root @ r[keep], root @ side[keep]


def share_of_shape(full: FloatArray, location: FloatArray, slopes: slice) -> FloatArray:
    """Return 1 - V_full/V_location of each slope: how much of its information is from the shape."""
    ours, theirs = np.diag(full)[slopes], np.diag(location)[slopes]
    ok = (theirs > 0) & (ours > 0)
    return np.where(ok, np.clip(1 - ours / np.where(ok, theirs, 1.0), 0.0, 1.0), np.nan)


def _kept(problem: Problem, said: Evidence, units: slice, columns: Any) -> tuple[Any, Any]:
    """Return the covariance of statistics as far as they are known, and columns likewise.

    Of hidden ones what is known is their expectation given what was published: with S their
    covariance and Σ that of the noisy numbers that stand for them, S Σ⁻¹ times these.
    """
    sigma = variance_of(said, problem.block_variance)
    if not said.hidden.shape[2]:
        return sigma, columns
    used = problem.stacked[0].used[units][:, :, None]
    bare = sigma - said.hidden @ said.hidden.swapaxes(1, 2)
    wide = np.concatenate([columns, bare], axis=2) * used
    kept = bare @ np.linalg.solve(masked(sigma, used[:, :, 0]), wide)
    return kept[:, :, columns.shape[2] :], kept[:, :, : columns.shape[2]]
