"""Pictures of a fit (matplotlib): draw on ``ax``, or on a new figure, and return the Axes.

No picture touches the state of ``matplotlib.pyplot``; ``ax.figure.savefig("fit.svg")`` writes one.
Names of features and blocks are shown as they are: "$x$" is no formula.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unbin._checks import check_package

if TYPE_CHECKING:
    from unbin.results.plots.blocks import influence, observed_expected, residuals
    from unbin.results.plots.categories import cells
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
    "cells",
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

_HOME = {
    name: module
    for module, names in {
        "blocks": ("influence", "observed_expected", "residuals"),
        "categories": ("cells",),
        "drawing": ("BLUE", "GREY", "ORANGE", "PALE", "published", "shorten"),
        "effects": ("effect",),
        "panels": ("histogram", "histograms", "recovered"),
        "progress": ("errors_by_bins", "objective_path", "permutation"),
        "releases": ("release",),
        "terms": ("coefficients", "information"),
    }.items()
    for name in names
}
"""Where each of them lives; loaded when it is first used, because matplotlib may be absent."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'unbin.plots' has no attribute {name!r}")
    check_package(f"unbin.plots.{name}", "matplotlib", "plots")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
