"""Contextual effects bias the slopes; contextual=True removes the bias, and its test detects it.

    python experiments/ecological_bias.py

Three features: binary with a share that differs by block, skewed with a spread that differs by
block, normal with shifted means. Slopes (1, 0.5, -0.5), contextual effects of the same size (none
in the rows "no"), noise of standard deviation 1, eight bins at the pooled quantiles, 600 blocks of
15 people and 300 blocks of 100. The figures are the mean estimates of the slopes over the truth
with contextual=False and contextual=True, and the share of data sets in which the test of "no
contextual effects" rejects at 5 %. "between" is the regression of block means of the target on
block means of the features, over the truth: what the usual ecological study would report. Gaussian
fits to normal noise and ordinal fits, which leave the shape of the target free, to logistic noise.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import common

SLOPES = np.array([1.0, 0.5, -0.5])
SIZES = ((600, 15), (300, 100))
NOISE = {"gaussian": "normal", "ordinal": "logistic"}
LOGISTIC_SD = np.pi / np.sqrt(3)


def people(n_blocks: int, size: int, effect: float, noise: str, rng: np.random.Generator):
    """Return features, targets and block codes."""
    codes = np.repeat(np.arange(n_blocks), size)
    share = rng.uniform(0.1, 0.9, n_blocks)[codes]
    spread = rng.uniform(0.3, 1.7, n_blocks)[codes]
    shift = 0.5 * rng.normal(size=n_blocks)[codes]
    n = len(codes)
    X = np.column_stack(
        [rng.random(n) < share, spread * rng.exponential(size=n), rng.normal(size=n) + shift]
    )
    means = block_means(X, codes)[codes]
    error = rng.normal(size=n) if noise == "normal" else rng.logistic(size=n) / LOGISTIC_SD
    y = X @ SLOPES + effect * means @ SLOPES + error
    return X, y, codes


def block_means(columns: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the mean of each column in each block."""
    n = np.bincount(codes)
    return np.column_stack([np.bincount(codes, column) / n for column in columns.T])


def one_run(family: str, n_blocks: int, size: int, effect: float, seed: int) -> np.ndarray:
    """Return slopes over the truth, between blocks, naive, corrected; and if the test rejects."""
    X, y, codes = people(n_blocks, size, effect, NOISE[family], np.random.default_rng(seed))
    blocks = common.block_names(codes)
    columns = np.column_stack([np.ones(n_blocks), block_means(X, codes)])
    between = np.linalg.lstsq(columns, block_means(y[:, None], codes)[:, 0])[0][1:]
    truth = SLOPES * (LOGISTIC_SD if family == "ordinal" else 1)  # in units of the noise
    naive = common.fit_release(X, y, blocks, 8, family)
    model = common.fit_release(X, y, blocks, 8, family, contextual=True)
    rejects = model.diagnostics_.context.p_value < 0.05
    fitted = [common.estimates(each) / truth for each in (naive, model)]
    slopes = [between / SLOPES, *fitted]
    return np.concatenate([*slopes, [rejects]])


def table(family: str, n_blocks: int, size: int, effect: float, found: np.ndarray) -> list[dict]:
    """Return one row per feature."""
    mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(len(found))
    return [
        {
            "family": family,
            "blocks": f"{n_blocks} of {size}",
            "contextual": "yes" if effect else "no",
            "feature": feature,
            "between": float(mean[j]),
            "contextual=False": float(mean[3 + j]),
            "contextual=True": float(mean[6 + j]),
            "its_error": float(error[6 + j]),
            "test_rejects": float(mean[-1]),
        }
        for j, feature in enumerate(("binary", "skewed", "normal"))
    ]


def main() -> None:
    runs = common.runs_from_command_line(__doc__, 200)
    rows = []
    for family in NOISE:
        for n_blocks, size in SIZES:
            for effect in (1.0, 0.0):
                cell = partial(one_run, family, n_blocks, size, effect)
                found = common.over_seeds(cell, runs)
                rows += table(family, n_blocks, size, effect, np.array(found))
    common.report("ecological_bias", rows, store=runs >= 200)


if __name__ == "__main__":
    main()
