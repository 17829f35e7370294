"""What a fit is given, and what it returns in the units of X."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbin._typing import ArrayLike, FloatArray, TextArray
from unbin._watching import Equation, Status
from unbin.families import Family, Interval
from unbin.families.latent import LatentScale, latent_scale
from unbin.fitting.published import BlockMeans, BlockQuantiles, Published
from unbin.likelihood.impute.joint import JointRaking
from unbin.likelihood.impute.raking import Raking
from unbin.likelihood.infer.choice import Selection
from unbin.likelihood.infer.diagnostics import Diagnostics
from unbin.likelihood.infer.estimate import Errors, GoodnessOfFit
from unbin.likelihood.infer.heldout import over_effects
from unbin.rows.contextual import Context
from unbin.rows.design import Design
from unbin.rows.engines import Layout, Options


@dataclass(frozen=True, slots=True)
class BinScale:
    """What turns the bins of an ordinal fit into target units.

    Attributes
    ----------
    thresholds : (K - 1,)
        In the units of X beta, the intercept included.
    lower, upper : (K,)
        Ends of the bins, the outermost those of the domain as far as they are known.
    value : (K,)
        The mean of each bin, read off the pooled histogram.
    whole : bool
        Whether targets are whole numbers, none below 0.
    """

    thresholds: FloatArray
    lower: FloatArray
    upper: FloatArray
    value: FloatArray
    whole: bool

    def scale(self) -> LatentScale | None:
        """Return the target as a function of the latent variable; None where bins have values."""
        return latent_scale(self.thresholds, self.lower, self.upper, whole=self.whole)


@dataclass(frozen=True, slots=True)
class TableFit:
    """What a fit to several tables says of one of them.

    Attributes
    ----------
    name : str
        What its blocks are called.
    n_people : int
        People it counts.
    n_blocks : int
        Blocks with information.
    block_sd : float
        Standard deviation of the random intercept of its blocks; 0 where none shows.
    goodness_of_fit : GoodnessOfFit
    published : Published or None
        Published counts beside expected ones; None for a table of means.
    means : BlockMeans or None
        Published means beside expected ones.
    """

    name: str
    n_people: int
    n_blocks: int
    block_sd: float
    goodness_of_fit: GoodnessOfFit
    published: Published | None
    means: BlockMeans | None = None

    def with_edges(self, change: Callable[[FloatArray], FloatArray]) -> TableFit:
        """Return the same with the ends of the bins on another scale."""
        if self.published is None:
            return self
        return replace(self, published=self.published.with_edges(change))


@dataclass(frozen=True, slots=True)
class Clusters:
    """Clusters of people.

    Attributes
    ----------
    name : str
        What they are called.
    ids : (S,) text, sorted
    """

    name: str
    ids: TextArray


@dataclass(frozen=True, slots=True)
class ClusterFit:
    """What a fit says of larger blocks that were given.

    Attributes
    ----------
    name : str
    n_clusters : int
    sd : float
        Standard deviation of their random intercept; 0 where none shows.
    """

    name: str
    n_clusters: int
    sd: float


def errors_text(errors: Errors, by: ClusterFit | None) -> str:
    """Return what standard errors are, as summaries say it."""
    told = str(errors.value)
    if by is None:
        return told
    return told.replace("by block (", f"by {by.n_clusters:,} clusters ({by.name}, ")


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What predicts where the evidence ridge acts, in the units of X.

    Attributes
    ----------
    coef, contextual_coef : (d,)
        The latter None without contextual effects.
    intercept : float
    nuisance : (m,)
    thresholds : (K - 1,) or None
        Of an ordinal fit, the intercept included.
    covariance : (1 + d [+ d] [+ K - 1], ...) or None
        Of these, the thresholds of an ordinal fit last: what is not known of the slopes given
        that they are as large as the ridge has it.
    """

    coef: FloatArray
    intercept: float
    nuisance: FloatArray
    contextual_coef: FloatArray | None = None
    thresholds: FloatArray | None = None
    covariance: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """A fit in the units of X.

    Attributes
    ----------
    family : Family
    alpha : float
        The ridge that acted: the evidence ridge is one of the standardised slopes, and infinite
        where it leaves none.
    coef : (d,)
    intercept : float
    nuisance : (m,)
    dispersion : float
    status : Status
    equation : Equation or None
        What the likelihood solved.
    objective, relative_gradient : float
    path : (n_iter + 1,)
    n_iter : int
    diagnostics : Diagnostics
    n_people, n_blocks : int
    n_rows : int
        Rows that sums ran over, which may stand for several people each.
    covariance : (1 + d [+ d], ...) or None
        Of intercept, coef and contextual_coef; None when the method has no standard errors.
    threshold_covariance : (1 + d [+ d] + K - 1, ...) or None
        The same with the thresholds of an ordinal fit.
    errors : Errors
        What these covariances are.
    contextual_coef : (d,) or None
        NaN for a feature that does not vary within blocks.
    context : Context or None
    block_sd : float
        Standard deviation of the random block intercept.
    bins : BinScale or None
    restart_disagreement : float
    imputed : (n,), Raking, JointRaking or None
        Targets of the training rows in the order of X, or what makes them.
    people : Design or None
        The training rows, where they are in memory: personal, as ``imputed`` is.
    selection : Selection or None
        Held-out scores, where something was chosen by them.
    published : Published or None
        Published counts beside expected ones (likelihood); of the first of several tables.
    means : BlockMeans or None
        Published means beside expected ones, on the scale of the fit; of one table.
    quantiles : BlockQuantiles or None
        Published order statistics, and the shares of people expected below them.
    tables : tuple of TableFit
        Of a fit to several tables of the same people, else empty.
    n_observed : int
        People beside the tables whose outcome is known.
    df_residual : float
        Degrees of freedom of intervals and tests.
    shrunk : Shrunk or None
        What predicts, where the evidence ridge acts.
    clusters : tuple of ClusterFit
    by_clusters : ClusterFit or None
        Those by which the errors are; None where they are by block.
    """

    family: Family
    alpha: float
    coef: FloatArray
    intercept: float
    nuisance: FloatArray
    dispersion: float
    status: Status
    objective: float
    relative_gradient: float
    path: FloatArray
    n_iter: int
    diagnostics: Diagnostics
    n_people: int
    n_blocks: int
    n_rows: int
    covariance: FloatArray | None = None
    threshold_covariance: FloatArray | None = None
    errors: Errors = Errors.MODEL
    contextual_coef: FloatArray | None = None
    context: Context | None = None
    block_sd: float = 0.0
    bins: BinScale | None = None
    restart_disagreement: float = float("nan")
    equation: Equation | None = None
    imputed: FloatArray | Raking | JointRaking | None = None
    people: Design | None = None
    selection: Selection | None = None
    published: Published | None = None
    means: BlockMeans | None = None
    quantiles: BlockQuantiles | None = None
    tables: tuple[TableFit, ...] = ()
    n_observed: int = 0
    df_residual: float = float("inf")
    shrunk: Shrunk | None = None
    clusters: tuple[ClusterFit, ...] = ()
    by_clusters: ClusterFit | None = None

    @property
    def errors_of(self) -> str:
        """What standard errors are, as summaries say it."""
        return errors_text(self.errors, self.by_clusters)

    def for_prediction(self) -> Fit:
        """Return the fit with the coefficients that predict: shrunk where the ridge acts."""
        if self.shrunk is None:
            return self
        bins, used = self.bins, self.shrunk
        if bins is not None and used.thresholds is not None:
            bins = replace(bins, thresholds=used.thresholds)
        return replace(
            self,
            coef=used.coef,
            intercept=used.intercept,
            nuisance=used.nuisance,
            dispersion=self.family.dispersion(used.nuisance),
            contextual_coef=used.contextual_coef,
            bins=bins,
            shrunk=None,
            covariance=used.covariance if bins is None else self.covariance,
            threshold_covariance=None if bins is None else used.covariance,
        )

    @property
    def parameter_covariance(self) -> FloatArray | None:
        """Covariance of intercept and slopes, and of the thresholds of an ordinal fit."""
        return self.covariance if self.bins is None else self.threshold_covariance

    def over_effects(
        self, value: Callable[[FloatArray], FloatArray], eta: FloatArray
    ) -> FloatArray:
        """Average over the random block intercept as the fit did."""
        return over_effects(value, eta, self.block_sd)

    @property
    def ending(self) -> str:
        """How the fit ended, and what was solved where that is not what usually is."""
        if self.equation is None or self.equation is Equation.SCORE:
            return self.status.value
        return f"{self.status.value} It solved {self.equation.value}."

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

    def without_personal(self) -> Fit:
        """Return the fit without personal values, and without counts that tell them."""
        fit = replace(self, imputed=None, people=None)
        return fit.without_counts() if self.less_known else fit

    @property
    def less_known(self) -> bool:
        """Whether counts are less people whose outcome is known, and so tell these outcomes."""
        found = [self.published, self.means, self.quantiles]
        found += [each for table in self.tables for each in (table.published, table.means)]
        return any(each is not None and each.less_known for each in found)

    def without_counts(self) -> Fit:
        """Return the fit without the counts and means it was made from, and what tells them."""
        tables = tuple(replace(table, published=None, means=None) for table in self.tables)
        diagnostics = replace(self.diagnostics, influence=None)
        return replace(
            self,
            published=None,
            means=None,
            quantiles=None,
            tables=tables,
            diagnostics=diagnostics,
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """What fits read beside people and tables, checked; None for what the fit chooses.

    ``alpha`` is a number, None (the evidence ridge where it is needed), "auto" (always) or
    "held-out" (chosen on held-out blocks). ``robust`` is None where tests decide.
    """

    alpha: float | str | None
    layout: Layout
    options: Options
    contextual: bool | None
    n_trials: int
    solver: str
    init: str | FloatArray
    n_init: str | int
    tol: float
    max_iter: int
    method: str
    ends: Interval
    from_zero: bool
    robust: bool | None = None
    clusters: tuple[Clusters, ...] = ()
