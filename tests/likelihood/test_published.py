"""What a fit keeps for pictures, and what of it may be shown."""

import pickle
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import unbin
from tests.helpers.releases import mean_release, rounded
from unbin.exceptions import ParameterError
from unbin.fitting.published import Published
from unbin.release.derivation import possible_counts
from unbin.results.report.pictures import total_is_safe


def table(count, low=None):
    count = np.array(count, dtype=float)
    shape = count.shape
    edges = np.arange(shape[1]) * 1.0
    n = count.sum(axis=1).astype(int)
    zero = np.zeros(shape[0])
    return Published(
        np.arange(shape[0]).astype(str),
        n,
        edges,
        edges + 1,
        count,
        None if low is None else np.array(low, dtype=float),
        None if low is None else count,
        count,
        zero,
        zero + 1,
        zero,
        False,
    )


def test_counts_are_those_of_the_release(study):
    published = study.model.published_
    assert published.blocks.tolist() == study.release.blocks.tolist()
    np.testing.assert_array_equal(published.n, study.release.n)
    np.testing.assert_array_equal(published.count.ravel(), study.release.histogram.count)
    np.testing.assert_allclose(published.expected.sum(axis=1), published.n)
    np.testing.assert_array_equal(published.lower[1:], published.upper[:-1])
    assert published.shared()
    assert not published.whole


def test_misfit_is_that_of_the_diagnostics(study):
    published, diagnostics = study.model.published_, study.model.diagnostics_
    assert published.misfit.sum() == pytest.approx(diagnostics.goodness_of_fit.misfit)
    worst = published.blocks[published.worst_first()[:5]]
    assert tuple(worst) == diagnostics.worst_blocks


def test_other_fits_have_none_and_say_their_method(study):
    assert study.oracle.published_ is None
    assert study.matching.published_ is None
    methods = [model.method_ for model in (study.model, study.oracle, study.matching)]
    assert methods == ["likelihood", "observed", "matching"]


def test_a_saved_model_keeps_it(study):
    again = pickle.loads(pickle.dumps(study.model))
    np.testing.assert_array_equal(again.published_.count, study.model.published_.count)


def test_edges_are_in_units_of_the_target(study):
    release = unbin.aggregate(np.exp(study.y), study.blocks, bins=np.array([0, 0.5, 1, 2, np.inf]))
    model = unbin.AggregatedGLM(target_transform="log")
    model.fit(study.X, release.align(study.blocks))
    np.testing.assert_allclose(model.published_.upper, [0.5, 1, 2, np.inf])
    np.testing.assert_allclose(model.published_.lower, [0, 0.5, 1, 2])


def test_several_targets_have_a_list(study):
    target = study.release.align(study.blocks)
    model = unbin.AggregatedGLM().fit(study.X, [target, target])
    assert [len(each) for each in model.published_] == [40, 40]


def test_means_alone_have_no_counts(study):
    release = mean_release(study.y, study.blocks)
    model = unbin.AggregatedGLM().fit(study.X, release.align(study.blocks))
    assert model.published_ is None


@pytest.mark.parametrize(
    ("count", "masked"),
    [
        ([50, 40, 30], []),  # nothing small
        ([50, 40, 3], [1, 2]),  # 3 alone would be 93 - 50 - 40
        ([50, 40, 30, 0], [2, 3]),  # so would 0
        ([50, 4, 3], [0, 1, 2]),  # 4 and 3 would be a cell of 7
        ([50, 8, 3], [0, 1, 2]),  # 11 people, both known to be under 11: one value is out
        ([10, 10, 10, 15], [0, 1, 2, 3]),  # 30 people in three counts under 11
        ([15, 30, 10, 10, 10], [1, 2, 3, 4]),
        ([50, 40, 12, 3], [1, 2, 3]),  # 12 has at most 1 + 3 to spare
        ([11, 11, 11], []),
        ([10, 1, 0], [0, 1, 2]),
    ],
)
def test_small_counts_cannot_be_worked_out(count, masked):
    assert np.flatnonzero(table([count]).masked(11)[0]).tolist() == masked


def compositions(n, k):
    """Return all rows of k counts with sum n."""
    bars = np.array(list(combinations(range(n + k - 1), k - 1))).reshape(-1, k - 1)
    ends = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), n + k - 1)])
    return np.diff(ends, axis=1) - 1


@pytest.mark.parametrize(
    ("smallest", "n_bins", "people"),
    [(2, 4, range(2, 24)), (3, 4, range(3, 30)), (3, 5, range(3, 24, 2)), (4, 5, range(18, 27, 4)),
     (5, 3, range(5, 50, 3)), (11, 3, (22, 33, 40, 45, 61, 90))],
)  # fmt: skip
def test_whoever_knows_the_rule_finds_as_many_values_as_it_asks_for(smallest, n_bins, people):
    """Compare every table of so many people with all that would be shown in the same way."""
    n_hidden = 0
    for n in people:
        count = compositions(n, n_bins)
        mask = table(count).masked(smallest)
        assert (count[~mask] >= smallest).all()
        shown = np.where(mask, -1, count)
        seen, group = np.unique(shown, axis=0, return_inverse=True)
        for k in range(n_bins):
            pairs = np.unique(np.stack([group.ravel(), count[:, k]]), axis=1)
            values = np.bincount(pairs[0], minlength=len(seen))
            hidden = seen[:, k] < 0
            assert (values[hidden] >= smallest).all()
            n_hidden += hidden.sum()
    assert n_hidden > 20


def test_no_masked_count_of_random_blocks_is_narrowed():
    """Whoever knows the sum, and even which counts are small, is left all values of the rule."""
    rng = np.random.default_rng(0)
    counts = table(rng.poisson(rng.choice([2, 8, 12, 30, 60], (2000, 6))))
    mask, count = counts.masked(11), counts.count.astype(int)
    part = mask.any(axis=1) & ~mask.all(axis=1)
    assert part.sum() > 300
    small = count < 11
    low = np.where(mask, np.where(small, 0, 11), count)
    high = np.where(mask, np.where(small, 10, counts.n[:, None]), count)
    found = possible_counts(low, high, (counts.n, counts.n))
    assert ((found.high - found.low + 1)[mask & part[:, None]] >= 11).all()


def test_counts_that_may_be_small_are_masked():
    counts = table([[50, 20, 40]], [[50, 5, 40]])
    assert counts.masked(11).tolist() == [[False, True, True]]
    assert not counts.masked(0).any()


def test_suppressed_and_rounded_counts_are_kept_as_intervals(study):
    release = rounded(study.release)
    published = unbin.AggregatedGLM().fit(study.X, release.align(study.blocks)).published_
    true = study.release.histogram.count.reshape(40, -1)
    assert (published.low <= true).all()
    assert (true <= published.high).all()
    assert (published.low < published.high).any()
    assert not published.masked(11)[published.low.min(axis=1) >= 11].any()


def test_what_is_masked_always_adds_up_to_enough_people():
    rng = np.random.default_rng(0)
    counts = table(rng.poisson(rng.choice([2, 8, 12, 30], (500, 6))))
    mask = counts.masked(11)
    assert (counts.count[~mask] >= 11).all()
    some = mask.any(axis=1) & ~mask.all(axis=1)
    assert some.any()
    assert (mask.sum(axis=1)[some] >= 2).all()
    assert (np.where(mask, counts.count, 0).sum(axis=1)[some] >= 11).all()


def test_the_size_of_a_small_block_cannot_be_worked_out():
    def drawable(*n):
        return table([[size] for size in n]).drawable(11).tolist()

    assert drawable(50, 40, 30) == [True, True, True]
    assert drawable(50, 40, 9) == [True, False, False]
    assert drawable(50, 40, 10, 10, 10) == [True, False, False, False, False]
    assert drawable(9, 50, 40, 12) == [False, True, False, False]
    assert drawable(50, 40, 3, 2) == [True, False, False, False]
    assert drawable(3, 4) == [False, False]


def test_sums_are_shown_only_where_they_tell_nothing_new():
    safe = table([[50, 40]] * 5)
    assert total_is_safe(safe, np.arange(5), 11)
    assert total_is_safe(safe, np.arange(3), 11)
    assert not total_is_safe(safe, np.arange(4), 11)  # the fifth would be the rest
    one_masked = table([[50, 40]] * 4 + [[50, 3]])
    assert not total_is_safe(one_masked, np.arange(5), 11)
    assert not total_is_safe(table([[5, 5]] * 2), np.arange(0), 11)
    assert total_is_safe(one_masked, np.arange(4), 0)


def test_sums_are_not_shown_where_they_narrow_a_masked_count():
    # bins 1 and 2 of both blocks are masked, with 11 people or more in every row and column
    narrow = table([[50, 40, 8], [50, 40, 9]])
    assert narrow.masked(11).tolist() == 2 * [[False, True, True]]
    assert not total_is_safe(narrow, np.arange(2), 11)  # 17 in two counts under 11: at least 7
    wide = table([[50, 40, 4], [50, 40, 3], [50, 40, 5], [50, 40, 6]])
    assert total_is_safe(wide, np.arange(4), 11)
    assert total_is_safe(table([[50, 40, 8], [50, 40, 9]] + 3 * [[50, 40, 30]]), np.arange(2), 11)


def test_a_release_says_whether_it_is_public(study):
    public = replace(study.release, public=True)
    assert not study.release.public
    assert public.align(study.blocks).release.public
    spelled = replace(unbin.aggregate(np.arange(20.0), bins=4), public=True).to_order_statistics()
    assert spelled.public
    assert spelled.to_histogram().public
    first, last = public.select(public.blocks[:2]), public.select(public.blocks[2:])
    assert first.combine(last).public
    assert not first.combine(replace(last, public=False)).public


def test_sums_need_the_same_bins():
    counts = table([[50, 40], [30, 20]])
    other = counts.with_edges(lambda edge: np.vstack([edge, edge + 1]))
    assert other.ends(1)[0].tolist() == [1, 2]
    with pytest.raises(ParameterError, match="block: the blocks have different bins"):
        other.together()
    assert counts.together().count.tolist() == [[80, 60]]


def test_blocks_with_bins_of_their_own(study):
    rng = np.random.default_rng(0)
    columns = {"block": [], "lower": [], "upper": [], "count": []}
    for k, name in enumerate(study.release.blocks):
        y = study.y[study.blocks == name]
        edges = [-np.inf, *np.sort(rng.normal(size=1 + k % 3)), np.inf]
        columns["block"] += [name] * (len(edges) - 1)
        columns["lower"] += edges[:-1]
        columns["upper"] += edges[1:]
        columns["count"] += np.histogram(y, edges)[0].tolist()
    release = unbin.Release.from_histogram(columns)
    published = unbin.AggregatedGLM().fit(study.X, release.align(study.blocks)).published_
    assert not published.shared()
    np.testing.assert_array_equal(published.count.sum(axis=1), published.n)
    for b in range(6, 20):  # blocks large enough that no edge is dropped as far
        lower, upper = published.ends(b)
        np.testing.assert_array_equal(lower[1:], upper[:-1])
        assert len(lower) == published.valid()[b].sum() >= 2
    assert (published.count[~published.valid()] == 0).all()
    assert not published.masked(11)[~published.valid()].any()
