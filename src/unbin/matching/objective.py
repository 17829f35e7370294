"""The paper's objective (its equation 1), with the targets at their best or held fixed.

    F(theta) = min over z satisfying the release of D(z || mean(theta)) / n + ridge

By the envelope theorem and for a canonical link the gradient of F is X^T (mean - z) / n + ridge,
with z the imputation at theta; it is the gradient of the ordinary GLM with z as its targets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unbin._typing import FloatArray, IntArray
from unbin.families import BregmanFamily
from unbin.matching.bounds import RankBounds
from unbin.matching.fused import whole_pass
from unbin.matching.nearest import nearest_targets
from unbin.matching.repeated import Shared, shared_targets, total_divergence
from unbin.matching.spread import spread_sums
from unbin.rows.design import Design
from unbin.rows.rows import Rows, kernel


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
        Of a row that stands for several people, their mean.
    within : float
        What the targets of the people of a row differ from that mean: their mean divergence.
    """

    design: Design
    family: BregmanFamily
    ridge: FloatArray
    bounds: RankBounds | None = None
    z: FloatArray | None = None
    within: float = 0.0

    def evaluate(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its gradient."""
        if self.bounds is None:
            value, gradient = self.design.total(observed_sums, self.family, self.z, theta)
        else:
            value, gradient, _ = self.sums(theta)
        penalty = 0.5 * float(self.ridge @ theta**2)
        n = float(self.design.people.sum())
        return value / n + self.within + penalty, gradient / n + self.ridge * theta

    def sums(self, theta: FloatArray) -> tuple[float, FloatArray, float]:
        """Return D(z || mean), its gradient and Σ (z - mean)², z at its best."""
        assert self.bounds is not None
        whole = self.design.whole
        if whole is None:
            return spread_sums(self.design.parts, self.family, self.bounds, theta)
        value, gradient, square = whole.total(matching_sums, self.family, self.bounds, theta)
        return value, gradient, square

    def impute(self, theta: FloatArray) -> FloatArray:
        """Return the targets z at theta, in the order of the design."""
        parts = self.design.whole_blocks("imputing targets")
        found = parts.stream(imputed, self.family, self.bounds, theta)
        return np.concatenate([z for z, _ in found])

    def targets(self, theta: FloatArray) -> tuple[FloatArray | None, float]:
        """Return the targets in the order of X, where rows are in memory, and Σ (z - mean)²."""
        if self.design.rows is None:
            return None, self.sums(theta)[2]
        whole, order = self.design.whole_blocks("imputing targets"), self.design.order
        z = np.empty(self.design.n_rows)
        return z, whole.total(_imputed_into, self.family, self.bounds, theta, order, z)

    def held(self, theta: FloatArray, value: float) -> Objective:
        """Return the objective with the targets held at those of theta, where it is ``value``."""
        fixed = replace(self, bounds=None, z=self.impute(theta))
        if self.design.weight is None:
            return fixed
        # D(z || mean) = D(row's mean of z || mean) + D(z || row's mean of z), whatever the mean
        return replace(fixed, within=value - fixed.evaluate(theta)[0])

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian for fixed targets, X^T W X / n + ridge."""
        gram = self.design.gram(theta, self.family.mean_derivative) / self.design.people.sum()
        return np.asarray(gram + np.diag(self.ridge))

    def null_divergence(self) -> float:
        """Return about D(z || average z) / n, the divergence of a model without slopes."""
        if self.bounds is None:
            assert self.z is not None
            values, weight = self.z, self._people()
        else:
            told = ~self.bounds.silent(self.family.domain)
            values, weight = self.bounds.middle()[told], self.bounds.people()[told].astype(float)
        average = self.family.interior(np.full(1, np.average(values, weights=weight)))
        divergence = self.family.divergence(values, np.broadcast_to(average, values.shape))
        return float(np.average(divergence, weights=weight)) + self.within

    def _people(self) -> FloatArray | None:
        """Return the people that each row stands for; None where it is one."""
        if self.design.weight is None:
            return None
        return np.concatenate(list(self.design.parts.stream(row_people)))


def row_people(rows: Rows) -> FloatArray:
    """Return the people that the rows of a part stand for."""
    return rows.people()


@kernel
def matching_sums(
    rows: Rows, family: BregmanFamily, bounds: RankBounds, theta: FloatArray
) -> tuple[float, FloatArray, float]:
    """Return D(z || mean), its gradient and Σ (z - mean)² over whole blocks, z at its best."""
    if _plain(rows, bounds, theta):
        return whole_pass(rows, family, bounds, theta)
    eta = rows.eta(theta)
    mean, part = family.inverse_link(eta), bounds.part(rows.span)
    if rows.weights is not None:
        found = _shared(rows, family, part, eta, mean)
        off = mean[found.row] - found.z
        gradient = rows.gradient(found.by_row(off, len(rows)))
        return found.divergence(family, eta, mean), gradient, float(found.people @ off**2)
    z = nearest_targets(mean, eta, part, family, np.asarray(rows.key))
    residual = mean - z
    value = family.total_divergence(z, eta, mean)
    return value, rows.gradient(residual), float(residual @ residual)


def observed_sums(
    rows: Rows, family: BregmanFamily, z: FloatArray, theta: FloatArray
) -> tuple[float, FloatArray]:
    """Return D(z || mean) and its gradient for targets held fixed."""
    eta = rows.eta(theta)
    mean, z = family.inverse_link(eta), z[rows.place : rows.place + len(rows)]
    value = total_divergence(family, z, eta, mean, rows.weights)
    return value, rows.gradient(rows.weighed(mean - z))


@kernel
def imputed(
    rows: Rows, family: BregmanFamily, bounds: RankBounds, theta: FloatArray
) -> tuple[FloatArray, float]:
    """Return the targets of whole blocks and Σ (z - mean)².

    Of a row that stands for several people, the mean of their targets.
    """
    if _plain(rows, bounds, theta):
        z = np.empty(len(rows))
        return z, whole_pass(rows, family, bounds, theta, z)[2]
    eta = rows.eta(theta)
    mean, part = family.inverse_link(eta), bounds.part(rows.span)
    if rows.weights is not None:
        found = _shared(rows, family, part, eta, mean)
        return found.means(len(rows)), float(found.people @ (mean[found.row] - found.z) ** 2)
    z = nearest_targets(mean, eta, part, family, np.asarray(rows.key))
    return z, float((mean - z) @ (mean - z))


def _imputed_into(
    rows: Rows,
    family: BregmanFamily,
    bounds: RankBounds,
    theta: FloatArray,
    order: IntArray,
    out: FloatArray,
) -> float:
    z, square = imputed(rows, family, bounds, theta)
    out[order[rows.place : rows.place + len(z)]] = z
    return square


def _plain(rows: Rows, bounds: RankBounds, theta: FloatArray) -> bool:
    """Tell whether each row is a person with all features in memory, and all counts are known."""
    columns = rows.matrix.shape[1] + rows.fit_intercept
    return rows.weights is None and bounds.count_low is None and columns == len(theta)


def _shared(
    rows: Rows, family: BregmanFamily, bounds: RankBounds, eta: FloatArray, mean: FloatArray
) -> Shared:
    key = np.asarray(rows.key)
    return shared_targets(mean, eta, bounds, family, key, rows.start, rows.people())
