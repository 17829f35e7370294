"""Files as text cells, within bounds: whatever is in the file, memory and time stay limited."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unbin._checks import check_path
from unbin._io import not_a_file
from unbin.release.readers.parquet import parquet_records
from unbin.release.readers.sheets import Sheet, read_error, shown

MAX_BYTES = 256 * 2**20
"""The most bytes of a file, after decompression."""
MAX_CELLS = 20_000_000
MAX_COLUMNS = 10_000
MAX_CELL = 32_767
"""Characters of a cell, the limit of spreadsheets."""
MAX_LINE = 2**22
ENCODINGS = ("utf-8", "utf-16", "latin-1", "cp1252", "cp1250", "iso8859-15")

_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_OTHER = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ\x00": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"%PDF": "a PDF document",
}
_BOMS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


def read_sheet(path: Any, *, encoding: str | None = None, max_bytes: int = MAX_BYTES) -> Sheet:
    """Read CSV, TSV or Parquet, gzipped or not, as text cells."""
    place = check_path("path", path)
    file = shown(place.name)[1:-1]
    data = read_bytes(place, file, max_bytes)
    if data[:4] == _PARQUET:
        records = parquet_records(
            data, file, max_cells=MAX_CELLS, max_columns=MAX_COLUMNS, max_bytes=max_bytes
        )
        return _collect(enumerate(records, 1), file)
    text = decode(data, file, encoding)
    if "\n" not in text:
        text = text.replace("\r", "\n")
    return _collect(_records(text, _separator(text), file), file)


def read_bytes(path: Path, file: str, max_bytes: int) -> bytes:
    """Return what a file holds, unpacked; no more than ``max_bytes``."""
    try:
        odd = not_a_file(path)
        if odd is not None:
            raise read_error(file, f"must be a file, got {odd}; check the path")
        with path.open("rb") as stream:
            data = _read(stream, max_bytes)
    except OSError as error:
        raise read_error(
            file, f"cannot be opened, got {error.strerror}; check path and permissions"
        ) from None
    if data[:2] == _GZIP and len(data) <= max_bytes:
        data = _unpack(data, file, max_bytes)
    if len(data) > max_bytes:
        raise read_error(
            file,
            f"must hold at most {max_bytes:,} bytes (unpacked), got more; pass max_bytes=... if "
            "the file is what you expect",
        )
    if not data.strip():
        raise read_error(file, "must hold a table, got an empty file; check the download")
    for magic, kind in (*_OTHER.items(), (_GZIP, "a file that was gzipped twice")):
        if data.startswith(magic):
            raise read_error(file, f"must be CSV, TSV or Parquet, got {kind}; unpack or export it")
    return data


def _read(stream: io.BufferedIOBase, max_bytes: int) -> bytes:
    """Return what a stream holds; of more than ``max_bytes`` only so much that it shows."""
    parts: list[bytes] = []
    left = max_bytes + 1
    while left > 0 and (part := stream.read(min(left, 2**20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _unpack(data: bytes, file: str, max_bytes: int) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return _read(stream, max_bytes)
    except (EOFError, OSError, zlib.error) as error:
        what = "a truncated file" if isinstance(error, EOFError) else f"damaged data ({error})"
        raise read_error(file, f"must be whole gzip data, got {what}; download it again") from None


def decode(data: bytes, file: str, encoding: str | None) -> str:
    """Return the text; without ``encoding`` it is UTF-8, or UTF-16 with a byte order mark."""
    found = next((name for mark, name in _BOMS if data.startswith(mark)), "utf-8")
    if encoding in ("utf-8", "utf-16"):
        found = found if found.startswith(encoding) else encoding
    elif encoding is not None:
        found = encoding
    if found == "utf-32":
        raise read_error(file, "must be UTF-8 or UTF-16, got UTF-32; save it as UTF-8")
    try:
        text = data.decode(found)
    except UnicodeDecodeError as error:
        row = data.count(b"\n", 0, error.start) + 1
        got = data[error.start : error.start + 1].hex() or "the end"
        raise read_error(
            file,
            f"must be {found.removesuffix('-sig').upper()}, got byte 0x{got} at position "
            f"{error.start}; save it as UTF-8, or pass encoding='latin-1' if it is that",
            row=row,
        ) from None
    nul = text.find("\0")
    if nul >= 0:
        raise read_error(
            file,
            f"must be text, got a NUL character at position {nul}; export the table as CSV, or "
            "pass encoding='utf-16'",
            row=text.count("\n", 0, nul) + 1,
        )
    return text


def _separator(text: str) -> str:
    """Return the separator: a tab if the first line has one, else the commoner of , and ;."""
    start = re.search(r"\S.*", text)
    line = re.sub(r'"[^"]*"', "", start.group()[:MAX_LINE] if start else "")
    if "\t" in line:  # the first header cell of Eurostat's TSV has commas
        return "\t"
    return ";" if line.count(";") > line.count(",") else ","


def _lines(text: str, file: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        if end - start > MAX_LINE:
            raise read_error(
                file,
                f"lines must have at most {MAX_LINE:,} characters, got a longer one; check the "
                "file",
                row=text.count("\n", 0, start) + 1,
            )
        yield text[start:end]
        start = end


def _records(text: str, separator: str, file: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(_lines(text, file), delimiter=separator, strict=True)
    row = 0
    while True:
        row += 1
        try:
            yield row, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise read_error(
                file,
                f"must be readable as CSV, got {error}; double the quotes inside quoted cells and "
                "close them",
                row=row,
            ) from None


def _collect(records: Iterator[tuple[int, list[str]]] | Any, file: str) -> Sheet:
    """Keep the records that are not blank, within the limits."""
    cells: list[list[str]] = []
    rows: list[int] = []
    n_cells = 0
    for row, record in records:
        problem = _too_large(record, n_cells)
        if problem is not None:
            raise read_error(file, problem, row=row)
        stripped = [cell.strip() for cell in record]
        if any(stripped):
            cells.append(stripped)
            rows.append(row)
            n_cells += len(stripped)
    if not cells:
        raise read_error(file, "must hold a table, got blank lines only; check the download")
    return Sheet(file, cells, rows)


def _too_large(record: list[str], n_cells: int) -> str | None:
    if len(record) > MAX_COLUMNS:
        return f"must have at most {MAX_COLUMNS:,} columns, got {len(record):,}; check the file"
    if n_cells + len(record) > MAX_CELLS:
        return (
            f"must have at most {MAX_CELLS:,} cells up to here, got more; read it with pandas or "
            "polars and pass the frame to Release.from_histogram"
        )
    longest = max(map(len, record), default=0)
    if longest > MAX_CELL:
        return f"cells must have at most {MAX_CELL:,} characters, got {longest:,}; check the file"
    return None
