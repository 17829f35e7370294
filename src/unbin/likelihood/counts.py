"""Counts of people in a partition of the family's domain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbin._typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class PublishedCounts:
    """Counts of people in a partition of the domain, block by block.

    Attributes
    ----------
    n : (B,)
        People in each block.
    lower, upper : (K,) when all blocks share their bins, else (B, K)
        Ends of the bins; for an integer domain the smallest and the largest integer a bin holds.
        A bin with ``lower > upper`` is padding.
    count : (B, K)
        Published counts; 0 in padding.
    known : (B,) bool
        Blocks that have published counts. The others have their people in the first bin and are
        left out of every sum.
    low, high : (B, K) or None
        The intervals of suppressed and rounded counts; None when all counts are exact.
    whole : bool
        Whether targets look like counts 0, 1, 2, … although the family has no domain (ordinal).
    """

    n: IntArray
    lower: FloatArray
    upper: FloatArray
    count: FloatArray
    known: BoolArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    whole: bool = False

    @property
    def shared(self) -> bool:
        """Whether all blocks have the same bins."""
        return self.lower.ndim == 1

    @property
    def n_bins(self) -> int:
        """Bins of a block, padding included."""
        return int(self.count.shape[1])

    @property
    def informative(self) -> bool:
        """Whether any block has counts in more than one bin."""
        return self.n_bins > 1 and bool(self.known.any())

    def edges(self, codes: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the bin ends for rows of the given blocks, ready for ``Family.bins``."""
        if self.shared:
            return self.lower, self.upper
        return self.lower[codes], self.upper[codes]

    def valid(self) -> BoolArray:
        """Mark the bins that are not padding, shape (B, K)."""
        real = np.broadcast_to(self.lower <= self.upper, self.count.shape)
        return np.asarray(real & self.known[:, None])

    def log_score(self, expected: FloatArray) -> float:
        """Return Σ c log(m / n) per person of the blocks with counts, m (B, K) expected counts."""
        share = np.maximum(expected, 1e-300) / self.n[:, None]
        total = np.where(self.valid(), self.count * np.log(share), 0.0).sum()
        return float(total / max(int(self.n[self.known].sum()), 1))
