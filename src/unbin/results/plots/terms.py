"""Coefficients with their intervals, and what each table told about them."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from unbin._checks import check_flag, check_share
from unbin._frames import as_finite
from unbin._typing import ArrayLike, FloatArray
from unbin.estimator import AggregatedGLM
from unbin.exceptions import ParameterError
from unbin.results.plots.drawing import (
    BLUE,
    GREY,
    ORANGE,
    axes,
    clearest,
    estimates,
    legend_above,
    name_keys,
    name_rows,
    names_of,
    one_target,
    short_ticks,
)
from unbin.results.tables import shares_by_table

_OF_TABLES = (BLUE, "#e69f00", "#1b9e77", "#7b5ea7", "#56b4e9", "#a6761d", "#d7498a", "#bdbdbd")
"""A colour per table, the last for all others together."""
_FIFTHS = np.linspace(0, 1, 6)
_WILD = 20
"""Ratio of the longest to the shortest interval from which on units differ wildly."""


def coefficients(
    model: AggregatedGLM,
    oracle: AggregatedGLM | ArrayLike | None = None,
    *,
    level: float = 0.95,
    most: int = 40,
    standardised: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw the coefficients with their intervals, next to the oracle's where it is known.

    Parameters
    ----------
    model : AggregatedGLM
    oracle : AggregatedGLM or (d,), optional
        The same model fitted to individual targets, or its coefficients.
    level : float
        Coverage of the intervals; matching has none.
    most : int
        Of more coefficients, the largest in units of their standard errors are drawn.
    standardised : bool
        Whether to draw the change in standard deviations of the outcome, on the link's scale, when
        a feature grows by one of its own: for features of units that differ. Needs a likelihood
        fit.

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40)
    >>> release = unbin.aggregate(people.y, people.blocks, bins=5)
    >>> model = unbin.AggregatedGLM().fit(people.X, release.align(people.blocks))
    >>> ax = unbin.plots.coefficients(model, oracle=people.coef)  # the truth
    >>> ax.figure.savefig("coefficients.svg")
    """
    estimate, error = estimates(model)
    chosen = clearest(estimate, error, most)
    place: FloatArray = np.arange(len(chosen), dtype=np.float64)
    check_share("level", level)
    scale = _scale(model)[chosen] if check_flag("standardised", standardised) else 1.0
    ax = axes(ax, height=0.9 + 0.3 * len(chosen))
    ax.axvline(0, color=GREY, linewidth=0.8)
    shift, width = 0.0 if oracle is None else 0.14, _reach(model, level)
    _dots(ax, scale * estimate[chosen], place - shift,
          width if width is None else scale * width[chosen], BLUE, "o", "this fit")  # fmt: skip
    if oracle is not None:
        seen, width = _oracle(oracle, len(estimate), level)
        width = None if width is None else scale * width[chosen]
        _dots(ax, scale * seen[chosen], place + shift, width, ORANGE, "D", "oracle")
        legend_above(ax)
    name_rows(ax, names_of(model, chosen))
    what = "standardised coefficient" if standardised else "coefficient"
    ax.set_xlabel(what if error is None else f"{what}, with {100 * level:g} % interval")
    ax.xaxis.set_major_locator(MaxNLocator(5))
    short_ticks(ax, y=False)
    return ax


def differ_wildly(model: AggregatedGLM) -> bool:
    """Tell whether coefficients are of units so different that one scale cannot show them all."""
    factor, (_, error) = _factors(model), estimates(model)
    if factor is None or error is None:
        return False
    known = error[np.isfinite(factor * error) & (error > 0)]
    return bool(len(known) and known.max() > _WILD * known.min())


def _factors(model: AggregatedGLM) -> FloatArray | None:
    """Return sd(feature)/sd(outcome) of each coefficient, NaN where it is not estimable."""
    precision = one_target(model).diagnostics_.precision
    if precision is None:
        return None
    error = model.standard_errors_
    return np.asarray(precision / np.where(error > 0, error, np.nan))


def _scale(model: AggregatedGLM) -> FloatArray:
    found = _factors(model)
    if found is None:
        raise ParameterError(
            f"standardised: needs a likelihood fit, which knows the spread of the outcome, got a "
            f"fit by {model.method_!r}; leave it out"
        )
    return found


def information(model: AggregatedGLM, *, most: int = 40, ax: Axes | None = None) -> Axes:
    """Draw the share of each of several tables in the information on each coefficient.

    With more than eight tables, the least informative ones are drawn as one.

    Parameters
    ----------
    model : AggregatedGLM
        Fitted to several tables of the same people.
    most : int
        As for :func:`coefficients`.

    Examples
    --------
    >>> import numpy as np, unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40)
    >>> half = np.where(people.X[:, 0] > 0, "high", "low")
    >>> target = unbin.join(
    ...     unbin.aggregate(people.y, people.blocks, bins=5).align(people.blocks),
    ...     unbin.aggregate(people.y, half, bins=5).align(half),
    ... )
    >>> ax = unbin.plots.information(unbin.AggregatedGLM().fit(people.X, target))
    """
    found = shares_by_table(one_target(model))
    if found is None:
        raise ParameterError(
            "information: needs a fit to several tables of the same people, got a fit to one; see "
            "unbin.join"
        )
    names, share = found
    chosen = clearest(*estimates(model), most)
    part = np.nan_to_num(share[:, chosen])
    n_rows = -(-len(names) // 2)  # of the legend
    ax = axes(ax, height=1.1 + 0.3 * len(chosen) + 0.22 * n_rows)
    left = np.cumsum(part, axis=0) - part
    bars = [
        ax.barh(np.arange(len(chosen)), width, 0.72, start, color=colour, edgecolor="white")
        for width, start, colour in zip(part, left, _OF_TABLES, strict=False)
    ]
    name_rows(ax, names_of(model, chosen))
    ax.set_xlim(0, 1)
    ax.set_xticks(_FIFTHS, [f"{100 * end:.0f} %" for end in _FIFTHS])
    ax.set_xlabel("share in the information on the coefficient")
    keys = ax.legend(bars, [str(k) for k in range(len(bars))], loc="lower right",
                     bbox_to_anchor=(1, 1), ncols=2, frameon=False, fontsize=9)  # fmt: skip
    name_keys(keys, names)
    return ax


def _reach(model: AggregatedGLM, level: float) -> FloatArray | None:
    """Return how far intervals reach to either side, where the method has them."""
    if model.method_ == "matching":
        return None
    low, high = model.conf_int(level).T
    return np.asarray((high - low) / 2)


def _oracle(
    oracle: AggregatedGLM | ArrayLike, d: int, level: float
) -> tuple[FloatArray, FloatArray | None]:
    """Return coefficients, and how far their intervals reach."""
    if isinstance(oracle, AggregatedGLM):
        coef, reach = np.asarray(one_target(oracle).coef_), _reach(oracle, level)
    else:
        coef, reach = as_finite(oracle, where="oracle", error=ParameterError), None
    if coef.shape != (d,):
        raise ParameterError(
            f"oracle: must have the {d} coefficients of the model, got shape {coef.shape}"
        )
    return coef, reach


def _dots(
    ax: Axes,
    x: FloatArray,
    y: FloatArray,
    reach: FloatArray | None,
    colour: str,
    marker: str,
    label: str,
) -> None:
    ax.errorbar(x, y, xerr=reach, fmt=marker, color=colour, markersize=5, linewidth=1.6,
                label=label)  # fmt: skip
