"""Publishing: the release of individual targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from unbin._frames import as_floats, as_text, refuse_huge, to_numpy
from unbin._typing import ArrayLike, FloatArray, IntArray, TextArray
from unbin.exceptions import AlignmentError, BinError, CategoryError, ReleaseError
from unbin.release import fields, tables
from unbin.release.categories import MAX_CELLS, codes_of, is_nominal, order_of, read_names
from unbin.release.release import Release
from unbin.release.tables import Histogram
from unbin.release.weights import RowWeights, check_weights, whole_people


def aggregate(
    y: ArrayLike,
    blocks: ArrayLike | None = None,
    bins: int | str | ArrayLike = 5,
    *,
    weights: ArrayLike | None = None,
    categories: Sequence[str] | None = None,
) -> Release:
    """Publish a histogram of individual targets: the release of ``y``.

    Parameters
    ----------
    y : (n_rows,) targets
        Numbers, or names of categories as text, each of which is counted.
    blocks : (n_rows,) block ids, optional
        One block for everybody when left out.
    bins : int, array of edges, or "categories"
        An int gives that many bins with edges at the pooled quantiles and open ends, fewer when
        quantiles coincide. Edges are used as given; bins are (lower, upper]. "categories" takes
        whole numbers for names of categories.
    weights : (n_rows,), optional
        How many people have each value, above 0. Counts are sums of weights; where these are not
        whole, the counts of a block are rounded so that they add up to its rounded people, and each
        is one of the two whole numbers next to its sum.
    categories : sequence of str, optional
        The categories that y may have, in the order to use; alphabetical when left out.

    Returns
    -------
    Release

    Examples
    --------
    >>> import unbin
    >>> unbin.aggregate([3.0, 9.0, 4.0], ["a", "a", "b"], bins=[0, 5, 10])
    Release: 2 blocks, 3 people
      histogram: 2 blocks, 2 bins, closed ends
    >>> unbin.aggregate(["rep", "dem", "dem"], ["a", "a", "b"])
    Release: 2 blocks, 3 people
      categories: 2 blocks, 2 categories: dem, rep
    """
    labels = labels_of(y, bins, named=categories is not None)
    if labels is not None:
        ids, given = _ids(blocks, len(labels)), check_weights(weights, "frequency", len(labels))
        order = order_of(labels, categories, where="y")
        value = np.arange(float(len(order)))
        found = _counted(codes_of(labels, order), (value, value), ids, given)
        return replace(found, categories=order)
    values = as_floats(y, where="y")
    if values.size == 0:
        raise _nobody()
    if not np.isfinite(values).all():
        raise ReleaseError("y: must be finite to be counted, got NaN or inf; drop those rows")
    refuse_huge(values, where="y", error=ReleaseError)
    ids, given = _ids(blocks, len(values)), check_weights(weights, "frequency", len(values))
    edges = _edges(values, bins, None if given is None else given.values)
    place = np.searchsorted(edges, values, side="left") - 1
    outside = (place < 0) | (place >= len(edges) - 1)
    if outside.any():
        raise BinError(
            f"bins: every value of y must lie between the edges, got {int(outside.sum())} outside, "
            f"for example {values[outside][0]:g}; open the ends with -inf and inf"
        )
    return _counted(place, (edges[:-1], edges[1:]), ids, given)


def labels_of(y: ArrayLike, bins: Any, *, named: bool = False) -> TextArray | None:
    """Return names of categories; None of numbers."""
    array = to_numpy(y, where="y")
    asked = named or (isinstance(bins, str) and bins == "categories")
    if not asked and not is_nominal(array):
        return None
    if array.size == 0:
        raise _nobody()
    labels = read_names(y, where="y")
    if asked:
        return labels
    if np.ndim(bins):
        raise CategoryError(
            f"bins: categories have no edges, got y of {str(labels[0])!r} and others; leave bins "
            "out, or convert y to numbers"
        )
    return None if _all_numbers(labels) else labels  # numbers as text are a mistake


def _all_numbers(labels: TextArray) -> bool:
    try:
        np.unique(labels).astype(np.float64)
    except ValueError:
        return False
    return True


def _nobody() -> ReleaseError:
    return ReleaseError("y: must hold targets to count, got 0 values; pass one per person")


def _ids(blocks: ArrayLike | None, size: int) -> TextArray:
    """Return the block of each target."""
    if blocks is None:
        return np.full(size, fields.EVERYBODY)
    ids = as_text(blocks, where="blocks")
    if len(ids) != size:
        raise AlignmentError(
            f"blocks: must be as long as y, got {len(ids)} ids for {size} values; pass the block "
            "of each value"
        )
    return ids


def _counted(
    place: IntArray,
    edges: tuple[FloatArray, FloatArray],
    ids: TextArray,
    given: RowWeights | None,
) -> Release:
    """Return how many people of each block are in each bin.

    Parameters
    ----------
    place : (n_rows,)
        The bin of each.
    edges : (lower, upper), each (n_bins,)
    ids : (n_rows,)
    given : RowWeights or None
    """
    people = None if given is None else given.values
    names, codes = np.unique(ids, return_inverse=True)
    n_bins = len(edges[0])
    if len(names) * n_bins > MAX_CELLS:
        raise _too_many(n_bins, len(names))
    count: FloatArray | IntArray = np.bincount(codes * n_bins + place, people, len(names) * n_bins)
    if given is not None:
        total = whole_people(given.people(codes, len(names)))
        count = _rounded(count.reshape(-1, n_bins), total).ravel()
    table = Histogram(
        np.arange(len(names) + 1) * n_bins,
        np.tile(edges[0], len(names)),
        np.tile(edges[1], len(names)),
        count.astype(np.int64),
    )
    return Release(names, table.total(), table, tables.no_order(len(names)))


def _rounded(sums: FloatArray | IntArray, total: IntArray) -> IntArray:
    """Round the sums of each row so that they add up to its total: the largest remainders up."""
    whole = np.floor(sums).astype(np.int64)
    missing = total - whole.sum(axis=1)
    rank = np.argsort(np.argsort(whole - sums, axis=1, kind="stable"), axis=1)
    return np.asarray(whole + (rank < missing[:, None]))


def _too_many(n_bins: int, n_blocks: int) -> BinError:
    return BinError(
        f"bins: a table may have at most {MAX_CELLS:,} cells, got {n_bins:,} bins of "
        f"{n_blocks:,} blocks; pass at most {max(MAX_CELLS // n_blocks, 1):,} bins"
    )


def _edges(values: FloatArray, bins: Any, people: FloatArray | None) -> FloatArray:
    if np.ndim(bins) == 0:
        if isinstance(bins, bool) or not isinstance(bins, Integral) or bins < 1:
            raise BinError(
                f"bins: must be a whole number of at least 1, or edges, got {bins!r}; pass for "
                "example 5, or 'categories'"
            )
        total = len(values) if people is None else int(whole_people(people.sum()))
        n = min(int(bins), total)  # more quantiles are the same values again
        if n > MAX_CELLS:
            raise _too_many(n, 1)
        inner = np.unique(_quantiles(values, np.arange(1, n) / n, people))
        return np.concatenate([[-np.inf], inner[inner < values.max()], [np.inf]])
    edges = as_floats(bins, where="bins")
    if len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise BinError(
            f"bins: edges must increase and be at least 2, got {edges.tolist()}; sort them and "
            "drop repeated ones"
        )
    refuse_huge(edges[np.isfinite(edges)], where="bins (say inf for an open end)", error=BinError)
    return edges


def _quantiles(values: FloatArray, share: FloatArray, people: FloatArray | None) -> FloatArray:
    """Return the least values that these shares of the people do not exceed."""
    if people is None:
        return np.asarray(np.quantile(values, share, method="inverted_cdf"))
    order = np.argsort(values, kind="stable")
    below = np.cumsum(people[order])
    place = np.searchsorted(below, share * below[-1])
    return np.asarray(values[order[np.minimum(place, len(order) - 1)]])
