"""Rows that stand for several people, tied to a release."""

from __future__ import annotations

import numpy as np
import pytest

import unbin
from unbin.exceptions import AlignmentError, AlignmentWarning, DomainError, ParameterError

COUNTY = np.repeat(["a", "b"], 3)
PEOPLE = np.array([2.0, 3.0, 5.0, 1.0, 1.0, 8.0])


def table(people=PEOPLE, county=COUNTY):
    rows = np.repeat(np.arange(len(people)), people.astype(int))
    return unbin.aggregate(np.arange(len(rows)) % 4, county[rows], bins=[-1, 1, 3])


def test_a_block_has_the_people_its_rows_stand_for():
    target = table().align(COUNTY, weights=PEOPLE)
    np.testing.assert_array_equal(target.release.n, [10, 10])
    assert len(target) == 6
    np.testing.assert_array_equal(target.weights.values, PEOPLE)


def test_one_block_of_known_size_needs_no_ids():
    release = unbin.aggregate(np.arange(20) % 4, bins=[-1, 1, 3])
    assert release.align(weights=PEOPLE).release.n.tolist() == [20]


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_a_row_stands_for_people(value):
    weights = PEOPLE.copy()
    weights[4] = value
    with pytest.raises(DomainError, match=r"weights: a row must stand for .* in row 4"):
        table().align(COUNTY, weights=weights)


def test_weights_are_one_per_row():
    with pytest.raises(AlignmentError, match="got 5 for 6 rows"):
        table().align(COUNTY, weights=PEOPLE[:5])


def test_weighting_is_known():
    with pytest.raises(ParameterError, match="'frequency', 'survey'"):
        table().align(COUNTY, weights=PEOPLE, weighting="design")


def test_survey_weighting_needs_weights():
    with pytest.raises(DomainError, match="needs the weights"):
        table().align(COUNTY, weighting="survey")


def test_frequency_weights_add_up_to_the_people_of_the_release():
    with pytest.raises(AlignmentError, match=r"the rows of X stand for 11.*weighting='survey'"):
        table().align(COUNTY, weights=PEOPLE + np.eye(6)[0])


def test_fractional_weights_need_only_round_to_the_people_of_the_release():
    target = table().align(COUNTY, weights=PEOPLE + np.array([0.2, 0, 0, 0, -0.4, 0]))
    np.testing.assert_array_equal(target.release.n, [10, 10])


def test_a_sample_is_brought_to_the_people_of_the_release():
    target = table().align(COUNTY, weights=np.full(6, 4.0), weighting="survey")
    np.testing.assert_array_equal(target.release.n, [10, 10])
    assert target.weights.sampled


def test_a_sample_far_from_the_people_of_the_release_is_pointed_out():
    weights = np.array([1.0, 1, 1, 10, 10, 10])
    with pytest.warns(AlignmentWarning, match=r"2 blocks of 2 are far.*'a', 3.0 people"):
        table().align(COUNTY, weights=weights, weighting="survey")


def test_blocks_are_selected_with_their_weights():
    target = table().align(COUNTY, weights=PEOPLE)[3:]
    np.testing.assert_array_equal(target.weights.values, PEOPLE[3:])
    assert target.release.blocks.tolist() == ["b"]


def test_tables_of_the_same_people_have_the_same_weights():
    sex = np.tile(["f", "m"], 3)
    by_county, by_sex = table(), table(county=sex)
    with pytest.raises(ParameterError, match="other weights in table 2"):
        unbin.join(by_county.align(COUNTY, weights=PEOPLE), unbin.aggregate(
            np.arange(6) % 4, sex, bins=[-1, 1, 3]).align(sex))  # fmt: skip
    joined = unbin.join(by_county.align(COUNTY, weights=PEOPLE), by_sex.align(sex, weights=PEOPLE))
    assert joined.published.known is None


def test_sample_weight_is_for_observed_targets():
    target = table().align(COUNTY, weights=PEOPLE)
    with pytest.raises(ParameterError, match=r"release\.align\(blocks, weights"):
        unbin.AggregatedGLM().fit(np.eye(6), target, sample_weight=PEOPLE)


def test_weights_of_arrays_belong_to_the_tie():
    target = table().align(COUNTY, weights=PEOPLE)
    with pytest.raises(ParameterError, match=r"release\.align\(blocks, weights"):
        unbin.AggregatedGLM().fit(np.eye(6), target, weights=PEOPLE)
