"""Families of distributions, one per file, and their registry."""

from __future__ import annotations

from numbers import Integral

from unbin.exceptions import ParameterError
from unbin.families.base import BinModel, BregmanFamily, DensityModel, Family, Interval, Units
from unbin.families.beta_binomial import BetaBinomial
from unbin.families.binomial import Binomial
from unbin.families.gamma import Gamma
from unbin.families.gaussian import Gaussian
from unbin.families.negative_binomial import NegativeBinomial
from unbin.families.ordinal import Ordinal
from unbin.families.poisson import Poisson

__all__ = [
    "FAMILIES",
    "MULTINOMIAL",
    "BetaBinomial",
    "BinModel",
    "Binomial",
    "BregmanFamily",
    "DensityModel",
    "Family",
    "Gamma",
    "Gaussian",
    "Interval",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Units",
    "get_family",
]

FAMILIES: dict[str, type[Family]] = {
    family.name: family
    for family in (Gaussian, Poisson, Binomial, Gamma, NegativeBinomial, BetaBinomial, Ordinal)
}
"""Every family by its name; a new one is one file and one entry here."""

MULTINOMIAL = "multinomial"
"""What ``unbin.glm`` calls the model of categories, which no family of numbers is."""


def get_family(name: str, n_trials: int = 1) -> Family:
    """Return the family called ``name``; ``n_trials`` is read by families that count trials."""
    if isinstance(name, str) and name == MULTINOMIAL:
        raise ParameterError(
            f"family: {MULTINOMIAL!r} is for categories, got a model of numbers; use "
            "unbin.AggregatedClassifier, or unbin.glm with a table of categories"
        )
    if not isinstance(name, str) or name not in FAMILIES:
        known = ", ".join(repr(known) for known in FAMILIES)
        raise ParameterError(f"family: unknown, got {name!r}; use one of {known}")
    if isinstance(n_trials, bool) or not isinstance(n_trials, Integral) or n_trials < 1:
        raise ParameterError(
            f"n_trials: must be a whole number of at least 1, got {n_trials!r}; correct it"
        )
    return FAMILIES[name].make(n_trials=int(n_trials))
