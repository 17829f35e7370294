"""The quasi-score of published counts of categories, its information, and scores of variances.

With r_b the contrasts Cᵀ (c_b - m_b) of the counts of block b less what is expected, and D_b their
derivatives, U = Σ D_bᵀ V_b⁻¹ r_b and J = Σ D_bᵀ V_b⁻¹ D_b, where

    V_b = Σ_i W_i + Σ_g s_g (A_bg A_bg - Σ_i in g W_i²),    A_bg = Σ_i in b, g W_i,

all between contrasts: people are independent given an effect per block, group and category on the
predictors, of variance s_g. Variances are scored by restricted maximum likelihood, with C = (J +
prior)⁻¹, M_bg = ∂V_b/∂s_g and x_b = V_b⁻¹ r_b:

    ∂/∂s_g = -½ Σ_b tr(M_bg (V_b⁻¹ - V_b⁻¹ D_b C D_bᵀ V_b⁻¹ - x_b x_bᵀ)).

Further tables of the same people add their own scores (:mod:`unbin.likelihood.joint`), and people
whose category is known those of an ordinary multinomial logit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from unbin._typing import FloatArray, IntArray
from unbin.categories.problem import CategoryProblem, between_contrasts, contrasts
from unbin.categories.softmax import (
    Softmax,
    category_sums,
    covariances,
    law_of_rows,
    pairs,
    with_ones,
)
from unbin.likelihood.data.counts import PublishedCounts
from unbin.likelihood.data.hidden import expected_within
from unbin.likelihood.model.score import less_information
from unbin.rows.design import BlockSums
from unbin.rows.rows import Rows

_FLOOR, _FLOOR_PER_PERSON = 0.01, 1e-4
"""Variance that every contrast of a block has at least: one person more or less in a category that
hardly anybody is in is no news."""
_TILE_CELLS = 1 << 18
_TINY = 1e-300
_ROUNDING = 1e-10
"""Share of a sum that may be rounding."""


@dataclass(frozen=True, slots=True)
class BlockScores:
    """What some blocks of the first table contribute, b of them; L contrasts, G groups.

    Attributes
    ----------
    scores : (b, L P)
    information, lost : (L P, L P)
        The latter is what hidden counts take.
    inverse : (b, L, L)
        V_b⁻¹; zeros where nothing was published.
    weighted : (b, L, L P)
        V_b⁻¹ D_b; of other tables than the first too.
    residual : (b, L)
    mean : (b, G, K)
        Expected counts by group.
    by_group : (b, G, L, L)
        A_bg.
    variance : (b, G, L, L)
        M_bg.
    misfit, df : (b,)
        r_bᵀ V_b⁻¹ r_b and its expectation.
    """

    scores: FloatArray
    information: FloatArray
    lost: FloatArray
    inverse: FloatArray
    weighted: FloatArray
    residual: FloatArray
    mean: FloatArray
    by_group: FloatArray
    variance: FloatArray
    misfit: FloatArray
    df: FloatArray


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over all blocks at some contrasts.

    Attributes
    ----------
    score : (L P,)
        U, without the prior.
    information : (L P, L P)
        J.
    first : BlockScores
        Of all blocks of the first table.
    others : tuple of BlockScores
    known : (L P, L P) or None
        The part of ``information`` that known people have.
    deviance : float
        -2 log likelihood of known people.
    """

    score: FloatArray
    information: FloatArray
    first: BlockScores
    others: tuple[BlockScores, ...] = ()
    known: FloatArray | None = None
    deviance: float = 0.0

    def form(self, inverse: tuple[FloatArray, ...]) -> float:
        """Return Σ r_bᵀ A_b r_b of all tables, and the deviance of known people."""
        tables = (self.first, *self.others)
        each = zip(tables, inverse, strict=True)
        forms = [np.einsum("ba,bac,bc->", t.residual, w, t.residual) for t, w in each]
        return float(sum(forms)) + self.deviance

    @property
    def inverses(self) -> tuple[FloatArray, ...]:
        """V_b⁻¹ of all tables."""
        return (self.first.inverse, *(table.inverse for table in self.others))


def score_sums(problem: CategoryProblem, gamma: FloatArray, variance: FloatArray) -> Sums:
    """Return the quasi-score of all tables at contrasts (L, P) and variances (G,)."""
    law = problem.law(gamma)
    if problem.counts.known.any():
        then = partial(_first_table, problem, variance)
        first = joined(list(problem.design.by_block(category_sums, law, then=then)))
    else:
        first = _nothing(problem, gamma.size)
    information = less_information(first.information, first.lost)
    score, others, known, deviance = first.scores.sum(axis=0), [], None, 0.0
    for t in range(1, len(problem.tables)):
        sums = problem.design.total(other_sums, law, t - 1, problem.context)
        table = _other_table(problem, t, sums)
        score = score + table.scores.sum(axis=0)
        information = information + less_information(table.information, table.lost)
        others.append(table)
    if problem.known is not None:
        own, known, deviance = known_sums(problem, law)
        score, information = score + own, information + known
    return Sums(score, information, first, tuple(others), known, deviance)


def _nothing(problem: CategoryProblem, size: int) -> BlockScores:
    """Return the scores of no blocks."""
    k, g = problem.n_categories, problem.groups.n
    none = np.zeros((0, g, k - 1, k - 1))
    return BlockScores(
        scores=np.zeros((0, size)),
        information=np.zeros((size, size)),
        lost=np.zeros((size, size)),
        inverse=np.zeros((0, k - 1, k - 1)),
        weighted=np.zeros((0, k - 1, size)),
        residual=np.zeros((0, k - 1)),
        mean=np.zeros((0, g, k)),
        by_group=none,
        variance=none,
        misfit=np.zeros(0),
        df=np.zeros(0),
    )


def joined(parts: list[BlockScores]) -> BlockScores:
    """Put some blocks after the others; their informations add."""
    if len(parts) == 1:
        return parts[0]
    stacked = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in BlockScores.__dataclass_fields__
        if name not in ("information", "lost")
    }
    information, lost = (
        np.sum([getattr(part, name) for part in parts], axis=0) for name in ("information", "lost")
    )
    return BlockScores(information=information, lost=lost, **stacked)


def _first_table(
    problem: CategoryProblem, variance: FloatArray, blocks: slice, sums: tuple[FloatArray, ...]
) -> BlockScores:
    """Score some blocks of the table by which the rows are laid out."""
    mean, cross, spread, square = sums
    k = problem.n_categories
    by_group = between_contrasts(spread, k, 2)
    all_pairs = by_group @ by_group
    twice = all_pairs - between_contrasts(square, k, 2)
    # one person, and rows that stand for less than one, have no pairs
    size = [np.trace(each, axis1=2, axis2=3) for each in (twice, all_pairs)]
    twice *= (size[0] > _ROUNDING * size[1])[:, :, None, None]
    derivative = between_contrasts(cross, k, 1)
    if problem.context is not None:
        context = problem.context[blocks]
        moved = np.einsum("bgac,bq->bacgq", by_group, context)
        moved = moved.reshape(*derivative.shape[:3], -1)
        derivative = np.concatenate([derivative, moved], axis=3)
    covariance = by_group.sum(axis=1) + np.einsum("g,bgac->bac", variance, twice)
    scored = _scored(problem, 0, blocks, mean.sum(axis=1), derivative, covariance)
    return replace(scored, mean=mean, by_group=by_group, variance=twice)


def _scored(
    problem: CategoryProblem,
    t: int,
    blocks: slice | IntArray,
    mean: FloatArray,
    derivative: FloatArray,
    covariance: FloatArray,
) -> BlockScores:
    """Weigh the counts of some blocks of a table by the inverse of their covariance.

    Parameters
    ----------
    mean : (b, K)
    derivative : (b, L, L, P)
    covariance : (b, L, L)
        Between contrasts.
    """
    counts, basis = problem.tables[t], contrasts(problem.n_categories)
    size = derivative.shape[1]
    target, root = counts.count[blocks], np.zeros((len(mean), problem.n_categories, 0))
    if counts.low is not None:
        target, root = _expected(counts, mean, basis @ covariance @ basis.T, blocks)
    people = counts.n[blocks]
    floor = problem.noise_sd[t] ** 2 + np.minimum(_FLOOR, _FLOOR_PER_PERSON * people)
    inverse = np.linalg.inv(covariance + floor[:, None, None] * np.eye(size))
    inverse = inverse * counts.known[blocks][:, None, None]
    residual = (target - mean) @ basis
    flat = derivative.reshape(len(mean), size, -1)
    weighted = inverse @ flat
    x = np.einsum("bac,bc->ba", inverse, residual)
    lost = np.einsum("bap,bak->bkp", weighted, basis.T @ root).reshape(-1, flat.shape[2])
    hidden = np.einsum("bac,bak,bck->b", inverse, basis.T @ root, basis.T @ root)
    tall = flat.reshape(-1, flat.shape[2]), weighted.reshape(-1, flat.shape[2])
    return BlockScores(
        scores=np.einsum("bap,ba->bp", weighted, residual),
        information=tall[0].T @ tall[1],
        lost=lost.T @ lost,
        inverse=inverse,
        weighted=weighted,
        residual=residual,
        mean=mean[:, None],
        by_group=covariance[:, None],
        variance=np.zeros((len(mean), 0, size, size)),
        misfit=np.einsum("ba,ba->b", x, residual),
        df=np.einsum("bac,bca->b", inverse, covariance + problem.noise_sd[t] ** 2 * np.eye(size))
        - hidden,
    )


def _expected(
    counts: PublishedCounts, mean: FloatArray, covariance: FloatArray, blocks: slice | IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return expected counts where counts are hidden, and the root of their variance."""
    assert counts.low is not None
    assert counts.high is not None
    some = replace(
        counts, count=counts.count[blocks], low=counts.low[blocks], high=counts.high[blocks]
    )
    return expected_within(some, mean, covariance, slice(None))


# -- further tables, and people who are known ------------------------------------------------------


def with_context(
    x: FloatArray, law: Softmax, group: IntArray, context: FloatArray | None, code: IntArray
) -> FloatArray:
    """Return columns of rows with those of the contextual slopes of their group, (n, P)."""
    if context is None:
        return x
    each = np.zeros((len(x), law.groups.n, context.shape[1]))
    inside = code >= 0
    each[np.flatnonzero(inside), group[inside]] = context[code[inside]]
    return np.concatenate([x, each.reshape(len(x), -1)], axis=1)


def other_sums(rows: Rows, law: Softmax, t: int, context: FloatArray | None) -> BlockSums:
    """Return, by block of a further partition, Σ q, Σ W by feature and Σ W, over people."""
    (n_categories, _), codes = law.theta.shape, rows.others[t]
    found, place = np.unique(codes, return_inverse=True)
    width = n_categories * (n_categories + 1) // 2
    n_columns = with_context(
        with_ones(rows, slice(0, 1)), law, np.zeros(1, int), context, np.zeros(1, int)
    ).shape[1]
    mean, spread = np.zeros((len(found), n_categories)), np.zeros((len(found), width))
    cross = np.zeros((len(found), width * n_columns))
    for tile in rows.tiles(max(1, _TILE_CELLS // (width * n_columns))):
        q, group = law_of_rows(rows, law, tile)
        x = with_context(with_ones(rows, tile), law, group, context, rows.codes(tile))
        w = rows.weighed(covariances(q), tile)
        n = len(q)
        adds = csr_array((np.ones(n), (place[tile], np.arange(n))), shape=(len(found), n))
        mean += np.asarray(adds @ rows.weighed(q, tile))
        spread += adds @ w
        cross += np.asarray(adds @ (w[:, :, None] * x[:, None, :]).reshape(n, -1))
    return BlockSums(found, (mean, cross.reshape(len(found), width, n_columns), spread))


def _other_table(problem: CategoryProblem, t: int, sums: BlockSums) -> BlockScores:
    """Score the blocks of a further table; effects of the first are in the score's variance."""
    k, (mean, cross, spread) = problem.n_categories, sums.arrays
    derivative = between_contrasts(cross, k, 1)
    covariance = between_contrasts(spread, k, 1)
    return _scored(problem, t, sums.blocks, mean, derivative, covariance)


def known_sums(problem: CategoryProblem, law: Softmax) -> tuple[FloatArray, FloatArray, float]:
    """Return the score of people whose category is known, (L P,), its information and deviance."""
    assert problem.known is not None
    known, basis = problem.known, contrasts(problem.n_categories)
    score, gram, deviance = known.design.total(
        known_rows, law, known.category, known.block, problem.context
    )
    a, b = pairs(problem.n_categories)
    size, n_columns = problem.n_categories - 1, gram.shape[-1]
    information = np.zeros((size, n_columns, size, n_columns))
    for j, (k, m) in enumerate(zip(a, b, strict=True)):
        both = np.outer(basis[k], basis[m])
        both = both if k == m else both + both.T
        information += both[:, None, :, None] * gram[j][None, :, None, :]
    flat = information.reshape(size * n_columns, size * n_columns)
    return (basis.T @ score).ravel(), flat, float(deviance)


def known_rows(
    rows: Rows, law: Softmax, category: IntArray, block: IntArray, context: FloatArray | None
) -> tuple[FloatArray, FloatArray, float]:
    """Return Σ (y - q) x (K, P), Σ W x xᵀ by pair of categories, and -2 Σ log q.

    The second has the shape (K (K + 1) / 2, P, P).
    """
    own_law = replace(law, shift=_shifts(law, block))
    score, gram, deviance = np.zeros(0), np.zeros(0), 0.0
    n_categories = len(law.theta)
    width = n_categories * (n_categories + 1) // 2
    for tile in rows.tiles(max(1, _TILE_CELLS // width)):
        q, group = law_of_rows(rows, own_law, tile)
        codes = rows.codes(tile)
        x = with_context(with_ones(rows, tile), law, group, context, block[codes])
        away, own = -q, (np.arange(len(q)), category[codes])
        away[own] += 1.0
        deviance -= 2 * float(rows.weighed(np.log(np.maximum(q[own], _TINY)), tile).sum())
        w = rows.weighed(covariances(q), tile)
        if not len(score):
            score = np.zeros((n_categories, x.shape[1]))
            gram = np.zeros((width, x.shape[1], x.shape[1]))
        score += rows.weighed(away, tile).T @ x
        for j in range(width):
            gram[j] += (x * w[:, j, None]).T @ x
    return score, gram, deviance


def _shifts(law: Softmax, block: IntArray) -> FloatArray:
    """Return the shifts of people in these blocks; those outside the table have none."""
    shift = law.shift[block]
    shift[block < 0] = 0.0
    return shift
