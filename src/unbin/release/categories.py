"""Tables of categories: votes, diagnoses, occupations.

Category ``k`` is the value ``k`` of a histogram whose bins hold one value each, so that whatever is
known of counts (intervals, rounding, noise, standard errors) is known of categories too. A block
without a bin for a category does not offer it; a count of 0 says that nobody chose it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unbin._blocks import block_of_rows
from unbin._checks import check_choice
from unbin._frames import as_text, column, missing_values, to_numpy
from unbin._typing import ArrayLike, BoolArray, FloatArray, IntArray, TextArray
from unbin.exceptions import BlockError, CategoryError, CountError, ParameterError, ReleaseError
from unbin.release import fields
from unbin.release.histograms import ReadHistogram, read_histogram

if TYPE_CHECKING:
    from unbin.release.release import Release

MAX_CELLS = 20_000_000
"""Cells of a table, as many as are read of one."""
_SHOWN = 8
"""Names of categories that a sentence lists."""
_ZERO = {"count": 0.0, "count_low": 0.0, "count_high": 0.0, "percent": 0.0}


# -- reading ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a table: block, category, and numbers by the role that they have."""

    ids: TextArray
    code: IntArray
    numbers: dict[str, FloatArray]

    def and_rows(self, ids: TextArray, code: IntArray, **numbers: Any) -> _Rows:
        """Return these and further rows; a number that is not given is not known."""
        joined = {
            role: np.concatenate([values, np.broadcast_to(numbers.get(role, np.nan), len(ids))])
            for role, values in self.numbers.items()
        }
        return _Rows(np.concatenate([self.ids, ids]), np.concatenate([self.code, code]), joined)


def read_categories(
    frame: Any,
    *,
    block: str | Sequence[str] | None,
    category: str,
    categories: Sequence[str] | None,
    absent: str,
    rest: str | None,
    rounding: str | None,
    noisy: bool,
    roles: Mapping[str, str | None],
) -> tuple[ReadHistogram, tuple[str, ...]]:
    """Read one row per block and category; return the table and the names of its categories.

    Parameters
    ----------
    frame, block, category, categories, absent, rest, rounding
        As for ``Release.from_categories``.
    noisy : bool
        Whether noise was added to the counts.
    roles : mapping
        The columns of count, count_low, count_high, percent, n and count_se; None for none.
    """
    check_choice("absent", absent, ("zero", "structural"))
    ids = fields.read_ids(frame, block, value=category, role="category")
    where = f"column {category!r}"
    text = read_names(column(frame, category, role="category"), where=where)
    if len(text) != len(ids):
        raise ReleaseError(
            f"{where}: must be as long as the block ids, got {len(text)} names for {len(ids)} "
            "rows; pass columns of one length"
        )
    read = order_of(text, categories, where=where)
    names = read if rest is None else _with_rest(rest, text, read, categories)
    code = codes_of(text, names)
    _refuse_doubles(ids, code, names)
    unread = _unread(roles, noisy=noisy)
    called = {role: name for role, name in roles.items() if name and role not in unread}
    numbers = {
        role: fields.read_floats(frame, name, ids, role=role) for role, name in called.items()
    }
    rows = _Rows(ids, code, numbers)
    if absent == "zero":
        rows = _and_absent(rows, [k for k, name in enumerate(names) if name != rest])
    if rest is not None:
        _check_rest(called, noisy=noisy)
        rows, called = _and_rest(rows, names.index(rest), called)
    columns = {called[role]: values for role, values in rows.numbers.items()}
    found = read_histogram(
        {**columns, "block of each row": rows.ids, "category of each row": rows.code},
        block="block of each row",
        lower="category of each row",
        upper="category of each row",
        closed="right",
        rounding=rounding,
        noisy=noisy,
        parts="categories",
        count=called.get("count"),
        count_low=called.get("count_low"),
        count_high=called.get("count_high"),
        percent=called.get("percent"),
        n=called.get("n"),
        count_se=called.get("count_se"),
    )
    return found, names


def _unread(roles: Mapping[str, str | None], *, noisy: bool) -> tuple[str, ...]:
    """Return the columns that are not read beside others."""
    if noisy:
        return "count_low", "count_high", "percent"
    return ("count", "count_low", "count_high") if roles["percent"] is not None else ()


def _refuse_doubles(ids: TextArray, code: IntArray, names: Sequence[str]) -> None:
    blocks, place = np.unique(ids, return_inverse=True)
    _, cell, rows = np.unique(place * len(names) + code, return_inverse=True, return_counts=True)
    double = rows[cell] > 1
    if double.any():
        k = int(np.argmax(double))
        raise CategoryError(
            f"block {str(blocks[place[k]])!r}: every category must be listed once, got "
            f"{names[code[k]]!r} {rows[cell[k]]} times; add the counts or drop one"
        )


def _and_absent(rows: _Rows, wanted: Sequence[int]) -> _Rows:
    """Return the rows and, for every category that a block does not list, one with count 0."""
    blocks, first, place = np.unique(rows.ids, return_index=True, return_inverse=True)
    if len(blocks) * len(wanted) > MAX_CELLS:
        raise CategoryError(
            f"categories: a table may have at most {MAX_CELLS:,} cells, got {len(wanted):,} "
            f"categories of {len(blocks):,} blocks; pass absent='structural', or fewer categories"
        )
    listed = np.zeros((len(blocks), max(wanted, default=0) + 1), dtype=bool)
    listed[place, rows.code] = True
    b, k = np.nonzero(~listed[:, wanted])
    people = _people(rows, first)
    return rows.and_rows(blocks[b], np.asarray(wanted)[k], **_ZERO, n=people[b])


def _and_rest(rows: _Rows, code: int, called: dict[str, str]) -> tuple[_Rows, dict[str, str]]:
    """Return the rows and one of each block for those of its people who are in no other category.

    What the others leave is worked out where counts meet the people of their block.
    """
    blocks, first, place = np.unique(rows.ids, return_index=True, return_inverse=True)
    people, codes = _people(rows, first), np.full(len(blocks), code)
    if "percent" in rows.numbers:
        told = np.nan_to_num(rows.numbers["percent"])
        left = np.maximum(100.0 - np.bincount(place, told, len(blocks)), 0.0)
        return rows.and_rows(blocks, codes, percent=left, n=people), called
    if "count_low" not in called and "count_high" not in called:
        unknown = np.full(len(rows.ids), np.nan)
        rows = replace(rows, numbers=rows.numbers | {"count_low": unknown, "count_high": unknown})
        called = called | {"count_low": "least count", "count_high": "most count"}
    return rows.and_rows(blocks, codes, count_low=0.0, count_high=people, n=people), called


def _people(rows: _Rows, first: IntArray) -> FloatArray:
    """Return the people of each block, from its first row."""
    return rows.numbers["n"][first] if "n" in rows.numbers else np.full(len(first), np.nan)


def _with_rest(
    rest: str, text: TextArray, names: tuple[str, ...], given: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the names with that of people who are in none, where the user wants it or last."""
    if not isinstance(rest, str) or not rest:
        raise ParameterError(f"rest: must be the name of a category, got {rest!r}; pass text")
    if (text == rest).any():
        raise CategoryError(
            f"rest: must be no category of the table, got {rest!r}, which has rows; give those in "
            "no category another name, or leave rest out"
        )
    return names if given is not None and rest in names else (*names, rest)


def _check_rest(called: Mapping[str, str], *, noisy: bool) -> None:
    if "n" not in called:
        raise CountError(
            "rest: those in no category are the rest of the people, got no number of people; pass "
            "n=... with its column"
        )
    if noisy:
        raise CountError(
            "rest: noisy counts do not add up to the people, got noise_sd; publish those in no "
            "category as one, or leave rest out"
        )


# -- names and codes -------------------------------------------------------------------------------


def is_nominal(values: NDArray[Any]) -> bool:
    """Tell whether an array holds names rather than numbers."""
    if values.dtype.kind != "O":
        return values.dtype.kind in "US"
    return values.ndim == 1 and any(isinstance(value, str | bytes) for value in values)


def read_names(values: ArrayLike, *, where: str) -> TextArray:
    """Return names of categories as text; raise where one is missing."""
    array = to_numpy(values, where=where, error=CategoryError)
    text, missing = _names(array, where)
    if missing.any():
        raise CategoryError(
            f"{where}: every row needs a category, got {int(missing.sum())} missing, the first in "
            f"row {int(np.argmax(missing))}; fill or drop those rows"
        )
    return text


def read_labels(values: ArrayLike, *, where: str) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the code of each label, NaN where it is missing or empty, and the names in order."""
    array = to_numpy(values, where=where, error=CategoryError)
    text, missing = _names(array, where)
    names, code = np.unique(text[~missing], return_inverse=True)
    codes = np.full(len(text), np.nan)
    codes[~missing] = code
    return codes, tuple(map(str, names))


def _names(array: NDArray[Any], where: str) -> tuple[TextArray, BoolArray]:
    """Return names as text, and which of them are missing."""
    if array.ndim != 1:
        raise CategoryError(
            f"{where}: must be one-dimensional, got shape {array.shape}; pass one name per row"
        )
    missing = missing_values(array)
    missing[~missing] = _blank(array[~missing])
    text = np.full(len(array), "", dtype=object)
    try:
        text[~missing] = as_text(array[~missing], where=where)
    except BlockError:
        got = array[~missing][0] if array.dtype.kind != "O" else _types(array[~missing])
        raise CategoryError(
            f"{where}: categories must be text or whole numbers, got {got!s:.60}; convert them to "
            "text"
        ) from None
    return text.astype(np.str_), missing


def _blank(array: NDArray[Any]) -> BoolArray:
    if array.dtype.kind == "O":
        empty = [isinstance(value, str | bytes) and not value for value in array]
        return np.array(empty, dtype=np.bool_)
    if array.dtype.kind in "US":
        return np.asarray(np.char.str_len(array) == 0)
    return np.zeros(len(array), dtype=np.bool_)


def _types(array: NDArray[Any]) -> str:
    return ", ".join(sorted({type(value).__name__ for value in array}))


def order_of(text: TextArray, categories: Sequence[str] | None, *, where: str) -> tuple[str, ...]:
    """Return the categories in the order asked for, else in that of text."""
    if categories is None:
        return tuple(map(str, np.unique(text)))
    if isinstance(categories, str) or np.ndim(categories) != 1:
        raise ParameterError(
            f"categories: must be a list of names, got {categories!r}; pass for example ['a', 'b']"
        )
    names = read_names(categories, where="categories")
    twice = next((name for name in names if (names == name).sum() > 1), None)
    if twice is not None:
        raise CategoryError(
            f"categories: every one must be named once, got {str(twice)!r} twice; drop one"
        )
    unknown = text[~np.isin(text, names)]
    if len(unknown):
        raise CategoryError(
            f"{where}: must hold the categories asked for, got {str(unknown[0])!r} beside "
            f"{listed(list(names))}; add it to categories=..., or drop its rows"
        )
    return tuple(map(str, names))


def codes_of(text: TextArray, names: Sequence[str]) -> IntArray:
    """Return the place of each name; all are known."""
    order = np.argsort(np.array(names, dtype=np.str_), kind="stable")
    return np.asarray(order[np.searchsorted(np.array(names, dtype=np.str_)[order], text)])


def listed(names: Sequence[str]) -> str:
    """Return names for a sentence: quoted, the first few."""
    more = ", …" if len(names) > _SHOWN else ""
    return ", ".join(repr(str(name)) for name in names[:_SHOWN]) + more


# -- tables of the same categories -----------------------------------------------------------------


def refuse_categories(categories: Sequence[str], where: str = "y") -> None:
    """Raise if an outcome has categories, where only numbers can be fitted."""
    if categories:
        raise CategoryError(
            f"{where}: must be numbers, got a table of the categories {listed(categories)}; fit it "
            "with unbin.AggregatedClassifier"
        )


def union_of(orders: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the categories of several tables, each once: sorted if all are, else as they come."""
    found = tuple(dict.fromkeys(name for names in orders for name in names))
    return tuple(sorted(found)) if all(list(n) == sorted(n) for n in orders) else found


def recoded(release: Release, names: tuple[str, ...]) -> Release:
    """Return the release with its categories in another order, perhaps among more of them."""
    if release.categories == names:
        return release
    table = release.histogram
    place = codes_of(np.array(release.categories, dtype=np.str_), names)
    code = place[table.lower.astype(np.int64)].astype(np.float64)
    order = np.lexsort((code, block_of_rows(table.start)))
    sorted_table = table.rows(table.start, order)
    histogram = replace(sorted_table, lower=code[order], upper=code[order])
    return replace(release, histogram=histogram, categories=names)


def check_same(names: Sequence[str], orders: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the order that tables of the same people share; raise if they differ in categories.

    Parameters
    ----------
    names : sequence of str
        What the tables are called.
    orders : sequence of tuples
        The categories of each, empty for a table of numbers.
    """
    first = set(orders[0])
    for name, order in zip(names[1:], orders[1:], strict=True):
        if bool(order) != bool(first):
            table, other = (names[0], name) if first else (name, names[0])
            raise CategoryError(
                f"join: all tables must hold numbers or all categories, got categories in "
                f"{table} and numbers in {other}; join tables of one outcome"
            )
        apart = sorted(first.symmetric_difference(order))
        if apart:
            has, lacks = (names[0], name) if apart[0] in first else (name, names[0])
            raise CategoryError(
                f"join: tables of the same people must have the same categories, got {apart[0]!r} "
                f"in {has} and not in {lacks}; name all of them with categories=[...] when it is "
                "read"
            )
    return union_of(orders)
