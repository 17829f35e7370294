"""Verdicts: whether each coefficient is estimated, and whether the fit may be trusted.

A coefficient is *not estimable* where what was published does not change with it, *imprecise* where
its standard error is above a fifth of the outcome's standard deviation on the link's scale over
that of the feature, or its 95 % interval reaches further than a factor of 2 past the odds or rates
ratio of a step of the feature (from one of two values to the other, or two standard deviations),
and *estimated* otherwise: its own size has no part in it.

A fit is trusted unless it did not converge, rests on too few blocks, has a slope that diverged or
whose sign is not told (:mod:`unbin.likelihood.solve.signs`), or fails a specification test: that of
the shape at 3 % (5 % with fewer than 100 blocks), that of contextual effects at 0.1 %, or an
extension at 1 % (over all that are tested) that would move a slope by more than its standard error,
or at 0.01 % by a fifth of it. Over right models that flags about 3 % (experiments/trust.py). Q/df
has no part in it either: it is large in most fits that are harmless. What cannot be told from one
table, such as a floor inside an open bin, is told by none of these. Where tables cross the groups
the covariance is the model's in part: there a Q/df above 3 rejects the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbin._typing import BoolArray, FloatArray
from unbin._watching import Status
from unbin.families import Family
from unbin.families.base import unweighted
from unbin.likelihood.data.counts import representative_values
from unbin.likelihood.infer.estimate import Errors, LikelihoodFit
from unbin.likelihood.infer.specification import Extension
from unbin.likelihood.thresholds import (
    BLOCKS_PER_SLOPE,
    CONTEXT_LEVEL,
    EXTENSION_LEVELS,
    FAMILY_LEVEL,
    FEW_WITH_EFFECTS,
    LARGEST_ERROR,
    LARGEST_FACTOR,
    LARGEST_MISFIT,
    LARGEST_SHIFT,
    MANY_BLOCKS,
    SHAPE_LEVEL,
    SHAPE_LEVEL_OF_FEW,
    SHAPED,
)
from unbin.release.words import first_few
from unbin.rows.design import Design

ESTIMATED, IMPRECISE, NOT_ESTIMABLE = "estimated", "imprecise", "not estimable"
_SMALLEST_EIGENVALUE = 1e-8
_LEAST_NUISANCE = 1e-2
"""Root of the information on a nuisance parameter that tells it at all."""
_LOADING = 1e-3
"""Squared loading on a direction without information from which on a slope is not estimable."""
_NORMAL = 1.96
_TWO_VALUED = 1e-6
_LARGEST_STEP = 15.0
"""Largest effect of one feature on eta over its range, on a log or logit scale."""
_LARGEST_STEP_ERROR = 5.0
"""Its standard error from which on a slope of a logit ran away."""
_EITHER = "the family is wrong, or blocks differ for reasons related to the features"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What may be said about a fit.

    Attributes
    ----------
    coefficients : tuple of str
        "estimated", "imprecise" or "not estimable", one of each feature.
    why : str
        Why coefficients are not estimable, in a sentence; empty where all are.
    reasons : tuple of str
        Why the fit is not to be trusted, a sentence each; empty where it is.
    precision : (d,)
        Standard errors as shares of sd(outcome)/sd(feature).
    factor : (d,)
        By what the interval of each odds or rates ratio reaches past its estimate, over a step of
        the feature; 1 for other links.
    """

    coefficients: tuple[str, ...]
    why: str
    reasons: tuple[str, ...]
    precision: FloatArray
    factor: FloatArray

    @classmethod
    def of(
        cls,
        precision: FloatArray,
        factor: FloatArray,
        lost: BoolArray,
        why: str,
        reasons: tuple[str, ...],
    ) -> Verdict:
        """Judge every coefficient by its precision, unless it is lost."""
        vague = (precision > LARGEST_ERROR) | (factor > LARGEST_FACTOR)
        named = np.where(lost, NOT_ESTIMABLE, np.where(vague, IMPRECISE, ESTIMATED))
        precision = np.where(lost, np.nan, precision)
        return cls(tuple(map(str, named.ravel())), why, reasons, precision.ravel(), factor.ravel())

    def summed_up(self, told: str, names: Sequence[str], noun: str = "coefficient") -> str:
        """Return the verdict in a sentence; ``told`` is what it rests on."""
        if self.why:
            return self.why
        if self.reasons:
            return f"not to be trusted: {self.reasons[0]}"
        n = len(self.coefficients)
        vague = [j for j, each in enumerate(self.coefficients) if each == IMPRECISE]
        if not vague:
            return f"estimated: {f'the {noun}' if n == 1 else f'all {n} {noun}s'}; {told}"
        which = first_few([f"{names[j]} ({self._vague(j)})" for j in vague])
        return f"imprecise: {len(vague)} of {n} {noun}s, {which}; {told}"

    def _vague(self, j: int) -> str:
        """Say how imprecise a coefficient is."""
        if self.precision[j] > LARGEST_ERROR:
            return f"standard error {self.precision[j]:.0%} of sd(outcome)/sd(feature)"
        return f"effect known to a factor of {self.factor[j]:.1f}"


def judge(design: Design, family: Family, fit: LikelihoodFit, d: int) -> Verdict:
    """Judge a fit, the first ``d`` of whose slopes are of features."""
    shift = int(design.fit_intercept)
    features = slice(shift, shift + d)
    lost, why, reasons = grounds(design, family, fit, d)
    errors = np.sqrt(np.maximum(np.diag(fit.covariance)[features], 0.0))
    precision = errors / outcome_sd(design, family, fit)
    ratios = np.isfinite(family.domain.low)
    factor = reach_of_ratio(design, errors) if ratios else np.ones(d)
    return Verdict.of(precision, factor, lost, why, reasons)


def grounds(
    design: Design, family: Family, fit: LikelihoodFit, d: int
) -> tuple[BoolArray, str, tuple[str, ...]]:
    """Mark features whose slopes are not estimable, and say why; say why a fit is not trusted.

    A ridge keeps a fit finite, and does not make it one that can be trusted.
    """
    if fit.shrunk is not None and (fit.shrunk.lost_why or fit.shrunk.reasons):
        return fit.shrunk.lost[:d], fit.shrunk.lost_why, fit.shrunk.reasons
    lost, why = _not_estimable(design, family, fit, d)
    return lost, why, tuple(_reasons(design, family, fit.tested, d))


def reach_of_ratio(design: Design, errors: FloatArray) -> FloatArray:
    """Return the factor by which intervals of odds or rates ratios reach past their estimates.

    Over a step of the feature: from one of two values to the other, or two standard deviations. A
    variable has two values where its variance is as large as its mean and its ends allow.
    """
    d = errors.shape[-1]
    low, high = (each[:d] for each in design.ends)
    two_valued = np.abs(-low * high - 1) < _TWO_VALUED
    step = np.where(two_valued, high - low, np.minimum(high - low, 2.0))
    return np.asarray(np.exp(np.minimum(_NORMAL * errors * step, _LARGEST_STEP)))


def outcome_sd(design: Design, family: Family, fit: LikelihoodFit) -> float:
    """Return the outcome's standard deviation on the link's scale: sd(y) over d mean/d eta.

    That of an ordinal outcome is of its latent variable. Where neither counts nor means were
    published it is the model's, at the mean of the features.
    """
    found = published_spread(fit)
    if family.free_shape or found is None:
        shift = int(design.fit_intercept)
        slopes, gram = fit.theta[shift:], design.gram(np.zeros(design.n_parameters), unweighted)
        spread = float(slopes @ gram[shift:, shift:] @ slopes) / design.n_people
        level = np.array([0.0 if family.free_shape or not shift else fit.theta[0]])
        steep = 1.0 if family.free_shape else float(family.mean_derivative(level)[0])
        noise = float(family.variance(level, fit.nuisance)[0])
        return float(np.sqrt(noise / max(steep**2, 1e-300) + spread))
    mean, spread = found
    inside = family.domain.low < mean < family.domain.high
    level = family.link(np.array([mean]) if inside else family.interior(np.array([mean])))
    variance = max(spread, float(family.variance(level, fit.nuisance)[0]))
    return float(np.sqrt(variance) / max(abs(float(family.mean_derivative(level)[0])), 1e-300))


def published_spread(fit: LikelihoodFit) -> tuple[float, float] | None:
    """Return mean and variance of the outcome as published, over all tables; None of neither.

    Counts may be noisy: they are no more than weights.
    """
    people, values = [], []
    for table in fit.tables:
        counts, means = table.counts, table.means
        known = counts.known & (counts.n_bins > 1)
        people.append((np.maximum(counts.count, 0.0) * counts.valid())[known].ravel())
        values.append(representative_values(counts)[known].ravel())
        if means is not None:
            told = np.isfinite(means) & ~known
            people.append(counts.n[told].astype(float))
            values.append(means[told])
    weight, value = np.concatenate(people), np.concatenate(values)
    if not weight.sum() > 0:
        return None
    mean = float(weight @ value / weight.sum())
    return mean, float(weight @ (value - mean) ** 2 / weight.sum())


# -- coefficients ----------------------------------------------------------------------------------


def constant_features(design: Design) -> str | None:
    """Say which features do not vary, so that their slopes are not estimable; None if all do."""
    constant = np.flatnonzero(~design.varies)
    if not len(constant):
        return None
    columns = first_few(list(map(str, constant)))
    return (
        f"not estimable: {len(constant)} of {len(design.varies)} features are the same for "
        f"everybody (counted from 0: {columns}), and the intercept takes up their effect; drop them"
    )


def _not_estimable(
    design: Design, family: Family, fit: LikelihoodFit, d: int
) -> tuple[BoolArray, str]:
    """Mark the features whose slopes are not estimable, and say why."""
    shift = int(design.fit_intercept)
    none, lost = np.zeros(d, dtype=bool), ~design.varies[:d]
    constant = constant_features(design)
    if fit.n_blocks == 0:
        return ~none, (
            "not estimable: what was published does not change with the coefficients; publish "
            "finer bins"
        )
    if d and fit.known is None and max(table.n_blocks for table in fit.tables) == 1:
        return ~none, (
            "not estimable: a single block does not tell the coefficients, every assignment "
            "of its targets to its people fits about as well; publish the table for several blocks"
        )
    if fit.status is Status.POOLED:
        return ~none, (
            "not estimable: no slopes were found that explain the table better than slopes of 0; "
            "the family may be wrong (try family='ordinal'), or add a ridge with alpha"
        )
    if d and _scale_is_free(family, fit):
        return ~none, (
            "not estimable: two bins shared by all blocks tell the slopes only in units of "
            "the noise; publish three or more bins, or use family='ordinal'"
        )
    flat = without_information(fit.information, len(fit.theta))[shift : shift + d]
    if flat[design.varies[:d]].any():
        return lost | flat, constant or (
            "not estimable: some combination of the features does not change what was published; "
            "drop features or publish finer bins"
        )
    diverged = _diverged(design, family, fit)[:d]
    if diverged.any():
        return lost | diverged, constant or (
            "not estimable: a slope diverged, one feature alone would change the mean more than a "
            "million times; add a ridge with alpha, or drop the feature"
        )
    return lost, constant or ""


def without_information(information: FloatArray, n_theta: int) -> BoolArray:
    """Mark the parameters that some direction without information moves.

    Intercept and nuisance parameters are included: the slope of a rare feature whose people all lie
    beyond the last edge can grow without bound if the intercept makes up for it. Theta, the first
    ``n_theta``, is in the units of the outcome, nuisance parameters are not: each is held against
    its like. A scale that went to 0 tells nothing, of the slopes either.
    """
    size = np.sqrt(np.maximum(np.diag(information), 0.0))
    theta, nuisance = size[:n_theta], size[n_theta:]
    told = np.concatenate(
        [
            theta > 1e-5 * theta.max(initial=0.0),
            nuisance > max(1e-5 * nuisance.max(initial=0.0), _LEAST_NUISANCE),
        ]
    )
    scaled = information[np.ix_(told, told)] / np.outer(size[told], size[told])
    values, vectors = np.linalg.eigh(scaled)
    loading = (vectors[:, values < _SMALLEST_EIGENVALUE] ** 2).max(axis=1, initial=0.0)
    found = np.asarray(~told)
    found[told] = loading > _LOADING
    return found


def _diverged(design: Design, family: Family, fit: LikelihoodFit) -> BoolArray:
    """Mark slopes that ran away, on a log or logit scale: by what they do to eta over a range.

    Strong slopes of a logit may do as much, and are told apart by their errors.
    """
    shift = int(design.fit_intercept)
    slopes = fit.theta[shift:]
    if np.isinf(family.domain.low) or not len(slopes):
        return np.zeros(len(slopes), dtype=bool)
    far = np.abs(slopes) * design.ranges > _LARGEST_STEP
    if np.isinf(family.domain.high):
        return np.asarray(far)
    variance = np.diag(fit.covariance)[shift : shift + len(slopes)]
    errors = np.sqrt(np.maximum(variance, 0.0)) * design.ranges
    return np.asarray(far & ((errors > _LARGEST_STEP_ERROR) | (variance <= 0)))


def _scale_is_free(family: Family, fit: LikelihoodFit) -> bool:
    """Tell whether two shared bins are all there is of a family with a scale or dispersion."""
    two = all(
        t.counts.shared and t.counts.n_bins <= 2 and t.means is None and t.quantiles is None
        for t in fit.tables
    )
    several = fit.counts.shared and fit.counts.n_bins > 2  # their edges differ
    return two and not several and fit.known is None and bool(family.nuisance_names)


# -- the fit ---------------------------------------------------------------------------------------


def _reasons(design: Design, family: Family, fit: LikelihoodFit, d: int) -> list[str]:
    """Return why a fit is not to be trusted."""
    found = []
    if not fit.status.converged:
        found.append(
            "the fit did not converge, so that neither its coefficients nor their errors can be "
            "trusted"
        )
    needed = BLOCKS_PER_SLOPE * (len(design.scale) + 2)
    if d and fit.alone and fit.n_blocks < needed:
        found.append(
            f"{fit.n_blocks} blocks are too few for {len(design.scale)} slopes, at least {needed} "
            "are needed for a standard error to be trusted"
        )
    if _diverged(design, family, fit).any():
        found.append("a slope diverged: some features separate the outcomes")
    by_model = not fit.alone and fit.errors is not Errors.CR3
    if by_model and fit.goodness.ratio > LARGEST_MISFIT:
        found.append(
            f"the tables differ from the model {fit.goodness.ratio:.1f} times as much as it says, "
            "and standard errors of several tables rest on it: the family is wrong, or effects are "
            f"not what the features say; try {_options(family, fit, _ORDINAL, 'curved effects')}"
        )
    if fit.unclear is not None and fit.unclear.any():
        which = ", ".join(f"feature {j}" for j in np.flatnonzero(fit.unclear))
        found.append(
            f"the table does not tell the sign of the effect within blocks of {which}: a fit with "
            "the opposite one is about as likely; add a table by it, or people whose outcome is "
            "known"
        )
    tests = fit.specification
    if tests is None:
        return found
    if drowned(design, family, fit):
        found.append(
            "effects of blocks are so large that a single table does not tell the sign of slopes, "
            "whose size is read off shapes; try "
            f"{_options(family, fit, _ROBUST, 'more tables')}"
        )
    worst = worst_extension(tests.extensions)
    if fit.levels and family_rejected(fit):  # which explains the context too
        worst = min(tests.extensions, key=lambda each: each.p_value)
    elif shape_rejects(design, fit, d):
        found.append(
            "levels and shapes of the blocks' histograms give different slopes (shape test, p = "
            f"{tests.shape.p_value:.2g}): {_apart(design, family, fit, d)}"
        )
    elif tests.context.p_value < CONTEXT_LEVEL and len(design.scale) == d:
        found.append(
            "block means of the features have effects of their own (score test, p = "
            f"{tests.context.p_value:.2g}): {_EITHER}; try "
            f"{_options(family, fit, _ORDINAL, 'contextual=True', 'more tables')}"
        )
    if worst is not None:
        found.append(_extension_text(worst, family, fit))
    return found


_ORDINAL, _ROBUST = "family='ordinal'", "robust=True"


def _apart(design: Design, family: Family, fit: LikelihoodFit, d: int) -> str:
    """Say why levels and shapes tell different slopes, and what to try.

    Where blocks differ for reasons of their own the family fits within them.
    """
    if family_rejected(fit):
        tried = _options(family, fit, _ORDINAL, _ROBUST, "curved effects", "more tables")
        return f"{_EITHER}; try {tried}"
    contextual = () if len(design.scale) > d else ("contextual=True",)
    return (
        "as no other test speaks against the family, blocks probably differ for reasons related to "
        f"the features; try {_options(family, fit, *contextual, 'more tables')}"
    )


def _options(family: Family, fit: LikelihoodFit, *options: str) -> str:
    """Return what may help, without what the fit is already or cannot be: "a, b or c"."""
    vain = {_ORDINAL} if family.free_shape else set()
    vain |= {_ROBUST} if fit.levels else set()
    left = [each for each in options if each not in vain]
    return " or ".join(filter(None, [", ".join(left[:-1]), left[-1]]))


def shape_rejects(design: Design, fit: LikelihoodFit, d: int) -> bool:
    """Tell whether levels and shapes tell different slopes.

    Of one table the test is all there is; with several of them it finds differences that matter to
    none of the slopes, which rest on levels.
    """
    tests = fit.specification
    if tests is None or not tests.shape.p_value < _shape_level(fit):
        return False
    if fit.alone or fit.location is None or fit.levels:
        return True
    features = slice(int(design.fit_intercept), int(design.fit_intercept) + d)
    errors = np.sqrt(np.maximum(np.diag(fit.covariance)[features], 1e-300))
    shift = np.abs(fit.location.theta - fit.theta)[features] / errors
    return bool((shift > LARGEST_SHIFT).any())


def drowned(design: Design, family: Family, fit: LikelihoodFit) -> bool:
    """Tell whether block effects drown the levels of blocks, which show the sign of slopes.

    Where features and noise are about normal the shape of a histogram says how large slopes are,
    not which sign they have. The full score then has roots on both sides, each with a small
    standard error. Other tables show the sign.
    """
    tests, location = fit.specification, fit.location
    settled = fit.levels or fit.context is not None or fit.block_sd == 0 or not fit.alone
    if tests is None or location is None or settled:
        return False
    if fit.n_blocks < FEW_WITH_EFFECTS:
        return True
    slopes = slice(int(design.fit_intercept), design.n_parameters)
    errors = np.sqrt(np.maximum(np.diag(location.covariance)[slopes], 0.0))[tests.share > SHAPED]
    return bool((errors > LARGEST_ERROR * outcome_sd(design, family, fit)).any())


def _shape_level(fit: LikelihoodFit) -> float:
    return SHAPE_LEVEL if fit.n_blocks >= MANY_BLOCKS else SHAPE_LEVEL_OF_FEW


def family_rejected(fit: LikelihoodFit) -> bool:
    """Tell whether an extension is significant, whether or not it would move a slope."""
    found = () if fit.specification is None else fit.specification.extensions
    return any(each.p_value < FAMILY_LEVEL / len(found) for each in found)


def worst_extension(extensions: tuple[Extension, ...]) -> Extension | None:
    """Return the extension that is most significant among those that would move a slope.

    The surer it is, the less it need move one: the shift is to first order only.
    """
    n = max(len(extensions), 1)
    telling = [
        each
        for each in extensions
        for level, least in EXTENSION_LEVELS
        if each.p_value < level / n and np.abs(each.shift).max(initial=0.0) > least
    ]
    return min(telling, key=lambda each: each.p_value, default=None)


def _extension_text(worst: Extension, family: Family, fit: LikelihoodFit) -> str:
    ordinal = "" if family.free_shape else f" or {_ORDINAL}"
    what, remedy = {
        "curvature": (
            f"the effect of feature {worst.feature} is curved",
            f"add its square or a spline{ordinal and f', or try {_ORDINAL}'}",
        ),
        "scale": (
            f"the spread of the outcome changes with feature {worst.feature}",
            f"try target_transform{ordinal}",
        ),
        "levels": (
            f"blocks of table {worst.feature + 1} differ by more than the features explain",
            "let the effect of what it is by be curved, or leave the table out",
        ),
        "shape": (
            "the outcome has another shape than the family's",
            f"try {_options(family, fit, _ORDINAL + ', which has none', _ROBUST)}",
        ),
    }[worst.kind]
    moves = f", which would move a slope by {np.abs(worst.shift).max():.1f} standard errors"
    if fit.levels:
        moves = ": slopes, which are from levels, are right as far as the mean is"
    return f"{what} (p = {worst.p_value:.2g}){moves}; {remedy}"
