"""Referral to treatment (NHS England): people by the weeks they have waited.

A row is a provider, a commissioner, a part of the pathway and a treatment function; columns such as
``Gt 00 To 01 Weeks SUM 1`` count those who waited more than 0 and up to 1 week. Function ``C_999``
is the total of the others. Rows of a block are added up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from unbin._typing import BoolArray, IntArray
from unbin.release.readers.build import check_ids, choose_rows
from unbin.release.readers.dimensions import mixture_error
from unbin.release.readers.labels import Label
from unbin.release.readers.long import pick
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, shown
from unbin.release.readers.sums import add_rows, numbered, parse_counts
from unbin.release.readers.wide import read_wide
from unbin.release.release import Release
from unbin.release.words import people_text, plural

_WEEKS = re.compile(r"gt (\d+)(?: to (\d+))? weeks(?: sum 1)?", re.I)
_BLOCKS = ("Provider Org Code", "Commissioner Org Code")
_PART, _WAITING = "RTT Part Type", "Part_2"
_FUNCTION, _ALL_FUNCTIONS, _NAMED_TOTAL = "Treatment Function Code", "C_999", "Total"
_SUM, _UNKNOWN, _EVERYBODY = "Total", "Patients with unknown clock start date", "Total All"


def recognises(sheet: Sheet) -> bool:
    """Tell whether the columns are weeks of waiting."""
    return sum(_WEEKS.fullmatch(name) is not None for name in sheet.header) >= 2


def read(sheet: Sheet, options: Options) -> Release:
    """Read a table of waiting times."""
    table = choose_rows(sheet.table(), options.where)
    weeks = _bins(table)
    block = pick(table, options.block, _BLOCKS, role="block")
    table = _one_part(table)
    periods = list(dict.fromkeys(table.column("Period"))) if table.find("Period") else []
    if len(periods) > 1:
        raise mixture_error(table, "Period", periods)
    table = _without_double_functions(table, weeks)
    table = _checked(table, weeks)
    check_ids(table, block)
    n_rows = len(table)
    table = add_rows(table, [block], list(weeks))
    if len(table) < n_rows:
        table = table.noting(f"{n_rows:,} rows added up into {plural(len(table), 'block')}")
    source = f"nhs referral to treatment, block {shown(block)}"
    scheme = options.scheme("none")
    return read_wide(table, options, table.column(block), weeks, scheme, source=source)


def _bins(table: Table) -> dict[str, Label]:
    """Return the columns of weeks: (0, 1], (1, 2], …, more than 104."""
    found = {name: match for name in table.header if (match := _WEEKS.fullmatch(name))}
    return {
        name: Label(float(match[1]), float(match[2] or "inf"), lower_in=False, continuous=True)
        for name, match in found.items()
    }


def _one_part(table: Table) -> Table:
    """Return the rows of one part: people still waiting, unless another was asked for."""
    name = table.find(_PART)
    if name is None:
        return table
    parts = list(dict.fromkeys(table.column(name)))
    if len(parts) == 1:
        return table
    if _WAITING not in parts:
        raise mixture_error(table, name, parts)
    keep = [part == _WAITING for part in table.column(name)]
    other = next(part for part in parts if part != _WAITING)
    return table.take(keep, f"{shown(name)} is not {_WAITING!r}").choosing(
        f"people still waiting were read ({name} {_WAITING}); say where={{{name!r}: {other!r}}} "
        "for another part"
    )


def _without_double_functions(table: Table, weeks: Mapping[str, Label]) -> Table:
    """Return the totals of all treatment functions, and functions where there is no total."""
    function = table.require(_FUNCTION, role="where")
    places = [table.require(name, role="block") for name in _BLOCKS]
    place = numbered(table, places)
    first = np.unique(numbered(table, [*places, function]), return_index=True)[1]
    if len(first) < len(table):
        row = table.rows[int(np.setdiff1d(np.arange(len(table)), first)[0])]
        raise table.error(
            "every function must be listed once for a provider and a commissioner, got this one "
            "twice; remove a row",
            row=row,
            column=function,
        )
    total = np.isin(table.column(function), [_ALL_FUNCTIONS, _NAMED_TOTAL])
    has_total = np.bincount(place[total], minlength=place.max() + 1) > 0
    double = has_total[place] & ~total
    table = _say_functions(table, place, total, double, weeks)
    return table.take(list(~double), f"functions that {_ALL_FUNCTIONS} counts together")


def _say_functions(
    table: Table, place: IntArray, total: BoolArray, double: BoolArray, weeks: Mapping[str, Label]
) -> Table:
    alone = len(np.unique(place[~total & ~double]))
    if alone:
        table = table.noting(
            f"functions added up for lack of {_ALL_FUNCTIONS}: {plural(alone, 'pair')} of a "
            "provider and a commissioner"
        )
    if not double.any():
        return table
    counts = parse_counts(table, list(weeks)).sum(axis=1)
    listed = np.bincount(place, np.where(double, counts, 0))
    whole = np.bincount(place, np.where(total, counts, 0))
    apart = int((listed != whole)[np.unique(place[double])].sum())
    if apart:
        table = table.noting(
            f"{_ALL_FUNCTIONS} does not count what the functions listed count together: "
            f"{plural(apart, 'pair')} of a provider and a commissioner; {_ALL_FUNCTIONS} was read"
        )
    return table


def _checked(table: Table, weeks: Mapping[str, Label]) -> Table:
    """Hold the weeks against the totals of each row; say who is not in the weeks."""
    listed = parse_counts(table, list(weeks)).sum(axis=1)
    lost = np.zeros(len(table), dtype=np.int64)
    unknown = table.find(_UNKNOWN)
    if unknown:
        lost = parse_counts(table, [unknown])[:, 0]
    for name, expected in ((_SUM, listed), (_EVERYBODY, listed + lost)):
        column = table.find(name)
        if column is None:
            continue
        said = parse_counts(table, [column])[:, 0]
        given = np.array([text != "" for text in table.column(column)])
        wrong = np.flatnonzero(given & (said != expected))
        if len(wrong):
            k = int(wrong[0])
            raise table.error(
                f"must count what the weeks count, {expected[k]:,}, got {said[k]:,}; correct one",
                row=table.rows[k],
                column=column,
            )
    if lost.any():
        table = table.noting(f"{people_text(int(lost.sum()))} left out: clock start not known")
    return table
