from dataclasses import replace
from functools import partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers.cases import make_case
from unbin._linalg import solve_scaled
from unbin.families import get_family
from unbin.likelihood.data.hidden import as_noisy
from unbin.likelihood.data.problem import make_problem, ridge_penalty
from unbin.likelihood.model import weighing
from unbin.likelihood.model.law import EFFECT_NODES, effect_points
from unbin.likelihood.model.moments import accumulate, groups_of, map_cells
from unbin.likelihood.model.score import _with_effects, part_sums, score_sums
from unbin.likelihood.model.weighing import score_blocks
from unbin.likelihood.solve.composite import composite_sums
from unbin.likelihood.solve.start import starting_point
from unbin.release import Release
from unbin.release.aggregation import aggregate
from unbin.rows.design import lay_out


def family_of(kind):
    return get_family(kind, n_trials=20)


KINDS = ["gaussian", "poisson", "binomial", "ordinal"]


def whole(problem, free):
    parts = list(map_cells(problem, free, lambda sums: groups_of(problem, free, sums)))
    return (
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.derivative for part in parts]),
        np.concatenate([part.covariance for part in parts]),
    )


def problem_of(kind, seed=0, **settings):
    case = make_case(seed, kind=kind, n_blocks=12, size=30, d=3, bins=5, **settings)
    problem = make_problem(case.design, [case.release], family_of(kind))
    rng = np.random.default_rng(seed)
    free = starting_point(problem)
    return problem, free + 0.1 * rng.normal(size=len(free))


@pytest.mark.parametrize("kind", KINDS)
def test_moments_equal_sums_over_people(kind):
    problem, free = problem_of(kind)
    mean, _, covariance = whole(problem, free)
    theta, nuisance = problem.coordinates.split(free)
    start = problem.design.start
    for b in range(len(start) - 1):
        eta = problem.design.rows.eta(theta, slice(start[b], start[b + 1]))
        q = problem.family.bins(
            eta, problem.first.counts.lower, problem.first.counts.upper, nuisance
        )
        q = q.probability
        np.testing.assert_allclose(mean[b], q.sum(axis=0), rtol=1e-12)
        expected = sum(np.diag(row) - np.outer(row, row) for row in q)
        np.testing.assert_allclose(covariance[b], expected, atol=1e-11)
    np.testing.assert_allclose(mean.sum(axis=1), problem.first.counts.n, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_are_numeric_derivatives(kind):
    problem, free = problem_of(kind)
    _, derivative, _ = whole(problem, free)
    for j in range(len(free)):
        step = np.zeros(len(free))
        step[j] = 1e-5
        numeric = (whole(problem, free + step)[0] - whole(problem, free - step)[0]) / 2e-5
        np.testing.assert_allclose(derivative[:, :, j], numeric, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_composite_gradient_is_numeric_gradient(kind):
    problem, free = problem_of(kind)
    penalty = ridge_penalty(problem, 0.1)
    gradient = composite_sums(problem, free, penalty).gradient
    for j in range(len(free)):
        step = np.zeros(len(free))
        step[j] = 1e-5
        up, down = (composite_sums(problem, free + s * step, penalty).objective for s in (1, -1))
        assert gradient[j] == pytest.approx((up - down) / 2e-5, abs=2e-4)


def test_expectation_and_covariance_equal_enumeration():
    rng = np.random.default_rng(3)
    codes = np.repeat(["a", "b"], [4, 5])
    X = rng.normal(size=(9, 1))
    release = aggregate(rng.poisson(1.0, 9), codes, bins=[-0.5, 0.5, 1.5, np.inf])
    case_design = make_design(X, release, codes)
    problem = make_problem(case_design, [release.align(codes).release], family_of("poisson"))
    free = np.array([0.2, 0.5])
    mean, _, covariance = whole(problem, free)
    for b, rows in enumerate((slice(0, 4), slice(4, 9))):
        eta = problem.design.rows.eta(free, rows)
        edges = problem.first.counts.lower, problem.first.counts.upper
        q = problem.family.bins(eta, *edges, np.zeros(0)).probability
        n_bins = q.shape[1]
        total, square = np.zeros(n_bins), np.zeros((n_bins, n_bins))
        for bins in product(range(n_bins), repeat=len(eta)):
            chance = np.prod(q[np.arange(len(eta)), bins])
            count = np.bincount(bins, minlength=n_bins)
            total += chance * count
            square += chance * np.outer(count, count)
        np.testing.assert_allclose(mean[b], total, rtol=1e-10)
        np.testing.assert_allclose(covariance[b], square - np.outer(total, total), atol=1e-10)


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "binomial"])
def test_totals_are_averaged_over_the_effects_of_blocks(kind):
    """Bins and total of each person, at the points of a quadrature."""
    problem, free = problem_of(kind)
    family, sd = problem.family, 0.6
    means = np.zeros(len(problem.first.counts.n))
    problem = problem.with_tables([replace(problem.first, means=means)])
    problem, unit = replace(problem, block_variance=sd**2), problem.unit
    mean, derivative, covariance = whole(problem, free)
    theta, nuisance = problem.coordinates.split(free)
    rows = slice(0, problem.design.start[1])
    eta = problem.design.rows.eta(theta, rows)
    edges = problem.first.counts.lower, problem.first.counts.upper
    total, square = 0.0, 0.0
    for move, weight in zip(*effect_points(sd, EFFECT_NODES), strict=True):
        at = eta + move
        q = family.bins(at, *edges, nuisance).probability
        y = family.inverse_link(at)
        within = family.bin_means(at, *edges, nuisance)
        total = total + weight * np.column_stack([q, y / unit])
        product_of = np.zeros((len(eta), q.shape[1] + 1, q.shape[1] + 1))
        k = np.arange(q.shape[1])
        product_of[:, k, k] = q
        product_of[:, :-1, -1] = product_of[:, -1, :-1] = q * within / unit
        product_of[:, -1, -1] = (family.variance(at, nuisance) + y**2) / unit**2
        square = square + weight * product_of
    expected = (square - total[:, :, None] * total[:, None, :]).sum(axis=0)
    np.testing.assert_allclose(mean[0], total.sum(axis=0), rtol=1e-10)
    np.testing.assert_allclose(covariance[0], expected, atol=1e-8)
    step = np.zeros(len(free))
    step[1] = 1e-5
    numeric = (whole(problem, free + step)[0] - whole(problem, free - step)[0]) / 2e-5
    np.testing.assert_allclose(derivative[:, :, 1], numeric, atol=2e-6)


def make_design(X, release, codes):
    return lay_out(X, release.align(codes).codes, len(release))


def test_pieces_of_a_large_block_add_up():
    case = make_case(0, n_blocks=2, size=40_000, d=2, bins=4)
    problem = make_problem(case.design, [case.release], family_of("gaussian"))
    free = np.array([0.3, 1.0, -0.5, 0.0])
    mean, derivative, covariance = whole(problem, free)
    theta, nuisance = problem.coordinates.split(free)
    rows = slice(0, 40_000)
    edges = problem.first.counts.lower, problem.first.counts.upper
    model = problem.family.bins(problem.design.rows.eta(theta, rows), *edges, nuisance)
    np.testing.assert_allclose(mean[0], model.probability.sum(axis=0))
    np.testing.assert_allclose(
        derivative[0, :, 1:3], model.d_eta.T @ problem.design.rows.matrix[rows], atol=1e-8
    )
    cross = np.diag(mean[0]) - model.probability.T @ model.probability
    np.testing.assert_allclose(covariance[0], cross, atol=1e-7)


def test_different_bins_give_the_same_moments_as_shared_ones():
    case = make_case(1, n_blocks=6, size=40, d=2, bins=5)
    shared = make_problem(case.design, [case.release], family_of("gaussian"))
    table = case.release.to_columns()["histogram"]
    extra = {k: np.array(v) for k, v in table.items()}
    # split the middle bin of the last block in two: the grid is no longer common
    last = np.flatnonzero(extra["block"] == extra["block"][-1])[2]
    mid = 0.5 * (extra["lower"][last] + extra["upper"][last])
    half = extra["count"][last] // 2
    split = {
        "block": np.append(extra["block"], extra["block"][last]),
        "lower": np.append(extra["lower"], mid),
        "upper": np.append(extra["upper"], extra["upper"][last]),
        "count": np.append(extra["count"], extra["count"][last] - half),
    }
    split["upper"][last], split["count"][last] = mid, half
    release = Release.from_histogram(split)
    ragged = make_problem(case.design, [release], family_of("gaussian"))
    assert shared.first.counts.shared
    assert not ragged.first.counts.shared
    free = np.array([0.3, 1.0, -0.5, 0.1])
    penalty = np.zeros(4)
    a, b = score_sums(shared, free, penalty), score_sums(ragged, free, penalty)
    np.testing.assert_allclose(a.block_scores[:-1], b.block_scores[:-1], rtol=1e-8)
    np.testing.assert_allclose(a.block_misfit[:-1], b.block_misfit[:-1], rtol=1e-8)
    assert b.block_df[-1] == pytest.approx(a.block_df[-1] + 1, abs=1e-3)


def test_covariances_that_are_not_definite_have_a_least_pivot(monkeypatch):
    """LAPACK refuses them; bins that nobody can be in are such."""
    rng = np.random.default_rng(0)
    covariance = np.diag([1.0, 1.0, -2e-6, 1.0])[None]
    rest = rng.normal(size=(1, 4, 2)), rng.normal(size=(1, 4)), np.zeros((1, 4, 0))
    args = covariance, *rest, rng.normal(size=(1, 4)), np.ones((1, 4), bool)
    expected = score_blocks(*args)
    monkeypatch.setattr(weighing, "PANEL", 3)
    for found, wanted in zip(score_blocks(*args), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("many", [3, 64])
@pytest.mark.parametrize("hidden", [0, 2])
def test_scores_of_blocks_equal_solves_without_the_reference(hidden, many, monkeypatch):
    """By LAPACK where there are more statistics than ``many``."""
    monkeypatch.setattr(weighing, "PANEL", many)
    rng = np.random.default_rng(0)
    n_blocks, size, p = 7, 4, 3
    q = rng.dirichlet(np.ones(size), size=(n_blocks, 30))
    covariance = np.array([np.diag(x.sum(axis=0)) - x.T @ x for x in q])
    derivative, shift = rng.normal(size=(n_blocks, size, p)), rng.normal(size=(n_blocks, size))
    root, residual = rng.normal(size=(n_blocks, size, hidden)), rng.normal(size=(n_blocks, size))
    covariance[-1] += np.eye(size)  # noise: no statistic can be derived, none is left out
    reference, used = rng.integers(0, size, n_blocks), rng.random((n_blocks, size)) < 0.9
    reference[-1] = -1
    used &= np.arange(size) != reference[:, None]
    arrays = covariance, derivative, shift, root, residual, used
    information, scores, along, each = score_blocks(*arrays)
    expected_information = np.zeros((p, p))
    for b in range(n_blocks):
        keep = np.flatnonzero(used[b])
        inverse = np.linalg.inv(covariance[b][np.ix_(keep, keep)] + 1e-6 * np.eye(len(keep)))
        d, e, r, v = derivative[b, keep], shift[b, keep], residual[b, keep], root[b, keep]
        np.testing.assert_allclose(scores[b], d.T @ inverse @ r, rtol=1e-6)
        np.testing.assert_allclose(along[b], d.T @ inverse @ e, rtol=1e-6)
        misfit = r @ inverse @ r - ((v.T @ inverse @ r) ** 2).sum()
        df = len(keep) - np.trace(v.T @ inverse @ v)
        wanted = [misfit, df, e @ inverse @ r, e @ inverse @ e]
        np.testing.assert_allclose(each[:, b], wanted, rtol=1e-4, atol=1e-3)
        expected_information += d.T @ inverse @ d
    np.testing.assert_allclose(information, expected_information, rtol=1e-6)


@pytest.mark.parametrize("many", [3, 64])
@pytest.mark.parametrize("hidden", [0, 2])
@pytest.mark.parametrize("variance", [0.0, 0.3])
def test_hidden_numbers_take_information_beside_effects(hidden, variance, many, monkeypatch):
    """D'Σ⁻¹r and D'Σ⁻¹(Σ - V)Σ⁻¹D, Σ = S + τ²ee', where what is hidden stands as noise."""
    monkeypatch.setattr(weighing, "PANEL", many)
    rng = np.random.default_rng(0)
    n_blocks, size, p = 7, 4, 3
    q = rng.dirichlet(np.ones(size), size=(n_blocks, 30))
    own = np.array([np.diag(x.sum(axis=0)) - x.T @ x for x in q])
    derivative, shift = rng.normal(size=(n_blocks, size, p)), rng.normal(size=(n_blocks, size))
    residual, used = rng.normal(size=(n_blocks, size)), rng.random((n_blocks, size)) < 0.9
    used[np.arange(n_blocks), rng.integers(0, size, n_blocks)] = False
    total = own + variance * shift[:, :, None] * shift[:, None, :]
    axes = np.linalg.qr(rng.normal(size=(n_blocks, size, size)))[0][:, :, :hidden]
    root = np.linalg.cholesky(total + 1e-6 * np.eye(size)) @ (0.7 * axes)
    noisy, noise = as_noisy(total, used, residual, root)
    covariance = own + noise @ noise.swapaxes(1, 2)
    sums = score_blocks(covariance, derivative, shift, noise, noisy, used)
    effects = SimpleNamespace(block_variance=variance, effects=None)
    scores, information = _with_effects(effects, part_sums(sums, np.zeros(2)))
    expected = np.zeros((p, p))
    for b in range(n_blocks):
        keep = np.flatnonzero(used[b])
        inverse = np.linalg.inv(total[b][np.ix_(keep, keep)] + 1e-6 * np.eye(len(keep)))
        weight, v = inverse @ derivative[b, keep], root[b, keep]
        np.testing.assert_allclose(scores[b], weight.T @ residual[b, keep], rtol=1e-6)
        expected += derivative[b, keep].T @ weight - (weight.T @ v) @ (v.T @ weight)
    np.testing.assert_allclose(information, expected, rtol=1e-6)


def test_solving_ignores_columns_that_carry_nothing():
    matrix = np.diag([4.0, 1e-30, 2.0])
    np.testing.assert_allclose(solve_scaled(matrix, np.array([4.0, 1.0, 2.0])), [1.0, 0.0, 1.0])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize(("n_bins", "total", "d", "m"), [(5, 0, 4, 1), (2, 1, 11, 0), (7, 1, 1, 2)])
def test_sums_of_a_piece_equal_those_of_numpy(order, n_bins, total, d, m, weighed):
    """Blocks of 1 to 600 people; the tile begins within a block and ends within another."""
    rng = np.random.default_rng(0)
    start = np.concatenate([[0], np.cumsum([30, 1, 7, 8, 600, 255, 256, 257, 3, 50])])
    row, size = 20, n_bins + total
    n = start[-1] - 10 - row
    q, d_eta = np.asarray(rng.normal(size=(2, n, size)))
    q, d_eta = np.asarray(q, order=order), np.asarray(d_eta, order=order)
    d_nuisance, extra = rng.normal(size=(m, n, size)), rng.normal(size=(n, size))
    X = np.asfortranarray(rng.normal(size=(start[-1], d)))
    mean, slopes = np.zeros((10, size)), np.zeros((10, size, 1 + d + m))
    cross = np.zeros((10, size, size))
    people = rng.uniform(0.5, 3.0, n)
    accumulate(
        q, d_eta, d_nuisance, extra, X.T, people if weighed else np.empty(0), row, start, mean,
        slopes, cross, True, n_bins,
    )  # fmt: skip
    people = people[:, None] if weighed else np.ones((n, 1))
    block = np.searchsorted(start, np.arange(row, row + n), side="right") - 1
    for b in range(10):
        here = block == b
        x = np.column_stack([np.ones(here.sum()), X[row : row + n][here]])
        w, close = people[here], partial(np.testing.assert_allclose, atol=1e-11)
        close(mean[b], (w * q[here]).sum(axis=0))
        close(slopes[b, :, : 1 + d], d_eta[here].T @ (w * x))
        close(slopes[b, :, 1 + d :], (w * d_nuisance[:, here]).sum(axis=1).T)
        bins = q[here][:, :n_bins]
        close(cross[b, :n_bins, :n_bins], -bins.T @ (w * bins))
        if total:
            close(cross[b, n_bins], (w * extra[here]).sum(axis=0))
