"""What tables of the US Census Bureau have in common: variables, labels, places, margins of error.

A variable has an estimate (``B19001_002E``; ``S1901_C01_002E`` of a subject table; ``HD01_VD02`` of
American FactFinder), a margin of error (``…M``, ``HD02_VD02``) and annotations of both (``…EA``,
``…MA``). Its label is a path of headings, in the second row of a download, in the metadata beside
it, or known here (B19001).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from unbin.exceptions import ReleaseError
from unbin.release.readers.numbers import parse_number, plain
from unbin.release.readers.sheets import Sheet, Table, listed, read_error, shown
from unbin.release.readers.totals import named_total

_DETAILED = re.compile(r"(?P<table>[A-Z]{1,2}[0-9]{5}[A-Z]*)_(?P<number>[0-9]{3})(?P<kind>E?)")
_SUBJECT = re.compile(
    r"(?P<table>S[0-9]{4}[A-Z]*)_(?P<column>C[0-9]{2})_(?P<number>[0-9]{3})(?P<kind>E?)"
)
_FACTFINDER = re.compile(r"HD01_VD(?P<number>[0-9]{2,3})")
_TABLE = re.compile(r"(?<![A-Z0-9])(?:[BC][0-9]{5}[A-Z]*|S[0-9]{4}[A-Z]*)(?![A-Z0-9])")
_INCOME = (
    "Total", "Less than $10,000", "$10,000 to $14,999", "$15,000 to $19,999", "$20,000 to $24,999",
    "$25,000 to $29,999", "$30,000 to $34,999", "$35,000 to $39,999", "$40,000 to $44,999",
    "$45,000 to $49,999", "$50,000 to $59,999", "$60,000 to $74,999", "$75,000 to $99,999",
    "$100,000 to $124,999", "$125,000 to $149,999", "$150,000 to $199,999", "$200,000 or more",
)  # fmt: skip
IDS = ("GEO_ID", "GEO.id", "GEOID")
"""Columns of block ids, the likeliest first."""
_NESTED = {
    "us": 0, "region": 0, "division": 0, "state": 2, "county": 3, "county subdivision": 5,
    "place": 5, "tract": 6, "block group": 1, "congressional district": 2,
    "public use microdata area": 5,
}  # fmt: skip
"""Geographies of the Census API whose codes go on those before them, and their digits (0: any)."""
_ALONE = (
    "zip code tabulation area",
    "metropolitan statistical area/micropolitan statistical area",
    "combined statistical area",
    "urban area",
)
"""Geographies whose codes stand alone, whatever state is beside them."""
_LEVEL = re.compile(r"(?P<level>[0-9]{3})[0-9A-Z]{4}US(?P<code>.*)")
_CODE = re.compile(r"[0-9A-Z]*[0-9][0-9A-Z]*")
_INSIDE = {
    "040": (2, ("050", "060", "140", "150", "160")),
    "050": (5, ("060", "140", "150")),
    "140": (11, ("150",)),
}
"""State, county, tract: the digits of their codes, and the levels whose codes go on them."""
_DISJOINT = {"040", "050", "140", "150"}
"""Levels whose places do not overlap, unless one contains the other."""
_CONFIDENCE = 1.645
"""Margins of error of the ACS are half of 90% intervals."""
_CONTROLLED = ("*****", "-555555555")
_NO_MARGIN = (
    "", "*", "**", "***", "****", "-", "n", "na", "nan", "null", "(x)", "-222222222", "-333333333",
    "-666666666", "-888888888", "-999999999",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Variable:
    """An estimate of a table, with the columns about it.

    Attributes
    ----------
    name : str
        The column of the estimate.
    table : str
        B19001; empty where the header does not say.
    column : str
        C01, the population of a subject table; else empty.
    number : int
        Its line in the table, 1 for the total.
    """

    name: str
    table: str
    column: str
    number: int

    @property
    def margin(self) -> str:
        """The column of the margin of error."""
        if self.name.startswith("HD01_"):
            return "HD02_" + self.name[5:]
        return self.name[:-1] + "M"


def find_variables(header: Sequence[str]) -> list[Variable]:
    """Return the estimates of a wide table."""
    found = []
    for name in header:
        match = _DETAILED.fullmatch(name) or _SUBJECT.fullmatch(name)
        if match is not None and match["kind"]:
            column = match.groupdict().get("column") or ""
            found.append(Variable(name, match["table"], column, int(match["number"])))
        elif match := _FACTFINDER.fullmatch(name):
            found.append(Variable(name, "", "", int(match["number"])))
    return found


def split_name(variable: str) -> tuple[str, int] | None:
    """Return table and line of a variable of a detailed table, as tidycensus names it."""
    match = _DETAILED.fullmatch(variable)
    return None if match is None else (match["table"], int(match["number"]))


def table_in(*texts: str) -> str:
    """Return the first name of a table in some texts, such as names of files."""
    return next((match[0] for text in texts for match in _TABLE.finditer(text.upper())), "")


# -- labels ----------------------------------------------------------------------------------------

Path = tuple[str, ...]
"""The headings above a line of a table, and its own label."""


def label_path(text: str) -> Path:
    """Return the headings of a label.

    Examples
    --------
    >>> label_path("Estimate!!Total:!!$10,000 to $14,999")
    ('Total', '$10,000 to $14,999')
    >>> label_path("Estimate; Total: - Male: - Under 5 years")
    ('Total', 'Male', 'Under 5 years')
    """
    parts = text.split("!!") if "!!" in text else re.split(r"; |: - ", text)
    cleaned = [part.strip().rstrip(":") for part in parts]
    return tuple(part for part in cleaned if part and part != "Estimate")


def known_path(table: str, number: int) -> Path | None:
    """Return the label of a line, where it is known without the file."""
    if table.startswith("B19001") and 1 <= number <= len(_INCOME):
        return (_INCOME[0],) if number == 1 else (_INCOME[0], _INCOME[number - 1])
    return None


def find_labels(sheet: Sheet, variables: list[Variable]) -> tuple[dict[str, Path], int]:
    """Return the label of each variable, and the first record below the header and the labels."""
    second = dict(zip(sheet.header, sheet.cells[1], strict=False)) if len(sheet.cells) > 1 else {}
    first = 1
    if any(text.startswith(("Estimate", "Margin of Error")) for text in second.values()) or any(
        "!!" in text for text in second.values()
    ):
        # all of them, or the table is damaged
        sheet.table(until=2)
        return {each.name: label_path(second.get(each.name, "")) for each in variables}, 2
    names = [each.name for each in variables]
    for other in sheet.beside:
        told = {record[0]: record[1] for record in other.cells if len(record) >= 2}
        if names and all(told.get(name) for name in names):
            return {name: label_path(told[name]) for name in names}, first
    known = {each.name: known_path(each.table, each.number) for each in variables}
    paths = {name: path for name, path in known.items() if path is not None}
    if not names or len(paths) < len(known):
        raise read_error(
            sheet.file,
            "must hold labels such as 'Estimate!!Total:!!$10,000 to $14,999', got none; download "
            "the table with its labels, or with its metadata in one folder or archive",
            row=2,
        )
    lines = {each.number for each in variables}
    missing = set(range(2, len(_INCOME) + 1)) - lines
    if missing:
        raise read_error(
            sheet.file,
            f"must hold all {len(_INCOME) - 1} bins of {variables[0].table}, got {len(missing)} "
            f"fewer: line {min(missing)} is missing; download the whole table",
            row=sheet.rows[0],
        )
    return paths, first


# -- places ----------------------------------------------------------------------------------------


def geographies(header: Iterable[str]) -> list[str]:
    """Return the columns of the Census API that make an id, from the largest places down."""
    names = [name for name in header if name in _NESTED or name in _ALONE]
    alone = [name for name in names if name in _ALONE]
    return alone[-1:] or names


def joined_ids(table: Table, names: Sequence[str]) -> list[str]:
    """Return ids made of the codes of states, counties, tracts and so on."""
    for name in names:
        digits = _NESTED.get(name, 5)
        for text, row in zip(table.column(name), table.rows, strict=True):
            if not text or (digits and len(text) != digits):
                raise table.error(
                    f"a code must have {digits or 'some'} digits, got {shown(text)}; keep "
                    "the zeros in front, as text",
                    row=row,
                    column=name,
                )
    return ["".join(codes) for codes in zip(*(table.column(name) for name in names), strict=True)]


def check_code(text: str) -> None:
    """Raise unless an id is the code of a place, and not its name."""
    if not (_LEVEL.fullmatch(text) or _CODE.fullmatch(text) or named_total(text)):
        raise ReleaseError(
            f"must be the code of a place, got {shown(text)}; say block=... with the column to read"
        )


def plain_ids(ids: list[str]) -> list[str]:
    """Return FIPS codes where all ids are of one level, or totals: 0500000US05001 is 05001."""
    found = [None if named_total(text) else _LEVEL.fullmatch(text) for text in ids]
    kinds = {text[: match.start("code")] for text, match in zip(ids, found, strict=True) if match}
    codes = [match["code"] if match else text for text, match in zip(ids, found, strict=True)]
    others = [text for text, match in zip(ids, found, strict=True) if match is None]
    of_one_level = len(kinds) == 1 and all(codes) and all(map(named_total, others))
    return codes if of_one_level else ids


def containing(table: Table, ids: Sequence[str], column: str) -> list[str]:
    """Return ids of places that contain others of the table; raise where places overlap otherwise.

    A state contains its counties. Counties and towns of a state overlap, and nobody knows how.
    """
    places = {text: match for text in ids if (match := _LEVEL.fullmatch(text))}
    levels: dict[str, list[str]] = {}
    for text, match in places.items():
        levels.setdefault(match["level"], []).append(text)
    if len(levels) < 2:
        return []
    begins = {
        level: {places[text]["code"][:size] for kind in inside for text in levels.get(kind, [])}
        for level, (size, inside) in _INSIDE.items()
    }
    larger = [
        text
        for text, match in places.items()
        if match["level"] == "010" or match["code"] in begins.get(match["level"], ())
    ]
    left = {match["level"] for text, match in places.items() if text not in set(larger)}
    if len(left) > 1 and not left <= _DISJOINT:
        raise table.error(
            "places must not overlap, got several kinds of them, "
            f"{listed([levels[level][0] for level in sorted(left)])}; "
            "choose places of one kind with",
            column=column,
            offers={"where": {column: levels[max(left, key=lambda level: len(levels[level]))][:3]}},
        )
    return larger


# -- margins of error ------------------------------------------------------------------------------


def parse_margin(text: str) -> float:
    """Return the standard error that a margin of error of the ACS stands for.

    It is the margin over 1.645, 0 for an estimate that is controlled to be right (``*****``) and
    NaN where none could be computed.
    """
    key = plain(text).removeprefix("+/-").removeprefix("±").strip()
    if key in _CONTROLLED:
        return 0.0
    if key in _NO_MARGIN:
        return math.nan
    value = parse_number(key)
    if value < 0:
        raise ReleaseError(f"a margin of error must not be negative, got {shown(text)}; correct it")
    return value / _CONFIDENCE


def margin_errors(table: Table, variable: Variable) -> list[float] | None:
    """Return the standard errors of a column of estimates; None where it has no margins."""
    column = table.find(variable.margin)
    if column is None:
        return None
    errors = table.parse(column, parse_margin)
    notes = table.find(f"{variable.margin}A")
    if notes is None:
        return errors
    told = table.parse(notes, lambda text: None if text in ("", "null") else parse_margin(text))
    return [error if note is None else note for error, note in zip(errors, told, strict=True)]
