"""How a solver got there, permutations, and errors by the number of bins."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from unbin._checks import check_kind
from unbin._frames import as_finite, refuse_masked
from unbin._typing import ArrayLike, FloatArray
from unbin.estimator import AggregatedGLM
from unbin.exceptions import ParameterError
from unbin.permutation import NAMES, PermutationTest
from unbin.results.numbers import amount
from unbin.results.plots.drawing import (
    BLUE,
    ORANGE,
    PALE,
    axes,
    legend_above,
    name_keys,
    one_target,
    short_ticks,
)

_WIDE = 50
"""From this ratio on an objective is drawn on a log scale."""
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def objective_path(model: AggregatedGLM, *, ax: Axes | None = None) -> Axes:
    """Draw the progress of the solver.

    Matching and observed targets: the objective. Likelihood: the squared distance to the solution
    in standard errors.

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40)
    >>> release = unbin.aggregate(people.y, people.blocks, bins=5)
    >>> model = unbin.AggregatedGLM().fit(people.X, release.align(people.blocks))
    >>> ax = unbin.plots.objective_path(model)
    """
    path = np.asarray(one_target(model).objective_path_, dtype=np.float64)
    likelihood = model.method_ == "likelihood"
    ax = axes(ax, width=4.5, height=2.6)
    ax.plot(np.arange(len(path)), path, "o-", color=BLUE, markersize=4, linewidth=1.2)
    ax.set_xlabel("pass over the people" if likelihood else "iteration")
    ax.set_ylabel("squared distance to\nthe solution (SE)" if likelihood else "objective")
    ax.set_xlim(-0.5, max(len(path), 1) - 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    if len(path) == 0:
        ax.text(0.5, 0.5, "no path was kept", transform=ax.transAxes, ha="center")
    elif (likelihood or path.max() > _WIDE * np.abs(path).min()) and path.min() > 0:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(numticks=5))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _power(value)))
        ax.minorticks_off()
    else:
        ax.yaxis.set_major_locator(MaxNLocator(4))
        short_ticks(ax, x=False)
    return ax


def _power(value: float) -> str:
    """Return a power of ten as text, which needs no formula: 10⁻³."""
    return f"10{str(round(np.log10(value))).translate(_RAISED)}"


def permutation(test: PermutationTest, *, ax: Axes | None = None) -> Axes:
    """Draw the permutation distribution and the observed value (the paper's figure 1).

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40)
    >>> release = unbin.aggregate(people.y, people.blocks, bins=5)
    >>> model = unbin.AggregatedGLM().fit(people.X, release.align(people.blocks))
    >>> test = unbin.permutation_test(
    ...     model, people.X, release.align(people.blocks), n_permutations=19, random_state=0
    ... )
    >>> ax = unbin.plots.permutation(test)
    """
    check_kind("test", test, PermutationTest, instead="what unbin.permutation_test returned")
    ax = axes(ax, width=4.5, height=2.8)
    bins = int(np.clip(np.sqrt(len(test.null)), 5, 40))
    ax.hist(test.null, bins=bins, color=PALE, label=f"{len(test.null):,} permutations")
    ax.axvline(test.statistic, color=ORANGE, linewidth=2, label=f"seen (p = {test.p_value:.3g})")
    ax.set_xlabel(NAMES[test.kind])
    ax.set_ylabel("permutations")
    legend_above(ax)
    return ax


def errors_by_bins(
    bins: ArrayLike, errors: Mapping[str, ArrayLike], *, ax: Axes | None = None
) -> Axes:
    """Draw errors against the number of bins that were published (the paper's Figs. 2 to 5).

    Parameters
    ----------
    bins : (K,)
    errors : mapping of name to (K,) or (R, K)
        One line each; of R repeats the mean, with a band of two standard errors each way.

    Examples
    --------
    >>> import unbin
    >>> errors = {"matching": [0.37, 0.13, 0.13], "likelihood": [0.11, 0.06, 0.05]}
    >>> ax = unbin.plots.errors_by_bins([2, 5, 10], errors)
    """
    x = as_finite(bins, where="bins", error=ParameterError)
    if not isinstance(errors, Mapping):
        raise ParameterError(
            f"errors: must be a mapping, got {type(errors).__name__}; pass errors by name"
        )
    ax = axes(ax, width=5.0, height=3.2)
    markers = "osD^vP"
    lines = []
    for k, (name, values) in enumerate(errors.items()):
        table = _errors(name, values, len(x))
        mean = table.mean(axis=0)
        lines += ax.plot(x, mean, marker=markers[k % len(markers)], markersize=5, linewidth=1.4)
        if len(table) > 1:
            reach = 2 * table.std(axis=0, ddof=1) / np.sqrt(len(table))
            ax.fill_between(x, mean - reach, mean + reach, alpha=0.2, linewidth=0)
    legend = ax.legend(lines, [str(k) for k in range(len(lines))], frameon=False)
    name_keys(legend, errors, 40)
    ax.set_xlabel("bins published")
    ax.set_ylabel("error")
    ax.set_ylim(bottom=0)
    ax.set_xticks(x, [amount(value) for value in x])
    return ax


def _errors(name: str, values: ArrayLike, n_bins: int) -> FloatArray:
    """Return errors as a table, a row per repeat."""
    try:
        table = np.atleast_2d(np.asarray(refuse_masked(values, where=name), dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        table = np.empty((0, 0))
    if table.shape[1:] != (n_bins,) or np.isinf(table).any():
        raise ParameterError(
            f"errors: {name!r} must hold one error for each of the {n_bins} bins, got "
            f"{type(values).__name__} of others; pass (bins,) or (repeats, bins)"
        )
    return table
