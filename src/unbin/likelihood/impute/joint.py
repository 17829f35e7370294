"""Individual targets that agree with several tables of the same people.

As with one table (``raking``), but the bins are the common refinement of all tables' bins and the
shares of a person are raked to every table at once (``margins``):

    Q_ik ∝ q_ik Π_t r_{t, g_t(i), j_t(k)},   Σ_{i in g} Σ_{k in j} Q_ik = c_gj   for every table,

g_t(i) the block of person i in table t and j_t(k) the bin of that table that holds refined bin k; a
row that stands for several people is counted as often.
Where blocks of a table have bins of their own (quantiles), the refined bins are each person's own.

Draws take the bins of the first table from the distribution of bins given its counts, with the
raked shares as probabilities, and the refined bin and the value from within it: they meet the first
table exactly and the others on average.

People whose outcome is known have that outcome, and are in none of these sums unless the tables
count somebody else in their place.

Tables that contradict each other or the people cannot all be met: those that are missed are named
in a warning. The shares are then a compromise that meets the first table, and all others but one
where leaving that one alone is enough.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from unbin._blocks import Span, block_of_rows, segment_start, spans_of
from unbin._compiling import njit
from unbin._typing import BinArray, FloatArray, IntArray
from unbin.exceptions import RakingWarning
from unbin.families import Family, Interval
from unbin.likelihood.data.counts import PublishedCounts, bins_holding
from unbin.likelihood.data.hidden import whole_counts
from unbin.likelihood.impute.calibration import calibrate, for_people
from unbin.likelihood.impute.margins import MET, Cells, Raked, tilt
from unbin.likelihood.impute.posterior import Posterior, draw_effects
from unbin.likelihood.impute.raking import (
    MIX,
    check_persons,
    counts_to_meet,
    draw_bins,
    draw_free,
    draw_in_bins,
    free_bin_means,
    in_bins,
    means_in_bins,
)
from unbin.likelihood.impute.sought import (
    Sought,
    all_met,
    by_table,
    compromise,
    gaps,
    meet,
    people,
    sought,
)
from unbin.release.join import Tables
from unbin.release.weights import whole_people
from unbin.rows.design import Design

_ROUNDS = 5
"""Rounds in which effects of the blocks of several tables are drawn in turn."""
_SUSPECTS = 3
"""Tables of which each is tried as the one that contradicts all others."""


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
    counts : tuple of PublishedCounts
        Those that were met.
    unmet : tuple of Unmet
    """

    factor: FloatArray
    pooled: FloatArray
    count: FloatArray
    counts: tuple[PublishedCounts, ...]
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


@dataclass(frozen=True, slots=True)
class Counted:
    """The rows that tables count, block by block of the first table.

    Attributes
    ----------
    start : (B + 1,)
    order, places : (n,)
        The row of X, and of the design, at each place.
    people : (n,)
        Those that each row stands for, as many in a block as were published.
    codes : tuple of (n,)
        The block of each row in every table.
    counts : tuple of PublishedCounts
        What to meet; blocks that are not known, and counts with noise, are not met.
    """

    start: IntArray
    order: IntArray
    places: IntArray
    people: FloatArray
    codes: tuple[IntArray, ...]
    counts: tuple[PublishedCounts, ...]


@dataclass(frozen=True)
class JointRaking:
    """What is needed to impute the targets of rows that several tables count.

    Rows are put in order, and the factors found, once, when first asked for: that holds two arrays
    of n × K numbers, K the refined bins, and integers of n × K for each table where blocks have
    bins of their own. Means and draws then work on some blocks of the first table at a time.

    Attributes
    ----------
    design : Design
    cells : (T, C) or None
        The block of the design's cells in each table; None where these are its blocks.
    tables : Tables
        Aligned.
    fitted : sequence of PublishedCounts
        As fitted, table by table; a family of free shape takes its bins from them.
    family : Family
    theta : (design.n_parameters,)
    nuisance : (m,)
        Thresholds of an ordinal family are those of the refined bins.
    posterior : Posterior or None
        What draws take parameters and effects of blocks from; None to take the estimates.
    drawn : (n,) or None
        Linear predictors that were drawn; None for those of theta.
    """

    design: Design
    cells: IntArray | None
    tables: Tables
    fitted: Sequence[PublishedCounts]
    family: Family
    theta: FloatArray
    nuisance: FloatArray
    posterior: Posterior | None = None
    drawn: FloatArray | None = None

    @cached_property
    def counted(self) -> Counted:
        """The rows that tables count."""
        design, tables = self.design, self.tables
        assert design.order is not None
        rows = design.in_memory()
        weights = np.ones(len(rows)) if rows.weights is None else rows.weights
        counted = weights > 0
        cell = block_of_rows(design.start, np.int32)
        cells = self.cells
        codes = [cell] if cells is None else [each.astype(np.int32)[cell] for each in cells]
        order = np.argsort(codes[0], kind="stable")
        order = order[counted[order]]
        codes = [each[order] for each in codes]
        pairs = zip(tables.releases, self.fitted, strict=True)
        met = [counts_to_meet(release, self.family, fitted) for release, fitted in pairs]
        people = calibrate(weights[order], codes, met)
        return Counted(
            start=segment_start(codes[0], len(tables.first)),
            order=design.order[order],
            places=order,
            people=people,
            codes=tuple(codes),
            counts=tuple(map(partial(for_people, people), codes, met)),
        )

    @cached_property
    def eta(self) -> FloatArray:
        """Their linear predictors, (n,)."""
        if self.drawn is not None:
            return self.drawn
        return self.design.eta(self.theta)[self.counted.places]

    @property
    def _settled(self) -> tuple[IntArray, FloatArray] | None:
        """Rows of X whose outcome is known, and these, whatever tables say."""
        known = self.tables.known
        return None if known is None or known.rows is None else (known.rows, known.values)

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
        return self._in_order_of_x(z, log=log)

    def shares(self) -> FloatArray:
        """Return Q, the raked probability of each refined bin for every person, in X's order.

        NaN for people whom no table counts because their outcome is known.
        """
        result = np.empty((len(self.eta), self._n_bins))
        for span, _, share in self._shares():
            result[span.rows] = share
        found = np.full((self._n_rows, self._n_bins), np.nan)
        found[self.counted.order] = result
        return found

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return one draw of every target, in the order of X, with the first table's counts."""
        check_persons(self.counted.people)
        own = self._redrawn(rng)
        y, known = np.empty(len(self.eta)), self.counted.counts[0].known
        count = own._solution.count
        for span, bins, share in own._shares():
            blocks, held = slice(span.first, span.last), bins.held[0]
            start = self.counted.start[span.first : span.last + 1] - self.counted.start[span.first]
            coarse = _by_bin(share, held, count.shape[1])
            drawn = draw_bins(coarse, start, count[blocks], known[blocks], rng)
            fine = _draw_within(share, held, drawn, rng.random(len(share)))
            y[span.rows] = own._draw_values(span, bins, fine, rng.random(len(share)))
        return self._in_order_of_x(y)

    def _redrawn(self, rng: np.random.Generator) -> JointRaking:
        """Return the raking at drawn parameters and effects of blocks.

        Those of a table's blocks are drawn given its counts and the effects of the other tables'.
        """
        if self.posterior is None or not len(self.eta):
            return self
        eta, nuisance = self.posterior.draw(rng)
        eta = eta[self.counted.places]
        tables = list(
            zip(self.counted.codes, self.counted.counts, self.posterior.block_sd, strict=True)
        )
        effects = [np.zeros(len(eta)) for _ in tables]
        for _ in range(_ROUNDS if sum(sd > 0 for *_, sd in tables) > 1 else 1):
            for t, (codes, counts, sd) in enumerate(tables):
                if sd == 0:
                    continue
                order = np.argsort(codes, kind="stable")
                others = eta + sum(effects[:t] + effects[t + 1 :], np.zeros(len(eta)))
                start = segment_start(codes, len(counts.n))
                own = self._nuisance_of(counts, nuisance)
                drawn = draw_effects(self.family, others[order], start, counts, own, sd, rng)
                effects[t] = drawn[codes]
        found = replace(self, drawn=sum(effects, eta), nuisance=nuisance, posterior=None)
        found.__dict__["counted"] = self.counted
        return found

    def _nuisance_of(self, counts: PublishedCounts, nuisance: FloatArray) -> FloatArray:
        """Return the nuisance parameters of a table: of thresholds, those at its own cuts."""
        if not self.family.free_shape:
            return nuisance
        return np.asarray(nuisance[np.searchsorted(self._grid, counts.cuts())])

    @property
    def _n_rows(self) -> int:
        """Rows of X."""
        order = self.counted.order
        return len(order if self._settled is None else np.union1d(order, self._settled[0]))

    def _in_order_of_x(self, values: FloatArray, *, log: bool = False) -> FloatArray:
        """Put values of the rows that tables count into the order of X, beside those known."""
        found = np.empty(self._n_rows)
        found[self.counted.order] = values
        if self._settled is not None:
            rows, known = self._settled
            found[rows] = np.exp(known) if log else known
        return found

    def _bin_means(self, span: Span, bins: _Bins, *, log: bool) -> FloatArray:
        eta = self.eta[span.rows]
        if self.family.free_shape:
            return free_bin_means(eta, self.nuisance, self._pooled(bins))
        return means_in_bins(self.family, eta, bins.lower, bins.upper, self.nuisance, log=log)

    def _draw_values(self, span: Span, bins: _Bins, drawn: IntArray, u: FloatArray) -> FloatArray:
        eta = self.eta[span.rows]
        if self.family.free_shape:
            return draw_free(eta, self.nuisance, self._pooled(bins), drawn, u)
        low, high = in_bins(bins.lower, drawn), in_bins(bins.upper, drawn)
        return draw_in_bins(self.family, eta, self.nuisance, low, high, u)

    def _pooled(self, bins: _Bins) -> PublishedCounts:
        """Return the people in each refined bin, which all blocks share."""
        ends = [(counts.lower[0], counts.upper[-1]) for counts in self.counted.counts]
        counts = PublishedCounts(
            n=whole_people(self.counted.people.sum(keepdims=True)),
            lower=bins.lower,
            upper=bins.upper,
            count=self._solution.pooled[None],
            known=np.array([True]),
            whole=all(counts.whole for counts in self.counted.counts),
        )
        return counts.within(Interval(max(low for low, _ in ends), min(high for _, high in ends)))

    # -- refined bins ------------------------------------------------------------------------------

    @cached_property
    def _grid(self) -> FloatArray:
        """The cuts of all tables whose blocks share their bins."""
        cuts = [counts.cuts() for counts in self.counted.counts if counts.shared]
        return np.unique(np.concatenate([*cuts, np.zeros(0)]))

    @property
    def _shared(self) -> bool:
        return all(counts.shared for counts in self.counted.counts)

    @property
    def _n_bins(self) -> int:
        own = [counts.n_bins - 1 for counts in self.counted.counts if not counts.shared]
        return len(self._grid) + sum(own) + 1

    def _bins(self, rows: slice) -> _Bins:
        """Return the refined bins of some rows."""
        rows = slice(0, 1) if self._shared else rows
        codes = [codes[rows] for codes in self.counted.codes]
        cuts = [_cuts_of(c, code) for c, code in zip(self.counted.counts, codes, strict=True)]
        own = [
            cut for cut, counts in zip(cuts, self.counted.counts, strict=True) if not counts.shared
        ]
        inner = np.broadcast_to(self._grid, (len(codes[0]), len(self._grid)))
        inner = _distinct(np.concatenate([inner, *own], axis=1))
        end = np.full((len(inner), 1), np.inf)
        upper, lower = np.hstack([inner, end]), np.hstack([-end, inner])
        held = np.stack([bins_holding(cut, upper) for cut in cuts])
        domain, real = self.family.domain, lower < np.inf
        lower = np.where(real, np.maximum(lower + domain.integer, domain.low), np.inf)
        upper = np.where(real, np.minimum(upper, domain.high), -np.inf)
        if self._shared:
            return _Bins(lower[0], upper[0], held)
        return _Bins(lower, upper, held)

    def _cells(self, rows: slice, held: BinArray) -> Cells:
        first = np.cumsum([0, *(counts.count.size for counts in self.counted.counts)])
        tables = zip(first, self.counted.codes, self.counted.counts, strict=False)
        base = [start + codes[rows] * counts.n_bins for start, codes, counts in tables]
        return Cells(np.stack(base, axis=1), held, first, self.counted.people[rows])

    def _probabilities(
        self, rows: slice, bins: _Bins, tables: Sequence[PublishedCounts]
    ) -> FloatArray:
        """Return q, moved off 0 where tables have people and to 0 where one has nobody."""
        q = self.family.bins(self.eta[rows], bins.lower, bins.upper, self.nuisance).probability
        real = np.broadcast_to(bins.lower <= bins.upper, q.shape)
        mixed, possible = np.zeros(q.shape), real.copy()
        for codes, counts, held in zip(self.counted.codes, tables, bins.held, strict=True):
            cell = codes[rows, None], held
            share, anybody = people(counts)
            mixed += share[cell]
            possible &= anybody[cell]
        found = (q + MIX * mixed) * possible
        lost = ~possible.any(axis=1)  # the tables contradict each other
        found[lost] = np.maximum(q[lost], 1e-300) * real[lost]
        return np.asarray(found / found.sum(axis=1)[:, None])

    # -- raking ------------------------------------------------------------------------------------

    def _shares(self) -> Iterator[tuple[Span, _Bins, FloatArray]]:
        if not len(self.eta):
            return
        solution = self._solution
        for span in spans_of(self.counted.start):
            bins = self._bins(span.rows)
            q = self._probabilities(span.rows, bins, solution.counts)
            cells, share = self._cells(span.rows, bins.held), np.empty_like(q)
            tilt(q, cells, solution.factor, share, np.empty(cells.size))
            yield span, bins, share

    @cached_property
    def _solution(self) -> _Solution:
        counts = self.counted.counts
        q, cells = self._everybody(counts)
        found, tables = meet(q, cells, counts)
        if not all_met(found, tables):
            found, tables, counts = self._settle(compromise(q, cells, tables), cells, tables)
        first = tables[0]
        count = np.where(first.free, by_table(found.cell, tables)[0], first.count)
        return _Solution(
            factor=found.factor,
            pooled=self.counted.people @ found.share,
            count=whole_counts(count),
            counts=counts,
            unmet=self._missed(found, tables, counts),
        )

    def _settle(
        self, between: Raked, cells: Cells, tables: list[Sought]
    ) -> tuple[Raked, list[Sought], tuple[PublishedCounts, ...]]:
        """Find the one table without which all others are met, or else keep a compromise."""
        off = [gap.max(initial=0.0) for gap in gaps(between, tables)]
        suspects = [t for t in np.argsort(off)[::-1] if t > 0 and off[t] > MET]
        for t in suspects[:_SUSPECTS] if len(tables) > 2 else ():
            nothing = replace(
                self.counted.counts[t], known=np.zeros_like(self.counted.counts[t].known)
            )
            counts = (*self.counted.counts[:t], nothing, *self.counted.counts[t + 1 :])
            found, others = meet(self._everybody(counts)[0], cells, counts, between.factor)
            if all_met(found, others):
                return found, others, counts
        return between, tables, self.counted.counts

    def _everybody(self, tables: Sequence[PublishedCounts]) -> tuple[FloatArray, Cells]:
        q = np.empty((len(self.eta), self._n_bins))
        held = np.empty((len(tables), 1 if self._shared else len(q), q.shape[1]), np.int32)
        for span in spans_of(self.counted.start):
            bins = self._bins(span.rows)
            q[span.rows] = self._probabilities(span.rows, bins, tables)
            held[:, slice(None) if self._shared else span.rows] = bins.held
        return q, self._cells(slice(None), held)

    def _missed(
        self, found: Raked, tables: list[Sought], counts: Sequence[PublishedCounts]
    ) -> tuple[Unmet, ...]:
        """Name the tables that are missed, and warn of them."""
        pairs = zip(self.counted.counts, counts, tables, strict=True)
        wanted = [table if used is given else sought(given) for given, used, table in pairs]
        blocks = [release.blocks for release in self.tables.releases]
        off = zip(self.tables.names, blocks, gaps(found, wanted), strict=True)
        unmet = tuple(
            Unmet(name, str(blocks[gap.argmax()]), float(gap.max()))
            for name, blocks, gap in off
            if gap.max(initial=0.0) > MET
        )
        if unmet:
            warnings.warn(
                "impute: tables must agree with each other and with the people to be met together, "
                f"got {'; '.join(map(str, unmet))}; correct those, or leave one out",
                RakingWarning,
                stacklevel=2,
            )
        return unmet


# -- refined bins ----------------------------------------------------------------------------------


def _cuts_of(counts: PublishedCounts, codes: IntArray) -> FloatArray:
    """Return the cuts between the bins of rows' blocks, (n, K - 1); one row if all share them."""
    cuts = counts.cuts()
    return cuts[None] if counts.shared else np.asarray(cuts[codes])


def _distinct(cuts: FloatArray) -> FloatArray:
    """Sort cuts row by row, those that come again moved to the end as inf."""
    cuts = np.sort(cuts, axis=1)
    again = np.diff(cuts, axis=1, prepend=-np.inf) == 0
    return np.sort(np.where(again, np.inf, cuts), axis=1)


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
