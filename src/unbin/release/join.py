"""Several tables of the same people, each with a partition of its own, as one target."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from unbin._checks import check_choice, check_flag
from unbin._html import described
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.exceptions import (
    AggregatedTargetError,
    AlignmentError,
    AlignmentWarning,
    ParameterError,
    ReleaseError,
    SplitBlockError,
)
from unbin.release.bounds import tighten
from unbin.release.categories import check_same, recoded
from unbin.release.consistency import TablesCheck, check_tables
from unbin.release.observed import ObservedTarget
from unbin.release.removal import without_people
from unbin.release.scaling import rake_to_first
from unbin.release.target import NO_VALUES, AggregatedTarget
from unbin.release.weights import RowWeights
from unbin.release.words import people_text, plural

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
    known : Known or None
        People whose outcome is known.
    """

    names: tuple[str, ...]
    releases: tuple[Release, ...]
    known: Known | None = None

    @property
    def first(self) -> Release:
        """The table whose blocks the rows are laid out by."""
        return self.releases[0]

    def changed(self, change: Callable[[Release], Release]) -> Tables:
        """Return the tables, each changed in the same way."""
        return replace(self, releases=tuple(change(release) for release in self.releases))


@dataclass(frozen=True, slots=True)
class Known:
    """People whose outcome is known.

    Attributes
    ----------
    values, people : (m,)
        The outcome of each row, and how many people it stands for.
    codes : tuple of (m,)
        Their block in each table.
    rows : (m,) or None
        Of X, where that is in memory.
    disjoint : bool
        Whether no table counted these outcomes.
    """

    values: FloatArray
    people: FloatArray
    codes: tuple[IntArray, ...]
    rows: IntArray | None = None
    disjoint: bool = False


class JoinedTarget:
    """Tables of the same people, aligned with the rows of X, and outcomes that are known.

    Attributes
    ----------
    tables : tuple of AggregatedTarget
        Each with the block of every row in its own partition. They count those people whose outcome
        is not known; the others have a weight of 0, unless all of their block are known or the
        rows are a sample.
    names : tuple of str
        What the blocks of each table are called, each name once.
    observed : ObservedTarget or None
    given : tuple of AggregatedTarget
        The tables of everybody.
    """

    def __init__(
        self,
        tables: tuple[AggregatedTarget, ...],
        observed: ObservedTarget | None = None,
        given: tuple[AggregatedTarget, ...] | None = None,
    ) -> None:
        self.tables = _check_tables(tables, observed)
        self.names = distinct_names([table.name for table in tables])
        self.observed = observed
        self.given = tables if given is None else given

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
        releases = tuple(table.release for table in self.tables)
        return Tables(self.names, releases, self._known())

    def _known(self) -> Known | None:
        if self.observed is None or not self.observed.known.any():
            return None
        rows, weights = self.observed.rows, self.given[0].weights
        people = np.ones(len(rows))
        if weights is not None and not weights.sampled:
            people = weights.values[rows]
        codes = tuple(c[rows] for c in self.codes)
        values, disjoint = self.observed.values[rows], self.observed.disjoint
        return Known(values, people, codes, rows, disjoint)

    @property
    def codes(self) -> tuple[IntArray, ...]:
        """The block of each row in each table, as a position in its blocks."""
        return tuple(table.codes for table in self.tables)

    def check(self) -> TablesCheck:
        """Report whether the tables agree: people of each, counts of common bins, means.

        They are compared as they were published, before people whose outcome is known are taken out
        of them.
        """
        if not self.tables:
            raise ParameterError("check: compares tables, got none; join aligned tables")
        return replace(check_tables(self.of_everybody, self.crossed), notes=self._notes())

    @property
    def of_everybody(self) -> Tables:
        """What was published, before people whose outcome is known are taken out."""
        return Tables(self.names, tuple(table.release for table in self.given))

    def _notes(self) -> tuple[str, ...]:
        """Say for whom the rows stand, and whose outcome is known."""
        notes, weights = [], self.given[0].weights
        if weights is not None:
            who = f"{plural(len(self), 'row')} of X{', a sample,' if weights.sampled else ''}"
            notes.append(f"{who} stand for these people")
        known = self._known()
        if known is not None and self.observed is not None:
            who = people_text(round(known.people.sum()))
            counted = "no table counts it" if self.observed.disjoint else "they are taken out"
            notes.append(f"the outcome of {who} is known; {counted}")
        return tuple(notes)

    @property
    def crossed(self) -> tuple[IntArray, ...] | None:
        """The codes, if the rows show how blocks overlap: a sample does not."""
        weights = self.tables[0].weights if self.tables else None
        return None if weights is not None and weights.sampled else self.codes

    def table(self, name: str) -> AggregatedTarget:
        """Return the table of that name."""
        return self.tables[self.names.index(check_choice("table", name, self.names))]

    def led_by(self, name: str) -> JoinedTarget:
        """Return the same tables, that of this name first."""
        first = self.names.index(check_choice("table", name, self.names))
        order = [first, *(k for k in range(len(self.tables)) if k != first)]
        tables, given = (tuple(each[k] for k in order) for each in (self.tables, self.given))
        return JoinedTarget(tables, self.observed, given)

    def without(self, hidden: Sequence[BoolArray]) -> JoinedTarget:
        """Return the target with nothing said of some blocks of each table (B,).

        Their people stay in X, and in the other tables. A table of which nothing is left is left
        out.
        """

        def less(tables: tuple[AggregatedTarget, ...]) -> tuple[AggregatedTarget, ...]:
            return tuple(
                AggregatedTarget(table.release.without(mask), table.codes, name, table.weights)
                for table, name, mask in zip(tables, self.names, hidden, strict=True)
                if not mask.all()
            )

        return JoinedTarget(less(self.tables), self.observed, less(self.given))

    def __len__(self) -> int:
        return len(self.tables[0] if self.tables else self.observed or ())

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
        if self.observed is not None:
            lines.append(f"  {self.observed!r}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return described(repr(self))


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return a name per table: the one it has, numbered where there is none or it comes again."""
    found: list[str] = []
    for k, name in enumerate(names, 1):
        wanted = name or f"table {k}"
        found.append(wanted if wanted not in found else f"{wanted} ({k})")
    return tuple(found)


def join(
    *targets: AggregatedTarget | JoinedTarget | ObservedTarget,
    scale: bool = False,
    disjoint: bool = False,
) -> JoinedTarget:
    """Join aligned tables of the same people, and outcomes that are known, to one target.

    Hidden counts are narrowed by what the other tables count. Tables that contradict each other are
    joined all the same; ``target.check()`` says where they do.

    Parameters
    ----------
    *targets : AggregatedTarget, or ObservedTarget
        ``release.align(blocks)`` of each table, with the blocks of its own partition: county, sex,
        age group. People outside a table are rows of a block that it says nothing about
        (``align(..., on_missing="drop")``). Where rows stand for several people, all tables have
        the same weights. ``observed(y)`` for people whose outcome is known. Tables of categories
        have the same ones, and get them in the same order.
    scale : bool
        Rake tables that contradict the first one to its counts between common edges, and report by
        how much. (``align(blocks, scale=True)`` rescales a table to the rows of X.)
    disjoint : bool
        The tables do not count the known outcomes; see ``observed``.

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
    tables, known = _flat(targets, disjoint=check_flag("disjoint", disjoint))
    target = JoinedTarget(*_alike(tables, known))
    if not tables:
        return target
    if check_flag("scale", scale):
        if target.crossed is None:
            raise ParameterError(
                "scale: needs everybody's blocks in both tables, got a sample; rake the tables "
                "before they are joined"
            )
        target = _with(target, rake_to_first(target.published, target.codes))
    published = target.published
    changed = narrowed(published, target.crossed)
    target = target if changed is published else _with(target, changed)
    return _less_known(target)


def _flat(
    targets: Sequence[Any], *, disjoint: bool
) -> tuple[tuple[AggregatedTarget, ...], ObservedTarget | None]:
    """Return all tables, as they were before anybody was taken out, and what is known."""
    tables: list[AggregatedTarget] = []
    known: list[ObservedTarget] = []
    for target in targets:
        if isinstance(target, JoinedTarget):
            tables += target.given
            known += [] if target.observed is None else [target.observed]
        elif isinstance(target, ObservedTarget):
            known.append(target)
        else:
            tables.append(target)
    if len(known) > 1:
        raise ParameterError(
            f"join: takes one target of observed people, got {len(known)}; put their outcomes into "
            "one array"
        )
    if disjoint and not known:
        raise ParameterError(
            "disjoint: is about outcomes that are known, got tables only; add unbin.observed(y)"
        )
    if known and disjoint:
        values, names = known[0].values, known[0].categories
        known = [ObservedTarget(values, disjoint=True, categories=names)]
    return tuple(tables), known[0] if known else None


def _alike(
    tables: tuple[AggregatedTarget, ...], known: ObservedTarget | None
) -> tuple[tuple[AggregatedTarget, ...], ObservedTarget | None]:
    """Return tables of categories, and what is known, with these in one order."""
    if not tables or not all(isinstance(table, AggregatedTarget) for table in tables):
        return tables, known
    published = in_one_order(
        Tables(distinct_names([each.name for each in tables]), tuple(t.release for t in tables))
    )
    changed = tuple(
        old if release is old.release else old.with_release(release)
        for release, old in zip(published.releases, tables, strict=True)
    )
    return changed, None if known is None else known.recoded(published.first.categories)


def in_one_order(tables: Tables) -> Tables:
    """Return tables of categories with these in one order; raise if they have others."""
    orders = [release.categories for release in tables.releases]
    names = check_same(tables.names, orders)
    return tables.changed(lambda release: recoded(release, names))


def _less_known(target: JoinedTarget) -> JoinedTarget:
    """Take people whose outcome is known out of what the tables count."""
    known = target.observed
    if known is None or known.disjoint or not known.known.any():
        return target
    weights = target.tables[0].weights
    if weights is None or not weights.sampled:
        if known.known.all():  # nobody is left for the tables to tell of
            return JoinedTarget((), known, target.tables)
        left = np.ones(len(target)) if weights is None else weights.values.copy()
        left[known.rows] = 0.0
        weights = RowWeights(left)
    pairs = zip(without_known(target.published).releases, target.tables, strict=True)
    found = (AggregatedTarget(less, old.codes, old.name, weights) for less, old in pairs)
    return JoinedTarget(tuple(found), known, target.tables)


def without_known(tables: Tables) -> Tables:
    """Return tables that do not count the people whose outcome is known."""
    known = tables.known
    assert known is not None
    people = np.rint(known.people)
    if (people != known.people).any():
        raise ParameterError(
            "observed: a row whose outcome is known must stand for a whole number of people, got "
            f"{known.people[people != known.people][0]:g}; correct its weight"
        )
    told = known.values, people.astype(np.int64)
    found = zip(tables.releases, known.codes, tables.names, strict=True)
    less = tuple(without_people(release, codes, *told, name) for release, codes, name in found)
    return replace(tables, releases=less)


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
        old if release is old.release else old.with_release(release) for release, old in pairs
    )
    return JoinedTarget(tuple(changed), target.observed)


def _check_tables(
    tables: tuple[AggregatedTarget, ...], observed: ObservedTarget | None
) -> tuple[AggregatedTarget, ...]:
    if not tables and observed is None:
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
        if not _same_weights(tables[0].weights, table.weights):
            raise ParameterError(
                f"join: the rows must stand for the same people in every table, got other weights "
                f"in table {k + 1} than in the first; pass the same weights to every align()"
            )
    if tables and observed is not None and len(observed) != len(tables[0]):
        raise AlignmentError(
            f"join: observed outcomes must have one value per row of X, got {len(observed)} beside "
            f"tables of {len(tables[0])} rows; say NaN where nobody knows"
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


def _same_weights(one: RowWeights | None, other: RowWeights | None) -> bool:
    return other is None if one is None else one is other or one.same(other)


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
