"""Medicare beneficiaries of 2008: the CMS DE-SynPUF, synthetic and public."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import numpy as np

from unbin._typing import BoolArray, FloatArray, TextArray
from unbin.datasets.dataset import Dataset, numbers, require, texts
from unbin.datasets.download import cache_folder, fetch_zipped
from unbin.exceptions import ReadError
from unbin.people.reading import People, read_people

URL = (
    "https://www.cms.gov/research-statistics-data-and-systems/downloadable-public-use-files/"
    "synpufs/downloads/de1_0_2008_beneficiary_summary_file_sample_1.zip"
)
NAME = "DE1_0_2008_Beneficiary_Summary_File_Sample_1.csv"
SHA256 = (
    # CMS publishes no digests: these are of two public copies, by their sizes with CRLF and LF ends
    "3a8ca1a6540f5ffa1666e6f051ec0756e2212cda9ff9b4c18f0c1a1594f70fbe",
    "b83c724638bab8a2134b26b46ddec6f04938078cb32b7305227c3aba6814d7ac",
)
FILES = ("synpuf_2008_beneficiaries.parquet", NAME)
"""What the file may be called in a folder: several samples together, or the first one of CMS."""

CONDITIONS = (
    "ALZHDMTA", "CHF", "CHRNKIDN", "CNCR", "COPD", "DEPRESSN", "DIABETES", "ISCHMCHT", "OSTEOPRS",
    "RA_OA", "STRKETIA",
)  # fmt: skip
MONTHS = (
    "BENE_HI_CVRAGE_TOT_MONS", "BENE_SMI_CVRAGE_TOT_MONS", "BENE_HMO_CVRAGE_TOT_MONS",
    "PLAN_CVRG_MOS_NUM",
)  # fmt: skip
RACES = {"black": 2, "other": 3, "hispanic": 5}
AMOUNTS = tuple(f"{kind}_{of}" for of in ("IP", "OP", "CAR") for kind in
                ("MEDREIMB", "BENRES", "PPPYMT"))  # fmt: skip
_TEXT = ("BENE_BIRTH_DT", "BENE_DEATH_DT", "BENE_ESRD_IND", "BENE_COUNTY_CD")
_NUMBERS = (
    "BENE_SEX_IDENT_CD", "BENE_RACE_CD", "SP_STATE_CODE",
    *MONTHS, *(f"SP_{name}" for name in CONDITIONS), *AMOUNTS,
)  # fmt: skip
_END = date(2009, 1, 1).toordinal()


def load_synpuf(path: str | os.PathLike[str] | None = None) -> Dataset:
    """Return the living beneficiaries of the CMS DE-SynPUF 2008 Beneficiary Summary File.

    22 features: age at the start of 2009, under 65, female, three dummies of race, end-stage renal
    disease, eleven conditions, months of hospital, medical, HMO and drug coverage. Targets are the
    nine annual amounts in dollars, ``MEDREIMB_CAR`` for one. Blocks are counties: "05-200" is
    county 200 of the state that CMS numbers 05.

    Parameters
    ----------
    path : path, optional
        A file (CSV or Parquet), or a folder that holds one. Without it the folder ``UNBIN_DATA`` is
        looked at, then the cache (``UNBIN_CACHE``, or the user's); else the first sample of CMS is
        downloaded, checked and kept there.

    Raises
    ------
    ReadError
        There is no such file, or it is another one.
    DownloadError
        The file could not be fetched, or is not the published one.

    References
    ----------
    CMS 2008-2010 Data Entrepreneurs' Synthetic Public Use File (DE-SynPUF).

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.load_synpuf("synpuf_2008.csv")  # downloaded when left out
    >>> people.feature_names[:2], list(people.targets)[:2]
    (('age', 'under 65'), ['MEDREIMB_IP', 'BENRES_IP'])
    """
    return _dataset(_read(_find(path)))


def states(data: Dataset) -> FloatArray:
    """Return the CMS number of the state of each person, shape (n,): 5 is California."""
    return np.array([block.split("-", 1)[0] for block in data.blocks], dtype=np.float64)


def _find(path: str | os.PathLike[str] | None) -> Path:
    if path is not None:
        place = Path(path)
        found = place if place.is_file() else _in_folder(place)
        if found is None:
            raise ReadError(
                f"{place}: must be a file, or a folder with {' or '.join(FILES)}, got neither; "
                "check the path, or leave it out to download the file"
            )
        return found
    named = os.environ.get("UNBIN_DATA")
    cache = cache_folder()
    found = (_in_folder(Path(named)) if named else None) or _in_folder(cache)
    return found or fetch_zipped(URL, NAME, SHA256, cache)


def _in_folder(folder: Path) -> Path | None:
    return next((folder / name for name in FILES if (folder / name).is_file()), None)


def _read(path: Path) -> People:
    return read_people(str(path), text=_TEXT, columns=(*_TEXT, *_NUMBERS))


def _dataset(people: People) -> Dataset:
    living = texts(people, "BENE_DEATH_DT") == ""
    if not living.any():
        raise ReadError(f"{people.name}: must hold people alive at the end of 2008, got none")
    columns = _features(people)
    for name in _NUMBERS:
        values = numbers(people, name)
        require(people, name, np.isfinite(values), values, "a number")
    return Dataset(
        X=np.column_stack(
            [np.asarray(each, dtype=np.float64)[living] for each in columns.values()]
        ),
        feature_names=tuple(columns),
        targets={name: numbers(people, name)[living] for name in AMOUNTS},
        blocks=_counties(people)[living],
        n_dropped=int((~living).sum()),
    )


def _features(people: People) -> dict[str, FloatArray | BoolArray]:
    age = _age(people)
    race = numbers(people, "BENE_RACE_CD")
    columns: dict[str, FloatArray | BoolArray] = {
        "age": age,
        "under 65": age < 65,
        "female": numbers(people, "BENE_SEX_IDENT_CD") == 2,
    }
    columns |= {name: race == code for name, code in RACES.items()}
    columns |= {"ESRD": texts(people, "BENE_ESRD_IND") == "Y"}
    columns |= {name: numbers(people, f"SP_{name}") == 1 for name in CONDITIONS}
    columns |= {name: numbers(people, name) for name in MONTHS}
    return columns


def _age(people: People) -> FloatArray:
    born = texts(people, "BENE_BIRTH_DT")
    dates, place = np.unique(born, return_inverse=True)
    day = np.array([_day(text) for text in dates])[place]
    require(people, "BENE_BIRTH_DT", np.isfinite(day), born, "a date such as 19360901")
    return (_END - day) / 365.25


def _day(text: str) -> float:
    """Return the number of a day, NaN where the text is no date."""
    if not (len(text) == 8 and text.isdecimal()):
        return float("nan")
    try:
        return float(date(int(text[:4]), int(text[4:6]), int(text[6:])).toordinal())
    except ValueError:
        return float("nan")


def _counties(people: People) -> TextArray:
    county = texts(people, "BENE_COUNTY_CD")
    require(people, "BENE_COUNTY_CD", county != "", county, "a county code")
    state = numbers(people, "SP_STATE_CODE").astype(np.int64)
    return np.array([f"{s:02d}-{c}" for s, c in zip(state, county, strict=True)], dtype=np.str_)
