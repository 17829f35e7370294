"""A fit of categories as one page of HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from markupsafe import Markup

from unbin._checks import check_texts
from unbin._typing import IntArray
from unbin.classifier import AggregatedClassifier
from unbin.fitting.categorical import CategoryModel, group_labels
from unbin.fitting.category_tables import block_table, group_table, tabulate_categories
from unbin.fitting.inputs import feature_names
from unbin.fitting.model import errors_text
from unbin.fitting.published import Published, smallest_shown
from unbin.release.words import plural
from unbin.results.numbers import NONE, column, decimals_for, interval, number, p_value, significant
from unbin.results.report.facts import SAID, people, ridge
from unbin.results.report.page import (
    LEVEL,
    NO_INPUTS,
    check_pictures,
    template,
    verdict_of,
    versions,
    when,
)

_MOST_PANELS = 12
"""Categories whose published and expected shares are drawn, the largest."""
_MOST_BLOCKS = 30
"""Blocks whose cells are listed, the largest."""
_MOST_NAMED = 12
"""Categories, and groups, that a fact lists."""


@dataclass(frozen=True, slots=True)
class SlopeRow:
    """One line of the coefficient table; ``first`` of a category, ``said`` the colour."""

    category: str
    term: str
    estimate: str
    error: str
    interval: str
    p_value: str
    verdict: str
    said: str
    first: bool


@dataclass(frozen=True, slots=True)
class CellRow:
    """A group and a category: share, interval, and shares at other scales of contextual slopes."""

    group: str
    people: str
    category: str
    share: str
    interval: str
    other: tuple[str, ...]
    first: bool


@dataclass(frozen=True, slots=True)
class BlockCells:
    """The cells of a block: for each group its people, and count and interval by category."""

    name: str
    people: str
    rows: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]


def render_categories(
    model: AggregatedClassifier,
    *,
    title: str,
    command: str = "",
    inputs: Mapping[str, str] = NO_INPUTS,
    created: datetime | str | None = None,
    public: bool | None = None,
) -> str:
    """Return the report of a classifier; parameters are those of ``render_report``."""
    check_pictures("report")
    fitted = model._model
    smallest = smallest_shown(fitted.counts, public)
    from unbin.results.report.category_pictures import agreement, heat_map
    from unbin.results.report.svg import settings

    with settings():
        heat: Markup | None = heat_map(model, smallest)
        counts = _drawable(fitted)
        panels = () if counts is None else agreement(fitted, counts, smallest, _MOST_PANELS)
    return template("categories.html.j2").render(
        title=title,
        verdict=verdict_of(model.diagnostics_),
        facts=_facts(model, smallest),
        observed=fitted.n_blocks == 0,
        classes=fitted.classes,
        coefficients=_slope_rows(model),
        groups=[factor.name for factor in fitted.factors],
        heat=heat,
        cells=_cell_rows(fitted, smallest),
        scales=[f"{z:g}" for z in fitted.sensitivity],
        contextual=f"{model.context_sd_:g}",
        words=_words(model),
        panels=panels,
        drawn=_drawn_note(fitted, smallest),
        blocks=_block_cells(fitted, smallest),
        n_blocks=plural(fitted.n_blocks, "block"),
        hidden=_why_hidden(fitted, smallest),
        smallest=smallest,
        status=model.status_.value,
        level=f"{100 * LEVEL:g} %",
        command=command,
        inputs=check_texts("inputs", inputs),
        versions=versions(),
        created=when(created),
    )


def _facts(model: AggregatedClassifier, smallest: int) -> list[tuple[str, str]]:
    """Return what was fitted, and how."""
    fitted = model._model
    found = [
        ("Categories", _listed(fitted.classes)),
        ("People", people(fitted.n_people, smallest)),
    ]
    if fitted.n_blocks:
        found.append(("Blocks", f"{fitted.n_blocks:,}"))
    found += [
        ("Ridge (alpha)", ridge(fitted.alpha)),
        ("Covariance", errors_text(fitted.errors, fitted.by_clusters)),
    ]
    quality = fitted.diagnostics.goodness_of_fit
    if quality is not None and np.isfinite(quality.ratio):
        found.append(("Misfit Q/df", number(quality.ratio, 2)))
    if fitted.factors:
        labels = [", ".join(label) for label in group_labels(fitted.factors)]
        sds = zip(labels, fitted.effect_sd, strict=True)
        found.append(("Block effects (sd)", _listed([f"{label} {sd:.2f}" for label, sd in sds])))
    elif fitted.effect_sd.any():
        found.append(("Block effects (sd)", significant(float(fitted.effect_sd[0]))))
    if model.context_sd_:
        found.append(("Contextual slopes (z)", f"{model.context_sd_:g}"))
    return found


def _listed(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _slope_rows(model: AggregatedClassifier) -> list[SlopeRow]:
    table = tabulate_categories(model._model, feature_names(model), LEVEL)
    digits = decimals_for(table["estimate"], table["std_error"])
    ends = (column(table[name], digits) for name in ("conf_low", "conf_high"))
    category = table["category"]
    rows = zip(
        category,
        table["term"],
        column(table["estimate"], digits),
        column(table["std_error"], digits),
        interval(*ends),
        map(p_value, table["p_value"]),
        [verdict or NONE for verdict in table["verdict"]],
        [SAID.get(verdict or NONE, "") for verdict in table["verdict"]],
        [k == 0 or category[k - 1] != name for k, name in enumerate(category)],
        strict=True,
    )
    return [SlopeRow(*row) for row in rows]


def _cell_rows(model: CategoryModel, smallest: int) -> list[CellRow]:
    """Return the cells of everybody; groups of fewer people than ``smallest`` have no shares."""
    if model.totals is None:
        return []
    table, k = group_table(model, None, LEVEL), len(model.classes)
    labels = [", ".join(label) for label in group_labels(model.factors)]
    found = []
    for row, category in enumerate(table["category"]):
        size = round(table["people"][row])
        if size == 0:
            continue
        few = size < smallest
        share, low, high = (table[name][row] for name in ("share", "conf_low", "conf_high"))
        others = [table[f"share_z_{z:g}"][row] for z in model.sensitivity]
        found.append(
            CellRow(
                labels[row // k],
                people(size, smallest),
                str(category),
                NONE if few else percent(share),
                NONE if few else f"{percent(low)} to {percent(high)}",
                tuple(NONE if few else percent(each) for each in others),
                row % k == 0,
            )
        )
    return found


def percent(share: float) -> str:
    """Return a share in per cent, with a decimal."""
    return f"{100 * share:.1f} %" if np.isfinite(share) else NONE


def _words(model: AggregatedClassifier) -> list[str]:
    """Return what the diagnostics say beside the verdict."""
    found = model.diagnostics_
    others = [word for word in found.sentences() if word != found.reason]
    if model._model.factors:  # listed among the facts, by group
        others = [word for word in others if not word.startswith("block effects: ")]
    return [word[0].upper() + word[1:] for word in others]


# -- blocks ----------------------------------------------------------------------------------------


def _drawable(model: CategoryModel) -> Published | None:
    """Return the counts, unless they would tell the categories of people who are known."""
    return None if model.counts is None or model.counts.less_known else model.counts


def _drawn_note(model: CategoryModel, smallest: int) -> str:
    """Say which blocks are drawn."""
    counts = _drawable(model)
    if counts is None:
        return ""
    n, shown = len(counts), int(counts.whole_blocks(smallest).sum())
    if shown == n:
        return f"All {plural(n, 'block')}."
    if not shown:
        return f"Every block has counts of fewer than {smallest} people, so none is drawn."
    return (
        f"{shown:,} of {plural(n, 'block')}; the others have counts of fewer than {smallest} "
        "people, or would tell them."
    )


def _why_hidden(model: CategoryModel, smallest: int) -> str:
    """Say why cells of blocks, or their counts, are not on the page; empty where they are."""
    if model.counts is None:
        return "Nothing of the table was kept to show." if model.n_blocks else ""
    if model.counts.less_known:
        return (
            "Counts and cells of single blocks are not shown: without the people whose category is "
            "known they would tell these categories."
        )
    if model.totals is not None and smallest:
        return (
            "Cells of single blocks are not shown: where groups are small they are close to what "
            "persons chose. They are shown of tables that are public."
        )
    return ""


def _block_cells(model: CategoryModel, smallest: int) -> list[BlockCells]:
    """Return the cells of the largest blocks of a public table."""
    cells = model.cells
    if cells is None or smallest or _drawable(model) is None:
        return []
    largest = np.argsort(-cells.people.sum(axis=1), kind="stable")[:_MOST_BLOCKS]
    table, shape = block_table(model, None, LEVEL), cells.count.shape
    size = np.reshape(table["people"], shape)
    count, low, high = (
        np.reshape(table[name], shape) * (size if name != "count" else 1.0)
        for name in ("count", "conf_low", "conf_high")
    )
    labels = [", ".join(label) for label in group_labels(model.factors)]

    def rows(b: int) -> tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]:
        return tuple(
            (
                labels[g],
                number(cells.people[b, g]),
                tuple(
                    (number(n), f"{number(least)} to {number(most)}")
                    for n, least, most in zip(count[b, g], low[b, g], high[b, g], strict=True)
                ),
            )
            for g in _present(cells.people[b])
        )

    return [
        BlockCells(str(model.blocks[b]), number(cells.people[b].sum()), rows(b)) for b in largest
    ]


def _present(size: IntArray) -> IntArray:
    return np.flatnonzero(size > 0)
