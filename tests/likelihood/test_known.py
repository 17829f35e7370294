"""People whose outcome is known: their score, its variance beside tables, and the fit."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from glum import GeneralizedLinearRegressor
from scipy.special import expit

import observed
import unbin
from tests.helpers import stacks
from unbin.exceptions import ParameterError
from unbin.fitting.methods import inside
from unbin.likelihood.infer.people import score_variance
from unbin.likelihood.model.score import score_sums

pytestmark = pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
SLOPES = np.array([0.4, -0.3])
EDGES = {
    "gaussian": [-np.inf, -0.7, 0.2, 1.0, np.inf],
    "poisson": [-1, 0, 1, 2, np.inf],
    "negative-binomial": [-1, 0, 1, 2, np.inf],
    "binomial": [-1, 0, 1],
    "gamma": [0, 0.5, 1.0, 2.0, np.inf],
    "ordinal": [-np.inf, -0.7, 0.2, 1.0, np.inf],
}
NUISANCE = {"gaussian": [0.0], "gamma": [-0.3], "negative-binomial": [-0.2]}


def people(seed=0, n=360, blocks=12):
    """Features, and two partitions: counties and sex."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    X = np.column_stack([rng.normal(size=n) + 0.4 * sex, sex.astype(float)])
    county = np.char.zfill((np.arange(n) % blocks).astype(str), 2)
    return X, [county, sex.astype(str)]


def outcome(family, eta, rng):
    if family == "negative-binomial":
        return rng.negative_binomial(2, 2 / (2 + np.exp(eta))).astype(float)
    return {
        "gaussian": lambda: eta + rng.normal(size=len(eta)),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "binomial": lambda: rng.binomial(1, expit(eta)).astype(float),
        "gamma": lambda: rng.gamma(2.0, np.exp(eta) / 2.0),
        "ordinal": lambda: eta + rng.logistic(size=len(eta)),
    }[family]()


def problem_of(family, X, partitions, y, rows, *, disjoint=False, beside=()):
    """The problem of tables and of the people of some rows, who are known."""
    known = np.full(len(y), np.nan)
    known[rows] = y[rows]
    tables = [unbin.aggregate(y, ids, EDGES[family]).align(ids) for ids in partitions]
    target = unbin.join(*tables, unbin.observed(known, disjoint=disjoint))
    first = target.tables[0]
    weights = None if first.weights is None else first.weights.values
    targets = list(target.tables)
    return stacks.problem_of(X, targets, family, beside=beside, weights=weights, known=rows, y=y)


def example(family, seed=0, n_known=120):
    X, partitions = people(seed)
    rng = np.random.default_rng(seed + 1)
    y = outcome(family, X @ SLOPES, rng)
    rows = np.sort(rng.choice(len(y), n_known, replace=False))
    problem = problem_of(family, X, partitions, y, rows)
    coordinates = problem.coordinates
    nuisance = NUISANCE.get(family, np.linspace(-0.7, 1.0, coordinates.n_nuisance))
    free = coordinates.join(problem.design.from_coefficients(SLOPES, 0.1), np.array(nuisance))
    return problem, free


def sums_of(problem, free):
    return score_sums(problem, free, np.zeros(len(free)))


# -- the score of known people ---------------------------------------------------------------------


@pytest.mark.parametrize("family", ["poisson", "binomial", "gaussian"])
def test_score_and_information_are_those_of_the_glm(family):
    problem, free = example(family)
    found = sums_of(problem.known, free)
    rows, y = problem.known.design.in_memory(), problem.known.first.means
    x = np.column_stack([np.ones(len(rows)), rows.matrix])
    eta = x @ free[:3]
    mean = {"poisson": np.exp, "binomial": expit, "gaussian": lambda at: at}[family](eta)
    weight = {"poisson": mean, "binomial": mean * (1 - mean), "gaussian": np.ones(len(y))}[family]
    np.testing.assert_allclose(found.score[:3], x.T @ (y - mean), rtol=2e-5, atol=2e-4)
    np.testing.assert_allclose(
        found.information[:3, :3], x.T @ (weight[:, None] * x), rtol=2e-5, atol=2e-4
    )
    assert np.abs(found.information[:3, 3:]).max(initial=0) < 1e-3  # apart from the dispersion


@pytest.mark.parametrize("family", list(EDGES))
def test_information_is_the_derivative_of_the_expected_score(family):
    problem, free = example(family)
    known, table = problem.known, problem.known.first
    (mean,), k = sums_of(known, free).mean, table.counts.n_bins
    means = None if table.means is None else mean[:, k] * known.unit
    expected = replace(table, counts=replace(table.counts, count=mean[:, :k]), means=means)
    expected = replace(known, tables=(expected,))
    object.__setattr__(expected, "unit", known.unit)
    found = sums_of(expected, free)
    assert np.abs(found.score).max() < 1e-8 * np.abs(found.information).max()
    step, numeric = 1e-5, []
    for j in range(len(free)):
        move = step * (np.arange(len(free)) == j)
        ends = [sums_of(expected, free + s * move).score for s in (1, -1)]
        numeric.append((ends[0] - ends[1]) / (2 * step))
    scale = np.abs(found.information).max()
    np.testing.assert_allclose(-np.array(numeric).T, found.information, atol=1e-5 * scale)


@pytest.mark.parametrize("beside", [(), (1,)])
def test_scores_of_tables_and_known_people_add(beside):
    X, partitions = people()
    y = outcome("poisson", X @ SLOPES, np.random.default_rng(1))
    rows = np.arange(0, len(y), 3)
    problem = problem_of("poisson", X, partitions, y, rows, beside=beside)
    free = problem.design.from_coefficients(SLOPES, 0.1)
    both = sums_of(problem, free)
    tables = sums_of(replace(problem, known=None, home=None), free)
    known = sums_of(problem.known, free)
    np.testing.assert_allclose(both.score, tables.score + known.score)
    np.testing.assert_allclose(both.information, tables.information + known.information)
    np.testing.assert_allclose(both.known.information, known.information)


# -- its variance ----------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [(), (1,)])
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_the_score_varies_as_it_says(family, beside):
    """Against draws at the true parameters: random intercepts move known people and tables.

    Of tables that share a covariance the variance is the information, else it is M. Had known
    people effects of their own, scores would vary by more than that.
    """
    X, partitions = people(3)
    rng, tau = np.random.default_rng(4), 0.4
    rows = np.sort(rng.choice(len(X), 150, replace=False))
    codes = np.unique(partitions[0], return_inverse=True)[1]
    scores, apart = [], []
    for _ in range(300):
        eta = 0.1 + X @ SLOPES + tau * rng.normal(size=12)[codes]
        y = outcome(family, eta, rng)
        problem = problem_of(family, X, partitions, y, rows, beside=beside)
        if not scores:
            spread = [0.0] if family == "gaussian" else []
            theta = problem.design.from_coefficients(SLOPES, 0.1)
            free = problem.coordinates.join(theta, np.array(spread))
        problem = replace(problem, block_variance=tau**2)
        outside = replace(problem, home=np.full_like(problem.home, -1))
        scores.append(sums_of(problem, free).score)
        apart.append(sums_of(outside, free).score)

    def off(each, scores):
        sums = sums_of(each, free)
        meat = sum(score_variance(each, free, sums)) if beside else sums.information
        sd = np.sqrt(np.diag(meat))
        return np.abs(np.mean(scores, axis=0) / sd).max(), np.std(scores, axis=0) / sd - 1

    bias, found = off(problem, scores)
    assert bias < 0.2
    assert np.abs(found).max() < 0.16  # 300 draws: 4 % each
    assert np.abs(off(outside, apart)[1]).max() > 0.2


@pytest.mark.parametrize("variance", [0.0, 0.2])
def test_the_variance_over_people_is_the_information_where_nothing_stands_beside(variance):
    """M = J with the weights of all that is known of a group, but for the jitter of variances."""
    X, partitions = people(3)
    y = outcome("gaussian", X @ SLOPES, np.random.default_rng(4))
    problem = problem_of("gaussian", X, partitions[:1], y, np.arange(0, len(y), 3))
    problem = replace(problem, block_variance=variance)
    free = np.append(problem.design.from_coefficients(SLOPES, 0.1), 0.0)
    for each in (replace(problem, known=None, home=None), problem):
        sums = sums_of(each, free)
        meat, scale = sum(score_variance(each, free, sums)), np.abs(sums.information).max()
        np.testing.assert_allclose(meat, sums.information, atol=1e-5 * scale)


def test_people_outside_a_table_share_no_effect():
    """Each of them is a group, whose effect nobody else has."""
    problem, free = example("gaussian")
    problem = replace(problem, block_variance=0.2)
    outside = replace(problem, home=np.full_like(problem.home, -1))
    tables = replace(problem, known=None, home=None)
    alone = replace(problem.known, block_variance=0.2)
    found = [sums_of(each, free) for each in (problem, outside, tables, alone)]
    for name in ("score", "information"):
        inside, apart, without, known = (getattr(sums, name) for sums in found)
        np.testing.assert_allclose(apart, without + known)
        assert np.abs(inside - apart).max() > 0.05 * np.abs(inside).max()
    assert len(found[1].block_scores) == len(found[2].block_scores) + len(found[3].block_scores)


def test_a_known_row_may_stand_for_several_people():
    X, partitions = people(3)
    rng = np.random.default_rng(4)
    codes = np.unique(partitions[0], return_inverse=True)[1]
    y = outcome("gaussian", X @ SLOPES + rng.normal(size=12)[codes], rng)
    k = rng.integers(1, 4, len(y))

    def fit(X, partitions, y, known, **how):
        tables = [unbin.aggregate(full, ids, EDGES["gaussian"]) for full, ids in published]
        aligned = [t.align(ids, **how) for t, ids in zip(tables, partitions, strict=True)]
        return unbin.AggregatedGLM(tol=1e-9).fit(X, unbin.join(*aligned, unbin.observed(known)))

    published = [(np.repeat(y, k), np.repeat(ids, k)) for ids in partitions]
    asked = told(y, rng.choice(len(y), 120, replace=False))
    weighed = fit(X, partitions, y, asked, weights=k)
    repeated = fit(
        np.repeat(X, k, axis=0),
        [np.repeat(ids, k) for ids in partitions],
        np.repeat(y, k),
        np.repeat(asked, k),
    )
    assert weighed.block_sd_ > 0.5
    # but for what is added to the variance of every statistic, bins that are unlikely above all
    np.testing.assert_allclose(weighed.coef_, repeated.coef_, rtol=1e-4)
    # a sandwich, in which leverage makes more of it
    np.testing.assert_allclose(weighed.standard_errors_, repeated.standard_errors_, rtol=1e-3)


# -- the fit ---------------------------------------------------------------------------------------


def told(y, rows):
    return np.where(np.isin(np.arange(len(y)), rows), y, np.nan)


def fit(family, X, partitions, y, known, **how):
    tables = [unbin.aggregate(y, ids, EDGES[family]).align(ids) for ids in partitions]
    return unbin.AggregatedGLM(family, **how).fit(X, unbin.join(*tables, unbin.observed(known)))


@pytest.mark.parametrize(
    ("family", "alpha"),
    [
        ("gaussian", 0.0),
        ("poisson", 0.0),
        ("poisson", 0.2),
        ("binomial", 0.0),
        ("binomial", 0.2),
        ("gamma", 0.0),
    ],
)
def test_with_everybody_known_it_is_the_ordinary_glm(family, alpha):
    X, partitions = people(5)
    y = outcome(family, X @ SLOPES, np.random.default_rng(6))
    found = fit(family, X, partitions, y, y, alpha=alpha, tol=1e-8)
    plain = unbin.AggregatedGLM(family, alpha=alpha).fit(X, y)
    # the bins of a gamma outcome say a little about its mean beside the outcome itself
    close = 2e-3 if family == "gamma" else 2e-6
    np.testing.assert_allclose(found.coef_, plain.coef_, atol=close)
    assert found.intercept_ == pytest.approx(plain.intercept_, abs=close)
    np.testing.assert_allclose(found.standard_errors_, plain.standard_errors_, rtol=0.03)


def test_outside_people_are_in_no_block():
    ids = np.array(["a", "a", None, "b", None], dtype=object)
    table = unbin.aggregate(np.arange(3.0), ["a", "a", "b"], [-1, 0, 9])
    aligned = table.align(ids, on_missing="drop")
    y = np.array([np.nan, 1.0, 5.0, np.nan, 6.0])
    known = unbin.join(aligned, unbin.observed(y, disjoint=True)).published.known
    codes = inside(aligned.release, known.codes[0])
    assert aligned.release.blocks[codes[0]] == "a"
    assert codes[1:].tolist() == [-1, -1]


def test_with_one_person_not_known():
    X, partitions = people(5)
    y = outcome("gaussian", X @ SLOPES, np.random.default_rng(6))
    found = fit("gaussian", X, partitions, y, told(y, np.arange(1, len(y))))
    plain = unbin.AggregatedGLM("gaussian").fit(X, y)
    np.testing.assert_allclose(found.coef_, plain.coef_, atol=0.3 * plain.standard_errors_.max())


def test_thresholds_need_a_table():
    X, partitions = people(5)
    y = outcome("ordinal", X @ SLOPES, np.random.default_rng(6))
    with pytest.raises(ParameterError, match="'ordinal' needs published bins"):
        fit("ordinal", X, partitions, y, y)


PEERS = {
    "gaussian": ("normal", sm.families.Gaussian()),
    "poisson": ("poisson", sm.families.Poisson()),
    "binomial": ("binomial", sm.families.Binomial()),
    "gamma": ("gamma", sm.families.Gamma(sm.families.links.Log())),
}


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("family", list(PEERS))
def test_known_people_alone_are_the_ordinary_glm(family, joined):
    X, _ = people(7)
    rng = np.random.default_rng(8)
    y = outcome(family, X @ SLOPES, rng)
    rows = np.sort(rng.choice(len(y), 200, replace=False))
    target = unbin.observed(told(y, rows))
    found = unbin.AggregatedGLM(family).fit(X, unbin.join(target) if joined else target)
    name, kind = PEERS[family]
    peer = sm.GLM(y[rows], sm.add_constant(X[rows]), family=kind).fit(tol=1e-12)
    np.testing.assert_allclose(found.coef_, peer.params[1:], atol=1e-6)
    # theirs has Pearson's estimate of a gamma dispersion, ours is the maximum likelihood's
    scale = np.sqrt(found.dispersion_ / peer.scale) if family == "gamma" else 1.0
    np.testing.assert_allclose(found.standard_errors_, scale * peer.bse[1:], rtol=1e-6)
    other = GeneralizedLinearRegressor(
        family=name, link="log" if family == "gamma" else "auto", alpha=0, gradient_tol=1e-10
    ).fit(X[rows], y[rows])
    np.testing.assert_allclose(found.coef_, other.coef_, atol=1e-6)


def test_the_misfit_is_what_is_left_to_the_tables():
    """Known people settle the parameters: the tables then lose hardly a degree of freedom."""
    rng = np.random.default_rng(9)
    ids, ratio, tables, wrong = np.repeat(["a", "b", "c", "d"], 60), [], [], []
    for _ in range(60):
        X = (
            rng.normal(size=(640, 2))
            + np.concatenate([np.repeat(rng.normal(size=4), 60), np.zeros(400)])[:, None]
        )
        y = outcome("gaussian", X @ SLOPES, rng)
        table = unbin.aggregate(y[:240], ids, EDGES["gaussian"])
        where = np.concatenate([ids.astype(object), np.full(400, None)])
        target = unbin.join(
            table.align(where, on_missing="drop"),
            unbin.observed(told(y, np.arange(240, 640)), disjoint=True),
        )
        model = unbin.AggregatedGLM().fit(X, target)
        ratio.append(model.diagnostics_.goodness_of_fit.ratio)
        own = model.tables_[0].goodness_of_fit
        tables.append(own.ratio)
        wrong.append(own.misfit / (own.df - 4))
    # 12 degrees of freedom, 60 times: a standard error of .053
    assert abs(np.mean(ratio) - 1) < 0.2
    assert abs(np.mean(tables) - 1) < 0.2
    assert np.mean(wrong) > 1.25


# -- slopes of a few data sets; experiments/observed.py has more -----------------------------------


@pytest.mark.parametrize("effects", [False, True])
def test_known_people_beside_tables_do_no_harm(effects):
    scene = observed.Scene(effects=effects)
    found = [observed.one_run(scene, seed, (0, 200)) for seed in range(12)]
    for beside in ("county", "three tables"):
        runs = [run[beside, 200] for run in found]
        assert all(run.solved for run in runs)
        error, se = (np.array([getattr(run, key) for run in runs]) for key in ("error", "se"))
        assert ((error / se) ** 2).mean() < 1.95  # 36 slopes, four standard errors of √(2 / 36)
        for part in (("nothing", 200), (beside, 0)):
            other = np.array([run[part].error for run in found])
            more = ((error**2 - other**2) / se**2).mean(axis=1)
            assert more.mean() < 3 * more.std() / np.sqrt(len(more))
