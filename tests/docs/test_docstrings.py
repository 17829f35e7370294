"""Every public name has an example in its docstring, and it prints what it says."""

import doctest
import inspect
import re
import shutil
import sys

import pytest

import unbin
from tests.helpers.documents import DOCS
from tests.helpers.paths import TESTS

MODULES = [getattr(unbin, name) for name in unbin.__all__ if inspect.ismodule(getattr(unbin, name))]
NAMES = {name: getattr(unbin, name) for name in unbin.__all__}
NAMES |= {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in MODULES
    for name in getattr(module, "__all__", ())
    if callable(getattr(module, name))
}
HELPERS = {"unbin.results.plots.published", "unbin.results.plots.shorten"}
"""What plots share with reports."""

CASES = {
    name: thing for name, thing in NAMES.items() if thing not in MODULES and name not in HELPERS
}
METHODS = ["from_histogram", "from_quantiles", "from_values", "from_means", "from_cumulative"]
METHODS += ["from_categories", "align", "to_frame"]
CASES |= {f"Release.{name}": getattr(unbin.Release, name) for name in METHODS}
CASES["unbin.exceptions"] = unbin.exceptions
FILES = TESTS / "datasets" / "files"
FINDER = doctest.DocTestFinder(recurse=False)
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("name", CASES)
def test_examples_print_what_is_shown(name, tmp_path, monkeypatch):
    shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    thing = CASES[name]
    (found,) = FINDER.find(thing, name, globs={"Release": unbin.Release})
    assert found.examples, "has no example"
    told = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    assert runner.run(found, out=told.append).failed == 0, "".join(told)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def test_the_reference_lists_every_public_name():
    text = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   (\w+)$", text, re.M))
    public = {name.rpartition(".")[2] for name in CASES if not name.startswith("Release.")}
    assert listed == public
