"""Rows that stand for several people, or for a share of one.

Cells of a cross-table, a synthetic population and people who were put together because they are
alike have frequency weights: there are as many people with just these features. A sample has design
weights: its people stand for others that nobody saw, and a block's composition is only estimated.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from unbin._checks import check_choice
from unbin._frames import as_floats, refuse_huge
from unbin._typing import ArrayLike, FloatArray, IntArray, TextArray
from unbin.exceptions import AlignmentError, AlignmentWarning, DomainError
from unbin.release.words import plural

WEIGHTINGS = ("frequency", "survey")
_FAR = 2.0
"""A sample whose weights add up to fewer or more people than this times those of a block, or to
less than its inverse, is pointed out."""


@dataclass(frozen=True, slots=True)
class RowWeights:
    """How many people each row stands for.

    Attributes
    ----------
    values : (n,)
        Above 0; not necessarily whole.
    weighting : {"frequency", "survey"}
    """

    values: FloatArray
    weighting: str = "frequency"

    @property
    def sampled(self) -> bool:
        """Whether the rows are a sample of the people."""
        return self.weighting == "survey"

    @property
    def whole(self) -> bool:
        """Whether every row stands for a whole number of people."""
        return bool((self.values == np.rint(self.values)).all())

    def __len__(self) -> int:
        return len(self.values)

    def people(self, codes: IntArray, n_blocks: int) -> FloatArray:
        """Return the people that the rows of each block stand for."""
        return np.asarray(np.bincount(codes, self.values, n_blocks), dtype=np.float64)

    def take(self, rows: IntArray) -> RowWeights:
        """Return the weights of some rows."""
        return RowWeights(self.values[rows], self.weighting)

    def same(self, other: RowWeights | None) -> bool:
        """Tell whether other weights are these."""
        return (
            other is not None
            and self.weighting == other.weighting
            and np.array_equal(self.values, other.values)
        )


def check_weights(
    weights: ArrayLike | None, weighting: str, n: int, *, where: str = "weights", first: int = 0
) -> RowWeights | None:
    """Return the weights of n rows, None where every row is a person; ``first`` is the first."""
    check_choice("weighting", weighting, WEIGHTINGS)
    if weights is None:
        if weighting == "survey":
            raise DomainError(
                "weighting: 'survey' needs the weights of the rows, got none; pass weights=..."
            )
        return None
    values = as_floats(weights, where=where, error=DomainError)
    if len(values) != n:
        raise AlignmentError(
            f"{where}: must have one value per row of X, got {len(values)} for {n} rows; check it"
        )
    return RowWeights(check_people(values, where=where, before=first), weighting)


def check_people(values: FloatArray, *, where: str, before: int = 0) -> FloatArray:
    """Return numbers of people that rows stand for; raise unless all are finite and above 0.

    ``before`` rows lie before these.
    """
    odd = ~(np.isfinite(values) & (values > 0))
    if odd.any():
        k = int(np.argmax(odd))
        raise DomainError(
            f"{where}: a row must stand for a finite number of people above 0, got {values[k]:g} "
            f"in row {before + k}{_more(int(odd.sum()))}; leave out rows that stand for nobody"
        )
    refuse_huge(values, where=where)
    return values


def _more(n: int) -> str:
    return "" if n == 1 else f" and {n - 1:,} more"


def whole_people(people: FloatArray | IntArray) -> IntArray:
    """Return people of blocks as whole numbers, at least one of each."""
    # halves go up, so that taking whole people out changes nothing
    return np.maximum(np.floor(people + 0.5), 1).astype(np.int64)


def warn_of_far(blocks: TextArray, weighed: FloatArray, people: IntArray) -> None:
    """Warn where the weights of a sample add up to far more or fewer people than a block has."""
    far = far_off(blocks, weighed, people)
    if far:
        warnings.warn(
            f"align: the weights of {plural(len(far), 'block')} of {len(blocks):,} are far from "
            f"the people that the table counts, and were brought to them; worst: {far[0]}",
            AlignmentWarning,
            stacklevel=4,
        )


def far_off(blocks: TextArray, weighed: FloatArray, people: IntArray) -> tuple[str, ...]:
    """Say where the weights of a sample are far from the people of a block, worst first."""
    size = np.abs(np.log(np.maximum(people, 1) / weighed))
    order = np.argsort(-size, kind="stable")
    return tuple(
        f"block {str(blocks[k])!r}, {weighed[k]:,.1f} people by the weights, {people[k]:,} by the "
        "table"
        for k in order[size[order] > np.log(_FAR)]
    )
