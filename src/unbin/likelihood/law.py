"""The distribution of what was published, given the features of a row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from unbin._linalg import like
from unbin._typing import FloatArray, IntArray
from unbin.families import Family
from unbin.families.coordinates import Coordinates
from unbin.rows.interpolated import Points
from unbin.rows.rows import Rows

if TYPE_CHECKING:
    from unbin.likelihood.problem import Problem

EFFECT_NODES = 5
"""Quadrature points of a random intercept."""


@dataclass(frozen=True, slots=True)
class RowModel:
    """Contributions of some rows to the L statistics of their blocks.

    Attributes
    ----------
    mean : (n, L)
        Expected statistics of each row: probabilities of bins, and the mean over ``unit``.
    d_eta : (n, L)
    d_nuisance : (m, n, L)
    extra : (n, L) or (0, 0)
        Covariances of the total with every statistic, where means were published.
    """

    mean: FloatArray
    d_eta: FloatArray
    d_nuisance: FloatArray
    extra: FloatArray


@dataclass(frozen=True, slots=True)
class Effects:
    """What is known of the random intercept of each block.

    Attributes
    ----------
    move, sd : (B,)
        Its mean and standard deviation given what was published of the block.
    along : (B, p)
        D_bᵀ S_b⁻¹ e_b / e_bᵀ S_b⁻¹ e_b without looking at the block.
    """

    move: FloatArray
    sd: FloatArray
    along: FloatArray


@dataclass(frozen=True, slots=True)
class Law:
    """The distribution of the published statistics given a row's features.

    Attributes
    ----------
    family : Family
    coordinates : Coordinates
    lower, upper : (K,) or (B, K)
        Bins, as in ``PublishedCounts``.
    unit : float or None
        What totals are divided by; None when no means were published.
    block_variance : float
    nodes : int
        Quadrature points of the random block intercept.
    effects : Effects or None
        What is known of that of each block; None where it is only its variance.
    table : Points or None
        The law at some values of eta, where sums over rows are made from it (see
        :mod:`unbin.likelihood.lookup`); it holds for one value of the parameters.
    """

    family: Family
    coordinates: Coordinates
    lower: FloatArray
    upper: FloatArray
    unit: float | None
    block_variance: float
    nodes: int = EFFECT_NODES
    effects: Effects | None = None
    table: Points | None = None

    @classmethod
    def of(cls, problem: Problem) -> Law:
        """Return the law of the statistics of a problem."""
        return cls(
            problem.family,
            problem.coordinates,
            problem.counts.lower,
            problem.counts.upper,
            None if problem.means is None else problem.means.unit,
            problem.block_variance,
            effects=problem.effects,
        )

    def points(self, eta: Any, codes: Any = None) -> list[Any]:
        """Return eta at the quadrature points of the random block intercept.

        ``codes`` are the blocks of the rows of eta, of tensors those of its first axis.
        """
        sd: Any = float(np.sqrt(self.block_variance))
        if self.effects is not None:
            shape = (-1, *[1] * (eta.ndim - 1))
            eta = eta + like(eta, self.effects.move)[codes].reshape(shape)
            sd = like(eta, self.effects.sd)[codes].reshape(shape)
        moves, _ = self.quadrature()
        return [eta + sd * move if move else eta for move in moves]

    def quadrature(self) -> tuple[list[float], list[float]]:
        """Return the points of the random block intercept, in its spreads, and their weights."""
        return effect_points(float(self.block_variance > 0), self.nodes)

    def average(self, values: list[Any]) -> Any:
        """Return the mean over the quadrature points, of arrays or of tensors."""
        if len(values) == 1:
            return values[0]
        _, weights = effect_points(1.0, self.nodes)
        return sum(weight * each for weight, each in zip(weights, values, strict=True))

    @property
    def n_bins(self) -> int:
        """Bins of a block, padding included."""
        return int(self.lower.shape[-1])

    @property
    def n_statistics(self) -> int:
        """Statistics of a block: its bins, and the total if means were published."""
        return self.n_bins + (self.unit is not None)

    def rows(
        self, rows: Rows, tile: slice, theta: FloatArray, nuisance: FloatArray, covariance: bool
    ) -> RowModel:
        """Return the model of some rows."""
        lower, upper = edges_of(self.lower, self.upper, rows, tile)
        codes = None if self.effects is None else rows.codes(tile)
        return self.at(rows.eta(theta, tile), lower, upper, nuisance, covariance, codes)

    def at(
        self,
        eta: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        nuisance: FloatArray,
        covariance: bool,
        codes: IntArray | None = None,
    ) -> RowModel:
        """Return the model of rows with these linear predictors, in bins (K,) or (n, K)."""
        m, n_bins = self.coordinates.n_row_nuisance, lower.shape[-1]
        family, points = self.family, self.points(eta, codes)
        models = [family.bins(at, lower, upper, nuisance) for at in points]
        q = self.average([model.probability for model in models])
        d_eta = self.average([model.d_eta for model in models])
        d_nuisance = self.average([model.d_nuisance for model in models])
        if self.unit is None:
            return RowModel(q, d_eta, d_nuisance[:m], np.zeros((0, 0)))
        means = [family.inverse_link(at) for at in points]
        mean, extra = self.average(means), np.zeros((len(eta), n_bins + 1))
        if covariance:
            if n_bins > 1:
                within = [family.bin_means(at, lower, upper, nuisance) for at in points]
                shares = [model.probability for model in models]
                extra[:, :-1] = self.average(
                    [
                        share * np.where(share > 0, inside - mean[:, None], 0.0)
                        for share, inside in zip(shares, within, strict=True)
                    ]
                )
            variances = [family.variance(at, nuisance) for at in points]
            apart = [(each - mean) ** 2 for each in means]
            extra[:, -1] = (self.average(variances) + self.average(apart)) / self.unit
            extra /= self.unit
        q = np.column_stack([q, mean / self.unit])
        slope = self.average([family.mean_derivative(at) for at in points])
        d_eta = np.column_stack([d_eta, slope / self.unit])
        padding = np.zeros((*d_nuisance.shape[:2], 1))
        return RowModel(q, d_eta, np.concatenate([d_nuisance, padding], axis=2)[:m], extra)


def edges_of(
    lower: FloatArray, upper: FloatArray, rows: Rows, tile: slice
) -> tuple[FloatArray, FloatArray]:
    """Return the bin ends of some rows, ready for ``Family.bins``."""
    if lower.ndim == 1:
        return lower, upper
    codes = rows.codes(tile)
    return lower[codes], upper[codes]


@cache
def effect_points(sd: float, nodes: int) -> tuple[list[float], list[float]]:
    """Return points and weights of Gauss-Hermite quadrature over an intercept of this spread."""
    if sd == 0:
        return [0.0], [1.0]
    at, weight = np.polynomial.hermite_e.hermegauss(nodes)
    return (sd * at).tolist(), (weight / weight.sum()).tolist()
