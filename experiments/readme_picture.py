"""The picture of the README, ``docs/_static/tables.svg``: what is published, what it tells.

Run ``python experiments/readme_picture.py`` to draw it again.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import unbin

OUTPUT = Path(__file__).parents[1] / "docs" / "_static" / "tables.svg"
SLOPES = {"age": 0.5, "sex[T.m]": -0.5, "income": 0.3}


def simulate(rng):
    """Return 9,000 people of 150 counties, and their outcome."""
    place = np.repeat(np.arange(150), 60)
    shift = rng.normal(size=(150, 2))[place]
    people = pd.DataFrame({"county": [f"{c + 1:03d}" for c in place]})
    people["age"] = rng.normal(size=len(place)) + 0.3 * shift[:, 0]
    people["sex"] = rng.choice(["f", "m"], len(place))
    people["income"] = rng.normal(size=len(place)) + 0.5 * shift[:, 1]
    people["age_group"] = pd.cut(people["age"], [-9, -0.5, 0.5, 9], labels=list("abc")).astype(str)
    eta = 0.5 * people["age"] - 0.5 * (people["sex"] == "m") + 0.3 * people["income"]
    return people, eta + rng.normal(size=len(place))


def main():
    """Fit one table and two, and draw."""
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "unbin"  # the same file each time
    from matplotlib.figure import Figure

    people, outcome = simulate(np.random.default_rng(0))
    edges = [-np.inf, -2, -1, 0, 1, 2, np.inf]
    county = unbin.aggregate(outcome, people["county"], bins=edges)
    cells = unbin.aggregate(outcome, people[["age_group", "sex"]], bins=6)
    formula = "age + sex + income"
    one = unbin.glm(formula, people, {"county": county}, family="gaussian")
    tables = {"county": county, ("age_group", "sex"): cells}
    two = unbin.glm(formula, people, tables, family="gaussian")

    figure = Figure(figsize=(11, 2.8), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    unbin.plots.histogram(one, "001", ax=left)
    for ax, model in ((middle, one), (right, two)):
        unbin.plots.coefficients(model, oracle=list(SLOPES.values()), ax=ax)
        ax.set_xlim(-1, 0.8)
        ax.get_legend().remove()  # one for both
    left.set_title("One of 150 published histograms", fontsize=10)
    middle.set_title("Estimates from the table by county", fontsize=10)
    right.set_title("With a table by age and sex", fontsize=10)
    left.tick_params(labelsize=10)
    for label in (left.xaxis.label, left.yaxis.label):
        label.set_size(10)
    shown = dict(zip(*reversed(left.get_legend_handles_labels()), strict=True))
    shown |= dict(zip(["estimate", "truth"], right.get_legend_handles_labels()[0], strict=True))
    names = ["published", "fitted", "estimate", "truth"]
    handles = [shown[name] for name in names]
    figure.legend(handles, names, loc="outside right upper", frameon=False)
    figure.savefig(OUTPUT, metadata={"Date": None})


if __name__ == "__main__":
    main()
