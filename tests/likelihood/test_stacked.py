"""The score of any tables against one dense covariance of all their statistics.

The dense side (``tests.helpers.dense``) writes out every statistic person by person; weights are
pseudoinverses, so that statistics that others determine are left out by themselves.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import unbin
from tests.helpers.dense import Dense, inverse
from tests.helpers.releases import mean_release, quantile_release, rounded, suppressed
from tests.helpers.stacks import problem_of
from unbin.likelihood.data.hidden import as_noisy, expected_within
from unbin.likelihood.data.problem import Effects
from unbin.likelihood.model.score import score_sums
from unbin.likelihood.solve.effects import Pulls

INF = np.inf
COUNTIES, SIZE, STATES = 12, 20, 4
SLOPES = np.array([0.5, -0.4])
FREE = {
    "gaussian": [0.1, 0.4, -0.3, 0.1],
    "poisson": [0.4, 0.3, -0.2],
    "negative-binomial": [0.4, 0.3, -0.2, -0.5],
    "binomial": [-0.2, 0.5, -0.4],
    "ordinal": [0.6, -0.4, -0.9, 0.1, 0.2],
}
EDGES = {
    "gaussian": [-INF, -0.7, 0.3, 1.2, INF],
    "poisson": [-1, 0, 1, 3, INF],
    "negative-binomial": [-1, 0, 1, 3, INF],
    "binomial": [-1, 0, 1],
    "ordinal": [-INF, -0.7, 0.3, 1.2, INF],
}
CLOSE = {"rtol": 3e-5, "atol": 3e-5}
"""A jitter of 1e-6 is added to the variance of every statistic of a group."""


def crossed(*codes):
    """Return the blocks of a crossed table."""
    return np.array([" ".join(map(str, each)) for each in zip(*codes, strict=True)])


class People:
    """240 people of 12 counties in four states, of both sexes and three ages."""

    def __init__(self, family="gaussian", seed=0):
        rng = np.random.default_rng(seed)
        code = np.repeat(np.arange(COUNTIES), SIZE)
        sex = rng.integers(0, 2, len(code))
        own = rng.normal(size=len(code)) + 0.5 * rng.normal(size=COUNTIES)[code]
        self.X = np.column_stack([own, sex + 0.1 * rng.normal(size=len(code))])
        self.family, self.edges = family, EDGES[family]
        self.county, self.sex, self.state = crossed(code + 10), crossed(sex), crossed(code % STATES)
        self.age = crossed(np.digitize(own, [-0.5, 0.5]))
        eta = 0.3 + self.X @ SLOPES
        self.y = {
            "gaussian": lambda: eta + rng.normal(size=len(eta)),
            "ordinal": lambda: eta + rng.logistic(size=len(eta)),
            "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
            "negative-binomial": lambda: rng.negative_binomial(2, 2 / (2 + np.exp(eta))).astype(
                float
            ),
            "binomial": lambda: (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(float),
        }[family]()

    def by(self, *ids, edges=None, change=None, **how):
        """Publish a histogram by some ids together."""
        ids = ids[0] if len(ids) == 1 else crossed(*ids)
        rows = np.repeat(np.arange(len(ids)), how.get("weights", np.ones(len(ids))).astype(int))
        release = unbin.aggregate(self.y[rows], ids[rows], edges or self.edges)
        return (release if change is None else change(release)).align(ids, **how)


def noisy(release):
    """Add noise to counts, which do not add up to their block any more."""
    table = release.histogram
    noise = np.random.default_rng(1).normal(0, 2.0, len(table.count))
    return replace(release, noise_sd=2.0, histogram=replace(table, count=table.count + noise))


def with_margins(release):
    """Give counts margins of error."""
    table = release.histogram
    return replace(release, histogram=replace(table, count_se=0.5 * np.sqrt(table.count + 1.0)))


def one_table(p):
    return [p.by(p.county)]


def nested(p):
    return [p.by(p.county, p.sex), p.by(p.county, p.age)]


def with_parents(p):
    return [p.by(p.county), *nested(p), p.by(p.sex)]


def crossing(p):
    return [p.by(p.county), p.by(p.age), p.by(p.sex)]


def nested_and_crossing(p):
    return [*nested(p), p.by(p.sex, p.age)]


def different_bins(p):
    edges = [-INF, -0.7, 0.5, INF], [-INF, 0.1, INF], [-INF, -0.3, 0.1, 0.9, INF]
    return [p.by(p.county, edges=edges[0]), p.by(p.county, p.sex, edges=edges[1]),
            p.by(p.age, edges=edges[2])]  # fmt: skip


def bins_by_block(p):
    """Half of the counties have another edge."""
    low = p.county < "15"
    edges = [-INF, -0.7, 0.3, INF], [-INF, 0.0, 1.0, INF]
    tables = [
        unbin.aggregate(p.y[m], p.county[m], e) for m, e in zip((low, ~low), edges, strict=True)
    ]
    return [tables[0].combine(tables[1]).align(p.county), p.by(p.sex)]


def means(p):
    ids = p.county, p.age
    tables = [mean_release(p.y, each).align(each) for each in ids]
    return [tables[0], tables[1], p.by(p.sex)]


def means_beside_counts(p):
    both = unbin.aggregate(p.y, p.county, p.edges).combine(mean_release(p.y, p.county))
    return [both.align(p.county), p.by(p.county, p.sex), p.by(p.age)]


def quartiles(p):
    published = [quantile_release(p.y, p.county, [0.25, 0.5, 0.75]).align(p.county)]
    return [*published, quantile_release(p.y, p.sex, [0.25, 0.75]).align(p.sex)]


def quartiles_beside_counts(p):
    published = quantile_release(p.y, p.county, [0.25, 0.75]).align(p.county)
    return [published, p.by(p.age, edges=[-INF, 0.3, INF])]


def medians_with_cells(p):
    published = quantile_release(p.y, p.county).align(p.county)
    return [published, p.by(p.county, p.sex, edges=[-INF, -1.2, INF])]


def medians(p):
    return [quantile_release(p.y, each).align(each) for each in (p.county, p.sex)]


def hidden(p):
    return [p.by(p.county, change=suppressed), p.by(p.county, p.sex), p.by(p.age, change=rounded)]


def with_noise(p):
    return [p.by(p.county, p.sex, change=noisy), p.by(p.county), p.by(p.age, change=with_margins)]


def weighed(p):
    weights = 1.0 + np.arange(len(p.y)) % 3
    how = {"weights": weights}
    return [p.by(p.county, p.sex, **how), p.by(p.county, p.age, **how), p.by(p.age, **how)]


SCENES = {
    each.__name__: each
    for each in (
        one_table, nested, with_parents, crossing, nested_and_crossing, different_bins,
        bins_by_block, means, means_beside_counts, quartiles, quartiles_beside_counts, medians,
        medians_with_cells, hidden, with_noise, weighed,
    )
}  # fmt: skip
CASES = [(name, "gaussian") for name in SCENES]
CASES += [("nested_and_crossing", family) for family in ("poisson", "binomial", "ordinal")]
CASES += [("crossing", family) for family in ("negative-binomial", "ordinal")]
CASES += [("hidden", "poisson")]
of_every_case = pytest.mark.parametrize(("scene", "family"), CASES)


@cache
def example(scene, family="gaussian", beside=()):
    """Return the problem of a scene, and parameters away from its root."""
    who = People(family)
    weights = 1.0 + np.arange(len(who.y)) % 3 if scene == "weighed" else None
    problem = problem_of(who.X, SCENES[scene](who), family, weights=weights, beside=beside)
    return problem, np.array(FREE[family])


def with_effects(problem, how, p):
    """Return a problem with random intercepts of its groups; expanded around what is known."""
    if how == "none":
        return problem
    n = int(problem.plan.group.max()) + 1
    rng, effects = np.random.default_rng(2), None
    if how == "expanded":
        moves = 0.3 * rng.normal(size=n), rng.uniform(0.1, 0.3, n)
        effects = Effects(*moves, 0.2 * rng.normal(size=(n, p)))
    return replace(problem, block_variance=0.15, effects=effects)


def written_out(dense):
    """Return score, information and instruments of groups, by dense algebra."""
    problem, p = dense.problem, len(dense.free)
    weight = dense.weights(np.column_stack([dense.derivative, dense.residual]))
    score = dense.derivative.T @ weight[:, p]
    information = dense.derivative.T @ weight[:, :p]
    if problem.effects is None:
        return score, information
    # statistics that are expanded around an effect are weighed as if it had not been looked at
    e = dense.shifts(problem.plan.group)
    for g, held in enumerate(problem.effects.along):
        here = dense.group == g
        own = e[:, g] * here
        weight = dense.weights(own[:, None], here)[:, 0]
        hold, pull = weight @ own, weight @ dense.residual
        looked = weight @ dense.derivative / hold
        score = score + (held - looked) * pull
        information = information + hold * (np.outer(held, held) - np.outer(looked, looked))
    return score, information


def assert_close(found, wanted, information):
    """Compare scores, or informations, in standard errors; what medians say of a scale is 0."""
    scale = np.sqrt(np.maximum(np.diag(information), 1e-12))
    scale = np.outer(scale, scale) if np.ndim(found) == 2 else scale
    np.testing.assert_allclose(found / scale, wanted / scale, **CLOSE)


# -- the score -------------------------------------------------------------------------------------


@pytest.mark.parametrize("effects", ["none", "weighed", "expanded"])
@of_every_case
def test_score_and_information(scene, family, effects):
    problem, free = example(scene, family)
    problem = with_effects(problem, effects, len(free))
    found = score_sums(problem, free, np.zeros(len(free)))
    score, information = written_out(Dense(problem, free))
    assert_close(found.score, score, information)
    assert_close(found.information, information, information)


@of_every_case
def test_the_expected_statistics_of_every_table(scene, family):
    problem, free = example(scene, family)
    found, dense = score_sums(problem, free, np.zeros(len(free))).mean, Dense(problem, free)
    mean = [each[dense.block[dense.table == t], dense.place[dense.table == t]]
            for t, each in enumerate(found)]  # fmt: skip
    order = np.argsort(dense.table, kind="stable")
    np.testing.assert_allclose(np.concatenate(mean), dense.expectation[order], rtol=1e-8)


@pytest.mark.parametrize(
    ("scene", "family"), [case for case in CASES if case[0] not in ("hidden", "medians")]
)
def test_the_misfit_is_that_of_all_statistics_together(scene, family):
    """Its expectation is the number of statistics that others do not determine."""
    problem, free = example(scene, family)
    sums, dense = score_sums(problem, free, np.zeros(len(free))), Dense(problem, free)
    weight = dense.weights(dense.residual[:, None])[:, 0]
    assert sums.misfit == pytest.approx(dense.residual @ weight, rel=1e-4)
    own = dense.weighed[np.ix_(dense.used, dense.used)]
    assert sums.df == pytest.approx(np.trace(own @ inverse(own)), abs=1e-3)


@of_every_case
def test_what_pulls_a_group(scene, family):
    """e'S⁻¹r, e'S⁻¹e and e'S⁻¹D of the statistics that are a group's own."""
    problem, free = example(scene, family)
    sums, dense = score_sums(problem, free, np.zeros(len(free))), Dense(problem, free)
    e = dense.shifts(problem.plan.group)
    for g in range(e.shape[1]):
        here = dense.group == g
        weight = dense.weights((e[:, g] * here)[:, None], here)[:, 0]
        assert sums.block_pull[g] == pytest.approx(weight @ dense.residual, rel=1e-4, abs=1e-4)
        assert sums.block_hold[g] == pytest.approx(weight @ e[:, g], rel=1e-4)
        np.testing.assert_allclose(sums.block_along[g], weight @ dense.derivative, **CLOSE)


# -- hidden numbers --------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [suppressed, rounded])
def test_hidden_numbers_have_the_score_of_their_expectations(change):
    """U = D'S⁻¹(E[c | published] - m) and J = D'S⁻¹(S - V)S⁻¹D (Louis)."""
    who = People()
    problem = problem_of(who.X, [who.by(who.county, change=change)], "gaussian")
    free, counts = np.array(FREE["gaussian"]), problem.first.counts
    found, dense = score_sums(problem, free, np.zeros(4)), Dense(problem, free)
    score, information = np.zeros(4), np.zeros((4, 4))
    for b in range(COUNTIES):
        own = np.flatnonzero(dense.block == b)
        s, mean, d = (
            dense.covariance[np.ix_(own, own)],
            dense.expectation[own],
            dense.derivative[own],
        )
        count, root = expected_within(counts, mean[None], s[None], slice(b, b + 1))
        weight = inverse(s) @ d
        score += weight.T @ (count[0] - mean)
        information += weight.T @ (s - root[0] @ root[0].T) @ weight
    assert (counts.low < counts.high).any()
    assert_close(found.score, score, information)
    assert_close(found.information, information, information)


def test_what_is_known_of_hidden_numbers_as_noise():
    """N = S(S - V)⁻¹V and y - m = S(S - V)⁻¹(E - m)."""
    rng = np.random.default_rng(0)
    s = np.array([a @ a.T for a in rng.normal(size=(3, 4, 6))])
    factor = np.linalg.cholesky(s)
    root = factor @ (0.5 * np.linalg.svd(rng.normal(size=(3, 4, 4)))[0][:, :, :2])
    residual, used = rng.normal(size=(3, 4)), np.ones((3, 4), bool)
    used[1, 2] = False
    found, noise = as_noisy(s, used, residual, root)
    for b in range(3):
        at = np.ix_(used[b], used[b])
        v = (root[b] @ root[b].T)[at]
        out = s[b][at] @ np.linalg.inv(s[b][at] - v)
        np.testing.assert_allclose(found[b][used[b]], out @ residual[b][used[b]], rtol=1e-5)
        np.testing.assert_allclose((noise[b] @ noise[b].T)[at], out @ v, rtol=1e-5, atol=1e-6)
        assert not found[b][~used[b]].any()
        assert not noise[b][~used[b]].any()


# -- random intercepts of other partitions ---------------------------------------------------------


def states_above(p):
    return [*nested(p), p.by(p.state), p.by(p.age, edges=[-INF, -0.2, 0.5, INF])]


def with_states(variance):
    """Return counties in states and beside ages, with a random intercept of the states."""
    who = People()
    problem = problem_of(who.X, states_above(who), "gaussian")
    assert problem.above_groups == (False, False, True, False)
    return replace(problem, block_variance=0.1, further=variance), np.array(FREE["gaussian"])


def test_intercepts_of_larger_blocks_weigh():
    problem, free = with_states((0.0, 0.0, 0.3, 0.0))
    found = score_sums(problem, free, np.zeros(4))
    score, information = written_out(Dense(problem, free))
    assert_close(found.score, score, information)
    assert_close(found.information, information, information)


def test_intercepts_that_cross_the_groups_add_to_the_errors_alone():
    problem, free = with_states((0.0, 0.0, 0.0, 0.3))
    found, dense = score_sums(problem, free, np.zeros(4), [3]), Dense(problem, free)
    score, information = written_out(dense)
    assert_close(found.score, score, information)
    assert_close(found.information, information, information)
    along = dense.shifts(problem.codes[3]).T @ dense.weights(dense.derivative)
    assert_close(found.further.moved(), 0.3 * along.T @ along, information)


@pytest.mark.parametrize("allowed", [(), (0.0, 0.0, 0.3, 0.0)])
def test_pulls_of_a_partition_are_in_the_axes_of_their_covariance(allowed):
    """Their misfit is that of a = e'Σ⁻¹r beside the parameters, with variance H + τ² HH."""
    problem, free = with_states(allowed)
    sums, dense = score_sums(problem, free, np.zeros(4), [3]), Dense(problem, free)
    e, columns = dense.shifts(problem.codes[3]), np.column_stack([dense.derivative, dense.residual])
    told = dense.weights(columns)
    step = np.linalg.solve(sums.information, sums.score)
    pull = e.T @ (told[:, -1] - told[:, :-1] @ step)
    hold = e.T @ dense.weights(e)
    found = Pulls.of_table(problem, sums, 3, sums.score)
    for variance in (0.0, 0.2):
        wanted = pull @ np.linalg.solve(hold + variance * hold @ hold, pull)
        assert found.misfit(variance) == pytest.approx(wanted, rel=1e-4)
    taken = np.trace(np.linalg.solve(hold, e.T @ told[:, :-1]) @ np.linalg.solve(
        sums.information, told[:, :-1].T @ e))  # fmt: skip
    assert found.df(sums.information, 4) == pytest.approx(len(hold) - min(taken, 4), rel=1e-4)
