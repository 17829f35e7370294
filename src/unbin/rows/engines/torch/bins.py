"""Probabilities of bins on a device, whatever the family."""

from __future__ import annotations

from dataclasses import dataclass

from unbin._typing import FloatArray
from unbin.families import Family
from unbin.families.base import as_rows
from unbin.rows.engines.torch.machine import Machine, Tensor, torch


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
        self.family, self.nuisance = family, nuisance
        if not family.single_precision:
            machine = Machine(machine.device, torch.float64)
        self.dtype = machine.dtype
        self.law = family.tensor_law(as_rows(lower), as_rows(upper), nuisance, machine)

    def at(self, eta: Tensor, blocks: Tensor) -> TorchBins:
        """Return the bins of rows; ``blocks`` are the blocks of the tiles, (t,)."""
        return TorchBins(self.law.bins(eta.to(self.dtype), blocks).to(eta.dtype))

    def means(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return E[y | bin], (K, t, tile), always a finite value of the bin."""
        values, mean = self.law.means(eta.to(self.dtype), blocks), self.family.inverse_link(eta)
        low, high = self.law.ends(blocks)
        kept = torch.minimum(torch.maximum(values, low), torch.maximum(low, high))
        return torch.where(low > high, mean, kept)
