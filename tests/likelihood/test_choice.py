"""Choosing by held-out blocks, against refits that never saw them."""

import numpy as np
import pytest
from scipy.special import expit

import unbin
from tests.helpers.releases import mean_release
from unbin._blocks import deal_blocks
from unbin.datasets import simulate
from unbin.exceptions import ParameterError, SpecificationWarning
from unbin.families import get_family
from unbin.likelihood.data.problem import make_problem
from unbin.likelihood.data.tables import published_counts
from unbin.likelihood.infer import choice
from unbin.likelihood.infer.choice import (
    RIDGES,
    Candidate,
    _choose,
    _scores,
    candidate_families,
)
from unbin.likelihood.model.moments import expected_statistics
from unbin.rows.design import lay_out


def test_held_out_scores_equal_refits_without_the_blocks():
    people = simulate(2000, 2, 40, between=0.3, random_state=0)
    release = unbin.aggregate(people.y, people.blocks, 5)
    target = release.align(people.blocks)
    model = unbin.AggregatedGLM("auto").fit(people.X, target)
    fold = deal_blocks(target.release.n, 5)[target.codes]
    for k, family in enumerate(model.selection_.family):
        total = 0.0
        for f in range(5):
            train, test = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
            refit = unbin.AggregatedGLM(family).fit(people.X[train], target[train])
            total += refit.score(people.X[test], target[test]) * len(test)
        assert model.selection_.score[k] == pytest.approx(total / 2000, abs=2e-4)


def test_candidates_follow_the_bins():
    def names(release, n_trials=1):
        return [family.name for family in candidate_families([release], n_trials)]

    rng = np.random.default_rng(0)
    counts = unbin.aggregate(rng.poisson(2.0, 200).astype(float), bins=[-1, 0, 1, 3, np.inf])
    assert names(counts) == ["poisson", "negative-binomial", "ordinal"]
    assert names(counts, 10) == ["binomial", "beta-binomial", "ordinal"]
    real = unbin.aggregate(rng.normal(size=200), bins=4)
    assert names(real) == ["gaussian", "ordinal"]
    positive = unbin.aggregate(rng.gamma(2.0, 1e4, 200), bins=[0, 1e4, 2e4, np.inf])
    assert names(positive) == ["gaussian", "gamma", "ordinal"]
    halves = unbin.aggregate(rng.gamma(2.0, 1.0, 200), bins=[0, 0.5, 1.5, 2.5, np.inf])
    assert names(halves) == ["gaussian", "gamma", "ordinal"]  # no count lies between 0 and 0.5
    a = unbin.aggregate(rng.normal(size=50), np.repeat("a", 50), [-np.inf, 0.1, 0.7, np.inf])
    b = unbin.aggregate(rng.normal(size=50), np.repeat("b", 50), [-np.inf, -0.3, 0.3, np.inf])
    assert names(a.combine(b)) == ["gaussian"]


@pytest.mark.parametrize(
    ("bins", "families"),
    [
        ([-0.5, 0.5, 1.5], ["binomial"]),
        ([-1, 0, 1], ["binomial"]),
        ([-1, 0, 1, 2], ["binomial"]),  # nobody in the last one
        ([-np.inf, 0, np.inf], ["poisson", "negative-binomial", "ordinal"]),  # any or none
    ],
)
def test_outcomes_of_0_and_1_are_binomial(bins, families):
    y = (np.arange(40) % 3 == 0).astype(float)
    release = unbin.aggregate(y, bins=bins)
    assert [family.name for family in candidate_families([release], 1)] == families


def test_points_at_0_and_1_are_binomial():
    points = {"block": ["a", "a"], "lower": [0, 1], "upper": [0, 1], "count": [30, 12]}
    release = unbin.Release.from_histogram(points, block="block")
    assert [family.name for family in candidate_families([release], 1)] == ["binomial"]


def test_a_binomial_outcome_is_chosen_and_fitted():
    sim = simulate(6000, 2, 60, between=0.3, random_state=0)
    y = (np.random.default_rng(0).random(6000) < expit(sim.X @ sim.coef)).astype(float)
    target = unbin.aggregate(y, sim.blocks, [-0.5, 0.5, 1.5]).align(sim.blocks)
    model = unbin.AggregatedGLM("auto").fit(sim.X, target)
    assert model.family_ == "binomial"
    np.testing.assert_allclose(model.coef_, sim.coef, atol=3 * model.standard_errors_.max())


@pytest.mark.parametrize("raced", [True, False])
def test_a_family_that_cannot_fit_is_given_up(raced, monkeypatch):
    sim = simulate(6000, 2, 100, between=0.3, random_state=0)
    rng = np.random.default_rng(0)
    y = rng.poisson(np.exp(2 + 0.5 * sim.X @ sim.coef) * rng.gamma(0.5, 2.0, 6000)).astype(float)
    target = unbin.aggregate(y, sim.blocks, [-1, 0, 2, 8, 20, np.inf]).align(sim.blocks)
    tried, solve = [], choice.solve_quickly

    def note(problem, *args):
        tried.append(problem.family.name)
        return solve(problem, *args)

    monkeypatch.setattr(choice, "solve_quickly", note)
    if not raced:
        monkeypatch.setattr(choice, "_BEHIND", 1e300)
        monkeypatch.setattr(choice, "_OUTRANKED", 1e300)
    model = unbin.AggregatedGLM("auto").fit(sim.X, target)
    assert model.family_ == "negative-binomial"
    assert tried.count("negative-binomial") == tried.count("ordinal") == 5
    assert tried.count("poisson") == (1 if raced else 5)
    assert model.selection_.family == ("poisson", "negative-binomial", "ordinal")
    assert np.isfinite(model.selection_.score).all()
    assert np.isfinite(model.selection_.error).all()


def _solved(monkeypatch):
    """Note family, number of slopes, ridge and start of every fit that is made to choose."""
    solved, solve = [], choice.solve_quickly

    def note(problem, free, penalty, *args):
        slopes = problem.coordinates.n_slopes
        found = solve(problem, free, penalty, *args)
        solved.append((problem.family.name, slopes, penalty.max(), free, found.free))
        return found

    monkeypatch.setattr(choice, "solve_quickly", note)
    return solved


@pytest.mark.parametrize("seed", range(3))
def test_ridges_far_behind_are_given_up_and_the_choice_is_the_same(seed, monkeypatch):
    sim = simulate(4000, 3, 100, between=0.3, random_state=seed)
    target = unbin.aggregate(sim.y, sim.blocks, 5).align(sim.blocks)
    solved, models, times = _solved(monkeypatch), [], []
    for enough in (choice._ENOUGH, 10**9):  # with the rule, and without
        monkeypatch.setattr(choice, "_ENOUGH", enough)
        models.append(unbin.AggregatedGLM(alpha="held-out").fit(sim.X, target))
        times.append([each[2] for each in solved])
        solved.clear()
    raced, whole = (model.selection_ for model in models)
    assert len(times[0]) < len(times[1]) == 5 * len(RIDGES)
    assert times[0].count(max(times[0])) < 5  # the largest
    assert raced.chosen == whole.chosen
    assert raced.score[raced.chosen] == pytest.approx(whole.score[whole.chosen], abs=1e-5)
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-6)


def test_the_largest_ridge_is_not_taken_where_it_was_given_up():
    """Of those that are left the largest is no fit without slopes."""
    rng = np.random.default_rng(0)
    best = rng.normal(size=40)
    scores = np.stack([best - 5.0, best - rng.normal(0.1, 1.0, 40), best])
    scores[0, 20:] = np.nan
    candidates = [Candidate(get_family("gaussian"), alpha, False) for alpha in (100.0, 1.0, 0.0)]
    winner, _ = _choose(candidates, scores, several=False)
    near = (best - scores[1]).sum() <= np.sqrt(40) * (best - scores[1]).std(ddof=1)
    assert candidates[winner].alpha == (1.0 if near else 0.0)


@pytest.mark.parametrize(
    ("gap", "behind"),
    [
        (np.linspace(0.5, 1.5, 20), True),  # many standard errors
        (np.linspace(-1.0, 1.5, 20), False),
        (np.concatenate([np.linspace(0.1, 0.5, 19), [100.0]]), True),  # in every block
        (np.concatenate([np.linspace(-0.3, 0.1, 19), [100.0]]), False),  # in one
    ],
)
def test_far_behind_is_by_standard_errors_or_in_every_block(gap, behind):
    best = np.zeros(20)
    found = np.any(choice._behind(np.stack([best - gap, best]), best), axis=0)
    assert found.tolist() == [behind, False]


def test_overdispersed_counts_are_not_called_poisson():
    people = simulate(6000, 2, 150, between=0.3, random_state=0)
    rng = np.random.default_rng(0)
    mean = np.exp(0.5 + 0.5 * people.X @ people.coef)
    y = rng.poisson(mean * rng.gamma(1.0, 1.0, len(mean))).astype(float)
    target = unbin.aggregate(y, people.blocks, [-1, 0, 1, 2, 4, 8, np.inf]).align(people.blocks)
    model = unbin.AggregatedGLM("auto").fit(people.X, target)
    assert model.family_ in ("negative-binomial", "ordinal")
    scores = dict(zip(model.selection_.family, model.selection_.score, strict=True))
    assert scores["poisson"] < scores["negative-binomial"] - 0.05


def test_a_ridge_is_chosen_where_it_helps():
    people = simulate(1500, 12, 30, between=0.05, noise=2.0, random_state=3)
    target = unbin.aggregate(people.y, people.blocks, 5).align(people.blocks)
    with pytest.warns(SpecificationWarning, match="30 blocks are too few for 12 slopes"):
        plain = unbin.AggregatedGLM().fit(people.X, target)
    with pytest.warns(SpecificationWarning):
        auto = unbin.AggregatedGLM(alpha="held-out").fit(people.X, target)
    assert auto.alpha_ > 0
    assert np.linalg.norm(auto.coef_ - people.coef) < np.linalg.norm(plain.coef_ - people.coef)
    columns = auto.selection_.columns()
    assert sum(columns["chosen"]) == 1
    assert len(columns["score"]) == len(RIDGES)


@pytest.mark.parametrize("setting", [{"family": "auto"}, {"alpha": "held-out"}])
def test_nothing_can_be_chosen_without_blocks_to_hold_out(setting):
    people = simulate(300, 2, 3, random_state=0)
    target = unbin.aggregate(people.y, people.blocks, 4).align(people.blocks)
    with pytest.raises(ParameterError, match="at least 10 blocks with published counts"):
        unbin.AggregatedGLM(**setting).fit(people.X, target)
    with pytest.raises(ParameterError, match="name them"):
        unbin.AggregatedGLM(method="matching", **setting).fit(people.X, target)
    with pytest.raises(ParameterError, match="name them"):
        unbin.AggregatedGLM(**setting).fit(people.X, people.y)


@pytest.mark.parametrize("setting", [{"family": "auto"}, {"alpha": "held-out"}])
def test_nothing_can_be_chosen_without_counts_to_score(setting):
    people = simulate(600, 2, 30, random_state=0)
    release = mean_release(people.y, people.blocks)
    with pytest.raises(ParameterError, match="10 blocks with published counts to hold some out, "):
        unbin.AggregatedGLM(**setting).fit(people.X, release.align(people.blocks))


def test_slopes_that_do_not_beat_the_largest_ridge_are_not_taken():
    """Features that have nothing to do with the target: held-out blocks support no slope."""
    sim = simulate(1500, 4, 30, between=0.3, coef=np.zeros(4), random_state=1)
    target = unbin.aggregate(sim.y, sim.blocks, 5).align(sim.blocks)
    model = unbin.AggregatedGLM(alpha="held-out").fit(sim.X, target)
    assert model.alpha_ == max(model.selection_.alpha)


def test_families_are_scored_in_the_bins_they_share():
    """Ordinal keeps a far bin that other families merge; it is scored as if it had merged it."""
    rng = np.random.default_rng(0)
    blocks, X = np.repeat(np.arange(20).astype(str), 30), rng.normal(size=(600, 1))
    y = X[:, 0] + rng.logistic(size=600)
    y[[3, 100, 400]] = 20.0
    target = unbin.aggregate(y, blocks, [-np.inf, -1.0, 1.0, 15.0, np.inf]).align(blocks)
    common = published_counts(target.release, get_family("gaussian").domain)
    assert common.upper.tolist() == [-1.0, 1.0, np.inf]
    design = lay_out(X, target.codes, 20)
    problem = make_problem(design, [target.release], get_family("ordinal"))
    counts = problem.first.counts
    assert counts.n_bins == 4
    thresholds = np.array([-1.0, 1.0, 5.0])
    theta = design.from_coefficients(np.array([0.8]), 0.0) * [0, 1]  # thresholds for an intercept
    free = problem.coordinates.join(theta, thresholds)
    (expected,) = expected_statistics(problem, free)
    found = _scores(counts, expected, common)
    eta = 0.8 * (X[:, 0] - X.mean())
    below = expit(np.subtract.outer(thresholds[:2], eta))
    share = np.stack([below[0], below[1] - below[0], 1 - below[1]])
    place = np.digitize(y, [-1.0, 1.0], right=True)
    for b in range(20):
        rows = target.codes == b
        expected = np.bincount(place[rows], minlength=3) @ np.log(share[:, rows].mean(axis=1))
        assert found[b] == pytest.approx(expected)


@pytest.mark.parametrize(("clear", "chosen"), [(1.9, 100.0), (2.1, 0.0)])
def test_slopes_have_to_beat_the_largest_ridge_by_two_standard_errors(clear, chosen):
    """A gain of one standard error tells ridges apart, but not slopes from none."""
    rng = np.random.default_rng(0)
    gain = rng.normal(size=40)
    gain -= gain.mean()
    gain += clear * gain.std(ddof=1) / np.sqrt(40)  # its sum is ``clear`` standard errors
    null = rng.normal(size=40)
    candidates = [Candidate(get_family("gaussian"), alpha, False) for alpha in (100.0, 0.0)]
    winner, error = _choose(candidates, np.stack([null, null + gain]), several=False)
    assert candidates[winner].alpha == chosen
    np.testing.assert_allclose(error, [gain.sum() / clear, 0.0])
