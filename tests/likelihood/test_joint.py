"""Several tables of the same people: scores, their variance, random intercepts, and the fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from unbin.likelihood.joint import (
    joint_sums,
    make_joint,
    shared_covariance,
)
from unbin.likelihood.joint_fit import fit_joint
from unbin.likelihood.joint_start import Start
from unbin.likelihood.joint_variance import score_variance

import unbin
from unbin.exceptions import ReleaseError
from unbin.families import get_family
from unbin.likelihood import joint, joint_fit
from unbin.likelihood.data.problem import make_problem
from unbin.likelihood.model.score import evidence, reference_bins, score_sums, used_statistics
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


def problem_of(X, targets, family):
    """The joint problem of aligned tables."""
    first, *others = targets
    codes = tuple(target.codes for target in others)
    design = lay_out(X, first.codes, len(first.release), others=codes)
    return make_joint(design, [target.release for target in targets], get_family(family))


def variance_of(problem, free):
    """M, from the sums at some parameters."""
    return sum(score_variance(problem, joint_sums(problem, free, np.zeros(len(free))), free))


def example(family: str, bins=None, seed: int = 0):
    X, partitions = people(seed)
    eta = X @ [0.5, -0.4]
    y = outcome(family, eta, np.random.default_rng(seed + 1))
    bins = [EDGES[family]] * 3 if bins is None else bins
    return X, y, tables(y, partitions, bins)


@pytest.mark.parametrize("family", list(FREE))
def test_the_scores_of_the_tables_add(family):
    X, _, targets = example(family)
    found = joint_sums(problem_of(X, targets, family), FREE[family], np.zeros(len(FREE[family])))
    score, information = 0.0, 0.0
    for target, own in zip(targets, found.tables, strict=True):
        design = lay_out(X, target.codes, len(target.release))
        alone = make_problem(design, target.release, get_family(family))
        sums = score_sums(alone, FREE[family], np.zeros(len(FREE[family])))
        np.testing.assert_allclose(own.block_scores, sums.block_scores, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(own.mean, sums.mean, rtol=1e-10)
        score, information = score + sums.score, information + sums.information
    np.testing.assert_allclose(found.score, score, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.information, information, rtol=1e-9)


def test_sums_by_block_are_made_of_crossed_cells(monkeypatch):
    X, partitions = people()
    y = outcome("gaussian", X @ [0.5, -0.4], np.random.default_rng(1))
    ward = np.random.default_rng(2).integers(0, 3, len(y)).astype(str)
    edges = EDGES["gaussian"]
    bins = [edges, edges, edges, [-np.inf, 0.0, np.inf], edges]
    problem = problem_of(X, tables(y, [*partitions, ward, partitions[1]], bins), "gaussian")
    rows = problem.first.design.in_memory()
    crossings = joint._crossings(problem.views(), joint.partitions_of(rows))
    # sex and age together; wards have other bins, and are not crossed with what comes after
    assert [crossing.tables for crossing in crossings] == [(0,), (1, 2), (3,), (4,)]
    assert [crossing.n_cells for crossing in crossings] == [8, 10, 3, 2]
    together = joint._moments(problem, FREE["gaussian"])
    monkeypatch.setattr(joint, "_MOST_CELLS", 1)
    for one, other in zip(together, joint._moments(problem, FREE["gaussian"]), strict=True):
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
        np.testing.assert_allclose(one.derivative, other.derivative, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-10, atol=1e-12)


def test_thresholds_live_on_the_union_of_edges():
    bins = [[-np.inf, -0.7, 0.2, np.inf], [-np.inf, 0.2, 1.0, np.inf], [-np.inf, 1.0, np.inf]]
    X, _, targets = example("ordinal", bins)
    problem = problem_of(X, targets, "ordinal")
    np.testing.assert_array_equal(problem.upper, [-0.7, 0.2, 1.0, np.inf])
    free = FREE["ordinal"]
    moments = joint._moments(problem, free)
    for j in range(len(free)):
        step = 1e-6 * (np.arange(len(free)) == j)
        up, down = joint._moments(problem, free + step), joint._moments(problem, free - step)
        for at, high, low in zip(moments, up, down, strict=True):
            slope = (high.mean - low.mean) / 2e-6
            np.testing.assert_allclose(at.derivative[:, :, j], slope, rtol=1e-5, atol=1e-5)


# -- the variance of the score ---------------------------------------------------------------------


def stacked(problem, free):
    """Weights of all tables' statistics, one below the other, (statistics, p)."""
    rows = []
    for table, part in zip(problem.tables, joint._moments(problem, free), strict=True):
        said = evidence(table, part)
        used = used_statistics(table)
        left_out = np.arange(table.n_statistics) == reference_bins(table)[:, None]
        keep = used & ~left_out
        for b in range(len(keep)):
            shift = said.shift[b, keep[b]]
            s = said.covariance[b][np.ix_(keep[b], keep[b])]
            s = s + table.block_variance * np.outer(shift, shift) + 1e-6 * np.eye(len(s))
            weight = np.zeros((table.n_statistics, len(free)))
            weight[keep[b]] = np.linalg.solve(s, said.derivative[b, keep[b]])
            rows.append(weight)
    return np.concatenate(rows)


def brute_force(problem, free, weights, codes):
    """Σ_i Wᵀ Cov(person i's statistics) W, person by person, bin by finest bin."""
    rows, family = problem.first.design.in_memory(), problem.first.family
    theta, nuisance = problem.first.coordinates.split(free)
    eta = rows.eta(theta)
    cuts = np.unique(np.concatenate([t.counts.upper[..., :-1].ravel() for t in problem.tables]))
    cuts = cuts[np.isfinite(cuts)]
    integer = family.domain.integer
    lower = np.concatenate([[family.domain.low], cuts + 1 if integer else cuts])
    upper = np.concatenate([cuts, [family.domain.high]])
    q = family.bins(eta, lower, upper, nuisance).probability
    within = family.bin_means(eta, lower, upper, nuisance) if not family.free_shape else None
    start, total = 0, np.zeros((len(free), len(free)))
    places = []
    for table in problem.tables:
        size = table.n_statistics
        places.append(start)
        start += size * len(table.counts.n)
    for i in range(len(eta)):
        values = np.zeros((len(upper), start))  # the person's statistics, by finest bin
        spread = np.zeros(start)
        for table, place, code in zip(problem.tables, places, codes, strict=True):
            counts, size, b = table.counts, table.n_statistics, code[i]
            low, high = (np.broadcast_to(e, counts.count.shape)[b] for e in (
                counts.lower, counts.upper))  # fmt: skip
            for k in range(len(upper)):
                holds = (low <= lower[k]) & (upper[k] <= high)
                values[k, place + b * size : place + b * size + counts.n_bins] = holds
                if table.means is not None:
                    values[k, place + b * size + size - 1] = within[i, k] / table.means.unit
            if table.means is not None:
                spread[place + b * size + size - 1] = 1 / table.means.unit
        a = values @ weights
        level = q[i] @ a
        total += (a - level).T @ ((a - level) * q[i][:, None])
        if spread.any():
            mean = family.inverse_link(eta[i : i + 1])[0]
            variance = family.variance(eta[i : i + 1], nuisance)[0]
            inside = variance - q[i] @ (within[i] - mean) ** 2
            along = spread @ weights
            total += inside * np.outer(along, along)
    return total


def codes_of(problem):
    rows = problem.first.design.in_memory()
    return [np.repeat(rows.blocks, np.diff(rows.start)), *rows.others]


@pytest.mark.parametrize("family", ["gaussian", "poisson", "ordinal"])
def test_the_variance_of_the_score_is_a_sum_over_people(family):
    X, _, targets = example(family)
    problem = problem_of(X, targets, family)
    expected = brute_force(problem, FREE[family], stacked(problem, FREE[family]), codes_of(problem))
    np.testing.assert_allclose(variance_of(problem, FREE[family]), expected, rtol=1e-7)


def test_tables_may_have_different_bins():
    bins = [[-np.inf, -0.7, 0.2, np.inf], [-np.inf, 0, np.inf], [-np.inf, -0.3, 0.2, 1, np.inf]]
    X, _, targets = example("gaussian", bins)
    problem, free = problem_of(X, targets, "gaussian"), FREE["gaussian"]
    expected = brute_force(problem, free, stacked(problem, free), codes_of(problem))
    np.testing.assert_allclose(variance_of(problem, free), expected, rtol=1e-7)


def test_tables_may_have_means_and_quantiles():
    X, partitions = people()
    y = outcome("gaussian", X @ [0.5, -0.4], np.random.default_rng(1))
    county, sex, age = partitions
    groups = np.unique(age)
    means = Release.from_means(
        {
            "block": np.unique(sex),
            "mean": [y[sex == s].mean() for s in np.unique(sex)],
            "n": [(sex == s).sum() for s in np.unique(sex)],
        },
        n="n",
    )
    quantiles = Release.from_quantiles(
        {
            "block": np.repeat(groups, 3),
            "quantile": np.tile([0.25, 0.5, 0.75], len(groups)),
            "value": np.concatenate([np.quantile(y[age == g], [0.25, 0.5, 0.75]) for g in groups]),
            "n": np.repeat([(age == g).sum() for g in groups], 3),
        },
        n="n",
    )
    first = unbin.aggregate(y, county, EDGES["gaussian"])
    targets = [first.align(county), means.align(sex), quantiles.align(age)]
    problem, free = problem_of(X, targets, "gaussian"), FREE["gaussian"]
    assert not problem.tables[2].counts.shared
    expected = brute_force(problem, free, stacked(problem, free), codes_of(problem))
    np.testing.assert_allclose(variance_of(problem, free), expected, rtol=1e-6)


def test_random_intercepts_enter_every_table():
    X, _, targets = example("gaussian")
    problem, free = problem_of(X, targets, "gaussian"), FREE["gaussian"]
    variance = [0.2, 0.0, 0.1]
    shared = shared_covariance(problem.with_effects(variance, [None] * 3), free, variance)
    problem = problem.with_effects(variance, shared)
    rows, codes = problem.first.design.in_memory(), codes_of(problem)
    theta, nuisance = problem.first.coordinates.split(free)
    model = problem.law.at(rows.eta(theta), problem.lower, problem.upper, nuisance, False)
    for t, own in enumerate(shared):
        expected = np.zeros_like(own)
        for s, tau in enumerate(variance):
            for g in range(len(own)):
                for b in np.unique(codes[s]) if s != t else ():
                    e = model.d_eta[(codes[t] == g) & (codes[s] == b)].sum(axis=0)
                    expected[g] += tau * np.outer(e, e)
        np.testing.assert_allclose(own, expected, atol=1e-10)
    bare = brute_force_with_law(problem, free, codes)
    np.testing.assert_allclose(variance_of(problem, free), bare, rtol=1e-7)


def brute_force_with_law(problem, free, codes):
    """M of tables with the same bins, random intercepts included."""
    rows = problem.first.design.in_memory()
    theta, nuisance = problem.first.coordinates.split(free)
    model = problem.law.at(rows.eta(theta), problem.lower, problem.upper, nuisance, False)
    weights, k = stacked(problem, free), len(problem.upper)
    a, start = np.zeros((len(rows), k, len(free))), 0
    for table, code in zip(problem.tables, codes, strict=True):
        size = k * len(table.counts.n)
        a += weights[start : start + size].reshape(-1, k, len(free))[code]
        start += size
    level = np.einsum("nk,nkp->np", model.mean, a)
    away = a - level[:, None]
    total = np.einsum("nk,nkp,nkq->pq", model.mean, away, away)
    along = np.einsum("nk,nkp->np", model.d_eta, a)
    total -= sum(table.block_variance for table in problem.tables) * along.T @ along
    for table, code in zip(problem.tables, codes, strict=True):
        for b in np.unique(code):
            h = along[code == b].sum(axis=0)
            total += table.block_variance * np.outer(h, h)
    return total


@pytest.mark.parametrize("how", ["exact", "noise", "rounded"])
def test_the_score_varies_as_it_says(how):
    """Against draws at the true parameters, also of counts that are noisy or rounded."""
    X, partitions = people(n=400, blocks=6)
    free, rng = np.array([0.1, 0.4, -0.3, 0.0]), np.random.default_rng(5)
    theta, design = free[:3], lay_out(X, np.zeros(len(X), np.int64), 1)
    eta = design.to_rows_of_x(design.eta(theta))
    scores = []
    for _ in range(400):
        y = eta + rng.normal(size=len(X))
        releases = [unbin.aggregate(y, ids, EDGES["gaussian"]) for ids in partitions]
        if how == "noise":
            releases = [_noisy(release, rng) for release in releases]
        elif how == "rounded":
            releases = [_rounded(release) for release in releases]
        targets = [r.align(ids) for r, ids in zip(releases, partitions, strict=True)]
        problem = problem_of(X, targets, "gaussian")
        scores.append(joint_sums(problem, free, np.zeros(4)).score)
    sd = np.sqrt(np.diag(variance_of(problem, free)))
    assert np.abs(np.mean(scores, axis=0) / sd).max() < 0.2
    assert np.abs(np.std(scores, axis=0) / sd - 1).max() < 0.12


def _noisy(release: Release, rng: np.random.Generator) -> Release:
    table = release.histogram
    noisy = replace(table, count=table.count + rng.normal(0, 3.0, len(table.count)))
    return replace(release, noise_sd=3.0, histogram=noisy)


def _rounded(release: Release) -> Release:
    table = release.histogram
    codes = np.repeat(np.arange(len(release)), np.diff(table.start))
    return Release.from_histogram(
        {
            "block": release.blocks[codes],
            "lower": table.lower,
            "upper": table.upper,
            "count": 20 * np.round(table.count / 20),
        },
        rounding="nearest-20",
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


def test_effects_of_counties_are_not_taken_for_those_of_hospitals(monkeypatch):
    X, y, partitions = simulate(3, effects=0.5, blocks=60, size=200)
    rng = np.random.default_rng(0)
    near = rng.random(len(y)) < 0.7  # most people go to the hospital of their county
    hospital = np.where(near, partitions[0].astype(int) % 12, rng.integers(0, 12, len(y)))
    target = joined(y, [partitions[0], hospital.astype(str), partitions[2]])
    fit = unbin.AggregatedGLM().fit(X, target)
    assert 0.35 < fit.tables_[0].block_sd < 0.65
    assert fit.tables_[1].block_sd == fit.tables_[2].block_sd == 0
    # without what counties do to the counts of hospitals these would seem to have effects too
    monkeypatch.setattr(joint_fit, "shared_covariance", lambda *_: [None] * 3)
    assert unbin.AggregatedGLM().fit(X, target).tables_[1].block_sd > 0


def test_one_table_joined_is_the_table():
    X, y, partitions = simulate(1)
    target = joined(y, partitions[:1])
    alone = unbin.AggregatedGLM().fit(X, target.tables[0])
    again = unbin.AggregatedGLM().fit(X, target)
    np.testing.assert_allclose(again.coef_, alone.coef_, rtol=1e-4)


def test_a_table_that_says_nothing_is_refused():
    X, partitions = people()
    design = lay_out(X, np.unique(partitions[0], return_inverse=True)[1], 8)
    release = (
        unbin.aggregate(np.zeros(len(X)), partitions[0], [-np.inf, np.inf])
        .align(partitions[0])
        .release
    )
    with pytest.raises(ReleaseError, match="must distinguish people"):
        fit_joint(design, [release], get_family("gaussian"))


def test_means_alone():
    X, y, partitions = simulate(2)
    targets = []
    for ids in partitions:
        names = np.unique(ids)
        frame = {
            "block": names,
            "mean": [y[ids == name].mean() for name in names],
            "n": [(ids == name).sum() for name in names],
        }
        targets.append(Release.from_means(frame, n="n").align(ids))
    fit = unbin.AggregatedGLM().fit(X, unbin.join(*targets))
    assert (np.abs(fit.coef_ - [0.5, 0.8, -0.4]) < 3.5 * fit.standard_errors_).all()
    assert 0.6 < fit.dispersion_ < 1.6


def test_order_of_the_tables_does_not_matter():
    X, y, partitions = simulate(4)
    one = unbin.AggregatedGLM().fit(X, joined(y, partitions))
    other = unbin.AggregatedGLM().fit(X, joined(y, partitions[::-1]))
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-4)
    np.testing.assert_allclose(one.standard_errors_, other.standard_errors_, rtol=1e-3)


def test_start_is_near():
    X, y, partitions = simulate(5)
    targets = joined(y, partitions).tables
    problem = problem_of(X, list(targets), "gaussian")
    theta, _ = problem.first.coordinates.split(Start.of(problem).point())
    coef, _ = problem.first.design.to_coefficients(theta)
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


def test_families_that_absorb_effects_have_the_slopes_of_the_population():
    """Large county effects: a logit of everybody has smaller slopes than one within counties."""
    rng = np.random.default_rng(2)
    county = np.repeat(np.arange(60), 200)
    X = rng.integers(0, 2, (12000, 2)).astype(float)
    eta = X @ [1.0, -1.0] + 2.0 * rng.normal(size=60)[county]
    y = (rng.random(12000) < 1 / (1 + np.exp(-eta))).astype(float)
    ids = [county.astype(str), *X.T.astype(int).astype(str)]
    target = joined(y, ids, [-1, 0, 1])
    fit = unbin.AggregatedGLM("binomial").fit(X, target)
    everybody = unbin.AggregatedGLM("binomial").fit(X, y)
    assert fit.block_sd_ > 1
    np.testing.assert_allclose(fit.coef_, everybody.coef_, atol=0.05)
    assert (np.abs(everybody.coef_) < 0.8).all()  # 1 within counties
    np.testing.assert_allclose(fit.predict(X).mean(), y.mean(), atol=0.02)
