"""People in counties that lie in states."""

from dataclasses import dataclass

import numpy as np

import clusters
import unbin

SLOPES = np.array([0.5, -0.3])


@dataclass(frozen=True)
class States:
    """Features, outcomes, and the ids of counties and of the states that these lie in."""

    X: np.ndarray
    y: np.ndarray
    county: np.ndarray
    state: np.ndarray

    def target(self, bins=7):
        return unbin.aggregate(self.y, self.county, bins).align(self.county)


def states(
    seed=0, *, n=20, counties=8, people=40, sd=0.0, family="gaussian", county_sd=0.0
) -> States:
    rng = np.random.default_rng([seed, n])
    X, eta, code = clusters.people(rng, n, counties, people, SLOPES, sd)
    of = code // counties
    eta += county_sd * rng.normal(size=n * counties)[code]
    y = clusters.draw(family, eta, rng)
    county = np.char.add(numbered(of + 1, 2), numbered(2 * (code % counties) + 1, 3))
    return States(X, y, county, numbered(of + 1, 2))


def numbered(code, width):
    """Return codes as text of a width, as FIPS codes are written."""
    return np.char.zfill(code.astype(str), width)
