"""95 % intervals cover 93-97 %, with and without effects shared by the people of a block.

    python experiments/intervals.py

100 blocks of 50 people, three features shifted by block, slopes (0.5, -0.3, 0.2). "effects": every
block has a normal effect of standard deviation 0.2 on the linear predictor, of which the fit
knows nothing. An ordinal target is a latent logistic variable cut at four thresholds. The figure is
the share of intervals, over data sets and slopes, that hold the truth.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

import common

SLOPES = np.array([0.5, -0.3, 0.2])
N_BLOCKS, SIZE, N_TRIALS, DISPERSION, EFFECT_SD = 100, 50, 20, 0.5, 0.2
BINS = {
    "gaussian": 6,
    "poisson": 6,
    "binomial": 6,
    "negative-binomial": 6,
    "ordinal": [-np.inf, 0.5, 1.5, 2.5, 3.5, np.inf],
}


def draw(family: str, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return targets with this linear predictor."""
    if family == "gaussian":
        return eta + rng.normal(size=len(eta))
    if family == "poisson":
        return rng.poisson(np.exp(eta))
    if family == "binomial":
        return rng.binomial(N_TRIALS, expit(eta))
    if family == "negative-binomial":
        r = 1 / DISPERSION
        return rng.negative_binomial(r, r / (r + np.exp(eta + 0.5)))
    return np.searchsorted([-1.5, -0.5, 0.5, 1.5], eta + rng.logistic(size=len(eta)))


def covers(family: str, effect_sd: float, seed: int) -> np.ndarray:
    """Return which slopes lie in their intervals."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(N_BLOCKS), SIZE)
    X = rng.normal(size=(len(codes), 3)) + 0.5 * rng.normal(size=(N_BLOCKS, 3))[codes]
    effect = effect_sd * rng.normal(size=N_BLOCKS)
    y = draw(family, X @ SLOPES + effect[codes], rng)
    blocks = common.block_names(codes)
    model = common.fit_release(X, y, blocks, BINS[family], family, n_trials=N_TRIALS)
    low, high = model.conf_int().T
    return (low < SLOPES) & (high > SLOPES)


def main() -> None:
    runs = common.runs_from_command_line(__doc__, 400)
    rows = []
    for family in BINS:
        row = {"family": family, "runs": runs}
        for name, sd in (("without_effects", 0.0), ("with_effects", EFFECT_SD)):
            row[name] = float(np.mean([covers(family, sd, seed) for seed in range(runs)]))
        rows.append(row)
    common.report("intervals", rows, store=runs >= 400)


if __name__ == "__main__":
    main()
