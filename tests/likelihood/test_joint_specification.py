"""The shape test of several tables: its parts worked out by block, and its size."""

import numpy as np
import pytest
from unbin.likelihood.joint import joint_sums, make_joint
from unbin.likelihood.joint_specification import location_weights, specify_joint
from unbin.likelihood.joint_variance import score_variance

import unbin
from tests.helpers.releases import mean_release
from unbin.datasets import simulate
from unbin.families import get_family
from unbin.likelihood.data.counts import representative_values
from unbin.likelihood.infer.specification import specify
from unbin.rows.design import lay_out


def joined(seed, *, n=3000, n_blocks=60):
    """People in counties and in age groups, and their tables."""
    sim = simulate(n, 2, n_blocks, between=0.3, random_state=seed)
    age = np.digitize(sim.X[:, 0], [-1.5, -0.7, 0.0, 0.7, 1.5]).astype(str)
    tables = [unbin.aggregate(sim.y, ids, 6).align(ids) for ids in (sim.blocks, age)]
    return sim, tables


def test_location_weights_are_those_of_the_values_of_the_bins():
    """s (sᵀ D)/(sᵀ S s) times residuals, over all blocks of all tables."""
    sim, tables = joined(0)
    design = lay_out(sim.X, tables[0].codes, len(tables[0].release), others=(tables[1].codes,))
    family = get_family("gaussian")
    problem = make_joint(design, [table.release for table in tables], family)
    free = np.append(design.from_coefficients(sim.coef, 0.0), 0.0)
    sums = joint_sums(problem, free, np.zeros(4))
    weights = location_weights(problem, sums)
    for table, part, weight in zip(problem.tables, sums.moments, weights, strict=True):
        residual = table.counts.count - part.mean
        value = representative_values(table.counts)
        expected = []
        for s, d, cov, r in zip(value, part.derivative, part.covariance, residual, strict=True):
            expected.append((s @ d[:, :3]) * (s @ r) / (s @ cov @ s))
        found = np.einsum("blp,bl->bp", weight, residual)[:, :3]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_one_table_of_several_has_the_location_root_of_one():
    sim, (table, _) = joined(1)
    family = get_family("gaussian")
    design = lay_out(sim.X, table.codes, len(table.release))
    problem = make_joint(design, [table.release], family)
    free = np.append(design.from_coefficients(sim.coef, 0.0), 0.0)
    sums, nothing = joint_sums(problem, free, np.zeros(4)), np.zeros(4)
    weights = location_weights(problem, sums)
    meat = sum(score_variance(problem, sums, free, weights))
    ours = specify_joint(problem, sums, free, nothing, weights, meat)
    # away from the root of the full score only the location root itself is the same
    theirs = specify(problem.first, free, sums.information, nothing)
    full = np.linalg.solve(sums.information, sums.score)
    np.testing.assert_allclose(ours.location_shift, theirs.location_shift + full, rtol=1e-5)
    np.testing.assert_allclose(ours.share, theirs.share, atol=1e-6)


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
