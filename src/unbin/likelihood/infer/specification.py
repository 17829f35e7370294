"""Specification tests of a fit, from one more pass over the rows at its root.

*Shape*. If the family is right and blocks differ for no reason related to the features, the
location score (:mod:`unbin.likelihood.infer.levels`) vanishes at the root of the full score but for
noise. Its one-step root is δ = A⁻¹ Σ W_gᵀ r_g away; with ψ_g = A⁻¹ W_gᵀ r_g - J⁻¹ D_gᵀ Σ_g⁻¹ r_g
the variance of δ is V = Σ ψ_g ψ_gᵀ G/(G - p) (Hausman's test, by groups; F). With a border the
score is no sum over groups, and V is the model's: that of the location root less that of the full
one.

*Extensions*. Score tests, by groups, that the effect of a feature is not curved (its square), that
the scale does not change with it, and that edges lie where the family says: that people are not
moved across each of them by a shift of eta of its own, as thresholds could be. Of a table that is
not by groups, that its blocks have no levels of their own: where it is by groups of a feature, the
effect of that is then not the straight line of the model. And the shift of the slopes that the
extension would bring.

*Context*. A score test that group means of the features have no effect of their own (Mundlak), with
the model's covariance: it needs the fit without them only.

Shape and extensions are tested with statistics averaged over the effects of groups, not expanded
around each: weights that know of the outcomes would be related to them.

*Clusters*. Where larger blocks are given, or have effects, all that is by groups is by these.

*Leverage*. Scores as they would be had the group not been fitted, (I - H_g)⁻¹ r_g with
H_g = D_g J⁻¹ D_gᵀ Σ_g⁻¹, for the sandwich CR3; in the space of the parameters (I - J_g J⁻¹)⁻¹ times
the score.

References
----------
Hausman, J. A. (1978). Specification tests in econometrics. *Econometrica*, 46, 1251-1271.

Bell, R. M. and McCaffrey, D. F. (2002). Bias reduction in standard errors for linear regression
with multi-stage samples. *Survey Methodology*, 28, 169-181.

Mundlak, Y. (1978). On the pooling of time series and cross section data. *Econometrica*, 46, 69-85.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.special import chdtrc, fdtrc

from unbin._compiling import njit
from unbin._linalg import (
    NOTHING,
    PANEL,
    brought,
    inverse_form,
    like,
    long_product,
    namespace,
    solve_scaled,
)
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.likelihood.data.problem import Problem
from unbin.likelihood.infer.levels import (
    Location,
    LocationPart,
    level_values,
    located,
    location_part,
    share_of_shape,
)
from unbin.likelihood.model.law import Law, tabulated
from unbin.likelihood.model.moments import (
    CellSums,
    Columns,
    Moments,
    few_rows,
    groups_of,
    looked_up,
    moment_sums,
    sums_of_few,
    units_of,
)
from unbin.likelihood.model.score import (
    Evidence,
    clusters,
    crossing,
    evidence,
    instruments,
    known_people,
    leading,
    left_root,
    masked,
    on_device,
    summed,
    taken_by_cluster,
    variance_of,
    varied,
)
from unbin.likelihood.model.weighing import check_blocks, whiten
from unbin.likelihood.thresholds import LARGEST_PARTITION
from unbin.rows.products import accumulate
from unbin.rows.rows import LARGE, Rows, flat_columns, kernel

_TILE_CELLS = 1 << 15
LEVELS_ALONE = 1e-8
"""Variance of the shift, as a share of the location root's, below which there are only levels."""
_TOLD_APART = 1e-6
"""Share of its information that is left of an extension beside what is fitted, at least."""
_ALONE = 1e-8
"""Share of a direction that other blocks tell, below which a block determines it alone."""
_PER_BLOCK = 2
"""Edges per block from which on more directions than blocks are told apart for certain."""
_TWO_VALUED = 1e-6
"""A feature whose square is its own linear function, to this share, has two values."""


@dataclass(frozen=True, slots=True)
class Test:
    """A test of a hypothesis.

    Attributes
    ----------
    statistic : float
        F, or chi-square where ``df_residual`` is infinite.
    df, df_residual : float
    p_value : float
        NaN where there are too few blocks to test.
    """

    statistic: float
    df: float
    df_residual: float
    p_value: float


UNTESTED = Test(float("nan"), 0.0, 0.0, float("nan"))


def chi_square(statistic: float, df: float) -> Test:
    """Return a test with the model's covariance; untested without degrees of freedom."""
    return Test(statistic, df, np.inf, float(chdtrc(df, statistic))) if df else UNTESTED


def by_clusters(problem: Problem, test: Test, n_fitted: int) -> Test:
    """Return the F test of a chi-square test: the variance of few clusters is not known well."""
    if problem.largest is None or not test.df:
        return test
    left = problem.n_blocks[problem.largest] - n_fitted - test.df
    if left < 1:
        return UNTESTED
    statistic = test.statistic / test.df
    return Test(statistic, test.df, left, float(fdtrc(test.df, left, statistic)))


@dataclass(frozen=True, slots=True)
class Extension:
    """The test of one feature's curvature, of a scale that changes with it, or of the shape.

    Attributes
    ----------
    feature : int
        Counted from 0, -1 where it is not about a feature; of levels the table.
    kind : {"curvature", "scale", "shape", "levels"}
    p_value : float
    shift : (d,)
        By how much the slopes would move, in their standard errors.
    """

    feature: int
    kind: str
    p_value: float
    shift: FloatArray


@dataclass(frozen=True, slots=True)
class Specification:
    """What one more pass over the rows says about a fit; p free parameters, d slopes.

    Attributes
    ----------
    shape : Test
    share : (d,)
        Of the information on each slope, how much comes from the shape of histograms.
    location_shift : (p,)
        The one-step location root less the full one.
    location_covariance : (p, p)
        By groups.
    extensions : tuple of Extension
    context : Test
    scores : (G, p)
        With leverage, for CR3; of an exact likelihood as they are.
    support : (p,)
        Groups that inform each parameter, were they equally informative: (Σ t)²/Σ t².
    """

    shape: Test
    share: FloatArray
    location_shift: FloatArray
    location_covariance: FloatArray
    extensions: tuple[Extension, ...]
    context: Test
    scores: FloatArray
    support: FloatArray


def specify(
    problem: Problem,
    free: FloatArray,
    information: FloatArray,
    penalty: FloatArray,
    *,
    n_features: int | None = None,
    exact: FloatArray | None = None,
) -> Specification:
    """Test the specification of a fit at its root ``free``, or near it.

    Parameters
    ----------
    problem : Problem
    free, penalty : (p,)
    information : (p, p)
        J, without the ridge.
    n_features : int, optional
        Slopes after these are contextual, and not extended.
    exact : (G, p), optional
        Scores of the groups whose root ``free`` is, with this information, where they are not the
        quasi-scores.
    """
    bread = solve_scaled(information + np.diag(penalty), np.eye(len(free)))
    extends, slopes = Extends.of(problem, n_features), problem.slopes
    n_slopes = len(penalty[slopes]) if n_features is None else n_features
    means = group_means(problem)[:, :n_slopes]
    plain = problem.around(None)
    tested, location = _pass(plain, free, penalty, bread, extends, means)
    whole = tested
    if problem.effects is not None:
        whole, _ = _pass(problem, free, penalty, bread, Extends.nothing(extends), means)
    own = np.arange(slopes.start, slopes.start + n_slopes)
    moves = [like(whole.scores, each.T) for each in (location.bread, bread)]
    total = location.bread @ (location.total - penalty * free)
    total = total - bread @ (whole.total[: len(free)] - penalty * free)
    shape = UNTESTED
    if tested.by_groups and exact is None:
        n = len(location.scores)
        influence = location.scores @ moves[0] - whole.scores[:n, : len(free)] @ moves[1]
        moved = brought((influence**2).sum(0))[own]
        own = own[moved > LEVELS_ALONE * np.diag(location.model)[own]]
        shape = _by_blocks(total[own], influence[whole.tells[:n]][:, own], len(free))
    elif exact is None and not crossing(problem):
        apart = (location.model - bread @ information @ bread)[np.ix_(own, own)]
        own_model = np.diag(location.model)[own]
        told = np.diag(apart) > LEVELS_ALONE * own_model
        if told.any():
            shape = chi_square(*inverse_form(total[own][told], apart[np.ix_(told, told)]))
            shape = by_clusters(problem, shape, problem.n_fitted)
    quasi, quasi_bread = information, bread
    if exact is not None or problem.effects is not None:
        quasi = tested.information(len(free))
        quasi_bread = solve_scaled(quasi + np.diag(penalty), np.eye(len(free)))
    context_bread = bread if exact is None else quasi_bread
    told_by = whole.told
    return Specification(
        shape=shape,
        share=share_of_shape(bread @ information @ bread, location.model, slopes),
        location_shift=total,
        location_covariance=location.covariance(),
        extensions=_extensions(tested, quasi, quasi_bread, extends, slopes),
        context=by_clusters(problem, _context(whole, context_bread), problem.n_fitted),
        scores=brought(whole.leveraged) if exact is None else exact,
        support=brought(told_by.sum(0) ** 2 / (told_by**2).sum(0).clip(1e-300)),
    )


def testable(problem: Problem) -> bool:
    """Tell whether a pass over the rows can be made that tests the specification.

    Not of rows that are a sample, nor of tables that stand beside the groups.
    """
    return not (problem.design.sampled or problem.layout.beside)


def _pass(
    problem: Problem,
    free: FloatArray,
    penalty: FloatArray,
    bread: FloatArray,
    extends: Extends,
    means: FloatArray,
) -> tuple[_Whole, Location]:
    """Make one pass over the rows; ``means`` (G, k) are those of groups, tested for context."""
    levels, law = level_values(problem), Law.of(problem, free)
    around = problem.effects is not None
    columns = Columns((*extends.levels, *varied(problem)), extends.n_sums)

    def check(cells: slice, sums: tuple[Any, ...]) -> tuple[_Part, LocationPart | None, Any]:
        found = CellSums.of(problem, law, cells, sums)
        moments = groups_of(problem, free, found, columns)
        said = evidence(problem, moments, values=law.values)
        added = _added(said, moments, extends)
        other = units_of(problem, found, 1, columns) if problem.layout.border is not None else None
        part = _check(problem, moments, said, added, bread, len(free))
        level = None
        if not around:
            bare = replace(said, derivative=said.derivative[:, :, : len(free)])
            level = location_part(problem, moments, bare, levels)
        return part, level, other

    if on_device(problem):
        found = list(problem.design.parts.stream(check_rows, law, free, check, not around))
    else:
        law = tabulated(law, problem.design, free)
        sums = moment_sums if around else check_sums
        args = (law, free, True) if around else (law, free)
        found = list(problem.design.by_block(sums, *args, then=check))
    parts, levelled, others = zip(*found, strict=True)
    border = None
    if others[0] is not None:
        effects = reduce(add, [part.taken[2] for part in parts])
        stack, sums = problem.layout.stacks[1], reduce(add, others)
        moments = sums.moments(problem, free, stack, columns.n_added)
        border = moments, evidence(problem, moments, 1, values=law.values, effects=effects[None])
    whole = _Whole.of(problem, free, parts, border, columns, extends, bread, means)
    if around:
        return whole, None  # type: ignore[return-value]
    return whole, located(problem, levelled, None if border is None else border[1], penalty)


# -- sums over rows --------------------------------------------------------------------------------


@kernel
def check_sums(rows: Rows, law: Law, free: FloatArray) -> tuple[FloatArray, ...]:
    """Return what ``moment_sums`` does, and by block Σ x² ∂q/∂eta and Σ x ∂q/∂nuisance.

    The last, (b, L, d), is of the first nuisance parameter that is worked out per row; without any
    it has no columns.
    """
    if law.table is not None or few_rows(rows, law):
        sums_of = sums_of_few if law.table is None else looked_up
        sums = sums_of(rows, law, free, checks=True)
        scales = sums.scales if len(sums.scales) else sums.squares[:, :, :0]
        return *sums[:4], scales
    d, b, size = rows.matrix.shape[1], len(rows.blocks), law.n_statistics
    theta, nuisance = law.coordinates.split(free)
    scaled = law.coordinates.n_row_nuisance > 0
    by_square = np.zeros((b, size, 1 + d))
    by_scale = np.zeros((b, size, 1 + (d if scaled else 0)))
    mean, cross = np.zeros((b, size)), np.zeros((b, size, size))
    nothing = np.empty((0, 0, 0))
    for tile in rows.tiles(max(_TILE_CELLS // size, 256)):
        model = law.rows(rows, tile, theta, nuisance, False)
        x, people = np.ascontiguousarray(rows.matrix[tile].T), rows.people(tile)
        begin = np.clip(rows.start - tile.start, 0, x.shape[1])
        rest = people, 0, begin, mean
        accumulate(
            model.mean, model.d_eta, nothing, model.extra, x * x, *rest, by_square, cross, False,
            law.n_bins,
        )  # fmt: skip
        if scaled:
            accumulate(
                model.mean, np.ascontiguousarray(model.d_nuisance[0]), nothing, model.extra, x,
                *rest, by_scale, cross, False, law.n_bins,
            )  # fmt: skip
    return *moment_sums(rows, law, free, True), by_square[:, :, 1:], by_scale[:, :, 1:]


@kernel
def check_rows(
    rows: Any,
    law: Law,
    free: FloatArray,
    check: Callable[[slice, Any], tuple[Any, ...]],
    extended: bool,
) -> tuple[Any, ...]:
    """Check whole blocks where their rows are; for engines that can (``Design.scores_blocks``).

    Returns what ``check`` does of the blocks and their sums, those of ``check_sums`` or, without
    extensions, of ``moment_sums``.
    """
    raise NotImplementedError


@kernel
def power_sums(rows: Rows) -> FloatArray:
    """Return Σ 1, Σ x, Σ x², Σ x³ and Σ x⁴ over people, (5, d)."""
    x = rows.matrix
    if x.size < LARGE:
        people, square = rows.weighed(np.ones(len(x))), x * x
        powers = np.ones_like(x), x, square, square * x, square * square
        return np.array([people @ power for power in powers])
    total = np.zeros((5, x.shape[1]))
    _add_powers(*flat_columns(x), rows.people(), len(x), total)
    return total


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _add_powers(memory, first, step, weights, n, total):  # type: ignore[no-untyped-def]
    """Add what ``power_sums`` returns, column by column."""
    for j in range(total.shape[1]):
        values = memory[first + j * step : first + j * step + n]
        zero, one, two, three, four = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(n):
            w = weights[i] if len(weights) else 1.0
            once, twice = w * values[i], values[i] * values[i]
            zero += w
            one += once
            two += w * twice
            three += once * twice
            four += w * twice * twice
        total[0, j] += zero
        total[1, j] += one
        total[2, j] += two
        total[3, j] += three
        total[4, j] += four


@dataclass(frozen=True, slots=True)
class Extends:
    """What is tested for.

    Attributes
    ----------
    curved, scaled : (d,) bool
        Features whose square is tested, and those with which a scale may change.
    edges : int
        Edges that may lie elsewhere than the family says; 0 where that is not tested.
    levels : tuple of int
        Tables whose blocks may have levels of their own.
    n_blocks : tuple of int
        Of these tables.
    n_sums : int
        Columns of the sums over rows that are not those of the moments.
    """

    curved: BoolArray
    scaled: BoolArray
    edges: int
    levels: tuple[int, ...]
    n_blocks: tuple[int, ...]
    n_sums: int

    @classmethod
    def of(cls, problem: Problem, n_features: int | None) -> Extends:
        """Return what is tested for in a problem."""
        design, row_nuisance = problem.design, problem.coordinates.n_row_nuisance
        n, *sums = design.total(power_sums)
        one, two, three, four = (each / n for each in sums)
        spread = two - one**2
        skew = np.where(
            spread > 0, (three - one * two) ** 2 / np.where(spread > 0, spread, 1.0), 0.0
        )
        asked = design.varies & (np.arange(len(n)) < (n_features or len(n)))
        curved = asked & (four - two**2 - skew > _TWO_VALUED * np.maximum(four, 1e-300))
        edges, table = 0, problem.lead
        if problem.layout.plain and table.order is None:
            shared = table.counts.shared and table.counts.informative and table.means is None
            edges = table.counts.n_bins - 1 if shared and not problem.family.free_shape else 0
        # level and scale are fitted; against so few blocks so many directions cannot be tested
        enough = 1 + row_nuisance < edges <= _PER_BLOCK * len(design.size)
        levels = _with_levels(problem)
        n_blocks = tuple(len(problem.tables[t].counts.n) for t in levels)
        scaled = asked & (row_nuisance > 0)
        n_sums = len(n) * (1 + (row_nuisance > 0))
        return cls(curved, scaled, edges if enough else 0, levels, n_blocks, n_sums)

    @classmethod
    def nothing(cls, like: Extends) -> Extends:
        """Return that nothing is tested for."""
        none = np.zeros_like(like.curved)
        return cls(none, none, 0, (), (), 0)

    @property
    def groups(self) -> list[tuple[str, int, IntArray]]:
        """Return kind, feature (-1 for none) and columns of each test."""
        found: list[tuple[str, int]] = [("curvature", int(j)) for j in np.flatnonzero(self.curved)]
        found += [("scale", int(j)) for j in np.flatnonzero(self.scaled)]
        groups = [(kind, j, np.array([k])) for k, (kind, j) in enumerate(found)]
        at = len(found)
        if self.edges:
            groups.append(("shape", -1, at + np.arange(self.edges)))
            at += self.edges
        for t, n in zip(self.levels, self.n_blocks, strict=True):
            groups.append(("levels", t, at + np.arange(n)))
            at += n
        return groups


def _with_levels(problem: Problem) -> tuple[int, ...]:
    """Return the tables that are not by groups, and whose blocks have no random intercept."""
    if problem.layout.plain:
        return ()
    further = problem.further or (0.0,) * len(problem.tables)
    found = []
    for t in (*problem.plan.core, *problem.plan.border):
        n, group = len(problem.tables[t].counts.n), problem.plan.group
        by_group = len(np.unique(group * np.int64(n) + problem.codes[t])) == int(group.max()) + 1
        if 1 < n <= LARGEST_PARTITION and not (by_group and n > group.max()) and not further[t]:
            found.append(t)
    return tuple(found)


def _added(said: Evidence, moments: Moments, extends: Extends) -> Any:
    """Return the derivatives of some groups in all extensions, (u, L, k); arrays or tensors.

    Those in the levels of blocks come with those in the parameters.
    """
    added = moments.added
    d = len(extends.curved)
    parts = (
        []
        if added is None or not extends.n_sums
        else [added[:, :, :d][:, :, np.flatnonzero(extends.curved)]]
    )
    if extends.scaled.any():
        parts.append(added[:, :, d:][:, :, np.flatnonzero(extends.scaled)])
    if extends.edges:
        # a shift of eta for one edge alone moves people from the bin below it to that above
        above, size = -said.shift.cumsum(1), (said.shift.shape[1], extends.edges)
        sign = like(said.shift, np.eye(*size, -1) - np.eye(*size))
        parts.append(above[:, None, : extends.edges] * sign)
    if not parts:
        return said.derivative[:, :, :0]
    return namespace(said.residual).concatenate(parts, 2)


# -- sums over groups ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """What some groups contribute.

    What is of each group is a tensor where blocks are on a device. The columns of derivatives w are
    those in the parameters, in the levels of blocks, and in what else is tested for.

    Attributes
    ----------
    scores, leveraged : (u, w), (u, p) or None
        D_gᵀ Σ⁻¹ r_g, and the same with leverage.
    pulled, held, along : (u,), (u,), (u, w)
        e_gᵀ Σ⁻¹ r_g, e_gᵀ Σ⁻¹ e_g and e_gᵀ Σ⁻¹ D_g.
    told : (u, p) or None
        The diagonal of J⁻¹ D_gᵀ Σ⁻¹ D_g J⁻¹.
    own : (u, p, p) or None
        D_gᵀ S⁻¹ D_g, where leverage is left to the whole.
    reached : (u, M) or None
        How a shift of the group moves what the border says beyond the groups.
    squares : (w, w)
        Σ D_gᵀ Σ⁻¹ D_g.
    taken : tuple of arrays
        What groups take from the border: Σ C_gᵀ Σ⁻¹ C_g, Σ C_gᵀ Σ⁻¹ [D, r], and what random
        intercepts add to it.
    """

    scores: Any
    leveraged: Any
    pulled: Any
    held: Any
    along: Any
    told: Any
    own: Any
    reached: Any
    squares: Any
    taken: tuple[FloatArray, ...] = ()


def _check(
    problem: Problem,
    moments: Moments,
    said: Evidence,
    added: Any,
    bread: FloatArray,
    p: int,
) -> _Part:
    """Return what some groups contribute; of arrays or of tensors."""
    n, size, _ = said.derivative.shape
    plain = problem.layout.plain and problem.known is None and leading(problem) is None
    large = n * size * (p + added.shape[2]) >= LARGE  # else it is not worth compiling for
    used = problem.stacked[0].used[moments.units]
    if plain and large and size <= PANEL and isinstance(added, np.ndarray):
        return _check_one_by_one(problem, moments, said, added, used, bread)
    return _check_together(problem, moments, said, added, used, bread, p, plain=plain)


def _check_one_by_one(
    problem: Problem,
    moments: Moments,
    said: Evidence,
    added: FloatArray,
    used: BoolArray,
    bread: FloatArray,
) -> _Part:
    """Return what many blocks of a single table contribute, in a compiled loop."""
    along = np.empty((0, len(bread)))
    if problem.effects is not None:
        along = problem.effects.along[moments.units]
    columns = said.derivative, added, said.shift, said.residual
    sigma = variance_of(said, problem.block_variance)
    found = check_blocks(sigma, *columns, used, bread, along)
    if found.alone.any():
        white, white_r = found.white[found.alone], found.residual[found.alone]
        own = np.eye(white.shape[1]) - white @ bread @ white.swapaxes(1, 2)
        found.leveraged[found.alone] = (white * _left_out(own, white_r[:, :, None])).sum(1)
    rows = found.white.shape[0] * found.white.shape[1]
    flat = np.concatenate([found.white, found.extended], axis=2).reshape(rows, -1)
    return _Part(
        scores=np.concatenate([found.scores, found.added], axis=1),
        leveraged=found.leveraged,
        pulled=found.pulled,
        held=found.held,
        along=found.along,
        told=found.told,
        own=None,
        reached=None,
        squares=flat.T @ flat,
    )


def _check_together(
    problem: Problem,
    moments: Moments,
    said: Evidence,
    added: Any,
    used: BoolArray,
    bread: FloatArray,
    p: int,
    *,
    plain: bool,
) -> _Part:
    """Return what some groups contribute, all at once; of arrays or of tensors.

    Where groups are more than the blocks of a table, random intercepts and leverage are left to the
    whole.
    """
    xp, variance = namespace(said.residual), problem.block_variance if plain else 0.0
    columns = [said.derivative, added, said.shift[:, :, None], said.residual[:, :, None]]
    if moments.across is not None:
        columns.append(moments.across)
    block = xp.concatenate(columns, 2)
    if plain:
        factor = xp.linalg.cholesky(masked(variance_of(said, variance), used))
        block = xp.linalg.inv(factor) @ (block * like(factor, used)[:, :, None])
    else:
        block, _ = whiten(said.covariance, block, used)
    w = said.derivative.shape[2] + added.shape[2]
    white, e, r = block[:, :, :w], block[:, :, w], block[:, :, w + 1]
    if problem.effects is not None and plain:
        white = white + e[:, :, None] * _instruments(problem, moments, white, e, p)
    flat = white.reshape(white.shape[0] * white.shape[1], w)
    found = _Part(
        scores=(white * r[:, :, None]).sum(1),
        leveraged=None,
        pulled=(e * r).sum(1),
        held=(e**2).sum(1),
        along=(white * e[:, :, None]).sum(1),
        told=None,
        own=None,
        reached=None,
        squares=long_product(flat, flat),
    )
    d = white[:, :, :p]
    if plain:
        towards = d @ like(d, bread)
        own = like(d, np.eye(used.shape[1])) - towards @ d.swapaxes(1, 2)
        free_r = _left_out(own, r[:, :, None])
        return replace(found, leveraged=(d * free_r).sum(1), told=(towards**2).sum(1))
    found = replace(found, own=d.swapaxes(1, 2) @ d)
    if moments.across is None:
        return found
    return _with_border(problem.block_variance, moments, found, white, e, r, block[:, :, w + 2 :])


def _with_border(
    variance: float,
    moments: Moments,
    part: _Part,
    white: FloatArray,
    e: FloatArray,
    r: FloatArray,
    across: FloatArray,
) -> _Part:
    """Add what groups take from the border, their random intercepts allowed for."""
    reached = moments.reached
    added = variance * reached.T @ reached
    across = across + variance * e[:, :, None] * reached[:, None, :]
    hold = (e * e).sum(1)
    less = (1 - 1 / np.sqrt(1 + variance * hold)) / np.maximum(hold, NOTHING)
    columns = np.concatenate([white, r[:, :, None], e[:, :, None]], axis=2)

    def loosened(values: FloatArray) -> FloatArray:
        along = (e[:, None, :] @ values)[:, 0]
        return np.asarray(values - (less[:, None] * e)[:, :, None] * along[:, None, :])

    columns, across = loosened(columns), loosened(across)
    beyond = reached - (columns[:, None, :, -1] @ across)[:, 0]
    flat = across.reshape(-1, across.shape[2])
    taken = flat.T @ columns[:, :, :-1].reshape(-1, columns.shape[2] - 1)
    return replace(part, reached=beyond, taken=(flat.T @ flat, taken, added))


def _left_out(own: Any, white_r: Any) -> Any:
    """Return (I - H_g)⁻¹ r_g, without directions that a group alone determines."""
    linalg = namespace(own).linalg
    try:
        return linalg.solve(own, white_r)
    except linalg.LinAlgError:
        return linalg.pinv(own, _ALONE, hermitian=True) @ white_r


def _instruments(problem: Problem, moments: Moments, white: Any, e: Any, p: int) -> Any:
    """Return what is added to D_g along e_g to weigh groups as if not looked at, (u, 1, w).

    The score with D_g + e_g aᵀ is that of :func:`unbin.likelihood.model.score.score_sums`.
    """
    assert problem.effects is not None
    where, held = namespace(white).where, (e**2).sum(1)[:, None]
    own = (white * e[:, :, None]).sum(1) / where(held > 0, held, 1.0)
    along = like(white, problem.effects.along[moments.units])
    found = where(held > 0, along - own[:, :p], 0.0)
    if white.shape[2] == p:
        return found[:, None, :]
    rest = own[:, p:] * 0.0
    return namespace(white).concatenate([found, rest], 1)[:, None, :]


@dataclass(frozen=True, slots=True)
class _Whole:
    """All groups and the border together, random intercepts allowed for.

    Columns of derivatives are those in the parameters, in what is tested for, and last in the
    effects of the k group means.

    Attributes
    ----------
    scores : (G, w)
        Of groups, or of the larger blocks with effects that these lie in.
    leveraged, told : (G, p)
    squares : (w, w)
    total : (w,)
        Scores of groups and border.
    n_context : int
        k.
    by_groups : bool
        Whether scores are of groups that have nothing in common.
    """

    scores: Any
    leveraged: Any
    told: Any
    squares: FloatArray
    total: FloatArray
    n_context: int
    by_groups: bool

    @property
    def tells(self) -> Any:
        """Groups with information, (G,)."""
        return self.told.sum(1) > 0

    def information(self, p: int) -> FloatArray:
        """Return J."""
        return self.squares[:p, :p]

    @classmethod
    def of(
        cls,
        problem: Problem,
        free: FloatArray,
        parts: Sequence[_Part],
        border: tuple[Moments, Evidence] | None,
        columns: Columns,
        extends: Extends,
        bread: FloatArray,
        means: FloatArray,
    ) -> _Whole:
        """Put all groups together."""
        p, k = len(free), means.shape[1]
        squares = np.asarray(brought(reduce(add, [part.squares for part in parts])))
        each = {
            name: _together([getattr(part, name) for part in parts])
            for name in ("scores", "leveraged", "pulled", "held", "along", "told", "own", "reached")
        }
        if parts[0].own is None:
            scores, squares = _with_context(each, each["scores"], squares, means, 1.0)
            total = np.asarray(brought(scores.sum(0)))
            return cls(scores, each["leveraged"], each["told"], squares, total, k, by_groups=True)
        each, squares = _with_known(problem, free, each, squares)
        each, squares = _not_looked_at(problem, each, squares, p)
        variance, hold, along = problem.block_variance, each["held"], each["along"]
        loose = 1 + variance * hold
        share = variance / loose
        scores = each["scores"] - (share * each["pulled"])[:, None] * along
        squares = squares - along.T @ (along * share[:, None])
        own = each["own"] - share[:, None, None] * along[:, :p, None] * along[:, None, :p]
        scores, squares = _with_context(each, scores, squares, means, loose)
        total = scores.sum(axis=0)
        if border is not None:
            taken = [part.taken for part in parts]
            white, residual = _beyond(problem, taken, *border, extends, each["reached"], means)
            squares, total = squares + white.T @ white, total + white.T @ residual
        further = _further_columns(problem, columns, p)
        cluster = clusters(problem, len(scores))
        own = summed(own, cluster)
        if len(further):
            scores, squares, total, own = _profiled(
                problem, further, p, scores, squares, total, own
            )
        scores = summed(scores, cluster)
        return cls(
            scores=scores,
            leveraged=_leave_out(own, bread, scores[:, :p]),
            told=np.einsum("ij,gjk,ki->gi", bread, own, bread, optimize=True),
            squares=squares,
            total=total,
            n_context=k,
            by_groups=border is None and not crossing(problem),
        )


def _with_context(
    each: dict[str, Any], scores: Any, squares: FloatArray, means: FloatArray, loose: Any
) -> tuple[Any, FloatArray]:
    """Add the derivatives in effects of group means to scores and to their products.

    A group mean is the same for everybody of a group, so that its derivative is e_g times the mean.
    """
    pulled, held = each["pulled"] / loose, each["held"] / loose
    values = like(pulled, means)
    n, own = len(values), values * held[: len(values), None]
    # people whose outcome is known, outside all groups, have no part in it
    along = each["along"][:n] / (loose[:n, None] if isinstance(loose, np.ndarray) else loose)
    crossed, squared = brought(long_product(values, along)), brought(long_product(values, own))
    added = scores[:, :1] * like(pulled, np.zeros((1, means.shape[1])))
    added[:n] = values * pulled[:n, None]
    wide = np.block([[squares, crossed.T], [crossed, squared]])
    return namespace(scores).concatenate([scores, added], 1), wide


def _together(arrays: list[Any]) -> Any:
    if arrays[0] is None or len(arrays) == 1:
        return arrays[0]
    return namespace(arrays[0]).concatenate(arrays)


def _leave_out(own: FloatArray, bread: FloatArray, scores: FloatArray) -> FloatArray:
    """Return (I - J_g J⁻¹)⁻¹ times scores, (G, p), without what a group alone determines."""
    left = np.eye(len(bread)) - own @ bread
    try:
        return np.asarray(np.linalg.solve(left, scores[:, :, None])[:, :, 0])
    except np.linalg.LinAlgError:
        return np.asarray(np.einsum("gij,gj->gi", np.linalg.pinv(left, _ALONE), scores))


def _with_known(
    problem: Problem, free: FloatArray, each: dict[str, Any], squares: FloatArray
) -> tuple[dict[str, Any], FloatArray]:
    """Add people whose outcome is known to their groups; outside all of them each is a group."""
    known, home = known_people(problem), problem.home
    if known is None or home is None:
        return each, squares
    n, p, outside = len(each["held"]), len(free), home < 0
    home = np.where(outside, n + np.cumsum(outside) - 1, home)
    law = Law.of(known, free)

    def check(cells: slice, sums: tuple[Any, ...]) -> _Part:
        moments = groups_of(known, free, CellSums.of(known, law, cells, sums))
        said = evidence(known, moments)
        used, nothing = known.stacked[0].used[cells], said.derivative[:, :, :0]
        return _check_together(known, moments, said, nothing, used, np.eye(p), p, plain=False)

    found = list(known.design.by_block(moment_sums, law, free, True, then=check))
    squares = squares.copy()
    squares[:p, :p] += reduce(add, [part.squares for part in found])
    total: dict[str, Any] = {}
    for name, mine in each.items():
        if mine is None or name == "reached":
            total[name] = mine
            continue
        theirs = np.concatenate([getattr(part, name) for part in found])
        total[name] = np.zeros((n + int(outside.sum()), *mine.shape[1:]))
        total[name][:n] = mine
        at: Any = (home, slice(0, p)) if name in ("scores", "along") else home
        np.add.at(total[name], at, theirs)
    return total, squares


def _not_looked_at(
    problem: Problem, each: dict[str, Any], squares: FloatArray, p: int
) -> tuple[dict[str, Any], FloatArray]:
    """Weigh groups whose statistics are expanded around their effects as if not looked at.

    With D_g + e_g cᵀ instead of D_g, as ``_instruments`` does block by block.
    """
    if problem.effects is None:
        return each, squares
    hold, along = each["held"], each["along"]
    own, held = instruments(problem, hold, along[:, :p])
    more = held - own
    crossed = more.T @ along
    squares = squares.copy()
    squares[:p] += crossed
    squares[:, :p] += crossed.T
    squares[:p, :p] += more.T @ (hold[:, None] * more)
    outer = more[:, :, None] * along[:, None, :p]
    scores, moved = each["scores"].copy(), along.copy()
    scores[:, :p] += more * each["pulled"][:, None]
    moved[:, :p] += more * hold[:, None]
    inside = each["own"] + outer + outer.swapaxes(1, 2)
    inside += hold[:, None, None] * more[:, :, None] * more[:, None, :]
    return each | {"scores": scores, "along": moved, "own": inside}, squares


def _beyond(
    problem: Problem,
    taken_by: Sequence[tuple[FloatArray, ...]],
    moments: Moments,
    said: Evidence,
    extends: Extends,
    reached: FloatArray,
    means: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return derivatives of what the border says beyond the groups, and its residual, whitened."""
    square, taken, more = (reduce(add, each) for each in zip(*taken_by, strict=True))
    used = problem.stacked[1].used[0]
    wide = np.concatenate([said.derivative, _added(said, moments, extends)], axis=2)[0]
    own = np.concatenate([wide, said.residual[0][:, None]], axis=1) - taken
    variance = said.covariance[0] + more - square
    root = left_root(variance[np.ix_(used, used)], np.diag(said.covariance[0])[used])
    white = root @ own[used]
    context = root @ (reached.T @ means)[used]
    return np.concatenate([white[:, :-1], context], axis=1), white[:, -1]


def _further_columns(problem: Problem, columns: Columns, p: int) -> IntArray:
    """Return the columns of random intercepts that are allowed for."""
    found, at, inside = [np.zeros(0, np.int64)], p, set(varied(problem))
    for t in columns.tables:
        n = problem.n_blocks[t]
        if t in inside:
            found.append(at + np.arange(n))
        at += n
    return np.concatenate(found)


def _profiled(
    problem: Problem,
    further: IntArray,
    p: int,
    scores: FloatArray,
    squares: FloatArray,
    total: FloatArray,
    own: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return scores and their products with random intercepts above groups profiled out.

    ``own`` are those of the largest blocks, which have nothing in common; groups have.
    """
    tables = varied(problem)
    sizes = [problem.n_blocks[t] for t in tables]
    variance = np.repeat([problem.further[t] for t in tables], sizes)
    hold = squares[np.ix_(further, further)] + np.diag(1 / variance)
    rest = np.setdiff1d(np.arange(len(total)), further)
    across = squares[np.ix_(further, rest)]
    weight = np.asarray(np.linalg.solve(hold, across))
    taken = taken_by_cluster(problem, across[:, :p], weight[:, :p])
    own[: len(taken)] -= taken
    changed = scores[:, rest] - scores[:, further] @ weight
    left = squares[np.ix_(rest, rest)] - across.T @ weight
    return changed, left, total[rest] - total[further] @ weight, own


# -- tests -----------------------------------------------------------------------------------------


def _by_blocks(shift: FloatArray, influence: Any, n_fitted: int) -> Test:
    """Test a shift against how much blocks move it, by Hotelling's F."""
    centred = influence - influence.sum(0) / max(len(influence), 1)
    return _by_squares(shift, brought(long_product(centred, centred)), len(influence), n_fitted)


def _by_squares(shift: FloatArray, squares: FloatArray, n_blocks: int, n_fitted: int) -> Test:
    """Test a shift against the cross-products (d, d) of how blocks move it, by Hotelling's F."""
    d = len(squares)
    df = n_blocks - n_fitted - d + 1
    if df < 1 or d == 0:
        return UNTESTED
    variance = squares * (n_blocks / (n_blocks - n_fitted))
    square, rank = inverse_form(shift, variance)
    if rank == 0:
        return UNTESTED
    statistic = square * df / ((n_blocks - n_fitted) * rank)
    return Test(statistic, rank, df, float(fdtrc(rank, df, statistic)))


def _extensions(
    whole: _Whole, information: FloatArray, bread: FloatArray, extends: Extends, slopes: slice
) -> tuple[Extension, ...]:
    """Test the extensions one by one: by groups, with a border by the model.

    Levels of blocks by the model.
    """
    p = len(information)
    errors = np.sqrt(np.maximum(np.diag(bread @ information @ bread), 1e-300))[slopes]
    levels = sum(extends.n_blocks)
    # levels come before what is tested for else
    last = len(whole.squares) - whole.n_context
    order = np.concatenate([np.arange(p + levels, last), p + np.arange(levels)])
    crossed, squared = whole.squares[order, :p], whole.squares[np.ix_(order, order)]
    left = squared - crossed @ bread @ crossed.T
    total = whole.total[order] - crossed @ (bread @ whole.total[:p])
    n_fitted, model = p, left
    squares = np.zeros_like(left)
    n_blocks = 0
    if whole.by_groups:
        fitted = like(whole.scores, bread @ crossed.T)
        scores = (whole.scores[:, order] - whole.scores[:, :p] @ fitted)[whole.tells]
        n_blocks = len(scores)
        centred = scores - scores.sum(0) / max(n_blocks, 1)
        total, squares = brought(scores.sum(0)), brought(long_product(centred, centred))
    found = []
    p_values, steps = _single_tests(
        total, squares, left, squared, n_blocks, n_fitted, whole.by_groups
    )
    for kind, feature, at in extends.groups:
        p_value, step = p_values[at[0]], steps[at]
        if len(at) > 1:
            square = np.ix_(at, at)
            basis = told_apart(left[square], squared[square])
            if not basis.shape[1]:
                continue
            pulled, inner = basis.T @ total[at], basis.T @ left[square] @ basis
            step = basis @ np.linalg.solve(inner, pulled)
            if kind == "levels" or not whole.by_groups:
                p_value = chi_square(*inverse_form(pulled, basis.T @ model[square] @ basis)).p_value
            else:
                moved = basis.T @ squares[square] @ basis
                p_value = _by_squares(pulled, moved, n_blocks, n_fitted).p_value
        if np.isfinite(p_value):
            shift = -(bread @ crossed[at].T @ step)[slopes] / errors
            found.append(Extension(feature, kind, float(p_value), shift))
    return tuple(found)


def _single_tests(
    total: FloatArray,
    squares: FloatArray,
    left: FloatArray,
    squared: FloatArray,
    n_blocks: int,
    n_fitted: int,
    by_groups: bool,
) -> tuple[FloatArray, FloatArray]:
    """Return p values of all extensions of one column each, and steps towards them, both (k,).

    The tests of :func:`_by_squares`, all at once; NaN where nothing can be tested.
    """
    own = np.diag(left)
    p_values, steps = np.full((2, len(own)), np.nan)
    told = own > _TOLD_APART * np.maximum(np.diag(squared), 1e-300)
    if by_groups:
        df, moved = n_blocks - n_fitted, np.diag(squares)
        told = told & (moved > 0) & (df >= 1)
        variance = moved[told] * (n_blocks / max(df, 1))
        p_values[told] = fdtrc(1, max(df, 1), total[told] ** 2 / variance)
    else:
        p_values[told] = chdtrc(1, total[told] ** 2 / own[told])
    steps[told] = total[told] / own[told]
    return p_values, steps


def told_apart(left: FloatArray, squared: FloatArray) -> FloatArray:
    """Return the directions, (k, r), in which extensions differ from what is fitted already."""
    size = np.sqrt(np.maximum(np.diag(squared), 1e-300))
    values, vectors = np.linalg.eigh(left / np.outer(size, size))
    return np.asarray(vectors[:, values > _TOLD_APART] / size[:, None])


def _context(whole: _Whole, bread: FloatArray) -> Test:
    """Test that group means of features add nothing, by the score and the model's covariance."""
    p, first = len(bread), len(whole.squares) - whole.n_context
    crossed, squared = whole.squares[first:, :p], whole.squares[first:, first:]
    score = whole.total[first:] - crossed @ bread @ whole.total[:p]
    variance = squared - crossed @ bread @ crossed.T
    # a feature that hardly varies within blocks is its own block mean
    told = np.diag(variance) > 1e-6 * np.diag(squared)
    if not told.any():
        return UNTESTED
    return chi_square(*inverse_form(score[told], variance[np.ix_(told, told)]))


def group_means(problem: Problem) -> FloatArray:
    """Return the mean of every column, and last of the offset, in each group."""
    design, group = problem.design, problem.plan.group
    if problem.layout.plain:
        return design.block_means
    sums = design.block_means * design.people[:, None]
    people = np.bincount(group, design.people)
    total = np.stack([np.bincount(group, each) for each in sums.T], axis=1)
    return np.asarray(total / np.where(people > 0, people, 1.0)[:, None])


def context_test(
    problem: Problem, free: FloatArray, information: FloatArray, score: FloatArray, first: int
) -> Test:
    """Test that slopes after the first few, held at 0, are 0: Rao's score test.

    Parameters
    ----------
    problem : Problem
    free : (p,)
        The root of the others.
    information, score : (p, p), (p,)
        There, without the ridge that holds the slopes.
    first : int
        Slopes that are not held.
    """
    context = np.arange(problem.slopes.start + first, problem.slopes.stop)
    rest = np.setdiff1d(np.arange(len(free)), context)
    across = information[np.ix_(context, rest)]
    taken = solve_scaled(information[np.ix_(rest, rest)], across.T).T
    variance = information[np.ix_(context, context)] - taken @ across.T
    pulled = score[context] - taken @ score[rest]
    told = np.diag(variance) > 1e-6 * np.diag(information)[context]
    if not told.any():
        return UNTESTED
    found = chi_square(*inverse_form(pulled[told], variance[np.ix_(told, told)]))
    return by_clusters(problem, found, problem.n_fitted - len(context))
