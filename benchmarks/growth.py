"""How the time of a fit grows with people, features, blocks and bins; and what one pass costs.

    python benchmarks/growth.py                    all of it (some minutes)
    python benchmarks/growth.py --part n d         some of it: n, d, blocks, bins, dask, bandwidth

Gaussian targets. Each line is the best of three fits, and the exponent that of a straight line
through the logarithms. Both methods have one thread, but for the Dask workers.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import unbin
from timing import best_of, people  # it keeps to one thread
from unbin.datasets import Simulation
from unbin.families import get_family
from unbin.likelihood.data.problem import make_problem
from unbin.likelihood.model.score import score_sums
from unbin.likelihood.solve.start import starting_point
from unbin.matching.fit import matching_bounds
from unbin.matching.objective import Objective
from unbin.rows.design import lay_out

METHODS = ("likelihood", "matching")


def seconds(sim: Simulation, method: str, bins: int | str, repeats: int = 3) -> tuple[float, int]:
    """Return the time of a fit and its passes over the rows."""
    if bins == "full":
        release = unbin.Release.from_values({"block": sim.blocks, "value": sim.y})
    else:
        release = unbin.aggregate(sim.y, sim.blocks, bins)
    target = release.align(sim.blocks)
    model = unbin.AggregatedGLM(method=method, n_jobs=1, random_state=0)
    took, _ = best_of(lambda: model.fit(sim.X, target), repeats)
    return took, int(model.n_iter_)


def sweep(name: str, cases: list[tuple[int, Simulation, int | str]]) -> None:
    print(f"\ngrowth with {name}")
    print(f"{name:>10}" + "".join(f" {m + ' s':>13} {'iterations':>10}" for m in METHODS))
    found: dict[str, list[float]] = {method: [] for method in METHODS}
    for value, sim, bins in cases:
        line = f"{value if value else 'full':>10}"
        for method in METHODS:
            took, steps = seconds(sim, method, bins, 1 if len(sim.y) > 2_000_000 else 3)
            found[method].append(took)
            line += f" {took:>13.3f} {steps:>10}"
        print(line, flush=True)
    values = np.array([value for value, *_ in cases], dtype=float)
    if (values > 0).sum() > 1:
        at = np.log(values[values > 0])
        for method in METHODS:
            slope = np.polyfit(at, np.log(np.array(found[method])[values > 0]), 1)[0]
            print(f"{method}: exponent {slope:.2f}")


def growth_n() -> None:
    sizes = (100_000, 1_000_000, 10_000_000)
    sweep("people", [(n, people("gaussian", n, 10, 250), 10) for n in sizes])


def growth_d() -> None:
    sweep("features", [(d, people("gaussian", 200_000, d, 1000), 10) for d in (10, 50, 200)])


def growth_blocks() -> None:
    blocks = (1, 250, 50_000)
    sweep("blocks", [(b, people("gaussian", 1_000_000, 10, b), 10) for b in blocks])


def growth_bins() -> None:
    sim = people("gaussian", 1_000_000, 10, 250)
    sweep("bins", [(2, sim, 2), (10, sim, 10), (25, sim, 25), (0, sim, "full")])


def bandwidth() -> None:
    """Print what share of the memory's speed one pass over the rows reaches."""
    n, d = 4_000_000, 20
    sim = people("gaussian", n, d, 1000)
    target = unbin.aggregate(sim.y, sim.blocks, 10).align(sim.blocks)
    design = lay_out(sim.X, target.codes, len(target.release))
    flat = np.ones(n * d)
    limit = flat.nbytes / best_of(lambda: flat @ flat)[0]
    theta = np.linspace(-0.1, 0.1, d + 1)
    rows = design.in_memory()
    objective = Objective(
        design, get_family("gaussian"), design.ridge(0.0),
        matching_bounds(target.release, get_family("gaussian")),
    )  # fmt: skip
    problem = make_problem(design, target.release, get_family("gaussian"))
    free = starting_point(problem)
    passes = {
        "X v": (1, lambda: [rows.eta(theta, tile) for tile in rows.tiles()]),
        "matching: objective and gradient": (2, lambda: objective.evaluate(theta)),
        "likelihood: score and information": (2, lambda: score_sums(problem, free, 0 * free)),
    }
    print(f"\none pass, n = {n:,}, d = {d}; reading memory: {limit / 1e9:.1f} GB/s on one thread")
    for name, (reads, run) in passes.items():
        took = best_of(run)[0]
        share = reads * 8 * n * d / took / limit
        print(f"{name:>34}: {1e3 * took:7.1f} ms, X read {reads} times, {share:.0%} of that speed")


def dask_workers() -> None:
    """Print the time of a fit on one and on two Dask workers."""
    import distributed
    import pyarrow as pa
    import pyarrow.parquet as pq

    sim = people("gaussian", 2_000_000, 20, 1000)
    names = [f"x{j}" for j in range(20)]
    county = np.asarray(sim.blocks).astype(str)
    release = unbin.aggregate(sim.y, county, 10)
    print("\nDask, n = 2,000,000, d = 20, 1,000 blocks, 10 bins, parts kept on the workers")
    with tempfile.TemporaryDirectory() as folder:
        for k, rows in enumerate(
            np.array_split(np.random.default_rng(0).permutation(len(county)), 20)
        ):
            columns = {name: sim.X[rows, j] for j, name in enumerate(names)}
            table = pa.table(columns | {"county": county[rows]})
            pq.write_table(
                table,
                Path(folder) / f"{k:02d}.parquet",
                row_group_size=100_000,
                write_page_checksum=True,
            )
        for method in METHODS:
            took = {}
            for workers in (1, 2):
                with (
                    distributed.LocalCluster(
                        n_workers=workers, threads_per_worker=1, dashboard_address=None
                    ) as cluster,
                    distributed.Client(cluster) as client,
                ):
                    model = unbin.AggregatedGLM(
                        method=method, engine="dask", client=client, random_state=0
                    )
                    call = {"block": "county", "features": names}
                    model.fit(folder, release, **call)  # workers load and compile
                    began = time.perf_counter()
                    model.fit(folder, release, **call)
                    took[workers] = time.perf_counter() - began
            print(f"{method:>10}: " + json.dumps({k: round(v, 2) for k, v in took.items()})
                  + f" s, {took[1] / took[2]:.2f} times faster with two", flush=True)  # fmt: skip


PARTS = {
    "n": growth_n,
    "d": growth_d,
    "blocks": growth_blocks,
    "bins": growth_bins,
    "bandwidth": bandwidth,
    "dask": dask_workers,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", nargs="*", choices=tuple(PARTS), default=list(PARTS))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")
    for part in args.part:
        PARTS[part]()


if __name__ == "__main__":
    main()
