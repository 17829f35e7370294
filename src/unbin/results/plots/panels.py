"""Histograms of blocks: published beside fitted, recovered beside true."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from unbin._checks import check_flag, check_whole
from unbin._frames import as_finite, as_floats
from unbin._typing import ArrayLike, BoolArray, FloatArray, IntArray
from unbin.estimator import AggregatedGLM
from unbin.exceptions import ParameterError
from unbin.fitting.published import Published
from unbin.results.numbers import amount
from unbin.results.plots.bars import bars_of
from unbin.results.plots.drawing import (
    BLUE,
    GREY,
    PALE,
    axes,
    fitting_ticks,
    legend_above,
    published,
    short_ticks,
    shorten,
)

_MOST_BLOCKS = 12
_SMALL = 8
"""Size of the letters beside a small panel."""


def histogram(
    model: AggregatedGLM,
    block: str | None = None,
    *,
    table: str | None = None,
    fitted: bool = True,
    smallest: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the published histogram of a block, and the fitted one.

    Areas are counts: where bins differ in width their heights are densities. A count that was
    suppressed or rounded has a line over the interval it lies in.

    Parameters
    ----------
    model : AggregatedGLM
        Fitted by likelihood to a release with counts.
    block : str, optional
        All blocks together when left out, which needs the same bins in each.
    table : str, optional
        One of the tables of a fit to several; the first when left out.
    fitted : bool
        Whether to mark what the fit expects.
    smallest : int
        Counts of fewer people are masked, with enough others that they cannot be worked out.

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40)
    >>> release = unbin.aggregate(people.y, people.blocks, bins=5)
    >>> model = unbin.AggregatedGLM().fit(people.X, release.align(people.blocks))
    >>> ax = unbin.plots.histogram(model, "07")  # of everybody when left out
    """
    counts = published(model, table)
    if block is None:
        counts = counts.together()
    b = 0 if block is None else _place(counts, block)
    mask = _masked(counts, smallest)[b]
    ax = axes(ax, width=3.2, height=2.4)
    draw_block(ax, counts, b, mask, fitted=fitted)
    return ax


def histograms(
    model: AggregatedGLM,
    blocks: Iterable[str] | None = None,
    *,
    table: str | None = None,
    fitted: bool = True,
    smallest: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the published and fitted histograms of several blocks, one small panel each.

    Parameters
    ----------
    model : AggregatedGLM
        Fitted by likelihood to a release with counts.
    blocks : iterable of str, optional
        The twelve that fit worst, worst first, when left out.
    table, fitted, smallest
        As for :func:`histogram`.

    Returns
    -------
    Axes
        Its ``child_axes`` are the panels, in the order of ``blocks``.

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40)
    >>> release = unbin.aggregate(people.y, people.blocks, bins=5)
    >>> model = unbin.AggregatedGLM().fit(people.X, release.align(people.blocks))
    >>> ax = unbin.plots.histograms(model, ["01", "07", "23"])
    >>> len(ax.child_axes)
    3
    """
    counts = published(model, table)
    if blocks is not None and (isinstance(blocks, str) or not isinstance(blocks, Iterable)):
        blocks = [blocks]
    places = counts.worst_first()[:_MOST_BLOCKS]
    if blocks is not None:
        places = np.array([_place(counts, block) for block in blocks], dtype=np.int64)
    if len(places) == 0:
        raise ParameterError("blocks: names none, got an empty list; name some, or leave it out")
    columns = min(4, len(places))
    rows = -(-len(places) // columns)
    ax = axes(ax, width=2.4 * columns, height=2.1 * rows)
    ax.set_axis_off()
    mask = _masked(counts, smallest)
    for k, b in enumerate(places):
        left, bottom = k % columns / columns, 1 - (k // columns + 1) / rows
        bounds = (left + 0.2 / columns, bottom + 0.26 / rows, 0.76 / columns, 0.56 / rows)
        draw_block(ax.inset_axes(bounds), counts, int(b), mask[b], fitted=fitted)
    return ax


def recovered(z: ArrayLike, y: ArrayLike, edges: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw the histogram of recovered targets next to that of the true ones (the paper's figure 6).

    Parameters
    ----------
    z : (n,)
        Recovered targets: means from ``predict``, or ``impute``.
    y : (m,)
        True targets.
    edges : (K + 1,)
        Increasing; -inf and inf are open. A bin holds its upper edge.

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40)
    >>> release = unbin.aggregate(people.y, people.blocks, bins=5)
    >>> model = unbin.AggregatedGLM().fit(people.X, release.align(people.blocks))
    >>> edges = [-2, -1, 0, 1, 2]
    >>> ax = unbin.plots.recovered(model.impute(), people.y, edges)
    """
    ends = as_floats(edges, where="edges")
    if ends.ndim != 1 or len(ends) < 2 or not (np.diff(ends) > 0).all():
        raise ParameterError(
            f"edges: must increase, at least two of them, got {ends.tolist()}; sort them"
        )
    ax = axes(ax, height=3.0)
    place = np.arange(len(ends) - 1)
    for values, name, shift, colour in ((y, "true", -0.2, PALE), (z, "recovered", 0.2, BLUE)):
        count = _count(as_finite(values, where=name), ends)
        ax.bar(place + shift, count, 0.4, color=colour, label=name)
    ax.set_xlim(-0.6, len(ends) - 1.4)
    known = np.flatnonzero(np.isfinite(ends))
    fitting_ticks(ax, known.astype(np.float64) - 0.5, [amount(end) for end in ends[known]])
    ax.set_xlabel("outcome")
    ax.set_ylabel("people")
    legend_above(ax)
    return ax


def _masked(table: Published, smallest: int) -> BoolArray:
    return table.masked(check_whole("smallest", smallest, low=0))


def _place(table: Published, block: str) -> int:
    found = np.flatnonzero(table.blocks == str(block))
    if len(found) == 0:
        raise ParameterError(
            f"block: no counts were published for {str(block)!r}; name one of "
            f"{', '.join(repr(str(name)) for name in table.blocks[:3])}, …"
        )
    return int(found[0])


def _count(values: FloatArray, ends: FloatArray) -> IntArray:
    """Count values in (lower, upper]; the first bin holds its lower end too."""
    place = np.searchsorted(ends, values, side="left") - 1
    place[values == ends[0]] = 0
    inside = (place >= 0) & (place < len(ends) - 1)
    return np.bincount(place[inside], minlength=len(ends) - 1)


def draw_block(ax: Axes, table: Published, b: int, mask: BoolArray, *, fitted: bool) -> None:
    """Draw bars for published counts, with intervals, hatches for masked and points for fitted."""
    check_flag("fitted", fitted)
    valid = table.valid()[b]
    bars, seen = bars_of(table, b), ~mask[valid]
    count, expected = (values[b, valid] * bars.scale for values in (table.count, table.expected))
    width = bars.right - bars.left
    ax.bar(bars.left[seen], count[seen], width[seen], align="edge", color=PALE,
           edgecolor="white", linewidth=0.6, label="published")  # fmt: skip
    top = max(count[seen].max(initial=0.0), fitted * expected[seen].max(initial=0.0))
    top = top if top > 0 else 1.0
    ax.bar(bars.left[~seen], 0.12 * top, width[~seen], align="edge", color="none", edgecolor=GREY,
           hatch="////", linewidth=0, label="masked")  # fmt: skip
    low, high = (ends[b, valid] * bars.scale for ends in table.interval())
    rough = seen & (low < high)
    if rough.any():
        ax.vlines(bars.centre[rough], low[rough], high[rough], color=GREY, linewidth=1)
        top = max(top, high[rough].max())
    if fitted:
        ax.plot(bars.centre[seen], expected[seen], "o", color=BLUE, markersize=4.5, label="fitted")
    ax.set_ylim(0, 1.08 * top)
    ax.tick_params(labelsize=_SMALL)
    ax.set_xlim(bars.left[0], bars.right[-1])
    ax.margins(x=0)
    fitting_ticks(ax, bars.place, bars.labels)
    ax.yaxis.set_major_locator(MaxNLocator(3))
    short_ticks(ax, x=False)
    ax.set_xlabel("outcome (log scale)" if bars.log else "outcome", fontsize=_SMALL)
    ax.set_ylabel(bars.people, fontsize=_SMALL)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    title = f"{shorten(str(table.blocks[b]), 20)} ({table.n[b]:,})"
    ax.set_title(title, fontsize=9, parse_math=False)
