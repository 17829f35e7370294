"""Probabilities of bins on a device: the formulas of ``unbin.families``, many rows at a time.

Bins come first: eta is (t, tile), edges are (E, 1, 1) or (E, t, 1), probabilities (K, t, tile).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from unbin.device.backend import Machine, Tensor, torch
from unbin.device.counts import CountBins
from unbin.device.gamma import GammaBins
from unbin.exceptions import EngineError
from unbin.families import Family, Gaussian, Ordinal
from unbin.families.base import as_rows, share_edges
from unbin.families.gaussian import sigma_of
from unbin.families.latent import NARROW_WIDTH
from unbin.families.normal import NARROW
from unbin.typing import BoolArray, FloatArray, IntArray

_FARTHEST = {torch.float64: 1e150, torch.float32: 1e18}
"""So far away nothing is left, and squares are numbers still."""
_WIDEST_NARROW = 2e-3
"""Bins wider than this many standard deviations are never narrow (see ``families.normal``)."""
_TWO_POINT = 0.5 / math.sqrt(3.0)
_INV_ROOT_TWO_PI = 1 / math.sqrt(2 * math.pi)


@dataclass(frozen=True, slots=True)
class TorchBins:
    """Probabilities of bins and their derivatives, as in ``BinModel``.

    Attributes
    ----------
    stack : (2 + m, K, t, tile)
        Probabilities, derivatives in eta, and in each nuisance parameter.
    """

    stack: Tensor

    @property
    def probability(self) -> Tensor:
        """Return the probabilities, (K, t, tile)."""
        return self.stack[0]


class Bins:
    """The bins of a family at some nuisance parameters, on a device.

    Parameters
    ----------
    family : Family
    lower, upper : (K,) or (B, K)
    nuisance : (m,)
    machine : Machine
    """

    def __init__(
        self,
        family: Family,
        lower: FloatArray,
        upper: FloatArray,
        nuisance: FloatArray,
        machine: Machine,
    ) -> None:
        if family.name not in _LAWS:
            known = ", ".join(repr(name) for name in _LAWS)
            raise EngineError(
                f"engine 'torch': has no bins of family {family.name!r}, only of {known}; use "
                "engine='local'"
            )
        self.family, self.nuisance = family, nuisance
        if family.name not in _SINGLE:
            machine = Machine(machine.device, torch.float64)
        self.dtype = machine.dtype
        self.law = _LAWS[family.name](family, as_rows(lower), as_rows(upper), nuisance, machine)

    def at(self, eta: Tensor, blocks: Tensor) -> TorchBins:
        """Return the bins of rows; ``blocks`` are the blocks of the tiles, (t,)."""
        return TorchBins(self.law.bins(eta.to(self.dtype), blocks).to(eta.dtype))

    def means(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return E[y | bin], (K, t, tile), always a finite value of the bin."""
        values, mean = self.law.means(eta.to(self.dtype), blocks), self.family.inverse_link(eta)
        low, high = self.law.ends(blocks)
        kept = torch.minimum(torch.maximum(values, low), torch.maximum(low, high))
        return torch.where(low > high, mean, kept)


def place_edges(edges: FloatArray | BoolArray, machine: Machine) -> Callable[[Tensor], Tensor]:
    """Return what picks the edges of tiles, (E, 1, 1) or (E, t, 1), of edges (1, E) or (B, E)."""
    first = machine.send(np.ascontiguousarray(edges.T))
    if len(edges) == 1:
        shared = first[:, :, None]
        return lambda _: shared
    return lambda blocks: first[:, blocks, None]


class _Law:
    """Bins between edges."""

    def __init__(self, low: FloatArray, high: FloatArray, machine: Machine) -> None:
        edges, first, last = share_edges(low, high)
        self.adjacent = len(last) == edges.shape[1] - 1
        self.n_bins = len(first)
        self.edges = place_edges(edges, machine)
        self.low, self.high = place_edges(low, machine), place_edges(high, machine)
        self.holds = None if (low < high).all() else place_edges(low < high, machine)

    def ends(self, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Return lower and upper ends of the bins."""
        return self.low(blocks), self.high(blocks)

    def sides(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Split values at edges into those at lower and at upper ends."""
        k = self.n_bins
        return (values[:-1], values[1:]) if self.adjacent else (values[:k], values[k:])


class NormalBins(_Law):
    """Bins of a normal law around eta."""

    def __init__(
        self, low: FloatArray, high: FloatArray, machine: Machine, sigma: float, scaled: bool
    ) -> None:
        super().__init__(low, high, machine)
        self.sigma, self.scaled = sigma, scaled
        with np.errstate(invalid="ignore"):
            width = (high - low) / sigma
        small = (low < high) & (width < _WIDEST_NARROW)
        self.narrow: IntArray = np.flatnonzero(small.any(axis=0))
        # erfc and exp take x = (edge - eta) / (sigma sqrt 2); what is infinite is far enough
        self.unit = math.sqrt(0.5) / sigma
        far = _FARTHEST[machine.dtype]
        self.scaled_edges = place_edges(
            np.clip(share_edges(low, high)[0] * self.unit, -far, far), machine
        )
        log_density = math.log(_INV_ROOT_TWO_PI) - math.log(sigma)
        self.log_density = machine.send(np.array(log_density))

    def bins(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return q, dq/d eta and dq/d log sigma as ``families.normal`` does."""
        x = self.scaled_edges(blocks) - eta * self.unit
        density = torch.addcmul(self.log_density, x, x, value=-1).exp_()
        tail = x.abs().erfc_()  # twice the tail on the side away from the mean
        found = eta.new_empty((2 + self.scaled, self.n_bins, *eta.shape))
        (low, high), (below, above) = self.sides(torch.signbit(x)), self.sides(tail.copysign_(x))
        # a bin with the mean inside is 1 less both tails, any other one their difference
        torch.add(low ^ high, below - above, alpha=0.5, out=found[0])
        torch.sub(*self.sides(density), out=found[1])
        if self.scaled:
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
            parts = f, f * a / self.sigma, f * (a * a - 1)
            better += torch.stack(parts[: len(better)])
        found[:, k] = torch.where(narrow, better, found[:, k])

    def means(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return eta plus the variance times the score of the bin."""
        q, d_eta = self.bins(eta, blocks)[:2]
        return eta + self.sigma**2 * torch.where(q > 0, d_eta / q, 0.0)


class LogisticBins(_Law):
    """Bins of a logistic law around eta."""

    def __init__(self, low: FloatArray, high: FloatArray, machine: Machine) -> None:
        super().__init__(low, high, machine)
        with np.errstate(invalid="ignore"):
            width = np.where(low < high, -np.expm1(low - np.maximum(low, high)), 0.0)
        self.width = place_edges(width, machine)

    def bins(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return q = G(high - eta) G(eta - low) (1 - exp(low - high)) and dq/d eta."""
        above = eta - self.edges(blocks)
        below = torch.neg(above).sigmoid_()
        above = above.sigmoid_()
        (below_low, below_high), (above_low, above_high) = self.sides(below), self.sides(above)
        found = eta.new_empty((2, self.n_bins, *eta.shape))
        torch.mul(below_high, above_low, out=found[0]).mul_(self.width(blocks))
        torch.sub(below_low, above_high, out=found[1]).mul_(found[0])
        return found

    def means(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return the means within bins as ``families.latent`` does."""
        q = self.bins(eta, blocks)[0]
        low, high = (end - eta for end in self.ends(blocks))
        shift = torch.where(q > 0, (_partial_mean(high) - _partial_mean(low)) / q, 0.0)
        narrow = high - low < NARROW_WIDTH
        return eta + torch.where(narrow, 0.5 * (low + high), shift)


def _partial_mean(x: Tensor) -> Tensor:
    """Return x G(x) - log(1 + exp(x)), an even function."""
    size = x.abs()
    finite = torch.where(torch.isfinite(size), size, 0.0)
    value = -finite * torch.sigmoid(-finite) - torch.log1p(torch.exp(-finite))
    return torch.where(torch.isfinite(size), value, 0.0)


def _gaussian(
    _: Gaussian, low: FloatArray, high: FloatArray, nuisance: FloatArray, machine: Machine
) -> NormalBins:
    sigma = sigma_of(nuisance)
    return NormalBins(low, high, machine, sigma, True)


def _ordinal(
    family: Ordinal, _: FloatArray, __: FloatArray, nuisance: FloatArray, machine: Machine
) -> _Law:
    edges = np.concatenate([[-np.inf], nuisance, [np.inf]])[None]
    if family.link_name == "probit":
        return NormalBins(edges[:, :-1], edges[:, 1:], machine, 1.0, False)
    return LogisticBins(edges[:, :-1], edges[:, 1:], machine)


_SINGLE = ("gaussian", "ordinal")
"""Families whose bins are worked out in single precision, if that is asked for: the others sum
terms whose exponents it does not reach."""
_LAWS: dict[str, Callable[..., Any]] = {
    "gaussian": _gaussian,
    "ordinal": _ordinal,
    "poisson": CountBins,
    "binomial": CountBins,
    "negative-binomial": partial(CountBins, n_nuisance=1),
    "gamma": GammaBins,
}
"""The bins of every family that has them on a device, by its name."""
