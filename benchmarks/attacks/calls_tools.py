"""Malformed calls of what is built on the estimator: folds, tests, audits, files and pictures."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.linear_model import LinearRegression

import unbin
from attacks.values import INF, NAN, ODD, Call, accepted, each, keywords, study, without
from attacks.values import bad_ids as ids_like
from attacks.values import bad_matrices as matrices_like
from attacks.values import bad_vectors as vectors_like

mpl.use("agg")
SEEDS: list[Any] = ["x", NAN, -1, 1.5, {}]


def folds() -> Iterator[Call]:
    s, group = study(), "BlockKFold"

    def split(given: dict[str, Any], X: Any = s.X, y: Any = s.target) -> Any:
        return list(unbin.BlockKFold(**given).split(X, y))

    yield accepted(group, lambda: split({}))
    choices = {"n_splits": [*ODD, 0, 1, True, 31, 10**400], "shuffle": ["x", None, 2, [], NAN]}
    yield from each(group, "", keywords(choices), split)
    seeds = {"shuffle": True}
    yield from each(group, "random_state", SEEDS, lambda v: split(seeds | {"random_state": v}))
    targets = [s.y, None, s.release, "x", [s.target], 3]
    yield from each(group, "y", targets, lambda v: split({}, y=v))
    yield Call(group, "X of another length", lambda: split({}, X=s.X[:-1]))


def permutations() -> Iterator[Call]:
    s, group = study(), "permutation_test"
    model = unbin.AggregatedGLM()

    def test(given: dict[str, Any]) -> Any:
        usual = {"model": model, "X": s.X, "target": s.target, "n_permutations": 9}
        return unbin.permutation_test(**{**usual, **given})

    yield accepted(group, lambda: test({}))
    yield accepted(group, lambda: test({"y": s.y}))
    yield accepted(group, lambda: test({"target": s.joined, "table": "county"}))
    names = [*ODD, "", "State", ["county"], True]
    use = lambda v: test({"target": s.joined, "table": v})  # noqa: E731
    yield from each(group, "several tables, table", names, use)
    yield from each(
        group,
        "table",
        [n for n in names if n is not None],
        lambda v: test({"table": v}),
    )
    known = [{"y": s.y}, {"kind": "error"}, {"kind": "paper", "y": s.y}, {"kind": "x"}]
    use = lambda v: test({"target": s.joined, "table": "county", **v})  # noqa: E731
    yield from each(group, "several tables,", known, use)
    yield Call(group, "a table of two blocks", lambda: use({"table": "sex"}))
    yield from each(group, "X", matrices_like(s.X), lambda v: test({"X": v}))
    yield from each(group, "y", vectors_like(s.y), lambda v: test({"y": v}))
    choices = {
        "model": [None, "x", 3, unbin.AggregatedGLM, LinearRegression(), []],
        "target": [s.y, None, s.release, "x", [s.target]],
        "n_permutations": [*ODD, 0, True],
        "kind": ["x", None, "error", "paper"],
        "random_state": SEEDS,
    }
    yield from each(group, "", keywords(choices), test)


def joins() -> Iterator[Call]:
    """Return tables that cannot be joined, and what cannot be done with joined ones."""
    s, county = study(), study().joined.tables[0]
    yield accepted("join", lambda: unbin.join(*s.joined.tables))
    others = [*ODD, s.y, s.release, s.blocks, [s.target], county, s.joined, "county"]
    yield from each("join", "a table and", others, lambda v: unbin.join(county, v))
    shorter = unbin.aggregate(s.y[:300], s.sex[:300], 5).align(s.sex[:300])
    yield Call("join", "of other people", lambda: unbin.join(county, shorter))
    yield Call("join", "of nothing", unbin.join)
    flags = ["x", None, 2, [], NAN]
    yield from each("join", "scale", flags, lambda v: unbin.join(county, scale=v))
    rows = [0, slice(3), [0, 1], np.arange(600) < 9, "x", None, (0, 1)]
    yield from each("join", "rows", rows, lambda v: s.joined[v])
    yield from each("join", "read by", [np.asarray, list, sorted], lambda v: v(s.joined))
    yield from each("join", "table", [*ODD, "x"], s.joined.table)
    regressor = unbin.AggregatedRegressor(LinearRegression())
    matching = unbin.AggregatedGLM(method="matching")
    models = {"matching": matching, "a regressor": regressor}
    yield from each("join", "fitted by", models, lambda m: m.fit(s.X, s.joined))
    yield Call("join", "scored by matching", lambda: s.matching.score(s.X, s.joined))
    yield Call("join", "folds", lambda: list(unbin.BlockKFold().split(s.X, s.joined)))


def left_out() -> Iterator[Call]:
    s, group = study(), "cross_validate"

    def validate(given: dict[str, Any]) -> Any:
        usual = {"model": unbin.AggregatedGLM(), "X": s.X, "target": s.joined, "n_splits": 3}
        return unbin.cross_validate(**{**usual, **given})

    yield accepted(group, lambda: validate({}))
    yield accepted(group, lambda: validate({"table": "county", "random_state": 0}))
    yield accepted(group, lambda: validate({"target": s.target}))
    yield from each(group, "X", matrices_like(s.X), lambda v: validate({"X": v}))
    yield from each(group, "offset", vectors_like(s.y), lambda v: validate({"offset": v}))
    matching = unbin.AggregatedGLM(method="matching")
    choices: dict[str, list[Any]] = {
        "model": [None, "x", 3, unbin.AggregatedGLM, LinearRegression(), [], matching],
        "target": [s.y, None, s.release, "x", [s.joined], {"county": s.release}],
        "n_splits": [*ODD, 0, 1, True, 31, 10**400],
        "table": [*(value for value in ODD if value is not None), "State", "sex", ["county"]],
        "random_state": SEEDS,
    }
    yield from each(group, "", keywords(choices), validate)


def compared() -> Iterator[Call]:
    s, group = study(), "compare"
    yield accepted(group, lambda: unbin.compare([s.model, s.model]))
    models = [*ODD, [], {}, ["x"], [s.model, None], [unbin.AggregatedGLM()], s.model, [s.matching],
              [s.several], {"a": 1}]  # fmt: skip
    yield from each(group, "models", models, unbin.compare)
    held = partial(unbin.compare, [s.model], s.X, s.target)
    yield from each(group, "cv", ["x", 0, 1, 1.5, True, NAN, [], 10**400], lambda v: held(cv=v))
    yield from each(group, "X", matrices_like(s.X), lambda v: unbin.compare([s.model], v, s.target,
                                                                           cv=3))  # fmt: skip


def audits() -> Iterator[Call]:
    s = study()

    def audit(given: dict[str, Any]) -> Any:
        usual = {"X": s.X, "y": s.y, "blocks": s.blocks, "bins": [2]}
        quick = {"attacks": ["likelihood"], "families": "gaussian", "n_permutations": 9}
        return unbin.audit(**{**usual, **quick, "random_state": 0, **given})

    yield accepted("audit", lambda: audit({}))
    yield from each("audit", "X", matrices_like(s.X), lambda v: audit({"X": v}))
    y = vectors_like(s.y) | {"None": None, "constant": np.ones(600)}
    yield from each("audit", "y", y, lambda v: audit({"y": v}))
    blocks = ids_like(s.blocks) | {
        "no levels": {},
        "a level of numbers": {"a": 3},
        "a level too short": {"a": s.blocks[:-1]},
    }
    yield from each("audit", "blocks", blocks, lambda v: audit({"blocks": v}))
    choices: dict[str, list[Any]] = {
        "bins": [
            "x",
            [],
            3,
            [0],
            [-1],
            [1.5],
            ["x"],
            [None],
            [[1.0]],
            [[2.0, 1.0]],
            [NAN],
            {},
        ],
        "target_transform": ["x", 0, "log", []],
        "families": ["x", 3, ["x"], [3], [], None],
        "attacks": ["x", ["x"], 3, None, [], [3]],
        "held_out": ["x", None, NAN, 0, 1, -0.1, 2, [], True],
        "rule": ["x", None, NAN, 0, -1, 1.5, []],
        "suppress": ["x", NAN, 0, 1, -1, 1.5, []],
        "complementary": ["x", None, 2, True],
        "round": ["x", NAN, 0, 1, -5, 2.5, []],
        "noise": [
            "x",
            "laplace",
            "laplace:x",
            "laplace:0",
            "laplace:-1",
            "laplace:nan",
            3,
            "gauss:1",
        ],
        "min_utility": ["x", None, NAN, -1, INF, []],
        "n_permutations": ["x", None, NAN, 0, -1, 1.5, [], True],
        "level": ["x", None, NAN, 0, 1, 2, -1, []],
        "random_state": SEEDS,
    }
    yield from each("audit", "", keywords(choices), audit)
    yield Call(
        "audit", "noise and suppression", lambda: audit({"noise": "laplace:1", "suppress": 11})
    )


# -- files ---------------------------------------------------------------------------------------


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="attack-"))
    texts = {
        "empty.csv": "",
        "words.csv": "a,b\nc,d\n",
        "table.csv": "block,lower,upper,count\na,,0,3\na,0,,4\n",
        "deep.json": "[" * 100_000,
        "empty.json": "",
        "list.json": "[]",
        "object.json": "{}",
        "people.parquet": "PAR1 no",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "binary.csv").write_bytes(bytes(range(256)))
    os.mkfifo(folder / "pipe.csv")
    return folder


def _paths() -> dict[str, Any]:
    folder = _folder()
    found: dict[str, Any] = {
        "None": None,
        "a number": 3,
        "NaN": NAN,
        "a list": [],
        "bytes": b"",
        "nothing": "",
        "not there": "nowhere.csv",
        "a folder": folder,
        "an object": object(),
        "a null byte": "\0",
        "too long": "a" * 5000,
        "endless": Path("/dev/zero"),
    }
    names = ("empty.csv", "binary.csv", "words.csv", "people.parquet", "pipe.csv")
    return found | {name: folder / name for name in names}


def reading() -> Iterator[Call]:
    s, folder = study(), _folder()
    yield from each("read_release", "of", _paths(), unbin.read_release)
    yield from each("read_releases", "of", _paths(), unbin.read_releases)
    glm = unbin.AggregatedGLM()
    people = partial(glm.fit, y=s.release, block="b", features=["x"])
    yield from each("fit", "people in", _paths(), people)
    options: dict[str, list[Any]] = {
        "dialect": ["x", 3, [], NAN, "acs"],
        "closed": ["x", 3, []],
        "suppression": ["x", 3, {"*": 3}, {"*": (9, 1)}, {"*": (-1, 2)}],
        "rounding": ["x", 3, "nearest-0", []],
        "encoding": ["x", 3, "rot13", []],
        "max_bytes": ["x", 0, -1, NAN, 1.5, [], 5],
        "block": [3, [], "nowhere"],
        "label": [3, "nowhere"],
        "count": [3, "nowhere"],
        "where": ["x", 3, {"nowhere": "x"}, {"block": 1.5}, {"block": "z"}, {3: "x"}],
    }
    table = folder / "table.csv"
    use = lambda v: unbin.read_release(table, **v)  # noqa: E731
    yield accepted("read_release", lambda: use({}))
    yield from each("read_release", "", keywords(options), use)
    also = options | {"colour": ["red"], "moe": ["x", True], "totals": ["x", 3]}
    every = lambda v: unbin.read_releases(table, **v)  # noqa: E731
    yield accepted("read_releases", lambda: every({}))
    yield from each("read_releases", "", keywords(also), every)


def saving() -> Iterator[Call]:
    s, folder = study(), _folder()
    out = folder / "out.json"
    damaged = [folder / name for name in ("deep.json", "empty.json", "list.json", "object.json")]
    named = {path.name: path for path in damaged}
    yield from each("load", "of", _paths() | named, unbin.load)
    resume = lambda path: unbin.AggregatedGLM(checkpoint=path).fit(s.X, s.target)  # noqa: E731
    yield from each("fit", "checkpoint", named, resume)
    other = LinearRegression().fit(s.X, s.y)
    models = [None, 3, "x", LinearRegression(), other, unbin.AggregatedGLM(), unbin.AggregatedGLM]
    yield from each("save", "model", models, lambda v: unbin.save(v, out))
    places = without(_paths(), "not there", "endless", *(p.name for p in _folder().iterdir()))
    places |= {"nowhere": "/nowhere/at/all.json"}
    yield from each("save", "to", places, lambda v: unbin.save(s.model, v))
    yield from each(
        "report.write_report", "to", places, lambda v: unbin.report.write_report(v, "x")
    )
    yield accepted("save", lambda: unbin.save(s.model, out, inputs={"people.csv": "0"}))
    also = {"inputs": [3, "x", {"a": 3}], "encoding": [3, "x", {}], "public": ["x", 2, []]}
    yield from each("save", "", keywords(also), lambda v: unbin.save(s.model, out, **v))
    odd = np.char.add(s.blocks, "\ud800")

    def save_strange() -> bool:
        strange = unbin.AggregatedGLM().fit(s.X, unbin.aggregate(s.y, odd, 5).align(odd))
        unbin.save(strange, out)
        return bool((unbin.load(out).coef_ == strange.coef_).all())

    yield Call("save", "half a character in ids", save_strange, bool)


# -- pictures ------------------------------------------------------------------------------------


def pictures() -> Iterator[Call]:
    s, plots, report = study(), unbin.plots, unbin.report
    models = {
        "None": None,
        "a number": 3,
        "text": "x",
        "not fitted": unbin.AggregatedGLM(),
        "of several targets": s.several,
        "of scikit-learn": LinearRegression().fit(s.X, s.y),
    }
    by_model = "coefficients histogram histograms influence information objective_path "
    by_model += "observed_expected published residuals"
    for what in by_model.split():
        yield from each(f"plots.{what}", "model", models, getattr(plots, what))
    render = partial(report.render_report, title="t")
    yield from each("report.render_report", "model", models, render)
    yield accepted("report.render_report", lambda: render(s.model, oracle=[1.0, -0.5]))
    oracles = ["x", 3, [1.0], [NAN, 1.0], {}, unbin.AggregatedGLM(), np.ones((2, 2))]
    draw = partial(plots.coefficients, s.model)
    yield accepted("plots.coefficients", lambda: draw([1.0, -0.5], level=0.9, most=1))
    yield from each("plots.coefficients", "oracle", oracles, draw)
    yield from each("report.render_report", "oracle", oracles, lambda v: render(s.model, oracle=v))
    odd = {"level": ["x", None, NAN, 0, 1, 2, -1], "most": ["x", None, NAN, 0, -1, 1.5],
           "standardised": ["x", None, 2]}  # fmt: skip
    yield from each("plots.coefficients", "", keywords(odd), lambda v: draw(**v))
    less = {"smallest": ["x", None, NAN, -1, 1.5], "table": ["x", 3, []], "ax": ["x", 3, []]}
    for what in (plots.residuals, plots.observed_expected):
        use = partial(what, s.model)
        yield accepted(f"plots.{what.__name__}", use)
        yield from each(f"plots.{what.__name__}", "", keywords(less), lambda v, use=use: use(**v))
        yield Call(f"plots.{what.__name__}", "of matching", partial(what, s.matching))
    yield accepted("plots.influence", partial(plots.influence, s.model))
    wrong = {"most": ["x", None, NAN, 0, -1, 1.5], "ax": ["x", 3, []]}
    yield from each("plots.influence", "", keywords(wrong), lambda v: plots.influence(s.model, **v))
    yield Call("plots.effect", "of no formula", lambda: plots.effect(s.model, "a"))
    formulas = ["x", 3, [], {}]
    effect = partial(plots.effect, s.model, "a")
    yield from each("plots.effect", "encoding", formulas, lambda v: effect(encoding=v))
    yield from each("report.render_report", "encoding", formulas,
                    lambda v: render(s.model, encoding=v))  # fmt: skip
    show, several = partial(plots.histogram, s.model), partial(plots.histograms, s.model)
    yield accepted("plots.histogram", lambda: show("00"))
    yield accepted("plots.recovered", lambda: plots.recovered(s.y, s.y, [-1.0, 0, 1]))
    yield from each("plots.histogram", "block", ["nowhere", 3, [], NAN], show)
    yield from each("plots.histograms", "blocks", ["nowhere", 3, [], NAN, [[]]], several)
    looks = {"smallest": ["x", None, NAN, -1, 1.5], "fitted": ["x", None, 2], "ax": ["x", 3, []],
             "table": ["x", 3, []]}  # fmt: skip
    yield from each("plots.histogram", "", keywords(looks), lambda v: show("00", **v))
    yield from each("plots.histograms", "", keywords(looks), lambda v: several(["00"], **v))
    curves = partial(plots.errors_by_bins, [2, 5])
    yield accepted("plots.errors_by_bins", lambda: curves({"a": [1.0, 2.0]}))
    errors = ["x", None, 3, [1.0], {"a": None}, {"a": "x"}, {"a": [1.0]}, {"a": [1.0, INF]}]
    errors += [{"a": [[1.0], 2.0]}, {"a": ["x", "y"]}, {"a": {}}, {"a": [10**400, 1.0]}]
    yield from each("plots.errors_by_bins", "errors", errors, curves)
    sizes = without(vectors_like(np.arange(9.0)), "too short", "too long", "empty")
    use = lambda v: plots.errors_by_bins(v, {"a": np.ones(9)})  # noqa: E731
    yield from each("plots.errors_by_bins", "bins", sizes, use)
    yield Call("plots.information", "of one table", lambda: plots.information(s.model))
    yield Call("plots.histogram", "of matching", lambda: plots.histogram(s.matching, "00"))
    values, edges = without(vectors_like(s.y), "empty", "too short", "too long"), [-1.0, 0, 1]
    yield from each("plots.recovered", "z", values, lambda v: plots.recovered(v, s.y, edges))
    yield from each("plots.recovered", "y", values, lambda v: plots.recovered(s.y, v, edges))
    wrong = ["x", None, [], [1.0], [1.0, 0.0], [NAN, 1.0], 3, {}]
    yield from each("plots.recovered", "edges", wrong, lambda v: plots.recovered(s.y, s.y, v))
    others = {"None": None, "a model": s.model}
    yield from each("plots.permutation", "test", others, plots.permutation)
    yield from each("report.render_audit", "audit", others, partial(report.render_audit, title="t"))
    also: dict[str, list[Any]] = {"inputs": [3, "x", {"a": 3}, None], "public": ["x", 2, []]}
    yield from each("report.render_report", "", keywords(also), lambda v: render(s.model, **v))
    pages = {"None": None, "a number": 3, "bytes": b"x", "a model": s.model}
    place = _folder() / "page.html"
    yield from each("report.write_report", "html", pages, lambda v: report.write_report(place, v))


GROUPS = (folds, permutations, joins, left_out, compared, audits, reading, saving, pictures)
