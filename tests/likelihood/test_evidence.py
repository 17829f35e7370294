"""The evidence ridge: its fixed point, where it acts, and what stays unpenalised."""

import re
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit

import unbin
from tests.helpers.releases import quantile_release
from unbin.likelihood.infer import evidence
from unbin.likelihood.infer.evidence import evidence_ridge

# -- the ridge ------------------------------------------------------------------------------------


def regression(seed, signal, n=60, d=5):
    """Return information, score at 0 and slopes of a linear model with an intercept, noise 1."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, d))])
    y = 2.0 + X[:, 1:] @ (signal * rng.normal(size=d)) + rng.normal(size=n)
    return X, y


def log_evidence(log_size, X, y):
    """Return the log density of y with slopes from N(0, 1/size), the intercept integrated out."""
    n = len(y)
    covariance = np.eye(n) + X[:, 1:] @ X[:, 1:].T / np.exp(log_size)
    inverse = np.linalg.inv(covariance)
    ones = X[:, 0]
    across = ones @ inverse @ ones
    left = y - ones * (ones @ inverse @ y) / across
    return -0.5 * (np.linalg.slogdet(covariance)[1] + np.log(across) + float(left @ inverse @ left))


@pytest.mark.parametrize("seed", range(4))
def test_it_has_the_largest_evidence(seed):
    X, y = regression(seed, signal=0.8)
    slopes = np.arange(X.shape[1]) > 0
    found = evidence_ridge(X.T @ X, X.T @ y, np.zeros(X.shape[1]), slopes, 1.0)
    best = minimize_scalar(
        lambda at: -log_evidence(at, X, y), bounds=(-5, 15), method="bounded",
        options={"xatol": 1e-8},
    )  # fmt: skip
    assert np.log(found.size) == pytest.approx(best.x, abs=1e-4)


def test_it_does_not_depend_on_where_statistics_are_linearised():
    X, y = regression(0, signal=0.4)
    slopes, J = np.arange(X.shape[1]) > 0, X.T @ X
    at = np.arange(6.0)
    here = evidence_ridge(J, X.T @ y, np.zeros(6), slopes, 2.0)
    there = evidence_ridge(J, X.T @ (y - X @ at), at, slopes, 2.0)
    assert here.size == pytest.approx(there.size)


def test_without_signal_no_slope_is_left():
    X, _ = regression(0, signal=0.0)
    slopes, J = np.arange(X.shape[1]) > 0, X.T @ X
    found = evidence_ridge(J, 1e-3 * np.ones(6), np.zeros(6), slopes, 1.0)
    assert found.size > 1e5 * found.largest
    assert found.n_told < 1e-4


def test_slopes_without_information_have_no_ridge():
    slopes = np.array([False, True])
    assert evidence_ridge(np.diag([5.0, 0.0]), np.zeros(2), np.zeros(2), slopes, 1.0) is None


# -- where it acts --------------------------------------------------------------------------------


def people(seed=0, d=2, between=1.0, blocks=40, size=50, slope=0.5, effect=0.0):
    """Return features, a gaussian outcome and blocks."""
    rng = np.random.default_rng(seed)
    block = np.repeat([f"{b:03d}" for b in range(blocks)], size)
    X = rng.normal(size=(blocks * size, d))
    X += between * rng.normal(size=(blocks, d)).repeat(size, axis=0)
    y = X @ np.full(d, slope) + rng.normal(size=blocks * size)
    return X, y + effect * rng.normal(size=blocks).repeat(size), block


def fitted(X, y, block, family="gaussian", bins=5, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        target = unbin.aggregate(y, block, bins).align(block)
        return unbin.AggregatedGLM(family, random_state=0, **settings).fit(X, target)


def estimates(model):
    """Return what tables of results show: slopes without a ridge."""
    return model.tidy()["estimate"].to_numpy()[-model.n_features_in_ :]


@pytest.mark.parametrize("family", ["gaussian", "ordinal"])
def test_a_strong_design_has_none(family):
    X, y, block = people()
    model, plain = (fitted(X, y, block, family, alpha=a) for a in (None, 0.0))
    assert model.alpha_ == 0
    np.testing.assert_allclose(estimates(model), model.coef_, rtol=1e-12)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_a_weak_design_has_it_for_coef_and_predictions():
    X, y, block = people(d=10, between=0.25, blocks=60, slope=0.05)
    model, plain = (fitted(X, y, block, alpha=a) for a in (None, 0.0))
    share = np.linalg.norm(model.coef_ * X.std(axis=0))
    share /= np.linalg.norm(estimates(model) * X.std(axis=0))
    assert share < 0.9
    said = rf"coef_ and predictions: slopes are shrunk.*to {share:.0%} of their length, because"
    assert re.search(said, str(model.diagnostics_))
    assert re.search(said, " ".join(str(model.summary()).split()))
    low, high = model.conf_int().T
    np.testing.assert_allclose((low + high) / 2, estimates(model), rtol=1e-9)
    truth = X @ np.full(10, 0.05)
    error, plain_error = (np.mean((m.predict(X) - truth) ** 2) for m in (model, plain))
    assert error < 0.9 * plain_error
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_, rtol=1e-12)


def test_a_weak_design_is_not_told_with_the_gate_turned_off(monkeypatch):
    monkeypatch.setattr(evidence, "WEAK", np.inf)
    X, y, block = people(d=10, between=0.25, blocks=60, slope=0.05)
    assert fitted(X, y, block).alpha_ == 0


def test_auto_always_has_it_and_zero_never():
    X, y, block = people()
    assert fitted(X, y, block, alpha="auto").alpha_ > 0
    X, y, block = people(d=10, between=0.25, blocks=60, slope=0.05)
    assert fitted(X, y, block, alpha=0.0).alpha_ == 0


def test_intervals_of_a_weak_design_cover():
    hits = []
    for seed in range(20):
        X, y, block = people(seed, d=8, between=0.3, blocks=60, slope=0.1)
        model = fitted(X, y, block)
        assert model.alpha_ > 0
        low, high = model.conf_int().T
        hits.append((low <= 0.1) & (high >= 0.1))
    assert np.mean(hits) > 0.9


@pytest.mark.parametrize("factor", [1e-9, 100.0, 1e9])
def test_units_of_outcomes_and_features(factor):
    X, y, block = people(d=10, between=0.25, blocks=60, slope=0.05)
    model, money = fitted(X, y, block), fitted(X, factor * y, block)
    np.testing.assert_allclose(money.coef_, factor * model.coef_, rtol=1e-5)
    np.testing.assert_allclose(money.alpha_, model.alpha_ / factor**2, rtol=1e-5)
    scale = np.where(np.arange(10) < 5, factor, 1.0)
    mixed = fitted(X * scale, y, block)
    np.testing.assert_allclose(mixed.coef_ * scale, model.coef_, rtol=1e-5)
    assert mixed.alpha_ == pytest.approx(model.alpha_, rel=1e-5)


# -- fits that fail -------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "bins"), [("gaussian", 2), ("gaussian", 8), ("ordinal", 4)])
def test_one_block_predicts_the_pooled_mean(family, bins):
    X, y, _ = people(d=8)
    model = fitted(X, y, np.full(len(y), "all"), family, bins)
    assert set(model.diagnostics_.verdicts) == {"not estimable"}
    error = np.sqrt(np.mean((model.predict(X) - y) ** 2))
    assert error < 1.02 * y.std()


def separated(seed=0):
    """Return people of whom a rare kind always has an outcome of 1."""
    rng = np.random.default_rng(seed)
    block = np.repeat([f"{b:03d}" for b in range(30)], 40)
    rare = (rng.random(1200) < 0.01).astype(float)
    x = rng.normal(size=1200) + rng.normal(size=30).repeat(40)
    y = (rng.random(1200) < 1 / (1 + np.exp(-x))) | (rare > 0)
    return np.column_stack([x, rare]), y.astype(float), block


def test_a_separated_feature_stays_finite():
    X, y, block = separated()
    model = fitted(X, y, block, "binomial", [-1, 0, 1])
    assert np.abs(model.predict(X) - y).max() <= 1
    assert np.abs(model.coef_).max() < 10


def confounded(seed=0):
    """Return people whose blocks differ by prices that go with a feature, and not with people."""
    rng = np.random.default_rng(seed)
    block = np.repeat([f"{b:03d}" for b in range(40)], 400)
    move = rng.normal(size=(40, 6))
    X = rng.normal(size=(16000, 6)) + 0.1 * move.repeat(400, axis=0)
    price = move @ np.full(6, 0.4) + 0.8 * rng.normal(size=40)
    y = 0.1 * X[:, 0] + price.repeat(400) + rng.exponential(size=16000)
    return X, y, block


def over_pooled_mean(family):
    """Return the error of predictions over that of the pooled mean."""
    X, y, block = confounded()
    error = np.mean((fitted(X, y, block, family, 8).predict(X) - y) ** 2)
    return np.sqrt(error) / y.std()


@pytest.mark.parametrize("family", ["gaussian", "ordinal"])
def test_confounded_blocks_predict_no_worse_than_the_pooled_mean(family):
    assert over_pooled_mean(family) < 1.02


def test_they_do_without_the_least_ridge(monkeypatch):
    monkeypatch.setattr(evidence, "APART", np.inf)
    assert over_pooled_mean("gaussian") > 1.05


def test_rejected_counts_predict_from_levels():
    """Slopes read off the shape of counts that are not Poisson predicted many times too much."""
    rng = np.random.default_rng(0)
    block = np.repeat([f"{b:03d}" for b in range(100)], 50)
    X = rng.exponential(size=(5000, 2)) ** 2 + rng.normal(size=(100, 2)).repeat(50, axis=0)
    y = rng.negative_binomial(0.5, 0.5 / (0.5 + np.exp(0.5 + 0.1 * X.sum(axis=1).clip(max=10))))
    bins, error = [-1, 0, 1, 3, 1000], {}
    for robust in (False, "auto"):
        model = fitted(X, y.astype(float), block, "poisson", bins, robust=robust, alpha=0)
        assert not model.diagnostics_.trusted
        error[robust] = np.sqrt(np.mean((model.predict(X) - y) ** 2)) / y.std()
    assert error["auto"] < 1.02
    assert error[False] > 2


# -- several tables, files ------------------------------------------------------------------------


def test_several_tables_have_it_too(tmp_path):
    X, y, block = people(d=10, between=0.25, blocks=60, slope=0.05)
    sex = np.where(np.random.default_rng(1).random(len(y)) < 0.5, "f", "m")
    tables = {"block": unbin.aggregate(y, block, 5), "sex": unbin.aggregate(y, sex, 5)}
    target = unbin.join(tables["block"].align(block), tables["sex"].align(sex))
    model = unbin.AggregatedGLM().fit(X, target)
    assert model.alpha_ > 0
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_, rtol=1e-12)
    unbin.save(model, tmp_path / "model.json")
    again = unbin.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.alpha_ == model.alpha_


def test_slopes_of_levels_alone_are_those_without_the_ridge():
    """The misfit sets their dispersion, which would take up what shrunk slopes leave."""
    rng = np.random.default_rng(0)
    county = np.repeat(np.arange(30), 40)
    X = rng.normal(size=(1200, 3)) + 0.3 * rng.normal(size=(30, 3))[county]
    y = X @ [0.5, -0.3, 0.2] + rng.normal(size=1200)
    names, sex = county.astype(str), np.where(X[:, 0] > 0, "m", "f")
    published = [quantile_release(y, ids).align(ids) for ids in (names, sex)]
    target = unbin.join(*published)
    plain, shrunk = (unbin.AggregatedGLM(alpha=alpha).fit(X, target) for alpha in (0, "auto"))
    np.testing.assert_array_equal(estimates(shrunk), plain.coef_)
    np.testing.assert_array_equal(shrunk.standard_errors_, plain.standard_errors_)
    ratio = shrunk.coef_ / plain.coef_
    assert (ratio > 0.5).all()
    assert (ratio < 1).all()


def test_one_way_tables_of_all_features_leave_slopes_that_are_told_alone():
    """With hardly a degree of freedom Q/df at slopes of 0 is all signal: no slope was left."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, (4000, 6)), rng.normal(size=4000)]).astype(float)
    chance = expit(X @ [1.5, -1.0, 1.0, -1.5, 0.8, 1.2, 0.7] - 1)
    y = (rng.random(4000) < chance).astype(float)
    ids = [x.astype(int).astype(str) for x in X.T[:6]]
    ids.append(np.digitize(X[:, 6], [-0.7, 0, 0.7]).astype(str))
    tables = [unbin.aggregate(y, each, [-1, 0, 1]).align(each) for each in ids]
    model = unbin.AggregatedGLM("binomial", alpha="auto").fit(X, unbin.join(*tables))
    np.testing.assert_allclose(model.coef_, estimates(model), rtol=0.05)
    assert (np.abs(model.coef_) > 0.6).all()
