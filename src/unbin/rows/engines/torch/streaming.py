"""People in files, or too many for the device: they travel there part by part at every pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbin._blocks import spans_of
from unbin._typing import FloatArray, IntArray, TextArray
from unbin.rows.contextual import Context
from unbin.rows.design import Design
from unbin.rows.engines import InParts, Layout, Options
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
            return replace(design, parts=parts, finishing=self.options.n_threads)
        return replace(design, parts=parts, whole=parts, scores_blocks=True)


def read_people(surveyed: Surveyed, machine: Machine, options: Options) -> OnDevice | Streamed:
    """Read the people of all parts onto the device, or leave them where they are."""
    whole = surveyed.whole
    n, d = whole.n_people, len(whole.mean)
    as_read = 8.0 * n * (d + 2 + 2 * len(whole.others))  # further codes are laid out as well
    if as_read + bytes_needed(whole.rows, 2 * d, machine, ranked=options.ranked) > machine.free():
        return Streamed(surveyed, machine, options)
    room = {"dtype": torch.float64, "device": machine.device}
    X = torch.empty((n, d), **room)
    codes = torch.empty(n, dtype=torch.int64, device=machine.device)
    others = tuple(torch.empty_like(codes) for _ in whole.others)
    offset = torch.zeros(n, **room) if whole.has_offset else None
    low = 0
    for read in surveyed.parts.stream(itself):
        part = slice(low, low + len(read.coded.codes))
        X[part] = machine.send(np.column_stack(read.columns), torch.float64)
        codes[part] = machine.send(read.coded.among(whole.blocks))
        for there, counted, coded in zip(others, whole.others, read.others, strict=True):
            there[part] = machine.send(coded.among(counted.blocks))
        if offset is not None and read.offset is not None:
            offset[part] = machine.send(read.offset, torch.float64)
        low = part.stop
    return OnDevice(X, whole.blocks, codes, whole.rows, offset, machine, options, others)


def parts_of(
    X: FloatArray,
    names: TextArray,
    codes: IntArray,
    offset: FloatArray | None,
    others: tuple[IntArray, ...] = (),
) -> Parts:
    """Return the rows of an array in parts of whole blocks, made again at each pass."""
    order = np.argsort(codes, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(names)))])
    groups: list[slice] = []
    for span in spans_of(start):
        if groups and span.rows.stop - groups[-1].start <= READ_ROWS:
            groups[-1] = slice(groups[-1].start, span.rows.stop)
        else:
            groups.append(span.rows)
    args = [(X, names, codes, offset, others, order[part]) for part in groups]
    return LocalParts([Recipe(((_part, arg),)) for arg in args])


def _part(
    X: FloatArray,
    names: TextArray,
    codes: IntArray,
    offset: FloatArray | None,
    others: tuple[IntArray, ...],
    rows: IntArray,
) -> Part:
    blocks, place = np.unique(codes[rows], return_inverse=True)
    columns = tuple(np.asfortranarray(X[rows]).T)
    shift = None if offset is None else offset[rows]
    further = tuple(_numbered(codes[rows]) for codes in others)
    return Part(columns, Coded(names[blocks], place), shift, further)


def _numbered(codes: IntArray) -> Coded:
    """Return coded blocks whose names, not known here, are in the order of their codes."""
    found, place = np.unique(codes, return_inverse=True)
    return Coded(np.char.zfill(found.astype(np.str_), len(str(np.iinfo(np.int64).max))), place)


def _recipe(part: Any) -> Recipe:
    return part if isinstance(part, Recipe) else Recipe(((itself, (part,)),))
