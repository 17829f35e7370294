"""NHS tables: of organisations counts rounded to 5, of England unrounded.

- Long files with an organisation, a band in words and a value, ``ORG_CODE, AGE_BAND, VALUE``: ``*``
  is 1 to 7, totals are rounded as well, so the rows of X say how many people there are.
- The monthly layout ``BREAKDOWN, PRIMARY_LEVEL, SECONDARY_LEVEL, MEASURE_VALUE``: fewer than 5
  are ``*`` where a 5 is shown, fewer than 8 elsewhere; all else is rounded, but not for England.
- Registrations with practices, ``SEX, AGE, NUMBER_OF_PATIENTS``: exact.
- Waiting times, weeks as columns: :mod:`~unbin.release.readers.dialects.waiting`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unbin.release.readers.build import choose_rows
from unbin.release.readers.cells import Cell, Scheme, parse_cell
from unbin.release.readers.dialects import waiting
from unbin.release.readers.dimensions import is_number, mixture_error
from unbin.release.readers.labels import is_total
from unbin.release.readers.long import Columns, pick, read_labelled
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, listed, shown
from unbin.release.readers.sums import add_rows, numbered, parse_counts
from unbin.release.release import Release
from unbin.release.words import plural

COLUMNS = Columns(
    block=(
        "PRIMARY_LEVEL",
        "ORG_CODE",
        "ORGANISATION_CODE",
        "PRACTICE_CODE",
        "CCG_CODE",
        "ICB_CODE",
    ),
    label=("SECONDARY_LEVEL", "AGE_BAND", "AGE_GROUP", "BAND"),
    count=("MEASURE_VALUE", "VALUE", "NUMBER_OF_PATIENTS", "PATIENTS"),
)
REGISTRATIONS = Columns(
    block=("ORG_CODE", "CODE", "PRACTICE_CODE"),
    label=("AGE_GROUP_5", "AGE"),
    count=("NUMBER_OF_PATIENTS",),
)
_ENGLAND = ("england", "eng", "e92000001")
_NOT_SPLIT = "NONE"


def recognises(sheet: Sheet) -> bool:
    """Tell whether the header has an organisation, a band and a value, or weeks of waiting."""
    known = (COLUMNS, REGISTRATIONS)
    return waiting.recognises(sheet) or any(each.in_header(sheet.header) for each in known)


def read(sheet: Sheet, options: Options) -> Release:
    """Read a table of the NHS."""
    if waiting.recognises(sheet):
        return waiting.read(sheet, options)
    table = choose_rows(sheet.table(), options.where)
    if REGISTRATIONS.in_header(table.header):
        return _registrations(table, options)
    if table.find("PRIMARY_LEVEL"):
        return _monthly(table, options)
    table = _without_england(table, options)
    return read_labelled(table, options, COLUMNS, options.scheme("nhs"), dialect="nhs")


# -- the monthly layout ----------------------------------------------------------------------------


def _monthly(table: Table, options: Options) -> Release:
    label = pick(table, options.label, COLUMNS.label, role="label")
    texts = table.column(label)
    bands = [text.upper() != _NOT_SPLIT for text in texts]
    if not any(bands):
        raise table.error(
            f"must hold bands of values, got {_NOT_SPLIT!r} in all {len(table):,} rows: each is "
            "one figure of an organisation; choose a file or rows that are split",
            column=label,
        )
    table = table.take(bands, f"{shown(label)} is {_NOT_SPLIT!r}, not split into bands")
    table = _without_england(table, options)
    breakdown = table.find("BREAKDOWN")
    if breakdown:
        kinds = [kind for kind in dict.fromkeys(table.column(breakdown)) if not _is_england(kind)]
        if len(kinds) > 1:
            raise mixture_error(table, breakdown, kinds)
    _refuse_codes(table, label)
    scheme = options.scheme("nhs")
    cells = _cells(table, options, scheme)
    return read_labelled(table, options, COLUMNS, scheme, dialect="nhs", cells=cells)


def _is_england(text: str) -> bool:
    """Tell England, and breakdowns of it: "England; Age Group"."""
    return text.partition(";")[0].strip().casefold() in _ENGLAND


def _england(table: Table) -> list[bool]:
    """Mark the rows that count everybody in England."""
    name = table.find(*COLUMNS.block)
    return [False] * len(table) if name is None else [_is_england(t) for t in table.column(name)]


def _without_england(table: Table, options: Options) -> Table:
    """Leave out the total of all organisations, unless it is all there is."""
    england = _england(table)
    if all(england) or options.totals == "keep":
        return table
    return table.take([not each for each in england], "England, the total of the others")


def _refuse_codes(table: Table, label: str) -> None:
    """Raise if bands are numbers that stand for words: 1 for male."""
    words = table.find(f"{label}_DESCRIPTION")
    if words is None:
        return
    pairs = dict(zip(table.column(label), table.column(words), strict=True))
    codes = [code for code, said in pairs.items() if is_number(code) and code not in said]
    if codes:
        raise table.error(
            f"must hold bands of values, got codes such as {shown(codes[0])} for "
            f"{shown(pairs[codes[0]])}; choose rows with another breakdown",
            column=label,
        )


def _cells(table: Table, options: Options, scheme: Scheme) -> list[Cell]:
    """Return counts: of England as they are, of others rounded and without the smallest."""
    count = pick(table, options.count, COLUMNS.count, role="count")
    england = _england(table)
    seen = {text for text, e in zip(table.column(count), england, strict=True) if not e}
    if options.suppression is None:
        # fewer than 5 are hidden where a 5 is shown, and with them 0 where none is shown
        small = "5" in seen
        symbols = {"*": (int("0" in seen), 4 if small else 7)}
        scheme = replace(scheme, symbols=symbols, shown_from=5 if small else scheme.shown_from)
    known = replace(scheme, rounding="")
    exact = table.take(england).parse(count, lambda text: parse_cell(text, known))
    rounded = table.take([not each for each in england]).parse(
        count, lambda text: parse_cell(text, scheme)
    )
    ours, others = iter(exact), iter(rounded)
    return [next(ours) if each else next(others) for each in england]


# -- registrations ---------------------------------------------------------------------------------


def _registrations(table: Table, options: Options) -> Release:
    block = pick(table, options.block, REGISTRATIONS.block, role="block")
    label = pick(table, options.label, REGISTRATIONS.label, role="label")
    count = pick(table, options.count, REGISTRATIONS.count, role="count")
    kind = table.find("ORG_TYPE", "TYPE")
    if kind and len(kinds := list(dict.fromkeys(table.column(kind)))) > 1:
        raise mixture_error(table, kind, sorted(kinds, key=lambda text: text != "GP"))
    whole = [is_total(text) for text in table.column(label)]
    if all(whole):
        raise table.error(
            f"must hold ages, got {listed(list(dict.fromkeys(table.column(label))))} only; choose "
            "a file by age",
            column=label,
        )
    totals = table.take(whole)
    table = table.take([not each for each in whole], "totals of all ages")
    sex = table.find("SEX")
    if sex:
        totals = totals.take([is_total(text) for text in totals.column(sex)])
        table = _everybody(table, sex, [block, label], count)
    table = _held_against(table, totals, block, count)
    table = table.with_column(label, [text.replace("_", "-") for text in table.column(label)])
    columns = Columns((block,), (label,), (count,))
    words = "nhs registrations"
    return read_labelled(table, options, columns, options.scheme("none"), dialect=words)


def _everybody(table: Table, sex: str, keys: list[str], count: str) -> Table:
    """Return rows of both sexes together: those of the file, or the sexes added up."""
    sexes = list(dict.fromkeys(table.column(sex)))
    if len(sexes) == 1:
        return table
    together = [is_total(text) for text in table.column(sex)]
    ask = f"say where={{{sex!r}: {next(s for s in sexes if not is_total(s))!r}}} for one"
    if any(together):
        places = numbered(table, keys)
        if len(set(places[together])) < len(set(places)):
            raise mixture_error(table, sex, sexes)
        kept = table.take(together, f"one {sex}, of which 'ALL' is the total")
        return kept.choosing(f"people of every {sex} were read together; {ask}")
    added = add_rows(table, keys, [count])
    alone = sum(n < len(sexes) for n in added.stands_for.values())
    if alone:
        added = added.noting(f"{plural(alone, 'age')} of a block not listed for every {sex}")
    return added.choosing(f"people of every {sex} were added up ({', '.join(sexes)}); {ask}")


def _held_against(table: Table, totals: Table, block: str, count: str) -> Table:
    """Say where ages count others than the total of their block does."""
    if not len(totals):
        return table
    ages = np.bincount(numbered(table, [block]), parse_counts(table, [count])[:, 0])
    counted = dict(zip(dict.fromkeys(table.column(block)), ages.tolist(), strict=True))
    people = parse_counts(totals, [count])[:, 0].tolist()
    said = dict(zip(totals.column(block), people, strict=True))
    apart = [name for name, n in said.items() if counted.get(name, n) != n]
    if not apart:
        return table
    return table.noting(
        f"{plural(len(apart), 'block')} whose ages count others than their total, which was not "
        f"used: {listed(apart)}"
    )
