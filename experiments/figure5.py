"""Figure 5 of the paper: hospital charges, errors against the number of bins.

    UNBIN_DATA=folder python experiments/figure5.py

New York inpatients (SPARCS 2020, musculoskeletal) stand in for the paper's Texas file, which is
under a use agreement. Features as in the paper: log length of stay, sex, race (three dummies).
Charges as

- log charges, Poisson by matching: the paper taken literally;
- charges in units of $1,000, rounded, Poisson by matching and likelihood (up to 10 bins, for time);
- log charges, Gaussian by matching and likelihood, ordinal by likelihood.

The table is published once for everybody, as in the paper, or by county of the hospital. Five folds
of people, tables from the training people, edges at their pooled quantiles. Errors are mean Bregman
divergences (half squared errors for Gaussian and ordinal); the floor is the GLM of the same family
that sees all charges.

The claim: the error falls as the histogram becomes finer, and approaches the floor's. `--runs` is
the number of folds.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

import common
import real
import sparcs

MATCHING = (("poisson", "matching"),)
POISSON = (("poisson", "matching"), ("poisson", "likelihood"))
LOG = (("gaussian", "matching"), ("gaussian", "likelihood"), ("ordinal", "likelihood"))
BINS = (2, 5, 10, 25, 100)
LEVELS = {name: sparcs.LEVELS[name] for name in ("Gender", "Race")}


def studies(folder: str, quick: bool) -> list[real.Study]:
    X, log, county = sparcs.load(folder, LEVELS)
    bins = BINS
    if quick:
        rows = np.arange(0, len(log), 12)
        X, log, county, bins = X[rows], log[rows], county[rows], (5,)
    thousands = np.round(np.exp(log) / 1000)
    return [
        real.Study("log charges, Poisson", X, log, county, MATCHING, bins),
        real.Study("charges in $1,000", X, thousands, county, POISSON, bins[:3]),
        real.Study("log charges", X, log, county, LOG, bins),
    ]


def run(runs: int, quick: bool) -> common.Result:
    folder = common.data_folder()
    if folder is None:
        raise SystemExit(0)
    rows = [row for each in studies(folder, quick) for row in real.errors(each, runs)]
    return rows, []


def draw(rows: list[dict], shown: list[dict]) -> dict[str, Figure]:  # noqa: ARG001
    return real.draw(rows, "figure5", 2)


if __name__ == "__main__":
    common.draw_and_store("figure5", __doc__, run, draw, 5)
