"""Splitting whole blocks, so that what was held out is a table of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length

from unbin._blocks import deal_blocks
from unbin._checks import check_flag, check_generator, check_whole
from unbin._typing import IntArray
from unbin.exceptions import AggregatedTargetError, ParameterError
from unbin.release.target import AggregatedTarget


class BlockKFold:
    """K folds of whole blocks with about as many people each, for scikit-learn's ``cv=``.

    Parameters
    ----------
    n_splits : int
    shuffle : bool
        Assign blocks of about the same size to folds at random instead of in serpentine order.
    random_state : int or None
        Seeds ``shuffle``.

    Examples
    --------
    >>> import numpy as np, unbin
    >>> county = np.repeat(["a", "b", "c", "d"], 5)
    >>> target = unbin.aggregate(np.arange(20.0), county).align(county)
    >>> [len(test) for _, test in unbin.BlockKFold(n_splits=2).split(np.zeros((20, 1)), target)]
    [10, 10]
    """

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = False, random_state: int | None = None
    ) -> None:
        self.n_splits = check_whole("n_splits", n_splits, low=2)
        self.shuffle = check_flag("shuffle", shuffle)
        self.random_state = random_state

    def split(
        self, X: Any, y: AggregatedTarget, groups: Any = None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the rows of the training and of the held-out blocks."""
        if not isinstance(y, AggregatedTarget):
            raise AggregatedTargetError(
                f"y: BlockKFold splits an aggregated target, got {type(y).__name__}; pass "
                "release.align(blocks)"
            )
        if X is not None:
            check_consistent_length(X, y)
        fold = self._folds(y)[y.codes]
        rows = np.arange(len(y))
        for k in range(self.n_splits):
            yield rows[fold != k], rows[fold == k]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return self.n_splits

    def _folds(self, y: AggregatedTarget) -> IntArray:
        """Return the fold of each block."""
        n_blocks = len(y.release)
        if n_blocks < self.n_splits:
            raise ParameterError(
                f"n_splits: {self.n_splits} folds need as many blocks, got {n_blocks}; lower "
                "n_splits"
            )
        rng = check_generator(self.random_state) if self.shuffle else None
        return deal_blocks(y.release.n, self.n_splits, rng)
