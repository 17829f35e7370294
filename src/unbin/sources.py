"""People who need not fit into memory: Parquet files, Dask frames and arrays, as slabs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob, has_magic
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbin.engines import LocalParts, Parts, Recipe
from unbin.engines.dask import DaskParts, open_client
from unbin.exceptions import AlignmentError, DomainError, EngineError, ParameterError, ReadError
from unbin.frames import as_text, column
from unbin.survey import Slab
from unbin.typing import FloatArray

_PART_ROWS = 1 << 18
"""Rows of a part that row groups are gathered into; a larger row group is a part of its own."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a file or frame are read.

    Attributes
    ----------
    features : tuple of str
    block : str
        Or, beside a Dask array, a Dask array of block ids.
    offset : str or None
        Likewise.
    """

    features: tuple[str, ...]
    block: Any
    offset: Any

    @property
    def names(self) -> list[str]:
        """All columns, each once."""
        extra = [] if self.offset is None else [self.offset]
        return list(dict.fromkeys([*self.features, self.block, *extra]))


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Some row groups of a Parquet file."""

    path: str
    groups: tuple[int, ...]


def is_source(X: Any) -> bool:
    """Tell whether X names files, or lies on a cluster, rather than being an array."""
    return isinstance(X, str | Path) or _is_dask(X)


@contextmanager
def open_slabs(
    X: Any, columns: Columns, *, engine: str, client: Any, n_threads: int, checkpoint: str | None
) -> Iterator[Parts]:
    """Give the people of a source as slabs, for as long as they are needed."""
    if engine != "dask":
        if _is_dask(X):
            raise EngineError(
                f"engine: {engine!r} cannot read a Dask collection; pass engine='dask', or "
                "X.compute()"
            )
        recipes = [Recipe(((read_slab, (part, columns)),)) for part in find_parts(X, columns)]
        yield LocalParts(recipes, n_threads)
        return
    with open_client(client) as opened:
        if not _is_dask(X):
            parts = find_parts(X, columns)
            slabs: list[Any] = [Recipe(((read_slab, (part, columns)),)) for part in parts]
        elif hasattr(X, "columns"):
            frames = opened.compute(X.to_delayed())
            slabs = [opened.submit(_frame_slab, frame, columns, pure=False) for frame in frames]
        else:
            pieces = opened.compute(_pieces(X, columns))
            slabs = [opened.submit(_array_slab, *piece, pure=False) for piece in pieces]
        yield DaskParts(opened, slabs, checkpoint)


def find_parts(pattern: str | Path, columns: Columns) -> list[RowGroups]:
    """Return the parts of all Parquet files that a path, a folder or a pattern names."""
    paths = _paths(str(pattern))
    found = []
    for path in paths:
        file = _open(path)
        missing = [name for name in columns.names if name not in file.schema_arrow.names]
        if missing:
            known = ", ".join(map(repr, file.schema_arrow.names[:10]))
            raise ReadError(
                f"{Path(path).name}: must have the column {missing[0]!r}, got {known}; check its "
                "name"
            )
        found += [RowGroups(path, groups) for groups in _gather(file.metadata)]
    if not found:
        raise ReadError(f"{pattern}: must hold people, got no rows; check the files")
    return found


def read_slab(part: RowGroups, columns: Columns) -> Slab:
    """Read some row groups."""
    pa = _pyarrow()
    where = Path(part.path).name
    try:
        table = _open(part.path).read_row_groups(
            list(part.groups), columns=columns.names, use_threads=False
        )
    except (pa.ArrowException, OSError) as error:
        raise ReadError(f"{where}: must be a whole Parquet file, got {error}") from None
    X = np.empty((len(table), len(columns.features)), order="F")
    for j, name in enumerate(columns.features):
        X[:, j] = _numbers(table.column(name).to_numpy(), where, name)
    offset = None
    if columns.offset is not None:
        offset = _numbers(table.column(columns.offset).to_numpy(), where, columns.offset)
    coded = table.column(columns.block).combine_chunks().dictionary_encode()
    if coded.null_count:
        raise AlignmentError(
            f"{where}, column {columns.block!r}: must name the block of each row, got "
            f"{coded.null_count} empty ones; fill them in or drop the people"
        )
    return _slab(
        X, coded.dictionary.to_numpy(zero_copy_only=False), coded.indices.to_numpy(), offset
    )


def _frame_slab(frame: Any, columns: Columns) -> Slab:
    """Turn a partition of a Dask frame into a slab."""
    where = "partition"
    X = np.empty((len(frame), len(columns.features)), order="F")
    for j, name in enumerate(columns.features):
        X[:, j] = _numbers(column(frame, name, role="features"), where, name)
    offset = None
    if columns.offset is not None:
        offset = _numbers(column(frame, columns.offset, role="offset"), where, columns.offset)
    ids = as_text(column(frame, columns.block, role="block"), where="block")
    names, codes = np.unique(ids, return_inverse=True)
    return _slab(X, names, codes, offset)


def _pieces(X: Any, columns: Columns) -> list[list[Any]]:
    """Cut Dask arrays into the same rows; one list per part."""
    X = X.rechunk({1: -1})
    others = [array for array in (columns.block, columns.offset) if array is not None]
    if not all(_is_dask(array) for array in others):
        raise ParameterError(
            "block, offset: must be Dask arrays beside a Dask array X, got others; pass one value "
            "per row"
        )
    cut = [X.to_delayed()[:, 0], *(array.rechunk((X.chunks[0],)).to_delayed() for array in others)]
    return [list(piece) for piece in zip(*cut, strict=True)]


def _array_slab(X: Any, ids: Any, offset: Any = None) -> Slab:
    """Turn pieces of Dask arrays into a slab."""
    values = _numbers(np.asarray(X), "partition", "X")
    names, codes = np.unique(as_text(ids, where="block"), return_inverse=True)
    shift = None if offset is None else _numbers(np.asarray(offset), "partition", "offset")
    return _slab(values, names, codes, shift)


def _slab(
    X: FloatArray, names: NDArray[Any], codes: NDArray[Any], offset: FloatArray | None
) -> Slab:
    """Make a slab of coded blocks whose names are in any order."""
    text = as_text(names, where="block")
    blocks, place = np.unique(text, return_inverse=True)
    return Slab(X, blocks, place[codes].astype(np.int64), offset)


def _numbers(values: NDArray[Any], where: str, name: str) -> FloatArray:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ReadError(
            f"{where}, column {name!r}: must hold numbers, got {values.dtype}; encode it first"
        ) from None
    if not np.isfinite(numbers).all():
        raise DomainError(
            f"{where}, column {name!r}: must be finite, got NaN or inf; fill it in or drop the "
            "people"
        )
    return numbers


def _gather(metadata: Any) -> Iterator[tuple[int, ...]]:
    """Put neighbouring row groups together until a part has enough rows."""
    held: list[int] = []
    rows = 0
    for k in range(metadata.num_row_groups):
        size = metadata.row_group(k).num_rows
        if held and rows + size > _PART_ROWS:
            yield tuple(held)
            held, rows = [], 0
        if size:
            held.append(k)
            rows += size
    if held:
        yield tuple(held)


def _paths(pattern: str) -> Sequence[str]:
    if Path(pattern).is_dir():
        pattern = str(Path(pattern) / "*.parquet")
    found = sorted(glob(pattern)) if has_magic(pattern) else [pattern]
    if not found:
        raise ReadError(f"{pattern}: must name Parquet files, got none; check the path")
    return found


def _open(path: str) -> Any:
    pa = _pyarrow()
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
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


def _is_dask(X: Any) -> bool:
    return hasattr(X, "__dask_graph__")
