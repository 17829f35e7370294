"""Stored figures are what the code gives: a cheap part of every file in experiments/results."""

import numpy as np
import pytest

import first_runs
from tests.helpers.paths import EXPERIMENTS

STALE = "{} is stale: run its script in experiments/ again, then first_runs.py --store"


def test_every_stored_file_has_a_first_run():
    files = {path.stem for path in (EXPERIMENTS / "results").glob("*.csv")} - {"first_runs"}
    assert files == set(first_runs.FIRST) | set(first_runs.FIRST_OF_REAL)
    assert set(first_runs.stored()) == files


@pytest.mark.parametrize("name", list(first_runs.FIRST))
def test_stored_figures_are_those_of_the_code(name):
    close(name, first_runs.first_run(name))


@pytest.mark.parametrize("name", list(first_runs.FIRST_OF_REAL))
def test_stored_figures_of_real_people_are_those_of_the_code(name, real_data):
    close(name, first_runs.first_run(name, real_data))


def close(name, found):
    tolerance = {"rtol": first_runs.CLOSE, "atol": first_runs.CLOSE}
    np.testing.assert_allclose(
        found, first_runs.stored()[name], **tolerance, err_msg=STALE.format(name)
    )
