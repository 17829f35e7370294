"""Fits can be watched, and stopped: the last iterate stays, and the status says so."""

import os
import signal

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import unbin
from tests.helpers.cli import run, write_release
from tests.helpers.people import simulate_patients
from unbin._watching import Stage, Step, watching
from unbin.cli.interrupts import _Progress
from unbin.datasets import simulate
from unbin.exceptions import FitInterruptedError
from unbin.likelihood.infer import choice


def _data():
    sim = simulate(2000, 3, 60, between=0.3, random_state=0)
    return sim.X, unbin.aggregate(sim.y, sim.blocks, 6).align(sim.blocks)


@pytest.mark.parametrize(
    ("method", "solver"),
    [("likelihood", "lbfgs"), ("matching", "lbfgs"), ("matching", "alternating")],
)
def test_every_step_is_reported_and_watching_changes_nothing(method, solver):
    X, target = _data()
    steps = []
    settings = {"method": method, "solver": solver, "random_state": 0, "tol": 1e-6}
    alone = unbin.AggregatedGLM(**settings).fit(X, target)
    with watching(lambda step: steps.append(step)):
        model = unbin.AggregatedGLM(**settings).fit(X, target)
    np.testing.assert_array_equal(model.coef_, alone.coef_)
    assert len(steps) >= 2
    assert all(np.isfinite(step.objective) for step in steps)
    assert steps[-1].distance < steps[0].distance


@pytest.mark.parametrize(
    ("method", "solver"),
    [("likelihood", "lbfgs"), ("matching", "lbfgs"), ("matching", "alternating")],
)
def test_a_stopped_fit_keeps_its_last_iterate(method, solver):
    X, target = _data()
    model = unbin.AggregatedGLM(method=method, solver=solver, random_state=0)
    with watching(lambda _: True), pytest.warns(UserWarning, match="converge"):
        model.fit(X, target)
    assert model.status_.name == "INTERRUPTED"
    assert not model.status_.converged
    assert "the best iterate so far is kept" in model.status_.value
    assert np.isfinite(model.predict(X)).all()
    assert len(model.impute()) == len(X)


def test_stopped_while_choosing_there_is_nothing_to_keep():
    X, target = _data()
    with (
        watching(lambda _: True),
        pytest.raises(FitInterruptedError, match="held-out blocks, got no"),
    ):
        unbin.AggregatedGLM(alpha="held-out").fit(X, target)


@pytest.mark.parametrize("kind", ["watcher", "keyboard"])
def test_stopped_while_choosing_the_best_so_far_is_fitted(kind, monkeypatch):
    X, target = _data()
    seen = []
    solve = choice.solve_quickly

    def note(problem, *args):
        seen.append(problem.family.name)
        if kind == "keyboard" and seen[-1] == "gaussian":
            raise KeyboardInterrupt
        return solve(problem, *args)

    monkeypatch.setattr(choice, "solve_quickly", note)
    model = unbin.AggregatedGLM("auto", alpha="held-out")
    stop = watching(lambda _: kind == "watcher" and seen[-1] == "gaussian")
    with stop, pytest.warns(UserWarning, match="interrupted while candidates .* of the 11 scored"):
        model.fit(X, target)
    assert seen.count("gaussian") == 1
    assert model.selection_.stopped
    assert set(model.selection_.family) == {"ordinal"}
    assert model.status_.converged
    monkeypatch.setattr(choice, "solve_quickly", solve)
    whole = unbin.AggregatedGLM("ordinal", alpha="held-out").fit(X, target)
    assert not whole.selection_.stopped
    np.testing.assert_array_equal(model.coef_, whole.coef_)


def test_a_keyboard_interrupt_before_the_first_score_goes_through(monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    X, target = _data()
    monkeypatch.setattr(choice, "solve_quickly", interrupt)
    with pytest.raises(KeyboardInterrupt):
        unbin.AggregatedGLM("auto").fit(X, target)


def test_watching_ends_with_its_block():
    X, target = _data()
    with pytest.warns(ConvergenceWarning), watching(lambda _: True):
        unbin.AggregatedGLM().fit(X, target)
    assert unbin.AggregatedGLM().fit(X, target).status_.converged


def test_time_left_follows_the_distance(monkeypatch):
    shown, clock = [], iter([0.0, 1.0, 2.0])
    monkeypatch.setattr("unbin.cli.interrupts.perf_counter", lambda: next(clock))
    progress = _Progress(shown.append)
    for k, distance in enumerate([1.0, 1e-2, 1e-4]):
        assert not progress.step(Step(k + 1, 2.5, distance, 1e-8))
    assert shown == [
        "iteration 1, objective 2.5",
        "iteration 2, objective 2.5, about 3 s left",
        "iteration 3, objective 2.5, about 2 s left",
    ]
    progress.interrupt()
    assert shown[-1] == "stopping after this step; Ctrl-C again gives up"
    assert progress.step(Step(4, 2.5, 1e-5, 1e-8))
    with pytest.raises(KeyboardInterrupt):
        progress.interrupt()


def test_progress_over_candidates(monkeypatch):
    shown, clock = [], iter([10.0, 12.0, 13.0])
    monkeypatch.setattr("unbin.cli.interrupts.perf_counter", lambda: next(clock))
    progress = _Progress(shown.append)
    for place in (0.0, 0.4, 1.0):
        progress.step(Step(1, 2.5, 1.0, 1e-8, stage=Stage("ordinal", place, 2)))
    assert shown == [
        "comparing ordinal, candidate 1 of 2: iteration 1, objective 2.5",
        "comparing ordinal, candidate 1 of 2: iteration 1, objective 2.5, about 8 s left",
        "comparing ordinal, candidate 2 of 2: iteration 1, objective 2.5, about 3 s left",
    ]


def test_steps_say_which_candidate_is_compared():
    X, target = _data()
    steps = []
    with watching(lambda step: steps.append(step)):
        unbin.AggregatedGLM("auto").fit(X, target)
    stages = [step.stage for step in steps if step.stage is not None]
    assert list(dict.fromkeys(stage.name for stage in stages)) == ["ordinal", "gaussian"]
    assert {stage.total for stage in stages} == {2}
    places = [stage.place for stage in stages]
    assert places == sorted(places)
    assert 0 <= places[0] < 1 < places[-1] < 2
    assert steps[-1].stage is None  # the fit itself


def _write_study(folder):
    people = simulate_patients()
    people.drop(columns="cost").to_csv(folder / "people.csv", index=False)
    write_release(people, folder / "release.csv")


@pytest.mark.parametrize("begun", [True, False])
def test_ctrl_c_while_choosing_exits_130(begun, tmp_path, monkeypatch):
    """A first Ctrl-C arrives while the second family is compared, or the first one."""
    _write_study(tmp_path)
    solve = choice.solve_quickly

    def interrupted(problem, *args):
        if problem.family.name == "gaussian" or not begun:
            os.kill(os.getpid(), signal.SIGINT)
        return solve(problem, *args)

    monkeypatch.setattr(choice, "solve_quickly", interrupted)
    monkeypatch.setattr(_Progress, "interrupt", lambda self, *_: setattr(self, "stopping", True))
    monkeypatch.chdir(tmp_path)
    command = ["fit", "people.csv", "release.csv", "--block", "county", "--formula", "age"]
    result = run(*command, "--family", "auto", "--output", "out")
    assert result.exit_code == 130
    if not begun:
        assert "got no estimate yet" in result.stderr
        assert not (tmp_path / "out").exists()
        return
    said = "Interrupted: not all candidates were compared; the best so far was fitted.\n"
    assert result.stderr.count(said) == 1
    assert "Chosen on held-out blocks: ordinal" in result.stdout
    model = unbin.load(tmp_path / "out" / "model.json")
    assert model.selection_.stopped
    assert model.status_.converged


def test_ctrl_c_writes_the_last_iterate(tmp_path, monkeypatch):
    """A first Ctrl-C arrives while the solver is at work."""
    _write_study(tmp_path)
    step = _Progress.step
    monkeypatch.setattr(
        _Progress, "step", lambda self, at: os.kill(os.getpid(), signal.SIGINT) or step(self, at)
    )
    monkeypatch.setattr(_Progress, "interrupt", lambda self, *_: setattr(self, "stopping", True))
    command = ["fit", "people.csv", "release.csv", "--block", "county", "--formula", "age"]
    monkeypatch.chdir(tmp_path)
    result = run(*command, "--family", "gaussian", "--output", "out")
    assert result.exit_code == 130
    assert "stopped after" in result.stderr
    assert "Interrupted: the fit did not converge; its last iterate was kept.\n" in result.stderr
    assert unbin.load(tmp_path / "out" / "model.json").status_.name == "INTERRUPTED"
