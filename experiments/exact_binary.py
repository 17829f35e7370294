"""The exact likelihood of 0/1 outcomes in small blocks beside the quasi-score.

    python experiments/exact_binary.py              200 data sets a cell
    python experiments/exact_binary.py --runs 20    stores nothing

One normal feature of variance 1, ``between`` of it between blocks; logit slopes. In "effects" every
block has a normal effect of that standard deviation, of which the fit is not told: where it shows,
the quasi-score is used. Ratios are of variances, exact over quasi-score: "expected" by the two
informations at the truth, "found" over the data sets, of estimates within 10 of the truth.
"""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from scipy.special import expit

import common
import unbin
from unbin._watching import Equation
from unbin.families import get_family
from unbin.likelihood.data.problem import make_problem
from unbin.likelihood.model.score import score_sums
from unbin.likelihood.solve.exact import exact_blocks, exact_sums
from unbin.rows.design import lay_out

FULL = 200
ZERO_ONE = [-0.5, 0.5, 1.5]
NOT_USED = "unbin.likelihood.solve.exact.exact_blocks"
CELLS = (  # blocks, people, slope, between, effects
    (100, 10, 0.5, 0.3, 0.0),
    (100, 10, 1.0, 0.3, 0.0),
    (100, 10, 2.0, 0.3, 0.0),
    (300, 10, 4.0, 0.3, 0.0),
    (300, 10, 1.0, 0.05, 0.0),
    (100, 30, 2.0, 0.3, 0.0),
    (30, 10, 1.0, 0.3, 0.0),
    (100, 10, 1.0, 0.3, 0.3),
    (100, 10, 2.0, 0.3, 0.5),
    (300, 10, 1.0, 0.05, 0.3),
)
Cell = tuple[int, int, float, float, float]


def people(cell: Cell, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw a feature, outcomes and the blocks of a data set."""
    n_blocks, size, slope, between, effects = cell
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_blocks), size)
    x = np.sqrt(between) * rng.normal(size=n_blocks)[codes]
    x += np.sqrt(1 - between) * rng.normal(size=len(codes))
    eta = slope * x + effects * rng.normal(size=n_blocks)[codes]
    y = (rng.random(len(codes)) < expit(eta)).astype(float)
    return x[:, None], y, common.block_names(codes)


def one_run(cell: Cell, seed: int) -> np.ndarray:
    """Return slope and standard error, exact and by the quasi-score; whether it was exact."""
    X, y, blocks = people(cell, seed)
    target = unbin.aggregate(y, blocks, ZERO_ONE).align(blocks)
    exact = common.fit(X, target, "binomial", n_jobs=1)
    with patch(NOT_USED, lambda problem: problem.lead.counts.n < 0):
        quasi = common.fit(X, target, "binomial", n_jobs=1)
    found = [
        x
        for model in (exact, quasi)
        for x in (common.estimates(model)[0], model.standard_errors_[0])
    ]
    return np.array([*found, exact.equation_ is Equation.EXACT])


def expected_ratio(cell: Cell) -> float:
    """Return the variance of the slope by the exact information over that of the quasi-score."""
    _, size, slope, between, _ = cell
    X, y, blocks = people((2000, size, slope, between, 0.0), 0)
    release = unbin.aggregate(y, blocks, ZERO_ONE).align(blocks).release
    design = lay_out(X, np.repeat(np.arange(2000), size), 2000)
    problem = make_problem(design, release, get_family("binomial"))
    theta, nothing = design.from_coefficients(np.array([slope]), 0.0), np.zeros(2)
    exact = exact_sums(problem, theta, nothing, exact_blocks(problem)).information
    quasi = score_sums(problem, theta, nothing).information
    return float(np.linalg.inv(exact)[1, 1] / np.linalg.inv(quasi)[1, 1])


def summarise(cell: Cell, each: list[np.ndarray]) -> dict:
    """Return the row of a cell."""
    found, slope = np.array(each), cell[2]
    kept = found[(np.abs(found[:, [0, 2]] - slope) < 10).all(axis=1)]
    exact, quasi = kept[:, 0], kept[:, 2]
    covers = [np.abs(kept[:, k] - slope) < 1.96 * kept[:, k + 1] for k in (0, 2)]
    names = ("blocks", "people", "slope", "between", "effects")
    return dict(zip(names, cell, strict=True)) | {
        "kept": len(kept),
        "exact": kept[:, 4].mean(),
        "expected": expected_ratio(cell),
        "found": exact.var() / quasi.var(),
        "bias": exact.mean() - slope,
        "bias_quasi": quasi.mean() - slope,
        "covers": covers[0].mean(),
        "covers_quasi": covers[1].mean(),
    }


def main() -> None:
    runs = common.runs_from_command_line(__doc__, FULL)
    found = common.over_cells(one_run, CELLS, runs)
    rows = [summarise(cell, each) for cell, each in zip(CELLS, found, strict=True)]
    common.report("exact_binary", rows, store=runs >= FULL)


if __name__ == "__main__":
    main()
