"""Histograms and cumulative distributions, from columns to tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbin._blocks import segment_start
from unbin._checks import check_choice
from unbin._frames import refuse_huge
from unbin._typing import FloatArray, IntArray, TextArray
from unbin.exceptions import BinError, CountError
from unbin.release import fields, tables
from unbin.release.intervals import (
    Rounding,
    narrow,
    possible_people,
    read_intervals,
    uncertain_blocks,
    with_intervals,
)
from unbin.release.tables import Cumulative, Histogram


@dataclass(frozen=True, slots=True)
class ReadHistogram:
    """A table as it was read.

    Attributes
    ----------
    names : (n_blocks,) text, sorted
    n : (n_blocks,)
        People of each block, 0 where they are not known.
    table : Histogram
    """

    names: TextArray
    n: IntArray
    table: Histogram


def read_histogram(
    frame: Any,
    *,
    block: str | Sequence[str] | None,
    lower: str,
    upper: str,
    count: str | None,
    count_low: str | None,
    count_high: str | None,
    percent: str | None,
    n: str | None,
    closed: str,
    rounding: str | None,
    noisy: bool,
    count_se: str | None = None,
    parts: str = "bins",
) -> ReadHistogram:
    """Read one row per block and bin; the parameters are those of ``Release.from_histogram``.

    ``parts`` is what messages call the bins.
    """
    check_choice("closed", closed, tables.CLOSED)
    ids = fields.read_ids(frame, block, value=lower, role="lower")
    low, high = _read_edges(frame, lower, upper, ids, closed)
    names, codes = np.unique(ids, return_inverse=True)
    order = np.lexsort((high, low, codes))
    start = segment_start(codes, len(names))
    people = None if n is None else fields.read_people(frame, n, codes, names)
    side = "left" if closed == "left" else "right"
    table = Histogram(start, low[order], high[order], np.zeros(len(ids), np.int64), side)
    if count_se is not None:
        table = replace(table, count_se=_read_errors(frame, count_se, ids)[order])
    tables.check_histogram(table, names)
    if closed != "both":
        _check_gaps(table, names)
    column = "count" if count is None else count
    if noisy:
        values = fields.read_floats(frame, column, ids, role="count")[order]
        fields.require_finite(values, ids[order], column)
        noisy_table = replace(table, count=values)  # type: ignore[arg-type]
        return ReadHistogram(names, _or_unknown(people, names), noisy_table)
    if percent is not None:
        shares = fields.read_percentages(frame, percent, ids, people)[order]
        assert people is not None
        table = _with_percentages(table, shares, people, names, rounding)
    elif count_low is not None and count_high is not None:
        ends = read_intervals(frame, ids, count=count, low=count_low, high=count_high)
        ends = _rounded_where_exact(ends, rounding)
        table = with_intervals(table, ends[0][order], ends[1][order])
    elif count_low is not None or count_high is not None:
        raise CountError(
            "count_low, count_high: an interval has two ends, got one column; name both"
        )
    else:
        counts = fields.read_counts(frame, column, ids)[order]
        table = with_intervals(table, *_rounded_where_exact((counts, counts), rounding))
    return _with_people(names, people, n, table, parts)


def _read_edges(
    frame: Any, lower: str, upper: str, ids: TextArray, closed: str
) -> tuple[FloatArray, FloatArray]:
    low = fields.read_floats(frame, lower, ids, role="lower")
    high = fields.read_floats(frame, upper, ids, role="upper")
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    for name, edges in ((lower, low), (upper, high)):
        where = f"column {name!r} (say inf for an open end)"
        refuse_huge(edges[np.isfinite(edges)], where=where, error=BinError)
    if closed == "both":
        low = fields.whole_edges(low, high) - (low < high)
    return low, high


def _read_errors(frame: Any, column: str, ids: TextArray) -> FloatArray:
    """Return standard errors of counts; missing ones are not known."""
    errors = fields.read_floats(frame, column, ids, role="count_se")
    bad = (errors < 0) | np.isinf(errors)
    if bad.any():
        k = int(np.argmax(bad))
        raise CountError(
            f"block {str(ids[k])!r}: a standard error must be 0 or more, got {errors[k]:g} in row "
            f"{k} of column {column!r}; leave it empty where it is not known"
        )
    return errors


def _check_gaps(table: Histogram, names: TextArray) -> None:
    """Raise if bins of whole numbers were written with both ends: 0-9, 10-19.

    Read as (0, 9], (10, 19] they would leave out 10. A table with bins that touch means its gaps,
    and a bin of a single value leaves out none.
    """
    lower, upper = table.lower, table.upper
    block = np.repeat(np.arange(len(names)), np.diff(table.start))
    proper = lower < upper
    loses = proper[:-1] if table.closed == "left" else proper[1:]
    inner = block[1:] == block[:-1]
    step = np.where(inner, lower[1:], np.inf) - np.where(inner, upper[:-1], 0.0)
    split = (step == 1) & loses
    edges = np.concatenate([lower, upper])
    edges = edges[np.isfinite(edges)]
    if split.any() and not (step == 0).any() and (edges == np.rint(edges)).all():
        k = int(np.argmax(split))
        lost = upper[k] if table.closed == "left" else lower[k + 1]
        raise BinError(
            f"block {str(names[block[k]])!r}: with closed={table.closed!r} the bins "
            f"{table.bin_text(k)} and {table.bin_text(k + 1)} leave out {lost:g}, got no bins that "
            "touch; say closed='both' if a bin of whole numbers holds both its ends, or add the "
            "gap as a bin with count 0"
        )


def _rounded_where_exact(
    ends: tuple[IntArray, IntArray], rounding: str | None
) -> tuple[IntArray, IntArray]:
    """Widen exact counts to what a rounding scheme may have made of them."""
    if rounding is None:
        return ends
    scheme = Rounding.parse(rounding)
    if scheme.percent:
        raise CountError(
            f"rounding: {rounding!r} is about percentages, got counts; say percent=... with their "
            "column, or for example 'nearest-5'"
        )
    exact = ends[0] == ends[1]
    low, high = scheme.of_counts(ends[0])
    return np.where(exact, low, ends[0]), np.where(exact, high, ends[1])


def _with_percentages(
    table: Histogram,
    percent: FloatArray,
    people: IntArray,
    names: TextArray,
    rounding: str | None,
) -> Histogram:
    counts = fields.percent_counts(percent, people, table.start, names)
    if rounding is None:
        return with_intervals(table, counts, counts)
    scheme = Rounding.parse(rounding)
    if not scheme.percent:
        raise CountError(
            f"rounding: {rounding!r} is about counts, got percentages; say for example "
            "'nearest-0.1%'"
        )
    low, high = scheme.of_percentages(percent, np.repeat(people, np.diff(table.start)))
    return with_intervals(table, np.minimum(low, counts), np.maximum(high, counts))


def _with_people(
    names: TextArray, people: IntArray | None, n: str | None, table: Histogram, parts: str
) -> ReadHistogram:
    """Check the number of people against the counts, and narrow intervals where it is known."""
    uncertain = uncertain_blocks(table)
    if people is None:
        return ReadHistogram(names, np.where(uncertain, 0, table.total()), table)
    least, most = possible_people(table)
    off = (people < least) | (people > most)
    if off.any():
        b = int(np.argmax(off))
        got = f"{least[b]}" if least[b] == most[b] else f"{least[b]} to {most[b]}"
        more = ", or say rest=... with a name for people in none" if parts == "categories" else ""
        raise CountError(
            f"block {str(names[b])!r}: the {parts} must count the people of column {n!r}, got "
            f"{got} in the {parts} and {people[b]} in the column; correct one of them{more}"
        )
    return ReadHistogram(names, people, narrow(table, people))


def _or_unknown(people: IntArray | None, names: TextArray) -> IntArray:
    return np.zeros(len(names), np.int64) if people is None else people


def _refuse_doubles(values: FloatArray, codes: IntArray, names: TextArray) -> None:
    """Raise if a block has two cumulative counts at the same value."""
    order = np.lexsort((values, codes))
    value, code = values[order], codes[order]
    double = (value[1:] == value[:-1]) & (code[1:] == code[:-1])
    if double.any():
        k = int(np.argmax(double))
        raise BinError(
            f"block {str(names[code[k]])!r}: every value has one cumulative count, got "
            f"{value[k]:g} twice; keep one, or pass bins with equal edges to from_histogram() for "
            "people who share a value"
        )


def read_cumulative(
    frame: Any, *, block: str | Sequence[str] | None, value: str, count: str, closed: str
) -> ReadHistogram:
    """Read how many people are at or below each value, one row per block and value."""
    check_choice("closed", closed, ("right", "left"))
    ids = fields.read_ids(frame, block, value=value, role="value")
    values = fields.read_floats(frame, value, ids, role="value")
    if np.isnan(values).any():
        raise BinError(
            f"block {str(ids[np.argmax(np.isnan(values))])!r}: column {value!r} must hold edges, "
            "got a missing one; say inf for an open end"
        )
    refuse_huge(values[np.isfinite(values)], where=f"column {value!r}", error=BinError)
    counts = fields.read_counts(frame, count, ids)
    names, codes = np.unique(ids, return_inverse=True)
    _refuse_doubles(values, codes, names)
    opens = np.ones(len(names), dtype=bool)
    opens[codes[counts == 0]] = False
    codes = np.concatenate([codes, np.flatnonzero(opens)])
    values = np.concatenate([values, np.full(opens.sum(), -np.inf)])
    counts = np.concatenate([counts, np.zeros(opens.sum(), np.int64)])
    order = np.lexsort((counts, values, codes))
    start = segment_start(codes, len(names))
    points = Cumulative(start, values[order], counts[order])
    table = tables.cumulative_to_histogram(points, closed=closed)
    tables.check_histogram(table, names)
    if (table.count < 0).any():
        inner = np.repeat(names, np.diff(table.start))
        raise CountError(
            f"block {str(inner[np.argmax(table.count < 0)])!r}: cumulative counts must not "
            f"decrease with the value, got a step of {table.count.min()}; check which count "
            "belongs to which value"
        )
    if (np.diff(table.start) == 0).any():
        raise CountError(
            f"block {str(names[np.argmax(np.diff(table.start) == 0)])!r}: the last cumulative "
            "count is the number of people, got a single point with count 0; add the points "
            "above it, or drop the block"
        )
    return ReadHistogram(names, table.total(), table)
