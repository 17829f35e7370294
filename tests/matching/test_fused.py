"""The compiled pass over whole blocks beside the plain formulas."""

import numpy as np
import pytest

import unbin
from unbin.datasets import simulate
from unbin.families import FAMILIES, BregmanFamily, get_family
from unbin.matching.bounds import rank_bounds
from unbin.matching.fused import whole_pass
from unbin.matching.nearest import nearest_targets
from unbin.matching.objective import Objective
from unbin.matching.select import assign_runs
from unbin.rows.design import lay_out
from unbin.rows.keys import Keys
from unbin.rows.rows import flat_columns

PAPER = sorted(name for name, cls in FAMILIES.items() if issubclass(cls, BregmanFamily))
THETA = np.array([0.3, 0.8, -0.2, 0.1, 0.4, -0.3])
SIZES = {
    "one block": [3000],
    "small blocks": [1, 2, 3, 4] * 300,
    "many sizes": [1, 40, 41, 1023, 1024, 1025, 7, 5000, 2, 2],
    "one huge block": [150_000, 3, 300],
}


def people(family, sizes, *, ties=False, shuffled=False, bins=5):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    if shuffled:
        codes = rng.permutation(codes)
    X = rng.normal(size=(len(codes), 5))
    X = np.round(X) if ties else X
    fam = get_family(family, 10)
    mean = fam.inverse_link(0.3 + X @ THETA[1:])
    draw = {"gaussian": rng.normal, "poisson": rng.poisson}
    y = draw[family](mean) if family in draw else rng.binomial(10, mean / 10)
    target = unbin.aggregate(y, codes.astype(str), bins).align(codes.astype(str))
    return X, target, fam


def plain(rows, family, bounds, theta):
    """The formulas on all rows at once."""
    eta = rows.eta(theta)
    mean = family.inverse_link(eta)
    z = nearest_targets(mean, eta, bounds, family, np.asarray(rows.key))
    value = np.where(z == mean, 0.0, family.divergence_at(z, eta, mean)).sum()
    return value, rows.gradient(mean - z), ((mean - z) ** 2).sum(), z


@pytest.mark.parametrize("family", PAPER)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize("kind", ["as drawn", "ties", "shuffled", "offset"])
def test_a_pass_is_the_plain_formulas(family, sizes, kind):
    X, target, fam = people(family, sizes, ties=kind == "ties", shuffled=kind == "shuffled")
    offset = np.linspace(-1, 1, len(X)) if kind == "offset" else None
    intercept = kind != "offset"
    design = lay_out(X, target.codes, len(target.release), offset=offset, fit_intercept=intercept)
    bounds, theta = rank_bounds(target.release, fam.domain), THETA[1 - intercept :].copy()
    if kind == "ties":
        theta[3:] = 0.0  # different people of equal mean
    z = np.empty(len(X))
    value, gradient, square = whole_pass(design.rows, fam, bounds, theta, z)
    expected = plain(design.rows, fam, bounds, theta)
    np.testing.assert_allclose(z, expected[3], rtol=1e-13, atol=1e-13)
    assert value == pytest.approx(expected[0], rel=1e-11)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-10, atol=1e-10 * len(X))
    assert square == pytest.approx(expected[2], rel=1e-11)


@pytest.mark.parametrize("family", PAPER)
@pytest.mark.parametrize("ties", [False, True])
def test_sums_are_the_same_to_the_last_bit_for_any_number_of_threads(family, ties):
    X, target, fam = people(family, [700, 30_000, 4] * 9, ties=ties, shuffled=True)
    bounds = rank_bounds(target.release, fam.domain)
    found = []
    for n_threads in (1, 2, 3, 8):
        design = lay_out(X, target.codes, len(target.release), n_threads=n_threads)
        assert len(design.whole) > 3
        objective = Objective(design, fam, np.zeros(6), bounds.measured(fam))
        value, gradient, square = objective.sums(THETA)
        z, again = objective.targets(THETA)
        assert again == square
        found.append(np.concatenate([[value, square], gradient, design.center, design.scale, z]))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_targets_are_in_the_order_of_x():
    X, target, fam = people("gaussian", [500, 20, 300], shuffled=True)
    design = lay_out(X, target.codes, len(target.release))
    bounds = rank_bounds(target.release, fam.domain)
    objective = Objective(design, fam, np.zeros(6), bounds)
    z, square = objective.targets(THETA)
    np.testing.assert_array_equal(z, design.to_rows_of_x(objective.impute(THETA)))
    assert square == pytest.approx(((z - design.to_rows_of_x(design.eta(THETA))) ** 2).sum())


def test_keys_are_made_only_where_equal_people_stand_on_both_sides_of_a_cut():
    X, target, fam = people("gaussian", [400, 500])
    bounds = rank_bounds(target.release, fam.domain)
    rows = lay_out(X, target.codes, 2).rows
    whole_pass(rows, fam, bounds, THETA)
    assert isinstance(rows.key, Keys)
    assert not len(rows.known_key())
    rows = lay_out(np.round(X), target.codes, 2).rows
    whole_pass(rows, fam, bounds, THETA)
    assert len(rows.known_key()) == 900


@pytest.mark.parametrize("n", [12, 200])
def test_only_ties_across_a_cut_ask_for_keys(n):
    values, none, run = np.arange(n) // 4 * 1.0, np.empty(0, np.uint64), np.empty(n, np.int32)
    for cut, divided in ((8, False), (7, True), (4, False), (5, True)):
        cuts = np.array([cut, n])
        assert assign_runs(values, none, np.array([0, n]), np.array([0, 2]), cuts, run) == divided
        key = np.arange(n).astype(np.uint64)
        assert not assign_runs(values, key, np.array([0, n]), np.array([0, 2]), cuts, run)
        np.testing.assert_array_equal(run, np.arange(n) >= cut)


@pytest.mark.parametrize("family", PAPER)
def test_compiled_means_and_divergences_stay_finite_far_out(family):
    X, target, fam = people(family, [300, 200])
    bounds = rank_bounds(target.release, fam.domain)
    rows = lay_out(X, target.codes, 2).rows
    for scale in (1e2, 1e4):
        value, gradient, square = whole_pass(rows, fam, bounds, scale * THETA)
        assert np.isfinite([value, square, *gradient]).all()
        expected = plain(rows, fam, bounds, scale * THETA)
        assert value == pytest.approx(expected[0], rel=1e-9)


def test_any_matrix_has_flat_columns():
    rng = np.random.default_rng(0)
    for matrix in (rng.normal(size=(7, 3)), np.asfortranarray(rng.normal(size=(9, 3)))[2:5]):
        memory, first, step = flat_columns(matrix)
        for j in range(3):
            column = memory[first + j * step : first + j * step + len(matrix)]
            np.testing.assert_array_equal(column, matrix[:, j])


@pytest.mark.parametrize("family", PAPER)
def test_fits_do_not_depend_on_threads(family):
    sim = simulate(90_000, 3, 300, family=family, between=0.3, n_trials=10, random_state=0)
    target = unbin.aggregate(sim.y, sim.blocks, 6).align(sim.blocks)
    fits = [
        unbin.AggregatedGLM(family, "matching", n_trials=10, n_jobs=jobs, random_state=0)
        for jobs in (1, 2, 5)
    ]
    for model in fits:
        model.fit(sim.X, target)
        np.testing.assert_array_equal(model.coef_, fits[0].coef_)
        np.testing.assert_array_equal(model.impute(), fits[0].impute())
