"""Specification tests of a fit to one table, from one more pass over the rows at its root.

*Shape*. With s the values of the bins, the location score of a block is that of sᵀc alone, the sum
of its people's values: W_b = s (sᵀ D_b)/v_b with v_b = sᵀ Σ_b s, Σ_b = S_b + τ² e eᵀ. It uses what
blocks differ by in level and nothing of the shape of their histograms; nuisance parameters have the
weights (Σ Σ_b)⁻¹ (Σ D_b) of all blocks. If the family is right and blocks differ for no reason
related to the features, the location score vanishes at the root of the full score but for noise.
With A = Σ W_bᵀ D_b its one-step root is δ = A⁻¹ Σ W_bᵀ r_b away, and with
ψ_b = J⁻¹ D_bᵀ Σ_b⁻¹ r_b - A⁻¹ W_bᵀ r_b the variance of δ is V = Σ ψ_b ψ_bᵀ B/(B - p) (Hausman's
test, by blocks; F).

*Extensions*. A score test that the effect of a feature is not curved (its square), nor its scale
one that changes with it, by blocks; and the shift of the slopes that the extension would bring.

*Context*. A score test that block means of the features have no effect of their own (Mundlak), with
the model's covariance: it needs the fit without them only.

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

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy.special import chdtrc, fdtrc

from unbin._linalg import JITTER, inverse_form, solve_scaled
from unbin._typing import BoolArray, FloatArray
from unbin.likelihood.counts import representative_values
from unbin.likelihood.moments import Law, finish, moment_sums
from unbin.likelihood.problem import Problem
from unbin.likelihood.quasi_score import Evidence, evidence, reference_bins, used_statistics
from unbin.rows.products import accumulate
from unbin.rows.rows import Rows, kernel

_TILE_CELLS = 1 << 15
_LOCATION_STEPS = 25
_LOCATED = 1e-4
"""Standard errors from the root at which it is reached."""
_LONGEST_STEP = 10.0
"""Standard errors that a step goes at most."""
_ALONE = 1e-8
"""Share of a direction that other blocks tell, below which a block determines it alone."""
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
    """The test of one feature's curvature, or of a scale that changes with it.

    Attributes
    ----------
    feature : int
        Counted from 0.
    kind : {"curvature", "scale"}
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
    scores : (B, p)
        With leverage, for CR3; of an exact likelihood as they are.
    """

    shape: Test
    share: FloatArray
    location_shift: FloatArray
    location_covariance: FloatArray
    extensions: tuple[Extension, ...]
    context: Test
    scores: FloatArray


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
    values, extends = bin_values(problem), extended_features(problem, n_features)
    reference, used = reference_bins(problem), used_statistics(problem)

    def check(blocks: slice, sums: tuple[FloatArray, ...]) -> _Part:
        *moments, squares, scales = sums
        said = evidence(problem, finish(problem, free, blocks, tuple(moments), True))
        added = _extension_columns(problem, blocks, squares, scales, extends)
        here = used[blocks] & (np.arange(used.shape[1]) != reference[blocks, None])
        return _check(problem, said, blocks, values[blocks], added, here, used[blocks], bread)

    parts = list(problem.design.by_block(check_sums, Law.of(problem), free, then=check))
    whole = _Part.joined(parts)
    weights = _nuisance_weights(problem, whole)
    location = _Location.of(problem, whole, weights, penalty)
    slopes, full = slopes_of(problem), whole.scores if exact is None else exact
    influence = location.scores @ location.bread.T - full @ bread.T
    shift = influence.sum(axis=0) - (location.bread - bread) @ (penalty * free)
    quasi, quasi_bread = information, bread
    if exact is not None:
        quasi = whole.informed
        quasi_bread = solve_scaled(quasi + np.diag(penalty), np.eye(len(free)))
    n_slopes = len(penalty[slopes]) if n_features is None else n_features
    tested = slice(slopes.start, slopes.start + n_slopes)
    return Specification(
        shape=_by_blocks(shift[tested], influence[:, tested], whole.tells, len(free)),
        share=_share(bread @ information @ bread, location.model, slopes),
        location_shift=shift,
        location_covariance=_location_covariance(location, whole.tells, len(free)),
        extensions=_extensions(whole, quasi, quasi_bread, extends, slopes),
        context=_context(problem, whole, quasi_bread, n_slopes),
        scores=whole.leveraged if exact is None else exact,
    )


def locate(
    problem: Problem, free: FloatArray, information: FloatArray, penalty: FloatArray
) -> tuple[FloatArray, Specification, bool]:
    """Solve the location score from the root of the full one.

    Returns
    -------
    free : (p,)
    found : Specification
        There; its location covariance is that of the root.
    converged : bool
    """
    found = specify(problem, free, information, penalty)
    for _ in range(_LOCATION_STEPS):
        errors = np.sqrt(np.maximum(np.diag(found.location_covariance), 1e-300))
        length = float(np.abs(found.location_shift / errors).max(initial=0.0))
        if length < _LOCATED:
            return free, found, True
        free = free + found.location_shift * min(1.0, _LONGEST_STEP / length)
        found = specify(problem, free, information, penalty)
    return free, found, False


def testable(problem: Problem) -> bool:
    """Tell whether a pass over the rows can be made that tests the specification.

    Not yet of order statistics, of rows that are a sample, nor where blocks are scored by a device.
    """
    return not (problem.design.scores_blocks or problem.design.sampled or problem.order is not None)


def bin_values(problem: Problem) -> FloatArray:
    """Return the value of each statistic in the sum of a block's values, (B, L).

    Representative values of the bins; where the mean was published, the total alone.
    """
    counts = problem.counts
    values = representative_values(counts) * counts.valid()
    if problem.means is None:
        return values
    told = np.isfinite(problem.means.mean)
    return np.column_stack([np.where(told[:, None], 0.0, values), told.astype(float)])


def slopes_of(problem: Problem) -> slice:
    """Return where the slopes are among the free parameters."""
    shift = int(problem.design.fit_intercept) - int(problem.coordinates.fixed_intercept)
    return slice(shift, problem.coordinates.n_slopes)


# -- sums over rows --------------------------------------------------------------------------------


@kernel
def check_sums(rows: Rows, law: Law, free: FloatArray) -> tuple[FloatArray, ...]:
    """Return what ``moment_sums`` does, and by block Σ x² ∂q/∂eta and Σ x ∂q/∂nuisance.

    The last, (b, L, d), is of the first nuisance parameter that is worked out per row; without any
    it has no columns.
    """
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
def power_sums(rows: Rows) -> FloatArray:
    """Return Σ 1, Σ x, Σ x², Σ x³ and Σ x⁴ over people, (5, d)."""
    total = np.zeros((5, rows.matrix.shape[1]))
    for tile in rows.tiles():
        x = rows.matrix[tile]
        power = np.ones_like(x)
        for k in range(5):
            total[k] += rows.weighed(power, tile).sum(axis=0)
            power = power * x
    return total


def extended_features(problem: Problem, n_features: int | None) -> tuple[BoolArray, BoolArray]:
    """Mark the features whose square is tested, and those with which a scale may change, (d,)."""
    design = problem.design
    n, *sums = design.total(power_sums)
    one, two, three, four = (each / n for each in sums)
    spread = two - one**2
    skew = three - one * two
    left = four - two**2 - np.where(spread > 0, skew**2 / np.where(spread > 0, spread, 1.0), 0.0)
    asked = np.arange(len(design.scale)) < (n_features or len(design.scale))
    asked &= design.varies
    curved = asked & (left > _TWO_VALUED * np.maximum(four, 1e-300))
    return curved, asked & (problem.coordinates.n_row_nuisance > 0)


def _extension_columns(
    problem: Problem,
    blocks: slice,
    squares: FloatArray,
    scales: FloatArray,
    extends: tuple[BoolArray, BoolArray],
) -> FloatArray:
    """Return the derivatives of some blocks in all extensions, (b, L, k)."""
    curved, scaled = extends
    parts = [squares[:, :, curved]]
    if scaled.any():
        parts.append(scales[:, :, scaled])
    found = np.concatenate(parts, axis=2)
    factor = problem.factor
    return found if factor is None else found * factor[blocks, None, None]


# -- sums over blocks ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """What some blocks contribute; ``joined`` adds up or puts side by side.

    Attributes
    ----------
    scores, leveraged, residual, added : (b, p), (b, p), (b, L), (b, k)
        D_bᵀ Σ⁻¹ r_b, the same with leverage, r_b, Z_bᵀ Σ⁻¹ r_b.
    located : (b, p)
        (sᵀ D_b)ᵀ sᵀ r_b / v_b.
    pulled, held, along : (b,), (b,), (b, p)
        e_bᵀ Σ⁻¹ r_b, e_bᵀ Σ⁻¹ e_b and e_bᵀ Σ⁻¹ D_b.
    tells : (b,) bool
        Blocks with information.
    informed, crossed, squared : (p, p), (k, p), (k, k)
        Σ D_bᵀ Σ⁻¹ D_b, Σ Z_bᵀ Σ⁻¹ D_b and Σ Z_bᵀ Σ⁻¹ Z_b.
    slope, square, side : (p, p), (p, p), (p, L)
        Σ (sᵀD)ᵀ sᵀPD/v, Σ (sᵀD)ᵀ sᵀD/v and Σ (sᵀD)ᵀ sᵀΣ/v.
    covariance, derivative, kept : (L, L), (L, p), (L, p)
        Σ Σ_b, Σ D_b and Σ P_b D_b.
    """

    scores: FloatArray
    leveraged: FloatArray
    residual: FloatArray
    added: FloatArray
    located: FloatArray
    pulled: FloatArray
    held: FloatArray
    along: FloatArray
    tells: BoolArray
    informed: FloatArray
    crossed: FloatArray
    squared: FloatArray
    slope: FloatArray
    square: FloatArray
    side: FloatArray
    covariance: FloatArray
    derivative: FloatArray
    kept: FloatArray

    @classmethod
    def joined(cls, parts: Iterable[_Part]) -> _Part:
        """Put the blocks of all parts side by side, and add up the rest."""
        names, found = cls.__slots__, list(parts)
        split = names.index("informed")
        each = {name: [getattr(part, name) for part in found] for name in names}
        blocks = {name: np.concatenate(each[name]) for name in names[:split]}
        return cls(**blocks, **{name: reduce(np.add, each[name]) for name in names[split:]})


def _check(
    problem: Problem,
    said: Evidence,
    blocks: slice,
    values: FloatArray,
    added: FloatArray,
    here: BoolArray,
    used: BoolArray,
    bread: FloatArray,
) -> _Part:
    """Return what some blocks contribute.

    ``used`` (b, L) marks the statistics that were published, ``here`` all of them but the bin that
    is left out.
    """
    d, r = said.derivative, said.residual * used
    sigma = said.covariance + problem.block_variance * said.shift[:, :, None] * said.shift[:, None]
    masked = sigma * (here[:, :, None] & here[:, None, :]) + JITTER * np.eye(sigma.shape[1])
    root = np.linalg.inv(np.linalg.cholesky(masked)) * here[:, :, None] * here[:, None, :]
    white_z, white_e = root @ added, (root @ said.shift[:, :, None])[:, :, 0]
    white, white_r = root @ d, (root @ r[:, :, None])[:, :, 0]
    if problem.effects is not None:
        moved = _instruments(problem.effects.along[blocks], white, white_e)
        d, white = d + said.shift[:, :, None] * moved, white + white_e[:, :, None] * moved
    kept = d
    if said.hidden.shape[2]:
        hidden = root @ (said.hidden * used[:, :, None])
        kept = d - said.hidden @ (hidden.swapaxes(1, 2) @ white)
    own = np.eye(sigma.shape[1]) - white @ bread @ white.swapaxes(1, 2)
    free_r = _left_out(own, white_r[:, :, None])
    by_value = (values[:, None, :] @ d)[:, 0]
    by_kept = (values[:, None, :] @ kept)[:, 0]
    by_sigma = (values[:, None, :] @ sigma)[:, 0]
    v = (by_sigma * values).sum(axis=1)
    share = np.where(v > 0, 1.0 / np.where(v > 0, v, 1.0), 0.0)
    told = (values * r).sum(axis=1) * share
    weighed = by_value * share[:, None]
    flat = white.reshape(-1, white.shape[2])
    flat_z = white_z.reshape(-1, white_z.shape[2])
    known = used.any(axis=1)
    return _Part(
        scores=(white * white_r[:, :, None]).sum(axis=1),
        leveraged=(white * free_r).sum(axis=1),
        residual=r,
        added=(white_z * white_r[:, :, None]).sum(axis=1),
        located=by_value * told[:, None],
        pulled=(white_e * white_r).sum(axis=1),
        held=(white_e**2).sum(axis=1),
        along=(white * white_e[:, :, None]).sum(axis=1),
        tells=(white**2).sum(axis=(1, 2)) > 0,
        informed=flat.T @ flat,
        crossed=flat_z.T @ flat,
        squared=flat_z.T @ flat_z,
        slope=weighed.T @ by_kept,
        square=weighed.T @ by_value,
        side=weighed.T @ by_sigma,
        covariance=sigma[known].sum(axis=0),
        derivative=d[known].sum(axis=0),
        kept=kept[known].sum(axis=0),
    )


def _left_out(own: FloatArray, white_r: FloatArray) -> FloatArray:
    """Return (I - H_b)⁻¹ r_b, without directions that a block alone determines."""
    try:
        return np.asarray(np.linalg.solve(own, white_r))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(own, _ALONE, hermitian=True) @ white_r)


def _instruments(along: FloatArray, white: FloatArray, white_e: FloatArray) -> FloatArray:
    """Return what is added to D_b along e_b to weigh blocks as if not looked at, (b, 1, p).

    The score with D_b + e_b aᵀ is that of :func:`unbin.likelihood.quasi_score.score_sums`.
    """
    held = (white_e**2).sum(axis=1)[:, None]
    own = (white * white_e[:, :, None]).sum(axis=1) / np.where(held > 0, held, 1.0)
    return np.where(held > 0, along - own, 0.0)[:, None, :]


def _nuisance_weights(problem: Problem, whole: _Part) -> FloatArray:
    """Return the weights of nuisance parameters in the location score, the same in all blocks.

    Zeros where blocks have bins of their own: statistics of different blocks do not match, and
    the nuisance parameters stay where the full score has them.
    """
    nuisance = slice(problem.coordinates.n_slopes, None)
    if not problem.counts.shared:
        return np.zeros_like(whole.derivative[:, nuisance])
    return np.asarray(solve_scaled(whole.covariance, whole.derivative[:, nuisance]))


@dataclass(frozen=True, slots=True)
class _Location:
    """The location score of all blocks (B, p), A⁻¹, and the model's covariance of its root."""

    scores: FloatArray
    bread: FloatArray
    model: FloatArray

    @classmethod
    def of(
        cls, problem: Problem, whole: _Part, weights: FloatArray, penalty: FloatArray
    ) -> _Location:
        n, p = problem.coordinates.n_slopes, len(penalty)
        scores = np.concatenate([whole.located[:, :n], whole.residual @ weights], axis=1)
        slope = np.concatenate([whole.slope[:n], weights.T @ whole.kept])
        side = whole.side[:n] @ weights
        model = np.zeros((p, p))
        model[:n, :n], model[:n, n:], model[n:, :n] = whole.square[:n, :n], side, side.T
        model[n:, n:] = weights.T @ whole.covariance @ weights
        if not weights.any():
            slope[n:] = 0.0
            slope[n:, n:] = np.eye(p - n)
        bread = np.linalg.pinv(slope + np.diag(penalty))
        return cls(scores, bread, bread @ model @ bread.T)


# -- tests -----------------------------------------------------------------------------------------


def _by_blocks(shift: FloatArray, influence: FloatArray, tells: BoolArray, n_fitted: int) -> Test:
    """Test a shift against how much blocks move it, by Hotelling's F."""
    influence = influence[tells]
    n_blocks, d = influence.shape
    df = n_blocks - n_fitted - d + 1
    if df < 1 or d == 0:
        return UNTESTED
    centred = influence - influence.mean(axis=0)
    variance = centred.T @ centred * (n_blocks / (n_blocks - n_fitted))
    square, rank = inverse_form(shift, variance)
    if rank == 0:
        return UNTESTED
    statistic = square * df / ((n_blocks - n_fitted) * rank)
    return Test(statistic, rank, df, float(fdtrc(rank, df, statistic)))


def _share(full: FloatArray, location: FloatArray, slopes: slice) -> FloatArray:
    """Return 1 - V_full/V_location of each slope."""
    ours, theirs = np.diag(full)[slopes], np.diag(location)[slopes]
    ok = (theirs > 0) & (ours > 0)
    return np.where(ok, np.clip(1 - ours / np.where(ok, theirs, 1.0), 0.0, 1.0), np.nan)


def _location_covariance(location: _Location, tells: BoolArray, n_fitted: int) -> FloatArray:
    """Return the covariance of the location root, by blocks."""
    scores = location.scores[tells]
    n_blocks = len(scores)
    centred = scores - scores.mean(axis=0) if n_blocks else scores
    meat = centred.T @ centred * (n_blocks / max(n_blocks - n_fitted, 1))
    return np.asarray(location.bread @ meat @ location.bread.T)


def _extensions(
    whole: _Part,
    information: FloatArray,
    bread: FloatArray,
    extends: tuple[BoolArray, BoolArray],
    slopes: slice,
) -> tuple[Extension, ...]:
    """Test the extensions one by one."""
    curved, scaled = extends
    kinds = [*((j, "curvature") for j in np.flatnonzero(curved)),
             *((j, "scale") for j in np.flatnonzero(scaled))]  # fmt: skip
    errors = np.sqrt(np.maximum(np.diag(bread @ information @ bread), 1e-300))
    n_blocks = int(whole.tells.sum())
    df = n_blocks - len(information) - 1
    found = []
    for k, (feature, kind) in enumerate(kinds):
        crossed = whole.crossed[k]
        left = float(whole.squared[k, k] - crossed @ bread @ crossed)
        score = (whole.added[:, k] - whole.scores @ (bread @ crossed))[whole.tells]
        if df < 1 or left <= 1e-8 * whole.squared[k, k]:
            continue
        total = float(score.sum())
        spread = float(((score - score.mean()) ** 2).sum()) * n_blocks / (n_blocks - 1)
        f = total**2 / spread if spread > 0 else 0.0
        shift = -(bread @ crossed) * (total / left) / errors
        p_value = float(fdtrc(1, df, f))
        found.append(Extension(int(feature), kind, p_value, shift[slopes]))
    return tuple(found)


def _context(problem: Problem, whole: _Part, bread: FloatArray, n_features: int) -> Test:
    """Test that block means of the features add nothing, by the score and the model's covariance.

    A block mean is the same for everybody of a block, so that its derivative is e_b times the mean.
    """
    means = problem.design.block_means[:, :n_features]
    crossed = means.T @ whole.along
    squared = means.T @ (means * whole.held[:, None])
    score = means.T @ whole.pulled - crossed @ bread @ whole.scores.sum(axis=0)
    variance = squared - crossed @ bread @ crossed.T
    # a feature that hardly varies within blocks is its own block mean
    told = np.diag(variance) > 1e-6 * np.diag(squared)
    if not told.any():
        return UNTESTED
    statistic, rank = inverse_form(score[told], variance[np.ix_(told, told)])
    return Test(statistic, rank, np.inf, float(chdtrc(rank, statistic)) if rank else float("nan"))
