"""Releases from what a dialect has read; complaints name the file and the row."""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbin._typing import IntArray
from unbin.exceptions import ReadError, ReadWarning, ReleaseError
from unbin.release.readers.cells import Cell
from unbin.release.readers.dimensions import differing
from unbin.release.readers.sheets import Table, listed, shown, texts_of
from unbin.release.readers.totals import Counts, find_totals, named_total
from unbin.release.release import Release
from unbin.release.words import plural

MAX_ID = 200
"""Characters of a block id."""
MAX_ID_BYTES = 2**30
"""What ids of one length may take: an array of text is as wide as its longest entry."""

_READERS = __name__.rpartition(".")[0]
_MAX_COMPARED = 20_000_000
"""Cells of blocks over all bins in which totals are looked for."""


@dataclass(frozen=True, slots=True)
class Names:
    """The categories that bins hold, one each.

    Attributes
    ----------
    names : tuple of text
        The category of bin k.
    absent : {"zero", "structural"}
        What a block means that does not list one.
    rest : str or None
        A further category, for people who are in none.
    """

    names: tuple[str, ...]
    absent: str = "zero"
    rest: str | None = None


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
    se : list of float, optional
        Standard errors of the counts, NaN where one is not known.
    categories : Names, optional
        Of a table of categories, whose bins hold the values 0, 1, 2, … alone.
    """

    row: list[int]
    block: list[str]
    lower: list[float]
    upper: list[float]
    cells: list[Cell]
    closed: str
    n: Mapping[str, int]
    se: list[float] | None = None
    categories: Names | None = None

    def text(self, lower: float, upper: float) -> str:
        """Return a bin for a message: "0 to 9", or the name of a category."""
        if self.categories is None:
            return f"{lower:g} to {upper:g}"
        return shown(self.categories.names[int(lower)])


def check_ids(table: Table, column: str) -> list[str]:
    """Return block ids; none is empty, very long or a formula."""
    ids = table.column(column)
    longest = max(map(len, ids))
    for text in dict.fromkeys(ids):
        if not text:
            what = "every row needs a block id, got an empty cell; fill it, or remove the row"
        elif text.startswith(("=", "@")):
            what = f"must be a block id, got the formula {shown(text)}; save values instead"
        elif len(text) > MAX_ID or (len(text) == longest and longest * 4 * len(ids) > MAX_ID_BYTES):
            what = f"block ids must be shorter, got {len(text):,} characters; use codes"
        else:
            continue
        raise table.error(what, row=table.rows[ids.index(text)], column=column)
    return ids


def choose_rows(table: Table, where: Mapping[str, Any] | None) -> Table:
    """Return the rows whose columns have the values asked for."""
    for name, wanted in (where or {}).items():
        column = table.require(str(name), role="where")
        values = texts_of(wanted)
        texts = table.column(column)
        keep = [text in values for text in texts]
        if not any(keep):
            raise table.error(
                f"where: no row has {listed(sorted(values))}, got "
                f"{listed(list(dict.fromkeys(texts)))}; correct it",
                column=column,
            )
        table = table.take(keep, f"{shown(column)} is not {listed(sorted(values))}")
    return table


def build_histogram(
    table: Table, bins: Bins, *, source: str, totals: str = "drop", skip: Sequence[str] = ()
) -> Release:
    """Return the release of bins whose counts are exact or intervals.

    Parameters
    ----------
    table, bins
    source : str
        How the file was understood.
    totals : {"drop", "keep"}
        What to do about blocks that are totals of others.
    skip : sequence of block ids
        Totals that the dialect knows by their codes.
    """
    _refuse_doubles(table, bins)
    bins = _without_empty_blocks(bins)
    if totals == "drop":
        table, bins = _without_totals(table, bins, skip)
    table = _note_gaps(table, bins)
    cells = _bounded(table, bins)
    columns: dict[str, Any] = {"block": bins.block, "lower": bins.lower, "upper": bins.upper}
    keywords: dict[str, Any] = {"closed": bins.closed}
    if bins.categories is not None:
        columns, keywords = _named(table, bins, bins.categories)
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
    if bins.se is not None:
        columns["count_se"] = bins.se
        keywords["count_se"] = "count_se"
    source = ", ".join([source, *_hidden_words(bins.cells)])
    maker = "from_histogram" if bins.categories is None else "from_categories"
    return build(table, maker, columns, bins.row, source=source, **keywords)


def _named(table: Table, bins: Bins, found: Names) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return blocks and categories, and how ``from_categories`` is to read them."""
    names = [found.names[int(code)] for code in bins.lower]
    keywords: dict[str, Any] = {"categories": list(found.names), "absent": found.absent}
    if found.rest is not None:
        unknown = [block for block in dict.fromkeys(bins.block) if not bins.n.get(block)]
        if unknown:
            raise table.error(
                f"rest: the people of every block must be known, got none of {listed(unknown)}; "
                "add a column n, or leave rest out"
            )
        keywords["rest"] = found.rest
    return {"block": bins.block, "category": names}, keywords


def build_statistics(
    table: Table,
    maker: str,
    columns: dict[str, Any],
    *,
    source: str,
    totals: str = "drop",
    is_total: Callable[[str], bool] = named_total,
    **keywords: Any,
) -> Release:
    """Return the release of quantiles or means, one row of the table for each.

    ``is_total`` tells names of blocks that are totals of others.
    """
    rows = table.rows
    gone = [is_total(block) for block in columns["block"]]
    if totals == "drop" and any(gone) and not all(gone):
        names = list(dict.fromkeys(b for b, g in zip(columns["block"], gone, strict=True) if g))
        table = table.noting(_left_out(names))
        columns = {
            name: [value for value, g in zip(values, gone, strict=True) if not g]
            for name, values in columns.items()
        }
        rows = [row for row, g in zip(rows, gone, strict=True) if not g]
    return build(table, maker, columns, rows, source=source, **keywords)


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
    if "block" in columns:
        columns = columns | {"block": np.array(columns["block"])}  # read at once, not one by one
    try:
        release: Release = getattr(Release, maker)(columns, **keywords)
    except ReleaseError as error:
        message = str(error)
        first = dict(zip(columns.get("block", [])[::-1], rows[::-1], strict=False))
        row = next((r for b, r in first.items() if message.startswith(f"block {str(b)!r}: ")), None)
        raise table.error(message, row=row) from error
    if "quantile" in columns:
        table = _note_lacking(table, columns)
    if table.choices:
        said = f"{table.file}: {'; '.join(table.choices)}"
        warnings.warn(said, ReadWarning, stacklevel=_frames_up())
    used = sum(table.stands_for.get(row, 1) for row in set(rows))
    read = "all" if used == table.n_records else f"{used:,} of"
    source = f"{source}, {read} {plural(table.n_records, 'row')}"
    return replace(release, source=source, notes=(*table.choices, *table.notes))


def _frames_up() -> int:
    """Return how many frames up the caller of the readers is."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals["__name__"].startswith(_READERS):
        level, frame = level + 1, frame.f_back
    return level


def _left_out(names: list[str]) -> str:
    """Return "2 blocks left out, totals of others: 'EA', 'EU27'"."""
    return f"{plural(len(names), 'block')} left out, totals of others: {listed(names)}"


def _kept(bins: Bins, keep: Callable[[int], bool]) -> Bins:
    """Return some of the cells."""
    kept = [i for i in range(len(bins.row)) if keep(i)]
    return replace(
        bins,
        row=[bins.row[i] for i in kept],
        block=[bins.block[i] for i in kept],
        lower=[bins.lower[i] for i in kept],
        upper=[bins.upper[i] for i in kept],
        cells=[bins.cells[i] for i in kept],
        se=None if bins.se is None else [bins.se[i] for i in kept],
    )


def _without_empty_blocks(bins: Bins) -> Bins:
    """Leave out blocks whose total is 0: nobody is there, and a count that is not shown is 0."""
    empty = {block for block, n in bins.n.items() if n == 0}
    if not empty:
        return bins
    return _kept(bins, lambda i: bins.block[i] not in empty or bins.cells[i].low > 0)


def _without_totals(table: Table, bins: Bins, skip: Sequence[str]) -> tuple[Table, Bins]:
    """Leave out blocks that are totals of others, by name or by arithmetic."""
    names = list(dict.fromkeys(bins.block))
    if len(names) < 2:
        return table, bins
    line = {name: k for k, name in enumerate(names)}
    place = np.array([line[name] for name in bins.block])
    size = np.bincount(place, [cell.low for cell in bins.cells], len(names))
    by_name = np.array([name in skip for name in names])
    by_name |= np.array([named_total(name) for name in names]) & (size >= size.max())
    if by_name.all():
        by_name[:] = False
    sure, unsure = find_totals(_counts(bins, place, len(names)).take(~by_name))
    found = by_name.copy()
    found[np.flatnonzero(~by_name)[sure]] = True
    gone = {name for name, total in zip(names, found, strict=True) if total}
    told = [name for name in names if name in gone and (name in skip or named_total(name))]
    guessed = [name for name in names if name in gone and name not in told]
    if told:
        table = table.noting(_left_out(told))
    if guessed:
        table = table.choosing(
            f"{plural(len(guessed), 'block')} left out, counting what others count together: "
            f"{listed(guessed)}; say totals='keep' to keep"
        )
    maybe = [name for name, m in zip(np.array(names)[~by_name], unsure, strict=True) if m]
    if maybe:
        table = table.choosing(
            f"block {shown(str(maybe[0]))} counts what all others count together; leave it out if "
            "it is their total"
        )
    return table, _kept(bins, lambda i: bins.block[i] not in gone) if gone else bins


def _counts(bins: Bins, place: IntArray, n_blocks: int) -> Counts:
    """Return the cells of all blocks over the bins of all, 0 where a block has no such bin."""
    ends = list(zip(bins.lower, bins.upper, strict=True))
    column = {end: k for k, end in enumerate(dict.fromkeys(ends))}
    if n_blocks * len(column) > _MAX_COMPARED:  # blocks with bins of their own are no totals
        return Counts(*np.zeros((2, n_blocks, 1)))
    low, high = np.zeros((2, n_blocks, len(column)))
    cells = place, np.array([column[end] for end in ends])
    low[cells] = [cell.low for cell in bins.cells]
    high[cells] = [math.inf if cell.high is None else cell.high for cell in bins.cells]
    return Counts(low, high)


def _note_gaps(table: Table, bins: Bins) -> Table:
    """Say which blocks lack bins that others have, leave a gap, or end where others are open."""
    if bins.categories is not None:
        return _note_absent(table, bins, bins.categories)
    ends = sorted(set(zip(bins.lower, bins.upper, strict=True)))
    short: set[str] = set()
    if not any(upper > lower for (_, upper), (lower, _) in itertools.pairwise(ends)):
        size = Counter(bins.block)
        short = {block for block, n in size.items() if n < len(ends)}
    if short:
        shown_first = [block for block in dict.fromkeys(bins.block) if block in short]
        table = table.noting(
            f"{plural(len(short), 'block')} without some of the {len(ends):,} bins, taken to be "
            f"empty there: {listed(shown_first)}"
        )
    names, code = np.unique(np.array(bins.block), return_inverse=True)
    lower, upper = np.array(bins.lower), np.array(bins.upper)
    order = np.lexsort((upper, lower, code))
    block, low, high = code[order], lower[order], upper[order]
    single = low == high
    whole = single[1:] | single[:-1] | (bins.closed == "both")  # 0 and 1 are neighbours
    apart = low[1:] - high[:-1] > whole
    gaps = np.isin(np.arange(len(names)), block[1:][apart & (block[1:] == block[:-1])])
    is_open = [np.bincount(code, np.isinf(edges), len(names)) > 0 for edges in (lower, upper)]
    said = {
        "with a gap between bins, where nobody is taken to be": gaps,
        **{
            f"not open {side}, as others are": ~each & each.any()
            for side, each in zip(("below", "above"), is_open, strict=True)
        },
    }
    for what, marked in said.items():
        found = [str(name) for name in names[marked] if name not in short]
        if found:
            table = table.noting(f"{plural(len(found), 'block')} {what}: {listed(found)}")
    return table


def _note_absent(table: Table, bins: Bins, found: Names) -> Table:
    """Say which blocks lack categories that others have, and what that is taken for."""
    size = Counter(bins.block)
    short = [block for block, n in size.items() if n < len(found.names)]
    if not short:
        return table
    taken = "not to offer them" if found.absent == "structural" else "to count nobody there"
    return table.noting(
        f"{plural(len(short), 'block')} without some of the {len(found.names):,} categories, "
        f"taken {taken}: {listed(short)}"
    )


def _note_lacking(table: Table, columns: Mapping[str, Any]) -> Table:
    """Say which blocks lack quantiles that others have."""
    every = set(columns["quantile"])
    size = Counter(map(str, columns["block"]))
    short = [block for block, n in size.items() if n < len(every)]
    if not short:
        return table
    return table.noting(
        f"{plural(len(short), 'block')} without some of the {len(every):,} quantiles: "
        f"{listed(short)}"
    )


def _refuse_doubles(table: Table, bins: Bins) -> None:
    keys = list(zip(bins.block, bins.lower, bins.upper, strict=True))
    if len(set(keys)) == len(keys):
        return
    seen: dict[tuple[str, float, float], int] = {}
    for row, key in zip(bins.row, keys, strict=True):
        if key in seen:
            raise _doubled(table, key[0], bins.text(*key[1:]), seen[key], row)
        seen[key] = row


def _doubled(table: Table, block: str, text: str, first: int, row: int) -> ReadError:
    what = f"block {shown(block)}: every bin must be listed once, got {text} in row {first} too"
    columns = differing(table, first, row)
    if not columns:
        return table.error(f"{what}; keep one of them", row=row)
    value = table.cells[table.rows.index(first)][table.header.index(columns[0])]
    offers = {"where": {columns[0]: value}}
    return table.error(f"{what}; choose rows, say", row=row, offers=offers)


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
