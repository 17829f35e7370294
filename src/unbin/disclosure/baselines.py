"""What anybody reads in the table, or knows from elsewhere: guesses to hold attacks against."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unbin._typing import FloatArray, IntArray
from unbin.classifier import AggregatedClassifier
from unbin.disclosure.guesses import BLOCK_HISTOGRAM, Guess, Knowledge
from unbin.disclosure.measures import squared_error
from unbin.disclosure.protections import believable_counts
from unbin.estimator import AggregatedGLM
from unbin.exceptions import IdentificationWarning, SpecificationWarning


@dataclass(frozen=True, slots=True)
class BlockMeans:
    """What a table says of the mean of each block.

    Attributes
    ----------
    mean : (B,), or (B, K) of categories: their shares
    noise : (B,)
        Variance of its error, where noise was added to the counts; else 0. Of categories, like all
        variances here, the sum of those of the shares.
    pooled : float, or (K,)
        The mean of everybody.
    total, within : float
        Variance of the values, of everybody and within blocks.
    n : (B,)
        People.
    """

    mean: FloatArray
    noise: FloatArray
    pooled: FloatArray
    total: float
    within: float
    n: IntArray

    @property
    def chance(self) -> FloatArray:
        """Variance of the mean of other people of each block around what the table says."""
        return np.asarray(self.noise + self.within / self.n)


def block_means(known: Knowledge) -> BlockMeans:
    """Read the means of blocks off a table.

    Noisy counts need not add up, but the people of a block are known: their mean is the pooled one
    plus what counts times distances from it say, which noise does not bias.
    """
    release, values = known.release, known.values
    n, people = release.n, float(release.n.sum())
    counted = believable_counts(release).sum(axis=0)
    pooled = counted @ values / people
    apart = values - pooled
    count = release.histogram.count.reshape(len(release), -1)
    mean = pooled + per_block(count @ apart, 1 / n)
    noise = release.noise_sd**2 * float((apart**2).sum()) / n**2
    square = float((counted @ apart**2).sum())
    within = max(square - float(n @ (squared_error(mean, pooled) - noise)), 0.0)
    within /= max(people - len(n), 1.0)
    return BlockMeans(mean, np.asarray(noise), pooled, square / people, within, n)


def pooled_guess(known: Knowledge) -> Guess:
    """Guess the mean of the table of everybody."""
    mean = block_means(known).pooled
    guesses = everybody(mean, len(known.X)), everybody(mean, len(known.X_other))
    return Guess("pooled histogram", *guesses, uses_features=False)


def everybody(value: FloatArray, n: int) -> FloatArray:
    """Return the same guess for n people."""
    return np.tile(value, (n, *np.ones(np.ndim(value), dtype=int)))


def per_block(values: FloatArray, factor: FloatArray) -> FloatArray:
    """Multiply the values of each block, (B,) or (B, K), by its factor (B,)."""
    return np.asarray((values.T * factor).T)


def averages(values: FloatArray, codes: IntArray, n_blocks: int) -> FloatArray:
    """Return the mean of people's values, (n,) or (n, K), in each block."""
    people = np.maximum(np.bincount(codes, minlength=n_blocks), 1)
    columns = np.atleast_2d(values.T)
    sums = np.stack([np.bincount(codes, column, n_blocks) for column in columns])
    return np.asarray((sums / people).T.reshape(n_blocks, *values.shape[1:]))


def block_guess(known: Knowledge) -> Guess:
    """Guess the mean of the block's table; others get it as far as blocks are seen to differ."""
    found = block_means(known)
    table = shrunk(found.mean, found.noise, found.pooled, found.total)
    other = shrunk(found.mean, found.chance, found.pooled, found.total)
    guesses = table[known.target.codes], other[known.codes_other]
    return Guess(BLOCK_HISTOGRAM, *guesses, uses_features=False)


def between_variance(effect: FloatArray, error: FloatArray) -> float:
    """Return the variance between blocks beyond that of their errors (B,), at least 0.

    The moment estimator of DerSimonian and Laird. Of effects (B, K) variances are sums over K.

    References
    ----------
    DerSimonian, R. and Laird, N. (1986). Meta-analysis in clinical trials. *Controlled Clinical
    Trials*, 7, 177-188.
    """
    weight = 1 / error
    total = float(weight.sum())
    room = total - float(weight @ weight) / total
    if len(effect) == 1 or room <= 0:
        return 0.0
    square = squared_error(effect, weight @ effect / total)
    return max((float(weight @ square) - len(effect) + 1) / room, 0.0)


def shrunk(
    effect: FloatArray, error: FloatArray, centre: float | FloatArray, most: float = np.inf
) -> FloatArray:
    """Shrink the effects of blocks towards a centre as far as errors explain the distance.

    Parameters
    ----------
    effect : (B,), or (B, K) of categories
    error : (B,)
        Variance of the error of each; all 0 where there is none.
    centre : float, or (K,)
    most : float
        What the variance between blocks cannot exceed: that of the values.
    """
    if not error.any():
        return effect
    between = min(between_variance(effect, error), most)
    return np.asarray(centre + per_block(effect - centre, between / (between + error)))


def public_guess(known: Knowledge, y: FloatArray, y_other: FloatArray, family: str) -> Guess:
    """Guess from the features alone, by the model that individual data of other people give."""
    guesses = []
    for X, values, of in ((known.X_other, y_other, known.X), (known.X, y, known.X_other)):
        with warnings.catch_warnings():
            for warning in (ConvergenceWarning, IdentificationWarning, SpecificationWarning):
                warnings.simplefilter("ignore", warning)
            if values.ndim == 2:
                guesses.append(_probabilities(X, values, of))
            else:
                guesses.append(AggregatedGLM(family).fit(X, values).predict(of))
    return Guess("public model", guesses[0], guesses[1])


def _probabilities(X: FloatArray, indicators: FloatArray, of: FloatArray) -> FloatArray:
    """Fit a logit to people whose categories (n, K) are known; return those of others."""
    labels = indicators.argmax(axis=1)
    found = np.zeros((len(of), indicators.shape[1]))
    if (labels == labels[0]).all():
        found[:, labels[0]] = 1.0
        return found
    model = AggregatedClassifier().fit(X, labels)
    found[:, model.classes_] = model.predict_proba(of)
    return found
