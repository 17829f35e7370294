"""One call from people and published tables to a fitted model, by a formula."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbin._checks import check_choice
from unbin._frames import as_floats, column_names, take_rows
from unbin._typing import BoolArray, FloatArray
from unbin.classifier import AggregatedClassifier
from unbin.estimator import AggregatedGLM
from unbin.exceptions import AlignmentWarning, EncodingError, ParameterError
from unbin.families import MULTINOMIAL
from unbin.fitting.placement import Given
from unbin.people.columns import gaps, read_column
from unbin.people.encoding import Encoding
from unbin.people.formulas import Formula, check_formulas, parse_formula
from unbin.people.reading import read_people, with_numbers
from unbin.release import AggregatedTarget, Release
from unbin.release.join import JoinedTarget, join
from unbin.release.observed import observed as known_outcomes
from unbin.release.readers import read_frame, read_release
from unbin.release.readers.sheets import listed

MISSING = ("error", "drop", "mean")
Columns = str | Sequence[str]


def glm(
    formula: str,
    people: Any,
    tables: Mapping[Columns, Any],
    *,
    family: str = "auto",
    missing: str = "error",
    weights: str | None = None,
    weighting: str = "frequency",
    offset: str | None = None,
    observed: str | None = None,
    disjoint: bool = False,
    scale: bool = False,
    on_missing: str = "error",
    cluster: Columns | None = None,
    **settings: Any,
) -> AggregatedGLM | AggregatedClassifier:
    """Fit a model of an outcome that was only published as tables.

    Parameters
    ----------
    formula : str
        Features, as ``"age + C(sex) + bs(income, 4)"``: columns, ``C(x)``, ``C(x, 'low')`` with a
        reference level, ``cut(age, 18, 65)``, ``I(x**2)``, log, exp, sqrt, center, scale, bs, ns,
        cr, poly, and ``+ : * - 1``. Columns of text are categories. Nothing in it is run as code.
    people : pandas or polars frame, Arrow table, mapping of columns, or path
        One row per person.
    tables : mapping of column to table
        Each table by the column of ``people`` that holds its blocks, or by several columns for a
        table of their cells: ``{"county": release, ("age_group", "sex"): "ages.csv"}``. A table is
        a release, a tidy frame, or the path of a file.
    family : str
        As for :class:`AggregatedGLM`. With "auto", the default here, the family is chosen on
        held-out blocks, and the summary says what won. Tables of categories are "multinomial", also
        with "auto".
    missing : {"error", "drop", "mean"}
        What to do about people who lack a value that the formula needs. "drop" leaves them out and
        scales the tables to those who are left, block by block, as if values were missing at random
        within blocks. "mean" replaces numbers by the mean of the person's block in the first table
        and adds a column that marks them; a missing category becomes a category.
    weights, offset, observed : str, optional
        Columns of ``people``: how many people a row stands for, what is added to the linear
        predictor, and outcomes that are known.
    weighting, disjoint, scale, on_missing
        As for ``Release.align`` and ``join``.
    cluster : str or list of str, optional
        The column of larger blocks that blocks lie in, as ``"state"`` above counties, or those of
        nested levels: see ``AggregatedGLM.fit``.
    **settings
        Further parameters of :class:`AggregatedGLM` or, for tables of categories, of
        :class:`AggregatedClassifier`, such as ``random=["race"]``.

    Returns
    -------
    AggregatedGLM, or AggregatedClassifier for tables of categories
        The fitted model. It keeps the formula: ``model.predict(new_people)`` takes a frame with the
        same columns, also after saving and loading.

    Examples
    --------
    >>> import numpy as np, pandas as pd, unbin
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"county": np.repeat(np.arange(60), 50)})
    >>> people["sex"] = rng.choice(["f", "m"], 3000)
    >>> people["age"] = rng.normal(size=3000) + rng.normal(size=60)[people["county"]]
    >>> cost = 1 + people["age"] + (people["sex"] == "m") + rng.normal(size=3000)
    >>> county = unbin.aggregate(cost, people["county"], bins=5)   # all that is published of cost
    >>> sex = unbin.aggregate(cost, people["sex"], bins=3)
    >>> model = unbin.glm("age + sex", people, {"county": county, "sex": sex}, family="gaussian")
    >>> model.tidy()["term"].tolist()
    ['intercept', 'age', 'sex[T.m]']
    >>> model.predict(pd.DataFrame({"age": [0.0], "sex": ["f"]})).round().tolist()
    [1.0]
    """
    check_choice("missing", missing, MISSING)
    check_formulas()
    parsed = parse_formula(formula)
    published = [(_names(key), _release(table, key)) for key, table in _tables(tables).items()]
    above = [cluster] if isinstance(cluster, str) else list(cluster or ())
    others = [name for name in (weights, offset, observed) if name is not None]
    ids = list(dict.fromkeys(name for names, _ in published for name in names))
    frame = _people(people, parsed, list(dict.fromkeys([*ids, *above])), others)
    keep = np.ones(_length(frame), dtype=bool)
    if missing == "drop":
        keep = complete_rows(frame, parsed)
    some = frame if keep.all() else _taken(frame, keep)
    filled, blocks = "mean" if missing == "mean" else "error", _ids(some, published[0][0])
    encoding, X = Encoding.build(formula, some, missing=filled, blocks=blocks)
    how = _How(weights, weighting, observed, disjoint, scale, on_missing)
    target = _target(published, frame, some, keep, how)
    clusters = {name: _column(some, name) for name in above} or None
    if family == MULTINOMIAL or (family == "auto" and any(t.categories for _, t in published)):
        _refuse_offset(offset)
        classifier = AggregatedClassifier(fit_intercept=parsed.intercept, **settings)
        return classifier._fit(encoding.frame(X), target, Given(cluster=clusters), encoding)
    model = AggregatedGLM(family, fit_intercept=parsed.intercept, **settings)
    shift = None if offset is None else as_floats(read_column(some, offset), where="offset")
    model.fit(encoding.frame(X), target, offset=shift, cluster=clusters)
    model.encoding_ = encoding
    return model


@dataclass(frozen=True, slots=True)
class _How:
    """How rows are tied to tables."""

    weights: str | None
    weighting: str
    observed: str | None
    disjoint: bool
    scale: bool
    on_missing: str


def _refuse_offset(offset: str | None) -> None:
    if offset is not None:
        raise ParameterError(
            f"offset: is for outcomes that are numbers, got {offset!r} beside tables of "
            "categories; leave it out"
        )


def _tables(tables: Any) -> Mapping[Any, Any]:
    if not isinstance(tables, Mapping) or not tables:
        raise ParameterError(
            f"tables: must map the column of blocks to a table, got {type(tables).__name__}; pass "
            "for example {'county': release}"
        )
    return tables


def _names(key: Any) -> tuple[str, ...]:
    """Return the columns that a table is split by."""
    names = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, tuple) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise ParameterError(
            f"tables: must be keyed by the columns of blocks, got {key!r}; pass for example "
            "'county', or ('age_group', 'sex')"
        )
    return names


def _release(table: Any, key: Any) -> Release:
    """Return a table as a release."""
    if isinstance(table, Release):
        return table
    if isinstance(table, str | os.PathLike):
        return read_release(table)
    if column_names(table) is not None or isinstance(table, Mapping):
        return read_frame(table, name=f"table {key!r}")
    raise ParameterError(
        f"tables: {key!r} must be a release, a frame or a path, got {type(table).__name__}; read "
        "it with unbin.read_release"
    )


def _people(people: Any, formula: Formula, ids: list[str], others: list[str]) -> Any:
    """Return people as a frame or a mapping of columns."""
    if isinstance(people, str | os.PathLike):
        texts = [*ids, *formula.categorical_columns]
        rows = read_people(os.fspath(people), text=texts, columns=[*ids, *formula.columns, *others])
        return with_numbers(rows, {*formula.columns, *others} - set(texts))
    if column_names(people) is None and not isinstance(people, Mapping):
        raise ParameterError(
            "people: must be a frame, a mapping of columns or a path, got "
            f"{type(people).__name__}; pass for example a pandas frame"
        )
    for name in [*ids, *others]:
        _column(people, name)
    return people


def _column(frame: Any, name: str) -> Any:
    """Return a column as it is."""
    known = list(frame) if isinstance(frame, Mapping) else column_names(frame) or []
    if name not in known:
        raise EncodingError(
            f"column {name!r}: must be in the table of people, got {listed(known)}; check its name"
        )
    return frame[name]


def _ids(frame: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the columns whose cells are the blocks of a table."""
    return {name: _column(frame, name) for name in names}


def _length(frame: Any) -> int:
    return len(next(iter(frame.values()))) if isinstance(frame, Mapping) else len(frame)


def _taken(frame: Any, keep: BoolArray) -> Any:
    """Return some of the people."""
    if isinstance(frame, Mapping):
        return {name: np.asarray(values)[keep] for name, values in frame.items()}
    return take_rows(frame, np.flatnonzero(keep))


def complete_rows(frame: Any, formula: Formula) -> BoolArray:
    """Mark people who lack nothing that the formula reads, and say how many do."""
    lacks = {name: gaps(read_column(frame, name)) for name in formula.columns}
    keep = ~np.any(list(lacks.values()), axis=0)
    if not keep.any():
        raise EncodingError(
            "missing: somebody must have all columns of the formula, got nobody; use missing='mean'"
        )
    if not keep.all():
        each = ", ".join(f"{n!r} ({int(gap.sum()):,})" for n, gap in lacks.items() if gap.any())
        warnings.warn(
            f"missing: {int((~keep).sum()):,} of {len(keep):,} people were dropped, who lack "
            f"{each}; the tables were scaled to those who are left, as if values were missing at "
            "random within blocks",
            AlignmentWarning,
            stacklevel=3,
        )
    return np.asarray(keep)


def _target(
    published: list[tuple[tuple[str, ...], Release]],
    frame: Any,
    some: Any,
    keep: BoolArray,
    how: _How,
) -> AggregatedTarget | JoinedTarget:
    """Return the tables tied to the people who are left, and to outcomes that are known."""
    known = None
    if how.observed is not None:
        values = _column(some, how.observed)
        if not any(release.categories for _, release in published):
            values = as_floats(read_column(some, how.observed), where=f"observed {how.observed!r}")
        known = known_outcomes(values, disjoint=how.disjoint)
    aligned = [_aligned(release, names, frame, some, keep, how) for names, release in published]
    if known is None and len(aligned) == 1:
        return aligned[0]
    # scaled counts are whole, so that tables that agreed may differ by a few people
    scale = len(aligned) > 1 and (how.scale or not keep.all())
    with warnings.catch_warnings():
        if not keep.all():
            warnings.simplefilter("ignore", AlignmentWarning)
        return join(*aligned, *([] if known is None else [known]), scale=scale)


def _aligned(
    release: Release,
    names: tuple[str, ...],
    frame: Any,
    some: Any,
    keep: BoolArray,
    how: _How,
) -> AggregatedTarget:
    def tied(rows: Any, release: Release, **changed: Any) -> AggregatedTarget:
        ids = _ids(rows, names)
        standing: dict[str, Any] = {"scale": how.scale, "on_missing": how.on_missing}
        if how.weights is not None:
            standing |= {"weights": _weights(rows, how.weights), "weighting": how.weighting}
        return release.align(ids, **(standing | changed))

    if keep.all():
        return tied(some, release)
    whole = tied(frame, release)  # says what is wrong before anybody is dropped
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)  # said once, with the reason
        return tied(some, thinned(whole, keep), scale=True)


def thinned(whole: AggregatedTarget, keep: BoolArray) -> Release:
    """Return the release of the blocks in which somebody is left, to be scaled to those.

    Quantiles and means stay what they are, of fewer people.
    """
    left = whole.release.select(np.unique(whole.blocks[keep]))
    if len(left.order_statistics.value) or left.means is not None:
        left = replace(left, n=np.zeros_like(left.n))
    return left


def _weights(rows: Any, name: str) -> FloatArray:
    return as_floats(_column(rows, name), where=f"weights {name!r}")
