"""Size and power of the permutation tests.

    python experiments/permutation.py

Claim: under the null hypothesis of no association each test rejects in 3 to 7 % of the data sets at
the 5 % level, and it finds a relationship that is there. The literal reading of the paper's figure
always rejects and is shown for that. Stores results/permutation.csv.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

import unbin
from unbin.datasets import simulate

RESULTS = Path(__file__).parent / "results" / "permutation.csv"
LEVEL = 0.05
SLOPES = {"gaussian": (0.0, 0.15, 0.35), "poisson": (0.0, 0.15, 0.35)}
KINDS = {  # kind: (method, permutations, data sets)
    "error": ("matching", 199, 1000),
    "block-means": ("likelihood", 199, 1000),
    "refit": ("likelihood", 99, 600),
    "paper": ("matching", 99, 50),
}


def share_rejected(kind: str, family: str, slope: float, n_runs: int) -> float:
    """Return the share of data sets in which the test rejects at the 5 % level."""
    method, n_permutations, _ = KINDS[kind]
    model = unbin.AggregatedGLM(family, method=method, random_state=0)
    rejected = 0
    for seed in range(n_runs):
        sim = simulate(
            2000, 3, 100, family=family, between=0.2, coef=[slope, 0, 0], random_state=seed
        )
        target = unbin.aggregate(sim.y, sim.blocks, 5).align(sim.blocks)
        y = sim.y if kind in ("error", "paper") else None
        found = unbin.permutation_test(
            model, sim.X, target, n_permutations, y=y, kind=kind, random_state=seed
        )
        rejected += found.p_value <= LEVEL
    return rejected / n_runs


def main() -> None:
    """Print and store the share of rejections for every test, family and slope."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, help="data sets per row, instead of 50 to 1000")
    args = parser.parse_args()
    rows = []
    print("2,000 people, 100 blocks, 5 bins; share rejected at 5 %")
    print(f"{'test':>12} {'family':>9} {'slope':>6} {'R²':>5} {'data sets':>9} {'rejected':>8}")
    for kind, (_, _, n_sets) in KINDS.items():
        for family, slopes in SLOPES.items():
            for slope in slopes[:1] if kind == "paper" else slopes:
                n_runs = args.runs or (n_sets if slope == 0 else min(n_sets, 200))
                share = share_rejected(kind, family, slope, n_runs)
                r2 = slope**2 / (1 + slope**2) if family == "gaussian" else float("nan")
                print(
                    f"{kind:>12} {family:>9} {slope:>6} {r2:>5.3f} {n_runs:>9} {share:>8.3f}",
                    flush=True,
                )
                rows.append([kind, family, slope, n_runs, share])
    if args.runs is None:
        with RESULTS.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["test", "family", "slope", "data_sets", "rejected"])
            writer.writerows(rows)


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main()
