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
from unbin.families.gaussian import log_sigma_in_reach
from unbin.families.latent import NARROW_WIDTH
from unbin.families.normal import NARROW
from unbin.typing import BoolArray, FloatArray, IntArray

_FAR = 40.0
_WIDEST_NARROW = 2e-3
"""Bins wider than this many standard deviations are never narrow (see ``families.normal``)."""
_TWO_POINT = 0.5 / math.sqrt(3.0)
_INV_ROOT_TWO_PI = 1 / math.sqrt(2 * math.pi)


@dataclass(frozen=True, slots=True)
class TorchBins:
    """Probabilities of bins and their derivatives, as in ``BinModel``.

    Attributes
    ----------
    probability, d_eta : (K, t, tile)
    d_nuisance : tuple of (K, t, tile)
    """

    probability: Tensor
    d_eta: Tensor
    d_nuisance: tuple[Tensor, ...] = ()


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
        q, d_eta, d_nuisance = self.law.bins(eta.to(self.dtype), blocks)
        return TorchBins(
            q.to(eta.dtype), d_eta.to(eta.dtype), tuple(part.to(eta.dtype) for part in d_nuisance)
        )

    def over_effects(self, eta: Tensor, blocks: Tensor, variance: float) -> TorchBins:
        """Average over the effect of a block: at ± one standard deviation."""
        if variance == 0:
            return self.at(eta, blocks)
        sd = math.sqrt(variance)
        up, down = self.at(eta + sd, blocks), self.at(eta - sd, blocks)
        return TorchBins(
            0.5 * (up.probability + down.probability),
            0.5 * (up.d_eta + down.d_eta),
            tuple(0.5 * (a + b) for a, b in zip(up.d_nuisance, down.d_nuisance, strict=True)),
        )

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

    def bins(self, eta: Tensor, blocks: Tensor) -> tuple[Any, ...]:
        """Return q, dq/d eta and (dq/d log sigma,) as ``families.normal`` does."""
        inverse = 1.0 / self.sigma
        a = (self.edges(blocks) - eta).mul_(inverse).clamp_(-_FAR, _FAR)
        f = (a * a).mul_(-0.5).exp_().mul_(_INV_ROOT_TWO_PI)
        tail = (a.abs() * math.sqrt(0.5)).erfc_().mul_(0.5)
        positive = a >= 0
        # tails on the side away from the mean; a bin with the mean inside is 1 less both
        signed = torch.where(positive, tail, -tail)
        (below, above), (at_low, at_high) = self.sides(signed), self.sides(positive)
        q = (at_low ^ at_high).to(eta.dtype).add_(below).sub_(above)
        low, high = self.sides(f)
        d_eta = (low - high).mul_(inverse)
        low, high = self.sides(a * f)
        d_scale = low - high if self.scaled else None
        for k in self.narrow:
            beyond = torch.maximum(*(side[k] for side in self.sides(tail)))
            self._narrow(int(k), eta, blocks, beyond, q, d_eta, d_scale)
        if self.holds is not None:
            holds = self.holds(blocks)
            q, d_eta = q * holds, d_eta * holds
            d_scale = d_scale * holds if d_scale is not None else None
        return q, d_eta, () if d_scale is None else (d_scale,)

    def _narrow(
        self,
        k: int,
        eta: Tensor,
        blocks: Tensor,
        beyond: Tensor,
        q: Tensor,
        d_eta: Tensor,
        d_scale: Tensor | None,
    ) -> None:
        """Replace bin k by density times width where it is narrow."""
        low, high = (side[k] for side in self.ends(blocks))
        width = (high - low) / self.sigma
        narrow = (q[k] < NARROW * beyond) & (width > 0)
        width = torch.where(narrow, width, 0.0)
        middle = torch.where(narrow, (low - eta) / self.sigma + 0.5 * width, 0.0)
        mass, first, second = 0.0, 0.0, 0.0
        for a in (middle - _TWO_POINT * width, middle + _TWO_POINT * width):
            f = 0.5 * width * _INV_ROOT_TWO_PI * torch.exp(-0.5 * a * a)
            mass, first, second = mass + f, first + f * a, second + f * (a * a - 1)
        q[k] = torch.where(narrow, mass, q[k])
        d_eta[k] = torch.where(narrow, first / self.sigma, d_eta[k])
        if d_scale is not None:
            d_scale[k] = torch.where(narrow, second, d_scale[k])

    def means(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return eta plus the variance times the score of the bin."""
        q, d_eta, _ = self.bins(eta, blocks)
        return eta + self.sigma**2 * torch.where(q > 0, d_eta / q, 0.0)


class LogisticBins(_Law):
    """Bins of a logistic law around eta."""

    def __init__(self, low: FloatArray, high: FloatArray, machine: Machine) -> None:
        super().__init__(low, high, machine)
        with np.errstate(invalid="ignore"):
            width = np.where(low < high, -np.expm1(low - np.maximum(low, high)), 0.0)
        self.width = place_edges(width, machine)

    def bins(self, eta: Tensor, blocks: Tensor) -> tuple[Any, ...]:
        """Return q = G(high - eta) G(eta - low) (1 - exp(low - high)) and dq/d eta."""
        above = eta - self.edges(blocks)
        below = torch.neg(above).sigmoid_()
        above = above.sigmoid_()
        (below_low, below_high), (above_low, above_high) = self.sides(below), self.sides(above)
        q = (below_high * above_low).mul_(self.width(blocks))
        return q, (below_low - above_high).mul_(q), ()

    def means(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return the means within bins as ``families.latent`` does."""
        q, _, _ = self.bins(eta, blocks)
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
    sigma = math.exp(log_sigma_in_reach(nuisance))
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
