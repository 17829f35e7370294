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

TITLES = {
    "synpuf": "Carrier reimbursement of Californians",
    "sparcs": "Charges of New York inpatients",
}
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
    rows, shown = [], []
    for name, X, y, blocks in data(folder, quick):
        edges = equal_width(y)
        for family, method, per_block in CASES:
            places = blocks if per_block else np.full(len(y), real.EVERYBODY)
            for what, z in recover(X, y, places, family, method).items():
                panel = {"data": name, "blocks": len(np.unique(places)), "family": family}
                panel |= {"method": method, "recovered": what}
                row = {"data": name, "people": len(y)} | panel
                finite = np.concatenate([[-1e300], edges[1:-1], [1e300]])
                row |= {"misplaced": misplaced(z, y, finite)}
                row |= {"error_over_pooled_mean": float(np.mean((z - y) ** 2) / np.var(y))}
                rows.append(row)
                counts = {"true": _count(y, edges), "found": _count(z, edges)}
                counts = {key: " ".join(map(str, count)) for key, count in counts.items()}
                ends = {"edges": " ".join(f"{edge:.4g}" for edge in edges[1:-1])}
                shown.append(panel | ends | counts)
    return rows, shown


def _count(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Count values in bins that hold their upper edge."""
    place = np.searchsorted(edges[1:-1], values, side="left")
    return np.bincount(place, minlength=len(edges) - 1)


def draw(rows: list[dict], shown: list[dict]) -> dict[str, Figure]:
    """Draw a figure for each data set, a panel for each way of recovering."""
    figures = {}
    for name in dict.fromkeys(row["data"] for row in rows):
        chosen = [pair for pair in zip(rows, shown, strict=True) if pair[0]["data"] == name]
        height = -(-len(chosen) // 2)
        figure = Figure(figsize=(13, 2.5 * height + 0.6), layout="constrained")
        panels = figure.subplots(height, 2, sharey=True).ravel()
        for ax in panels[len(chosen) :]:
            ax.set_axis_off()
        for ax, pair in zip(panels, chosen, strict=False):
            _draw(ax, *pair)
        figure.suptitle(f"{TITLES[name]}: people in {COMPARED} bins that nobody published")
        figure.supxlabel("log amount")
        figure.supylabel("people")
        common.legend_beside(figure)
        figures[f"figure6_{name}"] = figure
    return figures


def _draw(ax, row: dict, panel: dict) -> None:
    inner = np.array(panel["edges"].split(), dtype=float)
    place = np.arange(len(inner) + 1)
    for name, key, shift, colour in (
        ("true", "true", -0.2, plots.PALE),
        ("recovered", "found", 0.2, plots.BLUE),
    ):
        counts = np.array(panel[key].split(), dtype=int)
        ax.bar(place + shift, counts, 0.4, color=colour, label=name)
    ax.set_xlim(-0.6, len(inner) + 0.6)
    some = slice(0, None, 3)
    ax.set_xticks(place[1:][some] - 0.5, [f"{edge:.2f}" for edge in inner[some]])
    ax.spines[["top", "right"]].set_visible(False)
    table = "one block" if row["blocks"] == 1 else f"{row['blocks']} blocks"
    ax.set_title(
        f"{row['family']} {row['method']}, {table}, {row['recovered']}: "
        f"{100 * row['misplaced']:.0f} % in a wrong bin",
        fontsize=10,
    )


if __name__ == "__main__":
    common.draw_and_store("figure6", __doc__, run, draw, 1)
