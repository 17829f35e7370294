"""The estimator: validate, call, assign. No numerics happen here."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from unbin.design import Design, lay_out
from unbin.exceptions import (
    AggregatedTargetError,
    AlignmentError,
    DomainError,
    IdentificationWarning,
    ParameterError,
)
from unbin.families import FAMILIES, Family, get_family
from unbin.frames import as_floats
from unbin.matching.fit import MatchingFit, fit_matching, fit_observed, release_divergence
from unbin.matching.solvers import SOLVERS, Solution, Status
from unbin.settings import check_choice, check_flag, check_number, check_whole
from unbin.target import AggregatedTarget
from unbin.typing import ArrayLike, FloatArray

METHODS = ("matching",)
STARTS = ("block-means", "random")
_RESTARTS_IF_UNSURE = 4


class AggregatedGLM(RegressorMixin, BaseEstimator):
    """Generalised linear model for a target that was only published as a table.

    Parameters
    ----------
    family : {"gaussian", "poisson", "binomial"}
        Distribution of the target; its canonical link is used.
    method : {"matching"}
        "matching" is the estimator of the paper: it looks for the coefficients and the individual
        targets that satisfy the release and lie nearest to the model's means.
    alpha : float
        Ridge, as in scikit-learn and glum: mean loss + alpha/2 ||coef||², the intercept is free.
        The paper's lambda is n alpha / 2.
    n_trials : int
        Trials of a binomial target; its values are 0 to ``n_trials``.
    solver : {"lbfgs", "alternating"}
        "lbfgs" minimises min over z of D(z || mean) directly; "alternating" is the paper step by
        step: fit a GLM to the imputed targets, impute again, repeat.
    init : {"block-means", "random"} or array of (intercept and) slopes
        Where to start. "block-means" regresses rough block means of the target on block means of
        the features; with a single block there is nothing to regress, and the start is random.
    n_init : "auto" or int
        Number of starts, of which the best objective is kept; all after the first are random.
        "auto" is 1 when there are more blocks than coefficients, else 4.
    fit_intercept : bool
    tol : float
        A fit has converged when one more Newton step, targets re-ranked, would explain less than
        ``tol²`` of what there is to explain.
    max_iter : int
    random_state : int, RandomState or None
        Seeds random starts and the order of ties.

    Attributes
    ----------
    coef_ : (d,), or (p, d) for a list of p targets
    intercept_ : float, or (p,)
    dispersion_ : float, or (p,)
        Gaussian: mean squared difference between imputed targets and means, which matching makes
        too small; 1 for the other families.
    status_ : Status, or list of p
        How the fit ended; ``status_.value`` is a sentence.
    objective_, relative_gradient_, restart_disagreement_ : float, or (p,)
        The objective at the end, the certificate of convergence, and the largest difference
        between restarts that reached the same objective (NaN with one start).
    objective_path_ : (n_iter_ + 1,), or list of p
    n_iter_ : int, or (p,)

    Examples
    --------
    >>> import numpy as np, unbin
    >>> rng = np.random.default_rng(0)
    >>> county = np.repeat([f"{c:02d}" for c in range(40)], 50)
    >>> X = rng.normal(size=(2000, 2)) + rng.normal(size=(40, 2)).repeat(50, axis=0)
    >>> y = X @ [1.0, -0.5] + 0.1 * rng.normal(size=2000)
    >>> release = unbin.aggregate(y, county, bins=5)      # all that is published of y
    >>> model = unbin.AggregatedGLM(method="matching").fit(X, release.align(county))
    >>> model.coef_.round(2)
    array([ 1.  , -0.5 ])
    """

    _imputed: FloatArray | None

    def __init__(
        self,
        family: str = "gaussian",
        method: str = "matching",
        *,
        alpha: float = 0.0,
        n_trials: int = 1,
        solver: str = "lbfgs",
        init: str | ArrayLike = "block-means",
        n_init: str | int = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.family = family
        self.method = method
        self.alpha = alpha
        self.n_trials = n_trials
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any, *, offset: ArrayLike | None = None) -> AggregatedGLM:
        """Fit the model.

        Parameters
        ----------
        X : (n, d) features of each person
        y : AggregatedTarget, list of them, or (n,) numbers
            ``release.align(blocks)``; a list fits one model per target on the same X; plain numbers
            are observed targets and give the ordinary GLM, the oracle.
        offset : (n,), optional
            Added to the linear predictor, for example log exposure.

        Returns
        -------
        self
        """
        family = self._check_parameters()
        targets = _targets(y)
        if targets is None:
            return self._fit_observed(X, y, family, offset)
        X = validate_data(self, X, dtype=np.float64)
        fits = []
        for target in targets:
            if len(target) != len(X):
                raise AlignmentError(
                    f"y: {len(target)} rows were aligned with the release, X has {len(X)}; pass "
                    "the block of each row of X to align()"
                )
            target.release.check_domain(family.domain, family=self.family)
            fits.append(self._fit_matching(X, target, family, _check_offset(offset, len(X))))
        self._assign(fits, several=isinstance(y, list | tuple))
        for fit, _ in fits:
            _warn(fit.solution)
        return self

    def predict(self, X: ArrayLike, *, offset: ArrayLike | None = None) -> FloatArray:
        """Return the mean of people with features X, shape (n,) or (n, p)."""
        return get_family(self.family, self.n_trials).inverse_link(self._eta(X, offset))

    def impute(self) -> FloatArray:
        """Return the imputed targets of the training rows, in their order.

        They satisfy every published statistic. They are personal values, so a saved or copied
        model does not hold them.
        """
        check_is_fitted(self)
        imputed = getattr(self, "_imputed", None)
        if imputed is None:
            raise AggregatedTargetError(
                "impute: this model holds no imputed targets (it was fitted to observed ones, or "
                "was copied or loaded); fit it to an aggregated target first"
            )
        return np.array(imputed)

    def score(self, X: ArrayLike, y: Any, *, offset: ArrayLike | None = None) -> float:
        """Return how well the model explains a target; larger is better.

        For an aggregated target it is minus the mean divergence between the predictions and the
        nearest targets that satisfy the release. For observed targets it is D², the share of the
        divergence from the mean that is explained (R² for the gaussian family).
        """
        family = get_family(self.family, self.n_trials)
        eta = self._eta(X, offset)
        if not isinstance(y, AggregatedTarget):
            return _explained(family, as_floats(y, where="y"), eta)
        if len(y) != len(eta):
            raise AlignmentError(
                f"y: {len(y)} rows were aligned with the release, X has {len(eta)}"
            )
        y.release.check_domain(family.domain, family=self.family)
        design = lay_out(np.empty((len(eta), 0)), y.codes, len(y.release))
        return -release_divergence(y.release, family, design, eta[design.order])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.family in FAMILIES and self.family != "gaussian"
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_imputed", None)  # personal values are written only when asked for
        return state

    # -- private -----------------------------------------------------------------------------------

    def _check_parameters(self) -> Family:
        check_choice("method", self.method, METHODS)
        check_choice("solver", self.solver, tuple(SOLVERS))
        if isinstance(self.init, str):
            check_choice("init", self.init, STARTS)
        if self.n_init != "auto":
            check_whole("n_init", self.n_init, low=1)
        check_number("alpha", self.alpha, low=0.0)
        check_number("tol", self.tol, low=0.0, open_low=True)
        check_whole("max_iter", self.max_iter, low=1)
        check_flag("fit_intercept", self.fit_intercept)
        return get_family(self.family, self.n_trials)

    def _fit_matching(
        self, X: FloatArray, target: AggregatedTarget, family: Family, offset: FloatArray | None
    ) -> tuple[MatchingFit, Design]:
        seed = check_random_state(self.random_state).randint(2**31)
        release = target.release
        design = lay_out(
            X,
            target.codes,
            len(release),
            offset=offset,
            fit_intercept=self.fit_intercept,
            seed=seed,
        )
        fit = fit_matching(
            design,
            release,
            family,
            alpha=float(self.alpha),
            solver=self.solver,
            init=self.init if isinstance(self.init, str) else _check_init(self.init, design),
            n_init=_number_of_starts(self.n_init, len(release), design.n_parameters),
            tol=float(self.tol),
            max_iter=self.max_iter,
            rng=np.random.default_rng(seed),
        )
        return fit, design

    def _fit_observed(
        self, X: ArrayLike, y: Any, family: Family, offset: ArrayLike | None
    ) -> AggregatedGLM:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        if not family.domain.contains(y):
            outside = y[(y < family.domain.low) | (y > family.domain.high)][0]
            raise DomainError(
                f"y: the value {outside:g} lies outside the domain {family.domain} of family "
                f"{self.family!r}; choose another family"
            )
        codes = np.zeros(len(X), dtype=np.int64)
        design = lay_out(
            X, codes, 1, offset=_check_offset(offset, len(X)), fit_intercept=self.fit_intercept
        )
        solution = fit_observed(
            design, y[design.order], family, alpha=float(self.alpha), max_iter=self.max_iter
        )
        fit = MatchingFit(solution, y[design.order], float("nan"))
        self._assign([(fit, design)], several=False)
        self._imputed = None
        _warn(solution)
        return self

    def _assign(self, fits: list[tuple[MatchingFit, Design]], *, several: bool) -> None:
        """Store the results, as they are for one target and stacked for several."""

        def stack(values: list[Any], *, array: bool = True) -> Any:
            if not several:
                return values[0]
            return np.array(values) if array else values

        pairs = [design.to_coefficients(fit.solution.theta) for fit, design in fits]
        solutions = [fit.solution for fit, _ in fits]
        self.coef_ = stack([coef for coef, _ in pairs])
        self.intercept_ = stack([intercept for _, intercept in pairs])
        self.dispersion_ = stack([self._dispersion(fit, design) for fit, design in fits])
        self.status_ = stack([solution.status for solution in solutions], array=False)
        self.objective_ = stack([solution.value for solution in solutions])
        self.relative_gradient_ = stack([solution.relative_gradient for solution in solutions])
        self.restart_disagreement_ = stack([fit.restart_disagreement for fit, _ in fits])
        self.objective_path_ = stack([np.array(s.path) for s in solutions], array=False)
        self.n_iter_ = stack([max(solution.n_iter, 1) for solution in solutions])
        imputed = [design.to_rows_of_x(fit.z) for fit, design in fits]
        self._imputed = np.column_stack(imputed) if several else imputed[0]

    def _dispersion(self, fit: MatchingFit, design: Design) -> float:
        if self.family != "gaussian":
            return 1.0
        return float(np.mean((fit.z - design.eta(fit.solution.theta)) ** 2))

    def _eta(self, X: ArrayLike, offset: ArrayLike | None) -> FloatArray:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        eta = np.asarray(X @ self.coef_.T + self.intercept_)
        extra = _check_offset(offset, len(X))
        return eta if extra is None else (eta.T + extra).T


def _targets(y: Any) -> list[AggregatedTarget] | None:
    """Return the aggregated targets of ``fit``, or None when y holds observed numbers."""
    if isinstance(y, AggregatedTarget):
        return [y]
    if isinstance(y, list | tuple) and any(isinstance(item, AggregatedTarget) for item in y):
        if not all(isinstance(item, AggregatedTarget) for item in y):
            raise AggregatedTargetError(
                "y: a list of targets must hold aggregated targets only, got other types too"
            )
        return list(y)
    if hasattr(y, "align") and hasattr(y, "histogram"):
        raise AggregatedTargetError(
            "y: a release does not know the rows of X; pass release.align(blocks)"
        )
    return None


def _number_of_starts(n_init: str | int, n_blocks: int, n_parameters: int) -> int:
    if n_init == "auto":
        return 1 if n_blocks > n_parameters else _RESTARTS_IF_UNSURE
    return int(n_init)


def _check_offset(offset: ArrayLike | None, n: int) -> FloatArray | None:
    if offset is None:
        return None
    values = as_floats(offset, where="offset")
    if len(values) != n:
        raise AlignmentError(f"offset: {len(values)} values for {n} rows of X")
    if not np.isfinite(values).all():
        raise DomainError("offset: must be finite, got NaN or inf; is an exposure 0?")
    return values


def _check_init(init: ArrayLike, design: Design) -> FloatArray:
    values = as_floats(init, where="init")
    if len(values) != design.n_parameters or not np.isfinite(values).all():
        raise ParameterError(
            f"init: must hold {design.n_parameters} finite numbers ("
            f"{'the intercept, then ' if design.fit_intercept else ''}the slopes), got {init!r}"
        )
    shift = int(design.fit_intercept)
    return design.from_coefficients(values[shift:], float(values[0]) if shift else 0.0)


def _explained(family: Family, y: FloatArray, eta: FloatArray) -> float:
    if not family.domain.contains(y):
        raise DomainError(f"y: values lie outside the domain {family.domain} of the family")
    null = family.divergence(y, np.full_like(y, y.mean())).sum()
    error = family.total_divergence(y, eta, family.inverse_link(eta))
    return float(1.0 - error / null) if null > 0 else float(error == 0)


def _warn(solution: Solution) -> None:
    if not solution.status.identified:
        warnings.warn(solution.status.value, IdentificationWarning, stacklevel=3)
    elif solution.status is not Status.CONVERGED:
        warnings.warn(solution.status.value, ConvergenceWarning, stacklevel=3)
