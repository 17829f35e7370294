"""Order statistics: their law against simulated blocks, the slopes they tell, who refuses them."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal, truncnorm

from tests.helpers.cases import coef_of, draw_targets, make_case, names_of
from tests.helpers.releases import quantile_release
from unbin._watching import Equation, Status
from unbin.exceptions import ReleaseError
from unbin.families import get_family
from unbin.likelihood import fit_likelihood
from unbin.likelihood.data.hidden import within_box
from unbin.likelihood.data.problem import make_problem
from unbin.likelihood.data.tables import published_order
from unbin.likelihood.model.moments import groups_of, map_cells
from unbin.likelihood.model.score import _order_residual, evidence
from unbin.likelihood.solve.start import starting_point
from unbin.release.aggregation import aggregate
from unbin.rows.design import lay_out

QUARTILES = (0.25, 0.5, 0.75)


def quantiles_of(case, quantiles=(0.5,)):
    names = names_of(case)
    return quantile_release(case.y, names, quantiles).align(names).release


def problem_of(design, release, family):
    problem = make_problem(design, [release], family)
    assert problem.first.order is not None
    return problem


@dataclass(frozen=True)
class Order:
    """Order statistics in the units of counts of people: e z, of integers its expectation.

    ``hidden`` is the root of the covariance of e z where that is known to an interval only.
    """

    covariance: np.ndarray
    derivative: np.ndarray
    shift: np.ndarray
    residual: np.ndarray
    hidden: np.ndarray


def order_moments(problem, free):
    table = problem.first
    here = slice(table.n_counted, None)

    def one(sums):
        moments = groups_of(problem, free, sums)
        own, shift = moments.covariance[:, here, here], moments.shift[:, here]
        total = own + problem.block_variance * shift[:, :, None] * shift[:, None, :]
        blocks = np.arange(len(table.order.n))[moments.units]
        moved = _order_residual(sums.values.tables[0], blocks, shift, own, total)
        said = evidence(problem, moments, values=sums.values)
        if not problem.family.domain.integer:  # intervals are put as noise there
            np.testing.assert_array_equal(said.residual[:, here], moved[0])
        return own, said.derivative[:, here], said.shift[:, here], *moved

    found = zip(*map_cells(problem, free, one), strict=True)
    return Order(*(np.concatenate(each) for each in found))


def same_blocks(kind, *, sd=0.0, n_blocks=1500, size=40, quantiles=(0.1, 0.5, 0.75), seed=0):
    """Return order statistics of many blocks of the same people, and the parameters they have."""
    rng = np.random.default_rng(seed)
    x = np.tile(rng.normal(size=size), n_blocks)
    codes = np.repeat(np.arange(n_blocks), size)
    eta = 1.0 + 0.6 * x + (sd * rng.normal(size=n_blocks))[codes]
    y = draw_targets(kind, eta, rng)
    target = quantile_release(y, codes, quantiles).align(codes)
    design = lay_out(x[:, None], target.codes, n_blocks)
    nuisance = {"gaussian": [0.0], "gamma": [np.log(0.5)], "negative-binomial": [np.log(0.5)]}
    level = 1.0 + 0.6 * design.center[0]
    free = np.array([level, 0.6 * design.scale[0], *nuisance.get(kind, [])])
    family = get_family(kind, n_trials=20)
    return replace(problem_of(design, target.release, family), block_variance=sd**2), free


@pytest.mark.parametrize("kind", ["gaussian", "gamma"])
@pytest.mark.parametrize("sd", [0.0, 1.0])
def test_moves_of_real_order_statistics_vary_as_their_law_says(kind, sd):
    problem, free = same_blocks(kind, sd=sd)
    found = order_moments(problem, free)
    z = found.residual / found.shift
    spread = found.covariance / (found.shift[:, :, None] * found.shift[:, None, :])
    expected = spread.mean(axis=0) + sd**2
    size = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(
        np.cov(z.T) / np.outer(size, size), expected / np.outer(size, size), atol=0.15
    )
    assert np.abs(np.median(z, axis=0) / size).max() < 0.08
    # weights are those of where the value is expected, wherever it fell
    assert (found.shift.std(axis=0) < 0.05 * np.abs(found.shift.mean(axis=0))).all()


@pytest.mark.parametrize("kind", ["poisson", "binomial", "negative-binomial"])
@pytest.mark.parametrize(("sd", "quantiles"), [(0.0, (0.1, 0.5, 0.75)), (0.7, (0.5,))])
def test_expected_moves_of_integers_and_what_is_hidden_add_up_to_their_law(kind, sd, quantiles):
    # with effects one quantile: which of several are equal, and left out, depends on them
    problem, free = same_blocks(kind, sd=sd, quantiles=quantiles)
    found = order_moments(problem, free)
    shift = found.shift
    total = found.covariance + sd**2 * shift[:, :, None] * shift[:, None, :]
    valid = problem.first.order.valid[:, :, None] & problem.first.order.valid[:, None, :]
    hidden = found.hidden @ found.hidden.swapaxes(1, 2)
    seen = found.residual[:, :, None] * found.residual[:, None, :]
    scale = np.sqrt(np.where(valid, np.diagonal(total, axis1=1, axis2=2)[:, :, None], 1.0))
    scale = scale * scale.swapaxes(1, 2)
    left = np.where(valid, (seen + hidden - total) / scale, 0.0).sum(axis=0) / valid.sum(axis=0)
    assert np.abs(left).max() < 0.1  # Var E[z | interval] + E Var[z | interval] = Var z
    size = np.sqrt(np.diagonal(scale, axis1=1, axis2=2))
    mean = np.where(problem.first.order.valid, found.residual / size, 0.0).mean(axis=0)
    assert np.abs(mean).max() < 0.08


@pytest.mark.parametrize("kind", ["gaussian", "gamma", "poisson"])
def test_moves_follow_the_parameters_as_the_derivative_says(kind):
    problem, free = same_blocks(kind, n_blocks=20)
    if kind == "poisson":  # an interval as narrow as a value
        order = problem.first.order
        order = replace(order, value=order.value + 0.5)
        problem = problem.with_tables([replace(problem.first, order=order)])
        problem = replace(problem, family=get_family("gamma"))
        free = np.append(free, 0.0)
    found = order_moments(problem, free)
    for j in range(len(free)):
        step = np.zeros(len(free))
        step[j] = 1e-4
        up, down = (order_moments(problem, free + s * step) for s in (1, -1))
        moved = (up.residual / up.shift - down.residual / down.shift) / 2e-4
        expected = -found.derivative[:, :, j] / found.shift
        valid = problem.first.order.valid
        np.testing.assert_allclose(moved[valid], expected[valid], rtol=1e-3, atol=1e-4)


def test_a_row_of_weight_two_is_two_people():
    case = make_case(3, n_blocks=12, size=30, d=2)
    twice = np.repeat(np.arange(len(case.y)), 2)
    names = names_of(case)
    target = quantile_release(case.y[twice], names[twice], QUARTILES)
    family = get_family("gaussian")
    by_rows = target.align(names[twice])
    by_weight = target.align(names, weights=np.full(len(names), 2.0))
    rows = lay_out(case.X[twice], by_rows.codes, 12)
    weighed = lay_out(case.X, by_weight.codes, 12, weights=np.full(len(names), 2.0))
    free = np.array([0.3, 1.0, -0.5, 0.1])
    first, second = (
        order_moments(problem_of(design, each.release, family), free)
        for design, each in ((rows, by_rows), (weighed, by_weight))
    )
    for name in ("covariance", "derivative", "shift", "residual"):
        np.testing.assert_allclose(getattr(first, name), getattr(second, name), rtol=1e-8)


def test_equal_integers_are_known_by_their_first_and_last():
    release = quantile_release(
        np.array([0, 1, 1, 1, 1, 1, 1, 1, 2, 5.0]), np.zeros(10), (0.2, 0.3, 0.5, 0.8, 1.0)
    )
    release = release.align(np.zeros(10)).release
    problem = make_problem(
        lay_out(np.arange(10.0)[:, None], np.zeros(10, int), 1), [release], get_family("poisson")
    )
    order = problem.first.order
    np.testing.assert_array_equal(order.value, [[1, 1, 5]])
    np.testing.assert_array_equal(order.rank, [[2, 8, 10]])
    np.testing.assert_array_equal(order.lowest, [[True, False, True]])
    np.testing.assert_array_equal(order.highest, [[False, True, True]])
    rounded = published_order(release, problem.first.counts, get_family("gamma").domain)
    np.testing.assert_allclose(rounded.rank, [[4.5, 10]])


def test_normal_variables_within_intervals():
    one = np.array([[[4.0]]])
    mean, root = within_box(one, np.array([[-0.5]]), np.array([[1.5]]), np.array([[True]]))
    law = truncnorm(-0.5, 1.5, scale=2.0)
    assert mean[0, 0] == pytest.approx(law.mean(), rel=1e-4)
    assert root[0, 0, 0] ** 2 == pytest.approx(law.var(), rel=1e-3)
    covariance = np.array([[1.0, 0.7], [0.7, 2.0]])
    low, high = np.array([0.2, -np.inf]), np.array([1.4, 0.3])
    used = np.ones((1, 2), dtype=bool)
    mean, root = within_box(covariance[None], low[None], high[None], used)
    draws = multivariate_normal(np.zeros(2), covariance).rvs(400_000, random_state=0)
    scaled = draws / np.sqrt(np.diag(covariance))
    inside = draws[((scaled > low) & (scaled < high)).all(axis=1)]
    np.testing.assert_allclose(mean[0], inside.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(root[0] @ root[0].T, np.cov(inside.T), atol=0.02)


def solved_order(fit):
    """Tell whether the quasi-score of published order statistics was solved."""
    solved = fit.status is Status.CONVERGED and fit.equation is Equation.SCORE
    return solved and fit.first.quantiles is not None


def test_medians_alone_tell_the_slopes():
    slope, errors = np.array([0.7, -0.5, 0.3, 0.2, -0.3]), []
    for seed in range(4):
        case = make_case(seed, n_blocks=100, size=50, d=5, slope=slope)
        release = quantiles_of(case)
        fit = fit_likelihood(case.design, [release], get_family("gaussian"))
        assert solved_order(fit)
        errors.append(np.linalg.norm(coef_of(case, fit) - slope))
        assert np.exp(fit.nuisance[0]) == pytest.approx(1.0, abs=0.3)
        assert fit.goodness.ratio == pytest.approx(1.0, abs=1e-3)
    assert np.mean(errors) < 0.12


@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
def test_in_large_blocks_quartiles_say_what_counts_at_them_do(kind):
    """To first order a quantile and the count of people below it are the same (Bahadur)."""
    case, family = make_case(4, kind=kind, n_blocks=60, size=1500, d=2), get_family(kind)
    if kind == "poisson":  # hardly any ties
        y = np.random.default_rng(0).poisson(np.exp(case.X @ case.coef + 5.0)).astype(float)
        case = replace(case, y=y)
    release = quantiles_of(case, QUARTILES)
    order = fit_likelihood(case.design, [release], family)
    cut = np.quantile(case.y, QUARTILES)
    counts = aggregate(case.y, names_of(case), bins=[-np.inf, *cut, np.inf])
    counts = counts.align(names_of(case)).release
    fixed = fit_likelihood(case.design, [counts], family)
    se = [np.sqrt(np.diag(fit.model_covariance))[1:3] for fit in (order, fixed)]
    assert (np.abs(order.theta[1:] - fixed.theta[1:]) < 2 * se[1]).all()
    np.testing.assert_allclose(se[0], se[1], rtol=0.35)


@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
def test_quartiles_under_block_effects_are_covered(kind):
    scores, sds, ratios = [], [], []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        codes = np.repeat(np.arange(40), 60)
        X = rng.normal(size=(len(codes), 2)) + 0.5 * rng.normal(size=(40, 2))[codes]
        eta = X @ [0.5, -0.3] + (0.4 * rng.normal(size=40))[codes] + (kind == "poisson")
        y = draw_targets(kind, eta, rng)
        target = quantile_release(y, codes, QUARTILES).align(codes)
        design = lay_out(X, target.codes, 40)
        fit = fit_likelihood(design, [target.release], get_family(kind))
        error = np.sqrt(np.diag(fit.covariance))[1:3] / design.scale
        scores.append((design.to_coefficients(fit.theta)[0] - [0.5, -0.3]) / error)
        sds.append(fit.block_sd)
        ratios.append(fit.goodness.ratio)
    assert np.mean(sds) == pytest.approx(0.4, abs=0.06)
    assert 0.6 < np.sqrt(np.mean(np.square(scores))) < 1.4
    assert min(ratios) > 1.5  # effects not allowed for


@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
def test_the_misfit_of_deciles_is_that_expected(kind):
    ratios = []
    for seed in range(6):
        case = make_case(seed, kind=kind, n_blocks=40, size=40, d=2)
        release = quantiles_of(case, tuple(np.arange(1, 10) / 10))
        fit = fit_likelihood(case.design, [release], get_family(kind))
        ratios.append(fit.goodness.ratio)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.12)


def test_blocks_with_quantiles_and_blocks_with_histograms_add():
    case, family = make_case(10, n_blocks=100), get_family("gaussian")
    names = names_of(case)
    left = case.codes % 2 == 0
    table = aggregate(case.y[left], names[left], bins=8)
    medians = quantile_release(case.y, names).select(np.unique(names[~left]))
    release = table.combine(medians).align(names).release
    fit = fit_likelihood(case.design, [release], family)
    assert solved_order(fit)
    assert fit.n_blocks == 100
    np.testing.assert_allclose(coef_of(case, fit), case.coef, atol=0.12)
    # levels of both kinds of blocks; bins that were not published are no part of them
    assert fit.specification.shape.p_value > 0.05
    levels = fit_likelihood(case.design, [release], family, robust=True)
    np.testing.assert_allclose(coef_of(case, levels), case.coef, atol=0.12)


def test_order_statistics_are_refused_by_thresholds():
    case = make_case(11)
    release = quantiles_of(case)
    with pytest.raises(ReleaseError, match="knows nothing of values between edges"):
        fit_likelihood(case.design, [release], get_family("ordinal"))


def test_order_statistics_are_solved_as_far_as_asked():
    case, family = make_case(25), get_family("gaussian")
    release = quantiles_of(case, QUARTILES)
    loose, tight = (fit_likelihood(case.design, [release], family, tol=t) for t in (1e-2, 1e-12))
    assert tight.path[-1] < 1e-8
    assert loose.n_iter <= tight.n_iter
    assert solved_order(tight)


def test_the_start_has_the_spread_of_the_quartiles():
    case, family = make_case(26, sigma=2.0), get_family("gaussian")
    problem = problem_of(case.design, quantiles_of(case, QUARTILES), family)
    assert np.exp(starting_point(problem)[-1]) == pytest.approx(2.0, rel=0.3)
