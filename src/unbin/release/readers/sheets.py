"""Cells of a file as text, with the row each came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from unbin._frames import CROSSED
from unbin.exceptions import ReadError, ReleaseError
from unbin.release.words import plural

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
    file: str,
    what: str,
    *,
    row: int | None = None,
    column: str | None = None,
    offers: Mapping[str, Any] | None = None,
) -> ReadError:
    """Return an error that names file, row and column; rows count from 1, the header included.

    Options that would help (``offers``) end the message, ready to paste.
    """
    place = file if row is None else f"{file}, row {row}"
    if column is not None:
        place += f", column {shown(column)}"
    return ReadError(f"{place}: {what}", offers)


def texts_of(wanted: Any) -> set[str]:
    """Return the values that ``where`` asks for, of one column."""
    return {str(v) for v in ([wanted] if isinstance(wanted, str | int) else wanted)}


def matches(record: Sequence[str], wanted: Mapping[int, set[str]]) -> bool:
    """Tell whether the columns of a record have values that are asked for."""
    return all(k < len(record) and record[k] in values for k, values in wanted.items())


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
    name : str
        Name of the sheet in a workbook or of the file in an archive; empty for a file by itself.
    notes : tuple of text
        What was left out so far, and what was chosen.
    beside : tuple of Sheet
        The other tables of the same download, in which labels may be explained.
    """

    file: str
    cells: list[list[str]]
    rows: list[int]
    name: str = ""
    notes: tuple[str, ...] = ()
    beside: tuple[Sheet, ...] = ()

    @property
    def header(self) -> list[str]:
        """The first record."""
        return self.cells[0]

    def below(self, first: int) -> Sheet:
        """Return the sheet whose header is record ``first``; what is above it is a title."""
        if first == 0:
            return self
        title = next(cell for cell in self.cells[0] if cell)
        note = f"{plural(first, 'line')} above the header left out ({shown(title)})"
        notes = (*self.notes, note)
        return replace(self, cells=self.cells[first:], rows=self.rows[first:], notes=notes)

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
        return replace(self, cells=[[", ".join(names), *self.header], *crossed])

    def table(self, *, first: int = 1, until: int | None = None) -> Table:
        """Return records ``first`` to ``until`` below the header; all must be as long as it.

        Lines of text below the table are left out.
        """
        header = list(self.header)
        while header and header[-1] == "":
            header.pop()
        stop = len(self.cells) if until is None else until
        notes = list(self.notes)
        end = self._end(first, stop, len(header))
        if end < stop:
            text = next(cell for cell in self.cells[end] if cell)
            notes.append(f"{plural(stop - end, 'line')} below the table left out ({shown(text)})")
        body, rows = self.cells[first:end], self.rows[first:end]
        alike = set(map(len, body)) == {len(header)}
        for record, row in () if alike else zip(body, rows, strict=True):
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
        return Table(self.file, header, body, rows, len(body), tuple(notes))

    def _end(self, first: int, stop: int, width: int) -> int:
        """Return where the records end: sentences below the table have a single cell."""
        while stop > first + 1 and width > 2:
            filled = [cell for cell in self.cells[stop - 1] if cell]
            apart = self.rows[stop - 1] - self.rows[stop - 2] > 1
            if len(filled) > 1 or not (" " in filled[0] or apart):
                break
            stop -= 1
        return stop


@dataclass(frozen=True, slots=True)
class Table:
    """A header and records of its length.

    Attributes
    ----------
    file, header, cells, rows
        As of a sheet.
    n_records : int
        Records of the whole table, however many are left.
    notes : tuple of text
        What was left out of the file, and why.
    choices : tuple of text
        What was chosen among several readings, with the option that chooses otherwise.
    stands_for : mapping of a row to the number of rows
        Rows of the file that were added up into one.
    """

    file: str
    header: list[str]
    cells: list[list[str]]
    rows: list[int]
    n_records: int = 0
    notes: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    stands_for: Mapping[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def error(
        self,
        what: str,
        *,
        row: int | None = None,
        column: str | None = None,
        offers: Mapping[str, Any] | None = None,
    ) -> ReadError:
        """Return an error about this file."""
        return read_error(self.file, what, row=row, column=column, offers=offers)

    def noting(self, *notes: str) -> Table:
        """Return the table with more said about what was left out."""
        return replace(self, notes=(*self.notes, *notes))

    def choosing(self, *choices: str) -> Table:
        """Return the table with more said about what was chosen."""
        return replace(self, choices=(*self.choices, *choices))

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
        texts = self.column(name)
        known: dict[str, T] = {}
        for text in dict.fromkeys(texts):
            try:
                known[text] = parser(text)
            except ReleaseError as error:
                row = self.rows[texts.index(text)]
                raise self.error(str(error), row=row, column=name) from None
        return [known[text] for text in texts]

    def take(self, keep: Sequence[bool], why: str = "") -> Table:
        """Return some of the records; ``why`` the others are left out is noted."""
        pairs = [
            pair for pair, k in zip(zip(self.cells, self.rows, strict=True), keep, strict=True) if k
        ]
        gone = len(self) - len(pairs)
        notes = (f"{plural(gone, 'row')} left out: {why}",) if gone and why else ()
        return replace(
            self,
            cells=[c for c, _ in pairs],
            rows=[r for _, r in pairs],
            notes=(*self.notes, *notes),
        )

    def without(self, names: Sequence[str]) -> Table:
        """Return the table without some of its columns."""
        kept = [k for k, name in enumerate(self.header) if name not in names]
        cells = [[record[k] for k in kept] for record in self.cells]
        return replace(self, header=[self.header[k] for k in kept], cells=cells)

    def with_column(self, name: str, cells: Sequence[str]) -> Table:
        """Return the table with a column of this name, a new one or in place of the old."""
        if name in self.header:
            k = self.header.index(name)
            body = [
                [*record[:k], cell, *record[k + 1 :]]
                for record, cell in zip(self.cells, cells, strict=True)
            ]
            return replace(self, cells=body)
        width = len(self.header)
        body = [[*record[:width], cell] for record, cell in zip(self.cells, cells, strict=True)]
        return replace(self, header=[*self.header, name], cells=body)
