"""Columns of people: numbers and categories without gaps, errors by column and row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from unbin._frames import LONGEST_ID, column, is_missing
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.exceptions import EncodingError, ReleaseError

MAX_CATEGORIES = 1000
MISSING = "(missing)"
"""The category of people whose value is missing."""
_MISSING_IN_R = -(2**31)
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}")


def read_column(frame: Any, name: str) -> NDArray[Any]:
    """Return a column as numbers or as texts, NaN or None where a value is missing."""
    try:
        values = column(frame, name, role="formula")
    except ReleaseError:
        known = list(frame) if isinstance(frame, Mapping) else nw.from_native(frame).columns
        some = ", ".join(map(repr, known[:8])) + (", …" if len(known) > 8 else "")
        raise EncodingError(
            f"column {name!r}: must be in the table of people, got {some or 'no columns'}; check "
            "the formula"
        ) from None
    if values.dtype.kind == "O":
        values = _objects(values)
    if values.dtype.kind in "Mm" or (values.dtype.kind in "OU" and _are_dates(values)):
        raise EncodingError(
            f"column {name!r}: must hold numbers or categories, got dates; make what matters of "
            "them a column: the year, the month, days since an event"
        )
    if values.dtype.kind == "i" and (unknown := int((values == _MISSING_IN_R).sum())):
        raise EncodingError(
            f"column {name!r}: must hold numbers, got {_MISSING_IN_R} {unknown:,} times, which is "
            "R's missing integer; make the column numeric in R (as.numeric), or leave those people "
            "out"
        )
    if values.dtype.kind not in "biufOU":
        raise EncodingError(
            f"column {name!r}: must hold numbers or text, got {values.dtype}; convert it first"
        )
    return values


def gaps(values: NDArray[Any]) -> BoolArray:
    """Mark values that are missing."""
    if values.dtype.kind in "OU":
        return np.array([value is None or value == "" for value in values], dtype=bool)
    return np.asarray(values != values)


def refuse_gaps(name: str, values: NDArray[Any], *, new: bool = False) -> None:
    """Raise if a value is missing, of the people of the fit or of new ones."""
    gap = gaps(values)
    if gap.any():
        say = "leave those people out" if new else "say missing='drop' or missing='mean'"
        raise EncodingError(
            f"column {name!r}, row {int(np.argmax(gap)) + 1}: must have a value, got "
            f"{int(gap.sum()):,} of {len(gap):,} missing; {say}, or fill them"
        )


def _are_dates(values: NDArray[Any]) -> bool:
    """Tell whether all texts are dates."""
    held = [value for value in values if value]
    return bool(held) and all(_DATE.fullmatch(value) for value in held)


def _objects(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as floats, anything else as texts and None."""
    missing = [is_missing(value) for value in values]
    held = [value for value, gone in zip(values, missing, strict=True) if not gone]
    if held and all(isinstance(value, int | float | np.number) for value in held):
        return np.array([np.nan if gone else float(v) for v, gone in zip(values, missing,
                         strict=True)])  # fmt: skip
    result = np.empty(len(values), dtype=object)
    result[:] = [None if gone else str(v) for v, gone in zip(values, missing, strict=True)]
    return result


def _texts(name: str, values: NDArray[Any]) -> NDArray[np.str_]:
    """Return values as categories: a whole number is written without a decimal point."""
    if values.dtype.kind == "f":
        unique, inverse = np.unique(values, return_inverse=True)
        texts = [str(int(v)) if v == np.floor(v) and abs(v) < 2**53 else repr(float(v))
                 for v in unique]  # fmt: skip
        return np.array(texts, dtype=np.str_)[inverse]
    longest = max(values, key=len, default="") if values.dtype.kind == "O" else ""
    if len(longest) > LONGEST_ID:  # numpy would give every text that much room
        raise EncodingError(
            f"column {name!r}: categories must have at most {LONGEST_ID:,} characters, got "
            f"{len(longest):,}; is it the right column?"
        )
    return values.astype(np.str_)


def find_categories(name: str, values: NDArray[Any]) -> tuple[str, ...]:
    """Return the categories of a column as texts, numbers in their order."""
    found = [str(value) for value in np.unique(_texts(name, values))]
    if len(found) > MAX_CATEGORIES:
        raise EncodingError(
            f"column {name!r}: must have at most {MAX_CATEGORIES:,} categories, got "
            f"{len(found):,}; join the rare ones"
        )
    numbers = [_number(text) for text in found]
    if all(number is not None for number in numbers):
        return tuple(text for _, text in sorted(zip(numbers, found, strict=True)))
    return tuple(found)


def odd_one(texts: list[str]) -> int | None:
    """Return the row of the first text that is no number, where most are."""
    odd = [row for row, text in enumerate(texts) if _number(text) is None]
    return odd[0] if odd and 2 * len(odd) < len(texts) else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def category_codes(name: str, values: NDArray[Any], known: tuple[str, ...]) -> IntArray:
    """Return the place of each value among the known categories."""
    unique, inverse = np.unique(_texts(name, values), return_inverse=True)
    place = {text: code for code, text in enumerate(known)}
    unseen = [str(text) for text in unique if str(text) not in place]
    if unseen:
        row = int(np.argmax(inverse == int(np.flatnonzero(unique == unseen[0])[0])))
        some = ", ".join(map(repr, known[:8])) + (", …" if len(known) > 8 else "")
        raise EncodingError(
            f"column {name!r}, row {row + 1}: category {unseen[0]!r} was not in the "
            f"fit, which knows {some}; {len(unseen)} such, leave those people out or fit again"
        )
    return np.array([place[str(text)] for text in unique], dtype=np.int64)[inverse]


def as_numbers(name: str, values: NDArray[Any]) -> FloatArray:
    """Return a column that was one of numbers in the fit."""
    if values.dtype.kind in "OU":
        raise EncodingError(
            f"column {name!r}: must hold numbers as in the fit, got {str(values[0])!r}; convert it"
        )
    return values.astype(np.float64)
