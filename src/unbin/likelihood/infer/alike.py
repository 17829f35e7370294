"""Whether blocks whose ids begin alike have levels that are alike, as counties of a state do.

Ids often say which blocks belong together: FIPS 05001 lies in state 05, NUTS DE21 in DE2, and
"Bavaria | 2020" in Bavaria. If levels of such blocks are alike beyond what the model explains,
errors by block are too small. Tested by the analysis of variance of standardised levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc

from unbin._typing import FloatArray, IntArray, TextArray
from unbin.likelihood.thresholds import ALIKE_LEVEL

_SEPARATORS = (" | ", ", ", " - ", "/", "_", "-", ":", ".", " ")
_LONGEST = 12
"""Characters of ids of one length whose beginnings are looked at."""
_FEWEST, _LEAST_SIZE = 5, 2
"""Groups, and blocks of a group on average, that are looked at."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Blocks that are alike.

    Attributes
    ----------
    how : str
        What of an id says which belong together, as a method of a pandas column.
    example : (str, str)
        Two of them.
    n_groups : int
    correlation : float
        Intraclass correlation of standardised levels.
    p_value : float
    """

    how: str
    example: tuple[str, str]
    n_groups: int
    correlation: float
    p_value: float


def alike(blocks: TextArray, residual: FloatArray) -> Alike | None:
    """Return which blocks are alike, if any; ``residual`` (B,) are levels, standardised."""
    told = residual != 0
    blocks, residual = blocks[told], residual[told]
    found = [Alike(how, *_tested(blocks, residual, code)) for how, code in _groupings(blocks)]
    best = min(found, key=lambda each: (each.p_value, each.n_groups), default=None)
    if best is None or best.p_value * len(found) > ALIKE_LEVEL or best.correlation <= 0:
        return None
    return best


def _groupings(blocks: TextArray) -> Iterator[tuple[str, IntArray]]:
    """Yield ways to group blocks by their ids, and the group of each block."""
    ways = []
    if not len(blocks):
        return
    length = np.char.str_len(blocks)
    if (length == length[0]).all() and length[0] <= _LONGEST:
        for k in range(1, int(length[0])):
            ways.append((f".str[:{k}]", blocks.astype(f"U{k}")))
    for mark in _SEPARATORS:
        if (np.char.find(blocks, mark) > 0).all():
            for place, part in ((0, np.char.partition), (-1, np.char.rpartition)):
                ways.append((f".str.split({mark!r}).str[{place}]", part(blocks, mark)[:, place]))
            break
    seen = set()
    for how, text in ways:
        code = np.unique(text, return_inverse=True)[1]
        n = int(code.max(initial=-1)) + 1
        if _FEWEST <= n <= len(blocks) / _LEAST_SIZE and code.tobytes() not in seen:
            seen.add(code.tobytes())
            yield how, code


def _tested(
    blocks: TextArray, residual: FloatArray, code: IntArray
) -> tuple[tuple[str, str], int, float, float]:
    """Return two blocks of a group, the number of groups, and the test of their correlation."""
    size = np.bincount(code)
    mean = np.bincount(code, residual) / size
    between = float(size @ (mean - residual.mean()) ** 2) / (len(size) - 1)
    df = len(code) - len(size)
    within = float(((residual - mean[code]) ** 2).sum()) / df
    share = len(code) / len(size)
    correlation = (between - within) / max(between + (share - 1) * within, 1e-300)
    p_value = float(fdtrc(len(size) - 1, df, between / max(within, 1e-300)))
    pair = blocks[code == int(np.argmax(size))][:2]
    return (str(pair[0]), str(pair[-1])), len(size), correlation, p_value
