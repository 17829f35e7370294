"""What an attacker with the features reads out of a table."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unbin.choice import candidate_families
from unbin.disclosure.baselines import shrunk, within_variance
from unbin.disclosure.guesses import Guess, Knowledge
from unbin.disclosure.protections import believable_counts, without_noise
from unbin.estimator import AggregatedGLM
from unbin.exceptions import IdentificationWarning, ParameterError, UnbinError
from unbin.families import FAMILIES, BregmanFamily, get_family
from unbin.likelihood.raking import Raking
from unbin.predictions import bin_probabilities
from unbin.release import Release
from unbin.target import AggregatedTarget
from unbin.typing import FloatArray

ATTACKS = ("matching", "likelihood", "ridge")
"""The paper's estimator, the likelihood as it is, and with a ridge that held-out blocks choose."""
_SLOW = frozenset({"gamma"})
_LEAST_BLOCKS = 10
"""Blocks from which a ridge can be chosen."""


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
    moved = shrunk(effect, n, within_variance(known))
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
