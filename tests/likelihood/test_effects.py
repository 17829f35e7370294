"""The random block intercept: its variance, what it does to weights, and means that have one."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import multivariate_normal

import unbin
from tests.helpers.cases import draw_targets, make_case
from tests.helpers.releases import mean_release
from tests.helpers.states import states
from unbin.datasets import simulate
from unbin.families import get_family
from unbin.likelihood import fit_likelihood
from unbin.likelihood.data.problem import Effects, make_problem
from unbin.likelihood.infer.levels import _profiled
from unbin.likelihood.model import score
from unbin.likelihood.model.moments import expected_statistics
from unbin.likelihood.model.score import score_sums
from unbin.likelihood.solve.effects import (
    Pulls,
    _bent,
    _expanded,
    effects_misfit,
    group_df,
    group_variance,
    separate_variance,
)
from unbin.likelihood.solve.start import starting_point
from unbin.release.aggregation import aggregate
from unbin.rows.design import lay_out


def case_with_effects(seed, kind, sd=0.4, n_blocks=80, size=60):
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_blocks), size)
    X = 0.8 * rng.normal(size=(len(codes), 2)) + 0.6 * rng.normal(size=(n_blocks, 2))[codes]
    eta = X @ [0.6, -0.3] + (sd * rng.normal(size=n_blocks))[codes]
    y = {
        "gaussian": lambda: eta + rng.normal(size=len(eta)),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "binomial": lambda: rng.binomial(20, expit(eta)).astype(float),
    }[kind]()
    names = np.char.zfill(codes.astype(str), 3)
    target = aggregate(y, names, bins=6).align(names)
    return lay_out(X, target.codes, n_blocks), [target.release]


def allow_for(variance, monkeypatch):
    """Let effects of blocks have a variance, whatever the table says."""
    monkeypatch.setattr(
        "unbin.likelihood.solve.effects._variances", lambda *_: ((variance, 0.0), 0)
    )


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "binomial"])
def test_effects_of_blocks_are_seen_and_covered(kind):
    family, sds, scores = get_family(kind, n_trials=20), [], []
    for seed in range(12):
        design, releases = case_with_effects(seed, kind)
        fit = fit_likelihood(design, releases, family)
        coef, _ = design.to_coefficients(fit.theta)
        sds.append(fit.block_sd)
        error = np.sqrt(np.diag(fit.covariance))[1:3] / design.scale
        scores.append((coef - [0.6, -0.3]) / error)
    assert np.mean(sds) == pytest.approx(0.4, abs=0.06)
    assert 0.6 < np.sqrt(np.mean(np.square(scores))) < 1.4


@pytest.mark.parametrize("kind", ["poisson", "binomial"])
def test_slopes_do_not_shrink_because_effects_are_read_off_the_same_counts(kind):
    """100 blocks of 10; without the bend slopes of .5 and -.3 were .05 and .04 too small."""
    family, errors = get_family(kind, n_trials=10), []
    edges = {"poisson": [-1, 0, 1, 2, 4, np.inf], "binomial": [-1, 2, 4, 5, 7, 10]}[kind]
    for seed in range(24):
        rng = np.random.default_rng(seed)
        codes = np.repeat(np.arange(100), 10)
        own = np.column_stack([rng.exponential(size=1000) - 1, rng.normal(size=1000)])
        X = np.sqrt(0.3) * rng.normal(size=(100, 2))[codes] + np.sqrt(0.7) * own
        eta = X @ [0.5, -0.3] + 0.4 * rng.normal(size=100)[codes]
        if kind == "poisson":
            y = rng.poisson(np.exp(eta)).astype(float)
        else:
            y = rng.binomial(10, expit(eta)).astype(float)
        names = np.char.zfill(codes.astype(str), 3)
        target = aggregate(y, names, bins=edges).align(names)
        design = lay_out(X, target.codes, 100)
        fit = fit_likelihood(design, [target.release], family)
        errors.append(design.to_coefficients(fit.theta)[0] - [0.5, -0.3])
    assert (np.abs(np.mean(errors, axis=0)) < 0.025).all()


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "binomial"])
def test_the_bend_is_the_variance_times_the_second_derivative(kind):
    design, releases = case_with_effects(0, kind, n_blocks=20, size=200)
    problem = make_problem(design, releases, get_family(kind, n_trials=20))
    free = np.concatenate([[0.1, 0.6, -0.3], np.zeros(int(kind == "gaussian"))])
    rng = np.random.default_rng(0)
    move, sd = 0.3 * rng.normal(size=20), np.full(20, 0.05)
    effects = Effects(move, sd, np.zeros((20, len(free))))
    problem = problem.with_effects(0.1)
    bent = _bent(problem, effects, free, np.zeros(len(free))).effects

    def mean(shift):
        at = Effects(move + shift, 1e-9 * sd, effects.along)
        return expected_statistics(problem.around(at), free)[0]

    step = 1e-3
    second = (mean(step) - 2 * mean(0.0) + mean(-step)) / step**2
    np.testing.assert_allclose(bent.bend, sd[:, None] ** 2 * second, rtol=0.02, atol=1e-3)
    pulls = [
        score_sums(problem.around(each), free, np.zeros(len(free))).block_pull
        for each in (effects, bent)
    ]
    np.testing.assert_allclose(pulls[1], pulls[0], rtol=1e-6, atol=1e-6)


def test_effects_make_the_information_honest(monkeypatch):
    design, releases = case_with_effects(0, "gaussian")
    family = get_family("gaussian")
    allowed = fit_likelihood(design, releases, family)
    allow_for(0.0, monkeypatch)
    plain = fit_likelihood(design, releases, family)
    assert plain.block_sd == 0
    trace = [np.trace(np.linalg.inv(fit.information)) for fit in (plain, allowed)]
    assert trace[0] < 0.5 * trace[1]
    assert allowed.goodness.ratio > 1.2


def test_no_effects_are_seen_where_there_are_none():
    family, seen = get_family("gaussian"), 0
    for seed in range(20):
        case = make_case(seed)
        fit = fit_likelihood(case.design, [case.release], family)
        seen += fit.block_sd > 0
        assert fit.block_sd < 0.3
    assert seen <= 4


def test_the_rank_one_correction_equals_the_whole_covariance():
    design, releases = case_with_effects(1, "gaussian", n_blocks=8, size=30)
    problem = make_problem(design, releases, get_family("gaussian"))
    free = np.array([0.0, 0.5, -0.2, 0.0])
    sums = score_sums(problem, free, np.zeros(4))
    along = score_sums(problem, free, np.zeros(4)).block_hold
    assert (along > 0).all()
    # the intercept's column of D is the shift of the block
    np.testing.assert_allclose(sums.block_pull, sums.block_scores[:, 0], rtol=1e-8)
    np.testing.assert_allclose(sums.block_hold.sum(), sums.information[0, 0], rtol=1e-8)
    variance = 0.3
    left = sums.block_misfit.sum() - effects_misfit(sums, variance).sum()
    pull, hold = sums.block_pull, sums.block_hold
    expected = sums.block_misfit - variance * pull**2 / (1 + variance * hold)
    assert left == pytest.approx(expected.sum())


def test_the_variance_solves_its_equation():
    design, releases = case_with_effects(2, "gaussian")
    problem = make_problem(design, releases, get_family("gaussian"))
    sums = score_sums(problem, np.array([0.0, 0.6, -0.3, 0.0]), np.zeros(4))
    df = group_df(problem, Pulls.of(sums, np.zeros(4)), sums)
    variance = group_variance(sums, np.zeros(4), df)
    hold = sums.block_hold
    assert (sums.block_pull**2 / (hold + variance * hold**2)).sum() == pytest.approx(77)


def test_a_ridge_is_not_taken_for_effects():
    case, family = make_case(1), get_family("gaussian")
    assert fit_likelihood(case.design, [case.release], family).block_sd == 0
    assert fit_likelihood(case.design, [case.release], family, alpha=0.5).block_sd < 0.1


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_a_runaway_scale_is_not_taken_for_a_solution(monkeypatch):
    people = simulate(2000, 3, 40, random_state=0)
    target = unbin.aggregate(people.y, people.blocks, 6).align(people.blocks)
    without = unbin.AggregatedGLM().fit(people.X, target)
    # with effects this large scoring ends where the score is 0 because nothing depends on anything
    allow_for(100.0, monkeypatch)
    model = unbin.AggregatedGLM().fit(people.X, target)
    assert model.objective_ < without.objective_ + 1


def test_the_intercept_is_that_of_the_average_person():
    """Large blocks that differ from small ones move it; slopes are not concerned."""
    rng = np.random.default_rng(5)
    size = np.where(np.arange(80) < 60, 20, 200)
    codes = np.repeat(np.arange(80), size)
    level = np.where(size == 200, 1.0, 0.0)[codes]  # an effect of large blocks
    X = rng.normal(size=(len(codes), 2)) + rng.normal(size=(80, 2))[codes]
    y = X @ [1.0, -0.5] + level + rng.normal(size=len(codes))
    target = unbin.aggregate(y, codes, 8).align(codes)
    model = unbin.AggregatedGLM().fit(X, target)
    assert model.block_sd_ > 0.2
    assert model.predict(X).mean() == pytest.approx(y.mean(), abs=0.05)
    np.testing.assert_allclose(model.coef_, [1.0, -0.5], atol=0.1)
    ordinal = unbin.AggregatedGLM("ordinal").fit(X, target)
    assert ordinal.predict(X).mean() == pytest.approx(y.mean(), abs=0.1)


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "binomial"])
def test_large_effects_have_their_size(kind):
    family = get_family(kind, n_trials=20)
    fits = [fit_likelihood(*case_with_effects(s, kind, 1.0), family) for s in range(6)]
    assert all(fit.status.converged for fit in fits)
    assert np.mean([fit.block_sd for fit in fits]) == pytest.approx(1.0, abs=0.1)


def yes_or_no(seed, n_blocks=150, size=40):
    """Return blocks that differ by large effects, and how many people said yes."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_blocks), size)
    x = rng.normal(size=len(codes)) + 0.5 * rng.normal(size=n_blocks)[codes]
    y = rng.binomial(1, expit(0.8 * x + rng.normal(size=n_blocks)[codes])).astype(float)
    target = aggregate(y, codes, bins=[-0.5, 0.5, 1.5]).align(codes)
    return lay_out(x[:, None], target.codes, n_blocks), [target.release]


def test_a_block_is_weighed_without_looking_at_its_effect(monkeypatch):
    """Two bins: the people in the middle of a block, who tell the slope, depend on the effect."""
    family = get_family("binomial", n_trials=1)

    def slope():
        fits = [(*yes_or_no(s), family) for s in range(5)]
        return np.mean([c[0].to_coefficients(fit_likelihood(*c).theta)[0][0] for c in fits])

    assert slope() == pytest.approx(0.8, abs=0.15)
    weigh = score._with_effects
    monkeypatch.setattr(
        score, "_with_effects", lambda problem, core: weigh(replace(problem, effects=None), core)
    )
    assert slope() < 0.6


# -- means, and single order statistics ------------------------------------------------------------


def blocks_of_means(seed, kind, sd, *, equal=False, n_blocks=80):
    rng = np.random.default_rng(seed)
    size = np.full(n_blocks, 60) if equal else rng.integers(5, 12, n_blocks) ** 2
    codes = np.repeat(np.arange(n_blocks), size)
    X = rng.normal(size=(len(codes), 1)) + rng.normal(size=(n_blocks, 1))[codes]
    y = draw_targets(kind, 0.5 * X[:, 0] + (sd * rng.normal(size=n_blocks))[codes], rng)
    target = mean_release(y, codes).align(codes)
    return lay_out(X, target.codes, n_blocks), [target.release]


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "gamma"])
def test_means_alone_tell_effects_from_noise_by_the_sizes_of_blocks(kind):
    family, sds, scores = get_family(kind), [], []
    for seed in range(12):
        design, releases = blocks_of_means(seed, kind, 0.5)
        fit = fit_likelihood(design, releases, family)
        sds.append(fit.block_sd)
        error = np.sqrt(fit.covariance[1, 1]) / design.scale[0]
        scores.append((design.to_coefficients(fit.theta)[0][0] - 0.5) / error)
    assert np.mean(sds) == pytest.approx(0.5, abs=0.08)
    assert 0.5 < np.sqrt(np.mean(np.square(scores))) < 1.5


def test_means_of_equal_blocks_cannot_tell_effects_from_noise():
    family = get_family("gaussian")
    for seed in range(4):
        design, releases = blocks_of_means(seed, "gaussian", 0.5, equal=True)
        fit = fit_likelihood(design, releases, family)
        assert fit.block_sd == 0
        assert fit.goodness.misfit / fit.goodness.df == pytest.approx(1.0, abs=1e-3)
        # all of it is noise: as large as effects make the means of blocks
        assert np.exp(fit.nuisance[0]) == pytest.approx(np.sqrt(1 + 60 * 0.25), rel=0.3)


def test_no_effects_are_told_where_means_have_none():
    family, seen = get_family("gaussian"), 0
    for seed in range(20):
        fit = fit_likelihood(*blocks_of_means(seed, "gaussian", 0.0), family)
        seen += fit.block_sd > 0
    assert seen <= 4


def test_variances_are_those_of_restricted_maximum_likelihood():
    """Against the likelihood of contrasts without the coefficients, matrices written out."""
    rng = np.random.default_rng(3)
    hold = rng.uniform(4, 100, 40)
    along = np.column_stack([np.ones(40), rng.normal(size=40)])
    moves = rng.normal(size=40) * np.sqrt(0.3 + 2.0 / hold)
    design, releases = blocks_of_means(0, "gaussian", 0.5, n_blocks=40)
    sums = score_sums(
        make_problem(design, releases, get_family("gaussian")), np.zeros(3), np.zeros(3)
    )
    sums = replace(
        sums,
        block_hold=hold,
        block_pull=hold * moves,
        block_along=hold[:, None] * along,
    )
    contrasts = null_space(along.T)
    y = contrasts.T @ moves

    def minus_log(at):
        covariance = np.diag(np.exp(at[0]) / hold + np.exp(at[1]))
        law = multivariate_normal(np.zeros(38), contrasts.T @ covariance @ contrasts)
        return -law.logpdf(y)

    found = minimize(minus_log, [0.0, -1.0], method="Nelder-Mead", options={"xatol": 1e-6})
    assert separate_variance(sums) == pytest.approx(np.exp(found.x[1]), rel=0.1)


# -- larger blocks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_asking_for_pulls_of_larger_blocks_leaves_the_score_around_effects(family):
    problem, free, penalty = problem_of_states(family)
    assert problem.effects is not None
    bare, asked = (score_sums(problem, free, penalty, further) for further in ((), (1,)))
    np.testing.assert_allclose(asked.score, bare.score, atol=1e-8)
    np.testing.assert_allclose(asked.block_pull, bare.block_pull, atol=1e-8)


def test_larger_blocks_take_from_levels_what_their_covariance_says():
    rng = np.random.default_rng(0)
    group = np.arange(30)
    state, region = group // 5, group // 15
    d, e, r = rng.normal(size=(30, 2)), rng.uniform(1, 2, 30), rng.normal(size=30)
    problem = SimpleNamespace(
        plan=SimpleNamespace(group=group),
        partitions=np.stack([group, state, region]),
        n_blocks=(30, 6, 2),
        further=(0.0, 0.3, 0.2),
        above_groups=(False, True, True),
        largest=2,
    )
    less, taken = _profiled(problem, d * e[:, None], e * r, e**2)
    variance = np.eye(30)
    for code, tau in ((state, 0.3), (region, 0.2)):
        variance += tau * np.where(code[:, None] == code, np.outer(e, e), 0.0)
    weight = np.linalg.solve(variance, d)
    np.testing.assert_allclose((d * r[:, None] - less).sum(axis=0), weight.T @ r)
    np.testing.assert_allclose(d.T @ d - taken.sum(axis=0), d.T @ weight)


def problem_of_states(family):
    """Return counties in states, expanded around the counties' effects, with parameters."""
    people = states(4, family=family, sd=0.5, county_sd=0.3)
    bins = [-0.5, 0.5, 1.5, 2.5, 4.5, 8.5, 1e9] if family == "poisson" else 7
    release = unbin.aggregate(people.y, people.county, bins)
    code, state = (
        np.unique(each, return_inverse=True)[1] for each in (people.county, people.state)
    )
    design = lay_out(people.X, code, code.max() + 1, fit_intercept=True)
    above = state[np.unique(code, return_index=True)[1]][None]
    law = get_family(family)
    problem = make_problem(design, (release.align(people.county).release,), law, clusters=above)
    free = starting_point(problem)
    penalty = np.zeros(len(free))
    return (*_expanded(problem, (0.1, 0.0, 0.0), free, penalty)[:1], free, penalty)
