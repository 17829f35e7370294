"""Labels side by side: edges without gaps.

"$10,000 to $14,999" next to "$15,000 to $19,999" is [10000, 15000), because money lies between the
two; "5-9" next to "10-14" are the integers 5 to 9 and 10 to 14.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from unbin.exceptions import BinError
from unbin.release.readers.labels import Label


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges of each label, and which of them belong to a bin.

    ``closed`` is "left" or "right" for intervals that touch, "both" for the first and the last
    integer of each bin, as :meth:`unbin.Release.from_histogram` reads them.
    """

    edges: dict[Label, tuple[float, float]]
    closed: str


def close_gaps(
    labels: Iterable[Label], closed: str | None = None, *, continuous: bool = False
) -> Edges:
    """Return edges that leave no gap of one printed step between neighbours.

    Parameters
    ----------
    labels : labels of one table
    closed : {"left", "right", "both"}, optional
        Which edges belong to a bin. Without it, labels that print both ends ("5-9") are integers,
        or touch ("left") where money, time or decimals are meant.
    continuous : bool
        Whether something else than the labels says that they are about money, time or age.
    """
    distinct = list(dict.fromkeys(labels))
    side = closed or _usual_side(distinct, continuous)
    if closed is None:
        _refuse_shared_ends(distinct)
    if side == "both":
        return Edges({label: _integers(label) for label in distinct}, side)
    ends = _Ends.of(distinct)
    move = _touching_left if side == "left" else _touching_right
    return Edges({label: move(label, ends) for label in distinct}, side)


def _usual_side(labels: list[Label], continuous: bool) -> str:
    """Return how bins are closed: as printed if that is one-sided, else by what is measured."""
    lower_in = {label.lower_in for label in labels if math.isfinite(label.lower)}
    upper_in = {label.upper_in for label in labels if math.isfinite(label.upper)}
    if lower_in <= {True} and upper_in <= {False}:
        return "left"
    if lower_in <= {False} and upper_in <= {True}:
        return "right"
    return "left" if continuous or any(label.continuous for label in labels) else "both"


def _refuse_shared_ends(labels: list[Label]) -> None:
    ends = {label.upper for label in labels if label.upper_in and label.lower < label.upper}
    for label in labels:
        if label.lower_in and label.lower < label.upper and label.lower in ends:
            raise BinError(
                f"labels share the value {label.lower:g}, got it at the end of one bin and at the "
                "start of the next; say closed='left' or closed='right'"
            )


def _integers(label: Label) -> tuple[float, float]:
    """Return the first and the last integer of a bin."""
    lower = label.lower if label.lower_in else label.lower + label.step
    upper = label.upper if label.upper_in else label.upper - label.step
    return lower, upper


@dataclass(frozen=True, slots=True)
class _Ends:
    """Printed ends of all labels, by whether they are in the bin; bins of one value apart."""

    starts_in: frozenset[float]
    starts_out: frozenset[float]
    stops_in: frozenset[float]
    stops_out: frozenset[float]
    points: frozenset[float]

    @classmethod
    def of(cls, labels: list[Label]) -> _Ends:
        wide = [label for label in labels if label.lower < label.upper]
        return cls(
            frozenset(label.lower for label in wide if label.lower_in),
            frozenset(label.lower for label in wide if not label.lower_in),
            frozenset(label.upper for label in wide if label.upper_in),
            frozenset(label.upper for label in wide if not label.upper_in),
            frozenset(label.lower for label in labels if label.lower == label.upper),
        )


def _touching_left(label: Label, ends: _Ends) -> tuple[float, float]:
    """Return edges of [lower, upper): a printed last value is one step below the edge."""
    lower, upper = label.lower, label.upper
    if not label.lower_in and (lower not in ends.stops_out or lower in ends.points):
        lower = _shift(lower, label.step)
    if label.upper_in and (upper not in ends.starts_in or label.lower == upper):
        upper = _shift(upper, label.step)
    return lower, upper


def _touching_right(label: Label, ends: _Ends) -> tuple[float, float]:
    """Return edges of (lower, upper]: a printed first value is one step above the edge."""
    lower, upper = label.lower, label.upper
    if label.lower_in and (lower not in ends.stops_in or lower == label.upper):
        lower = _shift(lower, -label.step)
    if not label.upper_in and (upper not in ends.starts_out or upper in ends.points):
        upper = _shift(upper, -label.step)
    return lower, upper


def _shift(value: float, step: float) -> float:
    """Add a step; 9.9 + 0.1 is 10, not 10.000000000000002."""
    if not math.isfinite(value):
        return value
    return round(value + step, max(0, round(-math.log10(abs(step)))))
