"""Any scikit-learn regressor, fitted to a target that was only published as a table."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length, check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from unbin._blocks import deal_blocks
from unbin._checks import check_choice, check_number, check_whole
from unbin._compiling import telling
from unbin._frames import as_floats, filled, refuse_masked
from unbin._typing import ArrayLike, FloatArray, IntArray
from unbin._watching import Status
from unbin.exceptions import (
    AggregatedTargetError,
    DomainError,
    IdentificationWarning,
    ParameterError,
    ReleaseError,
)
from unbin.families import BregmanFamily, get_family
from unbin.fitting.inputs import as_targets, check_observed, check_rows, note_columns
from unbin.fitting.predictions import lay_out_eta
from unbin.matching.alternation import Alternation, Nearest, alternate, floored
from unbin.matching.fit import matching_bounds, release_divergence
from unbin.matching.objective import Objective
from unbin.matching.repeated import check_repeatable
from unbin.matching.start import block_means_start
from unbin.release.join import JoinedTarget
from unbin.release.target import AggregatedTarget
from unbin.rows.design import Design, lay_out

STARTS = ("block-means", "splines")
KNOTS = (0.25, 0.5, 0.75)
"""Quantiles of each feature at which the splines of a start bend."""
LOSSES = {"squared": "gaussian", "poisson": "poisson"}
"""The family whose divergence each loss is."""


class AggregatedRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):
    """Fit any scikit-learn regressor to a target that was only published as a table.

    The paper's alternation with ``estimator`` as its model: fit it to imputed targets z, predict,
    impute the z nearest to the predictions that satisfy the release (Lemma 3), and repeat until
    the objective D(z || predictions) / n stops falling.

    Parameters
    ----------
    estimator : scikit-learn regressor
        Cloned for every fit. Where its own ``random_state`` is None it is seeded, alike in every
        fit, from this model's.
    loss : {"squared", "poisson"}
        The divergence: (z - mean)²/2, or z log(z/mean) - z + mean for counts. It should be the
        loss that ``estimator`` minimises.
    max_iter : int
        The largest number of fits in the alternation.
    tol : float
        Stop after three steps in a row that each lower the objective by less than ``tol`` times
        D(z || average z) / n, that of a constant prediction.
    init : {"block-means", "splines"} or (n,) predictions
        What the first imputation is nearest to; the alternation ends near where it begins.
        "block-means" regresses, by a GLM, rough block means of the target on block means of the
        features; "splines" on those of piecewise linear splines of each feature too, four columns
        a feature, which takes more blocks. Best are predictions of a model that is nearly right,
        such as ``AggregatedGLM`` on splines.
    cv : int or None
        Predict each fold of blocks, for the imputation, by a fit to all others. A flexible learner
        that predicts the people it was fitted to returns their z, right or wrong, and the
        alternation stays where it began; held-out blocks keep what other blocks confirm. None
        predicts in the sample, as the paper does, which is faster and just as good for learners
        that cannot memorise (see experiments/nonlinear.py).
    random_state : int, RandomState or None
        Seeds folds, ties and the estimator.

    Attributes
    ----------
    estimator_ : the fitted clone
        With ``cv``, fitted to the best z of all people.
    objective_ : float
        The best objective; with ``cv`` that of the predictions of held-out blocks.
    objective_path_ : (``n_iter_`` + 1,)
        At the start and after each step.
    status_ : Enum
        How the fit ended; ``status_.value`` is a sentence.
    n_iter_, n_people_, n_blocks_ : int

    Notes
    -----
    There are no standard errors, and matching mistakes noise for signal: predictions spread too far
    where the features explain little (see ``AggregatedGLM``, whose likelihood does not; with
    splines of the features it is non-linear too). A saved or copied model does not hold z, but a
    learner that memorises its targets, such as nearest neighbours, holds them inside itself.

    References
    ----------
    Bhowmik, A., Ghosh, J. and Koyejo, O. (2015). Generalized linear models for aggregated data.
    *Proceedings of the 18th International Conference on Artificial Intelligence and Statistics
    (AISTATS)*, 93-101.

    Examples
    --------
    >>> import numpy as np, unbin
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> rng = np.random.default_rng(0)
    >>> county = np.repeat([f"{c:03d}" for c in range(100)], 30)
    >>> X = rng.normal(size=(3000, 2)) + rng.normal(size=(100, 2)).repeat(30, axis=0)
    >>> y = X[:, 0] ** 2 + X[:, 1] + 0.3 * rng.normal(size=3000)
    >>> target = unbin.aggregate(y, county, bins=8).align(county)
    >>> learner = DecisionTreeRegressor(min_samples_leaf=30)
    >>> model = unbin.AggregatedRegressor(learner, random_state=0).fit(X, target)
    >>> linear = unbin.AggregatedGLM().fit(X, target)
    >>> bool(model.score(X, y) > linear.score(X, y) + 0.2)
    True
    """

    _imputed: FloatArray | None

    def __init__(
        self,
        estimator: Any,
        *,
        loss: str = "squared",
        max_iter: int = 30,
        tol: float = 1e-3,
        init: str | ArrayLike = "block-means",
        cv: int | None = 5,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.loss = loss
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any) -> AggregatedRegressor:
        """Fit the model.

        Parameters
        ----------
        X : (n, d) features of each person
            Missing values where ``estimator`` takes them.
        y : AggregatedTarget or (n,) numbers
            ``release.align(blocks)``; plain numbers are observed targets, which ``estimator`` is
            fitted to once. Rows that stand for several people (``align(blocks, weights=...)``,
            whole numbers) have the mean of their targets, and ``estimator`` gets their number as
            ``sample_weight``.

        Returns
        -------
        self
        """
        settings = self._check_parameters()
        target = self._target(y)
        X = _unmasked(X, self.estimator)
        rows = clone(self)  # a failed fit must leave a fitted model as it was
        finite = "allow-nan" if get_tags(self.estimator).input_tags.allow_nan else True
        if target is None:
            X, y = validate_data(
                rows,
                X,
                refuse_masked(y, where="y"),
                dtype=np.float64,
                y_numeric=True,
                ensure_all_finite=finite,
            )
            y = as_floats(y, where="y", error=DomainError)
            check_observed(y, settings.family)
            found = _observed(settings.learner(X, y), y)
        else:
            X = validate_data(rows, X, dtype=np.float64, ensure_all_finite=finite)
            check_rows([target], len(X))
            with telling():
                found = _fit(X, target, settings)
        n_people = len(X) if target is None else int(target.release.n.sum())
        self._assign(found, rows, n_people, 1 if target is None else len(target.release))
        if not found.status.identified:
            warnings.warn(found.status.value, IdentificationWarning, stacklevel=2)
        elif not found.status.converged:
            warnings.warn(found.status.value, ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return the mean of people with features X, shape (n,)."""
        check_is_fitted(self)
        finite = "allow-nan" if get_tags(self.estimator).input_tags.allow_nan else True
        X = _unmasked(X, self.estimator)
        X = validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite=finite)
        mean = _predict(self.estimator_, X)
        return floored(mean) if self.loss == "poisson" else mean

    def impute(self) -> FloatArray:
        """Return targets of the training rows, in their order, that satisfy the release.

        They are personal values, so a saved or copied model does not hold them.
        """
        check_is_fitted(self)
        if self._imputed is None:
            raise AggregatedTargetError(
                "impute: this model holds no imputed targets (it was fitted to observed ones, or "
                "was copied or loaded); fit it to an aggregated target first"
            )
        return self._imputed.copy()

    def score(self, X: ArrayLike, y: Any) -> float:
        """Return how well the model explains a target; larger is better.

        For an aggregated target: minus the mean divergence between predictions and the nearest
        targets that satisfy the release. For observed targets: D², the share of the divergence
        from the mean that is explained (R² for the squared loss).
        """
        mean = self.predict(X)
        family = _family(self.loss)
        target = self._target(y)
        if target is None:
            check_consistent_length(mean, y)
            y = as_floats(y, where="y")
            check_observed(y, family)
            null = float(family.divergence(y, np.full_like(y, y.mean())).sum())
            error = float(family.divergence(y, mean).sum())
            return 1.0 - error / null if null > 0 else float(error == 0)
        check_rows([target], len(mean))
        target.release.check_domain(family.domain, family=family.name)
        design, eta = lay_out_eta(target, family.link(mean))
        return -release_divergence(target.release, family, design, eta)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        tags.target_tags.positive_only = self.loss == "poisson"
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "_imputed" in state:  # personal values are written only when asked for
            state["_imputed"] = None
        return state

    # -- private -----------------------------------------------------------------------------------

    def _check_parameters(self) -> _Settings:
        if isinstance(self.estimator, type) or not (
            hasattr(self.estimator, "fit") and hasattr(self.estimator, "predict")
        ):
            raise ParameterError(
                f"estimator: must be a scikit-learn regressor, got {self.estimator!r}; pass an "
                "object with fit and predict"
            )
        check_choice("loss", self.loss, tuple(LOSSES))
        if isinstance(self.init, str):
            check_choice("init", self.init, STARTS)
        return _Settings(
            estimator=self.estimator,
            family=_family(self.loss),
            max_iter=check_whole("max_iter", self.max_iter, low=1),
            tol=check_number("tol", self.tol, low=0.0),
            init=self.init if isinstance(self.init, str) else _numbers(self.init),
            cv=None if self.cv is None else check_whole("cv", self.cv, low=2),
            seed=int(check_random_state(self.random_state).randint(2**31)),
        )

    def _target(self, y: Any) -> AggregatedTarget | None:
        targets = as_targets(y)
        if targets is None:
            return None
        if len(targets) != 1:
            raise ParameterError("y: takes one target, got a list; fit them one by one")
        (target,) = targets
        if isinstance(target, JoinedTarget) and target.observed is not None:
            raise ParameterError(
                "y: matching takes a table alone, got outcomes that are known beside it; use "
                "unbin.AggregatedGLM, whose likelihood takes them"
            )
        if isinstance(target, JoinedTarget):
            raise ParameterError(
                f"y: matching takes one table, got {len(target.tables)} of the same people; use "
                "unbin.AggregatedGLM, whose likelihood takes several"
            )
        return target

    def _assign(self, found: Alternation, rows: Any, n_people: int, n_blocks: int) -> None:
        self.estimator_ = found.learned
        self._imputed = None if found.status is Status.OBSERVED else found.z
        self.objective_ = found.value
        self.objective_path_ = np.array(found.path)
        self.status_ = found.status
        self.n_iter_ = max(len(found.path) - 1, 1)
        self.n_people_, self.n_blocks_ = n_people, n_blocks
        note_columns(self, rows.n_features_in_, getattr(rows, "feature_names_in_", None))


@dataclass(frozen=True, slots=True)
class _Settings:
    """The parameters, checked."""

    estimator: Any
    family: BregmanFamily
    max_iter: int
    tol: float
    init: str | FloatArray
    cv: int | None
    seed: int

    def learner(self, X: FloatArray, z: FloatArray, people: FloatArray | None = None) -> Any:
        """Fit a clone of the estimator, seeded alike each time."""
        model = clone(self.estimator)
        names = [name for name in model.get_params() if name.split("__")[-1] == "random_state"]
        unset = {name: self.seed for name in names if model.get_params()[name] is None}
        weights = {} if people is None else {"sample_weight": people}
        return model.set_params(**unset).fit(X, z, **weights)


def _fit(X: FloatArray, target: AggregatedTarget, settings: _Settings) -> Alternation:
    """Alternate from the start that the settings name; z comes back in the order of X."""
    family, release = settings.family, target.release
    release.check_domain(family.domain, family=family.name)
    people = _people(target, settings.estimator)
    design = _laid_out(_filled(X, people), target, people, seed=settings.seed)
    check_repeatable(design)
    rows, bounds = design.in_memory(), matching_bounds(release, family)
    nearest = Nearest(bounds, family, np.asarray(rows.key), rows.start, rows.weights)
    scale = Objective(design, family, design.ridge(0.0), nearest.bounds).null_divergence()
    start = _start(X, target, people, design, nearest, settings)
    if settings.cv is None:
        fold = None
    else:
        fold = _folds(release.n, settings.cv, settings.seed)[target.codes]

    def learn(z: FloatArray) -> tuple[FloatArray, Any]:
        rows = design.to_rows_of_x(z)
        if fold is None:
            model = settings.learner(X, rows, people)
            return _predict(model, X)[design.order], model
        mean = np.empty(len(X))
        for k in range(int(fold.max()) + 1):
            held, kept = fold == k, fold != k
            some = None if people is None else people[kept]
            mean[held] = _predict(settings.learner(X[kept], rows[kept], some), X[held])
        return mean[design.order], None

    found = alternate(
        learn,
        nearest,
        start,
        scale=scale if scale > 0 else 1.0,
        tol=settings.tol,
        max_iter=settings.max_iter,
    )
    z = design.to_rows_of_x(found.z)
    model = settings.learner(X, z, people) if found.learned is None else found.learned
    return Alternation(model, z, found.value, found.path, found.status)


def _people(target: AggregatedTarget, estimator: Any) -> FloatArray | None:
    """Return how many people each row stands for; raise if the estimator cannot be told."""
    if target.weights is None:
        return None
    if not has_fit_parameter(estimator, "sample_weight"):
        raise ParameterError(
            "estimator: must take sample_weight where rows stand for several people, got "
            f"{type(estimator).__name__}; use another regressor, or repeat the rows"
        )
    return target.weights.values


def _laid_out(
    X: FloatArray, target: AggregatedTarget, people: FloatArray | None, seed: int = 0
) -> Design:
    sampled = target.weights is not None and target.weights.sampled
    return lay_out(X, target.codes, len(target.release), seed=seed, weights=people, sampled=sampled)


def _start(
    X: FloatArray,
    target: AggregatedTarget,
    people: FloatArray | None,
    design: Design,
    nearest: Nearest,
    settings: _Settings,
) -> FloatArray:
    """Return the means to start from, in the order of the design."""
    if isinstance(settings.init, str):
        rng = np.random.default_rng(settings.seed)
        if settings.init == "splines":
            design = _laid_out(_splines(_filled(X, people), people), target, people)
        theta = block_means_start(design, nearest.bounds, settings.family, rng)
        return settings.family.inverse_link(design.eta(theta))
    n = design.n_rows
    if settings.init.shape != (n,) or not np.isfinite(settings.init).all():
        raise ParameterError(
            f"init: must be 'block-means', 'splines' or one finite prediction per row of X ({n}), "
            f"got {settings.init.size} numbers; correct it"
        )
    return settings.init[design.order]


def _splines(X: FloatArray, people: FloatArray | None) -> FloatArray:
    """Return the columns and their excess over each knot."""
    times = 1 if people is None else people.astype(np.int64)
    knots = np.column_stack([np.quantile(np.repeat(x, times), KNOTS) for x in X.T])
    return np.column_stack([X, *(np.maximum(X - knot, 0.0) for knot in knots)])


def _numbers(init: ArrayLike) -> FloatArray:
    try:
        return as_floats(init, where="init")
    except ReleaseError:
        raise ParameterError(
            f"init: must be 'block-means', 'splines' or predictions, got {init!r}; pass one finite "
            "number per row of X"
        ) from None


def _folds(people: IntArray, cv: int, seed: int) -> IntArray:
    if len(people) < cv:
        raise ParameterError(
            f"cv: {cv} folds need as many blocks, got {len(people)}; lower cv, or pass None"
        )
    return deal_blocks(people, cv, np.random.default_rng(seed))


def _observed(model: Any, y: FloatArray) -> Alternation:
    return Alternation(model, y, float("nan"), (), Status.OBSERVED)


def _predict(model: Any, X: FloatArray) -> FloatArray:
    """Return predictions as one number per row."""
    mean = np.asarray(model.predict(X), dtype=np.float64)
    if mean.shape not in ((len(X),), (len(X), 1)):
        raise ParameterError(
            f"estimator: must predict one number per person, got shape {mean.shape} for {len(X)} "
            "people; use another regressor"
        )
    if not np.isfinite(mean).all():
        raise ParameterError(
            "estimator: must predict finite numbers, got NaN or inf; does it diverge in the "
            "open bins? regularise it, or start elsewhere with init"
        )
    return mean.ravel()


def _unmasked(X: Any, estimator: Any) -> Any:
    """Return features without a mask: NaN in its place where the estimator takes missing values."""
    if isinstance(X, np.ma.MaskedArray) and get_tags(estimator).input_tags.allow_nan:
        return filled(X)
    return refuse_masked(X, where="X")


def _filled(X: FloatArray, people: FloatArray | None) -> FloatArray:
    """Put the column's mean where a value is missing: the start is a GLM."""
    missing = np.isnan(X)
    if not missing.any():
        return X
    weights = np.ones(len(X)) if people is None else people
    known = weights @ np.where(missing, 0.0, X) / np.maximum(weights @ ~missing, 1.0)
    return np.where(missing, known, X)


def _family(loss: str) -> BregmanFamily:
    family = get_family(LOSSES[loss])
    assert isinstance(family, BregmanFamily)
    return family
