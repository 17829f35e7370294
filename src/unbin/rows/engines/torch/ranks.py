"""Matching on a device: sort the means of each block, clip them to the bounds of their ranks.

Blocks of about the same size are sorted side by side, padded to the largest of them with values
that sort last. People are already in the order of their keys and sorts are stable, so that equal
means rank as they do elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unbin._typing import FloatArray, IntArray
from unbin.exceptions import EngineError
from unbin.families import BregmanFamily
from unbin.rows.engines.torch.machine import Tensor, to_host, torch

if TYPE_CHECKING:
    from unbin.matching.bounds import RankBounds
    from unbin.rows.engines.torch.tiles import TorchRows

_GROWTH = 1.2
"""Blocks are padded to at most this many times their size to be sorted with others."""
_CELLS = 1 << 26
"""Numbers sorted at a time."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Blocks that are sorted side by side.

    Attributes
    ----------
    people : (b, 1)
        People of each block.
    slots : (b, width) or slice
        Their places among all rows of all tiles; padding has the extra slot at the end.
    lower, upper : (b, width)
        Bounds of each rank, infinite in padding.
    """

    people: Tensor
    slots: Tensor | slice
    lower: Tensor
    upper: Tensor


def matching(
    rows: TorchRows, family: BregmanFamily, bounds: RankBounds, theta: FloatArray
) -> tuple[float, FloatArray, float]:
    """See ``objective.matching_sums``."""
    at, n_slots = rows.theta(theta), rows.matrix.shape[0] * rows.tile
    # one more slot, for padding
    eta, residual = (
        torch.zeros(n_slots + 1, dtype=rows.machine.dtype, device=at.device) for _ in range(2)
    )
    by_tile = eta[:-1].view(-1, rows.tile), residual[:-1].view(-1, rows.tile)
    for tiles in rows.batches(1):
        by_tile[0][tiles] = rows.eta(at, tiles)
    sums = [_match(group, family, eta, residual) for group in _placed(rows, bounds)]
    value, square = torch.stack(sums).sum(dim=0)
    gradient = torch.zeros(rows.matrix.shape[2], dtype=torch.float64, device=at.device)
    for tiles in rows.batches(1):
        products = torch.bmm(by_tile[1][tiles, None], rows.matrix[tiles])
        gradient += products.sum(dim=(0, 1), dtype=torch.float64)
    found = to_host([torch.cat([gradient, value[None], square[None]])])[0]
    skip = 0 if rows.fit_intercept else 1
    return float(found[-2]), found[skip:-2], float(found[-1])


def _match(group: Ranked, family: BregmanFamily, flat: Tensor, out: Tensor) -> Tensor:
    """Write mean - z of some blocks into ``out``; return D(z || mean) and Σ (mean - z)²."""
    n_blocks, width = group.lower.shape
    inside = torch.arange(width, device=flat.device) < group.people
    if isinstance(group.slots, slice):
        eta = flat[group.slots].view(n_blocks, width)
    else:
        eta = flat[group.slots]
    eta, order = torch.sort(torch.where(inside, eta, torch.inf), dim=1, stable=True)
    eta = torch.where(inside, eta, 0.0).double()
    mean = family.inverse_link(eta)
    z = torch.clamp(mean, group.lower, group.upper)
    residual = mean - z
    divergence = torch.where(residual == 0, 0.0, family.divergence_at(z, eta, mean))
    if isinstance(group.slots, slice):
        out[group.slots].view(n_blocks, width).scatter_(1, order, residual.to(out.dtype))
    else:
        out[torch.gather(group.slots, 1, order)] = residual.to(out.dtype)
    return torch.stack([divergence.sum(), (residual * residual).sum()])


# -- once per fit ----------------------------------------------------------------------------------


def _placed(rows: TorchRows, bounds: RankBounds) -> list[Ranked]:
    """Return the blocks in groups, with the bounds of their ranks on the device."""
    if rows.kept.get("bounds") is not bounds:
        rows.kept.clear()
        rows.kept["groups"] = _place(rows, bounds.part(rows.span))
        rows.kept["bounds"] = bounds
    groups: list[Ranked] = rows.kept["groups"]
    return groups


def _place(rows: TorchRows, bounds: RankBounds) -> list[Ranked]:
    if bounds.count_low is not None:
        raise EngineError(
            "engine 'torch': matching cannot use suppressed or rounded counts; use engine='local', "
            "or method='likelihood'"
        )
    room = np.diff(rows.tile_start) * rows.tile
    if (room == room[0]).all():
        step = max(1, _CELLS // int(room[0]))
        return [
            _group(rows, bounds, np.arange(low, min(low + step, len(room))), int(room[0]), True)
            for low in range(0, len(room), step)
        ]
    size = np.diff(rows.start)
    level = np.ceil(np.log(size) / np.log(_GROWTH)).astype(np.int64)
    groups = []
    for k in np.unique(level):
        alike = np.flatnonzero(level == k)
        width = int(size[alike].max())
        step = max(1, _CELLS // width)
        groups += [
            _group(rows, bounds, alike[low : low + step], width, False)
            for low in range(0, len(alike), step)
        ]
    return groups


def _group(
    rows: TorchRows, bounds: RankBounds, blocks: IntArray, width: int, side_by_side: bool
) -> Ranked:
    """Group some blocks; ``side_by_side`` where they follow each other without gaps."""
    device = rows.machine.device
    size = np.diff(rows.start)[blocks]
    first = rows.tile_start[blocks] * rows.tile
    people = torch.as_tensor(size, device=device)[:, None]
    place = torch.arange(width, device=device)
    if side_by_side:
        slots: Tensor | slice = slice(int(first[0]), int(first[0]) + len(blocks) * width)
    else:
        slots = torch.as_tensor(first, device=device)[:, None] + place
        slots = torch.where(place < people, slots, rows.matrix.shape[0] * rows.tile)
    run = _runs(bounds, blocks, width, device)
    inside = place < people
    lower, upper = (
        torch.where(inside, torch.as_tensor(ends, device=device)[run], open_end)
        for ends, open_end in ((bounds.lower, -torch.inf), (bounds.upper, torch.inf))
    )
    return Ranked(people, slots, lower, upper)


def _runs(bounds: RankBounds, blocks: IntArray, width: int, device: object) -> Tensor:
    """Return the run of each rank of some blocks, (b, width); arbitrary beyond the last rank."""
    n_runs = np.diff(bounds.run_start)[blocks]
    inner = np.repeat(bounds.run_start[blocks], n_runs)
    place = np.arange(len(inner)) - np.repeat(np.cumsum(n_runs) - n_runs, n_runs)
    inner += place
    row = np.repeat(np.arange(len(blocks)), n_runs)
    # a one where a new run begins, added up along the ranks
    begins = place > 0
    previous = bounds.cut[inner[begins] - 1]
    first = torch.zeros((len(blocks), width + 1), dtype=torch.int32, device=device)
    at = torch.as_tensor(row[begins] * (width + 1) + previous, device=device)
    first.view(-1)[at] = 1
    run = torch.cumsum(first[:, :-1], dim=1, dtype=torch.int32).long()
    last = torch.as_tensor(n_runs - 1, device=device)[:, None]
    base = torch.as_tensor(bounds.run_start[blocks], device=device)[:, None]
    return base + torch.minimum(run, last)
