"""Slopes from histograms come within a few hundredths of the truth; from medians within a tenth.

    python experiments/slopes.py

Histograms: 50 blocks of 100 people; three features of standard deviation 1 within blocks, whose
block means have 0.4; gaussian targets of noise 1 in 8 bins with slopes (1, -0.5, 0.25), poisson
targets in 6 bins with slopes (0.3, -0.2, 0.1) and typical mean e (or 1, where pooled quantiles
coincide and leave four bins). The figure is the root mean squared error of a slope.
Quantiles: 100 blocks of 50 people, five such features with block means of 0.5, which explain half
of the variance; all that is published of a block is its median, or its two or four inner quantiles.
The figure is the mean length of the error over the length of the slopes.
"""

from __future__ import annotations

import numpy as np

import common
import unbin

SLOPES = {"gaussian": np.array([1.0, -0.5, 0.25]), "poisson": np.array([0.3, -0.2, 0.1])}
HISTOGRAMS = (("gaussian", 0.0, 8), ("poisson", 1.0, 6), ("poisson", 0.0, 6))
QUANTILES = {1: [0.5], 2: [1 / 3, 2 / 3], 4: [0.2, 0.4, 0.6, 0.8]}


def fits(X, y, target, family: str) -> list[np.ndarray]:
    """Return the slopes of likelihood, matching and oracle."""
    models = [
        common.fit(X, target, family),
        common.fit(X, target, family, method="matching"),
        unbin.AggregatedGLM(family).fit(X, y),
    ]
    return [model.coef_ for model in models]


def from_histograms(family: str, intercept: float, bins: int, seed: int) -> np.ndarray:
    """Return the squared errors of the slopes by method, shape (3,)."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(50), 100)
    X = rng.normal(size=(5000, 3)) + 0.4 * rng.normal(size=(50, 3))[codes]
    eta = intercept + X @ SLOPES[family]
    y = eta + rng.normal(size=5000) if family == "gaussian" else rng.poisson(np.exp(eta))
    blocks = common.block_names(codes)
    target = unbin.aggregate(y, blocks, bins).align(blocks)
    return np.array([np.mean((c - SLOPES[family]) ** 2) for c in fits(X, y, target, family)])


def from_quantiles(levels: list[float], seed: int) -> np.ndarray:
    """Return the relative errors of the slopes by method, shape (3,)."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(100), 50)
    X = rng.normal(size=(5000, 5)) + 0.5 * rng.normal(size=(100, 5))[codes]
    slopes = rng.normal(size=5)
    slopes /= (X @ slopes).std()  # as much variance as the noise
    y = X @ slopes + rng.normal(size=5000)
    blocks = common.block_names(codes)
    values = np.quantile(y.reshape(100, 50), levels, axis=1, method="inverted_cdf").T
    table = {
        "block": np.repeat(np.unique(blocks), len(levels)),
        "quantile": np.tile(levels, 100),
        "value": values.ravel(),
    }
    target = unbin.Release.from_quantiles(table).align(blocks)
    length = np.linalg.norm(slopes)
    return np.array([np.linalg.norm(c - slopes) / length for c in fits(X, y, target, "gaussian")])


def row(release: str, measure: str, figures: np.ndarray, runs: int) -> dict:
    names = ("likelihood", "matching", "oracle")
    return {"release": release, "measure": measure, "runs": runs} | dict(
        zip(names, map(float, figures), strict=True)
    )


def main() -> None:
    runs = common.runs_from_command_line(__doc__, 200)
    rows = []
    for family, intercept, bins in HISTOGRAMS:
        found = [from_histograms(family, intercept, bins, seed) for seed in range(runs)]
        name = f"{family} around exp({intercept:g})" if family == "poisson" else family
        rows.append(row(f"{name}, {bins} bins", "RMSE", np.sqrt(np.mean(found, axis=0)), runs))
    for number, levels in QUANTILES.items():
        errors = np.array([from_quantiles(levels, seed) for seed in range(runs)])
        rows.append(row(f"gaussian, {number} quantiles", "relative", errors.mean(axis=0), runs))
    common.report("slopes", rows, store=runs >= 200)


if __name__ == "__main__":
    main()
