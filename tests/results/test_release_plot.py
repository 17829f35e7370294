"""Pictures of what was published."""

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unbin import Release, plots
from unbin.exceptions import ParameterError

BLOCK = "$x$ & $10"


def histogram(lower, upper, count, block=BLOCK, **how):
    columns = {"block": [block] * len(lower), "lower": lower, "upper": upper, "count": count}
    return Release.from_histogram(columns | how, **{name: name for name in how})


def areas(ax):
    return [bar.get_width() * bar.get_height() for bar in ax.patches]


def test_unequal_bins_have_areas():
    release = histogram([0, 1, 3], [1, 3, 10], [5, 9, 4])
    ax = release.plot()
    assert isinstance(ax, Axes)
    np.testing.assert_allclose(areas(ax), [5, 9, 4])
    assert ax.get_ylabel() == "people per unit"
    assert ax.get_title(loc="left") == "$x$ & $10, 18 people"
    assert not ax._left_title.get_parse_math()
    ax.figure.draw_without_rendering()


def test_equal_bins_have_heights():
    ax = histogram([0, 2, 4], [2, 4, 6], [5, 9, 4]).plot()
    assert [bar.get_height() for bar in ax.patches] == [5, 9, 4]
    assert ax.get_ylabel() == "people"


def test_open_bins_are_marked_and_as_wide_as_their_neighbours():
    ax = histogram([None, 10, 20], [10, 20, None], [5, 9, 4]).plot()
    assert [bar.get_x() for bar in ax.patches] == [0, 10, 20]
    assert [bar.get_width() for bar in ax.patches] == [10, 10, 10]
    assert [text.get_text() for text in ax.texts] == ["◂", "▸"]
    closed = histogram([0, 10], [10, 20], [9, 4]).plot()
    assert len(closed.texts) == 0
    assert len(histogram([None], [None], [3]).plot().patches) == 1


def test_whole_numbers_are_around_themselves():
    table = {"block": ["a"] * 3, "lower": [0, 1, 3], "upper": [0, 2, 6], "count": [3, 4, 8]}
    ax = Release.from_histogram(table, closed="both").plot()
    assert [bar.get_x() for bar in ax.patches] == [-0.5, 0.5, 2.5]
    np.testing.assert_allclose(areas(ax), [3, 4, 8])
    left = histogram([0, 1, 3], [0, 3, 5], [3, 4, 8])
    assert [bar.get_x() for bar in left.plot().patches] == [-0.5, 1.5, 3.5]


def test_hidden_counts_are_intervals():
    release = histogram(
        [0, 10], [10, 20], [5, np.nan], count_low=[np.nan, 2], count_high=[np.nan, 9]
    )
    ax = release.plot()
    assert [bar.get_height() for bar in ax.patches] == [5, 2, 7]
    assert ax.patches[2].get_y() == 2
    assert ax.get_legend().get_texts()[0].get_text() == "known only as an interval"


def test_blocks_together_or_each_by_itself():
    one, two = histogram([0, 1], [1, 2], [1, 2], "a"), histogram([0, 1], [1, 2], [3, 4], "b")
    ax = one.combine(two).plot()
    assert [bar.get_height() for bar in ax.patches] == [4, 6]
    assert [bar.get_height() for bar in one.combine(two).plot("b").patches] == [3, 4]
    other = histogram([0, 3], [3, 9], [3, 4], "b")
    lines = one.combine(other).plot().patches
    assert len(lines) == 2
    steps = lines[1].get_data()
    np.testing.assert_allclose((steps.values * np.diff(steps.edges)).sum(), 1)
    with pytest.raises(ParameterError, match="block: nothing was published of 'c'; name one of"):
        one.plot("c")


def test_quantiles_are_steps_and_means_marks():
    quantiles = Release.from_quantiles(
        {"block": ["a", "a"], "quantile": [0.25, 0.5], "value": [3, 5]}
    )
    (line,) = quantiles.plot().lines
    assert line.get_drawstyle() == "steps-post"
    assert line.get_xydata().tolist() == [[3, 0.25], [5, 0.5]]
    ranks = Release.from_quantiles({"block": ["a"], "rank": [3], "value": [3]}, rank="rank")
    assert ranks.plot().get_ylabel() == "rank"
    values = Release.from_values({"block": ["a"] * 2, "value": [1.0, 2.0]})
    assert values.plot().lines[0].get_ydata().tolist() == [0.5, 1]
    means = Release.from_means({"block": ["a", "b"], "mean": [2.0, 1.0]})
    assert means.plot().lines[0].get_xdata().tolist() == [1, 2]
    both = histogram([0, 3], [3, 9], [3, 4], "a").combine(quantiles)
    ax = both.combine(means).plot("a")
    assert (len(ax.patches), ax.lines[0].get_xdata().tolist()) == (2, [2])
    assert len(ax.figure.axes) == 2


def test_a_picture_lands_on_the_axes_given():
    mine = Figure().add_subplot()
    assert plots.release(histogram([0], [1], [2]), ax=mine) is mine
    with pytest.raises(ParameterError, match="ax: must be"):
        histogram([0], [1], [2]).plot(ax=3)


def test_of_many_blocks_the_largest_have_lines():
    count = np.arange(1, 101)
    table = {
        "block": [f"{k:03d}" for k in count], "lower": count, "upper": count + 1.5, "count": count,
    }  # fmt: skip
    lines = Release.from_histogram(table).plot().patches
    assert len(lines) == 60
    assert lines[0].get_data().edges[0] == 100


def test_categories_are_bars_with_names():
    votes = {
        "block": ["a", "a", "b"],
        "category": ["dem", "a party with a very long name of $2", "dem"],
        "count": [3, None, 4],
        "low": [None, 1, None],
        "high": [None, 5, None],
    }
    release = Release.from_categories(votes, count_low="low", count_high="high")
    ax = release.plot()
    ax.figure.draw_without_rendering()
    assert [text.get_text() for text in ax.get_yticklabels()] == [
        "a party with a very long na…", "dem",
    ]  # fmt: skip
    assert [bar.get_width() for bar in ax.patches] == [1, 7, 4]
    one = release.plot("b")
    assert [bar.get_width() for bar in one.patches] == [0, 4]
