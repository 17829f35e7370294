"""Several tables as they come: redundant, silent, contradictory, of some people, very many."""

import datetime
import time

import numpy as np
import pandas as pd
import pytest

import unbin
from unbin import AggregatedGLM, Release, join
from unbin.exceptions import (
    AlignmentError,
    AlignmentWarning,
    BlockError,
    IdentificationWarning,
    ParameterError,
    ReleaseError,
)

COEF = np.array([0.5, -0.4])
INF = np.inf
N = 2400
RNG = np.random.default_rng(11)
CODE = np.repeat(np.arange(40), 60)
X = RNG.normal(size=(N, 2)) + 0.6 * RNG.normal(size=(40, 2))[CODE]
Y = X @ COEF + RNG.normal(size=N)
COUNTY = pd.Series(np.char.zfill(CODE.astype(str), 2), name="county")
STATE = pd.Series((CODE // 5).astype(str), name="state")
GROUP = pd.Series(np.digitize(X[:, 0], [-1, -0.5, 0, 0.5, 1]).astype(str), name="group")
EVERYBODY = pd.Series(np.full(N, "all"), name="everybody")
EDGES = [-INF, *np.quantile(Y, [0.2, 0.4, 0.6, 0.8]), INF]


def table(ids, bins=EDGES, y=Y):
    return unbin.aggregate(y, ids, bins).align(ids)


BY_COUNTY, BY_GROUP = table(COUNTY), table(GROUP)
ALONE = AggregatedGLM().fit(X, BY_COUNTY)
BOTH = AggregatedGLM().fit(X, join(BY_COUNTY, BY_GROUP))


def fit(*tables, **settings):
    return AggregatedGLM(**settings).fit(X, join(*tables))


def assert_near(model, other, rtol=0.05):
    """Check that a model says what another does, with the same certainty."""
    np.testing.assert_allclose(model.coef_, other.coef_, atol=0.2 * other.standard_errors_.min())
    np.testing.assert_allclose(model.standard_errors_, other.standard_errors_, rtol=rtol)


def assert_true(model):
    assert model.status_.converged
    assert (np.abs(model.coef_ - COEF) < 4 * model.standard_errors_).all()


# -- tables that say what others do ----------------------------------------------------------------


@pytest.mark.parametrize("order", [1, -1])
def test_a_table_that_others_make_up_adds_nothing(order):
    """Counties make up states: what they say of the slopes is not counted twice."""
    model = fit(*(BY_COUNTY, table(STATE))[::order])
    assert_true(model)
    # by the model: errors of one table alone are those of its blocks
    ours, theirs = (each.diagnostics_.efficiency for each in (model, ALONE))
    np.testing.assert_allclose(ours, theirs, rtol=0.15)
    assert np.abs(model.coef_ - ALONE.coef_).max() < 1.0 * ALONE.standard_errors_.max()


def test_three_levels():
    crossed = pd.DataFrame({"county": COUNTY, "group": GROUP})
    model = fit(table(STATE), BY_COUNTY, table(crossed))
    assert_true(model)
    assert [t.name for t in model.tables_] == ["state", "county", "county, group"]
    np.testing.assert_allclose(model.diagnostics_.information.sum(axis=0), 1.0, rtol=1e-6)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_table_of_everybody(place):
    tables = [BY_COUNTY, BY_GROUP]
    tables.insert(place, table(EVERYBODY))
    assert_near(fit(*tables), BOTH, rtol=0.1)


def test_tables_of_everybody_alone_identify_nothing():
    with pytest.warns(IdentificationWarning, match="a single block does not tell"):
        model = fit(table(EVERYBODY), table(EVERYBODY, 3))
    assert np.isnan(model.standard_errors_).all()


def test_the_same_blocks_in_other_bins():
    model = fit(BY_COUNTY, table(COUNTY, [-INF, -0.5, 0.0, 0.7, INF]))
    assert_true(model)
    assert (model.standard_errors_ < 1.1 * ALONE.standard_errors_).all()


# -- tables that say nothing -----------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 1])
def test_a_table_of_one_bin_says_nothing(place):
    tables = [BY_COUNTY, BY_GROUP]
    tables.insert(place, table(STATE, [-INF, INF]))
    model = fit(*tables)
    np.testing.assert_allclose(model.coef_, BOTH.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.standard_errors_, BOTH.standard_errors_, rtol=1e-6)
    np.testing.assert_allclose(model.diagnostics_.information[place], 0.0, atol=1e-9)


def test_tables_of_one_bin_alone_are_refused():
    with pytest.raises(ReleaseError, match="tables: must distinguish people, got one bin, one val"):
        fit(table(COUNTY, [-INF, INF]), table(GROUP, [-INF, INF]))


def nothing(ids):
    """A table of which only the people of its blocks were published."""
    names, n = np.unique(ids, return_counts=True)
    n = np.repeat(n, 5)
    cells = {
        "block": np.repeat(names, 5),
        "lower": np.tile(EDGES[:-1], len(names)),
        "upper": np.tile(EDGES[1:], len(names)),
        "count": np.full(len(n), np.nan),
        "low": 0 * n,
        "high": n,
        "n": n,
    }
    release = Release.from_histogram(cells, n="n", count_low="low", count_high="high")
    return release.align(ids)


def test_a_table_of_which_nothing_is_published():
    ward = pd.Series(RNG.integers(0, 8, N).astype(str), name="ward")
    model = fit(BY_COUNTY, BY_GROUP, nothing(ward))
    np.testing.assert_allclose(model.coef_, BOTH.coef_, atol=1e-3)
    np.testing.assert_allclose(model.standard_errors_, BOTH.standard_errors_, rtol=0.05)
    # the counts of states are those of their counties, published or not
    worked_out = join(BY_COUNTY, nothing(STATE)).tables[1].release.histogram
    np.testing.assert_array_equal(worked_out.count, table(STATE).release.histogram.count)
    assert not worked_out.hidden().any()
    with pytest.raises(ReleaseError, match="tables: must distinguish people, got one bin, one v"):
        fit(nothing(COUNTY), nothing(GROUP))


def test_people_and_nothing_else():
    names, n = np.unique(STATE, return_counts=True)
    blank = {"block": names, "mean": np.full(len(names), np.nan), "n": n}
    with pytest.raises(ReleaseError, match="mean"):
        Release.from_means(blank, n="n")


# -- tables that contradict each other -------------------------------------------------------------


def test_a_contradiction_names_both_tables_and_both_numbers():
    other = table(GROUP, y=Y + 0.5)
    counts = [int((y <= EDGES[3]).sum()) for y in (Y, Y + 0.5)]
    message = rf"fit: county counts {counts[0]:,} people up to .*, group counts {counts[1]:,}; see "
    with pytest.warns(AlignmentWarning, match=message):
        model = fit(BY_COUNTY, other)
    assert np.isfinite(model.coef_).all()
    assert not join(BY_COUNTY, other).check().ready


def test_contradictory_tables_can_be_raked():
    with pytest.warns(AlignmentWarning, match="join: "):
        target = join(BY_COUNTY, table(GROUP, y=Y + 0.1), scale=True)
    assert target.check().ready
    assert_true(AggregatedGLM().fit(X, target))


# -- people ----------------------------------------------------------------------------------------


def test_tables_of_different_people():
    short = unbin.aggregate(Y[:-1], GROUP[:-1], EDGES).align(GROUP[:-1])
    with pytest.raises(AlignmentError, match="got 2400 rows in the first and 2399 in table 2"):
        join(BY_COUNTY, short)
    with pytest.raises(AlignmentError, match="2400 rows were aligned with the release, X has 2399"):
        AggregatedGLM().fit(X[:-1], join(BY_COUNTY, BY_GROUP))


def test_nobody():
    with pytest.raises(ParameterError, match="join: needs aligned tables, got none"):
        join()
    with pytest.raises(AlignmentError, match="must name the block of each row, got 0 ids"):
        BY_COUNTY.release.align(COUNTY[:0])


def test_one_table_twice():
    with pytest.raises(ParameterError, match="got the same one as table 1 and table 3; pass it o"):
        fit(BY_COUNTY, BY_GROUP, table(COUNTY))


def insured():
    """Groups of the people who are insured, NaN for the others."""
    ids = GROUP.astype(float).rename("group")
    ids[RNG.random(N) < 0.3] = np.nan
    return ids


@pytest.mark.parametrize("first", [True, False])
def test_people_outside_a_table(first):
    ids = insured()
    inside = ids.notna()
    release = unbin.aggregate(Y[inside], ids[inside], EDGES)
    with pytest.raises(BlockError, match=r"every row needs a block id, got \d+ missing"):
        release.align(ids)
    partial = release.align(ids, on_missing="drop")
    model = fit(*((partial, BY_COUNTY) if first else (BY_COUNTY, partial)))
    assert_true(model)
    assert model.tables_[0 if first else 1].n_people == inside.sum()
    assert BOTH.standard_errors_[0] < model.standard_errors_[0] < ALONE.standard_errors_[0]
    assert model.impute().shape == (N,)


def test_a_table_of_few_people_changes_little():
    some = pd.Series(np.where(np.arange(N) < 12, "few", None), name="some", dtype=object)
    few = unbin.aggregate(Y[:12], some[:12], EDGES).align(some, on_missing="drop")
    assert_near(fit(BY_COUNTY, BY_GROUP, few), BOTH, rtol=0.1)


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param(CODE, id="whole numbers"),
        pytest.param(CODE.astype(float), id="floats"),
        pytest.param(COUNTY.astype("category"), id="categories"),
        pytest.param(list(COUNTY), id="list"),
        pytest.param(COUNTY.to_numpy().astype(object), id="objects"),
        pytest.param(COUNTY.astype("string"), id="nullable text"),
        pytest.param(pd.to_datetime(CODE, unit="D"), id="dates"),
        pytest.param(CODE % 2 == 0, id="flags"),
        pytest.param(pd.DataFrame({"a": CODE % 2 == 0, "b": CODE}), id="crossed"),
    ],
)
def test_ids_of_any_type(ids):
    codes = table(ids).codes
    names = pd.Series(np.char.zfill(codes.astype(str), 2))
    model, same = (fit(BY_GROUP, BY_COUNTY, table(each, 4)) for each in (ids, names))
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-9)


@pytest.mark.parametrize(
    "ids",
    [
        np.linspace(0, 1, N),
        [object()] * N,
        [(1, c) for c in CODE],
        CODE * 1j,
        [datetime.date(2020, 1, 1)] * N,
    ],
)
def test_what_is_no_id_is_refused(ids):
    with pytest.raises(BlockError, match="blocks: "):
        join(BY_GROUP, table(ids))


# -- very many tables ------------------------------------------------------------------------------


def test_200_tables_of_2000_people():
    """Groupings at random of what is nearly the whole story: as good as the people themselves."""
    rng, n = np.random.default_rng(0), 2000
    x, y = X[:n], Y[:n]
    tables = []
    for k in range(200):
        score = x @ rng.normal(size=2) + 0.5 * rng.normal(size=n)
        ids = pd.Series(np.digitize(score, [-1, 0, 1]), name=f"t{k}")
        tables.append(unbin.aggregate(y, ids, EDGES).align(ids))
    began = time.perf_counter()
    model = AggregatedGLM().fit(x, join(*tables))
    assert time.perf_counter() - began < 30
    assert_true(model)
    oracle = AggregatedGLM().fit(x, y)
    assert (model.standard_errors_ < 1.5 * oracle.standard_errors_).all()
    assert (model.standard_errors_ > 0.95 * oracle.standard_errors_).all()
    assert np.abs(model.coef_ - oracle.coef_).max() < 3 * model.standard_errors_.max()
    assert model.diagnostics_.information.shape == (200, 2)
    assert len(str(model.summary())) < 10_000
    assert len(model.tidy().filter(regex="information_t").columns) == 200
