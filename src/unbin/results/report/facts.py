"""The tables of a report, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbin._typing import ArrayLike, FloatArray
from unbin.estimator import AggregatedGLM
from unbin.exceptions import ParameterError
from unbin.families import get_family
from unbin.fitting.inputs import feature_names
from unbin.fitting.summary import Coefficients
from unbin.fitting.tabulate import covariance_text
from unbin.likelihood.infer.choice import Selection
from unbin.likelihood.infer.verdicts import IMPRECISE, NOT_ESTIMABLE
from unbin.people.encoding import Encoding
from unbin.people.formulas import quote
from unbin.results.numbers import NONE, column, decimals_for, interval, number, p_value, significant
from unbin.results.numbers import share as share_text
from unbin.results.tables import MOST_TABLES, tables_of

_MOST_NAMED = 3
"""Tables named beside a coefficient, of many."""
_RATIOS = {
    "odds": "odds ratio",
    "cumulative odds": "odds ratio",
    "rates": "rate ratio",
    "means": "ratio of means",
}
_MOST_RATIO = 1e6
"""Ratios from this on are not written."""
_RATIO_DECIMALS = 3
SAID = {NONE: "none", IMPRECISE: "vague", NOT_ESTIMABLE: "doubt"}
"""Colours of verdicts."""


@dataclass(frozen=True, slots=True)
class CoefficientRow:
    """One line of the coefficient table; a dash where there is nothing to say.

    ``said`` is the colour of the verdict. A reference level has a name and no more.
    """

    name: str
    estimate: str = NONE
    error: str = NONE
    interval: str = NONE
    p_value: str = NONE
    verdict: str = NONE
    said: str = "none"
    ratio: str = NONE
    held: str = NONE
    shape: str = NONE
    oracle: str = NONE
    reference: bool = False


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
    found = [("Family", str(model.family_)), ("Method", model.method_)]
    if model.target_transform is not None:
        found.append(("Outcome", f"{model.target_transform} of the published one"))
    found.append(("People", people(model.n_people_, smallest)))
    if model.n_observed_:
        found.append(("Outcome known", people(model.n_observed_, smallest)))
    if model.method_ != "observed":
        found.append(("Blocks", f"{model.n_blocks_:,}"))
    found.append(("Ridge (alpha)", ridge(model.alpha_)))
    found.append(("Dispersion", significant(model.dispersion_)))
    if model.method_ == "likelihood":
        found.append(("Block effects (sd)", significant(model.block_sd_)))
        for each in model.clusters_:
            found.append((f"of which {each.name}", significant(each.sd)))
        found.append(("Standard errors", covariance_text(model._fits[0])))
    return found


def ridge(alpha: float) -> str:
    """Return the size of a ridge."""
    return "none" if alpha == 0 else "infinite" if np.isinf(alpha) else significant(alpha)


def table_rows(model: AggregatedGLM, smallest: int) -> list[TableRow]:
    """Return what the fit says of each of several tables; few people outside one are masked."""
    effects = np.array([table.block_sd for table in tables_of(model)])
    return [
        TableRow(
            table.name,
            _people_inside(table.n_people, model.n_people_, smallest),
            f"{table.n_blocks:,}",
            number(table.goodness_of_fit.ratio, 2),
            p_value(table.goodness_of_fit.p_value),
            effect,
        )
        for table, effect in zip(
            tables_of(model), column(effects, decimals_for(effects)), strict=True
        )
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
        rows = (tuple(map(share_text, share)) for share in found.information.T)
        head = found.tables
    else:
        rows = (_most(found.tables, share) for share in found.information.T)
        head = ("most from", *["then from"] * (_MOST_NAMED - 1), "all others")
    return Told(head, tuple((name, *row) for name, row in zip(features, rows, strict=True)))


def _most(tables: tuple[str, ...], share: FloatArray) -> tuple[str, ...]:
    order = np.argsort(-share, kind="stable")[:_MOST_NAMED]
    named = [
        f"{tables[k]} ({share_text(share[k])})".replace(" %", "\N{NO-BREAK SPACE}%") for k in order
    ]
    return (*named, share_text(share.sum() - share[order].sum()))


def _people_inside(n: int, everybody: int, smallest: int) -> str:
    """Return the people of a table, masked if they or those outside it are few."""
    outside = everybody - n
    return f">{everybody - smallest:,}" if 0 < outside < smallest <= n else people(n, smallest)


def people(n: int, smallest: int) -> str:
    """Return a number of people, masked if small."""
    return f"<{smallest}" if n < smallest else f"{n:,}"


def coefficient_rows(
    model: AggregatedGLM,
    oracle: AggregatedGLM | ArrayLike | None,
    level: float,
    encoding: Encoding | None = None,
) -> list[CoefficientRow]:
    """Return every coefficient with what is known about it, after its reference level."""
    table = _coefficients(model, level)
    d = model.n_features_in_
    context = model.contextual_coef_
    n_context = 0 if context is None else int(np.isfinite(context).sum())
    first = len(table.names) - d - n_context  # 1 with an intercept
    held, shaped, seen = np.full((3, len(table.names)), np.nan)
    said, verdicts = model.diagnostics_, [NONE] * len(table.names)
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
    digits = decimals_for(table.estimate, table.standard_error)
    low, high = table.interval().T
    rows = zip(
        table.names,
        column(table.estimate, digits),
        column(table.standard_error, digits),
        interval(column(low, digits), column(high, digits)),
        map(p_value, table.p),
        verdicts,
        [SAID.get(verdict, "") for verdict in verdicts],
        _ratios(table, first),
        map(share_text, held),
        map(share_text, shaped),
        column(seen, digits),
        strict=True,
    )
    found = [CoefficientRow(*row) for row in rows]
    for place, name in reversed(reference_levels(encoding, table.names)):
        found.insert(place, CoefficientRow(name, estimate="reference", reference=True))
    return found


def ratio_name(model: AggregatedGLM) -> str:
    """Return what exp(coefficient) is called; empty where it is nothing."""
    if model.target_transform == "log":
        return "ratio"
    return _RATIOS.get(get_family(str(model.family_)).ratio, "")


def _ratios(table: Coefficients, first: int) -> list[str]:
    """Return exp(coefficient) with its interval; none of the intercept."""
    with np.errstate(over="ignore"):
        value, low, high = np.exp(np.column_stack([table.estimate, table.interval()])).T
    value[:first] = np.nan
    known = np.isfinite(value) & (value < _MOST_RATIO) & (high < _MOST_RATIO)
    reach = np.where(known, np.minimum(high - value, value - low) / 2, np.nan)
    digits = [min(k, _RATIO_DECIMALS) for k in decimals_for(np.where(known, value, np.nan), reach)]
    ends = interval(column(low, digits), column(high, digits))
    rows = zip(column(np.where(known, value, np.nan), digits), ends, known, strict=True)
    return [f"{text} ({inside})" if inside != NONE and ok else text for text, inside, ok in rows]


def reference_levels(encoding: Encoding | None, names: Sequence[str]) -> list[tuple[int, str]]:
    """Return the reference level of each categorical term, and the place of its first level."""
    found = []
    if encoding is None:
        return []
    for variable, known in zip(encoding.formula.variables, encoding.categories, strict=True):
        if known is None:
            continue
        quoted = quote(variable.column)
        heads: dict[str, list[tuple[int, str]]] = {}
        for place, name in enumerate(names):
            head, bracket, level = name.partition("[T.")
            own = head == quoted or (head.startswith((f"C({quoted})", f"C({quoted},")))
            if bracket and own and level[:-1] in known and ":" not in head:
                heads.setdefault(head, []).append((place, level[:-1]))
        for head, levels in heads.items():
            left = [level for level in known if level not in {text for _, text in levels}]
            if len(left) == 1:
                found.append((levels[0][0], f"{head}[{left[0]}]"))
    return sorted(found)


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
            ridge(selection.alpha[k]),
            "yes" if selection.contextual[k] else "no",
            number(selection.score[k], 4),
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


def _behind(gap: float, error: float) -> str:
    return "best" if gap == 0 else f"{gap:.4f} ± {error:.4f}"
