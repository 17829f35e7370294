"""The attack sees what it is meant to see: wrong numbers, foreign exceptions.

And a part of it is made here: some malformed calls, some damaged models and checkpoints.
"""

import random
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import fuzz
import mutations
import unbin
from attacks import calls, invariances, problems, values
from attacks.verdicts import Outcome, is_typed, verdict_of
from unbin.exceptions import BinError
from unbin.rows.design import lay_out


@pytest.mark.parametrize(
    ("call", "kind", "typed"),
    [
        (lambda: unbin.aggregate([1.0], bins=0), BinError, True),
        (lambda: unbin.AggregatedGLM().fit(None, [1.0]), ValueError, True),  # scikit-learn says so
        (lambda: unbin.AggregatedGLM().predict([[1.0]]), NotFittedError, True),
        (lambda: unbin.AggregatedGLM(famly="gaussian"), TypeError, True),  # Python does
        (lambda: lay_out("X", np.zeros(1, int), 1), Exception, False),  # numpy does, inside unbin
    ],
)
def test_errors_that_a_user_may_expect_are_told_from_others(call, kind, typed):
    with pytest.raises(kind) as error:
        call()
    assert is_typed(error.value) is typed


@pytest.mark.parametrize(("kind", "least"), [(calls, 300), (invariances, 200), (problems, 300)])
def test_enough_is_tried(kind, least):
    found = kind.cases(0)
    assert len(found) >= least
    assert found == kind.cases(0)


def model(coef, error, *, identified=True):
    return SimpleNamespace(
        coef_=np.array(coef),
        conf_int=lambda: np.stack([coef, coef], axis=1),
        standard_errors_=np.array(error),
        diagnostics_=SimpleNamespace(identified=identified),
    )


@pytest.mark.parametrize(
    ("found", "warned", "verdict"),
    [
        (model([1.0, 0.0], [0.1, 0.1]), False, "right"),
        (model([1.6, 0.0], [0.1, 0.1]), False, "wrong"),
        (model([1.6, 0.0], [0.1, 0.1]), True, "right"),
        (model([1.6, 0.0], [0.1, 0.1], identified=False), False, "right"),
        (model([1.0, 0.0], [0.1, 0.0]), False, "wrong"),
        (model([1.0, 0.0], [0.1, np.nan]), False, "wrong"),
    ],
)
def test_a_slope_far_off_and_errors_of_0_are_seen(found, warned, verdict):
    world = SimpleNamespace(X=np.eye(2), release="none", tables={})
    problem = problems.Problem(world, np.array([1.0, 0.0]), "likelihood", auto=False)
    assert problems._judge_likelihood(problem, found, warned=warned).verdict == verdict


@pytest.mark.parametrize(("predicted", "verdict"), [([1.0, 2.0], "right"), ([9.0, -9.0], "wrong")])
def test_shrunk_slopes_are_held_against_the_pooled_mean(predicted, verdict):
    y = np.array([1.0, 2.0])
    world = SimpleNamespace(X=np.eye(2), y=y, release="none", tables={"bins": {}})
    found = model([1.0, 0.0], [0.1, 0.1])
    found.diagnostics_, found.predict = "coef_ and predictions:", lambda _: np.array(predicted)
    problem = problems.Problem(world, np.array([1.0, 0.0]), "likelihood", auto=False)
    assert problems._judge_likelihood(problem, found, warned=True).verdict == verdict


def test_fits_that_do_not_follow_are_seen():
    def found(slope=1.0, error=0.1, predicted=1.0, identified=True):
        means = np.array([0.0, predicted])
        return invariances.Found(np.array([slope]), np.array([error]), means, identified)

    assert found().far_from(found(1 + 1e-7), 1e-6) == ""
    for other in (found(1 + 1e-5), found(error=0.2), found(predicted=1.1), found(identified=False)):
        assert found().far_from(other, 1e-6)


def test_a_changed_world_is_fitted_alike():
    names = [name for name, _ in invariances.cases(0)]
    assert invariances.run(0, names.index("feature turned around")).verdict == "right"


def test_malformed_calls_are_refused_or_right():
    """One in ten; all of them are made by benchmarks/attack.py."""
    bad = {}
    for k in range(0, len(calls.cases(0)), 10):
        outcome = call_outcome(k)
        if outcome.verdict not in ("typed", "right"):
            bad[calls.cases(0)[k]] = outcome
    assert not bad


def call_outcome(k):
    try:
        return calls.run(0, k)
    except Exception as error:
        return verdict_of(error)


def test_a_call_as_it_should_be_is_not_to_be_refused(monkeypatch):
    def refuse():
        raise BinError("bins: none")

    call = values.accepted("aggregate", refuse)
    monkeypatch.setattr(calls, "_calls", lambda: [call])
    assert calls.run(0, 0) == Outcome("wrong", "refused, BinError: bins: none")


def test_what_is_infinite_can_be_damaged_too():
    for seed in range(100):
        assert mutations.value(b"[Infinity]", random.Random(seed), [b"[]"])


@pytest.mark.parametrize("name", ["models", "checkpoints"])
def test_damaged_models_and_checkpoints_give_errors_of_our_own(name, monkeypatch, capsys):
    monkeypatch.setattr(fuzz, "RESEALED", 0.2)
    found = fuzz.run(name, 500, seed=0)
    assert found.total() == 500
    assert not found["OTHER"], capsys.readouterr().out
    assert found[{"models": "loaded", "checkpoints": "resumed"}[name]] > 50
