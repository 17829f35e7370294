"""Columns whose names say which statistic they hold: quantiles, means, people."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PERCENTILE = re.compile(
    r"(?:.*[ _])?(?:p|q|pct|perc|percentile|quantile)[ _]?(?P<behind>0?\.\d+|\d{1,2}(?:\.\d+)?)|"
    r"(?:.*[ _])?(?P<before>\d{1,2})(?:st|nd|rd|th)?[ _](?:percentile|pctl?)(?:[ _].*)?",
    re.I,
)
_PERCENT = re.compile(r"(\d{1,2})%")
_MEDIAN = re.compile(r"(?:.*[ _])?median(?:[ _].*)?", re.I)
_QUARTILE = re.compile(r"(?:(lower|first|1st)|(upper|third|3rd)) quartile(?:[ _].*)?", re.I)
_MEAN = re.compile(r"(?:.*[ _])?(?:mean|average|avg)(?:[ _].*)?", re.I)
_SPREAD = re.compile(
    r"(?:.*[ _])?(?:sd|std|stdev|st\.? ?dev\.?|se|stderr|variance|var|cv|iqr|min|max|minimum|"
    r"maximum|standard (?:deviation|error))(?:[ _].*)?",
    re.I,
)
_PEOPLE = re.compile(
    r"n|counts?|freq|frequency|people|persons|households|population|number|size|cases|obs|"
    r"observations|respondents|sample size|(?:number|no\.?|n) of .*|n[ _].*",
    re.I,
)


def is_mean(name: str) -> bool:
    """Tell a column of means; "mean sd" is none."""
    return _MEAN.fullmatch(name) is not None and not is_spread(name)


def is_spread(name: str) -> bool:
    """Tell a column of standard deviations, standard errors, extremes."""
    return _SPREAD.fullmatch(name) is not None


def is_people(name: str) -> bool:
    """Tell a column that says how many people a block has."""
    return _PEOPLE.fullmatch(name) is not None


def probabilities(header: Sequence[str]) -> dict[str, float]:
    """Return the probabilities of columns of quantiles.

    "25%" is a quantile beside a mean or a standard deviation only, and Q1 and Q3 are quartiles
    beside a median only: elsewhere they may be shares and quarters of a year.

    Examples
    --------
    >>> probabilities(["area", "p10", "median", "75th percentile"])
    {'p10': 0.1, 'median': 0.5, '75th percentile': 0.75}
    >>> probabilities(["area", "Q1", "Q2", "Q3", "Q4"])
    {}
    """
    described = any(is_mean(name) or is_spread(name) for name in header)
    quarters = any(name.casefold() in ("q2", "q4") for name in header)
    quartiles = not quarters and any(_MEDIAN.fullmatch(name) for name in header)
    found: dict[str, float] = {}
    for name in header:
        if is_spread(name):
            continue
        percent = _PERCENT.fullmatch(name)
        quartile = _QUARTILE.fullmatch(name)
        percentile = _PERCENTILE.fullmatch(name)
        if _MEDIAN.fullmatch(name):
            found[name] = 0.5
        elif quartile:
            found[name] = 0.25 if quartile[1] else 0.75
        elif name.casefold() in ("q1", "q3", "q2", "q4"):
            if quartiles:
                found[name] = int(name[1]) / 4
        elif percent and described:
            found[name] = float(percent[1]) / 100
        elif percentile:
            digits = percentile["behind"] or percentile["before"]
            found[name] = (
                float(digits) if digits.lstrip("0").startswith(".") else float(digits) / 100
            )
    if found and max(found.values()) < 0.1:  # p1, p2, p3 may be anything
        return {}
    return {name: p for name, p in found.items() if 0 < p < 1}
