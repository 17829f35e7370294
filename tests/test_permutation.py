"""The permutation tests: exactness against enumeration, size, power, and the paper's figure."""

from itertools import permutations

import numpy as np
import pytest

import unbin
import unbin.exceptions
from unbin.datasets import simulate
from unbin.exceptions import AlignmentError, ParameterError
from unbin.permutation import _deal, _with_tables


def _people(strength, seed, family="gaussian", n=600, n_blocks=30):
    return simulate(
        n, 2, n_blocks, family=family, between=0.3, coef=[strength, 0.0], random_state=seed
    )


def _target(sim, bins=5):
    return unbin.aggregate(sim.y, sim.blocks, bins).align(sim.blocks)


def test_the_error_has_the_law_of_all_permutations_within_blocks():
    """Two blocks of three have 36 permutations; their share of errors as small is the p value."""
    X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [6.0]])
    y = np.array([0.3, 0.9, 2.5, 2.0, 6.0, 4.4])
    blocks = np.repeat(["a", "b"], 3)
    target = unbin.aggregate(y, blocks, [-1, 1, 3, 7]).align(blocks)
    model = unbin.AggregatedGLM(method="matching", random_state=0)
    found = unbin.permutation_test(model, X, target, 20_000, y=y, random_state=0)
    with pytest.warns(unbin.exceptions.IdentificationWarning):
        mean = model.fit(X, target).predict(X)
    errors = np.array(
        [
            ((np.concatenate([a, b]) - mean) ** 2).mean() / 2
            for a in permutations(y[:3])
            for b in permutations(y[3:])
        ]
    )
    assert found.statistic == pytest.approx(((y - mean) ** 2).mean() / 2)
    share = (errors <= found.statistic + 1e-12).mean()
    assert 0.02 < share < 0.5
    assert found.p_value == pytest.approx(share, abs=0.01)
    assert np.isin(found.null.round(9), errors.round(9)).all()


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_size_and_power_with_targets(family):
    model = unbin.AggregatedGLM(family, method="matching", random_state=0)

    def p_values(strength, seeds):
        return np.array(
            [
                unbin.permutation_test(
                    model, sim.X, _target(sim), 99, y=sim.y, random_state=seed
                ).p_value
                for seed in seeds
                for sim in [_people(strength, seed, family, n=300, n_blocks=15)]
            ]
        )

    null = p_values(0.0, range(40))
    assert (null <= 0.05).mean() <= 0.15
    assert 0.35 < null.mean() < 0.65
    assert (p_values(1.0, range(3)) <= 0.01).all()


@pytest.mark.parametrize("kind", ["block-means", "refit"])
def test_size_and_power_from_the_release_alone(kind):
    n_runs, n_permutations = (60, 199) if kind == "block-means" else (12, 19)
    model = unbin.AggregatedGLM()

    def p_value(strength, seed):
        sim = _people(strength, seed)
        return unbin.permutation_test(
            model, sim.X, _target(sim), n_permutations, kind=kind, random_state=seed
        ).p_value

    null = np.array([p_value(0.0, seed) for seed in range(n_runs)])
    assert (null <= 0.05).mean() <= 0.15
    assert 0.3 < null.mean() < 0.7
    assert p_value(1.5, 0) == pytest.approx(1 / (1 + n_permutations))


def test_the_literal_reading_of_the_paper_rejects_without_a_relationship():
    model = unbin.AggregatedGLM(method="matching", random_state=0)
    for seed in range(3):
        sim = _people(0.0, seed)
        found = unbin.permutation_test(
            model, sim.X, _target(sim), 49, y=sim.y, kind="paper", random_state=0
        )
        assert found.p_value == pytest.approx(1 / 50)


def test_tables_go_to_blocks_of_like_size():
    rng = np.random.default_rng(0)
    people = np.sort(rng.integers(10, 1000, 50))
    place = _deal(people, rng)
    assert sorted(place) == list(range(50))
    assert (place != np.arange(50)).any()
    assert np.abs(place - np.arange(50)).max() < 10


def test_moved_tables_keep_their_shares_and_count_the_people_of_their_block():
    y = np.arange(300.0)
    blocks = np.repeat(["a", "b", "c"], [50, 100, 150])
    release = unbin.aggregate(y, blocks, [-1.0, 20, 70, 160, 300])
    moved = _with_tables(release, np.array([1, 0, 2]))
    np.testing.assert_array_equal(moved.histogram.total(), release.n)
    np.testing.assert_array_equal(moved.histogram.count[:4], [0, 10, 40, 0])
    np.testing.assert_array_equal(moved.histogram.count[4:8], [42, 58, 0, 0])
    np.testing.assert_array_equal(moved.histogram.count[8:], release.histogram.count[8:])


def test_quantiles_and_means_are_tested_too():
    sim = _people(1.5, 0)
    names, codes = np.unique(sim.blocks, return_inverse=True)
    size = np.bincount(codes)
    frame = {
        "block": names,
        "mean": np.bincount(codes, weights=sim.y) / size,
        "median": [np.median(sim.y[codes == b]) for b in range(len(names))],
        "quantile": np.full(len(names), 0.5),
        "n": size,
    }
    releases = [
        unbin.Release.from_means(frame, block="block", mean="mean", n="n"),
        unbin.Release.from_quantiles(frame, block="block", value="median", n="n"),
    ]
    for release in releases:
        found = unbin.permutation_test(
            unbin.AggregatedGLM(), sim.X, release.align(sim.blocks), 99, random_state=0
        )
        assert found.p_value == pytest.approx(0.01)


def test_a_test_is_repeatable_and_says_what_it_found():
    sim = _people(1.0, 3)
    runs = [
        unbin.permutation_test(unbin.AggregatedGLM(), sim.X, _target(sim), 99, random_state=7)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(runs[0].null, runs[1].null)
    assert runs[0].null.shape == (99,)
    assert str(runs[0]).startswith("permutation test: R² of the block means 0.")
    assert str(runs[0]).endswith("of 99 permutations, p = 0.0100")


def test_complaints():
    sim = _people(1.0, 0)
    model, target = unbin.AggregatedGLM(), _target(sim)
    with pytest.raises(ParameterError, match=r"target: must be an aggregated target, got ndarray"):
        unbin.permutation_test(model, sim.X, sim.y)
    with pytest.raises(ParameterError, match=r"kind: unknown, got 'best'"):
        unbin.permutation_test(model, sim.X, target, kind="best")
    with pytest.raises(ParameterError, match=r"y: kind='error' needs the individual targets"):
        unbin.permutation_test(model, sim.X, target, kind="error")
    with pytest.raises(AlignmentError, match=r"y: must hold the 600 targets of X, got 5; pass one"):
        unbin.permutation_test(model, sim.X, target, y=sim.y[:5])
    few = unbin.aggregate(sim.y, np.arange(600) % 4).align(np.arange(600) % 4)
    with pytest.raises(ParameterError, match=r"needs more blocks than features, got 4 blocks and"):
        unbin.permutation_test(model, sim.X, few)
    names, codes = np.unique(sim.blocks, return_inverse=True)
    medians = [np.median(sim.y[codes == b]) for b in range(len(names))]
    frame = {"block": names, "quantile": np.full(30, 0.5), "value": medians}
    order = unbin.Release.from_quantiles(frame).align(sim.blocks)
    with pytest.raises(ParameterError, match=r"cannot move order statistics between blocks of"):
        unbin.permutation_test(model, sim.X, order, 5, kind="refit", random_state=0)
