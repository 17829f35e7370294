"""How near guesses come to the values they are of.

Values are numbers (n,), or categories as indicators (n, K), of which guesses are probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbin._typing import BoolArray, FloatArray

EXPOSED = 0.01
"""The share of people who are called the most exposed."""
SURE = 0.95
"""Probability from which a category is called known."""
_CLOSE = 1e-9
"""Rounding of floats does not take a guess out of its 5 %."""


def squared_error(y: FloatArray, guess: FloatArray | float) -> FloatArray:
    """Return the squared error of guesses (…, n), or (…, n, K) of categories: the Brier score."""
    square = (y - guess) ** 2
    return square if y.ndim == 1 else np.asarray(square.sum(axis=-1))


def as_probabilities(guess: FloatArray) -> FloatArray:
    """Return guesses (…, n, K) of categories, which may lie outside 0 and 1, as probabilities."""
    positive = np.maximum(guess, 0.0)
    return np.asarray(positive / positive.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near guesses come.

    Attributes
    ----------
    n : int
        People.
    r2 : float
        Share of the variance of the value (of its log, where that is modelled) explained; negative
        where the mean of everybody would have been nearer.
    mae : float
        Mean absolute error, in the units of the value.
    within_5, within_10 : float
        Share of people whose guess is within 5 % and 10 % of their value.
    within_bin : float
        Share of people whose guess lies in their bin or in one next to it.
    """

    n: int
    r2: float
    mae: float
    within_5: float
    within_10: float
    within_bin: float


@dataclass(frozen=True, slots=True)
class Hits:
    """How often guesses of categories are right.

    Attributes
    ----------
    n : int
        People.
    r2 : float
        1 less the Brier score over that of everybody's shares.
    right : float
        Share of people whose category is the most likely one.
    sure : float
        Share of people whose category is told with a probability of at least 0.95.
    """

    n: int
    r2: float
    right: float
    sure: float


@dataclass(frozen=True, slots=True)
class Scale:
    """What guesses are measured with.

    Attributes
    ----------
    edges : (K + 1,)
        Of the table, in the units of the guesses; none of categories.
    mean : float, or (K,) of categories
        Of everybody.
    log : bool
        Whether guesses are of logs.
    """

    edges: FloatArray
    mean: float | FloatArray
    log: bool


def nearness(y: FloatArray, guess: FloatArray, scale: Scale) -> Nearness | Hits:
    """Measure guesses of the values y, (n,), or (n, K) of categories."""
    total = float(squared_error(y, scale.mean).sum())
    r2 = 1 - float(squared_error(y, guess).sum()) / total if total > 0 else float("nan")
    if y.ndim == 2:
        return Hits(
            n=len(y),
            r2=r2,
            right=float((y.argmax(axis=1) == guess.argmax(axis=1)).mean()),
            sure=float(((y * guess).sum(axis=1) >= SURE).mean()),
        )
    value, told = (np.exp(np.minimum(v, 700.0)) if scale.log else v for v in (y, guess))
    error = np.abs(told - value)
    bins = [np.searchsorted(scale.edges, v, side="left") for v in (y, guess)]
    return Nearness(
        n=len(y),
        r2=r2,
        mae=float(error.mean()),
        within_5=float((error <= (0.05 + _CLOSE) * np.abs(value)).mean()),
        within_10=float((error <= (0.1 + _CLOSE) * np.abs(value)).mean()),
        within_bin=float((np.abs(bins[0] - bins[1]) <= 1).mean()),
    )


def most_exposed(guess: FloatArray, without: FloatArray, share: float = EXPOSED) -> BoolArray:
    """Mark the people about whom the features reveal most to an attacker, shape (n,).

    They are those whose guess lies farthest from the guess without features: an attacker can single
    them out without knowing anybody's value.
    """
    distance = squared_error(guess, without)
    some = max(1, round(share * len(guess)))
    mark = np.zeros(len(guess), dtype=bool)
    mark[np.argsort(-distance, kind="stable")[:some]] = True
    return mark
