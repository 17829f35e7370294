"""Figures 2 and 3 of the paper: training and test error against the number of bins.

    python experiments/figures2_3.py

2,000 people, three normal features, Gaussian, Poisson (around 20) and Binomial (50 trials)
targets, with noise (Gaussian: R² = .67) or without: then a target is its mean, rounded to a whole
number for Poisson and Binomial. The table is published once for everybody, as in the paper, or for
each of 50 blocks; matching is the paper's estimator, likelihood ours. Five folds of people, tables
from the training people. Errors are the paper's: the mean Bregman divergence of the true targets
from the recovered means; the floor is the GLM that sees all individual targets. "over_floor" has
the floor subtracted and is divided by what the floor gains over the pooled mean: 0 is as good as
the floor, 1 as bad as knowing nothing.

The claim: the error falls as the histogram becomes finer, with diminishing returns, in each case.
`--runs` is the number of data sets.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from matplotlib.figure import Figure
from scipy.special import expit
from sklearn.model_selection import KFold

import common
import unbin
from unbin.datasets import simulate

FAMILIES = {  # intercept, trials
    "gaussian": (0.0, 1),
    "poisson": (3.0, 1),
    "binomial": (0.0, 50),
}
SLOPES = np.array([0.5, -0.4, 0.3])
BINS = (2, 3, 5, 10, 25, 50)
METHODS = ("matching", "likelihood")
MEANS = {
    "gaussian": lambda eta: eta,
    "poisson": lambda eta: np.round(np.exp(eta)),
    "binomial": lambda eta: np.round(50 * expit(eta)),
}


def people(family: str, n: int, *, noisy: bool, seed: int):
    """Return features, targets and blocks."""
    intercept, n_trials = FAMILIES[family]
    sim = simulate(
        n, 3, n // 40, family=family, noise=0.5, between=0.1, coef=SLOPES, intercept=intercept,
        n_trials=n_trials, random_state=seed,
    )  # fmt: skip
    y = sim.y if noisy else MEANS[family](sim.X @ SLOPES + intercept)
    return sim.X, y, sim.blocks


def errors_of(model, family, X, y, folds) -> np.ndarray:
    """Return the training and the test error."""
    n_trials = FAMILIES[family][1]
    return np.array(
        [common.divergence(family, y[rows], model.predict(X[rows]), n_trials) for rows in folds]
    )


def data_set(family: str, noisy: bool, n: int, bins: tuple[int, ...], seed: int) -> dict:
    """Return training and test errors of everything tried, on average over five folds."""
    X, y, blocks = people(family, n, noisy=noisy, seed=seed)
    n_trials = FAMILIES[family][1]
    found: dict = {}

    def add(key, errors):
        found.setdefault(key, []).append(errors)

    for folds in KFold(5, shuffle=True, random_state=0).split(X):
        train, _ = folds
        oracle = unbin.AggregatedGLM(family, n_trials=n_trials).fit(X[train], y[train])
        add("floor", errors_of(oracle, family, X, y, folds))
        pooled = [np.full(len(rows), y[train].mean()) for rows in folds]
        add(
            "mean",
            [
                common.divergence(family, y[rows], mean, n_trials)
                for rows, mean in zip(folds, pooled, strict=True)
            ],
        )
        for per_block in (False, True):
            places = blocks if per_block else np.full(n, "everybody")
            for k in bins:
                target = unbin.aggregate(y[train], places[train], k).align(places[train])
                for method in METHODS:
                    model = common.fit_quietly(
                        X[train], target, family, method=method, n_trials=n_trials, random_state=0
                    )
                    add((per_block, method, k), errors_of(model, family, X, y, folds))
    return {key: np.mean(errors, axis=0) for key, errors in found.items()}


def run(runs: int, quick: bool) -> common.Result:
    n, bins = (200, (2, 5)) if quick else (2000, BINS)
    rows, shown = [], []
    for family, noisy in product(FAMILIES, (False, True)):
        sets = [data_set(family, noisy, n, bins, seed) for seed in range(runs)]
        floor = np.array([each["floor"] for each in sets])
        nothing = np.array([each["mean"] for each in sets])
        for per_block in (False, True):
            blocks = n // 40 if per_block else 1
            panel = {"family": family, "noise": "yes" if noisy else "no", "blocks": blocks}
            lines = {}
            for method in METHODS:
                table = np.array([[each[per_block, method, k] for k in bins] for each in sets])
                lines[method] = table
                rows += _rows(family, noisy, blocks, method, bins, table, floor, nothing)
            for name, each in (("fully observed", floor), ("pooled mean", nothing)):
                lines[name] = np.repeat(each[:, None], len(bins), axis=1)
            for name, table in lines.items():
                shown += [panel | {"line": name} | line for line in _lines(bins, table)]
    return rows, shown


def _lines(bins: tuple[int, ...], table: np.ndarray) -> list[dict]:
    """Return means over data sets, and twice their standard errors."""
    mean = table.mean(axis=0)
    spread = table.std(axis=0, ddof=1) if len(table) > 1 else np.zeros_like(mean)
    reach = 2 * spread / np.sqrt(len(table))
    return [
        {
            "bins": k,
            "train": float(mean[b, 0]),
            "train_reach": float(reach[b, 0]),
            "test": float(mean[b, 1]),
            "test_reach": float(reach[b, 1]),
        }
        for b, k in enumerate(bins)
    ]


def _rows(family, noisy, blocks, method, bins, table, floor, nothing) -> list[dict]:
    gain = (nothing - floor).mean(axis=0)
    return [
        {
            "family": family,
            "noise": "yes" if noisy else "no",
            "blocks": blocks,
            "method": method,
            "bins": k,
            "data_sets": len(table),
            "train": float(table[:, b, 0].mean()),
            "test": float(table[:, b, 1].mean()),
            "train_floor": float(floor[:, 0].mean()),
            "test_floor": float(floor[:, 1].mean()),
            "test_pooled_mean": float(nothing[:, 1].mean()),
            "over_floor": float((table[:, b, 1] - floor[:, 1]).mean() / gain[1]),
        }
        for b, k in enumerate(bins)
    ]


def draw(rows: list[dict], shown: list[dict]) -> dict[str, Figure]:  # noqa: ARG001
    """Draw figures 2 and 3: a column for each family, a row for each kind of data and table."""
    blocks = sorted({line["blocks"] for line in shown})
    figures = {}
    for name, side, title in (("figure2", "train", "Training"), ("figure3", "test", "Test")):
        figure = figures[name] = Figure(figsize=(14, 14), layout="constrained")
        panels = figure.subplots(4, 3)
        for (i, (noise, b)), (j, family) in product(
            enumerate(product(("no", "yes"), blocks)), enumerate(FAMILIES)
        ):
            wanted = {"family": family, "noise": noise, "blocks": b}
            some = [line for line in shown if wanted.items() <= line.items()]
            _draw(panels[i, j], some, side)
            kind = "noise-free" if noise == "no" else "noisy"
            table = "one block" if b == 1 else f"{b} blocks"
            panels[i, j].set_title(f"{family}, {kind}, {table}", fontsize=10)
        figure.suptitle(
            f"{title} error by bins; bands are two standard errors over data sets, "
            f"panels end at {common.HIGHEST:g} times the error of the pooled mean"
        )
        figure.supxlabel("bins published")
        figure.supylabel("error")
        common.legend_beside(figure)
    return figures


def _draw(ax, some: list[dict], side: str) -> None:
    bins = sorted({line["bins"] for line in some})
    lines, reach = {}, {}
    for name in dict.fromkeys(line["line"] for line in some):
        own = [line for line in some if line["line"] == name]
        lines[name] = [line[side] for line in own]
        reach[name] = [line[f"{side}_reach"] for line in own]
    common.draw_errors(ax, bins, lines, common.HIGHEST * lines["pooled mean"][0], reach)


if __name__ == "__main__":
    common.draw_and_store("figures2_3", __doc__, run, draw, 5)
