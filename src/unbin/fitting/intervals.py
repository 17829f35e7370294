"""Intervals for the outcome of a person: the law of the family, averaged over what is not known.

A new person's linear predictor is eta plus the effect of a new block plus what the estimate of eta
is off by, together normal with standard deviation s. The law of the outcome is that of the family
averaged over it, and the interval lies between two of its quantiles. A continuous family moves with
eta on the scale of its link, g(y) - eta having the same law whatever eta is, so that its quantiles
are worked out for eta = 0 and a few s. Of whole numbers, those at the ends are left out as long as
the others are as likely as the level asks for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import expit, ndtri

from unbin._typing import FloatArray, IntArray
from unbin.exceptions import OpenIntervalWarning
from unbin.families import Family
from unbin.families.latent import quantile_points
from unbin.fitting.model import BinScale, Fit

_FEW = 24
"""Different s for which quantiles are worked out; those between are interpolated."""
_NARROW, _WIDE = 0.5, 2.0
"""s, moved to the target and over its standard deviation, below which few points do."""
_POINTS = (9, 17, 65)
_SHIFT, _COARSEST = 0.02, 1 / 64
"""Step to which eta is rounded: in standard deviations of the outcome, and at most."""
_STEPS = 60
_FARTHEST_LOG = 700.0
_CELLS = 1 << 18
"""Numbers worked on at a time."""

Share = Callable[[FloatArray], FloatArray]
"""P(y at most some value), row by row."""


def outcome_interval(fit: Fit, eta: FloatArray, eta_std: FloatArray, level: float) -> FloatArray:
    """Return the lower and upper ends for the modelled outcome of each person, (n, 2).

    An end is infinite where it lies in a bin of an ordinal fit that has no end.
    """
    spread = np.hypot(fit.block_sd, eta_std)
    if fit.bins is not None:
        return _ordinal(fit.bins, eta, spread, level)
    return family_interval(fit.family, fit.nuisance, eta, spread, level)


def family_interval(
    family: Family, nuisance: FloatArray, eta: FloatArray, spread: FloatArray, level: float
) -> FloatArray:
    """Return intervals of targets of a family whose eta is off by normal noise, (n, 2)."""
    if family.domain.integer:
        points, back = _lattice(family, nuisance, eta, spread)
        return _in_tiles(partial(_whole, family, nuisance, level=level), *points)[back]
    tail = (1 - level) / 2
    ends = [_continuous(family, nuisance, eta, spread, p) for p in (tail, 1 - tail)]
    return np.column_stack(ends)


def warn_of_open_ends(found: FloatArray, fit: Fit) -> None:
    """Say which ends lie in a bin without an end."""
    for side, name in enumerate(("lower", "upper")):
        n = int(np.isinf(found[:, side]).sum())
        if n and fit.bins is not None:
            edge = fit.bins.upper[0] if side == 0 else fit.bins.lower[-1]
            warnings.warn(
                f"predict_interval: {n:,} of {len(found):,} {name} ends are infinite, because they "
                f"lie in the bin {'below' if side == 0 else 'above'} {edge:g}, of which the table "
                f"has no end; pass {name}=... to AggregatedGLM where the outcome has one",
                OpenIntervalWarning,
                stacklevel=3,
            )


# -- continuous families ---------------------------------------------------------------------------


def _continuous(
    family: Family, nuisance: FloatArray, eta: FloatArray, spread: FloatArray, p: float
) -> FloatArray:
    """Return the quantile ``p`` of each row."""
    at = np.unique(spread)
    if len(at) > _FEW:
        at = np.linspace(at[0], at[-1], _FEW)
    moves = np.array([_link_quantile(family, nuisance, float(s), p) for s in at])
    if len(at) > 1:
        moves = PchipInterpolator(at, moves)(spread)
    return family.inverse_link(eta + moves)


def _link_quantile(family: Family, nuisance: FloatArray, spread: float, p: float) -> float:
    """Return the link of the quantile ``p`` where eta is 0, by bisection."""
    zero = np.zeros(1)
    points, weights, mean, sd = _mixture(family, nuisance, zero, np.array([spread]))

    def below(link: float) -> float:
        edge = np.full((points.size, 1), float(family.inverse_link(np.array([link]))[0]))
        open_end = np.full_like(edge, -np.inf)
        found = family.bins(points.ravel(), open_end, edge, nuisance).probability[:, 0]
        return float(found @ weights)

    # no quantile is further from the mean (Chebyshev)
    reach = float(sd[0]) * np.sqrt(max(p, 1 - p) / min(p, 1 - p))
    high = float(family.link(mean + reach)[0])
    low = float(mean[0]) - reach if np.isinf(family.domain.low) else -_FARTHEST_LOG
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if below(middle) < p else (low, middle)
    return 0.5 * (low + high)


def _mixture(
    family: Family, nuisance: FloatArray, eta: FloatArray, spread: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return points (n, m) of eta with their weights (m,), and mean and sd of the targets (n,)."""
    moves = spread * family.mean_derivative(eta) / np.sqrt(family.variance(eta, nuisance) + 1e-300)
    widest = float(moves.max(initial=0.0))
    n = 1 if widest == 0 else _POINTS[(widest > _NARROW) + (widest > _WIDE)]
    u, weights = quantile_points(n)
    points = eta[:, None] + spread[:, None] * ndtri(u)
    means = family.inverse_link(points)
    mean = means @ weights
    inside = family.variance(points.ravel(), nuisance).reshape(points.shape) @ weights
    sd = np.sqrt(inside + ((means - mean[:, None]) ** 2) @ weights)
    return points, weights, mean, sd


# -- whole numbers ---------------------------------------------------------------------------------


def _lattice(
    family: Family, nuisance: FloatArray, eta: FloatArray, spread: FloatArray
) -> tuple[tuple[FloatArray, FloatArray], IntArray]:
    """Return different eta and spreads, rounded, and which of them each row has.

    The mean moves by a hundredth of the standard deviation of the outcome at most, and each row is
    rounded by itself, so that it does not matter who else is asked for.
    """
    slope = np.maximum(family.mean_derivative(eta), 1e-300)
    sd = np.hypot(np.sqrt(family.variance(eta, nuisance)), spread * slope)
    finest = np.minimum(np.maximum(_SHIFT * sd / slope, 1e-12), _COARSEST)
    step = 2.0 ** np.floor(np.log2(finest))
    rounded = np.column_stack([np.rint(eta / step) * step, np.ceil(spread / step) * step])
    found, back = np.unique(rounded, axis=0, return_inverse=True)
    return (found[:, 0], found[:, 1]), back.ravel()


def _whole(
    family: Family, nuisance: FloatArray, eta: FloatArray, spread: FloatArray, *, level: float
) -> FloatArray:
    """Return intervals of whole numbers."""
    points, weights, mean, sd = _mixture(family, nuisance, eta, spread)
    m, domain = len(weights), family.domain

    def share(y: FloatArray) -> FloatArray:
        edge = np.repeat(y, m)[:, None]
        inside = family.bins(points.ravel(), np.zeros_like(edge), np.maximum(edge, 0), nuisance)
        return np.where(y < 0, 0.0, inside.probability.reshape(-1, m) @ weights)

    tail = (1 - level) / 2
    reach = sd * np.sqrt((1 - tail) / tail) + 1
    first = np.clip(np.floor(mean - reach), domain.low, domain.high)
    last = np.clip(np.ceil(mean + reach), domain.low, domain.high)
    low, high = (_least(share, first, last, p) for p in (tail, 1 - tail))
    return _shortened(share, low, high, level)


def _least(share: Share, low: FloatArray, high: FloatArray, p: float) -> FloatArray:
    """Return the least whole number up to which there is a share ``p``, between two ends."""
    low, high = low - 1, high.copy()
    while (high - low > 1).any():
        middle = np.floor(0.5 * (low + high))
        enough = share(middle) >= p
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def _shortened(share: Share, low: FloatArray, high: FloatArray, level: float) -> FloatArray:
    """Leave out numbers at the ends, the less likely first, as long as the others suffice."""
    while True:
        below, above = share(low - 1), share(high)
        at_low, at_high = share(low) - below, above - share(high - 1)
        spare = np.where(low < high, above - below - level, -1.0)
        cut_low = (at_low <= spare) & (at_low <= at_high)
        cut_high = (at_high <= spare) & ~cut_low
        if not (cut_low | cut_high).any():
            return np.column_stack([low, high])
        low, high = low + cut_low, high - cut_high


def _in_tiles(
    function: Callable[[FloatArray, FloatArray], FloatArray], eta: FloatArray, spread: FloatArray
) -> FloatArray:
    size = max(_CELLS // _POINTS[-1], 1)
    parts = [
        function(eta[first : first + size], spread[first : first + size])
        for first in range(0, len(eta), size)
    ]
    return np.concatenate([np.empty((0, 2)), *parts])


# -- ordinal fits ----------------------------------------------------------------------------------


def _ordinal(bins: BinScale, eta: FloatArray, spread: FloatArray, level: float) -> FloatArray:
    """Return intervals in the units of the target, from those of the latent variable."""
    scale, tail = bins.scale(), (1 - level) / 2
    if scale is None:
        return _in_tiles(partial(_of_bins, bins, level=level), eta, spread)
    low, high = (eta + _logistic_quantiles(spread, p) for p in (tail, 1 - tail))
    open_low = (low < bins.thresholds[0]) & np.isinf(scale.low)
    open_high = (high > bins.thresholds[-1]) & np.isinf(scale.high)
    found = scale.target(np.column_stack([low, high]))
    found = np.clip(np.rint(found), 0.0, None) if bins.whole else found
    found[open_low, 0], found[open_high, 1] = -np.inf, np.inf
    return found


def _logistic_quantiles(spread: FloatArray, p: float) -> FloatArray:
    """Return quantiles of logistic noise plus normal noise of standard deviation ``spread``."""
    at = np.unique(spread)
    if len(at) > _FEW:
        at = np.linspace(at[0], at[-1], _FEW)
    u, weights = quantile_points(_POINTS[-1])
    moves = at[:, None] * ndtri(u)
    reach = np.sqrt((np.pi**2 / 3 + at**2) * max(p, 1 - p) / min(p, 1 - p))
    low, high = -reach, reach
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        short = expit(middle[:, None] - moves) @ weights < p
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    middle = 0.5 * (low + high)
    return (
        np.asarray(PchipInterpolator(at, middle)(spread))
        if len(at) > 1
        else (np.full_like(spread, middle[0]))
    )


def _of_bins(bins: BinScale, eta: FloatArray, spread: FloatArray, *, level: float) -> FloatArray:
    """Return the ends of the bins that an interval of whole bins runs over."""
    u, weights = quantile_points(_POINTS[-1])
    points = eta[:, None] + spread[:, None] * ndtri(u)
    upto = np.stack([expit(t - points) @ weights for t in bins.thresholds], axis=1)
    upto = np.column_stack([np.zeros(len(eta)), upto, np.ones(len(eta))])

    def share(k: FloatArray) -> FloatArray:
        place: IntArray = np.clip(k + 1, 0, upto.shape[1] - 1).astype(np.int64)
        return np.take_along_axis(upto, place[:, None], axis=1)[:, 0]

    n_bins, tail = upto.shape[1] - 1, (1 - level) / 2
    first, last = np.zeros(len(eta)), np.full(len(eta), n_bins - 1.0)
    low, high = (_least(share, first, last, p) for p in (tail, 1 - tail))
    found = _shortened(share, low, high, level).astype(np.int64)
    lower, upper = bins.lower, bins.upper
    if bins.whole:
        lower, upper = np.maximum(np.floor(lower) + 1, 0.0), np.floor(upper)
    return np.column_stack([lower[found[:, 0]], upper[found[:, 1]]])
