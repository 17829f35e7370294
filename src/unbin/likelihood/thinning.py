"""A coarse version of a problem with large blocks, for when scoring needs many passes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from unbin.design import Chunk
from unbin.likelihood.moments import Problem

_ROWS_PER_BLOCK = 500
_ROWS = 50_000
_CHUNK_ROWS = 1 << 15


def thin(problem: Problem) -> Problem | None:
    """Keep every s-th row of each block, each standing for more people.

    The expected statistics of a block are sums over its rows, and some hundred rows give them
    well enough for a start. Returns None where that would not save much.
    """
    design = problem.design
    n, size = len(design.offset), np.diff(design.start)
    stride = min(n // _ROWS, int(np.median(size)) // _ROWS_PER_BLOCK)
    if stride < 4:
        return None
    kept = np.minimum(np.maximum(size // stride, _ROWS_PER_BLOCK), size)
    start = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    place = np.arange(start[-1]) - np.repeat(start[:-1], kept)
    step = np.repeat(size / kept, kept)
    rows = np.repeat(design.start[:-1], kept) + (place * step).astype(np.int64)
    wanted = np.arange(_CHUNK_ROWS, start[-1], _CHUNK_ROWS)
    edges = np.unique(np.concatenate([[0], np.searchsorted(start, wanted), [len(size)]]))
    chunks = tuple(
        Chunk(int(a), int(b), slice(int(start[a]), int(start[b]))) for a, b in pairwise(edges)
    )
    thinned = replace(
        design,
        matrix=np.asfortranarray(design.matrix[rows]),
        offset=design.offset[rows],
        start=start,
        order=design.order[rows],
        key=design.key[rows],
        chunks=chunks,
    )
    return replace(problem, design=thinned, weight=problem.weight * size / kept)
