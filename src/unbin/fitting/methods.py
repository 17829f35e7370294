"""From rows and a release to a fit in the units of X, for every method."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from unbin._typing import ArrayLike, FloatArray
from unbin._watching import unwatched
from unbin.exceptions import ParameterError
from unbin.families import BregmanFamily, Family, get_family
from unbin.fitting.checkpoint import checkpointed, discard, fingerprint
from unbin.fitting.observed import fit_observed
from unbin.likelihood.choice import RIDGES, Candidate, Selection, candidate_families, choose
from unbin.likelihood.diagnostics import Diagnostics, diagnose
from unbin.likelihood.ecological import representative_values
from unbin.likelihood.fit import fit_likelihood
from unbin.likelihood.published import Published, published_of
from unbin.likelihood.raking import Raking
from unbin.likelihood.results import LikelihoodFit
from unbin.likelihood.results import Status as LikelihoodStatus
from unbin.matching.bounds import rank_bounds
from unbin.matching.fit import fit_matching
from unbin.matching.solvers import Status as MatchingStatus
from unbin.release import Release
from unbin.release.target import AggregatedTarget
from unbin.release.units import in_units, units_of, units_of_values
from unbin.rows.contextual import Context, block_context
from unbin.rows.design import Design, lay_out
from unbin.rows.survey import Surveyed, scale_of
from unbin.rows.wide import is_wide, lay_out_wide

if TYPE_CHECKING:
    from unbin.rows.engines.torch import DeviceParts, DevicePeople


@dataclass(frozen=True, slots=True)
class BinScale:
    """What turns the bins of an ordinal fit into target units.

    Attributes
    ----------
    thresholds : (K - 1,)
        In the units of X beta, the intercept included.
    lower, upper : (K,)
        Ends of the bins.
    value : (K,)
        The mean of each bin, read off the pooled histogram.
    """

    thresholds: FloatArray
    lower: FloatArray
    upper: FloatArray
    value: FloatArray


@dataclass(frozen=True, slots=True)
class Fit:
    """A fit in the units of X.

    Attributes
    ----------
    family : Family
    alpha : float
    coef : (d,)
    intercept : float
    nuisance : (m,)
    dispersion : float
    status : Status of the method
        Its value is a sentence.
    objective, relative_gradient : float
    path : (n_iter + 1,)
    n_iter : int
    diagnostics : Diagnostics
    n_people, n_blocks : int
    covariance : (1 + d [+ d], ...) or None
        Of intercept, coef and contextual_coef; None when the method has no standard errors.
    contextual_coef : (d,) or None
        NaN for a feature that does not vary within blocks.
    context : Context or None
    block_sd : float
        Standard deviation of effects shared by the people of a block.
    bins : BinScale or None
    restart_disagreement : float
    imputed : (n,), Raking or None
        Targets of the training rows in the order of X, or what makes them.
    selection : Selection or None
        Held-out scores, where something was chosen by them.
    published : Published or None
        Published counts beside expected ones (likelihood).
    """

    family: Family
    alpha: float
    coef: FloatArray
    intercept: float
    nuisance: FloatArray
    dispersion: float
    status: LikelihoodStatus | MatchingStatus
    objective: float
    relative_gradient: float
    path: FloatArray
    n_iter: int
    diagnostics: Diagnostics
    n_people: int
    n_blocks: int
    covariance: FloatArray | None = None
    contextual_coef: FloatArray | None = None
    context: Context | None = None
    block_sd: float = 0.0
    bins: BinScale | None = None
    restart_disagreement: float = float("nan")
    imputed: FloatArray | Raking | None = None
    selection: Selection | None = None
    published: Published | None = None

    def eta(
        self,
        X: FloatArray,
        blocks: ArrayLike | None = None,
        block_means: Mapping[Any, ArrayLike] | None = None,
        offset: FloatArray | None = None,
    ) -> FloatArray:
        """Return the linear predictor of new people, shape (n,)."""
        eta = X @ self.coef + self.intercept
        if self.context is not None and self.contextual_coef is not None:
            context = self.context.rows(len(X), blocks, block_means)
            eta += context @ np.nan_to_num(self.contextual_coef)
        return np.asarray(eta if offset is None else eta + offset)

    def without_imputed(self) -> Fit:
        """Return the fit without personal values."""
        return replace(self, imputed=None)


@dataclass(frozen=True, slots=True)
class Settings:
    """The estimator's parameters that fits read, checked; None is to be chosen."""

    alpha: float | None
    fit_intercept: bool
    contextual: bool | None
    n_trials: int
    solver: str
    init: str | FloatArray
    n_init: str | int
    tol: float
    max_iter: int
    seed: int
    n_threads: int
    method: str
    checkpoint: str | None


_RESTARTS_IF_UNSURE = 4
_TELLING = ("method", "alpha", "fit_intercept", "contextual", "solver", "tol")
"""Settings that make a fit another fit."""
_LEVEL = 0.05


class People(Protocol):
    """Everybody's features, in memory or in parts."""

    @property
    def n_features(self) -> int:
        """Columns."""

    def context(self) -> Context:
        """Return the block means of the features."""

    def design(self, settings: Settings, context: Context | None = None) -> Design:
        """Lay the rows out, the context as further columns."""


@dataclass(frozen=True, slots=True)
class InMemory:
    """Features of the rows of an array or a tabmat matrix, each in a block of the target."""

    X: Any
    target: AggregatedTarget
    offset: FloatArray | None

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    def context(self) -> Context:
        if is_wide(self.X):
            raise ParameterError(
                "contextual: needs an array of features, got a tabmat matrix; add block means to X"
            )
        return block_context(self.X, self.target)

    def design(self, settings: Settings, context: Context | None = None) -> Design:
        X, codes = self.X, self.target.codes
        if context is not None:
            X = np.column_stack([X, context.means[codes][:, context.used]])
        make = lay_out_wide if is_wide(X) else lay_out
        return make(
            X,
            codes,
            len(self.target.release),
            offset=self.offset,
            fit_intercept=settings.fit_intercept,
            seed=settings.seed,
            n_threads=settings.n_threads,
        )


@dataclass(frozen=True, slots=True)
class InParts:
    """Features of people in the parts of an engine."""

    people: Surveyed

    @property
    def n_features(self) -> int:
        return len(self.people.whole.mean)

    def context(self) -> Context:
        return self.people.whole.context()

    def design(self, settings: Settings, context: Context | None = None) -> Design:
        scale = scale_of(
            self.people.whole,
            fit_intercept=settings.fit_intercept,
            seed=settings.seed,
            context=context,
        )
        return self.people.design(scale)


@dataclass(frozen=True, slots=True)
class OnDevice:
    """Features of people on a device, or in parts that travel there."""

    people: DevicePeople | DeviceParts

    @property
    def n_features(self) -> int:
        return self.people.n_features

    def context(self) -> Context:
        return self.people.context()

    def design(self, settings: Settings, context: Context | None = None) -> Design:
        return self.people.design(
            fit_intercept=settings.fit_intercept,
            seed=settings.seed,
            ranked=settings.method == "matching",
            n_threads=settings.n_threads,
            context=context,
        )


def observed_fit(
    X: FloatArray,
    y: FloatArray,
    family: Family | None,
    settings: Settings,
    offset: FloatArray | None,
) -> Fit:
    """Fit the ordinary GLM to observed targets."""
    family, alpha = _named(family, settings)
    codes = np.zeros(len(X), dtype=np.int64)
    design = lay_out(
        X,
        codes,
        1,
        offset=offset,
        fit_intercept=settings.fit_intercept,
        n_threads=settings.n_threads,
    )
    units = units_of_values(y, family)
    found = fit_observed(
        design.in_units(units),
        units.into(y[design.order]),
        family,
        alpha=alpha,
        max_iter=settings.max_iter,
    )
    found = found.out_of_units(units, fit_intercept=settings.fit_intercept)
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
            design, not found.complaint, found.complaint or solution.status.value
        ),
        n_people=len(X),
        n_blocks=1,
    )


def matching_fit(
    people: People, release: Release, family: Family | None, settings: Settings
) -> Fit:
    """Fit the paper's estimator."""
    family, alpha = _named(family, settings)
    if not isinstance(family, BregmanFamily):
        raise ParameterError(
            f"family: {family.name!r} has no divergence to match by; use method='likelihood', or "
            "gaussian, poisson or binomial"
        )
    design = people.design(settings)
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
            rng=np.random.default_rng(settings.seed),
        )
    solution = fit.solution
    if solution.status is not MatchingStatus.INTERRUPTED:
        discard(settings.checkpoint)
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
            design, solution.status.identified, solution.status.value
        ),
        imputed=None if fit.z is None else design.to_rows_of_x(fit.z),
        n_people=design.n_people,
        n_blocks=len(release),
    )


def likelihood_fit(
    people: People, release: Release, family: Family | None, settings: Settings
) -> Fit:
    """Fit the likelihood of what was published; choose what the settings leave open."""
    if len(release.histogram.count) and len(release.order_statistics.value):
        rank_bounds(release, get_family("gaussian").domain)  # raises if they contradict each other
    context = None if settings.contextual is False else people.context()
    designs = {}
    if settings.contextual is not True:
        designs[False] = people.design(settings)
    if context is not None:
        designs[True] = people.design(settings, context)
    d = people.n_features
    model, selection = _choose(designs, release, family, settings)
    # whoever stopped the choice wants the best so far, not the first step towards it
    stopped = selection is not None and selection.stopped
    with unwatched() if stopped else nullcontext():
        fit = _likelihood_fit(designs[model.contextual], release, model, settings, context, d)
        if len(designs) == 2 and model.contextual and not _has_context(fit):
            model = replace(model, contextual=False)
            fit = _likelihood_fit(designs[False], release, model, settings, None, d)
    return replace(fit, selection=selection)


def _choose(
    designs: dict[bool, Design], release: Release, family: Family | None, settings: Settings
) -> tuple[Candidate, Selection | None]:
    """Take the model the settings name, or the best on held-out blocks."""
    if family is not None and settings.alpha is not None and len(designs) == 1:
        return Candidate(family, settings.alpha, next(iter(designs))), None
    families = [family] if family else candidate_families(release, settings.n_trials)
    alphas = RIDGES if settings.alpha is None else None
    return choose(designs, release, families, alphas, settings.alpha or 0.0)


def _has_context(fit: Fit) -> bool:
    test = fit.diagnostics.contextual_test
    return test is not None and test.p_value < _LEVEL


def _likelihood_fit(
    design: Design,
    release: Release,
    model: Candidate,
    settings: Settings,
    context: Context | None,
    d: int,
) -> Fit:
    family, context = model.family, context if model.contextual else None
    units = units_of(release, family)
    scaled = in_units(release, units)
    with _kept(design, release, family, settings) as start:
        found = fit_likelihood(
            design.in_units(units),
            scaled,
            family,
            alpha=model.alpha * units.slope**2,
            start=start,
            tol=(10 * settings.tol) ** 2,
            max_iter=settings.max_iter,
            means=scaled.means,
            noise_sd=release.noise_sd,
        )
    found = found.out_of_units(units, release, fit_intercept=settings.fit_intercept)
    if found.status is not LikelihoodStatus.INTERRUPTED:
        discard(settings.checkpoint)
    p = design.n_parameters
    coef, intercept = design.to_coefficients(found.theta)
    intercept += found.block_average if settings.fit_intercept else 0.0
    bins = _bin_scale(family, found, intercept)
    return Fit(
        family=family,
        alpha=model.alpha,
        coef=coef[:d],
        intercept=0.0 if bins is not None else intercept,
        contextual_coef=None if context is None else _widen(coef[d:], context),
        covariance=design.to_coefficient_covariance(
            found.covariance[:p, :p], found.told()[p - len(design.scale) : p]
        ),
        nuisance=found.nuisance,
        dispersion=family.dispersion(found.nuisance),
        block_sd=found.block_sd,
        bins=bins,
        context=context,
        status=found.status,
        objective=-found.log_score,
        relative_gradient=float(np.sqrt(found.path[-1])) if found.path else float("nan"),
        path=np.array(found.path),
        n_iter=found.n_iter,
        diagnostics=diagnose(design, release, family, found, d),
        imputed=None if design.rows is None else Raking.of(design, release, family, found),
        n_people=design.n_people,
        n_blocks=len(release),
        published=published_of(
            found, release.blocks, whole=family.domain.integer, public=release.public
        ),
    )


def _named(family: Family | None, settings: Settings) -> tuple[Family, float]:
    """Return family and alpha where nothing can be chosen by held-out blocks."""
    if family is None or settings.alpha is None or settings.contextual is None:
        raise ParameterError(
            "auto: family, alpha and contextual are chosen by method='likelihood' and an "
            "aggregated target, got another fit; name them"
        )
    return family, settings.alpha


def _kept(
    design: Design, release: Release, family: Family, settings: Settings
) -> AbstractContextManager[FloatArray | None]:
    """Keep the coefficients of a fit at its checkpoint, and start from those that are there."""
    if settings.checkpoint is None:
        return nullcontext()
    told = {"family": family, **{name: getattr(settings, name) for name in _TELLING}}
    fit = fingerprint(release, design.center, design.scale, told)
    return checkpointed(settings.checkpoint, fit)


def _bin_scale(family: Family, found: LikelihoodFit, intercept: float) -> BinScale | None:
    if not family.free_shape:
        return None
    counts = found.counts
    value = representative_values(counts)[0]
    return BinScale(found.nuisance - intercept, counts.lower, counts.upper, value)


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
