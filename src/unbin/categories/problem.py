"""Rows and published counts of categories together: all that the solver uses.

Predictors of all K categories are known up to a constant, so that K - 1 contrasts are estimated,
with an orthonormal basis C (K, K - 1) of the contrasts: theta = C gamma. A ridge on gamma is one on
theta, the same for all categories, and none of them is a reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.categories.softmax import Groups, Softmax, group_people, pairs
from unbin.exceptions import CategoryError
from unbin.likelihood.data.counts import PublishedCounts
from unbin.release import Release
from unbin.rows.design import Design

_AT_LEAST = 0.5
"""People that a category is taken to have at least, for a first guess."""


def contrasts(n_categories: int) -> FloatArray:
    """Return an orthonormal basis of the vectors of K numbers that sum to 0, (K, K - 1)."""
    basis = np.zeros((n_categories, n_categories - 1))
    for j in range(n_categories - 1):
        basis[: j + 1, j], basis[j + 1, j] = 1.0, -(j + 1.0)
    return np.asarray(basis / np.linalg.norm(basis, axis=0))


def between_contrasts(triangles: FloatArray, n_categories: int, axis: int) -> FloatArray:
    """Return Cᵀ W C of symmetric matrices W between categories, given by their upper triangles.

    The axis of the triangles becomes two, of the contrasts.
    """
    basis, (a, b) = contrasts(n_categories), pairs(n_categories)
    both = basis[a, :, None] * basis[b, None, :]
    both = both + (a != b)[:, None, None] * both.swapaxes(1, 2)
    size = n_categories - 1
    found = np.moveaxis(triangles, axis, -1) @ both.reshape(len(a), -1)
    found = found.reshape(*found.shape[:-1], size, size)
    return np.asarray(np.moveaxis(found, (-2, -1), (axis, axis + 1)))


@dataclass(frozen=True, slots=True)
class Prior:
    """A normal prior of the contrasts: the same of each of them.

    Attributes
    ----------
    precision : (P, P)
    center : (K - 1, P)
    """

    precision: FloatArray
    center: FloatArray

    def pull(self, gamma: FloatArray) -> FloatArray:
        """Return the derivative of the log density at gamma (K - 1, P)."""
        return np.asarray((self.center - gamma) @ self.precision)

    def form(self, gamma: FloatArray) -> float:
        """Return -2 log density."""
        away = gamma - self.center
        return float(np.sum((away @ self.precision) * away))

    def of_all(self) -> FloatArray:
        """Return the precision of all contrasts together, (L P, L P)."""
        return np.asarray(np.kron(np.eye(len(self.center)), self.precision), dtype=np.float64)

    def with_ridge(self, weight: FloatArray) -> Prior:
        """Return the prior with a ridge (P,) besides."""
        return replace(self, precision=self.precision + np.diag(weight))


@dataclass(frozen=True, slots=True)
class KnownCategories:
    """People whose category is known.

    Attributes
    ----------
    design : Design
        Each row a block.
    category : (m,)
    block : (m,)
        Of the first table, -1 outside it.
    """

    design: Design
    category: IntArray
    block: IntArray


@dataclass(frozen=True, slots=True)
class CategoryProblem:
    """Rows, published counts and groups.

    Attributes
    ----------
    design : Design
    tables : tuple of PublishedCounts
        The first is that by whose blocks the rows are laid out.
    noise_sd : tuple of float
        Of noise known to have been added to each count, by table.
    groups : Groups
        That random effects follow.
    possible : (G, K) bool
        Categories that people of a group can be in.
    context : (B, Q) or None
        Block means of the features less those of everybody, whose slopes are of each group.
    known : KnownCategories or None
    cluster : (B,) or None
        The larger block that each block of a single table lies in, by which errors are.
    """

    design: Design
    tables: tuple[PublishedCounts, ...]
    noise_sd: tuple[float, ...]
    groups: Groups
    possible: BoolArray
    context: FloatArray | None = None
    known: KnownCategories | None = None
    cluster: IntArray | None = None

    @property
    def counts(self) -> PublishedCounts:
        """Of the first table."""
        return self.tables[0]

    @property
    def n_categories(self) -> int:
        """K."""
        return int(self.possible.shape[1])

    @property
    def n_columns(self) -> int:
        """P, the intercept, slopes and contextual slopes of each contrast."""
        n_context = 0 if self.context is None else self.context.shape[1]
        return self.design.n_parameters + self.groups.n * n_context

    def law(self, gamma: FloatArray) -> Softmax:
        """Return the law of a row at some contrasts (K - 1, P)."""
        theta, p = contrasts(self.n_categories) @ gamma, self.design.n_parameters
        shift = np.zeros((len(self.counts.n), self.groups.n, self.n_categories))
        if self.context is not None:
            slopes = theta[:, p:].reshape(len(theta), self.groups.n, -1)
            shift += np.einsum("bq,kgq->bgk", self.context, slopes)
        offered = self.counts.valid() | ~self.counts.known[:, None]
        shift[~(offered[:, None, :] & self.possible)] = -np.inf
        return Softmax(theta[:, :p], shift, self.groups)

    def start(self) -> FloatArray:
        """Return the pooled shares of the categories as contrasts, slopes 0."""
        gamma = np.zeros((self.n_categories - 1, self.n_columns))
        if self.design.fit_intercept:
            gamma[:, 0] = contrasts(self.n_categories).T @ np.log(self.pooled())
        return gamma

    def pooled(self) -> FloatArray:
        """Return the share of each category among everybody, (K,)."""
        total = np.zeros(self.n_categories)
        for table in self.tables:
            total = table.count[table.known].sum(axis=0)
            if total.any():
                break
        if self.known is not None:
            people = self.known.design.people
            total = total + np.bincount(self.known.category, people, self.n_categories)
        total = np.maximum(total, _AT_LEAST)
        return np.asarray(total / total.sum())


def make_problem(
    design: Design,
    releases: Sequence[Release],
    groups: Groups,
    *,
    possible: BoolArray | None = None,
    context: FloatArray | None = None,
    known: KnownCategories | None = None,
) -> CategoryProblem:
    """Combine rows, releases of categories and groups."""
    n_categories = len(releases[0].categories)
    if possible is None:
        possible = np.ones((groups.n, n_categories), dtype=bool)
    tables = tuple(counts_of(release) for release in releases)
    noise = tuple(release.noise_sd for release in releases)
    problem = CategoryProblem(design, tables, noise, groups, possible, context, known)
    _check_offered(problem, releases[0])
    return problem


def observed_problem(design: Design, category: IntArray, n_categories: int) -> CategoryProblem:
    """Return the problem of people all of whose categories are known; each row is a block."""
    n = np.zeros(1, np.int64)
    ends = np.tile(np.arange(n_categories, dtype=float), (1, 1))
    nothing = PublishedCounts(n, ends, ends, np.zeros((1, n_categories)), n > 0)
    known = KnownCategories(design, category, np.full(len(category), -1))
    possible = np.ones((1, n_categories), dtype=bool)
    return CategoryProblem(design, (nothing,), (0.0,), Groups(), possible, known=known)


def counts_of(release: Release) -> PublishedCounts:
    """Lay out the counts of a release of categories; a category that is not offered is padding."""
    table, n_categories = release.histogram, len(release.categories)
    shape = len(release.blocks), n_categories
    block = np.repeat(np.arange(len(release.blocks)), np.diff(table.start))
    code = table.lower.astype(np.int64)
    offered, count = np.zeros(shape, dtype=bool), np.zeros(shape)
    offered[block, code], count[block, code] = True, table.count
    known = np.diff(table.start) > 0
    lower = np.tile(np.arange(n_categories, dtype=float), (shape[0], 1))
    upper = np.where(offered | ~known[:, None], lower, -1.0)
    found = PublishedCounts(release.n, lower, upper, count, known)
    if not table.hidden().any():
        return found if release.noise_sd > 0 else replace(found, count=_to_people(found))
    low, high = np.zeros(shape), np.zeros(shape)
    low[block, code], high[block, code] = table.interval()
    return replace(found, low=low, high=high, count=_inside(found, low, high))


def _to_people(counts: PublishedCounts) -> FloatArray:
    """Rescale the counts of each block to its people, from whom they may differ by rounding."""
    total = counts.count.sum(axis=1)
    factor = np.where(counts.known & (total > 0), counts.n / np.maximum(total, 1.0), 1.0)
    return np.asarray(counts.count * factor[:, None])


def _inside(counts: PublishedCounts, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return counts that lie in their intervals and add up to the people of their block."""
    room = high - low
    rest = counts.n - low.sum(axis=1)
    share = np.clip(rest / np.maximum(room.sum(axis=1), 1e-300), 0.0, 1.0)
    return np.where(counts.known[:, None], low + share[:, None] * room, counts.count)


def _check_offered(problem: CategoryProblem, release: Release) -> None:
    """Raise if a category was counted in a block none of whose people can be in it."""
    if problem.possible.all():
        return
    people = problem.design.block_sums(group_people, problem.groups)
    nobody = (people > 0).astype(np.float64) @ problem.possible == 0
    counted = nobody & (problem.counts.count > 0) & problem.counts.known[:, None]
    if counted.any():
        b, k = (int(place) for place in np.argwhere(counted)[0])
        raise CategoryError(
            f"block {str(release.blocks[b])!r}: nobody can be in category "
            f"{release.categories[k]!r}, got {problem.counts.count[b, k]:g} people there; correct "
            "impossible=..."
        )
