"""How precise contrasts are, and whether blocks differ for reasons related to the features.

One table: the sandwich by block (CR3), as :mod:`unbin.likelihood.infer.estimate` has it. Several
tables count the same people, so that the variance of their added scores is a sum over people,
M = Σ_i A_iᵀ W_i A_i + Σ_bg s_g h_bg h_bgᵀ with A_i = Σ_t V_t⁻¹ D_t of the blocks of person i and
h_bg = Σ_i in b, g A_iᵀ W_i. With priors of the levels of groups it is the posterior covariance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.special import chdtrc

from unbin._linalg import inverse_form, solve_scaled
from unbin._typing import FloatArray, IntArray
from unbin.categories.problem import CategoryProblem, between_contrasts
from unbin.categories.scores import BlockScores, Sums
from unbin.categories.softmax import Softmax, covariances, law_of_rows
from unbin.categories.solver import Root
from unbin.likelihood.infer.estimate import Errors, informed, sandwich
from unbin.likelihood.infer.specification import Test
from unbin.likelihood.model.score import summed
from unbin.likelihood.thresholds import MOST_LEVERAGE
from unbin.rows.rows import Rows

_TILE_CELLS = 1 << 19
_ENOUGH = 2
"""Blocks per parameter, slopes of the block means included, for a test of contextual effects."""


@dataclass(frozen=True, slots=True)
class Precision:
    """The covariance of the contrasts (L P, L P), the degrees of freedom of intervals, its kind."""

    covariance: FloatArray
    df: float
    errors: Errors


def precision_of(problem: CategoryProblem, root: Root, *, bayesian: bool) -> Precision:
    """Return how precise contrasts are; ``bayesian`` where levels of groups have a prior."""
    bread = root.covariance()
    kind = Errors.POSTERIOR if bayesian else Errors.MODEL
    if len(problem.tables) > 1 or problem.known is not None:
        meat = score_variance(problem, root) + root.prior.of_all()
        return Precision(bread @ meat @ bread, float("inf"), kind)
    first, n_slopes = root.sums.first, problem.n_columns
    if bayesian and problem.cluster is None:
        return Precision(bread, float("inf"), kind)
    if bayesian:
        scores = summed(first.scores, problem.cluster)
        n = informed(scores)
        meat = scores.T @ scores * (n / max(n - 1, 1)) + root.prior.of_all()
        return Precision(bread @ meat @ bread, float(max(n - 1, 1)), Errors.CR1)
    penalty = np.tile(np.diag(root.prior.precision), problem.n_categories - 1)
    told = summed(np.einsum("bap,bap->bp", first.weighted, _derivatives(first)), problem.cluster)
    support = told.sum(axis=0) ** 2 / np.maximum((told**2).sum(axis=0), 1e-300)
    n_told = int((told.sum(axis=1) > 0).sum())
    scores, enough = summed(first.scores, problem.cluster), len(bread) <= MOST_LEVERAGE * n_told
    if problem.cluster is not None:
        enough = n_slopes < n_told
    if enough:
        scores = _leveraged(root.sums, bread, problem.cluster)
    df = float(first.df.sum()) - len(bread)
    ratio = float(first.misfit.sum()) / df if df > 0 else 1.0
    information = root.sums.information
    inner = solve_scaled(information + np.diag(penalty), np.eye(len(penalty)))
    found, errors = sandwich(
        inner,
        information,
        scores,
        ratio=ratio,
        leveraged=enough,
        support=support,
        n_fitted=None if problem.cluster is None else n_slopes,
    )
    n_blocks = informed(scores)
    fitted = n_slopes if problem.cluster is None else 1
    return Precision(found, float(max(n_blocks - fitted, 1)), errors)


def _derivatives(first: BlockScores) -> FloatArray:
    """Return D_b of all blocks, (B, L, L P), from V_b⁻¹ D_b."""
    return np.asarray(np.linalg.pinv(first.inverse) @ first.weighted)


def _leveraged(sums: Sums, bread: FloatArray, cluster: IntArray | None) -> FloatArray:
    """Return the scores of blocks, or clusters, as if these had not been fitted to, (B, L P)."""
    first = sums.first
    if cluster is not None:
        own = summed(_derivatives(first).swapaxes(1, 2) @ first.weighted, cluster)
        left = np.linalg.pinv(np.eye(len(bread)) - own @ bread)
        return np.asarray((left @ summed(first.scores, cluster)[:, :, None])[:, :, 0])
    size = first.inverse.shape[1]
    # H_b = D_b J⁻¹ D_bᵀ V_b⁻¹, and V_b⁻¹ (I - H_b)⁻¹ r_b with V_b⁻¹ taken in front
    spread = first.weighted @ bread @ first.weighted.swapaxes(1, 2)
    held = np.linalg.pinv(first.inverse)
    left = np.eye(size) - spread @ held
    x = np.einsum("bac,bc->ba", first.inverse, first.residual)
    moved = np.linalg.solve(left, x[:, :, None])
    return np.asarray((first.weighted.swapaxes(1, 2) @ held @ moved)[:, :, 0])


# -- several tables of the same people -------------------------------------------------------------


def score_variance(problem: CategoryProblem, root: Root) -> FloatArray:
    """Return the variance of the added scores of several tables, and of known people."""
    sums, law = root.sums, problem.law(root.gamma)
    if sums.known is not None and not problem.counts.known.any():
        return sums.known
    weighted = tuple(table.weighted for table in (sums.first, *sums.others))
    meat, moved = problem.design.total(
        variance_sums, law, weighted, (len(problem.counts.n), problem.groups.n)
    )
    total = meat + np.einsum("g,bgpa,bgqa->pq", root.variance, moved, moved, optimize=True)
    for table, noise in zip((sums.first, *sums.others), problem.noise_sd, strict=True):
        total -= table.lost
        total += noise**2 * np.einsum("bap,baq->pq", table.weighted, table.weighted)
    if sums.known is not None:
        total += sums.known
    return np.asarray(total)


def variance_sums(
    rows: Rows, law: Softmax, weighted: tuple[FloatArray, ...], shape: tuple[int, int]
) -> tuple[FloatArray, FloatArray]:
    """Return Σ A_iᵀ W_i A_i, and Σ A_iᵀ W_i by block and group, (B, G, L P, L)."""
    _, size, width = weighted[0].shape
    meat, moved = np.zeros((width, width)), np.zeros((shape[0] * shape[1], width * size))
    for tile in rows.tiles(max(1, _TILE_CELLS // (size * width))):
        q, group = law_of_rows(rows, law, tile)
        between = between_contrasts(covariances(q), len(law.theta), 1)
        code = rows.codes(tile)
        codes = (code, *(other[tile] for other in rows.others))
        parts = zip(weighted, codes, strict=True)
        each = sum((table[place] for table, place in parts), np.zeros((len(q), size, width)))
        turned = rows.weighed(between @ each, tile)
        meat += each.reshape(-1, width).T @ turned.reshape(-1, width)
        n, place = len(q), code * shape[1] + group
        adds = csr_array((np.ones(n), (place, np.arange(n))), shape=(len(moved), n))
        moved += adds @ turned.swapaxes(1, 2).reshape(n, -1)
    return meat, moved.reshape(*shape, width, size)


# -- contextual effects ----------------------------------------------------------------------------


def context_test(problem: CategoryProblem, root: Root, means: FloatArray) -> Test | None:
    """Test that block means (B, Q) of the features have no effect of their own.

    A score test, with the covariance of the model, of slopes that are the same for all groups; None
    where blocks are too few.
    """
    first, size = root.sums.first, problem.n_categories - 1
    used = means.std(axis=0) > 0
    means = means[:, used]
    n_added = size * means.shape[1]
    known = int(problem.counts.known.sum())
    if not n_added or known < _ENOUGH * (first.scores.shape[1] + n_added):
        return None
    shift = first.by_group.sum(axis=1)
    added = np.einsum("bac,bq->bacq", shift, means).reshape(len(means), size, -1)
    turned = first.inverse @ added
    score = np.einsum("bap,ba->p", turned, first.residual)
    own = np.einsum("bap,baq->pq", turned, added, optimize=True)
    across = np.einsum("bap,baq->pq", first.weighted, added, optimize=True)
    left = own - across.T @ root.covariance() @ across
    # the score of what was fitted is 0 at the root, but for a prior
    pulled = root.prior.pull(root.gamma).ravel()
    score = score + across.T @ solve_scaled(root.sums.information, pulled)
    statistic, rank = inverse_form(score, left)
    return Test(statistic, rank, float("inf"), float(chdtrc(rank, statistic))) if rank else None
