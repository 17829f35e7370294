"""What anybody reads in the table, or knows from elsewhere: guesses to hold attacks against."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unbin.disclosure.guesses import Guess, Knowledge
from unbin.disclosure.protections import believable_counts
from unbin.estimator import AggregatedGLM
from unbin.typing import FloatArray, IntArray


def pooled_guess(known: Knowledge) -> Guess:
    """Guess the mean of the table of everybody."""
    mean = float(block_means(known) @ known.release.n / known.release.n.sum())
    return Guess("pooled histogram", np.full(len(known.X), mean), np.full(len(known.X_other), mean))


def block_guess(known: Knowledge) -> Guess:
    """Guess the mean of the block's table; others get it as far as blocks are seen to differ."""
    means, n = block_means(known), known.release.n
    pooled = float(means @ n / n.sum())
    moved = pooled + shrunk(means - pooled, n, within_variance(known))
    return Guess("block histogram", means[known.target.codes], moved[known.codes_other])


def block_means(known: Knowledge) -> FloatArray:
    """Return the mean of each block's table, shape (B,)."""
    return np.asarray(believable_counts(known.release) @ known.values / known.release.n)


def within_variance(known: Knowledge) -> float:
    """Return the variance of the values within blocks, as the table tells it."""
    count, n = believable_counts(known.release), known.release.n
    square = (count @ known.values**2).sum() - (n * block_means(known) ** 2).sum()
    return float(max(square, 0.0) / max(n.sum() - len(n), 1))


def shrunk(effect: FloatArray, n: IntArray, within: float) -> FloatArray:
    """Shrink means of blocks towards their average as far as chance explains them.

    Parameters
    ----------
    effect : (B,)
        Means of n people each, whose variance within blocks is ``within``.
    n : (B,)
    within : float

    Notes
    -----
    The variance between blocks is that of DerSimonian and Laird with weights n.
    """
    people = float(n.sum())
    average = float(effect @ n) / people
    room = people - float((n.astype(float) ** 2).sum()) / people
    if room <= 0:
        return effect
    excess = float(n @ (effect - average) ** 2) - within * (len(n) - 1)
    between = max(excess / room, 0.0)
    if between == 0:
        return np.full_like(effect, average)
    return np.asarray(average + (effect - average) * between / (between + within / n))


def public_guess(known: Knowledge, y: FloatArray, y_other: FloatArray, family: str) -> Guess:
    """Guess from the features alone, by the model that individual data of other people give."""
    guesses = []
    for X, values, of in ((known.X_other, y_other, known.X), (known.X, y, known.X_other)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            guesses.append(AggregatedGLM(family).fit(X, values).predict(of))
    return Guess("public model", guesses[0], guesses[1])
