"""The rules for cells: what is hidden, and what totals give away, against all possible tables."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unbin
from unbin.disclosure.protections import (
    Protection,
    believable_counts,
    complete,
    rounded,
    without_noise,
)
from unbin.disclosure.rules import check_cells, smallest_allowed
from unbin.exceptions import ParameterError
from unbin.release.derivation import possible_counts


def enumerate_bounds(low, high, rows, columns):
    """Return the least and the most of every count over all whole tables that agree."""
    ranges = [range(a, b + 1) for a, b in zip(low.ravel(), high.ravel(), strict=True)]
    tables = np.array(list(product(*ranges))).reshape(-1, *low.shape)
    sums = tables.sum(axis=2)
    keep = ((rows[0] <= sums) & (sums <= rows[1])).all(axis=1)
    if columns is not None:
        sums = tables.sum(axis=1)
        keep &= ((columns[0] <= sums) & (sums <= columns[1])).all(axis=1)
    return tables[keep].min(axis=0), tables[keep].max(axis=0)


@st.composite
def hidden_tables(draw):
    n_rows, n_columns = draw(st.sampled_from([(2, 2), (2, 3), (3, 2), (3, 3)]))
    size = n_rows * n_columns
    cells = draw(st.lists(st.integers(0, 5), min_size=size, max_size=size))
    count = np.array(cells).reshape(n_rows, n_columns)
    hidden = (count >= 1) & (count < draw(st.integers(2, 5)))
    low, high = np.where(hidden, 1, count), np.where(hidden, 4, count)
    slack = draw(st.integers(0, 1))
    rows, columns = count.sum(axis=1), count.sum(axis=0)
    return low, high, (rows, rows), (columns - slack, columns + slack)


@settings(max_examples=60, deadline=None)
@given(hidden_tables(), st.booleans())
def test_bounds_are_those_of_all_tables(table, with_columns):
    low, high, rows, columns = table
    columns = columns if with_columns else None
    wanted = enumerate_bounds(low, high, rows, columns)
    found = possible_counts(low, high, rows, columns)
    assert found.exact
    np.testing.assert_array_equal(found.low, wanted[0])
    np.testing.assert_array_equal(found.high, wanted[1])
    sure = possible_counts(low, high, rows, columns, most_programs=0)
    assert (sure.low <= wanted[0]).all()
    assert (sure.high >= wanted[1]).all()


def test_programs_see_what_propagation_does_not():
    # every row and column has two hidden cells or more, but the cell at (0, 2) is what rows 0 and 1
    # have more than columns 0 and 1
    count = np.array([[2, 3, 2, 9], [3, 2, 9, 9], [9, 9, 2, 3], [9, 9, 3, 2]])
    hidden = count < 9
    low, high = np.where(hidden, 1, count), np.where(hidden, 4, count)
    rows, columns = ((count.sum(axis=k),) * 2 for k in (1, 0))
    wide = possible_counts(low, high, rows, columns, most_programs=0)
    found = possible_counts(low, high, rows, columns)
    wanted = enumerate_bounds(low, high, rows, columns)
    np.testing.assert_array_equal(found.low, wanted[0])
    np.testing.assert_array_equal(found.high, wanted[1])
    assert found.low[0, 2] == found.high[0, 2] == 2
    assert wide.low[0, 2] < wide.high[0, 2]
    assert (found.exact, wide.exact) == (True, False)


def test_complementary_cells_are_the_smallest_beside_a_lonely_one():
    count = np.array([[3, 20, 40], [30, 35, 50], [25, 50, 60]])
    # 20 beside 3; 25 and 35 in their columns; what is smallest beside those in their rows
    assert complete(count, count < 11).tolist() == 3 * [[True, True, False]]


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_completed_tables_leave_no_single_hidden_cell(seed):
    count = np.random.default_rng(seed).integers(1, 60, size=(6, 4))
    hidden = complete(count, count < 11)
    assert (hidden.sum(axis=0) != 1).all()
    assert (hidden.sum(axis=1) != 1).all()
    assert hidden[count < 11].all()
    assert (complete(count, np.zeros_like(hidden)) == 0).all()


@pytest.fixture
def release():
    rng = np.random.default_rng(0)
    blocks = np.repeat(list("abcdef"), [12, 40, 60, 80, 90, 100])
    return unbin.aggregate(rng.normal(size=len(blocks)), blocks, bins=4)


@pytest.mark.parametrize(
    "protection",
    [
        Protection(suppress=11),
        Protection(suppress=11, complementary=True),
        Protection(round=5),
        Protection(round=4),
        Protection(suppress=11, round=5),
    ],
)
def test_protected_intervals_hold_the_truth(release, protection):
    rng = np.random.default_rng(0)
    found = protection.apply(release, rng)
    low, high = found.histogram.interval()
    count = release.histogram.count
    assert ((low <= count) & (count <= high)).all()
    assert found.histogram.hidden().any()
    np.testing.assert_array_equal(found.n, release.n)
    assert (count == release.histogram.count).all()  # the input stays as it was


def test_noise_has_the_scale_it_says():
    big = unbin.aggregate(np.arange(20_000.0), np.arange(20_000) // 10, bins=5)
    found = Protection(epsilon=0.5).apply(big, np.random.default_rng(0))
    noise = found.histogram.count - big.histogram.count
    assert found.noise_sd == pytest.approx(np.sqrt(2) / 0.5)
    assert noise.std() == pytest.approx(found.noise_sd, rel=0.05)
    assert np.abs(noise).mean() == pytest.approx(2.0, rel=0.05)  # a Laplace variable's scale
    np.testing.assert_allclose(believable_counts(found).sum(axis=1), big.n)
    whole = without_noise(found)
    np.testing.assert_array_equal(whole.histogram.total(), big.n)
    assert (whole.histogram.count >= 0).all()
    assert whole.noise_sd == 0
    assert without_noise(big) is big


def test_rounding_is_to_the_nearest():
    count = np.arange(12)
    low, high = rounded(count, 5)
    near = np.array([0, 0, 0, 5, 5, 5, 5, 5, 10, 10, 10, 10])
    np.testing.assert_array_equal(low, np.maximum(near - 2, 0))
    np.testing.assert_array_equal(high, near + 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((1, False, None, None), "suppress: must be a whole number"),
        ((None, True, None, None), "complementary: needs suppress="),
        ((None, False, 1, None), "round: must be a whole number"),
        ((None, False, None, "gauss:1"), "noise: must be laplace:EPSILON, got 'gauss:1'"),
        ((None, False, None, "laplace:x"), "noise: must be laplace:EPSILON"),
        ((None, False, None, "laplace:0"), "noise: must be a finite number"),
        ((11, False, None, "laplace:1"), "noise: noisy counts are not suppressed"),
    ],
)
def test_protections_that_are_none(given, message):
    with pytest.raises(ParameterError, match=message):
        Protection.parse(*given)


def test_protections_in_words():
    assert Protection.parse(None, False, None, None) is None
    assert str(Protection.parse(11, True, 5, None)) == "suppress 11, complementary + round 5"
    assert str(Protection.parse(None, False, None, "laplace:0.5")) == "laplace:0.5"


def test_rules_have_names():
    assert [smallest_allowed(rule) for rule in ("CMS", "wonder", "nhs", 5)] == [11, 10, 8, 5]
    with pytest.raises(ParameterError, match="rule: unknown, got 'ons'"):
        smallest_allowed("ons")
    with pytest.raises(ParameterError, match="rule: must be a whole number, got 1"):
        smallest_allowed(1)


def test_cells_counted_by_hand():
    # a: 3 in the first bin, 12 in the second; b: all 14 in the second
    y = np.concatenate([np.full(3, 1.0), np.linspace(11, 20, 12), np.linspace(12, 19, 14)])
    blocks = np.repeat(["a", "b"], [15, 14])
    found = check_cells(y, unbin.aggregate(y, blocks, [0, 10, 20]), 11)
    assert (found.n_cells, found.smallest_block, found.smallest_cell) == (4, 14, 3)
    assert (found.cells_under, found.blocks_under, found.whole_blocks) == (1, 0, 1)
    assert (found.edges_at_values, found.edges_at_rare_values) == (1, 1)
    assert (found.publishes_minimum, found.publishes_maximum) == (False, True)
    # the one hidden cell is what its block's total leaves
    assert (found.hidden, found.derived, found.narrowed, found.exact) == (1, 1, 0, True)


def test_an_edge_that_many_share_is_not_rare():
    y = np.repeat([1.0, 2.0, 3.0], [20, 5, 20])
    found = check_cells(y, unbin.aggregate(y, None, [-np.inf, 1, 2, np.inf]), 11)
    assert (found.edges_at_values, found.edges_at_rare_values) == (2, 1)
    assert not found.publishes_minimum
    assert not found.publishes_maximum


def test_the_rule_is_held_against_what_would_be_published():
    """A small count must be left as many values as the rule leaves open, whatever protects it."""
    count = np.array([[4, 40, 50], [30, 35, 45], [60, 50, 40]])
    y = np.repeat(np.tile(np.arange(3.0), 3), count.ravel())
    blocks = np.repeat(np.repeat(list("abc"), 3), count.ravel())
    table = unbin.aggregate(y, blocks, [-0.5, 0.5, 1.5, 2.5])

    def within(smallest=11, **protection):
        used = Protection(**protection) if protection else None
        found = check_cells(y, table, smallest, used)
        assert found.exposed == (not found.within_rule)
        return found.within_rule

    assert not within()
    assert within(smallest=4)  # nothing is small
    assert not within(suppress=11)  # its block's total tells it
    assert within(suppress=11, complementary=True)
    assert not within(suppress=4, complementary=True)  # hides less than the rule
    assert not within(round=5)
    assert within(round=20)
    assert not within(epsilon=1.0)
    assert within(epsilon=0.5)


def test_what_is_not_sure_to_be_hidden_is_not_within_the_rule(monkeypatch):
    count = np.array([[4, 40, 50], [30, 35, 45], [60, 50, 40]])
    y = np.repeat(np.tile(np.arange(3.0), 3), count.ravel())
    blocks = np.repeat(np.repeat(list("abc"), 3), count.ravel())
    table = unbin.aggregate(y, blocks, [-0.5, 0.5, 1.5, 2.5])
    monkeypatch.setattr(
        "unbin.disclosure.rules.possible_counts", partial(possible_counts, most_programs=0)
    )
    found = check_cells(y, table, 11, Protection(suppress=11, complementary=True))
    assert (found.exposed, found.exact, found.within_rule) == (0, False, False)
    assert check_cells(y, table, 4, Protection(round=5)).within_rule  # nothing is small


def test_complementary_suppression_stops_derivation():
    rng = np.random.default_rng(1)
    count = rng.integers(12, 60, size=(8, 5))
    count[2, 3] = 4
    y = np.repeat(np.tile(np.arange(5.0), 8), count.ravel())
    blocks = np.repeat(np.repeat(list("abcdefgh"), 5), count.ravel())
    table = unbin.aggregate(y, blocks, [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5])
    alone = check_cells(y, table, 11, Protection(suppress=11))
    assert (alone.hidden, alone.derived) == (1, 1)
    mended = check_cells(y, table, 11, Protection(suppress=11, complementary=True))
    assert mended.hidden >= 4
    assert mended.derived == 0
    noisy = check_cells(y, table, 11, Protection(epsilon=1.0))
    assert (noisy.hidden, noisy.derived, noisy.narrowed) == (40, 0, 0)
    rounded_ = check_cells(y, table, 11, Protection(round=5))
    assert rounded_.hidden == 40
    assert rounded_.derived == 0
