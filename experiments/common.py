"""What the experiments share: options, quiet fits, tables printed and stored."""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import unbin
from unbin import plots
from unbin._checks import available_threads
from unbin.exceptions import IdentificationWarning, SpecificationWarning
from unbin.families import BregmanFamily, get_family

RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parent / "figures"
Cell = TypeVar("Cell")
Found = TypeVar("Found")


def runs_from_command_line(doc: str, default: int) -> int:
    """Return --runs: how many data sets are simulated, or folds are fitted. Keep to one thread."""
    threadpool_limits(limits=1)
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=default, help=f"full number: {default}")
    return parser.parse_args().runs


def over_seeds(function: Callable[[int], Found], runs: int) -> list[Found]:
    """Return a function of the seeds 0, 1, …, on all cores; in the order of the seeds."""
    one_thread = partial(threadpool_limits, limits=1)
    with ProcessPoolExecutor(available_threads(), initializer=one_thread) as pool:
        return list(pool.map(function, range(runs), chunksize=min(max(runs // 64, 1), 10)))


def over_cells(
    function: Callable[[Cell, int], Found], cells: Sequence[Cell], runs: int
) -> list[list[Found]]:
    """Return a function of each cell and the seeds 0, 1, …, on all cores."""
    found = over_seeds(partial(_of_cell, function, cells, runs), runs * len(cells))
    return [found[k * runs : (k + 1) * runs] for k in range(len(cells))]


def _of_cell(
    function: Callable[[Cell, int], Found], cells: Sequence[Cell], runs: int, number: int
) -> Found:
    return function(cells[number // runs], number % runs)


def block_names(codes: np.ndarray) -> np.ndarray:
    """Return ids, as text, that sort as the codes do."""
    names = np.array([f"{code:06d}" for code in range(int(codes.max()) + 1)])
    return names[codes]


def quantile_release(y: np.ndarray, blocks: np.ndarray, quantiles) -> unbin.Release:
    """Publish quantiles of every block."""
    names = np.unique(blocks)
    value = [np.quantile(y[blocks == name], quantiles, method="inverted_cdf") for name in names]
    return unbin.Release.from_quantiles(
        {
            "block": np.repeat(names, len(quantiles)),
            "quantile": np.tile(quantiles, len(names)),
            "value": np.concatenate(value),
        }
    )


def fit_release(X, y, blocks, bins, family="gaussian", **settings) -> unbin.AggregatedGLM:
    """Publish the histograms of y, and fit the model to them."""
    return fit(X, unbin.aggregate(y, blocks, bins).align(blocks), family, **settings)


def fit(X, target, family="gaussian", cluster=None, **settings) -> unbin.AggregatedGLM:
    """Fit the model; what it would warn of is in its diagnostics."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        warnings.simplefilter("ignore", SpecificationWarning)
        return unbin.AggregatedGLM(family, **settings).fit(X, target, cluster=cluster)


def estimates(model: unbin.AggregatedGLM) -> np.ndarray:
    """Return the slopes that standard errors are of: without the ridge that ``coef_`` may have."""
    return model.conf_int().mean(axis=1)


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
        _write(RESULTS / f"{name}.csv", cells)


def read(path: Path) -> list[dict]:
    """Return the rows of a stored table, none where there is no file; numbers are numbers."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _write(path: Path, cells: list[list[str]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(cells)


def divergence(family: str, y: np.ndarray, mean: np.ndarray, n_trials: int = 1) -> float:
    """Return the paper's error: the mean Bregman divergence of targets from recovered means.

    Half the squared error where the family has none of its own (ordinal).
    """
    kind = get_family("gaussian" if family == "ordinal" else family, n_trials)
    assert isinstance(kind, BregmanFamily)
    floor = {"poisson": 1e-6, "binomial": 1e-6}.get(family)
    if floor is not None:  # a mean of 0 under a positive target is infinitely far
        top = n_trials - floor if family == "binomial" else np.inf
        mean = np.clip(mean, floor, top)
    return float(kind.divergence(y, mean).mean())


def fit_quietly(X, target, family, **settings) -> unbin.AggregatedGLM:
    """Fit as :func:`fit` does; a solver that stopped early counts as it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(X, target, family, **settings)


def data_folder() -> str | None:
    """Return the folder of the real data, or say that it is missing."""
    folder = os.environ.get("UNBIN_DATA")
    if not folder or not Path(folder).is_dir():
        print("skipped: UNBIN_DATA does not name the folder of the real data")
        return None
    return folder


Result = tuple[list[dict], list[dict]]
"""What a figure's script found: the rows of its table, and what else its pictures show."""
Drawing = Callable[[list[dict], list[dict]], dict[str, Figure]]


def draw_and_store(
    name: str, doc: str, run: Callable[[int, bool], Result], draw: Drawing, default: int
) -> None:
    """Run a figure's script: print its table, and store table and pictures of a full run.

    The table is results/<name>.csv; what the pictures show beside it is figures/<name>.csv. With
    ``--redraw`` pictures are drawn of what these files hold, and nothing is computed.
    """
    threadpool_limits(limits=1)
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=default, help=f"full number: {default}")
    parser.add_argument("--quick", action="store_true", help="few people; stores nothing")
    parser.add_argument("--redraw", action="store_true", help="draw what is stored")
    args = parser.parse_args()
    full = args.runs >= default and not args.quick
    if not args.redraw:
        rows, shown = run(args.runs, args.quick)
        report(name, rows, store=full)
        if full and shown:
            cells = [list(shown[0]), *([_text(cell) for cell in row.values()] for row in shown)]
            _write(FIGURES / f"{name}.csv", cells)
    if full or args.redraw:
        stored = read(RESULTS / f"{name}.csv"), read(FIGURES / f"{name}.csv")
        for title, figure in draw(*stored).items():
            FIGURES.mkdir(exist_ok=True)
            save(figure, FIGURES / f"{title}.svg")


LOOKS = {  # marker, colour, line; the same in every panel of figures 2 to 5
    "matching": ("v", "#c8473a", "-"),
    "likelihood": ("o", "#0b4f9e", "-"),
    "gaussian, matching": ("v", "#c8473a", "-"),
    "gaussian, likelihood": ("o", "#0b4f9e", "-"),
    "ordinal, likelihood": ("s", "#3f8fe0", "-"),
    "poisson, matching": ("^", "#d98a00", "-"),
    "poisson, likelihood": ("D", "#2e8b57", "-"),
    "fully observed": ("", "black", "-"),
    "pooled mean": ("", "black", ":"),
}
HIGHEST = 2.5
"""Panels of errors end at so many times the error of the pooled mean."""


def draw_errors(ax: Axes, bins, lines: dict, highest: float, reach: dict | None = None) -> None:
    """Draw errors by bins with the looks of their names, without a legend and labels."""
    plots.errors_by_bins(bins, lines, ax=ax)
    ax.get_legend().remove()
    for line, name in zip(list(ax.lines), lines, strict=True):
        marker, colour, style = LOOKS[name]
        line.set(marker=marker, color=colour, linestyle=style, label=name)
        if reach and marker:  # bands of two standard errors
            low, high = (np.asarray(lines[name]) + k * np.asarray(reach[name]) for k in (-1, 1))
            ax.fill_between(bins, low, high, color=colour, alpha=0.15, linewidth=0)
    ax.set_xscale("log")
    ax.set_xticks(bins, [str(k) for k in bins])
    ax.minorticks_off()
    ax.set_ylim(0, highest)
    ax.set_xlabel("")
    ax.set_ylabel("")


def legend_beside(figure: Figure) -> None:
    """Put one legend for all panels to their right."""
    found = {}
    for ax in figure.axes:
        handles, names = ax.get_legend_handles_labels()
        found |= dict(zip(names, handles, strict=True))
    order = [name for name in LOOKS if name in found]
    order += [name for name in found if name not in LOOKS]
    figure.legend([found[name] for name in order], order, loc="outside right upper", frameon=False)


def save(figure: Figure, path: Path) -> None:
    """Write a picture, the same bytes each time."""
    with mpl.rc_context({"svg.hashsalt": "unbin", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
