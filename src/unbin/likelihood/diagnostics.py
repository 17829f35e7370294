"""How far a fit can be trusted, in numbers and in sentences.

Whether the release identifies the coefficients is decided by a gate calibrated by simulation: with
at least 3 (d + 2) blocks a relative standard error of .2 or less had no failure in 1,500 fits; with
fewer blocks no figure is to be trusted, and from one block no method recovered the coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from unbin._linalg import namespace, solve_scaled
from unbin._typing import FloatArray
from unbin._watching import Status
from unbin.families import Family
from unbin.likelihood.counts import block_targets
from unbin.likelihood.inference import (
    GoodnessOfFit,
    LikelihoodFit,
    WaldTest,
    goodness_of_fit,
    wald_test,
    worst_blocks,
)
from unbin.likelihood.start import EcologicalFit, block_means_regression, fitted_values
from unbin.release import Release
from unbin.release.join import Tables, distinct_names
from unbin.rows.design import Design

_LARGEST_RELATIVE_ERROR = 0.2
_SMALLEST_EIGENVALUE = 1e-8
_LARGEST_STEP = 15.0
"""Largest effect of one feature on eta over its range, on a log or logit scale."""
_LOUDEST = 1e50
"""Limit on the signal of a person where a fit has diverged, so that sums of squares stay finite."""


@dataclass(frozen=True, slots=True)
class Identification:
    """Whether the release identifies the coefficients.

    Attributes
    ----------
    identified : bool
    reason : str
        In a sentence.
    relative_error : float
        Root of the summed variances of the standardised slopes over the length of the slopes.
    eigenvalue : float
        Smallest eigenvalue of the information, scaled to a unit diagonal.
    n_blocks : int
        Blocks about which something was published.
    """

    identified: bool
    reason: str
    relative_error: float
    eigenvalue: float
    n_blocks: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The likelihood estimate beside the block-means (ecological) one, in units of X.

    Attributes
    ----------
    coef, standard_errors : (d,)
        Of the block-means regression.
    test : WaldTest
        Of the difference, as if the two were independent: it is conservative.
    """

    coef: FloatArray
    standard_errors: FloatArray
    test: WaldTest


def identification(
    design: Design, family: Family, fit: LikelihoodFit, n_features: int
) -> Identification:
    """Apply the gate: scale, blocks, conditioning, relative standard error, convergence.

    The relative error is that of the first ``n_features`` slopes; further ones are contextual.
    """
    shift = int(design.fit_intercept)
    features = slice(shift, shift + n_features)
    variance = np.diag(fit.covariance)[features]
    length = float(np.linalg.norm(fit.theta[features]))
    error = float(np.sqrt(variance.sum())) / length if length > 0 else np.inf
    eigenvalue = _smallest_eigenvalue(fit.information, slice(shift, design.n_parameters))
    extreme = _extreme_slope(design, family, fit)
    reason = constant_features(design)
    if reason is not None:
        return Identification(False, reason, error, eigenvalue, fit.n_blocks)
    reason = _complaint(family, fit, len(design.scale), eigenvalue, error, extreme)
    if reason is None:
        reason = (
            f"identified: {fit.n_blocks} blocks, standard errors {100 * error:.0f} % of the "
            "coefficients"
        )
        return Identification(True, reason, error, eigenvalue, fit.n_blocks)
    return Identification(False, f"not identified: {reason}", error, eigenvalue, fit.n_blocks)


def constant_features(design: Design) -> str | None:
    """Say which features do not vary, so that their slopes are not estimable; None if all do."""
    constant = np.flatnonzero(~design.varies)
    if not len(constant):
        return None
    columns = ", ".join(map(str, constant[:5])) + (", …" if len(constant) > 5 else "")
    return (
        f"not identified: {len(constant)} of {len(design.varies)} features are the same for "
        f"everybody (counted from 0: {columns}), and the intercept takes up their effect; drop them"
    )


def _complaint(
    family: Family,
    fit: LikelihoodFit,
    d: int,
    eigenvalue: float,
    error: float,
    extreme: float,
) -> str | None:
    """Return why the coefficients are not identified, or None."""
    n_blocks = fit.n_blocks
    if fit.status is Status.POOLED:
        return (
            "no slopes were found that explain the table better than slopes of 0; the family may "
            "be wrong (try family='ordinal'), or add a ridge with alpha"
        )
    if n_blocks == 0:
        return "what was published does not change with the coefficients; publish finer bins"
    if d == 0:
        return None
    if max((table.n_blocks for table in fit.tables), default=n_blocks) == 1:
        return (
            "a single block does not identify the coefficients, every assignment of its targets to "
            "its people fits about as well; publish the table for several blocks"
        )
    if _scale_is_free(family, fit):
        return (
            "two bins shared by all blocks identify the slopes only in units of the noise; publish "
            "three or more bins, or use family='ordinal'"
        )
    if eigenvalue < _SMALLEST_EIGENVALUE:
        return (
            "some combination of the features does not change what was published; drop features "
            "or publish finer bins"
        )
    # errors of several tables are not taken from how much their blocks differ
    if not fit.tables and n_blocks < 3 * (d + 2):
        return (
            f"{n_blocks} blocks are too few for {d} slopes, at least {3 * (d + 2)} are needed for "
            "a standard error to be trusted"
        )
    if not fit.status.converged:
        return "the fit did not converge, so its errors cannot be trusted"
    if extreme > _LARGEST_STEP:
        return (
            "a slope diverged, one feature alone would change the mean more than a million times; "
            "add a ridge with alpha, or drop the feature"
        )
    if not error <= _LARGEST_RELATIVE_ERROR:
        return (
            f"the standard errors are {100 * error:.0f} % of the coefficients, above "
            f"{100 * _LARGEST_RELATIVE_ERROR:.0f} % the table says too little about them"
        )
    return None


def _extreme_slope(design: Design, family: Family, fit: LikelihoodFit) -> float:
    """Return how far one feature moves eta over its range, where the link is a log or logit."""
    if np.isinf(family.domain.low) or not len(design.scale):
        return 0.0
    slopes = fit.theta[int(design.fit_intercept) :]
    return float((np.abs(slopes) * design.ranges).max())


def _scale_is_free(family: Family, fit: LikelihoodFit) -> bool:
    """Tell whether two shared bins are all there is of a family with a scale or dispersion."""
    two = fit.counts.shared and fit.counts.n_bins == 2 and fit.means is None
    return two and bool(family.nuisance_names) and fit.status is not Status.ORDER


def _smallest_eigenvalue(information: FloatArray, slopes: slice) -> float:
    """Return the smallest eigenvalue, 0 where a slope has no information.

    Intercept and nuisance parameters are included: the slope of a rare feature whose people all lie
    beyond the last edge can grow without bound if the intercept makes up for it.
    """
    size = np.sqrt(np.maximum(np.diag(information), 0.0))
    if not (size[slopes] > 1e-5 * size[slopes].max(initial=0.0)).all():
        return 0.0
    told = size > 0
    scaled = information[np.ix_(told, told)] / np.outer(size[told], size[told])
    return float(np.linalg.eigvalsh(scaled)[0]) if told.any() else 1.0


def efficiency(design: Design, family: Family, fit: LikelihoodFit) -> FloatArray:
    """Return the relative efficiency per slope: oracle variance over variance from this release.

    The oracle is the same GLM fitted to individual targets, with information Xᵀ W X at the fitted
    parameters, W = (d mean/d eta)² / Var y; for a family with thresholds that of its latent
    distribution.
    Both are taken from the information without ridge or sandwich. Shape (d,), NaN for columns
    that are constant.
    """
    shift = int(design.fit_intercept)
    oracle = design.gram(fit.theta, partial(told_by_person, family, fit.nuisance))
    p = len(oracle)
    if fit.known is not None:
        oracle = oracle + fit.known[:p, :p]
    best = np.diag(solve_scaled(oracle, np.eye(p)))[shift:]
    ours = np.diag(fit.model_covariance)[shift:p]
    ok = (ours > 0) & (best > 0)
    return np.where(ok, np.minimum(best / np.where(ok, ours, 1.0), 1.0), np.nan)


def told_by_person(family: Family, nuisance: FloatArray, eta: FloatArray) -> FloatArray:
    """Return (d mean/d eta)² / Var y, the information of an observed target about its eta."""
    slope, variance = family.mean_derivative(eta), family.variance(eta, nuisance)
    # where the mean saturates both vanish and a person carries no information
    xp, says = namespace(eta), variance > 1e-300
    signal = xp.where(says, slope / xp.sqrt(xp.where(says, variance, 1.0)), 0.0)
    return xp.clip(signal, -_LOUDEST, _LOUDEST) ** 2  # type: ignore[no-any-return]


def compare_with_block_means(
    design: Design, fit: LikelihoodFit, ecological: EcologicalFit, n_features: int
) -> Comparison:
    """Test whether likelihood and block-means slopes of the features differ beyond their errors."""
    shift = int(design.fit_intercept)
    slopes, scale = slice(shift, shift + n_features), design.scale[:n_features]
    ours, theirs = fit.theta[slopes] / scale, ecological.theta[slopes] / scale
    rescale = np.outer(1 / scale, 1 / scale)
    own = fit.covariance[slopes, slopes] * rescale
    other = ecological.covariance[slopes, slopes] * rescale
    errors = np.sqrt(np.maximum(np.diag(other), 0.0))
    return Comparison(theirs, errors, wald_test(ours - theirs, own + other))


_OVERDISPERSED = 1.5
_FAR_APART = 1e-3
_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """What the release identifies, how precisely, and how well the model fits it.

    Attributes
    ----------
    identified : bool
        Whether the coefficients can be relied on.
    reason : str
        Why, or why not, in a sentence.
    goodness_of_fit : GoodnessOfFit or None
        Misfit Q of the published statistics, its degrees of freedom, their ratio (1 for a model
        that fits) and its p value.
    worst_blocks : tuple of str
        The blocks whose tables fit worst, worst first.
    efficiency : (d,) or None
        Relative efficiency of each coefficient: the variance the oracle would have over the
        variance from this release.
    relative_error : float
        Size of the standard errors over the size of the coefficients, features standardised.
    block_sd : float
        Standard deviation of the random block intercept; 0 where none shows.
    ecological_coef, ecological_standard_errors : (d,) or None
        The block-means (ecological) regression, for comparison.
    ecological_p_value : float
        Of the hypothesis that the two agree.
    contextual_test : WaldTest or None
        Of the hypothesis that all contextual effects are 0: a test for ecological bias from the
        release alone.
    warnings : tuple of str
        Plain sentences about what may be wrong.
    tables : tuple of str
        The tables of a fit to several; last "observed", if the outcome of some people is known.
    information : (T, d) or None
        The share of each of them in the information on each coefficient; columns sum to 1.
    """

    identified: bool
    reason: str
    goodness_of_fit: GoodnessOfFit | None = None
    worst_blocks: tuple[str, ...] = ()
    efficiency: FloatArray | None = None
    relative_error: float = float("nan")
    block_sd: float = 0.0
    ecological_coef: FloatArray | None = None
    ecological_standard_errors: FloatArray | None = None
    ecological_p_value: float = float("nan")
    contextual_test: WaldTest | None = None
    warnings: tuple[str, ...] = field(default=())
    tables: tuple[str, ...] = ()
    information: FloatArray | None = None

    @classmethod
    def of_status(cls, design: Design, identified: bool, reason: str) -> Diagnostics:
        """Return the diagnostics of a method that reports only its status."""
        constant = constant_features(design)
        return cls(identified, reason) if constant is None else cls(False, constant)

    def sentences(self) -> tuple[str, ...]:
        """Return everything worth reading, most important first."""
        found = [self.reason]
        if self.goodness_of_fit is not None and np.isfinite(self.goodness_of_fit.ratio):
            fit = self.goodness_of_fit
            found.append(f"goodness of fit: Q/df = {fit.ratio:.2f} (p = {fit.p_value:.3f})")
        if self.block_sd > 0:
            found.append(
                f"block effects: people of a block share an effect of standard deviation "
                f"{self.block_sd:.2g} on the linear predictor, which the fit allows for"
            )
        if self.contextual_test is not None:
            test = self.contextual_test
            found.append(
                f"ecological bias: contextual effects are {_verdict(test.p_value)} "
                f"(chi2 = {test.statistic:.1f} on {test.df}, p = {test.p_value:.3f})"
            )
        return (*found, *self.warnings)

    def __str__(self) -> str:
        return "\n".join(self.sentences())


def diagnose(
    design: Design, release: Release, family: Family, fit: LikelihoodFit, d: int
) -> Diagnostics:
    """Judge a likelihood fit; the first ``d`` slopes are of features, further ones contextual."""
    ecological = _ecological(design, release, family, fit, d)
    return _judged(design, family, fit, d, [str(block) for block in release.blocks], ecological)


def diagnose_joint(
    design: Design, tables: Tables, family: Family, fit: LikelihoodFit, d: int
) -> Diagnostics:
    """Judge a fit to several tables of the same people."""
    pairs = zip(tables.names, tables.releases, strict=True)
    blocks = [f"{name} {block}" for name, own in pairs for block in own.blocks]
    shares = [own.share for own in (*fit.tables, fit) if own.share is not None]
    return replace(
        _judged(design, family, fit, d, blocks, None),
        tables=told_by(tables.names, observed=fit.share is not None),
        information=np.stack(shares)[:, :d],
    )


def told_by(tables: Sequence[str], *, observed: bool) -> tuple[str, ...]:
    """Return what the information of a fit to several tables comes from, by name."""
    return distinct_names([*tables, "observed"]) if observed else tuple(tables)


def _judged(
    design: Design,
    family: Family,
    fit: LikelihoodFit,
    d: int,
    blocks: list[str],
    ecological: Comparison | None,
) -> Diagnostics:
    """Judge a fit to blocks of these names."""
    goodness = goodness_of_fit(fit)
    found = identification(design, family, fit, d)
    p_value = float("nan") if ecological is None else ecological.test.p_value
    test = contextual_test(design, fit, d)
    return Diagnostics(
        identified=found.identified,
        reason=found.reason,
        goodness_of_fit=goodness,
        worst_blocks=tuple(blocks[b] for b in worst_blocks(fit)),
        efficiency=efficiency(design, family, fit)[:d],
        relative_error=found.relative_error,
        block_sd=fit.block_sd,
        ecological_coef=None if ecological is None else ecological.coef,
        ecological_standard_errors=None if ecological is None else ecological.standard_errors,
        ecological_p_value=p_value,
        contextual_test=test,
        warnings=tuple(_warnings(goodness, p_value, has_context=test is not None)),
    )


def contextual_test(design: Design, fit: LikelihoodFit, d: int) -> WaldTest | None:
    """Test that all slopes after the first ``d``, contextual effects, are 0; None without any."""
    context = slice(int(design.fit_intercept) + d, design.n_parameters)
    if context.start == context.stop:
        return None
    return wald_test(fit.theta[context], fit.covariance[context, context])


def has_context(design: Design, fit: LikelihoodFit, d: int) -> bool:
    """Tell whether contextual effects are significant."""
    test = contextual_test(design, fit, d)
    return test is not None and test.p_value < _LEVEL


def _ecological(
    design: Design, release: Release, family: Family, fit: LikelihoodFit, d: int
) -> Comparison | None:
    """Compare with the block-means regression, where that exists in the same units."""
    if family.free_shape or fit.n_blocks <= design.n_parameters:
        return None
    value = fitted_values(design, family, fit.counts, fit.theta, fit.nuisance)
    targets = block_targets(fit.counts, release.means, value=value)
    if not targets.known.all():
        return None
    found = block_means_regression(design, family, targets, fit.nuisance)
    return compare_with_block_means(design, fit, found, d)


def _warnings(goodness: GoodnessOfFit, p_value: float, *, has_context: bool) -> list[str]:
    found = []
    if goodness.ratio > _OVERDISPERSED and goodness.p_value < _LEVEL:
        found.append(
            f"blocks differ {goodness.ratio:.1f} times as much as the model says: what differs "
            "between blocks may confound the coefficients (ecological bias)"
            + ("" if has_context else "; try contextual=True, or another family")
        )
    if p_value < _FAR_APART:
        found.append(
            "the block-means (ecological) regression disagrees with this fit beyond their errors: "
            "the effect within blocks is not the effect between blocks, or the family is wrong"
        )
    return found


def _verdict(p_value: float) -> str:
    return "significant" if p_value < _LEVEL else "not significant"
