"""The likelihood beside fully observed fits of its peers, in one run and on one thread.

    python benchmarks/likelihood.py               n = 1,000,000 (a few minutes)
    python benchmarks/likelihood.py --quick       n = 100,000

Prints the time of a fit to published histograms, standard errors and diagnostics included, as a
multiple of one glum fit to the individual targets on the same X; both methods beside glum,
scikit-learn and statsmodels; and the peak memory of a fit.
"""

from __future__ import annotations

import warnings

import statsmodels.api as sm
from sklearn.linear_model import LinearRegression, PoissonRegressor

import unbin
from timing import (  # it keeps to one thread
    N_TRIALS,
    arguments,
    best_of,
    glum_seconds,
    peak_memory,
    people,
    size_of,
)

LIMIT = 6
SETTINGS = ((250, 10), (250, 5), (5_000, 10), (50_000, 5))  # blocks, bins

warnings.simplefilter("ignore")


def ratios(n: int, d: int) -> None:
    print(f"\nlikelihood / one fully observed glum fit, n = {n:,}, d = {d} (limit {LIMIT} at 250)")
    print(f"{'family':>9} {'blocks':>7} {'bins':>4} {'glum s':>7} {'fit s':>7} {'ratio':>6} passes")
    for n_blocks, bins in SETTINGS:
        for family in ("gaussian", "poisson", "binomial"):
            sim = people(family, n, d, n_blocks)
            peer_seconds = glum_seconds(sim, family)
            target = unbin.aggregate(sim.y, sim.blocks, bins).align(sim.blocks)
            model = unbin.AggregatedGLM(family, n_trials=N_TRIALS, n_jobs=1)
            seconds, _ = best_of(lambda: model.fit(sim.X, target))  # noqa: B023
            print(
                f"{family:>9} {n_blocks:>7,} {bins:>4} {peer_seconds:>7.3f} {seconds:>7.3f}"
                f" {seconds / peer_seconds:>6.1f} {model.n_iter_:>6}  {model.status_.name}",
                flush=True,
            )


def beside_peers(n: int, d: int) -> None:
    """Print both methods beside three libraries' fits to the individual targets."""
    print(f"\nfully observed fits and ours (250 blocks, 10 bins), n = {n:,}, d = {d}, seconds")
    names = ("glum", "scikit-learn", "statsmodels", "likelihood", "matching")
    print(f"{'family':>9} " + " ".join(f"{name:>12}" for name in names) + "   ours / glum (6, 2)")
    for family in ("gaussian", "poisson"):
        sim = people(family, n, d, 250)
        target = unbin.aggregate(sim.y, sim.blocks, 10).align(sim.blocks)
        learner = LinearRegression() if family == "gaussian" else PoissonRegressor(alpha=0)
        law = sm.families.Gaussian() if family == "gaussian" else sm.families.Poisson()
        columns = sm.add_constant(sim.X)
        runs = {
            "scikit-learn": lambda: learner.fit(sim.X, sim.y),  # noqa: B023
            "statsmodels": lambda: sm.GLM(sim.y, columns, law).fit(),  # noqa: B023
        }
        seconds = {"glum": glum_seconds(sim, family)}
        for name, run in runs.items():
            seconds[name] = best_of(run, 1 if name == "statsmodels" else 3)[0]
        for method in ("likelihood", "matching"):
            model = unbin.AggregatedGLM(family, method, n_jobs=1, random_state=0)
            seconds[method] = best_of(lambda: model.fit(sim.X, target))[0]  # noqa: B023
        ratios = [seconds[m] / seconds["glum"] for m in ("likelihood", "matching")]
        print(f"{family:>9} " + " ".join(f"{seconds[name]:>12.3f}" for name in names)
              + f"   {ratios[0]:.1f}, {ratios[1]:.1f}", flush=True)  # fmt: skip


def main() -> None:
    n = size_of(arguments(__doc__).parse_args())
    ratios(n, 10)
    ratios(n, 50)
    beside_peers(n, 10)
    beside_peers(n, 50)
    print("\npeak memory of a gaussian fit, 250 blocks, 10 bins, as a multiple of X (limit 3)")
    for d in (10, 50):
        print(f"d = {d}: {peak_memory('likelihood', n, d, 10)}", flush=True)


if __name__ == "__main__":
    main()
