"""Specification tests of a fit to one table, from one more pass over the rows at its root.

*Shape*. If the family is right and blocks differ for no reason related to the features, the
location score (:mod:`unbin.likelihood.location`) vanishes at the root of the full score but for
noise. Its one-step root is δ = A⁻¹ Σ W_bᵀ r_b away; with ψ_b = A⁻¹ W_bᵀ r_b - J⁻¹ D_bᵀ Σ_b⁻¹ r_b
the variance of δ is V = Σ ψ_b ψ_bᵀ B/(B - p) (Hausman's test, by blocks; F).

*Extensions*. Score tests, by blocks, that the effect of a feature is not curved (its square), that
the scale does not change with it, and that edges lie where the family says: that people are not
moved across each of them by a shift of eta of its own, as thresholds could be. And the shift of the
slopes that the extension would bring.

*Context*. A score test that block means of the features have no effect of their own (Mundlak), with
the model's covariance: it needs the fit without them only.

Shape and extensions are tested with statistics averaged over the block effects, not expanded around
each: weights that know of the outcomes would be related to them.

*Leverage*. Scores as they would be had the block not been fitted, (I - H_b)⁻¹ r_b with
H_b = D_b J⁻¹ D_bᵀ Σ_b⁻¹, for the sandwich CR3.

References
----------
Hausman, J. A. (1978). Specification tests in econometrics. *Econometrica*, 46, 1251-1271.

Bell, R. M. and McCaffrey, D. F. (2002). Bias reduction in standard errors for linear regression
with multi-stage samples. *Survey Methodology*, 28, 169-181.

Mundlak, Y. (1978). On the pooling of time series and cross section data. *Econometrica*, 46, 69-85.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.special import chdtrc, fdtrc

from unbin._compiling import njit
from unbin._linalg import (
    PANEL,
    brought,
    inverse_form,
    like,
    long_product,
    namespace,
    solve_lower,
    solve_scaled,
)
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.likelihood.law import Law
from unbin.likelihood.location import (
    Location,
    LocationPart,
    bin_values,
    located,
    location_part,
    share_of_shape,
    slopes_of,
)
from unbin.likelihood.lookup import tabulated
from unbin.likelihood.moments import (
    BlockMoments,
    few_rows,
    finish,
    looked_up,
    map_moments,
    moment_sums,
    sums_of_few,
)
from unbin.likelihood.problem import Problem
from unbin.likelihood.quasi_score import (
    Evidence,
    evidence,
    left_statistics,
    masked,
    used_statistics,
    variance_of,
)
from unbin.likelihood.weighing import check_blocks
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
        By blocks.
    extensions : tuple of Extension
    context : Test
    scores : (B, p) or None
        With leverage, for CR3; of an exact likelihood as they are; None of several tables.
    support : (p,) or None
        Blocks that inform each parameter, were they equally informative: (Σ t)²/Σ t².
    """

    shape: Test
    share: FloatArray
    location_shift: FloatArray
    location_covariance: FloatArray
    extensions: tuple[Extension, ...] = ()
    context: Test = UNTESTED
    scores: FloatArray | None = None
    support: FloatArray | None = None


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
    exact : (B, p), optional
        Scores of the blocks whose root ``free`` is, with this information, where they are not the
        quasi-scores.
    """
    bread = solve_scaled(information + np.diag(penalty), np.eye(len(free)))
    extends = Extends.of(problem, n_features)
    plain = replace(problem, effects=None)
    tested, location = _pass(plain, free, penalty, bread, extends)
    whole = tested if problem.effects is None else _pass_around_effects(problem, free, bread)
    slopes = slopes_of(problem)
    moves = [like(whole.scores, each.T) for each in (location.bread, bread)]
    influence = location.scores @ moves[0] - whole.scores @ moves[1]
    shift = brought(influence.sum(0)) - (location.bread - bread) @ (penalty * free)
    n_slopes = len(penalty[slopes]) if n_features is None else n_features
    own = np.arange(slopes.start, slopes.start + n_slopes)
    moved = brought((influence**2).sum(0))[own]
    own = own[moved > LEVELS_ALONE * np.diag(location.model)[own]]
    shape = _by_blocks(shift[own], influence[whole.tells][:, own], len(free))
    if exact is not None:
        shape = UNTESTED
    quasi, quasi_bread = information, bread
    if exact is not None or problem.effects is not None:
        quasi = tested.informed
        quasi_bread = solve_scaled(quasi + np.diag(penalty), np.eye(len(free)))
    context_bread = bread if exact is None else quasi_bread
    return Specification(
        shape=shape,
        share=share_of_shape(bread @ information @ bread, location.model, slopes),
        location_shift=shift,
        location_covariance=location.covariance(),
        extensions=_extensions(tested, quasi, quasi_bread, extends, slopes),
        context=_context(problem, whole, context_bread, n_slopes),
        scores=brought(whole.leveraged) if exact is None else exact,
        support=brought(whole.told.sum(0) ** 2 / (whole.told**2).sum(0).clip(1e-300)),
    )


def _pass(
    problem: Problem,
    free: FloatArray,
    penalty: FloatArray,
    bread: FloatArray,
    extends: Extends,
) -> tuple[_Part, Location]:
    """Make one pass over the rows."""
    values, published = bin_values(problem), used_statistics(problem)

    def check(blocks: slice, sums: tuple[Any, ...]) -> tuple[_Part, LocationPart]:
        *moments, squares, scales = sums
        said = evidence(problem, finish(problem, free, blocks, tuple(moments), True))
        added = _extension_columns(problem, said, blocks, squares, scales, extends)
        level = location_part(problem, said, blocks, values[blocks], published[blocks])
        return _check(problem, said, blocks, added, bread), level

    if _checks_blocks(problem):
        found = problem.design.parts.stream(check_rows, Law.of(problem), free, check, True)
    else:
        law = tabulated(Law.of(problem), problem.design, free)
        found = problem.design.by_block(check_sums, law, free, then=check)
    parts, levels = zip(*found, strict=True)
    return _Part.joined(parts), located(problem, levels, penalty)


def _pass_around_effects(problem: Problem, free: FloatArray, bread: FloatArray) -> _Part:
    """Make one pass over the rows, statistics expanded around the block effects; no extensions."""

    def check(part: BlockMoments) -> _Part:
        nothing = part.derivative[:, :, :0]
        return _check(problem, evidence(problem, part), part.blocks, nothing, bread)

    def whole(blocks: slice, sums: tuple[Any, ...]) -> tuple[_Part]:
        return (check(finish(problem, free, blocks, sums, True)),)

    if _checks_blocks(problem):
        found = problem.design.parts.stream(check_rows, Law.of(problem), free, whole, False)
        return _Part.joined(part for (part,) in found)
    return _Part.joined(map_moments(problem, free, check))


def _checks_blocks(problem: Problem) -> bool:
    """Tell whether blocks are checked where their rows are."""
    return problem.design.scores_blocks and problem.counts.low is None


def testable(problem: Problem) -> bool:
    """Tell whether a pass over the rows can be made that tests the specification.

    Not yet of order statistics, nor of rows that are a sample.
    """
    return not (problem.design.sampled or problem.order is not None)


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
    """

    curved: BoolArray
    scaled: BoolArray
    edges: int

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
        shared = problem.counts.shared and problem.counts.informative and problem.means is None
        edges = problem.counts.n_bins - 1 if shared and not problem.family.free_shape else 0
        # level and scale are fitted; against so few blocks so many directions cannot be tested
        enough = 1 + row_nuisance < edges <= _PER_BLOCK * len(design.size)
        return cls(curved, asked & (row_nuisance > 0), edges if enough else 0)

    @property
    def groups(self) -> list[tuple[str, int, IntArray]]:
        """Return kind, feature (-1 for none) and columns of each test."""
        found: list[tuple[str, int]] = [("curvature", int(j)) for j in np.flatnonzero(self.curved)]
        found += [("scale", int(j)) for j in np.flatnonzero(self.scaled)]
        groups = [(kind, j, np.array([k])) for k, (kind, j) in enumerate(found)]
        if self.edges:
            groups.append(("shape", -1, len(found) + np.arange(self.edges)))
        return groups


def _extension_columns(
    problem: Problem,
    said: Evidence,
    blocks: slice,
    squares: Any,
    scales: Any,
    extends: Extends,
) -> Any:
    """Return the derivatives of some blocks in all extensions, (b, L, k); arrays or tensors."""
    parts = [squares[:, :, np.flatnonzero(extends.curved)]]
    if extends.scaled.any():
        parts.append(scales[:, :, np.flatnonzero(extends.scaled)])
    if problem.factor is not None:
        factor = like(squares, problem.factor[blocks])[:, None, None]
        parts = [factor * part for part in parts]
    if extends.edges:
        # a shift of eta for one edge alone moves people from the bin below it to that above
        above, size = -said.shift.cumsum(1), (said.shift.shape[1], extends.edges)
        sign = like(squares, np.eye(*size, -1) - np.eye(*size))
        parts.append(above[:, None, : extends.edges] * sign)
    return namespace(squares).concatenate(parts, 2)


# -- sums over blocks ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """What some blocks contribute; ``joined`` adds up or puts side by side.

    What is of each block is a tensor where blocks are on a device.

    Attributes
    ----------
    scores, leveraged, added : (b, p), (b, p), (b, k)
        D_bᵀ Σ⁻¹ r_b, the same with leverage, and Z_bᵀ Σ⁻¹ r_b.
    pulled, held, along : (b,), (b,), (b, p)
        e_bᵀ Σ⁻¹ r_b, e_bᵀ Σ⁻¹ e_b and e_bᵀ Σ⁻¹ D_b.
    told : (b, p)
        The diagonal of J⁻¹ D_bᵀ Σ⁻¹ D_b J⁻¹.
    informed, crossed, squared : (p, p), (k, p), (k, k)
        Σ D_bᵀ Σ⁻¹ D_b, Σ Z_bᵀ Σ⁻¹ D_b and Σ Z_bᵀ Σ⁻¹ Z_b.
    """

    scores: Any
    leveraged: Any
    added: Any
    pulled: Any
    held: Any
    along: Any
    told: Any
    informed: Any
    crossed: Any
    squared: Any

    @classmethod
    def joined(cls, parts: Iterable[_Part]) -> _Part:
        """Put the blocks of all parts side by side, and add up the rest."""
        names, found = cls.__slots__, list(parts)
        split = names.index("informed")
        each = {name: [getattr(part, name) for part in found] for name in names}
        blocks = {name: _together(each[name]) for name in names[:split]}
        return cls(**blocks, **{name: brought(reduce(add, each[name])) for name in names[split:]})

    @property
    def tells(self) -> Any:
        """Blocks with information, (B,)."""
        return self.told.sum(1) > 0


def _together(arrays: list[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else namespace(arrays[0]).concatenate(arrays)


def _check(problem: Problem, said: Evidence, blocks: slice, added: Any, bread: FloatArray) -> _Part:
    """Return what some blocks contribute; of arrays or of tensors."""
    n_blocks, size, p = said.derivative.shape
    large = n_blocks * size * (p + added.shape[2]) >= LARGE  # else it is not worth compiling for
    if large and size <= PANEL and isinstance(added, np.ndarray):
        return _check_one_by_one(problem, said, blocks, added, bread)
    return _check_together(problem, said, blocks, added, bread)


def _check_one_by_one(
    problem: Problem, said: Evidence, blocks: slice, added: FloatArray, bread: FloatArray
) -> _Part:
    """Return what many blocks contribute, in a compiled loop."""
    along = np.empty((0, len(bread)))
    if problem.effects is not None:
        along = problem.effects.along[blocks]
    columns = said.derivative, added, said.shift, said.residual
    found = check_blocks(
        variance_of(problem, said), *columns, left_statistics(problem, blocks), bread, along
    )
    if found.alone.any():
        white, white_r = found.white[found.alone], found.residual[found.alone]
        own = np.eye(white.shape[1]) - white @ bread @ white.swapaxes(1, 2)
        found.leveraged[found.alone] = (white * _left_out(own, white_r[:, :, None])).sum(1)
    informed, crossed, squared = _products(found.white, found.extended)
    return _Part(
        scores=found.scores,
        leveraged=found.leveraged,
        added=found.added,
        pulled=found.pulled,
        held=found.held,
        along=found.along,
        told=found.told,
        informed=informed,
        crossed=crossed,
        squared=squared,
    )


def _products(white: Any, white_z: Any) -> tuple[Any, Any, Any]:
    """Return the cross-products of derivatives and extensions over all blocks."""
    rows = white.shape[0] * white.shape[1]
    flat, flat_z = (each.reshape(rows, each.shape[2]) for each in (white, white_z))
    return long_product(flat, flat), long_product(flat_z, flat), long_product(flat_z, flat_z)


def _check_together(
    problem: Problem, said: Evidence, blocks: slice, added: Any, bread: FloatArray
) -> _Part:
    """Return what some blocks contribute, all at once; of arrays or of tensors."""
    used, xp = left_statistics(problem, blocks), namespace(said.residual)
    factor = xp.linalg.cholesky(masked(variance_of(problem, said), used))
    keep, bread = like(factor, used), like(factor, bread)
    columns = [said.derivative, added, said.shift[:, :, None], said.residual[:, :, None]]
    block = xp.concatenate(columns, 2) * keep[:, :, None]
    if used.shape[1] > PANEL and xp is np:
        block = solve_lower(factor, block)
    else:
        block = xp.linalg.inv(factor) @ block
    p = said.derivative.shape[2]
    white, white_z, white_e, white_r = (
        block[:, :, :p], block[:, :, p:-2], block[:, :, -2], block[:, :, -1],
    )  # fmt: skip
    if problem.effects is not None:
        along = _instruments(problem.effects.along[blocks], white, white_e)
        white = white + white_e[:, :, None] * along
    towards = white @ bread
    own = like(factor, np.eye(used.shape[1])) - towards @ white.swapaxes(1, 2)
    free_r = _left_out(own, white_r[:, :, None])
    informed, crossed, squared = _products(white, white_z)
    return _Part(
        scores=(white * white_r[:, :, None]).sum(1),
        leveraged=(white * free_r).sum(1),
        added=(white_z * white_r[:, :, None]).sum(1),
        pulled=(white_e * white_r).sum(1),
        held=(white_e**2).sum(1),
        along=(white * white_e[:, :, None]).sum(1),
        told=(towards**2).sum(1),
        informed=informed,
        crossed=crossed,
        squared=squared,
    )


def _left_out(own: Any, white_r: Any) -> Any:
    """Return (I - H_b)⁻¹ r_b, without directions that a block alone determines."""
    linalg = namespace(own).linalg
    try:
        return linalg.solve(own, white_r)
    except linalg.LinAlgError:
        return linalg.pinv(own, _ALONE, hermitian=True) @ white_r


def _instruments(along: FloatArray, white: Any, white_e: Any) -> Any:
    """Return what is added to D_b along e_b to weigh blocks as if not looked at, (b, 1, p).

    The score with D_b + e_b aᵀ is that of :func:`unbin.likelihood.quasi_score.score_sums`.
    """
    where, held = namespace(white).where, (white_e**2).sum(1)[:, None]
    own = (white * white_e[:, :, None]).sum(1) / where(held > 0, held, 1.0)
    return where(held > 0, like(white, along) - own, 0.0)[:, None, :]


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
    whole: _Part, information: FloatArray, bread: FloatArray, extends: Extends, slopes: slice
) -> tuple[Extension, ...]:
    """Test the extensions one by one, by blocks."""
    errors = np.sqrt(np.maximum(np.diag(bread @ information @ bread), 1e-300))[slopes]
    fitted = like(whole.scores, bread @ whole.crossed.T)
    scores = (whole.added - whole.scores @ fitted)[whole.tells]
    n_blocks, n_fitted = len(scores), len(information)
    centred = scores - scores.sum(0) / max(n_blocks, 1)
    total, squares = brought(scores.sum(0)), brought(long_product(centred, centred))
    left = whole.squared - whole.crossed @ bread @ whole.crossed.T
    p_values, steps = _single_tests(total, squares, left, whole.squared, n_blocks, n_fitted)
    found = []
    for kind, feature, at in extends.groups:
        p_value, step = p_values[at[0]], steps[at]
        if len(at) > 1:
            square = np.ix_(at, at)
            basis = told_apart(left[square], whole.squared[square])
            pulled, moved = basis.T @ total[at], basis.T @ squares[square] @ basis
            p_value = _by_squares(pulled, moved, n_blocks, n_fitted).p_value
            step = basis @ np.linalg.solve(basis.T @ left[square] @ basis, pulled)
        if np.isfinite(p_value):
            shift = -(bread @ whole.crossed[at].T @ step)[slopes] / errors
            found.append(Extension(feature, kind, float(p_value), shift))
    return tuple(found)


def _single_tests(
    total: FloatArray,
    squares: FloatArray,
    left: FloatArray,
    squared: FloatArray,
    n_blocks: int,
    n_fitted: int,
) -> tuple[FloatArray, FloatArray]:
    """Return p values of all extensions of one column each, and steps towards them, both (k,).

    The tests of :func:`_by_squares`, all at once; NaN where nothing can be tested.
    """
    df, own, moved = n_blocks - n_fitted, np.diag(left), np.diag(squares)
    told = (own > _TOLD_APART * np.maximum(np.diag(squared), 1e-300)) & (moved > 0) & (df >= 1)
    p_values, steps = np.full((2, len(own)), np.nan)
    variance = moved[told] * (n_blocks / max(df, 1))
    p_values[told] = fdtrc(1, max(df, 1), total[told] ** 2 / variance)
    steps[told] = total[told] / own[told]
    return p_values, steps


def told_apart(left: FloatArray, squared: FloatArray) -> FloatArray:
    """Return the directions, (k, r), in which extensions differ from what is fitted already."""
    size = np.sqrt(np.maximum(np.diag(squared), 1e-300))
    values, vectors = np.linalg.eigh(left / np.outer(size, size))
    return np.asarray(vectors[:, values > _TOLD_APART] / size[:, None])


def _context(problem: Problem, whole: _Part, bread: FloatArray, n_features: int) -> Test:
    """Test that block means of the features add nothing, by the score and the model's covariance.

    A block mean is the same for everybody of a block, so that its derivative is e_b times the mean.
    """
    means = like(whole.along, problem.design.block_means[:, :n_features])
    crossed = brought(long_product(means, whole.along))
    squared = brought(long_product(means, means * whole.held[:, None]))
    pulled = brought(long_product(means, whole.pulled[:, None]))[:, 0]
    score = pulled - crossed @ bread @ brought(whole.scores.sum(0))
    variance = squared - crossed @ bread @ crossed.T
    # a feature that hardly varies within blocks is its own block mean
    told = np.diag(variance) > 1e-6 * np.diag(squared)
    if not told.any():
        return UNTESTED
    statistic, rank = inverse_form(score[told], variance[np.ix_(told, told)])
    return Test(statistic, rank, np.inf, float(chdtrc(rank, statistic)) if rank else float("nan"))
