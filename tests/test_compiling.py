"""Kernels are kept where that is possible, few of them are compiled, and a wait is explained."""

import ast
import re
import sys

import numba
import pytest

import unbin
from tests.helpers.paths import ROOT
from tests.helpers.processes import run_python
from unbin import _compiling
from unbin._compiling import COMPILING, inner, njit, telling
from unbin._watching import watching
from unbin.datasets import simulate


def kernel(module="unbin.made_up"):
    """Return a function of a package that has not been compiled."""

    def twice(x):
        return 2 * x

    twice.__module__ = module
    return numba.njit(twice)


@pytest.fixture
def nothing_can_be_written(monkeypatch):
    def refuse(self):
        raise PermissionError

    monkeypatch.setattr("numba.core.caching._CacheLocator.ensure_cache_path", refuse)


def test_kernels_work_where_nothing_can_be_written(nothing_can_be_written):
    def thrice(x):
        return 3 * x

    with pytest.raises(RuntimeError, match="no locator available"):
        numba.njit(cache=True)(thrice)
    assert njit(cache=True, nogil=True)(thrice)(2) == 6


def test_kernels_call_inner_functions():
    @inner(nogil=True)
    def square(x):
        return x * x

    assert njit(nogil=True)(lambda x: square(x) + 1)(3) == 10


def test_whoever_watches_is_told_once():
    said = []
    with telling(lambda: said.append("outer"), patience=0), telling(lambda: said.append("inner")):
        assert kernel()(2) == 4
        assert kernel()(2) == 4
    assert said == ["outer"]


@pytest.mark.parametrize(("module", "patience"), [("other", 0.0), ("unbin.made_up", 60.0)])
def test_nothing_is_said_of_others_nor_of_short_waits(module, patience):
    said = []
    with telling(lambda: said.append("!"), patience=patience):
        kernel(module)(2)
    assert not said


def test_a_kernel_that_is_compiled_already_says_nothing():
    done, said = kernel(), []
    done(2)
    with telling(lambda: said.append("!"), patience=0):
        done(3)
    assert not said


@pytest.mark.parametrize("watched", [True, False])
def test_a_line_is_written_on_a_terminal_only(watched, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: watched, raising=False)
    with telling(patience=0):
        kernel()(2)
    assert capsys.readouterr().err == (f"unbin: {COMPILING}\n" if watched else "")


def test_fits_tell():
    seen, sim = [], simulate(2_000, 2, 20, random_state=0)
    target = unbin.aggregate(sim.y, sim.blocks, bins=4).align(sim.blocks)
    with watching(lambda _: bool(seen.append(_compiling._told.get()))):
        unbin.AggregatedGLM("gaussian").fit(sim.X, target)
    assert seen
    assert all(seen)
    assert not _compiling._told.get()


COUNT = """
import gc, sys
from collections import Counter
import unbin
light = not {"numpy", "numba", "scipy", "sklearn"} & set(sys.modules)
exec(compile(CODE, "README.md", "exec"), {})
from numba.core.dispatcher import Dispatcher
heavy = {"formulaic", "jinja2", "matplotlib", "polars", "rich", "typer"} & set(sys.modules)
kernels = [each for each in gc.get_objects() if isinstance(each, Dispatcher)]
kernels = [each.py_func for each in kernels if each.py_func.__module__.startswith("unbin.")
           for _ in each.overloads]
print((light, sorted(heavy), dict(Counter(each.__name__ for each in kernels))))
"""


def test_the_first_example_needs_few_kernels_and_few_modules():
    """Each is seconds of compiling in the first fit of a machine, or of importing in every one."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = re.search(r"```python\n(.*?)```", text, re.S)[1]
    printed = run_python(f"CODE = {first!r}" + COUNT)
    light, heavy, kernels = ast.literal_eval(printed.splitlines()[-1])
    assert light
    assert heavy == []
    assert len(kernels) <= 2, kernels
    assert set(kernels.values()) == {1}, kernels  # each of them for one layout of its arrays
