"""Guesses from several tables of the same people, with features and without.

Without features a person is known by the block in every table. What the tables say of the people of
a crossing is raked: of all shares of bins that meet every table, those nearest to the histogram of
everybody. With features the shares start from what the joined fit says of each person.

People held out are not counted by the tables: theirs is the mean, moved by what each table says of
their block, shrunk as far as chance explains it, the tables taken in turn until all stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
from scipy.sparse import csr_array

from unbin._typing import FloatArray, IntArray
from unbin.disclosure.attacks import fitted, mean_of, models_for, score_of
from unbin.disclosure.baselines import BlockMeans, block_means, shrunk
from unbin.disclosure.guesses import BLOCK_HISTOGRAM, RAKED_HISTOGRAMS, Guess, Knowledge
from unbin.disclosure.protections import believable_counts
from unbin.estimator import AggregatedGLM
from unbin.likelihood.statistics import bins_between
from unbin.release.crossings import Crossings
from unbin.release.join import join

ONE_TABLE = frozenset({"matching"})
"""Attacks that take one table."""
_MIX = 1e-10
"""Share of everybody's histogram mixed into what a fit says, so that every count can be met."""
_SWEEPS = 200
_MET = 1e-3
"""People by which a raked count may be off."""
_TURNS = 20
_BISECTIONS = 60


def attack_together(
    known: Sequence[Knowledge],
    attacks: tuple[str, ...],
    families: tuple[str, ...],
    seed: int,
    tell: Callable[[str], None],
) -> Iterator[Guess]:
    """Yield the guesses of every attack that takes all tables at once."""
    target = join(*(each.target for each in known))
    n_blocks, d = sum(len(each.release) for each in known), known[0].X.shape[1]
    for kind, family in product(attacks, families):
        if kind in ONE_TABLE:
            continue
        name = f"{kind}, {family}"
        tell(name)
        for model in models_for(kind, family, n_blocks, d, seed):
            if fitted(model, known[0].X, target):
                guess = _guess(name, model, known)
                if guess.finite:
                    yield guess


def histograms_together(known: Sequence[Knowledge]) -> Guess:
    """Guess what the tables say of people in the same blocks, without features."""
    pooled = block_means(known[0]).pooled
    n, m = len(known[0].X), len(known[0].X_other)
    if _noisy(known):
        expected = np.full(n, pooled), np.full(m, pooled)
        return Guess(RAKED_HISTOGRAMS, *_moved(*expected, known, None), uses_features=False)
    crossings = Crossings.of([each.target.codes for each in known])
    share = np.tile(_pooled_share(known[0]), (len(crossings.people), 1))
    raked = rake(share, crossings.blocks, known, crossings.people.astype(np.float64))
    table = (raked @ known[0].values)[crossings.codes]
    other = _moved(np.full(n, pooled), np.full(m, pooled), known, table)[1]
    return Guess(RAKED_HISTOGRAMS, table, other, uses_features=False)


def best_histogram(guesses: Sequence[Guess], y: FloatArray, y_other: FloatArray) -> Guess:
    """Return the block histograms that come nearest, of people in the tables and of the others.

    It is what anybody reads in one of the tables; to combine them is an attack.
    """
    table = min((each.table for each in guesses), key=lambda told: float(((y - told) ** 2).sum()))
    other = min(
        (each.other for each in guesses), key=lambda told: float(((y_other - told) ** 2).sum())
    )
    return Guess(BLOCK_HISTOGRAM, table, other, uses_features=False)


def _guess(name: str, model: AggregatedGLM, known: Sequence[Knowledge]) -> Guess:
    first = known[0]
    expected, expected_other = (mean_of(model, X, first) for X in (first.X, first.X_other))
    told = None if _noisy(known) else _imputed(model, known)
    table, other = _moved(expected, expected_other, known, told)
    return Guess(name, table, other, model, score_of(model))


def _noisy(known: Sequence[Knowledge]) -> bool:
    return any(each.release.noise_sd > 0 for each in known)


def _pooled_share(known: Knowledge) -> FloatArray:
    count = believable_counts(known.release).sum(axis=0) + 1e-9
    return np.asarray(count / count.sum())


# -- effects of blocks -----------------------------------------------------------------------------


def _moved(
    expected: FloatArray,
    expected_other: FloatArray,
    known: Sequence[Knowledge],
    told: FloatArray | None,
) -> tuple[FloatArray, FloatArray]:
    """Move guesses, of the people in the tables and of others, by what tables say of their blocks.

    ``told`` are guesses of the people in the tables that meet the tables; they stay. Noisy tables
    cannot be met: without ``told`` both are moved.
    """
    blocks = [block_means(each) for each in known]
    codes = [each.target.codes for each in known]
    if told is None:
        centre = blocks[0].pooled - float(expected.mean())
        gap = [
            means.mean - centre - _average(expected, each, len(means.n))
            for means, each in zip(blocks, codes, strict=True)
        ]
        told = (
            expected
            + centre
            + _sum(_effects(gap, [means.noise for means in blocks], codes, blocks), codes)
        )
    else:
        centre = float((told - expected).mean())
        gap = [
            _average(told - expected - centre, each, len(means.n))
            for means, each in zip(blocks, codes, strict=True)
        ]
    effects = _effects(gap, [means.chance for means in blocks], codes, blocks)
    others = [each.codes_other for each in known]
    return told, expected_other + centre + _sum(effects, others)


def _effects(
    gap: Sequence[FloatArray],
    error: Sequence[FloatArray],
    codes: Sequence[IntArray],
    blocks: Sequence[BlockMeans],
) -> list[FloatArray]:
    """Return the effect of each table's blocks beside those of the others.

    Parameters
    ----------
    gap : sequence of (B,)
        What the people of each block are off by, on average.
    error : sequence of (B,)
        Its variance.
    codes : sequence of (n,)
    blocks : sequence of BlockMeans
    """
    effects = [np.zeros(len(each)) for each in gap]
    for _ in range(_TURNS if len(gap) > 1 else 1):
        for t, means in enumerate(blocks):
            rest = _sum(effects, codes) - effects[t][codes[t]]
            left = gap[t] - _average(rest, codes[t], len(means.n))
            effects[t] = shrunk(left, error[t], 0.0, means.total)
    return effects


def _sum(effects: Sequence[FloatArray], codes: Sequence[IntArray]) -> FloatArray:
    """Add up the effects of everybody's blocks."""
    pairs = zip(effects, codes, strict=True)
    return np.asarray(sum(effect[each] for effect, each in pairs), dtype=np.float64)


def _average(values: FloatArray, codes: IntArray, n_blocks: int) -> FloatArray:
    people = np.bincount(codes, minlength=n_blocks)
    return np.asarray(np.bincount(codes, values, n_blocks) / np.maximum(people, 1))


# -- raking ----------------------------------------------------------------------------------------


def _imputed(model: AggregatedGLM, known: Sequence[Knowledge]) -> FloatArray:
    """Return the mean of each person's bins, their shares raked to all tables."""
    first = known[0]
    share, values = _bins_of(model, first)
    share = share + _MIX * _pooled_share(first)
    codes = [each.target.codes for each in known]
    raked = rake(share, codes, known, np.ones(len(share)))
    return np.asarray((raked * values).sum(axis=1))


def _bins_of(model: AggregatedGLM, known: Knowledge) -> tuple[FloatArray, FloatArray]:
    """Return the share (n, K) of each bin of the table, and its mean, by the fit of a person.

    Bins that the fit takes together are shared out as they are of everybody.
    """
    fit = model._fits[0].for_prediction()
    upper = known.edges[1:]
    if fit.bins is not None:
        cuts = np.asarray(model.bin_edges_[1:-1])
        share, values = model.predict_proba(known.X), None
    else:
        domain = fit.family.domain
        upper = np.floor(upper) if domain.integer else upper
        cuts = np.unique(upper[:-1])
        cuts = cuts[(cuts >= domain.low) & (cuts < domain.high)]
        ends, eta = bins_between(cuts, domain), fit.eta(known.X)
        share = fit.family.bins(eta, *ends, fit.nuisance).probability
        values = fit.family.bin_means(eta, *ends, fit.nuisance)
    place = np.minimum(np.searchsorted(cuts, upper), len(cuts))
    pooled = _pooled_share(known)
    part = pooled / np.bincount(place, pooled, len(cuts) + 1)[place]
    told = known.values if values is None else values[:, place]
    return share[:, place] * part, np.broadcast_to(told, (len(known.X), len(pooled)))


def rake(
    share: FloatArray,
    codes: Sequence[IntArray],
    known: Sequence[Knowledge],
    weight: FloatArray,
) -> FloatArray:
    """Return shares (n, K) that meet all tables, as near as can be to those given.

    Iterative proportional fitting; a hidden count may be anything within its interval, as long as
    its block has its people.

    Parameters
    ----------
    share : (n, K)
        Rows in proportion to the probabilities of bins.
    codes : sequence of (n,)
        The blocks of the rows in each table.
    known : sequence of Knowledge
        Of each table.
    weight : (n,)
        People of each row.
    """
    share = share / share.sum(axis=1, keepdims=True)
    tables = [_Margin(each, place, weight) for each, place in zip(known, codes, strict=True)]
    for _ in range(_SWEEPS):
        gap = 0.0
        for table in tables:
            share, off = table.fit(share)
            gap = max(gap, off)
        if gap <= _MET:
            break
    return share


class _Margin:
    """One table that shares are raked to."""

    def __init__(self, known: Knowledge, codes: IntArray, weight: FloatArray) -> None:
        release = known.release
        shape = len(release), -1
        low, high = (end.reshape(shape).astype(np.float64) for end in release.histogram.interval())
        self.low, self.high, self.codes = low, high, codes
        self.n = release.n[:, None].astype(np.float64)
        self.hidden = (low < high).any(axis=1)
        place = np.arange(len(codes))
        self.add = csr_array((weight, (codes, place)), shape=(len(release), len(codes)))

    def fit(self, share: FloatArray) -> tuple[FloatArray, float]:
        """Scale the shares to the counts; return them, and by how much the counts were off."""
        count = np.asarray(self.add @ share)
        wanted = self.low.copy()
        wanted[self.hidden] = _within(
            count[self.hidden], self.low[self.hidden], self.high[self.hidden], self.n[self.hidden]
        )
        factor = np.divide(wanted, count, out=np.zeros_like(count), where=count > 0)
        scaled = share * factor[self.codes]
        total = scaled.sum(axis=1, keepdims=True)
        scaled = np.where(total > 0, scaled / np.where(total > 0, total, 1.0), share)
        return scaled, float(np.abs(count - wanted).max())


def _within(count: FloatArray, low: FloatArray, high: FloatArray, n: FloatArray) -> FloatArray:
    """Scale the counts of each block by a factor, cut off at their ends, so that they add up to n.

    The factor is found by bisection, all blocks at once.
    """
    least, most = np.full((len(count), 1), -50.0), np.full((len(count), 1), 50.0)
    count = np.maximum(count, 1e-12)
    for _ in range(_BISECTIONS):
        middle = (least + most) / 2
        more = np.clip(np.exp(middle) * count, low, high).sum(axis=1, keepdims=True) < n
        least, most = np.where(more, middle, least), np.where(more, most, middle)
    return np.asarray(np.clip(np.exp(most) * count, low, high))
