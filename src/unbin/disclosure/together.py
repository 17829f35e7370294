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

from unbin._typing import FloatArray, IntArray
from unbin.classifier import AggregatedClassifier
from unbin.disclosure.attacks import fitted, mean_of, models_for, score_of
from unbin.disclosure.baselines import BlockMeans, averages, block_means, everybody, shrunk
from unbin.disclosure.guesses import BLOCK_HISTOGRAM, RAKED_HISTOGRAMS, Guess, Knowledge, Model
from unbin.disclosure.measures import squared_error
from unbin.disclosure.raking import pooled_share, rake, raked
from unbin.estimator import AggregatedGLM
from unbin.likelihood.data.tables import bins_between
from unbin.release.crossings import Crossings
from unbin.release.join import join

ONE_TABLE = frozenset({"matching"})
"""Attacks that take one table."""
_TURNS = 20


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
    expected = everybody(pooled, n), everybody(pooled, m)
    if _noisy(known):
        return Guess(RAKED_HISTOGRAMS, *_moved(*expected, known, None), uses_features=False)
    crossings = Crossings.of([each.target.codes for each in known])
    share = np.tile(pooled_share(known[0]), (len(crossings.people), 1))
    met = rake(share, crossings.blocks, known, crossings.people.astype(np.float64))
    table = (met @ known[0].values)[crossings.codes]
    other = _moved(*expected, known, table)[1]
    return Guess(RAKED_HISTOGRAMS, table, other, uses_features=False)


def best_histogram(guesses: Sequence[Guess], y: FloatArray, y_other: FloatArray) -> Guess:
    """Return the block histograms that come nearest, of people in the tables and of the others.

    It is what anybody reads in one of the tables; to combine them is an attack.
    """
    table = min((each.table for each in guesses), key=lambda told: squared_error(y, told).sum())
    other = min(
        (each.other for each in guesses), key=lambda told: squared_error(y_other, told).sum()
    )
    return Guess(BLOCK_HISTOGRAM, table, other, uses_features=False)


def _guess(name: str, model: Model, known: Sequence[Knowledge]) -> Guess:
    first = known[0]
    expected, expected_other = (mean_of(model, X, first) for X in (first.X, first.X_other))
    told = None if _noisy(known) else _imputed(model, known)
    table, other = _moved(expected, expected_other, known, told)
    return Guess(name, table, other, model, score_of(model))


def _noisy(known: Sequence[Knowledge]) -> bool:
    return any(each.release.noise_sd > 0 for each in known)


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
        centre = blocks[0].pooled - expected.mean(axis=0)
        gap = [
            means.mean - centre - averages(expected, each, len(means.n))
            for means, each in zip(blocks, codes, strict=True)
        ]
        told = (
            expected
            + centre
            + _sum(_effects(gap, [means.noise for means in blocks], codes, blocks), codes)
        )
    else:
        centre = (told - expected).mean(axis=0)
        gap = [
            averages(told - expected - centre, each, len(means.n))
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
    gap : sequence of (B,), or (B, K) of categories
        What the people of each block are off by, on average.
    error : sequence of (B,)
        Its variance.
    codes : sequence of (n,)
    blocks : sequence of BlockMeans
    """
    effects = [np.zeros_like(each) for each in gap]
    for _ in range(_TURNS if len(gap) > 1 else 1):
        for t, means in enumerate(blocks):
            rest = _sum(effects, codes) - effects[t][codes[t]]
            left = gap[t] - averages(rest, codes[t], len(means.n))
            effects[t] = shrunk(left, error[t], 0.0, means.total)
    return effects


def _sum(effects: Sequence[FloatArray], codes: Sequence[IntArray]) -> FloatArray:
    """Add up the effects of everybody's blocks."""
    pairs = zip(effects, codes, strict=True)
    return np.asarray(sum(effect[each] for effect, each in pairs), dtype=np.float64)


# -- raking ----------------------------------------------------------------------------------------


def _imputed(model: Model, known: Sequence[Knowledge]) -> FloatArray:
    """Return the mean of each person's bins, their shares raked to all tables."""
    if isinstance(model, AggregatedClassifier):
        return raked(model.predict_proba(known[0].X), known)
    share, values = _bins_of(model, known[0])
    return np.asarray((raked(share, known) * values).sum(axis=1))


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
    pooled = pooled_share(known)
    part = pooled / np.bincount(place, pooled, len(cuts) + 1)[place]
    told = known.values if values is None else values[:, place]
    return share[:, place] * part, np.broadcast_to(told, (len(known.X), len(pooled)))
