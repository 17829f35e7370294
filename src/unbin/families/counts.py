"""Bins of counts whose variance is mean + b mean²: Poisson, binomial and negative binomial.

All three have p_(j+1) / p_j = omega (1 + b j)/(j + 1) with omega = mean/(1 + b mean), so

    log p_j = log p_0 + j log omega + sum_(i<j) log((1 + b i)/(i + 1)),
    log p_0 = -log(1 + b mean)/b,
    dP(y <= j)/d eta = -g (j + 1) p_(j+1),

with b = 0 and g = 1 (Poisson), b = -1/trials and g = 1 - mean/trials (binomial, logit link),
b = dispersion and g = 1 (negative binomial, log link). A bin is summed from its largest term
outwards until terms no longer count. Terms of a negative binomial may fall so slowly that millions
of them count; past ``MOST_TERMS`` its bins are incomplete beta functions instead, with which
P(y < j) = I_v(1/b, j) for v = 1/(1 + b mean).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betainc, betaincc

from unbin._compiling import njit
from unbin._typing import FloatArray, IntArray
from unbin.exceptions import EngineError
from unbin.families.base import BinModel, as_rows
from unbin.families.tensors import Machine, Tensor, TensorLaw, torch

LARGEST_COUNT = 1 << 22
"""A bin that ends above this is taken as open: tables of terms stay small."""
OPEN = 1 << 62
NEGLIGIBLE = 1e-18
TINY = 1e-307
"""Below this numbers lose their digits and no longer fall when multiplied by 0.99."""
SMALL_TAIL = 1e-3
"""An open bin above this is 1 minus the rest; below, the tail is summed term by term."""
MOST_TERMS = 2_000
"""Of a negative binomial, on either side of the largest; the other laws fall faster."""
_STEP = 5e-3
"""Of numeric derivatives in log b."""
_MOST_INTEGERS = 1 << 14
"""On a device: bins with more integers than this, put together, are left to the local engine."""
_CHECK_EVERY = 16


@dataclass(frozen=True, slots=True)
class CountLaw:
    """A law of counts for each row.

    Attributes
    ----------
    b : float
        The variance is mean + b mean².
    mean, log_omega, log_zero, g : (n,)
        As in the formulas above; ``log_zero`` is log p_0.
    slope, level : (n,)
        d log p_j / d log b = sum_(i<j) b i/(1 + b i) - slope j + level, where b is a parameter.
    """

    b: float
    mean: FloatArray
    log_omega: FloatArray
    log_zero: FloatArray
    g: FloatArray
    slope: FloatArray
    level: FloatArray


def count_bins(
    law: CountLaw, lower: FloatArray, upper: FloatArray, *, n_nuisance: int = 0
) -> BinModel:
    """Return the probabilities of bins from ``lower`` to ``upper``, both included."""
    low, high = integers_of_bins(lower, upper)
    finite = high[high < OPEN]
    size = max(int(low.max(initial=0)), int(finite.max(initial=0))) + 2
    law_rows = (law.mean, law.log_omega, law.log_zero, law.g, law.slope, law.level)
    most = MOST_TERMS if law.b > 0 else OPEN
    q, d_eta, d_log_b = _count_bins(law_rows, law.b, low, high, term_tables(law.b, size), most)
    row, k = np.nonzero(np.isnan(q))
    if len(row):
        place = row if len(low) > 1 else 0
        q[row, k], d_log_b[row, k] = long_bins(law.b, law.mean[row], low[place, k], high[place, k])
    return BinModel(q, d_eta, d_log_b[None][:n_nuisance])


def long_bins(
    b: float, mean: FloatArray, low: IntArray, high: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return q and dq/d log b of bins of a negative binomial, one for each mean, all (m,)."""
    up, down = (_long_mass(b * math.exp(step), mean, low, high) for step in (_STEP, -_STEP))
    far_up, far_down = (
        _long_mass(b * math.exp(step), mean, low, high) for step in (2 * _STEP, -2 * _STEP)
    )
    slope = (8 * (up - down) - (far_up - far_down)) / (12 * _STEP)
    return _long_mass(b, mean, low, high), slope


def _long_mass(b: float, mean: FloatArray, low: IntArray, high: IntArray) -> FloatArray:
    """Return P(low <= y <= high), as a difference of the two probabilities that are smaller."""
    v, r, begins, ends = 1 / (1 + b * mean), 1 / b, low > 0, high < OPEN
    first, after = np.where(begins, low, 1), np.where(ends, high + 1, 1)
    below = np.where(begins, betainc(r, first, v), 0.0)
    above = np.where(begins, betaincc(r, first, v), 1.0)
    to_end = np.where(ends, betainc(r, after, v), 1.0)
    beyond = np.where(ends, betaincc(r, after, v), 0.0)
    return np.where(above < 0.5, above - beyond, to_end - below)


def count_resolution(lower: FloatArray, upper: FloatArray) -> float:
    """Return ``Family.resolution`` of counts with a log link: 1 / sqrt(mean) at the last edge."""
    ends = np.concatenate([np.ravel(lower), np.ravel(upper)])
    return 1 / math.sqrt(1 + ends[np.isfinite(ends)].max(initial=0.0))


def integers_of_bins(lower: FloatArray, upper: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first and the last integer of each bin, as rows of int64."""
    low, high = np.maximum(np.ceil(as_rows(lower)), 0.0), np.floor(as_rows(upper))
    empty = (low > high) | (low > LARGEST_COUNT)
    first = np.where(empty, 1.0, low).astype(np.int64)
    last = np.where(high > LARGEST_COUNT, OPEN, np.where(empty, 0.0, high)).astype(np.int64)
    return first, np.where(empty, 0, last)


def term_tables(b: float, size: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (1 + b j)/(j + 1), the sums of its logarithms and of b i/(1 + b i) below j."""
    j = np.arange(size)
    trials = np.rint(-1 / b) if b < 0 else np.inf
    numerator = np.maximum(trials - j, 0.0) / trials if b < 0 else 1 + b * j
    ratio = numerator / (j + 1)
    exists = ratio > 0
    log_ratio = np.log(ratio, out=np.zeros(size), where=exists)
    growth = np.divide(b * j, numerator, out=np.zeros(size), where=exists)
    return ratio, _sums_below(log_ratio), _sums_below(growth)


def _sums_below(values: FloatArray) -> FloatArray:
    # thousands of terms: doubles would leave errors of 1e-11 in the probabilities
    sums = np.cumsum(values[:-1], dtype=np.longdouble)
    return np.concatenate([[0.0], sums]).astype(np.float64)


@njit(cache=True, nogil=True, inline="always")
def _term(j, start, log_omega, tables):  # type: ignore[no-untyped-def]
    """Return p_j."""
    return math.exp(start + j * log_omega + tables[1][j])


@njit(cache=True, nogil=True)
def _sum_bin(low, high, mode, start, log_omega, omega, slope, tables, most):  # type: ignore[no-untyped-def]
    """Return sum p_j, sum p_j (growth_j - slope j), p_low and p_high of a bounded bin.

    The sums are NaN if there are too many terms.
    """
    ratio, _, growth = tables
    anchor = min(max(mode, low), high)
    p = _term(anchor, start, log_omega, tables)
    total, score = p, p * (growth[anchor] - slope * anchor)
    r, j = p, anchor
    while j < high and r > NEGLIGIBLE * total and j - anchor < most:
        r *= omega * ratio[j]
        j += 1
        total += r
        score += r * (growth[j] - slope * j)
    unfinished = j < high and r > NEGLIGIBLE * total
    p_high = r if j == high else 0.0
    r, j = p, anchor
    while j > low and r > NEGLIGIBLE * total and anchor - j < most:
        j -= 1
        r /= omega * ratio[j]
        total += r
        score += r * (growth[j] - slope * j)
    p_low = r if j == low else 0.0
    if unfinished or (j > low and r > NEGLIGIBLE * total):
        p_low, p_high = _term(low, start, log_omega, tables), _term(high, start, log_omega, tables)
        return np.nan, np.nan, p_low, p_high
    return total, score, p_low, p_high


@njit(cache=True, nogil=True)
def _sum_tail(low, b, start, log_omega, slope, tables, most):  # type: ignore[no-untyped-def]
    """Return sum p_j and sum p_j (growth_j - slope j) over j >= low, where terms fall.

    NaN if there are too many of them.
    """
    omega = math.exp(log_omega)
    r, growth, j = _term(low, start, log_omega, tables), tables[2][low], low
    total, score = r, r * (growth - slope * low)
    while r > NEGLIGIBLE * total + TINY:
        if j - low >= most:
            return np.nan, np.nan
        r *= omega * (1 + b * j) / (j + 1)
        growth += b * j / (1 + b * j)
        j += 1
        total += r
        score += r * (growth - slope * j)
    return total, score


@njit(cache=True, nogil=True)
def _count_bins(law_rows, b, lower, upper, tables, most):  # type: ignore[no-untyped-def]
    """Return q, dq/d eta and dq/d log b, each (n, K); q is NaN where there are too many terms."""
    mean, log_omega, log_zero, g, slope, level = law_rows
    n, k_bins = len(mean), lower.shape[1]
    # one block: the allocator keeps it from call to call; rows are last in it, and first outside
    block = np.zeros((3, k_bins, n))
    q, d_eta, d_log_b = block[0].T, block[1].T, block[2].T
    for i in range(n):
        row = i if len(lower) > 1 else 0
        omega, mode = math.exp(log_omega[i]), int(min(mean[i], 1e15))
        # what was summed from 0 on without a gap, for the bin that is open above
        covered, mass_below, score_below = 0, 0.0, 0.0
        for k in range(k_bins):
            low, high = lower[row, k], upper[row, k]
            if low > high:
                continue
            if high < OPEN:
                mass, score, p_low, p_high = _sum_bin(
                    low, high, mode, log_zero[i], log_omega[i], omega, slope[i], tables, most
                )
                score += level[i] * mass
                if low == covered:
                    covered = high + 1
                    mass_below += mass
                    score_below += score
                rest = (high + 1) * omega * tables[0][high] * p_high
            else:
                if low == 0:
                    mass_below, score_below = 0.0, 0.0
                elif low != covered:
                    mass_below, score_below, _, _ = _sum_bin(
                        0, low - 1, mode, log_zero[i], log_omega[i], omega, slope[i], tables, most
                    )
                    score_below += level[i] * mass_below
                mass, score = 1 - mass_below, -score_below
                if mass < SMALL_TAIL:
                    mass, score = _sum_tail(
                        low, b, log_zero[i], log_omega[i], slope[i], tables, most
                    )
                    score += level[i] * mass
                p_low, rest = _term(low, log_zero[i], log_omega[i], tables), 0.0
            q[i, k], d_log_b[i, k] = mass, score
            d_eta[i, k] = g[i] * (low * p_low - rest)
    return q, d_eta, d_log_b


# -- on a device -----------------------------------------------------------------------------------


class CountBins(TensorLaw):
    """Bins of a family of counts on a device: a bin is summed over its integers, rows at a time.

    What is open above is 1 less the rest, or summed until terms no longer count where little is
    left.
    """

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
