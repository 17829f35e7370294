"""The laid-out design against plain numpy."""

import pickle

import numpy as np
import pytest

from unbin._blocks import spans_of
from unbin._checks import LARGEST
from unbin.rows.columns import column_sums
from unbin.rows.design import lay_out
from unbin.rows.layout import _by_block


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    n_blocks = 7
    codes = np.concatenate([np.arange(n_blocks), rng.integers(0, n_blocks, 493)])
    X = rng.normal(size=(500, 4)) * [1, 5, 0.1, 2] + [0, 2000, 0, -3]
    return X, rng.permutation(codes), rng.normal(size=500)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
def test_linear_predictor_and_gradient(rows, fit_intercept, order):
    X, codes, offset = rows
    design = lay_out(
        np.asarray(X, order=order), codes, 7, offset=offset, fit_intercept=fit_intercept
    )
    coef, intercept = np.array([0.5, -0.01, 3.0, 0.2]), 0.7 if fit_intercept else 0.0
    theta = design.from_coefficients(coef, intercept)
    expected = X @ coef + intercept + offset
    np.testing.assert_allclose(design.to_rows_of_x(design.eta(theta)), expected)
    back, b0 = design.to_coefficients(theta)
    np.testing.assert_allclose(back, coef)
    assert b0 == pytest.approx(intercept)
    residual = np.sin(np.arange(500.0))
    numeric = [
        residual @ (design.eta(theta + h) - design.eta(theta - h)) / 2 for h in np.eye(len(theta))
    ]
    np.testing.assert_allclose(design.rows.gradient(residual), numeric, atol=1e-9)


def test_blocks_are_contiguous_and_chunks_hold_whole_blocks(rows):
    X, codes, _ = rows
    design = lay_out(X, codes, 7)
    np.testing.assert_array_equal(np.sort(design.order), np.arange(500))
    for b in range(7):
        assert (codes[design.order[design.start[b] : design.start[b + 1]]] == b).all()
    spans = spans_of(design.start)
    assert [c.first for c in spans] + [7] == [0] + [c.last for c in spans]
    for span in spans:
        assert span.rows == slice(design.start[span.first], design.start[span.last])


@pytest.mark.parametrize("weight", [np.exp, np.sin])
def test_gram(rows, weight):
    X, codes, _ = rows
    design = lay_out(X, codes, 7)
    theta = np.linspace(-0.5, 0.5, 5)
    full = np.column_stack([np.ones(500), design.rows.matrix])
    expected = full.T @ (weight(full @ theta)[:, None] * full)
    np.testing.assert_allclose(design.gram(theta, weight), expected, atol=1e-9)


@pytest.mark.parametrize("weight", [np.exp, lambda eta: np.full(eta.shape, 0.3)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_gram_from_a_table_of_weights(rows, fit_intercept, weight, monkeypatch):
    X, codes, offset = rows
    given = {"offset": offset, "weights": np.arange(500) % 3 + 1.0, "fit_intercept": fit_intercept}
    design = lay_out(X, codes, 7, **given)
    theta = np.linspace(-0.5, 0.5, 4 + fit_intercept)
    expected = design.gram(theta, weight)
    monkeypatch.setattr("unbin.rows.design._ROWS_PER_POINT", 1)
    assert design._table_of(theta, weight) is not None
    assert design._table_of(theta, np.sin) is None
    assert design._table_of(theta + np.nan, np.exp) is None
    found = design.gram(theta, weight)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("large", [0, 1 << 62])
def test_block_means(rows, large, monkeypatch):
    """By NumPy, or compiled."""
    monkeypatch.setattr("unbin.rows.design.LARGE", large)
    X, codes, _ = rows
    design = lay_out(X, codes, 7)
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = [standard[codes == b].mean(axis=0) for b in range(7)]
    np.testing.assert_allclose(design.block_means[:, :-1], expected, atol=1e-9)
    offset, weights = X[:, 0] ** 2, np.arange(500) % 3 + 1.0
    weighed = lay_out(X, codes, 7, offset=offset, weights=weights)
    for b in range(7):
        here = codes == b
        mean = np.average(np.column_stack([X, offset])[here], axis=0, weights=weights[here])
        found = np.append(weighed.block_means[b, :-1] * weighed.scale + weighed.center, 0)
        found[-1] = weighed.block_means[b, -1]
        np.testing.assert_allclose(found, mean, atol=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_covariance_of_coefficients_is_that_of_least_squares(rows, fit_intercept):
    """With features far from 0 the intercept goes against their slopes."""
    X, codes, _ = rows
    design = lay_out(X, codes, 7, fit_intercept=fit_intercept)
    standard = np.linalg.inv(design.gram(np.zeros(design.n_parameters), np.ones_like))
    found = design.to_coefficient_covariance(standard, design.varies)
    plain = np.column_stack([np.ones(500), X]) if fit_intercept else X
    expected = np.linalg.inv(plain.T @ plain)
    shift = int(fit_intercept)
    np.testing.assert_allclose(found[1 - shift :, 1 - shift :], expected, rtol=1e-6, atol=1e-12)
    assert not fit_intercept or found[0, 2] < 0  # the second feature lies around 2000
    assert fit_intercept or not found[0].any()


def test_ridge_is_on_the_original_slopes(rows):
    X, codes, _ = rows
    design = lay_out(X, codes, 7)
    coef = np.array([1.0, 2.0, 3.0, 4.0])
    theta = design.from_coefficients(coef, 9.0)
    assert design.ridge(0.5) @ theta**2 == pytest.approx(0.5 * coef @ coef)


def test_keys_follow_the_rows(rows):
    X, codes, _ = rows
    rng = np.random.default_rng(1)
    shuffle = rng.permutation(500)
    first = lay_out(X, codes, 7)
    second = lay_out(X[shuffle], codes[shuffle], 7)
    np.testing.assert_array_equal(
        second.to_rows_of_x(second.rows.key), first.to_rows_of_x(first.rows.key)[shuffle]
    )
    assert len(np.unique(first.rows.key)) == 500
    other = lay_out(X, codes, 7, seed=1)
    assert (np.asarray(other.rows.key) != np.asarray(first.rows.key)).all()


def test_a_constant_column_gets_no_slope(rows):
    X, codes, _ = rows
    X = np.column_stack([X, np.full(500, 1e6)])
    design = lay_out(X, codes, 7)
    assert not design.rows.matrix[:, 4].any()
    assert design.scale[4] == 1.0


def test_many_small_and_one_large_block_are_cut_into_chunks():
    codes = np.concatenate([np.zeros(50_000, np.int64), np.repeat(np.arange(1, 3001), 20)])
    design = lay_out(np.zeros((len(codes), 1)), codes, 3001)
    sizes = [len(part) for part in design.whole.parts]
    assert sum(sizes) == len(codes)
    assert len(sizes) > 2


@pytest.mark.parametrize("sorted_already", [True, False])
@pytest.mark.parametrize("codes", [[3, 0, 3, 1, 0, 3], [2], [0, 0], [5, 5, 4, 0, 1, 0]])
def test_rows_of_a_block_keep_their_order(codes, sorted_already):
    codes = np.array(sorted(codes) if sorted_already else codes)
    blocks, start, order = _by_block(codes)
    np.testing.assert_array_equal(order, np.argsort(codes, kind="stable"))
    found, first = np.unique(np.sort(codes), return_index=True)
    np.testing.assert_array_equal(blocks, found)
    np.testing.assert_array_equal(start, [*first, len(codes)])


@pytest.mark.parametrize("n_blocks", [7, 3000])
@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_many_rows_are_sorted_by_threads(n_threads, n_blocks, monkeypatch):
    monkeypatch.setattr("unbin.rows.layout.LARGE", 0)
    codes = np.random.default_rng(0).integers(0, n_blocks, 10_001)
    codes[codes == 4] = 5
    blocks, start, order = _by_block(codes, n_threads)
    np.testing.assert_array_equal(order, np.argsort(codes, kind="stable"))
    found, first = np.unique(np.sort(codes), return_index=True)
    np.testing.assert_array_equal(blocks, found)
    np.testing.assert_array_equal(start, [*first, len(codes)])


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 2e50, -2e50])
def test_sums_of_columns_tell_numbers_that_cannot_be_computed_with(wrong, large, monkeypatch):
    monkeypatch.setattr("unbin.rows.columns.LARGE", 0 if large else 1 << 62)
    X = np.random.default_rng(0).normal(size=(5_000, 3))
    for row in (0, 4_999):  # among those that sums are made about, and not
        X[row, 1] = wrong
        assert not column_sums(X, weights=None, n_threads=1).within(LARGEST)
        X[row, 1] = 1e20
        assert column_sums(X, weights=None, n_threads=1).within(LARGEST)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("layout", ["C", "compiled", "F", "strided"])
def test_columns_are_standardised_to_the_last_digits(weighted, fit_intercept, layout, monkeypatch):
    """Also columns far from 0, and a first block that is unlike the others."""
    for module in ("layout", "columns"):
        monkeypatch.setattr(f"unbin.rows.{module}.LARGE", 0 if layout == "compiled" else 1 << 62)
    rng = np.random.default_rng(0)
    codes = np.sort(rng.integers(0, 50, 70_000))
    X = rng.normal(size=(70_000, 4)) * [1, 1e-3, 1e4, 1] + [0, 1e5, 1e9, 3]
    X[codes == 0] *= 7
    weights = rng.integers(1, 5, 70_000).astype(float) if weighted else None
    others = {"F": np.asfortranarray(X), "strided": np.repeat(X, 2, axis=1)[:, ::2]}
    given = others.get(layout, X)
    settings = {"fit_intercept": fit_intercept, "weights": weights}
    shuffle = rng.permutation(70_000)
    design = lay_out(given, codes, 50, **settings)
    exact = X.astype(np.longdouble)
    center = np.average(exact, axis=0, weights=weights) if fit_intercept else np.zeros(4)
    spread = np.sqrt(np.average((exact - center) ** 2, axis=0, weights=weights))
    same = {"rtol": 1e-14, "atol": 1e-15}
    np.testing.assert_allclose(design.center / spread, (center / spread).astype(float), **same)
    np.testing.assert_allclose(design.scale, spread.astype(float), rtol=1e-12)
    standard = ((exact - center) / spread).astype(float)
    np.testing.assert_allclose(design.rows.matrix, standard, rtol=1e-8, atol=1e-8)
    settings["weights"] = None if weights is None else weights[shuffle]
    other = lay_out(given[shuffle], codes[shuffle], 50, **settings)
    np.testing.assert_allclose(other.center / spread, design.center / spread, **same)
    np.testing.assert_allclose(other.scale, design.scale, rtol=1e-12)


def test_keys_are_made_as_they_are_asked_for(rows):
    X, codes, _ = rows
    laid_out = lay_out(X, codes, 7).rows
    part = laid_out.take(2, 4, slice(int(laid_out.start[2]), int(laid_out.start[4])))
    picked = laid_out.key[np.array([5, 3])]
    assert not len(laid_out.known_key())
    key = np.asarray(laid_out.key)
    np.testing.assert_array_equal(part.key, key[laid_out.start[2] : laid_out.start[4]])
    np.testing.assert_array_equal(picked, key[[5, 3]])
    np.testing.assert_array_equal(laid_out.known_key(), key)
    again = pickle.loads(pickle.dumps(part))
    np.testing.assert_array_equal(again.key, part.key)
    np.testing.assert_array_equal(again.matrix, part.matrix)
