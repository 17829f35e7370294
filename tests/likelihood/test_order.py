"""Order statistics: their gradient, the slopes they tell, and who refuses them."""

import numpy as np
import pytest

from tests.helpers.cases import coef_of, make_case, names_of
from tests.helpers.releases import quantile_release
from unbin._watching import Status
from unbin.exceptions import ReleaseError
from unbin.families import get_family
from unbin.likelihood import fit_likelihood
from unbin.likelihood.order import order_sums
from unbin.likelihood.problem import make_problem
from unbin.likelihood.start import starting_point
from unbin.likelihood.statistics import published_order
from unbin.release.aggregation import aggregate


def quantiles_of(case, quantiles=(0.5,)):
    names = names_of(case)
    return quantile_release(case.y, names, quantiles).align(names).release


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "binomial"])
def test_gradient_of_order_statistics_is_numeric(kind):
    case = make_case(9, kind=kind, n_blocks=8, size=20, d=2)
    release = quantiles_of(case, (0.25, 0.5, 0.9))
    problem = make_problem(case.design, release, get_family(kind, n_trials=20))
    order = published_order(release, problem.counts)
    free = starting_point(problem, order.middle()) + 0.05
    sums = order_sums(problem, order, free)
    np.testing.assert_allclose(sums.block_scores.sum(axis=0), -sums.gradient)
    for j in range(len(free)):
        step = np.zeros(len(free))
        step[j] = 1e-5
        up, down = (order_sums(problem, order, free + s * step).objective for s in (1, -1))
        assert sums.gradient[j] == pytest.approx((up - down) / 2e-5, abs=1e-5)


def test_medians_alone_tell_the_slopes():
    slope, errors = np.array([0.7, -0.5, 0.3, 0.2, -0.3]), []
    for seed in range(4):
        case = make_case(seed, n_blocks=100, size=50, d=5, slope=slope)
        release = quantiles_of(case)
        fit = fit_likelihood(case.design, release, get_family("gaussian"))
        assert fit.status is Status.ORDER
        errors.append(np.linalg.norm(coef_of(case, fit) - slope))
        assert np.exp(fit.nuisance[0]) == pytest.approx(1.0, abs=0.3)
    assert np.mean(errors) < 0.12


def test_blocks_with_quantiles_and_blocks_with_histograms_add():
    case, family = make_case(10, n_blocks=100), get_family("gaussian")
    names = names_of(case)
    left = case.codes % 2 == 0
    table = aggregate(case.y[left], names[left], bins=8)
    medians = quantile_release(case.y, names).select(np.unique(names[~left]))
    release = table.combine(medians).align(names).release
    fit = fit_likelihood(case.design, release, family)
    assert fit.status is Status.ORDER
    assert fit.n_blocks == 100
    np.testing.assert_allclose(coef_of(case, fit), case.coef, atol=0.12)
    half = case.design.to_coefficients(fit.theta)[0]
    assert np.isfinite(half).all()


def test_order_statistics_are_refused_by_thresholds():
    case = make_case(11)
    release = quantiles_of(case)
    with pytest.raises(ReleaseError, match="knows nothing of values between edges"):
        fit_likelihood(case.design, release, get_family("ordinal"))


def test_order_statistics_are_solved_as_far_as_asked():
    case, family = make_case(25), get_family("gaussian")
    release = quantiles_of(case)
    loose, tight = (fit_likelihood(case.design, release, family, tol=t) for t in (1e-2, 1e-12))
    problem = make_problem(case.design, release, family)
    order = published_order(release, problem.counts)
    size = [
        np.abs(order_sums(problem, order, np.append(fit.theta, fit.nuisance)).gradient).max()
        for fit in (loose, tight)
    ]
    assert size[1] < 1e-3 * size[0]
    assert tight.status is Status.ORDER
