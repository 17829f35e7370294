"""Observed targets of the dispersion families, and standard errors, against statsmodels."""

import numpy as np
import pytest
import statsmodels.api as sm

import unbin
from unbin.exceptions import IdentificationWarning, ParameterError


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    return rng, X, np.exp(0.5 + X @ [0.4, -0.3, 0.0])


def test_negative_binomial_equals_statsmodels(rows):
    rng, X, mean = rows
    y = rng.poisson(mean * rng.gamma(2.0, 0.5, len(mean))).astype(float)
    ours = unbin.AggregatedGLM("negative-binomial").fit(X, y)
    theirs = sm.NegativeBinomial(y, sm.add_constant(X)).fit(disp=False, gtol=1e-8, maxiter=200)
    np.testing.assert_allclose(ours.coef_, theirs.params[1:4], atol=1e-4)
    assert ours.dispersion_ == pytest.approx(theirs.params[4], rel=1e-3)
    np.testing.assert_allclose(ours.standard_errors_, theirs.bse[1:4], rtol=0.03)


def test_gamma_equals_statsmodels(rows):
    rng, X, mean = rows
    y = rng.gamma(3.0, mean / 3.0)
    ours = unbin.AggregatedGLM("gamma").fit(X, y)
    family = sm.families.Gamma(link=sm.families.links.Log())
    theirs = sm.GLM(y, sm.add_constant(X), family=family).fit(tol=1e-12)
    np.testing.assert_allclose(ours.coef_, theirs.params[1:], atol=1e-4)
    assert ours.dispersion_ == pytest.approx(1 / 3, rel=0.05)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_standard_errors_equal_statsmodels(rows, family):
    rng, X, mean = rows
    law = {"gaussian": sm.families.Gaussian(), "poisson": sm.families.Poisson()}[family]
    y = rng.poisson(mean).astype(float)
    ours = unbin.AggregatedGLM(family).fit(X, y)
    theirs = sm.GLM(y, sm.add_constant(X), family=law).fit()
    np.testing.assert_allclose(ours.standard_errors_, theirs.bse[1:], rtol=1e-5)
    np.testing.assert_allclose(ours.conf_int(), theirs.conf_int()[1:], atol=1e-5)
    assert "observed" in str(ours.summary())


def test_beta_binomial_recovers_the_truth():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 2))
    pi = 1 / (1 + np.exp(-(X @ [0.8, -0.4])))
    w = 0.3
    y = rng.binomial(10, rng.beta(pi / w, (1 - pi) / w)).astype(float)
    model = unbin.AggregatedGLM("beta-binomial", n_trials=10).fit(X, y)
    np.testing.assert_allclose(model.coef_, [0.8, -0.4], atol=0.06)
    assert model.dispersion_ == pytest.approx(w, rel=0.15)


def test_log_targets_are_predicted_in_their_own_units(rows):
    rng, X, mean = rows
    y = mean * np.exp(0.5 * rng.normal(size=len(mean)))
    model = unbin.AggregatedGLM(target_transform="log").fit(X, y)
    assert model.predict(X).mean() == pytest.approx(y.mean(), rel=0.03)


def test_ordinal_needs_bins(rows):
    _, X, mean = rows
    with pytest.raises(ParameterError, match="needs published bins"):
        unbin.AggregatedGLM("ordinal").fit(X, mean)


@pytest.mark.parametrize(
    ("family", "share", "column"),
    [("binomial", 0.5, "threshold"), ("binomial", 0.1, "dummy"), ("poisson", 0.1, "dummy")],
)
def test_separation_is_said(family, share, column):
    """A feature that separates some people's targets: its coefficient diverges without a ridge."""
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=300), rng.normal(size=300)
    apart = x > 0 if column == "threshold" else rng.random(300) < share
    y = apart | (rng.random(300) < 0.5) if column == "dummy" else apart
    if family == "poisson":
        y = rng.poisson(1.0, 300) * ~apart
    X = np.column_stack([x if column == "threshold" else apart, z]).astype(float)
    with pytest.warns(IdentificationWarning, match="separation"):
        model = unbin.AggregatedGLM(family).fit(X, y.astype(float))
    assert not model.diagnostics_.identified
    model = unbin.AggregatedGLM(family, alpha=0.01).fit(X, y.astype(float))
    assert model.diagnostics_.identified


def test_a_steep_slope_is_not_separation():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1))
    y = (rng.random(2000) < 1 / (1 + np.exp(-4 * X[:, 0]))).astype(float)
    assert unbin.AggregatedGLM("binomial").fit(X, y).diagnostics_.identified


def test_columns_that_are_combinations_of_others_are_said(rows):
    rng, X, _ = rows
    y = X[:, 0] + rng.normal(size=len(X))
    with pytest.warns(IdentificationWarning, match="combinations of others"):
        model = unbin.AggregatedGLM().fit(np.column_stack([X, X[:, 0] - X[:, 1]]), y)
    assert not model.diagnostics_.identified


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
@pytest.mark.parametrize("y", ["observed", "likelihood"])
def test_constant_features_change_nothing_else(y):
    """They are not fitted: neither in degrees of freedom nor in the effects of blocks."""
    rng = np.random.default_rng(0)
    blocks = np.repeat([f"{b:02d}" for b in range(60)], 30)
    X = rng.normal(size=(1800, 1)) + np.repeat(rng.normal(size=(60, 1)), 30, axis=0)
    target = X[:, 0] + np.repeat(rng.normal(0, 0.5, 60), 30) + rng.normal(size=1800)
    if y == "likelihood":
        target = unbin.aggregate(target, blocks, 5).align(blocks)
    wide = np.column_stack([X, np.ones((1800, 4))])
    alone, more = (unbin.AggregatedGLM(tol=1e-8).fit(x, target) for x in (X, wide))
    assert y == "observed" or alone.block_sd_ > 0.3
    assert more.block_sd_ == pytest.approx(alone.block_sd_, rel=1e-6)
    assert more.dispersion_ == pytest.approx(alone.dispersion_, rel=1e-6)
    np.testing.assert_allclose(more.coef_[0], alone.coef_[0], rtol=1e-6)
    np.testing.assert_allclose(more.standard_errors_[0], alone.standard_errors_[0], rtol=1e-6)


@pytest.mark.parametrize("y", ["observed", "likelihood", "matching"])
def test_constant_features_are_not_estimable(y):
    rng = np.random.default_rng(0)
    blocks = np.repeat([f"{b:02d}" for b in range(40)], 30)
    X = np.column_stack([rng.normal(size=1200) + np.repeat(rng.normal(size=40), 30), np.ones(1200)])
    target = X[:, 0] + rng.normal(size=1200)
    model = unbin.AggregatedGLM(method="matching" if y == "matching" else "likelihood")
    if y != "observed":
        target = unbin.aggregate(target, blocks, 5).align(blocks)
    with pytest.warns(IdentificationWarning, match="1 of 2 features are the same for everybody"):
        model.fit(X, target)
    assert model.coef_[1] == 0
    if y != "matching":
        assert model.standard_errors_[0] > 0
        assert np.isnan(model.standard_errors_[1])
    with pytest.warns(IdentificationWarning, match="2 of 2 features"):
        model.fit(np.ones((1200, 2)), target)
    np.testing.assert_array_equal(model.coef_, 0.0)
