"""Many small blocks, and many bins: what a fit takes, and what its factors alone take.

    python benchmarks/many.py              100,000 blocks; 200 and 1,000 bins
    python benchmarks/many.py --whole      1,000,000 blocks too (some GB, a minute)

Gaussian targets, five features, the likelihood on one thread. Seconds are the processor's. With B
blocks and K bins every pass factors B covariances of K × K, and so do the specification tests:
LAPACK alone, on as many matrices of that size, is what a fit cannot go below.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import unbin
from timing import people  # it keeps to one thread
from unbin.datasets import Simulation

FEATURES = 5
SHAPES = ((100_000, 4, 10), (100, 1_000, 200), (100, 1_000, 1_000))
"""Blocks, people of each, and bins."""


def seconds(sim: Simulation, n_bins: int) -> tuple[float, int]:
    """Return the processor time of a fit and its passes."""
    target = unbin.aggregate(sim.y, sim.blocks, n_bins).align(sim.blocks)
    model = unbin.AggregatedGLM("gaussian", n_jobs=1, random_state=0)
    began = time.process_time()
    model.fit(sim.X, target)
    return time.process_time() - began, int(model.n_iter_)


def factors(n_blocks: int, n_bins: int, passes: int) -> float:
    """Return the processor time of the factors of all blocks in all passes, and of the tests."""
    few = min(n_blocks, max(10_000_000 // n_bins**2, 1))
    covariances = np.broadcast_to(np.eye(n_bins) * n_bins + 1.0, (few, n_bins, n_bins)).copy()
    np.linalg.cholesky(covariances)
    began = time.process_time()
    np.linalg.cholesky(covariances)
    return (passes + 1) * (time.process_time() - began) * n_blocks / few


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--whole", action="store_true", help="1,000,000 blocks too")
    args = parser.parse_args()
    shapes = [*SHAPES, (1_000_000, 4, 10)] if args.whole else SHAPES
    for n_blocks, size, n_bins in ((5_000, 4, 10), (20, 1_000, 100)):  # everything is compiled
        seconds(people("gaussian", n_blocks * size, FEATURES, n_blocks), n_bins)
    print(f"{'blocks':>9} {'people':>6} {'bins':>5} {'fit s':>6} {'passes':>6} {'LAPACK s':>8}")
    for n_blocks, size, n_bins in shapes:
        sim = people("gaussian", n_blocks * size, FEATURES, n_blocks)
        took, passes = seconds(sim, n_bins)
        bound = factors(n_blocks, n_bins, passes)
        line = f"{n_blocks:>9,} {size:>6,} {n_bins:>5,} {took:>6.1f} {passes:>6} {bound:>8.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
