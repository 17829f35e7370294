"""CDC WONDER exports: tab separated, notes in the first column, query text below ``---``.

``Suppressed`` means 0 to 9. With a column of age groups the table is a histogram of the ages of
those counted; without one it says how many of a population were counted: targets 0 and 1.
"""

from __future__ import annotations

from unbin.release.readers.build import Bins, build_histogram, check_ids, choose_rows
from unbin.release.readers.cells import Cell, parse_cell
from unbin.release.readers.long import Columns, pick, read_labelled
from unbin.release.readers.numbers import parse_whole
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, shown
from unbin.release.release import Release

COUNTS = ("Deaths", "Births", "Cases", "Count")
_PLACES = ("County Code", "State Code", "Census Region Code", "HHS Region Code", "County", "State")


def recognises(sheet: Sheet) -> bool:
    """Tell whether the header starts with notes and has a count."""
    return sheet.header[0] == "Notes" and any(name in COUNTS for name in sheet.header)


def read(sheet: Sheet, options: Options) -> Release:
    """Read an export of CDC WONDER."""
    starts = (i for i, record in enumerate(sheet.cells) if record[0] == "---")
    table = sheet.table(until=next(starts, None))
    ages = [name for name in table.header if "Age" in name.split() and "Code" not in name.split()]
    label = options.label or next(iter(ages), None)
    block = pick(table, options.block, _PLACES, role="block")
    scheme = options.scheme("cdc-wonder")
    if label is None:
        return _events(_data_rows(table, block), options, block)
    label = table.require(label, role="label")
    columns = Columns((block,), (label,), COUNTS)
    table = _name_totals(_data_rows(table, block), label)
    return read_labelled(table, options, columns, scheme, dialect="cdc-wonder")


def _data_rows(table: Table, block: str) -> Table:
    """Leave out grand totals, which are about no block."""
    notes = table.column(table.header[0])
    ids = table.column(block)
    kept = table.take([bool(i) or note != "Total" for i, note in zip(ids, notes, strict=True)])
    if not len(kept):
        raise table.error("must hold rows about blocks, got totals only; group by a place")
    return kept


def _name_totals(table: Table, label: str) -> Table:
    """Write "total" where the notes say so and the label is empty."""
    pairs = zip(table.column(table.header[0]), table.column(label), strict=True)
    return table.with_column(
        label, ["Total" if note == "Total" and not text else text for note, text in pairs]
    )


def _events(table: Table, options: Options, block: str) -> Release:
    """Read how many of a population were counted."""
    table = choose_rows(table, options.where)
    scheme = options.scheme("cdc-wonder")
    count = pick(table, options.count, COUNTS, role="count")
    people = table.require("Population", role="label")
    cells = table.parse(count, lambda text: parse_cell(text, scheme))
    population = table.parse(people, parse_whole)
    ids = check_ids(table, block)
    others = []
    for row, cell, n in zip(table.rows, cells, population, strict=True):
        high = n if cell.high is None else cell.high
        if cell.low > n:
            raise table.error(
                f"counts must not exceed the population, got {cell.low:,} of {n:,}; check which "
                "column counts what",
                row=row,
                column=count,
            )
        others.append(Cell(max(n - high, 0), n - cell.low))
    bins = Bins(
        table.rows * 2,
        ids * 2,
        [0.0] * len(ids) + [1.0] * len(ids),
        [0.0] * len(ids) + [1.0] * len(ids),
        others + cells,
        "right",
        dict(zip(ids, population, strict=True)),
    )
    source = f"cdc-wonder, block {shown(block)}, 1 for {count} and 0 for the rest of {people}"
    return build_histogram(table, bins, source=source, totals=options.totals)
