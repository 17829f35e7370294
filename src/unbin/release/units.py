"""The units a release is fitted in, and the way back to those of the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unbin._typing import FloatArray
from unbin.families import Family, Units
from unbin.release.release import Release

_FEW_BLOCKS = 3
"""Blocks with the same bins from which on these are pooled."""
_CONSTANT = 1e-12
"""A spread below this share of the center is rounding."""
_QUARTILES_OF_A_NORMAL = 1.349
"""Standard deviations between the quartiles of a normal law."""


def units_of(releases: Release | Sequence[Release], family: Family) -> Units:
    """Return the units to fit aligned releases in: about the median and spread of the targets."""
    points = [_points(release) for release in _several(releases)]
    value, weight = (np.concatenate(each) for each in zip(*points, strict=True))
    return family.units(*_typical(value, weight))


def units_of_values(y: FloatArray, family: Family, weights: FloatArray | None = None) -> Units:
    """Return the units to fit observed targets in."""
    return family.units(*_typical(y, np.ones(len(y)) if weights is None else weights))


def in_units(release: Release, units: Units) -> Release:
    """Return the release of the target in other units."""
    if units == Units():
        return release
    histogram, order = release.histogram, release.order_statistics
    lower, upper = units.into(histogram.lower), units.into(histogram.upper)
    return replace(
        release,
        histogram=replace(histogram, lower=lower, upper=upper),
        order_statistics=replace(order, value=units.into(order.value)),
        means=None if release.means is None else units.into(release.means),
    )


def out_of_units(
    edges: FloatArray, units: Units, releases: Release | Sequence[Release]
) -> FloatArray:
    """Return edges of bins in the units of the target, those of releases just as published."""
    if units == Units():
        return edges
    listed = np.unique(
        np.concatenate(
            [
                values
                for each in _several(releases)
                for values in (
                    each.histogram.lower,
                    each.histogram.upper,
                    each.order_statistics.value,
                )
            ]
        )
    )
    if not len(listed):
        return edges * units.scale + units.center
    place = np.minimum(np.searchsorted(units.into(listed), edges), len(listed) - 1)
    published = listed[place]
    exact = units.into(published) == edges
    return np.where(exact, published, edges * units.scale + units.center)


def _several(releases: Release | Sequence[Release]) -> Sequence[Release]:
    return [releases] if isinstance(releases, Release) else releases


def _points(release: Release) -> tuple[FloatArray, FloatArray]:
    """Return a value for everything published, and the people it stands for."""
    histogram, order = release.histogram, release.order_statistics
    lower, upper, count = histogram.lower, histogram.upper, np.maximum(histogram.count, 0.0)
    if histogram.repeats() > _FEW_BLOCKS:
        # quantiles see the first and the last of equal values, and how many are between
        count = count.reshape(histogram.repeats(), -1)
        count = np.concatenate([count[0], count[1:-1].sum(axis=0), count[-1]])
        lower, upper = lower[: len(count)], upper[: len(count)]
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isinf(lower), upper, lower + (upper - lower) / 2)
    middle = np.where(np.isinf(upper), lower, middle)
    size = np.diff(order.start)
    values = [middle, order.value]
    people = [count, np.repeat(release.n / np.maximum(size, 1), size)]
    if release.means is not None:
        values, people = [*values, release.means], [*people, release.n.astype(float)]
    value, weight = np.concatenate(values), np.concatenate(people)
    known = np.isfinite(value)
    return value[known], weight[known]


def _typical(value: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Return the weighted median, and a spread: from the quartiles if these differ.

    One value has no spread, nor have two bins with one edge between them; then it is 1.
    """
    if not len(value):
        return 0.0, 1.0
    weight = weight if weight.sum() > 0 else np.ones(len(value))
    order = np.argsort(value, kind="stable")
    value, weight = value[order], weight[order]
    position = (np.cumsum(weight) - weight / 2) / weight.sum()
    low, center, high = np.interp([0.25, 0.5, 0.75], position, value)
    for spread in ((high - low) / _QUARTILES_OF_A_NORMAL, value[-1] - value[0]):
        if spread > _CONSTANT * max(abs(low), abs(high)):
            return float(center), float(spread)
    return float(center), 1.0
