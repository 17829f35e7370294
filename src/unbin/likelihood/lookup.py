"""The law of a row as a table of eta, where rows are so many that it pays.

Probabilities of bins, their derivatives and covariances with a total depend on a row through its
linear predictor only, if all blocks have the same bins. Worked out at a few hundred values of eta,
a small fraction of the noise apart, and interpolated between them
(:mod:`unbin.rows.interpolated`), they are right to twelve digits, at a fraction of the time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unbin._typing import FloatArray
from unbin.likelihood.law import Law
from unbin.rows.design import Design
from unbin.rows.interpolated import BEFORE, Points
from unbin.rows.lanes import EIGHT

_FINE = 30.0
"""Points per standard deviation of the noise: interpolation is then right to 1e-12."""
_FEWEST, _WORTH = 1 << 14, 2
"""Rows, and rows per point, from which on a table pays."""
_MOST = 1 << 15
"""Points of a table."""


def tabulated(law: Law, design: Design, free: FloatArray) -> Law:
    """Return a law with its table at some parameters; as it is where a table does not pay.

    That is with bins that differ between blocks, with rows that are a sample, and where rows are
    few for the distance between the smallest and the largest linear predictor. Of means around
    block effects a table does not hold: their variance is no average.
    """
    few = design.n_rows < _FEWEST
    if few or not design.looks_up or law.lower.ndim > 1 or design.sampled:
        return law
    if law.unit is not None and law.effects is not None:
        return law
    theta, nuisance = law.coordinates.split(free)
    low, high = design.reach(theta)
    step = law.family.resolution(law.lower, law.upper, nuisance) / _FINE
    step = min(step, (high - low) / EIGHT) if high > low else step
    moves, shares = _moves(law, step)
    ends = np.array([low + moves.min() * step, high + moves.max() * step]) / step
    ends += np.array([-EIGHT, EIGHT]) if law.effects is not None else 0.0
    if not np.isfinite(ends).all() or ends[1] - ends[0] > min(_MOST, design.n_rows // _WORTH):
        return law
    first = np.floor(ends[0]) - BEFORE - 1
    eta = step * np.arange(first, np.ceil(ends[1]) + EIGHT - BEFORE)
    plain = law if law.effects is None else replace(law, effects=None, block_variance=0.0)
    model = plain.at(eta, law.lower, law.upper, nuisance, True)
    each = [model.mean, model.d_eta, *model.d_nuisance, *([model.extra] if law.unit else [])]
    functions = np.concatenate(each, axis=1)
    turned = np.zeros((len(eta) + 3 * EIGHT, -(-functions.shape[1] // EIGHT) * EIGHT))
    turned[: len(eta), : functions.shape[1]] = functions
    values = np.ascontiguousarray(turned.T)
    return replace(law, table=Points(values, turned, float(first), 1 / step, moves, shares))


def _moves(law: Law, step: float) -> tuple[FloatArray, FloatArray]:
    """Return the moves of eta of each block that its law is averaged over, in steps."""
    if law.effects is None:
        return np.zeros((1, 1)), np.ones(1)
    at, shares = law.quadrature()
    moves = law.effects.move[:, None] + law.effects.sd[:, None] * np.array(at)
    return moves / step, np.array(shares)
