"""Counties lie in states: errors, effects and tests by cluster, through every door."""

import warnings

import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.clusters import start_cluster
from tests.helpers.states import SLOPES, states
from unbin.exceptions import (
    AlignmentError,
    BlockError,
    ParameterError,
    ReadError,
    SpecificationWarning,
)
from unbin.likelihood.solve import effects as effects_of

COUNTED = [-0.5, 0.5, 1.5, 2.5, 4.5, 8.5, 1e9]


def fit(people, cluster=None, family="gaussian", bins=7, **settings):
    settings = {"alpha": 0.0, "random_state": 0} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpecificationWarning)
        return unbin.AggregatedGLM(family, **settings).fit(
            people.X, people.target(bins), cluster=cluster
        )


def figures(model):
    return np.concatenate([model.coef_, model.standard_errors_, [model.block_sd_]])


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sd", "off"), [(0.0, 0.15), (0.4, 0.3)])
def test_errors_are_those_of_leaving_out_one_cluster_at_a_time(sd, off):
    people = states(3, n=16, counties=10, sd=sd)
    model = fit(people, people.state)
    left_out = []
    for state in np.unique(people.state):
        rest = people.state != state
        release = unbin.aggregate(people.y, people.county, 7).select(np.unique(people.county[rest]))
        part = unbin.AggregatedGLM(alpha=0.0, random_state=0)
        part.fit(people.X[rest], release.align(people.county[rest]), cluster=people.state[rest])
        left_out.append(part.coef_)
    away = np.array(left_out) - np.mean(left_out, axis=0)
    jackknife = np.sqrt((15 / 16) * (away**2).sum(axis=0))
    np.testing.assert_allclose(model.standard_errors_, jackknife, rtol=off)


def test_clusters_that_are_the_blocks_change_nothing():
    people = states(1)
    np.testing.assert_allclose(
        figures(fit(people, people.county)), figures(fit(people)), rtol=1e-12
    )


def test_intervals_hold_by_state_and_not_by_county():
    held = {"county": [], "state": []}
    for seed in range(25):
        people = states(seed, sd=0.4)
        for how, cluster in (("county", None), ("state", people.state)):
            low, high = fit(people, cluster).conf_int().T
            held[how].append((low < SLOPES) & (high > SLOPES))
    assert np.mean(held["county"]) < 0.8
    assert np.mean(held["state"]) > 0.88


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_effects_of_states_make_slopes_more_precise(family, monkeypatch):
    bins = COUNTED if family == "poisson" else 7

    def rmse():
        found = []
        for seed in range(8):
            people = states(seed, sd=0.5, family=family)
            model = fit(people, people.state, family, bins)
            found.append(model.coef_ - SLOPES)
        return np.sqrt(np.mean(np.square(found))), model

    with_effects, model = rmse()
    assert 0.3 < model.clusters_[0].sd < 0.8
    monkeypatch.setattr(effects_of, "_candidates", lambda _: ())
    without, model = rmse()
    assert model.clusters_[0].sd == 0
    assert with_effects < 0.7 * without


def test_states_without_effects_have_none_and_errors_hardly_differ():
    wider, found = [], 0
    for seed in range(10):
        people = states(seed, n=40)
        by_state, by_county = fit(people, people.state), fit(people)
        found += by_state.clusters_[0].sd > 0
        wider.append(by_state.standard_errors_ / by_county.standard_errors_)
    assert found <= 1
    assert np.median(wider) == pytest.approx(1, abs=0.06)


def test_few_clusters_say_what_intervals_are_worth():
    people = states(2, n=6, counties=20)
    model = fit(people, people.state)
    assert model._fits[0].df_residual == 5
    assert any("6 clusters are few" in each for each in model.diagnostics_.warnings)
    people = states(2, n=3, counties=30)
    model = fit(people, people.state)
    assert any("3 clusters are too few" in each for each in model.diagnostics_.warnings)


def test_nested_levels_have_effects_of_their_own_and_errors_by_the_largest():
    people = states(0, n=40, sd=0.4)
    region = np.array([f"r{int(each) // 4:02d}" for each in people.state])
    model = fit(people, {"region": region, "state": people.state})
    assert [each.name for each in model.clusters_] == ["region", "state"]
    assert [each.n_clusters for each in model.clusters_] == [len(np.unique(region)), 40]
    assert model.clusters_[1].sd > 0.2
    assert "clusters (region, CR3)" in str(model.summary())


# -- tests -----------------------------------------------------------------------------------------


def test_the_test_of_context_is_an_f_test_with_clusters():
    people = states(0, sd=0.4)
    context = fit(people, people.state).diagnostics_.context
    assert context.df_residual == 20 - 3 - context.df
    assert np.isinf(fit(people).diagnostics_.context.df_residual)


def test_blocks_that_belong_together_are_told():
    people = states(0, sd=0.5)
    with pytest.warns(SpecificationWarning, match=r"cluster=blocks\.str\[:2\]"):
        model = unbin.AggregatedGLM(alpha=0.0).fit(people.X, people.target())
    assert not model.diagnostics_.trusted
    assert fit(people, people.state).diagnostics_.trusted
    assert fit(states(0)).diagnostics_.trusted


# -- doors -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def people():
    return states(5, n=12, people=20, sd=0.4)


@pytest.fixture(scope="module")
def frame(people):
    sex = np.random.default_rng(0).choice(["f", "m"], len(people.y))
    columns = {"a": people.X[:, 0], "b": people.X[:, 1]}
    return pd.DataFrame(columns | {"county": people.county, "state": people.state, "sex": sex})


def model_of(engine="local", client=None):
    return unbin.AggregatedGLM(alpha=0.0, random_state=0, engine=engine, client=client)


@pytest.mark.filterwarnings("ignore::unbin.exceptions.SpecificationWarning")
@pytest.mark.parametrize("several", [False, True])
def test_arrays_frames_files_and_formulas_agree(people, frame, several, tmp_path):
    tables = {"county": unbin.aggregate(people.y, people.county, 7)}
    if several:
        tables["sex"] = unbin.aggregate(people.y, frame["sex"], 7)
    frame.to_parquet(tmp_path / "people.parquet")
    aligned = [table.align(frame[name]) for name, table in tables.items()]
    target = unbin.join(*aligned) if several else aligned[0]
    expected = figures(model_of().fit(people.X, target, cluster=people.state))
    how = {"features": ["a", "b"], "cluster": "state"}
    for model in (
        model_of().fit(people.X, target, cluster=frame["state"]),
        model_of().fit(people.X, target, cluster=frame[["state"]]),
        model_of().fit(frame, tables, **how),
        model_of().fit(frame, tables, **how | {"cluster": ["state"]}),
        model_of().fit(tmp_path / "people.parquet", tables, **how),
        unbin.glm("a + b", frame, tables, family="gaussian", alpha=0.0, cluster="state"),
    ):
        np.testing.assert_allclose(figures(model), expected, rtol=1e-8)
        assert "12 clusters (state, CR3)" in str(model.summary())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::unbin.exceptions.SpecificationWarning")
def test_dask_agrees(people, frame):
    dask = pytest.importorskip("dask.dataframe")
    from distributed import Client

    release = unbin.aggregate(people.y, people.county, 7)
    expected = figures(model_of().fit(people.X, release.align(people.county), cluster=people.state))
    with start_cluster() as cluster, Client(cluster) as client:
        model = model_of("dask", client).fit(
            dask.from_pandas(frame, npartitions=3),
            release,
            block="county",
            features=["a", "b"],
            cluster="state",
        )
    np.testing.assert_allclose(figures(model), expected, rtol=1e-8)


def test_torch_agrees(people):
    torch = pytest.importorskip("torch")
    target = people.target()
    expected = figures(model_of().fit(people.X, target, cluster=people.state))
    model = unbin.AggregatedGLM(alpha=0.0, engine="torch", device="cpu")
    model.fit(torch.as_tensor(people.X), target, cluster=people.state)
    np.testing.assert_allclose(figures(model), expected, rtol=1e-8)


def test_order_of_rows_and_names_of_states_do_not_matter(people):
    expected = figures(fit(people, people.state))
    order = np.random.default_rng(1).permutation(len(people.y))
    release = unbin.aggregate(people.y, people.county, 7)
    shuffled = model_of().fit(
        people.X[order], release.align(people.county[order]), cluster=people.state[order]
    )
    np.testing.assert_allclose(figures(shuffled), expected, rtol=1e-7)
    other = np.char.add("z", np.char.add(numbers_back(people.state), "x"))
    np.testing.assert_allclose(figures(fit(people, other)), expected, rtol=1e-7)


def numbers_back(ids):
    return (100 - ids.astype(int)).astype(str)


@pytest.mark.filterwarnings("ignore::unbin.exceptions.SpecificationWarning")
def test_samples_known_people_weights_and_means_go_with_clusters(people):
    rng = np.random.default_rng(2)
    release = unbin.aggregate(people.y, people.county, 7)
    known = np.where(rng.random(len(people.y)) < 0.05, people.y, np.nan)
    asked = rng.random(len(people.y)) < 0.6
    n = pd.Series(people.county[asked]).value_counts()
    weight = (20 / n[people.county[asked]]).to_numpy()
    sample = release.align(people.county[asked], weights=weight, weighting="survey")
    block = np.unique(people.county)
    mean = [people.y[people.county == each].mean() for each in block]
    means = unbin.Release.from_means({"block": block, "mean": mean})
    for X, target, cluster in (
        (people.X, unbin.join(release.align(people.county), unbin.observed(known)), people.state),
        (people.X[asked], sample, people.state[asked]),
        (people.X, means.align(people.county), people.state),
    ):
        model = model_of().fit(X, target, cluster=cluster)
        assert np.isfinite(model.standard_errors_).all()
        assert "by 12 clusters" in str(model.summary())


def test_a_table_may_cross_clusters_as_a_whole(people, frame):
    sex = unbin.aggregate(people.y, frame["sex"], 7).align(frame["sex"])
    county = people.target()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpecificationWarning)
        model = model_of().fit(people.X, unbin.join(county, sex), cluster=people.state)
        alone = unbin.AggregatedGLM().fit(people.X, sex, cluster=people.state)
    assert "tables that cross the blocks" in model._fits[0].errors_of
    assert len(alone.impute()) == len(people.y)


@pytest.mark.filterwarnings("ignore::unbin.exceptions.SpecificationWarning")
def test_saved_models_and_reports_say_by_what_errors_are(people, tmp_path):
    model = fit(people, pd.Series(people.state, name="state"))
    unbin.save(model, tmp_path / "model.json")
    again = unbin.load(tmp_path / "model.json")
    assert again.clusters_ == model.clusters_
    assert str(again.summary()) == str(model.summary())
    html = unbin.report.render_report(model, title="States")
    assert "12 clusters (state, CR3)" in html
    compared = str(unbin.compare({"by state": model, "by county": fit(people)}))
    assert "12 clusters (state, CR3)" in compared


# -- what is refused -------------------------------------------------------------------------------


def test_ids_that_do_not_fit_are_refused(people, frame, tmp_path):
    target, release = people.target(), unbin.aggregate(people.y, people.county, 7)
    frame.to_parquet(tmp_path / "people.parquet")
    split = people.state.copy()
    split[0] = "zz"
    missing = people.state.astype(object)
    missing[3] = None
    for cluster, error, said in (
        (
            split,
            AlignmentError,
            r"each block must lie in one cluster, got '01001' in '01' and 'zz'",
        ),
        (missing, BlockError, "needs an id, got 1 missing, the first in row 3"),
        (people.state[1:], AlignmentError, "one id per row"),
        (np.full(len(people.y), "a"), AlignmentError, "several values"),
        ("state", ParameterError, "pass the ids"),
    ):
        with pytest.raises(error, match=said):
            model_of().fit(people.X, target, cluster=cluster)
    for X, table, name, error in (
        (frame, {"county": release}, "stat", ParameterError),
        (frame, {"county": release}, ["state", "state"], ParameterError),
        (tmp_path / "people.parquet", {"county": release}, "stat", ReadError),
        (tmp_path / "people.parquet", {"county": release}, people.state, ParameterError),
    ):
        with pytest.raises(error, match=r"stat|differ|name a column"):
            model_of().fit(X, table, features=["a", "b"], cluster=name)
    with pytest.raises(ParameterError, match="matching"):
        unbin.AggregatedGLM(method="matching").fit(people.X, target, cluster=people.state)
    with pytest.raises(ParameterError, match="observed"):
        model_of().fit(people.X, people.y, cluster=people.state)
