"""What the benchmarks share: one thread, simulated people, the peer's fit, timing and memory."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time

import numpy as np
from glum import GeneralizedLinearRegressor
from threadpoolctl import threadpool_limits

from unbin.datasets import Simulation, simulate

threadpool_limits(limits=1)  # of every library loaded by now
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"  # and of the processes started from here

GLUM = {"gaussian": "normal", "poisson": "poisson", "binomial": "binomial"}
N_TRIALS = 20


def people(family: str, n: int, d: int, n_blocks: int) -> Simulation:
    return simulate(
        n, d, n_blocks, family=family, between=0.1, noise=0.5, n_trials=N_TRIALS, random_state=0
    )


def arguments(description: str) -> argparse.ArgumentParser:
    """Return what a benchmark may be asked for: --quick takes a tenth of the people."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n = 100,000")
    return parser


def size_of(args: argparse.Namespace) -> int:
    """Say where the benchmark runs, and return its number of people."""
    print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")
    return 100_000 if args.quick else 1_000_000


def best_of(run, repeats: int = 3) -> tuple[float, object]:
    seconds, result = [], None
    for _ in range(repeats):
        begin = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - begin)
    return min(seconds), result


def glum_seconds(sim: Simulation, family: str) -> float:
    """Return the time of one fully observed glum fit on the same X."""
    scale = N_TRIALS if family == "binomial" else 1
    peer = GeneralizedLinearRegressor(family=GLUM[family], alpha=0)
    return best_of(lambda: peer.fit(sim.X, sim.y / scale))[0]


MEMORY = """
import ctypes
import numpy as np, unbin
from pathlib import Path
def status(key):
    line = next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith(key))
    return int(line.split()[1]) * 1024
def table(X, ids):
    y = X[:, 0] + np.random.default_rng(1).normal(size=len(X))
    return unbin.aggregate(y, ids, {bins}).align(ids)
def fit(X, codes):
    further = (table(X, np.digitize(x, [-1.0, -0.3, 0.3, 1.0])) for x in X.T[:{more}])
    target = unbin.join(table(X, codes), *further)
    ctypes.CDLL(None).malloc_trim(0)  # what drawing and counting people left behind
    Path("/proc/self/clear_refs").write_text("5")
    unbin.AggregatedGLM(method="{method}").fit(X, target)
rng = np.random.default_rng(0)
fit(rng.normal(size=(2000, 2)) + np.arange(2000)[:, None] % 40, np.arange(2000) % 40)
empty = status("VmRSS")
X = np.empty(({n}, {d})); rng.standard_normal(out=X)
codes = np.sort(rng.integers(0, 250, {n}))
X += rng.standard_normal((250, {d}))[codes]
fit(X, codes)
print((status("VmHWM") - empty) / X.nbytes)
"""


def peak_memory(method: str, n: int, d: int, bins: int, more: int = 0) -> str:
    """Return peak memory of a gaussian fit in a fresh process, X included, as a multiple of X.

    ``more`` are tables by features beside the one by block.
    """
    code = MEMORY.format(method=method, n=n, d=d, bins=bins, more=more)
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True
    )
    return out.stdout.strip() or out.stderr.strip().splitlines()[-1]
