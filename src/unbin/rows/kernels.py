"""Sums over rows that are asked for by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Sums = TypeVar("Sums")


def kernel(function: Callable[..., Sums]) -> Callable[..., Sums]:
    """Let rows of another kind make a sum their own way: by a method of the function's name.

    The function itself is for rows in memory (:class:`unbin.rows.rows.Rows`), and for all others
    that have no such method.
    """
    name = function.__name__

    @wraps(function)
    def sums(rows: Any, *args: Any) -> Sums:
        own = getattr(rows, name, None)
        return function(rows, *args) if own is None else own(*args)

    return sums
