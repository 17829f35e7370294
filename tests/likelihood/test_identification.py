"""What a release can tell: the gate, efficiency, and the regression of block means."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.cases import make_case, names_of
from unbin.families import get_family
from unbin.likelihood import fit_likelihood
from unbin.likelihood.counts import block_targets
from unbin.likelihood.diagnostics import (
    compare_with_block_means,
    efficiency,
    identification,
)
from unbin.likelihood.start import block_means_regression
from unbin.release.aggregation import aggregate


def gate_of(case, family):
    fit = fit_likelihood(case.design, case.release, family)
    return identification(case.design, family, fit, len(case.design.scale))


def test_one_block_is_not_identified_and_many_are():
    family = get_family("gaussian")
    one = make_case(15, n_blocks=1, size=2_000)
    gate = gate_of(one, family)
    assert not gate.identified
    assert gate.reason.startswith("not identified: a single block does not identify")
    many = make_case(15, n_blocks=60)
    gate = gate_of(many, family)
    assert gate.identified
    assert gate.reason.startswith("identified: 60 blocks")
    few = make_case(15, n_blocks=10)
    gate = gate_of(few, family)
    assert "too few" in gate.reason


@pytest.mark.parametrize(("n_blocks", "identified"), [(17, False), (18, True)])
def test_three_blocks_per_coefficient_are_needed(n_blocks, identified):
    """Four slopes, an intercept and a scale: 18 blocks."""
    case, family = make_case(15, n_blocks=60), get_family("gaussian")
    fit = fit_likelihood(case.design, case.release, family)
    gate = identification(case.design, family, replace(fit, n_blocks=n_blocks), 4)
    assert gate.identified is identified
    assert identified or "17 blocks are too few for 4 slopes, at least 18" in gate.reason


def test_two_shared_bins_leave_the_scale_free():
    case, family = make_case(16, bins=2), get_family("gaussian")
    gate = gate_of(case, family)
    assert "only in units of the noise" in gate.reason


@pytest.mark.parametrize("kind", ["gaussian", "gamma", "negative-binomial", "beta-binomial"])
def test_two_shared_bins_leave_every_dispersion_free(kind):
    case = make_case(16)
    y = np.round(np.exp(0.5 * case.y)) if "binomial" in kind else np.exp(case.y)
    family = get_family(kind, n_trials=40)
    release = aggregate(np.minimum(y, 40), names_of(case), bins=[-1, 2, np.inf])
    release = release.align(names_of(case)).release
    fit = fit_likelihood(case.design, release, family)
    gate = identification(case.design, family, fit, 4)
    assert "only in units of the noise" in gate.reason


def test_a_slope_that_only_the_intercept_holds_is_not_identified():
    """All people with a rare feature are beyond the last edge: they can go further, and nothing
    changes as long as the intercept makes up for the mean of the feature."""
    case, family = make_case(15, n_blocks=60), get_family("gaussian")
    fit = fit_likelihood(case.design, case.release, family)
    flat = np.zeros(len(fit.information))
    flat[:2] = [1.0, 5.0]
    flat /= np.linalg.norm(flat)
    project = np.eye(len(flat)) - np.outer(flat, flat)
    information = project @ fit.information @ project
    assert identification(case.design, family, fit, 4).identified
    gate = identification(case.design, family, replace(fit, information=information), 4)
    assert "does not change what was published" in gate.reason


def test_flat_targets_have_a_large_relative_error():
    case, family = make_case(17, slope=np.zeros(4)), get_family("gaussian")
    gate = gate_of(case, family)
    assert not gate.identified
    assert "standard errors are" in gate.reason


def test_the_release_holds_less_than_individual_data():
    family = get_family("gaussian")
    coarse, fine = (make_case(14, bins=bins, n_blocks=80) for bins in (3, 20))
    values = []
    for case in (coarse, fine):
        fit = fit_likelihood(case.design, case.release, get_family("gaussian"))
        values.append(efficiency(case.design, family, fit))
    assert values[0].mean() < values[1].mean()
    assert (values[1] > 0.1).all()
    assert (values[1] < 1).all()


def test_block_means_regression_agrees_where_it_should():
    case, family = make_case(18, n_blocks=100, bins=20), get_family("gaussian")
    fit = fit_likelihood(case.design, case.release, family)
    targets = block_targets(fit.counts)
    other = block_means_regression(case.design, family, targets, fit.nuisance)
    comparison = compare_with_block_means(case.design, fit, other, len(case.design.scale))
    np.testing.assert_allclose(comparison.coef, case.coef, atol=0.15)
    assert comparison.test.p_value > 1e-3
    assert comparison.test.df == 4
