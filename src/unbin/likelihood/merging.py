"""Merge the far bins that a fitted model all but rules out.

Under tails heavier than the family's a far bin may hold people although its expected count over
all blocks is 1e-6; each of them would add a million to the misfit and decide the sandwich. What is
left after merging still shows the heavy tail, on a scale that can be read.
"""

from __future__ import annotations

import numpy as np

from unbin._typing import FloatArray
from unbin.likelihood.counts import PublishedCounts

_SMALLEST = 5.0
"""Expected people of all blocks that a far bin needs to stand alone."""


def merge_unlikely(counts: PublishedCounts, expected: FloatArray) -> PublishedCounts | None:
    """Merge far bins with an expected count below 5 over all blocks into their neighbours.

    Bins that differ between blocks are left alone, and two bins always remain.

    Parameters
    ----------
    counts : PublishedCounts
    expected : (B, K)

    Returns
    -------
    PublishedCounts or None
        None when nothing needs merging.
    """
    if not counts.shared or counts.n_bins <= 2:
        return None
    pooled = expected[counts.known].sum(axis=0)
    first = int(np.searchsorted(np.cumsum(pooled), _SMALLEST))
    last = counts.n_bins - 1 - int(np.searchsorted(np.cumsum(pooled[::-1]), _SMALLEST))
    if last <= first or (first == 0 and last == counts.n_bins - 1):
        return None
    edges = np.arange(first, last + 1)
    starts = np.concatenate([[0], edges[1:]])
    upper = np.concatenate([counts.upper[edges[:-1]], counts.upper[-1:]])
    count, low, high = (
        None if values is None else np.add.reduceat(values, starts, axis=1)
        for values in (counts.count, counts.low, counts.high)
    )
    assert count is not None
    return PublishedCounts(counts.n, counts.lower[starts], upper, count, counts.known, low, high)
