"""Everybody's features on a device, laid out in tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbin._typing import FloatArray, IntArray
from unbin.exceptions import EngineError
from unbin.rows.contextual import Context, context_columns
from unbin.rows.design import Design, alone
from unbin.rows.engines import Blocks, Layout, Options
from unbin.rows.engines.torch import fused
from unbin.rows.engines.torch.machine import Machine, Tensor, torch
from unbin.rows.engines.torch.sums import people_by
from unbin.rows.engines.torch.tiles import (
    TorchRows,
    empty_rows,
    fill,
    fill_offset,
    hashes,
    slots_in_order,
    tiles_of,
    with_weights,
)
from unbin.rows.parts import LocalParts
from unbin.rows.survey import Scale, Survey, context_of, scale_of

READ_ROWS = 1 << 20
"""Rows that are read, or copied to the device, at a time."""


@dataclass(frozen=True, slots=True)
class OnDevice:
    """Features of people whose rows fit on the device.

    Attributes
    ----------
    X : (n, d) array or tensor
        Anywhere; read in chunks and never changed.
    blocks : Blocks
        Codes and weights are tensors on the device.
    offset : (n,) tensor on the device, or None
    machine : Machine
    options : Options
    """

    X: Any
    blocks: Blocks
    offset: Tensor | None
    machine: Machine
    options: Options

    @property
    def n_features(self) -> int:
        """Columns."""
        return int(self.X.shape[1])

    @property
    def sampled(self) -> bool:
        """Whether the rows are a sample of the people."""
        return self.blocks.sampled

    def crossed(self) -> tuple[OnDevice, IntArray]:
        """Return the same people by crossed cell, and the block of each cell in every table."""
        blocks = self.blocks
        if blocks.cells is not None:
            return self, blocks.cells
        codes, cells = blocks.codes.long(), np.arange(len(blocks.names))[None]
        other: Tensor
        for other in blocks.others:
            size = int(other.max()) + 1
            found, codes = torch.unique(codes * size + other.long(), return_inverse=True)
            there = found.cpu().numpy()
            cells = np.vstack([cells[:, there // size], there[None] % size])
        count = torch.bincount(codes).cpu().numpy()
        return replace(self, blocks=blocks.by_cell(codes, count, cells)), cells

    def context(self) -> Context:
        """Return the block means of the features."""
        weights = self.blocks.everybody
        survey = self._survey(weights)
        scale = scale_of(survey, fit_intercept=True, seed=0)
        design = self._design(self._lay_out(scale, weights, ranked=False), scale, weights)
        means = design.block_means[:, :-1] * scale.scale + scale.center
        sums = survey.people[:, None] * (means - survey.mean)
        first = None if self.blocks.cells is None else self.blocks.cells[0]
        names, people = self.blocks.names, survey.people
        if first is not None:
            people = np.bincount(first, people)
            sums = np.stack([np.bincount(first, each) for each in sums.T], axis=1)
        return context_of(names, people, sums, survey)

    def design(self, layout: Layout, context: Context | None = None) -> Design:
        """Lay the rows out, the context as further columns.

        To be ranked, people of a block are put in the order of their keys.
        """
        if layout.cells is not None:
            return self._design_by_cell(layout, context)
        weights = self.blocks.weights
        scale = scale_of(
            self._survey(self.blocks.everybody),
            fit_intercept=layout.fit_intercept,
            seed=layout.seed,
            context=context,
        )
        rows = self._lay_out(scale, weights, ranked=self.options.ranked)
        return self._design(rows, scale, weights, finishing=self.options.n_threads)

    def _design_by_cell(self, layout: Layout, context: Context | None) -> Design:
        """Lay the rows out by crossed cell."""
        cells, blocks = layout.cells, self.blocks
        assert cells is not None
        order = np.argsort(cells.rank)
        codes = self.machine.send(cells.rank)[blocks.codes.long()]
        people = replace(self, blocks=blocks.by_cell(codes, blocks.size[order], cells.codes))
        if context is not None:
            context = replace(context, means=context.means[order])
        return replace(people.design(replace(layout, cells=None), context), group=cells.group)

    def known(self, design: Design, people: FloatArray, context: Context | None = None) -> Design:
        """Return the people whose outcome is known, each row a block, scaled as in ``design``.

        Their rows are brought here: they are few.
        """
        rows = self.blocks.known
        X, codes = _brought(self.X, rows), _brought(self.blocks.codes, rows)
        offset = None if self.offset is None else _brought(self.offset, rows)
        columns = [*X.astype(np.float64).T, *context_columns(context, codes.astype(np.int64))]
        return alone(design, columns, offset, people)

    def _batches(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield the rows of X, some at a time, on the device in float64."""
        n = len(self.X)
        for low in range(0, n, READ_ROWS):
            part = slice(low, min(low + READ_ROWS, n))
            x = self.X[part]
            if isinstance(x, np.ndarray):
                x = torch.as_tensor(np.array(x, dtype=np.float64, order="C"))
            yield part, x.to(self.machine.device, torch.float64)

    def _survey(self, weights: Tensor | None) -> Survey:
        """Measure the columns; block sums are not needed here."""
        if weights is None and self._takes_kernels():
            mean, square = fused.spread(self.X)
        else:
            mean, square = self._spread(weights)
        found = mean.cpu().numpy(), square.cpu().numpy()
        has_offset = self.offset is not None and bool((self.offset != 0).any())
        size = self.blocks.size
        names = np.arange(len(size)).astype(np.str_)  # not looked at
        people = size if weights is None else people_by(self.blocks.codes, weights, len(names))
        nothing = np.zeros((len(names), 0))
        return Survey(names, size, people, nothing, found[0], *found, has_offset)

    def _spread(self, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the mean of each column, and Σ (x - mean)², some rows at a time."""
        n, d = 0.0, self.n_features
        mean, square = torch.zeros((2, d), dtype=torch.float64, device=self.machine.device)
        for part, x in self._batches():
            m, here, own = _measured(x, None if weights is None else weights[part])
            if m == 0:
                continue
            gap = here - mean
            square = square + own + gap**2 * (n * m / (n + m))
            mean = mean + gap * (m / (n + m))
            n += m
        return mean, square

    def _lay_out(self, scale: Scale, weights: Tensor | None, *, ranked: bool) -> TorchRows:
        d, size, codes = len(scale.center), self.blocks.size, self.blocks.codes
        check_room(size, d, self.machine, ranked=ranked)
        rows = empty_rows(
            size,
            d,
            self.machine,
            blocks=np.arange(len(size)),
            fit_intercept=scale.fit_intercept,
            has_offset=self.offset is not None,
        )
        context = None if scale.context is None else self.machine.send(scale.context, torch.float64)
        key = self._key(scale.seed, context) if ranked else None
        slots = slots_in_order(rows, codes, key)
        center, divide = (
            self.machine.send(values, torch.float64)
            for values in (scale.center, np.where(scale.varies, scale.scale, np.inf))
        )
        if context is None and self._takes_kernels():
            fused.fill(rows, slots, self.X, center, divide)
            if rows.offset is not None:
                fill_offset(rows, slots, self.offset)
        else:
            for part, x in self._batches():
                if context is not None:
                    x = torch.cat([x, context[codes[part].long()]], dim=1)
                columns = ((x - center) / divide).to(self.machine.dtype)
                fill(rows, slots[part], columns, None if self.offset is None else self.offset[part])
        return rows if weights is None else with_weights(rows, slots, weights)

    def _takes_kernels(self) -> bool:
        """Tell whether X is read by kernels: it lies on the device, row by row."""
        machine, X = self.machine, self.X
        return (
            not isinstance(X, np.ndarray)
            and X.device.type == machine.device.type
            and machine.device.index in (None, X.device.index)
            and X.is_contiguous()
            and X.is_floating_point()
            and fused.sums_columns(machine, X.shape[1] + 1)
        )

    def _key(self, seed: int, context: Tensor | None) -> Tensor:
        found = []
        for part, x in self._batches():
            if context is not None:
                x = torch.cat([x, context[self.blocks.codes[part].long()]], dim=1)
            found.append(hashes(x, seed))
        return torch.cat(found)

    def _design(
        self, rows: TorchRows, scale: Scale, weights: Tensor | None, *, finishing: int = 1
    ) -> Design:
        parts, n_blocks = LocalParts([rows]), len(self.blocks.size)
        return Design(
            parts=parts,
            whole=parts,
            start=np.concatenate([[0], np.cumsum(self.blocks.size)]).astype(np.int64),
            center=scale.center,
            scale=scale.scale,
            varies=scale.varies,
            fit_intercept=scale.fit_intercept,
            has_offset=rows.offset is not None,
            finishing=finishing,
            scores_blocks=True,
            weight=None if weights is None else people_by(self.blocks.codes, weights, n_blocks),
        )


def on_device(blocks: Blocks, machine: Machine) -> Blocks:
    """Return blocks whose codes and weights are on the device."""

    def sent(weights: Any) -> Tensor | None:
        return None if weights is None else machine.send(weights, torch.float64)

    return replace(
        blocks,
        codes=machine.send(blocks.codes),
        others=tuple(map(machine.send, blocks.others)),
        weights=sent(blocks.weights),
        everybody=sent(blocks.everybody),
    )


def _measured(x: Tensor, weights: Tensor | None) -> tuple[float, Tensor, Tensor]:
    """Return the people of some rows, the mean of their columns, and Σ (x - mean)²."""
    if weights is None:
        mean = x.mean(dim=0)
        return float(len(x)), mean, ((x - mean) ** 2).sum(dim=0)
    people, each = float(weights.sum()), weights[:, None]
    mean = (each * x).sum(dim=0) / max(people, 1e-300)
    return people, mean, (each * (x - mean) ** 2).sum(dim=0)


def _brought(values: Any, rows: Any) -> Any:
    """Return some rows of an array or a tensor as an array."""
    if isinstance(values, np.ndarray):
        return values[rows]
    return values[torch.as_tensor(rows, device=values.device)].cpu().numpy()


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
