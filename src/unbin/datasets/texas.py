"""Texas inpatient discharges: the public-use data file in its published tab-separated layout."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from unbin._typing import BoolArray, FloatArray, TextArray
from unbin.datasets.dataset import Dataset, numbers, require, texts
from unbin.exceptions import ReadError
from unbin.people.reading import People, read_people

COUNTY = ("PAT_COUNTY", "COUNTY")
"""The county of the patient: the name has changed with the years."""
RACES = {"American Indian": "1", "Asian": "2", "black": "3", "other": "5"}
"""Codes of races; white (4) is the reference."""
AGES = (
    0.0, 0.5, 3, 7.5, 12.5, 16.5, 19, 22.5, 27.5, 32.5, 37.5, 42.5, 47.5, 52.5, 57.5, 62.5, 67.5,
    72.5, 77.5, 82.5, 87.5, 93, 9, 31.5, 55, 70, 81,
)  # fmt: skip
"""The middle of each age group; groups from 22 on are the wider ones of protected patients."""
_TEXT = ("SEX_CODE", "RACE", "ETHNICITY", "PAT_AGE")
_NUMBERS = ("LENGTH_OF_STAY", "TOTAL_CHARGES")


def load_texas(path: str | os.PathLike[str]) -> Dataset:
    """Return inpatients of the Texas Inpatient Public Use Data File (base data, tab-separated).

    The file is distributed under a use agreement by the Texas Department of State Health Services;
    it is neither shipped nor downloaded. Eight features: log length of stay, age (the middle of its
    group), female, four dummies of race, Hispanic. Targets: ``charges`` in dollars and
    ``length_of_stay`` in days. Blocks are counties of patients. Left out are patients whose sex,
    race, ethnicity, age or county is not recorded, and those without charges.

    Parameters
    ----------
    path : path
        The file, gzipped or not.

    Raises
    ------
    ReadError
        There is no such file, or it is in another layout.

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.load_texas("texas_4q2006.txt")
    >>> people.feature_names[:3]
    ('log length of stay', 'age', 'female')
    """
    place = Path(path)
    people = read_people(
        str(place), text=(*_TEXT, *COUNTY), columns=(*_TEXT, *_NUMBERS, _county_column(place))
    )
    return _dataset(people)


def _county_column(path: Path) -> str:
    """Return what the file calls the county."""
    names = read_people(str(path), text=(), columns=("LENGTH_OF_STAY",)).names
    for name in COUNTY:
        if name in names:
            return name
    raise ReadError(
        f"{path.name}: must have the column {COUNTY[0]!r} or {COUNTY[1]!r}, got neither; pass the "
        "base data of the public-use file"
    )


def _dataset(people: People) -> Dataset:
    sex, race, ethnicity = (texts(people, name) for name in ("SEX_CODE", "RACE", "ETHNICITY"))
    county = texts(people, next(name for name in COUNTY if name in people.columns))
    stay, charges, age = (*(numbers(people, name) for name in _NUMBERS), _age(people))
    require(people, "LENGTH_OF_STAY", ~(stay < 0), stay, "a number of days")
    told = np.isin(sex, ["F", "M"]) & np.isin(race, ["4", *RACES.values()])
    told &= np.isin(ethnicity, ["1", "2"]) & np.isfinite(age) & np.isfinite(stay)
    told &= _is_code(county) & (charges > 0)
    if not told.any():
        raise ReadError(
            f"{people.name}: must hold patients whose sex, race, age, county and charges are "
            "recorded, got none; check that this is the published file"
        )
    columns = {"log length of stay": np.log(np.maximum(stay, 1)), "age": age, "female": sex == "F"}
    columns |= {name: race == code for name, code in RACES.items()}
    columns |= {"hispanic": ethnicity == "1"}
    return Dataset(
        X=np.column_stack([np.asarray(each, dtype=np.float64)[told] for each in columns.values()]),
        feature_names=tuple(columns),
        targets={"charges": charges[told], "length_of_stay": stay[told]},
        blocks=county[told],
        n_dropped=int((~told).sum()),
    )


def _age(people: People) -> FloatArray:
    """Return the middle of the age group, NaN where it is not recorded."""
    codes = texts(people, "PAT_AGE")
    middle = {f"{code:02d}": age for code, age in enumerate(AGES)}
    known = np.array([code in middle or code in ("", "`", "*") for code in codes])
    require(people, "PAT_AGE", known, codes, f"an age group from 00 to {len(AGES) - 1}")
    return np.array([middle.get(code, np.nan) for code in codes])


def _is_code(county: TextArray) -> BoolArray:
    """Say which counties are recorded: "`" is invalid, and "*" hidden."""
    return np.array([code.isalnum() for code in county])
