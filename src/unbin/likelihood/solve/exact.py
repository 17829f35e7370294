"""The exact likelihood of how many people of a small block have an outcome of 1.

Of n people with probabilities p_1, …, p_n the number of ones is Poisson-binomial. Its law A_k and
the derivatives D_k = ∂A_k/∂theta are built up person by person,

    A_k ← (1 - p) A_k + p A_(k-1),
    D_k ← (1 - p) D_k + p D_(k-1) + (∂p/∂theta)(A_(k-1) - A_k),

in n² steps. With c published, the score of the block is D_c/A_c and its information, that of
everything the count could have been, Σ_k D_k D_kᵀ/A_k. The quasi-score is linear in c; the exact
score bends where slopes are strong. In blocks of 10 people the variance of a slope of .5, 1, 2 and
4 is .98, .93, .77 and .49 of the quasi-score's with 30 % of the feature's variance between blocks,
and .90, .73, .49 and .34 with 2 %. Blocks of more than ``LARGEST`` people gain less and take
longer; they keep the quasi-score, and both add.

Where blocks have effects of their own the quasi-score stays too. Integrated over the effects, the
likelihood leans on their variance: with a standard deviation of .5, slopes of 2 and 300 blocks
it took 12 % off the variance of the estimates, and intervals covered .92 instead of .95.

References
----------
Wang, Y. H. (1993). On the number of successes in independent trials. *Statistica Sinica*, 3,
295-312.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unbin._compiling import njit
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin._watching import Equation, Status
from unbin.families import Interval
from unbin.likelihood.data.problem import Problem
from unbin.likelihood.model.law import Law
from unbin.likelihood.model.score import ScoreSums, score_sums
from unbin.likelihood.solve.scoring import ScoringResult, solve_score
from unbin.likelihood.solve.start import step_scale
from unbin.rows.rows import Rows, kernel

LARGEST = 30
"""People of a block up to which its likelihood is worked out exactly."""
_ZERO_ONE = Interval(0.0, 1.0, integer=True)
_POSSIBLE = 1e-290
"""Probability of a count below which its logarithm's derivative has lost its digits."""


def exact_blocks(problem: Problem) -> BoolArray:
    """Mark the blocks whose likelihood can be worked out exactly, shape (B,).

    Outcomes are 0 or 1, counts are exact, blocks have no effects, and each row of a block, of which
    all are in one place, stands for a whole number of its people.
    """
    design, table = problem.design, problem.lead
    counts = table.counts
    nobody = np.zeros(len(counts.n), dtype=bool)
    if not problem.layout.plain or problem.known is not None:
        return nobody
    two_values = problem.family.domain == _ZERO_ONE and problem.coordinates.n_nuisance == 0
    exact = counts.exact and counts.shared and counts.n_bins == 2
    alone = table.means is None and table.order is None and table.factor is None
    if not (two_values and exact and alone):
        return nobody
    if problem.block_variance > 0:
        return nobody
    if design.whole is None or design.scores_blocks or design.sampled or not _has_columns(problem):
        return nobody
    if design.weight is not None and not _whole_weights(problem):
        return nobody
    return np.asarray(counts.known & (counts.n <= LARGEST))


def _has_columns(problem: Problem) -> bool:
    """Tell whether rows have their columns with them: tabmat keeps thousands of them elsewhere."""
    assert problem.design.whole is not None
    matrix = getattr(problem.design.whole[0], "matrix", None)  # None of a part that is made later
    return matrix is None or matrix.shape[1] == len(problem.design.scale)


def _whole_weights(problem: Problem) -> bool:
    fractions = problem.design.total(fractional_rows)
    return int(fractions) == 0


@kernel
def fractional_rows(rows: Rows) -> FloatArray:
    """Return how many rows stand for a number of people that is not whole."""
    weights = rows.people()
    return np.asarray((weights != np.rint(weights)).sum())


def solve_exact(
    problem: Problem, result: ScoringResult, penalty: FloatArray, tol: float, max_iter: int
) -> ScoringResult:
    """Maximise the exact likelihood of small blocks from the root of the quasi-score.

    Returns what was given where no block is small, or where that fails.
    """
    small = exact_blocks(problem)
    if not small.any():
        return result

    def evaluate(at: Problem, free: FloatArray, ridge: FloatArray) -> ScoreSums:
        return exact_sums(at, free, ridge, small)

    cap = step_scale(problem, result.free)
    found = solve_score(
        problem, result.free, penalty, cap=cap, tol=tol, max_iter=max_iter, evaluate=evaluate
    )
    n_iter = result.n_iter + found.n_iter
    if found.status is Status.INTERRUPTED:
        return replace(found, n_iter=n_iter)
    if found.status is not Status.CONVERGED:
        return result
    return replace(found, equation=Equation.EXACT, n_iter=n_iter)


def exact_sums(
    problem: Problem, free: FloatArray, penalty: FloatArray, small: BoolArray
) -> ScoreSums:
    """Return the sums of the quasi-score, those of small blocks by their exact likelihood.

    Misfit, pulls and expected counts stay as they are.
    """
    sums = score_sums(problem, free, penalty)
    ones = problem.lead.counts.count[:, 1].astype(np.int64)
    block_scores, information = sums.block_scores.copy(), _of_large(sums, ~small)
    assert problem.design.whole is not None
    for blocks, scores, own in problem.design.whole.stream(
        exact_rows, Law.of(problem, free), free, ones, small
    ):
        block_scores[blocks] = scores
        information += own
    score = block_scores.sum(axis=0) - penalty * free
    return replace(sums, score=score, information=information, block_scores=block_scores)


def _of_large(sums: ScoreSums, large: BoolArray) -> FloatArray:
    """Return the information of the quasi-score on blocks that are not small.

    A block has one count, so that D_bᵀ S_b⁻¹ D_b is the square of D_bᵀ S_b⁻¹ e_b over
    e_bᵀ S_b⁻¹ e_b.
    """
    used = large & (sums.block_hold > 0)
    along = sums.block_along[used]
    return np.asarray(along.T @ (along / sums.block_hold[used, None]))


@kernel
def exact_rows(
    rows: Rows, law: Law, free: FloatArray, ones: IntArray, small: BoolArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the small blocks among those of some rows, their scores, and their information."""
    theta, nuisance = law.coordinates.split(free)
    model = law.family.bins(rows.eta(theta), law.lower, law.upper, nuisance)
    here = np.flatnonzero(small[rows.blocks])
    columns = rows.matrix.T if not rows.fit_intercept else _with_ones(rows)
    scores, information = poisson_binomial(
        model.probability, model.d_eta[:, 1], columns, rows.people(), rows.start, here,
        ones[rows.blocks],
    )  # fmt: skip
    return rows.blocks[here], scores, information


def _with_ones(rows: Rows) -> FloatArray:
    return np.concatenate([np.ones((1, len(rows))), rows.matrix.T])


@njit(cache=True, nogil=True, error_model="numpy")
def poisson_binomial(probability, slope, columns, people, start, blocks, ones):  # type: ignore[no-untyped-def]
    """Return the score of each block (b, p), and the information of all (p, p).

    Parameters
    ----------
    probability : (n, 2)
        Of 0 and of 1.
    slope : (n,)
        Derivative of the probability of 1 in eta.
    columns : (p, n)
    people : (n,) or (0,)
        People that each row stands for; left empty where it is one.
    start : (B + 1,)
    blocks : (b,)
        Places of the blocks that are wanted, of at most ``LARGEST`` people.
    ones : (B,)
        Published counts.
    """
    p = len(columns)
    scores, information = np.zeros((len(blocks), p)), np.zeros((p, p))
    law, d_law, x = np.zeros(LARGEST + 1), np.zeros((LARGEST + 1, p)), np.zeros(p)
    for place in range(len(blocks)):
        b, size = blocks[place], 0
        law[:], d_law[:] = 0.0, 0.0
        law[0] = 1.0
        for i in range(start[b], start[b + 1]):
            no, yes = probability[i, 0], probability[i, 1]
            for j in range(p):
                x[j] = slope[i] * columns[j, i]
            for _ in range(int(people[i]) if len(people) else 1):
                size += 1
                for k in range(size, 0, -1):
                    change = law[k - 1] - law[k]
                    for j in range(p):
                        d_law[k, j] = no * d_law[k, j] + yes * d_law[k - 1, j] + change * x[j]
                    law[k] = no * law[k] + yes * law[k - 1]
                for j in range(p):
                    d_law[0, j] = no * d_law[0, j] - law[0] * x[j]
                law[0] *= no
        said = ones[b]
        for j in range(p):
            scores[place, j] = d_law[said, j] / law[said] if law[said] > _POSSIBLE else np.nan
        for k in range(size + 1):
            if law[k] > _POSSIBLE:
                for j in range(p):
                    ratio = d_law[k, j] / law[k]
                    for m in range(p):
                        information[j, m] += ratio * d_law[k, m]
    return scores, information
