"""Log Medicare payments of Californians, by county (CMS DE-SynPUF 2008)."""

import several_tables
from studies.registry import People, Study


def load() -> People:
    """Return the people of the experiments' loader."""
    found = several_tables.california()
    return People(found.X, found.y, found.tables)


STUDY = Study("SynPUF", __doc__, "gaussian", load, needs_data=True)
