"""Bins of the gamma family on a device: the series and the fraction of ``families.gamma``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unbin.device.backend import Machine, Tensor, torch
from unbin.families.base import LARGEST_ETA, share_edges
from unbin.families.gamma import MAX_TERMS, constants, shape_of
from unbin.families.normal import NARROW
from unbin.typing import FloatArray

_CHECK_EVERY = 8
_TWO_POINT = 0.5 / math.sqrt(3.0)
_FARTHEST = 600.0
"""Ratios of an edge to the mean beyond exp of this are infinite."""


class GammaBins:
    """Bins of a gamma law with mean exp(eta)."""

    def __init__(
        self, _: Any, low: FloatArray, high: FloatArray, nuisance: FloatArray, machine: Machine
    ) -> None:
        low = np.maximum(low, 0.0)
        edges, first, last = share_edges(low, high)
        self.shape = shape_of(nuisance)
        self.adjacent, self.n_bins = len(last) == edges.shape[1] - 1, len(first)
        self.low, self.high, self.edges, self.log_edges = (
            machine.send(np.ascontiguousarray(values.T))
            for values in (low, high, edges, _log(edges))
        )

    def ends(self, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Return lower and upper ends of the bins."""
        return _of(self.low, blocks), _of(self.high, blocks)

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
        log_ratio = (_of(self.log_edges, blocks) - eta).clamp(max=2 * _FARTHEST)
        tail, upper, front, by_shape = _edges(log_ratio, shape, excess, log_scale)
        (tail_low, tail_high), (up_low, up_high) = self._sides(tail), self._sides(upper)
        q = torch.where(up_low, tail_low - tail_high, tail_high - tail_low)
        q = torch.where(~up_low & up_high, 1 - tail_low - tail_high, q)
        low, high = self._sides(front)
        d_eta = low - high
        low, high = self._sides(by_shape)
        d_log_shape = high - low
        lower, higher = self.ends(blocks)
        narrow = (lower > 0) & (lower < higher) & (q < NARROW * torch.maximum(tail_low, tail_high))
        if narrow.any():
            low, high, at = (
                torch.broadcast_to(v, narrow.shape)[narrow] for v in (lower, higher, eta)
            )
            found = _narrow_bin(low, high, at, shape, excess, log_scale)
            for values, better in zip((q, d_eta, d_log_shape), found, strict=True):
                values[narrow] = better
        holds = lower < higher
        return q * holds, d_eta * holds, d_log_shape * holds

    def _sides(self, values: Tensor) -> tuple[Tensor, Tensor]:
        k = self.n_bins
        return (values[:-1], values[1:]) if self.adjacent else (values[:k], values[k:])


def _edges(log_ratio: Tensor, shape: float, excess: float, log_scale: float) -> tuple[Tensor, ...]:
    """Return the tail beyond edges, whether it is the upper one, -dF/d eta and dF/d log shape."""
    ratio = torch.exp(log_ratio)
    front = torch.exp(shape * (log_ratio - (ratio - 1)) + log_scale)
    front = torch.where((log_ratio > _FARTHEST) | torch.isneginf(log_ratio), 0.0, front)
    alive = front > 0
    series = shape * ratio < shape + 1
    upper = torch.where(alive, ~series, ratio > 1)
    tail, by_shape = torch.zeros_like(front), torch.zeros_like(front)
    for cells, sign, total in ((alive & series, 1, _lower_sum), (alive & ~series, -1, _fraction)):
        if cells.any():
            f, log_r = front[cells], log_ratio[cells]
            factor, slope = total(shape, shape * ratio[cells])
            tail[cells] = f * factor
            by_shape[cells] = f + sign * shape * f * factor * (log_r + excess + slope)
    return tail, upper, front, by_shape


def _lower_sum(shape: float, x: Tensor) -> tuple[Tensor, Tensor]:
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


def _fraction(shape: float, x: Tensor) -> tuple[Tensor, Tensor]:
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


def _narrow_bin(
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


def _log(edges: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(edges > 0, np.log(edges), -np.inf)


def _of(ends: Tensor, blocks: Tensor) -> Tensor:
    """Return (E, 1, 1) or (E, t, 1) of (E, 1) or (E, B)."""
    return ends[:, :, None] if ends.shape[1] == 1 else ends[:, blocks, None]
