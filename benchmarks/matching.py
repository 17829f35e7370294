"""Matching beside its peers, in one run and on one thread.

    python benchmarks/matching.py                 the whole table (about half an hour)
    python benchmarks/matching.py --quick         n = 100,000

Prints, for every family, number of blocks and bins, the time of ``solver="lbfgs"`` as a multiple
of one fully observed glum fit on the same X; then the alternating loop a user would script with
scikit-learn and one argsort per block, run until it reaches the same objective; then peak memory,
the cost of selecting and clipping per row, and what numba's compilation costs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

import unbin
from timing import (  # it keeps to one thread
    N_TRIALS,
    arguments,
    best_of,
    glum_seconds,
    peak_memory,
    people,
    size_of,
)
from unbin.families import get_family
from unbin.matching.bounds import rank_bounds
from unbin.matching.impute import impute

LIMITS = {250: {"binomial": 2, "poisson": 4, "gaussian": 10}}
LIMITS[50_000] = {"binomial": 1.5, "poisson": 2, "gaussian": 7}
LOOP_SECONDS = 120.0

warnings.simplefilter("ignore")


def ratios(n: int, d: int) -> None:
    print(f"\nlbfgs / one fully observed glum fit, n = {n:,}, d = {d}")
    print(f"{'family':>9} {'blocks':>7} {'bins':>4} {'glum s':>7} {'lbfgs s':>8} {'ratio':>6}"
          f" {'limit':>5} {'iterations':>10} {'relative gradient':>18}  status")  # fmt: skip
    for n_blocks, limits in LIMITS.items():
        for family, limit in limits.items():
            sim = people(family, n, d, n_blocks)
            peer_seconds = glum_seconds(sim, family)
            for bins in (2, 5, 25):
                target = unbin.aggregate(sim.y, sim.blocks, bins).align(sim.blocks)
                model = unbin.AggregatedGLM(
                    family, method="matching", n_trials=N_TRIALS, n_init=1, n_jobs=1
                )
                seconds, _ = best_of(lambda: model.fit(sim.X, target))  # noqa: B023
                print(
                    f"{family:>9} {n_blocks:>7,} {bins:>4} {peer_seconds:>7.3f} {seconds:>8.3f}"
                    f" {seconds / peer_seconds:>6.2f} {limit:>5} {model.n_iter_:>10}"
                    f" {model.relative_gradient_:>18.1e}  {model.status_.name}",
                    flush=True,
                )


def scripted_loop(sim, target, family: str, objective: float) -> tuple[float, int, float]:
    """Alternate with a scikit-learn fit and one argsort per block until ``objective`` is met."""
    fam = get_family(family, N_TRIALS)
    bounds = rank_bounds(target.release, fam.domain)
    rows = [np.flatnonzero(target.codes == b) for b in range(len(target.release))]
    size = bounds.people()
    runs = [slice(a, b) for a, b in zip(bounds.run_start[:-1], bounds.run_start[1:], strict=True)]
    lower = [np.repeat(bounds.lower[r], size[r]) for r in runs]
    upper = [np.repeat(bounds.upper[r], size[r]) for r in runs]
    begin = time.perf_counter()
    means = np.array(
        [np.mean(np.clip(lower[b], -9, upper[b].clip(-9, 99))) for b in range(len(rows))]
    )
    z = means[target.codes]
    value, n_iter = np.inf, 0
    while value > objective * (1 + 1e-3) and time.perf_counter() - begin < LOOP_SECONDS:
        mean = _scripted_fit(family, sim.X, z)
        for b, inside in enumerate(rows):
            order = np.argsort(mean[inside])
            z[inside[order]] = np.clip(mean[inside[order]], lower[b], upper[b])
        value = float(fam.divergence(z, mean).mean())
        n_iter += 1
    return time.perf_counter() - begin, n_iter, value


def _scripted_fit(family: str, X, z):
    if family == "gaussian":
        return LinearRegression().fit(X, z).predict(X)
    if family == "poisson":
        return PoissonRegressor(alpha=0, max_iter=300).fit(X, z).predict(X)
    twice = np.concatenate([X, X])
    label = np.repeat([1, 0], len(X))
    weight = np.concatenate([z, N_TRIALS - z])
    model = LogisticRegression(C=np.inf, max_iter=300).fit(twice, label, sample_weight=weight)
    return N_TRIALS * model.predict_proba(X)[:, 1]


def loops(n: int) -> None:
    print(f"\nscripted alternating loop / lbfgs to the same objective, n = {n:,}, d = 10, 5 bins")
    columns = ("family", 9), ("blocks", 7), ("lbfgs s", 8), ("loop s", 7), ("times", 6)
    heads = " ".join(f"{name:>{width}}" for name, width in columns)
    print(f"{heads} iterations  reached")
    for family, n_blocks in (
        ("gaussian", 250),
        ("gaussian", 50_000),
        ("poisson", 250),
        ("binomial", 250),
    ):
        sim = people(family, n, 10, n_blocks)
        target = unbin.aggregate(sim.y, sim.blocks, 5).align(sim.blocks)
        model = unbin.AggregatedGLM(family, method="matching", n_trials=N_TRIALS, n_jobs=1)
        seconds, _ = best_of(lambda: model.fit(sim.X, target))  # noqa: B023
        loop_seconds, n_iter, value = scripted_loop(sim, target, family, model.objective_)
        met = value <= model.objective_ * (1 + 1e-3)
        reached = "same objective" if met else f"stopped at {value / model.objective_:.2f} times it"
        print(
            f"{family:>9} {n_blocks:>7,} {seconds:>8.3f} {loop_seconds:>7.1f}"
            f" {loop_seconds / seconds:>6.0f} {n_iter:>10}  {reached}",
            flush=True,
        )


def select_and_clip(n: int) -> None:
    print(f"\nselecting cut ranks and clipping, n = {n:,}, ns per row (limit 15 at 250 blocks)")
    for n_blocks in (1, 250, 50_000):
        sim = people("gaussian", n, 2, n_blocks)
        cells = []
        for bins in (2, 5, 25):
            target = unbin.aggregate(sim.y, sim.blocks, bins).align(sim.blocks)
            bounds = rank_bounds(target.release, get_family("gaussian").domain)
            mean = np.random.default_rng(0).normal(size=n)
            seconds, _ = best_of(lambda: impute(mean, bounds), 5)  # noqa: B023
            cells.append(f"{bins} bins {1e9 * seconds / n:5.1f}")
        print(f"{n_blocks:>7,} blocks: " + ", ".join(cells), flush=True)


def memory(n: int) -> None:
    print("\npeak memory of a gaussian fit, X included, as a multiple of X (limit 2.5)")
    for d in (10, 50):
        print(f"d = {d}: {peak_memory('matching', n, d, 5)}", flush=True)


COMPILE = """
import numpy as np, time, unbin
from unbin.estimator import AggregatedGLM
rng = np.random.default_rng(0)
X, codes = rng.normal(size=(2000, 3)), np.arange(2000) % 20
target = unbin.aggregate(X[:, 0], codes, 5).align(codes)
times = []
for _ in range(2):
    begin = time.perf_counter()
    AggregatedGLM(method="matching").fit(X, target)
    times.append(time.perf_counter() - begin)
print(f"{times[0] - times[1]:.2f}")
"""


def compilation() -> None:
    print("\nseconds numba adds to the first fit of a process (limit 5, then from its cache)")
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "NUMBA_CACHE_DIR": str(Path(folder))}
        for label in ("first call", "from the cache"):
            out = subprocess.run(
                [sys.executable, "-c", COMPILE], capture_output=True, text=True, env=env
            )
            print(f"{label}: {out.stdout.strip() or out.stderr}", flush=True)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=["ratios", "loops", "kernel", "memory", "compile"])
    args = parser.parse_args()
    n = size_of(args)
    parts = {
        "ratios": lambda: [ratios(n, d) for d in (10, 50)],
        "loops": lambda: loops(n),
        "kernel": lambda: select_and_clip(n),
        "memory": lambda: memory(n),
        "compile": compilation,
    }
    for name, part in parts.items():
        if args.only in (None, name):
            part()


if __name__ == "__main__":
    main()
