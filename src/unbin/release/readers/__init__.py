"""Published tables as files: tidy ones and agencies' own dialects.

A dialect is one module with ``recognises(sheet)`` and ``read(sheet, options)``, and one line in
``DIALECTS``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from unbin._checks import check_choice, check_flag, check_whole
from unbin.exceptions import ReadError, ReleaseError
from unbin.release.readers import acs, cms, eurostat, nhs, tidy, wonder
from unbin.release.readers.files import ENCODINGS, MAX_BYTES, read_sheet
from unbin.release.readers.options import Options, check_options
from unbin.release.readers.sheets import Sheet, listed, read_error
from unbin.release.release import Release

DIALECTS: dict[str, ModuleType] = {
    "acs": acs,
    "cdc-wonder": wonder,
    "eurostat": eurostat,
    "nhs": nhs,
    "cms": cms,
    "tidy": tidy,
}
"""Dialects by name, in the order in which they are tried."""


def read_release(
    path: str | os.PathLike[str],
    *,
    dialect: str | None = None,
    block: str | Sequence[str] | None = None,
    label: str | None = None,
    count: str | None = None,
    where: Mapping[str, Any] | None = None,
    closed: str | None = None,
    suppression: str | Mapping[str, tuple[int, int | None]] | None = None,
    rounding: str | None = None,
    encoding: str | None = None,
    max_bytes: int = MAX_BYTES,
    public: bool | None = None,
) -> Release:
    """Read a published table from a CSV, TSV or Parquet file, gzipped or not.

    How the file was understood is shown by the release ("read as: …").

    Parameters
    ----------
    path : str or path
    dialect : {"tidy", "acs", "cdc-wonder", "cms", "nhs", "eurostat"}, optional
        The layout; guessed from the header when left out.
    block, label, count : str, optional
        Columns of block ids, of bins in words and of counts, where the guess is wrong. Several
        columns of block ids, in a list, are those of a crossed table, whose blocks are their cells.
    where : mapping, optional
        Rows to read: ``{"year": "2022"}``, or several values in a list.
    closed : {"right", "left", "both"}, optional
        Which edges belong to a bin. Without it, edges in columns are (lower, upper], and labels say
        it themselves.
    suppression : str or mapping, optional
        What hidden counts look like: "cms", "cdc-wonder", "nhs", "hhs", "acs", "none", or for
        example ``{"*": (1, 10)}``. Every dialect has its own.
    rounding : str, optional
        "nearest-5" and the like for counts, "nearest-0.1%" for percentages, "none".
    encoding : str, optional
        Needed for other files than UTF-8, and UTF-16 with a byte order mark: "latin-1", "cp1252".
    max_bytes : int
        The most bytes to read, after decompression.
    public : bool, optional
        Whether everybody has the table already, so that nothing of it need be masked. When left
        out: yes in an agency's own layout, no in a tidy file.

    Returns
    -------
    Release
    """
    crossed = list(block) if isinstance(block, list | tuple) else []
    if crossed and all(isinstance(name, str) for name in crossed):
        block = ", ".join(crossed)
    options = check_options(Options(block, label, count, where, closed, suppression, rounding))  # type: ignore[arg-type]
    if encoding is not None:
        check_choice("encoding", encoding, ENCODINGS)
    if dialect is not None:
        check_choice("dialect", dialect, tuple(DIALECTS))
    sheet = read_sheet(
        path, encoding=encoding, max_bytes=check_whole("max_bytes", max_bytes, low=1)
    )
    name = dialect or guess_dialect(sheet, options)
    if crossed:
        sheet = sheet.crossed(crossed)
    known = name != "tidy" if public is None else check_flag("public", public)
    try:
        release: Release = DIALECTS[name].read(sheet, options)
    except ReadError:
        raise
    except ReleaseError as error:
        raise read_error(sheet.file, str(error)) from error
    return replace(release, public=known)


def guess_dialect(sheet: Sheet, options: Options) -> str:
    """Return the first dialect that recognises the header."""
    for name, reader in DIALECTS.items():
        if reader.recognises(sheet):
            return name
    if options.count is not None or options.label is not None:
        return "tidy"
    raise read_error(
        sheet.file,
        f"the layout is not known, got columns {listed(sheet.header)}; say dialect=..., or rename "
        "them to block, lower, upper, count",
        row=sheet.rows[0],
    )
