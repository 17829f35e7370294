"""Several tables of one fit: what each told, and whose counts may be shown beside the others'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbin._typing import FloatArray
from unbin.estimator import AggregatedGLM
from unbin.fitting.model import TableFit
from unbin.fitting.published import (
    BlockMeans,
    BlockQuantiles,
    BlockStatistics,
    Published,
)

MOST_TABLES = 8
"""Tables, all others together counted as one, that a picture or a page has room for."""


def tables_of(model: AggregatedGLM) -> tuple[TableFit, ...]:
    """Return what a model of one target says of each of its tables; empty for one table."""
    found = model.tables_
    assert isinstance(found, tuple)
    return found


@dataclass(frozen=True, slots=True)
class Statistics:
    """What was published in one table, as far as the model still holds it.

    ``name`` is empty of a single table.
    """

    name: str
    counts: Published | None
    means: BlockMeans | None = None
    quantiles: BlockQuantiles | None = None

    def __len__(self) -> int:
        found = (self.counts, self.means, self.quantiles)
        return max((len(each) for each in found if each is not None), default=0)

    @property
    def to_mask(self) -> Published | BlockStatistics | None:
        """What says whom to mask: counts, else means or quantiles."""
        found = (self.counts, self.means, self.quantiles)
        return next((each for each in found if each is not None), None)

    def shown_names(self, smallest: int) -> set[str]:
        """Return the blocks of which nothing is masked, by name."""
        found: set[str] = set()
        for each in (self.means, self.quantiles):
            if each is not None:
                found |= set(map(str, each.blocks[each.drawable(smallest)]))
        if self.counts is not None:
            whole = self.counts.whole_blocks(smallest)
            found |= set(map(str, self.counts.blocks[whole]))
            found -= set(map(str, self.counts.blocks[~whole]))
        return found


def statistics_of(model: AggregatedGLM) -> tuple[Statistics, ...]:
    """Return what was published in each table of a model of one target; empty without tables."""
    several = tables_of(model)
    if several:
        return tuple(Statistics(table.name, table.published, table.means) for table in several)
    if model.method_ != "likelihood":
        return ()
    counts, fit = model.published_, model._fits[0]
    assert not isinstance(counts, list)
    return (Statistics("", counts, fit.means, fit.quantiles),)


def shares_by_table(model: AggregatedGLM) -> tuple[tuple[str, ...], FloatArray] | None:
    """Return tables and their shares (T, d) in the information on each coefficient.

    Of more than ``MOST_TABLES`` those that told most stand alone, in their order, and the last row
    is all others together. None for a fit to one table.
    """
    names, share = model.diagnostics_.tables, model.diagnostics_.information
    if share is None:
        return None
    if len(names) <= MOST_TABLES:
        return names, share
    total = np.nansum(share, axis=1)
    alone = np.sort(np.argsort(-total, kind="stable")[: MOST_TABLES - 1])
    others = np.delete(share, alone, axis=0)
    shown = (*(names[k] for k in alone), f"{len(others)} other tables")
    return shown, np.vstack([share[alone], others.sum(axis=0)])


def drawable_tables(
    tables: Sequence[Published | BlockStatistics | None], smallest: Sequence[int]
) -> list[bool]:
    """Mark the tables of the same people whose counts may be drawn on one page.

    Counts less people whose outcome is known tell these outcomes, and are never drawn. Sums of one
    table reveal counts that are masked in another. So all are drawn where nothing is
    masked in any; else only those that everybody has already, and where there are none of these
    the first, masked.

    Parameters
    ----------
    tables : sequence of Published, BlockStatistics or None
        None where nothing of a table was kept.
    smallest : sequence of int
        Counts of fewer people are masked, table by table; 0 where everybody has the table.
    """
    pairs = list(zip(tables, smallest, strict=True))
    counted = [table is not None for table in tables]
    if any(table is not None and table.less_known for table in tables):
        return [False] * len(tables)
    if all(table is None or table.shown_whole(least) for table, least in pairs):
        return counted
    public = [table is not None and least == 0 for table, least in pairs]
    return public if any(public) else [k == counted.index(True) for k in range(len(tables))]
