"""The quasi-score of the published statistics, and its information, in one pass over the rows.

With m_b, D_b and S_b the moments of block b (see :mod:`unbin.likelihood.moments`) and c_b what was
published, the quasi-score is Σ D_bᵀ S_b⁻¹ (c_b - m_b) and its information J = Σ D_bᵀ S_b⁻¹ D_b. The
counts of a block sum to its number of people, so S_b is singular and the largest bin is left out;
with noise added to the counts nothing needs to be.

A random block intercept u_b on eta adds τ² e_b e_bᵀ to S_b, with τ² its variance and
e_b = ∂m_b/∂u_b. That is a correction of rank one, made after S_b alone has been inverted.

References
----------
Wedderburn, R. W. M. (1974). Quasi-likelihood functions, generalized linear models, and the
Gauss-Newton method. *Biometrika*, 61, 439-447.

McCullagh, P. (1983). Quasi-likelihood functions. *Annals of Statistics*, 11, 59-67.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from unbin._linalg import JITTER, NOTHING, like, namespace
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.likelihood.hidden import expected_within
from unbin.likelihood.law import Law
from unbin.likelihood.moments import BlockMoments, finish, map_moments
from unbin.likelihood.order import order_moments
from unbin.likelihood.problem import Problem
from unbin.likelihood.sampling import Sampled, correct, tiles_of
from unbin.likelihood.weighing import score_blocks
from unbin.rows.design import BlockSums
from unbin.rows.rows import Rows, kernel

_MOST_LOST = 0.95
"""Hidden counts and sampling take at most this share of the information in any direction."""
_NOBODY = 1e-12
"""Share of people that is rounding: all are expected in the bin."""
_LEAST_BEFORE = 0.05
"""Share of an expected count that is expected at least before the table is looked at."""


@dataclass(frozen=True, slots=True)
class ScoreSums:
    """Sums over blocks at one value of the parameters.

    Attributes
    ----------
    score : (p,)
        The penalised quasi-score U.
    information : (p, p)
        J, without the ridge.
    block_scores : (B, p)
        D_bᵀ S_b⁻¹ (c_b - m_b).
    block_misfit : (B,)
        (c_b - m_b)ᵀ S_b⁻¹ (c_b - m_b), block effects not allowed for.
    block_df : (B,)
        Expectation of ``block_misfit`` at the true parameters.
    block_pull, block_hold, block_hidden : (B,)
        e_bᵀ S_b⁻¹ (c_b - m_b), its variance e_bᵀ S_b⁻¹ e_b, and how much of that is lost where
        counts are hidden; for the random block intercept.
    block_along : (B, p)
        e_bᵀ S_b⁻¹ D_b.
    mean : (B, L)
        Expected statistics.
    spread : float
        Trace of all S_b over that of multinomial counts with the same means: near 0 when the
        features determine everybody's bin.
    sampled : (p, p) or None
        What ``information`` is short of because D_b was estimated from a sample of the people.
    """

    score: FloatArray
    information: FloatArray
    block_scores: FloatArray
    block_misfit: FloatArray
    block_df: FloatArray
    block_pull: FloatArray
    block_hold: FloatArray
    block_hidden: FloatArray
    block_along: FloatArray
    mean: FloatArray
    spread: float
    sampled: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class PartSums:
    """What some blocks contribute to ``ScoreSums``; ``lost`` is what hidden counts take."""

    information: FloatArray
    lost: FloatArray
    spread: FloatArray
    scores: FloatArray
    along: FloatArray
    misfit: FloatArray
    df: FloatArray
    pull: FloatArray
    hold: FloatArray
    hidden: FloatArray
    mean: FloatArray


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was published of some blocks, compared with what is expected; noise is allowed for.

    Arrays, or tensors where their rows are on a device.

    Attributes
    ----------
    covariance : (B, L, L)
    derivative, shift : (B, L, p), (B, L)
        D_b and e_b.
    hidden : (B, L, h)
        The root of the variance of what is hidden; without any it has no columns.
    residual : (B, L)
        c_b - m_b.
    spread : (2,)
        Traces of S_b, and of multinomial covariances with the same means.
    mean : (B, L)
    """

    covariance: Any
    derivative: Any
    shift: Any
    hidden: Any
    residual: Any
    spread: Any
    mean: Any


def score_sums(
    problem: Problem,
    free: FloatArray,
    penalty: FloatArray,
) -> ScoreSums:
    """Return the quasi-score and its information in one pass over the rows.

    Parameters
    ----------
    problem : Problem
    free : (p,)
    penalty : (p,)
        Ridge weight of each free parameter, times the number of people.
    """
    if problem.order is not None:
        sums = _with_order(problem, free, penalty)
    elif problem.design.sampled:
        sums = _sampled_sums(problem, free, penalty)
    else:
        sums = _plain_sums(problem, free, penalty)
    return sums if problem.effects is None else _instrumented(problem, sums)


def _plain_sums(problem: Problem, free: FloatArray, penalty: FloatArray) -> ScoreSums:
    """Return the quasi-score of counts and means."""
    reference, used = reference_bins(problem), used_statistics(problem)

    def whole(blocks: slice, sums: tuple[Any, ...]) -> Evidence:
        return evidence(problem, finish(problem, free, blocks, sums, True))

    def weigh(part: BlockMoments) -> PartSums:
        return weigh_blocks(problem, evidence(problem, part), part.blocks)

    if problem.design.scores_blocks and problem.counts.low is None:
        scored = problem.design.parts.stream(
            score_rows, Law.of(problem), free, whole, reference, used
        )
        parts = [part_sums(problem, *found) for found in scored]
    else:
        parts = list(map_moments(problem, free, weigh))
    return summed(parts, penalty * free)


def _instrumented(problem: Problem, sums: ScoreSums) -> ScoreSums:
    """Weigh what a block says of its effect as if it had not been looked at.

    The score of a block is that of its shape, whose expectation is 0 whatever the effect, and
    a_b e_bᵀ S_b⁻¹ r_b / (1 + τ² h_b) with a_b = D_bᵀ S_b⁻¹ e_b / h_b. Expanded around the effect
    a_b would depend on it, and the expectation of the product would not be 0.
    """
    assert problem.effects is not None
    hold, variance = sums.block_hold, problem.block_variance
    own = sums.block_along / np.maximum(hold, NOTHING)[:, None]
    along = np.where((hold > 0)[:, None], problem.effects.along, 0.0)
    scores = (along - own) * (sums.block_pull / (1 + variance * hold))[:, None]
    weight = (hold / (1 + variance * hold))[:, None]
    return replace(
        sums,
        score=sums.score + scores.sum(axis=0),
        block_scores=sums.block_scores + scores,
        information=sums.information + along.T @ (weight * along) - own.T @ (weight * own),
        block_along=along * hold[:, None],
    )


def weigh_blocks(problem: Problem, said: Evidence, blocks: slice = slice(None)) -> PartSums:
    """Return the sums of some blocks, their statistics weighted by their covariances."""
    arrays = said.covariance, said.derivative, said.shift, said.hidden, said.residual
    rest = reference_bins(problem, blocks), used_statistics(problem, blocks)
    sums = score_blocks(*arrays, *rest, problem.block_variance)
    return part_sums(problem, sums, said.spread, said.mean)


def misfit_without_effects(
    problem: Problem, free: FloatArray, sums: ScoreSums
) -> tuple[FloatArray, FloatArray]:
    """Return the misfit of each block and its expectation, both as if there were no block effects.

    Those of ``sums`` unless something is hidden: what it is expected to be depends on the effects.
    """
    interval = problem.order is not None and problem.family.domain.integer
    if problem.block_variance == 0 or not (interval or problem.counts.low is not None):
        return sums.block_misfit, sums.block_df
    plain = replace(problem, block_variance=0.0)

    def weigh(part: BlockMoments) -> PartSums:
        return weigh_blocks(plain, evidence(plain, part), part.blocks)

    found = summed(list(map_moments(problem, free, weigh)), np.zeros(len(free)))
    if problem.order is None:
        return found.block_misfit, found.block_df
    *_, (misfit, df, _, _, _) = _order_sums(plain, free)
    return found.block_misfit + misfit, found.block_df + df


# -- order statistics beside counts and means ------------------------------------------------------


def _with_order(problem: Problem, free: FloatArray, penalty: FloatArray) -> ScoreSums:
    """Add the score of the order statistics to that of what else was published.

    What a block has of both is taken as independent, given its effect.
    """
    counted, variance = replace(problem, order=None), problem.block_variance
    sums = (_sampled_sums if problem.design.sampled else _plain_sums)(counted, free, penalty)
    information, lost, scores, along, each = _order_sums(problem, free)
    misfit, df, pull, hold, hidden = each
    first = variance / (1 + variance * sums.block_hold)
    together = replace(
        sums,
        block_misfit=sums.block_misfit + misfit,
        block_df=sums.block_df + df,
        block_pull=sums.block_pull + pull,
        block_hold=sums.block_hold + hold,
        block_hidden=sums.block_hidden + hidden,
        block_along=sums.block_along + along,
    )
    share = variance / (1 + variance * together.block_hold)
    # the effect of a block is allowed for once, not of each of the two
    scores += (first * sums.block_pull)[:, None] * sums.block_along
    scores -= (share * together.block_pull)[:, None] * together.block_along
    information += sums.block_along.T @ (sums.block_along * first[:, None])
    information -= together.block_along.T @ (together.block_along * share[:, None])
    return replace(
        together,
        score=sums.score + scores.sum(axis=0),
        information=less_information(sums.information + information, lost),
        block_scores=sums.block_scores + scores,
    )


def _order_sums(problem: Problem, free: FloatArray) -> tuple[FloatArray, ...]:
    """Return what ``score_blocks`` does, of the order statistics."""
    assert problem.order is not None
    found, nothing = order_moments(problem, free), np.full(len(problem.order.n), -1)
    moments = found.covariance, found.derivative, found.shift, found.hidden, found.residual
    sums: tuple[FloatArray, ...] = score_blocks(
        *moments, nothing, problem.order.valid, problem.block_variance
    )
    return sums


# -- rows that are a sample ------------------------------------------------------------------------


def _sampled_sums(problem: Problem, free: FloatArray, penalty: FloatArray) -> ScoreSums:
    """Return the quasi-score of people of whom the rows are a sample, corrected for that."""

    def both(part: BlockMoments) -> tuple[PartSums, Sampled]:
        sampled = sampled_blocks(problem, part)
        return weigh_blocks(problem, evidence(problem, part), part.blocks), sampled

    parts, blocks = zip(*map_moments(problem, free, both), strict=True)
    joined = Sampled.joined(blocks)
    score, taken = problem.design.total(sampled_rows, Law.of(problem), free, joined, problem.cuts)
    return corrected(summed(list(parts), penalty * free), score.arrays[0], taken)


def sampled_blocks(problem: Problem, part: BlockMoments) -> Sampled:
    """Return what the correction of a table's score needs to know of some of its blocks."""
    assert part.sampling is not None
    blocks, n = part.blocks, problem.counts.n[part.blocks].astype(np.float64)
    used = left_statistics(problem, blocks)
    drawn, each = part.sampling, n[:, None, None]
    return Sampled(
        n=n,
        people=n if problem.factor is None else n / problem.factor[blocks],
        mean=part.mean / n[:, None],
        derivative=part.derivative / each,
        shift=part.shift / n[:, None],
        within=(part.covariance - drawn.covariance) / each,
        level=drawn.level,
        once=drawn.once,
        twice=drawn.twice,
        noise=np.full(len(n), problem.noise_sd**2),
        effects=np.full(len(n), problem.block_variance),
        used=used,
    )


def corrected(sums: ScoreSums, score: FloatArray, taken: FloatArray) -> ScoreSums:
    """Return sums with the score (B, p) and the information corrected for sampling."""
    return replace(
        sums,
        score=sums.score + score.sum(axis=0),
        block_scores=sums.block_scores + score,
        information=less_information(sums.information, taken, least=-np.inf),
        sampled=taken,
    )


@kernel
def sampled_rows(
    rows: Rows, law: Law, free: FloatArray, blocks: Sampled, cuts: IntArray | None
) -> tuple[BlockSums, FloatArray]:
    """Return the correction of the score by block, and that of the information."""
    theta, nuisance = law.coordinates.split(free)
    score, taken = np.zeros((len(rows.blocks), len(free))), np.zeros((len(free), len(free)))
    for tile in tiles_of(rows, law.n_statistics, len(free)):
        model = law.rows(rows, tile, theta, nuisance, True)
        code, x, people = rows.codes(tile), rows.matrix[tile], rows.people(tile)
        own, less = correct(model, x, people, code, blocks, law.coordinates, free, cuts)
        np.add.at(score, np.searchsorted(rows.blocks, code), own)
        taken += less
    return BlockSums(rows.blocks, (score,)), taken


def summed(parts: list[PartSums], pulled: FloatArray) -> ScoreSums:
    """Put the sums of all blocks together, ``pulled`` (p,) the pull of the ridge."""
    information = reduce(np.add, [part.information for part in parts])
    spread = reduce(np.add, [part.spread for part in parts])
    block_scores = _joined([part.scores for part in parts])
    return ScoreSums(
        score=block_scores.sum(axis=0) - pulled,
        information=less_information(information, reduce(np.add, [part.lost for part in parts])),
        block_scores=block_scores,
        block_misfit=_joined([part.misfit for part in parts]),
        block_df=_joined([part.df for part in parts]),
        block_pull=_joined([part.pull for part in parts]),
        block_hold=_joined([part.hold for part in parts]),
        block_hidden=_joined([part.hidden for part in parts]),
        block_along=_joined([part.along for part in parts]),
        mean=_joined([part.mean for part in parts]),
        spread=float(spread[0] / spread[1]) if spread[1] > 0 else 1.0,
    )


def _joined(arrays: list[FloatArray]) -> FloatArray:
    """Put the blocks of all parts, which come in order, side by side."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def part_sums(
    problem: Problem,
    sums: tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray],
    spread: FloatArray,
    mean: FloatArray,
) -> PartSums:
    """Allow for block effects in what ``score_blocks`` returned."""
    information, lost, scores, along, (misfit, df, pull, hold, hidden) = sums
    variance = problem.block_variance
    if variance > 0:
        share = variance / (1 + variance * hold)
        scores -= (share * pull)[:, None] * along
        information -= along.T @ (along * share[:, None])
    return PartSums(
        information=information,
        lost=lost,
        spread=spread,
        scores=scores,
        along=along,
        misfit=misfit,
        df=df,
        pull=pull,
        hold=hold,
        hidden=hidden,
        mean=mean,
    )


def evidence(problem: Problem, part: BlockMoments) -> Evidence:
    """Compare what was published of some blocks with their moments; the covariance is changed."""
    counts, blocks, n_bins = problem.counts, part.blocks, problem.counts.n_bins
    bins, mean, covariance = np.arange(n_bins), part.mean, part.covariance
    people = counts.n[blocks].astype(np.float64)
    m, variance = mean[:, :n_bins], covariance[:, bins, bins]
    rest = 1 - m / like(mean, people)[:, None]
    multinomial = m * rest * (rest > _NOBODY)
    spread = namespace(mean).stack([variance.sum(), multinomial.sum()])
    target, hidden = counts.count[blocks], np.zeros((*mean.shape, 0))
    if counts.low is not None:
        target, hidden = _within(problem, part)
    if problem.means is not None:
        total = problem.means.mean[blocks] * people / problem.means.unit
        target = np.column_stack([target, np.nan_to_num(total)])
    covariance[:, bins, bins] += problem.noise_sd**2
    residual = like(mean, target.astype(np.float64, copy=False)) - mean
    if problem.effects is not None:
        residual = residual + part.shift * like(mean, problem.effects.move[blocks])[:, None]
    return Evidence(covariance, part.derivative, part.shift, hidden, residual, spread, mean)


def _within(problem: Problem, part: BlockMoments) -> tuple[FloatArray, FloatArray]:
    """Return expected counts where counts are hidden, and the root of their variance.

    See :mod:`unbin.likelihood.hidden`.
    """
    n_bins = problem.counts.n_bins
    shift = part.shift[:, :n_bins]
    effects = problem.block_variance * (shift[:, :, None] * shift[:, None, :])
    if problem.shared is not None:
        effects = effects + problem.shared[part.blocks, :n_bins, :n_bins]
    covariance = part.covariance[:, :n_bins, :n_bins] + effects
    mean = part.mean[:, :n_bins]
    if problem.effects is not None:
        before = mean - shift * problem.effects.move[part.blocks, None]
        mean = np.maximum(before, _LEAST_BEFORE * mean)
    target, root = expected_within(problem.counts, mean, covariance, part.blocks)
    hidden = np.zeros((*part.mean.shape, n_bins))
    hidden[:, :n_bins] = root
    return target, hidden


@kernel
def score_rows(
    rows: Any,
    law: Law,
    free: FloatArray,
    weigh: Callable[[slice, Any], Evidence],
    reference: IntArray,
    used: BoolArray,
) -> tuple[Any, FloatArray, FloatArray]:
    """Score whole blocks where their rows are; for engines that can (``Design.scores_blocks``).

    Returns what ``score_blocks`` does, and ``spread`` and ``mean`` of their evidence.
    """
    raise NotImplementedError


def less_information(information: FloatArray, lost: FloatArray, least: float = 0.0) -> FloatArray:
    """Subtract information that is lost, to hidden counts or to sampling; never all of it.

    In no direction is less than ``least`` of it lost: what a sample takes is an estimate, and may
    be below 0.
    """
    if not lost.any() or not np.isfinite(information + lost).all():
        return information - lost
    values, vectors = np.linalg.eigh(information)
    keep = values > 1e-12 * values[-1]
    root = vectors[:, keep] * np.sqrt(values[keep])
    white = vectors[:, keep] / np.sqrt(values[keep])
    share, axes = np.linalg.eigh(white.T @ lost @ white)
    left = (axes * (1 - np.clip(share, least, _MOST_LOST))) @ axes.T
    return np.asarray(root @ left @ root.T)


def log_score(problem: Problem, sums: ScoreSums) -> float:
    """Return Σ c log(m / n) per person."""
    return problem.counts.log_score(sums.mean[:, : problem.counts.n_bins])


def reference_bins(problem: Problem, blocks: slice = slice(None)) -> IntArray:
    """Return the bin left out of each of some blocks, -1 for none."""
    if problem.noise_sd > 0:
        return np.full(len(problem.counts.n[blocks]), -1)
    return problem.counts.largest[blocks]


def used_statistics(problem: Problem, blocks: slice = slice(None)) -> BoolArray:
    """Mark the statistics of some blocks that were published, shape (b, L)."""
    used = problem.counts.valid(blocks)
    if problem.means is not None:
        used = np.column_stack([used, np.isfinite(problem.means.mean[blocks])])
    return used


def left_statistics(problem: Problem, blocks: slice = slice(None)) -> BoolArray:
    """Mark the statistics of some blocks that were published, less the bin left out, (b, L)."""
    used = used_statistics(problem, blocks)
    reference = reference_bins(problem, blocks)
    return np.asarray(used & (np.arange(used.shape[1]) != reference[:, None]))


def variance_of(problem: Problem, said: Evidence) -> Any:
    """Return Σ_b = S_b + τ² e_b e_bᵀ, (b, L, L); of arrays or of tensors."""
    shift = said.shift
    if problem.block_variance == 0:
        return said.covariance
    return said.covariance + problem.block_variance * shift[:, :, None] * shift[:, None]


def masked(variance: Any, used: BoolArray) -> Any:
    """Return covariances (b, L, L) of the statistics used alone, with a jitter to invert them.

    Of arrays or of tensors.
    """
    keep = like(variance, used)
    jitter = like(variance, JITTER * np.eye(used.shape[1]))
    return variance * keep[:, :, None] * keep[:, None, :] + jitter
