"""Rows of X laid out for the kernels: block by block, column-major, columns standardised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from unbin._compiling import njit
from unbin._typing import FloatArray, IntArray, KeyArray
from unbin.rows.parts import LocalParts

Sums = TypeVar("Sums")

_TILE_ROWS = 1 << 15
"""Rows worked on at a time: a tile of the rows and its temporaries stay in the cache."""
_HASH_START = np.uint64(14695981039346656037)
_GATHER_ROWS = 1 << 12
"""Rows copied at a time, so that turning them column-major stays in the cache."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of some people, those of a block side by side.

    With ``theta = [intercept, slopes]`` (no first entry without an intercept),
    eta = intercept + matrix @ slopes + offset.

    Attributes
    ----------
    matrix : (n, d), column-major
    offset : (n,)
        Zeros when there is none.
    key : (n,) uint64
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
    key: KeyArray
    blocks: IntArray
    start: IntArray
    fit_intercept: bool
    place: int = 0
    others: tuple[IntArray, ...] = ()
    weights: FloatArray | None = None
    sampled: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        values = tuple(getattr(self, field.name) for field in fields(self))
        return _received, values

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


def arrange(
    X: FloatArray,
    codes: IntArray,
    *,
    offset: FloatArray | None = None,
    fit_intercept: bool = True,
    seed: int = 0,
    n_threads: int = 1,
    others: tuple[IntArray, ...] = (),
    weights: FloatArray | None = None,
    sampled: bool = False,
) -> tuple[Rows, IntArray]:
    """Copy X once, block by block, columns as they are.

    Parameters
    ----------
    X : (n, d)
    codes : (n,)
        Block of each row, from 0 on.
    offset : (n,), optional
    fit_intercept : bool
    seed : int
        Changes how ties are broken.
    n_threads : int
    others : tuple of (n,)
        The block of each row in further partitions.
    weights, sampled
        See :class:`Rows`.

    Returns
    -------
    rows : Rows
    order : (n,)
        The row of X at each place.
    """
    n, d = X.shape
    size = np.bincount(codes)
    blocks = np.flatnonzero(size)
    start = np.concatenate([[0], np.cumsum(size[blocks])])
    order = _stable_order(codes, len(size))
    matrix = aligned_empty((n, d))
    key = np.empty(n, dtype=np.uint64)
    in_order = bool((codes[1:] >= codes[:-1]).all())

    def gather(first: int) -> None:
        last = min(first + _TILE_ROWS, n)
        for low in range(first, last, _GATHER_ROWS):
            here = slice(low, min(low + _GATHER_ROWS, last))
            if in_order:
                rows = X[here]
            else:  # take is twice as fast, but copies all of a column-major X first, each time
                rows = np.take(X, order[here], axis=0) if X.flags.c_contiguous else X[order[here]]
            matrix[here] = rows
            words = np.ascontiguousarray(rows + 0.0).view(np.uint64)  # -0.0 becomes 0.0
            _hash_rows(words, np.uint64(seed), key[here])

    for _ in LocalParts(range(0, n, _TILE_ROWS), n_threads).stream(gather):
        pass
    laid_out = np.zeros(n) if offset is None else offset[order]
    further = _in_order(others, order)
    people = None if weights is None else weights[order]
    start_at = blocks, start, fit_intercept, 0
    return Rows(matrix, laid_out, key, *start_at, further, people, sampled), order


def arrange_columns(
    columns: Sequence[FloatArray],
    codes: IntArray,
    center: FloatArray,
    scale: FloatArray,
    *,
    offset: FloatArray | None = None,
    fit_intercept: bool = True,
    seed: int = 0,
    others: tuple[IntArray, ...] = (),
    weights: FloatArray | None = None,
    sampled: bool = False,
) -> Rows:
    """Lay columns out block by block, standardised; a scale of infinity makes a column 0.

    The same rows, with the same keys, as :func:`arrange` makes from a matrix.
    """
    size = np.bincount(codes)
    blocks = np.flatnonzero(size)
    start = np.concatenate([[0], np.cumsum(size[blocks])])
    order = _stable_order(codes, len(size))
    matrix = aligned_empty((len(codes), len(columns)))
    key = np.full(len(codes), _HASH_START ^ np.uint64(seed), dtype=np.uint64)
    for j, values in enumerate(columns):
        _place_column(values, order, center[j], scale[j], matrix[:, j], key)
    laid_out = np.zeros(len(codes)) if offset is None else offset[order]
    further = _in_order(others, order)
    people = None if weights is None else weights[order]
    return Rows(matrix, laid_out, key, blocks, start, fit_intercept, 0, further, people, sampled)


def _in_order(others: tuple[IntArray, ...], order: IntArray) -> tuple[IntArray, ...]:
    """Return codes in the order of the rows, in 32 bits: there may be many partitions."""
    found: tuple[Any, ...] = tuple(codes.astype(np.int32)[order] for codes in others)
    return found


def _stable_order(codes: IntArray, n_codes: int) -> IntArray:
    # a stable sort of 16-bit codes is a radix sort
    small = codes.astype(np.uint16) if n_codes <= 1 << 16 else codes
    return np.argsort(small, kind="stable")


@njit(cache=True, nogil=True)
def _place_column(values, order, center, scale, out, key):  # type: ignore[no-untyped-def]
    """Write a column in another order, standardised, and mix it into the hash of its rows."""
    word = np.empty(1)
    bits = word.view(np.uint64)
    for i in range(len(order)):
        word[0] = values[order[i]] + 0.0  # -0.0 becomes 0.0
        key[i] = mixed(key[i], bits[0])
        out[i] = (word[0] - center) / scale


@njit(cache=True, nogil=True, inline="always")
def mixed(h, word):  # type: ignore[no-untyped-def]
    """Mix a word into a hash (FNV-1a on 64-bit words, mixed once per word)."""
    h = (h ^ word) * np.uint64(1099511628211)
    return h ^ (h >> np.uint64(29))


@njit(cache=True, nogil=True)
def _hash_rows(words, seed, out):  # type: ignore[no-untyped-def]
    """Hash the bits of each row."""
    for i in range(words.shape[0]):
        h = _HASH_START ^ seed
        for j in range(words.shape[1]):
            h = mixed(h, words[i, j])
        out[i] = h
