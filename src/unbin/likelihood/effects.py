"""The random block intercept: effects shared by the people of a block, as prices of a county are.

An effect u_b on eta with variance τ² adds τ² e_b e_bᵀ to the covariance of the block's statistics
(see :mod:`unbin.likelihood.quasi_score`). Statistics are not linear in it, so they are expanded
around what is known of it given the table, mean û_b and variance v_b = τ² / (1 + τ² h_b): with m̄_b
the expected statistics averaged over N(û_b, v_b), and e_b their derivative, the residual is
c_b - m̄_b + e_b û_b. In small blocks that is the average over all effects, in large ones the block
at its own effect. With a_b = e_bᵀ S_b⁻¹ r_b, whose variance is h_b + τ² h_b² for
h_b = e_bᵀ S_b⁻¹ e_b, the variance τ² solves

    Σ_b a_b² / (h_b + τ² h_b²) = B - p,

the estimator of Paule and Mandel (where counts are hidden the first h_b is reduced by the
information lost). Misfit of another kind, such as tails heavier than the family's, hardly moves
a_b. The effects are allowed for where that sum is significantly large at τ = 0. They weigh the
information within blocks against that between blocks, which makes the estimates more efficient and
the standard errors right even with few blocks.

References
----------
Breslow, N. E. and Clayton, D. G. (1993). Approximate inference in generalized linear mixed models.
*Journal of the American Statistical Association*, 88, 9-25.

García-Fernández, Á. F., Svensson, L., Morelande, M. R. and Särkkä, S. (2015). Posterior
linearization filter. *IEEE Transactions on Signal Processing*, 63, 5561-5573.

Paule, R. C. and Mandel, J. (1982). Consensus values and weighting factors. *Journal of Research of
the National Bureau of Standards*, 87, 377-385.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtrc

from unbin._linalg import NOTHING, solve_scaled
from unbin._typing import FloatArray, IntArray
from unbin._watching import Status
from unbin.likelihood.law import Effects
from unbin.likelihood.problem import Problem
from unbin.likelihood.quasi_score import ScoreSums, score_sums
from unbin.likelihood.scoring import ScoringResult, solve_quasi_score
from unbin.likelihood.start import step_scale

_LEVEL = 0.05
_ROUNDS = 8
_MOVES = 10
_SETTLED = 0.05
"""Rounds end when τ² changes by less than this share, and effects by less than twice this share of
what is not known of them."""
_RATIOS = 120
"""Ratios of the variances of effects and noise that are tried."""
_GAIN = 1.35
"""Log likelihood that effects must gain: they do in 5 % of releases without any."""
_LEAST_NOISE = 0.05
"""Share of a pull's variance that is left at least where counts are hidden."""


def block_variance(sums: ScoreSums, unpenalised: FloatArray, n_slopes: int) -> float:
    """Return the Paule-Mandel estimate of the variance of block effects, from the blocks' pulls.

    What a ridge keeps the slopes from explaining is not an effect of blocks, so the pulls are those
    after one further scoring step without the ridge.

    Parameters
    ----------
    sums : ScoreSums
    unpenalised : (p,)
        The quasi-score without the ridge.
    n_slopes : int

    Returns
    -------
    float
        0 where the pulls are no larger than chance would make them.
    """
    pulls = Pulls.of(sums, sums.information, unpenalised)
    return 0.0 if pulls.p_value(n_slopes) > _LEVEL else pulls.variance(len(pulls.hold) - n_slopes)


@dataclass(frozen=True, slots=True)
class Pulls:
    """What pulls the blocks of a table away from their expectation, those with information.

    Attributes
    ----------
    square : (b,)
        a_b².
    hold, noise : (b,)
        h_b, and the variance of a_b without effects, which is less where counts are hidden.
    along : (b, p)
        Derivative of -a_b in the parameters.
    """

    square: FloatArray
    hold: FloatArray
    noise: FloatArray
    along: FloatArray

    @classmethod
    def of(cls, sums: ScoreSums, information: FloatArray, unpenalised: FloatArray) -> Pulls:
        """Return the pulls after one further scoring step without the ridge."""
        used = sums.block_hold > 1e-8
        step = solve_scaled(information, unpenalised)
        pull = (sums.block_pull - sums.block_along @ step)[used]
        hold = sums.block_hold[used]
        noise = np.maximum(hold - sums.block_hidden[used], _LEAST_NOISE * hold)
        return cls(pull**2, hold, noise, sums.block_along[used])

    def misfit(self, variance: float) -> float:
        """Return Σ a_b² over its expectation with effects of this variance."""
        return float((self.square / (self.noise + variance * self.hold**2)).sum())

    def p_value(self, n_slopes: int) -> float:
        """Return how likely pulls as large are without effects; 1 where blocks are too few."""
        df = len(self.hold) - n_slopes
        return float(chdtrc(df, self.misfit(0.0))) if df >= 1 else 1.0

    def variance(self, df: float) -> float:
        """Return the variance of effects at which the misfit is ``df``; 0 where it is below."""
        if self.misfit(0.0) <= df:
            return 0.0
        upper = float(self.misfit(0.0) / df / np.median(self.hold))
        while self.misfit(upper) > df:
            upper *= 4
        found = brentq(lambda at: self.misfit(at) - df, 0.0, upper, xtol=1e-10 * upper)
        return float(found)


def level_residuals(sums: ScoreSums, variance: float) -> FloatArray:
    """Return how far the level of each block lies from its expectation, in standard deviations.

    a_b / sqrt(h_b + τ² h_b²), standard normal if the model is right; 0 of blocks without
    information.
    """
    hold = sums.block_hold
    noise = np.maximum(hold - sums.block_hidden, _LEAST_NOISE * hold) + variance * hold**2
    used = hold > 1e-8
    return np.where(used, sums.block_pull / np.sqrt(np.where(used, noise, 1.0)), 0.0)


def effects_misfit(sums: ScoreSums, variance: float) -> FloatArray:
    """Return the part of each block's misfit that effects of this variance account for, (B,)."""
    share = variance / (1 + variance * sums.block_hold)
    return np.asarray(share * sums.block_pull**2)


def effects_df(sums: ScoreSums, variance: float) -> FloatArray:
    """Return the expectation of each block's misfit less that part, (B,).

    What is hidden of the pull counts less where effects of this variance are allowed for.
    """
    share = variance / (1 + variance * sums.block_hold)
    return np.asarray(sums.block_df + share * sums.block_hidden)


def average_effect(sums: ScoreSums, variance: float, people: IntArray) -> float:
    """Return the block effect of the average person: best linear predictors, weighted by people.

    Over blocks they average 0, over people they do not where large blocks differ from small ones.
    """
    effect = variance * sums.block_pull / (1 + variance * sums.block_hold)
    return float(people @ effect / people.sum())


def solve_with_effects(
    problem: Problem, result: ScoringResult, penalty: FloatArray, tol: float, max_iter: int
) -> tuple[Problem, ScoringResult]:
    """Solve again with block effects where they show; else return what was given.

    Rounds on the way need not end at a root, the last must: without it the fit without effects is
    given, which claims more than it knows and is called not converged.
    """
    found, reached = problem, result
    for _ in range(_ROUNDS):
        unpenalised = reached.sums.block_scores.sum(axis=0)
        variance = block_variance(reached.sums, unpenalised, problem.n_fitted)
        changed, passes = _expanded(found, variance, reached.free, penalty)
        if _settled(found, changed) and reached.status.converged:
            break
        cap = step_scale(changed, reached.free)
        again = solve_quasi_score(
            changed, reached.free, penalty, cap=cap, tol=tol, max_iter=max_iter
        )
        n_iter = reached.n_iter + passes + again.n_iter
        found, reached = changed, replace(again, n_iter=n_iter)
        if again.status is Status.INTERRUPTED:
            return problem, replace(result, status=Status.INTERRUPTED)
    if reached.status.converged:
        return found, reached
    return problem, replace(result, status=Status.NOT_CONVERGED, n_iter=reached.n_iter)


def _expanded(
    problem: Problem, variance: float, free: FloatArray, penalty: FloatArray
) -> tuple[Problem, int]:
    """Expand counts and means around the effects of their blocks; return the passes it took.

    Order statistics are linear in the effect as they are.
    """
    plain = replace(problem, block_variance=variance, effects=None)
    if variance == 0 or not (problem.counts.informative or problem.means is not None):
        return plain, 0
    sums, cap = score_sums(plain, free, penalty), step_scale(problem, free)[0]
    along = sums.block_along / np.maximum(sums.block_hold, NOTHING)[:, None]
    none = np.zeros(len(along))
    effects = Effects(none, none + np.sqrt(variance), along)
    if problem.effects is not None:
        effects = replace(problem.effects, along=along)
    passes = 1
    while passes <= _MOVES:
        sums = score_sums(replace(plain, effects=effects), free, penalty)
        passes += 1
        loose = 1 + variance * sums.block_hold
        step = np.clip(variance * sums.block_pull / loose - effects.move, -cap, cap)
        effects = Effects(effects.move + step, np.sqrt(variance / loose), along)
        if (np.abs(step) <= _SETTLED * effects.sd).all():
            break
    return replace(plain, effects=effects), passes


def _settled(problem: Problem, changed: Problem) -> bool:
    """Tell whether neither the variance of effects nor any of them changes any more."""
    by = abs(changed.block_variance - problem.block_variance)
    if by > _SETTLED * problem.block_variance:
        return False
    if changed.effects is None or problem.effects is None:
        return changed.effects is problem.effects
    move = np.abs(changed.effects.move - problem.effects.move)
    return bool((move <= 2 * _SETTLED * changed.effects.sd).all())


# -- where the noise of a block is not known either ------------------------------------------------


def separate_variance(sums: ScoreSums) -> float:
    """Return the variance of block effects where the dispersion is unknown too: from block sizes.

    Means, and single order statistics, say where a block lies and not how far its people lie
    apart. The move of eta that a block asks for, z_b = a_b / h_b, has variance φ / h_b + τ²: the
    noise falls with the number of people, the effect does not. Both are estimated by restricted
    maximum likelihood. Blocks of one size cannot tell them apart: all of it is then dispersion,
    which leaves the coefficients and their standard errors as they should be.

    Returns
    -------
    float
        0 where the effects are not significant.
    """
    used = sums.block_hold > 1e-8
    hold = sums.block_hold[used]
    noise = np.maximum(hold - sums.block_hidden[used], _LEAST_NOISE * hold) / hold**2
    along = sums.block_along[used] / hold[:, None]
    along = along[:, np.abs(along).max(axis=0, initial=0.0) > 0]
    moves = sums.block_pull[used] / hold
    if len(moves) <= along.shape[1] + 1:
        return 0.0
    ratios = np.median(noise) * np.concatenate([[0.0], np.geomspace(1e-3, 1e4, _RATIOS)])
    found = [_restricted(moves, along, noise + ratio) for ratio in ratios]
    best = int(np.argmax([value for value, _ in found]))
    if found[best][0] - found[0][0] < _GAIN:
        return 0.0
    return float(found[best][1] * ratios[best])


def _restricted(moves: FloatArray, along: FloatArray, variance: FloatArray) -> tuple[float, float]:
    """Return the restricted log likelihood of moves, and the scale of their variances."""
    root = np.sqrt(variance)
    basis, triangle = np.linalg.qr(along / root[:, None])
    white = moves / root
    left = white - basis @ (basis.T @ white)
    df = len(moves) - along.shape[1]
    scale = max(float(left @ left) / df, NOTHING)
    size = np.log(np.maximum(np.abs(np.diag(triangle)), NOTHING)).sum()
    return -0.5 * (df * np.log(scale) + np.log(variance).sum()) - float(size), scale
