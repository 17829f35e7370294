"""From county histograms nearly as good as from all individual amounts, on Medicare data.

    UNBIN_DATA=folder python experiments/synpuf.py

Target: log of the carrier reimbursement 2008 (MEDREIMB_CAR) of the living with a positive amount,
CMS DE-SynPUF. 22 features: age at the start of 2009, under 65, female, three dummies of race, ESRD,
eleven conditions, months of hospital, medical, HMO and drug coverage. Blocks are counties (state
and county code). Five folds of people; histograms, with edges at the pooled quantiles, come from
the training people of each fold. The figure is the mean squared error of the log amount of the
people held out, over that of the Gaussian GLM fitted to the individual amounts of the training
people; for all states, and for California alone with the ridge chosen on held-out counties.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

import common
import unbin

FILE = "synpuf_2008_beneficiaries.parquet"
CONDITIONS = (
    "ALZHDMTA", "CHF", "CHRNKIDN", "CNCR", "COPD", "DEPRESSN", "DIABETES", "ISCHMCHT", "OSTEOPRS",
    "RA_OA", "STRKETIA",
)  # fmt: skip
MONTHS = (
    "BENE_HI_CVRAGE_TOT_MONS", "BENE_SMI_CVRAGE_TOT_MONS", "BENE_HMO_CVRAGE_TOT_MONS",
    "PLAN_CVRG_MOS_NUM",
)  # fmt: skip
RACES = {"black": 2, "other": 3, "hispanic": 5}
CALIFORNIA = 5
CASES = (  # name, state, bins, folds at most, settings; choosing a family is slow: one fold
    ("all states", None, 5, 5, {"family": "ordinal"}),
    ("all states", None, 10, 5, {"family": "ordinal"}),
    ("all states", None, 5, 1, {"family": "auto"}),
    ("all states", None, 10, 1, {"family": "auto"}),
    ("California", CALIFORNIA, 10, 5, {"family": "ordinal", "alpha": "auto"}),
    ("California", CALIFORNIA, 10, 5, {"family": "ordinal"}),
)


def load(folder: str) -> pd.DataFrame:
    """Return the living with a positive amount."""
    people = pd.read_parquet(Path(folder) / FILE)
    return people[people["BENE_DEATH_DT"].isna() & (people["MEDREIMB_CAR"] > 0)]


def features(people: pd.DataFrame) -> pd.DataFrame:
    """Return the 22 features."""
    born = pd.to_datetime(people["BENE_BIRTH_DT"], format="%Y%m%d")
    age = (pd.Timestamp("2009-01-01") - born).dt.days / 365.25
    columns = {"age": age, "under 65": age < 65, "female": people["BENE_SEX_IDENT_CD"] == 2}
    columns |= {name: people["BENE_RACE_CD"] == code for name, code in RACES.items()}
    columns |= {"ESRD": people["BENE_ESRD_IND"] == "Y"}
    columns |= {name: people[f"SP_{name}"] == 1 for name in CONDITIONS}
    columns |= {name: people[name] for name in MONTHS}
    return pd.DataFrame(columns).astype(float)


def compare(people: pd.DataFrame, bins: int, folds: int, **settings) -> dict:
    """Return the error over the oracle's, on average over folds, what was chosen, and the time."""
    X, y = features(people).to_numpy(), np.log(people["MEDREIMB_CAR"].to_numpy(float))
    county = (people["SP_STATE_CODE"].astype(str) + "-" + people["BENE_COUNTY_CD"]).to_numpy()
    ours, oracle, pooled, chosen, seconds = [], [], [], [], []
    for train, test in list(KFold(5, shuffle=True, random_state=0).split(X))[:folds]:
        begin = time.perf_counter()
        model = common.fit_release(X[train], y[train], county[train], bins, **settings)
        seconds.append(time.perf_counter() - begin)
        chosen.append((model.family_, model.alpha_))
        ours.append(common.mse(model, X[test], y[test]))
        observed = unbin.AggregatedGLM("gaussian").fit(X[train], y[train])
        oracle.append(common.mse(observed, X[test], y[test]))
        pooled.append(np.mean((y[test] - y[train].mean()) ** 2))
    return {
        "people": len(y),
        "counties": len(np.unique(county)),
        "over_oracle": float(np.mean(ours) / np.mean(oracle)),
        "pooled_mean_over_oracle": float(np.mean(pooled) / np.mean(oracle)),
        "families": " ".join(sorted({family for family, _ in chosen})),
        "median_alpha": float(np.median([alpha for _, alpha in chosen])),
        "seconds_per_fit": float(np.mean(seconds)),
    }


def main() -> None:
    folds = common.runs_from_command_line(__doc__, 5)
    people = load(os.environ["UNBIN_DATA"])
    rows = []
    for name, state, bins, most, settings in CASES:
        which = people if state is None else people[people["SP_STATE_CODE"] == state]
        row = {"who": name, "bins": bins, "asked": settings["family"]}
        row |= {"alpha": settings.get("alpha", 0.0), "folds": min(folds, most)}
        rows.append(row | compare(which, bins, min(folds, most), **settings))
    common.report("synpuf", rows, store=folds >= 5)


if __name__ == "__main__":
    main()
