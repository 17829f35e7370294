"""docs/walkthrough.md prints what it says it prints."""

import io
import re
import shlex
import warnings
from contextlib import redirect_stdout

import numpy as np
import pytest

from tests.helpers.cli import run
from tests.helpers.paths import ROOT
from tests.helpers.slid import earners, write_files

PAGE = ROOT / "docs" / "walkthrough.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("walkthrough")
    write_files(place)
    return place


def blocks(kind):
    """Return the fenced blocks of a kind."""
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)


def test_the_file_begins_as_shown(folder):
    (first, *_) = blocks("text")
    text = (folder / "wages_by_age.csv").read_text().replace('"', "")
    assert text.startswith(first)


def test_commands_print_what_is_shown(folder, monkeypatch):
    monkeypatch.chdir(folder)
    commands = [
        found
        for block in blocks("console")
        for found in re.findall(r"^\$ unbin (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)
    ]
    assert len(commands) == 5
    for command, expected in commands:
        assert printed(command) == expected
    assert {"model.json", "coefficients.csv", "report.html"} == {
        path.name for path in (folder / "results").iterdir()
    }


def printed(command):
    """Return what a command prints, but for the time it took; errors as a terminal shows them."""
    result = run(*shlex.split(command))
    return result.stdout or result.stderr


def test_examples_print_what_is_shown(folder, monkeypatch):
    monkeypatch.chdir(folder)
    text = PAGE.read_text(encoding="utf-8")
    pairs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.S)
    assert len(pairs) == text.count("```python") == 3
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for code, expected in pairs:
            out = io.StringIO()
            with redirect_stdout(out):
                exec(compile(code, "walkthrough.md", "exec"), names)
            assert out.getvalue() == expected


def test_individual_data_say_what_the_page_quotes():
    ordered = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    from tests.helpers.slid import EDGES
    from unbin.people.encoding import Encoding

    people = earners()
    encoding, X = Encoding.build("ns(age, 3) + sex + education", people, missing="mean")
    bins = np.searchsorted(EDGES[1:-1], people["wages"], side="right")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = ordered.OrderedModel(bins, X, distr="logit").fit(method="bfgs", disp=0, maxiter=500)
    found = dict(zip(encoding.names, zip(fit.params, fit.bse, strict=False), strict=False))
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    (b, se), (male, male_se) = found["education"], found["sex[T.Male]"]
    assert f"gives {b:.3f} (standard error {se:.3f}) for a year of education" in text
    assert f"and {male:.3f} ({male_se:.3f}) for men" in text
