"""Slopes from levels where shapes tell other slopes: what the shape test is worth as a rule.

    python experiments/one_root.py
    python experiments/one_root.py --runs 20 --only lognormal      one mechanism, or kind of table

Four features, slopes .4, -.3, .2 and 0, known for everybody in blocks of 50 people; the outcome is
published in seven bins by block, or as medians, quartiles or deciles. "full" is the root of
everything that was published (``robust=False``), "default" that of levels where the shape test
rejects and an extension says that the family is wrong (``robust="auto"``). "gaussian", "poisson"
and "effects" of blocks are right; the others:

overdispersed   negative binomial counts, fitted as Poisson
zero-inflated   Poisson counts, 0 for a third of the people, fitted as Poisson
lognormal       lognormal features and exponential noise, fitted as gaussian
scale           noise whose spread grows with the first feature
bimodal         noise with two modes
heavy-tailed    Student's t with 3 degrees of freedom, fitted as gaussian
context         the block mean of the first feature has an effect of .6 of its own
exponential     exp(η + noise), fitted as gaussian; its slopes are no parameters of that

Of every cell: root mean squared error over all slopes, coverage of their 95 % intervals, the mean
squared error of predictions for new people over the variance of their outcomes, how often slopes
are from levels, how often the fit is not trusted, how often a slope is more than 3 standard errors
off, and how many of these fits were not trusted.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial

import numpy as np

import common
import unbin

RUNS = {60: 100, 100: 100, 300: 50}
"""Data sets for each number of blocks."""
SLOPES = np.array([0.4, -0.3, 0.2, 0.0])
PEOPLE, BINS = 50, 7
BETWEEN = 0.5
"""Standard deviation of block means of the features; within blocks it is 1."""
RIGHT = ("gaussian", "poisson", "effects")
WRONG = (
    "overdispersed",
    "zero-inflated",
    "lognormal",
    "scale",
    "bimodal",
    "heavy-tailed",
    "context",
)
QUANTILES = {"medians": [0.5], "quartiles": [0.25, 0.5, 0.75], "deciles": np.arange(1, 10) / 10}
ORDERED = ("gaussian", "effects", "lognormal", "exponential")
COUNTED = ("poisson", "overdispersed", "zero-inflated")


def people(mechanism: str, n_blocks: int, rng: np.random.Generator):
    """Return features, outcomes and blocks of people."""
    block = np.repeat(np.arange(n_blocks), PEOPLE)
    X = rng.normal(size=(len(block), 4)) + BETWEEN * rng.normal(size=(n_blocks, 4))[block]
    if mechanism == "lognormal":
        X = (np.exp(0.8 * X) - 1.4) / 1.5
    eta = X @ SLOPES
    if mechanism == "effects":
        eta = eta + 0.3 * rng.normal(size=n_blocks)[block]
    if mechanism == "context":
        eta = eta + 0.6 * (np.bincount(block, X[:, 0]) / PEOPLE)[block]
    if mechanism in COUNTED:
        mean = np.exp(0.5 + eta)
        if mechanism == "overdispersed":
            mean = mean * rng.gamma(1.0, 1.0, len(mean))
        y = rng.poisson(mean).astype(float)
        if mechanism == "zero-inflated":
            y[rng.random(len(y)) < 1 / 3] = 0.0
        return X, y, block
    normal = rng.normal(size=len(eta))
    noise = {
        "lognormal": lambda: rng.exponential(1.0, len(eta)) - 1,
        "scale": lambda: normal * np.exp(0.4 * X[:, 0]),
        "bimodal": lambda: 0.3 * normal + np.where(rng.random(len(eta)) < 0.5, 1.0, -1.0),
        "heavy-tailed": lambda: rng.standard_t(3, len(eta)),
    }.get(mechanism, lambda: normal)()
    y = eta + noise
    return X, np.exp(y) if mechanism == "exponential" else y, block


def published(y: np.ndarray, block: np.ndarray, what: str) -> unbin.Release:
    """Return the table of everybody's outcomes."""
    if what == "histograms":
        return unbin.aggregate(y, block, bins=BINS)
    return common.quantile_release(y, block, QUANTILES[what])


def run(mechanism: str, what: str, n_blocks: int, seed: int) -> list[dict[str, float]]:
    """Return what both rules make of one data set."""
    rng = np.random.default_rng(seed)
    X, y, block = people(mechanism, n_blocks, rng)
    new_X, new_y, _ = people(mechanism, 100, rng)
    family = "poisson" if mechanism in COUNTED else "gaussian"
    target = published(y, block, what).align(block)
    found = judged("auto", family, X, target, new_X, new_y)
    if not found["levels"]:  # the same fit
        return [found, found]
    return [judged(False, family, X, target, new_X, new_y), found]


def judged(robust: bool | str, family: str, X, target, new_X, new_y) -> dict[str, float]:
    """Hold a fit against the truth."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = unbin.AggregatedGLM(family, robust=robust, random_state=0).fit(X, target)
    low, high = model.conf_int().T
    estimate = (low + high) / 2
    off = np.abs(estimate - SLOPES) / model.standard_errors_
    return {
        "square": float(((estimate - SLOPES) ** 2).mean()),
        "covered": float(((low <= SLOPES) & (high >= SLOPES)).mean()),
        "error": float(((new_y - model.predict(new_X)) ** 2).mean() / new_y.var()),
        "levels": "levels of blocks alone" in str(model.diagnostics_),
        "distrusted": not model.diagnostics_.trusted,
        "off": bool((off > 3).any()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--only")
    args = parser.parse_args()
    cells = [(each, "histograms", (60, 300)) for each in (*RIGHT, *WRONG)]
    cells += [(each, what, (100,)) for what in QUANTILES for each in ORDERED]
    rows = []
    for mechanism, what, sizes in cells:
        if args.only not in (None, mechanism, what):
            continue
        for n_blocks in sizes:
            runs = args.runs or RUNS[n_blocks]
            found = common.over_seeds(partial(run, mechanism, what, n_blocks), runs)
            for rule, each in zip(("full", "default"), zip(*found, strict=True), strict=True):
                values = {key: np.array([one[key] for one in each], float) for key in each[0]}
                off = values["off"] > 0
                rows.append(
                    {
                        "mechanism": mechanism,
                        "published": what,
                        "blocks": n_blocks,
                        "rule": rule,
                        "rmse": float(np.sqrt(values["square"].mean())),
                        "coverage": float(values["covered"].mean()),
                        "error": float(values["error"].mean()),
                        "levels": float(values["levels"].mean()),
                        "not_trusted": float(values["distrusted"].mean()),
                        "off_by_3_se": float(off.mean()),
                        "of_these_caught": float(values["distrusted"][off].mean())
                        if off.any()
                        else float("nan"),
                    }
                )
    common.report("one_root", rows, store=args.runs is None and args.only is None)


if __name__ == "__main__":
    main()
