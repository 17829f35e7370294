"""What figures 4 and 5 share: errors of real targets by number of bins, over folds of people."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from sklearn.model_selection import KFold

import common
import unbin

EVERYBODY = "everybody"
MOST_PER_BLOCK = 25
"""Bins of a block that the likelihood is asked to fit: more take minutes and add little."""


@dataclass(frozen=True)
class Study:
    """One target of some people, and how it is published and fitted.

    Attributes
    ----------
    name : str
    X, y, blocks : arrays, one row per person
    models : (family, method) pairs
    bins : how many are asked for; fewer are published where quantiles coincide
    per_block : for everybody, per block, or both
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    blocks: np.ndarray
    models: tuple[tuple[str, str], ...]
    bins: tuple[int, ...]
    per_block: tuple[bool, ...] = (False, True)


def errors(study: Study, runs: int) -> list[dict]:
    """Return a row for each model, table and number of bins: errors on average over folds."""
    folds = list(KFold(5, shuffle=True, random_state=0).split(study.X))[:runs]
    floors = {family: _floor(study, family, folds) for family, _ in study.models}
    rows = []
    for per_block in study.per_block:
        places = study.blocks if per_block else np.full(len(study.y), EVERYBODY)
        for bins in study.bins:
            targets = [
                unbin.aggregate(study.y[train], places[train], bins).align(places[train])
                for train, _ in folds
            ]
            for family, method in study.models:
                if per_block and method == "likelihood" and bins > MOST_PER_BLOCK:
                    continue
                row = {
                    "study": study.name,
                    "people": len(study.y),
                    "blocks": len(np.unique(places)),
                    "family": family,
                    "method": method,
                    "bins": bins,
                    "published_bins": _most_bins(targets[0]),
                    "folds": len(folds),
                }
                rows.append(row | _compare(study, family, method, folds, targets, floors[family]))
    return rows


def _compare(study, family, method, folds, targets, floor) -> dict:
    found, identified, begin = [], 0, time.perf_counter()
    for (train, test), target in zip(folds, targets, strict=True):
        model = common.fit_quietly(study.X[train], target, family, method=method, random_state=0)
        identified += bool(model.diagnostics_.identified)
        found.append(
            [_error(study, family, rows, model.predict(study.X[rows])) for rows in (train, test)]
        )
    train_error, test_error = np.mean(found, axis=0)
    observed, pooled = floor
    print(f"{study.name}: {family}, {method}, {time.perf_counter() - begin:.1f} s", flush=True)
    return {
        "train": float(train_error),
        "test": float(test_error),
        "train_floor": float(observed[0]),
        "test_floor": float(observed[1]),
        "test_pooled_mean": float(pooled[1]),
        "test_over_floor": float(test_error / observed[1]),
        "identified": identified,
    }


def _floor(study: Study, family: str, folds) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test errors of the fully observed GLM, and of the pooled mean."""
    observed, pooled = [], []
    for train, test in folds:
        name = "gaussian" if family == "ordinal" else family
        oracle = unbin.AggregatedGLM(name).fit(study.X[train], study.y[train])
        middle = study.y[train].mean()
        sides = (train, test)
        observed.append([_error(study, name, r, oracle.predict(study.X[r])) for r in sides])
        pooled.append([_error(study, name, r, np.full(len(r), middle)) for r in sides])
    return np.mean(observed, axis=0), np.mean(pooled, axis=0)


def _error(study: Study, family: str, rows: np.ndarray, mean: np.ndarray) -> float:
    return common.divergence(family, study.y[rows], mean)


def _most_bins(target: unbin.AggregatedTarget) -> int:
    return int(np.diff(target.release.histogram.start).max())


def draw(rows: list[dict], name: str, columns: int = 3) -> dict[str, Figure]:
    """Draw training and test errors, a panel for each study and kind of table."""
    words = {"train": "Training", "test": "Test"}
    return {f"{name}_{side}": _draw(rows, side, words[side], columns) for side in words}


def _draw(rows: list[dict], side: str, word: str, columns: int) -> Figure:
    keys = list(dict.fromkeys((row["study"], row["blocks"]) for row in rows))
    height = -(-len(keys) // columns)
    figure = Figure(figsize=(4.3 * columns + 2, 3.2 * height + 0.6), layout="constrained")
    panels = np.atleast_1d(figure.subplots(height, columns)).ravel()
    for ax in panels[len(keys) :]:
        ax.set_axis_off()
    for ax, (study, blocks) in zip(panels, keys, strict=False):
        some = [row for row in rows if (row["study"], row["blocks"]) == (study, blocks)]
        bins = sorted({row["bins"] for row in some})
        lines = {}
        for family, method in dict.fromkeys((row["family"], row["method"]) for row in some):
            same = [r for r in some if (r["family"], r["method"]) == (family, method)]
            own = {row["bins"]: row[side] for row in same}
            lines[f"{family}, {method}"] = [own.get(k, np.nan) for k in bins]
        lines["fully observed"] = [some[0][f"{side}_floor"]] * len(bins)
        lines["pooled mean"] = [some[0]["test_pooled_mean"]] * len(bins)
        common.draw_errors(ax, bins, lines, common.HIGHEST * some[0]["test_pooled_mean"])
        table = "one block" if blocks == 1 else f"{blocks:,} blocks"
        ax.set_title(f"{study}, {table}", fontsize=10, parse_math=False)
    end = f"panels end at {common.HIGHEST:g} times the error of the pooled mean"
    figure.suptitle(f"{word} error by bins; {end}")
    figure.supxlabel("bins asked for")  # quantile bins that coincide are published as one
    figure.supylabel("error")
    common.legend_beside(figure)
    return figure
