"""What every engine offers, and how sums are added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Parts(Protocol):
    """Rows cut into parts, wherever they are kept."""

    def __len__(self) -> int:
        """Return the number of parts."""

    def stream(self, function: Callable[..., Result], *args: Any) -> Iterator[Result]:
        """Yield ``function(part, *args)`` of every part, in order."""

    def total(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return the sum of ``function(part, *args)``, added up in an order that never changes.

        Results are arrays, or tuples of what can be added.
        """

    def keep(self, function: Callable[..., Any], *args: Any) -> Parts:
        """Return the results of ``function(part, *args)`` as parts, kept where they were made."""


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


def apply(part: Any, function: Callable[..., Result], *args: Any) -> Result:
    """Call a function with a part, making the part first if it is a recipe."""
    return function(part.make() if isinstance(part, Recipe) else part, *args)


def add(left: Any, right: Any) -> Any:
    """Add two results: arrays, numbers, or tuples of them."""
    if isinstance(left, tuple):
        return tuple(add(a, b) for a, b in zip(left, right, strict=True))
    return left + right
