"""People in parts, and sums over all parts.

A holder of parts, each the rows of some people, answers one question: what is the sum of a function
over all of them? It knows neither what a part is nor what the function computes.

In this process threads work on the parts; they are kept from sum to sum. Parts do not depend on
the number of threads and their results are added in order, so a sum is the same to the last bit
whatever that number. BLAS is limited to one thread meanwhile: its own threads would change the last
bits, and take cores from ours.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, Protocol, TypeVar

from threadpoolctl import ThreadpoolController

from unbin._checks import machine_memory

_AHEAD = 2
"""Parts in progress per thread: enough to keep threads busy, few enough to bound memory."""

_SHARE = 1 / 8
"""Share of the machine's memory up to which parts made from recipes are kept."""

Result = TypeVar("Result")


class Parts(Protocol):
    """Rows cut into parts, wherever they are kept."""

    def __len__(self) -> int:
        """Return the number of parts."""

    def stream(
        self, function: Callable[..., Result], *args: Any, each: Sequence[Any] | None = None
    ) -> Iterator[Result]:
        """Yield ``function(part, *args)`` of every part, in order.

        With ``each``, one argument per part, ``function(part, *args, each[k])``. ``each`` may be
        what ``keep`` returned.
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
        The first is called with its arguments alone, each further one with the previous result
        before its arguments.
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


class LocalParts:
    """Parts in memory, or recipes for them.

    Parameters
    ----------
    parts : sequence
    n_threads : int
    """

    def __init__(self, parts: Sequence[Any], n_threads: int = 1) -> None:
        self.parts = parts
        self.n_threads = n_threads

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, k: int) -> Any:
        return self.parts[k]

    def take(self, which: Sequence[int]) -> LocalParts:
        """Return some of the parts."""
        return LocalParts([self.parts[k] for k in which], self.n_threads)

    @property
    def _alone(self) -> bool:
        """Whether the calling thread does all the work: its own threads may have no room left."""
        return min(self.n_threads, len(self.parts)) <= 1 or _working()

    def stream(
        self, function: Callable[..., Result], *args: Any, each: Sequence[Any] | None = None
    ) -> Iterator[Result]:
        """Yield ``function(part, *args)`` of every part, in order."""
        work = calls(self.parts, function, args, each)
        if self._alone:
            yield from (apply(*call) for call in work)
            return
        results = _InOrder(list(work), self.n_threads)
        try:
            yield from map(results.take, range(len(self.parts)))
        finally:
            results.stop()

    def total(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> Any:
        """Return the sum of ``function(part, *args)``."""
        if self._alone:
            return reduce(add, self.stream(function, *args, each=each))
        total = _Total(list(calls(self.parts, function, args, each)), self.n_threads)
        try:
            return total.result()
        finally:
            total.stop()

    def keep(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> LocalParts:
        """Return the results of ``function(part, *args)`` as parts."""
        return LocalParts(list(self.stream(function, *args, each=each)), self.n_threads)

    def later(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> LocalParts:
        """Return ``function(part, *args)`` as parts, made again at each pass if these are."""
        if not all(isinstance(part, Recipe) for part in self.parts):
            return self.keep(function, *args, each=each)
        return LocalParts(recipes(self.parts, function, args, each), self.n_threads)

    def settled(self, n_bytes: int) -> LocalParts:
        """Return the parts, kept in memory if they take only a small share of it."""
        return self.keep(itself) if n_bytes <= _SHARE * machine_memory() else self


class _InOrder:
    """Results of parts that several threads work on, in order.

    A thread takes one part after the other, and leaves when results wait for too many before them:
    whoever takes these calls it back. Handing parts out one by one would take the interpreter's
    lock several times as often.

    Parameters
    ----------
    work : sequence of tuples
        What ``apply`` is called with, part by part.
    n_threads : int
    """

    def __init__(self, work: Sequence[tuple[Any, ...]], n_threads: int) -> None:
        self._work, self._n_threads = work, n_threads
        self._ready = threading.Condition()
        self._held: dict[int, Any] = {}
        self._begun, self._next, self._busy, self._stopped = 0, 0, 0, False
        with self._ready:
            self._call_back()

    @property
    def _room(self) -> bool:
        """Whether a part may be begun; the lock is held."""
        most = min(len(self._work), self._next + _AHEAD * self._n_threads)
        return self._begun < most and not self._stopped

    def _call_back(self) -> None:
        """Let as many threads work as there is room for; the lock is held."""
        left = len(self._work) - self._begun
        while self._room and self._busy < self._n_threads and left > 0:
            self._busy, left = self._busy + 1, left - 1
            _threads(self._n_threads).submit(_at_work, self._run)

    def _run(self) -> None:
        """Work on parts as long as there is room."""
        while True:
            with self._ready:
                if not self._room:
                    self._busy -= 1
                    return
                k, self._begun = self._begun, self._begun + 1
            try:
                found = apply(*self._work[k])
            except BaseException as error:  # raised where the result is taken
                found = _Failed(error)
                self.stop()
            with self._ready:
                self._held[k] = found
                if k == self._next:
                    self._hand_on()

    def _hand_on(self) -> None:
        """Tell that the next result is there; the lock is held."""
        self._ready.notify()

    def take(self, k: int) -> Any:
        """Return the result of part k, the next one; raise what it did."""
        with self._ready:
            self._ready.wait_for(lambda: k in self._held)
            found, self._next = self._held.pop(k), k + 1
            self._call_back()
        return _whole(found)

    def stop(self) -> None:
        """Leave the parts that nobody has begun."""
        with self._ready:
            self._stopped = True


class _Total(_InOrder):
    """A sum: threads add their results themselves, each when it is its turn."""

    _sum: Any = None

    def _hand_on(self) -> None:
        while self._next in self._held:
            self._add(self._held.pop(self._next))
            self._next += 1
        if self._done:
            self._ready.notify()
        self._call_back()

    def _add(self, found: Any) -> None:
        if isinstance(self._sum, _Failed):  # the first that fails is told of
            return
        if self._next == 0 or isinstance(found, _Failed):
            self._sum = found
            return
        try:
            self._sum = add(self._sum, found)
        except BaseException as error:
            self._sum, self._stopped = _Failed(error), True

    @property
    def _done(self) -> bool:
        return self._next == len(self._work) or isinstance(self._sum, _Failed)

    def result(self) -> Any:
        """Return the sum; raise what the first part that failed did."""
        with self._ready:
            self._ready.wait_for(lambda: self._done)
        return _whole(self._sum)


@dataclass(frozen=True, slots=True)
class _Failed:
    """What a part raised."""

    error: BaseException


def _whole(found: Any) -> Any:
    """Return a result; raise what its part did."""
    if isinstance(found, _Failed):
        raise found.error
    return found


# -- threads, kept -------------------------------------------------------------------------------

_here = threading.local()


def _working() -> bool:
    """Tell whether this is one of the kept threads: waiting for others could wait for itself."""
    return getattr(_here, "working", False)


def _at_work(function: Callable[..., Result], *args: Any) -> Result:
    _here.working = True
    return function(*args)


@cache
def _threads(n: int) -> ThreadPoolExecutor:
    """Return n threads: starting them anew takes longer than many a sum."""
    return ThreadPoolExecutor(n, thread_name_prefix="unbin")


if hasattr(os, "register_at_fork"):  # a child process has none of its parent's threads
    os.register_at_fork(after_in_child=_threads.cache_clear)


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread inside."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
