"""Voters in precincts, of whom only the votes of each precinct are published."""

from dataclasses import replace

import numpy as np
import pandas as pd

import unbin

RACES, PARTIES = ("black", "other", "white"), ("dem", "non", "rep")


def voters(n_precincts=40, size=200, seed=0):
    """Return voters with a race, an age and a vote; precincts differ in their races."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet([1.0, 0.6, 1.6], n_precincts)
    place = np.repeat(np.arange(n_precincts), size)
    draws = rng.random(len(place))[:, None]
    race = (draws > shares.cumsum(axis=1)[place]).sum(axis=1).clip(max=2)
    age = rng.normal(size=len(place)) + rng.normal(size=n_precincts)[place]
    logits = np.array([[1.5, -0.5, -1.0], [0.2, 0.4, -0.3], [-0.3, 0.0, 0.6]])[race]
    logits = logits + 0.4 * age[:, None] * [-1, 0, 1]
    vote = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return pd.DataFrame(
        {
            "precinct": [f"p{b:02d}" for b in place],
            "race": np.array(RACES)[race],
            "age": age.round(3),
            "vote": np.array(PARTIES)[vote],
        }
    )


def published(people, *, public=False):
    """Return the votes of each precinct."""
    release = unbin.aggregate(people["vote"], people["precinct"])
    return replace(release, public=public)
