"""Any learner in the paper's alternation: oracles, the release given back, scikit-learn, errors."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import unbin
from tests.helpers.releases import assert_fills_bins, suppressed
from unbin import AggregatedRegressor
from unbin._watching import Status, watching
from unbin.datasets import simulate
from unbin.exceptions import (
    AggregatedTargetError,
    AlignmentError,
    DomainError,
    IdentificationWarning,
    ParameterError,
    ReleaseError,
    SplitBlockError,
)
from unbin.families import get_family
from unbin.matching.alternation import Nearest, alternate
from unbin.matching.bounds import rank_bounds


def problem(family="gaussian", *, n=1500, n_blocks=30, bins=6, seed=0):
    people = simulate(
        n, 3, n_blocks, family=family, between=0.3, noise=0.2, intercept=0.4, random_state=seed
    )
    return people, unbin.aggregate(people.y, people.blocks, bins).align(people.blocks)


def linear(**settings):
    return AggregatedRegressor(LinearRegression(), cv=None, random_state=0, **settings)


def boosted(**settings):
    trees = HistGradientBoostingRegressor(max_iter=30, max_leaf_nodes=8)
    return AggregatedRegressor(trees, **({"random_state": 0} | settings))


# -- oracles ---------------------------------------------------------------------------------------


def test_least_squares_takes_the_steps_of_the_alternating_glm():
    people, target = problem()
    model = linear(tol=0.0, max_iter=40)
    with pytest.warns(ConvergenceWarning, match="max_iter was reached first"):
        model.fit(people.X, target)
    glm = unbin.AggregatedGLM(
        method="matching", solver="alternating", tol=1e-12, max_iter=40, random_state=0
    )
    with pytest.warns(ConvergenceWarning):
        glm.fit(people.X, target)
    np.testing.assert_allclose(model.objective_path_, glm.objective_path_, rtol=1e-6)


def test_least_squares_reaches_the_objective_and_slopes_of_matching():
    people, target = problem()
    model = linear(tol=1e-9, max_iter=3000).fit(people.X, target)
    glm = unbin.AggregatedGLM(method="matching", solver="alternating", random_state=0)
    glm.fit(people.X, target)
    assert model.status_ is Status.SETTLED
    assert model.objective_ == pytest.approx(glm.objective_, rel=1e-4)
    np.testing.assert_allclose(model.estimator_.coef_, glm.coef_, atol=1e-3)


def test_poisson_regression_reaches_the_objective_of_matching():
    people, target = problem("poisson")
    inner = PoissonRegressor(alpha=0, tol=1e-8, max_iter=1000)
    model = AggregatedRegressor(inner, loss="poisson", cv=None, tol=1e-8, max_iter=2000)
    model.fit(people.X, target)
    glm = unbin.AggregatedGLM("poisson", method="matching", solver="alternating", max_iter=3000)
    glm.fit(people.X, target)
    assert model.objective_ == pytest.approx(glm.objective_, rel=1e-3)
    np.testing.assert_allclose(model.estimator_.coef_, glm.coef_, atol=5e-3)


@pytest.mark.parametrize("degree", [1, 2])
def test_objective_never_rises_for_an_exact_learner(degree):
    people, target = problem(seed=degree)
    inner = make_pipeline(PolynomialFeatures(degree), LinearRegression())
    model = AggregatedRegressor(inner, cv=None, tol=1e-6, max_iter=500).fit(people.X, target)
    assert (np.diff(model.objective_path_) <= 1e-12).all()
    assert len(model.objective_path_) == model.n_iter_ + 1
    assert model.score(people.X, target) == pytest.approx(-model.objective_, rel=1e-9)


def test_best_iterate_is_kept_where_the_objective_wobbles():
    people, target = problem(n_blocks=20, n=400)
    bounds = rank_bounds(target.release, get_family("gaussian").domain)
    nearest = Nearest(bounds, get_family("gaussian"), np.arange(400, dtype=np.uint64))
    good = people.y[np.argsort(target.codes, kind="stable")]  # satisfies the release
    answers = iter([good * 2, good, good * 3, good * 2, good * 4, good * 5])
    found = alternate(
        lambda z: (next(answers), len(z)), nearest, good * 4, scale=1.0, tol=1e-3, max_iter=50
    )
    assert found.value == min(found.path[1:]) == found.path[2]
    assert len(found.path) == 6  # three steps in vain after the best
    np.testing.assert_array_equal(found.z, nearest.impute(good)[0])
    assert found.status is Status.SETTLED


def test_observed_targets_give_the_estimator_itself():
    people, _ = problem()
    model = boosted().fit(people.X, people.y)
    inner = HistGradientBoostingRegressor(max_iter=30, max_leaf_nodes=8).fit(people.X, people.y)
    np.testing.assert_array_equal(model.predict(people.X), inner.predict(people.X))
    assert model.score(people.X, people.y) == pytest.approx(inner.score(people.X, people.y))
    assert model.status_ is Status.OBSERVED
    with pytest.raises(AggregatedTargetError, match="impute: this model holds no imputed"):
        model.impute()


# -- what a fit is ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize(("family", "loss"), [("gaussian", "squared"), ("poisson", "poisson")])
def test_imputed_targets_give_the_release_back(family, loss, cv):
    people, target = problem(family)
    trees = HistGradientBoostingRegressor(
        loss="poisson" if loss == "poisson" else "squared_error", max_iter=20, max_leaf_nodes=8
    )
    model = AggregatedRegressor(trees, loss=loss, cv=cv, tol=0.02, random_state=0)
    z = model.fit(people.X, target).impute()
    assert_fills_bins(z, people.blocks, target.release, slack=1e-12)


def test_suppressed_counts_are_split_at_their_best():
    people, target = problem(n=600, n_blocks=20)
    release = suppressed(target.release, 1, 4)
    assert release.histogram.hidden().any()
    model = linear(tol=1e-8, max_iter=2000).fit(people.X, release.align(people.blocks))
    whole = linear(tol=1e-8, max_iter=2000).fit(people.X, target)
    assert model.objective_ <= whole.objective_ + 1e-9  # more targets satisfy it
    assert (np.diff(model.objective_path_) <= 1e-12).all()


def test_fits_repeat_and_do_not_depend_on_the_order_of_rows():
    people, target = problem()
    forest = RandomForestRegressor(5, max_depth=5)  # seeded by the model around it
    a, b = (
        AggregatedRegressor(forest, max_iter=5, tol=0.1, random_state=3).fit(people.X, target)
        for _ in range(2)
    )
    np.testing.assert_array_equal(a.impute(), b.impute())
    np.testing.assert_array_equal(a.predict(people.X), b.predict(people.X))
    order = np.random.default_rng(0).permutation(len(people.X))
    moved = target.release.align(people.blocks[order])
    c, d = (
        linear(max_iter=50).fit(people.X[order], moved),
        linear(max_iter=50).fit(people.X, target),
    )
    np.testing.assert_allclose(c.impute(), d.impute()[order], atol=1e-9)


def test_given_predictions_are_where_it_starts():
    people, target = problem()
    truth = people.X @ people.coef + people.intercept
    model = linear(init=truth).fit(people.X, target)
    flat = AggregatedRegressor(LinearRegression(), cv=None, init=list(truth)).fit(people.X, target)
    assert model.objective_path_[0] == pytest.approx(flat.objective_path_[0])
    assert model.objective_path_[0] < linear().fit(people.X, target).objective_path_[0]


def test_splines_start_nearer_to_a_bent_truth():
    people, _ = problem()
    y = people.X[:, 0] ** 2 + people.X[:, 1]
    target = unbin.aggregate(y, people.blocks, 6).align(people.blocks)
    X = np.column_stack([people.X, people.X[:, 0] > 0])  # no knots lie between 0 and 1
    straight, bent = (boosted(init=init).fit(X, target) for init in ("block-means", "splines"))
    assert bent.objective_path_[0] < 0.8 * straight.objective_path_[0]
    assert bent.score(X, y) > straight.score(X, y)


def test_fit_and_predict_change_neither_parameters_nor_data():
    people, target = problem()
    X = people.X.copy()
    model = boosted(max_iter=3, tol=0.5)
    before = copy.deepcopy(model.get_params())
    model.fit(X, target).impute()[:] = 0.0
    np.testing.assert_array_equal(X, people.X)
    assert str(model.get_params()) == str(before)
    assert not hasattr(model.estimator, "n_iter_")
    assert model.impute().any()


def test_missing_features_are_the_learners_matter():
    people, target = problem()
    X = people.X.copy()
    X[::7, 1] = np.nan
    assert np.isfinite(boosted(max_iter=3, tol=0.5).fit(X, target).predict(X)).all()
    with pytest.raises(ValueError, match="contains NaN"):
        linear().fit(X, target)


def test_counts_may_be_predicted_by_a_learner_that_goes_below_zero():
    people, target = problem("poisson")
    model = AggregatedRegressor(LinearRegression(), loss="poisson", cv=None, max_iter=60)
    model.fit(people.X, target)
    assert np.isfinite(model.objective_path_).all()
    assert (model.predict(people.X) > 0).all()


def test_watched_fit_can_be_stopped():
    people, target = problem()
    steps = []

    def watcher(step):
        steps.append(step)
        return step.iteration == 2

    with watching(watcher), pytest.warns(ConvergenceWarning, match="was stopped"):
        model = linear(tol=0.0).fit(people.X, target)
    assert model.status_ is Status.INTERRUPTED
    assert [step.iteration for step in steps] == [1, 2]


def test_releases_that_cannot_tell_are_named():
    people, _ = problem(n=200, n_blocks=4)
    one = unbin.aggregate(people.y, None, 5).align(["all"] * 200)
    with pytest.warns(IdentificationWarning, match="single block"):
        model = linear().fit(people.X, one)
    assert not model.status_.identified
    wide = unbin.aggregate(people.y, people.blocks, [-99, 99]).align(people.blocks)
    with pytest.warns(IdentificationWarning, match="one constant satisfies"):
        linear().fit(people.X, wide)
    silent = unbin.aggregate(people.y, people.blocks, 1).align(people.blocks)
    for model in (linear(), unbin.AggregatedGLM(method="matching")):
        with pytest.raises(ReleaseError, match="matching: nothing was published, got bins that"):
            model.fit(people.X, silent)


# -- scikit-learn ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("inner", [LinearRegression(), HistGradientBoostingRegressor(max_iter=5)])
def test_check_estimator(inner):
    results = check_estimator(AggregatedRegressor(inner), on_fail=None, on_skip=None)
    failed = [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")]
    assert failed == []
    assert sum(r["status"] == "passed" for r in results) >= 40


def test_clone_and_nested_parameters():
    model = boosted(loss="poisson")
    copied = clone(model).set_params(estimator__max_iter=7, cv=3)
    assert copied.estimator.max_iter == 7
    assert model.estimator.max_iter == 30
    assert not hasattr(copied, "estimator_")


def test_pipeline_keeps_names_and_a_search_keeps_blocks_whole():
    people, target = problem()
    frame = pd.DataFrame(people.X, columns=["age", "dose", "stay"])
    pipe = make_pipeline(
        StandardScaler().set_output(transform="pandas"),
        AggregatedRegressor(Ridge(), cv=None, max_iter=100),
    )
    search = GridSearchCV(
        pipe,
        {"aggregatedregressor__estimator__alpha": [1.0, 1e6]},
        cv=unbin.BlockKFold(3),
        error_score="raise",
    ).fit(frame, target)
    assert search.best_params_ == {"aggregatedregressor__estimator__alpha": 1.0}
    assert list(search.best_estimator_[-1].feature_names_in_) == ["age", "dose", "stay"]
    assert search.best_estimator_.score(frame, people.y) > 0.9
    with pytest.raises(SplitBlockError, match="BlockKFold"):
        cross_val_score(pipe, frame, target, cv=KFold(3))


def test_copies_hold_no_personal_values():
    people, target = problem()
    model = linear().fit(people.X, target)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.predict(people.X), model.predict(people.X))
        with pytest.raises(AggregatedTargetError, match="was copied or loaded"):
            other.impute()


# -- what it is for --------------------------------------------------------------------------------


def test_trees_beat_the_glm_on_a_non_linear_truth():
    nonlinear = pytest.importorskip("nonlinear", reason="experiments/ is not part of this copy")
    errors = nonlinear.one_run("squared", seed=0, models=("GLM likelihood", "trees, cv=5"))
    assert errors["trees, cv=5"] < 0.5 * errors["GLM likelihood"]


# -- errors ----------------------------------------------------------------------------------------

SETTINGS = [
    ({"estimator": 3}, "estimator: must be a scikit-learn regressor, got 3; pass an object"),
    ({"estimator": Ridge}, "estimator: must be a scikit-learn regressor, got <class"),
    ({"loss": "absolute"}, "loss: unknown, got 'absolute'; use one of 'squared', 'poisson'"),
    ({"max_iter": 0}, "max_iter: must be a whole number, got 0; pass 1 or more"),
    ({"tol": -1}, "tol: must be a finite number, got -1; pass a number at least 0"),
    ({"init": "random"}, "init: unknown, got 'random'; use one of 'block-means', 'splines'"),
    (
        {"init": [1.0, 2.0]},
        r"one finite prediction per row of X \(1500\), got 2 numbers; correct it",
    ),
    (
        {"init": ["a"]},
        r"init: must be 'block-means', 'splines' or predictions, got \['a'\]; pass one",
    ),
    ({"cv": 1}, "cv: must be a whole number, got 1; pass 2 or more"),
    ({"cv": 31}, "cv: 31 folds need as many blocks, got 30; lower cv, or pass None"),
]


@pytest.mark.parametrize(("changed", "words"), SETTINGS)
def test_settings_that_cannot_be(changed, words):
    people, target = problem()
    model = AggregatedRegressor(**({"estimator": LinearRegression(), "cv": None} | changed))
    with pytest.raises(ParameterError, match=words):
        model.fit(people.X, target)
    assert not hasattr(model, "estimator_")


def test_targets_that_cannot_be():
    people, target = problem()
    counts = AggregatedRegressor(LinearRegression(), loss="poisson", cv=None)
    with pytest.raises(DomainError, match="holds no value of the domain"):
        counts.fit(people.X, unbin.aggregate(people.y, people.blocks).align(people.blocks))
    with pytest.raises(DomainError, match="lies outside the domain"):
        counts.fit(people.X, people.y)
    with pytest.raises(AlignmentError, match="rows were aligned with the release, X has 1499"):
        linear().fit(people.X[1:], target)
    with pytest.raises(ParameterError, match="y: takes one target, got a list; fit them one by"):
        linear().fit(people.X, [target, target])
    with pytest.raises(AggregatedTargetError, match=r"pass release\.align"):
        linear().fit(people.X, target.release)
    means = unbin.Release.from_means({"block": target.release.blocks, "mean": np.zeros(30)})
    with pytest.raises(ReleaseError, match="cannot use published means"):
        linear().fit(people.X, means.align(people.blocks))


class Broken(LinearRegression):
    """Predicts the same of everybody."""

    def __init__(self, answer=np.nan):
        super().__init__()
        self.answer = answer

    def predict(self, X):
        return np.full((len(X), *np.shape(self.answer)), self.answer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.nan, "estimator: must predict finite numbers, got NaN or inf; does it diverge"),
        ((1.0, 2.0), r"must predict one number per person, got shape \(300, 2\) for 300 people"),
    ],
)
def test_learners_that_predict_no_numbers(answer, words):
    people, target = problem(n=300, n_blocks=10)
    with pytest.raises(ParameterError, match=words):
        AggregatedRegressor(Broken(answer), cv=None).fit(people.X, target)


def test_a_failed_fit_leaves_the_model_as_it_was():
    people, target = problem()
    model = linear().fit(people.X, target)
    before = model.predict(people.X)
    with pytest.raises(AlignmentError):
        model.fit(people.X[1:, :2], target)
    np.testing.assert_array_equal(model.predict(people.X), before)


def test_a_learner_that_memorises_stays_where_it_began_without_folds():
    people, target = problem()
    neighbour = KNeighborsRegressor(1)
    model = AggregatedRegressor(neighbour, cv=None).fit(people.X, target)
    assert model.objective_ == 0.0  # and says nothing about the model
    start = unbin.AggregatedRegressor(neighbour, cv=None, max_iter=1, tol=1.0)
    with pytest.warns(ConvergenceWarning):
        start.fit(people.X, target)
    np.testing.assert_array_equal(model.impute(), start.impute())


# -- rows that stand for several people ------------------------------------------------------------


def weighed(seed=0):
    people, _ = problem(n=300, n_blocks=12, seed=seed)
    weights = np.random.default_rng(seed).integers(1, 5, 300)
    row = np.repeat(np.arange(300), weights)
    ids = np.asarray(people.blocks).astype(str)
    y = people.y[row] + 0.1 * np.random.default_rng(1).normal(size=len(row))
    release = unbin.aggregate(y, ids[row], 5)
    return people.X, release.align(ids, weights=weights), row, release.align(ids[row])


@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize("init", ["block-means", "splines"])
def test_weighted_rows_are_learned_as_repeated_rows(cv, init):
    X, target, row, repeated = weighed()
    model = AggregatedRegressor(LinearRegression(), cv=cv, init=init, random_state=0)
    ours, theirs = clone(model).fit(X, target), clone(model).fit(X[row], repeated)
    np.testing.assert_allclose(ours.objective_path_, theirs.objective_path_, rtol=1e-10)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-8, atol=1e-9)
    mean = np.bincount(row, theirs.impute()) / np.bincount(row)
    np.testing.assert_allclose(ours.impute(), mean, rtol=1e-8, atol=1e-9)
    score = theirs.score(X[row], repeated)
    assert ours.score(X, target) == pytest.approx(score, rel=1e-9)
    assert ours.n_people_ == len(row)


def test_missing_values_are_filled_by_people():
    X, target, row, repeated = weighed()
    X = X.copy()
    X[::7, 0] = np.nan
    model = boosted(cv=None)
    ours, theirs = clone(model).fit(X, target), clone(model).fit(X[row], repeated)
    assert ours.objective_path_[0] == pytest.approx(theirs.objective_path_[0], rel=1e-10)


def test_a_learner_that_cannot_be_told_of_weights_is_named():
    X, target, _, _ = weighed()
    with pytest.raises(ParameterError, match=r"must take sample_weight .* got KNeighborsRegressor"):
        AggregatedRegressor(KNeighborsRegressor()).fit(X, target)


def test_weights_that_cannot_be_ranked_are_refused():
    X, target, _, _ = weighed()
    ids, half = target.blocks, np.full(len(X), 1.5)
    size = np.unique(ids, return_counts=True)[1]
    y = np.zeros(int(np.floor(1.5 * size + 0.5).sum()))
    people = np.repeat(np.unique(ids), np.floor(1.5 * size + 0.5).astype(int))
    release = unbin.aggregate(np.arange(len(y)) % 3.0, people, 3)
    with pytest.raises(ParameterError, match=r"a whole number of them, got 1\.5"):
        linear().fit(X, release.align(ids, weights=half))


def test_known_outcomes_are_refused():
    people, target = problem(n=300, n_blocks=12)
    known = unbin.observed(np.where(np.arange(300) < 5, people.y, np.nan))
    with pytest.raises(ParameterError, match="y: matching takes a table alone"):
        linear().fit(people.X, unbin.join(target, known))
