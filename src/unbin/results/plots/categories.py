"""Pictures of categories: who is in which, and what was published of them beside the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter

from unbin._checks import check_kind, check_whole
from unbin._typing import BoolArray, FloatArray
from unbin.classifier import AggregatedClassifier
from unbin.fitting.category_tables import group_table
from unbin.fitting.published import Published
from unbin.results.numbers import NONE
from unbin.results.plots.drawing import BLUE, GREY, axes, name_rows, shorten

_DARKEST = 0.5
"""Opacity of a cell that everybody is in: black letters can be read on it, by night white ones."""
_LONGEST = 14
"""Characters of the name of a category above its column."""


def cells(
    model: AggregatedClassifier,
    by: Any = None,
    level: float = 0.95,
    *,
    most: int = 20,
    smallest: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of each group in each category, over all blocks, as a heat map.

    The darker a cell, the more of the group are in the category; below each share is its
    interval, which does not cover the uncertainty about contextual slopes.

    Parameters
    ----------
    model : AggregatedClassifier
        Fitted to tables, with ``random``.
    by : str or list of str, optional
        Features of ``random``; all of them when left out.
    level : float
        Coverage of the intervals.
    most : int
        Groups to draw, the largest.
    smallest : int
        Groups of fewer people are left out.

    Examples
    --------
    >>> import numpy as np, pandas as pd, unbin
    >>> rng = np.random.default_rng(0)
    >>> precinct = np.repeat([f"{p:02d}" for p in range(30)], 60)
    >>> member = rng.random(1800) < rng.uniform(0.1, 0.9, 30).repeat(60)
    >>> vote = np.where(rng.random(1800) < 0.2 + 0.5 * member, "left", "right")
    >>> people = pd.DataFrame({"precinct": precinct, "member": np.where(member, "yes", "no")})
    >>> model = unbin.AggregatedClassifier(random=["member"]).fit(
    ...     people, {"precinct": unbin.aggregate(vote, precinct)}, features=["member"]
    ... )
    >>> ax = unbin.plots.cells(model)
    """
    check_kind("model", model, AggregatedClassifier, instead="a fitted classifier")
    fitted = model._grouped("cells")
    table, classes = group_table(fitted, by, level), fitted.classes
    k, features = len(classes), list(table)[: list(table).index("category")]
    labels = zip(*(table[name][::k] for name in features), strict=True)
    names = [", ".join(label) for label in labels]
    people, share, low, high = (
        np.reshape(table[name], (-1, k)) for name in ("people", "share", "conf_low", "conf_high")
    )
    largest = np.argsort(-people[:, 0], kind="stable")[: check_whole("most", most, low=1)]
    least = max(check_whole("smallest", smallest, low=0), 1)
    shown = np.sort(largest[people[largest, 0] >= least])
    ax = axes(ax, width=1.6 + 1.15 * k, height=0.8 + 0.62 * len(shown))
    for row, g in enumerate(shown):
        for column in range(k):
            _cell(ax, column, row, share[g, column], (low[g, column], high[g, column]))
    name_rows(ax, [names[g] for g in shown])
    ax.set_xlim(-0.5, k - 0.5)
    ax.set_xticks(np.arange(k), [shorten(name, _LONGEST) for name in classes], parse_math=False)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    return ax


def _cell(ax: Axes, x: int, y: int, share: float, ends: tuple[float, float]) -> None:
    corner = (x - 0.5, y - 0.5)
    ax.add_patch(Rectangle(corner, 1, 1, facecolor=BLUE, alpha=_DARKEST * share, linewidth=0))
    ax.add_patch(Rectangle(corner, 1, 1, facecolor="none", edgecolor="white", linewidth=1.5))
    ax.text(x, y - 0.12, _percent(share), ha="center", va="center")
    ax.text(x, y + 0.22, _between(*ends), ha="center", va="center", fontsize=8)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if np.isfinite(share) else NONE


def _between(low: float, high: float) -> str:
    return f"{100 * low:.1f} to {100 * high:.1f}"


def draw_agreement(
    ax: Axes, counts: Published, k: int, name: str, shown: BoolArray | None = None
) -> None:
    """Draw the published share of a category against the expected one, a point for each block."""
    offered = counts.valid()[:, k] & (counts.n > 0)
    if shown is not None:
        offered &= shown
    size = counts.n[offered]
    expected, seen = (each[offered, k] / size for each in (counts.expected, counts.count))
    ax.axline((0, 0), slope=1, color=GREY, linewidth=0.8)
    ax.scatter(expected, seen, s=_areas(size), color=BLUE, alpha=0.5, linewidth=0)
    end = max(float(np.max([expected, seen], initial=0.0)), 1e-3) * 1.05
    ax.set_xlim(0, end)
    ax.set_ylim(0, end)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0 if end > 0.05 else 1))
        axis.set_major_locator(MaxNLocator(4))
    ax.set_xlabel("expected", fontsize=8)
    ax.set_ylabel("published", fontsize=8)
    ax.tick_params(labelsize=8)
    ax.set_title(shorten(name), fontsize=9, loc="left", parse_math=False)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _areas(size: Any) -> FloatArray:
    """Return areas of points in proportion to people, those of the largest block the same."""
    return np.asarray(4 + 20 * size / max(float(np.max(size, initial=1)), 1.0))
