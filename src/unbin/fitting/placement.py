"""Where the rows of a fit are placed, and what was published about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from unbin._checks import LARGEST, check_choice, check_flag, check_width
from unbin._frames import (
    as_dense,
    as_floats,
    is_source,
    is_wide,
    refuse_huge,
    refuse_masked,
    take_rows,
)
from unbin._typing import FloatArray, IntArray
from unbin.exceptions import (
    AlignmentError,
    CategoryError,
    DomainError,
    EngineError,
    FitError,
    ParameterError,
)
from unbin.families import Family
from unbin.fitting.by_column import (
    ByColumn,
    as_by_column,
    check_named,
    column_in,
    features_in,
    tables_of,
)
from unbin.fitting.clusters import as_names, clusters_in, coded, named
from unbin.fitting.inputs import (
    Target,
    as_columns,
    as_releases,
    as_targets,
    check_observed,
    check_offset,
    check_rows,
    check_sample_weight,
    refuse_sample_weight,
    warn_of_disagreement,
)
from unbin.fitting.model import Clusters
from unbin.fitting.transforms import TRANSFORMS
from unbin.release import Release
from unbin.release.categories import refuse_categories
from unbin.release.ends import check_ends, check_known
from unbin.release.join import JoinedTarget, Tables
from unbin.release.observed import ObservedTarget, as_observed, warn_of_nobody
from unbin.release.target import AggregatedTarget
from unbin.release.weights import WEIGHTINGS, check_weights
from unbin.rows.columns import ColumnSums, column_sums
from unbin.rows.engines import Blocks, Engine, Everybody
from unbin.rows.parts import one_blas_thread
from unbin.rows.sources import Columns
from unbin.rows.survey import Surveyed
from unbin.rows.wide import check_wide


@dataclass(frozen=True, slots=True)
class Placed:
    """Targets, each with the people it is of.

    Attributes
    ----------
    targets : list of (Everybody, Release, Tables or (n,) observed targets)
    observed : bool
        Whether targets were observed.
    several : bool
        Whether a list of targets was given.
    n_features : int
    names : (d,) or None
        Of the features.
    clusters : tuple of Clusters
        Larger blocks, the last partitions of everybody.
    """

    targets: list[tuple[Everybody, Any]]
    observed: bool
    several: bool
    n_features: int
    names: Any
    clusters: tuple[Clusters, ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """What ``fit`` was given beside X and y."""

    offset: Any = None
    block: Any = None
    features: Sequence[str] | None = None
    weights: Any = None
    weighting: str = "frequency"
    observed: Any = None
    disjoint: bool = False
    sample_weight: Any = None
    cluster: Any = None


def check_given(given: Given, *, source: bool, mapped: bool) -> None:
    """Raise where columns are named beside rows that are tied to their tables already."""
    check_choice("weighting", given.weighting, WEIGHTINGS)
    check_flag("disjoint", given.disjoint)
    if given.weights is None and given.weighting == "survey":
        raise ParameterError(
            "weighting: 'survey' needs the weights of the rows, got none; pass weights=..."
        )
    if given.observed is None and given.disjoint:
        raise ParameterError(
            "disjoint: is about outcomes that are known, got none; pass observed=..."
        )
    listed = given.features if isinstance(given.features, list | tuple) else ()
    for what, name in (("weights", given.weights), ("observed", given.observed)):
        if isinstance(name, str) and name in listed:
            raise ParameterError(
                f"{what}: must be a column of its own, got {name!r}, which is among the features; "
                "leave it out there"
            )
    named = source or mapped
    if named or given.block is not None:
        refuse_sample_weight(given.sample_weight)
    if named:
        return
    if given.weights is not None and given.block is None:
        raise ParameterError(
            "weights: name a column of files and frames, got arrays; rows are tied to a table by "
            "release.align(blocks, weights=...), and observed targets take sample_weight"
        )
    if given.observed is not None:
        raise ParameterError(
            "observed: names a column of files and frames, got arrays; pass "
            "unbin.join(release.align(blocks), unbin.observed(y))"
        )


Prepare = Callable[[Release | Tables], Release | Tables]
"""Returns what was published as it is fitted, and raises where it cannot be."""


@contextmanager
def place(
    X: Any,
    y: Any,
    given: Given,
    *,
    engine: Engine,
    family: Family | None,
    model: Any,
    prepare: Prepare | None = None,
    crossed: bool = False,
) -> Iterator[Placed]:
    """Place all rows where an engine sums over them, for as long as they are needed.

    Parameters
    ----------
    X, y
        See ``AggregatedGLM.fit``.
    given : Given
    engine : Engine
    family : Family or None
        Targets must lie in its domain.
    model : AggregatedGLM or AggregatedClassifier
    prepare : callable, optional
        What is done to the releases; what a GLM does when left out.
    crossed : bool
        Whether people of several tables are laid out by crossed cell.
    """
    prepare = prepare or partial(_prepared, model=model, family=family)
    check_given(given, source=is_source(X), mapped=isinstance(y, Mapping))
    if is_source(X):
        how: dict[str, Any] = {"engine": engine, "model": model, "prepare": prepare}
        with _in_parts(X, y, given, **how, crossed=crossed) as placed:
            yield placed
        return
    if isinstance(y, Mapping):
        y = target_in(X, y, given)
        offset, _ = column_in(X, "offset", given.offset)
        cluster = None if given.cluster is None else clusters_in(X, given.cluster)
        X, given = features_in(X, given.features), Given(offset, cluster=cluster)
    X = refuse_masked(X, where="X")
    engine.check(X)
    X = as_dense(X)
    own = engine.owns(X)
    targets = as_targets(y) if given.block is None else None
    if targets is not None:
        refuse_sample_weight(given.sample_weight)
    # scikit-learn sets attributes of the model, which a failed fit must leave as they were
    model = clone(model)
    if not engine.takes_blocks and (given.block is not None or given.features is not None):
        raise ParameterError(
            "block, features: name columns of files and frames, got arrays; pass "
            "release.align(blocks) as y"
        )
    if given.block is None and targets is None:
        if given.cluster is not None:
            raise ParameterError(
                "cluster: is for aggregated targets, got observed ones; leave it out"
            )
        placed = _observed(X, y, given, engine=engine, family=family, model=model)
        with computing():
            yield placed
        return
    X, names, sums = _features(X, given, model, own=own, n_threads=engine.options.n_threads)
    n, d = X.shape
    check_width(d)
    offset = given.offset
    if not engine.owns(offset):
        offset = check_offset(offset, n, family)
    tied: list[tuple[Blocks, Release | Tables]]
    if targets is None:
        tied = _beside(engine, given, n, as_releases(y))
    else:
        check_rows(targets, n)
        tied = [_tied(target, model.contextual) for target in targets]
    tied = [(blocks, prepare(release)) for blocks, release in tied]
    clusters: tuple[Clusters, ...] = ()
    if given.cluster is not None:
        clusters, codes = coded(named(given.cluster), n)
        tied = [(replace(b, others=(*b.others, *codes)), release) for b, release in tied]
    with computing():
        found = [(engine.rows(X, blocks, offset, sums), release) for blocks, release in tied]
        yield Placed(found, False, isinstance(y, list | tuple), d, names, clusters)


@contextmanager
def _in_parts(
    X: Any,
    y: Any,
    given: Given,
    *,
    engine: Engine,
    model: Any,
    prepare: Prepare,
    crossed: bool,
) -> Iterator[Placed]:
    """Place people who are in files or on a cluster."""
    several, tables = isinstance(y, list | tuple), tables_of(X, y, given.block)
    if several and given.observed is not None:
        raise ParameterError(
            "observed: is the outcome of one target, got a list of releases; fit them one by one"
        )
    context = _named(model.contextual)
    if context is not None:
        tables = [each.led_by(context) for each in tables]
    columns = _columns(X, tables[0], given)
    weighting = None if given.weights is None else given.weighting
    with engine.parts(X, columns) as parts, computing():
        by_cell = tables[0].several or bool(columns.clusters)
        surveyed = Surveyed.of(parts, crossed=crossed and by_cell)
        check_width(len(surveyed.whole.mean))
        if given.observed is not None and surveyed.known is None:
            warn_of_nobody("observed")
        people = engine.people(surveyed)
        found = []
        for each in tables:
            aligned = each.aligned(surveyed, weighting=weighting, disjoint=given.disjoint)
            found.append((people, prepare(aligned)))
        names = np.array(columns.features, dtype=object) if columns.features else None
        last = surveyed.whole.partitions[len(tables[0].releases) :]
        pairs = zip(columns.clusters, last, strict=True) if columns.clusters else ()
        clusters = tuple(Clusters(name, counted.blocks) for name, counted in pairs)
        yield Placed(found, False, several, people.n_features, names, clusters)


def _columns(X: Any, tables: ByColumn, given: Given) -> Columns:
    """Return the columns of files, or of a frame on a cluster, that are read."""
    for what in ("offset", "weights", "observed"):
        check_named(X, what, getattr(given, what))
    block, *others = tables.columns
    return as_columns(
        X,
        block,
        given.features,
        tuple(others),
        offset=given.offset,
        weights=given.weights,
        weighting=given.weighting,
        observed=given.observed,
        disjoint=given.disjoint,
        clusters=() if given.cluster is None else as_names(X, given.cluster),
    )


def target_in(X: Any, y: Mapping[Any, Any], given: Given) -> Target:
    """Return tables by column, tied to the rows of a frame."""
    tables, known = as_by_column(X, y, given.block), None
    values, where = column_in(X, "weights", given.weights)
    weights = check_weights(values, given.weighting, len(X), where=where)
    if given.observed is not None:
        values, where = column_in(X, "observed", given.observed)
        known = as_observed(values, disjoint=given.disjoint, where=where)
        if known.categories and not any(release.categories for release in tables.releases):
            raise CategoryError(
                f"{where}: must be numbers beside tables of numbers, got {known.categories[0]!r}; "
                "name another column"
            )
    return tables.target(X, weights, known)


def _beside(
    engine: Engine, given: Given, n: int, releases: Sequence[Release]
) -> list[tuple[Blocks, Release | Tables]]:
    """Return the blocks of rows whose ids came beside them, and what was published about each."""
    sampled = given.weighting == "survey"
    blocks, people = engine.blocks(given.block, n, given.weights, sampled=sampled)
    how = None if given.weights is None else given.weighting
    return [(blocks, each.align_to(blocks.names, people, weighting=how)) for each in releases]


def _observed(
    X: Any, y: Any, given: Given, *, engine: Engine, family: Family | None, model: Any
) -> Placed:
    """Place people whose targets were observed."""
    if not engine.takes_observed:
        raise EngineError(
            f"engine {engine.name!r}: fits aggregated targets, got observed ones; use "
            "engine='local'"
        )
    weights = given.sample_weight
    if isinstance(y, ObservedTarget | JoinedTarget):
        X, y, weights, given = _those_known(X, y, weights, given)
    y = refuse_masked(y, where="y")
    X, y = validate_data(model, X, y, dtype=np.float64, y_numeric=True)
    if weights is not None:
        weights = check_sample_weight(weights, len(X))
        kept = weights > 0
        offset = given.offset if given.offset is None else np.asarray(given.offset)[kept]
        X, y, weights, given = X[kept], y[kept], weights[kept], replace(given, offset=offset)
    refuse_huge(X, where="X")
    check_width(X.shape[1])
    y = as_floats(y, where="y", error=DomainError)
    y = TRANSFORMS[model.target_transform].observed(y)
    if family is not None:
        check_observed(y, family)
    offset = check_offset(given.offset, len(X), family)
    name, codes, size = np.array(["everybody"]), np.zeros(len(X), np.int64), np.array([len(X)])
    everybody = Blocks(name, codes, size, weights=weights, everybody=weights)
    people = engine.rows(X, everybody, offset)
    names = getattr(model, "feature_names_in_", None)
    return Placed([(people, y)], True, False, X.shape[1], names)


def _those_known(
    X: Any, y: ObservedTarget | JoinedTarget, weights: Any, given: Given
) -> tuple[Any, FloatArray, Any, Given]:
    """Return the rows whose outcome is known, these outcomes, and their weights and offset."""
    known = y if isinstance(y, ObservedTarget) else y.observed
    assert known is not None
    refuse_categories(known.categories)
    n = len(X) if isinstance(X, Sized) else X.shape[0]
    if len(known) != n:
        raise AlignmentError(
            f"y: {len(known)} outcomes were observed, X has {n} rows; say NaN where nobody knows"
        )
    rows = known.rows
    if not len(rows):
        raise DomainError("y: must hold outcomes, got NaN in every row; join tables to them")
    X = take_rows(X, rows)
    if weights is None and isinstance(y, JoinedTarget) and y.given:
        tied = y.given[0].weights
        weights = None if tied is None else tied.values
    weights = None if weights is None else as_floats(weights, where="sample_weight")[rows]
    offset = None if given.offset is None else as_floats(given.offset, where="offset")[rows]
    return X, known.values[rows], weights, replace(given, offset=offset)


def _features(
    X: Any, given: Given, model: Any, *, own: bool, n_threads: int
) -> tuple[Any, Any, ColumnSums | None]:
    """Return the features of people in memory, checked, their names, and sums of columns if made.

    ``own``: whether they are of a kind that only the engine knows.
    """
    if own:
        if given.features is None:
            return X, None, None
        named = as_columns(X, "block", given.features).features
        return X, np.array(named, dtype=object), None
    if is_wide(X):
        X = check_wide(X)
        names = X.get_names("column")
        known = all(name is not None for name in names)
        return X, np.array(names, dtype=object) if known else None, None
    X, sums = _checked(X, model, n_threads)
    return X, getattr(model, "feature_names_in_", None), sums


def _checked(X: Any, model: Any, n_threads: int) -> tuple[FloatArray, ColumnSums]:
    """Return features that are finite and not huge, and the sums that say so."""
    found: FloatArray = validate_data(model, X, dtype=np.float64, ensure_all_finite=False)
    sums = column_sums(found, weights=None, n_threads=n_threads)
    if not sums.within(LARGEST):
        validate_data(model, X, dtype=np.float64)  # raises of NaN, in scikit-learn's words
        refuse_huge(found, where="X")
    return found, sums


def _named(contextual: Any) -> str | None:
    """Return the table whose block means are the context, if one is named."""
    return contextual if isinstance(contextual, str) and contextual != "auto" else None


def _tied(target: Target, contextual: Any) -> tuple[Blocks, Release | Tables]:
    """Return the blocks of the rows of X, and what was published about them.

    The table that ``contextual`` names, if it names one, comes first.
    """
    named = _named(contextual)
    if isinstance(target, AggregatedTarget):
        if named not in (None, target.name):
            raise ParameterError(
                f"contextual: must be True, False, 'auto' or the name of a table, got {named!r}; "
                "the target has one table"
            )
        return _blocks(target), target.release
    if named is not None:
        target = target.led_by(check_choice("contextual", named, target.names))
    warn_of_disagreement(target.of_everybody, target.crossed)
    first, *others = target.tables
    blocks = _blocks(first, tuple(table.codes for table in others))
    if target.observed is None:
        return blocks, target.published
    given = target.given[0].weights
    everybody = None if given is None else given.values
    known = replace(blocks, known=target.observed.rows, everybody=everybody)
    return known, target.published


def _blocks(target: AggregatedTarget, others: tuple[IntArray, ...] = ()) -> Blocks:
    release, weights = target.release, target.weights
    if weights is None:  # as many rows as people
        return Blocks(release.blocks, target.codes, release.n.astype(np.int64), others)
    size, people = np.bincount(target.codes, minlength=len(release)), weights.values
    everybody = bool((people == 1).all() and (size == release.n).all())
    sampled = weights.sampled and not everybody
    return Blocks(release.blocks, target.codes, size, others, people, sampled, everybody=people)


def _prepared(release: Release | Tables, model: Any, family: Family | None) -> Release | Tables:
    """Return what was published on the modelled scale; raise if it leaves the family's domain."""
    refuse_categories((release.first if isinstance(release, Tables) else release).categories)
    transform, ends = TRANSFORMS[model.target_transform], model._ends()

    def prepared(release: Release) -> Release:
        check_ends(release, ends)
        release = transform.release(release)
        if family is not None:
            release.check_domain(family.domain, family=family.name)
        return release

    if not isinstance(release, Tables):
        return prepared(release)
    if release.known is not None:
        check_known(release.known.values, ends)
        values = transform.observed(release.known.values)
        if family is not None:
            check_observed(values, family)
        release = replace(release, known=replace(release.known, values=values))
    return release.changed(prepared)


@contextmanager
def computing() -> Iterator[None]:
    """Limit BLAS to one thread; explain errors from numbers out of range."""
    try:
        with one_blas_thread():
            yield
    except (np.linalg.LinAlgError, OverflowError, FloatingPointError) as error:
        raise FitError(
            f"fit: its numbers ran out of range, got {error}; look for outliers in the features, "
            "put them and the outcome into other units, merge bins, or add a ridge (alpha)"
        ) from error
