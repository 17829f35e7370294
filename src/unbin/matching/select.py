"""Which published run does each row's rank fall into? The numba kernel of the z-step.

Rows lie block by block. The runs of a block divide its ranks, and only the rows near a
cut need their exact rank. So the rows of a block are counted into equal-width buckets; a bucket
that lies between two cuts is assigned as a whole, and only buckets with a cut inside are sorted.
With coarse bounds that is a few passes over the block; with a full list it is a bucket sort.

Equal values are ranked by a key that depends on a row's content and not on its place. Keys are
needed only where a cut lies between equal values: without any (an empty array), the kernel tells
whether that happened.
"""

from __future__ import annotations

import numpy as np

from unbin._compiling import njit

_LANES = 8
"""Numbers in the widest vectors of a processor."""
_SMALL = 5 * _LANES
"""Blocks up to this size are ranked by comparing all pairs, which vectorises."""


@njit(cache=True, nogil=True, inline="always")
def _before(values, key, a, b):  # type: ignore[no-untyped-def]
    """Tell whether row ``a`` ranks before row ``b``."""
    if values[a] != values[b] or len(key) == 0:
        return values[a] < values[b]
    return key[a] < key[b]


@njit(cache=True, nogil=True)
def _insertion_sort(values, key, rows):  # type: ignore[no-untyped-def]
    for i in range(1, len(rows)):
        row = rows[i]
        j = i
        while j > 0 and _before(values, key, row, rows[j - 1]):
            rows[j] = rows[j - 1]
            j -= 1
        rows[j] = row


@njit(cache=True, nogil=True)
def _heap_sort(values, key, rows):  # type: ignore[no-untyped-def]
    n = len(rows)
    for step in range(n // 2 + n - 1):
        if step < n // 2:  # build the heap, then take its largest row n - 1 times
            root, end = n // 2 - 1 - step, n
        else:
            end = n - 1 - (step - n // 2)
            rows[0], rows[end] = rows[end], rows[0]
            root = 0
        while True:
            child = 2 * root + 1
            if child >= end:
                break
            if child + 1 < end and _before(values, key, rows[child], rows[child + 1]):
                child += 1
            if not _before(values, key, rows[root], rows[child]):
                break
            rows[root], rows[child] = rows[child], rows[root]
            root = child


@njit(cache=True, nogil=True)
def _assign_sorted(values, key, rows, cut, rank, run, first_run, out):  # type: ignore[no-untyped-def]
    """Sort rows that hold the ranks from ``rank`` on, and assign each its run.

    Return whether a cut lies between equal values that have no keys.
    """
    if len(rows) <= _SMALL:
        _insertion_sort(values, key, rows)
    else:
        _heap_sort(values, key, rows)
    divided, before = False, rows[0]
    for row in rows:
        if cut[run] <= rank:
            while cut[run] <= rank:
                run += 1
            divided |= row != before and values[row] == values[before]
        out[row] = first_run + run
        rank, before = rank + 1, row
    return divided and len(key) == 0


@njit(cache=True, nogil=True)
def _assign_small(values, cut, first_run, padded, below, run_of, out):  # type: ignore[no-untyped-def]
    """Rank rows by counting, for each, the rows below it; tell whether none are tied.

    Rows are filled up with infinity, which is below nobody, to whole vectors; nothing branches.
    """
    n = len(values)
    size = (n + _LANES - 1) // _LANES * _LANES
    for i in range(n):
        padded[i] = values[i]
    for i in range(n, size):
        padded[i] = np.inf
    _count_below(padded, below, size)
    for i in range(n + 1):
        run_of[i] = 0
    for r in range(len(cut)):
        run_of[cut[r]] += 1
    run, total = first_run, 0
    for i in range(n):
        run += run_of[i]
        run_of[i] = run
        total += below[i]
    for i in range(n):
        out[i] = run_of[below[i]]
    return total == n * (n - 1) // 2


@njit(cache=True, nogil=True)
def _count_below(values, below, n):  # type: ignore[no-untyped-def]
    """Count the values below each of the first n, four at a time."""
    for i in range(n):
        below[i] = 0
    for j in range(0, n, 4):
        a, b, c, d = values[j], values[j + 1], values[j + 2], values[j + 3]
        for i in range(n):
            value = values[i]
            below[i] += (int(a < value) + int(b < value)) + (int(c < value) + int(d < value))


@njit(cache=True, nogil=True)
def _assign_block(values, key, cut, first_run, size, run_of, bucket, rows, out):  # type: ignore[no-untyped-def]
    """Count the rows into ``len(size)`` buckets; sort only buckets that hold a cut.

    Return whether keys were needed and there were none.
    """
    n, n_buckets = len(values), len(size)
    low, high = values[0], values[0]
    for i in range(n):
        low, high = min(low, values[i]), max(high, values[i])
    scale = (n_buckets - 1) / (high - low) if high > low else 0.0
    for k in range(n_buckets):
        size[k] = 0
    for i in range(n):
        place = int((values[i] - low) * scale)
        place = min(max(place, 0), n_buckets - 1)  # NaN included
        bucket[i] = place
        size[place] += 1
    rank, run, n_cut = 0, 0, 0
    for k in range(n_buckets):
        while rank < n and cut[run] <= rank:
            run += 1
        if cut[run] >= rank + size[k]:
            run_of[k] = first_run + run
        else:  # rows[n_cut:] will hold this bucket
            run_of[k] = -1 - n_cut
            n_cut += size[k]
        rank += size[k]
    for i in range(n):
        r = run_of[bucket[i]]
        if r >= 0:
            out[i] = r
        else:
            rows[-1 - r] = i
            run_of[bucket[i]] = r - 1
    rank, run, filled, divided = 0, 0, 0, False
    for k in range(n_buckets):
        if run_of[k] < 0:
            while cut[run] <= rank:
                run += 1
            held = rows[filled : filled + size[k]]
            divided |= _assign_sorted(values, key, held, cut, rank, run, first_run, out)
            filled += size[k]
        rank += size[k]
    return divided


@njit(cache=True, nogil=True)
def room_for(largest):  # type: ignore[no-untyped-def]
    """Return what ranking the rows of a block of at most that size works in."""
    by_row, by_bucket = np.empty((2, largest), np.int32), np.empty((2, largest + 64), np.int32)
    return by_row, by_bucket, np.empty(_SMALL), np.empty(_SMALL, np.int32)


@njit(cache=True, nogil=True)
def assign_block(values, key, cut, first, last, room, out):  # type: ignore[no-untyped-def]
    """Write the run, ``first`` to ``last - 1``, of each row of a block into ``out``.

    Return whether keys were needed and there were none.
    """
    n = len(values)
    (bucket, rows), (size, run_of), padded, below = room
    if last - first == 1:
        out[:] = first
        return False
    own = cut[first:last]
    if n <= _SMALL:
        if _assign_small(values, own, first, padded, below, run_of, out):
            return False
        for i in range(n):
            rows[i] = i
        return _assign_sorted(values, key, rows[:n], own, 0, 0, first, out)
    most = 2048 if 8 * (last - first) <= n else 1 << 18
    m = min(max(n // 4, 64), most)
    return _assign_block(values, key, own, first, size[:m], run_of[:m], bucket, rows, out)


@njit(cache=True, nogil=True)
def assign_runs(values, key, start, run_start, cut, out):  # type: ignore[no-untyped-def]
    """Write the run that holds every row's rank into ``out``.

    Return whether keys were needed and there were none.

    Parameters
    ----------
    values : (n,) float64, what rows are ranked by, block by block
    key : (n,) or (0,) uint64, ranks rows of equal value
    start : (n_blocks + 1,) int64, rows of block b are start[b]:start[b + 1]
    run_start : (n_blocks + 1,) int64, runs of block b are run_start[b]:run_start[b + 1]
    cut : (n_runs,) int64, the rank at which each run ends, counted within its block
    out : (n,) int32, the run of each row
    """
    largest, divided = 1, False
    for b in range(len(start) - 1):
        largest = max(largest, start[b + 1] - start[b])
    room = room_for(largest)
    for b in range(len(start) - 1):
        s, e, first, last = start[b], start[b + 1], run_start[b], run_start[b + 1]
        divided |= assign_block(values[s:e], key[s:e], cut, first, last, room, out[s:e])
    return divided
