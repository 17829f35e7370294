"""Tables of the same people, given by the columns of X whose cells are their blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unbin._checks import check_choice
from unbin._frames import column, column_names, select_columns
from unbin.exceptions import (
    AggregatedTargetError,
    AlignmentError,
    CategoryError,
    ParameterError,
)
from unbin.fitting.inputs import Target, as_releases, check_features, warn_of_disagreement
from unbin.release import Release
from unbin.release.alignment import count_rows
from unbin.release.join import (
    Known,
    Tables,
    distinct_names,
    in_one_order,
    join,
    narrowed,
    without_known,
)
from unbin.release.observed import ObservedTarget
from unbin.release.target import AggregatedTarget
from unbin.release.weights import RowWeights
from unbin.rows.survey import Surveyed


@dataclass(frozen=True, slots=True)
class ByColumn:
    """One or several tables of the same people.

    Attributes
    ----------
    columns : tuple of tuples of str
        The columns whose cells are the blocks of each table. Of a single table also what
        ``block`` may be.
    releases : tuple of Release
    """

    columns: tuple[Any, ...]
    releases: tuple[Release, ...]

    @property
    def several(self) -> bool:
        """Whether there are several tables; people without an id are then outside a table."""
        return len(self.releases) > 1

    @property
    def names(self) -> tuple[str, ...]:
        """What the blocks of each table are called."""
        return distinct_names([_name(columns) for columns in self.columns])

    def aligned(
        self, people: Surveyed, *, weighting: str | None, disjoint: bool
    ) -> Release | Tables:
        """Return what was published about people who were read in parts.

        ``weighting`` is that of rows that stand for several people; ``disjoint``: the tables do not
        count the outcomes that are known.
        """
        # clusters, which are no table's, come last
        partitions, known = people.whole.partitions[: len(self.releases)], people.known
        found = tuple(
            release.align_to(counted.blocks, counted.people, weighting=weighting)
            for release, counted in zip(self.releases, partitions, strict=True)
        )
        if not self.several and known is None:
            return found[0]
        tables = in_one_order(Tables(self.names, found))
        if known is not None and tables.first.categories:
            raise CategoryError(
                "observed: outcomes of people in files must be numbers, got tables of categories; "
                "read the people into memory"
            )
        tables = narrowed(tables)
        warn_of_disagreement(tables)
        if known is None:
            return tables
        pairs = zip(partitions, known.blocks[: len(partitions)], strict=True)
        codes = tuple(np.searchsorted(counted.blocks, blocks) for counted, blocks in pairs)
        tables = replace(tables, known=Known(known.outcome, known.people, codes, disjoint=disjoint))
        if disjoint:
            return tables
        less = without_known(tables)
        if not any(release.has_statistics().any() for release in less.releases):
            raise AlignmentError(
                f"{' and '.join(self.names)}: the outcomes of all people that are counted are "
                "known, got nobody else; fit the outcomes themselves, as observed targets"
            )
        return less

    def led_by(self, name: str) -> ByColumn:
        """Return the same tables, that of this name first."""
        first = self.names.index(check_choice("contextual", name, self.names))
        order = [first, *(k for k in range(len(self.names)) if k != first)]
        columns, releases = ([each[k] for k in order] for each in (self.columns, self.releases))
        return ByColumn(tuple(columns), tuple(releases))

    def target(
        self, frame: Any, weights: RowWeights | None = None, known: ObservedTarget | None = None
    ) -> Target:
        """Return the tables, tied to the rows of a frame, and the outcomes that are known."""
        found: list[Any] = []
        outside, weighting = self.several or known is not None, None
        for name, columns, release in zip(self.names, self.columns, self.releases, strict=True):
            ids = {each: column(frame, each, role="y") for each in columns}
            blocks = ids if len(ids) > 1 else ids[columns[0]]
            seen, codes, rows = count_rows(blocks, outside=outside)
            people: Any = rows
            if weights is not None:
                people, weighting = weights.people(codes, len(seen)), weights.weighting
            aligned = release.align_to(seen, people, weighting=weighting)
            found.append(AggregatedTarget(aligned, codes, name, weights))
        if known is not None:
            found.append(known)
        return join(*found) if outside else found[0]


def tables_of(X: Any, y: Any, block: Any) -> list[ByColumn]:
    """Return the tables of ``fit`` to people in files or on a cluster, of every target."""
    if isinstance(y, Mapping):
        return [as_by_column(X, y, block)]
    return [ByColumn((block,), (release,)) for release in as_releases(y)]


def as_by_column(X: Any, y: Mapping[Any, Any], block: Any) -> ByColumn:
    """Return the tables of ``fit`` that were given by the columns of their blocks."""
    known = column_names(X)
    if known is None and not isinstance(X, str | Path):
        raise ParameterError(
            "y: tables by columns of X need files or a frame, got "
            f"{type(X).__name__}; pass one of these, or join(release.align(blocks), ...) as y"
        )
    if block is not None:
        raise ParameterError(
            "block: must be left out where y maps columns to tables, got both; leave it out"
        )
    if not y:
        raise AggregatedTargetError(
            "y: must map columns of X to tables, got none; pass {column: release}"
        )
    found: dict[tuple[str, ...], Release] = {}
    for key, release in y.items():
        columns = _as_columns(key)
        _check_known("y", columns, known)
        _check_table(key, release, found)
        found[columns] = release
    return ByColumn(tuple(found), tuple(found.values()))


def features_in(X: Any, features: Sequence[str] | None) -> Any:
    """Return the features of people in a frame."""
    check_features(features)
    names = list(features or ())
    _check_known("features", names, column_names(X))
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ParameterError(f"features: must differ, got {twice[0]!r} twice; list it once")
    return select_columns(X, names)


def column_in(X: Any, what: str, given: Any) -> tuple[Any, str]:
    """Return the column of a frame that is named, or values that were given, and their name."""
    if not isinstance(given, str):
        return given, what
    check_named(X, what, given)
    return column(X, given, role=what), f"{what}, column {given!r}"


def check_named(X: Any, what: str, given: Any) -> None:
    """Raise if a column of a frame is named that is not there."""
    if isinstance(given, str):
        _check_known(what, [given], column_names(X))


def _name(columns: Any) -> str:
    """Return what the blocks of a table are called, "" where their ids are an array."""
    if isinstance(columns, str):
        return columns
    return ", ".join(columns) if isinstance(columns, tuple) else ""


def _as_columns(key: Any) -> tuple[str, ...]:
    columns = key if isinstance(key, tuple) else (key,)
    if not columns or not all(isinstance(name, str) for name in columns):
        raise ParameterError(
            f"y: its keys must be names of columns, or tuples of them, got {key!r}; correct it"
        )
    if len(set(columns)) < len(columns):
        raise ParameterError(f"y: the columns of a table must differ, got {key!r}; name each once")
    return columns


def _check_table(key: Any, release: Any, found: Mapping[tuple[str, ...], Release]) -> None:
    """Raise unless a table is a release, of other blocks than those before it."""
    if not isinstance(release, Release):
        raise AggregatedTargetError(
            f"y[{key!r}]: must be a release, got {type(release).__name__}; pass the release "
            "itself, its blocks are joined by the column"
        )
    for columns, other in found.items():
        before = columns if len(columns) > 1 else columns[0]
        if set(columns) == set(_as_columns(key)):
            raise ParameterError(
                f"y: every table must have columns of its own, got {before!r} and {key!r}; leave "
                "one out, or combine() the two releases"
            )
        if other is release:
            raise ParameterError(
                f"y: {before!r} and {key!r} are the same table, got it twice; pass it once"
            )


def _check_known(what: str, names: Sequence[str], known: Sequence[str] | None) -> None:
    """Raise unless columns of a frame are there; those of files are looked up by their reader."""
    missing = [] if known is None else [name for name in names if name not in known]
    if known is not None and missing:
        raise ParameterError(
            f"{what}: must name columns of X, got {missing[0]!r}, X has "
            f"{', '.join(map(repr, known[:10]))}; check its name"
        )
