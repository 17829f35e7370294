"""
Let people of a county share what no feature explains
=====================================================

Prices, weather, a good hospital: people of a county share things that are not in the data. The
model allows for them by a random block intercept, whose standard deviation is ``block_sd_``. Here
it was simulated, so the estimates can be compared with the truth.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import unbin

rng = np.random.default_rng(4)
place = np.repeat(np.arange(100), 60)
people = pd.DataFrame({"county": [f"{c:02d}" for c in place]})
people["age"] = rng.normal(size=6000) + 0.5 * rng.normal(size=100)[place]
shared = 0.5 * rng.normal(size=100)  # by county, in no column
shared -= shared.mean()
cost = people["age"] + shared[place] + rng.normal(size=6000)
table = unbin.aggregate(cost, people["county"], bins=6)

model = unbin.glm("age", people, {"county": table}, family="gaussian")
recovered = pd.Series(model.impute() - model.predict(people)).groupby(place).mean()
print(f"standard deviation: {shared.std():.2f} simulated, {model.block_sd_:.2f} estimated")

fig, ax = plt.subplots(figsize=(4.4, 4), layout="constrained")
ax.axline((0, 0), slope=1, color=unbin.plots.GREY, linewidth=0.8)
ax.plot(shared, recovered, "o", color=unbin.plots.BLUE, markersize=4, alpha=0.7)
ax.set(xlabel="simulated effect of the county", ylabel="imputed less predicted outcome")
ax.set_aspect("equal")
ax.spines[["top", "right"]].set_visible(False)

# %%
# Each point is a county: how far its people lie above or below what their features suggest. Points
# along the line mean that the table recovers the effects of counties. At the ends they lie between
# the line and 0: estimates of random effects are shrunk.
