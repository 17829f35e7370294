from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.cases import make_case
from unbin.families import get_family
from unbin.likelihood.data.problem import make_problem
from unbin.likelihood.infer.specification import check_sums
from unbin.likelihood.model import law as lookup
from unbin.likelihood.model.law import Law, Moves, tabulated
from unbin.likelihood.solve.start import starting_point


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch):
    monkeypatch.setattr(lookup, "_FEWEST", 0)


GENERATED_BY = {
    "gaussian": "gaussian",
    "ordinal": "gaussian",
    "poisson": "poisson",
    "negative-binomial": "poisson",
    "binomial": "binomial",
    "beta-binomial": "binomial",
    "gamma": "gamma",
}


def problem_of(kind, n_blocks=6, size=700, seed=0):
    case = make_case(seed, kind=GENERATED_BY[kind], n_blocks=n_blocks, size=size, d=3, bins=6)
    problem = make_problem(case.design, [case.release], get_family(kind, n_trials=20))
    free = starting_point(problem)
    return problem, free + 0.2 * np.random.default_rng(seed).normal(size=len(free))


def both(problem, law, free):
    """Sums of a table, and of every row."""
    table = tabulated(law, problem.design, free)
    assert table.table is not None
    rows = problem.design.rows
    return check_sums(rows, table, free), check_sums(rows, law, free)


def error(found, expected):
    """Largest error, relative to the largest number of its kind."""
    largest = np.abs(expected).max(initial=0.0)
    return np.abs(found - expected).max(initial=0.0) / largest if largest else 0.0


@pytest.mark.parametrize("effects", ["none", "variance", "known"])
@pytest.mark.parametrize("kind", GENERATED_BY)
def test_a_table_gives_the_sums_of_its_rows(kind, effects):
    problem, free = problem_of(kind)
    law = Law.of(problem, free)
    if effects != "none":
        law = replace(law, block_variance=0.04)
    if effects == "known":
        move = 0.3 * np.random.default_rng(1).normal(size=6)
        law = replace(law, effects=Moves(move, np.full(6, 0.15)))
    for found, expected in zip(*both(problem, law, free), strict=True):
        assert error(found, expected) < 1e-11


@pytest.mark.parametrize("kind", GENERATED_BY)
def test_rows_of_small_blocks_are_right_in_relative_terms(kind):
    problem, free = problem_of(kind, n_blocks=1500, size=3)
    found, expected = both(problem, Law.of(problem, free), free)
    likely = expected[0] > 1e-6
    np.testing.assert_allclose(found[0][likely], expected[0][likely], rtol=1e-8)
    for ours, theirs in zip(found, expected, strict=True):
        assert error(ours, theirs) < 1e-11


DISPERSIONS = {
    "gaussian": [-4.0, -1.0, 0.0, 2.0, 6.0],
    "gamma": [-4.0, -1.0, 0.0, 1.5],
    "negative-binomial": [-8.0, -1.0, 1.0, 3.0],
    "beta-binomial": [-6.0, -1.0, 1.0],
}


def worst(kind, nuisance, times=1.0):
    """Largest error of interpolation half-way between points, relative to neighbours."""
    from unbin.rows.interpolated import _interpolate

    family = get_family(kind, n_trials=20)
    nuisance = np.atleast_1d(nuisance).astype(float)
    scale = np.exp(nuisance[0]) if kind == "gaussian" else 1.0
    edges = scale * np.array([-1.5, -0.4, 0.1, 0.5, 2.0])
    lower, upper = np.append(-np.inf, edges), np.append(edges, np.inf)
    if family.domain.integer:
        upper = np.array([0.0, 1.0, 4.0, 9.0, 15.0, family.domain.high])
        lower = np.append(0.0, upper[:-1] + 1)
    elif np.isfinite(family.domain.low):
        upper = np.array([0.1, 0.5, 1.0, 2.0, 5.0, np.inf])
        lower = np.append(0.0, upper[:-1])
    elif kind == "ordinal":
        nuisance = edges
    step = times * family.resolution(lower, upper, nuisance) / lookup._FINE
    middle = np.linspace(-4, 4, 301) * scale
    point, weight = np.zeros(1, np.int64), np.zeros((1, 8))
    _interpolate(np.array([3.5]), 1.0, point, weight)
    at = middle[:, None] + step * (np.arange(8) - 3.5)
    near = family.bins(at.ravel(), lower, upper, nuisance)
    exact = family.bins(middle, lower, upper, nuisance)
    errors = []
    for name in ("probability", "d_eta"):
        values = getattr(near, name).reshape(len(middle), 8, -1)
        apart = np.abs(np.einsum("p,ipk->ik", weight[0], values) - getattr(exact, name))
        size = np.abs(values).max(axis=1)
        errors.append((apart / np.maximum(size, 1e-3)).max())
    return max(errors)


@pytest.mark.parametrize(
    ("kind", "at"), [(k, a) for k in GENERATED_BY for a in DISPERSIONS.get(k, [0.0])]
)
def test_points_are_close_enough_for_every_family(kind, at):
    assert worst(kind, at) < 1e-9
    assert worst(kind, at, times=8.0) > 1e-9  # and not much closer than need be


def test_no_table_where_it_does_not_hold_or_pay(monkeypatch):
    problem, free = problem_of("gaussian")
    law, design = Law.of(problem, free), problem.design
    own = replace(law, lower=np.tile(law.lower, (6, 1)), upper=np.tile(law.upper, (6, 1)))
    assert tabulated(own, design, free).table is None
    assert tabulated(law, replace(design, sampled=True), free).table is None
    assert tabulated(law, replace(design, looks_up=False), free).table is None
    effects = Moves(np.zeros(6), np.ones(6))
    assert tabulated(replace(law, unit=1.0, effects=effects), design, free).table is None
    for wild in (np.nan, np.inf, 1e9):
        away = np.where(np.arange(len(free)) == 1, wild, free)  # a slope
        assert tabulated(law, design, away).table is None
    few, start = problem_of("gaussian", n_blocks=5, size=20)
    assert tabulated(Law.of(few, start), few.design, start).table is None
    monkeypatch.setattr(lookup, "_FEWEST", design.n_rows + 1)
    assert tabulated(law, design, free).table is None


def test_a_fit_is_the_same_with_and_without_tables(monkeypatch):
    import unbin
    from unbin.datasets import simulate

    sim = simulate(6000, 3, 30, family="gaussian", between=0.5, random_state=0)
    target = unbin.aggregate(sim.y, sim.blocks, 6).align(sim.blocks)

    def coef():
        return unbin.AggregatedGLM("gaussian", random_state=0).fit(sim.X, target).coef_

    looked_up = coef()
    monkeypatch.setattr(lookup, "_MOST", 0)
    np.testing.assert_allclose(coef(), looked_up, rtol=1e-10)


@pytest.mark.parametrize("kind", ["gaussian", "ordinal", "poisson", "gamma"])
def test_few_rows_are_summed_as_many_are(kind, monkeypatch):
    """By NumPy, or compiled: the same sums."""
    problem, free = problem_of(kind, n_blocks=40, size=9)
    law, rows = Law.of(problem, free), problem.design.rows
    plain = check_sums(rows, law, free)
    monkeypatch.setattr("unbin.likelihood.model.moments._FEW", 0)
    for found, expected in zip(plain, check_sums(rows, law, free), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
