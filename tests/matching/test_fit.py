"""The matching estimator: solvers, certificates, invariances, degenerate releases."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import unbin
from tests.helpers.releases import assert_fills_bins, quantile_release
from unbin._watching import Status
from unbin.datasets import simulate
from unbin.exceptions import IdentificationWarning
from unbin.families import get_family
from unbin.matching.bounds import rank_bounds
from unbin.matching.fit import _disagreement
from unbin.matching.objective import Objective
from unbin.matching.solvers import Solution
from unbin.rows.design import lay_out

FAMILIES = ["gaussian", "poisson", "binomial"]


def problem(family, *, seed=0, n=1500, n_blocks=30, bins=6, between=0.3, noise=0.2):
    people = simulate(
        n,
        3,
        n_blocks,
        family=family,
        between=between,
        noise=noise,
        n_trials=10,
        intercept=0.4,
        random_state=seed,
    )
    return people, unbin.aggregate(people.y, people.blocks, bins).align(people.blocks)


def glm(family, **kwargs):
    return unbin.AggregatedGLM(family, method="matching", n_trials=10, random_state=0, **kwargs)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradient_is_that_of_the_objective(family):
    people, target = problem(family)
    fam = get_family(family, 10)
    design = lay_out(people.X, target.codes, len(target.release))
    bounds = rank_bounds(target.release, fam.domain)
    objective = Objective(design, fam, design.ridge(0.1), bounds)
    theta = np.array([0.3, 0.8, -0.2, 0.1])
    _, gradient = objective.evaluate(theta)
    h = 1e-7  # small enough that no ranks change
    for j in range(4):
        step = np.zeros(4)
        step[j] = h
        numeric = (objective.evaluate(theta + step)[0] - objective.evaluate(theta - step)[0]) / (
            2 * h
        )
        assert gradient[j] == pytest.approx(numeric, abs=2e-6)


@pytest.mark.parametrize("solver", ["lbfgs", "alternating"])
@pytest.mark.parametrize("family", FAMILIES)
def test_objective_never_rises_and_convergence_is_certified(family, solver):
    people, target = problem(family)
    model = glm(family, solver=solver, tol=1e-5, max_iter=3000).fit(people.X, target)
    assert model.status_ is Status.MATCHED
    assert model.relative_gradient_ <= 1e-5
    assert (np.diff(model.objective_path_) <= 1e-12).all()
    assert len(model.objective_path_) == model.n_iter_ + 1
    assert model.objective_ == pytest.approx(model.objective_path_[-1])


@pytest.mark.parametrize("family", FAMILIES)
def test_imputed_targets_give_the_release_back(family):
    people, target = problem(family)
    z = glm(family).fit(people.X, target).impute()
    assert_fills_bins(z, people.blocks, target.release)


def test_without_noise_the_full_list_in_blocks_recovers_the_truth():
    people = simulate(2000, 3, 40, noise=0.0, between=0.3, random_state=1)
    release = unbin.Release.from_values({"block": people.blocks, "value": people.y})
    model = glm("gaussian", tol=1e-7).fit(people.X, release.align(people.blocks))
    np.testing.assert_allclose(model.coef_, people.coef, atol=1e-3)
    np.testing.assert_allclose(model.impute(), people.y, atol=0.05)
    assert model.status_ is Status.MATCHED


def test_slopes_inflate_with_noise_as_predicted():
    """c = rho + (1 - rho) sqrt(1 + sigma²/((1 - rho)|beta|²)), rho the share between blocks."""
    rho, ratios = 0.1, []
    for seed in range(4):
        people = simulate(8000, 3, 100, between=rho, random_state=seed)
        release = unbin.Release.from_values({"block": people.blocks, "value": people.y})
        target = release.align(people.blocks)
        coef = glm("gaussian").fit(people.X, target).coef_
        ratios.append(coef @ people.coef / (people.coef @ people.coef))
    predicted = rho + (1 - rho) * np.sqrt(1 + 1 / (1 - rho))
    assert np.mean(ratios) == pytest.approx(predicted, rel=0.04)


@pytest.mark.parametrize("seed", range(12))
def test_lbfgs_is_not_above_the_alternation_from_the_same_start(seed):
    people, target = problem("gaussian", seed=seed)
    alternating = glm("gaussian", solver="alternating", tol=1e-6, max_iter=5000)
    a = alternating.fit(people.X, target).objective_
    b = glm("gaussian", tol=1e-6, max_iter=5000).fit(people.X, target).objective_
    assert b <= a + 1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_order_of_rows_and_names_of_blocks_do_not_matter(family):
    people, target = problem(family)
    base = glm(family, tol=1e-6).fit(people.X, target)
    rng = np.random.default_rng(5)
    rows = rng.permutation(len(people.y))
    renamed = {name: f"{i:03d}" for i, name in enumerate(rng.permutation(np.unique(people.blocks)))}
    blocks = np.array([renamed[name] for name in people.blocks])[rows]
    release = unbin.aggregate(people.y[rows], blocks, 6)
    other = glm(family, tol=1e-6).fit(people.X[rows], release.align(blocks))
    assert other.objective_ == pytest.approx(base.objective_, rel=1e-6)
    np.testing.assert_allclose(other.coef_, base.coef_, atol=1e-4)
    np.testing.assert_allclose(other.impute(), base.impute()[rows], atol=1e-3)


def test_rows_sorted_by_the_target_leak_nothing_when_all_means_tie():
    """At slopes of 0 every mean ties; the order of rows must not stand in for the target."""
    people = simulate(1000, 2, 1, random_state=2)
    order = np.argsort(people.y)
    target = unbin.aggregate(people.y[order], bins=5).align()
    model = glm("gaussian", init=np.zeros(3), n_init=1, max_iter=1)
    with pytest.warns(ConvergenceWarning):
        z = model.fit(people.X[order], target).impute()
    assert abs(np.corrcoef(z, people.y[order])[0, 1]) < 0.9
    rows = np.random.default_rng(0).permutation(1000)
    with pytest.warns(ConvergenceWarning):
        other = model.fit(people.X[order][rows], target).impute()
    np.testing.assert_allclose(other, z[rows], atol=1e-8)


def test_one_median_per_block_is_enough():
    people = simulate(4000, 2, 80, noise=0.05, between=0.5, random_state=4)
    release = quantile_release(people.y, people.blocks)
    model = glm("gaussian").fit(people.X, release.align(people.blocks))
    np.testing.assert_allclose(model.coef_, people.coef, atol=0.05)


def test_blocks_may_publish_different_kinds():
    people = simulate(3000, 2, 40, noise=0.05, between=0.3, random_state=6)
    names = np.unique(people.blocks)
    first = np.isin(people.blocks, names[:20])
    histogram = unbin.aggregate(people.y[first], people.blocks[first], 5)
    values = unbin.Release.from_values({"block": people.blocks[~first], "value": people.y[~first]})
    model = glm("gaussian").fit(people.X, histogram.combine(values).align(people.blocks))
    np.testing.assert_allclose(model.coef_, people.coef, atol=0.05)


def test_offset_is_log_exposure():
    people = simulate(4000, 2, 60, between=0.4, random_state=7)
    rng = np.random.default_rng(0)
    exposure = rng.uniform(20, 60, 4000)
    mean = exposure * np.exp(0.5 * people.X @ people.coef)
    release = unbin.Release.from_values({"block": people.blocks, "value": np.round(mean)})
    target = release.align(people.blocks)
    model = glm("poisson").fit(people.X, target, offset=np.log(exposure))
    np.testing.assert_allclose(model.coef_, 0.5 * people.coef, atol=0.02)
    np.testing.assert_allclose(model.predict(people.X, offset=np.log(exposure)), mean, rtol=0.1)


def test_several_targets_at_once():
    people, target = problem("gaussian")
    other = unbin.aggregate(-2 * people.y, people.blocks, 8).align(people.blocks)
    both = glm("gaussian").fit(people.X, [target, other])
    alone = [glm("gaussian").fit(people.X, t) for t in (target, other)]
    assert both.coef_.shape == (2, 3)
    for k in range(2):
        np.testing.assert_allclose(both.coef_[k], alone[k].coef_)
        np.testing.assert_allclose(both.impute()[:, k], alone[k].impute())
        np.testing.assert_allclose(both.predict(people.X)[:, k], alone[k].predict(people.X))
    assert both.intercept_.shape == both.n_iter_.shape == (2,)
    assert both.status_ == [Status.MATCHED, Status.MATCHED]


def test_ridge_shrinks_and_spares_the_intercept():
    people, target = problem("gaussian")
    sizes = [
        np.linalg.norm(glm("gaussian", alpha=alpha).fit(people.X, target).coef_)
        for alpha in (0.0, 0.1, 10.0)
    ]
    assert sizes[0] > sizes[1] > sizes[2]
    strong = glm("gaussian", alpha=1e6).fit(people.X + 100.0, target)
    assert strong.predict(people.X + 100.0).mean() == pytest.approx(people.y.mean(), abs=0.1)


def test_two_bins_with_a_shared_edge_say_so():
    people, target = problem("gaussian", bins=2)
    with pytest.warns(IdentificationWarning, match="the same for everybody fit perfectly"):
        model = glm("gaussian").fit(people.X, target)
    assert model.status_ is Status.CONSTANT
    assert not model.status_.identified


def test_one_block_of_normal_features_says_so():
    people = simulate(2000, 3, 1, noise=0.1, random_state=0)
    target = unbin.aggregate(people.y, bins=8).align()
    with pytest.warns(IdentificationWarning, match="restarts reach the same objective"):
        model = glm("gaussian").fit(people.X, target)
    assert model.status_ is Status.RESTARTS_DISAGREE
    assert model.restart_disagreement_ > 0.5


@pytest.mark.parametrize(("worse_by", "disagrees"), [(0.009, True), (0.011, False)])
def test_only_restarts_that_reach_the_same_objective_can_disagree(worse_by, disagrees):
    """One ended elsewhere: that says something only where it did as well as the best."""
    people, target = problem("gaussian")
    family = get_family("gaussian")
    design = lay_out(people.X, target.codes, len(target.release))
    bounds = rank_bounds(target.release, family.domain)
    objective = Objective(design, family, design.ridge(0.0), bounds)
    best = design.from_coefficients(people.coef, 0.4)
    far = design.from_coefficients(-people.coef, 0.4)
    above = worse_by * objective.null_divergence()
    solutions = [
        Solution(theta, value, 0.0, Status.MATCHED, 1, ())
        for theta, value in [(best, 0.1), (best, 0.1), (far, 0.1 + above)]
    ]
    expected = 2.0 if disagrees else 0.0  # twice as far apart as the best is from 0
    assert _disagreement(objective, solutions, solutions[0]) == pytest.approx(expected)


def test_the_same_people_in_shifted_blocks_are_identified():
    people = simulate(2000, 3, 20, noise=0.1, between=0.5, random_state=0)
    target = unbin.aggregate(people.y, people.blocks, 8).align(people.blocks)
    model = glm("gaussian", n_init=4).fit(people.X, target)
    assert model.status_ is Status.MATCHED
    np.testing.assert_allclose(model.coef_, people.coef, atol=0.05)


def test_binary_targets_say_that_only_the_ridge_bounds_the_slopes():
    people = simulate(2000, 3, 40, family="binomial", between=0.3, random_state=0)
    target = unbin.aggregate(people.y, people.blocks, [-np.inf, 0, np.inf]).align(people.blocks)
    sizes = []
    for alpha in (1e-2, 1e-4):
        model = unbin.AggregatedGLM("binomial", method="matching", alpha=alpha)
        with pytest.warns(IdentificationWarning, match="only the ridge alpha bounds"):
            sizes.append(np.linalg.norm(model.fit(people.X, target).coef_))
    assert sizes[1] > 1.5 * sizes[0]


def test_stopping_early_is_said():
    people, target = problem("gaussian")
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        model = glm("gaussian", solver="alternating", tol=1e-9, max_iter=2).fit(people.X, target)
    assert model.status_ is Status.MAX_ITER


def test_starts_are_seeded():
    people, target = problem("gaussian")
    first, second, other = (
        unbin.AggregatedGLM(method="matching", init="random", random_state=seed, tol=1e-3)
        .fit(people.X, target)
        .objective_path_[0]
        for seed in (1, 1, 2)
    )
    assert first == second != other
