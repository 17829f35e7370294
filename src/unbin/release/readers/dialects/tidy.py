"""Tidy files: one row per statistic, the kind recognised from the columns.

- histogram: ``block, lower, upper, count`` (an empty or infinite edge is open; ``count_low`` and
  ``count_high`` for suppressed cells, ``n``, or ``percent`` with ``n``; ``closed`` says which
  edges belong to a bin, if it is not the upper one);
- histogram in words: ``block, label, count``;
- categories: ``block, category, count``, with the further columns of a histogram but edges; names
  that are bins in words are bins, unless a column ``category_code`` gives their order; ``absent``
  says "structural" where a category that a block does not list is not offered there;
- quantiles: ``block, quantile, value, n`` (or ``rank``);
- means: ``block, mean, n`` (or ``total``);
- values: ``block, value``, one row per person.

The block column is called ``block``, or is the only one with another name; without one the table
is about everybody. That a row is a person, not a figure of a place, must be said: by the name
``block``, or by ``block=``.
"""

from __future__ import annotations

from typing import Any

from unbin.exceptions import CountError
from unbin.release.readers.build import (
    Bins,
    build,
    build_histogram,
    build_statistics,
    check_ids,
    choose_rows,
)
from unbin.release.readers.cells import Cell, Scheme, parse_cell
from unbin.release.readers.dialects.headings import is_spread
from unbin.release.readers.dimensions import is_number, mixture_error, refuse_mixtures
from unbin.release.readers.labels import is_total, is_unknown
from unbin.release.readers.long import Columns, read_labelled
from unbin.release.readers.nominal import check_names, read_named
from unbin.release.readers.numbers import parse_edge, parse_number, parse_whole
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, listed, shown
from unbin.release.readers.wide import as_labels
from unbin.release.release import Release
from unbin.release.tables import CLOSED

_LABELS = ("label", "bin")
_ROLES = {
    "lower", "upper", "count", "count_low", "count_high", "percent", "quantile", "rank", "value",
    "mean", "total", "n", "closed", *_LABELS,
}  # fmt: skip
_CATEGORIES = {"category", "category_code", "absent"}
"""Columns that have a role in a table of categories only."""
_EVERYBODY = "all"


def recognises(sheet: Sheet) -> bool:
    """Tell whether the columns are those of a tidy file.

    Beside values and means there must be no others than the block, so that each has one meaning.
    """
    names = {name.casefold() for name in sheet.header if name}
    kind = _kind(names)
    others = {name for name in names - _ROLES - {"block"} if not is_spread(name)}
    if kind is None or as_labels(sheet.header):
        return False
    if kind == "categories":
        known = others <= _CATEGORIES or ("block" not in names and len(others - _CATEGORIES) == 1)
        return known and not _are_bins(sheet, names)
    if kind == "values":
        return len(names - {"value"}) <= 1
    return kind != "means" or len(others) <= ("block" not in names)


def _are_bins(sheet: Sheet, names: set[str]) -> bool:
    """Tell whether the categories of a sheet are bins in words."""
    if "category_code" in names:
        return False
    k = [name.casefold() for name in sheet.header].index("category")
    texts = {record[k] for record in sheet.cells[1:] if k < len(record)}
    others = {text for text in texts if not (is_total(text) or is_unknown(text))}
    return bool(others) and len(as_labels(sorted(others))) == len(others)


def _kind(names: set[str]) -> str | None:
    """Return what the table holds, from its columns."""
    kinds = []
    if names & {"lower", "upper"} or (names & set(_LABELS) and names & {"count", "percent"}):
        kinds.append("histogram" if names & {"lower", "upper"} else "labels")
    elif "category" in names and names & {"count", "percent", "count_low"}:
        kinds.append("categories")
    if names & {"quantile", "rank"}:
        kinds.append("quantiles")
    elif "value" in names:
        kinds.append("values")
    if names & {"mean", "total"}:
        kinds.append("means")
    return kinds[0] if len(kinds) == 1 else None


def read(sheet: Sheet, options: Options) -> Release:
    """Read a tidy file."""
    table = choose_rows(sheet.table(), options.where)
    names = {name.casefold() for name in table.header}
    for role in ("count", "label"):
        named = getattr(options, role)
        if named is not None:
            table.require(named, role=role)
            names.add(role)
    kind = "categories" if options.category is not None else _kind(names)
    if kind is None:
        raise table.error(
            "must have the columns of one kind of table (block, lower, upper, count; or block, "
            "label, count; or block, category, count; or block, quantile, value; or block, value; "
            "or block, mean), got "
            f"{listed(table.header)}; rename them, or say dialect=..."
        )
    reader = {
        "histogram": _histogram,
        "labels": _labels,
        "categories": _categories,
        "quantiles": _quantiles,
        "values": _values,
        "means": _means,
    }[kind]
    roles = _ROLES | _CATEGORIES if kind == "categories" else _ROLES
    return reader(_note_unread(table, options, roles), options)


def _note_unread(table: Table, options: Options, roles: set[str]) -> Table:
    """Say which columns have no role."""
    block = _block(table, options, roles)
    crossed = block.split(", ") if block else []  # several columns, whose cells are the blocks
    named = (options.count, options.label, options.category)
    read = {*named, *(options.where or {}), block, *crossed}
    taken = {*roles, *(str(name).casefold() for name in read if name)}
    unread = [name for name in table.header if name.casefold() not in taken]
    if not unread:
        return table
    return table.noting(f"columns not read: {listed(unread)}")


def _block(table: Table, options: Options, roles: set[str] = _ROLES) -> str | None:
    """Return the block column: the one named, ``block``, or the only one with another name."""
    if options.block is not None:
        return table.require(options.block, role="block")
    found = table.find("block")
    if found:
        return found
    named = (options.count, options.label, options.category)
    taken = {name for name in named if name is not None}
    others = [
        name
        for name in table.header
        if name and name.casefold() not in roles and name not in taken and not is_spread(name)
    ]
    if len(others) > 1:
        raise table.error(
            f"one column must hold the block ids, got {listed(others)}; say",
            offers={"block": others[0]},
        )
    return others[0] if others else None


def _ids(table: Table, block: str | None) -> list[str]:
    return [_EVERYBODY] * len(table) if block is None else check_ids(table, block)


def _taken(table: Table, block: str | None) -> list[str]:
    """Return the columns that have a role, whatever is in them."""
    return [name for name in table.header if name == block or name.casefold() in _ROLES]


def _source(kind: str, block: str | None, *more: str) -> str:
    return ", ".join([f"tidy {kind}", *([] if block is None else [f"block {shown(block)}"]), *more])


def _histogram(table: Table, options: Options) -> Release:
    block = _block(table, options)
    ids = _ids(table, block)
    lower_name, upper_name = (table.require(name, role=name) for name in ("lower", "upper"))
    lower = table.parse(lower_name, lambda text: parse_edge(text, side=-1))
    upper = table.parse(upper_name, lambda text: parse_edge(text, side=1))
    closed = options.closed or _closed(table)
    percent = table.find("percent") if options.count is None else None
    if percent and not table.find("count"):
        columns: dict[str, Any] = {"block": ids, "lower": lower, "upper": upper}
        columns["percent"] = table.parse(percent, lambda text: parse_number(text.rstrip("% ")))
        columns["n"] = table.parse(table.require("n", role="n"), parse_whole)
        keywords = {"percent": "percent", "n": "n", "closed": closed}
        if options.rounding not in (None, "none"):
            keywords["rounding"] = str(options.rounding)
        source = _source("histogram of percentages", block)
        return build(table, "from_histogram", columns, table.rows, source=source, **keywords)
    refuse_mixtures(table, _taken(table, block), ids, list(zip(lower, upper, strict=True)))
    scheme = options.scheme("none")
    bins = Bins(
        table.rows, ids, lower, upper, _cells(table, options, scheme), closed, _n(table, ids)
    )
    rounded = [f"rounded ({scheme.rounding})"] if scheme.rounding else []
    source = _source("histogram", block, *_people_words(table), *rounded)
    return build_histogram(table, bins, source=source, totals=options.totals)


def _categories(table: Table, options: Options) -> Release:
    roles = _ROLES | _CATEGORIES
    block = _block(table, options, roles)
    category = table.require(options.category or "category", role="category")
    names, absent = _order(table, category), _absent(table)
    ids = _ids(table, block)
    percent = table.find("percent") if options.count is None else None
    if percent and not table.find("count"):
        columns: dict[str, Any] = {"block": ids, "category": check_names(table, category)}
        columns["percent"] = table.parse(percent, lambda text: parse_number(text.rstrip("% ")))
        columns["n"] = table.parse(table.require("n", role="n"), parse_whole)
        keywords: dict[str, Any] = {"percent": "percent", "n": "n", "rest": options.rest}
        keywords |= {"absent": options.absent or absent, "categories": names}
        if options.rounding not in (None, "none"):
            keywords["rounding"] = options.rounding
        source = _source("categories by percentages", block)
        return build(table, "from_categories", columns, table.rows, source=source, **keywords)
    if block is None:
        block = "block"
        table = table.with_column(block, ids)
    scheme = options.scheme("none")
    rounded = [f"rounded ({scheme.rounding})"] if scheme.rounding else []
    return read_named(
        table,
        options,
        block,
        category,
        _cells(table, options, scheme),
        source=_source("categories", block, *_people_words(table), *rounded),
        n=_n(table, ids),
        taken=[name for name in table.header if name.casefold() in roles],
        names=names,
        absent=absent,
    )


def _order(table: Table, category: str) -> list[str] | None:
    """Return the categories in the order of column ``category_code``, if there is one."""
    name = table.find("category_code")
    if not name:
        return None
    pairs = set(zip(table.parse(name, parse_whole), table.column(category), strict=True))
    names = [text for _, text in sorted(pairs)]
    codes = {code for code, _ in pairs}
    if len(set(names)) < len(names) or len(codes) < len(pairs):
        raise table.error(
            f"every category must have one code, got {len(codes):,} codes of "
            f"{len(set(names)):,} categories; correct them, or remove the column",
            column=name,
        )
    return names


def _absent(table: Table) -> str:
    """Return what a missing row says: column ``absent``, else that nobody is there."""
    name = table.find("absent")
    said = dict.fromkeys(table.column(name)) if name else {"zero": None}
    if len(said) > 1 or not said.keys() <= {"zero", "structural"}:
        raise table.error(
            f"must be 'zero' or 'structural' for the whole table, got {listed(list(said))}; "
            "correct it",
            column=name,
        )
    return next(iter(said))


def _closed(table: Table) -> str:
    """Return which edges belong to a bin: column ``closed`` says it, else the upper one."""
    name = table.find("closed")
    sides = dict.fromkeys(table.column(name)) if name else {"right": None}
    if len(sides) > 1 or not sides.keys() <= set(CLOSED):
        raise table.error(
            f"must be one of {', '.join(map(repr, CLOSED))} for the whole table, got "
            f"{listed(list(sides))}; correct it",
            column=name,
        )
    return next(iter(sides))


def _cells(table: Table, options: Options, scheme: Scheme) -> list[Cell]:
    """Return counts, from ``count`` or, where that is empty, ``count_low`` and ``count_high``."""
    low, high = table.find("count_low"), table.find("count_high")
    count = table.require(options.count or "count", role="count") if not (low and high) else None
    count = count or table.find(options.count or "count")
    if not (low and high):
        return table.parse(str(count), lambda text: parse_cell(text, scheme))

    def bound(text: str) -> int | None:
        return parse_whole(text) if text else None

    exact: list[Cell | None] = [None] * len(table)
    if count:
        exact = table.parse(count, lambda text: parse_cell(text, scheme) if text else None)
    bounds = zip(table.parse(low, bound), table.parse(high, bound), strict=True)
    cells = []
    for row, cell, (least, most) in zip(table.rows, exact, bounds, strict=True):
        if least is None and most is None and cell is not None:
            cells.append(cell)
        elif least is None or (most is not None and least > most):
            raise table.error(
                f"needs a count, or the least and the most people, got {least} and {most}; fill "
                "count_low and count_high",
                row=row,
                column=low,
            )
        else:
            cells.append(Cell(least, most, hidden=least != most))
    return cells


def _n(table: Table, ids: list[str]) -> dict[str, int]:
    """Return the people of each block from column ``n``, the same in all rows of a block."""
    name = table.find("n")
    if not name:
        return {}
    n: dict[str, int] = {}
    for row, block, people in zip(table.rows, ids, table.parse(name, parse_whole), strict=True):
        if n.setdefault(block, people) != people:
            what = CountError(
                f"block {shown(block)}: must have one number of people, got {n[block]:,} and "
                f"{people:,}; correct it"
            )
            raise table.error(str(what), row=row, column=name)
    return n


def _labels(table: Table, options: Options) -> Release:
    block = _block(table, options)
    if block is None:
        block = "block"
        table = table.with_column(block, [_EVERYBODY] * len(table))
    columns = Columns((block,), _LABELS, ("count",))
    label = table.find(*_LABELS)
    swapped = (
        options.label is None
        and label is not None
        and all(map(is_number, table.column(label)))
        and bool(as_labels(table.column(block)))
    )
    if swapped:
        raise table.error(
            f"must hold bins in words, got numbers, and bins in column {shown(block)}; say",
            column=label,
            offers={"block": label, "label": block},
        )
    scheme = options.scheme("none")
    return read_labelled(table, options, columns, scheme, dialect="tidy labels")


def _quantiles(table: Table, options: Options) -> Release:
    block = _block(table, options)
    columns: dict[str, Any] = {"block": _ids(table, block)}
    position = table.find("quantile", "rank") or "quantile"
    role = position.casefold()
    columns[role] = table.parse(position, parse_number)
    columns["value"] = table.parse(table.require("value", role="value"), parse_number)
    keywords: dict[str, Any] = {"rank": "rank"} if role == "rank" else {}
    keywords |= _people(table, columns)
    source = _source("quantiles" if role == "quantile" else "order statistics", block)
    source = ", ".join([source, *_people_words(table)])
    refuse_mixtures(table, _taken(table, block), columns["block"], columns[role])
    return build_statistics(
        table, "from_quantiles", columns, source=source, totals=options.totals, **keywords
    )


def _values(table: Table, options: Options) -> Release:
    block = _block(table, options)
    value = table.require("value", role="value")
    _refuse_figures(table, options, block, value)
    columns = {"block": _ids(table, block)}
    values = table.parse(value, parse_number)
    source = _source("values", block)
    return build_statistics(
        table, "from_values", columns | {"value": values}, source=source, totals=options.totals
    )


def _refuse_figures(table: Table, options: Options, block: str | None, value: str) -> None:
    """Raise unless it is clear that every row is a person."""
    for name in table.header:
        texts = list(dict.fromkeys(table.column(name)))
        if name and name not in (block, value) and len(texts) > 1:
            raise mixture_error(table, name, texts)
    if options.block is None and block is not None and block.casefold() != "block":
        raise table.error(
            f"rows may be people or figures of {shown(block)}, got {shown(block)} and "
            f"{shown(value)}; if each row is the value of one person, say",
            offers={"dialect": "tidy", "block": block},
        )


def _means(table: Table, options: Options) -> Release:
    block = _block(table, options)
    columns: dict[str, Any] = {"block": _ids(table, block)}
    name = table.find("mean", "total") or "mean"
    role = name.casefold()
    columns[role] = table.parse(name, parse_number)
    if role == "total":
        table.require("n", role="n")
    keywords: dict[str, Any] = {"total": "total"} if role == "total" else {}
    keywords |= _people(table, columns)
    source = _source(f"{role}s", block, *_people_words(table))
    return build_statistics(
        table, "from_means", columns, source=source, totals=options.totals, **keywords
    )


def _people_words(table: Table) -> list[str]:
    """Return "people 'n'" if a column has them."""
    name = table.find("n")
    return [f"people {shown(name)}"] if name else []


def _people(table: Table, columns: dict[str, Any]) -> dict[str, str]:
    """Add column ``n`` if the table has one."""
    name = table.find("n")
    if not name:
        return {}
    columns["n"] = table.parse(name, parse_whole)
    return {"n": "n"}
