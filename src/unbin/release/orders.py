"""Order statistics, full lists and means, from columns to tables.

Every function returns the block ids, the people of each block (0 where they are not known) and the
table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unbin._blocks import segment_cumsum, segment_start
from unbin._typing import BoolArray, FloatArray, IntArray, TextArray
from unbin.exceptions import BlockError, CountError
from unbin.release import fields, tables
from unbin.release.tables import OrderStatistics

if TYPE_CHECKING:
    from unbin.release.release import Release


def read_order_statistics(
    frame: Any,
    *,
    block: str | Sequence[str] | None,
    quantile: str | None,
    rank: str | None,
    value: str,
    n: str | None,
) -> tuple[TextArray, IntArray, OrderStatistics]:
    """Read one row per block and quantile, or rank."""
    ids, values = _read_values(frame, block, value)
    names, codes = np.unique(ids, return_inverse=True)
    people = _read_people(frame, n, codes, names)
    ranks, quantiles = np.zeros(len(ids), np.int64), np.full(len(ids), np.nan)
    if rank is not None:
        ranks = fields.read_ranks(frame, rank, ids)
    else:
        role = "quantile" if quantile is None else quantile
        quantiles = fields.read_quantiles(frame, role, ids)
    order = np.argsort(codes, kind="stable")
    start = segment_start(codes, len(names))
    table = OrderStatistics(start, ranks[order], quantiles[order], values[order]).tidy()
    tables.check_order(table, names)
    tables.check_ranks(table, people, names)
    return names, people, table


def read_values(
    frame: Any, *, block: str | Sequence[str] | None, value: str
) -> tuple[TextArray, IntArray, OrderStatistics]:
    """Read one row per person, without names."""
    ids, values = _read_values(frame, block, value)
    names, codes = np.unique(ids, return_inverse=True)
    order = np.lexsort((values, codes))
    start = segment_start(codes, len(names))
    rank = segment_cumsum(np.ones(len(values), np.int64), start)
    table = OrderStatistics(start, rank, np.full(len(values), np.nan), values[order])
    return names, np.diff(start), table


def read_means(
    frame: Any, *, block: str | Sequence[str] | None, mean: str, total: str | None, n: str | None
) -> tuple[TextArray, IntArray, FloatArray]:
    """Read one row per block: its mean, or its total."""
    column = mean if total is None else total
    ids = fields.read_ids(frame, block, value=column, role="mean")
    names, codes = np.unique(ids, return_inverse=True)
    if len(names) != len(ids):
        twice = names[np.bincount(codes) > 1][0]
        raise BlockError(f"block {str(twice)!r}: must have one mean, got several rows; keep one")
    values = fields.read_floats(frame, column, ids, role="mean")
    fields.require_finite(values, ids, column)
    if total is not None and n is None:
        raise CountError(f"column {total!r}: totals need the number of people; pass n=...")
    people = _read_people(frame, n, codes, names)
    means = np.empty(len(names))
    means[codes] = values
    return names, people, means if total is None else means / people


def _read_values(
    frame: Any, block: str | Sequence[str] | None, value: str
) -> tuple[TextArray, FloatArray]:
    ids = fields.read_ids(frame, block, value=value, role="value")
    values = fields.read_floats(frame, value, ids, role="value")
    fields.require_finite(values, ids, value)
    return ids, values


def _read_people(frame: Any, n: str | None, codes: IntArray, names: TextArray) -> IntArray:
    if n is None:
        return np.zeros(len(names), np.int64)
    return fields.read_people(frame, n, codes, names)


# -- spelled otherwise -----------------------------------------------------------------------------


def full_lists(release: Release) -> BoolArray:
    """Mark the blocks whose order statistics list every person's value."""
    return np.asarray((np.diff(release.order_statistics.start) == release.n) & (release.n > 0))


def orders_as_bins(release: Release) -> Release:
    """Return the release with order statistics spelled as bins, where a block has no histogram."""
    order = release.order_statistics
    bare = (np.diff(release.histogram.start) == 0) & (np.diff(order.start) > 0)
    bare &= ~full_lists(release)
    if not bare.any():
        return release
    blocks = np.where(bare, np.arange(len(bare)), -1)
    kept = order.take(blocks[bare])
    start = np.concatenate([[0], np.cumsum(np.where(bare, np.diff(order.start), 0))])
    spread = OrderStatistics(start, kept.rank, kept.quantile, kept.value)
    histogram = tables.order_to_histogram(spread, release.n)
    joined = tables.join_histograms(release.histogram, histogram, release.blocks)
    return replace(release, histogram=joined)
