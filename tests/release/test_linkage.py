"""What several tables together reveal, against all ways to spread people over bins."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbin.release.crossings import Crossings, small_differences
from unbin.release.derivation import possible_counts
from unbin.release.linkage import possible_counts_together


def tables_of(crossings, number):
    """Return the counts of each table from those (R, K) of the crossings."""
    counts = []
    for codes in crossings.blocks:
        count = np.zeros((codes.max() + 1, number.shape[1]), dtype=np.int64)
        np.add.at(count, codes, number)
        counts.append(count)
    return counts


def hide(counts, below):
    """Return the intervals of tables whose counts from 1 to ``below - 1`` are suppressed."""
    masks = [(count >= 1) & (count < below) for count in counts]
    return [
        (np.where(mask, 1, count), np.where(mask, below - 1, count))
        for count, mask in zip(counts, masks, strict=True)
    ]


def enumerate_numbers(people, n_bins):
    """Yield every way to spread the people of each crossing over the bins."""
    each = [
        [parts for parts in product(range(n + 1), repeat=n_bins) if sum(parts) == n] for n in people
    ]
    for rows in product(*each):
        yield np.array(rows, dtype=np.int64)


def enumerate_together(ends, crossings, columns, differences):
    """Return the least and the most of all counts over all numbers that agree."""
    found = []
    for number in enumerate_numbers(crossings.people, ends[0][0].shape[1]):
        counts = tables_of(crossings, number)
        agrees = all(
            ((low <= count) & (count <= high)).all()
            for count, (low, high) in zip(counts, ends, strict=True)
        )
        if agrees and (columns is None or (number.sum(axis=0) == columns[0]).all()):
            groups = [number[each.members].sum(axis=0) for each in differences]
            found.append([*counts, np.array(groups).reshape(len(groups), number.shape[1])])
    least = [np.min(each, axis=0) for each in zip(*found, strict=True)]
    most = [np.max(each, axis=0) for each in zip(*found, strict=True)]
    return least, most


@st.composite
def people_in_tables(draw):
    n_tables = draw(st.integers(2, 3))
    n_bins = draw(st.integers(2, 3))
    size = draw(st.integers(3, 9 if n_bins == 2 else 7))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    codes = [rng.integers(0, 2 + (t == 0), size) for t in range(n_tables)]
    codes = [np.unique(each, return_inverse=True)[1] for each in codes]
    crossings = Crossings.of(codes)
    bins = rng.integers(0, n_bins, size)
    number = np.zeros((len(crossings.people), n_bins), dtype=np.int64)
    np.add.at(number, (crossings.codes, bins), 1)
    return crossings, number, draw(st.integers(2, 4))


@settings(max_examples=60, deadline=None)
@given(people_in_tables(), st.booleans())
def test_bounds_are_those_of_all_ways_to_spread_people(case, with_columns):
    crossings, number, below = case
    ends = hide(tables_of(crossings, number), below)
    columns = (number.sum(axis=0),) * 2 if with_columns else None
    differences = small_differences(crossings, 4)
    least, most = enumerate_together(ends, crossings, columns, differences)
    found = possible_counts_together(ends, crossings, columns, differences)
    assert found.exact
    for bounds, low, high in zip([*found.tables, found.differences], least, most, strict=True):
        np.testing.assert_array_equal(bounds.low, low)
        np.testing.assert_array_equal(bounds.high, high)
    sure = possible_counts_together(ends, crossings, columns, differences, most_programs=0)
    for bounds, low, high in zip([*sure.tables, sure.differences], least, most, strict=True):
        assert (bounds.low <= low).all()
        assert (bounds.high >= high).all()


def test_one_table_is_what_it_was():
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 5
    crossings = Crossings.of([codes])
    number = np.zeros((5, 4), dtype=np.int64)
    np.add.at(number, (codes, rng.integers(0, 4, 60)), 1)
    (ends,) = hide([number], 4)
    n, columns = number.sum(axis=1), (number.sum(axis=0),) * 2
    wanted = possible_counts(*ends, (n, n), columns)
    found = possible_counts_together([ends], crossings, columns)
    np.testing.assert_array_equal(found.tables[0].low, wanted.low)
    np.testing.assert_array_equal(found.tables[0].high, wanted.high)


def two_tables():
    """Counties a and b, of which a has the towns 0 and 1 and b the town 2."""
    town = np.repeat([0, 1, 2], [30, 40, 50])
    county = np.array([0, 0, 1])[town]
    crossings = Crossings.of([county, town])
    number = np.array([[5, 25], [16, 24], [20, 30]])
    return crossings, number


def test_a_table_of_counties_gives_away_a_town():
    crossings, number = two_tables()
    counts = tables_of(crossings, number)
    ends = hide(counts, 11)
    # within its own table the hidden town would be given away by its people: hide both of its bins
    ends[1][0][0], ends[1][1][0] = 1, 29
    alone = possible_counts(*ends[1], (counts[1].sum(axis=1),) * 2)
    assert (alone.low[0] < alone.high[0]).all()
    for most in (0, 200):  # propagated, and solved
        found = possible_counts_together(ends, crossings, None, most_programs=most)
        np.testing.assert_array_equal(found.tables[1].low, counts[1])
        np.testing.assert_array_equal(found.tables[1].high, counts[1])
        assert found.exact  # nothing is left open


def test_what_is_too_large_is_only_propagated():
    rng = np.random.default_rng(1)
    crossings = Crossings.of([rng.integers(0, 4, 80), rng.integers(0, 3, 80)])
    number = np.zeros((len(crossings.people), 3), dtype=np.int64)
    np.add.at(number, (crossings.codes, rng.integers(0, 3, 80)), 1)
    ends = hide(tables_of(crossings, number), 9)
    wide = possible_counts_together(ends, crossings, None, most_unknowns=10)
    found = possible_counts_together(ends, crossings, None)
    assert (wide.exact, found.exact) == (False, True)
    for a, b in zip(wide.tables, found.tables, strict=True):
        assert (a.low <= b.low).all()
        assert (a.high >= b.high).all()


# -- differences -----------------------------------------------------------------------------------


def groups_of(people_codes, smallest):
    """Return the people of every difference that is found, as sorted tuples."""
    crossings = Crossings.of([np.asarray(each) for each in people_codes])
    found = small_differences(crossings, smallest)
    return sorted(
        tuple(np.flatnonzero(np.isin(crossings.codes, each.members)).tolist()) for each in found
    )


def test_crossings_are_the_pairs_that_people_have():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, 100), rng.integers(0, 7, 100)
    found = Crossings.of([a, b])
    assert len(found.people) == len(set(zip(a, b, strict=True)))
    np.testing.assert_array_equal(found.blocks[0][found.codes], a)
    np.testing.assert_array_equal(found.blocks[1][found.codes], b)
    np.testing.assert_array_equal(found.people, np.bincount(found.codes))


def test_a_block_less_the_block_within_it():
    district = np.repeat([0, 1], [22, 20])
    service = np.repeat([0, 1, 2], [20, 14, 8])  # area 1 has 2 of district 0 and 12 of district 1
    assert groups_of([district, service], 11) == [(20, 21)]
    assert groups_of([service, district], 11) == [(20, 21)]
    assert groups_of([district, service], 13) == [(20, 21), tuple(range(22, 34))]
    assert groups_of([district, service], 2) == []


def test_the_blocks_around_a_block():
    # districts 0 and 1 have 30 people, the service area all of them but the last
    district = np.repeat([0, 1, 2], [15, 15, 20])
    service = np.where(np.arange(50) < 29, 0, 1)
    assert (29,) in groups_of([district, service], 11)


def test_what_is_a_block_anyway_is_no_difference():
    county = np.repeat([0, 1], [25, 20])
    town = np.repeat([0, 1, 2], [20, 5, 20])  # county 0 less town 0 is town 1
    assert groups_of([county, town], 11) == []


@pytest.mark.parametrize("seed", range(5))
def test_differences_are_small_and_follow_from_the_tables(seed):
    rng = np.random.default_rng(seed)
    first = np.repeat(np.arange(6), 20)
    second = np.where(rng.random(120) < 0.03, rng.integers(0, 6, 120), first)
    crossings = Crossings.of([first, second])
    number = np.zeros((len(crossings.people), 3), dtype=np.int64)
    np.add.at(number, (crossings.codes, rng.integers(0, 3, 120)), 1)
    counts = tables_of(crossings, number)
    found = small_differences(crossings, 11)
    assert found
    for each in found:
        assert each.n == crossings.people[each.members].sum() < 11
        told = counts[each.table][list(each.blocks)].sum(axis=0)
        told = told - counts[each.less][list(each.less_blocks)].sum(axis=0)
        np.testing.assert_array_equal(number[each.members].sum(axis=0), told)
