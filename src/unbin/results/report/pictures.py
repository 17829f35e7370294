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
from unbin.exceptions import ParameterError
from unbin.fitting.published import Published
from unbin.people.encoding import Encoding
from unbin.release.derivation import possible_counts
from unbin.release.words import plural
from unbin.results import plots
from unbin.results.plots.blocks import draw_influence, levels_of
from unbin.results.plots.effects import curved_columns
from unbin.results.plots.terms import differ_wildly
from unbin.results.report.svg import inline_svg
from unbin.results.tables import Statistics, drawable_tables, shares_by_table, statistics_of

_MOST_PANELS = 12
_MOST_WORST = 8
_MOST_TERMS = 40
_MOST_INFLUENTIAL = 10
_MOST_OF_TABLES = 36
"""Panels of all of several tables, unless there are so many that each has two."""
_REVEALING = "Its numbers are not drawn: with them, counts that are masked could be worked out."
_LESS_KNOWN = (
    "Its numbers are not drawn: without the people whose outcome is known they would tell these "
    "outcomes."
)
_NOTHING = "Nothing of it was kept to draw."


@dataclass(frozen=True, slots=True)
class Panels:
    """Small pictures of blocks, and a sentence on which they are."""

    pictures: tuple[Markup, ...]
    note: str


@dataclass(frozen=True, slots=True)
class TablePictures:
    """What is drawn of one table; pictures are None where that is nothing, and ``note`` says why.

    Attributes
    ----------
    name : str
        Empty of a single table.
    note : str
        Which blocks are drawn.
    residuals, levels : Markup or None
    fitted, published : Panels or None
        Histograms of the blocks that fit worst, and of the largest.
    quantiles : bool
        Whether ``levels`` are shares below published quantiles.
    """

    name: str
    note: str
    residuals: Markup | None = None
    levels: Markup | None = None
    fitted: Panels | None = None
    published: Panels | None = None
    quantiles: bool = False


@dataclass(frozen=True, slots=True)
class Pictures:
    """All pictures of a report.

    ``information`` is None for one table, ``path`` and ``influence`` where nothing was kept.
    ``standardised`` tells whether coefficients are on the standardised scale; ``curves`` has those
    of splines, by column.
    """

    coefficients: Markup
    standardised: bool
    curves: tuple[tuple[str, Markup], ...]
    information: Markup | None
    tables: tuple[TablePictures, ...]
    influence: Markup | None
    path: Markup | None


def draw(
    model: AggregatedGLM,
    oracle: AggregatedGLM | ArrayLike | None,
    smallest: Sequence[int],
    encoding: Encoding | None = None,
) -> Pictures:
    """Draw everything; call it under the settings of :mod:`unbin.results.report.svg`.

    Parameters
    ----------
    model : AggregatedGLM
    oracle : AggregatedGLM or (d,), optional
    smallest : sequence of int
        Counts of fewer people are masked, table by table.
    encoding : Encoding, optional
        What the formula became.
    """
    path = None
    if len(model.objective_path_):
        axes = plots.objective_path(model, ax=_axes(4.2, 2.4))
        path = inline_svg(axes, name="path", title="Progress of the solver")
    statistics = statistics_of(model)
    may = drawable_tables([each.to_mask for each in statistics], smallest)
    standardised = differ_wildly(model)
    return Pictures(
        _coefficients(model, oracle, standardised=standardised),
        standardised,
        _curves(model, encoding),
        _information(model),
        _of_tables(model, statistics, smallest, may),
        _influence(model, statistics, smallest, may),
        path,
    )


def _coefficients(
    model: AggregatedGLM, oracle: AggregatedGLM | ArrayLike | None, *, standardised: bool
) -> Markup:
    n_terms = min(model.n_features_in_, _MOST_TERMS)
    axes = _axes(5.6, 1.1 + 0.3 * n_terms)
    plots.coefficients(model, oracle, most=_MOST_TERMS, standardised=standardised, ax=axes)
    return inline_svg(axes, name="coefficients", title="Coefficients with their intervals")


def _curves(model: AggregatedGLM, encoding: Encoding | None) -> tuple[tuple[str, Markup], ...]:
    """Draw the effects of columns with splines whose range is known."""
    found = []
    for k, column in enumerate([] if encoding is None else curved_columns(encoding)):
        try:
            axes = plots.effect(model, column, encoding=encoding, ax=_axes(4.2, 2.6))
        except ParameterError:  # a polynomial does not know its range
            continue
        title = f"Effect of {plots.shorten(column, 60)}"
        found.append((column, inline_svg(axes, name=f"curve{k}", title=title)))
    return tuple(found)


def _information(model: AggregatedGLM) -> Markup | None:
    found = shares_by_table(model)
    if found is None:
        return None
    n_terms = min(model.n_features_in_, _MOST_TERMS)
    axes = _axes(5.6, 1.1 + 0.3 * n_terms + 0.11 * len(found[0]))
    plots.information(model, most=_MOST_TERMS, ax=axes)
    return inline_svg(axes, name="information", title="What each table told")


def _influence(
    model: AggregatedGLM,
    statistics: Sequence[Statistics],
    smallest: Sequence[int],
    may: Sequence[bool],
) -> Markup | None:
    """Draw the influential blocks of which nothing is masked."""
    found = model.diagnostics_.influence
    if found is None:
        return None
    names = [
        each.shown_names(least) if drawn else set()
        for each, least, drawn in zip(statistics, smallest, may, strict=True)
    ]
    pairs = zip(found.table, found.block, strict=True)
    shown = np.flatnonzero([str(block) in names[table] for table, block in pairs])
    shown = shown[:_MOST_INFLUENTIAL]
    if len(shown) == 0:
        return None
    axes = draw_influence(model, shown, _axes(5.6, 1.0 + 0.3 * len(shown)))
    return inline_svg(axes, name="influence", title="Blocks that move a coefficient most")


def _of_tables(
    model: AggregatedGLM,
    statistics: Sequence[Statistics],
    smallest: Sequence[int],
    may: Sequence[bool],
) -> tuple[TablePictures, ...]:
    """Draw each table: residuals, the blocks that fit worst, the largest; of many a few of each."""
    several = len(statistics) > 1
    most = int(np.clip(_MOST_OF_TABLES // sum(may), 2, _MOST_PANELS)) if any(may) else 0
    found = []
    for k, (each, least) in enumerate(zip(statistics, smallest, strict=True)):
        if each.to_mask is None:
            found.append(TablePictures(each.name, _NOTHING))
        elif not may[k]:
            why = _LESS_KNOWN if each.to_mask.less_known else _REVEALING
            found.append(TablePictures(each.name, why))
        else:
            table = each.name if several else None
            found.append(_Drawn(model, each, least, table, f"t{k}-", most).pictures())
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A table, one of several if it has a name, as far as it may be drawn."""

    model: AggregatedGLM
    statistics: Statistics
    smallest: int
    name: str | None
    prefix: str
    most: int

    def pictures(self) -> TablePictures:
        """Draw all there is to draw."""
        levels = levels_of(self.model, self.name, smallest=self.smallest)
        residuals = beside = None
        if len(levels.blocks):
            name, least = self.name, self.smallest
            axes = plots.residuals(self.model, table=name, smallest=least, ax=_axes(4.6, 2.9))
            residuals = self._svg(axes, "residuals", "Residuals of the blocks")
            axes = plots.observed_expected(
                self.model, table=name, smallest=least, ax=_axes(4.6, 2.9)
            )
            beside = self._svg(axes, "levels", "Published against fitted, block by block")
        counts = self.statistics.counts
        return TablePictures(
            self.statistics.name,
            self._note(len(levels.blocks)),
            residuals,
            beside,
            None if counts is None else self._fitted(counts),
            None if counts is None else self._published(counts),
            levels.observed is None,
        )

    def _note(self, n_drawn: int) -> str:
        n_blocks = len(self.statistics)
        left_out = n_blocks - n_drawn
        if not left_out:
            return f"All {plural(n_blocks, 'block')}." if n_blocks > 1 else ""
        if not n_drawn:
            return (
                f"Every block has counts of fewer than {self.smallest} people, so none is drawn by "
                "itself."
            )
        return (
            f"{n_drawn:,} of {plural(n_blocks, 'block')}; the others have counts of fewer than "
            f"{self.smallest} people, or would tell them."
        )

    def _published(self, table: Published) -> Panels:
        """Draw the largest blocks."""
        shown = self._chosen(table, table.largest_first(), self.most)
        pictures = tuple(self._panel(table, b, f"p{k}", fitted=False) for k, b in enumerate(shown))
        return Panels(pictures, f"{len(shown)} of {plural(len(table), 'block')}, largest first.")

    def _fitted(self, table: Published) -> Panels:
        """Draw all blocks together, if that is safe, and those that fit worst."""
        most = min(self.most, _MOST_WORST)
        shown = self._chosen(table, table.worst_first(), most)
        panels = []
        everybody = np.flatnonzero(table.whole_blocks(self.smallest))
        if total_is_safe(table, everybody, self.smallest):
            axes = plots.histogram(self.model, table=self.name, ax=_panel_axes())
            panels = [self._svg(axes, "all", "All blocks: published and fitted")]
            shown = shown[: most - 1]
        panels += [self._panel(table, b, f"f{k}", fitted=True) for k, b in enumerate(shown)]
        together = "All blocks together, and " if len(panels) > len(shown) else ""
        note = f"{together}{len(shown)} of {plural(len(table), 'block')}, the worst fit first."
        return Panels(tuple(panels), note if len(shown) else together and "All blocks together.")

    def _chosen(self, table: Published, order: IntArray, most: int) -> IntArray:
        """Return the first of some blocks of which nothing is masked."""
        return order[table.whole_blocks(self.smallest)[order]][:most]

    def _panel(self, table: Published, b: int, name: str, *, fitted: bool) -> Markup:
        block = str(table.blocks[b])
        axes = plots.histogram(
            self.model, block, table=self.name, fitted=fitted, smallest=self.smallest,
            ax=_panel_axes(),
        )  # fmt: skip
        what = "published and fitted histogram" if fitted else "published histogram"
        return self._svg(axes, name, f"Block {plots.shorten(block, 60)}: {what}")

    def _svg(self, axes: Axes, name: str, title: str) -> Markup:
        return inline_svg(axes, name=f"{self.prefix}{name}", title=title)


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
    return Figure(figsize=(2.7, 2.15)).add_axes((0.21, 0.22, 0.77, 0.66))
