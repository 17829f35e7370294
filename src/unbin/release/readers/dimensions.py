"""Other columns that split the people: year, sex, measure. One value of each must be chosen."""

from __future__ import annotations

import re
from collections.abc import Sequence

from unbin.exceptions import ReadError, ReleaseError
from unbin.release.readers.numbers import parse_number
from unbin.release.readers.sheets import Table, listed
from unbin.release.readers.totals import named_total

_PERIODS = re.compile(
    r"(?:.*[\W_])?(?:years?|months?|quarters?|dates?|periods?|weeks?|time|vintage)(?:[\W_].*)?",
    re.I,
)
_EVERYBODY = re.compile(r"both(?: sexes)?|persons|everybody|t|_t|total.*|all.*", re.I)
_REMARK = re.compile(r"\s*\([^)]*\)$")


def refuse_mixtures(table: Table, taken: Sequence[str | None], *roles: Sequence[object]) -> None:
    """Raise if another column has several values that neither blocks nor bins explain.

    Parameters
    ----------
    table : Table
    taken : columns that have a role
    *roles : blocks, and bins
        One entry per row each; a name or a code beside them does not split the people.
    """
    for name in table.header:
        if not name or name in taken or not splits(table, name):
            continue
        texts = table.column(name)
        values = list(dict.fromkeys(texts))
        if len(values) > 1 and not any(explained(role, texts) for role in roles):
            raise mixture_error(table, name, values)


def explained(roles: Sequence[object], texts: Sequence[str]) -> bool:
    """Tell whether every role has one text only."""
    return len(set(zip(roles, texts, strict=True))) == len(set(roles))


def mixture_error(table: Table, name: str, values: list[str]) -> ReadError:
    """Return the error that asks for one value of a column."""
    best = next((value for value in values if _EVERYBODY.fullmatch(value)), values[0])
    return table.error(
        f"one value must be chosen, got {listed(values)}; say",
        column=name,
        offers={"where": {name: best}},
    )


def splits(table: Table, name: str) -> bool:
    """Tell whether a column may split the people: names or periods, not numbers or remarks."""
    texts = set(table.column(name))
    if "" in texts:
        return False
    return is_period(name) or not any(is_number(text) for text in texts)


def is_period(name: str) -> bool:
    """Tell whether a column holds years, months or dates."""
    return _PERIODS.fullmatch(name) is not None


def is_number(text: str) -> bool:
    """Tell whether a cell is a number, a percentage, or a number with a remark behind it."""
    try:
        parse_number(_REMARK.sub("", text).rstrip("% "))
    except ReleaseError:
        return False
    return True


def differing(table: Table, first: int, second: int) -> list[str]:
    """Return the columns that split the people and tell two rows of the file apart."""
    one, two = (table.cells[table.rows.index(row)] for row in (first, second))
    apart = [name for name, a, b in zip(table.header, one, two, strict=False) if name and a != b]
    return [name for name in apart if splits(table, name) and not named_total(name)]
