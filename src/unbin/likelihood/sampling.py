"""What a sample of a block's people gets wrong, and the score corrected for it.

The rows are a sample, w their design weights, so that m_b and D_b are estimates whose errors go
together: E D̂ᵀ S⁻¹ (m - m̂) = -Σ v (d_i - d̄)ᵀ S⁻¹ (q_i - q̄), with q_i and d_i a row's contributions,
q̄ and d̄ their means over the block, and v = w (w - 1). Left alone this is the attenuation of errors
in variables: slopes that rest on differences between blocks shrink towards 0, by a third where the
sampling variance of a block's mean is half its variance between blocks. Its estimate is added to
the quasi-score, and Σ v (d_i - d̄)ᵀ S⁻¹ (d_i - d̄) subtracted from the information, which D̂ᵀ S⁻¹ D̂
overstates by as much.

References
----------
Fuller, W. A. (1987). *Measurement Error Models*. Wiley.

Nakamura, T. (1990). Corrected score function for errors-in-variables models: methodology and
application to generalized linear models. *Biometrika*, 77, 127-137.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbin._linalg import JITTER
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.families.coordinates import Coordinates
from unbin.likelihood.moments import RowModel
from unbin.rows.rows import Rows

_TILE_CELLS = 1 << 18


@dataclass(frozen=True, slots=True)
class Sampled:
    """The blocks of a table whose rows are a sample, at one value of the parameters.

    Attributes
    ----------
    root : (B, L, L)
        A root of S⁻¹: rootᵀ root, 0 for statistics that are not used.
    mean, derivative : (B, L), (B, L, p)
        q̄ and d̄.
    factor : (B,)
        What brings the people of the rows to those of the table.
    cuts : (K - 1,) or None
        See ``Problem``.
    """

    root: FloatArray
    mean: FloatArray
    derivative: FloatArray
    factor: FloatArray
    cuts: IntArray | None

    @classmethod
    def of(
        cls,
        covariance: FloatArray,
        used: BoolArray,
        mean: FloatArray,
        derivative: FloatArray,
        n: IntArray,
        factor: FloatArray | None,
        cuts: IntArray | None,
    ) -> Sampled:
        """Return the blocks of a table from their moments; ``used`` (B, L) marks statistics."""
        size = covariance.shape[1]
        s = covariance * (used[:, :, None] & used[:, None, :]) + JITTER * np.eye(size)
        root = np.linalg.inv(np.linalg.cholesky(s)) * used[:, None, :] * used[:, :, None]
        brought = np.ones(len(n)) if factor is None else factor
        return cls(root, mean / n[:, None], derivative / n[:, None, None], brought, cuts)

    @classmethod
    def joined(cls, parts: Sequence[Sampled]) -> Sampled:
        """Put the blocks of several parts side by side."""
        return cls(
            np.concatenate([part.root for part in parts]),
            np.concatenate([part.mean for part in parts]),
            np.concatenate([part.derivative for part in parts]),
            np.concatenate([part.factor for part in parts]),
            parts[0].cuts,
        )


def tiles_of(rows: Rows, size: int, p: int) -> list[slice]:
    """Return tiles of rows whose derivatives by all parameters are held at a time."""
    return rows.tiles(max(_TILE_CELLS // (size * p), 64))


def correct(
    model: RowModel,
    columns: FloatArray,
    people: FloatArray,
    place: IntArray,
    blocks: Sampled,
    coordinates: Coordinates,
    free: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return what rows add to the score, (n, p), and what they take from the information, (p, p).

    Parameters
    ----------
    model : RowModel
    columns : (n, d)
    people, place : (n,)
        Design weights, and the row's block.
    blocks : Sampled
    coordinates : Coordinates
    free : (p,)
    """
    by_x = model.d_eta[:, :, None] * columns[:, None, :]
    slopes = np.concatenate(
        [model.d_eta[:, :, None], by_x, np.moveaxis(model.d_nuisance, 0, 2)], axis=2
    )
    d = coordinates.to_free(free, slopes, blocks.cuts) - blocks.derivative[place]
    q = model.mean - blocks.mean[place]
    v = np.maximum(people * (people - 1), 0.0) * blocks.factor[place] ** 2
    root = blocks.root[place] * np.sqrt(v)[:, None, None]
    white = root @ d
    score = (white * (root @ q[:, :, None])).sum(axis=1)
    flat = white.reshape(-1, white.shape[2])
    return score, flat.T @ flat
