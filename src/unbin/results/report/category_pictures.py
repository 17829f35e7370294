"""The pictures of a report on categories, and who may not be in them."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from unbin.classifier import AggregatedClassifier
from unbin.fitting.categorical import CategoryModel
from unbin.fitting.published import Published
from unbin.results import plots
from unbin.results.plots.categories import draw_agreement
from unbin.results.report.svg import inline_svg


def heat_map(model: AggregatedClassifier, smallest: int) -> Markup | None:
    """Draw the share of each group in each category; None where nothing may be drawn."""
    totals = model._model.totals
    if totals is None or not (totals.people >= max(smallest, 1)).any():
        return None
    axes = plots.cells(model, smallest=smallest)
    return inline_svg(axes, name="cells", title="Share of each group in each category")


def agreement(
    model: CategoryModel, counts: Published, smallest: int, most: int
) -> tuple[Markup, ...]:
    """Draw published against expected shares of the largest categories, a panel for each."""
    shown = counts.whole_blocks(smallest)
    if not shown.any():
        return ()
    largest = np.argsort(-counts.count[shown].sum(axis=0), kind="stable")[:most]
    found = []
    for k in np.sort(largest):
        axes = Figure(figsize=(2.7, 2.4)).add_axes((0.22, 0.2, 0.74, 0.68))
        name = model.classes[k]
        draw_agreement(axes, counts, int(k), name, shown)
        title = f"{plots.shorten(name, 60)}: published against expected shares of the blocks"
        found.append(inline_svg(axes, name=f"category{k}", title=title))
    return tuple(found)
