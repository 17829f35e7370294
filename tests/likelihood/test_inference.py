"""Uncertainty of a fit: covariance, goodness of fit, Wald tests."""

import numpy as np
import pytest

from tests.helpers.cases import make_case, names_of
from unbin.families import get_family
from unbin.likelihood import fit_likelihood
from unbin.likelihood.data.problem import make_problem
from unbin.likelihood.infer.estimate import (
    Errors,
    covariance,
    wald_test,
    worst_blocks,
)
from unbin.likelihood.model.score import score_sums
from unbin.release.aggregation import aggregate
from unbin.rows.design import lay_out


def covariance_of(information, penalty, scores, *, ratio=1.0, leveraged=False, n_fitted=None):
    """Return the covariance of the parameters of a fit to one table, from these scores of blocks.

    ``n_fitted`` are an intercept and slopes, all of the parameters if it is left out.
    """
    p = len(penalty)
    case = make_case(0, kind="poisson", n_blocks=4, size=20, d=p - 1)
    X = case.X.copy()
    X[:, (n_fitted or p) - 1 :] = 1.0  # the same for everybody
    design = lay_out(X, case.codes, 4)
    problem = make_problem(design, [case.release], get_family("poisson"))
    assert problem.n_fitted == (n_fitted or p)
    sums = score_sums(problem, np.zeros(p), penalty)
    how = {"ratio": ratio, "leveraged": leveraged, "support": None}
    return covariance(problem, np.zeros(p), sums, information, penalty, scores, **how)


def test_few_blocks_take_the_information_many_the_sandwich():
    family = get_family("gaussian")
    few = make_case(12, n_blocks=11)  # 6 parameters
    fit = fit_likelihood(few.design, [few.release], family)
    ratio = max(1.0, fit.goodness.misfit / fit.goodness.df)
    np.testing.assert_allclose(fit.covariance, ratio * fit.model_covariance)
    many = make_case(12, n_blocks=80)
    fit = fit_likelihood(many.design, [many.release], family)
    ratio = np.diag(fit.covariance) / np.diag(fit.model_covariance)
    assert (ratio > 0.36 - 1e-9).all()
    assert ratio.max() > 1.01 * ratio.min()  # not all of them scaled alike
    assert fit.goodness.p_value > 1e-3
    assert fit.goodness.ratio == pytest.approx(fit.goodness.misfit / fit.goodness.df)


def test_the_sandwich_is_that_of_the_blocks_that_say_something():
    """bread Σ g gᵀ bread · B/(B - p), or (B - 1)/B of scores with leverage.

    B is without blocks whose score is 0 whatever the parameters.
    """
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(size=(60, 3)), np.zeros((15, 3))])
    scores[:60] -= scores[:60].mean(axis=0)
    root = rng.normal(size=(9, 3))
    information, penalty = root.T @ root, np.array([0.0, 1.0, 2.0])
    bread = np.linalg.inv(information + np.diag(penalty))
    for leveraged, factor in ((False, 60 / 57), (True, 59 / 60)):
        found, df, kind = covariance_of(
            information, penalty, scores, ratio=7.0, leveraged=leveraged
        )
        assert kind is (Errors.CR3 if leveraged else Errors.CR1)
        np.testing.assert_allclose(found, factor * bread @ scores.T @ scores @ bread)
        assert df == 57


def test_no_blocks_have_no_sandwich():
    found, df, kind = covariance_of(np.zeros((2, 2)), np.ones(2), np.zeros((5, 2)))
    np.testing.assert_array_equal(found, 0.0)
    assert kind is Errors.MODEL
    assert df == 1


def test_no_variance_is_below_that_of_the_model():
    """Scores of few blocks are fitted to 0: their sandwich would call a rare slope exact."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(60, 2)) * [1.0, 0.01]
    information = np.array([[40.0, 3.0], [3.0, 30.0]])
    found, _, _ = covariance_of(information, np.zeros(2), scores)
    model = np.linalg.inv(information)
    assert found[0, 0] > model[0, 0]  # the sandwich's own
    assert found[1, 1] == pytest.approx(model[1, 1])
    assert np.linalg.eigvalsh(found).min() > 0


def test_parameters_without_information_do_not_count_as_fitted():
    rng = np.random.default_rng(1)
    scores = np.column_stack([rng.normal(size=(60, 2)), np.zeros(60)])
    information = np.diag([1.0, 1.0, 0.0])
    found, _, _ = covariance_of(information, np.zeros(3), scores, n_fitted=2)
    alone, _, _ = covariance_of(information[:2, :2], np.zeros(2), scores[:, :2])
    np.testing.assert_allclose(found[:2, :2], alone)


def test_an_odd_block_is_named():
    case, family = make_case(13, n_blocks=60), get_family("gaussian")
    y = case.y + 2.0 * (case.codes == 17)
    release = aggregate(y, names_of(case), bins=8).align(names_of(case)).release
    fit = fit_likelihood(case.design, [release], family)
    assert worst_blocks(fit, 1)[0] == 17
    assert fit.goodness.p_value < 0.05


def test_wald_test_equals_its_formula():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    covariance, estimate = root @ root.T, rng.normal(size=3)
    test = wald_test(estimate, covariance)
    assert test.statistic == pytest.approx(estimate @ np.linalg.solve(covariance, estimate))
    assert test.df == 3
