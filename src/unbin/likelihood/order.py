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
quasi-score of residuals r_j = e_j z_j with covariance S + τ² e eᵀ and derivative ∂G/∂(parameters).

An integer is the value of rank t if z lies between the moves at which s - 1 and s would be, an
interval. The score is then that of the expectation of z given all intervals of the block, and the
information is less what they leave open (see :mod:`unbin.likelihood.hidden`).

A block with a histogram of three or more bins is fitted to that alone: its order statistics add
next to nothing, and counting the same people twice costs more than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.families import Family
from unbin.likelihood.hidden import within_box
from unbin.likelihood.problem import Problem
from unbin.likelihood.statistics import PublishedOrder
from unbin.rows.rows import Rows, kernel

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
class OrderMoments:
    """Order statistics of the blocks in the units of counts of people.

    Attributes
    ----------
    covariance : (B, J, J)
        S, block effects left out.
    derivative, shift : (B, J, p), (B, J)
        ∂G/∂(free parameters), and e.
    residual : (B, J)
        e z, of integers its expectation.
    hidden : (B, J, h)
        Root of the covariance of e z where that is only known to an interval; h = 0 for reals.
    """

    covariance: FloatArray
    derivative: FloatArray
    shift: FloatArray
    residual: FloatArray
    hidden: FloatArray


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where values are those expected: moves of eta, and the people below at these.

    Attributes
    ----------
    move : (B, J)
        z; infinite where the value is an end of the domain.
    below, d_eta, d_nuisance : (n, J), (n, J), (m, n, J)
        F of each row at eta + z, and its derivatives.
    """

    move: FloatArray
    below: FloatArray
    d_eta: FloatArray
    d_nuisance: FloatArray


def order_moments(problem: Problem, free: FloatArray) -> OrderMoments:
    """Return the moments of all order statistics at some parameters."""
    order = problem.order
    assert order is not None
    problem.family.check_statistics(shared=problem.counts.shared, means=False, values=True)
    parts = problem.design.whole_blocks("quantiles and other order statistics")
    theta, nuisance = problem.coordinates.split(free)
    found = list(parts.stream(order_part, problem.family, order, theta, nuisance))
    low, high, slopes, covariance, spread = (
        np.concatenate(each) for each in zip(*found, strict=True)
    )
    if not problem.tells_spread:
        # one value of a block tells where it lies: the scale is set by the misfit
        slopes[:, :, slopes.shape[2] - problem.coordinates.n_row_nuisance :] = 0.0
    derivative, shift = problem.coordinates.to_free(free, slopes), slopes[:, :, 0]
    if not problem.family.domain.integer:
        return OrderMoments(covariance, derivative, shift, shift * low, np.zeros((*low.shape, 0)))
    variance = problem.block_variance
    low, high = low / np.sqrt(spread[:, 0] + variance), high / np.sqrt(spread[:, 1] + variance)
    effects = variance * shift[:, :, None] * shift[:, None, :]
    inside, root = within_box(covariance + effects, -high, -low, order.valid)
    return OrderMoments(covariance, derivative, shift, inside, root)


def shares_below(problem: Problem, free: FloatArray) -> FloatArray:
    """Return the share of each block that is expected at or below each value, (B, J)."""
    order = problem.order
    assert order is not None
    parts = problem.design.whole_blocks("quantiles and other order statistics")
    theta, nuisance = problem.coordinates.split(free)
    found = np.concatenate(list(parts.stream(below_part, problem.family, order, theta, nuisance)))
    return np.where(order.valid, found, np.nan)


@kernel
def below_part(
    rows: Rows,
    family: Family,
    published: PublishedOrder,
    theta: FloatArray,
    nuisance: FloatArray,
) -> FloatArray:
    """Return the expected shares of the blocks of some rows, (b, J)."""
    order, first = published.take(rows.span), rows.start[:-1]
    people = rows.weighed(np.ones(len(rows)))
    code = np.repeat(np.arange(len(first)), np.diff(rows.start))
    upper = np.where(order.valid, order.value, family.domain.low)[code].reshape(-1, 1)
    lower = np.full(upper.shape, family.domain.low)
    eta = np.repeat(rows.eta(theta), order.value.shape[1])
    below = family.bins(eta, lower, upper, nuisance).probability.reshape(len(code), -1)
    counted = np.add.reduceat(people[:, None] * below, first, axis=0)
    return np.asarray(counted / np.add.reduceat(people, first)[:, None])


@kernel
def order_part(
    rows: Rows,
    family: Family,
    published: PublishedOrder,
    theta: FloatArray,
    nuisance: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return what the order statistics of the blocks of some rows say.

    Returns
    -------
    low, high : (b, J)
        Ends of the interval of z; the same for reals.
    slopes : (b, J, 1 + d + m)
        Derivatives of G in a shift of eta, the slopes and the nuisance parameters.
    covariance : (b, J, J)
    spread : (b, 2, J)
        Variance of z at both ends.
    """
    order = published.take(rows.span)
    first = rows.start[:-1]
    people = rows.weighed(np.ones(len(rows)))
    people = people * np.repeat(order.n / np.add.reduceat(people, first), np.diff(rows.start))
    eta = rows.eta(theta)
    if family.domain.integer:
        values = [order.value - 1, order.value]
        sides = [order.lowest, order.highest]
    else:
        values, sides = [order.value], [order.valid]
    code = np.repeat(np.arange(len(first)), np.diff(rows.start))
    ends = [
        _cross(family, eta, value, side, order, nuisance, people, first)
        for value, side in zip(values, sides, strict=True)
    ]
    share = np.stack(sides).astype(float)
    share /= np.maximum(share.sum(axis=0), 1.0)
    below, d_eta = (
        sum(part[code] * getattr(end, name) for part, end in zip(share, ends, strict=True))
        for name in ("below", "d_eta")
    )
    d_nuisance = sum(part[code] * end.d_nuisance for part, end in zip(share, ends, strict=True))
    far = np.inf if family.domain.integer else 0.0
    return (
        np.where(sides[0], ends[0].move, -far),
        np.where(sides[-1], ends[-1].move, far),
        _slopes(rows, people, d_eta, d_nuisance),
        _covariance(below, people, first),
        np.stack([_spread(end, people, first) for end in ends], axis=1),
    )


def _cross(
    family: Family,
    eta: FloatArray,
    value: FloatArray,
    side: BoolArray,
    order: PublishedOrder,
    nuisance: FloatArray,
    people: FloatArray,
    first: IntArray,
) -> Crossing:
    """Find the moves at which the marked values are expected: by Newton's method on probits."""
    n, code = order.n[:, None], np.repeat(np.arange(len(first)), np.diff([*first, len(eta)]))
    wanted = ndtri(np.clip((order.rank - 1 / 3) / (n + 1 / 3), _RAREST, 1 - _RAREST))
    upper = np.where(side, value, family.domain.low)[code].reshape(-1, 1)
    lower = np.full(upper.shape, family.domain.low)
    move, low, high = np.zeros(value.shape), *np.full((2, *value.shape), [[[-np.inf]], [[np.inf]]])
    for _ in range(_STEPS):
        model = family.bins((eta[:, None] + move[code]).reshape(-1), lower, upper, nuisance)
        below, d_eta = (v.reshape(len(eta), -1) for v in (model.probability, model.d_eta))
        share, slope = (
            np.add.reduceat(people[:, None] * v, first, axis=0) / n for v in (below, d_eta)
        )
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
    d_nuisance = model.d_nuisance.reshape(-1, *below.shape)
    return Crossing(move, below, d_eta, d_nuisance)


def _slopes(
    rows: Rows, people: FloatArray, d_eta: FloatArray, d_nuisance: FloatArray
) -> FloatArray:
    """Return the sums of derivatives, (b, J, 1 + d + m)."""
    first, columns = rows.start[:-1], []
    for j in range(d_eta.shape[1]):
        weight = people * d_eta[:, j]
        by_nuisance = people * d_nuisance[:, :, j]
        each = np.column_stack([weight, weight[:, None] * rows.matrix, by_nuisance.T])
        columns.append(np.add.reduceat(each, first, axis=0))
    return np.stack(columns, axis=1)


def _covariance(below: FloatArray, people: FloatArray, first: IntArray) -> FloatArray:
    """Return the covariance of the numbers of people at or below, (b, J, J)."""
    size = below.shape[1]
    place = np.arange(size)
    total = np.add.reduceat(people[:, None] * below, first, axis=0)
    products = [
        np.add.reduceat(people[:, None] * below * below[:, [k]], first, axis=0) for k in place
    ]
    return np.asarray(total[:, np.minimum.outer(place, place)] - np.stack(products, axis=2))


def _spread(end: Crossing, people: FloatArray, first: IntArray) -> FloatArray:
    """Return the variance of moves without block effects, (b, J)."""
    below, people = end.below, people[:, None]
    variance = np.add.reduceat(people * below * (1 - below), first, axis=0)
    slope = np.add.reduceat(people * end.d_eta, first, axis=0)
    return np.asarray(np.maximum(variance, _LEAST) / np.maximum(slope**2, _LEAST))
