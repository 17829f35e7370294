"""Writing files: whole or not at all, and CSV that a spreadsheet does not run."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from unbin.exceptions import OutputError

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_texts(texts: Mapping[Path, str | bytes], *, errors: str = "strict") -> None:
    """Write files so that an interruption leaves the old ones, or none, but no part of any.

    All are written under other names first; only then do they take their places. ``errors`` says
    what happens to characters of a text that UTF-8 does not have, as for ``open``.
    """
    for path in texts:
        if not path.name:
            raise OutputError(f"{path}: must name a file, got a folder; choose another place")
    drafts: dict[Path, Path] = {}
    try:
        for path, text in texts.items():
            draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
            drafts[path] = draft
            data = text if isinstance(text, bytes) else text.encode("utf-8", errors)
            with draft.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        for path, draft in drafts.items():
            os.replace(draft, path)
    except UnicodeEncodeError as error:
        odd = error.object[error.start : error.end]
        raise OutputError(
            f"{path.name}: must be text that UTF-8 can hold, got {odd!a}; rename what holds it"
        ) from None
    except OSError as error:
        name = str(error.filename or "a file")
        raise OutputError(
            f"{name}: cannot be written, got {error.strerror}; choose another place"
        ) from None
    finally:
        for draft in drafts.values():
            with contextlib.suppress(OSError):
                draft.unlink()


def not_a_file(path: Path) -> str | None:
    """Return what a path names if it is no plain file; a device or a pipe may never end."""
    if path.is_file():
        return None
    return "a folder" if path.is_dir() else "a device" if path.exists() else "no such file"


def make_folder(path: Path) -> None:
    """Make a folder with its parents, where it is not there yet."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_folder(path, error) from None


def check_folder(path: Path) -> None:
    """See that a folder can be written to, or made; make nothing yet."""
    try:
        there = next(each for each in (path, *path.absolute().parents) if each.exists())
        with TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise _no_folder(path, error) from None


def _no_folder(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"{path}: must be a folder to write to, got {error.strerror}; choose another place"
    )


def csv_text(columns: Mapping[str, Any]) -> str:
    """Return columns as CSV; text that a spreadsheet would run gets an apostrophe in front."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([safe_cell(name) for name in columns])
    writer.writerows(zip(*(_cells(values) for values in columns.values()), strict=True))
    return stream.getvalue()


def safe_cell(text: str) -> str:
    """Return text that is not taken for a formula; numbers stay as they are."""
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _cells(values: Any) -> Iterator[str]:
    for value in np.asarray(values).tolist():
        if isinstance(value, float):
            yield _float(value)
        else:
            yield "" if value is None else safe_cell(str(value))


def _float(value: float) -> str:
    if value != value:
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
