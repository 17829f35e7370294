"""Pictures of a fit (matplotlib): draw on ``ax``, or on a new figure, and return the Axes.

No picture touches the state of ``matplotlib.pyplot``; ``ax.figure.savefig("fit.svg")`` writes one.
Names of features and blocks are shown as they are: "$x$" is no formula.
"""

from unbin.results.plots.blocks import (
    draw_influence,
    influence,
    levels_of,
    observed_expected,
    residuals,
)
from unbin.results.plots.coefficients import coefficients, differ_wildly, information
from unbin.results.plots.drawing import BLUE, GREY, ORANGE, PALE, published, shorten
from unbin.results.plots.effects import curved_columns, effect
from unbin.results.plots.histograms import histogram, histograms, recovered
from unbin.results.plots.progress import errors_by_bins, objective_path, permutation

__all__ = [
    "BLUE",
    "GREY",
    "ORANGE",
    "PALE",
    "coefficients",
    "curved_columns",
    "differ_wildly",
    "draw_influence",
    "effect",
    "errors_by_bins",
    "histogram",
    "histograms",
    "influence",
    "information",
    "levels_of",
    "objective_path",
    "observed_expected",
    "permutation",
    "published",
    "recovered",
    "residuals",
    "shorten",
]
