"""Observed targets: the ordinary GLM, against glum, scikit-learn and statsmodels."""

import numpy as np
import pytest
import statsmodels.api as sm
from glum import GeneralizedLinearRegressor
from sklearn.linear_model import LinearRegression, PoissonRegressor, Ridge

import unbin
from unbin.datasets import simulate
from unbin.exceptions import IdentificationWarning

GLUM = {"gaussian": "normal", "poisson": "poisson", "binomial": "binomial"}
STATSMODELS = {
    "gaussian": sm.families.Gaussian(),
    "poisson": sm.families.Poisson(),
    "binomial": sm.families.Binomial(),
}


def data(family, n_trials=1):
    people = simulate(2000, 4, 20, family=family, intercept=0.3, n_trials=n_trials, random_state=3)
    return people.X * [1.0, 10.0, 0.1, 1.0] + [0.0, 2000.0, 0.0, 5.0], people.y


@pytest.mark.parametrize("family", GLUM)
@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_equals_glum(family, alpha, fit_intercept):
    X, y = data(family)
    if not fit_intercept:
        X = X - X.mean(axis=0)
    ours = unbin.AggregatedGLM(family, alpha=alpha, fit_intercept=fit_intercept).fit(X, y)
    theirs = GeneralizedLinearRegressor(
        family=GLUM[family], alpha=alpha, fit_intercept=fit_intercept, gradient_tol=1e-10
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-4)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-5)


@pytest.mark.parametrize(
    ("family", "alpha", "peer"),
    [
        ("gaussian", 0.0, LinearRegression()),
        ("gaussian", 0.5, Ridge(alpha=0.5 * 2000)),
        ("poisson", 0.2, PoissonRegressor(alpha=0.2, tol=1e-10, max_iter=5000)),
    ],
)
def test_equals_scikit_learn(family, alpha, peer):
    X, y = data(family)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    ours = unbin.AggregatedGLM(family, alpha=alpha).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.fit(X, y).coef_, atol=1e-6)
    assert ours.intercept_ == pytest.approx(peer.intercept_, abs=1e-6)
    assert ours.score(X, y) == pytest.approx(peer.score(X, y), abs=1e-6)


@pytest.mark.parametrize("family", STATSMODELS)
def test_equals_statsmodels_with_an_offset(family):
    X, y = data(family)
    offset = np.linspace(-0.5, 0.5, len(y))
    ours = unbin.AggregatedGLM(family).fit(X, y, offset=offset)
    theirs = sm.GLM(y, sm.add_constant(X), family=STATSMODELS[family], offset=offset).fit(tol=1e-12)
    np.testing.assert_allclose(ours.coef_, theirs.params[1:], atol=1e-6)
    np.testing.assert_allclose(
        ours.predict(X, offset=offset), theirs.fittedvalues, atol=1e-6, rtol=1e-6
    )


def test_binomial_with_trials_equals_statsmodels():
    X, y = data("binomial", n_trials=20)
    ours = unbin.AggregatedGLM("binomial", n_trials=20).fit(X, y)
    theirs = sm.GLM(
        np.column_stack([y, 20 - y]), sm.add_constant(X), family=sm.families.Binomial()
    ).fit(tol=1e-12)
    np.testing.assert_allclose(ours.coef_, theirs.params[1:], atol=1e-6)
    np.testing.assert_allclose(ours.predict(X), 20 * theirs.fittedvalues, atol=1e-5)


def test_collinear_columns_give_the_same_predictions():
    X, y = data("gaussian")
    twice = np.column_stack([X, X[:, 0], np.ones(len(X))])
    a = unbin.AggregatedGLM().fit(X, y)
    with pytest.warns(IdentificationWarning, match="the same for everybody"):
        b = unbin.AggregatedGLM().fit(twice, y)
    np.testing.assert_allclose(a.predict(X), b.predict(twice), atol=1e-6)
