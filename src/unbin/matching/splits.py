"""Counts known only as intervals: the best split of a block's ranks among its bins.

Given the sorted means of a block, bins take ranks from left to right. With C_k(r) the divergence of
the r smallest means clipped to bin k, the best counts c_k within [low_k, high_k] that add up to the
block solve

    f_k(r) = min over c of f_(k-1)(r - c) + C_k(r) - C_k(r - c),     low_k ≤ c ≤ high_k,

from the first bin to the last: dynamic programming over the ranks at which bin k may end. Together
with Lemma 3 of the paper this is the exact minimum over all targets that satisfy the release.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unbin._compiling import njit
from unbin._typing import FloatArray, IntArray
from unbin.families import BregmanFamily
from unbin.matching.bounds import RankBounds


def best_split(
    mean: FloatArray, bounds: RankBounds, family: BregmanFamily, eta: FloatArray, order: IntArray
) -> RankBounds:
    """Return the bounds with the cut ranks at which the divergence is smallest.

    Parameters
    ----------
    mean, eta : (n,)
    bounds : RankBounds
        With ``count_low`` and ``count_high``.
    family : BregmanFamily
    order : (number of people,)
        The row of each person, block by block as in ``bounds.start`` and by rank.
    """
    low, high = bounds.count_low, bounds.count_high
    assert low is not None
    assert high is not None
    first, last = _windows(bounds, low, high)
    # every rank a run may hold lies between the first end of the run before and its own last end
    begin = np.where(_first_runs(bounds), 0, np.roll(first, 1))
    size = last - begin
    offset = np.concatenate([[0], np.cumsum(size)])
    run = np.repeat(np.arange(len(size)), size)
    base = np.repeat(bounds.start[:-1], np.diff(bounds.run_start)) + begin
    rank = np.arange(offset[-1]) + np.repeat(base - offset[:-1], size)
    rows = order[rank]
    z = np.clip(mean[rows], bounds.lower[run], bounds.upper[run])
    cost = np.where(z == mean[rows], 0.0, family.divergence_at(z, eta[rows], mean[rows]))
    total = np.concatenate([[0.0], np.cumsum(cost)])
    cut = np.empty_like(bounds.cut)
    _split(bounds.run_start, low, high, first, last, begin, offset, total, cut)
    return replace(bounds, cut=cut)


def _first_runs(bounds: RankBounds) -> FloatArray:
    mask = np.zeros(len(bounds.cut), dtype=bool)
    mask[bounds.run_start[:-1]] = True
    return mask


def _windows(bounds: RankBounds, low: IntArray, high: IntArray) -> tuple[IntArray, IntArray]:
    """Return the first and the last rank at which each run may end."""
    start = bounds.run_start
    n = np.repeat(np.diff(bounds.start), np.diff(start))
    before = [_within(values, start) for values in (low, high)]
    total = [np.repeat(running[start[1:] - 1], np.diff(start)) for running in before]
    first = np.maximum(before[0], n - (total[1] - before[1]))
    last = np.minimum(before[1], n - (total[0] - before[0]))
    return first, last


def _within(values: IntArray, start: IntArray) -> IntArray:
    running = np.cumsum(values)
    ahead = np.concatenate([[0], running])[start[:-1]]
    return np.asarray(running - np.repeat(ahead, np.diff(start)))


@njit(cache=True, nogil=True)
def _split(run_start, low, high, first, last, begin, offset, total, cut):  # type: ignore[no-untyped-def]
    """Fill in ``cut``; ``total[offset[k] + r - begin[k]]`` is C_k(r), less a constant of run k."""
    for b in range(len(run_start) - 1):
        s, e = run_start[b], run_start[b + 1]
        widest = 1
        for k in range(s, e):
            widest = max(widest, last[k] - first[k] + 1)
        value, here = np.zeros(widest), np.zeros(widest)
        taken = np.zeros((e - s, widest), np.int64)
        for k in range(s, e):
            from_rank, to_rank = (0, 0) if k == s else (first[k - 1], last[k - 1])
            shift = offset[k] - begin[k]
            for r in range(first[k], last[k] + 1):
                best, best_end = np.inf, from_rank
                for end in range(max(from_rank, r - high[k]), min(to_rank, r - low[k]) + 1):
                    trial = value[end - from_rank] - total[shift + end]
                    if trial < best:
                        best, best_end = trial, end
                here[r - first[k]] = best + total[shift + r]
                taken[k - s, r - first[k]] = best_end
            value, here = here, value
        rank = last[e - 1]
        for k in range(e - 1, s - 1, -1):
            cut[k] = rank
            rank = taken[k - s, rank - first[k]]
