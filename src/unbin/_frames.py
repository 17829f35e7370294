"""Reading columns of pandas, polars or plain tables: block ids as text, numbers as floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from numbers import Real
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray
from scipy.sparse import issparse

from unbin._checks import LARGEST
from unbin._typing import ArrayLike, BoolArray, FloatArray, IntArray, TextArray
from unbin.exceptions import BlockError, DomainError, ParameterError, ReleaseError, UnbinError

LONGEST_ID = 1000
"""Characters of a block id."""
CROSSED = " | "
"""Stands between the ids of a block that is a cell of several columns: "65-74 | f"."""
_NO_NUMBERS = (nw.String, nw.Categorical, nw.Enum, nw.Date, nw.Datetime)
LARGEST_DENSE = 2**32
"""Bytes that a sparse matrix may take when it is dense."""
OUTSIDE = "(outside the table)"
"""The block of people whom a table does not count."""


def column(frame: Any, name: str, *, role: str) -> NDArray[Any]:
    """Return one column of a pandas or polars frame, or of a mapping of arrays."""
    table = frame if isinstance(frame, Mapping) else _frame(frame)
    if table is None:
        raise ReleaseError(
            f"frame: cannot be read, got {type(frame).__name__}; pass a pandas or polars frame, or "
            "a mapping of column names to arrays"
        )
    names = list(table) if isinstance(table, Mapping) else table.columns
    if name not in names:
        known = ", ".join(map(repr, names)) or "no columns"
        raise ReleaseError(
            f"column {name!r}: not in the frame, got {known}; say {role}=... with the column to "
            "read"
        )
    return to_numpy(table[name], where=f"column {name!r}")


def column_names(X: Any) -> list[str] | None:
    """Return the names of a frame's columns, in memory or on Dask; None for anything else."""
    frame = X if is_dask(X) else _frame(X)
    found = getattr(frame, "columns", None)
    return None if found is None else list(found)


def select_columns(frame: Any, names: Sequence[str]) -> Any:
    """Return some columns of a frame in memory, as a frame of its kind."""
    return nw.from_native(frame, eager_only=True)[list(names)].to_native()


def take_rows(X: Any, rows: IntArray) -> Any:
    """Return some rows of a frame in memory, as a frame of its kind, or of an array."""
    frame = _frame(X)
    return np.asarray(X)[rows] if frame is None else frame[rows.tolist()].to_native()


def _frame(values: Any) -> nw.DataFrame[Any] | None:
    """Return a frame in memory as narwhals sees it; None for anything else."""
    try:
        frame = nw.from_native(values, eager_only=True, pass_through=True)
    except DuplicateError:
        names = list(values.columns)
        twice = next(each for each in names if names.count(each) > 1)
        raise ReleaseError(
            f"frame: every column must have a name of its own, got {twice!r} twice; rename one"
        ) from None
    return frame if isinstance(frame, nw.DataFrame) else None


def to_numpy(
    values: ArrayLike, *, where: str, error: type[UnbinError] = ReleaseError
) -> NDArray[Any]:
    """Return a one-dimensional numpy array; nulls of frames and masks become None or NaN."""
    if isinstance(values, np.ma.MaskedArray):
        return filled(values)
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        if series.implementation.is_polars() and _has_long_texts(series):
            return np.array(series.to_list(), dtype=object)
        return np.asarray(series.to_numpy())
    array = _array(values, where, error)
    if array.dtype.kind in "US" and isinstance(values, list | tuple):
        return np.array(values, dtype=object)  # numpy would turn NaN and numbers into text
    return array


def _array(values: Any, where: str, error: type[UnbinError]) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:
        raise error(
            f"{where}: must hold one value per row, got rows of different length; correct them"
        ) from None


def _has_long_texts(series: nw.Series[Any]) -> bool:
    """Tell whether numpy, which gives every text the room of the longest, would give too much."""
    return series.dtype == nw.String and (series.str.len_chars().max() or 0) > LONGEST_ID


def filled(values: Any) -> NDArray[Any]:
    """Return an array with NaN, or None beside text, where it is masked."""
    mask = np.ma.getmaskarray(values)
    array = np.asarray(np.ma.getdata(values))
    if not mask.any():
        return array
    result = array.astype(np.float64 if array.dtype.kind in "biuf" else object)
    result[mask] = np.nan if result.dtype.kind == "f" else None
    return result


def refuse_masked(values: Any, *, where: str, error: type[UnbinError] = DomainError) -> Any:
    """Return values as they are; raise if some are masked, which numpy would forget."""
    if isinstance(values, list | tuple) and any(isinstance(v, np.ma.MaskedArray) for v in values):
        return refuse_masked(np.ma.array(values), where=where, error=error)
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        mask = np.ma.getmaskarray(values)
        raise error(
            f"{where}: must have no missing values, got {int(mask.sum())} masked, the first in "
            f"row {int(np.argwhere(mask)[0][0])}; fill them in or drop those rows"
        )
    return values


def refuse_huge(values: Any, *, where: str, error: type[UnbinError] = DomainError) -> None:
    """Raise if a finite number is too large for its square to be computed with."""
    high, low = np.max(values, initial=0.0), np.min(values, initial=0.0)
    if max(high, -low) > LARGEST:
        raise error(
            f"{where}: numbers must be at most {LARGEST:g} in size, got "
            f"{high if high > -low else low:g}; use another unit"
        )


def as_text(values: ArrayLike, *, where: str, outside: bool = False) -> TextArray:
    """Return block ids as text; whole numbers are written without a decimal point.

    Parameters
    ----------
    values : (n,) ids, or a frame of several columns
        The blocks of a frame are its cells: see ``cross_text``.
    where : str
        Named in errors.
    outside : bool
        Whether a missing id says that a person is outside the table.
    """
    columns = _columns(values)
    if columns is not None:
        return cross_text(columns, where=where, outside=outside)
    array = to_numpy(values, where=where, error=BlockError)
    if outside and array.ndim == 1:
        array = _with_outside(array)
    if array.ndim != 1:
        raise BlockError(
            f"{where}: block ids must be one-dimensional, got shape {array.shape}; pass one id per "
            "row"
        )
    text = _text(array, where)
    _check_text(text, where)
    blank = np.char.str_len(text) == 0
    if blank.any():
        raise _missing_id(where, blank)
    return text


def cross_text(columns: Mapping[str, ArrayLike], *, where: str, outside: bool = False) -> TextArray:
    """Return the ids of the cells of several columns, those of one cell side by side.

    A person with a missing id in any column is outside the table, where that is allowed.
    """
    parts = [
        as_text(values, where=f"{where}, column {name!r}", outside=outside)
        for name, values in columns.items()
    ]
    text, codes = cross_codes([np.unique(part, return_inverse=True) for part in parts])
    return np.asarray(text[codes])


def cross_codes(columns: Sequence[tuple[TextArray, IntArray]]) -> tuple[TextArray, IntArray]:
    """Return the cells of coded columns that have people, sorted, and the cell of each row.

    Parameters
    ----------
    columns : sequence of ((b,) text, (n,))
        The ids of each column, in any order, and the place of each row's among them.
    """
    text, codes = columns[0]
    for further, place in columns[1:]:
        pairs, codes = np.unique(codes * len(further) + place, return_inverse=True)
        left, right = text[pairs // len(further)], further[pairs % len(further)]
        gone = (left == OUTSIDE) | (right == OUTSIDE)
        text = np.where(gone, OUTSIDE, np.char.add(np.char.add(left, CROSSED), right))
    used = np.bincount(codes, minlength=len(text)) > 0
    cells, order = np.unique(text[used], return_inverse=True)
    place = np.zeros(len(text), dtype=np.int64)
    place[used] = order
    return cells, place[codes]


def block_name(values: Any) -> str:
    """Return what a frame or series calls its blocks, "" where it has no name."""
    columns = _columns(values)
    if columns is not None:
        return ", ".join(columns)
    name = getattr(values, "name", None)
    return name if isinstance(name, str) else ""


def _columns(values: Any) -> dict[str, Any] | None:
    """Return the columns of a frame by their names; None for anything else."""
    if isinstance(values, Mapping):
        return {str(name): column for name, column in values.items()}
    frame = _frame(values)
    return None if frame is None else {name: frame[name].to_native() for name in frame.columns}


def missing_values(array: NDArray[Any]) -> BoolArray:
    """Mark values that are None, NaN, or not a date."""
    if array.dtype.kind == "f":
        return np.asarray(np.isnan(array))
    if array.dtype.kind == "M":
        return np.asarray(np.isnat(array))
    if array.dtype.kind == "O":
        return np.array([is_missing(value) for value in array], dtype=np.bool_)
    return np.zeros(len(array), dtype=np.bool_)


def _with_outside(array: NDArray[Any]) -> NDArray[Any]:
    """Put people without an id, where there are any, into a block of their own."""
    missing = missing_values(array)
    if not missing.any():
        return array
    result = np.full(len(array), OUTSIDE, dtype=object)
    if not missing.all():
        result[~missing] = _text(array[~missing], "blocks")
    return result


def _check_text(text: TextArray, where: str) -> None:
    """Raise if an id has half a character, which no file could hold."""
    if not text.size:
        return
    units = np.ascontiguousarray(text).view(np.uint32).reshape(len(text), -1)
    odd = ((units & 0xFFFFF800) == 0xD800).any(axis=1)
    if odd.any():
        k = int(np.argmax(odd))
        raise BlockError(
            f"{where}: block ids must be text that UTF-8 can hold, got {str(text[k])!a} in row "
            f"{k}; correct the encoding it was read with"
        )


def _check_length(length: IntArray, where: str) -> None:
    """Raise if an id is so long that numpy, which gives each the room of the longest, has none."""
    if length.max(initial=0) > LONGEST_ID:
        k = int(np.argmax(length))
        raise BlockError(
            f"{where}: block ids must have at most {LONGEST_ID:,} characters, got {length[k]:,} in "
            f"row {k}; is it the right column?"
        )


def _text(array: NDArray[Any], where: str) -> TextArray:
    kind = array.dtype.kind
    if kind == "S":
        try:
            array = np.char.decode(array, "utf-8")
        except UnicodeDecodeError:
            raise BlockError(
                f"{where}: block ids must be text, got bytes that are not UTF-8; decode them first"
            ) from None
    if kind in "US":
        length = np.char.str_len(array)
        _check_length(length, where)
        # trailing blanks of a wide array would be copied everywhere
        return array.astype(f"<U{max(int(length.max(initial=1)), 1)}")
    if kind in "iub":
        unique, inverse = np.unique(array, return_inverse=True)
        return np.asarray(unique.astype(np.str_)[inverse])
    if kind == "f":
        return _float_text(array, where)
    if kind == "M":
        return _date_text(array, where)
    return _object_text(array.astype(object), where)


def _float_text(array: NDArray[Any], where: str) -> TextArray:
    if np.isnan(array).any():
        raise _missing_id(where, np.isnan(array))
    # above 2**53 a float has lost digits, so that two ids may have become one
    bad = (np.floor(array) != array) | (np.abs(array) > 2**53)
    if bad.any():
        raise BlockError(
            f"{where}: block ids must be text or whole numbers, got {array[bad][0]:g}; read the "
            "column as text"
        )
    return _text(array.astype(np.int64), where)


def _date_text(array: NDArray[Any], where: str) -> TextArray:
    if np.isnat(array).any():
        raise _missing_id(where, np.isnat(array))
    is_date = (array.astype("M8[D]") == array).all()
    return np.asarray(np.datetime_as_string(array, unit="D" if is_date else "ns"), dtype=np.str_)


def _object_text(array: NDArray[Any], where: str) -> TextArray:
    missing = np.array([is_missing(value) for value in array], dtype=np.bool_)
    if missing.any():
        raise _missing_id(where, missing)
    types = {type(value) for value in array}
    if all(issubclass(cls, str) for cls in types):
        _check_length(np.array([len(value) for value in array], dtype=np.int64), where)
        return array.astype(np.str_)
    if all(issubclass(cls, bool | np.bool_) for cls in types):
        return array.astype(np.bool_).astype(np.str_)
    if all(issubclass(cls, int | np.integer) for cls in types):
        return np.array([str(int(value)) for value in array], dtype=np.str_)
    names = ", ".join(sorted(cls.__name__ for cls in types))
    what = "mix types" if len(types) > 1 else "must be text or whole numbers"
    raise BlockError(
        f"{where}: block ids {what}, got {names}; read the whole column as text "
        '(for example dtype=str), so that "05001" keeps its zero'
    )


def is_missing(value: Any) -> bool:
    nan = isinstance(value, Real) and value != value
    return value is None or nan or type(value).__name__ in {"NAType", "NaTType"}


def _missing_id(where: str, mask: BoolArray) -> BlockError:
    what = "an id" if where.startswith("cluster") else "a block id"
    return BlockError(
        f"{where}: every row needs {what}, got {int(mask.sum())} missing, the first in row "
        f"{int(np.argmax(mask))}; fill or drop those rows"
    )


def as_floats(
    values: ArrayLike, *, where: str, error: type[UnbinError] = ReleaseError
) -> FloatArray:
    """Return numbers as float64; nulls become NaN, text is refused."""
    array = to_numpy(refuse_masked(values, where=where, error=error), where=where, error=error)
    if array.dtype.kind == "O" and array.ndim == 1:
        array = _array([np.nan if is_missing(value) else value for value in array], where, error)
    if array.ndim != 1:
        raise error(
            f"{where}: must be one-dimensional, got shape {array.shape}; pass one number per row"
        )
    if array.dtype.kind not in "iufb":
        raise error(f"{where}: must hold numbers, got {array.dtype}; convert them to numbers first")
    return array.astype(np.float64)


def as_finite(
    values: ArrayLike, *, where: str, error: type[UnbinError] = DomainError
) -> FloatArray:
    """Return numbers as float64, none of them missing or infinite."""
    numbers = as_floats(values, where=where, error=error)
    if not np.isfinite(numbers).all():
        raise error(f"{where}: must be finite, got NaN or inf; drop those rows")
    return numbers


# -- kinds of X ------------------------------------------------------------------------------------


def is_source(X: Any) -> bool:
    """Tell whether X names files, or lies on a cluster, rather than being an array."""
    return isinstance(X, str | Path) or is_dask(X)


def is_dask(X: Any) -> bool:
    """Tell whether X is a Dask collection."""
    return hasattr(X, "__dask_graph__")


def as_dense(X: Any) -> Any:
    """Return features as scikit-learn takes them: sparse ones dense, frames all of numbers."""
    if issparse(X):
        matrix: Any = X
        size = 8 * matrix.shape[0] * matrix.shape[1]
        if size > LARGEST_DENSE:
            raise DomainError(
                f"X: a sparse matrix is made dense, which takes {size / 2**30:.1f} GiB here; pass "
                "a matrix of tabmat (unbin[fast])"
            )
        return matrix.toarray()
    frame = None if isinstance(X, np.ndarray) else _frame(X)
    for series in () if frame is None else frame.iter_columns():
        kind = series.dtype
        if kind in _NO_NUMBERS or (kind == nw.Object and not _all_numbers(series)):
            raise DomainError(
                f"X, column {series.name!r}: must hold numbers, got {kind}; encode it, or fit with "
                "unbin.glm, which takes a formula"
            )
    return X


def _all_numbers(series: Any) -> bool:
    return all(isinstance(value, Real) or is_missing(value) for value in series)


def is_wide(X: Any) -> bool:
    """Tell whether X is a matrix of tabmat."""
    return type(X).__module__.split(".")[0] == "tabmat"


# -- frames handed out -----------------------------------------------------------------------------


def to_frame(columns: dict[str, Any], backend: str | None = None) -> Any:
    """Return columns as a pandas or polars frame, whichever is installed (pandas first)."""
    if backend is None:
        backend = next((name for name in ("pandas", "polars") if find_spec(name)), None)
    if backend not in ("pandas", "polars") or find_spec(backend) is None:
        raise ParameterError(
            f"backend: needs 'pandas' or 'polars' installed, got {backend!r}; install one of them"
        )
    return nw.from_dict(columns, backend=backend).to_native()  # type: ignore[arg-type]
