"""Hashes of rows: what ranks people of equal mean, and finds those who are the same.

A hash depends on a row's features and not on its place in X.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from unbin._compiling import njit
from unbin._typing import FloatArray, IntArray, KeyArray

HASH_START = np.uint64(14695981039346656037)
_ROWS = 1 << 12
"""Rows whose bits are looked at at a time."""


class Keys:
    """The hashes of some rows of X, made when somebody asks for them: ties are rare.

    NumPy takes them for an array.

    Parameters
    ----------
    X : (m, d)
    order : (n,)
        The rows of X that are meant.
    seed : int
        Changes how ties are broken.
    """

    __slots__ = ("X", "known", "order", "seed")

    def __init__(self, X: FloatArray, order: IntArray, seed: int) -> None:
        self.X, self.order, self.seed = X, order, seed
        self.known: KeyArray = np.empty(0, np.uint64)

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, rows: Any) -> KeyArray | Keys:
        if len(self.known):
            return np.asarray(self.known[rows])
        some = Keys(self.X, self.order[rows], self.seed)
        return some if isinstance(rows, slice) else np.asarray(some)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> KeyArray:
        if not len(self.known):
            key = np.empty(len(self), np.uint64)
            for low in range(0, len(key), _ROWS):
                here = slice(low, low + _ROWS)
                rows = np.ascontiguousarray(self.X[self.order[here]] + 0.0)  # -0.0 becomes 0.0
                first = np.full(len(rows), HASH_START ^ np.uint64(self.seed))
                key[here] = reduce(mixed.py_func, rows.view(np.uint64).T, first)
            self.known = key
        return self.known if dtype is None else self.known.astype(dtype)


@njit(cache=True, nogil=True, inline="always")
def mixed(h, word):  # type: ignore[no-untyped-def]
    """Mix a word into a hash (FNV-1a on 64-bit words, mixed once per word)."""
    h = (h ^ word) * np.uint64(1099511628211)
    return h ^ (h >> np.uint64(29))
