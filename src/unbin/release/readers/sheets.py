"""Cells of a file as text, with the row each came from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from unbin._frames import CROSSED
from unbin.exceptions import ReadError, ReleaseError

T = TypeVar("T")
_SHOWN = 60
"""Characters of a cell that a message repeats."""


def shown(text: str) -> str:
    """Return a cell for a message: quoted, escaped and not too long."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def listed(names: list[str], limit: int = 8) -> str:
    """Return names for a message, quoted, the first few."""
    more = ", …" if len(names) > limit else ""
    return (", ".join(map(shown, names[:limit])) + more) or "none"


def read_error(
    file: str, what: str, *, row: int | None = None, column: str | None = None
) -> ReadError:
    """Return an error that names file, row and column; rows count from 1, the header included."""
    place = file if row is None else f"{file}, row {row}"
    if column is not None:
        place += f", column {shown(column)}"
    return ReadError(f"{place}: {what}")


@dataclass(frozen=True, slots=True)
class Sheet:
    """Every record of a file, blank ones left out.

    Attributes
    ----------
    file : str
        Name of the file, for messages.
    cells : list of lists of text
        Cells without the blanks around them; records may differ in length.
    rows : list of int
        The row of each record, as a spreadsheet numbers them.
    """

    file: str
    cells: list[list[str]]
    rows: list[int]

    @property
    def header(self) -> list[str]:
        """The first record."""
        return self.cells[0]

    def crossed(self, names: Sequence[str]) -> Sheet:
        """Return the sheet with a further first column: the cells of several, side by side."""
        place = {name.casefold(): k for k, name in reversed(list(enumerate(self.header)))}
        unknown = [name for name in names if name.casefold() not in place]
        if unknown:
            raise read_error(
                self.file,
                f"column {shown(unknown[0])} not found, got {listed(self.header)}; say block=... "
                "with the columns to read",
            )
        wanted = [place[name.casefold()] for name in names]
        crossed = []
        for record in self.cells[1:]:
            texts = [record[k] if k < len(record) else "" for k in wanted]
            crossed.append([CROSSED.join(texts) if all(texts) else "", *record])
        return Sheet(self.file, [[", ".join(names), *self.header], *crossed], self.rows)

    def table(self, *, first: int = 1, until: int | None = None) -> Table:
        """Return records ``first`` to ``until`` below the header; all must be as long as it."""
        header = list(self.header)
        body, rows = self.cells[first:until], self.rows[first:until]
        while header and header[-1] == "":
            header.pop()
        for record, row in zip(body, rows, strict=True):
            if len(record) < len(header) or any(record[len(header) :]):
                raise read_error(
                    self.file,
                    f"must have {len(header)} cells like the header, got {len(record)}; quote "
                    "cells that hold the separator, and remove lines that are no data",
                    row=row,
                )
        seen: set[str] = set()
        for name in header:
            if name and name in seen:
                raise read_error(
                    self.file,
                    "names must be different, got this one twice; rename one of the columns",
                    row=self.rows[0],
                    column=name,
                )
            seen.add(name)
        if not body:
            raise read_error(self.file, "must hold a table, got a header only; add its rows")
        return Table(self.file, header, body, rows)


@dataclass(frozen=True, slots=True)
class Table:
    """A header and records of its length."""

    file: str
    header: list[str]
    cells: list[list[str]]
    rows: list[int]

    def __len__(self) -> int:
        return len(self.rows)

    def error(self, what: str, *, row: int | None = None, column: str | None = None) -> ReadError:
        """Return an error about this file."""
        return read_error(self.file, what, row=row, column=column)

    def find(self, *names: str) -> str | None:
        """Return the first of these columns the table has; capitals do not matter."""
        known = {name.casefold(): name for name in reversed(self.header)}
        return next((known[name.casefold()] for name in names if name.casefold() in known), None)

    def require(self, name: str, *, role: str) -> str:
        """Return the column with this name, or raise."""
        found = name if name in self.header else self.find(name)
        if not found:
            raise self.error(
                f"column {shown(name)} not found, got {listed(self.header)}; say {role}=... with "
                "the column to read"
            )
        return found

    def column(self, name: str) -> list[str]:
        """Return the text of a column."""
        index = self.header.index(name)
        return [record[index] for record in self.cells]

    def parse(self, name: str, parser: Callable[[str], T]) -> list[T]:
        """Parse a column; what the parser complains about is said of the cell's row and column."""
        known: dict[str, T] = {}
        result = []
        for text, row in zip(self.column(name), self.rows, strict=True):
            if text not in known:
                try:
                    known[text] = parser(text)
                except ReleaseError as error:
                    raise self.error(str(error), row=row, column=name) from None
            result.append(known[text])
        return result

    def take(self, keep: list[bool]) -> Table:
        """Return some of the records."""
        pairs = [
            pair for pair, k in zip(zip(self.cells, self.rows, strict=True), keep, strict=True) if k
        ]
        return Table(self.file, self.header, [c for c, _ in pairs], [r for _, r in pairs])
