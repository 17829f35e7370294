"""The distribution of what was published, given the features of a row.

Where rows are many it is worked out as a table of eta: probabilities of bins, their derivatives and
covariances with a total depend on a row through its linear predictor only, if all cells have the
same bins. At a few hundred values of eta, a small fraction of the noise apart, and interpolated
between them (:mod:`unbin.rows.interpolated`), they are right to twelve digits, at a fraction of the
time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unbin._linalg import like
from unbin._typing import FloatArray, IntArray
from unbin.families import Family
from unbin.families.coordinates import Coordinates
from unbin.likelihood.model.order import Crossing, find_crossing
from unbin.rows.design import Design
from unbin.rows.interpolated import BEFORE, Points
from unbin.rows.lanes import EIGHT
from unbin.rows.rows import Rows

if TYPE_CHECKING:
    from unbin.likelihood.data.problem import Problem

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


class Moves(NamedTuple):
    """Mean and standard deviation of the random intercepts of the people of each cell, (C,)."""

    move: FloatArray
    sd: FloatArray


@dataclass(frozen=True, slots=True)
class Law:
    """The distribution of the published statistics given a row's features.

    Attributes
    ----------
    family : Family
    coordinates : Coordinates
    lower, upper : (K,) or (C, K)
        Bins, as in ``Grid``.
    unit : float or None
        What totals are divided by; None when no means were published.
    block_variance : float
        Of all random intercepts of a person together.
    nodes : int
        Quadrature points of a random intercept.
    effects : Moves or None
        What is known of that of each cell; None where it is only its variance.
    table : Points or None
        The law at some values of eta, where sums over rows are made from it; it holds for one value
        of the parameters.
    values : Crossing or None
        Where published values are those expected, at the parameters; see
        :mod:`unbin.likelihood.model.order`.
    """

    family: Family
    coordinates: Coordinates
    lower: FloatArray
    upper: FloatArray
    unit: float | None
    block_variance: float
    nodes: int = EFFECT_NODES
    effects: Moves | None = None
    table: Points | None = None
    values: Crossing | None = None

    @classmethod
    def of(cls, problem: Problem, free: FloatArray) -> Law:
        """Return the law of the statistics of a problem at some parameters."""
        grid, effects = problem.grid, None
        further = sum(problem.further)
        if problem.effects is not None:
            group, above = problem.plan.group, problem.above_groups
            unknown = sum(
                v for v, inside in zip(problem.further, above, strict=False) if not inside
            )
            sd = np.sqrt(problem.effects.sd[group] ** 2 + unknown)
            effects = Moves(problem.effects.move[group], sd)
        values = None
        if any(table.order is not None for table in problem.tables):
            values = find_crossing(problem, free)
        return cls(
            problem.family,
            problem.coordinates,
            grid.lower,
            grid.upper,
            problem.unit,
            problem.block_variance + further,
            effects=effects,
            values=values,
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
        eta = rows.eta(theta, tile)
        model = self.at(eta, lower, upper, nuisance, covariance, codes)
        if self.values is None:
            return model
        unit = self.unit if covariance else None
        cells = rows.codes(tile)
        return self.values.changed(model, self.family, eta, nuisance, cells, unit)

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


# -- as a table of eta -----------------------------------------------------------------------------

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
