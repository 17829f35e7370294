"""Tables that nest, cross and are of different kinds: slopes, their intervals, and what is trusted.

    python experiments/nested_tables.py
    python experiments/nested_tables.py --runs 10                 stores nothing
    python experiments/nested_tables.py --runs 10 --only nested   a scene

What a scene publishes is named by its partitions, "country + country × gender". "effects" is the
standard deviation of the effects of countries or counties, of which the fit is not told.

``nested``: 20 countries of 100 people, histograms by country, by country and gender, and by country
and quarter of x; slopes of x, gender and another feature. ``pupils``: as PISA's, 41 countries of
100, OECD's levels; slopes of status, gender and books. ``crossing``: the people of
several_tables_coverage.py, by county, age group and sex. ``medians``: by county, and by sex beside
them. ``deciles``: of counts by county, and a histogram by sex beside them. ``context``: 20 counties
of 40 people and four features whose block means have no effects of their own; the share of tests
that find some at 5 %.

"prototype" is the RMSE that dense matrices of one stacked covariance gave: for the people of
``nested`` themselves, for others drawn in the same way in ``crossing``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

import common
import several_tables_coverage as crossing_tables
import unbin
from unbin.exceptions import FitError

INF = float("inf")
LEVELS = [-INF, 357.77, 420.07, 482.38, 544.68, 606.99, 669.30, INF]
"""OECD's levels of mathematics, 2003."""
COUNTS = [-1, 0, 1, 2, 3, 4, 6, INF]
TESTED = 0.05


@dataclass(frozen=True)
class Cell:
    """A scene, the partitions that are published of it, and the effects of its blocks."""

    scene: str
    tables: str
    effects: float


@dataclass(frozen=True)
class Study:
    """One data set: features, their slopes, and what is published."""

    X: np.ndarray
    slopes: np.ndarray
    published: list[unbin.AggregatedTarget]
    family: str = "gaussian"
    contextual: bool = False


@dataclass(frozen=True)
class Run:
    """What one data set gave: errors of slopes, their standard errors, what intervals cover."""

    error: np.ndarray
    se: np.ndarray
    covers: np.ndarray
    trusted: bool
    solved: bool
    context: float


# -- what is drawn and published -------------------------------------------------------------------


def parts(cell: Cell) -> list[str]:
    """Return the partitions of a cell."""
    return cell.tables.split(" + ")


def blocks_of(cell: Cell, ids: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return the blocks of each table; those of crossed partitions are named "a × b"."""
    found = []
    for part in parts(cell):
        codes = np.stack([ids[name] for name in part.split(" × ")], axis=1)
        found.append(common.block_names(np.unique(codes, axis=0, return_inverse=True)[1].ravel()))
    return found


def histograms(cell: Cell, y: np.ndarray, ids: dict[str, np.ndarray], edges) -> list:
    """Return a table of counts for each partition."""
    return [unbin.aggregate(y, own, edges).align(own) for own in blocks_of(cell, ids)]


def nested(cell: Cell, rng: np.random.Generator) -> Study:
    slopes = np.array([0.5, 0.3, -0.4])
    country = np.repeat(np.arange(20), 100)
    n, place = len(country), rng.normal(size=(3, 20))[:, country]
    x = 0.3 * place[0] + rng.normal(size=n)
    gender = rng.integers(0, 2, n)
    other = 0.3 * x + 1.2 * rng.normal(size=n) + 0.4 * place[1]
    X = np.column_stack([x, gender, other])
    y = X @ slopes + cell.effects * place[2] + rng.normal(size=n)
    quarter = np.searchsorted(np.quantile(x, [0.25, 0.5, 0.75]), x)
    ids = {"country": country, "gender": gender, "quarter": quarter}
    edges = [-INF, -1.5, -0.75, 0, 0.75, 1.5, INF]
    return Study(X, slopes, histograms(cell, y, ids, edges))


def pupils(cell: Cell, rng: np.random.Generator) -> Study:
    slopes = np.array([32.0, 11.0, 28.0])
    country = np.repeat(np.arange(41), 100)
    n, place = len(country), rng.normal(size=(2, 41))[:, country]
    status, gender = 0.5 * place[0] + rng.normal(size=n), rng.integers(0, 2, n)
    books = np.digitize(0.5 * status + rng.normal(size=n), [-1.2, -0.5, 0.4, 1.0, 1.7])
    X = np.column_stack([status, gender, books >= 3])
    y = 490 + X @ slopes + cell.effects * place[1] + 75 * rng.normal(size=n)
    rank = np.argsort(np.argsort(status.reshape(41, 100), axis=1), axis=1).ravel()
    ids = {"country": country, "gender": gender, "quarter": rank // 25, "books": books}
    return Study(X, slopes, histograms(cell, y, ids, LEVELS))


def crossing(cell: Cell, rng: np.random.Generator) -> Study:
    who = crossing_tables.people("gaussian", cell.effects, tuple(rng.integers(0, 2**31, 2)))
    return Study(who.X, crossing_tables.SLOPES, crossing_tables.histograms(who, *parts(cell)))


def patients(
    effects: float, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return features of people of 40 counties, x and sex, the effects on them, and their ids."""
    county = np.repeat(np.arange(40), size)
    x = rng.normal(size=len(county)) + 0.7 * rng.normal(size=40)[county]
    share = np.clip(0.5 + 0.15 * rng.normal(size=40), 0.1, 0.9)[county]
    sex = (rng.random(len(county)) < share).astype(int)
    ids = {"county": county, "sex": sex}
    return np.column_stack([x, sex]), effects * rng.normal(size=40)[county], ids


def medians(cell: Cell, rng: np.random.Generator) -> Study:
    slopes = np.array([0.5, -0.25])
    X, shift, ids = patients(cell.effects, 60, rng)
    y = X @ slopes + shift + rng.normal(size=len(X))
    blocks = blocks_of(cell, ids)
    return Study(X, slopes, [common.quantile_release(y, by, [0.5]).align(by) for by in blocks])


def deciles(cell: Cell, rng: np.random.Generator) -> Study:
    slopes = np.array([0.3, -0.25])
    X, shift, ids = patients(cell.effects, 100, rng)
    y = rng.poisson(np.exp(1 + X @ slopes + shift)).astype(float)
    county, *others = blocks_of(cell, ids)
    published = [common.quantile_release(y, county, np.arange(1, 10) / 10).align(county)]
    published += [unbin.aggregate(y, by, COUNTS).align(by) for by in others]
    return Study(X, slopes, published, "poisson")


def context(cell: Cell, rng: np.random.Generator) -> Study:
    slopes = np.array([0.5, -0.3, 0.2, 0.2])
    county = np.repeat(np.arange(20), 40)
    X = rng.normal(size=(len(county), 4)) + 0.5 * rng.normal(size=(20, 4))[county]
    y = X @ slopes + cell.effects * rng.normal(size=20)[county] + rng.normal(size=len(county))
    ids = {"county": county, "age": np.digitize(X[:, 0], [-1, 0, 1])}
    ids |= {"income": np.digitize(X[:, 1], [-1, 0, 1])}
    edges = [-INF, -1.0, -0.3, 0.3, 1.0, INF]
    return Study(X, slopes, histograms(cell, y, ids, edges), contextual=True)


@dataclass(frozen=True)
class Scene:
    """How people are drawn, what their slopes are of, and what is published of them."""

    draw: Callable[[Cell, np.random.Generator], Study]
    features: tuple[str, ...]
    runs: int
    effects: tuple[float, ...]
    tables: tuple[str, ...]


PUPILS = ("country", "country × gender", "country × quarter", "country × books")
SCENES = {
    "nested": Scene(
        nested,
        ("x", "gender", "other"),
        100,
        (0.0, 0.6),
        ("country + country × gender + country × quarter",),
    ),
    "pupils": Scene(
        pupils,
        ("status", "gender", "books"),
        30,
        (47.0,),
        tuple(" + ".join(PUPILS[:k]) for k in (2, 3, 4)),
    ),
    "crossing": Scene(
        crossing, crossing_tables.NAMES, 100, (0.0, 0.3), ("county", "county + age + sex")
    ),
    "medians": Scene(medians, ("x", "sex"), 60, (0.0, 0.3), ("county", "county + sex")),
    "deciles": Scene(deciles, ("x", "sex"), 60, (0.0, 0.3), ("county", "county + sex")),
    "context": Scene(
        context,
        ("age", "income", "third", "fourth"),
        200,
        (0.3,),
        ("county", "county + age", "county + county × age", "county + age + income"),
    ),
}
NESTED = SCENES["nested"].tables[0]
PROTOTYPE = {
    Cell("nested", NESTED, 0.0): (0.032, 0.043, 0.048),
    Cell("nested", NESTED, 0.6): (0.039, 0.047, 0.090),
    Cell("crossing", "county + age + sex", 0.0): (0.021, 0.037, 0.035),
    Cell("crossing", "county + age + sex", 0.3): (0.019, 0.040, 0.066),
}


# -- what is found ---------------------------------------------------------------------------------


def cells_of(name: str) -> list[Cell]:
    """Return the cells of a scene."""
    scene = SCENES[name]
    return [Cell(name, tables, effects) for effects in scene.effects for tables in scene.tables]


def study_of(cell: Cell, seed: int) -> Study:
    """Draw a data set; all tables of a scene are of the same people."""
    return SCENES[cell.scene].draw(
        cell, np.random.default_rng([list(SCENES).index(cell.scene), seed])
    )


def one_run(cell: Cell, seed: int) -> Run | None:
    """Draw people, publish their tables and fit the model; None where the fit raised an error."""
    study = study_of(cell, seed)
    target = unbin.join(*study.published) if len(study.published) > 1 else study.published[0]
    settings = {"contextual": study.contextual, "n_jobs": 1}
    try:
        with np.errstate(all="ignore"):
            model = common.fit_quietly(study.X, target, study.family, **settings)
    except FitError:
        return None
    low, high = model.conf_int().T
    test = model.diagnostics_.context
    return Run(
        error=common.estimates(model) - study.slopes,
        se=model.standard_errors_,
        covers=(low < study.slopes) & (high > study.slopes),
        trusted=model.diagnostics_.trusted,
        solved=model.status_.converged,
        context=float("nan") if test is None else test.p_value,
    )


def rows_of(cell: Cell, all_found: list[Run | None]) -> list[dict]:
    """Return a row for each slope."""
    features = SCENES[cell.scene].features
    found = [run for run in all_found if run is not None] or [_nothing(len(features))]
    error, se, covers = (
        np.array([getattr(run, key) for run in found]) for key in ("error", "se", "covers")
    )
    tested = [run.context for run in found if np.isfinite(run.context)]
    known = PROTOTYPE.get(cell)
    return [
        {
            "scene": cell.scene,
            "tables": cell.tables,
            "effects": cell.effects,
            "slope": name,
            "runs": len(all_found),
            "rmse": float(np.sqrt((error[:, j] ** 2).mean())),
            "prototype": known[j] if known else "",
            "mean_se": float(se[:, j].mean()),
            "largest_se": float(se[:, j].max()),
            "covered": float(covers[:, j].mean()),
            "trusted": float(np.mean([run.trusted for run in found])),
            "context_found": float(np.mean(np.array(tested) < TESTED)) if tested else "",
            "not_solved": sum(not run.solved for run in found),
            "errors": sum(run is None for run in all_found),
        }
        for j, name in enumerate(features)
    ]


def _nothing(d: int) -> Run:
    """Return what stands for fits that all raised an error."""
    nan = np.full(d, np.nan)
    return Run(nan, nan, nan, trusted=False, solved=True, context=float("nan"))


def main() -> None:
    threadpool_limits(limits=1)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    runs = ", ".join(f"{scene.runs} {name}" for name, scene in SCENES.items())
    parser.add_argument("--runs", type=int, default=None, help=f"full: {runs}")
    parser.add_argument("--only", default="", help="scenes with this in their names")
    args = parser.parse_args()
    rows = []
    for name in SCENES:
        if args.only in name:
            cells = cells_of(name)
            found = common.over_cells(one_run, cells, args.runs or SCENES[name].runs)
            for cell, own in zip(cells, found, strict=True):
                rows += rows_of(cell, own)
            print(f"{name}: done", flush=True)
    common.report("nested_tables", rows, store=not (args.runs or args.only))


if __name__ == "__main__":
    main()
