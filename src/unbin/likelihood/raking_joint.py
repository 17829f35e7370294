"""Individual targets that agree with several tables of the same people.

As with one table (``raking``), but the bins are the common refinement of all tables' bins and the
shares of a person are raked to every table at once (``margins``):

    Q_ik ∝ q_ik Π_t r_{t, g_t(i), j_t(k)},   Σ_{i in g} Σ_{k in j} Q_ik = c_gj   for every table,

g_t(i) the block of person i in table t and j_t(k) the bin of that table that holds refined bin k.
Where blocks of a table have bins of their own (quantiles), the refined bins are each person's own.

Draws take the bins of the first table from the distribution of bins given its counts, with the
raked shares as probabilities, and the refined bin and the value from within it: they meet the first
table exactly and the others on average.

Suppressed and rounded counts are not taken apart by one table alone, which the others would
contradict: the shares start from what the fit expects of the counts within their intervals, and the
hidden counts of a block may then move, their total kept, as far as their intervals go.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numba import njit

from unbin._blocks import Span, block_of_rows, spans_of
from unbin._typing import BoolArray, FloatArray, IntArray, TextArray
from unbin.exceptions import RakingWarning
from unbin.families import Family
from unbin.likelihood.counts import PublishedCounts, representative_values
from unbin.likelihood.hidden import whole_counts
from unbin.likelihood.margins import MET, BinArray, Cells, Margins, Raked, rake, sweep, tilt
from unbin.likelihood.raking import (
    MIX,
    counts_to_meet,
    draw_bins,
    draw_by_value,
    draw_in_bins,
    fill_hidden,
    in_bins,
    in_order_of,
    means_in_bins,
)
from unbin.release.join import Tables
from unbin.rows.design import Design

_SWEEPS = 10
"""Sweeps over tables with hidden counts before these may move."""


@dataclass(frozen=True, slots=True)
class Unmet:
    """A table that imputed targets cannot agree with.

    Attributes
    ----------
    table, block : str
        The table, and the block of it that is furthest off.
    gap : float
        By how many people its worst count is missed.
    """

    table: str
    block: str
    gap: float

    def __str__(self) -> str:
        return f"{self.table!r} (block {self.block!r}: a count is off by {self.gap:.3g})"


@dataclass(frozen=True, slots=True)
class _Solution:
    """Factors that meet the tables, and what was found on the way.

    Attributes
    ----------
    factor : (C,)
        By cell of all tables.
    pooled : (K,)
        People in each refined bin.
    count : (B, J)
        Whole counts of the first table.
    unmet : tuple of Unmet
    """

    factor: FloatArray
    pooled: FloatArray
    count: FloatArray
    unmet: tuple[Unmet, ...]


@dataclass(frozen=True, slots=True)
class _Bins:
    """Refined bins of some rows.

    Attributes
    ----------
    lower, upper : (K,) when everybody has the same bins, else (n, K)
        Padding has ``lower > upper``.
    held : (T, 1, K) or (T, n, K)
        The bin of each table that holds each refined one.
    """

    lower: FloatArray
    upper: FloatArray
    held: BinArray


@dataclass(frozen=True)
class JointRaking:
    """What is needed to impute the targets of rows that several tables count.

    The factors are found once, when first asked for: that holds two arrays of n × K numbers, K the
    refined bins, and integers of n × K for each table where blocks have bins of their own. Means
    and draws then work on some blocks of the first table at a time.

    Attributes
    ----------
    eta : (n,)
        Block by block of the first table.
    start : (B + 1,)
    order : (n,)
        The row of X at each place.
    codes : tuple of (n,)
        The block of each row in every table.
    counts : tuple of PublishedCounts
        What to meet; blocks that are not known, and counts with noise, are not met.
    names : tuple of str
        Of the tables.
    blocks : tuple of (B_t,)
        Names of the blocks of every table.
    family : Family
    nuisance : (m,)
        Thresholds of an ordinal family are those of the refined bins.
    """

    eta: FloatArray
    start: IntArray
    order: IntArray
    codes: tuple[IntArray, ...]
    counts: tuple[PublishedCounts, ...]
    names: tuple[str, ...]
    blocks: tuple[TextArray, ...]
    family: Family
    nuisance: FloatArray

    @classmethod
    def of(
        cls,
        design: Design,
        tables: Tables,
        counts: Sequence[PublishedCounts],
        family: Family,
        theta: FloatArray,
        nuisance: FloatArray,
    ) -> JointRaking:
        """Return the raking of a fit, to all that was published.

        Parameters
        ----------
        design : Design
            Laid out by the blocks of the first table, with those of the others beside.
        tables : Tables
            Aligned.
        counts : sequence of PublishedCounts
            As fitted, table by table; a family of free shape takes its bins from them.
        family : Family
        theta : (design.n_parameters,)
        nuisance : (m,)
        """
        assert design.order is not None
        pairs = zip(tables.releases, counts, strict=True)
        return cls(
            eta=design.eta(theta),
            start=design.start,
            order=design.order,
            codes=(block_of_rows(design.start), *design.in_memory().others),
            counts=tuple(counts_to_meet(release, family, fitted) for release, fitted in pairs),
            names=tables.names,
            blocks=tuple(release.blocks for release in tables.releases),
            family=family,
            nuisance=nuisance,
        )

    @property
    def unmet(self) -> tuple[Unmet, ...]:
        """The tables that cannot be met with all others; empty as a rule."""
        return self._solution.unmet

    def mean(self, *, log: bool = False) -> FloatArray:
        """Return the best guess of every target, in the order of X.

        With ``log`` the model is a gaussian for the log of the target, and the guesses are of the
        target itself.
        """
        z = np.empty(len(self.eta))
        for span, bins, share in self._shares():
            z[span.rows] = (share * self._bin_means(span, bins, log=log)).sum(axis=1)
        return in_order_of(self.order, z)

    def shares(self) -> FloatArray:
        """Return Q, the raked probability of each refined bin for every person, in X's order."""
        result = np.empty((len(self.eta), self._n_bins))
        for span, _, share in self._shares():
            result[span.rows] = share
        return in_order_of(self.order, result)

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return one draw of every target, in the order of X, with the first table's counts."""
        y, known, count = np.empty(len(self.eta)), self.counts[0].known, self._solution.count
        for span, bins, share in self._shares():
            blocks, held = slice(span.first, span.last), bins.held[0]
            start = self.start[span.first : span.last + 1] - self.start[span.first]
            coarse = _by_bin(share, held, count.shape[1])
            drawn = draw_bins(coarse, start, count[blocks], known[blocks], rng)
            fine = _draw_within(share, held, drawn, rng.random(len(share)))
            y[span.rows] = self._draw_values(span, bins, fine, rng.random(len(share)))
        return in_order_of(self.order, y)

    def _bin_means(self, span: Span, bins: _Bins, *, log: bool) -> FloatArray:
        eta = self.eta[span.rows]
        if self.family.free_shape:
            return np.broadcast_to(self._values(bins), (len(eta), self._n_bins))
        return means_in_bins(self.family, eta, bins.lower, bins.upper, self.nuisance, log=log)

    def _draw_values(self, span: Span, bins: _Bins, drawn: IntArray, u: FloatArray) -> FloatArray:
        low, high = in_bins(bins.lower, drawn), in_bins(bins.upper, drawn)
        if self.family.free_shape:
            return draw_by_value(low, high, self._values(bins)[drawn], u)
        return draw_in_bins(self.family, self.eta[span.rows], self.nuisance, low, high, u)

    def _values(self, bins: _Bins) -> FloatArray:
        """Return one value per refined bin, by the people who are in it."""
        counts = PublishedCounts(
            n=np.array([len(self.eta)]),
            lower=bins.lower,
            upper=bins.upper,
            count=self._solution.pooled[None],
            known=np.array([True]),
            whole=all(counts.whole for counts in self.counts),
        )
        return np.asarray(representative_values(counts)[0])

    # -- refined bins ------------------------------------------------------------------------------

    @cached_property
    def _grid(self) -> FloatArray:
        """The cuts of all tables whose blocks share their bins."""
        cuts = [_cuts_of(counts)[0] for counts in self.counts if counts.shared]
        return np.unique(np.concatenate([*cuts, np.zeros(0)]))

    @property
    def _shared(self) -> bool:
        return all(counts.shared for counts in self.counts)

    @property
    def _n_bins(self) -> int:
        own = [counts.n_bins - 1 for counts in self.counts if not counts.shared]
        return len(self._grid) + sum(own) + 1

    def _bins(self, rows: slice) -> _Bins:
        """Return the refined bins of some rows."""
        rows = slice(0, 1) if self._shared else rows
        codes = [codes[rows] for codes in self.codes]
        cuts = [_cuts_of(c, code) for c, code in zip(self.counts, codes, strict=True)]
        own = [cut for cut, counts in zip(cuts, self.counts, strict=True) if not counts.shared]
        inner = np.broadcast_to(self._grid, (len(codes[0]), len(self._grid)))
        inner = _distinct(np.concatenate([inner, *own], axis=1))
        end = np.full((len(inner), 1), np.inf)
        upper, lower = np.hstack([inner, end]), np.hstack([-end, inner])
        held = np.stack([_cuts_below(cut, upper) for cut in cuts])
        domain, real = self.family.domain, lower < np.inf
        lower = np.where(real, np.maximum(lower + domain.integer, domain.low), np.inf)
        upper = np.where(real, np.minimum(upper, domain.high), -np.inf)
        if self._shared:
            return _Bins(lower[0], upper[0], held)
        return _Bins(lower, upper, held)

    def _cells(self, rows: slice, held: BinArray) -> Cells:
        first = np.cumsum([0, *(counts.count.size for counts in self.counts)])
        tables = zip(first, self.codes, self.counts, strict=False)
        base = [start + codes[rows] * counts.n_bins for start, codes, counts in tables]
        return Cells(np.stack(base, axis=1), held, first)

    def _probabilities(self, rows: slice, bins: _Bins) -> FloatArray:
        """Return q, moved off 0 where tables have people and to 0 where one has nobody."""
        q = self.family.bins(self.eta[rows], bins.lower, bins.upper, self.nuisance).probability
        real = np.broadcast_to(bins.lower <= bins.upper, q.shape)
        mixed, possible = np.zeros(q.shape), real.copy()
        for codes, counts, held in zip(self.codes, self.counts, bins.held, strict=True):
            cell = codes[rows, None], held
            people, anybody = _people(counts)
            mixed += people[cell]
            possible &= anybody[cell]
        found = (q + MIX * mixed) * possible
        lost = ~possible.any(axis=1)  # the tables contradict each other
        found[lost] = np.maximum(q[lost], 1e-300) * real[lost]
        return np.asarray(found / found.sum(axis=1)[:, None])

    # -- raking ------------------------------------------------------------------------------------

    def _shares(self) -> Iterator[tuple[Span, _Bins, FloatArray]]:
        factor = self._solution.factor
        for span in spans_of(self.start):
            bins = self._bins(span.rows)
            q, cells = self._probabilities(span.rows, bins), self._cells(span.rows, bins.held)
            share = np.empty_like(q)
            tilt(q, cells.base, cells.bins, factor, share, np.empty(cells.size))
            yield span, bins, share

    @cached_property
    def _solution(self) -> _Solution:
        q = np.empty((len(self.eta), self._n_bins))
        held = np.empty((len(self.counts), 1 if self._shared else len(q), q.shape[1]), np.int32)
        for span in spans_of(self.start):
            bins = self._bins(span.rows)
            q[span.rows] = self._probabilities(span.rows, bins)
            held[:, slice(None) if self._shared else span.rows] = bins.held
        solution = _solve(q, self._cells(slice(None), held), self)
        if solution.unmet:
            warnings.warn(
                "impute: tables must agree with each other and with the people to be met together, "
                f"got {'; '.join(map(str, solution.unmet))}; correct those, or leave one out",
                RakingWarning,
                stacklevel=2,
            )
        return solution


# -- refined bins ----------------------------------------------------------------------------------


def _cuts_of(counts: PublishedCounts, codes: IntArray | None = None) -> FloatArray:
    """Return the cuts between the bins of rows' blocks, inf in padding; one row if all share."""
    lower, upper = np.atleast_2d(counts.lower, counts.upper)
    if codes is not None and not counts.shared:
        lower, upper = lower[codes], upper[codes]
    return np.where(lower[:, 1:] <= upper[:, 1:], upper[:, :-1], np.inf)


def _distinct(cuts: FloatArray) -> FloatArray:
    """Sort cuts row by row, those that come again moved to the end as inf."""
    cuts = np.sort(cuts, axis=1)
    again = np.diff(cuts, axis=1, prepend=-np.inf) == 0
    return np.sort(np.where(again, np.inf, cuts), axis=1)


def _cuts_below(cuts: FloatArray, values: FloatArray) -> BinArray:
    """Return how many cuts of a row lie below each value, which is the number of its bin."""
    found = np.zeros(values.shape, np.int32)
    for cut in cuts.T:
        found += cut[:, None] < values
    return found


@njit(cache=True, nogil=True)
def _by_bin(share, held, n_bins):  # type: ignore[no-untyped-def]
    """Add up the shares of refined bins to those of a table's."""
    n, own = len(share), len(held) > 1
    result = np.zeros((n, n_bins))
    for i in range(n):
        for k in range(share.shape[1]):
            result[i, held[i if own else 0, k]] += share[i, k]
    return result


@njit(cache=True, nogil=True)
def _draw_within(share, held, drawn, u):  # type: ignore[no-untyped-def]
    """Draw the refined bin of every row within the drawn bin of the table."""
    n, own = len(share), len(held) > 1
    result = np.empty(n, np.int64)
    for i in range(n):
        r, total = i if own else 0, 0.0
        for k in range(share.shape[1]):
            if held[r, k] == drawn[i]:
                total += share[i, k]
        left, found = u[i] * total, -1
        for k in range(share.shape[1]):
            if held[r, k] == drawn[i] and (found < 0 or (left >= 0 and share[i, k] > 0)):
                found = k
                left -= share[i, k]
        result[i] = found
    return result


# -- what to meet ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sought:
    """Counts of a table that are to be met.

    Attributes
    ----------
    count : (B, K)
    free : (B, K) bool
        Counts that may move, their total in each block kept.
    """

    count: FloatArray
    free: BoolArray


def _sought(counts: PublishedCounts) -> _Sought:
    nothing = np.zeros_like(counts.count)
    nothing[:, 0] = counts.n
    known = counts.known[:, None]
    free = np.broadcast_to(~known, nothing.shape) | _hidden(counts)
    return _Sought(np.where(known, counts.count, nothing), free)


def _hidden(counts: PublishedCounts) -> BoolArray:
    """Mark suppressed and rounded counts, shape (B, K)."""
    if counts.low is None or counts.high is None:
        return np.zeros(counts.count.shape, dtype=bool)
    return np.asarray((counts.low < counts.high) & counts.known[:, None])


def _people(counts: PublishedCounts) -> tuple[FloatArray, BoolArray]:
    """Return the share of a block's people in each bin, and where anybody may be."""
    known, hidden = counts.known[:, None], _hidden(counts)
    share = np.where(hidden, np.maximum(counts.count, 0.5), counts.count) * known
    return share / np.maximum(counts.n, 1)[:, None], (share > 0) | ~known


def _margins(tables: Sequence[_Sought]) -> Margins:
    """Return the sums that are to be met; free counts of a block are one sum."""
    slots, first = [], 0
    for table in tables:
        cell = first + np.arange(table.free.size).reshape(table.free.shape)
        leader = np.take_along_axis(cell, table.free.argmax(axis=1)[:, None], axis=1)
        slots.append(np.where(table.free, leader, cell).ravel())
        first += table.free.size
    _, slot = np.unique(np.concatenate(slots), return_inverse=True)
    count = np.concatenate([table.count.ravel() for table in tables])
    return Margins(slot, np.bincount(slot, count).astype(np.float64))


def _by_table(cell: FloatArray, tables: Sequence[_Sought]) -> list[FloatArray]:
    """Return values of cells as one (B, K) array per table."""
    parts = np.split(cell, np.cumsum([table.count.size for table in tables])[:-1])
    return [part.reshape(t.count.shape) for part, t in zip(parts, tables, strict=True)]


# -- meeting it ------------------------------------------------------------------------------------


def _solve(q: FloatArray, cells: Cells, raking: JointRaking) -> _Solution:
    found, tables = _meet(q, cells, raking.counts)
    unmet = _unmet(found, tables, raking)
    if unmet:
        found = _compromise(q, cells, tables)
        unmet = _unmet(found, tables, raking)
    first = tables[0]
    count = np.where(first.free, _by_table(found.cell, tables)[0], first.count)
    return _Solution(found.factor, found.share.sum(axis=0), whole_counts(count), unmet)


def _meet(
    q: FloatArray, cells: Cells, counts: Sequence[PublishedCounts]
) -> tuple[Raked, list[_Sought]]:
    """Rake to all tables, hidden counts kept within their intervals."""
    tables = [_sought(c) for c in counts]
    if not any(_hidden(c).any() for c in counts):
        return rake(q, cells, _margins(tables)), tables
    share, cell = np.empty_like(q), np.empty(cells.size)
    tilt(q, cells.base, cells.bins, np.zeros(cells.size), share, cell)
    expected = zip(counts, _by_table(cell, tables), strict=True)
    filled = [c if c.low is None else fill_hidden(c, mean) for c, mean in expected]
    alone = [_sought(replace(c, low=None, high=None)) for c in filled]
    tables = [replace(t, count=a.count) for t, a in zip(tables, alone, strict=True)]
    start = sweep(q, cells, _margins(alone), _SWEEPS).factor
    while True:
        found = rake(q, cells, _margins(tables), start)
        sums = _by_table(found.cell, tables)
        moved = [_hold(*each) for each in zip(tables, counts, sums, strict=True)]
        if all(m is None for m in moved):
            return found, tables
        tables = [t if m is None else m for t, m in zip(tables, moved, strict=True)]
        start = found.factor


def _hold(table: _Sought, counts: PublishedCounts, sums: FloatArray) -> _Sought | None:
    """Put hidden counts that left their intervals at the end they left by; None if none did.

    Of a block's, those on the side that is further off: the others move when these are held.
    """
    if counts.low is None or counts.high is None:
        return None
    may = table.free & counts.known[:, None]
    over, under = (
        np.where(may & (by > MET), by, 0.0) for by in (sums - counts.high, counts.low - sums)
    )
    upwards = over.sum(axis=1, keepdims=True) >= under.sum(axis=1, keepdims=True)
    held = np.where(upwards, over, under) > 0
    if not held.any():
        return None
    total = np.where(may, table.count, 0.0).sum(axis=1)
    count = np.where(held, np.where(upwards, counts.high, counts.low), table.count)
    free = table.free & ~held
    # what is left goes to the free counts, of which only the total matters
    left = total - np.where(may & held, count, 0.0).sum(axis=1)
    share = np.where(may & free, left[:, None] / np.maximum(free.sum(axis=1), 1)[:, None], count)
    return _Sought(share, free)


def _compromise(q: FloatArray, cells: Cells, tables: list[_Sought]) -> Raked:
    """Rake to tables that contradict each other in turn, and last to the first alone."""
    first, *others = tables
    start = sweep(q, cells, _margins(tables), _SWEEPS).factor
    ignored = [replace(table, free=np.ones_like(table.free)) for table in others]
    return rake(q, cells, _margins([first, *ignored]), start)


def _unmet(found: Raked, tables: list[_Sought], raking: JointRaking) -> tuple[Unmet, ...]:
    margins = _margins(tables)
    gap = np.abs(margins.sums(found.cell) - margins.total)[margins.slot]
    result = []
    for by_cell, name, blocks in zip(
        _by_table(gap, tables), raking.names, raking.blocks, strict=True
    ):
        worst = by_cell.max(axis=1)
        if worst.max() > MET:
            result.append(Unmet(name, str(blocks[int(worst.argmax())]), float(worst.max())))
    return tuple(result)
