"""Categories wherever people are: files, frames of a cluster, several parts."""

import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.votes import draw_votes
from unbin.rows import sources

distributed = pytest.importorskip("distributed", reason="needs unbin[dask]")
dataframe = pytest.importorskip("dask.dataframe")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(sources, "_PART_BYTES", 1)
    monkeypatch.setattr(sources, "_FEWEST_ROWS", 500)


@pytest.fixture(scope="module")
def voters():
    people = draw_votes(seed=1, n_blocks=40, size=50, effect_sd=0.3, by_group=True)
    frame = pd.DataFrame({
        "age": people.X[:, 0],
        "member": people.X[:, 1],
        "precinct": people.blocks,
        "class": np.digitize(people.X[:, 0], [-1, 0, 1]).astype(str),
        "vote": people.labels,
    })  # fmt: skip
    return frame.sample(frac=1, random_state=0, ignore_index=True)


def as_files(frame, folder):
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[rows].to_parquet(folder / f"p{k}.parquet", row_group_size=300)
    return folder


@pytest.mark.parametrize(
    ("kind", "settings"),
    [("one", {"random": ["member"], "alpha": 0.01}), ("several", {}), ("two categories", {})],
)
def test_a_fit_is_the_same_wherever_people_are(tmp_path, client, voters, kind, settings):
    vote = voters["vote"].where(voters["vote"] != "c", "b") if kind[0] == "t" else voters["vote"]
    tables = {"precinct": unbin.aggregate(vote, voters["precinct"])}
    if kind == "several":
        tables["class"] = unbin.aggregate(vote, voters["class"])
    features = {"features": ["age", "member"]}
    settings = {"tol": 1e-7, **settings}
    here = unbin.AggregatedClassifier(**settings).fit(voters, tables, **features)
    elsewhere = {
        "files": ("local", as_files(voters, tmp_path)),
        "files on Dask": ("dask", tmp_path),
        "a Dask frame": ("dask", dataframe.from_pandas(voters, npartitions=3, sort=False)),
    }
    if kind == "two categories":  # the binomial family has tests of its own
        del elsewhere["a Dask frame"]
    for where, (engine, source) in elsewhere.items():
        model = unbin.AggregatedClassifier(
            **settings, engine=engine, client=client if engine == "dask" else None
        ).fit(source, tables, **features)
        for name in ("coef_", "intercept_", "standard_errors_", "effect_sd_"):
            np.testing.assert_allclose(
                getattr(model, name), getattr(here, name), atol=1e-7, err_msg=f"{where}: {name}"
            )
        assert list(model.feature_names_in_) == ["age", "member"]
        assert list(model.classes_) == sorted(set(vote))
        people = voters[["age", "member"]]
        assert np.mean(model.predict(people) == here.predict(people)) > 0.999
        if "random" in settings:
            np.testing.assert_allclose(
                model.block_table()["count"], here.block_table()["count"], atol=1e-4
            )
