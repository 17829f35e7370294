"""Rows that stand for many people beside the people themselves, in one run and on one thread.

    python benchmarks/weights.py               8,800,000 people (a minute)
    python benchmarks/weights.py --quick       880,000

Voters of 67 counties, whose sex and age group are published: 8 different rows of each county. They
are fitted as these rows with their number of people as weights; as a row per voter, which the fit
merges by itself; and as a row per voter, each of them summed over. All three must agree.
"""

from __future__ import annotations

import warnings
from unittest.mock import patch

import numpy as np

import unbin
from timing import arguments, best_of, size_of  # it keeps to one thread

PEOPLE_PER_ROW = 8_800_000 / 1_000_000
N_COUNTIES, N_SEXES, N_AGES = 67, 2, 4
LIMIT, SAME = 1.0, 1e-10

warnings.simplefilter("ignore")


def draw(n: int, family: str) -> tuple[np.ndarray, ...]:
    """Return the different rows, how many people each stands for, and everybody's outcome."""
    rng = np.random.default_rng(0)
    n_cells = N_COUNTIES * N_SEXES * N_AGES
    share = rng.dirichlet(np.full(n_cells, 3.0))
    people = 1 + rng.multinomial(n - n_cells, share)
    county, sex, age = np.unravel_index(np.arange(n_cells), (N_COUNTIES, N_SEXES, N_AGES))
    X = np.column_stack([sex, *(age == k for k in range(1, N_AGES))]).astype(float)
    eta = (-0.4 + X @ [0.3, 0.2, 0.4, -0.2])[np.repeat(np.arange(n_cells), people)]
    if family == "binomial":
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    else:
        y = eta + rng.normal(size=n)
    return X, county, people, y


def compare(n: int, family: str) -> None:
    X, county, people, y = draw(n, family)
    everybody = np.repeat(np.arange(len(X)), people)
    bins = [-0.5, 0.5, 1.5] if family == "binomial" else 5
    table = unbin.aggregate(y, county[everybody], bins)
    all_X, by_person = X[everybody], table.align(county[everybody])
    by_row = table.align(county, weights=people)
    models = [unbin.AggregatedGLM(family, n_jobs=1) for _ in range(3)]
    models[0].fit(X, by_row)
    seconds = [
        best_of(lambda: models[0].fit(X, by_row))[0],
        best_of(lambda: models[1].fit(all_X, by_person))[0],
    ]
    with patch("unbin.fitting.methods.merge_rows", lambda design: design):
        seconds.append(best_of(lambda: models[2].fit(all_X, by_person), repeats=1)[0])
    apart = [np.abs(model.coef_ - models[0].coef_).max() for model in models[1:]]
    verdict = "same" if max(apart) < SAME and seconds[0] < LIMIT else "MISSED"
    print(
        f"{family:>9} {seconds[0]:>9.3f} {seconds[1]:>9.2f} {seconds[2]:>9.2f}  "
        f"{apart[0]:.0e}, {apart[1]:.0e}  {verdict}",
        flush=True,
    )


def main() -> None:
    n = int(PEOPLE_PER_ROW * size_of(arguments(__doc__).parse_args()))
    print(f"\n{n:,} people in {N_COUNTIES * N_SEXES * N_AGES} different rows (limit of the first "
          f"{LIMIT:g} s, of differences {SAME:g})")  # fmt: skip
    print(f"{'':>9} {'weighted':>9} {'merged':>9} {'everybody':>9}  coefficients apart")
    for family in ("binomial", "gaussian", "ordinal"):
        compare(n, family)


if __name__ == "__main__":
    main()
