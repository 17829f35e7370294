"""Rows that stand for several people, ranked as if each person were a row.

The people of a row have the same mean and the same key, so their ranks follow each other. The cuts
between runs fall between rows, or divide the people of a row: the people of a row within one run
have one target, and nothing is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbin._blocks import block_of_rows
from unbin._typing import FloatArray, IntArray, KeyArray
from unbin.exceptions import ParameterError
from unbin.families import BregmanFamily
from unbin.matching.bounds import RankBounds
from unbin.matching.splits import best_split
from unbin.rows.design import Design
from unbin.rows.rows import Rows, kernel


@dataclass(frozen=True, slots=True)
class Shared:
    """Targets of people, those of one row within one run together.

    Attributes
    ----------
    row : (m,)
    people : (m,)
        How many people of the row have the target.
    z : (m,)
    """

    row: IntArray
    people: FloatArray
    z: FloatArray

    def by_row(self, values: FloatArray, n: int) -> FloatArray:
        """Add up values (m,) over the people of each of n rows."""
        return np.bincount(self.row, self.people * values, n).astype(np.float64)

    def means(self, n: int) -> FloatArray:
        """Return the mean target of the people of each of n rows."""
        return self.by_row(self.z, n) / self.by_row(np.ones(len(self.z)), n)

    def divergence(self, family: BregmanFamily, eta: FloatArray, mean: FloatArray) -> float:
        """Return D(z || mean) over everybody, for eta and mean (n,) of the rows."""
        return total_divergence(family, self.z, eta[self.row], mean[self.row], self.people)


def shared_targets(
    mean: FloatArray,
    eta: FloatArray,
    bounds: RankBounds,
    family: BregmanFamily,
    key: KeyArray,
    start: IntArray,
    weights: FloatArray,
) -> Shared:
    """Return the targets nearest to the means, as ``nearest_targets`` does for repeated rows.

    Parameters
    ----------
    mean, eta : (n,)
    bounds : RankBounds
        Of people.
    family : BregmanFamily
    key : (n,) uint64
    start : (B + 1,)
        Rows of block b are ``start[b]:start[b + 1]``.
    weights : (n,)
        People that each row stands for, whole numbers.
    """
    order = np.lexsort((key, eta, block_of_rows(start)))
    people = weights[order].astype(np.int64)
    if bounds.count_low is not None:
        bounds = best_split(mean, bounds, family, eta, np.repeat(order, people))
    last = np.cumsum(people)
    ends = bounds.cut + np.repeat(bounds.start[:-1], np.diff(bounds.run_start))
    cuts = np.union1d(last, ends)
    cuts = cuts[cuts > 0]
    row = order[np.searchsorted(last, cuts)]
    run = np.searchsorted(ends, cuts)
    z = np.clip(mean[row], bounds.lower[run], bounds.upper[run])
    return Shared(row, np.diff(cuts, prepend=0).astype(np.float64), z)


def total_divergence(
    family: BregmanFamily,
    z: FloatArray,
    eta: FloatArray,
    mean: FloatArray,
    people: FloatArray | None,
) -> float:
    """Return D(z || mean) over people, as many as each entry stands for."""
    if people is None:
        return family.total_divergence(z, eta, mean)
    each = np.where(z == mean, 0.0, family.divergence_at(z, eta, mean))
    return float(people @ each)


def check_repeatable(design: Design) -> None:
    """Raise unless every row stands for a whole number of people."""
    if design.weight is None:
        return
    if design.sampled:
        raise ParameterError(
            "weights: matching ranks all people of a block, got a sample of them "
            "(weighting='survey'); use AggregatedGLM with method='likelihood'"
        )
    odd = [found[0] for found in design.parts.stream(not_whole) if len(found)]
    if odd:
        raise ParameterError(
            f"weights: matching ranks people, so that a row stands for a whole number of them, got "
            f"{odd[0]:g}; use AggregatedGLM with method='likelihood'"
        )


@kernel
def not_whole(rows: Rows) -> FloatArray:
    """Return the first weight that is no whole number above 0, if there is one."""
    people = rows.people()
    return np.asarray(people[(people != np.rint(people)) | (people < 1)][:1])
