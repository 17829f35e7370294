"""Every family of the registry: domain, link, divergence, derivatives, edges."""

import pickle

import numpy as np
import pytest
from scipy.special import expit

from unbin.families import FAMILIES, get_family

CASES = {
    "gaussian": np.linspace(-4, 4, 41),
    "poisson": np.linspace(0.05, 9, 41),
    "binomial": np.linspace(0.05, 6.95, 41),
}


@pytest.fixture(params=sorted(CASES))
def case(request):
    return get_family(request.param, 7), CASES[request.param]


def test_every_family_with_a_divergence_is_tested():
    assert {name for name, cls in FAMILIES.items() if hasattr(cls, "divergence")} == set(CASES)


def test_link_and_inverse_link_undo_each_other(case):
    family, mean = case
    np.testing.assert_allclose(family.inverse_link(family.link(mean)), mean, rtol=1e-12)


def test_divergence_is_zero_at_the_mean_and_positive_elsewhere(case):
    family, mean = case
    np.testing.assert_allclose(family.divergence(mean, mean), 0, atol=1e-12)
    assert (family.divergence(mean[:-1], mean[1:]) > 0).all()


def test_divergence_is_the_bregman_divergence_of_the_link(case):
    """D(z || mean) = integral from mean to z of (link(t) - link(mean)) dt."""
    family, mean = case
    z, m = mean[3], mean[30]
    t = np.linspace(m, z, 200_001)
    integrand = family.link(t) - family.link(np.array([m]))
    integral = np.trapezoid(integrand, t)
    assert family.divergence(np.array([z]), np.array([m]))[0] == pytest.approx(integral, rel=1e-6)


def test_three_forms_of_the_divergence_agree(case):
    family, mean = case
    z, eta = mean[::-1].copy(), family.link(mean)
    expected = family.divergence(z, mean)
    np.testing.assert_allclose(family.divergence_at(z, eta, mean), expected, atol=1e-11)
    assert family.total_divergence(z, eta, mean) == pytest.approx(expected.sum())


def test_gradient_in_eta_is_mean_minus_z(case):
    family, mean = case
    eta, z, h = family.link(mean), mean[::-1].copy(), 1e-6
    up, down = eta + h, eta - h
    numeric = (
        family.divergence_at(z, up, family.inverse_link(up))
        - family.divergence_at(z, down, family.inverse_link(down))
    ) / (2 * h)
    np.testing.assert_allclose(numeric, mean - z, atol=1e-6)


def test_mean_derivative(case):
    family, mean = case
    eta, h = family.link(mean), 1e-6
    numeric = (family.inverse_link(eta + h) - family.inverse_link(eta - h)) / (2 * h)
    np.testing.assert_allclose(family.mean_derivative(eta), numeric, rtol=1e-6)


def test_finite_at_the_ends_of_the_domain_and_at_huge_eta(case):
    family, _ = case
    eta = np.array([-800.0, -40.0, 0.0, 40.0, 800.0])
    mean = family.inverse_link(eta)
    assert np.isfinite(mean).all()
    assert np.isfinite(family.mean_derivative(eta)).all()
    for end in (family.domain.low, family.domain.high):
        if np.isfinite(end):
            z = np.full_like(eta, end)
            assert np.isfinite(family.divergence_at(z, eta, mean)).all()
            assert np.isfinite(family.total_divergence(z, eta, mean))
    assert np.isfinite(family.link(family.interior(mean))).all()


def test_binomial_divergence_where_the_mean_saturates():
    family = get_family("binomial", 1)
    eta = np.array([50.0, -50.0])
    z = np.array([0.0, 1.0])
    expected = np.array([50.0, 50.0])  # -log(1 - expit(50)) and -log(expit(-50))
    np.testing.assert_allclose(family.divergence_at(z, eta, expit(eta)), expected)
    assert family.total_divergence(z, eta, expit(eta)) == pytest.approx(100.0)


def test_families_pickle_and_compare(case):
    family, _ = case
    assert pickle.loads(pickle.dumps(family)) == family


def test_domain_contains():
    domain = get_family("binomial", 3).domain
    assert domain.contains(np.array([0.0, 3.0]))
    assert not domain.contains(np.array([3.5]))
    assert not domain.contains(np.array([np.nan]))
    assert str(domain) == "[0, 3]"
    assert str(get_family("poisson").domain) == "[0, inf)"
