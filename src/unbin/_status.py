"""How fits end."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """How a fit ended; the value is the sentence the user reads."""

    # likelihood
    CONVERGED = "The quasi-score of the published statistics was solved."
    COMPOSITE = (
        "The features tell almost everybody's bin, so the composite likelihood was maximised "
        "instead of solving the quasi-score."
    )
    ORDER = "The likelihood of the published order statistics was maximised."
    NOT_CONVERGED = (
        "Scoring stopped before the quasi-score was solved; raise max_iter, or add a ridge with "
        "alpha."
    )
    POOLED = (
        "No slopes were found that explain the published table better than slopes of 0, so these "
        "are given: the same mean for everybody."
    )

    # matching, and observed targets
    MATCHED = "converged: after re-ranking the gradient is below the tolerance"
    SETTLED = "converged: fitting and imputing once more no longer lowers the objective"
    OBSERVED = "converged: the targets were observed, so the learner was fitted to them once"
    MAX_ITER = "not converged: max_iter was reached first; raise max_iter, or tol"
    STALLED = (
        "not converged: no step lowers the objective, but the gradient is above the tolerance; "
        "ranks change at every step, so try another init"
    )
    CONSTANT = (
        "not identified: one constant satisfies every published statistic, so predictions that are "
        "the same for everybody fit perfectly; matching needs a finer table"
    )
    SEPARATED = (
        "not identified: every published target lies at an end of the family's domain, so "
        "matching separates the people perfectly and only the ridge alpha bounds the slopes"
    )
    RESTARTS_DISAGREE = (
        "not identified: restarts reach the same objective with different coefficients; matching "
        "needs more blocks, or blocks that differ more"
    )
    ONE_BLOCK = (
        "not identified: with a single block any order of the people satisfies the release; "
        "matching needs blocks that differ"
    )

    # all of them
    INTERRUPTED = "not converged: the fit was stopped; the best iterate so far is kept"

    @property
    def converged(self) -> bool:
        """Whether the estimate solves its equations."""
        return self in _CONVERGED

    @property
    def identified(self) -> bool:
        """False where matching cannot have found the coefficients."""
        return not self.value.startswith("not identified")


_CONVERGED = {
    Status.CONVERGED,
    Status.COMPOSITE,
    Status.ORDER,
    Status.MATCHED,
    Status.SETTLED,
    Status.OBSERVED,
}
