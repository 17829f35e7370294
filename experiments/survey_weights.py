"""Rows that are a sample of the people a table counts: slopes, and whether 95 % intervals hold.

    python experiments/survey_weights.py
    python experiments/survey_weights.py --runs 20 --only poisson      a part; stores nothing

60 counties of 1,000 people, unless said otherwise. The rows are 50 of them, whose weights w are the
inverse of the probability of being drawn: 1/20 for everybody, or proportional to exp(x / 2), x the
first feature ("unequal"), which the outcome depends on. x is normal with standard deviation 1
between counties and 1 within, z is 0 or 1 with shares between .3 and .7. The table by county has
five bins (two for an outcome of two values). "several": beside it tables by z and by 12 groups of
x. "effects": every county has a normal effect of standard deviation .3 on the linear predictor.

The same sample is fitted as a survey, and with its weights taken for frequencies, which have to be
raked to the people of every table first; "everybody" is the fit to all people, the sample's limit.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit
from threadpoolctl import threadpool_limits

import common
import unbin
from unbin.exceptions import AlignmentWarning

FULL = 200
"""Data sets of a scene."""
SIZE, SHARE = 1000, 20
"""People of a county, and how many of them a person of the sample stands for on average."""
NAMES = ("x", "z")
SLOPES = np.array([0.5, -0.4])
EFFECT_SD = 0.3
FITS = ("survey", "frequency", "everybody")
INF = float("inf")
EDGES = {
    "gaussian": [-INF, -1.0, -0.2, 0.5, 1.3, INF],
    "poisson": [-1, 0, 1, 2, 4, INF],
    "binomial": [-1, 0, 1],
    "ordinal": [-INF, 0.5, 1.5, 2.5, 3.5, INF],
}


@dataclass(frozen=True)
class Scene:
    """How people, tables and the sample are made."""

    family: str = "gaussian"
    several: bool = False
    unequal: bool = False
    effects: bool = False
    n_counties: int = 60

    @property
    def name(self) -> str:
        """What is particular about it."""
        what = [self.family]
        what += ["several"] if self.several else []
        what += ["unequal"] if self.unequal else []
        what += ["effects"] if self.effects else []
        what += [f"{self.n_counties} counties"] if self.n_counties != 60 else []
        return ", ".join(what)


SCENES = (
    *(Scene(s, t, u) for s in EDGES for t in (False, True) for u in (False, True)),
    *(Scene("gaussian", t, u, True) for t in (False, True) for u in (False, True)),
    *(Scene(s, True, True, True) for s in EDGES if s != "gaussian"),
    *(Scene("gaussian", t, False, e, 30) for t in (False, True) for e in (False, True)),
    Scene("gaussian", False, False, False, 100),
)


@dataclass(frozen=True)
class People:
    """Everybody: features, outcomes and partitions, and who was drawn with which weight."""

    X: np.ndarray
    y: np.ndarray
    partitions: tuple[np.ndarray, ...]
    rows: np.ndarray
    weight: np.ndarray


def people(scene: Scene, seed: int) -> People:
    """Draw a data set, and a sample of it."""
    # people of their own for every scene: what one draw does by chance does not show in all
    rng = np.random.default_rng((SCENES.index(scene), seed))
    b = scene.n_counties
    county = np.repeat(np.arange(b), SIZE)
    n = len(county)
    x = rng.normal(size=b)[county] + rng.normal(size=n)
    z = (rng.random(n) < rng.uniform(0.3, 0.7, b)[county]).astype(float)
    X = np.column_stack([x, z])
    effect = EFFECT_SD * scene.effects * rng.normal(size=b)[county]
    y = draw(scene.family, X @ SLOPES + effect, rng)
    rows, weight = sample(county, x if scene.unequal else np.zeros(n), rng)
    partitions = [county]
    if scene.several:
        partitions += [z.astype(int), np.clip(np.floor(2 * x + 6), 0, 11).astype(int)]
    return People(X, y, tuple(map(common.block_names, partitions)), rows, weight)


def draw(family: str, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return outcomes with this linear predictor."""
    if family == "gaussian":
        return eta + rng.normal(size=len(eta))
    if family == "poisson":
        return rng.poisson(np.exp(eta))
    if family == "binomial":
        return rng.binomial(1, expit(eta))
    return np.searchsorted([-1.2, -0.2, 0.6, 1.6], eta + rng.logistic(size=len(eta)))


def sample(
    county: np.ndarray, x: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw 50 of each county, with probabilities proportional to exp(x / 2), systematically."""
    rows, weights = [], []
    for b in range(county.max() + 1):
        own = rng.permutation(np.flatnonzero(county == b))
        chance = np.exp(x[own] / 2)
        chance *= SIZE / SHARE / chance.sum()
        assert chance.max() < 1
        ends = np.floor(np.cumsum(chance) + rng.random())
        drawn = np.diff(ends, prepend=0.0) > 0
        rows.append(own[drawn])
        weights.append(1 / chance[drawn])
    return np.concatenate(rows), np.concatenate(weights)


def raked(partitions: list[np.ndarray], size: list[dict], weight: np.ndarray) -> np.ndarray:
    """Return weights that add up to the people of every block of every partition."""
    weight = weight.copy()
    codes = [np.unique(part, return_inverse=True) for part in partitions]
    wanted = [np.array([n[k] for k in names]) for (names, _), n in zip(codes, size, strict=True)]
    for _ in range(200):
        for (_, code), n in zip(codes, wanted, strict=True):
            weight *= (n / np.bincount(code, weight))[code]
    return weight


# -- what is found ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """What one data set gave: (2,) errors, standard errors and whether intervals hold the truth."""

    error: np.ndarray
    se: np.ndarray
    covers: np.ndarray
    block_sd: float
    solved: bool


def one_run(scene: Scene, how: str, seed: int) -> Run:
    """Draw people, publish their tables, and fit the model to a sample of them or to all."""
    who = people(scene, seed)
    releases = [unbin.aggregate(who.y, part, EDGES[scene.family]) for part in who.partitions]
    if how == "everybody":
        X, ids, extra = who.X, who.partitions, {}
    else:
        X, ids = who.X[who.rows], [part[who.rows] for part in who.partitions]
        weight = who.weight
        if how == "frequency":
            sizes = [dict(zip(r.blocks.tolist(), r.n.tolist(), strict=True)) for r in releases]
            weight = raked(list(ids), sizes, weight)
        extra = {"weights": weight, "weighting": how}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)  # few people of an end of x may be drawn
        tables = [release.align(own, **extra) for release, own in zip(releases, ids, strict=True)]
    target = unbin.join(*tables) if len(tables) > 1 else tables[0]
    model = common.fit_quietly(X, target, scene.family)
    low, high = model.conf_int().T
    return Run(
        error=common.estimates(model) - SLOPES,
        se=model.standard_errors_,
        covers=(low < SLOPES) & (high > SLOPES),
        block_sd=float(model.block_sd_),
        solved=model.status_.converged,
    )


def rows_of(scene: Scene, how: str, runs: int) -> list[dict]:
    """Return a row for each slope: bias, spread, standard error and coverage over data sets."""
    begin = time.perf_counter()
    found = common.over_seeds(partial(one_run, scene, how), runs)
    seconds = (time.perf_counter() - begin) / runs
    error, se, covers = (
        np.array([getattr(run, key) for run in found]) for key in ("error", "se", "covers")
    )
    return [
        {
            "scene": scene.name,
            "fit": how,
            "slope": name,
            "runs": runs,
            "bias": float(error[:, j].mean()),
            "rmse": float(np.sqrt((error[:, j] ** 2).mean())),
            "mean_se": float(se[:, j].mean()),
            "covered": float(covers[:, j].mean()),
            "effects_found": float(np.mean([run.block_sd for run in found])),
            "not_solved": sum(not run.solved for run in found),
            "seconds": seconds,
        }
        for j, name in enumerate(NAMES)
    ]


def main() -> None:
    threadpool_limits(limits=1)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=None, help=f"full number: {FULL}")
    parser.add_argument("--only", default="", help="scenes with this in their names")
    parser.add_argument("--fit", choices=FITS, default=None, help="only this one")
    args = parser.parse_args()
    rows = []
    for scene in SCENES:
        if args.only in scene.name:
            for how in FITS if args.fit is None else (args.fit,):
                rows += rows_of(scene, how, args.runs or FULL)
                covered = " ".join(f"{row['covered']:.3f}" for row in rows[-2:])
                print(f"{scene.name}, {how}: {covered}", flush=True)
    common.report("survey_weights", rows, store=not (args.runs or args.only or args.fit))


if __name__ == "__main__":
    main()
