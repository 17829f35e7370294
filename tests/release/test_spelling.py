"""The tidy table of a release: written, and read back as it was."""

import warnings
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.releases import assert_equal
from unbin import Release, read_release
from unbin._io import csv_text
from unbin.exceptions import ParameterError, ReadError
from unbin.release.spelling import tidy_columns

NAMES = st.lists(
    st.text("abc019 ,\"'é$\n", min_size=1, max_size=6).map(str.strip).filter(bool),
    min_size=1, max_size=4, unique=True,
)  # fmt: skip
EDGES = st.lists(
    st.floats(-1e6, 1e6, allow_subnormal=False).map(lambda v: v + 0.0), min_size=1, max_size=4,
    unique=True,
)  # fmt: skip


@st.composite
def histograms(draw):
    """Return a release of bins: open or not, exact or not, closed on either side or both."""
    closed = draw(st.sampled_from(["right", "left", "both"]))
    hidden, known = draw(st.booleans()), draw(st.booleans())
    rows = []
    for name in draw(NAMES):
        if closed == "both":
            ends = sorted(draw(st.lists(st.integers(-50, 50), min_size=2, max_size=6, unique=True)))
            bins = list(zip(ends[::2], ends[1::2], strict=False))  # with gaps between some
            if draw(st.booleans()):
                bins[-1] = (bins[-1][0], np.inf)
        else:
            ends = sorted(draw(EDGES))
            ends = [-np.inf, *ends] if draw(st.booleans()) else ends
            ends = [*ends, np.inf] if draw(st.booleans()) or len(ends) < 2 else ends
            bins = list(pairwise(ends))
        counts = draw(st.lists(st.integers(1, 99), min_size=len(bins), max_size=len(bins)))
        for (low, high), count in zip(bins, counts, strict=True):
            width = draw(st.integers(0, 9)) if hidden else 0
            interval = (count - min(width, count), count + width)
            rows.append((name, low, high, *interval, sum(counts)))
    names = ("block", "lower", "upper", "low", "high", "n")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    how = {"n": "n"} if known else {}
    return Release.from_histogram(
        columns, count=None, count_low="low", count_high="high", closed=closed, **how
    )


def back(release, tmp_path, **options):
    path = tmp_path / "tidy.csv"
    path.write_text(csv_text(tidy_columns(release)), newline="")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return read_release(path, totals="keep", **options)


@settings(deadline=None, max_examples=50)
@given(histograms())
def test_histograms_come_back(tmp_path_factory, release):
    assert_equal(back(release, tmp_path_factory.mktemp("t")), release)


@settings(deadline=None, max_examples=50)
@given(histograms())
def test_frames_come_back(tmp_path_factory, release):
    path = tmp_path_factory.mktemp("t") / "tidy.csv"
    release.to_frame().to_csv(path, index=False)
    assert_equal(read_release(path, totals="keep"), release)
    release.to_frame(backend="polars").write_csv(path)
    assert_equal(read_release(path, totals="keep"), release)


@settings(deadline=None, max_examples=50)
@given(NAMES, st.data())
def test_order_statistics_come_back(tmp_path_factory, names, data):
    folder = tmp_path_factory.mktemp("t")
    size = data.draw(st.integers(1, 5))
    value = sorted(data.draw(st.lists(st.floats(-1e9, 1e9), min_size=size, max_size=size)))
    columns = {
        "block": np.repeat(names, size),
        "value": np.tile(np.array(value) + 0.0, len(names)),
        "quantile": np.tile(np.linspace(0.1, 0.9, size), len(names)),
        "rank": np.tile(np.arange(1, size + 1) * 3, len(names)),
        "n": np.repeat(100, size * len(names)),
    }
    for how in ({}, {"n": "n"}, {"rank": "rank"}, {"rank": "rank", "n": "n"}):
        release = Release.from_quantiles(columns, **how)
        assert_equal(back(release, folder), release)
    values = Release.from_values(columns)
    assert list(tidy_columns(values)) == ["block", "value"]
    assert_equal(back(values, folder), values)


@pytest.mark.parametrize("n", [None, "n"])
def test_means_come_back(tmp_path, n):
    table = {"block": ["01", "b"], "mean": [0.1, -3.5], "n": [4, 5]}
    release = Release.from_means(table, n=n)
    assert_equal(back(release, tmp_path), release)


def test_kinds_are_told_apart():
    table = {"block": ["a", "a"], "lower": [0, 1], "upper": [1, 2], "count": [1, 2]}
    both = Release.from_histogram(table).combine(
        Release.from_means({"block": ["a"], "mean": [1.0]})
    )
    with pytest.raises(ParameterError, match="got histogram and means; say kind='histogram'"):
        both.to_frame()
    assert both.to_frame("means")["mean"].tolist() == [1.0]
    assert isinstance(both.to_frame("histogram", backend="polars"), pl.DataFrame)
    with pytest.raises(ParameterError, match="kind: unknown, got 'order_statistics'"):
        both.to_frame("order_statistics")
    first = Release.from_quantiles({"block": ["a"], "quantile": [0.5], "value": [1]})
    ranks = Release.from_quantiles({"block": ["b"], "rank": [2], "value": [1]}, rank="rank")
    with pytest.raises(ParameterError, match="quantiles or ranks, got both; write them apart"):
        first.combine(ranks).to_frame()


def test_the_side_that_is_closed_is_said(tmp_path):
    table = {"block": ["a", "a"], "lower": [0, 1], "upper": [1, 2], "count": [1, 2]}
    left = Release.from_histogram(table, closed="left")
    assert left.to_frame()["closed"].tolist() == ["left", "left"]
    assert "closed" not in Release.from_histogram(table).to_frame()
    assert back(left, tmp_path).histogram.closed == "left"
    assert back(left, tmp_path, closed="right").histogram.closed == "right"
    path = tmp_path / "mixed.csv"
    path.write_text("block,lower,upper,count,closed\na,0,1,2,left\na,1,2,3,right\n")
    with pytest.raises(ReadError, match=r"column 'closed': must be one of .* got 'left', 'right'"):
        read_release(path)
