"""The report of an audit shows what was found, and nothing about anybody."""

import re

import numpy as np
import pytest

import unbin
from tests.helpers.pages import Page, table, text_of
from unbin.results.report import render_audit


@pytest.fixture(scope="module")
def html(audited):
    return render_audit(
        audited,
        title="<b>Audit</b> & $costs$",
        command='unbin audit "a b.csv" <people>',
        inputs={"people <1>.csv": "sha256:0123"},
        created="2026-01-02",
    )


def test_every_section_is_there(html):
    assert html.startswith("<!DOCTYPE html>\n")
    assert re.findall(r"<h2>(.*?)</h2>", html) == [
        "How to read this",
        "What finer bins buy",
        "Gains",
        "What the protection changes",
        "Cell rules",
        "Every attack",
        "How this page was made",
    ]
    words = text_of(html)
    for text in ('unbin audit "a b.csv" <people>', "sha256:0123", "2026-01-02", "19 permutations"):
        assert text in words
    assert len(re.findall(r"<svg", html)) == 2


def test_gains_are_in_the_table(html, audited):
    _, *rows = table(html, "Gains")
    wanted = [d for t in audited.tables for d in (t.in_table, t.held_out)]
    assert [row[3] for row in rows] == [f"{d.gain.value:.3f}" for d in wanted]
    assert [row[1] for row in rows] == 8 * ["in the table", "held out"]
    assert [float(row[6]) for row in rows] == [round(d.p_value, 3) for d in wanted]
    assert html.count("<tr class=chosen>") >= 2


def test_protection_is_compared_with_none(html, audited):
    _, *rows = table(html, "Protection")
    assert len(rows) == 4
    plain, hidden = audited.tables[:2]
    assert rows[0][2] == f"{plain.gain:.3f} → {hidden.gain:.3f}"
    assert rows[0][1].startswith(f"{plain.best('in the table').all.r2:.3f} → ")


def test_it_needs_nothing_and_runs_nothing(html):
    page = Page(html)
    assert not page.tags & {"script", "iframe", "object", "embed", "img", "foreignobject", "a"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "http" not in html.replace("http-equiv", "")
    assert len(set(page.ids)) == len(page.ids)


def test_no_block_and_nobody_is_named(html, study):
    words = text_of(html)
    for block in np.unique(study.blocks):
        assert " ".join(block.split()) not in words
    assert not [value for value in study.y if f"{value:.6f}"[:7] in words.split()]
    assert not re.findall(r"\d\.\d{5}", words)  # nothing is told that precisely


def test_small_numbers_are_masked(html, audited):
    assert audited.tables[0].cells.smallest_block == 6
    _, *rows = table(html, "Cell rules")
    assert rows[0][1] == "&lt;11"
    # fewer than 11 of the held-out people are the most exposed
    found = audited.tables[0].attacks
    assert all(row.exposed.n < 11 for row in found if row.people == "held out")
    part = html[html.index("Every attack") :]
    lines = re.findall(r"<td>held out</td>.*?</tr>", part)
    assert lines
    assert all(re.findall(r"<td>(.*?)</td>", line)[5] == "–" for line in lines)


def test_the_same_audit_gives_the_same_page(audited):
    assert render_audit(audited, title="x") == render_audit(audited, title="x")


def test_a_table_of_everybody_without_protection():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    found = unbin.audit(
        X, X[:, 0] + rng.normal(size=200), bins=[3], attacks=["likelihood"],
        families="gaussian", n_permutations=19, random_state=0,
    )  # fmt: skip
    words = text_of(render_audit(found, title="x"))
    assert "What the protection changes" not in words
    assert "Recommended: none" in words


def test_an_audit_of_categories():
    rng = np.random.default_rng(0)
    blocks = np.repeat(np.arange(100, 130), 40)
    X = rng.normal(size=(1200, 1)) + rng.normal(size=(30, 1))[blocks - 100]
    place = (1.5 * X * [-1, 0, 1] + rng.gumbel(size=(1200, 3))).argmax(axis=1)
    y = np.where(blocks == 100, "<i>right</i>", np.array(["$left$", "none", "<i>right</i>"])[place])
    levels = {"precinct $a$ <b>": blocks, "everybody": None}
    found = unbin.audit(
        X, y, levels, suppress=11, attacks="ridge", n_permutations=19, random_state=0
    )
    html = render_audit(found, title="x")
    assert "<h2>Gain and use</h2>" in html
    words = text_of(html)
    assert "Categories: $left$, <i>right</i>, none." in words
    assert "the share of the Brier score that" in words
    assert len(re.findall(r"<svg", html)) == 2
    head, *rows = table(html, "Gains")
    assert head[7:9] == ["right", "without"]
    best, without = found.tables[0].best("in the table"), found.tables[0].attacks[2]
    assert without.attack == "block histogram"
    assert rows[0][7:9] == [f"{100 * each.all.right:.1f} %" for each in (best, without)]
    head, *rows = table(html, "Cell rules")
    assert head[5:] == ["in one category", "worked out"]
    assert int(rows[0][5]) == found.tables[0].cells.whole_blocks >= 1
    head, *rows = table(html, "Attacks on precinct $a$ &lt;b&gt;, categories")
    assert head[4] == "right / sure"
    assert {len(row) for row in rows} == {len(head)}
    page = Page(html)
    assert not page.tags & {"script", "i", "img"}
    assert len(set(page.ids)) == len(page.ids)
