"""Families of distributions, one per file, and their registry."""

from __future__ import annotations

from numbers import Integral

from unbin.exceptions import ParameterError
from unbin.families.base import Family, Interval
from unbin.families.binomial import Binomial
from unbin.families.gaussian import Gaussian
from unbin.families.poisson import Poisson

__all__ = ["FAMILIES", "Binomial", "Family", "Gaussian", "Interval", "Poisson", "get_family"]

FAMILIES: dict[str, type[Family]] = {
    family.name: family for family in (Gaussian, Poisson, Binomial)
}
"""Every family by its name; a new one is one file and one entry here."""


def get_family(name: str, n_trials: int = 1) -> Family:
    """Return the family called ``name``; ``n_trials`` is read by families that count trials."""
    if name not in FAMILIES:
        known = ", ".join(repr(known) for known in FAMILIES)
        raise ParameterError(f"family: unknown, got {name!r}; use one of {known}")
    if isinstance(n_trials, bool) or not isinstance(n_trials, Integral) or n_trials < 1:
        raise ParameterError(f"n_trials: must be a whole number of at least 1, got {n_trials!r}")
    return FAMILIES[name].make(n_trials=int(n_trials))
