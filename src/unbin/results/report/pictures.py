"""The pictures of a report, and who may not be in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unbin._typing import ArrayLike, BoolArray, IntArray
from unbin.estimator import AggregatedGLM
from unbin.likelihood.published import Published
from unbin.release.derivation import possible_counts
from unbin.release.words import plural
from unbin.results import plots
from unbin.results.report.svg import inline_svg

_MOST_PANELS = 12
_MOST_TERMS = 40


@dataclass(frozen=True, slots=True)
class Panels:
    """Small pictures of blocks, and a sentence on which they are."""

    pictures: tuple[Markup, ...]
    note: str


@dataclass(frozen=True, slots=True)
class Pictures:
    """All pictures of a report; panels are None where no counts were published."""

    coefficients: Markup
    path: Markup | None
    published: Panels | None
    fitted: Panels | None


def draw(model: AggregatedGLM, oracle: AggregatedGLM | ArrayLike | None, smallest: int) -> Pictures:
    """Draw everything; call it under the settings of :mod:`unbin.results.report.svg`.

    Parameters
    ----------
    model : AggregatedGLM
    oracle : AggregatedGLM or (d,), optional
    smallest : int
        Counts of fewer people are masked.
    """
    table = model.published_
    path = None
    if len(model.objective_path_):
        axes = plots.objective_path(model, ax=_axes(4.2, 2.4))
        path = inline_svg(axes, name="path", title="Progress of the solver")
    published, fitted = None, None
    if isinstance(table, Published):
        published, fitted = _all_panels(model, table, smallest)
    return Pictures(_coefficients(model, oracle), path, published, fitted)


def _coefficients(model: AggregatedGLM, oracle: AggregatedGLM | ArrayLike | None) -> Markup:
    n_terms = min(model.n_features_in_, _MOST_TERMS)
    axes = _axes(5.2, 1.1 + 0.3 * n_terms)
    plots.coefficients(model, oracle, most=_MOST_TERMS, ax=axes)
    return inline_svg(axes, name="coefficients", title="Coefficients with their intervals")


def _all_panels(model: AggregatedGLM, table: Published, smallest: int) -> tuple[Panels, Panels]:
    seen = table.valid() & ~table.masked(smallest)
    may = table.drawable(smallest) & seen.any(axis=1)
    first, worst = (
        order[may[order]][:_MOST_PANELS] for order in (table.largest_first(), table.worst_first())
    )
    fitted = []
    if may.any() and total_is_safe(table, np.union1d(first, worst), smallest):
        axes = plots.histogram(model, ax=_panel_axes())
        fitted = [inline_svg(axes, name="all", title="All blocks: published and fitted")]
        worst = worst[: _MOST_PANELS - 1]
    panel = partial(_panel, model, table, smallest=smallest)
    published = [panel(b, f"p{k}", fitted=False) for k, b in enumerate(first)]
    fitted += [panel(b, f"f{k}", fitted=True) for k, b in enumerate(worst)]
    left_out = int((~may).sum())
    small = f" {plural(left_out, 'block')} whose counts are too small left out." if left_out else ""
    of_all = f"of {plural(len(table), 'block')}"
    if not may.any():
        small = f"No block has counts of {smallest} people or more, so none is drawn."
        return Panels((), small), Panels((), small)
    return (
        Panels(tuple(published), f"{len(first)} {of_all}, the largest first.{small}"),
        Panels(tuple(fitted), f"{len(worst)} {of_all}, the worst fit first.{small}"),
    )


def _panel(
    model: AggregatedGLM, table: Published, b: int, name: str, *, fitted: bool, smallest: int
) -> Markup:
    block = str(table.blocks[b])
    axes = plots.histogram(model, block, fitted=fitted, smallest=smallest, ax=_panel_axes())
    what = "published and fitted histogram" if fitted else "published histogram"
    return inline_svg(axes, name=name, title=f"Block {plots.shorten(block, 60)}: {what}")


def total_is_safe(table: Published, shown: IntArray, smallest: int) -> bool:
    """Return whether the sums over all blocks reveal too little of what is masked or not drawn.

    Whoever subtracts the counts shown from a sum learns that of the others: it must be a sum of
    at least two blocks and ``smallest`` people. And each masked count must still have
    ``smallest`` values that agree with the sums of its block and of its bin.
    """
    if smallest == 0 or not table.shared():
        return table.shared()
    if table.together().masked(smallest).any():
        return False
    mask = table.masked(smallest)
    seen = np.zeros(table.count.shape, dtype=bool)
    seen[shown] = ~mask[shown]
    rest = np.where(seen, 0, table.count).sum(axis=0)
    blocks = (~seen).sum(axis=0)
    if not ((blocks == 0) | ((blocks > 1) & (rest >= smallest))).all():
        return False
    return not mask[shown].any() or _enough_left(table, mask, shown, smallest)


def _enough_left(table: Published, mask: BoolArray, shown: IntArray, smallest: int) -> bool:
    """Return whether sums of blocks and bins leave each masked count enough values."""
    low, high = (np.rint(end).astype(np.int64) for end in table.interval())
    n, sums = table.n[shown], np.rint(table.count.sum(axis=0)).astype(np.int64)
    small = low[shown] < smallest
    people = np.broadcast_to(n[:, None], small.shape)
    low = np.where(mask[shown], np.where(small, 0, smallest), low[shown])
    high = np.where(mask[shown], np.where(small, smallest - 1, people), high[shown])
    if len(shown) < len(table):  # all other blocks together
        left = int(table.n.sum() - n.sum())
        low = np.vstack([low, np.zeros_like(sums)])
        high = np.vstack([high, np.full_like(sums, left)])
        n = np.append(n, left)
    found = possible_counts(low, high, (n, n), (sums, sums))
    values = (found.high - found.low + 1)[: len(shown)]
    return found.exact and bool((values[mask[shown]] >= smallest).all())


def _axes(width: float, height: float) -> Axes:
    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def _panel_axes() -> Axes:
    """Return small axes at a fixed place: laying out every panel would take seconds."""
    return Figure(figsize=(2.6, 1.9)).add_axes((0.15, 0.13, 0.83, 0.73))
