"""What a page of documentation takes as given: files in the reader's folder, names in a session."""

import shutil

import numpy as np
import pandas as pd

import unbin
from tests.helpers import acs
from tests.helpers.cli import write_release
from tests.helpers.paths import FIXTURES
from tests.helpers.people import simulate_patients
from tests.helpers.precincts import voters
from tests.helpers.slid import write_files

COMMUNES = """\
Commune code,Year,Household expenditure,Households
0101,2015,0 to 9,5
0101,2015,10 or more,7
0101,2016,0 to 9,6
0101,2016,10 or more,7
0102,2015,0 to 9,1
0102,2015,10 or more,2
0102,2016,0 to 9,3
0102,2016,10 or more,4
"""


def readme(folder):
    """Give the patients and their table."""
    people = simulate_patients().round(3)
    people.to_csv(folder / "people.csv", index=False)
    write_release(people, folder / "release.csv")
    return {}


def first_table(folder):
    """Give households of Arkansas and the table of their incomes."""
    acs.write_files(folder)
    return {}


def walkthrough(folder):
    """Give earners of Ontario and two tables of their wages."""
    write_files(folder)
    return {}


def fitting(folder):
    """Give a table of deaths by age."""
    shutil.copy(FIXTURES / "wonder_ages.txt", folder)
    return {}


def reading(folder):
    """Give a table of the census, and one of two years."""
    shutil.copy(FIXTURES / "acs_b19001.csv", folder / "ACSDT5Y2022.B19001-Data.csv")
    (folder / "communes.csv").write_text(COMMUNES)
    return {"unbin": unbin}


def larger(folder):
    """Give people in Parquet files and in a frame, and the table of their counties, also a file."""
    rng = np.random.default_rng(0)
    county = np.repeat([f"{c:03d}" for c in range(60)], 20)
    values = rng.normal(size=(1200, 3)) + 0.5 * rng.normal(size=(60, 3)).repeat(20, axis=0)
    people = pd.DataFrame(values, columns=["age", "income", "visits"]).assign(county=county)
    people["zip"] = pd.Categorical(rng.choice([f"{z:05d}" for z in range(9)], 1200))
    release = unbin.aggregate(values @ [1, -0.5, 0.3] + rng.normal(size=1200), county, bins=5)
    (folder / "people").mkdir()
    people.iloc[:600].to_parquet(folder / "people" / "a.parquet")
    people.iloc[600:].to_parquet(folder / "people" / "b.parquet")
    release.to_frame().rename(columns={"block": "county"}).to_csv(
        folder / "county.csv", index=False
    )
    return {"unbin": unbin, "people": people, "release": release}


def categories(folder):
    """Give voters, and their votes by precinct."""
    people = voters()
    people.to_csv(folder / "voters.csv", index=False)
    counts = people.groupby(["precinct", "vote"]).size().rename("count").reset_index()
    counts.rename(columns={"vote": "party"}).to_csv(folder / "votes.csv", index=False)
    return {}


GIVEN = {
    "README.md": readme,
    "docs/howto/categories.md": categories,
    "docs/howto/cluster.md": larger,
    "docs/howto/files.md": larger,
    "docs/howto/fitting.md": fitting,
    "docs/howto/larger.md": larger,
    "docs/howto/publishing.md": first_table,
    "docs/howto/reading.md": reading,
    "docs/howto/walkthrough.md": walkthrough,
    "docs/start/first_table.md": first_table,
}
"""What writes a page's files into a folder and returns its names; nothing for other pages."""
