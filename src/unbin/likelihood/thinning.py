"""A coarse version of a problem with large blocks, for when scoring needs many passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unbin.design import with_rows
from unbin.likelihood.moments import Problem

_ROWS_PER_BLOCK = 500
_ROWS = 50_000


def thin(problem: Problem) -> Problem | None:
    """Keep every s-th row of each block, each standing for more people.

    The expected statistics of a block are sums over its rows, and some hundred rows give them
    well enough for a start. Returns None where that would not save much.
    """
    design = problem.design
    if design.rows is None:
        return None
    whole, size = design.rows, design.size
    stride = min(design.n_people // _ROWS, int(np.median(size)) // _ROWS_PER_BLOCK)
    if stride < 4:
        return None
    kept = np.minimum(np.maximum(size // stride, _ROWS_PER_BLOCK), size)
    start = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    place = np.arange(start[-1]) - np.repeat(start[:-1], kept)
    step = np.repeat(size / kept, kept)
    rows = np.repeat(design.start[:-1], kept) + (place * step).astype(np.int64)
    thinned = with_rows(
        design,
        matrix=np.asfortranarray(whole.matrix[rows]),
        offset=whole.offset[rows],
        key=whole.key[rows],
        start=start,
    )
    return replace(problem, design=thinned, weight=problem.weight * size / kept)
