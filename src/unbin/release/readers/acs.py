"""ACS detailed tables (US Census), such as B19001.

Wide downloads have two header rows: ``GEO_ID, NAME, B19001_001E, B19001_001M, …`` and labels such
as ``Estimate!!Total:!!$10,000 to $14,999``. The first estimate is the total; annotation columns
(``…EA``) override estimates. The long form of tidycensus has ``GEOID, NAME, variable, estimate,
moe``, with a column ``label`` unless the table is B19001 or variables are named after their bins.
Margins of error are not read.
"""

from __future__ import annotations

import re

from unbin.exceptions import ReleaseError
from unbin.release.readers.build import Bins, build_histogram, check_ids, choose_rows
from unbin.release.readers.cells import Cell, Scheme, add_cells, parse_cell
from unbin.release.readers.labels import Label, is_total, parse_label
from unbin.release.readers.long import edges_of
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, read_error, shown
from unbin.release.release import Release

_VARIABLE = re.compile(r"(?P<table>[A-Z]{1,2}[0-9]{5}[A-Z]*)_(?P<number>[0-9]{3})E?")
_NO_ANNOTATION = ("", "null", "**", "***", "*****")
_LEVEL = re.compile(r"[0-9]{7}US(?=.)")
_INCOME = (
    "Total", "Less than $10,000", "$10,000 to $14,999", "$15,000 to $19,999", "$20,000 to $24,999",
    "$25,000 to $29,999", "$30,000 to $34,999", "$35,000 to $39,999", "$40,000 to $44,999",
    "$45,000 to $49,999", "$50,000 to $59,999", "$60,000 to $74,999", "$75,000 to $99,999",
    "$100,000 to $124,999", "$125,000 to $149,999", "$150,000 to $199,999", "$200,000 or more",
)  # fmt: skip


def recognises(sheet: Sheet) -> bool:
    """Tell whether the header is that of a download or of tidycensus."""
    names = set(sheet.header)
    wide = "GEO_ID" in names and any(_VARIABLE.fullmatch(name) for name in names)
    return wide or {"GEOID", "variable", "estimate"} <= names


def read(sheet: Sheet, options: Options) -> Release:
    """Read a detailed table, wide or long."""
    scheme = options.scheme("acs")
    block = options.block or ("GEOID" if "variable" in sheet.header else "GEO_ID")
    if "variable" in sheet.header:
        table = choose_rows(sheet.table(), options.where)
        cells = _long(table, options, block, scheme)
    else:
        table, cells = _wide(sheet, options, block, scheme)
    total = {block: cell for (block, path), (cell, _) in cells.items() if path is None}
    labels = {key: item for key, item in cells.items() if key[1] is not None}
    edges = edges_of(table, [label for _, label in labels if label], "label", options.closed)
    bins = Bins(
        [row for _, row in labels.values()],
        [block for block, _ in labels],
        [edges.edges[label][0] for _, label in labels if label],
        [edges.edges[label][1] for _, label in labels if label],
        [cell for cell, _ in labels.values()],
        edges.closed,
        {block: cell.low for block, cell in total.items() if cell.exact},
    )
    return build_histogram(table, bins, source=f"acs, block {shown(block)}", totals=options.totals)


Cells = dict[tuple[str, Label | None], tuple[Cell, int]]
"""The count of each block and bin (None: the total), and the row of the file it is in."""


def _wide(sheet: Sheet, options: Options, block: str, scheme: Scheme) -> tuple[Table, Cells]:
    if len(sheet.cells) < 2 or not any("!!" in cell for cell in sheet.cells[1]):
        raise read_error(
            sheet.file,
            "must hold labels such as 'Estimate!!Total:!!$10,000 to $14,999', got none; download "
            "the table with its labels",
            row=2,
        )
    table = choose_rows(sheet.table(first=2), options.where)
    names = [name for name in table.header if _VARIABLE.fullmatch(name) and name.endswith("E")]
    texts = dict(zip(table.header, sheet.table(until=2).cells[0], strict=False))
    bins = _leaves({name: texts[name] for name in names}, table, sheet.rows[1])
    ids = _block_ids(check_ids(table, table.require(block, role="block")))
    result: Cells = {}
    for name, label in bins.items():
        cells = table.parse(name, lambda text: parse_cell(text, scheme))
        notes = table.find(f"{name}A")
        if notes:
            told = table.parse(notes, lambda text: _annotated(text, scheme))
            cells = [a if note is None else note for a, note in zip(cells, told, strict=True)]
        for place, cell, row in zip(ids, cells, table.rows, strict=True):
            _add(result, place, label, cell, row, table, one_row=True)
    return table, result


def _annotated(text: str, scheme: Scheme) -> Cell | None:
    """Return what an annotation makes of its estimate; most are about the margin of error."""
    return None if text in _NO_ANNOTATION else parse_cell(text, scheme)


def _add(
    cells: Cells,
    block: str,
    label: Label | None,
    cell: Cell,
    row: int,
    table: Table,
    *,
    one_row: bool,
) -> None:
    """Add a count; the same bin under several headings (men, women) is one bin."""
    old = cells.get((block, label))
    if old is None:
        cells[block, label] = cell, row
        return
    if (one_row and old[1] != row) or label is None:
        raise table.error(
            f"block {shown(block)}: must be listed once, got row {old[1]} too; keep one of them",
            row=row,
        )
    cells[block, label] = add_cells([old[0], cell]), row


def _leaves(labels: dict[str, str], table: Table, row: int) -> dict[str, Label | None]:
    """Return what each variable counts; headings that have parts are left out."""
    paths = {name: _path(text) for name, text in labels.items()}
    parents = {path[:-1] for path in paths.values()}
    result: dict[str, Label | None] = {}
    for name, path in paths.items():
        if len(path) == 1 and is_total(path[0]):
            result[name] = None
        elif path not in parents:
            try:
                result[name] = parse_label(path[-1])
            except ReleaseError as error:
                raise table.error(str(error), row=row, column=name) from None
    if not any(label is not None for label in result.values()):
        raise table.error("must hold bins, got no label below the total; choose another table")
    return result


def _path(text: str) -> tuple[str, ...]:
    parts = [part.strip().rstrip(":") for part in text.split("!!")]
    return tuple(parts[1:] if parts[0] == "Estimate" else parts)


def _block_ids(ids: list[str]) -> list[str]:
    """Return FIPS codes where all ids are of one level: 0500000US05001 is 05001."""
    levels = {(_LEVEL.match(text) or [""])[0] for text in ids}
    if len(levels) != 1 or "" in levels:
        return ids
    return [text[len(next(iter(levels))) :] for text in ids]


def _long(table: Table, options: Options, block: str, scheme: Scheme) -> Cells:
    block = table.require(block, role="block")
    variable, estimate = "variable", table.require(options.count or "estimate", role="count")
    label = table.require(options.label, role="label") if options.label else table.find("label")
    bins = _long_bins(table, variable, label)
    cells = table.parse(estimate, lambda text: parse_cell(text, scheme))
    result: Cells = {}
    seen: dict[tuple[str, str], int] = {}
    ids, names = _block_ids(check_ids(table, block)), table.column(variable)
    for key, cell, row in zip(zip(ids, names, strict=True), cells, table.rows, strict=True):
        if key in seen:
            raise table.error(
                f"block {shown(key[0])}: {shown(key[1])} must be listed once, got row {seen[key]} "
                "too; keep one of them, or choose with where={'year': ...}",
                row=row,
            )
        seen[key] = row
        if key[1] in bins:
            _add(result, key[0], bins[key[1]], cell, row, table, one_row=False)
    return result


def _long_bins(table: Table, variable: str, label: str | None) -> dict[str, Label | None]:
    names = list(dict.fromkeys(table.column(variable)))
    first = dict(zip(table.column(variable)[::-1], table.rows[::-1], strict=True))
    if label:
        texts = dict(zip(table.column(variable), table.column(label), strict=True))
        return _leaves(texts, table, table.rows[0])
    result: dict[str, Label | None] = {}
    for name in names:
        found = _VARIABLE.fullmatch(name)
        text = name
        if found and found["table"].startswith("B19001") and int(found["number"]) in range(1, 18):
            text = _INCOME[int(found["number"]) - 1]
        elif found and found["number"] == "001":
            text = "Total"
        try:
            result[name] = None if is_total(text) else parse_label(text)
        except ReleaseError as error:
            what = f"{error}; or add a column 'label' with the labels of load_variables()"
            raise table.error(what, row=first[name], column=variable) from None
    return result
