"""Tables of people: CSV, TSV, Parquet or a DuckDB query, as columns of numbers and texts."""

from __future__ import annotations

import csv
import glob
import gzip
import hashlib
import io
import os
import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from unbin._frames import filled
from unbin._io import not_a_file
from unbin._typing import BoolArray
from unbin.exceptions import ReadError
from unbin.release.readers.parquet import open_parquet
from unbin.release.readers.sheets import listed

QUERY = "duckdb:"
_LOCKED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "lock_configuration": "true",
}
"""A query reads files that it names, and does nothing else: it installs and loads no extensions,
sees no stored secrets and no variables of this program, and writes nothing, not even what does not
fit into memory. One SELECT cannot write, attach or set anything either."""
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "NULL", "null", "."})
_LONGEST_HEADER = 2**24
_SUFFIXES = (".csv", ".tsv", ".txt", ".gz", ".parquet")


@dataclass(frozen=True, slots=True)
class People:
    """Columns of people.

    Attributes
    ----------
    name : str
        The file, or "duckdb".
    columns : dict
        Arrays of numbers (NaN where missing) or of texts (None where missing).
    names : tuple of str
        All columns of the file, read or not.
    sha256 : str
        Of the file, or of the query.
    """

    name: str
    columns: dict[str, NDArray[Any]]
    names: tuple[str, ...]
    sha256: str

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def take(self, keep: BoolArray) -> People:
        """Return some of the people."""
        return replace(self, columns={n: values[keep] for n, values in self.columns.items()})

    def column(self, name: str) -> NDArray[Any]:
        """Return a column, which must be there."""
        if name not in self.columns:
            known = listed(list(self.names))
            raise ReadError(
                f"{self.name}: must have the column {name!r}, got {known}; check its name"
            )
        return self.columns[name]


def read_people(source: str, *, text: Collection[str], columns: Collection[str]) -> People:
    """Read some columns of a table of people.

    Parameters
    ----------
    source : str
        Path of a CSV, TSV or Parquet file (text may be gzipped), of a folder of them, a pattern
        such as ``people/*.parquet``, or ``duckdb:`` and a query: one SELECT over files that DuckDB
        reads by itself.
    text : collection of str
        Columns to be kept as text: block ids and categories, so that "05001" keeps its zero. Others
        are numbers where every value is one, else text.
    columns : collection of str
        Columns to read.
    """
    columns, text = dict.fromkeys(columns), frozenset(text)  # found at once among many
    if source.startswith(QUERY):
        return _query(source, columns)
    read = [_read_file(path, columns) for path in _files(source)]
    parts = [part for part, _ in read]
    people = parts[0] if len(parts) == 1 else _together(Path(source).name, parts)
    if any(typeless for _, typeless in read):
        numbers = {
            name: to_numbers(values)
            for name, values in people.columns.items()
            if name not in text and values.dtype.kind == "O"
        }
        people = replace(people, columns=people.columns | numbers)
    return _checked(people, columns)


def names_of(source: str) -> tuple[str, ...]:
    """Return the columns of a table of people; none of a query."""
    return () if source.startswith(QUERY) else _read_file(_files(source)[0], {})[0].names


def _files(source: str) -> list[Path]:
    """Return the files of a folder or a pattern, in order; else the one that is named."""
    path = Path(source)
    if os.path.isdir(path):
        found = sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES)
    elif any(mark in source for mark in "*?[") and not os.path.exists(path):
        found = sorted(map(Path, glob.glob(source)))
    else:
        return [path]
    if not found:
        raise ReadError(
            f"{source}: must hold tables of people, got no file; name CSV, TSV or Parquet files"
        )
    return found


def _together(name: str, parts: list[People]) -> People:
    """Return the people of several files, one after the other."""
    for part in parts[1:]:
        odd = set(part.columns) ^ set(parts[0].columns)
        if odd:
            raise ReadError(
                f"{name}: files must have the same columns, got {sorted(odd)[0]!r} in one of "
                f"{parts[0].name} and {part.name} only; add it"
            )
    columns = {
        each: np.concatenate([part.columns[each] for part in parts]) for each in parts[0].columns
    }
    sha256 = hashlib.sha256("".join(part.sha256 for part in parts).encode()).hexdigest()
    return People(name, columns, parts[0].names, sha256)


def _read_file(path: Path, columns: Collection[str]) -> tuple[People, bool]:
    """Read one file, and tell whether all its cells are text, as those of CSV are."""
    try:
        odd = not_a_file(path)
        if odd is not None:
            raise ReadError(f"{path.name}: must be a file, got {odd}; check the path")
        with path.open("rb") as stream:
            magic = stream.read(4)
            stream.seek(0)
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ReadError(
            f"{path.name}: cannot be opened, got {error.strerror}; check the path"
        ) from None
    if magic == _PARQUET:
        names, found = _parquet(path, columns)
    else:
        names, found = _csv(path, columns, zipped=magic[:2] == _GZIP)
    return People(path.name, found, names, sha256), magic != _PARQUET


def _checked(people: People, columns: Collection[str]) -> People:
    for name in columns:
        people.column(name)
    if not len(people):
        raise ReadError(f"{people.name}: must hold people, got none; check the table")
    return people


def to_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Return texts as numbers if every one that is not missing is one; else as they are."""
    texts = ["nan" if value is None or value in _MISSING else value for value in values]
    if all(value == "nan" for value in texts):
        return values
    try:
        return np.array([float(value) for value in texts])
    except (TypeError, ValueError):
        return values


def with_numbers(people: People, names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return the columns of people, some of them as numbers although they were read as texts.

    A column may be the blocks of a table, whose ids are texts, and a feature as well.
    """
    return {
        name: to_numbers(values) if name in names and values.dtype.kind == "O" else values
        for name, values in people.columns.items()
    }


def _csv(
    path: Path, columns: Collection[str], *, zipped: bool
) -> tuple[tuple[str, ...], dict[str, NDArray[Any]]]:
    """Return all names, and columns of text, None where a cell is empty."""
    names, separator = _header(path, zipped=zipped)
    wanted = [name for name in names if name in columns]
    if not wanted:
        return tuple(names), {}
    library = _library()
    try:
        if library is None:
            return tuple(names), _standard(path, names, wanted, separator, zipped=zipped)
        if library.__name__ == "polars":
            frame = library.read_csv(path, separator=separator, infer_schema=False, columns=wanted)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # pandas only warns of a row that is too long
                frame = library.read_csv(
                    path,
                    sep=separator,
                    dtype=str,
                    keep_default_na=False,
                    index_col=False,
                    encoding="utf-8-sig",
                    compression="gzip" if zipped else None,
                )
    except Exception as error:  # each library has errors of its own
        raise _damaged(path.name, error) from None
    table = nw.from_native(frame, eager_only=True)
    return tuple(names), {name: _stripped(table[name].to_list()) for name in wanted}


def _standard(
    path: Path, names: list[str], wanted: list[str], separator: str, *, zipped: bool
) -> dict[str, NDArray[Any]]:
    """Return columns of text as pandas would read them, by the standard library."""
    opened = gzip.open if zipped else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as stream:
        rows = [row for row in csv.reader(stream, delimiter=separator, strict=True) if row]
    if max(map(len, rows)) > len(names):
        raise csv.Error("a row with more cells than the first")
    columns = dict(zip(names, zip_longest(*rows), strict=True))
    return {name: _stripped(list(columns[name][1:])) for name in wanted}


def _header(path: Path, *, zipped: bool) -> tuple[list[str], str]:
    """Return the names of the columns, and what separates them."""
    try:
        with gzip.open(path) if zipped else path.open("rb") as stream:
            raw = stream.read(_LONGEST_HEADER)
    except (OSError, EOFError) as error:
        raise _damaged(path.name, error) from None
    if len(raw) == _LONGEST_HEADER and b"\n" not in raw:
        raise ReadError(
            f"{path.name}: the names of columns must take at most {_LONGEST_HEADER:,} bytes, got "
            "more; is it a table?"
        )
    start = raw.decode("utf-8-sig", errors="replace")
    line = start.split("\n", 1)[0]
    separator = "\t" if "\t" in line else ";" if line.count(";") > line.count(",") else ","
    try:
        names = next(csv.reader(io.StringIO(start, newline=""), delimiter=separator), [])
    except csv.Error as error:
        raise _damaged(path.name, error) from None
    if not any(names) or "\0" in line:
        raise ReadError(f"{path.name}: must begin with the names of columns, got none; add them")
    _check_names(path.name, names)
    return names, separator


def _check_names(file: str, names: list[str]) -> None:
    """Raise if a name is there twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ReadError(
                f"{file}: columns must have different names, got {name!r} twice; rename one"
            )
        seen.add(name)


def _stripped(values: list[Any]) -> NDArray[Any]:
    result = np.empty(len(values), dtype=object)
    result[:] = [value.strip() or None if isinstance(value, str) else None for value in values]
    return result


def _parquet(
    path: Path, columns: Collection[str]
) -> tuple[tuple[str, ...], dict[str, NDArray[Any]]]:
    if find_spec("pyarrow") is None:
        raise ReadError(
            f"{path.name}: Parquet needs pyarrow, got none; pip install 'unbin[parquet]'"
        )
    pa = import_module("pyarrow")
    try:
        file = open_parquet(path)
        names = file.schema_arrow.names
        _check_names(path.name, names)
        table = file.read([name for name in names if name in columns])
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        if isinstance(error, ReadError):
            raise
        raise _damaged(path.name, error) from None
    return tuple(names), {name: _native(table.column(name)) for name in table.column_names}


def _native(column: Any) -> NDArray[Any]:
    """Return a column of Arrow as numbers, times or objects, None or NaN where it is null."""
    types = import_module("pyarrow").types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_decimal(column.type):
        column = column.cast("float64")
    return np.asarray(column.to_numpy())


def _query(source: str, columns: Collection[str]) -> People:
    if find_spec("duckdb") is None:
        raise ReadError("duckdb: queries need duckdb, got none; pip install 'unbin[sql]'")
    duckdb = import_module("duckdb")
    try:
        with duckdb.connect(":memory:", config=_LOCKED) as connection:
            statements = connection.extract_statements(source.removeprefix(QUERY))
            if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
                kinds = ", ".join(each.type.name for each in statements)
                raise ReadError(
                    f"duckdb: must be one SELECT, got {kinds or 'no statement'}; write the query "
                    "as one SELECT, WITH … before it if need be"
                )
            found = connection.execute(statements[0]).fetchnumpy()
    except duckdb.Error as error:
        raise ReadError(
            f"duckdb: the query cannot be run, got {_line(error)}; correct it"
        ) from None
    arrays = {name: filled(found[name]) for name in found if name in columns}
    sha256 = hashlib.sha256(source.encode(errors="surrogatepass")).hexdigest()
    return _checked(People("duckdb", arrays, tuple(found), sha256), columns)


def _library() -> Any:
    """Return polars, which is faster, or pandas; None where there is neither."""
    for library in ("polars", "pandas"):
        if find_spec(library) is not None:
            return import_module(library)
    return None


def _damaged(name: str, error: BaseException) -> ReadError:
    return ReadError(
        f"{name}: must be a whole table in UTF-8 or Parquet, got {_line(error)}; check the file"
    )


def _line(error: BaseException) -> str:
    """Return the first words of a foreign message, on one line."""
    return " ".join(str(error).split())[:120] or type(error).__name__
