"""What a fit can be trusted with, in numbers and in sentences."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unbin._typing import FloatArray
from unbin.families import Family
from unbin.likelihood.ecological import block_means_regression, block_targets, fitted_values
from unbin.likelihood.identification import (
    Comparison,
    compare_with_block_means,
    constant_features,
    efficiency,
    identification,
)
from unbin.likelihood.inference import (
    GoodnessOfFit,
    WaldTest,
    goodness_of_fit,
    wald_test,
    worst_blocks,
)
from unbin.likelihood.results import LikelihoodFit
from unbin.release import Release
from unbin.rows.design import Design

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
        Standard deviation of the random block intercept allowed for in the fit; 0 where none
        shows.
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
    block_sd: float = 0.0
    ecological_coef: FloatArray | None = None
    ecological_standard_errors: FloatArray | None = None
    ecological_p_value: float = float("nan")
    contextual_test: WaldTest | None = None
    warnings: tuple[str, ...] = field(default=())

    @classmethod
    def of_status(cls, design: Design, identified: bool, reason: str) -> Diagnostics:
        """Return the diagnostics of a method that only knows how it ended."""
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
    """Judge a likelihood fit; the first ``d`` slopes are features, further ones their context."""
    goodness = goodness_of_fit(fit)
    found = identification(design, family, fit, d)
    ecological = _ecological(design, release, family, fit, d)
    p_value = float("nan") if ecological is None else ecological.test.p_value
    test = contextual_test(design, fit, d)
    return Diagnostics(
        identified=found.identified,
        reason=found.reason,
        goodness_of_fit=goodness,
        worst_blocks=tuple(str(release.blocks[b]) for b in worst_blocks(fit)),
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
    """Tell whether contextual effects show."""
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
    return "there" if p_value < _LEVEL else "not seen"
