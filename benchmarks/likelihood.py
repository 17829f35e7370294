"""The likelihood beside one fully observed glum fit, in one run and on one thread.

    python benchmarks/likelihood.py               n = 1,000,000 (a few minutes)
    python benchmarks/likelihood.py --quick       n = 100,000

Prints the time of a fit to published histograms, standard errors and diagnostics included, as a
multiple of one glum fit to the individual targets on the same X, and its peak memory.
"""

from __future__ import annotations

import argparse
import platform
import warnings

import numpy as np

import unbin
from timing import N_TRIALS, best_of, glum_seconds, peak_memory, people  # it keeps to one thread

LIMIT = 10
SETTINGS = ((250, 10), (250, 5), (5_000, 10), (50_000, 5))  # blocks, bins

warnings.simplefilter("ignore")


def ratios(n: int, d: int) -> None:
    print(f"\nlikelihood / one fully observed glum fit, n = {n:,}, d = {d} (limit {LIMIT} at 250)")
    print(f"{'family':>9} {'blocks':>7} {'bins':>4} {'glum s':>7} {'fit s':>7} {'ratio':>6} passes")
    for n_blocks, bins in SETTINGS:
        for family in ("gaussian", "poisson", "binomial"):
            sim = people(family, n, d, n_blocks)
            peer_seconds = glum_seconds(sim, family)
            target = unbin.aggregate(sim.y, sim.blocks, bins).align(sim.blocks)
            model = unbin.AggregatedGLM(family, n_trials=N_TRIALS)
            seconds, _ = best_of(lambda: model.fit(sim.X, target))  # noqa: B023
            print(
                f"{family:>9} {n_blocks:>7,} {bins:>4} {peer_seconds:>7.3f} {seconds:>7.3f}"
                f" {seconds / peer_seconds:>6.1f} {model.n_iter_:>6}  {model.status_.name}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n = 100,000")
    args = parser.parse_args()
    n = 100_000 if args.quick else 1_000_000
    print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")
    ratios(n, 10)
    print("\npeak memory of a gaussian fit, 250 blocks, 10 bins, as a multiple of X (limit 3)")
    for d in (10, 50):
        print(f"d = {d}: {peak_memory('likelihood', n, d, 10)}", flush=True)


if __name__ == "__main__":
    main()
