"""What an honest analyst still learns from a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from unbin._typing import FloatArray
from unbin.classifier import AggregatedClassifier
from unbin.disclosure.attacks import LOGIT, mean_of
from unbin.disclosure.guesses import Guess, Knowledge, Model, by_likelihood


@dataclass(frozen=True, slots=True)
class Utility:
    """What an honest analyst learns.

    Attributes
    ----------
    coefficient_error : float
        Distance of the analyst's coefficients from those of individual data, over the length of the
        latter, features standardised: 0 is the same, 1 as far off as no coefficients at all.
    value : float
        1 less the error, at least 0.
    efficiency : float
        Median, over coefficients, of the share of individual data's information that the table
        holds, as the fit itself says.
    family : str
        Of the analyst's fit.
    identified : bool
        Whether that fit says that its coefficients can be relied on.
    """

    coefficient_error: float
    value: float
    efficiency: float
    family: str
    identified: bool


def measure_utility(known: Knowledge, y: FloatArray, guesses: Iterable[Guess]) -> Utility:
    """Compare analysts' likelihood fits with individual data, and return the best.

    Which is best only the steward knows, as with attacks. The coefficients are those of the linear
    regression, of the fitted means and of the values themselves, so that fits of every family are
    compared in the same units; of categories, those of all of their indicators.

    Parameters
    ----------
    known : Knowledge
    y : (n,), or (n, K) of categories
        Values of the people in the table.
    guesses : iterable of Guess
        Those of matching are passed over: an analyst wants standard errors.
    """
    models = [guess.model for guess in guesses if guess.model is not None]
    found = [_utility(model, known, y) for model in models if by_likelihood(model)]
    nothing = Utility(float("nan"), 0.0, float("nan"), "", identified=False)
    return max(found, key=lambda each: each.value, default=nothing)


def _utility(model: Model, known: Knowledge, y: FloatArray) -> Utility:
    mean = mean_of(model, known.X, known)
    effects = linear_effects(known.X, np.column_stack([mean, y]))
    found, wanted = np.split(effects, 2, axis=1)
    size = float(np.linalg.norm(wanted))
    error = float(np.linalg.norm(found - wanted)) / size if size > 0 else float("nan")
    shares = model.diagnostics_.efficiency
    return Utility(
        coefficient_error=error,
        value=max(1 - error, 0.0) if np.isfinite(error) else 0.0,
        efficiency=float("nan") if shares is None else float(np.median(shares)),
        family=LOGIT if isinstance(model, AggregatedClassifier) else str(model.family_),
        identified=bool(model.diagnostics_.identified),
    )


def linear_effects(X: FloatArray, y: FloatArray) -> FloatArray:
    """Return the coefficients (d, m) of y (n, m) on the standardised columns of X."""
    centred = X - X.mean(axis=0)
    scale = centred.std(axis=0)
    used = scale > 1e-12 * max(float(scale.max(initial=0.0)), 1e-300)
    result = np.zeros((X.shape[1], y.shape[1]))
    standard = centred[:, used] / scale[used]
    result[used] = np.linalg.lstsq(standard, y - y.mean(axis=0), rcond=1e-10)[0]
    return result
