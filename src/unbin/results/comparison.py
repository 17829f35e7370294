"""Several models side by side: one table, tests of nested ones, held-out scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from sklearn.utils.validation import check_is_fitted

from unbin._checks import check_kind, check_whole
from unbin._frames import to_frame
from unbin._typing import ArrayLike, FloatArray
from unbin.estimator import AggregatedGLM
from unbin.exceptions import ParameterError
from unbin.fitting.contrasts import ContrastTest
from unbin.fitting.inputs import feature_names
from unbin.fitting.rendering import Table, number, to_latex, to_markdown, wrapped
from unbin.fitting.summary import Coefficients
from unbin.fitting.tabulate import covariance_text, judged_columns, people_in_rows, tabulate
from unbin.likelihood.infer.verdicts import IMPRECISE, NOT_ESTIMABLE
from unbin.selection import CrossValidation, cross_validate

_MARKS = {IMPRECISE: "†", NOT_ESTIMABLE: "‡"}
_MOST_NAMED = 5
"""Terms of a test that are named one by one."""


@dataclass(frozen=True, slots=True)
class NestedTest:
    """That what one model has beyond another is 0: ``larger``, ``smaller``, and the test."""

    larger: str
    smaller: str
    test: ContrastTest

    def __str__(self) -> str:
        return f"{self.larger} against {self.smaller}: {self.test}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Models side by side: T terms, M models.

    Attributes
    ----------
    names : tuple of str
        Of the models.
    terms : tuple of str
        Of all models together, in the order they first occur.
    estimate, standard_error : (T, M)
        NaN where a model does not have a term; errors also where it is not estimable.
    verdict : tuple of tuples of str
        Of each term in each model; empty where there is none.
    facts : tuple of (label, texts)
        Rows below the coefficients.
    covariance : str
        What all standard errors are of; empty where models differ, which ``facts`` then tell.
    tests : tuple of NestedTest
        Of every model that has another one nested in it, the largest of these.
    scores : tuple of CrossValidation
        Held-out scores of the models, where they were asked for.
    """

    names: tuple[str, ...]
    terms: tuple[str, ...]
    estimate: FloatArray
    standard_error: FloatArray
    verdict: tuple[tuple[str, ...], ...]
    facts: tuple[tuple[str, tuple[str, ...]], ...]
    covariance: str = ""
    tests: tuple[NestedTest, ...] = ()
    scores: tuple[CrossValidation, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences below the table."""
        used = {verdict for row in self.verdict for verdict in row}
        marks = [f"{mark} {verdict}" for verdict, mark in _MARKS.items() if verdict in used]
        errors = f": {self.covariance}" if self.covariance else ""
        first = f"Standard errors in parentheses{errors}." + "".join(f" {m}." for m in marks)
        return (first, *map(str, self.tests), *_best(self.names, self.scores))

    def as_text(self) -> str:
        """Return the comparison for a terminal."""
        table = self._table()
        lines, width = table.text_lines(names=10)
        body = [
            part
            for k, line in enumerate(lines[1:])
            for part in (("-" * width, line) if k in table.rules else (line,))
        ]
        head = ["=" * width, lines[0], "-" * width]
        return "\n".join([*head, *body, "=" * width, *wrapped(self.notes, max(width, 60))])

    def to_markdown(self) -> str:
        """Return the comparison in Markdown; every label is escaped."""
        return "\n\n".join([self._table().to_markdown(), *map(to_markdown, self.notes)])

    def to_html(self) -> str:
        """Return the comparison as HTML; every label is escaped."""
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return self._table().to_html() + notes

    def as_latex(self) -> str:
        """Return the comparison as a LaTeX tabular, the notes after it; every label is escaped."""
        notes = [rf"\par {to_latex(note)}" for note in self.notes]
        return "\n".join([self._table().as_latex(), *notes])

    def to_frame(self, backend: str | None = None) -> Any:
        """Return the terms as a pandas or polars frame, three columns for each model."""
        columns: dict[str, Any] = {"term": list(self.terms)}
        for m, name in enumerate(self.names):
            columns[f"estimate {name}"] = self.estimate[:, m]
            columns[f"std_error {name}"] = self.standard_error[:, m]
            columns[f"verdict {name}"] = [row[m] for row in self.verdict]
        return to_frame(columns, backend)

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.to_html()

    def _table(self) -> Table:
        rows: list[tuple[str, ...]] = []
        for t, term in enumerate(self.terms):
            cells = zip(self.estimate[t], self.standard_error[t], self.verdict[t], strict=True)
            pairs = [_cells(*cell) for cell in cells]
            rows += [(term, *(p[0] for p in pairs)), ("", *(p[1] for p in pairs))]
        facts = [(label, *texts) for label, texts in self.facts]
        return Table(("", *self.names), (*rows, *facts), (len(rows),))


def compare(
    models: Sequence[AggregatedGLM] | Mapping[str, AggregatedGLM],
    X: Any = None,
    target: Any = None,
    *,
    cv: int | None = None,
    offset: ArrayLike | None = None,
) -> Comparison:
    """Put fitted models side by side.

    A model whose terms include those of another with the same family and table is tested against it
    by a Wald test that its additional terms are 0. Other models, for example of different families,
    can be compared with ``cv``, by how well they predict blocks that are left out.

    Parameters
    ----------
    models : sequence of AggregatedGLM, or mapping by name
        Fitted, each to one target. Without names they are (1), (2) and so on.
    X : (n, d), or list of one for each model, optional
        The people, for ``cv``. Of a frame each model takes the columns it was fitted to.
    target : AggregatedTarget or JoinedTarget, optional
        What was published of them, for ``cv``.
    cv : int, optional
        Folds of blocks to leave out in turn; see ``cross_validate``. All models use the same folds.
    offset : (n,), optional
        Of these people.

    Returns
    -------
    Comparison
        Prints as text, shows as HTML in a notebook; ``to_markdown()``, ``to_html()``,
        ``as_latex()``, ``to_frame()``.

    Examples
    --------
    >>> import numpy as np, pandas as pd, unbin
    >>> rng = np.random.default_rng(0)
    >>> county = np.repeat(np.arange(60), 50)
    >>> X = rng.normal(size=(3000, 2)) + rng.normal(size=(60, 2))[county]
    >>> people = pd.DataFrame(X, columns=["age", "income"])
    >>> y = X @ [1.0, 0.5] + rng.normal(size=3000)
    >>> target = unbin.aggregate(y, county).align(county)
    >>> small = unbin.AggregatedGLM().fit(people[["age"]], target)
    >>> both = unbin.AggregatedGLM().fit(people, target)
    >>> compared = unbin.compare({"age": small, "both": both})
    >>> compared.terms
    ('intercept', 'age', 'income')
    >>> compared.tests[0].test.p_value < 0.001
    True
    """
    named = _named(models)
    names, fitted = tuple(named), list(named.values())
    tables = [_tabulated(model) for model in fitted]
    terms = tuple(dict.fromkeys(term for table in tables for term in table.names))
    shape = (len(terms), len(fitted))
    estimate, error = np.full(shape, np.nan), np.full(shape, np.nan)
    verdict = [[""] * len(fitted) for _ in terms]
    for m, (model, table) in enumerate(zip(fitted, tables, strict=True)):
        own = judged_columns(model._fits[0], table.names, feature_names(model))["verdict"]
        for k, term in enumerate(table.names):
            t = terms.index(term)
            estimate[t, m], error[t, m] = table.estimate[k], table.standard_error[k]
            verdict[t][m] = own[k]
    scores = _scores(fitted, X, target, cv, offset)
    kinds = {covariance_text(model._fits[0]) for model in fitted}
    return Comparison(
        names,
        terms,
        estimate,
        error,
        tuple(map(tuple, verdict)),
        _facts(fitted, scores),
        kinds.pop() if len(kinds) == 1 else "",
        _nested_tests(names, fitted),
        scores,
    )


def _named(models: Any) -> dict[str, AggregatedGLM]:
    """Return models by name, checked."""
    if isinstance(models, Mapping):
        named = {str(name): model for name, model in models.items()}
    elif isinstance(models, Sequence) and not isinstance(models, str):
        named = {f"({k})": model for k, model in enumerate(models, 1)}
    else:
        raise ParameterError(
            f"models: must be a list of fitted models, got {type(models).__name__}; pass "
            "[model_a, model_b]"
        )
    if not named or len(named) < len(models):
        raise ParameterError(
            f"models: must be one or more, of different names, got {list(models)!r}; pass "
            "[model_a, model_b]"
        )
    for name, model in named.items():
        check_kind(f"models, {name}", model, AggregatedGLM, instead="a fitted model")
        check_is_fitted(model)
        model._only_fit(f"compare, {name}")
    return named


def _tabulated(model: AggregatedGLM) -> Coefficients:
    return tabulate(model._fits[0], feature_names(model), 0.95)


def _cells(estimate: float, error: float, verdict: str) -> tuple[str, str]:
    """Return an estimate with its mark, and its standard error below."""
    if np.isnan(estimate):
        return "", ""
    mark = _MARKS.get(verdict, "")
    if not np.isfinite(error):
        return f"–{mark}", ""
    return number(estimate) + mark, f"({number(error)})"


def _facts(
    models: list[AggregatedGLM], scores: tuple[CrossValidation, ...]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    fits = [model._fits[0] for model in models]
    tables = [model.method_ == "likelihood" for model in models]
    pairs = list(zip(fits, tables, strict=True))
    kinds = [covariance_text(fit) for fit in fits]
    facts = {
        "Family": [fit.family.name for fit in fits],
        "People": [people_in_rows(fit) for fit in fits],
        "Blocks": [f"{fit.n_blocks:,}" if table else "" for fit, table in pairs],
        "Block effects sd": [f"{fit.block_sd:.3g}" for fit in fits],
        "Log score": [f"{-fit.objective:.4f}" if table else "" for fit, table in pairs],
        "Held-out score": [f"{each.mean:.4f} ({each.standard_error:.4f})" for each in scores],
        "Trusted": ["yes" if fit.diagnostics.trusted else "no" for fit in fits],
        "Covariance": kinds if len(set(kinds)) > 1 else [],
    }
    return tuple((label, tuple(texts)) for label, texts in facts.items() if any(texts))


def _nested_tests(names: tuple[str, ...], models: list[AggregatedGLM]) -> tuple[NestedTest, ...]:
    """Test every model against the largest one that is nested in it."""
    found = []
    for larger, model in zip(names, models, strict=True):
        own = _tabulated(model).names
        inside = [
            (len(_tabulated(other).names), smaller, other)
            for smaller, other in zip(names, models, strict=True)
            if _is_nested(other, model)
        ]
        if not inside:
            continue
        _, smaller, other = max(inside, key=lambda each: each[0])
        extra = [term for term in own if term not in _tabulated(other).names]
        estimable = np.isfinite(np.diag(model.cov_params()))
        extra = [term for term in extra if estimable[own.index(term)]]
        if extra:
            found.append(NestedTest(larger, smaller, _shortly(model.wald_test(extra), extra)))
    return tuple(found)


def _is_nested(small: AggregatedGLM, large: AggregatedGLM) -> bool:
    """Tell whether one model is another one with some terms left out, as far as names tell."""
    a, b = small._fits[0], large._fits[0]
    columns = all(hasattr(model, "feature_names_in_") for model in (small, large))
    same = (
        a.family == b.family
        and (a.n_people, a.n_blocks, a.n_observed) == (b.n_people, b.n_blocks, b.n_observed)
        and (small.method_, small.target_transform) == (large.method_, large.target_transform)
        and a.status.converged
        and b.status.converged
    )
    penalised = b.alpha > 0 and b.shrunk is None
    inside = set(_tabulated(small).names) < set(_tabulated(large).names)
    return columns and same and inside and not penalised


def _shortly(test: ContrastTest, terms: list[str]) -> ContrastTest:
    """Return a test whose hypothesis names a few terms at most."""
    if len(terms) <= _MOST_NAMED:
        return test
    text = f"{', '.join(terms[:_MOST_NAMED])} and {len(terms) - _MOST_NAMED} more = 0"
    return replace(test, hypothesis=text)


def _scores(
    models: list[AggregatedGLM], X: Any, target: Any, cv: int | None, offset: ArrayLike | None
) -> tuple[CrossValidation, ...]:
    """Return held-out scores, all models on the same folds."""
    if cv is None:
        return ()
    check_whole("cv", cv, low=2)
    if X is None or target is None:
        raise ParameterError(
            "cv: needs the people and what was published of them, got none; pass "
            "compare(models, X, target, cv=5)"
        )
    each = X if isinstance(X, list) else [X] * len(models)
    if len(each) != len(models):
        raise ParameterError(
            f"X: must be one, or one for each of {len(models)} models, got {len(each)}; pass an "
            "array or a frame"
        )
    return tuple(
        cross_validate(model, _columns_of(model, own), target, cv, offset=offset)
        for model, own in zip(models, each, strict=True)
    )


def _columns_of(model: AggregatedGLM, X: Any) -> Any:
    """Return the columns of a frame that a model was fitted to; an array as it is."""
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    names = getattr(model, "feature_names_in_", None)
    if names is None or not isinstance(frame, nw.DataFrame):
        return X
    missing = [str(name) for name in names if name not in frame.columns]
    if missing:
        raise ParameterError(
            f"X: must have the columns the models were fitted to, got none named {missing[0]!r}; "
            "add it, or pass a list of one X for each model"
        )
    return frame.select([str(name) for name in names]).to_native()


def _best(names: tuple[str, ...], scores: tuple[CrossValidation, ...]) -> list[str]:
    """Say which model predicts held-out blocks best, and by how much the others are worse."""
    if len(scores) < 2:
        return []
    best = max(range(len(scores)), key=lambda m: scores[m].mean)
    people = scores[best].people
    parts = []
    for m, name in enumerate(names):
        if m != best:
            gap = scores[best].score - scores[m].score
            error = float(gap.std(ddof=1) / np.sqrt(len(gap)))
            low = float(people @ gap / people.sum())
            parts.append(f"{low:.4f} ({error:.4f}) for {name}")
    return [
        f"Blocks left out are predicted best by {names[best]}; the log score per person is lower "
        f"by {', '.join(parts)}."
    ]
