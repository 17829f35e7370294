"""The estimator: validate, call, assign. No numerics happen here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from unbin._checks import (
    LARGEST,
    check_choice,
    check_flag,
    check_generator,
    check_number,
    check_share,
    check_threads,
    check_whole,
    path_or_none,
    value_or_auto,
)
from unbin._compiling import telling
from unbin._frames import as_dense, as_floats, is_wide, refuse_masked, to_frame
from unbin._html import ShowsSummary
from unbin._typing import ArrayLike, FloatArray, IntArray
from unbin.exceptions import AggregatedTargetError, ParameterError
from unbin.families import FAMILIES, Family, Interval, get_family
from unbin.fitting.contrasts import ContrastTest, read_hypotheses, wald_test
from unbin.fitting.delta import MeanCurve, covariates, eta_std, mean_std
from unbin.fitting.inputs import (
    as_targets,
    check_columns,
    check_init,
    check_observed,
    check_rows,
    check_sample_weight,
    context_blocks,
    encoded,
    feature_names,
    new_offset,
    note_columns,
    refuse_sample_weight,
    tables_of,
    those_known,
    warn_of,
)
from unbin.fitting.intervals import outcome_interval, warn_of_open_ends
from unbin.fitting.marginal import average_effects, persons, training_people
from unbin.fitting.methods import METHODS
from unbin.fitting.model import Fit, Settings, TableFit
from unbin.fitting.naming import with_names
from unbin.fitting.placement import Given, place
from unbin.fitting.predictions import bin_probabilities, score_target
from unbin.fitting.published import Published
from unbin.fitting.summary import Coefficients, Summary
from unbin.fitting.tabulate import (
    check_ratios,
    covariance_of,
    glance,
    information_columns,
    judged_columns,
    summarise,
    tabulate,
    term_covariance,
)
from unbin.fitting.transforms import TRANSFORMS
from unbin.matching.solvers import SOLVERS
from unbin.people.encoding import Encoding
from unbin.rows.engines import ENGINES, Layout, Options, open_engine

_MAX_ITER = {"likelihood": 100, "matching": 1000}
STARTS = ("block-means", "random")
PRECISIONS = ("float64", "float32")
_STACKED = {
    "coef_": "coef",
    "intercept_": "intercept",
    "contextual_coef_": "contextual_coef",
    "dispersion_": "dispersion",
    "block_sd_": "block_sd",
    "clusters_": "clusters",
    "objective_": "objective",
    "relative_gradient_": "relative_gradient",
    "restart_disagreement_": "restart_disagreement",
}
_LISTED = {
    "status_": "status",
    "equation_": "equation",
    "objective_path_": "path",
    "diagnostics_": "diagnostics",
    "nuisance_": "nuisance",
    "alpha_": "alpha",
    "selection_": "selection",
}

_RIDGES = ("auto", "held-out")
_OF_BINS = ("thresholds_", "bin_edges_", "bin_values_")
"""Of an ordinal fit alone."""


class AggregatedGLM(ShowsSummary, RegressorMixin, BaseEstimator):
    """Generalised linear model for a target that was only published as a table.

    Parameters
    ----------
    family : str
        Distribution of the target: "gaussian", "poisson", "binomial", "gamma", "negative-binomial",
        "beta-binomial", "ordinal" (a cumulative logit with free thresholds: proportional odds; for
        tables with the same bins in every block), or "auto": chosen on held-out blocks.
    method : {"likelihood", "matching"}
        "likelihood" solves the quasi-score of the published numbers: consistent, with standard
        errors. "matching" is the estimator of the paper: the coefficients and individual targets
        that satisfy the release and lie nearest to each other; it mistakes noise for signal.
    alpha : float, None, "auto" or "held-out"
        Ridge, as in scikit-learn and glum: mean loss + alpha/2 ||coef||², the intercept is free.
        The paper's lambda is n alpha / 2. "auto" is the evidence ridge of the standardised slopes
        (MacKay): *predictions* are shrunk by it, ``coef_`` and its errors are not. None is the same
        where the table says little about some combination of the slopes or the fit without a ridge
        fails, and no ridge elsewhere. 0 never shrinks. "held-out": chosen on held-out blocks.
    contextual : bool or "auto"
        Add the block means of the features as further columns (Mundlak terms), so that ``coef_`` is
        the effect within blocks and ``contextual_coef_`` the effect between blocks minus that
        within (likelihood only). One table may not identify the signs of effects within blocks; the
        fit is then not trusted, and says so. "auto": if they improve the predictive log score of
        held-out blocks, and the test of ecological bias rejects. With several tables, the blocks
        are those of the first, or of the one named here.
    n_trials : int
        Trials of a binomial target; its values are 0 to ``n_trials``.
    target_transform : {None, "log"}
        "log" models the log of the target, on logged edges; predictions are means of the target
        itself (gaussian family).
    robust : bool or "auto"
        Estimate from the levels of the blocks' tables alone, not from the shape of their
        histograms: slopes stay valid where the shape of the family is wrong, with standard errors 0
        to 50 % larger (likelihood). "auto": where tests find the family wrong, and levels and
        shapes tell different slopes, or fewer than 40 blocks with effects leave the sign of slopes
        to shapes; the summary says so.
    lower, upper : float or None
        Ends of the target's domain, for an ordinal fit: a cost is not below 0. Predictions and
        imputed values stay within them, and within what the release itself shows: closed bins,
        published minima and maxima, and a lowest bin that ends at 0, which is taken to contain only
        0 unless ``lower`` is given (-inf if people may be below).
    solver : {"lbfgs", "alternating"}
        For matching: "lbfgs" minimises min over z of D(z || mean) directly; "alternating" is the
        paper step by step: fit a GLM to the imputed targets, impute again, repeat.
    init : {"block-means", "random"} or array of (intercept and) slopes
        Where matching starts. "block-means" regresses rough block means of the target on block
        means of the features; with a single block the start is random.
    n_init : "auto" or int
        Starts of matching, of which the best objective is kept; all after the first are random.
        "auto" is 1 when there are more blocks than coefficients, else 4.
    fit_intercept : bool
    tol : float
        Matching has converged when one more Newton step, targets re-ranked, would explain less
        than ``tol²`` of the null divergence; likelihood when the next step is shorter than
        ``10 tol`` standard errors.
    max_iter : int or None
        None is 1000 for matching and 100 for likelihood.
    random_state : int, RandomState or None
        Seeds random starts, the order of ties, and draws.
    n_jobs : int or None
        Threads that work on the rows, -1 or None for all cores this process may use. Results are
        the same to the last bit whatever their number.
    engine : {"local", "dask", "torch"}
        Where sums over people are computed: in this process, on a Dask cluster (needs
        ``unbin[dask]``), or on a GPU (needs ``unbin[gpu]``). "dask" takes Parquet files, Dask
        frames or Dask arrays; "torch" arrays, tensors or Parquet files.
    client : distributed.Client, address of a scheduler, or None
        For "dask"; None starts workers on this machine for the duration of the fit.
    device : str or None
        For "torch": "cuda", "cuda:1", "cpu"; None is the GPU.
    dtype : {"float64", "float32"}
        For "torch": precision of the rows and of row-wise work. Sums are float64 either way; with
        "float32" coefficients agree to about five digits.
    checkpoint : path or None
        Where to save the coefficients at every step. A fit that finds them there resumes from them;
        once complete it removes the file.

    Attributes
    ----------
    coef_ : (d,), or (p, d) for a list of p targets
    intercept_ : float, or (p,); 0 for ordinal, whose thresholds take its place
        With a random block intercept, that of the average person, who lives in a large block.
    contextual_coef_ : (d,), (p, d) or None
    dispersion_ : float, or (p,)
        sigma² of a gaussian, the dispersion of gamma, negative- and beta-binomial, else 1.
    block_sd_ : float, or (p,)
        Standard deviation of the random block intercept, 0 where there is no evidence of one
        (likelihood). Slopes are then those within a block. With several tables this is the spread
        of all partitions' intercepts together, and slopes of ordinal and binary outcomes are those
        of the population, as in a GLM of individual data.
    clusters_ : tuple of ClusterFit, or list of p
        The clusters of ``fit(cluster=...)``: how many, and the standard deviation of their random
        intercept, which is part of ``block_sd_``; empty without any.
    family_ : as used, or list of p
    alpha_ : float, or list of p
        The ridge that was used. The evidence ridge applies to the standardised slopes, and is
        infinite where it leaves none.
    selection_ : Selection, None or list of p
        Scores on held-out blocks of all that was tried; ``stopped`` where Ctrl-C ended the choice,
        and the best so far was fitted.
    standard_errors_ : (d,), or (p, d)
    published_ : Published, None or list of p
        Published counts of each block and those the fit expects (likelihood); see ``plots``. With
        several tables, those of the first; ``tables_`` has them all.
    n_people_, n_blocks_, n_observed_ : int
        Numbers of people that the tables count, of their blocks, and of further people whose
        outcome is known.
    tables_ : tuple of TableFit, or list of p
        What a fit to several tables of the same people says about each; empty for one table.
    method_ : {"likelihood", "matching", "observed"}
        As used; "observed" for plain numbers.
    status_ : Enum, or list of p
        How the fit ended; ``status_.value`` is a sentence.
    equation_ : Enum, None or list of p
        What the likelihood solved, as ``equation_.value`` says.
    diagnostics_ : Diagnostics, or list of p
        Whether the coefficients are identified, goodness of fit, relative efficiency, ecological
        bias.
    objective_ : float, or (p,)
        Mean divergence plus ridge (matching), minus the log score per person (likelihood).
    relative_gradient_, restart_disagreement_ : float, or (p,)
        The certificate of convergence, and the largest difference between restarts that reached
        the same objective (NaN with one start).
    objective_path_, n_iter_
        Progress of the solver.
    encoding_ : Encoding
        For a model that ``unbin.glm`` fitted, or that was saved with an encoding: how a formula
        turns the columns of people into features.
    thresholds_, bin_edges_, bin_values_
        For an ordinal fit: thresholds in units of X @ coef, the edges they stand for, and the mean
        of each bin, estimated from the pooled histogram.

    References
    ----------
    Bhowmik, A., Ghosh, J. and Koyejo, O. (2015). Generalized linear models for aggregated data.
    *Proceedings of the 18th International Conference on Artificial Intelligence and Statistics
    (AISTATS)*, 93-101.

    McCullagh, P. (1983). Quasi-likelihood functions. *Annals of Statistics*, 11, 59-67.

    Examples
    --------
    >>> import numpy as np, unbin
    >>> rng = np.random.default_rng(0)
    >>> county = np.repeat([f"{c:02d}" for c in range(40)], 50)
    >>> X = rng.normal(size=(2000, 2)) + rng.normal(size=(40, 2)).repeat(50, axis=0)
    >>> y = X @ [1.0, -0.5] + 0.5 * rng.normal(size=2000)
    >>> release = unbin.aggregate(y, county, bins=5)      # all that is published of y
    >>> model = unbin.AggregatedGLM().fit(X, release.align(county))
    >>> model.coef_.round(1)
    array([ 1. , -0.5])
    """

    _fits: list[Fit]
    _holds_imputed: bool
    thresholds_: FloatArray
    bin_edges_: FloatArray
    bin_values_: FloatArray
    encoding_: Encoding

    def __init__(
        self,
        family: str = "gaussian",
        method: str = "likelihood",
        *,
        alpha: float | str | None = None,
        contextual: bool | str = False,
        n_trials: int = 1,
        target_transform: str | None = None,
        robust: bool | str = "auto",
        lower: float | None = None,
        upper: float | None = None,
        solver: str = "lbfgs",
        init: str | ArrayLike = "block-means",
        n_init: str | int = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        engine: str = "local",
        client: Any = None,
        device: str | None = None,
        dtype: str = "float64",
        checkpoint: Any = None,
    ) -> None:
        self.family = family
        self.method = method
        self.alpha = alpha
        self.contextual = contextual
        self.n_trials = n_trials
        self.target_transform = target_transform
        self.robust = robust
        self.lower = lower
        self.upper = upper
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.engine = engine
        self.client = client
        self.device = device
        self.dtype = dtype
        self.checkpoint = checkpoint

    def fit(
        self,
        X: ArrayLike,
        y: Any,
        *,
        offset: ArrayLike | None = None,
        block: Any = None,
        features: Sequence[str] | None = None,
        weights: Any = None,
        weighting: str = "frequency",
        observed: str | None = None,
        disjoint: bool = False,
        sample_weight: ArrayLike | None = None,
        cluster: Any = None,
    ) -> AggregatedGLM:
        """Fit the model.

        Parameters
        ----------
        X : (n, d) features of each person
            Or a tabmat matrix, for categories of many levels (needs ``unbin[fast]``); or Parquet
            files (a path, a folder, a pattern such as ``"people/*.parquet"``), which are not held
            in memory as a whole unless they are small; or, with ``engine="dask"``, a Dask frame or
            array; or, with ``engine="torch"``, a tensor, best on the device already.
        y : AggregatedTarget, JoinedTarget, list of them, mapping, or (n,) numbers
            ``release.align(blocks)``, or ``join`` of several tables of the same people; a list fits
            one model per target on the same X; plain numbers are observed targets and give the
            ordinary GLM, the oracle. For files, Dask collections and tensors with ``block`` the
            release itself, or a list of releases. For files and frames, also of pandas and polars,
            the tables by the columns that hold their blocks:
            ``{"county": table, ("age_group", "sex"): other}``, where the blocks of the second are
            its cells ("65-74 | f"). With several tables, a missing id means that a person is
            outside a table.
        offset : (n,), optional
            Added to the linear predictor, for example log exposure. The name of its column in files
            and frames.
        block : str, optional
            The column of files and Dask frames that holds block ids, unless y names it; with a Dask
            array an array, with a tensor a tensor of whole numbers or an array of ids.
        features : list of str, optional
            The columns that are features, in files, Dask frames, and frames of which y names
            columns.
        weights : str, optional
            The column that says how many people each row stands for, in the same sources; with a
            Dask array or a tensor, an array or a tensor. Where rows are tied to a table beforehand,
            weights belong there: ``release.align(blocks, weights=w)``.
        weighting : {"frequency", "survey"}
            See ``Release.align``.
        observed : str, optional
            The column of known outcomes, missing where nobody knows; see ``observed``. With a Dask
            array, a Dask array. People with a known outcome are held in memory: they are few.
            People without a block id are then outside the table.
        disjoint : bool
            The tables do not count the outcomes that are known.
        sample_weight : (n,), optional
            For observed targets: how often each row counts, as in scikit-learn.
        cluster : (n,) ids, str, or several of them, optional
            Larger blocks that blocks lie in, as states above counties: standard errors are by
            cluster, and clusters have a random intercept where one shows. The ids of each row; with
            files and frames a column, or a list of columns for nested levels; several arrays are a
            frame or a mapping of names to ids. Each block of a table lies in one cluster, or the
            table crosses them, as everybody by sex.

        Returns
        -------
        self
        """
        family, settings = self._check_parameters()
        engine = open_engine(self.engine, settings.options)
        given = Given(
            offset, block, features, weights, weighting, observed, disjoint, sample_weight, cluster
        )
        people = place(X, y, given, engine=engine, family=family, model=self, crossed=True)
        with telling(), people as placed:
            method = METHODS["observed" if placed.observed else self.method]
            settings = replace(settings, clusters=placed.clusters)
            fits = [method(*target, family, settings) for target in placed.targets]
        if hasattr(self, "encoding_"):  # of a fit before this one
            del self.encoding_
        note_columns(self, placed.n_features, placed.names)
        fits = [with_names(fit, feature_names(self)) for fit in fits]
        self._assign(
            fits, several=placed.several, offset=offset is not None, release=not placed.observed
        )
        for fit in fits:
            warn_of(fit)
        return self

    @overload
    def predict(
        self,
        X: ArrayLike,
        *,
        blocks: ArrayLike | None = None,
        block_means: Mapping[Any, ArrayLike] | None = None,
        offset: ArrayLike | None = None,
        return_std: Literal[False] = False,
    ) -> FloatArray: ...

    @overload
    def predict(
        self,
        X: ArrayLike,
        *,
        blocks: ArrayLike | None = None,
        block_means: Mapping[Any, ArrayLike] | None = None,
        offset: ArrayLike | None = None,
        return_std: Literal[True],
    ) -> tuple[FloatArray, FloatArray]: ...

    def predict(
        self,
        X: ArrayLike,
        *,
        blocks: ArrayLike | None = None,
        block_means: Mapping[Any, ArrayLike] | None = None,
        offset: ArrayLike | None = None,
        return_std: bool = False,
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean of people with features X, shape (n,) or (n, p).

        An ordinal fit reads targets off its latent variable, between and beyond the edges of the
        bins and within ``lower`` and ``upper``; few whole numbers have the values of their bins.

        Parameters
        ----------
        X : (n, d)
        blocks : (n,) block ids, optional
            With contextual effects: whose block means go with each row. A block known from the fit
            has the means it had there.
        block_means : mapping of block id to (d,) means, optional
            For new blocks. People of any other block get the average context.
        offset : (n,) or number, optional
            As in ``fit``. A model that was fitted with an offset needs it, 0 for none.
        return_std : bool
            Also return the standard errors of the means, in the same shape: how far off they may be
            because the coefficients are estimated (delta method), with the dispersion and the
            spread of the block effects held at their estimates. ``predict_interval`` is for
            outcomes.
        """
        X = self._check_rows(X)
        etas = self._etas(X, blocks, block_means, offset)
        curves = [MeanCurve(fit, TRANSFORMS[self.target_transform]) for fit, _ in etas]
        pairs = list(zip(curves, etas, strict=True))
        means = [curve.mean(eta) for curve, (_, eta) in pairs]
        found = np.column_stack(means) if self._several else means[0]
        if not check_flag("return_std", return_std):
            return found
        errors = [
            mean_std(curve, covariates(fit, X, blocks, block_means), eta)
            for curve, (fit, eta) in pairs
        ]
        return found, np.column_stack(errors) if self._several else errors[0]

    def predict_interval(
        self,
        X: ArrayLike,
        level: float = 0.9,
        *,
        blocks: ArrayLike | None = None,
        block_means: Mapping[Any, ArrayLike] | None = None,
        offset: ArrayLike | None = None,
    ) -> FloatArray:
        """Return intervals for the outcome of people with features X, shape (n, 2).

        Each contains the outcome of such a person, in a block that was not in the fit, with
        probability ``level``. Ends are quantiles of the family's distribution, averaged over the
        random block intercept and over the uncertainty of the coefficients. Intervals of whole
        numbers include their ends, and are the shortest that reach the level; a few numbers cannot
        do so exactly. An ordinal fit reads ends off its latent variable as ``predict`` does, or
        gives those of whole bins; an end in an open bin is infinite, with a warning.

        Parameters
        ----------
        X, blocks, block_means, offset
            As in ``predict``.
        level : float

        Examples
        --------
        >>> import numpy as np, unbin
        >>> rng = np.random.default_rng(0)
        >>> county = np.repeat(np.arange(60), 50)
        >>> X = rng.normal(size=(3000, 1)) + rng.normal(size=(60, 1))[county]
        >>> y = X[:, 0] + rng.normal(size=3000)
        >>> model = unbin.AggregatedGLM().fit(X, unbin.aggregate(y, county).align(county))
        >>> low, high = model.predict_interval(X, level=0.9).T
        >>> bool(0.88 < np.mean((low <= y) & (y <= high)) < 0.92)
        True
        """
        X = self._check_rows(X)
        self._only_fit("predict_interval")
        check_share("level", level)
        ((fit, eta),) = self._etas(X, blocks, block_means, offset)
        spread = eta_std(fit, covariates(fit, X, blocks, block_means), eta)
        found = outcome_interval(fit, eta, spread, level)
        warn_of_open_ends(found, fit)
        return TRANSFORMS[self.target_transform].undo(found)

    @available_if(lambda self: getattr(self, "family_", self.family) == "ordinal")
    def predict_proba(
        self,
        X: ArrayLike,
        *,
        blocks: ArrayLike | None = None,
        block_means: Mapping[Any, ArrayLike] | None = None,
        offset: ArrayLike | None = None,
    ) -> FloatArray:
        """Return the probability of every bin, shape (n, K), for an ordinal fit."""
        X = self._check_rows(X)
        self._only_fit("predict_proba")
        ((fit, eta),) = self._etas(X, blocks, block_means, offset)
        return bin_probabilities(fit, eta)

    def impute(
        self, kind: str = "mean", *, size: int | None = None, random_state: Any = None
    ) -> FloatArray:
        """Return targets of the training rows, in their order, given the fit and the release.

        They are personal values, so a saved or copied model does not hold them.

        Parameters
        ----------
        kind : {"mean", "draw"}
            "mean" is the best guess of each target: the z of matching, or the raked mean of
            likelihood; of a row that stands for several people, the mean of theirs. "draw" draws
            values for multiple imputation (likelihood only), of rows that are one person each: the
            parameters and the effects of blocks first, then values, so that Rubin's rules over
            several draws hold. The z of matching and draws meet the published counts (of several
            tables those of the first, the others on average); means of likelihood do so on
            average. Outcomes that are known are returned as they are.
        size : int, optional
            Number of draws; without it one, of shape (n,).
        random_state : int, optional
            Seeds the draws.

        Returns
        -------
        z : (n,), (n, p) for several targets, (size, n) for several draws
        """
        check_choice("kind", kind, ("mean", "draw"))
        check_is_fitted(self)
        if not self._holds_imputed:
            raise AggregatedTargetError(
                "impute: this model holds no imputed targets (it was fitted to observed ones, to "
                "people who are not in memory or on a device, or was copied or loaded); fit it to "
                "an aggregated target first, people in arrays and engine='local'"
            )
        transform = TRANSFORMS[self.target_transform]
        if kind == "mean":
            parts = [transform.imputed(fit) for fit in self._fits]
            return np.column_stack(parts) if self._several else parts[0]
        fit = self._only_fit("impute(kind='draw')")
        if isinstance(fit.imputed, np.ndarray) or fit.imputed is None:
            raise ParameterError("kind: matching has no draws; use kind='mean', or likelihood")
        m = 1 if size is None else check_whole("size", size, low=1)
        rng = check_generator(random_state)
        draws = transform.undo(np.stack([fit.imputed.draw(rng) for _ in range(m)]))
        return np.asarray(draws[0] if size is None else draws)

    def score(
        self,
        X: ArrayLike,
        y: Any,
        *,
        blocks: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return how well the model explains a target; larger is better.

        For an aggregated target: the mean predictive log score of the published counts per person
        (likelihood), comparable across families; minus the mean divergence between predictions
        and the nearest targets that satisfy the release (matching). For observed targets: D², the
        share of the divergence from the mean that is explained (R² for the gaussian family), rows
        counted ``sample_weight`` times. Of tables joined to outcomes that are known the tables are
        scored, which are of the others. A model that was fitted with an offset needs it here too, 0
        for none.
        """
        X = self._check_rows(X)
        fit = self._only_fit("score")
        targets, weights = as_targets(y), None
        rows: IntArray | slice = slice(None)
        if targets is not None:
            refuse_sample_weight(sample_weight)
            if len(targets) != 1:
                raise ParameterError("score: takes one target, got a list; score them one by one")
            check_rows(targets, X.shape[0])
            transform = TRANSFORMS[self.target_transform]
            y = [transform.target(table) for table in tables_of(targets[0])]
            for table in y:
                table.release.check_domain(fit.family.domain, family=fit.family.name)
            blocks = context_blocks(fit.tables, targets[0]) if blocks is None else blocks
        else:
            check_consistent_length(X, y)
            if sample_weight is not None:
                weights = check_sample_weight(sample_weight, len(y))
            y, rows = those_known(y)
            y = TRANSFORMS[self.target_transform].observed(as_floats(y, where="y"))
            check_observed(y, fit.family)
            weights = None if weights is None else weights[rows]
        ((fit, eta),) = self._etas(X, blocks, None, offset)
        return score_target(fit, self.method, y, eta[rows], weights)

    @property
    def standard_errors_(self) -> FloatArray:
        """Standard errors of ``coef_``."""
        check_is_fitted(self)
        d = self.n_features_in_
        errors = [np.sqrt(np.diag(covariance_of(fit)))[1 : 1 + d] for fit in self._fits]
        return np.array(errors) if self._several else errors[0]

    @property
    def published_(self) -> Published | list[Published | None] | None:
        """Published and expected counts of each block, bins in the units of the target."""
        check_is_fitted(self)
        undo = TRANSFORMS[self.target_transform].undo
        kept = [fit.published for fit in self._fits]
        found = [None if each is None else each.with_edges(undo) for each in kept]
        return found if self._several else found[0]

    @property
    def tables_(self) -> tuple[TableFit, ...] | list[tuple[TableFit, ...]]:
        """What the fit says of each of several tables, bins in the units of the target."""
        check_is_fitted(self)
        undo = TRANSFORMS[self.target_transform].undo
        found = [tuple(table.with_edges(undo) for table in fit.tables) for fit in self._fits]
        return found if self._several else found[0]

    @property
    def method_(self) -> str:
        """The method as used: "observed" for a model of plain numbers."""
        check_is_fitted(self)
        return self.method if self._holds_release else "observed"

    def conf_int(self, level: float = 0.95) -> FloatArray:
        """Return confidence intervals of ``coef_``, shape (d, 2); ``summary`` has the intercept."""
        check_is_fitted(self)
        check_share("level", level)
        fit = self._only_fit("conf_int")
        covariance_of(fit)
        d = self.n_features_in_
        errors = self.standard_errors_[:d]
        return Coefficients((), fit.coef, errors, level, fit.df_residual).interval()

    def summary(self, level: float = 0.95) -> Summary:
        """Return coefficients, errors, tests and diagnostics.

        It prints as text, and shows as HTML in a notebook; ``to_markdown()``, ``to_html()`` and
        ``as_latex()`` export it.
        """
        check_is_fitted(self)
        fit = self._only_fit("summary")
        return summarise(fit, feature_names(self), self.method_, level)

    def tidy(
        self, exponentiate: bool = False, level: float = 0.95, *, backend: str | None = None
    ) -> Any:
        """Return the coefficients as a pandas or polars frame, one row per term.

        After a fit to several tables there is a column per table, ``information_…``: its share in
        the information on each coefficient; ``information_observed`` is that of people whose
        outcome is known.

        Parameters
        ----------
        exponentiate : bool
            Exp of estimates and intervals: ratios of rates, means or odds for a log or logit link,
            of cumulative odds (of an outcome in a higher bin) for ordinal. Errors and tests stay
            those of the coefficients.
        level : float
            Coverage of the intervals.
        backend : {"pandas", "polars"}, optional
            Whichever is installed, pandas first.

        Examples
        --------
        >>> import numpy as np, unbin
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(4000, 1))
        >>> model = unbin.AggregatedGLM("poisson").fit(X, rng.poisson(np.exp(0.7 * X[:, 0])))
        >>> model.tidy(exponentiate=True)["estimate"].round(1).tolist()
        [1.0, 2.0]
        """
        check_is_fitted(self)
        fit, features = self._only_fit("tidy"), feature_names(self)
        if check_flag("exponentiate", exponentiate):
            check_ratios(fit, self.target_transform)
        terms = tabulate(fit, features, level, exponentiate=exponentiate)
        columns = {
            **terms.columns(),
            **judged_columns(fit, terms.names, features),
            **information_columns(fit, terms.names, features),
        }
        return to_frame(columns, backend)

    def cov_params(self) -> FloatArray:
        """Return the covariance of all terms, shape (k, k), in the order of ``tidy``.

        Standard errors are the roots of its diagonal; ``summary`` says what it is. NaN where a term
        is not estimable.
        """
        check_is_fitted(self)
        return term_covariance(self._only_fit("cov_params"))

    def wald_test(self, hypotheses: Any) -> ContrastTest:
        """Test linear hypotheses about the terms of ``tidy``.

        With q hypotheses about coefficients whose covariance has ν degrees of freedom (``df`` in
        ``tidy``), the Wald statistic is referred to Hotelling's T²: F with q and ν - q + 1 degrees
        of freedom, which for one hypothesis is the square of Student's t with ν. Chi-square where ν
        is infinite.

        Parameters
        ----------
        hypotheses : str, list of str, or (q, k) numbers
            "age = 0", "age = C(sex)[T.m]", "2*age + income = 1"; a list of these or of names,
            tested jointly (a name alone: the term is 0); or contrasts that are 0, one number for
            each term of ``tidy``. A name that looks like a number goes between backticks.

        Returns
        -------
        ContrastTest
            ``statistic``, ``df``, ``df_denominator``, ``p_value``.

        Examples
        --------
        >>> import numpy as np, unbin
        >>> rng = np.random.default_rng(0)
        >>> county = np.repeat(np.arange(60), 50)
        >>> X = rng.normal(size=(3000, 2)) + rng.normal(size=(60, 2))[county]
        >>> y = X @ [1.0, 1.0] + rng.normal(size=3000)
        >>> model = unbin.AggregatedGLM().fit(X, unbin.aggregate(y, county).align(county))
        >>> model.wald_test(["x0", "x1"]).p_value < 0.001      # both are 0
        True
        >>> model.wald_test("x0 = x1").p_value > 0.05
        True
        """
        check_is_fitted(self)
        fit = self._only_fit("wald_test")
        terms = tabulate(fit, feature_names(self), 0.95)
        asked = read_hypotheses(hypotheses, terms.names)
        covariance = term_covariance(fit)
        return wald_test(asked, terms.estimate, covariance, terms.names, fit.df_residual)

    def marginal_effects(
        self,
        X: ArrayLike | None = None,
        *,
        blocks: ArrayLike | None = None,
        block_means: Mapping[Any, ArrayLike] | None = None,
        offset: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        level: float = 0.95,
        backend: str | None = None,
    ) -> Any:
        """Return average marginal effects on the mean outcome, one row per column of X.

        In the units of the outcome: the mean over people of the derivative of their mean with
        respect to a column (``contrast`` is "dY/dX") or, for a column of zeros and ones, of their
        mean at 1 minus that at 0 ("1 - 0"); the other columns stay as they are. Standard errors are
        from the delta method, with the people taken as given. Squares and splines of a variable are
        separate columns: compare predictions to see the effect of the variable itself.

        Parameters
        ----------
        X : (n, d), optional
            People to average over; by default those of the fit, which a saved or copied model does
            not hold.
        blocks, block_means, offset
            Of these people, as in ``predict``.
        weights : (n,), optional
            How much each of them counts.
        level : float
            Coverage of the intervals.
        backend : {"pandas", "polars"}, optional

        Returns
        -------
        frame
            Columns as in ``tidy``, and ``contrast``.

        Examples
        --------
        >>> import numpy as np, unbin
        >>> rng = np.random.default_rng(0)
        >>> X = np.column_stack([rng.normal(size=4000), rng.integers(0, 2, 4000)])
        >>> y = rng.poisson(np.exp(0.3 * X[:, 0] + 0.7 * X[:, 1]))
        >>> effects = unbin.AggregatedGLM("poisson").fit(X, y).marginal_effects()
        >>> effects["contrast"].tolist()
        ['dY/dX', '1 - 0']
        """
        check_is_fitted(self)
        fit = self._only_fit("marginal_effects")
        terms = tabulate(fit, feature_names(self), level)
        if X is None:
            people = training_people(fit)
        else:
            X = self._check_rows(X)
            people = persons(
                fit,
                covariates(fit, X, blocks, block_means),
                new_offset(offset, X.shape[0], needed=self._has_offset),
                None if weights is None else check_sample_weight(weights, X.shape[0]),
            )
        found = average_effects(MeanCurve(fit, TRANSFORMS[self.target_transform]), people)
        names = terms.names[-len(found.estimate) :]
        columns = Coefficients(
            names, found.estimate, found.standard_error, level, fit.df_residual
        ).columns()
        return to_frame({"term": names, "contrast": list(found.kind), **columns}, backend)

    def glance(self, *, backend: str | None = None) -> Any:
        """Return the fit as a frame of one row."""
        check_is_fitted(self)
        return to_frame(glance(self._only_fit("glance"), self.method), backend)

    def _summary_html(self) -> str | None:
        """Return what a notebook shows of a fitted model; None where scikit-learn's is shown."""
        fitted = hasattr(self, "_fits") and not self._several
        return self.summary()._repr_html_() if fitted and self.method_ != "matching" else None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        known = FAMILIES.get(self.family) if isinstance(self.family, str) else None
        tags.input_tags.sparse = True
        tags.target_tags.positive_only = known is not None and known().domain.low >= 0
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "_fits" in state:  # personal values are written only when asked for
            state["_fits"] = [fit.without_personal() for fit in state["_fits"]]
            state["_holds_imputed"] = False
        return state

    # -- private -----------------------------------------------------------------------------------

    def _check_parameters(self) -> tuple[Family | None, Settings]:
        check_choice("method", self.method, tuple(_MAX_ITER))
        check_choice("solver", self.solver, tuple(SOLVERS))
        check_choice("engine", self.engine, tuple(ENGINES))
        check_choice("dtype", self.dtype, PRECISIONS)
        if isinstance(self.init, str):
            check_choice("init", self.init, STARTS)
        if not (isinstance(self.n_init, str) and self.n_init == "auto"):
            check_whole("n_init", self.n_init, low=1)
        named = self.target_transform is None or isinstance(self.target_transform, str)
        if not named or self.target_transform not in TRANSFORMS:
            raise ParameterError(
                f"target_transform: must be None or 'log', got {self.target_transform!r}"
            )
        if self.target_transform is not None and self.family != "gaussian":
            raise ParameterError(
                f"target_transform: 'log' goes with family='gaussian', got {self.family!r}"
            )
        contextual = self._contextual()
        if contextual is not False and self.method != "likelihood":
            raise ParameterError("contextual: needs method='likelihood', got 'matching'")
        max_iter = _MAX_ITER[self.method] if self.max_iter is None else self.max_iter
        layout = Layout(
            fit_intercept=check_flag("fit_intercept", self.fit_intercept),
            seed=int(check_random_state(self.random_state).randint(2**31)),
        )
        matching = self.method == "matching"
        options = Options(
            n_threads=check_threads(self.n_jobs),
            ranked=matching,
            alternating=matching and self.solver == "alternating",
            client=self.client,
            device=self.device,
            dtype=self.dtype,
            checkpoint=path_or_none("checkpoint", self.checkpoint),
        )
        settings = Settings(
            layout=layout,
            options=options,
            alpha=self._alpha(),
            contextual=contextual,
            n_trials=self.n_trials,
            solver=self.solver,
            init=self.init if isinstance(self.init, str) else check_init(self.init),
            n_init=self.n_init,
            tol=check_number("tol", self.tol, low=0.0, open_low=True),
            max_iter=check_whole("max_iter", max_iter, low=1),
            method=self.method,
            robust=value_or_auto("robust", self.robust, check_flag),
            ends=self._ends(),
            from_zero=self.lower is None,
        )
        auto = isinstance(self.family, str) and self.family == "auto"
        family = get_family("gaussian" if auto else self.family, self.n_trials)
        return None if auto else family, settings

    def _alpha(self) -> float | str | None:
        if self.alpha is None or (isinstance(self.alpha, str) and self.alpha in _RIDGES):
            return self.alpha
        if isinstance(self.alpha, str):
            raise ParameterError(
                f"alpha: must be a number, None, 'auto' or 'held-out', got {self.alpha!r}; write "
                "for example 0.01"
            )
        return check_number("alpha", self.alpha, low=0.0)

    def _ends(self) -> Interval:
        """Return the ends of the target's domain that are given."""
        ends = {"lower": self.lower, "upper": self.upper}
        given = {
            name: value if value in (-np.inf, np.inf) else check_number(name, value, low=-LARGEST)
            for name, value in ends.items()
            if value is not None
        }
        if given and self.family not in ("ordinal", "auto"):
            raise ParameterError(
                f"{next(iter(given))}: goes with family='ordinal' or 'auto', got {self.family!r}; "
                "leave it out"
            )
        found = Interval(given.get("lower", -np.inf), given.get("upper", np.inf))
        if found.low >= found.high:
            raise ParameterError(
                f"lower: must be below upper, got {found.low:g} and {found.high:g}; swap them"
            )
        return found

    def _contextual(self) -> bool | None:
        """Return whether there are contextual effects, None where the fit chooses."""
        if isinstance(self.contextual, str) and self.contextual != "auto":
            return True  # the name of a table, which the target has to have
        found: bool | None = value_or_auto("contextual", self.contextual, check_flag)
        return found

    def _assign(self, fits: list[Fit], *, several: bool, offset: bool, release: bool) -> None:
        """Store the results, as they are for one target and stacked for several."""
        self._fits, self._several = fits, several
        fits = [fit.for_prediction() for fit in fits]
        self._holds_imputed = fits[0].imputed is not None
        self._holds_release, self._has_offset = release, offset
        for name, source in _STACKED.items():
            values = [getattr(fit, source) for fit in fits]
            setattr(self, name, np.array(values) if several else values[0])
        for name, source in _LISTED.items():
            values = [getattr(fit, source) for fit in fits]
            setattr(self, name, values if several else values[0])
        names = [fit.family.name for fit in fits]
        self.family_ = names if several else names[0]
        steps = [max(fit.n_iter, 1) for fit in fits]
        self.n_iter_ = np.array(steps) if several else steps[0]
        self.n_people_, self.n_blocks_ = fits[0].n_people, fits[0].n_blocks
        self.n_observed_ = fits[0].n_observed
        for name in _OF_BINS:
            if hasattr(self, name):  # of a fit before this one
                delattr(self, name)
        bins = fits[0].bins
        if bins is not None and not several:
            self.thresholds_ = bins.thresholds
            self.bin_edges_ = np.concatenate([bins.lower[:1], bins.upper])
            self.bin_values_ = bins.value

    def _check_rows(self, X: ArrayLike) -> Any:
        check_is_fitted(self)
        if is_wide(X):
            return check_columns(self, X)
        X = encoded(X, getattr(self, "encoding_", None))
        X = as_dense(refuse_masked(X, where="X"))
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    def _etas(
        self,
        X: FloatArray,
        blocks: ArrayLike | None,
        block_means: Mapping[Any, ArrayLike] | None,
        offset: ArrayLike | None,
    ) -> list[tuple[Fit, FloatArray]]:
        """Return what predicts of each fit, and the linear predictor of new people."""
        extra = new_offset(offset, X.shape[0], needed=self._has_offset)
        fits = [fit.for_prediction() for fit in self._fits]
        return [(fit, fit.eta(X, blocks, block_means, extra)) for fit in fits]

    def _only_fit(self, what: str) -> Fit:
        if self._several:
            raise ParameterError(f"{what}: needs a model of one target; fit them one by one")
        return self._fits[0]
