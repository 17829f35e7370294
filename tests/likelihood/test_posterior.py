"""Parameters and effects of blocks, drawn before targets are."""

from dataclasses import replace

import numpy as np
import pytest

import unbin
from unbin.families import get_family
from unbin.likelihood.data.counts import PublishedCounts
from unbin.likelihood.impute.posterior import _root, draw_effects

INF = np.inf
CODES = np.repeat(np.arange(40), 25)
BLOCKS = np.array([f"{c:02d}" for c in range(40)])[CODES]


def people(seed=0, sd=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1000, 2)) + rng.normal(size=(40, 2))[CODES]
    return X, X @ [1.0, -0.5] + sd * rng.normal(size=40)[CODES] + rng.normal(size=1000)


def fitted(family="gaussian", sd=0.0):
    X, y = people(sd=sd)
    model = unbin.AggregatedGLM(family, robust=False)
    model.fit(X, unbin.aggregate(y, BLOCKS, 5).align(BLOCKS))
    return X, y, model


def poisson_binomial(p):
    """Return the law of the number of successes."""
    law = np.ones(1)
    for each in p:
        law = np.convolve(law, [1 - each, each])
    return law


@pytest.mark.parametrize("sd", [0.3, 1.0])
def test_effects_have_their_posterior_given_the_table(sd):
    rng = np.random.default_rng(0)
    eta, ones, copies = rng.normal(size=60), np.array([3.0, 10.0, 17.0]), 3000
    counts = PublishedCounts(
        n=np.full(3 * copies, 20),
        lower=np.array([0.0, 1.0]),
        upper=np.array([0.0, 1.0]),
        count=np.tile(np.stack([20 - ones, ones], axis=1), (copies, 1)),
        known=np.ones(3 * copies, dtype=bool),
    )
    start = 20 * np.arange(3 * copies + 1)
    given = get_family("binomial"), np.tile(eta, copies), start, counts, np.zeros(0)
    draws = draw_effects(*given, sd, rng).reshape(-1, 3)
    at = np.linspace(-6 * sd, 6 * sd, 601)
    for b in range(3):
        rows = eta[20 * b : 20 * b + 20]
        likelihood = [poisson_binomial(1 / (1 + np.exp(-rows - u)))[int(ones[b])] for u in at]
        law = np.array(likelihood) * np.exp(-0.5 * (at / sd) ** 2)
        law /= law.sum()
        mean = law @ at
        spread = np.sqrt(law @ (at - mean) ** 2)
        assert abs(draws[:, b].mean() - mean) < 0.15 * spread
        np.testing.assert_allclose(draws[:, b].std(), spread, rtol=0.1)


def test_effects_of_blocks_without_a_table_are_those_of_any_block():
    copies = 3000
    counts = PublishedCounts(
        n=np.full(2 * copies, 5),
        lower=np.array([-INF, 0.0]),
        upper=np.array([0.0, INF]),
        count=np.tile([[5.0, 0.0], [0.0, 5.0]], (copies, 1)),
        known=np.tile([False, True], copies),
    )
    rng, start = np.random.default_rng(0), 5 * np.arange(2 * copies + 1)
    given = get_family("gaussian"), np.zeros(10 * copies), start, counts, np.zeros(1)
    draws = draw_effects(*given, 0.7, rng).reshape(-1, 2)
    assert abs(draws[:, 0].mean()) < 0.05
    np.testing.assert_allclose(draws[:, 0].std(), 0.7, rtol=0.05)
    assert draws[:, 1].mean() > 0.4
    np.testing.assert_array_equal(draw_effects(*given, 0.0, rng), 0)


@pytest.mark.parametrize("family", ["gaussian", "ordinal"])
def test_parameters_have_the_covariance_of_the_fit(family):
    X, _, model = fitted(family)
    posterior = model._fits[0].imputed.posterior
    jacobian = posterior.coordinates.jacobian(posterior.free)
    covariance = jacobian @ posterior.root @ posterior.root.T @ jacobian.T
    slopes = slice(1, 3)
    scale = posterior.design.scale
    found = covariance[slopes, slopes] / np.outer(scale, scale)
    np.testing.assert_allclose(np.sqrt(np.diag(found)), model.standard_errors_, rtol=0.03)
    draws = [posterior.draw(np.random.default_rng(s)) for s in range(400)]
    nuisance = np.array([each for _, each in draws])
    wanted = np.sqrt(np.diag(covariance))[3:]
    np.testing.assert_allclose(nuisance.std(axis=0), wanted, rtol=0.2)
    assert family != "ordinal" or (np.diff(nuisance, axis=1) > 0).all()
    assert draws[0][0].shape == (len(X),)


@pytest.mark.parametrize(("family", "sd"), [("gaussian", 0.0), ("ordinal", 0.0), ("gaussian", 0.5)])
def test_draws_differ_by_as_much_as_the_slopes_are_uncertain(family, sd):
    X, _, model = fitted(family, sd)
    Z = np.column_stack([np.ones(1000), X])
    raking = model._fits[0].imputed
    rng = np.random.default_rng(1)

    def spread(raking):
        draws = np.stack([raking.draw(rng) for _ in range(40)])
        return np.linalg.lstsq(Z, draws.T, rcond=None)[0][1:].std(axis=1)

    proper, fixed = spread(raking), spread(replace(raking, posterior=None))
    assert fixed.mean() < 0.8 * proper.mean()
    if family == "gaussian":  # the scale of an ordinal fit's slopes is uncertain too
        assert (proper > 0.5 * model.standard_errors_).all()
        assert (proper < 1.3 * model.standard_errors_).all()


@pytest.mark.parametrize("family", ["gaussian", "ordinal"])
def test_draws_reproduce_the_table(family):
    _, y, model = fitted(family, 0.5)
    release = unbin.aggregate(y, BLOCKS, 5)
    edges = np.concatenate([release.histogram.lower[:5], [INF]])
    assert model.block_sd_ > 0
    for draw in model.impute("draw", size=3, random_state=0):
        again = unbin.aggregate(draw, BLOCKS, edges)
        np.testing.assert_array_equal(again.histogram.count, release.histogram.count)


@pytest.mark.parametrize("family", ["gaussian", "ordinal"])
def test_several_tables_are_drawn_alike(family):
    X, y = people(sd=0.5)
    group = np.where(X[:, 0] > 0, "high", "low")
    bins = np.quantile(y, [0.2, 0.4, 0.6, 0.8])
    county = unbin.aggregate(y, BLOCKS, [-INF, *bins, INF])
    groups = unbin.aggregate(y, group, [-INF, *bins[1:3], INF])
    target = unbin.join(county.align(BLOCKS), groups.align(group))
    model = unbin.AggregatedGLM(family).fit(X, target)
    raking = model._fits[0].imputed
    assert raking.posterior.block_sd[0] > 0
    draws = model.impute("draw", size=20, random_state=0)
    again = unbin.aggregate(draws[0], BLOCKS, [-INF, *bins, INF])
    np.testing.assert_array_equal(again.histogram.count, county.histogram.count)
    rng = np.random.default_rng(0)
    fixed = np.stack([replace(raking, posterior=None).draw(rng) for _ in range(20)])
    Z = np.column_stack([np.ones(1000), X])
    slopes, at_once = (np.linalg.lstsq(Z, each.T, rcond=None)[0][1] for each in (draws, fixed))
    assert slopes.std() > 1.3 * at_once.std()


def test_hidden_counts_are_drawn_within_their_intervals():
    X, y = people(sd=0.5)
    table = unbin.aggregate(y, BLOCKS, 5).to_columns()["histogram"]
    count = 5 * np.rint(table["count"] / 5)
    release = unbin.Release.from_histogram(table | {"count": count}, rounding="nearest-5")
    model = unbin.AggregatedGLM().fit(X, release.align(BLOCKS))
    edges = np.concatenate([table["lower"][:5], [INF]])
    for draw in model.impute("draw", size=2, random_state=0):
        found = unbin.aggregate(draw, BLOCKS, edges).histogram.count
        assert np.abs(found - count).max() <= 2


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_effects_of_blocks_move_the_values_in_their_bins():
    X, y = people(sd=1.0)
    target = unbin.aggregate(y, BLOCKS, [-INF, -2, 0, 2, INF]).align(BLOCKS)
    raking = unbin.AggregatedGLM().fit(X, target)._fits[0].imputed
    level = np.bincount(CODES, y - X @ [1.0, -0.5]) / 25  # of each block, given its people

    def off(raking):
        rng = np.random.default_rng(0)
        draws = np.mean([raking.draw(rng) for _ in range(10)], axis=0)
        return np.std(np.bincount(CODES, draws - X @ [1.0, -0.5]) / 25 - level)

    fit = raking.posterior.fit
    tables = tuple(replace(table, block_sd=0.0) for table in fit.tables)
    none = replace(raking.posterior, fit=replace(fit, tables=tables, block_sd=0.0))
    assert none.block_sd == (0.0,)
    without = replace(raking, posterior=none)
    assert off(raking) < 0.7 * off(without)


def test_what_a_table_hardly_tells_stays_within_reason():
    rng = np.random.default_rng(0)
    half, widest = rng.normal(size=(4, 4)), np.array([1.0, 2.0, 0.5, 3.0])
    covariance = half @ half.T * np.outer([0.01, 1.0, 100.0, 1e4], [0.01, 1.0, 100.0, 1e4])
    wanted = np.linalg.inv(np.linalg.inv(covariance) + np.diag(widest**-2.0))
    root = _root(covariance, widest)
    np.testing.assert_allclose(root @ root.T, wanted, atol=1e-6)
    covariance[:, 1] = covariance[1] = 0  # a feature that does not vary
    root = _root(covariance, widest)
    assert np.abs(root[1]).max() < 1e-9
    small = _root(1e-4 * np.eye(4), widest)
    np.testing.assert_allclose(small @ small.T, 1e-4 * np.eye(4), rtol=1e-3)


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_draws_of_one_block_are_of_the_size_of_its_outcomes():
    X, y = people()
    everybody = np.full(1000, "all")
    target = unbin.aggregate(y, everybody, 5).align(everybody)
    for family in ("gaussian", "ordinal"):
        model = unbin.AggregatedGLM(family).fit(X, target)
        draws = model.impute("draw", size=5, random_state=0)
        assert np.abs(draws).max() < 8 * np.abs(y).max()
