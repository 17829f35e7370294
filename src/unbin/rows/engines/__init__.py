"""Where sums over people are made: in this process, on a Dask cluster, on a GPU.

A new engine is one class and one line here.
"""

from __future__ import annotations

from importlib import import_module

from unbin.rows.engines.base import Blocks, Engine, Everybody, Layout, Options

__all__ = ["ENGINES", "Blocks", "Engine", "Everybody", "Layout", "Options", "open_engine"]

ENGINES = {
    "local": "unbin.rows.engines.local:LocalEngine",
    "dask": "unbin.rows.engines.dask:DaskEngine",
    "torch": "unbin.rows.engines.torch:TorchEngine",
}
"""Every engine by its name, imported when it is asked for."""


def open_engine(name: str, options: Options) -> Engine:
    """Return the engine of a name; raises where it cannot do what is asked of it."""
    module, attribute = ENGINES[name].split(":")
    engine: Engine = getattr(import_module(module), attribute)(options)
    return engine
