r"""Eurostat tables of quantile cut-offs, means and medians, such as ``ilc_di01`` and ``ilc_di03``.

TSV or CSV whose first header cell is ``freq,quantile,statinfo,unit,geo\TIME_PERIOD`` with one
column per period, or the linear CSV with ``geo, TIME_PERIOD, OBS_VALUE``. ``:`` is missing and
letters behind a value are flags. Of cut-offs (``TC``) and shares of income, cut-offs are read.
Without ``where`` the period with most blocks is read, and aggregates such as EU27_2020 are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from unbin.exceptions import ReadError, ReleaseError
from unbin.release.readers.build import build, check_ids, choose_rows
from unbin.release.readers.numbers import parse_number
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, listed, shown, texts_of
from unbin.release.readers.totals import named_total
from unbin.release.release import Release
from unbin.release.words import plural

_TIME, _VALUE = "TIME_PERIOD", "OBS_VALUE"
_PARTS = {"D": 10, "Q": 4, "QU": 5, "P": 100}
_QUANTILE = re.compile(r"(QU|[DQP])([0-9]{1,3})")
_CELL = re.compile(r"(:|[-+]?[0-9][0-9.]*)\s*([a-z]*)")
_NOT_DIMENSIONS = re.compile(
    r"OBS_VALUE|OBS_FLAG|CONF_STATUS|DATAFLOW|STRUCTURE\w*|LAST UPDATE|"
    r"observation.*|confidentiality.*|",
    re.I,
)
_INDICATORS = ("statinfo", "indic_il")
_MEANS, _MEDIANS = {"MEAN_EI", "MEI_E"}, {"MED_EI", "MED_E"}
_AGGREGATE = re.compile(r"(?:EU|EA)(?:[0-9_V].*)?|(?:EEA|EFTA|NMS|CC)[0-9_].*|EEA|EFTA|NMS|WORLD")
_PERIOD = re.compile(r"(?:19|20)[0-9]{2}(?:-?[A-Z0-9-]+)?")
_REGION = re.compile(r"[A-Z]{2}[0-9A-Z]{0,3}")


def recognises(sheet: Sheet) -> bool:
    """Tell whether the header is that of a wide file or a linear CSV."""
    return sheet.header[0].endswith(f"\\{_TIME}") or {"geo", _TIME, _VALUE} <= set(sheet.header)


def read(sheet: Sheet, options: Options) -> Release:
    """Read a table of quantiles, means or medians."""
    table = sheet.table()
    periods: list[str] = []
    if "\\" in sheet.header[0]:
        table, periods = _split_series(table)
    asked = dict(options.where or {})
    where = {name: value for name, value in asked.items() if name != _TIME or not periods}
    for name in ("geo", *(() if periods else (_TIME, _VALUE))):
        if name not in table.header:
            raise table.error(
                f"must be a table of quantiles by geo, got no {name!r} among "
                f"{listed(table.header)}; choose a table such as ilc_di01"
            )
    table = choose_rows(table, where)
    table, statistic = _choose_statistic(table, where)
    if options.totals == "drop":
        table = _without_aggregates(table)
    block = table.require(options.block or "geo", role="block")
    _refuse_mixtures(table, block, statistic, [*periods, _TIME], asked)
    table, period = _choose_period(table, block, periods, asked)
    return _build(table, block, statistic, period)


def _split_series(table: Table) -> tuple[Table, list[str]]:
    """Return the dimensions of each series in columns of their own, and the periods."""
    first, *periods = table.header
    names = first.rpartition("\\")[0].split(",")
    cells = []
    for record, row in zip(table.cells, table.rows, strict=True):
        series = [part.strip() for part in record[0].split(",")]
        if len(series) != len(names):
            raise table.error(
                f"must name {len(names)} dimensions, got {shown(record[0])}; check the download",
                row=row,
                column=first,
            )
        cells.append([*series, *record[1:]])
    header = [*names, *periods]
    if len(set(header)) < len(header):
        raise table.error(
            "dimensions and periods must be different, got one twice; check the download",
            column=first,
        )
    return replace(table, header=header, cells=cells), periods


def _code(text: str) -> str:
    """Return TC for "TC:Top cut-off point"."""
    return text.partition(":")[0].strip()


# -- what is published -----------------------------------------------------------------------------


def _choose_statistic(table: Table, where: Mapping[str, Any]) -> tuple[Table, str]:
    """Return rows of one kind, and its name: "quantile", "mean" or "median"."""
    column = table.find(*_INDICATORS)
    if column is None:
        raise table.error(
            f"must say what its values are in a column {' or '.join(map(repr, _INDICATORS))}, got "
            f"{listed(table.header)}; download it again with all dimensions"
        )
    texts = {_code(text): text for text in table.column(column)}
    if "quantile" in table.header:
        if len(texts) > 1 and "TC" in texts and column not in where:
            table = choose_rows(table, {column: texts["TC"]})
        wrong = [code for code in map(_code, table.column(column)) if code != "TC"]
        if wrong:
            raise table.error(
                f"must hold cut-offs (TC), got {shown(wrong[0])}: shares of income of a group are "
                "no quantiles; download TC, or choose its rows",
                column=column,
                offers={"where": {**where, column: texts["TC"]}} if "TC" in texts else None,
            )
        return table, "quantile"
    for statistic, codes in (("mean", _MEANS), ("median", _MEDIANS)):
        if set(texts) <= codes:
            return table, statistic
    known = [text for code, text in texts.items() if code in _MEANS | _MEDIANS]
    raise table.error(
        f"must be a table of quantiles by geo, of means (MEAN_EI) or of medians (MED_EI), got "
        f"{listed(list(texts.values()))}; {'say' if known else 'choose a table such as ilc_di03'}",
        column=column,
        offers={"where": _offered(table, where, known[0], column)} if known else None,
    )


def _offered(table: Table, where: Mapping[str, Any], value: str, column: str) -> dict[str, Any]:
    """Return one value of every dimension that is yet to be chosen."""
    chosen = choose_rows(table, {column: value})
    mixed = _mixed(chosen, "geo", "", [_TIME, *_periods_of(chosen)])
    return {**where, column: value, **{name: _best(values) for name, values in mixed.items()}}


def _periods_of(table: Table) -> list[str]:
    return [name for name in table.header if _PERIOD.fullmatch(name)]


def _without_aggregates(table: Table) -> Table:
    """Leave out geo codes that stand for several others: EU27_2020, EA19, AT beside AT1."""
    codes = [_code(text) for text in table.column("geo")]
    known = {code for code in codes if not (_AGGREGATE.fullmatch(code) or named_total(code))}
    regions = {code for code in known if _REGION.fullmatch(code)}
    above = {code[:k] for code in regions for k in range(2, len(code))}
    keep = [code in known and code not in above for code in codes]
    if all(keep) or not any(keep):
        return table
    gone = dict.fromkeys(code for code, k in zip(codes, keep, strict=True) if not k)
    return table.take(keep, f"aggregates of other blocks, {listed(list(gone))}")


# -- one value of each dimension, one period -------------------------------------------------------


def _mixed(table: Table, block: str, statistic: str, skip: list[str]) -> dict[str, list[str]]:
    """Return dimensions that have several values which neither blocks nor quantiles explain."""
    roles = [table.column(block), table.column("geo")]
    if statistic == "quantile":
        roles.append(table.column("quantile"))
    mixed: dict[str, list[str]] = {}
    for name in table.header:
        if _NOT_DIMENSIONS.fullmatch(name) or name in skip:
            continue
        texts = table.column(name)
        values = list(dict.fromkeys(texts))
        if len(values) > 1 and not any(_explains(role, texts) for role in roles):
            mixed[name] = values
            roles.append(texts)
    return mixed


def _explains(role: list[str], texts: list[str]) -> bool:
    return len(set(zip(role, texts, strict=True))) == len(set(role))


def _best(values: list[str]) -> str:
    return next((value for value in values if _code(value) in ("T", "TOTAL", "EUR")), values[0])


def _refuse_mixtures(
    table: Table, block: str, statistic: str, periods: list[str], where: Mapping[str, Any]
) -> None:
    """Raise if another dimension than geo and quantile has several values."""
    mixed = _mixed(table, block, statistic, periods)
    if not mixed:
        return
    name, values = next(iter(mixed.items()))
    more = "".join(f", and of {other!r} {listed(v)}" for other, v in list(mixed.items())[1:])
    raise table.error(
        f"one value must be chosen, got {listed(values)}{more}; say",
        column=name,
        offers={"where": {**where, **{name: _best(values) for name, values in mixed.items()}}},
    )


def _choose_period(
    table: Table, block: str, periods: list[str], where: Mapping[str, Any]
) -> tuple[Table, str]:
    """Return the values of one period: the one asked for, or the one with most blocks."""
    ids = table.column(block)
    if periods:
        wanted = texts_of(where.get(_TIME, periods))
        if _TIME in where and (len(wanted) > 1 or not wanted & set(periods)):
            raise _one_period(table, sorted(wanted), periods, where)
        texts = {period: table.column(period) for period in periods if period in wanted}
        best, table = _fullest(table, {p: _filled(ids, column) for p, column in texts.items()})
        table = table.with_column(_VALUE, texts[best])
        return table.with_column(_TIME, [best] * len(table)), shown(best)
    times = table.column(_TIME)
    known = list(dict.fromkeys(times))
    if block != "geo" and _explains(ids, times):  # blocks of their own
        return table, listed(known)
    if _TIME in where and len(known) > 1:
        raise _one_period(table, known, known, where)
    values = table.column(_VALUE)
    filled: dict[str, set[str]] = {period: set() for period in known}
    for b, period, text in zip(ids, times, values, strict=True):
        filled[period] |= _filled([b], [text])
    best, table = _fullest(table, filled)
    table = table.take([time == best for time in times], f"{shown(_TIME)} is not {shown(best)}")
    return table, shown(best)


def _filled(ids: list[str], texts: list[str]) -> set[str]:
    """Return the blocks that have a value."""
    return {b for b, text in zip(ids, texts, strict=True) if not _is_missing(text)}


def _one_period(
    table: Table, asked: list[str], known: list[str], where: Mapping[str, Any]
) -> ReadError:
    return table.error(
        f"one period of the file must be chosen, got {listed(asked)}; say",
        column=_TIME,
        offers={"where": {**where, _TIME: max(known)}},
    )


def _fullest(table: Table, filled: Mapping[str, set[str]]) -> tuple[str, Table]:
    """Return the period with most blocks, the latest of several; and say that it was chosen."""
    odd = [period for period in filled if not _PERIOD.fullmatch(period)]
    if odd:
        raise table.error(
            f"periods must start with their year, got {shown(odd[0])}; check the download",
            column=_TIME,
        )
    best = max(filled, key=lambda period: (len(filled[period]), period))
    if len(filled) == 1:
        return best, table
    other = max(period for period in filled if period != best)
    return best, table.choosing(
        f"of {len(filled):,} periods {shown(best)} is read, with most blocks "
        f"({len(filled[best]):,} of {len(set().union(*filled.values())):,}); say "
        f"where={{'{_TIME}': {other!r}}} for another ({plural(len(filled[other]), 'block')})"
    )


# -- values ----------------------------------------------------------------------------------------


def _is_missing(text: str) -> bool:
    return not text or text.startswith(":")


def _build(table: Table, block: str, statistic: str, period: str) -> Release:
    lost = [_is_missing(text) for text in table.column(_VALUE)]
    if all(lost):
        raise table.error("must hold values, got missing ones only; choose others with where=...")
    where = dict.fromkeys(b for b, gone in zip(table.column(block), lost, strict=True) if gone)
    table = table.take([not gone for gone in lost], f"no value, {listed(list(where))}")
    columns: dict[str, Any] = {"block": check_ids(table, block)}
    values = table.parse(_VALUE, _parse_value)
    if statistic == "mean":
        columns["mean"] = values
    elif statistic == "median":
        columns |= {"quantile": [0.5] * len(table), "value": values}
    else:
        columns |= {"quantile": table.parse("quantile", _parse_quantile), "value": values}
    maker = "from_means" if statistic == "mean" else "from_quantiles"
    source = ", ".join([f"eurostat {statistic}s", period, *_constants(table, block)])
    return build(table, maker, columns, table.rows, source=source)


def _constants(table: Table, block: str) -> list[str]:
    """Return "sex 'F'" for every dimension of which one value is read."""
    taken = {block, "geo", "freq", "quantile", _TIME, *_INDICATORS}
    names = [n for n in table.header if n not in taken and not _NOT_DIMENSIONS.fullmatch(n)]
    values = {name: set(table.column(name)) for name in names if not _PERIOD.fullmatch(name)}
    return [f"{name} {shown(*texts)}" for name, texts in values.items() if len(texts) == 1]


def _parse_value(text: str) -> float:
    """Return a value without its flags."""
    found = _CELL.fullmatch(text)
    return parse_number(found[1] if found else text)


def _parse_quantile(text: str) -> float:
    """Return 0.1 for D1, 0.25 for Q1, 0.2 for QU1, 0.95 for P95."""
    found = _QUANTILE.fullmatch(_code(text))
    if found is None or not 0 < int(found[2]) <= _PARTS[found[1]]:
        raise ReleaseError(
            f"must be a quantile such as D1, Q1, QU1 or P95, got {shown(text)}; leave it out with "
            "where={'quantile': [...]}"
        )
    return int(found[2]) / _PARTS[found[1]]
