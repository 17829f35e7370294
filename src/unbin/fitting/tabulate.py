"""A fit as tables: coefficients, a summary, one row."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbin._checks import check_share
from unbin._typing import FloatArray
from unbin.exceptions import ParameterError
from unbin.fitting.model import Fit
from unbin.fitting.summary import Coefficients, Summary


def covariance_of(fit: Fit) -> FloatArray:
    """Return the covariance of intercept and coefficients; raise where there is none."""
    if fit.covariance is None:
        raise ParameterError(
            "standard errors: matching has none, because it treats imputed targets as observed; "
            "use method='likelihood'"
        )
    return fit.covariance


def tabulate(fit: Fit, features: list[str], level: float) -> Coefficients:
    """Return intercept, slopes and contextual effects with their standard errors."""
    check_share("level", level)
    errors = np.sqrt(np.diag(covariance_of(fit)))
    d = len(features)
    names, estimate, error = features, fit.coef, errors[1 : 1 + d]
    if fit.contextual_coef is not None and fit.context is not None:
        used = fit.context.used
        names = names + [f"block mean of {features[j]}" for j in np.flatnonzero(used)]
        estimate = np.concatenate([estimate, fit.contextual_coef[used]])
        error = np.concatenate([error, errors[1 + d :]])
    if fit.bins is None and errors[0] > 0:
        names = ["intercept", *names]
        estimate = np.concatenate([[fit.intercept], estimate])
        error = np.concatenate([errors[:1], error])
    return Coefficients(tuple(names), estimate, error, level)


def summarise(fit: Fit, features: list[str], method: str, level: float) -> Summary:
    """Return the summary of a fit."""
    facts = (
        ("Family:", fit.family.name),
        ("People:", f"{fit.n_people:,}"),
        ("Method:", method),
        ("Blocks:", f"{fit.n_blocks:,}"),
        ("Alpha:", f"{fit.alpha:.3g}"),
        ("Dispersion:", f"{fit.dispersion:.4g}"),
        ("Block effects sd:", f"{fit.block_sd:.3g}"),
        ("Objective:", f"{fit.objective:.5g}"),
    )
    notes = [f"Status: {fit.status.value}"]
    notes += [note for note in fit.diagnostics.sentences() if note != fit.status.value]
    notes += _efficiency(fit.diagnostics.efficiency, features)
    return Summary("Aggregated GLM", facts, tabulate(fit, features, level), tuple(notes))


def glance(fit: Fit, method: str) -> dict[str, Any]:
    """Return a fit as columns of one row."""
    goodness = fit.diagnostics.goodness_of_fit
    return {
        "family": [fit.family.name],
        "method": [method],
        "n_people": [fit.n_people],
        "n_blocks": [fit.n_blocks],
        "alpha": [fit.alpha],
        "dispersion": [fit.dispersion],
        "objective": [fit.objective],
        "q_over_df": [float("nan") if goodness is None else goodness.ratio],
        "p_value": [float("nan") if goodness is None else goodness.p_value],
        "identified": [fit.diagnostics.identified],
    }


def _efficiency(efficiency: FloatArray | None, features: list[str]) -> list[str]:
    """State the relative efficiency of the release, at worst and at best."""
    if efficiency is None or not np.isfinite(efficiency).all():
        return []
    worst, best = int(np.argmin(efficiency)), int(np.argmax(efficiency))
    text = f"The release holds {_percent(efficiency[worst])} of what individual data would say "
    text += f"about {features[worst]}"
    if best != worst:
        text += f", and {_percent(efficiency[best])} about {features[best]}"
    return [text + "."]


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
