"""Counts bounded by the totals of their blocks, of which some people may be in no bin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from unbin.release.readers.build import Bins
from unbin.release.readers.cells import Cell, add_cells
from unbin.release.readers.sheets import Table, shown


def bound_by_totals(
    table: Table, bins: Bins, totals: Mapping[str, int], unknown: Mapping[str, Cell]
) -> Bins:
    """Return bins whose intervals agree with totals, and the people of each block.

    Parameters
    ----------
    table, bins
    totals : mapping of block to people
        Everybody of a block; a block may be missing.
    unknown : mapping of block to Cell
        How many of them are in no bin; nobody where a block is missing.
    """
    parts: dict[str, list[Cell]] = {}
    for block, cell in zip(bins.block, bins.cells, strict=True):
        parts.setdefault(block, []).append(cell)
    sums = {block: add_cells(part) for block, part in parts.items()}
    row = dict(zip(reversed(bins.block), reversed(bins.row), strict=True))
    rest: dict[str, tuple[float, float]] = {}
    n: dict[str, int] = {}
    for block, total in totals.items():
        lost, whole = unknown.get(block, Cell(0, 0)), sums[block]
        high = _most(whole)
        rest[block] = total - _most(lost), total - lost.low
        if whole.low > rest[block][1] or high < rest[block][0]:
            raise table.error(
                f"block {shown(block)}: bins and total must agree, got a total of {total:,} and "
                f"{_span(add_cells([whole, lost]))} in the rows; correct one of them",
                row=row[block],
            )
        least, most = max(lost.low, total - high), min(_most(lost), total - whole.low)
        if least == most:
            n[block] = total - int(most)
    if set(n) == set(parts):  # the release bounds the counts itself
        return replace(bins, n=n)
    cells = [
        _within(cell, sums[block], rest[block]) if block in rest else cell
        for block, cell in zip(bins.block, bins.cells, strict=True)
    ]
    return replace(bins, cells=cells, n=n)


def _most(cell: Cell) -> float:
    return math.inf if cell.high is None else cell.high


def _span(cell: Cell) -> str:
    return f"{cell.low:,}" if cell.exact else f"{cell.low:,} to {_most(cell):,}"


def _within(cell: Cell, whole: Cell, rest: tuple[float, float]) -> Cell:
    """Return a cell within what the total of its block leaves it."""
    if cell.exact:
        return cell
    others = _most(whole) - _most(cell) if cell.high is not None else math.inf
    low = max(cell.low, rest[0] - others)
    high = min(_most(cell), rest[1] - (whole.low - cell.low))
    return replace(cell, low=int(low), high=None if high == math.inf else int(high))
