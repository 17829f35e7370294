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

import numpy as np
from sklearn.model_selection import KFold

import common
import unbin
from unbin.datasets import Dataset, load_synpuf
from unbin.datasets.synpuf import states

CALIFORNIA = 5
CASES = (  # name, state, bins, folds at most, settings; choosing a family is slow: one fold
    ("all states", None, 5, 5, {"family": "ordinal"}),
    ("all states", None, 10, 5, {"family": "ordinal"}),
    ("all states", None, 5, 1, {"family": "auto"}),
    ("all states", None, 10, 1, {"family": "auto"}),
    ("California", CALIFORNIA, 10, 5, {"family": "ordinal", "alpha": "held-out"}),
    ("California", CALIFORNIA, 10, 5, {"family": "ordinal"}),
)


def load(folder: str) -> Dataset:
    """Return the living with a positive amount."""
    people = load_synpuf(folder)
    return people.take(people.target("MEDREIMB_CAR") > 0)


def only(people: Dataset, *codes: int) -> Dataset:
    """Return the people of some states."""
    return people.take(np.isin(states(people), codes))


def compare(people: Dataset, bins: int, folds: int, **settings) -> dict:
    """Return the error over the oracle's, on average over folds, what was chosen, and the time."""
    X, y, county = people.X, np.log(people.target("MEDREIMB_CAR")), people.blocks
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
        which = people if state is None else only(people, state)
        row = {"who": name, "bins": bins, "asked": settings["family"]}
        row |= {"alpha": settings.get("alpha", 0.0), "folds": min(folds, most)}
        rows.append(row | compare(which, bins, min(folds, most), **settings))
    common.report("synpuf", rows, store=folds >= 5)


if __name__ == "__main__":
    main()
