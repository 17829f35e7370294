"""Rows of X as the kernels see them: block by block, column-major, columns standardised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from unbin._typing import FloatArray, IntArray, KeyArray
from unbin.rows.keys import Keys

Sums = TypeVar("Sums")

LARGE = 1 << 18
"""Numbers of a matrix whose sums are worth compiling for."""
_TILE_ROWS = 1 << 15
"""Rows worked on at a time: a tile of the rows and its temporaries stay in the cache."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of some people, those of a block side by side.

    With ``theta = [intercept, slopes]`` (no first entry without an intercept),
    eta = intercept + matrix @ slopes + offset.

    Attributes
    ----------
    matrix : (n, d), column-major
    offset : (n,)
        Zeros when there is none, which take no memory (:func:`no_offset`).
    key : (n,) uint64, or Keys
        A hash of each row's features, to rank rows with equal means without looking at their
        place in X.
    blocks : (b,)
        The blocks that have rows here, in increasing order.
    start : (b + 1,)
        Rows of block ``blocks[j]`` are ``start[j]:start[j + 1]``.
    fit_intercept : bool
    place : int
        Rows of other parts that lie before these.
    others : tuple of (n,)
        The block of each row in further partitions of the same people.
    weights : (n,) or None
        People that each row stands for; None where it is one.
    sampled : bool
        Whether the rows are a sample of the people, and their weights those of a survey.
    """

    matrix: FloatArray
    offset: FloatArray
    key: KeyArray | Keys
    blocks: IntArray
    start: IntArray
    fit_intercept: bool
    place: int = 0
    others: tuple[IntArray, ...] = ()
    weights: FloatArray | None = None
    sampled: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        known = replace(self, key=np.asarray(self.key))
        return _received, tuple(getattr(known, field.name) for field in fields(self))

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def span(self) -> slice:
        """The blocks as a slice, where they follow each other."""
        return slice(int(self.blocks[0]), int(self.blocks[-1]) + 1)

    def eta(self, theta: FloatArray, rows: slice = slice(None)) -> FloatArray:
        """Return the linear predictor of some rows."""
        eta = self.matrix[rows] @ theta[self.fit_intercept :]
        eta += self.offset[rows]
        if self.fit_intercept:
            eta += theta[0]
        return np.asarray(eta)

    def gradient(self, residual: FloatArray, rows: slice = slice(None)) -> FloatArray:
        """Return the derivative of ``residual @ eta`` with respect to theta."""
        slopes = self.matrix[rows].T @ residual
        return np.concatenate([[residual.sum()], slopes]) if self.fit_intercept else slopes

    def offset_or_none(self) -> FloatArray:
        """Return the offset; nothing where there is none."""
        return self.offset if self.offset.strides[0] else np.empty(0)

    def known_key(self) -> KeyArray:
        """Return the keys; nothing where nobody needed them so far."""
        return self.key.known if isinstance(self.key, Keys) else self.key

    def tiles(self, size: int = _TILE_ROWS) -> list[slice]:
        """Return all rows in tiles of bounded size, wherever the blocks end."""
        return [slice(low, min(low + size, len(self))) for low in range(0, len(self), size)]

    def codes(self, rows: slice) -> IntArray:
        """Return the block of each row of a slice."""
        first = int(np.searchsorted(self.start, rows.start, side="right")) - 1
        last = int(np.searchsorted(self.start, rows.stop, side="left"))
        edges = np.clip(self.start[first : last + 1], rows.start, rows.stop)
        return np.repeat(self.blocks[first:last], np.diff(edges))

    def take(self, first: int, last: int, rows: slice) -> Rows:
        """Return the slice ``rows``, which lies in the blocks ``first`` to ``last - 1`` here."""
        start = np.clip(self.start[first : last + 1], rows.start, rows.stop) - rows.start
        return replace(
            self,
            matrix=self.matrix[rows],
            offset=self.offset[rows],
            key=self.key[rows],
            blocks=self.blocks[first:last],
            start=start,
            place=self.place + rows.start,
            others=tuple(codes[rows] for codes in self.others),
            weights=None if self.weights is None else self.weights[rows],
        )

    def at(self, place: int) -> Rows:
        """Return the same rows, ``place`` rows of other parts before them."""
        return replace(self, place=place)

    def in_units(self, level: float, slope: float) -> Rows:
        """Return the same rows for a linear predictor less ``level``, divided by ``slope``."""
        return replace(self, offset=(self.offset - level) / slope)

    def people(self, rows: slice = slice(None)) -> FloatArray:
        """Return the people that some rows stand for; nothing where each stands for one."""
        return np.empty(0) if self.weights is None else self.weights[rows]

    def weighed(self, values: FloatArray, rows: slice = slice(None)) -> FloatArray:
        """Multiply values (n, …) of some rows by the people these stand for."""
        if self.weights is None:
            return values
        people = self.weights[rows]
        return np.asarray(people.reshape(-1, *[1] * (values.ndim - 1)) * values)

    def sums(self, values: FloatArray) -> FloatArray:
        """Add up values within each block here, those of a row as often as it stands for people."""
        return np.add.reduceat(self.weighed(values), self.start[:-1], axis=0)


@dataclass(frozen=True, slots=True)
class Predictor:
    """The linear predictor of rows in memory, worked out for those that are asked for."""

    rows: Rows
    theta: FloatArray

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: slice) -> FloatArray:
        return self.rows.eta(self.theta, rows)


def kernel(function: Callable[..., Sums]) -> Callable[..., Sums]:
    """Let rows of another kind make a sum their own way: by a method of the function's name.

    The function itself is for rows in memory (:class:`Rows`), and for all others
    that have no such method.
    """
    name = function.__name__

    @wraps(function)
    def sums(rows: Any, *args: Any) -> Sums:
        own = getattr(rows, name, None)
        return function(rows, *args) if own is None else own(*args)

    return sums


def _received(matrix: FloatArray, *rest: Any) -> Rows:
    """Rebuild rows that came from another process.

    Arrays may arrive anywhere in memory, and BLAS rounds differently there: the last bits of sums
    would depend on which process made them.
    """
    return Rows(aligned_copy(matrix), *rest)


def no_offset(n: int) -> FloatArray:
    """Return n zeros, all in the place of one."""
    return np.broadcast_to(np.zeros(1), n)


def aligned_copy(matrix: FloatArray) -> FloatArray:
    """Return a matrix column-major, at an address that is a multiple of 64."""
    copy = aligned_empty(matrix.shape)
    copy[:] = matrix
    return copy


def aligned_empty(shape: tuple[int, ...]) -> FloatArray:
    """Return an uninitialised column-major matrix, every column at a multiple of 64 bytes.

    Columns never adjoin, in all rows or in some, so that kernels are compiled for one layout.
    """
    n, d = shape
    step = -(-n // 8) * 8 + 8
    space = np.empty(step * d + 8)
    skip = -space.ctypes.data % 64 // 8
    return np.asarray(space[skip : skip + step * d].reshape(d, step)[:, :n].T)


def flat_columns(matrix: FloatArray) -> tuple[FloatArray, int, int]:
    """Return the memory that holds a column-major matrix, its first column's place, and the step.

    Compiled loops over a part of a one-dimensional array work on several numbers at a time; of a
    column of some rows of a matrix they do not know that it has no gaps.
    """
    if matrix.size == 0:
        return np.empty(0), 0, 0
    memory = matrix.base
    if memory is None or memory.ndim != 1 or matrix.strides[0] != 8:
        return flat_columns(aligned_copy(matrix))
    at, begin = (array.__array_interface__["data"][0] for array in (matrix, memory))
    return memory, (at - begin) // 8, matrix.strides[1] // 8
