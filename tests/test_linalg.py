"""Symmetric matrices that may be singular, the fast way and the long way."""

import numpy as np
import pytest

from unbin import _linalg
from unbin._linalg import (
    bounded_whitening,
    brought,
    inverse_form,
    largest,
    like,
    long_product,
    solve_lower,
    solve_scaled,
    whitening,
)

SINGULAR = np.ones((4, 4)) + np.diag([1.0, 1.0, 0.0, 0.0])  # the last two are the same


def definite(p=5, seed=0):
    root = np.random.default_rng(seed).normal(size=(3 * p, p)) * np.geomspace(1, 1e3, p)
    return root.T @ root


@pytest.fixture(params=["Cholesky", "eigenvalues"])
def way(request, monkeypatch):
    monkeypatch.setattr(_linalg, "_MANY", 1 if request.param == "Cholesky" else 10**6)


@pytest.mark.usefixtures("way")
def test_definite_systems_are_solved():
    matrix, right = definite(), np.arange(5.0)
    np.testing.assert_allclose(solve_scaled(matrix, right), np.linalg.solve(matrix, right))
    both = np.column_stack([right, 1 - right])
    np.testing.assert_allclose(solve_scaled(matrix, both), np.linalg.solve(matrix, both))


@pytest.mark.usefixtures("way")
def test_a_parameter_without_information_stays_0():
    matrix = np.zeros((4, 4))
    matrix[:3, :3] = definite(3)
    found = solve_scaled(matrix, np.array([1.0, 2.0, 3.0, 5.0]))
    np.testing.assert_allclose(found[:3], np.linalg.solve(matrix[:3, :3], [1.0, 2.0, 3.0]))
    assert found[3] == 0


@pytest.mark.usefixtures("way")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e-280, 1e280])
def test_matrices_of_any_size_neither_overflow_nor_warn(size):
    matrix, right = np.diag([4.0, 2.0]) * size, np.array([1.0, 1.0]) * size
    found = solve_scaled(matrix, right)
    np.testing.assert_allclose(found, [0.25, 0.5] if size > 1e-290 else [0.0, 0.0])


@pytest.mark.usefixtures("way")
def test_a_singular_system_is_solved_where_it_can_be():
    right = SINGULAR @ np.array([1.0, -2.0, 0.5, 0.5])
    np.testing.assert_allclose(SINGULAR @ solve_scaled(SINGULAR, right), right, atol=1e-12)


@pytest.mark.usefixtures("way")
def test_whitening_makes_the_identity():
    matrix = definite()
    basis = whitening(matrix)
    np.testing.assert_allclose(basis.T @ matrix @ basis, np.eye(5), atol=1e-9)
    flat = whitening(SINGULAR)
    assert flat.shape == (4, 3)
    np.testing.assert_allclose(flat.T @ SINGULAR @ flat, np.eye(3), atol=1e-12)


def test_bounded_whitening_keeps_every_direction():
    basis = bounded_whitening(definite())
    np.testing.assert_allclose(basis.T @ definite() @ basis, np.eye(5), atol=1e-8)
    loose = bounded_whitening(np.diag([4.0, 0.0]))
    assert np.isfinite(loose).all()
    assert np.linalg.matrix_rank(loose) == 2


def test_the_inverse_form_is_that_of_the_pseudo_inverse():
    matrix, vector = definite(), np.arange(1.0, 6.0)
    value, rank = inverse_form(vector, matrix)
    assert (value, rank) == (pytest.approx(vector @ np.linalg.solve(matrix, vector)), 5)
    value, rank = inverse_form(np.array([0.0, 2.0, 0.0]), np.diag([0.0, 4.0, 0.0]))
    assert (value, rank) == (pytest.approx(1.0), 1)


@pytest.mark.parametrize("n", [0, 5, 512, 1300])
@pytest.mark.parametrize("columns", [3, 0])
def test_products_of_tensors_are_those_of_arrays(n, columns):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(n, columns)), rng.normal(size=(n, 4))
    found = long_product(torch.as_tensor(a), torch.as_tensor(b))
    np.testing.assert_allclose(brought(found), a.T @ b, atol=1e-12)
    np.testing.assert_array_equal(long_product(a, b), a.T @ b)


def test_arrays_that_are_read_only_become_tensors():
    torch = pytest.importorskip("torch")
    beside = torch.zeros(1, dtype=torch.float64)
    shared = np.broadcast_to(np.arange(3.0), (2, 3))
    assert like(beside, shared).tolist() == shared.tolist()
    assert like(np.zeros(1), shared) is shared


@pytest.mark.parametrize("size", [0, 1, 3, 9])
@pytest.mark.parametrize(
    "values", [[], [2.0], [1, 5, 5, 5, 2, 5], [3, np.nan, 7, 1, np.nan], [np.inf, 1, -np.inf, 2]]
)
def test_the_largest_are_those_of_a_stable_sort(values, size):
    values = np.array(values, dtype=float)
    assert largest(values, size).tolist() == np.argsort(-values, kind="stable")[:size].tolist()


@pytest.mark.parametrize("size", [1, 63, 64, 65, 200])
def test_triangular_systems(size):
    rng = np.random.default_rng(size)
    factor = np.tril(rng.normal(size=(3, size, size)) / size) + np.eye(size)
    right = rng.normal(size=(3, size, 4))
    kept = right.copy()
    np.testing.assert_allclose(factor @ solve_lower(factor, right), right, atol=1e-12)
    np.testing.assert_array_equal(right, kept)
