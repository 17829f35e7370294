import numpy as np
import pytest
from numba import njit

from unbin.rows.interpolated import Points, Sums, table_sums
from unbin.rows.lanes import add_eight, combine_eight
from unbin.rows.rows import aligned_copy, flat_columns


@njit
def _add(out, at, values, first, factor):
    add_eight(out, at, values, first, factor)


@njit
def _combine(out, at, values, first, step, factors, i):
    combine_eight(out, at, values, first, step, factors, i)


def test_eight_numbers_are_added_as_if_one_by_one():
    rng = np.random.default_rng(0)
    out, values = rng.normal(size=(3, 20)), rng.normal(size=(4, 16))
    expected = out.copy()
    expected.ravel()[25:33] += 0.7 * values.ravel()[18:26]
    _add(out, 25, values, 18, 0.7)
    np.testing.assert_allclose(out, expected, rtol=1e-15)


def test_eight_rows_are_combined_as_if_one_by_one():
    rng = np.random.default_rng(0)
    out, values, factors = rng.normal(size=40), rng.normal(size=200), rng.normal(size=(5, 8))
    expected = out.copy()
    for r in range(8):
        expected[3:11] += factors[2, r] * values[7 + 9 * r : 15 + 9 * r]
    _combine(out, 3, values, 7, 9, factors, 16)
    np.testing.assert_allclose(out, expected, rtol=1e-13)


STEP = 0.02
SIZES = [1, 3, 255, 256, 257, 700, 2, 1, 4, 250, 5, 1000, 8]


def functions(eta):
    """Two statistics that add up to 1, with their derivatives in eta and in one nuisance."""
    q = 1 / (1 + np.exp(-eta))
    d = q * (1 - q)
    return np.array([q, 1 - q, d, -d, np.sin(eta), np.cos(eta)])


def points_of(low, high, moves=None, shares=None):
    first = np.floor(low / STEP) - 4
    eta = STEP * np.arange(first, np.ceil(high / STEP) + 30)
    turned = np.zeros((len(eta), 8))
    turned[:, :6] = functions(eta).T
    none = np.zeros((1, 1)), np.ones(1)
    moves, shares = none if moves is None else (moves / STEP, shares)
    values = np.ascontiguousarray(turned.T)
    return Points(values, turned, float(first), 1 / STEP, moves, shares)


def zeros(b, d):
    shapes = [(b, 2), (b, 2, 2 + d), (b, 2, 2), (b, 2, d), (b, 2, d)]
    return Sums(*map(np.zeros, shapes))


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("d", [1, 5, 17])
def test_sums_are_those_over_rows(d, moved, weighed):
    rng = np.random.default_rng(d)
    start = np.concatenate([[0], np.cumsum(SIZES)])
    n, b = start[-1], len(SIZES)
    X, offset = aligned_copy(rng.normal(size=(n, d))), rng.normal(size=n)
    weights = rng.uniform(0.5, 3.0, n) if weighed else np.empty(0)
    theta = np.concatenate([[0.3], rng.normal(size=d) / np.sqrt(d)])
    eta = theta[0] + X @ theta[1:] + offset
    moves, shares = rng.normal(size=(b, 3)) * 0.3, np.array([0.2, 0.5, 0.3])
    code = np.repeat(np.arange(b), SIZES)
    if moved:
        points = points_of(eta.min() - 2, eta.max() + 2, moves, shares)
        f = sum(s * functions(eta + moves[code, k]) for k, s in enumerate(shares))
    else:
        points, f = points_of(eta.min(), eta.max()), functions(eta)
    sums = zeros(b, d)
    table_sums(*flat_columns(X), offset, weights, start, theta, points, 2, True, sums)
    w = weights if weighed else np.ones(n)
    for j in range(b):
        here = code == j
        v, x = w[here], np.column_stack([np.ones(here.sum()), X[here]])
        q, by_eta, by_nuisance = f[:2, here], f[2:4, here], f[4:, here]
        expected = (
            q @ v,
            np.column_stack([(by_eta * v) @ x, by_nuisance @ v]),
            -(q * v) @ q.T,
            (by_eta * v) @ x[:, 1:] ** 2,
            (by_nuisance * v) @ x[:, 1:],
        )
        for found, wanted in zip(sums, expected, strict=True):
            np.testing.assert_allclose(found[j], wanted, rtol=1e-10, atol=1e-10)


def test_sums_do_not_depend_on_how_blocks_are_put_into_parts():
    rng = np.random.default_rng(0)
    start = np.concatenate([[0], np.cumsum(SIZES)])
    X, offset = aligned_copy(rng.normal(size=(start[-1], 4))), np.zeros(start[-1])
    theta = np.array([0.1, 0.5, -0.3, 0.2, 0.4])
    points, none = points_of(-8.0, 8.0), np.empty(0)
    whole = zeros(len(SIZES), 4)
    table_sums(*flat_columns(X), offset, none, start, theta, points, 2, True, whole)
    for cut in (1, 4, 9):
        for low, high in ((0, cut), (cut, len(SIZES))):
            rows = slice(start[low], start[high])
            part = zeros(high - low, 4)
            own = start[low : high + 1] - start[low]
            table_sums(
                *flat_columns(X[rows]), offset[rows], none, own, theta, points, 2, True, part
            )
            for found, expected in zip(part, whole, strict=True):
                np.testing.assert_array_equal(found, expected[low:high])


@pytest.mark.parametrize("size", [64, 65, 130])
def test_covariances_of_many_bins(size):
    rng = np.random.default_rng(0)
    start = np.array([0, 700, 710])
    X, theta = aligned_copy(rng.normal(size=(710, 1))), np.array([0.1, 0.5])
    eta, inner = theta[0] + X[:, 0] * theta[1], np.linspace(-2, 2, size - 1)[:, None]

    def probabilities(eta):
        below = np.vstack([0 * eta, 1 / (1 + np.exp(eta - inner)), 0 * eta + 1])
        return np.diff(below, axis=0)

    points = points_of(eta.min(), eta.max())
    at = STEP * (points.first + np.arange(points.values.shape[1]))
    turned = np.zeros((len(at), 2 * -(-2 * size // 16) * 8))
    turned[:, :size] = probabilities(at).T
    points = points._replace(values=np.ascontiguousarray(turned.T), turned=turned)
    shapes = [(2, size), (2, size, 2), (2, size, size), (0, size, 1), (0, size, 1)]
    sums, none = Sums(*map(np.zeros, shapes)), np.empty(0)
    table_sums(*flat_columns(X), none, none, start, theta, points, size, True, sums)
    for b, here in enumerate((slice(0, 700), slice(700, 710))):
        q = probabilities(eta[here])
        np.testing.assert_allclose(sums.mean[b], q.sum(axis=1), rtol=1e-10)
        np.testing.assert_allclose(sums.cross[b], -q @ q.T, rtol=1e-9, atol=1e-12)
