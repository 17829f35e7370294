"""The paper's objective, with the targets at their best or held fixed.

    F(theta) = min over z satisfying the release of D(z || mean(theta)) / n + ridge

By the envelope theorem and for a canonical link the gradient of F is X^T (mean - z) / n + ridge,
with z the imputation at theta; it is the gradient of the ordinary GLM with z as its targets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbin.design import Design
from unbin.families import BregmanFamily
from unbin.matching.bounds import RankBounds
from unbin.matching.impute import impute
from unbin.matching.splits import best_split
from unbin.typing import FloatArray, KeyArray


@dataclass(frozen=True, slots=True)
class Objective:
    """D(z || mean) / n + ridge/2 as a function of theta.

    Attributes
    ----------
    design : Design
    family : BregmanFamily
    ridge : (p,)
        Penalty weight of each entry of theta.
    bounds : RankBounds or None
        What was published; z is imputed at every evaluation.
    z : (n,) or None
        Targets held fixed, in the order of the design: the paper's beta-step, or observed targets.
    """

    design: Design
    family: BregmanFamily
    ridge: FloatArray
    bounds: RankBounds | None = None
    z: FloatArray | None = None

    def evaluate(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its gradient."""
        value, gradient = 0.0, np.zeros_like(theta)
        for rows, part in self._parts():
            eta = self.design.eta(theta, rows)
            mean = self.family.inverse_link(eta)
            z = self._targets(rows, part, eta, mean)
            value += self.family.total_divergence(z, eta, mean)
            gradient += self.design.gradient(mean - z, rows)
        n = len(self.design.matrix)
        penalty = 0.5 * float(self.ridge @ theta**2)
        return value / n + penalty, gradient / n + self.ridge * theta

    def impute(self, theta: FloatArray) -> FloatArray:
        """Return the targets z at theta, in the order of the design."""
        z = np.empty(len(self.design.matrix))
        for rows, part in self._parts():
            eta = self.design.eta(theta, rows)
            z[rows] = self._targets(rows, part, eta, self.family.inverse_link(eta))
        return z

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian for fixed targets, X^T W X / n + ridge."""
        weight = self.family.mean_derivative(self.design.eta(theta))
        gram = self.design.gram(weight) / len(weight)
        return np.asarray(gram + np.diag(self.ridge))

    def null_divergence(self) -> float:
        """Return about D(z || average z) / n: what there is to explain."""
        if self.bounds is None:
            assert self.z is not None
            values, weight = self.z, np.ones(len(self.z))
        else:
            told = ~self.bounds.silent(self.family.domain)
            values, weight = self.bounds.middle()[told], self.bounds.people()[told].astype(float)
        average = self.family.interior(np.full(1, np.average(values, weights=weight)))
        divergence = self.family.divergence(values, np.broadcast_to(average, values.shape))
        return float(np.average(divergence, weights=weight))

    def _parts(self) -> list[tuple[slice, RankBounds | None]]:
        if self.bounds is None:
            return [(rows, None) for rows in self.design.pieces()]
        return [(c.rows, self.bounds.part(c.first, c.last)) for c in self.design.chunks]

    def _targets(
        self, rows: slice, part: RankBounds | None, eta: FloatArray, mean: FloatArray
    ) -> FloatArray:
        if part is None:
            assert self.z is not None
            return self.z[rows]
        return nearest_targets(mean, eta, part, self.family, self.design.key[rows])


def nearest_targets(
    mean: FloatArray, eta: FloatArray, bounds: RankBounds, family: BregmanFamily, key: KeyArray
) -> FloatArray:
    """Return the targets nearest to the means, over all counts that may have been suppressed."""
    if bounds.count_low is not None:
        bounds = best_split(mean, bounds, family, eta, key)
    return impute(mean, bounds, eta=eta, key=key)
