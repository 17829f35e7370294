"""People of each block by group and category: what ecological inference asks for.

With N_bg the counts of group g in block b, m_bg their expectation and V_bg their covariance, which
is also that with the counts c_b of the block,

    E[N_bg | c_b] = m_bg + V_bg V_b⁻¹ r_b,    Var = V_bg - V_bg V_b⁻¹ V_bg + L C Lᵀ,

L = D_bg - V_bg V_b⁻¹ D_b and C the covariance of the contrasts. Cells are then raked to both
margins, which they meet exactly, and intervals kept within what these leave possible (Duncan and
Davis).

References
----------
Duncan, O. D. and Davis, B. (1953). An alternative to ecological correlation. *American Sociological
Review*, 18, 665-666.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, logit, ndtri

from unbin._typing import BoolArray, FloatArray
from unbin.categories.problem import CategoryProblem, between_contrasts, contrasts
from unbin.categories.scores import with_context
from unbin.categories.softmax import Softmax, covariances, law_of_rows, with_ones
from unbin.categories.solver import Root
from unbin.rows.design import BlockSums
from unbin.rows.rows import Rows

_LEAST = 0.02
"""Share of its expectation that a cell has at least before it is raked."""
_ROUNDS = 1000
_SETTLED = 1e-9
"""Largest error of a margin, as a share of the people, at which raking ends."""
_TILE_CELLS = 1 << 18


@dataclass(frozen=True, slots=True)
class Cells:
    """People by group and category.

    Attributes
    ----------
    count : (B, G, K)
        Of each block, meeting its margins.
    variance : (B, G, K)
        Of these counts.
    people : (B, G)
        Of each group.
    total_variance : (G, K)
        Of the sums over all blocks, which share the error of the contrasts.
    least, most : (B, G, K)
        What the margins leave possible.
    """

    count: FloatArray
    variance: FloatArray
    people: FloatArray
    total_variance: FloatArray
    least: FloatArray
    most: FloatArray


def cells_of(problem: CategoryProblem, root: Root, covariance: FloatArray) -> Cells:
    """Return the cells of all blocks of the first table."""
    basis, first = contrasts(problem.n_categories), root.sums.first
    n_blocks, n_groups, k = first.mean.shape
    size, width = problem.n_categories - 1, first.weighted.shape[2]
    law = problem.law(root.gamma)
    can = np.isfinite(law.shift)
    sums = problem.design.total(cell_sums, law, problem.context)
    people = np.zeros(n_blocks * n_groups)
    cross = np.zeros((n_blocks * n_groups, *sums.arrays[1].shape[1:]))
    people[sums.blocks], cross[sums.blocks] = sums.arrays
    people = people.reshape(n_blocks, n_groups)
    derivative = between_contrasts(cross, k, 1)
    derivative = derivative.reshape(n_blocks, n_groups, size, width)
    own = first.by_group + root.variance[:, None, None] * first.variance
    gain = own @ first.inverse[:, None]
    mean = first.mean + np.einsum("bgac,bc->bga", gain, first.residual) @ basis.T
    left = own - gain @ own
    moved = derivative - own @ first.weighted[:, None]
    by_contrasts = np.einsum("bgap,pq,bgcq->bgac", moved, covariance, moved, optimize=True)
    summed = moved.sum(axis=0)
    total = left.sum(axis=0) + np.einsum("gap,pq,gcq->gac", summed, covariance, summed)
    column = problem.counts.count
    known = problem.counts.known
    count = np.where((known & (column >= 0).all(axis=1))[:, None, None],
                     rake(can * np.maximum(mean, _LEAST * first.mean), people, column),
                     first.mean)  # fmt: skip
    least, most = bounds(people, column, can)
    unknown = ~known[:, None, None]
    return Cells(
        count=count,
        variance=_of_categories(basis, left + by_contrasts),
        people=people,
        total_variance=_of_categories(basis, total),
        least=np.where(unknown, 0.0, least),
        most=np.where(unknown, people[:, :, None], most),
    )


def together(cells: Cells) -> Cells:
    """Return the cells of all blocks added up, as those of one block."""
    count, people, least, most = (
        each.sum(axis=0, keepdims=True)
        for each in (cells.count, cells.people, cells.least, cells.most)
    )
    return Cells(count, cells.total_variance[None], people, cells.total_variance, least, most)


def bounds(people: FloatArray, column: FloatArray, can: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return the fewest and the most people that margins leave possible in each cell, (B, G, K).

    Parameters
    ----------
    people : (B, G)
    column : (B, K)
    can : (B, G, K) bool
        Whether people of a group can be in a category.
    """
    rows, columns = can * people[:, :, None], can * column[:, None]
    others = rows.sum(axis=1, keepdims=True) - rows, columns.sum(axis=2, keepdims=True) - columns
    least = np.maximum(np.maximum(columns - others[0], rows - others[1]), 0.0)
    return least, np.minimum(rows, columns)


def _of_categories(basis: FloatArray, between: FloatArray) -> FloatArray:
    """Return the variances of categories from covariances of contrasts (…, L, L), (…, K)."""
    return np.asarray(np.maximum(np.einsum("ka,...ac,kc->...k", basis, between, basis), 0.0))


def cell_sums(rows: Rows, law: Softmax, context: FloatArray | None) -> BlockSums:
    """Return the people of each block and group, and Σ W by column, (b, K (K + 1) / 2, P)."""
    total: BlockSums | None = None
    width = len(law.theta) * (len(law.theta) + 1) // 2
    for tile in rows.tiles(max(1, _TILE_CELLS // (width * (law.theta.shape[1] + 1)))):
        q, group = law_of_rows(rows, law, tile)
        code = rows.codes(tile)
        x = with_context(with_ones(rows, tile), law, group, context, code)
        w = rows.weighed(covariances(q), tile)
        found, place = np.unique(code * law.groups.n + group, return_inverse=True)
        n = len(q)
        adds = csr_array((np.ones(n), (place, np.arange(n))), shape=(len(found), n))
        cross = np.asarray(adds @ (w[:, :, None] * x[:, None, :]).reshape(n, -1))
        people = np.asarray(adds @ rows.weighed(np.ones(n), tile))
        own = BlockSums(found, (people, cross.reshape(len(found), width, x.shape[1])))
        total = own if total is None else total + own
    assert total is not None
    return total


def rake(cells: FloatArray, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Scale cells (B, G, K) by rows and by columns until they meet both margins of each block.

    Parameters
    ----------
    rows : (B, G)
    columns : (B, K)
        Scaled to the sum of the rows first, where the two differ.
    """
    total = rows.sum(axis=1, keepdims=True)
    counted = columns.sum(axis=1, keepdims=True)
    columns = columns * total / np.where(counted > 0, counted, 1.0)
    found, left = cells.copy(), np.arange(len(cells))
    close = _SETTLED * max(float(total.max(initial=0.0)), 1)
    for _ in range(_ROUNDS):
        some = found[left]
        some *= _ratio(columns[left], some.sum(axis=1))[:, None, :]
        row, found[left] = some.sum(axis=2), some
        off = np.abs(row - rows[left]).max(axis=1, initial=0.0) > close
        if not off.any():
            break
        left = left[off]
        found[left] *= _ratio(rows[left], row[off])[:, :, None]
    return found


def _ratio(wanted: FloatArray, got: FloatArray) -> FloatArray:
    return np.where(got > 0, wanted / np.where(got > 0, got, 1.0), 0.0)


def interval(
    count: FloatArray,
    variance: FloatArray,
    people: FloatArray,
    least: FloatArray,
    most: FloatArray,
    level: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of intervals of counts, normal on the logit scale of their share.

    Half a person is added on both sides: people are whole.
    """
    size = np.maximum(people, 1e-300)
    share = np.clip(count / size, 1e-6, 1 - 1e-6)
    error = np.sqrt(variance) / size / (share * (1 - share))
    away = ndtri(0.5 + level / 2) * error
    low = size * expit(logit(share) - away) - 0.5
    high = size * expit(logit(share) + away) + 0.5
    return np.clip(np.minimum(low, count), least, most), np.clip(
        np.maximum(high, count), least, most
    )
