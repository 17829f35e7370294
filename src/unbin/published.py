"""What was published beside what a fit expects, block by block: all that pictures need.

Counts of people in bins, never a personal value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from unbin.exceptions import ParameterError
from unbin.likelihood.inference import excess_misfit
from unbin.likelihood.results import LikelihoodFit
from unbin.typing import BoolArray, FloatArray, IntArray, TextArray


@dataclass(frozen=True, slots=True)
class Published:
    """Published and expected counts of the B blocks that have any, in at most K bins.

    Attributes
    ----------
    blocks : (B,) text
    n : (B,)
        People in each block.
    lower, upper : (K,) when all blocks share their bins, else (B, K)
        Ends of the bins as fitted, far ones merged; NaN in padding. Of whole numbers, the smallest
        and the largest that a bin holds.
    count : (B, K)
        Published counts; of suppressed and rounded ones, a count inside the interval.
    low, high : (B, K) or None
        The interval that each count lies in; None when all counts are exact.
    expected : (B, K)
        Counts that the fit expects.
    misfit, df : (B,)
        Contribution of each block to the misfit Q, and its expectation.
    whole : bool
        Whether the target takes whole numbers.
    """

    blocks: TextArray
    n: IntArray
    lower: FloatArray
    upper: FloatArray
    count: FloatArray
    low: FloatArray | None
    high: FloatArray | None
    expected: FloatArray
    misfit: FloatArray
    df: FloatArray
    whole: bool

    def __len__(self) -> int:
        return len(self.blocks)

    def valid(self) -> BoolArray:
        """Mark the bins that are not padding, shape (B, K)."""
        return np.broadcast_to(~np.isnan(self.lower), self.count.shape)

    def shared(self) -> bool:
        """Return whether all blocks have the same bins."""
        return self.lower.ndim == 1

    def ends(self, b: int) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper ends of the bins of a block."""
        lower, upper = (np.atleast_2d(ends) for ends in (self.lower, self.upper))
        row = 0 if self.shared() else b
        real = ~np.isnan(lower[row])
        return lower[row, real], upper[row, real]

    def interval(self) -> tuple[FloatArray, FloatArray]:
        """Return the least and the most that each count can be, shape (B, K)."""
        low = self.count if self.low is None else self.low
        return low, self.count if self.high is None else self.high

    def worst_first(self) -> IntArray:
        """Return the places of the blocks, from the one that fits worst to the best."""
        return np.argsort(-excess_misfit(self.misfit, self.df), kind="stable")

    def largest_first(self) -> IntArray:
        """Return the places of the blocks, from the largest to the smallest."""
        return np.argsort(-self.n, kind="stable")

    def masked(self, smallest: int) -> BoolArray:
        """Mark the counts that must not be shown, shape (B, K).

        These are the ones that may be under ``smallest`` people. What is masked in a block is
        known in sum, because the block's people are known: so the next smallest counts are masked
        too until at least two are, with ``smallest`` people in sum.
        """
        valid = self.valid()
        mask = valid & (self.interval()[0] < smallest)
        order = np.argsort(np.where(valid, self.count, np.inf), axis=1, kind="stable")
        for column in order.T:  # from the smallest count of each block to the largest
            cell = np.arange(len(self)), column
            people = np.where(mask, self.count, 0).sum(axis=1)
            exposed = mask.any(axis=1) & ((mask.sum(axis=1) < 2) | (people < smallest))
            mask[cell] |= exposed & valid[cell]
        return mask

    def drawable(self, smallest: int) -> BoolArray:
        """Mark the blocks that may be shown, shape (B,).

        Those of ``smallest`` people and more; less the smallest of them where the sizes of all
        others would tell that of a smaller block.
        """
        small = self.n < smallest
        while (
            small.any() and not small.all() and (small.sum() < 2 or self.n[small].sum() < smallest)
        ):
            small = small | (self.n == self.n[~small].min())
        return ~small

    def with_edges(self, change: Callable[[FloatArray], FloatArray]) -> Published:
        """Return the same counts with the ends of the bins on another scale."""
        return replace(self, lower=change(self.lower), upper=change(self.upper))

    def together(self) -> Published:
        """Return all blocks as one; they must have the same bins."""
        if not self.shared():
            raise ParameterError("block: the blocks have different bins, got no name; name a block")
        return Published(
            blocks=np.array(["all blocks"]),
            n=self.n.sum(keepdims=True),
            lower=self.lower,
            upper=self.upper,
            count=self.count.sum(axis=0, keepdims=True),
            low=None if self.low is None else self.low.sum(axis=0, keepdims=True),
            high=None if self.high is None else self.high.sum(axis=0, keepdims=True),
            expected=self.expected.sum(axis=0, keepdims=True),
            misfit=self.misfit.sum(keepdims=True),
            df=self.df.sum(keepdims=True),
            whole=self.whole,
        )


def published_of(fit: LikelihoodFit, blocks: TextArray, *, whole: bool) -> Published | None:
    """Return what a fit was made from; None when no block has counts.

    Parameters
    ----------
    fit : LikelihoodFit
    blocks : (B,) text
    whole : bool
        Whether the target takes whole numbers.
    """
    counts, valid = fit.counts, fit.counts.valid()
    known = valid.sum(axis=1) > 1
    if not known.any():
        return None
    lower, upper = counts.lower.copy(), counts.upper.copy()
    if not counts.shared:
        lower[~valid] = upper[~valid] = np.nan
        lower, upper = lower[known], upper[known]
    return Published(
        blocks=blocks[known],
        n=counts.n[known],
        lower=lower,
        upper=upper,
        count=np.where(valid, counts.count, 0.0)[known],
        low=None if counts.low is None else counts.low[known],
        high=None if counts.high is None else counts.high[known],
        expected=np.where(valid, fit.expected, 0.0)[known],
        misfit=fit.block_misfit[known],
        df=fit.block_df[known],
        whole=whole,
    )
