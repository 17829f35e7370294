"""Everybody's features on a device, laid out in tiles; or in chunks, where not all fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbin.contextual import CONSTANT, Context
from unbin.design import Design
from unbin.device.backend import Machine, Tensor, torch
from unbin.device.rows import (
    TorchRows,
    empty_rows,
    fill,
    from_rows,
    hashes,
    slots_in_order,
    tiles_of,
)
from unbin.engines import LocalParts, Parts, Recipe
from unbin.exceptions import EngineError
from unbin.segments import chunks_of
from unbin.survey import Scale, Slab, Survey, Surveyed, scale_of
from unbin.typing import FloatArray, IntArray, TextArray

_READ_ROWS = 1 << 20
"""Rows that are read, or copied to the device, at a time."""


@dataclass(frozen=True, slots=True)
class DevicePeople:
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
    """

    X: Any
    names: TextArray
    codes: Tensor
    size: IntArray
    offset: Tensor | None
    machine: Machine

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

    def design(
        self,
        *,
        fit_intercept: bool,
        seed: int,
        ranked: bool,
        n_threads: int,
        context: Context | None = None,
    ) -> Design:
        """Lay the rows out, the context as further columns.

        ``ranked`` puts people of a block in the order of their keys, for matching.
        """
        scale = scale_of(self._survey(), fit_intercept=fit_intercept, seed=seed, context=context)
        rows = self._lay_out(scale, ranked=ranked)
        return _design(rows, scale, self.size, finishing=n_threads)

    def _chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield the rows of X, some at a time, on the device in float64."""
        n = len(self.X)
        for low in range(0, n, _READ_ROWS):
            part = slice(low, min(low + _READ_ROWS, n))
            x = self.X[part]
            if isinstance(x, np.ndarray):
                x = torch.as_tensor(np.array(x, dtype=np.float64, order="C"))
            yield part, x.to(self.machine.device, torch.float64)

    def _survey(self) -> Survey:
        """Measure the columns; block sums are not needed here."""
        n, d = 0, self.n_features
        mean, square = torch.zeros((2, d), dtype=torch.float64, device=self.machine.device)
        for _, x in self._chunks():
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
        for part, x in self._chunks():
            if context is not None:
                x = torch.cat([x, context[self.codes[part].long()]], dim=1)
            columns = ((x - center) / divide).to(self.machine.dtype)
            offset = None if self.offset is None else self.offset[part].to(self.machine.dtype)
            fill(rows, slots[part], columns, offset)
        return rows

    def _key(self, seed: int, context: Tensor | None) -> Tensor:
        found = []
        for part, x in self._chunks():
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
    )


# -- what fits -------------------------------------------------------------------------------------


def bytes_needed(size: IntArray, d: int, machine: Machine, *, ranked: bool) -> float:
    """Return the bytes that rows, their layout and a pass over them take, about."""
    tile, tile_start = tiles_of(size)
    slots = float(tile_start[-1]) * tile
    item = 8 if machine.dtype == torch.float64 else 4
    # sorting holds codes, keys and places twice; matching holds ranks, bounds and residuals
    per_row = (2 + d) * item + 8 * (10 if ranked else 5)
    return slots * per_row + 8.0 * _READ_ROWS * 4 * (d + 1)


def fits(size: IntArray, d: int, machine: Machine, *, ranked: bool) -> bool:
    """Tell whether people of some blocks fit on the device."""
    return bytes_needed(size, d, machine, ranked=ranked) <= machine.free()


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


# -- people who do not fit, or are in files -----------------------------------------------------------


def load(surveyed: Surveyed, d: int, machine: Machine, *, ranked: bool) -> DevicePeople | None:
    """Read the people of all slabs onto the device; None if they do not fit."""
    whole = surveyed.whole
    twice = 8.0 * whole.n_people * (d + 2)  # as read, and as laid out
    need = bytes_needed(whole.rows, 2 * d, machine, ranked=ranked)
    if need + twice > machine.free():
        return None
    room = {"dtype": torch.float64, "device": machine.device}
    X = torch.empty((whole.n_people, d), **room)
    codes = torch.empty(whole.n_people, dtype=torch.int64, device=machine.device)
    offset = torch.zeros(whole.n_people, **room) if whole.has_offset else None
    low = 0
    for slab in surveyed.slabs.stream(_itself):
        part = slice(low, low + len(slab.X))
        place = np.searchsorted(whole.blocks, slab.blocks)
        X[part] = machine.send(np.ascontiguousarray(slab.X), torch.float64)
        codes[part] = machine.send(place[slab.codes])
        if offset is not None and slab.offset is not None:
            offset[part] = machine.send(slab.offset, torch.float64)
        low = part.stop
    return DevicePeople(X, whole.blocks, codes, whole.rows, offset, machine)


def in_chunks(design: Design, machine: Machine, *, ranked: bool, n_threads: int) -> Design:
    """Return a design whose parts travel to the device at every pass."""
    follow = design.whole is design.parts
    parts = design.parts.later(from_rows, machine, ranked)
    finishing = 0 if follow else n_threads
    return replace(design, parts=parts, whole=parts if follow else None, finishing=finishing)


def slabs_of(X: FloatArray, names: TextArray, codes: IntArray, offset: FloatArray | None) -> Parts:
    """Return rows of an array as slabs of whole blocks, made again at each pass."""
    order = np.argsort(codes, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(names)))])
    groups = _gather(start)
    return LocalParts(
        [Recipe(((_slab, (X, names, codes, offset, order[part])),)) for part in groups]
    )


def _gather(start: IntArray) -> list[slice]:
    """Put chunks of blocks together until there are enough rows for a pass."""
    groups: list[slice] = []
    for chunk in chunks_of(start):
        if groups and chunk.rows.stop - groups[-1].start <= _READ_ROWS:
            groups[-1] = slice(groups[-1].start, chunk.rows.stop)
        else:
            groups.append(chunk.rows)
    return groups


def _slab(
    X: FloatArray,
    names: TextArray,
    codes: IntArray,
    offset: FloatArray | None,
    rows: IntArray,
) -> Slab:
    blocks, place = np.unique(codes[rows], return_inverse=True)
    extra = None if offset is None else offset[rows]
    return Slab(X[rows], names[blocks], place, extra)


def _itself(part: Slab) -> Slab:
    return part
