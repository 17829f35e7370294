"""Bins on a device: what a family says of many rows at a time, in torch.

Bins come first: eta is (t, tile), edges are (E, 1, 1) or (E, t, 1), probabilities (K, t, tile).
Torch is there by the time that anybody asks; nothing here imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from unbin._typing import BoolArray, FloatArray
from unbin.families.base import share_edges

Tensor = Any


class _Torch:
    """The module torch, which whoever uses tensors has imported."""

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.modules["torch"], name)


torch: Any = _Torch()


class Machine(Protocol):
    """Where tensors live, and in what precision."""

    dtype: Any

    def send(self, values: Any, dtype: Any = None) -> Tensor:
        """Return numbers as a tensor on the device, floats in its precision unless said."""


def place_edges(edges: FloatArray | BoolArray, machine: Machine) -> Callable[[Tensor], Tensor]:
    """Return what picks the edges of tiles, (E, 1, 1) or (E, t, 1), of edges (1, E) or (B, E)."""
    first = machine.send(np.ascontiguousarray(edges.T))
    if len(edges) == 1:
        shared = first[:, :, None]
        return lambda _: shared
    return lambda blocks: first[:, blocks, None]


@dataclass(frozen=True, slots=True)
class FusedLaw:
    """Bins that one kernel works out together with their sums (see ``rows/engines/torch``).

    Attributes
    ----------
    edges : (1, E) or (B, E) tensor
        In the units of the kernel, for all blocks or by block.
    shares : (1, K) or (B, K) tensor
        What bins are multiplied by.
    adjacent : bool
        Whether a bin begins at the edge where the one before ends; else edges are all lower ends
        and then all upper ones.
    open_low, open_high : bool
        Whether the first bin has no lower end in any block, and the last one no upper end.
    sigma : float or None
        Of a normal law; None of a logistic one.
    ends : (1, 2 K) or (B, 2 K) tensor, optional
        Lower and upper ends in units of the target, where bins may be narrow.
    holds : bool
        Whether no bin is empty.
    """

    edges: Tensor
    shares: Tensor
    adjacent: bool
    open_low: bool
    open_high: bool
    sigma: float | None = None
    ends: Tensor | None = None
    holds: bool = True


class TensorLaw:
    """Bins between edges on a device, at some nuisance parameters."""

    def __init__(self, low: FloatArray, high: FloatArray, machine: Machine) -> None:
        edges, first, last = share_edges(low, high)
        self.adjacent = len(last) == edges.shape[1] - 1
        self.n_bins = len(first)
        self.edges = place_edges(edges, machine)
        self.low, self.high = place_edges(low, machine), place_edges(high, machine)
        self.holds = None if (low < high).all() else place_edges(low < high, machine)
        self.machine, self.given = machine, (low, high)

    def bins(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return probabilities of bins, derivatives in eta and in nuisance parameters, stacked.

        Parameters
        ----------
        eta : (t, tile)
        blocks : (t,)
            The block of each tile.

        Returns
        -------
        (2 + m, K, t, tile)
        """
        raise NotImplementedError

    def means(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return E[y | bin], (K, t, tile), perhaps a little outside of the bin."""
        raise NotImplementedError

    def fused(self) -> FusedLaw | None:
        """Return the bins for a fused kernel; None where there is none for the law."""
        return None

    def ends(self, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Return lower and upper ends of the bins."""
        return self.low(blocks), self.high(blocks)

    def _fused(self, edges: FloatArray, shares: FloatArray, sigma: float | None) -> FusedLaw:
        low, high = self.given
        return FusedLaw(
            self.machine.send(np.ascontiguousarray(edges), torch.float64),
            self.machine.send(np.ascontiguousarray(shares), torch.float64),
            self.adjacent,
            open_low=bool(np.isneginf(low[:, 0]).all()),
            open_high=bool(np.isposinf(high[:, -1]).all()),
            sigma=sigma,
            holds=self.holds is None,
        )

    def sides(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Split values at edges into those at lower and at upper ends."""
        k = self.n_bins
        return (values[:-1], values[1:]) if self.adjacent else (values[:k], values[k:])
