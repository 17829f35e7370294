"""Pictures show the numbers of the fit."""

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError

import unbin
from tests.helpers.processes import run_python
from tests.helpers.releases import rounded
from unbin import plots
from unbin.exceptions import ParameterError
from unbin.permutation import PermutationTest
from unbin.results.plots.bars import bars_of


def bars(ax, label):
    """Return the centres and heights of the bars of a label."""
    (container,) = [each for each in ax.containers if each.get_label() == label]
    return (
        [bar.get_x() + bar.get_width() / 2 for bar in container],
        [bar.get_height() for bar in container],
    )


def areas(ax, label):
    """Return the areas of the bars of a label; one person of all bars has the area of 1."""
    (container,) = [each for each in ax.containers if each.get_label() == label]
    return np.array([bar.get_height() * bar.get_width() for bar in container])


def shares(ax):
    """Return the share of each published bar in all."""
    area = areas(ax, "published")
    return area / area.sum()


def dots(ax, label):
    (found,) = [each for each in ax.containers if each.get_label() == label]
    return found.lines[0]


def ends(ax, label):
    """Return the ends of the intervals of a label, shape (d, 2)."""
    (found,) = [each for each in ax.containers if each.get_label() == label]
    (segments,) = found.lines[2]
    return np.array([segment[:, 0] for segment in segments.get_segments()])


def draws(ax):
    """Draw for real, so that layout and text are gone through."""
    ax.get_figure(root=True).canvas.draw()


def test_plots_come_when_they_are_asked_for():
    code = "import sys, unbin; assert 'matplotlib' not in sys.modules; unbin.plots.coefficients; "
    code += "assert 'matplotlib.pyplot' not in sys.modules; assert {'plots', 'report'} <= "
    code += "set(dir(unbin)); unbin.report.render_report"
    run_python(code)


def test_coefficients_are_drawn_where_they_are(study):
    ax = plots.coefficients(study.model, study.oracle, level=0.9)
    assert isinstance(ax, Axes)
    np.testing.assert_array_equal(dots(ax, "this fit").get_xdata(), study.model.coef_)
    np.testing.assert_array_equal(dots(ax, "oracle").get_xdata(), study.oracle.coef_)
    np.testing.assert_allclose(ends(ax, "this fit"), study.model.conf_int(0.9))
    np.testing.assert_allclose(ends(ax, "oracle"), study.oracle.conf_int(0.9))
    assert ax.get_xlabel() == "coefficient, with 90 % interval"
    draws(ax)


def test_names_are_text_and_cut(study):
    ax = plots.coefficients(study.model)
    labels = ax.get_yticklabels()
    assert [label.get_text() for label in labels] == [
        "<script>alert(1)</scrip…",
        "$x$ & $10,000",
        "=cmd()|'/C calc'!A0 [bo…",
        '" onload="x" very long …',
    ]
    assert not any(label.get_parse_math() for label in labels)
    assert plots.shorten("a\n\tb\x00c\u202ed") == "a b c d"


def test_matching_has_dots_without_intervals(study):
    ax = plots.coefficients(study.matching, study.oracle.coef_)
    np.testing.assert_array_equal(dots(ax, "this fit").get_xdata(), study.matching.coef_)
    (fit, oracle) = ax.containers
    assert not fit.has_xerr
    assert not oracle.has_xerr
    assert ax.get_xlabel() == "coefficient"


def test_of_many_coefficients_the_clearest_are_drawn(study):
    ax = plots.coefficients(study.model, most=2)
    z = np.abs(study.model.coef_ / study.model.standard_errors_)
    chosen = np.sort(np.argsort(-z)[:2])
    np.testing.assert_array_equal(dots(ax, "this fit").get_xdata(), study.model.coef_[chosen])


DRAW = {
    "coefficients": lambda study, ax: plots.coefficients(study.model, ax=ax),
    "histogram": lambda study, ax: plots.histogram(study.model, ax=ax),
    "histograms": lambda study, ax: plots.histograms(study.model, ax=ax),
    "recovered": lambda _, ax: plots.recovered([1.0], [1.0], [0, 2], ax=ax),
    "residuals": lambda study, ax: plots.residuals(study.model, ax=ax),
    "observed_expected": lambda study, ax: plots.observed_expected(study.model, ax=ax),
    "influence": lambda study, ax: plots.influence(study.model, ax=ax),
    "objective_path": lambda study, ax: plots.objective_path(study.model, ax=ax),
    "permutation": lambda _, ax: plots.permutation(
        PermutationTest("error", 1.0, np.arange(5.0), 0.2), ax=ax
    ),
    "errors_by_bins": lambda _, ax: plots.errors_by_bins([1], {"a": [1]}, ax=ax),
}


@pytest.mark.parametrize("name", DRAW)
def test_a_picture_lands_on_the_axes_given(study, name):
    mine = Figure().add_subplot()
    assert DRAW[name](study, mine) is mine
    draws(mine)


def test_a_histogram_has_the_published_and_fitted_counts(study):
    published = study.model.published_
    ax = plots.histogram(study.model, published.blocks[7])
    place, height = bars(ax, "published")
    area = areas(ax, "published")
    np.testing.assert_allclose(area / area.sum(), published.count[7] / published.n[7])
    np.testing.assert_allclose(ax.lines[0].get_xdata(), place)
    width = area / height
    marked = ax.lines[0].get_ydata() * width
    np.testing.assert_allclose(marked / area.sum(), published.expected[7] / published.n[7])
    ticks = [float(label.get_text().replace("−", "-")) for label in ax.get_xticklabels()]
    kept = np.isin(ax.get_xticks(), published.upper)
    assert kept.all()
    np.testing.assert_allclose(ticks, ax.get_xticks(), rtol=0.01)
    assert ax.get_xlabel() == "outcome"
    assert ax.get_ylabel().startswith("people per ")
    title = ax.title
    assert title.get_text() == f"{plots.shorten(published.blocks[7], 20)} ({published.n[7]})"
    assert not title.get_parse_math()
    assert len(plots.histogram(study.model, published.blocks[7], fitted=False).lines) == 0


def test_all_blocks_together(study):
    ax = plots.histogram(study.model)
    count = study.model.published_.count.sum(axis=0)
    np.testing.assert_allclose(shares(ax), count / count.sum())
    assert ax.get_title() == f"all blocks ({len(study.y):,})"


def test_masked_counts_are_not_drawn(study):
    published = study.model.published_
    mask = published.masked(11)
    b = int(np.flatnonzero(mask.any(axis=1) & ~mask.all(axis=1))[0])
    ax = plots.histogram(study.model, published.blocks[b], smallest=11)
    place, height = bars(ax, "published")
    whole = plots.histogram(study.model, published.blocks[b])
    everywhere = np.array(bars(whole, "published")[0])
    np.testing.assert_allclose(place, everywhere[~mask[b]])
    np.testing.assert_allclose(shares(ax), shares(whole)[~mask[b]] / shares(whole)[~mask[b]].sum())
    np.testing.assert_allclose(ax.lines[0].get_xdata(), place)
    place, height = bars(ax, "masked")
    np.testing.assert_allclose(place, everywhere[mask[b]])
    assert len(set(height)) == 1  # the same for 0 and for 10


def test_rough_counts_have_a_line_over_their_interval(study):
    model = unbin.AggregatedGLM().fit(study.X, rounded(study.release).align(study.blocks))
    published = model.published_
    ax = plots.histogram(model, published.blocks[20])
    (lines,) = ax.collections
    ends = np.array([segment[:, 1] for segment in lines.get_segments()])
    rough = published.low[20] < published.high[20]
    width = bars_of(published, 20).scale[rough]
    np.testing.assert_allclose(ends[:, 0], published.low[20, rough] * width)
    np.testing.assert_allclose(ends[:, 1], published.high[20, rough] * width)


def test_panels_are_worst_first_or_as_named(study):
    published = study.model.published_
    ax = plots.histograms(study.model)
    assert isinstance(ax, Axes)
    assert len(ax.child_axes) == 12
    worst = published.worst_first()
    for b, panel in zip(worst, ax.child_axes, strict=False):
        np.testing.assert_allclose(shares(panel), published.count[b] / published.n[b])
    draws(ax)
    named = plots.histograms(study.model, published.blocks[[3, 1]]).child_axes
    np.testing.assert_allclose(shares(named[1]), published.count[1] / published.n[1])
    assert len(plots.histograms(study.model, str(published.blocks[0])).child_axes) == 1


def test_whole_numbers_are_named_by_bar():
    rng = np.random.default_rng(0)
    blocks = np.repeat(np.arange(30).astype(str), 40)
    X = rng.normal(size=(1200, 1)) + rng.normal(size=(30, 1)).repeat(40, axis=0)
    y = rng.poisson(np.exp(0.5 * X[:, 0]))
    release = unbin.aggregate(y, blocks, bins=np.array([-0.5, 0.5, 2.5, 100]))
    model = unbin.AggregatedGLM("poisson").fit(X, release.align(blocks))
    ax = plots.histogram(model, "3")
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "1–2", "3+"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.25, "0.25"), (-3.0, "−3"), (999.6, "1000"), (9500, "9500"), (12_500, "12.5k"),
     (2.5e6, "2.5M"), (3e9, "3G"), (0, "0")],
)  # fmt: skip
def test_edges_are_short(value, text):
    ax = plots.recovered([value], [value], [value, value + 1 + abs(value)])
    assert ax.get_xticklabels()[0].get_text() == text


def test_recovered_counts_are_beside_true_ones():
    ax = plots.recovered([0.5, 1.0, 1.5, 9.0], [0.0, 1.0, 2.0, 2.0], [0, 1, 2, np.inf])
    assert bars(ax, "recovered")[1] == [2, 1, 1]
    assert bars(ax, "true")[1] == [2, 2, 0]


def test_the_path_is_that_of_the_solver(study):
    for model in (study.model, study.matching, study.oracle):
        ax = plots.objective_path(model)
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), model.objective_path_)
    assert plots.objective_path(study.model).get_yscale() == "log"
    assert plots.objective_path(study.matching).get_ylabel() == "objective"


def test_permutations_beside_what_was_seen():
    null = np.linspace(1, 2, 99)
    ax = plots.permutation(PermutationTest("error", 0.4, null, 0.01))
    assert sum(patch.get_height() for patch in ax.patches) == 99
    assert ax.lines[0].get_xdata()[0] == 0.4
    assert ax.get_xlabel() == "error of the recovered means"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "99 permutations",
        "seen (p = 0.01)",
    ]


def test_errors_by_bins_with_repeats():
    repeats = np.array([[3.0, 2.0], [5.0, 2.0]])
    ax = plots.errors_by_bins([2, 25], {"_$a$": repeats, "oracle": [1, 1]})
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [4, 2])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [1, 1])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["_$a$", "oracle"]
    assert not ax.get_legend().get_texts()[0].get_parse_math()
    (band,) = ax.collections
    top = band.get_paths()[0].vertices[:, 1].max()
    assert top == pytest.approx(4 + 2 * np.sqrt(2) / np.sqrt(2))


def test_errors_say_what_to_do(study):
    with pytest.raises(NotFittedError):
        plots.coefficients(unbin.AggregatedGLM())
    with pytest.raises(ParameterError, match="oracle: must have the 4 coefficients"):
        plots.coefficients(study.model, [1.0])
    with pytest.raises(ParameterError, match="most: must be a whole number"):
        plots.coefficients(study.model, most=0)
    with pytest.raises(ParameterError, match="got a fit by 'matching'; fit method='likelihood'"):
        plots.histograms(study.matching)
    with pytest.raises(ParameterError, match="block: no counts were published for 'x'; name one"):
        plots.histogram(study.model, "x")
    with pytest.raises(ParameterError, match="blocks: names none"):
        plots.histograms(study.model, [])
    with pytest.raises(ParameterError, match="edges: must increase"):
        plots.recovered([1], [1], [2, 1])
    with pytest.raises(ParameterError, match=r"errors: 'a' must hold one error for each of the 2"):
        plots.errors_by_bins([1, 2], {"a": [1]})
    target = study.release.align(study.blocks)
    several = unbin.AggregatedGLM().fit(study.X, [target, target])
    with pytest.raises(ParameterError, match="plots: need a model of one target"):
        plots.coefficients(several)


# -- several tables --------------------------------------------------------------------------------


def stacked(ax):
    """Return the shares that are drawn, a row per table, and the names of the tables."""
    width = [[bar.get_width() for bar in each] for each in ax.containers]
    left = [[bar.get_x() for bar in each] for each in ax.containers]
    np.testing.assert_allclose(left, np.cumsum(width, axis=0) - width, atol=1e-12)
    return np.array(width), [text.get_text() for text in ax.get_legend().get_texts()]


def test_information_is_drawn_as_shares_of_tables(joint):
    ax = plots.information(joint)
    share, names = stacked(ax)
    np.testing.assert_allclose(share, joint.diagnostics_.information)
    assert names == ["<script>alert(1)</scrip…", '" onload="x" very long …']
    assert not any(text.get_parse_math() for text in ax.get_legend().get_texts())
    assert [label.get_text() for label in ax.get_yticklabels()][1] == "$x$ & $10,000"
    draws(ax)


def test_of_many_tables_those_that_told_least_are_one(crowd):
    share, names = stacked(plots.information(crowd, most=4))
    assert share.shape == (8, 4)
    np.testing.assert_allclose(share.sum(axis=0), 1)
    told = crowd.diagnostics_.information
    alone = set(np.argsort(-told.sum(axis=1))[:7])
    assert names == [
        *(name for k, name in enumerate(crowd.diagnostics_.tables) if k in alone), "3 other tables"
    ]  # fmt: skip
    z = np.abs(crowd.coef_ / crowd.standard_errors_)
    chosen = np.sort(np.argsort(-z)[:4])
    others = [k for k in range(10) if k not in alone]
    np.testing.assert_allclose(share[-1], told[np.ix_(others, chosen)].sum(axis=0))


def test_a_table_is_drawn_by_its_name(joint):
    first, second = joint.tables_
    name = str(second.published.blocks[3])
    ax = plots.histogram(joint, name, table=second.name)
    np.testing.assert_allclose(shares(ax), second.published.count[3] / second.published.n[3])
    everybody = plots.histogram(joint, table=second.name)
    total = second.published.count.sum(axis=0)
    np.testing.assert_allclose(shares(everybody), total / total.sum())
    panels = plots.histograms(joint, table=second.name).child_axes
    assert len(panels) == 12
    worst = second.published.worst_first()[0]
    np.testing.assert_allclose(
        shares(panels[0]), second.published.count[worst] / second.published.n[worst]
    )
    default = plots.histogram(joint, str(first.published.blocks[3]))
    np.testing.assert_allclose(shares(default), first.published.count[3] / first.published.n[3])


def test_tables_that_are_not_there(joint, study):
    with pytest.raises(ParameterError, match="table: the model was fitted to one table, got 'sex'"):
        plots.histogram(study.model, table="sex")
    with pytest.raises(ParameterError, match="table: unknown, got 'sex'; use one of '<script>"):
        plots.histograms(joint, table="sex")
    with pytest.raises(ParameterError, match="information: needs a fit to several tables"):
        plots.information(study.model)
