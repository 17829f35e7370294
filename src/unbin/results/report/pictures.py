"""The pictures of a report, and who may not be in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from unbin.results.tables import drawable_tables, shares_by_table, tables_of

_MOST_PANELS = 12
_MOST_TERMS = 40
_MOST_OF_TABLES = 36
"""Panels of all of several tables, unless there are so many that each has two."""
_REVEALING = "Its counts are not drawn: with them, counts that are masked could be worked out."
_LESS_KNOWN = (
    "Its counts are not drawn: without the people whose outcome is known they would tell these "
    "outcomes."
)


@dataclass(frozen=True, slots=True)
class Panels:
    """Small pictures of blocks, and a sentence on which they are."""

    pictures: tuple[Markup, ...]
    note: str


@dataclass(frozen=True, slots=True)
class Pictures:
    """All pictures of a report.

    Panels are None where no counts were published. Of several tables, ``tables`` has the panels of
    each, and ``information`` what each told.
    """

    coefficients: Markup
    path: Markup | None
    published: Panels | None
    fitted: Panels | None
    information: Markup | None
    tables: tuple[Panels, ...]


def draw(
    model: AggregatedGLM, oracle: AggregatedGLM | ArrayLike | None, smallest: Sequence[int]
) -> Pictures:
    """Draw everything; call it under the settings of :mod:`unbin.results.report.svg`.

    Parameters
    ----------
    model : AggregatedGLM
    oracle : AggregatedGLM or (d,), optional
    smallest : sequence of int
        Counts of fewer people are masked, table by table.
    """
    table = model.published_
    path = None
    if len(model.objective_path_):
        axes = plots.objective_path(model, ax=_axes(4.2, 2.4))
        path = inline_svg(axes, name="path", title="Progress of the solver")
    published, fitted = None, None
    tables = _of_tables(model, smallest) if tables_of(model) else ()
    if not tables and isinstance(table, Published):
        counts = _Counts(model, table, smallest[0])
        published, fitted = counts.published(), counts.fitted(counts.largest())
    return Pictures(
        _coefficients(model, oracle), path, published, fitted, _information(model), tables
    )


def _coefficients(model: AggregatedGLM, oracle: AggregatedGLM | ArrayLike | None) -> Markup:
    n_terms = min(model.n_features_in_, _MOST_TERMS)
    axes = _axes(5.2, 1.1 + 0.3 * n_terms)
    plots.coefficients(model, oracle, most=_MOST_TERMS, ax=axes)
    return inline_svg(axes, name="coefficients", title="Coefficients with their intervals")


@dataclass(frozen=True, slots=True)
class _Counts:
    """The counts of a table, one of several if it has a name, as far as they may be drawn."""

    model: AggregatedGLM
    table: Published
    smallest: int
    name: str | None = None
    prefix: str = ""
    most: int = _MOST_PANELS

    def published(self) -> Panels:
        """Draw the largest blocks."""
        shown = self.largest()
        panels = [self._panel(b, f"p{k}", fitted=False) for k, b in enumerate(shown)]
        return self._panels(panels, f"{len(shown)} {self._of_all()}, the largest first.")

    def fitted(self, beside: IntArray | None = None) -> Panels:
        """Draw the blocks that fit worst, and all together if that is safe.

        ``beside`` are blocks that are shown elsewhere on the page.
        """
        shown, panels = self._chosen(self.table.worst_first()), []
        known = shown if beside is None else np.union1d(beside, shown)
        if len(shown) and total_is_safe(self.table, known, self.smallest):
            axes = plots.histogram(self.model, table=self.name, ax=_panel_axes())
            title = "All blocks: published and fitted"
            panels = [inline_svg(axes, name=f"{self.prefix}all", title=title)]
            shown = shown[: self.most - 1]
        panels += [self._panel(b, f"f{k}", fitted=True) for k, b in enumerate(shown)]
        return self._panels(panels, f"{len(shown)} {self._of_all()}, the worst fit first.")

    def largest(self) -> IntArray:
        """Return the places of the blocks to be drawn, the largest first."""
        return self._chosen(self.table.largest_first())

    def _may(self) -> BoolArray:
        seen = self.table.valid() & ~self.table.masked(self.smallest)
        return self.table.drawable(self.smallest) & seen.any(axis=1)

    def _chosen(self, order: IntArray) -> IntArray:
        return order[self._may()[order]][: self.most]

    def _of_all(self) -> str:
        return f"of {plural(len(self.table), 'block')}"

    def _panels(self, panels: list[Markup], note: str) -> Panels:
        left_out = int((~self._may()).sum())
        if left_out == len(self.table):
            few = f"No block has counts of {self.smallest} people or more, so none is drawn."
            return Panels((), few)
        if left_out:
            note += f" {plural(left_out, 'block')} whose counts are too small left out."
        return Panels(tuple(panels), note)

    def _panel(self, b: int, name: str, *, fitted: bool) -> Markup:
        block = str(self.table.blocks[b])
        axes = plots.histogram(
            self.model, block, table=self.name, fitted=fitted, smallest=self.smallest,
            ax=_panel_axes(),
        )  # fmt: skip
        what = "published and fitted histogram" if fitted else "published histogram"
        title = f"Block {plots.shorten(block, 60)}: {what}"
        return inline_svg(axes, name=f"{self.prefix}{name}", title=title)


def _information(model: AggregatedGLM) -> Markup | None:
    found = shares_by_table(model)
    if found is None:
        return None
    n_terms = min(model.n_features_in_, _MOST_TERMS)
    axes = _axes(5.2, 1.1 + 0.3 * n_terms + 0.11 * len(found[0]))
    plots.information(model, most=_MOST_TERMS, ax=axes)
    return inline_svg(axes, name="information", title="What each table told")


def _of_tables(model: AggregatedGLM, smallest: Sequence[int]) -> tuple[Panels, ...]:
    """Draw the blocks of each table that fit worst, of many tables a few of each."""
    tables = tables_of(model)
    may = drawable_tables([table.published for table in tables], smallest)
    most = int(np.clip(_MOST_OF_TABLES // sum(may), 2, _MOST_PANELS)) if any(may) else 0
    found = []
    for k, (table, least) in enumerate(zip(tables, smallest, strict=True)):
        if table.published is None:
            found.append(Panels((), "No counts were published to draw."))
        elif not may[k]:
            found.append(Panels((), _LESS_KNOWN if table.published.less_known else _REVEALING))
        else:
            counts = _Counts(model, table.published, least, table.name, f"t{k}-", most)
            found.append(counts.fitted())
    return tuple(found)


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
