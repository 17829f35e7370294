"""Publishing: the release of individual targets."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from unbin._frames import as_floats, as_text, refuse_huge
from unbin._typing import ArrayLike, FloatArray
from unbin.exceptions import AlignmentError, BinError, ReleaseError
from unbin.release import fields, tables
from unbin.release.release import Release
from unbin.release.tables import Histogram

MAX_CELLS = 20_000_000
"""Cells of a table, as many as are read of one."""


def aggregate(y: ArrayLike, blocks: ArrayLike | None = None, bins: int | ArrayLike = 5) -> Release:
    """Publish a histogram of individual targets: the release of ``y``.

    Parameters
    ----------
    y : (n_rows,) targets
    blocks : (n_rows,) block ids, optional
        One block for everybody when left out.
    bins : int or array of edges
        An int gives that many bins with edges at the pooled quantiles and open ends, fewer when
        quantiles coincide. Edges are used as given; bins are (lower, upper].

    Returns
    -------
    Release
    """
    values = as_floats(y, where="y")
    if values.size == 0:
        raise ReleaseError("y: must hold targets to count, got 0 values; pass one per person")
    if not np.isfinite(values).all():
        raise ReleaseError("y: must be finite to be counted, got NaN or inf; drop those rows")
    refuse_huge(values, where="y", error=ReleaseError)
    ids = (
        np.full(len(values), fields.EVERYBODY)
        if blocks is None
        else as_text(blocks, where="blocks")
    )
    if len(ids) != len(values):
        raise AlignmentError(
            f"blocks: must be as long as y, got {len(ids)} ids for {len(values)} values; pass the "
            "block of each value"
        )
    edges = _edges(values, bins)
    place = np.searchsorted(edges, values, side="left") - 1
    outside = (place < 0) | (place >= len(edges) - 1)
    if outside.any():
        raise BinError(
            f"bins: every value of y must lie between the edges, got {int(outside.sum())} outside, "
            f"for example {values[outside][0]:g}; open the ends with -inf and inf"
        )
    names, codes = np.unique(ids, return_inverse=True)
    n_bins = len(edges) - 1
    if len(names) * n_bins > MAX_CELLS:
        raise BinError(
            f"bins: a table may have at most {MAX_CELLS:,} cells, got {n_bins:,} bins of "
            f"{len(names):,} blocks; pass at most {max(MAX_CELLS // len(names), 1):,} bins"
        )
    count = np.bincount(codes * n_bins + place, minlength=len(names) * n_bins)
    table = Histogram(
        np.arange(len(names) + 1) * n_bins,
        np.tile(edges[:-1], len(names)),
        np.tile(edges[1:], len(names)),
        count.astype(np.int64),
    )
    return Release(names, table.total(), table, tables.no_order(len(names)))


def _edges(values: FloatArray, bins: int | ArrayLike) -> FloatArray:
    if np.ndim(bins) == 0:
        if isinstance(bins, bool) or not isinstance(bins, Integral) or bins < 1:
            raise BinError(
                f"bins: must be a whole number of at least 1, or edges, got {bins!r}; pass for "
                "example 5"
            )
        n = min(int(bins), len(values))  # more quantiles are the same values again
        inner = np.quantile(values, np.arange(1, n) / n, method="inverted_cdf")
        inner = np.unique(inner)
        return np.concatenate([[-np.inf], inner[inner < values.max()], [np.inf]])
    edges = as_floats(bins, where="bins")
    if len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise BinError(
            f"bins: edges must increase and be at least 2, got {edges.tolist()}; sort them and "
            "drop repeated ones"
        )
    refuse_huge(edges[np.isfinite(edges)], where="bins (say inf for an open end)", error=BinError)
    return edges
