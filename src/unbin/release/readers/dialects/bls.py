"""Occupational wages (US Bureau of Labor Statistics, OEWS): percentiles by area and occupation.

One row per area and occupation: ``AREA_TITLE, OCC_TITLE, TOT_EMP, A_MEAN, A_PCT10, A_PCT25,
A_MEDIAN, A_PCT75, A_PCT90`` and the same by hour (``H_``). ``*`` and ``**`` are wages that were not
released and ``#`` wages at or above the top code: such percentiles are left out. Employment is
rounded to 10, and so is not taken for the number of people. Means are not read, because they would
have to agree with percentiles exactly and both are rounded estimates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from unbin.exceptions import ReleaseError
from unbin.release.readers.build import build, check_ids, choose_rows
from unbin.release.readers.dimensions import mixture_error
from unbin.release.readers.long import pick
from unbin.release.readers.numbers import parse_number
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, listed, shown
from unbin.release.release import Release
from unbin.release.words import plural

_AREAS = ("AREA", "AREA_TITLE", "PRIM_STATE", "ST", "STATE")
_PERCENTILE = re.compile(r"(?P<unit>[AH])_(?:PCT(?P<percent>[0-9]{1,2})|MEDIAN)", re.I)
_UNITS = {"A": "annual", "H": "hourly"}
_HIDDEN = {"*": "not released", "**": "not released", "": "not released", "#": "top-coded"}
_EVERYBODY = re.compile(r"all occupations|00-0000|u\.?s\.?|united states", re.I)
_SPLITTING = (
    "AREA_TYPE",
    "OWN_CODE",
    "I_GROUP",
    "NAICS_TITLE",
    "NAICS",
    "O_GROUP",
    "GROUP",
    "OCC_GROUP",
    "OCC_TITLE",
    "OCC_CODE",
    "YEAR",
)
_HOURS = 2080
"""Hours of work in a year."""
_APART = ({"2", "3"}, {"4", "6"})
"""Types of areas that do not overlap: states and territories, metropolitan areas and the others."""


def recognises(sheet: Sheet) -> bool:
    """Tell whether the header has percentiles of wages by area."""
    names = {name.casefold() for name in sheet.header}
    placed = any(name.casefold() in names for name in _AREAS)
    return placed and {"occ_title", "tot_emp"} <= names and any(map(_PERCENTILE.fullmatch, names))


def read(sheet: Sheet, options: Options) -> Release:
    """Read percentiles of wages."""
    table = choose_rows(sheet.table(), options.where)
    block = pick(table, options.block, _AREAS, role="block")
    unit = (options.label or "A").upper()
    found = {name: match for name in table.header if (match := _PERCENTILE.fullmatch(name))}
    levels = {
        name: int(match["percent"] or 50) / 100
        for name, match in found.items()
        if match["unit"].upper() == unit
    }
    if not levels:
        raise table.error(
            "label: wages by year (A) or by hour (H) must be in the table, got "
            f"{listed(list(found))}; say",
            offers={"label": next(iter(found), "A")[0].upper()},
        )
    table = _without_everybody(table, options)
    _refuse_mixtures(table, block)
    ids = check_ids(table, block)
    if options.block is None and block.upper() == "AREA":
        table.parse(block, _check_code)
    columns: dict[str, list[str | float]] = {"block": [], "quantile": [], "value": []}
    rows: list[int] = []
    lost: Counter[str] = Counter()
    for name, level in levels.items():
        wages = table.parse(name, _wage)
        lost.update(_HIDDEN[text] for text in table.column(name) if text in _HIDDEN)
        known = [k for k, wage in enumerate(wages) if wage is not None]
        columns["block"] += [ids[k] for k in known]
        columns["quantile"] += [level] * len(known)
        columns["value"] += [wage for wage in wages if wage is not None]
        rows += [table.rows[k] for k in known]
    if not rows:
        raise table.error("must hold wages, got none that was released; choose other rows")
    _refuse_other_units(table, levels)
    table = _note_lost(table, ids, set(columns["block"]), lost)
    percent = ", ".join(f"{100 * level:g}" for level in sorted(levels.values()))
    source = f"bls, percentiles {percent} of {_UNITS[unit]} wages, block {shown(block)}"
    return build(table, "from_quantiles", columns, rows, source=source)


def _check_code(text: str) -> None:
    if not text.isdigit():
        raise ReleaseError(
            f"must be the code of an area, got {shown(text)}; say block=... with the column to read"
        )


def _wage(text: str) -> float | None:
    return None if text in _HIDDEN else parse_number(text)


def _refuse_other_units(table: Table, levels: Mapping[str, float]) -> None:
    """Raise unless wages by year are those by hour, times 2,080, wherever both are shown."""
    for name in levels:
        annual, hourly = (table.find(unit + name[1:]) for unit in "AH")
        if annual is None or hourly is None:
            continue
        pairs = zip(table.parse(annual, _wage), table.parse(hourly, _wage), strict=True)
        for row, (year, hour) in zip(table.rows, pairs, strict=True):
            if year and hour and not 0.98 < year / (_HOURS * hour) < 1.02:
                raise table.error(
                    f"a wage by year must be {_HOURS:,} times that by hour, got {year:,g} and "
                    f"{hour:,g}; check which column is which",
                    row=row,
                    column=annual,
                )


def _without_everybody(table: Table, options: Options) -> Table:
    """Leave out the nation and all occupations together, where parts of them are in the table."""
    if options.totals == "keep":
        return table
    for name in ("AREA_TITLE", "OCC_TITLE"):
        column = table.find(name)
        if column is None:
            continue
        keep = [not _EVERYBODY.fullmatch(text) for text in table.column(column)]
        if any(keep):
            gone = next((t for t, k in zip(table.column(column), keep, strict=True) if not k), "")
            table = table.take(keep, f"totals of others ({column} {shown(gone)})")
    return table


def _refuse_mixtures(table: Table, block: str) -> None:
    """Raise if a block has several rows, or blocks overlap."""
    crossed = block.split(", ")
    for name in _SPLITTING:
        column = table.find(name)
        if column is None or column == block:
            continue
        values = list(dict.fromkeys(table.column(column)))
        told = len(set(zip(table.column(block), table.column(column), strict=True)))
        one_each = told == len(set(table.column(block)))
        overlap = name in ("AREA_TYPE", "O_GROUP", "GROUP", "OCC_GROUP", "I_GROUP")
        apart = name == "AREA_TYPE" and any(set(values) <= each for each in _APART)
        if len(values) == 1 or apart or (one_each and not overlap):
            continue
        error = mixture_error(table, column, values)
        if overlap or column in crossed:
            raise error
        raise table.error(
            f"one value must be chosen, got {listed(values)}; say block={[*crossed, column]!r}, or",
            column=column,
            offers=error.offers,
        )
    seen: dict[str, int] = {}
    for text, row in zip(table.column(block), table.rows, strict=True):
        if seen.setdefault(text, row) != row:
            raise table.error(
                f"block {shown(text)}: must be listed once, got row {seen[text]} too; keep one of "
                "them, or choose with where={...}",
                row=row,
            )


def _note_lost(table: Table, ids: list[str], told: set[str | float], lost: Counter[str]) -> Table:
    """Say what is left out."""
    if lost:
        why = ", ".join(f"{n:,} {word}" for word, n in lost.items())
        table = table.noting(f"{plural(sum(lost.values()), 'percentile')} left out: {why}")
    silent = [text for text in ids if text not in told]
    if silent:
        table = table.noting(f"{plural(len(silent), 'block')} without any: {listed(silent)}")
    return table.noting("means not read, nor employment, which is rounded to 10")
