"""
Draw the curve of a feature with its interval
=============================================

Costs of care are high for small children, fall, and rise again with age. A straight line cannot
show that; a spline in the formula can. The outcome was published by county and by age group, and
``unbin.plots.effect`` draws the sum of all terms of age.
"""

import numpy as np
import pandas as pd

import unbin

rng = np.random.default_rng(9)
place = np.repeat(np.arange(40), 30)
people = pd.DataFrame({"county": [f"{c:02d}" for c in place]})
people["age"] = (90 * rng.beta(1 + rng.random(40)[place], 1.5)).round()
people["income"] = rng.normal(size=1200) + 0.5 * rng.normal(size=40)[place]
people["age_group"] = (people["age"] // 15).astype(int).astype(str)


def curve(age):
    return ((age - 30) / 30) ** 2


cost = curve(people["age"]) - 0.3 * people["income"] + rng.normal(size=1200)
tables = {by: unbin.aggregate(cost, people[by], bins=8) for by in ("county", "age_group")}

model = unbin.glm("ns(age, 4) + income", people, tables, family="gaussian")
ax = unbin.plots.effect(model, "age")
age = np.linspace(0, 90)
ax.plot(age, curve(age) - curve(45), "--", color=unbin.plots.ORANGE, label="simulated")
ax.lines[1].set_label("from two tables, with 95 % interval")
ax.legend(frameon=False)

# %%
# The line is the effect of age relative to the middle of its range, with all other columns as they
# are; the band is the 95 % interval at each age. Where the band is wide the tables say little, and
# where it includes 0 they do not distinguish that age from the middle one.
