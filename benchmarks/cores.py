"""Both methods beside glum, all on every core there is.

    python benchmarks/cores.py

The other benchmarks keep everybody to one thread.
"""

from __future__ import annotations

import time
import warnings

from glum import GeneralizedLinearRegressor

import unbin
from unbin._checks import available_threads
from unbin.datasets import simulate


def best(run, repeats: int = 5) -> float:
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def main() -> None:
    warnings.simplefilter("ignore")
    print(f"n = 1,000,000, 250 blocks, 10 bins, {available_threads()} threads each; times glum")
    print(f"{'family':>9} {'d':>3} {'glum s':>7} {'likelihood':>10} {'matching':>8}")
    for family, peer in (("gaussian", "normal"), ("poisson", "poisson")):
        for d in (10, 50):
            sim = simulate(1_000_000, d, 250, family=family, between=0.1, noise=0.5, random_state=0)
            target = unbin.aggregate(sim.y, sim.blocks, 10).align(sim.blocks)
            glum = GeneralizedLinearRegressor(family=peer, alpha=0)
            there = best(lambda: glum.fit(sim.X, sim.y))  # noqa: B023
            line = f"{family:>9} {d:>3} {there:>7.3f}"
            for method, width in (("likelihood", 10), ("matching", 8)):
                model = unbin.AggregatedGLM(family, method, random_state=0)
                here = best(lambda: model.fit(sim.X, target))  # noqa: B023
                line += f" {here / there:>{width}.2f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
