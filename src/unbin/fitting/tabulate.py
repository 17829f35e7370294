"""A fit as tables: coefficients, a summary, one row."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbin._checks import check_share
from unbin._typing import FloatArray, IntArray
from unbin.exceptions import NoStandardErrorsError, ParameterError
from unbin.fitting.choice_words import choice_sentence
from unbin.fitting.model import Fit
from unbin.fitting.summary import Coefficients, Summary
from unbin.likelihood.infer.verdicts import IMPRECISE, NOT_ESTIMABLE
from unbin.release.words import people_text, plural

_MOST_LINES = 12
"""Tables, and coefficients, that a summary speaks of one by one."""


def covariance_of(fit: Fit) -> FloatArray:
    """Return the covariance of intercept and coefficients; raise where there is none."""
    if fit.covariance is None:
        raise NoStandardErrorsError(
            "standard errors: matching has none, because it treats imputed targets as observed; "
            "use method='likelihood'"
        )
    return fit.covariance


def term_places(fit: Fit) -> IntArray:
    """Return where each term of ``tabulate`` stands among intercept, slopes and contextual ones."""
    covariance = covariance_of(fit)
    with_intercept = fit.bins is None and covariance[0, 0] > 0
    return np.arange(0 if with_intercept else 1, len(covariance))


def tabulate(
    fit: Fit, features: list[str], level: float, *, exponentiate: bool = False
) -> Coefficients:
    """Return intercept, slopes and contextual effects with their standard errors."""
    check_share("level", level)
    names, estimate = ["intercept", *features], np.append(fit.intercept, fit.coef)
    if fit.contextual_coef is not None and fit.context is not None:
        used = fit.context.used
        names += [f"block mean of {features[j]}" for j in np.flatnonzero(used)]
        estimate = np.concatenate([estimate, fit.contextual_coef[used]])
    where, errors = term_places(fit), np.sqrt(np.diag(covariance_of(fit)))
    return Coefficients(
        tuple(names[k] for k in where),
        estimate[where],
        errors[where],
        level,
        fit.df_residual,
        exponentiate,
    )


def term_covariance(fit: Fit) -> FloatArray:
    """Return the covariance of the terms of ``tabulate``, (k, k)."""
    where = term_places(fit)
    return np.asarray(covariance_of(fit)[np.ix_(where, where)])


def check_ratios(fit: Fit, transform: str | None) -> None:
    """Raise unless exp of a slope is a ratio of something."""
    if not fit.family.ratio and transform is None:
        raise ParameterError(
            f"exponentiate: needs a log or logit link, got family {fit.family.name!r}, whose "
            "slopes are differences; leave it out"
        )


def covariance_text(fit: Fit) -> str:
    """Say what standard errors are of, and which distribution tests and intervals use."""
    law = "normal" if np.isinf(fit.df_residual) else "Student's t"
    return f"{fit.errors_of}, {law}"


def judged_columns(fit: Fit, terms: tuple[str, ...], features: list[str]) -> dict[str, Any]:
    """Return efficiency, share of information from shapes and verdict of each term, as columns."""
    found, place = fit.diagnostics, {name: j for j, name in enumerate(features)}
    where = [place.get(term, -1) for term in terms]

    def of_terms(values: FloatArray | None) -> FloatArray:
        padded = np.append(np.full(len(features), np.nan) if values is None else values, np.nan)
        return np.asarray(padded[where])

    verdicts = (*(found.verdicts or [""] * len(features)), "")
    return {
        "efficiency": of_terms(found.efficiency),
        "information_shape": of_terms(found.shape_share),
        "verdict": [verdicts[k] for k in where],
    }


def information_columns(fit: Fit, terms: tuple[str, ...], features: list[str]) -> dict[str, Any]:
    """Return the share of each table in the information on each term, as columns."""
    found = fit.diagnostics
    if found.information is None:
        return {}
    place = {name: j for j, name in enumerate(features)}
    return {
        f"information_{table}": np.array(
            [share[place[term]] if term in place else np.nan for term in terms]
        )
        for table, share in zip(found.tables, found.information, strict=True)
    }


def summarise(fit: Fit, features: list[str], method: str, level: float) -> Summary:
    """Return the summary of a fit."""
    facts: tuple[tuple[str, str], ...] = (
        ("Family:", fit.family.name),
        ("People:", people_in_rows(fit)),
        ("Method:", method),
        ("Blocks:", f"{fit.n_blocks:,}"),
        ("Alpha:", f"{fit.alpha:.3g}"),
        ("Dispersion:", f"{fit.dispersion:.4g}"),
        ("Block effects sd:", f"{fit.block_sd:.3g}"),
        ("Objective:", f"{fit.objective:.5g}"),
        ("Covariance:", covariance_text(fit)),
    )
    if fit.tables:
        facts = (*facts[:4], ("Tables:", f"{len(fit.tables)}"), *facts[4:])
    if fit.n_observed:
        facts = (*facts[:5], ("Observed:", people_text(fit.n_observed)), *facts[5:])
    notes = [f"Status: {fit.ending}"]
    notes += [note for note in fit.diagnostics.sentences() if note != fit.status.value]
    who = "The tables hold" if fit.tables else "The release holds"
    who = "Tables and observed people hold" if fit.n_observed else who
    notes += [
        f"Effects of clusters: sd {each.sd:.2g} of {each.name}."
        for each in fit.clusters
        if each.sd > 0
    ]
    notes += _verdicts(fit.diagnostics.verdicts, features)
    notes += _efficiency(fit.diagnostics.efficiency, features, who)
    notes += _from_shape(fit.diagnostics.shape_share, features)
    notes += [*_tables(fit), *_information(fit, features)]
    notes += [] if fit.selection is None else [choice_sentence(fit.selection)]
    return Summary("Aggregated GLM", facts, tabulate(fit, features, level), tuple(notes))


def people_in_rows(fit: Fit) -> str:
    """Return how many people a fit is of, and in how many rows where these stand for several."""
    rows = "" if fit.n_rows == fit.n_people else f" in {plural(fit.n_rows, 'row')}"
    return f"{fit.n_people:,}{rows}"


def glance(fit: Fit, method: str) -> dict[str, Any]:
    """Return a fit as columns of one row."""
    goodness = fit.diagnostics.goodness_of_fit
    return {
        "family": [fit.family.name],
        "method": [method],
        "n_people": [fit.n_people],
        "n_observed": [fit.n_observed],
        "n_blocks": [fit.n_blocks],
        "alpha": [fit.alpha],
        "dispersion": [fit.dispersion],
        "objective": [fit.objective],
        "q_over_df": [float("nan") if goodness is None else goodness.ratio],
        "p_value": [float("nan") if goodness is None else goodness.p_value],
        "identified": [fit.diagnostics.identified],
        "trusted": [fit.diagnostics.trusted],
    }


def _verdicts(verdicts: tuple[str, ...], features: list[str]) -> list[str]:
    """Name the coefficients that are imprecise or not estimable."""
    lines = []
    for verdict in (IMPRECISE, NOT_ESTIMABLE):
        named = [name for name, own in zip(features, verdicts, strict=False) if own == verdict]
        more = ", …" if len(named) > _MOST_LINES else ""
        if named:
            lines.append(f"{verdict.capitalize()}: {', '.join(named[:_MOST_LINES])}{more}.")
    return lines


def _from_shape(shares: FloatArray | None, features: list[str]) -> list[str]:
    """Say how much of the information on each coefficient comes from the shape of histograms."""
    if shares is None or not np.isfinite(shares).any():
        return []
    parts = [
        f"{_percent(share)} on {feature}"
        for feature, share in zip(features[:_MOST_LINES], shares, strict=False)
        if np.isfinite(share)
    ]
    more = "; …" if len(features) > _MOST_LINES else ""
    return [f"Information from the shape within blocks: {'; '.join(parts)}{more}."]


def _efficiency(efficiency: FloatArray | None, features: list[str], who: str) -> list[str]:
    """State the relative efficiency of what was published, at worst and at best."""
    if efficiency is None or not np.isfinite(efficiency).all():
        return []
    worst, best = int(np.argmin(efficiency)), int(np.argmax(efficiency))
    text = f"{who} {_percent(efficiency[worst])} of what individual data would say "
    text += f"about {features[worst]}"
    if best != worst:
        text += f", and {_percent(efficiency[best])} about {features[best]}"
    return [text + "."]


def _tables(fit: Fit) -> list[str]:
    """Say how each of several tables fits, one line each, as many as are read."""
    lines = []
    for table in fit.tables[:_MOST_LINES]:
        line = f"Table {table.name}: {table.n_people:,} people in {table.n_blocks:,} blocks"
        if np.isfinite(table.goodness_of_fit.ratio):
            line += f", Q/df = {table.goodness_of_fit.ratio:.2f}"
        if table.block_sd > 0:
            line += f", block effects sd {table.block_sd:.2g}"
        lines.append(line + ".")
    return lines


def _information(fit: Fit, features: list[str]) -> list[str]:
    """Say which table told most about each coefficient."""
    shares = fit.diagnostics.information
    if shares is None:
        return []
    names = fit.diagnostics.tables
    parts = [
        f"on {feature} from {names[int(shares[:, j].argmax())]} ({_percent(shares[:, j].max())})"
        for j, feature in enumerate(features[:_MOST_LINES])
        if np.isfinite(shares[:, j]).all()
    ]
    more = "; …" if len(features) > _MOST_LINES else ""
    return [f"Most information: {'; '.join(parts)}{more}."] if parts else []


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"  # not 1e+02
