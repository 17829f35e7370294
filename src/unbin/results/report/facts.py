"""The tables of a report, as text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbin._typing import ArrayLike, FloatArray
from unbin.estimator import AggregatedGLM
from unbin.exceptions import ParameterError
from unbin.fitting.inputs import feature_names
from unbin.fitting.summary import Coefficients
from unbin.likelihood.choice import Selection
from unbin.results.tables import MOST_TABLES, tables_of

_NONE = "–"
_MOST_NAMED = 3
"""Tables named beside a coefficient, of many."""


@dataclass(frozen=True, slots=True)
class CoefficientRow:
    """One line of the coefficient table; a dash where there is nothing to say."""

    name: str
    estimate: str
    error: str
    interval: str
    p_value: str
    held: str
    shape: str
    verdict: str
    oracle: str


@dataclass(frozen=True, slots=True)
class TableRow:
    """What a fit says of one of several tables."""

    name: str
    people: str
    blocks: str
    ratio: str
    p_value: str
    block_sd: str


@dataclass(frozen=True, slots=True)
class Told:
    """What each of several tables told: a row of shares for each coefficient."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One candidate that held-out blocks judged."""

    family: str
    alpha: str
    contextual: str
    score: str
    behind: str
    chosen: bool


def facts(model: AggregatedGLM, smallest: int) -> list[tuple[str, str]]:
    """Return what was fitted, and how; fewer people than ``smallest`` are masked."""
    found = [
        ("Family", str(model.family_)),
        ("Method", model.method_),
        ("People", people(model.n_people_, smallest)),
        ("Ridge (alpha)", f"{model.alpha_:.3g}"),
        ("Dispersion", f"{model.dispersion_:.4g}"),
    ]
    if model.method_ != "observed":
        found.insert(3, ("Blocks", f"{model.n_blocks_:,}"))
    if model.n_observed_:
        found.insert(3, ("Outcome known", people(model.n_observed_, smallest)))
    if model.method_ == "likelihood":
        found.append(("Block effects (sd)", f"{model.block_sd_:.3g}"))
    return found


def table_rows(model: AggregatedGLM, smallest: int) -> list[TableRow]:
    """Return what the fit says of each of several tables; few people outside one are masked."""
    return [
        TableRow(
            table.name,
            _people_inside(table.n_people, model.n_people_, smallest),
            f"{table.n_blocks:,}",
            f"{table.goodness_of_fit.ratio:.2f}"
            if np.isfinite(table.goodness_of_fit.ratio)
            else _NONE,
            _p_value(table.goodness_of_fit.p_value),
            f"{table.block_sd:.3g}",
        )
        for table in tables_of(model)
    ]


def told_by_table(model: AggregatedGLM) -> Told | None:
    """Return the share of each table in the information on each coefficient.

    Of many tables those that told most about each coefficient are named instead.
    """
    found = model.diagnostics_
    if found.information is None:
        return None
    features = feature_names(model)
    if len(found.tables) <= MOST_TABLES:
        rows = (tuple(map(_share, share)) for share in found.information.T)
        head = found.tables
    else:
        rows = (_most(found.tables, share) for share in found.information.T)
        head = ("most from", *["then from"] * (_MOST_NAMED - 1), "all others")
    return Told(head, tuple((name, *row) for name, row in zip(features, rows, strict=True)))


def _most(tables: tuple[str, ...], share: FloatArray) -> tuple[str, ...]:
    order = np.argsort(-share, kind="stable")[:_MOST_NAMED]
    named = [
        f"{tables[k]} ({_share(share[k])})".replace(" %", "\N{NO-BREAK SPACE}%") for k in order
    ]
    return (*named, _share(share.sum() - share[order].sum()))


def _people_inside(n: int, everybody: int, smallest: int) -> str:
    """Return the people of a table, masked if they or those outside it are few."""
    outside = everybody - n
    return f">{everybody - smallest:,}" if 0 < outside < smallest <= n else people(n, smallest)


def people(n: int, smallest: int) -> str:
    """Return a number of people, masked if small."""
    return f"<{smallest}" if n < smallest else f"{n:,}"


def coefficient_rows(
    model: AggregatedGLM, oracle: AggregatedGLM | ArrayLike | None, level: float
) -> list[CoefficientRow]:
    """Return every coefficient with what is known about it."""
    table = _coefficients(model, level)
    d = model.n_features_in_
    context = model.contextual_coef_
    n_context = 0 if context is None else int(np.isfinite(context).sum())
    first = len(table.names) - d - n_context  # 1 with an intercept
    held, shaped, seen = np.full((3, len(table.names)), np.nan)
    said, verdicts = model.diagnostics_, [_NONE] * len(table.names)
    if said.efficiency is not None:
        held[first : first + d] = said.efficiency
    if said.shape_share is not None:
        shaped[first : first + d] = said.shape_share
    if said.verdicts:
        verdicts[first : first + d] = said.verdicts
    if isinstance(oracle, AggregatedGLM):
        seen[:first], seen[first : first + d] = oracle.intercept_, oracle.coef_
    elif oracle is not None:
        seen[first : first + d] = oracle
    rows = zip(
        table.names, table.estimate, table.standard_error, table.interval(), table.p, held, shaped,
        verdicts, seen, strict=True,
    )  # fmt: skip
    return [
        CoefficientRow(
            name,
            _number(estimate),
            _number(error),
            f"{_number(low)} to {_number(high)}" if np.isfinite(error) else _NONE,
            _p_value(p),
            _share(share),
            _share(shape),
            verdict,
            _number(truth),
        )
        for name, estimate, error, (low, high), p, share, shape, verdict, truth in rows
    ]


def score_rows(selection: Selection | None) -> list[ScoreRow]:
    """Return the best candidate of each family, with and without context, and the chosen one."""
    if selection is None:
        return []
    kinds = list(zip(selection.family, selection.contextual, strict=True))
    kept = {selection.chosen}
    for kind in dict.fromkeys(kinds):
        places = [k for k, each in enumerate(kinds) if each == kind]
        kept.add(max(places, key=lambda k: selection.score[k]))
    best = float(selection.score.max())
    return [
        ScoreRow(
            selection.family[k],
            f"{selection.alpha[k]:.3g}",
            "yes" if selection.contextual[k] else "no",
            f"{selection.score[k]:.4f}",
            _behind(best - selection.score[k], selection.error[k]),
            k == selection.chosen,
        )
        for k in sorted(kept, key=lambda k: -selection.score[k])
    ]


def _coefficients(model: AggregatedGLM, level: float) -> Coefficients:
    """Return the coefficients, without errors where the method has none."""
    try:
        return model.summary(level).coefficients
    except ParameterError:
        estimate: FloatArray = np.concatenate([[model.intercept_], model.coef_])
        missing = np.full(len(estimate), np.nan)
        return Coefficients(("intercept", *feature_names(model)), estimate, missing, level)


def _share(value: float) -> str:
    return f"{100 * value:.2g} %" if np.isfinite(value) else _NONE


def _behind(gap: float, error: float) -> str:
    return "best" if gap == 0 else f"{gap:.4f} ± {error:.4f}"


def _p_value(p: float) -> str:
    if not np.isfinite(p):
        return _NONE
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else _NONE
