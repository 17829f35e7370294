"""Between which values everybody lies, as far as a release tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unbin._blocks import block_of_rows
from unbin._typing import FloatArray
from unbin.exceptions import DomainError
from unbin.families import Interval
from unbin.release import tables

if TYPE_CHECKING:
    from unbin.release.release import Release


def known_ends(release: Release, *, from_zero: bool = False) -> Interval:
    """Return the least and the greatest value that anybody of an aligned release can have.

    The end of a closed bin, or a published minimum or maximum; infinite where a block about which
    something was published has neither. Bins without people tell nothing.

    With ``from_zero`` an open bin that ends at 0, if no edge is below, is taken to hold 0 alone:
    amounts that people may not have had.
    """
    histogram, order, n_blocks = release.histogram, release.order_statistics, len(release)
    used = (histogram.interval()[1] > 0) | (release.noise_sd > 0)
    block, of_order = block_of_rows(histogram.start)[used], block_of_rows(order.start)
    low, high = np.full(n_blocks, np.inf), np.full(n_blocks, -np.inf)
    np.minimum.at(low, block, histogram.lower[used])
    np.maximum.at(high, block, histogram.upper[used])
    bare = np.diff(histogram.start) == 0
    low[bare], high[bare] = -np.inf, np.inf
    least, most = order.rank == 1, order.rank == release.n[of_order]
    np.maximum.at(low, of_order[least], order.value[least])
    np.minimum.at(high, of_order[most], order.value[most])
    told = release.has_statistics() & (release.n > 0)
    if not told.any():
        return Interval(-np.inf, np.inf)
    least, edges = float(low[told].min()), np.concatenate([histogram.lower, histogram.upper])
    if from_zero and np.isinf(least) and edges[np.isfinite(edges)].min(initial=np.inf) == 0:
        least = 0.0
    return Interval(least, float(high[told].max()))


def check_ends(release: Release, ends: Interval) -> None:
    """Raise if somebody was published beyond the ends of the domain that a fit was given."""
    histogram, order = release.histogram, release.order_statistics
    outside = (histogram.interval()[0] > 0) & ~tables.reaches(histogram, ends)
    if outside.any():
        k = int(np.argmax(outside))
        block = str(release.blocks[block_of_rows(histogram.start)[k]])
        raise DomainError(
            f"lower, upper: everybody must lie in {ends}, got people in the bin "
            f"{histogram.bin_text(k)} of block {block!r}; correct lower or upper, or the edges"
        )
    check_known(order.value, ends)


def check_known(values: FloatArray, ends: Interval) -> None:
    """Raise if values that are known lie beyond the ends of the domain that a fit was given."""
    outside = (values < ends.low) | (values > ends.high)
    if outside.any():
        raise DomainError(
            f"lower, upper: everybody must lie in {ends}, got {values[outside][0]:g}; correct "
            "lower or upper, or the value"
        )
