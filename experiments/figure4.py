"""Figure 4 of the paper: Medicare amounts (DE-SynPUF 2008), errors against the number of bins.

    UNBIN_DATA=folder python experiments/figure4.py

The living, 22 features. Targets on the log scale: PPPYMT_OP, the paper's, for everybody (log of
1 + amount: 98 % are zero) and for those with an amount; MEDREIMB_OP and MEDREIMB_CAR for those with
an amount. One state (California) and all; the table published once for everybody, as in the paper,
or by county. Gaussian matching is the paper's estimator; Gaussian and ordinal likelihood are ours.
Five folds of people, tables from the training people, edges at their pooled quantiles. Errors are
half the mean squared errors of log amounts; the floor is the Gaussian GLM that sees all amounts.

The claim: the error falls as the histogram becomes finer, and approaches the floor's. `--runs` is
the number of folds.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

import common
import real
from unbin.datasets import Dataset, load_synpuf
from unbin.datasets.synpuf import states

CALIFORNIA = 5
MODELS = (("gaussian", "matching"), ("gaussian", "likelihood"), ("ordinal", "likelihood"))
FEW, MANY = (5, 10), (2, 5, 10, 25, 100)


def study(name: str, people: Dataset, target: str, *, zeros: bool = False, **settings):
    """Return the study of one target: its log where it is positive, or that of 1 + it."""
    y = people.target(target)
    rows = y >= 0 if zeros else y > 0
    log = np.log1p(y[rows]) if zeros else np.log(y[rows])
    return real.Study(
        name, people.X[rows], log, people.blocks[rows], **{"models": MODELS, **settings}
    )


def studies(folder: str, quick: bool) -> list[real.Study]:
    people = load_synpuf(folder)
    if quick:
        people = people.take(np.arange(0, len(people), 8))
    california = people.take(states(people) == CALIFORNIA)
    bins = FEW[:1] if quick else MANY
    some = [
        study("California, PPPYMT_OP with zeros", california, "PPPYMT_OP", zeros=True, bins=bins),
        study("California, MEDREIMB_OP", california, "MEDREIMB_OP", bins=bins),
        study("California, MEDREIMB_CAR", california, "MEDREIMB_CAR", bins=bins),
        study("all, PPPYMT_OP above zero", people, "PPPYMT_OP", bins=bins, per_block=(False,)),
    ]
    if quick:
        return some
    return [
        *some,
        study("all, PPPYMT_OP with zeros", people, "PPPYMT_OP", zeros=True, bins=(5, 100)),
        study("all, MEDREIMB_OP", people, "MEDREIMB_OP", bins=FEW, per_block=(True,)),
        study("all, MEDREIMB_CAR", people, "MEDREIMB_CAR", bins=MANY),
    ]


def run(runs: int, quick: bool) -> common.Result:
    folder = common.data_folder()
    if folder is None:
        raise SystemExit(0)
    rows = [row for each in studies(folder, quick) for row in real.errors(each, runs)]
    return rows, []


def draw(rows: list[dict], shown: list[dict]) -> dict[str, Figure]:  # noqa: ARG001
    return real.draw(rows, "figure4")


if __name__ == "__main__":
    common.draw_and_store("figure4", __doc__, run, draw, 5)
