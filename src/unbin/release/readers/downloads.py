"""What a download holds: one table, the sheets of a workbook, the files of a folder or an archive.

Nothing is unpacked on disk, and all files of a download together stay within the limit of bytes.
"""

from __future__ import annotations

import io
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unbin._checks import check_path
from unbin.exceptions import ReleaseError
from unbin.release.readers.files import (
    MAX_BYTES,
    OLE,
    ZIP,
    collect,
    read_bytes,
    read_up_to,
    sheet_of,
)
from unbin.release.readers.sheets import Sheet, listed, read_error, shown
from unbin.release.readers.workbooks import workbook_records
from unbin.release.words import plural

MAX_FILES = 1000
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, ValueError, NotImplementedError, RuntimeError,
    EOFError, OSError,
)  # fmt: skip
"""What an archive that is no archive makes zipfile raise."""
_TABLES = (".csv", ".tsv", ".txt", ".tab", ".gz", ".parquet", ".json", ".xlsx", ".xls", ".ods")
_DOCUMENT = re.compile(r"meta.?data|read.?me|notes|dictionary", re.I)


@dataclass(frozen=True, slots=True)
class _How:
    """Settings that all files of a download are read with."""

    encoding: str | None
    max_bytes: int
    where: Mapping[str, Any] | None


def read_sheets(
    path: Any,
    *,
    encoding: str | None = None,
    max_bytes: int = MAX_BYTES,
    where: Mapping[str, Any] | None = None,
    sheet: str | None = None,
) -> list[Sheet]:
    """Return all tables of a file, a workbook, an archive or a folder, as text cells.

    Parameters
    ----------
    path : str or path
    encoding, max_bytes, where
        As for ``read_release``.
    sheet : str, optional
        The one to read, by the name of a sheet or of a file in a folder or an archive.
    """
    place = check_path("path", path)
    file = shown(place.name)[1:-1]
    how = _How(encoding, max_bytes, where)
    if os.path.isdir(place):  # raises nothing for odd names
        found = list(_folder(place, file, how))
    else:
        found = list(_unpacked(read_bytes(place, file, max_bytes), file, how))
    if not found:
        raise read_error(file, "must hold a table, got no file with one; check the download")
    return found if sheet is None else [choose_sheet(found, sheet, file)]


def choose_sheet(found: list[Sheet], name: str, file: str) -> Sheet:
    """Return the sheet with this name; capitals do not matter."""
    chosen = [each for each in found if each.name.casefold() == name.casefold()]
    if not chosen:
        raise read_error(
            file,
            f"sheet {shown(name)} not found, got {listed([each.name for each in found])}; say "
            "sheet=... with one of them",
        )
    rest = len(found) - 1
    note = f"{plural(rest, 'other sheet')} not read" if rest else ""
    beside = tuple(each for each in found if each is not chosen[0])
    return replace(chosen[0], notes=(*chosen[0].notes, *filter(None, [note])), beside=beside)


def _unpacked(data: bytes, file: str, how: _How, name: str = "") -> Iterator[Sheet]:
    """Yield the tables in the bytes of one file; of a document beside tables its lines."""
    if is_document(name) and name.lower().endswith(".txt"):
        lines = data.decode("utf-8", errors="replace").splitlines()
        kept = [(k, line.strip()) for k, line in enumerate(lines, 1) if line.strip()]
        yield Sheet(file, [[line] for _, line in kept], [k for k, _ in kept], name)
    elif data.startswith(ZIP):
        yield from _archive(data, file, how)
    elif data.startswith(OLE):
        yield from _workbook(data, file)
    else:
        sheet = sheet_of(
            data, file, encoding=how.encoding, max_bytes=how.max_bytes, where=how.where
        )
        yield replace(sheet, name=name)


def _workbook(data: bytes, file: str) -> Iterator[Sheet]:
    for name, records in workbook_records(data, file):
        place = f"{file}, sheet {shown(name)}"
        yield replace(collect(enumerate(records, 1), place), name=name)


def _archive(data: bytes, file: str, how: _How) -> Iterator[Sheet]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [each for each in archive.infolist() if not each.is_dir()]
            _check_sizes(members, file, how.max_bytes)
            damaged = archive.testzip()  # unpacks no more than the sizes that were checked
            if damaged is not None:
                raise zipfile.BadZipFile(f"{shown(damaged)} differs from its checksum")
            names = {each.filename for each in members}
            if "xl/workbook.xml" in names or {"mimetype", "content.xml"} <= names:
                yield from _workbook(data, file)
                return
            for member in members:
                name = Path(member.filename).name
                if not _is_table(name):
                    continue
                with archive.open(member) as stream:
                    inner = read_up_to(stream, how.max_bytes)
                if inner.startswith(ZIP) and not name.lower().endswith((".xlsx", ".ods")):
                    raise read_error(file, f"must hold files, got an archive in it, {shown(name)}")
                if inner.strip():
                    yield from _unpacked(inner, f"{file}, {shown(name)}", how, name)
    except ReleaseError:
        raise
    except _DAMAGE as error:
        raise read_error(
            file, f"must be a whole archive, got damaged data ({error}); download it again"
        ) from None


def _check_sizes(members: list[zipfile.ZipInfo], file: str, max_bytes: int) -> None:
    """Refuse an archive that would unpack to more than the limit."""
    size = sum(each.file_size for each in members)
    if len(members) > MAX_FILES or size > max_bytes:
        raise read_error(
            file,
            f"must hold at most {MAX_FILES:,} files of {max_bytes:,} bytes, got {len(members):,} "
            f"of {size:,}; pass max_bytes=... if the file is what you expect",
        )


def _folder(place: Path, file: str, how: _How) -> Iterator[Sheet]:
    paths = sorted(each for each in place.iterdir() if each.is_file() and _is_table(each.name))
    if len(paths) > MAX_FILES:
        raise read_error(
            file, f"must hold at most {MAX_FILES:,} files, got {len(paths):,}; read one of them"
        )
    left = how.max_bytes
    for path in paths:
        name = shown(path.name)[1:-1]
        data = read_bytes(path, name, left)
        left -= len(data)
        yield from _unpacked(data, name, how, path.name)


def _is_table(name: str) -> bool:
    return name.lower().endswith(_TABLES) and not name.startswith((".", "~$", "__MACOSX"))


def is_document(name: str) -> bool:
    """Tell whether a file of a download explains its tables, by its name."""
    return _DOCUMENT.search(name) is not None


def stem(name: str) -> str:
    """Return the name of a file without its ending, or that of a sheet as it is."""
    return Path(name).stem if name.lower().endswith(_TABLES) else name
