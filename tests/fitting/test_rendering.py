"""Tables as text, Markdown, HTML and LaTeX."""

import numpy as np
import pytest

from tests.conftest import HOSTILE
from unbin.fitting.rendering import Table, number
from unbin.fitting.summary import Coefficients, Summary

TABLE = Table(("", "a", "b"), (("x|y", "1", "-2.50e+11"), ("z", "12345678901234567", "")), (1,))


def test_columns_never_collide():
    lines, width = TABLE.text_lines(narrowest=5, names=4)
    assert lines == [
        "                      a          b",
        "x|y                   1  -2.50e+11",
        "z     12345678901234567",
    ]
    assert width == len(lines[0])


def test_markdown_and_latex_are_exact():
    assert TABLE.to_markdown().splitlines() == [
        "|  | a | b |",
        "|:---|---:|---:|",
        r"| x\|y | 1 | -2.50e+11 |",
        "| z | 12345678901234567 |  |",
    ]
    assert TABLE.as_latex().splitlines() == [
        r"\begin{tabular}{lrr}",
        r"\hline",
        r" & a & b \\",
        r"\hline",
        r"x\textbar{}y & 1 & -2.50e+11 \\",
        r"\hline",
        r"z & 12345678901234567 &  \\",
        r"\hline",
        r"\end{tabular}",
    ]


@pytest.mark.parametrize("name", [*HOSTILE, "a\nb", "[x](javascript:alert(1))", "{}#~^\\&%_"])
def test_names_stay_text(name):
    table = Table((name, name), ((name, name),))
    assert "<script" not in table.to_html(name)
    assert 'onload="' not in table.to_html(name)
    lines = table.to_markdown().splitlines()
    assert len(lines) == 3
    assert all(line.replace(r"\|", "").count("|") == 3 for line in lines)
    assert "](" not in table.to_markdown().replace(r"\]", "")
    assert len(table.text_lines()[0]) == len("\n".join(table.text_lines()[0]).splitlines()) == 2
    rows = table.as_latex().replace(r"\&", "").splitlines()[2::2]
    assert all(row.count("&") == 1 for row in rows[:1])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.0000"), (12.34567, "12.3457"), (1e-4, "1.00e-04"), (-2.5e11, "-2.50e+11"),
     (np.nan, "nan")],
)  # fmt: skip
def test_numbers(value, text):
    assert number(value) == text


def test_huge_and_tiny_numbers_and_long_facts_keep_apart():
    names = ("a" * 60, "b")
    table = Coefficients(names, np.array([1e300, -1e-300]), np.array([1e-9, 1e12]), 0.999)
    facts = (("Family:", "g" * 90), ("People:", "1"), ("Blocks:", "2"))
    lines = str(Summary("Title", facts, table, ())).splitlines()
    assert max(map(len, lines)) == len(lines[1])
    cells = [line.split() for line in lines if line.startswith(("a" * 60, "b "))]
    assert [len(row) for row in cells] == [7, 7]
    assert [line.split() for line in lines[2:4]] == [
        ["Family:", "g" * 90],
        ["People:", "1", "Blocks:", "2"],
    ]
