"""What the experiments share: options, quiet fits, tables printed and stored."""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import unbin
from unbin.exceptions import IdentificationWarning

RESULTS = Path(__file__).parent / "results"


def runs_from_command_line(doc: str, default: int) -> int:
    """Return --runs: how many data sets are simulated, or folds are fitted. Keep to one thread."""
    threadpool_limits(limits=1)
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=default, help=f"full number: {default}")
    return parser.parse_args().runs


def block_names(codes: np.ndarray) -> np.ndarray:
    """Return ids, as text, that sort as the codes do."""
    names = np.array([f"{code:06d}" for code in range(int(codes.max()) + 1)])
    return names[codes]


def fit_release(X, y, blocks, bins, family="gaussian", **settings) -> unbin.AggregatedGLM:
    """Publish the histograms of y, and fit the model to them."""
    return fit(X, unbin.aggregate(y, blocks, bins).align(blocks), family, **settings)


def fit(X, target, family="gaussian", **settings) -> unbin.AggregatedGLM:
    """Fit the model; what it would warn of is in its diagnostics."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        return unbin.AggregatedGLM(family, **settings).fit(X, target)


def mse(model: unbin.AggregatedGLM, X: np.ndarray, y: np.ndarray) -> float:
    """Return the mean squared error of the predicted means."""
    return float(np.mean((model.predict(X) - y) ** 2))


def report(name: str, rows: list[dict], *, store: bool) -> None:
    """Print a table; store it as results/<name>.csv when the run was a full one."""
    columns = list(rows[0])
    cells = [columns, *([_text(row[column]) for column in columns] for row in rows)]
    widths = [max(len(line[j]) for line in cells) for j in range(len(columns))]
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    if store:
        RESULTS.mkdir(exist_ok=True)
        with (RESULTS / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows(cells)


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
