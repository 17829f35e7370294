"""Releases: what was published about each block's targets.

A :class:`Release` is the table alone; :meth:`Release.align` ties it to the rows of X and gives the
:class:`AggregatedTarget` that stands where scikit-learn expects ``y``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from unbin._checks import check_choice, check_flag, check_kind, check_number
from unbin._frames import OUTSIDE, as_floats, as_text, block_name, to_frame
from unbin._html import described
from unbin._typing import ArrayLike, BoolArray, FloatArray, IntArray, TextArray
from unbin.exceptions import (
    AlignmentError,
    CategoryError,
    CountError,
    DomainError,
    ReleaseError,
)
from unbin.families import Interval
from unbin.release import tables
from unbin.release.alignment import (
    ReleaseCheck,
    Totals,
    check_all_present,
    check_release,
    check_totals,
    count_rows,
    drop_missing,
    find_blocks,
    scale_to,
    spread_blocks,
)
from unbin.release.categories import (
    listed,
    read_categories,
    recoded,
    refuse_categories,
    union_of,
)
from unbin.release.histograms import read_cumulative, read_histogram
from unbin.release.intervals import narrow, uncertain_blocks
from unbin.release.orders import read_means, read_order_statistics, read_values
from unbin.release.spelling import tidy_columns
from unbin.release.tables import Histogram, OrderStatistics
from unbin.release.target import AggregatedTarget
from unbin.release.weights import check_weights, warn_of_far, whole_people
from unbin.release.words import describe, people_text, plural


@dataclass(frozen=True, slots=True, repr=False)
class Release:
    """Published statistics of the targets, block by block.

    Build one with :meth:`from_histogram`, :meth:`from_quantiles`, :meth:`from_values`,
    :meth:`from_cumulative`, :meth:`from_categories` or :func:`aggregate`; join several statistics
    of the same blocks, or of other blocks, with :meth:`combine`.

    Attributes
    ----------
    blocks : (n_blocks,) text
        Block ids, sorted.
    n : (n_blocks,) int
        People in each block; 0 where the release does not say.
    histogram : Histogram
        Bins of all blocks; a block may have none.
    order_statistics : OrderStatistics
        Order statistics of all blocks; a block may have none.
    means : (n_blocks,) or None
        Means of the targets, NaN for a block without one; None when no block has one.
    noise_sd : float
        Standard deviation of noise that is known to have been added to every count.
    source : str
        How the file it was read from was understood; empty for a release made in Python.
    notes : tuple of text
        What was left out of the file and why, and what was chosen.
    public : bool
        Whether everybody has the table already: reports and saved models then mask nothing of it.
        Tables read in an agency's own layout are taken to be public.
    categories : tuple of text
        Names of the categories of a nominal outcome: the histogram then counts ``categories[k]``
        in bins that hold the value k alone, and a block without that bin does not offer it. Empty
        where the outcome is a number.

    Examples
    --------
    >>> import unbin
    >>> table = {"county": ["A", "A", "B"], "lower": [None, 10, None], "upper": [10, None, 10],
    ...          "count": [7, 5, 3]}
    >>> release = unbin.Release.from_histogram(table, block="county")
    >>> release
    Release: 2 blocks, 15 people
      histogram: 2 blocks, 1 to 2 bins, open below and above
    >>> medians = unbin.Release.from_quantiles({"block": ["A"], "quantile": [0.5], "value": [9.0]})
    >>> release.combine(medians)
    Release: 2 blocks, 15 people
      histogram: 2 blocks, 1 to 2 bins, open below and above
      order statistics: 1 block, 1 per block
    """

    blocks: TextArray
    n: IntArray
    histogram: Histogram
    order_statistics: OrderStatistics
    means: FloatArray | None = None
    noise_sd: float = 0.0
    source: str = ""
    public: bool = False
    notes: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    # -- making one ------------------------------------------------------------------------------

    @classmethod
    def from_histogram(
        cls,
        frame: Any,
        *,
        block: str | Sequence[str] | None = "block",
        lower: str = "lower",
        upper: str = "upper",
        count: str | None = "count",
        count_low: str | None = None,
        count_high: str | None = None,
        percent: str | None = None,
        n: str | None = None,
        closed: str = "right",
        rounding: str | None = None,
        noise_sd: float = 0.0,
        count_se: str | None = None,
    ) -> Release:
        """Read a table with one row per block and bin.

        Parameters
        ----------
        frame : pandas or polars frame, or mapping of columns
        block : str, list of str or None
            Column of block ids; several for a crossed table, whose blocks are their cells; None
            when the table is about everybody.
        lower, upper : str
            Columns of edges; missing or infinite means open. Equal edges hold that value alone.
        count : str
            Column of counts; may be missing where there is an interval.
        count_low, count_high : str, optional
            Columns with the smallest and the largest value that a suppressed count can have; both
            missing where the count is exact.
        percent : str, optional
            Column of percentages to read instead of counts; needs ``n``.
        n : str, optional
            Column with the people of the block, the same in all its rows.
        closed : {"right", "left", "both"}
            Which edges belong to a bin. "both" is for integers: 5-9, 10-14.
        rounding : str, optional
            How exact counts were rounded: "nearest-5", "random-3", "down-10", "up-5"; or
            percentages: "nearest-0.1%". Each is then an interval.
        noise_sd : float
            Standard deviation of noise that the publisher added to every count for privacy. Noisy
            counts may be negative or fractional and need not add up; the rows of X (or ``n``) say
            how many people there are.
        count_se : str, optional
            Column with the standard error of each count, where counts are estimates from a sample;
            missing where it is not known. It is kept with the histogram; no fit uses it yet.

        Examples
        --------
        >>> table = {"county": ["A", "A"], "lower": [None, 10], "upper": [10, None],
        ...          "count": [7, 5]}
        >>> Release.from_histogram(table, block="county")
        Release: 1 block, 12 people
          histogram: 1 block, 2 bins, open below and above
        """
        noisy = check_number("noise_sd", noise_sd, low=0.0) > 0
        found = read_histogram(
            frame,
            block=block,
            lower=lower,
            upper=upper,
            count=count,
            count_low=count_low,
            count_high=count_high,
            percent=percent,
            n=n,
            closed=closed,
            rounding=rounding,
            noisy=noisy,
            count_se=count_se,
        )
        order = tables.no_order(len(found.names))
        return cls(found.names, found.n, found.table, order, noise_sd=noise_sd)

    @classmethod
    def from_quantiles(
        cls,
        frame: Any,
        *,
        block: str | Sequence[str] | None = "block",
        quantile: str | None = "quantile",
        rank: str | None = None,
        value: str = "value",
        n: str | None = None,
    ) -> Release:
        """Read order statistics: one row per block and quantile (or rank).

        A single one, for example only the median, is enough. Quantile 0 is the minimum and 1 the
        maximum; quantile q of n people is the value at rank ceil(q n).

        Parameters
        ----------
        frame : pandas or polars frame, or mapping of columns
        block : str, list of str or None
            Column of block ids; several for a crossed table, whose blocks are their cells; None
            when the table is about everybody.
        quantile : str
            Column of quantiles in [0, 1]; not read when ``rank`` is given.
        rank : str, optional
            Column of ranks, 1 for the smallest value.
        value : str
            Column of values.
        n : str, optional
            Column with the people of the block. Without it the rows of X are counted.

        Examples
        --------
        >>> table = {"county": ["A", "B"], "quantile": [0.5, 0.5], "value": [9.0, 12.5]}
        >>> Release.from_quantiles(table, block="county")
        Release: 2 blocks, unknown size
          order statistics: 2 blocks, 1 per block
        """
        names, people, table = read_order_statistics(
            frame, block=block, quantile=quantile, rank=rank, value=value, n=n
        )
        return cls(names, people, tables.no_histogram(len(names)), table)

    @classmethod
    def from_values(
        cls, frame: Any, *, block: str | Sequence[str] | None = "block", value: str = "value"
    ) -> Release:
        """Read a full list of values without names: the targets up to permutation.

        Examples
        --------
        >>> Release.from_values({"block": ["A", "A", "B"], "value": [3.0, 9.0, 4.0]})
        Release: 2 blocks, 3 people
          values: 2 blocks, known up to permutation
        """
        names, people, table = read_values(frame, block=block, value=value)
        return cls(names, people, tables.no_histogram(len(names)), table)

    @classmethod
    def from_means(
        cls,
        frame: Any,
        *,
        block: str | Sequence[str] | None = "block",
        mean: str = "mean",
        total: str | None = None,
        n: str | None = None,
    ) -> Release:
        """Read the mean of the targets of each block, or their total.

        Parameters
        ----------
        frame : pandas or polars frame, or mapping of columns
        block : str, list of str or None
            Column of block ids; several for a crossed table, whose blocks are their cells; None
            when the table is about everybody.
        mean : str
            Column of means; not read when ``total`` is given.
        total : str, optional
            Column of totals; needs ``n``.
        n : str, optional
            Column with the people of the block. Without it the rows of X are counted.

        Examples
        --------
        >>> Release.from_means({"block": ["A", "B"], "mean": [3.5, 4.1], "n": [20, 30]}, n="n")
        Release: 2 blocks, 50 people
          means: 2 blocks
        """
        names, people, means = read_means(frame, block=block, mean=mean, total=total, n=n)
        size = len(names)
        return cls(names, people, tables.no_histogram(size), tables.no_order(size), means)

    @classmethod
    def from_cumulative(
        cls,
        frame: Any,
        *,
        block: str | Sequence[str] | None = "block",
        value: str = "value",
        count: str = "count",
        closed: str = "right",
    ) -> Release:
        """Read a cumulative distribution: how many people are at or below each value.

        Every value has one count. The last count of a block is its number of people; a first point
        with count 0 is the lowest edge, otherwise the first bin is open below. With
        ``closed="left"`` the counts are those below each value.

        Examples
        --------
        >>> table = {"block": ["A", "A", "A"], "value": [0, 10, 20], "count": [0, 7, 12]}
        >>> Release.from_cumulative(table)
        Release: 1 block, 12 people
          histogram: 1 block, 2 bins, closed ends
        """
        found = read_cumulative(frame, block=block, value=value, count=count, closed=closed)
        return cls(found.names, found.n, found.table, tables.no_order(len(found.names)))

    @classmethod
    def from_categories(
        cls,
        frame: Any,
        *,
        block: str | Sequence[str] | None = "block",
        category: str = "category",
        count: str | None = "count",
        count_low: str | None = None,
        count_high: str | None = None,
        percent: str | None = None,
        n: str | None = None,
        rounding: str | None = None,
        noise_sd: float = 0.0,
        count_se: str | None = None,
        categories: Sequence[str] | None = None,
        absent: str = "zero",
        rest: str | None = None,
    ) -> Release:
        """Read a table of a nominal outcome: one row per block and category.

        Parameters
        ----------
        frame : pandas or polars frame, or mapping of columns
        block : str, list of str or None
            As for :meth:`from_histogram`.
        category : str
            Column of categories: parties, causes of death, occupations.
        count, count_low, count_high, percent, n, rounding, noise_sd, count_se
            As for :meth:`from_histogram`.
        categories : sequence of str, optional
            The categories, in the order to use; alphabetical when left out.
        absent : {"zero", "structural"}
            What it means if a block has no row for a category: "zero", nobody chose it;
            "structural", nobody could, such as a party that did not stand there.
        rest : str, optional
            What to call people of ``n`` who are in none of the categories (did not vote): a
            category of its own, with everybody who is in no other. Needs ``n``.

        Examples
        --------
        >>> votes = {"precinct": ["A", "A", "B"], "party": ["dem", "rep", "dem"],
        ...          "votes": [7, 5, 9], "registered": [20, 20, 10]}
        >>> Release.from_categories(votes, block="precinct", category="party", count="votes",
        ...                         n="registered", rest="none")
        Release: 2 blocks, 30 people
          categories: 2 blocks, 3 categories: dem, rep, none
        """
        found, names = read_categories(
            frame,
            block=block,
            category=category,
            categories=categories,
            absent=absent,
            rest=rest,
            rounding=rounding,
            noisy=check_number("noise_sd", noise_sd, low=0.0) > 0,
            roles={
                "count": count,
                "count_low": count_low,
                "count_high": count_high,
                "percent": percent,
                "n": n,
                "count_se": count_se,
            },
        )
        order = tables.no_order(len(found.names))
        return cls(found.names, found.n, found.table, order, noise_sd=noise_sd, categories=names)

    def combine(self, other: Release) -> Release:
        """Join two releases: further statistics of the same blocks, or other blocks.

        Where both name the number of people they must agree, and a block may have one histogram.
        Categories that one of them lacks are not offered in its blocks.
        """
        check_kind("combine", other, Release, instead="a release, before it is aligned")
        names = np.union1d(self.blocks, other.blocks)
        categories = self._common_categories(other)
        both = (recoded(each, categories) for each in (self, other))
        parts = [spread_blocks(release, names) for release in both]
        known = [part.knows_people() for part in parts]
        clash = known[0] & known[1] & (parts[0].n != parts[1].n)
        if clash.any():
            b = int(np.argmax(clash))
            raise CountError(
                f"block {str(names[b])!r}: both releases must count the same people, got "
                f"{parts[0].n[b]} and {parts[1].n[b]}; correct one of them, or drop the block"
            )
        n = np.where(known[0], parts[0].n, parts[1].n)
        order = tables.join_orders(parts[0].order_statistics, parts[1].order_statistics)
        tables.check_order(order, names)
        tables.check_ranks(order, n, names)
        histogram = tables.join_histograms(parts[0].histogram, parts[1].histogram, names)
        means = tables.join_means(parts[0].means, parts[1].means, names)
        noises = {part.noise_sd for part in parts if len(part.histogram.count)} or {0.0}
        if len(noises) > 1:
            raise ReleaseError(
                f"combine: histograms must have the same noise_sd, got {sorted(noises)}; combine "
                "only histograms with the same noise"
            )
        source = "; ".join(filter(None, dict.fromkeys([self.source, other.source])))
        public = self.public and other.public
        notes = tuple(dict.fromkeys([*self.notes, *other.notes]))
        noise = noises.pop()
        return Release(names, n, histogram, order, means, noise, source, public, notes, categories)

    def _common_categories(self, other: Release) -> tuple[str, ...]:
        if bool(self.categories) != bool(other.categories):
            raise CategoryError(
                "combine: both releases must hold numbers or both categories, got categories "
                f"{listed(self.categories or other.categories)} in one and numbers in the other; "
                "combine tables of one outcome"
            )
        return union_of([self.categories, other.categories])

    # -- other spellings of the same table -------------------------------------------------------

    def to_order_statistics(self) -> Release:
        """Express every histogram as order statistics, as the paper reads a histogram."""
        self._require_order("to_order_statistics")
        self._require_exact("to_order_statistics")
        if len(self.order_statistics.value):
            raise ReleaseError(
                "to_order_statistics: the release must hold histograms only, got order statistics "
                "too; spell each release before combine()"
            )
        self._require_counts("to_order_statistics")
        order = tables.histogram_to_order(self.histogram, self.n)
        nothing = tables.no_histogram(len(self.blocks))
        return Release(self.blocks, self.n, nothing, order, public=self.public)

    def to_histogram(self) -> Release:
        """Express every set of order statistics as a histogram; needs the people per block."""
        self._require_order("to_histogram")
        if len(self.histogram.count):
            raise ReleaseError(
                "to_histogram: the release must hold order statistics only, got a histogram too; "
                "spell each release before combine()"
            )
        if (self.n == 0).any():
            raise ReleaseError(
                f"block {str(self.blocks[np.argmax(self.n == 0)])!r}: the number of people must be "
                "known, got order statistics without it; read them with n=..."
            )
        self._require_counts("to_histogram")
        order = self.order_statistics.with_ranks(self.n)
        tables.check_order(order, self.blocks)
        histogram = tables.order_to_histogram(order, self.n)
        nothing = tables.no_order(len(self.blocks))
        return Release(self.blocks, self.n, histogram, nothing, public=self.public)

    def to_cumulative(self) -> dict[str, Any]:
        """Return columns block, value, count: how many people are at or below each value."""
        self._require_order("to_cumulative")
        self._require_exact("to_cumulative")
        self._require_counts("to_cumulative")
        release = self.to_histogram() if len(self.order_statistics.value) else self
        points = tables.histogram_to_cumulative(release.histogram)
        block = np.repeat(self.blocks, np.diff(points.start))
        return {"block": block, "value": points.value, "count": points.count}

    def to_columns(self) -> dict[str, dict[str, Any]]:
        """Return the tidy tables, as columns, by the kind of statistic they hold."""
        result: dict[str, dict[str, Any]] = {}
        histogram, order = self.histogram, self.order_statistics
        if len(histogram.count):
            block = np.repeat(self.blocks, np.diff(histogram.start))
            edges = {"lower": histogram.lower, "upper": histogram.upper}
            bins = {"category": self.category_of_bins()} if self.categories else edges
            counts: dict[str, Any] = {"block": block, **bins, "count": histogram.count}
            if histogram.count_low is not None:
                ends = histogram.interval()
                counts |= {"count_low": ends[0], "count_high": ends[1]}
            if histogram.count_se is not None:
                counts["count_se"] = histogram.count_se
            result["categories" if self.categories else "histogram"] = counts
        if len(order.value):
            block = np.repeat(self.blocks, np.diff(order.start))
            people = np.repeat(self.n, np.diff(order.start))
            result["order_statistics"] = {
                "block": block,
                "rank": order.rank,
                "quantile": order.quantile,
                "value": order.value,
                "n": people,
            }
        if self.means is not None:
            known = np.isfinite(self.means)
            columns = {"block": self.blocks, "mean": self.means, "n": self.n}
            result["means"] = {name: values[known] for name, values in columns.items()}
        return result

    def to_frame(self, kind: str | None = None, backend: str | None = None) -> Any:
        """Return the tidy table: one row per block and bin, quantile or value, or per block.

        Written as CSV, :func:`read_release` reads it back: ``block, lower, upper, count``,
        ``block, quantile, value`` (or ``rank``), ``block, value``, ``block, mean`` or
        ``block, category, count``. A missing edge is open. A count that is known only as an
        interval is missing, with ``count_low`` and ``count_high`` in its place. Bins are (lower,
        upper] unless a column ``closed`` says "left" or, of whole numbers with both ends, "both". A
        column ``n`` has the people of each block, where they are known for all blocks and counts do
        not add up to them. A category that a block does not offer has no row there, and then a
        column ``absent`` says "structural"; ``category_code`` has the order of categories, where it
        is not alphabetical or names contain digits and might be taken for bins. ``noise_sd``,
        ``source`` and ``notes`` are not in the table. Blocks that are totals of others are left out
        when it is read, unless ``totals="keep"``.

        Parameters
        ----------
        kind : {"histogram", "categories", "order_statistics", "means"}, optional
            Needed for a release that holds several kinds of statistics.
        backend : {"pandas", "polars"}, optional
            Whichever is installed, when left out.

        Examples
        --------
        >>> table = {"block": ["a", "a"], "lower": [0, 10], "upper": [10, None], "count": [7, 5]}
        >>> Release.from_histogram(table).to_frame()
          block  lower  upper  count
        0     a    0.0   10.0      7
        1     a   10.0    NaN      5
        """
        return to_frame(tidy_columns(self, kind), backend)

    # -- towards the rows of X -------------------------------------------------------------------

    def align(
        self,
        blocks: ArrayLike | None = None,
        *,
        scale: bool = False,
        on_missing: str = "error",
        weights: ArrayLike | None = None,
        weighting: str = "frequency",
    ) -> AggregatedTarget:
        """Tie the release to the rows of X.

        Parameters
        ----------
        blocks : (n_rows,) block id of each row of X
            Or a frame of several columns, for a table of their cells (age group by sex). May be
            left out when the release has one block of known size.
        scale : bool
            Rescale the counts of blocks whose totals differ from the rows of X, and report by how
            much.
        on_missing : {"error", "drop"}
            What to do about people without a release and releases without people. "drop" leaves
            such releases out; such people stay in X, but nothing is published about them. So
            do people without a block id: they are outside the table, as the uninsured are
            outside a table of insurers.
        weights : (n_rows,), optional
            How many people each row stands for, above 0 and not necessarily whole.
        weighting : {"frequency", "survey"}
            "frequency": there are that many people with exactly these features (cells of a
            cross-table, a synthetic population); in every block their rounded sum equals the people
            of the release. "survey": the rows are a sample of the people, and the weights those of
            its design. They are scaled to the people of each block, and standard errors allow for
            the sampling error in its composition.

        Returns
        -------
        AggregatedTarget
            To be passed as ``y``.

        Examples
        --------
        >>> release = Release.from_means({"county": ["A", "B"], "mean": [3.5, 4.1]}, block="county")
        >>> len(release.align(["A", "B", "A"]))
        3
        """
        check_flag("scale", scale)
        check_choice("on_missing", on_missing, ("error", "drop"))
        if blocks is None:
            if len(self.blocks) != 1 or self.n[0] == 0:
                raise AlignmentError(
                    f"blocks: the release has {len(self.blocks)} blocks, got no block ids; pass "
                    "the block of each row of X"
                )
            if weights is None:
                return AggregatedTarget(self, np.zeros(self.n[0], dtype=np.int64))
            blocks = np.full(len(as_floats(weights, where="weights")), str(self.blocks[0]))
        seen, codes, rows = count_rows(blocks, outside=on_missing == "drop")
        people: Any = rows
        given = check_weights(weights, weighting, len(codes))
        how: dict[str, Any] = {"scale": scale, "on_missing": on_missing}
        if given is not None:
            people, how["weighting"] = given.people(codes, len(seen)), weighting
        aligned = self.align_to(seen, people, **how)
        return AggregatedTarget(aligned, codes, block_name(blocks), given)

    def align_to(
        self,
        seen: TextArray,
        people: IntArray | FloatArray,
        *,
        scale: bool = False,
        on_missing: str = "error",
        weighting: str | None = None,
    ) -> Release:
        """Return the release of some blocks, in their order, with as many people as X has.

        Parameters
        ----------
        seen : (B,) text
            The blocks of X, sorted and distinct. Nothing is published about people outside the
            table (``_frames.OUTSIDE``).
        people : (B,)
            Rows of X in each, or people that these stand for.
        scale, on_missing
            As for ``align``.
        weighting : {"frequency", "survey"} or None
            Of rows that stand for several people.
        """
        rows = whole_people(people)
        if on_missing == "error":
            inside = seen
            if (seen == OUTSIDE).any():
                inside = seen[(seen != OUTSIDE) | np.isin(seen, self.blocks)]
            same = np.array_equal(inside, self.blocks)
            if not same:
                place = find_blocks(self.blocks, inside)
                check_all_present(self.blocks, self.is_published(), place)
            release = self if same else self.select(inside)
            if len(inside) < len(seen):
                release = spread_blocks(release, seen)
        else:
            release = drop_missing(self, seen, rows)
        totals = Totals.of(release, rows, weighed=weighting is not None)
        if weighting == "survey":
            rows = totals.nearest()
            warn_of_far(seen, np.asarray(people), rows)
        elif scale:
            release = scale_to(release, totals)
        else:
            check_totals(totals)
        order = release.order_statistics.with_ranks(rows)
        tables.check_order(order, release.blocks)
        tables.check_ranks(order, rows, release.blocks)
        histogram = narrow(release.histogram, rows)
        return replace(release, n=rows, histogram=histogram, order_statistics=order)

    def check(
        self,
        blocks: ArrayLike,
        *,
        on_missing: str = "error",
        weights: ArrayLike | None = None,
        weighting: str = "frequency",
    ) -> ReleaseCheck:
        """Report whether the release fits the rows of X: joins, totals, suppression, open bins.

        Parameters
        ----------
        blocks : (n_rows,) block id of each row of X
            Or a frame of several columns, as for ``align``.
        on_missing, weights, weighting
            As for ``align``.
        """
        check_choice("on_missing", on_missing, ("error", "drop"))
        drops = on_missing == "drop"
        return check_release(self, blocks, drops=drops, weights=weights, weighting=weighting)

    def select(self, blocks: ArrayLike) -> Release:
        """Return the release of some blocks only."""
        ids = np.unique(as_text(blocks, where="blocks"))
        if ids.size == 0:
            raise ReleaseError("blocks: must name blocks to keep, got none; pass at least one id")
        place = find_blocks(self.blocks, ids)
        return replace(
            self,
            blocks=ids,
            n=self.n[place],
            histogram=self.histogram.take(place),
            order_statistics=self.order_statistics.take(place),
            means=None if self.means is None else self.means[place],
        )

    def check_domain(self, domain: Interval, *, family: str) -> None:
        """Raise if somebody was published outside the family's domain, or in a category."""
        refuse_categories(self.categories)
        histogram, order = self.histogram, self.order_statistics
        outside = (histogram.interval()[0] > 0) & ~tables.reaches(histogram, domain)
        if outside.any():
            k = int(np.argmax(outside))
            raise DomainError(
                f"block {self._block_of(histogram.start, k)!r}: the bin {histogram.bin_text(k)} "
                f"holds no value of the domain {domain} of family {family!r}, got "
                f"{plural(int(histogram.count[k]), 'count')} in it; choose another family or "
                "correct the edges"
            )
        outside = (order.value < domain.low) | (order.value > domain.high)
        if outside.any():
            k = int(np.argmax(outside))
            raise DomainError(
                f"block {self._block_of(order.start, k)!r}: values must lie in the domain "
                f"{domain} of family {family!r}, got {order.value[k]:g}; choose another family or "
                "correct the value"
            )
        if self.means is not None:
            outside = (self.means < domain.low) | (self.means > domain.high)
            if outside.any():
                b = int(np.argmax(outside))
                raise DomainError(
                    f"block {str(self.blocks[b])!r}: means must lie in the domain {domain} of "
                    f"family {family!r}, got {self.means[b]:g}; choose another family or correct it"
                )

    def category_of_bins(self) -> TextArray:
        """Return the category that each bin counts, of a table of categories."""
        return np.asarray(np.array(self.categories)[self.histogram.lower.astype(np.int64)])

    def bin_text(self, row: int) -> str:
        """Return one bin as people write it: "bin (0, 10]" or "category 'dem'"."""
        if self.categories:
            return f"category {str(self.category_of_bins()[row])!r}"
        return f"bin {self.histogram.bin_text(row)}"

    def _block_of(self, start: IntArray, row: int) -> str:
        return str(self.blocks[np.searchsorted(start, row, side="right") - 1])

    def knows_people(self) -> BoolArray:
        """Mark blocks whose number of people was published, 0 included."""
        if self.noise_sd > 0:
            return self.n > 0
        counted = (np.diff(self.histogram.start) > 0) & ~uncertain_blocks(self.histogram)
        return (self.n > 0) | counted

    def _require_order(self, where: str) -> None:
        if self.categories:
            raise CategoryError(
                f"{where}: categories have no order, got a table of {listed(self.categories)}; use "
                "to_frame()"
            )

    def _require_exact(self, where: str) -> None:
        uncertain = uncertain_blocks(self.histogram)
        if uncertain.any():
            raise ReleaseError(
                f"{where}: needs exact counts, got {plural(int(uncertain.sum()), 'block')} with "
                "counts known only as intervals; use to_columns()"
            )

    def _require_counts(self, where: str) -> None:
        if not len(self.histogram.count) and not len(self.order_statistics.value):
            raise ReleaseError(
                f"{where}: needs counts or order statistics, got means alone; use to_columns()"
            )

    def is_published(self) -> BoolArray:
        """Mark blocks about which the release says that they have people."""
        published = (self.n > 0) | (np.diff(self.order_statistics.start) > 0)
        published |= uncertain_blocks(self.histogram)
        if self.noise_sd > 0:
            published |= np.diff(self.histogram.start) > 0
        return published if self.means is None else published | np.isfinite(self.means)

    def has_statistics(self) -> BoolArray:
        """Mark blocks about which anything was published beside their number of people."""
        found = (np.diff(self.histogram.start) > 0) | (np.diff(self.order_statistics.start) > 0)
        return found if self.means is None else found | np.isfinite(self.means)

    def without(self, hidden: BoolArray) -> Release:
        """Return the release of the same people, nothing said of the blocks that are hidden."""
        if hidden.all():
            nothing = tables.no_histogram(len(self)), tables.no_order(len(self))
            return replace(self, histogram=nothing[0], order_statistics=nothing[1], means=None)
        kept = self.select(self.blocks[~hidden])
        return replace(spread_blocks(kept, self.blocks), n=self.n)

    # -- showing ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.blocks)

    def __repr__(self) -> str:
        n = int(self.n.sum())
        people = people_text(n) if n else "unknown size"
        lines = [f"Release: {plural(len(self.blocks), 'block')}, {people}"]
        lines += [f"  {kind}: {text}" for kind, text in describe(self)]
        return "\n".join(lines)

    def plot(self, block: str | None = None, ax: Any = None) -> Any:
        """Draw what was published about a block, or about all of them.

        See :func:`unbin.plots.release`.

        Parameters
        ----------
        block : str, optional
            All blocks when left out: together where they have the same bins.
        ax : Axes, optional
            Of matplotlib; a new figure when left out.

        Returns
        -------
        Axes
        """
        # pictures are drawn above this room, and matplotlib is loaded when one is asked for
        return import_module("unbin.results.plots").release(self, block, ax=ax)

    def _repr_html_(self) -> str:
        return described(repr(self))
