"""The report shows the fit, and nothing that it must not."""

import dataclasses
import re
import warnings
from copy import copy
from datetime import datetime
from html import unescape
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.pages import Page, columns, shows, table, text_of
from unbin._io import write_texts
from unbin.exceptions import IdentificationWarning, ParameterError
from unbin.people.encoding import Encoding
from unbin.results.report import render_report, write_report
from unbin.results.report.facts import reference_levels
from unbin.results.tables import drawable_tables


@pytest.fixture(scope="module")
def html(study):
    return render_report(
        study.model,
        title="<b>Stays</b> & $costs$",
        oracle=study.oracle,
        command='unbin fit "a b.csv" <release>',
        inputs={"people <1>.csv": "sha256:0123"},
        created=datetime(2026, 1, 2, 3, 4, 5),
    )


def test_every_section_is_there(html):
    assert html.startswith("<!DOCTYPE html>\n")
    assert re.findall(r"<h2>(.*?)</h2>", html) == [
        "Coefficients",
        "How to read this",
        "Fit and residuals",
        "What was published",
        "Convergence",
        "How this page was made",
    ]
    words = text_of(html)
    assert "2026-01-02T03:04:05" in words
    assert 'unbin fit "a b.csv" <release>' in words
    assert "sha256:0123" in words
    for name in ("unbin 0.", "numpy ", "scipy ", "Python 3."):
        assert name in words


def test_it_says_what_the_model_says(html, study):
    words = text_of(html)
    for sentence in study.model.diagnostics_.sentences():
        assert " ".join(sentence.split()).lower() in words.lower()
    assert study.model.status_.value in words
    assert "The release holds" in words


def test_the_coefficients_are_in_the_table(html, study):
    found = columns(html, "Table of coefficients")
    model, said = study.model, study.model.diagnostics_
    assert list(found) == [
        "term", "estimate", "std. error", "95 % interval", "p", "verdict", "held", "from shape",
        "oracle",
    ]  # fmt: skip
    estimates = (model.intercept_, *model.coef_)
    assert all(map(shows, found["estimate"], estimates))
    assert all(map(shows, found["std. error"][1:], model.standard_errors_))
    ends = [cell.split(" to ") for cell in found["95 % interval"][1:]]
    assert all(
        shows(low, a) and shows(high, b)
        for (low, high), (a, b) in zip(ends, model.conf_int(), strict=True)
    )
    assert all(map(shows, found["oracle"][1:], study.oracle.coef_))
    assert found["held"][0] == found["from shape"][0] == "–"
    assert found["held"][1] == f"{100 * said.efficiency[0]:.0f} %"
    assert [re.sub("<.*?>", "", cell) for cell in found["verdict"][1:]] == list(said.verdicts)


def test_a_column_has_the_same_decimals(html):
    found = columns(html, "Table of coefficients")
    for name in ("estimate", "std. error", "oracle"):
        assert len({len(cell.partition(".")[2]) for cell in found[name]}) == 1
    assert "-" not in "".join(found["estimate"])  # a true minus


@pytest.mark.parametrize(
    ("changes", "colour", "words"),
    [
        ({}, "verdict ", "Estimated: all 4 coefficients"),
        ({"trusted": False, "reason": "not to be trusted: so"}, "verdict doubt", "Not to be trust"),
        ({"identified": False, "trusted": False, "reason": "not estimable: no"}, "verdict doubt",
         "Not estimable: no"),
        ({"verdicts": ("estimated",) * 3 + ("imprecise",), "reason": "imprecise: 1 of 4"},
         "verdict vague", "Imprecise: 1 of 4"),
    ],
)  # fmt: skip
def test_only_a_fit_to_be_trusted_is_green(study, changes, colour, words):
    model = copy(study.model)
    said = dataclasses.replace(
        study.model.diagnostics_, reason="estimated: all 4 coefficients", trusted=True
    )
    model._fits = [
        dataclasses.replace(study.model._fits[0], diagnostics=dataclasses.replace(said, **changes))
    ]
    model.diagnostics_ = model._fits[0].diagnostics
    html = render_report(model, title="")
    assert f'<div class="{colour}">' in html
    assert words in text_of(html)


def smallest_count(ax):
    """Return the smallest published count of a panel, from the areas of its bars."""
    (bars,) = [each for each in ax.containers if each.get_label() == "published"]
    area = np.array([bar.get_height() * bar.get_width() for bar in bars])
    people = int(ax.get_title().rpartition("(")[2].rstrip(")").replace(",", ""))
    return round((people * area / area.sum()).min(), 6)


def test_nothing_is_green_in_a_fit_that_fails(study):
    reason = "not to be trusted: the spread of the outcome changes with $x$ & $10,000 (p = 1e-9)"
    model = copy(study.model)
    said = dataclasses.replace(
        study.model.diagnostics_, reason=reason, trusted=False, reasons=(reason,)
    )
    model._fits = [dataclasses.replace(study.model._fits[0], diagnostics=said)]
    model.diagnostics_ = said
    html = render_report(model, title="")
    assert "the spread of the outcome changes with $x$ & $10,000 (p = 1e-9)" in text_of(html)
    assert 'class="said "' not in html
    assert 'class="said "' in render_report(study.model, title="")


def test_it_needs_nothing_and_runs_nothing(html):
    csp = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert f'<meta http-equiv="Content-Security-Policy" content="{csp}">' in html
    assert "<script" not in html.lower()
    page = Page(html)
    assert not page.tags & {"script", "iframe", "object", "embed", "img", "foreignobject", "a"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    for name, value in page.attributes:
        if name in ("href", "src", "xlink:href"):
            assert value.startswith(("#", "data:,"))
        assert "url(" not in (value or "") or "url(#" in value
    assert "http://" not in html
    assert "https://" not in html
    assert "@import" not in html


def test_pictures_are_whole_and_their_ids_unique(html):
    pictures = re.findall(r"<svg.*?</svg>", html, re.S)
    assert len(pictures) > 5
    page = Page(html)
    assert len(set(page.ids)) == len(page.ids)
    known = set(page.ids)
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert root.get("role") == "img"
        assert root.get("aria-label")
        assert root.get("viewBox").startswith("0 0 ")
    used = re.findall(r'href="#([^"]+)"', html) + re.findall(r"url\(#([^)]+)\)", html)
    assert used
    assert set(used) <= known


def test_hostile_names_are_text(html, study):
    page = Page(html)
    for name in study.X.columns:
        assert any(name.strip() in text for text in page.text)  # in full, in the table
        assert any(text.startswith(name[:15]) for text in page.text)  # in pictures
    assert "<b>Stays</b> & $costs$" in page.text
    assert "b" not in page.tags
    assert ("onload", "x") not in page.attributes


def test_small_blocks_and_counts_are_masked(html, study):
    published = study.model.published_
    labels = re.findall(r'aria-label="Block ([^"]*?): published', html.replace("&quot;", "'"))
    assert len(labels) > 5
    small = [str(name) for name, n in zip(published.blocks, published.n, strict=True) if n < 11]
    assert len(small) == 2
    words = text_of(html)
    for name in small:
        assert name not in words
        assert f"Block {name.split()[0]} " not in " ".join(labels)
    assert "(6)" not in words
    assert "(7)" not in words
    whole = published.whole_blocks(11).sum()
    assert f"{whole} of 40 blocks; the others have counts of fewer than 11 people" in words


def test_no_panel_shows_only_the_high_bars(study, monkeypatch):
    """A block is drawn with all of its counts or not at all."""
    from unbin import plots

    drawn = []
    real = plots.histogram

    def watch(*args, **kwargs):
        drawn.append(real(*args, **kwargs))
        return drawn[-1]

    monkeypatch.setattr(plots, "histogram", watch)
    render_report(study.model, title="")
    assert len(drawn) > 5
    for ax in drawn:
        (masked,) = [each for each in ax.containers if each.get_label() == "masked"]
        assert len(masked) == 0


def test_points_are_of_blocks_that_are_shown_whole(study):
    from unbin import plots

    published = study.model.published_
    whole = published.whole_blocks(11)
    assert 0 < whole.sum() < len(whole)
    ax = plots.residuals(study.model, smallest=11)
    np.testing.assert_array_equal(ax.lines[-1].get_ydata(), published.residual[whole])


def test_no_bar_tells_a_small_count(study, monkeypatch):
    from unbin import plots

    drawn = []
    real = plots.histogram

    def watch(*args, **kwargs):
        drawn.append(real(*args, **kwargs))
        return drawn[-1]

    monkeypatch.setattr(plots, "histogram", watch)
    render_report(study.model, title="")
    assert len(drawn) > 5
    for ax in drawn:
        assert smallest_count(ax) >= 11
        assert "(6)" not in ax.get_title()


def test_imputed_values_are_not_in_it(html, study):
    for value in study.model.impute()[:200]:
        assert f"{value:.6g}" not in html


def test_the_same_fit_gives_the_same_page(html, study):
    again = [render_report(study.model, title="t", oracle=study.oracle) for _ in range(2)]
    assert again[0] == again[1]
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black", "svg.fonttype": "path"}):
        assert render_report(study.model, title="t", oracle=study.oracle) == again[0]
        assert mpl.rcParams["font.size"] == 30


def test_a_matching_fit_has_a_report_without_intervals(study):
    html = render_report(study.matching, title="m", oracle=study.oracle.coef_)
    found = columns(html, "Table of coefficients")
    assert list(found) == ["term", "estimate", "oracle"]
    assert all(map(shows, found["estimate"][1:], study.matching.coef_))
    assert all(map(shows, found["oracle"][1:], study.oracle.coef_))
    words = text_of(html)
    assert "Matching has no intervals, and it mistakes noise for signal" in words
    assert "Matching keeps no counts to draw." in words
    assert study.matching.status_.value in words


def test_an_observed_fit_has_a_report(study):
    html = render_report(study.oracle, title="o")
    words = text_of(html)
    assert "Every outcome was known" in words
    assert "What was published" not in words
    assert "The coefficients can" not in words
    found = columns(html, "Table of coefficients")
    assert all(map(shows, found["estimate"][1:], study.oracle.coef_))


def test_scores_of_the_families_tried(study):
    model = unbin.AggregatedGLM(family="auto", alpha="held-out")
    model.fit(study.X, study.release.align(study.blocks))
    html = render_report(model, title="auto")
    _, *rows = table(html, "Held-out scores")
    selection = model.selection_
    assert {row[0] for row in rows} == set(selection.family)
    assert shows(rows[0][3], selection.score.max())
    assert rows[0][4] == "best"
    part = html[html.index("class=chosen") :]
    assert f">{model.family_}<" in part[:80]


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_a_release_that_cannot_tell_is_said_first():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"日本語 🙂": rng.normal(size=9), "a\x00b": rng.normal(size=9)})
    target = unbin.aggregate(rng.normal(size=9), bins=3).align(np.repeat("all", 9))
    model = unbin.AggregatedGLM().fit(X, target)
    html = render_report(model, title="few")
    words = text_of(html)
    assert "verdict doubt" in html
    assert "Not estimable: a single block does not tell the coefficients" in words
    assert "Every block has counts of fewer than 11 people, so none is drawn" in words
    assert "People <11" in words
    assert "日本語 🙂" in words


def test_contextual_effects_are_in_the_table(study):
    model = unbin.AggregatedGLM(contextual=True, alpha=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        model.fit(study.X, study.release.align(study.blocks))
    found = columns(render_report(model, title=""), "Table of coefficients")
    values = (model.intercept_, *model.coef_, *model.contextual_coef_)
    assert all(map(shows, found["estimate"], values))
    assert found["term"][-1].startswith("block mean of")
    assert found["held"][5:] == ["–"] * 4


def test_one_target_at_a_time(study):
    target = study.release.align(study.blocks)
    several = unbin.AggregatedGLM().fit(study.X, [target, target])
    with pytest.raises(ParameterError, match="report: needs a model of one target"):
        render_report(several, title="")
    with pytest.raises(ParameterError, match="oracle: must have the 4 coefficients"):
        render_report(study.model, title="", oracle=[1.0])


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    goal = tmp_path / "report.html"
    write_report(goal, "<p>é</p>")
    assert goal.read_bytes() == "<p>é</p>".encode()
    with pytest.raises(ParameterError, match=r"^html: must be of class str, got NoneType"):
        write_report(goal, None)
    with pytest.raises(AttributeError):
        write_texts({goal: None})
    assert goal.read_text(encoding="utf-8") == "<p>é</p>"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_block_is_left_out_where_its_size_would_tell_that_of_a_small_one():
    rng = np.random.default_rng(0)
    size = np.array([6, *np.arange(200, 310, 10)])  # 11 blocks, all of which could be drawn
    codes = np.repeat(np.arange(12), size)
    blocks = np.array([f"block {k:02d}" for k in codes])
    X = rng.normal(size=(len(codes), 1)) + rng.normal(size=(12, 1))[codes]
    y = X[:, 0] + rng.normal(size=len(codes))
    target = unbin.aggregate(y, blocks, bins=3).align(blocks)
    words = text_of(render_report(unbin.AggregatedGLM().fit(X, target), title=""))
    assert "10 of 12 blocks; the others have counts of fewer than 11 people" in words
    assert "block 00" not in words
    assert "block 11" not in words  # its people would leave 6 for the other
    assert "block 01 (200)" in words


def test_a_public_table_is_shown_whole(study):
    html = render_report(study.model, title="", public=True)
    words = text_of(html)
    assert "The table is public, so nothing is masked." in words
    assert "fewer than 11" not in words
    assert "All blocks: published and fitted" in html
    assert render_report(study.model, title="", public=False) == render_report(
        study.model, title=""
    )
    release = dataclasses.replace(study.release, public=True)
    model = unbin.AggregatedGLM().fit(study.X, release.align(study.blocks))
    assert model.published_.public
    assert "fewer than 11" not in text_of(render_report(model, title=""))
    assert "fewer than 11" in text_of(render_report(model, title="", public=False))
    with pytest.raises(ParameterError, match="public: must be a bool, got 'yes'"):
        render_report(model, title="", public="yes")


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_few_people_of_a_public_table_are_counted():
    rng = np.random.default_rng(0)
    release = dataclasses.replace(unbin.aggregate(rng.normal(size=9), bins=3), public=True)
    model = unbin.AggregatedGLM().fit(rng.normal(size=(9, 1)), release.align(["all"] * 9))
    assert "People 9" in text_of(render_report(model, title=""))


# -- several tables --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def several(joint):
    return render_report(joint, title="two")


def drawn_tables(monkeypatch, model, **how):
    """Return which tables are drawn in a report, and the smallest bar of each."""
    from unbin import plots

    smallest, real = {}, plots.histogram

    def watch(*args, **kwargs):
        ax = real(*args, **kwargs)
        name = kwargs["table"]
        smallest[name] = min(smallest.get(name, np.inf), smallest_count(ax))
        return ax

    monkeypatch.setattr(plots, "histogram", watch)
    render_report(model, title="", **how)
    return smallest


def test_every_table_has_a_section(several, joint):
    heads = re.findall(r"<h2>(.*?)</h2>", several)
    assert [" ".join(unescape(head).split()) for head in heads] == [
        "Coefficients",
        "How to read this",
        "What each table told",
        "Fit and residuals",
        "What was published",
        "Convergence",
        "How this page was made",
    ]
    heads = [" ".join(unescape(head).split()) for head in re.findall(r"<h3>(.*?)</h3>", several)]
    assert heads[:2] == [f"Table {' '.join(table.name.split())}" for table in joint.tables_]
    assert "the 2 tables that were published of these people" in text_of(several)


def test_the_tables_are_told_apart(several, joint):
    _, *rows = table(several, "The tables")
    for row, found in zip(rows, joint.tables_, strict=True):
        fit = found.goodness_of_fit
        assert unescape(row[0]) == found.name
        assert row[1:4] == [f"{found.n_people:,}", f"{found.n_blocks:,}", f"{fit.ratio:.2f}"]
        assert float(row[4].removeprefix("&lt; ")) == pytest.approx(fit.p_value, abs=1e-3)
        assert shows(row[5], found.block_sd)


def test_what_each_table_told_is_in_numbers(several, joint):
    head, *rows = table(several, "What each table told")
    assert [unescape(cell) for cell in head[1:]] == list(joint.diagnostics_.tables)
    shares = joint.diagnostics_.information
    assert [row[1:] for row in rows] == [[f"{100 * s:.0f} %" for s in told] for told in shares.T]


def test_of_many_tables_the_first_three_are_named(crowd):
    html = render_report(crowd, title="", public=True)
    head, *rows = table(html, "What each table told")
    assert head == ["term", "most from", "then from", "then from", "all others"]
    names, told = crowd.diagnostics_.tables, crowd.diagnostics_.information[:, 0]
    order = np.argsort(-told)
    assert [cell.split(" (")[0] for cell in rows[0][1:4]] == [names[k] for k in order[:3]]
    assert rows[0][1].endswith(f"({100 * told[order[0]]:.0f}\N{NO-BREAK SPACE}%)")
    assert rows[0][4] == f"{100 * told[order[3:]].sum():.0f} %"
    assert html.count("All blocks: published and fitted") == 10  # and a few blocks of each


def test_names_of_tables_are_text(several):
    page = Page(several)
    assert not page.tags & {"script", "b"}
    assert ("onload", "x") not in page.attributes
    assert len(set(page.ids)) == len(page.ids)


def test_of_tables_with_masked_counts_only_one_is_drawn(joint, monkeypatch):
    """The sums of the second over its blocks would tell what is masked in the first."""
    first, second = joint.tables_
    assert not first.published.shown_whole(11)
    assert second.published.shown_whole(11)
    found = drawn_tables(monkeypatch, joint)
    assert set(found) == {first.name}
    assert found[first.name] >= 11
    assert set(drawn_tables(monkeypatch, joint, public=True)) == {first.name, second.name}


def test_it_says_whose_counts_are_left_out(several):
    words = text_of(several)
    assert (
        "where any table has such counts, only the first is drawn, or those that are public, "
        "because sums of another would reveal what is masked." in words
    )
    assert (
        "Its numbers are not drawn: with them, counts that are masked could be worked out" in words
    )


def test_whose_counts_may_be_drawn(joint):
    masked, whole = (each.published for each in joint.tables_)
    for tables, smallest, wanted in [
        ([whole, whole], [11, 11], [True, True]),
        ([masked, whole], [11, 11], [True, False]),
        ([whole, masked], [11, 11], [True, False]),
        ([masked, masked], [0, 0], [True, True]),
        ([masked, whole], [11, 0], [False, True]),  # everybody has the sums of the second
        ([whole, masked, masked], [11, 0, 11], [False, True, False]),
        ([None, masked, whole], [11, 11, 11], [False, True, False]),
        ([None, None], [11, 11], [False, False]),
    ]:
        assert drawable_tables(tables, smallest) == wanted


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_few_people_outside_a_table_are_not_counted():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(600, 1))
    y = X[:, 0] + rng.normal(size=600)
    half = pd.Series(np.digitize(X[:, 0], [-1, -0.3, 0.3, 1]), name="half")
    some = half.astype(object).where(np.arange(600) >= 4, None).rename("some")
    inside = np.arange(600) >= 4
    target = unbin.join(
        unbin.aggregate(y, half, bins=3).align(half),
        unbin.aggregate(y[inside], half[inside], bins=3).align(some, on_missing="drop"),
    )
    model = unbin.AggregatedGLM().fit(X, target)
    assert [each.n_people for each in model.tables_] == [600, 596]
    _, *rows = table(render_report(model, title=""), "The tables")
    assert [row[1] for row in rows] == ["600", "&gt;589"]
    _, *rows = table(render_report(model, title="", public=True), "The tables")
    assert [row[1] for row in rows] == ["600", "596"]


# -- ratios, reference levels, units ---------------------------------------------------------------


@pytest.fixture(scope="module")
def visits():
    """Return people with categories, their encoding, blocks and a number of visits."""
    rng = np.random.default_rng(6)
    codes = np.repeat(np.arange(50), 80)
    shift = rng.normal(size=(50, 3))[codes]
    people = pd.DataFrame(
        {
            "age": 45 + 6 * shift[:, 0] + 10 * rng.normal(size=4000),
            "sex": np.where(shift[:, 1] + rng.normal(size=4000) > 0, "woman", "man"),
            "school <years>": np.where(shift[:, 2] + rng.normal(size=4000) > 0, "9+", "0 & 8"),
        }
    )
    eta = 0.02 * (people.age - 45) + 0.4 * (people.sex == "woman")
    encoding, X = Encoding.build("age + sex + C(`school <years>`)", people)
    X = pd.DataFrame(X, columns=list(encoding.names))
    return X, encoding, codes.astype(str), eta.to_numpy(), rng


FAMILIES = {
    "poisson": "rate ratio",
    "negative-binomial": "rate ratio",
    "binomial": "odds ratio",
    "ordinal": "odds ratio",
    "gamma": "ratio of means",
    "gaussian": "",
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_ratios_are_exp_of_coefficients(visits, family):
    X, encoding, blocks, eta, rng = visits
    y = rng.poisson(np.exp(0.5 + eta))
    bins = [-0.5, 0.5, 1.5, 3.5, np.inf]
    if family == "binomial":
        y, bins = (y > 1).astype(float), [-0.5, 0.5, 1.5]
    if family == "gamma":
        y, bins = rng.gamma(3, np.exp(eta)), [0, 1, 2, 4, 8, np.inf]
    target = unbin.aggregate(y, blocks, bins=bins).align(blocks)
    model = unbin.AggregatedGLM(family).fit(X, target)
    html = render_report(model, title="", encoding=encoding)
    found = columns(html, "Table of coefficients")
    name = f"{FAMILIES[family]} (95 % interval)"
    assert (name in found) == bool(FAMILIES[family])
    if not FAMILIES[family]:
        return
    rows = [
        cell for cell, term in zip(found[name], found["term"], strict=True)
        if unescape(term) in encoding.names
    ]  # fmt: skip
    for cell, coef, (low, high) in zip(rows, model.coef_, model.conf_int(), strict=True):
        value, ends = cell.rstrip(")").split(" (")
        assert shows(value, np.exp(coef))
        assert shows(ends.split(" to ")[0], np.exp(low))
        assert shows(ends.split(" to ")[1], np.exp(high))
    assert found["term"][0] != "intercept" or found[name][0] == "–"


def test_reference_levels_stand_before_their_term(visits):
    X, encoding, blocks, eta, rng = visits
    target = unbin.aggregate(eta + rng.normal(size=4000), blocks, bins=5).align(blocks)
    model = unbin.AggregatedGLM().fit(X, target)
    html = render_report(model, title="", encoding=encoding)
    found = columns(html, "Table of coefficients")
    assert [unescape(term) for term in found["term"]] == [
        "intercept", "age", "sex[man]", "sex[T.woman]", "C(`school <years>`)[0 & 8]",
        "C(`school <years>`)[T.9+]",
    ]  # fmt: skip
    assert found["estimate"][2] == found["estimate"][4] == "reference"
    assert found["std. error"][2] == "–"
    assert "reference" not in columns(render_report(model, title=""), "Table of coefficients")
    with pytest.raises(ParameterError, match="encoding: must be of class Encoding"):
        render_report(model, title="", encoding="age")


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        ("C(a)", [(1, "C(a)[x]")]),
        ("C(a) + C(b)", [(1, "C(a)[x]"), (3, "C(b)[0]")]),
        ("C(a):C(b)", [(1, "C(b)[0]")]),
        ("C(a)*C(b)", [(1, "C(a)[x]"), (3, "C(b)[0]")]),
        ("0 + C(a)", []),
        ("n", []),
    ],
)
def test_whose_level_is_left_out(formula, wanted):
    people = pd.DataFrame({"a": ["x", "y", "z"] * 4, "b": ["0", "1"] * 6, "n": np.arange(12.0)})
    encoding, _ = Encoding.build(formula, people)
    assert reference_levels(encoding, ["intercept", *encoding.names]) == wanted


def test_coefficients_of_wild_units_are_drawn_on_one_scale(study):
    html = render_report(study.model, title="")
    assert "standardised" not in text_of(html)
    X = study.X * [1, 1000, 1, 1]
    model = unbin.AggregatedGLM().fit(X, study.release.align(study.blocks))
    words = text_of(render_report(model, title=""))
    assert "On the standardised scale, because the units of the features differ" in words
    assert "standardised coefficient, with 95 % interval" in words


def test_standardised_coefficients_are_those_of_standardised_columns(study):
    from unbin import plots

    ax = plots.coefficients(study.model, standardised=True)
    (dots,) = ax.containers
    spread = study.X.to_numpy().std(axis=0)
    outcome = study.model.standard_errors_ * spread / study.model.diagnostics_.precision
    np.testing.assert_allclose(outcome, outcome[0])  # sd of the outcome, of any feature
    assert outcome[0] == pytest.approx(study.y.std(), rel=0.1)
    np.testing.assert_allclose(dots.lines[0].get_xdata(), study.model.coef_ * spread / outcome[0])
    with pytest.raises(ParameterError, match="standardised: needs a likelihood fit"):
        plots.coefficients(study.matching, standardised=True)


@pytest.mark.parametrize("kind", ["means", "quantiles"])
def test_means_and_quantiles_have_residuals(study, kind):
    frame = pd.DataFrame({"block": study.blocks, "y": study.y})
    table = frame.groupby("block").y.agg(["mean", "median", "size"]).reset_index()
    table["q"] = 0.5
    if kind == "means":
        release = unbin.Release.from_means(table, block="block", mean="mean", n="size")
    else:
        release = unbin.Release.from_quantiles(
            table, block="block", quantile="q", value="median", n="size"
        )
    model = unbin.AggregatedGLM().fit(study.X, release.align(study.blocks))
    html = render_report(model, title="")
    words = text_of(html)
    assert 'aria-label="Residuals of the blocks"' in html
    assert 'aria-label="Published against fitted, block by block"' in html
    assert "37 of 40 blocks; the others have counts of fewer than 11 people" in words
    assert f"{kind.capitalize()} of the blocks, which are drawn above; no counts." in words
    assert "All 40 blocks." in text_of(render_report(model, title="", public=True))
