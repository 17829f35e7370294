"""Leaving out whole blocks: rows of one table, or numbers of several tables of the same people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_consistent_length

from unbin._blocks import deal_blocks, deal_tables
from unbin._checks import check_choice, check_flag, check_generator, check_kind, check_whole
from unbin._typing import ArrayLike, BoolArray, FloatArray, IntArray
from unbin.estimator import AggregatedGLM
from unbin.exceptions import AggregatedTargetError, ParameterError
from unbin.families import get_family
from unbin.fitting.inputs import context_blocks
from unbin.likelihood.data.tables import published_counts
from unbin.release import Release
from unbin.release.join import JoinedTarget, join
from unbin.release.target import AggregatedTarget


class BlockKFold:
    """K folds of whole blocks with about the same number of people, for scikit-learn's ``cv=``.

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
        if isinstance(y, JoinedTarget):
            what = f"{len(y.tables)} tables of the same people"
            if y.observed is not None:
                what = "tables and outcomes that are known"
            raise AggregatedTargetError(
                f"y: the rows of {what} cannot be split, every row counts in all of them; use "
                "unbin.cross_validate(model, X, target)"
            )
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


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """How well models predict the numbers of blocks they did not see.

    Attributes
    ----------
    score : (n_splits,)
        Of each fold: the mean log score of the counts left out, per person they count; the larger
        the better.
    people : (n_splits,)
        People in the blocks left out, once per table that they are left out of.
    tables : tuple of str
        Tables of which blocks were left out.
    """

    score: FloatArray
    people: IntArray
    tables: tuple[str, ...]

    @property
    def mean(self) -> float:
        """The mean score of all that was left out."""
        return float(self.people @ self.score / self.people.sum())

    @property
    def standard_error(self) -> float:
        """Of the mean, from how much folds differ."""
        return float(self.score.std(ddof=1) / np.sqrt(len(self.score)))

    def __str__(self) -> str:
        return (
            f"cross-validation: log score {self.mean:.4f} per person (standard error "
            f"{self.standard_error:.4f}), {len(self.score)} folds of the blocks of "
            f"{', '.join(self.tables)}"
        )


def cross_validate(
    model: AggregatedGLM,
    X: ArrayLike,
    target: AggregatedTarget | JoinedTarget,
    n_splits: int = 5,
    *,
    table: str | None = None,
    offset: ArrayLike | None = None,
    random_state: int | None = None,
) -> CrossValidation:
    """Leave out blocks in turn, and score how well the others predict their numbers.

    The people of a block that is left out stay in X: with several tables, the others still count
    them. Known outcomes stay too.

    Parameters
    ----------
    model : AggregatedGLM
        Its settings; copies are fitted. Its method is "likelihood".
    X : (n, d)
    target : AggregatedTarget or JoinedTarget
    n_splits : int
    table : str, optional
        Leave out blocks of this table. By default, of every table with at least two blocks per
        fold, or of all tables together if none has as many.
    offset : (n,), optional
    random_state : int, optional
        Deals blocks of about the same size at random; without it in serpentine order.

    Examples
    --------
    >>> import numpy as np, unbin
    >>> rng = np.random.default_rng(0)
    >>> county, sex = np.repeat(np.arange(30), 40), rng.integers(0, 2, 1200)
    >>> X = np.column_stack([rng.normal(size=1200), sex])
    >>> y = X @ [0.5, 1.0] + rng.normal(size=1200)
    >>> target = unbin.join(*(unbin.aggregate(y, ids).align(ids) for ids in (county, sex)))
    >>> with_slopes = unbin.cross_validate(unbin.AggregatedGLM(), X, target)
    >>> without = unbin.cross_validate(unbin.AggregatedGLM(alpha=1e6), X, target)
    >>> with_slopes.mean > without.mean
    True
    """
    check_kind("model", model, AggregatedGLM, instead="a model with its settings")
    check_choice("method", model.method, ("likelihood",))
    n_splits = check_whole("n_splits", n_splits, low=2)
    if isinstance(target, AggregatedTarget):
        target = join(target)
    if not isinstance(target, JoinedTarget):
        raise AggregatedTargetError(
            f"target: must be an aggregated target, got {type(target).__name__}; pass "
            "release.align(blocks) or unbin.join(...)"
        )
    folds = _deal_target(target, n_splits, table, random_state)
    scores, people = [], []
    for k in range(n_splits):
        held = [_in_fold(fold, k, len(t.release)) for fold, t in zip(folds, target.tables,
                strict=True)]  # fmt: skip
        fitted = clone(model).fit(X, target.without(held), offset=offset)
        rest, blocks = (
            target.without([~mask for mask in held]),
            context_blocks(fitted.tables_, target),
        )
        scores.append(fitted.score(X, rest, blocks=blocks, offset=offset))
        pairs = zip(held, target.tables, strict=True)
        people.append(sum(int(t.release.n[mask].sum()) for mask, t in pairs))
    named = tuple(name for name, fold in zip(target.names, folds, strict=True) if fold is not None)
    return CrossValidation(np.array(scores), np.array(people), named)


def _deal_target(
    target: JoinedTarget, n_splits: int, table: str | None, random_state: int | None
) -> Sequence[IntArray | None]:
    """Return the fold of each block of every table, -1 where there are no counts to score."""
    told = [_counted(each.release) for each in target.tables]
    usable = [int(mask.sum()) for mask in told]
    if table is not None:
        place = target.names.index(check_choice("table", table, target.names))
        usable = [n if k == place else 0 for k, n in enumerate(usable)]
    if sum(usable) < 2 * n_splits:
        raise ParameterError(
            f"n_splits: {n_splits} folds need {2 * n_splits} blocks with published counts, got "
            f"{sum(usable)}; lower n_splits, or name another table"
        )
    rng = None if random_state is None else check_generator(random_state)
    dealt = deal_tables([each.release.n for each in target.tables], usable, n_splits, rng)
    return [
        None if fold is None else np.where(mask, fold, -1)
        for fold, mask in zip(dealt, told, strict=True)
    ]


def _counted(release: Release) -> BoolArray:
    """Mark the blocks with counts in more than one bin."""
    counts = published_counts(release, get_family("gaussian").domain, smallest=1)
    return counts.known & counts.informative


def _in_fold(fold: IntArray | None, k: int, n_blocks: int) -> BoolArray:
    return np.zeros(n_blocks, dtype=bool) if fold is None else fold == k
