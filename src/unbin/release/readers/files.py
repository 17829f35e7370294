"""Text as cells, within bounds: whatever is in the file, memory and time stay limited."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from unbin._io import not_a_file
from unbin.release.readers.parquet import parquet_records
from unbin.release.readers.sheets import Sheet, matches, read_error, texts_of
from unbin.release.words import plural

MAX_BYTES = 256 * 2**20
"""The most bytes of a file, after decompression."""
MAX_CELLS = 20_000_000
MAX_COLUMNS = 10_000
MAX_CELL = 32_767
"""Characters of a cell, the limit of spreadsheets."""
MAX_LINE = 2**22
ENCODINGS = ("utf-8", "utf-16", "latin-1", "cp1252", "cp1250", "iso8859-15")

_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
ZIP, OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_OTHER = {
    ZIP: "a zip archive or a workbook",
    OLE: "a workbook",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ\x00": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"%PDF": "a PDF document",
}
_JSON = re.compile(r"\s*\[\s*\[")
HEADERS = 30
"""Records among which the header is."""
_FIRST_LINES = 50
"""Lines that tell the separator."""
_BOMS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


def sheet_of(
    data: bytes,
    file: str,
    *,
    encoding: str | None = None,
    max_bytes: int = MAX_BYTES,
    where: Mapping[str, Any] | None = None,
) -> Sheet:
    """Return CSV, TSV, Parquet or an array of JSON as text cells.

    Rows that ``where`` does not ask for are dropped while reading if there are too many cells.
    """
    refuse_packed(data, file)
    if data[:4] == _PARQUET:
        records = parquet_records(
            data, file, max_cells=MAX_CELLS, max_columns=MAX_COLUMNS, max_bytes=max_bytes
        )
        return collect(enumerate(records, 1), file, where)
    text = decode(data, file, encoding)
    if _JSON.match(text):
        return collect(enumerate(_json_records(text, file), 1), file, where)
    if "\n" not in text:
        text = text.replace("\r", "\n")
    return collect(_records(text, _separator(text), file), file, where)


def read_bytes(path: Path, file: str, max_bytes: int) -> bytes:
    """Return what a file holds, unpacked; no more than ``max_bytes``."""
    try:
        odd = not_a_file(path)
        if odd is not None:
            raise read_error(file, f"must be a file, got {odd}; check the path")
        with path.open("rb") as stream:
            data = read_up_to(stream, max_bytes)
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
    return data


def refuse_packed(data: bytes, file: str) -> None:
    """Raise if the bytes are an archive or a document, not a table."""
    for magic, kind in (*_OTHER.items(), (_GZIP, "a file that was gzipped twice")):
        if data.startswith(magic):
            raise read_error(file, f"must be CSV, TSV or Parquet, got {kind}; unpack or export it")


def read_up_to(stream: Any, max_bytes: int) -> bytes:
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
            return read_up_to(stream, max_bytes)
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
    """Return the separator: of tab, comma, semicolon and bar the one most lines agree on."""
    lines = []
    for match in re.finditer(r"\S.*", text):
        lines.append(re.sub(r'"[^"]*"', "", match.group()[:MAX_LINE]))
        if len(lines) == _FIRST_LINES:
            break
    if lines and "\t" in lines[0]:  # the first header cell of Eurostat's TSV has commas
        return "\t"

    def agreement(mark: str) -> tuple[int, int]:
        counts = Counter(n for line in lines if (n := line.count(mark)))
        return max(((times, n) for n, times in counts.items()), default=(0, 0))

    return max(",;\t|", key=agreement)


def _json_records(text: str, file: str) -> Iterator[list[str]]:
    """Yield the rows of an array of arrays, as the Census API returns them."""
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise read_error(
            file, f"must be an array of rows in JSON, got {error}; download it again"
        ) from None
    for k, record in enumerate(rows, 1):
        flat = isinstance(record, list) and not any(isinstance(v, list | dict) for v in record)
        if not flat:
            raise read_error(
                file, "must be an array of rows in JSON, got something else; flatten it", row=k
            )
        yield ["" if value is None else str(value) for value in record]


def _lines(text: str, file: str) -> io.StringIO:
    """Return a stream of lines, none of them too long."""
    if max(map(len, io.StringIO(text, newline="\n")), default=0) > MAX_LINE:
        lines = enumerate(io.StringIO(text, newline="\n"), 1)
        raise read_error(
            file,
            f"lines must have at most {MAX_LINE:,} characters, got a longer one; check the file",
            row=next(row for row, line in lines if len(line) > MAX_LINE),
        )
    return io.StringIO(text, newline="\n")


def _records(text: str, separator: str, file: str) -> Iterator[tuple[int, list[str]]]:
    row = 0
    try:
        for record in csv.reader(_lines(text, file), delimiter=separator, strict=True):
            row += 1
            yield row, record
    except csv.Error as error:
        raise read_error(
            file,
            f"must be readable as CSV, got {error}; double the quotes inside quoted cells and "
            "close them",
            row=row + 1,
        ) from None


def collect(
    records: Iterator[tuple[int, list[str]]] | Any,
    file: str,
    where: Mapping[str, Any] | None = None,
) -> Sheet:
    """Keep the records that are not blank, within the limits."""
    cells: list[list[str]] = []
    rows: list[int] = []
    n_cells, n_dropped = 0, 0
    wanted: dict[int, set[str]] = {}
    for row, record in records:
        if n_cells + len(record) > MAX_CELLS and where and not wanted:
            wanted, first = _wanted(cells, where)
            keep = [k < first or matches(record, wanted) for k, record in enumerate(cells)]
            cells = [record for record, k in zip(cells, keep, strict=True) if k]
            n_dropped = len(rows) - len(cells)
            rows = [r for r, k in zip(rows, keep, strict=True) if k]
            n_cells = sum(map(len, cells))
        if n_cells + len(record) > MAX_CELLS or len(record) + len("".join(record)) > MAX_COLUMNS:
            _check_size(record, n_cells, file, row)
        stripped = list(map(str.strip, record))
        if not any(stripped):
            continue
        if wanted and not matches(stripped, wanted):
            n_dropped += 1
            continue
        cells.append(stripped)
        rows.append(row)
        n_cells += len(stripped)
    if not cells:
        raise read_error(file, "must hold a table, got blank lines only; check the download")
    notes = (f"{plural(n_dropped, 'row')} left out: not asked for",) if n_dropped else ()
    return Sheet(file, cells, rows, notes=notes)


def _wanted(cells: list[list[str]], where: Mapping[str, Any]) -> tuple[dict[int, set[str]], int]:
    """Return the values asked for by column number, and where the records begin."""
    names = {str(name).casefold(): wanted for name, wanted in where.items()}
    for k, record in enumerate(cells[:HEADERS]):
        place = {cell.casefold(): column for column, cell in enumerate(record)}
        if names.keys() <= place.keys():
            # a second header row is kept
            return {place[name]: texts_of(value) for name, value in names.items()}, k + 2
    return {}, len(cells)


def _check_size(record: list[str], n_cells: int, file: str, row: int) -> None:
    """Raise if a record, or what was read with it, is larger than a table may be."""
    problem = None
    longest = max(map(len, record), default=0)
    if len(record) > MAX_COLUMNS:
        problem = f"must have at most {MAX_COLUMNS:,} columns, got {len(record):,}; check the file"
    elif n_cells + len(record) > MAX_CELLS:
        problem = (
            f"must have at most {MAX_CELLS:,} cells up to here, got more; choose rows with "
            "where={'column': 'value'}, or pass a frame to Release.from_histogram"
        )
    elif longest > MAX_CELL:
        problem = (
            f"cells must have at most {MAX_CELL:,} characters, got {longest:,}; check the file"
        )
    if problem is not None:
        raise read_error(file, problem, row=row)
