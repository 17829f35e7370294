"""Rows that stand for several people: ranked, clipped and fitted as if they were repeated."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import unbin
from tests.helpers.releases import quantile_release, suppressed
from unbin.datasets import simulate
from unbin.exceptions import ParameterError
from unbin.families import get_family
from unbin.matching.bounds import rank_bounds
from unbin.matching.nearest import nearest_targets
from unbin.matching.objective import Objective
from unbin.matching.repeated import check_repeatable, shared_targets
from unbin.rows.design import lay_out
from unbin.rows.parts import LocalParts

FAMILIES = ["gaussian", "poisson", "binomial"]
TABLES = ["histogram", "hidden", "quantiles", "list"]


def weighed_people(family, seed=0, n=400, n_blocks=12):
    """Return rows with weights, and the outcomes of the people they stand for."""
    rng = np.random.default_rng(seed)
    sim = simulate(n, 3, n_blocks, family=family, between=0.4, n_trials=10, random_state=seed)
    weights = rng.integers(1, 5, n)
    row = np.repeat(np.arange(n), weights)
    y = rng.permuted(sim.y[row].reshape(1, -1), axis=1).ravel()
    own = np.asarray(sim.y)[row]
    y = np.where(rng.random(len(row)) < 0.3, y, own)  # people of a row differ
    return sim.X, np.asarray(sim.blocks).astype(str), weights, row, y


def table_of(kind, y, blocks):
    if kind == "quantiles":
        return quantile_release(y, blocks, (0.25, 0.5, 0.75))
    if kind == "list":
        return unbin.Release.from_values({"block": blocks, "value": y})
    release = unbin.aggregate(y, blocks, 5)
    return suppressed(release) if kind == "hidden" else release


@given(st.integers(0, 10_000), st.sampled_from(FAMILIES), st.sampled_from(TABLES))
@settings(max_examples=60, deadline=None)
def test_targets_are_those_of_repeated_rows(seed, name, kind):
    rng = np.random.default_rng(seed)
    family = get_family(name, 6)
    n = int(rng.integers(2, 25))
    weights = rng.integers(1, 6, n)
    codes = np.sort(np.concatenate([[0, 1], rng.integers(0, 2, n - 2)]))
    start = np.searchsorted(codes, [0, 1, 2])
    row = np.repeat(np.arange(n), weights)
    y = rng.integers(0, 7, len(row)).astype(float)
    ids = np.array(["a", "b"])[codes[row]]
    target = table_of(kind, y, ids).align(ids)
    bounds = rank_bounds(target.release, family.domain)
    eta = rng.normal(size=n).round(1)  # ties
    mean, key = family.inverse_link(eta), rng.permutation(n).astype(np.uint64)
    found = shared_targets(mean, eta, bounds, family, key, start, weights.astype(float))
    z = nearest_targets(mean[row], eta[row], bounds, family, key[row])
    np.testing.assert_array_equal(found.by_row(np.ones(len(found.z)), n), weights)
    expected = np.bincount(row, z) / weights
    np.testing.assert_allclose(found.means(n), expected, rtol=1e-12, atol=1e-12)
    total = family.total_divergence(z, eta[row], mean[row])
    assert found.divergence(family, eta, mean) == pytest.approx(total, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", FAMILIES)
def test_blocks_in_several_parts_have_the_same_sums(name, kind):
    X, blocks, weights, row, y = weighed_people(name)
    family = get_family(name, 10)
    target = table_of(kind, y, blocks[row]).align(blocks, weights=weights)
    design = lay_out(X, target.codes, len(target.release), weights=weights.astype(float))
    bounds, rows = rank_bounds(target.release, family.domain), design.in_memory()
    halves = [rows_of(rows, np.arange(len(rows)) % 2 == k) for k in range(2)]
    apart = replace(design, parts=LocalParts(halves), whole=None, rows=None)
    theta = np.array([0.2, 0.5, -0.3, 0.1])
    for ours, theirs in zip(
        Objective(apart, family, np.zeros(4), bounds).sums(theta),
        Objective(design, family, np.zeros(4), bounds).sums(theta),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-9)


def rows_of(rows, mask):
    """Return some rows of every block."""
    at = np.flatnonzero(mask)
    codes = rows.codes(slice(0, len(rows)))[at]
    blocks, count = np.unique(codes, return_counts=True)
    return replace(
        rows,
        matrix=np.asfortranarray(rows.matrix[at]),
        offset=rows.offset[at],
        key=rows.key[at],
        blocks=blocks,
        start=np.concatenate([[0], np.cumsum(count)]),
        weights=rows.weights[at],
    )


@pytest.mark.parametrize("solver", ["lbfgs", "alternating"])
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_fit_is_that_to_repeated_rows(family, kind, solver):
    X, blocks, weights, row, y = weighed_people(family)
    release = table_of(kind, y, blocks[row])
    model = unbin.AggregatedGLM(
        family, method="matching", solver=solver, n_trials=10, alpha=0.01, random_state=0
    )
    target, people = release.align(blocks, weights=weights), release.align(blocks[row])
    ours, theirs = clone(model).fit(X, target), model.fit(X[row], people)
    # among many kinks L-BFGS magnifies rounding: the same rows in another order differ as much
    tol = 1e-5 if solver == "lbfgs" and kind in ("list", "quantiles") else 1e-10
    for name in ("coef_", "intercept_", "dispersion_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=tol, atol=tol)
    np.testing.assert_allclose(ours.objective_path_, theirs.objective_path_, rtol=tol)
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-10)
    assert ours.n_people_ == len(row)
    imputed = np.bincount(row, theirs.impute()) / weights
    np.testing.assert_allclose(ours.impute(), imputed, rtol=10 * tol, atol=tol)
    assert ours.score(X, target) == pytest.approx(ours.score(X[row], people), rel=1e-10)


@pytest.mark.parametrize("name", FAMILIES)
def test_targets_held_fixed_are_those_of_repeated_rows(name):
    """Value, gradient and null divergence, although a row has but the mean of its targets."""
    X, blocks, weights, row, y = weighed_people(name)
    family, theta = get_family(name, 10), np.array([0.2, 0.5, -0.3, 0.1])
    release = table_of("histogram", y, blocks[row]).align(blocks[row]).release
    codes = np.unique(blocks, return_inverse=True)[1]
    bounds, found = rank_bounds(release, family.domain), []
    for X_, codes_, people in ((X, codes, weights.astype(float)), (X[row], codes[row], None)):
        design = lay_out(X_, codes_, len(release), weights=people)
        whole = Objective(design, family, np.zeros(4), bounds)
        fixed = whole.held(theta, whole.evaluate(theta)[0])
        assert fixed.evaluate(theta)[0] == pytest.approx(whole.evaluate(theta)[0], rel=1e-12)
        value, gradient = fixed.evaluate(theta + 0.1)
        found.append([value, *gradient, fixed.null_divergence()])
    np.testing.assert_allclose(*found, rtol=1e-10, atol=1e-12)


def test_weights_of_one_change_nothing():
    X, blocks, _, _, _ = weighed_people("gaussian")
    y = X @ [1.0, -0.5, 0.2]
    release = unbin.aggregate(y, blocks, 5)
    model = unbin.AggregatedGLM(method="matching", random_state=0)
    plain = model.fit(X, release.align(blocks)).coef_
    ones = model.fit(X, release.align(blocks, weights=np.ones(len(X)))).coef_
    np.testing.assert_allclose(ones, plain, rtol=1e-10)


@pytest.mark.parametrize(
    ("weights", "weighting", "words"),
    [(0.5, "frequency", "a whole number of them, got 0.5"), (2.0, "survey", "got a sample")],
)
@pytest.mark.filterwarnings("ignore::unbin.exceptions.AlignmentWarning")
def test_people_who_cannot_be_ranked_are_refused(weights, weighting, words):
    X, blocks, *_ = weighed_people("gaussian")
    size = np.full(len(X), weights)
    y = X[:, 0]
    people = np.repeat(np.arange(len(X)), 2)
    release = unbin.aggregate(y[people], blocks[people], 4)
    if weighting == "frequency":
        release = unbin.aggregate(y[::2], blocks[::2], 4)
    target = release.align(blocks, weights=size, weighting=weighting, scale=True)
    with pytest.raises(ParameterError, match=words) as error:
        unbin.AggregatedGLM(method="matching").fit(X, target)
    assert "method='likelihood'" in str(error.value)
    everybody = unbin.aggregate(y, blocks, 4).align(blocks)
    fitted = unbin.AggregatedGLM(method="matching").fit(X, everybody)
    with pytest.raises(ParameterError, match=words):
        fitted.score(X, target)


def test_known_outcomes_are_refused():
    X, blocks, *_ = weighed_people("gaussian")
    y = X[:, 0]
    asked = np.where(np.arange(len(y)) < 7, y, np.nan)
    target = unbin.join(unbin.aggregate(y, blocks, 4).align(blocks), unbin.observed(asked))
    with pytest.raises(ParameterError, match="got one and 7 outcomes that are known"):
        unbin.AggregatedGLM(method="matching").fit(X, target)


def test_designs_of_one_person_a_row_are_repeatable():
    check_repeatable(lay_out(np.zeros((3, 1)), np.zeros(3, int), 1))
