"""Imputation under the likelihood: margins, limits, and the exact law of the draws."""

import itertools

import numpy as np
import pytest
from scipy.stats import norm

import unbin
from unbin.datasets import simulate
from unbin.families import get_family
from unbin.likelihood.data.counts import PublishedCounts
from unbin.likelihood.impute.raking import _rake, draw_in_bins, fill_hidden

FAMILIES = ["gaussian", "poisson", "binomial", "negative-binomial", "ordinal"]


def fitted(family, seed=0, **kwargs):
    law = family if family in ("gaussian", "poisson", "binomial") else "poisson"
    people = simulate(3000, 2, 60, family=law, between=0.3, n_trials=8, random_state=seed)
    bins = [-np.inf, 0, 1, 2, 4, np.inf] if law != "gaussian" else 6
    target = unbin.aggregate(people.y, people.blocks, bins).align(people.blocks)
    model = unbin.AggregatedGLM(family, n_trials=8, **kwargs).fit(people.X, target)
    return people, target, model


@pytest.mark.parametrize("family", FAMILIES)
def test_raked_shares_meet_both_margins(family):
    _, target, model = fitted(family)
    raking = model._fits[0].imputed
    share = raking.shares()
    np.testing.assert_allclose(share.sum(axis=1), 1, atol=1e-12)
    counts = raking.counts
    for b in range(len(target.release)):
        columns = share[target.codes == b].sum(axis=0)
        np.testing.assert_allclose(columns, counts.count[b], atol=1e-8)


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_give_the_release_back_exactly(family):
    people, target, model = fitted(family)
    histogram = target.release.histogram
    edges = np.concatenate([histogram.lower[:1], histogram.upper[: histogram.start[1]]])
    draws = model.impute("draw", size=2, random_state=1)
    assert draws.shape == (2, 3000)
    for y in draws:
        again = unbin.aggregate(y, people.blocks, edges).histogram
        np.testing.assert_array_equal(again.count, histogram.count)
        if family in ("poisson", "binomial", "negative-binomial"):
            assert (y == np.rint(y)).all()
            assert (y >= 0).all()
    np.testing.assert_array_equal(draws, model.impute("draw", size=2, random_state=1))
    assert (draws[0] != draws[1]).any()


def test_imputed_means_are_better_than_predictions_and_than_matching():
    people, target, model = fitted("gaussian", seed=3)

    def error(values):
        return np.mean((values - people.y) ** 2)

    matching = unbin.AggregatedGLM(method="matching").fit(people.X, target)
    raked = error(model.impute())
    assert raked < error(model.predict(people.X))
    assert raked < error(matching.impute())


def test_without_noise_raking_becomes_sort_and_clip():
    people = simulate(1000, 2, 20, noise=0.01, between=0.3, random_state=0)
    target = unbin.aggregate(people.y, people.blocks, 5).align(people.blocks)
    model = unbin.AggregatedGLM().fit(people.X, target)
    matching = unbin.AggregatedGLM(method="matching").fit(people.X, target)
    assert np.quantile(np.abs(model.impute() - matching.impute()), 0.95) < 0.05


def test_raking_equals_iterative_proportional_fitting():
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(4), size=30)
    count = np.array([[5.0, 0.0, 15.0, 10.0]])
    expected = q * (count > 0)
    for _ in range(5000):
        expected *= (count[0] / np.maximum(expected.sum(axis=0), 1e-300))[None, :]
        expected /= expected.sum(axis=1, keepdims=True)
    raked = q.copy()
    met = _rake(raked, np.ones(30), np.array([0, 30]), count, np.array([True]))
    assert met.all()
    np.testing.assert_allclose(raked, expected, atol=1e-7)


def test_draws_follow_the_law_of_bins_given_counts():
    """Four people, two bins of two: all six assignments with their exact probabilities."""
    people = 4
    X = np.array([[-1.0], [0.0], [0.5], [1.5]])
    codes = np.zeros(people, dtype=int)
    target = unbin.aggregate(np.array([-1.0, -0.5, 0.5, 1.0]), codes, [-np.inf, 0, np.inf]).align(
        codes
    )
    from unbin._blocks import spans_of
    from unbin.likelihood.data.tables import published_counts
    from unbin.likelihood.impute.raking import Raking
    from unbin.rows.design import lay_out

    design = lay_out(X, codes, 1, fit_intercept=False)
    family = get_family("gaussian")
    eta = X[:, 0]
    counts = published_counts(target.release, family.domain, smallest=1)
    raking = Raking(eta, design.start, design.order, counts, family, np.zeros(1))
    rng = np.random.default_rng(0)
    seen = np.zeros(16)
    (span,) = spans_of(design.start)
    _, q = raking._probabilities(span)
    for _ in range(4000):
        high = raking._draw_bins(span, q, rng) > 0
        seen[int(high @ [1, 2, 4, 8])] += 1
    p = norm.sf(-eta)
    weight = np.zeros(16)
    for pair in itertools.combinations(range(4), 2):
        high = np.isin(np.arange(4), pair)
        weight[int(high @ [1, 2, 4, 8])] = np.prod(np.where(high, p, 1 - p))
    expected = 4000 * weight / weight.sum()
    held = expected > 0
    assert (seen[~held] == 0).all()
    assert (((seen - expected)[held] ** 2) / expected[held]).sum() < 20.5  # chi2(5), p = .001


@pytest.mark.parametrize("family", ["gaussian", "gamma", "poisson", "negative-binomial"])
def test_values_within_bins_follow_the_model(family):
    fam = get_family(family)
    n = 4000
    eta, nuisance = np.full(n, 0.7), np.full(len(fam.nuisance_names), -0.5)
    lower, upper = np.full(n, 1.0), np.full(n, 6.0)
    u = (np.arange(n) + 0.5) / n
    y = draw_in_bins(fam, eta, nuisance, lower, upper, u)
    mean = fam.bin_means(eta[:1], lower[:1, None], upper[:1, None], nuisance)[0, 0]
    assert y.mean() == pytest.approx(mean, abs=0.01)
    assert (np.diff(y) >= 0).all()
    assert y.min() >= 1
    assert y.max() <= 6


def test_log_targets_are_imputed_in_their_own_units():
    people = simulate(3000, 2, 60, between=0.3, noise=0.4, random_state=0)
    y = np.exp(people.y)
    target = unbin.aggregate(y, people.blocks, 6).align(people.blocks)
    model = unbin.AggregatedGLM(target_transform="log").fit(people.X, target)
    z = model.impute()
    assert (z > 0).all()
    assert z.mean() == pytest.approx(y.mean(), rel=0.05)
    assert np.corrcoef(np.log(z), people.y)[0, 1] > 0.93
    draws = model.impute("draw", random_state=0)
    again = unbin.aggregate(
        draws, people.blocks, np.unique(np.r_[-np.inf, target.release.histogram.upper])
    )
    np.testing.assert_array_equal(again.histogram.count, target.release.histogram.count)


def test_rows_that_stand_for_several_people_are_raked_as_repeated_rows():
    rng = np.random.default_rng(0)
    q, people = rng.dirichlet(np.ones(4), size=12), rng.integers(1, 6, 12)
    row = np.repeat(np.arange(12), people)
    n = len(row)
    count = np.array([[n // 5, 0.0, n // 3, n - n // 5 - n // 3]])
    ours, theirs = q.copy(), q[row]
    assert _rake(ours, people.astype(float), np.array([0, 12]), count, np.array([True])).all()
    assert _rake(theirs, np.ones(n), np.array([0, n]), count, np.array([True])).all()
    np.testing.assert_allclose(ours[row], theirs, atol=1e-10)
    np.testing.assert_allclose(people @ ours, count[0], atol=1e-8)


def test_millions_in_a_row_are_raked():
    q = np.random.default_rng(0).dirichlet(np.ones(4), size=12)
    count = np.array([[2e6, 1e6, 3e6, 6e6]])
    raked = q.copy()
    assert _rake(raked, np.full(12, 1e6), np.array([0, 12]), count, np.array([True])).all()
    np.testing.assert_allclose(1e6 * raked.sum(axis=0), count[0], rtol=1e-11)


@pytest.mark.parametrize("ratio", [1.0, 1.03])
def test_hidden_counts_are_whole_where_the_others_are(ratio):
    """Rounded or not, the people of a block are all there."""
    count = ratio * np.array([[5.0, 6.0, 40.0], [30.0, 4.0, 4.0]])
    low, high = np.where(count < 10, ratio, count), np.where(count < 10, 10 * ratio, count)
    cuts = np.array([-np.inf, 0, 1, np.inf])
    told = PublishedCounts(
        np.array([51, 38]), cuts[:-1], cuts[1:], count, np.ones(2, bool), low, high
    )
    filled = fill_hidden(told, np.array([[4.0, 7.5, 41.0], [29.0, 2.2, 7.0]])).count
    np.testing.assert_allclose(filled.sum(axis=1), count.sum(axis=1), rtol=1e-12)
    assert ((filled == np.rint(filled)).all()) == (ratio == 1)
