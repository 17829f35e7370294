"""Areas of bars are counts, whatever the bins."""

from dataclasses import replace

import numpy as np
import pytest

from unbin.fitting.published import Published
from unbin.results.plots.bars import bars_of
from unbin.results.plots.drawing import apart


def table(edges, count, *, whole=False):
    count = np.atleast_2d(np.array(count, dtype=float))
    lower, upper = np.array(edges, dtype=float)[:-1], np.array(edges, dtype=float)[1:]
    if whole:
        lower = lower + 1
    n = count.sum(axis=1).astype(np.int64)
    zero = np.zeros(len(n))
    return Published(
        np.arange(len(n)).astype(str), n, lower, upper, count, None, None, count, zero, zero + 1,
        zero, whole,
    )  # fmt: skip


CASES = {
    "equal": table([0, 1, 2, 3], [5, 3, 2]),
    "unequal": table([0, 1, 3, 10], [5, 4, 7]),
    "open": table([-np.inf, 0, 1, 3, np.inf], [6, 5, 4, 7]),
    "dollars": table([0, 2e3, 5e3, 1e4, 2.5e4, 1e5, np.inf], [3, 9, 20, 30, 9, 1]),
    "negative and far": table([-1e6, -1, 0, 1, 1e6], [3, 9, 2, 4]),
    "median": table([-np.inf, 4.2, np.inf], [10, 10]),
    "whole": table([-1, 0, 1, 2, 4, 8, np.inf], [3, 4, 5, 4, 2, 1], whole=True),
    "one value": table([0, 1, 1, 2], [3, 4, 5]),
}


@pytest.mark.parametrize("name", CASES)
def test_areas_are_counts(name):
    found = bars_of(CASES[name], 0)
    width = found.right - found.left
    assert (width > 0).all()
    np.testing.assert_allclose(found.left[1:], found.right[:-1])
    area = CASES[name].count[0] * found.scale * width
    np.testing.assert_allclose(area / area.sum(), CASES[name].count[0] / CASES[name].n[0])
    assert np.isfinite(np.concatenate([found.left, found.right, found.scale])).all()
    assert (np.diff(found.place) > 0).all()
    assert len(found.labels) == len(found.place)


def test_bins_of_the_same_width_are_counted():
    found = bars_of(CASES["equal"], 0)
    np.testing.assert_allclose(found.scale, 1)
    assert found.people == "people"
    assert found.labels == ("0", "1", "2", "3")


def test_unequal_bins_lie_where_they_are():
    found = bars_of(CASES["unequal"], 0)
    np.testing.assert_array_equal(found.left, [0, 1, 3])
    np.testing.assert_array_equal(found.right, [1, 3, 10])
    np.testing.assert_allclose(found.scale, [1, 1 / 2, 1 / 7])
    assert found.people == "people per unit"
    thousandth = replace(CASES["unequal"], lower=CASES["unequal"].lower * 1000,
                         upper=CASES["unequal"].upper * 1000)  # fmt: skip
    found = bars_of(thousandth, 0)
    assert found.people == "people per 1000"
    np.testing.assert_allclose(found.scale, [1, 1 / 2, 1 / 7])


def test_dollars_are_on_a_log_axis_and_others_are_not():
    found = bars_of(CASES["dollars"], 0)
    assert found.log
    assert found.people == "people per doubling"
    np.testing.assert_allclose(found.left[1:], np.log2([2e3, 5e3, 1e4, 2.5e4, 1e5]))
    assert found.labels == ("2000", "5000", "10k", "25k", "100k")
    for name in ("unequal", "open", "negative and far", "median", "whole"):
        assert not bars_of(CASES[name], 0).log


def test_whole_numbers_are_named_below_their_bars():
    found = bars_of(CASES["whole"], 0)
    assert found.labels == ("0", "1", "2", "3–4", "5–8", "9+")
    np.testing.assert_allclose(found.place[:4], [0, 1, 2, 3.5])


def test_labels_stay_apart():
    place = np.array([0.0, 1.0, 1.1, 2.0, 9.0])
    labels = ["0", "10", "11", "20", "100k"]
    kept = apart(place, labels, 0.4)
    assert kept == [0, 2, 4]  # from the left: 10 would run into 0, and 20 into 11
    assert apart(place, labels, 1e-6) == [0, 1, 2, 3, 4]
