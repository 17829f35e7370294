"""
Find the block that does not belong
===================================

Sixty counties publish costs in six bins, but county 17 counted in other units. One block like this
can move a coefficient. The residual of a block says how far its published histogram lies from what
the fit expects of its people, in standard deviations.
"""

import numpy as np
import pandas as pd

import unbin

rng = np.random.default_rng(1)
place = np.repeat(np.arange(60), 50)
people = pd.DataFrame({"county": [f"county {c}" for c in place]})
people["age"] = rng.normal(size=3000) + 0.5 * rng.normal(size=60)[place]
cost = 4 + people["age"] + rng.normal(size=3000)
cost[place == 17] *= 1.3  # another currency
table = unbin.aggregate(cost, people["county"], bins=6)

model = unbin.glm("age", people, {"county": table}, family="gaussian")
ax = unbin.plots.residuals(model)

# %%
# If the model is right, 95 % of the blocks lie in the grey band, without a trend; the farthest
# ones outside are named. County 17 stands out. ``unbin.plots.influence(model)`` shows whether it
# matters, and for which coefficient.
