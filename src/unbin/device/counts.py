"""Bins of counts on a device: Poisson, binomial and negative binomial (``families.counts``).

A bin is summed over its integers, all rows at a time; what is open above is 1 less the rest, or
summed until terms no longer count where little is left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unbin.device.backend import Machine, Tensor, torch
from unbin.exceptions import EngineError
from unbin.families.counts import (
    MOST_TERMS,
    NEGLIGIBLE,
    OPEN,
    SMALL_TAIL,
    TINY,
    integers_of_bins,
    long_bins,
    term_tables,
)
from unbin.typing import FloatArray

_MOST_INTEGERS = 1 << 14
"""Bins with more integers than this, put together, are left to the local engine."""
_CHECK_EVERY = 16


class CountBins:
    """Bins of a family of counts."""

    def __init__(
        self,
        family: Any,
        low: FloatArray,
        high: FloatArray,
        nuisance: FloatArray,
        machine: Machine,
        n_nuisance: int = 0,
    ) -> None:
        self.family, self.nuisance, self.n_nuisance = family, nuisance, n_nuisance
        low, high = np.maximum(low, 0.0), np.minimum(high, family.domain.high)
        first, last = integers_of_bins(low, high)
        closed = last < OPEN
        self.width = np.where(closed & (first <= last), last - first + 1, 0).max(axis=0)
        before = np.where(closed, 0, first).max(initial=0)
        if self.width.sum() + before > _MOST_INTEGERS:
            raise EngineError(
                f"engine 'torch': family {family.name!r} sums bins over their integers, got bins "
                f"up to {int(np.where(closed, last, first).max())}; use engine='local'"
            )
        self.low, self.high = (_by_bin(ends, machine) for ends in (first, last))
        self.open = _by_bin(~closed, machine)
        self.has_open = ~closed.all(axis=0)
        people = np.where(closed & (first <= last), last - first + 1, 0).sum(axis=1)
        begin = np.where(closed, 0, first).max(axis=1, initial=0)
        self.rest = bool((people == begin).all())  # what is below an open bin lies in the others
        self.real = tuple(machine.send(np.ascontiguousarray(end.T)) for end in (low, high))
        size = max(int(first.max(initial=0)), int(np.where(closed, last, 0).max(initial=0))) + 2
        law = family.count_law(np.zeros(1), nuisance)
        self.b = law.b
        self.ratio, self.log_terms, self.growth = (
            machine.send(table) for table in term_tables(law.b, size)
        )
        self.machine = machine

    def ends(self, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Return lower and upper ends of the bins."""
        low, high = (_of(end, blocks) for end in self.real)
        return low, high

    def bins(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return q, dq/d eta and, for a dispersion, dq/d log b."""
        law = self.family.count_law(eta, self.nuisance)
        low, high, is_open = (_of(end, blocks) for end in (self.low, self.high, self.open))
        found = eta.new_zeros((3, len(low), *eta.shape))
        q, d_eta, d_log_b = found
        omega = torch.exp(law.log_omega)
        for k, width in enumerate(self.width):
            mass, score, p = 0.0, 0.0, eta.new_zeros(())
            for j in range(int(width)):
                here = low[k] + j
                p = self._term(law, here) * ((here <= high[k]) & ~is_open[k])
                mass = mass + p
                if self.n_nuisance:
                    score = score + p * (self.growth[self._index(here)] - law.slope * here)
            last = self._index(high[k])
            holds = (low[k] <= high[k]) & ~is_open[k]
            p_high = self._term(law, last) * holds
            rest = (last + 1) * omega * self.ratio[last] * p_high
            p_low = self._term(law, low[k]) * (low[k] <= high[k])
            q[k] = mass
            d_log_b[k] = score + law.level * mass
            d_eta[k] = law.g * (low[k] * p_low - rest)
        for k in np.flatnonzero(self.has_open).tolist():
            below = (q.sum(dim=0), d_log_b.sum(dim=0)) if self.rest else self._below(law, low[k])
            mass, score = self._open_bin(law, low[k], omega, *below)
            q[k] = torch.where(is_open[k], mass, q[k])
            d_log_b[k] = torch.where(is_open[k], score, d_log_b[k])
        return found[: 2 + self.n_nuisance]

    def means(self, eta: Tensor, blocks: Tensor) -> Tensor:
        """Return the mean plus (1 + b mean, or 1) times the score of the bin."""
        q, d_eta = self.bins(eta, blocks)[:2]
        mean = self.family.inverse_link(eta)
        scale = 1 + max(self.b, 0.0) * mean
        return mean + scale * torch.where(q > 0, d_eta / q, 0.0)

    def _index(self, j: Tensor) -> Tensor:
        return j.clamp(0, len(self.ratio) - 1)

    def _term(self, law: Any, j: Tensor) -> Tensor:
        """Return p_j."""
        j = self._index(j)
        return torch.exp(law.log_zero + j * law.log_omega + self.log_terms[j])

    def _below(self, law: Any, low: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mass below ``low``, and its derivative in log b."""
        mass, score = torch.zeros_like(law.mean), torch.zeros_like(law.mean)
        for j in range(int(low.max())):
            p = self._term(law, torch.full_like(low, j)) * (j < low)
            mass = mass + p
            if self.n_nuisance:
                score = score + p * (self.growth[j] - law.slope * j + law.level)
        return mass, score

    def _open_bin(
        self, law: Any, low: Tensor, omega: Tensor, below: Tensor, score_below: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the mass from ``low`` on, and its derivative in log b."""
        mass, score = 1 - below, -score_below
        small = mass < SMALL_TAIL
        if small.any():
            cells = torch.broadcast_to(low, mass.shape)[small]
            mass[small], score[small] = self._tail(law, cells, omega[small], small)
        return mass, score

    def _tail(self, law: Any, low: Tensor, omega: Tensor, small: Tensor) -> tuple[Tensor, Tensor]:
        """Sum terms from ``low`` on, where they fall, until they no longer count."""
        slope = law.slope[small]
        r = torch.exp(law.log_zero[small] + low * law.log_omega[small] + self.log_terms[low])
        growth = self.growth[low]
        j = low.to(r.dtype)
        total, score = r.clone(), r * (growth - slope * j)
        for step in range(MOST_TERMS):
            if step % _CHECK_EVERY == 0 and not (r > NEGLIGIBLE * total + TINY).any():
                break
            r = r * omega * (1 + self.b * j) / (j + 1)
            growth = growth + self.b * j / (1 + self.b * j)
            j = j + 1
            total += r
            score += r * (growth - slope * j)
        score += law.level[small] * total
        long = r > NEGLIGIBLE * total + TINY
        if self.b > 0 and long.any():
            first, mean = low[long].cpu().numpy(), law.mean[small][long].double().cpu().numpy()
            found = long_bins(self.b, mean, first, np.full_like(first, OPEN))
            total[long], score[long] = (self.machine.send(each).to(r.dtype) for each in found)
        return total, score


def _by_bin(ends: Any, machine: Machine) -> Tensor:
    return machine.send(np.ascontiguousarray(ends.T))


def _of(ends: Tensor, blocks: Tensor) -> Tensor:
    """Return (K, 1, 1) or (K, t, 1) of (K, 1) or (K, B)."""
    return ends[:, :, None] if ends.shape[1] == 1 else ends[:, blocks, None]
