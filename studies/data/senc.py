"""Party registration by race, by precinct (South-eastern North Carolina, R package eiPack)."""

import os

import numpy as np

import votes
from studies.registry import Study, Votes


def load() -> Votes:
    """Return the precincts; a second table would be by county."""
    with open(f"{os.environ['UNBIN_DATA']}/{votes.SENC}", encoding="utf-8") as file:
        county = [line.split(",")[0].strip('"') for line in file][1:]
    names, cells, groups = votes.senc(os.environ["UNBIN_DATA"])
    return Votes(names, np.array(county), tuple(groups.tolist()), votes.PARTIES, cells)


STUDY = Study("senc", __doc__, "votes", load, needs_data=True)
