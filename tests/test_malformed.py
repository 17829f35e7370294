"""What is no path, no seed, no model: every function says so in the same words."""

# ruff: noqa: E501

import re

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import unbin
from unbin import plots
from unbin.datasets import simulate
from unbin.exceptions import (
    AlignmentError,
    DomainError,
    OutputError,
    ParameterError,
    ReadError,
    UnbinError,
)
from unbin.results.report import render_audit, render_report, write_report

mpl.use("agg")
NAN = float("nan")
RAGGED = [[1.0], [1.0, 2.0]]
SIM = simulate(400, 2, 20, between=0.5, random_state=0)
TARGET = unbin.aggregate(SIM.y, SIM.blocks, 4).align(SIM.blocks)
MODEL = unbin.AggregatedGLM().fit(SIM.X, TARGET)
OTHER = LinearRegression().fit(SIM.X, SIM.y)


def permutation_test(**changed):
    usual = {"model": unbin.AggregatedGLM(), "X": SIM.X, "target": TARGET, "n_permutations": 3}
    return unbin.permutation_test(**usual | changed)


def audit(**changed):
    quick = {"bins": [2], "attacks": "likelihood", "families": "gaussian", "n_permutations": 3}
    return unbin.audit(SIM.X, SIM.y, SIM.blocks, **quick | changed)


def holed(value):
    X = SIM.X.copy()
    X[3, 1] = value
    return X


def counts():
    people = np.arange(40) // 4
    y = np.arange(40.0) % 3
    X = np.random.default_rng(0).normal(size=(40, 1))
    target = unbin.aggregate(y, people, [-1, 0, 1, 2]).align(people)
    return {"model": unbin.AggregatedGLM("poisson"), "X": X, "target": target, "y": -y}


NO_PATH = r"path: must be the path of a file, got {}; pass text or a Path"
NO_SEED = "random_state: must be a seed, got {}; pass a whole number of at least 0, or None"
NO_MODEL = "model: must be of class AggregatedGLM, got {}; pass a"

CASES = [
    # -- paths
    *((f"load-{k}", lambda path=path: unbin.load(path), ParameterError, NO_PATH.format(got))
      for k, (path, got) in enumerate([(None, "NoneType"), (3, "int"), (NAN, "float"), ([], "list"), (b"m.json", "b'm.json'"), ("", "''"), ("a\0", r"'a\\x00'"), (object(), "object")])),
    ("read-bytes", lambda: unbin.read_release(b"t.csv"), ParameterError, NO_PATH.format("b't.csv'")),
    ("read-nothing", lambda: unbin.read_release(""), ParameterError, NO_PATH.format("''")),
    ("save-none", lambda: unbin.save(MODEL, None), ParameterError, NO_PATH.format("NoneType")),
    ("save-null-byte", lambda: unbin.save(MODEL, "a\0"), ParameterError, NO_PATH.format(r"'a\\x00'")),
    ("save-root", lambda: unbin.save(MODEL, "/"), OutputError, "/: must name a file, got a folder; choose another place"),
    ("page-list", lambda: write_report([], "x"), ParameterError, NO_PATH.format("list")),
    ("page-here", lambda: write_report(".", "x"), OutputError, ".: must name a file, got a folder; choose"),
    ("people-too-long", lambda: unbin.AggregatedGLM().fit("a" * 5000, TARGET.release, block="b", features=["x"]), ReadError, "a{60}: cannot be opened, got File name too long; check the path"),
    # -- seeds
    *((f"seed-{name}", call, ParameterError, NO_SEED.format(got)) for name, got, call in [
        ("impute", "'x'", lambda: MODEL.impute("draw", random_state="x")),
        ("folds", "-1", lambda: list(unbin.BlockKFold(2, shuffle=True, random_state=-1).split(SIM.X, TARGET))),
        ("permutations", "1.5", lambda: permutation_test(random_state=1.5)),
        ("audit", "nan", lambda: audit(random_state=NAN)),
        ("simulate", r"\{\}", lambda: simulate(random_state={})),
    ]),
    # -- other objects
    ("save-other", lambda: unbin.save(OTHER, "m.json"), ParameterError, NO_MODEL.format("LinearRegression")),
    ("save-class", lambda: unbin.save(unbin.AggregatedGLM, "m.json"), ParameterError, NO_MODEL.format("AggregatedGLM, the class")),
    ("report-other", lambda: render_report(OTHER, title="t"), ParameterError, NO_MODEL.format("LinearRegression")),
    ("plot-none", lambda: plots.coefficients(None), ParameterError, NO_MODEL.format("NoneType")),
    ("permute-other", lambda: permutation_test(model=OTHER), ParameterError, NO_MODEL.format("LinearRegression")),
    ("plot-test", lambda: plots.permutation(MODEL), ParameterError, "test: must be of class PermutationTest, got AggregatedGLM; pass what unbin.permutation_test returned"),
    ("report-audit", lambda: render_audit(MODEL, title="t"), ParameterError, "audit: must be of class Audit, got AggregatedGLM; pass what unbin.audit returned"),
    ("save-encoding", lambda: unbin.save(MODEL, "m.json", encoding="x"), ParameterError, "encoding: must be of class Encoding, got str; pass what encoded the columns, or None"),
    ("axes", lambda: plots.coefficients(MODEL, ax=3), ParameterError, "ax: must be of class Axes, got int; pass axes of matplotlib, or None"),
    ("page-bytes", lambda: write_report("page.html", b"x"), ParameterError, "html: must be of class str, got bytes; pass the page"),
    # -- names of files
    ("save-inputs", lambda: unbin.save(MODEL, "m.json", inputs={"a": 3}), ParameterError, r"inputs: must be texts by name, got \{'a': 3\}; pass for example"),
    ("report-inputs", lambda: render_report(MODEL, title="t", inputs=3), ParameterError, "inputs: must be texts by name, got 3; pass for example"),
    # -- permutation tests
    ("permute-x-nan", lambda: permutation_test(X=holed(NAN)), ValueError, "Input X contains NaN"),
    ("permute-x-none", lambda: permutation_test(X=None), ValueError, "Expected 2D array"),
    ("permute-x-huge", lambda: permutation_test(X=holed(1e60)), DomainError, r"X: numbers must be at most 1e\+50 in size, got 1e\+60; use"),
    ("permute-x-rows", lambda: permutation_test(X=SIM.X[1:]), AlignmentError, "y: 400 rows were aligned with the release, X has 399; pass"),
    ("permute-transform", lambda: permutation_test(model=unbin.AggregatedGLM(target_transform="root")), ParameterError, "target_transform: must be None or 'log', got 'root'"),
    ("permute-y-nan", lambda: permutation_test(y=np.full(400, NAN)), DomainError, "y: must be finite, got NaN or inf; drop those rows"),
    ("permute-y-ragged", lambda: permutation_test(y=RAGGED), DomainError, "y: must hold one value per row, got rows of different length"),
    ("permute-y-outside", lambda: permutation_test(**counts()), DomainError, r"y: the value -1 lies outside the domain \[0, inf\) of family 'poisson'; choose"),
    # -- audits
    ("audit-families", lambda: audit(families=3), ParameterError, "families: must be 'auto' or names of families, got 3; use some of"),
    ("audit-families-inside", lambda: audit(families=[[]]), ParameterError, r"families: must be 'auto' or names of families, got \[\[\]\]; use"),
    ("audit-attacks", lambda: audit(attacks=None), ParameterError, "attacks: unknown, got None; use one of 'matching', 'likelihood', 'ridge'"),
    # -- pictures
    ("oracle-nan", lambda: plots.coefficients(MODEL, [NAN, 1.0]), ParameterError, "oracle: must be finite, got NaN or inf"),
    ("report-oracle-nan", lambda: render_report(MODEL, title="t", oracle=[NAN, 1.0]), ParameterError, "oracle: must be finite, got NaN or inf"),
    ("recovered-nan", lambda: plots.recovered([NAN], [1.0], [0, 2]), DomainError, "recovered: must be finite, got NaN or inf; drop"),
    ("recovered-inf", lambda: plots.recovered([1.0], [np.inf], [0, 2]), DomainError, "true: must be finite, got NaN or inf; drop"),
    ("recovered-ragged", lambda: plots.recovered(RAGGED, [1.0], [0, 2]), DomainError, "recovered: must hold one value per row, got rows of different"),
    ("histograms-number", lambda: plots.histograms(MODEL, 3), ParameterError, "block: no counts were published for '3'; name one of"),
    ("histograms-smallest", lambda: plots.histogram(MODEL, smallest="x"), ParameterError, "smallest: must be a whole number, got 'x'; pass 0 or more"),
    ("histograms-fitted", lambda: plots.histograms(MODEL, fitted=2), ParameterError, "fitted: must be a bool, got 2; pass True or False"),
    ("errors-list", lambda: plots.errors_by_bins([2], [1.0]), ParameterError, "errors: must be a mapping, got list; pass errors by name"),
    ("errors-words", lambda: plots.errors_by_bins([2], {"a": "x"}), ParameterError, r"errors: 'a' must hold one error for each of the 1 bins, got str of others; pass \(bins,\)"),
    ("errors-inf", lambda: plots.errors_by_bins([2], {"a": [np.inf]}), ParameterError, "errors: 'a' must hold one error for each of the 1 bins, got list"),
    ("errors-bins", lambda: plots.errors_by_bins([NAN], {"a": [1.0]}), ParameterError, "bins: must be finite, got NaN or inf; drop"),
    # -- folds
    ("folds-rows", lambda: list(unbin.BlockKFold(2).split(SIM.X[1:], TARGET)), ValueError, r"inconsistent numbers of samples: \[399, 400\]"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "message"), [pytest.param(*row[1:], id=row[0]) for row in CASES]
)
def test_malformed_calls(call, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    if issubclass(error, UnbinError):
        assert caught.type is error
        assert re.match(message, text), text
    assert re.search(message, text), text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("role", ["label", "count"])
def test_a_column_that_is_named_must_be_there(tmp_path, role):
    path = tmp_path / "table.csv"
    path.write_text("block,value\na,1\na,2\n")
    message = rf"column 'nowhere' not found, got 'block', 'value'; say {role}=\.\.\. with the"
    with pytest.raises(ReadError, match=message):
        unbin.read_release(path, **{role: "nowhere"})


def test_what_stands_alone_is_taken_for_one():
    one = audit(random_state=0)
    listed = audit(random_state=0, attacks=["likelihood"], families=["gaussian"])
    assert one.gain == listed.gain
