"""Fits to histograms: slopes found, ridges, starts, thinned rows, and the pooled fit."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.helpers.cases import coef_of, make_case
from unbin._watching import Equation, Status, watching
from unbin.families import get_family
from unbin.likelihood import fit_likelihood
from unbin.likelihood.data.problem import make_problem, ridge_penalty, thin, worth_thinning
from unbin.likelihood.infer.verdicts import judge
from unbin.likelihood.model.score import score_sums
from unbin.likelihood.solve import root, scoring
from unbin.likelihood.solve.root import _explains_more, pooled_fit
from unbin.likelihood.solve.scoring import ScoringResult, _Memory
from unbin.likelihood.solve.start import starting_point
from unbin.rows.design import lay_out


def test_the_release_of_a_case_counts_everybody():
    case = make_case(0)
    assert case.release.n.sum() == len(case.y)
    np.testing.assert_array_equal(np.diff(case.design.start), case.release.n)


@pytest.mark.parametrize(
    ("kind", "bins", "largest"), [("gaussian", 8, 0.04), ("poisson", 6, 0.025)]
)
def test_slopes_are_recovered_from_histograms(kind, bins, largest):
    family, errors = get_family(kind), []
    for seed in range(6):
        case = make_case(seed, kind=kind, bins=bins)
        fit = fit_likelihood(case.design, [case.release], family, robust=False)
        assert fit.status is Status.CONVERGED
        assert fit.equation is Equation.SCORE
        errors.append(coef_of(case, fit) - case.coef)
    assert np.sqrt(np.mean(np.square(errors))) <= largest


def test_thresholds_are_recovered():
    case = make_case(0, kind="ordinal", n_blocks=100, bins=[-np.inf, -1.0, 0.5, 2.0, np.inf])
    fit = fit_likelihood(case.design, [case.release], get_family("ordinal"))
    coef, intercept = case.design.to_coefficients(fit.theta)
    np.testing.assert_allclose(coef, case.coef, atol=0.2)
    np.testing.assert_allclose(fit.nuisance - intercept, np.array([-1.3, 0.2, 1.7]), atol=0.2)
    assert fit.theta[0] == 0.0


def test_without_noise_the_composite_estimate_stands():
    case = make_case(0, sigma=1e-3, n_blocks=60, size=40, bins=5)
    fit = fit_likelihood(case.design, [case.release], get_family("gaussian"))
    assert fit.status is Status.CONVERGED
    assert fit.equation is Equation.COMPOSITE
    np.testing.assert_allclose(coef_of(case, fit), case.coef, atol=0.05)


def test_a_ridge_shrinks_and_its_equation_is_solved():
    case, family = make_case(1), get_family("gaussian")
    free = fit_likelihood(case.design, [case.release], family)
    tight = fit_likelihood(case.design, [case.release], family, alpha=0.5, robust=False)
    assert np.linalg.norm(coef_of(case, tight)) < 0.8 * np.linalg.norm(coef_of(case, free))
    problem = make_problem(case.design, [case.release], family)
    at = problem.coordinates.join(tight.theta, tight.nuisance)
    sums = score_sums(problem, at, ridge_penalty(problem, 0.5))
    assert sums.score @ np.linalg.solve(sums.information, sums.score) < 1e-4


def test_a_start_at_the_solution_stays_there():
    case, family = make_case(2), get_family("gaussian")
    steps = []
    with watching(lambda step: steps.append(step.parameters)):
        fit = fit_likelihood(case.design, [case.release], family)
    again = fit_likelihood(case.design, [case.release], family, start=steps[-1])
    assert again.n_iter < fit.n_iter
    np.testing.assert_allclose(again.theta, fit.theta, atol=1e-4)


def test_noise_added_to_counts_widens_the_errors():
    case, family = make_case(4), get_family("gaussian")
    plain = fit_likelihood(case.design, [case.release], family)
    noisy = fit_likelihood(case.design, [replace(case.release, noise_sd=5.0)], family)
    gain = np.diag(np.linalg.inv(noisy.information)) / np.diag(np.linalg.inv(plain.information))
    assert (gain > 1.2).all()
    assert noisy.goodness.misfit < plain.goodness.misfit


def test_thinned_rows_stand_for_all():
    case = make_case(5, n_blocks=50, size=6_000, d=2, bins=5)
    problem = make_problem(case.design, [case.release], get_family("gaussian"))
    assert worth_thinning(problem)
    coarse = thin(problem)
    kept = np.diff(coarse.design.start)
    assert kept.sum() < 0.3 * len(case.y)
    np.testing.assert_allclose(coarse.design.people, case.release.n)
    weights = coarse.design.in_memory().weights
    np.testing.assert_allclose(weights * np.repeat(kept, kept), np.repeat(case.release.n, kept))
    assert not worth_thinning(make_problem(*_small()))


def _small():
    case = make_case(0)
    return case.design, [case.release], get_family("gaussian")


@dataclass
class Ended:
    free: np.ndarray
    converged: bool = False
    n_iter: int = 1


def solved_nowhere(problem, free, penalty, **_):
    """Stand in for scoring that ends far from any root, the scale collapsed."""
    held = penalty.max(initial=0.0) > 1e6  # slopes held at 0: the pooled fit
    at = free if held else np.append(np.full(len(free) - 1, 20.0), -5.0)
    return ScoringResult(at, score_sums(problem, at, penalty), Status.NOT_CONVERGED, 1, (1.0,))


def test_no_fit_explains_its_table_worse_than_slopes_of_0(monkeypatch):
    case = make_case(20, n_blocks=30)
    monkeypatch.setattr(root, "solve_score", solved_nowhere)
    monkeypatch.setattr(root, "maximise_composite", lambda _p, free, _: Ended(free))
    fit = fit_likelihood(case.design, [case.release], get_family("gaussian"))
    assert fit.status is Status.POOLED
    assert not fit.status.converged
    np.testing.assert_array_equal(fit.theta[1:], 0.0)
    assert not fit.told().any()
    assert fit.theta[0] == pytest.approx(case.y.mean(), abs=0.1)
    found = judge(case.design, get_family("gaussian"), fit, 4)
    assert "slopes of 0" in found.why
    assert found.coefficients == ("not estimable",) * 4


def scoring_more(result, score):
    """Return expected counts whose log score is larger by so much."""
    return tuple(np.exp(score) * mean for mean in result.sums.mean)


@pytest.mark.parametrize(
    ("score", "misfit", "kind", "equation", "more"),
    [
        (0.1, 0.5, "gaussian", Equation.SCORE, True),
        (0.1, 2.0, "gaussian", Equation.SCORE, False),  # a scale that collapsed
        (-0.1, 0.5, "gaussian", Equation.SCORE, False),
        (0.1, 2.0, "ordinal", Equation.SCORE, True),  # means of bins cannot diverge
        (0.1, 2.0, "gaussian", Equation.COMPOSITE, True),  # S is singular
        (-0.1, 0.5, "gaussian", Equation.COMPOSITE, False),
    ],
)
def test_what_explains_a_table_better_than_slopes_of_0(score, misfit, kind, equation, more):
    case = make_case(21)
    problem = make_problem(case.design, [case.release], get_family(kind))
    penalty = ridge_penalty(problem, 0.0)
    pooled = pooled_fit(problem, penalty, tol=1e-6, max_iter=50)
    share = scoring_more(pooled, score)
    sums = replace(pooled.sums, mean=share, block_misfit=misfit * pooled.sums.block_misfit)
    ended = Status.CONVERGED if equation is Equation.COMPOSITE else Status.NOT_CONVERGED
    other = replace(pooled, sums=sums, status=ended, equation=equation)
    assert _explains_more(problem, other, pooled) is more


@pytest.mark.parametrize(("score", "final"), [(0.1, True), (-0.1, False)])
def test_a_root_worse_than_slopes_of_0_is_not_the_last_word(score, final):
    case = make_case(21)
    problem = make_problem(case.design, [case.release], get_family("gaussian"))
    pooled = pooled_fit(problem, ridge_penalty(problem, 0.0), tol=1e-6, max_iter=50)
    sums = replace(pooled.sums, mean=scoring_more(pooled, score))
    found = replace(pooled, sums=sums, status=Status.CONVERGED)
    assert root._is_final(problem, found) is final


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "ordinal"])
def test_the_pooled_fit_is_that_of_everybody_together(kind, monkeypatch):
    """Against the same family fitted to a design without features; no block effects allowed."""
    monkeypatch.setattr("unbin.likelihood.solve.effects._variances", lambda *_: ((0.0, 0.0), 0))
    case = make_case(22, kind=kind)
    family = get_family(kind)
    problem = make_problem(case.design, [case.release], family)
    pooled = pooled_fit(problem, ridge_penalty(problem, 0.0), tol=1e-10, max_iter=50)
    bare = lay_out(np.empty((len(case.y), 0)), case.codes, len(case.release))
    alone = fit_likelihood(bare, [case.release], family, tol=1e-10)
    theta, nuisance = problem.coordinates.split(pooled.free)
    np.testing.assert_array_equal(theta[1:], 0.0)
    np.testing.assert_allclose(theta[:1], alone.theta, atol=1e-4)
    np.testing.assert_allclose(nuisance, alone.nuisance, atol=1e-4)


def test_steps_that_do_not_differ_are_not_combined():
    memory, step = _Memory(), np.array([1.0, -2.0])
    moves = [memory.accelerate(k * step, step, np.eye(2)) for k in range(4)]
    np.testing.assert_array_equal(moves, np.tile(step, (4, 1)))


@pytest.mark.parametrize("level", [0.0, 1e-320, 1e-300])
def test_a_score_without_information_is_no_root(level):
    """Where a trial has gone so far that nothing changes any more, its decrement is not 0."""
    case = make_case(21)
    problem = make_problem(case.design, [case.release], get_family("gaussian"))
    penalty = ridge_penalty(problem, 0.0)
    sums = score_sums(problem, starting_point(problem), penalty)
    gone = replace(sums, information=level * np.eye(len(penalty)))
    assert scoring._direction(gone, np.diag(penalty))[1] == np.inf
    assert scoring._direction(sums, np.diag(penalty))[1] < np.inf
