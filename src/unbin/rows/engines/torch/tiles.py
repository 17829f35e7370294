"""Rows on a device: tiles of equal numbers of rows, each within one block.

Sums over the rows of a block are small matrix products per tile, and then sums over a block's
tiles. Blocks are padded to whole tiles with rows of zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np

from unbin._typing import FloatArray, IntArray
from unbin.exceptions import EngineError
from unbin.rows.engines.torch import ranks, scoring, sums
from unbin.rows.engines.torch.machine import Machine, Tensor, torch
from unbin.rows.rows import Rows

_TILES = (512, 256, 128, 64, 32, 16, 8, 4, 2)
_PADDING = 0.1
"""Rows of padding per row, at most."""
_DENSE = 1 << 22
"""Tiles times blocks up to which tiles are added up by a matrix product."""
_SHORT = 1 << 30
"""Numbers of a matrix up to which a GPU multiplies it three times as fast as larger ones."""
_SIGN = -(1 << 63)


def _refused(what: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any) -> NoReturn:
        raise EngineError(f"engine 'torch': {what}; use engine='local'")

    return refuse


@dataclass(frozen=True)
class TorchRows:
    """Rows of some people on a device, those of a block side by side (see ``Rows``).

    Attributes
    ----------
    matrix : (n_tiles, tile, 1 + d) tensor
        1 and the standardised columns of each person; zeros in padding.
    offset : (n_tiles, tile) tensor or None
    blocks : (b,)
        The blocks that have rows here, in increasing order.
    start : (b + 1,)
        People of the blocks before.
    tile_start : (b + 1,)
        Tiles of the blocks before.
    tile_block : (n_tiles,) int tensor
        Position in ``blocks`` of each tile's block.
    fit_intercept : bool
    machine : Machine
    place : int
        Rows of other parts that lie before these.
    weights : (n_tiles, tile) tensor or None
        People that each row stands for, 0 in padding; None where it is one.
    kept : dict
        Cached results about these rows.
    """

    matrix: Tensor
    offset: Tensor | None
    blocks: IntArray
    start: IntArray
    tile_start: IntArray
    tile_block: Tensor
    fit_intercept: bool
    machine: Machine
    place: int = 0
    weights: Tensor | None = None
    kept: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    # how each sum is computed on a device (see ``rows.rows.kernel``)
    gram_sums = sums.gram
    row_sums = sums.by_column
    extremes = sums.ends
    eta_sums = sums.eta_moments
    moment_sums = sums.moments
    check_sums = sums.checks
    check_rows = scoring.check
    power_sums = sums.powers
    score_rows = scoring.score
    count_sums = sums.expected
    bin_value_sums = sums.bin_values
    matching_sums = ranks.matching
    below_sums = _refused("cannot use quantiles and other order statistics beside tables")
    imputed = _refused("keeps no targets of people")
    line = _refused("matching needs all people of a block in one part, got blocks in several")
    not_whole = _refused("matching ranks people one by one, got rows that stand for several")

    def __len__(self) -> int:
        return int(self.start[-1])

    @property
    def span(self) -> slice:
        """The blocks as a slice, where they follow each other."""
        return slice(int(self.blocks[0]), int(self.blocks[-1]) + 1)

    @property
    def tile(self) -> int:
        """Rows of a tile."""
        return int(self.matrix.shape[1])

    def ids(self, places: Tensor) -> Tensor:
        """Return which blocks lie at some places of ``blocks``."""
        return torch.as_tensor(self.blocks, device=places.device)[places]

    def slots(self, rows: IntArray) -> IntArray:
        """Return the places of some people among all rows of all tiles."""
        block = np.searchsorted(self.start, rows, side="right") - 1
        return np.asarray(self.tile_start[block] * self.tile + rows - self.start[block])

    def theta(self, theta: FloatArray) -> Tensor:
        """Return (intercept or 0, slopes) on the device."""
        full = theta if self.fit_intercept else np.concatenate([[0.0], theta])
        return self.machine.send(full)

    def eta(self, theta: Tensor, tiles: slice = slice(None)) -> Tensor:
        """Return the linear predictor of some tiles; ``theta`` is on the device."""
        part = self.matrix[tiles]
        eta = part.new_empty(part.shape[:2])
        size = max(1, _SHORT // (part.shape[1] * part.shape[2]))
        for low in range(0, len(part), size):
            some = part[low : low + size]
            torch.mv(some.flatten(0, 1), theta, out=eta[low : low + size].view(-1))
        return eta if self.offset is None else eta.add_(self.offset[tiles])

    def in_units(self, level: float, slope: float) -> TorchRows:
        """Return the same rows for a linear predictor less ``level``, divided by ``slope``."""
        offset = 0.0 if self.offset is None else self.offset
        changed = (offset - level) / slope * self.present()[:, :, 0]  # padding stays 0
        return replace(self, offset=changed, kept={})

    def present(self, tiles: slice = slice(None)) -> Tensor:
        """Return 1 for every row and 0 for padding, (t, tile, 1)."""
        return self.matrix[tiles, :, :1]

    def people(self, tiles: slice = slice(None)) -> Tensor:
        """Return the people that each row stands for, 0 for padding, (t, tile, 1)."""
        return self.present(tiles) if self.weights is None else self.weights[tiles][..., None]

    def weighed(self, tiles: slice = slice(None)) -> Tensor:
        """Return the rows of some tiles, times the people that each stands for."""
        part = self.matrix[tiles]
        return part if self.weights is None else part * self.people(tiles)

    def batches(self, width: int) -> list[slice]:
        """Return all tiles in batches, so that ``width`` numbers per row are not too many."""
        size = max(1, self.machine.cells // (self.tile * max(width, 1)))
        n_tiles = len(self.matrix)
        return [slice(low, min(low + size, n_tiles)) for low in range(0, n_tiles, size)]

    def by_block(self, function: Callable[[slice], Tensor], width: int) -> Tensor:
        """Add up ``function(tiles)``, (t, f) sums of each tile, over the tiles of each block."""
        total: Tensor = None
        for tiles in self.batches(width):
            values = function(tiles).double()
            if total is None:
                shape = (len(self.blocks), values.shape[1])
                total = torch.zeros(shape, dtype=torch.float64, device=values.device)
            first, last = self.block_range(tiles)
            total[first:last] += self.add_up(values, tiles, first, last)
        return total

    def block_range(self, tiles: slice) -> tuple[int, int]:
        """Return the first block that has rows in some tiles, and the one after the last."""
        first = int(np.searchsorted(self.tile_start, tiles.start, side="right")) - 1
        return first, int(np.searchsorted(self.tile_start, tiles.stop, side="left"))

    def add_up(self, values: Tensor, tiles: slice, first: int, last: int) -> Tensor:
        """Add up tiles of the same block, in the same order every time."""
        n_blocks = last - first
        if n_blocks == len(values):
            return values
        if n_blocks * len(values) <= _DENSE:
            here = self.tile_block[tiles] - first
            belongs = torch.arange(n_blocks, device=values.device)[:, None] == here
            return belongs.double() @ values
        ends = np.clip(self.tile_start[first : last + 1], tiles.start, tiles.stop)
        lengths = torch.as_tensor(np.diff(ends), device=values.device)
        return torch.segment_reduce(values, "sum", lengths=lengths, unsafe=True)


def tiles_of(size: IntArray) -> tuple[int, IntArray]:
    """Return the rows per tile for blocks of given sizes, and where each block's tiles start."""
    n = int(size.sum())
    for tile in _TILES:
        count = -(-size // tile)
        if int(count.sum()) * tile <= (1 + _PADDING) * n + tile:
            break
    else:
        tile, count = 1, size
    return tile, np.concatenate([[0], np.cumsum(count)]).astype(np.int64)


def empty_rows(
    size: IntArray,
    d: int,
    machine: Machine,
    *,
    blocks: IntArray,
    fit_intercept: bool,
    has_offset: bool,
    place: int = 0,
) -> TorchRows:
    """Return rows of padding with room for the people of some blocks."""
    tile, tile_start = tiles_of(size)
    n_tiles = int(tile_start[-1])
    room = {"dtype": machine.dtype, "device": machine.device}
    matrix = torch.empty((n_tiles, tile, 1 + d), **room)
    # every other tile is filled up
    matrix[torch.as_tensor(tile_start[1:] - 1, device=machine.device)] = 0.0
    offset = torch.zeros((n_tiles, tile), **room) if has_offset else None
    count = torch.as_tensor(np.diff(tile_start), device=machine.device)
    tile_block = torch.repeat_interleave(count, output_size=n_tiles)
    start = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    return TorchRows(
        matrix, offset, blocks, start, tile_start, tile_block, fit_intercept, machine, place
    )


def slots_in_order(rows: TorchRows, codes: Tensor, key: Tensor | None = None) -> Tensor:
    """Return the slot of each person, (n,).

    Parameters
    ----------
    rows : TorchRows
    codes : (n,) int tensor
        Position in ``rows.blocks`` of each person's block.
    key : (n,) int64 tensor, optional
        Orders people within their block; else they keep their order.
    """
    order = None
    if key is not None:
        order = torch.argsort(key, stable=True)
        codes = codes[order]
    small = codes.to(torch.int16) if len(rows.blocks) < 1 << 15 else codes.to(torch.int32)
    small, by_block = torch.sort(small, stable=True)
    order = by_block if order is None else order[by_block]
    start, tiles = (torch.as_tensor(a, device=codes.device) for a in (rows.start, rows.tile_start))
    shift = tiles[:-1] * rows.tile - start[:-1]
    place = torch.arange(len(order), device=codes.device) + shift[small.long()]
    slots = torch.empty_like(place)
    slots[order] = place
    return slots


def hashes(x: Tensor, seed: int) -> Tensor:
    """Return the hash of each row of float64 features, as ``rows.arrange`` makes it.

    Signed, and shifted so that signed numbers are in the order of the unsigned ones.
    """
    words = (x + 0.0).t().contiguous().view(torch.int64)  # -0.0 becomes 0.0
    start = np.uint64(14695981039346656037) ^ np.uint64(seed)
    h = torch.full((len(x),), int(start.astype(np.int64)), dtype=torch.int64, device=x.device)
    for j in range(x.shape[1]):
        h = (h ^ words[j]) * 1099511628211
        h = h ^ ((h >> 29) & ((1 << 35) - 1))
    return h ^ _SIGN


def from_rows(rows: Rows, machine: Machine, ranked: bool = False) -> TorchRows:
    """Copy rows that are standardised to a device; ``ranked`` orders people by their key."""
    has_offset = bool(rows.offset.any())
    size = np.diff(rows.start)
    found = empty_rows(
        size,
        rows.matrix.shape[1],
        machine,
        blocks=rows.blocks,
        fit_intercept=rows.fit_intercept,
        has_offset=has_offset,
        place=rows.place,
    )
    codes = torch.as_tensor(np.repeat(np.arange(len(size)), size), device=machine.device)
    key = None
    if ranked:
        key = torch.as_tensor(np.asarray(rows.key).view(np.int64), device=machine.device) ^ _SIGN
    slots = slots_in_order(found, codes, key)
    offset = machine.send(rows.offset) if has_offset else None
    fill(found, slots, machine.send(np.ascontiguousarray(rows.matrix)), offset)
    return found if rows.weights is None else with_weights(found, slots, machine.send(rows.weights))


def fill(rows: TorchRows, slots: Tensor, columns: Tensor, offset: Tensor | None) -> None:
    """Put people, their columns standardised, where they belong."""
    ones = torch.ones((len(slots), 1), dtype=columns.dtype, device=columns.device)
    flat = rows.matrix.view(-1, rows.matrix.shape[2])
    flat.index_copy_(0, slots, torch.cat([ones, columns], dim=1))
    if offset is not None:
        fill_offset(rows, slots, offset)


def fill_offset(rows: TorchRows, slots: Tensor, offset: Tensor) -> None:
    """Put the offset of people where they belong."""
    assert rows.offset is not None
    rows.offset.view(-1).index_copy_(0, slots, offset.to(rows.offset.dtype))


def with_weights(rows: TorchRows, slots: Tensor, weights: Tensor) -> TorchRows:
    """Return rows that know the people (n,) that each stands for."""
    tiled = torch.zeros(rows.matrix.shape[:2], dtype=rows.matrix.dtype, device=weights.device)
    tiled.view(-1).index_copy_(0, slots, weights.to(tiled.dtype))
    return replace(rows, weights=tiled)
