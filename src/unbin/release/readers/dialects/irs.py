"""Individual income tax returns by ZIP code or county (IRS Statistics of Income).

Files such as ``13zpallagi.csv`` and ``16incyallagi.csv`` have one row per place and class of
adjusted gross income: ``STATEFIPS, STATE, zipcode, agi_stub, N1, …``, where ``N1`` counts returns.
The class is a code; its dollars depend on the year of the file and on ZIP code or county, so that a
file of an unknown year is refused.

The documentation guides ("Disclosure Protection Procedures") say what counts stand for:

- "All number of returns variables have been rounded to the nearest 10": 40 stands for 35 to 45.
- Classes "with less than 20 returns … were combined with another AGI class within the same ZIP
  code", and are shown as 0. Such a 0 stands for 0 to 19, and each of the other classes of the place
  may count them, because the file does not say which one does.
- ZIP codes of fewer than 100 returns are in 99999, one for each state.
- Files by ZIP code leave out returns with a negative income, and start at $1.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

from unbin.exceptions import ReleaseError
from unbin.release.readers.build import Bins, build_histogram, check_ids, choose_rows
from unbin.release.readers.cells import Cell, Scheme, parse_cell
from unbin.release.readers.numbers import parse_number
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, listed, shown
from unbin.release.release import Release
from unbin.release.words import plural

INF = float("inf")
_ZIP = (1.0, 25e3, 50e3, 75e3, 100e3, 200e3, INF)
_COUNTY = (-INF, 1.0, 10e3, 25e3, 50e3, 75e3, 100e3, 200e3, INF)
_CLASSES = {"zipcode": (2009, _ZIP), "COUNTYFIPS": (2012, _COUNTY)}
"""By the column of places: the first year with these classes, and their edges in dollars."""
_YEAR = re.compile(r"(?<![0-9])(?P<year>[0-9]{2})(?:zp|cy|incy)all", re.I)
_SMALLEST = 20
"""Returns of a class that is not combined with another one."""
_ROUNDING = "nearest-10"
_OTHERS = "99999"


def recognises(sheet: Sheet) -> bool:
    """Tell whether the header has classes of adjusted gross income and numbers of returns."""
    return {"agi_stub", "n1"} <= {name.casefold() for name in sheet.header}


def read(sheet: Sheet, options: Options) -> Release:
    """Read the returns of each place in classes of adjusted gross income."""
    table = choose_rows(sheet.table(), options.where)
    place = table.find(*_CLASSES)
    if place is None:
        raise table.error(
            "returns must be by ZIP code or county, got no column 'zipcode' or 'COUNTYFIPS'; the "
            "classes of other files are not known"
        )
    usual = next(name for name in _CLASSES if name.casefold() == place.casefold())
    year = _year(table, sheet)
    table = _with_classes(table)
    edges = _edges(table, usual, year)
    table, ids = _places(table, place, options)
    count = _count_column(table, options)
    stubs = [int(text) for text in table.column(_stub(table))]
    bins = Bins(
        table.rows,
        ids,
        [edges[k - 1] for k in stubs],
        [edges[k] for k in stubs],
        table.parse(count, lambda text: parse_cell(text, _scheme(options))),
        "left",
        {},
    )
    if options.suppression is None:
        table, bins = _combined(table, bins, edges)
    words = f"irs, {'ZIP codes' if usual == 'zipcode' else 'counties'}, tax year {year}"
    rounding = _scheme(options).rounding
    told = f", rounded ({rounding})" if rounding else ""
    source = f"{words}, count {shown(count)}{told}, block {shown(options.block or place)}"
    return build_histogram(table, bins, source=source, totals=options.totals)


def _stub(table: Table) -> str:
    return table.require("agi_stub", role="label")


def _year(table: Table, sheet: Sheet) -> int:
    """Return the tax year, from a column or from the name of the file."""
    column = table.find("year", "tax_year", "taxyear")
    if column is not None:
        years = list(dict.fromkeys(table.column(column)))
        if len(years) > 1:
            raise table.error(
                f"one value must be chosen, got {listed(years)}; say",
                column=column,
                offers={"where": {column: years[-1]}},
            )
        if re.fullmatch("(?:19|20)[0-9]{2}", years[0]):
            return int(years[0])
    match = _YEAR.search(sheet.name) or _YEAR.search(sheet.file)
    if match is None:
        raise table.error(
            "classes of income depend on the tax year, got a file that does not say it; name it as "
            "the IRS does, 13zpallagi.csv or 13incyallagi.csv, or add a column 'year'",
            column=_stub(table),
        )
    return 2000 + int(match["year"])


def _with_classes(table: Table) -> Table:
    """Leave out rows of all classes together, whose code is 0."""
    column = _stub(table)
    keep = [text != "0" for text in table.column(column)]
    if not any(keep):
        raise table.error(
            "must hold classes of income, got all of them together (0); use the file with classes, "
            "such as 13zpallagi.csv",
            column=column,
        )
    return table.take(keep, f"all classes together ({column} 0)")


def _edges(table: Table, usual: str, year: int) -> tuple[float, ...]:
    """Return the edges of classes; raise unless the file has just those that are known."""
    first, edges = _CLASSES[usual]
    codes = list(dict.fromkeys(table.column(_stub(table))))
    known = [str(k) for k in range(1, len(edges))]
    if year < first or sorted(codes) != known:
        raise table.error(
            f"classes of income are known by {usual} since {first}, codes 1 to {known[-1]}, got "
            f"year {year} and codes {listed(sorted(codes))}; read the table with columns lower and "
            "upper",
            column=_stub(table),
        )
    return edges


def _places(table: Table, place: str, options: Options) -> tuple[Table, list[str]]:
    """Return the ids of places, without the totals of states."""
    county = place.casefold() == "countyfips"
    codes = table.parse(place, lambda text: _code(text, 3 if county else 5))
    total = "000" if county else "00000"
    keep = [options.totals == "keep" or code != total for code in codes]
    if any(keep):
        table = table.take(keep, f"totals of states ({place} {total})")
        codes = [code for code, k in zip(codes, keep, strict=True) if k]
    if options.block is not None:
        return table, check_ids(table, table.require(options.block, role="block"))
    if county:
        column = table.require("STATEFIPS", role="block")
        states = table.parse(column, lambda text: _code(text, 2))
        return table, [state + code for state, code in zip(states, codes, strict=True)]
    of_states = {total, _OTHERS} & set(codes)  # they are in each state
    if not of_states:
        return table, codes
    states = check_ids(table, table.require("STATE", role="block"))
    if _OTHERS in of_states:
        table = table.noting(
            f"blocks such as {shown(f'{states[codes.index(_OTHERS)]} {_OTHERS}')} are the small "
            "and the nonresidential ZIP codes of a state together"
        )
    pairs = zip(states, codes, strict=True)
    return table, [f"{state} {code}" if code in of_states else code for state, code in pairs]


def _code(text: str, digits: int) -> str:
    """Return a code with its zeros in front, which spreadsheets drop."""
    if not re.fullmatch(f"[0-9]{{1,{digits}}}", text):
        raise ReleaseError(f"a code must have {digits} digits, got {shown(text)}; correct it")
    return text.zfill(digits)


def _count_column(table: Table, options: Options) -> str:
    """Return the column of counts; amounts are thousands of dollars."""
    column = table.require(options.count or "N1", role="count")
    if re.fullmatch("A[0-9]{5}", column, re.I):
        raise table.error(
            "must count returns, got an amount in thousands of dollars; say",
            column=column,
            offers={"count": table.find("N" + column[1:]) or "N1"},
        )
    if column.upper() == "N1":
        _refuse_smaller(table, column)
    return column


def _refuse_smaller(table: Table, everybody: str) -> None:
    """Raise if fewer returns are counted than single people among them."""
    single = table.find("MARS1")
    if single is None:
        return
    pairs = zip(*(table.parse(name, parse_number) for name in (everybody, single)), strict=True)
    for row, (n, part) in zip(table.rows, pairs, strict=True):
        if part > n + 10:  # both are rounded
            raise table.error(
                f"all returns must be as many as those of single people, got {n:,g} and "
                f"{part:,g} in {shown(single)}; check which column is which",
                row=row,
                column=everybody,
            )


def _scheme(options: Options) -> Scheme:
    scheme = options.scheme("none")
    return replace(scheme, rounding=_ROUNDING) if options.rounding is None else scheme


def _combined(table: Table, bins: Bins, edges: tuple[float, ...]) -> tuple[Table, Bins]:
    """Let classes that were combined with others, and the others, count what they may.

    A class without a row is taken to be one of them.
    """
    rows: dict[str, int] = {}
    shown_classes: dict[str, dict[float, bool]] = {}
    for block, row, lower, cell in zip(bins.block, bins.row, bins.lower, bins.cells, strict=True):
        rows.setdefault(block, row)
        shown_classes.setdefault(block, {})[lower] = not _is_zero(cell)
    n_hidden = {
        block: len(edges) - 1 - sum(classes.values()) for block, classes in shown_classes.items()
    }
    most = _SMALLEST - 1
    hidden = Cell(0, most, hidden=True)
    cells = [
        hidden if _is_zero(cell) else replace(cell, low=max(cell.low - most * n_hidden[block], 0))
        for block, cell in zip(bins.block, bins.cells, strict=True)
    ]
    extra = [
        (block, lower, upper)
        for block, classes in shown_classes.items()
        for lower, upper in itertools.pairwise(edges)
        if lower not in classes
    ]
    if extra:
        table = table.noting(f"{plural(len(extra), 'row')} missing, their classes taken for 0")
    return table, replace(
        bins,
        row=[*bins.row, *(rows[block] for block, _, _ in extra)],
        block=[*bins.block, *(block for block, _, _ in extra)],
        lower=[*bins.lower, *(lower for _, lower, _ in extra)],
        upper=[*bins.upper, *(upper for _, _, upper in extra)],
        cells=[*cells, *(hidden for _ in extra)],
    )


def _is_zero(cell: Cell) -> bool:
    """Tell whether 0 was printed, rounded or not."""
    return cell.low == 0 and cell.high is not None and cell.high < _SMALLEST // 2
