"""What a fit does not know, drawn before targets are: proper multiple imputation.

Draws that all took the estimate for the truth would agree with each other more than they may, and
Rubin's rules over them would give intervals that are too short. So each draw of the targets starts
with one of the parameters, from N(estimate, covariance) on the scale on which they have no bounds,
and of the random intercept of every block given its table. With r = c - m the residual of a block's
counts, S their covariance and e their derivative in the intercept u,

    log p(u | table) ≈ -½ r(u)ᵀ S⁻¹ r(u) - ½ u²/τ²,

whose mode Fisher scoring finds; u is drawn from the normal law around it with variance
1 / (eᵀ S⁻¹ e + 1/τ²).

Where a release hardly tells a parameter its standard error is no guide to how far off it can be:
the covariance V is taken together with a weak prior, (V⁻¹ + C⁻²)⁻¹, so wide that all d slopes
together may move people by the spread of the outcome on the scale of eta: C is that spread over √d
for a feature of standard deviation 1. It leaves alone what the release does tell.

References
----------
Rubin, D. B. (1987). *Multiple Imputation for Nonresponse in Surveys*. Wiley.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unbin._blocks import block_of_rows, spans_of
from unbin._compiling import njit
from unbin._typing import FloatArray, IntArray
from unbin.families import Family
from unbin.families.coordinates import Coordinates
from unbin.likelihood.data.counts import PublishedCounts
from unbin.likelihood.infer.estimate import LikelihoodFit
from unbin.rows.design import Design

_STEPS = 8
_FAR = 6.0
"""Standard deviations that no effect is beyond, whatever a table says."""
_JITTER = 1e-9


@dataclass(frozen=True)
class Posterior:
    """The parameters of a fit, as far as it tells them; worked out when they are first drawn.

    Attributes
    ----------
    design : Design
        Of the rows whose targets are drawn.
    family : Family
    fit : LikelihoodFit
    """

    design: Design
    family: Family
    fit: LikelihoodFit

    @cached_property
    def coordinates(self) -> Coordinates:
        """Coordinates without bounds."""
        n_bins, design = len(self.fit.nuisance) + 1, self.design
        return self.family.coordinates(
            design.n_parameters, n_bins, fit_intercept=design.fit_intercept
        )

    @cached_property
    def free(self) -> FloatArray:
        """The estimate in these coordinates, (p,)."""
        return self.coordinates.join(self.fit.theta, self.fit.nuisance)

    @cached_property
    def root(self) -> FloatArray:
        """A root of their covariance, with the prior, (p, p)."""
        back = self.coordinates.inverse_jacobian(self.free)
        widest = _widest(self.design, self.coordinates, self.family, self.fit)
        return _root(back @ self.fit.covariance @ back.T, widest)

    @property
    def block_sd(self) -> tuple[float, ...]:
        """Standard deviation of the random intercept of each table's blocks."""
        return tuple(table.block_sd for table in self.fit.tables) or (self.fit.block_sd,)

    def draw(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return eta of every row and the nuisance parameters, drawn without effects of blocks."""
        free = self.free + self.root @ rng.standard_normal(len(self.free))
        theta, nuisance = self.coordinates.split(free)
        return self.design.eta(theta), nuisance


def _widest(
    design: Design, coordinates: Coordinates, family: Family, fit: LikelihoodFit
) -> FloatArray:
    """Return the standard deviations of the weak prior, (p,)."""
    eta, d = design.eta(fit.theta), len(design.scale)
    level, spread = (float(eta.mean()), float(eta.std())) if len(eta) else (0.0, 0.0)
    step, step_nuisance = family.first_steps(fit.nuisance, level)
    widest = np.full(coordinates.n_free, step_nuisance)
    widest[: coordinates.n_slopes + coordinates.thresholds] = np.hypot(step, spread)
    widest[coordinates.n_slopes - d : coordinates.n_slopes] /= np.sqrt(max(d, 1))
    return widest


def _root(covariance: FloatArray, widest: FloatArray) -> FloatArray:
    """Return a root of a covariance, taken together with a prior of standard deviations ``widest``.

    A parameter that is not fitted has variance 0 and does not vary.
    """
    unit = np.nan_to_num(covariance / np.outer(widest, widest))
    values, vectors = np.linalg.eigh(unit)
    values = np.maximum(values, 0.0)
    return np.asarray(widest[:, None] * vectors * np.sqrt(values / (1 + values)))


def draw_effects(
    family: Family,
    eta: FloatArray,
    start: IntArray,
    counts: PublishedCounts,
    nuisance: FloatArray,
    block_sd: float,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw the random intercept of every block given its counts, shape (B,).

    Parameters
    ----------
    family : Family
    eta : (n,)
        Block by block, without the effects that are drawn.
    start : (B + 1,)
    counts : PublishedCounts
        Of blocks that are not known nothing is told.
    nuisance : (m,)
    block_sd : float
    rng : Generator
    """
    mode, spread = np.zeros(len(start) - 1), np.full(len(start) - 1, block_sd)
    if block_sd == 0:
        return mode
    for span in spans_of(start):
        blocks = slice(span.first, span.last)
        found = _mode(family, eta, start, counts, nuisance, block_sd, blocks)
        known = counts.known[blocks]
        mode[blocks], spread[blocks] = np.where(known, found, ((0.0,), (block_sd,)))
    return mode + spread * rng.standard_normal(len(mode))


def _mode(
    family: Family,
    eta: FloatArray,
    start: IntArray,
    counts: PublishedCounts,
    nuisance: FloatArray,
    block_sd: float,
    blocks: slice,
) -> tuple[FloatArray, FloatArray]:
    """Return the likeliest effects of some blocks, and their standard deviations."""
    local = start[blocks.start : blocks.stop + 1] - start[blocks.start]
    code, rows = block_of_rows(local), slice(start[blocks.start], start[blocks.stop])
    edges = counts.edges(code + blocks.start)
    effect = np.zeros(len(local) - 1)
    hold = np.zeros(len(effect))
    for _ in range(_STEPS):
        model = family.bins(eta[rows] + effect[code], *edges, nuisance)
        moments = _moments(
            np.ascontiguousarray(model.probability), np.ascontiguousarray(model.d_eta), local
        )
        pull, hold = _pull(counts.count[blocks], *moments)
        step = (pull - effect / block_sd**2) / (hold + block_sd**-2)
        effect = np.clip(effect + step, -_FAR * block_sd, _FAR * block_sd)
    return effect, 1 / np.sqrt(hold + block_sd**-2)


def _pull(
    count: FloatArray, mean: FloatArray, shift: FloatArray, covariance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return eᵀ S⁻¹ (c - m) and eᵀ S⁻¹ e, block by block."""
    size = mean.shape[1]
    level = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / size
    level = np.maximum(level, 1e-12)
    # counts of a block add up to its people: along that direction nothing varies, nor is off
    filled = covariance + level * (1.0 / size + _JITTER * np.eye(size))
    weight = np.linalg.solve(filled, shift[:, :, None])[:, :, 0]
    return (weight * (count - mean)).sum(axis=1), (weight * shift).sum(axis=1)


@njit(cache=True, nogil=True, error_model="numpy")
def _moments(q, d, start):  # type: ignore[no-untyped-def]
    """Return Σ q, Σ dq/d eta and diag(Σ q) - Σ q qᵀ of each block."""
    n_blocks, k_bins = len(start) - 1, q.shape[1]
    mean, shift = np.zeros((n_blocks, k_bins)), np.zeros((n_blocks, k_bins))
    covariance = np.zeros((n_blocks, k_bins, k_bins))
    for b in range(n_blocks):
        for i in range(start[b], start[b + 1]):
            for k in range(k_bins):
                mean[b, k] += q[i, k]
                shift[b, k] += d[i, k]
                for j in range(k_bins):
                    covariance[b, k, j] -= q[i, k] * q[i, j]
        for k in range(k_bins):
            covariance[b, k, k] += mean[b, k]
    return mean, shift, covariance
