"""Published order statistics: medians, quartiles, minima.

They are values, not edges: how many people lie below a published median is fixed by design, and
what is random is where it lies. With G(s, u) = Σ_i F_i(s; eta_i + u) the expected number of people
of a block at or below s, eta moved by u, each value s_j of rank t_j is read as the move z_j at
which it would be the expected one:

    G(s_j, z_j) = t_j*,    t_j* = (t_j - 1/3) n/(n + 1/3)

(at t* the value of rank t is as likely above as below s). The moves of a block are jointly normal
around its effect: with e_j = ∂G/∂u and S_jk = Σ_i F_ij (1 - F_ik), j ≤ k, the covariance of the
numbers of people at or below,

    z ~ N(0, (S_jk / (e_j e_k)) + τ²),

whatever the size of the effect. All of it is taken at eta + z_j, where the value is the expected
one, so that weights do not depend on where it happens to lie. In the units of counts that is the
quasi-score of residuals r_j = e_j z_j with covariance S + τ² e eᵀ and derivative ∂G/∂(parameters):
a published value is one more cut of the bins, at an eta of its own.

An integer is the value of rank t if z lies between the moves at which s - 1 and s would be, an
interval. The score is then that of the expectation of z given all intervals of the block, and the
information is less what they leave open (see :mod:`unbin.likelihood.data.hidden`).

A block with a histogram of three or more bins is fitted to that alone: its order statistics add
next to nothing, and counting the same people twice costs more than that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.families import Family
from unbin.rows.rows import Rows, kernel

if TYPE_CHECKING:
    from unbin.likelihood.data.problem import Problem
    from unbin.likelihood.data.tables import PublishedOrder
    from unbin.likelihood.model.law import RowModel

_STEPS = 60
_LONGEST = 2.0
"""Longest step of eta in looking for the move of a block."""
_CLOSE = 1e-7
"""Moves are found to about this many standard deviations of a person."""
_RAREST = 1e-12
"""Share of people that is told from nobody."""
_FLATTEST = 1e-8
"""Least probit per unit of eta."""
_LEAST = 1e-12
"""Least variance and squared slope of a number of people."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Where the published values of a table's blocks are those expected.

    The E ends of an integer are the value below and the value itself; a real number is its own end.

    Attributes
    ----------
    codes : (C,)
        The block of each cell.
    place : (C, J)
        Which of the cuts of a cell each value is.
    value, side : (B, E, J)
        Ends, and which of them say something.
    move : (B, E, J)
        z.
    spread : (B, E, J)
        Variance of z without block effects.
    """

    codes: IntArray
    place: IntArray
    value: FloatArray
    side: BoolArray
    move: FloatArray
    spread: FloatArray

    @property
    def said(self) -> BoolArray:
        """Values of which one of the ends says something, (B, J)."""
        return np.asarray(self.side.any(axis=1))

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """The interval of z, (B, J) each; the same for real numbers."""
        integer = self.side.shape[1] > 1
        far = np.inf if integer else 0.0
        low, high = self.side[:, 0], self.side[:, -1]
        return np.where(low, self.move[:, 0], -far), np.where(high, self.move[:, -1], far)


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where published values are those expected, at some parameters.

    Attributes
    ----------
    tables : dict
        By table.
    """

    tables: dict[int, Moved]

    def changed(
        self,
        model: RowModel,
        family: Family,
        eta: FloatArray,
        nuisance: FloatArray,
        cells: IntArray,
        unit: float | None,
    ) -> RowModel:
        """Return the model of rows in these cells, people below published values at their moves.

        ``unit`` is what totals are divided by, where their covariances are wanted.
        """
        whole = [model.mean, model.d_eta, *model.d_nuisance]
        whole += [] if unit is None else [model.extra]
        last = np.zeros(len(whole))  # of all bins together
        last[0] = 1.0
        bins = model.mean.shape[1] - (model.extra.size > 0)  # a total comes after them
        below = [np.cumsum(values[:, :bins], axis=1)[:, :-1] for values in whole]
        for own in self.tables.values():
            block, place = own.codes[cells], own.place[cells]
            share = own.side / np.maximum(own.side.sum(axis=1, keepdims=True), 1.0)
            found = [np.zeros(place.shape) for _ in whole]
            for e in range(own.side.shape[1]):
                ends = own.value[block, e], own.move[block, e]
                at = _below(family, eta, *ends, nuisance, len(model.d_nuisance), unit)
                found = [a + share[block, e] * b for a, b in zip(found, at, strict=True)]
            said = own.said[block]
            for values, each in zip(below, found, strict=True):
                kept = np.where(said, each, np.take_along_axis(values, place, axis=1))
                np.put_along_axis(values, place, kept, axis=1)
        mean, d_eta, *rest = (
            np.concatenate([np.diff(inside, prepend=0.0, append=end), values[:, bins:]], axis=1)
            for inside, values, end in zip(below, whole, last, strict=True)
        )
        extra = model.extra if unit is None else rest.pop()
        d_nuisance = np.stack(rest) if rest else model.d_nuisance
        return replace(model, mean=mean, d_eta=d_eta, d_nuisance=d_nuisance, extra=extra)


def _below(
    family: Family,
    eta: FloatArray,
    value: FloatArray,
    move: FloatArray,
    nuisance: FloatArray,
    m: int = 0,
    unit: float | None = None,
) -> list[FloatArray]:
    """Return F at values (n, J), eta moved, and its derivatives in eta and m nuisance parameters.

    With a unit also the covariance of the outcome, in units, with lying below.
    """
    upper, at = value.reshape(-1, 1), (eta[:, None] + move).reshape(-1)
    lower = np.full(upper.shape, family.domain.low)
    model = family.bins(at, lower, upper, nuisance)
    found = [model.probability, model.d_eta, *model.d_nuisance[:m]]
    if unit is not None:
        inside = family.bin_means(at, lower, upper, nuisance)
        apart = np.where(model.probability > 0, inside - family.inverse_link(at)[:, None], 0.0)
        found.append(model.probability * apart / unit)
    return [each.reshape(value.shape) for each in found]


def find_crossing(problem: Problem, free: FloatArray) -> Crossing:
    """Find the moves at which published values are those expected."""
    found, at = {}, problem.grid.n_bins - 1
    widths = [_own_cuts(table) for table in problem.tables]
    at -= sum(widths)
    assert problem.grid.turn is not None
    rank = np.argsort(problem.grid.turn, axis=1)
    for t, (table, width) in enumerate(zip(problem.tables, widths, strict=True)):
        if table.order is not None:
            size = table.order.value.shape[1]
            place = rank[:, at + width - size : at + width]
            found[t] = _find_moves(problem, free, table.order, problem.codes[t], place)
        at += width
    return Crossing(found)


def _own_cuts(table: Any) -> int:
    """Return how many cuts cells have of a table alone."""
    own = 0 if table.counts.shared else table.counts.n_bins - 1
    return own + (0 if table.order is None else table.order.value.shape[1])


def _find_moves(
    problem: Problem, free: FloatArray, order: PublishedOrder, codes: IntArray, place: IntArray
) -> Moved:
    """Find the moves of the blocks of a table: by Newton's method on probits, bracketed."""
    family, n = problem.family, order.n[:, None, None]
    if family.domain.integer:
        value = np.stack([order.value - 1, order.value], axis=1)
        side = np.stack([order.lowest, order.highest], axis=1)
    else:
        value, side = order.value[:, None], order.valid[:, None]
    value = np.where(side, value, family.domain.low)
    rank = order.rank[:, None]
    wanted = ndtri(np.clip((rank - 1 / 3) / (n + 1 / 3), _RAREST, 1 - _RAREST))
    move, low, high = np.zeros(value.shape), *np.full((2, 1, 1, 1), [[[[-np.inf]]], [[[np.inf]]]])
    low, high = np.broadcast_to(low, value.shape), np.broadcast_to(high, value.shape)
    for _ in range(_STEPS):
        share, slope, spread = _shares(problem, free, codes, value, move)
        here = ndtri(np.clip(share, _RAREST, 1 - _RAREST))
        gap = np.where(side, here - wanted, 0.0)
        if np.abs(gap).max(initial=0.0) <= _CLOSE:
            break
        # more people below than there should be: the block lies higher
        low, high = np.where(gap > 0, move, low), np.where(gap < 0, move, high)
        rate = np.maximum(-slope * np.sqrt(2 * np.pi) * np.exp(0.5 * here**2), _FLATTEST)
        trial = move + np.clip(gap / rate, -_LONGEST, _LONGEST)
        between = np.isfinite(low) & np.isfinite(high) & ((trial <= low) | (trial >= high))
        middle = 0.5 * (np.where(between, low, 0.0) + np.where(between, high, 0.0))
        move = np.where(between, middle, trial)
    variance = np.maximum(n * spread, _LEAST) / np.maximum((n * slope) ** 2, _LEAST)
    return Moved(codes, place, value, side, move, variance)


def _shares(
    problem: Problem, free: FloatArray, codes: IntArray, value: FloatArray, move: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the mean over the people of each block of F, its derivative and F (1 - F)."""
    theta, nuisance = problem.coordinates.split(free)
    args = problem.family, codes, value, move, theta, nuisance
    parts = problem.design.by_block(below_sums, *args, then=lambda cells, sums: (cells, sums))
    total, people = np.zeros((3, *value.shape)), np.zeros(len(value))
    for cells, sums in parts:
        np.add.at(people, codes[cells], problem.design.people[cells])
        for mine, each in zip(total, sums, strict=True):
            np.add.at(mine, codes[cells], each)
    total /= np.where(people > 0, people, 1.0)[:, None, None]
    return total[0], total[1], total[2]


@kernel
def below_sums(
    rows: Rows,
    family: Family,
    codes: IntArray,
    value: FloatArray,
    move: FloatArray,
    theta: FloatArray,
    nuisance: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return Σ F, Σ ∂F/∂eta and Σ F (1 - F) over the people of each cell, (c, E, J).

    F is that of values (B, E, J), eta moved.
    """
    block = codes[np.repeat(rows.blocks, np.diff(rows.start))]
    shape = (len(rows), -1)
    at = value[block].reshape(shape), move[block].reshape(shape)
    below, slope = _below(family, rows.eta(theta), *at, nuisance)
    each = (below, slope, below * (1 - below))
    a, b, c = (rows.sums(v).reshape(len(rows.blocks), *value.shape[1:]) for v in each)
    return a, b, c


def shares_below(problem: Problem, free: FloatArray, t: int) -> FloatArray:
    """Return the share of each block of table t expected at or below each value, (B, J)."""
    order = problem.tables[t].order
    assert order is not None
    value = np.where(order.valid, order.value, problem.family.domain.low)[:, None]
    share, _, _ = _shares(problem, free, problem.codes[t], value, np.zeros(value.shape))
    return np.where(order.valid, share[:, 0], np.nan)
