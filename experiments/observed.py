"""Slopes from people whose outcome is known, alone and beside tables.

    python experiments/observed.py
    python experiments/observed.py --runs 20 --only poisson      a part; stores nothing

The people of several_tables_coverage.py: 60 counties of 60, slopes of age, sex and income, five
bins. Of 0, 50, 200 or 1,000 people drawn at random the outcome is known: alone (the ordinary GLM),
beside the table by county, and beside tables by county, by 12 age groups and by sex. "effects":
every county has a normal effect of standard deviation .3 on the linear predictor, of which the fit
is not told; the ordinary GLM does not allow for it, and its intervals are not expected to hold.

Who is known: "included", people that the tables count too; "another time", outcomes of theirs that
no table counts (``disjoint``); "outside", further people of other counties, of whom there is no
table.

"worse" is the mean squared error of the joint fit less that of the better of its parts, the known
people and the tables, both of the same data sets, in standard errors of that difference.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

import common
import several_tables_coverage as several
import unbin
from unbin.exceptions import AlignmentWarning

FULL, FULL_OTHERS = 300, 100
"""Data sets of a scene: gaussian, and other families."""
KNOWN = (0, 50, 200, 1000)
BESIDE = ("nothing", "county", "three tables")
PARTS = {"nothing": (), "county": ("county",), "three tables": ("county", "age", "sex")}
EDGES = several.EDGES | {"gamma": [0, 0.5, 1.0, 1.7, 3.0, several.INF]}
SHAPE = 2.0


@dataclass(frozen=True)
class Scene:
    """A family, whether counties have effects, and who is known."""

    family: str = "gaussian"
    effects: bool = False
    who: str = "included"

    @property
    def name(self) -> str:
        """What is particular about it."""
        what = [self.family, *(["effects"] if self.effects else []), self.who]
        return ", ".join(what)


WHO = ("included", "another time", "outside")
FAMILIES = ("poisson", "binomial", "ordinal", "gamma")
SCENES = (
    *(Scene("gaussian", effects, who) for who in WHO for effects in (False, True)),
    *(Scene(family, effects) for family in FAMILIES for effects in (False, True)),
)


@dataclass(frozen=True)
class People:
    """One data set.

    ``asked`` are rows in the order in which they become known, and ``told`` what they said.
    """

    X: np.ndarray
    ids: dict[str, np.ndarray]
    releases: dict[str, unbin.Release]
    asked: np.ndarray
    told: np.ndarray


def people(scene: Scene, seed: int) -> People:
    """Draw a data set."""
    rng = np.random.default_rng((SCENES.index(scene), seed, 16))
    tabulated, size = several.N_COUNTIES, several.SIZE
    more = max(KNOWN) if scene.who == "outside" else 0  # people, each of a county of his own
    counties = tabulated + more
    county = np.repeat(np.arange(counties), np.repeat([size, 1], [tabulated, more]))
    n, place = len(county), rng.normal(size=(3, counties))[:, county]
    age = 0.12 * place[0] + np.sqrt(1 - 0.12**2) * rng.normal(size=n)
    sex = (rng.random(n) < 0.5 + 0.035 * place[1]).astype(float)
    income = 0.65 * place[2] + 0.75 * rng.normal(size=n)
    X = np.column_stack([age, sex, income])
    eta = X @ several.SLOPES
    eta = eta + several.EFFECT_SD * scene.effects * rng.normal(size=counties)[county]
    y = draw(scene.family, eta, rng)
    groups = np.clip(np.floor(2 * age + 6), 0, 11).astype(int)
    codes = {"county": county, "age": groups, "sex": sex.astype(int)}
    ids = {name: common.block_names(part) for name, part in codes.items()}
    inside = county < tabulated
    bins = EDGES[scene.family]
    releases = {k: unbin.aggregate(y[inside], part[inside], bins) for k, part in ids.items()}
    asked = rng.permutation(inside.sum())[: max(KNOWN)]
    told = draw(scene.family, eta, rng) if scene.who == "another time" else y
    if scene.who == "outside":
        asked = np.flatnonzero(~inside)
        ids = {name: np.where(inside, part.astype(object), None) for name, part in ids.items()}
    return People(X, ids, releases, asked, told[asked])


def draw(family: str, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return outcomes with this linear predictor."""
    if family == "gamma":
        return rng.gamma(SHAPE, np.exp(eta) / SHAPE)
    return np.asarray(several.draw(family, eta, rng), dtype=float)


# -- what is found ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """What one data set gave: (3,) errors, standard errors and whether intervals hold the truth."""

    error: np.ndarray
    se: np.ndarray
    covers: np.ndarray
    ratio: float
    block_sd: float
    solved: bool


def fit(scene: Scene, data: People, n_known: int, beside: str) -> Run:
    """Fit the model to the first people who are known and the tables beside them."""
    rows, outside = data.asked[:n_known], scene.who == "outside"
    keep = np.ones(len(data.X), dtype=bool)
    if outside:
        keep[data.asked[n_known:]] = False
    y = np.full(len(data.X), np.nan)
    y[rows] = data.told[:n_known]
    how = {"on_missing": "drop"} if outside and n_known else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)  # that people are outside is meant
        target = [data.releases[name].align(data.ids[name][keep], **how) for name in PARTS[beside]]
    if n_known and (beside != "nothing" or scene.family != "ordinal"):
        target.append(unbin.observed(y[keep], disjoint=scene.who != "included"))
        model = common.fit_quietly(data.X[keep], unbin.join(*target), scene.family)
    elif n_known:  # of an ordinal outcome alone a table of each person says all
        own = common.block_names(np.arange(n_known))
        table = unbin.aggregate(data.told[:n_known], own, EDGES["ordinal"]).align(own)
        model = common.fit_quietly(data.X[rows], table, "ordinal")
    else:
        model = common.fit_quietly(data.X[keep], unbin.join(*target), scene.family)
    low, high = model.conf_int().T
    tables = beside != "nothing"
    return Run(
        error=common.estimates(model) - several.SLOPES,
        se=model.standard_errors_,
        covers=(low < several.SLOPES) & (high > several.SLOPES),
        ratio=model.diagnostics_.goodness_of_fit.ratio if tables else np.nan,
        block_sd=float(model.block_sd_) if tables else np.nan,
        solved=model.status_.converged,
    )


Cell = tuple[str, int]


def one_run(scene: Scene, seed: int, known: tuple[int, ...] = KNOWN) -> dict[Cell, Run]:
    """Draw people, and fit the model to each selection of what is known of them."""
    data = people(scene, seed)
    cells = [(beside, n) for beside in BESIDE for n in known if n or PARTS[beside]]
    return {(beside, n): fit(scene, data, n, beside) for beside, n in cells}


def rows_of(scene: Scene, runs: int, known: tuple[int, ...] = KNOWN) -> list[dict]:
    """Return a row for each selection and slope: errors, standard errors, coverage."""
    begin = time.perf_counter()
    found = common.over_seeds(partial(one_run, scene, known=known), runs)
    seconds = (time.perf_counter() - begin) / runs
    rows = []
    for beside, n in found[0]:
        own = [run[beside, n] for run in found]
        error, se, covers = (
            np.array([getattr(run, key) for run in own]) for key in ("error", "se", "covers")
        )
        parts = [("nothing", n), (beside, 0)] if n and PARTS[beside] else []
        rows += [
            {
                "scene": scene.name,
                "beside": beside,
                "known": n,
                "slope": name,
                "runs": runs,
                "bias": float(error[:, j].mean()),
                "rmse": float(np.sqrt((error[:, j] ** 2).mean())),
                "mean_se": float(se[:, j].mean()),
                "covered": float(covers[:, j].mean()),
                "worse": worse(error[:, j], [_errors(found, part, j) for part in parts]),
                "misfit_ratio": float(np.mean([run.ratio for run in own])),
                "effects_found": float(np.mean([run.block_sd for run in own])),
                "not_solved": sum(not run.solved for run in own),
                "seconds": seconds,
            }
            for j, name in enumerate(several.NAMES)
        ]
    return rows


def _errors(found: list[dict[Cell, Run]], cell: Cell, j: int) -> np.ndarray:
    return np.array([run[cell].error[j] for run in found])


def worse(error: np.ndarray, parts: list[np.ndarray]) -> float | str:
    """Return how much larger squared errors are than those of the better part, in its error."""
    if not parts:
        return ""
    best = min(parts, key=lambda part: float((part**2).mean()))
    more = error**2 - best**2
    return float(more.mean() / (more.std(ddof=1) / np.sqrt(len(more))))


def main() -> None:
    threadpool_limits(limits=1)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=None, help=f"full: {FULL}, or {FULL_OTHERS}")
    parser.add_argument("--only", default="", help="scenes with this in their names")
    args = parser.parse_args()
    rows = []
    for scene in SCENES:
        if args.only in scene.name:
            runs = args.runs or (FULL if scene.family == "gaussian" else FULL_OTHERS)
            rows += rows_of(scene, runs)
            print(f"{scene.name}: {rows[-1]['seconds']:.2f} s a data set", flush=True)
    common.report("observed", rows, store=not (args.runs or args.only))


if __name__ == "__main__":
    main()
