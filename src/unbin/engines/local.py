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

from unbin.engines.base import Recipe, Result, add, apply

_AHEAD = 2
"""Parts in the making per thread: enough to keep threads busy, few enough to bound memory."""


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

    def stream(self, function: Callable[..., Result], *args: Any) -> Iterator[Result]:
        """Yield ``function(part, *args)`` of every part, in order."""
        if self.n_threads <= 1:
            for part in self.parts:
                yield apply(part, function, *args)
            return
        waiting: deque[Future[Result]] = deque()
        with ThreadPoolExecutor(self.n_threads) as pool:
            try:
                for part in self.parts:
                    waiting.append(pool.submit(apply, part, function, *args))
                    if len(waiting) > _AHEAD * self.n_threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def total(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return the sum of ``function(part, *args)``."""
        return reduce(add, self.stream(function, *args))

    def keep(self, function: Callable[..., Any], *args: Any) -> LocalParts:
        """Return the results of ``function(part, *args)`` as parts."""
        return LocalParts(list(self.stream(function, *args)), self.n_threads)

    def later(self, function: Callable[..., Any], *args: Any) -> LocalParts:
        """Return recipes for ``function(part, *args)``; the parts must be recipes."""
        recipes = [part.then(function, *args) for part in self.parts if isinstance(part, Recipe)]
        return LocalParts(recipes, self.n_threads)


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
