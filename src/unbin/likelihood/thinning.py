"""A coarse version of a problem with large blocks, for when scoring needs many passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unbin.likelihood.moments import Problem
from unbin.rows.design import with_rows
from unbin.rows.rows import aligned_copy

_ROWS_PER_BLOCK = 500
_ROWS = 50_000


def worth_thinning(problem: Problem) -> bool:
    """Tell whether blocks are so large that a fraction of their rows would do for a start."""
    return problem.design.rows is not None and _stride(problem) >= 4


def thin(problem: Problem) -> Problem:
    """Keep every s-th row of each block, each standing for more people.

    The expected statistics of a block are sums over its rows, and some hundred rows give them
    well enough for a start.
    """
    design = problem.design
    whole, size, stride = design.in_memory(), design.size, _stride(problem)
    kept = np.minimum(np.maximum(size // stride, _ROWS_PER_BLOCK), size)
    start = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    place = np.arange(start[-1]) - np.repeat(start[:-1], kept)
    step = np.repeat(size / kept, kept)
    rows = np.repeat(design.start[:-1], kept) + (place * step).astype(np.int64)
    thinned = with_rows(
        design,
        matrix=aligned_copy(whole.matrix[rows]),
        offset=whole.offset[rows],
        key=whole.key[rows],
        start=start,
    )
    return replace(problem, design=thinned, weight=size / kept)


def _stride(problem: Problem) -> int:
    median = int(np.median(problem.design.size))
    return min(problem.design.n_people // _ROWS, median // _ROWS_PER_BLOCK)
