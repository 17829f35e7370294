"""Releases: read from any frame, joined, spelled otherwise, shown, and tied to rows."""

from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbin import Release, aggregate
from unbin.exceptions import AlignmentWarning, CountError, DomainError
from unbin.families import Interval
from unbin.release.tables import integer_edges

INF = float("inf")

TABLE = {
    "county": ["05001", "05001", "13", "13", "13"],
    "lower": [0.0, None, None, 5.0, 0.0],
    "upper": [None, 0.0, 0.0, None, 5.0],
    "count": [3, 4, 0, 2, 1],
    "percent": [42.9, 57.1, 0.0, 66.7, 33.3],
    "n": [7, 7, 3, 3, 3],
}
ORDER = {
    "county": ["b", "b", "a"],
    "quantile": [1.0, 0.5, 0.0],
    "rank": [4, 2, 1],
    "value": [9.0, 3.0, -1.5],
    "n": [4, 4, 2],
}
POINTS = {
    "county": ["a", "a", "a", "b", "b"],
    "value": [0.0, 5.0, INF, 1.0, 2.0],
    "count": [0, 2, 6, 3, 3],
}

CONSTRUCTORS = {
    "histogram": (TABLE, lambda t: Release.from_histogram(t, block="county")),
    "histogram-left": (TABLE, lambda t: Release.from_histogram(t, block="county", closed="left")),
    "histogram-both": (
        TABLE | {"lower": [1, None, None, 6, 1]},
        lambda t: Release.from_histogram(t, block="county", closed="both", n="n"),
    ),
    "percent": (
        TABLE,
        lambda t: Release.from_histogram(t, block="county", percent="percent", n="n"),
    ),
    "quantiles": (ORDER, lambda t: Release.from_quantiles(t, block="county")),
    "quantiles-n": (ORDER, lambda t: Release.from_quantiles(t, block="county", n="n")),
    "ranks": (ORDER, lambda t: Release.from_quantiles(t, block="county", rank="rank", n="n")),
    "values": (ORDER, lambda t: Release.from_values(t, block="county")),
    "everybody": (ORDER, lambda t: Release.from_values(t, block=None)),
    "cumulative": (POINTS, lambda t: Release.from_cumulative(t, block="county")),
}


def assert_same(a, b):
    """Check that two releases are equal to the last bit."""
    np.testing.assert_array_equal(a.blocks, b.blocks)
    np.testing.assert_array_equal(a.n, b.n)
    for x, y in ((a.histogram, b.histogram), (a.order_statistics, b.order_statistics)):
        for name in type(x).__dataclass_fields__:
            np.testing.assert_array_equal(getattr(x, name), getattr(y, name), err_msg=name)


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_every_frame_gives_the_same_release(name):
    table, read = CONSTRUCTORS[name]
    expected = read(table)
    assert_same(read(pd.DataFrame(table)), expected)
    assert_same(read(pl.DataFrame(table)), expected)
    assert_same(read({key: np.array(column) for key, column in table.items()}), expected)
    shuffled = pd.DataFrame(table).sample(frac=1.0, random_state=1)
    assert_same(read(shuffled), expected)


def test_histogram_is_sorted_by_block_and_edge():
    release = Release.from_histogram(TABLE, block="county")
    assert release.blocks.tolist() == ["05001", "13"]
    assert release.n.tolist() == [7, 3]
    assert release.histogram.start.tolist() == [0, 2, 5]
    assert release.histogram.lower.tolist() == [-INF, 0, -INF, 0, 5]
    assert release.histogram.upper.tolist() == [0, INF, 0, 5, INF]
    assert release.histogram.count.tolist() == [4, 3, 0, 1, 2]


def test_percentages_give_the_counts_they_were_made_of():
    counted = Release.from_histogram(TABLE, block="county")
    assert_same(Release.from_histogram(TABLE, block="county", percent="percent", n="n"), counted)


def test_closed_both_holds_whole_numbers():
    columns = {"lower": [0, 5, 10, None], "upper": [0, 9, None, -1], "count": [1, 2, 3, 4]}
    release = Release.from_histogram(columns, block=None, closed="both")
    low, high = integer_edges(release.histogram)
    assert low.tolist() == [-INF, 0, 5, 10]
    assert high.tolist() == [-1, 0, 9, INF]
    assert release.histogram.count.tolist() == [4, 1, 2, 3]


@pytest.mark.parametrize(("closed", "held"), [("right", [1, 5]), ("left", [0, 4])])
def test_closed_side_holds_whole_numbers(closed, held):
    columns = {"lower": [0], "upper": [5], "count": [1]}
    release = Release.from_histogram(columns, block=None, closed=closed)
    assert [edge[0] for edge in integer_edges(release.histogram)] == held


def test_quantile_zero_and_one_are_minimum_and_maximum():
    columns = {"quantile": [0.0, 1.0, 0.5], "value": [1.0, 9.0, 4.0]}
    target = Release.from_quantiles(columns, block=None).align(["all"] * 7)
    assert target.release.order_statistics.rank.tolist() == [1, 4, 7]
    assert target.release.order_statistics.value.tolist() == [1, 4, 9]


def test_quantiles_of_y_are_found_at_their_rank():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 31, 200):
        y = rng.normal(size=n)
        q = rng.random(20)
        value = np.quantile(y, q, method="inverted_cdf")
        target = Release.from_quantiles({"quantile": q, "value": value}, block=None)
        order = target.align(["all"] * n).release.order_statistics
        np.testing.assert_array_equal(np.sort(y)[order.rank - 1], order.value)


def test_a_statistic_listed_twice_is_kept_once():
    columns = {"quantile": [0.5, 0.5], "value": [1.0, 1.0]}
    release = Release.from_quantiles(columns, block=None)
    assert len(release.order_statistics.value) == 1
    assert_same(release.combine(release), release)
    near = Release.from_quantiles({"quantile": [0.5, 0.51], "value": [1.0, 1.0]}, block=None)
    assert near.align(["all"] * 3).release.order_statistics.rank.tolist() == [2]


def test_values_are_a_full_list():
    release = Release.from_values({"block": ["b", "a", "b"], "value": [3, 2, 3]})
    assert release.n.tolist() == [1, 2]
    assert release.order_statistics.rank.tolist() == [1, 1, 2]
    assert release.order_statistics.value.tolist() == [2, 3, 3]


def test_cumulative_with_and_without_a_lowest_edge():
    release = Release.from_cumulative(POINTS, block="county")
    assert release.histogram.lower.tolist() == [0, 5, -INF, 1]
    assert release.histogram.upper.tolist() == [5, INF, 1, 2]
    assert release.histogram.count.tolist() == [2, 4, 3, 0]
    assert release.n.tolist() == [6, 3]


# -- percentages ---------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 500), min_size=1, max_size=8), st.integers(0, 3))
def test_percentages_add_up(counts, digits):
    n = sum(counts)
    if n == 0:
        return
    percent = np.round(100 * np.array(counts) / n, digits)
    edges = np.arange(len(counts) + 1.0)
    order = np.random.default_rng(n).permutation(len(counts))
    columns = {
        "lower": edges[:-1][order],
        "upper": edges[1:][order],
        "percent": percent[order],
        "n": np.full(len(counts), n),
    }
    release = Release.from_histogram(columns, block=None, percent="percent", n="n")
    assert release.n.tolist() == [n]
    exact = percent / percent.sum() * n
    assert (np.abs(release.histogram.count - exact) < 1).all()
    assert (release.histogram.count[percent == 0] == 0).all()
    if 0.5 * 10.0**-digits * n / 100 * (len(counts) + 1) < 0.1:  # precise enough to be undone
        assert release.histogram.count.tolist() == counts


# -- other spellings -----------------------------------------------------------------------------


def test_spellings_of_a_release():
    table = {
        "block": ["a", "a", "b", "b", "c"],
        "lower": [None, 1, 0, 2, None],
        "upper": [1, None, 2, 3, 4],
        "count": [2, 3, 2, 1, 1],
    }
    release = Release.from_histogram(table)
    order = release.to_order_statistics()
    assert order.order_statistics.rank.tolist() == [2, 1, 2, 3, 1]
    assert order.order_statistics.value.tolist() == [1, 0, 2, 3, 4]
    assert len(order.histogram.count) == 0
    back = order.to_histogram()
    # one person at most 4 is read as one person at 4, the paper's reading
    assert_same(back.select(["a", "b"]), release.select(["a", "b"]))
    assert_same(Release.from_cumulative(release.to_cumulative()), release)
    assert_same(Release.from_histogram(release.to_columns()["histogram"]), release)
    columns = order.to_columns()["order_statistics"]
    assert_same(Release.from_quantiles(columns, n="n").to_histogram(), back)
    assert_same(Release.from_quantiles(columns, rank="rank", n="n").to_histogram(), back)


def test_cumulative_of_order_statistics():
    points = Release.from_quantiles(ORDER, block="county", n="n").to_cumulative()
    assert points["block"].tolist() == ["a", "a", "b", "b", "b"]
    assert points["value"].tolist() == [-1.5, INF, -INF, 3.0, 9.0]
    assert points["count"].tolist() == [0, 2, 0, 2, 4]


def test_cumulative_keeps_empty_bins():
    release = Release.from_histogram(TABLE, block="county")
    assert_same(Release.from_cumulative(release.to_cumulative()), release)


# -- combine and select --------------------------------------------------------------------------


def test_combine_other_blocks():
    release = Release.from_histogram(TABLE, block="county")
    parts = [release.select([name]) for name in release.blocks]
    assert_same(parts[0].combine(parts[1]), release)
    assert_same(parts[1].combine(parts[0]), release)


def test_combine_other_statistics_of_the_same_blocks():
    counts = Release.from_histogram(
        {"block": ["a", "a", "b"], "lower": [0, 1, 0], "upper": [1, 2, 9], "count": [1, 1, 4]}
    )
    order = Release.from_quantiles(ORDER, block="county")
    values = Release.from_values({"block": ["c", "c"], "value": [1, 0]})
    expected = counts.combine(order).combine(values)
    assert expected.blocks.tolist() == ["a", "b", "c"]
    assert expected.n.tolist() == [2, 4, 2]
    assert expected.histogram.start.tolist() == [0, 2, 3, 3]
    assert expected.order_statistics.start.tolist() == [0, 1, 3, 5]
    assert expected.order_statistics.value.tolist() == [-1.5, 3, 9, 0, 1]
    assert_same(values.combine(order).combine(counts), expected)
    assert_same(order.combine(values).combine(counts), expected)


def test_combine_keeps_the_closed_side():
    left = Release.from_histogram(
        {"block": ["a"], "lower": [0], "upper": [1], "count": [1]}, closed="left"
    )
    order = Release.from_quantiles(ORDER, block="county", rank="rank")
    assert order.combine(left).histogram.closed == "left"
    assert left.combine(order).histogram.closed == "left"


def test_combine_ranks_and_quantiles_of_one_block():
    ranks = Release.from_quantiles({"rank": [3], "value": [5.0]}, rank="rank", block=None)
    quantiles = Release.from_quantiles({"quantile": [0.25, 1.0], "value": [1.0, 8.0]}, block=None)
    order = ranks.combine(quantiles).align(["all"] * 4).release.order_statistics
    assert order.rank.tolist() == [1, 3, 4]
    assert order.value.tolist() == [1, 5, 8]


def test_select():
    release = Release.from_histogram(TABLE, block="county")
    part = release.select(["13", "13"])
    assert part.blocks.tolist() == ["13"]
    assert part.n.tolist() == [3]
    assert part.histogram.count.tolist() == [0, 1, 2]
    assert_same(release.select(["13", "05001"]), release)


# -- align ---------------------------------------------------------------------------------------


def test_align_in_any_order_of_rows():
    release = Release.from_histogram(TABLE, block="county")
    ids = np.array(["05001"] * 7 + ["13"] * 3)[np.random.default_rng(0).permutation(10)]
    target = release.align(ids)
    assert target.blocks.tolist() == ids.tolist()
    assert_same(target.release, release)
    assert_same(release.align(pd.Series(ids)).release, release)
    assert_same(release.align(pl.Series(ids)).release, release)


def test_align_without_blocks():
    target = aggregate([3.0, 1.0, 2.0], bins=2).align()
    assert len(target) == 3
    assert target.blocks.tolist() == ["all"] * 3


def test_align_counts_the_rows():
    release = Release.from_quantiles({"block": ["a", "b"], "quantile": [0.5] * 2, "value": [1, 2]})
    target = release.align(list("abbbab"))
    assert target.release.n.tolist() == [2, 4]
    assert target.release.order_statistics.rank.tolist() == [1, 2]
    assert release.n.tolist() == [0, 0]


def test_a_block_without_people_needs_no_rows():
    table = {"block": ["a", "b"], "lower": [0, 0], "upper": [1, 1], "count": [2, 0]}
    target = Release.from_histogram(table).align(["a", "a"])
    assert target.release.blocks.tolist() == ["a"]


# -- aggregate -----------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-4, 4), st.sampled_from("abc")), min_size=1, max_size=40),
    st.one_of(st.integers(1, 7), st.just([-4.5, -1.0, 0.0, 2.0, 4.0]), st.just([-INF, 0.0, INF])),
)
def test_aggregate_against_plain_python(people, bins):
    y, blocks = [v for v, _ in people], [b for _, b in people]
    release = aggregate(y, blocks, bins=bins)
    table = release.histogram
    assert release.blocks.tolist() == sorted(set(blocks))
    assert release.n.tolist() == [Counter(blocks)[b] for b in sorted(set(blocks))]
    for b, name in enumerate(release.blocks):
        rows = slice(table.start[b], table.start[b + 1])
        for low, high, count in zip(
            table.lower[rows], table.upper[rows], table.count[rows], strict=True
        ):
            assert low < high
            assert count == sum(low < v <= high for v, block in people if block == name)
    if isinstance(bins, int):
        assert 1 <= len(table.count) // len(release) <= bins
        assert table.lower[0] == -INF
        assert table.upper[-1] == INF


def test_aggregate_edges_at_repeated_quantiles():
    release = aggregate(np.array([0, 0, 0, 0, 0, 0, 1, 2]), bins=4)
    assert release.histogram.upper.tolist() == [0, INF]
    assert release.histogram.count.tolist() == [6, 2]
    constant = aggregate(np.ones(5, dtype=np.int8), bins=3)
    assert constant.histogram.count.tolist() == [5]


def test_aggregate_in_about_equal_parts():
    release = aggregate(np.random.default_rng(0).permutation(100), bins=4)
    assert release.histogram.count.tolist() == [25] * 4


# -- domain --------------------------------------------------------------------------------------


def test_check_domain():
    inside = aggregate([0, 1, 2, 3], bins=[-1, 0, 1, 3])
    inside.check_domain(Interval(0, 3, integer=True), family="binomial")
    inside.check_domain(Interval(-INF, INF), family="gaussian")
    with pytest.raises(DomainError, match=r"\(1, 3\] holds no value of the domain \[0, 1\]"):
        inside.check_domain(Interval(0, 1, integer=True), family="binomial")
    empty = aggregate([0, 1], bins=[-9, -5, 1, 9])
    empty.check_domain(Interval(0, 1, integer=True), family="binomial")
    values = Release.from_values({"block": ["a", "b"], "value": [0, -0.5]})
    with pytest.raises(DomainError, match=r"block 'b': values must lie in the domain \[0, inf\)"):
        values.check_domain(Interval(0, INF, integer=True), family="poisson")


def test_closed_left_below_the_domain():
    columns = {"lower": [-1], "upper": [0], "count": [2]}
    release = Release.from_histogram(columns, block=None, closed="left")
    with pytest.raises(DomainError, match=r"the bin \[-1, 0\) holds no value"):
        release.check_domain(Interval(0, INF, integer=True), family="poisson")


# -- in words ------------------------------------------------------------------------------------

HISTOGRAM = Release.from_histogram(TABLE, block="county")
MEDIANS = Release.from_quantiles({"block": ["a", "13"], "quantile": [0.5] * 2, "value": [1, 6]})
WORDS = [
    (
        HISTOGRAM,
        "Release: 2 blocks, 10 people\n  histogram: 2 blocks, 2 to 3 bins, open below and above",
    ),
    (MEDIANS, "Release: 2 blocks, unknown size\n  order statistics: 2 blocks, 1 per block"),
    (
        Release.from_values({"value": np.zeros(1234)}, block=None),
        "Release: 1 block, 1,234 people\n  values: 1 block, known up to permutation",
    ),
    (
        Release.from_histogram({"lower": [0], "upper": [1], "count": [2]}, block=None),
        "Release: 1 block, 2 people\n  histogram: 1 block, 1 bin, closed ends",
    ),
    (
        aggregate([1, 2, 3], bins=[0, 1, INF]),
        "Release: 1 block, 3 people\n  histogram: 1 block, 2 bins, open above",
    ),
    (
        aggregate([1, 2, 3], bins=[-INF, 1, 3]),
        "Release: 1 block, 3 people\n  histogram: 1 block, 2 bins, open below",
    ),
    (
        HISTOGRAM.select(["13"]).combine(MEDIANS.select(["13"])),
        "Release: 1 block, 3 people\n  histogram: 1 block, 3 bins, open below and above\n"
        "  order statistics: 1 block, 1 per block",
    ),
]


@pytest.mark.parametrize(("release", "text"), WORDS)
def test_repr(release, text):
    assert repr(release) == text
    head, *lines = text.splitlines()
    html = release._repr_html_()
    assert html.startswith(f"<table><caption>{head}</caption><tbody><tr><th ")
    assert html.count("<tr>") == len(lines)
    for line in lines:
        kind, words = line.strip().split(": ")
        assert f'<tr><th scope="row">{kind}</th><td>{words}</td></tr>' in html


def test_html_shows_no_block_names():
    hostile = "<script>alert(1)</script>"
    release = Release.from_values({"block": [hostile], "value": [1.0]})
    assert "script" not in release._repr_html_()
    assert release._repr_html_() == (
        "<table><caption>Release: 1 block, 1 person</caption>"
        '<tbody><tr><th scope="row">values</th><td>1 block, known up to permutation</td></tr>'
        "</tbody></table>"
    )


def test_len():
    assert len(HISTOGRAM) == 2


# -- standard errors of counts ---------------------------------------------------------------------


def with_errors():
    table = {
        "block": ["b", "a", "a", "c"],
        "lower": [0.0, 5.0, 0.0, 0.0],
        "upper": [5.0, 9.0, 5.0, 5.0],
        "count": [4, 6, 10, 3],
        "se": [0.5, 2.0, 1.0, None],
    }
    return Release.from_histogram(table, count_se="se")


def test_standard_errors_go_along_with_their_counts():
    release = with_errors()
    np.testing.assert_array_equal(release.histogram.count_se, [1.0, 2.0, 0.5, np.nan])
    np.testing.assert_array_equal(release.to_columns()["histogram"]["count_se"][:2], [1.0, 2.0])
    chosen = release.select(["b", "a"])
    np.testing.assert_array_equal(
        dict(zip(chosen.histogram.count, chosen.histogram.count_se, strict=True))[4], 0.5
    )
    plain = {"block": ["aa"], "lower": [0.0], "upper": [5.0], "count": [7]}
    both = release.combine(Release.from_histogram(plain))
    assert both.histogram.count.tolist() == [10, 6, 7, 4, 3]
    np.testing.assert_array_equal(both.histogram.count_se, [1.0, 2.0, np.nan, 0.5, np.nan])
    again = Release.from_histogram(plain).combine(release)
    np.testing.assert_array_equal(again.histogram.count_se, both.histogram.count_se)
    assert Release.from_histogram(plain).histogram.count_se is None
    assert "count_se" not in Release.from_histogram(plain).to_columns()["histogram"]


def test_standard_errors_are_scaled_with_the_counts():
    rows = np.repeat(["a", "b", "c"], [32, 4, 3])
    with pytest.warns(AlignmentWarning):
        target = with_errors().align(rows, scale=True)
    table = target.release.histogram
    assert table.count.tolist() == [20, 12, 4, 3]
    np.testing.assert_allclose(table.count_se, [2.0, 4.0, 0.5, np.nan])


def test_standard_errors_of_rounded_and_narrowed_counts_stay():
    table = {"lower": [0.0, 5.0], "upper": [5.0, 9.0], "count": [10, 20], "se": [1.0, 2.0]}
    columns = {"block": ["a", "a"], **table, "n": [31, 31]}
    release = Release.from_histogram(columns, n="n", rounding="nearest-5", count_se="se")
    assert release.histogram.count_low is not None
    assert release.histogram.count_se.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("bad", [-1.0, np.inf])
def test_what_is_no_standard_error(bad):
    table = {"block": ["a"], "lower": [0.0], "upper": [1.0], "count": [3], "se": [bad]}
    with pytest.raises(CountError, match=r"block 'a': a standard error must be 0 or more, got"):
        Release.from_histogram(table, count_se="se")
