"""Scores of published counts against dense matrices and numeric derivatives."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.votes import draw_votes, problem_of
from unbin._watching import Status
from unbin.categories import scores
from unbin.categories.fit import make_prior
from unbin.categories.inference import score_variance
from unbin.categories.problem import contrasts
from unbin.categories.scores import score_sums
from unbin.categories.solver import Root, _log_step, bread

K, BASIS = 3, contrasts(3)


def example(**how):
    """Return people, their problem, and contrasts that are not the root."""
    people = draw_votes(seed=2, n_blocks=8, size=20)
    problem = problem_of(people, **how)
    rng = np.random.default_rng(1)
    return people, problem, 0.5 * rng.normal(size=(K - 1, problem.n_columns))


def each_row(problem, gamma):
    """Return q, columns of the law's parameters, block, group and weight of each row."""
    rows, law, p = problem.design.rows, problem.law(gamma), problem.design.n_parameters
    code, theta = rows.codes(slice(0, len(rows))), contrasts(K) @ gamma
    group = law.groups.codes(rows.matrix)
    x = np.zeros((len(rows), problem.n_columns))
    x[:, :p] = np.column_stack([np.ones(len(rows)), rows.matrix])
    if problem.context is not None:
        width = problem.context.shape[1]
        for i, (b, g) in enumerate(zip(code, group, strict=True)):
            x[i, p + g * width : p + (g + 1) * width] = problem.context[b]
    eta = x @ theta.T
    q = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
    weight = np.ones(len(rows)) if rows.weights is None else rows.weights
    return q, x, code, group, weight


def contrast_sums(problem, gamma, code):
    """Return the expected contrasts of the counts of each block."""
    q, _, _, _, weight = each_row(problem, gamma)
    mean = np.zeros((code.max() + 1, K))
    np.add.at(mean, code, weight[:, None] * q)
    return mean @ BASIS


def numeric(function, gamma, step=1e-5):
    """Return central derivatives, parameters last."""
    found = []
    for j in range(gamma.size):
        move = np.zeros(gamma.size)
        move[j] = step
        move = move.reshape(gamma.shape)
        found.append((function(gamma + move) - function(gamma - move)) / (2 * step))
    return np.stack(found, axis=-1)


def covariance(problem, gamma, variance, b):
    """Return V_b with its floor, and its derivatives by the variances, from dense matrices."""
    q, _, code, group, _ = each_row(problem, gamma)
    total, by_group = np.zeros((K - 1, K - 1)), []
    for g in range(problem.groups.n):
        w = [BASIS.T @ (np.diag(each) - np.outer(each, each)) @ BASIS
             for each in q[(code == b) & (group == g)]]  # fmt: skip
        # people of one effect are correlated: sum over all pairs of two people
        both = sum((a @ c for i, a in enumerate(w) for j, c in enumerate(w) if i != j),
                   np.zeros((K - 1, K - 1)))  # fmt: skip
        total += sum(w, np.zeros((K - 1, K - 1))) + variance[g] * both
        by_group.append(both)
    n = (code == b).sum()
    return total + min(0.01, 1e-4 * n) * np.eye(K - 1), np.array(by_group)


def with_means(problem):
    """Return the problem with block means of its features as context."""
    rows = problem.design.rows
    code = rows.codes(slice(0, len(rows)))
    means = np.array([rows.matrix[code == b].mean(axis=0) for b in range(code.max() + 1)])
    return replace(problem, context=means - rows.matrix.mean(axis=0))


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("contextual", [False, True])
def test_scores_are_those_of_dense_matrices(grouped, contextual):
    _, problem, gamma = example(grouped=grouped)
    if contextual:
        problem = with_means(problem)
        gamma = 0.3 * np.random.default_rng(0).normal(size=(K - 1, problem.n_columns))
    variance = np.array([0.3, 0.1])[: problem.groups.n]
    found = score_sums(problem, gamma, variance)
    code = each_row(problem, gamma)[2]
    slopes = numeric(lambda at: contrast_sums(problem, at, code), gamma)
    residual = problem.counts.count @ BASIS - contrast_sums(problem, gamma, code)
    score, information = 0.0, 0.0
    for b in range(8):
        v, by_group = covariance(problem, gamma, variance, b)
        score = score + slopes[b].T @ np.linalg.solve(v, residual[b])
        information = information + slopes[b].T @ np.linalg.solve(v, slopes[b])
        np.testing.assert_allclose(found.first.inverse[b], np.linalg.inv(v), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.first.variance[b], by_group, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(
            found.first.misfit[b], residual[b] @ np.linalg.solve(v, residual[b]), rtol=1e-9
        )
    np.testing.assert_allclose(found.score, score, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.information, information, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.first.residual, residual, atol=1e-12)


def test_covariance_is_that_of_simulated_effects():
    _, problem, gamma = example(grouped=True)
    variance, rng, draws = np.array([0.05, 0.1]), np.random.default_rng(5), 40_000
    q, _, code, group, _ = each_row(problem, 0.5 * gamma)
    mine = code == 0
    eta, group = np.log(q[mine]), group[mine]
    effect = np.sqrt(variance)[:, None] * rng.normal(size=(draws, 2, K))
    noise = rng.gumbel(size=(draws, mine.sum(), K))
    category = (eta + effect[:, group] + noise).argmax(axis=2)
    counts = np.stack([(category == k).sum(axis=1) for k in range(K)], axis=1)
    simulated = np.cov((counts @ BASIS).T)
    v, _ = covariance(problem, 0.5 * gamma, variance, 0)
    np.testing.assert_allclose(v, simulated, rtol=0.06, atol=0.15)
    without, _ = covariance(problem, 0.5 * gamma, np.zeros(2), 0)
    assert np.abs(np.diag(without) - np.diag(simulated)).max() > 0.5


def restricted(problem, gamma, variance, prior, derivative, residual):
    """Return the restricted log likelihood of variances, D and W held at some contrasts."""
    total = np.kron(np.eye(K - 1), prior.precision)
    found = 0.0
    for b in range(len(residual)):
        v, _ = covariance(problem, gamma, variance, b)
        total = total + derivative[b].T @ np.linalg.solve(v, derivative[b])
        found -= 0.5 * np.linalg.slogdet(v)[1]
        found -= 0.5 * residual[b] @ np.linalg.solve(v, residual[b])
    return found - 0.5 * np.linalg.slogdet(total)[1]


def test_variances_are_scored_by_restricted_likelihood():
    _, problem, gamma = example(grouped=True)
    prior = make_prior(problem, 0.0)
    variance = np.array([0.3, 0.2])
    sums = score_sums(problem, gamma, variance)
    derivative = np.linalg.inv(sums.first.inverse) @ sums.first.weighted
    at = (problem, gamma)
    slope = np.array([
        (restricted(*at, variance * np.exp(move), prior, derivative, sums.first.residual)
         - restricted(*at, variance * np.exp(-move), prior, derivative, sums.first.residual)) / 2e-4
        for move in 1e-4 * np.eye(2)
    ])  # fmt: skip
    fisher = np.zeros((2, 2))
    for b in range(8):
        v, by_group = covariance(problem, gamma, variance, b)
        turned = np.linalg.solve(v, by_group)
        fisher += 0.5 * np.einsum("gac,hca->gh", turned, turned) * np.outer(variance, variance)
    centring = np.eye(2) - 0.5  # towards the mean of both
    step = np.linalg.solve(
        fisher + centring + 1e-3 * np.eye(2), slope - centring @ np.log(variance)
    )
    found = _log_step(sums, bread(sums, prior), variance, np.array([True, True]))
    assert np.abs(step).max() < 1  # no longer than a step may be
    np.testing.assert_allclose(found, step, rtol=1e-5)
    one = _log_step(sums, bread(sums, prior), variance, np.array([False, True]))
    assert one[0] == 0
    np.testing.assert_allclose(one[1], np.clip(slope[1] / (fisher[1, 1] + 1e-3), -1, 1), rtol=1e-5)


# -- further tables, and known people --------------------------------------------------------------


def two_tables():
    people = draw_votes(seed=2, n_blocks=8, size=20)
    second = np.digitize(people.X[:, 0], [-0.5, 0.5]).astype(str)
    return people, second


def test_another_table_adds_its_own_score():
    people, second = two_tables()
    both = problem_of(people, partitions=[people.blocks, second])
    gamma = 0.5 * np.random.default_rng(1).normal(size=(K - 1, 3))
    none = np.zeros(1)
    alone = [
        score_sums(problem_of(people, partitions=[ids]), gamma, none)
        for ids in (people.blocks, second)
    ]
    found = score_sums(both, gamma, none)
    np.testing.assert_allclose(found.score, alone[0].score + alone[1].score, rtol=1e-10)
    wanted = alone[0].information + alone[1].information
    np.testing.assert_allclose(found.information, wanted, rtol=1e-10)
    np.testing.assert_allclose(found.others[0].residual, alone[1].first.residual, atol=1e-10)
    assert score_sums(problem_of(people), gamma, none).others == ()


def test_contextual_slopes_of_another_table():
    people, second = two_tables()
    problem = with_means(problem_of(people, partitions=[people.blocks, second], grouped=True))
    gamma = 0.3 * np.random.default_rng(0).normal(size=(K - 1, problem.n_columns))
    found = score_sums(problem, gamma, np.array([0.1, 0.2])).others[0]
    code = problem.design.rows.others[0]
    slopes = numeric(lambda at: contrast_sums(problem, at, code), gamma)
    derivative = np.linalg.inv(found.inverse) @ found.weighted
    np.testing.assert_allclose(derivative, slopes, atol=1e-7)


@pytest.mark.parametrize("contextual", [False, True])
def test_known_people_have_the_score_of_their_likelihood(contextual):
    people = draw_votes(seed=2, n_blocks=8, size=20)
    known = np.arange(0, 160, 3)
    problem = problem_of(people, known=known, grouped=True)
    problem = with_means(problem) if contextual else problem
    gamma = 0.3 * np.random.default_rng(0).normal(size=(K - 1, problem.n_columns))
    rows, p = problem.known.design.rows, problem.design.n_parameters

    def log_likelihood(at):
        theta = BASIS @ at
        eta = np.column_stack([np.ones(len(rows)), rows.matrix]) @ theta[:, :p].T
        if contextual:
            slopes = theta[:, p:].reshape(K, 2, -1)
            group = problem.groups.codes(rows.matrix)
            shift = np.einsum("bq,kgq->bgk", problem.context, slopes)
            eta = eta + shift[problem.known.block, group]
        chosen = eta[np.arange(len(rows)), problem.known.category]
        return np.sum(chosen - np.log(np.exp(eta).sum(axis=1)))

    score, information, deviance = scores.known_sums(problem, problem.law(gamma))
    assert deviance == pytest.approx(-2 * log_likelihood(gamma), rel=1e-12)
    np.testing.assert_allclose(score, numeric(log_likelihood, gamma), atol=1e-6)
    hessian = numeric(lambda at: numeric(log_likelihood, at, 1e-4), gamma, 1e-4)
    np.testing.assert_allclose(information, -hessian, atol=2e-4)
    sums, table = score_sums(problem, gamma, np.zeros(2)), problem_of(people, known=known)
    np.testing.assert_allclose(sums.known, information)
    assert table.counts.n.sum() == 160 - len(known)  # they are not counted twice
    np.testing.assert_allclose(sums.score, sums.first.scores.sum(axis=0) + score, atol=1e-12)


def test_known_people_of_many_rows_are_summed_in_tiles(monkeypatch):
    people = draw_votes(seed=2, n_blocks=8, size=20)
    problem = problem_of(people, known=np.arange(0, 160, 3))
    gamma = 0.3 * np.random.default_rng(0).normal(size=(K - 1, problem.n_columns))
    whole = scores.known_sums(problem, problem.law(gamma))
    monkeypatch.setattr(scores, "_TILE_CELLS", 60)
    for a, b in zip(whole, scores.known_sums(problem, problem.law(gamma)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_rows_of_less_than_a_person_have_no_pairs():
    people = draw_votes(seed=2, n_blocks=12, size=1)
    problem = problem_of(people)
    found = score_sums(problem, np.zeros((K - 1, 3)), np.array([0.5]))
    np.testing.assert_array_equal(found.first.variance, 0)


# -- the variance of added scores ------------------------------------------------------------------


@pytest.mark.parametrize("known", [None, np.arange(0, 160, 3)])
def test_variance_of_several_scores_is_a_sum_over_people(known):
    people, second = two_tables()
    problem = problem_of(people, partitions=[people.blocks, second], grouped=True, known=known)
    gamma = 0.5 * np.random.default_rng(1).normal(size=(K - 1, 3))
    variance = np.array([0.3, 0.1])
    sums = score_sums(problem, gamma, variance)
    root = Root(gamma, variance, make_prior(problem, 0.0), sums, Status.CONVERGED, 1, (0.0,))
    q, _, code, group, weight = each_row(problem, gamma)
    other = problem.design.rows.others[0]
    wanted, moved = np.zeros((6, 6)), np.zeros((8, 2, 6, K - 1))
    for i in range(len(q)):
        w = BASIS.T @ (np.diag(q[i]) - np.outer(q[i], q[i])) @ BASIS
        each = sums.first.weighted[code[i]] + sums.others[0].weighted[other[i]]
        wanted += weight[i] * each.T @ w @ each
        moved[code[i], group[i]] += weight[i] * each.T @ w
    for g in range(2):
        wanted += variance[g] * sum(h @ h.T for h in moved[:, g])
    if known is not None:
        wanted += sums.known
    np.testing.assert_allclose(score_variance(problem, root), wanted, rtol=1e-9, atol=1e-9)
