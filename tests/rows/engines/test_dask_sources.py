"""People on a cluster, however they are cut: sorted or not, ids of any kind, empty partitions."""

import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.clusters import start_cluster
from tests.helpers.people import draw_people
from tests.helpers.releases import quantile_release
from unbin import AggregatedGLM
from unbin._watching import watching
from unbin.exceptions import EngineError, ReadError
from unbin.rows.engines.dask import DaskParts

distributed = pytest.importorskip("distributed", reason="needs unbin[dask]")
dataframe = pytest.importorskip("dask.dataframe")
array = pytest.importorskip("dask.array")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own, when a cluster closes

N, B, PARTS = 2000, 40, 4  # 10 whole blocks in each part
RNG = np.random.default_rng(0)
CODES = np.repeat(np.arange(B), N // B)
X, Y = draw_people(RNG, CODES)
IDS = {"integer": CODES + 100, "text": np.array([f"k{code:02d}" for code in CODES])}
ORDERS = {"sorted": np.arange(N), "shuffled": RNG.permutation(N)}
NAMES = ["a", "b"]
METHODS = ("likelihood", "matching")
SETTINGS = {"random_state": 0, "tol": 1e-7}


@pytest.fixture(scope="module")
def arrays():
    """Return the fits of people in memory, by method and kind of id."""
    return {
        (method, ids): AggregatedGLM(method=method, **SETTINGS).fit(X, release(ids).align(IDS[ids]))
        for method in METHODS
        for ids in IDS
    }


def release(ids):
    return unbin.aggregate(Y, IDS[ids], bins=5)


def frame(ids, order):
    return pd.DataFrame(X, columns=NAMES).assign(county=IDS[ids]).iloc[ORDERS[order]]


def people(tmp_path, kind, ids, order, *, empty):
    """Return X of a fit, and the arguments beside it."""
    table = frame(ids, order).reset_index(drop=True)
    if kind == "array":
        held = [len(part) for part in np.array_split(np.arange(N), PARTS)]
        chunks = (held[0], 0, *held[1:], 0) if empty else tuple(held)
        block = array.from_array(table["county"].to_numpy().astype(IDS[ids].dtype), (chunks,))
        return array.from_array(table[NAMES].to_numpy(), (chunks, (2,))), {"block": block}
    if kind == "frame":
        cut = dataframe.from_pandas(table, npartitions=PARTS, sort=False)
        if empty:
            none = cut[cut["a"] > 1e9]
            cut = dataframe.concat([none, cut, none])
        return cut, {"block": "county", "features": NAMES}
    for k, rows in enumerate(np.array_split(np.arange(N), PARTS)):
        table.iloc[rows].to_parquet(tmp_path / f"{k}.parquet")
    if empty:
        table.iloc[:0].to_parquet(tmp_path / "9.parquet")
    return tmp_path, {"block": "county", "features": NAMES}


@pytest.mark.parametrize(
    ("order", "empty"), [("sorted", False), ("shuffled", False), ("sorted", True)]
)
@pytest.mark.parametrize("ids", list(IDS))
@pytest.mark.parametrize("kind", ["files", "frame", "array"])
def test_however_people_are_cut_the_fit_is_that_of_arrays(
    client, arrays, tmp_path, kind, ids, order, empty
):
    source, told = people(tmp_path, kind, ids, order, empty=empty)
    for method in METHODS:
        model = AggregatedGLM(method=method, **SETTINGS, engine="dask", client=client)
        model.fit(source, release(ids), **told)
        np.testing.assert_allclose(model.coef_, arrays[method, ids].coef_, rtol=0, atol=1e-9)


def test_workers_that_are_processes_are_told_nothing_of_the_client(arrays, tmp_path):
    source, told = people(tmp_path, "frame", "text", "sorted", empty=True)
    with start_cluster(processes=True) as found, distributed.Client(found) as opened:
        model = AggregatedGLM(**SETTINGS, engine="dask", client=opened)
        model.fit(source, release("text"), **told)
    np.testing.assert_allclose(model.coef_, arrays["likelihood", "text"].coef_, rtol=0, atol=1e-9)


@pytest.mark.parametrize("family", ["ordinal", "poisson"])
def test_other_families_of_sorted_people(client, tmp_path, family):
    y = np.rint(np.exp(0.5 * Y))
    table = unbin.aggregate(y, IDS["text"], bins=5)
    source, told = people(tmp_path, "frame", "text", "sorted", empty=False)
    alone = AggregatedGLM(family).fit(X, table.align(IDS["text"]))
    model = AggregatedGLM(family, engine="dask", client=client).fit(source, table, **told)
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=0, atol=1e-7)


def test_medians_of_sorted_people(client, tmp_path):
    table = quantile_release(Y, IDS["text"])
    source, told = people(tmp_path, "frame", "text", "sorted", empty=False)
    alone = AggregatedGLM().fit(X, table.align(IDS["text"]))
    model = AggregatedGLM(engine="dask", client=client).fit(source, table, **told)
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=0, atol=1e-7)


def test_a_frame_of_nobody(client):
    none = dataframe.from_pandas(frame("text", "sorted").iloc[:0], npartitions=1)
    with pytest.raises(ReadError, match="X: must hold people, got none; check the table"):
        AggregatedGLM(engine="dask", client=client).fit(
            none, release("text"), block="county", features=NAMES
        )


@pytest.mark.parametrize("method", ["likelihood", "matching"])
@pytest.mark.parametrize("what", ["client", "cluster"])
def test_a_cluster_that_is_closed_during_a_fit(tmp_path, what, method):
    source, told = people(tmp_path, "frame", "text", "shuffled", empty=False)
    checkpoint = tmp_path / "fit.checkpoint"
    with start_cluster() as machines, distributed.Client(machines) as opened:
        ends = {"client": opened.close, "cluster": machines.close}

        def end(step):
            if step.iteration == 1:
                ends[what]()
            return False

        model = AggregatedGLM(
            method=method, engine="dask", client=opened, random_state=0, checkpoint=checkpoint
        )
        with (
            watching(end),
            pytest.raises(EngineError, match=r"the cluster was closed, or .*fit\.checkpoint"),
        ):
            model.fit(source, release("text"), **told)


def test_parts_that_were_cancelled(client):
    parts = DaskParts(client, client.map(float, range(3)), "here.checkpoint")
    client.cancel(parts.parts, force=True)
    with pytest.raises(EngineError, match=r"its work cancelled, during the fit.*here\.checkpoint"):
        parts.total(abs)


def test_a_client_that_is_closed_already(tmp_path):
    source, told = people(tmp_path, "frame", "text", "shuffled", empty=False)
    with start_cluster() as machines:
        opened = distributed.Client(machines)
        opened.close()
        with pytest.raises(EngineError, match="client: must be connected to a scheduler, got one"):
            AggregatedGLM(engine="dask", client=opened).fit(source, release("text"), **told)
