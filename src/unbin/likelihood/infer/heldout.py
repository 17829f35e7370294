"""The predictive log score of published counts: how well a linear predictor predicts new blocks.

References
----------
Gneiting, T. and Raftery, A. E. (2007). Strictly proper scoring rules, prediction, and estimation.
*Journal of the American Statistical Association*, 102, 359-378.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unbin._typing import FloatArray, IntArray
from unbin.exceptions import ReleaseError
from unbin.families import Family
from unbin.likelihood.data.counts import PublishedCounts
from unbin.likelihood.data.tables import published_counts
from unbin.likelihood.model.law import EFFECT_NODES, edges_of, effect_points
from unbin.release import Release
from unbin.release.tables import histogram_to_cumulative
from unbin.rows.rows import Rows, kernel

_TILE_ROWS = 1 << 13


def log_scores(
    release: Release,
    family: Family,
    eta: FloatArray,
    start: IntArray,
    nuisance: FloatArray,
    *,
    edges: tuple[FloatArray, FloatArray] | None = None,
    average: Callable[..., FloatArray] | None = None,
    weights: FloatArray | None = None,
) -> FloatArray:
    """Return Σ_k c_bk log(m_bk / n_b) of every block, shape (B,); NaN of blocks without counts.

    Parameters
    ----------
    release : Release
        Aligned, with a histogram or a full list in every block that counts.
    family : Family
    eta : (n,)
        Rows block by block, as in ``start``.
    start : (B + 1,)
    nuisance : (m,)
    edges : (lower, upper), optional
        The bins of a family with thresholds; the release must be countable in them.
    average : callable, optional
        Averages a function of eta over the effects that new blocks have: ``Fit.over_effects``.
    weights : (n,), optional
        People that each row stands for.
    """
    if edges is None:
        counts = published_counts(release, family.domain, smallest=1)
    else:
        counts = _recount(release, *edges)

    def expect(at: FloatArray) -> FloatArray:
        return expected_counts(counts, family, at, start, nuisance, weights)

    expected = expect(eta) if average is None else average(expect, eta)
    share = np.maximum(expected, 1e-300) / counts.n[:, None]
    score = np.where(counts.valid(), counts.count * np.log(share), 0.0).sum(axis=1)
    return np.where(counts.known, score, np.nan)


def over_effects(
    value: Callable[[FloatArray], FloatArray], eta: FloatArray, block_sd: float
) -> FloatArray:
    """Average over the random block intercept, at the points where the fit does."""
    if block_sd == 0:
        return value(eta)
    points = zip(*effect_points(block_sd, EFFECT_NODES), strict=True)
    return np.asarray(sum(weight * value(eta + move) for move, weight in points))


def expected_counts(
    counts: PublishedCounts,
    family: Family,
    eta: FloatArray,
    start: IntArray,
    nuisance: FloatArray,
    weights: FloatArray | None = None,
) -> FloatArray:
    """Return m_bk = Σ_i q_ik of people with given eta, shape (B, K), as many as were published."""
    blocks, nothing = np.arange(len(start) - 1), np.empty((len(eta), 0))
    rows = Rows(
        nothing, eta, np.zeros(0, np.uint64), blocks, start, fit_intercept=False, weights=weights
    )
    found = count_sums(rows, family, counts.lower, counts.upper, np.zeros(0), nuisance)[0]
    if weights is not None:
        people = np.add.reduceat(weights, start[:-1])
        # of a block whose people are all known no row is left
        found *= np.where(people > 0, counts.n / np.maximum(people, 1e-300), 1.0)[:, None]
    return found


@kernel
def count_sums(
    rows: Rows,
    family: Family,
    lower: FloatArray,
    upper: FloatArray,
    theta: FloatArray,
    nuisance: FloatArray,
) -> tuple[FloatArray]:
    """Return Σ q by block."""
    total = np.zeros((len(rows.blocks), lower.shape[-1]))
    for tile in rows.tiles(_TILE_ROWS):
        edges = edges_of(lower, upper, rows, tile)
        q = family.bins(rows.eta(theta, tile), *edges, nuisance).probability
        blocks, first = np.unique(rows.codes(tile), return_index=True)
        sums = np.add.reduceat(rows.weighed(q, tile), first, axis=0)
        total[np.searchsorted(rows.blocks, blocks)] += sums
    return (total,)


def _recount(release: Release, lower: FloatArray, upper: FloatArray) -> PublishedCounts:
    """Count every block of a release in given bins; its own edges must include theirs."""
    points = histogram_to_cumulative(release.histogram)
    known = np.diff(points.start) > 0
    if not known.any():
        raise ReleaseError(
            "score: an ordinal fit scores counts in bins, got a release without any; publish a "
            "histogram"
        )
    people, first = np.repeat(release.n, np.diff(points.start)), points.start[:-1][known]
    cumulative = np.zeros((len(release.n), len(upper) - 1), dtype=np.int64)
    for k, cut in enumerate(upper[:-1]):
        before = np.maximum.reduceat(np.where(points.value <= cut, points.count, 0), first)
        after = np.minimum.reduceat(np.where(points.value >= cut, points.count, people), first)
        if (before != after).any():
            b = int(np.flatnonzero(known)[np.argmax(before != after)])
            raise ReleaseError(
                f"block {str(release.blocks[b])!r}: its bins do not determine how many people are "
                f"at or below {cut:g}, an edge of the fit; publish the same bins"
            )
        cumulative[known, k] = before
    count = np.diff(cumulative, axis=1, prepend=0, append=release.n[:, None]).astype(float)
    return PublishedCounts(release.n, lower, upper, count, known)
