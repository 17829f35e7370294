"""The pictures of a report, and who may not be in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unbin import plots
from unbin.alignment import SMALL
from unbin.estimator import AggregatedGLM
from unbin.published import Published
from unbin.report.svg import inline_svg
from unbin.typing import ArrayLike, IntArray
from unbin.words import plural

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


def draw(model: AggregatedGLM, oracle: AggregatedGLM | ArrayLike | None) -> Pictures:
    """Draw everything; call it under the settings of :mod:`unbin.report.svg`."""
    table = model.published_
    path = None
    if len(model.objective_path_):
        axes = plots.objective_path(model, ax=_axes(4.2, 2.4))
        path = inline_svg(axes, name="path", title="Progress of the solver")
    published, fitted = None, None
    if isinstance(table, Published):
        published, fitted = _all_panels(model, table)
    return Pictures(_coefficients(model, oracle), path, published, fitted)


def _coefficients(model: AggregatedGLM, oracle: AggregatedGLM | ArrayLike | None) -> Markup:
    n_terms = min(model.n_features_in_, _MOST_TERMS)
    axes = _axes(5.2, 1.1 + 0.3 * n_terms)
    plots.coefficients(model, oracle, most=_MOST_TERMS, ax=axes)
    return inline_svg(axes, name="coefficients", title="Coefficients with their intervals")


def _all_panels(model: AggregatedGLM, table: Published) -> tuple[Panels, Panels]:
    seen = table.valid() & ~table.masked(SMALL)
    may = table.drawable(SMALL) & seen.any(axis=1)
    first, worst = (
        order[may[order]][:_MOST_PANELS] for order in (table.largest_first(), table.worst_first())
    )
    fitted = []
    if may.any() and total_is_safe(table, np.union1d(first, worst)):
        axes = plots.histogram(model, ax=_panel_axes())
        fitted = [inline_svg(axes, name="all", title="All blocks: published and fitted")]
        worst = worst[: _MOST_PANELS - 1]
    published = [_panel(model, table, b, f"p{k}", fitted=False) for k, b in enumerate(first)]
    fitted += [_panel(model, table, b, f"f{k}", fitted=True) for k, b in enumerate(worst)]
    left_out = int((~may).sum())
    small = f" {plural(left_out, 'block')} with too few people left out." if left_out else ""
    of_all = f"of {plural(len(table), 'block')}"
    if not may.any():
        small = f"No block has counts of {SMALL} people or more, so none is drawn."
        return Panels((), small), Panels((), small)
    return (
        Panels(tuple(published), f"{len(first)} {of_all}, the largest first.{small}"),
        Panels(tuple(fitted), f"{len(worst)} {of_all}, the worst fit first.{small}"),
    )


def _panel(model: AggregatedGLM, table: Published, b: int, name: str, *, fitted: bool) -> Markup:
    block = str(table.blocks[b])
    axes = plots.histogram(model, block, fitted=fitted, smallest=SMALL, ax=_panel_axes())
    what = "published and fitted histogram" if fitted else "published histogram"
    return inline_svg(axes, name=name, title=f"Block {plots.shorten(block, 60)}: {what}")


def total_is_safe(table: Published, shown: IntArray) -> bool:
    """Return whether the sums over all blocks tell nothing new of what is masked or not drawn.

    Whoever subtracts the counts shown from a sum learns that of the others: it must be a sum of
    at least two blocks and ``SMALL`` people.
    """
    if not table.shared() or table.together().masked(SMALL).any():
        return False
    seen = np.zeros(table.count.shape, dtype=bool)
    seen[shown] = ~table.masked(SMALL)[shown]
    rest = np.where(seen, 0, table.count).sum(axis=0)
    blocks = (~seen).sum(axis=0)
    return bool(((blocks == 0) | ((blocks > 1) & (rest >= SMALL))).all())


def _axes(width: float, height: float) -> Axes:
    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def _panel_axes() -> Axes:
    """Return small axes at a fixed place: laying out every panel would take seconds."""
    return Figure(figsize=(2.6, 1.9)).add_axes((0.15, 0.13, 0.83, 0.73))
