"""Columnar tables of published statistics, and the paper's bijections between them.

Every table keeps the rows of all blocks one after the other: ``start[b]:start[b + 1]`` are the
rows of block ``b``. No function here loops over blocks.

A histogram, a cumulative distribution and a set of order statistics are three spellings of the
same table (Section 1.1 of the paper): the cumulative count at an edge is the rank of the order
statistic whose value is that edge, and an end that is left open is the first or the last order
statistic left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unbin._blocks import (
    block_of_rows,
    first_rows,
    last_rows,
    segment_cumsum,
    segment_start,
    segment_sum,
    take_segments,
)
from unbin._typing import BoolArray, FloatArray, IntArray, TextArray
from unbin.exceptions import BinError, OrderStatisticError, ReleaseError
from unbin.families import Interval

CLOSED = ("right", "left", "both")


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of people between edges, bins in increasing order within each block.

    Attributes
    ----------
    start : (n_blocks + 1,)
        Bins of block ``b`` are ``start[b]:start[b + 1]``; a block without one has none.
    lower, upper : (n_bins,)
        Edges; -inf and +inf mean open. ``lower == upper`` holds that value alone.
    count : (n_bins,)
        People in the bin; where it is only known as an interval, a count inside.
    closed : {"right", "left"}
        The side of a bin that belongs to it.
    count_low, count_high : (n_bins,) or None
        The interval each count lies in; None when all are exact.
    count_se : (n_bins,) or None
        The standard error of each count, where the publisher estimated it from a sample and says
        how well; NaN where it is not known. It is carried along, and no fit uses it yet.
    """

    start: IntArray
    lower: FloatArray
    upper: FloatArray
    count: IntArray
    closed: str = "right"
    count_low: IntArray | None = None
    count_high: IntArray | None = None
    count_se: FloatArray | None = None

    def total(self) -> IntArray:
        """Return the people counted in each block."""
        return segment_sum(self.count, self.start)

    def interval(self) -> tuple[IntArray, IntArray]:
        """Return the least and the most people in each bin."""
        low = self.count if self.count_low is None else self.count_low
        return low, self.count if self.count_high is None else self.count_high

    def repeats(self) -> int:
        """Return how many blocks there are if all have the bins of the first one; else 0."""
        n_blocks, width = len(self.start) - 1, int(self.start[1])
        if not width or not np.array_equal(self.start, width * np.arange(n_blocks + 1)):
            return 0
        both = (each.reshape(n_blocks, width) for each in (self.lower, self.upper))
        return n_blocks if all((each == each[0]).all() for each in both) else 0

    def hidden(self) -> BoolArray:
        """Mark the counts that are only known as intervals."""
        low, high = self.interval()
        return np.zeros(len(low), dtype=bool) if low is high else np.asarray(low < high)

    def take(self, blocks: IntArray) -> Histogram:
        """Return the tables of some blocks, in the order asked for."""
        start, rows = take_segments(self.start, blocks)
        return self.rows(start, rows)

    def rows(self, start: IntArray, rows: IntArray | BoolArray) -> Histogram:
        """Return some bins, as the table of the blocks that ``start`` says."""
        low, high, se = self.count_low, self.count_high, self.count_se
        return Histogram(
            start,
            self.lower[rows],
            self.upper[rows],
            self.count[rows],
            self.closed,
            None if low is None else low[rows],
            None if high is None else high[rows],
            None if se is None else se[rows],
        )

    def bin_text(self, row: int) -> str:
        """Return one bin as people write it: (0, 10] or [0, 10)."""
        low, high = f"{self.lower[row]:g}", f"{self.upper[row]:g}"
        if low == high:
            return f"[{low}, {high}]"
        return f"({low}, {high}]" if self.closed == "right" else f"[{low}, {high})"


@dataclass(frozen=True, slots=True)
class OrderStatistics:
    """Values at given ranks, in increasing order within each block.

    Attributes
    ----------
    start : (n_blocks + 1,)
        Rows of block ``b`` are ``start[b]:start[b + 1]``.
    rank : (n_rows,)
        1 is the smallest; 0 where only the quantile is known so far.
    quantile : (n_rows,)
        The quantile as published, NaN where the rank was.
    value : (n_rows,)
        The order statistic.
    """

    start: IntArray
    rank: IntArray
    quantile: FloatArray
    value: FloatArray

    def take(self, blocks: IntArray) -> OrderStatistics:
        """Return the tables of some blocks, in the order asked for."""
        start, rows = take_segments(self.start, blocks)
        return OrderStatistics(start, self.rank[rows], self.quantile[rows], self.value[rows])

    def with_ranks(self, n: IntArray) -> OrderStatistics:
        """Turn quantiles into ranks for blocks of ``n`` people: rank = ceil(quantile * n)."""
        people = np.repeat(n, np.diff(self.start))
        rank = np.where(self.rank == 0, quantile_rank(self.quantile, people), self.rank)
        table = OrderStatistics(self.start, rank, self.quantile, self.value)
        # two quantiles of few people may have the same rank
        return table.tidy() if (self.rank == 0).any() else table

    def tidy(self) -> OrderStatistics:
        """Sort the rows of each block by value, then rank, and keep repeated rows once."""
        block = block_of_rows(self.start)
        order = np.lexsort((self.quantile, self.rank, self.value, block))
        block, rank, value = block[order], self.rank[order], self.value[order]
        position = np.where(rank == 0, self.quantile[order], rank)
        keep = np.ones(len(order), dtype=bool)
        keep[1:] = (np.diff(block) != 0) | (np.diff(value) != 0) | (np.diff(position) != 0)
        keep[1:] |= (rank[1:] == 0) != (rank[:-1] == 0)
        start = segment_start(block[keep], len(self.start) - 1)
        return OrderStatistics(start, rank[keep], self.quantile[order][keep], value[keep])


@dataclass(frozen=True, slots=True)
class Cumulative:
    """The number of people at or below each value, both increasing within each block."""

    start: IntArray
    value: FloatArray
    count: IntArray


def quantile_rank(quantile: FloatArray, n: IntArray) -> IntArray:
    """Return the rank of a quantile among ``n`` people; quantile 0 is the minimum, rank 1."""
    product = np.nan_to_num(quantile) * n
    nearest = np.rint(product)
    # rank / n times n may miss a whole number by rounding: 0.07 * 100 is 7.000000000000001
    slack = np.maximum(1e-9, 4 * np.finfo(np.float64).eps * product)
    is_whole = np.abs(product - nearest) <= slack
    rank = np.where(is_whole, nearest, np.ceil(product))
    return np.maximum(rank, 1).astype(np.int64)


def histogram_to_cumulative(table: Histogram) -> Cumulative:
    """Add up the counts: one point per edge, the lowest edge of a block with count 0."""
    first = first_rows(table.start)
    gap = np.zeros(len(table.lower), dtype=bool)
    gap[1:] = table.lower[1:] != table.upper[:-1]
    opens = gap | first
    counts = segment_cumsum(table.count, table.start)
    before = counts - table.count
    size = 1 + opens
    position = np.cumsum(size)
    value = np.empty(int(size.sum()))
    count = np.empty(len(value), dtype=np.int64)
    value[position - 1], count[position - 1] = table.upper, counts
    value[position[opens] - 2], count[position[opens] - 2] = table.lower[opens], before[opens]
    start = np.concatenate([[0], position])[table.start]
    return Cumulative(start, value, count)


def cumulative_to_histogram(table: Cumulative, *, closed: str = "right") -> Histogram:
    """Difference adjacent points: the inverse of :func:`histogram_to_cumulative`."""
    upper = ~first_rows(table.start)
    lower = ~last_rows(table.start)
    n_published = np.concatenate([[0], np.cumsum(np.diff(table.start) > 0)])
    start = table.start - n_published
    count = table.count[upper] - table.count[lower]
    return Histogram(start, table.value[lower], table.value[upper], count, closed)


def histogram_to_order(table: Histogram, n: IntArray) -> OrderStatistics:
    """Read every finite edge as the order statistic whose rank is the cumulative count.

    A finite lowest edge is the first order statistic, an open end is one left out. A bin without
    people has no order statistic of its own, so this reading does not exist for it. One person in
    a lowest bin that is open below is read as the minimum, the same as a lowest edge: this is the
    only table that does not come back.
    """
    points = histogram_to_cumulative(table)
    first = first_rows(points.start)
    empty = (table.count == 0).any()
    rank = np.where(first, 1, points.count)
    keep = np.isfinite(points.value)
    # one person with a known value: the first and the last order statistic are the same
    keep[1:] &= first[1:] | (points.value[1:] != points.value[:-1]) | (rank[1:] != rank[:-1])
    later = np.flatnonzero(keep & ~first)
    if empty or (rank[later] <= np.where(keep, rank, 0)[later - 1]).any():
        raise BinError(
            "to_order_statistics: every bin needs an order statistic, got a bin without people, a "
            "gap, or a first bin of one person with a finite lower edge; merge it with its "
            "neighbour, or use to_cumulative()"
        )
    start = np.concatenate([[0], np.cumsum(keep)])[points.start]
    people = np.repeat(n, np.diff(start))
    return OrderStatistics(start, rank[keep], rank[keep] / people, points.value[keep])


def order_to_histogram(table: OrderStatistics, n: IntArray) -> Histogram:
    """Read every order statistic as an edge: the inverse of :func:`histogram_to_order`.

    The first order statistic is the lowest edge and the last one the highest; ends that were not
    published are open.
    """
    n_rows = np.diff(table.start)
    people = np.repeat(n, n_rows)
    first, last = first_rows(table.start), last_rows(table.start)
    opens_below, opens_above = first & (table.rank > 1), last & (table.rank < people)
    alone = first & last & (table.rank == 1) & (people == 1)
    size = 1 + opens_below + opens_above + alone
    position = np.cumsum(size) - 1 - opens_above  # where each order statistic itself goes
    total = int(size.sum())
    value, count = np.empty(total), np.empty(total, dtype=np.int64)
    value[position] = table.value
    count[position] = np.where(first & (table.rank == 1), 0, table.rank)
    value[position[opens_below] - 1], count[position[opens_below] - 1] = -np.inf, 0
    value[position[opens_above] + 1], count[position[opens_above] + 1] = (
        np.inf,
        people[opens_above],
    )
    value[position[alone] - 1], count[position[alone] - 1] = table.value[alone], 0
    count[position[alone]] = 1
    start = np.concatenate([[0], np.cumsum(size)])[table.start]
    return cumulative_to_histogram(Cumulative(start, value, count))


def integer_edges(table: Histogram) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and the largest integer each bin holds."""
    if table.closed == "right":
        low, high = np.floor(table.lower) + 1, np.floor(table.upper)
    else:
        low, high = np.ceil(table.lower), np.ceil(table.upper) - 1
    point = table.lower == table.upper
    return np.where(point, table.lower, low), np.where(point, table.upper, high)


def holds_integers(table: Histogram) -> bool:
    """Tell whether the edges can separate integers: all are whole or half numbers."""
    edges = np.concatenate([table.lower, table.upper])
    edges = edges[np.isfinite(edges)]
    return bool(np.all(2 * edges == np.rint(2 * edges)))


def reaches(table: Histogram, domain: Interval) -> BoolArray:
    """Mark the bins that hold a value of the domain."""
    if domain.integer and holds_integers(table):
        low, high = integer_edges(table)
        return (np.maximum(low, domain.low) <= np.minimum(high, domain.high)) & (low <= high)
    point = table.lower == table.upper
    below, above = table.upper < domain.low, table.lower > domain.high
    if table.closed == "right":
        above |= ~point & (table.lower == domain.high)
    else:
        below |= ~point & (table.upper == domain.low)
    return ~(below | above)


def check_histogram(table: Histogram, names: TextArray) -> None:
    """Raise unless edges increase and bins do not overlap; ``names`` are the block ids."""
    block = block_of_rows(table.start)
    bad = (table.lower > table.upper) | (table.lower == np.inf) | (table.upper == -np.inf)
    if bad.any():
        k = int(np.argmax(bad))
        raise BinError(
            f"block {str(names[block[k]])!r}: edges must increase, got lower "
            f"{table.lower[k]:g} and upper {table.upper[k]:g}; swap or correct them"
        )
    inner = np.flatnonzero(~last_rows(table.start))
    same = inner[
        (table.lower[inner] == table.lower[inner + 1])
        & (table.upper[inner] == table.upper[inner + 1])
    ]
    if same.size:
        k = int(same[0])
        raise BinError(
            f"block {str(names[block[k]])!r}: every bin must be listed once, got "
            f"{table.bin_text(k)} twice; add the counts or drop one"
        )
    overlap = inner[table.upper[inner] > table.lower[inner + 1]]
    if overlap.size:
        k = int(overlap[0])
        raise BinError(
            f"block {str(names[block[k]])!r}: bins must not overlap, got {table.bin_text(k)} and "
            f"{table.bin_text(k + 1)}; correct the edges or drop one"
        )


def check_order(table: OrderStatistics, names: TextArray) -> None:
    """Raise unless the ranks of a tidy table increase with its values.

    Ranks are compared with ranks and quantiles with quantiles: before the people of a block are
    known, it is not known which of a rank and a quantile is the larger.
    """
    block = block_of_rows(table.start)
    for kind, rows, position in (
        ("rank", np.flatnonzero(table.rank > 0), table.rank),
        ("quantile", np.flatnonzero(table.rank == 0), table.quantile),
    ):
        low, high = rows[:-1], rows[1:]
        bad = (block[low] == block[high]) & (position[low] >= position[high])
        if bad.any():
            k = int(np.argmax(bad))
            i, j = low[k], high[k]
            raise OrderStatisticError(
                f"block {str(names[block[i]])!r}: order statistics must not decrease and have one "
                f"value, got {table.value[j]:g} at {kind} {position[j]:g} and {table.value[i]:g} "
                f"at {kind} {position[i]:g}; check which value belongs to which {kind}"
            )


def check_ranks(table: OrderStatistics, n: IntArray, names: TextArray) -> None:
    """Raise if a rank exceeds the number of people, where that is known."""
    people = np.repeat(n, np.diff(table.start))
    bad = (people > 0) & (table.rank > people)
    if bad.any():
        k = int(np.argmax(bad))
        b = int(np.searchsorted(table.start, k, side="right")) - 1
        raise OrderStatisticError(
            f"block {str(names[b])!r}: ranks go up to the number of people, got rank "
            f"{table.rank[k]} of {n[b]} people; correct one of them"
        )


def no_histogram(n_blocks: int) -> Histogram:
    """Return a table in which no block has a bin."""
    empty = np.zeros(0)
    return Histogram(np.zeros(n_blocks + 1, np.int64), empty, empty, np.zeros(0, np.int64))


def no_order(n_blocks: int) -> OrderStatistics:
    """Return a table in which no block has an order statistic."""
    empty = np.zeros(0)
    return OrderStatistics(np.zeros(n_blocks + 1, np.int64), np.zeros(0, np.int64), empty, empty)


def scale_counts(table: Histogram, n: IntArray) -> Histogram:
    """Return the same shares of other numbers of people, as whole counts that add up to them.

    The ends of intervals are scaled too, and rounded outwards.
    """
    total = np.maximum(table.total(), 1)
    return multiply_counts(table, np.repeat(n / total, np.diff(table.start)), table.start)


def multiply_counts(table: Histogram, factor: FloatArray, start: IntArray) -> Histogram:
    """Multiply counts by factors that are the same within each segment, whose sums stay whole."""
    cumulative = np.rint(segment_cumsum(table.count, start) * factor).astype(np.int64)
    before = np.where(first_rows(start), 0, np.roll(cumulative, 1))
    se = None if table.count_se is None else table.count_se * factor
    scaled = replace(table, count=cumulative - before, count_se=se)
    if table.count_low is None:
        return scaled
    low, high = table.interval()
    low = np.minimum(np.floor(low * factor), scaled.count).astype(np.int64)
    high = np.maximum(np.ceil(high * factor), scaled.count).astype(np.int64)
    return replace(scaled, count_low=low, count_high=high)


def join_histograms(a: Histogram, b: Histogram, names: TextArray) -> Histogram:
    """Join two tables over the same blocks; a block may have bins in one of them."""
    both = (np.diff(a.start) > 0) & (np.diff(b.start) > 0)
    if both.any():
        raise ReleaseError(
            f"block {str(names[np.argmax(both)])!r}: may have one histogram, got one in both "
            "releases; keep one of them"
        )
    if len(a.count) and len(b.count) and a.closed != b.closed:
        raise ReleaseError(
            f"combine: histograms must be closed on one side, got closed={a.closed!r} and "
            f"{b.closed!r}; read both with the same closed="
        )
    start, rows = _join_rows(a.start, b.start)
    lower, upper, count = (
        np.concatenate([getattr(a, name), getattr(b, name)])[rows]
        for name in ("lower", "upper", "count")
    )
    joined = Histogram(start, lower, upper, count, a.closed if len(a.count) else b.closed)
    if a.count_se is not None or b.count_se is not None:
        joined = replace(joined, count_se=np.concatenate([_errors(a), _errors(b)])[rows])
    if a.count_low is None and b.count_low is None:
        return joined
    low, high = (np.concatenate(ends) for ends in zip(a.interval(), b.interval(), strict=True))
    return replace(joined, count_low=low[rows], count_high=high[rows])


def _errors(table: Histogram) -> FloatArray:
    """Return the standard errors of counts, NaN where there are none."""
    return np.full(len(table.count), np.nan) if table.count_se is None else table.count_se


def join_orders(a: OrderStatistics, b: OrderStatistics) -> OrderStatistics:
    """Join two tables over the same blocks, in increasing order within each block."""
    start, rows = _join_rows(a.start, b.start)
    rank, quantile, value = (
        np.concatenate([getattr(a, name), getattr(b, name)])[rows]
        for name in ("rank", "quantile", "value")
    )
    return OrderStatistics(start, rank, quantile, value).tidy()


def _join_rows(a: IntArray, b: IntArray) -> tuple[IntArray, IntArray]:
    """Interleave the rows of two tables block by block."""
    n_blocks = len(a) - 1
    codes = np.concatenate([block_of_rows(a), block_of_rows(b)])
    return segment_start(codes, n_blocks), np.argsort(codes, kind="stable")


def join_means(a: FloatArray | None, b: FloatArray | None, names: TextArray) -> FloatArray | None:
    """Join the means of two releases over the same blocks; a block may have one."""
    if a is None or b is None:
        return b if a is None else a
    both = np.isfinite(a) & np.isfinite(b)
    if both.any():
        raise ReleaseError(
            f"block {str(names[np.argmax(both)])!r}: has a mean in both releases, got two; keep one"
        )
    return np.where(np.isfinite(a), a, b)
