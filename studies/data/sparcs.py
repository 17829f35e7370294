"""Log hospital charges, by county of the hospital (New York SPARCS 2020)."""

import several_tables
from studies.registry import People, Study


def load() -> People:
    """Return the people of the experiments' loader."""
    found = several_tables.charges()
    return People(found.X, found.y, found.tables)


STUDY = Study("SPARCS", __doc__, "gaussian", load, needs_data=True)
