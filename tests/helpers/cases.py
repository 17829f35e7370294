"""Simulated people, blocks and releases for the tests of the likelihood."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from unbin.release import Release, tables
from unbin.release.aggregation import aggregate
from unbin.rows.design import Design, lay_out


@dataclass(frozen=True)
class Case:
    """People, their design and release, and the slopes they were drawn with."""

    design: Design
    release: Release
    X: np.ndarray
    y: np.ndarray
    codes: np.ndarray
    coef: np.ndarray


def draw_targets(kind, eta, rng, sigma=1.0):
    """Draw targets of a family around linear predictors."""
    if kind == "gaussian":
        return eta + sigma * rng.normal(size=len(eta))
    if kind == "poisson":
        return rng.poisson(np.exp(eta)).astype(float)
    if kind == "binomial":
        return rng.binomial(20, expit(eta)).astype(float)
    if kind == "gamma":
        return rng.gamma(2.0, np.exp(eta) / 2)
    if kind == "negative-binomial":
        return rng.poisson(np.exp(eta) * rng.gamma(2.0, 0.5, size=len(eta))).astype(float)
    return eta + rng.logistic(size=len(eta))


def make_case(
    seed, *, kind="gaussian", n_blocks=50, size=100, d=4, bins=8, sigma=1.0, share=0.3, slope=None
):
    """Draw normal features, a share of whose variance lies between blocks, and targets."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_blocks), size)
    noise = rng.normal(size=(len(codes), d))
    X = np.sqrt(1 - share) * noise + np.sqrt(share) * rng.normal(size=(n_blocks, d))[codes]
    size_of = 1.0 if kind in ("gaussian", "ordinal") else 0.5
    coef = size_of * np.linspace(1.0, -0.5, d) if slope is None else np.asarray(slope, float)
    y = draw_targets(kind, X @ coef + 0.3, rng, sigma)
    names = np.char.zfill(codes.astype(str), 6)
    target = aggregate(y, names, bins=bins).align(names)
    design = lay_out(X, target.codes, n_blocks)
    return Case(design, target.release, X, y, target.codes, coef)


def coef_of(case, fit):
    """Return the slopes of a fit in the units of X."""
    return case.design.to_coefficients(fit.theta)[0]


def names_of(case):
    """Return the block of each person by name."""
    return case.release.blocks[case.codes]


def without_tables(case):
    """Return the release of a case without its histogram."""
    n_blocks = len(case.release.blocks)
    return replace(
        case.release,
        histogram=tables.no_histogram(n_blocks),
        order_statistics=tables.no_order(n_blocks),
    )


def block_mean(values, codes):
    """Return the mean of each block."""
    return np.bincount(codes, values) / np.bincount(codes)
