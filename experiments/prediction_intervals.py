"""Intervals for a person's outcome cover 88 to 92 % at 90 %, in every family.

    python experiments/prediction_intervals.py
    python experiments/prediction_intervals.py --runs 5      a quick look; stores nothing

A model is fitted to the histograms of 30 or 100 blocks of 50 people, without and with normal block
effects of standard deviation 0.3, and asked for 90 % intervals of the outcomes of 2,000 people of
40 other blocks. "below" and "above" are the shares of people below and above their interval,
"wider" is the median length of the intervals over that of an oracle, who knows all parameters but
not the effects. Intervals of whole numbers cannot cover 90 % exactly: "small" are counts around 1.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

import common
from unbin.exceptions import OpenIntervalWarning
from unbin.families import get_family
from unbin.fitting.intervals import family_interval

FULL, LEVEL, SIZE, N_TRIALS, DISPERSION = 16, 0.9, 50, 20, 0.5
SLOPES = np.array([0.5, -0.3])
LEVELS = {"poisson": 3.0, "negative-binomial": 3.0, "gamma": 5.0, "small": 0.0}
SPREADS = {"gaussian": 1.0, "beta-binomial": 0.25}
FAMILIES = (
    "gaussian", "poisson", "binomial", "gamma", "negative-binomial", "beta-binomial", "ordinal",
    "small",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A family, how many blocks, and the standard deviation of their effects."""

    family: str
    blocks: int
    effects: float


CELLS = [Cell(family, blocks, sd) for family in FAMILIES for blocks in (30, 100) for sd in (0, 0.3)]


def draw(family: str, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return outcomes with this linear predictor."""
    n = len(eta)
    if family == "gaussian":
        return eta + rng.normal(size=n)
    if family in ("poisson", "small"):
        return rng.poisson(np.exp(eta)).astype(float)
    if family == "binomial":
        return rng.binomial(N_TRIALS, expit(eta)).astype(float)
    if family == "gamma":
        return rng.gamma(1 / DISPERSION, np.exp(eta) * DISPERSION)
    if family == "negative-binomial":
        return rng.poisson(rng.gamma(1 / DISPERSION, np.exp(eta) * DISPERSION)).astype(float)
    if family == "beta-binomial":
        p, w = expit(eta), SPREADS[family]
        return rng.binomial(N_TRIALS, rng.beta(p / w, (1 - p) / w)).astype(float)
    return 100 * np.exp(0.4 * (eta + rng.logistic(size=n)))


def people(cell: Cell, n_blocks: int, rng: np.random.Generator):
    """Return features, blocks and outcomes of people, with the mean of their linear predictors."""
    codes = np.repeat(np.arange(n_blocks), SIZE)
    X = 0.8 * rng.normal(size=(len(codes), 2)) + 0.5 * rng.normal(size=(n_blocks, 2))[codes]
    eta = LEVELS.get(cell.family, 0.0) + X @ SLOPES
    y = draw(cell.family, eta + cell.effects * rng.normal(size=n_blocks)[codes], rng)
    return X, codes, y, eta


def measure(cell: Cell, seed: int) -> dict[str, float]:
    """Return where the outcomes of new people lie."""
    rng = np.random.default_rng([seed, CELLS.index(cell)])
    X, codes, y, _ = people(cell, cell.blocks, rng)
    family = {"small": "poisson"}.get(cell.family, cell.family)
    bins = 8
    if family == "ordinal":
        shares = [0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98]
        bins = np.concatenate([[0.0], np.quantile(y, shares), [np.inf]])
    model = common.fit_release(X, y, common.block_names(codes), bins, family, n_trials=N_TRIALS)
    new, _, outcome, eta = people(cell, 40, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpenIntervalWarning)
        low, high = model.predict_interval(new, LEVEL).T
    found = {
        "cover": float(np.mean((low <= outcome) & (outcome <= high))),
        "below": float(np.mean(outcome < low)),
        "above": float(np.mean(outcome > high)),
    }
    return found | {"wider": float(np.median(high - low) / _oracle(cell, family, eta))}


def _oracle(cell: Cell, family: str, eta: np.ndarray) -> float:
    """Return the median length of the intervals of who knows the law."""
    if family == "ordinal":
        rng = np.random.default_rng(0)
        noise = rng.logistic(size=100_000) + cell.effects * rng.normal(size=100_000)
        low, high = np.quantile(noise, [0.05, 0.95])
        return float(np.median(100 * (np.exp(0.4 * (eta + high)) - np.exp(0.4 * (eta + low)))))
    law = get_family(family, N_TRIALS)
    nuisance = np.log([SPREADS.get(family, DISPERSION)])[: len(law.nuisance_names)]
    ends = family_interval(law, nuisance, eta, np.full(len(eta), cell.effects), LEVEL)
    return float(np.median(ends[:, 1] - ends[:, 0]))


def main() -> None:
    runs = common.runs_from_command_line(__doc__, FULL)
    rows = []
    for cell, found in zip(CELLS, common.over_cells(measure, CELLS, runs), strict=True):
        row = {"family": cell.family, "blocks": cell.blocks, "effects": float(cell.effects)}
        row |= {"runs": runs}
        row |= {name: float(np.mean([each[name] for each in found])) for name in found[0]}
        rows.append(row)
    common.report("prediction_intervals", rows, store=runs >= FULL)


if __name__ == "__main__":
    main()
