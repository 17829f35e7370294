"""The bins that counts are published in: gaps closed, rare ones merged, extremes left open."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.cases import coef_of, make_case, names_of
from unbin.exceptions import DomainError, ReleaseError
from unbin.families import get_family
from unbin.likelihood import fit_likelihood
from unbin.likelihood.data.tables import published_counts
from unbin.release import Release
from unbin.release.aggregation import aggregate
from unbin.rows.design import lay_out


def test_a_full_list_is_counted_in_pooled_bins():
    case = make_case(3, n_blocks=40, size=50)
    values = Release.from_values({"block": names_of(case), "value": case.y})
    release = values.align(names_of(case)).release
    counts = published_counts(release, get_family("gaussian").domain)
    assert counts.shared
    assert counts.n_bins == 50
    fit = fit_likelihood(case.design, [release], get_family("gaussian"))
    np.testing.assert_allclose(coef_of(case, fit), case.coef, atol=0.12)


def test_gaps_and_outer_space_close_the_partition():
    table = {
        "block": ["a"] * 2 + ["b"] * 3,
        "lower": [0, 20, 0, 10, 20],
        "upper": [10, 30, 10, 20, 30],
        "count": [40, 10, 30, 0, 20],
    }
    release = Release.from_histogram(table)
    counts = published_counts(release, get_family("gaussian").domain)
    assert counts.shared
    np.testing.assert_array_equal(counts.lower, [-np.inf, 10, 20])
    np.testing.assert_array_equal(counts.upper, [10, 20, np.inf])
    np.testing.assert_array_equal(counts.count, [[40, 0, 10], [30, 0, 20]])


def test_near_empty_far_bins_are_merged():
    y = np.concatenate([np.random.default_rng(0).normal(size=2_000), [50.0]])
    release = aggregate(y, bins=[-np.inf, -1, 0, 1, 10, np.inf])
    counts = published_counts(release, get_family("gaussian").domain)
    np.testing.assert_array_equal(counts.upper, [-1, 0, 1, np.inf])
    kept = published_counts(release, get_family("gaussian").domain, smallest=1)
    assert kept.n_bins == 5


def test_bins_the_fit_rules_out_are_merged():
    rng = np.random.default_rng(0)
    case = make_case(0, n_blocks=60, size=200)
    y = case.X @ case.coef + rng.standard_t(2.5, size=len(case.y))
    edges = [-np.inf, -25, -12, -3, -1, 0, 1, 3, 12, 25, np.inf]
    release = aggregate(y, names_of(case), bins=edges).align(names_of(case)).release
    assert published_counts(release, get_family("gaussian").domain).n_bins > 6
    fit = fit_likelihood(case.design, [release], get_family("gaussian"))
    np.testing.assert_array_equal(fit.counts.upper, [-3, -1, 0, 1, 3, np.inf])
    np.testing.assert_array_equal(fit.counts.lower, [-np.inf, -3, -1, 0, 1, 3])
    np.testing.assert_array_equal(fit.counts.count.sum(axis=1), release.n)
    assert fit.goodness.ratio < 20


def test_rare_events_keep_their_bin():
    y = np.zeros(1_000)
    y[0] = 1.0
    release = aggregate(y, bins=[-0.5, 0.5, 1.5])
    counts = published_counts(release, get_family("binomial").domain)
    np.testing.assert_array_equal(counts.count, [[999, 1]])
    np.testing.assert_array_equal(counts.lower, [0, 1])
    np.testing.assert_array_equal(counts.upper, [0, 1])


def test_extremes_of_single_blocks_are_left_open():
    table = {
        "block": ["a", "a", "b", "b"],
        "lower": [-1.37, 0, -2.21, 0],
        "upper": [0, 1.93, 0, 1.44],
        "count": [20, 30, 25, 25],
    }
    counts = published_counts(Release.from_histogram(table), get_family("gaussian").domain)
    assert counts.shared
    np.testing.assert_array_equal(counts.lower, [-np.inf, 0])


def test_a_blocks_own_extremes_are_open_where_others_have_people_beyond_them():
    table = {
        "block": ["a", "a", "b", "b", "b", "c", "c", "c"],
        "lower": [-2.2, 0, -9.0, -3, 0, 0, 3, 5],
        "upper": [0, 2.5, -3, 0, 3, 3, 5, 9],
        "count": [20, 30, 10, 10, 20, 10, 20, 30],
    }
    counts = published_counts(Release.from_histogram(table), get_family("gaussian").domain)
    real = counts.valid()
    cuts = [counts.upper[b][real[b]][:-1].tolist() for b in range(3)]
    assert cuts == [[0.0], [-3.0, 0.0, 3.0], [0.0, 3.0, 5.0]]  # -2.2, 2.5, -9 and 9 are extremes
    np.testing.assert_array_equal(counts.count[0], [20, 30, 0, 0])


def test_edges_that_do_not_separate_integers_are_refused():
    release = aggregate(np.arange(20.0), bins=[-1, 3.3, np.inf])
    with pytest.raises(DomainError, match="whole or half numbers"):
        published_counts(release, get_family("poisson").domain)


def test_a_histogram_of_other_people_is_refused():
    release = aggregate(np.arange(20.0), bins=3)
    with pytest.raises(ReleaseError, match="the block has 25"):
        published_counts(replace(release, n=np.array([25])), get_family("gaussian").domain)


def test_ordinal_needs_common_edges():
    table = {
        "block": ["a", "a", "b", "b"],
        "lower": [None, 0, None, 1],
        "upper": [0, None, 1, None],
        "count": [20, 30, 25, 25],
    }
    release = Release.from_histogram(table)
    design = lay_out(np.random.default_rng(0).normal(size=(100, 1)), np.repeat([0, 1], 50), 2)
    with pytest.raises(ReleaseError, match="needs the same bins in every block"):
        fit_likelihood(design, [release], get_family("ordinal"))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("smallest", [0, 1, 5])
def test_shared_bins_are_counted_as_any_others(seed, smallest, monkeypatch):
    rng = np.random.default_rng(seed)
    family = get_family("poisson" if seed % 2 else "gaussian")
    edges = np.unique(np.round(rng.normal(3, 3, 7), 0 if seed % 2 else 2))
    edges = np.concatenate([[-np.inf] if seed % 3 else [edges[0] - 1], edges, [np.inf]])
    if seed % 2:
        edges = np.unique(np.maximum(edges, -1))
    y = rng.poisson(3, 900) if seed % 2 else np.maximum(rng.normal(3, 3, 900), edges[0] + 0.01)
    blocks = rng.integers(0, 9, 900).astype(str)
    release = aggregate(y, blocks, edges).align(blocks).release
    found = published_counts(release, family.domain, smallest=smallest)
    monkeypatch.setattr("unbin.likelihood.data.tables._shared_counts", lambda *_: None)
    other = published_counts(release, family.domain, smallest=smallest)
    np.testing.assert_array_equal(found.count, other.count)
    np.testing.assert_array_equal(found.lower, other.lower)
    np.testing.assert_array_equal(found.upper, other.upper)
    np.testing.assert_array_equal(found.known, other.known)
