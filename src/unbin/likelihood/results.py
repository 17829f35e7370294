"""What a likelihood fit returns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unbin._status import Status
from unbin._typing import BoolArray, FloatArray
from unbin.families import Units
from unbin.likelihood.counts import PublishedCounts
from unbin.release import Release
from unbin.release.units import out_of_units


@dataclass(frozen=True, slots=True)
class LikelihoodFit:
    """Estimate, uncertainty and misfit. p = len(theta) + len(nuisance), B blocks.

    Attributes
    ----------
    theta : (design.n_parameters,)
        Intercept (if any) and slopes, for ``Design.to_coefficients``.
    nuisance : (m,)
        In the order of the family's ``nuisance_names``; the thresholds of an ordinal family.
    covariance : (p, p)
        Of (theta, nuisance).
    information : (p, p)
        J, without the ridge.
    model_covariance : (p, p)
        J⁻¹: the covariance if the model is right, without a ridge.
    misfit : float
        Q = Σ (c - m)ᵀ S⁻¹ (c - m), block effects not allowed for.
    df : float
        Expectation of Q at the true parameters, less the parameters fitted.
    block_misfit, block_df : (B,)
        The contribution of each block to Q, and its expectation.
    log_score : float
        Σ c log(m / n) per person: the larger the better, comparable across families.
    status : Status
    n_iter : int
        Passes over the rows by scoring.
    path : tuple of float
        UᵀJ⁻¹U along the way.
    counts : PublishedCounts
        The counts as fitted, far bins merged.
    expected : (B, K)
        Expected counts.
    block_sd : float
        Standard deviation of an effect on eta shared by the people of a block; 0 if none shows.
    block_average : float
        That effect for the average person; 0 where large blocks do not differ from small ones.
    n_blocks : int
        Blocks that say something.
    means : (B,) or None
        Published means as fitted, NaN where there is none.
    """

    theta: FloatArray
    nuisance: FloatArray
    covariance: FloatArray
    information: FloatArray
    model_covariance: FloatArray
    misfit: float
    df: float
    block_misfit: FloatArray
    block_df: FloatArray
    log_score: float
    status: Status
    n_iter: int
    path: tuple[float, ...]
    counts: PublishedCounts
    expected: FloatArray
    block_sd: float
    block_average: float
    n_blocks: int
    means: FloatArray | None

    def told(self) -> BoolArray:
        """Mark the parameters that the release says something about, shape (p,)."""
        return (np.diag(self.model_covariance) > 0) & (self.status is not Status.POOLED)

    def out_of_units(self, units: Units, release: Release, *, fit_intercept: bool) -> LikelihoodFit:
        """Return the fit in the units of the target, of whose release it is."""
        counts = self.counts
        lower, upper = out_of_units(np.stack([counts.lower, counts.upper]), units, release)
        factor = np.ones(len(self.theta) + len(self.nuisance))
        factor[: len(self.theta)] = units.slope
        square = np.outer(factor, factor)
        return replace(
            self,
            theta=units.theta_out(self.theta, fit_intercept=fit_intercept),
            nuisance=units.nuisance_out(self.nuisance),
            covariance=self.covariance * square,
            information=self.information / square,
            model_covariance=self.model_covariance * square,
            counts=replace(counts, lower=lower, upper=upper),
            block_sd=self.block_sd * units.slope,
            block_average=self.block_average * units.slope,
            means=None if self.means is None else release.means,
        )
