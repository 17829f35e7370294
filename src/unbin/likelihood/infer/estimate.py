"""What a likelihood fit returns, and its uncertainty: covariance, goodness of fit, Wald tests.

The covariance is the *sandwich* CR3, robust and clustered by group, where there are enough groups,
and model-based otherwise; intervals are of Student's t with as many degrees of freedom as groups
less slopes and the intercept. Larger blocks that were given, clusters, take the place of groups:
what one of them contributes is a sum over its groups, and the degrees of freedom are one less than
clusters. What tables that cross the groups say beyond them adds its variance by the model: groups
have no part in it of their own. Where tables stand beside the groups, or other partitions have
random intercepts, the variance is the model's.

References
----------
Bell, R. M. and McCaffrey, D. F. (2002). Bias reduction in standard errors for linear regression
with multi-stage samples. *Survey Methodology*, 28, 169-181.

Liang, K.-Y. and Zeger, S. L. (1986). Longitudinal data analysis using generalized linear models.
*Biometrika*, 73, 13-22.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.special import chdtrc

from unbin._compiling import njit
from unbin._linalg import inverse_form, largest, solve_scaled
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin._watching import Equation, Status
from unbin.families import Units
from unbin.likelihood.data.counts import PublishedCounts
from unbin.likelihood.data.grid import shared_cuts
from unbin.likelihood.data.layout import Plan, Stack
from unbin.likelihood.data.problem import Problem
from unbin.likelihood.data.tables import PublishedOrder, bins_between
from unbin.likelihood.infer.heldout import count_sums
from unbin.likelihood.infer.levels import locate
from unbin.likelihood.infer.people import score_variance
from unbin.likelihood.infer.specification import Specification, Test, specify, testable
from unbin.likelihood.model.moments import (
    CellSums,
    Folds,
    expected_statistics,
    map_cells,
    units_of,
)
from unbin.likelihood.model.order import shares_below
from unbin.likelihood.model.score import (
    KnownSums,
    PartSums,
    ScoreSums,
    clusters,
    crossing,
    evidence,
    leading,
    part_sums,
    score_sums,
    summed,
)
from unbin.likelihood.model.weighing import score_blocks
from unbin.likelihood.solve.composite import composite_sums
from unbin.likelihood.solve.effects import (
    average_effect,
    effects_misfit,
    level_residuals,
    misfit_beside_effects,
)
from unbin.likelihood.solve.scoring import ScoringResult
from unbin.likelihood.thresholds import LEAST_ERROR, MOST_LEVERAGE, SUPPORTED
from unbin.release import Release
from unbin.release.units import out_of_units


class Errors(Enum):
    """What standard errors are of; the value is what the user reads."""

    CR3 = "sandwich by block (CR3)"
    CR1 = "sandwich by block (CR1)"
    BORDER = "sandwich by block (CR3), of tables that cross the blocks model-based"
    MODEL = "model-based"
    SCALED = "model-based, times Q/df"
    POSTERIOR = "posterior, with weak priors of the levels"


@dataclass(frozen=True, slots=True)
class FittedTable:
    """What a fit says of one table, of B blocks.

    Attributes
    ----------
    counts : PublishedCounts
        The counts as fitted, far bins merged.
    expected : (B, K)
        Expected counts.
    means, expected_means : (B,) or None
        Published means as fitted, NaN where there is none, and expected ones.
    quantiles : PublishedOrder or None
        Published order statistics that were fitted.
    expected_shares : (B, J) or None
        The share of each block expected at or below each of them.
    block_misfit, block_df : (B,)
        The contribution of each block to the misfit of the table, and its expectation.
    block_residual : (B,)
        How far the level of each block lies from its expectation, in standard deviations.
    block_sd : float
        Standard deviation of the random intercept of its blocks; 0 if none shows.
    n_blocks : int
        Blocks with information.
    influence : (B, len(theta)) or None
        How far leaving a block out would move each parameter, to first order, in standard errors.
    share : (d,)
        Its share in the information on each slope.
    """

    counts: PublishedCounts
    expected: FloatArray
    means: FloatArray | None
    expected_means: FloatArray | None
    quantiles: PublishedOrder | None
    expected_shares: FloatArray | None
    block_misfit: FloatArray
    block_df: FloatArray
    block_residual: FloatArray
    block_sd: float
    n_blocks: int
    influence: FloatArray | None
    share: FloatArray

    def out_of_units(self, units: Units, release: Release) -> FittedTable:
        """Return the same in the units of the target."""
        counts, order = self.counts, self.quantiles
        lower, upper = out_of_units(np.stack([counts.lower, counts.upper]), units, release)
        return replace(
            self,
            counts=replace(counts, lower=lower, upper=upper),
            block_sd=self.block_sd * units.slope,
            means=None if self.means is None else units.out(self.means),
            expected_means=None if self.expected_means is None else units.out(self.expected_means),
            quantiles=None if order is None else replace(order, value=units.out(order.value)),
        )


@dataclass(frozen=True, slots=True)
class LikelihoodFit:
    """Estimate, uncertainty and misfit. p = len(theta) + len(nuisance).

    Attributes
    ----------
    theta : (design.n_parameters,)
        Intercept (if any) and slopes, for ``Design.to_coefficients``.
    nuisance : (m,)
        In the order of the family's ``nuisance_names``; the thresholds of an ordinal family.
    covariance : (p, p)
        Of (theta, nuisance).
    information : (p, p)
        J, without the ridge.
    model_covariance : (p, p)
        J⁻¹: the covariance if the model is right, without a ridge.
    goodness : GoodnessOfFit
        Misfit of everything that was published. Random intercepts are allowed for where there are
        several tables.
    log_score : float
        The predictive log score Σ c log(m / n) per person: the larger the better, comparable across
        families.
    status : Status
    equation : Equation
        What was solved.
    n_iter : int
        Passes over the rows by scoring.
    path : tuple of float
        UᵀJ⁻¹U at each step.
    counts : PublishedCounts
        Of a single table, its counts; of several those expected of everybody, in the bins of all.
    block_sd : float
        Standard deviation of the random intercepts of a person together; 0 if none shows.
    block_average : float
        That intercept for the average person; 0 where large blocks do not differ from small ones.
    n_blocks : int
        Groups with information.
    clusters : FittedClusters or None
        The larger blocks that were given.
    tables : tuple of FittedTable
    known : (p, p) or None
        The information of people whose outcome is known.
    known_share : (d,) or None
        Their share in the information on each slope.
    df_residual : float
        Degrees of freedom of intervals; infinite where errors are the model's.
    errors : Errors
        What the covariance is.
    specification : Specification or None
        Tests of the specification; None where there is nothing to test.
    context : Test or None
        That contextual effects, which were fitted, are 0.
    unclear : (d,) or None
        Slopes whose sign a contextual fit does not tell: another root is about as likely.
    location : LocationFit or None
        The root of the location score beside the full one.
    levels : str
        Why theta is that root, as the end of a sentence; empty where it is the full one.
    shrunk : ShrunkFit or None
        What predicts, where the evidence ridge acts; theta and its errors are unpenalised.
    unpenalised : LikelihoodFit or None
        The fit without the ridge of a given size: the one that is tested.
    """

    theta: FloatArray
    nuisance: FloatArray
    covariance: FloatArray
    information: FloatArray
    model_covariance: FloatArray
    goodness: GoodnessOfFit
    log_score: float
    status: Status
    equation: Equation
    n_iter: int
    path: tuple[float, ...]
    counts: PublishedCounts
    block_sd: float
    block_average: float
    n_blocks: int
    tables: tuple[FittedTable, ...]
    clusters: FittedClusters | None = None
    known: FloatArray | None = None
    known_share: FloatArray | None = None
    df_residual: float = float("inf")
    errors: Errors = Errors.MODEL
    specification: Specification | None = None
    context: Test | None = None
    unclear: BoolArray | None = None
    location: LocationFit | None = None
    levels: str = ""
    shrunk: ShrunkFit | None = None
    unpenalised: LikelihoodFit | None = None

    @property
    def tested(self) -> LikelihoodFit:
        """The fit whose specification is tested: the one without a ridge."""
        return self.unpenalised or self

    @property
    def first(self) -> FittedTable:
        """The first table."""
        return self.tables[0]

    @property
    def alone(self) -> bool:
        """Whether one table is all there is."""
        return len(self.tables) == 1 and self.known is None

    def told(self) -> BoolArray:
        """Mark the parameters that the release identifies, shape (p,)."""
        return (np.diag(self.model_covariance) > 0) & (self.status is not Status.POOLED)

    def out_of_units(
        self, units: Units, releases: Sequence[Release], *, fit_intercept: bool
    ) -> LikelihoodFit:
        """Return the fit in the units of the target, of whose releases it is."""
        counts, location, shrunk = self.counts, self.location, self.shrunk
        bare = self.unpenalised
        ends = np.stack([counts.lower, counts.upper])
        lower, upper = out_of_units(ends, units, releases if len(releases) > 1 else releases[0])
        factor = np.ones(len(self.theta) + len(self.nuisance))
        factor[: len(self.theta)] = units.slope
        square = np.outer(factor, factor)
        pairs = zip(self.tables, releases, strict=True)

        def theta_out(theta: FloatArray) -> FloatArray:
            return units.theta_out(theta, fit_intercept=fit_intercept)

        if location is not None:
            location = LocationFit(theta_out(location.theta), location.covariance * square)
        if shrunk is not None:
            shrunk = replace(
                shrunk,
                theta=theta_out(shrunk.theta),
                nuisance=units.nuisance_out(shrunk.nuisance),
                alpha=shrunk.alpha / units.slope**2,
            )
        return replace(
            self,
            theta=theta_out(self.theta),
            nuisance=units.nuisance_out(self.nuisance),
            covariance=self.covariance * square,
            information=self.information / square,
            model_covariance=self.model_covariance * square,
            known=None if self.known is None else self.known / square,
            counts=replace(counts, lower=lower, upper=upper),
            block_sd=self.block_sd * units.slope,
            block_average=self.block_average * units.slope,
            clusters=self.clusters and self.clusters.out_of_units(units),
            tables=tuple(table.out_of_units(units, release) for table, release in pairs),
            location=location,
            shrunk=shrunk,
            unpenalised=bare and bare.out_of_units(units, releases, fit_intercept=fit_intercept),
        )

    def without_influence(self) -> LikelihoodFit:
        """Return the fit without what it is judged by: a row per block and parameter, above all."""
        tables = tuple(replace(table, influence=None) for table in self.tables)
        return replace(self, tables=tables, unpenalised=None)

    def for_prediction(self) -> LikelihoodFit:
        """Return the fit with the parameters that predict: shrunk ones where the ridge acts."""
        if self.shrunk is None:
            return self
        return replace(self, theta=self.shrunk.theta, nuisance=self.shrunk.nuisance)


@dataclass(frozen=True, slots=True)
class FittedClusters:
    """What a fit says of the larger blocks that were given, S partitions.

    Attributes
    ----------
    by : int or None
        The partition by which the sandwich is; None where that is by block.
    n : int
        Its blocks with information.
    sd : (S,)
        Standard deviation of the random intercept of the blocks of each; 0 where none shows.
    """

    by: int | None
    n: int
    sd: tuple[float, ...]

    @classmethod
    def of(cls, problem: Problem, n: int) -> FittedClusters | None:
        """Return those of a problem; None without any."""
        if problem.clusters is None:
            return None
        first, size = len(problem.tables), len(problem.clusters)
        variance = problem.further[first:] or (0.0,) * size
        by = None if problem.largest is None else problem.largest - first
        return cls(by, n, tuple(np.sqrt(variance).tolist()))

    def out_of_units(self, units: Units) -> FittedClusters:
        """Return the same in the units of the target."""
        return replace(self, sd=tuple(sd * units.slope for sd in self.sd))


@dataclass(frozen=True, slots=True)
class LocationFit:
    """The root of the location score: theta as in ``Design``, and its covariance with nuisance."""

    theta: FloatArray
    covariance: FloatArray


@dataclass(frozen=True, slots=True)
class ShrunkFit:
    """What predicts where it is not theta: where the evidence ridge acts.

    Attributes
    ----------
    theta, nuisance
        As in ``LikelihoodFit``.
    alpha : float
        Of the standardised slopes: mean loss + alpha/2 Σ (sd of feature × slope)²; infinite where
        no slope is left.
    why : str
        Why it acts, as the end of a sentence.
    lost : (d,) bool
        Features whose slopes the plain fit could not estimate.
    lost_why : str
        Why not, in a sentence; empty where all could be estimated.
    reasons : tuple of str
        Why the plain fit is not to be trusted.
    """

    theta: FloatArray
    nuisance: FloatArray
    alpha: float
    why: str
    lost: BoolArray
    lost_why: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WaldTest:
    """A chi-square test of linear hypotheses."""

    statistic: float
    df: int
    p_value: float


@dataclass(frozen=True, slots=True)
class GoodnessOfFit:
    """The misfit Q, a generalised Pearson statistic, against its expectation.

    Attributes
    ----------
    ratio : float
        Q/df: 1 when the model fits, larger when blocks differ by more than the model says.
    p_value : float
        From a scaled chi-square (as Satterthwaite's) whose variance is that of the blocks'
        contributions, so that sparse tables are not called misfits.
    """

    misfit: float
    df: float
    ratio: float
    p_value: float


def infer(
    problem: Problem,
    result: ScoringResult,
    penalty: FloatArray,
    *,
    n_features: int | None = None,
) -> LikelihoodFit:
    """Add the uncertainty, and turn free parameters into theta and nuisance parameters.

    Slopes after the first ``n_features`` are contextual.
    """
    free, sums, coordinates = result.free, result.sums, problem.coordinates
    if crossing(problem):  # what their intercepts do to errors and to the misfit
        sums = score_sums(problem, free, penalty, crossing(problem))
        result = replace(result, sums=sums)
    information, scores, found = sums.information, sums.block_scores, None
    if result.equation is Equation.COMPOSITE:
        composite = composite_sums(problem, free, penalty)
        information, scores = composite.information, composite.block_scores
    elif result.status is Status.CONVERGED and testable(problem):
        exact = scores if result.equation is Equation.EXACT else None
        found = specify(problem, free, information, penalty, n_features=n_features, exact=exact)
        scores = found.scores
    leveraged = found is not None and result.equation is not Equation.EXACT
    if not leveraged:
        scores = summed(scores, clusters(problem, len(scores)))
    misfit, expected = misfit_beside_effects(problem, sums)
    alive = np.diag(information) > 1e-10 * np.diag(information).max(initial=0.0)
    expected += problem.n_fitted - float(alive.sum())
    cov, df_residual, errors = covariance(
        problem,
        free,
        sums,
        information,
        penalty,
        scores,
        ratio=misfit / expected if expected > 0 else 1.0,
        leveraged=leveraged,
        support=None if found is None else found.support,
    )
    jacobian, back = coordinates.jacobian(free), coordinates.inverse_jacobian(free)
    cov = jacobian @ cov @ jacobian.T
    bread = solve_scaled(information + np.diag(penalty), np.eye(len(free)))
    told = informed(scores)
    each = scores if leading(problem) is None else sums.block_scores
    fitted = _fitted_tables(problem, result, each, cov, bread @ jacobian.T, float(alive.sum()))
    described = _described(problem, result, *fitted)
    known = None if sums.known is None else back.T @ sums.known.information @ back
    return LikelihoodFit(
        **described,
        covariance=cov,
        information=back.T @ information @ back,
        model_covariance=jacobian @ solve_scaled(information, np.eye(len(free))) @ jacobian.T,
        status=result.status,
        equation=result.equation,
        n_iter=result.n_iter,
        path=result.path,
        block_sd=float(np.sqrt(problem.block_variance + sum(problem.further))),
        n_blocks=informed(each),
        clusters=FittedClusters.of(problem, told),
        known=known,
        known_share=None
        if known is None
        else np.asarray(1 - sum(t.share for t in described["tables"])),
        df_residual=df_residual,
        errors=errors,
        specification=found,
        location=None if found is None else location_fit(problem, free, found),
    )


# -- table by table --------------------------------------------------------------------------------


def _described(
    problem: Problem,
    result: ScoringResult,
    tables: tuple[FittedTable, ...],
    goodness: GoodnessOfFit,
    mean: FloatArray,
) -> dict[str, Any]:
    """Return the parameters at the root of ``result``, and what the fit says of all tables there.

    ``mean`` is Σ q of everybody.
    """
    theta, nuisance = problem.coordinates.split(result.free)
    return {
        "theta": theta,
        "nuisance": nuisance,
        "goodness": goodness,
        "log_score": _log_score(tables),
        "counts": _everybody(problem, tables, mean, theta, nuisance),
        "block_average": average_effect(result.sums, problem.block_variance, problem.group_people),
        "tables": tables,
    }


def _fitted_tables(
    problem: Problem,
    result: ScoringResult,
    scores: FloatArray,
    cov: FloatArray,
    bread: FloatArray,
    n_fitted: float,
) -> tuple[tuple[FittedTable, ...], GoodnessOfFit, FloatArray]:
    """Return what the fit says of each table, how well it fits all of them, and Σ q of everybody.

    ``scores`` (G, p) are those of groups, ``bread`` is J⁻¹ times the jacobian.
    """
    free, sums = result.free, result.sums
    # what is expected without looking at the groups themselves
    plain = problem.around(None)
    mean = sums.mean if problem.effects is None else expected_statistics(plain, free)
    n_theta = problem.coordinates.n_theta
    if problem.alone and problem.known is None:
        misfit, df = sums.block_misfit, sums.block_df
        residual = level_residuals(sums, problem.block_variance)
        moved = influence(scores @ bread, cov, n_theta)
        share = np.ones(len(problem.design.scale))
        own = _fitted(problem, free, 0, mean[0], misfit, df, residual, scores, moved, share)
        return (own,), goodness(misfit, df, float(df.sum()) - n_fitted), mean[0].sum(axis=0)
    parts, everybody = _apart(plain, free)
    held = [part.information for part in parts]
    shares = _shares(problem, held, sums.known, sums.information, bread)
    tables = []
    for t, part in enumerate(parts):
        residual = part.pull / np.sqrt(np.where(part.hold > 0, part.hold, 1.0))
        moved = influence(part.scores @ bread, cov, n_theta)
        each = part.misfit, part.df, residual, part.scores, moved, shares[t]
        tables.append(_fitted(problem, free, t, mean[t], *each))
    misfits = [sums.block_misfit - effects_misfit(sums, problem.block_variance)]
    expected = [sums.block_df]
    if sums.further is not None:
        misfits[0] -= sums.further.misfit() * sums.block_df / max(float(sums.block_df.sum()), 1.0)
    if sums.border is not None:
        misfits.append(np.array([sums.border.misfit]))
        expected.append(np.array([sums.border.df]))
    misfits += [parts[t].misfit for t in problem.plan.beside]
    expected += [parts[t].df for t in problem.plan.beside]
    misfit, df = np.concatenate(misfits), np.concatenate(expected)
    return tuple(tables), goodness(misfit, df, float(df.sum()) - n_fitted), everybody


def _fitted(
    problem: Problem,
    free: FloatArray,
    t: int,
    mean: FloatArray,
    misfit: FloatArray,
    df: FloatArray,
    residual: FloatArray,
    scores: FloatArray,
    moved: FloatArray,
    share: FloatArray,
) -> FittedTable:
    """Return what the fit says of table t, its statistics expected to be ``mean`` (B, L)."""
    table, n_bins = problem.tables[t], problem.tables[t].counts.n_bins
    expected = None
    if table.means is not None and problem.unit is not None:
        expected = mean[:, n_bins] * problem.unit / np.maximum(table.counts.n, 1)
    n = len(table.counts.n)
    variance = problem.further[t] if problem.further else 0.0
    if n == len(problem.group_people) and (problem.alone or problem.within_groups[t]):
        variance += problem.block_variance
    return FittedTable(
        counts=table.counts,
        expected=mean[:, :n_bins],
        means=table.means,
        expected_means=expected,
        quantiles=table.order,
        expected_shares=None if table.order is None else shares_below(problem, free, t),
        block_misfit=misfit,
        block_df=df,
        block_residual=residual,
        block_sd=float(np.sqrt(variance)),
        n_blocks=informed(scores),
        influence=moved,
        share=share,
    )


def _apart(problem: Problem, free: FloatArray) -> tuple[list[PartSums], FloatArray]:
    """Return what the blocks of each table say on their own, all random intercepts allowed for.

    Also Σ q of everybody.
    """
    every = tuple(range(len(problem.tables)))
    apart = problem.with_plan(Plan(problem.plan.core, (), every, problem.plan.group))
    partitions = [(problem.plan.group, problem.block_variance)]
    partitions += zip(problem.partitions, problem.further, strict=False)

    def of_cells(sums: CellSums) -> tuple[Any, ...]:
        units = tuple(units_of(apart, sums, 1 + t) for t in every)
        shared = []
        for stack, own in zip(apart.layout.beside, units, strict=True):
            shared.append(np.zeros_like(own.covariance))
            for codes, variance in partitions:
                if variance > 0:
                    _add_effects(apart, stack, sums, codes, variance, own.units, shared[-1])
        return units, shared, sums.mean.sum(axis=0), sums.values

    units, shared, mean, values = zip(*map_cells(apart, free, of_cells), strict=True)
    parts = []
    for t, stack in enumerate(apart.layout.beside):
        moments = reduce(add, (each[t] for each in units)).moments(apart, free, stack, 0)
        effects = np.zeros_like(moments.covariance)
        for each, own in zip(units, shared, strict=True):
            effects[each[t].units] += own[t]
        said = evidence(apart, moments, 1 + t, values=values[0], variance=0.0, effects=effects)
        arrays = said.derivative, said.shift, said.hidden, said.residual
        used = apart.stacked[1 + t].used
        scored = score_blocks(said.covariance + effects, *arrays, used)
        parts.append(part_sums(scored, said.spread))
    return parts, np.sum(mean, axis=0)


def _add_effects(
    problem: Problem,
    stack: Stack,
    sums: CellSums,
    codes: IntArray,
    variance: float,
    units: IntArray,
    total: FloatArray,
) -> None:
    """Add what random intercepts of some blocks contribute to the covariance of a stack's units.

    Those of the same block in several chunks of cells count as different ones, which is rare.
    """
    cells = sums.cells
    unit, code = np.searchsorted(units, stack.unit[cells]), codes[cells]
    pairs, place = np.unique(unit * (np.int64(codes.max()) + 1) + code, return_inverse=True)
    shift = np.zeros((len(pairs), stack.n_statistics))
    folds = Folds.of(problem, stack, cells, place)
    folds.add(sums.slopes[:, :, :1], shift[:, :, None])
    _add_squares(pairs // (np.int64(codes.max()) + 1), shift, variance, total)


@njit(cache=True, nogil=True)
def _add_squares(codes, values, weight, total):  # type: ignore[no-untyped-def]
    """Add weight · v vᵀ to the totals of their codes."""
    for i in range(len(codes)):
        for k in range(values.shape[1]):
            for j in range(values.shape[1]):
                total[codes[i], k, j] += weight * values[i, k] * values[i, j]


def _shares(
    problem: Problem,
    parts: Sequence[FloatArray],
    known: KnownSums | None,
    information: FloatArray,
    bread: FloatArray,
) -> FloatArray:
    """Return the share of each table in the information on each slope, (T, d).

    The information of people whose outcome is known adds to that of the tables. Tables of the same
    people overlap: what they hold together is shared in proportion to what each says on its own
    about the slope, the others at their estimates.
    """
    p = len(bread)
    first = problem.coordinates.n_theta - len(problem.design.scale)
    slopes = slice(first, problem.coordinates.n_theta)

    def on_slopes(held: FloatArray) -> FloatArray:
        return np.asarray(np.diag(bread[:, :p].T @ held @ bread)[slopes])

    each = np.array([on_slopes(part) for part in parts])
    share: FloatArray = each / np.maximum(each.sum(axis=0), 1e-300)
    if known is None:
        return share
    own = on_slopes(known.information) / np.maximum(on_slopes(information), 1e-300)
    return np.asarray(share * (1 - np.clip(own, 0.0, 1.0)))


def _log_score(tables: Sequence[FittedTable]) -> float:
    """Return Σ c log(m / n) over the cells of all tables, per person and table."""
    people = [int(table.counts.n[table.counts.known].sum()) for table in tables]
    pairs = zip(tables, people, strict=True)
    total = sum(n * table.counts.log_score(table.expected) for table, n in pairs if n)
    return total / max(sum(people), 1)


def _everybody(
    problem: Problem,
    tables: Sequence[FittedTable],
    mean: FloatArray,
    theta: FloatArray,
    nuisance: FloatArray,
) -> PublishedCounts:
    """Return the counts of a single table; of several those expected in the bins of all."""
    if len(tables) == 1:
        return tables[0].counts
    design, grid = problem.design, problem.grid
    lower, upper, count = grid.lower, grid.upper, mean[: grid.n_bins]
    if grid.lower.ndim > 1:  # bins of their own do not add up
        lower, upper = bins_between(shared_cuts(problem.tables), problem.family.domain)
        args = problem.family, lower, upper, theta, nuisance
        parts = design.by_block(count_sums, *args, then=lambda _, sums: sums[0].sum(axis=0))
        count = np.sum(list(parts), axis=0)
    people, known = np.array([design.n_people]), np.ones(1, dtype=bool)
    return PublishedCounts(people, lower, upper, count[None], known)


# -- covariance ------------------------------------------------------------------------------------


def covariance(
    problem: Problem,
    free: FloatArray,
    sums: ScoreSums,
    information: FloatArray,
    penalty: FloatArray,
    scores: FloatArray,
    *,
    ratio: float,
    leveraged: bool,
    support: FloatArray | None,
) -> tuple[FloatArray, float, Errors]:
    """Return the covariance of the free parameters, the degrees of freedom of intervals, its kind.

    ``ratio`` is Q/df, ``leveraged`` whether the scores of groups are as if these had not been
    fitted, ``support`` (p,) how many groups inform each parameter.
    """
    fitted = problem.n_fitted if problem.largest is None else 1
    df = float(max(informed(scores) - fitted, 1))
    bread = solve_scaled(information + np.diag(penalty), np.eye(len(penalty)))
    if problem.layout.beside:
        meat = reduce(add, score_variance(problem, free, sums))
        return np.asarray(bread @ meat @ bread), np.inf, Errors.MODEL
    meat = information if sums.sampled is None else information + sums.sampled
    border = None if sums.border is None else sums.border.information
    if border is not None:
        border = border[: len(penalty), : len(penalty)]
    if sums.further is not None and crossing(problem):
        moved = sums.further.moved()
        border = moved if border is None else border + moved
    cov, kind = sandwich(
        bread,
        meat,
        scores,
        ratio=ratio,
        leveraged=leveraged,
        support=support,
        beyond=border,
        n_fitted=None if problem.largest is None else problem.n_fitted,
    )
    return cov, df, kind


def sandwich(
    bread: FloatArray,
    meat: FloatArray,
    scores: FloatArray,
    *,
    ratio: float,
    leveraged: bool = False,
    support: FloatArray | None = None,
    beyond: FloatArray | None = None,
    n_fitted: int | None = None,
) -> tuple[FloatArray, Errors]:
    """Return the covariance of parameters by the scores of groups, and what it is.

    bread Σ g gᵀ bread, times (G - 1)/G for scores with leverage (CR3) and G/(G - p) for others,
    where there are twice as many groups as parameters, or more clusters than slopes; else bread M
    bread times max(1, Q/df), M the model's variance of the score. Where few groups inform a
    coefficient, as of a rare feature, their scores are fitted to nearly 0 and the sandwich comes
    out many times too small: no variance of such a coefficient is below that of the model, and none
    at all below a good third of it.

    Parameters
    ----------
    bread : (p, p)
        (J + n·alpha·R)⁻¹.
    meat : (p, p)
        M.
    scores : (G, p)
        Rows of zeros are groups without information.
    ratio : float
        Q/df.
    leveraged : bool
        Whether scores are as if their group had not been fitted.
    support : (p,), optional
        How many groups inform each parameter.
    beyond : (p, p), optional
        Variance of the score that is no group's.
    n_fitted : int, optional
        Intercept and slopes, where scores are of clusters.
    """
    p = int((np.diag(bread) > 0).sum())  # a column that is constant is not fitted
    n = informed(scores)
    by_model = bread @ meat @ bread
    if not n or (p > MOST_LEVERAGE * n if n_fitted is None else n_fitted >= n):
        return np.asarray(by_model * max(1.0, ratio)), Errors.SCALED if ratio > 1 else Errors.MODEL
    centred = scores - scores.sum(axis=0) / len(scores)
    empirical = centred.T @ centred
    empirical *= (n - 1) / n if leveraged else n / (n - p)
    if beyond is not None:
        empirical = empirical + beyond
    robust, model = bread @ empirical @ bread, np.diag(by_model)
    least = 1.0 if support is None else np.where(support < SUPPORTED, 1.0, LEAST_ERROR**2)
    short = np.sqrt(np.maximum(least * model / np.maximum(np.diag(robust), 1e-300), 1.0))
    short = np.where(np.diag(robust) > 0, short, 1.0)
    kind = Errors.CR3 if leveraged else Errors.CR1
    kind = kind if beyond is None else Errors.BORDER
    return np.asarray(robust * np.outer(short, short)), kind


def informed(scores: FloatArray) -> int:
    """Return how many groups have information: those whose scores are not all 0."""
    return int((np.abs(scores).sum(axis=1) > 0).sum())


def influence(shift: FloatArray, covariance: FloatArray, size: int) -> FloatArray:
    """Return what blocks add to the first ``size`` parameters, in standard errors (DFBETAS).

    Parameters
    ----------
    shift : (B, p)
        J⁻¹ times the score of each block: what leaving it out takes away, to first order.
    covariance : (p, p)
    size : int
    """
    error = np.sqrt(np.maximum(np.diag(covariance)[:size], 0.0))
    told = error > 0
    return np.where(told, shift[:, :size] / np.where(told, error, 1.0), 0.0)


def location_fit(problem: Problem, free: FloatArray, found: Specification) -> LocationFit:
    """Return the one-step location root, nuisance parameters as thresholds and the like."""
    moved = free + found.location_shift
    jacobian = problem.coordinates.jacobian(moved)
    covariance = jacobian @ found.location_covariance @ jacobian.T
    return LocationFit(problem.coordinates.split(moved)[0], covariance)


def at_location(
    problem: Problem, fit: LikelihoodFit, result: ScoringResult, penalty: FloatArray, why: str
) -> LikelihoodFit:
    """Return a fit at the root of the location score, where ``result`` is that of the full one.

    Its errors are those of the blocks, and its tests those of the full fit. ``why`` it is asked
    for. Where there is no root the fit is not converged.
    """
    moved, found, converged = locate(problem, result.free, penalty)
    plain, jacobian = problem.around(None), problem.coordinates.jacobian(moved)
    sums = score_sums(plain, moved, penalty, crossing(problem))
    cov, model = (jacobian @ each @ jacobian.T for each in (found.covariance(), found.model))
    n_fitted = float((np.diag(model) > 0).sum())
    at = replace(result, free=moved, sums=sums)
    bread, by_block = found.bread.T @ jacobian.T, leading(problem) is None
    scores = found.leveraged if by_block else sums.block_scores
    fitted = _fitted_tables(plain, at, scores, cov, bread, n_fitted)
    described = _described(plain, at, *fitted)
    if not (fit.alone and by_block):  # else influence is that on the full root
        kept = zip(described["tables"], fit.tables, strict=True)
        described["tables"] = tuple(replace(a, influence=b.influence) for a, b in kept)
    return replace(
        fit,
        **described,
        covariance=cov,
        information=np.asarray(np.linalg.pinv(model, hermitian=True)),
        model_covariance=model,
        location=LocationFit(described["theta"], cov),
        errors=Errors.CR3 if problem.layout.border is None else Errors.BORDER,
        status=fit.status if converged else Status.NOT_CONVERGED,
        levels=why,
        unpenalised=fit.unpenalised and replace(fit.unpenalised, levels=why),
    )


def goodness(block_misfit: FloatArray, block_df: FloatArray, df: float) -> GoodnessOfFit:
    """Hold the misfits of blocks (B,) against their expectations, less ``df`` in all."""
    misfit = float(block_misfit.sum())
    if df <= 0:
        return GoodnessOfFit(misfit, df, np.nan, np.nan)
    ratio = misfit / df
    spread = float(((block_misfit - ratio * block_df) ** 2).sum()) / max(ratio, 1.0) ** 2
    stretch = max(1.0, spread / (2 * df))
    return GoodnessOfFit(misfit, df, ratio, float(chdtrc(df / stretch, misfit / stretch)))


def worst_blocks(fit: LikelihoodFit, size: int = 5) -> IntArray:
    """Return the places of the blocks that fit worst, those of all tables one after the other."""
    misfit, df = (
        np.concatenate([getattr(table, name) for table in fit.tables])
        for name in ("block_misfit", "block_df")
    )
    return largest(excess_misfit(misfit, df), size)


def excess_misfit(misfit: FloatArray, df: FloatArray) -> FloatArray:
    """Return how far misfits lie above their expectations, in standard deviations."""
    return np.asarray((misfit - df) / np.sqrt(2 * np.maximum(df, 1.0)))


def wald_test(estimate: FloatArray, covariance: FloatArray) -> WaldTest:
    """Test that every entry of ``estimate`` is 0.

    Parameters
    ----------
    estimate : (k,)
    covariance : (k, k)
    """
    statistic, df = inverse_form(estimate, covariance)
    return WaldTest(statistic, df, float(chdtrc(df, statistic)) if df else 1.0)
