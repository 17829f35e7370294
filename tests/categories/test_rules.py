"""Every rule of the solver and of the verdicts: a case that it decides, with it and without."""

from dataclasses import replace

import numpy as np
import pytest

import unbin
from tests.helpers.votes import SLOPES, draw_votes, problem_of
from unbin._watching import Status
from unbin.categories import fit as fits
from unbin.categories import scores, solver, verdicts
from unbin.categories.fit import fit_categories, make_prior
from unbin.categories.problem import contrasts
from unbin.categories.solver import solve
from unbin.categories.verdicts import judge
from unbin.exceptions import (
    IdentificationWarning,
    SpecificationWarning,
)

HOW = {"alpha": 0.0, "tol": 1e-8, "max_iter": 200}


def fit_table(people, **settings):
    target = unbin.aggregate(people.labels, people.blocks).align(people.blocks)
    return unbin.AggregatedClassifier(**settings).fit(people.X, target)


# -- the solver ------------------------------------------------------------------------------------


def hard():
    """Return blocks that hold one category each, nearly: steps from the pooled shares are long."""
    return problem_of(draw_votes(seed=0, n_blocks=30, size=60, slopes=6 * SLOPES, spread=2.0))


def roots(problem, **how):
    return solve(problem, problem.start(), make_prior(problem, 0.0), tol=1e-8, max_iter=100, **how)


def test_steps_are_halved_until_the_form_falls(monkeypatch):
    slopes = 5 * np.random.default_rng(2).normal(size=(2, 5))
    people = draw_votes(
        seed=2, n_blocks=12, size=10, slopes=slopes, effect_sd=3.0, by_group=True, spread=1.0
    )
    problem = problem_of(people)
    found = roots(problem)
    assert found.n_iter > len(found.path)  # passes at steps that were not taken
    monkeypatch.setattr(solver, "_HALVINGS", 1)
    plain = roots(problem)
    assert plain.n_iter == len(plain.path)


def test_no_step_is_longer_than_one(monkeypatch):
    problem, seen = hard(), []

    def watched(problem, gamma, variance):
        seen.append(gamma)
        return scores.score_sums(problem, gamma, variance)

    monkeypatch.setattr(solver, "score_sums", watched)
    first = scores.score_sums(problem, problem.start(), np.zeros(1))
    whole = solver.bread(first, make_prior(problem, 0.0)) @ first.score
    assert np.abs(whole).max() > 1
    roots(problem, effects=False)
    assert np.abs(seen[1] - seen[0]).max() == pytest.approx(1.0)


def sparse(seed):
    """Return few blocks of large effects, of a number of categories that the seed decides."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=(2, int(rng.integers(3, 8))))
    how = {"n_blocks": int(rng.choice([12, 40])), "size": int(rng.choice([10, 40]))}
    effect_sd = float(rng.choice([1, 2, 3]))
    return problem_of(
        draw_votes(seed=seed, slopes=slopes, effect_sd=effect_sd, by_group=True, spread=0.5, **how),
        grouped=True,
    )


@pytest.mark.parametrize("seed", [12, 20, 34])
def test_steps_that_overshoot_are_shortened(monkeypatch, seed):
    problem = sparse(seed)
    assert roots(problem).status is Status.CONVERGED
    monkeypatch.setattr(solver, "_OVERSHOT", np.inf)
    assert roots(problem).status is Status.NOT_CONVERGED


def effects_of(sd, seed=4):
    return problem_of(
        draw_votes(seed=seed, n_blocks=60, size=60, effect_sd=sd, by_group=True), grouped=True
    )


def test_variances_are_those_of_the_effects():
    for sd in (0.0, 0.3, 0.6):
        found = [
            np.sqrt(fit_categories(effects_of(sd, seed), **HOW).root.variance).mean()
            for seed in range(3)
        ]
        assert np.mean(found) == pytest.approx(sd, abs=0.12)


def test_variances_keep_to_a_range(monkeypatch):
    problem = effects_of(1.0)
    assert fit_categories(problem, **HOW).root.variance.max() > 0.5
    monkeypatch.setattr(solver, "_RANGE", (-12.0, np.log(0.2)))
    assert fit_categories(problem, **HOW).root.variance.max() == pytest.approx(0.2)


def test_variances_of_groups_are_drawn_to_their_mean(monkeypatch):
    people = draw_votes(seed=4, n_blocks=60, size=60, effect_sd=0.6, by_group=True)
    problem = problem_of(people, grouped=True)
    apart = {}
    for spread in (1.0, 0.01):
        monkeypatch.setattr(solver, "_SPREAD", spread)
        variance = fit_categories(problem, **HOW).root.variance
        apart[spread] = np.ptp(np.log(variance))
    assert apart[0.01] < 0.1 * apart[1.0]


def test_steps_of_variances_are_short():
    problem = effects_of(1.0)
    gamma, variance = problem.start(), np.full(2, 1e-4)
    sums = scores.score_sums(problem, gamma, variance)
    step = solver._log_step(
        sums, solver.bread(sums, make_prior(problem, 0.0)), variance, np.ones(2, bool)
    )
    np.testing.assert_allclose(step, 1.0)


def test_variances_have_settled_when_a_fit_ends(monkeypatch):
    problem = effects_of(0.5)
    loose = solve(problem, problem.start(), make_prior(problem, 0), tol=1e-2, max_iter=200)
    monkeypatch.setattr(solver, "_SETTLED", np.inf)
    early = solve(problem, problem.start(), make_prior(problem, 0), tol=1e-2, max_iter=200)
    assert early.n_iter < loose.n_iter
    tight = solve(problem, problem.start(), make_prior(problem, 0), tol=1e-10, max_iter=500)
    np.testing.assert_allclose(np.log(loose.variance), np.log(tight.variance), atol=0.02)


def test_groups_without_pairs_have_no_variance():
    people = draw_votes(seed=4, n_blocks=300, size=1)
    found = fit_categories(problem_of(people), **HOW)
    assert found.root.variance[0] == 0
    model = fit_table(people)
    assert model.status_.converged


def test_one_person_in_a_category_of_nobody_is_no_news(monkeypatch):
    people = draw_votes(seed=1, n_blocks=10, size=200)
    labels = np.where(people.labels == "c", "b", people.labels)
    labels[0] = "c"
    problem = problem_of(replace(people, labels=labels))
    level = contrasts(3).T @ np.array([0.0, 0.0, -16.0])  # 1e-5 people expected in a block
    gamma = np.column_stack([level, np.zeros((2, 2))])
    misfit = scores.score_sums(problem, gamma, np.zeros(1)).first.misfit[0]
    monkeypatch.setattr(scores, "_FLOOR", 0.0)
    without = scores.score_sums(problem, gamma, np.zeros(1)).first.misfit[0]
    assert misfit < 200 < 10_000 < without


def test_passes_are_bounded():
    found = fit_categories(hard(), alpha=0.0, tol=1e-12, max_iter=2)
    assert found.root.status is Status.NOT_CONVERGED
    assert judge(found).coefficients != ()
    assert found.root.status.value in judge(found).reasons


def test_weak_slopes_have_the_ridge_where_none_is_asked_for(monkeypatch):
    rng = np.random.default_rng(0)
    people = draw_votes(n_blocks=60, size=30)
    X = np.column_stack([people.X, 0.2 * rng.normal(size=(60, 6)).repeat(30, 0)])
    X[:, 2:] += rng.normal(size=(1800, 6))
    problem = problem_of(replace(people, X=X))
    how = HOW | {"alpha": None}
    weak = fit_categories(problem, **how)
    assert weak.alpha > 0
    assert weak.predicts is not weak.root
    strong = fit_categories(problem_of(draw_votes(n_blocks=300, size=60)), **how)
    assert strong.alpha == 0
    assert strong.predicts is strong.root
    monkeypatch.setattr(fits, "_weak", lambda *_: False)
    assert fit_categories(problem, **how).alpha == 0


# -- verdicts --------------------------------------------------------------------------------------


def test_a_constant_feature_is_not_estimable():
    people = draw_votes()
    X = np.column_stack([people.X, np.ones(len(people.X))])
    with pytest.warns(IdentificationWarning, match="the same for everybody"):
        model = fit_table(replace(people, X=X))
    verdict = np.array(model.diagnostics_.verdicts).reshape(3, 3)
    assert (verdict[:, 2] == "not estimable").all()
    assert (verdict[:, :2] != "not estimable").all()
    assert np.isnan(model.standard_errors_[:, 2]).all()
    assert np.isfinite(model.standard_errors_[:, :2]).all()
    np.testing.assert_array_equal(model.coef_[:, 2], 0)


def test_features_that_blocks_cannot_tell_apart_are_not_estimable():
    people = draw_votes()
    X = np.column_stack([people.X, 2 * people.X[:, 0]])
    with pytest.warns(IdentificationWarning, match="fewer ways than there are slopes"):
        model = fit_table(replace(people, X=X))
    verdict = np.array(model.diagnostics_.verdicts).reshape(3, 3)
    assert (verdict[:, [0, 2]] == "not estimable").all()
    assert (verdict[:, 1] != "not estimable").all()


def test_slopes_that_ran_away_are_not_estimable():
    X, y = np.linspace(-1, 1, 90)[:, None], np.repeat([0, 1, 2], 30)
    with pytest.warns(IdentificationWarning, match="ran away"):
        model = unbin.AggregatedClassifier().fit(X, y)
    assert model.diagnostics_.verdicts[0] == "not estimable"
    assert not model.diagnostics_.trusted
    assert unbin.AggregatedClassifier(0.01).fit(X, y).diagnostics_.trusted


def test_strong_slopes_that_are_told_did_not_run_away():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(6000, 1))
    y = (X @ [[-16, 0, 16]] + rng.gumbel(size=(6000, 3))).argmax(axis=1)
    model = unbin.AggregatedClassifier().fit(X, y)
    assert np.ptp(X) * np.abs(model.coef_).max() > verdicts._LARGEST_STEP
    assert "not estimable" not in model.diagnostics_.verdicts


@pytest.mark.parametrize(("n_blocks", "verdict"), [(200, "estimated"), (8, "imprecise")])
def test_precision_is_the_error_on_the_logit_scale(n_blocks, verdict):
    people = draw_votes(seed=3, n_blocks=n_blocks, size=20)
    model = fit_table(people)
    sd = people.X.std(axis=0)
    wanted = model.standard_errors_ * sd / (np.pi / np.sqrt(3))
    np.testing.assert_allclose(np.reshape(model.diagnostics_.precision, (3, 2)), wanted, rtol=1e-9)
    assert set(model.diagnostics_.verdicts) == {verdict}


def test_few_blocks_are_told():
    with pytest.warns(SpecificationWarning, match="5 blocks are too few for 2 slopes"):
        model = fit_table(draw_votes(seed=2, n_blocks=5, size=300))
    assert not model.diagnostics_.trusted
    assert fit_table(draw_votes(seed=2, n_blocks=7, size=300)).diagnostics_.trusted


def test_context_is_not_tested_with_few_blocks():
    assert fit_table(draw_votes(n_blocks=15, size=60)).diagnostics_.context is None
    found = fit_table(draw_votes(n_blocks=40, size=60)).diagnostics_.context
    assert found.p_value > verdicts.CONTEXT_LEVEL


def test_effects_of_block_means_are_told(monkeypatch):
    people = draw_votes(seed=0, n_blocks=120, size=60, spread=1.0)
    code = people.blocks.astype(int)
    share = np.bincount(code, people.X[:, 1]) / 60
    eta = people.X @ SLOPES + 3 * (share[code] - 0.5)[:, None] * [-1, 0, 1]
    eta += np.random.default_rng(9).gumbel(size=eta.shape)
    people = replace(people, labels=np.array(["a", "b", "c"])[eta.argmax(axis=1)])
    with pytest.warns(SpecificationWarning, match="effects of their own"):
        model = fit_table(people)
    assert model.diagnostics_.context.p_value < verdicts.CONTEXT_LEVEL
    monkeypatch.setattr(verdicts, "CONTEXT_LEVEL", 0.0)
    assert fit_table(people).diagnostics_.trusted


def two_tables(people):
    """Publish a table by the second feature, and one by classes of the first."""
    cuts = np.where(people.X[:, 1] > 0, "y", "x"), np.digitize(people.X[:, 0], [-1, -0.4, 0.4, 1])
    return unbin.join(*(unbin.aggregate(people.labels, ids).align(ids) for ids in cuts))


def test_tables_that_contradict_the_model_are_told():
    people = draw_votes(seed=0, n_blocks=80, size=60, slopes=0.2 * SLOPES)
    target = two_tables(people)
    assert unbin.AggregatedClassifier().fit(people.X, target).diagnostics_.trusted
    with pytest.warns(SpecificationWarning, match="times as much as it says"):
        model = unbin.AggregatedClassifier().fit(people.X[:, 1:], target)
    assert not model.diagnostics_.trusted


def test_blocks_without_a_table_are_left_out():
    people = draw_votes(seed=2, n_blocks=30, size=40)
    some = people.blocks.astype(int) < 25
    release = unbin.aggregate(people.labels[some], people.blocks[some])
    alone = unbin.AggregatedClassifier(tol=1e-8).fit(
        people.X[some], release.align(people.blocks[some])
    )
    model = fit_categories(problem_of(people), **HOW)
    assert alone.n_blocks_ == 25
    assert judge(model).coefficients
