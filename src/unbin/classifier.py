"""The classifier: a multinomial logit for categories that were only published as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from unbin._checks import (
    check_choice,
    check_flag,
    check_number,
    check_share,
    check_threads,
    check_whole,
    value_or_auto,
)
from unbin._compiling import telling
from unbin._frames import (
    as_dense,
    as_text,
    column_names,
    is_source,
    missing_values,
    refuse_huge,
    take_rows,
    to_frame,
)
from unbin._html import ShowsSummary
from unbin._typing import ArrayLike, BoolArray, FloatArray, IntArray
from unbin.categories.problem import counts_of
from unbin.estimator import AggregatedGLM
from unbin.exceptions import AlignmentError, CategoryError, EngineError, ParameterError
from unbin.fitting.by_column import features_in
from unbin.fitting.categorical import (
    CategoryModel,
    CategorySettings,
    Factor,
    fit_labels,
    fit_tables,
    group_labels,
)
from unbin.fitting.category_tables import (
    block_table,
    group_table,
    summarise_categories,
    tabulate_categories,
)
from unbin.fitting.clusters import clusters_in
from unbin.fitting.inputs import (
    as_targets,
    check_rows,
    check_sample_weight,
    encoded,
    feature_names,
    note_columns,
    tables_of,
    warn_of_verdict,
)
from unbin.fitting.levels import Levels, factors_of
from unbin.fitting.naming import named_in
from unbin.fitting.numbered import in_numbers
from unbin.fitting.placement import Given, check_given, computing, place, target_in
from unbin.fitting.predictions import predict_mean
from unbin.fitting.summary import Coefficients, Summary
from unbin.people.encoding import Encoding
from unbin.release import Release
from unbin.release.categories import listed, recoded, union_of
from unbin.release.join import JoinedTarget, Tables
from unbin.release.observed import ObservedTarget
from unbin.release.target import is_release
from unbin.rows.engines import Layout, Options, open_engine

ENGINES = ("local", "dask")
_ONE_CLASS = "y: a classifier needs at least two classes, got one class: {}; add people of another"


class AggregatedClassifier(ShowsSummary, ClassifierMixin, BaseEstimator):
    """Multinomial logit for categories that were only published as tables.

    Votes by precinct, causes of death by county, occupations by district: the features of every
    person are known, their category is not. Each category has a linear predictor; published counts
    are compared with their expectations by a quasi-score, as :class:`AggregatedGLM` does for
    numbers. With two categories and no ``random``, it is that model's binomial family.

    Parameters
    ----------
    alpha : float, None or "auto"
        Ridge: mean loss + alpha/2 ||coef||², intercepts free. "auto" is the evidence ridge of the
        standardised slopes: *predictions* are shrunk by it, ``coef_`` and its errors are not. None
        is the same where the tables say little about some combination of slopes, and no ridge
        elsewhere.
    random : list of str, mapping of str to list of str, or None
        Features whose levels random effects follow: an effect per block, category and level (cell
        of levels, of several features), with a variance for each level. Columns of text by their
        name; columns of zeros and ones by their name, or several of them as
        ``{"race": ["black", "other"]}``. Levels have a weak prior around the pooled shares. None:
        an effect per block and category.
    contextual : float or "auto"
        Scale z of slopes on the block means of the features, for each group: N(0, z²) on the logit
        scale. 0: none. Margins alone do not identify it, so it is a sensitivity parameter: with
        ``random``, results are also given at 0, 0.25 and 0.5. A second table, or people whose
        category is known, identify contextual slopes and, with "auto", their scale.
    impossible : mapping of str to mapping, or None
        Categories that some people cannot be in: ``{"childbirth": {"sex": "m"}}``, by a feature in
        ``random`` and one or several of its levels.
    fit_intercept : bool
    tol : float
        The fit has converged when the next step is shorter than ``10 tol`` standard errors.
    max_iter : int
        Passes over the rows at most.
    n_jobs : int or None
        Threads, -1 or None for all cores.
    engine : {"local", "dask"}
        As for :class:`AggregatedGLM`.
    client : distributed.Client, address of a scheduler, or None
        Of "dask".

    Attributes
    ----------
    classes_ : (K,)
        The categories.
    coef_ : (K, d), or (1, d) for two categories
        Slopes of the log odds of each category; over more than two they sum to 0. For two, of the
        second against the first.
    intercept_ : (K,) or (1,)
    standard_errors_ : as ``coef_``
    alpha_ : float
    effect_sd_ : (G,)
        Standard deviation of the random effects on a logit, by group.
    context_sd_ : float
        The scale z of contextual slopes, as given or as estimated.
    diagnostics_ : Diagnostics
        ``verdicts`` and ``precision`` are those of ``coef_`` row by row.
    status_ : Enum
    n_iter_, n_people_, n_blocks_ : int

    References
    ----------
    McCullagh, P. and Nelder, J. A. (1989). *Generalized linear models*, 2nd ed., chapter 5.

    Examples
    --------
    >>> import numpy as np, unbin
    >>> rng = np.random.default_rng(0)
    >>> precinct = np.repeat(np.arange(80), 100)
    >>> age = rng.normal(size=8000) + rng.normal(size=80)[precinct]
    >>> noise = rng.gumbel(size=(8000, 3))
    >>> vote = np.array(["left", "none", "right"])[(age[:, None] * [-1, 0, 1] + noise).argmax(1)]
    >>> votes = unbin.aggregate(vote, precinct)              # all that is published of the votes
    >>> model = unbin.AggregatedClassifier().fit(age[:, None], votes.align(precinct))
    >>> model.predict([[-3.0], [3.0]]).tolist()
    ['left', 'right']
    >>> model.coef_.round(1).ravel().tolist()
    [-1.0, 0.0, 1.0]
    """

    _model: CategoryModel
    _binary: AggregatedGLM | None

    def __init__(
        self,
        alpha: float | str | None = "auto",
        *,
        random: Any = None,
        contextual: float | str = 0.0,
        impossible: Mapping[str, Mapping[str, Any]] | None = None,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 200,
        n_jobs: int | None = None,
        engine: str = "local",
        client: Any = None,
    ) -> None:
        self.alpha = alpha
        self.random = random
        self.contextual = contextual
        self.impossible = impossible
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.engine = engine
        self.client = client

    def fit(
        self,
        X: ArrayLike,
        y: Any,
        *,
        block: Any = None,
        features: Sequence[str] | None = None,
        weights: Any = None,
        weighting: str = "frequency",
        observed: str | None = None,
        disjoint: bool = False,
        sample_weight: ArrayLike | None = None,
        cluster: Any = None,
    ) -> AggregatedClassifier:
        """Fit the model.

        Parameters
        ----------
        X : (n, d) features of each person
            Or a frame, whose columns of text become indicators of their levels; or Parquet files;
            or, with ``engine="dask"``, a Dask frame or array.
        y : AggregatedTarget, JoinedTarget, mapping, or (n,) labels
            ``release.align(blocks)`` of a table of categories, ``join`` of several, or the tables
            by the columns that hold their blocks: ``{"precinct": votes}``. Plain labels are
            observed, and give the ordinary multinomial logit.
        block, features, weights, weighting, observed, disjoint, sample_weight, cluster
            As for ``AggregatedGLM.fit``; with more than two categories clusters of one kind, beside
            one table.

        Returns
        -------
        self
        """
        given = Given(
            None, block, features, weights, weighting, observed, disjoint, sample_weight, cluster
        )
        return self._fit(X, y, given)

    # -- predictions -------------------------------------------------------------------------------

    def decision_function(self, X: ArrayLike, *, blocks: ArrayLike | None = None) -> FloatArray:
        """Return the predictors of people: (n, K), or (n,) for two categories.

        ``blocks`` (n,): with contextual slopes, whose block means go with each row.
        """
        X = self._check_rows(X)
        if self._binary is not None:
            return self._binary._fits[0].for_prediction().eta(X)
        eta = self._model.eta(X, self._places(blocks, len(X)))
        return np.asarray(eta[:, 1] - eta[:, 0]) if len(self.classes_) == 2 else eta

    def predict_proba(self, X: ArrayLike, *, blocks: ArrayLike | None = None) -> FloatArray:
        """Return the probability of every category, (n, K), in the order of ``classes_``."""
        X = self._check_rows(X)
        if self._binary is not None:
            fit = self._binary._fits[0].for_prediction()
            second = predict_mean(fit, fit.eta(X))
            return np.column_stack([1 - second, second])
        return self._model.probabilities(X, self._places(blocks, len(X)))

    def predict_log_proba(self, X: ArrayLike, *, blocks: ArrayLike | None = None) -> FloatArray:
        """Return the log of the probability of every category, (n, K)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X, blocks=blocks)))

    def predict(self, X: ArrayLike, *, blocks: ArrayLike | None = None) -> Any:
        """Return the most likely category of each person."""
        place = self.predict_proba(X, blocks=blocks).argmax(axis=1)
        return self.classes_[place]

    def score(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return how well the model explains a target; larger is better.

        For labels, the accuracy, as in scikit-learn; for a table of categories, the mean predictive
        log score of the published counts per person.
        """
        if not _is_aggregated(y):
            return float(super().score(X, y, sample_weight))
        targets = as_targets(y)
        if targets is None or len(targets) != 1:
            raise ParameterError("score: takes one target, got several; score them one by one")
        (target,) = targets
        q = self.predict_proba(X)
        check_rows([target], len(q))
        table = tables_of(target)[0]
        release = _in_order(table.release, tuple(map(str, self.classes_)))
        people = np.ones(len(q)) if table.weights is None else table.weights.values
        sums = np.zeros((len(release), q.shape[1]))
        np.add.at(sums, table.codes, people[:, None] * q)
        return counts_of(release).log_score(sums)

    # -- results -----------------------------------------------------------------------------------

    @property
    def standard_errors_(self) -> FloatArray:
        """Standard errors of ``coef_``."""
        check_is_fitted(self)
        if self._binary is not None:
            return self._binary.standard_errors_[None]
        return self._errors()[:, 1:]

    def conf_int(self, level: float = 0.95) -> FloatArray:
        """Return confidence intervals of ``coef_``, shape (K, d, 2)."""
        check_is_fitted(self)
        check_share("level", level)
        if self._binary is not None:
            return self._binary.conf_int(level)[None]
        errors, df = self.standard_errors_, self._model.df_residual
        coef, _ = self._shown(self._model.coef, self._model.intercept)
        terms = Coefficients((), coef.ravel(), errors.ravel(), level, df)
        return terms.interval().reshape(*coef.shape, 2)

    def cov_params(self) -> FloatArray:
        """Return the covariance of all terms, in the order of ``tidy``."""
        check_is_fitted(self)
        return self._binary.cov_params() if self._binary is not None else self._model.covariance

    def summary(self, level: float = 0.95) -> Summary:
        """Return coefficients, errors, tests and diagnostics; it prints as text."""
        check_is_fitted(self)
        if self._binary is not None:
            found = self._binary.summary(level)
            return replace(found, facts=(("Odds of:", self._odds()), *found.facts))
        return summarise_categories(self._model, feature_names(self), level)

    def tidy(
        self, exponentiate: bool = False, level: float = 0.95, *, backend: str | None = None
    ) -> Any:
        """Return the coefficients as a frame, one row per category and term.

        ``exponentiate``: odds of the category relative to the geometric mean of all or, with two
        categories, odds ratios of the second.
        """
        check_is_fitted(self)
        check_flag("exponentiate", exponentiate)
        if self._binary is not None:
            found = self._binary.tidy(exponentiate, level, backend=backend)
            columns = {name: np.asarray(found[name]) for name in found.columns}
            second = [str(self.classes_[1])] * len(columns["term"])
            return to_frame({"category": second, **columns}, backend)
        columns = tabulate_categories(
            self._model, feature_names(self), level, exponentiate=exponentiate
        )
        return to_frame(columns, backend)

    def group_table(
        self, by: Any = None, level: float = 0.95, *, backend: str | None = None
    ) -> Any:
        """Return people by group and category, over all blocks, with intervals.

        Parameters
        ----------
        by : str or list of str, optional
            Features of ``random``; all of them when left out.
        level : float
            Coverage of the intervals.
        backend : {"pandas", "polars"}, optional

        Returns
        -------
        frame
            A column per feature, category, people, count, share, conf_low, conf_high (of the
            share), and the share at each scale z of contextual slopes, ``share_z_…``: intervals do
            not cover the uncertainty about these.
        """
        check_is_fitted(self)
        return to_frame(group_table(self._grouped("group_table"), by, level), backend)

    def block_table(
        self, by: Any = None, level: float = 0.95, *, backend: str | None = None
    ) -> Any:
        """Return people of every block by group and category, with intervals.

        Counts agree with the margins of each block: its people by group and its published
        categories. Parameters are those of ``group_table``.
        """
        check_is_fitted(self)
        model = self._grouped("block_table")
        if model.cells is None:
            raise ParameterError(
                "block_table: cells of blocks are not saved unless the table is public, got a "
                "model without them; save it with public=True"
            )
        return to_frame(block_table(model, by, level), backend)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _summary_html(self) -> str | None:
        return self.summary()._repr_html_() if hasattr(self, "classes_") else None

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        model = state.get("_model")
        if model is not None and model.counts is not None and model.counts.less_known:
            state["_model"] = model.without_counts()
        return state

    # -- private -----------------------------------------------------------------------------------

    def _fit(
        self, X: Any, y: Any, given: Given, encoding: Encoding | None = None
    ) -> AggregatedClassifier:
        """Fit the model; ``encoding`` is what made X of a formula."""
        self._check_parameters()
        check_given(given, source=is_source(X), mapped=isinstance(y, Mapping))
        with telling():
            if _is_aggregated(y):
                self._fit_tables(X, y, given, encoding)
            else:
                self._fit_labels(X, y, given)
        if encoding is not None:
            self.encoding_ = encoding
        if self._binary is None:
            warn_of_verdict(self._model.diagnostics, self._model.status)
        return self

    def _odds(self) -> str:
        """Return what odds are of, of two categories."""
        return f"{self.classes_[1]} against {self.classes_[0]}"

    def _check_parameters(self) -> None:
        check_choice("engine", self.engine, ENGINES)
        if self.alpha is not None and not (isinstance(self.alpha, str) and self.alpha == "auto"):
            if isinstance(self.alpha, str):
                raise ParameterError(
                    f"alpha: must be a number, None or 'auto', got {self.alpha!r}; write for "
                    "example 0.01"
                )
            check_number("alpha", self.alpha, low=0.0)
        value_or_auto("contextual", self.contextual, partial(check_number, low=0.0))
        check_number("tol", self.tol, low=0.0, open_low=True)
        check_whole("max_iter", self.max_iter, low=1)
        check_flag("fit_intercept", self.fit_intercept)
        if self.impossible is not None and self.random is None:
            raise ParameterError(
                "impossible: names levels of features in random, got random=None; pass random=[...]"
            )

    def _settings(self, factors: tuple[Factor, ...], classes: Sequence[str]) -> CategorySettings:
        return CategorySettings(
            alpha=self.alpha,
            contextual=None if isinstance(self.contextual, str) else float(self.contextual),
            layout=Layout(fit_intercept=self.fit_intercept),
            factors=factors,
            possible=_possible(self.impossible, factors, classes) if factors else None,
            tol=(10 * self.tol) ** 2,
            max_iter=int(self.max_iter),
        )

    @property
    def _plain(self) -> bool:
        """Whether two categories are a binomial outcome."""
        return self.random is None and self.contextual == 0

    def _glm(self) -> AggregatedGLM:
        names = ("alpha", "fit_intercept", "tol", "max_iter", "n_jobs", "engine", "client")
        return AggregatedGLM("binomial", **{name: getattr(self, name) for name in names})

    def _fit_labels(self, X: Any, y: Any, given: Given) -> None:
        """Fit to people whose category was observed."""
        if given.cluster is not None:
            raise ParameterError("cluster: is for tables, got observed labels; leave it out")
        if self.engine != "local":
            raise EngineError(
                f"engine {self.engine!r}: fits tables, got observed labels; use engine='local'"
            )
        if given.block is not None or given.features is not None:
            raise ParameterError(
                "block, features: name columns beside tables, got observed labels; pass the "
                "features alone as X"
            )
        coding = None if column_names(X) is None else Levels.of(X)
        X = X if coding is None else coding.frame(X)
        weights, sketch = given.sample_weight, clone(self)
        if isinstance(y, ObservedTarget | JoinedTarget):
            X, y, weights = _those_labelled(X, y, weights)
        # scikit-learn sets attributes of the model, which a failed fit must leave as they were
        X, y = validate_data(sketch, as_dense(X), y, dtype=np.float64)
        refuse_huge(X, where="X")
        _refuse_unlike(y)
        check_classification_targets(y)
        if weights is not None:
            weights = check_sample_weight(weights, len(X))
            kept = weights > 0
            X, y, weights = X[kept], y[kept], weights[kept]
        classes, codes = np.unique(y, return_inverse=True)
        names = [str(each) for each in classes]
        if len(classes) < 2:
            raise CategoryError(_ONE_CLASS.format(listed(names)))
        columns = sketch.n_features_in_, getattr(sketch, "feature_names_in_", None)
        if len(classes) == 2 and self._plain:
            ridge = None if isinstance(self.alpha, str) else self.alpha
            glm = self._glm().set_params(alpha=ridge)
            glm.fit(X, codes.astype(float), sample_weight=weights)
            for each in (glm, self):
                note_columns(each, *columns)
            self._assign_binary(glm, classes)
        else:
            settings = self._settings((), ())
            with computing():
                model = fit_labels(X, codes, names, weights, settings, check_threads(self.n_jobs))
            self._binary = None
            note_columns(self, *columns)
            self._assign(model, classes)
        self._note_coding(coding)

    def _fit_tables(self, X: Any, y: Any, given: Given, encoding: Encoding | None) -> None:
        """Fit to published tables."""
        coding: Levels | None = None
        if isinstance(y, Mapping) and not is_source(X):
            y = target_in(X, y, given)
            cluster = None if given.cluster is None else clusters_in(X, given.cluster)
            X, given = features_in(X, given.features), Given(cluster=cluster)
        if not is_source(X) and column_names(X) is not None:
            coding = Levels.of(X)
            X = X if coding is None else coding.frame(X)
        classes = categories_of(y)
        if len(classes) < 2:
            raise CategoryError(_ONE_CLASS.format(listed(classes)))
        if len(classes) == 2 and self._plain:
            glm = self._glm()
            how = {name: getattr(given, name) for name in Given.__dataclass_fields__}
            glm.fit(X, in_numbers(y), **how)
            note_columns(self, glm.n_features_in_, getattr(glm, "feature_names_in_", None))
            self._assign_binary(glm, np.array(classes))
        else:
            options = Options(n_threads=check_threads(self.n_jobs), client=self.client)
            engine = open_engine(self.engine, options)
            how = {"prepare": _check_categories, "crossed": given.cluster is not None}
            people = place(X, y, given, engine=engine, family=None, model=self, **how)
            with people as placed:
                names = placed.names
                named = [f"x{j}" for j in range(placed.n_features)] if names is None else names
                factors = factors_of(self.random, list(map(str, named)), coding or encoding)
                settings = self._settings(factors, classes)
                settings = replace(settings, clusters=placed.clusters)
                (target,) = placed.targets
                model = fit_tables(*target, settings)
            note_columns(self, placed.n_features, placed.names)
            self._binary = None
            self._assign(model, np.array(classes))
        self._note_coding(coding)

    def _note_coding(self, coding: Levels | None) -> None:
        for name in ("encoding_", "coding_"):
            if hasattr(self, name):  # of a fit before this one
                delattr(self, name)
        if coding is not None:
            self.coding_ = coding

    def _assign_binary(self, glm: AggregatedGLM, classes: Any) -> None:
        self._binary, self.classes_ = glm, classes
        self.coef_, self.intercept_ = glm.coef_[None], np.atleast_1d(glm.intercept_)
        self.alpha_, self.effect_sd_ = glm.alpha_, np.atleast_1d(glm.block_sd_)
        self.context_sd_ = 0.0
        self.diagnostics_, self.status_, self.n_iter_ = glm.diagnostics_, glm.status_, glm.n_iter_
        self.n_people_, self.n_blocks_ = glm.n_people_, glm.n_blocks_

    def _assign(self, model: CategoryModel, classes: Any) -> None:
        model = replace(model, diagnostics=named_in(model.diagnostics, feature_names(self)))
        self._model, self.classes_ = model, classes
        self.coef_, self.intercept_ = self._shown(*model.predicting)
        self.alpha_, self.effect_sd_ = model.alpha, model.effect_sd
        self.context_sd_ = model.context_sd
        self.diagnostics_, self.status_ = model.diagnostics, model.status
        self.n_iter_ = max(model.n_iter, 1)
        self.n_people_, self.n_blocks_ = model.n_people, model.n_blocks

    def _shown(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return coefficients as scikit-learn has them: of two classes, of the second."""
        if len(self.classes_) == 2:
            return coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        return coef, intercept

    def _errors(self) -> FloatArray:
        """Return standard errors of intercepts and slopes, as ``coef_`` has them."""
        k, d = self._model.coef.shape
        covariance = self._model.covariance.reshape(k, 1 + d, k, 1 + d)
        each = np.einsum("kjlj->jkl", covariance)
        if k == 2:
            variance = each[:, 0, 0] + each[:, 1, 1] - 2 * each[:, 0, 1]
            return np.asarray(np.sqrt(np.maximum(variance, 0.0))[None])
        return np.asarray(np.sqrt(np.maximum(np.einsum("jkk->kj", each), 0.0)))

    def _grouped(self, what: str) -> CategoryModel:
        if self._binary is not None or self._model.totals is None:
            raise ParameterError(
                f"{what}: cells are estimated where effects follow groups, got a fit without them; "
                "fit tables with random=[...]"
            )
        return self._model

    def _check_rows(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        coding = getattr(self, "coding_", None)
        if coding is not None and column_names(X) is not None:
            X = coding.frame(X)
        X = encoded(X, getattr(self, "encoding_", None))
        return np.asarray(validate_data(self, as_dense(X), dtype=np.float64, reset=False))

    def _places(self, blocks: ArrayLike | None, n: int) -> IntArray | None:
        """Return where each row's block is among those of the fit, -1 where it is none of them."""
        if blocks is None:
            return None
        ids = as_text(blocks, where="blocks")
        if len(ids) != n:
            raise AlignmentError(f"blocks: {len(ids)} ids for {n} rows of X; pass one per row")
        known = self._model.blocks
        place = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        return np.where(known[place] == ids, place, -1)


def _is_aggregated(y: Any) -> bool:
    """Tell whether a target was published as tables."""
    if isinstance(y, ObservedTarget):
        return False
    if isinstance(y, list | tuple):
        return any(is_release(each) or hasattr(each, "codes") for each in y)
    return isinstance(y, Mapping) or is_release(y) or as_targets(y) is not None


def categories_of(y: Any) -> tuple[str, ...]:
    """Return the categories of a target, in the order that its tables share."""
    if isinstance(y, Mapping):
        orders = [categories_of(release) for release in y.values()]
    elif isinstance(y, Release):
        orders = [y.categories]
    elif isinstance(y, list | tuple):
        raise ParameterError("y: a classifier has one target, got a list; fit one model for each")
    else:
        orders = [table.release.categories for table in tables_of(y)]
    if not all(orders):
        raise CategoryError(
            "y: must be tables of categories, got numbers; fit them with unbin.AggregatedGLM, or "
            "read them with Release.from_categories"
        )
    return union_of(orders)


def _check_categories(release: Release | Tables) -> Release | Tables:
    """Return tables of categories as they are; raise unless there is a count in them."""
    for each in release.releases if isinstance(release, Tables) else (release,):
        if not each.categories:
            raise CategoryError(
                "y: must be tables of categories, got numbers; fit them with unbin.AggregatedGLM"
            )
    return release


def _in_order(release: Release, classes: tuple[str, ...]) -> Release:
    unknown = [name for name in release.categories if name not in classes]
    if unknown or not release.categories:
        got = repr(unknown[0]) if unknown else "numbers"
        raise CategoryError(
            f"score: the table must have the categories of the fit, {listed(classes)}, got {got}; "
            "fit the model to such a table"
        )
    return recoded(release, classes)


def _those_labelled(X: Any, y: ObservedTarget | JoinedTarget, weights: Any) -> tuple[Any, Any, Any]:
    """Return the rows whose category is known, these categories, and their weights."""
    known = y if isinstance(y, ObservedTarget) else y.observed
    assert known is not None
    if len(known) != len(X):
        raise AlignmentError(
            f"y: {len(known)} labels were observed, X has {len(X)} rows; say None where nobody "
            "knows"
        )
    rows = known.rows
    labels = known.values[rows]
    if known.categories:
        labels = np.array(known.categories)[labels.astype(np.int64)]
    weights = None if weights is None else np.asarray(weights)[rows]
    return take_rows(X, rows), labels, weights


def _refuse_unlike(y: Any) -> None:
    """Raise if labels are missing, or of several kinds that have no order."""
    if y.dtype.kind != "O":
        return
    missing = missing_values(y)
    if missing.any():
        raise CategoryError(
            f"y: every row needs a label, got {int(missing.sum())} missing, the first in row "
            f"{int(np.argmax(missing))}; pass unbin.observed(y), which leaves those people out"
        )
    kinds = sorted({type(label).__name__ for label in y})
    if len(kinds) > 1:
        raise CategoryError(
            f"y: labels must be of one kind, got {', '.join(kinds)}; convert them to text"
        )


def _possible(
    impossible: Mapping[str, Mapping[str, Any]] | None,
    factors: Sequence[Factor],
    classes: Sequence[str],
) -> BoolArray | None:
    """Return which categories people of each group can be in, (G, K)."""
    if impossible is None:
        return None
    if not isinstance(impossible, Mapping) or not all(
        isinstance(where, Mapping) for where in impossible.values()
    ):
        raise ParameterError(
            f"impossible: must map categories to levels of features, got {impossible!r}; pass for "
            "example {'childbirth': {'sex': 'm'}}"
        )
    labels, names = group_labels(factors), [factor.name for factor in factors]
    found = np.ones((len(labels), len(classes)), dtype=bool)
    for category, where in impossible.items():
        if category not in classes:
            raise CategoryError(
                f"impossible: must name categories, {listed(list(classes))}, got {category!r}; "
                "correct it"
            )
        for name, levels in where.items():
            if name not in names:
                raise ParameterError(
                    f"impossible: must name features in random, got {name!r}; add it there"
                )
            f = names.index(name)
            some = list(levels) if isinstance(levels, list | tuple | set) else [levels]
            unknown = [level for level in some if level not in factors[f].levels]
            if unknown:
                raise ParameterError(
                    f"impossible: {name!r} has the levels {listed(factors[f].levels)}, got "
                    f"{unknown[0]!r}; correct it"
                )
            hit = np.array([label[f] in some for label in labels])
            found[hit, list(classes).index(category)] = False
    if not found.any(axis=1).all():
        raise ParameterError(
            "impossible: everybody must be able to be in some category, got a group without one; "
            "leave one"
        )
    return found
