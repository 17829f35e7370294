"""Published tables as files: tidy ones and agencies' own dialects.

A dialect is one module with ``recognises(sheet)`` and ``read(sheet, options)``, and one line in
``DIALECTS``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any

from unbin._checks import check_choice, check_flag, check_whole
from unbin._frames import column_names, is_missing
from unbin.exceptions import ParameterError, ReadError, ReadWarning, ReleaseError
from unbin.release.readers.dialects import (
    acs,
    bls,
    cms,
    elections,
    eurostat,
    irs,
    nhs,
    plain,
    tablebuilder,
    tidy,
    wonder,
)
from unbin.release.readers.downloads import is_document, read_sheets, stem
from unbin.release.readers.files import ENCODINGS, HEADERS, MAX_BYTES, collect
from unbin.release.readers.options import Options, check_options
from unbin.release.readers.sheets import Sheet, listed, read_error
from unbin.release.readers.workbooks import cell_text
from unbin.release.release import Release
from unbin.release.words import plural

DIALECTS: dict[str, ModuleType] = {
    "acs": acs,
    "irs": irs,
    "bls": bls,
    "cdc-wonder": wonder,
    "eurostat": eurostat,
    "nhs": nhs,
    "cms": cms,
    "abs": tablebuilder,
    "elections": elections,
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
    category: str | None = None,
    where: Mapping[str, Any] | None = None,
    closed: str | None = None,
    suppression: str | Mapping[str, tuple[int, int | None]] | None = None,
    rounding: str | None = None,
    totals: str = "drop",
    moe: bool = False,
    absent: str | None = None,
    rest: str | None = None,
    sheet: str | None = None,
    skip: int | None = None,
    encoding: str | None = None,
    max_bytes: int = MAX_BYTES,
    public: bool | None = None,
) -> Release:
    r"""Read a published table: CSV, TSV, Parquet, JSON, a workbook, a file in an archive.

    The release shows how the file was understood ("read as: …"), how much of it was read, what was
    left out and why, and what was chosen. A choice that an option could change is also a
    :class:`~unbin.exceptions.ReadWarning`.

    Parameters
    ----------
    path : str or path
    dialect : str, optional
        The layout: "tidy", "plain" (any names), "acs", "irs", "bls", "cdc-wonder", "cms", "nhs",
        "abs", "eurostat" or "elections"; guessed from the header when left out.
    block, label, count : str, optional
        Columns of block ids, of bins in words and of counts, where the guess is wrong. Several
        columns of block ids, in a list, are those of a crossed table, whose blocks are their cells.
    category : str, optional
        Column of categories (party, cause of death), whose names are the outcome, where there is
        none called ``category`` or a layout may be read in several ways. Of a detailed table of the
        ACS: "headings", the lines just below the total, or "labels", the lines without parts.
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
    absent : {"zero", "structural"}, optional
        What it means if a block does not list a category: "zero", nobody chose it (the usual
        reading); "structural", it was not on offer there.
    rest : str, optional
        What to call people of a block who are in none of its categories, where the table says how
        many people there are: a category of its own.
    sheet : str, optional
        The sheet of a workbook, or the file of a folder or an archive, where several hold tables.
    skip : int, optional
        Rows above the header. By default, title rows are found automatically.
    encoding : str, optional
        Needed for files that are neither UTF-8 nor UTF-16 with a byte order mark: "latin-1",
        "cp1252".
    max_bytes : int
        The most bytes to read, after decompression.
    public : bool, optional
        Whether everybody has the table already, so that nothing of it need be masked. When left
        out: yes in an agency's own layout, no in a tidy file or a table of no agency.

    Returns
    -------
    Release

    Examples
    --------
    >>> import unbin
    >>> from pathlib import Path
    >>> rows = ["county,income,people", "05001,Less than $10000,12", "05001,$10000 or more,30"]
    >>> _ = Path("income.csv").write_text("\n".join(rows))
    >>> unbin.read_release("income.csv", label="income", count="people")
    Release: 1 block, 42 people
      histogram: 1 block, 2 bins, open below and above
      read as: plain table, bins 'income', counts 'people', block 'county', all 2 rows
    """
    options, crossed = _options(
        block=block,
        label=label,
        count=count,
        category=category,
        where=where,
        closed=closed,
        suppression=suppression,
        rounding=rounding,
        totals=totals,
        moe=moe,
        absent=absent,
        rest=rest,
    )
    found = _chosen(_found(path, options, dialect, sheet, skip, encoding, max_bytes))
    return _read(found.crossed(crossed), options, public)


def read_releases(path: str | os.PathLike[str], **settings: Any) -> dict[str, Release]:
    """Read every table of a download: a folder, a zip archive, a workbook.

    Labels that a table lacks are taken from the metadata beside it, where a dialect knows how.

    Parameters
    ----------
    path : str or path
    **settings
        As for :func:`read_release`; the same for all tables.

    Returns
    -------
    dict of Release
        By the name of the table (B19001), the sheet or the file. Files that hold no table of
        outcomes are left out: metadata and readme files, which the notes of each release name, and
        others, which are a :class:`~unbin.exceptions.ReadWarning` too.

    Examples
    --------
    >>> tables = read_releases("download.zip")  # doctest: +SKIP
    """
    kind = settings.pop("dialect", None)
    sheet, skip = settings.pop("sheet", None), settings.pop("skip", None)
    encoding, size = settings.pop("encoding", None), settings.pop("max_bytes", MAX_BYTES)
    public = settings.pop("public", None)
    unknown = settings.keys() - {field.name for field in fields(Options)}
    if unknown:
        raise ParameterError(
            f"{min(unknown)}: unknown, got it as an option; use those of read_release()"
        )
    options, crossed = _options(**settings)
    found = _found(path, options, kind, sheet, skip, encoding, size)
    if not any(each.dialect for each in found):
        _chosen(found)
    tables = _beside_others(found)
    names = [each.table_name() for each in tables]
    keys = [
        name if names.count(name) == 1 else stem(each.sheet.name)
        for name, each in zip(names, tables, strict=True)
    ]
    if len(set(keys)) < len(keys):
        raise read_error(
            tables[0].sheet.file,
            f"files must have different names, got {listed(keys)}; unpack and read them one by one",
        )
    return {
        key: _read(each.crossed(crossed), options, public)
        for key, each in zip(keys, tables, strict=True)
    }


def _options(**settings: Any) -> tuple[Options, list[str]]:
    """Return the options, checked, and the columns of blocks that are to be crossed."""
    block = settings.pop("block", None)
    crossed = list(block) if isinstance(block, list | tuple) else []
    if crossed and all(isinstance(name, str) for name in crossed):
        block = ", ".join(crossed)
    return check_options(Options(block=block, **settings)), crossed


def read_frame(frame: Any, *, name: str = "frame", **settings: Any) -> Release:
    """Read a published table from a frame or a mapping of columns, as if it were a file.

    Parameters
    ----------
    frame : pandas or polars frame, Arrow table, or mapping of columns
    name : str
        What messages call it.
    **settings
        ``dialect``, ``block``, ``label``, ``count`` and the like, as for :func:`read_release`.
    """
    dialect, public = settings.pop("dialect", None), settings.pop("public", None)
    options, crossed = _options(**settings)
    columns = frame
    if not isinstance(frame, Mapping):
        columns = {name: frame[name] for name in column_names(frame) or []}
    texts = [["" if is_missing(v) else cell_text(v) for v in values] for values in columns.values()]
    records = [list(map(str, columns)), *map(list, zip(*texts, strict=True))]
    sheet = collect(enumerate(records, 1), name, options.where)
    found = _chosen([_locate(sheet, options, dialect, None)])
    return _read(found.crossed(crossed), options, public)


@dataclass(frozen=True, slots=True)
class _Found:
    """A sheet from its header on, and the dialect that knows it; empty where none does."""

    sheet: Sheet
    dialect: str

    def table_name(self) -> str:
        """Return the name that the dialect knows for the table, else that of the sheet."""
        name = getattr(DIALECTS[self.dialect], "table_name", None)
        known: str = name(self.sheet) if name else ""
        return known or stem(self.sheet.name or self.sheet.file)

    def crossed(self, names: list[str]) -> _Found:
        """Return the sheet with several columns of blocks as one."""
        return replace(self, sheet=self.sheet.crossed(names)) if names else self

    def beside(self, others: list[Sheet], note: str) -> _Found:
        """Return the sheet with the others of its download, where it is not by itself."""
        if not others:
            return self
        notes = (*self.sheet.notes, note) if note else self.sheet.notes
        return replace(self, sheet=replace(self.sheet, notes=notes, beside=tuple(others)))


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
    documents = [len(sheets) > 1 and is_document(each.name) for each in sheets]
    return [
        _Found(each, "") if document else _locate(each, options, dialect, skip)
        for each, document in zip(sheets, documents, strict=True)
    ]


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
    named = any(n is not None for n in (options.count, options.label, options.category))
    return _Found(_named(sheet, options), dialect or ("plain" if named else ""))


def _named(sheet: Sheet, options: Options) -> Sheet:
    """Return the sheet from the record on that has all columns which the options name."""
    roles = (options.block, options.label, options.count, options.category)
    names = {str(n).casefold() for n in roles if n}
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
        return one.beside(rest, _left_out(rest))
    if known:
        names = [each.sheet.name for each in known]
        raise read_error(
            known[0].sheet.file,
            f"one table must be chosen, got {listed(names)}; read all with read_releases(), or say",
            offers={"sheet": names[0]},
        )
    sheet = found[0].sheet
    raise plain.explain(sheet.below(list(_headers(sheet))[-1]))


def _beside_others(found: list[_Found]) -> list[_Found]:
    """Return every sheet that a dialect knows with the others beside it; say what is left out."""
    rest = [each.sheet for each in found if not each.dialect]
    odd = [sheet for sheet in rest if not is_document(sheet.name)]
    if odd:
        # the caller of read_releases
        warnings.warn(f"{odd[0].file}: {_left_out(odd)}", ReadWarning, stacklevel=3)
    return [
        each.beside([other.sheet for other in found if other is not each], _left_out(rest))
        for each in found
        if each.dialect
    ]


def _left_out(sheets: list[Sheet]) -> str:
    """Return "1 other sheet left out, no known layout: 'readme.txt'", or nothing."""
    if not sheets:
        return ""
    count = plural(len(sheets), "other sheet")
    return f"{count} left out, no known layout: {listed([each.name for each in sheets])}"


def _read(found: _Found, options: Options, public: bool | None) -> Release:
    known = found.dialect not in _OWN if public is None else check_flag("public", public)
    try:
        release: Release = DIALECTS[found.dialect].read(found.sheet, options)
    except ReadError:
        raise
    except ReleaseError as error:
        raise read_error(found.sheet.file, str(error)) from error
    if options.moe and release.histogram.count_se is None:
        raise read_error(
            found.sheet.file,
            f"moe: margins of error are read of tables of the ACS, got a table read as "
            f"{found.dialect!r}; leave moe out",
        )
    asked = [name for name in ("category", "absent", "rest") if getattr(options, name) is not None]
    if asked and not release.categories:
        raise read_error(
            found.sheet.file,
            f"{asked[0]}: is about categories, got a table of numbers read as {found.dialect!r}; "
            "leave it out, or say dialect='plain' with block=..., category=... and count=...",
        )
    return replace(release, public=known)
