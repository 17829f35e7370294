"""The scripts of the paper's figures, on few people: they run, and what they show makes sense."""

import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

import common
import figure1
import figure4
import figure5
import figure6
import figures2_3
from unbin import plots


def size(figure, tmp_path):
    """Return the bytes that a picture takes."""
    path = tmp_path / "picture.svg"
    common.save(figure, path)
    return path.stat().st_size


def test_a_picture_has_the_same_bytes_each_time(tmp_path):
    test = figure1.test("gaussian", 5, True, blocks=True, kind="error", n=100, runs=9)
    for name in ("one.svg", "two.svg"):
        figure = Figure(layout="constrained")
        plots.permutation(test, ax=figure.subplots())
        common.save(figure, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


STORED = (figure1, figures2_3, figure4, figure5, figure6)


@pytest.mark.parametrize("module", STORED, ids=lambda module: module.__name__)
def test_stored_pictures_are_drawn_of_stored_numbers(module):
    name = f"{module.__name__}.csv"
    figures = module.draw(common.read(common.RESULTS / name), common.read(common.FIGURES / name))
    for title, figure in figures.items():
        assert (common.FIGURES / f"{title}.svg").exists()
        assert len(figure.legends) == 1
        panels = [ax for ax in figure.axes if ax.axison]
        assert all(ax.get_legend() is None for ax in panels)
        assert all(ax.get_title() for ax in panels)


def test_what_pictures_show_is_what_tables_hold():
    """Means of lines, and medians of permutations, stand in both files."""
    rows = common.read(common.RESULTS / "figures2_3.csv")
    lines = common.read(common.FIGURES / "figures2_3.csv")
    key = ("family", "noise", "blocks", "bins")
    found = {(*(line[name] for name in key), line["line"]): line for line in lines}
    for row in rows:
        line = found[*(row[name] for name in key), row["method"]]
        assert (line["train"], line["test"]) == (row["train"], row["test"])
    rows = common.read(common.RESULTS / "figure1.csv")
    for row, panel in zip(rows, common.read(common.FIGURES / "figure1.csv"), strict=True):
        assert all(row[name] == panel[name] for name in ("reading", "family", "blocks", "bins"))
        assert sum(map(int, panel["counts"].split())) == row["permutations"]
        assert panel["lower"] < row["null_median"] < panel["upper"]


def test_figure1():
    found = {}
    for kind in figure1.KINDS:
        for related in (True, False):
            test = figure1.test("gaussian", 5, related, blocks=True, kind=kind, n=400, runs=59)
            found[kind, related] = test.p_value
    assert found["error", True] < 0.05 < found["error", False]
    # read word by word the test rejects whatever the data
    assert found["paper", True] == found["paper", False] == 1 / 60


def test_figure1_as_a_whole(tmp_path):
    rows, shown = figure1.run(5, True)
    assert len(rows) == len(shown) == 2 * 2 * 3 * 4
    assert all(sum(map(int, panel["counts"].split())) == 5 for panel in shown)
    figures = figure1.draw(rows, shown)
    assert list(figures) == [
        "figure1_paper_one_block", "figure1_paper_blocks", "figure1_error_one_block",
        "figure1_error_blocks",
    ]  # fmt: skip
    assert size(figures["figure1_error_blocks"], tmp_path) < 300_000


def test_figures2_3(tmp_path):
    rows, shown = figures2_3.run(1, True)
    figures = figures2_3.draw(rows, shown)
    assert len(rows) == 3 * 2 * 2 * 2 * 2
    assert all(row["test_floor"] < row["test_pooled_mean"] for row in rows)
    exact = [row for row in rows if row["family"] == "gaussian" and row["noise"] == "no"]
    assert all(row["test_floor"] < 1e-9 for row in exact)
    assert all(np.isfinite(row["test"]) for row in rows)
    assert size(figures["figure3"], tmp_path) < 300_000


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("figure", [figure4, figure5], ids=["figure4", "figure5"])
def test_figures_of_real_data(figure):
    rows, shown = figure.run(1, True)
    assert len(figure.draw(rows, shown)) == 2
    # who has another insurer pay is all but unpredictable
    told = [row for row in rows if "PPPYMT_OP" not in row["study"]]
    assert all(0 < row["test_floor"] < row["test_pooled_mean"] for row in told)
    assert all(np.isfinite(row["test"]) for row in rows)


@pytest.mark.usefixtures("real_data")
def test_figure6():
    rows, shown = figure6.run(1, True)
    assert list(figure6.draw(rows, shown)) == ["figure6_synpuf", "figure6_sparcs"]
    share = {(r["data"], r["method"], r["recovered"]): r["misplaced"] for r in rows}
    # targets drawn by the model are spread as true ones are, its means are not
    for name in ("synpuf", "sparcs"):
        assert share[name, "likelihood", "drawn"] < 0.8 * share[name, "likelihood", "means"]


@pytest.mark.parametrize("figure", [figure4, figure5, figure6])
def test_without_data_a_script_says_so(figure, monkeypatch, capsys):
    monkeypatch.delenv("UNBIN_DATA", raising=False)
    with pytest.raises(SystemExit) as stopped:
        figure.run(1, True)
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("skipped: UNBIN_DATA does not name")


def test_only_a_full_run_is_stored(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(common, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(common, "FIGURES", tmp_path / "figures")

    def run(runs, quick):
        return [{"runs": runs, "quick": quick}], [{"shown": 0.25}]

    def draw(rows, shown):
        assert (rows, shown) == ([{"runs": 3, "quick": "False"}], [{"shown": 0.25}])
        return {"empty": Figure()}

    for options, stored in ((["--quick"], False), (["--runs", "2"], False), ([], True)):
        monkeypatch.setattr(sys, "argv", ["script", *options])
        common.draw_and_store("name", "what it does", run, draw, 3)
        assert (tmp_path / "results" / "name.csv").exists() == stored
        assert (tmp_path / "figures" / "empty.svg").exists() == stored
    assert "quick" in capsys.readouterr().out
    picture = tmp_path / "figures" / "empty.svg"
    picture.unlink()
    monkeypatch.setattr(sys, "argv", ["script", "--redraw"])
    common.draw_and_store("name", "what it does", None, draw, 3)  # nothing is run
    assert picture.exists()
