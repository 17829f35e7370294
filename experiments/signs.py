"""Effects within blocks whose sign is not that between them: one table, contextual=True.

    python experiments/signs.py

100 blocks of 50 people, two features with slopes 1 and 0.4 (half of that for poisson), tables of
six bins. Features are normal, skewed (gamma) or binary, and differ between blocks. "turned": what
the block adds makes the effect of the first feature -1 between blocks; "no": blocks add nothing.

"off" is the share of data sets in which a slope lies more than three standard errors from the
truth, "sign not told" that of fits which say so, "not trusted" that of all reasons together, and
"trusted and off" what a reader would be misled by.
"""

from __future__ import annotations

import numpy as np

import common
import unbin

SLOPES = np.array([1.0, 0.4])
BLOCKS, SIZE, BINS = 100, 50, 6
CELLS = [
    (family, shape, turned)
    for family in ("gaussian", "binomial", "poisson", "ordinal")
    for shape in ("normal", "skewed", "binary")
    for turned in (True, False)
]


def people(shape: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, what each person's block has of the first one, and blocks."""
    codes = np.repeat(np.arange(BLOCKS), SIZE)
    level = rng.normal(size=(BLOCKS, 2))[codes]
    if shape == "binary":
        share = 1 / (1 + np.exp(0.8 - level))
        return (rng.random(share.shape) < share).astype(float), 0.5 * level[:, 0], codes
    own = rng.normal(size=level.shape)
    if shape == "skewed":
        own = (rng.gamma(2, size=level.shape) - 2) / np.sqrt(2)
    return own + 0.5 * level, 0.5 * level[:, 0], codes


def fitted(cell: tuple[str, str, bool], seed: int) -> tuple[unbin.AggregatedGLM, np.ndarray]:
    """Return a contextual fit, and the true slopes."""
    family, shape, turned = cell
    rng = np.random.default_rng(seed)
    X, level, codes = people(shape, rng)
    eta = X @ SLOPES - 2 * level * turned
    truth, settings = SLOPES, {}
    if family == "binomial":
        y, settings = rng.binomial(20, 1 / (1 + np.exp(-eta))), {"n_trials": 20}
    elif family == "poisson":
        y, truth = rng.poisson(np.exp(0.5 * eta)), 0.5 * SLOPES
    else:
        noise = rng.logistic(size=len(eta)) if family == "ordinal" else rng.normal(size=len(eta))
        y = eta + noise
    blocks = common.block_names(codes)
    return common.fit_release(X, y, blocks, BINS, family, contextual=True, **settings), truth


def one_run(cell: tuple[str, str, bool], seed: int) -> np.ndarray:
    """Return if a slope is off, if a sign is not told, if the fit is not trusted, or misleads."""
    model, truth = fitted(cell, seed)
    found = model.diagnostics_
    off = bool((np.abs(common.estimates(model) - truth) > 3 * model.standard_errors_).any())
    untold = any("does not tell the sign" in reason for reason in found.reasons)
    return np.array([off, untold, not found.trusted, off and found.trusted], dtype=float)


def table(runs: int) -> list[dict]:
    rows = []
    for cell, found in zip(CELLS, common.over_cells(one_run, CELLS, runs), strict=True):
        names = ("off", "sign_not_told", "not_trusted", "trusted_and_off")
        shares = dict(zip(names, map(float, np.mean(found, axis=0)), strict=True))
        family, shape, turned = cell
        rows.append(
            {"family": family, "features": shape, "block_adds": "turned" if turned else "no"}
            | shares
        )
    return rows


def main() -> None:
    runs = common.runs_from_command_line(__doc__, 40)
    common.report("signs", table(runs), store=runs >= 40)


if __name__ == "__main__":
    main()
