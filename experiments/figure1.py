"""Figure 1 of the paper: permutation tests for 2, 5 and 25 bins, and for no relationship.

    python experiments/figure1.py

1,000 people, three normal features, matching as in the paper; Gaussian (noise 0.5), Poisson (around
20) and Binomial (50 trials) targets. The table is published once for everybody, as in the paper, or
for each of 50 blocks. Two readings of the figure:

- "paper": the distance between the model's own imputed targets and its means, against the errors
  of GLMs fitted to permuted individual targets;
- "error": the error of the recovered means against the true targets, and against the targets
  permuted within blocks.

The claims: the test rejects where there is a relationship and does not where there is none; the
finer the histogram, the lower the error. `--runs` is the number of permutations.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

import common
import unbin
from unbin import plots
from unbin.datasets import simulate

FAMILIES = {  # intercept, trials
    "gaussian": (0.0, 1),
    "poisson": (3.0, 1),
    "binomial": (0.0, 50),
}
CASES = ((2, True), (5, True), (25, True), (5, False))  # bins, whether there is a relationship
SLOPES = np.array([0.5, -0.4, 0.3])
KINDS = ("paper", "error")


def people(family: str, n: int, *, related: bool, seed: int = 0):
    """Return simulated people; without a relationship their targets are dealt out anew."""
    intercept, n_trials = FAMILIES[family]
    sim = simulate(
        n, 3, n // 20, family=family, noise=0.5, between=0.1, coef=SLOPES, intercept=intercept,
        n_trials=n_trials, random_state=seed,
    )  # fmt: skip
    y = sim.y if related else np.random.default_rng(seed + 1).permutation(sim.y)
    return sim.X, y, sim.blocks


def test(family: str, bins: int, related: bool, *, blocks: bool, kind: str, n: int, runs: int):
    """Return the permutation test of one panel."""
    X, y, places = people(family, n, related=related)
    places = places if blocks else np.full(n, "everybody")
    model = unbin.AggregatedGLM(
        family, method="matching", n_trials=FAMILIES[family][1], random_state=0
    )
    target = unbin.aggregate(y, places, bins).align(places)
    return unbin.permutation_test(model, X, target, runs, y=y, kind=kind, random_state=0)


def run(runs: int, quick: bool) -> common.Result:
    n = 200 if quick else 1000
    rows, figures = [], {}
    for kind in KINDS:
        for blocks in (False, True):
            figure = Figure(figsize=(13, 8), layout="constrained")
            panels = figure.subplots(3, 4)
            for i, family in enumerate(FAMILIES):
                for j, (bins, related) in enumerate(CASES):
                    found = test(family, bins, related, blocks=blocks, kind=kind, n=n, runs=runs)
                    ax = plots.permutation(found, ax=panels[i, j])
                    what = f"{bins} bins" if related else f"no relationship, {bins} bins"
                    ax.set_title(f"{family}, {what}", pad=30, fontsize=10)
                    rows.append(
                        {
                            "reading": kind,
                            "family": family,
                            "blocks": n // 20 if blocks else 1,
                            "relationship": "yes" if related else "no",
                            "bins": bins,
                            "permutations": runs,
                            "seen": found.statistic,
                            "null_low": float(np.quantile(found.null, 0.05)),
                            "null_median": float(np.median(found.null)),
                            "p_value": found.p_value,
                        }
                    )
            figures[f"figure1_{kind}_{'blocks' if blocks else 'one_block'}"] = figure
    return rows, figures


if __name__ == "__main__":
    common.draw_and_store("figure1", __doc__, run, 500)
