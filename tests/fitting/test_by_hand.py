"""Predictions are worked out from what a fitted model shows, and from nothing else."""

import warnings

import numpy as np
import pytest
from scipy.special import expit

import unbin
from unbin.families import FAMILIES
from unbin.families.latent import latent_scale

TRIALS = 5
N_BLOCKS, SIZE = 40, 40
BINS = {
    "binomial": [-1, 1, 2, 3, TRIALS],
    "beta-binomial": [-1, 1, 2, 3, TRIALS],
    "poisson": [-1, 0, 1, 2, 4, np.inf],
    "negative-binomial": [-1, 0, 1, 2, 4, np.inf],
    "gamma": [0, 0.5, 1, 2, 4, np.inf],
}
MEANS = {
    "gaussian": lambda eta: eta,
    "binomial": lambda eta: TRIALS * expit(eta),
    "beta-binomial": lambda eta: TRIALS * expit(eta),
}
CASES = [
    *((family, "likelihood", tables) for family in FAMILIES for tables in (1, 2)),
    *((family, "matching", 1) for family in ("gaussian", "poisson", "binomial")),
]


def people(family, seed=0):
    """Return features and outcomes whose shape is not quite the family's, with block effects."""
    rng = np.random.default_rng(seed)
    block = np.repeat(np.arange(N_BLOCKS), SIZE)
    X = rng.normal(size=(len(block), 3)) + 0.6 * rng.normal(size=(N_BLOCKS, 3))[block]
    eta = 0.3 + X @ [0.5, -0.3, 0.0] + 0.3 * rng.normal(size=N_BLOCKS)[block]
    eta = eta + 0.3 * rng.exponential(size=len(eta))
    if "binomial" in family and family != "negative-binomial":
        y = rng.binomial(TRIALS, expit(eta))
    elif family in ("poisson", "negative-binomial"):
        y = rng.poisson(np.exp(eta))
    elif family == "gamma":
        y = np.exp(eta) * rng.gamma(2.0, 0.5, len(eta))
    else:
        y = eta + rng.normal(size=len(eta))
    names = np.char.zfill(block.astype(str), 2)
    return X, y.astype(float), names


def fitted(family, method, tables, **settings):
    X, y, block = people(family)
    ids = (block, (X[:, 0] > 0).astype(int).astype(str))[:tables]
    release = [unbin.aggregate(y, each, BINS.get(family, 6)).align(each) for each in ids]
    target = release[0] if tables == 1 else unbin.join(*release)
    n_trials = TRIALS if family in ("binomial", "beta-binomial") else 1
    model = unbin.AggregatedGLM(family, method, n_trials=n_trials, random_state=0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(X, target)


def by_hand(model, X, family):
    """Work predictions out from the attributes of a model."""
    eta = model.intercept_ + X @ model.coef_
    at, weight = np.polynomial.hermite_e.hermegauss(5)

    def averaged(mean):
        moved = [w * mean(eta + model.block_sd_ * z) for z, w in zip(at, weight, strict=True)]
        return sum(moved) / weight.sum()

    if family != "ordinal":
        return averaged(MEANS.get(family, np.exp))
    (fit,) = model._fits
    scale = latent_scale(model.thresholds_, fit.bins.lower, fit.bins.upper, whole=fit.bins.whole)

    def shares(eta):
        below = expit(model.thresholds_ - eta[:, None])
        return np.diff(below, axis=1, prepend=0.0, append=1.0)

    return averaged(lambda eta: scale.mean(eta, shares))


@pytest.mark.parametrize("robust", ["auto", True, False])
@pytest.mark.parametrize("alpha", [None, "auto", 0.0, 0.05])
@pytest.mark.parametrize(("family", "method", "tables"), CASES)
def test_predictions_follow_from_coefficients(family, method, tables, alpha, robust, tmp_path):
    if method == "matching" and (alpha == "auto" or robust is True):
        pytest.skip("matching has neither")
    settings = {} if alpha is None else {"alpha": alpha}
    model = fitted(family, method, tables, robust=robust, **settings)
    new = np.random.default_rng(1).normal(size=(50, 3))
    expected = by_hand(model, new, family)
    np.testing.assert_allclose(model.predict(new), expected, rtol=1e-9)
    unbin.save(model, tmp_path / "model.json")
    loaded = unbin.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    np.testing.assert_allclose(by_hand(loaded, new, family), expected, rtol=1e-12)


def test_coefficients_chosen_on_held_out_blocks_predict():
    model = fitted("poisson", "likelihood", 1, alpha="held-out")
    new = np.random.default_rng(1).normal(size=(50, 3))
    np.testing.assert_allclose(model.predict(new), by_hand(model, new, "poisson"), rtol=1e-9)


def test_estimates_are_without_the_ridge_that_predicts():
    """Estimates, errors and intervals are the same, whatever ridge predicts; coef_ is shrunk."""
    ridge, plain = (fitted("gaussian", "likelihood", 1, alpha=each) for each in ("auto", 0.0))
    np.testing.assert_allclose(ridge.conf_int(), plain.conf_int(), rtol=1e-3)
    np.testing.assert_allclose(ridge.standard_errors_, plain.standard_errors_, rtol=1e-3)
    assert ridge.alpha_ > 0
    assert np.linalg.norm(ridge.coef_) < np.linalg.norm(plain.coef_)
    length = np.linalg.norm(ridge.coef_) / np.linalg.norm(plain.coef_)
    said = " ".join(str(ridge.summary()).split())
    assert "coef_ and predictions: slopes are shrunk by the evidence ridge" in said
    assert f"to {length:.0%} of their length" in said or abs(length - 1) > 0.2
    estimates = np.array([float(each) for each in ridge.tidy()["estimate"]])
    np.testing.assert_allclose(estimates[-3:], ridge.conf_int().mean(axis=1), rtol=1e-9)
