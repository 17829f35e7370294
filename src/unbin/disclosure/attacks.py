"""What an attacker with the features reads out of a table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unbin._typing import FloatArray
from unbin.classifier import AggregatedClassifier
from unbin.disclosure.baselines import averages, block_means, shrunk
from unbin.disclosure.guesses import Guess, Knowledge, Model, by_likelihood
from unbin.disclosure.protections import believable_counts, without_noise
from unbin.disclosure.raking import raked
from unbin.estimator import AggregatedGLM
from unbin.exceptions import (
    DomainError,
    FitError,
    IdentificationWarning,
    ParameterError,
    ReleaseError,
    SpecificationWarning,
)
from unbin.families import FAMILIES, BregmanFamily, get_family
from unbin.likelihood.impute.raking import Raking
from unbin.likelihood.infer.choice import candidate_families
from unbin.release import Release
from unbin.release.join import JoinedTarget
from unbin.release.target import AggregatedTarget

ATTACKS = ("matching", "likelihood", "ridge")
"""The paper's estimator, the likelihood as it is, and with a ridge that held-out blocks choose."""
LOGIT = "logit"
"""What attackers take categories for."""
_SLOW = frozenset({"gamma"})
_STARTS = 8
"""Of matching, where there are no more blocks than coefficients: each ends elsewhere and satisfies
the table as well, so that an attacker has to take their average. One alone would be luck."""
_LEAST_BLOCKS = 10
"""Blocks from which a ridge can be chosen."""


def families_for(release: Release, families: Any) -> tuple[str, ...]:
    """Return the families an attacker would try, simplest first."""
    if release.categories:
        if not (isinstance(families, str) and families == "auto"):
            raise ParameterError(
                f"families: are of numbers, got {families!r} and a table of categories, which "
                "attackers take for a multinomial logit; leave them out"
            )
        return (LOGIT,)
    if isinstance(families, str) and families == "auto":
        found = candidate_families([release], 1)
        return tuple(family.name for family in found if family.name not in _SLOW)
    listed = isinstance(families, Iterable) and not isinstance(families, str)
    names = tuple(families) if listed else (families,)
    if not names or not all(isinstance(name, str) and name in FAMILIES for name in names):
        raise ParameterError(
            f"families: must be 'auto' or names of families, got {families!r}; use some of "
            f"{', '.join(FAMILIES)}"
        )
    return names


def attack(
    known: Knowledge,
    attacks: tuple[str, ...],
    families: tuple[str, ...],
    seed: int,
    tell: Callable[[str], None],
) -> Iterator[Guess]:
    """Yield the guesses of every attack that can be made, its name passed to ``tell`` before."""
    for kind, family in product(attacks, families):
        name = f"{kind}, {family}"
        tell(name)
        models = models_for(kind, family, len(known.release), known.X.shape[1], seed)
        tried = [_try(name, model, known) for model in models]
        guesses = [guess for guess in tried if guess is not None]
        if guesses:
            yield _average(guesses)


def models_for(kind: str, family: str, n_blocks: int, d: int, seed: int) -> Sequence[Model]:
    """Return the models to be fitted, none where an attack cannot be made."""
    if family == LOGIT:
        ridges: dict[str, float | str] = {"likelihood": 0.0, "ridge": "auto"}
        return [AggregatedClassifier(ridges[kind])] if kind in ridges else []
    if kind == "matching":
        if not isinstance(get_family(family), BregmanFamily):
            return []
        starts = 1 if n_blocks > d + 1 else _STARTS
        return [AggregatedGLM(family, "matching", random_state=seed + k) for k in range(starts)]
    if kind == "ridge":
        enough = n_blocks >= _LEAST_BLOCKS
        return [AggregatedGLM(family, alpha="held-out", random_state=seed)] if enough else []
    return [AggregatedGLM(family, alpha=0.0, random_state=seed)]


def _try(name: str, model: Model, known: Knowledge) -> Guess | None:
    """Return the guesses of a model; None where it cannot be fitted to the table."""
    target = known.target if by_likelihood(model) else _exact(known.target)
    if not fitted(model, known.X, target):
        return None
    guess = _guess(name, model, known)
    return guess if guess.finite else None


def fitted(model: Model, X: FloatArray, target: AggregatedTarget | JoinedTarget) -> bool:
    """Fit a model, and tell whether that was possible."""
    try:
        with warnings.catch_warnings():  # an attacker tries anyway
            warnings.simplefilter("ignore", IdentificationWarning)
            warnings.simplefilter("ignore", SpecificationWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, target)
    except (DomainError, ParameterError, ReleaseError, FitError):
        return False  # another family's table, or a fit that diverged: no attack
    return True


def _average(guesses: list[Guess]) -> Guess:
    """Return the average of guesses among which nothing chooses."""
    table, other = (
        np.mean([getattr(guess, side) for guess in guesses], axis=0) for side in ("table", "other")
    )
    return replace(guesses[0], table=table, other=other)


def _exact(target: AggregatedTarget) -> AggregatedTarget:
    return target.with_release(without_noise(target.release))


def _guess(name: str, model: Model, known: Knowledge) -> Guess:
    """Return imputed values, and means moved by what the table says of their block."""
    blocks, codes = block_means(known), known.target.codes
    n = blocks.n
    expected, other = (mean_of(model, X, known) for X in (known.X, known.X_other))
    if known.release.noise_sd > 0 and by_likelihood(model):
        # noisy counts are not met by imputed values
        effect = blocks.mean - averages(expected, codes, len(n))
        centre = blocks.pooled - expected.mean(axis=0)
        table = expected + shrunk(effect, blocks.noise, centre, blocks.total)[codes]
    else:
        table = _imputed(model, known)
        effect = averages(table - expected, codes, len(n))
        centre = (table - expected).mean(axis=0)
    moved = shrunk(effect, blocks.chance, centre, blocks.total)
    return Guess(name, table, other + moved[known.codes_other], model, score_of(model))


def score_of(model: Model) -> float:
    """Return what an attacker without the truth chooses a likelihood by; larger is better.

    Of categories there is nothing to choose by: a ridge is taken where there is one.
    """
    if isinstance(model, AggregatedClassifier):
        return float("nan")
    selection = model.selection_
    return float(-model.objective_ if selection is None else selection.score[selection.chosen])


def mean_of(model: Model, X: FloatArray, known: Knowledge) -> FloatArray:
    """Return the mean of people with features X; an ordinal fit takes the known values of bins."""
    if isinstance(model, AggregatedClassifier):
        return model.predict_proba(X)
    if model.family_ != "ordinal":
        return model.predict(X)
    return np.asarray(model.predict_proba(X) @ _values_between(model.bin_edges_, known))


def _imputed(model: Model, known: Knowledge) -> FloatArray:
    """Return the imputed targets; those of an ordinal fit, by the known values of bins."""
    if isinstance(model, AggregatedClassifier):
        return raked(model.predict_proba(known.X), [known])
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


def attackers_choice(guesses: Iterable[Guess], n_bins: int) -> Guess | None:
    """Return the likelihood that the table itself supports most, None where there is none.

    The score is that of held-out blocks where some were used. Two bins do not identify the scale of
    any family, but the means of the bins do.
    """
    pairs = [(guess, guess.model) for guess in guesses if guess.model is not None]
    found = [(guess, model) for guess, model in pairs if by_likelihood(model)]
    found = [(guess, model) for guess, model in found if isinstance(model.alpha, str)] or found
    if n_bins <= 2:
        ordinal = [pair for pair in found if getattr(pair[1], "family", None) == "ordinal"]
        found = ordinal or found
    return max((guess for guess, _ in found), key=lambda guess: guess.score, default=None)
