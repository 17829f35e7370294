"""Sums of several tables of the same people, on a device (see ``likelihood.joint``).

The rows lie by the blocks of the first table; those of the others are added up by their codes, in
an order that never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unbin._linalg import long_product
from unbin._typing import FloatArray, IntArray
from unbin.exceptions import EngineError
from unbin.rows.design import BlockSums
from unbin.rows.engines.torch.bins import Bins
from unbin.rows.engines.torch.machine import Tensor, to_host, torch
from unbin.rows.engines.torch.sums import laid_out, times

if TYPE_CHECKING:
    from unbin.likelihood.joint import View
    from unbin.likelihood.joint_variance import Weights
    from unbin.likelihood.law import Law
    from unbin.rows.engines.torch.tiles import TorchRows

_FEW = 64
"""Blocks up to which people are added up by a matrix product."""
_AT_ONCE = 1 << 18
"""Rows whose people are added up at a time."""


def moments(rows: TorchRows, views: Sequence[View], free: FloatArray) -> tuple[BlockSums, ...]:
    """See ``likelihood.joint.joint_moment_sums``."""
    law, width = _law(views), rows.matrix.shape[2]
    m, folds = law.coordinates.n_row_nuisance, [_starts(view) for view in views]
    stacked = _stacks(rows, law, free)
    totals: list[Any] = [None] * len(views)
    for tiles in rows.batches(law.n_bins * (width + 2 + m + law.n_bins)):
        stack, part = stacked(tiles), rows.weighed(tiles)
        for t, starts in enumerate(folds):
            own = _folded(stack, starts)
            if t == 0:
                _add(totals, t, _added_up(rows, tiles, _tile_sums(own, part)))
            else:
                codes, n_blocks = rows.others[t - 1][tiles], rows.n_others(t - 1)
                _add(totals, t, sum_by(codes, _person_sums(own, part), n_blocks))
    found = []
    for view, total in zip(views, totals, strict=True):
        own = to_host(laid_out(total, width - 1, view.n_bins, view.n_bins, m, True))
        found.append(tuple(own))
    return _block_sums(rows, found)


def shifts(
    rows: TorchRows, views: Sequence[View], free: FloatArray, s: int, width: int
) -> tuple[BlockSums, ...]:
    """See ``likelihood.joint.shift_cells``."""
    law = _law(views)
    stacked = _stacks(rows, law, free)
    codes = [_codes(rows, t) for t in range(len(views))]
    pairs = [torch.unique(code * width + codes[s], return_inverse=True) for code in codes]
    totals: list[Any] = [None] * len(views)
    for tiles in rows.batches(2 * law.n_bins):
        stack, people = stacked(tiles), rows.people(tiles)
        for t, (view, (cells, place)) in enumerate(zip(views, pairs, strict=True)):
            slope = _folded(stack, _starts(view))[1] * people[..., 0]
            _add(totals, t, sum_by(place[tiles], slope.flatten(1).T, len(cells)))
    found = zip(pairs, totals, strict=True)
    return tuple(
        BlockSums(cells.cpu().numpy(), (to_host([total])[0],)) for (cells, _), total in found
    )


def meat(
    rows: TorchRows, law: Law, free: FloatArray, weights: Weights
) -> tuple[FloatArray, tuple[BlockSums, ...]]:
    """See ``likelihood.joint_variance.meat_sums``."""
    p, device = weights.stacked.shape[1], rows.machine.device
    send = {"dtype": torch.float64, "device": device}
    stacked = torch.as_tensor(weights.stacked, **send)
    held = (np.searchsorted(cuts, law.upper) for cuts in weights.cuts)
    bins = [torch.as_tensor(each, device=device) for each in held]
    probabilities = _stacks(rows, law, free)
    total = torch.zeros((p, p), **send)
    pulls: list[Any] = [None] * len(bins)
    for tiles in rows.batches(law.n_bins * p * 2):
        stack = probabilities(tiles).double().flatten(2)  # (2 + m, K, n)
        people = rows.people(tiles).double().flatten()
        a = torch.zeros((stack.shape[2], law.n_bins, p), **send)
        for t, which in enumerate(bins):
            first = int(weights.start[t]) + _codes(rows, t, tiles).flatten() * int(weights.size[t])
            a += stacked[first[:, None] + which]
        q, slope = stack[0].T, stack[1].T
        level = q[:, None] @ a
        root = torch.sqrt(q.clamp(min=0.0) * people[:, None])[..., None]
        centred = (root * (a - level)).reshape(-1, p)
        total += long_product(centred, centred)
        along = (slope[:, None] @ a)[:, 0]
        weighed = along * people[:, None]
        total -= float(weights.variance.sum()) * long_product(along, weighed)
        for t, pulled in enumerate(weights.pulls):
            if pulled:
                n_blocks = len(rows.blocks) if t == 0 else rows.n_others(t - 1)
                _add(pulls, t, sum_by(_codes(rows, t, tiles, place=True), weighed, n_blocks))
    found = [(np.zeros((0, p)),) if pull is None else (to_host([pull])[0],) for pull in pulls]
    sums = _block_sums(rows, found)
    empty = np.zeros(0, np.int64)
    kept = zip(sums, weights.pulls, strict=True)
    return to_host([total])[0], tuple(
        own if pulled else BlockSums(empty, own.arrays) for own, pulled in kept
    )


def column_sums(rows: TorchRows) -> tuple[BlockSums, ...]:
    """See ``likelihood.joint_start.column_sums``."""
    n_tables = 1 + len(rows.others)
    totals: list[Any] = [None] * n_tables
    for tiles in rows.batches(2 * rows.matrix.shape[2]):
        part, offset = rows.weighed(tiles), torch.zeros_like(rows.people(tiles))
        if rows.offset is not None:
            offset = rows.offset[tiles][..., None] * rows.people(tiles)
        values = torch.cat([part[..., 1:], offset], dim=2).double().flatten(0, 1)
        for t in range(n_tables):
            n_blocks = len(rows.blocks) if t == 0 else rows.n_others(t - 1)
            _add(totals, t, sum_by(_codes(rows, t, tiles, place=True), values, n_blocks))
    return _block_sums(rows, [(to_host([total])[0],) for total in totals])


def sum_by(codes: Tensor, values: Tensor, n_blocks: int) -> Tensor:
    """Add up values (n, f) of people by their codes, in the same order every time; (B, f)."""
    codes, values = codes.reshape(-1), values.double()
    if n_blocks <= _FEW:
        belongs = torch.arange(n_blocks, device=values.device)[:, None] == codes
        return belongs.double() @ values
    ordered, order = torch.sort(codes, stable=True)
    lengths = torch.bincount(ordered, minlength=n_blocks)
    return torch.segment_reduce(values[order], "sum", lengths=lengths, unsafe=True)


def people_by(codes: Tensor, weights: Tensor, n_blocks: int) -> FloatArray:
    """Return the people (B,) that the rows of each block stand for."""
    total = torch.zeros((n_blocks, 1), dtype=torch.float64, device=weights.device)
    for low in range(0, len(weights), _AT_ONCE):
        part = slice(low, low + _AT_ONCE)
        total += sum_by(codes[part], weights[part, None], n_blocks)
    return to_host([total])[0][:, 0]


def _law(views: Sequence[View]) -> Law:
    """Return the law that all tables share; raise where one has bins or statistics of its own."""
    for view in views:
        if view.bins is None or view.total:
            what = "means" if view.total else "bins that differ between blocks"
            raise EngineError(
                f"engine 'torch': of several tables none may have {what}, got one that has; use "
                "engine='local'"
            )
    return views[0].law


def _stacks(rows: TorchRows, law: Law, free: FloatArray) -> Callable[[slice], Tensor]:
    """Return what gives probabilities and derivatives of a batch's people in refined bins."""
    theta, nuisance = law.coordinates.split(free)
    bins = Bins(law.family, law.lower, law.upper, nuisance, rows.machine)
    at = rows.theta(theta)

    def stack(tiles: slice) -> Tensor:
        points = law.points(rows.eta(at, tiles))
        return law.average([bins.at(eta, rows.tile_block[tiles]).stack for eta in points])

    return stack


def _starts(view: View) -> IntArray | None:
    """Return the first refined bin of each bin of a table; None where they are the same."""
    assert view.bins is not None
    if view.n_bins == len(view.bins):
        return None
    return np.flatnonzero(np.diff(view.bins, prepend=-1))


def _folded(stack: Tensor, starts: IntArray | None) -> Tensor:
    """Add up refined bins, the second axis, to those of a table."""
    if starts is None:
        return stack
    ends = [*starts[1:], stack.shape[1]]
    parts = [stack[:, a:b].sum(dim=1) for a, b in zip(starts, ends, strict=True)]
    return torch.stack(parts, dim=1)


def _tile_sums(stack: Tensor, part: Tensor) -> Tensor:
    """Return the sums of each tile, its rows weighed, in the order of ``laid_out``, (t, f)."""
    k, q = stack.shape[1], stack[0]
    by_x = times(stack.flatten(0, 1), part)
    found = [by_x[:, :k, 0], by_x[:, k : 2 * k].flatten(1)]
    found += [by_x[:, j * k : (j + 1) * k, 0] for j in range(2, len(stack))]
    found.append(times(q * part[..., 0], q.permute(1, 2, 0)).flatten(1))
    return torch.cat([values.double() for values in found], dim=1)


def _person_sums(stack: Tensor, part: Tensor) -> Tensor:
    """Return what each row, weighed, adds to a block, in the order of ``laid_out``, (n, f)."""
    x = part.flatten(0, 1).double()
    flat = stack.double().flatten(2)
    q, slope, people = flat[0].T, flat[1].T, x[:, :1]
    found = [q * people, (slope[:, :, None] * x[:, None]).flatten(1)]
    found += [flat[j].T * people for j in range(2, len(flat))]
    found.append((q[:, :, None] * (q * people)[:, None]).flatten(1))
    return torch.cat(found, dim=1)


def _added_up(rows: TorchRows, tiles: slice, values: Tensor) -> Tensor:
    """Add up the sums of tiles over the tiles of each block."""
    total = values.new_zeros((len(rows.blocks), values.shape[1]))
    first, last = rows.block_range(tiles)
    total[first:last] = rows.add_up(values, tiles, first, last)
    return total


def _codes(rows: TorchRows, t: int, tiles: slice = slice(None), *, place: bool = False) -> Tensor:
    """Return the block of each person in a table, (t, tile); with ``place`` its place here."""
    if t > 0:
        return rows.others[t - 1][tiles]
    codes = rows.tile_block[tiles]
    if not place:
        codes = torch.as_tensor(rows.blocks, device=codes.device)[codes]
    return codes[:, None].expand(-1, rows.tile)


def _add(totals: list[Any], t: int, values: Tensor) -> None:
    totals[t] = values if totals[t] is None else totals[t] + values


def _block_sums(rows: TorchRows, arrays: Sequence[tuple[FloatArray, ...]]) -> tuple[BlockSums, ...]:
    first, *others = arrays
    return (
        BlockSums(rows.blocks, first),
        *(BlockSums(np.arange(len(own[0])), own) for own in others),
    )
