"""The report in a real browser: quiet, alone, and readable on any screen, at night and on paper."""

import os

import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.browser import Browser, find_chromium
from tests.helpers.precincts import published, voters
from unbin.people.encoding import Encoding
from unbin.results.report import render_audit, render_report, write_report

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium found; install one, or name it in UNBIN_CHROMIUM",
)
WIDTHS = [320, 400, 768, 1280, 1600]
KINDS = [
    "likelihood", "public", "matching", "observed", "tables", "means", "quantiles", "dollars",
    "categories", "audit",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    with Browser(CHROMIUM, *os.environ.get("UNBIN_CHROMIUM_FLAGS", "").split()) as found:
        yield found


def means_or_quantiles(study, kind):
    """Return a fit to the means, or the quartiles, of the blocks."""
    frame = pd.DataFrame({"block": study.blocks, "y": study.y})
    size = frame.groupby("block").y.size()
    if kind == "means":
        table = frame.groupby("block").y.mean().rename("mean").reset_index()
        table["n"] = table.block.map(size)
        release = unbin.Release.from_means(table, block="block", mean="mean", n="n")
    else:
        table = frame.groupby("block").y.quantile([0.25, 0.5, 0.75]).reset_index()
        table.columns = ["block", "q", "value"]
        table["n"] = table.block.map(size)
        release = unbin.Release.from_quantiles(
            table, block="block", quantile="q", value="value", n="n"
        )
    return unbin.AggregatedGLM(random_state=0).fit(study.X, release.align(study.blocks))


def dollars():
    """Return a fit to dollars in bins of very different widths, of categories and a spline."""
    rng = np.random.default_rng(3)
    codes = np.repeat(np.arange(40), 120)
    shift = rng.normal(size=(40, 2))[codes]
    age = 50 + 5 * shift[:, 0] + 10 * rng.normal(size=len(codes))
    sex = np.where(shift[:, 1] + rng.normal(size=len(codes)) > 0, "woman", "man")
    people = pd.DataFrame({"age": np.clip(age, 20, 80), "sex": sex, "debt": 1e5 * shift[:, 1]})
    encoding, X = Encoding.build("bs(age, df=4) + C(sex) + debt", people)
    y = np.exp(9 + 0.03 * (age - 50) + 0.4 * (sex == "woman") + 0.7 * rng.normal(size=len(codes)))
    blocks = np.array([f"County {k}" for k in codes])
    edges = [0, 2_000, 5_000, 10_000, 25_000, 100_000, np.inf]
    release = unbin.aggregate(y, blocks, bins=edges)
    frame = pd.DataFrame(X, columns=list(encoding.names))
    model = unbin.AggregatedGLM(target_transform="log").fit(frame, release.align(blocks))
    return model, encoding


def votes():
    """Return a fit to votes, with cells of groups and precincts."""
    hostile = {"p00": "<script>alert(1)</script> " * 4}
    people = voters().replace({"precinct": hostile, "vote": {"non": "$x$ & $10,000"}})
    return unbin.AggregatedClassifier(random=["race"], contextual=0.25).fit(
        people, {"precinct": published(people)}, features=["race", "age"]
    )


@pytest.fixture(scope="module", params=KINDS)
def report(request, study, joint, audited, tmp_path_factory):
    kind = request.param
    path = tmp_path_factory.mktemp("report") / f"{kind}.html"
    inputs = {"a-very-long-name-of-a-file" * 5 + ".csv": "sha256:" + 64 * "0"}
    shared = {"title": "<script>alert(1)</script>", "command": "x" * 300, "inputs": inputs}
    if kind == "audit":
        write_report(path, render_audit(audited, **shared))
        return path
    if kind == "categories":
        write_report(path, render_report(votes(), public=True, **shared))
        return path
    if kind == "dollars":
        model, encoding = dollars()
        write_report(path, render_report(model, encoding=encoding, public=True, **shared))
        return path
    model = {
        "likelihood": study.model,
        "public": study.model,
        "matching": study.matching,
        "observed": study.oracle,
        "tables": joint,
    }.get(kind) or means_or_quantiles(study, kind)
    oracle = None if kind == "observed" else study.oracle
    public = True if kind in ("public", "tables") else None
    write_report(path, render_report(model, oracle=oracle, public=public, **shared))
    return path


def opened(browser, report, width, *, scheme="light"):
    """Open a report with all of its folds open."""
    scheme = {"name": "prefers-color-scheme", "value": scheme}
    browser.send("Emulation.setEmulatedMedia", media="", features=[scheme])
    browser.open(report, width=width)
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    browser.settle()


@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_quietly_and_fits(browser, report, width):
    opened(browser, report, width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("innerWidth") == width
    assert browser.named("Log.entryAdded", "Runtime.consoleAPICalled") == []
    assert browser.named("Runtime.exceptionThrown", "Page.javascriptDialogOpening") == []
    requests = [each["request"]["url"] for each in browser.named("Network.requestWillBeSent")]
    assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]


@pytest.mark.parametrize("width", [400, 1280])
def test_a_table_that_scrolls_says_so(browser, report, width):
    opened(browser, report, width)
    boxes = browser.evaluate(
        "[...document.querySelectorAll('.box')].map(b => [b.scrollWidth > b.clientWidth, "
        "getComputedStyle(b.querySelector('.hint')).display == 'block', "
        "b.getAttribute('aria-label')])"
    )
    assert boxes
    assert [name for scrolls, hint, name in boxes if scrolls != hint] == []
    if width == 400 and "observed" not in report.name:
        assert any(scrolls for scrolls, _, _ in boxes)


def test_tables_of_an_audit_are_whole_on_a_screen(browser, audited, tmp_path):
    """Whatever their names, nothing of a table is cut off from 1280 pixels on."""
    path = tmp_path / "audit.html"
    write_report(path, render_audit(audited, title="x"))
    opened(browser, path, 1280)
    cut = browser.evaluate(
        "[...document.querySelectorAll('.box')].filter(b => b.scrollWidth > b.clientWidth)"
        ".map(b => b.getAttribute('aria-label'))"
    )
    assert cut == []


def test_pictures_are_drawn_and_their_text_can_be_read(browser, report):
    opened(browser, report, 400)
    sizes = browser.evaluate(
        "[...document.querySelectorAll('svg')].map(s => [s.clientWidth, s.clientHeight])"
    )
    assert sizes
    assert all(200 < width <= 400 and height > 100 for width, height in sizes)
    smallest = browser.evaluate(
        "Math.min(...[...document.querySelectorAll('svg text')].map(t => "
        "parseFloat(getComputedStyle(t).fontSize) * Math.hypot(t.getScreenCTM().a, "
        "t.getScreenCTM().b)))"
    )
    assert smallest >= 7


COLLIDING = """
(() => { const found = [];
for (const svg of document.querySelectorAll('svg')) {
  const texts = [...svg.querySelectorAll('text')].map(t => {
    const r = t.getBoundingClientRect(); return {t: t.textContent, r: r}; });
  for (let i = 0; i < texts.length; i++) for (let j = i + 1; j < texts.length; j++) {
    const a = texts[i].r, b = texts[j].r;
    const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (x > 1 && y > 3)
      found.push([svg.getAttribute('aria-label'), texts[i].t, texts[j].t]);
  } }
return found; })()
"""


@pytest.mark.parametrize("width", [400, 1280])
def test_no_label_of_a_picture_covers_another(browser, report, width):
    opened(browser, report, width)
    assert browser.evaluate("document.querySelectorAll('svg text').length") > 5
    assert browser.evaluate(COLLIDING) == []


CONTRAST = """
(() => { const canvas = document.createElement('canvas').getContext('2d');
const rgb = colour => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
const light = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255;
  return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const behind = e => { for (; e; e = e.parentElement) {
  const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] == 255) return c; }
  return rgb('#fff'); };
const found = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) { const e = walk.currentNode.parentElement;
  if (!walk.currentNode.textContent.trim() || !e.getClientRects().length) continue;
  const s = getComputedStyle(e), ink = rgb(e.closest('svg') ? s.fill : s.color);
  const a = light(ink), b = light(behind(e));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const size = parseFloat(s.fontSize), large = size >= 24 || (size >= 18.66 && s.fontWeight >= 700);
  if (ratio < (large ? 3 : 4.5)) found.push([e.tagName, e.textContent.trim(), ratio]); }
return found; })()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(browser, report, scheme):
    """Every text has the contrast that WCAG's level AA asks for."""
    opened(browser, report, 1280, scheme=scheme)
    paper = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    assert browser.evaluate(CONTRAST) == []


def test_pictures_change_with_the_background(browser, report):
    """Lines, points and bars stand out by 3 to 1 or have a text beside them."""
    colours = {}
    for scheme in ("light", "dark"):
        opened(browser, report, 1280, scheme=scheme)
        colours[scheme] = browser.evaluate(
            "[...document.querySelectorAll('svg [style*=\"var(--blue)\"]')].slice(0, 1)"
            ".map(e => getComputedStyle(e).fill + getComputedStyle(e).stroke)[0]"
        )
    assert colours["light"] != colours["dark"]


def test_hostile_names_do_nothing(browser, report):
    if "dollars" in report.name:
        pytest.skip("its names are tame")
    opened(browser, report, 1100)
    assert browser.evaluate("document.querySelectorAll('script, [onload], main b').length") == 0
    assert browser.evaluate("document.title") == "<script>alert(1)</script>"
    words = browser.evaluate("document.querySelector('main').innerText")
    assert "<script>alert(1)</script>" in words
    assert "$x$ & $10,000" in words


def test_text_stays_inside_its_picture(browser, report):
    opened(browser, report, 1100)
    outside = browser.evaluate(
        "[...document.querySelectorAll('svg text')].filter(t => { const a = "
        "t.getBoundingClientRect(), b = t.closest('svg').getBoundingClientRect(); return a.left < "
        "b.left - 3 || a.right > b.right + 3 || a.top < b.top - 3 || a.bottom > b.bottom + 3 })"
        ".map(t => t.textContent)"
    )
    assert outside == []


def test_it_prints(browser, report):
    browser.open(report, width=1100)
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    browser.send("Emulation.setEmulatedMedia", media="print", features=[dark])
    box = browser.evaluate("getComputedStyle(document.querySelector('.box')).overflowX")
    paper = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    folded = browser.evaluate(
        "[...document.querySelectorAll('details > :not(summary)')].filter(e => "
        "!e.checkVisibility({contentVisibilityAuto: true})).length"
    )
    browser.send("Emulation.setEmulatedMedia", media="", features=[])
    assert box == "visible"
    assert paper == "rgb(255, 255, 255)"
    assert folded == 0  # what is folded on a screen is printed
    assert browser.pdf().startswith(b"%PDF")
