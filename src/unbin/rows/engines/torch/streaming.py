"""People in files, or too many for the device: they travel there part by part at every pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbin._blocks import chunks_of
from unbin._typing import FloatArray, IntArray, TextArray
from unbin.rows.contextual import Context
from unbin.rows.design import Design
from unbin.rows.engines import LocalParts, Parts, Recipe, itself
from unbin.rows.engines.torch.layout import READ_ROWS, DevicePeople, bytes_needed
from unbin.rows.engines.torch.machine import Machine, torch
from unbin.rows.engines.torch.tiles import from_rows
from unbin.rows.survey import Slab, Surveyed, scale_of

_AT_A_TIME = 2
"""Parts on their way to the device, or there, at a time: one is worked on, one is made."""


@dataclass(frozen=True, slots=True)
class DeviceParts:
    """Features of people who do not all fit on the device (see ``DevicePeople``)."""

    people: Surveyed
    machine: Machine

    @property
    def n_features(self) -> int:
        """Columns."""
        return len(self.people.whole.mean)

    def context(self) -> Context:
        """Return the block means of the features."""
        return self.people.whole.context()

    def design(
        self,
        *,
        fit_intercept: bool,
        seed: int,
        ranked: bool,
        n_threads: int,
        context: Context | None = None,
    ) -> Design:
        """Return a design whose rows are laid out, and sent to the device, at every pass."""
        whole = self.people.whole
        scale = scale_of(whole, fit_intercept=fit_intercept, seed=seed, context=context)
        design = self.people.design(scale)
        # rows that are kept in memory must not be kept on the device
        recipes = [_recipe(design.parts[k]) for k in range(len(design.parts))]
        parts = LocalParts(recipes, _AT_A_TIME).later(from_rows, self.machine, ranked)
        if design.whole is None:
            return replace(design, parts=parts, finishing=n_threads)
        return replace(design, parts=parts, whole=parts, scores_blocks=True)


def read_people(people: Surveyed, machine: Machine, *, ranked: bool) -> DevicePeople | DeviceParts:
    """Read the people of all slabs onto the device, or leave them where they are."""
    whole = people.whole
    n, d = whole.n_people, len(whole.mean)
    as_read = 8.0 * n * (d + 2)
    if as_read + bytes_needed(whole.rows, 2 * d, machine, ranked=ranked) > machine.free():
        return DeviceParts(people, machine)
    room = {"dtype": torch.float64, "device": machine.device}
    X = torch.empty((n, d), **room)
    codes = torch.empty(n, dtype=torch.int64, device=machine.device)
    offset = torch.zeros(n, **room) if whole.has_offset else None
    low = 0
    for slab in people.slabs.stream(itself):
        part = slice(low, low + len(slab.codes))
        place = np.searchsorted(whole.blocks, slab.blocks)
        X[part] = machine.send(np.column_stack(slab.columns), torch.float64)
        codes[part] = machine.send(place[slab.codes])
        if offset is not None and slab.offset is not None:
            offset[part] = machine.send(slab.offset, torch.float64)
        low = part.stop
    return DevicePeople(X, whole.blocks, codes, whole.rows, offset, machine)


def slabs_of(X: FloatArray, names: TextArray, codes: IntArray, offset: FloatArray | None) -> Parts:
    """Return the rows of an array as slabs of whole blocks, made again at each pass."""
    order = np.argsort(codes, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(names)))])
    groups: list[slice] = []
    for chunk in chunks_of(start):
        if groups and chunk.rows.stop - groups[-1].start <= READ_ROWS:
            groups[-1] = slice(groups[-1].start, chunk.rows.stop)
        else:
            groups.append(chunk.rows)
    args = [(X, names, codes, offset, order[part]) for part in groups]
    return LocalParts([Recipe(((_slab, arg),)) for arg in args])


def _slab(
    X: FloatArray, names: TextArray, codes: IntArray, offset: FloatArray | None, rows: IntArray
) -> Slab:
    blocks, place = np.unique(codes[rows], return_inverse=True)
    columns = tuple(np.asfortranarray(X[rows]).T)
    return Slab(columns, names[blocks], place, None if offset is None else offset[rows])


def _recipe(part: Any) -> Recipe:
    return part if isinstance(part, Recipe) else Recipe(((itself, (part,)),))
