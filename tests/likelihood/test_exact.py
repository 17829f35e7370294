"""The exact likelihood of small blocks of 0/1 outcomes, against enumeration and simulation."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

import unbin
from unbin._watching import Equation, Status
from unbin.families import get_family
from unbin.likelihood.data.problem import make_problem
from unbin.likelihood.model.score import score_sums
from unbin.likelihood.solve import exact
from unbin.likelihood.solve.exact import exact_blocks, exact_sums, poisson_binomial
from unbin.rows.design import lay_out

ZERO_ONE = [-0.5, 0.5, 1.5]


def _people(n_blocks, size, slope, seed, d=1, effect=0.0):
    rng = np.random.default_rng(seed)
    blocks = np.repeat(np.arange(n_blocks), size)
    X = np.sqrt(0.3) * rng.normal(size=(n_blocks, d))[blocks]
    X += np.sqrt(0.7) * rng.normal(size=(len(blocks), d))
    eta = slope * X.sum(axis=1) + effect * rng.normal(size=n_blocks)[blocks]
    y = (rng.random(len(blocks)) < expit(eta)).astype(float)
    return X, np.char.zfill(blocks.astype(str), 4), y


def _problem(X, blocks, y, *, offset=None, weights=None, family="binomial", bins=ZERO_ONE):
    target = unbin.aggregate(y, blocks, bins).align(blocks)
    if weights is not None:
        people = np.repeat(np.arange(len(y)), weights)
        target = unbin.aggregate(y[people], blocks[people], bins).align(blocks[people])
    codes = np.unique(blocks, return_inverse=True)[1]
    people = None if weights is None else weights.astype(float)
    design = lay_out(X, codes, int(codes.max()) + 1, offset=offset, weights=people)
    return make_problem(design, [target.release], get_family(family))


def with_counts(problem, counts):
    return problem.with_tables([replace(problem.first, counts=counts)])


def _enumerated(p, count):
    """P(count ones), summed over all outcomes there are."""
    outcomes = np.array(list(product([0, 1], repeat=len(p))))
    chance = np.where(outcomes == 1, p, 1 - p).prod(axis=1)
    return chance[outcomes.sum(axis=1) == count].sum()


def _log_likelihood(design, counts, theta):
    eta, start = design.eta(theta), design.start
    people = design.rows.weights
    people = np.ones(len(eta)) if people is None else people
    total = 0.0
    for b, count in enumerate(counts[:, 1]):
        rows = np.arange(start[b], start[b + 1]).repeat(people[start[b] : start[b + 1]].astype(int))
        total += np.log(_enumerated(expit(eta[rows]), count))
    return total


@pytest.mark.parametrize("given", ["plain", "offset", "weights", "no intercept"])
def test_scores_are_derivatives_of_the_enumerated_likelihood(given):
    rng = np.random.default_rng(1)
    X, blocks, y = _people(6, 6, 1.5, 0, d=2)
    offset = rng.normal(size=36) if given == "offset" else None
    weights = rng.integers(1, 3, 36) if given == "weights" else None
    problem = _problem(X, blocks, y, offset=offset, weights=weights)
    if given == "no intercept":
        design = lay_out(X, np.repeat(np.arange(6), 6), 6, fit_intercept=False)
        release = unbin.aggregate(y, blocks, ZERO_ONE).align(blocks).release
        problem = make_problem(design, [release], get_family("binomial"))
    theta = np.array([0.3, 1.1, -0.8])[3 - problem.design.n_parameters :]
    small = exact_blocks(problem)
    assert small.all()
    sums = exact_sums(problem, theta, np.zeros(len(theta)), small)
    for j, step in enumerate(1e-5 * np.eye(len(theta))):
        up, down = (
            _log_likelihood(problem.design, problem.first.counts.count, theta + sign * step)
            for sign in (1, -1)
        )
        assert sums.score[j] == pytest.approx((up - down) / 2e-5, abs=1e-6)


def test_information_is_the_variance_of_the_score():
    X, blocks, y = _people(1, 8, 2.0, 0, d=2)
    problem = _problem(X, blocks, y)
    theta, small = np.array([0.2, 1.0, -2.0]), exact_blocks(problem)
    nothing = np.zeros(3)
    p = expit(problem.design.eta(theta))
    expected = np.zeros((3, 3))
    for k in range(9):
        counts = replace(problem.first.counts, count=np.array([[8.0 - k, k]]))
        score = exact_sums(with_counts(problem, counts), theta, nothing, small).score
        expected += _enumerated(p, k) * np.outer(score, score)
    found = exact_sums(problem, theta, nothing, small).information
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_without_slopes_it_is_the_quasi_score():
    X, blocks, y = _people(20, 10, 1.0, 0)
    problem = _problem(X, blocks, y)
    theta, penalty = np.array([0.4, 0.0]), np.array([0.0, 2.0])
    sums = exact_sums(problem, theta, penalty, exact_blocks(problem))
    quasi = score_sums(problem, theta, penalty)
    np.testing.assert_allclose(sums.block_scores, quasi.block_scores, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(sums.information, quasi.information, rtol=1e-5, atol=1e-6)


def test_blocks_of_more_people_keep_the_quasi_score():
    rng = np.random.default_rng(0)
    size = np.repeat([8, 60], 10)
    blocks = np.char.zfill(np.repeat(np.arange(20), size).astype(str), 4)
    X = rng.normal(size=(len(blocks), 1))
    y = (rng.random(len(blocks)) < expit(2 * X[:, 0])).astype(float)
    problem = _problem(X, blocks, y)
    small = exact_blocks(problem)
    np.testing.assert_array_equal(small, size == 8)
    theta, nothing = np.array([0.1, 1.8]), np.zeros(2)
    both, quasi = exact_sums(problem, theta, nothing, small), score_sums(problem, theta, nothing)
    np.testing.assert_array_equal(both.block_scores[~small], quasi.block_scores[~small])
    of_quasi = exact_sums(problem, theta, nothing, np.zeros(20, dtype=bool))
    np.testing.assert_allclose(of_quasi.information, quasi.information, rtol=1e-9)
    only = [replace(problem.first.counts, known=mask) for mask in (small, ~small)]
    first = exact_sums(with_counts(problem, only[0]), theta, nothing, small)
    second = score_sums(with_counts(problem, only[1]), theta, nothing)
    np.testing.assert_allclose(both.information, first.information + second.information, rtol=1e-9)


def test_equal_people_are_binomial():
    probability = np.tile([[0.7, 0.3]], (30, 1))
    slope, columns = np.full(30, 0.21), np.ones((1, 30))
    start, blocks = np.array([0, 30]), np.array([0])
    for count in (0, 9, 30):
        score, information = poisson_binomial(
            probability, slope, columns, np.empty(0), start, blocks, np.array([count])
        )
        assert score[0, 0] == pytest.approx(count - 9.0)
        assert information[0, 0] == pytest.approx(binom.var(30, 0.3))


@pytest.mark.parametrize(
    ("slope", "ratio"),
    [(0.5, (0.93, 0.99)), (1.0, (0.84, 0.95)), (2.0, (0.6, 0.8)), (4.0, (0.3, 0.6))],
)
def test_variance_beside_the_quasi_score(slope, ratio):
    """Of 10 people a block; the two informations at the truth, which simulations reproduce."""
    X, blocks, y = _people(400, 10, slope, 0)
    problem = _problem(X, blocks, y)
    theta, nothing = problem.design.from_coefficients(np.array([slope]), 0.0), np.zeros(2)
    quasi = np.linalg.inv(score_sums(problem, theta, nothing).information)[1, 1]
    small = exact_blocks(problem)
    found = np.linalg.inv(exact_sums(problem, theta, nothing, small).information)[1, 1]
    assert ratio[0] < found / quasi < ratio[1]


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_estimates_vary_less_and_intervals_cover(monkeypatch):
    found, covered = {True: [], False: []}, 0
    for run in range(40):
        X, blocks, y = _people(150, 10, 3.0, run)
        target = unbin.aggregate(y, blocks, ZERO_ONE).align(blocks)
        for used in (True, False):
            with monkeypatch.context() as patch:
                if not used:
                    patch.setattr(exact, "exact_blocks", lambda problem: problem.first.counts.n < 0)
                model = unbin.AggregatedGLM("binomial", n_jobs=1).fit(X, target)
            found[used].append(model.coef_[0])
            if used:
                covered += abs(model.coef_[0] - 3.0) < 1.96 * model.standard_errors_[0]
    assert np.var(found[True]) < 0.85 * np.var(found[False])
    assert covered >= 34


def test_a_fit_says_that_it_was_used():
    X, blocks, y = _people(300, 10, 1.0, 0)
    target = unbin.aggregate(y, blocks, ZERO_ONE).align(blocks)
    model = unbin.AggregatedGLM("binomial").fit(X, target)
    assert model.equation_ is Equation.EXACT
    assert model.status_ is Status.CONVERGED
    assert model.status_.converged
    assert "exact in blocks of at most 30 people" in " ".join(str(model.summary()).split())


def test_repeated_rows_are_the_people_they_stand_for():
    rng = np.random.default_rng(0)
    blocks = np.char.zfill(np.repeat(np.arange(200), 12).astype(str), 4)
    X = rng.integers(0, 2, (2400, 2)).astype(float) + rng.normal(size=200)[blocks.astype(int), None]
    y = (rng.random(2400) < expit(X @ [2.0, -1.0])).astype(float)
    merged = unbin.AggregatedGLM("binomial")
    target = unbin.aggregate(y, blocks, ZERO_ONE).align(blocks)
    merged.fit(X, target)
    assert merged.equation_ is Equation.EXACT
    X = X + 1e-9 * rng.normal(size=X.shape)  # rows that differ are not merged
    apart = unbin.AggregatedGLM("binomial").fit(X, target)
    assert apart.equation_ is Equation.EXACT
    np.testing.assert_allclose(merged.coef_, apart.coef_, rtol=1e-5)


@pytest.mark.parametrize(
    "change",
    ["effects", "noise", "hidden", "fractions", "factor", "large", "trials"],
)
def test_where_the_quasi_score_stays(change):
    X, blocks, y = _people(20, 10, 1.0, 0)
    problem = _problem(X, blocks, y)
    assert exact_blocks(problem).all()
    counts = problem.first.counts
    changed = {
        "effects": replace(problem, block_variance=0.1),
        "noise": with_counts(problem, replace(counts, noise=np.ones(counts.count.shape))),
        "hidden": with_counts(
            problem, replace(counts, low=counts.count - 1, high=counts.count + 1)
        ),
        "factor": problem.with_tables([replace(problem.first, factor=np.full(20, 1.1))]),
        "large": with_counts(problem, replace(counts, n=counts.n + 21)),
        "trials": replace(problem, family=get_family("binomial", 2)),
        "fractions": replace(
            problem,
            design=lay_out(X, np.repeat(np.arange(20), 10), 20, weights=np.full(200, 1.5)),
        ),
    }[change]
    assert not exact_blocks(changed).any()


def test_effects_that_show_leave_the_quasi_score():
    X, blocks, y = _people(300, 20, 1.0, 0, effect=1.0)
    target = unbin.aggregate(y, blocks, ZERO_ONE).align(blocks)
    model = unbin.AggregatedGLM("binomial").fit(X, target)
    assert model.diagnostics_.block_sd > 0
    assert model.equation_ is Equation.SCORE
    assert model.status_ is Status.CONVERGED
