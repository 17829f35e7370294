"""Workers killed during fits on a Dask cluster: the coefficients must not change.

    python benchmarks/faults.py                 at least 50 kills (some minutes)
    python benchmarks/faults.py --kills 10

Every fit of the matrix (two methods, two families; parts kept on the workers or made again at each
pass) is made once in peace and then again and again while a thread kills one of two workers, chosen
at random, every second or so; the nanny starts another one each time.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import unbin
from unbin._watching import watching
from unbin.datasets import simulate
from unbin.rows.engines import dask as engine

PAUSE = 1.0
STEP = 0.3
"""Seconds that every step of a solver is held up, so that kills come in the middle of fits."""


def write_people(folder: Path, family: str) -> tuple[unbin.Release, list[str]]:
    sim = simulate(100_000, 4, 200, family=family, between=0.3, random_state=0)
    order = np.random.default_rng(0).permutation(len(sim.y))
    names = [f"x{j}" for j in range(4)]
    county = np.asarray(sim.blocks).astype(str)
    for k, rows in enumerate(np.array_split(order, 20)):
        columns = {name: sim.X[rows, j] for j, name in enumerate(names)}
        pq.write_table(
            pa.table(columns | {"county": county[rows]}),
            folder / f"{k:02d}.parquet",
            write_page_checksum=True,
        )
    return unbin.aggregate(sim.y, county, 6), names


class Killer(threading.Thread):
    """Kills a worker every second or so, until told to stop."""

    def __init__(self, client: object, rng: np.random.Generator) -> None:
        super().__init__(daemon=True)
        self.client, self.rng, self.kills = client, rng, 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(PAUSE * self.rng.uniform(0.5, 1.5)):
            try:
                workers = self.client.run(os.getpid, on_error="ignore")
                if len(workers) == 2:  # spaced: the one killed before is back
                    os.kill(int(self.rng.choice(sorted(workers.values()))), signal.SIGKILL)
                    self.kills += 1
            except (OSError, ValueError, TimeoutError):
                continue  # gone in the meantime


def fit(
    model: unbin.AggregatedGLM, folder: Path, release: unbin.Release, names: list[str]
) -> np.ndarray:
    with watching(lambda _: bool(time.sleep(STEP))):
        model.fit(folder, release, block="county", features=names)
    return np.append(model.coef_, model.intercept_)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    rng = np.random.default_rng(0)
    cases = [
        (family, method, share)
        for family in ("gaussian", "poisson")
        for method in ("likelihood", "matching")
        for share in (0.4, 0.0)
    ]
    print(
        f"{'family':>8} {'method':>10} {'parts':>10} {'fits':>4} {'kills':>5}  largest difference"
    )
    total, worst = 0, 0.0
    for family, method, share in cases:
        engine._SHARE = share
        with tempfile.TemporaryDirectory() as temporary, engine.open_client(None) as client:
            folder = Path(temporary)
            release, names = write_people(folder, family)

            settings = {"family": family, "method": method, "random_state": 0, "tol": 1e-6}
            model = unbin.AggregatedGLM(**settings, engine="dask", client=client)
            alone, kills, fits, apart = fit(model, folder, release, names), 0, 0, 0.0
            while kills < args.kills / len(cases):
                killer = Killer(client, rng)
                killer.start()
                found = fit(model, folder, release, names)
                killer.done.set()
                killer.join()
                kills, fits = kills + killer.kills, fits + 1
                apart = max(apart, float(np.abs(found / alone - 1).max()))
            kept = "kept" if share else "made again"
            print(
                f"{family:>8} {method:>10} {kept:>10} {fits:>4} {kills:>5}  {apart:.1e}", flush=True
            )
            total, worst = total + kills, max(worst, apart)
    print(f"{total} kills, largest relative difference {worst:.1e}")


if __name__ == "__main__":
    main()
