"""A release less people whose outcome is known: what it says about the others.

A known outcome is taken out of its bin, of the total and of the list of its block. That leaves the
table of the other people, as it would have been published without those that are known; nobody is
counted twice, and both sources are independent.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unbin._blocks import block_of_rows, segment_start
from unbin._typing import FloatArray, IntArray
from unbin.exceptions import AlignmentError
from unbin.release.intervals import with_intervals
from unbin.release.orders import full_lists, orders_as_bins
from unbin.release.release import Release
from unbin.release.tables import Histogram, OrderStatistics, no_order

_AWAY = "or, if the table does not count these outcomes, pass disjoint=True"


def without_people(
    release: Release, blocks: IntArray, values: FloatArray, people: IntArray, name: str = ""
) -> Release:
    """Return what an aligned release says of everybody but some people.

    Of a block whose people are all known nothing is said any more; it keeps one person.

    Parameters
    ----------
    release : Release
    blocks, values, people : (m,)
        Of those whose outcome is known: the block, the outcome, and how many have it.
    name : str
        Of the table, for errors.
    """
    release = orders_as_bins(release)
    taken = np.bincount(blocks, people, len(release)).astype(np.int64)
    n, left, told = np.maximum(release.n - taken, 1), release.n > taken, release.has_statistics()
    where = f"{name}, " if name else ""
    said = told[blocks]
    blocks, values, people = blocks[said], values[said], people[said]
    histogram = _histogram(release, blocks, values, people, where)
    order = _lists(release, blocks, values, people, where)
    means = release.means
    if means is not None:
        total = means * release.n - np.bincount(blocks, people * values, len(release))
        means = np.where(left, total / n, means)
    found = replace(release, n=n, histogram=histogram, order_statistics=order, means=means)
    return found if left.all() else found.without(~left)


def _histogram(
    release: Release, blocks: IntArray, values: FloatArray, people: IntArray, where: str
) -> Histogram:
    table = release.histogram
    width = np.diff(table.start)[blocks]
    person = np.repeat(np.arange(len(blocks)), width)
    first = np.concatenate([[0], np.cumsum(width)[:-1]]).astype(np.int64)
    cell = table.start[blocks][person] + np.arange(len(person)) - first[person]
    value, lower, upper = values[person], table.lower[cell], table.upper[cell]
    if table.closed == "right":
        inside = (lower < value) & (value <= upper)
    else:
        inside = (lower <= value) & (value < upper)
    inside |= (lower == value) & (value == upper)
    held = np.bincount(person[inside], minlength=len(blocks)) > 0
    lost = (width > 0) & ~held
    if lost.any():
        k = int(np.argmax(lost))
        told = f"{values[k]:g} is known of one of its people, but lies in none of its bins"
        if release.categories:
            name = release.categories[int(values[k])]
            told = f"{name!r} is known of one of its people, but is not offered there"
        raise AlignmentError(
            f"{where}block {str(release.blocks[blocks[k]])!r}: the outcome {told}; correct it, "
            f"{_AWAY}"
        )
    taken = np.bincount(cell[inside], people[person[inside]], len(table.count)).astype(np.int64)
    low, high = table.interval()
    short = (high < taken) & (release.noise_sd == 0)
    if short.any():
        k = int(np.argmax(short))
        block = str(release.blocks[block_of_rows(table.start)[k]])
        raise AlignmentError(
            f"{where}block {block!r}: its {release.bin_text(k)} counts {high[k]:,} people, but "
            f"{taken[k]:,} are known to be in it; correct the outcomes, {_AWAY}"
        )
    if table.count_low is None:
        return replace(table, count=table.count - taken)
    low, high = np.maximum(low - taken, 0), high - taken
    count = np.clip(table.count - taken, low, high)
    return with_intervals(replace(table, count=count), low, high)


def _lists(
    release: Release, blocks: IntArray, values: FloatArray, people: IntArray, where: str
) -> OrderStatistics:
    """Take known outcomes out of full lists; of other order statistics histograms tell more."""
    order, listed = release.order_statistics, full_lists(release)
    if not listed.any():
        return no_order(len(release))
    here, block = listed[blocks], block_of_rows(order.start)
    pairs = np.column_stack([block, order.value])[listed[block]]
    out = np.repeat(np.column_stack([blocks, values])[here], people[here], axis=0)
    both, place = np.unique(np.vstack([pairs, out]), axis=0, return_inverse=True)
    place = place.ravel()
    count = np.bincount(place[: len(pairs)], minlength=len(both))
    less = np.bincount(place[len(pairs) :], minlength=len(both))
    if (less > count).any():
        k = int(np.argmax(less > count))
        name = str(release.blocks[int(both[k, 0])])
        raise AlignmentError(
            f"{where}block {name!r}: the outcome {both[k, 1]:g} is known of one of its people, "
            f"but its list does not have it; correct it, {_AWAY}"
        )
    kept = np.repeat(both, count - less, axis=0)
    block, value = kept[:, 0].astype(np.int64), kept[:, 1]
    start = segment_start(block, len(release))
    rank = np.arange(len(block)) - start[block] + 1
    return OrderStatistics(start, rank, np.full(len(block), np.nan), value)
