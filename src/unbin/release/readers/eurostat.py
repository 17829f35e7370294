r"""Eurostat tables of quantile cut-offs, such as ``ilc_di01``.

TSV whose first header cell is ``freq,quantile,indic_il,currency,geo\TIME_PERIOD`` with one column
per period, or the linear CSV with ``geo, TIME_PERIOD, OBS_VALUE``. ``:`` is missing and letters
behind a value are flags. Without ``where`` the latest period and top cut-offs (``TC``) are read.
"""

from __future__ import annotations

import re
from dataclasses import replace

from unbin.exceptions import ReleaseError
from unbin.release.readers.build import build, check_ids, choose_rows
from unbin.release.readers.files import MAX_CELLS
from unbin.release.readers.numbers import parse_number
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, listed, read_error, shown
from unbin.release.release import Release
from unbin.release.words import plural

_TIME, _VALUE = "TIME_PERIOD", "OBS_VALUE"
_PARTS = {"D": 10, "Q": 4, "QU": 5, "P": 100}
_QUANTILE = re.compile(r"(QU|[DQP])([0-9]{1,3})")
_CELL = re.compile(r"(:|[-+]?[0-9][0-9.]*)\s*([a-z]*)")
_NOT_DIMENSIONS = {_VALUE, "OBS_FLAG", "CONF_STATUS", "DATAFLOW", "LAST UPDATE", "geo", "quantile"}


def recognises(sheet: Sheet) -> bool:
    """Tell whether the header is that of a wide TSV or a linear CSV."""
    return sheet.header[0].endswith(f"\\{_TIME}") or {"geo", _TIME, _VALUE} <= set(sheet.header)


def read(sheet: Sheet, options: Options) -> Release:
    """Read a table of quantiles."""
    table = _long(sheet.table()) if "\\" in sheet.header[0] else sheet.table()
    for name in ("geo", "quantile", _TIME, _VALUE):
        if name not in table.header:
            raise table.error(
                f"must be a table of quantiles by geo, got no {name!r} among "
                f"{listed(table.header)}; choose a table such as ilc_di01"
            )
    where = dict(options.where or {})
    if "indic_il" in table.header and "indic_il" not in where:
        where["indic_il"] = "TC"
    table = choose_rows(table, where)
    values = table.parse(_VALUE, _parse_value)
    periods = table.column(_TIME)
    known = [period for period, value in zip(periods, values, strict=True) if value is not None]
    if not known:
        raise table.error("must hold values, got missing ones only; choose others with where=...")
    latest = max(known)
    now = [latest == period for period in periods] if _TIME not in where else [True] * len(table)
    keep = [ok and value is not None for ok, value in zip(now, values, strict=True)]
    missing = sum(now) - sum(keep)
    table = table.take(keep)
    _refuse_mixtures(table, options)
    block = table.require(options.block or "geo", role="block")
    columns = {
        "block": check_ids(table, block),
        "quantile": table.parse("quantile", _parse_quantile),
        "value": table.parse(_VALUE, _parse_value),
    }
    words = ["eurostat quantiles", shown(table.column(_TIME)[0])]
    words += [f"{plural(missing, 'missing value')} left out"] if missing else []
    return build(table, "from_quantiles", columns, table.rows, source=", ".join(words))


def _long(table: Table) -> Table:
    """Return one row per series and period."""
    first, *periods = table.header
    names = first.rpartition("\\")[0].split(",")
    cells, rows = [], []
    if len(names) * len(table) * len(periods) > MAX_CELLS:
        raise table.error(
            f"must have fewer cells, got {len(table):,} series of {len(periods):,} periods; "
            "choose fewer periods"
        )
    for record, row in zip(table.cells, table.rows, strict=True):
        series = [part.strip() for part in record[0].split(",")]
        if len(series) != len(names):
            raise read_error(
                table.file,
                f"must name {len(names)} dimensions, got {shown(record[0])}; check the download",
                row=row,
                column=first,
            )
        for period, value in zip(periods, record[1:], strict=False):
            cells.append([*series, period, value])
            rows.append(row)
    return replace(table, header=[*names, _TIME, _VALUE], cells=cells, rows=rows)


def _parse_value(text: str) -> float | None:
    """Return a value without its flags; missing is None."""
    found = _CELL.fullmatch(text)
    if not text or (found and found[1] == ":"):
        return None
    return parse_number(found[1] if found else text)


def _parse_quantile(text: str) -> float:
    """Return 0.1 for D1, 0.25 for Q1, 0.2 for QU1, 0.95 for P95."""
    found = _QUANTILE.fullmatch(text)
    if found is None or not 0 < int(found[2]) <= _PARTS[found[1]]:
        raise ReleaseError(
            f"must be a quantile such as D1, Q1, QU1 or P95, got {shown(text)}; leave it out with "
            "where={'quantile': [...]}"
        )
    return int(found[2]) / _PARTS[found[1]]


def _refuse_mixtures(table: Table, options: Options) -> None:
    """Raise if another dimension than geo and quantile has several values."""
    for name in table.header:
        if name in _NOT_DIMENSIONS or name == options.block or not name:
            continue
        values = list(dict.fromkeys(table.column(name)))
        if len(values) > 1:
            raise table.error(
                f"one value must be chosen, got {listed(values)}; say where={{{name!r}: "
                f"{values[0]!r}}}",
                column=name,
            )
