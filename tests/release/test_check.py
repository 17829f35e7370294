"""``check``: rows that stand for people, and people whose outcome is known."""

import numpy as np
import pandas as pd
import pytest

import unbin
from unbin.exceptions import DomainError, ParameterError

COUNTY = pd.Series(["a", "a", "b", "b", "c"], name="county")
SEX = pd.Series(["f", "m", "f", "m", "f"], name="sex")
Y = np.array([1.0, 5.0, 1.0, 5.0, 1.0])
W = np.array([20, 30, 12, 18, 11])
EDGES = [-np.inf, 3.0, np.inf]
BY_COUNTY, BY_SEX = (unbin.aggregate(Y, ids, EDGES, weights=W) for ids in (COUNTY, SEX))


def test_rows_stand_for_people():
    found = BY_COUNTY.check(COUNTY, weights=W)
    assert (found.ready, found.n_rows, found.n_people) == (True, 5, 91)
    assert found.sentences() == (
        "3 blocks joined, 5 rows of X that stand for 91 people",
        "bins are open below and above",
        "ready to fit",
    )


def test_weights_that_are_other_people_than_the_table_counts():
    found = BY_COUNTY.check(COUNTY, weights=[20, 35, 12, 18, 9])
    assert found.sentences() == (
        "3 blocks joined, 5 rows of X that stand for 94 people",
        "2 blocks with other totals than X",
        "block 'a': the release counts 50 people, the rows of X stand for 55",
        "block 'c': the release counts 11 people, the rows of X stand for 9",
        "bins are open below and above",
        "1 block of fewer than 11 people: 'c'",
        "not ready to fit",
    )


def test_rows_without_weights_are_people():
    found = BY_COUNTY.check(COUNTY)
    assert (found.ready, found.n_people) == (False, None)
    assert found.sentences()[:3] == (
        "3 blocks joined, 5 rows of X",
        "3 blocks with other totals than X",
        "block 'a': the release counts 50 people, X has 2 rows",
    )


def test_weights_of_a_sample_far_from_the_table_are_pointed_out_but_in_nobody_s_way():
    design = W * [1, 1, 4, 4, 1]
    found = BY_COUNTY.check(COUNTY, weights=design, weighting="survey")
    assert (found.ready, found.sampled) == (True, True)
    assert found.sentences() == (
        "3 blocks joined, 5 rows of X, a sample that stands for 181 people",
        "1 block whose weights are far from the people that the table counts; they are brought to "
        "it",
        "block 'b', 120.0 people by the weights, 30 by the table",
        "bins are open below and above",
        "ready to fit",
    )
    with pytest.warns(unbin.exceptions.AlignmentWarning, match="worst: block 'b', 120.0 people"):
        target = BY_COUNTY.align(COUNTY, weights=design, weighting="survey")
    assert target.release.n.tolist() == [50, 30, 11]
    near = BY_COUNTY.check(COUNTY, weights=W * 1.5, weighting="survey")
    assert near.far_weights == ()


def test_a_small_block_of_a_sample_is_one_of_few_people_and_not_of_few_rows():
    small = BY_COUNTY.check(COUNTY, weights=W / 4, weighting="survey")
    assert small.small_blocks == ()


def test_weights_that_stand_for_nobody():
    with pytest.raises(DomainError, match="weights: a row must stand for a finite number of peopl"):
        BY_COUNTY.check(COUNTY, weights=W * 0)
    with pytest.raises(DomainError, match="weighting: 'survey' needs the weights of the rows"):
        BY_COUNTY.check(COUNTY, weighting="survey")


# -- several tables --------------------------------------------------------------------------------


def joined(observed=None, weights=W, weighting="frequency"):
    tables = [
        release.align(ids, weights=weights, weighting=weighting)
        for release, ids in ((BY_COUNTY, COUNTY), (BY_SEX, SEX))
    ]
    return unbin.join(*tables, *([] if observed is None else [observed]))


def test_tables_of_rows_that_stand_for_people():
    assert joined().check().sentences() == (
        "county counts all 91 people",
        "sex counts all 91 people",
        "5 rows of X stand for these people",
        "the tables agree",
    )
    assert joined(weighting="survey").check().sentences()[2:] == (
        "5 rows of X, a sample, stand for these people",
        "the tables agree",
    )


@pytest.mark.parametrize("disjoint", [False, True])
def test_tables_are_compared_as_they_were_published(disjoint):
    """Block c is of 11 people who are all known: taken out, nothing would be left of it."""
    known = np.array([np.nan, 5.0, np.nan, np.nan, 1.0])
    target = joined(unbin.observed(known, disjoint=disjoint))
    assert target.check().sentences() == (
        "county counts all 91 people",
        "sex counts all 91 people",
        "5 rows of X stand for these people",
        "the outcome of 41 people is known; "
        + ("no table counts it" if disjoint else "they are taken out"),
        "the tables agree",
    )


def test_people_alone_have_no_tables_to_compare():
    with pytest.raises(ParameterError, match="check: compares tables, got none; join aligned"):
        unbin.join(unbin.observed([1.0, 2.0])).check()
