"""Visits to a doctor, by 25 rows that follow each other (RAND HIE, statsmodels)."""

import randhie
from studies.registry import People, Study
from studies.tables import one_way


def load() -> People:
    """Return the years of people; neighbours in the file are a person's years and their family."""
    X, visits = randhie.load()
    return People(X, visits, one_way(randhie.blocks_of("file order", len(visits)), X))


STUDY = Study("RAND HIE", __doc__, "poisson", load)
