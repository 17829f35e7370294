"""Several tables of the same people, each with a partition of its own, as one target."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from unbin._checks import check_choice, check_flag
from unbin._typing import BoolArray, IntArray
from unbin.exceptions import (
    AggregatedTargetError,
    AlignmentError,
    AlignmentWarning,
    ParameterError,
    ReleaseError,
    SplitBlockError,
)
from unbin.release.bounds import tighten
from unbin.release.consistency import TablesCheck, check_tables
from unbin.release.scaling import rake_to_first
from unbin.release.target import NO_VALUES, AggregatedTarget

if TYPE_CHECKING:
    from unbin.release.release import Release


@dataclass(frozen=True, slots=True)
class Tables:
    """What was published of the same people, each table with a partition of its own.

    Attributes
    ----------
    names : tuple of str
        What the blocks of each table are called, each name once.
    releases : tuple of Release
        Aligned.
    """

    names: tuple[str, ...]
    releases: tuple[Release, ...]

    @property
    def first(self) -> Release:
        """The table whose blocks the rows are laid out by."""
        return self.releases[0]

    def changed(self, change: Callable[[Release], Release]) -> Tables:
        """Return the tables, each changed in the same way."""
        return Tables(self.names, tuple(change(release) for release in self.releases))


class JoinedTarget:
    """Tables of the same people, aligned with the rows of X.

    Attributes
    ----------
    tables : tuple of AggregatedTarget
        Each with the block of every row in its own partition.
    names : tuple of str
        What the blocks of each table are called, each name once.
    """

    def __init__(self, tables: tuple[AggregatedTarget, ...]) -> None:
        self.tables = _check_tables(tables)
        self.names = distinct_names([table.name for table in tables])

    @property
    def shape(self) -> tuple[int]:
        """Number of rows, as numpy spells it."""
        return (len(self),)

    @property
    def ndim(self) -> int:
        """Always 1."""
        return 1

    @property
    def published(self) -> Tables:
        """What was published, without the rows it is tied to."""
        return Tables(self.names, tuple(table.release for table in self.tables))

    @property
    def codes(self) -> tuple[IntArray, ...]:
        """The block of each row in each table, as a position in its blocks."""
        return tuple(table.codes for table in self.tables)

    def check(self) -> TablesCheck:
        """Report whether the tables agree: people of each, counts of common bins, means."""
        return check_tables(self.published, self.codes)

    def table(self, name: str) -> AggregatedTarget:
        """Return the table of that name."""
        return self.tables[self.names.index(check_choice("table", name, self.names))]

    def led_by(self, name: str) -> JoinedTarget:
        """Return the same tables, that of this name first."""
        first = self.table(name)
        return JoinedTarget((first, *(table for table in self.tables if table is not first)))

    def without(self, hidden: Sequence[BoolArray]) -> JoinedTarget:
        """Return the target with nothing said of some blocks of each table (B,).

        Their people stay in X, and in the other tables. A table of which nothing is left is left
        out.
        """
        tables = [
            AggregatedTarget(table.release.without(mask), table.codes, name)
            for table, name, mask in zip(self.tables, self.names, hidden, strict=True)
            if not mask.all()
        ]
        return JoinedTarget(tuple(tables))

    def __len__(self) -> int:
        return len(self.tables[0])

    def __getitem__(self, key: Any) -> NoReturn:
        """Refuse: the rows of a block in one table are in several blocks of the others."""
        raise SplitBlockError(
            "rows: tables of the same people cannot be split by rows, every row counts in all of "
            f"the {len(self.tables)} tables; leave out blocks of a table with "
            "unbin.cross_validate(model, X, target)"
        )

    def __iter__(self) -> Iterator[NoReturn]:
        raise AggregatedTargetError(NO_VALUES)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AggregatedTargetError(NO_VALUES)

    def __repr__(self) -> str:
        lines = [f"JoinedTarget: {len(self):,} rows, {len(self.tables)} tables"]
        for name, table in zip(self.names, self.tables, strict=True):
            head, *rest = repr(table.release).splitlines()
            lines += [f"  {name}: {head}", *(f"  {line}" for line in rest)]
        return "\n".join(lines)


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return a name per table: the one it has, numbered where there is none or it comes again."""
    found: list[str] = []
    for k, name in enumerate(names, 1):
        wanted = name or f"table {k}"
        found.append(wanted if wanted not in found else f"{wanted} ({k})")
    return tuple(found)


def join(*targets: AggregatedTarget | JoinedTarget, scale: bool = False) -> JoinedTarget:
    """Join aligned tables of the same people to one target.

    Hidden counts are narrowed by what the other tables count. Tables that contradict each other
    are joined all the same; ``target.check()`` names where.

    Parameters
    ----------
    *targets : AggregatedTarget
        ``release.align(blocks)`` of each table, with the blocks of its own partition: county, sex,
        age group. People outside a table are rows of a block that it says nothing about
        (``align(..., on_missing="drop")``).
    scale : bool
        Rake tables that contradict the first one to what it counts between common edges, and say
        by how much. (``align(blocks, scale=True)`` rescales a table to the rows of X.)

    Returns
    -------
    JoinedTarget
        To be passed as ``y``.

    Examples
    --------
    >>> import numpy as np, unbin
    >>> county, sex = np.repeat(["a", "b"], 4), np.tile(["f", "m"], 4)
    >>> y = np.arange(8.0)
    >>> by_county = unbin.aggregate(y, county, bins=2).align(county)
    >>> by_sex = unbin.aggregate(y, sex, bins=2).align(sex)
    >>> len(unbin.join(by_county, by_sex).tables)
    2
    """
    tables: list[AggregatedTarget] = []
    for target in targets:
        tables += target.tables if isinstance(target, JoinedTarget) else [target]
    target = JoinedTarget(tuple(tables))
    if check_flag("scale", scale):
        target = _with(target, rake_to_first(target.published, target.codes))
    published = target.published
    changed = narrowed(published, target.codes)
    return target if changed is published else _with(target, changed)


def narrowed(tables: Tables, codes: Sequence[IntArray] | None = None) -> Tables:
    """Return tables whose hidden counts are narrowed by what the others count.

    ``codes`` are the blocks of each row in each table; people in files have none.
    """
    try:
        return tighten(tables, codes)
    except ReleaseError as error:
        warnings.warn(
            f"join: hidden counts were not narrowed; {error}", AlignmentWarning, stacklevel=3
        )
        return tables


def _with(target: JoinedTarget, tables: Tables) -> JoinedTarget:
    """Return the target with other releases of the same blocks."""
    pairs = zip(tables.releases, target.tables, strict=True)
    changed = (
        old if release is old.release else AggregatedTarget(release, old.codes, old.name)
        for release, old in pairs
    )
    return JoinedTarget(tuple(changed))


def _check_tables(tables: tuple[AggregatedTarget, ...]) -> tuple[AggregatedTarget, ...]:
    if not tables:
        raise ParameterError("join: needs aligned tables, got none; pass release.align(blocks)")
    for k, table in enumerate(tables):
        if not isinstance(table, AggregatedTarget):
            raise ParameterError(
                f"join: table {k + 1} must be an aligned release, got {type(table).__name__}; pass "
                "release.align(blocks)"
            )
        if len(table) != len(tables[0]):
            raise AlignmentError(
                f"join: the tables must be of the same people, got {len(tables[0])} rows in the "
                f"first and {len(table)} in table {k + 1}; align all of them with the rows of X"
            )
    seen: dict[bytes, list[int]] = {}
    for k, table in enumerate(tables):
        alike = seen.setdefault(_numbers(table.release), [])
        for j in alike:
            if np.array_equal(tables[j].codes, table.codes):
                raise ParameterError(
                    f"join: tables must be different, got the same one as table {j + 1} and table "
                    f"{k + 1}; pass it once"
                )
        alike.append(k)
    return tables


def _numbers(release: Release) -> bytes:
    """Return a digest of what was published, whoever it is about."""
    histogram, order = release.histogram, release.order_statistics
    digest = sha256()
    for values in (
        histogram.start, histogram.lower, histogram.upper, *histogram.interval(), order.start,
        order.rank, order.value, np.zeros(0) if release.means is None else release.means,
    ):  # fmt: skip
        digest.update(np.int64(len(values)).tobytes())
        digest.update(np.ascontiguousarray(values).data)
    return digest.digest()
