"""How far a fit can be trusted, in numbers and in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from unbin._html import sentences
from unbin._linalg import largest, solve_scaled
from unbin._typing import FloatArray, IntArray, TextArray
from unbin.families import Family
from unbin.likelihood.infer.alike import alike
from unbin.likelihood.infer.estimate import (
    Errors,
    FittedTable,
    GoodnessOfFit,
    LikelihoodFit,
    ShrunkFit,
    wald_test,
    worst_blocks,
)
from unbin.likelihood.infer.evidence import told_by_person
from unbin.likelihood.infer.specification import Extension, Test
from unbin.likelihood.infer.verdicts import (
    NOT_ESTIMABLE,
    Verdict,
    constant_features,
    family_rejected,
    judge,
)
from unbin.likelihood.thresholds import (
    BLOCKS_PER_SLOPE,
    FEWEST_GROUPS,
    MANY_IDS,
    SHAPE_LEVEL_OF_FEW,
    SHAPED,
)
from unbin.release import Release
from unbin.release.join import distinct_names
from unbin.release.words import first_few
from unbin.rows.design import Design

_LEVEL = 0.05
_MOST_INFLUENTIAL = 20


@dataclass(frozen=True, slots=True)
class Influence:
    """The blocks that move the coefficients most, the first of them first.

    Attributes
    ----------
    table : (k,)
        Which of several tables each block is of; 0 of a single one.
    block : (k,) text
    shift : (k, d)
        How much of each coefficient is lost when the block is left out, in standard errors, to
        first order (DFBETAS).
    """

    table: IntArray
    block: TextArray
    shift: FloatArray


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """What the release tells, how precisely, and how well the model fits it.

    Attributes
    ----------
    identified : bool
        Whether every coefficient is estimable; with one block alone none is.
    reason : str
        The verdict in a sentence.
    trusted : bool
        Whether the fit may be used as it is: every coefficient is estimable, it converged, rests on
        enough blocks, no slope diverged, and the specification tests do not speak against it.
    reasons : tuple of str
        Why it may not, a sentence each.
    verdicts : tuple of str
        Of each coefficient: "estimated", "imprecise" or "not estimable".
    precision : (d,) or None
        Standard errors as shares of sd(outcome on the link's scale)/sd(feature); above .2 a
        coefficient is imprecise, as it is where an odds or rates ratio is known to a factor of 2.
    shape : Test or None
        That levels and shapes of the blocks' histograms tell the same slopes; F. Rejected, the
        family is wrong, or blocks differ for reasons related to the features.
    shape_share : (d,) or None
        The share of the information on each coefficient that comes from the shape of histograms
        within blocks; near 0 it comes from differences between blocks alone. None of slopes that
        are from levels.
    location_coef, location_standard_errors : (d,) or None
        Coefficients from the blocks' levels alone (see ``robust``), to first order.
    extensions : tuple of Extension
        That effects are not curved, scales do not change with features, and edges lie where the
        family says; of several tables that their blocks have no levels of their own.
    context : Test or None
        That block means of the features have no effect of their own: ecological bias, from the fit
        without them.
    goodness_of_fit : GoodnessOfFit or None
        Misfit Q of the published statistics, its degrees of freedom, their ratio (1 for a model
        that fits) and its p value.
    worst_blocks : tuple of str
        The blocks whose tables fit worst, worst first.
    efficiency : (d,) or None
        Relative efficiency of each coefficient: the variance the oracle would have over the
        variance from this release.
    block_sd : float
        Standard deviation of the random block intercept; 0 where none shows.
    warnings : tuple of str
        Plain sentences about what to keep in mind.
    tables : tuple of str
        The tables of a fit to several; last "observed", if the outcome of some people is known.
    information : (T, d) or None
        The share of each of them in the information on each coefficient; columns sum to 1.
    influence : Influence or None
        The blocks whose absence would move a coefficient most; at most twenty.
    """

    identified: bool
    reason: str
    trusted: bool = True
    reasons: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    precision: FloatArray | None = None
    shape: Test | None = None
    shape_share: FloatArray | None = None
    location_coef: FloatArray | None = None
    location_standard_errors: FloatArray | None = None
    extensions: tuple[Extension, ...] = ()
    context: Test | None = None
    goodness_of_fit: GoodnessOfFit | None = None
    worst_blocks: tuple[str, ...] = ()
    efficiency: FloatArray | None = None
    block_sd: float = 0.0
    warnings: tuple[str, ...] = field(default=())
    tables: tuple[str, ...] = ()
    information: FloatArray | None = None
    influence: Influence | None = None

    @classmethod
    def of_status(
        cls, design: Design, *, identified: bool, trusted: bool, reason: str
    ) -> Diagnostics:
        """Return the diagnostics of a method that reports only its status."""
        constant = constant_features(design)
        if constant is not None:
            return cls(False, constant, trusted=False, reasons=(constant,))
        return cls(identified, reason, trusted=trusted, reasons=() if trusted else (reason,))

    def sentences(self) -> tuple[str, ...]:
        """Return everything worth reading, most important first."""
        found = [self.reason, *(reason for reason in self.reasons if reason not in self.reason)]
        fit = self.goodness_of_fit
        if fit is not None and np.isfinite(fit.p_value):
            p = "p < 0.001" if fit.p_value < 0.001 else f"p = {fit.p_value:.3f}"
            found.append(f"goodness of fit: Q/df = {fit.ratio:.2f} ({p})")
        if self.block_sd > 0:
            found.append(
                f"block effects: people of a block share an effect of standard deviation "
                f"{self.block_sd:.2g} on the linear predictor, which the fit allows for"
            )
        return (*found, *self.warnings)

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        first, *others = self.sentences()
        return sentences(first, others)


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


def diagnose(
    design: Design,
    names: Sequence[str],
    releases: Sequence[Release],
    family: Family,
    fit: LikelihoodFit,
    d: int,
) -> Diagnostics:
    """Judge a likelihood fit; the first ``d`` slopes are of features, further ones contextual.

    ``names`` are those of several tables, empty for a single one.
    """
    block = np.concatenate([own.blocks for own in releases])
    table = np.repeat(names or ("",), [len(own) for own in releases])
    worst = tuple(f"{table[b]} {block[b]}".strip() for b in worst_blocks(fit))
    judged = _judged(design, family, fit, d, worst, _alike_text(names, releases, fit))
    found = replace(judged, influence=influence_of(design, releases, fit, d))
    if fit.alone:
        return found
    shares = [table.share for table in fit.tables]
    if fit.known_share is not None:
        shares.append(fit.known_share)
    observed = fit.known is not None
    return replace(
        found, tables=told_by(names, observed=observed), information=np.stack(shares)[:, :d]
    )


def influence_of(
    design: Design, releases: Sequence[Release], fit: LikelihoodFit, d: int
) -> Influence | None:
    """Return the blocks of one or several tables that move a coefficient most."""
    moved = [table.influence for table in fit.tables if table.influence is not None]
    if len(moved) < len(fit.tables):
        return None
    first = int(design.fit_intercept)
    shift = np.concatenate(moved)[:, first : first + d]
    table = np.repeat(np.arange(len(moved)), [len(each) for each in moved])
    block = np.concatenate([release.blocks for release in releases])
    order = largest(np.abs(shift).max(axis=1, initial=0.0), _MOST_INFLUENTIAL)
    return Influence(table[order], block[order], shift[order])


def told_by(tables: Sequence[str], *, observed: bool) -> tuple[str, ...]:
    """Return what the information of a fit to several tables comes from, by name."""
    return distinct_names([*tables, "observed"]) if observed else tuple(tables)


def _alike_text(names: Sequence[str], releases: Sequence[Release], fit: LikelihoodFit) -> str:
    """Say which blocks belong together that the fit takes to be independent; empty if none."""
    if fit.clusters is not None or not fit.status.converged or np.isinf(fit.df_residual):
        return ""
    # the coarsest table: blocks of finer ones share effects that the fit allows for
    many = [t for t, own in enumerate(releases) if len(own) >= MANY_IDS]
    t = min(many, key=lambda t: len(releases[t]), default=-1)
    found = alike(releases[t].blocks, fit.tables[t].block_residual) if many else None
    if found is None:
        return ""
    one, other = found.example
    column = names[t] if names and names[t].isidentifier() else "blocks"
    return (
        f"blocks that belong together, as {one!r} and {other!r}, have levels that are alike "
        f"(intraclass correlation {found.correlation:.2f} in {found.n_groups} groups, p = "
        f"{found.p_value:.2g}), so that errors by block are too small; add a feature that they "
        f"share, or pass cluster={column}{found.how} (--cluster, a column)"
    )


def _judged(
    design: Design,
    family: Family,
    fit: LikelihoodFit,
    d: int,
    worst: tuple[str, ...],
    alike: str,
) -> Diagnostics:
    """Judge a fit whose tables differ most from it in the blocks of these names."""
    verdict, tests = judge(design, family, fit, d), fit.tested.specification
    if alike:
        verdict = replace(verdict, reasons=(alike, *verdict.reasons))
    context = contextual_test(design, fit, d) or (None if tests is None else tests.context)
    found = Diagnostics(
        identified=NOT_ESTIMABLE not in verdict.coefficients and not verdict.why,
        reason="",
        trusted=not (verdict.why or verdict.reasons),
        reasons=(verdict.why, *verdict.reasons) if verdict.why else verdict.reasons,
        verdicts=verdict.coefficients,
        precision=verdict.precision,
        shape=None if tests is None else tests.shape,
        shape_share=None if tests is None or fit.levels else tests.share[:d],
        extensions=() if tests is None else tests.extensions,
        context=context,
        goodness_of_fit=fit.goodness,
        worst_blocks=worst,
        efficiency=efficiency(design, family, fit)[:d],
        block_sd=fit.block_sd,
        warnings=tuple(_notes(design, fit, context, d)),
    )
    coef, errors = _location(design, fit, d)
    return replace(
        found,
        reason=_reason(fit, verdict),
        location_coef=coef,
        location_standard_errors=errors,
    )


def _location(
    design: Design, fit: LikelihoodFit, d: int
) -> tuple[FloatArray | None, FloatArray | None]:
    """Return the coefficients from the blocks' levels alone, in units of X."""
    location = fit.tested.location
    if location is None:
        return None, None
    shift = int(design.fit_intercept)
    features, scale = slice(shift, shift + d), design.scale[:d]
    variance = np.diag(location.covariance)[features]
    return location.theta[features] / scale, np.sqrt(np.maximum(variance, 0.0)) / scale


def contextual_test(design: Design, fit: LikelihoodFit, d: int) -> Test | None:
    """Test that all slopes after the first ``d``, contextual effects, are 0; None without any."""
    context = slice(int(design.fit_intercept) + d, design.n_parameters)
    if context.start == context.stop:
        return None
    if fit.context is not None and np.isfinite(fit.context.p_value):
        return fit.context
    found = wald_test(fit.theta[context], fit.covariance[context, context])
    return Test(found.statistic, found.df, np.inf, found.p_value)


def has_context(design: Design, fit: LikelihoodFit, d: int) -> bool:
    """Tell whether contextual effects are significant."""
    test = contextual_test(design, fit, d)
    return test is not None and test.p_value < _LEVEL


# -- sentences -------------------------------------------------------------------------------------


def _reason(fit: LikelihoodFit, verdict: Verdict) -> str:
    """Return the verdict in a sentence."""
    n_blocks = sum(table.n_blocks for table in fit.tables) if len(fit.tables) > 1 else fit.n_blocks
    tests = fit.tested.specification
    told = "no specification test speaks against the fit"
    if tests is None:
        told = "the specification was not tested"
    elif fit.levels and tests.shape.p_value < SHAPE_LEVEL_OF_FEW:
        told = "no other specification test speaks against the fit"
    elif np.isnan(tests.shape.p_value) and any(map(_one_value, fit.tables)):
        told += (
            "; one value of a block does not tell the shape of the outcome, which was not tested"
        )
    told = f"{n_blocks:,} blocks, {told}"
    return verdict.summed_up(told, [f"feature {j}" for j in range(len(verdict.coefficients))])


def _one_value(table: FittedTable) -> bool:
    """Tell whether a table has one order statistic of each block."""
    return table.quantiles is not None and table.quantiles.value.shape[1] == 1


def _notes(
    design: Design,
    fit: LikelihoodFit,
    context: Test | None,
    d: int,
) -> list[str]:
    """Return what else to keep in mind."""
    found = []
    if fit.shrunk is not None:
        found.append(_shrinkage_note(design, fit, fit.shrunk))
    if fit.levels:
        found.append(
            "slopes are estimated from the levels of blocks alone, not from the shape of their "
            f"histograms, because {fit.levels}"
        )
    if fit.clusters is not None and fit.clusters.by is not None:
        found += _cluster_notes(fit, fit.clusters.n)
    elif fit.clusters is not None and fit.errors is Errors.MODEL:
        found.append(
            "standard errors are the model's, of which effects of clusters are a part where they "
            "show: no table is by clusters, or by blocks that lie in them"
        )
    tests = fit.tested.specification
    explained = bool(fit.levels) and family_rejected(fit.tested)
    if context is not None and context.p_value < _LEVEL and not explained:
        found.append(_context_note(design, fit, context, d))
    if tests is not None and not fit.levels and (tests.share[:d] > SHAPED).any():
        found.append(_shape_note(tests.share[:d]))
    return found


def _cluster_notes(fit: LikelihoodFit, n: int) -> list[str]:
    """Say what errors by few clusters are worth."""
    if np.isinf(fit.df_residual):
        return [
            "standard errors are the model's, as large tables, or tables and a sample, cross: "
            "effects of clusters are part of them where they show"
        ]
    if fit.errors in (Errors.MODEL, Errors.SCALED):
        return [
            f"{n} clusters are too few for errors by cluster: these are the model's, and too small "
            "if clusters differ"
        ]
    if n >= FEWEST_GROUPS:
        return []
    return [
        f"{n} clusters are few: intervals have {fit.df_residual:.0f} degrees of freedom, are wide, "
        "and hold only roughly; effects of clusters are not estimated"
    ]


def _shape_note(share: FloatArray) -> str:
    """Name the coefficients that are told by shapes, and the share of their information."""
    shaped = np.flatnonzero(share > SHAPED)
    which = first_few([f"feature {j} ({share[j]:.0%})" for j in shaped])
    return (
        f"{len(shaped)} of {len(share)} coefficients rest mostly on the shape of histograms within "
        f"blocks, which only the right family reads rightly: {which}"
    )


def _shrinkage_note(design: Design, fit: LikelihoodFit, shrunk: ShrunkFit) -> str:
    """Say how ``coef_``, which predicts, differs from the estimates that are shown."""
    if np.isinf(shrunk.alpha):
        return f"coef_ and predictions: the evidence ridge leaves no slopes, because {shrunk.why}"
    first = int(design.fit_intercept)
    ours, full = (np.linalg.norm(each[first:]) for each in (shrunk.theta, fit.theta))
    share = f"to {ours / full:.0%} of their length, " if full > 0 else ""
    return (
        f"coef_ and predictions: slopes are shrunk by the evidence ridge (alpha = "
        f"{shrunk.alpha:.2g}) {share}because {shrunk.why}; estimates and their errors are not"
    )


def _law(test: Test) -> str:
    """Return a statistic and what it is compared with."""
    if np.isinf(test.df_residual):
        return f"chi2 = {test.statistic:.1f} on {test.df:.0f}"
    return f"F = {test.statistic:.1f} on {test.df:.0f} and {test.df_residual:.0f}"


def _context_note(design: Design, fit: LikelihoodFit, context: Test, d: int) -> str:
    note = (
        "ecological bias: block means of the features have effects of their own "
        f"({_law(context)}, p = {context.p_value:.2g})"
    )
    fitted = len(design.scale) > d
    if fitted or not fit.alone or fit.n_blocks < BLOCKS_PER_SLOPE * (2 * d + 2):
        return note
    return (
        f"{note}; contextual=True separates them, but with one table effects within blocks rest on "
        "the shape of histograms"
    )
