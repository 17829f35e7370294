"""Where sums over people are computed: in this process, on a Dask cluster, on a GPU.

An engine takes people as they were given and returns :class:`Everybody`, whose rows can be laid
out. A new one is a class of its own and one line in ``ENGINES``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar, Protocol

from unbin._frames import is_dask
from unbin._typing import FloatArray, IntArray, TextArray
from unbin.exceptions import EngineError
from unbin.rows.cells import Cells
from unbin.rows.columns import ColumnSums
from unbin.rows.contextual import Context, context_columns
from unbin.rows.design import Design, alone
from unbin.rows.parts import LocalParts, Parts
from unbin.rows.sources import Columns, recipes_of
from unbin.rows.survey import Surveyed, scale_of

ENGINES = {
    "local": "unbin.rows.engines.local:LocalEngine",
    "dask": "unbin.rows.engines.dask:DaskEngine",
    "torch": "unbin.rows.engines.torch:TorchEngine",
}
"""Every engine by its name, imported on first use."""


@dataclass(frozen=True, slots=True)
class Options:
    """The estimator's parameters that engines read.

    Attributes
    ----------
    n_threads : int
    ranked : bool
        Whether people will be ranked within their blocks.
    alternating : bool
        Whether everybody's targets are needed at every step.
    client : distributed.Client, address or None
        Of a Dask cluster.
    device : str or None
    dtype : str
        Of rows on the device.
    checkpoint : str or None
        Named in the error when all workers are gone.
    """

    n_threads: int
    ranked: bool = False
    alternating: bool = False
    client: Any = None
    device: str | None = None
    dtype: str = "float64"
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows are laid out.

    Attributes
    ----------
    fit_intercept : bool
    seed : int
        Changes how ties are broken.
    cells : Cells or None
        The order of crossed cells, where people are laid out by these.
    """

    fit_intercept: bool
    seed: int = 0
    cells: Cells | None = None


@dataclass(frozen=True, slots=True)
class Blocks:
    """The block of each row.

    Attributes
    ----------
    names : (B,) text, sorted
        Of several tables those of the first.
    codes : (n,) array or tensor
        Position in ``names`` of each row's block; the crossed cell of each row, where there are
        ``cells``.
    size : (B,)
        Rows of each block, or cell.
    others : tuple of (n,)
        The block of each row in further partitions.
    weights : (n,) or None
        People that each row stands for in the tables; None where it is one.
    sampled : bool
        Whether the rows are a sample of the people.
    known : (m,) or None
        Rows whose outcome is known; unless the tables count them too, their weight is 0.
    everybody : (n,) or None
        The weights, those included whose outcome is known.
    cells : (T, C) or None
        The block of each crossed cell in every table.
    """

    names: TextArray
    codes: Any
    size: IntArray
    others: tuple[IntArray, ...] = ()
    weights: Any = None
    sampled: bool = False
    known: IntArray | None = None
    everybody: Any = None
    cells: IntArray | None = None

    def by_cell(self, codes: Any, size: IntArray, cells: IntArray) -> Blocks:
        """Return the same by crossed cell; ``codes`` are those of the rows."""
        return replace(self, codes=codes, size=size, others=(), cells=cells)


class Everybody(Protocol):
    """Everybody's features, wherever they are."""

    @property
    def n_features(self) -> int:
        """Columns."""

    @property
    def sampled(self) -> bool:
        """Whether the rows are a sample of the people."""

    def context(self) -> Context:
        """Return the block means of the features."""

    def crossed(self) -> tuple[Everybody, IntArray]:
        """Return the same people by crossed cell, and the block of each cell in every table.

        (T, C); a context is then one of the cells.
        """

    def design(self, layout: Layout, context: Context | None = None) -> Design:
        """Lay the rows out, the context as further columns."""

    def known(self, design: Design, people: FloatArray, context: Context | None = None) -> Design:
        """Return the people whose outcome is known, each row a block, scaled as in ``design``.

        ``people`` (m,) are those that each of these rows stands for.
        """


class Engine:
    """Where sums over people are computed.

    Attributes
    ----------
    takes_blocks : bool
        Whether people in memory may come with the ids of their blocks beside the release itself.
    takes_observed : bool
        Whether targets may be observed.
    """

    name: ClassVar[str]
    takes_blocks: ClassVar[bool] = False
    takes_observed: ClassVar[bool] = False

    def __init__(self, options: Options) -> None:
        self.options = options

    def check(self, X: Any) -> None:
        """Raise where features in memory are of a kind that the engine does not take."""

    def owns(self, values: Any) -> bool:
        """Tell whether values are of a kind that only this engine knows; it checks them itself."""
        return False

    def blocks(
        self, block: Any, n: int, weights: Any = None, *, sampled: bool = False
    ) -> tuple[Blocks, FloatArray | IntArray]:
        """Return the blocks of n rows in memory, from their ids, and the people of each block.

        ``weights`` (n,) are those that each row stands for; ``sampled``: they are a sample.
        """
        raise NotImplementedError

    def rows(
        self, X: Any, blocks: Blocks, offset: Any, sums: ColumnSums | None = None
    ) -> Everybody:
        """Return people whose features are in memory; ``sums``: of their columns, if known."""
        raise NotImplementedError

    @contextmanager
    def parts(self, X: Any, columns: Columns) -> Iterator[Parts]:
        """Yield the people of Parquet files in parts, as read, for as long as they are needed."""
        if is_dask(X):
            raise EngineError(
                f"engine: {self.name!r} cannot read a Dask collection; pass engine='dask', or "
                "X.compute()"
            )
        yield LocalParts(recipes_of(X, columns), self.options.n_threads)

    def people(self, surveyed: Surveyed) -> Everybody:
        """Return people who were read in parts."""
        return InParts(surveyed)


@dataclass(frozen=True, slots=True)
class InParts:
    """Features of people in parts."""

    surveyed: Surveyed

    @property
    def n_features(self) -> int:
        """Columns."""
        return len(self.surveyed.whole.mean)

    @property
    def sampled(self) -> bool:
        """Whether the rows are a sample of the people."""
        return self.surveyed.sampled

    def context(self) -> Context:
        """Return the block means of the features."""
        return self.surveyed.whole.context()

    def crossed(self) -> tuple[InParts, IntArray]:
        """Return the same people, and the block of each cell in every table, (T, C)."""
        return self, self.surveyed.whole.codes

    def design(self, layout: Layout, context: Context | None = None) -> Design:
        """Lay the rows out, the context as further columns."""
        scale = scale_of(
            self.surveyed.whole,
            fit_intercept=layout.fit_intercept,
            seed=layout.seed,
            context=context,
            cells=layout.cells,
        )
        return self.surveyed.design(scale)

    def known(self, design: Design, people: FloatArray, context: Context | None = None) -> Design:
        """Return the people whose outcome is known, each row a block, scaled as in ``design``."""
        rows = self.surveyed.known
        assert rows is not None
        codes = self.surveyed.whole.places(rows.blocks)
        columns = [*rows.columns, *context_columns(context, codes)]
        return alone(design, columns, rows.offset, people)


def open_engine(name: str, options: Options) -> Engine:
    """Return the engine of that name; raise if it does not support the options."""
    module, attribute = ENGINES[name].split(":")
    engine: Engine = getattr(import_module(module), attribute)(options)
    return engine
