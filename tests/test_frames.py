"""Columns of any frame: ids stay text, numbers become floats."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from unbin import AggregatedGLM, Release, _frames
from unbin._frames import as_floats, as_text, column
from unbin.exceptions import BlockError, DomainError

IDS = [
    (["05001", "5001"], ["05001", "5001"]),
    (("b", "a"), ["b", "a"]),
    (np.array(["x", "yy"]), ["x", "yy"]),
    (np.array([b"x", b"yy"]), ["x", "yy"]),
    (np.array(["x", "yy"], dtype=object), ["x", "yy"]),
    (np.array(["x", "yy"], dtype=np.dtypes.StringDType()), ["x", "yy"]),
    ([5001, 13], ["5001", "13"]),
    (np.array([5001, 13], dtype=np.uint16), ["5001", "13"]),
    (np.array([-1, 2**62]), ["-1", str(2**62)]),
    (np.array([5001, np.int64(13)], dtype=object), ["5001", "13"]),
    ([5001.0, 13.0], ["5001", "13"]),
    ([True, False], ["True", "False"]),
    (pd.Series(["05001", "13"]), ["05001", "13"]),
    (pd.Series(["05001", "13"], dtype="string"), ["05001", "13"]),
    (pd.Series(["05001", "13"], dtype="category"), ["05001", "13"]),
    (pd.Series([5001, 13], dtype="Int64"), ["5001", "13"]),
    (pd.Index(["05001", "13"]), ["05001", "13"]),
    (pl.Series(["05001", "13"]), ["05001", "13"]),
    (pl.Series(["05001", "13"], dtype=pl.Categorical), ["05001", "13"]),
    (pl.Series([5001, 13]), ["5001", "13"]),
    (np.array(["2020-01-31", "1999-12-01"], "M8[D]"), ["2020-01-31", "1999-12-01"]),
    (np.array(["2020-01-31", "1999-12-01"], "M8[ns]"), ["2020-01-31", "1999-12-01"]),
    (pd.to_datetime(pd.Series(["2020-01-31", "1999-12-01"])), ["2020-01-31", "1999-12-01"]),
    (pl.Series([dt.date(2020, 1, 31), dt.date(1999, 12, 1)]), ["2020-01-31", "1999-12-01"]),
    (["Łódź", "東京"], ["Łódź", "東京"]),
    ([" a", "a"], [" a", "a"]),
]


@pytest.mark.parametrize(("values", "expected"), IDS)
def test_ids_as_text(values, expected):
    text = as_text(values, where="ids")
    assert text.dtype.kind == "U"
    assert text.tolist() == expected


def test_times_of_one_day_stay_apart():
    text = as_text(np.array(["2020-01-31T06:00", "2020-01-31T18:00"], "M8[s]"), where="ids")
    assert len(set(text)) == 2
    assert all(name.startswith("2020-01-31T") for name in text)


def test_times_read_alike_in_pandas_and_polars():
    times = [dt.datetime(2020, 1, 31, 6), dt.datetime(2020, 1, 31, 18, 30)]
    a, b = as_text(pd.Series(times), where="ids"), as_text(pl.Series(times), where="ids")
    assert a.tolist() == b.tolist()


MISSING = [
    ["a", None],
    [1, None],
    ["a", float("nan")],
    [1.0, float("nan")],
    np.array(["a", None], dtype=object),
    np.array(["a", pd.NA], dtype=object),
    pd.Series(["a", None]),
    pd.Series(["a", None], dtype="string"),
    pd.Series([1, None], dtype="Int64"),
    pd.Series(["a", None], dtype="category"),
    pd.to_datetime(pd.Series(["2020-01-31", None])),
    pl.Series(["a", None]),
    pl.Series([1, None]),
    pl.Series([dt.date(2020, 1, 31), None]),
    ["a", ""],
]


@pytest.mark.parametrize("values", MISSING)
def test_missing_ids(values):
    with pytest.raises(BlockError, match=r"ids: every row needs a block id, got 1 missing.* row 1"):
        as_text(values, where="ids")


FLOATS = [
    [1, 2.5, None],
    (1, 2.5, np.nan),
    np.array([1, 2.5, np.nan], dtype=np.float32),
    np.array([1, 2.5, None], dtype=object),
    pd.Series([1, 2.5, None]),
    pd.Series([1, 2.5, pd.NA], dtype="Float64"),
    pd.Series([1, 2.5, pd.NA], dtype=object),
    pl.Series([1.0, 2.5, None]),
]


@pytest.mark.parametrize("values", FLOATS)
def test_numbers_as_floats(values):
    floats = as_floats(values, where="x")
    assert floats.dtype == np.float64
    np.testing.assert_array_equal(floats, [1, 2.5, np.nan])


@pytest.mark.parametrize(
    "values", [[1, 2, None], pd.Series([1, 2, None], dtype="Int64"), pl.Series([1, 2, None])]
)
def test_whole_numbers_with_nulls(values):
    np.testing.assert_array_equal(as_floats(values, where="x"), [1, 2, np.nan])


@pytest.mark.parametrize("values", [[True, False], np.array([1, 0], np.uint8)])
def test_other_numbers(values):
    np.testing.assert_array_equal(as_floats(values, where="x"), [1, 0])


@pytest.mark.parametrize(
    "frame",
    [
        {"id": ["05001"], "x": [1]},
        pd.DataFrame({"id": ["05001"], "x": [1]}, index=[7]),
        pl.DataFrame({"id": ["05001"], "x": [1]}),
    ],
)
def test_column(frame):
    assert column(frame, "id", role="block").tolist() == ["05001"]
    assert column(frame, "x", role="count").tolist() == [1]


def test_ids_of_a_release_keep_their_zero():
    table = {"block": ["05001", "5001"], "value": [1.0, 2.0]}
    for frame in (table, pd.DataFrame(table), pl.DataFrame(table)):
        assert Release.from_values(frame).blocks.tolist() == ["05001", "5001"]


def test_whole_ids_match_across_types():
    release = Release.from_values({"block": [1, 1, 20], "value": [1.0, 2.0, 3.0]})
    for ids in ([20, 1, 1], [20.0, 1.0, 1.0], ["20", "1", "1"], pl.Series([20, 1, 1])):
        assert release.align(ids).blocks.tolist() == ["20", "1", "1"]


def test_a_column_of_text_is_named():
    people = pd.DataFrame({"age": [1.0, 2.0], "sex": ["f", "m"]})
    for frame in (people, pl.from_pandas(people), people.astype({"sex": "category"})):
        with pytest.raises(DomainError, match=r"X, column .sex.: must hold numbers, got .*; e"):
            AggregatedGLM().fit(frame, [1.0, 2.0])


def test_sparse_features_are_those_of_the_dense_matrix(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.poisson(0.5, size=(200, 3)), rng.normal(size=200)
    dense = AggregatedGLM().fit(X, y)
    for kind in (sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        model = AggregatedGLM().fit(kind(X), y)
        # made dense they lie otherwise in memory, and sums are rounded otherwise
        np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-14)
        np.testing.assert_allclose(model.predict(kind(X)), dense.predict(X), atol=1e-14)
    monkeypatch.setattr(_frames, "LARGEST_DENSE", 10)
    with pytest.raises(DomainError, match=r"X: a sparse matrix is made dense, which takes 0\.0 G"):
        AggregatedGLM().fit(sparse.csr_matrix(X), y)
