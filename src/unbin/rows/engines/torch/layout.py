"""Everybody's features on a device, laid out in tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbin._typing import IntArray, TextArray
from unbin.exceptions import EngineError
from unbin.rows.contextual import CONSTANT, Context
from unbin.rows.design import Design
from unbin.rows.engines import Layout, Options
from unbin.rows.engines.torch.machine import Machine, Tensor, torch
from unbin.rows.engines.torch.tiles import (
    TorchRows,
    empty_rows,
    fill,
    hashes,
    slots_in_order,
    tiles_of,
    with_others,
)
from unbin.rows.parts import LocalParts
from unbin.rows.survey import Scale, Survey, scale_of

READ_ROWS = 1 << 20
"""Rows that are read, or copied to the device, at a time."""


@dataclass(frozen=True, slots=True)
class OnDevice:
    """Features of people whose rows fit on the device.

    Attributes
    ----------
    X : (n, d) array or tensor
        Anywhere; read in chunks and never changed.
    names : (B,) text, sorted
    codes : (n,) int tensor on the device
        Position in ``names`` of each row's block.
    size : (B,)
        People of each block.
    offset : (n,) tensor on the device, or None
    machine : Machine
    options : Options
    others : tuple of (n,) int tensors on the device
        The block of each row in further partitions.
    """

    X: Any
    names: TextArray
    codes: Tensor
    size: IntArray
    offset: Tensor | None
    machine: Machine
    options: Options
    others: tuple[Tensor, ...] = ()

    @property
    def n_features(self) -> int:
        """Columns."""
        return int(self.X.shape[1])

    def context(self) -> Context:
        """Return the block means of the features."""
        survey = self._survey()
        scale = scale_of(survey, fit_intercept=True, seed=0)
        rows = self._lay_out(scale, ranked=False)
        design = _design(rows, scale, self.size, finishing=1)
        means = design.block_means[:, :-1] * scale.scale + scale.center
        between = (self.size[:, None] * (means - survey.mean) ** 2).sum(axis=0)
        used = survey.square - between > CONSTANT * survey.square
        return Context(self.names, means, survey.mean, used)

    def design(self, layout: Layout, context: Context | None = None) -> Design:
        """Lay the rows out, the context as further columns.

        To be ranked, people of a block are put in the order of their keys.
        """
        scale = scale_of(
            self._survey(), fit_intercept=layout.fit_intercept, seed=layout.seed, context=context
        )
        rows = self._lay_out(scale, ranked=self.options.ranked)
        return _design(rows, scale, self.size, finishing=self.options.n_threads)

    def _batches(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield the rows of X, some at a time, on the device in float64."""
        n = len(self.X)
        for low in range(0, n, READ_ROWS):
            part = slice(low, min(low + READ_ROWS, n))
            x = self.X[part]
            if isinstance(x, np.ndarray):
                x = torch.as_tensor(np.array(x, dtype=np.float64, order="C"))
            yield part, x.to(self.machine.device, torch.float64)

    def _survey(self) -> Survey:
        """Measure the columns; block sums are not needed here."""
        n, d = 0, self.n_features
        mean, square = torch.zeros((2, d), dtype=torch.float64, device=self.machine.device)
        for _, x in self._batches():
            m = len(x)
            here = x.mean(dim=0)
            x = x - here
            gap = here - mean
            square = square + (x * x).sum(dim=0) + gap**2 * (n * m / (n + m))
            mean = mean + gap * (m / (n + m))
            n += m
        found = mean.cpu().numpy(), square.cpu().numpy()
        has_offset = self.offset is not None and bool((self.offset != 0).any())
        nothing = np.zeros((len(self.names), 0))
        return Survey(self.names, self.size, nothing, found[0], *found, has_offset)

    def _lay_out(self, scale: Scale, *, ranked: bool) -> TorchRows:
        d = len(scale.center)
        check_room(self.size, d, self.machine, ranked=ranked)
        rows = empty_rows(
            self.size,
            d,
            self.machine,
            blocks=np.arange(len(self.names)),
            fit_intercept=scale.fit_intercept,
            has_offset=self.offset is not None,
        )
        context = None if scale.context is None else self.machine.send(scale.context, torch.float64)
        key = self._key(scale.seed, context) if ranked else None
        slots = slots_in_order(rows, self.codes, key)
        center, divide = (
            self.machine.send(values, torch.float64)
            for values in (scale.center, np.where(scale.varies, scale.scale, np.inf))
        )
        for part, x in self._batches():
            if context is not None:
                x = torch.cat([x, context[self.codes[part].long()]], dim=1)
            columns = ((x - center) / divide).to(self.machine.dtype)
            offset = None if self.offset is None else self.offset[part].to(self.machine.dtype)
            fill(rows, slots[part], columns, offset)
        return with_others(rows, slots, self.others)

    def _key(self, seed: int, context: Tensor | None) -> Tensor:
        found = []
        for part, x in self._batches():
            if context is not None:
                x = torch.cat([x, context[self.codes[part].long()]], dim=1)
            found.append(hashes(x, seed))
        return torch.cat(found)


def _design(rows: TorchRows, scale: Scale, size: IntArray, *, finishing: int) -> Design:
    parts = LocalParts([rows])
    return Design(
        parts=parts,
        whole=parts,
        start=np.concatenate([[0], np.cumsum(size)]).astype(np.int64),
        center=scale.center,
        scale=scale.scale,
        varies=scale.varies,
        fit_intercept=scale.fit_intercept,
        has_offset=rows.offset is not None,
        finishing=finishing,
        scores_blocks=True,
    )


# -- what fits -------------------------------------------------------------------------------------


def bytes_needed(size: IntArray, d: int, machine: Machine, *, ranked: bool) -> float:
    """Return the bytes that rows, their layout and a pass over them take, about."""
    tile, tile_start = tiles_of(size)
    slots = float(tile_start[-1]) * tile
    item = 8 if machine.dtype == torch.float64 else 4
    # sorting holds codes, keys and places twice; matching holds ranks, bounds and residuals
    per_row = (2 + d) * item + 8 * (10 if ranked else 5)
    return slots * per_row + 8.0 * READ_ROWS * 4 * (d + 1)


def check_room(size: IntArray, d: int, machine: Machine, *, ranked: bool) -> None:
    """Raise unless people of some blocks fit on the device."""
    need, free, n = bytes_needed(size, d, machine, ranked=ranked), machine.free(), int(size.sum())
    if need > free:
        raise EngineError(
            f"device: {machine.device} has {free / 2**30:.1f} GiB free, {n:,} people with {d} "
            f"columns need {need / 2**30:.1f}; about {int(n * max(free, 0) / need):,} people fit: "
            "pass dtype='float32', Parquet files or a numpy array, which are read in chunks, or "
            "use a larger device"
        )
