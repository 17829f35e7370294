"""Selecting cut ranks when the people of a block lie in several parts.

The z-step needs to know, for each run of ranks, between which two values of eta its people lie.
With a block's people in several parts nobody sees all of its values; but counts of values add. So
each cut rank is bracketed: count the values of every part in equal-width buckets, keep the bucket
that holds the rank, count again in finer ones, and at last ask for the few values left in the
bracket. That is exact, needs a few passes over eta, and moves nobody's features.

Equal values are ranked by their key, equal keys (the same features) by their part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unbin._compiling import njit
from unbin._typing import FloatArray, IntArray, KeyArray
from unbin.families import BregmanFamily
from unbin.matching.bounds import RankBounds
from unbin.matching.nearest import nearest_targets
from unbin.rows.parts import Parts, itself
from unbin.rows.rows import Rows, kernel

_BUCKETS = 32
"""Buckets that a bracket is counted in, at most."""
_FEWEST_BUCKETS = 4
_COUNTS = 1 << 21
"""Counts that travel at a time, about."""
_DENSE = 20
"""With fewer people than this per cut, counting is no better than looking at everybody."""


@dataclass(frozen=True, slots=True)
class Line:
    """The linear predictor of some people: all that ranking looks at.

    A row that stands for several people is there as often.

    Attributes
    ----------
    eta : (n,)
    key : (n,) uint64
    blocks : (b,)
    start : (b + 1,)
    """

    eta: FloatArray
    key: KeyArray
    blocks: IntArray
    start: IntArray


@dataclass(frozen=True, slots=True)
class Cuts:
    """The ranks at which runs end inside their blocks, block by block.

    Attributes
    ----------
    start : (B + 1,)
        Cuts of block b are ``start[b]:start[b + 1]``.
    rank : (C,)
        People of the block below the cut.
    """

    start: IntArray
    rank: IntArray

    @classmethod
    def of(cls, bounds: RankBounds) -> Cuts:
        """Return the inner cuts of rank bounds."""
        inner = np.ones(len(bounds.cut), dtype=bool)
        inner[bounds.run_start[1:] - 1] = False  # the last run ends with its block
        return cls(bounds.run_start - np.arange(len(bounds.run_start)), bounds.cut[inner])


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The person at each cut: those before it, by value and key, lie below the cut.

    Attributes
    ----------
    start : (B + 1,)
        As in ``Cuts``.
    eta : (C,)
    key : (C,) uint64
    """

    start: IntArray
    eta: FloatArray
    key: KeyArray


@kernel
def line(rows: Rows, theta: FloatArray) -> Line:
    """Return the linear predictor of a part."""
    eta, key = rows.eta(theta), np.asarray(rows.key)
    if rows.weights is None:
        return Line(eta, key, rows.blocks, rows.start)
    people = rows.weights.astype(np.int64)
    start = np.concatenate([[0], np.cumsum(people)])[rows.start]
    return Line(np.repeat(eta, people), np.repeat(key, people), rows.blocks, start)


def spread_sums(
    parts: Parts, family: BregmanFamily, bounds: RankBounds, theta: FloatArray
) -> tuple[float, FloatArray, float]:
    """Return D(z || mean), its gradient and Σ (z - mean)², z at its best."""
    lines = parts.keep(line, theta)
    cuts = Cuts.of(bounds)
    if bounds.count_low is not None or _DENSE * len(cuts.rank) > bounds.start[-1]:
        z = _gathered(lines, family, bounds)
        total = parts.total(_given_sums, family, theta, each=z)
    else:
        found, below = thresholds(lines, cuts)
        total = parts.total(_selected_sums, family, bounds, found, theta, each=below)
    value, gradient, square = total
    return value, gradient, square


def thresholds(lines: Parts, cuts: Cuts) -> tuple[Thresholds, list[IntArray]]:
    """Find the person at each cut rank, over all parts.

    Returns
    -------
    found : Thresholds
    below : list of (C,), one per part
        Of the people of the part with the very value and key of a cut's person, how many lie below
        the cut.
    """
    n_blocks, n_cuts = len(cuts.start) - 1, len(cuts.rank)
    block = np.repeat(np.arange(n_blocks), np.diff(cuts.start))
    extent = np.array(list(lines.stream(_extent, n_blocks)))
    low, high = extent[:, 0].min(axis=0)[block], extent[:, 1].max(axis=0)[block]
    before, each = np.zeros(n_cuts, dtype=np.int64), np.arange(n_cuts)  # people below the bracket
    buckets = int(np.clip(_COUNTS // max(n_cuts, 1), _FEWEST_BUCKETS, _BUCKETS))
    most = int(cuts.rank.max(initial=1))
    for _ in range(int(np.ceil(np.log(2 * most) / np.log(buckets)))):
        count = lines.total(_counts, cuts.start, low, high, buckets)
        total = before[:, None] + np.cumsum(count, axis=1, dtype=np.int64)
        bucket = (total <= cuts.rank[:, None]).sum(axis=1)
        edge = _edges(low, high, buckets)
        before = np.where(bucket > 0, total[each, bucket - 1], before)
        low, high = edge[each, bucket], edge[each, bucket + 1]
    return _choose(list(lines.stream(_inside, cuts.start, low, high)), cuts, before)


def _gathered(lines: Parts, family: BregmanFamily, bounds: RankBounds) -> list[FloatArray]:
    """Bring the linear predictors together, and return the best targets part by part.

    For full lists and counts known only as intervals, which say something about everybody.
    """
    here = list(lines.stream(itself))
    code = np.concatenate([np.repeat(p.blocks, np.diff(p.start)) for p in here])
    order = np.argsort(code, kind="stable")
    eta = np.concatenate([p.eta for p in here])[order]
    key = np.concatenate([p.key for p in here])[order]
    z = np.empty(len(order))
    z[order] = nearest_targets(family.inverse_link(eta), eta, bounds, family, key)
    return np.split(z, np.cumsum([len(p.eta) for p in here])[:-1])


def runs_of(line: Line, found: Thresholds, run_start: IntArray, below: IntArray) -> IntArray:
    """Return the run that holds each row's rank; ``below`` is the part's (see ``thresholds``)."""
    out = np.empty(len(line.eta), dtype=np.int64)
    _assign(
        line.eta, line.key, line.blocks, line.start,
        found.start, found.eta, found.key, below, run_start, out,
    )  # fmt: skip
    return out


def _selected_sums(
    rows: Rows,
    family: BregmanFamily,
    bounds: RankBounds,
    found: Thresholds,
    theta: FloatArray,
    below: IntArray,
) -> tuple[float, FloatArray, float]:
    here = line(rows, theta)
    run = runs_of(here, found, bounds.run_start, below)
    mean = family.inverse_link(here.eta)
    return _sums(rows, family, here.eta, mean, np.clip(mean, bounds.lower[run], bounds.upper[run]))


def _given_sums(
    rows: Rows, family: BregmanFamily, theta: FloatArray, z: FloatArray
) -> tuple[float, FloatArray, float]:
    eta = line(rows, theta).eta
    return _sums(rows, family, eta, family.inverse_link(eta), z)


def _sums(
    rows: Rows, family: BregmanFamily, eta: FloatArray, mean: FloatArray, z: FloatArray
) -> tuple[float, FloatArray, float]:
    residual = mean - z
    value, square = family.total_divergence(z, eta, mean), float(residual @ residual)
    if rows.weights is not None:
        first = np.cumsum(rows.weights.astype(np.int64)) - rows.weights.astype(np.int64)
        residual = np.add.reduceat(residual, first)
    return value, rows.gradient(residual), square


# -- what a part is asked ------------------------------------------------------------------------


def _extent(here: Line, n_blocks: int) -> FloatArray:
    """Return the smallest and the largest value of each block, (2, n_blocks)."""
    found = np.array([np.full(n_blocks, np.inf), np.full(n_blocks, -np.inf)])
    found[0, here.blocks] = np.minimum.reduceat(here.eta, here.start[:-1])
    found[1, here.blocks] = np.maximum.reduceat(here.eta, here.start[:-1])
    return found


def _counts(
    here: Line, cut_start: IntArray, low: FloatArray, high: FloatArray, buckets: int
) -> NDArray[np.int32]:
    """Return how many values lie in each bucket of each bracket, (C, buckets)."""
    count = np.zeros((len(low), buckets), dtype=np.int32)
    _count(here.eta, here.blocks, here.start, cut_start, _edges(low, high, buckets), count)
    return count


def _inside(
    here: Line, cut_start: IntArray, low: FloatArray, high: FloatArray
) -> tuple[IntArray, FloatArray, KeyArray, IntArray]:
    """Return cut, value, key and number of the people in each bracket, sorted."""
    n = _fill(here, cut_start, low, high, np.empty(0, np.int64), np.empty(0, np.int64))
    row, cut = np.empty(n, np.int64), np.empty(n, np.int64)
    _fill(here, cut_start, low, high, row, cut)
    return _distinct(cut, here.eta[row], here.key[row], np.ones(n, dtype=np.int64))


def _fill(
    here: Line,
    cut_start: IntArray,
    low: FloatArray,
    high: FloatArray,
    row: IntArray,
    cut: IntArray,
) -> int:
    return int(_find(here.eta, here.blocks, here.start, cut_start, low, high, row, cut))


def _edges(low: FloatArray, high: FloatArray, buckets: int) -> FloatArray:
    """Return the ends of the buckets of each bracket, (C, buckets + 1): [low, high]."""
    share = np.arange(buckets + 1) / buckets
    edges = np.minimum(low[:, None] + (high - low)[:, None] * share, high[:, None])
    edges[:, -1] = high
    return np.asarray(edges)


# -- putting answers together --------------------------------------------------------------------


def _distinct(
    cut: IntArray, eta: FloatArray, key: KeyArray, count: IntArray
) -> tuple[IntArray, FloatArray, KeyArray, IntArray]:
    """Sort by cut, value and key, and add up the counts of equal ones."""
    order = np.lexsort((key, eta, cut))
    cut, eta, key, count = cut[order], eta[order], key[order], count[order]
    new = np.ones(len(cut), dtype=bool)
    new[1:] = (np.diff(cut) > 0) | (np.diff(eta) > 0) | (key[1:] != key[:-1])
    first = np.flatnonzero(new)
    total = np.add.reduceat(count, first) if len(first) else count
    return cut[new], eta[new], key[new], total


def _choose(
    found: list[tuple[IntArray, FloatArray, KeyArray, IntArray]], cuts: Cuts, before: IntArray
) -> tuple[Thresholds, list[IntArray]]:
    """Pick the person at each cut rank among those in its bracket."""
    parts = [np.full(len(values[0]), p) for p, values in enumerate(found)]
    cut, eta, key, count = (np.concatenate(columns) for columns in zip(*found, strict=True))
    part = np.concatenate(parts)
    whose, value, hashed, people = _distinct(cut, eta, key, count)
    first = np.searchsorted(whose, np.arange(len(cuts.rank)))
    running = np.cumsum(people)
    ahead = np.concatenate([[0], running])[first]  # people in the brackets of earlier cuts
    # the first person whose running count, from the bracket's start, exceeds the rank
    place = np.searchsorted(running, ahead + cuts.rank - before, side="right")
    need = cuts.rank - before - (np.concatenate([[0], running])[place] - ahead)
    chosen_eta, chosen_key = value[place], hashed[place]
    same = (eta == chosen_eta[cut]) & (key == chosen_key[cut])
    below = np.zeros((len(found), len(cuts.rank)), dtype=np.int64)
    below[part[same], cut[same]] = count[same]
    taken = np.cumsum(below, axis=0) - below  # equal people of earlier parts
    below = np.clip(need - taken, 0, below)
    return Thresholds(cuts.start, chosen_eta, chosen_key), list(below)


# -- kernels -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _count(eta, blocks, start, cut_start, edges, count):  # type: ignore[no-untyped-def]
    """Add every value to the bucket it lies in of each bracket: [edge, next edge), last closed."""
    last = edges.shape[1] - 1
    for j in range(len(blocks)):
        for c in range(cut_start[blocks[j]], cut_start[blocks[j] + 1]):
            low, high, row = edges[c, 0], edges[c, last], edges[c]
            scale = last / (high - low) if high > low else 0.0
            for i in range(start[j], start[j + 1]):
                value = eta[i]
                if value < low or value > high:
                    continue
                k = min(max(int((value - low) * scale), 0), last - 1)
                while k > 0 and value < row[k]:  # rounding: the edges decide
                    k -= 1
                while k < last - 1 and value >= row[k + 1]:
                    k += 1
                count[c, k] += 1


@njit(cache=True, nogil=True)
def _find(eta, blocks, start, cut_start, low, high, row, cut):  # type: ignore[no-untyped-def]
    """Write the rows in each bracket and whose bracket it is, as far as there is room."""
    n = 0
    for j in range(len(blocks)):
        for c in range(cut_start[blocks[j]], cut_start[blocks[j] + 1]):
            for i in range(start[j], start[j + 1]):
                if low[c] <= eta[i] <= high[c]:
                    if n < len(row):
                        row[n], cut[n] = i, c
                    n += 1
    return n


@njit(cache=True, nogil=True)
def _assign(eta, key, blocks, start, cut_start, at, at_key, below, run_start, out):  # type: ignore[no-untyped-def]
    """Count, for each row, the cuts of its block that it does not lie below."""
    for j in range(len(blocks)):
        b = blocks[j]
        s, e = cut_start[b], cut_start[b + 1]
        equal = np.zeros(e - s + 1, np.int64)  # people equal to a cut's seen, by the first such cut
        for i in range(start[j], start[j + 1]):
            low, high = s, e  # the first cut whose person comes after this row
            while low < high:
                middle = (low + high) // 2
                if at[middle] < eta[i] or (at[middle] == eta[i] and at_key[middle] < key[i]):
                    low = middle + 1
                else:
                    high = middle
            run, seen = low, equal[low - s]
            while run < e and at[run] == eta[i] and at_key[run] == key[i]:
                equal[low - s] = seen + 1
                if seen < below[run]:
                    break
                run += 1
            out[i] = run_start[b] + run - s
