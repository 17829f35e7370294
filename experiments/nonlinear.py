"""Non-linear models by the paper's alternation, which it leaves to future work.

    python experiments/nonlinear.py

Claim: on a simulated non-linear truth with 200 blocks of 50 people and 8 bins, the alternation with
gradient-boosted trees as its model predicts new people better than the GLM. The mean of the target
is sin(2 x1) + x2² + x3/2; features are standard normal within blocks, which are shifted by standard
normal draws, and the noise has standard deviation 0.5. Counts are Poisson with the mean
exp(mean/2 - 1/2). New people live in 200 new blocks. Figures are mean squared errors of predictions
against the true mean of each new person, over its variance: 0 is perfect, 1 knows nothing.

"Trees" and five nearest "neighbours" are fitted with out-of-fold predictions in the imputation
(cv=5, the default) and without (cv=None); "trees, block means" are fitted once, everybody having
the block's mean, from midpoints; "GLM, splines" is the likelihood with a cubic spline of each
feature, which is right for this additive truth, and "trees from" it start at its predictions; the
oracle's trees are fitted to the individual targets.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

import common
import unbin
from unbin.families import get_family
from unbin.matching.bounds import rank_bounds
from unbin.matching.start import block_target_means

N_BLOCKS, SIZE, BINS, NOISE = 200, 50, 8, 0.5
COUNTS = ("GLM likelihood", "GLM matching", "trees, cv=5", "oracle trees")
FAMILIES = {"squared": "gaussian", "poisson": "poisson"}


def people(rng: np.random.Generator, loss: str):
    """Return features, true means, targets and blocks."""
    codes = np.repeat(np.arange(N_BLOCKS), SIZE)
    X = rng.normal(size=(len(codes), 3)) + rng.normal(size=(N_BLOCKS, 3))[codes]
    mean = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.5 * X[:, 2]
    if loss == "squared":
        return X, mean, mean + NOISE * rng.normal(size=len(mean)), common.block_names(codes)
    mean = np.exp(np.minimum(0.5 * mean - 0.5, 4.0))
    return X, mean, rng.poisson(mean).astype(float), common.block_names(codes)


def trees(loss: str) -> HistGradientBoostingRegressor:
    kind = "squared_error" if loss == "squared" else "poisson"
    return HistGradientBoostingRegressor(
        loss=kind, learning_rate=0.2, max_iter=50, max_leaf_nodes=15, early_stopping=False
    )


def one_run(loss: str, seed: int, models: tuple[str, ...] = ()) -> dict[str, float]:
    """Return the test error of every model, or of some."""
    rng = np.random.default_rng(seed)
    X, _, y, blocks = people(rng, loss)
    new_rows, new_mean, _, _ = people(rng, loss)
    target = unbin.aggregate(y, blocks, BINS).align(blocks)
    family = FAMILIES[loss]
    fits = {
        "GLM likelihood": lambda: common.fit(X, target, family),
        "GLM matching": lambda: common.fit(X, target, family, method="matching"),
        "GLM, splines": lambda: splines(family).fit(X, target),
        "trees, block means": lambda: trees(loss).fit(X, block_means(target, family)),
        "trees, cv=None": lambda: regressor(loss, cv=None).fit(X, target),
        "trees, cv=5": lambda: regressor(loss).fit(X, target),
        "trees from GLM, splines": lambda: from_splines(loss, X, target),
        "neighbours, cv=None": lambda: neighbours(loss, cv=None).fit(X, target),
        "neighbours, cv=5": lambda: neighbours(loss).fit(X, target),
        "oracle trees": lambda: trees(loss).fit(X, y),
    }
    scale = new_mean.var()
    return {name: common.mse(fits[name](), new_rows, new_mean) / scale for name in models or fits}


def block_means(target: unbin.AggregatedTarget, family: str) -> np.ndarray:
    """Return the mean of everybody's block, from midpoints."""
    bounds = rank_bounds(target.release, get_family(family).domain)
    return block_target_means(bounds)[target.codes]


def splines(family: str):
    return make_pipeline(
        SplineTransformer(n_knots=5, knots="quantile", extrapolation="linear", include_bias=False),
        unbin.AggregatedGLM(family),
    )


def regressor(loss: str, **settings) -> unbin.AggregatedRegressor:
    return unbin.AggregatedRegressor(trees(loss), loss=loss, random_state=0, **settings)


def neighbours(loss: str, **settings) -> unbin.AggregatedRegressor:
    nearest = KNeighborsRegressor(5)
    return unbin.AggregatedRegressor(nearest, loss=loss, random_state=0, **settings)


def from_splines(loss: str, X, target) -> unbin.AggregatedRegressor:
    start = splines(FAMILIES[loss]).fit(X, target).predict(X)
    return regressor(loss, init=start).fit(X, target)


def compare(loss: str, runs: int, models: tuple[str, ...]) -> list[dict]:
    found = [one_run(loss, seed, models) for seed in range(runs)]
    rows = []
    for name in found[0]:
        errors = np.array([run[name] for run in found])
        better = float(np.mean([run[name] < run["GLM likelihood"] for run in found]))
        error = float(errors.std(ddof=1) / np.sqrt(runs)) if runs > 1 else float("nan")
        row = {"loss": loss, "model": name, "runs": runs, "error": float(errors.mean())}
        rows.append(row | {"standard error": error, "beats the GLM": better})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    runs = common.runs_from_command_line(__doc__, 20)
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", unbin.exceptions.IdentificationWarning)
    warnings.simplefilter("ignore", unbin.exceptions.SpecificationWarning)
    rows = compare("squared", runs, ()) + compare("poisson", -(-runs // 2), COUNTS)
    common.report("nonlinear", rows, store=runs >= 20)


if __name__ == "__main__":
    main()
