"""Positive targets with constant coefficient of variation, log link."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import gammaln, psi

from unbin._compiling import inner, njit
from unbin._typing import FloatArray
from unbin.families.base import (
    LARGEST_ETA,
    BinModel,
    DensityModel,
    Interval,
    Units,
    as_rows,
    exp_within,
    keep_in_bins,
    share_edges,
)
from unbin.families.elementary import SMALLEST_EXPONENT, TILE, exp_below_one
from unbin.families.links import LogLink
from unbin.families.normal import NARROW
from unbin.families.tensors import Machine, Tensor, TensorLaw, place_edges, torch

MAX_TERMS = 20_000
_CHECK_EVERY = 8
_FARTHEST = 600.0
"""Ratios of an edge to the mean beyond exp of this are infinite."""
_PRECISION = 1e-17
_STEPS = 400
"""Terms of the lower sum at least; with twice the shape more it has always settled."""
_BEYOND = 1.0
"""Roots of the shape above the mean up to which the lower sum, which is faster, is used."""
_TWO_POINT = 0.5 / math.sqrt(3.0)
_PANEL, _DEGREE = 0.4, 13
"""Width of a panel of the table, over the coefficient of variation or 1, and of what degree its
polynomials are: right to 1e-13."""
_DEPTH = 745.0
"""Tails below exp of minus this are 0."""
_NODES = chebyshev.chebpts1(_DEGREE + 1)
_TO_CHEBYSHEV = np.linalg.inv(chebyshev.chebvander(_NODES, _DEGREE))
_TO_POWERS = np.stack(
    [np.pad(chebyshev.cheb2poly(each), (0, _DEGREE))[_DEGREE::-1] for each in np.eye(_DEGREE + 1)],
    axis=1,
)
"""From values at the nodes to Chebyshev coefficients, and from these to powers, highest first."""
_LARGEST_SHAPE, _SMALLEST_SHAPE = 1e5, 1e-8
"""Beyond these the dispersion no longer counts; a spread of 0.3 % of the mean is the least."""


@dataclass(frozen=True, slots=True)
class Gamma(LogLink):
    """Positive targets with variance dispersion · mean².

    link(mean) = log mean, domain [0, inf). With shape = 1/dispersion the density is
    (shape/mean)^shape y^(shape - 1) exp(-shape y/mean)/Gamma(shape).
    Nuisance: log_dispersion.
    """

    name: ClassVar[str] = "gamma"
    ratio: ClassVar[str] = "means"
    nuisance_names: ClassVar[tuple[str, ...]] = ("log_dispersion",)

    @property
    def domain(self) -> Interval:
        return Interval(0.0, np.inf)

    def interior(self, mean: FloatArray) -> FloatArray:
        return np.maximum(mean, 1e-8)

    def variance(self, eta: FloatArray, nuisance: FloatArray) -> FloatArray:
        mean = self.inverse_link(eta)
        return mean * mean / shape_of(nuisance)

    def bins(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> BinModel:
        q, d_eta, d_log_shape = _bins_of_shape(eta, lower, upper, shape_of(nuisance))
        return BinModel(q, d_eta, -d_log_shape[None])

    def resolution(self, lower: FloatArray, upper: FloatArray, nuisance: FloatArray) -> float:
        return 0.8 / math.sqrt(max(shape_of(nuisance), 1.0))  # its tails fall fast

    def bin_means(
        self, eta: FloatArray, lower: FloatArray, upper: FloatArray, nuisance: FloatArray
    ) -> FloatArray:
        # y times the density is mean times the density of shape + 1 and the same scale
        shape, mean = shape_of(nuisance), self.inverse_link(eta)
        q = _bins_of_shape(eta, lower, upper, shape)[0]
        above = _bins_of_shape(eta + math.log1p(1 / shape), lower, upper, shape + 1)[0]
        ratio = np.divide(above, q, out=np.ones_like(q), where=q > 0)
        return keep_in_bins(mean[:, None] * ratio, mean, np.maximum(lower, 0), upper)

    def density(self, y: FloatArray, eta: FloatArray, nuisance: FloatArray) -> DensityModel:
        shape, points = shape_of(nuisance), as_rows(y)
        positive = points > 0
        safe = np.where(positive, points, 1.0)
        log_ratio = np.log(safe) - eta[:, None]
        ratio = np.exp(np.minimum(log_ratio, LARGEST_ETA))
        log_shape_excess, log_scale = constants(shape)
        density = np.exp(shape * (log_ratio - (ratio - 1)) + log_scale) / safe * positive
        d_log_shape = density * shape * (log_ratio + 1 - ratio + log_shape_excess)
        return DensityModel(density, density * shape * (ratio - 1), -d_log_shape[None])

    def start_nuisance(self, mean: float, variance: float) -> FloatArray:
        dispersion = variance / max(mean, 1e-8) ** 2
        return np.array([np.log(np.clip(dispersion, 1e-4, 100.0))])

    def tensor_law(
        self, lower: FloatArray, upper: FloatArray, nuisance: FloatArray, machine: Machine
    ) -> TensorLaw:
        return GammaBins(lower, upper, nuisance, machine)

    def units(self, center: float, spread: float) -> Units:
        return Units(scale=center, level=math.log(center)) if center > 0 else Units()


def shape_of(nuisance: FloatArray) -> float:
    """Return the shape, kept where the dispersion counts."""
    return exp_within(-nuisance[0], math.log(_SMALLEST_SHAPE), math.log(_LARGEST_SHAPE))


def constants(shape: float) -> tuple[float, float]:
    """Return log(shape) - psi(shape) and shape log(shape) - shape - log Gamma(shape)."""
    if shape < 100:
        log_scale = shape * math.log(shape) - shape - float(gammaln(shape))
    else:  # Stirling's series, where the difference would lose digits
        log_scale = 0.5 * math.log(shape / (2 * math.pi)) - (1 - 1 / (30 * shape**2)) / (12 * shape)
    return math.log(shape) - float(psi(shape)), log_scale


def _bins_of_shape(
    eta: FloatArray, lower: FloatArray, upper: FloatArray, shape: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return q, dq/d eta and dq/d log shape, each (n, K)."""
    low, high = np.maximum(as_rows(lower), 0.0), as_rows(upper)
    edges, first, last = share_edges(low, high)
    eta = np.clip(eta, -LARGEST_ETA, LARGEST_ETA)
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(edges, 0.0))
    q, d_eta, d_log_shape = _gamma_bins(eta, edges, logs, first, last, low < high, law_of(shape))
    return q, d_eta, d_log_shape


# -- tails over front = x^shape exp(-x)/Gamma(shape), x = shape edge/mean --------------------------


def _steps(shape: float) -> tuple[FloatArray, FloatArray]:
    """Return 1/(shape + j) and the sums of these up to j, for the terms of ``_lower_sum``.

    All edges share them, so that no term needs a division.
    """
    step = 1.0 / (shape + np.arange(float(min(MAX_TERMS, _STEPS + int(2 * shape)))))
    return step, np.cumsum(step)


@inner(nogil=True)
def _lower_sum(x, steps):  # type: ignore[no-untyped-def]
    """Return S and d log S/d shape, where P(shape, x) = front S."""
    step, harmonic = steps
    term = step[0]
    total, slope = term, term * harmonic[0]
    for j in range(1, len(step)):
        term *= x * step[j]
        total += term
        slope += term * harmonic[j]
        if term * harmonic[j] < _PRECISION * slope:
            break
    return total, -slope / total


@inner(nogil=True)
def _upper_fraction(shape, x):  # type: ignore[no-untyped-def]
    """Return h and d log h/d shape, where Q(shape, x) = front h.

    The continued fraction of the upper incomplete gamma function by Wallis' recurrence, with the
    derivatives of its tops and bottoms carried along: it divides only where it looks whether it
    has settled.
    """
    b = x + 1.0 - shape
    top, top_before, d_top, d_top_before = 1.0, 0.0, 0.0, 0.0
    bottom, bottom_before, d_bottom, d_bottom_before = b, 1.0, -1.0, 0.0
    h, slope = 0.0, 0.0
    for j in range(1, MAX_TERMS):
        a = -j * (j - shape)
        b += 2.0
        d_top, d_top_before = b * d_top + a * d_top_before - top + j * top_before, d_top
        top, top_before = b * top + a * top_before, top
        d_bottom, d_bottom_before = (
            b * d_bottom + a * d_bottom_before - bottom + j * bottom_before, d_bottom
        )  # fmt: skip
        bottom, bottom_before = b * bottom + a * bottom_before, bottom
        if j % _CHECK_EVERY == 0:
            scale = 1.0 / bottom
            ratio, change = top * scale, d_top / top - d_bottom * scale
            near = abs(ratio - h) < 1e-15 * ratio
            if near and abs(change - slope) < 1e-14 * abs(change) + 1e-17:
                return ratio, change
            h, slope, bottom = ratio, change, 1.0
            top, top_before, d_top = top * scale, top_before * scale, d_top * scale
            d_top_before *= scale
            bottom_before, d_bottom = bottom_before * scale, d_bottom * scale
            d_bottom_before *= scale
    return h, slope


@njit(cache=True, nogil=True)
def _multiples(at, upper, shape, log_shape_excess, steps):  # type: ignore[no-untyped-def]
    """Return a tail and dF/d log shape over front, at log(edge/mean)."""
    x = shape * math.exp(at)
    if upper:
        factor, slope = _upper_fraction(shape, x)
        return factor, 1 - shape * factor * (at + log_shape_excess + slope)
    factor, slope = _lower_sum(x, steps)
    return factor, 1 + shape * factor * (at + log_shape_excess + slope)


class GammaLaw(NamedTuple):
    """What all rows and edges share: the shape, and a table of what its tails are made of.

    For one shape both multiples of front are smooth functions of log(edge/mean) alone. Each panel
    of that axis has a polynomial for each, in t from -1 to 1, through its values at Chebyshev's
    points: a few multiplications where sums and fractions take a hundred.

    Attributes
    ----------
    shape, log_shape_excess, scale : float
        See ``constants``; the last is the exponential.
    steps : tuple
        See ``_steps``.
    turn : float
        log(edge/mean) above which the tail is the upper one.
    below : int
        How many panels lie below that.
    per_unit : float
        How many there are to a unit.
    powers : (n_panels, degree + 1, 2)
        Coefficients, that of the highest power first.
    """

    shape: float
    log_shape_excess: float
    scale: float
    steps: tuple[FloatArray, FloatArray]
    turn: float
    below: int
    per_unit: float
    powers: FloatArray


@lru_cache(maxsize=16)
def law_of(shape: float) -> GammaLaw:
    """Tabulate the tails of a shape."""
    excess, log_scale = constants(shape)
    steps, width = _steps(shape), _PANEL / math.sqrt(max(shape, 1.0))
    turn = math.log((shape + 1 + _BEYOND * math.sqrt(shape)) / shape)
    low, high = _reach(shape)
    below, above = math.ceil((turn - low) / width), max(math.ceil((high - turn) / width), 0)
    middle = turn + (np.arange(-below, above) + 0.5) * width
    points = middle[:, None] + 0.5 * width * _NODES
    values = _tabulate(points, middle > turn, shape, excess, steps)
    powers = np.ascontiguousarray(_TO_POWERS @ (_TO_CHEBYSHEV @ values))
    return GammaLaw(shape, excess, math.exp(log_scale), steps, turn, below, 1 / width, powers)


def _reach(shape: float) -> tuple[float, float]:
    """Return how far log(edge/mean) goes, down and up, before tails are 0.

    shape (r - 1 - log r), r the ratio, is minus the log of front, but for its scale; what is
    returned are bounds on the roots. Where x is below the precision the lower sum is one term, and
    needs no table.
    """
    depth = _DEPTH / shape
    near = math.sqrt(3 * depth)
    low = max(-near if near < 1 else -1 - depth, math.log(_PRECISION / shape))
    return low, min(math.sqrt(2 * depth), math.log(2 * (1 + depth)))


@njit(cache=True, nogil=True)
def _tabulate(points, upper, shape, log_shape_excess, steps):  # type: ignore[no-untyped-def]
    """Return the multiples at points (n_panels, k), as (n_panels, k, 2)."""
    found = np.empty((*points.shape, 2))
    for p in range(points.shape[0]):
        for j in range(points.shape[1]):
            found[p, j, 0], found[p, j, 1] = _multiples(
                points[p, j], upper[p], shape, log_shape_excess, steps
            )
    return found


# -- bins ------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _fronts(at, shape, scale, front):  # type: ignore[no-untyped-def]
    """Write front at log(edge/mean)."""
    for i in range(len(at)):
        log_ratio = min(at[i], _FARTHEST)
        ratio = exp_below_one(max(-abs(log_ratio), SMALLEST_EXPONENT))
        ratio = ratio if log_ratio < 0 else 1 / ratio
        depth = shape * (log_ratio - (ratio - 1))
        front[i] = scale * exp_below_one(max(depth, SMALLEST_EXPONENT))


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _tails(at, front, law, tail, by_shape):  # type: ignore[no-untyped-def]
    """Write the tail beyond log(edge/mean), on the side away from the mean, and dF/d log shape."""
    powers, n_panels, size = law.powers, law.powers.shape[0], law.powers.shape[1]
    for i in range(len(at)):
        place = (at[i] - law.turn) * law.per_unit
        if -law.below < place <= n_panels - law.below:
            # a panel has its right end: what is at the turn is below it
            step = math.ceil(place)
            panel, t = law.below + int(step) - 1, 2 * (place - step) + 1
            factor, slope = powers[panel, 0, 0], powers[panel, 0, 1]
            for j in range(1, size):
                factor = factor * t + powers[panel, j, 0]
                slope = slope * t + powers[panel, j, 1]
        elif front[i] > 0:
            factor, slope = _multiples(
                at[i], at[i] > law.turn, law.shape, law.log_shape_excess, law.steps
            )
        else:
            factor, slope = 0.0, 0.0
        tail[i] = front[i] * factor
        by_shape[i] = front[i] * slope


@njit(cache=True, nogil=True)
def _narrow_bin(low, high, eta, shape, log_shape_excess, scale):  # type: ignore[no-untyped-def]
    """Return q, dq/d eta and dq/d log shape of a narrow bin, by two points of its density."""
    q, first, second = 0.0, 0.0, 0.0
    half = _TWO_POINT * (high - low)
    for y in (0.5 * (low + high) - half, 0.5 * (low + high) + half):
        log_ratio = math.log(y) - eta
        ratio = math.exp(log_ratio)
        f = scale * math.exp(shape * (log_ratio - (ratio - 1))) / y * 0.5 * (high - low)
        q += f
        first += f * shape * (ratio - 1)
        second += f * shape * (log_ratio + 1 - ratio + log_shape_excess)
    return q, first, second


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _gamma_bins(eta, edges, logs, first, last, holds, law):  # type: ignore[no-untyped-def]
    """Return q, dq/d eta and dq/d log shape, each (n, K).

    Works through tiles of rows, edge by edge and bin by bin, so that loops run along rows.
    """
    n, k_bins, n_edges = len(eta), len(first), edges.shape[1]
    # one block: the allocator keeps it from call to call; rows are last in it, and first outside
    block, size = np.empty((3, k_bins, n)), (n_edges, TILE)
    at, tail, front, by_shape = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    shared = len(edges) == 1
    for begin in range(0, n, TILE):
        m = min(TILE, n - begin)
        for e in range(n_edges):
            for i in range(m):
                at[e, i] = logs[0 if shared else begin + i, e] - eta[begin + i]
            _fronts(at[e, :m], law.shape, law.scale, front[e, :m])
            _tails(at[e, :m], front[e, :m], law, tail[e, :m], by_shape[e, :m])
        for k in range(k_bins):
            lo, hi = first[k], last[k]
            for i in range(m):
                row = 0 if shared else begin + i
                below, above = tail[lo, i], tail[hi, i]
                across = at[lo, i] <= law.turn and at[hi, i] > law.turn
                mass = 1 - below - above if across else abs(below - above)
                d_eta = front[lo, i] - front[hi, i]
                d_log_shape = by_shape[hi, i] - by_shape[lo, i]
                low, high = edges[row, lo], edges[row, hi]
                if not holds[row, k]:
                    mass, d_eta, d_log_shape = 0.0, 0.0, 0.0
                elif low > 0 and high < np.inf and mass < NARROW * max(below, above):
                    mass, d_eta, d_log_shape = _narrow_bin(
                        low, high, eta[begin + i], law.shape, law.log_shape_excess, law.scale
                    )
                block[0, k, begin + i], block[1, k, begin + i] = mass, d_eta
                block[2, k, begin + i] = d_log_shape
    return block[0].T, block[1].T, block[2].T


# -- on a device -----------------------------------------------------------------------------------


class GammaBins(TensorLaw):
    """Bins of a gamma law with mean exp(eta), on a device."""

    def __init__(
        self, low: FloatArray, high: FloatArray, nuisance: FloatArray, machine: Machine
    ) -> None:
        low = np.maximum(low, 0.0)
        super().__init__(low, high, machine)
        self.shape = shape_of(nuisance)
        edges = share_edges(low, high)[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(edges > 0, np.log(edges), -np.inf)
        self.log_edges = place_edges(logs, machine)

    def bins(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return q, dq/d eta and dq/d log dispersion."""
        q, d_eta, d_log_shape = self._bins(eta, blocks, self.shape)
        return torch.stack([q, d_eta, -d_log_shape])

    def means(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return the means within bins: y times the density is that of shape + 1."""
        q, _, _ = self._bins(eta, blocks, self.shape)
        shape = self.shape
        above, _, _ = self._bins(eta + math.log1p(1 / shape), blocks, shape + 1)
        return torch.exp(eta) * torch.where(q > 0, above / q, 1.0)

    def _bins(self, eta: Tensor, blocks: Tensor, shape: float) -> tuple[Tensor, Tensor, Tensor]:
        eta = eta.clamp(-LARGEST_ETA, LARGEST_ETA)
        excess, log_scale = constants(shape)
        log_ratio = (self.log_edges(blocks) - eta).clamp(max=2 * _FARTHEST)
        tail, upper, front, by_shape = _edge_tensors(log_ratio, shape, excess, log_scale)
        (tail_low, tail_high), (up_low, up_high) = self.sides(tail), self.sides(upper)
        q = torch.where(up_low, tail_low - tail_high, tail_high - tail_low)
        q = torch.where(~up_low & up_high, 1 - tail_low - tail_high, q)
        low, high = self.sides(front)
        d_eta = low - high
        low, high = self.sides(by_shape)
        d_log_shape = high - low
        lower, higher = self.ends(blocks)
        narrow = (lower > 0) & (lower < higher) & (q < NARROW * torch.maximum(tail_low, tail_high))
        if narrow.any():
            low, high, at = (
                torch.broadcast_to(v, narrow.shape)[narrow] for v in (lower, higher, eta)
            )
            found = _narrow_tensors(low, high, at, shape, excess, log_scale)
            for values, better in zip((q, d_eta, d_log_shape), found, strict=True):
                values[narrow] = better
        holds = lower < higher
        return q * holds, d_eta * holds, d_log_shape * holds


def _edge_tensors(
    log_ratio: Tensor, shape: float, excess: float, log_scale: float
) -> tuple[Tensor, ...]:
    """Return the tail beyond edges, whether it is the upper one, -dF/d eta and dF/d log shape."""
    ratio = torch.exp(log_ratio)
    front = torch.exp(shape * (log_ratio - (ratio - 1)) + log_scale)
    front = torch.where((log_ratio > _FARTHEST) | torch.isneginf(log_ratio), 0.0, front)
    alive = front > 0
    series = shape * ratio < shape + 1
    upper = torch.where(alive, ~series, ratio > 1)
    tail, by_shape = torch.zeros_like(front), torch.zeros_like(front)
    for cells, sign, total in (
        (alive & series, 1, _lower_tensors),
        (alive & ~series, -1, _fraction_tensors),
    ):
        if cells.any():
            f, log_r = front[cells], log_ratio[cells]
            factor, slope = total(shape, shape * ratio[cells])
            tail[cells] = f * factor
            by_shape[cells] = f + sign * shape * f * factor * (log_r + excess + slope)
    return tail, upper, front, by_shape


def _lower_tensors(shape: float, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return S and d log S/d shape, where P(shape, x) = x^shape exp(-x)/Gamma(shape) S."""
    harmonic = 1.0 / shape
    term = torch.full_like(x, harmonic)
    total, slope = term.clone(), -term * harmonic
    for j in range(1, MAX_TERMS):
        harmonic += 1.0 / (shape + j)
        term = term * x / (shape + j)
        total += term
        slope -= term * harmonic
        if j % _CHECK_EVERY == 0 and bool((term * harmonic < -1e-17 * slope).all()):
            break
    return total, slope / total


def _fraction_tensors(shape: float, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return h and d log h/d shape, where Q(shape, x) = x^shape exp(-x)/Gamma(shape) h."""
    b = x + 1.0 - shape
    c, dc = torch.full_like(x, 1e300 if x.dtype == torch.float64 else 1e30), torch.zeros_like(x)
    d = 1.0 / b
    dd = d * d
    h, slope = d.clone(), d.clone()
    going = torch.ones_like(x, dtype=torch.bool)
    precision = torch.finfo(x.dtype).eps
    for j in range(1, MAX_TERMS):
        a = -j * (j - shape)
        b = b + 2.0
        bottom = b + a * d
        dd = -(-1.0 + j * d + a * dd) / (bottom * bottom)
        d = 1.0 / bottom
        dc = -1.0 + j / c - a * dc / (c * c)
        c = b + a / c
        step = dc / c + dd / d
        # what has settled stays: further steps would only add their rounding
        h = torch.where(going, h * (c * d), h)
        slope = torch.where(going, slope + step, slope)
        small = (c * d - 1.0).abs() < precision
        going = going & ~(small & (step.abs() < 10 * precision * slope.abs() + 1e-17))
        if j % _CHECK_EVERY == 0 and not bool(going.any()):
            break
    return h, slope


def _narrow_tensors(
    low: Tensor, high: Tensor, eta: Tensor, shape: float, excess: float, log_scale: float
) -> tuple[Tensor, ...]:
    """Return q, dq/d eta and dq/d log shape of narrow bins, by two points of their density."""
    q, first, second = (torch.zeros_like(eta) for _ in range(3))
    half, middle = _TWO_POINT * (high - low), 0.5 * (low + high)
    for y in (middle - half, middle + half):
        log_ratio = torch.log(y) - eta
        ratio = torch.exp(log_ratio)
        f = torch.exp(shape * (log_ratio - (ratio - 1)) + log_scale) / y * 0.5 * (high - low)
        q += f
        first += f * shape * (ratio - 1)
        second += f * shape * (log_ratio + 1 - ratio + excess)
    return q, first, second
