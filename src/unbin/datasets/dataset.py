"""People of a public file: features, individual targets and blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbin._typing import BoolArray, FloatArray, IntArray, TextArray
from unbin.exceptions import ParameterError, ReadError
from unbin.people.reading import People


@dataclass(frozen=True, slots=True)
class Dataset:
    """People of a public file.

    Attributes
    ----------
    X : (n, d)
        Features.
    feature_names : tuple of str
        Of the columns of X.
    targets : mapping of str to (n,)
        Individual targets, which a release would hide.
    blocks : (n,) text
        Where each person lives.
    n_dropped : int
        People of the file that were left out.

    Examples
    --------
    >>> import numpy as np, unbin
    >>> people = unbin.datasets.Dataset(
    ...     np.array([[34.0], [51.0]]), ("age",), {"cost": np.array([120.0, 80.0])},
    ...     np.array(["A", "B"]),
    ... )
    >>> people.target("cost")[people.blocks == "B"].tolist()
    [80.0]
    """

    X: FloatArray
    feature_names: tuple[str, ...]
    targets: Mapping[str, FloatArray]
    blocks: TextArray
    n_dropped: int = 0

    def __len__(self) -> int:
        return len(self.blocks)

    def target(self, name: str) -> FloatArray:
        """Return a target by its name."""
        if name not in self.targets:
            known = ", ".join(self.targets)
            raise ParameterError(f"target: must be one of {known}, got {name!r}")
        return self.targets[name]

    def take(self, rows: BoolArray | IntArray) -> Dataset:
        """Return some of the people."""
        targets = {name: values[rows] for name, values in self.targets.items()}
        return replace(self, X=self.X[rows], targets=targets, blocks=self.blocks[rows])


def numbers(people: People, name: str) -> FloatArray:
    """Return a column of numbers, NaN where one is missing."""
    values = people.column(name)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    known = np.array([value is None or _is_number(value) for value in values])
    require(people, name, known, values, "a number")
    return np.array([np.nan if value is None else float(value) for value in values])


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def texts(people: People, name: str) -> TextArray:
    """Return a column of text, empty where it is missing; numbers without a decimal point."""
    return np.array([_text(value) for value in people.column(name)], dtype=np.str_)


def _text(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def require(people: People, name: str, known: BoolArray, values: Any, what: str) -> None:
    """Complain about the first value of a column that is not as published."""
    if not known.all():
        row = int(np.argmin(known))
        raise ReadError(
            f"{people.name}, row {row + 2}, column {name!r}: must be {what}, got "
            f"{str(values[row])[:60]!r}; check that this is the published file"
        )
