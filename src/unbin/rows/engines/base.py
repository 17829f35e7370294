"""What every engine offers, and how sums are added."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Parts(Protocol):
    """Rows cut into parts, wherever they are kept."""

    def __len__(self) -> int:
        """Return the number of parts."""

    def stream(
        self, function: Callable[..., Result], *args: Any, each: Sequence[Any] | None = None
    ) -> Iterator[Result]:
        """Yield ``function(part, *args)`` of every part, in order.

        With ``each``, one argument per part, ``function(part, *args, each[k])``. It may be what
        ``keep`` returned.
        """

    def total(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> Any:
        """Return the sum of ``function(part, *args)``, added up in an order that never changes.

        Results are arrays, or tuples of what can be added.
        """

    def keep(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> Parts:
        """Return the results of ``function(part, *args)`` as parts, kept where they were made."""

    def later(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> Parts:
        """Return ``function(part, *args)`` as parts, made again at each pass if these are."""

    def settled(self, n_bytes: int) -> Parts:
        """Return the parts, kept where they are made if there is room for so many bytes."""

    def __getitem__(self, k: int) -> Any:
        """Return a part, or what stands for it."""

    def take(self, which: Sequence[int]) -> Parts:
        """Return some of the parts."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to make a part, for parts too large to be kept: each pass makes them again.

    Attributes
    ----------
    steps : tuple of (function, args)
        The first is called with its arguments alone, every further one with the result before it
        in front.
    """

    steps: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...]

    def then(self, function: Callable[..., Any], *args: Any) -> Recipe:
        """Return the recipe with one more step."""
        return Recipe((*self.steps, (function, args)))

    def make(self) -> Any:
        """Return the part."""
        (first, args), *rest = self.steps
        value = first(*args)
        for function, more in rest:
            value = function(value, *more)
        return value


def calls(
    parts: Sequence[Any],
    function: Any,
    args: tuple[Any, ...],
    each: Sequence[Any] | None,
) -> Iterator[tuple[Any, ...]]:
    """Return what ``apply`` is called with, part by part."""
    if each is None:
        return ((part, function, *args) for part in parts)
    return ((parts[k], function, *args, each[k]) for k in range(len(parts)))


def recipes(
    parts: Sequence[Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    each: Sequence[Any] | None,
) -> list[Recipe]:
    """Return recipes with one more step; the parts are recipes."""
    return [part.then(*step) for part, *step in calls(parts, function, args, each)]


def apply(part: Any, function: Callable[..., Result], *args: Any) -> Result:
    """Call a function with a part, making the part first if it is a recipe."""
    return function(part.make() if isinstance(part, Recipe) else part, *args)


def itself(part: Any) -> Any:
    """Return a part as it is, to be kept or brought here."""
    return part


def add(left: Any, right: Any) -> Any:
    """Add two results: arrays, numbers, or tuples of them."""
    if isinstance(left, tuple):
        return tuple(add(a, b) for a, b in zip(left, right, strict=True))
    return left + right
