"""Counts that are only known as intervals: suppressed and rounded cells.

The score of "the counts lie in these intervals and add up to n" is the score of exact counts with
each hidden count replaced by its expectation given all that was published, and the information is
that of exact counts less what the conditional covariance V_b of the hidden counts takes away, the
missing information:

    U = Σ_b D_bᵀ S_b⁻¹ (E[c_b | published] - m_b),   J = Σ_b D_bᵀ S_b⁻¹ (S_b - V_b) S_b⁻¹ D_b.

Both are those of a count y_b that was published with noise of covariance N_b,

    N_b = S_b (S_b - V_b)⁻¹ V_b,   y_b - m_b = S_b (S_b - V_b)⁻¹ (E[c_b | published] - m_b),

in which form hidden counts stand beside exact ones of other tables (``as_noisy``).

Counts are taken as normal with mean m_b and covariance S_b. Conditioning on the exact counts leaves
a normal distribution of the hidden ones, all but one of them free because they add up; truncating
it to the intervals (half a person wider at both ends) is left to expectation propagation: each
interval in turn is replaced by the normal factor that gives the same mean and variance of its
count.

Counts of a few people are not normal: the expectation of up to ``_FEW`` people is taken over all
ways to split them between the bins. A normal approximation would attenuate the slopes, by standard
errors where counts of two people are rounded to 5.

References
----------
Louis, T. A. (1982). Finding the observed information matrix when using the EM algorithm. *Journal
of the Royal Statistical Society B*, 44, 226-233.

Minka, T. P. (2001). Expectation propagation for approximate Bayesian inference. *Proceedings of the
17th Conference on Uncertainty in Artificial Intelligence*, 362-369.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from unbin._blocks import block_of_rows
from unbin._compiling import njit
from unbin._linalg import JITTER
from unbin._typing import BoolArray, FloatArray, Index, IntArray
from unbin.families import Interval
from unbin.likelihood.data.counts import PublishedCounts
from unbin.likelihood.thresholds import MOST_HIDDEN
from unbin.release import tables
from unbin.release.tables import Histogram

_ROOT_HALF = math.sqrt(0.5)
_HALF_TURN = math.sqrt(math.pi / 2)
_FEW = 30
"""People with hidden counts up to whom all splits of them are gone through."""
_MANY_SLOTS = 1e4
"""Slots per expected person that make counts multinomial."""
_RAREST = 1e-3
"""People expected at least in a bin with a hidden count."""
_LEAST = 0.05
"""Share of a bin's slots that is always left for one more person: what was published may be
unlikely, but it is not impossible."""
_SWEEPS = 50
_SETTLED = 1e-8
"""Sweeps end when no expected count moves by more than this."""
_WIDE = 1e9
"""Standard deviations that are as good as infinite."""
_FAR = 25.0
"""Standard deviations from which the normal density is exponential within an interval."""
_NARROW = 0.1
"""Standard deviations below which the normal density is linear within an interval."""


def with_hidden(counts: PublishedCounts, table: Histogram, domain: Interval) -> PublishedCounts:
    """Carry the intervals of a table over to the counts that were made of it."""
    hidden = table.hidden()
    if not hidden.any():
        return counts
    block, place = (each[hidden] for each in place_cells(counts, table, domain))
    low, high = counts.count.copy(), counts.count.copy()
    for ends, end in zip((low, high), table.interval(), strict=True):
        np.add.at(ends, (block, place), (end - table.count)[hidden])
    low, high = np.maximum(low, 0), np.minimum(high, counts.n[:, None])
    return _without_blanks(replace(counts, low=low, high=high))


def _without_blanks(counts: PublishedCounts) -> PublishedCounts:
    """Leave out the blocks of which every count may be anything: of them nothing was published.

    Taken as normal, counts that are not negative would tell something.
    """
    assert counts.low is not None
    assert counts.high is not None
    open_ended = (counts.low <= 0) & (counts.high >= counts.n[:, None])
    blank = counts.known & (open_ended | ~counts.valid()).all(axis=1) & (counts.n_bins > 1)
    if not blank.any():
        return counts
    count, low, high = (np.array(each) for each in (counts.count, counts.low, counts.high))
    for each in (count, low, high):
        each[blank] = 0
        each[blank, 0] = counts.n[blank]
    return replace(counts, count=count, low=low, high=high, known=counts.known & ~blank)


def place_cells(
    counts: PublishedCounts, table: Histogram, domain: Interval
) -> tuple[IntArray, IntArray]:
    """Return block and bin of each row of the table that counts were made of."""
    upper = tables.integer_edges(table)[1] if domain.integer else table.upper
    block = block_of_rows(table.start)
    return block, _bins_of(counts, block, upper)


def _bins_of(counts: PublishedCounts, block: IntArray, upper: FloatArray) -> IntArray:
    """Return the bin of each cell, by the cell's upper edge."""
    if counts.shared:
        return np.asarray(np.searchsorted(counts.upper[:-1], upper))
    real = counts.lower[block] <= counts.upper[block]
    below = (real & (counts.upper[block] < upper[:, None])).sum(axis=1)
    return np.asarray(np.minimum(below, real.sum(axis=1) - 1))


def expected_within(
    counts: PublishedCounts, mean: FloatArray, covariance: FloatArray, blocks: Index
) -> tuple[FloatArray, FloatArray]:
    """Return the expected counts of some blocks given all that was published of them.

    Parameters
    ----------
    counts : PublishedCounts
        With intervals.
    mean : (B', K)
        Expected counts of those blocks before the table is looked at.
    covariance : (B', K, K)
    blocks : slice

    Returns
    -------
    count : (B', K)
        As published where that is exact; the counts of a block add up to its people.
    root : (B', K, K)
        R with R Rᵀ = V, the covariance of the hidden counts given all that was published.
    """
    assert counts.low is not None
    assert counts.high is not None
    low, high, count = counts.low[blocks], counts.high[blocks], counts.count[blocks].copy()
    root = np.zeros(covariance.shape)
    total = np.where(low < high, count, 0.0).sum(axis=1)
    _expect(count, mean, covariance, low, high, root)
    return _adding_up(count, low, high, total), root


def as_noisy(
    covariance: FloatArray, used: BoolArray, residual: FloatArray, root: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return what is known of hidden numbers as numbers that were published with noise.

    Parameters
    ----------
    covariance : (B, L, L)
        S, before the intervals are looked at.
    used : (B, L) bool
        Numbers that say something, without one of those that add up.
    residual : (B, L)
        Their expectation given all that was published, less that before.
    root : (B, L, h)
        R with R Rᵀ = V.

    Returns
    -------
    residual : (B, L)
        y - m; 0 for numbers that are not used.
    root : (B, L, L)
        A root of N.
    """
    places = np.arange(used.shape[1])
    masked = covariance * (used[:, :, None] & used[:, None, :])
    masked[:, places, places] += JITTER
    factor = np.linalg.cholesky(masked)
    white = np.linalg.solve(
        factor, np.concatenate([residual[:, :, None], root], axis=2) * used[:, :, None]
    )
    axes, size, _ = np.linalg.svd(white[:, :, 1:], full_matrices=False)
    share = np.minimum(size**2, MOST_HIDDEN)
    r = white[:, :, :1]
    along = axes.swapaxes(1, 2) @ r
    r = r + axes @ ((share / (1 - share))[:, :, None] * along)
    found = np.zeros(covariance.shape)
    found[:, :, : size.shape[1]] = factor @ (axes * np.sqrt(share / (1 - share))[:, None, :])
    return (factor @ r)[:, :, 0] * used, found * used[:, :, None]


def multinomial_covariance(mean: FloatArray) -> FloatArray:
    """Return diag(m) - m mᵀ / n of every block, shape (B, K, K)."""
    outer = mean[:, :, None] * mean[:, None, :] / mean.sum(axis=1)[:, None, None]
    return np.asarray(mean[:, :, None] * np.eye(mean.shape[1]) - outer)


def _adding_up(
    count: FloatArray, low: FloatArray, high: FloatArray, total: FloatArray
) -> FloatArray:
    """Move expected counts into their intervals, the people of a block all there."""
    hidden = low < high
    count = np.clip(count, low, high)
    short = total - np.where(hidden, count, 0.0).sum(axis=1)
    room = np.where(short[:, None] > 0, high - count, count - low) * hidden
    size = room.sum(axis=1)
    share = np.divide(short, size, out=np.zeros_like(short), where=size > 0)
    return np.asarray(count + room * share[:, None])


@njit(cache=True, nogil=True, error_model="numpy")
def _expect(count, mean, covariance, low, high, root):  # type: ignore[no-untyped-def]
    """Replace the hidden counts of every block by expected ones, and fill in ``root``."""
    for b in range(len(count)):
        hidden = np.flatnonzero(low[b] < high[b])
        if len(hidden) < 2:  # one hidden count is known from the total
            continue
        last = hidden[np.argmax(mean[b][hidden])]
        free = hidden[hidden != last]
        seen = np.flatnonzero((low[b] == high[b]) & (np.diag(covariance[b]) > 1e-9))
        total = count[b][hidden].sum()
        k = len(free)
        mu, sigma = _given_seen(count[b], mean[b], covariance[b], free, seen)
        if 0 < total <= _FEW:
            ends = (low[b][np.append(free, last)], high[b][np.append(free, last)])
            mu, sigma = _few_within(mu, sigma, int(total + 0.5), ends)
        else:
            bottom, top = np.empty(k + 1), np.empty(k + 1)
            for i in range(k):
                bottom[i], top[i] = low[b, free[i]] - 0.5, high[b, free[i]] + 0.5
            bottom[k], top[k] = total - high[b, last] - 0.5, total - low[b, last] + 0.5
            _propagate(mu, sigma, bottom, top)
        for i in range(k):
            count[b, free[i]] = mu[i]
        count[b, last] = total - mu.sum()
        _fill_root(sigma, free, last, root[b])


@njit(cache=True, nogil=True, error_model="numpy")
def _few_within(mu, sigma, total, ends):  # type: ignore[no-untyped-def]
    """Return mean and covariance of a few people's hidden counts, given their intervals.

    ``mu`` and ``sigma`` are those of all but the last before the intervals are looked at. Of the
    covariance the share is left that is left of that of a hypergeometric distribution.
    """
    k = len(mu)
    mean, share = _hypergeometric(mu, sigma, total)
    slots = mean * _MANY_SLOTS
    if share < 1 - 1 / _MANY_SLOTS:
        slots = mean * (total - share) / ((1 - share) * total)
    within, left = _split_few(total, slots, *ends)
    before, now = np.zeros((k + 1, k + 1)), np.zeros((k + 1, k + 1))
    for i in range(k + 1):
        before[i, i] = share * mean[i]
        for j in range(k + 1):
            before[i, j] -= share * mean[i] * mean[j] / total
    now[:k, :k] = sigma
    for i in range(k):  # the last count is the total less the others
        now[i, k] = now[k, i] = -sigma[i].sum()
        now[k, k] += sigma[i].sum()
    move = _root(now, 0.5) @ _root(before, -0.5)
    return within[:k], (move @ left @ move.T)[:k, :k]


@njit(cache=True, nogil=True, error_model="numpy")
def _root(matrix, power):  # type: ignore[no-untyped-def]
    """Return a power of a symmetric matrix, in the directions in which it is not 0."""
    values, vectors = np.linalg.eigh(matrix)
    smallest = 1e-9 * max(values[-1], 1e-9)
    for i in range(len(values)):
        values[i] = values[i] ** power if values[i] > smallest else 0.0
    return (vectors * values) @ vectors.T


@njit(cache=True, nogil=True, error_model="numpy")
def _hypergeometric(mu, sigma, total):  # type: ignore[no-untyped-def]
    """Return the means of all hidden counts, and how variable they are beside multinomial ones.

    N slots of which n people take some at random give multinomial covariances times
    (N - n)/(N - 1): fewer slots where the features determine more of the people's bins.
    """
    k = len(mu)
    mean = np.empty(k + 1)
    mean[:k], mean[k] = mu, total - mu.sum()
    mean = np.maximum(mean, _RAREST)
    mean *= total / mean.sum()
    variance, most = sigma.sum() + np.trace(sigma), 0.0
    for i in range(k + 1):
        most += mean[i] * (1 - mean[i] / total)
    return mean, min(max(variance / most, _LEAST), 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _split_few(total, slots, low, high):  # type: ignore[no-untyped-def]
    """Return mean and covariance of hidden counts over all splits that there can be.

    Given their total the counts are hypergeometric, ``slots`` to each bin, within their intervals.
    Bin by bin: the weight of every number of people so far, with the first and second moments of
    the counts that make it up.
    """
    size = len(slots)
    weight, first = np.zeros(total + 1), np.zeros((total + 1, size))
    second = np.zeros((total + 1, size, size))
    weight[0] = 1.0
    for k in range(size):
        new, new_first = np.zeros(total + 1), np.zeros((total + 1, size))
        new_second = np.zeros((total + 1, size, size))
        for c in range(max(int(low[k]), 0), min(int(high[k]), total) + 1):
            p = _choices(slots[k], c)
            for t in range(total + 1 - c):
                new[t + c] += p * weight[t]
                for i in range(k):
                    new_first[t + c, i] += p * first[t, i]
                    for j in range(k):
                        new_second[t + c, i, j] += p * second[t, i, j]
                    new_second[t + c, i, k] += c * p * first[t, i]
                    new_second[t + c, k, i] += c * p * first[t, i]
                new_first[t + c, k] += c * p * weight[t]
                new_second[t + c, k, k] += c * c * p * weight[t]
        largest = new.max()  # weights are relative, and would overflow with many people
        weight, first, second = new / largest, new_first / largest, new_second / largest
    mean = first[total] / weight[total]
    return mean, second[total] / weight[total] - np.outer(mean, mean)


@njit(cache=True, nogil=True, error_model="numpy")
def _choices(slots, taken):  # type: ignore[no-untyped-def]
    """Return the number of ways to take some of the slots; not quite 0 where there are too few."""
    result = 1.0
    for i in range(taken):
        result *= max(slots - i, _LEAST * slots) / (i + 1)
    return result


@njit(cache=True, nogil=True, error_model="numpy")
def _given_seen(count, mean, covariance, free, seen):  # type: ignore[no-untyped-def]
    """Return mean and covariance of the free hidden counts given the exact ones."""
    k, j = len(free), len(seen)
    mu, sigma = np.empty(k), np.empty((k, k))
    for a in range(k):
        mu[a] = mean[free[a]]
        for c in range(k):
            sigma[a, c] = covariance[free[a], free[c]]
    if j == 0:
        return mu, sigma
    among, across, surprise = np.empty((j, j)), np.empty((j, k)), np.empty(j)
    for a in range(j):
        surprise[a] = count[seen[a]] - mean[seen[a]]
        for c in range(j):
            among[a, c] = covariance[seen[a], seen[c]]
        among[a, a] += 1e-6
        for c in range(k):
            across[a, c] = covariance[seen[a], free[c]]
    weight = np.linalg.solve(among, across)
    return mu + weight.T @ surprise, sigma - weight.T @ across


@njit(cache=True, nogil=True, error_model="numpy")
def _propagate(mu, sigma, bottom, top):  # type: ignore[no-untyped-def]
    """Truncate a normal law to intervals of its coordinates and (last) of their sum, in place.

    Expectation propagation with one factor of precision ``tau`` and precision times mean ``nu`` for
    each interval; a factor changes the law by a matrix of rank one.
    """
    k = len(mu)
    tau, nu, along = np.zeros(k + 1), np.zeros(k + 1), np.empty(k)
    for i in range(k):
        sigma[i, i] += 1e-6
    for _ in range(_SWEEPS):
        moved = 0.0
        for site in range(k + 1):
            if site < k:
                along[:] = sigma[:, site]
                center, spread = mu[site], along[site]
            else:
                along[:] = sigma.sum(axis=1)
                center, spread = mu.sum(), along.sum()
            without = 1.0 / spread - tau[site]
            if without <= 1e-9:
                continue
            sd = 1.0 / np.sqrt(without)
            outside = (center / spread - nu[site]) / without
            inside, variance = _cut(outside, sd, bottom[site], top[site])
            new_tau = max(1.0 / variance - without, 0.0)
            d_tau = new_tau - tau[site]
            d_nu = inside / variance - outside * without - nu[site]
            tau[site] += d_tau
            nu[site] += d_nu
            scale = 1.0 / (1.0 + d_tau * spread)
            step = (d_nu - d_tau * center) * scale
            for i in range(k):
                moved = max(moved, abs(step * along[i]))
                mu[i] += step * along[i]
                for j in range(k):
                    sigma[i, j] -= along[i] * along[j] * d_tau * scale
        if moved < _SETTLED:
            break


def within_box(
    covariance: FloatArray, low: FloatArray, high: FloatArray, used: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean and root of the covariance of centred normal variables within intervals.

    Parameters
    ----------
    covariance : (B, J, J)
    low, high : (B, J)
        In standard deviations; infinite where there is no end.
    used : (B, J) bool
        Variables that are not used stay 0.

    Returns
    -------
    mean : (B, J)
    root : (B, J, J)
        R with R Rᵀ the covariance given the intervals.
    """
    mean, root = np.zeros(low.shape), np.zeros(covariance.shape)
    _fill_box(covariance, np.maximum(low, -_WIDE), np.minimum(high, _WIDE), used, mean, root)
    return mean, root


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_box(covariance, low, high, used, mean, root):  # type: ignore[no-untyped-def]
    """Fill in mean and root of each block."""
    for b in range(len(mean)):
        place = np.flatnonzero(used[b])
        k = len(place)
        sd = np.sqrt(np.maximum(np.diag(covariance[b])[place], 1e-12))
        mu, sigma = np.zeros(k), np.empty((k, k))
        bottom, top = np.full(k + 1, -_WIDE), np.full(k + 1, _WIDE)  # the sum is free
        for i in range(k):
            bottom[i], top[i] = low[b, place[i]], high[b, place[i]]
            for j in range(k):
                sigma[i, j] = covariance[b, place[i], place[j]] / (sd[i] * sd[j])
        _propagate(mu, sigma, bottom, top)
        factor = np.zeros((k + 1, k))
        _fill_root(sigma, np.arange(k), k, factor)
        for i in range(k):
            mean[b, place[i]] = sd[i] * mu[i]
            for j in range(k):
                root[b, place[i], j] = sd[i] * factor[i, j]


@njit(cache=True, nogil=True, error_model="numpy")
def _cut(mean, sd, bottom, top):  # type: ignore[no-untyped-def]
    """Return mean and variance of a normal variable truncated to an interval."""
    a, b = (bottom - mean) / sd, (top - mean) / sd
    flip = a + b < 0
    if flip:
        a, b = -b, -a
    width = b - a
    if width < _NARROW:
        middle = 0.5 * (a + b)
        first, second = middle * (1 - width**2 / 12), width**2 / 12
    elif a > _FAR:
        rate = a + 1.0 / a
        left = np.exp(-rate * width)
        first = a + 1.0 / rate - width * left / (1 - left)
        second = 1.0 / rate**2 - width**2 * left / (1 - left) ** 2
    else:
        density_a, density_b = np.exp(-0.5 * a * a), np.exp(-0.5 * b * b)
        mass = _HALF_TURN * (math.erfc(a * _ROOT_HALF) - math.erfc(b * _ROOT_HALF))
        first = (density_a - density_b) / mass
        ends = (0.0 if a < -40 else a * density_a) - (0.0 if b > 40 else b * density_b)
        second = 1.0 + ends / mass - first**2
    if flip:
        first = -first
    return mean + sd * first, sd * sd * max(second, 1e-8)


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_root(sigma, free, last, root):  # type: ignore[no-untyped-def]
    """Write the Cholesky factor of V; the last hidden count is a total less the others."""
    k = len(free)
    factor = np.zeros((k, k))
    for i in range(k):
        for j in range(i + 1):
            entry = sigma[i, j]
            for c in range(j):
                entry -= factor[i, c] * factor[j, c]
            if i == j:
                factor[i, i] = np.sqrt(max(entry, 1e-12))
            else:
                factor[i, j] = entry / factor[j, j]
            root[free[i], j] = factor[i, j]
            root[last, j] -= factor[i, j]


def whole_counts(count: FloatArray) -> FloatArray:
    """Round expected counts to whole ones that add up to the same people."""
    total = np.round(np.cumsum(count, axis=1), 9)
    return np.diff(np.floor(total + 0.5), axis=1, prepend=0.0)  # halves go one way
