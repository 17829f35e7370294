"""The files of docs/start: simulated households of Arkansas, their incomes in the ACS layout."""

import csv
import itertools

import numpy as np
import pandas as pd

EDGES = [10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 75, 100, 125, 150, 200]  # thousand dollars
N_COUNTIES = 75


def households():
    """Return 9,000 households: county, schooling and age of the householder, tenure, income."""
    rng = np.random.default_rng(22)
    place = np.repeat(np.arange(N_COUNTIES), rng.multinomial(9000, np.full(N_COUNTIES, 1 / 75)))
    schooling = rng.normal(13, 2.5, 9000) + rng.normal(0, 0.8, N_COUNTIES)[place]
    age = rng.uniform(22, 85, 9000) + rng.normal(0, 3, N_COUNTIES)[place]
    rent = rng.random(9000) < rng.uniform(0.15, 0.55, N_COUNTIES)[place]
    eta = 9.7 + 0.1 * schooling - 0.008 * age - 0.4 * rent
    return pd.DataFrame(
        {
            "county": [f"05{2 * c + 1:03d}" for c in place],
            "schooling": schooling.round().clip(0, 22).astype(int),
            "age": age.round().astype(int),
            "tenure": np.where(rent, "rent", "own"),
            "income": np.exp(eta + rng.normal(0, 0.6, 9000)).round(-1),
        }
    )


def write_files(folder):
    """Write households.csv, without incomes, and table B19001 as data.census.gov gives it."""
    people = households()
    people.drop(columns="income").to_csv(folder / "households.csv", index=False)
    labels = [f"${a},000 to ${b - 1},999" for a, b in itertools.pairwise(EDGES)]
    labels = ["Less than $10,000", *labels, "$200,000 or more"]
    codes = [f"B19001_{k:03d}" for k in range(1, 18)]
    names = ["Total:", *(f"Total:!!{label}" for label in labels)]
    bins = np.searchsorted(np.multiply(EDGES, 1000), people["income"], side="right")
    with (folder / "ACSDT5Y2022.B19001-Data.csv").open("w", newline="") as stream:
        out = csv.writer(stream, quoting=csv.QUOTE_ALL)
        out.writerow(["GEO_ID", "NAME", *(f"{code}{kind}" for code in codes for kind in "EM")])
        kinds = ("Estimate", "Margin of Error")
        out.writerow(
            ["Geography", "Geographic Area Name", *(f"{k}!!{n}" for n in names for k in kinds)]
        )
        for county, rows in people.groupby("county").indices.items():
            counts = np.bincount(bins[rows], minlength=len(labels))
            cells = [v for n in (counts.sum(), *counts) for v in (n, 5 + n // 3)]
            out.writerow([f"0500000US{county}", f"County {county}, Arkansas", *cells])
