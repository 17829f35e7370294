"""Permutation tests of association between the outcome and the features.

The paper's Figure 1 (its Section 3.1) shows such a test. There are four kinds here:

- ``"error"``, when the individual targets are known: the fit depends on a block's targets only
  through its table, which a permutation of the targets within blocks leaves as it is. So the error
  of the recovered means is compared with its errors against targets permuted within blocks: an
  exact test without a single refit.
- ``"block-means"``, from the release alone: whole tables are permuted among blocks of similar
  size, and the R² of the regression of block means on block means is compared.
- ``"refit"``, from the release alone: the same permutations, with the whole model fitted to each.
- ``"paper"`` reads the paper's figure literally: the distance between the model's own imputed
  targets and its means, against fits to permuted individual targets. The imputed targets were
  chosen to lie near the means, so it always rejects, relationship or none. It is here to reproduce
  the figure, not to test with.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from rich.progress import track
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from unbin._checks import check_choice, check_generator, check_kind, check_whole
from unbin._frames import as_finite, refuse_huge, refuse_masked
from unbin._typing import ArrayLike, FloatArray, IntArray
from unbin.estimator import AggregatedGLM
from unbin.exceptions import (
    AlignmentError,
    AlignmentWarning,
    IdentificationWarning,
    ParameterError,
    SpecificationWarning,
)
from unbin.families import BregmanFamily, get_family
from unbin.fitting.inputs import check_observed, check_rows
from unbin.fitting.transforms import TRANSFORMS
from unbin.likelihood.data.counts import block_targets
from unbin.likelihood.data.tables import published_counts, published_order
from unbin.release import Release, tables
from unbin.release.join import JoinedTarget, join
from unbin.release.target import AggregatedTarget
from unbin.rows.contextual import block_context

_BLOCKS_PER_DEAL = 10
_TIE = 1e-12
"""Sums of the same numbers in another order differ by less than this share."""

Loss = Callable[[FloatArray, FloatArray], float]


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """The observed statistic, and its permutation distribution under no association.

    Attributes
    ----------
    kind : {"error", "block-means", "refit", "paper"}
    statistic : float
        Of the data; small values speak for an association where it is an error, else large ones.
    null : (n_permutations,)
        The statistic of each permutation.
    p_value : float
        Share of permutations, the data among them, whose statistic is at least as extreme.
    """

    kind: str
    statistic: float
    null: FloatArray
    p_value: float

    def __str__(self) -> str:
        name = NAMES[self.kind]
        return (
            f"permutation test: {name} {self.statistic:.4g}, {np.median(self.null):.4g} in the "
            f"middle of {len(self.null):,} permutations, p = {self.p_value:.4f}"
        )


def permutation_test(
    model: AggregatedGLM,
    X: ArrayLike,
    target: AggregatedTarget | JoinedTarget,
    n_permutations: int = 1000,
    *,
    y: ArrayLike | None = None,
    kind: str = "auto",
    table: str | None = None,
    random_state: int | None = None,
    progress: bool = False,
) -> PermutationTest:
    """Test whether the published target is associated with the features at all.

    Parameters
    ----------
    model : AggregatedGLM
        Its settings; a copy is fitted.
    X : (n, d)
    target : AggregatedTarget or JoinedTarget
    n_permutations : int
    y : (n,), optional
        The individual targets, where they are available.
    kind : {"auto", "error", "block-means", "refit", "paper"}
        "auto" is "error" with ``y`` and "block-means" without. "error" tests association within
        blocks, "block-means" association between blocks. "refit" costs ``n_permutations`` fits.
        "paper" is no test: it always rejects (see the module).
    table : str, optional
        With several tables of the same people, the one whose blocks are permuted; the others stay
        as they are. Individual targets cannot be permuted there: within the blocks of one table
        they would change the others.
    random_state : int, optional
    progress : bool
        Show a progress bar.

    Examples
    --------
    >>> import numpy as np, unbin
    >>> rng = np.random.default_rng(0)
    >>> county = np.repeat(np.arange(40).astype(str), 25)
    >>> X = rng.normal(size=(1000, 2)) + rng.normal(size=(40, 2)).repeat(25, axis=0)
    >>> y = X @ [1.0, 0.0] + rng.normal(size=1000)
    >>> target = unbin.aggregate(y, county).align(county)
    >>> unbin.permutation_test(unbin.AggregatedGLM(), X, target, random_state=0).p_value < 0.01
    True
    """
    check_kind("model", model, AggregatedGLM, instead="a model with its settings")
    model._check_parameters()
    _refuse_known(target)
    joined = target if isinstance(target, JoinedTarget) and len(target.tables) > 1 else None
    if joined is not None:
        target = _named_table(joined, table, y, kind)
    elif isinstance(target, JoinedTarget):
        (target,) = target.tables
    if not isinstance(target, AggregatedTarget):
        raise ParameterError(
            f"target: must be an aggregated target, got {type(target).__name__}; pass "
            "release.align(blocks), and individual targets as y="
        )
    if joined is None and table is not None:
        check_choice("table", table, join(target).names)
    n_permutations = check_whole("n_permutations", n_permutations, low=1)
    if check_choice("kind", kind, ("auto", *NAMES)) == "auto":
        kind = "block-means" if y is None else "error"
    rng = check_generator(random_state)
    rounds = track(range(n_permutations), "permutations", disable=not progress)
    job = _Job(model, X, target, joined, rng, rounds)
    run: Callable[[_Job], tuple[float, FloatArray]]
    if kind in _ERRORS:
        run = partial(_errors if kind == "error" else _paper, y=_check_targets(y, kind, job))
    else:
        run = _block_means if kind == "block-means" else _refits
    with warnings.catch_warnings():  # valid whether or not the coefficients are identified
        warnings.simplefilter("ignore", IdentificationWarning)
        warnings.simplefilter("ignore", SpecificationWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", AlignmentWarning)  # tables dealt out contradict others
        seen, null = run(job)
    sign = -1 if kind in _ERRORS else 1
    tells = sign * (null - seen) >= -_TIE * abs(seen)
    p_value = (1 + int(tells.sum())) / (1 + n_permutations)
    return PermutationTest(kind, seen, null, p_value)


NAMES = {
    "error": "error of the recovered means",
    "block-means": "R² of the block means",
    "refit": "fit of the published table",
    "paper": "distance of the imputed targets",
}
"""What each kind of test compares."""

_ERRORS = ("error", "paper")


@dataclass(frozen=True, slots=True)
class _Job:
    """What every kind of test is given."""

    model: AggregatedGLM
    X: ArrayLike
    target: AggregatedTarget
    joined: JoinedTarget | None
    rng: np.random.Generator
    rounds: Iterable[int]

    def fit(self) -> AggregatedGLM:
        """Fit a copy of the model to what was published."""
        model: AggregatedGLM = clone(self.model)
        return model.fit(self.X, self.target if self.joined is None else self.joined)

    def with_release(self, release: Release) -> AggregatedTarget | JoinedTarget:
        """Return the target with another release in place of the one whose blocks are dealt out."""
        changed = self.target.with_release(release)
        if self.joined is None:
            return changed
        tables = self.joined.tables
        return join(*(changed if each is self.target else each for each in tables))

    def matrix(self) -> FloatArray:
        """Return the features as numbers, checked as a fit checks them."""
        X = refuse_masked(self.X, where="X")
        checked = validate_data(clone(self.model), X, dtype=np.float64)
        check_rows([self.target], len(checked))
        refuse_huge(checked, where="X")
        return np.asarray(checked)

    def mean(self, fitted: AggregatedGLM) -> FloatArray:
        """Return the mean of everybody, their block's context included."""
        return fitted.predict(self.X, blocks=self.target.blocks)


def _refuse_known(target: AggregatedTarget | JoinedTarget) -> None:
    if isinstance(target, JoinedTarget) and target.observed is not None:
        n = int(target.observed.known.sum())
        raise ParameterError(
            f"target: a permutation deals the tables of blocks out, got {n:,} outcomes that are "
            "known beside them, which stay where they are; test the tables alone, "
            "unbin.join(*target.given)"
        )


def _named_table(
    target: JoinedTarget, table: str | None, y: ArrayLike | None, kind: str
) -> AggregatedTarget:
    """Return the table whose blocks are dealt out; raise where that is no test."""
    if table is None:
        raise ParameterError(
            f"table: must name the table whose blocks are dealt out, got none of "
            f"{', '.join(map(repr, target.names))}; pass table=..."
        )
    if y is not None or kind in _ERRORS:
        raise ParameterError(
            "y, kind: targets permuted within the blocks of one table would change the others, got "
            f"{len(target.tables)} tables; test one table alone, or use kind='block-means' or "
            "'refit'"
        )
    return target.table(table)


def _check_targets(y: ArrayLike | None, kind: str, job: _Job) -> FloatArray:
    if y is None:
        raise ParameterError(f"y: kind={kind!r} needs the individual targets, got None; pass y=")
    weights = job.target.weights
    if weights is not None and (weights.values != 1).any():
        raise ParameterError(
            f"y: kind={kind!r} permutes the targets of people, got rows that stand for several; "
            "repeat the rows, or use kind='block-means' or 'refit'"
        )
    values = as_finite(y, where="y")
    if values.shape != job.target.shape:
        raise AlignmentError(
            f"y: must hold the {len(job.target)} targets of X, got {len(values)}; pass one per row"
        )
    return values


# -- with individual targets -----------------------------------------------------------------------


def _errors(job: _Job, y: FloatArray) -> tuple[float, FloatArray]:
    fitted = job.fit()
    mean, loss, codes = job.mean(fitted), _loss(fitted, y), job.target.codes
    # rows sorted by block and, within it, at random: a permutation within blocks
    layout = np.argsort(codes, kind="stable")
    y, mean, codes = y[layout], mean[layout], codes[layout]
    null = [loss(y[np.argsort(codes + job.rng.random(len(y)))], mean) for _ in job.rounds]
    return loss(y, mean), np.array(null)


def _paper(job: _Job, y: FloatArray) -> tuple[float, FloatArray]:
    fitted = job.fit()
    loss = _loss(fitted, y)
    oracle = clone(job.model).set_params(
        family=fitted.family_, alpha=_ridge(job.model, fitted), contextual=False
    )

    def permuted() -> float:
        shuffled = job.rng.permutation(y)
        return loss(shuffled, oracle.fit(job.X, shuffled).predict(job.X))

    seen = loss(fitted.impute(), job.mean(fitted))
    return seen, np.array([permuted() for _ in job.rounds])


def _loss(fitted: AggregatedGLM, y: FloatArray) -> Loss:
    """Return the family's mean divergence, or the mean squared error where it has none."""
    family = get_family(str(fitted.family_), fitted.n_trials)
    if isinstance(family, BregmanFamily) and fitted.target_transform is None:
        check_observed(y, family)
        return lambda y, mean: float(family.divergence(y, mean).mean())
    return lambda y, mean: float(((y - mean) ** 2).mean())


# -- from the release alone ------------------------------------------------------------------------


def _block_means(job: _Job) -> tuple[float, FloatArray]:
    model = job.model
    release = TRANSFORMS[model.target_transform].target(job.target).release
    name = "gaussian" if model.family in ("auto", "ordinal") else model.family
    domain = get_family(name, model.n_trials).domain
    counts = published_counts(release, domain)
    order = published_order(release, counts, domain)
    middle = None if order is None else order.middle()
    mean = block_targets(counts, release.means, middle).mean
    release = job.target.release
    weights = None if job.target.weights is None else job.target.weights.values
    x = block_context(job.matrix(), release.blocks, job.target.codes, weights).means
    known = np.isfinite(mean)
    mean, x, people = mean[known], x[known], release.n[known]
    if len(mean) <= x.shape[1] + 2:
        instead = "use kind='refit'" if job.joined else "pass the individual targets as y="
        raise ParameterError(
            f"kind: 'block-means' needs more blocks than features, got {len(mean)} blocks and "
            f"{x.shape[1]} features; {instead}"
        )
    weight = np.sqrt(people / people.sum())
    basis = np.linalg.svd(weight[:, None] * (x - weight**2 @ x), full_matrices=False)
    size = basis.S
    q = basis.U[:, size > 1e-9 * size.max(initial=0.0)]

    def r_squared(y: FloatArray) -> float:
        centred = weight * (y - weight**2 @ y)
        total = float(centred @ centred)
        return float(((q.T @ centred) ** 2).sum()) / total if total > 0 else 0.0

    null = [r_squared(mean[_deal(people, job.rng)]) for _ in job.rounds]
    return r_squared(mean), np.array(null)


def _ridge(model: AggregatedGLM, fitted: AggregatedGLM) -> float | None:
    """Return the ridge by name: that chosen on held-out blocks, or None for the evidence ridge."""
    evidence = model.alpha is None or model.alpha == "auto"
    return None if evidence else float(fitted.alpha_)


def _refits(job: _Job) -> tuple[float, FloatArray]:
    release, fitted = job.target.release, job.fit()
    fixed = clone(job.model).set_params(
        family=fitted.family_,
        alpha=fitted.alpha_ if job.model.alpha == "held-out" else job.model.alpha,
    )

    def refit() -> float:
        dealt = _with_tables(release, _deal(release.n, job.rng))
        return -float(fixed.fit(job.X, job.with_release(dealt)).objective_)

    return -float(fitted.objective_), np.array([refit() for _ in job.rounds])


def _deal(people: IntArray, rng: np.random.Generator) -> IntArray:
    """Return whose table each block gets: another block's of similar size, at random."""
    by_size = np.argsort(people, kind="stable")
    n_deals = max(1, len(people) // _BLOCKS_PER_DEAL)
    deal = np.sort(np.arange(len(people)) % n_deals)
    place = np.empty(len(people), dtype=np.int64)
    place[by_size] = by_size[np.argsort(deal + rng.random(len(people)))]
    return place


def _with_tables(release: Release, place: IntArray) -> Release:
    """Give each block the table of another one, its counts scaled to the people of the block."""
    order = release.order_statistics.take(place)
    if len(order.value) and (release.n[place] != release.n).any():
        raise ParameterError(
            "kind: 'refit' cannot move order statistics between blocks of different size; use "
            "'block-means'"
        )
    histogram = tables.scale_counts(release.histogram.take(place), release.n)
    means = None if release.means is None else release.means[place]
    return replace(release, histogram=histogram, order_statistics=order, means=means)
