"""Targets read off the latent variable of an ordinal fit."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit

from unbin.families import get_family
from unbin.families import latent as module
from unbin.families.latent import LatentScale, latent_scale, on_grid

ORDINAL = get_family("ordinal")
T = np.array([-2.0, -0.5, 0.7, 3.0])
E = np.array([1.0, 2.0, 5.0, 9.0])
ETA = np.array([-30.3, -6.1, -1.0, 0.3, 2.2, 7.77, 40.2])
INF = np.inf
SCALES = {
    "open": LatentScale(T, E, -INF, INF),
    "closed": LatentScale(T, E, 0.5, 12.0),
    "from 0": LatentScale(T, E, 0.0, INF),
    "a point below": LatentScale(T, E, 1.0, INF),
}


def shares(thresholds):
    ends = np.zeros(len(thresholds) + 1)
    return lambda at: ORDINAL.bins(at, ends, ends, thresholds).probability


def density(x):
    return expit(x) * expit(-x)


@pytest.mark.parametrize("name", list(SCALES))
def test_means_are_integrals(name):
    scale = SCALES[name]
    for eta in ETA:
        wanted = quad(
            lambda x, eta=eta: scale.target(np.array([x]))[0] * density(x - eta),
            eta - 60,
            eta + 60,
            points=[t for t in T if abs(t - eta) < 60],
            limit=500,
        )[0]
        found = scale.mean(np.array([eta]), shares(T))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=5e-5)


@pytest.mark.parametrize("name", list(SCALES))
@pytest.mark.parametrize("k", range(5))
def test_means_of_bins_are_integrals(name, k):
    scale, eta = SCALES[name], 0.4
    low, high = np.concatenate([[-60], T, [60]])[[k, k + 1]]
    mass = quad(lambda x: density(x - eta), low, high)[0]
    value = quad(lambda x: scale.target(np.array([x]))[0] * density(x - eta), low, high)[0]
    np.testing.assert_allclose(scale.bin_means(np.array([eta]))[0, k], value / mass, atol=2e-4)


def test_a_straight_line_gives_the_latent_variable_itself():
    edges = 3 + 2 * T
    scale = LatentScale(T, edges, -INF, INF)
    np.testing.assert_allclose(scale.target(ETA), 3 + 2 * ETA)
    np.testing.assert_allclose(scale.mean(ETA, shares(T)), 3 + 2 * ETA, atol=1e-4)
    eta, ends = np.linspace(-5, 5, 21), np.zeros(5)
    latent = ORDINAL.bin_means(eta, ends, ends, T)
    np.testing.assert_allclose(scale.bin_means(eta), 3 + 2 * latent, atol=2e-3)


@pytest.mark.parametrize("name", list(SCALES))
def test_the_target_meets_its_edges_and_increases(name):
    scale, x = SCALES[name], np.linspace(-30, 30, 2001)
    y = scale.target(x)
    np.testing.assert_allclose(scale.target(T), E)
    assert (np.diff(y) >= 0).all()
    assert (y >= scale.low).all()
    assert (y <= scale.high).all()
    if np.isinf(scale.high):  # a straight line beyond
        above = scale.target(np.array([5.0, 10.0, 15.0]))
        np.testing.assert_allclose(above[2] - above[1], above[1] - above[0])
    else:
        assert scale.high - scale.target(np.array([60.0]))[0] < 1e-6


@pytest.mark.parametrize("name", list(SCALES))
def test_the_grid_adds_no_error(name):
    scale, eta = SCALES[name], np.random.default_rng(0).normal(0, 4, 3000)
    exact = scale._bin_means(eta)
    np.testing.assert_allclose(scale.bin_means(eta), exact, rtol=0, atol=1e-6)
    mean = (shares(T)(eta) * exact).sum(axis=1)
    np.testing.assert_allclose(scale.mean(eta, shares(T)), mean, rtol=0, atol=2e-6)


def test_a_value_does_not_depend_on_the_others():
    scale, eta = SCALES["open"], np.random.default_rng(0).normal(0, 4, 500)
    np.testing.assert_array_equal(scale.bin_means(eta)[:3], scale.bin_means(eta[:3]))


def test_far_away_the_grid_holds():
    at = np.array([-INF, -1e20, 1e20, INF])
    np.testing.assert_array_equal(on_grid(np.sign, at), [-1, -1, 1, 1])


def test_few_numbers_are_worked_on_at_a_time(monkeypatch):
    scale, eta = SCALES["closed"], np.linspace(-3, 3, 50)
    whole = scale.bin_means(eta)
    monkeypatch.setattr(module, "_CELLS", 1000)
    np.testing.assert_array_equal(scale.bin_means(eta), whole)


@pytest.mark.parametrize("name", list(SCALES))
def test_draws_are_those_of_the_bin(name):
    scale, n, eta = SCALES[name], 20_000, 0.4
    for k in range(5):
        u = (np.arange(n) + 0.5) / n
        y = scale.draw(np.full(n, eta), np.full(n, k), u)
        ends = np.concatenate([[scale.low], E, [scale.high]])
        assert (y >= ends[k]).all()
        assert (y <= ends[k + 1]).all()
        assert (np.diff(y) >= 0).all()
        np.testing.assert_allclose(y.mean(), scale.bin_means(np.array([eta]))[0, k], atol=1e-3)


def test_draws_far_in_the_tail_keep_their_digits():
    u = np.array([0.01, 0.5, 0.99])
    for sign in (-1, 1):  # 200 logits away from eta a bin is an exponential tail
        y = SCALES["open"].draw(np.full(3, -200.0 * sign), np.array([2, 2, 2]), u)
        assert ((y > 2) & (y < 5)).all()
        assert (np.diff(y) > 0).all()


def test_whole_numbers_are_drawn_whole():
    lower, upper = np.array([-INF, 30, 40, 50]), np.array([30, 40, 50, INF])
    scale = latent_scale(T[:3], lower, upper, whole=True)
    np.testing.assert_allclose(scale.edges, [30.5, 40.5, 50.5])
    assert scale.low == -0.5
    u = np.linspace(0.001, 0.999, 400)
    for k, (low, high) in enumerate([(0, 30), (31, 40), (41, 50), (51, INF)]):
        y = scale.draw(np.zeros(400), np.full(400, k), u)
        np.testing.assert_array_equal(y, np.rint(y))
        assert y.min() >= low
        assert y.max() <= high


@pytest.mark.parametrize(
    ("edges", "whole", "smooth"),
    [
        ([0.0, 1.0, 2.0], True, False),  # few whole numbers have their bins' values
        ([0.0, 1.0, 2.0], False, True),
        ([20.0, 30.0, 40.0], True, True),
        ([0.0], False, False),  # one edge has no slope
    ],
)
def test_where_bins_keep_their_values(edges, whole, smooth):
    edges = np.array(edges)
    lower, upper = np.concatenate([[-INF], edges]), np.concatenate([edges, [INF]])
    found = latent_scale(T[: len(edges)], lower, upper, whole=whole)
    assert (found is not None) == smooth


def test_a_bin_without_people_does_not_throw_predictions_off():
    edges = np.array([0.0, 1.0, 2.0, 3.0])
    lower, upper = np.concatenate([[-INF], edges]), np.concatenate([edges, [INF]])
    for thresholds in ([-1.0, -1.0, 0.5, 1.5], [-1.0, 0.5, 1.5, 1.5], [-1.0, -1 + 1e-12, 0.5, 1.5]):
        scale = latent_scale(np.array(thresholds), lower, upper, whole=False)
        mean = scale.mean(np.linspace(-8, 8, 50), shares(scale.thresholds))
        assert np.abs(mean).max() < 30
        assert (np.diff(mean) > 0).all()


def test_the_slope_beyond_is_that_of_the_end_bin():
    scale = LatentScale(T, E, -INF, INF)
    lowest = (scale.target(np.array([-3.0]))[0] - scale.target(np.array([-4.0]))[0]) * 1.5
    assert 0.5 <= lowest <= 2.0  # the end bin rises by 1 over 1.5
    flat = LatentScale(T, np.array([1.0, 1.001, 5.0, 9.0]), -INF, INF)
    rise = flat.target(np.array([-3.0]))[0] - flat.target(np.array([-4.0]))[0]
    np.testing.assert_allclose(rise, 0.001 / 1.5 / 2)  # a parabola would turn back
