"""Several tables of one fit: what each told, and whose counts may be shown beside the others'."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unbin._typing import FloatArray
from unbin.estimator import AggregatedGLM
from unbin.fitting.model import TableFit
from unbin.likelihood.published import Published

MOST_TABLES = 8
"""Tables, all others together counted as one, that a picture or a page has room for."""


def tables_of(model: AggregatedGLM) -> tuple[TableFit, ...]:
    """Return what a model of one target says of each of its tables; empty for one table."""
    found = model.tables_
    assert isinstance(found, tuple)
    return found


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


def drawable_tables(tables: Sequence[Published | None], smallest: Sequence[int]) -> list[bool]:
    """Mark the tables of the same people whose counts may be drawn on one page.

    Counts less people whose outcome is known tell these outcomes, and are never drawn. Sums of one
    table reveal counts that are masked in another. So all are drawn where nothing is
    masked in any; else only those that everybody has already, and where there are none of these
    the first, masked.

    Parameters
    ----------
    tables : sequence of Published or None
        None where a table has no counts.
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
