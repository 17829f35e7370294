"""Tables of the same people, given by the columns of X whose cells are their blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbin._checks import check_choice
from unbin._frames import column, column_names, select_columns
from unbin.exceptions import AggregatedTargetError, ParameterError
from unbin.fitting.inputs import Target, as_releases, check_features, warn_of_disagreement
from unbin.release import Release
from unbin.release.alignment import count_rows
from unbin.release.join import Tables, distinct_names, join, narrowed
from unbin.release.target import AggregatedTarget
from unbin.rows.survey import Counted


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
        return distinct_names([", ".join(columns) for columns in self.columns])

    def aligned(self, partitions: Sequence[Counted]) -> Release | Tables:
        """Return what was published about the people of these partitions."""
        found = tuple(
            release.align_to(counted.blocks, counted.rows)
            for release, counted in zip(self.releases, partitions, strict=True)
        )
        if not self.several:
            return found[0]
        tables = narrowed(Tables(self.names, found))
        warn_of_disagreement(tables)
        return tables

    def led_by(self, name: str) -> ByColumn:
        """Return the same tables, that of this name first."""
        first = self.names.index(check_choice("contextual", name, self.names))
        order = [first, *(k for k in range(len(self.names)) if k != first)]
        columns, releases = ([each[k] for k in order] for each in (self.columns, self.releases))
        return ByColumn(tuple(columns), tuple(releases))

    def target(self, frame: Any) -> Target:
        """Return the tables, tied to the rows of a frame."""
        found = []
        for name, columns, release in zip(self.names, self.columns, self.releases, strict=True):
            ids = {each: column(frame, each, role="y") for each in columns}
            blocks = ids if len(ids) > 1 else ids[columns[0]]
            seen, codes, rows = count_rows(blocks, outside=self.several)
            found.append(AggregatedTarget(release.align_to(seen, rows), codes, name))
        return join(*found) if self.several else found[0]


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


def features_in(X: Any, features: Sequence[str] | None, offset: Any) -> tuple[Any, Any]:
    """Return the features of people in a frame, and their offset if it names a column."""
    check_features(features)
    names, known = list(features or ()), column_names(X)
    _check_known("features", names, known)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ParameterError(f"features: must differ, got {twice[0]!r} twice; list it once")
    if isinstance(offset, str):
        _check_known("offset", [offset], known)
        offset = column(X, offset, role="offset")
    return select_columns(X, names), offset


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
