"""The location score of a table: slopes from the levels of blocks, not the shape of histograms.

With s the values of the bins, the location score of a block is that of sᵀc alone, the sum of its
people's values: W_b = s (sᵀ D_b)/v_b with v_b = sᵀ Σ_b s, Σ_b = S_b + τ² e eᵀ. It uses what blocks
differ by in level and nothing of the shape of their histograms; nuisance parameters have the
weights (Σ Σ_b)⁻¹ (Σ D_b) of all blocks. Statistics are averaged over the block effects and not
expanded around them, so that weights know nothing of the outcomes.

Its root is right where the family is right in the mean alone. Under skewed features and noise the
full score reads slopes off the shape of histograms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from unbin._linalg import brought, like, long_product, namespace, solve_scaled
from unbin._typing import BoolArray, FloatArray
from unbin.likelihood.counts import representative_values
from unbin.likelihood.moments import BlockMoments, map_moments
from unbin.likelihood.problem import Problem
from unbin.likelihood.quasi_score import (
    Evidence,
    evidence,
    left_statistics,
    masked,
    used_statistics,
    variance_of,
)
from unbin.likelihood.start import step_scale

_STEPS = 40
_LEAST_OWN = 0.05
"""Share of a block's residual that is its own, at least."""
_REACHED = 1e-4
"""Standard errors from the root at which it is reached."""


@dataclass(frozen=True, slots=True)
class Location:
    """The location score at one value of the parameters.

    Attributes
    ----------
    scores : (B, p) array, or tensor where blocks are on a device
    bread : (p, p)
        A⁻¹ with A = Σ W_bᵀ D_b.
    model : (p, p)
        Covariance of the root if the model is right.
    leverage : (B,) array or tensor
        Of each block's level on itself.
    """

    scores: Any
    bread: FloatArray
    model: FloatArray
    leverage: Any

    def leveraged(self) -> Any:
        """Return the scores as if their block had not been fitted, (B, p)."""
        return self.scores / (1 - self.leverage).clip(_LEAST_OWN)[:, None]

    def covariance(self) -> FloatArray:
        """Return the covariance of the root by blocks, each as if it had not been fitted (CR3)."""
        scores = self.leveraged()[abs(self.scores).sum(1) > 0]
        n = max(len(scores), 1)
        centred = scores - scores.sum(0) / n
        meat = brought(long_product(centred, centred)) * ((n - 1) / n)
        return np.asarray(self.bread @ meat @ self.bread.T)


def location_score(
    problem: Problem, free: FloatArray, penalty: FloatArray, *, held: bool = False
) -> Location:
    """Return the location score at ``free``, in one pass over the rows.

    ``held``: with nuisance parameters that are given.
    """
    plain, values, used = (
        replace(problem, effects=None),
        bin_values(problem),
        used_statistics(problem),
    )

    def weigh(part: BlockMoments) -> LocationPart:
        said, at = evidence(plain, part), part.blocks
        return location_part(plain, said, at, values[at], used[at])

    return located(problem, map_moments(plain, free, weigh), penalty, held=held)


def locate(
    problem: Problem, free: FloatArray, penalty: FloatArray
) -> tuple[FloatArray, Location, bool]:
    """Solve the location score from ``free``; return its root, the score there and if it is one.

    Where levels ask for slopes that explain more than the whole spread of the outcome there is no
    root: nuisance parameters then stay as they are in ``free``.
    """
    for held in (False, True):
        found = _solve(problem, free, penalty, held=held)
        if found[2]:
            break
    return found


def _solve(
    problem: Problem, free: FloatArray, penalty: FloatArray, *, held: bool
) -> tuple[FloatArray, Location, bool]:
    cap, at, last = step_scale(problem, free), free, np.zeros(len(free))
    for _ in range(_STEPS):
        found = location_score(problem, at, penalty, held=held)
        step = found.bread @ (found.scores.sum(axis=0) - penalty * at)
        errors = np.sqrt(np.maximum(np.diag(found.model), 1e-300))
        moves = found.model.diagonal() > 0
        if not np.isfinite(step).all():
            break
        if (np.abs(step / errors)[moves] < _REACHED).all():
            return at, found, True
        if step @ (last / cap**2) < 0:  # there and back
            cap = 0.5 * cap
        last = step / max(1.0, float((np.abs(step) / cap).max(initial=0.0)))
        at = at + last
    return at, found, False


def bin_values(problem: Problem) -> FloatArray:
    """Return the value of each statistic in the sum of a block's values, (B, L).

    Representative values of the bins less their mean, so that results do not depend on where the
    outcome has its zero; where the mean was published, the total alone.
    """
    counts, valid = problem.counts, problem.counts.valid()
    values, people = representative_values(counts), np.maximum(counts.count, 0.0) * valid
    mean = float((people * values).sum() / max(people.sum(), 1.0))
    values = np.asarray((values - mean) * valid)
    if problem.means is None:
        return np.asarray(values)
    told = np.isfinite(problem.means.mean)
    return np.column_stack([np.where(told[:, None], 0.0, values), told.astype(float)])


def slopes_of(problem: Problem) -> slice:
    """Return where the slopes are among the free parameters."""
    shift = int(problem.design.fit_intercept) - int(problem.coordinates.fixed_intercept)
    return slice(shift, problem.coordinates.n_slopes)


def share_of_shape(full: FloatArray, location: FloatArray, slopes: slice) -> FloatArray:
    """Return 1 - V_full/V_location of each slope: how much of its information is from the shape."""
    ours, theirs = np.diag(full)[slopes], np.diag(location)[slopes]
    ok = (theirs > 0) & (ours > 0)
    return np.where(ok, np.clip(1 - ours / np.where(ok, theirs, 1.0), 0.0, 1.0), np.nan)


# -- sums over blocks ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LocationPart:
    """What some blocks contribute to the location score.

    Attributes
    ----------
    scores, residual, level : (b, p), (b, L), (b, p)
        W_bᵀ r_b for slopes, r_b, and sᵀ D_b/√v_b.
    slope, square, side : (p, p), (p, p), (p, L)
        Σ W_bᵀ P_b D_b, Σ W_bᵀ Σ_b W_b and Σ W_bᵀ Σ_b.
    covariance, derivative, kept : (L, L), (L, p), (L, p)
        Σ Σ_b, Σ D_b and Σ P_b D_b.
    """

    scores: Any
    residual: Any
    level: Any
    slope: Any
    square: Any
    side: Any
    covariance: Any
    derivative: Any
    kept: Any


def location_part(
    problem: Problem, said: Evidence, blocks: slice, values: FloatArray, used: BoolArray
) -> LocationPart:
    """Return what some blocks contribute; ``used`` (b, L) marks what was published of them.

    Of arrays or of tensors.
    """
    sigma = variance_of(problem, said)
    weight, level = level_weights(sigma, said, values)
    kept, known = kept_derivative(problem, said, blocks), like(sigma, used.any(axis=1))
    residual, along = said.residual * like(sigma, used), sigma @ weight

    def over_all(left: Any, right: Any) -> Any:
        """Return the sum of products over blocks and statistics."""
        return long_product(*(each.reshape(-1, each.shape[2]) for each in (left, right)))

    def over_known(values: Any) -> Any:
        """Return the sum over the blocks of which something is known."""
        flat = values.reshape(len(values), -1)
        return long_product(known[:, None], flat).reshape(values.shape[1:])

    return LocationPart(
        scores=(weight * residual[:, :, None]).sum(1),
        residual=residual,
        level=level,
        slope=over_all(weight, kept),
        square=over_all(weight, along),
        side=along.sum(0).T,
        covariance=over_known(sigma),
        derivative=over_known(said.derivative),
        kept=over_known(kept),
    )


def located(
    problem: Problem, parts: Iterable[LocationPart], penalty: FloatArray, *, held: bool = False
) -> Location:
    """Put the contributions of all blocks together; of arrays or of tensors."""
    found, n, p = list(parts), problem.coordinates.n_slopes, len(penalty)
    concatenate = namespace(found[0].scores).concatenate

    def total(name: str) -> FloatArray:
        return np.asarray(brought(reduce(add, [getattr(part, name) for part in found])))

    def joined(name: str) -> Any:
        return concatenate([getattr(part, name) for part in found])

    covariance, kept = total("covariance"), total("kept")
    weights = np.zeros((len(covariance), p - n))
    if problem.counts.shared and not held:
        weights = np.asarray(solve_scaled(covariance, total("derivative")[:, n:]))
    own, residual = joined("scores"), joined("residual")
    scores = concatenate([own[:, :n], residual @ like(residual, weights)], 1)
    slope = np.concatenate([total("slope")[:n], weights.T @ kept])
    side, model = total("side")[:n] @ weights, np.zeros((p, p))
    model[:n, :n], model[:n, n:], model[n:, :n] = total("square")[:n, :n], side, side.T
    model[n:, n:] = weights.T @ covariance @ weights
    if not weights.any():  # nuisance parameters stay where the full score has them
        slope[n:] = 0.0
        slope[n:, n:] = np.eye(p - n)
    bread = np.linalg.pinv(slope + np.diag(penalty))
    level = joined("level")[:, :n]
    leverage = ((level @ like(level, bread[:n, :n])) * level).sum(1)
    return Location(scores, bread, bread @ model @ bread.T, leverage)


def level_weights(variance: Any, said: Evidence, values: FloatArray) -> tuple[Any, Any]:
    """Return s (sᵀ D_b)/v_b of some blocks, (b, L, p), and sᵀ D_b/√v_b, (b, p).

    Of arrays or of tensors.
    """
    xp, values = namespace(variance), like(variance, values)
    v = xp.einsum("bl,bl->b", values, xp.einsum("blk,bk->bl", variance, values))
    spread = xp.sqrt(xp.where(v > 0, v, np.inf))[:, None]
    level = xp.einsum("bl,blp->bp", values, said.derivative) / spread
    return values[:, :, None] * (level / spread)[:, None, :], level


def kept_derivative(problem: Problem, said: Evidence, blocks: slice = slice(None)) -> Any:
    """Return how what is known of the statistics moves: (1 - V_b Σ_b⁻¹) D_b, V_b what is hidden."""
    if not said.hidden.shape[2]:
        return said.derivative
    used = left_statistics(problem, blocks)
    root = said.hidden * used[:, :, None]
    variance = masked(variance_of(problem, said), used)
    told = np.linalg.solve(variance, said.derivative * used[:, :, None])
    return np.asarray(said.derivative - said.hidden @ (root.swapaxes(1, 2) @ told))
