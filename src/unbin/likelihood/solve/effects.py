"""Random intercepts: effects shared by the people of a block, as prices of a county are.

An effect u_b on eta with variance τ² adds τ² e_b e_bᵀ to the covariance of a group's statistics
(see :mod:`unbin.likelihood.model.score`). Statistics are not linear in it, so they are expanded
around what is known of it given the table, mean û_b and variance v_b = τ² / (1 + τ² h_b): with m̄_b
the expected statistics averaged over N(û_b, v_b), and e_b their derivative, the residual is
c_b - m̄_b + e_b û_b + v_b ∂²m_b/∂u², the last because û_b was read off c_b. In large blocks that is
the block at its own effect. With a_b = e_bᵀ S_b⁻¹ r_b, whose variance is h_b + τ² h_b² for
h_b = e_bᵀ S_b⁻¹ e_b, the variance τ² solves

    Σ_b a_b² / (h_b + τ² h_b²) = B - p,

the estimator of Paule and Mandel. Misfit of another kind, such as tails heavier than the family's,
hardly moves a_b. The effects are allowed for where that sum is significantly large at τ = 0. They
weigh the information within blocks against that between blocks, which makes the estimates more
efficient and the standard errors right even with few blocks.

Blocks that are larger than groups (states above counties), and those that cross them (age groups),
may have effects of their own. Their pulls are correlated; in the axes of their covariance H, with
eigenvalues λ, they are summed as above, a²/(λ + τ² λ²). The partition with the strongest evidence
is allowed for first, and a further one only if its pulls are still large beside those effects.
Effects of whole groups weigh the statistics as those of groups do. Effects that cross the groups
add to the errors and do not weigh: weights would be those of the blocks' average and not of their
people, and where a table is by groups of a feature its effect is then another one. What differs
within groups is left to the sandwich.

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtrc

from unbin._linalg import NOTHING, brought, solve_scaled
from unbin._typing import FloatArray, IntArray
from unbin._watching import Status
from unbin.likelihood.data.problem import Effects, Problem
from unbin.likelihood.model.moments import CellSums, map_cells
from unbin.likelihood.model.score import ScoreSums, blocks_above, score_sums, varied
from unbin.likelihood.solve.scoring import ScoringResult, solve_score
from unbin.likelihood.solve.start import step_scale
from unbin.likelihood.thresholds import EFFECTS_LEVEL, FEWEST_GROUPS, LARGEST_PARTITION

_ROUNDS = 8
_ENDLESS = 100.0
"""Standard deviation of effects, in first steps, from which on further rounds are not worth it."""
_MOVES = 10
_SETTLED = 0.05
"""Rounds end when τ² changes by less than this share, and effects by less than twice this share of
what is not known of them."""
_RATIOS = 120
"""Ratios of the variances of effects and noise that are tried."""
_GAIN = 1.35
"""Log likelihood that effects must gain: they do in 5 % of releases without any."""
_DETERMINED = 1e-8
"""Least variance of a pull that is no rounding."""


@dataclass(frozen=True, slots=True)
class Pulls:
    """What pulls the blocks of a partition away from their expectation, those with information.

    Attributes
    ----------
    pull : (b,)
        a_b.
    hold : (b,)
        h_b, the variance of a_b without effects.
    along : (b, p)
        Derivative of -a_b in the parameters.
    above : (b,) or None
        The larger block that each lies in, where those have effects.
    shared : float
        The variance of these.
    """

    pull: FloatArray
    hold: FloatArray
    along: FloatArray
    above: IntArray | None = None
    shared: float = 0.0

    @classmethod
    def of(
        cls,
        sums: ScoreSums,
        unpenalised: FloatArray,
        above: IntArray | None = None,
        shared: float = 0.0,
    ) -> Pulls:
        """Return the pulls of groups after one further scoring step without the ridge.

        What a ridge keeps the slopes from explaining is not an effect of blocks.
        """
        step = solve_scaled(sums.information, unpenalised)
        pull = sums.block_pull - sums.block_along @ step
        return cls._of(pull, sums.block_hold, sums.block_along, above, shared)

    @classmethod
    def _of(
        cls,
        pull: FloatArray,
        hold: FloatArray,
        along: FloatArray,
        above: IntArray | None = None,
        shared: float = 0.0,
    ) -> Pulls:
        used = hold > _DETERMINED
        above = None if above is None else above[used]
        return cls(pull[used], hold[used], along[used], above, shared)

    @classmethod
    def of_table(cls, problem: Problem, sums: ScoreSums, t: int, unpenalised: FloatArray) -> Pulls:
        """Return those of the blocks of table t, in the axes of their covariance.

        Random intercepts of other partitions are allowed for, its own are not.
        """
        step = solve_scaled(sums.information, unpenalised)
        if t in problem.plan.beside:
            part = sums.beside[problem.plan.beside.index(t)]
            return cls._of(part.pull - part.along @ step, part.hold, part.along)
        further = sums.further
        assert further is not None
        own = np.flatnonzero(further.table == t)
        others = np.flatnonzero((further.table != t) & (further.variance > 0))
        weighed = others[further.weighs[others]]
        pull, hold = further.pull[own], further.hold[np.ix_(own, own)]
        along = further.along[own]
        if len(weighed):
            across = further.hold[np.ix_(own, weighed)]
            inner = further.hold[np.ix_(weighed, weighed)]
            inner = inner + np.diag(1 / further.variance[weighed])
            taken = np.linalg.solve(inner, across.T).T
            pull = pull - taken @ further.pull[weighed]
            hold = hold - taken @ across.T
            along = along - taken @ further.along[weighed]
        noise = hold.copy()
        for s in others[~further.weighs[others]]:
            across = further.hold[own, s]
            noise += further.variance[s] * np.outer(across, across)
        pull = pull - along @ step
        values, axes = np.linalg.eigh(noise)
        used = values > max(_DETERMINED, _DETERMINED * float(values.max(initial=0.0)))
        root = axes[:, used] / np.sqrt(values[used])
        spread, turn = np.linalg.eigh(root.T @ hold @ hold @ root)
        # in these axes noise has variance 1 and effects have τ² λ; times λ they are as above
        size = np.maximum(spread, _DETERMINED)
        turned = (root @ turn).T * np.sqrt(size)[:, None]
        return cls(turned @ pull, size, turned @ along)

    def misfit(self, variance: float) -> float:
        """Return Σ a_b² over its expectation with effects of this variance.

        Blocks in the same larger one pull together where that has an effect.
        """
        spread = self.hold + variance * self.hold**2
        total = float((self.pull**2 / spread).sum())
        if self.above is None or self.shared == 0:
            return total
        along = np.bincount(self.above, self.hold * self.pull / spread)
        hold = np.bincount(self.above, self.hold**2 / spread)
        return total - float((self.shared * along**2 / (1 + self.shared * hold)).sum())

    def df(self, information: FloatArray, n_fitted: int) -> float:
        """Return the expectation of the misfit: less what the parameters take up of the pulls.

        With a single table all of them do.
        """
        inverse = solve_scaled(information, np.eye(len(information)))
        taken = ((self.along @ inverse) * self.along).sum(axis=1) / self.hold
        return len(self.hold) - min(float(taken.sum()), float(n_fitted))

    def p_value(self, df: float) -> float:
        """Return how likely pulls as large are without effects; 1 where blocks are too few."""
        return float(chdtrc(df, self.misfit(0.0))) if df >= 1 else 1.0

    def variance(self, df: float) -> float:
        """Return the variance of effects at which the misfit is ``df``; 0 where it is below."""
        if df < 1 or self.misfit(0.0) <= df:
            return 0.0
        upper = float(self.misfit(0.0) / df / np.median(self.hold))
        while self.misfit(upper) > df:
            upper *= 4
        found = brentq(lambda at: self.misfit(at) - df, 0.0, upper, xtol=1e-10 * upper)
        return float(found)


def group_df(problem: Problem, pulls: Pulls, sums: ScoreSums) -> float:
    """Return the expectation of the misfit of the pulls of groups."""
    if problem.layout.plain and problem.known is None:
        return float(len(pulls.hold) - problem.n_fitted)
    return pulls.df(sums.information, problem.n_fitted)


def group_variance(sums: ScoreSums, unpenalised: FloatArray, df: float) -> float:
    """Return the Paule-Mandel estimate of the variance of the effects of groups.

    0 where the pulls are no larger than chance would make them.
    """
    pulls = Pulls.of(sums, unpenalised)
    return 0.0 if pulls.p_value(df) > EFFECTS_LEVEL else pulls.variance(df)


def level_residuals(sums: ScoreSums, variance: float) -> FloatArray:
    """Return how far the level of each block lies from its expectation, in standard deviations.

    a_b / sqrt(h_b + τ² h_b²), standard normal if the model is right; 0 of blocks without
    information.
    """
    hold = sums.block_hold
    used = hold > _DETERMINED
    spread = np.sqrt(np.where(used, hold + variance * hold**2, 1.0))
    return np.where(used, sums.block_pull / spread, 0.0)


def effects_misfit(sums: ScoreSums, variance: float) -> FloatArray:
    """Return the part of each block's misfit that effects of this variance account for, (B,)."""
    share = variance / (1 + variance * sums.block_hold)
    return np.asarray(share * sums.block_pull**2)


def average_effect(sums: ScoreSums, variance: float, people: IntArray) -> float:
    """Return the block effect of the average person: best linear predictors, weighted by people.

    Over blocks they average 0, over people they do not where large blocks differ from small ones.
    """
    effect = (variance * sums.block_pull / (1 + variance * sums.block_hold))[: len(people)]
    return float(people @ effect / people.sum())


def misfit_beside_effects(problem: Problem, sums: ScoreSums) -> tuple[float, float]:
    """Return the misfit that random intercepts do not account for, and its expectation."""
    left = sums.misfit - float(effects_misfit(sums, problem.block_variance).sum())
    further = 0.0 if sums.further is None else sums.further.misfit()
    return left - further, sums.df - problem.n_fitted


# -- solving with effects --------------------------------------------------------------------------


def solve_with_effects(
    problem: Problem, result: ScoringResult, penalty: FloatArray, tol: float, max_iter: int
) -> tuple[Problem, ScoringResult]:
    """Solve again with random intercepts of the partitions where they show.

    Rounds on the way need not end at a root, the last must: without it the fit without effects is
    given, which claims more than it knows and is called not converged.
    """
    found, reached = problem, result
    candidates = _candidates(problem)
    for _ in range(_ROUNDS):
        variances, passes = _variances(found, reached, penalty, candidates)
        if np.sqrt(max(variances)) > _ENDLESS * step_scale(found, reached.free)[0]:
            reached = replace(reached, status=Status.NOT_CONVERGED)
            break
        changed, more = _expanded(found, variances, reached.free, penalty)
        if _settled(found, changed) and reached.status.converged:
            break
        if changed.effects is not None:
            changed, more = _bent(changed, changed.effects, reached.free, penalty), more + 4
        cap = step_scale(changed, reached.free)
        again = solve_score(changed, reached.free, penalty, cap=cap, tol=tol, max_iter=max_iter)
        n_iter = reached.n_iter + passes + more + again.n_iter
        found, reached = changed, replace(again, n_iter=n_iter)
        if again.status is Status.INTERRUPTED:
            return problem, replace(result, status=Status.INTERRUPTED)
    if reached.status.converged:
        return found, reached
    return problem, replace(result, status=Status.NOT_CONVERGED, n_iter=reached.n_iter)


def _candidates(problem: Problem) -> tuple[int, ...]:
    """Return the partitions whose blocks may have intercepts beside those of groups.

    Their blocks are enough, and do not lie within groups.
    """
    found = []
    for t, n in enumerate(problem.n_blocks):
        most = np.inf if t in problem.plan.beside else LARGEST_PARTITION
        if FEWEST_GROUPS <= n <= most and not problem.within_groups[t]:
            found.append(t)
    return tuple(found)


def _variances(
    problem: Problem,
    result: ScoringResult,
    penalty: FloatArray,
    candidates: Sequence[int],
) -> tuple[tuple[float, ...], int]:
    """Return the variance of the intercepts of groups, then of each table, and the passes it took.

    At most one more partition than before has any; the evidence for it has to hold against the
    number of those looked at.
    """
    sums, passes = result.sums, 0
    asked = [t for t in candidates if t not in problem.plan.beside]
    if asked:
        sums, passes = score_sums(problem, result.free, penalty, asked), 1
    pull = sums.score + penalty * result.free
    unpenalised = sums.block_scores.sum(axis=0) if problem.layout.plain else pull
    pulls = [Pulls.of(sums, unpenalised, *_above(problem, sums))]
    pulls += [Pulls.of_table(problem, sums, t, unpenalised) for t in candidates]
    df = [group_df(problem, pulls[0], sums)]
    df += [each.df(sums.information, problem.n_fitted) for each in pulls[1:]]
    before = [problem.block_variance, *(_further(problem)[t] for t in candidates)]
    found, looked_at = list(before), []
    for k, (own, left) in enumerate(zip(pulls, df, strict=True)):
        enough = (k == 0 and not candidates) or len(own.hold) >= FEWEST_GROUPS
        if before[k] > 0 or not candidates:
            level = own.p_value(left) <= EFFECTS_LEVEL or (k == 0 and before[k] > 0 and candidates)
            found[k] = own.variance(left) if level else 0.0
        elif enough:
            looked_at.append((own.p_value(left), k, own.variance(left)))
    if looked_at:
        p_value, k, more = min(looked_at, key=lambda each: (each[0], -each[2]))
        if p_value < EFFECTS_LEVEL / len(looked_at):
            found[k] = more
    further = np.array(_further(problem))
    for t, variance in zip(candidates, found[1:], strict=True):
        further[t] = variance
    return (found[0], *further.tolist()), passes


def _above(problem: Problem, sums: ScoreSums) -> tuple[IntArray | None, float]:
    """Return the largest blocks with effects above those of groups, and their variance."""
    tables = varied(problem)
    if not tables:
        return None, 0.0
    t = min(tables, key=lambda t: problem.n_blocks[t])
    return blocks_above(problem, t, len(sums.block_hold)), problem.further[t]


def _further(problem: Problem) -> tuple[float, ...]:
    return problem.further or (0.0,) * len(problem.n_blocks)


def _expanded(
    problem: Problem, variances: Sequence[float], free: FloatArray, penalty: FloatArray
) -> tuple[Problem, int]:
    """Expand counts and means around the effects of their groups; return the passes it took.

    Order statistics are linear in the effect as they are.
    """
    variance, *further = variances
    own = tuple(further) if any(further) else ()
    plain = problem.with_effects(variance, own)
    curved = any(t.counts.informative or t.means is not None for t in problem.tables)
    above = sum(further[t] for t in varied(plain))
    if variance + above == 0 or not curved:
        return plain, 0
    alone = plain.of_groups()
    sums, cap = score_sums(alone, free, penalty), step_scale(problem, free)[0]
    n = len(problem.group_people)
    along = (sums.block_along / np.maximum(sums.block_hold, NOTHING)[:, None])[:n]
    none = np.zeros(n)
    effects = Effects(none, none + np.sqrt(variance + above), along)
    if problem.effects is not None:
        effects = Effects(problem.effects.move, problem.effects.sd, along)
    passes = 1
    while passes <= _MOVES:
        sums = score_sums(alone.around(effects), free, penalty)
        passes += 1
        move, spread = _given_tables(alone, sums, n)
        step = np.clip(move - effects.move, -cap, cap)
        effects = Effects(effects.move + step, np.sqrt(spread), along)
        if (np.abs(step) <= _SETTLED * effects.sd).all():
            break
    return plain.around(effects), passes


def _given_tables(problem: Problem, sums: ScoreSums, n: int) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the effects on each of n groups, given what was published."""
    hold, variance, above = sums.block_hold[:n], problem.block_variance, np.zeros((2, n))
    if sums.further is not None:
        known = np.stack(sums.further.given())
        for t in varied(problem):
            own = np.flatnonzero(sums.further.table == t)
            above += known[:, own[blocks_above(problem, t, n)]]
    loose = 1 + variance * hold
    mean = variance * (sums.block_pull[:n] - hold * above[0]) / loose
    return mean + above[0], variance / loose + above[1] / loose**2


def _bent(problem: Problem, effects: Effects, free: FloatArray, penalty: FloatArray) -> Problem:
    """Expand around effects, with what it does to statistics that these are read off them.

    As û has the covariance v e with what it was read off, these lie closer to m(û) than others
    would, by v ∂²m/∂u²: people lie closer to the mean of their own block than to the one that they
    were drawn around. That shrank slopes that rest on the shape of histograms. Levels are left as
    they are: they say what û is.
    """
    certain = replace(effects, sd=np.zeros_like(effects.sd))
    around, inside = (
        np.concatenate([brought(m) for m in map_cells(at, free, _mean, covariance=False)])
        for at in (problem.around(effects), problem.around(certain))
    )
    bent = replace(effects, bend=2 * (around - inside))
    alone = problem.of_groups()
    without, found = (score_sums(alone.around(e), free, penalty) for e in (effects, bent))
    more = (found.block_pull - without.block_pull) / np.maximum(without.block_hold, NOTHING)
    return problem.around(replace(bent, level=more[: len(effects.move)]))


def _mean(cells: CellSums) -> Any:
    return cells.mean


def is_settled(problem: Problem, result: ScoringResult, penalty: FloatArray) -> bool:
    """Tell whether a further round would change nothing."""
    variances, _ = _variances(problem, result, penalty, _candidates(problem))
    return _settled(problem, _expanded(problem, variances, result.free, penalty)[0])


def _settled(problem: Problem, changed: Problem) -> bool:
    """Tell whether neither the variances of effects nor any of these change any more."""
    before = np.array([problem.block_variance, *_further(problem)])
    after = np.array([changed.block_variance, *_further(changed)])
    if (np.abs(after - before) > _SETTLED * before).any():
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
    used = sums.block_hold > _DETERMINED
    hold = sums.block_hold[used]
    noise = 1 / hold
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
