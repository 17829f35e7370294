"""Parquet files as records of text; needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unbin.release.readers.sheets import read_error


def open_parquet(source: Any, **options: Any) -> Any:
    """Open Parquet data; a page that differs from its checksum raises when it is read."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(source, page_checksum_verification=True, **options)


def parquet_records(
    data: bytes, file: str, *, max_cells: int, max_columns: int, max_bytes: int
) -> Iterator[list[str]]:
    """Yield the header and the rows of a Parquet file as text."""
    try:
        import pyarrow as pa
    except ImportError:
        raise read_error(
            file, "Parquet needs pyarrow, got none; pip install unbin[parquet]"
        ) from None
    try:
        source = open_parquet(pa.BufferReader(data))
        names, n_rows = source.schema_arrow.names, source.metadata.num_rows
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise read_error(file, _damaged(error)) from None
    if len(names) > max_columns or len(names) * n_rows > max_cells:
        raise read_error(
            file,
            f"must have at most {max_columns:,} columns and {max_cells:,} cells, got "
            f"{len(names):,} columns of {n_rows:,} rows; pass a frame to Release.from_histogram",
        )
    yield [str(name) for name in names]
    n_bytes, row = 0, 1
    try:
        texts = [f.name for f in source.schema_arrow if pa.types.is_string(f.type)]
        # text stays dictionary encoded, so that a long one repeated costs nothing
        source = open_parquet(pa.BufferReader(data), read_dictionary=texts)
        for batch in source.iter_batches(batch_size=4096, use_threads=False):
            n_bytes += batch.nbytes
            if n_bytes > max_bytes:
                raise read_error(
                    file, f"must hold at most {max_bytes:,} bytes, got more; pass max_bytes=..."
                )
            columns = [
                _texts(column, file, name) for column, name in zip(batch, names, strict=True)
            ]
            yield from map(list, zip(*columns, strict=True))
            row += len(batch)
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        raise read_error(file, _damaged(error), row=row) from None


def _damaged(error: BaseException) -> str:
    text = " ".join(str(error).split())[:80] or type(error).__name__
    return f"must be a whole Parquet file, got damaged data ({text}); download it again"


def _texts(column: Any, file: str, name: str) -> list[str]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        values = _texts(column.dictionary, file, name)
        return ["" if i is None else values[i] for i in column.indices.to_pylist()]
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise read_error(
            file, f"must hold text or numbers, got {kind}; flatten it", row=1, column=name
        )
    return [_text(value) for value in column.to_pylist()]


def _text(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)
