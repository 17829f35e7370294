"""Where the bars of a histogram stand: their areas, not their heights, are the counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbin._typing import FloatArray
from unbin.fitting.published import Published
from unbin.likelihood.data.counts import PublishedCounts, representative_values
from unbin.results.numbers import amount

_THINNEST = 0.02
"""Share of the axis that the narrowest bar must have on a plain scale."""
_HIGHEST = 1e5
"""People per unit of the outcome, at most, that are counted per unit."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars of one block, on an axis of their own.

    Attributes
    ----------
    left, right : (K,)
        In units of the axis: the outcome's, powers of two on a log axis, places without a scale.
    scale : (K,)
        Height of a person.
    place : (k,)
        Ticks, in units of the axis.
    labels : tuple of str
    people : str
        What the height counts.
    log : bool
    """

    left: FloatArray
    right: FloatArray
    scale: FloatArray
    place: FloatArray
    labels: tuple[str, ...]
    people: str
    log: bool = False

    @property
    def centre(self) -> FloatArray:
        """Where fitted counts are marked."""
        return (self.left + self.right) / 2


def bars_of(table: Published, b: int) -> Bars:
    """Return the bars of a block: densities, unless all bins are of the same width.

    An open bin ends where the mean of an exponential tail, which meets its neighbour, would be in
    the middle. Where the narrowest bin would be too thin, positive outcomes have a log axis, and
    others bars of equal width.
    """
    lower, upper = table.ends(b)
    labels = _holds(lower, upper) if table.whole else None
    if table.whole:
        lower, upper = lower - 0.5, upper + 0.5
    count = table.count.sum(axis=0) if table.shared() else table.count[b, table.valid()[b]]
    closed = upper - lower
    closed = closed[np.isfinite(closed)]
    if len(closed) == 0 or closed.min() <= 0:
        return _even(lower, upper, labels)
    if np.allclose(closed, closed[0], rtol=1e-6):
        left, right = _closed_by(lower, upper, closed[0], closed[0])
        return _bars(left, right, lower, upper, labels, closed[0], "people")
    left, right = _closed_by(lower, upper, *_tails(lower, upper, count))
    if closed.min() < _THINNEST * (right[-1] - left[0]):
        return _on_logs(lower, upper, labels)
    per = _per((count / (right - left)).max(), float(count.sum() / max(table.n[b], 1)))
    return _bars(
        left, right, lower, upper, labels, per, f"people per {'unit' if per == 1 else amount(per)}"
    )


def _bars(
    left: FloatArray,
    right: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    labels: Sequence[str] | None,
    per: float,
    people: str,
    *,
    log: bool = False,
) -> Bars:
    """Name whole numbers below their bars, edges of others where they are."""
    if labels is not None:
        place, named = (left + right) / 2, tuple(labels)
    else:
        known = np.append(np.isfinite(lower), np.isfinite(upper[-1]))
        place = np.append(left, right[-1])[known]
        named = tuple(map(amount, np.append(lower, upper[-1])[known]))
    return Bars(left, right, per / (right - left), place, named, people, log)


def _even(lower: FloatArray, upper: FloatArray, labels: Sequence[str] | None) -> Bars:
    left: FloatArray = np.arange(len(lower), dtype=np.float64) - 0.5
    return _bars(left, left + 1, lower, upper, labels, 1.0, "people")


def _on_logs(lower: FloatArray, upper: FloatArray, labels: Sequence[str] | None) -> Bars:
    """Return bars on a log axis, people per doubling; a first bin from 0 is open there."""
    first = lower.copy()
    first[0] = -np.inf if first[0] == 0 else first[0]
    edges = np.append(first, upper[-1])
    if (edges[np.isfinite(edges)] <= 0).any() or np.isfinite(edges).sum() < 2:
        return _even(lower, upper, labels)
    with np.errstate(invalid="ignore"):
        low, high = (np.where(np.isfinite(e), np.log2(np.abs(e)), e) for e in (first, upper))
    inner = (high - low)[np.isfinite(high - low)]
    tail = float(np.median(inner))
    left, right = _closed_by(low, high, tail, tail)
    return _bars(left, right, first, upper, labels, 1.0, "people per doubling", log=True)


def _closed_by(
    lower: FloatArray, upper: FloatArray, below: float, above: float
) -> tuple[FloatArray, FloatArray]:
    """Close open ends at a distance from the edge of their bin."""
    left = np.where(np.isneginf(lower), upper - below, lower)
    return left, np.where(np.isposinf(upper), lower + above, upper)


def _tails(lower: FloatArray, upper: FloatArray, count: FloatArray) -> tuple[float, float]:
    """Return how wide the first and the last bin are drawn, where they are open."""
    known = np.ones(1, dtype=bool)
    n = np.array([max(int(count.sum()), 1)])
    value = representative_values(PublishedCounts(n, lower, upper, count[None], known))[0]
    return 2 * float(upper[0] - value[0]), 2 * float(value[-1] - lower[-1])


def _per(densest: float, blocks: float) -> float:
    """Return the power of ten per which people are counted: 1 where heights are then readable."""
    height = max(densest / max(blocks, 1.0), 1e-300)
    return 1.0 if 1 <= height <= _HIGHEST else float(10.0 ** np.ceil(-np.log10(height)))


def _holds(lower: FloatArray, upper: FloatArray) -> list[str]:
    """Return the whole numbers that each bar holds."""
    return [_whole(low, high) for low, high in zip(lower, upper, strict=True)]


def _whole(low: float, high: float) -> str:
    if low == high:
        return amount(low)
    if np.isinf(high):
        return f"{amount(low)}+"
    return f"≤{amount(high)}" if np.isinf(low) else f"{amount(low)}–{amount(high)}"
