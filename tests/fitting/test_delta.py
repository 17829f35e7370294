"""Standard deviations of predicted means, and average marginal effects."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit

import unbin
from tests.helpers.cases import draw_targets, make_case, names_of
from unbin.exceptions import ParameterError
from unbin.families import get_family
from unbin.fitting.delta import MeanCurve, parameter_covariance
from unbin.fitting.methods import _shrunk_covariance
from unbin.fitting.transforms import TRANSFORMS
from unbin.likelihood import fit_likelihood

PEERS = {"poisson": sm.families.Poisson(), "binomial": sm.families.Binomial()}


def draw(family, seed=0, n=1500):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"age": rng.normal(size=n), "sex": rng.integers(0, 2, n), "dose": rng.exponential(size=n)}
    ).astype(float)
    eta = X.to_numpy() @ [0.5, 0.4, -0.3]
    y = rng.poisson(np.exp(eta)) if family == "poisson" else rng.random(n) < expit(eta)
    return X, y.astype(float)


def fit_table(family, seed=1, **how):
    case = make_case(seed, kind=family, d=2, n_blocks=60, size=60)
    model = unbin.AggregatedGLM(family, n_trials=20, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return case, model.fit(case.X, case.release.align(names_of(case)))


@pytest.mark.parametrize("family", PEERS)
def test_means_and_effects_are_those_of_statsmodels(family):
    X, y = draw(family)
    model = unbin.AggregatedGLM(family).fit(X, y)
    peer = sm.GLM(y, sm.add_constant(X), family=PEERS[family]).fit()
    mean, std = model.predict(X, return_std=True)
    theirs = peer.get_prediction(sm.add_constant(X))
    np.testing.assert_allclose(mean, theirs.predicted_mean, rtol=1e-4)
    np.testing.assert_allclose(std, theirs.se_mean, rtol=1e-3)
    effects, margins = model.marginal_effects(), peer.get_margeff(dummy=True)
    assert list(effects["term"]) == ["age", "sex", "dose"]
    assert list(effects["contrast"]) == ["dY/dX", "1 - 0", "dY/dX"]
    np.testing.assert_allclose(effects["estimate"], margins.margeff, rtol=1e-4)
    np.testing.assert_allclose(effects["std_error"], margins.margeff_se, rtol=1e-3)


def test_effects_are_over_the_people_who_are_given():
    X, y = draw("poisson")
    model = unbin.AggregatedGLM("poisson").fit(X, y)
    held, given = model.marginal_effects(), model.marginal_effects(X)
    pd.testing.assert_frame_equal(held, given)
    some, weights = X[:300], np.r_[np.ones(300), np.zeros(len(X) - 300)]
    pd.testing.assert_frame_equal(
        model.marginal_effects(some), model.marginal_effects(X, weights=weights)
    )
    assert not np.allclose(model.marginal_effects(some)["estimate"], held["estimate"])


@pytest.mark.parametrize("family", ["gaussian", "poisson", "gamma", "binomial", "ordinal"])
def test_errors_are_those_of_drawn_parameters(family):
    # the delta method against the spread of means and effects at parameters drawn from their law
    case, model = fit_table(family)
    fit, X = model._fits[0].for_prediction(), case.X[:40]
    rng, base = np.random.default_rng(0), parameter_covariance(model._fits[0].for_prediction())
    root = np.linalg.cholesky(base[1:, 1:] if fit.bins is not None else base)
    means, effects = [], []
    for _ in range(400):
        move = 0.1 * root @ rng.normal(size=len(root))
        move = np.r_[0.0, move] if fit.bins is not None else move
        drawn = replace(fit, intercept=fit.intercept + move[0], coef=fit.coef + move[1:3])
        if fit.bins is not None:
            bins = replace(fit.bins, thresholds=fit.bins.thresholds + move[3:])
            drawn = replace(drawn, bins=bins)
        curve = MeanCurve(drawn, TRANSFORMS[None])
        means.append(curve.mean(drawn.eta(X)))
        effects.append(drawn.coef * curve.slope(drawn.eta(case.X)).mean())
    _, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(std, 10 * np.std(means, axis=0), rtol=0.15)
    found = model.marginal_effects()
    np.testing.assert_allclose(found["std_error"], 10 * np.std(effects, axis=0), rtol=0.15)


def test_errors_of_means_are_honest():
    # over tables drawn anew the means vary as much as their standard deviations say
    X = np.array([[0.5, -0.5], [2.0, 1.0]])
    found = [fit_table("poisson", seed)[1].predict(X, return_std=True) for seed in range(20, 60)]
    means, errors = (np.array([each[k] for each in found]) for k in (0, 1))
    ratio = means.std(axis=0) / np.median(errors, axis=0)
    assert (ratio > 0.7).all()
    assert (ratio < 1.4).all()


@pytest.mark.parametrize("transform", [None, "log"])
def test_slopes_and_curvatures_are_derivatives(transform):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = np.exp(X @ [0.3, 0.2] + 0.3 * rng.normal(size=500))
    model = unbin.AggregatedGLM("gaussian", target_transform=transform).fit(X, y)
    curve, at, h = MeanCurve(model._fits[0], TRANSFORMS[transform]), np.linspace(-1, 1, 5), 1e-5
    numeric = (curve.mean(at + h) - curve.mean(at - h)) / (2 * h)
    np.testing.assert_allclose(curve.slope(at), numeric, rtol=1e-6)
    numeric = (curve.slope(at + h) - curve.slope(at - h)) / (2 * h)
    np.testing.assert_allclose(curve.curvature(at), numeric, atol=1e-5)


def test_gaussian_effects_are_the_coefficients():
    _, model = fit_table("gaussian")
    effects, tidy = model.marginal_effects(), model.tidy()[1:]
    for name in ("estimate", "std_error", "p_value", "conf_low", "conf_high"):
        np.testing.assert_allclose(effects[name], tidy[name], rtol=1e-6)


def test_contextual_effects_are_effects_too():
    case = make_case(4, kind="poisson", d=2)
    model = unbin.AggregatedGLM("poisson", contextual=True)
    names = names_of(case)
    model.fit(case.X, case.release.align(names))
    held, given = model.marginal_effects(), model.marginal_effects(case.X, blocks=names)
    assert list(held["term"]) == ["x0", "x1", "block mean of x0", "block mean of x1"]
    pd.testing.assert_frame_equal(held, given)
    _, std = model.predict(case.X, blocks=names, return_std=True)
    _, average = model.predict(case.X, return_std=True)
    assert (std > 0).all()
    assert not np.allclose(std, average)


def test_a_shrunk_prediction_has_an_error_and_less_of_it():
    # one slope the table hardly tells: with the ridge predictions are surer than without
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(30), 40)
    between = rng.normal(size=30)
    X = rng.normal(size=(1200, 6)) * 0.05 + np.outer(between, np.ones(6))[codes]
    y = X[:, 0] + rng.normal(size=1200)
    target = unbin.aggregate(y, codes, 4).align(codes)
    plain, shrunk = (unbin.AggregatedGLM(alpha=a).fit(X, target) for a in (0.0, "auto"))
    assert np.abs(shrunk.coef_).sum() < np.abs(plain.coef_).sum()
    _, plain_std = plain.predict(X, return_std=True)
    _, shrunk_std = shrunk.predict(X, return_std=True)
    assert np.isfinite(shrunk_std).all()
    assert np.median(shrunk_std) < np.median(plain_std)


def test_shrunk_slopes_have_the_posterior_covariance():
    # where the covariance without the ridge is the model's, J⁻¹, that with it is (J + A)⁻¹
    case = make_case(3, d=3)
    found = fit_likelihood(case.design, [case.release], get_family("gaussian"), alpha="auto")
    assert found.shrunk is not None
    found = replace(found, covariance=np.linalg.inv(found.information))
    ridge = np.zeros(len(found.information))
    ridge[1:4] = found.shrunk.alpha * case.design.n_people
    wanted = np.linalg.inv(found.information + np.diag(ridge))
    np.testing.assert_allclose(_shrunk_covariance(case.design, found), wanted, rtol=1e-6)


def test_constant_columns_are_held():
    case = make_case(3, kind="poisson", d=2)
    X = np.column_stack([case.X, np.ones(len(case.y))])
    with pytest.warns(UserWarning, match="the same for everybody"):
        model = unbin.AggregatedGLM("poisson").fit(X, case.release.align(names_of(case)))
    effects = model.marginal_effects()
    assert np.isfinite(effects["std_error"][:2]).all()
    assert np.isnan(effects["std_error"][2])
    assert np.isfinite(model.predict(X, return_std=True)[1]).all()


def test_a_loaded_model_needs_the_people(tmp_path):
    case, model = fit_table("ordinal")
    unbin.save(model, tmp_path / "model.json", public=True)
    loaded = unbin.load(tmp_path / "model.json")
    with pytest.raises(ParameterError, match=r"holds no people .*; pass their features"):
        loaded.marginal_effects()
    pd.testing.assert_frame_equal(loaded.marginal_effects(case.X), model.marginal_effects())
    for mine, theirs in zip(
        loaded.predict(case.X, return_std=True), model.predict(case.X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_offsets_and_several_targets():
    rng = np.random.default_rng(0)
    X, log_time = rng.normal(size=(900, 2)), rng.normal(size=900)
    y = draw_targets("poisson", X @ [0.3, 0.2] + log_time, rng)
    model = unbin.AggregatedGLM("poisson").fit(X, y, offset=log_time)
    pd.testing.assert_frame_equal(
        model.marginal_effects(), model.marginal_effects(X, offset=log_time)
    )
    codes = np.repeat(np.arange(30), 30)
    targets = [unbin.aggregate(v, codes, 4).align(codes) for v in (X[:, 0] + y, X[:, 1] - y)]
    both = unbin.AggregatedGLM().fit(X, targets)
    mean, std = both.predict(X, return_std=True)
    assert mean.shape == std.shape == (900, 2)
    with pytest.raises(ParameterError, match="marginal_effects: needs a model of one target"):
        both.marginal_effects()


def test_matching_has_no_errors_of_means():
    case = make_case(3, d=2)
    model = unbin.AggregatedGLM(method="matching").fit(case.X, case.release.align(names_of(case)))
    for ask in (
        lambda: model.predict(case.X, return_std=True),
        lambda: model.predict_interval(case.X),
        model.marginal_effects,
    ):
        with pytest.raises(ParameterError, match="use method='likelihood'"):
            ask()


def test_matrices_of_tabmat_have_errors_too():
    tabmat = pytest.importorskip("tabmat")
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=600), rng.integers(0, 2, 600)]).astype(float)
    y = X @ [0.5, 0.3] + rng.normal(size=600)
    wide = tabmat.SplitMatrix([tabmat.DenseMatrix(X[:, [0]]), tabmat.DenseMatrix(X[:, [1]])])
    codes = np.repeat(np.arange(30), 20)
    target = unbin.aggregate(y, codes, 4).align(codes)
    model, plain = (unbin.AggregatedGLM().fit(each, target) for each in (wide, X))
    for mine, theirs in zip(
        model.predict(wide, return_std=True), plain.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    with pytest.raises(ParameterError, match="holds no people"):
        model.marginal_effects()
    np.testing.assert_allclose(
        model.marginal_effects(wide)["std_error"], plain.marginal_effects()["std_error"], rtol=1e-5
    )
