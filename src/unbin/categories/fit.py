"""A fit of categories: the root that is reported, the one that predicts, how precise they are.

Where random effects follow groups, levels of the groups have a weak prior around the pooled shares,
N(log share, .7²), and contextual slopes one of scale z, which is a parameter of sensitivity:
margins alone cannot tell what it is. All other slopes have no prior in what is reported; the
evidence ridge (:mod:`unbin.likelihood.infer.evidence`) may act on what predicts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from unbin._typing import BoolArray, FloatArray
from unbin._watching import Status
from unbin.categories.inference import Precision, context_test, precision_of, score_variance
from unbin.categories.problem import CategoryProblem, Prior
from unbin.categories.scores import Sums
from unbin.categories.solver import Root, solve
from unbin.likelihood.infer.evidence import evidence_ridge
from unbin.likelihood.infer.specification import Test

_LEVEL_SD = 0.7
"""Prior standard deviation of the logits of a group around the pooled ones; estimated from the
counts it runs to 3 and ruins cells that hardly anybody is in."""
_CONTEXT_RANGE = 0.01, 1.0
"""Of an estimated scale of contextual slopes; a larger one ruins votes."""
_PASSES = 50
"""Within so many a root without the ridge is found from that with it, or not at all."""
_TOLD = 1e-8
"""Variance of a direction, as a share of the largest, below which it is rounding."""


@dataclass(frozen=True, slots=True)
class CategoryFit:
    """A fit, in the units of the design.

    Attributes
    ----------
    problem : CategoryProblem
    root : Root
        What is reported.
    predicts : Root
        What predicts: the same, unless the evidence ridge acts.
    precision : Precision
        Of the reported contrasts.
    alpha : float
        The ridge that acts on standardised slopes, per person.
    context : Test or None
        That block means of the features have no effect of their own.
    effects : bool
        Whether there are random effects.
    """

    problem: CategoryProblem
    root: Root
    predicts: Root
    precision: Precision
    alpha: float
    context: Test | None
    effects: bool


def fit_categories(
    problem: CategoryProblem,
    *,
    alpha: float | str | None,
    context_sd: float | None = 0.0,
    means: FloatArray | None = None,
    effects: bool = True,
    tol: float,
    max_iter: int,
) -> CategoryFit:
    """Fit the multinomial logit of published counts.

    Parameters
    ----------
    alpha : float, None or "auto"
        Ridge; as for ``AggregatedGLM``.
    context_sd : float or None
        z, prior standard deviation of contextual slopes; None where it is estimated.
    means : (B, Q), optional
        Block means of the features, for the test of contextual effects.
    effects : bool
        Whether to look for random effects; none where no block has a table.
    """
    grouped = problem.groups.n > 1
    effects = effects and bool(problem.counts.known.any())
    solved = partial(solve, problem, effects=effects, tol=tol, max_iter=max_iter)
    start, slopes = problem.start(), _ridged(problem)
    if context_sd is None:
        wide = solved(start, make_prior(problem, _CONTEXT_RANGE[1]))
        context_sd = context_scale(problem, wide)
    prior = make_prior(problem, context_sd)
    n_people = max(problem.design.n_people, 1)
    if problem.known is not None and problem.known.design is not problem.design:
        n_people += problem.known.design.n_people
    if isinstance(alpha, int | float):
        ridge = np.zeros(problem.n_columns)
        ridge[: problem.design.n_parameters] = n_people * problem.design.ridge(float(alpha))
        root = solved(start, prior.with_ridge(ridge * slopes))
        predicts, used = root, float(alpha)
    elif slopes.any():
        predicts = solved(start, prior, tuned=partial(_evidence, prior, slopes))
        used = float((predicts.prior.precision - prior.precision)[slopes, slopes][0]) / n_people
        root = _unpenalised(solved, predicts, prior)
        if alpha is None and root.status is Status.CONVERGED and not _weak(root, slopes):
            predicts, used = root, 0.0
    else:
        root = solved(start, prior)
        predicts, used = root, 0.0
    tested = None
    if means is not None and effects:
        tested = context_test(problem, root, means)
    precision = precision_of(problem, root, bayesian=grouped)
    return CategoryFit(problem, root, predicts, precision, used, tested, effects)


def make_prior(problem: CategoryProblem, context_sd: float) -> Prior:
    """Return the weak prior of the levels of groups and of contextual slopes."""
    p, groups = problem.design.n_parameters, problem.groups
    precision = np.zeros((problem.n_columns, problem.n_columns))
    if groups.n > 1:
        level = group_columns(problem)
        precision[:p, :p] = level.T @ level / _LEVEL_SD**2
    if problem.context is not None:
        rest = np.arange(p, problem.n_columns)
        precision[rest, rest] = 1 / max(context_sd, 1e-8) ** 2
    return Prior(precision, problem.start())


def group_columns(problem: CategoryProblem) -> FloatArray:
    """Return the columns of a person of each group, all other features at their means, (G, p)."""
    design, groups = problem.design, problem.groups
    first = int(design.fit_intercept)
    found = np.zeros((groups.n, design.n_parameters))
    found[:, :first] = 1.0
    for f, columns in enumerate(groups.columns):
        level = groups.levels()[:, f]
        for place, j in enumerate(columns, 1):
            found[:, first + j] = ((level == place) - design.center[j]) / design.scale[j]
    return found


def _ridged(problem: CategoryProblem) -> BoolArray:
    """Mark the columns that a ridge acts on: slopes, but for those of groups, (P,)."""
    design, marked = problem.design, np.zeros(problem.n_columns, dtype=bool)
    first = int(design.fit_intercept)
    marked[first : design.n_parameters] = design.varies
    for columns in problem.groups.columns:
        marked[first + columns] = False
    return marked


def context_scale(problem: CategoryProblem, root: Root) -> float:
    """Return the scale of contextual slopes, from a fit with a wide prior of theirs.

    With B = (J + prior)⁻¹ the slopes are A times the true ones, A = B J, and what the counts do to
    them, of variance S = B M B (:func:`score_variance`). Their squared length in units of S is
    z² tr(S⁻¹ A Aᵀ) + rank in expectation.
    """
    p, (size, n_columns) = problem.design.n_parameters, root.gamma.shape
    which = np.tile(np.arange(n_columns) >= p, size)
    inverse = root.covariance()
    spread = (inverse @ score_variance(problem, root) @ inverse)[np.ix_(which, which)]
    share = (inverse @ root.sums.information)[np.ix_(which, which)]
    values, vectors = np.linalg.eigh(spread)
    told = values > _TOLD * values[-1]
    white = (vectors[:, told] / np.sqrt(values[told])).T
    square = float(np.sum((white @ root.gamma.ravel()[which]) ** 2))
    variance = (square - int(told.sum())) / max(float(np.sum((white @ share) ** 2)), 1e-300)
    return float(np.clip(np.sqrt(max(variance, 0.0)), *_CONTEXT_RANGE))


def _evidence(prior: Prior, slopes: BoolArray, sums: Sums, gamma: FloatArray) -> Prior:
    """Return the prior with the ridge that makes the counts most likely."""
    size = len(gamma)
    free, marked = gamma.ravel(), np.tile(slopes, size)
    held = prior.of_all()
    score = sums.score + prior.pull(gamma).ravel()
    tables = (sums.first, *sums.others)
    df = float(sum(table.df.sum() for table in tables)) - len(free)
    misfit = float(sum(table.misfit.sum() for table in tables))
    phi = max(1.0, misfit / df) if df > 0 else 1.0
    found = evidence_ridge(sums.information + held, score, free, marked, phi)
    return prior if found is None else prior.with_ridge(np.where(slopes, found.size, 0.0))


def _weak(root: Root, slopes: BoolArray) -> bool:
    """Tell whether an evidence ridge would matter for some combination of the slopes."""
    size = len(root.gamma)
    held = root.prior.of_all()
    score = root.sums.score + root.prior.pull(root.gamma).ravel()
    found = evidence_ridge(
        root.sums.information + held, score, root.gamma.ravel(), np.tile(slopes, size), 1.0
    )
    return found is None or found.weak


def _unpenalised(solved: partial[Root], shrunk: Root, prior: Prior) -> Root:
    """Solve without the ridge, from the root with it; one step from there where that fails."""
    patience = min(solved.keywords["max_iter"], _PASSES)
    root = solved(shrunk.gamma, prior, variance=shrunk.variance, max_iter=patience)
    if root.status is not Status.NOT_CONVERGED:
        return root
    plain = replace(shrunk, prior=prior)
    slope = shrunk.sums.score + prior.pull(shrunk.gamma).ravel()
    step = (plain.covariance() @ slope).reshape(shrunk.gamma.shape)
    return replace(plain, gamma=shrunk.gamma + step, status=Status.NOT_CONVERGED)
