"""A fit resumes after its process was killed."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

SCRIPT = """
import sys, time, json, unbin
from unbin.datasets import simulate
from unbin._watching import watching
path, method = sys.argv[1:]
sim = simulate(3000, 4, 80, between=0.2, noise=1.0, random_state=0)
target = unbin.aggregate(sim.y, sim.blocks, 6).align(sim.blocks)
model = unbin.AggregatedGLM(method=method, tol=1e-7, random_state=0, checkpoint=path, n_jobs=1)
steps = []
def slowly(step):
    steps.append(step.distance)
    print(json.dumps({"step": step.distance}), flush=True)
    time.sleep(0.05)
    return False
with watching(slowly):
    model.fit(sim.X, target)
print(json.dumps({"coef": list(model.coef_), "steps": len(steps)}), flush=True)
"""


def start(path, method):
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(path), method],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("method", ["likelihood", "matching"])
def test_a_fit_resumes_after_its_process_is_killed(tmp_path, method):
    """Three kills with each method, at random moments from the first step on."""
    rng = np.random.default_rng(0)
    path = tmp_path / "fit.checkpoint"
    whole = start(tmp_path / "other.checkpoint", method)
    expected = json.loads(whole.communicate()[0].splitlines()[-1])
    kills, moved = 0, 0
    while kills < 3:
        run = start(path, method)
        run.stdout.readline()
        time.sleep(float(rng.uniform(0, 0.04 * expected["steps"])))
        if run.poll() is None:
            run.send_signal(signal.SIGKILL)
            kills += 1
        run.communicate()
        if path.exists():  # it is not there before the first step and after the last one
            json.loads(path.read_text())  # never half a file
            moved += 1
    last = json.loads(start(path, method).communicate()[0].splitlines()[-1])
    np.testing.assert_allclose(last["coef"], expected["coef"], rtol=1e-5)
    assert moved > 0
    assert not path.exists()
