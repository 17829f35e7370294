"""What was published beside what a fit expects, block by block: all that pictures need.

Counts of people in bins, never a personal value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from unbin._checks import check_flag
from unbin._typing import BoolArray, FloatArray, IntArray, TextArray
from unbin.exceptions import ParameterError
from unbin.likelihood.infer.estimate import FittedTable, excess_misfit
from unbin.release.alignment import SMALL


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
    residual : (B,)
        How far the level of each block lies from its expectation, in standard deviations; positive
        where the outcome is larger than expected.
    whole : bool
        Whether the target takes whole numbers.
    public : bool
        Whether everybody has the table already, so that nothing of it need be masked.
    less_known : bool
        Whether people whose outcome is known were taken out of the counts. Beside the table itself
        these tell their outcomes, so they are neither saved nor reported.
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
    residual: FloatArray
    whole: bool
    public: bool = False
    less_known: bool = False

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

        These are the ones that may be under ``smallest`` people, and others beside them so that
        the block's people, which are known, do not reveal them: see :func:`hide_more`.
        """
        small = self.valid() & (self.interval()[0] < smallest)
        return hide_more(self.count, small, self.valid(), smallest)

    def drawable(self, smallest: int) -> BoolArray:
        """Mark the blocks that may be shown, shape (B,): see :func:`drawable_sizes`."""
        return drawable_sizes(self.n, smallest)

    def whole_blocks(self, smallest: int) -> BoolArray:
        """Mark the blocks that may be shown with all of their counts, shape (B,)."""
        return self.drawable(smallest) & ~self.masked(smallest).any(axis=1)

    def shown_whole(self, smallest: int) -> bool:
        """Return whether nothing of the table is masked."""
        return not self.masked(smallest).any() and bool(self.drawable(smallest).all())

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
            residual=np.full(1, np.nan),
            whole=self.whole,
            public=self.public,
            less_known=self.less_known,
        )


@dataclass(frozen=True, slots=True)
class BlockStatistics:
    """What was published of the B blocks beside their counts; see :class:`Published`.

    Attributes
    ----------
    blocks : (B,) text
    n, misfit, df, residual : (B,)
    public, less_known : bool
    """

    blocks: TextArray
    n: IntArray
    misfit: FloatArray
    df: FloatArray
    residual: FloatArray
    public: bool
    less_known: bool

    def __len__(self) -> int:
        return len(self.blocks)

    def drawable(self, smallest: int) -> BoolArray:
        """Mark the blocks that may be shown, shape (B,): see :func:`drawable_sizes`."""
        return drawable_sizes(self.n, smallest)

    def shown_whole(self, smallest: int) -> bool:
        """Return whether all blocks may be shown."""
        return bool(self.drawable(smallest).all())


@dataclass(frozen=True, slots=True)
class BlockMeans(BlockStatistics):
    """Published and expected means of the blocks that have one.

    Attributes
    ----------
    mean, expected : (B,)
    """

    mean: FloatArray
    expected: FloatArray


@dataclass(frozen=True, slots=True)
class BlockQuantiles(BlockStatistics):
    """Published order statistics of the blocks that have any, and what a fit expects below them.

    Attributes
    ----------
    value : (B, J)
        NaN in padding.
    share, expected : (B, J)
        The share of people at or below the value: as its rank says, and as the fit expects.
    """

    value: FloatArray
    share: FloatArray
    expected: FloatArray


def drawable_sizes(n: IntArray, smallest: int) -> BoolArray:
    """Mark the blocks whose sizes may be shown, shape (B,).

    Those of ``smallest`` people and more; less others where the sizes of all that are shown would
    reveal that of a smaller block.
    """
    small = n[None] < smallest
    return np.asarray(~hide_more(n[None], small, np.ones_like(small), smallest)[0])


def smallest_shown(table: Published | BlockStatistics | None, public: bool | None) -> int:
    """Return the smallest count to show: 0 of a public table, else the usual rule.

    Parameters
    ----------
    table : Published, BlockStatistics or None
    public : bool or None
        None: as the release says.
    """
    if public is None:
        public = table is not None and table.public
    return 0 if check_flag("public", public) else SMALL


def hide_more(
    count: FloatArray | IntArray, small: BoolArray, valid: BoolArray, smallest: int
) -> BoolArray:
    """Hide more counts of each row than the small ones, so that its sum does not reveal them.

    At least one further count is hidden, from the last to the first, until those hidden have
    ``smallest`` people beyond the ``smallest`` that each further one is known to have. Whoever
    knows the sum, this rule, and even which counts are small, then still finds ``smallest`` values
    or more possible for each: which further ones are hidden depends on their places, not on how
    large they are, and where it stops on their sum. A row may end up hidden as a whole.

    Parameters
    ----------
    count : (B, K)
    small : (B, K)
        Counts to be hidden.
    valid : (B, K)
        Counts that are there.
    smallest : int
    """
    hidden = small.copy()
    for k in reversed(range(count.shape[1])):
        further = hidden & ~small
        beyond = np.where(hidden, count, 0).sum(axis=1) - smallest * further.sum(axis=1)
        told = small.any(axis=1) & (~further.any(axis=1) | (beyond < smallest))
        if not told.any():
            break
        hidden[:, k] |= told & valid[:, k]
    return hidden


def published_of(
    fit: FittedTable, blocks: TextArray, *, whole: bool, public: bool, less_known: bool = False
) -> Published | None:
    """Return what a fit was made from; None when no block has counts.

    Parameters
    ----------
    fit : FittedTable
    blocks : (B,) text
    whole : bool
        Whether the target takes whole numbers.
    public, less_known : bool
        See :class:`Published`.
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
        residual=fit.block_residual[known],
        whole=whole,
        public=public,
        less_known=less_known,
    )


def means_of(
    fit: FittedTable, blocks: TextArray, *, public: bool, less_known: bool = False
) -> BlockMeans | None:
    """Return the means that a fit was made from beside expected ones; None without any.

    Parameters as in :func:`published_of`.
    """
    if fit.means is None or fit.expected_means is None:
        return None
    known = np.isfinite(fit.means)
    return BlockMeans(
        *_shared_parts(fit, blocks, known),
        public=public,
        less_known=less_known,
        mean=fit.means[known],
        expected=fit.expected_means[known],
    )


def quantiles_of(fit: FittedTable, blocks: TextArray, *, public: bool) -> BlockQuantiles | None:
    """Return the order statistics that a fit was made from; None without any.

    Parameters as in :func:`published_of`.
    """
    if fit.quantiles is None or fit.expected_shares is None:
        return None
    order, known = fit.quantiles, fit.quantiles.known
    valid = order.valid[known]
    return BlockQuantiles(
        *_shared_parts(fit, blocks, known),
        public=public,
        less_known=False,
        value=np.where(valid, order.value[known], np.nan),
        share=np.where(valid, order.rank[known] / order.n[known, None], np.nan),
        expected=np.where(valid, fit.expected_shares[known], np.nan),
    )


def _shared_parts(
    fit: FittedTable, blocks: TextArray, known: BoolArray
) -> tuple[TextArray, IntArray, FloatArray, FloatArray, FloatArray]:
    """Return what statistics of blocks have in common, of some blocks."""
    return (
        blocks[known],
        fit.counts.n[known],
        fit.block_misfit[known],
        fit.block_df[known],
        fit.block_residual[known],
    )
