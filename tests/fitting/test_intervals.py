"""Intervals for outcomes: their quantiles by brute force, and their coverage."""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy import stats

import unbin
from tests.helpers.cases import draw_targets, make_case, names_of
from unbin.exceptions import OpenIntervalWarning, ParameterError
from unbin.families import get_family
from unbin.fitting.intervals import (
    _in_tiles,
    _of_bins,
    _ordinal,
    _whole,
    family_interval,
    outcome_interval,
)
from unbin.fitting.model import BinScale

FAMILIES = ("gaussian", "poisson", "binomial", "gamma", "negative-binomial", "ordinal")


def fit_case(family, seed=1, **how):
    case = make_case(seed, kind=family, d=2, n_blocks=60, size=60)
    model = unbin.AggregatedGLM(family, n_trials=20, **how)
    return case, model.fit(case.X, case.release.align(names_of(case)))


@pytest.mark.parametrize("family", ["gaussian", "gamma", "poisson", "binomial",
                                    "negative-binomial", "beta-binomial"])  # fmt: skip
@pytest.mark.parametrize("spread", [0.0, 0.3, 1.5])
def test_ends_are_quantiles_of_the_mixture(family, spread):
    # against draws: what the interval leaves out below and above
    law, rng, n = get_family(family, 20), np.random.default_rng(0), 200_000
    nuisance = np.full(len(law.nuisance_names), np.log(0.5))
    eta, level = np.array([-0.5, 1.0]), 0.9
    found = family_interval(law, nuisance, eta, np.full(2, spread), level)
    for row, at in enumerate(eta):
        y = _draw(family, at + spread * rng.normal(size=n), rng)
        low, high = found[row]
        inside = np.mean((low <= y) & (y <= high))
        if law.domain.integer:
            assert inside > level - 0.005
            ends = [np.mean(y == low), np.mean(y == high)]
            assert low == high or inside - min(ends) < level + 0.005
        else:
            np.testing.assert_allclose([np.mean(y < low), np.mean(y > high)], 0.05, atol=0.003)


def _draw(family, eta, rng):
    if family == "gaussian":
        return eta + 0.5 * rng.normal(size=len(eta))
    if family == "gamma":
        return rng.gamma(2.0, np.exp(eta) / 2)
    if family == "beta-binomial":
        law, nuisance = get_family(family, 20), np.full(1, np.log(0.5))
        whole = np.arange(21.0)
        grid = np.linspace(eta.min(), eta.max(), 400)
        upto = law.bins(grid, whole, whole, nuisance).probability.cumsum(axis=1)
        place = np.searchsorted(grid, eta).clip(0, 399)
        return (rng.random(len(eta))[:, None] > upto[place]).sum(axis=1).clip(0, 20)
    return draw_targets(family, eta, rng)


def test_a_gaussian_interval_is_the_textbooks():
    case, model = fit_case("gaussian")
    mean, std = model.predict(case.X, return_std=True)
    reach = stats.norm.ppf(0.975) * np.sqrt(model.dispersion_ + model.block_sd_**2 + std**2)
    found = model.predict_interval(case.X, level=0.95)
    np.testing.assert_allclose(found, np.column_stack([mean - reach, mean + reach]), atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_intervals_cover_outcomes_of_new_blocks(family):
    # a small version of experiments/prediction_intervals.py
    held = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        codes = np.repeat(np.arange(80), 50)
        X = 0.6 * rng.normal(size=(4000, 2)) + 0.5 * rng.normal(size=(80, 2))[codes]
        eta = 2.5 * (family in ("poisson", "negative-binomial")) + X @ [0.5, -0.3]
        y = draw_targets(family, eta + 0.3 * rng.normal(size=80)[codes], rng)
        old, new = codes < 50, codes >= 50
        bins = np.r_[-30, np.quantile(y, np.linspace(0.05, 0.95, 10)), 30]
        bins = bins if family == "ordinal" else 8
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target = unbin.aggregate(y[old], codes[old], bins).align(codes[old])
            model = unbin.AggregatedGLM(family, n_trials=20).fit(X[old], target)
        low, high = model.predict_interval(X[new]).T
        held.append(np.mean((low <= y[new]) & (y[new] <= high)))
    assert 0.87 < np.mean(held) < 0.935


def test_block_effects_widen_intervals():
    case, model = fit_case("poisson")
    fit = model._fits[0]
    object.__setattr__(fit, "block_sd", 0.0)
    narrow = np.diff(model.predict_interval(case.X)).mean()
    object.__setattr__(fit, "block_sd", 0.8)
    assert np.diff(model.predict_interval(case.X)).mean() > 1.5 * narrow


def test_what_is_not_known_of_coefficients_widens_intervals():
    _, model = fit_case("gaussian")
    far = np.array([[0.0, 0.0], [300.0, 300.0]])
    width = np.diff(model.predict_interval(far))[:, 0]
    assert width[1] > 2 * width[0]


def test_intervals_of_whole_numbers_are_whole_and_tight():
    case, model = fit_case("poisson")
    found = model.predict_interval(case.X, level=0.9)
    np.testing.assert_array_equal(found, np.rint(found))
    assert (found[:, 0] >= 0).all()
    assert (found[:, 0] <= found[:, 1]).all()


def test_a_sure_yes_is_one_number():
    law, eta = get_family("binomial", 1), np.array([-4.0, 0.0, 4.0])
    found = family_interval(law, np.zeros(0), eta, np.zeros(3), 0.9)
    np.testing.assert_array_equal(found, [[0, 0], [0, 1], [1, 1]])


def test_logged_targets_have_their_own_units():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 2))
    y = np.exp(X @ [0.3, 0.2] + 0.5 * rng.normal(size=800))
    logged = unbin.AggregatedGLM(target_transform="log").fit(X, y)
    plain = unbin.AggregatedGLM().fit(X, np.log(y))
    np.testing.assert_allclose(logged.predict_interval(X), np.exp(plain.predict_interval(X)))


def bin_scale(upper, lower=-np.inf, whole=False):
    edges = np.array([lower, *range(1, 1 + 3), upper], dtype=float)
    return BinScale(np.array([-1.0, 0.0, 1.0]), edges[:-1], edges[1:], np.arange(4.0), whole)


def test_ends_in_a_bin_without_an_end_are_infinite():
    eta, none = np.array([-8.0, 0.0, 8.0]), np.zeros(3)
    found = _ordinal(bin_scale(np.inf), eta, none, 0.3)
    assert np.isinf(found).tolist() == [[True, False], [False, False], [False, True]]
    assert np.isfinite(_ordinal(bin_scale(9.0, 0.0), eta, none, 0.3)).all()


def test_few_whole_numbers_have_whole_bins():
    bins = BinScale(np.array([-1.0, 1.0]), np.array([-1.0, 0.0, 3.0]), np.array([0.0, 3.0, np.inf]),
                    np.array([0.0, 2.0, 5.0]), True)  # fmt: skip
    found = _of_bins(bins, np.array([-9.0, 0.0, 9.0]), np.zeros(3), level=0.4)
    np.testing.assert_array_equal(found, [[0, 0], [1, 3], [4, np.inf]])


def test_open_ends_are_said():
    case = make_case(1, kind="ordinal", d=2)
    y = case.y
    edges = [-np.inf, *np.quantile(y, [0.3, 0.5, 0.7]), np.inf]
    target = unbin.aggregate(y, names_of(case), edges).align(names_of(case))
    model = unbin.AggregatedGLM("ordinal").fit(case.X, target)
    with pytest.warns(OpenIntervalWarning) as caught:
        found = model.predict_interval(case.X, level=0.99)
    texts = [str(each.message) for each in caught]
    n = int(np.isinf(found[:, 1]).sum())
    assert any(f"{n:,} of {len(y):,} upper ends are infinite" in text for text in texts)
    assert any("pass lower=... to AggregatedGLM" in text for text in texts)


@pytest.mark.parametrize("level", [0, 1, 2, "a", None])
def test_the_level_is_a_share(level):
    case, model = fit_case("gaussian")
    with pytest.raises(ParameterError, match=r"^level: must "):
        model.predict_interval(case.X, level)


def test_nobody_has_no_intervals():
    _, model = fit_case("poisson")
    fit = model._fits[0]
    assert outcome_interval(fit, np.empty(0), np.empty(0), 0.9).shape == (0, 2)


def test_a_row_does_not_depend_on_the_others():
    law, rng = get_family("negative-binomial"), np.random.default_rng(0)
    eta, spread = rng.normal(2, 2, 50), rng.uniform(0, 0.5, 50)
    together = family_interval(law, np.zeros(1), eta, spread, 0.9)
    alone = [family_interval(law, np.zeros(1), eta[[i]], spread[[i]], 0.9)[0] for i in range(50)]
    np.testing.assert_array_equal(together, alone)
    exact = _in_tiles(partial(_whole, law, np.zeros(1), level=0.9), eta, spread)
    assert np.abs(together - exact).max() <= 1 + 0.03 * exact.max()
    assert np.mean(together == exact) > 0.7
