"""A release as the columns of a tidy table, which ``read_release`` reads back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unbin._blocks import block_of_rows
from unbin._checks import check_choice
from unbin._typing import BoolArray
from unbin.exceptions import ParameterError
from unbin.release.orders import full_lists
from unbin.release.tables import Histogram

if TYPE_CHECKING:
    from unbin.release.release import Release


def tidy_columns(release: Release, kind: str | None = None) -> dict[str, Any]:
    """Return one kind of statistic as columns: bins, categories, order statistics or means.

    An open end is an empty cell. A count that is known as an interval is empty beside
    ``count_low`` and ``count_high``. A column ``closed`` says which edges belong to a bin where
    this is not the upper one, and ``n`` how many people a block has where counts do not add up to
    it. A category that a block does not offer has no row there; see ``Release.to_frame``.
    """
    spell = {
        "histogram": _histogram,
        "categories": _categories,
        "order_statistics": _order_statistics,
        "means": _means,
    }
    counted = len(release.histogram.count) > 0
    held = {
        "histogram": counted and not release.categories,
        "categories": counted and bool(release.categories),
        "order_statistics": len(release.order_statistics.value) > 0,
        "means": release.means is not None,
    }
    kinds = tuple(name for name in spell if held[name])
    if kind is None and len(kinds) != 1:
        raise ParameterError(
            f"kind: the release must hold one kind of statistic, got {' and '.join(kinds)}; say "
            f"kind={kinds[0]!r}"
            if kinds
            else "kind: the release must hold statistics, got none; read another table"
        )
    return spell[kinds[0] if kind is None else check_choice("kind", kind, kinds)](release)


def _histogram(release: Release) -> dict[str, Any]:
    table = release.histogram
    lower, closed = table.lower, table.closed
    if _leaves_out(table):
        lower, closed = np.where(table.lower < table.upper, table.lower + 1, table.lower), "both"
    edges = {
        "lower": _unless(np.isinf(lower), lower),
        "upper": _unless(np.isinf(table.upper), table.upper),
    }
    columns = _counts(release, edges)
    if closed != "right":
        columns["closed"] = np.full(len(lower), closed)
    return columns


def _categories(release: Release) -> dict[str, Any]:
    table, names = release.histogram, release.categories
    columns = _counts(release, {"category": release.category_of_bins()})
    size = np.diff(table.start)
    if (size[size > 0] < len(np.unique(table.lower))).any():
        columns["absent"] = np.full(len(table.count), "structural")
    if list(names) != sorted(names) or any(char.isdigit() for name in names for char in name):
        columns["category_code"] = table.lower.astype(np.int64)
    return columns


def _counts(release: Release, bins: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a table of counts."""
    table, hidden = release.histogram, release.histogram.hidden()
    size = np.diff(table.start)
    columns: dict[str, Any] = {"block": np.repeat(release.blocks, size), **bins}
    columns["count"] = _unless(hidden, table.count)
    if hidden.any():
        low, high = table.interval()
        columns |= {"count_low": low, "count_high": high}
        if (release.n > 0).all():
            columns["n"] = np.repeat(release.n, size)
    return columns


def _order_statistics(release: Release) -> dict[str, Any]:
    order = release.order_statistics
    size = np.diff(order.start)
    columns: dict[str, Any] = {"block": np.repeat(release.blocks, size)}
    if full_lists(release)[size > 0].all() and (order.rank > 0).all():
        return columns | {"value": order.value}
    if np.isfinite(order.quantile).all():
        columns["quantile"] = order.quantile
    elif (order.rank > 0).all():
        columns["rank"] = order.rank
    else:
        raise ParameterError(
            "kind: one table holds quantiles or ranks, got both; write them apart, before combine()"
        )
    columns["value"] = order.value
    if (release.n[size > 0] > 0).all():
        columns["n"] = np.repeat(release.n, size)
    return columns


def _means(release: Release) -> dict[str, Any]:
    assert release.means is not None
    known = np.isfinite(release.means)
    columns = {"block": release.blocks[known], "mean": release.means[known]}
    return columns | ({"n": release.n[known]} if (release.n[known] > 0).all() else {})


def _leaves_out(table: Histogram) -> bool:
    """Tell whether bins of whole numbers leave some out, so that (lower, upper] looks mistaken."""
    block = block_of_rows(table.start)
    inner = block[1:] == block[:-1]
    step = table.lower[1:][inner] - table.upper[:-1][inner]
    edges = np.concatenate([table.lower, table.upper])
    whole = (edges == np.rint(edges)).all()
    return bool(table.closed == "right" and whole and (step == 1).any() and (step != 0).all())


def _unless(missing: BoolArray, values: Any) -> Any:
    """Return numbers, None where they are missing: of integers too, and in every kind of frame."""
    return np.asarray(np.where(missing, None, values)).tolist() if missing.any() else values
