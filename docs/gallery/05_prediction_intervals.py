"""
Say how far single people may lie from a prediction
===================================================

A model fitted to a table by county predicts means, and intervals for single people who were not in
the table. The intervals are wide, because people with the same schooling earn different incomes,
and no table changes that.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import unbin


def households(n_counties, rng):
    place = np.repeat(np.arange(n_counties), 100)
    schooling = (
        12 + rng.normal(size=n_counties)[place] + 2.5 * rng.normal(size=len(place))
    ).round()
    frame = pd.DataFrame({"county": place.astype(str), "schooling": schooling})
    return frame, np.exp(9.4 + 0.1 * schooling + 0.5 * rng.normal(size=len(place)))


people, income = households(80, np.random.default_rng(2))
table = unbin.aggregate(income, people["county"], bins=10)
model = unbin.glm("schooling", people, {"county": table}, family="gaussian", target_transform="log")

new, truth = households(4, np.random.default_rng(3))
years = pd.DataFrame({"schooling": np.arange(5, 20)})
low, high = model.predict_interval(years, level=0.9).T
inside = model.predict_interval(new, level=0.9)
share = np.mean((inside[:, 0] <= truth) & (truth <= inside[:, 1]))

fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
x, (low, high), mean = years["schooling"], np.array([low, high]) / 1e3, model.predict(years) / 1e3
ax.fill_between(x, low, high, alpha=0.2, linewidth=0, label="90 % interval for a household")
ax.plot(x, mean, label="mean")
ax.plot(new["schooling"], truth / 1e3, ".", markersize=4, label="new households")
ax.set(xlabel="years of schooling", ylabel="income in $1,000", xlim=(5, 19), ylim=(0, 150))
ax.legend(frameon=False, loc="upper left")
ax.spines[["top", "right"]].set_visible(False)
print(f"{share:.0%} of {len(new)} new households lie inside")

# %%
# Nine in ten points should lie in the band, with about as many above it as below. The band is
# ``predict_interval``; the standard error of the line is ``predict(…, return_std=True)`` and would
# hardly be visible here.
