"""Wald tests of true hypotheses reject 4 to 6 % of the time, at 5 %.

    python experiments/wald_size.py
    python experiments/wald_size.py --runs 50      a quick look; stores nothing

60 blocks of 40 people, four features shifted by block, slopes (0.5, -0.3, 0.2, 0.2), without and
with normal block effects of standard deviation 0.3. Tested are one slope, that two are the same,
three, and all four together, against their true values; columns are the shares of data sets in
which p < 0.05.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import common
import intervals
import unbin

FULL = 300
SLOPES = np.array([0.5, -0.3, 0.2, 0.2])
N_BLOCKS, SIZE = 60, 40
HYPOTHESES = {
    "one": "x0 = 0.5",
    "equal": "x2 = x3",
    "three": ["x1 = -0.3", "x2 = 0.2", "x3 = 0.2"],
    "four": [f"x{j} = {slope}" for j, slope in enumerate(SLOPES)],
}


@dataclass(frozen=True)
class Cell:
    """A family, and the standard deviation of the block effects."""

    family: str
    effects: float


CELLS = [
    Cell(family, sd) for family in ("gaussian", "poisson", "binomial", "ordinal") for sd in (0, 0.3)
]


def fit(cell: Cell, seed: int, n_blocks: int = N_BLOCKS) -> unbin.AggregatedGLM:
    """Return the fit to the table of one data set."""
    rng = np.random.default_rng([seed, CELLS.index(cell)])
    codes = np.repeat(np.arange(n_blocks), SIZE)
    X = rng.normal(size=(len(codes), 4)) + 0.7 * rng.normal(size=(n_blocks, 4))[codes]
    effect = cell.effects * rng.normal(size=n_blocks)
    y = intervals.draw(cell.family, X @ SLOPES + effect[codes], rng)
    blocks, bins = common.block_names(codes), intervals.BINS[cell.family]
    settings = {"alpha": 0.0, "n_trials": intervals.N_TRIALS}
    return common.fit_release(X, y, blocks, bins, cell.family, **settings)


def p_values(cell: Cell, seed: int) -> dict[str, float]:
    """Return the p value of every test of one data set."""
    model = fit(cell, seed)
    return {name: model.wald_test(asked).p_value for name, asked in HYPOTHESES.items()}


def main() -> None:
    runs = common.runs_from_command_line(__doc__, FULL)
    rows = []
    for cell, found in zip(CELLS, common.over_cells(p_values, CELLS, runs), strict=True):
        row = {"family": cell.family, "effects": float(cell.effects), "runs": runs}
        for name in HYPOTHESES:
            row[name] = float(np.mean([each[name] < 0.05 for each in found]))
        rows.append(row)
    together = {"family": "all", "effects": float("nan"), "runs": runs * len(CELLS)}
    for name in HYPOTHESES:
        together[name] = float(np.mean([row[name] for row in rows]))
    common.report("wald_size", [*rows, together], store=runs >= FULL)


if __name__ == "__main__":
    main()
