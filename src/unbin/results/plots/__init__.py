"""Pictures of a fit (matplotlib): draw on ``ax``, or on a new figure, and return the Axes.

No picture touches the state of ``matplotlib.pyplot``; ``ax.figure.savefig("fit.svg")`` writes one.
Names of features and blocks are shown as they are: "$x$" is no formula.
"""

from unbin.results.plots.blocks import influence, observed_expected, residuals
from unbin.results.plots.drawing import BLUE, GREY, ORANGE, PALE, published, shorten
from unbin.results.plots.effects import effect
from unbin.results.plots.panels import histogram, histograms, recovered
from unbin.results.plots.progress import errors_by_bins, objective_path, permutation
from unbin.results.plots.releases import release
from unbin.results.plots.terms import coefficients, information

__all__ = [
    "BLUE",
    "GREY",
    "ORANGE",
    "PALE",
    "coefficients",
    "effect",
    "errors_by_bins",
    "histogram",
    "histograms",
    "influence",
    "information",
    "objective_path",
    "observed_expected",
    "permutation",
    "published",
    "recovered",
    "release",
    "residuals",
    "shorten",
]
