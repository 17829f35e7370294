"""Sums over rows by kernels that make a pass at once: where they are used, how they are started.

A pass of plain torch writes and reads what it makes of every row some twenty times. A kernel reads
the rows, and writes sums: it is used on CUDA devices that have Triton, for laws that have a fused
form and tables without means, where bins and columns are few enough for the registers.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from unbin._typing import IntArray
from unbin.families.normal import NARROW, TAIL
from unbin.families.tensors import FusedLaw, TensorLaw
from unbin.rows.engines.torch.machine import Machine, Tensor, torch

if TYPE_CHECKING:
    from unbin.likelihood.model.law import Law
    from unbin.rows.engines.torch.tiles import TorchRows

MOST_BINS = 31
MOST_COLUMNS = 128
"""Bins of a block, and columns of the rows, that a kernel takes."""
MOST_SUMS = 2048
"""Bins times columns, both up to a power of 2, whose sums fit the registers."""
_PER_WARP = 512
"""Of these sums what a warp holds."""
_GRAM_COLUMNS = 64
_CHUNK = 2048
"""Rows that a program of a kernel adds up, at most."""
_WARP = 32
"""Rows worked on at a time."""
_INV_ROOT_TWO_PI = 1 / np.sqrt(2 * np.pi)


@cache
def _kernels() -> Any:
    """Import the kernels: Triton is there on CUDA machines only."""
    return import_module("unbin.rows.engines.torch.kernels")


def _run(kernel: str, n_programs: int, first: Tensor, *args: Any, **options: Any) -> None:
    """Start a kernel where its first argument lies."""
    on_gpu = first.device.type == "cuda"
    with torch.cuda.device(first.device) if on_gpu else nullcontext():
        getattr(_kernels(), kernel)[(n_programs,)](first, *args, **options)


# -- where kernels are used ------------------------------------------------------------------------


def sums_columns(machine: Machine, width: int) -> bool:
    """Tell whether kernels add up rows of so many columns."""
    return machine.has_kernels and width <= MOST_COLUMNS


def sums_products(machine: Machine, width: int) -> bool:
    """Tell whether a kernel adds up products of so many columns."""
    return machine.has_kernels and width <= _GRAM_COLUMNS


def fused_law(rows: TorchRows, law: Law, bins: TensorLaw) -> FusedLaw | None:
    """Return the bins for the kernel of moments; None where plain torch makes them."""
    width = rows.matrix.shape[2]
    few = law.n_bins <= MOST_BINS and _size(law.n_bins, width) <= MOST_SUMS and law.unit is None
    return bins.fused() if few and sums_columns(rows.machine, width) else None


# -- chunks ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chunks:
    """Neighbouring rows of one block each, which programs add up.

    Attributes
    ----------
    first, last, block : (c,) int64 tensors
        The first slot, the one after the last, and the place of the block among ``rows.blocks``.
    count : (b,) int64 tensor or None
        Chunks of each block; None where it is one.
    """

    first: Tensor
    last: Tensor
    block: Tensor
    count: Tensor | None

    def by_block(self, values: Tensor) -> Tensor:
        """Add up sums (c, f) of chunks over each block, in the same order every time."""
        if self.count is None:
            return values
        return torch.segment_reduce(values, "sum", lengths=self.count, unsafe=True)


def chunks_of(rows: TorchRows) -> Chunks:
    """Return the chunks of rows, kept for the next pass."""
    if "chunks" not in rows.kept:
        begin = rows.tile_start[:-1] * rows.tile
        rows.kept["chunks"] = _chunks(begin, np.diff(rows.start), rows.machine)
    found: Chunks = rows.kept["chunks"]
    return found


def _chunks(begin: IntArray, size: IntArray, machine: Machine) -> Chunks:
    count = np.maximum(-(-size // _CHUNK), 1)
    block = np.repeat(np.arange(len(size)), count)
    place = np.arange(len(block)) - np.repeat(np.cumsum(count) - count, count)
    first = begin[block] + place * _CHUNK
    last = np.minimum(first + _CHUNK, (begin + size)[block])
    first, last, block, count = (
        machine.send(each.astype(np.int64)) for each in (first, last, block, count)
    )
    return Chunks(first, last, block, None if len(block) == len(size) else count)


# -- sums ------------------------------------------------------------------------------------------


def moments(
    rows: TorchRows, law: Law, fused: FusedLaw, theta: Tensor, *, checks: bool = False
) -> Tensor:
    """Return the sums of each block in the order of ``sums.laid_out``, (b, f).

    With ``checks`` Σ x² dq/deta and, of a normal law, Σ x dq/dlog sigma follow.
    """
    chunks, width, k = chunks_of(rows), rows.matrix.shape[2], law.n_bins
    normal = fused.sigma is not None
    n_sums = k * (1 + width + normal + k + checks * (width - 1) * (1 + normal))
    device = rows.matrix.device
    out = torch.empty((len(chunks.first), n_sums), dtype=torch.float64, device=device)
    nodes, weights = law.quadrature()
    move, sd = _effects(rows, law)
    send = {"dtype": torch.float64, "device": device}
    sigma = fused.sigma or 1.0
    numbers = [np.sqrt(0.5) / sigma, _INV_ROOT_TWO_PI / sigma, 1 / sigma, NARROW]
    people = rows.matrix if rows.weights is None else rows.weights.double()
    ends = fused.edges if fused.ends is None else fused.ends
    _run(
        "moment_kernel", len(out), rows.matrix, rows.eta(theta).double(), people,
        chunks.first, chunks.last, chunks.block,
        fused.edges, fused.shares, ends, move, sd,
        torch.as_tensor([*nodes, *weights], **send), torch.as_tensor(numbers, **send), out,
        *(_stride(table) for table in (fused.edges, fused.shares, ends, move, sd, out)),
        EVEN=TAIL[0], ODD=TAIL[1], CENTRE=TAIL[2], NORMAL=normal, WIDTH=width, BINS=k,
        ADJACENT=fused.adjacent, OPEN_LOW=fused.open_low, OPEN_HIGH=fused.open_high,
        HOLDS=not fused.holds, NARROW=fused.ends is not None, POINTS=len(nodes),
        WEIGHTED=rows.weights is not None, CHECKS=checks, ROWS=_WARP,
        COLUMNS=_power_of_two(width, 32), PADDED=_power_of_two(k + 1, 16),
        num_warps=_size(k, width) // _PER_WARP, num_stages=3 if width <= _WARP else 2,
    )  # fmt: skip
    return chunks.by_block(out)


def _effects(rows: TorchRows, law: Law) -> tuple[Tensor, Tensor]:
    """Return the mean and the spread of each block's intercept, or of all blocks'."""
    if law.effects is None:
        found = np.zeros(1), np.full(1, np.sqrt(law.block_variance))
    else:
        found = law.effects.move[rows.blocks], law.effects.sd[rows.blocks]
    send = {"dtype": torch.float64, "device": rows.matrix.device}
    return torch.as_tensor(found[0], **send), torch.as_tensor(found[1], **send)


def powers(rows: TorchRows, values: Tensor, n_powers: int) -> Tensor:
    """Return Σ v, Σ v², ... over the people of each chunk, (c, n_powers, w), of values (..., w)."""
    return _powers(values, rows.weights, chunks_of(rows), n_powers)


def spread(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean of each column of a contiguous matrix, and Σ (x - mean)²."""
    n = np.array([len(x)])
    machine = Machine(x.device, torch.float64)
    chunks = _chunks(np.zeros(1, np.int64), n, machine)
    sums = _powers(x, None, chunks, 2, shifted=True)
    people = (chunks.last - chunks.first).double()[:, None]
    apart = sums[:, 0] / people
    means = x[chunks.first].double() + apart
    mean = (people * means).sum(dim=0) / len(x)
    within = sums[:, 1] - people * apart**2
    return mean, (within + people * (means - mean) ** 2).sum(dim=0)


def _powers(
    values: Tensor, weights: Tensor | None, chunks: Chunks, n_powers: int, *, shifted: bool = False
) -> Tensor:
    width = values.shape[-1]
    shape = (len(chunks.first), n_powers, width)
    out = torch.empty(shape, dtype=torch.float64, device=values.device)
    columns = _power_of_two(width, 1)
    _run(
        "power_kernel", len(out), values, values if weights is None else weights, chunks.first,
        chunks.last, out,
        WIDTH=width, POWERS=n_powers, WEIGHTED=weights is not None, SHIFTED=shifted,
        ROWS=max(4096 // columns, 32), COLUMNS=columns, num_warps=8,
    )  # fmt: skip
    return out


def gram(rows: TorchRows, weights: Tensor) -> Tensor:
    """Return Σ w x xᵀ over all rows, weights (n_tiles, tile) with people in them already."""
    width, n = rows.matrix.shape[2], weights.numel()
    n_chunks = -(-n // (2 * _CHUNK))
    out = torch.empty((n_chunks, width, width), dtype=torch.float64, device=weights.device)
    _run(
        "gram_kernel", n_chunks, rows.matrix, weights, out, n, 2 * _CHUNK, WIDTH=width, ROWS=_WARP,
        COLUMNS=_power_of_two(width, 16), num_warps=1 if width <= _WARP else 4, num_stages=2,
    )  # fmt: skip
    return out.sum(dim=0)


def fill(rows: TorchRows, slots: Tensor, x: Tensor, center: Tensor, divide: Tensor) -> None:
    """Put people, columns (n, d) contiguous, where they belong, standardised."""
    width, n = rows.matrix.shape[2], len(slots)
    _run(
        "fill_kernel", -(-n // _WARP), x, slots, center, divide, rows.matrix, n, WIDTH=width,
        ROWS=_WARP,
        COLUMNS=_power_of_two(width, 1), num_warps=4,
    )  # fmt: skip


def _stride(table: Tensor) -> int:
    """Return how far apart the rows of a table are; 0 where one is for all."""
    return 0 if len(table) == 1 else int(table.stride(0))


def _size(n_bins: int, width: int) -> int:
    """Return the sums of bins and columns that a program holds."""
    return _power_of_two(n_bins + 1, 16) * _power_of_two(width, 32)


def _power_of_two(value: int, least: int) -> int:
    """Return the smallest power of 2 that is not below either."""
    return max(least, 1 << (value - 1).bit_length())
