"""The likelihood through the estimator: scores, families, diagnostics, means."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import unbin
from tests.helpers.releases import mean_release, quantile_release
from unbin.datasets import simulate
from unbin.exceptions import IdentificationWarning, ReleaseError


def published(family="gaussian", bins=8, seed=0, n=5000, n_blocks=50, **kwargs):
    people = simulate(
        n, 3, n_blocks, family=family, between=0.3, n_trials=20, random_state=seed, **kwargs
    )
    return people, unbin.aggregate(people.y, people.blocks, bins).align(people.blocks)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial"])
def test_estimates_are_within_their_errors(family):
    people, target = published(family, n_blocks=100, n=10_000)
    model = unbin.AggregatedGLM(family, n_trials=20).fit(people.X, target)
    assert model.status_.converged
    assert model.diagnostics_.identified
    assert (np.abs(model.coef_ - people.coef) < 4 * model.standard_errors_).all()
    assert (model.standard_errors_ < 0.1).all()
    assert 0.7 < model.diagnostics_.goodness_of_fit.ratio < 1.3
    assert ((model.diagnostics_.efficiency > 0) & (model.diagnostics_.efficiency < 1.05)).all()


def test_ordinal_predicts_as_well_as_the_oracle():
    people, target = published(bins=10)
    model = unbin.AggregatedGLM("ordinal").fit(people.X, target)
    oracle = unbin.AggregatedGLM().fit(people.X, people.y)

    def error(m):
        return np.mean((m.predict(people.X) - people.y) ** 2)

    assert error(model) < 1.03 * error(oracle)
    proba = model.predict_proba(people.X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    values = proba @ model.bin_values_  # which level off in the open bins
    assert np.corrcoef(values, model.predict(people.X))[0, 1] > 0.99
    assert error(model) < np.mean((values - people.y) ** 2)
    assert (np.diff(model.thresholds_) > 0).all()
    assert len(model.bin_edges_) == 11
    assert not hasattr(unbin.AggregatedGLM("gaussian"), "predict_proba")


def test_ordinal_needs_the_same_bins_everywhere():
    people, _ = published()
    first = people.blocks < "25"
    a = unbin.aggregate(people.y[first], people.blocks[first], [-np.inf, -0.4, 0.3, np.inf])
    b = unbin.aggregate(people.y[~first], people.blocks[~first], [-np.inf, 0.1, 0.9, np.inf])
    both = a.combine(b).align(people.blocks)
    with pytest.raises(ReleaseError, match="same bins in every block"):
        unbin.AggregatedGLM("ordinal").fit(people.X, both)
    model = unbin.AggregatedGLM().fit(people.X, both)
    np.testing.assert_allclose(model.coef_, people.coef, atol=0.2)


def test_score_on_new_blocks_is_the_log_score():
    people, target = published()
    train = np.flatnonzero(target.codes < 40)
    test = np.flatnonzero(target.codes >= 40)
    model = unbin.AggregatedGLM().fit(people.X[train], target[train])
    mean, sigma = model.predict(people.X[test]), np.sqrt(model.dispersion_)
    from scipy.stats import norm

    held = target[test]
    h = held.release.histogram
    total = 0.0
    for b in range(len(held.release)):
        rows, bins = held.codes == b, slice(h.start[b], h.start[b + 1])
        z_hi = norm.cdf((h.upper[bins] - mean[rows, None]) / sigma)
        z_lo = norm.cdf((h.lower[bins] - mean[rows, None]) / sigma)
        share = (z_hi - z_lo).mean(axis=0)
        total += (h.count[bins] * np.log(share)).sum()
    assert model.score(people.X[test], held) == pytest.approx(total / len(test), abs=1e-9)


def test_grid_search_chooses_by_the_log_score():
    people, target = published()
    search = GridSearchCV(
        unbin.AggregatedGLM(),
        {"alpha": [0.0, 10.0]},
        cv=unbin.BlockKFold(4),
        error_score="raise",
    ).fit(people.X, target)
    assert search.best_params_ == {"alpha": 0.0}


def test_row_order_does_not_matter():
    people, target = published()
    rows = np.random.default_rng(0).permutation(len(people.y))
    blocks = people.blocks[rows]
    a = unbin.AggregatedGLM().fit(people.X, target)
    b = unbin.AggregatedGLM().fit(
        people.X[rows], unbin.aggregate(people.y[rows], blocks, 8).align(blocks)
    )
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-6)
    np.testing.assert_allclose(a.standard_errors_, b.standard_errors_, rtol=1e-5)
    np.testing.assert_allclose(a.impute()[rows], b.impute(), atol=1e-4)


def test_a_saved_model_holds_no_personal_values():
    people, target = published()
    model = unbin.AggregatedGLM().fit(people.X, target)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict(people.X), model.predict(people.X))
    assert loaded._fits[0].imputed is None
    assert len(pickle.dumps(model)) < 20_000
    assert model.impute().shape == (5000,)


def test_log_targets():
    people, _ = published(noise=0.5)
    y = np.exp(people.y)
    target = unbin.aggregate(y, people.blocks, 8).align(people.blocks)
    model = unbin.AggregatedGLM(target_transform="log").fit(people.X, target)
    np.testing.assert_allclose(model.coef_, people.coef, atol=0.1)
    assert model.predict(people.X).mean() == pytest.approx(y.mean(), rel=0.05)


def test_log_targets_of_blocks_with_effects_have_the_mean_of_the_target():
    """E exp(eta + u + e) = exp(eta + (sd² of u + sd² of e)/2)."""
    people, _ = published(n_blocks=200, n=12_000, coef=np.array([1.0, -0.8, 0.6]))
    effect = np.random.default_rng(0).normal(scale=0.8, size=200)
    y = np.exp(people.y + effect[np.unique(people.blocks, return_inverse=True)[1]])
    target = unbin.aggregate(y, people.blocks, 8).align(people.blocks)
    model = unbin.AggregatedGLM(target_transform="log").fit(people.X, target)
    assert model.block_sd_ == pytest.approx(0.8, abs=0.1)
    eta = people.X @ model.coef_ + model.intercept_
    expected = np.exp(eta + 0.5 * (model.dispersion_ + model.block_sd_**2))
    np.testing.assert_allclose(model.predict(people.X), expected, rtol=1e-12)
    assert model.predict(people.X).mean() == pytest.approx(y.mean(), rel=0.15)


def test_means_alone_and_together_with_a_histogram():
    people, _ = published(n_blocks=100, n=6000)
    means = mean_release(people.y, people.blocks)
    alone = unbin.AggregatedGLM().fit(people.X, means.align(people.blocks))
    assert (np.abs(alone.coef_ - people.coef) < 4 * alone.standard_errors_).all()
    histogram = unbin.aggregate(people.y, people.blocks, 4)
    both = unbin.AggregatedGLM().fit(people.X, histogram.combine(means).align(people.blocks))
    only = unbin.AggregatedGLM().fit(people.X, histogram.align(people.blocks))
    assert (np.abs(both.coef_ - people.coef) < 4 * both.standard_errors_).all()
    assert both.standard_errors_.mean() < only.standard_errors_.mean()
    with pytest.raises(ReleaseError, match="cannot use published means"):
        unbin.AggregatedGLM(method="matching").fit(people.X, means.align(people.blocks))


def test_poisson_means_are_the_ecological_regression_done_right():
    """E mean_b = mean_i exp(x_i beta): no bias from the curvature within blocks."""
    people = simulate(20_000, 2, 400, family="poisson", between=0.3, random_state=0)
    release = mean_release(people.y, people.blocks)
    model = unbin.AggregatedGLM("poisson").fit(people.X, release.align(people.blocks))
    assert (np.abs(model.coef_ - people.coef) < 4 * model.standard_errors_).all()
    assert model.standard_errors_.max() < 0.06


def test_one_block_is_not_identified_and_says_so_once():
    people = simulate(2000, 3, 1, noise=0.5, random_state=0)
    target = unbin.aggregate(people.y, bins=8).align()
    with pytest.warns(IdentificationWarning, match="single block") as caught:
        model = unbin.AggregatedGLM().fit(people.X, target)
    assert len(caught) == 1
    assert not model.diagnostics_.identified
    assert "single block" in model.diagnostics_.reason


def test_the_same_people_in_shifted_blocks_are_identified():
    people = simulate(2000, 3, 20, noise=0.5, between=0.5, random_state=0)
    target = unbin.aggregate(people.y, people.blocks, 8).align(people.blocks)
    assert unbin.AggregatedGLM().fit(people.X, target).diagnostics_.identified


def test_two_pooled_bins_do_not_tell_the_scale():
    people, target = published(bins=2)
    with pytest.warns(IdentificationWarning, match="not estimable"):
        model = unbin.AggregatedGLM().fit(people.X, target)
    assert not model.diagnostics_.identified


def test_slopes_of_unrelated_features_are_estimated_and_0():
    people, target = published()
    noise = np.random.default_rng(0).normal(size=people.X.shape)
    noise += np.random.default_rng(1).normal(size=(len(target.release), 3))[target.codes]
    model = unbin.AggregatedGLM().fit(noise[:, :3], target)
    assert set(model.diagnostics_.verdicts) == {"estimated"}
    assert (np.abs(model.coef_) < 4 * model.standard_errors_).all()


def test_block_effects_are_noticed():
    people, _ = published(n_blocks=100, n=8000)
    rng = np.random.default_rng(0)
    names, codes = np.unique(people.blocks, return_inverse=True)
    y = people.y + 0.4 * rng.normal(size=len(names))[codes]
    target = unbin.aggregate(y, people.blocks, 8).align(people.blocks)
    model = unbin.AggregatedGLM().fit(people.X, target)
    goodness = model.diagnostics_.goodness_of_fit
    assert goodness.ratio > 1.5
    assert goodness.p_value < 1e-3
    assert model.diagnostics_.block_sd == pytest.approx(0.4, rel=0.3)
    worst = model.diagnostics_.worst_blocks
    assert len(worst) == 5
    assert set(worst) <= set(names)


def test_counts_with_known_noise():
    people, target = published(n_blocks=100, n=8000, bins=5)
    rng = np.random.default_rng(0)
    table = target.release.to_columns()["histogram"]
    noisy = dict(table, count=table["count"] + 3.0 * rng.normal(size=len(table["count"])))
    with pytest.raises(unbin.exceptions.CountError, match="count"):
        unbin.Release.from_histogram(noisy)
    release = unbin.Release.from_histogram(noisy, noise_sd=3.0)
    assert "noise of sd 3 added" in repr(release)
    told = unbin.AggregatedGLM().fit(people.X, release.align(people.blocks))
    clean = unbin.AggregatedGLM().fit(people.X, target)
    assert (np.abs(told.coef_ - people.coef) < 4 * told.standard_errors_).all()
    assert told.standard_errors_.mean() > clean.standard_errors_.mean()
    assert 0.7 < told.diagnostics_.goodness_of_fit.ratio < 1.3
    with pytest.raises(ReleaseError, match="noise added"):
        unbin.AggregatedGLM(method="matching").fit(people.X, release.align(people.blocks))
    poisson = unbin.Release.from_histogram(
        {"block": ["a", "a"], "lower": [0, 1], "upper": [1, np.inf], "count": [-0.5, 3.2]},
        noise_sd=1.0,
    )
    assert poisson.align(["a", "a"]).release.n[0] == 2


def test_medians_alone_give_the_slopes_within_their_errors():
    people = simulate(5000, 5, 100, between=0.3, random_state=0)
    release = quantile_release(people.y, people.blocks)
    model = unbin.AggregatedGLM().fit(people.X, release.align(people.blocks))
    assert np.linalg.norm(model.coef_ - people.coef) < 0.2
    assert (np.abs(model.coef_ - people.coef) < 4 * model.standard_errors_).all()
    z = model.impute()
    for block, median in zip(release.blocks, release.order_statistics.value, strict=True):
        below = z[people.blocks == block] <= median + 1e-9
        assert 0.3 < below.mean() < 0.7


def test_full_lists_and_histograms_side_by_side():
    people = simulate(6000, 3, 80, between=0.3, random_state=0)
    first = people.blocks < "40"
    lists = unbin.Release.from_values({"block": people.blocks[first], "value": people.y[first]})
    histogram = unbin.aggregate(people.y[~first], people.blocks[~first], 6)
    model = unbin.AggregatedGLM().fit(people.X, lists.combine(histogram).align(people.blocks))
    assert (np.abs(model.coef_ - people.coef) < 4 * model.standard_errors_).all()


def test_ordinal_reads_whole_edges_as_counts():
    """The lowest bin of counts holds 0 at least, and a bin of one integer that integer."""
    rng = np.random.default_rng(0)
    codes = np.arange(4000) % 50
    X = rng.normal(size=(4000, 1)) + rng.normal(size=(50, 1))[codes]
    y = rng.poisson(np.exp(0.3 + 0.4 * X[:, 0])).astype(float)
    target = unbin.aggregate(y, codes, [-np.inf, 0, 1, 3, np.inf]).align(codes)
    model = unbin.AggregatedGLM("ordinal").fit(X, target)
    np.testing.assert_allclose(model.bin_values_[:3], [0, 1, 2.5])
    assert model.bin_values_[3] >= 4
    assert model.predict(X).mean() == pytest.approx(y.mean(), rel=0.05)


def test_a_fit_that_runs_away_is_reported_and_does_not_crash():
    # counts without noise in two bins: the steeper the slope, the better the fit
    sim = simulate(2000, 3, 50, coef=np.array([0.5, -0.4, 0.3]), intercept=3.0)
    y = np.round(np.exp(sim.X @ sim.coef + sim.intercept))
    target = unbin.aggregate(y, sim.blocks, 2).align(sim.blocks)
    with pytest.warns(IdentificationWarning):
        model = unbin.AggregatedGLM("poisson").fit(sim.X, target)
    assert not model.diagnostics_.identified
    assert np.isfinite(model.coef_).all()
