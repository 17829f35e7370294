"""What pictures share: axes, colours, names and ticks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import FuncFormatter
from sklearn.utils.validation import check_is_fitted

from unbin._checks import check_choice, check_kind, check_whole
from unbin._typing import FloatArray, IntArray
from unbin.estimator import AggregatedGLM
from unbin.exceptions import ParameterError
from unbin.fitting.inputs import feature_names
from unbin.fitting.published import Published
from unbin.results.numbers import amount
from unbin.results.tables import tables_of

BLUE, ORANGE, GREY = "#2166ac", "#d95f02", "#767676"
PALE = "#a6c4e0"
LONGEST = 24
"""Characters of a name that a picture has room for."""
_WIDE = 0.68
"""Width of a character of a tick label, as a share of its size."""


def one_target(model: AggregatedGLM) -> AggregatedGLM:
    """Return the model if it is fitted, to one target."""
    check_kind("model", model, AggregatedGLM, instead="a fitted model")
    check_is_fitted(model)
    if np.ndim(model.coef_) > 1:
        raise ParameterError("plots: need a model of one target, got several; fit them one by one")
    return model


def published(model: AggregatedGLM, table: str | None = None) -> Published:
    """Return the counts that a model was fitted to, or say why there are none.

    ``table`` is one of the tables of a fit to several, the first when left out.
    """
    found = one_target(model).published_
    k = table_place(model, table)
    if k is not None:
        found = tables_of(model)[k].published
    if not isinstance(found, Published):
        raise ParameterError(
            f"histograms: need a likelihood fit to published counts, got a fit by "
            f"{model.method_!r}; fit method='likelihood' to a release with a histogram, or "
            "save it with public=True, where a saved model has lost its counts"
        )
    return found


def table_place(model: AggregatedGLM, table: str | None) -> int | None:
    """Return which of several tables has a name, the first without one; None of a single table."""
    names = tuple(each.name for each in tables_of(one_target(model)))
    if table is None:
        return 0 if names else None
    if not names:
        raise ParameterError(
            f"table: the model was fitted to one table, got {table!r}; leave it out"
        )
    return names.index(check_choice("table", table, names))


def estimates(model: AggregatedGLM) -> tuple[FloatArray, FloatArray | None]:
    """Return coefficients and, where the method has them, standard errors."""
    coef = np.asarray(one_target(model).coef_)
    return coef, None if model.method_ == "matching" else model.standard_errors_


def clearest(estimate: FloatArray, error: FloatArray | None, most: int) -> IntArray:
    """Return the places of the coefficients that are largest in units of their errors, sorted."""
    size = np.abs(estimate) if error is None else np.abs(estimate) / np.maximum(error, 1e-300)
    return np.sort(np.argsort(-size, kind="stable")[: check_whole("most", most, low=1)])


def shorten(name: str, longest: int = LONGEST) -> str:
    """Return a name on one line, cut where it is too long for a picture."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(name)).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def axes(ax: Axes | None, *, width: float = 6.4, height: float = 3.6) -> Axes:
    """Return the axes given, or new ones, without a frame."""
    if ax is not None:
        check_kind("ax", ax, Axes, instead="axes of matplotlib, or None")
    else:
        ax = Figure(figsize=(width, height), layout="constrained").add_subplot()
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Write names beside rows, the first on top."""
    ax.set_yticks(np.arange(len(names)), [shorten(name) for name in names], parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)


def names_of(model: AggregatedGLM, chosen: IntArray) -> list[str]:
    """Return the names of some coefficients."""
    names = feature_names(model)
    return [names[j] for j in chosen]


def name_keys(legend: Legend, names: Iterable[str], longest: int = LONGEST) -> None:
    """Write names into a legend as they are."""
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.update({"parse_math": False, "text": shorten(name, longest)})


def legend_above(ax: Axes) -> None:
    """Put the keys above the picture."""
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)


def short_ticks(ax: Axes, *, x: bool = True, y: bool = True) -> None:
    """Write ticks as 25k, not 25000."""
    for axis in [ax.xaxis] * x + [ax.yaxis] * y:
        axis.set_major_formatter(FuncFormatter(lambda value, _: amount(float(f"{value:.10g}"))))


def fitting_ticks(ax: Axes, place: FloatArray, labels: Sequence[str]) -> None:
    """Set those ticks of the x axis whose labels do not run into each other, from the left.

    The limits of the axis must have been set. Of ticks that are close the first is kept.
    """
    kept = apart(place, labels, _characters(ax))
    ax.set_xticks(place[kept], [labels[k] for k in kept])


def apart(place: FloatArray, labels: Sequence[str], character: float) -> list[int]:
    """Return which labels, centred at places, do not run into each other.

    Parameters
    ----------
    place : (k,)
        Increasing.
    labels : sequence of str
    character : float
        Width of a character, in the units of ``place``.
    """
    kept: list[int] = []
    free = -np.inf
    for k, (at, label) in enumerate(zip(place, labels, strict=True)):
        half = 0.5 * (len(label) + 1) * character
        if at - half >= free:
            kept.append(k)
            free = at + half
    return kept


def _characters(ax: Axes) -> float:
    """Return the width of a character of a tick label, in units of the x axis."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    size = float(ax.xaxis.get_major_ticks(1)[0].label1.get_fontsize())
    points = ax.get_window_extent().width / figure.dpi * 72
    low, high = ax.get_xlim()
    return _WIDE * size / max(points, 1.0) * (high - low)
