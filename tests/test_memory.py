"""Memory is foreseen: what does not fit is refused with what would."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest

import unbin
from tests.helpers.people import draw_people
from unbin import AggregatedGLM, _checks
from unbin.exceptions import BinError, BlockError, EncodingError, ParameterError, SlowFitWarning
from unbin.likelihood.data import problem
from unbin.people.encoding import Encoding
from unbin.people.reading import read_people
from unbin.release import aggregation

N, B = 1000, 20
RNG = np.random.default_rng(0)
CODES = np.arange(N) % B
X, Y = draw_people(RNG, CODES)


def target(bins):
    return unbin.aggregate(Y, CODES, bins=bins).align(CODES)


# -- bins ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gaussian", "ordinal"])
def test_too_many_bins_are_refused_with_the_number_that_fits(monkeypatch, family):
    monkeypatch.setattr(problem, "machine_memory", lambda: 2**20)
    message = (
        r"histogram: (\d+) bins of 20 blocks at a time take about .* GiB of memory, this machine "
        r"has .* GiB; merge them to at most (\d+) bins, or use method='matching'"
    )
    with pytest.raises(BinError, match=message) as caught:
        AggregatedGLM(family).fit(X, target(100))
    fits = int(str(caught.value).split("at most ")[1].split()[0])
    assert 10 < fits < 60
    AggregatedGLM(family).fit(X, target(fits))
    with pytest.raises(BinError, match="merge them to at most"):
        AggregatedGLM(family).fit(X, target(fits + 3))


def test_ten_thousand_bins_are_foreseen(monkeypatch):
    monkeypatch.setattr(problem, "machine_memory", lambda: 2**34)
    n = 20_000
    y, blocks = RNG.normal(size=n), np.arange(n) % 100
    table = unbin.aggregate(y, blocks, bins=10_000).align(blocks)
    with pytest.raises(BinError, match=r"of 100 blocks at a time take about \d+ GiB of memory"):
        AggregatedGLM().fit(RNG.normal(size=(n, 1)), table)


def test_a_fit_that_takes_long_says_so_before_it_begins(monkeypatch):
    monkeypatch.setattr(problem, "_SPEED", 1e3)
    message = (
        r"histogram: \d+ bins of 20 blocks take about \d+ seconds per pass, of which there are"
    )
    with pytest.warns(SlowFitWarning, match=message):
        AggregatedGLM().fit(X, target(20))


def test_matching_takes_any_number_of_bins(monkeypatch):
    monkeypatch.setattr(problem, "machine_memory", lambda: 2**20)
    model = AggregatedGLM(method="matching").fit(X, target(900))
    np.testing.assert_allclose(model.coef_, [1.0, -0.5], atol=0.2)


def test_a_machine_that_does_not_tell_its_memory_tries(monkeypatch):
    monkeypatch.setattr(problem, "machine_memory", lambda: 0)
    AggregatedGLM().fit(X, target(10))


def test_more_quantiles_than_people_are_their_values():
    many, all_values = (unbin.aggregate(Y, bins=bins) for bins in (10**9, N))
    np.testing.assert_array_equal(many.histogram.upper, all_values.histogram.upper)
    np.testing.assert_array_equal(many.histogram.count, np.ones(N))


def test_a_table_of_too_many_cells_is_refused(monkeypatch):
    monkeypatch.setattr(aggregation, "MAX_CELLS", 100)
    with pytest.raises(
        BinError, match=r"at most 100 cells, got 10 bins of 20 blocks; pass at most 5"
    ):
        unbin.aggregate(Y, CODES, bins=10)
    assert len(unbin.aggregate(Y, CODES, bins=5)) == B


# -- columns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [Y, target(4)], ids=["observed", "aggregated"])
def test_too_many_columns_are_refused_with_the_number_that_fits(monkeypatch, y):
    monkeypatch.setattr(_checks, "machine_memory", lambda: 1000)
    with pytest.raises(ParameterError, match=r"X: 6 columns take about .* GiB .* at most 5 fit"):
        AggregatedGLM().fit(np.column_stack([X, X, X]), y)
    AggregatedGLM().fit(X, y)


# -- long texts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [list, np.array, lambda ids: np.array(ids, dtype=object), pd.Series, pl.Series]
)
def test_a_long_id_is_refused_before_every_id_gets_its_room(kind):
    ids = ["a"] * 10 + ["b" * 1001]
    with pytest.raises(
        BlockError,
        match="blocks: block ids must have at most 1,000 characters, got 1,001 in row 10",
    ):
        unbin.aggregate(np.arange(11.0), kind(ids))
    assert len(unbin.aggregate(np.arange(11.0), kind([*ids[:-1], "b" * 1000]))) == 2


def test_a_long_category_is_refused():
    columns = {"x": np.array(["a"] * 10 + ["b" * 1001], dtype=object)}
    with pytest.raises(EncodingError, match="column 'x': categories must have at most 1,000 chara"):
        Encoding.build("C(x)", columns)


def test_a_long_cell_among_people_takes_its_own_room_only(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("a,b\n" + "x,1\n" * 2000 + "y" * 30_000 + ",1\n")
    tracemalloc.start()
    read = read_people(str(path), text=[], columns=["a", "b"])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(read) == 2001
    assert most < 40e6  # 2,001 texts of that length would be 240 MB
