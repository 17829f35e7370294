"""Whether a release and the rows of X are about the same blocks and people."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unbin._frames import OUTSIDE, as_text
from unbin._typing import ArrayLike, BoolArray, IntArray, TextArray
from unbin.exceptions import AlignmentError, AlignmentWarning
from unbin.release import tables
from unbin.release.intervals import possible_people, uncertain_blocks
from unbin.release.weights import check_weights, far_off, whole_people
from unbin.release.words import plural

if TYPE_CHECKING:
    from unbin.release.release import Release


def find_blocks(known: TextArray, wanted: TextArray) -> IntArray:
    """Return where each wanted block is among the known ones; both are sorted and distinct."""
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    unknown = known[place] != wanted
    if unknown.any():
        raise _unknown_blocks(known, wanted[unknown])
    return np.asarray(place)


def check_all_present(blocks: TextArray, published: BoolArray, place: IntArray) -> None:
    """Raise if a published block has no rows."""
    absent = published.copy()
    absent[place] = False
    if absent.any():
        raise AlignmentError(
            f"block {str(blocks[np.argmax(absent)])!r}: released, but no row of X is in it, got "
            f"{plural(int(absent.sum()), 'such block')}; select() the blocks of X or add the "
            "missing people"
        )


@dataclass(frozen=True, slots=True)
class Totals:
    """People of each block: what the release says (at least, at most) and the rows of X.

    Attributes
    ----------
    blocks : (B,) text
    least, most : (B,)
        Equal where the number of people was published or all counts are exact.
    known : (B,) bool
        Blocks of which the release says anything about the number of people.
    rows : (B,)
    rounded : bool
        Whether all published counts are multiples of 5.
    weighed : bool
        Whether rows stand for several people, and ``rows`` are these.
    """

    blocks: TextArray
    least: IntArray
    most: IntArray
    known: BoolArray
    rows: IntArray
    rounded: bool
    weighed: bool = False

    @classmethod
    def of(cls, release: Release, rows: IntArray, *, weighed: bool = False) -> Totals:
        """Compare the people of a release, block by block, with the rows of X."""
        least, most = possible_people(release.histogram)
        given, count = release.n > 0, release.histogram.count
        return cls(
            release.blocks,
            np.where(given, release.n, least),
            np.where(given, release.n, most),
            release.knows_people() | uncertain_blocks(release.histogram),
            rows,
            bool(len(count) and (count % 5 == 0).all()),
            weighed,
        )

    @property
    def off(self) -> BoolArray:
        """Blocks whose people cannot be the rows of X."""
        return self.known & ((self.rows < self.least) | (self.rows > self.most))

    def nearest(self) -> IntArray:
        """Return the people of each block that the release allows, nearest to the rows of X."""
        within = np.clip(self.rows, self.least, self.most)
        return np.where(self.known, within, self.rows)

    def worst(self, size: int = 3) -> IntArray:
        """Return the blocks that are furthest off, worst first."""
        gap = np.maximum(self.least - self.rows, self.rows - self.most)
        order = np.argsort(-np.where(self.off, gap, -1), kind="stable")[:size]
        return np.asarray(order[self.off[order]])

    def told(self, b: int) -> str:
        """Return what the release and X say about a block."""
        people = f"{self.least[b]:,}"
        if self.least[b] != self.most[b]:
            people += f" to {self.most[b]:,}"
        told = f"block {str(self.blocks[b])!r}: the release counts {people} people, "
        if self.weighed:
            return f"{told}the rows of X stand for {int(self.rows[b]):,}"
        return f"{told}X has {plural(int(self.rows[b]), 'row')}"

    def likely_cause(self) -> str:
        """Return what probably went wrong, in a few words."""
        gap = (self.rows - np.clip(self.rows, self.least, self.most))[self.off]
        if self.weighed:
            return (
                "check the weights; if the rows are a sample of the people, pass weighting='survey'"
            )
        if self.rounded and np.abs(gap).max() <= 25:
            return "the counts look rounded; say how, with rounding='nearest-5'"
        if (gap < 0).all():
            return "X has fewer people; check for missing rows or wrong block ids"
        if (gap > 0).all():
            return (
                "the release counts fewer people; check for suppressed or dropped cells "
                "(count_low, count_high) and doubled rows"
            )
        return "check for missing rows or wrong block ids"


def check_totals(totals: Totals) -> None:
    """Raise if the release counts other people than X, naming the worst blocks."""
    off = totals.off
    if off.any():
        told = "; ".join(totals.told(b) for b in totals.worst())
        raise AlignmentError(
            f"{told} ({int(off.sum())} of {len(off)} blocks differ); {totals.likely_cause()}; or "
            "pass scale=True to rescale"
        )


def scale_to(release: Release, totals: Totals) -> Release:
    """Return counts that add up to the rows of X, and warn by how much they were scaled."""
    off = totals.off
    if not off.any():
        return release
    ranked = (np.diff(release.order_statistics.start) > 0) & off
    if ranked.any():
        raise AlignmentError(
            f"{totals.told(int(np.argmax(ranked)))}; order statistics cannot be rescaled, correct "
            "the number of people"
        )
    nobody = off & (release.histogram.total() == 0)
    if nobody.any():
        raise AlignmentError(
            f"{totals.told(int(np.argmax(nobody)))}; a table without counts cannot be rescaled, "
            "give suppressed cells their interval (count_low, count_high)"
        )
    ratio = (totals.rows / np.maximum(np.clip(totals.rows, totals.least, totals.most), 1))[off]
    warnings.warn(
        f"align: the counts of {int(off.sum())} of {len(off)} blocks were multiplied by "
        f"{ratio.min():.3g} to {ratio.max():.3g} to meet the rows of X; worst: "
        f"{totals.told(int(totals.worst(1)[0]))}",
        AlignmentWarning,
        stacklevel=3,
    )
    goal = np.where(off, totals.rows, release.histogram.total())
    return replace(release, histogram=tables.scale_counts(release.histogram, goal))


def drop_missing(release: Release, seen: TextArray, rows: IntArray) -> Release:
    """Leave out releases without people; people without a release get an empty one."""
    joined = np.intersect1d(seen, release.blocks)
    if not len(joined):
        find_blocks(release.blocks, seen)  # raises, with a hint
    extra = ~np.isin(seen, [*joined, OUTSIDE])  # people without an id are outside on purpose
    unused = int((~np.isin(release.blocks, seen) & release.is_published()).sum())
    if extra.any() or unused:
        warnings.warn(
            f"align: {plural(int(extra.sum()), 'block')} of X ({int(rows[extra].sum()):,} people) "
            f"without a release, {plural(unused, 'block')} released without people; they say "
            "nothing",
            AlignmentWarning,
            stacklevel=3,
        )
    return spread_blocks(release.select(joined), seen)


def spread_blocks(release: Release, names: TextArray) -> Release:
    """Lay a release out over more blocks; those it does not know have no statistics."""
    place = np.searchsorted(release.blocks, names)
    place[place == len(release.blocks)] = 0
    known = release.blocks[place] == names

    def start(old: IntArray) -> IntArray:
        size = np.where(known, np.diff(old)[place], 0)
        return np.concatenate([[0], np.cumsum(size)]).astype(np.int64)

    histogram, order = release.histogram, release.order_statistics
    return replace(
        release,
        blocks=names,
        n=np.where(known, release.n[place], 0),
        histogram=replace(histogram, start=start(histogram.start)),
        order_statistics=replace(order, start=start(order.start)),
        means=None if release.means is None else np.where(known, release.means[place], np.nan),
    )


def count_rows(blocks: ArrayLike, *, outside: bool = False) -> tuple[TextArray, IntArray, IntArray]:
    """Return the distinct blocks of X, the block of each row, and the rows of each block.

    With ``outside`` people without an id are in a block of their own, outside the table.
    """
    ids = as_text(blocks, where="blocks", outside=outside)
    if ids.size == 0:
        raise AlignmentError(
            "blocks: must name the block of each row, got 0 ids; pass the block of each row of X"
        )
    seen, codes = np.unique(ids, return_inverse=True)
    return seen, codes.astype(np.int64), np.bincount(codes).astype(np.int64)


@dataclass(frozen=True, slots=True)
class ReleaseCheck:
    """Whether a release and the rows of X fit together, and what to know before a fit.

    Attributes
    ----------
    n_blocks, n_rows : int
        Blocks with people and a release; rows of X.
    without_release, without_people : tuple of str
        Blocks of X that were not released, released blocks that X does not have.
    lost_zeros : tuple of (str, str)
        Ids of X and of the release that differ by leading zeros only.
    off_totals : tuple of str
        A sentence per block whose people cannot be the rows of X, worst first.
    hidden_cells : int
        Counts known only as intervals: suppressed or rounded.
    open_below, open_above : bool
    small_blocks : tuple of str
        Blocks of fewer than 11 people.
    n_outside : int
        People without a block id, outside the table.
    drops : bool
        Whether blocks without a release, and releases without people, may be left out.
    n_people : int or None
        People that the rows stand for; None where a row is a person.
    sampled : bool
        Whether the rows are a sample of the people.
    far_weights : tuple of str
        Blocks in which the weights of a sample add up to far more or fewer people than the release
        counts, worst first. They are brought to it, and do not stand in the way.
    """

    n_blocks: int
    n_rows: int
    without_release: tuple[str, ...]
    without_people: tuple[str, ...]
    lost_zeros: tuple[tuple[str, str], ...]
    off_totals: tuple[str, ...]
    hidden_cells: int
    open_below: bool
    open_above: bool
    small_blocks: tuple[str, ...]
    n_outside: int = 0
    drops: bool = False
    n_people: int | None = None
    sampled: bool = False
    far_weights: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether ``align`` would succeed as it is."""
        apart = self.without_release or self.without_people
        return self.n_blocks > 0 and not self.off_totals and (self.drops or not apart)

    def sentences(self) -> tuple[str, ...]:
        """Return what was found, most important first."""
        told = [f"{plural(self.n_blocks, 'block')} joined, {self._rows()}"]
        if self.lost_zeros:
            a, b = self.lost_zeros[0]
            told.append(
                f"leading zeros were lost in {plural(len(self.lost_zeros), 'block id')}: X has "
                f"{a!r}, the release {b!r}; read ids as text"
            )
        for names, what in (
            (self.without_release, "of X without a release"),
            (self.without_people, "released but not in X"),
        ):
            if names:
                told.append(f"{plural(len(names), 'block')} {what}: {_some(names)}")
        if self.n_outside:
            told.append(
                f"{plural(self.n_outside, 'row')} of X without a block id: outside the table"
            )
        if self.off_totals:
            told.append(f"{plural(len(self.off_totals), 'block')} with other totals than X")
            told += self.off_totals[:3]
        if self.far_weights:
            told.append(
                f"{plural(len(self.far_weights), 'block')} whose weights are far from the people "
                "that the table counts; they are brought to it"
            )
            told += self.far_weights[:3]
        if self.hidden_cells:
            told.append(f"{plural(self.hidden_cells, 'count')} known only as intervals")
        if self.open_below or self.open_above:
            ends = [name for name in ("below", "above") if getattr(self, f"open_{name}")]
            told.append(f"bins are open {' and '.join(ends)}")
        if self.small_blocks:
            told.append(
                f"{plural(len(self.small_blocks), 'block')} of fewer than {SMALL} people: "
                f"{_some(self.small_blocks)}"
            )
        told.append("ready to fit" if self.ready else "not ready to fit")
        return tuple(told)

    def _rows(self) -> str:
        if self.n_people is None:
            return f"{self.n_rows:,} rows of X"
        if self.sampled:
            return f"{self.n_rows:,} rows of X, a sample that stands for {self.n_people:,} people"
        return f"{self.n_rows:,} rows of X that stand for {self.n_people:,} people"

    def __str__(self) -> str:
        return "\n".join(self.sentences())


def check_release(
    release: Release,
    blocks: ArrayLike,
    *,
    drops: bool = False,
    weights: ArrayLike | None = None,
    weighting: str = "frequency",
) -> ReleaseCheck:
    """Compare a release with the block of each row of X.

    With ``drops`` people without an id are outside the table, and blocks of one side only do not
    stand in the way.
    """
    seen, codes, rows = count_rows(blocks, outside=drops)
    outside = seen == OUTSIDE
    n_rows, n_outside = int(rows.sum()), int(rows[outside].sum())
    people, given = rows, check_weights(weights, weighting, len(codes))
    weighed = rows if given is None else given.people(codes, len(seen))
    sampled = given is not None and given.sampled
    if given is not None:
        people = whole_people(weighed)
    seen, people, weighed = seen[~outside], people[~outside], weighed[~outside]
    joined, without = np.intersect1d(seen, release.blocks), np.setdiff1d(seen, release.blocks)
    off: tuple[str, ...] = ()
    far: tuple[str, ...] = ()
    if len(joined):
        here = np.isin(seen, joined)
        totals = Totals.of(release.select(joined), people[here], weighed=given is not None)
        if sampled:
            people[here] = totals.nearest()
            far = far_off(joined, weighed[here], people[here])
        else:
            off = tuple(totals.told(b) for b in totals.worst(len(joined)))
    unused = np.setdiff1d(release.blocks[release.is_published()], seen)
    table = release.histogram
    return ReleaseCheck(
        n_blocks=len(joined),
        n_rows=n_rows,
        without_release=tuple(map(str, without)),
        without_people=tuple(map(str, unused)),
        lost_zeros=lost_zeros(release.blocks, without),
        off_totals=off,
        hidden_cells=int(table.hidden().sum()),
        open_below=bool(np.isinf(table.lower).any()),
        open_above=bool(np.isinf(table.upper).any()),
        small_blocks=tuple(map(str, seen[people < SMALL])),
        n_outside=n_outside,
        drops=drops,
        n_people=None if given is None else round(given.values.sum()),
        sampled=sampled,
        far_weights=far,
    )


SMALL = 11
"""Blocks with fewer people are pointed out, and masked in reports: many agencies suppress them."""


def lost_zeros(known: TextArray, wanted: TextArray) -> tuple[tuple[str, str], ...]:
    """Return pairs of a wanted and a known id that differ by leading zeros only."""
    bare = {str(name).lstrip("0"): str(name) for name in known}
    pairs = ((str(name), bare.get(str(name).lstrip("0"))) for name in wanted)
    return tuple((name, twin) for name, twin in pairs if twin is not None and twin != name)


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")


def _unknown_blocks(known: TextArray, unknown: TextArray) -> AlignmentError:
    first = str(unknown[0])
    twins = lost_zeros(known, unknown[:1])
    if twins:
        twin = twins[0][1]
        hint = (
            f"the release has {twin!r}: a leading zero was lost; read block ids as text, or pad "
            f"them with str.zfill({len(max(twin, first, key=len))})"
        )
    else:
        more = ", …" if len(known) > 3 else ""
        some = ", ".join(repr(str(name)) for name in known[:3])
        hint = f"the release has {some}{more}; check the ids"
    return AlignmentError(
        f"block {first!r}: must be in the release, got {plural(len(unknown), 'block')} in X that "
        f"{'is' if len(unknown) == 1 else 'are'} not; {hint}"
    )
