"""Kernels, compiled when they are first called and kept for later runs; a word while it lasts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Any

import numba
from numba.core import event

COMPILING = "compiling, once on this machine; later fits start at once"
_PATIENCE = 1.0
"""Seconds of compiling before anything is said."""
_told: ContextVar[bool] = ContextVar("told", default=False)


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function as ``numba.njit`` does, where nothing can be written too.

    What is compiled is kept beside the package, in the user's cache, or in ``NUMBA_CACHE_DIR``.
    Where none of them can be written to, numba refuses to decorate a function with ``cache=True``;
    it is then compiled in every run.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(**options)(function)
        except RuntimeError:  # "no locator available"
            return numba.njit(**options | {"cache": False})(function)

    return decorate


def inner(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that only kernels call: without a way in from Python, kept with them.

    That takes a tenth less time.
    """
    options["no_cpython_wrapper"] = True
    return njit(**options)


class _Listener(event.Listener):
    """Says once, and after a while, that kernels of this package are being compiled."""

    def __init__(self, say: Callable[[], None], patience: float) -> None:
        self._say: Callable[[], None] | None = say
        self._patience, self._since = patience, float("inf")

    def on_start(self, event: event.Event) -> None:
        if not event.data["dispatcher"].py_func.__module__.startswith("unbin."):
            return
        self._since = min(self._since, monotonic())
        if self._say is not None and monotonic() - self._since >= self._patience:
            say, self._say = self._say, None
            say()

    def on_end(self, event: event.Event) -> None:
        pass


def _tell() -> None:
    """Write a line where somebody is watching: on a terminal, or in a notebook."""
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        print(f"unbin: {COMPILING}", file=sys.stderr, flush=True)


@contextmanager
def telling(say: Callable[[], None] = _tell, *, patience: float = _PATIENCE) -> Iterator[None]:
    """Say that kernels are being compiled, if that happens inside; the outermost says it."""
    if _told.get():
        yield
        return
    token = _told.set(True)
    try:
        with event.install_listener("numba:compile", _Listener(say, patience)):
            yield
    finally:
        _told.reset(token)
