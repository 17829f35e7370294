"""Tables of the Australian Bureau of Statistics, as TableBuilder exports them.

One variable lies in the rows, areas most often; one or two lie in the columns. Of two, the first
row names one and writes each of its values once above the columns it spans; the second row names
the other. A third row names the variable of the rows::

    AGE5P - Age in Five Year Groups, 0-4 years,       ,                    , 5-9 years, ...
    INCP Total Personal Income,      Negative income, Nil income, $1-$149 ($1-$7,799), ...
    POA (UR),
    "2000, NSW",                     0,               0,          0, ...

Small counts are adjusted at random, so totals are not exactly the sums of what they count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from unbin.exceptions import ReleaseError
from unbin.release.readers.build import check_ids, choose_rows
from unbin.release.readers.dimensions import is_number
from unbin.release.readers.labels import Label, is_total, is_unknown, parse_label
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, listed, shown, texts_of
from unbin.release.readers.sums import add_columns
from unbin.release.readers.wide import read_wide
from unbin.release.release import Release
from unbin.release.words import plural

_REMARK = re.compile(r"\s*\([^()]*\)$")
_MONEY = re.compile(r"[$€£]")
_NOBODY = re.compile(
    r"not applicable|not stated|.*\bnot stated|overseas visitors?|partial income stated|"
    r"all incomes not stated",
    re.I,
)
_ADJUSTED = "counts were adjusted at random by the ABS: they and their sums are near, not exact"


@dataclass(frozen=True, slots=True)
class _Head:
    """The variables in the columns, the outermost first, and their value in every column.

    ``size`` is the number of records that the header takes.
    """

    names: list[str]
    values: list[list[str]]
    size: int


def recognises(sheet: Sheet) -> bool:
    """Tell whether a header of two rows repeats its labels, or one lies above the rows' name."""
    return _head(sheet) is not None


def _head(sheet: Sheet) -> _Head | None:
    records = [_trimmed(record) for record in sheet.cells[:4]]
    if len(records) < 3 or len(records[0]) < 3 or not records[0][0]:
        return None
    first, second, third = records[:3]
    distinct = "" not in first and len(set(first)) == len(first)
    if len(second) == 1 and distinct and len(third) == len(first):
        labels = sum(_bin(text) is not None for text in first[1:])
        return _Head([first[0]], [first[1:]], 2) if labels >= 2 else None
    if "" in second or len(second) < len(first) or len(third) not in (1, len(second)):
        return None
    outer = _spread(first[1:], len(second) - 1)
    starts = [k for k, text in enumerate([*first[1:], *[""] * len(second)][: len(outer)]) if text]
    runs = [second[1:][a:b] for a, b in zip(starts, [*starts[1:], None], strict=True)]
    if not starts or starts[0] != 0 or len(runs[0]) < 2 or any(run != runs[0] for run in runs):
        return None
    return _Head([first[0], second[0]], [outer, second[1:]], 3 if len(third) == 1 else 2)


def _trimmed(record: Sequence[str]) -> list[str]:
    """Return a record without the empty cells at its end."""
    size = max((k + 1 for k, cell in enumerate(record) if cell), default=0)
    return list(record[:size])


def _spread(cells: Sequence[str], width: int) -> list[str]:
    """Return the value above every column: that of the last cell which is filled."""
    spread: list[str] = []
    for k in range(width):
        text = cells[k] if k < len(cells) else ""
        spread.append(text or (spread[-1] if spread else ""))
    return spread


def read(sheet: Sheet, options: Options) -> Release:
    """Read a table of TableBuilder."""
    head = _head(sheet)
    if head is None:
        raise sheet.table().error(
            "must have the header of TableBuilder: a variable and its values, twice, above the "
            f"areas, got {listed(sheet.header)}; export the table as CSV"
        )
    named = len(_trimmed(sheet.cells[head.size - 1])) == 1
    area = sheet.cells[head.size - 1][0] if named else "area"
    width = 1 + len(head.values[0])
    names = [area, *(f"column {k}" for k in range(1, width))]
    table = _body(sheet, head.size, names)
    outcome = _outcome(table, head, options.label)
    where = dict(options.where or {})
    others = [name for name in head.names if name != outcome]
    wanted = {name: where.pop(name) for name in others if name in where}
    table = choose_rows(table, where)
    columns = list(range(len(head.values[0])))
    for name in others:
        values = head.values[head.names.index(name)]
        table, columns = _people(table, name, values, columns, wanted.get(name))
    return _histogram(table, options, area, outcome, head, columns)


def _body(sheet: Sheet, first: int, names: list[str]) -> Table:
    """Return the areas and their counts; what is below them holds no numbers."""
    stop = len(sheet.cells)
    while stop > first and not any(map(is_number, filter(None, sheet.cells[stop - 1][1:]))):
        stop -= 1
    gone = len(sheet.cells) - stop
    notes = (f"{plural(gone, 'line')} below the table left out",) if gone else ()
    # TableBuilder ends lines with a separator
    width = len(names)
    cells = [r if any(r[width:]) else r[:width] for r in sheet.cells[first:stop]]
    rows = sheet.rows[first - 1 : stop]
    return replace(sheet, cells=[names, *cells], rows=rows, notes=(*sheet.notes, *notes)).table()


def _bin(text: str) -> Label | None:
    """Return the bin of a label; None where it is no number."""
    words = _REMARK.sub("", text).casefold()
    if words.startswith("negative"):
        return Label(float("-inf"), 0.0, upper_in=False, continuous=True)
    if words.startswith("nil "):
        return Label(0.0, 0.0, continuous=True)
    try:
        return parse_label(_REMARK.sub("", text))
    except ReleaseError:
        return None


def _outcome(table: Table, head: _Head, label: str | None) -> str:
    """Return the variable whose values are bins: the one that was named, or that has money."""
    if label is not None:
        known = {name.casefold(): name for name in head.names}
        if label.casefold() in known:
            return known[label.casefold()]
        raise table.error(f"label: must be one of {listed(head.names)}, got {shown(label)}")
    binned = [
        name
        for name, values in zip(head.names, head.values, strict=True)
        if sum(_bin(text) is not None for text in dict.fromkeys(values)) >= 2
    ]
    money = [
        name for name in binned if any(map(_MONEY.search, head.values[head.names.index(name)]))
    ]
    found = money if len(money) == 1 else binned
    if len(found) == 1:
        return found[0]
    raise table.error(
        f"one variable must be the outcome, got {listed(found or head.names)}; say",
        offers={"label": (found or head.names)[0]},
    )


def _people(
    table: Table, name: str, values: list[str], columns: list[int], wanted: object
) -> tuple[Table, list[int]]:
    """Return the columns of the people asked for, of all where none are."""
    known = list(dict.fromkeys(values))
    if wanted is not None:
        chosen = texts_of(wanted)
        lost = sorted(chosen - set(known))
        if lost:
            raise table.error(
                f"where: no column has {listed(lost)}, got {listed(known)}; correct it", column=name
            )
    else:
        total = [text for text in known if is_total(text)]
        chosen = set(total or known)
        how = f"those under {total[0]!r}" if total else f"all {len(known)} groups added up"
        table = table.choosing(
            f"people of every {shown(name)} were read, {how}; say "
            f"where={{{name!r}: {next(t for t in known if not is_total(t))!r}}} for others"
        )
    gone = [text for text in known if text not in chosen]
    if gone:
        table = table.noting(f"columns left out: {shown(name)} is {listed(gone, 3)}")
    return table, [k for k in columns if values[k] in chosen]


def _histogram(
    table: Table, options: Options, area: str, outcome: str, head: _Head, columns: list[int]
) -> Release:
    values = head.values[head.names.index(outcome)]
    lost = [text for text in dict.fromkeys(values) if is_unknown(text) or _NOBODY.fullmatch(text)]
    bins: dict[str, Label] = {}
    for text in dict.fromkeys(values):
        if text in lost or is_total(text):
            continue
        label = _bin(text)
        if label is None:
            raise table.error(
                f"a label must name its values, got {shown(text)}; choose another variable with "
                "label=...",
                column=outcome,
            )
        bins[text] = label
        same = [f"column {k + 1}" for k in columns if values[k] == text]
        table = add_columns(table, text, same)
    if lost:
        table = table.noting(f"people left out, value not known: {listed(lost)}")
    if any(map(is_total, values)):
        table = table.noting("the total of all labels was not used: it is adjusted by itself")
    table = table.noting(_ADJUSTED)
    scheme = options.scheme("none")
    block = area if options.block is None else table.require(options.block, role="block")
    source = f"abs, block {shown(block)}, outcome {shown(outcome)}"
    ids = check_ids(table, block)
    return read_wide(table, options, ids, bins, scheme, source=source, outcome=outcome)
