"""What a user may say about a file, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unbin._checks import check_choice, check_flag
from unbin.exceptions import ParameterError
from unbin.release.intervals import Rounding
from unbin.release.readers.cells import Scheme, find_scheme


@dataclass(frozen=True, slots=True)
class Options:
    """Choices of the user; None where the dialect's own guess stands."""

    block: str | None = None
    label: str | None = None
    count: str | None = None
    where: Mapping[str, Any] | None = None
    closed: str | None = None
    suppression: Any = None
    rounding: str | None = None
    totals: str = "drop"
    moe: bool = False
    category: str | None = None
    absent: str | None = None
    rest: str | None = None

    def scheme(self, usual: str) -> Scheme:
        """Return how cells are read; ``usual`` is the dialect's own way."""
        return find_scheme(self.suppression, self.rounding, usual)


def check_options(options: Options) -> Options:
    """Return the options, or raise a :class:`ParameterError` that says what to pass."""
    for name in ("block", "label", "count", "category"):
        value = getattr(options, name)
        if value is not None and not isinstance(value, str):
            raise ParameterError(f"{name}: must be the name of a column, got {value!r}; pass text")
    if options.closed is not None:
        check_choice("closed", options.closed, ("right", "left", "both"))
    if options.label is not None and options.category is not None:
        raise ParameterError(
            "label, category: a table holds bins or categories, got a column of each; name one"
        )
    if options.absent is not None:
        check_choice("absent", options.absent, ("zero", "structural"))
    if options.rest is not None and not (isinstance(options.rest, str) and options.rest):
        raise ParameterError(
            f"rest: must be the name of a category, got {options.rest!r}; pass text"
        )
    check_choice("totals", options.totals, ("drop", "keep"))
    check_flag("moe", options.moe)
    if options.rounding not in (None, "none"):
        Rounding.parse(options.rounding)
    if options.where is not None and not isinstance(options.where, Mapping):
        raise ParameterError(
            f"where: must map columns to the values to keep, got {options.where!r}; pass for "
            "example {'year': '2022'}"
        )
    for name, value in (options.where or {}).items():
        good = isinstance(value, str | int) or (
            isinstance(value, Sequence) and all(isinstance(v, str | int) for v in value)
        )
        if not good:
            raise ParameterError(
                f"where: {name!r} must be text or a list of texts, got {value!r}; pass for "
                "example ['2021', '2022']"
            )
    find_scheme(options.suppression, None, "none")
    return options
