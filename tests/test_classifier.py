"""The classifier as a citizen of scikit-learn, and of frames, weights and units."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import unbin
from tests.helpers.votes import NAMES, SLOPES, draw_votes
from unbin.exceptions import IdentificationWarning


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
@pytest.mark.parametrize("params", [{}, {"alpha": 0.1}, {"fit_intercept": False}])
def test_check_estimator(params):
    results = check_estimator(unbin.AggregatedClassifier(**params), on_fail=None, on_skip=None)
    failed = [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")]
    assert failed == []
    assert sum(r["status"] == "passed" for r in results) >= 55


def test_no_check_is_marked_as_an_expected_failure():
    generated = estimator_checks_generator(unbin.AggregatedClassifier(), mark="xfail")
    assert not any(getattr(check, "marks", None) for _, check in generated)


@pytest.fixture(scope="module")
def voters():
    people = draw_votes(seed=1, n_blocks=40, size=50, effect_sd=0.2)
    frame = pd.DataFrame({
        "age": 50 + 10 * people.X[:, 0],
        "race": np.where(people.X[:, 1] > 0, "y", "x"),
        "precinct": people.blocks,
        "vote": people.labels,
    })  # fmt: skip
    return frame, unbin.aggregate(people.labels, people.blocks), people


# -- scikit-learn ----------------------------------------------------------------------------------


def test_it_is_a_classifier():
    model = unbin.AggregatedClassifier(0.5, random=["race"], contextual=0.25)
    assert is_classifier(model)
    assert clone(model).get_params() == model.get_params()
    assert repr(model) == "AggregatedClassifier(alpha=0.5, contextual=0.25, random=['race'])"
    for method in ("predict", "predict_proba", "decision_function", "score"):
        args = ([[0.0]], ["a"]) if method == "score" else ([[0.0]],)
        with pytest.raises(NotFittedError):
            getattr(model, method)(*args)
    for method in ("summary", "tidy", "conf_int", "cov_params", "group_table", "block_table"):
        with pytest.raises(NotFittedError):
            getattr(model, method)()


@pytest.mark.parametrize(
    "labels",
    [
        lambda y: y,
        lambda y: y - 1,
        lambda y: y > 0,
        lambda y: NAMES[y],
        lambda y: NAMES[y].astype(object),
        lambda y: pd.Series(NAMES[y]),
        lambda y: pd.Series(NAMES[y], dtype="category"),
        lambda y: np.where(y > 0, "yes", "no"),
        lambda y: y.astype(float),
        lambda y: list(NAMES[y]),
    ],
    ids=["ints", "negative", "bools", "text", "objects", "series", "categorical", "two", "floats",
         "list"],
)  # fmt: skip
def test_labels_of_any_kind_come_back(labels):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = labels((X @ SLOPES + rng.gumbel(size=(200, 3))).argmax(axis=1))
    model = unbin.AggregatedClassifier().fit(X, y)
    found, given = model.predict(X), np.asarray(y)
    np.testing.assert_array_equal(model.classes_, np.unique(given))
    assert found.dtype.kind == given.dtype.kind
    assert set(found) <= set(given)
    assert np.mean(found == given) > 0.5
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), proba)
    k = len(model.classes_)
    assert proba.shape == (200, k)
    assert model.decision_function(X).shape == ((200,) if k == 2 else (200, k))
    assert model.coef_.shape == model.standard_errors_.shape == (1 if k == 2 else k, 2)
    assert model.conf_int().shape == (*model.coef_.shape, 2)


@pytest.mark.parametrize("settings", [{}, {"random": ["race"]}])
def test_a_fit_survives_pickling(voters, settings):
    frame, release, _ = voters
    model = unbin.AggregatedClassifier(**settings)
    model.fit(frame, {"precinct": release}, features=["age", "race"])
    copy = pickle.loads(pickle.dumps(model))
    people = frame[["age", "race"]]
    np.testing.assert_array_equal(copy.predict_proba(people), model.predict_proba(people))
    assert str(copy.summary()) == str(model.summary())
    assert not hasattr(clone(model), "coef_")


def test_pipelines_keep_names(voters):
    frame, release, _ = voters
    features = ColumnTransformer(
        [
            ("number", StandardScaler(), ["age"]),
            ("word", OneHotEncoder(drop="first", sparse_output=False), ["race"]),
        ]
    ).set_output(transform="pandas")
    pipe = make_pipeline(features, unbin.AggregatedClassifier())
    target = release.align(frame["precinct"])
    pipe.fit(frame, target)
    assert list(pipe[-1].feature_names_in_) == ["number__age", "word__race_y"]
    assert set(pipe.predict(frame)) <= {"a", "b", "c"}
    assert pipe.score(frame, frame["vote"]) > 0.4
    assert pipe.score(frame, target) > -np.log(3)


def test_a_search_over_whole_blocks(voters):
    frame, release, people = voters
    target = release.align(frame["precinct"])
    search = GridSearchCV(
        unbin.AggregatedClassifier(),
        {"alpha": [0.0, 1e4]},
        cv=unbin.BlockKFold(n_splits=3),
        error_score="raise",
    ).fit(people.X, target)
    assert search.best_params_ == {"alpha": 0.0}
    labels = cross_val_score(unbin.AggregatedClassifier(), people.X, people.labels, cv=3)
    assert labels.min() > 0.4


def test_frames_of_any_kind_give_the_same_fit(voters):
    frame, release, _ = voters
    target = release.align(frame["precinct"])
    people = frame[["age", "race"]]
    model = unbin.AggregatedClassifier().fit(people, target)
    other = unbin.AggregatedClassifier().fit(pl.from_pandas(people), target)
    by_name = unbin.AggregatedClassifier().fit(
        pl.from_pandas(frame), {"precinct": release}, features=["age", "race"]
    )
    text = people.astype({"race": "category"})
    categorical = unbin.AggregatedClassifier().fit(text, target)
    for each in (other, by_name, categorical):
        np.testing.assert_array_equal(each.coef_, model.coef_)
        assert list(each.feature_names_in_) == ["age", "race[T.y]"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(other.predict(people), model.predict(pl.from_pandas(people)))
    assert isinstance(model.tidy(backend="polars"), pl.DataFrame)
    assert list(model.tidy()["term"]) == ["intercept", "age", "race[T.y]"] * 3
    assert list(model.tidy()["category"]) == sorted(["a", "b", "c"] * 3)


def test_two_categories_keep_names_without_a_warning(voters):
    frame, _, _ = voters
    people = frame[["age", "race"]]
    vote = np.where(frame["vote"] == "a", "yes", "no")
    target = unbin.aggregate(vote, frame["precinct"]).align(frame["precinct"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y in (vote, target):
            model = unbin.AggregatedClassifier().fit(people, y)
            assert set(model.predict(people)) <= {"yes", "no"}
            assert list(model.tidy()["term"]) == ["intercept", "age", "race[T.y]"]
            assert "race[T.y]" in str(model.summary())
            assert model.decision_function(people).shape == (len(people),)
            assert model.score(people, y) is not None


def test_new_people_of_an_unknown_level_are_refused(voters):
    frame, release, _ = voters
    people = frame[["age", "race"]]
    model = unbin.AggregatedClassifier().fit(people, release.align(frame["precinct"]))
    with pytest.raises(unbin.exceptions.EncodingError, match="race"):
        model.predict(people.assign(race="z"))


def test_a_second_fit_forgets_the_first(voters):
    frame, release, people = voters
    target = release.align(frame["precinct"])
    model = unbin.AggregatedClassifier().fit(frame[["age", "race"]], target)
    model.fit(people.X, np.where(people.labels == "a", 1, 0))
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(people.X).dtype.kind == "i"
    model.fit(people.X, target)
    np.testing.assert_array_equal(model.coef_, unbin.AggregatedClassifier().fit(people.X, target)
                                  .coef_)  # fmt: skip
    assert model.coef_.shape == (3, 2)


# -- rows, weights, units --------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"random": ["race"]}])
def test_weights_are_people_written_out(voters, settings):
    frame, release, _ = voters
    rows = frame.groupby(["precinct", "race"]).size().rename("n").reset_index()
    settings = {"tol": 1e-7, **settings}
    short = unbin.AggregatedClassifier(**settings)
    short.fit(rows, {"precinct": release}, features=["race"], weights="n")
    long = unbin.AggregatedClassifier(**settings)
    long.fit(frame, {"precinct": release}, features=["race"])
    np.testing.assert_allclose(short.coef_, long.coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(short.standard_errors_, long.standard_errors_, rtol=1e-6)
    assert short.n_people_ == long.n_people_ == len(frame)
    if "random" in settings:
        np.testing.assert_allclose(
            short.block_table()["count"], long.block_table()["count"], atol=1e-6
        )
        np.testing.assert_allclose(
            short.group_table()["conf_low"], long.group_table()["conf_low"], atol=1e-6
        )


@pytest.mark.parametrize("settings", [{}, {"random": {"race": ["x1"]}}])
def test_order_of_rows_does_not_matter(voters, settings):
    _, release, people = voters
    order = np.random.default_rng(0).permutation(len(people.X))
    model, other = (
        unbin.AggregatedClassifier(tol=1e-7, **settings).fit(X, release.align(ids))
        for X, ids in (
            (people.X, people.blocks),
            (people.X[order], people.blocks[order]),
        )
    )
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-9)
    np.testing.assert_allclose(model.standard_errors_, other.standard_errors_, atol=1e-9)


@pytest.mark.parametrize("factor", [1e6, 1e-6])
def test_units_of_features_do_not_matter(voters, factor):
    _, release, people = voters
    target = release.align(people.blocks)
    model = unbin.AggregatedClassifier(tol=1e-7).fit(people.X, target)
    scale = np.array([factor, 1.0])
    other = unbin.AggregatedClassifier(tol=1e-7).fit(people.X * scale, target)
    np.testing.assert_allclose(other.coef_ * scale, model.coef_, atol=1e-8)
    np.testing.assert_allclose(other.standard_errors_ * scale, model.standard_errors_, atol=1e-8)
    np.testing.assert_allclose(
        other.predict_proba(people.X * scale), model.predict_proba(people.X), atol=1e-8
    )
    assert other.diagnostics_.verdicts == model.diagnostics_.verdicts


def test_one_block_tells_no_slope(voters):
    _, _, people = voters
    mine = people.blocks == "0"
    target = unbin.aggregate(people.labels[mine], people.blocks[mine]).align(people.blocks[mine])
    with pytest.warns(IdentificationWarning, match="one block alone"):
        model = unbin.AggregatedClassifier().fit(people.X[mine], target)
    assert np.isnan(model.standard_errors_).all()
    assert set(model.diagnostics_.verdicts) == {"not estimable"}
    np.testing.assert_allclose(model.predict_proba(people.X[mine]).sum(axis=1), 1)


def test_two_blocks_tell_no_two_slopes(voters):
    _, _, people = voters
    mine = np.isin(people.blocks, ["0", "1"])
    target = unbin.aggregate(people.labels[mine], people.blocks[mine]).align(people.blocks[mine])
    with pytest.warns(IdentificationWarning, match="fewer ways than there are slopes"):
        model = unbin.AggregatedClassifier().fit(people.X[mine], target)
    assert set(model.diagnostics_.verdicts) == {"not estimable"}


def test_many_small_blocks():
    people = draw_votes(seed=1, n_blocks=20_000, size=3)
    target = unbin.aggregate(people.labels, people.blocks).align(people.blocks)
    model = unbin.AggregatedClassifier().fit(people.X, target)
    truth = SLOPES.T - SLOPES.T.mean(axis=0)
    np.testing.assert_allclose(model.coef_, truth, atol=4 * model.standard_errors_.max())
    assert model.diagnostics_.trusted


def test_eight_categories():
    slopes = np.array([np.linspace(-1, 1, 8), np.cos(np.arange(8))])
    people = draw_votes(seed=1, n_blocks=80, size=150, slopes=slopes, effect_sd=0.2)
    target = unbin.aggregate(people.labels, people.blocks).align(people.blocks)
    model = unbin.AggregatedClassifier().fit(people.X, target)
    truth = slopes.T - slopes.T.mean(axis=0)
    away = (model.coef_ - truth) / model.standard_errors_
    assert np.sqrt(np.mean(away**2)) < 1.6
    assert list(model.classes_) == list(NAMES)
    assert model.predict_proba(people.X).shape == (len(people.X), 8)


def test_a_category_that_hardly_anybody_is_in():
    people = draw_votes(seed=1, n_blocks=40, size=50)
    labels = people.labels.copy()
    labels[:3] = "d"
    target = unbin.aggregate(labels, people.blocks).align(people.blocks)
    model = unbin.AggregatedClassifier(random={"race": ["x1"]}).fit(people.X, target)
    table = model.group_table()
    assert np.isfinite(table[["count", "conf_low", "conf_high"]].to_numpy()).all()
    assert table.loc[table["category"] == "d", "count"].sum() == pytest.approx(3, abs=1e-3)


# -- contextual slopes -----------------------------------------------------------------------------


def test_blocks_of_predictions_have_their_context(voters):
    frame, release, _ = voters
    model = unbin.AggregatedClassifier(random=["race"], contextual=0.25)
    model.fit(frame, {"precinct": release}, features=["race"])
    people, ids = frame[["race"]], frame["precinct"]
    anywhere = model.predict_proba(people)
    there = model.predict_proba(people, blocks=ids)
    assert np.abs(anywhere - there).max() > 1e-3
    new = model.predict_proba(people, blocks=np.full(len(people), "elsewhere"))
    np.testing.assert_array_equal(new, anywhere)
    # with the context of blocks, people add up to what is expected of each
    sums = pd.DataFrame(there).groupby(ids.to_numpy()).sum().to_numpy()
    np.testing.assert_allclose(sums, model._model.counts.expected, atol=1e-8)
    with pytest.raises(unbin.exceptions.AlignmentError, match="blocks: 3 ids for 2000 rows"):
        model.predict(people, blocks=["0", "1", "2"])


def test_scales_of_contextual_slopes_are_shown(voters):
    frame, release, _ = voters
    model = unbin.AggregatedClassifier(random=["race"], contextual=0.1)
    model.fit(frame, {"precinct": release}, features=["race"])
    table = model.group_table()
    shown = [name for name in table.columns if name.startswith("share_z_")]
    assert shown == ["share_z_0", "share_z_0.1", "share_z_0.25", "share_z_0.5"]
    np.testing.assert_allclose(table["share_z_0.1"], table["share"])
    assert "(z = 0.5)" in str(model.summary())


def test_scores_are_of_labels_or_of_tables(voters):
    frame, release, people = voters
    target = release.align(frame["precinct"])
    model = unbin.AggregatedClassifier().fit(people.X, target)
    q = model.predict_proba(people.X)
    codes = target.codes
    sums = np.zeros((40, 3))
    np.add.at(sums, codes, q)
    counts = release.histogram.count.reshape(40, 3)
    wanted = np.sum(counts * np.log(sums / 50)) / len(q)
    assert model.score(people.X, target) == pytest.approx(wanted, rel=1e-12)
    assert model.score(people.X, people.labels) == np.mean(model.predict(people.X) == people.labels)
