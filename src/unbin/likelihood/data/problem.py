"""Rows, what was published about them, and a family: all that solvers use."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from unbin._checks import machine_memory
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.exceptions import BinError, ReleaseError, SlowFitWarning
from unbin.families import Family, Units
from unbin.families.coordinates import Coordinates
from unbin.likelihood.data.counts import PublishedCounts, block_targets
from unbin.likelihood.data.grid import Grid, grid_of
from unbin.likelihood.data.layout import Layout, Plan, Stack, holds
from unbin.likelihood.data.tables import Table, bins_between, read_table
from unbin.release import Release
from unbin.rows.cells import cross
from unbin.rows.design import Design, with_rows
from unbin.rows.parts import LocalParts
from unbin.rows.rows import aligned_empty

_FEWER = 8
"""Cells for each that is left, at least, for their sums to be added up first."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What is known of the random intercept of each group.

    Attributes
    ----------
    move, sd : (G,)
        Its mean and standard deviation given what was published, with those of larger blocks.
    along : (G, p)
        D_gᵀ S_g⁻¹ e_g / e_gᵀ S_g⁻¹ e_g without looking at the group.
    bend : (C, K), optional
        sd² ∂²m/∂u² of cells: how much closer statistics lie to what is expected at an effect that
        was read off them.
    level : (G,), optional
        The effect that would do the same to the level of the group.
    """

    move: FloatArray
    sd: FloatArray
    along: FloatArray
    bend: FloatArray | None = None
    level: FloatArray | None = None

    @property
    def shift(self) -> FloatArray:
        """How far statistics are moved along their derivative in the effect, (G,)."""
        return self.move if self.level is None else self.move - self.level


@dataclass(frozen=True)
class Problem:
    """Rows, what was published about them, and a family.

    Attributes
    ----------
    design : Design
        Its blocks are crossed cells.
    tables : tuple of Table
    family : Family
    codes : (T, C)
        The block of each cell in every table.
    plan : Plan
        How their statistics are stacked.
    known : Problem or None
        People whose outcome is known, each a block of a table of their own.
    home : (m,) or None
        The group of each of these people, -1 outside all of them.
    block_variance : float
        Variance of the random intercept of groups (see :mod:`unbin.likelihood.solve.effects`).
    further : tuple of float
        Variance of the random intercepts of the blocks of each partition beside these, tables
        first; empty without any.
    effects : Effects or None
        What is known of the effect of each group, around which its statistics are expanded.
    clusters : (S, C) or None
        Further partitions of the cells: larger blocks, whose people may have more in common.
    """

    design: Design
    tables: tuple[Table, ...]
    family: Family
    codes: IntArray
    plan: Plan
    known: Problem | None = None
    home: IntArray | None = None
    block_variance: float = 0.0
    further: tuple[float, ...] = ()
    effects: Effects | None = None
    clusters: IntArray | None = None

    # -- what follows from these -------------------------------------------------------------------

    @cached_property
    def grid(self) -> Grid:
        """The bins of everybody."""
        return grid_of(self.tables, self.codes, self.family.domain)

    @cached_property
    def layout(self) -> Layout:
        """The statistics of all tables, stacked."""
        return self.plan.stacks(self.tables, self.codes)

    @cached_property
    def coordinates(self) -> Coordinates:
        """Of the parameters."""
        design = self.design
        return self.family.coordinates(
            design.n_parameters, self.grid.n_bins, fit_intercept=design.fit_intercept
        )

    @cached_property
    def unit(self) -> float | None:
        """What totals are divided by, so that they are on the scale of counts; None without any."""
        units = [_unit(t.counts, t.means) for t in self.tables if t.means is not None]
        return units[0] if units else None

    @cached_property
    def stacked(self) -> tuple[Stacked, ...]:
        """What was published, stack by stack."""
        return tuple(Stacked.of(stack, self) for stack in self.layout.stacks)

    def merged_cells(self, tables: tuple[int, ...]) -> tuple[IntArray, IntArray] | None:
        """Give cells numbers by their blocks in some partitions, and return the first of each.

        None where that leaves more than a few of them.
        """
        if tables not in self._merged:
            code, _ = cross([self.partitions[t] for t in tables])
            first = np.unique(code, return_index=True)[1]
            few = len(first) * _FEWER <= self.codes.shape[1]
            alike = self.grid.lower.ndim == 1  # bins of their own do not add up
            self._merged[tables] = (code, first) if few and alike else None
        return self._merged[tables]

    @cached_property
    def _merged(self) -> dict[tuple[int, ...], tuple[IntArray, IntArray] | None]:
        return {}

    @cached_property
    def group_people(self) -> IntArray:
        """People of each group."""
        people = np.bincount(self.plan.group, self.design.people)
        if self.layout.plain:
            return self.lead.counts.n
        return np.maximum(np.rint(people), 1).astype(np.int64)

    @cached_property
    def partitions(self) -> IntArray:
        """The block of each cell in every partition: those of tables, then clusters."""
        return self.codes if self.clusters is None else np.vstack([self.codes, self.clusters])

    @cached_property
    def n_blocks(self) -> tuple[int, ...]:
        """Blocks of each partition."""
        clusters = () if self.clusters is None else self.clusters
        own = (len(table.counts.n) for table in self.tables)
        return (*own, *(int(each.max()) + 1 for each in clusters))

    @cached_property
    def within_groups(self) -> tuple[bool, ...]:
        """Whether the blocks of each partition lie within groups, or are these."""
        return tuple(holds(each, self.plan.group) for each in self.partitions)

    @cached_property
    def above_groups(self) -> tuple[bool, ...]:
        """Whether the blocks of each partition hold whole groups, and are not these."""
        group = self.plan.group
        return tuple(holds(group, each) and not holds(each, group) for each in self.partitions)

    @cached_property
    def largest(self) -> int | None:
        """The partition by which groups are put together: given clusters, fewest first."""
        above = np.flatnonzero(self.above_groups)
        given = above[above >= len(self.tables)].tolist()
        return min(given, key=lambda t: self.n_blocks[t], default=None)

    @property
    def first(self) -> Table:
        """The first table."""
        return self.tables[0]

    @property
    def lead(self) -> Table:
        """The first table that is stacked by group; the only one of a plain layout."""
        return self.tables[self.plan.core[0]]

    @property
    def alone(self) -> bool:
        """Whether there is one table, whose blocks are the cells."""
        return len(self.tables) == 1 and self.layout.plain

    @property
    def tells_spread(self) -> bool:
        """Whether something shows how far the people of a block lie apart, and not only where."""
        return self.known is not None or any(table.spreads for table in self.tables)

    @property
    def n_people(self) -> int:
        """People that tables count, and those whose outcome is known."""
        known = 0 if self.known is None else self.known.n_people
        return int(self.first.counts.n.sum()) + known

    @property
    def n_fitted(self) -> int:
        """Intercept and slopes that are fitted: columns that are constant have none."""
        return self.coordinates.n_slopes - int((~self.design.varies).sum())

    @property
    def slopes(self) -> slice:
        """Where the slopes are among the free parameters."""
        n = self.coordinates.n_slopes
        return slice(n - len(self.design.scale), n)

    def with_tables(self, tables: Sequence[Table]) -> Problem:
        """Return the problem with other tables of the same blocks."""
        changed = replace(self, tables=tuple(tables))
        if self.known is None or not self.family.free_shape:
            return changed
        return replace(changed, known=_recounted(self.known, changed.grid))

    def with_effects(self, variance: float, further: tuple[float, ...] = ()) -> Problem:
        """Return the problem with other random intercepts: of groups, and of tables' blocks."""
        changed = replace(self, block_variance=variance, further=further, effects=None)
        return self._keep(changed, *_OF_GROUPS, "layout", "stacked")

    def around(self, effects: Effects | None) -> Problem:
        """Return the problem expanded around these effects of groups; None: around none."""
        return self._keep(replace(self, effects=effects), *_OF_GROUPS, "layout", "stacked")

    def with_plan(self, plan: Plan) -> Problem:
        """Return the problem with tables stacked otherwise, by the same groups."""
        return self._keep(replace(self, plan=plan), *_OF_GROUPS)

    def without_effects(self) -> Problem:
        """Return the problem without random intercepts."""
        return self.with_effects(0.0)

    def of_groups(self) -> Problem:
        """Return the problem of the tables that are stacked by group, without the others."""
        if not (self.plan.border or self.plan.beside):
            return self
        alone = self.with_plan(replace(self.plan, border=(), beside=()))
        above = zip(self.further, self.above_groups, strict=False)
        further = tuple(variance * inside for variance, inside in above)
        return alone.with_effects(self.block_variance, further).around(self.effects)

    def _keep(self, changed: Problem, *names: str) -> Problem:
        """Give what is known of this problem to one of which it holds as well."""
        known = {name: self.__dict__[name] for name in names if name in self.__dict__}
        changed.__dict__.update(known)
        return changed


_OF_GROUPS = (
    "grid", "coordinates", "unit", "_merged", "group_people", "partitions", "n_blocks",
    "within_groups", "above_groups", "largest",
)  # fmt: skip
"""What a problem works out once for its tables and groups, whatever effects there are."""


@dataclass(frozen=True, slots=True)
class Stacked:
    """What was published of the units of a stack, L statistics each.

    Attributes
    ----------
    stack : Stack
    target : (U, L)
        Counts and totals; 0 for order statistics, and where there is nothing.
    used : (U, L) bool
        Statistics that say something.
    noise : (U, L) or None
        Variance of the noise in each.
    tables : tuple of Table
    """

    stack: Stack
    target: FloatArray
    used: BoolArray
    noise: FloatArray | None
    tables: tuple[Table, ...]

    def counted(self, units: slice) -> BoolArray:
        """Mark the counts of blocks that have any, without padding."""
        found = np.zeros(self.target[units].shape, dtype=bool)
        for i, table in enumerate(self.tables):
            blocks = self.stack.blocks[i][units]
            valid = table.counts.valid()[np.maximum(blocks, 0)] & (blocks >= 0)[:, :, None]
            slots = found[:, self.stack.first[i] : self.stack.first[i + 1]]
            slots = slots.reshape(*blocks.shape, self.stack.size[i])
            slots[:, :, : table.counts.n_bins] = valid
        return found

    def people(self, units: slice) -> FloatArray:
        """Return the people of the block that each statistic counts; 0 where it is no count."""
        found = np.zeros(self.target[units].shape)
        for i, table in enumerate(self.tables):
            blocks = self.stack.blocks[i][units]
            n = np.where(blocks >= 0, table.counts.n[blocks], 0)
            slots = found[:, self.stack.first[i] : self.stack.first[i + 1]]
            slots = slots.reshape(*blocks.shape, self.stack.size[i])
            slots[:, :, : table.counts.n_bins] = n[:, :, None]
        return found

    @classmethod
    def of(cls, stack: Stack, problem: Problem) -> Stacked:
        """Stack what the tables of a problem published."""
        tables = [problem.tables[t] for t in stack.tables]
        target = stack.stacked([table.target(problem.unit) for table in tables])
        used = stack.stacked([table.used().astype(np.float64) for table in tables]) > 0
        noise = None
        if any(table.counts.noise is not None for table in tables):
            each = [np.zeros((len(table.counts.n), table.size)) for table in tables]
            for values, table in zip(each, tables, strict=True):
                if table.counts.noise is not None:
                    values[:, : table.counts.n_bins] = table.counts.noise
            noise = stack.stacked(each)
        return cls(stack, target, used, noise, tuple(tables))


def make_problem(
    design: Design,
    releases: Sequence[Release],
    family: Family,
    *,
    codes: IntArray | None = None,
    plan: Plan | None = None,
    clusters: IntArray | None = None,
    people: KnownPeople | None = None,
) -> Problem:
    """Combine rows, releases and a family.

    Parameters
    ----------
    design : Design
    releases : sequence of Release
        Aligned, in the units of the family.
    family : Family
    codes : (T, C), optional
        The blocks of the design's cells in each table; left out where these are its blocks.
    plan : Plan, optional
        How tables are stacked; left out with them.
    clusters : (S, C), optional
        The larger blocks that the design's cells are in.
    people : KnownPeople, optional
        Whose outcome is known; no table counts them.
    """
    if codes is None or plan is None:
        codes = np.arange(len(design.size))[None]
        plan = Plan((0,), (), (), codes[0])
    tables = tuple(
        read_table(release, family, _stand_for(design, each, len(release)))
        for each, release in zip(codes, releases, strict=True)
    )
    problem = Problem(design, tables, family, codes, plan, clusters=clusters)
    said = people is not None or any(table.informative for table in tables)
    if family.free_shape and said and problem.grid.n_bins < 2:
        raise ReleaseError(
            "tables: a family with thresholds needs the bins of a table, got none that still "
            "counts somebody whose outcome is not known; use another family"
        )
    check_room(problem)
    if people is None:
        return problem
    home = np.full(len(people.values), -1)
    lead = plan.core[0]
    group = np.full(len(releases[lead]), -1)
    group[codes[lead]] = plan.group
    inside = people.codes[lead] >= 0
    home[inside] = group[people.codes[lead][inside]]
    return replace(problem, known=known_problem(people, family, problem.grid), home=home)


def _stand_for(design: Design, codes: IntArray, n_blocks: int) -> FloatArray | None:
    """Return the people that the rows of each block stand for, where these may be others."""
    if design.weight is None:
        return None
    return np.bincount(codes, design.weight, n_blocks).astype(np.float64)


def _unit(counts: PublishedCounts, means: FloatArray | None) -> float:
    """Return what puts totals on the scale of counts."""
    assert means is not None
    known = np.isfinite(means)
    spread = float(np.nanmean(block_targets(counts).variance)) if counts.informative else 0.0
    if spread <= 0:
        n = counts.n[known]
        center = np.average(means[known], weights=n)
        spread = float(np.average(n * (means[known] - center) ** 2))
    return float(np.sqrt(spread)) or 1.0


def ridge_penalty(problem: Problem, alpha: float) -> FloatArray:
    """Return the ridge weight of each free parameter, times the number of people."""
    # a block whose people are all known keeps one in name only
    counts = problem.first.counts
    here = np.bincount(problem.codes[0], problem.design.people, len(counts.n)) > 0
    n_known = 0 if problem.known is None else problem.known.n_people
    weight = (int(counts.n[here].sum()) + n_known) * problem.design.ridge(alpha)
    weight = weight[int(problem.coordinates.fixed_intercept) :]
    return np.concatenate([weight, np.zeros(problem.coordinates.n_nuisance)])


# -- people whose outcome is known -----------------------------------------------------------------

_PEOPLE_PER_BIN = 5
_MOST_BINS = 20
"""Bins from which a dispersion is estimated: twenty lose a few hundredths of the information."""


@dataclass(frozen=True, slots=True)
class KnownPeople:
    """People whose outcome is known.

    Attributes
    ----------
    design : Design
        Each row a block.
    values : (m,)
        Their outcomes.
    codes : tuple of (m,)
        Their block in each table, -1 for people outside it.
    """

    design: Design
    values: FloatArray
    codes: tuple[IntArray, ...]

    def in_units(self, units: Units) -> KnownPeople:
        """Return the same people for a target in other units."""
        design, values = self.design.in_units(units), units.into(self.values)
        return KnownPeople(design, values, self.codes)


def known_problem(people: KnownPeople, family: Family, grid: Grid) -> Problem:
    """Return people whose outcome is known as a table, whose blocks hold one person each.

    What is known of person i is y_i, and for a family with a dispersion also the bin between
    quantiles of all known outcomes that y_i lies in. A family with thresholds has the bins of the
    tables alone. Tables do not count these people (:mod:`unbin.release.removal`).
    """
    values = people.values
    n = np.rint(people.design.people).astype(np.int64)
    edges = grid.lower, grid.upper
    if not family.free_shape:
        edges = bins_between(_cuts(values, n, family), family.domain)
    counts = _counted(values, n, *edges)
    table = Table(counts, None if family.free_shape else values)
    codes = np.arange(len(n))[None]
    return Problem(people.design, (table,), family, codes, Plan((0,), (), (), codes[0]))


def _counted(
    values: FloatArray, n: IntArray, lower: FloatArray, upper: FloatArray
) -> PublishedCounts:
    count = np.zeros((len(n), len(lower)))
    count[np.arange(len(n)), np.searchsorted(upper[:-1], values)] = n
    return PublishedCounts(n, lower, upper, count, np.ones(len(n), dtype=bool))


def _recounted(known: Problem, grid: Grid) -> Problem:
    """Return known outcomes in the bins of a grid that has some of theirs."""
    counts = known.first.counts
    last = np.searchsorted(counts.upper, grid.upper)
    count = np.diff(np.cumsum(counts.count, axis=1)[:, last], axis=1, prepend=0)
    merged = replace(counts, lower=grid.lower, upper=grid.upper, count=count)
    return replace(known, tables=(replace(known.first, counts=merged),))


def _cuts(values: FloatArray, n: IntArray, family: Family) -> FloatArray:
    """Return the quantiles between which the dispersion is looked for; ``n`` people have each."""
    n_bins = min(int(n.sum()) // _PEOPLE_PER_BIN, _MOST_BINS) if family.nuisance_names else 1
    if n_bins < 2:
        return np.zeros(0)
    order = np.argsort(values)
    below = np.cumsum(n[order])
    rank = -(-below[-1] * np.arange(1, n_bins) // n_bins)
    cuts = np.unique(values[order][np.searchsorted(below, rank)])
    return np.asarray(cuts[(cuts < values.max()) & (cuts > family.domain.low)])


# -- whether it fits into memory and time ----------------------------------------------------------

_SHARE = 0.75
"""Share of the machine's memory that sums may take."""
_COPIES = 2
"""Arrays of the size of the covariances that are held together."""
_SPEED = 1e9
"""Multiplications per second in factorising covariances, about."""
_PATIENCE = 10.0
"""Seconds of a pass over the blocks, of which a fit takes several, that are not worth a warning."""


def check_room(problem: Problem) -> None:
    """Raise if the covariances of the blocks that are worked on together do not fit into memory.

    Warn if factorising them, cubic in the number of bins, will take long. Engines that score blocks
    where their rows are (``Design.scores_blocks``) manage their own memory.
    """
    if problem.design.scores_blocks:
        return
    layout = problem.layout
    size, blocks = layout.core.n_statistics, problem.design.blocks_at_once
    if not layout.plain:
        blocks = min(layout.core.n_units, blocks)
    # per block the covariance of its bins, and their derivatives: thresholds are as many as bins
    squares = 2 if problem.coordinates.thresholds else 1
    each, p = 8 * _COPIES * blocks, problem.coordinates.n_theta
    need, room = each * size * (squares * size + p), _SHARE * machine_memory()
    if 0 < room < need:
        fits = int((np.sqrt(p**2 + 4 * squares * room / each) - p) / (2 * squares))
        raise BinError(
            f"histogram: {size:,} bins of {blocks:,} blocks at a time take about {_size(need)} of "
            f"memory, this machine has {_size(machine_memory())}; merge them to at most "
            f"{max(fits, 2):,} bins, or use method='matching'"
        )
    n_blocks = layout.core.n_units
    seconds = n_blocks * size**3 / 3 / _SPEED
    if seconds > _PATIENCE:
        warnings.warn(
            f"histogram: {size:,} bins of {n_blocks:,} blocks take about "
            f"{seconds:,.0f} seconds per pass, of which there are several; half as many bins take "
            "an eighth of that",
            SlowFitWarning,
            stacklevel=3,
        )


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 2**30:,.3g} GiB"


# -- large blocks, thinned for a start -------------------------------------------------------------

_ROWS_PER_BLOCK = 500
_ROWS = 50_000


def worth_thinning(problem: Problem) -> bool:
    """Tell whether blocks are so large that a fraction of their rows would do for a start."""
    return problem.design.rows is not None and _stride(problem) >= 4


def thin(problem: Problem) -> Problem:
    """Keep every s-th row of each block, each standing for more people.

    The expected statistics of a block are sums over its rows, and a few hundred rows approximate
    them well enough for a start, moved so that their mean is that of the block.
    """
    design = problem.design
    whole, size, stride = design.in_memory(), design.size, _stride(problem)
    people = np.ones(len(whole)) if whole.weights is None else whole.weights
    kept = np.minimum(np.maximum(size // stride, _ROWS_PER_BLOCK), size)
    start = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    place = np.arange(start[-1]) - np.repeat(start[:-1], kept)
    step = np.repeat(size / kept, kept)
    rows = np.repeat(design.start[:-1], kept) + (place * step).astype(np.int64)
    matrix, weights = aligned_empty((len(rows), whole.matrix.shape[1])), people[rows]
    kept_people = np.add.reduceat(weights, start[:-1])
    weights *= np.repeat(design.people / kept_people, kept)

    means = design.block_means

    def keep(j: int) -> None:
        values = whole.matrix[:, j].take(rows)
        mean = np.add.reduceat(values * weights, start[:-1]) / design.people
        matrix[:, j] = values + np.repeat(means[:, j] - mean, kept)

    columns = LocalParts(range(matrix.shape[1]), design.n_threads)
    for _ in columns.stream(keep):
        pass
    thinned = with_rows(
        design,
        matrix=matrix,
        offset=whole.offset[rows],
        key=np.zeros(len(rows), np.uint64),  # nobody ranks them
        start=start,
        weights=weights,
        sampled=False,
    )
    return replace(problem, design=thinned)


def _stride(problem: Problem) -> int:
    median = int(np.median(problem.design.size))
    return min(problem.design.n_rows // _ROWS, median // _ROWS_PER_BLOCK)
