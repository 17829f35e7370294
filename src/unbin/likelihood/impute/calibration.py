"""Rows that stand for as many people as tables count.

Weights of a sample, or ones that are not whole, add up to about the people of a block. With one
table they are multiplied by what is missing; with several they are raked to the blocks of all, as
survey weights are calibrated. Each table is then met as it was published, and tables that agree
with each other do so for the rows too.

References
----------
Deville, J.-C. and Särndal, C.-E. (1992). Calibration estimators in survey sampling. *Journal of the
American Statistical Association*, 87, 376-382.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unbin._typing import FloatArray, IntArray
from unbin.likelihood.data.counts import PublishedCounts

_SWEEPS = 500
_TOL = 1e-12
"""Share of a block's people by which a sweep may still change them."""


def calibrate(
    people: FloatArray, codes: Sequence[IntArray], tables: Sequence[PublishedCounts]
) -> FloatArray:
    """Return weights that add up to the people of every block with counts, as far as that can be.

    Parameters
    ----------
    people : (n,)
        Those that each row stands for, above 0.
    codes : sequence of (n,)
        The block of each row in every table.
    tables : sequence of PublishedCounts
    """
    for _ in range(_SWEEPS):
        largest = 0.0
        for code, counts in zip(codes, tables, strict=True):
            here = np.bincount(code, people, len(counts.n))
            told = counts.known & (here > 0)
            ratio = np.where(told, counts.n / np.where(told, here, 1.0), 1.0)
            if (ratio != 1).any():
                people = people * ratio[code]
            largest = max(largest, float(np.abs(ratio - 1).max(initial=0.0)))
        if largest <= _TOL:
            break
    return people


def for_people(people: FloatArray, codes: IntArray, counts: PublishedCounts) -> PublishedCounts:
    """Return counts of just as many people as the rows of each block stand for."""
    here: Any = np.bincount(codes, people, len(counts.n))
    off = np.abs(here - counts.n) > 2 * _TOL * counts.n
    if not off.any():
        return counts
    here = np.where(off, here, counts.n)
    ratio = (here / counts.n)[:, None]
    low, high = (None if each is None else each * ratio for each in (counts.low, counts.high))
    return replace(counts, n=here, count=counts.count * ratio, low=low, high=high)
