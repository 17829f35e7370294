"""Contextual effects: the block means of the features as further columns (Mundlak terms).

With them the coefficients of the features are effects within blocks, identified by the shape of the
blocks' tables, and the contextual coefficients are the effects between blocks less those within.

References
----------
Mundlak, Y. (1978). On the pooling of time series and cross section data. *Econometrica*, 46, 69-85.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbin._frames import as_floats, as_text
from unbin._typing import ArrayLike, BoolArray, FloatArray, IntArray, TextArray
from unbin.exceptions import AlignmentError

CONSTANT = 1e-9
"""Share of a feature's variance within blocks below which it counts as constant there."""


@dataclass(frozen=True, slots=True)
class Context:
    """Block means of the features, as they were when the model was fitted.

    Attributes
    ----------
    blocks : (n_blocks,) text, sorted
    means : (n_blocks, d)
    average : (d,)
        Mean over all people, for people whose block is not known.
    used : (d,) bool
        Features that vary within blocks; the block mean of any other is the feature itself.
    """

    blocks: TextArray
    means: FloatArray
    average: FloatArray
    used: BoolArray

    def rows(
        self,
        n: int,
        blocks: ArrayLike | None = None,
        block_means: Mapping[Any, ArrayLike] | None = None,
    ) -> FloatArray:
        """Return the context of ``n`` people, shape (n, d).

        A block known from the fit has its stored means, another one those in ``block_means``, and
        people of any other block the average.
        """
        if blocks is None:
            if block_means is not None:
                raise AlignmentError(
                    "block_means: must come with the block of each row, got no blocks; pass "
                    "blocks=..."
                )
            return np.broadcast_to(self.average, (n, len(self.average)))
        ids = as_text(blocks, where="blocks")
        if len(ids) != n:
            raise AlignmentError(f"blocks: {len(ids)} ids for {n} rows of X")
        names, codes = np.unique(ids, return_inverse=True)
        place = np.minimum(np.searchsorted(self.blocks, names), len(self.blocks) - 1)
        known = self.blocks[place] == names
        means = np.where(known[:, None], self.means[place], self.average)
        given = _by_text(block_means)
        for k in np.flatnonzero(~known):
            if str(names[k]) in given:
                means[k] = self._given(str(names[k]), given[str(names[k])])
        return np.asarray(means[codes])

    def _given(self, name: str, means: ArrayLike) -> FloatArray:
        values = as_floats(means, where=f"block_means[{name!r}]")
        if values.shape != self.average.shape or not np.isfinite(values).all():
            raise AlignmentError(
                f"block {name!r}: block_means must hold {len(self.average)} finite numbers, one "
                f"per feature, got shape {values.shape}"
            )
        return values


def context_columns(context: Context | None, codes: IntArray) -> list[FloatArray]:
    """Return the further columns of people in these blocks, each (n,); without a context none."""
    return [] if context is None else list(context.means[codes][:, context.used].T)


def _by_text(block_means: Mapping[Any, ArrayLike] | None) -> dict[str, ArrayLike]:
    """Return block means by the text of their ids, by which blocks are looked up."""
    if block_means is None:
        return {}
    if not isinstance(block_means, Mapping):
        raise AlignmentError(
            f"block_means: must be a mapping of block id to means, got "
            f"{type(block_means).__name__}; pass {{id: means}}"
        )
    keys = as_text(list(block_means), where="block_means")
    return dict(zip(map(str, keys), block_means.values(), strict=True))


def block_context(
    X: FloatArray, names: TextArray, codes: IntArray, weights: FloatArray | None = None
) -> Context:
    """Average every feature over the people of each block.

    Parameters
    ----------
    X : (n, d)
    names : (B,)
    codes : (n,)
        Position in ``names`` of each row's block.
    weights : (n,), optional
        People that each row stands for.
    """
    n = len(names)
    people = np.ones(len(codes)) if weights is None else weights
    size, average = np.bincount(codes, people, n), np.average(X, axis=0, weights=weights)
    sums = [np.bincount(codes, people * x, n) for x in X.T]
    means = np.column_stack(sums) / size[:, None]
    apart = ((x - m[codes]) ** 2 for x, m in zip(X.T, means.T, strict=True))
    within = np.array([np.average(each, weights=weights) for each in apart])
    used = within > CONSTANT * np.average((X - average) ** 2, axis=0, weights=weights)
    return Context(names, means, average, used)
