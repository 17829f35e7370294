"""The figures of a fit, the file they are stored in, and how far others are from them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import unbin

STORED = Path(__file__).parent / "fits.json"
TOLERANCE = 1e-6
"""Standard errors that a coefficient may move, and share of itself that a standard error may.

All cases are as sharp: other orders of the rows, and features moved by 1e-12, leave them as they
are to the twelve digits that are stored; other starts move those of one table by at most 1e-8."""
REST = 1e-5
"""Share of itself that any other figure may move before it is named."""
JUDGED = ("converged", "identified", "trusted", "verdicts")
FIVE = np.random.default_rng(0).normal(size=(5, 10))
"""People whose outcome is predicted, with as many features as a fit may have."""
_LEAST = {"q_p": 1e-3, "shape_p": 1e-3, "context_p": 1e-3, "extension_p": 1e-3}
"""p values below this differ by as much of it as by themselves."""

Figures = dict[str, Any]
Stored = dict[str, dict[str, Figures]]


def figures_of(model: unbin.AggregatedGLM) -> Figures:
    """Return what is stored of a fit."""
    fit, told = model._fits[0], model.diagnostics_
    goodness, tidy = told.goodness_of_fit, model.tidy()
    terms = zip(tidy["term"], tidy["estimate"], tidy["std_error"], strict=True)
    offset = {"offset": 0.0} if model._has_offset else {}
    five = FIVE[:, : model.n_features_in_]
    if hasattr(model, "feature_names_in_"):
        five = pd.DataFrame(five, columns=model.feature_names_in_)
    found = {
        "terms": {term: [estimate, error] for term, estimate, error in terms},
        "intercept": model.intercept_,
        "thresholds": getattr(model, "thresholds_", []),
        "covariance_sum": model.cov_params().sum(),
        "errors": fit.errors.value,
        "df_residual": fit.df_residual,
        "dispersion": model.dispersion_,
        "block_sd": model.block_sd_,
        "alpha": model.alpha_,
        "objective": model.objective_,
        "coef": model.coef_,
        "predicted": model.predict(five, **offset),
        "converged": model.status_.converged,
        "identified": told.identified,
        "trusted": told.trusted,
        "verdicts": told.verdicts,
        "q": goodness.ratio,
        "q_df": goodness.df,
        "q_p": goodness.p_value,
        "shape_p": None if told.shape is None else told.shape.p_value,
        "context_p": None if told.context is None else told.context.p_value,
        "extensions": len(told.extensions),
        "extension_p": min((each.p_value for each in told.extensions), default=None),
        "tables": [[each.block_sd, each.goodness_of_fit.ratio] for each in model.tables_],
    }
    return plain(found)


def plain(value: Any) -> Any:
    """Return a value as JSON has it: twelve digits, and what is not finite as text."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(each) for each in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    return float(f"{value:.12g}") if np.isfinite(value) else str(float(value))


def read() -> Stored:
    """Return what is stored, by the number of tables ("one" or "several") and the case."""
    return json.loads(STORED.read_text(encoding="utf-8"))


def write(stored: Stored) -> None:
    """Store figures, a case to a line."""
    parts = []
    for kind, cases in sorted(stored.items()):
        lines = [f'  "{name}": {json.dumps(cases[name], sort_keys=True)}' for name in sorted(cases)]
        parts.append(f' "{kind}": {{\n' + ",\n".join(lines) + "\n }")
    STORED.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


@dataclass(frozen=True)
class Moves:
    """How far a fit is from what is stored of it.

    Attributes
    ----------
    coef : float
        The largest move of a coefficient, the intercept included, in stored standard errors.
    error : float
        The largest change of a standard error, as a share of it.
    judged : dict of name to (stored, found)
        What is judged otherwise.
    rest : dict of name to (stored, found)
        Other figures that moved.
    """

    coef: float
    error: float
    judged: dict[str, tuple[Any, Any]]
    rest: dict[str, tuple[Any, Any]]

    @property
    def any(self) -> bool:
        """Whether a test objects."""
        return bool(self.judged) or not max(self.coef, self.error) <= TOLERANCE


def moves(stored: Figures, found: Figures) -> Moves:
    """Compare a fit with what is stored of it; other terms are infinitely far."""
    coef = error = np.inf
    if stored["terms"].keys() == found["terms"].keys():
        pairs = ([each["terms"][term] for term in stored["terms"]] for each in (stored, found))
        old, new = (np.array(pair, dtype=float) for pair in pairs)
        coef = farthest(old[:, 0], new[:, 0], np.where(old[:, 1] > 0, old[:, 1], np.abs(old[:, 0])))
        error = farthest(old[:, 1], new[:, 1], old[:, 1])
    changed = {
        name: (stored.get(name), found.get(name))
        for name in sorted(stored.keys() | found.keys())
        if name != "terms" and not near(name, stored.get(name), found.get(name))
    }
    judged = {name: changed.pop(name) for name in JUDGED if name in changed}
    return Moves(coef, error, judged, changed)


def near(name: str, old: Any, new: Any) -> bool:
    """Tell whether a figure, or a list of them, is what it was."""
    if old is None or new is None:
        return old is new
    try:
        was, now = np.asarray(old, dtype=float), np.asarray(new, dtype=float)
    except ValueError:  # text
        return bool(old == new)
    if name in JUDGED or was.shape != now.shape:
        return bool(old == new)
    scale = np.maximum(np.abs(was).max(initial=0.0), _LEAST.get(name, 1e-12))
    return farthest(was.ravel(), now.ravel(), np.full(was.size, scale)) <= REST


def farthest(old: np.ndarray, new: np.ndarray, scale: np.ndarray) -> float:
    """Return the largest move on a scale; what is not finite must stay as it is."""
    same = (old == new) | (np.isnan(old) & np.isnan(new))
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.where(same, 0.0, np.abs(new - old) / scale)
    return float(np.nan_to_num(moved, nan=np.inf).max(initial=0.0))
