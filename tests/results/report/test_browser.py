"""The report in a real browser: quiet, alone, and readable on a narrow screen and on paper."""

import os

import pytest

from tests.helpers.browser import Browser, find_chromium
from unbin.results.report import render_audit, render_report, write_report

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium found; install one, or name it in UNBIN_CHROMIUM",
)


@pytest.fixture(scope="module")
def browser():
    with Browser(CHROMIUM, *os.environ.get("UNBIN_CHROMIUM_FLAGS", "").split()) as found:
        yield found


@pytest.fixture(scope="module", params=["likelihood", "matching", "observed", "tables", "audit"])
def report(request, study, joint, audited, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / f"{request.param}.html"
    inputs = {"a-very-long-name-of-a-file" * 5 + ".csv": "sha256:" + 64 * "0"}
    shared = {"title": "<script>alert(1)</script>", "command": "x" * 300, "inputs": inputs}
    if request.param == "audit":
        write_report(path, render_audit(audited, **shared))
        return path
    model = {
        "likelihood": study.model,
        "matching": study.matching,
        "observed": study.oracle,
        "tables": joint,
    }[request.param]
    oracle = None if request.param == "observed" else study.oracle
    write_report(path, render_report(model, oracle=oracle, **shared))
    return path


@pytest.mark.parametrize("width", [400, 1100])
def test_it_opens_quietly_and_fits(browser, report, width):
    browser.open(report, width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("innerWidth") == width
    assert browser.named("Log.entryAdded", "Runtime.consoleAPICalled") == []
    assert browser.named("Runtime.exceptionThrown", "Page.javascriptDialogOpening") == []
    requests = [each["request"]["url"] for each in browser.named("Network.requestWillBeSent")]
    assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]


def test_pictures_are_drawn_and_their_text_can_be_read(browser, report):
    browser.open(report, width=400)
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


def test_hostile_names_do_nothing(browser, report):
    browser.open(report, width=1100)
    assert browser.evaluate("document.querySelectorAll('script, [onload], main b').length") == 0
    assert browser.evaluate("document.title") == "<script>alert(1)</script>"
    words = browser.evaluate("document.querySelector('main').innerText")
    assert "<script>alert(1)</script>" in words
    assert "$x$ & $10,000" in words


def test_text_stays_inside_its_picture(browser, report):
    browser.open(report, width=1100)
    outside = browser.evaluate(
        "[...document.querySelectorAll('svg text')].filter(t => { const a = "
        "t.getBoundingClientRect(), b = t.closest('svg').getBoundingClientRect(); return a.left < "
        "b.left - 3 || a.right > b.right + 3 || a.top < b.top - 3 || a.bottom > b.bottom + 3 })"
        ".map(t => t.textContent)"
    )
    assert outside == []


def test_it_prints(browser, report):
    browser.open(report, width=1100)
    browser.send("Emulation.setEmulatedMedia", media="print")
    box = browser.evaluate("getComputedStyle(document.querySelector('.box')).overflowX")
    browser.send("Emulation.setEmulatedMedia", media="")
    assert box == "visible"
    assert browser.pdf().startswith(b"%PDF")
