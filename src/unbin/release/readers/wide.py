"""Tables with one row per block and one column per bin."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from unbin.exceptions import ReleaseError
from unbin.release.readers.build import Bins, build_histogram
from unbin.release.readers.cells import Cell, Scheme, parse_cell
from unbin.release.readers.dimensions import is_number
from unbin.release.readers.labels import Label, parse_label
from unbin.release.readers.long import edges_of
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Table
from unbin.release.release import Release

YEARS = range(1800, 2101)
"""Numbers that may be years."""


def as_labels(texts: Sequence[str]) -> dict[str, Label]:
    """Return those of some texts that are labels of bins, if they are together.

    Two at least, one of them with a sign ("5-9", "10+"), and not all of them years: numbers alone
    may be codes, counts or dates.

    Examples
    --------
    >>> list(as_labels(["ward", "0-4", "5+", "total"])), as_labels(["2019", "2020", "2021"])
    (['0-4', '5+'], {})
    """
    found: dict[str, Label] = {}
    for text in dict.fromkeys(texts):
        try:
            found[text] = parse_label(text)
        except ReleaseError:
            continue
    signed = any(not is_number(text) for text in found)
    ends = {end for label in found.values() for end in (label.lower, label.upper)}
    years = all(end in YEARS for end in ends if math.isfinite(end))
    return found if len(found) > 1 and signed and not years else {}


def read_wide(
    table: Table,
    options: Options,
    ids: Sequence[str],
    columns: Mapping[str, Label],
    scheme: Scheme,
    *,
    source: str,
    outcome: str = "",
    n: Mapping[str, int] | None = None,
) -> Release:
    """Read counts in columns.

    Parameters
    ----------
    table, options
    ids : block of every row
    columns : what the columns of counts stand for, by name
    scheme : how counts are hidden
    source : how the file was understood
    outcome : what the labels are about, "Age"
    n : people of blocks, where they are known
    """
    edges = edges_of(table, list(columns.values()), outcome, options.closed)
    rows: list[int] = []
    blocks: list[str] = []
    lower: list[float] = []
    upper: list[float] = []
    cells: list[Cell] = []
    for name, label in columns.items():
        rows += table.rows
        blocks += ids
        lower += [edges.edges[label][0]] * len(ids)
        upper += [edges.edges[label][1]] * len(ids)
        cells += table.parse(name, lambda text: parse_cell(text, scheme))
    table = _note_gaps(table, list(edges.edges.values()), edges.closed)
    bins = Bins(rows, blocks, lower, upper, cells, edges.closed, n or {})
    return build_histogram(table, bins, source=source, totals=options.totals)


def _note_gaps(table: Table, ends: list[tuple[float, float]], closed: str) -> Table:
    """Say which values no column counts, and that columns are not in order."""
    if sorted(ends) not in (ends, ends[::-1]):
        table = table.noting("the columns of bins are not in the order of their values")
    for (_, upper), (lower, _) in itertools.pairwise(sorted(ends)):
        if lower - upper > (closed == "both"):
            table = table.noting(f"no column counts values between {upper:g} and {lower:g}")
    return table
