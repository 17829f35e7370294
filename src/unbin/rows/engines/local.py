"""Parts in this process, worked on by threads.

Parts do not depend on the number of threads and their results are added in order, so a sum is the
same to the last bit however many threads made it. BLAS is kept to one thread meanwhile: its own
threads would change the last bits, and take cores from ours.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache, reduce
from typing import Any

from threadpoolctl import ThreadpoolController

from unbin.rows.engines.base import Recipe, Result, add, apply, calls, itself, recipes

_AHEAD = 2
"""Parts in the making per thread: enough to keep threads busy, few enough to bound memory."""

_SHARE = 1 / 8
"""Share of the machine's memory up to which parts made of recipes are kept."""


class LocalParts:
    """Parts in memory, or recipes for them.

    Parameters
    ----------
    parts : sequence
    n_threads : int
    """

    def __init__(self, parts: Sequence[Any], n_threads: int = 1) -> None:
        self.parts = parts
        self.n_threads = min(n_threads, len(parts))

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, k: int) -> Any:
        return self.parts[k]

    def take(self, which: Sequence[int]) -> LocalParts:
        """Return some of the parts."""
        return LocalParts([self.parts[k] for k in which], self.n_threads)

    def stream(
        self, function: Callable[..., Result], *args: Any, each: Sequence[Any] | None = None
    ) -> Iterator[Result]:
        """Yield ``function(part, *args)`` of every part, in order."""
        work = calls(self.parts, function, args, each)
        if self.n_threads <= 1:
            yield from (apply(*call) for call in work)
            return
        waiting: deque[Future[Result]] = deque()
        with ThreadPoolExecutor(self.n_threads) as pool:
            try:
                for call in work:
                    waiting.append(pool.submit(apply, *call))
                    if len(waiting) > _AHEAD * self.n_threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def total(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> Any:
        """Return the sum of ``function(part, *args)``."""
        return reduce(add, self.stream(function, *args, each=each))

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
        """Return the parts, kept in memory if they take little of this machine's."""
        return self.keep(itself) if n_bytes <= _SHARE * machine_memory() else self


def machine_memory() -> int:
    """Return the bytes of memory this machine has; 0 where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def available_threads() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep BLAS to one thread inside."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
