from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.optimize import minimize

from test_likelihood_cases import make_case
from unbin._status import Status
from unbin._watching import watching
from unbin.exceptions import DomainError, ReleaseError
from unbin.families import get_family
from unbin.likelihood import fit as fit_module
from unbin.likelihood import fit_likelihood
from unbin.likelihood.ecological import block_means_regression, block_targets
from unbin.likelihood.fit import _explains_more, make_problem, pooled_fit, ridge_penalty
from unbin.likelihood.identification import (
    compare_with_block_means,
    efficiency,
    identification,
)
from unbin.likelihood.inference import covariance, goodness_of_fit, wald_test, worst_blocks
from unbin.likelihood.order import order_sums, published_order
from unbin.likelihood.scoring import ScoringResult, _Memory, score_sums
from unbin.likelihood.start import starting_point
from unbin.likelihood.statistics import published_counts
from unbin.likelihood.thinning import thin, worth_thinning
from unbin.release import Release, tables
from unbin.release.aggregation import aggregate
from unbin.rows.design import lay_out


def coef_of(case, fit):
    return case.design.to_coefficients(fit.theta)[0]


def names_of(case):
    return case.release.blocks[case.codes]


def quantile_release(case, quantiles):
    names, rows = names_of(case), []
    for block in np.unique(names):
        values = np.sort(case.y[names == block])
        rank = [max(int(np.ceil(q * len(values) - 1e-9)), 1) for q in quantiles]
        rows += [(block, q, values[r - 1]) for q, r in zip(quantiles, rank, strict=True)]
    block, quantile, value = zip(*rows, strict=True)
    return Release.from_quantiles({"block": block, "quantile": quantile, "value": value})


def without_tables(case):
    n_blocks = len(case.release.blocks)
    return replace(
        case.release,
        histogram=tables.no_histogram(n_blocks),
        order_statistics=tables.no_order(n_blocks),
    )


def block_mean(values, codes):
    return np.bincount(codes, values) / np.bincount(codes)


# -- histograms ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "bins", "largest"), [("gaussian", 8, 0.04), ("poisson", 6, 0.025)]
)
def test_slopes_are_recovered_from_histograms(kind, bins, largest):
    family, errors = get_family(kind), []
    for seed in range(6):
        case = make_case(seed, kind=kind, bins=bins)
        fit = fit_likelihood(case.design, case.release, family)
        assert fit.status is Status.CONVERGED
        errors.append(coef_of(case, fit) - case.coef)
    assert np.sqrt(np.mean(np.square(errors))) <= largest


def test_thresholds_are_recovered():
    case = make_case(0, kind="ordinal", n_blocks=100, bins=[-np.inf, -1.0, 0.5, 2.0, np.inf])
    fit = fit_likelihood(case.design, case.release, get_family("ordinal"))
    coef, intercept = case.design.to_coefficients(fit.theta)
    np.testing.assert_allclose(coef, case.coef, atol=0.2)
    np.testing.assert_allclose(fit.nuisance - intercept, np.array([-1.3, 0.2, 1.7]), atol=0.2)
    assert fit.theta[0] == 0.0


def test_without_noise_the_composite_estimate_stands():
    case = make_case(0, sigma=1e-3, n_blocks=60, size=40, bins=5)
    fit = fit_likelihood(case.design, case.release, get_family("gaussian"))
    assert fit.status is Status.COMPOSITE
    np.testing.assert_allclose(coef_of(case, fit), case.coef, atol=0.05)


def test_a_ridge_shrinks_and_its_equation_is_solved():
    case, family = make_case(1), get_family("gaussian")
    free = fit_likelihood(case.design, case.release, family)
    tight = fit_likelihood(case.design, case.release, family, alpha=0.5)
    assert np.linalg.norm(coef_of(case, tight)) < 0.8 * np.linalg.norm(coef_of(case, free))
    problem = make_problem(case.design, case.release, family)
    at = problem.coordinates.join(tight.theta, tight.nuisance)
    sums = score_sums(problem, at, ridge_penalty(problem, 0.5))
    assert sums.score @ np.linalg.solve(sums.information, sums.score) < 1e-4


def test_a_start_at_the_solution_stays_there():
    case, family = make_case(2), get_family("gaussian")
    steps = []
    with watching(lambda step: steps.append(step.parameters)):
        fit = fit_likelihood(case.design, case.release, family)
    again = fit_likelihood(case.design, case.release, family, start=steps[-1])
    assert again.n_iter < fit.n_iter
    np.testing.assert_allclose(again.theta, fit.theta, atol=1e-4)


def test_a_full_list_is_counted_in_pooled_bins():
    case = make_case(3, n_blocks=40, size=50)
    values = Release.from_values({"block": names_of(case), "value": case.y})
    release = values.align(names_of(case)).release
    counts = published_counts(release, get_family("gaussian").domain)
    assert counts.shared
    assert counts.n_bins == 50
    fit = fit_likelihood(case.design, release, get_family("gaussian"))
    np.testing.assert_allclose(coef_of(case, fit), case.coef, atol=0.12)


def test_noise_added_to_counts_widens_the_errors():
    case, family = make_case(4), get_family("gaussian")
    plain = fit_likelihood(case.design, case.release, family)
    noisy = fit_likelihood(case.design, replace(case.release, noise_sd=5.0), family)
    gain = np.diag(np.linalg.inv(noisy.information)) / np.diag(np.linalg.inv(plain.information))
    assert (gain > 1.2).all()
    assert noisy.misfit < plain.misfit


def test_thinned_rows_stand_for_all():
    case = make_case(5, n_blocks=50, size=6_000, d=2, bins=5)
    problem = make_problem(case.design, case.release, get_family("gaussian"))
    assert worth_thinning(problem)
    coarse = thin(problem)
    kept = np.diff(coarse.design.start)
    assert kept.sum() < 0.3 * len(case.y)
    np.testing.assert_allclose(coarse.weight * kept, case.release.n)
    assert not worth_thinning(make_problem(*_small()))


def _small():
    case = make_case(0)
    return case.design, case.release, get_family("gaussian")


# -- partitions ----------------------------------------------------------------------------------


def test_gaps_and_outer_space_close_the_partition():
    table = {
        "block": ["a"] * 2 + ["b"] * 3,
        "lower": [0, 20, 0, 10, 20],
        "upper": [10, 30, 10, 20, 30],
        "count": [40, 10, 30, 0, 20],
    }
    release = Release.from_histogram(table)
    counts = published_counts(release, get_family("gaussian").domain)
    assert counts.shared
    np.testing.assert_array_equal(counts.lower, [-np.inf, 10, 20])
    np.testing.assert_array_equal(counts.upper, [10, 20, np.inf])
    np.testing.assert_array_equal(counts.count, [[40, 0, 10], [30, 0, 20]])


def test_near_empty_far_bins_are_merged():
    y = np.concatenate([np.random.default_rng(0).normal(size=2_000), [50.0]])
    release = aggregate(y, bins=[-np.inf, -1, 0, 1, 10, np.inf])
    counts = published_counts(release, get_family("gaussian").domain)
    np.testing.assert_array_equal(counts.upper, [-1, 0, 1, np.inf])
    kept = published_counts(release, get_family("gaussian").domain, smallest=1)
    assert kept.n_bins == 5


def test_bins_the_fit_rules_out_are_merged():
    rng = np.random.default_rng(0)
    case = make_case(0, n_blocks=60, size=200)
    y = case.X @ case.coef + rng.standard_t(2.5, size=len(case.y))
    edges = [-np.inf, -25, -12, -3, -1, 0, 1, 3, 12, 25, np.inf]
    release = aggregate(y, names_of(case), bins=edges).align(names_of(case)).release
    assert published_counts(release, get_family("gaussian").domain).n_bins > 6
    fit = fit_likelihood(case.design, release, get_family("gaussian"))
    np.testing.assert_array_equal(fit.counts.upper, [-3, -1, 0, 1, 3, np.inf])
    np.testing.assert_array_equal(fit.counts.lower, [-np.inf, -3, -1, 0, 1, 3])
    np.testing.assert_array_equal(fit.counts.count.sum(axis=1), release.n)
    assert fit.misfit / fit.df < 20


def test_rare_events_keep_their_bin():
    y = np.zeros(1_000)
    y[0] = 1.0
    release = aggregate(y, bins=[-0.5, 0.5, 1.5])
    counts = published_counts(release, get_family("binomial").domain)
    np.testing.assert_array_equal(counts.count, [[999, 1]])
    np.testing.assert_array_equal(counts.lower, [0, 1])
    np.testing.assert_array_equal(counts.upper, [0, 1])


def test_extremes_of_single_blocks_are_left_open():
    table = {
        "block": ["a", "a", "b", "b"],
        "lower": [-1.37, 0, -2.21, 0],
        "upper": [0, 1.93, 0, 1.44],
        "count": [20, 30, 25, 25],
    }
    counts = published_counts(Release.from_histogram(table), get_family("gaussian").domain)
    assert counts.shared
    np.testing.assert_array_equal(counts.lower, [-np.inf, 0])


def test_a_blocks_own_extremes_are_open_where_others_have_people_beyond_them():
    table = {
        "block": ["a", "a", "b", "b", "b", "c", "c", "c"],
        "lower": [-2.2, 0, -9.0, -3, 0, 0, 3, 5],
        "upper": [0, 2.5, -3, 0, 3, 3, 5, 9],
        "count": [20, 30, 10, 10, 20, 10, 20, 30],
    }
    counts = published_counts(Release.from_histogram(table), get_family("gaussian").domain)
    real = counts.valid()
    cuts = [counts.upper[b][real[b]][:-1].tolist() for b in range(3)]
    assert cuts == [[0.0], [-3.0, 0.0, 3.0], [0.0, 3.0, 5.0]]  # -2.2, 2.5, -9 and 9 are extremes
    np.testing.assert_array_equal(counts.count[0], [20, 30, 0, 0])


def test_edges_that_do_not_separate_integers_are_refused():
    release = aggregate(np.arange(20.0), bins=[-1, 3.3, np.inf])
    with pytest.raises(DomainError, match="whole or half numbers"):
        published_counts(release, get_family("poisson").domain)


def test_a_histogram_of_other_people_is_refused():
    release = aggregate(np.arange(20.0), bins=3)
    with pytest.raises(ReleaseError, match="the block has 25"):
        published_counts(replace(release, n=np.array([25])), get_family("gaussian").domain)


def test_ordinal_needs_common_edges():
    table = {
        "block": ["a", "a", "b", "b"],
        "lower": [None, 0, None, 1],
        "upper": [0, None, 1, None],
        "count": [20, 30, 25, 25],
    }
    release = Release.from_histogram(table)
    design = lay_out(np.random.default_rng(0).normal(size=(100, 1)), np.repeat([0, 1], 50), 2)
    with pytest.raises(ReleaseError, match="needs the same bins in every block"):
        fit_likelihood(design, release, get_family("ordinal"))


# -- means ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
def test_means_alone_are_the_ecological_regression(kind):
    case, family = make_case(6, kind=kind, n_blocks=60, size=40, d=2), get_family(kind)
    means = block_mean(case.y, case.codes)
    fit = fit_likelihood(case.design, replace(without_tables(case), means=means), family, tol=1e-12)

    def expected(theta):
        return block_mean(family.inverse_link(case.design.eta(theta)), case.codes)

    spread = block_mean(family.variance(case.design.eta(fit.theta), fit.nuisance), case.codes)

    def loss(theta):  # the variance held where the fit put it
        return float((40 * (means - expected(theta)) ** 2 / spread).sum())

    start = starting_point(
        make_problem(case.design, replace(without_tables(case), means=means), family)
    )
    found = minimize(loss, start[:3], method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(fit.theta, found.x, atol=1e-4)
    assert fit.df == pytest.approx(57, abs=1e-2)


def test_the_noise_scale_of_means_alone_meets_the_misfit():
    case, family = make_case(7, n_blocks=80, size=30, sigma=2.0), get_family("gaussian")
    means = block_mean(case.y, case.codes)
    fit = fit_likelihood(case.design, replace(without_tables(case), means=means), family)
    assert fit.misfit / fit.df == pytest.approx(1.0, abs=1e-4)
    assert np.exp(fit.nuisance[0]) == pytest.approx(2.0, rel=0.2)


def test_means_sharpen_a_histogram():
    case, family = make_case(8, bins=3), get_family("gaussian")
    means = block_mean(case.y, case.codes)
    alone = fit_likelihood(case.design, case.release, family)
    both = fit_likelihood(case.design, replace(case.release, means=means), family)
    some = np.where(np.arange(50) < 25, means, np.nan)
    half = fit_likelihood(case.design, replace(case.release, means=some), family)
    traces = [np.trace(np.linalg.inv(fit.information)) for fit in (both, half, alone)]
    assert traces == sorted(traces)
    assert both.df - alone.df == pytest.approx(50, abs=1e-2)
    assert half.df - alone.df == pytest.approx(25, abs=1e-2)


# -- order statistics ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "binomial"])
def test_gradient_of_order_statistics_is_numeric(kind):
    case = make_case(9, kind=kind, n_blocks=8, size=20, d=2)
    release = quantile_release(case, (0.25, 0.5, 0.9)).align(names_of(case)).release
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
        release = quantile_release(case, (0.5,)).align(names_of(case)).release
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
    medians = quantile_release(case, (0.5,)).select(np.unique(names[~left]))
    release = table.combine(medians).align(names).release
    fit = fit_likelihood(case.design, release, family)
    assert fit.status is Status.ORDER
    assert fit.n_blocks == 100
    np.testing.assert_allclose(coef_of(case, fit), case.coef, atol=0.12)
    half = case.design.to_coefficients(fit.theta)[0]
    assert np.isfinite(half).all()


def test_order_statistics_are_refused_by_thresholds():
    case = make_case(11)
    release = quantile_release(case, (0.5,)).align(names_of(case)).release
    with pytest.raises(ReleaseError, match="knows nothing of values between edges"):
        fit_likelihood(case.design, release, get_family("ordinal"))


def test_means_are_refused_by_thresholds():
    case = make_case(11)
    means = np.zeros(len(case.release))
    with pytest.raises(ReleaseError, match="has no mean in the units of the target"):
        fit_likelihood(case.design, replace(case.release, means=means), get_family("ordinal"))


def solved_nowhere(problem, free, penalty, **_):
    """Stand in for scoring that ends far from any root, the scale collapsed."""
    held = penalty.max(initial=0.0) > 1e6  # slopes held at 0: the pooled fit
    at = free if held else np.append(np.full(len(free) - 1, 20.0), -5.0)
    return ScoringResult(at, score_sums(problem, at, penalty), Status.NOT_CONVERGED, 1, (1.0,))


def test_no_fit_explains_its_table_worse_than_slopes_of_0(monkeypatch):
    case = make_case(20, n_blocks=30)
    monkeypatch.setattr(fit_module, "solve_quasi_score", solved_nowhere)
    monkeypatch.setattr(fit_module, "maximise_composite", lambda _p, free, _: Ended(free))
    fit = fit_likelihood(case.design, case.release, get_family("gaussian"))
    assert fit.status is Status.POOLED
    assert not fit.status.converged
    np.testing.assert_array_equal(fit.theta[1:], 0.0)
    assert not fit.told().any()
    assert fit.theta[0] == pytest.approx(case.y.mean(), abs=0.1)
    found = identification(case.design, get_family("gaussian"), fit, 4)
    assert "slopes of 0" in found.reason
    assert not found.identified


@dataclass
class Ended:
    free: np.ndarray
    converged: bool = False
    n_iter: int = 1


@pytest.mark.parametrize(
    ("score", "misfit", "kind", "status", "more"),
    [
        (0.1, 0.5, "gaussian", Status.NOT_CONVERGED, True),
        (0.1, 2.0, "gaussian", Status.NOT_CONVERGED, False),  # a scale that collapsed
        (-0.1, 0.5, "gaussian", Status.NOT_CONVERGED, False),
        (0.1, 2.0, "ordinal", Status.NOT_CONVERGED, True),  # means of bins cannot run away
        (0.1, 2.0, "gaussian", Status.COMPOSITE, True),  # S is singular
        (-0.1, 0.5, "gaussian", Status.COMPOSITE, False),
    ],
)
def test_what_explains_a_table_better_than_slopes_of_0(score, misfit, kind, status, more):
    case = make_case(21)
    problem = make_problem(case.design, case.release, get_family(kind))
    penalty = ridge_penalty(problem, 0.0)
    pooled = pooled_fit(problem, penalty, tol=1e-6, max_iter=50)
    share = np.exp(score) * pooled.sums.mean  # expected counts that score so much more
    sums = replace(pooled.sums, mean=share, block_misfit=misfit * pooled.sums.block_misfit)
    other = replace(pooled, sums=sums, status=status)
    assert _explains_more(problem, other, pooled) is more


@pytest.mark.parametrize(("score", "final"), [(0.1, True), (-0.1, False)])
def test_a_root_worse_than_slopes_of_0_is_not_the_last_word(score, final):
    case = make_case(21)
    problem = make_problem(case.design, case.release, get_family("gaussian"))
    pooled = pooled_fit(problem, ridge_penalty(problem, 0.0), tol=1e-6, max_iter=50)
    sums = replace(pooled.sums, mean=np.exp(score) * pooled.sums.mean)
    root = replace(pooled, sums=sums, status=Status.CONVERGED)
    assert fit_module._is_final(problem, root) is final


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "ordinal"])
def test_the_pooled_fit_is_that_of_everybody_together(kind, monkeypatch):
    """Against the same family fitted to a design without features; no block effects allowed."""
    monkeypatch.setattr("unbin.likelihood.effects.block_variance", lambda *_: 0.0)
    case = make_case(22, kind=kind)
    family = get_family(kind)
    problem = make_problem(case.design, case.release, family)
    pooled = pooled_fit(problem, ridge_penalty(problem, 0.0), tol=1e-10, max_iter=50)
    bare = lay_out(np.empty((len(case.y), 0)), case.codes, len(case.release))
    alone = fit_likelihood(bare, case.release, family, tol=1e-10)
    theta, nuisance = problem.coordinates.split(pooled.free)
    np.testing.assert_array_equal(theta[1:], 0.0)
    np.testing.assert_allclose(theta[:1], alone.theta, atol=1e-4)
    np.testing.assert_allclose(nuisance, alone.nuisance, atol=1e-4)


# -- uncertainty and diagnostics -----------------------------------------------------------------


def test_few_blocks_take_the_information_many_the_sandwich():
    family = get_family("gaussian")
    few = make_case(12, n_blocks=30)
    fit = fit_likelihood(few.design, few.release, family)
    ratio = max(1.0, fit.misfit / fit.df)
    np.testing.assert_allclose(fit.covariance, ratio * fit.model_covariance)
    many = make_case(12, n_blocks=80)
    fit = fit_likelihood(many.design, many.release, family)
    ratio = np.diag(fit.covariance) / np.diag(fit.model_covariance)
    assert (ratio > 1 - 1e-9).all()
    assert ratio.max() > 1.01 * ratio.min()  # not all of them scaled alike
    fit_gof = goodness_of_fit(fit)
    assert fit_gof.p_value > 1e-3
    assert fit_gof.ratio == pytest.approx(fit.misfit / fit.df)


def test_the_sandwich_is_that_of_the_blocks_that_say_something():
    """bread Σ g gᵀ bread · B/(B - p), B without blocks whose score is 0 whatever the parameters."""
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(size=(60, 3)), np.zeros((15, 3))])
    scores[:60] -= scores[:60].mean(axis=0)
    root = rng.normal(size=(9, 3))
    information, penalty = root.T @ root, np.array([0.0, 1.0, 2.0])
    found = covariance(information, penalty, scores, ratio=7.0)
    bread = np.linalg.inv(information + np.diag(penalty))
    np.testing.assert_allclose(found, 60 / 57 * bread @ scores.T @ scores @ bread)


def test_no_variance_is_below_that_of_the_model():
    """Scores of few blocks are fitted to 0: their sandwich would call a rare slope exact."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(60, 2)) * [1.0, 0.01]
    information = np.array([[40.0, 3.0], [3.0, 30.0]])
    found = covariance(information, np.zeros(2), scores, ratio=1.0)
    model = np.linalg.inv(information)
    assert found[0, 0] > model[0, 0]  # the sandwich's own
    assert found[1, 1] == pytest.approx(model[1, 1])
    assert np.linalg.eigvalsh(found).min() > 0


def test_parameters_without_information_do_not_count_as_fitted():
    rng = np.random.default_rng(1)
    scores = np.column_stack([rng.normal(size=(60, 2)), np.zeros(60)])
    information = np.diag([1.0, 1.0, 0.0])
    found = covariance(information, np.zeros(3), scores, ratio=1.0)
    alone = covariance(information[:2, :2], np.zeros(2), scores[:, :2], ratio=1.0)
    np.testing.assert_allclose(found[:2, :2], alone)


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


def test_means_that_the_counts_tell_are_left_out():
    case = make_case(23, kind="binomial")
    y = (case.y > 10).astype(float)
    release = aggregate(y, names_of(case), bins=[-1, 0, 1]).align(names_of(case)).release
    means = np.array([y[case.codes == b].mean() for b in range(len(release))])
    family = get_family("binomial", n_trials=1)
    assert make_problem(case.design, replace(release, means=means), family).means is None
    assert make_problem(
        case.design, replace(case.release, means=means), get_family("gaussian")
    ).means


def test_means_that_no_slopes_explain_get_the_pooled_fit(monkeypatch):
    case, family = make_case(24, kind="poisson", n_blocks=12), get_family("poisson")
    means = np.array([case.y[case.codes == b].mean() for b in range(12)])
    far = np.array([0.5, 3.0, -3.0, 3.0, -3.0])

    def runs_away(problem, free, penalty, **_):
        return ScoringResult(far, score_sums(problem, far, penalty), Status.NOT_CONVERGED, 1, ())

    monkeypatch.setattr(fit_module, "solve_means", runs_away)
    fit = fit_likelihood(case.design, replace(without_tables(case), means=means), family)
    assert fit.status is Status.POOLED
    np.testing.assert_array_equal(fit.theta[1:], 0.0)
    assert np.exp(fit.theta[0]) == pytest.approx(case.y.mean(), rel=0.05)


def test_order_statistics_are_solved_as_far_as_asked():
    case, family = make_case(25), get_family("gaussian")
    release = quantile_release(case, (0.5,)).align(names_of(case)).release
    loose, tight = (fit_likelihood(case.design, release, family, tol=t) for t in (1e-2, 1e-12))
    problem = make_problem(case.design, release, family)
    order = published_order(release, problem.counts)
    size = [
        np.abs(order_sums(problem, order, np.append(fit.theta, fit.nuisance)).gradient).max()
        for fit in (loose, tight)
    ]
    assert size[1] < 1e-3 * size[0]
    assert tight.status is Status.ORDER


def test_an_odd_block_is_named():
    case, family = make_case(13, n_blocks=60), get_family("gaussian")
    y = case.y + 2.0 * (case.codes == 17)
    release = aggregate(y, names_of(case), bins=8).align(names_of(case)).release
    fit = fit_likelihood(case.design, release, family)
    assert worst_blocks(fit, 1)[0] == 17
    assert goodness_of_fit(fit).p_value < 0.05


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


def gate_of(case, family):
    fit = fit_likelihood(case.design, case.release, family)
    return identification(case.design, family, fit, len(case.design.scale))


def test_one_block_is_not_identified_and_many_are():
    family = get_family("gaussian")
    one = make_case(15, n_blocks=1, size=2_000)
    gate = gate_of(one, family)
    assert not gate.identified
    assert gate.reason.startswith("not identified: a single block cannot tell")
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


def test_flat_targets_have_a_large_relative_error():
    case, family = make_case(17, slope=np.zeros(4)), get_family("gaussian")
    gate = gate_of(case, family)
    assert not gate.identified
    assert "standard errors are" in gate.reason


def test_block_means_regression_agrees_where_it_should():
    case, family = make_case(18, n_blocks=100, bins=20), get_family("gaussian")
    fit = fit_likelihood(case.design, case.release, family)
    targets = block_targets(fit.counts)
    other = block_means_regression(case.design, family, targets, fit.nuisance)
    comparison = compare_with_block_means(case.design, fit, other, len(case.design.scale))
    np.testing.assert_allclose(comparison.coef, case.coef, atol=0.15)
    assert comparison.test.p_value > 1e-3
    assert comparison.test.df == 4


def test_wald_test_equals_its_formula():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    covariance, estimate = root @ root.T, rng.normal(size=3)
    test = wald_test(estimate, covariance)
    assert test.statistic == pytest.approx(estimate @ np.linalg.solve(covariance, estimate))
    assert test.df == 3


def test_steps_that_do_not_differ_are_not_combined():
    memory, step = _Memory(), np.array([1.0, -2.0])
    moves = [memory.accelerate(k * step, step, np.eye(2)) for k in range(4)]
    np.testing.assert_array_equal(moves, np.tile(step, (4, 1)))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("smallest", [0, 1, 5])
def test_shared_bins_are_counted_as_any_others(seed, smallest, monkeypatch):
    rng = np.random.default_rng(seed)
    family = get_family("poisson" if seed % 2 else "gaussian")
    edges = np.unique(np.round(rng.normal(3, 3, 7), 0 if seed % 2 else 2))
    edges = np.concatenate([[-np.inf] if seed % 3 else [edges[0] - 1], edges, [np.inf]])
    if seed % 2:
        edges = np.unique(np.maximum(edges, -1))
    y = rng.poisson(3, 900) if seed % 2 else np.maximum(rng.normal(3, 3, 900), edges[0] + 0.01)
    blocks = rng.integers(0, 9, 900).astype(str)
    release = aggregate(y, blocks, edges).align(blocks).release
    found = published_counts(release, family.domain, smallest=smallest)
    monkeypatch.setattr("unbin.likelihood.statistics._shared_counts", lambda *_: None)
    other = published_counts(release, family.domain, smallest=smallest)
    np.testing.assert_array_equal(found.count, other.count)
    np.testing.assert_array_equal(found.lower, other.lower)
    np.testing.assert_array_equal(found.upper, other.upper)
    np.testing.assert_array_equal(found.known, other.known)
