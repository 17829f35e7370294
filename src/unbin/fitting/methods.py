"""The methods: each turns laid-out rows and what was published into a fit in the units of X."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from unbin._frames import OUTSIDE
from unbin._linalg import solve_scaled
from unbin._typing import FloatArray, IntArray
from unbin._watching import Status, unwatched
from unbin.exceptions import ParameterError
from unbin.families import BregmanFamily, Family, Interval, get_family
from unbin.fitting.checkpoint import checkpointed, discard, fingerprint
from unbin.fitting.clusters import check_nested
from unbin.fitting.model import BinScale, ClusterFit, Clusters, Fit, Settings, Shrunk, TableFit
from unbin.fitting.observed import fit_observed
from unbin.fitting.published import means_of, published_of, quantiles_of
from unbin.likelihood.data.counts import representative_values
from unbin.likelihood.data.layout import arrange
from unbin.likelihood.data.problem import KnownPeople
from unbin.likelihood.fit import fit_likelihood
from unbin.likelihood.impute.joint import JointRaking
from unbin.likelihood.impute.posterior import Posterior
from unbin.likelihood.impute.raking import Raking
from unbin.likelihood.infer.choice import RIDGES, Candidate, Selection, candidate_families, choose
from unbin.likelihood.infer.diagnostics import Diagnostics, diagnose, has_context
from unbin.likelihood.infer.estimate import LikelihoodFit, goodness
from unbin.likelihood.infer.shrinkage import NO_SLOPES
from unbin.matching.bounds import rank_bounds
from unbin.matching.fit import fit_matching
from unbin.release import Release
from unbin.release.ends import known_ends
from unbin.release.join import Tables
from unbin.rows.cells import Cells
from unbin.rows.contextual import Context
from unbin.rows.design import Design
from unbin.rows.engines import Everybody
from unbin.rows.merging import merge_rows

_RESTARTS_IF_UNSURE = 4
_TELLING = ("method", "alpha", "contextual", "solver", "tol", "robust")
"""Settings that enter the fingerprint of a fit."""


def likelihood_fit(
    people: Everybody, release: Release | Tables, family: Family | None, settings: Settings
) -> Fit:
    """Fit the likelihood of what was published; choose what the settings leave open."""
    for each in _releases(release):
        if len(each.histogram.count) and len(each.order_statistics.value):
            rank_bounds(each, get_family("gaussian").domain)  # raises if they contradict each other
    d, tables = people.n_features, _releases(release)
    context = None if settings.contextual is False else people.context()
    layout, by_cell, codes, plan = settings.layout, context, None, None
    clusters, n_tables = None, len(tables)
    if n_tables > 1 or settings.clusters:
        people, crossed = people.crossed()
        names = release.names if isinstance(release, Tables) else ("",)
        check_nested(names, tables, crossed[:n_tables], settings.clusters, crossed[n_tables:])
        plan = arrange(tables, crossed[:n_tables], sampled=people.sampled)
        cells = Cells.arranged(crossed, plan.group)
        plan, codes = replace(plan, group=np.sort(plan.group)), cells.codes[:n_tables]
        clusters = cells.codes[n_tables:] if settings.clusters else None
        layout = replace(layout, cells=cells)
        if context is not None:  # every cell has that of its block
            by_cell = replace(context, means=context.means[crossed[0]])
    laid_out = {}
    if settings.contextual is not True:
        laid_out[False] = people.design(layout)
    if context is not None:
        laid_out[True] = people.design(layout, by_cell)
    designs = {contextual: merge_rows(design) for contextual, design in laid_out.items()}
    known = _known(people, release, designs, by_cell)
    stacked: dict[str, Any] = {"codes": codes, "plan": plan}
    model, selection = _choose(designs, release, known, stacked, family, settings)
    alpha = model.alpha if settings.alpha == "held-out" else settings.alpha

    def solve(contextual: bool) -> LikelihoodFit:
        with _kept(designs[contextual], release, model.family, settings) as start:
            found = fit_likelihood(
                designs[contextual],
                tables,
                model.family,
                people=known.get(contextual),
                alpha=alpha,
                start=start,
                tol=(10 * settings.tol) ** 2,
                max_iter=settings.max_iter,
                n_features=d,
                robust=settings.robust,
                clusters=clusters,
                **stacked,
            )
        if settings.options.checkpoint and found.status is not Status.INTERRUPTED:
            discard(settings.options.checkpoint)
        return found

    # whoever stopped the choice wants the best so far, not the first step towards it
    stopped = selection is not None and selection.stopped
    with unwatched() if stopped else nullcontext():
        contextual, found = model.contextual, solve(model.contextual)
        if len(designs) == 2 and contextual and not has_context(designs[True], found, d):
            contextual, found = False, solve(False)
    context = context if contextual else None
    found = _with_ends(found, release, model.family, settings)
    fit = _likelihood_result(designs[contextual], release, model, found, context, d)
    fit = replace(fit, **_of_clusters(settings.clusters, found))
    bare = found.without_influence()
    imputed = _imputed(laid_out[contextual], codes, release, model.family, bare)
    kept = None if imputed is None else laid_out[contextual]
    return replace(fit, selection=selection, imputed=imputed, people=kept)


def _releases(release: Release | Tables) -> tuple[Release, ...]:
    return release.releases if isinstance(release, Tables) else (release,)


def _of_clusters(clusters: Sequence[Clusters], found: LikelihoodFit) -> dict[str, Any]:
    """Return what a fit says of the larger blocks that were given."""
    fitted = found.clusters
    if fitted is None:
        return {}
    pairs = zip(clusters, fitted.sd, strict=True)
    each = tuple(ClusterFit(own.name, len(own.ids), sd) for own, sd in pairs)
    by = None if fitted.by is None else replace(each[fitted.by], n_clusters=fitted.n)
    return {"clusters": each, "by_clusters": by}


def _known(
    people: Everybody,
    release: Release | Tables,
    designs: dict[bool, Design],
    context: Context | None,
) -> dict[bool, KnownPeople]:
    """Return the people whose outcome is known, without and with contextual effects."""
    if not isinstance(release, Tables) or release.known is None:
        return {}
    told, found = release.known, {}
    codes = tuple(map(inside, release.releases, told.codes))
    for contextual, design in designs.items():
        rows = people.known(design, told.people, context if contextual else None)
        found[contextual] = KnownPeople(rows, told.values, codes)
    return found


def inside(release: Release, codes: IntArray) -> IntArray:
    """Return blocks of people, -1 of those outside the table."""
    return np.where(release.blocks[codes] == OUTSIDE, -1, codes)


def _with_ends(
    found: LikelihoodFit, release: Release | Tables, family: Family, settings: Settings
) -> LikelihoodFit:
    """Close the outermost bins of a free shape by what is known of the domain."""
    if not family.free_shape:
        return found
    tables = _releases(release)
    known = [known_ends(table, from_zero=settings.from_zero) for table in tables]
    known.append(settings.ends)
    ends = Interval(max(each.low for each in known), min(each.high for each in known))
    fits = tuple(replace(each, counts=each.counts.within(ends)) for each in found.tables)
    return replace(found, counts=found.counts.within(ends), tables=fits)


def _likelihood_result(
    design: Design,
    release: Release | Tables,
    model: Candidate,
    found: LikelihoodFit,
    context: Context | None,
    d: int,
) -> Fit:
    """Bring a fit of ``d`` features, and perhaps their context, to the units of X."""
    family, p = model.family, design.n_parameters
    told = found.told()[p - len(design.scale) : p]
    coef, intercept = _coefficients(design, found)
    covariance = design.to_coefficient_covariance(found.covariance[:p, :p], told)
    bins = _bin_scale(family, found, intercept)
    return Fit(
        family=family,
        alpha=model.alpha if found.shrunk is None else found.shrunk.alpha,
        coef=coef[:d],
        intercept=0.0 if bins is not None else intercept,
        contextual_coef=None if context is None else _widen(coef[d:], context),
        covariance=covariance,
        threshold_covariance=None if bins is None else _with_thresholds(design, found.covariance),
        errors=found.errors,
        nuisance=found.nuisance,
        dispersion=family.dispersion(found.nuisance),
        block_sd=found.block_sd,
        bins=bins,
        context=context,
        status=found.status,
        equation=found.equation,
        objective=-found.log_score,
        relative_gradient=float(np.sqrt(found.path[-1])) if found.path else float("nan"),
        path=np.array(found.path),
        n_iter=found.n_iter,
        n_people=_n_people(design, release),
        n_rows=design.n_rows,
        df_residual=found.df_residual,
        shrunk=_shrunk(design, found, context, d, ordinal=bins is not None),
        **_of_tables(design, release, family, found, d),
    )


def _coefficients(design: Design, found: LikelihoodFit) -> tuple[FloatArray, float]:
    """Return slopes and the intercept of the average person, in the units of X."""
    coef, intercept = design.to_coefficients(found.theta)
    return coef, intercept + (found.block_average if design.fit_intercept else 0.0)


def _shrunk(
    design: Design, found: LikelihoodFit, context: Context | None, d: int, *, ordinal: bool
) -> Shrunk | None:
    """Return what predicts where the evidence ridge acts."""
    if found.shrunk is None:
        return None
    coef, intercept = _coefficients(design, found.for_prediction())
    covariance, p = _shrunk_covariance(design, found), design.n_parameters
    known = np.ones(len(design.scale), dtype=bool)
    return Shrunk(
        coef=coef[:d],
        intercept=0.0 if ordinal else intercept,
        nuisance=found.shrunk.nuisance,
        contextual_coef=None if context is None else _widen(coef[d:], context),
        thresholds=found.shrunk.nuisance - intercept if ordinal else None,
        covariance=_with_thresholds(design, covariance)
        if ordinal
        else design.to_coefficient_covariance(covariance[:p, :p], known),
    )


def _shrunk_covariance(design: Design, found: LikelihoodFit) -> FloatArray:
    """Return the covariance of what predicts, (p, p), slopes as large as the ridge has them.

    With A the ridge it is (J + A)⁻¹ (J C J + A) (J + A)⁻¹, which is the posterior covariance
    (J + A)⁻¹ where C, the covariance without the ridge, is the model's J⁻¹.
    """
    assert found.shrunk is not None
    information, n = found.information, design.n_people
    ridge, first = np.zeros(len(information)), int(design.fit_intercept)
    ridge[first : design.n_parameters] = n * min(found.shrunk.alpha, NO_SLOPES) * design.varies
    bread = solve_scaled(information + np.diag(ridge), np.eye(len(ridge)))
    meat = information @ np.nan_to_num(found.covariance) @ information
    return np.asarray(bread @ (meat + np.diag(ridge)) @ bread)


def _with_thresholds(design: Design, covariance: FloatArray) -> FloatArray:
    """Return the covariance of slopes and thresholds in the units of X, from (theta, nuisance).

    The intercept is 0, its row and column too; what is not estimable is held at its estimate.
    """
    p, d, shift = design.n_parameters, len(design.scale), int(design.fit_intercept)
    m = len(covariance) - p
    jacobian = np.zeros((1 + d + m, p + m))
    jacobian[1 : 1 + d, shift:p] = np.diag(1 / design.scale)
    jacobian[1 + d :, shift:p] = design.center / design.scale
    jacobian[1 + d :, p:] = np.eye(m)
    return np.asarray(jacobian @ covariance @ jacobian.T)


def _n_people(design: Design, release: Release | Tables) -> int:
    """Return the people of a fit: those of the tables, and those who were taken out of them."""
    first, known = (
        (release, None) if isinstance(release, Release) else (release.first, release.known)
    )
    counted = int(first.n.sum()) if design.sampled else design.n_people
    return counted if known is None or known.disjoint else counted + round(known.people.sum())


def _of_tables(
    design: Design, release: Release | Tables, family: Family, found: LikelihoodFit, d: int
) -> dict[str, Any]:
    """Return what a fit says of its table, or of each of several."""
    whole = family.domain.integer
    if isinstance(release, Release):
        fit, public = found.first, release.public
        return {
            "diagnostics": diagnose(design, (), (release,), family, found, d),
            "n_blocks": len(release.n),
            "published": published_of(fit, release.blocks, whole=whole, public=public),
            "means": means_of(fit, release.blocks, public=public),
            "quantiles": quantiles_of(fit, release.blocks, public=public),
        }
    known = release.known
    less_known = known is not None and not known.disjoint
    tables = tuple(
        TableFit(
            name=name,
            n_people=int(own.n[own.has_statistics()].sum()),
            n_blocks=fit.n_blocks,
            block_sd=fit.block_sd,
            goodness_of_fit=goodness(fit.block_misfit, fit.block_df, float(fit.block_df.sum())),
            published=published_of(
                fit, own.blocks, whole=whole, public=own.public, less_known=less_known
            ),
            means=means_of(fit, own.blocks, public=own.public, less_known=less_known),
        )
        for name, own, fit in zip(release.names, release.releases, found.tables, strict=True)
    )
    return {
        "diagnostics": diagnose(design, release.names, release.releases, family, found, d),
        "n_blocks": sum(len(own.n) for own in release.releases),
        "n_observed": 0 if known is None else round(known.people.sum()),
        "published": tables[0].published,
        "tables": tables,
    }


def _imputed(
    design: Design,
    codes: IntArray | None,
    release: Release | Tables,
    family: Family,
    found: LikelihoodFit,
) -> Raking | JointRaking | None:
    """Return what imputes the targets of all rows, where they are in memory."""
    if design.rows is None:
        return None
    found = found.for_prediction()
    if isinstance(release, Release):
        if codes is None or codes.shape[1] == len(release):
            return Raking.of(design, release, family, found)
        release = Tables(("",), (release,))  # its blocks cross clusters
    counts = [fit.counts for fit in found.tables]
    posterior = Posterior(design, family, found)
    theta, nuisance = found.theta, found.nuisance
    return JointRaking(design, codes, release, counts, family, theta, nuisance, posterior)


def matching_fit(
    people: Everybody, release: Release | Tables, family: Family | None, settings: Settings
) -> Fit:
    """Fit the paper's estimator."""
    if settings.clusters:
        raise ParameterError(
            "cluster: is for standard errors, which matching, the paper's, has none of; use "
            "method='likelihood', or leave it out"
        )
    if isinstance(release, Tables):
        if release.known is not None:
            raise ParameterError(
                f"method: matching, the paper's, takes a table alone, got one and "
                f"{len(release.known.values):,} outcomes that are known; use method='likelihood'"
            )
        raise ParameterError(
            f"method: matching, the paper's, takes one table, got {len(release.releases)} of the "
            "same people; use method='likelihood'"
        )
    family, alpha = _named(family, settings)
    if not isinstance(family, BregmanFamily):
        raise ParameterError(
            f"family: {family.name!r} has no divergence to match by; use method='likelihood', or "
            "gaussian, poisson or binomial"
        )
    design = people.design(settings.layout)
    with _kept(design, release, family, settings) as found:
        fit = fit_matching(
            design,
            release,
            family,
            alpha=alpha,
            solver=settings.solver,
            init=_init(settings.init, design),
            start=found,
            n_init=_number_of_starts(settings.n_init, len(release), design.n_parameters),
            tol=settings.tol,
            max_iter=settings.max_iter,
            rng=np.random.default_rng(settings.layout.seed),
        )
    solution = fit.solution
    if solution.status is not Status.INTERRUPTED:
        discard(settings.options.checkpoint)
    coef, intercept = design.to_coefficients(solution.theta)
    return Fit(
        family=family,
        alpha=alpha,
        coef=coef,
        intercept=intercept,
        nuisance=np.array([0.5 * np.log(max(fit.spread, 1e-300))])[: len(family.nuisance_names)],
        dispersion=fit.spread if family.nuisance_names else 1.0,
        status=solution.status,
        objective=solution.value,
        relative_gradient=solution.relative_gradient,
        restart_disagreement=fit.restart_disagreement,
        path=np.array(solution.path),
        n_iter=solution.n_iter,
        diagnostics=Diagnostics.of_status(
            design,
            identified=solution.status.identified,
            trusted=solution.status.identified and solution.status.converged,
            reason=solution.status.value,
        ),
        imputed=fit.z,
        n_people=design.n_people,
        n_rows=design.n_rows,
        n_blocks=len(release),
    )


def observed_fit(
    people: Everybody, y: FloatArray, family: Family | None, settings: Settings
) -> Fit:
    """Fit the ordinary GLM to observed targets."""
    family, alpha = _named(family, settings)
    design = people.design(settings.layout)
    found = fit_observed(design, y, family, alpha=alpha, max_iter=settings.max_iter)
    solution = found.solution
    coef, intercept = design.to_coefficients(solution.theta[: design.n_parameters])
    return Fit(
        family=family,
        alpha=alpha,
        coef=coef,
        intercept=intercept,
        covariance=design.to_coefficient_covariance(found.covariance, found.told),
        nuisance=found.nuisance,
        dispersion=family.dispersion(found.nuisance),
        status=solution.status,
        objective=solution.value,
        relative_gradient=solution.relative_gradient,
        path=np.array(solution.path),
        n_iter=solution.n_iter,
        diagnostics=Diagnostics.of_status(
            design,
            identified=not found.complaint,
            trusted=not found.complaint and solution.status.converged,
            reason=found.complaint or solution.status.value,
        ),
        n_people=design.n_people,
        n_rows=design.n_rows,
        n_blocks=1,
        people=design if design.rows is not None else None,
    )


METHODS: dict[str, Callable[..., Fit]] = {
    "likelihood": likelihood_fit,
    "matching": matching_fit,
    "observed": observed_fit,
}
"""Every method by its name; observed targets take the last, whatever was asked for."""


def _choose(
    designs: dict[bool, Design],
    release: Release | Tables,
    known: dict[bool, KnownPeople],
    stacked: dict[str, Any],
    family: Family | None,
    settings: Settings,
) -> tuple[Candidate, Selection | None]:
    """Take the model the settings name, or the best on held-out blocks."""
    asked = settings.alpha
    alpha = 0.0 if asked is None or isinstance(asked, str) else asked
    if family is not None and asked != "held-out" and len(designs) == 1:
        return Candidate(family, alpha, next(iter(designs))), None
    tables = _releases(release)
    families = [family] if family else candidate_families(tables, settings.n_trials)
    if isinstance(release, Tables) and release.known is not None:
        values = release.known.values
        families = [each for each in families if each.domain.contains(values)]
    alphas = RIDGES if asked == "held-out" else None
    return choose(designs, tables, families, alphas, alpha, known=known, **stacked)


def _named(family: Family | None, settings: Settings) -> tuple[Family, float]:
    """Return family and alpha where nothing can be chosen on held-out blocks."""
    if family is None or isinstance(settings.alpha, str) or settings.contextual is None:
        raise ParameterError(
            "auto: family, alpha and contextual are chosen by method='likelihood' and an "
            "aggregated target, got another fit; name them"
        )
    return family, settings.alpha or 0.0


def _kept(
    design: Design, release: Release | Tables, family: Family, settings: Settings
) -> AbstractContextManager[FloatArray | None]:
    """Save the coefficients of a fit to its checkpoint, and start from any saved before."""
    if settings.options.checkpoint is None:
        return nullcontext()
    told = {"family": family, "fit_intercept": settings.layout.fit_intercept}
    told |= {name: getattr(settings, name) for name in _TELLING}
    tables = _releases(release)
    fit = fingerprint(tables, design.center, design.scale, told)
    return checkpointed(settings.options.checkpoint, fit)


def _bin_scale(family: Family, found: LikelihoodFit, intercept: float) -> BinScale | None:
    if not family.free_shape:
        return None
    counts = found.counts
    value = representative_values(counts)[0]
    thresholds = found.nuisance - intercept
    return BinScale(thresholds, counts.lower, counts.upper, value, counts.whole)


def _widen(coef: FloatArray, context: Context) -> FloatArray:
    result = np.full(len(context.used), np.nan)
    result[context.used] = coef
    return result


def _number_of_starts(n_init: str | int, n_blocks: int, n_parameters: int) -> int:
    if n_init == "auto":
        return 1 if n_blocks > n_parameters else _RESTARTS_IF_UNSURE
    return int(n_init)


def _init(init: str | FloatArray, design: Design) -> str | FloatArray:
    if isinstance(init, str):
        return init
    if len(init) != design.n_parameters or not np.isfinite(init).all():
        raise ParameterError(
            f"init: must hold {design.n_parameters} finite numbers ("
            f"{'the intercept, then ' if design.fit_intercept else ''}the slopes), got "
            f"{init.tolist()}; correct it"
        )
    shift = int(design.fit_intercept)
    return design.from_coefficients(init[shift:], float(init[0]) if shift else 0.0)
