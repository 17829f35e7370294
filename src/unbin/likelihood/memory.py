"""Whether the sums over people, which grow with the bins squared, fit into memory and time."""

from __future__ import annotations

import warnings

import numpy as np

from unbin.exceptions import BinError, SlowFitWarning
from unbin.likelihood.moments import Problem
from unbin.rows.parts import machine_memory

_SHARE = 0.75
"""Share of the machine's memory that sums may take."""
_COPIES = 2
"""Arrays of the size of the covariances that are held together."""
_SPEED = 1e9
"""Multiplications a second of the factors of covariances, about."""
_PATIENCE = 10.0
"""Seconds of a pass over the blocks, of which a fit takes several, that are not worth a warning."""


def check_room(problem: Problem) -> None:
    """Raise if the covariances of the blocks that are worked on together do not fit into memory.

    Warn if their factors, which take the cube of the bins, will take long. Engines that score
    blocks where their rows are (``Design.scores_blocks``) see to it themselves.
    """
    if problem.design.scores_blocks:
        return
    size, blocks = problem.n_statistics, problem.design.blocks_at_once
    # per block the covariance of its bins, and their derivatives: thresholds are as many as bins
    squares = 2 if problem.coordinates.thresholds else 1
    each, p = 8 * _COPIES * blocks, problem.coordinates.n_theta
    need, room = each * size * (squares * size + p), _SHARE * machine_memory()
    if 0 < room < need:
        fits = int((np.sqrt(p**2 + 4 * squares * room / each) - p) / (2 * squares))
        raise BinError(
            f"histogram: {size:,} bins of {blocks:,} blocks at a time take about {_size(need)} of "
            f"memory, this machine has {_size(machine_memory())}; merge them to at most "
            f"{max(fits, 2):,} bins, or use method='matching'"
        )
    seconds = len(problem.counts.n) * size**3 / 3 / _SPEED
    if seconds > _PATIENCE:
        warnings.warn(
            f"histogram: {size:,} bins of {len(problem.counts.n):,} blocks take about "
            f"{seconds:,.0f} seconds per pass, of which there are several; half as many bins take "
            "an eighth of that",
            SlowFitWarning,
            stacklevel=2,
        )


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 2**30:,.3g} GiB"
