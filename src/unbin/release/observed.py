"""People whose outcome is known, beside tables or alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from unbin._checks import check_flag
from unbin._frames import as_floats, refuse_huge, to_numpy
from unbin._html import described
from unbin._typing import ArrayLike, BoolArray, FloatArray, IntArray
from unbin.exceptions import AggregatedTargetError, AlignmentWarning, CategoryError, DomainError
from unbin.release.categories import codes_of, is_nominal, listed, read_labels


class ObservedTarget:
    """Outcomes of the rows of X that somebody observed.

    Attributes
    ----------
    values : (n_rows,)
        NaN where nobody knows.
    disjoint : bool
        Whether no table counts these outcomes.
    categories : tuple of text
        Names of the categories, where these are the outcome: the values are places among them.
    """

    def __init__(
        self,
        values: FloatArray,
        *,
        disjoint: bool = False,
        categories: tuple[str, ...] = (),
    ) -> None:
        self.values = values
        self.disjoint = disjoint
        self.categories = categories

    @property
    def shape(self) -> tuple[int]:
        """Number of rows, as numpy spells it."""
        return (len(self.values),)

    @property
    def ndim(self) -> int:
        """Always 1."""
        return 1

    @property
    def known(self) -> BoolArray:
        """Rows whose outcome is known."""
        return ~np.isnan(self.values)

    @property
    def rows(self) -> IntArray:
        """Positions of the rows whose outcome is known."""
        return np.flatnonzero(self.known)

    def recoded(self, names: tuple[str, ...]) -> ObservedTarget:
        """Return the same outcomes as places among the categories of a table."""
        if self.categories == names or not self.known.any():
            return ObservedTarget(self.values, disjoint=self.disjoint, categories=names)
        if not names or not self.categories:
            kinds = ("categories", "numbers") if self.categories else ("numbers", "categories")
            raise CategoryError(
                f"observed: outcomes must be what the tables count, got {kinds[0]} beside tables "
                f"of {kinds[1]}; pass {'numbers' if self.categories else 'names of categories'}"
            )
        unknown = [name for name in self.categories if name not in names]
        if unknown:
            raise CategoryError(
                f"observed: an outcome must be a category of the tables, got {unknown[0]!r} beside "
                f"{listed(names)}; correct it, or name it with categories=[...] when they are read"
            )
        place = codes_of(np.array(self.categories), names)
        values = self.values.copy()
        values[self.known] = place[self.values[self.known].astype(np.int64)]
        return ObservedTarget(values, disjoint=self.disjoint, categories=names)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[NoReturn]:
        raise AggregatedTargetError(_NOT_NUMBERS)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AggregatedTargetError(_NOT_NUMBERS)

    def __repr__(self) -> str:
        return f"ObservedTarget: {int(self.known.sum()):,} of {len(self):,} rows"

    def _repr_html_(self) -> str:
        return described(repr(self))


def observed(y: ArrayLike, *, disjoint: bool = False) -> ObservedTarget:
    """State the outcomes of people for whom they were observed.

    Joined to tables, these people are subtracted from the tables' counts: what is left is about the
    others, and the two parts are fitted together as independent. By themselves they give the
    ordinary GLM.

    Parameters
    ----------
    y : (n_rows,)
        Outcome of each row of X, NaN where nobody knows; names of categories as text, None, NaN
        or empty where nobody knows.
    disjoint : bool
        The tables do not count these outcomes, which are from other people with such features, or
        from another time. (People who are rows of X but outside a table have no block id there:
        ``align(blocks, on_missing="drop")``.)

    Returns
    -------
    ObservedTarget
        To be joined to aligned tables, or passed as ``y``.

    Examples
    --------
    >>> import numpy as np, unbin
    >>> county = np.repeat(["a", "b"], 4)
    >>> y = np.arange(8.0)
    >>> asked = np.where(np.arange(8) % 4 == 0, y, np.nan)
    >>> unbin.join(unbin.aggregate(y, county, bins=2).align(county), unbin.observed(asked)).observed
    ObservedTarget: 2 of 8 rows
    """
    return as_observed(y, disjoint=disjoint, where="observed")


def as_observed(y: ArrayLike, *, disjoint: bool, where: str) -> ObservedTarget:
    """Return outcomes as a target; errors name ``where`` they are."""
    check_flag("disjoint", disjoint)
    if is_nominal(to_numpy(y, where=where, error=DomainError)):
        values, names = read_labels(y, where=where)
        if len(values) and not names:
            warn_of_nobody(where)
        return ObservedTarget(values, disjoint=disjoint, categories=names)
    values = check_observations(as_floats(y, where=where, error=DomainError), where=where)
    if len(values) and np.isnan(values).all():
        warn_of_nobody(where)
    return ObservedTarget(values, disjoint=disjoint)


def warn_of_nobody(where: str) -> None:
    """Warn that no outcome is known."""
    warnings.warn(
        f"{where}: no outcome is known, got NaN in every row; the tables are fitted alone",
        AlignmentWarning,
        stacklevel=4,
    )


def check_observations(values: FloatArray, *, where: str, before: int = 0) -> FloatArray:
    """Return outcomes; raise if one that is known is not a finite number.

    ``before`` rows lie before these.
    """
    if np.isinf(values).any():
        raise DomainError(
            f"{where}: an outcome must be finite, or NaN where nobody knows it, got inf in row "
            f"{before + int(np.argmax(np.isinf(values)))}; correct it"
        )
    refuse_huge(values[~np.isnan(values)], where=where)
    return values


_NOT_NUMBERS = (
    "observed target: some of its rows have no value, and it got used as if all had; take the "
    "rows that do, values[known]"
)
