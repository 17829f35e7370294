"""Guesses of everybody's value: by an attacker with the features, and without them.

Guesses differ by whom they are about. People in the table: the released table counts
them, and an imputed value takes that into account. People held out: they live in a block whose
table counts others; they get what the model says of their features, moved by what the table says of
their block as far as blocks are seen to differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbin._typing import FloatArray, IntArray
from unbin.classifier import AggregatedClassifier
from unbin.estimator import AggregatedGLM
from unbin.release import Release
from unbin.release.target import AggregatedTarget

Model = AggregatedGLM | AggregatedClassifier
BLOCK_HISTOGRAM = "block histogram"
"""What anybody guesses who knows a person's block and no features."""
RAKED_HISTOGRAMS = "block histograms raked"
"""What is guessed from the blocks that a person has in several tables, without features."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What an attacker has.

    Attributes
    ----------
    X : (n, d)
        Features of the people in the table.
    X_other : (m, d)
        Features of people who are not.
    target : AggregatedTarget
        The table as published, tied to the rows of X.
    codes_other : (m,)
        Blocks of the others, as places in the release.
    edges : (K + 1,)
        None of categories.
    values : (K,), or (K, K) of categories
        The mean of each bin over everybody, which is known from surveys; of categories their
        indicators, so that the mean of a block is its shares.
    """

    X: FloatArray
    X_other: FloatArray
    target: AggregatedTarget
    codes_other: IntArray
    edges: FloatArray
    values: FloatArray

    @property
    def release(self) -> Release:
        """Return the table."""
        return self.target.release


@dataclass(frozen=True, slots=True)
class Guess:
    """Guesses of one attack.

    Attributes
    ----------
    name : str
    table : (n,), or (n, K) of categories
        Of the people in the table.
    other : (m,), or (m, K)
        Of the people held out.
    model : AggregatedGLM, AggregatedClassifier or None
        What made them.
    score : float
        By which an attacker without the truth would choose among likelihoods: larger is better.
    uses_features : bool
        False for what is read in tables alone.
    """

    name: str
    table: FloatArray
    other: FloatArray
    model: Model | None = None
    score: float = float("nan")
    uses_features: bool = True

    @property
    def finite(self) -> bool:
        """Whether every guess is a number."""
        return bool(np.isfinite(self.table).all() and np.isfinite(self.other).all())


def by_likelihood(model: Model | None) -> bool:
    """Whether a fit has standard errors and weighs what each block tells; matching does not."""
    return isinstance(model, AggregatedClassifier) or (
        model is not None and model.method == "likelihood"
    )


def bin_values(y: FloatArray, edges: FloatArray) -> FloatArray:
    """Return the mean of the values in each bin; of an empty bin its middle, or its finite end."""
    place = np.searchsorted(edges, y, side="left") - 1
    count = np.bincount(place, minlength=len(edges) - 1)
    total = np.bincount(place, weights=y, minlength=len(edges) - 1)
    ends = np.column_stack([edges[:-1], edges[1:]])
    ends = np.where(np.isfinite(ends), ends, ends[:, ::-1])
    middle = np.where(np.isfinite(ends).all(axis=1), ends.mean(axis=1), y.mean())
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), middle))
