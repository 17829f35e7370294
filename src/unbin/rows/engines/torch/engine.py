"""The GPU engine: checks what ``fit`` is given, and moves people to the device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from unbin._frames import as_floats, as_text, is_wide
from unbin._typing import FloatArray, IntArray, TextArray
from unbin.exceptions import AlignmentError, DomainError, EngineError, ParameterError
from unbin.release.weights import check_people
from unbin.rows.columns import ColumnSums
from unbin.rows.engines import Blocks, Engine, Options
from unbin.rows.engines.local import InMemory
from unbin.rows.engines.torch.layout import READ_ROWS, OnDevice, bytes_needed, on_device
from unbin.rows.engines.torch.machine import Machine, Tensor, open_machine, torch
from unbin.rows.engines.torch.streaming import Chunked, Streamed, parts_of, read_people
from unbin.rows.engines.torch.sums import people_by
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

    def blocks(
        self, block: Any, n: int, weights: Any = None, *, sampled: bool = False
    ) -> tuple[Blocks, FloatArray | IntArray]:
        found = Blocks(*block_codes(block, n, self.machine))
        if weights is None:
            return found, found.size
        refuse_sample(sampled=sampled)
        people = weights_of(weights, n, self.machine)
        weighed = replace(found, weights=people, everybody=people)
        return weighed, people_by(found.codes, people, len(found.names))

    def rows(
        self, X: Any, blocks: Blocks, offset: Any, sums: ColumnSums | None = None
    ) -> OnDevice | Streamed:
        """Return people on the device, or in parts if they are in an array too large for it."""
        refuse_sample(sampled=blocks.sampled)
        extra, machine = offset_of(offset, len(X), self.machine), self.machine
        X = X.detach() if is_tensor(X) else X
        need = bytes_needed(blocks.size, X.shape[1], machine, ranked=self.options.ranked)
        # codes and weights, as they come and laid out
        need += 16.0 * len(X) * (len(blocks.others) + 2 * (blocks.weights is not None))
        if is_tensor(X) or need <= machine.free():
            return OnDevice(X, on_device(blocks, machine), extra, machine, self.options)
        aside = InMemory(X, _on_host(blocks), None if extra is None else _host(extra), 1)
        surveyed = Surveyed.of(parts_of(X, aside.blocks, aside.offset))
        return Chunked(surveyed, machine, self.options, aside)

    def people(self, surveyed: Surveyed) -> OnDevice | Streamed:
        refuse_sample(sampled=surveyed.sampled)
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
    if bool(torch.isfinite(X.sum(dtype=torch.float64))):
        return  # every value is finite if their sum is
    for low in range(0, len(X), READ_ROWS):
        if not bool(torch.isfinite(X[low : low + READ_ROWS]).all()):
            raise DomainError("X: must be finite, got NaN or inf; fill it in or drop the people")


def offset_of(offset: Any, n: int, machine: Machine) -> Tensor | None:
    """Return the offset of n rows on the device, or None."""
    if offset is None:
        return None
    values = _numbers("offset", offset, n, machine)
    if not bool(torch.isfinite(values).all()):
        raise DomainError("offset: must be finite, got NaN or inf; is an exposure 0?")
    return values


def weights_of(weights: Any, n: int, machine: Machine) -> Tensor:
    """Return the people that each of n rows stands for, on the device."""
    values = _numbers("weights", weights, n, machine)
    if not bool((torch.isfinite(values) & (values > 0)).all()):
        check_people(_host(values), where="weights")
    return values


def _numbers(what: str, values: Any, n: int, machine: Machine) -> Tensor:
    """Return a number per row, on the device."""
    if is_tensor(values):
        values = values.detach()
    else:
        values = as_floats(values, where=what, error=DomainError)
    found = machine.send(values, torch.float64)
    if found.shape != (n,):
        raise AlignmentError(
            f"{what}: must have one value per row of X, got shape {tuple(found.shape)} for {n} "
            "rows; check it"
        )
    return found


def refuse_sample(*, sampled: bool) -> None:
    """Raise if the rows are a sample."""
    if sampled:
        raise EngineError(
            "engine 'torch': takes rows that are all of the people, got a sample "
            "(weighting='survey'); use engine='local'"
        )


def _host(values: Any) -> Any:
    """Return a tensor as an array; an array as it is."""
    return values.cpu().numpy() if is_tensor(values) else values


def _on_host(blocks: Blocks) -> Blocks:
    """Return blocks whose codes and weights are arrays."""
    weights = _host(blocks.weights)
    same = blocks.everybody is blocks.weights
    return replace(
        blocks,
        codes=np.asarray(_host(blocks.codes)).astype(np.int64),
        weights=weights,
        everybody=weights if same else _host(blocks.everybody),
    )


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
