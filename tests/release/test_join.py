"""Joined tables: of the same people, each once; rows cannot be selected."""

import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.releases import suppressed
from unbin import Release, aggregate, join
from unbin.exceptions import (
    AggregatedTargetError,
    AlignmentError,
    ParameterError,
    ReleaseError,
    SplitBlockError,
)

COUNTY = pd.Series(np.repeat(["a", "b", "c"], 4), name="county")
STATE = pd.Series(np.repeat(["n", "s"], [8, 4]), name="state")
SEX = pd.Series(np.tile(["f", "m"], 6), name="sex")
Y = np.arange(12.0)
EDGES = [-np.inf, 3.0, 7.0, np.inf]
BY_COUNTY, BY_SEX, BY_STATE = (aggregate(Y, ids, EDGES).align(ids) for ids in (COUNTY, SEX, STATE))
CROSSED = pd.DataFrame({"state": STATE, "sex": SEX})


def refused(error, *targets, **keywords):
    with pytest.raises(error) as caught:
        join(*targets, **keywords)
    return str(caught.value)


def test_a_join_is_as_long_as_its_people_and_shows_its_tables():
    target = join(BY_COUNTY, BY_SEX)
    assert (len(target), target.shape, target.ndim) == (12, (12,), 1)
    assert target.names == ("county", "sex")
    assert repr(target).splitlines() == [
        "JoinedTarget: 12 rows, 2 tables",
        "  county: Release: 3 blocks, 12 people",
        "    histogram: 3 blocks, 3 bins, open below and above",
        "  sex: Release: 2 blocks, 12 people",
        "    histogram: 2 blocks, 3 bins, open below and above",
    ]


def test_a_join_of_joins_is_a_join():
    target = join(join(BY_COUNTY, BY_SEX), BY_STATE)
    assert target.names == ("county", "sex", "state")
    assert [table.release for table in target.tables] == [
        table.release for table in (BY_COUNTY, BY_SEX, BY_STATE)
    ]


def test_tables_without_a_name_are_numbered():
    plain = aggregate(Y, SEX, EDGES).align(SEX.to_numpy())
    finer = aggregate(Y, SEX, 4).align(SEX)
    assert join(BY_COUNTY, plain).names == ("county", "table 2")
    assert join(BY_SEX, finer).names == ("sex", "sex (2)")


def test_tables_of_different_people():
    message = refused(AlignmentError, BY_COUNTY, aggregate(Y[:6], SEX[:6], EDGES).align(SEX[:6]))
    assert message == (
        "join: the tables must be of the same people, got 12 rows in the first and 6 in table 2; "
        "align all of them with the rows of X"
    )


def test_no_tables_and_tables_that_are_not_aligned():
    assert refused(ParameterError) == (
        "join: needs aligned tables, got none; pass release.align(blocks)"
    )
    assert refused(ParameterError, BY_COUNTY, aggregate(Y, SEX, EDGES)) == (
        "join: table 2 must be an aligned release, got Release; pass release.align(blocks)"
    )
    assert refused(ParameterError, Y).startswith("join: table 1 must be an aligned release, got nd")
    assert refused(ParameterError, BY_COUNTY, scale=1) == (
        "scale: must be a bool, got 1; pass True or False"
    )


def test_tables_of_no_people():
    with pytest.raises(AlignmentError, match="must name the block of each row, got 0 ids"):
        aggregate(Y, SEX, EDGES).align(SEX[:0])
    with pytest.raises(ReleaseError, match="nothing was published, got a table with 0 rows"):
        Release.from_histogram({"block": [], "lower": [], "upper": [], "count": []})


@pytest.mark.filterwarnings("ignore:align")
def test_a_table_that_counts_nobody_of_x_cannot_be_aligned():
    nobody = pd.Series([None] * 12, dtype=object)
    with pytest.raises(AlignmentError, match="must be in the release"):
        aggregate(Y, SEX, EDGES).align(nobody, on_missing="drop")


def test_one_table_twice():
    told = "join: tables must be different, got the same one as table 1 and table 3; pass it once"
    assert refused(ParameterError, BY_SEX, BY_COUNTY, BY_SEX) == told
    again = aggregate(Y, SEX, EDGES).align(SEX)
    assert refused(ParameterError, BY_SEX, BY_COUNTY, again) == told
    renamed = SEX.map({"f": "1", "m": "2"})
    again = aggregate(Y, renamed, EDGES).align(renamed)
    assert refused(ParameterError, BY_SEX, BY_COUNTY, again) == told
    # other bins of the same blocks are another table
    assert len(join(BY_SEX, aggregate(Y, SEX, 4).align(SEX)).tables) == 2


def test_a_partition_that_refines_another():
    target = join(BY_STATE, BY_COUNTY, aggregate(Y, CROSSED, EDGES).align(CROSSED))
    assert target.check().ready
    assert target.names == ("state", "county", "state, sex")


def test_200_tables():
    rng = np.random.default_rng(0)
    tables = []
    for _ in range(200):
        ids = rng.integers(0, 3, 12)
        tables.append(suppressed(aggregate(Y, ids, EDGES), 1, 2).align(ids))
    target = join(*tables)
    assert len(target.names) == len(set(target.names)) == 200
    assert target.check().ready
    hidden = [sum(t.release.histogram.hidden().sum() for t in of) for of in (tables, target.tables)]
    assert hidden[1] < hidden[0]


@pytest.mark.parametrize("rows", [0, slice(4), [0, 1], np.arange(12) < 4])
def test_rows_cannot_be_selected(rows):
    with pytest.raises(SplitBlockError) as caught:
        join(BY_COUNTY, BY_SEX)[rows]
    assert str(caught.value) == (
        "rows: tables of the same people cannot be split by rows, every row counts in all of the 2 "
        "tables; leave out blocks of a table with unbin.cross_validate(model, X, target)"
    )


def test_a_join_has_no_values():
    target = unbin.join(BY_COUNTY, BY_SEX)
    for read in (np.asarray, list):
        with pytest.raises(AggregatedTargetError, match="it has no value per row"):
            read(target)
