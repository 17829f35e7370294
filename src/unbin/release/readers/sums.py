"""Rows added up: the same block by commissioner, by treatment function, by sex."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unbin._typing import IntArray
from unbin.release.readers.numbers import parse_whole
from unbin.release.readers.sheets import Table


def numbered(table: Table, columns: Sequence[str]) -> IntArray:
    """Return a number for every row, the same where all these columns agree, by first row."""
    place: dict[tuple[str, ...], int] = {}
    keys = zip(*(table.column(name) for name in columns), strict=True)
    return np.array([place.setdefault(key, len(place)) for key in keys], dtype=np.int64)


def parse_counts(table: Table, columns: Sequence[str]) -> IntArray:
    """Return whole numbers, rows by columns; an empty cell is 0."""
    counts = [table.parse(name, lambda text: parse_whole(text or "0")) for name in columns]
    return np.array(counts, dtype=np.int64).reshape(len(columns), len(table)).T


def add_rows(table: Table, keys: Sequence[str], counts: Sequence[str]) -> Table:
    """Return one row for each value of the key columns, with the counts added up.

    What else is in the first of the rows stays. The table remembers how many rows each stands for.
    """
    number = numbered(table, keys)
    _, first, size = np.unique(number, return_index=True, return_counts=True)
    order = np.argsort(number, kind="stable")
    start = np.searchsorted(number[order], np.arange(len(first)))
    total = np.add.reduceat(parse_counts(table, counts)[order], start, axis=0)
    rows = [table.rows[k] for k in first]
    added = replace(
        table,
        cells=[table.cells[k] for k in first],
        rows=rows,
        stands_for=dict(zip(rows, size.tolist(), strict=True)),
    )
    for name, column in zip(counts, total.T.tolist(), strict=True):
        added = added.with_column(name, list(map(str, column)))
    return added


def add_columns(table: Table, name: str, columns: Sequence[str]) -> Table:
    """Return the table with a column of this name: the counts of several, or the one as it is."""
    if len(columns) == 1:
        return table.with_column(name, table.column(columns[0]))
    total = parse_counts(table, columns).sum(axis=1)
    return table.with_column(name, list(map(str, total.tolist())))
