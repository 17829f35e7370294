"""Engines make the same sums: any number of threads, whatever the parts."""

import numpy as np
import pytest

import unbin
from unbin.datasets import simulate
from unbin.rows import design as designs
from unbin.rows.design import lay_out, row_sums
from unbin.rows.parts import LocalParts, Recipe, add


def test_sums_are_added_in_order_whatever_the_threads():
    parts = [np.full(3, 0.1 * 3**k) for k in range(40)]
    alone = LocalParts(parts, 1).total(np.negative)
    for threads in (2, 3, 8):
        np.testing.assert_array_equal(LocalParts(parts, threads).total(np.negative), alone)


def test_results_come_in_order_and_are_kept():
    parts = LocalParts(list(range(50)), 4)
    assert list(parts.stream(lambda part, power: part**power, 2)) == [k**2 for k in range(50)]
    assert parts.keep(lambda part: part + 1).total(lambda part: part) == sum(range(51))


def test_recipes_make_their_part_again_each_time():
    made = []

    def load(name):
        made.append(name)
        return len(name)

    recipes = LocalParts([Recipe(((load, (name,)),)) for name in ("a", "bb")])
    doubled = recipes.later(lambda part, factor: part * factor, 10)
    assert doubled.total(lambda part: part) == 30
    assert doubled.total(lambda part: part) == 30
    assert made == ["a", "bb"] * 2


def test_tuples_are_added_entry_by_entry():
    assert add((1, (2.0, 3)), (10, (20.0, 30))) == (11, (22.0, 33))


def test_an_error_in_a_thread_is_raised():
    with pytest.raises(ZeroDivisionError):
        LocalParts(list(range(20)), 3).total(lambda part: 1 // (part - 7))


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
@pytest.mark.parametrize("method", ["likelihood", "matching"])
def test_fits_are_the_same_to_the_last_bit(family, method):
    sim = simulate(100_000, 3, 40, family=family, between=0.2, random_state=0)
    target = unbin.aggregate(sim.y, sim.blocks, 5).align(sim.blocks)
    fits = [
        unbin.AggregatedGLM(family, method, n_jobs=k, random_state=0).fit(sim.X, target)
        for k in (1, 2, 5)
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.coef_, fits[0].coef_)
        np.testing.assert_array_equal(other.impute(), fits[0].impute())
        if method == "likelihood":
            np.testing.assert_array_equal(other.standard_errors_, fits[0].standard_errors_)


def test_huge_blocks_are_cut_and_put_together(monkeypatch):
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2, 3], [100, 70_000, 50, 90_000])
    X = rng.normal(size=(len(codes), 2)) + codes[:, None]
    whole = lay_out(X, codes, 4)
    monkeypatch.setattr(designs, "_HUGE_BLOCK", 50_000)
    cut = lay_out(X, codes, 4)
    assert len(cut.parts) > len(cut.whole) == len(whole.parts)
    np.testing.assert_allclose(cut.block_means, whole.block_means, atol=1e-12)
    parts = list(cut.by_block(row_sums, then=lambda blocks, sums: (blocks, sums[0])))
    assert [blocks for blocks, _ in parts] == [slice(b, b + 1) for b in range(4)]


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, "all"])
def test_threads_are_a_whole_number(n_jobs):
    sim = simulate(200, 1, 5, random_state=0)
    with pytest.raises(unbin.exceptions.ParameterError, match="n_jobs"):
        unbin.AggregatedGLM(n_jobs=n_jobs).fit(sim.X, sim.y)
