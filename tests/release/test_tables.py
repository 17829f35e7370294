"""The bijections between the three spellings of a table, and rank bounds, against plain Python."""

from fractions import Fraction
from itertools import pairwise
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbin import Release
from unbin._blocks import (
    block_of_rows,
    first_rows,
    last_rows,
    segment_cumsum,
    segment_start,
    segment_sum,
    take_segments,
)
from unbin.exceptions import ReleaseError
from unbin.families import Interval
from unbin.matching.bounds import rank_bounds
from unbin.release.tables import (
    Histogram,
    OrderStatistics,
    cumulative_to_histogram,
    histogram_to_cumulative,
    histogram_to_order,
    holds_integers,
    integer_edges,
    order_to_histogram,
    quantile_rank,
    reaches,
)

INF = float("inf")
MANY = settings(max_examples=150, deadline=None)


def as_start(parts):
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)


def to_histogram(blocks, closed="right"):
    """Build the table from one (edges, counts) per block."""
    lower = np.array([e for edges, _ in blocks for e in edges[:-1]], float)
    upper = np.array([e for edges, _ in blocks for e in edges[1:]], float)
    count = np.array([c for _, counts in blocks for c in counts], np.int64)
    return Histogram(as_start([counts for _, counts in blocks]), lower, upper, count, closed)


def to_order(blocks):
    """Build the table from one list of (rank, value) per block."""
    rank = np.array([r for rows in blocks for r, _ in rows], np.int64)
    value = np.array([v for rows in blocks for _, v in rows], float)
    return OrderStatistics(as_start(blocks), rank, np.full(len(rank), np.nan), value)


def assert_same(a, b, *names):
    for name in ("start", *names):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


@st.composite
def histogram_blocks(draw, min_count=1):
    blocks = []
    for _ in range(draw(st.integers(1, 4))):
        inner = draw(st.lists(st.integers(-20, 20), min_size=1, max_size=5, unique=True))
        edges = [float(e) for e in sorted(inner)]
        if draw(st.booleans()) or len(edges) == 1:
            edges = [-INF, *edges]
        if draw(st.booleans()) or len(edges) == 1:
            edges = [*edges, INF]
        size = len(edges) - 1
        counts = draw(st.lists(st.integers(min_count, 6), min_size=size, max_size=size))
        if min_count:
            counts[0] += 1  # one person alone in the lowest bin is the minimum: see below
        blocks.append((edges, counts))
    return blocks


@st.composite
def order_blocks(draw):
    blocks, n = [], []
    for _ in range(draw(st.integers(1, 4))):
        people = draw(st.integers(1, 12))
        ranks = sorted(draw(st.sets(st.integers(1, people), min_size=1)))
        size = len(ranks)
        values = sorted(draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size)))
        blocks.append(list(zip(ranks, map(float, values), strict=True)))
        n.append(people)
    return blocks, np.array(n)


# -- round trips ---------------------------------------------------------------------------------


@MANY
@given(histogram_blocks())
def test_histogram_order_histogram(blocks):
    table = to_histogram(blocks)
    order = histogram_to_order(table, table.total())
    assert_same(order_to_histogram(order, table.total()), table, "lower", "upper", "count")


@MANY
@given(histogram_blocks())
def test_histogram_reads_as_ranks_of_edges(blocks):
    table = to_histogram(blocks)
    order = histogram_to_order(table, table.total())
    expected = []
    for edges, counts in blocks:
        rows = [(1, edges[0])] if np.isfinite(edges[0]) else []
        total = 0
        for edge, count in zip(edges[1:], counts, strict=True):
            total += count
            rows += [(total, edge)] if np.isfinite(edge) else []
        expected.append(rows)
    assert_same(order, to_order(expected), "rank", "value")
    people = np.repeat(table.total(), np.diff(order.start))
    np.testing.assert_array_equal(order.quantile, order.rank / people)


@MANY
@given(order_blocks())
def test_order_histogram_order(drawn):
    blocks, n = drawn
    table = to_order(blocks)
    histogram = order_to_histogram(table, n)
    np.testing.assert_array_equal(histogram.total(), n)
    assert_same(histogram_to_order(histogram, n), table, "rank", "value")


@MANY
@given(histogram_blocks(min_count=0))
def test_cumulative_round_trip_with_empty_bins(blocks):
    table = to_histogram(blocks)
    points = histogram_to_cumulative(table)
    k = 0
    for edges, counts in blocks:
        size = len(edges)
        np.testing.assert_array_equal(points.value[k : k + size], edges)
        np.testing.assert_array_equal(points.count[k : k + size], np.cumsum([0, *counts]))
        k += size
    assert k == len(points.value)
    assert_same(cumulative_to_histogram(points), table, "lower", "upper", "count")


@MANY
@given(order_blocks())
def test_order_statistics_are_read_as_cumulative_counts(drawn):
    blocks, n = drawn
    points = histogram_to_cumulative(order_to_histogram(to_order(blocks), n))
    for b, rows in enumerate(blocks):
        part = slice(points.start[b], points.start[b + 1])
        seen = set(zip(points.count[part].tolist(), points.value[part].tolist(), strict=True))
        assert points.count[part][0] == 0
        assert points.count[part][-1] == n[b]
        for rank, value in rows:
            assert (rank if rank > 1 or n[b] == 1 else 0, value) in seen


def test_a_gap_is_an_empty_bin_of_the_cumulative_distribution():
    table = Histogram(np.array([0, 2]), np.array([0.0, 5]), np.array([1.0, 9]), np.array([2, 3]))
    points = histogram_to_cumulative(table)
    np.testing.assert_array_equal(points.value, [0, 1, 5, 9])
    np.testing.assert_array_equal(points.count, [0, 2, 2, 5])
    back = cumulative_to_histogram(points)
    np.testing.assert_array_equal(back.count, [2, 0, 3])


def test_one_person_with_a_known_value():
    table = to_order([[(1, 5.0)], [(1, 2.0)]])
    n = np.array([1, 3])
    histogram = order_to_histogram(table, n)
    np.testing.assert_array_equal(histogram.lower, [5, 2])
    np.testing.assert_array_equal(histogram.upper, [5, INF])
    np.testing.assert_array_equal(histogram.count, [1, 3])
    assert_same(histogram_to_order(histogram, n), table, "rank", "value")


def test_one_person_in_an_open_lowest_bin_is_read_as_the_minimum():
    table = to_histogram([([-INF, 0.0, INF], [1, 2])])
    order = histogram_to_order(table, np.array([3]))
    assert_same(order, to_order([[(1, 0.0)]]), "rank", "value")
    back = order_to_histogram(order, np.array([3]))
    assert_same(back, to_histogram([([0.0, INF], [3])]), "lower", "upper", "count")


def test_a_full_list_with_ties():
    table = to_order([[(1, 4.0), (2, 4.0), (3, 4.0), (4, 7.0), (5, 7.0)]])
    n = np.array([5])
    assert_same(histogram_to_order(order_to_histogram(table, n), n), table, "rank", "value")


# -- quantiles -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 99, 1000])
def test_quantile_rank_is_the_inverted_cdf(n):
    rng = np.random.default_rng(n)
    q = np.concatenate([rng.random(300), [0, 1, 0.5, 0.25, 0.75, 0.125, 0.875]])
    expected = np.quantile(np.arange(1, n + 1), q, method="inverted_cdf")
    np.testing.assert_array_equal(quantile_rank(q, np.full(len(q), n)), expected)


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_quantile_rank_of_decimals_is_exact(digits):
    scale = 10**digits
    for k in range(scale + 1):
        n = np.array([1, 3, 10, 60, 100, 730, 5000, 123_456_789])
        rank = quantile_rank(np.full(len(n), float(f"{k / scale:.{digits}f}")), n)
        exact = [max(1, ceil(Fraction(k, scale) * int(people))) for people in n]
        assert rank.tolist() == exact


def test_rank_over_n_gives_the_rank_back():
    for n in range(1, 201):
        rank = np.arange(1, n + 1)
        np.testing.assert_array_equal(quantile_rank(rank / n, np.full(n, n)), rank)


def test_quantile_rank_of_very_many_people_is_not_rounded():
    n = 2_000_000_001
    assert quantile_rank(np.array([0.5]), np.array([n])).tolist() == [1_000_000_001]
    assert quantile_rank(np.array([0.25]), np.array([n])).tolist() == [500_000_001]


# -- edges ---------------------------------------------------------------------------------------

EDGES = [
    ("right", 0, 2, (1, 2)),
    ("right", -0.5, 0.5, (0, 0)),
    ("right", 0.5, 3.5, (1, 3)),
    ("right", 4, 4, (4, 4)),
    ("right", -INF, 3, (-INF, 3)),
    ("right", 3, INF, (4, INF)),
    ("left", 0, 2, (0, 1)),
    ("left", -0.5, 0.5, (0, 0)),
    ("left", 0.5, 3.5, (1, 3)),
    ("left", 4, 4, (4, 4)),
    ("left", -INF, 3, (-INF, 2)),
    ("left", 3, INF, (3, INF)),
]


@pytest.mark.parametrize(("closed", "lower", "upper", "expected"), EDGES)
def test_integer_edges(closed, lower, upper, expected):
    table = to_histogram([([lower, upper], [1])], closed)
    low, high = integer_edges(table)
    assert (low[0], high[0]) == expected


@pytest.mark.parametrize("closed", ["right", "left"])
def test_integer_edges_against_a_list_of_integers(closed):
    edges = np.arange(-6, 7) / 2
    for a in edges:
        for b in edges[edges > a]:
            held = [k for k in range(-9, 9) if (a < k <= b if closed == "right" else a <= k < b)]
            low, high = integer_edges(to_histogram([([a, b], [1])], closed))
            assert list(range(int(low[0]), int(high[0]) + 1)) == held


@pytest.mark.parametrize(
    ("edges", "expected"),
    [([0, 1, 2], True), ([-0.5, 0.5], True), ([-INF, 3], True), ([0, 0.25], False)],
)
def test_holds_integers(edges, expected):
    assert holds_integers(to_histogram([(edges, [1] * (len(edges) - 1))])) is expected


DOMAIN = Interval(0.0, 3.0, integer=True)
REAL = Interval(0.0, 3.0)


@pytest.mark.parametrize(
    ("closed", "edges", "domain", "expected"),
    [
        ("right", [-2, -1, 0, 3, 4], DOMAIN, [False, True, True, False]),
        ("left", [-2, 0, 3, 4], DOMAIN, [False, True, True]),
        ("right", [0, 0.5, 1], DOMAIN, [False, True]),
        ("right", [-2, -1, 0, 0.1, 3, 4], REAL, [False, True, True, True, False]),
        ("left", [-2, 0, 0.1, 3, 4], REAL, [False, True, True, True]),
        ("right", [3, 3], REAL, [True]),
        ("left", [0, 0], REAL, [True]),
        ("right", [-INF, INF], REAL, [True]),
    ],
)
def test_reaches(closed, edges, domain, expected):
    table = to_histogram([(edges, [1] * (len(edges) - 1))], closed)
    assert reaches(table, domain).tolist() == expected


def test_bin_text():
    assert to_histogram([([0, 1.5], [1])]).bin_text(0) == "(0, 1.5]"
    assert to_histogram([([0, INF], [1])], "left").bin_text(0) == "[0, inf)"
    assert to_histogram([([2, 2], [1])]).bin_text(0) == "[2, 2]"


# -- rows that lie block by block ----------------------------------------------------------------


@MANY
@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.data())
def test_segments(sizes, data):
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    block = [b for b, size in enumerate(sizes) for _ in range(size)]
    total = int(start[-1])
    values = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=total, max_size=total)), int)
    parts = [values[start[b] : start[b + 1]] for b in range(len(sizes))]
    np.testing.assert_array_equal(segment_start(np.array(block, int), len(sizes)), start)
    np.testing.assert_array_equal(block_of_rows(start), block)
    np.testing.assert_array_equal(segment_sum(values, start), [part.sum() for part in parts])
    running = [x for part in parts for x in np.cumsum(part)]
    np.testing.assert_array_equal(segment_cumsum(values, start), running)
    place = [k for size in sizes for k in range(size)]
    np.testing.assert_array_equal(first_rows(start), [k == 0 for k in place])
    ends = [k == size - 1 for size in sizes for k in range(size)]
    np.testing.assert_array_equal(last_rows(start), ends)
    chosen = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=5))
    new, rows = take_segments(start, np.array(chosen, int))
    expected = [r for b in chosen for r in range(start[b], start[b + 1])]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(np.diff(new), [sizes[b] for b in chosen])


# -- rank bounds ---------------------------------------------------------------------------------


def slow_bounds(release, domain):
    """Return the bounds of every rank of every block, as lists of (lower, upper)."""
    table, order = release.histogram, release.order_statistics
    if domain.integer and holds_integers(table):
        lower, upper = integer_edges(table)
    else:
        lower, upper = table.lower, table.upper
    result = []
    for b, n in enumerate(release.n):
        bounds = [[domain.low, domain.high] for _ in range(n)]
        rank = 0
        for k in range(table.start[b], table.start[b + 1]):
            for _ in range(table.count[k]):
                bounds[rank][0] = max(bounds[rank][0], lower[k])
                bounds[rank][1] = min(bounds[rank][1], upper[k])
                rank += 1
        for k in range(order.start[b], order.start[b + 1]):
            for j in range(n):
                if j + 1 >= order.rank[k]:
                    bounds[j][0] = max(bounds[j][0], order.value[k])
                if j + 1 <= order.rank[k]:
                    bounds[j][1] = min(bounds[j][1], order.value[k])
        result.append([tuple(pair) for pair in bounds])
    return result


def spread(bounds):
    """Write runs out as one pair per rank."""
    result = []
    for b in range(len(bounds.start) - 1):
        pairs, rank = [], 0
        for k in range(bounds.run_start[b], bounds.run_start[b + 1]):
            pairs += [(bounds.lower[k], bounds.upper[k])] * int(bounds.cut[k] - rank)
            rank = int(bounds.cut[k])
        assert rank == bounds.start[b + 1] - bounds.start[b]
        result.append(pairs)
    return result


def publish(y, rng, *, kind, closed="right"):
    """Publish what is true of y: a histogram, order statistics, a full list, or several."""
    parts = []
    if kind in ("histogram", "both"):
        edges = np.unique(rng.choice(np.arange(-1, 7), size=3))
        edges = [-INF, *edges, INF]
        rows = list(pairwise(edges))
        inside = [(y > a) & (y <= b) if closed == "right" else (y >= a) & (y < b) for a, b in rows]
        columns = {
            "block": ["x"] * len(rows),
            "lower": [a for a, _ in rows],
            "upper": [b for _, b in rows],
            "count": [int(mask.sum()) for mask in inside],
        }
        parts.append(Release.from_histogram(columns, closed=closed))
    if kind in ("order", "both"):
        rank = np.sort(rng.choice(len(y), size=rng.integers(1, len(y) + 1), replace=False))
        columns = {"block": ["x"] * len(rank), "rank": rank + 1, "value": np.sort(y)[rank]}
        parts.append(Release.from_quantiles(columns, rank="rank"))
    release = parts[0]
    for part in parts[1:]:
        release = release.combine(part)
    return release


@pytest.mark.parametrize(
    "domain", [Interval(-INF, INF), Interval(0, INF, True), Interval(0, 5, True)]
)
@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("seed", range(12))
def test_rank_bounds_against_plain_python(domain, closed, seed):
    rng = np.random.default_rng(seed)
    whole, people, blocks = None, [], []
    for b in range(5):
        y = rng.integers(0, 6, size=rng.integers(1, 9)).astype(float)
        kind = rng.choice(["histogram", "order", "both"])
        part = publish(y, rng, kind=kind, closed=closed)
        renamed = Release(np.array([f"{b}"]), part.n, part.histogram, part.order_statistics)
        whole = renamed if whole is None else whole.combine(renamed)
        people.append(y)
        blocks += [f"{b}"] * len(y)
    target = whole.align(rng.permutation(blocks))
    target.release.check_domain(domain, family="any")
    bounds = rank_bounds(target.release, domain)
    got = spread(bounds)
    assert got == slow_bounds(target.release, domain)
    for pairs, y in zip(got, people, strict=True):  # the truth satisfies its own table
        assert all(low <= v <= high for (low, high), v in zip(pairs, np.sort(y), strict=True))
    assert bounds.run_start[-1] == len(bounds.cut)
    assert bounds.people().sum() == sum(map(len, people))
    assert spread(bounds.part(slice(1, 4))) == got[1:4]


def test_rank_bounds_of_a_contradiction():
    table = {"lower": [None, 0], "upper": [0, None], "count": [1, 3]}
    median = {"quantile": [0.5], "value": [-1.0]}
    release = Release.from_histogram(table, block=None)
    release = release.combine(Release.from_quantiles(median, block=None))
    with pytest.raises(ReleaseError, match="at least 0 and at most -1"):
        rank_bounds(release.align(["all"] * 4).release, Interval(-INF, INF))


@pytest.mark.parametrize(
    ("start", "lower", "upper", "repeats"),
    [
        ([0, 2, 4], [0, 1, 0, 1], [1, 2, 1, 2], 2),
        ([0, 2, 4], [0, 1, 0, 1], [1, 2, 1, 3], 0),
        ([0, 2, 4], [0, 1, -1, 1], [1, 2, 1, 2], 0),
        ([0, 1, 4], [0, 0, 1, 2], [9, 1, 2, 3], 0),
        ([0, 0, 0], [], [], 0),
    ],
    ids=["the same", "another upper end", "another lower end", "more bins", "no bins"],
)
def test_whether_bins_repeat(start, lower, upper, repeats):
    ends = (np.array(each, dtype=float) for each in (lower, upper))
    table = Histogram(np.array(start), *ends, np.ones(len(lower), dtype=np.int64))
    assert table.repeats() == repeats
