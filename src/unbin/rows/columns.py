"""Sums and squares of the columns of X, in one pass over its rows as they come.

They say whether its numbers can be computed with, and how columns are standardised.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbin._compiling import njit
from unbin._typing import BoolArray, FloatArray
from unbin.rows.parts import LocalParts
from unbin.rows.rows import LARGE

_TILE_ROWS = 1 << 15
"""Rows that a thread looks at at a time."""
_FIRST_ROWS = 1 << 12
"""Rows whose mean sums are made about: they lose no digits then."""
_WIDTH = 128
"""Numbers added at a time, about."""
_CONSTANT = 1e-12
"""A column whose spread is at most this share of its mean carries nothing beside the intercept."""


@dataclass(frozen=True, slots=True)
class Standard:
    """How columns are standardised.

    Attributes
    ----------
    center, scale : (d,)
        What is subtracted and divided by.
    varies : (d,) bool
        Columns that are not constant; the others become zeros.
    """

    center: FloatArray
    scale: FloatArray
    varies: BoolArray

    @property
    def factor(self) -> FloatArray:
        """What columns are multiplied by once they are centred."""
        return np.where(self.varies, 1.0 / self.scale, 0.0)


@dataclass(frozen=True, slots=True)
class ColumnSums:
    """Sums over the rows of X.

    Attributes
    ----------
    people : float
        Rows, or what these stand for.
    about : (d,)
        What sums are about.
    total, square : (d,)
        Σ (x - about) and Σ (x - about)².
    """

    people: float
    about: FloatArray
    total: FloatArray
    square: FloatArray

    def within(self, largest: float) -> bool:
        """Tell whether all numbers are certain to be finite and at most so large, at least 4."""
        sums = np.concatenate([self.about, self.total, self.square])
        return bool((np.abs(sums) <= largest / 2).all())

    def standard(self, *, fit_intercept: bool) -> Standard:
        """Return how columns are standardised: about their means, or with no intercept about 0."""
        shift = self.total / self.people
        mean = self.about + shift
        variance = np.maximum(self.square / self.people - shift**2, 0.0)
        center = mean if fit_intercept else np.zeros(len(mean))
        spread = np.sqrt(variance if fit_intercept else variance + mean**2)
        varies = spread > _CONSTANT * np.abs(center)
        return Standard(center, np.where(varies, spread, 1.0), varies)


def column_sums(X: FloatArray, *, weights: FloatArray | None, n_threads: int) -> ColumnSums:
    """Return the sums of the columns of X, rows counted ``weights`` (n,) times."""
    with np.errstate(over="ignore", invalid="ignore"):
        about = X[:_FIRST_ROWS].mean(axis=0)
    tiles = [slice(low, low + _TILE_ROWS) for low in range(0, len(X), _TILE_ROWS)]
    people, total, square = LocalParts(tiles, n_threads).total(_sums, X, weights, about)
    return ColumnSums(people, about, total, square)


def _sums(
    tile: slice, X: FloatArray, weights: FloatArray | None, about: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    part = X[tile]
    if weights is None and X.size >= LARGE and X.flags.c_contiguous:
        return float(len(part)), *_sums_of_many(part, about)
    people = None if weights is None else weights[tile]
    with np.errstate(over="ignore", invalid="ignore"):
        apart = part - about
        if people is None:
            return float(len(part)), apart.sum(axis=0), np.einsum("ij,ij->j", apart, apart)
        return float(people.sum()), people @ apart, people @ (apart * apart)


def _sums_of_many(X: FloatArray, about: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return sums and squares of columns, several rows worked on as if they were one.

    That keeps a processor busy.
    """
    n, d = X.shape
    group = -(-_WIDTH // d)
    left = n - n % group
    sums = np.zeros((2, group * d))
    _add_sums(X[:left].ravel(), np.tile(about, group), *sums)
    once, twice = sums.reshape(2, group, d).sum(axis=1)
    _add_sums(X[left:].ravel(), about, once, twice)
    return once, twice


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _add_sums(values, about, once, twice):  # type: ignore[no-untyped-def]
    """Add numbers about a value and their squares, in rows as wide as ``about``."""
    n = len(about)
    for first in range(0, len(values), n):
        row = values[first : first + n]
        for k in range(n):
            apart = row[k] - about[k]
            once[k] += apart
            twice[k] += apart * apart
