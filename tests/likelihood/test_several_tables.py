"""Several tables of the same people: sums by table, tables beside each other, and the fit.

What tables say that share a covariance is held against a dense one in test_stacked. Here their sums
are held against each table alone, and the variance of the scores of tables that stand beside each
other, which count the same people again, against that of all statistics together.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm

import unbin
from tests.helpers.dense import Dense, inverse
from tests.helpers.releases import mean_release, quantile_release
from tests.helpers.stacks import moments_of, problem_of
from unbin.families import get_family
from unbin.likelihood.data import problem as of_problem
from unbin.likelihood.data.problem import make_problem
from unbin.likelihood.infer.estimate import _add_effects, _apart
from unbin.likelihood.infer.people import score_variance
from unbin.likelihood.model.law import Law
from unbin.likelihood.model.moments import map_cells
from unbin.likelihood.model.score import evidence, score_sums, unit_variance
from unbin.likelihood.solve.effects import Pulls
from unbin.likelihood.solve.scoring import solve_score
from unbin.likelihood.solve.start import starting_point
from unbin.release import Release
from unbin.rows.design import lay_out

pytestmark = pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
FREE = {
    "gaussian": np.array([0.1, 0.4, -0.3, 0.1]),
    "poisson": np.array([0.2, 0.3, -0.2]),
    "binomial": np.array([-0.2, 0.5, -0.4]),
    "ordinal": np.array([0.6, -0.4, -0.8, 0.1, 0.2]),
}
EDGES = {
    "gaussian": [-np.inf, -0.7, 0.2, 1.0, np.inf],
    "poisson": [-np.inf, 0, 1, 2, np.inf],
    "binomial": [-np.inf, 0, np.inf],
    "ordinal": [-np.inf, -0.7, 0.2, 1.0, np.inf],
}
BESIDE = (1, 2)
"""Sex and age group, beside the groups that counties are."""


def people(seed: int = 0, n: int = 240, blocks: int = 8):
    """Features, and three partitions: counties, sex, and age groups."""
    rng = np.random.default_rng(seed)
    county = np.sort(rng.integers(0, blocks, n))
    sex = rng.integers(0, 2, n)
    X = np.column_stack([rng.normal(size=n) + 0.5 * sex, sex + 0.1 * rng.normal(size=n)])
    age = np.digitize(X[:, 0], [-1.0, -0.3, 0.4, 1.1])
    return X, [county.astype(str), sex.astype(str), age.astype(str)]


def outcome(family: str, eta, rng):
    """Draw targets with these linear predictors."""
    if family == "poisson":
        return rng.poisson(np.exp(eta)).astype(float)
    if family == "binomial":
        return (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(float)
    noise = rng.logistic(size=len(eta)) if family == "ordinal" else rng.normal(size=len(eta))
    return eta + noise


def tables(y, partitions, bins):
    """One aligned table per partition, each with its own bins."""
    pairs = zip(partitions, bins, strict=True)
    return [unbin.aggregate(y, ids, edges).align(ids) for ids, edges in pairs]


def example(family: str, bins=None, seed: int = 0):
    X, partitions = people(seed)
    y = outcome(family, X @ [0.5, -0.4], np.random.default_rng(seed + 1))
    return X, y, tables(y, partitions, [EDGES[family]] * 3 if bins is None else bins)


def sums_of(problem, free):
    return score_sums(problem, free, np.zeros(len(free)))


def alone(X, target, family):
    """The problem of one table."""
    design = lay_out(X, target.codes, len(target.release))
    return make_problem(design, [target.release], get_family(family))


# -- sums by table ---------------------------------------------------------------------------------


@pytest.mark.parametrize("family", list(FREE))
def test_the_scores_of_tables_beside_the_groups_add(family):
    """Only of tables beside the groups: those in their border share a covariance with them."""
    X, _, targets = example(family)
    problem, free = problem_of(X, targets, family, beside=BESIDE), FREE[family]
    assert problem.plan.beside == BESIDE
    found = sums_of(problem, free)
    own = [found.block_scores, *(part.scores for part in found.beside)]
    score, information = 0.0, 0.0
    for t, target in enumerate(targets):
        sums = sums_of(alone(X, target, family), free)
        np.testing.assert_allclose(own[t], sums.block_scores, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.mean[t], sums.mean[0], rtol=1e-10)
        score, information = score + sums.score, information + sums.information
    np.testing.assert_allclose(found.score, score, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.information, information, rtol=1e-9)


def test_sums_by_block_are_made_of_crossed_cells(monkeypatch):
    """Whether or not cells that a table does not tell apart are added up before."""
    X, partitions = people(n=960)
    y = outcome("gaussian", X @ [0.5, -0.4], np.random.default_rng(1))
    ward = np.random.default_rng(2).integers(0, 3, len(y)).astype(str)
    edges = EDGES["gaussian"]
    bins = [edges, edges, edges, [-np.inf, 0.0, np.inf], edges]
    targets = tables(y, [*partitions, ward, partitions[1]], bins)
    problem, free = problem_of(X, targets, "gaussian", beside=(1, 3)), FREE["gaussian"]
    merged = moments_of(problem, free)[1]
    # counties are groups and ages cross them; a second table by sex adds nothing to the first
    assert [stack.tables for stack in problem.layout.stacks] == [(0,), (2, 4), (1,), (3,)]
    cells = [problem.merged_cells(stack.tables) for stack in problem.layout.stacks]
    assert [None if each is None else len(each[1]) for each in cells] == [8, 10, 2, 3]
    monkeypatch.setattr(of_problem, "_FEWER", np.inf)
    bare = replace(problem)
    assert bare.merged_cells((1,)) is None
    for one, other in zip(merged, moments_of(bare, free)[1], strict=True):
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
        np.testing.assert_allclose(one.derivative, other.derivative, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-10, atol=1e-12)


def test_thresholds_live_on_the_union_of_edges():
    bins = [[-np.inf, -0.7, 0.2, np.inf], [-np.inf, 0.2, 1.0, np.inf], [-np.inf, 1.0, np.inf]]
    X, _, targets = example("ordinal", bins)
    problem = problem_of(X, targets, "ordinal")
    np.testing.assert_array_equal(problem.grid.upper, [-0.7, 0.2, 1.0, np.inf])
    free = FREE["ordinal"]
    moments = moments_of(problem, free)[1]
    for j in range(len(free)):
        step = 1e-6 * (np.arange(len(free)) == j)
        up, down = (moments_of(problem, free + s * step)[1] for s in (1, -1))
        for at, high, low in zip(moments, up, down, strict=True):
            slope = (high.mean - low.mean) / 2e-6
            np.testing.assert_allclose(at.derivative[:, :, j], slope, rtol=1e-5, atol=1e-5)


# -- the variance of the score where tables stand beside the groups --------------------------------


def weights_of(dense):
    """Weights of all tables' statistics, each block's by its own covariance alone, (N, p)."""
    problem, free = dense.problem, dense.free
    sums, moments = moments_of(problem, free)
    found = np.zeros((len(dense.table), len(free)))
    for j, (stack, own) in enumerate(zip(problem.layout.stacks, moments, strict=True)):
        (t,), variance = stack.tables, unit_variance(problem, stack)
        said = evidence(problem, own, j, values=sums.values, variance=variance)
        used = problem.stacked[j].used
        for b in range(len(used)):
            keep, shift = used[b], said.shift[b, used[b]]
            s = said.covariance[b][np.ix_(keep, keep)]
            s = s + variance * np.outer(shift, shift) + 1e-6 * np.eye(len(s))
            weight = np.zeros((len(keep), len(free)))
            weight[keep] = np.linalg.solve(s, said.derivative[b, keep])
            here = (dense.table == t) & (dense.block == b)
            found[here] = weight[dense.place[here]]
    return found


def variance_of(problem, free):
    """M, from the sums at some parameters."""
    return sum(score_variance(problem, free, sums_of(problem, free)))


def beside(X, targets, family):
    problem = problem_of(X, targets, family, beside=BESIDE)
    return problem, FREE[family], Dense(problem, FREE[family])


@pytest.mark.parametrize("family", ["gaussian", "poisson", "ordinal"])
def test_the_variance_of_the_score_is_a_sum_over_people(family):
    X, _, targets = example(family)
    problem, free, dense = beside(X, targets, family)
    weights = weights_of(dense)
    expected = weights.T @ dense.covariance @ weights
    np.testing.assert_allclose(variance_of(problem, free), expected, rtol=1e-7)


def test_tables_may_have_different_bins():
    bins = [[-np.inf, -0.7, 0.2, np.inf], [-np.inf, 0, np.inf], [-np.inf, -0.3, 0.2, 1, np.inf]]
    X, _, targets = example("gaussian", bins)
    problem, free, dense = beside(X, targets, "gaussian")
    weights = weights_of(dense)
    expected = weights.T @ dense.covariance @ weights
    np.testing.assert_allclose(variance_of(problem, free), expected, rtol=1e-7)


@pytest.mark.parametrize("kinds", [("means",), ("quantiles",), ("means", "quantiles")])
def test_tables_may_have_means_and_quantiles(kinds):
    X, (county, sex, age) = people()
    y = outcome("gaussian", X @ [0.5, -0.4], np.random.default_rng(1))
    published = [unbin.aggregate(y, ids, EDGES["gaussian"]) for ids in (county, sex, age)]
    if "means" in kinds:
        published[1] = mean_release(y, sex)
    if "quantiles" in kinds:
        published[2] = quantile_release(y, age, [0.25, 0.5, 0.75])
    targets = [each.align(ids) for each, ids in zip(published, (county, sex, age), strict=True)]
    problem, free, dense = beside(X, targets, "gaussian")
    weights = weights_of(dense)
    expected = weights.T @ dense.covariance @ weights
    np.testing.assert_allclose(variance_of(problem, free), expected, rtol=1e-6)


def with_intercepts():
    """Counties and age groups that have random intercepts, tables beside each other."""
    X, _, targets = example("gaussian")
    problem = problem_of(X, targets, "gaussian", beside=BESIDE)
    return replace(problem, block_variance=0.2, further=(0.0, 0.0, 0.1)), FREE["gaussian"]


def test_random_intercepts_enter_every_table():
    problem, free = with_intercepts()
    rows = problem.design.in_memory()
    cell = np.repeat(rows.blocks, np.diff(rows.start))
    theta, nuisance = problem.coordinates.split(free)
    law = Law.of(problem, free)
    d_eta = law.rows(rows, slice(0, len(rows)), theta, nuisance, False).d_eta
    (sums,) = map_cells(problem, free, lambda sums: sums)
    for stack in problem.layout.stacks:
        (t,) = stack.tables
        for s, variance in ((0, 0.2), (2, 0.1)):
            n, size = len(problem.tables[t].counts.n), d_eta.shape[1]
            found, expected = np.zeros((n, size, size)), np.zeros((n, size, size))
            _add_effects(problem, stack, sums, problem.codes[s], variance, np.arange(n), found)
            own, other = problem.codes[t][cell], problem.codes[s][cell]
            for g, b in np.unique(np.column_stack([own, other]), axis=0):
                e = d_eta[(own == g) & (other == b)].sum(axis=0)
                expected[g] += variance * np.outer(e, e)
            np.testing.assert_allclose(found, expected, atol=1e-10)


def test_random_intercepts_of_all_tables_move_the_score():
    """M is Σ A'Cov A of people, averaged over the intercepts, and Σ τ² hh' of their blocks."""
    problem, free = with_intercepts()
    dense = Dense(problem, free)
    weights = weights_of(dense)
    by_people, by_effects = score_variance(problem, free, sums_of(problem, free))
    np.testing.assert_allclose(by_people, weights.T @ dense.covariance @ weights, rtol=1e-7)
    county, age = (dense.shifts(problem.codes[t]).T @ weights for t in (0, 2))
    expected = 0.2 * county.T @ county + 0.1 * age.T @ age
    np.testing.assert_allclose(by_effects, expected, rtol=1e-7)


@pytest.mark.parametrize("layout", ["stacked", "beside"])
def test_what_each_table_says_allows_for_the_intercepts_of_all(layout):
    """r'S⁻¹r, e'S⁻¹r and e'S⁻¹e of every block, S with Σ τ² ee' of counties and age groups."""
    problem, free = with_intercepts()
    if layout == "stacked":
        X, _, targets = example("gaussian")
        stacked = problem_of(X, targets, "gaussian")
        problem = replace(stacked, block_variance=0.2, further=problem.further)
        assert (problem.plan.border, problem.plan.beside) == (BESIDE, ())
    dense = Dense(problem, free)
    county, age = (dense.shifts(problem.codes[t]) for t in (0, 2))
    covariance = dense.covariance + 0.2 * county @ county.T + 0.1 * age @ age.T
    for t, part in enumerate(_apart(problem, free)[0]):
        e = dense.shifts(problem.codes[t])
        for b in range(len(part.misfit)):
            own = (dense.table == t) & (dense.block == b) & dense.used
            weight = inverse(covariance[np.ix_(own, own)])
            residual, shift = dense.residual[own], e[own, b]
            assert part.misfit[b] == pytest.approx(residual @ weight @ residual, rel=3e-5)
            assert part.pull[b] == pytest.approx(shift @ weight @ residual, rel=3e-5, abs=3e-5)
            assert part.hold[b] == pytest.approx(shift @ weight @ shift, rel=3e-5)


@pytest.mark.parametrize("layout", ["stacked", "beside"])
@pytest.mark.parametrize("how", ["exact", "noise", "rounded"])
def test_the_score_varies_as_it_says(how, layout):
    """Against draws at the true parameters, also of counts that are noisy or rounded.

    Of tables that share a covariance the variance is the information, else it is M. What rounded
    counts tell depends on the draw, and the information is then the mean one; rounded to 20 the
    table by county alone has a score a third of a standard deviation off, as hidden counts are
    taken as normal, which the smaller variance of stacked tables shows more of.
    """
    X, partitions = people(n=400, blocks=6)
    free, rng = np.array([0.1, 0.4, -0.3, 0.0]), np.random.default_rng(5)
    theta, design = free[:3], lay_out(X, np.zeros(len(X), np.int64), 1)
    eta = design.to_rows_of_x(design.eta(theta))
    stacked, scores, information = layout == "stacked", [], []
    for _ in range(400):
        y = eta + rng.normal(size=len(X))
        releases = [unbin.aggregate(y, ids, EDGES["gaussian"]) for ids in partitions]
        if how == "noise":
            releases = [_noisy(release, rng) for release in releases]
        elif how == "rounded":
            releases = [_rounded(release, 10 if stacked else 20) for release in releases]
        targets = [r.align(ids) for r, ids in zip(releases, partitions, strict=True)]
        problem = problem_of(X, targets, "gaussian", beside=() if stacked else BESIDE)
        sums = sums_of(problem, free)
        scores.append(sums.score)
        information.append(sums.information)
    meat = np.mean(information, axis=0) if stacked else variance_of(problem, free)
    sd = np.sqrt(np.diag(meat))
    assert np.abs(np.mean(scores, axis=0) / sd).max() < 0.2
    assert np.abs(np.std(scores, axis=0) / sd - 1).max() < 0.12


def _noisy(release: Release, rng: np.random.Generator) -> Release:
    table = release.histogram
    noisy = replace(table, count=table.count + rng.normal(0, 3.0, len(table.count)))
    return replace(release, noise_sd=3.0, histogram=noisy)


def _rounded(release: Release, to: int) -> Release:
    table = release.histogram
    codes = np.repeat(np.arange(len(release)), np.diff(table.start))
    return Release.from_histogram(
        {
            "block": release.blocks[codes],
            "lower": table.lower,
            "upper": table.upper,
            "count": to * np.round(table.count / to),
        },
        rounding=f"nearest-{to}",
    )


# -- the fit ---------------------------------------------------------------------------------------


def simulate(seed, *, effects=0.0, blocks=60, size=60):
    """People of many counties; age and sex hardly differ between them."""
    rng = np.random.default_rng(seed)
    county = np.repeat(np.arange(blocks), size)
    sex = rng.integers(0, 2, len(county))
    age, income = rng.normal(size=len(county)), rng.normal(size=len(county))
    income += 0.7 * rng.normal(size=blocks)[county]
    X = np.column_stack([age, sex, income])
    eta = X @ [0.5, 0.8, -0.4] + effects * rng.normal(size=blocks)[county]
    ids = [county, np.digitize(age, np.arange(-2.5, 3.0, 0.5)), sex]
    return X, eta + rng.normal(size=len(eta)), [each.astype(str) for each in ids]


def joined(y, partitions, bins=5):
    return unbin.join(*(unbin.aggregate(y, ids, bins).align(ids) for ids in partitions))


def test_several_tables_tell_what_one_does_not():
    X, y, partitions = simulate(0)
    model = unbin.AggregatedGLM()
    alone = model.fit(X, joined(y, partitions).tables[0]).standard_errors_.copy()
    together = model.fit(X, joined(y, partitions))
    assert (together.standard_errors_[:2] < 0.3 * alone[:2]).all()
    assert (np.abs(together.coef_ - [0.5, 0.8, -0.4]) < 3 * together.standard_errors_).all()
    information = together.diagnostics_.information
    np.testing.assert_allclose(information.sum(axis=0), 1.0, rtol=1e-6)
    assert information.argmax(axis=0).tolist() == [1, 2, 0]
    assert [table.n_people for table in together.tables_] == [len(X)] * 3


def patients():
    """People of counties that have effects; most go to the hospital of their county."""
    X, y, partitions = simulate(3, effects=0.5, blocks=60, size=200)
    rng = np.random.default_rng(0)
    near = rng.random(len(y)) < 0.7
    hospital = np.where(near, partitions[0].astype(int) % 12, rng.integers(0, 12, len(y)))
    return X, joined(y, [partitions[0], hospital.astype(str), partitions[2]])


def test_effects_of_counties_are_not_taken_for_those_of_hospitals():
    fit = unbin.AggregatedGLM().fit(*patients())
    assert 0.35 < fit.tables_[0].block_sd < 0.65
    assert fit.tables_[1].block_sd == fit.tables_[2].block_sd == 0


def test_without_effects_of_counties_hospitals_seem_to_have_some():
    X, target = patients()
    bare = problem_of(X, list(target.tables), "gaussian")
    assert bare.plan.border == (1, 2)
    p_values, free = [], starting_point(bare)
    for variance in (0.0, 0.25):
        problem, penalty = replace(bare, block_variance=variance), np.zeros(len(free))
        found = solve_score(problem, free, penalty, cap=1.0, tol=1e-8, max_iter=50)
        sums = score_sums(problem, found.free, penalty, [1])
        pulls = Pulls.of_table(problem, sums, 1, sums.score)
        p_values.append(pulls.p_value(pulls.df(sums.information, problem.n_fitted)))
    assert p_values[0] < 1e-3
    assert p_values[1] > 0.05


def test_means_alone():
    X, y, partitions = simulate(2)
    target = unbin.join(*(mean_release(y, ids).align(ids) for ids in partitions))
    fit = unbin.AggregatedGLM().fit(X, target)
    assert (np.abs(fit.coef_ - [0.5, 0.8, -0.4]) < 3.5 * fit.standard_errors_).all()
    assert 0.6 < fit.dispersion_ < 1.6


def test_start_is_near():
    X, y, partitions = simulate(5)
    problem = problem_of(X, list(joined(y, partitions).tables), "gaussian")
    theta, _ = problem.coordinates.split(starting_point(problem))
    coef, _ = problem.design.to_coefficients(theta)
    np.testing.assert_allclose(coef, [0.5, 0.8, -0.4], atol=0.25)


def test_one_way_tables_of_the_features_identify_them():
    """Two blocks per table: few blocks in all, and the sufficient statistics of the model."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (5000, 6)).astype(float)
    y = X @ np.linspace(-1, 1, 6) + rng.normal(size=5000)
    target = joined(y, [x.astype(int).astype(str) for x in X.T])
    fit = unbin.AggregatedGLM().fit(X, target)
    assert fit.diagnostics_.identified  # 12 blocks; 24 would be asked of a single table
    assert (np.abs(fit.coef_ - np.linspace(-1, 1, 6)) < 4 * fit.standard_errors_).all()
    assert (fit.diagnostics_.efficiency > 0.7).all()


def test_everybody_in_one_block_is_not_identified_however_often():
    X, y, _ = simulate(0)
    everybody = np.full(len(y), "all")
    edges = [[-np.inf, -1, 0, 1, np.inf], [-np.inf, -0.5, 0.5, np.inf]]
    target = unbin.join(*(unbin.aggregate(y, everybody, cut).align(everybody) for cut in edges))
    with pytest.warns(unbin.exceptions.IdentificationWarning, match="a single block"):
        unbin.AggregatedGLM().fit(X, target)


def test_slopes_are_those_within_counties_and_predictions_those_of_everybody():
    """Large county effects: a logit of everybody has smaller slopes than one within counties.

    Slopes of several tables are those within counties, as of one table: expectations are averages
    over the random intercepts. The logit of what is predicted has the slopes of everybody.
    """
    rng = np.random.default_rng(2)
    county = np.repeat(np.arange(60), 200)
    X = rng.integers(0, 2, (12000, 2)).astype(float)
    eta = X @ [1.0, -1.0] + 2.0 * rng.normal(size=60)[county]
    y = (rng.random(12000) < 1 / (1 + np.exp(-eta))).astype(float)
    ids = [county.astype(str), *X.T.astype(int).astype(str)]
    fit = unbin.AggregatedGLM("binomial").fit(X, joined(y, ids, [-1, 0, 1]))
    everybody = unbin.AggregatedGLM("binomial").fit(X, y)
    assert fit.block_sd_ > 1
    assert (np.abs(fit.coef_ - [1.0, -1.0]) < 3 * fit.standard_errors_).all()
    predicted = sm.GLM(fit.predict(X), sm.add_constant(X), family=sm.families.Binomial()).fit()
    np.testing.assert_allclose(predicted.params[1:], everybody.coef_, atol=0.05)
    assert (np.abs(everybody.coef_) < 0.8).all()  # 1 within counties
    np.testing.assert_allclose(fit.predict(X).mean(), y.mean(), atol=0.02)
