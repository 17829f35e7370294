"""Probabilities of bins under a normal law, fast and right in the far tails."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import erfcx

from unbin._compiling import njit
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.families.base import as_rows, share_edges
from unbin.families.elementary import TILE, exp_below_one
from unbin.families.tensors import FusedLaw, Machine, Tensor, TensorLaw, place_edges, torch

NARROW = 1e-3
"""A bin with less than this share of the tail beyond it is density times width: the difference
of two tails would lose digits there, and the two-point rule is right to 1e-14."""

_TWO_POINT = 0.5 / math.sqrt(3.0)
_ROOT_HALF = math.sqrt(0.5)
_INV_ROOT_TWO_PI = 1 / math.sqrt(2 * math.pi)
_CENTRE = 3.75
_FEW = 1 << 16
"""Rows times edges up to which NumPy does: compiling takes two seconds."""
_FAR = 40.0
"""So many standard deviations away nothing is left; it stands for infinity."""
_FARTHEST = {"torch.float64": 1e150, "torch.float32": 1e18}
"""The same on a device: squares are numbers still."""
_WIDEST_NARROW = 2e-3
"""Bins wider than this many standard deviations are never narrow."""


def _scaled_erfcx(t: Any) -> Any:
    """Return (1 + 2x) exp(x²) erfc(x) at x = c (1 + t)/(1 - t), smooth on [-1, 1]."""
    x = _CENTRE * (1 + t) / (1 - t)
    return (1 + 2 * x) * erfcx(x)


# a polynomial of degree 20 in t is right to 1e-14; even and odd powers are summed apart, because
# two short chains of multiply-adds run at the same time
_POWERS = chebyshev.cheb2poly(chebyshev.chebinterpolate(_scaled_erfcx, 20))
_EVEN, _ODD = _POWERS[::2][::-1].copy(), _POWERS[1::2][::-1].copy()
TAIL = (tuple(_EVEN.tolist()), tuple(_ODD.tolist()), _CENTRE)
"""The polynomials and their centre, for kernels on a device."""


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _tails_and_densities(a, tail, density):  # type: ignore[no-untyped-def]
    """Write P(Z > |a|) and the standard normal density at a, |a| at most ``_FAR``."""
    for i in range(len(a)):
        x = abs(a[i]) * _ROOT_HALF
        f = exp_below_one(-x * x)
        f = 0.0 if abs(a[i]) == _FAR else f
        # one division for both 1/(x + c) and 1/(1 + 2x)
        inverse = 1 / ((x + _CENTRE) * (1 + 2 * x))
        t = (x - _CENTRE) * (1 + 2 * x) * inverse
        s = t * t
        even, odd = _EVEN[0] * s + _EVEN[1], _ODD[0]
        for j in range(1, 10):
            even = even * s + _EVEN[j + 1]
            odd = odd * s + _ODD[j]
        tail[i] = 0.5 * f * (even + t * odd) * (x + _CENTRE) * inverse
        density[i] = _INV_ROOT_TWO_PI * f


@njit(cache=True, nogil=True)
def _narrow_bin(middle, width):  # type: ignore[no-untyped-def]
    """Return q, -dq/dshift and -dq/dlog scale of a narrow bin of the standard normal."""
    q, first, second = 0.0, 0.0, 0.0
    half = _TWO_POINT * width
    for a in (middle - half, middle + half):
        f = 0.5 * width * _INV_ROOT_TWO_PI * math.exp(-0.5 * a * a)
        q += f
        first += f * a
        second += f * (a * a - 1)
    return q, first, second


def normal_bins(
    eta: FloatArray, lower: FloatArray, upper: FloatArray, sigma: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return q, dq/d eta and dq/d log sigma, each (n, K), for y normal around eta.

    With a = (edge - eta)/sigma and f the standard normal density, q is a difference of the tails
    on the side away from the mean, dq/d eta = (f(a_lo) - f(a_hi))/sigma and dq/d log sigma =
    a_lo f(a_lo) - a_hi f(a_hi).
    """
    low, high = as_rows(lower), as_rows(upper)
    edges, first, last = share_edges(low, high)
    holds = low < high
    if len(eta) * edges.shape[1] <= _FEW:
        return _few_bins(eta, edges, first, last, holds, 1.0 / sigma)
    found = _normal_bins(eta, edges, first, last, holds, holds.all(axis=0), 1.0 / sigma)
    q, d_eta, d_log_sigma = found
    return q, d_eta, d_log_sigma


def _few_bins(
    eta: FloatArray,
    edges: FloatArray,
    first: IntArray,
    last: IntArray,
    holds: BoolArray,
    inverse: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what ``_normal_bins`` does, of so few rows that compiling it does not pay."""
    a = np.clip((edges - eta[:, None]) * inverse, -_FAR, _FAR)
    f = np.exp(-0.5 * a * a) * (np.abs(a) < _FAR)
    tail = 0.5 * f * erfcx(_ROOT_HALF * np.abs(a))
    f *= _INV_ROOT_TWO_PI
    (low, high), (below, above) = (a[:, first], a[:, last]), (tail[:, first], tail[:, last])
    f_low, f_high = f[:, first], f[:, last]
    q = np.where((low >= 0) | (high <= 0), np.abs(below - above), 1 - below - above) * holds
    found = q, (f_low - f_high) * inverse * holds, (low * f_low - high * f_high) * holds
    narrow = holds & (q < NARROW * np.maximum(below, above))
    if narrow.any():
        row, k = np.nonzero(narrow)
        ends = np.broadcast_to(edges, (len(q), edges.shape[1]))
        width = (ends[row, last[k]] - ends[row, first[k]]) * inverse
        middle, better = low[narrow] + 0.5 * width, np.zeros((3, len(width)))
        for at in (middle - _TWO_POINT * width, middle + _TWO_POINT * width):
            g = 0.5 * width * _INV_ROOT_TWO_PI * np.exp(-0.5 * at * at)
            better += np.array([g, g * at * inverse, g * (at * at - 1)])
        for values, changed in zip(found, better, strict=True):
            values[narrow] = changed
    return found


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _normal_bins(eta, edges, first, last, holds, all_hold, inverse):  # type: ignore[no-untyped-def]
    """Work through tiles of rows, edge by edge and bin by bin, so that loops run along rows."""
    n, k_bins, n_edges = len(eta), len(first), edges.shape[1]
    # one block: the allocator keeps it from call to call; rows are last in it, and first outside
    block = np.empty((3, k_bins, n))
    shape = (n_edges, TILE)
    a, tail, f = np.empty(shape), np.empty(shape), np.empty(shape)
    shared = len(edges) == 1
    for e in range(n_edges if shared else 0):  # nothing lies beyond an open end
        for i in range(TILE):
            a[e, i], tail[e, i], f[e, i] = min(max(edges[0, e], -_FAR), _FAR), 0.0, 0.0
    for low in range(0, n, TILE):
        size = min(TILE, n - low)
        for e in range(n_edges):
            if shared and np.isinf(edges[0, e]):
                continue
            at = a[e, :size]
            for i in range(size):
                edge = edges[0, e] if shared else edges[low + i, e]
                at[i] = min(max((edge - eta[low + i]) * inverse, -_FAR), _FAR)
            _tails_and_densities(at, tail[e, :size], f[e, :size])
        rows = slice(low, low + size)
        for k in range(k_bins):
            lo, hi = first[k], last[k]
            q, d_eta, d_scale = block[0, k, rows], block[1, k, rows], block[2, k, rows]
            n_narrow = _differences(
                a[lo], a[hi], tail[lo], tail[hi], f[lo], f[hi], inverse, q, d_eta, d_scale
            )
            if n_narrow == 0 and all_hold[k]:
                continue
            for i in range(size):
                row = 0 if shared else low + i
                if not holds[row, k]:
                    q[i], d_eta[i], d_scale[i] = 0.0, 0.0, 0.0
                elif q[i] < NARROW * max(tail[lo, i], tail[hi, i]):
                    # the width from the edges themselves: a[hi] - a[lo] has lost its digits
                    width = (edges[row, hi] - edges[row, lo]) * inverse
                    q[i], shift, d_scale[i] = _narrow_bin(a[lo, i] + 0.5 * width, width)
                    d_eta[i] = shift * inverse
    return block[0].T, block[1].T, block[2].T


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _differences(a, b, tail_a, tail_b, f_a, f_b, inverse, q, d_eta, d_scale):  # type: ignore[no-untyped-def]
    """Write q and its derivatives for bins from a to b; return how many bins are narrow."""
    narrow = 0
    for i in range(len(q)):
        # the part below the mean and the part above it, each from the tail on its side
        across = 1 - tail_a[i] - tail_b[i]
        beside = abs(tail_a[i] - tail_b[i])
        mass = beside if a[i] >= 0 or b[i] <= 0 else across
        q[i] = mass
        d_eta[i] = (f_a[i] - f_b[i]) * inverse
        d_scale[i] = a[i] * f_a[i] - b[i] * f_b[i]
        narrow += mass < NARROW * max(tail_a[i], tail_b[i])
    return narrow


# -- on a device -----------------------------------------------------------------------------------


class NormalBins(TensorLaw):
    """Bins of a normal law around eta, on a device."""

    def __init__(self, low: FloatArray, high: FloatArray, machine: Machine, sigma: float) -> None:
        super().__init__(low, high, machine)
        self.sigma = sigma
        with np.errstate(invalid="ignore"):
            width = (high - low) / sigma
        small = (low < high) & (width < _WIDEST_NARROW)
        self.narrow: IntArray = np.flatnonzero(small.any(axis=0))
        # erfc and exp take x = (edge - eta) / (sigma sqrt 2); what is infinite is far enough
        self.unit = math.sqrt(0.5) / sigma
        far = _FARTHEST[str(machine.dtype)]
        self.scaled_edges = place_edges(
            np.clip(share_edges(low, high)[0] * self.unit, -far, far), machine
        )
        log_density = math.log(_INV_ROOT_TWO_PI) - math.log(sigma)
        self.log_density = machine.send(np.array(log_density))

    def bins(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return q, dq/d eta and dq/d log sigma as :func:`normal_bins` does."""
        x = self.scaled_edges(blocks) - eta * self.unit
        density = torch.addcmul(self.log_density, x, x, value=-1).exp_()
        tail = x.abs().erfc_()  # twice the tail on the side away from the mean
        found = eta.new_empty((3, self.n_bins, *eta.shape))
        (low, high), (below, above) = self.sides(torch.signbit(x)), self.sides(tail.copysign_(x))
        # a bin with the mean inside is 1 less both tails, any other one their difference
        torch.add(low ^ high, below - above, alpha=0.5, out=found[0])
        torch.sub(*self.sides(density), out=found[1])
        low, high = self.sides(x.mul_(density))
        torch.sub(low, high, out=found[2]).mul_(1 / self.unit)
        for k in self.narrow:
            beyond = torch.maximum(*(side[k].abs() for side in self.sides(tail))).mul_(0.5)
            self._narrow(int(k), eta, blocks, beyond, found)
        if self.holds is not None:
            found.mul_(self.holds(blocks))
        return found

    def _narrow(self, k: int, eta: Tensor, blocks: Tensor, beyond: Tensor, found: Tensor) -> None:
        """Replace bin k by density times width where it is narrow."""
        low, high = (side[k] for side in self.ends(blocks))
        width = (high - low) / self.sigma
        narrow = (found[0, k] < NARROW * beyond) & (width > 0)
        width = torch.where(narrow, width, 0.0)
        middle = torch.where(narrow, (low - eta) / self.sigma + 0.5 * width, 0.0)
        better = torch.zeros_like(found[:, k])
        for a in (middle - _TWO_POINT * width, middle + _TWO_POINT * width):
            f = 0.5 * width * _INV_ROOT_TWO_PI * torch.exp(-0.5 * a * a)
            better += torch.stack([f, f * a / self.sigma, f * (a * a - 1)])
        found[:, k] = torch.where(narrow, better, found[:, k])

    def fused(self) -> FusedLaw:
        """Return edges as multiples of sigma sqrt 2, and which bins hold anything."""
        low, high = self.given
        far = _FARTHEST["torch.float64"]
        edges = np.clip(share_edges(low, high)[0] * self.unit, -far, far)
        found = self._fused(edges, (low < high).astype(np.float64), self.sigma)
        if not len(self.narrow):
            return found
        ends = np.clip(np.hstack([low, high]), -far, far)
        return replace(found, ends=self.machine.send(ends, torch.float64))

    def means(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return eta plus the variance times the score of the bin."""
        q, d_eta = self.bins(eta, blocks)[:2]
        return eta + self.sigma**2 * torch.where(q > 0, d_eta / q, 0.0)
