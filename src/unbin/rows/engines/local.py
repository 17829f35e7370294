"""People in this process: arrays, tabmat matrices, Parquet files read part by part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from unbin._frames import is_wide
from unbin._typing import FloatArray, IntArray
from unbin.exceptions import ParameterError
from unbin.rows.cells import cross
from unbin.rows.columns import ColumnSums
from unbin.rows.contextual import Context, block_context, context_columns
from unbin.rows.design import Design, alone, lay_out
from unbin.rows.engines import Blocks, Engine, Layout
from unbin.rows.wide import lay_out_wide


class LocalEngine(Engine):
    """Sums are computed in this process, by threads."""

    name: ClassVar[str] = "local"
    takes_observed: ClassVar[bool] = True

    def rows(self, X: Any, blocks: Blocks, offset: Any, sums: ColumnSums | None = None) -> InMemory:
        return InMemory(X, blocks, offset, self.options.n_threads, sums)


@dataclass(frozen=True, slots=True)
class InMemory:
    """Features of people in an array or a tabmat matrix; ``sums`` are those of its columns."""

    X: Any
    blocks: Blocks
    offset: FloatArray | None
    n_threads: int
    sums: ColumnSums | None = None

    @property
    def n_features(self) -> int:
        """Columns."""
        return int(self.X.shape[1])

    @property
    def sampled(self) -> bool:
        """Whether the rows are a sample of the people."""
        return self.blocks.sampled

    def context(self) -> Context:
        """Return the block means of the features."""
        if is_wide(self.X):
            raise ParameterError(
                "contextual: needs an array of features, got a tabmat matrix; add block means to X"
            )
        blocks = self.blocks
        return block_context(self.X, blocks.names, blocks.codes, blocks.everybody)

    def crossed(self) -> tuple[InMemory, IntArray]:
        """Return the same people by crossed cell, and the block of each cell in every table."""
        blocks = self.blocks
        codes, cells = cross([blocks.codes, *blocks.others])
        return replace(self, blocks=blocks.by_cell(codes, np.bincount(codes), cells)), cells

    def design(self, layout: Layout, context: Context | None = None) -> Design:
        """Lay the rows out, the context as further columns."""
        X, codes, cells = self.X, self.blocks.codes, layout.cells
        if context is not None:
            X = np.column_stack([X, context.means[codes][:, context.used]])
        if cells is not None:
            codes = cells.rank[codes]
        same: dict[str, Any] = {
            "offset": self.offset,
            "fit_intercept": layout.fit_intercept,
            "seed": layout.seed,
            "n_threads": self.n_threads,
            "weights": self.blocks.weights,
        }
        if not is_wide(X):
            several: dict[str, Any] = {"others": self.blocks.others, "sampled": self.blocks.sampled}
            several["hashed"] = self.X  # what keys keep alive: not the copy with the context
            several["sums"] = self.sums if context is None else None
            several["group"] = None if cells is None else cells.group
            if self.blocks.known is not None:
                everybody = self.blocks.everybody
                several["everybody"] = np.ones(len(X)) if everybody is None else everybody
            return lay_out(X, codes, len(self.blocks.size), **several, **same)
        if cells is not None or self.blocks.known is not None or self.blocks.sampled:
            raise ParameterError(
                "X: several tables, observed people and survey weights need an array of features, "
                "got a tabmat matrix; pass an array"
            )
        return lay_out_wide(X, codes, len(self.blocks.size), **same)

    def known(self, design: Design, people: FloatArray, context: Context | None = None) -> Design:
        """Return the people whose outcome is known, each row a block, scaled as in ``design``."""
        rows = self.blocks.known
        columns = [*self.X[rows].T, *context_columns(context, self.blocks.codes[rows])]
        offset = None if self.offset is None else self.offset[rows]
        return alone(design, columns, offset, people)
