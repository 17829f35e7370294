"""Parts on a Dask cluster; needs dask[distributed].

Parts are made on the workers and never leave them: each is a future whose lineage Dask keeps, so
that a part lost with its worker is made again elsewhere. Coefficients go out with every pass and
sums come back, added over neighbours in a tree: an order that does not depend on the workers.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unbin._checks import available_threads
from unbin._frames import as_text, column, is_dask
from unbin._typing import IntArray, TextArray
from unbin.exceptions import EngineError, ParameterError, UnbinError
from unbin.rows.engines import Engine
from unbin.rows.parts import Recipe, Result, add, apply, calls, itself, one_blas_thread, recipes
from unbin.rows.sources import Columns, numbers_of, part_of, recipes_of
from unbin.rows.survey import Coded, Part

_PATIENCE = 40.0
"""Seconds without any worker after which a fit gives up."""
_POLL = 2.0
_CONNECT = 20
"""Seconds that a scheduler has to answer."""
_BATCH = 64
"""Parts whose results are brought here at a time."""
_FAN_IN = 4
"""Sums added at a time."""
_ATTEMPTS = 5
"""How often work is submitted again after its workers died."""
_PART_SHARE = 1 / 64
"""Share of a worker's memory that a part may take: it is copied several times on its way."""
MEMORY = {"distributed.worker.memory.pause": 0.92, "distributed.worker.memory.terminate": 0.97}
"""Small workers: libraries alone may take the 80 % at which Dask would stop giving them work."""
_LARGEST_PART = 1 << 27
"""Bytes of a part where workers have room: fewer parts mean fewer sums to be moved."""
_SHARE = 0.4
"""Share of the workers' memory that parts may take; beyond it they are made again at each pass."""


class DaskParts:
    """Parts on the workers of a Dask cluster, or recipes for them.

    Parameters
    ----------
    client : distributed.Client
    parts : sequence of futures or recipes
    checkpoint : str or None
        Named in the error when all workers are gone.
    """

    def __init__(self, client: Any, parts: Sequence[Any], checkpoint: str | None = None) -> None:
        self.client = client
        self.parts = parts
        self.checkpoint = checkpoint

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, k: int) -> Any:
        return self.parts[k]

    def __getstate__(self) -> dict[str, Any]:
        """Leave everything here: what is sent to workers may refer to the parts, but needs none."""
        return {"client": None, "parts": (), "checkpoint": None}

    def take(self, which: Sequence[int]) -> DaskParts:
        """Return some of the parts."""
        return DaskParts(self.client, [self.parts[k] for k in which], self.checkpoint)

    def stream(
        self, function: Callable[..., Result], *args: Any, each: Sequence[Any] | None = None
    ) -> Iterator[Result]:
        """Yield ``function(part, *args)`` of every part, in order, some parts at a time."""
        for low in range(0, len(self.parts), _BATCH):
            some = DaskParts(self.client, self.parts[low : low + _BATCH], self.checkpoint)
            whose = None if each is None else [each[k] for k in range(low, low + len(some))]
            yield from some._finish(lambda s=some, w=whose: s._submit(function, args, w))  # type: ignore[misc]

    def total(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> Any:
        """Return the sum of ``function(part, *args)``."""
        return self._finish(lambda: [self._tree(self._submit(function, args, each))])[0]

    def keep(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> DaskParts:
        """Return the results of ``function(part, *args)`` as parts, left on the workers."""
        return DaskParts(self.client, self._submit(function, args, each), self.checkpoint)

    def later(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> DaskParts:
        """Return ``function(part, *args)`` as parts, made again at each pass if these are."""
        if not all(isinstance(part, Recipe) for part in self.parts):
            return self.keep(function, *args, each=each)
        return DaskParts(self.client, recipes(self.parts, function, args, each), self.checkpoint)

    def settled(self, n_bytes: int) -> DaskParts:
        """Return the parts, kept on the workers if their memory has room for so many bytes."""
        with self._connected():
            limits = [worker["memory_limit"] for worker in _workers(self.client).values()]
        room = sum(limits) * _SHARE if limits and all(limits) else float("inf")
        return self.keep(itself) if n_bytes <= room else self

    def _submit(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        each: Sequence[Any] | None,
    ) -> list[Any]:
        with self._connected():
            # what all parts receive travels once, and from worker to worker
            told = self.client.submit(itself, (function, args), pure=False)
            work = calls(self.parts, told, (), each)
            return [self.client.submit(_apply, *call, pure=False) for call in work]

    def _tree(self, futures: list[Any]) -> Any:
        """Add neighbours up until one sum is left."""
        while len(futures) > 1:
            groups = [futures[k : k + _FAN_IN] for k in range(0, len(futures), _FAN_IN)]
            # sums before further parts: what waits to be added takes memory
            futures = [self.client.submit(_add, *g, pure=False, priority=1) for g in groups]
        return futures[0]

    def _finish(self, submit: Callable[[], list[Any]]) -> list[Any]:
        """Wait for results; submit work again that died with too many workers."""
        killed = import_module("distributed").KilledWorker
        for attempt in range(_ATTEMPTS):
            try:
                with self._connected():
                    futures = submit()
                    self._wait(futures)
                    return list(self.client.gather(futures))
            except killed as error:
                if attempt == _ATTEMPTS - 1:
                    raise EngineError(
                        "engine 'dask': workers die whenever they make a part, got "
                        f"{error}; give them more memory, or cut the people into smaller parts"
                        f"{self._saved()}"
                    ) from None
        raise AssertionError

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Report a lost cluster as such, whatever fails because of it."""
        try:
            yield
        except UnbinError:
            raise
        except Exception as error:
            if self.client.status == "running" and not isinstance(error, CancelledError):
                raise
            raise EngineError(
                "engine 'dask': the cluster was closed, or its work cancelled, during the fit, got "
                f"{type(error).__name__}; start it and fit again{self._saved()}"
            ) from error

    def _wait(self, futures: list[Any]) -> None:
        """Wait for futures as long as there are workers to compute them."""
        distributed = import_module("distributed")
        alive = time.monotonic()
        while True:
            try:
                distributed.wait(futures, timeout=_POLL)
                return
            except (TimeoutError, distributed.TimeoutError):
                pass
            now, up = time.monotonic(), self.client.status == "running"
            states = (
                [worker.get("status") for worker in _workers(self.client).values()] if up else []
            )
            if any(state != "paused" for state in states):
                alive = now
            elif now - alive > _PATIENCE:
                what = "give them more memory" if states else "start workers"
                raise EngineError(
                    f"engine 'dask': no worker has answered for {now - alive:.0f} seconds, got "
                    f"scheduler {self.client.status!r} and {len(states)} workers out of memory; "
                    f"{what} and fit again{self._saved()}"
                )

    def _saved(self) -> str:
        if self.checkpoint is None:
            return ""
        return f"; the coefficients so far are in {self.checkpoint}, where the next fit goes on"


class DaskEngine(Engine):
    """Sums are computed on the workers of a Dask cluster."""

    name: ClassVar[str] = "dask"

    def check(self, X: Any) -> None:
        raise ParameterError(
            "engine: 'dask' takes Parquet files, Dask frames or Dask arrays, got "
            f"{type(X).__name__}; pass one of these, or engine='local'"
        )

    @contextmanager
    def parts(self, X: Any, columns: Columns) -> Iterator[DaskParts]:
        with open_client(self.options.client) as client:
            if not is_dask(X):
                room = min(room_for_part(client), _LARGEST_PART)
                found: list[Any] = list(recipes_of(X, columns, room))
            elif hasattr(X, "columns"):
                frames = client.compute(X.to_delayed())
                found = [client.submit(_frame_part, frame, columns, pure=False) for frame in frames]
            else:
                cut = client.compute(_cut(X, columns))
                told = _by_name(columns)
                found = [client.submit(_array_part, some, told, pure=False) for some in cut]
            yield DaskParts(client, found, self.options.checkpoint)
            found.clear()
            gc.collect()  # optimisers leave cycles behind, which would hold parts on the workers


def _frame_part(frame: Any, columns: Columns) -> Part:
    """Turn a partition of a Dask frame into a part."""

    def read(name: str) -> tuple[TextArray, IntArray]:
        ids = column(frame, name, role="block")
        text = as_text(ids, where="block", outside=columns.outside(name))
        names, codes = np.unique(text, return_inverse=True)
        return names, codes

    def values(name: str) -> NDArray[Any]:
        return column(frame, name, role="features")

    return part_of(values, columns, columns.coded(read), "partition")


_BESIDE = ("block", "offset", "weights", "observed")
"""What is an array beside an array."""


def _cut(X: Any, columns: Columns) -> list[dict[str, Any]]:
    """Cut Dask arrays into the same rows; those of each part by their names."""
    X = X.rechunk({1: -1})
    arrays = {name: getattr(columns, name) for name in _BESIDE}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    if not all(is_dask(array) for array in arrays.values()):
        raise ParameterError(
            f"{', '.join(_BESIDE)}: must be Dask arrays beside a Dask array X, got others; pass "
            "one value per row"
        )
    cut = [array.rechunk((X.chunks[0],)).to_delayed() for array in arrays.values()]
    names, pieces = ["X", *arrays], zip(X.to_delayed()[:, 0], *cut, strict=True)
    return [dict(zip(names, some, strict=True)) for some in pieces]


def _by_name(columns: Columns) -> Columns:
    """Return the columns of arrays: what each is called, in place of the array itself."""
    there: dict[str, Any] = {
        name: None if getattr(columns, name) is None else name for name in _BESIDE
    }
    return replace(columns, features=(), **there)


def _array_part(arrays: dict[str, Any], columns: Columns) -> Part:
    """Turn pieces of Dask arrays into a part."""
    X = numbers_of(np.asanyarray(arrays["X"]), "partition", "X")
    ids = as_text(arrays["block"], where="block", outside=columns.outside("block"))
    blocks, codes = np.unique(ids, return_inverse=True)
    coded = Coded(blocks, codes.astype(np.int64))
    part = part_of(lambda name: np.asanyarray(arrays[name]), columns, [coded], "partition")
    return replace(part, columns=tuple(np.asfortranarray(X).T))


@contextmanager
def open_client(client: Any) -> Iterator[Any]:
    """Yield the user's client, one of the scheduler at an address, or one of workers started here.

    Workers started here are stopped at the end.
    """
    if find_spec("distributed") is None:
        raise EngineError("engine 'dask': needs dask, got none; pip install unbin[dask]")
    distributed = import_module("distributed")
    if isinstance(client, distributed.Client):
        if client.status != "running":
            raise EngineError(
                f"client: must be connected to a scheduler, got one that is {client.status!r}; "
                "open another"
            )
        yield client
    elif isinstance(client, str):
        try:
            found = distributed.Client(client, timeout=_CONNECT)
        except (OSError, ValueError) as error:
            raise EngineError(
                f"client: no scheduler answers at {client!r}, got {error}; check the address"
            ) from None
        with found:
            yield found
    elif client is None:
        # a part may outlive many workers; the default gives it up after three
        config = {"distributed.scheduler.allowed-failures": 1000, **MEMORY}
        with (
            import_module("dask").config.set(config),
            distributed.LocalCluster(
                n_workers=available_threads(), threads_per_worker=1, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as found,
        ):
            yield found
    else:
        raise EngineError(
            f"client: must be a distributed.Client or a scheduler's address, got {client!r}; pass "
            "one, or None for workers on this machine"
        )


def room_for_part(client: Any) -> int:
    """Return the bytes that a part may take without crowding the smallest worker."""
    limits = [worker["memory_limit"] for worker in _workers(client).values()]
    return int(min(limits) * _PART_SHARE) if limits and all(limits) else 1 << 40


def _workers(client: Any) -> dict[str, Any]:
    found: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return found


def _apply(part: Any, told: tuple[Callable[..., Any], tuple[Any, ...]], *each: Any) -> Any:
    function, args = told
    with one_blas_thread():
        return apply(part, function, *args, *each)


def _add(first: Any, *others: Any) -> Any:
    for other in others:
        first = add(first, other)
    return first
