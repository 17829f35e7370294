"""Contextual effects: columns, predictions, and the test of ecological bias."""

import numpy as np
import pytest

import unbin
from unbin.exceptions import AlignmentError, ParameterError
from unbin.rows.contextual import block_context


def people(effect, seed=0, n_blocks=200, size=30):
    """Features whose mean and spread differ by block; ``effect`` of the block means."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_blocks), size)
    share = rng.uniform(0.1, 0.9, n_blocks)
    spread = rng.uniform(0.3, 1.7, n_blocks)
    X = np.column_stack(
        [rng.random(len(codes)) < share[codes], spread[codes] * rng.exponential(size=len(codes))]
    )
    blocks = np.array([f"{c:03d}" for c in range(n_blocks)])[codes]
    means = np.column_stack([np.bincount(codes, x) / size for x in X.T])[codes]
    y = X @ [1.0, 0.5] + effect * means @ [1.0, 0.5] + rng.normal(size=len(codes))
    return X, y, blocks, means


def test_context_is_the_block_mean():
    X, y, blocks, means = people(0.0, n_blocks=5)
    X = np.column_stack([X, means[:, 0]])  # a feature of the block itself
    target = unbin.aggregate(y, blocks, 4).align(blocks)
    context = block_context(X, target.release.blocks, target.codes)
    np.testing.assert_allclose(context.means[target.codes][:, :2], means)
    np.testing.assert_array_equal(context.used, [True, True, False])
    np.testing.assert_allclose(context.rows(len(X), blocks)[:, :2], means)
    new = context.rows(3, ["000", "new", "other"], {"new": [1.0, 2.0, 3.0]})
    np.testing.assert_allclose(new[0], context.means[0])
    np.testing.assert_allclose(new[1], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(new[2], X.mean(axis=0))
    with pytest.raises(AlignmentError, match="one per feature"):
        context.rows(1, ["new"], {"new": [1.0]})
    with pytest.raises(AlignmentError, match="2 ids for 3 rows"):
        context.rows(3, ["000", "001"])


def test_contextual_effects_mend_ecological_bias_and_the_test_sees_it():
    X, y, blocks, _ = people(1.0)
    target = unbin.aggregate(y, blocks, 8).align(blocks)
    naive = unbin.AggregatedGLM().fit(X, target)
    model = unbin.AggregatedGLM(contextual=True).fit(X, target)
    estimate = naive.conf_int().mean(axis=1)
    assert (estimate - [1.0, 0.5] > 2 * naive.standard_errors_).all()
    assert not naive.diagnostics_.trusted
    assert naive.diagnostics_.context.p_value < 0.01
    np.testing.assert_allclose(model.coef_, [1.0, 0.5], atol=0.35)
    np.testing.assert_allclose(model.contextual_coef_, [1.0, 0.5], atol=0.4)
    assert model.diagnostics_.context.p_value < 0.01
    assert "block means of the features have effects of their own" in str(model.diagnostics_)
    assert "block mean of x0" in str(model.summary())
    auto = unbin.AggregatedGLM(contextual="auto").fit(X, target)
    assert auto.contextual_coef_ is not None
    assert set(auto.selection_.contextual) == {True, False}


def test_without_contextual_effects_auto_leaves_them_out():
    X, y, blocks, _ = people(0.0, seed=1)
    target = unbin.aggregate(y, blocks, 8).align(blocks)
    model = unbin.AggregatedGLM(contextual=True).fit(X, target)
    assert model.diagnostics_.context.p_value > 0.01
    auto = unbin.AggregatedGLM(contextual="auto").fit(X, target)
    assert auto.contextual_coef_ is None


def test_predictions_use_the_context_of_the_block():
    X, y, blocks, means = people(1.0)
    target = unbin.aggregate(y, blocks, 8).align(blocks)
    model = unbin.AggregatedGLM(contextual=True).fit(X, target)
    expected = model.intercept_ + X @ model.coef_ + means @ model.contextual_coef_
    np.testing.assert_allclose(model.predict(X, blocks=blocks), expected)
    average = model.intercept_ + X @ model.coef_ + X.mean(axis=0) @ model.contextual_coef_
    np.testing.assert_allclose(model.predict(X), average)
    new = model.predict(X[:1], blocks=["new"], block_means={"new": means[0]})
    np.testing.assert_allclose(new, expected[:1])
    assert model.score(X, target) == pytest.approx(-model.objective_, rel=1e-2)


def test_contextual_needs_the_likelihood():
    X, y, blocks, _ = people(0.0, n_blocks=10)
    target = unbin.aggregate(y, blocks, 4).align(blocks)
    with pytest.raises(ParameterError, match="needs method='likelihood'"):
        unbin.AggregatedGLM(method="matching", contextual=True).fit(X, target)
