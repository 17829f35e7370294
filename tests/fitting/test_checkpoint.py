"""A fit that was killed goes on from its checkpoint."""

import json

import numpy as np
import pytest

import unbin
from unbin._watching import watching
from unbin.datasets import simulate
from unbin.exceptions import CheckpointError, ParameterError
from unbin.fitting import checkpoint


def interrupted(tmp_path, **settings):
    """Leave a checkpoint behind after two steps."""
    sim = simulate(2000, 3, 60, between=0.2, noise=1.0, random_state=1)
    target = unbin.aggregate(sim.y, sim.blocks, 6).align(sim.blocks)
    path = tmp_path / "fit.checkpoint"
    model = unbin.AggregatedGLM(
        method="matching", tol=1e-7, random_state=0, checkpoint=path, **settings
    )
    with watching(lambda step: step.iteration == 4), pytest.warns(UserWarning, match="converge"):
        model.fit(sim.X, target)
    return sim, target, path, model


def test_a_checkpoint_holds_coefficients_and_shortens_the_next_fit(tmp_path):
    sim, target, path, stopped = interrupted(tmp_path)
    content = json.loads(path.read_text())
    assert set(content) == {"format", "fit", "iteration", "parameters", "checksum"}
    assert len(content["parameters"]) == 4
    whole = unbin.AggregatedGLM(method="matching", tol=1e-7, random_state=0).fit(sim.X, target)
    model = unbin.AggregatedGLM(method="matching", tol=1e-7, random_state=5, checkpoint=path)
    model.fit(sim.X, target)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-5)
    assert model.n_iter_ < whole.n_iter_
    assert not path.exists()
    assert stopped.status_.name == "INTERRUPTED"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "not json",
        '{"checksum": 1, "parameters": ["x"]}',
        '{"checksum": 1, "parameters": ["0x1p+99999"]}',
        "[]",
    ],
)
def test_a_damaged_checkpoint_is_refused_and_kept(tmp_path, text):
    sim, target, path, _ = interrupted(tmp_path)
    path.write_text(text)
    model = unbin.AggregatedGLM(method="matching", tol=1e-7, random_state=0, checkpoint=path)
    with pytest.raises(CheckpointError, match="must be a file that a fit wrote"):
        model.fit(sim.X, target)
    assert path.read_text() == text


def test_a_changed_number_is_noticed(tmp_path):
    sim, target, path, _ = interrupted(tmp_path)
    content = json.loads(path.read_text())
    content["parameters"][0] = (1.0).hex()
    path.write_text(json.dumps(content))
    model = unbin.AggregatedGLM(method="matching", tol=1e-7, random_state=0, checkpoint=path)
    with pytest.raises(CheckpointError, match="is damaged"):
        model.fit(sim.X, target)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([], "is of another fit"),
        ([(1.0).hex()] * 5, "is of another fit"),
        (["nan"] * 4, "must hold finite coefficients, got NaN or inf; delete it"),
    ],
)
@pytest.mark.parametrize("method", ["matching", "likelihood"])
def test_coefficients_that_no_step_left_are_refused(tmp_path, parameters, message, method):
    """Under a checksum that is right."""
    sim, target, path, _ = interrupted(tmp_path)
    model = unbin.AggregatedGLM(method=method, tol=1e-7, random_state=0, checkpoint=path)
    if method == "likelihood":
        path.unlink()
        parameters = parameters + parameters[:1]  # log sigma
        with watching(lambda _: True), pytest.warns(UserWarning, match="converge"):
            model.fit(sim.X, target)
    content = json.loads(path.read_text())
    content["parameters"] = parameters
    del content["checksum"]
    path.write_text(json.dumps({**content, "checksum": checkpoint._checksum(content)}))
    with pytest.raises(CheckpointError, match=message):
        model.fit(sim.X, target)


@pytest.mark.parametrize(
    "change", [{"alpha": 0.1}, {"method": "likelihood"}, {"tol": 1e-5}, "data"]
)
def test_a_checkpoint_of_another_fit_is_refused(tmp_path, change):
    sim, target, path, _ = interrupted(tmp_path)
    settings = {"method": "matching", "tol": 1e-7, "random_state": 0, "checkpoint": path}
    X = sim.X
    if change == "data":
        X = sim.X * 1.01
    else:
        settings |= change
    with pytest.raises(CheckpointError, match="is of another fit"):
        unbin.AggregatedGLM(**settings).fit(X, target)


@pytest.mark.parametrize(
    ("left_by", "found_by"),
    [
        ({"method": "matching"}, {"solver": "alternating"}),
        ({"method": "matching"}, {"fit_intercept": False}),
        ({"method": "likelihood"}, {"contextual": True}),
    ],
)
def test_settings_alone_make_a_fit_another_fit(tmp_path, left_by, found_by):
    """The columns have the same scale either way: averages of 0, and nothing within blocks."""
    rng = np.random.default_rng(0)
    half = rng.normal(size=(30, 2)).repeat(20, axis=0)
    X, blocks = np.concatenate([half, -half]), np.repeat(np.arange(60).astype(str), 20)
    y = X @ [1.0, -0.5] + rng.normal(size=1200)
    target = unbin.aggregate(y, blocks, 6).align(blocks)
    settings = {
        "tol": 1e-9,
        "random_state": 0,
        "checkpoint": tmp_path / "fit.checkpoint",
        **left_by,
    }
    with watching(lambda _: True), pytest.warns(UserWarning, match="stopped|did not converge"):
        unbin.AggregatedGLM(**settings).fit(X, target)
    with pytest.raises(CheckpointError, match="is of another fit"):
        unbin.AggregatedGLM(**settings | found_by).fit(X, target)
    unbin.AggregatedGLM(**settings).fit(X, target)
    assert not settings["checkpoint"].exists()


def test_a_checkpoint_is_a_path(tmp_path):
    sim = simulate(200, 1, 5, random_state=0)
    with pytest.raises(ParameterError, match="checkpoint"):
        unbin.AggregatedGLM(checkpoint=3).fit(sim.X, sim.y)
