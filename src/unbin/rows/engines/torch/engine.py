"""The GPU engine: checks what ``fit`` is given, and moves people to the device."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from unbin._frames import as_text, is_wide, refuse_masked
from unbin._typing import FloatArray, IntArray, TextArray
from unbin.exceptions import AlignmentError, DomainError, EngineError, ParameterError
from unbin.rows.engines import Blocks, Engine, Options
from unbin.rows.engines.torch.layout import READ_ROWS, OnDevice, bytes_needed
from unbin.rows.engines.torch.machine import Machine, Tensor, open_machine, torch
from unbin.rows.engines.torch.streaming import Streamed, parts_of, read_people
from unbin.rows.survey import Surveyed

_DENSE = 4
"""Block ids that are whole numbers are counted if they span fewer values than this per row."""


class TorchEngine(Engine):
    """Sums are computed on a GPU, or another device of torch."""

    name: ClassVar[str] = "torch"
    takes_blocks: ClassVar[bool] = True

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        if options.alternating:
            raise EngineError(
                "engine 'torch': solver 'alternating' needs everybody's targets, which stay on the "
                "device; use solver='lbfgs', or engine='local'"
            )
        self.machine = open_machine(options.device, options.dtype)

    def check(self, X: Any) -> None:
        if is_wide(X):
            raise EngineError(
                "engine 'torch': takes arrays, tensors or Parquet files, got a tabmat matrix; use "
                "engine='local'"
            )
        if is_tensor(X):
            check_tensor(X)

    def owns(self, values: Any) -> bool:
        return is_tensor(values)

    def blocks(self, block: Any, n: int) -> Blocks:
        return Blocks(*block_codes(block, n, self.machine))

    def rows(self, X: Any, blocks: Blocks, offset: Any) -> OnDevice | Streamed:
        """Return people on the device, or in parts if they are in an array too large for it."""
        extra, machine = offset_of(offset, len(X), self.machine), self.machine
        names, codes, size = blocks.names, blocks.codes, blocks.size
        X = X.detach() if is_tensor(X) else X
        need = bytes_needed(size, X.shape[1], machine, ranked=self.options.ranked)
        need += 16.0 * len(X) * len(blocks.others)  # codes, as they come and laid out
        if is_tensor(X) or need <= machine.free():
            others = tuple(map(machine.send, blocks.others))
            codes = machine.send(codes)
            return OnDevice(X, names, codes, size, extra, machine, self.options, others)
        host: IntArray = codes.cpu().numpy() if is_tensor(codes) else np.asarray(codes)
        shift: FloatArray | None = None if extra is None else extra.cpu().numpy()
        parts = parts_of(X, names, host.astype(np.int64), shift, blocks.others)
        return Streamed(Surveyed.of(parts), machine, self.options)

    def people(self, surveyed: Surveyed) -> OnDevice | Streamed:
        return read_people(surveyed, self.machine, self.options)


def is_tensor(X: Any) -> bool:
    """Tell whether X is a tensor."""
    return isinstance(X, torch.Tensor)


def check_tensor(X: Tensor) -> None:
    """Raise unless a tensor holds finite features, one row per person."""
    if X.ndim != 2 or X.shape[0] == 0 or X.is_complex() or X.dtype == torch.bool:
        raise ParameterError(
            f"X: must be a tensor of numbers with a row per person, got shape {tuple(X.shape)} of "
            f"{X.dtype}; pass (n, d) floats"
        )
    for low in range(0, len(X), READ_ROWS):
        if not bool(torch.isfinite(X[low : low + READ_ROWS]).all()):
            raise DomainError("X: must be finite, got NaN or inf; fill it in or drop the people")


def offset_of(offset: Any, n: int, machine: Machine) -> Tensor | None:
    """Return the offset of n rows on the device, or None."""
    if offset is None:
        return None
    if not is_tensor(offset):
        offset = np.asarray(refuse_masked(offset, where="offset"))
    values = machine.send(offset, torch.float64)
    if values.shape != (n,):
        raise AlignmentError(
            f"offset: must have one value per row of X, got shape {tuple(values.shape)} for {n} "
            "rows; check it"
        )
    if not bool(torch.isfinite(values).all()):
        raise DomainError("offset: must be finite, got NaN or inf; is an exposure 0?")
    return values


def block_codes(block: Any, n: int, machine: Machine) -> tuple[TextArray, Tensor, IntArray]:
    """Return the blocks, sorted, the position of each row's among them, and their sizes."""
    if len(block) != n:
        raise AlignmentError(f"block: {len(block)} ids for {n} rows of X; pass one per row")
    if not is_tensor(block):
        names, codes, size = np.unique(
            as_text(block, where="block"), return_inverse=True, return_counts=True
        )
        return names, machine.send(codes), size
    if block.is_floating_point() or block.ndim != 1:
        raise ParameterError(
            f"block: must be a tensor of whole numbers, one per row, got {block.dtype} of shape "
            f"{tuple(block.shape)}; pass codes"
        )
    block = block.to(machine.device)
    low, high = int(block.min()), int(block.max())
    if high - low <= _DENSE * n:
        count = torch.bincount(block - low)
        present = torch.nonzero(count)[:, 0]
        size, values = count[present].cpu().numpy(), present.cpu().numpy() + low
        place = torch.zeros(len(count), dtype=torch.int32, device=machine.device)
    else:
        found, codes, count = torch.unique(block, return_inverse=True, return_counts=True)
        size, values, low, block = count.cpu().numpy(), found.cpu().numpy(), 0, codes
        present = torch.arange(len(values), device=machine.device)
        place = torch.zeros(len(values), dtype=torch.int32, device=machine.device)
    names = as_text(values, where="block")
    order = np.argsort(names, kind="stable")
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order))
    place[present] = torch.as_tensor(rank, device=machine.device)
    return names[order], place[block - low], size[order]
