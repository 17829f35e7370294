"""A citizen of scikit-learn: checks, pipelines, searches over whole blocks."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import unbin
from unbin.datasets import simulate
from unbin.exceptions import AggregatedTargetError, SplitBlockError


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings(
    "ignore::unbin.exceptions.IdentificationWarning"
)  # more columns than rows
@pytest.mark.parametrize("params", [{}, {"solver": "alternating"}, {"fit_intercept": False}])
def test_check_estimator(params):
    results = check_estimator(unbin.AggregatedGLM(**params), on_fail=None, on_skip=None)
    failed = [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")]
    assert failed == []
    assert sum(r["status"] == "passed" for r in results) >= 45


def test_no_check_is_marked_as_an_expected_failure():
    generated = estimator_checks_generator(unbin.AggregatedGLM(), mark="xfail")
    assert not any(getattr(check, "marks", None) for _, check in generated)


@pytest.fixture(scope="module")
def people():
    sim = simulate(1500, 2, 30, between=0.3, noise=0.3, random_state=0)
    frame = pd.DataFrame({"age": 50 + 10 * sim.X[:, 0], "dose": sim.X[:, 1]})
    frame["sex"] = np.where(np.arange(1500) % 2, "f", "m")
    return frame, unbin.aggregate(sim.y, sim.blocks, 6).align(sim.blocks), sim


def test_pipeline_with_columns_keeps_names(people):
    frame, target, _ = people
    features = ColumnTransformer(
        [
            ("number", StandardScaler(), ["age", "dose"]),
            ("word", OneHotEncoder(drop="first", sparse_output=False), ["sex"]),
        ]
    ).set_output(transform="pandas")
    pipe = make_pipeline(features, unbin.AggregatedGLM(method="matching")).fit(frame, target)
    model = pipe[-1]
    assert list(model.feature_names_in_) == ["number__age", "number__dose", "word__sex_m"]
    assert pipe.predict(frame).shape == (1500,)
    assert pipe.score(frame, target) == pytest.approx(-model.objective_, rel=1e-6)


def test_polars_and_pandas_give_the_same_fit(people):
    frame, target, _ = people
    numbers = frame[["age", "dose"]]
    a = unbin.AggregatedGLM(method="matching").fit(numbers, target)
    b = unbin.AggregatedGLM(method="matching").fit(pl.from_pandas(numbers), target)
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert list(b.feature_names_in_) == ["age", "dose"]


def test_clone_keeps_parameters_and_drops_the_fit(people):
    frame, target, _ = people
    model = unbin.AggregatedGLM(method="matching", alpha=0.1).fit(frame[["age"]], target)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "coef_")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_grid_search_over_whole_blocks(people, n_jobs):
    frame, target, _ = people
    search = GridSearchCV(
        unbin.AggregatedGLM(method="matching"),
        {"alpha": [0.0, 1.0, 100.0]},
        cv=unbin.BlockKFold(n_splits=3),
        n_jobs=n_jobs,
        error_score="raise",
    ).fit(frame[["age", "dose"]], target)
    assert search.best_params_ == {"alpha": 0.0}
    assert (search.cv_results_["mean_test_score"] < 0).all()


def test_plain_kfold_is_refused_and_told_what_to_do(people):
    frame, target, _ = people
    model = unbin.AggregatedGLM(method="matching")
    with pytest.raises(SplitBlockError, match="BlockKFold"):
        cross_val_score(model, frame[["age"]], target, cv=KFold(3))


def test_r2_is_refused_and_told_what_to_do(people):
    frame, target, _ = people
    with pytest.raises(AggregatedTargetError, match="scoring=None"):
        cross_validate(
            unbin.AggregatedGLM(method="matching"),
            frame[["age"]],
            target,
            cv=unbin.BlockKFold(3),
            scoring="r2",
            error_score="raise",
        )


def test_names_of_columns_survive_a_pipeline():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["age", "income"])
    pipeline = make_pipeline(StandardScaler(), unbin.AggregatedGLM()).set_output(transform="pandas")
    model = pipeline.fit(X, X["age"])[-1]
    assert model.tidy()["term"].tolist() == ["intercept", "age", "income"]
