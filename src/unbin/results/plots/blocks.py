"""Blocks: how far each lies from what the fit expects, and which ones move the coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.special import ndtri

from unbin._checks import check_whole
from unbin._typing import BoolArray, FloatArray, IntArray, TextArray
from unbin.estimator import AggregatedGLM
from unbin.exceptions import ParameterError
from unbin.fitting.inputs import feature_names
from unbin.fitting.published import Published
from unbin.likelihood.data.counts import PublishedCounts, representative_values
from unbin.results.plots.drawing import (
    BLUE,
    GREY,
    ORANGE,
    axes,
    name_rows,
    one_target,
    short_ticks,
    shorten,
    table_place,
)
from unbin.results.tables import statistics_of, tables_of

_NAMED = 3
"""Blocks that are named in a scatter, if they are outside."""
_ROOM = 0.08
"""Share of the height of the axes that a name takes."""
_INSIDE = 0.95
_STEP = 0.25
"""Room above and below the residuals."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Where the blocks of a table lie, and where the fit expects them.

    Attributes
    ----------
    blocks : (B,) text
    n : (B,)
    residual : (B,)
        In standard deviations.
    fitted : (B,)
        What the fit expects: a mean. Of a table of quantiles the middle published one.
    observed : (B,) or None
        The mean that was published, or that of the histogram; None for quantiles.
    share, expected_share, value : (B, q) or None
        Of quantiles: the share of people at or below each, as published and expected; NaN in
        padding.
    """

    blocks: TextArray
    n: IntArray
    residual: FloatArray
    fitted: FloatArray
    observed: FloatArray | None = None
    share: FloatArray | None = None
    expected_share: FloatArray | None = None
    value: FloatArray | None = None


def levels_of(model: AggregatedGLM, table: str | None = None, *, smallest: int = 0) -> Levels:
    """Return where blocks lie; those that a report would mask, in part or whole, are left out."""
    check_whole("smallest", smallest, low=0)
    k = table_place(one_target(model), table)
    statistics = statistics_of(model)
    found = statistics[k or 0] if statistics else None
    if found is None or found.to_mask is None:
        raise ParameterError(
            f"blocks: need a likelihood fit that holds what was published, got a fit by "
            f"{model.method_!r} without; fit method='likelihood', or save it with public=True, "
            "where a saved model has lost its counts"
        )
    shown = found.shown_names(smallest)
    if found.means is not None:
        means = found.means
        may = np.isin(means.blocks, list(shown))
        return Levels(
            means.blocks[may], means.n[may], means.residual[may], means.expected[may],
            means.mean[may],
        )  # fmt: skip
    if found.quantiles is not None:
        own = found.quantiles
        may = np.isin(own.blocks, list(shown))
        share, expected, value = (each[may] for each in (own.share, own.expected, own.value))
        return Levels(
            own.blocks[may], own.n[may], own.residual[may], _middle(share, value), None, share,
            expected, value,
        )  # fmt: skip
    counts = found.counts
    assert counts is not None
    may = np.isin(counts.blocks, list(shown))
    if not counts.shared():
        return _quantiles(counts, may)
    value = _bin_values(counts)
    seen, expected = (np.maximum(each[may], 0.0) for each in (counts.count, counts.expected))
    observed, fitted = ((each @ value) / each.sum(axis=1) for each in (seen, expected))
    return Levels(counts.blocks[may], counts.n[may], counts.residual[may], fitted, observed)


def _bin_values(table: Published) -> FloatArray:
    """Return a value for each bin that all blocks share, (K,)."""
    everybody = table.together()
    half = 0.5 * table.whole
    counts = PublishedCounts(
        everybody.n,
        table.lower - half,
        table.upper + half,
        np.maximum(everybody.count, 0.0),
        np.ones(1, dtype=bool),
    )
    return np.asarray(representative_values(counts)[0])


def _quantiles(table: Published, may: BoolArray) -> Levels:
    """Return the shares below the edges of bins that each block has for itself."""
    valid = table.valid()[may]
    inner = valid[:, :-1] & np.isfinite(table.upper[may, :-1]) & valid[:, 1:]

    def below(count: FloatArray) -> FloatArray:
        count = np.where(valid, np.maximum(count[may], 0.0), 0.0)
        share = np.cumsum(count, axis=1) / np.maximum(count.sum(axis=1, keepdims=True), 1e-300)
        return np.where(inner, share[:, :-1], np.nan)

    share, value = below(table.count), np.where(inner, table.upper[may, :-1], np.nan)
    return Levels(
        table.blocks[may], table.n[may], table.residual[may], _middle(share, value), None, share,
        below(table.expected), value,
    )  # fmt: skip


def _middle(share: FloatArray, value: FloatArray) -> FloatArray:
    """Return the value of each block whose share is nearest to a half."""
    nearest = np.argmin(np.nan_to_num(np.abs(share - 0.5), nan=np.inf), axis=1)
    return np.asarray(value[np.arange(len(value)), nearest])


def residuals(
    model: AggregatedGLM,
    *,
    table: str | None = None,
    smallest: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw how far each block lies from its expectation, against what the fit expects.

    If the model is right about 95 % of the blocks lie in the band, without a trend. A table of
    quantiles has the middle published one on the x axis.

    Parameters
    ----------
    model : AggregatedGLM
        Fitted by likelihood.
    table : str, optional
        One of the tables of a fit to several; the first when left out.
    smallest : int
        Blocks with counts of fewer people are left out.

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40)
    >>> release = unbin.aggregate(people.y, people.blocks, bins=5)
    >>> model = unbin.AggregatedGLM().fit(people.X, release.align(people.blocks))
    >>> ax = unbin.plots.residuals(model)
    """
    found = levels_of(model, table, smallest=smallest)
    ax = axes(ax, width=4.8, height=3.0)
    band = ndtri(0.5 + _INSIDE / 2)
    ax.axhspan(-band, band, color=GREY, alpha=0.12, linewidth=0)
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.plot(found.fitted, found.residual, "o", color=BLUE, markersize=4, alpha=0.7, label="blocks")
    reach = max(float(np.abs(found.residual).max(initial=0.0)) + _STEP, band + _STEP)
    ax.set_ylim(-reach, reach)
    _name_farthest(ax, found, band)
    quantiles = found.observed is None
    ax.set_xlabel("published middle quantile" if quantiles else "fitted mean of the block")
    ax.set_ylabel("residual (standard deviations)")
    _few_ticks(ax)
    return ax


def observed_expected(
    model: AggregatedGLM,
    *,
    table: str | None = None,
    smallest: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the published mean of each block against the fitted one.

    For a histogram both are means of the bins' midpoints. For quantiles, which determine no mean,
    the share of people that the fit expects at or below each published value is drawn against the
    published share.

    Parameters
    ----------
    model, table, smallest
        As for :func:`residuals`.

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40)
    >>> release = unbin.aggregate(people.y, people.blocks, bins=5)
    >>> model = unbin.AggregatedGLM().fit(people.X, release.align(people.blocks))
    >>> ax = unbin.plots.observed_expected(model)
    """
    found = levels_of(model, table, smallest=smallest)
    ax = axes(ax, width=4.8, height=3.0)
    if found.observed is None:
        _draw_shares(ax, found)
    else:
        ax.plot(found.fitted, found.observed, "o", color=BLUE, markersize=4, alpha=0.7)
        ends = _ends(np.append(found.fitted, found.observed))
        ax.plot(ends, ends, color=GREY, linewidth=0.8)
        ax.set_xlabel("fitted mean of the block")
        ax.set_ylabel("published mean")
        _few_ticks(ax)
    return ax


def influence(model: AggregatedGLM, *, most: int = 10, ax: Axes | None = None) -> Axes:
    """Draw the blocks that move a coefficient most, with the coefficient and the amount.

    Bars show by how much the coefficient would fall if the block were left out, to first order, in
    standard errors.

    Parameters
    ----------
    model : AggregatedGLM
        Fitted by likelihood.
    most : int
        Blocks to draw, at most twenty.

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40)
    >>> release = unbin.aggregate(people.y, people.blocks, bins=5)
    >>> model = unbin.AggregatedGLM().fit(people.X, release.align(people.blocks))
    >>> ax = unbin.plots.influence(model, most=5)
    """
    found = one_target(model).diagnostics_.influence
    if found is None:
        raise ParameterError(
            f"influence: needs a likelihood fit, got a fit by {model.method_!r} without; fit "
            "method='likelihood', or save it with public=True, where a saved model has lost it"
        )
    return draw_influence(
        model, np.arange(len(found.block))[: check_whole("most", most, low=1)], ax
    )


def draw_influence(model: AggregatedGLM, chosen: IntArray, ax: Axes | None) -> Axes:
    """Draw some of the influential blocks."""
    found = model.diagnostics_.influence
    assert found is not None
    names, tables = feature_names(model), [table.name for table in tables_of(model)]
    shift = found.shift[chosen]
    term = np.abs(shift).argmax(axis=1)
    size = shift[np.arange(len(chosen)), term]
    ax = axes(ax, width=5.2, height=0.9 + 0.3 * len(chosen))
    ax.barh(np.arange(len(chosen)), size, 0.6, color=np.where(size < 0, ORANGE, BLUE))
    ax.axvline(0, color=GREY, linewidth=0.8)
    own = [f"{tables[found.table[k]]}: " if len(tables) > 1 else "" for k in chosen]
    pairs = zip(own, chosen, strict=True)
    name_rows(ax, [f"{table}{found.block[k]}" for table, k in pairs])
    reach = max(float(np.abs(size).max(initial=0.0)), 0.1)
    ax.set_xlim(-1.1 * reach, 1.1 * reach)
    for row, (j, at) in enumerate(zip(term, size, strict=True)):
        side = -1 if at >= 0 else 1  # where the bar is not
        ax.annotate(shorten(names[j], 16), (0, row), xytext=(4 * side, 0), va="center",
                    textcoords="offset points", ha="left" if side > 0 else "right",
                    fontsize=8, parse_math=False)  # fmt: skip
    ax.set_xlabel("what the block adds to the coefficient (SE)")
    ax.xaxis.set_major_locator(MaxNLocator(5))
    short_ticks(ax, y=False)
    return ax


def _draw_shares(ax: Axes, found: Levels) -> None:
    assert found.share is not None
    assert found.expected_share is not None
    assert found.value is not None
    for k, share in enumerate(np.nanmedian(found.share, axis=0)):
        ax.axhline(100 * share, color=GREY, linewidth=0.8)
        ax.plot(found.value[:, k], 100 * found.expected_share[:, k], "o", color=BLUE, markersize=4,
                alpha=0.7)  # fmt: skip
    ax.set_xlabel("published quantile")
    ax.set_ylabel("fitted share at or below (%)")
    ax.set_ylim(0, 100)
    _few_ticks(ax)


def _name_farthest(ax: Axes, found: Levels, band: float) -> None:
    """Name the blocks farthest outside the band."""
    order = np.argsort(-np.abs(found.residual), kind="stable")[:_NAMED]
    bottom, top = ax.get_ylim()
    named: list[float] = []
    for b in order[np.abs(found.residual[order]) > band]:
        at = found.residual[b] / (top - bottom)
        if any(abs(at - other) < _ROOM for other in named):
            continue  # it might cover a name that is there
        named.append(at)
        right = found.fitted[b] > np.median(found.fitted)
        ax.annotate(shorten(str(found.blocks[b]), 16), (found.fitted[b], found.residual[b]),
                    xytext=(-5 if right else 5, 0), textcoords="offset points", fontsize=8,
                    ha="right" if right else "left", va="center", parse_math=False)  # fmt: skip


def _few_ticks(ax: Axes) -> None:
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.yaxis.set_major_locator(MaxNLocator(5))
    short_ticks(ax)


def _ends(values: FloatArray) -> FloatArray:
    return np.array([values.min(), values.max()]) if len(values) else np.zeros(2)
