"""The z-step over all counts that may have been suppressed: the best split, then Lemma 3."""

from __future__ import annotations

import numpy as np

from unbin._blocks import block_of_rows
from unbin._typing import FloatArray, KeyArray
from unbin.families import BregmanFamily
from unbin.matching.bounds import RankBounds
from unbin.matching.impute import impute
from unbin.matching.splits import best_split


def nearest_targets(
    mean: FloatArray, eta: FloatArray, bounds: RankBounds, family: BregmanFamily, key: KeyArray
) -> FloatArray:
    """Return the targets nearest to the means, over all counts that may have been suppressed."""
    if bounds.count_low is not None:
        order = np.lexsort((key, eta, block_of_rows(bounds.start)))
        bounds = best_split(mean, bounds, family, eta, order)
    return impute(mean, bounds, eta=eta, key=key)
