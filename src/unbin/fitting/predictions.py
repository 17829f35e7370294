"""Means, probabilities and scores from a fit."""

from __future__ import annotations

import numpy as np

from unbin._typing import FloatArray
from unbin.exceptions import ParameterError
from unbin.families import BregmanFamily
from unbin.fitting.model import Fit
from unbin.likelihood.heldout import log_scores, over_effects
from unbin.matching.fit import release_divergence
from unbin.release.target import AggregatedTarget
from unbin.rows.design import lay_out


def predict_mean(fit: Fit, eta: FloatArray) -> FloatArray:
    """Return the mean of the modelled target; an ordinal fit averages the values of its bins."""
    if fit.bins is None:
        return over_effects(fit.family.inverse_link, eta, fit.block_sd)
    return np.asarray(bin_probabilities(fit, eta) @ fit.bins.value)


def bin_probabilities(fit: Fit, eta: FloatArray) -> FloatArray:
    """Return the probability of each bin of an ordinal fit, shape (n, K)."""
    if fit.bins is None:
        raise ParameterError("predict_proba: needs family='ordinal'")
    bins = fit.bins
    return over_effects(
        lambda at: fit.family.bins(at, bins.lower, bins.upper, bins.thresholds).probability,
        eta,
        fit.block_sd,
    )


def score_target(fit: Fit, method: str, y: AggregatedTarget | FloatArray, eta: FloatArray) -> float:
    """Return the score of a prediction; see ``AggregatedGLM.score``."""
    if not isinstance(y, AggregatedTarget):
        return _explained(fit, y, eta)
    family = fit.family
    design = lay_out(np.empty((len(eta), 0)), y.codes, len(y.release))
    laid_out = eta[design.order]
    if method == "matching":
        assert isinstance(family, BregmanFamily)
        return -release_divergence(y.release, family, design, laid_out)
    edges = None if fit.bins is None else (fit.bins.lower, fit.bins.upper)
    nuisance = fit.nuisance if fit.bins is None else fit.bins.thresholds
    scores = log_scores(
        y.release, family, laid_out, design.start, nuisance, edges=edges, block_sd=fit.block_sd
    )
    return float(scores.sum() / len(eta))


def _explained(fit: Fit, y: FloatArray, eta: FloatArray) -> float:
    """Return D², or R² where the family has no divergence."""
    family, mean = fit.family, predict_mean(fit, eta)
    if isinstance(family, BregmanFamily):
        null = float(family.divergence(y, np.full_like(y, y.mean())).sum())
        error = family.total_divergence(y, eta, mean)
    else:
        null, error = float(((y - y.mean()) ** 2).sum()), float(((y - mean) ** 2).sum())
    return 1.0 - error / null if null > 0 else float(error == 0)
