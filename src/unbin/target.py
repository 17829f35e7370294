"""A release tied to the rows of X: what stands where scikit-learn expects ``y``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from unbin.exceptions import AggregatedTargetError, SplitBlockError
from unbin.typing import IntArray, TextArray

if TYPE_CHECKING:
    from unbin.release import Release


class AggregatedTarget:
    """A release tied to the rows of X: the target of people known only as a table.

    It has a length and whole blocks of it can be selected, but it has no individual values:
    turning it into an array raises, so that nothing ever trains on block codes.

    Attributes
    ----------
    release : Release
        What was published, ranks resolved, one block per distinct code.
    codes : (n_rows,) int
        The block of each row, as a position in ``release.blocks``.
    """

    def __init__(self, release: Release, codes: IntArray) -> None:
        self.release = release
        self.codes = codes

    @property
    def shape(self) -> tuple[int]:
        """Number of rows, as numpy spells it."""
        return (len(self.codes),)

    @property
    def ndim(self) -> int:
        """Always 1."""
        return 1

    @property
    def blocks(self) -> TextArray:
        """The block id of each row."""
        return np.asarray(self.release.blocks[self.codes])

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, key: Any) -> AggregatedTarget:
        """Select rows; each block must be selected whole or not at all."""
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # scikit-learn asks for y[rows, ...]
        rows = np.arange(len(self.codes))[key]
        if np.ndim(rows) != 1:
            raise SplitBlockError(
                "rows: an aggregated target has no value of a single row, got one index; select "
                "the rows of whole blocks"
            )
        size = np.bincount(self.codes[rows], minlength=len(self.release))
        repeated = len(rows) - len(np.unique(rows))
        if repeated:
            raise SplitBlockError(
                f"rows: an aggregated target has each row once, got {repeated} repeated; select "
                "every row once"
            )
        split = (size > 0) & (size != self.release.n)
        if split.any():
            b = int(np.argmax(split))
            raise SplitBlockError(
                f"block {str(self.release.blocks[b])!r}: its statistics are about all of its "
                f"{self.release.n[b]} rows, got {size[b]} of them; split whole blocks with "
                "unbin.BlockKFold"
            )
        if not size.any():
            raise SplitBlockError(
                "rows: an aggregated target needs at least one block, got 0 rows; select the rows "
                "of whole blocks"
            )
        ids = self.blocks[rows]
        return self.release.select(np.unique(ids)).align(ids)

    def __iter__(self) -> Iterator[NoReturn]:
        raise AggregatedTargetError(_NO_VALUES)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AggregatedTargetError(_NO_VALUES)

    def __repr__(self) -> str:
        head, *rest = repr(self.release).splitlines()
        return "\n".join([f"AggregatedTarget: {len(self):,} rows", f"  {head}", *rest])


_NO_VALUES = (
    "aggregated target: it has no value per row, only what was published per block, and got used "
    "as if it had; score with model.score (scoring=None), or call model.impute() for individual "
    "targets"
)
