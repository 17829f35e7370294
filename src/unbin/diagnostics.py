"""What a fit can be trusted with, in numbers and in sentences."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unbin.design import Design
from unbin.families import Family
from unbin.likelihood.ecological import block_means_regression, block_targets
from unbin.likelihood.inference import (
    GoodnessOfFit,
    WaldTest,
    goodness_of_fit,
    wald_test,
    worst_blocks,
)
from unbin.likelihood.results import LikelihoodFit
from unbin.release import Release
from unbin.typing import FloatArray

_BLOCKS_PER_COEFFICIENT = 3
_RELATIVE_ERROR = 0.2
"""With smaller relative standard errors and enough blocks no simulated fit was far off."""
_FLAT = 1e-9
_OVERDISPERSED = 1.5
_FAR_APART = 1e-3
_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """What the release could and could not tell.

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
        Variance the oracle would have over the variance from this release, per coefficient.
    relative_error : float
        Size of the standard errors over the size of the coefficients, features standardised.
    ecological_coef, ecological_standard_errors : (d,) or None
        The block-means (ecological) regression beside ours.
    ecological_p_value : float
        Of "the two agree".
    contextual_test : WaldTest or None
        Of "all contextual effects are 0": a test for ecological bias from the release alone.
    warnings : tuple of str
        Plain sentences about what may be wrong.
    """

    identified: bool
    reason: str
    goodness_of_fit: GoodnessOfFit | None = None
    worst_blocks: tuple[str, ...] = ()
    efficiency: FloatArray | None = None
    relative_error: float = float("nan")
    ecological_coef: FloatArray | None = None
    ecological_standard_errors: FloatArray | None = None
    ecological_p_value: float = float("nan")
    contextual_test: WaldTest | None = None
    warnings: tuple[str, ...] = field(default=())

    @classmethod
    def of_status(cls, identified: bool, reason: str) -> Diagnostics:
        """Return the diagnostics of a method that only knows how it ended."""
        return cls(identified, reason)

    def sentences(self) -> tuple[str, ...]:
        """Return everything worth reading, most important first."""
        found = [self.reason]
        if self.goodness_of_fit is not None and np.isfinite(self.goodness_of_fit.ratio):
            fit = self.goodness_of_fit
            found.append(f"goodness of fit: Q/df = {fit.ratio:.2f} (p = {fit.p_value:.3f})")
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
    """Judge a likelihood fit; the first ``d`` slopes are features, further ones their context."""
    shift = int(design.fit_intercept)
    slopes = slice(shift, shift + d)
    goodness = goodness_of_fit(fit)
    relative = _relative_error(fit, slopes)
    identified, reason = _identified(design, family, fit, relative)
    efficiency = _efficiency(design, family, fit)[:d]
    coef, errors, p_value = _ecological(design, release, family, fit, d)
    context = slice(shift + d, design.n_parameters)
    test = None
    if design.n_parameters > shift + d:
        test = wald_test(fit.theta[context], fit.covariance[context, context])
    return Diagnostics(
        identified=identified,
        reason=reason,
        goodness_of_fit=goodness,
        worst_blocks=tuple(str(release.blocks[b]) for b in worst_blocks(fit)),
        efficiency=efficiency,
        relative_error=relative,
        ecological_coef=coef,
        ecological_standard_errors=errors,
        ecological_p_value=p_value,
        contextual_test=test,
        warnings=tuple(_warnings(goodness, p_value, has_context=test is not None)),
    )


def _identified(
    design: Design, family: Family, fit: LikelihoodFit, relative: float
) -> tuple[bool, str]:
    n_blocks, d = len(design.start) - 1, design.matrix.shape[1]
    wanted = _BLOCKS_PER_COEFFICIENT * (d + 2)
    if n_blocks == 1:
        return False, (
            "not identified: with a single block its table does not tell which features go with "
            "high values; publish the table for several blocks"
        )
    if _is_flat(fit):
        return False, (
            "not identified: some combination of the coefficients leaves every published "
            "statistic unchanged; publish finer bins or drop features"
        )
    if _two_bins_without_scale(family, fit):
        return False, (
            "not identified: two bins tell the slopes only in units of the noise; publish at "
            "least three bins"
        )
    if n_blocks < wanted:
        return False, (
            f"not identified: {n_blocks} blocks for {d} coefficients, at least {wanted} are "
            "needed for errors that can be trusted"
        )
    if not relative <= _RELATIVE_ERROR:
        return False, (
            f"not identified: the standard errors are {100 * relative:.0f} % of the coefficients; "
            "the table says too little about them"
        )
    return True, (
        f"identified: {n_blocks} blocks, standard errors {100 * relative:.0f} % of the coefficients"
    )


def _is_flat(fit: LikelihoodFit) -> bool:
    """Tell whether some direction has no information; a parameter held fixed does not count."""
    size = np.sqrt(np.maximum(np.diag(fit.information), 0.0))
    free = size > _FLAT * size.max()
    scaled = fit.information[np.ix_(free, free)] / np.outer(size[free], size[free])
    return bool(np.linalg.eigvalsh(scaled)[0] < _FLAT)


def _two_bins_without_scale(family: Family, fit: LikelihoodFit) -> bool:
    counts = fit.counts
    return family.name == "gaussian" and counts.shared and counts.n_bins == 2


def _relative_error(fit: LikelihoodFit, slopes: slice) -> float:
    size = float(np.linalg.norm(fit.theta[slopes]))
    error = float(np.sqrt(np.trace(fit.covariance[slopes, slopes])))
    return error / size if size > 0 else float("inf")


def _efficiency(design: Design, family: Family, fit: LikelihoodFit) -> FloatArray:
    """Return oracle variance over release variance of each slope, both without a ridge."""
    shift, p = int(design.fit_intercept), design.n_parameters
    oracle = np.linalg.pinv(_oracle_information(design, family, fit), hermitian=True)
    release = np.linalg.pinv(fit.information, hermitian=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.diag(oracle)[shift:p] / np.diag(release)[shift:p])


def _oracle_information(design: Design, family: Family, fit: LikelihoodFit) -> FloatArray:
    """Return X^T W X for observed targets; ordinal: for each person's own bin."""
    weight = np.empty(len(design.matrix))
    for rows in design.pieces():
        eta = design.eta(fit.theta, rows)
        if family.has_thresholds:
            model = family.bins(eta, fit.counts.lower, fit.counts.upper, fit.nuisance)
            q = np.maximum(model.probability, 1e-300)
            weight[rows] = (model.d_eta**2 / q).sum(axis=1)
        else:
            variance = np.maximum(family.variance(eta, fit.nuisance), 1e-300)
            weight[rows] = family.mean_derivative(eta) ** 2 / variance
    return design.gram(weight)


def _ecological(
    design: Design, release: Release, family: Family, fit: LikelihoodFit, d: int
) -> tuple[FloatArray | None, FloatArray | None, float]:
    """Return the block-means slopes, their errors, and the p value of agreement with ours."""
    if family.has_thresholds or len(design.start) - 1 <= design.n_parameters:
        return None, None, float("nan")
    shift = int(design.fit_intercept)
    targets = block_targets(fit.counts, release.means)
    found = block_means_regression(design, family, targets, fit.nuisance)
    coef, _ = design.to_coefficients(found.theta)
    covariance = design.to_coefficient_covariance(found.covariance)
    slopes = slice(shift, shift + d)
    ours = fit.covariance[slopes, slopes]
    # the two share their data, so the sum of their variances is an upper bound: a cautious test
    test = wald_test(
        fit.theta[slopes] - found.theta[slopes], ours + found.covariance[slopes, slopes]
    )
    return coef[:d], np.sqrt(np.diag(covariance))[1 : 1 + d], test.p_value


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
    return "there" if p_value < _LEVEL else "not seen"
