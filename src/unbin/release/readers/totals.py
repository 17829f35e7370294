"""Blocks that are totals of other blocks, by name and by arithmetic.

A block that counts in every bin what others count together is a total, unless the counts are so
small that this may be chance: bins with counts t agree by chance about once in Π √(2 π t + 1)
comparisons.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from unbin._typing import BoolArray, FloatArray, IntArray

CHANCE = 0.01
"""A sum that chance meets more seldom than this is a total."""
_NAMES = re.compile(
    r"(?:grand |overall )?totals?|all|overall|.+[ ,:-]total|"
    r"all (?:areas|places|blocks|people|persons|counties|states|regions|countries|hospitals|"
    r"providers|practices|organisations|months|years)",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of blocks over the same bins, in the order of the file.

    Attributes
    ----------
    low, high : (B, K)
        The least and the most people of each cell; infinite where nothing bounds them.
    """

    low: FloatArray
    high: FloatArray

    def take(self, keep: BoolArray) -> Counts:
        """Return some of the blocks."""
        return Counts(self.low[keep], self.high[keep])


def named_total(name: str) -> bool:
    """Tell whether the name of a block says that it is a total.

    Examples
    --------
    >>> [named_total(name) for name in ("Total", "Alabama total", "Total Care Clinic")]
    [True, True, False]
    """
    return _NAMES.fullmatch(name.strip(" :.*")) is not None


def find_totals(counts: Counts) -> tuple[BoolArray, BoolArray]:
    """Return blocks that are totals of others, and blocks that may be.

    A block is compared with all others together, and with the runs of blocks just before and just
    after it, as files list counties below their state. Totals of totals are found in turn.
    """
    sure, unsure = np.zeros((2, len(counts.low)), dtype=bool)
    while True:
        left = np.flatnonzero(~sure)
        some, few = _one_level(counts.take(~sure))
        if not some.any():
            unsure[left] = few
            return sure, unsure
        sure[left[some]] = True


def _one_level(counts: Counts) -> tuple[BoolArray, BoolArray]:
    filled = counts.high.sum(axis=1) > 0
    if filled.sum() < 3:
        return np.zeros_like(filled), np.zeros_like(filled)
    certain = _evidence(counts) > np.log(2 * len(filled) / CHANCE)
    whole = _matches_rest(counts) & (counts.low.sum(axis=1) > 0)
    sure = whole & certain
    if not sure.any() and (counts.low == counts.high).all():
        sure = _matches_run(counts.low.astype(np.int64)) & certain
    return sure, whole & ~sure


def _matches_rest(counts: Counts) -> BoolArray:
    """Mark blocks that may count what all others count together."""
    with np.errstate(invalid="ignore"):
        low = counts.low.sum(axis=0) - counts.low
        high = counts.high.sum(axis=0) - counts.high
        return np.asarray(((counts.low <= high) & (counts.high >= low)).all(axis=1))


def _evidence(counts: Counts) -> FloatArray:
    """Return the log of how many comparisons it takes to meet a sum by chance."""
    width = (counts.high - counts.low).sum(axis=0) + 1.0
    apart = np.sqrt(2.0 * np.pi * counts.low + 1.0) / width
    return np.asarray(np.log(np.maximum(apart, 1.0)).sum(axis=1))


def _matches_run(count: IntArray) -> BoolArray:
    """Mark blocks that are the sum of two or more blocks just before or just after them."""
    filled = count.sum(axis=1) > 0
    # all bins in one number: a random sum, modulo 2**64, that other counts do not have
    weight = np.random.default_rng(0).integers(1, 2**63, size=count.shape[1], dtype=np.uint64)
    key = (count.astype(np.uint64) * weight).sum(axis=1, dtype=np.uint64)
    nothing = np.zeros(1, dtype=np.uint64)
    until = np.concatenate([nothing, np.cumsum(key, dtype=np.uint64)])
    n_until = np.concatenate([[0], np.cumsum(filled)])
    order = np.argsort(until, kind="stable")
    ranked = until[order]

    def places(wanted: IntArray, side: str) -> tuple[IntArray, BoolArray]:
        """Return how many blocks make a sum, the fewest or the most, and whether any do."""
        place = np.searchsorted(ranked, wanted, side=side) - (side == "right")  # type: ignore[call-overload]
        place = np.clip(place, 0, len(ranked) - 1)
        return order[place], ranked[place] == wanted

    stop, after = places(until[1:] + key, "right")
    start, before = places(until[:-1] - key, "left")
    after &= n_until[stop] - n_until[1:] >= 2
    before &= n_until[:-1] - n_until[start] >= 2
    return np.asarray((after | before) & filled)
