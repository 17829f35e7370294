"""What the solvers move, and what a family says about it."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from unbin.exceptions import ReleaseError
from unbin.families import FAMILIES, get_family

ALL = [get_family(name, n_trials=6) for name in FAMILIES]


@pytest.fixture(params=ALL, ids=lambda family: family.name)
def family(request):
    return request.param


def free_of(family, *, fit_intercept=True, n_bins=5):
    coordinates = family.coordinates(3 + fit_intercept, n_bins, fit_intercept=fit_intercept)
    free = np.random.default_rng(0).normal(size=coordinates.n_free)
    return coordinates, free


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_free_parameters_are_split_and_joined(family, fit_intercept):
    coordinates, free = free_of(family, fit_intercept=fit_intercept)
    theta, nuisance = coordinates.split(free)
    assert len(theta) == 3 + fit_intercept
    assert len(nuisance) == (4 if family.free_shape else len(family.nuisance_names))
    np.testing.assert_allclose(coordinates.join(theta, nuisance), free)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_jacobians_are_numeric_derivatives_and_inverses(family, fit_intercept):
    coordinates, free = free_of(family, fit_intercept=fit_intercept)
    jacobian = coordinates.jacobian(free)
    numeric = approx_fprime(free, lambda at: np.concatenate(coordinates.split(at)), 1e-7)
    np.testing.assert_allclose(jacobian, numeric.reshape(jacobian.shape), atol=1e-6)
    back = coordinates.inverse_jacobian(free)
    np.testing.assert_allclose(back @ jacobian, np.eye(len(free)), atol=1e-10)
    if coordinates.fixed_intercept:  # nothing moves it, to the last bit
        assert not back[:, 0].any()


def test_derivatives_in_free_parameters_are_those_of_the_bins():
    """Of an ordinal family, whose thresholds shift with eta: against differences of its bins."""
    family = get_family("ordinal")
    coordinates, free = free_of(family)
    x = np.array([0.3, -1.0, 2.0])
    lower, upper = np.zeros(5), np.ones(5)

    def probability(at):
        theta, thresholds = coordinates.split(at)
        eta = np.array([theta[0] + x @ theta[1:]])
        return family.bins(eta, lower, upper, thresholds).probability[0]

    theta, thresholds = coordinates.split(free)
    by_eta = family.bins(np.array([x @ theta[1:]]), lower, upper, thresholds).d_eta[0]
    slopes = by_eta[None, :, None] * np.concatenate([[1.0], x])
    found = coordinates.to_free(free, slopes)[0]
    np.testing.assert_allclose(found, approx_fprime(free, probability, 1e-7), atol=1e-6)


def test_dispersions_are_in_their_usual_units():
    assert get_family("gaussian").dispersion(np.log([3.0])) == pytest.approx(9.0)
    assert get_family("gamma").dispersion(np.log([0.4])) == pytest.approx(0.4)
    assert get_family("poisson").dispersion(np.zeros(0)) == 1.0
    assert get_family("ordinal").dispersion(np.array([-1.0, 2.0])) == 1.0  # of thresholds, none
    assert np.isfinite(get_family("gaussian").dispersion(np.array([1e6])))


def test_first_steps_are_in_units_of_the_target_where_eta_is():
    assert get_family("gaussian").first_steps(np.log([5.0]), 3.0) == pytest.approx((10.0, 1.0))
    assert get_family("poisson").first_steps(np.zeros(0), 3.0) == (1.0, 1.0)
    assert get_family("ordinal").first_steps(np.zeros(3), 0.0) == (2.0, 2.0)


def test_thresholds_reproduce_the_shares_they_start_from():
    family, share = get_family("ordinal"), np.array([0.1, 0.4, 0.95])
    model = family.bins(np.zeros(1), np.zeros(4), np.ones(4), family.start_thresholds(share))
    np.testing.assert_allclose(np.cumsum(model.probability[0])[:-1], share)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"means": True}, "has no mean in the units of the target"),
        ({"shared": False}, "needs the same bins in every block"),
        ({"values": True}, "knows nothing of values between edges"),
    ],
)
def test_what_a_family_knows_nothing_of_is_refused(family, said, message):
    said = {"shared": True, "means": False, "values": False, **said}
    if not family.free_shape:
        family.check_statistics(**said)
        return
    with pytest.raises(ReleaseError, match=message):
        family.check_statistics(**said)
