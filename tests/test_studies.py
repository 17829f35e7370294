"""The leaderboard: what is registered is stored and on the page, and its cells are right."""

import itertools
import re

import numpy as np
import pytest

import unbin
from studies import page, registry, releases, run
from studies.draw import draw
from studies.methods import block_means, dllp, midpoints
from studies.registry import Method, NotAvailable, People, Study, Task, VotesTask
from studies.tables import block_means as means_of
from studies.tables import midpoints as middle_of
from tests.helpers.paths import ROOT


@pytest.fixture
def people():
    rng = np.random.default_rng(0)
    block = np.repeat(np.arange(20), 30).astype(str)
    X = rng.normal(size=(600, 2)) + rng.normal(size=(20, 2)).repeat(30, axis=0)
    y = X @ [1.0, -0.5] + rng.normal(size=600)
    return People(X, y, {"block": block, "sign": (X[:, 0] > 0).astype(str)})


@pytest.fixture
def study(people):
    return Study("drawn", "Drawn.", "gaussian", lambda: people)


# -- what is stored --------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["data", "methods"])
def test_every_file_is_registered(folder):
    files = {path.stem for path in (ROOT / "studies" / folder).glob("*.py")} - {"__init__"}
    found = registry.studies() if folder == "data" else registry.methods()
    assert set(found) == files
    labels = [each.label for each in found.values()]
    assert len(set(labels)) == len(labels)
    assert all(each.about and "\n" not in each.about for each in found.values())


def test_every_cell_is_stored():
    wanted = {
        (name, kind, method)
        for (name, study), kind, (method, how) in itertools.product(
            registry.studies().items(), releases.KINDS, registry.methods().items()
        )
        if run.answers(study, kind, how)
    }
    rows = run.read()
    assert {(row.study, row.release, row.method) for row in rows} == wanted
    assert all(np.isfinite(row.error) != bool(row.status) for row in rows)
    assert not any(row.status in ("failed", "stuck") for row in rows)


@pytest.mark.parametrize("method", ["unbin_ordinal", "midpoints"])
def test_a_stored_cell_is_what_the_code_gives(method):
    study = registry.studies()["language"]
    found = run.cell(study, study.load(), "one-4", registry.methods()[method])
    stored = {(row.study, row.release, row.method): row for row in run.read()}
    assert found["error"] == pytest.approx(stored["language", "one-4", method].error, rel=2e-3)


def test_the_page_says_what_is_stored():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.filled(text, run.read()) == text, "run `make studies` again"


def test_the_picture_has_a_panel_for_each_study():
    rows = [row for row in run.read() if row.study in ("exam", "senc")]
    figure = draw(rows)
    titles = [ax.get_title(loc="left") for ax in figure.axes if ax.axison]
    assert titles == ["Exam", "senc"]
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "unbin, default" in words
    assert "oracle" in words


# -- a cell ----------------------------------------------------------------------------------------


def test_a_run_resumes(tmp_path, study):
    path, calls = tmp_path / "results.csv", []
    default = registry.methods()["unbin_default"]

    def fit(task):
        calls.append(task.y)
        return default.fit(task)

    methods = registry.methods() | {"unbin_default": Method("ours", "", 1, fit=fit)}
    some = {name: methods[name] for name in ("unbin_default", "midpoints")}
    real = {"exam": study}  # rows are stored in the order of registered names
    for _ in range(2):
        rows = run.run(real, some, ("one-4",), path=path, limit=None)
    assert calls == [None]  # once, and not told the outcomes
    assert [row.method for row in run.read(path)] == list(some)
    ours, naive = sorted(rows, key=lambda row: row.error)
    assert ours.method == "unbin_default"
    assert 0.95 < ours.error < 1.1 < naive.error
    assert ours.verdict == "trusted"
    run.run(real, some, ("one-4",), path=path, limit=None, again=True)
    assert len(calls) == 2


def test_the_error_is_over_the_oracles(people, study):
    found = run.people_cell(study, people, "one-4", registry.methods()["pooled_mean"])
    train, test = run.split(people)
    slopes = np.linalg.lstsq(np.column_stack([np.ones(len(train.y)), train.X]), train.y)[0]
    oracle = test.y - np.column_stack([np.ones(len(test.y)), test.X]) @ slopes
    expected = np.sqrt(np.mean((test.y - train.y.mean()) ** 2) / np.mean(oracle**2))
    assert found["error"] == pytest.approx(expected)
    rng = np.random.default_rng(0)
    pairs = rng.chisquare(1, size=(400, 500, 2)) * [1.3, 1.0]
    drawn = np.array([run.ratio("gaussian", *each.T) for each in pairs])
    assert drawn[:, 1].mean() == pytest.approx(drawn[:, 0].std(), rel=0.15)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of 3.12, where threads run
def test_a_fit_past_its_limit_is_ended():
    def forever():
        while True:
            pass

    assert run.limited(forever, 1)["status"] == "over 1 s"
    assert run.limited(lambda: {"error": 1.0}, 5) == {"error": 1.0}


def test_what_cannot_be_had_is_said(people, study):
    def refuse(task):
        raise NotAvailable("takes one table")

    said = run.cell(study, people, "one-4", Method("none", "", 1, fit=refuse))
    assert said == {"status": "takes one table"}
    absent = Method("none", "", 1, fit=refuse, needs=("no_such_module",))
    said = run.cell(study, people, "one-4", absent)
    assert said == {"status": "no_such_module is not installed"}


# -- releases and naive readings -------------------------------------------------------------------


def test_releases_say_less_and_less(people):
    whole = releases.histograms(people, 10, several=False)[0].release.to_columns()["histogram"]
    hidden = releases.suppressed(people, 10)[0].release.to_columns()["histogram"]
    small = (whole["count"] > 0) & (whole["count"] < releases.LEAST)
    assert small.any()
    assert (hidden["count"][small] == 5).all()
    np.testing.assert_array_equal(hidden["count"][~small], whole["count"][~small])
    assert len(releases.histograms(people, 4, several=True)) == 2
    means = means_of(people.X, releases.medians(people)[0])
    own = people.y.reshape(20, 30)[np.argsort(np.arange(20).astype(str))]
    np.testing.assert_array_equal(means.outcome, np.sort(own)[:, 14])


def test_midpoints_of_bins():
    lower, upper = np.array([-np.inf, 1, 3]), np.array([1, 3, np.inf])
    np.testing.assert_array_equal(middle_of(lower, upper), [0, 2, 4])
    np.testing.assert_array_equal(middle_of(np.array([-1, 0]), np.array([0, 1])), [0, 1])


@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial"])
def test_block_means_recover_what_is_exact_between_blocks(family):
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(30, 1))
    X = mean.repeat(2000, axis=0)  # features differ between blocks alone
    eta = 0.5 + 0.8 * X[:, 0]
    link = {"gaussian": eta, "poisson": np.exp(eta), "binomial": 1 / (1 + np.exp(-eta))}
    y = {
        "gaussian": lambda m: m + 0.1 * rng.normal(size=len(m)),
        "poisson": rng.poisson,
        "binomial": lambda m: rng.random(len(m)) < m,
    }[family](link[family]).astype(float)
    ids = np.repeat(np.arange(30), 2000).astype(str)
    cuts = np.arange(-0.5, y.max() + 1) if family == "poisson" else np.linspace(-6, 6, 401)
    cuts = [-1, 0, 1] if family == "binomial" else cuts
    table = registry.Table(unbin.aggregate(y, ids, cuts), ids)
    task = Task(X, (table,), family)
    for method in (block_means, midpoints):
        predict = method.METHOD.fit(task).predict
        at = link[family][::2000]
        np.testing.assert_allclose(predict(mean), at, rtol=0.05, atol=0.05)


@pytest.fixture
def precincts():
    rng = np.random.default_rng(0)
    people = rng.integers(50, 500, size=(40, 2)).astype(float)
    shares = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    return people, people[:, :, None] * shares


def votes_task(people, cells):
    blocks = np.arange(len(people)).astype(str)
    return VotesTask(blocks, blocks, ("a", "b"), ("x", "y", "z"), people, cells.sum(axis=1))


def test_goodman_is_exact_where_groups_vote_alike_everywhere(precincts):
    people, cells = precincts
    found, _ = block_means.METHOD.cells(votes_task(people, cells))
    np.testing.assert_allclose(found, cells, rtol=1e-9)


def test_the_bag_loss_finds_the_shares_of_groups(precincts, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(dllp, "RATE", 0.1)
    monkeypatch.setattr(dllp, "EPOCHS", 40)
    people, cells = precincts
    found, _ = dllp.METHOD.cells(votes_task(people, cells))
    assert np.abs(found - cells).sum() < 0.1 * cells.sum()


def test_a_second_table_of_votes_adds_up_to_its_regions(precincts):
    cells = precincts[1]
    regions = np.repeat(["north", "south"], 20)
    votes = registry.Votes(np.arange(40).astype(str), regions, ("a", "b"), ("x", "y", "z"), cells)
    task = releases.margins(votes, several=True)
    np.testing.assert_allclose(task.by_region[0], cells[:20].sum(axis=0))
    np.testing.assert_allclose(task.counts.sum(axis=0), task.by_region.sum(axis=(0, 1)))


# -- how to add one, as the page says --------------------------------------------------------------


def test_the_examples_of_the_page_run(people, study):
    blocks = re.findall(r"```python\n(.*?)```", page.PAGE.read_text(encoding="utf-8"), re.S)
    names = {}
    for block in blocks:
        exec(compile(block, "studies.md", "exec"), names)
    added = names["STUDY"].load()
    assert added.X.shape == (len(added.y), 3)
    assert len(added.tables) == 4
    found = run.cell(study, people, "one-10", names["METHOD"])
    assert 1 <= found["error"] < 1.2
