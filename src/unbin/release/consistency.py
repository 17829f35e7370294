"""Whether several tables of the same people can be true together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from unbin._typing import FloatArray, IntArray
from unbin.release.cuts import Cuts, cuts_of, difference_text, range_text, slots_of
from unbin.release.nesting import Member, Nest, find_nests
from unbin.release.words import plural

if TYPE_CHECKING:
    from unbin.release.join import Tables
    from unbin.release.release import Release

T = TypeVar("T")
NOISE_SDS = 4.0
"""Standard deviations by which noise may have moved a sum of counts."""
_ALL_PAIRS = 12
"""Tables of which every pair is compared; of more, each with the first and with its neighbour."""
_MOST_DECIMALS = 12


@dataclass(frozen=True, slots=True)
class Disagreement:
    """What two tables say that cannot both be true.

    Attributes
    ----------
    text : str
        Both tables and both numbers, in a sentence.
    size : float
        By how much they differ at least, as a share.
    """

    text: str
    size: float


@dataclass(frozen=True, slots=True)
class TablesCheck:
    """Whether tables of the same people contradict each other.

    Attributes
    ----------
    names : tuple of str
    people : tuple of int
        How many people each table counts; the others are outside it.
    n_people : int
        People that the rows of X stand for.
    disagreements : tuple of str
        A sentence for each, worst first.
    notes : tuple of str
        Who these people are, where they are not the rows of X.
    """

    names: tuple[str, ...]
    people: tuple[int, ...]
    n_people: int
    disagreements: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether the tables agree."""
        return not self.disagreements

    def sentences(self) -> tuple[str, ...]:
        """Return what was found, most important last."""
        told = []
        for name, people in zip(self.names, self.people, strict=True):
            some = f"{people:,} of {self.n_people:,}"
            share = f"all {people:,}" if people == self.n_people else some
            told.append(f"{name} counts {share} people")
        told += self.notes
        if self.disagreements:
            told.append(f"{plural(len(self.disagreements), 'disagreement')} between the tables")
            told += self.disagreements[:5]
        agreed = "the tables agree" if len(self.names) > 1 else "nothing contradicts the table"
        told.append(agreed if self.ready else "the tables contradict each other")
        return tuple(told)

    def __str__(self) -> str:
        return "\n".join(self.sentences())


def check_tables(tables: Tables, codes: Sequence[IntArray] | None = None) -> TablesCheck:
    """Compare tables of the same people: counts between common cuts, and means.

    Parameters
    ----------
    tables : Tables
        Aligned with the same people.
    codes : sequence of (n,), optional
        The block of each row in each table. Without them only totals over everybody are compared.
    """
    people = [int(release.n[release.has_statistics()].sum()) for release in tables.releases]
    everybody = max(int(release.n.sum()) for release in tables.releases)
    found = sorted(_disagreements(tables, codes), key=lambda each: -each.size)
    told = tuple(dict.fromkeys(each.text for each in found))
    return TablesCheck(tables.names, tuple(people), everybody, told)


def disagreement(tables: Tables, codes: Sequence[IntArray] | None = None) -> str | None:
    """Return the worst disagreement of tables of the same people; None if they agree."""
    found = max(_disagreements(tables, codes), key=lambda each: each.size, default=None)
    return None if found is None else found.text


def _disagreements(tables: Tables, codes: Sequence[IntArray] | None) -> Iterator[Disagreement]:
    for nest in find_nests(tables, codes):
        sums = [_Sums.of(tables, nest, member) for member in nest.members]
        for a, b in _pairs([each for each in sums if each is not None]):
            yield from _compare_counts(nest, a, b)
        means = [_Means.of(tables, nest, member) for member in nest.members]
        for c, d in _pairs([each for each in means if each is not None]):
            yield from _compare_means(nest, c, d)


def _pairs(items: list[T]) -> Iterator[tuple[T, T]]:
    if len(items) <= _ALL_PAIRS:
        yield from combinations(items, 2)
    else:
        yield from ((items[0], other) for other in items[1:])
        yield from pairwise(items[1:])


# -- counts ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sums:
    """The counts of a table, added up to the groups of a nest."""

    name: str
    release: Release
    member: Member
    cuts: Cuts
    people: IntArray

    @classmethod
    def of(cls, tables: Tables, nest: Nest, member: Member) -> _Sums | None:
        release = tables.releases[member.table]
        cuts = cuts_of(release)
        if cuts is None:
            return None
        return cls(tables.names[member.table], release, member, cuts, nest.people)

    def between(self, cuts: Cuts) -> _Ranges:
        """Return the least and the most people up to every cut, and between neighbouring ones."""
        table, shape = self.release.histogram, (len(self.people), len(cuts.values) - 1)
        slots = slots_of(self.release, self.member, shape[0], cuts)
        low, high = (ends.reshape(shape) for ends in slots.sums(*table.interval()))
        if self.release.noise_sd == 0:
            return _Ranges(*_with_people(_ranges(low), _ranges(high), self.people), 0.0)
        cells = slots.add(np.ones(len(table.count))).reshape(shape)
        margin = NOISE_SDS * self.release.noise_sd * np.sqrt(_ranges(cells))
        return _Ranges(_ranges(low), _ranges(high), margin)


@dataclass(frozen=True, slots=True)
class _Ranges:
    """People of ranges, each (G, 2 K - 1): K - 1 cuts, then the K ranges between them."""

    low: FloatArray
    high: FloatArray
    margin: FloatArray | float


def _ranges(values: FloatArray) -> FloatArray:
    return np.hstack([np.cumsum(values, axis=1)[:, :-1], values])


def _with_people(
    low: FloatArray, high: FloatArray, people: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Use the people of each group: who is not outside a range is inside it."""
    n_ranges = (low.shape[1] + 1) // 2
    total = [ends[:, n_ranges - 1 :].sum(axis=1, keepdims=True) for ends in (low, high)]
    n = people[:, None]
    return np.maximum(low, n - (total[1] - high)), np.minimum(high, n - (total[0] - low))


def _compare_counts(nest: Nest, a: _Sums, b: _Sums) -> Iterator[Disagreement]:
    """Yield, for every group, the range in which two tables differ most, if they do."""
    cuts = a.cuts.common(b.cuts)
    if cuts is None:
        return
    one, other = a.between(cuts), b.between(cuts)
    gap = np.maximum(one.low - other.high, other.low - one.high) - one.margin - other.margin
    n_cuts = len(cuts.values) - 2
    for g in np.flatnonzero(gap.max(axis=1) > 1e-6):
        j = int(np.argmax(gap[g]))
        first, last = (0, j + 1) if j < n_cuts else (j - n_cuts, j - n_cuts + 1)
        text = difference_text(
            nest.groups[g],
            range_text(cuts, first, last),
            (a.name, one.low[g, j], one.high[g, j]),
            (b.name, other.low[g, j], other.high[g, j]),
        )
        yield Disagreement(text, float(gap[g, j] / nest.people[g]))


# -- means -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Means:
    """The mean of every group that the means of a table make, and by how much it may be off."""

    name: str
    mean: FloatArray
    margin: FloatArray

    @classmethod
    def of(cls, tables: Tables, nest: Nest, member: Member) -> _Means | None:
        release = tables.releases[member.table]
        if release.means is None:
            return None
        inside = member.group >= 0
        group, n, means = member.group[inside], release.n[inside], release.means[inside]
        total = np.bincount(group, n * means, len(nest.people))  # NaN where one is not known
        mean = total / nest.people
        size = np.bincount(group, n * np.abs(np.nan_to_num(means)), len(nest.people)) / nest.people
        half = _rounding_unit(means[np.isfinite(means)]) / 2
        return cls(tables.names[member.table], mean, half + 1e-9 * size)


def _rounding_unit(means: FloatArray) -> float:
    """Return the power of ten to which all means were rounded, 0 if they were not."""
    for decimals in range(-3, _MOST_DECIMALS + 1):
        if np.allclose(np.round(means, decimals), means, rtol=1e-14, atol=0.0):
            return float(10.0**-decimals)
    return 0.0


def _compare_means(nest: Nest, a: _Means, b: _Means) -> Iterator[Disagreement]:
    gap = np.abs(a.mean - b.mean) - a.margin - b.margin
    for g in np.flatnonzero(gap > 0):  # NaN is not
        place = f"in {nest.groups[g]}, " if nest.groups[g] else ""
        text = (
            f"{place}the means of {a.name} make a mean of {a.mean[g]:.6g} of all their people, "
            f"those of {b.name} {b.mean[g]:.6g}"
        )
        yield Disagreement(text, float(gap[g] / max(abs(a.mean[g]), abs(b.mean[g]))))
