"""People who need not fit into memory: Parquet files, Dask frames and arrays, in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbin._frames import OUTSIDE, as_floats, as_text, cross_codes, filled, refuse_huge
from unbin._io import not_a_file
from unbin._typing import FloatArray, IntArray, TextArray
from unbin.exceptions import AlignmentError, DomainError, ReadError
from unbin.release.observed import check_observations
from unbin.release.readers.parquet import open_parquet
from unbin.release.weights import check_people
from unbin.rows.parts import Recipe
from unbin.rows.survey import Coded, Part

_PART_BYTES = 1 << 24
"""Bytes of the columns of a part, about: several are in progress at a time."""
_FEWEST_ROWS = 1 << 10


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a file or frame are read.

    Attributes
    ----------
    features : tuple of str
    block : str or tuple of str
        The column of block ids, or those whose cells are the blocks. Beside a Dask array, a Dask
        array of block ids.
    offset : str or None
        Likewise.
    others : tuple of tuples of str
        The columns of further partitions.
    clusters : tuple of str
        The columns of larger blocks, the last partitions; nobody is outside these.
    weights : str or None
        People that each row stands for. Beside a Dask array, a Dask array.
    sampled : bool
        Whether the rows are a sample of the people.
    observed : str or None
        Outcomes that are known. Beside a Dask array, a Dask array.
    disjoint : bool
        Whether no table counts the outcomes that are known.
    """

    features: tuple[str, ...]
    block: Any
    offset: Any
    others: tuple[tuple[str, ...], ...] = ()
    weights: Any = None
    sampled: bool = False
    observed: Any = None
    disjoint: bool = False
    clusters: tuple[str, ...] = ()

    def outside(self, name: str) -> bool:
        """Whether people without an id are outside a table: where there is more than one source."""
        several = bool(self.others) or self.observed is not None
        return several and name not in self.clusters

    @property
    def partitions(self) -> tuple[tuple[str, ...], ...]:
        """The columns of every partition."""
        first = self.block if isinstance(self.block, tuple) else (self.block,)
        return (first, *self.others, *((name,) for name in self.clusters))

    @property
    def names(self) -> list[str]:
        """All columns, each once."""
        ids = [name for names in self.partitions for name in names]
        extra = [self.offset, self.weights, self.observed]
        return list(dict.fromkeys([*self.features, *ids, *(x for x in extra if x is not None)]))

    def coded(self, read: Callable[[str], tuple[TextArray, IntArray]]) -> list[Coded]:
        """Return the blocks of people in every partition.

        ``read`` returns the ids of a column, and the place of each row's among them.
        """
        return [Coded(*cross_codes([read(name) for name in ids])) for ids in self.partitions]


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Some row groups of a Parquet file, or some rows of a single one.

    Attributes
    ----------
    path : str
    groups : tuple of int
    rows : (first, last) or None
    before : int
        Rows of the file before these.
    """

    path: str
    groups: tuple[int, ...]
    rows: tuple[int, int] | None = None
    before: int = 0


def recipes_of(X: Any, columns: Columns, part_bytes: int | None = None) -> list[Recipe]:
    """Return recipes that read the parts of Parquet files."""
    parts = find_parts(X, columns, part_bytes)
    return [Recipe(((read_part, (part, columns)),)) for part in parts]


def find_parts(
    pattern: str | Path, columns: Columns, part_bytes: int | None = None
) -> list[RowGroups]:
    """Return the parts of all Parquet files that a path, a folder or a pattern names."""
    paths = _paths(str(pattern))
    most = max((part_bytes or _PART_BYTES) // (8 * len(columns.names)), _FEWEST_ROWS)
    found: list[RowGroups] = []
    for path in paths:
        file = _open(path)
        names = file.schema_arrow.names
        missing = [name for name in columns.names if name not in set(names)]
        if missing:
            known = ", ".join(map(repr, names[:10]))
            raise ReadError(
                f"{Path(path).name}: must have the column {missing[0]!r}, got {known}; check its "
                "name"
            )
        found += _gather(path, file.metadata, most)
    if not found:
        raise ReadError(f"{pattern}: must hold people, got no rows; check the files")
    return found


def read_part(groups: RowGroups, columns: Columns) -> Part:
    """Read some row groups."""
    pa = _pyarrow()
    where = Path(groups.path).name
    try:
        table = _read(groups, columns.names)
    except (pa.ArrowException, OSError) as error:
        text = " ".join(str(error).split())[:120]
        raise ReadError(
            f"{where}: must be a whole Parquet file, got damaged data ({text}); copy it again"
        ) from None
    before = groups.before

    def ids(name: str) -> tuple[TextArray, IntArray]:
        return _read_ids(table.column(name), where, name, outside=columns.outside(name))

    part = part_of(
        lambda name: table.column(name).to_numpy(),
        columns,
        columns.coded(ids),
        where,
        before,
    )
    pa.default_memory_pool().release_unused()  # what decoding took, several times the part
    return part


def part_of(
    read: Callable[[str], NDArray[Any]],
    columns: Columns,
    coded: Sequence[Coded],
    where: str,
    before: int = 0,
) -> Part:
    """Return a part of columns and the blocks of its people in every partition.

    ``read`` returns a column; ``before`` is the number of rows of ``where`` before these.
    """
    offset, weights, outcome = columns.offset, columns.weights, columns.observed
    people = None if weights is None else people_of(read(weights), where, weights, before)
    known = None if outcome is None else outcomes_of(read(outcome), where, outcome, before)
    counted = people
    if known is not None and not columns.disjoint and not columns.sampled:
        counted = np.where(np.isnan(known), 1.0 if people is None else people, 0.0)
    return Part(
        tuple(numbers_of(read(name), where, name) for name in columns.features),
        coded[0],
        None if offset is None else numbers_of(read(offset), where, offset),
        tuple(coded[1:]),
        people,
        counted,
        columns.sampled,
        known,
    )


def numbers_of(values: NDArray[Any], where: str, name: str) -> FloatArray:
    """Return a column as finite numbers."""
    if values.dtype.kind not in "fiub":
        raise ReadError(
            f"{where}, column {name!r}: must hold numbers, got {values.dtype}; encode it first"
        )
    numbers = np.asarray(filled(values), dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise DomainError(
            f"{where}, column {name!r}: must be finite, got NaN or inf; fill it in or drop the "
            "people"
        )
    refuse_huge(numbers, where=f"{where}, column {name!r}")
    return numbers


def people_of(values: NDArray[Any], where: str, name: str, before: int = 0) -> FloatArray:
    """Return a column as numbers of people that rows stand for."""
    told = f"{where}, column {name!r}"
    numbers = as_floats(filled(values), where=told, error=ReadError)
    return check_people(numbers, where=told, before=before)


def outcomes_of(values: NDArray[Any], where: str, name: str, before: int = 0) -> FloatArray:
    """Return a column as outcomes, NaN where nobody knows them."""
    told = f"{where}, column {name!r}"
    numbers = as_floats(filled(values), where=told, error=ReadError)
    return check_observations(numbers, where=told, before=before)


def _read_ids(column: Any, where: str, name: str, *, outside: bool) -> tuple[TextArray, IntArray]:
    """Return the distinct block ids of a column, and the place of each row's among them."""
    coded = column.combine_chunks().dictionary_encode()
    if coded.null_count and not outside:
        raise AlignmentError(
            f"{where}, column {name!r}: must name the block of each row, got {coded.null_count} "
            "empty ones; fill them in or drop the people"
        )
    values = coded.dictionary.to_numpy(zero_copy_only=False)
    names = as_text(values, where="block", outside=outside)
    codes = coded.indices.fill_null(len(names)).to_numpy().astype(np.int64)
    return np.append(names, OUTSIDE) if coded.null_count else names, codes


def _gather(path: str, metadata: Any, most: int) -> Iterator[RowGroups]:
    """Put neighbouring row groups together, and cut large ones, into parts of ``most`` rows."""
    held: list[int] = []
    rows = done = 0
    for k in range(metadata.num_row_groups):
        size = metadata.row_group(k).num_rows
        if held and rows + size > most:
            yield RowGroups(path, tuple(held), before=done - rows)
            held, rows = [], 0
        if size > most:
            edges = np.linspace(0, size, -(-size // most) + 1).astype(int).tolist()
            yield from (RowGroups(path, (k,), cut, done + cut[0]) for cut in pairwise(edges))
        elif size:
            held.append(k)
            rows += size
        done += size
    if held:
        yield RowGroups(path, tuple(held), before=done - rows)


def _read(part: RowGroups, names: list[str]) -> Any:
    """Read a part; in a large row group the rows before it are decoded and dropped."""
    file, groups = _open(part.path), list(part.groups)
    if part.rows is None:
        return file.read_row_groups(groups, columns=names, use_threads=False)
    first, last = part.rows
    kept, done = [], 0
    batches = file.iter_batches(
        batch_size=last - first, row_groups=groups, columns=names, use_threads=False
    )
    for batch in batches:
        low, high = max(first - done, 0), min(last - done, len(batch))
        if low < high:
            kept.append(batch.slice(low, high - low))
        done += len(batch)
        if done >= last:
            break
    return _pyarrow().Table.from_batches(kept)


def _paths(pattern: str) -> Sequence[str]:
    try:
        if Path(pattern).is_dir():
            pattern = str(Path(pattern) / "*.parquet")
        found = sorted(glob(pattern)) if has_magic(pattern) else [pattern]
    except OSError as error:
        raise ReadError(
            f"{pattern[:60]}: cannot be opened, got {error.strerror}; check the path"
        ) from None
    if not found:
        raise ReadError(f"{pattern}: must name Parquet files, got none; check the path")
    return found


def _open(path: str) -> Any:
    pa, odd = _pyarrow(), not_a_file(Path(path))
    if odd is not None:
        raise ReadError(f"{Path(path).name}: must be a Parquet file, got {odd}; check the path")
    try:
        return open_parquet(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        text = " ".join(str(error).split())[:80]
        raise ReadError(
            f"{Path(path).name}: must be a Parquet file, got {text}; check the file"
        ) from None


def _pyarrow() -> Any:
    if find_spec("pyarrow") is None:
        raise ReadError("Parquet: needs pyarrow, got none; pip install unbin[parquet]")
    import pyarrow as pa

    return pa
