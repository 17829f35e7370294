"""Rows, published statistics and family brought together: all that the solvers look at."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbin._typing import FloatArray
from unbin.exceptions import BinError, SlowFitWarning
from unbin.families import Family, Interval
from unbin.families.coordinates import Coordinates
from unbin.likelihood.counts import PublishedCounts, block_targets
from unbin.likelihood.statistics import looks_counted, published_counts
from unbin.release import Release
from unbin.rows.design import Design, with_rows
from unbin.rows.parts import machine_memory
from unbin.rows.rows import Rows, aligned_copy


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
class RowModel:
    """What some rows say about the L statistics of their blocks.

    Attributes
    ----------
    mean : (n, L)
        Expected statistics of each row: probabilities of bins, and the mean over ``unit``.
    d_eta : (n, L)
    d_nuisance : (m, n, L)
    extra : (n, L) or (0, 0)
        Covariances of the total with every statistic, where means were published.
    """

    mean: FloatArray
    d_eta: FloatArray
    d_nuisance: FloatArray
    extra: FloatArray


@dataclass(frozen=True, slots=True)
class Law:
    """What a row says about the published statistics, apart from its features.

    Attributes
    ----------
    family : Family
    coordinates : Coordinates
    lower, upper : (K,) or (B, K)
        Bins, as in ``PublishedCounts``.
    unit : float or None
        What totals are divided by; None when no means were published.
    block_variance : float
    """

    family: Family
    coordinates: Coordinates
    lower: FloatArray
    upper: FloatArray
    unit: float | None
    block_variance: float

    def points(self, eta: Any) -> list[Any]:
        """Return where a model is averaged over the effect of a block: ± one standard deviation.

        Gauss-Hermite quadrature with two points: exact to the third order in the effect.
        """
        sd = float(np.sqrt(self.block_variance))
        return [eta] if sd == 0 else [eta + sd, eta - sd]

    @property
    def n_bins(self) -> int:
        """Bins of a block, padding included."""
        return int(self.lower.shape[-1])

    @property
    def n_statistics(self) -> int:
        """Statistics of a block: its bins, and the total if means were published."""
        return self.n_bins + (self.unit is not None)

    def rows(
        self, rows: Rows, piece: slice, theta: FloatArray, nuisance: FloatArray, covariance: bool
    ) -> RowModel:
        """Return the model of some rows."""
        eta, m = rows.eta(theta, piece), self.coordinates.n_row_nuisance
        family, points = self.family, self.points(eta)
        lower, upper = edges_of(self.lower, self.upper, rows, piece)
        models = [family.bins(at, lower, upper, nuisance) for at in points]
        q = _average([model.probability for model in models])
        d_eta = _average([model.d_eta for model in models])
        d_nuisance = _average([model.d_nuisance for model in models])
        if self.unit is None:
            return RowModel(q, d_eta, d_nuisance[:m], np.zeros((0, 0)))
        means = [family.inverse_link(at) for at in points]
        mean, extra = _average(means), np.zeros((len(eta), self.n_bins + 1))
        if covariance:
            if self.n_bins > 1:
                within = [family.bin_means(at, lower, upper, nuisance) for at in points]
                shares = [model.probability for model in models]
                extra[:, :-1] = _average(
                    [
                        share * np.where(share > 0, inside - mean[:, None], 0.0)
                        for share, inside in zip(shares, within, strict=True)
                    ]
                )
            variances = [family.variance(at, nuisance) for at in points]
            apart = [(each - mean) ** 2 for each in means]
            extra[:, -1] = (_average(variances) + _average(apart)) / self.unit
            extra /= self.unit
        q = np.column_stack([q, mean / self.unit])
        slope = _average([family.mean_derivative(at) for at in points])
        d_eta = np.column_stack([d_eta, slope / self.unit])
        padding = np.zeros((*d_nuisance.shape[:2], 1))
        return RowModel(q, d_eta, np.concatenate([d_nuisance, padding], axis=2)[:m], extra)


def edges_of(
    lower: FloatArray, upper: FloatArray, rows: Rows, piece: slice
) -> tuple[FloatArray, FloatArray]:
    """Return the bin ends of some rows, ready for ``Family.bins``."""
    if lower.ndim == 1:
        return lower, upper
    codes = rows.codes(piece)
    return lower[codes], upper[codes]


def _average(values: list[FloatArray]) -> FloatArray:
    """Return the mean over the points of a block's effect."""
    return values[0] if len(values) == 1 else 0.5 * (values[0] + values[1])


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows, published statistics and family: all that the solvers look at.

    Attributes
    ----------
    design : Design
    counts : PublishedCounts
    family : Family
    coordinates : Coordinates
    means : PublishedMeans or None
    noise_sd : float
        Standard deviation of noise known to have been added to each count.
    weight : (B,) or None
        People a row of the design stands for, where rows were thinned.
    block_variance : float
        Variance of the random block intercept (see :mod:`unbin.likelihood.effects`).
    """

    design: Design
    counts: PublishedCounts
    family: Family
    coordinates: Coordinates
    means: PublishedMeans | None
    noise_sd: float
    weight: FloatArray | None = None
    block_variance: float = 0.0

    @property
    def n_statistics(self) -> int:
        """Statistics of a block: its bins, and the total if means were published."""
        return self.counts.n_bins + (self.means is not None)

    @property
    def n_people(self) -> int:
        """People in all blocks."""
        return int(self.counts.n.sum())

    @property
    def n_fitted(self) -> int:
        """Intercept and slopes that are fitted: columns that are constant have none."""
        return self.coordinates.n_slopes - int((~self.design.varies).sum())

    @property
    def law(self) -> Law:
        """What a row says about the published statistics."""
        return Law(
            self.family,
            self.coordinates,
            self.counts.lower,
            self.counts.upper,
            None if self.means is None else self.means.unit,
            self.block_variance,
        )


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


def make_problem(design: Design, release: Release, family: Family) -> Problem:
    """Bring rows, release and family together."""
    release.check_domain(family.domain, family=family.name)
    counts = published_counts(release, family.domain, smallest=family.smallest_count)
    means = release.means
    has_means = means is not None and bool(np.isfinite(means).any())
    family.check_statistics(shared=counts.shared, means=has_means, values=False)
    if family.free_shape:
        counts = replace(counts, whole=looks_counted(release))
    coordinates = family.coordinates(
        design.n_parameters, counts.n_bins, fit_intercept=design.fit_intercept
    )
    published = None
    if means is not None and not _tell_totals(counts, family.domain):
        published = published_means(counts, means)
    problem = Problem(design, counts, family, coordinates, published, release.noise_sd)
    check_room(problem)
    return problem


def _tell_totals(counts: PublishedCounts, domain: Interval) -> bool:
    """Tell whether every bin holds one whole number, so that counts tell totals, and means nothing.

    Both together would have a singular covariance.
    """
    exact = domain.integer and counts.low is None and bool(counts.known.all())
    return exact and bool((counts.lower >= counts.upper).all())


def ridge_penalty(problem: Problem, alpha: float) -> FloatArray:
    """Return the ridge weight of each free parameter, times the number of people."""
    weight = problem.n_people * problem.design.ridge(alpha)
    weight = weight[int(problem.coordinates.fixed_intercept) :]
    return np.concatenate([weight, np.zeros(problem.coordinates.n_nuisance)])


# -- whether it fits into memory and time ----------------------------------------------------------

_SHARE = 0.75
"""Share of the machine's memory that sums may take."""
_COPIES = 2
"""Arrays of the size of the covariances that are held together."""
_SPEED = 1e9
"""Multiplications a second of the factors of covariances, about."""
_PATIENCE = 10.0
"""Seconds of a pass over the blocks, of which a fit takes several, that are not worth a warning."""


def check_room(problem: Problem) -> None:
    """Raise if the covariances of the blocks that are worked on together do not fit into memory.

    Warn if their factors, which take the cube of the bins, will take long. Engines that score
    blocks where their rows are (``Design.scores_blocks``) see to it themselves.
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

    The expected statistics of a block are sums over its rows, and some hundred rows give them
    well enough for a start.
    """
    design = problem.design
    whole, size, stride = design.in_memory(), design.size, _stride(problem)
    kept = np.minimum(np.maximum(size // stride, _ROWS_PER_BLOCK), size)
    start = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    place = np.arange(start[-1]) - np.repeat(start[:-1], kept)
    step = np.repeat(size / kept, kept)
    rows = np.repeat(design.start[:-1], kept) + (place * step).astype(np.int64)
    thinned = with_rows(
        design,
        matrix=aligned_copy(whole.matrix[rows]),
        offset=whole.offset[rows],
        key=whole.key[rows],
        start=start,
    )
    return replace(problem, design=thinned, weight=size / kept)


def _stride(problem: Problem) -> int:
    median = int(np.median(problem.design.size))
    return min(problem.design.n_people // _ROWS, median // _ROWS_PER_BLOCK)
