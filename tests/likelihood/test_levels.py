"""The levels of several tables, held against one dense covariance, and the shape test."""

from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest

import unbin
from tests.helpers.dense import Dense, inverse
from tests.helpers.releases import mean_release
from tests.helpers.stacks import problem_of
from unbin.datasets import simulate
from unbin.likelihood.data.problem import Effects, make_problem
from unbin.likelihood.infer.levels import location_score, table_values
from unbin.likelihood.infer.specification import specify
from unbin.likelihood.model.score import score_sums
from unbin.rows.design import lay_out


def joined(seed, *, n=3000, n_blocks=60):
    """People in counties and in age groups, and their tables."""
    sim = simulate(n, 2, n_blocks, between=0.3, random_state=seed)
    age = np.digitize(sim.X[:, 0], [-1.5, -0.7, 0.0, 0.7, 1.5]).astype(str)
    tables = [unbin.aggregate(sim.y, ids, 6).align(ids) for ids in (sim.blocks, age)]
    return sim, tables


def near_truth(problem, sim):
    return np.append(problem.design.from_coefficients(sim.coef, 0.0), 0.0)


class Levels(Dense):
    """The levels of all blocks, V'c, and what is said by them alone; dense algebra."""

    @cached_property
    def values(self):
        """V, a column for each block of each table."""
        found = []
        for t in range(len(self.problem.tables)):
            values = table_values(self.problem, t)
            for b, own in enumerate(values):
                here = (self.table == t) & (self.block == b)
                found.append(here * own[np.where(here, self.place, 0)])
        return np.array(found).T

    def said(self):
        """Return W'r, W'D and W'ΣW of intercept and slopes, W = V(V'ΣV)⁻¹V'D."""
        v, n = self.values, self.problem.coordinates.n_slopes
        d, variance = v.T @ self.derivative, v.T @ (self.covariance + self.effects) @ v
        weight = inverse(variance) @ d[:, :n]
        return weight.T @ v.T @ self.residual, weight.T @ d, weight.T @ variance @ weight


def assert_levels(problem, free, **close):
    """See that intercept and slopes have the score of levels, its slope and its variance."""
    found, n = location_score(problem, free, np.zeros(4)), problem.coordinates.n_slopes
    score, slope, variance = Levels(problem, free).said()
    back = np.linalg.inv(found.bread)
    np.testing.assert_allclose(found.total[:n], score, **close)
    np.testing.assert_allclose(back[:n], slope, **close)
    np.testing.assert_allclose((back @ found.model @ back.T)[:n, :n], variance, **close)


@pytest.mark.parametrize("variance", [0.0, 0.2])
def test_the_location_score_is_that_of_the_levels_of_all_blocks(variance):
    sim, tables = joined(0, n=600, n_blocks=20)
    problem = replace(problem_of(sim.X, tables, "gaussian"), block_variance=variance)
    assert (problem.plan.core, problem.plan.border) == ((0,), (1,))
    assert_levels(problem, near_truth(problem, sim), rtol=1e-6, atol=1e-6)


def test_the_location_score_of_tables_that_nest():
    """Close to it: a jitter is added to the variance of each of several levels of a group."""
    sim, (county, age) = joined(0, n=600, n_blocks=20)
    ids = np.array([f"{a} {b}" for a, b in zip(county.blocks, age.blocks, strict=True)])
    fine = unbin.aggregate(sim.y, ids, [-np.inf, -0.5, 1.0, np.inf]).align(ids)
    problem = replace(problem_of(sim.X, [county, fine], "gaussian"), block_variance=0.2)
    assert problem.plan.core == (0, 1)
    assert_levels(problem, near_truth(problem, sim), rtol=3e-5, atol=3e-5)


def test_a_table_of_everybody_has_the_location_root_of_the_others():
    """Its level is the sum of theirs, and nothing is left of it in the border."""
    sim, (table, _) = joined(1)
    everybody = np.full(len(sim.y), "all")
    edges = np.append(table.release.histogram.lower[:6], np.inf)
    both = [table, unbin.aggregate(sim.y, everybody, edges).align(everybody)]
    wide = problem_of(sim.X, both, "gaussian")
    assert wide.plan.border == ()  # it is left out
    wide = replace(wide, plan=replace(wide.plan, border=(1,)))
    design = lay_out(sim.X, table.codes, len(table.release))
    alone = make_problem(design, [table.release], wide.family)
    free, nothing, found = near_truth(alone, sim), np.zeros(4), []
    for problem in (alone, wide):
        sums = score_sums(problem, free, nothing)
        said = specify(problem, free, sums.information, nothing)
        full = np.linalg.solve(sums.information, sums.score)
        found.append((said.location_shift + full, said.share))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-5)
    np.testing.assert_allclose(found[1][1], found[0][1], atol=1e-6)


@pytest.mark.parametrize("n_tables", [1, 2])
def test_the_shift_is_the_step_to_the_location_root_less_that_to_the_full_one(n_tables):
    """Also where the full score is expanded around the effects of counties."""
    sim, tables = joined(1, n=1200, n_blocks=20)
    problem, nothing = problem_of(sim.X, tables[:n_tables], "gaussian"), np.zeros(4)
    free, effect = near_truth(problem, sim), 0.2 * np.random.default_rng(0).normal(size=20)
    problem = replace(problem, block_variance=0.1)
    sums = score_sums(problem, free, nothing)
    along = sums.block_along / sums.block_hold[:, None]
    problem = replace(problem, effects=Effects(effect, np.full(20, 0.1), along))
    sums, levels = (each(problem, free, nothing) for each in (score_sums, location_score))
    wanted = levels.bread @ levels.total - np.linalg.solve(sums.information, sums.score)
    found = specify(problem, free, sums.information, nothing)
    np.testing.assert_allclose(found.location_shift, wanted, rtol=1e-5, atol=1e-6)


def test_means_alone_have_no_shape():
    sim, tables = joined(2)
    ids = [table.blocks for table in tables]
    target = unbin.join(*(mean_release(sim.y, each).align(each) for each in ids))
    said = unbin.AggregatedGLM().fit(sim.X, target).diagnostics_
    assert np.isnan(said.shape.p_value)
    assert said.trusted


def test_right_models_are_trusted():
    p_values, trusted = [], 0
    for seed in range(30):
        sim, tables = joined(seed, n=1200, n_blocks=40)
        said = unbin.AggregatedGLM().fit(sim.X, unbin.join(*tables)).diagnostics_
        p_values.append(said.shape.p_value)
        trusted += said.trusted
    assert trusted >= 27
    assert np.mean(np.array(p_values) < 0.05) <= 0.2


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_slopes_read_off_a_wrong_shape_are_not_trusted():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(100), 50)
    X = rng.lognormal(size=(5000, 1)) + 0.3 * rng.normal(size=(100, 1))[codes]
    y = 0.5 * X[:, 0] + 2 * rng.exponential(size=5000)
    county, sex = np.char.zfill(codes.astype(str), 3), rng.integers(0, 2, 5000).astype(str)
    target = unbin.join(*(unbin.aggregate(y, ids, 8).align(ids) for ids in (county, sex)))
    said = unbin.AggregatedGLM().fit(X, target).diagnostics_
    assert not said.trusted
    assert "shape test" in said.reason
