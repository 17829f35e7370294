"""Medians, quartiles and deciles alone tell slopes, with intervals and an efficiency that hold.

    python experiments/order_statistics.py

Blocks of 40 or 100 people, three features of which a fifth of the variance lies between blocks,
slopes (0.5, -0.3, 0.2). "effects" is the standard deviation of a normal effect of every block on
the linear predictor. "cover" is the share of 95 % intervals that hold the truth, "misfit" the
median Q/df (effects are not allowed for in it), "reported" and "real" the efficiency without
effects: the variance of the GLM fitted to individual targets over that which the fit reports, and
over that of its estimates.
"""

from __future__ import annotations

import numpy as np

import common

SLOPES = np.array([0.5, -0.3, 0.2])
QUANTILES = {"median": [0.5], "quartiles": [0.25, 0.5, 0.75], "deciles": np.arange(1, 10) / 10}
SHAPE = 2.0
"""Of gamma targets, and of the gamma factor of negative binomial ones."""


def draw(family: str, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return targets with this linear predictor; counts have means around 3 and 4.5."""
    if family == "gaussian":
        return eta + rng.normal(size=len(eta))
    if family == "gamma":
        return rng.gamma(SHAPE, np.exp(eta) / SHAPE)
    if family == "poisson":
        return rng.poisson(np.exp(eta + 1.0))
    return rng.poisson(np.exp(eta + 1.5) * rng.gamma(SHAPE, 1 / SHAPE, size=len(eta)))


Cell = tuple[str, str, int, int, float]


def fit_once(cell: Cell, seed: int) -> dict:
    """Return slopes, whether intervals hold them, and what the fit says of itself."""
    family, kind, n_blocks, size, sd = cell
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_blocks), size)
    X = rng.normal(size=(len(codes), 3)) + 0.5 * rng.normal(size=(n_blocks, 3))[codes]
    y = draw(family, X @ SLOPES + (sd * rng.normal(size=n_blocks))[codes], rng)
    target = common.quantile_release(y, codes, QUANTILES[kind]).align(codes)
    model = common.fit_quietly(X, target, family)
    low, high = model.conf_int().T
    goodness = model.diagnostics_.goodness_of_fit
    return {
        "coef": common.estimates(model),
        "held": (low < SLOPES) & (high > SLOPES),
        "misfit": np.nan if goodness is None else goodness.ratio,
        "effects": model.block_sd_,
        "efficiency": model.diagnostics_.efficiency,
        "oracle": common.fit_quietly(X, y, family).coef_ if sd == 0 else SLOPES,
    }


def summary(cell: Cell, fits: list[dict]) -> dict:
    """Return one row of the table."""
    family, kind, n_blocks, size, sd = cell
    coef, oracle = (np.array([fit[key] for fit in fits]) for key in ("coef", "oracle"))
    real = (oracle.var(axis=0) / coef.var(axis=0)).mean() if sd == 0 else np.nan
    reported = np.nanmean([fit["efficiency"] for fit in fits]) if sd == 0 else np.nan
    return {
        "family": family,
        "published": kind,
        "blocks": n_blocks,
        "people": size,
        "effects": sd,
        "runs": len(fits),
        "cover": float(np.mean([fit["held"] for fit in fits])),
        "rmse": float(np.sqrt(np.mean((coef - SLOPES) ** 2))),
        "misfit": float(np.median([fit["misfit"] for fit in fits])),
        "effects_found": float(np.mean([fit["effects"] for fit in fits])),
        "reported": float(reported),
        "real": float(real),
    }


def main() -> None:
    runs = common.runs_from_command_line(__doc__, 100)
    cells = [
        (family, kind, n_blocks, size, sd)
        for family in ("gaussian", "poisson", "gamma", "negative-binomial")
        for kind, n_blocks, size in (
            ("median", 30, 100),
            ("quartiles", 30, 100),
            ("deciles", 30, 40),
            ("quartiles", 100, 40),
        )
        for sd in (0.0, 0.3)
    ]
    found = common.over_cells(fit_once, cells, runs)
    rows = [summary(cell, fits) for cell, fits in zip(cells, found, strict=True)]
    common.report("order_statistics", rows, store=runs >= 100)


if __name__ == "__main__":
    main()
