"""Torch, the device it works on, and how much fits there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from unbin._typing import FloatArray
from unbin.exceptions import EngineError

if find_spec("torch") is None:
    raise EngineError("engine 'torch': needs torch, got none; pip install unbin[gpu]")

torch: Any = import_module("torch")
Tensor = Any

_SHARE = 0.8
"""Share of the free memory that rows and what is made of them may take."""
_CELLS = {"cpu": 1 << 18, "other": 1 << 23}
"""Numbers in an array that is worked on at a time: fits the cache of a CPU, keeps a GPU busy."""
_ARRAYS = 24
"""Arrays of that size alive at a time, at most."""


_CAPABILITY = (8, 0)
"""Devices from which on matrices of doubles are multiplied in one instruction."""
_TRITON = (3, 6)
"""Versions before it were not tried; not all can multiply doubles."""


@cache
def triton_version() -> tuple[int, ...]:
    """Return the version of Triton; (0,) where there is none."""
    if find_spec("triton") is None:
        return (0,)
    return tuple(map(int, import_module("triton").__version__.split(".")[:2]))


@dataclass(frozen=True, slots=True)
class Machine:
    """Where tensors live, and in what precision.

    Attributes
    ----------
    device : torch.device
    dtype : torch.dtype
        Of the rows and all elementwise work; sums over more than a few hundred rows are float64.
    """

    device: Any
    dtype: Any

    @property
    def cells(self) -> int:
        """Numbers in an array that is worked on at a time."""
        return _CELLS.get(self.device.type, _CELLS["other"])

    @property
    def has_kernels(self) -> bool:
        """Whether fused kernels run there: on NVIDIA's devices, where Triton came with torch."""
        return (
            self.device.type == "cuda"
            and torch.version.hip is None
            and torch.cuda.get_device_capability(self.device) >= _CAPABILITY
            and triton_version() >= _TRITON
        )

    def free(self) -> float:
        """Return the bytes that may be allocated; infinite on a CPU, which can swap."""
        if self.device.type != "cuda":
            return float("inf")
        free, _ = torch.cuda.mem_get_info(self.device)
        idle = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return float(_SHARE * (free + idle) - 8.0 * _ARRAYS * self.cells)

    def send(self, values: Any, dtype: Any = None) -> Tensor:
        """Return numbers as a tensor on the device, floats in its precision without ``dtype``."""
        tensor = torch.as_tensor(values)
        if dtype is None and tensor.is_floating_point():
            dtype = self.dtype
        return tensor.to(self.device, dtype)


def open_machine(device: str | None, dtype: str) -> Machine:
    """Return the device that was asked for, or a GPU."""
    has_gpu = torch.cuda.is_available()
    if device is None and not has_gpu:
        raise EngineError(
            "device: found no CUDA device; run where there is one, or pass device='cpu', which "
            "runs without one"
        )
    try:
        found = torch.device("cuda" if device is None else device)
    except (RuntimeError, TypeError):
        raise EngineError(
            f"device: must be a device torch knows, got {device!r}; pass 'cuda', 'cuda:1' or 'cpu'"
        ) from None
    if found.type == "cuda" and (not has_gpu or (found.index or 0) >= torch.cuda.device_count()):
        raise EngineError(
            f"device: {device!r} is not there, torch sees {torch.cuda.device_count()} CUDA devices;"
            " check the driver and the build of torch, or pass device='cpu', which runs without one"
        )
    return Machine(found, getattr(torch, dtype))


def to_host(tensors: Sequence[Tensor]) -> tuple[FloatArray, ...]:
    """Return tensors as arrays, float64."""
    tensors = [tensor.double().contiguous() for tensor in tensors]
    if not tensors[0].is_cuda:
        return tuple(tensor.numpy() for tensor in tensors)
    # page-locked memory, which torch keeps for the next pass, is copied to several times as fast
    host = [torch.empty(t.shape, dtype=torch.float64, pin_memory=True) for t in tensors]
    for target, tensor in zip(host, tensors, strict=True):
        target.copy_(tensor, non_blocking=True)
    torch.cuda.synchronize(tensors[0].device)
    return tuple(np.asarray(tensor.numpy()) for tensor in host)
