"""Log household income, by Austrian district (R package emdi; synthetic)."""

import trust_real
from studies.registry import People, Study


def load() -> People:
    """Return the people of the experiments' loader."""
    found = trust_real.eusilc()
    return People(found.X, found.y, found.tables)


STUDY = Study("eusilcA", __doc__, "gaussian", load, needs_data=True)
