"""The law of a row, and its sums over blocks, against one row at a time."""

import numpy as np
import pytest

from unbin.categories import softmax
from unbin.categories.problem import between_contrasts, contrasts
from unbin.categories.softmax import (
    Groups,
    Softmax,
    category_sums,
    covariances,
    pairs,
    probabilities,
    squares,
)
from unbin.rows.design import lay_out

K = 4


def rows_and_law(*, grouped=True, weights=None, fit_intercept=True, n=60, seed=0):
    """Return rows of 5 blocks and a law with shifts, one of them minus infinity."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 2, n), rng.integers(0, 2, n)])
    X[:, 2] *= 1 - X[:, 1]  # levels of one feature
    X = X.astype(float)
    code = rng.permutation(np.arange(n) % 5)
    design = lay_out(X, code, 5, weights=weights, fit_intercept=fit_intercept)
    groups = Groups()
    if grouped:
        groups = Groups((np.array([1, 2]),), (0.5 - design.center) / design.scale)
    theta = rng.normal(size=(K, design.n_parameters))
    shift = rng.normal(size=(5, groups.n, K))
    shift[1, 0, 2] = -np.inf
    return design, Softmax(theta, shift, groups), code


def brute(rows, law):
    """Sum one row at a time, with dense matrices."""
    size, g, p = len(rows.blocks), law.groups.n, law.theta.shape[1]
    mean = np.zeros((size, g, K))
    cross = np.zeros((size, K, K, p))
    spread, square = np.zeros((size, g, K, K)), np.zeros((size, g, K, K))
    for b in range(size):
        for i in range(rows.start[b], rows.start[b + 1]):
            x = rows.matrix[i]
            group = 0
            if law.groups.columns:
                marks = [j for j in law.groups.columns[0] if x[j] > law.groups.cut[j]]
                group = 1 + list(law.groups.columns[0]).index(marks[0]) if marks else 0
            x = np.concatenate([[1.0], x]) if rows.fit_intercept else x
            eta = law.theta @ x + law.shift[b, group]
            q = np.exp(eta - eta.max())
            q /= q.sum()
            weight = 1.0 if rows.weights is None else rows.weights[i]
            w = np.diag(q) - np.outer(q, q)
            mean[b, group] += weight * q
            cross[b] += weight * w[:, :, None] * x
            spread[b, group] += weight * w
            square[b, group] += weight * w @ w
    return mean, cross, spread, square


def unfold(values, n_categories, axis):
    """Return symmetric matrices of their upper triangles: one axis becomes two."""
    place = np.zeros((n_categories, n_categories), np.int64)
    rows, columns = pairs(n_categories)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    return np.take(values, place, axis=axis)


def dense(sums):
    mean, cross, spread, square = sums
    return mean, unfold(cross, K, 1), unfold(spread, K, 2), unfold(square, K, 2)


@pytest.mark.parametrize("large", [1 << 18, 0], ids=["numpy", "compiled"])
@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_sums_are_those_of_one_row_at_a_time(monkeypatch, large, grouped, weighted, fit_intercept):
    monkeypatch.setattr(softmax, "LARGE", large)
    weights = np.random.default_rng(1).uniform(0.5, 3, 60) if weighted else None
    design, law, _ = rows_and_law(grouped=grouped, weights=weights, fit_intercept=fit_intercept)
    found, wanted = dense(category_sums(design.rows, law)), brute(design.rows, law)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    assert found[0][1, 0, 2] == 0  # nobody can be there


def test_many_rows_of_a_block_are_summed_in_tiles(monkeypatch):
    design, law, _ = rows_and_law(n=3000)
    few = category_sums(design.rows, law)
    monkeypatch.setattr(softmax, "LARGE", 0)
    many = category_sums(design.rows, law)
    monkeypatch.setattr(softmax, "LARGE", 1 << 30)
    monkeypatch.setattr(softmax, "_TILE_CELLS", 400)
    tiled = category_sums(design.rows, law)
    for a, b, c in zip(few, many, tiled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(a, c, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("large", [1 << 18, 0], ids=["numpy", "compiled"])
def test_a_weight_is_a_row_repeated(monkeypatch, large):
    monkeypatch.setattr(softmax, "LARGE", large)
    rng = np.random.default_rng(3)
    X, code, weight = rng.normal(size=(30, 2)), np.arange(30) % 3, rng.integers(1, 5, 30)
    theta, shift = rng.normal(size=(K, 3)), rng.normal(size=(3, 1, K))
    law = Softmax(theta, shift, Groups())
    weighted = lay_out(X, code, 3, weights=weight.astype(float))
    written = lay_out(np.repeat(X, weight, axis=0), np.repeat(code, weight), 3)
    for a, b in zip(
        category_sums(weighted.rows, law), category_sums(written.rows, law), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


def test_groups_are_cells_of_all_levels():
    groups = Groups((np.array([0, 1]), np.array([2])), np.full(3, 0.5))
    X = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1]], dtype=float)
    assert groups.n == 6
    np.testing.assert_array_equal(groups.codes(X), [0, 2, 4, 5, 1])
    np.testing.assert_array_equal(groups.levels()[groups.codes(X)], [[0, 0], [1, 0], [2, 0],
                                                                     [2, 1], [0, 1]])  # fmt: skip
    assert Groups().n == 1


def test_small_matrices():
    rng = np.random.default_rng(0)
    eta = rng.normal(size=(20, K)) * 300
    eta[:, 1] = -np.inf
    q = probabilities(eta)
    np.testing.assert_allclose(q.sum(axis=1), 1, rtol=1e-12)
    assert (q[:, 1] == 0).all()
    q = probabilities(rng.normal(size=(20, K)))
    w = np.array([np.diag(each) - np.outer(each, each) for each in q])
    np.testing.assert_allclose(unfold(covariances(q), K, 1), w, atol=1e-15)
    np.testing.assert_allclose(unfold(squares(q), K, 1), w @ w, atol=1e-15)
    assert len(pairs(K)[0]) == K * (K + 1) // 2


def test_triangles_between_contrasts():
    rng, basis = np.random.default_rng(0), contrasts(K)
    np.testing.assert_allclose(basis.T @ basis, np.eye(K - 1), atol=1e-15)
    np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-15)
    by_group = rng.normal(size=(5, 2, K * (K + 1) // 2))
    np.testing.assert_allclose(
        between_contrasts(by_group, K, 2), basis.T @ unfold(by_group, K, 2) @ basis, atol=1e-13
    )
    cross = rng.normal(size=(5, K * (K + 1) // 2, 3))
    wanted = np.einsum("ka,bklj,lc->bacj", basis, unfold(cross, K, 1), basis)
    np.testing.assert_allclose(between_contrasts(cross, K, 1), wanted, atol=1e-13)
