"""Where counties confound the coefficients the fit says so, and predicts no worse than the mean.

    UNBIN_DATA=folder python experiments/sparcs.py

Target: log of the charges of New York inpatients (SPARCS 2020, musculoskeletal), published by
county of the hospital in ten bins. 22 features: age group, sex, race, ethnicity, log length of
stay, surgery, severity, risk of death, payer. Hospitals of a county set their own prices, which no
feature knows. Five folds of people, histograms from the training people. The figure is the mean
squared error of log charges of the people held out, over that of the pooled mean of the training
people.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

import common
import unbin

FILE = "sparcs_ny2020_musculoskeletal.csv.gz"
BINS = 10
LEVELS = {  # dummies; the level left out is the reference
    "age": ("18 to 29", "50 to 69"),
    "Gender": ("F",),
    "Race": ("Black/African American", "Other Race", "Multi-racial"),
    "Ethnicity": ("Spanish/Hispanic", "Unknown"),
    "APR.Medical.Surgical.Description": ("Surgical",),
    "illseveritydesc": ("Moderate", "Major", "Extreme"),
    "deathrisk": ("Moderate", "Major", "Extreme"),
    "Payment.Typology.1": (
        "Medicare", "Private Health Insurance", "Blue Cross/Blue Shield", "Miscellaneous/Other",
        "Managed Care, Unspecified", "Self-Pay",
    ),
}  # fmt: skip
MODELS = (
    {"family": "gaussian", "alpha": 0.0},
    {"family": "gaussian", "alpha": "held-out"},
    {"family": "ordinal", "alpha": "held-out"},
)


def load(folder: str, levels: dict = LEVELS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features (log length of stay and dummies), log charges and counties."""
    people = pd.read_csv(Path(folder) / FILE)
    columns = [np.log(people["los"].clip(lower=1))]
    columns += [people[name] == level for name, each in levels.items() for level in each]
    X = np.column_stack(columns).astype(float)
    return X, np.log(people["Total.Charges"].to_numpy()), people["Hospital.County"].to_numpy(str)


def main() -> None:
    folds = common.runs_from_command_line(__doc__, 5)
    X, y, county = load(os.environ["UNBIN_DATA"])
    rows = []
    for settings in MODELS:
        ours, oracle, pooled, identified, alphas = [], [], [], [], []
        for train, test in list(KFold(5, shuffle=True, random_state=0).split(X))[:folds]:
            model = common.fit_release(X[train], y[train], county[train], BINS, **settings)
            ours.append(common.mse(model, X[test], y[test]))
            identified.append(model.diagnostics_.identified)
            alphas.append(model.alpha_)
            observed = unbin.AggregatedGLM("gaussian").fit(X[train], y[train])
            oracle.append(common.mse(observed, X[test], y[test]))
            pooled.append(np.mean((y[test] - y[train].mean()) ** 2))
        rows.append(
            settings
            | {
                "median_alpha": float(np.median(alphas)),
                "folds": folds,
                "over_pooled_mean": float(np.mean(ours) / np.mean(pooled)),
                "worst_fold": float(np.max(np.array(ours) / np.array(pooled))),
                "oracle_over_pooled_mean": float(np.mean(oracle) / np.mean(pooled)),
                "identified": sum(identified),
            }
        )
        print(f"{settings}, last fold:\n{model.diagnostics_}\n")
    common.report("sparcs", rows, store=folds >= 5)


if __name__ == "__main__":
    main()
