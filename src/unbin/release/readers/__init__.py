"""Published tables as files: tidy ones and agencies' own dialects.

A dialect is one module with ``recognises(sheet)`` and ``read(sheet, options)``, and one line in
``DIALECTS``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from unbin._checks import check_choice, check_flag, check_whole
from unbin.exceptions import ParameterError, ReadError, ReleaseError
from unbin.release.readers import acs, cms, eurostat, nhs, plain, tablebuilder, tidy, wonder
from unbin.release.readers.downloads import read_sheets
from unbin.release.readers.files import ENCODINGS, HEADERS, MAX_BYTES
from unbin.release.readers.options import Options, check_options
from unbin.release.readers.sheets import Sheet, listed, read_error
from unbin.release.release import Release
from unbin.release.words import plural

DIALECTS: dict[str, ModuleType] = {
    "acs": acs,
    "cdc-wonder": wonder,
    "eurostat": eurostat,
    "nhs": nhs,
    "cms": cms,
    "abs": tablebuilder,
    "tidy": tidy,
    "plain": plain,
}
"""Dialects by name, in the order in which they are tried."""
_OWN = ("tidy", "plain")
"""Layouts of tables that need not be public."""


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
    totals: str = "drop",
    moe: bool = False,
    sheet: str | None = None,
    skip: int | None = None,
    encoding: str | None = None,
    max_bytes: int = MAX_BYTES,
    public: bool | None = None,
) -> Release:
    """Read a published table: CSV, TSV, Parquet, JSON, a workbook, a file in an archive.

    How the file was understood is shown by the release ("read as: …"), and so is how much of it
    was read, what was left out and why, and what was chosen. A choice that an option would make
    otherwise is a :class:`~unbin.exceptions.ReadWarning` too.

    Parameters
    ----------
    path : str or path
    dialect : {"tidy", "plain", "acs", "abs", "cdc-wonder", "cms", "nhs", "eurostat"}, optional
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
    totals : {"drop", "keep"}
        Whether blocks that are totals of others, by name or because they count what others count
        together, are left out.
    moe : bool
        Read margins of error too, where a table has them (acs): the standard error of each count
        is then in ``release.histogram.count_se``.
    sheet : str, optional
        The sheet of a workbook, or the file of a folder or an archive, where several hold tables.
    skip : int, optional
        Rows above the header. Left out, title rows are found by themselves.
    encoding : str, optional
        Needed for other files than UTF-8, and UTF-16 with a byte order mark: "latin-1", "cp1252".
    max_bytes : int
        The most bytes to read, after decompression.
    public : bool, optional
        Whether everybody has the table already, so that nothing of it need be masked. When left
        out: yes in an agency's own layout, no in a tidy file or a table of no agency.

    Returns
    -------
    Release
    """
    crossed = list(block) if isinstance(block, list | tuple) else []
    if crossed and all(isinstance(name, str) for name in crossed):
        block = ", ".join(crossed)
    options = check_options(
        Options(block, label, count, where, closed, suppression, rounding, totals, moe)  # type: ignore[arg-type]
    )
    chosen = _chosen(_found(path, options, dialect, sheet, skip, encoding, max_bytes))
    if crossed:
        chosen = replace(chosen, sheet=chosen.sheet.crossed(crossed))
    return _read(chosen, options, public)


def read_releases(path: str | os.PathLike[str], **settings: Any) -> dict[str, Release]:
    """Read every table of a download: a folder, a zip archive, a workbook.

    Parameters
    ----------
    path : str or path
    **settings
        As for :func:`read_release`; the same for all tables.

    Returns
    -------
    dict of Release
        By the name of the table (B19001), the sheet or the file. Files that hold no table of
        outcomes, such as readme files, are left out, and said.

    Examples
    --------
    >>> tables = read_releases("download.zip")  # doctest: +SKIP
    """
    names = ("dialect", "sheet", "skip", "encoding", "max_bytes", "public")
    own = {name: settings.pop(name, None) for name in names}
    options = check_options(Options(**settings))
    size = MAX_BYTES if own["max_bytes"] is None else own["max_bytes"]
    found = _found(path, options, own["dialect"], own["sheet"], own["skip"], own["encoding"], size)
    read = [each for each in found if each.dialect]
    if not read:
        _chosen(found)
    return {each.table_name(): _read(each, options, own["public"]) for each in read}


@dataclass(frozen=True, slots=True)
class _Found:
    """A sheet from its header on, and the dialect that knows it; empty where none does."""

    sheet: Sheet
    dialect: str

    def table_name(self) -> str:
        name = getattr(DIALECTS[self.dialect], "table_name", None)
        found: str = (name(self.sheet) if name else "") or self.sheet.name or self.sheet.file
        return found.rpartition(".")[0] or found


def _found(
    path: Any,
    options: Options,
    dialect: str | None,
    sheet: str | None,
    skip: int | None,
    encoding: str | None,
    max_bytes: int,
) -> list[_Found]:
    """Return every sheet of a download with its header and its dialect."""
    if encoding is not None:
        check_choice("encoding", encoding, ENCODINGS)
    if dialect is not None:
        check_choice("dialect", dialect, tuple(DIALECTS))
    if sheet is not None and not isinstance(sheet, str):
        raise ParameterError(f"sheet: must be the name of a sheet, got {sheet!r}; pass text")
    if skip is not None:
        check_whole("skip", skip, low=0)
    size = check_whole("max_bytes", max_bytes, low=1)
    sheets = read_sheets(path, encoding=encoding, max_bytes=size, where=options.where, sheet=sheet)
    return [_locate(each, options, dialect, skip) for each in sheets]


def _locate(sheet: Sheet, options: Options, dialect: str | None, skip: int | None) -> _Found:
    """Find the header: the first record, or the first below title rows, that a dialect knows."""
    if skip is not None:
        first = next((k for k, row in enumerate(sheet.rows) if row > skip), None)
        if first is None:
            raise read_error(
                sheet.file,
                f"must hold a table below the rows to skip, got {skip:,} of {sheet.rows[-1]:,} "
                "rows; skip fewer",
            )
        sheet = sheet.below(first)
    readers = DIALECTS if dialect is None else {dialect: DIALECTS[dialect]}
    places = list(_headers(sheet)) if skip is None else [0]
    for known in ([name for name in readers if name != "plain"], ["plain"]):
        for k in places:
            below = sheet.below(k)
            name = next((n for n in known if n in readers and readers[n].recognises(below)), None)
            if name is not None:
                return _Found(below, name)
    named = options.count is not None or options.label is not None
    return _Found(_named(sheet, options), dialect or ("plain" if named else ""))


def _named(sheet: Sheet, options: Options) -> Sheet:
    """Return the sheet from the record on that has all columns which the options name."""
    names = {str(n).casefold() for n in (options.block, options.label, options.count) if n}
    names |= {str(name).casefold() for name in options.where or {}}
    records = enumerate(sheet.cells[:HEADERS])
    first = next((k for k, r in records if names <= {cell.casefold() for cell in r}), 0)
    return sheet.below(first)


def _headers(sheet: Sheet) -> Iterator[int]:
    """Yield records that may be the header: the first, and wide ones below narrow titles."""
    widest = 0
    for k, record in enumerate(sheet.cells[:HEADERS]):
        filled = [cell for cell in record if cell]
        if k == 0 or len(filled) > max(widest, 1):
            yield k
        widest = max(widest, len(filled))


def _chosen(found: list[_Found]) -> _Found:
    """Return the only sheet that a dialect knows."""
    known = [each for each in found if each.dialect]
    if len(known) == 1:
        (one,) = known
        rest = [each.sheet for each in found if each is not one]
        if not rest:
            return one
        note = f"{plural(len(rest), 'other sheet')} left out, no known layout: "
        notes = (*one.sheet.notes, note + listed([each.name for each in rest]))
        return replace(one, sheet=replace(one.sheet, notes=notes, beside=tuple(rest)))
    if known:
        names = [each.sheet.name for each in known]
        raise read_error(
            known[0].sheet.file,
            f"one table must be chosen, got {listed(names)}; read all with read_releases(), or say",
            offers={"sheet": names[0]},
        )
    sheet = found[0].sheet
    raise plain.explain(sheet.below(list(_headers(sheet))[-1]))


def _read(found: _Found, options: Options, public: bool | None) -> Release:
    known = found.dialect not in _OWN if public is None else check_flag("public", public)
    try:
        release: Release = DIALECTS[found.dialect].read(found.sheet, options)
    except ReadError:
        raise
    except ReleaseError as error:
        raise read_error(found.sheet.file, str(error)) from error
    return replace(release, public=known)
