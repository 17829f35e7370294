"""A fit of categories in the units of X: laid out, fitted, judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unbin._typing import BoolArray, FloatArray, IntArray, TextArray
from unbin._watching import Status
from unbin.categories.cells import Cells, cells_of, together
from unbin.categories.fit import CategoryFit, fit_categories
from unbin.categories.problem import (
    CategoryProblem,
    KnownCategories,
    contrasts,
    make_problem,
    observed_problem,
)
from unbin.categories.softmax import Groups, probabilities
from unbin.categories.verdicts import judge
from unbin.exceptions import EngineError, ParameterError
from unbin.fitting.clusters import check_nested
from unbin.fitting.methods import inside
from unbin.fitting.model import ClusterFit, Clusters
from unbin.fitting.published import Published
from unbin.likelihood.infer.diagnostics import Diagnostics
from unbin.likelihood.infer.estimate import Errors, goodness
from unbin.release import Release
from unbin.release.join import Tables
from unbin.release.words import plural
from unbin.rows.contextual import Context
from unbin.rows.design import Design, lay_out
from unbin.rows.engines import Everybody, Layout
from unbin.rows.merging import merge_rows

SENSITIVITY = (0.0, 0.25, 0.5)
"""Scales of contextual slopes at which cells of groups are shown."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A categorical feature whose levels random effects follow.

    Attributes
    ----------
    name : str
    levels : tuple of str
        The first is that of which no column is 1.
    columns : (m,)
        The columns of X that mark the others.
    """

    name: str
    levels: tuple[str, ...]
    columns: IntArray


@dataclass(frozen=True, slots=True)
class CategorySettings:
    """The classifier's parameters that fits read, checked."""

    alpha: float | str | None
    contextual: float | None
    layout: Layout
    factors: tuple[Factor, ...]
    possible: BoolArray | None
    tol: float
    max_iter: int
    clusters: tuple[Clusters, ...] = ()


@dataclass(frozen=True, slots=True)
class CategoryModel:
    """A fit of K categories in the units of X.

    Attributes
    ----------
    classes : tuple of str
    coef : (K, d)
        Slopes of every category; they sum to 0 over categories.
    intercept : (K,)
    covariance : (K (1 + d), K (1 + d))
        Of intercept and slopes, category by category.
    df_residual : float
    errors : Errors
    predicting : (coef, intercept)
        What predicts.
    alpha : float
    effect_sd : (G,)
        Of random effects on a logit, by group.
    factors : tuple of Factor
    shift : (B, G, K) or None
        What contextual slopes add to the predictors of people in each block.
    blocks : (B,) text
        Of the first table.
    cells : Cells or None
        People by block, group and category, where effects follow groups.
    context_sd : float
        The scale z of contextual slopes, as given or as estimated.
    totals : Cells or None
        The same of all blocks together.
    sensitivity : dict of float to (G, K)
        Cells of everybody at several scales of contextual slopes.
    diagnostics : Diagnostics
    status : Status
    n_iter, n_people, n_rows, n_blocks : int
    counts : Published or None
        Of the first table, beside those expected; None for observed people. The ends of the bins
        are the places of the categories.
    log_score : float
    by_clusters : ClusterFit or None
        The larger blocks by which errors are; None where they are by block.
    """

    classes: tuple[str, ...]
    coef: FloatArray
    intercept: FloatArray
    covariance: FloatArray
    df_residual: float
    errors: Errors
    predicting: tuple[FloatArray, FloatArray]
    alpha: float
    effect_sd: FloatArray
    factors: tuple[Factor, ...]
    shift: FloatArray | None
    blocks: TextArray
    cells: Cells | None
    context_sd: float
    totals: Cells | None
    sensitivity: dict[float, FloatArray]
    diagnostics: Diagnostics
    status: Status
    n_iter: int
    n_people: int
    n_rows: int
    n_blocks: int
    counts: Published | None
    log_score: float
    by_clusters: ClusterFit | None = None

    def without_cells(self) -> CategoryModel:
        """Return the model without the cells of single blocks."""
        return replace(self, cells=None)

    def without_counts(self) -> CategoryModel:
        """Return the model without the counts of blocks, and the cells that would tell them."""
        return replace(self, counts=None, cells=None)

    def eta(self, X: FloatArray, block: IntArray | None = None) -> FloatArray:
        """Return the predictors of people, (n, K); ``block`` -1 where it is not known."""
        coef, intercept = self.predicting
        eta = X @ coef.T + intercept
        if block is not None and self.shift is not None:
            known = block >= 0
            eta[known] += self.shift[block[known], group_codes(self.factors, X[known])]
        return np.asarray(eta)

    def probabilities(self, X: FloatArray, block: IntArray | None = None) -> FloatArray:
        """Return the chance of each category, (n, K)."""
        return probabilities(self.eta(X, block))


def group_codes(factors: Sequence[Factor], X: FloatArray) -> IntArray:
    """Return the group of each row of X."""
    halves = np.full(X.shape[1], 0.5)
    return Groups(tuple(factor.columns for factor in factors), halves).codes(X)


def group_labels(factors: Sequence[Factor]) -> list[tuple[str, ...]]:
    """Return the levels of all factors in each group."""
    found: list[tuple[str, ...]] = [()]
    for factor in factors:
        found = [(*label, level) for label in found for level in factor.levels]
    return found


# -- fitting ---------------------------------------------------------------------------------------


def fit_tables(
    people: Everybody, release: Release | Tables, settings: CategorySettings
) -> CategoryModel:
    """Fit the multinomial logit to published tables."""
    releases = release.releases if isinstance(release, Tables) else (release,)
    people, cluster = _clustered(people, releases, release, settings.clusters)
    laid_out = people.design(settings.layout)
    if laid_out.sampled:
        raise EngineError(
            "weighting: 'survey' is for outcomes that are numbers or two categories, got "
            f"{len(releases[0].categories)} categories; use weighting='frequency'"
        )
    design, context = merge_rows(laid_out), people.context()
    groups = _groups(settings.factors, design, context)
    known = _known(people, release, laid_out)
    problem = make_problem(design, releases, groups, possible=settings.possible, known=known)
    problem = replace(problem, cluster=cluster)
    scales = _scales(settings, several=len(releases) > 1 or known is not None)
    means = _context_columns(design, context, settings.factors)
    found: dict[float | None, CategoryFit] = {}
    for scale in scales:
        none = scale == 0
        found[scale] = fit_categories(
            replace(problem, context=None if none else means),
            alpha=settings.alpha,
            context_sd=scale,
            means=means if none and not settings.factors else None,
            tol=settings.tol,
            max_iter=settings.max_iter,
        )
    fit = found[settings.contextual]
    cells = {scale: _cells(each) for scale, each in found.items()} if settings.factors else {}
    totals = {z: each.count.sum(axis=0) for z, each in cells.items() if z is not None}
    own = cells.get(settings.contextual)
    model = in_units(fit, releases[0].categories, settings.factors, releases[0].blocks)
    return replace(
        model,
        counts=_published(fit, releases[0], less_known=_less_known(release)),
        cells=own,
        totals=None if own is None else together(own),
        sensitivity=totals if len(totals) > 1 else {},
        shift=_shift(fit),
        by_clusters=None
        if cluster is None
        else ClusterFit(settings.clusters[0].name, len(settings.clusters[0].ids), 0.0),
    )


def _clustered(
    people: Everybody,
    releases: Sequence[Release],
    release: Release | Tables,
    clusters: Sequence[Clusters],
) -> tuple[Everybody, IntArray | None]:
    """Return people by block, and the cluster of each block; None without clusters."""
    if not clusters:
        return people, None
    if isinstance(release, Tables) or len(clusters) > 1:
        raise ParameterError(
            "cluster: takes one column beside one table of more than two categories, got several "
            "columns, tables, or people whose category is known; leave it out"
        )
    people, codes = people.crossed()
    check_nested(("",), releases, codes[:1], clusters, codes[1:], whole=True)
    return people, codes[1]


def fit_labels(
    X: FloatArray,
    y: IntArray,
    classes: Sequence[str],
    weights: FloatArray | None,
    settings: CategorySettings,
    n_threads: int,
) -> CategoryModel:
    """Fit the ordinary multinomial logit to people whose category was observed."""
    alone = np.arange(len(X))
    design = lay_out(
        X,
        alone,
        len(X),
        weights=weights,
        fit_intercept=settings.layout.fit_intercept,
        n_threads=n_threads,
    )
    problem = observed_problem(design, y, len(classes))
    alpha = settings.alpha if isinstance(settings.alpha, int | float) else 0.0
    fit = fit_categories(
        problem, alpha=alpha, effects=False, tol=settings.tol, max_iter=settings.max_iter
    )
    return in_units(fit, tuple(classes), (), np.zeros(0, dtype=str))


def _groups(factors: Sequence[Factor], design: Design, context: Context) -> Groups:
    if not factors:
        return Groups()
    marks = _are_marks(design, context) | ~design.varies
    for factor in factors:
        if not marks[factor.columns].all():
            raise ParameterError(
                f"random: {factor.name!r} must be levels, text or columns of zeros and ones, got "
                "other numbers; cut them into levels"
            )
    return Groups(tuple(factor.columns for factor in factors), (0.5 - design.center) / design.scale)


def _are_marks(design: Design, context: Context) -> BoolArray:
    """Mark columns of zeros and ones: they are as large as their squares."""
    square = design.scale**2 + design.center**2
    low, high = (end * design.scale + design.center for end in design.ends)
    inside = (low > -1e-6) & (high < 1 + 1e-6)
    return np.asarray(inside & np.isclose(square, context.average, rtol=1e-6, atol=0))


def _known(people: Everybody, release: Release | Tables, design: Design) -> KnownCategories | None:
    """Return the people whose category is known."""
    if not isinstance(release, Tables) or release.known is None:
        return None
    told = release.known
    rows = people.known(design, told.people, None)
    block = inside(release.releases[0], told.codes[0])
    return KnownCategories(rows, told.values.astype(np.int64), block)


def _scales(settings: CategorySettings, *, several: bool) -> tuple[float | None, ...]:
    """Return the scales of contextual slopes to fit with; None where it is estimated."""
    asked = settings.contextual
    if asked is None and not several:
        raise ParameterError(
            "contextual: one table alone cannot tell contextual slopes, got 'auto'; join a second "
            "table or people whose category is known, or say how large they may be: 0, .25 or .5"
        )
    if asked is None or several or not settings.factors:
        return (asked,)
    return tuple(sorted({*SENSITIVITY, asked}))


def _context_columns(design: Design, context: Context, factors: Sequence[Factor]) -> FloatArray:
    """Return block means of the features less those of everybody, on the scale of a share.

    Of a categorical feature that effects follow the shares of all its levels; numbers are divided
    by twice their standard deviation, so that a slope is as large as that of a share.
    """
    means = context.means - context.average
    of_factors = [factor.columns for factor in factors]
    rest = np.setdiff1d(np.arange(means.shape[1]), np.concatenate([np.zeros(0, int), *of_factors]))
    binary = _are_marks(design, context)[rest]
    others = means[:, rest] / np.where(binary, 1.0, 2 * design.scale[rest])
    levels = [np.column_stack([-means[:, j].sum(axis=1), means[:, j]]) for j in of_factors]
    found = np.column_stack([*levels, others])
    return np.asarray(found[:, np.ptp(found, axis=0) > 0])


def _less_known(release: Release | Tables) -> bool:
    """Tell whether people whose category is known were taken out of the counts."""
    known = release.known if isinstance(release, Tables) else None
    return known is not None and not known.disjoint


def _published(fit: CategoryFit, release: Release, *, less_known: bool) -> Published | None:
    """Return the counts of the first table beside those expected; None where there are none."""
    counts, first = fit.problem.counts, fit.root.sums.first
    known, valid = counts.known, counts.valid()
    if not known.any():
        return None
    place = np.where(valid, counts.lower, np.nan)[known]
    return Published(
        blocks=release.blocks[known],
        n=counts.n[known],
        lower=place,
        upper=place,
        count=np.where(valid, counts.count, 0.0)[known],
        low=None if counts.low is None else counts.low[known],
        high=None if counts.high is None else counts.high[known],
        expected=np.where(valid, first.mean.sum(axis=1), 0.0)[known],
        misfit=first.misfit[known],
        df=first.df[known],
        residual=np.full(int(known.sum()), np.nan),
        whole=True,
        public=release.public,
        less_known=less_known,
    )


def _cells(fit: CategoryFit) -> Cells:
    return cells_of(fit.problem, fit.root, fit.precision.covariance)


def _context_sd(fit: CategoryFit) -> float:
    if fit.problem.context is None:
        return 0.0
    return float(fit.root.prior.precision[-1, -1] ** -0.5)


def _shift(fit: CategoryFit) -> FloatArray | None:
    if fit.problem.context is None:
        return None
    shift = fit.problem.law(fit.predicts.gamma).shift
    return np.where(np.isfinite(shift), shift, 0.0)


# -- in the units of X -----------------------------------------------------------------------------


def in_units(
    fit: CategoryFit, classes: Sequence[str], factors: tuple[Factor, ...], blocks: TextArray
) -> CategoryModel:
    """Bring a fit to the units of X, and judge it."""
    problem, design, root = fit.problem, fit.problem.design, fit.root
    counts, first = problem.counts, root.sums.first
    verdict = judge(fit)
    lost = np.array([each == "not estimable" for each in verdict.coefficients])
    coef, intercept = _coefficients(design, problem, root.gamma)
    tables = (first, *root.sums.others)
    misfit = np.concatenate([table.misfit for table in tables])
    df = np.concatenate([table.df for table in tables])
    quality = goodness(misfit, df, float(df.sum()) - root.gamma.size) if len(misfit) else None
    converged = root.status.converged
    reasons = tuple(filter(None, [verdict.why, *verdict.reasons]))
    n_blocks = int(counts.known.sum())
    told = plural(n_blocks, "block") if n_blocks else "every category was observed"
    names = [f"feature {j} in {each}" for each in classes for j in range(len(design.scale))]
    expected = first.mean.sum(axis=1)
    return CategoryModel(
        classes=tuple(classes),
        coef=coef,
        intercept=intercept,
        covariance=_covariance(design, problem, fit.precision.covariance, lost),
        df_residual=fit.precision.df,
        errors=fit.precision.errors,
        predicting=_coefficients(design, problem, fit.predicts.gamma),
        alpha=fit.alpha,
        effect_sd=np.sqrt(root.variance) * fit.effects,
        factors=factors,
        shift=None,
        blocks=blocks,
        cells=None,
        context_sd=_context_sd(fit),
        totals=None,
        sensitivity={},
        diagnostics=Diagnostics(
            identified=not verdict.why,
            reason=verdict.summed_up(told, names, "slope"),
            trusted=converged and not reasons,
            reasons=reasons,
            verdicts=verdict.coefficients,
            precision=verdict.precision,
            context=fit.context,
            goodness_of_fit=quality,
            block_sd=float(np.sqrt(root.variance.max(initial=0.0))) if fit.effects else 0.0,
        ),
        status=root.status,
        n_iter=root.n_iter,
        n_people=design.n_people,
        n_rows=design.n_rows,
        n_blocks=int(counts.known.sum()),
        counts=None,
        log_score=counts.log_score(expected)
        if len(expected)
        else -root.sums.deviance / (2 * max(design.n_people, 1)),
    )


def _coefficients(
    design: Design, problem: CategoryProblem, gamma: FloatArray
) -> tuple[FloatArray, FloatArray]:
    theta = (contrasts(problem.n_categories) @ gamma)[:, : design.n_parameters]
    found = [design.to_coefficients(each) for each in theta]
    return np.array([coef for coef, _ in found]), np.array([level for _, level in found])


def _covariance(
    design: Design, problem: CategoryProblem, covariance: FloatArray, lost: BoolArray
) -> FloatArray:
    """Return the covariance of intercept and slopes of all categories, NaN of those lost."""
    p, d, first = design.n_parameters, len(design.scale), int(design.fit_intercept)
    jacobian = np.zeros((1 + d, problem.n_columns))
    jacobian[1:, first:p] = np.diag(1 / design.scale)
    if first:
        jacobian[0, 0] = 1.0
        jacobian[0, 1:p] = -design.center / design.scale
    whole = np.kron(contrasts(problem.n_categories), jacobian)
    found = whole @ covariance @ whole.T
    unknown = np.zeros((problem.n_categories, 1 + d), dtype=bool)
    unknown[:, 1:] = lost.reshape(problem.n_categories, d)
    unknown[:, 0] = (unknown[:, 1:] & design.varies).any(axis=1)
    found[unknown.ravel(), :] = found[:, unknown.ravel()] = np.nan
    return np.asarray(found)
