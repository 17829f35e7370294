"""
Weigh what a table is good for against what it gives away
=========================================================

A data steward plans a table of incomes: for everybody, by region or by county, in two to ten bins.
The audit makes each table, guesses everybody's income from it and from the features, and compares
the coefficients that an analyst would get with those from individual data.
"""

import matplotlib.pyplot as plt
import numpy as np

import unbin

rng = np.random.default_rng(8)
county = np.repeat(np.arange(60), 60)
X = rng.normal(size=(3600, 3)) + 0.3 * rng.normal(size=(60, 3))[county]
income = X @ [1.0, -0.5, 0.3] + 1.5 * rng.normal(size=3600)
planned = {"everybody": None, "region": county // 5, "county": county}

audit = unbin.audit(
    X,
    income,
    planned,
    bins=[2, 3, 10],
    together=False,
    attacks="likelihood",
    families="gaussian",
    random_state=0,
)

fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
colours = {"region": unbin.plots.ORANGE, "county": unbin.plots.BLUE}
beside = dict.fromkeys(("region, 3 bins", "region, 10 bins"), (-7, 0, "right"))
beside["county, 3 bins"] = (2, -12, "left")
small = {"textcoords": "offset points", "fontsize": 9}
for table in audit.tables:
    x, y, colour = table.utility.value, table.gain, colours.get(table.level, unbin.plots.GREY)
    ax.plot(x, y, "o", mec=colour, mfc=colour if table.cells.within_rule else "white")
    if table.level != "everybody":
        right, up, side = beside.get(table.plan, (7, 0, "left"))
        ax.annotate(table.plan, (x, y), (right, up), ha=side, va="center", **small)
ax.annotate("everybody,\nany bins", (0, 0), (7, 2), **small)
ax.set(xlim=(-0.05, 1.1), ylim=(-0.02, 0.45), ylabel="gain of the best attack")
ax.set_xlabel("utility: 1 less the distance from the coefficients of individual data")
ax.spines[["top", "right"]].set_visible(False)

# %%
# Tables further to the right are more useful, those further up disclose more. Hollow tables have
# counts under 11, which the rule of the audit forbids. Gain and utility rise together, because a
# model that explains incomes well also guesses them well; if two tables are equally useful, take
# the one that is lower, filled, or has fewer bins.
