"""How near guesses come to the values they are of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbin._typing import BoolArray, FloatArray

EXPOSED = 0.01
"""The share of people who are called the most exposed."""
_CLOSE = 1e-9
"""Rounding of floats does not take a guess out of its 5 %."""


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
class Scale:
    """What guesses are measured with.

    Attributes
    ----------
    edges : (K + 1,)
        Of the table, in the units of the guesses.
    mean : float
        Of everybody.
    log : bool
        Whether guesses are of logs.
    """

    edges: FloatArray
    mean: float
    log: bool


def nearness(y: FloatArray, guess: FloatArray, scale: Scale) -> Nearness:
    """Measure guesses (n,) of the values y (n,)."""
    total = float(((y - scale.mean) ** 2).sum())
    value, told = (np.exp(np.minimum(v, 700.0)) if scale.log else v for v in (y, guess))
    error = np.abs(told - value)
    bins = [np.searchsorted(scale.edges, v, side="left") for v in (y, guess)]
    return Nearness(
        n=len(y),
        r2=1 - float(((y - guess) ** 2).sum()) / total if total > 0 else float("nan"),
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
    distance = np.abs(guess - without)
    some = max(1, round(share * len(guess)))
    mark = np.zeros(len(guess), dtype=bool)
    mark[np.argsort(-distance, kind="stable")[:some]] = True
    return mark
