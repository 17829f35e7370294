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
    rows, figures = figure1.run(5, True)
    assert len(rows) == 2 * 2 * 3 * 4
    assert list(figures) == [
        "figure1_paper_one_block", "figure1_paper_blocks", "figure1_error_one_block",
        "figure1_error_blocks",
    ]  # fmt: skip
    assert size(figures["figure1_error_blocks"], tmp_path) < 300_000


def test_figures2_3(tmp_path):
    rows, figures = figures2_3.run(1, True)
    assert len(rows) == 3 * 2 * 2 * 2 * 2
    assert all(row["test_floor"] < row["test_pooled_mean"] for row in rows)
    exact = [row for row in rows if row["family"] == "gaussian" and row["noise"] == "no"]
    assert all(row["test_floor"] < 1e-9 for row in exact)
    assert all(np.isfinite(row["test"]) for row in rows)
    assert size(figures["figure3"], tmp_path) < 300_000


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("figure", [figure4, figure5], ids=["figure4", "figure5"])
def test_figures_of_real_data(figure):
    rows, figures = figure.run(1, True)
    assert len(figures) == 2
    # who has another insurer pay is all but unpredictable
    told = [row for row in rows if "PPPYMT_OP" not in row["study"]]
    assert all(0 < row["test_floor"] < row["test_pooled_mean"] for row in told)
    assert all(np.isfinite(row["test"]) for row in rows)


@pytest.mark.usefixtures("real_data")
def test_figure6():
    rows, figures = figure6.run(1, True)
    assert list(figures) == ["figure6_synpuf", "figure6_sparcs"]
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
        return [{"runs": runs, "quick": quick}], {"empty": Figure()}

    for options, stored in ((["--quick"], False), (["--runs", "2"], False), ([], True)):
        monkeypatch.setattr(sys, "argv", ["script", *options])
        common.draw_and_store("name", "what it does", run, 3)
        assert (tmp_path / "results" / "name.csv").exists() == stored
        assert (tmp_path / "figures" / "empty.svg").exists() == stored
    assert "quick" in capsys.readouterr().out
