"""For whom rows stand, and whose outcome is known: options of several commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from unbin._typing import FloatArray
    from unbin.people.reading import People
    from unbin.release import AggregatedTarget
    from unbin.release.join import JoinedTarget
    from unbin.release.observed import ObservedTarget

WeightsOption = Annotated[
    str | None,
    typer.Option(help="Column of PEOPLE that says how many people each row stands for."),
]
WeightingOption = Annotated[
    str,
    typer.Option(
        help="frequency: so many people have just these features; survey: the rows are a sample, "
        "and standard errors allow for it."
    ),
]
ObservedOption = Annotated[
    str | None,
    typer.Option(help="Column of PEOPLE with outcomes that are known, empty where nobody knows."),
]
DisjointOption = Annotated[
    bool,
    typer.Option("--disjoint", help="The tables do not count the people of --observed."),
]


@dataclass(frozen=True, slots=True)
class Standing:
    """Columns of people that are no features: weights, and outcomes that are known."""

    weights: str | None = None
    weighting: str = "frequency"
    observed: str | None = None
    disjoint: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return [name for name in (self.weights, self.observed) if name is not None]

    def check(self, others: dict[str, list[str]]) -> Standing:
        """Return it, or raise where options need others, or a column is taken by one of them."""
        from unbin._checks import check_choice
        from unbin.exceptions import ParameterError
        from unbin.release.weights import WEIGHTINGS

        check_choice("--weighting", self.weighting, WEIGHTINGS)
        if self.weighting == "survey" and self.weights is None:
            raise ParameterError(
                "--weighting: survey needs the weights of the rows, got none; add --weights"
            )
        if self.disjoint and self.observed is None:
            raise ParameterError(
                "--disjoint: is about outcomes that are known, got none; add --observed"
            )
        given = {"--weights": self.weights, "--observed": self.observed}
        taken = {name: option for option, names in others.items() for name in names}
        for option, name in given.items():
            if name is not None and name in taken:
                raise ParameterError(
                    f"{option}: must be a column of its own, got {name!r}, which {taken[name]} "
                    "has; name another"
                )
            if name is not None:
                taken[name] = option
        return self

    def people(self, rows: People) -> FloatArray | None:
        """Return how many people each row stands for, checked; None where it is one."""
        from unbin.release.weights import check_weights

        if self.weights is None:
            return None
        where = f"--weights {self.weights}"
        values = _numbers(rows, self.weights, where)
        given = check_weights(values, self.weighting, len(rows), where=where, first=1)
        return None if given is None else given.values

    def tie(self, rows: People) -> dict[str, Any]:
        """Return what ``align`` and ``check`` are told about the rows."""
        people = self.people(rows)
        return {} if people is None else {"weights": people, "weighting": self.weighting}

    def known(self, rows: People, *, categories: bool = False) -> ObservedTarget | None:
        """Return the outcomes that are known, if a column has them: numbers, or categories."""
        from unbin.release.observed import observed

        if self.observed is None:
            return None
        if categories:
            return observed(rows.column(self.observed), disjoint=self.disjoint)
        values = _numbers(rows, self.observed, f"--observed {self.observed}")
        return observed(values, disjoint=self.disjoint)


def _numbers(rows: People, name: str, where: str) -> FloatArray:
    """Return a column of numbers, NaN where one is missing."""
    from unbin._frames import as_floats
    from unbin.exceptions import DomainError
    from unbin.people.reading import to_numbers

    values = rows.column(name)
    if values.dtype.kind == "O":
        values = to_numbers(values)
        odd = next(((k, v) for k, v in enumerate(values) if _is_word(v)), None)
        if odd is not None:
            raise DomainError(
                f"{where}: must hold numbers, got {odd[1]!r} in row {odd[0] + 1}; correct it"
            )
    return as_floats(values, where=where, error=DomainError)


def _is_word(value: Any) -> bool:
    """Tell whether a text is neither a number nor what stands for a missing one."""
    import numpy as np

    from unbin.people.reading import to_numbers

    beside = np.array(["0", value], dtype=object)
    return isinstance(value, str) and to_numbers(beside).dtype.kind == "O"


def describe(target: AggregatedTarget | JoinedTarget) -> list[str]:
    """Say for whom rows stand, and whose outcome is known, where it is not each for one."""
    from unbin.release.join import JoinedTarget
    from unbin.release.words import people_text, plural

    if isinstance(target, JoinedTarget):
        table, known = target.given[0], target.published.known
    else:
        table, known = target, None
    told, rows = [], plural(len(target), "row")
    if table.weights is not None:
        people = people_text(int(table.release.n.sum()))
        sample = f"{rows}, a sample of {people}: standard errors allow for the sample"
        told.append(sample if table.weights.sampled else f"{people} in {rows}")
    if known is not None:
        who = f"{people_text(round(known.people.sum()))} whose outcome is known"
        told.append(f"{who}, in no table" if known.disjoint else who)
    return told
