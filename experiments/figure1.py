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

from itertools import product

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import common
import unbin
from unbin import plots
from unbin.datasets import simulate
from unbin.permutation import NAMES

FAMILIES = {  # intercept, trials
    "gaussian": (0.0, 1),
    "poisson": (3.0, 1),
    "binomial": (0.0, 50),
}
CASES = ((2, True), (5, True), (25, True), (5, False))  # bins, whether there is a relationship
SLOPES = np.array([0.5, -0.4, 0.3])
KINDS = ("paper", "error")
TITLES = {
    "paper": "Imputed targets against the model's own means, read literally",
    "error": "Recovered means against the true targets, and against permuted ones",
}


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
    rows, shown = [], []
    for kind, blocks in product(KINDS, (False, True)):
        for family, (bins, related) in product(FAMILIES, CASES):
            found = test(family, bins, related, blocks=blocks, kind=kind, n=n, runs=runs)
            panel = {
                "reading": kind,
                "family": family,
                "blocks": n // 20 if blocks else 1,
                "relationship": "yes" if related else "no",
                "bins": bins,
            }
            rows.append(
                panel
                | {
                    "permutations": runs,
                    "seen": found.statistic,
                    "null_low": float(np.quantile(found.null, 0.05)),
                    "null_median": float(np.median(found.null)),
                    "p_value": found.p_value,
                }
            )
            counts, edges = np.histogram(found.null, int(np.clip(np.sqrt(runs), 5, 40)))
            ends = {"lower": f"{edges[0]:.6g}", "upper": f"{edges[-1]:.6g}"}
            shown.append(panel | ends | {"counts": " ".join(map(str, counts))})
    return rows, shown


def draw(rows: list[dict], shown: list[dict]) -> dict[str, Figure]:
    """Draw a figure for each reading and kind of table, a panel for each row."""
    figures = {}
    for kind, one in product(KINDS, (True, False)):
        chosen = [
            pair
            for pair in zip(rows, shown, strict=True)
            if pair[0]["reading"] == kind and (pair[0]["blocks"] == 1) == one
        ]
        figure = Figure(figsize=(14, 8), layout="constrained")
        for ax, pair in zip(figure.subplots(3, 4).ravel(), chosen, strict=True):
            _draw(ax, *pair)
        blocks = chosen[0][0]["blocks"]
        where = "once for everybody" if one else f"for each of {blocks} blocks"
        figure.suptitle(f"{TITLES[kind]}; the table is published {where}")
        figure.supxlabel(NAMES[kind])
        figure.supylabel("permutations")
        common.legend_beside(figure)
        figures[f"figure1_{kind}_{'one_block' if one else 'blocks'}"] = figure
    return figures


def _draw(ax, row: dict, panel: dict) -> None:
    counts = np.array(panel["counts"].split(), dtype=int)
    edges = np.linspace(float(panel["lower"]), float(panel["upper"]), len(counts) + 1)
    # edges of bars have a width of their own: a narrow histogram can be seen far from the line
    colours = {"color": plots.PALE, "edgecolor": plots.PALE, "linewidth": 0.8}
    label = f"{row['permutations']} permutations"
    ax.bar(edges[:-1], counts, np.diff(edges), align="edge", label=label, **colours)
    ax.axvline(row["seen"], color=plots.ORANGE, linewidth=2, label="seen")
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.spines[["top", "right"]].set_visible(False)
    what = f"{row['bins']} bins"
    if row["relationship"] == "no":
        what = f"unrelated, {what}"
    ax.set_title(f"{row['family']}, {what}: p = {row['p_value']:.3g}", fontsize=10)


if __name__ == "__main__":
    common.draw_and_store("figure1", __doc__, run, draw, 500)
