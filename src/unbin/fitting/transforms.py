"""Targets that are modelled on a transformed scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unbin._typing import FloatArray
from unbin.exceptions import DomainError
from unbin.fitting.model import Fit
from unbin.release import AggregatedTarget, Release


class Identity:
    """The target is modelled as it is."""

    def observed(self, y: FloatArray) -> FloatArray:
        """Transform observed targets."""
        return y

    def target(self, target: AggregatedTarget) -> AggregatedTarget:
        """Transform what was published."""
        return target.with_release(self.release(target.release))

    def release(self, release: Release) -> Release:
        """Transform a release."""
        return release

    def mean(self, mean: FloatArray, dispersion: float) -> FloatArray:
        """Return the mean of the target itself, from the modelled mean and variance."""
        return mean

    def mean_derivative(self, mean: FloatArray, dispersion: float) -> FloatArray:
        """Return the derivative of ``mean`` in the modelled mean."""
        return np.ones_like(mean)

    def imputed(self, fit: Fit) -> FloatArray:
        """Return the imputed targets themselves."""
        assert fit.imputed is not None
        return np.array(fit.imputed) if isinstance(fit.imputed, np.ndarray) else fit.imputed.mean()

    def undo(self, values: FloatArray) -> FloatArray:
        """Turn modelled values back into targets."""
        return values


class Log(Identity):
    """The log of the target is gaussian: E y = exp(mean + variance/2)."""

    def observed(self, y: FloatArray) -> FloatArray:
        if not (y > 0).all():
            raise DomainError(
                f"y: the log needs positive targets, got {y[~(y > 0)][0]:g}; drop those rows, or "
                "model the target as it is"
            )
        return np.log(y)

    def release(self, release: Release) -> Release:
        return log_release(release)

    def mean(self, mean: FloatArray, dispersion: float) -> FloatArray:
        return np.asarray(np.exp(mean + 0.5 * dispersion))

    def mean_derivative(self, mean: FloatArray, dispersion: float) -> FloatArray:
        return self.mean(mean, dispersion)

    def imputed(self, fit: Fit) -> FloatArray:
        if fit.imputed is None or isinstance(fit.imputed, np.ndarray):
            return np.asarray(np.exp(super().imputed(fit)))
        return fit.imputed.mean(log=True)

    def undo(self, values: FloatArray) -> FloatArray:
        return np.asarray(np.exp(values))


TRANSFORMS: dict[str | None, Identity] = {None: Identity(), "log": Log()}
"""Every target transform by its name."""


def log_release(release: Release) -> Release:
    """Return a release of the log of the target: the same counts between logged edges."""
    histogram, order = release.histogram, release.order_statistics
    if release.means is not None:
        raise DomainError(
            "target_transform: the mean of a log is not the log of a mean, got a release of means; "
            "leave the means out, or model the target as it is"
        )
    bad = (histogram.upper <= 0) & (histogram.count > 0)
    if bad.any() or (order.value <= 0).any():
        raise DomainError(
            "target_transform: the log needs positive targets, but the release has people at or "
            "below 0; model the target as it is"
        )
    with np.errstate(divide="ignore"):
        lower, upper = (np.log(np.maximum(edge, 0)) for edge in (histogram.lower, histogram.upper))
    keep = histogram.upper > 0
    start = np.concatenate([[0], np.cumsum(keep)])[histogram.start]
    logged = replace(histogram, lower=lower, upper=upper).rows(start, keep)
    return replace(
        release, histogram=logged, order_statistics=replace(order, value=np.log(order.value))
    )
