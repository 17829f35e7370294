"""A release tied to the rows of X: what stands where scikit-learn expects ``y``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from unbin._html import described
from unbin._typing import IntArray, TextArray
from unbin.exceptions import (
    AggregatedTargetError,
    AlignmentError,
    ParameterError,
    SplitBlockError,
)
from unbin.release.weights import RowWeights, whole_people

if TYPE_CHECKING:
    from unbin.release.release import Release


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
    name : str
        What the blocks are called ("county"): the name of the column they were aligned with.
    weights : RowWeights or None
        How many people each row stands for; None where it is one.

    Examples
    --------
    >>> import unbin
    >>> release = unbin.Release.from_means({"block": ["A", "B"], "mean": [3.5, 4.1]})
    >>> target = release.align(["A", "A", "B"])  # the block of each row of X
    >>> len(target), target.codes.tolist()
    (3, [0, 0, 1])
    """

    def __init__(
        self,
        release: Release,
        codes: IntArray,
        name: str = "",
        weights: RowWeights | None = None,
    ) -> None:
        self.release = release
        self.codes = _check_codes(release, codes, weights)
        self.name = name
        self.weights = weights

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

    def with_release(self, release: Release) -> AggregatedTarget:
        """Return the same rows, tied to another release of the same blocks."""
        return AggregatedTarget(release, self.codes, self.name, self.weights)

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
        whole = np.bincount(self.codes, minlength=len(self.release))
        repeated = len(rows) - len(np.unique(rows))
        if repeated:
            raise SplitBlockError(
                f"rows: an aggregated target has each row once, got {repeated} repeated; select "
                "every row once"
            )
        split = (size > 0) & (size != whole)
        if split.any():
            b = int(np.argmax(split))
            raise SplitBlockError(
                f"block {str(self.release.blocks[b])!r}: its statistics are about all of its "
                f"{whole[b]} rows, got {size[b]} of them; split whole blocks with "
                "unbin.BlockKFold"
            )
        if not size.any():
            raise SplitBlockError(
                "rows: an aggregated target needs at least one block, got 0 rows; select the rows "
                "of whole blocks"
            )
        kept, codes = np.unique(self.codes[rows], return_inverse=True)
        release = self.release.select(self.release.blocks[kept])
        weights = None if self.weights is None else self.weights.take(rows)
        return AggregatedTarget(release, codes, self.name, weights)

    def __iter__(self) -> Iterator[NoReturn]:
        raise AggregatedTargetError(NO_VALUES)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AggregatedTargetError(NO_VALUES)

    def __repr__(self) -> str:
        head, *rest = repr(self.release).splitlines()
        return "\n".join([f"AggregatedTarget: {len(self):,} rows", f"  {head}", *rest])

    def _repr_html_(self) -> str:
        return described(repr(self))


def is_release(value: Any) -> bool:
    """Tell whether something is a release, whose class is not known here."""
    return hasattr(value, "align") and hasattr(value, "histogram")


def _check_codes(release: Any, codes: Any, weights: RowWeights | None) -> IntArray:
    """Return the codes if every row is in a block, and every block has the people it counts."""
    if not is_release(release):
        raise ParameterError(
            f"release: must be a release, got {type(release).__name__}; use release.align(blocks)"
        )
    if not isinstance(codes, np.ndarray) or codes.dtype.kind not in "iu" or codes.ndim != 1:
        got = getattr(codes, "dtype", type(codes).__name__)
        raise ParameterError(
            f"codes: must be a one-dimensional array of whole numbers, got {got}; use "
            "release.align(blocks)"
        )
    n_blocks, low, high = len(release.blocks), codes.min(initial=0), codes.max(initial=0)
    if low < 0 or high >= n_blocks:
        raise ParameterError(
            f"codes: must be positions in release.blocks, 0 to {n_blocks - 1}, got {low} to "
            f"{high}; use release.align(blocks)"
        )
    rows = np.bincount(codes, minlength=n_blocks)
    off = rows != release.n
    if weights is not None:
        off = rows == 0
        if not weights.sampled:
            rows = whole_people(weights.people(codes, n_blocks))
            off |= rows != release.n
    if off.any():
        b = int(np.argmax(off))
        raise AlignmentError(
            f"block {str(release.blocks[b])!r}: the release counts {release.n[b]} people, got "
            f"{rows[b]} codes; use release.align(blocks)"
        )
    return np.asarray(codes)


NO_VALUES = (
    "aggregated target: it has no value per row, only what was published per block, and got used "
    "as if it had; score with model.score (scoring=None), or call model.impute() for individual "
    "targets"
)
