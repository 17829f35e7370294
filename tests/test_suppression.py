"""Counts known only as intervals: matching against brute force, likelihood against simulation."""

import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import comb
from scipy.stats import multinomial, truncnorm

import unbin
from tests.helpers.releases import rounded, suppressed
from unbin.datasets import simulate
from unbin.exceptions import (
    AlignmentError,
    AlignmentWarning,
    CountError,
    ParameterError,
    ReleaseError,
)
from unbin.families import get_family
from unbin.likelihood.data.hidden import (
    _cut,
    _few_within,
    _split_few,
    expected_within,
    multinomial_covariance,
    whole_counts,
)
from unbin.likelihood.data.tables import published_counts
from unbin.likelihood.model.score import less_information
from unbin.matching.bounds import rank_bounds
from unbin.matching.impute import impute
from unbin.matching.splits import best_split
from unbin.release.intervals import Rounding, narrow

# -- the split of matching -------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.sampled_from(["gaussian", "poisson", "binomial"]))
@settings(max_examples=60, deadline=None)
def test_the_split_is_the_best_of_all(seed, name):
    """All counts within the intervals are tried, each with Lemma 3."""
    rng = np.random.default_rng(seed)
    family = get_family(name, 6)
    n_blocks, size = 2, rng.integers(3, 8, 2)
    y = rng.integers(0, 7, size.sum()).astype(float)
    blocks = np.repeat(["a", "b"], size)
    table = unbin.aggregate(y, blocks, [-1.0, 1, 3, 6]).to_columns()["histogram"]
    slack = rng.integers(0, 3, (2, len(table["count"])))
    table["low"] = np.maximum(table["count"] - slack[0], 0)
    table["high"] = table["count"] + slack[1]
    release = unbin.Release.from_histogram(table, count_low="low", count_high="high")
    target = release.align(blocks)
    eta = rng.normal(size=len(y)).round(1)  # ties
    mean = family.inverse_link(eta)
    bounds = rank_bounds(target.release, family.domain)
    if bounds.count_low is None:
        return
    key = np.arange(len(y), dtype=np.uint64)
    order = np.lexsort((key, eta, target.codes))
    z = impute(mean, best_split(mean, bounds, family, eta, order), eta=eta, key=key)
    found = family.divergence_at(z, eta, mean).sum()
    best = 0.0
    for b in range(n_blocks):
        rows = slice(bounds.start[b], bounds.start[b + 1])
        trials = []
        ranges = [range(lo, hi + 1) for lo, hi in zip(table["low"], table["high"], strict=True)]
        for counts in product(*ranges[3 * b : 3 * b + 3]):
            if sum(counts) != size[b]:
                continue
            exact = {k: v[3 * b : 3 * b + 3] for k, v in table.items() if k != "count"}
            one = unbin.Release.from_histogram({**exact, "count": np.array(counts)})
            at = rank_bounds(one.align(blocks[rows]).release, family.domain)
            z_b = impute(mean[rows], at, eta=eta[rows])
            trials.append(family.divergence_at(z_b, eta[rows], mean[rows]).sum())
        best += min(trials)
    assert found == pytest.approx(best, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("solver", ["lbfgs", "alternating"])
def test_matching_respects_the_intervals(solver):
    sim = simulate(1200, 2, 20, noise=0.2, between=0.3, random_state=1)
    release = unbin.aggregate(sim.y, sim.blocks, 6)
    target = suppressed(release).align(sim.blocks)
    model = unbin.AggregatedGLM(method="matching", solver=solver).fit(sim.X, target)
    whole = unbin.AggregatedGLM(method="matching", solver=solver)
    whole.fit(sim.X, release.align(sim.blocks))
    assert np.abs(model.coef_ - sim.coef).max() < 0.06
    assert model.objective_ <= whole.objective_ * (1 + 1e-6)  # fewer constraints
    path = model.objective_path_
    assert (np.diff(path) <= 1e-9).all()
    table = target.release.histogram
    z = model.impute()
    for b, name in enumerate(target.release.blocks):
        own = slice(table.start[b], table.start[b + 1])
        edges = np.concatenate([table.lower[own][:1], table.upper[own]])
        counts, _ = np.histogram(z[sim.blocks == name], edges)
        # values clipped to an edge may be counted on either side
        on_edge = np.isin(z[sim.blocks == name], edges).sum()
        assert (counts >= table.count_low[own] - on_edge).all()
        assert (counts <= table.count_high[own] + on_edge).all()


def test_matching_refuses_what_it_cannot_combine():
    sim = simulate(300, 2, 6, random_state=0)
    release = suppressed(unbin.aggregate(sim.y, sim.blocks, 5))
    names = np.unique(sim.blocks)
    median = {"block": names, "quantile": np.full(6, 0.5)}
    median["value"] = [np.median(sim.y[sim.blocks == name]) for name in names]
    both = release.combine(unbin.Release.from_quantiles(median)).align(sim.blocks)
    with pytest.raises(ReleaseError, match="cannot be combined with order statistics"):
        unbin.AggregatedGLM(method="matching").fit(sim.X, both)


# -- the expectation of the likelihood -------------------------------------------------------------


def _published(low, high, n):
    count = np.array([low, high]).mean(axis=0).astype(int)
    columns = {"block": ["a"] * len(low), "lower": [-np.inf, 0, 1, 2], "upper": [0, 1, 2, np.inf]}
    columns |= {"count": count, "low": low, "high": high}
    release = unbin.Release.from_histogram(columns, count_low="low", count_high="high")
    aligned = release.align(np.repeat("a", n)).release
    return published_counts(aligned, get_family("gaussian").domain, smallest=0)


@pytest.mark.parametrize(
    ("low", "high", "apart"),
    [
        ([10, 20, 12, 1], [18, 30, 22, 10], 0.1),
        ([14, 20, 12, 1], [14, 30, 22, 10], 0.1),
        ([1, 30, 15, 1], [10, 40, 15, 10], 0.35),  # far from what was expected
    ],
)
def test_expected_counts_are_those_of_counts_within_the_intervals(low, high, apart):
    """By enumeration of multinomial counts."""
    n, mean = 60, np.array([14.0, 22.0, 17.0, 7.0])
    counts = _published(low, high, n)
    covariance = multinomial_covariance(mean[None])
    found, root = expected_within(counts, mean[None], covariance, slice(None))
    ranges = [range(lo, hi + 1) for lo, hi in zip(low, high, strict=True)]
    cells = np.array([c for c in product(*ranges) if sum(c) == n])
    weight = multinomial.pmf(cells, n, mean / n)
    weight /= weight.sum()
    exact = weight @ cells
    exact_covariance = (cells - exact).T @ (weight[:, None] * (cells - exact))
    np.testing.assert_allclose(found[0], exact, atol=apart)
    np.testing.assert_allclose(root[0] @ root[0].T, exact_covariance, atol=2.5 * apart)
    assert found.sum() == pytest.approx(n)


def test_cut_normal_moments_agree_with_scipy():
    for mean, sd, bottom, top in (
        (0.0, 1.0, -0.5, 0.7),
        (3.0, 2.0, 9.0, 14.0),
        (0.0, 1.0, 7.0, 9.0),
        (0.0, 1.0, -9.5, -6.0),
        (0.0, 1.0, 30.0, 30.2),
        (1.0, 10.0, 0.5, 1.2),
        (5.0, 1.0, -30.0, 60.0),
    ):
        law = truncnorm((bottom - mean) / sd, (top - mean) / sd, mean, sd)
        found = _cut(mean, sd, bottom, top)
        assert found[0] == pytest.approx(law.mean(), rel=2e-3)
        assert found[1] == pytest.approx(law.var(), rel=1e-2)


def test_exact_counts_are_left_alone_and_intervals_respected():
    rng = np.random.default_rng(0)
    counts = _published([5, 1, 1, 20], [5, 10, 10, 20], 36)
    assert (counts.low[0] == [5, 1, 1, 20]).all()
    for _ in range(20):
        mean = rng.dirichlet(np.ones(4)) * 36
        covariance = multinomial_covariance(mean[None])
        found, root = expected_within(counts, mean[None], covariance, slice(None))
        assert found[0, 0] == 5
        assert found[0, 3] == 20
        assert (root[0, 0] == 0).all()
        assert 1 <= found[0, 1] <= 10
        assert found.sum() == pytest.approx(36)
        whole = whole_counts(found)
        assert (whole == np.rint(whole)).all()
        assert whole.sum() == 36
        assert (np.abs(whole - found) < 1).all()


@pytest.mark.parametrize("many", [True, False])
def test_a_few_people_are_split_in_all_ways(many):
    """Against the moments of all splits: multinomial with many slots, else hypergeometric."""
    total, mean = 6, np.array([1.5, 0.7, 2.0, 1.8])
    low, high = np.array([0.0, 1, 0, 2]), np.array([2.0, 3, 2, 6])
    slots = 1e7 * mean if many else np.array([4.0, 3.0, 5.0, 6.0])
    splits = np.array([c for c in product(range(total + 1), repeat=4) if sum(c) == total])
    if many:
        weight = multinomial.pmf(splits, total, mean / total)
    else:
        weight = comb(slots, splits).prod(axis=1)
    weight = weight * ((splits >= low) & (splits <= high)).all(axis=1)
    expected = weight @ splits / weight.sum()
    away = splits - expected
    found, covariance = _split_few(total, slots, low, high)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    cross = np.einsum("s,si,sj->ij", weight, away, away) / weight.sum()
    np.testing.assert_allclose(covariance, cross, atol=1e-5)


def test_intervals_that_say_nothing_leave_a_few_people_as_they_were():
    """Counts of two people rounded to 5 are 0 to 2 in every bin, and all that is hidden is lost."""
    mu, sigma = np.array([0.5, 0.9]), np.array([[0.3, -0.1], [-0.1, 0.4]])
    ends = np.zeros(3), np.full(3, 2.0)
    mean, covariance = _few_within(mu, sigma.copy(), 2, ends)
    np.testing.assert_allclose(mean, mu, atol=1e-9)
    np.testing.assert_allclose(covariance, sigma, atol=1e-4)


def test_rounding_of_a_few_people_is_not_read_as_more_than_it_says():
    """Counts rounded to 5 in blocks of about 2 and about 5 people.

    A normal law of so few people pulled slopes to 0: half of them were 3 standard errors off.
    """
    off, errors = [], {2: [], 5: []}
    for seed in range(12):
        for size in (2, 5):
            sim = simulate(size * 300, 2, 300, between=0.3, coef=[1.0, -0.5], random_state=seed)
            table = unbin.aggregate(sim.y, sim.blocks, [-np.inf, -0.7, 0, 0.7, np.inf])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = unbin.AggregatedGLM().fit(sim.X, rounded(table).align(sim.blocks))
            off.append(np.abs(model.coef_ - sim.coef) / model.standard_errors_)
            errors[size].append(model.diagnostics_.precision)
    assert np.mean(np.array(off) > 3) < 0.05
    assert np.median(errors[2]) > 2 * np.median(errors[5])


def test_one_hidden_cell_is_known_from_the_total():
    release = unbin.Release.from_histogram(
        {
            "block": ["a"] * 3,
            "lower": [0, 1, 2],
            "upper": [1, 2, 3],
            "count": [20, np.nan, 30],
            "low": [np.nan, 1, np.nan],
            "high": [np.nan, 10, np.nan],
        },
        count_low="low",
        count_high="high",
    )
    assert "1 count known only as intervals" in repr(release)
    aligned = release.align(["a"] * 57).release
    assert aligned.histogram.count_low is None
    assert list(aligned.histogram.count) == [20, 7, 30]


@pytest.mark.parametrize(
    ("share", "left"), [(0.0, 1.0), (0.5, 0.5), (0.9, 0.1), (0.99, 0.05), (1.2, 0.05), (-0.1, 1.0)]
)
def test_hidden_counts_take_at_most_19_twentieths_of_the_information(share, left):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))  # columns: three directions, unit information along each
    found = less_information(root @ root.T, root @ np.diag([share, 0.2, 0.0]) @ root.T)
    np.testing.assert_allclose(found, root @ np.diag([left, 0.8, 1.0]) @ root.T, atol=1e-12)


def test_likelihood_with_a_third_of_the_cells_suppressed_loses_little():
    def error(change, seeds, **options):
        found = []
        for seed in seeds:
            sim = simulate(4000, 2, 80, between=0.2, coef=[1.0, -0.5], random_state=seed)
            release = change(unbin.aggregate(sim.y, sim.blocks, 4))
            model = unbin.AggregatedGLM().fit(sim.X, release.align(sim.blocks, **options))
            found.append(model.coef_ - sim.coef)
            assert model.diagnostics_.goodness_of_fit.ratio < 1.3
        return np.sqrt(np.mean(np.square(found)))

    seeds = range(6)
    sim = simulate(4000, 2, 80, between=0.2, coef=[1.0, -0.5], random_state=0)
    hidden = suppressed(unbin.aggregate(sim.y, sim.blocks, 4)).histogram.hidden()
    assert 0.3 < hidden.mean() < 0.6
    full = error(lambda release: release, seeds)
    assert error(suppressed, seeds) < 1.2 * full
    assert error(rounded, seeds) < 1.3 * full


@pytest.mark.parametrize("family", ["poisson", "ordinal"])
def test_every_family_fits_suppressed_counts_and_imputes_within_the_intervals(family):
    sim = simulate(
        3000, 2, 60, family="poisson", between=0.3, coef=[0.5, -0.3], intercept=0.5, random_state=2
    )
    release = unbin.aggregate(sim.y, sim.blocks, [-1.0, 0, 1, 2, 4, 50])
    target = suppressed(release).align(sim.blocks)
    model = unbin.AggregatedGLM(family).fit(sim.X, target)
    whole = unbin.AggregatedGLM(family).fit(sim.X, release.align(sim.blocks))
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=2 * whole.standard_errors_.max())
    assert (model.standard_errors_ > 0.9 * whole.standard_errors_).all()
    draw = model.impute("draw", random_state=0)
    names, codes = np.unique(sim.blocks, return_inverse=True)
    place = np.searchsorted([0, 1, 2, 4], draw)
    counts = np.bincount(codes * 5 + place, minlength=5 * len(names))
    table = target.release.histogram
    assert (counts >= table.count_low).all()
    assert (counts <= table.count_high).all()


# -- rounding, totals, joins -----------------------------------------------------------------------


def test_rounding_schemes():
    count = np.array([0, 5, 10])
    assert [list(v) for v in Rounding.parse("nearest-5").of_counts(count)] == [
        [0, 3, 8],
        [2, 7, 12],
    ]
    assert [list(v) for v in Rounding.parse("random-3").of_counts(count)] == [[0, 3, 8], [2, 7, 12]]
    assert [list(v) for v in Rounding.parse("down-5").of_counts(count)] == [[0, 5, 10], [4, 9, 14]]
    assert [list(v) for v in Rounding.parse("up-5").of_counts(count)] == [[0, 1, 6], [0, 5, 10]]
    low, high = Rounding.parse("nearest-0.1%").of_percentages(np.array([33.3]), np.array([10_000]))
    assert (low[0], high[0]) == (3325, 3335)
    for bad in ("nearest-0", "nearest-2.5", "closest-5", 5, "nearest-5 "):
        with pytest.raises(ParameterError, match=r"rounding: unknown, got .*; say for example"):
            Rounding.parse(bad)


def test_every_count_is_within_the_interval_of_its_rounding():
    truth = np.arange(200)
    low, high = Rounding.parse("nearest-5").of_counts((5 * np.rint(truth / 5)).astype(int))
    assert (low <= truth).all()
    assert (truth <= high).all()


def test_percentages_with_rounding_are_intervals():
    table = {"lower": [0, 1, 2], "upper": [1, 2, 3], "percent": [33.3] * 3, "n": [10**5] * 3}
    release = unbin.Release.from_histogram(
        table, block=None, percent="percent", n="n", rounding="nearest-0.1%"
    )
    assert (release.histogram.count_low <= 33_334).all()
    assert (release.histogram.count_high >= 33_333).all()
    assert release.histogram.total()[0] == 10**5


def test_narrowing_keeps_every_possible_split():
    rng = np.random.default_rng(3)
    for _ in range(30):
        truth = rng.integers(0, 12, 5)
        low, high = np.maximum(truth - rng.integers(0, 4, 5), 0), truth + rng.integers(0, 4, 5)
        columns = {"lower": np.arange(5), "upper": np.arange(1, 6), "low": low, "high": high}
        release = unbin.Release.from_histogram(
            columns, block=None, count=None, count_low="low", count_high="high"
        )
        if not release.histogram.hidden().any() or truth.sum() == 0:
            continue
        table = narrow(release.histogram, np.array([truth.sum()]))
        ranges = [range(lo, hi + 1) for lo, hi in zip(low, high, strict=True)]
        possible = np.array([c for c in product(*ranges) if sum(c) == truth.sum()])
        low, high = table.interval()
        np.testing.assert_array_equal(low, possible.min(axis=0))
        np.testing.assert_array_equal(high, possible.max(axis=0))
        assert table.count.sum() == truth.sum()


def test_counts_are_rescaled_on_request_and_it_is_said():
    sim = simulate(1000, 2, 20, random_state=0)
    columns = unbin.aggregate(sim.y, sim.blocks, 4).to_columns()["histogram"]
    columns["count"] = columns["count"] * 2
    release = unbin.Release.from_histogram(columns)
    with pytest.raises(AlignmentError, match=r"X has fewer people; .* pass scale=True to rescale"):
        release.align(sim.blocks)
    with pytest.warns(AlignmentWarning, match=r"20 of 20 blocks were multiplied by 0\.5 to 0\.5"):
        target = release.align(sim.blocks, scale=True)
    original = unbin.aggregate(sim.y, sim.blocks, 4)
    np.testing.assert_array_equal(target.release.histogram.count, original.histogram.count)


def test_people_without_a_release_are_kept_and_said():
    sim = simulate(2000, 2, 40, between=0.3, coef=[1.0, -0.5], random_state=0)
    release = unbin.aggregate(sim.y, sim.blocks, 5)
    names = np.unique(sim.blocks)
    some = release.select(names[5:])
    with pytest.raises(AlignmentError, match=r"block '00': must be in the release, got 5 blocks"):
        some.align(sim.blocks)
    with pytest.warns(AlignmentWarning, match=r"5 blocks of X \(\d+ people\) without a release, 0"):
        target = some.align(sim.blocks, on_missing="drop")
    for method, apart in (("likelihood", 1e-3), ("matching", 0.03)):  # rows enter its tolerance
        model = unbin.AggregatedGLM(method=method).fit(sim.X, target)
        inside = np.isin(sim.blocks, names[5:])
        alone = unbin.AggregatedGLM(method=method)
        alone.fit(sim.X[inside], some.align(sim.blocks[inside]))
        np.testing.assert_allclose(model.coef_, alone.coef_, atol=apart)
        assert np.isfinite(model.impute()).all()
        if method == "likelihood":
            shape, theirs = (each.diagnostics_.shape.p_value for each in (model, alone))
            assert shape == pytest.approx(theirs, rel=1e-3)
    rows = np.isin(sim.blocks, names[:30])
    with pytest.warns(AlignmentWarning, match=r"0 blocks of X .* without a release, 10 b"):
        fewer = release.align(sim.blocks[rows], on_missing="drop")
    assert len(fewer.release) == 30


def test_check_reports_joins_totals_suppression_and_small_blocks():
    blocks = np.repeat(["05001", "05003", "05005"], [30, 40, 8])
    y = np.arange(78.0)
    release = suppressed(unbin.aggregate(y, blocks, [-np.inf, 20, 50, np.inf]))
    fine = release.check(blocks)
    assert fine.ready
    assert str(fine).splitlines() == [
        "3 blocks joined, 78 rows of X",
        "2 counts known only as intervals",
        "bins are open below and above",
        "1 block of fewer than 11 people: '05005'",
        "ready to fit",
    ]
    lost = np.array([b.lstrip("0") for b in blocks[:30]] + ["05003"] * 60)
    bad = release.check(lost)
    assert not bad.ready
    assert bad.lost_zeros == (("5001", "05001"),)
    assert bad.without_people == ("05001", "05005")
    assert str(bad).splitlines()[1:6] == [
        "leading zeros were lost in 1 block id: X has '5001', the release '05001'; read ids as "
        "text",
        "1 block of X without a release: '5001'",
        "2 blocks released but not in X: '05001', '05005'",
        "1 block with other totals than X",
        "block '05003': the release counts 40 people, X has 60 rows",
    ]


def test_complaints():
    table = {"block": ["a", "a"], "lower": [0, 1], "upper": [1, 2], "count": [np.nan, 5]}
    table |= {"low": [4, np.nan], "high": [2, np.nan]}
    with pytest.raises(CountError, match=r"an interval of counts runs from low to high, got 4"):
        unbin.Release.from_histogram(table, count_low="low", count_high="high")
    table["high"] = [np.nan, np.nan]
    with pytest.raises(CountError, match="the count is missing"):
        unbin.Release.from_histogram(table, count_low="low", count_high="high")
    with pytest.raises(CountError, match="needs both ends of its interval, got 4 and nan in row 0"):
        unbin.Release.from_histogram(table, count=None, count_low="low", count_high="high")
    with pytest.raises(CountError, match="an interval has two ends, got one column"):
        unbin.Release.from_histogram(table, count_low="low")
    table["high"] = [9, np.nan]
    release = unbin.Release.from_histogram(table, count_low="low", count_high="high")
    with pytest.raises(AlignmentError, match="the release counts 9 to 14 people, X has 20 rows"):
        release.align(["a"] * 20)
    with pytest.raises(ReleaseError, match="to_cumulative: needs exact counts, got 1 block with"):
        release.to_cumulative()
    with pytest.raises(CountError, match=r"rounding: 'nearest-1%' is about percentages"):
        unbin.Release.from_histogram(
            {"lower": [0], "upper": [1], "count": [3]}, block=None, rounding="nearest-1%"
        )
