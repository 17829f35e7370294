"""
Fit a table of medians and quartiles
====================================

Some agencies publish quantiles, not counts: the quartiles of rent in each county. A quartile is an
order statistic of the people of its block, and the model is fitted to these values as they are.
"""

import numpy as np
import pandas as pd
from scipy.stats import norm

import unbin

rng = np.random.default_rng(5)
place = np.repeat(np.arange(60), 80)
people = pd.DataFrame({"county": [f"{c:02d}" for c in place]})
people["rooms"] = 3 + rng.normal(size=60)[place] + rng.normal(size=4800)
rent = pd.Series(200 + 150 * people["rooms"] + 120 * rng.normal(size=4800), name="rent")

quartiles = rent.groupby(people["county"]).quantile([0.25, 0.5, 0.75], interpolation="lower")
published = quartiles.rename_axis(["county", "quantile"]).reset_index()
release = unbin.Release.from_quantiles(published, block="county", value="rent")
model = unbin.glm("rooms", people, {"county": release}, family="gaussian")

medians = published[published["quantile"] == 0.5].set_index("county")["rent"]
low, high = medians.idxmin(), medians.idxmax()
ax = release.plot(low)
release.plot(high, ax=ax)

rents = np.linspace(0, 1600)
for county, colour in ((low, unbin.plots.BLUE), (high, unbin.plots.GREY)):
    mean = model.predict(people[people["county"] == county])
    share = norm.cdf(rents[:, None], mean, np.sqrt(model.dispersion_)).mean(axis=1)
    ax.plot(rents, share, color=colour, label=f"fitted, county {county}")
ax.set_title("")
ax.set_title("", loc="left")
ax.set(xlabel="monthly rent", xlim=(0, 1600))
ax.legend(frameon=False)

# %%
# Orange points are the published quartiles of the cheapest and the dearest county; curves are what
# the fit expects there: the share of people who pay up to a given rent. A curve through its three
# points reproduces its county. ``unbin.plots.observed_expected(model)`` shows all counties at
# once.
