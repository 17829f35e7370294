"""What more cores are worth, and both methods beside glum on one thread and on all.

    python benchmarks/cores.py              n = 4,000,000 and n = 1,000,000 (a few minutes)
    python benchmarks/cores.py --quick      a tenth of the people

Prints seconds of a fit with 1, 2, 4, ... threads and how many times as fast that is as with one;
then the time of a fit as a multiple of one fully observed glum fit on the same X, both on one
thread and both on every core there is. The other benchmarks keep everybody to one thread.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

import unbin
from unbin._checks import available_threads
from unbin.datasets import simulate

FITS = (("likelihood", "gaussian"), ("likelihood", "ordinal"), ("matching", "gaussian"))
GLUM = {"gaussian": "normal", "poisson": "poisson", "binomial": "binomial"}
N_TRIALS = 20


def best(run, repeats: int = 3) -> float:
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def people(family: str, n: int, d: int, n_blocks: int):
    """Return simulated people, and what was published about them."""
    sim = simulate(
        n, d, n_blocks, family=family, between=0.1, noise=0.5, n_trials=N_TRIALS, random_state=0
    )
    return sim, unbin.aggregate(sim.y, sim.blocks, 10).align(sim.blocks)


def numbers_of_threads() -> list[int]:
    most = available_threads()
    return sorted({2**k for k in range(most.bit_length())} | {most})


def scaling(n: int, d: int, n_blocks: int) -> None:
    threads = numbers_of_threads()
    print(f"\nseconds by threads, n = {n:,}, d = {d}, {n_blocks:,} blocks, 10 bins")
    print(f"{'':>20} " + " ".join(f"{k:>7}" for k in threads) + "   times as fast as one thread")
    sim, target = people("gaussian", n, d, n_blocks)
    for method, family in FITS:
        seconds = []
        for k in threads:
            model = unbin.AggregatedGLM(family, method, n_jobs=k, random_state=0)
            seconds.append(best(lambda: model.fit(sim.X, target)))  # noqa: B023
        faster = ", ".join(f"{seconds[0] / s:.1f}" for s in seconds)
        figures = " ".join(f"{s:>7.2f}" for s in seconds)
        print(f"{method + ' ' + family:>20} {figures}   {faster}", flush=True)


def beside_glum(n: int) -> None:
    from glum import GeneralizedLinearRegressor

    print(f"\nn = {n:,}, 250 blocks, 10 bins: seconds of glum, and fits as multiples of it")
    print(f"{'family':>9} {'d':>3} {'threads':>7} {'glum s':>7} {'likelihood':>10} {'matching':>8}")
    for family, peer in GLUM.items():
        for d in (10, 50):
            sim, target = people(family, n, d, 250)
            y = sim.y / (N_TRIALS if family == "binomial" else 1)
            glum = GeneralizedLinearRegressor(family=peer, alpha=0)
            for threads in sorted({1, available_threads()}):
                with threadpool_limits(limits=threads):
                    there = best(lambda: glum.fit(sim.X, y))  # noqa: B023
                line = f"{family:>9} {d:>3} {threads:>7} {there:>7.3f}"
                for method, width in (("likelihood", 10), ("matching", 8)):
                    model = unbin.AggregatedGLM(
                        family, method, n_trials=N_TRIALS, n_jobs=threads, random_state=0
                    )
                    here = best(lambda: model.fit(sim.X, target))  # noqa: B023
                    line += f" {here / there:>{width}.2f}"
                print(line, flush=True)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the people")
    parser.add_argument("--only", choices=["scaling", "glum"])
    args = parser.parse_args()
    share = 10 if args.quick else 1
    print(f"{platform.machine()}, {available_threads()} cores, numpy {np.__version__}")
    if args.only != "glum":
        scaling(4_000_000 // share, 20, 1_000)
    if args.only != "scaling":
        beside_glum(1_000_000 // share)


if __name__ == "__main__":
    main()
