"""Fits against peers: labels, two categories, several tables, and what is in the truth."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn.linear_model import LogisticRegression

import unbin
from tests.helpers.votes import NAMES, SLOPES, draw_votes, problem_of
from unbin.categories import fit as fits
from unbin.categories import scores
from unbin.categories.fit import fit_categories
from unbin.exceptions import AlignmentError, ParameterError
from unbin.fitting.categorical import in_units


def observed(seed=0, n=600):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [1, 3] + [2, -1]
    eta = X @ (SLOPES / [[1], [3]])
    return X, (eta + rng.gumbel(size=eta.shape)).argmax(axis=1)


# -- labels that are known -------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_labels_give_the_multinomial_logit(weighted):
    X, y = observed()
    weight = np.random.default_rng(1).integers(1, 4, len(y)) if weighted else None
    model = unbin.AggregatedClassifier(tol=1e-9).fit(X, y, sample_weight=weight)
    each = np.ones(len(y), int) if weight is None else weight
    peer = sm.MNLogit(np.repeat(y, each), sm.add_constant(np.repeat(X, each, axis=0)))
    peer = peer.fit(disp=False, tol=1e-12)
    params = np.asarray(peer.params)  # of categories 1 and 2 against the first
    np.testing.assert_allclose((model.coef_[1:] - model.coef_[0]).T, params[1:], atol=1e-6)
    np.testing.assert_allclose(model.intercept_[1:] - model.intercept_[0], params[0], atol=1e-6)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-12)
    covariance = model.cov_params().reshape(3, 3, 3, 3)
    errors = [
        [covariance[k, j, k, j] + covariance[0, j, 0, j] - 2 * covariance[k, j, 0, j]
         for j in range(3)]
        for k in (1, 2)
    ]  # fmt: skip
    np.testing.assert_allclose(np.sqrt(errors).T, np.asarray(peer.bse), rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X)[:9], peer.predict(sm.add_constant(X))[:9],
                               atol=1e-6)  # fmt: skip
    if not weighted:
        assert model._model.log_score == pytest.approx(peer.llf / len(y), rel=1e-9)
        assert model.score(X, y) == np.mean(model.predict(X) == y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_ridge_on_labels_is_that_of_scikit_learn(n_classes):
    X, y = observed()
    y, alpha = np.minimum(y, n_classes - 1), 0.05
    model = unbin.AggregatedClassifier(alpha, tol=1e-9).fit(X, y)
    peer = LogisticRegression(C=1 / (alpha * len(y)), tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(
        model.intercept_ - model.intercept_.mean() * (n_classes > 2),
        peer.intercept_ - peer.intercept_.mean() * (n_classes > 2),
        atol=1e-5,
    )


def test_labels_without_an_intercept():
    X, y = observed()
    model = unbin.AggregatedClassifier(tol=1e-9, fit_intercept=False).fit(X, y)
    peer = np.asarray(sm.MNLogit(y, X).fit(disp=False, tol=1e-12).params)
    np.testing.assert_allclose((model.coef_[1:] - model.coef_[0]).T, peer, atol=1e-6)
    np.testing.assert_array_equal(model.intercept_, 0)
    assert "intercept" not in list(model.tidy()["term"])


def test_observed_labels_are_the_labels():
    X, y = observed()
    names = NAMES[y].astype(object)
    some = names.copy()
    some[::3] = None
    model = unbin.AggregatedClassifier().fit(X, unbin.observed(some))
    rest = unbin.AggregatedClassifier().fit(
        np.delete(X, np.s_[::3], 0), np.delete(names, np.s_[::3])
    )
    np.testing.assert_allclose(model.coef_, rest.coef_, atol=1e-12)


# -- two categories --------------------------------------------------------------------------------


def two(seed=0, **how):
    return draw_votes(seed=seed, slopes=np.array([[0.0, 0.9], [0.0, -0.5]]), **how)


def test_two_categories_are_the_binomial_family_exactly():
    people = two(effect_sd=0.3)
    target = unbin.aggregate(people.labels, people.blocks).align(people.blocks)
    zeros = unbin.aggregate((people.labels == "b").astype(float), people.blocks, [-1, 0, 1])
    model = unbin.AggregatedClassifier().fit(people.X, target)
    glm = unbin.AggregatedGLM("binomial", alpha="auto").fit(people.X, zeros.align(people.blocks))
    np.testing.assert_array_equal(model.coef_[0], glm.coef_)
    np.testing.assert_array_equal(model.intercept_, glm.intercept_)
    np.testing.assert_array_equal(model.standard_errors_[0], glm.standard_errors_)
    np.testing.assert_array_equal(model.conf_int()[0], glm.conf_int())
    np.testing.assert_array_equal(model.predict_proba(people.X)[:, 1], glm.predict(people.X))
    np.testing.assert_array_equal(model.cov_params(), glm.cov_params())
    assert model.effect_sd_[0] == glm.block_sd_
    assert list(model.tidy()["category"]) == ["b"] * 3
    assert list(model.predict(people.X)) == list(np.where(glm.predict(people.X) > 0.5, "b", "a"))


def test_two_categories_as_many_are_the_binomial_family(monkeypatch):
    monkeypatch.setattr(scores, "_FLOOR", 0.0)
    people = two()
    fit = fit_categories(problem_of(people), alpha=0.0, effects=False, tol=1e-16, max_iter=100)
    model = in_units(fit, ("a", "b"), (), np.unique(people.blocks))
    zeros = unbin.aggregate((people.labels == "b").astype(float), people.blocks, [-1, 0, 1])
    glm = unbin.AggregatedGLM("binomial", alpha=0.0, tol=1e-9)
    glm.fit(people.X, zeros.align(people.blocks))
    assert glm.block_sd_ == 0
    np.testing.assert_allclose(model.coef[1] - model.coef[0], glm.coef_, atol=1e-8)
    assert model.intercept[1] - model.intercept[0] == pytest.approx(glm.intercept_, abs=1e-8)
    between = np.einsum("kjlj->jkl", model.covariance.reshape(2, 3, 2, 3))
    errors = np.sqrt(np.einsum("k,jkl,l->j", [-1, 1], between, [-1, 1]))
    np.testing.assert_allclose(errors[1:], glm.standard_errors_, rtol=1e-6)  # CR3 of both
    assert model.df_residual == 27


def test_two_categories_with_groups_are_no_binomial_family():
    people = two(effect_sd=0.3, by_group=True)
    target = unbin.aggregate(people.labels, people.blocks).align(people.blocks)
    frame = pd.DataFrame(people.X, columns=["age", "member"])
    model = unbin.AggregatedClassifier(random=["member"]).fit(frame, target)
    plain = unbin.AggregatedClassifier().fit(frame, target)
    assert model.coef_.shape == model.standard_errors_.shape == (1, 2)
    assert model.decision_function(frame).shape == (len(frame),)
    assert model.effect_sd_.shape == (2,)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=4 * plain.standard_errors_.max())


# -- ridge, priors ---------------------------------------------------------------------------------


def test_a_ridge_is_that_of_all_people():
    people = draw_votes()
    target = unbin.aggregate(people.labels, people.blocks).align(people.blocks)
    fitted = {a: unbin.AggregatedClassifier(a).fit(people.X, target) for a in (0.0, 1.0, 1e4)}
    sizes = [np.abs(model.coef_).sum() for model in fitted.values()]
    assert sizes[0] > sizes[1] > sizes[2]
    assert sizes[2] < 1e-3
    assert fitted[1.0].alpha_ == 1.0


def test_levels_of_groups_are_drawn_to_the_pooled_shares(monkeypatch):
    people = draw_votes(n_blocks=6, size=30)
    problem = problem_of(people, grouped=True)
    how = {"alpha": None, "tol": 1e-8, "max_iter": 200}
    weak = fit_categories(problem, **how)
    monkeypatch.setattr(fits, "_LEVEL_SD", 1e-3)
    strong = fit_categories(problem, **how)
    level = fits.group_columns(problem)
    pooled = problem.start()[:, 0]
    held = (strong.root.gamma[:, : problem.design.n_parameters] @ level.T) - pooled[:, None]
    free = (weak.root.gamma[:, : problem.design.n_parameters] @ level.T) - pooled[:, None]
    assert np.abs(held).max() < 0.01 < 0.1 < np.abs(free).max()


def test_coef_is_shrunk_and_predicts_and_estimates_are_not():
    rng = np.random.default_rng(0)
    people = draw_votes(n_blocks=60, size=30)
    more = rng.normal(size=(60, 12)).repeat(30, axis=0) + rng.normal(size=(1800, 12))
    X = np.column_stack([people.X, more])
    target = unbin.aggregate(people.labels, people.blocks).align(people.blocks)
    auto = unbin.AggregatedClassifier().fit(X, target)
    free = unbin.AggregatedClassifier(0.0).fit(X, target)
    estimates = auto.conf_int().mean(axis=2)
    np.testing.assert_allclose(estimates, free.coef_, atol=5e-3)
    assert auto.alpha_ > 0
    assert np.abs(auto.coef_[:, 2:]).mean() < 0.85 * np.abs(estimates[:, 2:]).mean()
    eta = X @ auto.coef_.T + auto.intercept_
    np.testing.assert_allclose(auto.decision_function(X), eta, atol=1e-9)


# -- known people beside tables --------------------------------------------------------------------


def test_labels_of_everybody_outside_the_tables_are_all_that_counts():
    people = draw_votes(n_blocks=10, size=60)
    problem = problem_of(people, known=np.arange(300))
    fit = fit_categories(problem, alpha=0.0, effects=False, tol=1e-14, max_iter=100)
    blind = replace(problem, tables=(replace(problem.counts, known=problem.counts.known & False),))
    labels = fit_categories(blind, alpha=0.0, effects=False, tol=1e-14, max_iter=100)
    model = in_units(labels, ("a", "b", "c"), (), np.unique(people.blocks))
    peer = unbin.AggregatedClassifier(0.0, tol=1e-9).fit(people.X[:300], people.labels[:300])
    np.testing.assert_allclose(model.coef, peer.coef_, atol=1e-7)
    trace = [np.trace(each.precision.covariance) for each in (fit, labels)]
    assert trace[0] < trace[1]  # tables tell something besides


def votes_in_states(seed, n_states=20, precincts=8, size=50):
    """Return people, their votes, precincts and states; every state leans its own way."""
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(n_states * precincts), size)
    state = code // precincts
    X = rng.normal(size=(len(code), 1)) + 0.7 * rng.normal(size=(n_states, 1))[state]
    X += 0.5 * rng.normal(size=(n_states * precincts, 1))[code]
    eta = X * [0.0, 0.6, -0.4] + 0.5 * rng.normal(size=(n_states, 3))[state]
    vote = np.array(["a", "b", "c"])[(eta + rng.gumbel(size=eta.shape)).argmax(axis=1)]
    return X, vote, np.char.add("p", code.astype(str)), np.char.add("s", state.astype(str))


def test_intervals_hold_by_state_and_not_by_precinct():
    true = np.array([0.0, 0.6, -0.4]) - 0.2 / 3
    held = {False: [], True: []}
    for seed in range(15):
        X, vote, precinct, state = votes_in_states(seed)
        target = unbin.aggregate(vote, precinct).align(precinct)
        for by_state, own in held.items():
            model = unbin.AggregatedClassifier()
            table = model.fit(X, target, cluster=state if by_state else None).tidy(backend="pandas")
            slope = table[table["term"] == "x0"]
            own.append((slope["conf_low"] < true) & (slope["conf_high"] > true))
    assert np.mean(held[False]) < 0.85
    assert np.mean(held[True]) > 0.9


def test_clusters_of_votes_are_said_and_kept(tmp_path):
    X, vote, precinct, state = votes_in_states(0)
    release = unbin.aggregate(vote, precinct)
    model = unbin.AggregatedClassifier().fit(X, release.align(precinct), cluster=state)
    assert "by 20 clusters" in str(model.summary())
    unbin.save(model, tmp_path / "model.json")
    assert str(unbin.load(tmp_path / "model.json").summary()) == str(model.summary())
    people = pd.DataFrame({"x": X[:, 0], "precinct": precinct, "state": state})
    people.to_parquet(tmp_path / "people.parquet")
    how = {"features": ["x"], "cluster": "state"}
    for given in (people, tmp_path / "people.parquet"):
        other = unbin.AggregatedClassifier().fit(given, {"precinct": release}, **how)
        np.testing.assert_allclose(other._model.covariance, model._model.covariance, atol=1e-12)
    two = unbin.aggregate(np.where(vote == "a", "a", "b"), precinct).align(precinct)
    assert "by 20 clusters" in str(
        unbin.AggregatedClassifier().fit(X, two, cluster=state).summary()
    )
    everybody = unbin.aggregate(vote, state)
    with pytest.raises(AlignmentError, match="must lie in one"):
        unbin.AggregatedClassifier().fit(X, everybody.align(state), cluster=precinct)
    joined = unbin.join(release.align(precinct), everybody.align(state))
    with pytest.raises(ParameterError, match="one table"):
        unbin.AggregatedClassifier().fit(X, joined, cluster=state)
