"""The laid-out design against plain numpy."""

import numpy as np
import pytest

from unbin._blocks import spans_of
from unbin.rows.design import lay_out


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


def test_gram_and_block_means(rows):
    X, codes, _ = rows
    design = lay_out(X, codes, 7)
    theta = np.linspace(-0.5, 0.5, 5)
    full = np.column_stack([np.ones(500), design.rows.matrix])
    weight = np.exp(full @ theta)
    expected = full.T @ (weight[:, None] * full)
    np.testing.assert_allclose(design.gram(theta, np.exp), expected, atol=1e-9)
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = [standard[codes == b].mean(axis=0) for b in range(7)]
    np.testing.assert_allclose(design.block_means[:, :-1], expected, atol=1e-9)


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
