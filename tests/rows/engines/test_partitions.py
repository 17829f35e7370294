"""The same people cut in several ways: rows know their blocks in every table, wherever they are."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unbin
from unbin import AggregatedGLM
from unbin._frames import OUTSIDE, as_text
from unbin.exceptions import AlignmentError, BlockError, ParameterError
from unbin.fitting.placement import Given, place
from unbin.release.join import Tables
from unbin.rows import sources
from unbin.rows.design import BlockSums
from unbin.rows.engines import Layout, Options, open_engine

dataframe = pytest.importorskip("dask.dataframe", reason="needs unbin[dask]")
array = pytest.importorskip("dask.array")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own, when a cluster closes

N = 3000
FEATURES = ["x", "z"]
TABLES = ("county", "payer", ("age", "sex"))


@pytest.fixture(scope="module")
def frame():
    """Return people, some of whom have no payer or no sex, in random order."""
    rng = np.random.default_rng(0)
    payer = rng.choice(["a", "b", "c"], N).astype(object)
    sex = rng.choice(["f", "m"], N).astype(object)
    payer[rng.random(N) < 0.2] = None
    sex[rng.random(N) < 0.1] = None
    county = rng.integers(0, 40, N)
    x = rng.normal(5, 2, N) + rng.normal(0, 3, 40)[county]
    z = rng.normal(size=N) + rng.normal(size=40)[county]
    columns = {
        "x": x,
        "z": z,
        "shift": rng.normal(size=N),
        "county": county,
        "payer": payer,
        "age": rng.choice([40, 50, 60], N),
        "sex": sex,
        "y": 0.5 * x - z + rng.normal(size=N),
    }
    return pd.DataFrame(columns)


@pytest.fixture(scope="module")
def tables(frame):
    """Return a release of every table, of the people it counts."""
    found = {}
    for key in TABLES:
        ids = as_text(frame[key] if isinstance(key, str) else frame[list(key)], where="", outside=1)
        inside = ids != OUTSIDE
        found[key] = unbin.aggregate(frame["y"][inside], ids[inside], bins=4)
    return found


def as_files(frame, folder):
    for k, rows in enumerate(np.array_split(np.arange(N), 4)):
        part = frame.iloc[rows]
        part.assign(payer=part["payer"].astype("category")).to_parquet(
            folder / f"{k}.parquet", row_group_size=400
        )
    return folder


SOURCES = {
    "pandas": ("local", lambda frame, _: frame),
    "pandas-nullable": ("local", lambda frame, _: frame.convert_dtypes()),
    "polars": ("local", lambda frame, _: pl.from_pandas(frame)),
    "files": ("local", as_files),
    "files-dask": ("dask", as_files),
    "dask": ("dask", lambda frame, _: dataframe.from_pandas(frame, npartitions=5, sort=False)),
}


def sums_by_block(rows):
    """Return, per partition, the sums of columns and offset and the number of people by block."""
    own = np.repeat(rows.blocks, np.diff(rows.start))
    values = np.column_stack([rows.matrix, rows.offset, np.ones(len(rows))])
    found = []
    for codes in (own, *rows.others):
        blocks, at = np.unique(codes, return_inverse=True)
        sums = np.zeros((len(blocks), values.shape[1]))
        np.add.at(sums, at, values)
        found.append(BlockSums(blocks, (sums,)))
    return tuple(found)


def placed_sums(source, tables, engine, client=None, **given):
    """Place people; return their design, what was published, and their sums by block."""
    opened = open_engine(engine, Options(n_threads=2, client=client))
    asked = Given(given.pop("offset", None), given.pop("block", None), FEATURES)
    with place(source, tables, asked, engine=opened, family=None, model=AggregatedGLM()) as placed:
        ((people, published),) = placed.targets
        assert list(placed.names) == FEATURES
        design = people.design(Layout(fit_intercept=True))
        return design, published, design.total(sums_by_block)


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(sources, "_PART_BYTES", 1)
    monkeypatch.setattr(sources, "_FEWEST_ROWS", 300)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("source", list(SOURCES))
def test_rows_know_their_blocks_in_every_table(frame, tables, tmp_path, client, source):
    engine, make = SOURCES[source]
    design, published, sums = placed_sums(
        make(frame, tmp_path), tables, engine, client, offset="shift"
    )
    assert isinstance(published, Tables)
    assert published.names == ("county", "payer", "age, sex")
    columns = (frame[FEATURES].to_numpy() - design.center) / design.scale
    values = np.column_stack([columns, frame["shift"], np.ones(N)])
    for key, release, found in zip(TABLES, published.releases, sums, strict=True):
        ids = as_text(frame[key] if isinstance(key, str) else frame[list(key)], where="", outside=1)
        expected = pd.DataFrame(values).groupby(ids).sum()
        np.testing.assert_array_equal(release.blocks[found.blocks], expected.index)
        np.testing.assert_array_equal(release.n, expected[3])
        np.testing.assert_allclose(found.arrays[0], expected, atol=1e-9)
    # nothing is published about those outside
    payers = published.releases[1]
    np.testing.assert_array_equal(payers.blocks, [OUTSIDE, "a", "b", "c"])
    np.testing.assert_array_equal(np.diff(payers.histogram.start), [0, 4, 4, 4])


def test_rows_of_joined_targets_are_those_of_frames(frame, tables):
    _, _, sums = placed_sums(frame, tables, "local")
    targets = []
    for key, release in tables.items():
        ids = frame[key] if isinstance(key, str) else frame[list(key)]
        targets.append(release.align(ids, on_missing="drop"))
    opened = open_engine("local", Options(n_threads=1))
    joined, model = unbin.join(*targets), AggregatedGLM()
    given = Given(None, None, None)
    with place(frame[FEATURES], joined, given, engine=opened, family=None, model=model) as placed:
        ((people, published),) = placed.targets
        found = people.design(Layout(fit_intercept=True)).total(sums_by_block)
    assert published.names == ("county", "payer", "age, sex")
    for mine, other in zip(sums, found, strict=True):
        np.testing.assert_array_equal(mine.blocks, other.blocks)
        np.testing.assert_allclose(mine.arrays[0], other.arrays[0], atol=1e-9)


@pytest.mark.parametrize("first", ["county", ("age", "county")])
@pytest.mark.parametrize("source", list(SOURCES))
def test_a_mapping_of_one_table_is_the_fit_of_one_table(frame, tmp_path, client, source, first):
    engine, make = SOURCES[source]
    ids = frame[first] if isinstance(first, str) else frame[list(first)]
    release = unbin.aggregate(frame["y"], as_text(ids, where=""), bins=4)
    alone = AggregatedGLM().fit(frame[FEATURES], release.align(ids), offset=frame["shift"])
    model = AggregatedGLM(engine=engine, client=client if engine == "dask" else None)
    model.fit(make(frame, tmp_path), {first: release}, features=FEATURES, offset="shift")
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=0, atol=1e-9)
    assert list(model.feature_names_in_) == FEATURES


@pytest.mark.parametrize("source", list(SOURCES))
def test_a_missing_id_beside_no_other_table_is_an_error(frame, tables, tmp_path, client, source):
    engine, make = SOURCES[source]
    with pytest.raises((AlignmentError, BlockError), match=r"empty ones|missing, the first in row"):
        placed_sums(make(frame, tmp_path), {"payer": tables["payer"]}, engine, client)


@pytest.mark.parametrize("source", ["pandas", "files", "dask"])
def test_a_block_that_a_table_does_not_know_is_an_error(frame, tables, tmp_path, client, source):
    engine, make = SOURCES[source]
    strange = frame.assign(payer=np.where(np.arange(N) == 7, "d", frame["payer"]))
    with pytest.raises(AlignmentError, match="block 'd': must be in the release, got 1 block in X"):
        placed_sums(make(strange, tmp_path), tables, engine, client)


def test_a_table_that_counts_nobody_in_x_is_an_error(frame, tables):
    nobody = frame.assign(payer=None)
    with pytest.raises(AlignmentError, match="block 'a': released, but no row of X is in it"):
        placed_sums(nobody, tables, "local")


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param([1, None, 3, 3], id="whole numbers"),
        pytest.param(np.array([1.0, np.nan, 3.0, 3.0]), id="NaN"),
        pytest.param([None, None, None, None], id="nothing"),
        pytest.param([True, None, False, False], id="flags"),
        pytest.param(["a", None, "b", "b"], id="text"),
        pytest.param(pd.to_datetime(["2020-01-01", None, "2021-01-01", "2021-01-01"]), id="dates"),
    ],
)
def test_missing_ids_of_any_kind_in_a_file(tmp_path, ids):
    table = pa.table(
        {"x": np.arange(4.0), "b": ["u", "u", "v", "v"], "c": pa.array(ids, from_pandas=True)}
    )
    pq.write_table(table, tmp_path / "p.parquet")
    columns = sources.Columns(("x",), "b", None, (("c",), ("b", "c")))
    (group,) = sources.find_parts(tmp_path / "p.parquet", columns)
    part = sources.read_part(group, columns)
    one, crossed = (coded.blocks[coded.codes] for coded in part.others)
    held = pq.read_table(tmp_path / "p.parquet").to_pandas()
    np.testing.assert_array_equal(one, as_text(held["c"], where="", outside=True))
    np.testing.assert_array_equal(crossed, as_text(held[["b", "c"]], where="", outside=True))


def test_categories_that_nobody_has_are_no_blocks(tmp_path):
    ids = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2]), pa.array(["b", "nobody", "a"]))
    pq.write_table(pa.table({"x": np.arange(3.0), "b": ids}), tmp_path / "p.parquet")
    columns = sources.Columns(("x",), "b", None)
    (group,) = sources.find_parts(tmp_path / "p.parquet", columns)
    assert list(sources.read_part(group, columns).coded.blocks) == ["a", "b"]


def test_a_dask_array_has_no_columns_to_name(tables, client):
    X = array.from_array(np.zeros((N, 2)), (1000, 2))
    with pytest.raises(ParameterError, match="need files or a frame, got Array"):
        placed_sums(X, tables, "dask", client)
