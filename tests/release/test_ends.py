"""Between which values everybody lies."""

import numpy as np
import pytest

import unbin
from unbin.exceptions import DomainError
from unbin.families import Interval
from unbin.release.ends import check_ends, check_known, known_ends

INF = np.inf
Y = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
BLOCKS = np.repeat(["a", "b"], 3)


def aligned(release):
    return release.align(BLOCKS).release


@pytest.mark.parametrize(
    ("edges", "low", "high"),
    [
        ([-INF, 3, INF], -INF, INF),
        ([0, 3, INF], 0, INF),
        ([-INF, 3, 10], -INF, 10),
        ([-INF, 0, 3, 10, INF], 0, 10),  # nobody is in the open bins
    ],
)
def test_bins_tell_where_everybody_lies(edges, low, high):
    found = known_ends(aligned(unbin.aggregate(Y, BLOCKS, edges)))
    assert (found.low, found.high) == (low, high)


@pytest.mark.parametrize(
    ("edges", "low"),
    [([-INF, 0, 3, INF], 0), ([-INF, 1, 3, INF], -INF), ([-INF, -1, 0, INF], -INF)],
)
def test_a_lowest_bin_that_ends_at_0_may_hold_0_alone(edges, low):
    release = aligned(unbin.aggregate(Y - 3, BLOCKS, edges))
    assert known_ends(release, from_zero=True).low == low
    assert known_ends(release).low == -INF


def test_published_extremes_tell_it_too():
    bins = unbin.aggregate(Y, BLOCKS, [-INF, 3, INF])
    extremes = {"block": list("aabb"), "rank": [1, 3, 1, 3], "value": [1.0, 3.0, 4.0, 6.0]}
    order = unbin.Release.from_quantiles(extremes, rank="rank")
    assert known_ends(aligned(bins.combine(order))) == Interval(1, 6)
    some = {name: values[1:] for name, values in extremes.items()}  # the minimum of a is not known
    order = unbin.Release.from_quantiles(some, rank="rank")
    assert known_ends(aligned(bins.combine(order))) == Interval(-INF, 6)


def test_lists_of_values_tell_it():
    release = unbin.Release.from_values({"block": BLOCKS, "value": Y})
    assert known_ends(aligned(release)) == Interval(1, 6)


def test_a_hidden_count_may_hold_somebody():
    table = {
        "block": list("aabb"),
        "lower": [-INF, 3, -INF, 3],
        "upper": [3, 10, 3, 10],
        "count": [np.nan, 3, np.nan, 3],
        "low": [0, np.nan, 0, np.nan],
        "high": [3, np.nan, 3, np.nan],
        "n": [3, 3, 3, 3],
    }
    read = {"count_low": "low", "count_high": "high", "n": "n"}
    found = known_ends(unbin.Release.from_histogram(table, **read))
    assert found.high == 10


def test_people_beyond_the_ends_are_refused():
    release = aligned(unbin.aggregate(Y, BLOCKS, [-INF, 1, 3, INF]))
    check_ends(release, Interval(1, INF))  # the bin "at most 1" holds 1
    with pytest.raises(DomainError, match=r"everybody must lie in \[2, inf\), got people in the"):
        check_ends(release, Interval(2, INF))
    with pytest.raises(DomainError, match="got 7; correct lower or upper, or the value"):
        check_known(np.array([1.0, 7.0]), Interval(0, 6))
