"""The estimator's parameters, checked."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from unbin.exceptions import ParameterError


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(
            f"{name}: unknown, got {value!r}; use one of {', '.join(map(repr, choices))}"
        )
    return value


LARGEST = 1e50
"""The largest number that is computed with: squares of it, summed and multiplied, stay finite."""


def check_number(name: str, value: Any, *, low: float, open_low: bool = False) -> float:
    """Return a number that is at least (or above) ``low``, and not beyond ``LARGEST``."""
    is_number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    number = float(value) if is_number else float("nan")
    if not np.isfinite(number) or number < low or (open_low and number == low):
        bound = "above" if open_low else "at least"
        raise ParameterError(
            f"{name}: must be a finite number, got {value!r}; pass a number {bound} {low:g}"
        )
    if number > LARGEST:
        raise ParameterError(
            f"{name}: must be at most {LARGEST:g}, got {value!r}; pass a smaller number"
        )
    return number


def check_share(name: str, value: Any) -> float:
    """Return a number between 0 and 1, neither of them."""
    share = check_number(name, value, low=0.0, open_low=True)
    if share >= 1:
        raise ParameterError(
            f"{name}: must lie between 0 and 1, got {value!r}; pass for example 0.95"
        )
    return share


def check_whole(name: str, value: Any, *, low: int) -> int:
    """Return a whole number that is at least ``low``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise ParameterError(f"{name}: must be a whole number, got {value!r}; pass {low} or more")
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name}: must be a bool, got {value!r}; pass True or False")
    return bool(value)
