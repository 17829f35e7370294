"""Positive targets with constant coefficient of variation, log link."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
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
from unbin.families.links import LogLink
from unbin.families.normal import NARROW
from unbin.families.tensors import Machine, Tensor, TensorLaw, place_edges, torch

MAX_TERMS = 20_000
_CHECK_EVERY = 8
_FARTHEST = 600.0
"""On a device, ratios of an edge to the mean beyond exp of this are infinite."""
_PRECISION = 1e-17
_STEPS = 400
"""Terms of the lower sum at least; with twice the shape more it has always settled."""
_BEYOND = 1.0
"""Roots of the shape above the mean up to which the lower sum, which is faster, is used."""
_TWO_POINT = 0.5 / math.sqrt(3.0)
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
    eta = np.clip(eta, -LARGEST_ETA, LARGEST_ETA)
    q, d_eta, d_log_shape = _gamma_bins(eta, low, high, shape, *constants(shape), _steps(shape))
    return q, d_eta, d_log_shape


def _steps(shape: float) -> tuple[FloatArray, FloatArray]:
    """Return 1/(shape + j) and the sums of these up to j, for the terms of ``_lower_sum``.

    All rows and edges share them, so that no term needs a division.
    """
    step = 1.0 / (shape + np.arange(float(min(MAX_TERMS, _STEPS + int(2 * shape)))))
    return step, np.cumsum(step)


@inner(nogil=True)
def _lower_sum(x, steps):  # type: ignore[no-untyped-def]
    """Return S and d log S/d shape, where P(shape, x) = x^shape exp(-x)/Gamma(shape) S."""
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
    """Return h and d log h/d shape, where Q(shape, x) = x^shape exp(-x)/Gamma(shape) h.

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


@inner(nogil=True)
def _edge(y, eta, shape, log_shape_excess, log_scale, steps):  # type: ignore[no-untyped-def]
    """Return the tail beyond y, whether it is the upper one, -dF/d eta and dF/d log shape."""
    if y <= 0:
        return 0.0, False, 0.0, 0.0
    log_ratio = math.log(y) - eta
    if y == np.inf or log_ratio > 600:
        return 0.0, True, 0.0, 0.0
    ratio = math.exp(log_ratio)
    x = shape * ratio
    front = math.exp(shape * (log_ratio - (ratio - 1)) + log_scale)
    if front == 0:
        return 0.0, ratio > 1, 0.0, 0.0
    if x < shape + 1 + _BEYOND * math.sqrt(shape):
        factor, slope = _lower_sum(x, steps)
        d_log_shape = front + shape * front * factor * (log_ratio + log_shape_excess + slope)
        return front * factor, False, front, d_log_shape
    factor, slope = _upper_fraction(shape, x)
    d_log_shape = front - shape * front * factor * (log_ratio + log_shape_excess + slope)
    return front * factor, True, front, d_log_shape


@inner(nogil=True)
def _narrow_bin(low, high, eta, shape, log_shape_excess, log_scale):  # type: ignore[no-untyped-def]
    """Return q, dq/d eta and dq/d log shape of a narrow bin, by two points of its density."""
    q, first, second = 0.0, 0.0, 0.0
    half = _TWO_POINT * (high - low)
    for y in (0.5 * (low + high) - half, 0.5 * (low + high) + half):
        log_ratio = math.log(y) - eta
        ratio = math.exp(log_ratio)
        f = math.exp(shape * (log_ratio - (ratio - 1)) + log_scale) / y * 0.5 * (high - low)
        q += f
        first += f * shape * (ratio - 1)
        second += f * shape * (log_ratio + 1 - ratio + log_shape_excess)
    return q, first, second


@njit(cache=True, nogil=True)
def _gamma_bins(eta, lower, upper, shape, log_shape_excess, log_scale, steps):  # type: ignore[no-untyped-def]
    """Return q, dq/d eta and dq/d log shape, each (n, K)."""
    n, k_bins = len(eta), lower.shape[1]
    # one block: the allocator keeps it from call to call; rows are last in it, and first outside
    block = np.zeros((3, k_bins, n))
    q, d_eta, d_log_shape = block[0].T, block[1].T, block[2].T
    for i in range(n):
        row = i if len(lower) > 1 else 0
        before, last = (0.0, False, 0.0, 0.0), 0.0
        for k in range(k_bins):
            low, high = lower[row, k], upper[row, k]
            if not low < high:
                continue
            if low != last:
                before = _edge(low, eta[i], shape, log_shape_excess, log_scale, steps)
            after, last = _edge(high, eta[i], shape, log_shape_excess, log_scale, steps), high
            if before[1]:
                mass = before[0] - after[0]
            elif not after[1]:
                mass = after[0] - before[0]
            else:
                mass = 1 - before[0] - after[0]
            q[i, k], d_eta[i, k] = mass, before[2] - after[2]
            d_log_shape[i, k] = after[3] - before[3]
            if low > 0 and mass < NARROW * max(before[0], after[0]):
                q[i, k], d_eta[i, k], d_log_shape[i, k] = _narrow_bin(
                    low, high, eta[i], shape, log_shape_excess, log_scale
                )
            before = after
    return q, d_eta, d_log_shape


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
