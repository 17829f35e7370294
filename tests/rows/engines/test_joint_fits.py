"""Fits to several tables agree wherever the people are: in memory, in files, on Dask."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import unbin
from attacks.worlds import draw_outcome
from tests.helpers.releases import mean_release, rounded, suppressed
from unbin import AggregatedGLM
from unbin._frames import OUTSIDE, as_text
from unbin.rows import sources

dataframe = pytest.importorskip("dask.dataframe", reason="needs unbin[dask]")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own, when a cluster closes

N = 2400
FEATURES = ["age", "male", "income"]
BINS = {
    "gaussian": 5,
    "ordinal": 5,
    "poisson": [-np.inf, 0, 1, 3, np.inf],
    "binomial": [-np.inf, 0, np.inf],
}


def draw(family, effects=0.5):
    """People in random order, of counties with effects; a fifth has no payer."""
    rng = np.random.default_rng(7)
    county = rng.integers(0, 40, N)
    sex, payer = rng.integers(0, 2, N), rng.choice(["a", "b", "c"], N).astype(object)
    payer[rng.random(N) < 0.2] = None
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=N),
            "male": sex.astype(float),
            "income": rng.normal(size=N) + 0.7 * rng.normal(size=40)[county],
            "county": county,
            "payer": payer,
            "sex": np.where(sex == 1, "m", "f"),
        }
    )
    frame["group"] = np.digitize(frame["age"], np.arange(-1.5, 2.0, 0.5))
    eta = frame[FEATURES].to_numpy() @ [0.4, 0.6, -0.3] + effects * rng.normal(size=40)[county]
    return frame, draw_outcome(rng, family, eta, spread=1.0, n_trials=1), rng


def published(frame, y, bins, key):
    """A histogram of the people who have an id."""
    ids = as_text(frame[key] if isinstance(key, str) else frame[list(key)], where="", outside=True)
    inside = ids != OUTSIDE
    return unbin.aggregate(y[inside], ids[inside], bins)


def tables_of(kind, frame, y, bins, rng):
    """Tables by county, age group and sex, and payer; the first protected, or of means."""
    county = published(frame, y, bins, "county")
    if kind == "means":
        county = mean_release(y, frame["county"].to_numpy().astype(str))
    elif kind == "noise":
        count = county.histogram.count + rng.normal(0, 2.0, len(county.histogram.count))
        county = replace(county, noise_sd=2.0, histogram=replace(county.histogram, count=count))
    elif kind == "suppressed":
        county = suppressed(county, 1, 9)
    elif kind == "rounded":
        county = rounded(county)
    others = {key: published(frame, y, bins, key) for key in (("group", "sex"), "payer")}
    return {"county": county} | others


def as_files(frame, folder):
    for k, rows in enumerate(np.array_split(np.arange(N), 3)):
        frame.iloc[rows].to_parquet(folder / f"{k}.parquet", row_group_size=500)
    return folder


CASES = [
    ("gaussian", "exact"),
    ("gaussian", "means"),
    ("gaussian", "noise"),
    ("gaussian", "suppressed"),
    ("gaussian", "rounded"),
    ("ordinal", "exact"),
    ("poisson", "exact"),
    ("poisson", "suppressed"),
    ("binomial", "exact"),
]


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(sources, "_PART_BYTES", 1)
    monkeypatch.setattr(sources, "_FEWEST_ROWS", 500)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(("family", "kind"), CASES, ids=["-".join(case) for case in CASES])
def test_a_fit_is_the_same_wherever_people_are(tmp_path, client, family, kind):
    frame, y, rng = draw(family)
    tables = tables_of(kind, frame, y, BINS[family], rng)
    here = AggregatedGLM(family, tol=1e-6).fit(frame, tables, features=FEATURES)
    assert here.status_.converged
    if kind == "exact":
        assert here.tables_[0].block_sd > 0.2
    elsewhere = {
        "files": ("local", as_files(frame, tmp_path)),
        "files on Dask": ("dask", tmp_path),
        "a Dask frame": ("dask", dataframe.from_pandas(frame, npartitions=3, sort=False)),
    }
    for where, (engine, source) in elsewhere.items():
        model = AggregatedGLM(
            family, tol=1e-6, engine=engine, client=client if engine == "dask" else None
        )
        model.fit(source, tables, features=FEATURES)
        assert [t.name for t in model.tables_] == ["county", "group, sex", "payer"], where
        assert model.tables_[2].n_people == here.tables_[2].n_people < N
        for attribute in ("coef_", "intercept_", "standard_errors_", "dispersion_", "block_sd_"):
            np.testing.assert_allclose(
                getattr(model, attribute),
                getattr(here, attribute),
                rtol=1e-8,
                atol=1e-8,
                err_msg=f"{where}: {attribute}",
            )
        np.testing.assert_allclose(
            model.diagnostics_.information, here.diagnostics_.information, atol=1e-8
        )
        sizes = [[t.block_sd for t in m.tables_] for m in (model, here)]
        np.testing.assert_allclose(*sizes, atol=1e-8)


@pytest.mark.parametrize(
    ("setting", "engine"), [({"alpha": "held-out"}, "local"), ({"contextual": "county"}, "dask")]
)
def test_what_is_chosen_is_the_same_wherever_people_are(tmp_path, client, setting, engine):
    frame, y, rng = draw("gaussian", effects=0.0)
    tables = tables_of("exact", frame, y, 5, rng)
    tables = dict(reversed(tables.items()))  # the table named is not the first
    here = AggregatedGLM(**setting).fit(frame, tables, features=FEATURES)
    model = AggregatedGLM(**setting, engine=engine, client=client)
    model.fit(as_files(frame, tmp_path), tables, features=FEATURES)
    np.testing.assert_allclose(model.coef_, here.coef_, rtol=1e-8)
    assert model.alpha_ == pytest.approx(here.alpha_)
    if here.contextual_coef_ is not None:
        assert model.tables_[0].name == here.tables_[0].name == "county"
        np.testing.assert_allclose(model.contextual_coef_, here.contextual_coef_, rtol=1e-8)
