"""The report of a classifier shows the fit, and nothing that it must not."""

import re

import numpy as np
import pytest

import unbin
from tests.helpers.pages import Page, shows, table, text_of
from tests.helpers.precincts import PARTIES, RACES, published, voters
from unbin.exceptions import ParameterError
from unbin.results.report import render_report

PEOPLE = voters()


def fitted(people=PEOPLE, features=("race", "age"), **parameters):
    return unbin.AggregatedClassifier(**parameters).fit(
        people, {"precinct": published(people)}, features=list(features)
    )


@pytest.fixture(scope="module")
def grouped():
    return fitted(random=["race"], contextual=0.25)


@pytest.fixture(scope="module")
def html(grouped):
    return render_report(grouped, title="<b>Votes</b>", public=True)


def test_every_section_is_there(html, grouped):
    assert re.findall(r"<h2>(.*?)</h2>", html) == [
        "Who is in which category",
        "Coefficients",
        "How to read this",
        "Fit",
        "Blocks",
        "Convergence",
        "How this page was made",
    ]
    words = text_of(html)
    assert grouped.status_.value in words
    assert grouped.diagnostics_.reason.split(": ", 1)[1] in words
    assert "<b>Votes</b>" not in html
    page = Page(html)
    assert len(set(page.ids)) == len(page.ids)
    assert "script" not in page.tags


def test_cells_are_those_of_group_table(html, grouped):
    _, *rows = table(html, "Cells of everybody")
    found = grouped.group_table()
    assert len(rows) == len(found) == 9
    names = ["share", None, "share_z_0", "share_z_0.25", "share_z_0.5"]
    for row, (_, own) in zip(rows, found.iterrows(), strict=True):
        assert row[2] == own["category"]
        for cell, name in zip(row[3:], names, strict=True):
            if name is not None:
                assert shows(cell.removesuffix(" %"), 100 * own[name])


def test_coefficients_are_those_of_tidy(html, grouped):
    _, *rows = table(html, "Table of coefficients")
    tidy = grouped.tidy()
    assert [row[1] for row in rows] == tidy["term"].tolist()
    assert [row[0] for row in rows if row[0]] == list(PARTIES)
    assert all(shows(row[2], value) for row, value in zip(rows, tidy["estimate"], strict=True))


def test_blocks_are_those_of_block_table(html, grouped):
    found = grouped.block_table().set_index(["block", "race", "category"])
    blocks = re.findall(r"<summary>(p\d+), 200 people", html)
    assert len(blocks) == 30
    _, *rows = table(html, f"Cells of {blocks[0]}")
    assert {row[0] for row in rows} <= set(RACES)
    for race, size, *cells in rows:
        own = found.loc[(blocks[0], race)]
        assert shows(size, own["people"].iloc[0])
        for cell, count in zip(cells, own.loc[list(PARTIES), "count"], strict=True):
            assert shows(cell.split(" ")[0], count)


@pytest.fixture(scope="module")
def small():
    """Return a fit to precincts some of whose counts are small."""
    return fitted(voters(size=80), random=["race"], contextual=0.25)


def test_what_is_not_public_has_no_cells_of_blocks(small):
    html = render_report(small, title="t")
    assert "<summary>" not in html
    assert "Cells of single blocks are not shown" in text_of(html)
    assert not re.search(r"\bp\d\d\b", text_of(html))
    drawn = "of 40 blocks; the others have counts of fewer than 11 people"
    assert drawn in text_of(html)


def test_small_groups_have_no_shares():
    """Of a group of fewer than eleven people nothing is shown, in the table or the picture."""
    race = PEOPLE["race"].where(np.arange(len(PEOPLE)) % 1000 > 0, "rare <race>")
    model = fitted(PEOPLE.assign(race=race), features=["race"], random=["race"])
    html = render_report(model, title="t")
    _, *rows = table(html, "Cells of everybody")
    (first,) = [k for k, row in enumerate(rows) if row[0] == "rare &lt;race&gt;"]
    assert rows[first][1] == "&lt;11"
    assert all(row[3] == row[4] == "\N{EN DASH}" for row in rows[first : first + 3])
    # a fact, a row, three coefficients, which the verdict names; not in the picture
    assert html.count("rare") == 8
    shown = render_report(model, title="t", public=True)
    assert "&lt;11" not in shown


def test_a_report_of_known_people_has_no_counts():
    people = PEOPLE.assign(known=PEOPLE["vote"].where(np.arange(len(PEOPLE)) % 50 == 0))
    model = unbin.AggregatedClassifier(random=["race"]).fit(
        people, {"precinct": published(people)}, features=["race"], observed="known"
    )
    html = render_report(model, title="t", public=True)
    assert "would tell these categories" in text_of(html)
    assert "<summary>" not in html
    assert "Published against expected" not in html


def test_a_saved_model_says_what_it_has_lost(small, tmp_path):
    unbin.save(small, tmp_path / "m.json")
    html = render_report(unbin.load(tmp_path / "m.json"), title="t")
    assert "Nothing of the table was kept to show" in text_of(html)
    assert len(table(html, "Cells of everybody")) == 10


def test_without_groups_and_without_tables(grouped):
    html = render_report(fitted(), title="t")
    assert "Who is in which category" not in html
    labels = unbin.AggregatedClassifier().fit(PEOPLE[["age"]].to_numpy(), PEOPLE["vote"])
    words = text_of(render_report(labels, title="t"))
    assert "ordinary multinomial logit" in words
    assert "Blocks" not in words
    with pytest.raises(ParameterError, match="oracle: is compared with a model of numbers"):
        render_report(grouped, title="t", oracle=[1.0])


def test_two_categories_have_the_report_of_the_binomial_model():
    people = PEOPLE[PEOPLE["vote"] != "non"]
    model = fitted(people)
    assert "rep against dem" in str(model.summary())
    html = render_report(model, title="t")
    assert "rep against dem" in text_of(html)
    assert "odds ratio" in html
    assert "race[T.white]" in html


def test_blocks_with_small_counts_are_not_drawn(small):
    """A panel has a point for each block that may be shown, and no other."""
    shown = small._model.counts.whole_blocks(11).sum()
    assert 0 < shown < 40
    for public, n in ((None, shown), (True, 40)):
        html = render_report(small, title="t", public=public)
        start = html.index("dem: published against expected")
        panel = html[start : html.index("</svg>", start)]
        assert len(re.findall(r"<path [^>]*fill: var\(--blue\)", panel)) == n
