"""``unbin demo``: estimates beside the truth."""

import re

import pytest

from tests.helpers.cli import run
from tests.helpers.pages import columns


def test_demo_prints_estimates_beside_the_truth(tmp_path):
    result = run("demo", "--seed", "1", "--output", tmp_path)
    assert result.exit_code == 0
    for wanted in ("truth", "oracle", "county alone", "both tables", "matching", "age", "-0.500"):
        assert wanted in result.output
    assert "  county: Release: 150 blocks" in result.output
    assert "  age group, sex: Release: 8 blocks" in result.output
    assert "  estimated: all 3 coefficients; 158 blocks, no specification test " in result.output
    assert run("demo", "--seed", "1", "--output", tmp_path).output == result.output
    assert result.stdout.splitlines()[-1] == f"Report: {tmp_path / 'report.html'}"
    assert (tmp_path / "report.html").exists()


def test_demo_shows_what_the_second_table_adds(tmp_path):
    """Standard errors of what it is split by fall; they are those of the library."""
    output = run("demo", "--seed", "1", "--output", tmp_path).output
    line = next(text for text in output.splitlines() if "standard errors become" in text)
    age, sex, income = (int(part) for part in re.findall(r"(\d+) %", line))
    assert max(age, sex) < 70 < income <= 105
    (row,) = re.findall(r"│ sex .*", output)
    oracle, one, both = (float(error) for error in re.findall(r"± (\d\.\d+)", row))
    assert oracle < both < one
    assert sex == pytest.approx(100 * both / one, abs=3)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Table age group, sex" in html
    assert "What each table told" in html


def test_its_report_shows_no_false_alarm(tmp_path):
    """The model of the demonstration is right, and everything on its page says so."""
    result = run("demo", "--output", tmp_path)
    assert result.stderr == ""
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<div class="verdict ">' in html
    assert "<strong>Estimated:</strong>" in html
    assert not re.findall(r'class="said (vague|doubt)"', html)
    verdicts = columns(html, "Table of coefficients")["verdict"]
    assert [re.sub("<.*?>", "", cell) for cell in verdicts] == ["–", *["estimated"] * 3]
    assert all(float(p) > 0.05 for p in columns(html, "The tables")["p"])
    words = re.findall(r"<li>(.*?)</li>", html, re.S)
    kinds = [word.split(":")[0].split(" hold ")[0] for word in words]
    assert kinds == ["Goodness of fit", "The tables"]  # no warning among them
