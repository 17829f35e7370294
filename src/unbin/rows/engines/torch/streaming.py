"""People in files, or too many for the device: they travel there part by part at every pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbin._blocks import spans_of
from unbin._typing import FloatArray, IntArray, TextArray
from unbin.rows.contextual import Context
from unbin.rows.design import Design
from unbin.rows.engines import Blocks, InParts, Layout, Options
from unbin.rows.engines.local import InMemory
from unbin.rows.engines.torch.layout import READ_ROWS, OnDevice, bytes_needed
from unbin.rows.engines.torch.machine import Machine, torch
from unbin.rows.engines.torch.tiles import from_rows
from unbin.rows.parts import LocalParts, Parts, Recipe, itself
from unbin.rows.survey import Coded, Part, Surveyed

_AT_A_TIME = 2
"""Parts on their way to the device, or there, at a time: one is worked on, one is prepared."""


@dataclass(frozen=True, slots=True)
class Streamed(InParts):
    """Features of people who do not all fit on the device (see ``OnDevice``)."""

    machine: Machine
    options: Options

    def design(self, layout: Layout, context: Context | None = None) -> Design:
        """Return a design whose rows are laid out, and sent to the device, at every pass."""
        design = InParts.design(self, layout, context)
        # rows that are kept in memory must not be kept on the device
        recipes = [_recipe(design.parts[k]) for k in range(len(design.parts))]
        parts = LocalParts(recipes, _AT_A_TIME).later(from_rows, self.machine, self.options.ranked)
        if design.whole is None:
            return replace(design, parts=parts, looks_up=False, finishing=self.options.n_threads)
        return replace(design, parts=parts, whole=parts, looks_up=False, scores_blocks=True)


@dataclass(frozen=True, slots=True)
class Chunked(Streamed):
    """Features of people in an array that does not fit on the device.

    Attributes
    ----------
    aside : InMemory
        The array, from which those whose outcome is known are taken in its order.
    """

    aside: InMemory

    def crossed(self) -> tuple[Chunked, IntArray]:
        """Return the same people by crossed cell, and the block of each cell in every table."""
        aside, cells = self.aside.crossed()
        surveyed = Surveyed.of(parts_of(aside.X, aside.blocks, aside.offset))
        return replace(self, surveyed=surveyed, aside=aside), cells

    def known(self, design: Design, people: FloatArray, context: Context | None = None) -> Design:
        """Return the people whose outcome is known, each row a block, scaled as in ``design``."""
        return self.aside.known(design, people, context)


def read_people(surveyed: Surveyed, machine: Machine, options: Options) -> OnDevice | Streamed:
    """Read the people of all parts onto the device, or leave them where they are."""
    whole = surveyed.whole
    n, d = whole.n_rows, len(whole.mean)
    as_read = 8.0 * n * (d + 2 + 4 * surveyed.weighed)  # weights are laid out as well
    if as_read + bytes_needed(whole.rows, 2 * d, machine, ranked=options.ranked) > machine.free():
        return Streamed(surveyed, machine, options)
    room = {"dtype": torch.float64, "device": machine.device}
    X = torch.empty((n, d), **room)
    codes = torch.empty(n, dtype=torch.int64, device=machine.device)
    offset = torch.zeros(n, **room) if whole.has_offset else None
    weights, everybody = (torch.ones(n, **room) if surveyed.weighed else None for _ in range(2))
    known, low = [np.zeros(0, np.int64)], 0
    for read in surveyed.parts.stream(itself):
        part = slice(low, low + len(read))
        X[part] = machine.send(np.column_stack(read.columns), torch.float64)
        codes[part] = machine.send(read.coded.among(whole.blocks))
        each = ((offset, read.offset), (weights, read.counted), (everybody, read.weights))
        for there, values in each:
            if there is not None and values is not None:
                there[part] = machine.send(values, torch.float64)
        if read.outcome is not None:
            known.append(low + np.flatnonzero(~np.isnan(read.outcome)))
        low = part.stop
    blocks = Blocks(
        whole.partitions[0].blocks,
        codes,
        whole.rows,
        weights=weights,
        known=np.concatenate(known),
        everybody=everybody,
        cells=whole.codes if whole.members else None,
    )
    return OnDevice(X, blocks, offset, machine, options)


def parts_of(X: FloatArray, blocks: Blocks, offset: FloatArray | None) -> Parts:
    """Return the rows of an array in parts of whole blocks, made again at each pass.

    Codes and weights of ``blocks`` are arrays.
    """
    order = np.argsort(blocks.codes, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(blocks.codes))])
    groups: list[slice] = []
    for span in spans_of(start):
        if groups and span.rows.stop - groups[-1].start <= READ_ROWS:
            groups[-1] = slice(groups[-1].start, span.rows.stop)
        else:
            groups.append(span.rows)
    args = [(X, blocks, offset, order[part]) for part in groups]
    return LocalParts([Recipe(((_part, arg),)) for arg in args])


def _part(X: FloatArray, blocks: Blocks, offset: FloatArray | None, rows: IntArray) -> Part:
    found, place = np.unique(blocks.codes[rows], return_inverse=True)
    names = blocks.names[found] if blocks.cells is None else _numbers(found)
    everybody = None if blocks.everybody is None else blocks.everybody[rows]
    counted = everybody
    if blocks.weights is not blocks.everybody:
        counted = None if blocks.weights is None else blocks.weights[rows]
    return Part(
        tuple(np.asfortranarray(X[rows]).T),
        Coded(names, place),
        None if offset is None else offset[rows],
        weights=everybody,
        counted=counted,
    )


def _numbers(places: IntArray) -> TextArray:
    """Return names that are in the order of places."""
    return np.char.zfill(places.astype(np.str_), len(str(np.iinfo(np.int64).max)))


def _recipe(part: Any) -> Recipe:
    return part if isinstance(part, Recipe) else Recipe(((itself, (part,)),))
