"""A picture of a release: what was published, before anything is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unbin._checks import check_kind
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.exceptions import ParameterError
from unbin.release import Release
from unbin.release.tables import Histogram
from unbin.release.words import people_text, plural

_BLUE, _ORANGE = "#2166ac", "#d95f02"
_LONGEST = 60
"""Characters of a name that a title has room for."""
_LONGEST_TICK = 28
"""Characters of the name of a category."""
_INTERVAL = "known only as an interval"
_MOST = 60
"""Blocks that have a line of their own."""


@dataclass(frozen=True, slots=True)
class _Bars:
    """Bins as they are drawn: from ``left`` to ``right``, ``low`` to ``high`` people.

    A bin that is open ends where a bin as wide as its neighbour would, or at 0.
    """

    left: FloatArray
    right: FloatArray
    low: FloatArray
    high: FloatArray
    open_below: bool
    open_above: bool

    def heights(self) -> tuple[FloatArray, FloatArray, bool]:
        """Return the least and the most people, per unit where bins differ in width."""
        width = self.right - self.left
        alike = bool(np.allclose(width, width[0]))
        unit = np.ones_like(width) if alike else width
        return self.low / unit, self.high / unit, alike


def release(release: Release, block: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw what was published about a block, or about all of them.

    Bars of different widths have areas, not heights, in proportion to their people. A bin that is
    open has a dashed end, drawn as wide as its neighbour. A count that is known only as an interval
    has a pale box over it. Categories are bars with their names, of all blocks together. Quantiles
    and values are steps up to the share of people below them, on an axis of their own beside a
    histogram; means are diamonds.

    Parameters
    ----------
    release : Release
    block : str, optional
        All blocks when left out: together where they have the same bins, else a line for each of
        the largest 60.

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40)
    >>> release = unbin.aggregate(people.y, people.blocks, bins=5)
    >>> ax = unbin.plots.release(release)  # the same as release.plot()
    """
    check_kind("release", release, Release, instead="what read_release() returns")
    if block is not None:
        if str(block) not in release.blocks:
            raise ParameterError(
                f"block: nothing was published of {str(block)!r}; name one of "
                f"{', '.join(repr(str(name)) for name in release.blocks[:3])}, …"
            )
        release = release.select([str(block)])
    ax = _axes(ax)
    _title(ax, release)
    has_bins, has_order = len(release.histogram.count) > 0, len(release.order_statistics.value) > 0
    if has_bins:
        (_draw_categories if release.categories else _draw_histogram)(ax, release)
    if has_order:
        beside = ax.twinx() if has_bins else ax
        _draw_steps(beside, release)
    if release.means is not None:
        _draw_means(ax, release, alone=not (has_bins or has_order))
    return ax


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        check_kind("ax", ax, Axes, instead="axes of matplotlib, or None")
    else:
        ax = Figure(figsize=(6.4, 3.6), layout="constrained").add_subplot()
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _title(ax: Axes, release: Release) -> None:
    n = int(release.n.sum())
    name = str(release.blocks[0]) if len(release) == 1 else plural(len(release), "block")
    name = _short(name, _LONGEST)
    # a name with dollar signs is no formula
    text = f"{name}, {people_text(n)}" if n else name
    ax.set_title(text, fontsize=10, loc="left", parse_math=False)


def _short(name: str, longest: int) -> str:
    """Return a name that can be printed, and has room."""
    name = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return name if len(name) <= longest else name[: longest - 1] + "…"


# -- categories ------------------------------------------------------------------------------------


def _draw_categories(ax: Axes, release: Release) -> None:
    """Draw a bar for each category, the first on top."""
    table, n = release.histogram, len(release.categories)
    code = table.lower.astype(np.int64)
    low, high = (np.bincount(code, ends, n) for ends in table.interval())
    place = np.arange(n)
    ax.barh(place, low, color=_BLUE, edgecolor="white", linewidth=0.6)
    rough = high > low
    if rough.any():
        ax.barh(place[rough], (high - low)[rough], left=low[rough], color="none", edgecolor=_BLUE,
                hatch="////", linewidth=0.6, alpha=0.6, label=_INTERVAL)  # fmt: skip
        ax.legend(frameon=False, fontsize=9)
    names = [_short(name, _LONGEST_TICK) for name in release.categories]
    ax.set_yticks(place, names, fontsize=9, parse_math=False)
    ax.invert_yaxis()
    ax.set_xlim(left=min(0.0, float(low.min())))
    ax.set_xlabel("people")


# -- histograms ------------------------------------------------------------------------------------


def _draw_histogram(ax: Axes, release: Release) -> None:
    ax.set_xlabel("outcome")
    together = _together(release.histogram)
    if together is None:
        chosen = _largest(release, np.diff(release.histogram.start) > 0)
        _draw_outlines(ax, [release.histogram.take(np.array([b])) for b in chosen])
        return
    bars = _bars(together)
    low, high, alike = bars.heights()
    width = bars.right - bars.left
    ax.bar(bars.left, low, width, align="edge", color=_BLUE, edgecolor="white", linewidth=0.6)
    rough = high > low
    if rough.any():
        ax.bar(bars.left[rough], (high - low)[rough], width[rough], low[rough], align="edge",
               color="none", edgecolor=_BLUE, hatch="////", linewidth=0.6, alpha=0.6,
               label=_INTERVAL)  # fmt: skip
        ax.legend(frameon=False, fontsize=9)
    _mark_open(ax, bars, high)
    ax.set_ylim(bottom=0)
    ax.set_ylabel("people" if alike else "people per unit")


def _mark_open(ax: Axes, bars: _Bars, high: FloatArray) -> None:
    """Dash the end of a bin that goes on, and point where it goes."""
    ends = ((bars.open_below, bars.left[0], high[0], "◂"), (bars.open_above, bars.right[-1],
            high[-1], "▸"))  # fmt: skip
    for is_open, place, height, mark in ends:
        if is_open:
            ax.plot([place, place], [0, height], color="white", linewidth=2.4)
            ax.plot([place, place], [0, height], "--", color=_BLUE, linewidth=1.2)
            ax.annotate(mark, (place, 0), (0, 2), textcoords="offset points", color=_ORANGE,
                        ha="right" if mark == "◂" else "left")  # fmt: skip


def _draw_outlines(ax: Axes, tables: Sequence[Histogram]) -> None:
    """Draw the histogram of each block as a line, all with the same area."""
    for table in tables:
        bars = _bars(table)
        middle = (bars.low + bars.high) / 2
        share = middle / max(middle.sum(), 1) / (bars.right - bars.left)
        ends = np.append(bars.left, bars.right[-1])
        # where bins leave a gap, nobody was counted
        ax.stairs(share, ends, color=_BLUE, alpha=max(0.08, 1 / len(tables) ** 0.5))
    ax.set_ylabel("share of people per unit")


def _together(table: Histogram) -> Histogram | None:
    """Return the bins of all blocks added up, None where blocks have different bins."""
    size = np.diff(table.start)
    size = size[size > 0]
    if (size != size[0]).any():
        return None
    lower, upper = (edges.reshape(-1, size[0]) for edges in (table.lower, table.upper))
    if (lower != lower[0]).any() or (upper != upper[0]).any():
        return None
    low, high = (ends.reshape(-1, size[0]).sum(axis=0) for ends in table.interval())
    start = np.array([0, size[0]])
    return Histogram(start, lower[0], upper[0], low, table.closed, low, high)


def _bars(table: Histogram) -> _Bars:
    """Return where the bins of one block are drawn."""
    left, right = table.lower.copy(), table.upper.copy()
    if (left == right).any():
        # single values: whole numbers have bars around them
        left, right = np.where(left == right, right - 0.5, left + 0.5), right + 0.5
        if table.closed == "left":
            alone = table.lower == table.upper
            left, right = np.where(alone, left, left - 1), np.where(alone, right, right - 1)
    below, above = bool(np.isinf(left[0])), bool(np.isinf(right[-1]))
    width = (right - left)[np.isfinite(right - left)]
    ends = np.append(left, right)
    usual = np.abs(ends[np.isfinite(ends)]).max(initial=1.0)
    if below:
        end = right[0] if np.isfinite(right[0]) else 0.0
        left[0] = end - (width[0] if len(width) else usual)
        left[0] = 0.0 if left[0] < 0 < end else left[0]
    if above:
        right[-1] = left[-1] + (width[-1] if len(width) else usual)
    low, high = (np.asarray(ends, dtype=np.float64) for ends in table.interval())
    return _Bars(left, right, low, high, below, above)


def _largest(release: Release, held: BoolArray) -> IntArray:
    """Return the blocks to draw, of many the largest."""
    places = np.flatnonzero(held)
    return np.asarray(places[np.argsort(-release.n[places], kind="stable")[:_MOST]])


# -- order statistics and means --------------------------------------------------------------------


def _draw_steps(ax: Axes, release: Release) -> None:
    order = release.order_statistics
    places = _largest(release, np.diff(order.start) > 0)
    people = np.repeat(release.n, np.diff(order.start))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(np.isfinite(order.quantile), order.quantile, order.rank / people)
    known = bool(np.isfinite(share).all())
    height = share if known else order.rank
    alpha = max(0.08, 1 / len(places) ** 0.5)
    for b in places:
        rows = slice(order.start[b], order.start[b + 1])
        ax.step(order.value[rows], height[rows], where="post", color=_ORANGE, marker="o",
                markersize=3, linewidth=1.2, alpha=alpha)  # fmt: skip
    ax.set_xlabel("outcome")
    ax.set_ylim(0, 1.02 if known else None)
    ax.set_ylabel("share of people up to the value" if known else "rank")


def _draw_means(ax: Axes, release: Release, *, alone: bool) -> None:
    assert release.means is not None
    means = np.sort(release.means[np.isfinite(release.means)])
    if alone:
        ax.plot(means, np.arange(len(means)), "D", color=_ORANGE, markersize=4)
        ax.set_yticks([])
        ax.set_ylabel("blocks, by their mean")
        ax.set_xlabel("mean")
        return
    ax.plot(means, np.zeros(len(means)), "D", color=_ORANGE, markersize=5, clip_on=False,
            transform=ax.get_xaxis_transform(), label="mean")  # fmt: skip
    ax.legend(frameon=False, fontsize=9)
