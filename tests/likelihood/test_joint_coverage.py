"""Slopes from several tables in few data sets; experiments/several_tables_coverage.py has more.

The squares of errors over standard errors have mean 1 where these are right. Over m of them that
mean has a standard deviation of about √(2 / m), and limits are four of these; seeds are fixed.
"""

import numpy as np
import pytest

import several_tables_coverage as several


def spread(scene, effects, runs):
    found = [several.one_run(scene, effects, seed) for seed in range(runs)]
    assert all(run.solved for run in found)
    return found, float(np.mean([(run.error / run.se) ** 2 for run in found]))


@pytest.mark.parametrize("effects", [False, True])
def test_standard_errors_are_those_of_the_slopes(effects):
    found, ratio = spread("three tables", effects, 40)
    assert 0.48 < ratio < 1.52  # 120 slopes
    # 95 % of 40 intervals: 4 standard errors of .034 below
    assert (np.mean([run.covers for run in found], axis=0) > 0.81).all()
    # the prototype's errors; an RMSE of 40 has a standard error of 11 %
    rmse = np.sqrt(np.mean([run.error**2 for run in found], axis=0))
    prototype = np.array(several.PROTOTYPE["three tables", effects])
    assert (rmse < 1.45 * prototype).all()
    sd = np.mean([run.block_sd for run in found])
    assert abs(sd - several.EFFECT_SD * effects) < 0.04


@pytest.mark.parametrize(
    "scene",
    [
        "different bins",
        "means by county",
        "ages of insured only",
        "suppressed 1 to 10",
        "rounded to 5",
        "quartiles by county",
        "noise by sex",
        "poisson",
        "binomial",
        "ordinal",
    ],
)
def test_other_tables_and_families(scene):
    _, ratio = spread(scene, True, 8)
    assert 0.1 < ratio < 2.2  # 24 slopes


def test_counties_alone_say_much_less_of_what_varies_within_them():
    together, alone = (
        several.one_run(scene, True, 0) for scene in ("three tables", "county alone")
    )
    assert (together.se[:2] < 0.3 * alone.se[:2]).all()
