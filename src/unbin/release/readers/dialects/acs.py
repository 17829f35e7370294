"""Tables of the American Community Survey (US Census), such as B19001 and S1901.

- Wide downloads of data.census.gov have two header rows: ``GEO_ID, NAME, B19001_001E, B19001_001M,
  …`` and labels such as ``Estimate!!Total:!!$10,000 to $14,999``. The first estimate is the total;
  annotation columns (``…EA``) override estimates. Those of American FactFinder (before 2020) have
  ``GEO.id, GEO.id2, GEO.display-label, HD01_VD01, HD02_VD01, …`` and ``Estimate; Total: - …``.
- The Census API returns an array of rows in JSON, ``NAME, B19001_001E, …, state, county``, and
  tidycensus its wide form, ``GEOID, NAME, B19001_001E, …``: without labels, which are known of
  B19001 or taken from a metadata file in the same folder or archive.
- The long form of tidycensus has ``GEOID, NAME, variable, estimate, moe``, with a column ``label``
  unless the table is B19001 or variables are named after their bins.
- Subject tables like S1901 hold a number of households, families, … (``S1901_C01_001E``,
  ``S1901_C02_001E``) and the percentages of them in each bin, rounded to 0.1.

The same bin under several headings (men, women) is one bin. Of a detailed table
``category="headings"`` reads the lines just below the total as categories (men and women of B01001,
owners and renters of B25003), ``category="labels"`` the lines without parts (occupations of
C24010). With ``moe=True`` margins of error become standard errors of the counts: the margin over
1.645, added over headings as a root of the sum of squares (US Census Bureau, Understanding and
Using ACS Data, 2020, chapters 7 and 8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from unbin.exceptions import ParameterError, ReleaseError
from unbin.release.intervals import Rounding
from unbin.release.readers.build import Bins, build_histogram, check_ids, choose_rows
from unbin.release.readers.cells import Cell, Scheme, add_cells, find_scheme, parse_cell
from unbin.release.readers.dialects import census
from unbin.release.readers.dialects.census import Path, Variable
from unbin.release.readers.labels import Label, is_total, is_unknown, parse_label
from unbin.release.readers.long import edges_of
from unbin.release.readers.nominal import named_bins
from unbin.release.readers.numbers import parse_number, plain
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, listed, read_error, shown
from unbin.release.release import Release
from unbin.release.words import plural

_NO_ANNOTATION = ("", "null", "**", "***", "*****")
_LONG = {"GEOID", "variable", "estimate"}
_TENTHS = "nearest-0.1%"
_LINES = ("headings", "labels")
"""Lines of a table that may be categories: those just below the total, or those without parts."""
_MADE = "geography"
"""The column of ids that are made of others."""


def recognises(sheet: Sheet) -> bool:
    """Tell whether the header is that of a download, of the Census API or of tidycensus."""
    names = set(sheet.header)
    placed = names & {*census.IDS, "NAME"} or census.geographies(sheet.header)
    return names >= _LONG or bool(placed and census.find_variables(sheet.header))


def table_name(sheet: Sheet) -> str:
    """Return B19001, from the header or the name of the file."""
    named = {variable.table for variable in census.find_variables(sheet.header)} - {""}
    if len(named) == 1:
        return named.pop()
    return census.table_in(sheet.name, sheet.file)


def read(sheet: Sheet, options: Options) -> Release:
    """Read a detailed or a subject table, wide or long."""
    if options.category not in (None, *_LINES):
        raise read_error(
            sheet.file,
            f"category: says which lines are categories, 'headings' or 'labels', got "
            f"{shown(str(options.category))}; say one of them",
        )
    is_long = set(sheet.header) >= _LONG
    found = _long(sheet, options) if is_long else _wide(sheet, options)
    table, n = found.table, _people(found.counts)
    if options.category is not None:
        return _categories(found, n, options)
    bins = {key: item for key, item in found.counts.items() if isinstance(key[1], Label)}
    labels = [label for _, label in bins if isinstance(label, Label)]
    edges = edges_of(table, labels, "label", options.closed)
    return build_histogram(
        table,
        Bins(
            [item.row for item in bins.values()],
            [block for block, _ in bins],
            [edges.edges[label][0] for label in labels],
            [edges.edges[label][1] for label in labels],
            [item.cell for item in bins.values()],
            edges.closed,
            n,
            [item.error for item in bins.values()] if options.moe else None,
        ),
        source=found.source,
        totals=options.totals,
    )


def _categories(found: _Found, n: dict[str, int], options: Options) -> Release:
    """Return the release of lines that are categories."""
    lines = {key: item for key, item in found.counts.items() if isinstance(key[1], _Category)}
    names = [line.name for _, line in lines if isinstance(line, _Category)]
    ids, cells = [block for block, _ in lines], [item.cell for item in lines.values()]
    bins = replace(
        named_bins(found.table, options, ids, names, cells, n=n),
        row=[item.row for item in lines.values()],
        se=[item.error for item in lines.values()] if options.moe else None,
    )
    source = f"{found.source}, categories are {options.category}"
    return build_histogram(found.table, bins, source=source, totals=options.totals)


@dataclass(frozen=True, slots=True)
class _Category:
    """A line that is a category."""

    name: str


@dataclass(frozen=True, slots=True)
class _Count:
    """A count, the row of the file it is in, and its standard error."""

    cell: Cell
    row: int
    error: float = math.nan

    def plus(self, other: _Count) -> _Count:
        """Return both together."""
        cell = add_cells([self.cell, other.cell])
        return _Count(cell, other.row, math.hypot(self.error, other.error))


Role = Label | _Category | str
"""What a line counts: a bin, a category, everybody ("total") or those without one ("unknown")."""
Counts = dict[tuple[str, Role], _Count]
"""Counts by block and by what they count."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What was read of a table."""

    table: Table
    counts: Counts
    source: str


def _people(counts: Counts) -> dict[str, int]:
    """Return the people of each block who have a value, where the table says."""
    n = {
        block: item.cell.low
        for (block, role), item in counts.items()
        if role == "total" and item.cell.exact
    }
    for (block, role), item in counts.items():
        if role != "unknown" or block not in n:
            continue
        if item.cell.exact and item.cell.low <= n[block]:
            n[block] -= item.cell.low
        else:
            del n[block]
    return n


def _placed(table: Table, options: Options, usual: list[str]) -> tuple[Table, str, list[str]]:
    """Return the table without places that contain others, the column of ids, and the ids."""
    block = options.block or next((name for name in census.IDS if name in table.header), "")
    if not block and usual:
        table, block = table.with_column(_MADE, census.joined_ids(table, usual)), _MADE
    if not block:
        raise table.error(
            f"no column of places found, got {listed(table.header)}; say block=... with its name"
        )
    block = table.require(block, role="block")
    ids = check_ids(table, block)
    if options.block is None:
        table.parse(block, census.check_code)
    if options.totals == "drop":
        larger = census.containing(table, ids, block)
        keep = [text not in set(larger) for text in ids] if larger else [True] * len(ids)
        table = table.take(keep, f"they contain other places of the table, {listed(larger)}")
    return table, block, census.plain_ids(table.column(block))


# -- wide ------------------------------------------------------------------------------------------


def _wide(sheet: Sheet, options: Options) -> _Found:
    variables = _of_one_table(sheet, options)
    paths, first = census.find_labels(sheet, variables)
    table = choose_rows(sheet.table(first=first), options.where)
    usual = census.geographies(table.header)
    table, block, ids = _placed(table, options, usual)
    _refuse_twice(table, ids)
    where = " + ".join(map(shown, usual)) if block == _MADE else shown(block)
    labels = _Labels(paths, sheet.rows[1] if first == 2 else None, options.category)
    if any(variable.column for variable in variables):
        return _subject(table, ids, variables, labels, options, where)
    return _detailed(table, ids, variables, labels, options, where)


@dataclass(frozen=True, slots=True)
class _Labels:
    """The labels of variables, the row of the file they are in, and which are categories."""

    paths: dict[str, Path]
    row: int | None
    category: str | None = None

    def roles(self, table: Table, names: list[str]) -> dict[str, Role]:
        """Return what each variable counts; headings that have parts are left out."""
        parents = {self.paths[name][:-1] for name in names}
        result: dict[str, Role] = {}
        for name in names:
            path = self.paths[name]
            if not path:
                raise table.error(
                    "every estimate needs a label, got none; download the table with its labels",
                    row=self.row,
                    column=name,
                )
            if len(path) == 1 and is_total(path[0]):
                result[name] = "total"
            elif self.category is not None:
                if len(path) == 2 if self.category == "headings" else path not in parents:
                    result[name] = _Category(path[-1])
            elif path not in parents:
                try:
                    result[name] = "unknown" if is_unknown(path[-1]) else parse_label(path[-1])
                except ReleaseError as error:
                    raise table.error(str(error), row=self.row, column=name) from None
        if not any(isinstance(role, Label | _Category) for role in result.values()):
            raise table.error("must hold bins, got no label below the total; choose another table")
        return result


def _of_one_table(sheet: Sheet, options: Options) -> list[Variable]:
    """Return the variables of the table to read; of a subject table those of all populations."""
    variables = census.find_variables(sheet.header)
    tables = list(dict.fromkeys(variable.table for variable in variables))
    subject = any(variable.column for variable in variables)
    chosen = None if subject else options.label
    if chosen is not None and chosen not in tables:
        raise read_error(
            sheet.file,
            f"label: table {shown(chosen)} not found, got {listed(tables)}; say one of them, or "
            "nothing",
        )
    if chosen is None and len(tables) > 1:
        raise read_error(
            sheet.file,
            f"one table must be chosen, got {listed(tables)}; "
            + ("read them one by one" if subject else "say"),
            offers=None if subject else {"label": tables[0]},
        )
    return [each for each in variables if chosen is None or each.table == chosen]


def _refuse_twice(table: Table, ids: list[str]) -> None:
    seen: dict[str, int] = {}
    for block, row in zip(ids, table.rows, strict=True):
        if seen.setdefault(block, row) != row:
            raise table.error(
                f"block {shown(block)}: must be listed once, got row {seen[block]} too; keep one "
                "of them",
                row=row,
            )


def _detailed(
    table: Table,
    ids: list[str],
    variables: list[Variable],
    labels: _Labels,
    options: Options,
    where: str,
) -> _Found:
    scheme = options.scheme("acs")
    roles = labels.roles(table, [variable.name for variable in variables])
    _refuse_gaps(table, variables, roles)
    counts: Counts = {}
    for variable in variables:
        role = roles.get(variable.name)
        if role is None:
            continue
        cells = _estimates(table, variable, scheme)
        errors = _errors(table, variable) if options.moe else [math.nan] * len(cells)
        for block, cell, error, row in zip(ids, cells, errors, table.rows, strict=True):
            new, old = _Count(cell, row, error), counts.get((block, role))
            counts[block, role] = new if old is None else old.plus(new)
    table = _note_labels(table, roles, labels.paths)
    return _Found(table, counts, f"acs, block {where}")


def _refuse_gaps(table: Table, variables: list[Variable], roles: dict[str, Role]) -> None:
    """Without a total to compare with, lines must follow each other."""
    if "total" in roles.values():
        return
    lines = {variable.number for variable in variables}
    missing = set(range(min(lines), max(lines) + 1)) - lines
    if missing:
        raise table.error(
            f"a table without its total must have all its lines, got none with number "
            f"{min(missing):03d}; download the whole table"
        )


def _note_labels(table: Table, roles: dict[str, Role], paths: dict[str, Path]) -> Table:
    """Say what is left out for want of a value, and over which headings bins are added."""
    lost = dict.fromkeys(paths[name][-1] for name, role in roles.items() if role == "unknown")
    if lost:
        table = table.noting(f"people without a value left out: {listed(list(lost))}")
    headings: dict[Role, list[str]] = {}
    for name, role in roles.items():
        if isinstance(role, Label | _Category):
            headings.setdefault(role, []).append(" ".join(paths[name][1:-1]))
    several = dict.fromkeys(text for texts in headings.values() if len(texts) > 1 for text in texts)
    if several:
        table = table.noting(f"counts of {listed(list(several))} are added up")
    return table


def _estimates(table: Table, variable: Variable, scheme: Scheme) -> list[Cell]:
    """Return a column of counts, as its annotations make them."""
    cells = table.parse(variable.name, lambda text: parse_cell(text, scheme))
    notes = table.find(f"{variable.name}A")
    if notes is None:
        return cells
    told = table.parse(notes, lambda text: _annotated(text, scheme))
    return [cell if note is None else note for cell, note in zip(cells, told, strict=True)]


def _annotated(text: str, scheme: Scheme) -> Cell | None:
    """Return what an annotation makes of its estimate; most are about the margin of error."""
    return None if text in _NO_ANNOTATION else parse_cell(text, scheme)


def _errors(table: Table, variable: Variable) -> list[float]:
    errors = census.margin_errors(table, variable)
    if errors is None:
        raise table.error(
            f"moe: margins of error must be in the table, got no column {shown(variable.margin)}; "
            "leave moe out"
        )
    return errors


# -- subject tables --------------------------------------------------------------------------------


def _subject(
    table: Table,
    ids: list[str],
    variables: list[Variable],
    labels: _Labels,
    options: Options,
    where: str,
) -> _Found:
    """Read a number of households and the percentages of them in each bin."""
    if options.category is not None:
        raise table.error(
            f"category: is read of detailed tables, got the subject table {variables[0].table}; "
            "use the detailed table of the same counts"
        )
    scheme = find_scheme(options.suppression, None, "acs")
    rounding = _of_percentages(options.rounding)
    table, name, variables = _population(table, variables, labels.paths, options.label)
    whole = [each for each in variables if is_total("".join(labels.paths[each.name][1:]))]
    parts = [each for each in variables if labels.paths[each.name][1:2] == ("Total",)]
    parts = [each for each in parts if each not in whole]
    if len(whole) != 1 or not parts:
        raise table.error(
            "a subject table must hold a total and percentages of it, as S1901 does, got "
            f"{listed([' '.join(labels.paths[each.name]) for each in variables])}; use the "
            "detailed table of the same counts"
        )
    rest = [labels.paths[each.name][-1] for each in variables if each not in (*whole, *parts)]
    if rest:
        table = table.noting(f"{plural(len(rest), 'line')} left out, no bins: {listed(rest)}")
    roles = labels.roles(table, [each.name for each in parts])
    people = _estimates(table, whole[0], scheme)
    keep = [cell.exact and cell.low > 0 for cell in people]
    if not any(keep):
        raise table.error("must count people, got nobody in any block; choose another population")
    empty = f"no {name.lower()}, or their number is not shown"
    gone = [text for text, k in zip(ids, keep, strict=True) if not k]
    table = table.take(keep, f"{empty}, in {listed(gone)}")
    ids = [text for text, k in zip(ids, keep, strict=True) if k]
    n = np.array([cell.low for cell, k in zip(people, keep, strict=True) if k])
    n_errors = np.array(_errors(table, whole[0])) if options.moe else np.full(len(n), np.nan)
    counts: Counts = {
        (block, "total"): _Count(Cell(int(size), int(size)), row)
        for block, size, row in zip(ids, n, table.rows, strict=True)
    }
    for each in parts:
        shares = np.array(table.parse(each.name, lambda text: _share(text, scheme, rounding)))
        low, high = rounding.of_percentages(np.nan_to_num(shares), n)
        errors = np.full(len(n), np.nan)
        if options.moe:  # of a share: SE(share)² n² = SE(count)² − share² SE(n)²
            own = np.array(_errors(table, each)) / 100
            errors = np.hypot(own * n, shares / 100 * n_errors)
        for k, block in enumerate(ids):
            known = not math.isnan(shares[k])
            cell = Cell(int(low[k]), int(high[k])) if known else Cell(0, None, hidden=True)
            counts[block, roles[each.name]] = _Count(cell, table.rows[k], float(errors[k]))
    told = f"acs, percentages of {shown(name)}, rounded ({options.rounding or _TENTHS})"
    return _Found(table, counts, f"{told}, block {where}")


def _of_percentages(rounding: str | None) -> Rounding:
    if rounding is not None and not rounding.endswith("%"):
        raise ParameterError(
            f"rounding: the table holds percentages, got {rounding!r} for counts; say for example "
            f"{_TENTHS!r}, or nothing"
        )
    return Rounding.parse(rounding or _TENTHS)


def _share(text: str, scheme: Scheme, rounding: Rounding) -> float:
    """Return a percentage, NaN where it is not shown."""
    if plain(text) in scheme.symbols:
        return math.nan
    share = parse_number(text.rstrip("% "))
    steps = share / (rounding.below + rounding.above)
    if not 0 <= share <= 100 or abs(steps - round(steps)) > 1e-6:
        raise ReleaseError(
            f"must be a percentage, rounded as the others, got {shown(text)}; say rounding=... if "
            "they are rounded otherwise"
        )
    return share


def _population(
    table: Table, variables: list[Variable], paths: dict[str, Path], chosen: str | None
) -> tuple[Table, str, list[Variable]]:
    """Return the population to read, a column of a subject table, and its variables."""
    names = {each.column: paths[each.name][0] for each in reversed(variables) if paths[each.name]}
    names = dict(sorted(names.items()))
    wanted = (chosen or "").casefold()
    column = next((c for c, name in names.items() if wanted in (c.casefold(), name.casefold())), "")
    if chosen is None:
        column, *others = names
        if others:
            table = table.choosing(
                f"{shown(names[column])} read, other populations left out; say label="
                + " or ".join(f"{c!r} for {shown(names[c])}" for c in others[:4])
            )
    elif not column:
        raise table.error(
            f"label: population {shown(chosen)} not found, got {listed(list(names.values()))}; say",
            offers={"label": next(iter(names))},
        )
    return table, names[column], [each for each in variables if each.column == column]


# -- long ------------------------------------------------------------------------------------------


def _long(sheet: Sheet, options: Options) -> _Found:
    table, block, ids = _placed(choose_rows(sheet.table(), options.where), options, [])
    scheme = options.scheme("acs")
    estimate = table.require(options.count or "estimate", role="count")
    label = table.require(options.label, role="label") if options.label else table.find("label")
    table, roles = _long_roles(table, label, options.category)
    cells = table.parse(estimate, lambda text: parse_cell(text, scheme))
    errors = [math.nan] * len(table)
    if options.moe:
        errors = table.parse(table.require("moe", role="moe"), census.parse_margin)
    counts: Counts = {}
    seen: dict[tuple[str, str], int] = {}
    keys = zip(ids, table.column("variable"), strict=True)
    for key, cell, error, row in zip(keys, cells, errors, table.rows, strict=True):
        if key in seen:
            raise table.error(
                f"block {shown(key[0])}: {shown(key[1])} must be listed once, got row {seen[key]} "
                "too; keep one of them, or choose with where={'year': ...}",
                row=row,
            )
        seen[key] = row
        if key[1] not in roles:
            continue
        role = roles[key[1]]
        new, old = _Count(cell, row, error), counts.get((key[0], role))
        if old is not None and role == "total":
            raise table.error(
                f"block {shown(key[0])}: must have one total, got another in row {old.row}; choose "
                "the variables of one table",
                row=row,
            )
        counts[key[0], role] = new if old is None else old.plus(new)
    return _Found(table, counts, f"acs, block {shown(block)}")


def _long_roles(
    table: Table, label: str | None, category: str | None
) -> tuple[Table, dict[str, Role]]:
    """Return what each variable counts, from its label, its name, or what is known of B19001."""
    names = table.column("variable")
    if label:
        texts = dict(zip(names, table.column(label), strict=True))
        paths = {name: census.label_path(text) for name, text in texts.items()}
        roles = _Labels(paths, table.rows[0], category).roles(table, list(paths))
        return _note_labels(table, roles, paths), roles
    first = dict(zip(names[::-1], table.rows[::-1], strict=True))
    roles = {}
    for name in dict.fromkeys(names):
        line = census.split_name(name)
        path = census.known_path(*line) if line else None
        text = "Total" if line and line[1] == 1 else (path or (name,))[-1]
        try:
            if is_total(text):
                roles[name] = "total"
            elif category is not None:
                roles[name] = _Category(text)
            else:
                roles[name] = "unknown" if is_unknown(text) else parse_label(text)
        except ReleaseError as error:
            what = f"{error}; or add a column 'label' with the labels of load_variables()"
            raise table.error(what, row=first[name], column="variable") from None
    return _note_labels(table, roles, {name: (name,) for name in roles}), roles
