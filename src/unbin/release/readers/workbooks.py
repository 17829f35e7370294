"""Workbooks (.xlsx, .xls, .ods) as records of text; needs python-calamine."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from unbin.release.readers.sheets import read_error, shown


def workbook_records(data: bytes, file: str) -> Iterator[tuple[str, Iterator[list[str]]]]:
    """Yield the name and the rows of each sheet that has any."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise read_error(
            file, "a workbook needs python-calamine, got none; pip install unbin[excel]"
        ) from None
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
        sheets = [(name, book.get_sheet_by_name(name)) for name in book.sheet_names]
        found = [(name, sheet.to_python(skip_empty_area=False)) for name, sheet in sheets]
    except (CalamineError, OSError, ValueError) as error:
        text = " ".join(str(error).split())[:80] or type(error).__name__
        raise read_error(
            file, f"must be a whole workbook, got damaged data ({shown(text)}); download it again"
        ) from None
    for name, rows in found:
        if any(cell != "" for row in rows for cell in row):
            yield name, ([cell_text(cell) for cell in row] for row in rows)


def cell_text(value: Any) -> str:
    """Return a cell as a spreadsheet shows it: whole numbers without a point."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)
