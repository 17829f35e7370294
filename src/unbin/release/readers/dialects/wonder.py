"""CDC WONDER exports: tab separated, notes in the first column, query text below ``---``.

``Suppressed`` means 0 to 9, and so does a row that the query hides. With a column of age groups the
table is a histogram of the ages of those counted; without one it says how many of a population
were counted: targets 0 and 1. A column that ``category=`` names (causes of death, sexes) is the
outcome of those counted, and with ``rest=`` the others of the population are a category too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from unbin.exceptions import BinError
from unbin.release.readers.bounds import bound_by_totals
from unbin.release.readers.build import Bins, build_histogram, check_ids, choose_rows
from unbin.release.readers.cells import Cell, Scheme, add_cells, parse_cell
from unbin.release.readers.dialects.wonder_query import AGES, Query, read_query
from unbin.release.readers.dimensions import explained, is_number, mixture_error
from unbin.release.readers.files import MAX_CELLS
from unbin.release.readers.labels import Label, is_unknown, parse_label
from unbin.release.readers.long import edges_of, pick, share_bins
from unbin.release.readers.nominal import check_names, named_bins
from unbin.release.readers.numbers import parse_whole
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, listed, shown, texts_of
from unbin.release.release import Release
from unbin.release.words import plural

T = TypeVar("T")
COUNTS = ("Deaths", "Births", "Fetal Deaths", "Cases", "Count")
_PLACES = tuple(
    re.compile(rf"\b(?:{words})\b", re.I)
    for words in ("county|counties", "msas?|metropolitan", "states?", "division", "region")
)
"""Words of places, small ones first."""
_NO_NUMBER = {"not applicable", "not available", "suppressed", "missing"}
_EVERYBODY = "all"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = re.compile(rf"(?:[0-9]{{4}}/)?([0-9]{{1,2}})|({'|'.join(_MONTHS)})[a-z]*\.?(?:, ?[0-9]+)?")
_SHORT = re.compile(r"\b(?:hours?|days?|weeks?|months?)\b", re.I)


@dataclass(frozen=True, slots=True)
class _Roles:
    """Columns by what they hold.

    Attributes
    ----------
    block : str
    label : str or None
        The bins or categories; None for a table of how many of a population were counted.
    count : str
    groups : list of str
        All columns that the query grouped by, codes of others left out.
    """

    block: str
    label: str | None
    count: str
    groups: list[str]


def recognises(sheet: Sheet) -> bool:
    """Tell whether the header starts with notes and has a count."""
    return sheet.header[0] == "Notes" and any(name in COUNTS for name in sheet.header)


def read(sheet: Sheet, options: Options) -> Release:
    """Read an export of CDC WONDER."""
    rules = (i for i, record in enumerate(sheet.cells) if [c for c in record if c] == ["---"])
    end = next(rules, len(sheet.cells))
    table = sheet.table(until=end)
    query = read_query(sheet.cells[end:])
    if "Notes" not in table.header:
        raise table.error(
            f"must be an export of CDC WONDER, got no column 'Notes' among {listed(table.header)}; "
            "say another dialect"
        )
    table, roles = _find_roles(table, options)
    table = choose_rows(table, options.where)
    is_total = [note.casefold() == "total" for note in table.column("Notes")]
    data = table.take([not total for total in is_total])
    if not len(data):
        raise table.error("must hold rows about blocks, got totals only; group by a place")
    totals = table.take(is_total)
    if roles.label is None:
        return _events(data, totals, roles, options, query)
    if options.category is not None:
        return _categories(data, totals, roles, options, query)
    return _histogram(data, totals, roles, options, query)


# -- columns ---------------------------------------------------------------------------------------


def _find_roles(table: Table, options: Options) -> tuple[Table, _Roles]:
    count = pick(table, options.count, COUNTS, role="count")
    groups = _groups(table, count)
    label = _find_label(table, options, groups)
    known = [name for name in table.header if name in COUNTS]
    if label is not None and options.count is None and len(known) > 1:
        raise table.error(
            f"one count must be chosen, got {listed(known)}; say", offers={"count": known[0]}
        )
    left = [name for name in groups if name not in (label, _without_code(label))]
    if options.block is not None:
        block = table.require(options.block, role="block")
    elif left:
        block = _find_block(table, left)
    else:
        block = "block"
        table = table.with_column(block, [_EVERYBODY] * len(table))
    return table, _Roles(block, label, count, groups)


def _groups(table: Table, count: str) -> list[str]:
    """Return the columns that the query grouped by: those before the first count."""
    stop = min(table.header.index(name) for name in table.header if name in (count, *COUNTS))
    names = [name for name in table.header[table.header.index("Notes") + 1 : stop] if name]
    codes = {f"{name} Code" for name in names}
    return [name for name in names if name not in codes]


def _without_code(name: str | None) -> str:
    return (name or "").removesuffix(" Code")


def _find_label(table: Table, options: Options, groups: list[str]) -> str | None:
    """Return the column of bins or categories: the one asked for, or the only one of ages."""
    if options.category is not None:
        return table.require(options.category, role="category")
    if options.label is not None:
        label = table.require(options.label, role="label")
        words = _without_code(label)
        if label == words or words == "Month":
            return label
        # the code of "< 1 year" is 1
        return table.require(words, role="label")
    ages = [n for n in groups if AGES.fullmatch(n) and f"{n} Code" in table.header]
    if len(ages) > 1:
        raise table.error(
            f"one outcome must be chosen, got {listed(ages)}; the other one is then the block, or "
            "one of its values is chosen with where=...: say",
            offers={"label": ages[-1]},
        )
    return ages[0] if ages else None


def _find_block(table: Table, groups: list[str]) -> str:
    """Return the code of the smallest place, or else the first group."""
    for place in _PLACES:
        found = next((name for name in groups if place.search(name)), None)
        if found:
            return table.find(f"{found} Code") or found
    return groups[0]


def _refuse_mixtures(table: Table, roles: _Roles, *parts: list[str]) -> None:
    """Raise if a further group splits the people of a cell."""
    for name in roles.groups:
        if name == _without_code(roles.label):
            continue
        texts = table.column(name)
        values = list(dict.fromkeys(texts))
        if len(values) > 1 and not any(explained(part, texts) for part in parts):
            if roles.label is None and AGES.fullmatch(name):
                raise table.error(
                    f"ages have a column {name + ' Code'!r} beside them, got none; if this column "
                    "holds the bins, say",
                    column=name,
                    offers={"label": name},
                )
            raise mixture_error(table, name, values)


# -- ages of those counted -------------------------------------------------------------------------


def _histogram(
    data: Table, totals: Table, roles: _Roles, options: Options, query: Query
) -> Release:
    """Read how many were counted in each group; rows that are not listed are intervals."""
    label, count = str(roles.label), roles.count
    scheme = options.scheme("cdc-wonder")
    data = _with_months(data, label)
    texts = data.column(label)
    cells = data.parse(count, lambda text: parse_cell(text, scheme))
    known = [not (is_unknown(text) or text.casefold() in _NO_NUMBER) for text in texts]
    if not any(known):
        raise data.error(
            f"must hold bins, got {listed(list(dict.fromkeys(texts)))}; say label=... with the "
            "column of bins",
            column=label,
        )
    unknown = _unknown(check_ids(data, roles.block), cells, known)
    body = data.take(known, f"{shown(label)} unknown, {_people(unknown)} {count}")
    ids = body.column(roles.block)
    _refuse_mixtures(body, roles, ids, body.column(label))
    labels = body.parse(label, _parse_bin)
    cells = [cell for cell, k in zip(cells, known, strict=True) if k]
    unlisted = query.unlisted(cells, scheme)
    body, groups = _all_groups(body, label, labels, options, query, unlisted)
    edges = edges_of(body, groups, label, options.closed)
    missing = _missing(body, ids, labels, groups) if unlisted else []
    if unlisted and missing:
        body = body.noting(_hidden_note(len(missing), unlisted, count, query))
    first = dict(zip(reversed(ids), reversed(body.rows), strict=True))
    all_labels = labels + [item for _, item in missing]
    bins = Bins(
        body.rows + [first[block] for block, _ in missing],
        ids + [block for block, _ in missing],
        [edges.edges[item][0] for item in all_labels],
        [edges.edges[item][1] for item in all_labels],
        cells + [unlisted for _ in missing if unlisted],
        edges.closed,
        {},
    )
    if unlisted and query.holds_unknown(label):
        unknown = {block: unknown.get(block, unlisted) for block in first}
    body, bins = _bounded(body, bins, totals, roles, scheme, unknown)
    source = f"cdc-wonder, block {shown(roles.block)}, {shown(label)} of {count}"
    return build_histogram(body, bins, source=source, totals=options.totals)


def _categories(
    data: Table, totals: Table, roles: _Roles, options: Options, query: Query
) -> Release:
    """Read how many were counted in each category; rows that are not listed are intervals."""
    label, count = str(roles.label), roles.count
    scheme = options.scheme("cdc-wonder")
    ids, texts = check_ids(data, roles.block), check_names(data, label)
    cells = data.parse(count, lambda text: parse_cell(text, scheme))
    _refuse_mixtures(data, roles, ids, texts)
    names = sorted(set(texts))
    unlisted = query.unlisted(cells, scheme)
    missing = _missing(data, ids, texts, names) if unlisted else []
    if unlisted and missing:
        data = data.noting(_hidden_note(len(missing), unlisted, count, query))
    n = _population(data, roles, ids) if options.rest is not None else {}
    bins = named_bins(
        data,
        options,
        ids + [block for block, _ in missing],
        texts + [name for _, name in missing],
        cells + [unlisted for _ in missing if unlisted],
        n=n,
        names=names,
    )
    first = dict(zip(reversed(ids), reversed(data.rows), strict=True))
    bins = replace(bins, row=data.rows + [first[block] for block, _ in missing])
    if options.rest is None:
        # a category that is hidden everywhere has no name
        unnamed = {b: Cell(0, None) for b in first} if unlisted and not unlisted.exact else {}
        data, bins = _bounded(data, bins, totals, roles, scheme, unnamed)
    elif len(totals):
        data = data.noting(f"{plural(len(totals), 'row')} of totals left out")
    source = f"cdc-wonder, block {shown(roles.block)}, categories {shown(label)} of {count}"
    return build_histogram(data, bins, source=source, totals=options.totals)


def _population(table: Table, roles: _Roles, ids: list[str]) -> dict[str, int]:
    """Return the people of each block, the same for all of its categories."""
    name = _find_population(table, roles)
    if not explained(ids, table.column(name)):
        raise table.error(
            f"rest: must be one number for all categories of a block, got several; group by "
            f"{shown(roles.block)} alone, or leave rest out",
            column=name,
        )
    return dict(zip(ids, table.parse(name, parse_whole), strict=True))


def _with_months(table: Table, label: str) -> Table:
    """Write months as numbers: "2009/01" and "Jan., 2009" are 1."""
    if _without_code(label) != "Month":
        return table

    def month(text: str) -> str:
        found = _MONTH.fullmatch(text.casefold())
        if found is None:
            return text
        return str(int(found[1])) if found[1] else str(_MONTHS.index(found[2]) + 1)

    return table.with_column(label, [month(text) for text in table.column(label)])


def _parse_bin(text: str) -> Label:
    if _SHORT.search(text):
        raise BinError(
            f"ages must be in years, got {shown(text)}; leave such rows out with where=..., or "
            "group by years"
        )
    return parse_label(text)


def _is_bin(text: str) -> bool:
    try:
        _parse_bin(text)
    except BinError:
        return False
    return True


def _unknown(ids: list[str], cells: list[Cell], known: list[bool]) -> dict[str, Cell]:
    """Return how many people of each block have no known group."""
    found: dict[str, list[Cell]] = {}
    for block, cell, k in zip(ids, cells, known, strict=True):
        if not k:
            found.setdefault(block, []).append(cell)
    return {block: add_cells(part) for block, part in found.items()}


def _people(cells: Mapping[str, Cell]) -> str:
    low = sum(cell.low for cell in cells.values())
    exact = all(cell.exact for cell in cells.values())
    return f"{'' if exact else 'at least '}{low:,}"


def _all_groups(
    table: Table,
    label: str,
    labels: list[Label],
    options: Options,
    query: Query,
    unlisted: Cell | None,
) -> tuple[Table, list[Label]]:
    """Return all bins, those that no row lists included."""
    seen = list(dict.fromkeys(labels))
    if not unlisted:
        return table, seen
    words = query.groups(_without_code(label)) or []
    chosen = {str(name).casefold(): value for name, value in (options.where or {}).items()}
    if label.casefold() in chosen:
        words = [text for text in words if text in texts_of(chosen[label.casefold()])]
    groups = [_parse_bin(text) for text in words if _is_bin(text)]
    if set(seen) <= set(groups):
        return table, groups
    return table.noting(
        f"groups of {shown(label)} that no row lists are not known, only the {len(seen):,} of "
        "the file are read"
    ), seen


def _missing(table: Table, ids: list[str], labels: list[T], groups: list[T]) -> list[tuple[str, T]]:
    """Return the cells of blocks and bins that no row lists."""
    blocks = list(dict.fromkeys(ids))
    if len(blocks) * len(groups) > MAX_CELLS:
        raise table.error(
            f"must have fewer cells, got {len(blocks):,} blocks of {len(groups):,} bins; choose "
            "rows with where=..."
        )
    there = set(zip(ids, labels, strict=True))
    return [(block, item) for block in blocks for item in groups if (block, item) not in there]


def _hidden_note(n: int, cell: Cell, count: str, query: Query) -> str:
    names = ("Show Suppressed", "Show Zero Values")
    said = [f"{name}: {query.parameters.get(name.casefold(), 'not said')}" for name in names]
    why = ", ".join(said) if query.has_footer else "the query below the table is missing"
    bounds = "0" if cell.exact else f"{cell.low}–{cell.high}"
    return (
        f"{plural(n, 'cell')} of blocks and bins not listed: {bounds} {count} ({why}); blocks "
        "without any row may exist"
    )


def _bounded(
    table: Table,
    bins: Bins,
    totals: Table,
    roles: _Roles,
    scheme: Scheme,
    unknown: Mapping[str, Cell],
) -> tuple[Table, Bins]:
    """Bound counts by the totals of their blocks, of which some people have no known group."""
    blocks = set(bins.block)
    published = _totals_of_blocks(totals, roles, scheme)
    published = {block: n for block, n in published.items() if block in blocks}
    if len(totals):
        used = f", used as bounds for {plural(len(published), 'block')}" if published else ""
        table = table.noting(f"{plural(len(totals), 'row')} of totals left out{used}")
    return table, bound_by_totals(table, bins, published, unknown)


def _totals_of_blocks(totals: Table, roles: _Roles, scheme: Scheme) -> dict[str, int]:
    """Return totals over all bins of a block; none where the file has different ones."""
    found: dict[str, set[Cell]] = {}
    rows = zip(
        totals.column(roles.block),
        totals.column(str(roles.label)),
        totals.parse(roles.count, lambda text: parse_cell(text, scheme)),
        strict=True,
    )
    for block, label, cell in rows:
        if block and not label:
            found.setdefault(block, set()).add(cell)
    only = {block: next(iter(cells)) for block, cells in found.items() if len(cells) == 1}
    return {block: cell.low for block, cell in only.items() if cell.exact}


# -- how many of a population ----------------------------------------------------------------------


def _events(data: Table, totals: Table, roles: _Roles, options: Options, query: Query) -> Release:
    """Read how many of a population were counted."""
    scheme, count = options.scheme("cdc-wonder"), roles.count
    people = _find_population(data, roles)
    data = _with_population(data, people, roles)
    cells = data.parse(count, lambda text: parse_cell(text, scheme))
    population = data.parse(people, parse_whole)
    ids = check_ids(data, roles.block)
    _refuse_mixtures(data, roles, ids)
    bins = share_bins(data, ids, cells, population, count)
    data = _event_notes(data, totals, roles, people, query, cells, scheme)
    block = shown(roles.block)
    source = f"cdc-wonder, block {block}, 1 for {count} and 0 for the rest of {people}"
    return build_histogram(data, bins, source=source, totals=options.totals)


def _find_population(table: Table, roles: _Roles) -> str:
    found = table.find("Population", *(["Births"] if roles.count == "Deaths" else []))
    if found is None:
        raise table.error(
            f"must have a column of age groups or a 'Population', got {listed(table.header)}; say "
            "label=... with the column of bins, or group by ages too"
        )
    return found


def _with_population(table: Table, people: str, roles: _Roles) -> Table:
    """Leave out rows without a population; refuse a table that has none."""
    texts = table.column(people)
    there = [text.casefold() not in _NO_NUMBER for text in texts]
    if any(there):
        return table.take(there, f"no {people}")
    offers: dict[str, object] = {}
    month = table.find("Month Code", "Month")
    if month:
        offers["label"] = month
        years = list(dict.fromkeys(table.column("Year"))) if "Year" in table.header else []
        if len(years) > 1:
            offers["where"] = {"Year": years[0]}
    advice = "to read the months themselves, say" if month else "group by a place, or by ages too"
    raise table.error(
        f"{roles.count} must be a share of a population, got {listed(list(dict.fromkeys(texts)))}; "
        f"{advice}",
        column=people,
        offers=offers,
    )


def _event_notes(
    table: Table,
    totals: Table,
    roles: _Roles,
    people: str,
    query: Query,
    cells: list[Cell],
    scheme: Scheme,
) -> Table:
    """Say what the table does not list, and what its population counts."""
    if len(totals):
        table = table.noting(f"{plural(len(totals), 'row')} of totals left out")
    unlisted = query.unlisted(cells, scheme)
    if unlisted:
        bounds = "no" if unlisted.exact else f"{unlisted.low}–{unlisted.high}"
        note = f"blocks that are not listed had {bounds} {roles.count}"
        table = table.noting(note + _rest_of_all(table, totals, roles, people, cells))
    years = query.years()
    if len(years) > 1 and "Year" not in roles.groups:
        table = table.noting(
            f"{people} counts person-years: the people of {plural(len(years), 'year')} "
            f"({years[0]} to {years[-1]}) are added up"
        )
    return table


def _rest_of_all(table: Table, totals: Table, roles: _Roles, people: str, cells: list[Cell]) -> str:
    """Return how many were counted in blocks that are not listed, by the grand total."""
    grand = totals.take([not block for block in totals.column(roles.block)])
    texts = [*grand.column(roles.count), *grand.column(people)]
    if len(grand) != 1 or not all(map(is_number, texts)) or not all(cell.exact for cell in cells):
        return ""
    counted = grand.parse(roles.count, parse_whole)[0] - sum(cell.low for cell in cells)
    everybody = grand.parse(people, parse_whole)[0] - sum(table.parse(people, parse_whole))
    if counted < 0 or everybody <= 0:
        return ""
    return f"; all of them together: {counted:,} of {everybody:,}"
