"""A fit as one page of HTML."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from sklearn.utils.validation import check_is_fitted

import unbin
from unbin._checks import check_kind, check_package, check_path, check_texts
from unbin._io import write_texts
from unbin._typing import ArrayLike
from unbin.classifier import AggregatedClassifier
from unbin.estimator import AggregatedGLM
from unbin.exceptions import ParameterError
from unbin.fitting.published import smallest_shown
from unbin.likelihood.infer.diagnostics import Diagnostics
from unbin.likelihood.infer.verdicts import IMPRECISE
from unbin.people.encoding import Encoding
from unbin.results.report.facts import (
    coefficient_rows,
    facts,
    people,
    ratio_name,
    score_rows,
    table_rows,
    told_by_table,
)
from unbin.results.tables import statistics_of

LEVEL = 0.95
_ELSEWHERE = ("Status: ", "Table ", "Most information: ", "Information from the shape ")
"""How the notes of a summary begin that have a section of their own."""
NO_INPUTS: Mapping[str, str] = MappingProxyType({})


def render_report(
    model: AggregatedGLM | AggregatedClassifier,
    *,
    title: str,
    oracle: AggregatedGLM | ArrayLike | None = None,
    command: str = "",
    inputs: Mapping[str, str] = NO_INPUTS,
    created: datetime | str | None = None,
    public: bool | None = None,
    encoding: Encoding | None = None,
) -> str:
    """Return the report of a fit: one page that needs nothing else, not even a network.

    Blocks with counts under 11 people are not drawn unless the table is public, and imputed targets
    are never in it. Where any of several tables has such counts only the first is drawn, or those
    that are public: sums of another would reveal what is masked. The same fit gives the same page.
    Cells of single blocks, which a classifier estimates, are shown of public tables only.

    Parameters
    ----------
    model : AggregatedGLM or AggregatedClassifier
        Fitted to one target, by any method.
    title : str
    oracle : AggregatedGLM or (d,), optional
        The same model fitted to individual targets, or its coefficients, to compare with; not of
        categories.
    command : str
        What was run, to be quoted.
    inputs : mapping of str to str
        Names of the input files and their hashes.
    created : datetime or str, optional
        When; left out of the page when left out here.
    public : bool, optional
        Whether everybody has the table already: then nothing is masked. When left out, as the
        release says (``release.public``).
    encoding : Encoding, optional
        What the formula became, for reference levels and curves; that of the model where it was
        fitted by a formula.

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40)
    >>> release = unbin.aggregate(people.y, people.blocks, bins=5)
    >>> model = unbin.AggregatedGLM().fit(people.X, release.align(people.blocks))
    >>> page = unbin.report.render_report(model, title="Income by county")
    >>> unbin.report.write_report("report.html", page)
    """
    odds: list[tuple[str, str]] = []
    if isinstance(model, AggregatedClassifier):
        check_is_fitted(model)
        encoding = getattr(model, "encoding_", None) if encoding is None else encoding
        if model._binary is None:
            from unbin.results.report.category_page import render_categories

            _refuse_oracle(oracle)
            return render_categories(
                model, title=title, command=command, inputs=inputs, created=created, public=public
            )
        odds, model = [("Odds of", model._odds())], model._binary
    check_kind("model", model, AggregatedGLM, instead="a fitted model")
    check_is_fitted(model)
    check_pictures("report")
    if np.ndim(model.coef_) > 1:
        raise ParameterError(
            "report: needs a model of one target, got several; fit them one by one"
        )
    encoding = getattr(model, "encoding_", None) if encoding is None else encoding
    if encoding is not None:
        check_kind("encoding", encoding, Encoding, instead="that of the fit")
    statistics = statistics_of(model)
    smallest_of = [smallest_shown(each.to_mask, public) for each in statistics]
    smallest = max(smallest_of, default=smallest_shown(None, public))
    from unbin.results.report.pictures import draw
    from unbin.results.report.svg import settings

    with settings():
        pictures = draw(model, oracle, smallest_of, encoding)
    return template("page.html.j2").render(
        title=title,
        method=model.method_,
        verdict=verdict_of(model.diagnostics_),
        observed=_observed(model, smallest),
        less_known=model._fits[0].less_known,
        words=_words(model),
        status=model._fits[0].ending,
        facts=[*odds, *facts(model, smallest)],
        pictures=pictures,
        tables=table_rows(model, smallest),
        told=told_by_table(model),
        smallest=smallest,
        level=f"{100 * LEVEL:g} %",
        coefficients=coefficient_rows(model, oracle, LEVEL, encoding),
        ratio=ratio_name(model),
        intercept=bool(model.fit_intercept),
        has_oracle=oracle is not None,
        scores=score_rows(model.selection_),
        n_tried=0 if model.selection_ is None else len(model.selection_.score),
        command=command,
        inputs=check_texts("inputs", inputs),
        versions=versions(),
        created=when(created),
    )


def _refuse_oracle(oracle: Any) -> None:
    if oracle is not None:
        raise ParameterError(
            "oracle: is compared with a model of numbers, got a classifier; leave it out"
        )


def write_report(path: str | Path, html: str) -> None:
    """Write a page in one go: whoever looks sees the old page or the new one, never half of it.

    Examples
    --------
    >>> import unbin
    >>> unbin.report.write_report("page.html", "<p>A page.</p>")
    """
    text = check_kind("html", html, str, instead="the page that render_report returned")
    write_texts({check_path("path", path): text}, errors="replace")


def check_pictures(name: str) -> None:
    """Raise if what draws the pictures of a page is not installed."""
    check_package(name, "matplotlib", "plots")


def _observed(model: AggregatedGLM, smallest: int) -> str:
    """Return how many outcomes are known beside the tables; empty where none is."""
    n = model.n_observed_
    return f"{people(n, smallest)} people" if n else ""


def verdict_of(found: Diagnostics) -> tuple[str, str, str]:
    """Return the colour of the verdict, its first words and the rest of it."""
    head, _, rest = found.reason.partition(": ")
    if not rest:
        head, rest = "", head
    if not found.trusted:
        return "doubt", head.capitalize() if head else "Not to be trusted", rest
    return "vague" if IMPRECISE in found.verdicts else "", head.capitalize(), rest


def _words(model: AggregatedGLM) -> list[str]:
    """Return verdict, fit and efficiency in sentences that the page does not have yet."""
    if model.method_ == "likelihood":
        found = [note for note in model.summary().notes if not note.startswith(_ELSEWHERE)]
    else:
        found = [word for word in model.diagnostics_.sentences() if word != model.status_.value]
    others = [word for word in found if word != model.diagnostics_.reason]
    return [word[0].upper() + word[1:] for word in others]


def when(created: datetime | str | None) -> str | None:
    """Return a time as text."""
    return created.isoformat(timespec="seconds") if isinstance(created, datetime) else created


def versions() -> dict[str, str]:
    """Return what a page was made with."""
    return {
        "unbin": unbin.__version__,
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "Python": platform.python_version(),
    }


@cache
def template(name: str) -> Template:
    """Return a page to be filled in; everything filled in is escaped."""
    environment = Environment(
        loader=PackageLoader("unbin.results.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
