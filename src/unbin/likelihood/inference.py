"""What a likelihood fit returns, and its uncertainty: covariance, goodness of fit, Wald tests.

The covariance is the *sandwich* CR3, robust and clustered by block, where there are enough blocks,
and model-based otherwise; intervals are of Student's t with as many degrees of freedom as blocks
less slopes and the intercept.

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

import numpy as np
from scipy.special import chdtrc

from unbin._linalg import inverse_form, largest, solve_scaled
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin._watching import Status
from unbin.families import Units
from unbin.likelihood.composite import composite_sums
from unbin.likelihood.counts import PublishedCounts
from unbin.likelihood.effects import average_effect, effects_df, effects_misfit, level_residuals
from unbin.likelihood.location import locate
from unbin.likelihood.moments import expected_statistics
from unbin.likelihood.order import shares_below
from unbin.likelihood.problem import Problem
from unbin.likelihood.quasi_score import misfit_without_effects
from unbin.likelihood.scoring import ScoringResult
from unbin.likelihood.specification import Specification, Test, specify, testable
from unbin.likelihood.statistics import PublishedOrder
from unbin.release import Release
from unbin.release.units import out_of_units


class Errors(Enum):
    """What standard errors are of; the value is what the user reads."""

    CR3 = "sandwich by block (CR3)"
    CR1 = "sandwich by block (CR1)"
    MODEL = "model-based"
    SCALED = "model-based, times Q/df"
    POSTERIOR = "posterior, with weak priors of the levels"


@dataclass(frozen=True, slots=True)
class LikelihoodFit:
    """Estimate, uncertainty and misfit. p = len(theta) + len(nuisance), B blocks.

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
    misfit : float
        Q = Σ (c - m)ᵀ S⁻¹ (c - m), block effects not allowed for; of several tables they are.
    df : float
        Expectation of Q at the true parameters, less the parameters fitted.
    block_misfit, block_df : (B,)
        The contribution of each block to Q, and its expectation.
    block_residual : (B,)
        How far the level of each block lies from its expectation, in standard deviations.
    log_score : float
        The predictive log score Σ c log(m / n) per person: the larger the better, comparable across
        families.
    status : Status
    n_iter : int
        Passes over the rows by scoring.
    path : tuple of float
        UᵀJ⁻¹U at each step.
    counts : PublishedCounts
        The counts as fitted, far bins merged.
    expected : (B, K)
        Expected counts.
    block_sd : float
        Standard deviation of the random block intercept; 0 if none shows.
    block_average : float
        That intercept for the average person; 0 where large blocks do not differ from small ones.
    n_blocks : int
        Blocks with information.
    means, expected_means : (B,) or None
        Published means as fitted, NaN where there is none, and expected ones.
    quantiles : PublishedOrder or None
        Published order statistics that were fitted.
    expected_shares : (B, J) or None
        The share of each block expected at or below each of them.
    influence : (B, len(theta)) or None
        How far leaving a block out would move each parameter, to first order, in standard errors.
    tables : tuple of LikelihoodFit
        Of a fit to several tables: what is said above, of each of them. The fit as a whole then
        has the blocks of all, one table after the other, and everybody in the refined bins.
    share : (d,) or None
        Of one of several tables: its share in the information on each slope; of the fit as a whole
        that of people whose outcome is known, if there are any.
    known : (p, p) or None
        The information of these people.
    df_residual : float
        Degrees of freedom of intervals; infinite for several tables.
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
    levels : bool
        Whether theta is that root.
    robust : bool
        Whether that was asked for.
    shrunk : ShrunkFit or None
        What predicts, where the evidence ridge acts; theta and its errors are unpenalised.
    outside : bool
        Whether the plain fit failed or is rejected, so that predictions are not to leave the range
        of the table.
    """

    theta: FloatArray
    nuisance: FloatArray
    covariance: FloatArray
    information: FloatArray
    model_covariance: FloatArray
    misfit: float
    df: float
    block_misfit: FloatArray
    block_df: FloatArray
    block_residual: FloatArray
    log_score: float
    status: Status
    n_iter: int
    path: tuple[float, ...]
    counts: PublishedCounts
    expected: FloatArray
    block_sd: float
    block_average: float
    n_blocks: int
    means: FloatArray | None
    expected_means: FloatArray | None = None
    quantiles: PublishedOrder | None = None
    expected_shares: FloatArray | None = None
    influence: FloatArray | None = None
    tables: tuple[LikelihoodFit, ...] = ()
    share: FloatArray | None = None
    known: FloatArray | None = None
    df_residual: float = float("inf")
    errors: Errors = Errors.MODEL
    specification: Specification | None = None
    context: Test | None = None
    unclear: BoolArray | None = None
    location: LocationFit | None = None
    levels: bool = False
    robust: bool = False
    shrunk: ShrunkFit | None = None
    outside: bool = False

    def told(self) -> BoolArray:
        """Mark the parameters that the release identifies, shape (p,)."""
        return (np.diag(self.model_covariance) > 0) & (self.status is not Status.POOLED)

    def out_of_units(
        self, units: Units, release: Release | Sequence[Release], *, fit_intercept: bool
    ) -> LikelihoodFit:
        """Return the fit in the units of the target, of whose release, or releases, it is."""
        counts = self.counts
        lower, upper = out_of_units(np.stack([counts.lower, counts.upper]), units, release)
        factor = np.ones(len(self.theta) + len(self.nuisance))
        factor[: len(self.theta)] = units.slope
        square = np.outer(factor, factor)
        return replace(
            self,
            theta=units.theta_out(self.theta, fit_intercept=fit_intercept),
            nuisance=units.nuisance_out(self.nuisance),
            covariance=self.covariance * square,
            information=self.information / square,
            model_covariance=self.model_covariance * square,
            known=None if self.known is None else self.known / square,
            counts=replace(counts, lower=lower, upper=upper),
            block_sd=self.block_sd * units.slope,
            block_average=self.block_average * units.slope,
            means=None if self.means is None else units.out(self.means),
            expected_means=None if self.expected_means is None else units.out(self.expected_means),
            quantiles=None
            if self.quantiles is None
            else replace(self.quantiles, value=units.out(self.quantiles.value)),
            location=None
            if self.location is None
            else LocationFit(
                units.theta_out(self.location.theta, fit_intercept=fit_intercept),
                self.location.covariance * square,
            ),
            shrunk=None
            if self.shrunk is None
            else replace(
                self.shrunk,
                theta=units.theta_out(self.shrunk.theta, fit_intercept=fit_intercept),
                nuisance=units.nuisance_out(self.shrunk.nuisance),
                alpha=self.shrunk.alpha / units.slope**2,
            ),
        )

    def without_influence(self) -> LikelihoodFit:
        """Return the fit without a row per block and parameter, once it has been judged."""
        tables = tuple(replace(table, influence=None) for table in self.tables)
        return replace(self, influence=None, tables=tables)

    def for_prediction(self) -> LikelihoodFit:
        """Return the fit with the parameters that predict: shrunk ones where the ridge acts."""
        if self.shrunk is None:
            return self
        return replace(self, theta=self.shrunk.theta, nuisance=self.shrunk.nuisance)


@dataclass(frozen=True, slots=True)
class LocationFit:
    """The root of the location score: theta as in ``Design``, and its covariance with nuisance."""

    theta: FloatArray
    covariance: FloatArray


@dataclass(frozen=True, slots=True)
class ShrunkFit:
    """What predicts where it is not theta: where the evidence ridge acts, or theta is from levels.

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

    @classmethod
    def of(cls, fit: LikelihoodFit) -> ShrunkFit:
        """Return what predicts as a fit does, without a ridge."""
        none = np.zeros(len(fit.theta), dtype=bool)
        return cls(fit.theta, fit.nuisance, 0.0, "", none, "", ())


_SUPPORTED = 4.0
"""Blocks that inform a coefficient from which on they tell its standard error."""
_LEAST_ERROR = 0.6
"""Standard error by the blocks as a share of that by the model, at least."""
MOST_LEVERAGE = 0.5
"""Parameters as a share of blocks, at most, for the sandwich to be used."""


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
    free, sums = result.free, result.sums
    alive = np.diag(sums.information) > 1e-10 * np.diag(sums.information).max(initial=0.0)
    block_misfit, block_df = misfit_without_effects(problem, free, sums)
    df = float(block_df.sum() - alive.sum())
    misfit = float(block_misfit.sum())
    left = float((sums.block_misfit - effects_misfit(sums, problem.block_variance)).sum())
    expected = float(effects_df(sums, problem.block_variance).sum() - alive.sum())
    average = average_effect(sums, problem.block_variance, problem.counts.n)
    information, scores = sums.information, sums.block_scores
    if result.status is Status.COMPOSITE:
        composite = composite_sums(problem, free, penalty)
        information, scores = composite.information, composite.block_scores
    meat = information if sums.sampled is None else information + sums.sampled
    found = None
    exact = scores if result.status is Status.EXACT else None
    if result.status in (Status.CONVERGED, Status.EXACT) and testable(problem):
        found = specify(problem, free, information, penalty, n_features=n_features, exact=exact)
        scores = found.scores
    cov, df_residual, errors = covariance(
        information,
        penalty,
        scores,
        problem.n_fitted,
        ratio=left / expected if expected > 0 else 1.0,
        meat=meat,
        leveraged=found is not None and exact is None,
        support=None if found is None else found.support,
    )
    theta, nuisance = problem.coordinates.split(free)
    jacobian = problem.coordinates.jacobian(free)
    back = problem.coordinates.inverse_jacobian(free)
    bread = solve_scaled(information + np.diag(penalty), np.eye(len(free)))
    n_bins, mean = problem.counts.n_bins, sums.mean
    if problem.effects is not None:  # what is expected without looking at the blocks themselves
        mean = expected_statistics(replace(problem, effects=None), free)
    return LikelihoodFit(
        theta=theta,
        nuisance=nuisance,
        covariance=jacobian @ cov @ jacobian.T,
        information=back.T @ information @ back,
        model_covariance=jacobian @ solve_scaled(information, np.eye(len(free))) @ jacobian.T,
        misfit=misfit,
        df=df,
        block_misfit=block_misfit,
        block_df=block_df,
        block_residual=level_residuals(sums, problem.block_variance),
        log_score=problem.counts.log_score(mean[:, :n_bins]),
        status=result.status,
        n_iter=result.n_iter,
        path=result.path,
        counts=problem.counts,
        expected=mean[:, :n_bins],
        block_sd=float(np.sqrt(problem.block_variance)),
        block_average=average,
        n_blocks=int((np.abs(scores).sum(axis=1) > 0).sum()),
        means=None if problem.means is None else problem.means.mean,
        expected_means=expected_means(problem, mean),
        quantiles=problem.order,
        expected_shares=None if problem.order is None else shares_below(problem, free),
        influence=influence(scores @ bread @ jacobian.T, jacobian @ cov @ jacobian.T, len(theta)),
        df_residual=df_residual,
        errors=errors,
        specification=found,
        location=None if found is None else location_fit(problem, free, found),
    )


def expected_means(problem: Problem, mean: FloatArray) -> FloatArray | None:
    """Return the expected means of all blocks, (B,), of expected statistics (B, L)."""
    if problem.means is None:
        return None
    return np.asarray(mean[:, -1] * problem.means.unit / np.maximum(problem.counts.n, 1))


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
    problem: Problem, fit: LikelihoodFit, free: FloatArray, penalty: FloatArray, *, robust: bool
) -> LikelihoodFit:
    """Return a fit at the root of the location score; ``free`` is that of the full one.

    Its errors are those of the blocks, and its tests those of the full fit. Unless it was asked for
    (``robust``) the full fit still predicts: shapes say how large slopes are.
    """
    moved, found, converged = locate(problem, free, penalty)
    theta, nuisance = problem.coordinates.split(moved)
    jacobian = problem.coordinates.jacobian(moved)
    cov = jacobian @ found.covariance() @ jacobian.T
    return replace(
        fit,
        theta=theta,
        nuisance=nuisance,
        covariance=cov,
        model_covariance=jacobian @ found.model @ jacobian.T,
        location=LocationFit(theta, cov),
        errors=Errors.CR3,
        influence=influence(found.leveraged() @ found.bread.T @ jacobian.T, cov, len(theta)),
        status=fit.status if converged else Status.NOT_CONVERGED,
        levels=True,
        robust=robust,
        shrunk=None if robust else ShrunkFit.of(fit),
    )


def covariance(
    information: FloatArray,
    penalty: FloatArray,
    block_scores: FloatArray,
    n_slopes: int,
    *,
    ratio: float,
    meat: FloatArray | None = None,
    leveraged: bool = False,
    support: FloatArray | None = None,
) -> tuple[FloatArray, float, Errors]:
    """Return the covariance of the free parameters, the degrees of freedom of intervals, its kind.

    With bread = (J + n·alpha·R)⁻¹: the sandwich bread Σ g_b g_bᵀ bread, times (B - 1)/B for scores
    with leverage (CR3) and B/(B - p) for others, where there are twice as many blocks as
    parameters; else bread M bread times max(1, Q/df), M = J the model's variance of the score.
    Where few blocks inform a coefficient, as of a rare feature, their scores are fitted to nearly
    0 and the sandwich comes out many times too small: no variance of such a coefficient is below
    that of the model, and none at all below a good third of it.

    Parameters
    ----------
    information : (p, p)
    penalty : (p,)
    block_scores : (B, p)
        Rows of zeros are blocks without information.
    n_slopes : int
        Intercept and slopes that were fitted.
    ratio : float
        Q/df.
    meat : (p, p), optional
        M, where it is not J: rows that are a sample inform less than their scores vary.
    leveraged : bool
        Whether scores are as if their block had not been fitted.
    support : (p,), optional
        How many blocks inform each parameter.
    """
    by_model = information if meat is None else meat
    bread = solve_scaled(information + np.diag(penalty), np.eye(len(penalty)))
    p = int((np.diag(bread) > 0).sum())  # a column that is constant is not fitted
    n_blocks = int((np.abs(block_scores).sum(axis=1) > 0).sum())
    df = float(max(n_blocks - n_slopes, 1))
    if not n_blocks or p > MOST_LEVERAGE * n_blocks:
        kind = Errors.SCALED if ratio > 1 else Errors.MODEL
        return np.asarray(bread @ by_model @ bread * max(1.0, ratio)), df, kind
    centred = block_scores - block_scores.sum(axis=0) / len(block_scores)
    meat = centred.T @ centred
    meat *= (n_blocks - 1) / n_blocks if leveraged else n_blocks / (n_blocks - p)
    robust, model = bread @ meat @ bread, np.diag(bread @ by_model @ bread)
    least = 1.0 if support is None else np.where(support < _SUPPORTED, 1.0, _LEAST_ERROR**2)
    short = np.sqrt(np.maximum(least * model / np.maximum(np.diag(robust), 1e-300), 1.0))
    short = np.where(np.diag(robust) > 0, short, 1.0)
    kind = Errors.CR3 if leveraged else Errors.CR1
    return np.asarray(robust * np.outer(short, short)), df, kind


def goodness_of_fit(fit: LikelihoodFit) -> GoodnessOfFit:
    """Test whether the published statistics are as close to expectation as they should be."""
    return goodness(fit.block_misfit, fit.block_df, fit.df)


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
    """Return the places of the blocks that fit worst, by their excess over what is expected."""
    return largest(excess_misfit(fit.block_misfit, fit.block_df), size)


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
