"""Held-out blocks choose a family that can be overdispersed for doctor visits, not poisson.

    python experiments/randhie.py

Outpatient visits to a doctor (mdvis) and nine features of the RAND Health Insurance Experiment, as
shipped with statsmodels. The file names no site, so blocks are 25 rows that follow each other in
the file, which keeps the years of a person and the members of a family together, or 25 rows at
random. Three bins at the pooled thirds, ridge chosen on held-out blocks. Five folds of rows,
histograms from the training rows. The figure is the mean squared error of the visits held out, over
that of the poisson GLM fitted to individual visits.
"""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import KFold
from statsmodels.datasets import randhie

import common
import unbin

SIZE, BINS = 25, 3
FAMILIES = ("poisson", "negative-binomial", "ordinal", "auto")


def load() -> tuple[np.ndarray, np.ndarray]:
    """Return features and visits."""
    people = randhie.load_pandas().data
    return people.drop(columns="mdvis").to_numpy(float), people["mdvis"].to_numpy(float)


def blocks_of(kind: str, n: int) -> np.ndarray:
    """Return the block of each row."""
    codes = np.arange(n) // SIZE
    if kind == "random":
        codes = np.random.default_rng(0).permutation(codes)
    return common.block_names(codes)


def selection_rows(kind: str, model: unbin.AggregatedGLM) -> list[dict]:
    """Return the held-out scores, the error of their difference to the best, and the choice."""
    table = model.selection_
    return [
        {
            "blocks": kind,
            "family": table.family[k],
            "score": float(table.score[k]),
            "error": float(table.error[k]),
            "chosen": k == table.chosen,
        }
        for k in range(len(table.family))
    ]


def compare(X, y, blocks, family: str, folds: int) -> tuple[float, str]:
    """Return the test error over the oracle's, and the families fitted."""
    ours, oracle, fitted = [], [], set()
    for train, test in list(KFold(5, shuffle=True, random_state=0).split(X))[:folds]:
        target = X[train], y[train], blocks[train]
        model = common.fit_release(*target, BINS, family, alpha="held-out")
        ours.append(common.mse(model, X[test], y[test]))
        fitted.add(model.family_)
        observed = unbin.AggregatedGLM("poisson").fit(X[train], y[train])
        oracle.append(common.mse(observed, X[test], y[test]))
    return float(np.mean(ours) / np.mean(oracle)), " ".join(sorted(fitted))


def main() -> None:
    folds = common.runs_from_command_line(__doc__, 5)
    X, y = load()
    scores, rows = [], []
    for kind in ("file order", "random"):
        blocks = blocks_of(kind, len(y))
        scores += selection_rows(kind, common.fit_release(X, y, blocks, BINS, "auto"))
        for family in FAMILIES:
            error, fitted = compare(X, y, blocks, family, folds)
            rows.append({"blocks": kind, "asked": family, "fitted": fitted, "folds": folds})
            rows[-1]["over_oracle"] = error
    print("held-out log score per person, without a ridge")
    common.report("randhie_selection", scores, store=folds >= 5)
    print("\ntest error over that of the poisson GLM fitted to individual visits")
    common.report("randhie", rows, store=folds >= 5)


if __name__ == "__main__":
    main()
