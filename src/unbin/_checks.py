"""Settings of estimators and functions, checked, also against what this machine has."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from unbin.exceptions import MissingPackageError, ParameterError

T = TypeVar("T")


def check_package(name: str, package: str, extra: str) -> None:
    """Raise if a package is absent that comes with an extra; call it before any long work."""
    if find_spec(package) is None:
        raise MissingPackageError(
            f"{name}: needs {package}, got none; pip install 'unbin[{extra}]'"
        )


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(
            f"{name}: unknown, got {value!r}; use one of {', '.join(map(repr, choices))}"
        )
    return value


def check_choices(name: str, values: Any, choices: tuple[str, ...]) -> tuple[str, ...]:
    """Return some of ``choices``; a single one may stand alone."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        values = (values,)
    return tuple(check_choice(name, value, choices) for value in values)


_MATRICES = 4
"""Cross-product matrices of all columns that a fit holds at the same time, at least."""

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


def check_kind(name: str, value: Any, kind: type[T], *, instead: str) -> T:
    """Return an object of class ``kind``; ``instead`` says what to pass where it is another."""
    if not isinstance(value, kind):
        got = value.__name__ + ", the class" if isinstance(value, type) else type(value).__name__
        raise ParameterError(f"{name}: must be of class {kind.__name__}, got {got}; pass {instead}")
    return value


def check_path(name: str, value: Any) -> Path:
    """Return the path of a file."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        got = repr(value) if isinstance(value, str | bytes) else type(value).__name__
        raise ParameterError(f"{name}: must be the path of a file, got {got}; pass text or a Path")
    return Path(text)


def check_texts(name: str, value: Any) -> dict[str, str]:
    """Return texts by name."""
    good = isinstance(value, Mapping) and all(
        isinstance(item, str) for pair in value.items() for item in pair
    )
    if not good:
        raise ParameterError(
            f"{name}: must be texts by name, got {value!r}; pass for example "
            "{'people.csv': 'its SHA-256'}"
        )
    return dict(value)


def check_generator(random_state: Any) -> np.random.Generator:
    """Return random numbers from a seed, or from numpy's own kinds of sources."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ParameterError(
            f"random_state: must be a seed, got {random_state!r}; pass a whole number of at least "
            "0, or None"
        ) from None


def value_or_auto(name: str, value: Any, check: Callable[[str, Any], Any]) -> Any:
    """Return the checked value, or None where it is to be chosen."""
    return None if isinstance(value, str) and value == "auto" else check(name, value)


def path_or_none(name: str, path: Any) -> str | None:
    """Return a path as text, or None."""
    return None if path is None else str(check_path(name, path))


# -- what this machine has -------------------------------------------------------------------------


def machine_memory() -> int:
    """Return the bytes of memory this machine has; 0 where that is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def available_threads() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_threads(n_jobs: Any) -> int:
    """Return the number of threads that ``n_jobs`` asks for."""
    if n_jobs is None or (isinstance(n_jobs, Integral) and n_jobs == -1):
        return available_threads()
    return check_whole("n_jobs", n_jobs, low=1)


def check_width(n_columns: int) -> None:
    """Raise if the cross-products of all columns do not fit into memory."""
    room = machine_memory()
    need = _MATRICES * 8 * n_columns**2
    if 0 < room < need:
        raise ParameterError(
            f"X: {n_columns:,} columns take about {need / 2**30:,.0f} GiB of memory, this machine "
            f"has {room / 2**30:,.0f}; at most {int(np.sqrt(room / (8 * _MATRICES))):,} fit, use "
            "fewer"
        )
