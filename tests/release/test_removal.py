"""A release less people whose outcome is known equals the table made of the others."""

from dataclasses import replace

import numpy as np
import pytest

import unbin
from tests.helpers.releases import mean_release, quantile_release, rounded, suppressed
from unbin.exceptions import AlignmentError, ParameterError
from unbin.release.removal import without_people

BLOCKS = np.repeat(["a", "b", "c", "d"], [12, 9, 15, 8])
EDGES = [-np.inf, -0.5, 0.0, 0.6, np.inf]


def outcomes(seed=0, *, whole=False):
    y = np.random.default_rng(seed).normal(size=len(BLOCKS))
    return np.floor(2 * y) if whole else y


def known_rows(seed=1, n=14):
    return np.sort(np.random.default_rng(seed).choice(len(BLOCKS), n, replace=False))


def left(release, y, rows, name=""):
    """What the release says without the people of these rows."""
    codes = np.searchsorted(release.blocks, BLOCKS)[rows]
    return without_people(release, codes, y[rows], np.ones(len(rows), np.int64), name)


def others(rows):
    return np.setdiff1d(np.arange(len(BLOCKS)), rows)


def assert_same_histogram(found, wanted):
    np.testing.assert_array_equal(found.n, wanted.n)
    for field in ("start", "lower", "upper", "count"):
        np.testing.assert_array_equal(
            getattr(found.histogram, field), getattr(wanted.histogram, field), err_msg=field
        )


@pytest.mark.parametrize("closed", ["right", "left"])
def test_a_histogram_of_the_others(closed):
    y, rows = np.round(outcomes(), 1), known_rows()  # outcomes lie on edges, too
    kept = others(rows)

    def counted(y, ids):
        sign = -1 if closed == "left" else 1  # turned around, bins are closed on the other side
        table = unbin.aggregate(sign * y, ids, np.sort(sign * np.array(EDGES))).histogram
        ends = sign * table.lower, sign * table.upper
        lower, upper = np.minimum(*ends), np.maximum(*ends)
        columns = {"block": np.repeat(list("abcd"), np.diff(table.start)), "count": table.count}
        return unbin.Release.from_histogram(
            columns | {"lower": lower, "upper": upper}, closed=closed
        )

    assert np.isin(y[rows], EDGES).any()
    assert_same_histogram(left(counted(y, BLOCKS), y, rows), counted(y[kept], BLOCKS[kept]))


def test_bins_may_differ_between_blocks():
    y, rows = outcomes(), known_rows()
    table = {"block": [], "lower": [], "upper": [], "count": []}
    plain = {key: [] for key in table}
    for k, name in enumerate("abcd"):
        cuts = np.array([-np.inf, *np.linspace(-1, 1, k + 2), np.inf])
        for values, into in ((y, table), (np.delete(y, rows), plain)):
            ids = BLOCKS if into is table else np.delete(BLOCKS, rows)
            bins = np.searchsorted(cuts[1:-1], values[ids == name])
            into["block"] += [name] * (len(cuts) - 1)
            into["lower"] += cuts[:-1].tolist()
            into["upper"] += cuts[1:].tolist()
            into["count"] += np.bincount(bins, minlength=len(cuts) - 1).tolist()
    whole, wanted = (unbin.Release.from_histogram(each) for each in (table, plain))
    assert_same_histogram(left(whole, y, rows), wanted)


def test_bins_of_one_value():
    y, rows = outcomes(whole=True), known_rows()
    values = np.arange(y.min(), y.max() + 1)

    def counted(y, ids):
        table = {"block": np.repeat(list("abcd"), len(values)), "lower": np.tile(values, 4)}
        count = [np.sum((ids == b) & (y == v)) for b in "abcd" for v in values]
        return unbin.Release.from_histogram(table | {"upper": table["lower"], "count": count})

    kept = others(rows)
    assert_same_histogram(left(counted(y, BLOCKS), y, rows), counted(y[kept], BLOCKS[kept]))


@pytest.mark.parametrize("hide", [suppressed, rounded])
def test_hidden_counts_still_hold_the_others(hide):
    y, rows = outcomes(), known_rows()
    kept = others(rows)
    found = left(hide(unbin.aggregate(y, BLOCKS, EDGES)).align(BLOCKS).release, y, rows)
    low, high = found.histogram.interval()
    truth = unbin.aggregate(y[kept], BLOCKS[kept], EDGES).histogram.count
    assert (low <= truth).all()
    assert (truth <= high).all()
    assert (low >= 0).all()
    np.testing.assert_array_equal(found.n, [np.sum(BLOCKS[kept] == b) for b in "abcd"])


def test_a_mean_of_the_others():
    y, rows = outcomes(), known_rows()
    kept = others(rows)
    release = mean_release(y, BLOCKS).align(BLOCKS).release
    np.testing.assert_allclose(
        left(release, y, rows).means, mean_release(y[kept], BLOCKS[kept]).means
    )


def test_quantiles_become_counts_of_the_others():
    y, rows = outcomes(), known_rows()
    release = quantile_release(y, BLOCKS, (0.25, 0.5, 0.75)).align(BLOCKS).release
    found = left(release, y, rows)
    kept = others(rows)
    table = found.histogram
    for b, name in enumerate("abcd"):
        cells = slice(table.start[b], table.start[b + 1])
        own = y[kept][BLOCKS[kept] == name]
        for lower, upper, count in zip(
            table.lower[cells], table.upper[cells], table.count[cells], strict=True
        ):
            point = (own == lower) if lower == upper else (own > lower) & (own <= upper)
            assert count == point.sum()
    assert not len(found.order_statistics.value)


def test_a_list_loses_one_of_equal_values():
    y, rows = outcomes(whole=True), known_rows()
    release = unbin.Release.from_values({"block": BLOCKS, "value": y}).align(BLOCKS).release
    found, kept = left(release, y, rows).order_statistics, others(rows)
    wanted = unbin.Release.from_values({"block": BLOCKS[kept], "value": y[kept]}).order_statistics
    for field in ("start", "rank", "value"):
        np.testing.assert_array_equal(getattr(found, field), getattr(wanted, field))


def test_noise_may_leave_less_than_nobody():
    y, rows = outcomes(), known_rows(n=30)
    release = unbin.aggregate(y, BLOCKS, EDGES)
    noisy = replace(
        release,
        noise_sd=3.0,
        histogram=replace(release.histogram, count=release.histogram.count - 2),
    )
    kept = others(rows)
    wanted = unbin.aggregate(y[kept], BLOCKS[kept], EDGES).histogram.count - 2
    np.testing.assert_array_equal(left(noisy, y, rows).histogram.count, wanted)


def test_a_row_may_stand_for_several_people():
    y = np.array([0.1, 0.1, 0.1, 0.9])
    release = unbin.aggregate(y, np.repeat("a", 4), [0, 0.5, 1])
    found = without_people(release, np.array([0]), y[:1], np.array([2]))
    np.testing.assert_array_equal(found.histogram.count, [1, 1])
    assert found.n.tolist() == [2]


def test_a_block_whose_people_are_all_known_says_nothing():
    y = outcomes()
    rows = np.flatnonzero(BLOCKS == "b")
    found = left(unbin.aggregate(y, BLOCKS, EDGES), y, rows)
    assert found.n.tolist() == [12, 1, 15, 8]
    assert found.has_statistics().tolist() == [True, False, True, True]


def test_everybody_known():
    y = outcomes()
    found = left(unbin.aggregate(y, BLOCKS, EDGES), y, np.arange(len(y)))
    assert found.n.tolist() == [1, 1, 1, 1]
    assert not found.has_statistics().any()


# -- contradictions --------------------------------------------------------------------------------


def test_an_outcome_outside_all_bins():
    y, rows = outcomes(), np.array([20])
    release = unbin.aggregate(y, BLOCKS, [-9, 0, 9])
    y[20] = 12.0
    match = r"table, block 'b': the outcome 12 is known .* none of its bins; .* disjoint=True"
    with pytest.raises(AlignmentError, match=match):
        left(release, y, rows, "table")


def test_more_people_known_in_a_bin_than_it_counts():
    y = outcomes()
    release = unbin.aggregate(y, BLOCKS, [-9, 0, 9])
    counted = int(((BLOCKS == "a") & (y > 0)).sum())
    y[BLOCKS == "a"] = 1.0
    rows = np.flatnonzero(BLOCKS == "a")
    match = rf"block 'a': its bin .* counts {counted} people, but 12 are known .* disjoint=True"
    with pytest.raises(AlignmentError, match=match):
        left(release, y, rows)


def test_an_outcome_that_is_not_on_the_list():
    y = outcomes(whole=True)
    release = unbin.Release.from_values({"block": BLOCKS, "value": y}).align(BLOCKS).release
    y[0] = 77.0
    with pytest.raises(AlignmentError, match=r"block 'a': the outcome 77 .* list does not have it"):
        left(release, y, np.array([0]))


# -- joined ----------------------------------------------------------------------------------------


def asked(y, rows):
    return np.where(np.isin(np.arange(len(y)), rows), y, np.nan)


def test_a_target_counts_everybody_once():
    y, rows = outcomes(), known_rows()
    target = unbin.join(
        unbin.aggregate(y, BLOCKS, EDGES).align(BLOCKS), unbin.observed(asked(y, rows))
    )
    kept = others(rows)
    assert_same_histogram(target.tables[0].release, unbin.aggregate(y[kept], BLOCKS[kept], EDGES))
    np.testing.assert_array_equal(np.flatnonzero(target.tables[0].weights.values == 0), rows)
    np.testing.assert_array_equal(target.published.known.values, y[rows])


def test_disjoint_outcomes_are_taken_out_of_nothing():
    y, rows = outcomes(), known_rows()
    table = unbin.aggregate(y, BLOCKS, EDGES)
    target = unbin.join(table.align(BLOCKS), unbin.observed(asked(y + 100, rows), disjoint=True))
    assert_same_histogram(target.tables[0].release, table)
    assert target.tables[0].weights is None
    np.testing.assert_array_equal(target.published.known.values, y[rows] + 100)
    with pytest.raises(AlignmentError, match="disjoint=True"):
        unbin.join(
            unbin.aggregate(y, BLOCKS, [-50, 0, 50]).align(BLOCKS),
            unbin.observed(asked(y + 100, rows)),
        )


def test_a_known_row_stands_for_whole_people():
    y = outcomes()
    table = unbin.aggregate(np.repeat(y, 3), np.repeat(BLOCKS, 3), EDGES)
    weights = np.full(len(y), 3.0)
    target = unbin.join(
        table.align(BLOCKS, weights=weights), unbin.observed(asked(y, known_rows()))
    )
    kept = np.repeat(others(known_rows()), 3)
    assert_same_histogram(target.tables[0].release, unbin.aggregate(y[kept], BLOCKS[kept], EDGES))
    weights[:2] = 2.5, 3.5
    with pytest.raises(ParameterError, match=r"a whole number of people, got 2\.5"):
        unbin.join(table.align(BLOCKS, weights=weights), unbin.observed(asked(y, [0])))
