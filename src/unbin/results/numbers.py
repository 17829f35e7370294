"""Numbers as people write them: −57,541, the same decimals down a column, p < .001."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from unbin._typing import FloatArray

NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
_DIGITS = 4
"""Significant digits of the smallest number of a column without errors."""
_OF_ERRORS = 2
"""Significant digits of the smallest standard error of a column."""
_MOST_DIGITS = 6
"""Digits of a number, at most, before it gets others than its column."""


def number(value: float, decimals: int = 0) -> str:
    """Return a number with a fixed number of decimals; a dash where there is none."""
    if not np.isfinite(value):
        return NONE
    text = f"{value:,.{decimals}f}"
    if value < 0 and not text.strip("-0.,"):  # rounded to 0
        return text.removeprefix("-")
    return text.replace("-", MINUS)


def column(values: Iterable[float], decimals: Iterable[int]) -> list[str]:
    """Return numbers, each with its decimals."""
    return [number(value, k) for value, k in zip(values, decimals, strict=True)]


def decimals_for(values: FloatArray, errors: FloatArray | None = None) -> list[int]:
    """Return the decimals of a column of numbers: the same down the column.

    The smallest error shows two digits. Where units differ so much that this would take too many,
    those rows that would show nothing have more than the others.

    Parameters
    ----------
    values : (k,)
    errors : (k,), optional
        Their standard errors; without them the smallest number shows four digits.
    """
    values = np.where(np.isfinite(values), np.abs(values), 0.0)
    least, digits = values, _DIGITS
    if errors is not None and (np.isfinite(errors) & (errors > 0)).any():
        least, digits = np.where(np.isfinite(errors), errors, 0.0), _OF_ERRORS
    told = least > 0
    needed = np.zeros(len(values), dtype=np.int64)
    needed[told] = digits - 1 - np.floor(np.log10(least[told])).astype(np.int64)
    room = max(_MOST_DIGITS - 1 - _magnitude(values.max(initial=1.0)), 0)
    shared = int(np.clip(needed.max(initial=0), 0, room))
    lost = needed - digits >= shared  # not one digit of it would be seen
    return [int(own) if alone else shared for own, alone in zip(needed, lost, strict=True)]


def significant(value: float, digits: int = 3) -> str:
    """Return a number that stands alone with so many significant digits, never an exponent."""
    if not np.isfinite(value) or value == 0:
        return NONE if not np.isfinite(value) else "0"
    decimals = digits - 1 - _magnitude(abs(value))
    return number(round(value, decimals), max(decimals, 0))


def p_value(p: float) -> str:
    """Return a p value with three decimals, as in ".012" and "< .001"."""
    if not np.isfinite(p):
        return NONE
    if p < 0.001:
        return "< .001"
    text = f"{p:.3f}"
    return text if text.startswith("1") else text[1:]


def share(value: float) -> str:
    """Return a share in whole per cent."""
    if not np.isfinite(value):
        return NONE
    text = f"{100 * value:.0f} %"
    return "<1 %" if text == "0 %" and value > 0 else text


def interval(low: Sequence[str], high: Sequence[str]) -> list[str]:
    """Return the ends of intervals as texts."""
    pairs = zip(low, high, strict=True)
    return [NONE if NONE in (a, b) else f"{a} to {b}" for a, b in pairs]


def amount(value: float) -> str:
    """Return a number as short as three digits allow, for a tick: 0.25, 950, 12.5k."""
    for least, unit, name in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / unit:.3g}{name}".replace("-", MINUS)
    text = f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return text.replace("-", MINUS)


def _magnitude(value: float) -> int:
    return int(np.floor(np.log10(value))) if value > 0 else 0
