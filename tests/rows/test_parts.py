"""People in parts: the same fits as in memory, and cut ranks found by counting."""

import multiprocessing
import threading
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unbin
from tests.helpers.people import write_people
from tests.helpers.releases import mean_release, quantile_release, suppressed
from unbin.datasets import simulate
from unbin.exceptions import (
    AggregatedTargetError,
    AlignmentError,
    DomainError,
    ParameterError,
    ReadError,
)
from unbin.matching.spread import Cuts, Line, runs_of, thresholds
from unbin.rows import sources
from unbin.rows.parts import LocalParts
from unbin.rows.survey import Coded, Part, Surveyed, scale_of, survey


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(sources, "_PART_BYTES", 1)
    monkeypatch.setattr(sources, "_FEWEST_ROWS", 500)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("method", ["likelihood", "matching"])
@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial"])
def test_files_give_the_fit_of_arrays(tmp_path, family, method):
    sim = simulate(4000, 3, 50, family=family, between=0.3, n_trials=5, random_state=0)
    X, y, county, names = write_people(tmp_path, sim)
    release = unbin.aggregate(y, county, 6)
    settings = {"n_trials": 5, "random_state": 0, "tol": 1e-7}
    arrays = unbin.AggregatedGLM(family, method, **settings).fit(X, release.align(county))
    files = unbin.AggregatedGLM(family, method, **settings).fit(
        f"{tmp_path}/*.parquet", release, block="county", features=names
    )
    np.testing.assert_allclose(files.coef_, arrays.coef_, rtol=0, atol=1e-10)
    assert files.intercept_ == pytest.approx(arrays.intercept_, abs=1e-10)
    assert files.dispersion_ == pytest.approx(arrays.dispersion_, abs=1e-8)
    assert list(files.feature_names_in_) == names
    assert files.status_ is arrays.status_
    assert files.n_people_ == 4000
    if method == "likelihood":
        np.testing.assert_allclose(files.standard_errors_, arrays.standard_errors_, rtol=1e-8)
        assert files.diagnostics_.reason == arrays.diagnostics_.reason
    frame = {name: X[:, j] for j, name in enumerate(names)}
    np.testing.assert_allclose(files.predict(pd.DataFrame(frame)), arrays.predict(X), atol=1e-9)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
@pytest.mark.parametrize(
    "settings",
    [
        {"family": "ordinal"},
        {"contextual": True},
        {"alpha": "held-out"},
        {"alpha": "auto"},
        {"fit_intercept": False, "robust": False},
        {"robust": True},
        {"family": "auto"},
    ],
)
def test_every_option_works_in_parts(tmp_path, settings):
    sim = simulate(3000, 2, 60, between=0.3, random_state=3)
    offset = np.random.default_rng(0).normal(size=3000)
    X, y, county, names = write_people(tmp_path, sim, offset=offset)
    exposure = pq.read_table(tmp_path).column("exposure").to_numpy()
    release = unbin.aggregate(y, county, 5)
    arrays = unbin.AggregatedGLM(**settings, random_state=0).fit(
        X, release.align(county), offset=exposure
    )
    files = unbin.AggregatedGLM(**settings, random_state=0).fit(
        tmp_path, release, block="county", features=names, offset="exposure"
    )
    np.testing.assert_allclose(files.coef_, arrays.coef_, rtol=0, atol=1e-9)
    assert files.family_ == arrays.family_
    assert files.alpha_ == pytest.approx(arrays.alpha_)
    if settings.get("contextual"):
        np.testing.assert_allclose(files.contextual_coef_, arrays.contextual_coef_, atol=1e-8)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("kind", ["list", "suppressed", "means"])
def test_every_statistic_works_in_parts(tmp_path, kind):
    sim = simulate(2000, 2, 40, between=0.3, noise=0.3, random_state=4)
    X, y, county, names = write_people(tmp_path, sim)
    method = "likelihood" if kind == "means" else "matching"
    if kind == "list":
        release = unbin.Release.from_values({"block": county, "value": y})
    elif kind == "means":
        release = mean_release(y, county)
    else:
        release = suppressed(unbin.aggregate(y, county, 5))
    arrays = unbin.AggregatedGLM(method=method, random_state=0, tol=1e-7)
    files = unbin.AggregatedGLM(method=method, random_state=0, tol=1e-7)
    arrays.fit(X, release.align(county))
    files.fit(tmp_path, release, block="county", features=names)
    np.testing.assert_allclose(files.coef_, arrays.coef_, rtol=0, atol=1e-9)


def test_files_sorted_by_block_keep_whole_blocks(tmp_path):
    sim = simulate(2000, 2, 20, between=0.3, random_state=5)
    codes = np.asarray(sim.blocks).astype(str)
    order = np.argsort(codes, kind="stable")
    cut = np.flatnonzero(np.diff(np.unique(codes[order], return_inverse=True)[1]))[9] + 1
    for k, rows in enumerate((order[:cut], order[cut:])):
        table = pa.table({"a": sim.X[rows, 0], "b": sim.X[rows, 1], "county": codes[rows]})
        pq.write_table(table, tmp_path / f"{k}.parquet")
    release = quantile_release(sim.y, codes, (0.25, 0.5, 0.75))
    arrays = unbin.AggregatedGLM().fit(sim.X, release.align(codes))
    files = unbin.AggregatedGLM().fit(tmp_path, release, block="county", features=["a", "b"])
    np.testing.assert_allclose(files.coef_, arrays.coef_, atol=1e-9)


@pytest.mark.usefixtures("small_parts")
def test_order_statistics_do_not_need_whole_blocks(tmp_path):
    sim = simulate(2000, 2, 20, between=0.3, random_state=5)
    X, y, county, names = write_people(tmp_path, sim)
    release = quantile_release(y, county, (0.25, 0.5, 0.75))
    arrays = unbin.AggregatedGLM().fit(X, release.align(county))
    files = unbin.AggregatedGLM().fit(tmp_path, release, block="county", features=names)
    np.testing.assert_allclose(files.coef_, arrays.coef_, atol=1e-9)
    np.testing.assert_allclose(files.standard_errors_, arrays.standard_errors_, rtol=1e-8)


@pytest.mark.parametrize("most", [1, 7, 100, 250, 10_000])
def test_row_groups_are_gathered_and_cut(tmp_path, most):
    values = np.arange(1000.0)
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"x": values, "b": ["a"] * 1000}), path, row_group_size=130)
    parts = list(sources._gather(str(path), pq.ParquetFile(path).metadata, most))
    read = [sources.read_part(part, sources.Columns(("x",), "b", None)) for part in parts]
    np.testing.assert_array_equal(np.concatenate([part.columns[0] for part in read]), values)
    assert max(len(part.coded.codes) for part in read) <= max(most, 1)


# -- cut ranks -----------------------------------------------------------------------------------


def brute_force_runs(eta, key, codes, part, cuts):
    """Rank everybody of a block, equal people by their part."""
    order = np.lexsort((np.arange(len(eta)), part, key, eta, codes))
    rank = np.empty(len(eta), int)
    size = np.bincount(codes)
    rank[order] = np.concatenate([np.arange(n) for n in size])
    return np.array(
        [
            (cuts.rank[cuts.start[c] : cuts.start[c + 1]] <= r).sum()
            for c, r in zip(codes, rank, strict=True)
        ]
    )


@pytest.mark.parametrize("seed", range(8))
def test_runs_over_parts_equal_ranks_of_all(seed):
    rng = np.random.default_rng(seed)
    n, n_blocks, n_parts = 600, 7, 4
    codes = np.concatenate([np.arange(n_blocks), rng.integers(0, n_blocks, n - n_blocks)])
    eta = rng.normal(size=n)
    if seed % 2:
        eta = np.round(eta, 1)  # ties
    key = rng.integers(0, 4 if seed % 4 == 3 else 2**63, n).astype(np.uint64)
    part = rng.integers(0, n_parts, n)
    size = np.bincount(codes)
    ranks = [np.unique(rng.integers(1, max(m, 2), 5)) for m in size]
    cuts = Cuts(np.concatenate([[0], np.cumsum([len(r) for r in ranks])]), np.concatenate(ranks))
    lines, rows = [], []
    for p in range(n_parts):
        mine = np.flatnonzero(part == p)
        mine = mine[np.argsort(codes[mine], kind="stable")]
        blocks, count = np.unique(codes[mine], return_counts=True)
        start = np.concatenate([[0], np.cumsum(count)])
        lines.append(Line(eta[mine], key[mine], blocks, start))
        rows.append(mine)
    found, below = thresholds(LocalParts(lines, 2), cuts)
    run_start = cuts.start + np.arange(n_blocks + 1)
    got = np.empty(n, int)
    for p, mine in enumerate(rows):
        got[mine] = runs_of(lines[p], found, run_start, below[p]) - run_start[codes[mine]]
    # equal people of one part lie block by block in the order of their rows
    expected = brute_force_runs(eta, key, codes, part, cuts)
    np.testing.assert_array_equal(got, expected)


def test_all_values_equal_are_shared_out():
    lines = [Line(np.zeros(5), np.ones(5, np.uint64), np.array([0]), np.array([0, 5]))] * 2
    cuts = Cuts(np.array([0, 2]), np.array([3, 7]))
    found, below = thresholds(LocalParts(lines), cuts)
    runs = [runs_of(line, found, np.array([0, 3]), below[p]) for p, line in enumerate(lines)]
    assert sorted(np.concatenate(runs)) == [0] * 3 + [1] * 4 + [2] * 3


# -- surveys -------------------------------------------------------------------------------------


def make_part(rng, n, shift):
    names = np.array(["a", "b", "c", "d"])[: rng.integers(2, 5)]
    codes = np.concatenate([np.arange(len(names)), rng.integers(0, len(names), n - len(names))])
    X = rng.normal(size=(n, 3)) * [1, 1e-3, 0] + [shift, 1e6, 7]
    return Part(tuple(X.T), Coded(names, codes), None)


def test_surveys_add_up():
    rng = np.random.default_rng(0)
    read = [make_part(rng, n, shift) for n, shift in ((30, 0), (500, 3), (7, -50))]
    people = Surveyed.of(LocalParts(read))
    X = np.concatenate([np.column_stack(part.columns) for part in read])
    ids = np.concatenate([part.coded.blocks[part.coded.codes] for part in read])
    whole = people.whole
    np.testing.assert_array_equal(whole.blocks, np.unique(ids))
    np.testing.assert_array_equal(whole.rows, np.unique(ids, return_counts=True)[1])
    np.testing.assert_allclose(whole.mean, X.mean(axis=0), rtol=1e-14)
    exact = (X - X.mean(axis=0)).astype(np.longdouble)
    square = (exact**2).sum(axis=0) - exact.sum(axis=0) ** 2 / len(X)
    np.testing.assert_allclose(whole.square[:2], square[:2].astype(float), rtol=1e-8)
    scale = scale_of(whole, fit_intercept=True, seed=0)
    np.testing.assert_array_equal(scale.varies, [True, True, False])
    context = whole.context()
    means = np.array([X[ids == name].mean(axis=0) for name in whole.blocks])
    np.testing.assert_allclose(context.means, means, rtol=1e-12)
    np.testing.assert_array_equal(context.used, [True, True, False])


def test_a_survey_is_the_same_in_any_order():
    rng = np.random.default_rng(1)
    one, two = (survey(make_part(rng, n, 1.0)) for n in (40, 60))
    np.testing.assert_allclose((one + two).mean, (two + one).mean, rtol=1e-14)
    np.testing.assert_array_equal((one + two).rows, (two + one).rows)


# -- threads -------------------------------------------------------------------------------------


def _rough(part):
    time.sleep(0.002 * (part % 3))  # so that parts do not end in order
    return np.array([0.1, 1e16 * (-1) ** part, 1.0 / (1 + part)]), float(part)


@pytest.mark.parametrize("n_threads", [2, 3, 8])
def test_sums_are_the_same_for_any_number_of_threads(n_threads):
    alone, together = (LocalParts(range(25), n).total(_rough) for n in (1, n_threads))
    np.testing.assert_array_equal(alone[0], together[0])
    assert alone[1] == together[1] == 300.0
    each = list(range(25))
    assert list(LocalParts(each, n_threads).stream(np.multiply, each=each)) == [k * k for k in each]


def _failing(part):
    if part in (3, 7):
        raise ValueError(f"part {part}")
    time.sleep(0.002 if part < 3 else 0.0)
    return part


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_the_first_part_that_fails_is_named_and_the_threads_go_on_working(n_threads):
    parts = LocalParts(range(40), n_threads)
    for _ in range(10):
        with pytest.raises(ValueError, match="part 3"):
            parts.total(_failing)
        with pytest.raises(ValueError, match="part 3"):
            list(parts.stream(_failing))
    assert parts.total(abs) == sum(range(40))


def test_few_results_wait_for_a_slow_part():
    release, begun = threading.Event(), []

    def slow(part):
        begun.append(part)
        if part == 0:
            release.wait(10)
        return part

    parts = LocalParts(range(1000), 2)
    waiter = threading.Thread(target=parts.total, args=(slow,))
    waiter.start()
    time.sleep(0.2)
    ahead = len(begun)
    release.set()
    waiter.join()
    assert ahead <= 6
    assert len(begun) == 1000


def test_another_sum_can_be_made_while_one_is_streamed():
    """Threads that are too far ahead leave, and do not keep others from working."""
    parts = LocalParts(range(40), 2)
    found = [(k, parts.total(float)) for k in parts.stream(int)]
    assert found == [(k, 780.0) for k in range(40)]


def test_a_sum_within_a_part_waits_for_nobody():
    inner = LocalParts(range(5), 2)
    assert LocalParts([inner] * 9, 2).total(_summed) == 9 * 10
    left = LocalParts(range(30), 2).stream(abs)
    next(left)  # a stream that is not read to its end keeps nobody from working
    assert inner.total(abs) == 10


def _summed(parts):
    return parts.total(abs)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_its_own_threads():
    parts = LocalParts(range(6), 2)
    assert parts.total(abs) == 15
    context = multiprocessing.get_context("fork")
    child = context.Process(target=_summed, args=(parts,))
    child.start()
    child.join(30)
    assert child.exitcode == 0


# -- what can go wrong ---------------------------------------------------------------------------


@pytest.fixture
def people(tmp_path):
    sim = simulate(400, 2, 10, between=0.3, random_state=0)
    _, y, county, names = write_people(tmp_path, sim, n_files=1)
    return tmp_path, unbin.aggregate(y, county, 4), names


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"block": None}, ParameterError, "block: must name"),
        ({"features": None}, ParameterError, "features: must list"),
        ({"features": "x0"}, ParameterError, "features: must list"),
        ({"features": ["x0", "age"]}, ReadError, "must have the column 'age'"),
        ({"features": ["x0", "county"]}, ReadError, "column 'county': must hold numbers"),
        ({"X": "nowhere/*.parquet"}, ReadError, "must name Parquet files"),
        ({"X": "nowhere.parquet"}, ReadError, "must be a Parquet file"),
        ({"y": np.zeros(400)}, AggregatedTargetError, "must be a release"),
    ],
)
def test_bad_sources_are_named(people, changes, error, words):
    path, release, names = people
    call = {"X": path, "y": release, "block": "county", "features": names} | changes
    with pytest.raises(error, match=words):
        unbin.AggregatedGLM().fit(call.pop("X"), call.pop("y"), **call)


def test_bad_values_name_file_and_column(people):
    path, release, names = people
    table = pq.read_table(path / "p0.parquet")
    bad = table.set_column(0, "x0", pa.array([np.nan] * len(table)))
    pq.write_table(bad, path / "p0.parquet")
    with pytest.raises(DomainError, match=r"p0\.parquet, column 'x0': must be finite"):
        unbin.AggregatedGLM().fit(path, release, block="county", features=names)
    empty = table.set_column(2, "county", pa.array([None] * len(table), pa.string()))
    pq.write_table(empty, path / "p0.parquet")
    with pytest.raises(AlignmentError, match="must name the block of each row"):
        unbin.AggregatedGLM().fit(path, release, block="county", features=names)


def test_arrays_do_not_take_names_of_columns():
    sim = simulate(400, 2, 10, random_state=0)
    target = unbin.aggregate(sim.y, sim.blocks, 4).align(sim.blocks)
    with pytest.raises(ParameterError, match="name columns of files"):
        unbin.AggregatedGLM().fit(sim.X, target, block="county")
    with pytest.raises(ParameterError, match="takes Parquet files"):
        unbin.AggregatedGLM(engine="dask").fit(sim.X, target)
    with pytest.raises(ParameterError, match="engine"):
        unbin.AggregatedGLM(engine="spark").fit(sim.X, target)


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_a_model_of_files_imputes_nothing_and_can_be_saved(people, tmp_path):
    path, release, names = people
    model = unbin.AggregatedGLM().fit(path, release, block="county", features=names)
    with pytest.raises(AggregatedTargetError, match="people who are not in memory"):
        model.impute()
    unbin.save(model, tmp_path / "model.json")
    loaded = unbin.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    assert "county" not in (tmp_path / "model.json").read_text()
