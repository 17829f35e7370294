"""Shares of people in bins, raked to the margins of several tables at once.

Person i is in bin k with probability q_ik. A table t counts the person in one of its cells,
c_t(i, k), and says what some sums over cells are to be. The shares nearest to q that meet all of
them (the limit of iterative proportional fitting) are

    Q_ik ∝ q_ik exp(Σ_t λ_{c_t(i, k)}),   Σ_k Q_ik = 1,

with λ the minimum of the convex dual Σ_i w_i log Σ_k q_ik exp(Σ_t λ) - Σ total λ, where row i
stands for w_i people. Sweeps over one table
after the other crawl where tables overlap and where counts force shares to 0 or 1. So Newton's
method takes over after the first, its steps found by conjugate gradients: a product with the
Hessian is one pass over the people, and nothing is as large as the number of cells squared.

References
----------
Csiszár, I. (1975). I-divergence geometry of probability distributions and minimization problems.
*Annals of Probability*, 3, 146-158.

Dembo, R. S. and Steihaug, T. (1983). Truncated-Newton algorithms for large-scale unconstrained
optimization. *Mathematical Programming*, 26, 190-212.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from unbin._compiling import njit
from unbin._typing import BinArray, FloatArray, IntArray

_TOL = 1e-9
"""People by which a sum may be off where rounding allows it."""
_ROUNDING = 1e-12
"""What rounding may add to that, times the largest sum."""
MET = 1e-6
"""People by which a sum may be off and still counts as met."""
_MAX_STEPS = 100
_PATIENCE = 8
"""Steps after which the largest gap must have halved."""
_MAX_PRODUCTS = 300
"""Products with the Hessian in one step."""
_HALVINGS = 30
_LONGEST = 10.0
"""Change of the log of a factor in one step, about."""
_FLAT = 1e-9
"""Curvature, beside that of independent cells, below which a direction changes nothing."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Where tables count people: person i in bin k is in cell ``base[i, t] + bins[t, i, k]``.

    Attributes
    ----------
    base : (n, T)
        The first cell of the block of each person.
    bins : (T, 1, K) when everybody has the same bins, else (T, n, K)
        The bin of the table that holds each bin.
    first : (T + 1,)
        The first cell of each table; last, the number of cells.
    people : (n,)
        Those that each row stands for.
    """

    base: IntArray
    bins: BinArray
    first: IntArray
    people: FloatArray

    @property
    def size(self) -> int:
        """Cells of all tables."""
        return int(self.first[-1])


@dataclass(frozen=True, slots=True)
class Margins:
    """Sums over cells that are to be met.

    Attributes
    ----------
    slot : (C,)
        The sum that each cell adds to.
    total : (P,)
        What the sums are to be.
    """

    slot: IntArray
    total: FloatArray

    def sums(self, cell: FloatArray) -> FloatArray:
        """Add up values of cells."""
        return np.bincount(self.slot, cell, minlength=len(self.total)).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Raked:
    """Shares that were raked.

    Attributes
    ----------
    factor : (C,)
        λ of every cell, in which the shares are q exp(Σ λ), rows scaled to 1.
    share : (n, K)
    cell : (C,)
        Sums of the shares of people by cell.
    """

    factor: FloatArray
    share: FloatArray
    cell: FloatArray


def rake(q: FloatArray, cells: Cells, margins: Margins, start: FloatArray | None = None) -> Raked:
    """Rake probabilities to all margins; what cannot be met is left for the caller to find.

    Beside ``q`` one array of its size is held.

    Parameters
    ----------
    q : (n, K)
        Every row has a positive entry.
    cells : Cells
    margins : Margins
    start : (C,), optional
        Factors that are part of what is raked: the shares nearest to q exp(Σ start) are found.
    """
    dual = _Dual(q, cells, margins, np.zeros(cells.size) if start is None else start)
    at = _sweep(dual, np.zeros(len(margins.total)))
    value, gap = dual.evaluate(at)
    tol = max(_TOL, _ROUNDING * margins.total.max(initial=0.0))
    worst = [_largest(gap)]
    while worst[-1] > tol and len(worst) <= _MAX_STEPS and not _stalled(worst):
        step = _newton_step(dual, gap)
        for _ in range(_HALVINGS):
            new_value, new_gap = dual.evaluate(at + step)
            falls = new_value <= value + 1e-12 * abs(value)
            if falls:
                break
            step = step / 2
        if not falls or (worst[-1] <= MET and _largest(new_gap) >= worst[-1]):
            dual.evaluate(at)  # that was as good as it gets
            break
        at, value, gap = at + step, new_value, new_gap
        worst.append(_largest(gap))
    return Raked(dual.factor(at), dual.share, dual.cell)


def sweep(q: FloatArray, cells: Cells, margins: Margins, times: int) -> Raked:
    """Fit proportionally, table by table and some times over: a compromise of any tables."""
    dual, at = _Dual(q, cells, margins, np.zeros(cells.size)), np.zeros(len(margins.total))
    for _ in range(times):
        at = _sweep(dual, at)
    dual.evaluate(at)
    return Raked(dual.factor(at), dual.share, dual.cell)


def _largest(gap: FloatArray) -> float:
    return float(np.abs(gap).max(initial=0.0))


def _stalled(worst: list[float]) -> bool:
    """Tell whether more steps are not worth it.

    Where counts force shares to 0 or 1 the gap only falls by a factor a step, and that far down is
    enough; where tables contradict each other it does not fall.
    """
    if len(worst) > 1 and worst[-1] <= 0.1 * MET and worst[-1] > 0.1 * worst[-2]:
        return True
    return len(worst) > _PATIENCE and worst[-1] > 0.5 * worst[-1 - _PATIENCE]


class _Dual:
    """The dual at one point, with the shares there."""

    def __init__(self, q: FloatArray, cells: Cells, margins: Margins, start: FloatArray) -> None:
        self.q, self.cells, self.margins, self.start = q, cells, margins, start
        self.share, self.cell = np.empty_like(q), np.empty(cells.size)

    def factor(self, at: FloatArray) -> FloatArray:
        return np.asarray(self.start + at[self.margins.slot])

    def evaluate(self, at: FloatArray) -> tuple[float, FloatArray]:
        """Move to a point; return the dual and what the sums lack."""
        total = self.margins.total
        value = tilt(self.q, self.cells, self.factor(at), self.share, self.cell)
        return value - float((total * at).sum()), total - self.margins.sums(self.cell)

    def curvature(self, along: FloatArray) -> FloatArray:
        """Return the product of the Hessian and a direction."""
        cells, slot = self.cells, self.margins.slot
        found = _curvature(self.share, cells.people, cells.base, cells.bins, along[slot])
        return self.margins.sums(found)

    def spread(self) -> FloatArray:
        """Return the diagonal of the Hessian, about, never 0."""
        cells = self.cells
        cell = _spread(self.share, cells.people, cells.base, cells.bins, cells.size)
        return self.margins.sums(cell) + 1e-12


def _sweep(dual: _Dual, at: FloatArray) -> FloatArray:
    """Fit the tables proportionally, one after the other."""
    for first, last in pairwise(dual.cells.first):
        _, gap = dual.evaluate(at)
        mine = np.unique(dual.margins.slot[first:last])
        total = dual.margins.total[mine]
        found = total - gap[mine]
        use = (total > 0) & (found > 0)
        at[mine[use]] += np.log(total[use] / found[use])
    return at


def _newton_step(dual: _Dual, gap: FloatArray) -> FloatArray:
    """Solve (Hessian + damping) step = gap by conjugate gradients.

    The damping, a diagonal that goes to 0 with the gap, keeps steps short where cells hold next to
    nobody and where tables contradict each other. Directions that change no share (all bins of a
    block alike, a table that another one implies) end the products.
    """
    damping = (np.abs(gap) + 0.1 * _largest(gap)) / _LONGEST
    scale = 1.0 / (dual.spread() + damping)
    tol = np.clip(np.sqrt(_largest(gap)), 1e-4, 0.1) ** 2
    step, residual = np.zeros_like(gap), gap.copy()
    along = scale * residual
    now = first = (residual * along).sum()
    for _ in range(_MAX_PRODUCTS):
        bent = dual.curvature(along) + damping * along
        curve = (along * bent).sum()
        if curve <= _FLAT * (along**2 / scale).sum():
            break
        length = now / curve
        step += length * along
        residual -= length * bent
        scaled = scale * residual
        now, before = (residual * scaled).sum(), now
        if now <= tol * first:
            break
        along = scaled + (now / before) * along
    return step


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _gather(values, base, bins, out):  # type: ignore[no-untyped-def]
    """Write the sum over tables of the values of a person's cells, bin by bin."""
    out[:] = 0.0
    for t in range(len(base)):
        for k in range(len(out)):
            out[k] += values[base[t] + bins[t, k]]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _scatter(values, people, base, bins, cell):  # type: ignore[no-untyped-def]
    """Add the values of the bins of a row's people to the cells of all tables."""
    for t in range(len(base)):
        j, held = bins[t, 0], 0.0
        for k in range(len(values)):  # bins of a table follow each other
            if bins[t, k] != j:
                cell[base[t] + j] += people * held
                j, held = bins[t, k], 0.0
            held += values[k]
        cell[base[t] + j] += people * held


def tilt(
    q: FloatArray, cells: Cells, factor: FloatArray, share: FloatArray, cell: FloatArray
) -> float:
    """Write the shares q exp(Σ factor), rows scaled to 1, and their sums over people by cell.

    Returns Σ_i w_i log Σ_k q_ik exp(Σ_t factor).
    """
    return float(_tilt(q, cells.people, cells.base, cells.bins, factor, share, cell))


@njit(cache=True, nogil=True, error_model="numpy")
def _tilt(q, people, base, bins, factor, share, cell):  # type: ignore[no-untyped-def]
    n, n_bins = q.shape
    own = bins.shape[1] > 1
    cell[:] = 0.0
    value, log = 0.0, np.empty(n_bins)
    for i in range(n):
        r = i if own else 0
        _gather(factor, base[i], bins[:, r], log)
        largest = -np.inf
        for k in range(n_bins):
            if q[i, k] > 0 and log[k] > largest:
                largest = log[k]
        total = 0.0
        for k in range(n_bins):
            share[i, k] = q[i, k] * np.exp(log[k] - largest) if q[i, k] > 0 else 0.0
            total += share[i, k]
        value += people[i] * (largest + np.log(total))
        for k in range(n_bins):
            share[i, k] /= total
        _scatter(share[i], people[i], base[i], bins[:, r], cell)
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def _curvature(share, people, base, bins, along):  # type: ignore[no-untyped-def]
    """Return the change of the sums by cell for factors that change ``along``."""
    n, n_bins = share.shape
    own = bins.shape[1] > 1
    cell, change = np.zeros(len(along)), np.empty(n_bins)
    for i in range(n):
        r = i if own else 0
        _gather(along, base[i], bins[:, r], change)
        mean = 0.0
        for k in range(n_bins):
            mean += share[i, k] * change[k]
        for k in range(n_bins):
            change[k] = share[i, k] * (change[k] - mean)
        _scatter(change, people[i], base[i], bins[:, r], cell)
    return cell


@njit(cache=True, nogil=True, error_model="numpy")
def _spread(share, people, base, bins, size):  # type: ignore[no-untyped-def]
    """Return Σ w s (1 - s) by cell, s the share of a row's people in the cell."""
    n, n_bins = share.shape
    n_tables, own = base.shape[1], bins.shape[1] > 1
    cell = np.zeros(size)
    for i in range(n):
        r = i if own else 0
        for t in range(n_tables):
            j, held = bins[t, r, 0], 0.0
            for k in range(n_bins):
                if bins[t, r, k] != j:
                    cell[base[i, t] + j] += people[i] * held * (1 - held)
                    j, held = bins[t, r, k], 0.0
                held += share[i, k]
            cell[base[i, t] + j] += people[i] * held * (1 - held)
    return cell
