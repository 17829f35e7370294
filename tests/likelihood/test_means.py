"""Means of blocks, alone and beside a histogram."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.helpers.cases import block_mean, make_case, names_of, without_tables
from unbin._watching import Status
from unbin.exceptions import ReleaseError
from unbin.families import get_family
from unbin.likelihood import fit_likelihood
from unbin.likelihood.data.problem import make_problem
from unbin.likelihood.model.score import score_sums
from unbin.likelihood.solve import root
from unbin.likelihood.solve.scoring import ScoringResult
from unbin.likelihood.solve.start import starting_point
from unbin.release.aggregation import aggregate


@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
def test_means_alone_are_the_ecological_regression(kind):
    case, family = make_case(6, kind=kind, n_blocks=60, size=40, d=2), get_family(kind)
    means = block_mean(case.y, case.codes)
    fit = fit_likelihood(
        case.design, [replace(without_tables(case), means=means)], family, tol=1e-12
    )

    def expected(theta):
        return block_mean(family.inverse_link(case.design.eta(theta)), case.codes)

    spread = block_mean(family.variance(case.design.eta(fit.theta), fit.nuisance), case.codes)

    def loss(theta):  # the variance held where the fit put it
        return float((40 * (means - expected(theta)) ** 2 / spread).sum())

    start = starting_point(
        make_problem(case.design, [replace(without_tables(case), means=means)], family)
    )
    found = minimize(loss, start[:3], method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(fit.theta, found.x, atol=1e-4)
    assert fit.goodness.df == pytest.approx(57, abs=1e-2)


def test_the_noise_scale_of_means_alone_meets_the_misfit():
    case, family = make_case(7, n_blocks=80, size=30, sigma=2.0), get_family("gaussian")
    means = block_mean(case.y, case.codes)
    fit = fit_likelihood(case.design, [replace(without_tables(case), means=means)], family)
    assert fit.goodness.ratio == pytest.approx(1.0, abs=1e-4)
    assert np.exp(fit.nuisance[0]) == pytest.approx(2.0, rel=0.2)


def test_means_sharpen_a_histogram():
    case, family = make_case(8, bins=3), get_family("gaussian")
    means = block_mean(case.y, case.codes)
    alone = fit_likelihood(case.design, [case.release], family)
    both = fit_likelihood(case.design, [replace(case.release, means=means)], family)
    some = np.where(np.arange(50) < 25, means, np.nan)
    half = fit_likelihood(case.design, [replace(case.release, means=some)], family)
    traces = [np.trace(np.linalg.inv(fit.information)) for fit in (both, half, alone)]
    assert traces == sorted(traces)
    assert both.goodness.df - alone.goodness.df == pytest.approx(50, abs=1e-2)
    assert half.goodness.df - alone.goodness.df == pytest.approx(25, abs=1e-2)


def test_means_are_refused_by_thresholds():
    case = make_case(11)
    means = np.zeros(len(case.release))
    with pytest.raises(ReleaseError, match="has no mean in the units of the target"):
        fit_likelihood(case.design, [replace(case.release, means=means)], get_family("ordinal"))


def test_means_that_the_counts_tell_are_left_out():
    case = make_case(23, kind="binomial")
    y = (case.y > 10).astype(float)
    release = aggregate(y, names_of(case), bins=[-1, 0, 1]).align(names_of(case)).release
    means = np.array([y[case.codes == b].mean() for b in range(len(release))])
    family = get_family("binomial", n_trials=1)
    told = make_problem(case.design, [replace(release, means=means)], family)
    assert told.first.means is None
    assert told.unit is None
    beside = [replace(case.release, means=means)]
    assert make_problem(case.design, beside, get_family("gaussian")).first.means is means


def test_means_that_no_slopes_explain_get_the_pooled_fit(monkeypatch):
    case, family = make_case(24, kind="poisson", n_blocks=12), get_family("poisson")
    means = np.array([case.y[case.codes == b].mean() for b in range(12)])
    far = np.array([0.5, 3.0, -3.0, 3.0, -3.0])

    def runs_away(problem, free, penalty, **_):
        return ScoringResult(far, score_sums(problem, far, penalty), Status.NOT_CONVERGED, 1, ())

    monkeypatch.setattr(root, "solve_means", runs_away)
    fit = fit_likelihood(case.design, [replace(without_tables(case), means=means)], family)
    assert fit.status is Status.POOLED
    np.testing.assert_array_equal(fit.theta[1:], 0.0)
    assert np.exp(fit.theta[0]) == pytest.approx(case.y.mean(), rel=0.05)
