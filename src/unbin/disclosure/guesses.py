"""Guesses of everybody's value: by an attacker with the features, and without them.

All guesses are told apart by whom they are about. People in the table: the released table counts
them, and an imputed value takes that into account. People held out: they live in a block whose
table counts others; they get what the model says of their features, moved by what the table says of
their block as far as blocks are seen to differ.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unbin.choice import candidate_families
from unbin.disclosure.protections import believable_counts, without_noise
from unbin.estimator import AggregatedGLM
from unbin.exceptions import IdentificationWarning, ParameterError, UnbinError
from unbin.families import FAMILIES, BregmanFamily, get_family
from unbin.likelihood.raking import Raking
from unbin.predictions import bin_probabilities
from unbin.release import Release
from unbin.target import AggregatedTarget
from unbin.typing import FloatArray, IntArray

ATTACKS = ("matching", "likelihood", "ridge")
"""The paper's estimator, the likelihood as it is, and with a ridge that held-out blocks choose."""
_SLOW = frozenset({"gamma"})
_LEAST_BLOCKS = 10
"""Blocks from which a ridge can be chosen."""


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
    values : (K,)
        The mean of each bin over everybody, which surveys tell.
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
    table : (n,)
        Of the people in the table.
    other : (m,)
        Of the people held out.
    model : AggregatedGLM or None
        What made them.
    score : float
        By which an attacker without the truth would choose among likelihoods: larger is better.
    """

    name: str
    table: FloatArray
    other: FloatArray
    model: AggregatedGLM | None = None
    score: float = float("nan")


def bin_values(y: FloatArray, edges: FloatArray) -> FloatArray:
    """Return the mean of the values in each bin; of an empty bin its middle, or its finite end."""
    place = np.searchsorted(edges, y, side="left") - 1
    count = np.bincount(place, minlength=len(edges) - 1)
    total = np.bincount(place, weights=y, minlength=len(edges) - 1)
    ends = np.column_stack([edges[:-1], edges[1:]])
    ends = np.where(np.isfinite(ends), ends, ends[:, ::-1])
    middle = np.where(np.isfinite(ends).all(axis=1), ends.mean(axis=1), y.mean())
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), middle))


# -- without features ------------------------------------------------------------------------------


def pooled_guess(known: Knowledge) -> Guess:
    """Guess the mean of the table of everybody."""
    mean = float(_block_means(known) @ known.release.n / known.release.n.sum())
    return Guess("pooled histogram", np.full(len(known.X), mean), np.full(len(known.X_other), mean))


def block_guess(known: Knowledge) -> Guess:
    """Guess the mean of the block's table; others get it as far as blocks are seen to differ."""
    means, n = _block_means(known), known.release.n
    pooled = float(means @ n / n.sum())
    moved = pooled + shrunk(means - pooled, n, _within_variance(known))
    return Guess("block histogram", means[known.target.codes], moved[known.codes_other])


def _block_means(known: Knowledge) -> FloatArray:
    return np.asarray(believable_counts(known.release) @ known.values / known.release.n)


def _within_variance(known: Knowledge) -> float:
    """Return the variance of the values within blocks, as the table tells it."""
    count, n = believable_counts(known.release), known.release.n
    square = (count @ known.values**2).sum() - (n * _block_means(known) ** 2).sum()
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


# -- with features ---------------------------------------------------------------------------------


def families_for(release: Release, families: object) -> tuple[str, ...]:
    """Return the families an attacker would try, simplest first."""
    if isinstance(families, str) and families == "auto":
        found = candidate_families(release, 1)
        return tuple(family.name for family in found if family.name not in _SLOW)
    names = (families,) if isinstance(families, str) else tuple(families)  # type: ignore[arg-type]
    unknown = [name for name in names if name not in FAMILIES]
    if unknown or not names:
        raise ParameterError(
            f"families: must be 'auto' or names of families, got {families!r}; use some of "
            f"{', '.join(FAMILIES)}"
        )
    return names


def attack(
    known: Knowledge, attacks: tuple[str, ...], families: tuple[str, ...], seed: int
) -> Iterator[Guess]:
    """Yield the guesses of every attack that can be made."""
    for name in attacks:
        for family in families:
            model = _model(name, family, known, seed)
            if model is None:
                continue
            exact = name == "matching"
            target = _exact(known.target) if exact else known.target
            try:
                with warnings.catch_warnings():  # an attacker tries anyway
                    warnings.simplefilter("ignore", IdentificationWarning)
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model.fit(known.X, target)
            except UnbinError:
                continue  # a family that cannot have produced this table
            guess = _guess(f"{name}, {family}", model, known)
            if np.isfinite(guess.table).all() and np.isfinite(guess.other).all():
                yield guess


def _model(name: str, family: str, known: Knowledge, seed: int) -> AggregatedGLM | None:
    if name == "matching":
        bregman = isinstance(get_family(family), BregmanFamily)
        return AggregatedGLM(family, "matching", random_state=seed) if bregman else None
    if name == "ridge":
        if len(known.release) < _LEAST_BLOCKS:
            return None
        return AggregatedGLM(family, alpha="auto", random_state=seed)
    return AggregatedGLM(family, random_state=seed)


def _exact(target: AggregatedTarget) -> AggregatedTarget:
    return AggregatedTarget(without_noise(target.release), target.codes)


def _guess(name: str, model: AggregatedGLM, known: Knowledge) -> Guess:
    table = _imputed(model, known)
    expected, other = (mean_of(model, X, known) for X in (known.X, known.X_other))
    n, codes = known.release.n, known.target.codes
    effect = np.bincount(codes, weights=table - expected, minlength=len(n)) / n
    moved = shrunk(effect, n, _within_variance(known))
    selection = model.selection_
    score = -model.objective_ if selection is None else selection.score[selection.chosen]
    return Guess(name, table, other + moved[known.codes_other], model, float(score))


def mean_of(model: AggregatedGLM, X: FloatArray, known: Knowledge) -> FloatArray:
    """Return the mean of people with features X; an ordinal fit takes the known values of bins."""
    if model.family_ != "ordinal":
        return model.predict(X)
    fit = model._fits[0]
    return np.asarray(bin_probabilities(fit, fit.eta(X)) @ _values_between(model.bin_edges_, known))


def _imputed(model: AggregatedGLM, known: Knowledge) -> FloatArray:
    if model.family_ != "ordinal":
        return model.impute()
    raking = model._fits[0].imputed
    assert isinstance(raking, Raking)
    return np.asarray(raking.shares() @ _values_between(model.bin_edges_, known))


def _values_between(edges: FloatArray, known: Knowledge) -> FloatArray:
    """Return the values of the bins of a fit, which may have merged some of the table's."""
    inner = np.searchsorted(known.edges, edges[1:-1])
    first = np.concatenate([[0], inner, [len(known.values)]])
    count = believable_counts(known.release).sum(axis=0) + 1e-9
    weight = np.add.reduceat(count, first[:-1])
    return np.asarray(np.add.reduceat(count * known.values, first[:-1]) / weight)
