"""Slopes from several tables of the same people, and whether their 95 % intervals hold the truth.

    python experiments/several_tables_coverage.py
    python experiments/several_tables_coverage.py --runs 60 --only noise      a part; stores nothing

60 counties of 60 people. Age (standard deviation 1) and sex differ little between counties, with
standard deviations .12 of the mean and .035 of the share; income has .65 between and .75 within.
Published are tables by county, by 12 age groups and by sex, in five bins unless said otherwise.
"effects": every county has a normal effect of standard deviation .3 on the linear predictor, of
which the fit is not told. The spread between counties was chosen so that the county table alone has
the errors that a prototype had (.097, .235, .029, without effects). Its people are not known; its
errors stand beside ours.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit
from threadpoolctl import threadpool_limits

import common
import suppression
import unbin
from unbin.exceptions import AlignmentWarning

FULL, FULL_MAIN = 200, 400
"""Data sets of a scene; of those that the prototype had too."""
N_COUNTIES, SIZE = 60, 60
NAMES = ("age", "sex", "income")
SLOPES = np.array([0.3, 0.5, 0.3])
NOISE, EFFECT_SD, N_TRIALS = 0.95, 0.3, 10
INF = float("inf")
EDGES = {
    "gaussian": [-INF, -0.7, -0.03, 0.53, 1.2, INF],
    "poisson": [-1, 0, 1, 2, 4, INF],
    "binomial": [-1, 0, 1],
    f"binomial of {N_TRIALS}": [-1, 3, 5, 7, 8, N_TRIALS],
    "ordinal": [-INF, 0.5, 1.5, 2.5, 3.5, INF],
}
PROTOTYPE = {  # RMSE of 60 runs, by scene and effects
    ("county alone", False): (0.097, 0.235, 0.029),
    ("county alone", True): (0.240, 0.397, 0.071),
    ("three tables", False): (0.019, 0.034, 0.028),
    ("three tables", True): (0.019, 0.038, 0.066),
}


@dataclass(frozen=True)
class People:
    """One data set: features, targets, their bins and the partitions tables are published by."""

    X: np.ndarray
    y: np.ndarray
    county: np.ndarray
    age: np.ndarray
    sex: np.ndarray
    bins: list[float]
    rng: np.random.Generator


def people(family: str, effect_sd: float, seed: tuple[int, ...]) -> People:
    """Draw a data set."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(N_COUNTIES), SIZE)
    n, place = len(codes), rng.normal(size=(3, N_COUNTIES))[:, codes]
    age = 0.12 * place[0] + np.sqrt(1 - 0.12**2) * rng.normal(size=n)
    sex = (rng.random(n) < 0.5 + 0.035 * place[1]).astype(float)
    income = 0.65 * place[2] + 0.75 * rng.normal(size=n)
    X = np.column_stack([age, sex, income])
    y = draw(family, X @ SLOPES + effect_sd * rng.normal(size=N_COUNTIES)[codes], rng)
    groups = np.clip(np.floor(2 * age + 6), 0, 11).astype(int)
    names = [common.block_names(part) for part in (codes, groups, sex.astype(int))]
    return People(X, y, *names, bins=EDGES[family], rng=rng)


def draw(family: str, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return targets with this linear predictor."""
    if family == "gaussian":
        return eta + NOISE * rng.normal(size=len(eta))
    if family == "poisson":
        return rng.poisson(np.exp(eta))
    if family == "binomial":
        return rng.binomial(1, expit(eta))
    if family == "ordinal":
        return np.searchsorted([-1.2, -0.2, 0.6, 1.6], eta + rng.logistic(size=len(eta)))
    return rng.binomial(N_TRIALS, expit(eta))


# -- what is published -----------------------------------------------------------------------------

Tables = list[unbin.AggregatedTarget]


def histogram(who: People, by: str, bins) -> unbin.AggregatedTarget:
    """Return a table of counts."""
    ids = getattr(who, by)
    return unbin.aggregate(who.y, ids, bins).align(ids)


def histograms(who: People, *by: str) -> Tables:
    """Return tables of counts in the same bins."""
    return [histogram(who, name, who.bins) for name in by]


def three(who: People) -> Tables:
    return histograms(who, "county", "age", "sex")


def alone(who: People) -> Tables:
    return histograms(who, "county")


def different(who: People) -> Tables:
    return [
        histogram(who, "county", who.bins),
        histogram(who, "age", [-INF, -0.4, 0.3, 0.9, INF]),
        histogram(who, "sex", [-INF, -1.0, 0.0, 0.25, 0.5, 1.0, 2.0, INF]),
    ]


def means(who: People, by: str) -> unbin.AggregatedTarget:
    """Return a table of means."""
    ids = getattr(who, by)
    names, codes = np.unique(ids, return_inverse=True)
    mean = np.bincount(codes, who.y) / np.bincount(codes)
    return unbin.Release.from_means({"block": names, "mean": mean}).align(ids)


def means_by_county(who: People) -> Tables:
    return [means(who, "county"), *histograms(who, "age", "sex")]


def means_by_sex(who: People) -> Tables:
    return [*histograms(who, "county", "age"), means(who, "sex")]


def only_means(who: People) -> Tables:
    return [means(who, by) for by in ("county", "age", "sex")]


def insured(who: People) -> Tables:
    """Publish the table by age group of insured people only, who have higher incomes."""
    inside = who.rng.random(len(who.y)) < expit(0.4 + who.X[:, 2])
    release = unbin.aggregate(who.y[inside], who.age[inside], who.bins)
    ids = np.where(inside, who.age.astype(object), None)
    tables = histograms(who, "county", "sex")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)  # that people are outside is meant
        return [*tables, release.align(ids, on_missing="drop")]


def spelled(who: People, how: str) -> Tables:
    """Return the three tables, each suppressed or rounded."""
    found = []
    for by in ("county", "age", "sex"):
        ids = getattr(who, by)
        found.append(suppression.spellings(unbin.aggregate(who.y, ids, who.bins))[how].align(ids))
    return found


def suppressed(who: People) -> Tables:
    return spelled(who, "suppressed")


def rounded(who: People) -> Tables:
    return spelled(who, "rounded to 5")


def quantiles(who: People, by: str, levels: list[float]) -> unbin.AggregatedTarget:
    """Return a table of quantiles."""
    ids = getattr(who, by)
    return common.quantile_release(who.y, ids, levels).align(ids)


def quartiles_by_county(who: People) -> Tables:
    table = quantiles(who, "county", [0.25, 0.5, 0.75])
    return [table, *histograms(who, "age", "sex")]


def deciles_by_sex(who: People) -> Tables:
    table = quantiles(who, "sex", [k / 10 for k in range(1, 10)])
    return [*histograms(who, "county", "age"), table]


def noise(who: People, by: str, sd: float) -> unbin.AggregatedTarget:
    """Return a table of counts with noise added."""
    ids = getattr(who, by)
    table = unbin.aggregate(who.y, ids, who.bins).to_columns()["histogram"]
    count = np.asarray(table["count"], dtype=float)
    count = count + sd * who.rng.normal(size=len(count))
    return unbin.Release.from_histogram(table | {"count": count}, noise_sd=sd).align(ids)


def noise_by_county(who: People) -> Tables:
    return [noise(who, "county", 5.0), *histograms(who, "age", "sex")]


def noise_by_sex(who: People) -> Tables:
    return [*histograms(who, "county", "age"), noise(who, "sex", 40.0)]


Scene = tuple[str, Callable[[People], Tables]]
SCENES: dict[str, Scene] = {
    "county alone": ("gaussian", alone),
    "three tables": ("gaussian", three),
    "different bins": ("gaussian", different),
    "means by county": ("gaussian", means_by_county),
    "means by sex": ("gaussian", means_by_sex),
    "means only": ("gaussian", only_means),
    "ages of insured only": ("gaussian", insured),
    "suppressed 1 to 10": ("gaussian", suppressed),
    "rounded to 5": ("gaussian", rounded),
    "quartiles by county": ("gaussian", quartiles_by_county),
    "deciles by sex": ("gaussian", deciles_by_sex),
    "noise by county": ("gaussian", noise_by_county),
    "noise by sex": ("gaussian", noise_by_sex),
    "poisson": ("poisson", three),
    "binomial": ("binomial", three),
    f"binomial of {N_TRIALS}": (f"binomial of {N_TRIALS}", three),
    "ordinal": ("ordinal", three),
}


# -- what is found ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """What one data set gave: (3,) errors, standard errors and whether intervals hold the truth."""

    error: np.ndarray
    se: np.ndarray
    covers: np.ndarray
    block_sd: float
    solved: bool


def one_run(scene: str, effects: bool, seed: int) -> Run:
    """Draw people, publish the tables of a scene and fit the model to them."""
    family, publish = SCENES[scene]
    # people of their own for every scene: what one draw does by chance does not show in all
    who = people(family, EFFECT_SD * effects, (list(SCENES).index(scene), int(effects), seed))
    tables = publish(who)
    n_trials = N_TRIALS if family.endswith(f"of {N_TRIALS}") else 1
    target = unbin.join(*tables) if len(tables) > 1 else tables[0]
    model = common.fit_quietly(who.X, target, family.split()[0], n_trials=n_trials)
    low, high = model.conf_int().T
    return Run(
        error=common.estimates(model) - SLOPES,
        se=model.standard_errors_,
        covers=(low < SLOPES) & (high > SLOPES),
        block_sd=float(model.block_sd_),
        solved=model.status_.converged,
    )


def rows_of(scene: str, effects: bool, runs: int) -> list[dict]:
    """Return a row for each slope: bias, spread, standard error and coverage over data sets."""
    begin = time.perf_counter()
    found = common.over_seeds(partial(one_run, scene, effects), runs)
    seconds = (time.perf_counter() - begin) / runs
    error, se, covers = (
        np.array([getattr(run, key) for run in found]) for key in ("error", "se", "covers")
    )
    rmse, known = np.sqrt((error**2).mean(axis=0)), PROTOTYPE.get((scene, effects))
    return [
        {
            "scene": scene,
            "effects": EFFECT_SD * effects,
            "slope": name,
            "runs": runs,
            "bias": float(error[:, j].mean()),
            "sd": float(error[:, j].std(ddof=1)),
            "rmse": float(rmse[j]),
            "prototype": known[j] if known else "",
            "mean_se": float(se[:, j].mean()),
            "covered": float(covers[:, j].mean()),
            "covered_all": float(covers.mean()),
            "effects_found": float(np.mean([r.block_sd for r in found])),
            "not_solved": sum(not r.solved for r in found),
            "seconds": seconds,
        }
        for j, name in enumerate(NAMES)
    ]


def main() -> None:
    threadpool_limits(limits=1)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=None, help=f"full: {FULL}, or {FULL_MAIN}")
    parser.add_argument("--only", default="", help="scenes with this in their names")
    args = parser.parse_args()
    rows = []
    for scene in SCENES:
        if args.only in scene:
            known = (scene, True) in PROTOTYPE
            runs = args.runs or (FULL_MAIN if known else FULL)
            for effects in (False, True):
                rows += rows_of(scene, effects, runs)
                covered = " ".join(f"{row['covered']:.3f}" for row in rows[-3:])
                print(f"{scene}, effects {rows[-1]['effects']}: {covered}", flush=True)
    common.report("several_tables_coverage", rows, store=not (args.runs or args.only))


if __name__ == "__main__":
    main()
