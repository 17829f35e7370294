"""What the columns of a table may be, by their cells: bins in words, counts, ids, percentages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from unbin.exceptions import ReadError, ReleaseError
from unbin.release.readers.cells import SCHEMES, parse_cell
from unbin.release.readers.dimensions import explained, is_number, is_period
from unbin.release.readers.labels import is_total, is_unknown
from unbin.release.readers.numbers import parse_whole, plain
from unbin.release.readers.sheets import Table, listed, shown
from unbin.release.readers.wide import YEARS, as_labels

_SYMBOLS = {symbol for scheme in SCHEMES.values() for symbol in scheme.symbols if symbol}
_SHARES = re.compile(
    r".*%.*|(?:.*[\W_])?(?:percent(?:age)?|pct|share|proportion|rate)s?(?:[\W_].*)?", re.I
)
_CODES = re.compile(r"(?:.*[\W_])?(?:code|id|fips|nr|key|nuts\d?|geoid)s?(?:[\W_].*)?", re.I)
_UNITS = ("UOM", "UNIT_MEASURE", "Unit", "Units", "Unit of measure", "MEASURE", "UNIT")
_PEOPLE = re.compile(
    r".*\b(?:persons?|people|households?|individuals?|inhabitants?|number|count|counts|families|"
    r"employees|patients|workers|nr|ps)\b.*",
    re.I,
)
_DECIMAL_COMMA = re.compile(r"-?\d+,(?:\d{1,2}|\d{4,})")


def label_columns(table: Table) -> list[str]:
    """Return the columns whose cells are all bins in words, totals or unknown."""
    return [name for name in table.header if name and _is_labels(table, name)]


def _is_labels(table: Table, name: str) -> bool:
    if is_time(table, name):
        return False
    texts = list(dict.fromkeys(table.column(name)))
    others = [text for text in texts if not (is_total(text) or is_unknown(text))]
    return bool(others) and len(as_labels(others)) == len(others)


def count_columns(table: Table) -> list[str]:
    """Return the columns that may hold counts of people: whole numbers, or signs that hide them."""
    return [name for name in table.header if name and _is_counts(table, name)]


def _is_counts(table: Table, name: str) -> bool:
    if is_time(table, name) or is_share(table, name):
        return False
    texts = dict.fromkeys(map(plain, table.column(name)))
    whole = [_is_whole(text) for text in texts if text not in _SYMBOLS and text]
    return bool(whole) and all(whole)


def _is_whole(text: str) -> bool:
    try:
        parse_cell(text, SCHEMES["none"])
    except ReleaseError:
        return False
    return True


def is_time(table: Table, name: str) -> bool:
    """Tell whether a column holds years, months or dates, by its name or its cells."""
    texts = table.column(name)
    return is_period(name) or all(text.isdecimal() and int(text) in YEARS for text in texts)


def is_share(table: Table, name: str) -> bool:
    """Tell whether a column holds percentages, by its name or its cells."""
    return _SHARES.fullmatch(name) is not None or any(t.endswith("%") for t in table.column(name))


def word_columns(table: Table) -> list[str]:
    """Return the columns of names and codes: neither numbers nor counts, and no empty cell."""
    return [
        name
        for name in table.header
        if name
        and "" not in (texts := set(table.column(name)))
        and not all(map(is_number, texts))
        and not _is_counts(table, name)
    ]


def id_columns(
    table: Table, labels: Sequence[str] | None, taken: Sequence[str | None]
) -> list[str]:
    """Return the columns that tell the rows of a label apart; with no labels, all rows.

    Words come before numbers; numbers are ids in a long table only where each comes with most of
    the bins.
    """
    rows = labels if labels is not None else [""] * len(table)
    unique = [
        name
        for name in table.header
        if name
        and name not in taken
        and not is_time(table, name)
        and len(set(zip(table.column(name), rows, strict=True))) == len(table)
    ]
    words = [name for name in unique if name in set(word_columns(table))]
    whole = [name for name in unique if all(map(_is_code, table.column(name)))]
    if words:
        return words + [name for name in whole if _CODES.fullmatch(name)]
    if labels is None:
        return whole
    least = max(2, len(set(labels)) / 2)
    return [name for name in whole if min(Counter(table.column(name)).values()) >= least]


def _is_code(text: str) -> bool:
    try:
        return parse_whole(text) >= 0 and "." not in text
    except ReleaseError:
        return False


def choose_id(table: Table, found: Sequence[str]) -> str:
    """Return the one column of ids; of codes and names that mean the same, the codes."""
    if len(found) == 1:
        return found[0]
    first = table.column(found[0])
    codes = [name for name in found if _CODES.fullmatch(name)]
    same = all(
        explained(first, table.column(name)) and explained(table.column(name), first)
        for name in found
    )
    if same and found[0] in word_columns(table):
        return (codes or list(found))[0]
    raise table.error(
        f"one column must hold the block ids, got {listed(list(found))}; say",
        offers={"block": (codes or list(found))[0]},
    )


def amounts_error(table: Table) -> ReadError | None:
    """Return why the rows of a table are no people: figures in tonnes, or of places and times."""
    unit = table.find(*_UNITS)
    scale = table.find("SCALAR_FACTOR", "UNIT_MULT", "PowerCode", "PowerCode Code")
    value = table.find("VALUE", "OBS_VALUE")
    period = next((name for name in table.header if is_period(name) or name == "REF_DATE"), None)
    if value is None or not (unit or (scale and period)):
        return None
    if unit:
        units = list(dict.fromkeys(table.column(unit)))
        strange = [text for text in units if not _PEOPLE.fullmatch(text)]
        if strange:
            return table.error(
                f"must count people, got amounts in {listed(strange, 3)}; choose a table that "
                "counts people by bins of a value",
                column=unit,
            )
    if scale:
        scales = [t for t in dict.fromkeys(table.column(scale)) if t.lower() not in ("units", "0")]
        if scales:
            return table.error(
                f"must count people one by one, got {listed(scales, 3)}; multiply {shown(value)}, "
                "and remove the column",
                column=scale,
            )
    return None


def decimal_comma_error(table: Table) -> ReadError | None:
    """Return the complaint about numbers written 3,5: the same comma may part thousands."""
    for name in table.header:
        texts = table.column(name)
        wrong = [k for k, text in enumerate(texts) if _DECIMAL_COMMA.fullmatch(text)]
        if wrong:
            return table.error(
                f"must be a number, got {shown(texts[wrong[0]])}; write decimals with a point",
                row=table.rows[wrong[0]],
                column=name,
            )
    return None
