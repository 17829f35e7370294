"""Figure 6 of the paper: the recovered histogram against the true one.

    UNBIN_DATA=folder python experiments/figure6.py

Log carrier reimbursement (MEDREIMB_CAR) of Californians, and log charges of New York inpatients.
Published in 10 bins, once for everybody (matching, as in the paper) or by county (matching, and
ordinal likelihood), and compared on 20 bins of equal width that nobody published. What is
recovered: the imputed targets, which have the published counts by construction; the means of the
model; and, for likelihood, targets drawn from what the model leaves open. "misplaced" is the share
of people in the wrong bin (half the sum of absolute differences). "error_over_pooled_mean" looks
at people instead: the squared error of what is recovered over that of the pooled mean.

The claim: the recovered histogram looks like the true one.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

import common
import real
import sparcs
import unbin
from figure4 import CALIFORNIA
from unbin import plots
from unbin.datasets import load_synpuf
from unbin.datasets.synpuf import states

PUBLISHED = 10
COMPARED = 20
CASES = (  # family, method, whether a table per block
    ("gaussian", "matching", False),
    ("gaussian", "matching", True),
    ("ordinal", "likelihood", True),
)


def misplaced(z: np.ndarray, y: np.ndarray, edges: np.ndarray) -> float:
    """Return the share of people whose bin is not the true one, at best."""
    there, here = (np.histogram(np.clip(v, edges[0], edges[-1]), edges)[0] for v in (z, y))
    return float(np.abs(there - here).sum() / 2 / len(y))


def equal_width(y: np.ndarray) -> np.ndarray:
    """Return edges of equal width over all but the outermost 0.5 % of y, with open ends."""
    inner = np.linspace(*np.quantile(y, [0.005, 0.995]), COMPARED - 1)
    return np.concatenate([[-np.inf], inner, [np.inf]])


def recover(X, y, places, family: str, method: str) -> dict[str, np.ndarray]:
    """Return what the model recovers, by name."""
    target = unbin.aggregate(y, places, PUBLISHED).align(places)
    model = common.fit_quietly(X, target, family, method=method, random_state=0)
    found = {"imputed": model.impute(), "means": model.predict(X)}
    if method == "likelihood":
        found["drawn"] = model.impute("draw", random_state=0)
    return found


def data(folder: str, quick: bool):
    """Yield name, features, targets and blocks."""
    people = load_synpuf(folder)
    people = people.take((states(people) == CALIFORNIA) & (people.target("MEDREIMB_CAR") > 0))
    step = 8 if quick else 1
    y = np.log(people.target("MEDREIMB_CAR"))
    yield "synpuf", people.X[::step], y[::step], people.blocks[::step]
    X, y, county = sparcs.load(folder)
    yield "sparcs", X[::step], y[::step], county[::step]


def run(runs: int, quick: bool) -> common.Result:  # noqa: ARG001
    folder = common.data_folder()
    if folder is None:
        raise SystemExit(0)
    rows, figures = [], {}
    for name, X, y, blocks in data(folder, quick):
        edges = equal_width(y)
        panels = []
        for family, method, per_block in CASES:
            places = blocks if per_block else np.full(len(y), real.EVERYBODY)
            for what, z in recover(X, y, places, family, method).items():
                row = {"data": name, "people": len(y), "blocks": len(np.unique(places))}
                row |= {"family": family, "method": method, "recovered": what}
                finite = np.concatenate([[-1e300], edges[1:-1], [1e300]])
                row |= {"misplaced": misplaced(z, y, finite)}
                row |= {"error_over_pooled_mean": float(np.mean((z - y) ** 2) / np.var(y))}
                rows.append(row)
                panels.append((row, z))
        figures[f"figure6_{name}"] = _draw(panels, y, edges)
    return rows, figures


def _draw(panels, y, edges) -> Figure:
    figure = Figure(figsize=(13, 2.9 * -(-len(panels) // 2)), layout="constrained")
    axes = figure.subplots(-(-len(panels) // 2), 2).ravel()
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    for ax, (row, z) in zip(axes, panels, strict=False):
        plots.recovered(z, y, edges, ax=ax)
        word = "block" if row["blocks"] == 1 else "blocks"
        ax.set_title(
            f"{row['family']} {row['method']}, {row['blocks']} {word}: {row['recovered']}",
            fontsize=10,
            pad=24,
        )
    return figure


if __name__ == "__main__":
    common.draw_and_store("figure6", __doc__, run, 1)
