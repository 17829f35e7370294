"""Every script of the gallery runs, warns of nothing, and gives its picture a name."""

import runpy

import matplotlib.pyplot as plt
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.helpers.documents import DOCS

SCRIPTS = sorted((DOCS / "gallery").glob("*.py"))


@pytest.fixture(autouse=True)
def _no_window():
    before = plt.get_backend()
    plt.switch_backend("agg")
    yield
    plt.close("all")
    plt.switch_backend(before)


def test_there_are_ten_pictures():
    assert len(SCRIPTS) == 10


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_draws_one_picture(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(script))
    found = [thing.figure if isinstance(thing, Axes) else thing for thing in names.values()]
    pictures = {figure for figure in found if isinstance(figure, Figure)}
    assert len(pictures) == 1
    pictures.pop().savefig(tmp_path / "picture.png")
    assert list(tmp_path.iterdir()) == [tmp_path / "picture.png"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_says_what_is_learnt_and_how_to_read_it(script):
    title, line = script.read_text(encoding="utf-8").splitlines()[1:3]
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert script.read_text(encoding="utf-8").rpartition("# %%\n")[2].startswith("# ")
