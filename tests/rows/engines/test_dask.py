"""The Dask engine: the same coefficients, whatever happens to the workers."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import unbin
from tests.helpers.clusters import start_cluster
from tests.helpers.people import write_people
from unbin._watching import watching
from unbin.datasets import simulate
from unbin.exceptions import EngineError
from unbin.rows import sources
from unbin.rows.engines import dask as engine

distributed = pytest.importorskip("distributed", reason="needs unbin[dask]")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own, when workers die


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(engine, "_LARGEST_PART", 1)
    monkeypatch.setattr(sources, "_FEWEST_ROWS", 500)


@pytest.fixture
def people(tmp_path):
    sim = simulate(4000, 3, 50, between=0.3, random_state=0)
    X, y, county, names = write_people(tmp_path, sim)
    return tmp_path, X, unbin.aggregate(y, county, 6), county, names


@pytest.mark.parametrize("method", ["likelihood", "matching"])
@pytest.mark.parametrize("source", ["files", "frame", "array"])
def test_a_cluster_gives_the_fit_of_arrays(client, people, method, source):
    path, X, release, county, names = people
    settings = {"method": method, "random_state": 0, "tol": 1e-7}
    alone = unbin.AggregatedGLM(**settings).fit(X, release.align(county))
    model = unbin.AggregatedGLM(**settings, engine="dask", client=client)
    if source == "files":
        model.fit(f"{path}/*.parquet", release, block="county", features=names)
    elif source == "frame":
        frame = pytest.importorskip("dask.dataframe").read_parquet(path)
        model.fit(frame, release, block="county", features=names)
    else:
        array = pytest.importorskip("dask.array")
        model.fit(
            array.from_array(X, chunks=(700, 2)),
            release,
            block=array.from_array(county, chunks=900),
            features=names,
        )
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=0, atol=1e-10)
    assert model.intercept_ == pytest.approx(alone.intercept_, abs=1e-10)
    assert list(model.feature_names_in_) == names
    if method == "likelihood":
        np.testing.assert_allclose(model.standard_errors_, alone.standard_errors_, rtol=1e-8)


def test_sums_are_added_in_the_same_order_on_any_cluster(client):
    parts = engine.DaskParts(client, client.map(float, [0.1 * 3**k for k in range(23)]))
    assert parts.total(_half) == parts.total(_half)
    assert list(parts.stream(_half)) == [0.05 * 3**k for k in range(23)]
    kept = parts.keep(_half)
    assert parts.total(_plus, each=kept) == pytest.approx(sum(0.15 * 3**k for k in range(23)))


def _half(part):
    return part / 2


def _plus(part, other):
    return part + other


def test_parts_too_large_for_the_workers_are_made_again_at_each_pass(client):
    recipe = engine.Recipe(((float, (1,)),))
    parts = engine.DaskParts(client, [recipe, recipe])
    assert parts.settled(2**60).parts[0] is recipe
    assert isinstance(parts.settled(1).parts[0], distributed.Future)


def test_errors_on_workers_reach_the_user(client, people):
    path, _, release, _, names = people
    model = unbin.AggregatedGLM(engine="dask", client=client)
    with pytest.raises(unbin.exceptions.ReadError, match="must have the column 'age'"):
        model.fit(path, release, block="county", features=[*names, "age"])
    with pytest.raises(unbin.exceptions.ReadError, match="'county': must hold numbers"):
        model.fit(path, release, block="county", features=[*names, "county"])


@pytest.mark.parametrize("bad", ["tcp://127.0.0.1:1", 7])
def test_a_client_that_is_none(people, bad, monkeypatch):
    path, _, release, _, names = people
    monkeypatch.setattr(engine, "_CONNECT", 1)
    with pytest.raises(EngineError, match="client: "):
        unbin.AggregatedGLM(engine="dask", client=bad).fit(
            path, release, block="county", features=names
        )


@pytest.mark.parametrize("method", ["likelihood", "matching"])
def test_workers_may_die_during_a_fit(people, method):
    """Two workers, one of which is killed at every other step; benchmarks/faults.py kills more."""
    path, _, release, _, names = people
    call = {"block": "county", "features": names}
    settings = {"method": method, "random_state": 0, "engine": "dask"}
    kills = []
    with engine.open_client(None) as client:
        alone = unbin.AggregatedGLM(**settings, client=client).fit(path, release, **call)

        def kill(step):
            if step.iteration % 2 == 1 and len(kills) < 3:
                pids = client.run(os.getpid)
                kills.append(min(pids.values()))
                os.kill(kills[-1], signal.SIGKILL)
            return False

        with watching(kill):
            model = unbin.AggregatedGLM(**settings, client=client).fit(path, release, **call)
    assert kills
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-12, atol=0)


def test_without_workers_a_fit_gives_up_and_names_its_checkpoint(people, monkeypatch):
    path, _, release, _, names = people
    monkeypatch.setattr(engine, "_PATIENCE", 3.0)
    checkpoint = path / "fit.checkpoint"
    with start_cluster(1) as cluster, distributed.Client(cluster) as client:
        model = unbin.AggregatedGLM(
            engine="dask", client=client, method="matching", checkpoint=checkpoint, random_state=0
        )

        def stop_workers(step):
            if step.iteration == 2:
                cluster.scale(0)
            return False

        began = time.monotonic()
        with (
            watching(stop_workers),
            pytest.raises(EngineError, match=r"no worker has answered.*fit\.checkpoint"),
        ):
            model.fit(path, release, block="county", features=names)
    assert time.monotonic() - began < 60
    assert checkpoint.exists()
    resumed = unbin.AggregatedGLM(method="matching", checkpoint=checkpoint, random_state=0)
    resumed.fit(path, release, block="county", features=names)
    assert resumed.status_.converged
    assert not checkpoint.exists()


def test_a_cluster_of_its_own_is_stopped_again(people):
    path, _, release, _, names = people
    before = threading.active_count()
    model = unbin.AggregatedGLM(engine="dask").fit(path, release, block="county", features=names)
    assert model.status_.converged
    assert threading.active_count() <= before + 20
