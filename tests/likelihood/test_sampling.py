"""Rows that are a sample of a block's people: moments, the corrected score, and slopes."""

from dataclasses import replace

import numpy as np
import pytest

import survey_weights
import unbin
from tests.helpers.stacks import problem_of
from unbin.families import get_family
from unbin.likelihood.data.problem import make_problem
from unbin.likelihood.infer.people import score_variance
from unbin.likelihood.model import sampling
from unbin.likelihood.model.law import Law
from unbin.likelihood.model.moments import groups_of, map_cells
from unbin.likelihood.model.score import score_sums
from unbin.rows.design import lay_out

pytestmark = pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
BINS = {"gaussian": [-np.inf, -0.5, 0.5, np.inf], "poisson": [-1, 0, 1, 3, np.inf]}
SLOPES = np.array([0.6, -0.5])


def uncorrected(model, columns, people, place, blocks, coordinates, free, cuts):
    """Stand in for ``sampling.correct``: nothing is corrected."""
    return np.zeros((len(people), len(free))), np.zeros((len(free), len(free)))


def draw(family, seed, *, n_blocks=300, size=60, unequal=False):
    """People of many small blocks, their counts, and a sample of a sixth of each."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_blocks), size)
    x = 0.5 * rng.normal(size=n_blocks)[codes] + rng.normal(size=len(codes))
    z = (rng.random(len(codes)) < rng.uniform(0.2, 0.8, n_blocks)[codes]).astype(float)
    X = np.column_stack([x, z])
    eta = X @ SLOPES
    y = rng.poisson(np.exp(eta)) if family == "poisson" else eta + rng.normal(size=len(eta))
    chance = np.exp(0.4 * x) if unequal else np.ones(len(codes))
    chance = chance * (size / 6 / np.bincount(codes, chance))[codes]
    # systematically, in random order within blocks; whole numbers of a block are drawn
    end = np.floor(np.cumsum(chance) + rng.random())
    rows = np.flatnonzero(np.diff(end, prepend=0.0) > 0)
    return X, y.astype(float), codes, rows, 1 / chance[rows]


def sampled_problem(family, X, y, codes, rows, weights):
    release = unbin.aggregate(y, codes.astype(str), BINS[family])
    kept = release.align(codes[rows].astype(str), weights=weights, weighting="survey")
    design = lay_out(X[rows], kept.codes, len(release), weights=weights, sampled=True)
    return make_problem(design, [kept.release], get_family(family))


def truth(problem):
    theta = problem.design.from_coefficients(SLOPES, 0.0)
    return problem.coordinates.join(theta, np.zeros(problem.coordinates.n_nuisance))


def moments_of(problem, free):
    """Those of the first blocks, of few all."""
    return next(map_cells(problem, free, lambda sums: groups_of(problem, free, sums)))


def z_scores(problem):
    """The score at the truth, over its standard error between blocks."""
    free = truth(problem)
    found = score_sums(problem, free, np.zeros(len(free))).block_scores
    return found.sum(axis=0) / (found.std(axis=0) * np.sqrt(len(found)))


@pytest.mark.parametrize(("family", "unequal"), [("poisson", False), ("gaussian", True)])
def test_the_corrected_score_is_zero_on_average(family, unequal, monkeypatch):
    problems = [
        sampled_problem(family, *draw(family, seed, size=120, unequal=unequal))
        for seed in range(16)
    ]
    found = np.array([z_scores(problem) for problem in problems])
    pooled = found.sum(axis=0) / np.sqrt(len(found))  # standard normal
    # of unequal weights the level of a block is itself a ratio, off by the order of 1 / rows
    assert np.abs(pooled[1:3]).max() < 3.5
    assert unequal or abs(pooled[0]) < 3.5
    monkeypatch.setattr(sampling, "correct", uncorrected)
    alone = np.array([z_scores(problem) for problem in problems]).sum(axis=0) / np.sqrt(len(found))
    assert np.abs(alone).max() > 5


def test_the_sampling_variance_is_a_sum_over_rows():
    X, y, codes, rows, weights = draw("poisson", 0, n_blocks=5, unequal=True)
    problem = sampled_problem("poisson", X, y, codes, rows, weights)
    free = truth(problem)
    moments = moments_of(problem, free)
    family, counts = get_family("poisson"), problem.first.counts
    q = family.bins(X[rows] @ SLOPES, counts.lower, counts.upper, np.zeros(0)).probability
    for b in range(5):
        here = codes[rows] == b
        w, own = weights[here], q[here]
        mean, total = w @ own / w.sum(), w.sum()
        plain = np.zeros((q.shape[1], q.shape[1]))
        for weight, row in zip(w, own, strict=True):
            plain += weight * (weight - 1) * np.outer(row - mean, row - mean)
        few = 1 / (1 - (w**2).sum() / total**2)
        brought = counts.n[b] / total
        expected = few * brought**2 * plain
        np.testing.assert_allclose(moments.sampling.covariance[b], expected, rtol=1e-9, atol=1e-9)
        given = np.diag(w @ own) - (own.T * w) @ own
        np.testing.assert_allclose(
            moments.covariance[b], brought * given + expected, rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize(("total", "effects", "noise"), [(False, 0.0, 0.0), (True, 0.1, 2.0)])
def test_the_correction_leaves_out_one_row_at_a_time(total, effects, noise):
    X, y, codes, rows, weights = draw("gaussian", 1, n_blocks=3, unequal=True)
    release = replace(unbin.aggregate(y, codes.astype(str), BINS["gaussian"]), noise_sd=noise)
    if total:
        mean = np.bincount(codes, y) / np.bincount(codes)
        means = unbin.Release.from_means({"block": release.blocks, "mean": mean})
        release = release.combine(means)
    kept = release.align(codes[rows].astype(str), weights=weights, weighting="survey")
    design = lay_out(X[rows], kept.codes, 3, weights=weights, sampled=True)
    problem = make_problem(design, [kept.release], get_family("gaussian"))
    problem = replace(problem, block_variance=effects)
    free = truth(problem)
    sums = score_sums(problem, free, np.zeros(len(free)))
    score, taken = plain_correction(problem, free)
    bare = plain_scores(problem, free)
    np.testing.assert_allclose(sums.block_scores, bare + score, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(sums.sampled, (taken + taken.T) / 2, rtol=1e-6, atol=1e-6)


def plain_rows(problem, free):
    """q, d and the covariance of every row, its weight and its block."""
    rows, law = problem.design.in_memory(), Law.of(problem, free)
    theta, nuisance = problem.coordinates.split(free)
    model = law.rows(rows, slice(0, len(rows)), theta, nuisance, True)
    x = np.column_stack([np.ones(len(rows)), rows.matrix])
    d = np.concatenate(
        [model.d_eta[:, :, None] * x[:, None, :], model.d_nuisance[0][:, :, None]], 2
    )
    k = law.n_bins
    own = np.zeros((*model.mean.shape, model.mean.shape[1]))
    own[:, :k, :k] = [np.diag(q) - np.outer(q, q) for q in model.mean[:, :k]]
    if law.unit is not None:
        own[:, k, :], own[:, :, k] = model.extra, model.extra
    return model.mean, d, own, rows.weights, rows.codes(slice(0, len(rows)))


def plain_weight(problem, b, q, d, own, w):
    """S⁻¹ D of a block from some of its rows."""
    counts = problem.first.counts
    n, total, k = counts.n[b], w.sum(), counts.n_bins
    rho, few = q - w @ q / total, 1 / (1 - (w**2).sum() / total**2)
    derivative = n / total * np.einsum("i,ikp->kp", w, d)
    s = n / total * np.einsum("i,ikl->kl", w, own)
    s += few * (n / total) ** 2 * (rho.T * w * (w - 1)) @ rho
    s += problem.block_variance * np.outer(derivative[:, 0], derivative[:, 0])
    if counts.noise is not None:
        s[np.arange(k), np.arange(k)] += counts.noise[b]
    s += 1e-6 * np.eye(len(s))
    used = problem.first.used()[b]
    weight = np.zeros_like(derivative)
    weight[used] = np.linalg.solve(s[np.ix_(used, used)], derivative[used])
    return weight


def blocks_of(problem, free):
    """For each block its rows, what is apart of their mean, and the weights made of all rows."""
    q, d, own, w, codes = plain_rows(problem, free)
    for b in range(len(problem.first.counts.n)):
        here = codes == b
        mine = q[here], d[here], own[here], w[here]
        weight = w[here] / w[here].sum()
        rho, away = q[here] - weight @ q[here], d[here] - np.tensordot(weight, d[here], 1)
        yield b, mine, rho, away, plain_weight(problem, b, *mine)


def plain_scores(problem, free):
    found = []
    for b, (q, _, _, w), _, _, weight in blocks_of(problem, free):
        n, target = problem.first.counts.n[b], problem.first.counts.count[b]
        if problem.first.means is not None:
            target = np.append(target, problem.first.means[b] * n / problem.unit)
        found.append(weight.T @ (target - n / w.sum() * (w @ q)))
    return np.array(found)


def plain_correction(problem, free):
    score, taken = [], 0.0
    for b, mine, rho, away, whole in blocks_of(problem, free):
        own = np.zeros(len(free))
        w = mine[3]
        for i in range(len(w)):
            left = np.arange(len(w)) != i
            rest = plain_weight(problem, b, *(each[left] for each in mine))
            moved = (w[i] - 1) * problem.first.counts.n[b] / w.sum() * (whole - rest)
            own += moved.T @ rho[i]
            taken = taken + moved.T @ away[i]
        score.append(own)
    return np.array(score), taken


def test_a_block_of_one_row_weighs_as_one_person():
    X, y, codes, rows, weights = draw("poisson", 3, n_blocks=4)
    keep = (codes[rows] != 2) | (np.cumsum(codes[rows] == 2) == 1)
    rows, weights = rows[keep], weights[keep]
    weights[codes[rows] == 2] = 60.0
    problem = sampled_problem("poisson", X, y, codes, rows, weights)
    moments = moments_of(problem, truth(problem))
    alone = moments.covariance[2] - moments.sampling.covariance[2]
    np.testing.assert_allclose(moments.covariance[2], 60 * alone, rtol=1e-9)
    found = score_sums(problem, truth(problem), np.zeros(3))
    assert np.isfinite(found.score).all()
    assert np.isfinite(found.information).all()


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_weights_of_one_are_no_sample(family, several):
    X, y, codes, _, _ = draw(family, 2, n_blocks=30)
    groups = [codes.astype(str)]
    groups += [np.digitize(X[:, 0], [-1.0, 0.0, 1.0]).astype(str)] if several else []

    def fit(**how):
        tables = [unbin.aggregate(y, ids, BINS[family]).align(ids, **how) for ids in groups]
        target = unbin.join(*tables) if several else tables[0]
        return unbin.AggregatedGLM(family).fit(X, target)

    plain, same = fit(), fit(weights=np.ones(len(y)), weighting="survey")
    np.testing.assert_allclose(same.coef_, plain.coef_, rtol=1e-10)
    np.testing.assert_allclose(same.standard_errors_, plain.standard_errors_, rtol=1e-10)


def test_one_table_is_corrected_as_one_of_several():
    X, y, codes, rows, weights = draw("poisson", 4, n_blocks=40, unequal=True)
    problem = sampled_problem("poisson", X, y, codes, rows, weights)
    release = unbin.aggregate(y, codes.astype(str), BINS["poisson"])
    kept = release.align(codes[rows].astype(str), weights=weights, weighting="survey")
    # the same table beside itself
    both = problem_of(X[rows], [kept, kept], "poisson", beside=(1,), weights=weights, sampled=True)
    free = truth(problem)
    one, other = (score_sums(each, free, np.zeros(3)) for each in (problem, both))
    np.testing.assert_allclose(other.block_scores, one.block_scores, rtol=1e-8)
    np.testing.assert_allclose(other.score, 2 * one.score, rtol=1e-8)
    np.testing.assert_allclose(other.information, 2 * one.information, rtol=1e-8)
    np.testing.assert_allclose(other.sampled, 2 * one.sampled, rtol=1e-8)


def test_the_score_of_several_tables_varies_as_it_says():
    """Standard errors from M, against those of scores at the truth over draws of people."""
    X, _, codes, _, _ = draw("gaussian", 5, n_blocks=40)
    partitions = [np.char.zfill(codes.astype(str), 2), np.digitize(X[:, 0], [-1, 0, 1]).astype(str)]
    score, with_taken, without = [], [], []
    for seed in range(250):
        rng = np.random.default_rng(seed)
        y = X @ SLOPES + rng.normal(size=len(X))
        rows = np.sort(np.lexsort((rng.random(len(X)), codes))[np.arange(len(X)) % 60 < 10])
        how = {"weights": np.full(len(rows), 6.0), "weighting": "survey"}
        tables = [unbin.aggregate(y, p, BINS["gaussian"]).align(p[rows], **how) for p in partitions]
        problem = problem_of(X[rows], tables, "gaussian", weights=how["weights"], sampled=True)
        assert problem.plan.beside == (1,)
        # columns of the same scale in every sample
        design, turn = problem.design, np.eye(4)
        turn[1:3, 1:3], turn[0, 1:3] = np.diag(design.scale), design.center
        free = np.append(design.from_coefficients(SLOPES, 0.0), 0.0)
        sums = score_sums(problem, free, np.zeros(4))
        meat = sum(score_variance(problem, free, sums))
        taken = sums.sampled
        bread = np.linalg.inv(turn.T @ sums.information @ turn)
        score.append(turn.T @ sums.score)
        for into, matrix in ((with_taken, meat), (without, meat - taken)):
            into.append((bread, turn.T @ matrix @ turn))

    def errors(found):
        bread, matrix = (np.mean(each, axis=0) for each in zip(*found, strict=True))
        return np.sqrt(np.diag(bread @ matrix @ bread))

    bread = np.mean([each for each, _ in with_taken], axis=0)
    true = np.sqrt(np.diag(bread @ np.cov(np.transpose(score)) @ bread))
    assert np.abs(errors(with_taken) / true - 1).max() < 0.13
    assert (errors(without) / true).mean() < 0.95 < (errors(with_taken) / true).mean()


# -- slopes of a few data sets; experiments/survey_weights.py has more -----------------------------


def errors(scene, how, runs):
    found = [survey_weights.one_run(scene, how, seed) for seed in range(runs)]
    assert all(run.solved for run in found)
    return np.array([run.error for run in found]), np.array([run.se for run in found])


def misses(error, se):
    """Mean squared error over standard error: 1 where these are right, √(2 / m) around it."""
    return float(((error / se) ** 2).mean())


def bias(error):
    """Mean error, in standard errors of it, of the slope that is furthest off."""
    return float(np.abs(error.mean(axis=0) / error.std(axis=0) * np.sqrt(len(error))).max())


@pytest.mark.parametrize("several", [False, True])
def test_standard_errors_of_a_sample(several):
    scene = survey_weights.Scene("gaussian", several)
    error, se = errors(scene, "survey", 20)
    assert misses(error, se) < 1.9  # 40 slopes, four standard errors
    assert bias(error) < 3.5
    error, se = errors(scene, "frequency", 20)
    assert misses(error, se) > 2.2


def test_without_the_correction_slopes_are_off(monkeypatch):
    scene = survey_weights.Scene("gaussian", unequal=True)
    error, se = errors(scene, "survey", 20)
    assert bias(error) < 3.5
    assert misses(error, se) < 1.9
    monkeypatch.setattr(sampling, "correct", uncorrected)
    error, se = errors(scene, "survey", 20)
    assert bias(error) > 5
    assert misses(error, se) > 1.9


def test_skewed_outcomes_are_not_corrected_too_far():
    error, se = errors(survey_weights.Scene("poisson"), "survey", 20)
    assert bias(error) < 3.5
    assert misses(error, se) < 1.9
