"""Tables of no agency, under any names: columns are told by what is in them.

- one row per block and bin, ``Commune code, Household expenditure, Households``;
- one row per block and category, where ``category=`` names its column;
- one column per bin, ``ward, 0-4, 5-9, 10+``, perhaps with a total;
- one column per quantile, ``area, p10, median, p90``, or ``area, mean, sd, n``.

Where more than one column may be the bins, the counts or the block ids, the table is refused with
the option that says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unbin.exceptions import ReadError
from unbin.release.readers.build import build, build_statistics, check_ids, choose_rows
from unbin.release.readers.cells import Cell, Scheme, parse_cell
from unbin.release.readers.dialects.contents import (
    amounts_error,
    choose_id,
    count_columns,
    decimal_comma_error,
    id_columns,
    is_share,
    is_time,
    label_columns,
    word_columns,
)
from unbin.release.readers.dialects.headings import is_mean, is_people, is_spread, probabilities
from unbin.release.readers.dimensions import explained
from unbin.release.readers.labels import Label, is_total, is_unknown, parse_label
from unbin.release.readers.long import Columns, edges_of, read_labelled
from unbin.release.readers.nominal import check_names, read_named
from unbin.release.readers.numbers import parse_number, parse_whole
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, listed, read_error, shown
from unbin.release.readers.totals import named_total
from unbin.release.readers.wide import as_labels, read_wide
from unbin.release.release import Release
from unbin.release.words import people_text

_EVERYBODY = "all"


def recognises(sheet: Sheet) -> bool:
    """Tell whether columns are bins, quantiles or means, or hold bins in words beside counts."""
    try:
        table = sheet.table()
        return _kind(table, Options()) is not None and amounts_error(table) is None
    except ReadError:
        return False


def read(sheet: Sheet, options: Options) -> Release:
    """Read a table whose columns are told by what is in them."""
    table = _crossed(choose_rows(sheet.table(), options.where), options)
    problem = amounts_error(table) or decimal_comma_error(table)
    if problem is not None:
        raise problem
    kind = _kind(table, options)
    if kind is None:
        raise explain(sheet)
    readers = {
        "long": _long,
        "categories": _categories,
        "wide": _wide,
        "quantiles": _quantiles,
        "means": _means,
    }
    return readers[kind](table, options)


def _crossed(table: Table, options: Options) -> Table:
    """Leave out columns whose cells are the blocks together: age group and sex."""
    block = options.block or ""
    parts = [name for name in table.header if name in block.split(", ") and name != block]
    return table.without(parts) if block in table.header else table


def explain(sheet: Sheet) -> ReadError:
    """Return why a table is not read, with the options that would help."""
    unknown = f"the layout is not known, got columns {listed(sheet.header)}; "
    rename = "say dialect=..., or rename them to block, lower, upper, count"
    row = sheet.rows[0]
    try:
        table = sheet.table()
    except ReadError:
        return read_error(sheet.file, unknown + rename, row=row)
    problem = amounts_error(table) or decimal_comma_error(table)
    if problem is not None:
        return problem
    counts, words = count_columns(table), word_columns(table)
    bins = as_labels([name for name in sheet.header if name not in probabilities(sheet.header)])
    strange = [name for name in bins if name not in counts]
    if strange:
        return table.error(
            f"columns named after bins must hold counts, got other cells in {listed(strange)}; "
            "give percentages as block, lower, upper, percent, n"
        )
    if len(words) < 2 or not counts:
        return table.error(unknown + rename, row=row)
    label = next((name for name in words if len(as_labels(table.column(name))) > 1), words[-1])
    block = next(name for name in words if name != label)
    return table.error(
        unknown + "say which hold the blocks, the bins in words and the counts:",
        row=row,
        offers={"block": block, "label": label, "count": counts[-1]},
    )


def _kind(table: Table, options: Options) -> str | None:
    """Return how the table is laid out, from its header and then from its cells."""
    if options.category is not None:
        return "categories"
    if options.label is not None and options.label.casefold() not in _statistics(table):
        return "long"
    if _bins(table):
        return "wide"
    quantiles, means = probabilities(table.header), _mean_columns(table)
    if options.label is not None:
        return "means" if options.label.casefold() in map(str.casefold, means) else "quantiles"
    labels = label_columns(table)
    if labels and (count_columns(table) or any(is_share(table, name) for name in table.header)):
        return "long"
    if quantiles:
        return "quantiles"
    return "means" if means else None


def _statistics(table: Table) -> set[str]:
    return {name.casefold() for name in (*probabilities(table.header), *_mean_columns(table))}


def _beside(table: Table, read: Sequence[str | None]) -> Table:
    """Say which columns were not read."""
    rest = [name for name in table.header if name and name not in read]
    return table.noting(f"columns not read: {listed(rest)}") if rest else table


# -- block ids -------------------------------------------------------------------------------------


def _block(
    table: Table, options: Options, labels: Sequence[str] | None, taken: Sequence[str | None]
) -> tuple[Table, str]:
    """Return the column of block ids; without one the table is about everybody."""
    if options.block is not None:
        return table, table.require(options.block, role="block")
    named = table.find("block")
    if named:
        return table, named
    found = id_columns(table, labels, taken)
    if found:
        return table, choose_id(table, found)
    others = [name for name in _splitting(table) if name not in taken]
    if others:
        raise _several(table, others, labels)
    rows = labels if labels is not None else table.rows
    if len(set(rows)) < len(rows) or (labels is None and len(rows) > 1):
        rest = [name for name in table.header if name and name not in taken]
        raise table.error(
            f"one column must hold the block ids, got {listed(rest)}; say",
            offers={"block": (rest or table.header)[0]},
        )
    return table.with_column("block", [_EVERYBODY] * len(table)), "block"


def _splitting(table: Table) -> list[str]:
    """Return the columns of words and periods with more than one value, the most first."""
    words = set(word_columns(table))
    size = {
        name: len(set(table.column(name)))
        for name in table.header
        if name in words or (name and is_time(table, name))
    }
    return sorted((name for name in size if size[name] > 1), key=lambda name: -size[name])


def _several(table: Table, others: list[str], labels: Sequence[str] | None) -> ReadError:
    """Return the error about rows that blocks and bins do not tell apart."""
    words = [name for name in others if not is_time(table, name)]
    cells = list(zip(*map(table.column, words), *([] if labels is None else [labels]), strict=True))
    if words == others and len(set(cells)) == len(cells):
        return table.error(
            f"one column must hold the block ids, got {listed(others)}; if the blocks are their "
            "cells, say",
            offers={"block": others},
        )
    rest = [name for name in others if name not in words[:1]]
    offers: dict[str, Any] = {"block": words[0]} if words else {}
    if rest:
        offers["where"] = {rest[0]: table.column(rest[0])[0]}
    return table.error(
        f"blocks and bins must tell all rows apart, got columns {listed(others)}; choose with",
        offers=offers,
    )


# -- one row per block and bin ---------------------------------------------------------------------


def _long(table: Table, options: Options) -> Release:
    label = _label(table, options)
    texts = table.column(label)
    count = None if options.count is None else table.require(options.count, role="count")
    table, block = _block(table, options, texts, [label, count])
    ids = table.column(block)
    if count is None:
        count = _count(table, ids, [block, label])
    if is_share(table, count):
        return _percentages(table, options, block, label, count)
    table = _checked_n(table, ids, texts, count, options.scheme("none"))
    table = _beside(table, [block, label, count])
    columns = Columns((block,), (label,), (count,))
    words = f"plain table, bins {shown(label)}, counts {shown(count)}"
    return read_labelled(table, options, columns, options.scheme("none"), dialect=words)


def _categories(table: Table, options: Options) -> Release:
    category = table.require(str(options.category), role="category")
    texts = check_names(table, category)
    count = None if options.count is None else table.require(options.count, role="count")
    table, block = _block(table, options, texts, [category, count])
    ids = table.column(block)
    if count is None:
        count = _count(table, ids, [block, category])
    scheme = options.scheme("none")
    cells = table.parse(count, lambda text: parse_cell(text, scheme))
    people = next((n for n in table.header if _is_total_name(n) and n != count), None)
    n: dict[str, int] = {}
    if people is not None and _is_constant(ids, table.column(people)):
        n = dict(zip(ids, table.parse(people, parse_whole), strict=True))
    words = [f"plain table, counts {shown(count)}", f"block {shown(block)}"]
    words += [f"people {shown(str(people))}"] if n else []
    table = _beside(table, [block, category, count, *([people] if n else [])])
    return read_named(
        table, options, block, category, cells,
        source=", ".join(words), n=n, taken=[count, people],
    )  # fmt: skip


def _label(table: Table, options: Options) -> str:
    if options.label is not None:
        return table.require(options.label, role="label")
    found = label_columns(table)
    if len(found) > 1:
        raise table.error(
            f"one column must hold the bins, got {listed(found)}; say", offers={"label": found[-1]}
        )
    return found[0]


def _count(table: Table, ids: Sequence[str], taken: list[str]) -> str:
    """Return the only column that may hold the counts, or else the only one of percentages."""
    varied = [
        name
        for name in table.header
        if name and name not in taken and not _is_constant(ids, table.column(name))
    ]
    whole = [name for name in count_columns(table) if name in varied]
    found = whole or [name for name in varied if is_share(table, name)]
    if len(found) == 1:
        return found[0]
    rest = found or [name for name in table.header if name and name not in taken]
    if not rest:
        raise table.error(f"one column must hold counts, got {listed(table.header)}; add it")
    raise table.error(
        f"one column must hold the counts, got {listed(rest)}; say", offers={"count": rest[0]}
    )


def _is_constant(ids: Sequence[str], texts: Sequence[str]) -> bool:
    """Tell a column with one text for every block, such as its population."""
    return len(set(ids)) < len(ids) and explained(ids, texts)


def _checked_n(
    table: Table, ids: Sequence[str], texts: Sequence[str], count: str, scheme: Scheme
) -> Table:
    """Hold a column of totals of blocks against the counts; say that it agrees."""
    name = next((n for n in table.header if _is_total_name(n) and n != count), None)
    if name is None or not _is_constant(ids, table.column(name)):
        return table
    cells = table.parse(count, lambda text: parse_cell(text, scheme))
    said = dict(zip(ids, table.parse(name, parse_whole), strict=True))
    kept = [not is_total(text) for text in texts]
    _refuse_wrong_totals(table, ids, cells, kept, said, name)
    return table.noting(f"the counts add up to column {shown(name)}")


def _is_total_name(name: str) -> bool:
    return name.casefold() == "n" or named_total(name)


def _refuse_wrong_totals(
    table: Table,
    ids: Sequence[str],
    cells: Sequence[Cell],
    kept: Sequence[bool],
    said: Mapping[str, int],
    name: str,
) -> None:
    """Raise if cells cannot add up to the total of their block."""
    place = {block: k for k, block in enumerate(said)}
    where = np.array([place[block] for block in ids])
    low = np.array([cell.low * k for cell, k in zip(cells, kept, strict=True)], dtype=float)
    high = np.array([np.inf if c.high is None else c.high for c in cells]) * np.array(kept)
    least, most = (np.bincount(where, side, len(place)) for side in (low, high))
    total = np.array(list(said.values()))
    wrong = np.flatnonzero((total < least) | (total > most))
    if len(wrong):
        block = list(said)[int(wrong[0])]
        raise table.error(
            f"block {shown(block)}: must be the sum of the bins, {least[wrong[0]]:,.0f}, got "
            f"{said[block]:,}; correct one of them, or remove the column",
            row=table.rows[list(ids).index(block)],
            column=name,
        )


def _percentages(table: Table, options: Options, block: str, label: str, count: str) -> Release:
    """Read percentages and the people of each block."""
    texts = table.column(label)
    gone = [is_total(text) or is_unknown(text) for text in texts]
    ids = table.column(block)
    people = [
        name
        for name in count_columns(table)
        if name not in (block, label, count) and explained(ids, table.column(name))
    ]
    if len(people) != 1:
        raise table.error(
            "percentages need the people of each block in one more column, got "
            f"{listed(people)}; add a column n",
            column=count,
        )
    table = table.take([not each for each in gone], "totals and unknown values")
    labels = table.parse(label, parse_label)
    edges = edges_of(table, labels, label, options.closed)
    columns: dict[str, Any] = {
        "block": check_ids(table, block),
        "lower": [edges.edges[each][0] for each in labels],
        "upper": [edges.edges[each][1] for each in labels],
        "percent": table.parse(count, lambda text: parse_number(text.rstrip("% "))),
        "n": table.parse(people[0], parse_whole),
    }
    keywords: dict[str, Any] = {"percent": "percent", "n": "n", "closed": edges.closed}
    if options.rounding not in (None, "none"):
        keywords["rounding"] = options.rounding
    table = _beside(table, [block, label, count, people[0]])
    source = f"plain table of percentages {shown(count)}, bins {shown(label)}, "
    source += f"block {shown(block)}, people {shown(people[0])}"
    return build(table, "from_histogram", columns, table.rows, source=source, **keywords)


# -- one column per bin ----------------------------------------------------------------------------


def _bins(table: Table) -> dict[str, Label]:
    """Return the columns of counts that are named after their bins."""
    quantiles = probabilities(table.header)
    names = [name for name in table.header if name and name not in quantiles]
    found = as_labels(names)
    whole = set(count_columns(table))
    return found if all(name in whole for name in found) else {}


def _wide(table: Table, options: Options) -> Release:
    bins = _bins(table)
    scheme = options.scheme("none")
    unknown = [name for name in table.header if is_unknown(name)]
    totals = [name for name in table.header if _is_total_name(name)]
    taken = [*bins, *unknown, *totals]
    table, block = _block(table, options, None, taken)
    ids = check_ids(table, block)
    n: dict[str, int] = {}
    for name in totals:
        n = _row_totals(table, ids, [*bins, *unknown], name, scheme)
        table = table.noting(f"the bins add up to column {shown(name)}")
    for name in unknown:
        lost = table.parse(name, parse_whole)
        n = {b: people - k for (b, people), k in zip(n.items(), lost, strict=True)} if n else {}
        table = table.noting(f"{people_text(sum(lost))} left out: {shown(name)}")
    _refuse_more_bins(table, list(bins), [block, *taken])
    table = _beside(table, [block, *taken])
    source = f"plain table, one column per bin, block {shown(block)}"
    return read_wide(table, options, ids, bins, scheme, source=source, n=n)


def _refuse_more_bins(table: Table, bins: list[str], taken: Sequence[str]) -> None:
    """Raise if a column of counts behind the first bin may be a bin too."""
    behind = table.header[table.header.index(bins[0]) :]
    whole = set(count_columns(table))
    strange = [name for name in behind if name in whole and name not in taken]
    if strange:
        raise table.error(
            f"a label must name its values, got {shown(strange[0])} beside {listed(bins, 3)}; "
            "rename the column if it is a bin, and remove it if it is not",
            column=strange[0],
        )


def _row_totals(
    table: Table, ids: Sequence[str], columns: Sequence[str], name: str, scheme: Scheme
) -> dict[str, int]:
    """Return the totals of blocks, held against the columns that they count together."""
    said = dict(zip(ids, table.parse(name, parse_whole), strict=True))
    cells = [
        cell
        for column in columns
        for cell in table.parse(column, lambda text: parse_cell(text, scheme))
    ]
    every = list(ids) * len(columns)
    _refuse_wrong_totals(table, every, cells, [True] * len(cells), said, name)
    return said


# -- one column per statistic ----------------------------------------------------------------------


def _mean_columns(table: Table) -> list[str]:
    return [name for name in table.header if is_mean(name)]


def _people(table: Table, options: Options, taken: Sequence[str]) -> str | None:
    """Return the column that says how many people a block has."""
    if options.count is not None:
        return table.require(options.count, role="count")
    whole = set(count_columns(table))
    found = [n for n in table.header if is_people(n) and n in whole and n not in taken]
    if len(found) > 1:
        raise table.error(
            f"one column must hold the people of each block, got {listed(found)}; say",
            offers={"count": found[0]},
        )
    return found[0] if found else None


def _quantiles(table: Table, options: Options) -> Release:
    quantiles = probabilities(table.header)
    means = _mean_columns(table)
    if options.label is not None:
        quantiles = {options.label: quantiles[table.require(options.label, role="label")]}
    taken = [*quantiles, *means, *filter(is_spread, table.header)]
    people = _people(table, options, taken)
    table, block = _block(table, options, None, [*taken, people])
    totals = [named_total(text) for text in table.column(block)]
    if options.totals == "drop" and not all(totals):
        table = table.take([not each for each in totals], "totals of others")
    ids = check_ids(table, block)
    if means:
        table = table.choosing(
            f"quantiles were read, and no mean; say label={means[0]!r} to read that"
        )
    columns: dict[str, Any] = {"block": [], "quantile": [], "value": []}
    if people:
        columns["n"] = table.parse(people, parse_whole) * len(quantiles)
    for name, probability in quantiles.items():
        columns["block"] += ids
        columns["quantile"] += [probability] * len(table)
        columns["value"] += table.parse(name, parse_number)
    table = _beside(table, [block, people, *quantiles])
    source = f"plain table of quantiles {listed(list(quantiles))}, block {shown(block)}"
    source += f", people {shown(people)}" if people else ""
    keywords: dict[str, Any] = {"n": "n"} if people else {}
    return build(
        table, "from_quantiles", columns, table.rows * len(quantiles), source=source, **keywords
    )


def _means(table: Table, options: Options) -> Release:
    means = _mean_columns(table) if options.label is None else [options.label]
    if len(means) > 1:
        raise table.error(
            f"one column must hold the means, got {listed(means)}; say", offers={"label": means[0]}
        )
    mean = table.require(means[0], role="label")
    spread = [name for name in table.header if is_spread(name)]
    people = _people(table, options, [mean, *spread])
    table, block = _block(table, options, None, [mean, *spread, people])
    columns: dict[str, Any] = {
        "block": check_ids(table, block),
        "mean": table.parse(mean, parse_number),
    }
    if people:
        columns["n"] = table.parse(people, parse_whole)
    table = _beside(table, [block, mean, people])
    source = f"plain table of means {shown(mean)}, block {shown(block)}"
    source += f", people {shown(people)}" if people else ""
    keywords: dict[str, Any] = {"n": "n"} if people else {}
    return build_statistics(
        table, "from_means", columns, source=source, totals=options.totals, **keywords
    )
