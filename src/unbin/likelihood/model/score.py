"""The quasi-score of all published statistics, and its information, in one pass over the rows.

With m, D and Σ the moments of what was published (:mod:`unbin.likelihood.model.moments`) and c the
published numbers, the quasi-score is Dᵀ Σ⁻¹ (c - m) and its information J = Dᵀ Σ⁻¹ D. Σ is one of
groups, which have nobody in common, and a border (:mod:`unbin.likelihood.data.layout`):

    Σ = [ S  C ; Cᵀ  F ],   S block-diagonal,

so that with F' = F - Σ_g C_gᵀ S_g⁻¹ C_g, D' and r' likewise, the score is

    Σ_g D_gᵀ S_g⁻¹ r_g + D'ᵀ F'⁻¹ r',

the latter what the border says beyond the groups. The counts of a block sum to its number of
people, so that the largest bin is left out; of what else is determined by others, as the sum of two
tables by a third, eigenvalues and pivots that are 0 are left out.

A random intercept u_g on eta adds τ² e_g e_gᵀ to S_g, with τ² its variance and e_g = ∂m_g/∂u_g.
That is a correction of rank one, made after S_g alone has been inverted. Intercepts of other
partitions (states above counties, age groups across them) are parameters with a penalty 1/τ², which
are profiled out.

Tables beside the groups add their scores as if they counted other people; people whose outcome is
known are blocks of one person, which share the intercept of their group.

References
----------
Wedderburn, R. W. M. (1974). Quasi-likelihood functions, generalized linear models, and the
Gauss-Newton method. *Biometrika*, 61, 439-447.

McCullagh, P. (1983). Quasi-likelihood functions. *Annals of Statistics*, 11, 59-67.

Henderson, C. R. (1975). Best linear unbiased estimation and prediction under a selection model.
*Biometrics*, 31, 423-447.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from unbin._linalg import JITTER, NOTHING, like, namespace
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.likelihood.data.hidden import as_noisy, expected_within, within_box
from unbin.likelihood.data.layout import Stack
from unbin.likelihood.data.problem import Effects, Problem, Stacked
from unbin.likelihood.model.law import Law, tabulated
from unbin.likelihood.model.moments import (
    CellSums,
    Columns,
    Moments,
    UnitSums,
    add_expected,
    groups_of,
    moment_sums,
    units_of,
)
from unbin.likelihood.model.order import Crossing, Moved
from unbin.likelihood.model.sampling import Sampled, correction
from unbin.likelihood.model.weighing import REDUNDANT, products_of, score_blocks, whiten
from unbin.rows.rows import kernel

_MOST_LOST = 0.95
"""Hidden counts and sampling take at most this share of the information in any direction."""
_TOLD = 1e-4
"""Share of its variance that is left of a direction of the border from which on it adds to Q, df.
Of one that groups determine, jitter and noise that is next to none leave less."""
_NOBODY = 1e-12
"""Share of people that is rounding: all are expected in the bin."""
_LEAST_BEFORE = 0.05
"""Share of an expected count that is expected at least before the table is looked at."""


@dataclass(frozen=True, slots=True)
class ScoreSums:
    """The quasi-score at one value of the parameters. G groups, p parameters.

    Attributes
    ----------
    score : (p,)
        The penalised quasi-score U.
    information : (p, p)
        J, without the ridge.
    block_scores : (G, p)
        What each group adds to U.
    block_misfit : (G,)
        r_gᵀ S_g⁻¹ r_g, effects of groups not allowed for.
    block_df : (G,)
        Expectation of ``block_misfit`` at the true parameters.
    block_pull, block_hold : (G,)
        e_gᵀ S_g⁻¹ r_g, and its variance e_gᵀ S_g⁻¹ e_g; for the random intercept of the group.
    block_along : (G, p)
        e_gᵀ S_g⁻¹ D_g.
    mean : tuple of (B, L)
        Expected statistics of the blocks of each table.
    spread : float
        Trace of all S_g over that of multinomial counts with the same means: near 0 when the
        features determine everybody's bin.
    border : BorderSums or None
        What the border adds.
    further : FurtherSums or None
        Random intercepts of other partitions, which ``score`` and ``information`` allow for.
    beside : tuple of PartSums
        Of the tables beside the groups.
    known : KnownSums or None
        What people whose outcome is known have part in it.
    sampled : (p, p) or None
        What ``information`` is short of because D was estimated from a sample of the people.
    """

    score: FloatArray
    information: FloatArray
    block_scores: FloatArray
    block_misfit: FloatArray
    block_df: FloatArray
    block_pull: FloatArray
    block_hold: FloatArray
    block_along: FloatArray
    mean: tuple[FloatArray, ...]
    spread: float
    border: BorderSums | None = None
    further: FurtherSums | None = None
    beside: tuple[PartSums, ...] = ()
    known: KnownSums | None = None
    sampled: FloatArray | None = None

    @property
    def misfit(self) -> float:
        """The misfit of groups and border, effects of groups not allowed for."""
        border = 0.0 if self.border is None else self.border.misfit
        return float(self.block_misfit.sum()) + border

    @property
    def df(self) -> float:
        """Its expectation at the true parameters."""
        return float(self.block_df.sum()) + (0.0 if self.border is None else self.border.df)


@dataclass(frozen=True, slots=True)
class KnownSums:
    """The part of people whose outcome is known in the information and the pulls of groups.

    Attributes
    ----------
    information : (p, p)
    hold, along : (G,), (G, p)
    """

    information: FloatArray
    hold: FloatArray
    along: FloatArray


@dataclass(frozen=True, slots=True)
class BorderSums:
    """What the border says beyond the groups.

    Attributes
    ----------
    white, residual : (R, p), (R,)
        F'^(-1/2) D' and r'; further columns as those of the groups.
    misfit, df : float
        r'ᵀ F'⁻¹ r', and its expectation, less what is hidden.
    """

    white: FloatArray
    residual: FloatArray
    misfit: float
    df: float

    @property
    def information(self) -> FloatArray:
        """D'ᵀ F'⁻¹ D', its variance too."""
        return np.asarray(self.white.T @ self.white)

    @property
    def score(self) -> FloatArray:
        """D'ᵀ F'⁻¹ r'."""
        return np.asarray(self.white.T @ self.residual)


@dataclass(frozen=True, slots=True)
class FurtherSums:
    """Random intercepts of the blocks of other partitions, H of them, as parameters.

    Attributes
    ----------
    table : (H,)
        Of which partition each is a block.
    variance : (H,)
        τ²; 0 for intercepts that are not allowed for.
    weighs : (H,) bool
        Whether they have a part in the weights.
    pull : (H,)
        Their score.
    hold : (H, H)
        Their information.
    along : (H, p)
        That with the parameters.
    """

    table: IntArray
    variance: FloatArray
    weighs: BoolArray
    pull: FloatArray
    hold: FloatArray
    along: FloatArray

    @classmethod
    def of(
        cls,
        problem: Problem,
        tables: Sequence[int],
        score: FloatArray,
        information: FloatArray,
        p: int,
    ) -> FurtherSums:
        """Take those of some tables out of score and information, where they come last."""
        table = np.repeat(tables, [problem.n_blocks[t] for t in tables])
        variance = np.array(problem.further or [0.0] * len(problem.n_blocks))[table]
        weighs = np.array(problem.above_groups)[table]
        return cls(table, variance, weighs, score[p:], information[p:, p:], information[p:, :p])

    def profiled(
        self, scores: FloatArray, score: FloatArray, information: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return scores, score and information with those that weigh profiled out."""
        use, p = self.weighs & (self.variance > 0), self.along.shape[1]
        bare = scores[:, :p], score[:p], information[:p, :p]
        if not use.any():
            return bare
        at = np.flatnonzero(use)
        weight = self.weight(at)
        own = self.along[at]
        return (
            bare[0] - scores[:, p + at] @ weight,
            bare[1] - weight.T @ self.pull[at],
            bare[2] - own.T @ weight,
        )

    def weight(self, at: IntArray) -> FloatArray:
        """Return (H + 1/τ²)⁻¹ times their information with the parameters."""
        return np.asarray(np.linalg.solve(self._inner(at), self.along[at]))

    def given(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of those that weigh, given what was published; else 0."""
        at = np.flatnonzero(self.weighs & (self.variance > 0))
        inverse, found = np.linalg.inv(self._inner(at)), np.zeros((2, len(self.pull)))
        found[:, at] = inverse @ self.pull[at], np.diag(inverse)
        return found[0], found[1]

    def misfit(self) -> float:
        """Return the part of the misfit that these intercepts account for."""
        at = np.flatnonzero(self.variance > 0)
        return float(self.pull[at] @ np.linalg.solve(self._inner(at), self.pull[at]))

    def _inner(self, at: IntArray) -> FloatArray:
        """Return H + 1/τ² of some of them."""
        return np.asarray(self.hold[np.ix_(at, at)] + np.diag(1 / self.variance[at]))

    def moved(self) -> FloatArray:
        """Return what intercepts that do not weigh add to the variance of the score."""
        use, p = ~self.weighs & (self.variance > 0), self.along.shape[1]
        if not use.any():
            return np.zeros((p, p))
        own, at = self.along[use], np.flatnonzero(self.weighs & (self.variance > 0))
        if len(at):
            own = own - self.hold[np.ix_(np.flatnonzero(use), at)] @ self.weight(at)
        return np.asarray(own.T @ (self.variance[use, None] * own))


@dataclass(frozen=True, slots=True)
class PartSums:
    """What some units contribute to ``ScoreSums``."""

    information: FloatArray
    spread: FloatArray
    scores: FloatArray
    along: FloatArray
    misfit: FloatArray
    df: FloatArray
    pull: FloatArray
    hold: FloatArray

    @classmethod
    def joined(cls, parts: Sequence[PartSums]) -> PartSums:
        """Put the units of all parts, which come in order, side by side, and add up the rest."""
        each = {name: [getattr(part, name) for part in parts] for name in cls.__slots__}
        found = {name: reduce(np.add, each.pop(name)) for name in ("information", "spread")}
        for name, arrays in each.items():
            found[name] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        return cls(**found)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was published of some units, compared with what is expected; noise is allowed for.

    Arrays, or tensors where their rows are on a device.

    Attributes
    ----------
    covariance : (U, L, L)
    derivative, shift : (U, L, p), (U, L)
        D and e.
    hidden : (U, L, h)
        The root of that part of the covariance that stands for what is hidden; without any it has
        no columns.
    residual : (U, L)
        c - m.
    spread : (2,)
        Traces of S, and of multinomial covariances with the same means.
    """

    covariance: Any
    derivative: Any
    shift: Any
    hidden: Any
    residual: Any
    spread: Any


@dataclass(frozen=True, slots=True)
class Coupling:
    """What groups take from the border: sums of products of whitened columns.

    Attributes
    ----------
    square : (M, M)
        Σ C_gᵀ S_g⁻¹ C_g, less what random intercepts of groups add to F.
    taken : (M, w)
        Σ C_gᵀ S_g⁻¹ [D_g, r_g].
    added : (M, M)
        What these intercepts add to F.
    """

    square: FloatArray
    taken: FloatArray
    added: FloatArray

    def __add__(self, other: Coupling) -> Coupling:
        square, taken = self.square + other.square, self.taken + other.taken
        return Coupling(square, taken, self.added + other.added)


# -- one pass --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pass:
    """What some cells contribute: their groups, the other stacks, and expected statistics."""

    part: PartSums
    coupling: Coupling | None
    others: tuple[UnitSums, ...]
    mean: FloatArray
    sampled: Sampled | None = None


def score_sums(
    problem: Problem, free: FloatArray, penalty: FloatArray, further: Sequence[int] = ()
) -> ScoreSums:
    """Return the quasi-score and its information in one pass over the rows.

    Parameters
    ----------
    problem : Problem
    free : (p,)
    penalty : (p,)
        Ridge weight of each free parameter, times the number of people.
    further : sequence of int
        Partitions the pulls of whose blocks are wanted, although they have no random intercept.
    """
    law = tabulated(Law.of(problem, free), problem.design, free)
    columns = Columns(tuple(dict.fromkeys([*further, *varied(problem)])))
    if on_device(problem):
        found = _on_device(problem, law, free)
    else:

        def then(cells: slice, sums: tuple[Any, ...]) -> _Pass:
            return _of_cells(problem, free, CellSums.of(problem, law, cells, sums), columns)

        found = list(problem.design.by_block(moment_sums, law, free, True, then=then))
    return _put_together(problem, law, free, penalty, found, columns)


def on_device(problem: Problem) -> bool:
    """Tell whether blocks are scored where their rows are."""
    own = problem.design.scores_blocks and problem.alone and problem.clusters is None
    return own and problem.lead.counts.low is None and problem.lead.order is None


def varied(problem: Problem) -> tuple[int, ...]:
    """Return the partitions with random intercepts that are parameters with a penalty."""
    above = problem.above_groups
    return tuple(t for t, v in enumerate(problem.further) if v > 0 and above[t])


def crossing(problem: Problem) -> tuple[int, ...]:
    """Return the partitions with random intercepts that have no part in the weights."""
    above, beside = problem.above_groups, problem.plan.beside
    found = (t for t, v in enumerate(problem.further) if v > 0 and not above[t])
    return tuple(t for t in found if t not in beside)


def leading(problem: Problem) -> int | None:
    """Return the partition by which groups are put together, if any: of fewest blocks.

    Clusters that were given, and larger blocks with an effect.
    """
    found = [*varied(problem), *(() if problem.largest is None else (problem.largest,))]
    return min(found, key=lambda t: problem.n_blocks[t], default=None)


def clusters(problem: Problem, n: int) -> IntArray | None:
    """Return the cluster that each of n groups lies in; None where each is one of its own.

    Groups after those of the tables are people whose outcome is known, each alone.
    """
    t = leading(problem)
    return None if t is None else blocks_above(problem, t, n)


def blocks_above(problem: Problem, t: int, n: int) -> IntArray:
    """Return the block of partition t that each of n groups lies in."""
    found = problem.partitions[t][first_cells(problem)]
    return np.append(found, problem.n_blocks[t] + np.arange(n - len(found)))


def first_cells(problem: Problem) -> IntArray:
    """Return the first cell of each group."""
    return np.unique(problem.plan.group, return_index=True)[1]


def taken_by_cluster(problem: Problem, reached: FloatArray, weight: FloatArray) -> FloatArray:
    """Return what random intercepts above the groups take from the information of clusters.

    ``reached`` (H, p) is their information with the parameters, ``weight`` (H, p) (H + 1/τ²)⁻¹
    times that, partition by partition; (S, p, p).
    """
    lead = leading(problem)
    assert lead is not None
    home = []
    for t in varied(problem):
        home.append(np.zeros(problem.n_blocks[t], np.int64))
        home[-1][problem.partitions[t]] = problem.partitions[lead]
    each = reached[:, :, None] * weight[:, None, :]
    found = np.zeros((problem.n_blocks[lead], *each.shape[1:]))
    np.add.at(found, np.concatenate(home), (each + each.swapaxes(1, 2)) / 2)
    return found


def summed(values: FloatArray, cluster: IntArray | None) -> FloatArray:
    """Return the sums of values of groups over their clusters."""
    if cluster is None:
        return values
    total = np.zeros((int(cluster.max()) + 1, *values.shape[1:]))
    np.add.at(total, cluster, values)
    return total


def _on_device(problem: Problem, law: Law, free: FloatArray) -> list[_Pass]:
    """Score whole blocks where their rows are."""
    stacked = problem.stacked[0]

    def whole(cells: slice, sums: tuple[Any, ...]) -> tuple[Evidence, Any]:
        moments = groups_of(problem, free, CellSums.of(problem, law, cells, sums))
        return evidence(problem, moments), moments.mean

    scored = problem.design.parts.stream(score_rows, law, free, whole, stacked.used)
    return [_Pass(part_sums(sums, spread), None, (), mean) for sums, spread, mean in scored]


def _of_cells(problem: Problem, free: FloatArray, sums: CellSums, columns: Columns) -> _Pass:
    """Return what some cells contribute."""
    layout = problem.layout
    moments = groups_of(problem, free, sums, columns)
    others = tuple(units_of(problem, sums, j, columns) for j in range(1, len(layout.stacks)))
    plain = layout.plain and not columns.tables
    mean = moments.mean if problem.alone and problem.lead.order is None else sums.mean
    sampled = None
    if problem.design.sampled:
        sampled = sampled_units(problem, 0, moments)
    said = evidence(problem, moments, values=sums.values)
    used = problem.stacked[0].used[moments.units]
    if plain:
        arrays = said.covariance, said.derivative, said.shift, said.hidden, said.residual
        scored = score_blocks(*arrays, used)
        return _Pass(part_sums(scored, said.spread), None, others, mean, sampled)
    part, coupling = weigh_groups(problem, moments, said, used)
    return _Pass(part, coupling, others, mean, sampled)


def weigh_groups(
    problem: Problem, moments: Moments, said: Evidence, used: BoolArray
) -> tuple[PartSums, Coupling | None]:
    """Weigh the statistics of some groups, and see what they take from the border."""
    p, h = said.derivative.shape[2], said.hidden.shape[2]
    columns = [said.derivative, said.shift[:, :, None], said.hidden, said.residual[:, :, None]]
    if moments.across is not None:
        columns.append(moments.across)
    white, rank = whiten(said.covariance, np.concatenate(columns, axis=2), used)
    own = white[:, :, : p + 2 + h]
    flat = own[:, :, :p].reshape(-1, p)
    part = part_sums((flat.T @ flat, *products_of(own, p, rank)), said.spread)
    if moments.across is None:
        return part, None
    inner, across = np.delete(own, np.arange(p, p + 1 + h), axis=2), white[:, :, p + 2 + h :]
    return part, _coupling(problem.block_variance, moments, inner, own[:, :, p], across)


def _by(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return products of (U, L) and (U, L, w) over statistics, (U, w)."""
    return np.asarray((left[:, None, :] @ right)[:, 0])


def _coupling(
    variance: float, moments: Moments, columns: FloatArray, e: FloatArray, across: FloatArray
) -> Coupling:
    """Return what groups take from the border, their random intercepts allowed for."""
    added = np.zeros((across.shape[2],) * 2)
    if variance > 0:
        reached = moments.reached
        across = across + variance * e[:, :, None] * reached[:, None, :]
        added = variance * reached.T @ reached
        hold = (e * e).sum(1)
        less = (1 - 1 / np.sqrt(1 + variance * hold)) / np.maximum(hold, NOTHING)
        columns, across = (
            each - (less[:, None] * e)[:, :, None] * _by(e, each)[:, None, :]
            for each in (columns, across)
        )
    flat = across.reshape(-1, across.shape[2])
    return Coupling(flat.T @ flat, flat.T @ columns.reshape(-1, columns.shape[2]), added)


def _put_together(
    problem: Problem,
    law: Law,
    free: FloatArray,
    penalty: FloatArray,
    found: Sequence[_Pass],
    columns: Columns,
) -> ScoreSums:
    """Put the contributions of all cells together."""
    core, layout = PartSums.joined([each.part for each in found]), problem.layout
    others = [reduce(add, each) for each in zip(*(each.others for each in found), strict=True)]
    border = None
    if layout.border is not None:
        couplings = [each.coupling for each in found if each.coupling is not None]
        border = _border(problem, law, free, others.pop(0), reduce(add, couplings), columns)
    core, known = _with_known(problem, law, free, core)
    scores, information = _with_effects(problem, core)
    score = scores.sum(axis=0)
    if border is not None:
        score, information = score + border.score, information + border.information
    sampled = None
    if problem.design.sampled:
        blocks = Sampled.joined([each.sampled for each in found if each.sampled is not None])
        own, sampled = correction(problem, free, blocks, layout.core.tables[0])
        more = scores.shape[1] - len(free)  # random intercepts are not corrected
        own, sampled = np.pad(own, ((0, 0), (0, more))), np.pad(sampled, (0, more))
        scores, score = scores + own, score + own.sum(axis=0)
    beside = []
    for stack, sums in zip(layout.beside, others, strict=True):
        part, own, taken = _beside(problem, law, free, stack, sums, columns)
        beside.append(part)
        score, information = score + own.sum(axis=0), information + part.information
        sampled = taken if sampled is None else sampled + taken
    if sampled is not None and problem.design.sampled:
        information = less_information(information, sampled, least=-np.inf)
    further = None
    p = len(free)
    if columns.tables:
        further = FurtherSums.of(problem, columns.tables, score, information, p)
        scores, score, information = further.profiled(scores, score, information)
    spread = core.spread
    return ScoreSums(
        score=score - penalty * free,
        information=information,
        block_scores=scores,
        block_misfit=core.misfit,
        block_df=core.df,
        block_pull=core.pull,
        block_hold=core.hold,
        block_along=core.along[:, :p],
        mean=_means(problem, found),
        spread=float(spread[0] / spread[1]) if spread[1] > 0 else 1.0,
        border=border,
        further=further,
        beside=tuple(beside),
        known=known,
        sampled=None if sampled is None else sampled[:p, :p],
    )


def _means(problem: Problem, found: Sequence[_Pass]) -> tuple[FloatArray, ...]:
    """Return the expected statistics of the blocks of each table."""
    each = [part.mean for part in found]
    if problem.alone and problem.lead.order is None:
        return (each[0] if len(each) == 1 else np.concatenate(each),)
    total = [np.zeros((len(table.counts.n), table.size)) for table in problem.tables]
    first = 0
    for mean in each:
        add_expected(problem, slice(first, first + len(mean)), mean, total)
        first += len(mean)
    return tuple(total)


def _border(
    problem: Problem,
    law: Law,
    free: FloatArray,
    sums: UnitSums,
    coupling: Coupling,
    columns: Columns,
) -> BorderSums:
    """Return what the border says beyond the groups."""
    stack = problem.layout.border
    assert stack is not None
    moments = sums.moments(problem, free, stack, columns.n_added)
    said = evidence(problem, moments, 1, values=law.values, effects=coupling.added[None])
    used = problem.stacked[1].used[0]
    variance = said.covariance[0] + coupling.added - coupling.square
    width = said.derivative.shape[2]
    own = np.concatenate([said.derivative[0], said.residual[0][:, None]], axis=1) - coupling.taken
    before = np.diag(said.covariance[0])[used]
    root = left_root(variance[np.ix_(used, used)], before)
    white = root @ own[used]
    hidden, residual = root @ said.hidden[0][used], white[:, width]
    told = (root**2 @ before) < 1 / _TOLD
    left, lost = residual[told], hidden[told]
    misfit = float(left @ left) - float(((lost.T @ left) ** 2).sum())
    df = float(told.sum()) - float((lost**2).sum())
    return BorderSums(white[:, :width], residual, misfit, df)


def left_root(variance: FloatArray, own: FloatArray) -> FloatArray:
    """Return V^(-1/2) of what is left of a covariance, without directions of which nothing is.

    ``own`` are variances before anything was taken.
    """
    if not len(variance):
        return variance
    size = np.sqrt(np.maximum(own, JITTER))
    values, vectors = np.linalg.eigh(variance / np.outer(size, size))
    keep = values > REDUNDANT * max(float(values[-1]), 1.0)
    return np.asarray((vectors[:, keep] / np.sqrt(values[keep])).T / size)


def _with_known(
    problem: Problem, law: Law, free: FloatArray, core: PartSums
) -> tuple[PartSums, KnownSums | None]:
    """Add people whose outcome is known to their groups; outside all of them each is a group."""
    known, home = problem.known, problem.home
    if known is None or home is None:
        return core, None
    n, p, outside = len(core.pull), len(free), home < 0
    home = np.where(outside, n + np.cumsum(outside) - 1, home)
    own = PartSums.joined(list(_known_parts(problem, law, free)))
    total, added = {}, {}
    for name in PartSums.__slots__[2:]:
        mine, theirs = getattr(core, name), getattr(own, name)
        added[name] = np.zeros((n + int(outside.sum()), *mine.shape[1:]))
        at: Any = (home, slice(0, p)) if theirs.ndim > 1 else home
        np.add.at(added[name], at, theirs)
        total[name] = added[name].copy()
        total[name][:n] += mine
    information = core.information.copy()
    information[:p, :p] += own.information
    part = KnownSums(own.information, added["hold"], added["along"][:, :p])
    return replace(core, information=information, **total), part


def _known_parts(problem: Problem, law: Law, free: FloatArray) -> Any:
    """Yield what people whose outcome is known contribute, each a block."""
    known = known_people(problem)
    assert known is not None
    own = Law.of(known, free)
    own = replace(own, block_variance=law.block_variance)

    def then(cells: slice, sums: tuple[Any, ...]) -> PartSums:
        moments = groups_of(known, free, CellSums.of(known, own, cells, sums))
        said = evidence(known, moments)
        arrays = said.covariance, said.derivative, said.shift, said.hidden, said.residual
        used = known.stacked[0].used[cells]
        return part_sums(score_blocks(*arrays, used), said.spread)

    return known.design.by_block(moment_sums, own, free, True, then=then)


def known_people(problem: Problem) -> Problem | None:
    """Return people whose outcome is known, with what is known of the effects of their groups."""
    known, home, effects = problem.known, problem.home, problem.effects
    if known is None or home is None:
        return None
    if effects is None:
        return replace(known, block_variance=problem.block_variance)
    inside, sd = home >= 0, np.sqrt(problem.block_variance)
    own = Effects(
        np.where(inside, effects.move[home], 0.0),
        np.where(inside, effects.sd[home], sd),
        np.zeros((len(home), effects.along.shape[1])),
    )
    return replace(known, block_variance=problem.block_variance, effects=own)


def _with_effects(problem: Problem, core: PartSums) -> tuple[FloatArray, FloatArray]:
    """Return scores of groups and the information, random intercepts of groups allowed for.

    With a_g = D_gᵀ S_g⁻¹ e_g / h_g the score is D_gᵀ S_g⁻¹ r_g - a_g e_gᵀ S_g⁻¹ r_g, that of the
    shape, whose expectation is 0 whatever the effect, and a_g e_gᵀ S_g⁻¹ r_g / (1 + τ² h_g). Where
    statistics are expanded around the effect of a group a_g in the latter is taken without looking
    at the group: expanded around the effect it would depend on it, and the expectation of the
    product would not be 0.
    """
    if problem.block_variance == 0:
        return core.scores, core.information
    own, held = instruments(problem, core.hold, core.along)
    loose = 1 + problem.block_variance * core.hold
    scores = core.scores + (held / loose[:, None] - own) * core.pull[:, None]
    weight = core.hold[:, None]
    information = core.information + held.T @ (weight / loose[:, None] * held)
    return scores, information - own.T @ (weight * own)


def instruments(
    problem: Problem, hold: FloatArray, along: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return a_g of groups, (G, w), and what it is without looking at the group.

    ``hold`` (G,) and ``along`` (G, w) are e_gᵀ S_g⁻¹ e_g and e_gᵀ S_g⁻¹ D_g; people whose outcome
    is known, outside all groups, come last and are as they are.
    """
    own = along / np.maximum(hold, NOTHING)[:, None]
    if problem.effects is None:
        return own, own
    n, p = problem.effects.along.shape
    held = own.copy()
    held[:n, :p] = np.where((hold[:n] > 0)[:, None], problem.effects.along, own[:n, :p])
    return own, held


def _beside(
    problem: Problem,
    law: Law,
    free: FloatArray,
    stack: Stack,
    sums: UnitSums,
    columns: Columns,
) -> tuple[PartSums, FloatArray, FloatArray]:
    """Return what a table beside the groups adds.

    Its sums, the scores of its units, and what sampling takes from the information.
    """
    j = problem.layout.stacks.index(stack)
    moments = sums.moments(problem, free, stack, columns.n_added)
    variance = unit_variance(problem, stack)
    said = evidence(problem, moments, j, values=law.values, variance=variance)
    arrays = said.covariance, said.derivative, said.shift, said.hidden, said.residual
    part = part_sums(score_blocks(*arrays, problem.stacked[j].used), said.spread)
    share = variance / (1 + variance * part.hold)
    scores = part.scores - (share * part.pull)[:, None] * part.along
    information = part.information - part.along.T @ (part.along * share[:, None])
    taken = np.zeros_like(information)
    if problem.design.sampled:
        own, taken = correction(problem, free, sampled_units(problem, j, moments), stack.tables[0])
        scores = scores + own
    return replace(part, information=information), scores, taken


def unit_variance(problem: Problem, stack: Stack) -> float:
    """Return the variance of the random intercept of the units of a stack."""
    if stack is problem.layout.core:
        return problem.block_variance
    own = stack.tables[0]
    return problem.further[own] if problem.further and stack is not problem.layout.border else 0.0


# -- what was published beside what is expected ----------------------------------------------------


def evidence(
    problem: Problem,
    moments: Moments,
    j: int = 0,
    *,
    values: Crossing | None = None,
    variance: float | None = None,
    effects: FloatArray | None = None,
) -> Evidence:
    """Compare what was published of some units of stack ``j`` with their moments.

    ``variance`` is that of the random intercept of the units, if not the problem's, ``effects``
    (U, L, L) what others add to their covariance; they matter where counts are hidden. ``values``
    is where published values are those expected.
    """
    stacked, units = problem.stacked[j], moments.units
    mean, covariance = moments.mean, moments.covariance
    if j > 0:
        units = slice(0, len(mean))
    variance = unit_variance(problem, stacked.stack) if variance is None else variance
    target, hidden = stacked.target[units], [np.zeros((*mean.shape, 0))]
    residual = like(mean, target.astype(np.float64, copy=False)) - mean
    if problem.effects is not None:
        residual = residual + _moved(problem, moments)
    if stacked.noise is not None:
        covariance = covariance + _noise(problem, stacked, units, mean)
    stack, used = stacked.stack, stacked.used[units]
    for i, t in enumerate(stack.tables):
        table, blocks = problem.tables[t], stack.blocks[i][units]
        if table.counts.low is None and table.order is None:
            continue
        for r in range(blocks.shape[1]):
            first = stack.first[i] + stack.size[i] * r
            here = slice(first, first + stack.size[i])
            shift = moments.shift[:, here]
            own = moments.covariance[:, here, here]
            own = own + variance * shift[:, :, None] * shift[:, None, :]
            if effects is not None:
                own = own + effects[:, here, here]
            known = _known(problem, t, blocks[:, r], moments, here, own, used[:, here], values)
            there = blocks[:, r] >= 0
            residual[:, here] = np.where(there[:, None], known[0], residual[:, here])
            wide = np.zeros((*mean.shape, known[1].shape[2]))
            wide[:, here] = known[1] * there[:, None, None]
            hidden.append(wide)
            if known[1].shape[2]:
                covariance = covariance + wide @ wide.swapaxes(1, 2)
    roots = np.concatenate(hidden, axis=2) if len(hidden) > 1 else hidden[0]
    spread = _spread(stacked, units, mean, moments.covariance)
    derivative, coordinates = moments.derivative, problem.coordinates
    if values is not None and not problem.tells_spread:
        # one value of a block shows where it lies: the scale is set by the misfit
        derivative = derivative.copy()
        derivative[:, :, coordinates.n_slopes : coordinates.n_free] = 0.0
    return Evidence(covariance, derivative, moments.shift, roots, residual, spread)


def _moved(problem: Problem, moments: Moments) -> Any:
    """Return e û of units, or of what groups do to them."""
    if moments.moved is not None:
        return moments.moved
    assert problem.effects is not None
    move = like(moments.mean, problem.effects.shift[moments.units])
    found = moments.shift * move[:, None]
    if problem.effects.bend is None:
        return found
    bend, factor = problem.effects.bend[moments.units], problem.lead.factor
    if factor is not None:
        bend = bend * factor[moments.units][:, None]
    return found + like(found, bend)


def _noise(problem: Problem, stacked: Stacked, units: slice, mean: Any) -> Any:
    """Return the covariance of the noise in counts; given their sum where they add up."""
    assert stacked.noise is not None
    noise = stacked.noise[units]
    found = noise[:, :, None] * np.eye(noise.shape[1])
    stack = stacked.stack
    for i, t in enumerate(stack.tables):
        if not problem.tables[t].counts.adds_up:
            continue
        for first in stack.first[i] + stack.size[i] * np.arange(stack.blocks[i].shape[1]):
            here = slice(first, first + stack.size[i])
            own = noise[:, here]
            total = np.maximum(own.sum(axis=1), NOTHING)[:, None, None]
            found[:, here, here] -= own[:, :, None] * own[:, None, :] / total
    return like(mean, found)


def _spread(stacked: Stacked, units: slice, mean: Any, covariance: Any) -> Any:
    """Return traces of the covariance of counts, and of multinomial ones with the same means."""
    people, bins = stacked.people(units), np.arange(mean.shape[1])
    counted = like(mean, (people > 0).astype(np.float64))
    share = mean / like(mean, np.maximum(people, 1.0))
    rest = 1 - share
    multinomial = mean * rest * (rest > _NOBODY) * counted
    own = covariance[:, bins, bins] * counted
    return namespace(mean).stack([own.sum(), multinomial.sum()])


def _known(
    problem: Problem,
    t: int,
    blocks: IntArray,
    moments: Moments,
    here: slice,
    covariance: FloatArray,
    used: BoolArray,
    values: Crossing | None,
) -> tuple[FloatArray, FloatArray]:
    """Return residuals of some blocks of table t, some hidden, and a root of the noise in them.

    ``covariance`` (U, L, L) is that of their statistics, random intercepts included.
    """
    table, bare = problem.tables[t], moments.covariance[:, here, here]
    n_bins, place = table.counts.n_bins, np.maximum(blocks, 0)
    mean, shift = moments.mean[:, here], moments.shift[:, here]
    target = table.target(problem.unit)[place]
    moved = np.zeros_like(mean)
    if problem.effects is not None:
        moved = _moved(problem, moments)[:, here]
    residual, root = target - mean + moved, np.zeros((*mean.shape, 0))
    if table.counts.low is not None:
        before = np.maximum(mean - moved, _LEAST_BEFORE * mean)[:, :n_bins]
        bins = np.ascontiguousarray(covariance[:, :n_bins, :n_bins])
        count, left = expected_within(table.counts, before, bins, place)
        inside = residual[:, :n_bins] + count - target[:, :n_bins]
        residual[:, :n_bins], noise = as_noisy(bins, used[:, :n_bins], inside, left)
        root = np.zeros((*mean.shape, n_bins))
        root[:, :n_bins] = noise
    if table.order is not None:
        first = table.n_counted
        own, below = (each[:, first:, first:] for each in (bare, covariance))
        assert values is not None
        move, left = _order_residual(values.tables[t], place, shift[:, first:], own, below)
        if left.shape[2]:
            move, left = as_noisy(below, used[:, first:], move, left)
        residual[:, first:] = move
        wide = np.zeros((*mean.shape, left.shape[2]))
        wide[:, first:] = left
        root = np.concatenate([root, wide], axis=2)
    return residual, root


def _order_residual(
    values: Moved, blocks: IntArray, shift: FloatArray, own: FloatArray, covariance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return e z of published values, of integers its expectation, and the root of its variance.

    ``own`` (U, J, J) is the covariance of the numbers of people below them, ``covariance`` that
    with random intercepts.
    """
    low, high = (each[blocks] for each in values.ends)
    if values.side.shape[1] == 1:
        return shift * low, np.zeros((*low.shape, 0))
    places = np.arange(shift.shape[1])
    more = (covariance - own)[:, places, places] / np.maximum(shift**2, NOTHING)
    spread = np.sqrt(values.spread[blocks] + more[:, None])
    low, high = low / spread[:, 0], high / spread[:, 1]
    return within_box(covariance, -high, -low, values.said[blocks])


@kernel
def score_rows(
    rows: Any,
    law: Law,
    free: FloatArray,
    weigh: Callable[[slice, Any], tuple[Evidence, Any]],
    used: BoolArray,
) -> tuple[Any, FloatArray, FloatArray]:
    """Score whole blocks where their rows are; for engines that can (``Design.scores_blocks``).

    Returns what ``score_blocks`` does, and ``spread`` and ``mean`` of their evidence.
    """
    raise NotImplementedError


def part_sums(
    sums: tuple[FloatArray, FloatArray, FloatArray, FloatArray], spread: FloatArray
) -> PartSums:
    """Name what ``score_blocks`` returned."""
    information, scores, along, (misfit, df, pull, hold) = sums
    return PartSums(information, spread, scores, along, misfit, df, pull, hold)


def sampled_units(problem: Problem, j: int, moments: Moments) -> Sampled:
    """Return what the correction of a score needs to know of some units of stack ``j``."""
    stacked, drawn = problem.stacked[j], moments.sampling
    assert drawn is not None
    table = problem.tables[stacked.stack.tables[0]]
    units = moments.units if j == 0 else slice(0, len(moments.mean))
    n = table.counts.n[units].astype(np.float64)
    each = n[:, None, None]
    return Sampled(
        n=n,
        people=n if table.factor is None else n / table.factor[units],
        mean=moments.mean / n[:, None],
        derivative=moments.derivative[:, :, : problem.coordinates.n_free] / each,
        shift=moments.shift / n[:, None],
        within=(moments.covariance - drawn.covariance) / each,
        level=drawn.level,
        once=drawn.once,
        twice=drawn.twice,
        noise=np.zeros(moments.mean.shape) if stacked.noise is None else stacked.noise[units],
        effects=np.full(len(n), unit_variance(problem, stacked.stack)),
        used=stacked.used[units],
    )


def less_information(information: FloatArray, lost: FloatArray, least: float = 0.0) -> FloatArray:
    """Subtract information that is lost; never all of it.

    In no direction is less than ``least`` of it lost: what a sample takes is an estimate, and may
    be below 0.
    """
    if not lost.any() or not np.isfinite(information + lost).all():
        return information - lost
    values, vectors = np.linalg.eigh(information)
    keep = values > 1e-12 * values[-1]
    root = vectors[:, keep] * np.sqrt(values[keep])
    white = vectors[:, keep] / np.sqrt(values[keep])
    share, axes = np.linalg.eigh(white.T @ lost @ white)
    left = (axes * (1 - np.clip(share, least, _MOST_LOST))) @ axes.T
    return np.asarray(root @ left @ root.T)


def log_score(problem: Problem, sums: ScoreSums) -> float:
    """Return Σ c log(m / n) over the cells of all tables, per person and table."""
    people, total = 0, 0.0
    for table, mean in zip(problem.tables, sums.mean, strict=True):
        n = int(table.counts.n[table.counts.known].sum())
        people += n
        total += n * table.counts.log_score(mean[:, : table.counts.n_bins])
    return total / max(people, 1)


def variance_of(said: Evidence, variance: float) -> Any:
    """Return S + τ² e eᵀ, (U, L, L); of arrays or of tensors."""
    shift = said.shift
    if variance == 0:
        return said.covariance
    return said.covariance + variance * shift[:, :, None] * shift[:, None]


def masked(variance: Any, used: BoolArray) -> Any:
    """Return covariances (U, L, L) of the statistics used alone, with a jitter to invert them.

    Of arrays or of tensors.
    """
    keep = like(variance, used)
    jitter = like(variance, JITTER * np.eye(used.shape[1]))
    return variance * keep[:, :, None] * keep[:, None, :] + jitter
