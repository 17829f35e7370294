"""Lemma 3 of the paper against brute force, and what every imputation must satisfy."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from unbin.families import Binomial, Gaussian, Poisson
from unbin.matching.bounds import RankBounds
from unbin.matching.impute import impute
from unbin.matching.select import assign_runs

FAMILIES = {
    "gaussian": (Gaussian(), (-3.0, 3.0)),
    "poisson": (Poisson(), (0.0, 6.0)),
    "binomial": (Binomial(5), (0.0, 5.0)),
}


def random_bounds(rng, n, low, high):
    """Random non-decreasing bounds per rank, run-length encoded; some ranks are points."""
    n_runs = int(rng.integers(1, n + 1))
    cut = np.sort(rng.choice(np.arange(1, n), n_runs - 1, replace=False)) if n > 1 else []
    cut = np.concatenate([cut, [n]]).astype(np.int64)
    ends = np.sort(rng.uniform(low, high, 2 * n_runs))
    lower, upper = ends[0::2].copy(), ends[1::2].copy()
    if rng.random() < 0.5:  # bins that share edges
        upper[:-1] = lower[1:]
    point = rng.random(n_runs) < 0.3
    upper[point] = lower[point]
    upper = np.maximum.accumulate(upper)
    return RankBounds(np.array([0, n]), np.array([0, n_runs]), cut, lower, upper)


def per_rank(bounds):
    size = bounds.people()
    return np.repeat(bounds.lower, size), np.repeat(bounds.upper, size)


def brute_force(family, mean, lower, upper):
    """The least divergence over all assignments of ranks to people, each solved numerically."""
    best = np.inf
    clipped = {}
    for i, m in enumerate(mean):
        for j in range(len(mean)):
            lo, hi = lower[j], upper[j]

            def loss(z, m=m):
                return float(family.divergence(np.array([z]), np.array([m]))[0])

            candidates = [loss(lo), loss(hi)]
            if lo < hi:
                candidates.append(
                    minimize_scalar(
                        loss, bounds=(lo, hi), method="bounded", options={"xatol": 1e-10}
                    ).fun
                )
            clipped[i, j] = min(candidates)
    for order in itertools.permutations(range(len(mean))):
        best = min(best, sum(clipped[i, j] for i, j in enumerate(order)))
    return best


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("seed", range(12))
def test_lemma_equals_brute_force_over_all_permutations(name, seed):
    family, (low, high) = FAMILIES[name]
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7)) if seed else 6
    mean = rng.uniform(low + 0.05, high - 0.05, n)
    if rng.random() < 0.3:
        mean[: n // 2] = mean[0]  # ties
    bounds = random_bounds(rng, n, low, high)
    z = impute(mean, bounds)
    lower, upper = per_rank(bounds)
    assert family.divergence(z, mean).sum() == pytest.approx(
        brute_force(family, mean, lower, upper), abs=1e-8
    )


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 300), n_blocks=st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_imputed_targets_satisfy_every_bound(seed, n, n_blocks):
    rng = np.random.default_rng(seed)
    parts = [random_bounds(rng, n + b, -3.0, 3.0) for b in range(n_blocks)]
    bounds = join(parts)
    mean = rng.normal(size=bounds.start[-1])
    z = impute(mean, bounds)
    for b, part in enumerate(parts):
        rows = slice(bounds.start[b], bounds.start[b + 1])
        lower, upper = per_rank(part)
        ordered = np.sort(z[rows])
        assert (ordered >= lower).all()
        assert (ordered <= upper).all()
        order = np.argsort(mean[rows], kind="stable")
        assert (np.diff(z[rows][order]) >= 0).all()


def join(parts):
    def stack(ends):
        return np.concatenate([[0], np.cumsum(ends)])

    return RankBounds(
        stack([p.start[-1] for p in parts]),
        stack([len(p.cut) for p in parts]),
        np.concatenate([p.cut for p in parts]),
        np.concatenate([p.lower for p in parts]),
        np.concatenate([p.upper for p in parts]),
    )


@given(seed=st.integers(0, 2**32 - 1), levels=st.integers(1, 8), n=st.integers(2, 200))
@settings(max_examples=100, deadline=None)
def test_ties_change_neither_the_objective_nor_the_published_values(seed, levels, n):
    rng = np.random.default_rng(seed)
    bounds = random_bounds(rng, n, -3.0, 3.0)
    mean = rng.integers(0, levels, n) / levels
    first = impute(mean, bounds, key=rng.permutation(n).astype(np.uint64))
    again = impute(mean, bounds, key=rng.permutation(n).astype(np.uint64))
    np.testing.assert_allclose(np.sort(first), np.sort(again))
    assert Gaussian().divergence(first, mean).sum() == pytest.approx(
        Gaussian().divergence(again, mean).sum()
    )


def test_ties_follow_the_key_not_the_place():
    n = 200
    rng = np.random.default_rng(0)
    bounds = RankBounds(
        np.array([0, n]),
        np.array([0, 2]),
        np.array([80, n]),
        np.array([0.0, 1]),
        np.array([0.0, 1]),
    )
    key = rng.permutation(n).astype(np.uint64)
    z = impute(np.zeros(n), bounds, key=key)
    np.testing.assert_array_equal(z, key >= 80)
    shuffle = rng.permutation(n)
    np.testing.assert_array_equal(impute(np.zeros(n), bounds, key=key[shuffle]), z[shuffle])


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_refining_bins_never_lowers_the_objective(seed):
    rng = np.random.default_rng(seed)
    n = 120
    y, mean = rng.normal(size=n), rng.normal(size=n)
    edges = np.sort(rng.normal(size=9))

    def objective(inner):
        full = np.concatenate([[-np.inf], inner, [np.inf]])
        count = np.histogram(y, full)[0]
        keep = count > 0
        bounds = RankBounds(
            np.array([0, n]),
            np.array([0, keep.sum()]),
            np.cumsum(count)[keep],
            full[:-1][keep],
            full[1:][keep],
        )
        return Gaussian().divergence(impute(mean, bounds), mean).sum()

    assert objective(edges[::4]) <= objective(edges[::2]) + 1e-12
    assert objective(edges[::2]) <= objective(edges) + 1e-12


@pytest.mark.parametrize("n", [1, 2, 39, 40, 41, 500, 5000])
@pytest.mark.parametrize("n_runs", [1, 2, 7, 60, 10**9])
@pytest.mark.parametrize("law", ["normal", "few levels", "heavy tails", "constant", "exponential"])
def test_selected_runs_equal_a_full_sort(n, n_runs, law):
    rng = np.random.default_rng(n)
    values = {
        "normal": rng.normal(size=n),
        "few levels": rng.integers(0, 5, n).astype(float),
        "heavy tails": rng.standard_cauchy(n),
        "constant": np.zeros(n),
        "exponential": 2.0 ** rng.integers(-500, 500, n),
    }[law]
    cut = np.sort(rng.choice(np.arange(1, n + 1), min(n_runs, n), replace=False))
    cut[-1] = n
    key = rng.permutation(n).astype(np.uint64)
    run = np.empty(n, np.int32)
    assign_runs(values, key, np.array([0, n]), np.array([0, len(cut)]), cut, run)
    expected = np.empty(n, np.int32)
    expected[np.lexsort((key, values))] = np.searchsorted(cut, np.arange(n), side="right")
    np.testing.assert_array_equal(run, expected)


def test_runs_of_small_blocks_equal_a_full_sort():
    """Blocks of 1 to 45 people, runs without people, ties within some blocks."""
    rng = np.random.default_rng(0)
    size = np.arange(1, 46)
    start = np.concatenate([[0], np.cumsum(size)])
    run_start = np.arange(46) * 6
    cut = np.concatenate([np.append(np.sort(rng.integers(0, n + 1, 5)), n) for n in size])
    values = rng.normal(size=start[-1])
    tied = np.repeat(size % 4 == 0, size)
    values[tied] = np.round(values[tied])
    key = rng.permutation(start[-1]).astype(np.uint64)
    run = np.empty(start[-1], np.int32)
    assign_runs(values, key, start, run_start, cut, run)
    for b in range(45):
        rows = slice(start[b], start[b + 1])
        rank = np.empty(size[b], int)
        rank[np.lexsort((key[rows], values[rows]))] = np.arange(size[b])
        own = cut[run_start[b] : run_start[b + 1]]
        expected = run_start[b] + np.searchsorted(own, rank, side="right")
        np.testing.assert_array_equal(run[rows], expected)
