"""
Who voted for whom: groups by categories
========================================

A register has everybody's race and precinct; the votes are published only as counts by precinct.
The classifier estimates the cells of race by party, and ``unbin.plots.cells`` draws them with
intervals.
"""

import numpy as np
import pandas as pd

import unbin

rng = np.random.default_rng(7)
precinct = np.repeat(np.arange(80), 200)
shares = rng.dirichlet([1.0, 0.6, 1.6], 80)
race = (rng.random(16_000)[:, None] > shares.cumsum(axis=1)[precinct]).sum(axis=1).clip(max=2)
logits = np.array([[1.5, -0.5, -1.0], [0.2, 0.4, -0.3], [-0.3, 0.0, 0.6]])[race]
logits = logits + 0.2 * rng.normal(size=(80, 3))[precinct]
vote = np.array(["dem", "none", "rep"])[(logits + rng.gumbel(size=logits.shape)).argmax(axis=1)]
people = pd.DataFrame({"precinct": precinct, "race": np.array(["black", "other", "white"])[race]})

votes = unbin.aggregate(vote, people["precinct"])  # all that is published
model = unbin.glm("race", people, {"precinct": votes}, random=["race"])
ax = unbin.plots.cells(model)
print(pd.crosstab(people["race"], vote, normalize="index").round(3))  # the truth

# %%
# Each row is a group and adds up to 100 %; the darker a cell, the larger its share of the group.
# Below each share is its 95 % interval. The intervals do not cover what no table of margins can
# show: whether a group votes differently where it is large.
