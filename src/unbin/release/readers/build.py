"""Releases from what a dialect has read; complaints name the file and the row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from unbin.exceptions import ReleaseError
from unbin.release.readers.cells import Cell
from unbin.release.readers.sheets import Table, listed, shown
from unbin.release.release import Release
from unbin.release.words import plural

MAX_ID = 200
"""Characters of a block id."""
MAX_ID_BYTES = 2**30
"""What ids of one length may take: an array of text is as wide as its longest entry."""


@dataclass(frozen=True, slots=True)
class Bins:
    """The bins of all blocks, one entry per cell of the file.

    Attributes
    ----------
    row : list of int
        The row of the file each cell is in.
    block : list of text
    lower, upper : list of float
    cells : list of Cell
    closed : {"left", "right", "both"}
    n : mapping of block to people
        Totals that the file names; a block may be missing.
    """

    row: list[int]
    block: list[str]
    lower: list[float]
    upper: list[float]
    cells: list[Cell]
    closed: str
    n: Mapping[str, int]


def check_ids(table: Table, column: str) -> list[str]:
    """Return block ids; none is empty, very long or a formula."""
    ids = table.column(column)
    longest = max(map(len, ids))
    for row, text in zip(table.rows, ids, strict=True):
        if not text:
            what = "every row needs a block id, got an empty cell; fill it, or remove the row"
        elif text.startswith(("=", "@")):
            what = f"must be a block id, got the formula {shown(text)}; save values instead"
        elif len(text) > MAX_ID or (len(text) == longest and longest * 4 * len(ids) > MAX_ID_BYTES):
            what = f"block ids must be shorter, got {len(text):,} characters; use codes"
        else:
            continue
        raise table.error(what, row=row, column=column)
    return ids


def choose_rows(table: Table, where: Mapping[str, Any] | None) -> Table:
    """Return the rows whose columns have the values asked for."""
    for name, wanted in (where or {}).items():
        column = table.require(str(name), role="where")
        values = {str(v) for v in ([wanted] if isinstance(wanted, str | int) else wanted)}
        texts = table.column(column)
        keep = [text in values for text in texts]
        if not any(keep):
            raise table.error(
                f"where: no row has {listed(sorted(values))}, got "
                f"{listed(list(dict.fromkeys(texts)))}; correct it",
                column=column,
            )
        table = table.take(keep)
    return table


def build_histogram(table: Table, bins: Bins, *, source: str) -> Release:
    """Return the release of bins whose counts are exact or intervals."""
    bins = _without_empty_blocks(bins)
    _refuse_doubles(table, bins)
    cells = _bounded(table, bins)
    columns: dict[str, Any] = {"block": bins.block, "lower": bins.lower, "upper": bins.upper}
    keywords: dict[str, Any] = {"closed": bins.closed}
    if all(bins.n.get(block, 0) > 0 for block in bins.block):
        columns["n"] = [bins.n[block] for block in bins.block]
        keywords["n"] = "n"
    if all(cell.exact for cell in cells):
        columns["count"] = [cell.low for cell in cells]
    else:
        columns["count"] = [float(cell.low) if cell.exact else None for cell in cells]
        columns["count_low"] = [cell.low for cell in cells]
        columns["count_high"] = [cell.high for cell in cells]
        keywords |= {"count_low": "count_low", "count_high": "count_high"}
    source = ", ".join([source, *_hidden_words(bins.cells)])
    return build(table, "from_histogram", columns, bins.row, source=source, **keywords)


def build(
    table: Table,
    maker: str,
    columns: dict[str, Any],
    rows: list[int],
    *,
    source: str,
    **keywords: Any,
) -> Release:
    """Call one of the constructors of Release; an error about a block names its first row."""
    try:
        release: Release = getattr(Release, maker)(columns, **keywords)
    except ReleaseError as error:
        message = str(error)
        first = dict(zip(columns.get("block", [])[::-1], rows[::-1], strict=False))
        row = next((r for b, r in first.items() if message.startswith(f"block {b!r}: ")), None)
        raise table.error(message, row=row) from error
    return replace(release, source=source)


def _without_empty_blocks(bins: Bins) -> Bins:
    """Leave out blocks whose total is 0: nobody is there, and a count that is not shown is 0."""
    empty = {block for block, n in bins.n.items() if n == 0}
    keep = [
        i
        for i, (block, cell) in enumerate(zip(bins.block, bins.cells, strict=True))
        if block not in empty or cell.low > 0
    ]
    return replace(
        bins,
        row=[bins.row[i] for i in keep],
        block=[bins.block[i] for i in keep],
        lower=[bins.lower[i] for i in keep],
        upper=[bins.upper[i] for i in keep],
        cells=[bins.cells[i] for i in keep],
    )


def _refuse_doubles(table: Table, bins: Bins) -> None:
    seen: dict[tuple[str, float, float], int] = {}
    keys = zip(bins.block, bins.lower, bins.upper, strict=True)
    for row, key in zip(bins.row, keys, strict=True):
        if key in seen:
            raise table.error(
                f"block {shown(key[0])}: every bin must be listed once, got {key[1]:g} to "
                f"{key[2]:g} in row {seen[key]} too; keep one of them, or choose rows with "
                "where={'column': 'value'}",
                row=row,
            )
        seen[key] = row


def _bounded(table: Table, bins: Bins) -> list[Cell]:
    """Bound cells that only the total of their block bounds."""
    if all(cell.high is not None for cell in bins.cells):
        return bins.cells
    known: dict[str, int] = {}
    for block, cell in zip(bins.block, bins.cells, strict=True):
        known[block] = known.get(block, 0) + cell.low
    result = []
    for row, block, cell in zip(bins.row, bins.block, bins.cells, strict=True):
        if cell.high is None:
            if block not in bins.n:
                raise table.error(
                    f"block {shown(block)}: a count that is not shown needs the total of its "
                    "block, got neither; add the total, or remove the block",
                    row=row,
                )
            rest = bins.n[block] - known[block]
            if rest < 0:
                raise table.error(
                    f"block {shown(block)}: the bins count at least {known[block]:,} people, got "
                    f"a total of {bins.n[block]:,}; correct one of them",
                    row=row,
                )
            cell = replace(cell, high=cell.low + rest)
        result.append(cell)
    return result


def _hidden_words(cells: list[Cell]) -> list[str]:
    """Return "3 suppressed cells (0–9)"."""
    hidden = [cell for cell in cells if cell.hidden]
    if not hidden:
        return []
    ranges = dict.fromkeys(
        f"{cell.low}–{cell.high}" if cell.high is not None else f"{cell.low} or more"
        for cell in hidden
    )
    return [f"{plural(len(hidden), 'suppressed cell')} ({', '.join(list(ranges)[:4])})"]
