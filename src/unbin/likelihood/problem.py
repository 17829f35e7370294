"""Rows, published statistics and family together: all that the solvers use."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from unbin._checks import machine_memory
from unbin._typing import FloatArray, IntArray
from unbin.exceptions import BinError, SlowFitWarning
from unbin.families import Family, Interval
from unbin.families.coordinates import Coordinates
from unbin.likelihood.counts import PublishedCounts, block_targets
from unbin.likelihood.law import Effects
from unbin.likelihood.statistics import PublishedOrder, looks_counted, published_counts
from unbin.release import Release
from unbin.rows.design import Design, with_rows
from unbin.rows.parts import LocalParts
from unbin.rows.rows import aligned_empty


@dataclass(frozen=True, slots=True)
class PublishedMeans:
    """Means of the targets, block by block.

    Attributes
    ----------
    mean : (B,)
        NaN where none was published.
    unit : float
        What totals are divided by.
    """

    mean: FloatArray
    unit: float


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows, published statistics and family: all that the solvers use.

    Attributes
    ----------
    design : Design
    counts : PublishedCounts
    family : Family
    coordinates : Coordinates
    means : PublishedMeans or None
    noise_sd : float
        Standard deviation of noise known to have been added to each count.
    factor : (B,) or None
        What brings the people that the rows of a block stand for to those that the table counts,
        where weights are not whole or rows are a sample.
    block_variance : float
        Variance of the random block intercept (see :mod:`unbin.likelihood.effects`).
    effects : Effects or None
        What is known of the effect of each block, around which its statistics are expanded.
    cuts : (K - 1,) or None
        Of a family with thresholds, which of them ends each bin but the last; None where they are
        all, in order. A table may have some of the edges that its neighbours have.
    order : PublishedOrder or None
        Order statistics that the counts do not tell.
    shared : (B, L, L) or None
        Covariance of the statistics that random intercepts of other partitions add; misfit and
        pulls allow for it, weights do not.
    """

    design: Design
    counts: PublishedCounts
    family: Family
    coordinates: Coordinates
    means: PublishedMeans | None
    noise_sd: float
    factor: FloatArray | None = None
    block_variance: float = 0.0
    effects: Effects | None = None
    cuts: IntArray | None = None
    order: PublishedOrder | None = None
    shared: FloatArray | None = None

    @property
    def n_statistics(self) -> int:
        """Statistics of a block: its bins, and the total if means were published."""
        return self.counts.n_bins + (self.means is not None)

    @property
    def tells_spread(self) -> bool:
        """Whether something tells how far the people of a block lie apart, and not only where."""
        return self.counts.informative or (self.order is not None and not self.order.single)

    @property
    def n_people(self) -> int:
        """People in all blocks."""
        return int(self.counts.n.sum())

    @property
    def n_fitted(self) -> int:
        """Intercept and slopes that are fitted: columns that are constant have none."""
        return self.coordinates.n_slopes - int((~self.design.varies).sum())


def published_means(counts: PublishedCounts, means: FloatArray) -> PublishedMeans | None:
    """Lay out published means with a unit that puts totals on the scale of counts."""
    means = np.asarray(means, dtype=float)
    known = np.isfinite(means)
    if not known.any():
        return None
    spread = float(np.nanmean(block_targets(counts).variance)) if counts.informative else 0.0
    if spread <= 0:
        n = counts.n[known]
        center = np.average(means[known], weights=n)
        spread = float(np.average(n * (means[known] - center) ** 2))
    return PublishedMeans(means, float(np.sqrt(spread)) or 1.0)


def make_problem(design: Design, release: Release, family: Family, partition: int = 0) -> Problem:
    """Combine rows, release and family.

    ``partition`` is that of the release: 0 is the one by whose blocks the rows are laid out.
    """
    release.check_domain(family.domain, family=family.name)
    counts = published_counts(release, family.domain, smallest=family.smallest_count)
    means = release.means
    has_means = means is not None and bool(np.isfinite(means).any())
    shared, n_bins, n_theta = counts.shared, counts.n_bins, design.n_parameters
    family.check_statistics(shared=shared, means=has_means, values=False)
    coordinates = family.coordinates(n_theta, n_bins, fit_intercept=design.fit_intercept)
    if family.free_shape:
        counts = replace(counts, whole=looks_counted(release))
    published = None
    if means is not None and not _tell_totals(counts, family.domain):
        published = published_means(counts, means)
    problem = Problem(
        design,
        counts,
        family,
        coordinates,
        published,
        release.noise_sd,
        _factor(design, partition, counts.n),
    )
    check_room(problem)
    return problem


def _factor(design: Design, partition: int, n: IntArray) -> FloatArray | None:
    """Return what brings the people of rows to those of a table; None where they are the same."""
    if design.weight is None:
        return None
    people = design.weight[partition]
    if (people == n).all():
        return None
    # of a block whose people are all known no row is left
    return np.where(people > 0, n / np.maximum(people, 1e-300), 1.0)


def _tell_totals(counts: PublishedCounts, domain: Interval) -> bool:
    """Tell whether every bin holds one whole number, so that counts determine totals.

    Means add nothing then, and both together would have a singular covariance.
    """
    exact = domain.integer and counts.low is None and bool(counts.known.all())
    return exact and bool((counts.lower >= counts.upper).all())


def ridge_penalty(problem: Problem, alpha: float, n_known: int = 0) -> FloatArray:
    """Return the ridge weight of each free parameter, times the number of people.

    ``n_known`` of them are in no table, their outcome being known.
    """
    # a block whose people are all known keeps one in name only
    n_people = int(problem.counts.n[problem.design.people > 0].sum()) + n_known
    weight = n_people * problem.design.ridge(alpha)
    weight = weight[int(problem.coordinates.fixed_intercept) :]
    return np.concatenate([weight, np.zeros(problem.coordinates.n_nuisance)])


# -- whether it fits into memory and time ----------------------------------------------------------

_SHARE = 0.75
"""Share of the machine's memory that sums may take."""
_COPIES = 2
"""Arrays of the size of the covariances that are held together."""
_SPEED = 1e9
"""Multiplications per second in factorising covariances, about."""
_PATIENCE = 10.0
"""Seconds of a pass over the blocks, of which a fit takes several, that are not worth a warning."""


def check_room(problem: Problem) -> None:
    """Raise if the covariances of the blocks that are worked on together do not fit into memory.

    Warn if factorising them, cubic in the number of bins, will take long. Engines that score blocks
    where their rows are (``Design.scores_blocks``) manage their own memory.
    """
    if problem.design.scores_blocks:
        return
    size, blocks = problem.n_statistics, problem.design.blocks_at_once
    # per block the covariance of its bins, and their derivatives: thresholds are as many as bins
    squares = 2 if problem.coordinates.thresholds else 1
    each, p = 8 * _COPIES * blocks, problem.coordinates.n_theta
    need, room = each * size * (squares * size + p), _SHARE * machine_memory()
    if 0 < room < need:
        fits = int((np.sqrt(p**2 + 4 * squares * room / each) - p) / (2 * squares))
        raise BinError(
            f"histogram: {size:,} bins of {blocks:,} blocks at a time take about {_size(need)} of "
            f"memory, this machine has {_size(machine_memory())}; merge them to at most "
            f"{max(fits, 2):,} bins, or use method='matching'"
        )
    seconds = len(problem.counts.n) * size**3 / 3 / _SPEED
    if seconds > _PATIENCE:
        warnings.warn(
            f"histogram: {size:,} bins of {len(problem.counts.n):,} blocks take about "
            f"{seconds:,.0f} seconds per pass, of which there are several; half as many bins take "
            "an eighth of that",
            SlowFitWarning,
            stacklevel=2,
        )


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 2**30:,.3g} GiB"


# -- large blocks, thinned for a start -------------------------------------------------------------

_ROWS_PER_BLOCK = 500
_ROWS = 50_000


def worth_thinning(problem: Problem) -> bool:
    """Tell whether blocks are so large that a fraction of their rows would do for a start."""
    return problem.design.rows is not None and _stride(problem) >= 4


def thin(problem: Problem) -> Problem:
    """Keep every s-th row of each block, each standing for more people.

    The expected statistics of a block are sums over its rows, and a few hundred rows approximate
    them well enough for a start, moved so that their mean is that of the block.
    """
    design = problem.design
    whole, size, stride = design.in_memory(), design.size, _stride(problem)
    people = np.ones(len(whole)) if whole.weights is None else whole.weights
    kept = np.minimum(np.maximum(size // stride, _ROWS_PER_BLOCK), size)
    start = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    place = np.arange(start[-1]) - np.repeat(start[:-1], kept)
    step = np.repeat(size / kept, kept)
    rows = np.repeat(design.start[:-1], kept) + (place * step).astype(np.int64)
    matrix, weights = aligned_empty((len(rows), whole.matrix.shape[1])), people[rows]
    kept_people = np.add.reduceat(weights, start[:-1])
    weights *= np.repeat(design.people / kept_people, kept)

    means = design.block_means

    def keep(j: int) -> None:
        values = whole.matrix[:, j].take(rows)
        mean = np.add.reduceat(values * weights, start[:-1]) / design.people
        matrix[:, j] = values + np.repeat(means[:, j] - mean, kept)

    columns = LocalParts(range(matrix.shape[1]), design.n_threads)
    for _ in columns.stream(keep):
        pass
    thinned = with_rows(
        design,
        matrix=matrix,
        offset=whole.offset[rows],
        key=np.zeros(len(rows), np.uint64),  # nobody ranks them
        start=start,
        weights=weights,
        sampled=False,
    )
    return replace(problem, design=thinned)


def _stride(problem: Problem) -> int:
    median = int(np.median(problem.design.size))
    return min(problem.design.n_rows // _ROWS, median // _ROWS_PER_BLOCK)
