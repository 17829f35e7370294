"""Means, probabilities and scores from a fit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from unbin._typing import FloatArray
from unbin.exceptions import ParameterError, ReleaseError
from unbin.families import BregmanFamily, Family
from unbin.fitting.model import BinScale, Fit
from unbin.likelihood.infer.heldout import log_scores
from unbin.matching.fit import release_divergence
from unbin.matching.repeated import total_divergence
from unbin.release.target import AggregatedTarget
from unbin.rows.design import Design, lay_out


def predict_mean(fit: Fit, eta: FloatArray) -> FloatArray:
    """Return the mean of the modelled target.

    An ordinal fit reads targets off its latent variable (:mod:`unbin.families.latent`), or averages
    the values of its bins where there are few.
    """
    if fit.bins is None:
        return fit.over_effects(fit.family.inverse_link, eta)
    scale = fit.bins.scale()
    if scale is None:
        return np.asarray(bin_probabilities(fit, eta) @ fit.bins.value)
    share = partial(_bin_shares, fit.family, fit.bins)
    return fit.over_effects(lambda at: scale.mean(at, share), eta)


def bin_probabilities(fit: Fit, eta: FloatArray) -> FloatArray:
    """Return the probability of each bin of an ordinal fit, shape (n, K)."""
    if fit.bins is None:
        raise ParameterError("predict_proba: needs family='ordinal'")
    return fit.over_effects(partial(_bin_shares, fit.family, fit.bins), eta)


def _bin_shares(family: Family, bins: BinScale, eta: FloatArray) -> FloatArray:
    return family.bins(eta, bins.lower, bins.upper, bins.thresholds).probability


def score_target(
    fit: Fit,
    method: str,
    y: Sequence[AggregatedTarget] | FloatArray,
    eta: FloatArray,
    weights: FloatArray | None = None,
) -> float:
    """Return the score of a prediction; see ``AggregatedGLM.score``.

    ``weights`` are those of observed targets.
    """
    if isinstance(y, np.ndarray):
        return _explained(fit, y, eta, weights)
    if method == "matching":
        assert isinstance(fit.family, BregmanFamily)
        if len(y) > 1:
            raise ParameterError(
                f"score: matching takes one table, got {len(y)} of the same people; score them one "
                "by one"
            )
        design, laid_out = lay_out_eta(y[0], eta)
        return -release_divergence(y[0].release, fit.family, design, laid_out)
    scores = np.concatenate([_log_scores(fit, table, eta) for table in y])
    people, known = np.concatenate([table.release.n for table in y]), np.isfinite(scores)
    if not known.any():
        raise ReleaseError(
            "score: the log score is one of counts, got tables without any; publish a histogram"
        )
    return float(scores[known].sum() / people[known].sum())


def lay_out_eta(table: AggregatedTarget, eta: FloatArray) -> tuple[Design, FloatArray]:
    """Return rows without features by the blocks of a table, and their linear predictor."""
    people = table.weights
    design = lay_out(
        np.empty((len(eta), 0)),
        table.codes,
        len(table.release),
        weights=None if people is None else people.values,
        sampled=people is not None and people.sampled,
    )
    return design, eta[design.order]


def _log_scores(fit: Fit, table: AggregatedTarget, eta: FloatArray) -> FloatArray:
    """Return the log score of each block's counts, NaN where there are none."""
    design, laid_out = lay_out_eta(table, eta)
    edges = None if fit.bins is None else (fit.bins.lower, fit.bins.upper)
    nuisance = fit.nuisance if fit.bins is None else fit.bins.thresholds
    return log_scores(
        table.release,
        fit.family,
        laid_out,
        design.start,
        nuisance,
        edges=edges,
        average=fit.over_effects,
        weights=design.in_memory().weights,
    )


def _explained(fit: Fit, y: FloatArray, eta: FloatArray, weights: FloatArray | None) -> float:
    """Return D², or R² where the family has no divergence."""
    family, mean = fit.family, predict_mean(fit, eta)
    people = np.ones(len(y)) if weights is None else weights
    average = np.full_like(y, np.average(y, weights=weights))
    if isinstance(family, BregmanFamily):
        null = float(people @ family.divergence(y, average))
        error = total_divergence(family, y, eta, mean, weights)
    else:
        null, error = float(people @ (y - average) ** 2), float(people @ (y - mean) ** 2)
    return 1.0 - error / null if null > 0 else float(error == 0)
