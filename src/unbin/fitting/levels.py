"""Columns of a frame as features: numbers as they are, text as indicators of its levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbin._frames import column_names, to_frame
from unbin._typing import FloatArray
from unbin.exceptions import EncodingError, ParameterError
from unbin.fitting.categorical import Factor
from unbin.people.columns import (
    as_numbers,
    category_codes,
    find_categories,
    read_column,
    refuse_gaps,
)
from unbin.people.encoding import MANY, Encoding


@dataclass(frozen=True, slots=True)
class Levels:
    """How columns become features.

    Attributes
    ----------
    columns : tuple of str
    levels : tuple of (tuple of str, or None)
        Of a column of text its levels, the first without an indicator; None for numbers.
    """

    columns: tuple[str, ...]
    levels: tuple[tuple[str, ...] | None, ...]

    @classmethod
    def of(cls, frame: Any) -> Levels | None:
        """Learn the levels of all columns of a frame; None where there is no text."""
        names = column_names(frame)
        if names is None or not all(isinstance(name, str) for name in names):
            return None
        found = [(name, _levels(name, read_column(frame, name))) for name in map(str, names)]
        if all(levels is None for _, levels in found):
            return None
        return cls(tuple(name for name, _ in found), tuple(levels for _, levels in found))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the features."""
        found: list[str] = []
        for name, levels in zip(self.columns, self.levels, strict=True):
            found += [name] if levels is None else [f"{name}[T.{level}]" for level in levels[1:]]
        return tuple(found)

    def frame(self, people: Any) -> Any:
        """Return the features of people as a frame; one that is encoded already stays as it is."""
        if list(map(str, column_names(people) or ())) == list(self.names):
            return people
        columns: dict[str, FloatArray] = {}
        for name, levels in zip(self.columns, self.levels, strict=True):
            values = read_column(people, name)
            refuse_gaps(name, values, new=True)
            if levels is None:
                columns[name] = as_numbers(name, values)
                continue
            codes = category_codes(name, values, levels)
            for place, level in enumerate(levels[1:], 1):
                columns[f"{name}[T.{level}]"] = (codes == place).astype(np.float64)
        return to_frame(columns, "pandas")


def _levels(name: str, values: Any) -> tuple[str, ...] | None:
    if values.dtype.kind not in "OU":
        return None
    refuse_gaps(name, values)
    found = find_categories(name, values)
    if len(found) > MANY:
        raise EncodingError(
            f"column {name!r}: has {len(found):,} different texts; is it an id? List the columns "
            "that are features with features=[...]"
        )
    return found


# -- what random effects follow --------------------------------------------------------------------


def factors_of(
    random: Any, names: Sequence[str], coding: Levels | Encoding | None
) -> tuple[Factor, ...]:
    """Return the categorical features that random effects follow.

    Parameters
    ----------
    random : sequence of str, or mapping of str to columns
        Names of columns of text, or of columns of zeros and ones; a mapping names the indicator
        columns of each feature.
    names : sequence of str
        Of the features.
    coding : Levels, Encoding or None
        How they were made.
    """
    if random is None:
        return ()
    if isinstance(random, str) or not isinstance(random, Sequence | Mapping):
        raise ParameterError(
            f"random: must list features, got {random!r}; pass for example ['race']"
        )
    asked = dict(random) if isinstance(random, Mapping) else {str(name): None for name in random}
    found = tuple(_factor(name, given, names, coding) for name, given in asked.items())
    used = [int(j) for factor in found for j in factor.columns]
    twice = next((j for j in used if used.count(j) > 1), None)
    if twice is not None:
        raise ParameterError(
            f"random: each column must be of one feature, got {names[twice]!r} twice; list it once"
        )
    return found


def _factor(
    name: str, given: Any, names: Sequence[str], coding: Levels | Encoding | None
) -> Factor:
    place = {each: j for j, each in enumerate(names)}
    levels = None if given is not None else _known_levels(name, coding)
    if levels is not None:
        marks = [_indicator(name, level, place) for level in levels[1:]]
        return Factor(name, levels, np.array(marks, np.int64))
    columns = [name] if given is None else list(given)
    unknown = [each for each in columns if not isinstance(each, str) or each not in place]
    if unknown or not columns:
        some = ", ".join(map(repr, list(names)[:8])) + (", …" if len(names) > 8 else "")
        raise ParameterError(
            f"random: {name!r} must be a feature, got {some}; name a column of text, or a mapping "
            "of a name to its columns of zeros and ones"
        )
    others = ("other",) if len(columns) > 1 else (f"not {columns[0]}",)
    return Factor(name, (*others, *columns), np.array([place[each] for each in columns], np.int64))


def _indicator(name: str, level: str, place: Mapping[str, int]) -> int:
    for written in (f"{name}[T.{level}]", f"C({name})[T.{level}]"):
        if written in place:
            return place[written]
    raise ParameterError(
        f"random: {name!r} must be a term of its own, got no column for its level {level!r}; add "
        "it to the formula"
    )


def _known_levels(name: str, coding: Levels | Encoding | None) -> tuple[str, ...] | None:
    """Return the levels of a column of text."""
    if isinstance(coding, Levels) and name in coding.columns:
        return coding.levels[coding.columns.index(name)]
    if isinstance(coding, Encoding):
        pairs = zip(coding.formula.variables, coding.categories, strict=True)
        return next((known for v, known in pairs if v.column == name and known), None)
    return None
